// Package upgrade puts another version of this program in its place, and the old one back where the new one does not
// serve. Its one job is that a machine runs, after a crash at any moment, the program that it had or the one that it was
// given, and comes back by itself from one that cannot serve.
//
// It must never take a program that the release key has not signed, decide whether a machine should have one (the fleet's
// leader does), or know the node.
package upgrade

import (
	"errors"
	"time"
)

// The numbers of an upgrade.
const (
	// ServeWithin is how long a new program has, from its start, until it serves.
	ServeWithin = 60 * time.Second
	// SettleAfter is how long it serves without a break until it counts as good: what ends sooner is a start that counts.
	SettleAfter = 30 * time.Second
	// MaxStarts is how often it may be started without having settled.
	MaxStarts = 3
	// checkTries is how often a program that was just written is run while the system still calls it busy.
	checkTries = 10
	// checkWait is the wait between two of them.
	checkWait = 50 * time.Millisecond
	// maxSaid is how much of what a new program says goes into an error, in bytes.
	maxSaid = 512
)

// What ends an upgrade; each is said with the facts and the remedy by an *Error.
var (
	// ErrOlder is a version that is not newer than the one that runs.
	ErrOlder = errors.New("upgrade: not newer than what runs")
	// ErrKey is a release key that is missing, or another than the one typed on this machine.
	ErrKey = errors.New("upgrade: no release key to trust")
	// ErrRolledBack is a program that was tried here and did not serve.
	ErrRolledBack = errors.New("upgrade: rolled back before")
	// ErrCheck is a new program that does not run, or refuses what this one was started with.
	ErrCheck = errors.New("upgrade: the new program does not pass its own check")
	// ErrPlace is a program that this process cannot replace.
	ErrPlace = errors.New("upgrade: this program cannot be replaced")
)

// Error is an upgrade that was not made. Nothing was changed.
type Error struct {
	err       error
	text      string
	permanent bool
}

func (e *Error) Error() string { return e.text }
func (e *Error) Unwrap() error { return e.err }

// Permanent reports whether the same request would end the same.
func (e *Error) Permanent() bool { return e.permanent }
