package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pace-node/internal/identity"
)

// The cells, written out from "Roles against raft's configuration". Rows: a role, or that the roster does not name it;
// columns: not in raft, without a vote, a voter. Each is three letters of progress (none, listening, caught up), and a fourth
// for stalled: v record it as a voter, R out of raft, F the entry that removes it, a sent the log, V a vote, w withdrawn,
// - nothing.
var reconcileCells = []struct {
	role Role
	want [3]string
}{
	{RoleNone, [3]string{"", "RRRR", "RRRR"}},
	{RoleLearner, [3]string{"----", "RRRR", "RRRR"}},
	{RoleVoterPending, [3]string{"-aaw", "--Vw", "vvvv"}},
	{RoleVoter, [3]string{"-aa-", "--V-", "----"}},
	{RoleLeaving, [3]string{"FFFF", "RRRR", "RRRR"}},
}

var reconcileSteps = map[byte]ReconcileStep{'-': StepNone, 'v': StepRecordVoter, 'R': StepRemoveSeat, 'F': StepFinish, 'a': StepAddNonvoter, 'V': StepMakeVoter, 'w': StepWithdraw}

// fleetOf is a state of the leader n-a and of members with roles; RoleNone is left out.
func fleetOf(roles map[string]Role) *View {
	v := &View{cluster: "c"}
	ids := slices.Collect(func(yield func(string) bool) {
		for id := range roles {
			if !yield(id) {
				return
			}
		}
	})
	slices.Sort(ids)
	for i, id := range ids {
		if roles[id] != RoleNone {
			v.members = append(v.members, &record{Member: Member{ID: id, Key: identity.PublicKey{byte(i + 1)}, Role: roles[id]}})
		}
	}
	return v
}

func checkReconcile() error {
	progresses := []Progress{ProgressNone, ProgressListening, ProgressCaughtUp, ProgressStalled}
	for _, c := range reconcileCells {
		for seat, letters := range c.want {
			for i := range letters {
				in := ReconcileInput{View: fleetOf(map[string]Role{"n-a": RoleVoter, "n-b": c.role}), Self: "n-a",
					Seats: map[string]Seat{"n-a": SeatVoter}, Progress: map[string]Progress{"n-b": progresses[i]}}
				if Seat(seat) != SeatNone {
					in.Seats["n-b"] = Seat(seat)
				}
				step, id := Reconcile(in)
				if want := reconcileSteps[letters[i]]; step != want || want != StepNone && id != "n-b" {
					return fmt.Errorf("%q, seat %d, progress %d: step %d about %q, want %c", c.role, seat, progresses[i], step, id, letters[i])
				}
				// One more member at a time.
				if letters[i] == 'a' {
					in.Seats["n-c"] = SeatNonvoter
					in.View = fleetOf(map[string]Role{"n-a": RoleVoter, "n-b": c.role, "n-c": RoleVoterPending})
					if step, _ := Reconcile(in); step != StepNone {
						return fmt.Errorf("%q is sent the log beside another one", c.role)
					}
				}
			}
		}
	}
	// The leader itself hands over before it loses its seat; as a voter and while it is being recorded it does not.
	for role, want := range map[Role]ReconcileStep{RoleNone: StepHandOver, RoleLearner: StepHandOver, RoleLeaving: StepHandOver, RoleVoter: StepNone, RoleVoterPending: StepRecordVoter} {
		in := ReconcileInput{View: fleetOf(map[string]Role{"n-a": role, "n-b": RoleVoter}), Self: "n-a", Seats: map[string]Seat{"n-a": SeatVoter, "n-b": SeatVoter}}
		if step, _ := Reconcile(in); step != want {
			return fmt.Errorf("the leader as %q: step %d", role, step)
		}
	}
	// What is urgent comes first: a fact is recorded before anything else, a seat is taken before one is given.
	in := ReconcileInput{View: fleetOf(map[string]Role{"n-a": RoleVoter, "n-b": RoleVoterPending, "n-c": RoleLeaving, "n-d": RoleVoterPending}), Self: "n-a",
		Seats: map[string]Seat{"n-a": SeatVoter, "n-c": SeatVoter, "n-d": SeatVoter}, Progress: map[string]Progress{"n-b": ProgressListening}}
	for _, want := range []struct {
		step ReconcileStep
		id   string
		then func()
	}{
		{StepRecordVoter, "n-d", func() {
			in.View = fleetOf(map[string]Role{"n-a": RoleVoter, "n-b": RoleVoterPending, "n-c": RoleLeaving, "n-d": RoleVoter})
		}},
		{StepRemoveSeat, "n-c", func() { delete(in.Seats, "n-c") }},
		{StepFinish, "n-c", func() {
			in.View = fleetOf(map[string]Role{"n-a": RoleVoter, "n-b": RoleVoterPending, "n-d": RoleVoter})
		}},
		{StepAddNonvoter, "n-b", func() {}},
	} {
		if step, id := Reconcile(in); step != want.step || id != want.id {
			return fmt.Errorf("step %d about %s, want %d about %s", step, id, want.step, want.id)
		}
		want.then()
	}
	return nil
}

func TestReconcileRules(t *testing.T) {
	if err := checkReconcile(); err != nil {
		t.Fatal(err)
	}
	if len(reconcileCells) != len(Roles)+1 {
		t.Fatal("a role is missing")
	}
}

func TestMutationReconcileRules(t *testing.T) {
	mutate(t, ReconcileRules, func(r *ReconcileRule) { r.Do = (r.Do + 1) % (StepWithdraw + 1) }, checkReconcile)
	mutate(t, ReconcileRules, func(r *ReconcileRule) { r.Role = "x" }, checkReconcile)
	mutate(t, ReconcileRules, func(r *ReconcileRule) { r.Alone = !r.Alone }, func() error {
		for _, r := range ReconcileRules {
			if r.Alone && r.Do != StepAddNonvoter { // what nobody would notice is not written down
				return fmt.Errorf("step %d waits", r.Do)
			}
		}
		return checkReconcile()
	})
}

func TestProgress(t *testing.T) {
	for _, c := range []struct {
		name   string
		report *SeatReport
		waited time.Duration
		want   Progress
	}{
		{"no answer", nil, time.Minute, ProgressNone},
		{"no answer for ten minutes", nil, PromotionPatience, ProgressStalled},
		{"its port is closed", &SeatReport{Followed: 9}, 0, ProgressNone},
		{"its port is open", &SeatReport{Open: true, Followed: 9}, 0, ProgressListening},
		{"its port is open and nothing is applied yet", &SeatReport{Open: true}, 0, ProgressListening},
		{"its log is behind", &SeatReport{Open: true, Counted: 8, Followed: 9}, PromotionPatience - 1, ProgressListening},
		{"its log is behind for ten minutes", &SeatReport{Open: true, Counted: 8, Followed: 9}, PromotionPatience, ProgressStalled},
		{"its log has come as far", &SeatReport{Open: true, Counted: 9, Followed: 9}, 0, ProgressCaughtUp},
		{"its log is ahead, late", &SeatReport{Open: true, Counted: 10, Followed: 9}, time.Hour, ProgressCaughtUp},
	} {
		if got := ProgressOf(c.report, c.waited); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestPromoting(t *testing.T) {
	v := fleetOf(map[string]Role{"n-a": RoleVoter, "n-b": RoleVoterPending, "n-c": RoleVoterPending, "n-d": RoleLearner, "n-e": RoleVoter, "n-f": RoleLeaving})
	ids, waits := Promoting(v, "n-a", map[string]Seat{"n-a": SeatVoter, "n-c": SeatNonvoter, "n-e": SeatVoter})
	if !slices.Equal(ids, []string{"n-b", "n-c"}) || !waits["n-b"] || waits["n-c"] {
		t.Fatalf("%v %v", ids, waits)
	}
}

// TestReconcileEnds: from any roles and any seats the steps come to an end, and then both agree; meanwhile raft is never
// without a voter, and never takes up two members at once.
func TestReconcileEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roles := map[string]Role{"n-a": RoleVoter}
		seats := map[string]Seat{"n-a": SeatVoter}
		for i := range rapid.IntRange(0, 6).Draw(t, "members") {
			id := fmt.Sprintf("n-%d", i)
			roles[id] = rapid.SampledFrom([]Role{RoleNone, RoleLearner, RoleVoterPending, RoleVoter, RoleLeaving}).Draw(t, "role")
			if seat := rapid.SampledFrom([]Seat{SeatNone, SeatNonvoter, SeatVoter}).Draw(t, "seat"); seat != SeatNone {
				seats[id] = seat
			}
		}
		before := nonvoters(seats)
		for steps := 0; ; steps++ {
			if steps > 100 {
				t.Fatalf("no end: %v %v", roles, seats)
			}
			in := ReconcileInput{View: fleetOf(roles), Self: "n-a", Seats: seats, Progress: map[string]Progress{}}
			ids, waits := Promoting(in.View, "n-a", seats)
			for _, id := range ids {
				if !waits[id] {
					in.Progress[id] = ProgressCaughtUp
				}
			}
			step, id := Reconcile(in)
			if step == StepNone {
				break
			}
			switch step {
			case StepRecordVoter:
				roles[id] = RoleVoter
			case StepRemoveSeat:
				delete(seats, id)
			case StepFinish:
				roles[id] = RoleNone
			case StepAddNonvoter:
				seats[id] = SeatNonvoter
			case StepMakeVoter:
				seats[id] = SeatVoter
			default:
				t.Fatalf("step %d", step)
			}
			if n := nonvoters(seats); n > max(before, 1) {
				t.Fatalf("%d members without a vote", n)
			}
		}
		for id, role := range roles {
			if (role == RoleVoter) != (seats[id] == SeatVoter) || role == RoleVoterPending || role == RoleLeaving || role != RoleVoter && seats[id] != SeatNone {
				t.Fatalf("%s is %q and seated %d", id, role, seats[id])
			}
		}
	})
}

func nonvoters(seats map[string]Seat) (n int) {
	for _, s := range seats {
		if s == SeatNonvoter {
			n++
		}
	}
	return n
}
