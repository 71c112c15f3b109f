package fleet

import (
	"bytes"
	"strings"
	"testing"
)

// A leader never takes itself out: it hands leadership over, and another one does the rest. What no seat shows is no matter of its own.
func TestReconcileLeavesItselfToOthers(t *testing.T) {
	for role, seat := range map[Role]Seat{RoleLeaving: SeatNone, RoleLearner: SeatNonvoter, RoleNone: SeatNonvoter, RoleVoterPending: SeatNonvoter, RoleVoter: SeatNone} {
		in := ReconcileInput{View: fleetOf(map[string]Role{"n-a": role, "n-b": RoleVoter}), Self: "n-a", Seats: map[string]Seat{"n-b": SeatVoter}, Progress: map[string]Progress{"n-a": ProgressCaughtUp}}
		if seat != SeatNone {
			in.Seats["n-a"] = seat
		}
		if step, id := Reconcile(in); step != StepNone {
			t.Errorf("as %q with seat %d: step %d about %s", role, seat, step, id)
		}
	}
}

// Of several members for whom the same is due the lowest id is the first; of whom nothing was heard nothing is assumed.
func TestReconcileGoesByID(t *testing.T) {
	for range 20 { // raft's configuration is a map
		in := ReconcileInput{View: fleetOf(map[string]Role{"n-a": RoleVoter, "n-b": RoleLearner, "n-c": RoleLearner, "n-d": RoleLearner, "n-e": RoleVoterPending}), Self: "n-a",
			Seats: map[string]Seat{"n-a": SeatVoter, "n-d": SeatVoter, "n-c": SeatVoter, "n-b": SeatVoter}}
		if step, id := Reconcile(in); step != StepRemoveSeat || id != "n-b" {
			t.Fatalf("step %d about %s", step, id)
		}
	}
	in := ReconcileInput{View: fleetOf(map[string]Role{"n-a": RoleVoter, "n-b": RoleVoterPending}), Self: "n-a", Seats: map[string]Seat{"n-a": SeatVoter}}
	if step, id := Reconcile(in); step != StepNone {
		t.Errorf("a machine that did not answer: step %d about %s", step, id)
	}
}

// A voter that leaves at its own word keeps its key, one that is forgotten does not: which of the two it is goes into the log. What is
// forgotten is told with its key.
func TestWhoseWishItIs(t *testing.T) {
	s := founded(t)
	for i := 1; i <= 2; i++ {
		must(t, s, admit(i))
	}
	must(t, s, SetRole("n-0001", RoleVoter, by, 1))
	for verb, own := range map[MembershipVerb]bool{VerbLeave: true, VerbForget: false} {
		d := s.View().Decide(verb, "n-0001", nil, "", by, 1)
		if want := LeaveVoters("n-0001", own, by, 1); !d.Commit || !bytes.Equal(d.Command.Encode(), want.Encode()) {
			t.Errorf("verb %v commits %s, want %s", verb, d.Command.Encode(), want.Encode())
		}
	}
	if d := s.View().Decide(VerbForget, "n-0002", nil, "", by, 1); !strings.Contains(d.Text, pub(2).String()) {
		t.Errorf("%q does not name the key", d.Text)
	}
}

// That a fleet dissolved, and into which one, is in the audit.
func TestDissolveIsInTheAudit(t *testing.T) {
	s := founded(t)
	o := goodOrder()
	r := must(t, s, dissolve(o))
	a := s.View().Audit()
	if last := a[len(a)-1]; last.What != "dissolve-into" || last.Subject != o.LeaderID || last.Detail != survivorCluster+" at "+o.LeaderEndpoint || last.Revision != r.Revision {
		t.Errorf("%+v", last)
	}
}
