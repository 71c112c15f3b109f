package fleet

import (
	"slices"
	"time"
)

// PromotionPatience is how long a promotion may stand still before it is withdrawn: the leader's own elapsed time since it
// began to work on it.
const PromotionPatience = 10 * time.Minute

// Seat is how raft's configuration holds a member.
type Seat uint8

// Seats.
const (
	SeatNone     Seat = iota // it is not in the configuration
	SeatNonvoter             // it is sent the log and has no vote
	SeatVoter
)

// Progress is how far the promotion of a member has come.
type Progress uint8

// Progresses.
const (
	ProgressAny       Progress = iota // in a rule: whatever it is
	ProgressNone                      // its consensus port does not answer, or it is behind
	ProgressListening                 // its consensus port answers, and its log is behind
	ProgressCaughtUp                  // its log has come as far as the state that it follows
	ProgressStalled                   // neither within PromotionPatience
)

// ReconcileStep is one change that brings raft's configuration nearer to the wished roles.
type ReconcileStep uint8

// Steps.
const (
	StepNone        ReconcileStep = iota
	StepRecordVoter               // raft holds it as a voter: the role follows the fact
	StepHandOver                  // the leader itself is to lose its seat: another one leads first
	StepRemoveSeat                // out of raft's configuration
	StepFinish                    // the entry that removes it from the roster
	StepAddNonvoter               // raft sends it the log
	StepMakeVoter                 // raft gives it a vote
	StepWithdraw                  // the wish goes back to learner
)

// Whose says whether a rule is about the leader itself.
type Whose uint8

// Whose.
const (
	WhoseAny Whose = iota
	WhoseOwn
	WhoseOther
)

// RoleNone is the role, in a rule, of whoever raft's configuration names and the roster does not.
const RoleNone Role = ""

// ReconcileRule is one row of the table: the first row that fits a member is what is done next. Alone says that the row
// waits while raft holds another member without a vote: one is promoted at a time.
type ReconcileRule struct {
	Role     Role
	Seat     Seat
	Whose    Whose
	Progress Progress
	Alone    bool
	Do       ReconcileStep
}

// ReconcileRules is the table of what the leader does about a wished role and a seat that differ, in the order of urgency.
// What no row names is as it should be, or waits.
var ReconcileRules = []ReconcileRule{
	{RoleVoterPending, SeatVoter, WhoseAny, ProgressAny, false, StepRecordVoter},
	{RoleLeaving, SeatVoter, WhoseOwn, ProgressAny, false, StepHandOver},
	{RoleLearner, SeatVoter, WhoseOwn, ProgressAny, false, StepHandOver},
	{RoleNone, SeatVoter, WhoseOwn, ProgressAny, false, StepHandOver},
	{RoleLeaving, SeatVoter, WhoseOther, ProgressAny, false, StepRemoveSeat},
	{RoleLeaving, SeatNonvoter, WhoseOther, ProgressAny, false, StepRemoveSeat},
	{RoleNone, SeatVoter, WhoseOther, ProgressAny, false, StepRemoveSeat},
	{RoleNone, SeatNonvoter, WhoseOther, ProgressAny, false, StepRemoveSeat},
	{RoleLearner, SeatVoter, WhoseOther, ProgressAny, false, StepRemoveSeat},
	{RoleLearner, SeatNonvoter, WhoseOther, ProgressAny, false, StepRemoveSeat},
	{RoleLeaving, SeatNone, WhoseOther, ProgressAny, false, StepFinish},
	{RoleVoter, SeatNonvoter, WhoseOther, ProgressCaughtUp, false, StepMakeVoter},
	{RoleVoterPending, SeatNonvoter, WhoseOther, ProgressCaughtUp, false, StepMakeVoter},
	{RoleVoterPending, SeatNonvoter, WhoseOther, ProgressStalled, false, StepWithdraw},
	{RoleVoterPending, SeatNone, WhoseOther, ProgressStalled, false, StepWithdraw},
	{RoleVoter, SeatNone, WhoseOther, ProgressListening, true, StepAddNonvoter},
	{RoleVoter, SeatNone, WhoseOther, ProgressCaughtUp, true, StepAddNonvoter},
	{RoleVoterPending, SeatNone, WhoseOther, ProgressListening, true, StepAddNonvoter},
	{RoleVoterPending, SeatNone, WhoseOther, ProgressCaughtUp, true, StepAddNonvoter},
}

// ReconcileInput is what the leader decides upon.
type ReconcileInput struct {
	View     *View
	Self     string
	Seats    map[string]Seat     // raft's configuration
	Progress map[string]Progress // of members that Promoting names; what is missing is ProgressNone
}

// Reconcile returns the one change to make next, and whom it is about.
func Reconcile(in ReconcileInput) (ReconcileStep, string) {
	for i := range ReconcileRules {
		r := &ReconcileRules[i]
		for _, id := range subjects(in) {
			if r.fits(&in, id) {
				return r.Do, id
			}
		}
	}
	return StepNone, ""
}

// subjects are all whom the roster names with another role than learner, and all whom raft's configuration names, by id.
func subjects(in ReconcileInput) []string {
	var out []string
	for _, m := range in.View.members {
		if _, seated := in.Seats[m.ID]; m.Role != RoleLearner && !seated {
			out = append(out, m.ID)
		}
	}
	for id := range in.Seats {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func (r *ReconcileRule) fits(in *ReconcileInput, id string) bool {
	role := RoleNone
	if m := in.View.record(id); m != nil {
		role = m.Role
	}
	progress := in.Progress[id]
	if progress == ProgressAny {
		progress = ProgressNone
	}
	own := id == in.Self
	switch {
	case r.Role != role, r.Seat != in.Seats[id], r.Whose == WhoseOwn && !own, r.Whose == WhoseOther && own,
		r.Progress != ProgressAny && r.Progress != progress:
		return false
	case r.Alone:
		for other, seat := range in.Seats {
			if other != id && seat == SeatNonvoter {
				return false
			}
		}
	}
	return true
}

// Promoting returns the members whose progress the leader asks for, by id: those that are to be voters and are not in raft.
// waits names those of them whose turn has not come, since raft takes one more member at a time.
func Promoting(v *View, self string, seats map[string]Seat) (ids []string, waits map[string]bool) {
	waits = map[string]bool{}
	busy := ""
	for id, seat := range seats {
		if seat == SeatNonvoter && (busy == "" || id < busy) {
			busy = id
		}
	}
	for _, m := range v.members {
		if (m.Role == RoleVoterPending || m.Role == RoleVoter) && seats[m.ID] != SeatVoter && m.ID != self {
			ids = append(ids, m.ID)
			waits[m.ID] = busy != "" && busy != m.ID
		}
	}
	return ids, waits
}

// SeatReport is what a member that is being promoted says of its seat.
type SeatReport struct {
	Open     bool   `json:"open"`           // its consensus port is open
	Said     string `json:"said,omitempty"` // why it is not
	Endpoint string `json:"endpoint"`       // where
	Counted  uint64 `json:"counted"`        // the revision that its log has come to
	Followed uint64 `json:"followed"`       // the revision that it has applied
}

// ProgressOf judges a report; nil is a member that did not answer. waited is the time since its turn came.
func ProgressOf(r *SeatReport, waited time.Duration) Progress {
	switch {
	case r != nil && r.Open && r.Counted > 0 && r.Counted >= r.Followed:
		return ProgressCaughtUp
	case waited >= PromotionPatience:
		return ProgressStalled
	case r != nil && r.Open:
		return ProgressListening
	}
	return ProgressNone
}
