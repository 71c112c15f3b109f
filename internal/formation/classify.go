package formation

import (
	"net/netip"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Evidence is what is known about a split between this fleet and the one that was seen.
type Evidence uint8

// Kinds of evidence.
const (
	NoSplit Evidence = iota
	// SplitHealsByItself: the seen fleet's proven speaker holds, under its id, a key that this fleet's applied roster
	// holds as a voter's and has not revoked.
	SplitHealsByItself
	// SplitByHand: there is a sign of a split that anybody in the fleet may give: the seen fleet's proven speaker holds, under
	// its id, a learner's key of this fleet's roster, or this machine itself once asked that fleet. It is told to an operator,
	// and decides nothing.
	SplitByHand
)

// Outcome is what a node makes of a fleet that it sees.
type Outcome uint8

// Outcomes. The zero value is none.
const (
	SameFleet       Outcome = iota + 1 // the own cluster, whatever else it says
	Stay                               // nothing
	Yield                              // ask it
	FollowPointer                      // ask the fleet that it asked, once that is proven
	TieBreakYield                      // ask it: the tie-break decided
	ForeignFleet                       // neither yields: an operator decides
	PinnedElsewhere                    // a yield that the pin does not admit: stay, and say so
	TieBreak                           // in the table only: Classify resolves it to TieBreakYield or Stay
)

var outcomeNames = [...]string{SameFleet: "same-fleet", Stay: "stay", Yield: "yield", FollowPointer: "follow-pointer",
	TieBreakYield: "tie-break-yield", ForeignFleet: "foreign-fleet", PinnedElsewhere: "pinned-elsewhere", TieBreak: "tie-break"}

// String returns the name of the outcome, "unknown" for any other value.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) && outcomeNames[o] != "" {
		return outcomeNames[o]
	}
	return "unknown"
}

// Yields reports whether the outcome is to ask the fleet.
func (o Outcome) Yields() bool { return o == Yield || o == TieBreakYield }

// EncounterRow is one cell of the table of encounters.
type EncounterRow struct {
	Own, Seen wire.SummaryState
	Evidence  Evidence
	Outcome   Outcome
}

// Encounters is the table of who yields to whom, for fleets of different ids.
var Encounters = []EncounterRow{
	{wire.StateSolitary, wire.StateEstablished, NoSplit, Yield},
	{wire.StateSolitary, wire.StateEstablished, SplitHealsByItself, Yield},
	{wire.StateSolitary, wire.StateSolitary, NoSplit, TieBreak},
	{wire.StateSolitary, wire.StateSolitary, SplitHealsByItself, TieBreak},
	{wire.StateSolitary, wire.StatePending, NoSplit, FollowPointer},
	{wire.StateSolitary, wire.StatePending, SplitHealsByItself, FollowPointer},
	{wire.StateEstablished, wire.StateSolitary, NoSplit, Stay},
	{wire.StateEstablished, wire.StateSolitary, SplitHealsByItself, Stay},
	{wire.StateEstablished, wire.StateEstablished, NoSplit, ForeignFleet},
	{wire.StateEstablished, wire.StateEstablished, SplitHealsByItself, TieBreak},
	{wire.StateEstablished, wire.StatePending, NoSplit, Stay},
	{wire.StateEstablished, wire.StatePending, SplitHealsByItself, Stay},
	{wire.StatePending, wire.StateSolitary, NoSplit, Stay},
	{wire.StatePending, wire.StateSolitary, SplitHealsByItself, Stay},
	{wire.StatePending, wire.StateEstablished, NoSplit, Stay},
	{wire.StatePending, wire.StateEstablished, SplitHealsByItself, Stay},
	{wire.StatePending, wire.StatePending, NoSplit, Stay},
	{wire.StatePending, wire.StatePending, SplitHealsByItself, Stay},
}

// Fleet is what a proven summary says of a fleet.
type Fleet struct {
	Cluster string
	Created uint64 // Unix seconds, as claimed
	State   wire.SummaryState
	Leader  wire.Leader // zero while State is pending
	Pointer wire.Leader // only while State is pending: the leader of the fleet that was asked

	Speaker         string // node id
	SpeakerKey      identity.PublicKey
	SpeakerEndpoint string // 0xFC, or empty

	Origin   Origin
	From     netip.AddrPort // where the proof or the answer came from; may be invalid
	Evidence Evidence       // by the speaker's key, as the own applied roster has it
}

// FleetOf is the Fleet of a summary that key has proven.
func FleetOf(s *wire.Summary, key identity.PublicKey, origin Origin, from netip.AddrPort) Fleet {
	return Fleet{Cluster: s.Cluster, Created: s.Created, State: s.State, Leader: s.Leader, Pointer: s.Pointer,
		Speaker: s.Node, SpeakerKey: key, SpeakerEndpoint: s.OwnEndpoint, Origin: origin, From: from}
}

// Own is what the formation record says of this machine, and the two facts that go with it.
type Own struct {
	Mode    Mode
	Cluster string
	Created uint64 // Unix seconds
	// Established: the own fleet has once recorded another machine, a pre-approval, a setting or an armed window.
	Established bool
	NodeID      string
	Key         identity.PublicKey
	// AdmittedBy is the key that signed this machine's admission; zero for the founder of a fleet.
	AdmittedBy identity.PublicKey
	Target     *Target // only while Mode is pending
	// OldCluster is the fleet that this machine left by a dissolve order: nothing found there is joined again unasked.
	OldCluster string
}

// State is what this machine announces: the row of its mode, and established for a fleet of one that has become so.
func (o *Own) State() wire.SummaryState {
	row, _ := o.Mode.Row()
	if row.Announces == wire.StateSolitary && o.Established {
		return wire.StateEstablished
	}
	return row.Announces
}

// Target is the fleet that is asked. It is kept in the formation record.
type Target struct {
	Cluster  string
	Created  uint64
	State    wire.SummaryState
	LeaderID string
	Endpoint string // 0xFC endpoint to ask
	// Fallback is another address of the machine at Endpoint, tried where Endpoint can't be dialled; or empty.
	Fallback string
	// Keys are the signers whose answer counts, the key of LeaderID first where it is known: the leader's and the
	// speaker's of the proven summary.
	Keys    []identity.PublicKey
	Origin  Origin
	AskedAt time.Time // for people; no deadline is taken from it
}

func (t *Target) clone() *Target {
	if t == nil {
		return nil
	}
	c := *t
	c.Keys = append([]identity.PublicKey(nil), t.Keys...)
	return &c
}

// ageOf is the creation time as the tie-break counts it.
func ageOf(created uint64) uint64 {
	if created < EarliestCreated {
		return newestCreated
	}
	return created
}

// TieBreakYields reports whether the own fleet yields to the seen one: the later creation time yields, and of equal ones
// the higher cluster id in byte order. For two fleets of different ids exactly one of them yields.
func TieBreakYields(ownCreated uint64, ownCluster string, seenCreated uint64, seenCluster string) bool {
	own, seen := ageOf(ownCreated), ageOf(seenCreated)
	if own != seen {
		return own > seen
	}
	return ownCluster > seenCluster
}

// pointsHere reports whether a pointer names this machine.
func (o *Own) pointsHere(p wire.Leader) bool {
	if p.HasKey && !o.Key.IsZero() {
		return identity.PublicKey(p.Key) == o.Key
	}
	return p.ID != "" && p.ID == o.NodeID
}

// Classify says what own makes of a proven fleet. Only a proven summary may be passed in.
func Classify(own Own, seen Fleet, ev Evidence, pin *Pin) Outcome {
	if seen.Cluster == own.Cluster {
		return SameFleet
	}
	if ev == SplitByHand {
		ev = NoSplit
	}
	out := Stay
	for _, r := range Encounters {
		if r.Own == own.State() && r.Seen == seen.State && r.Evidence == ev {
			out = r.Outcome
		}
	}
	switch {
	case out == FollowPointer && own.pointsHere(seen.Pointer):
		return Stay
	case out == TieBreak:
		out = Stay
		if winsTieBreak(own, seen, pin) {
			out = TieBreakYield
		}
	}
	if out.Yields() && !pin.lets(WaySummary, seen.Cluster, seen.SpeakerKey) {
		return PinnedElsewhere
	}
	return out
}

// winsTieBreak reports whether seen wins the tie-break against own.
func winsTieBreak(own Own, seen Fleet, pin *Pin) bool {
	if pin != nil && pin.Admits(seen.Cluster, seen.SpeakerKey) {
		return true
	}
	if seen.State == wire.StateSolitary && seen.Origin.Row().Wins {
		return true
	}
	return TieBreakYields(own.Created, own.Cluster, seen.Created, seen.Cluster)
}
