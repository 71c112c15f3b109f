package formation

import (
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// EventKind is what happened.
type EventKind uint8

// Kinds of event, with the fields of Event that each one uses.
const (
	EvTick EventKind = iota + 1
	// EvProven: a summary of another machine verified. Fleet; Endpoint is the endpoint that ActAskSummary named, letter
	// for letter, and empty for the proof that answered a beacon's challenge.
	EvProven
	// EvSummaryFailed: the endpoint that ActAskSummary named did not answer, or what it answered did not verify.
	// Endpoint, Err; From where another key answered than the required one.
	EvSummaryFailed
	// EvSRV: what DNS answered to ActLookupSRV. Endpoint is the name that was asked, empty where this machine has no DNS
	// suffix and so nobody was asked; Endpoints in the order of SRVEndpoints, none where the name has no such records; Err
	// where there was no answer: what an earlier one said is kept.
	EvSRV
	// EvRemembered: the record now remembers these endpoints of the fleet's voters. Endpoints.
	EvRemembered
	// EvAnswer: an answer to the ask that enroll.Ask has verified. Ask, Cluster, Outcome, From, Roster.
	EvAnswer
	// EvAnswerRefused: an answer that did not verify; it counts as none. Ask, Err.
	EvAnswerRefused
	// EvKeyRefused: the machine at the target's endpoint has a key that Holds of the pin denies; nothing was asked of it.
	// EvAskEnded follows. Ask, Endpoint, From.
	EvKeyRefused
	// EvRedirect: error 5 of the target. Ask, Endpoint; empty during an election.
	EvRedirect
	// EvAskEnded: the ask's stream ended, or could not be opened. Ask, Err; Full and Spread where there was no room among
	// those who wait.
	EvAskEnded
	// EvOwnFleetRecordedMachine: this machine's own fleet of one admitted another machine.
	EvOwnFleetRecordedMachine
	// EvForgotten: the fleet forgot this machine, or a voter said that its key is revoked.
	EvForgotten
	// EvGiveUpAsk: an operator gave the ask up.
	EvGiveUpAsk
	// EvEstablished: the own fleet of one recorded a pre-approval, a setting or an armed window.
	EvEstablished
	// EvTrigger: any trigger that is decided elsewhere. Trigger; Target and From (the signer of the order) for
	// DissolvedInto, Roster and From (the signer of the approval that carried it) for EpochAccepted.
	EvTrigger
	// EvMoved: the record of the move is on disk. Own is the record as it now is.
	EvMoved
	// EvMoveFailed: the record could not be written; nothing was done. Err.
	EvMoveFailed
)

// Event is something that happened.
type Event struct {
	Kind     EventKind
	Fleet    Fleet
	Endpoint string
	// Endpoints is not kept by whoever gives it.
	Endpoints []string
	Err       string // from this machine or escaped; it is only said, never judged
	Ask       uint64 // the serial of the ActAsk it belongs to; 0 is taken for the one at hand
	Cluster   string
	Outcome   wire.Outcome
	From      identity.PublicKey // who signed
	Roster    []byte
	Full      bool
	Spread    float64 // random, of [0, 1)
	Trigger   Trigger
	Target    *Target
	Own       Own
}

// ActionKind is what is wanted.
type ActionKind uint8

// Kinds of action, with the fields of Action that each one uses.
const (
	// ActAskSummary: ask Endpoint for its fleet summary with a fresh nonce, within DialTimeout in all. With a RequireKey
	// the peer's TLS key must be that key, else nothing is sent. Feed EvProven or EvSummaryFailed.
	ActAskSummary ActionKind = iota + 1
	// ActLookupSRV: ask DNS for the SRV records of this machine's suffix, within DialTimeout in all. Feed EvSRV.
	ActLookupSRV
	// ActMove: write the record (Transition.To, Target, Rejections and Revoked of the machine), then do the effect, then
	// feed EvMoved; or EvMoveFailed, and nothing was done. No other move comes before one of the two.
	ActMove
	// ActAsk: open the ask at Target under the serial Ask; an ask that is still open under another serial is closed. Keep
	// Target in the record when it differs from what stands there (without waiting for it). Feed EvAnswer for each answer,
	// then EvRedirect or EvAskEnded when it is over.
	ActAsk
	// ActStopAsk: close the ask; nothing more of it is fed (what is, is ignored).
	ActStopAsk
	// ActForeignVisible: raise or renew `foreign-fleet-visible`, or `fleet-split-healing` for the last reasons. Fleet, Why,
	// PinKey.
	ActForeignVisible
	// ActForeignClear: clear it for Fleet.Cluster.
	ActForeignClear
	// ActSay: say a line once. Say, Endpoint, Origin, Err.
	ActSay
)

// Why is why a foreign fleet is reported.
type Why uint8

// Reasons.
const (
	WhyNeitherYields  Why = iota + 1 // both fleets are established
	WhyPinnedFleet                   // the pin names another fleet
	WhyPinnedKey                     // the pin's fleet, by a key that is not pinned: PinKey is the one to add
	WhyAnswerUnpinned                // an enrollment answer signed by a key that is not pinned: PinKey is that key
	WhyLeaderUnpinned                // the machine where the leader should be has another key: PinKey is that key
	WhyOrderUnpinned                 // a dissolve order into a fleet, or by a key, that is not pinned: PinKey is that key

	// These are shown as `fleet-split-healing`.
	WhySplitYields // a voter's key speaks for it, and the own fleet is to dissolve into it
	WhySplitStays  // a voter's key speaks for it, and it is for that fleet to dissolve
	WhySplitByHand // a learner's key speaks for it, or this machine once asked it: an operator decides
)

// Say is a line that is said once.
type Say uint8

// What is said.
const (
	SaySeedFailed      Say = iota + 1 // a seed did not answer; said again only after it has answered
	SaySeedIsSelf                     // a seed is this machine itself; it is skipped
	SaySeedNotFollowed                // a seed was typed on a machine that is in a fleet already
	SaySRVFailed                      // DNS did not answer; said again only after it has answered
	SayTargetRefused                  // the recorded target is not admitted by the pin; the ask is given up
	SayAnswerRefused                  // an answer did not verify
	SayMoveRefused                    // the record of a move could not be written; `formation-move-refused`
)

// SayRow is one row of the table of lines.
type SayRow struct {
	Say  Say
	Text string // constant message
	Warn bool
}

// Says is the table of lines.
var Says = []SayRow{
	{SaySeedFailed, "seed did not answer", true},
	{SaySeedIsSelf, "seed is this machine itself, skipped", false},
	{SaySeedNotFollowed, "seed not followed: this machine is in a fleet already; forget it there, or run `pacectl fleet leave`, to move it", true},
	{SaySRVFailed, "DNS did not answer for seeds", false},
	{SayTargetRefused, "the fleet that was asked is not the one of --fleet-id, ask given up", true},
	{SayAnswerRefused, "enrollment answer not proven, ignored", true},
	{SayMoveRefused, "formation record not written, nothing was changed", true},
}

// String returns the line, "unknown" for any other value.
func (s Say) String() string {
	for _, r := range Says {
		if r.Say == s {
			return r.Text
		}
	}
	return "unknown"
}

// Action is something that is wanted.
type Action struct {
	Kind       ActionKind
	Endpoint   string
	Origin     Origin
	RequireKey identity.PublicKey
	Transition Transition
	Target     *Target            // ActMove: the new target, nil for none; ActAsk: whom to ask. Not shared with the machine
	Roster     []byte             // ActMove on Approved and EpochAccepted: as it came with the event
	From       identity.PublicKey // ActMove on EpochAccepted: who signed it
	Revoked    bool               // ActMove on Rejected: the outcome was revoked; `own-key-revoked`
	Ask        uint64
	Hop        int // redirects already followed in this ask
	Fleet      Fleet
	Why        Why
	PinKey     identity.PublicKey
	Say        Say
	Err        string
}

// Rejection is a fleet that is not asked for a while.
type Rejection struct {
	Cluster string
	Left    time.Duration // elapsed time; what is kept on disk is this, never a date
}

// Counter names what this package counts.
type Counter uint8

// Counters.
const (
	CountYields Counter = iota
	CountJoinsAbandoned
	CountMovesIgnored
	CountPinRefusals
	CountAdmissionsRefused
	CountEndpointsRefused
	CountFleetsOverBound
	counters
)

// CounterRow is one row of the table of counters.
type CounterRow struct {
	Counter      Counter
	Metric, Help string
}

// Counters is the table of counters.
var Counters = []CounterRow{
	{CountYields, "pace_formation_yields_total", "times this node decided to ask another fleet"},
	{CountJoinsAbandoned, "pace_formation_joins_abandoned_total", "asks given up after ten minutes without a signed answer"},
	{CountMovesIgnored, "pace_formation_moves_ignored_total", "triggers that the table of transitions does not know in the mode they met"},
	{CountPinRefusals, "pace_formation_pin_refusals_total", "ways into a fleet that --fleet-id refused"},
	{CountAdmissionsRefused, "pace_formation_admissions_refused_total", "enrollment answers that did not verify, or that nobody waited for"},
	{CountEndpointsRefused, "pace_formation_endpoints_refused_total", "loopback or wildcard endpoints that another machine's summary named"},
	{CountFleetsOverBound, "pace_formation_fleets_over_bound_total", "proven fleets that gave way in a full table"},
}
