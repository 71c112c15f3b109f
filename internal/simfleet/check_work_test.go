package simfleet

import (
	"slices"
	"testing"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// TestStepsAreJudged: which steps of which leaders a machine may do after one another.
func TestStepsAreJudged(t *testing.T) {
	lease := func(term uint64, step string) wire.LeaseClaims {
		return wire.LeaseClaims{Cluster: "f", Term: term, Signer: map[uint64]string{1: "a", 2: "b", 3: "a"}[term], Step: step}
	}
	for _, c := range []struct {
		name string
		does func(c *Checker)
		want Rule
	}{
		{"configure and restart", func(c *Checker) {
			c.does(lease(1, "configure"))
			c.does(lease(1, "restart"))
		}, 0},
		{"of one leader, then of the next", func(c *Checker) {
			c.does(lease(1, "configure"))
			c.does(lease(2, "configure"))
			c.does(lease(2, "restart"))
		}, 0},
		{"of one leader, of the next, and of the first again", func(c *Checker) {
			c.does(lease(2, "configure"))
			c.does(lease(1, "configure"))
		}, RuleLease},
		{"in another fleet terms begin anew", func(c *Checker) {
			c.does(lease(2, "configure"))
			l := lease(1, "configure")
			l.Cluster = "g"
			c.leaders[termOf{"g", 0, 1}] = "a"
			c.does(l)
		}, 0},
		{"one while another runs", func(c *Checker) {
			c.StepBegins(0, "m", lease(1, "configure"))
			c.StepBegins(0, "m", lease(1, "configure"))
		}, RuleOneStep},
		{"one after a process ended in the middle of another", func(c *Checker) {
			c.StepBegins(0, "m", lease(1, "configure"))
			c.StepEnds("m")
			c.does(lease(1, "configure"))
		}, 0},
		{"restarted into what the next one configured", func(c *Checker) {
			c.does(lease(1, "configure"))
			c.does(lease(2, "configure"))
			c.StepBegins(0, "m", lease(1, "restart"))
		}, RuleTwice},
		{"restarted by whoever led before and leads again", func(c *Checker) {
			c.does(lease(1, "configure"))
			c.does(lease(3, "restart"))
		}, RuleTwice},
		{"carried on after a later leader was obeyed", func(c *Checker) {
			c.does(lease(2, "configure"))
			c.StepWrites(0, "m", lease(1, "configure"))
		}, RuleLease},
		{"of one who never led in that term", func(c *Checker) {
			l := lease(2, "configure")
			l.Signer = "a"
			c.does(l)
		}, RuleQueue},
	} {
		k := NewChecker()
		for term, who := range map[uint64]string{1: "a", 2: "b", 3: "a"} {
			k.leaders[termOf{"f", 0, term}] = who
		}
		c.does(k)
		if got := k.broken(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func (c *Checker) does(l wire.LeaseClaims) {
	c.StepBegins(0, "m", l)
	if l.Step == string(queue.StageConfigure) {
		c.StepWrites(0, "m", l)
	}
	c.StepEnds("m")
}

func (c *Checker) broken() Rule {
	if c.Err == nil {
		return 0
	}
	return c.Err.Rule
}

// TestRecordsAreJudged: what a machine's record may be after what it was.
func TestRecordsAreJudged(t *testing.T) {
	outcomes := func(results ...string) (out []fleet.Outcome) {
		for _, r := range results {
			out = append(out, fleet.Outcome{Result: r})
		}
		return out
	}
	full := slices.Repeat([]string{"error"}, fleet.MaxOutcomes-1)
	for _, c := range []struct {
		name     string
		was, now fleet.Provision
		back     bool
	}{
		{"nothing, then something", fleet.Provision{}, fleet.Provision{BootCounter: 1, Outcomes: outcomes("error")}, false},
		{"one more", fleet.Provision{Outcomes: outcomes("error")}, fleet.Provision{Outcomes: outcomes("error", "success")}, false},
		{"the same", fleet.Provision{Outcomes: outcomes("error")}, fleet.Provision{Outcomes: outcomes("error")}, false},
		{"one more where the oldest had to go", fleet.Provision{Outcomes: outcomes(append([]string{"deferred"}, full...)...)}, fleet.Provision{Outcomes: outcomes(append(full, "success")...)}, false},
		{"by a leader whose clock was set", fleet.Provision{Outcomes: []fleet.Outcome{{At: 9, Result: "error"}}}, fleet.Provision{Outcomes: []fleet.Outcome{{At: 99, Result: "error"}, {At: 100, Result: "success"}}}, false},
		{"one less", fleet.Provision{Outcomes: outcomes("error", "error")}, fleet.Provision{Outcomes: outcomes("error")}, true},
		{"none", fleet.Provision{Outcomes: outcomes("error")}, fleet.Provision{}, true},
		{"another one", fleet.Provision{Outcomes: outcomes("error")}, fleet.Provision{Outcomes: outcomes("deferred")}, true},
		{"the oldest is gone, and there was room", fleet.Provision{Outcomes: outcomes("error", "success")}, fleet.Provision{Outcomes: outcomes("success", "error")}, true},
		{"a confirmation that its leader did not know yet", fleet.Provision{Outcomes: outcomes("success", "provisioned")}, fleet.Provision{Outcomes: outcomes("success", "error")}, false},
		{"and what was before it", fleet.Provision{Outcomes: outcomes("success", "provisioned")}, fleet.Provision{Outcomes: outcomes("error")}, true},
		{"an earlier boot", fleet.Provision{BootCounter: 2}, fleet.Provision{BootCounter: 1, Sequence: 9}, true},
		{"an earlier event", fleet.Provision{BootCounter: 2, Sequence: 2}, fleet.Provision{BootCounter: 2, Sequence: 1}, true},
		{"a later boot", fleet.Provision{BootCounter: 2, Sequence: 2}, fleet.Provision{BootCounter: 3}, false},
	} {
		if why := backwards(&c.was, &c.now); (why != "") != c.back {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

// TestReasonsAreJudged: what waits after a failure, or was given up, says why.
func TestReasonsAreJudged(t *testing.T) {
	for state, needs := range map[queue.State]bool{queue.StateParked: true, queue.StateBackingOff: true, queue.StateUnconfirmed: true,
		queue.StateDeferred: false, queue.StateHeld: false, queue.StateWaiting: false, queue.StateRunning: false, queue.StateConfirmed: false} {
		for _, reason := range []string{"", "exit code 3"} {
			c := NewChecker()
			c.Shown(0, "m", queue.Entry{ID: "n", State: state, LastError: reason})
			if (c.broken() == RuleQueue) != (needs && reason == "") {
				t.Errorf("%s for the reason %q: %v", state, reason, c.Err)
			}
		}
	}
}

// TestWhoeverStandsStill: a leader whose process stands still is followed by another one, whoever asks it waits, and it goes on
// where it was.
func TestWhoeverStandsStill(t *testing.T) {
	s := &Story{Seed: 3, Machines: 3, Segments: 1, Span: 8 * time.Minute}
	for n := range 3 {
		s.Steps = append(s.Steps, Step{At: 0, Act: ActBoot, Who: n})
	}
	for n := range 3 {
		s.Steps = append(s.Steps, Step{At: 2 * time.Minute, Act: ActApprove, Who: n, Arg: "#0"}, Step{At: 3 * time.Minute, Act: ActApprove, Who: n, Arg: "#0"})
	}
	for n := range 3 {
		s.Steps = append(s.Steps, Step{At: 4 * time.Minute, Act: ActPromote, Who: 0, Arg: nameOf(n)})
	}
	w := New(s, Breaks{})
	for _, step := range s.Steps {
		w.at(step.At, func() { w.perform(step) })
	}
	w.until(6 * time.Minute)
	lead := w.leaderOf(w.hosts[0])
	if lead == nil || len(lead.view().Voters()) != 3 {
		t.Fatal("this seed seats no three voters")
	}
	h, term := lead.h, lead.voter.store.term
	h.freeze(30 * time.Second)
	w.until(w.now + 20*time.Second)
	if !lead.leads() || lead.voter.store.term != term {
		t.Error("a process that stands still did something")
	}
	other := w.hosts[(h.n+1)%3]
	next := w.leaderOf(other)
	if next == nil || next == lead || w.leaderOf(h) != nil {
		t.Fatalf("nobody was elected in its place, or it answers")
	}
	w.until(w.now + 20*time.Second)
	if h.proc != lead || lead.leads() || lead.form.Own().Mode != formation.Voter || w.check.Err != nil {
		t.Errorf("once it goes on: %v", w.check.Err)
	}
}
