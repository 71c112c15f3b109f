// Package follow carries the fleet's committed commands to the members that are not voters: a Source on each voter serves
// them, and a Learner on each other machine applies them, keeps the state on its disk, and moves on to another voter when
// the one it follows falls silent.
//
// It must never know raft, open a socket (a stream is given to it), or decide what a command means.
package follow

import (
	"errors"
	"time"
)

// Times of following. Each is elapsed time; none is compared with a date.
const (
	// HeartbeatEvery is how often a voter tells its followers that it is there.
	HeartbeatEvery = 5 * time.Second
	// SilenceLimit is after how long without a push, or with leaderless heartbeats only, a learner moves on: two
	// heartbeats may be lost.
	SilenceLimit = 15 * time.Second
	// backoffBase and backoffCap bound the wait before the next voter is dialled, before the jitter.
	backoffBase = 2 * time.Second
	backoffCap  = 20 * time.Second
	// backoffJitter is how far a wait may be from its middle, as a part of it: a thousand learners that lost one voter
	// in one moment must not come back in one second, so that at every step the longest is seven times the shortest.
	backoffJitter = 0.75
	// leaderlessMemory is for how long a voter that knew no leader is not gone back to for that reason.
	leaderlessMemory = time.Minute
	// positionEvery is the middle of how often a voter that is not followed is asked where it stands: a learner may follow
	// one that has fallen behind for about as long, and a thousand learners cost each voter 30 short asks a second.
	positionEvery = 30 * time.Second
	// OthersWait is for how long an entry about another machine's provisioning may wait for more of its kind: while hundreds
	// are provisioned, each outcome would cost every follower a wake, a record of TLS and an fsync, and it tells it nothing.
	OthersWait = 100 * time.Millisecond
	// snapshotSpread is the longest wait before a learner asks again for a snapshot after a gap.
	snapshotSpread = time.Second
)

// Bounds of what is held for followers and on a learner's disk.
const (
	// ringEntries and ringBytes bound the commands that a Source keeps encoded: a follower that is further behind is
	// given a snapshot, which costs about as much as so many commands.
	ringEntries = 1024
	ringBytes   = 8 << 20
	// pushEntries and pushBytes bound what one write to a follower holds.
	pushEntries = 64
	pushBytes   = 64 << 10
	// batchEntries is how many commands that have already arrived share one fsync.
	batchEntries = 256
	// compactEntries and compactBytes are when the log on disk is folded into a snapshot.
	compactEntries = 1024
	compactBytes   = 4 << 20
)

// Sentinels of this package.
var (
	// ErrForgotten: this machine is no longer a member. The voter's entry, or its word "revoked", said so.
	ErrForgotten = errors.New("follow: this machine was forgotten by its fleet")
	// ErrDamaged: the state on disk does not read.
	ErrDamaged = errors.New("follow: the followed state on disk does not read")
	// ErrStale: the state on disk is of before the approval under which it would be gone on with: it is to be put away.
	ErrStale = errors.New("follow: the followed state on disk is of before this machine's last approval")
	// ErrOtherCluster: the state on disk is another fleet's.
	ErrOtherCluster = errors.New("follow: the followed state on disk belongs to another fleet")
	// ErrSeed: the roster of the approval does not read, or names no voter.
	ErrSeed = errors.New("follow: the roster of the approval names no voter")
	// ErrRunning: Run was called twice.
	ErrRunning = errors.New("follow: this learner is running already")
	// ErrClosed: the learner or the source was closed.
	ErrClosed = errors.New("follow: closed")
	// ErrDisk: the state could not be written; following goes on after a wait.
	ErrDisk = errors.New("follow: the followed state could not be written")

	errGap        = errors.New("the next command does not continue this machine's state")
	errDiverged   = errors.New("this machine's state differs from the voter's")
	errOlder      = errors.New("the voter's state is older than this machine's")
	errEpoch      = errors.New("the voter is in another recovery epoch")
	errMalformed  = errors.New("the voter sent what does not read")
	errSilent     = errors.New("the voter was silent for 15 s")
	errLeaderless = errors.New("the voter heard no leader for 15 s")
	errOvertaken  = errors.New("another voter is ahead of this one")
	errNotVoter   = errors.New("the machine is no voter of this fleet any more")
	errKey        = errors.New("the session is under another key than the voter's")
	errCluster    = errors.New("the voter is of another fleet")
)
