package enroll

import (
	"errors"
	"time"
)

// Bounds of the waiting list. Anybody who reaches the leader can fill it, so each has a limit and a reason.
const (
	// MaxRows is how many undecided rows there are. They are never evicted: whoever waits keeps its place, and one more is
	// refused by name.
	MaxRows = 64
	// MaxDecided is how many rejected rows, and how many approved ones, stay to be seen, outside MaxRows.
	MaxDecided = 64
	// DefaultPerSource is how many undecided rows one source network may hold where the setting says nothing.
	DefaultPerSource = 4
	// UnheardFor: an undecided row that was not heard for this long goes.
	UnheardFor = 10 * time.Minute
	// DecidedFor is how long a decided row stays.
	DecidedFor = time.Hour
	// RepeatEvery is how often the signed pending answer is repeated on an open stream; each counts for the joiner's ten
	// minutes.
	RepeatEvery = time.Minute
	// MaxWindow is the longest auto-approve window: a day, on which many machines join.
	MaxWindow = 24 * time.Hour
	// MaxRedirects is how many redirects are followed in one ask.
	MaxRedirects = 2
	// MaxSigners bounds the keys whose answer one ask takes.
	MaxSigners = 16
	// MaxName bounds a name in bytes: a host name is at most 253.
	MaxName = 255
	// MaxPlatform, MaxVersion and MaxEndpoint bound what else a row shows, in bytes: what the fleet's state takes, so that
	// nobody waits whose approval it would refuse.
	MaxPlatform = 64
	MaxVersion  = 64
	MaxEndpoint = 253 + 2 + 6 // a DNS name, brackets, and a port
	// ipv6Network is the prefix that counts as one source: the holder of a /64 has all its addresses.
	ipv6Network = 64
)

// Sentinels of this package.
var (
	ErrNoRow        = errors.New("no machine is waiting under that id: see --enroll-list, or approve it ahead with --cluster-admit-learner=<id>@<key>")
	ErrOtherKey     = errors.New("the waiting machine asks under another key: compare the key with what its --print-identity prints, and approve exactly that")
	ErrAmbiguous    = errors.New("more than one key asks under that id: name the one to reject as <id>@<key>")
	ErrDecided      = errors.New("that machine is approved already: nothing to do, or take it back with --cluster-forget=<id>")
	ErrWindowText   = errors.New("an auto-approve window is a duration such as 15m, or off")
	ErrWindowZero   = errors.New("an auto-approve window is longer than 0; off ends it")
	ErrWindowLong   = errors.New("an auto-approve window is at most 24h")
	ErrSigner       = errors.New("the answer is signed by a key that no proven summary of that fleet names; it counts as none")
	ErrSignature    = errors.New("the answer's signature does not verify for this ask; it counts as none")
	ErrShape        = errors.New("the answer carries what its outcome may not carry; it counts as none")
	ErrRedirects    = errors.New("redirected more than twice in one ask; the ask is made again")
	ErrRedirectTo   = errors.New("redirected to what is no host:port; the ask is made again")
	ErrRoster       = errors.New("the roster of the approval does not read; the approval counts as none")
	ErrRosterOther  = errors.New("the roster of the approval is another fleet's; the approval counts as none")
	ErrRosterMyself = errors.New("the roster of the approval holds this machine under another id or key; the approval counts as none")
)
