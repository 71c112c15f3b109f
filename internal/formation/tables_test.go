package formation

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pace-node/internal/wire"
)

var allModes = []Mode{Solitary, Pending, Learner, Voter}

var allTriggers = []Trigger{YieldDecided, OwnFleetRecordedMachine, Approved, Rejected, Abandoned, TargetYielded, TargetPendingHere,
	TargetClosed, AskGivenUp, SeatedAsVoter, SeatedAsLearner, OwnRecordForgotten, Left, Recovered, EpochAccepted, DissolvedInto}

// checkModes holds the page's table of modes, cell by cell.
func checkModes() error {
	want := []ModeRow{
		{Solitary, "solitary", ConsensusOwn, RaftOpen, wire.StateSolitary, SchedulerRuns},
		{Pending, "pending", ConsensusOwn, RaftOpen, wire.StatePending, SchedulerRuns},
		{Learner, "learner", ConsensusFollows, RaftWhileBecomingVoter, wire.StateEstablished, SchedulerNever},
		{Voter, "voter", ConsensusFleet, RaftOpen, wire.StateEstablished, SchedulerWhileLeader},
	}
	for _, w := range want {
		got, ok := w.Mode.Row()
		if !ok || got != w {
			return fmt.Errorf("mode %d: %+v, want %+v", w.Mode, got, w)
		}
		if w.Mode.String() != w.Name {
			return fmt.Errorf("mode %d prints %q", w.Mode, w.Mode)
		}
		if m, ok := ParseMode(w.Name); !ok || m != w.Mode {
			return fmt.Errorf("%q reads as %v", w.Name, m)
		}
	}
	if len(Modes) != len(want) {
		return fmt.Errorf("%d modes", len(Modes))
	}
	return nil
}

func TestModes(t *testing.T) {
	if err := checkModes(); err != nil {
		t.Fatal(err)
	}
	if Mode(0).String() != "unknown" || Mode(9).String() != "unknown" {
		t.Fatal("a mode that is none has a name")
	}
	if _, ok := ParseMode("follower"); ok {
		t.Fatal("an unknown mode reads")
	}
}

func TestMutationModes(t *testing.T) {
	mutate(t, Modes, checkModes, func(r *ModeRow, step int) bool {
		switch step {
		case 0:
			r.Consensus = r.Consensus%3 + 1
		case 1:
			r.RaftPort = r.RaftPort%2 + 1
		case 2:
			r.Announces = r.Announces%3 + 1
		case 3:
			r.Scheduler = r.Scheduler%3 + 1
		case 4:
			r.Name += "x"
		case 5:
			r.Mode = r.Mode%4 + 1
		default:
			return false
		}
		return true
	})
}

// mutate changes each row of a table in each way there is, and expects check to notice; then the row is put back.
func mutate[R any](t *testing.T, table []R, check func() error, change func(row *R, step int) bool) {
	t.Helper()
	if err := check(); err != nil {
		t.Fatal(err)
	}
	for i := range table {
		for step := 0; ; step++ {
			old := table[i]
			if !change(&table[i], step) {
				table[i] = old
				break
			}
			err := check()
			table[i] = old
			if err == nil {
				t.Errorf("row %d, change %d: nothing failed", i, step)
			}
		}
	}
	if err := check(); err != nil {
		t.Fatal("the table was not put back:", err)
	}
}

type cell struct {
	to      Mode
	effect  Effect
	rebuild bool
}

// wantTransitions is the page's table: per mode and trigger; what is not here is ignored.
var wantTransitions = map[Mode]map[Trigger]cell{
	Solitary: {
		YieldDecided:            {Pending, EffectRecordTarget, false},
		OwnFleetRecordedMachine: {Voter, EffectNone, false},
	},
	Pending: {
		Approved:                {Learner, EffectDissolve, true},
		Rejected:                {Solitary, EffectRememberRejection, false},
		Abandoned:               {Solitary, EffectClearTarget, false},
		TargetYielded:           {Pending, EffectRecordTarget, false},
		TargetPendingHere:       {Solitary, EffectClearTarget, false},
		TargetClosed:            {Solitary, EffectClearTarget, false},
		AskGivenUp:              {Solitary, EffectClearTarget, false},
		OwnFleetRecordedMachine: {Voter, EffectClearTarget, false},
	},
	Learner: {
		SeatedAsVoter:      {Voter, EffectAdoptSeat, true},
		OwnRecordForgotten: {Solitary, EffectMintNew, true},
		Left:               {Solitary, EffectMintNew, true},
		Recovered:          {Voter, EffectArchiveEpoch, true},
		EpochAccepted:      {Learner, EffectArchive, true},
		DissolvedInto:      {Pending, EffectMintAndAsk, true},
	},
	Voter: {
		SeatedAsLearner:    {Learner, EffectAdoptSeat, true},
		OwnRecordForgotten: {Solitary, EffectMintNew, true},
		Left:               {Solitary, EffectMintNew, true},
		Recovered:          {Voter, EffectArchiveEpoch, true},
		EpochAccepted:      {Learner, EffectArchive, true},
		DissolvedInto:      {Pending, EffectMintAndAsk, true},
	},
}

// checkTransitions walks every pair of mode and trigger.
func checkTransitions() error {
	known := 0
	for _, from := range allModes {
		for _, on := range allTriggers {
			want, ok := wantTransitions[from][on]
			got, found := Next(from, on)
			if found != ok {
				return fmt.Errorf("%v on %v: known %v, want %v", from, on, found, ok)
			}
			if !ok {
				continue
			}
			known++
			if (cell{got.To, got.Effect, got.Rebuild}) != want || got.From != from || got.On != on {
				return fmt.Errorf("%v on %v: %+v, want %+v", from, on, got, want)
			}
		}
	}
	if len(Transitions) != known {
		return fmt.Errorf("%d rows for %d cells", len(Transitions), known)
	}
	return nil
}

func TestTransitions(t *testing.T) {
	if err := checkTransitions(); err != nil {
		t.Fatal(err)
	}
	if len(allTriggers) != len(Triggers) {
		t.Fatalf("%d triggers in the table, %d in the test", len(Triggers), len(allTriggers))
	}
}

func TestMutationTransitions(t *testing.T) {
	mutate(t, Transitions, checkTransitions, func(r *Transition, step int) bool {
		switch step {
		case 0:
			r.To = r.To%4 + 1
		case 1:
			r.Effect = r.Effect%10 + 1
		case 2:
			r.Rebuild = !r.Rebuild
		case 3:
			r.On = r.On%16 + 1
		case 4:
			r.From = r.From%4 + 1
		default:
			return false
		}
		return true
	})
}

// checkTriggers: which triggers may come from elsewhere. The others are this package's own conclusions.
func checkTriggers() error {
	external := []Trigger{OwnFleetRecordedMachine, AskGivenUp, SeatedAsVoter, SeatedAsLearner, OwnRecordForgotten, Left, Recovered,
		EpochAccepted, DissolvedInto}
	names := map[string]bool{}
	for _, on := range allTriggers {
		row, ok := on.Row()
		if !ok || row.External != slices.Contains(external, on) {
			return fmt.Errorf("%d: %+v", on, row)
		}
		if row.Name == "" || names[row.Name] {
			return fmt.Errorf("%d has no name of its own", on)
		}
		names[row.Name] = true
	}
	return nil
}

func TestTriggers(t *testing.T) {
	if err := checkTriggers(); err != nil {
		t.Fatal(err)
	}
	if Trigger(0).String() != "unknown" {
		t.Fatal("no trigger has a name")
	}
}

func TestMutationTriggers(t *testing.T) {
	mutate(t, Triggers, checkTriggers, func(r *TriggerRow, step int) bool {
		switch step {
		case 0:
			r.External = !r.External
		case 1:
			r.Trigger = r.Trigger%16 + 1
		case 2:
			r.Name = ""
		default:
			return false
		}
		return true
	})
}

// checkOrigins: the preference is seed, remembered, SRV, beacon; the dial order is remembered, seed, SRV; a solitary fleet
// wins the tie-break where a typed seed or SRV found it.
func checkOrigins() error {
	if !(OriginSeed < OriginRemembered && OriginRemembered < OriginSRV && OriginSRV < OriginBeacon) {
		return errors.New("the preference is not seed, remembered, SRV, beacon")
	}
	want := []OriginRow{
		{OriginSeed, "fleet-seed", 2, true},
		{OriginRemembered, "remembered", 1, false},
		{OriginSRV, "srv", 3, true},
		{OriginBeacon, "beacon", 0, false},
	}
	for _, w := range want {
		if got := w.Origin.Row(); got != w {
			return fmt.Errorf("%+v, want %+v", got, w)
		}
	}
	return nil
}

func TestOrigins(t *testing.T) {
	if err := checkOrigins(); err != nil {
		t.Fatal(err)
	}
	if r := Origin(77).Row(); r.Dialed != 0 || r.Wins {
		t.Fatalf("an unknown origin is worth something: %+v", r)
	}
}

func TestMutationOrigins(t *testing.T) {
	mutate(t, Origins, checkOrigins, func(r *OriginRow, step int) bool {
		switch step {
		case 0:
			r.Dialed++
		case 1:
			r.Wins = !r.Wins
		case 2:
			r.Origin = (r.Origin + 1) % 4
		case 3:
			r.Name += "x"
		default:
			return false
		}
		return true
	})
}

// checkCounters: each counter's series, in order.
func checkCounters() error {
	want := []string{"yields", "joins_abandoned", "moves_ignored", "pin_refusals", "admissions_refused", "endpoints_refused", "fleets_over_bound"}
	if len(Counters) != int(counters) || len(Counters) != len(want) {
		return fmt.Errorf("%d rows for %d counters", len(Counters), counters)
	}
	for i, r := range Counters {
		if int(r.Counter) != i || r.Metric != "pace_formation_"+want[i]+"_total" || r.Help == "" {
			return fmt.Errorf("row %d: %+v", i, r)
		}
	}
	return nil
}

func TestMutationCounters(t *testing.T) {
	mutate(t, Counters, checkCounters, func(r *CounterRow, step int) bool {
		switch step {
		case 0:
			r.Counter = (r.Counter + 1) % counters
		case 1:
			r.Metric += "x"
		case 2:
			r.Help = ""
		default:
			return false
		}
		return true
	})
}

// The small tables of names: complete, and each name its own.
func TestCountersAndSaysAreNamed(t *testing.T) {
	if err := checkCounters(); err != nil {
		t.Fatal(err)
	}
	for s := SaySeedFailed; s <= SayMoveRefused; s++ {
		if s.String() == "unknown" {
			t.Errorf("line %d is not in the table", s)
		}
	}
	for o := SameFleet; o <= TieBreak; o++ {
		if o.String() == "unknown" {
			t.Errorf("outcome %d has no name", o)
		}
	}
}
