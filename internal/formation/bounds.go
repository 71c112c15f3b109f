package formation

import "time"

// Deadlines and periods. All are elapsed time, never dates: a wall clock that is set changes none of them.
const (
	// Beat is the step of everything that is repeated: at most one summary is asked for at a beat.
	Beat = time.Second
	// ChoiceAfterProof is how long a node that starts waits after its first proof before it chooses, so that machines
	// powered on together choose among all of them.
	ChoiceAfterProof = 500 * time.Millisecond
	// DialTimeout: a dial or a lookup that takes this long has failed.
	DialTimeout = 3 * time.Second
	// SeedPeriod: each seed is asked at most this often.
	SeedPeriod = time.Minute
	// SettleAfter: for this long after a fleet of one began, nobody is admitted to it: its first choice may still be to ask
	// another. A beacon comes within 250 ms, a first proof brings the next forward, and a chain of yields takes a few of them.
	SettleAfter = 3 * time.Second
	// PointerPeriod: a pointer is followed one step at most this often, but at once when it is the own target's.
	PointerPeriod = time.Minute
	// WalkAgain is how often the chain from the own target is walked again while what it says stays the same: a few asks'
	// periods, since the far end may move without the target's word changing.
	WalkAgain = 5 * time.Second
	// AskAgain is how often an ask is opened again where its stream could not be kept.
	AskAgain = 2 * time.Second
	// AskFullMost bounds the wait of a machine that found no room among those who wait, before the spread: a row is free
	// again as soon as a person has decided. AskSpread is how far that wait may be from its middle, as a part of it.
	AskFullMost = time.Minute
	AskSpread   = 0.5
	// AbandonAfter: an ask without a signed answer for this long is given up.
	AbandonAfter = 10 * time.Minute
	// AbandonHold keeps a node from asking the fleet it has just given up; "later" is a seed's period.
	AbandonHold = time.Minute
	// AbandonLast: for this long after a fleet was given up, any other fleet is asked before it: as long as the ask that
	// nobody answered took.
	AbandonLast = 10 * time.Minute
	// RejectionFor: a fleet that rejected this node is not asked for this long.
	RejectionFor = time.Hour
	// ProofFresh is how long a proven summary may be acted upon: discovery forgets a peer 90 s after its last beacon.
	ProofFresh = 90 * time.Second
	// SpeakerStale: after this long without a proof by the speaker whose word is kept, any other speaker's of that fleet
	// is taken: two beacon periods.
	SpeakerStale = 30 * time.Second
	// TargetSilent: after this long without a signed answer the word of a speaker that the target did not name is taken
	// for it: two of the leader's repeated answers.
	TargetSilent = 2 * time.Minute
	// SearchEvery is how often a machine whose target stopped answering asks another that speaks for that fleet who leads it.
	SearchEvery = 2 * time.Second
	// ForeignClearAfter: `foreign-fleet-visible` clears this long after the last proof of that fleet.
	ForeignClearAfter = 5 * time.Minute
	// ForeignQuiet is one beacon period: before it, nothing is ever reported as clear.
	ForeignQuiet = 15 * time.Second
	// MoveRetry is how long after a record that could not be written the move is tried again.
	MoveRetry = time.Minute
	// never is past every deadline of a process.
	never = 100 * 365 * 24 * time.Hour
)

// Bounds of what is remembered. Other machines fill these, so each has a limit.
const (
	// MaxFleets is how many proven fleets are remembered: discovery's 16, and as many again from seeds and pointers.
	MaxFleets = 32
	// MaxForeign is how many fleets are reported as visible.
	MaxForeign = 16
	// MaxRejections is how many rejections are remembered; the one that ends first gives way.
	MaxRejections = 64
	// MaxHops is how far the chain of pending nodes is walked from the own target.
	MaxHops = 8
	// MaxRedirects is how many redirects are followed in one ask.
	MaxRedirects = 2
	// MaxTargetKeys bounds the signers accepted for one target: speakers and leaders that named one another.
	MaxTargetKeys = 8
	// LostAsks is how many asks in a row bring no signed answer before the target counts as gone: one that is lost on its way
	// is none.
	LostAsks = 2
	// MaxVoices bounds the machines that spoke for the fleet that is asked.
	MaxVoices = 8
	// MaxPinKeys is how many keys a pin may hold.
	MaxPinKeys = 16
	// MaxSRV is how many SRV records are asked in one round: at one a beat, a quarter of their minute.
	MaxSRV = 16
	// MaxRemembered is how many endpoints of the fleet's voters are remembered: more than any fleet has voters.
	MaxRemembered = 16
	// MaxLeaderAsks is how many leader endpoints, named by speakers that are not pinned, are remembered as asked.
	MaxLeaderAsks = 16
	// MaxSeedText bounds a seed as it is typed: a host, a colon and a port of 5 digits.
	MaxSeedText = 260
	// maxSeedHost is the longest DNS name, in bytes; an address in brackets is shorter.
	maxSeedHost = 253
)

// DefaultPort is the port of a seed that names none.
const DefaultPort = 6674

// Creation times, Unix seconds.
const (
	// EarliestCreated is 2026-01-01 00:00 UTC: an earlier creation time is a board without a clock and counts as newest.
	EarliestCreated uint64 = 1767225600
	// newestCreated is what such a time counts as.
	newestCreated uint64 = 1<<64 - 1
)
