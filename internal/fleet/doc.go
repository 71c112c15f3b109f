// Package fleet is the fleet's replicated state: its commands, the deterministic Apply, the snapshot codec, and the
// questions that are asked of it (the roster, the membership rules, a lease). The same commands give the same bytes on
// every machine.
//
// It must never know raft, a socket, a file or a clock, range over a map where the order shows, or let a command of a
// later format change anything.
package fleet

import (
	"errors"

	"pace-node/internal/wire"
)

// Bounds of the state. With every record at its bound a snapshot stays below MaxSnapshot, and what a learner keeps of it
// below MaxLearnerSnapshot, so that admission, and never a snapshot, is where a fleet finds its limit; a test adds them up.
const (
	// MaxSnapshot is the most bytes of a voter's snapshot.
	MaxSnapshot = wire.MaxState
	// MaxLearnerSnapshot is the most bytes of a learner's: it travels in chunks.
	MaxLearnerSnapshot = wire.MaxSnapshot
	// MaxCommand is the most bytes of one command: an Announce is at most 16 KiB on the wire, a profile 8 KiB.
	MaxCommand = 64 << 10
	// MaxMembers is how many machines one fleet holds.
	MaxMembers = 5000
	// MaxRevoked is how many keys stay revoked; a revocation is never dropped, so the bound is a wide one.
	MaxRevoked = 50000
	// MaxPreApproved is how many machines may be awaited at once.
	MaxPreApproved = 4000
	// MaxAudit is how many audit entries are kept, the newest.
	MaxAudit = 1000
	// MaxOutcomes is how many outcomes of provisioning are kept for each member, the newest.
	MaxOutcomes = 20

	// MaxName is the longest name of a machine, in bytes: a host name is at most 253.
	MaxName = 255
	// MaxLabels and MaxLabelBytes bound a machine's labels: their number, and all keys and values together, in bytes.
	MaxLabels     = 32
	MaxLabelBytes = 1024
	// MaxLabelKey is the longest key of a label, in bytes, which is also DNS's longest label.
	MaxLabelKey = 63
	// MaxPlatform and MaxVersion bound GOOS/GOARCH and a version's text, in bytes.
	MaxPlatform = 64
	MaxVersion  = 64
	// MaxEndpoint is the longest endpoint kept, in bytes: a DNS name of 253, brackets, and a port.
	MaxEndpoint = 253 + 2 + 6
	// MaxDigest is a SHA-256 in hex, in characters; a boot id takes half.
	MaxDigest = 64
	// MaxStage is the longest name of a stage, a result, a kind of error or an act, in bytes: words of this program.
	MaxStage = 32
	// MaxComponent is the longest name of a component, in bytes: an operator's word, bounded by the wire.
	MaxComponent = wire.MaxID
	// MaxLastError is the longest last error kept, and MaxOutcomeError that of an older outcome, in bytes.
	MaxLastError    = 512
	MaxOutcomeError = 120
	// MaxDetail is the longest text of an audit entry, in bytes.
	MaxDetail = 256
)

// Sentinels of this package.
var (
	// ErrFormatNewer: a command or a snapshot of a later format. Nothing was changed: keep what there is and stop following.
	ErrFormatNewer = errors.New("fleet: a later format than this version reads: upgrade this node; it keeps what it has")
	// ErrFormatHeldBack: a command that a member of the roster could not read yet.
	ErrFormatHeldBack = errors.New("fleet: a member still runs a version that does not read this change: upgrade that member first")
	// ErrMalformed: bytes that are no command. Nothing was changed.
	ErrMalformed = errors.New("fleet: malformed command: it was written by a broken or a different build")
	// ErrSnapshot: bytes that are no snapshot, or not whole.
	ErrSnapshot = errors.New("fleet: the snapshot does not read: it is cut, damaged or of a different build; fetch it again")
	// ErrSnapshotSize: a snapshot beyond MaxSnapshot.
	ErrSnapshotSize = errors.New("fleet: the snapshot is larger than 96 MiB")
)
