package formation

// Trigger is why a mode may change.
type Trigger uint8

// Triggers. The zero value is none.
const (
	YieldDecided            Trigger = iota + 1 // a proven fleet was chosen to ask
	OwnFleetRecordedMachine                    // this machine's own fleet admitted another one
	Approved                                   // a verified answer
	Rejected                                   // a verified answer: rejected, or revoked
	Abandoned                                  // no signed answer for AbandonAfter
	TargetYielded                              // the target yielded itself, or a better fleet was proven by its pointer
	TargetPendingHere                          // the target is itself pending at this node, and this node wins the tie-break
	TargetClosed                               // the target yielded to a fleet that this machine may not ask
	AskGivenUp                                 // an operator gave the ask up
	SeatedAsVoter                              // under this node's own key
	SeatedAsLearner                            // a demotion
	OwnRecordForgotten                         // the entry, or a voter's word "revoked"
	Left                                       // `pacectl fleet leave` by a member
	Recovered                                  // `pacectl fleet recover` or restore on this machine
	EpochAccepted                              // another recovery epoch was accepted
	DissolvedInto                              // a split heals: this fleet dissolves into another
)

// TriggerRow is one row of the table of triggers.
type TriggerRow struct {
	Trigger Trigger
	Name    string
	// External triggers are decided elsewhere (the fleet's state, an operator) and come in as EvTrigger; the others are
	// this package's own conclusions and are refused there.
	External bool
}

// Triggers is the table of triggers.
var Triggers = []TriggerRow{
	{YieldDecided, "yield-decided", false},
	{OwnFleetRecordedMachine, "own-fleet-recorded-machine", true},
	{Approved, "approved", false},
	{Rejected, "rejected", false},
	{Abandoned, "abandoned", false},
	{TargetYielded, "target-yielded", false},
	{TargetPendingHere, "target-pending-here", false},
	{TargetClosed, "target-closed", false},
	{AskGivenUp, "ask-given-up", true},
	{SeatedAsVoter, "seated-as-voter", true},
	{SeatedAsLearner, "seated-as-learner", true},
	{OwnRecordForgotten, "own-record-forgotten", true},
	{Left, "left", true},
	{Recovered, "recovered", true},
	{EpochAccepted, "epoch-accepted", true},
	{DissolvedInto, "dissolved-into", true},
}

// Row returns the row of t.
func (t Trigger) Row() (TriggerRow, bool) {
	for _, r := range Triggers {
		if r.Trigger == t {
			return r, true
		}
	}
	return TriggerRow{}, false
}

// String returns the name of the trigger, "unknown" for any other value.
func (t Trigger) String() string {
	if r, ok := t.Row(); ok {
		return r.Name
	}
	return "unknown"
}

// Effect is what is done first, before the node acts in its new mode. The record is durable before any of it.
type Effect uint8

// Effects.
const (
	EffectNone              Effect = iota + 1
	EffectRecordTarget             // keep whom to ask
	EffectDissolve                 // take the roster, archive the own store
	EffectRememberRejection        // (fleet, rejection) for RejectionFor; revoked: for ever
	EffectClearTarget              // forget whom to ask
	EffectAdoptSeat                // take the seat that the fleet gave
	EffectMintNew                  // archive the fleet's store, mint a new solitary fleet under the same id and key
	EffectArchiveEpoch             // archive the old store, recovery epoch + 1
	EffectArchive                  // archive the old store
	EffectMintAndAsk               // archive, mint a new fleet of one, ask the survivor
)

// Transition is one row of the table of transitions.
type Transition struct {
	From    Mode
	On      Trigger
	To      Mode
	Effect  Effect
	Rebuild bool // the serving body is built anew
}

// Transitions is the whole table. Any other (mode, trigger) pair is ignored and counted.
var Transitions = []Transition{
	{Solitary, YieldDecided, Pending, EffectRecordTarget, false},
	{Solitary, OwnFleetRecordedMachine, Voter, EffectNone, false},
	{Pending, Approved, Learner, EffectDissolve, true},
	{Pending, Rejected, Solitary, EffectRememberRejection, false},
	{Pending, Abandoned, Solitary, EffectClearTarget, false},
	{Pending, TargetYielded, Pending, EffectRecordTarget, false},
	{Pending, TargetPendingHere, Solitary, EffectClearTarget, false},
	{Pending, TargetClosed, Solitary, EffectClearTarget, false},
	{Pending, AskGivenUp, Solitary, EffectClearTarget, false},
	{Pending, OwnFleetRecordedMachine, Voter, EffectClearTarget, false},
	{Learner, SeatedAsVoter, Voter, EffectAdoptSeat, true},
	{Voter, SeatedAsLearner, Learner, EffectAdoptSeat, true},
	{Learner, OwnRecordForgotten, Solitary, EffectMintNew, true},
	{Voter, OwnRecordForgotten, Solitary, EffectMintNew, true},
	{Learner, Left, Solitary, EffectMintNew, true},
	{Voter, Left, Solitary, EffectMintNew, true},
	{Learner, Recovered, Voter, EffectArchiveEpoch, true},
	{Voter, Recovered, Voter, EffectArchiveEpoch, true},
	{Learner, EpochAccepted, Learner, EffectArchive, true},
	{Voter, EpochAccepted, Learner, EffectArchive, true},
	{Learner, DissolvedInto, Pending, EffectMintAndAsk, true},
	{Voter, DissolvedInto, Pending, EffectMintAndAsk, true},
}

// Next returns the row of (from, on); false means that the trigger is ignored in this mode, and counted by whoever asked.
func Next(from Mode, on Trigger) (Transition, bool) {
	for _, t := range Transitions {
		if t.From == from && t.On == on {
			return t, true
		}
	}
	return Transition{}, false
}
