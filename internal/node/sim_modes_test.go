package node

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/netio"
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

// countedNet counts the sockets that a machine opens.
type countedNet struct {
	*simNet
	datagrams, sessions atomic.Int32
}

// Datagrams implements Network.
func (c *countedNet) Datagrams(cfg netio.DatagramConfig) (netio.DatagramPort, error) {
	c.datagrams.Add(1)
	return c.simNet.Datagrams(cfg)
}

// Listen implements Network.
func (c *countedNet) Listen(addr string) (net.Listener, error) {
	if strings.HasSuffix(addr, ":6674") {
		c.sessions.Add(1)
	}
	return c.simNet.Listen(addr)
}

// TestSimSocketsSurviveRebuilds: whatever modes a machine goes through, it has the sockets of its start: who talks to it is
// not cut off, and the port that it answers from stays the same.
func TestSimSocketsSurviveRebuilds(t *testing.T) {
	simulate(t, 252, func(t *testing.T, s *sim) {
		s.expect = []string{"id=own-key-revoked"}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		var counted *countedNet
		b := s.boot(1, func(c *Config) {
			counted = &countedNet{simNet: c.Network.(*simNet)}
			c.Network = counted
		})
		before := counted.port.AnsweringAddr()
		s.joined(a, b)
		s.must(s.cluster(a, wire.ClusterRequest{Op: "admit", ID: b.id, Endpoint: raftEndpointOf(1)}))
		s.want(time.Minute, "it is a voter", func() bool { return seats(a, b) })
		s.must(s.asked(s.led(a, b), demote(b)))
		s.want(time.Minute, "it is a learner again", func() bool { return b.Mode() == formation.Learner && follows(b, a) })
		s.must(s.cluster(a, forget(b)))
		s.want(10*time.Second, "it is a fleet of its own", func() bool { return b.Mode() == formation.Solitary })
		if d, l := counted.datagrams.Load(), counted.sessions.Load(); d != 1 || l != 1 || counted.port.AnsweringAddr() != before {
			t.Errorf("discovery's sockets were opened %d times, the sessions' %d times; it answered from %s, and now from %s", d, l, before, counted.port.AnsweringAddr())
		}
	})
}

// TestSimAdmittedWhileYielding: an approval that is being committed while its fleet of one yields: the yield is taken back,
// and that fleet, which is one of two now, is where everybody ends.
func TestSimAdmittedWhileYielding(t *testing.T) {
	simulate(t, 253, func(t *testing.T, s *sim) {
		d := s.boot(3)
		s.cut(between(3))
		time.Sleep(2 * time.Second)
		var slow atomic.Bool
		a := s.boot(0, func(c *Config) {
			c.Point = func(name string) {
				for name == "consensus.commit.before" && slow.Load() {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
		own := a.View().Cluster()
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.want(5*time.Second, "it waits", func() bool { return s.waits(a, b) })
		slow.Store(true)
		granted := make(chan error, 1)
		go func() { granted <- s.grant(a, b) }()
		s.cut(nil)
		s.want(25*time.Second, "its fleet yields meanwhile", func() bool { return a.Mode() == formation.Pending })
		slow.Store(false)
		s.want(time.Second, "it is a voter of its own fleet, and asks nobody", func() bool {
			return a.Mode() == formation.Voter && a.View().Cluster() == own && a.View().Holds(b.ID(), b.Key()) && owns(a).Target == nil
		})
		<-granted
		s.want(5*time.Minute, "the one that it yielded to yields to it", func() bool { return s.waits(a, d) })
		s.joined(a, d)
		s.want(5*time.Minute, "one fleet", func() bool { return follows(b, a) && s.oneFleet(a) })
	})
}
