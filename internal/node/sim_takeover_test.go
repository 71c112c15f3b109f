package node

import (
	"testing"
	"time"

	"pace-node/internal/fleet"
)

// TestSimALeaderTakesOverTheStateOfItsBarrier: a voter that is elected loads the queue from the state as its barrier left it, also in
// the moment in which the state that is published here is older. A person's word that the leader before committed last was lost in it.
func TestSimALeaderTakesOverTheStateOfItsBarrier(t *testing.T) {
	simulate(t, 1, func(t *testing.T, s *sim) {
		n := s.boot(0)
		s.want(time.Minute, "it leads", n.isLeader)
		was := n.view.Load()
		if _, err := n.propose(t.Context(), fleet.ProvisionUpdate(n.id, fleet.Provision{Stage: "confirm", Asked: true})); err != nil {
			t.Fatal(err)
		}
		var asked bool
		if err := n.ask(t.Context(), func(time.Time) {
			n.view.Store(was)
			asked = n.recordedRuns()[n.id].Asked
			b := n.body
			n.body = nil // as between two modes
			n.recordedRuns()
			n.body = b
		}); err != nil {
			t.Fatal(err)
		}
		if !asked {
			t.Error("what was committed before the barrier is not taken over")
		}
	})
}
