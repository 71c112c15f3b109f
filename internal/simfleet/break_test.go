package simfleet

import (
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
	or     Rule                     // what some seeds show first
	tell   func(seed uint64) *Story // where drawn stories hardly ever meet it
}{
	{"a leader admits whoever asks", RuleUnasked, Breaks{AdmitAnybody: true}, nil, 0, nil},
	{"a disk says that it wrote and did not", RuleLost, Breaks{LoseTail: true}, nil, RuleDigest, nil},
	{"a machine keeps its own fleet's store beside the one it joined", RuleTwoFleets, Breaks{KeepStores: true}, nil, 0, nil},
	{"nobody is ever approved", RuleUnsettled, Breaks{Deaf: true}, nil, 0, nil},
	{"an approval changes nothing", RuleUnsettled, Breaks{}, func() func() { return withoutTransition(formation.Pending, formation.Approved) }, 0, nil},
	{"a voter forgets whom it voted for", RuleTwoLeaders, Breaks{ForgetVotes: true}, nil, 0, elections},
	{"a learner leaves commands out", RuleDigest, Breaks{DropCommands: true}, nil, 0, nil},
	{"a leader that lost its seat keeps its queue", RuleQueue, Breaks{KeepQueue: true}, nil, 0, nil},
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

// TestFaultsAreSeen: each fault is found within a few seeds, and called by its rule; its story is told short.
func TestFaultsAreSeen(t *testing.T) {
	kind := Kind{Least: 3, Most: 8, Span: 40 * time.Minute, Gap: 40 * time.Second}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			if f.change != nil {
				defer f.change()()
			}
			tell := f.tell
			if tell == nil {
				tell = func(seed uint64) *Story { return Draw(seed, kind) }
			}
			for seed := range uint64(40) {
				o := Run(tell(seed+1), f.breaks)
				if o.Violation == nil || f.or != 0 && o.broke(f.or) {
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
