package config

import (
	"errors"
	"regexp"
	"time"
)

// ErrDuration: a text that is no duration.
var ErrDuration = errors.New("not a duration: write it as 90s, 15m, 15min, 1h30m or 24h")

// minutes ends at a digit or the end: 15mins is not 15 ms.
var minutes = regexp.MustCompile(`([0-9.])min([0-9.]|$)`)

// ParseDuration reads Go's durations (15m, 24h, 1h30m) and also 15min.
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(minutes.ReplaceAllString(text, "${1}m${2}"))
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
