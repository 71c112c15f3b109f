package node

import (
	"cmp"
	"context"
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/wire"
)

func raftEndpointOf(i int) string { return netip.AddrPortFrom(addrOf(i), 6680).String() }

// seats reports whether m is a voter that serves as one, in the state of n.
func seats(n, m *Node) bool {
	r, ok := n.View().Member(m.id)
	b := m.serving.Load()
	return ok && r.Role == fleet.RoleVoter && m.Mode() == formation.Voter && b != nil && b.cons != nil && b.cons.Revision() >= n.View().Revision()
}

// promote makes a learner a voter at the word of the leader, and waits until it serves as one.
func (s *sim) promote(leader, m *Node) {
	s.t.Helper()
	i := 0
	for j, n := range s.nodes {
		if n == m {
			i = j
		}
	}
	s.must(s.cluster(leader, wire.ClusterRequest{Op: "admit", ID: m.id, Endpoint: raftEndpointOf(i)}))
	s.want(time.Minute, m.name+" is a voter", func() bool { return seats(leader, m) })
}

// leading is the node that leads, as it and most voters say; nil during an election.
func (s *sim) leading(except ...*Node) *Node {
	for _, n := range s.nodes {
		if n == nil || n.Mode() != formation.Voter || !n.isLeader() {
			continue
		}
		skip := false
		for _, x := range except {
			skip = skip || x == n
		}
		if !skip {
			return n
		}
	}
	return nil
}

// voters boots n machines and makes all of them voters of the first one's fleet.
func (s *sim) voters(n int, tweaks ...tweak) *Node {
	s.t.Helper()
	a := s.boot(0, tweaks...)
	time.Sleep(2 * time.Second)
	for i := 1; i < n; i++ {
		m := s.boot(i, tweaks...)
		s.joined(a, m)
		s.promote(a, m)
	}
	return a
}

// write commits something small through a node, or says why not.
func (s *sim) write(n *Node, value string) error {
	return s.cluster(n, wire.ClusterRequest{Op: "set", Name: "enrollment.per-source", Value: value})
}

// TestSimSeatIsShown: a machine that is to be a voter shows the consensus port that it has opened, also while the voters look
// for it elsewhere: that is what an operator then compares.
func TestSimSeatIsShown(t *testing.T) {
	simulate(t, 57, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		shown := func() string {
			raw, err := b.nodeStatus(context.Background())
			var doc control.NodeStatus
			if err := cmp.Or(err, json.Unmarshal(raw, &doc)); err != nil {
				t.Fatal(err)
			}
			return doc.Endpoints.Raft
		}
		if at := shown(); at != "" {
			t.Errorf("a learner shows the consensus port %s", at)
		}
		s.must(s.cluster(a, wire.ClusterRequest{Op: "admit", ID: b.id, Endpoint: netip.AddrPortFrom(addrOf(1), 6699).String()}))
		s.want(10*time.Second, "its consensus port is shown", func() bool { return shown() == raftEndpointOf(1) })
		if b.Mode() != formation.Learner {
			t.Errorf("it is %s", b.Mode())
		}
	})
}

// TestSimThreeVoters: learners become voters over real raft, another leads when the leader is gone, learners follow it, and
// the one that was gone comes back as a voter.
func TestSimThreeVoters(t *testing.T) {
	simulate(t, 51, func(t *testing.T, s *sim) {
		a := s.voters(3)
		d := s.boot(3)
		s.joined(a, d)
		s.must(s.write(a, "9"))
		s.halt(0)
		var lead *Node
		s.want(5*time.Second, "another leads", func() bool { lead = s.leading(); return lead != nil })
		s.must(s.write(lead, "10"))
		s.want(30*time.Second, "the learner has it", func() bool {
			return d.View().Revision() == lead.View().Revision() && d.leader().id == lead.id && lead.hub.ByKey(d.Key()) != nil
		})
		a = s.boot(0)
		s.want(30*time.Second, "the one that was gone is a voter again", func() bool {
			return seats(lead, a) && a.View().Revision() == lead.View().Revision() && a.leader().id == lead.id
		})
	})
}
