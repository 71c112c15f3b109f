package enroll

import (
	"fmt"
	"strings"
	"time"
)

// Arm opens the auto-approve window for d from now on, in the place of one that is open, and approves the rows that
// already wait without a mark. The caller commits their admissions.
func (l *List) Arm(now time.Time, d time.Duration) (admit []RowID, err error) {
	if err := checkWindow(d); err != nil {
		return nil, err
	}
	l.expire(now)
	l.armed, l.armedAt, l.until = true, now, now.Add(d)
	for _, r := range l.sorted() {
		if r.Decision == Waiting && !r.marked() {
			l.auto(now, r)
			admit = append(admit, r.RowID())
		}
	}
	return admit, nil
}

// auto approves a row by the window.
func (l *List) auto(now time.Time, r *row) {
	r.ArmedAt = l.armedAt
	l.decide(now, r, ApprovedAuto)
}

// marked: the same id was asked for under two keys, or the key was rejected under another id. Such a row is never approved but
// by a person.
func (r *row) marked() bool { return r.ConflictRow || r.ConflictMember || r.KeyRejected }

// Off ends the window.
func (l *List) Off(time.Time) { l.armed = false }

// Window returns how long the window stays open and when it was armed; ok is false while none is.
func (l *List) Window(now time.Time) (left time.Duration, armedAt time.Time, ok bool) {
	if !l.armed || !now.Before(l.until) {
		return 0, time.Time{}, false
	}
	return l.until.Sub(now), l.armedAt, true
}

// MinutesLeft rounds up: the last minute is 1.
func MinutesLeft(left time.Duration) int { return int((left + time.Minute - 1) / time.Minute) }

func checkWindow(d time.Duration) error {
	switch {
	case d <= 0:
		return fmt.Errorf("%w: %s", ErrWindowZero, d)
	case d > MaxWindow:
		return fmt.Errorf("%w: %s", ErrWindowLong, d)
	}
	return nil
}

// ParseWindow reads a window as it is typed: a Go duration above 0 and at most 24h, with `min` for minutes allowed, or
// `off`.
func ParseWindow(text string) (d time.Duration, off bool, err error) {
	if text == "off" {
		return 0, true, nil
	}
	spelled := text
	if rest, ok := strings.CutSuffix(text, "min"); ok {
		spelled = rest + "m"
	}
	d, err = time.ParseDuration(spelled)
	if err != nil {
		return 0, false, fmt.Errorf("%w: %.40q", ErrWindowText, text)
	}
	return d, false, checkWindow(d)
}

// WindowOf is the window of so many seconds, as it travels.
func WindowOf(seconds uint64) (time.Duration, error) {
	if seconds > uint64(MaxWindow/time.Second) {
		return 0, fmt.Errorf("%w: %d s", ErrWindowLong, seconds)
	}
	d := time.Duration(seconds) * time.Second
	return d, checkWindow(d)
}
