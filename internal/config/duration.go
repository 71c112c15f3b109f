package config

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ErrDuration: a text that is no duration.
var ErrDuration = errors.New("not a duration: write it as 90s, 15m, 15min, 1h30m, 24h or 30d")

// minutes ends at a digit or the end: 15mins is not 15 ms.
var minutes = regexp.MustCompile(`([0-9.])min([0-9.]|$)`)

// days are the unit that Go's durations lack; a day is 24 hours here, whatever a clock does in the night.
var days = regexp.MustCompile(`^([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)d`)

const hoursOfADay = 24

// ParseDuration reads Go's durations (15m, 24h, 1h30m), and also 15min, 30d and 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	text = minutes.ReplaceAllString(text, "${1}m${2}")
	if m := days.FindStringSubmatch(text); m != nil {
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil || math.IsInf(n, 0) {
			return 0, ErrDuration
		}
		text = m[1] + strconv.FormatFloat(n*hoursOfADay, 'f', -1, 64) + "h" + strings.TrimPrefix(text, m[0])
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, ErrDuration
	}
	return d, nil
}

// showDuration writes a duration as a person would: 1m, 24h, 10s.
func showDuration(d time.Duration) string {
	s := d.String()
	for _, tail := range []string{"m0s", "h0m"} {
		if len(s) > len(tail) && s[len(s)-len(tail):] == tail {
			s = s[:len(s)-2]
		}
	}
	return s
}
