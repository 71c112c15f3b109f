package simfleet

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pace-node/internal/formation"
)

// faults are rules broken on purpose, and what the checker must call each: by a fault of the model, or by a row of the
// product's own tables that is switched.
var faults = []struct {
	name   string
	rule   Rule
	breaks Breaks
	change func() (restore func())
	or     []Rule                   // what some seeds show first
	tell   func(seed uint64) *Story // where drawn stories hardly ever meet it
}{
	{"a leader admits whoever asks", RuleUnasked, Breaks{AdmitAnybody: true}, nil, nil, nil},
	{"a disk says that it wrote and did not", RuleLost, Breaks{LoseTail: true}, nil, []Rule{RuleDigest, RuleBack}, from(37, drawn)},
	{"a machine keeps its own fleet's store beside the one it joined", RuleTwoFleets, Breaks{KeepStores: true}, nil, nil, nil},
	{"nobody is ever approved", RuleUnsettled, Breaks{Deaf: true}, nil, nil, nil},
	{"an approval changes nothing", RuleUnsettled, Breaks{}, func() func() { return withoutTransition(formation.Pending, formation.Approved) }, nil, nil},
	{"a voter forgets whom it voted for", RuleTwoLeaders, Breaks{ForgetVotes: true}, nil, nil, elections},
	{"a learner leaves commands out", RuleDigest, Breaks{DropCommands: true}, nil, nil, nil},
	{"a leader that lost its seat keeps its queue", RuleQueue, Breaks{KeepQueue: true}, nil, nil, nil},
	{"a leader that lost its seat has its workers go on", RuleQueue, Breaks{KeepRuns: true}, nil, nil, leaders},
	{"a leader that can provision nobody leads on", RuleUnsettled, Breaks{KeepLeading: true}, nil, nil, from(29, leaders)},
	{"a machine begins a step while another one runs", RuleOneStep, Breaks{TwoSteps: true}, nil, nil, leaders},
	{"a machine takes leases of any term", RuleLease, Breaks{OldTerms: true}, nil, []Rule{RuleTwice}, leaders},
	{"a machine is restarted for a leader that was followed by another", RuleTwice, Breaks{OldRestarts: true}, nil, nil, leaders},
	{"a record does not tell how earlier runs ended", RuleBack, Breaks{ForgetRuns: true}, nil, nil, nil},
}

// drawn is a short story of a few machines.
func drawn(seed uint64) *Story {
	return Draw(seed, Kind{Least: 3, Most: 8, Span: 40 * time.Minute, Gap: 40 * time.Second})
}

// from leaves the first seeds out, which do not meet what is looked for.
func from(first uint64, tell func(uint64) *Story) func(uint64) *Story {
	return func(seed uint64) *Story { return tell(first + seed) }
}

func withTransition(from formation.Mode, on formation.Trigger, change func(*formation.Transition)) func() {
	for i := range formation.Transitions {
		if t := &formation.Transitions[i]; t.From == from && t.On == on {
			was := *t
			change(t)
			return func() { formation.Transitions[i] = was }
		}
	}
	panic("no such row")
}

func withoutTransition(from formation.Mode, on formation.Trigger) func() {
	return withTransition(from, on, func(t *formation.Transition) { t.From = 0 })
}

// elections is a story of five voters that lose their power together again and again: two that stand in one term have to meet.
func elections(seed uint64) *Story {
	const voters, rounds = 5, 20
	s := &Story{Seed: seed, Machines: voters, Segments: 1, Span: (10 + rounds) * time.Minute}
	for n := range voters {
		s.Steps = append(s.Steps, Step{At: time.Duration(n) * 10 * time.Second, Act: ActBoot, Who: n})
	}
	for n := range voters - 1 {
		s.Steps = append(s.Steps, Step{At: time.Duration(2+n) * time.Minute, Act: ActApprove, Arg: "#0"})
	}
	for n := range voters {
		s.Steps = append(s.Steps, Step{At: 7*time.Minute + time.Duration(n)*20*time.Second, Act: ActPromote, Arg: nameOf(n)})
	}
	for round := range rounds {
		for n := range voters {
			s.Steps = append(s.Steps, Step{At: time.Duration(10+round) * time.Minute, Act: ActCrash, Who: n})
		}
		for n := range voters {
			s.Steps = append(s.Steps, Step{At: time.Duration(10+round)*time.Minute + time.Second, Act: ActBoot, Who: n})
		}
	}
	return s
}

// leaders is a story of three voters and three learners that are provisioned again and again, while whoever leads stands still or
// stops in the middle of it.
func leaders(seed uint64) *Story {
	const machines, voters, rounds = 6, 3, 16
	c := chanceOf(seed, chancePlan)
	s := &Story{Seed: seed, Machines: machines, Segments: 1, Span: (9 + rounds) * time.Minute}
	step := func(at time.Duration, act Act, who int, arg string) {
		s.Steps = append(s.Steps, Step{At: at, Act: act, Who: who, Arg: arg})
	}
	for n := range machines {
		step(time.Duration(n)*10*time.Second, ActBoot, n, "")
		step(time.Duration(n+2)*time.Minute, ActApprove, 0, "#0")
	}
	for n := range voters {
		step(8*time.Minute+time.Duration(n)*20*time.Second, ActPromote, 0, nameOf(n))
	}
	for round := range rounds {
		at := time.Duration(9+round) * time.Minute
		for n := range machines {
			step(at, ActReprovision, 1, "#"+strconv.Itoa(n))
		}
		n := c.IntN(voters) // one at a time, or nobody is elected meanwhile
		if at := at + c.between(500*time.Millisecond, 4*time.Second).Truncate(time.Millisecond); round%3 > 0 {
			step(at, ActFreeze, n, "20s")
		} else {
			step(at, ActStop, n, "")
			step(at+20*time.Second, ActBoot, n, "")
		}
	}
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s
}

// TestFaultsAreSeen: each fault is found within a few seeds, and called by its rule; its story is told short.
func TestFaultsAreSeen(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			if f.change != nil {
				defer f.change()()
			}
			tell := f.tell
			if tell == nil {
				tell = drawn
			}
			for seed := range uint64(40) {
				o := Run(tell(seed+1), f.breaks)
				if o.Violation == nil || slices.Contains(f.or, o.Violation.Rule) {
					continue
				}
				if o.Violation.Rule != f.rule {
					t.Fatalf("seed %d broke another rule:\n%s", seed+1, o.Tell())
				}
				short := Shrink(o, f.breaks, 12)
				t.Logf("seed %d, %d of %d steps: %v", seed+1, len(short.Story.Steps), len(o.Story.Steps), short.Violation)
				if !strings.Contains(short.Tell(), f.rule.String()) {
					t.Error("the story does not name the rule")
				}
				return
			}
			t.Fatal("no seed found it")
		})
	}
}

// TestFaultsNameEveryRule: a rule that no fault breaks might hold for want of anybody looking.
func TestFaultsNameEveryRule(t *testing.T) {
	for _, row := range Rules {
		found := row.Rule == RuleModel // it speaks of the model itself
		for _, f := range faults {
			found = found || f.rule == row.Rule
		}
		if !found {
			t.Errorf("no fault breaks %q", row.Name)
		}
	}
}
