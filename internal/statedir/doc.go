// Package statedir keeps what one node must never lose: its identity key, the record of which fleet it is in, and the
// stores it has put away. Its one job is that directory: who may read it, the lock that one process holds, whole and
// durable writes, exact modes, archives.
//
// It must never open a socket, know raft, or mint a second identity where a first one is present and cannot be read.
package statedir

import (
	"errors"
	"io/fs"
	"time"
)

// Names inside the state directory.
const (
	LockFile       = "node.lock"      // held by the one process that uses the directory; its text is that process's id
	KeyFile        = "node-key"       // the identity key
	RecordFile     = "formation.json" // the record: ids, mode, target, what was joined
	ArchiveDir     = "archive"        // archive/<cluster-id>[-2…] and archive/identity-<id>[-2…]
	SocketFile     = "admin.sock"     // administrators' socket, where the packages made no folder for it
	ConsensusDir   = "consensus"      // a voter's log, term and snapshots
	FollowDir      = "follow"         // a learner's applied state
	ProvisionedDir = "provisioned"    // what the fleet configured on this machine
	RecoveredDir   = "recovered"      // a voter's store that was built by a recovery and is not in its place yet
	EnvFile        = "pace-node.env"  // macOS keeps the installer's settings here
)

const (
	dirMode    fs.FileMode = 0o700 // nobody else may list what a node keeps
	keyMode    fs.FileMode = 0o600 // whoever reads the key is the machine
	recordMode fs.FileMode = 0o600
	lockMode   fs.FileMode = 0o600
	parentMode fs.FileMode = 0o755 // folders above that did not exist; the state directory itself is the protection

	maxKeyBytes    = 256     // bytes; the key file is one short line
	maxRecordBytes = 4 << 20 // bytes; the largest part is a roster's voters, some kilobytes
	maxSocketPath  = 100     // bytes; the shortest limit of a socket address among the systems is 104 with its end
	keptArchives   = 8       // archives of each kind; the oldest beyond go

	lockWait  = 500 * time.Millisecond // a verb that mints holds the lock for some tens of milliseconds
	peekWait  = 2 * time.Second        // a node that is just starting has minted well before
	pollEvery = 10 * time.Millisecond  // how often a wait looks again
)

// stores are the folders that only a node which once had a record can have made.
var stores = []string{ConsensusDir, FollowDir, ProvisionedDir, RecoveredDir}

// What a caller may ask about an error of this package with errors.Is. Each error's text names the path and the remedy.
var (
	// ErrInUse: another process holds the directory.
	ErrInUse = errors.New("the state directory is in use")
	// ErrUnsafe: the directory or a file in it can be changed or read by others, is a link, or belongs to another account.
	ErrUnsafe = errors.New("the state directory is not safe to use")
	// ErrDamaged: a file that does not read. Nothing was changed and nothing minted.
	ErrDamaged = errors.New("the state directory is damaged")
	// ErrNewerFormat: a record written by a later version.
	ErrNewerFormat = errors.New("the state directory was written by a later version")
	// ErrEmpty: no node has run here yet.
	ErrEmpty = errors.New("no node has run here yet")
	// ErrRecord: a record that Save was asked to write and that could not be read back.
	ErrRecord = errors.New("not a record that could be read back")
)

// refusal is an error with the remedy that the operator reads.
type refusal struct {
	kind   error
	what   string
	remedy string
}

func (r *refusal) Error() string { return r.what + "; " + r.remedy }
func (r *refusal) Unwrap() error { return r.kind }

// What is what is wrong, without the remedy.
func (r *refusal) What() string { return r.what }

// Remedy is the sentence that mends it, by itself.
func (r *refusal) Remedy() string { return r.remedy }

func refuse(kind error, what, remedy string) error {
	return &refusal{kind: kind, what: what, remedy: remedy}
}
