package node

import (
	"testing"
	"time"

	"pace-node/internal/formation"
)

// TestSimLeaderGoesWhileSomebodyWaits: a person who is about to approve a machine finds it in the list of whoever leads
// now within seconds, whatever became of the leader that it asked.
func TestSimLeaderGoesWhileSomebodyWaits(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit time.Duration // for a person at the screen
		gone  func(s *sim)
	}{
		{"it is stopped", 15 * time.Second, func(s *sim) { s.halt(0) }},
		{"its machine loses power", 30 * time.Second, func(s *sim) { s.cut(between(0)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, 71, func(t *testing.T, s *sim) {
				s.expect = []string{"id=fleet-without-quorum"}
				a := s.voters(3)
				d := s.boot(3)
				s.want(time.Minute, "it waits", func() bool { return s.waits(a, d) })
				time.Sleep(45 * time.Second) // what the others say of the fleet is known and not proven anew for a while
				b, e := s.nodes[1], s.nodes[2]
				c.gone(s)
				lead := s.led(b, e)
				took := s.want(c.limit, "it waits at the new leader", func() bool { return s.waits(lead, d) })
				t.Logf("it waits there after %s", took)
				s.joined(lead, d)
			})
		})
	}
}

// TestSimApprovalsAreCountedWhenCommitted: an approval that no quorum took admitted nobody, and is counted for nobody.
func TestSimApprovalsAreCountedWhenCommitted(t *testing.T) {
	simulate(t, 72, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent", "id=fleet-without-quorum"}
		a := s.voters(2)
		d := s.boot(2)
		s.want(time.Minute, "it waits", func() bool { return s.waits(a, d) })
		counts := func() float64 { return s.metric(a, "pace_enrollment_approvals_manual_total") }
		before := counts()
		s.cut(func(i, j int) bool { return i+j == 1 })
		if err := s.grant(a, d); err == nil {
			t.Error("approved without a quorum")
		}
		if got := counts(); got != before {
			t.Errorf("%v approvals are counted that nobody committed", got-before)
		}
		s.cut(nil)
		s.want(time.Minute, "it is a learner", func() bool {
			for _, n := range s.nodes[:2] {
				if n.isLeader() && s.waits(n, d) {
					before = s.metric(n, "pace_enrollment_approvals_manual_total")
					s.must(s.grant(n, d))
					if got := s.metric(n, "pace_enrollment_approvals_manual_total"); got != before+1 {
						t.Errorf("%v are counted for one", got-before)
					}
				}
			}
			return d.Mode() == formation.Learner
		})
	})
}
