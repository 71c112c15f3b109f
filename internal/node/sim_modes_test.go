package node

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// standing in its mode, as a machine shows it: whose consensus it takes part in, whether its consensus port is open, what it
// announces, and whether the provisioning queue runs on it.
type shown struct {
	mode      formation.Mode
	consensus formation.Consensus
	open      bool
	announces wire.SummaryState
	schedules bool
}

func (s *sim) shown(i int) (out shown) {
	n := s.nodes[i]
	b := n.serving.Load()
	out.mode = n.Mode()
	own := owns(n)
	switch {
	case b.learner != nil && b.cons == nil:
		out.consensus = formation.ConsensusFollows
	case b.cons != nil && n.View().Len() == 1 && n.View().Cluster() == own.Cluster && b.cons.Seats()[n.id] == fleet.SeatVoter:
		out.consensus = formation.ConsensusOwn
	case b.cons != nil && b.cons.Seats()[n.id] == fleet.SeatVoter:
		out.consensus = formation.ConsensusFleet
	}
	c, err := s.net.Dialer(addrOf(9))(context.Background(), "tcp", netip.AddrPortFrom(addrOf(i), 6680).String())
	if out.open = err == nil; out.open {
		c.Close()
	}
	out.announces = n.self.Load().State
	list, err := n.provisioner.Entries(context.Background())
	s.must(err)
	out.schedules = list.Paused&queue.PauseNoLeadership == 0
	return out
}

// TestSimModes: every cell of the table of modes, as machines show it: a learner that is to be a voter and a voter that leads
// beside those that do not.
func TestSimModes(t *testing.T) {
	simulate(t, 251, func(t *testing.T, s *sim) {
		want := func(i int, what string, w shown) {
			t.Helper()
			var got shown
			for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
				if got = s.shown(i); got == w {
					return
				}
			}
			t.Errorf("%s: %+v, want %+v", what, got, w)
		}
		var walled atomic.Bool
		a := s.boot(0, func(c *Config) { c.Network = &walledNet{c.Network.(*simNet), &walled} })
		want(0, "solitary", shown{formation.Solitary, formation.ConsensusOwn, true, wire.StateSolitary, true})
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.want(time.Minute, "it waits", func() bool { return s.waits(a, b) })
		want(1, "pending", shown{formation.Pending, formation.ConsensusOwn, true, wire.StatePending, true})
		if p := b.self.Load().Pointer; p.ID != a.id || p.Endpoint != endpointOf(0) || p.Key != a.Key() {
			t.Errorf("pending it points at %+v", p)
		}
		s.joined(a, b)
		want(1, "learner", shown{formation.Learner, formation.ConsensusFollows, false, wire.StateEstablished, false})
		want(0, "voter that leads", shown{formation.Voter, formation.ConsensusFleet, true, wire.StateEstablished, true})
		// A promotion that nobody's log reaches keeps a learner's port open, and nothing else.
		walled.Store(true)
		s.must(s.cluster(a, wire.ClusterRequest{Op: "admit", ID: b.id, Endpoint: raftEndpointOf(1)}))
		want(1, "learner that is to be a voter", shown{formation.Learner, formation.ConsensusFollows, true, wire.StateEstablished, false})
		walled.Store(false)
		s.want(time.Minute, "it is a voter", func() bool { return seats(a, b) })
		lead := s.led(a, b)
		for i, n := range s.nodes {
			want(i, fmt.Sprintf("voter, leads: %v", n == lead), shown{formation.Voter, formation.ConsensusFleet, true, wire.StateEstablished, n == lead})
		}
	})
}
