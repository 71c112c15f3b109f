package node

import (
	"net/netip"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/wire"
)

// roaming is machine i with a second address that its default route may move to.
func roaming(i int) (*movingNet, tweak) {
	m := &movingNet{second: netip.AddrFrom4([4]byte{10, 77, 200, byte(i + 1)}), now: addrOf(i), tells: make(chan struct{})}
	return m, func(c *Config) {
		m.simNet = c.Network.(*simNet)
		c.Network = m
	}
}

func at(a netip.Addr) wire.Endpoints {
	return wire.Endpoints{FC: netip.AddrPortFrom(a, 6674).String(), Raft: netip.AddrPortFrom(a, 6680).String()}
}

// TestSimVotersMove: a voter whose address moves says so itself, and consensus goes on by the new one; also the leader's;
// also where all voters move in one moment and no old address answers.
func TestSimVotersMove(t *testing.T) {
	for name, moving := range map[string][]int{"a follower": {1}, "the leader": {0}, "all at once": {0, 1, 2}} {
		t.Run(name, func(t *testing.T) {
			simulate(t, 71, func(t *testing.T, s *sim) {
				var nets []*movingNet
				for i := range 3 {
					m, roams := roaming(i)
					nets = append(nets, m)
					n := s.boot(i, roams)
					if i == 0 {
						time.Sleep(2 * time.Second)
						continue
					}
					s.joined(s.nodes[0], n)
					s.promote(s.nodes[0], n)
				}
				s.must(s.write(s.nodes[0], "9"))
				for _, i := range moving {
					nets[i].route(nets[i].second)
					nets[i].tells <- struct{}{}
				}
				s.want(time.Minute, "the rosters have it", func() bool {
					for _, n := range s.nodes {
						for _, i := range moving {
							if m, _ := n.View().Member(s.nodes[i].id); m.Endpoints != at(nets[i].second) {
								return false
							}
						}
					}
					return true
				})
				// The old addresses are gone, with everything that ran over them.
				gone := func(a netip.Addr) bool {
					for _, i := range moving {
						if a == addrOf(i) {
							return true
						}
					}
					return false
				}
				for _, i := range moving {
					for j := range 3 {
						s.net.Cut(addrOf(i), addrOf(j))
						s.net.Cut(addrOf(i), nets[j].second)
					}
				}
				s.net.Partition(func(a, b netip.Addr) bool { return gone(a) || gone(b) })
				s.want(time.Minute, "writes are accepted", func() bool { lead := s.leading(); return lead != nil && s.write(lead, "10") == nil })
				s.agree(s.nodes...)
			})
		})
	}
}

// TestSimVoterMovesByHand: a voter whose consensus port is elsewhere than its 0xFC endpoint moves at an operator's word
// only; its own says nothing about it.
func TestSimVoterMovesByHand(t *testing.T) {
	simulate(t, 72, func(t *testing.T, s *sim) {
		a := s.voters(3)
		b := s.nodes[1]
		elsewhere := "10.77.9.9:6680"
		s.must(s.cluster(a, wire.ClusterRequest{Op: "admit", ID: b.id, Endpoint: elsewhere}))
		m, _ := a.View().Member(b.id)
		if m.Endpoints.Raft != elsewhere || m.Endpoints.FC != "10.77.9.9:6674" {
			t.Fatalf("an operator's word: %+v", m.Endpoints)
		}
		s.must(a.Announce(t.Context(), control.Peer{Key: b.Key(), ID: b.id}, wire.Announce{Name: b.name, Endpoints: wire.Endpoints{FC: endpointOf(1), Raft: "10.77.0.77:6680"}}))
		if m, _ := a.View().Member(b.id); m.Endpoints.Raft != elsewhere {
			t.Errorf("its own word, of two hosts, moved it: %+v", m.Endpoints)
		}
		s.must(a.Announce(t.Context(), control.Peer{Key: b.Key(), ID: b.id}, wire.Announce{Name: b.name, Endpoints: at(addrOf(1))}))
		if m, _ := a.View().Member(b.id); m.Endpoints != at(addrOf(1)) {
			t.Errorf("its own word, of one host, did not move it: %+v", m.Endpoints)
		}
	})
}
