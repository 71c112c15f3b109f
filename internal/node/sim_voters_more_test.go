package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/netio"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

func roleIn(on, of *Node) fleet.Role {
	m, _ := on.View().Member(of.id)
	return m.Role
}

// asked puts a verb to a node and follows its redirects, as pacectl does.
func (s *sim) asked(n *Node, r wire.ClusterRequest) error {
	for began := time.Now(); ; {
		err := s.cluster(n, r)
		var refused *wire.Error
		if !errors.As(err, &refused) || refused.Code != wire.CodeNotLeader || time.Since(began) > 10*time.Second {
			return err
		}
		if refused.Text == "" { // the voters elect a leader: the remedy is to try again in a few seconds
			time.Sleep(100 * time.Millisecond)
			continue
		}
		for i, other := range s.nodes {
			if other != nil && endpointOf(i) == refused.Text {
				n = other
			}
		}
		time.Sleep(time.Millisecond) // whom it names may have stepped down, and name it
	}
}

func demote(m *Node) wire.ClusterRequest { return wire.ClusterRequest{Op: "admit-learner", ID: m.id} }

// led waits until one of the machines leads and the other voters among them know it.
func (s *sim) led(among ...*Node) (leader *Node) {
	s.t.Helper()
	s.want(10*time.Second, "one of them leads, and all know it", func() bool {
		leader = nil
		for _, n := range among {
			if n.isLeader() {
				leader = n
			}
		}
		if leader == nil {
			return false
		}
		for _, n := range among {
			if n.Mode() == formation.Voter && n.leader().id != leader.id {
				return false
			}
		}
		return true
	})
	return leader
}

// agree waits until the machines hold one state.
func (s *sim) agree(nodes ...*Node) {
	s.t.Helper()
	s.want(30*time.Second, "they hold one state", func() bool {
		for _, n := range nodes[1:] {
			if n.View().Revision() != nodes[0].View().Revision() || n.View().Digest() != nodes[0].View().Digest() {
				return false
			}
		}
		return true
	})
}

// TestSimDemotion: a voter becomes a learner, keeps its term and vote, follows on without going back, and can be promoted
// again; the leader itself hands over first; the last voter stays.
func TestSimDemotion(t *testing.T) {
	simulate(t, 52, func(t *testing.T, s *sim) {
		a := s.voters(3)
		b, c := s.nodes[1], s.nodes[2]
		lowest := c.View().Revision()
		s.must(s.cluster(a, demote(c)))
		s.want(30*time.Second, "it follows as a learner", func() bool {
			if r := c.View().Revision(); r < lowest {
				t.Fatalf("its state went back from revision %d to %d", lowest, r)
			} else {
				lowest = r
			}
			return c.Mode() == formation.Learner && follows(c, a) && len(a.serving.Load().cons.Seats()) == 2
		})
		if _, err := statedirOwner(c); err != nil {
			t.Errorf("its term and vote are gone: %v", err)
		}
		s.must(s.write(a, "9"))
		s.agree(a, b, c)
		s.promote(a, c)

		s.must(s.asked(a, demote(a)))
		lead := s.led(b, c)
		s.want(30*time.Second, "the old leader follows", func() bool { return a.Mode() == formation.Learner && follows(a, lead) })
		other := b
		if lead == b {
			other = c
		}
		s.must(s.cluster(lead, demote(other)))
		s.want(30*time.Second, "one voter is left", func() bool { return other.Mode() == formation.Learner && follows(other, lead) })
		var refused *wire.Error
		if err := s.cluster(lead, demote(lead)); !errors.As(err, &refused) || refused.Code != wire.CodeRefusedByRule || !strings.Contains(refused.Text, "only voter") {
			t.Errorf("the last voter is demoted: %v", err)
		}
		s.promote(lead, a)
		s.must(s.write(lead, "10"))
		s.agree(a, b, c)
	})
}

// statedirOwner is whose raft store a machine keeps.
func statedirOwner(n *Node) (string, error) {
	return storeOwner(filepath.Join(n.dir.Path(), statedir.ConsensusDir))
}

// TestSimForgetVoter: each kind of voter is forgotten. Its sessions end within a second, it becomes a fleet of its own, and
// it is never let in again; one that was away learns it when it is back.
func TestSimForgetVoter(t *testing.T) {
	for _, kind := range []string{"a follower", "the leader", "one that is away", "one that is being promoted"} {
		t.Run(kind, func(t *testing.T) {
			simulate(t, 53, func(t *testing.T, s *sim) {
				s.expect = []string{"id=own-key-revoked"}
				a := s.voters(4)
				b, c, d := s.nodes[1], s.nodes[2], s.nodes[3]
				gone := d
				switch kind {
				case "the leader":
					gone = a
				case "one that is away":
					s.halt(3)
				case "one that is being promoted":
					s.must(s.cluster(a, demote(d)))
					s.want(30*time.Second, "it is a learner", func() bool { return d.Mode() == formation.Learner })
					s.must(s.cluster(a, wire.ClusterRequest{Op: "admit", ID: d.id, Endpoint: raftEndpointOf(3)}))
				}
				var open []*netio.Session // it may come again to be told, as any stranger
				for _, n := range s.nodes {
					if n != nil && n != gone {
						for _, o := range n.hub.Sessions() {
							if o.Peer() == gone.Key() {
								open = append(open, o)
							}
						}
					}
				}
				began := time.Now()
				s.must(s.asked(a, forget(gone)))
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("%s: forgotten after %s", kind, took)
				}
				rest := []*Node{b, c, a}
				if gone == a {
					rest = []*Node{b, c, d}
				}
				lead := s.led(rest...)
				s.want(10*time.Second, "it is out of raft and of the roster, and its key revoked", func() bool {
					_, in := lead.View().Member(gone.id)
					_, revoked := lead.View().Revoked(gone.Key())
					return !in && revoked && len(lead.serving.Load().cons.Seats()) == 3
				})
				s.agree(rest...)
				s.want(time.Second, "its sessions and its consensus streams are closed", func() bool {
					for _, o := range open {
						if o.Err() == nil {
							return false
						}
					}
					for _, n := range rest {
						if n.serving.Load().layer.Open(gone.id) > 0 {
							return false
						}
					}
					return true
				})
				if kind == "one that is away" {
					gone = s.boot(3)
				}
				s.want(30*time.Second, "it is a fleet of its own", func() bool {
					return gone.Mode() == formation.Solitary && gone.View().Len() == 1 && gone.View().Cluster() != lead.View().Cluster()
				})
				if _, ok := condition(gone, "own-key-revoked"); !ok {
					t.Errorf("%s: it does not say that its key is revoked", kind)
				}
				s.must(s.write(lead, "9"))
				s.agree(rest...)
			})
		})
	}
}

// TestSimVoterLeaves: a voter leaves, also the leader, also one of two; its key is not revoked.
func TestSimVoterLeaves(t *testing.T) {
	for _, c := range []struct{ voters, who int }{{3, 1}, {3, 0}, {2, 1}, {2, 0}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			simulate(t, 54, func(t *testing.T, s *sim) {
				s.voters(c.voters)
				gone := s.nodes[c.who]
				var rest []*Node
				for _, n := range s.nodes {
					if n != gone {
						rest = append(rest, n)
					}
				}
				s.must(s.cluster(gone, wire.ClusterRequest{Op: "leave"}))
				s.want(10*time.Second, "it is a fleet of its own", func() bool { return gone.Mode() == formation.Solitary })
				lead := s.led(rest...)
				s.want(10*time.Second, "it is out of both", func() bool {
					_, in := lead.View().Member(gone.id)
					return !in && len(lead.serving.Load().cons.Seats()) == len(rest)
				})
				if _, revoked := lead.View().Revoked(gone.Key()); revoked {
					t.Errorf("%v: the key of a machine that left is revoked", c)
				}
				s.must(s.write(lead, "9"))
				s.agree(rest...)
			})
		})
	}
}

// TestSimRekeyedVoter: a voter that gets another key loses its vote and its sessions at once: whoever comes under the new
// key comes with an empty log.
func TestSimRekeyedVoter(t *testing.T) {
	simulate(t, 55, func(t *testing.T, s *sim) {
		s.expect = []string{"id=own-key-revoked"}
		a := s.voters(3)
		b, c := s.nodes[1], s.nodes[2]
		fresh := s.boot(3)
		key := fresh.Key()
		s.halt(3)
		s.must(s.cluster(a, wire.ClusterRequest{Op: "admit-learner", ID: c.id, Key: key.String()}))
		s.want(5*time.Second, "it has no vote", func() bool {
			return len(a.serving.Load().cons.Seats()) == 2 && roleIn(a, c) == fleet.RoleLearner && roleIn(b, c) == fleet.RoleLearner
		})
		s.want(time.Second, "its sessions are closed", func() bool { return a.hub.ByKey(c.Key()) == nil && b.hub.ByKey(c.Key()) == nil })
		s.want(30*time.Second, "it is a fleet of its own", func() bool { return c.Mode() == formation.Solitary && c.View().Cluster() != a.View().Cluster() })
		s.must(s.write(a, "9"))
	})
}

// walledNet is a machine from which no consensus port is reached.
type walledNet struct {
	*simNet
	closed *atomic.Bool
}

// Dial implements Network.
func (w *walledNet) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if w.closed.Load() && strings.HasSuffix(addr, ":6680") {
		return nil, syscall.ECONNREFUSED
	}
	return w.simNet.Dial(ctx, network, addr)
}

// TestSimPromotionStalls: a machine whose consensus port nobody reaches stays a learner after ten minutes, and the leader
// says which port; once it is reached the same line makes it a voter.
func TestSimPromotionStalls(t *testing.T) {
	simulate(t, 56, func(t *testing.T, s *sim) {
		var closed atomic.Bool
		closed.Store(true)
		a := s.boot(0, func(c *Config) { c.Network = &walledNet{c.Network.(*simNet), &closed} })
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		s.must(s.cluster(a, wire.ClusterRequest{Op: "admit", ID: b.id, Endpoint: raftEndpointOf(1)}))
		s.want(2*time.Minute, "it is shown", func() bool {
			detail, ok := condition(a, "promotion-stalled")
			return ok && strings.Contains(detail, raftEndpointOf(1))
		})
		if roleIn(a, b) != fleet.RoleVoterPending {
			t.Fatalf("it is %s", roleIn(a, b))
		}
		s.want(10*time.Minute, "it is withdrawn", func() bool { return roleIn(a, b) == fleet.RoleLearner })
		s.want(5*time.Second, "raft holds one", func() bool { return len(a.serving.Load().cons.Seats()) == 1 })
		detail, ok := condition(a, "promotion-stalled")
		if !ok || !strings.Contains(detail, raftEndpointOf(1)) || !strings.Contains(detail, "stays a learner") {
			t.Errorf("shown: %v %q", ok, detail)
		}
		s.want(5*time.Second, "its port is closed again", func() bool { return b.serving.Load().seat.Load() == nil })
		if b.Mode() != formation.Learner || !follows(b, a) {
			t.Error("it does not follow")
		}
		s.must(s.write(a, "9"))
		closed.Store(false)
		s.promote(a, b)
		s.want(5*time.Second, "nothing is said any more", func() bool { _, ok := condition(a, "promotion-stalled"); return !ok })
	})
}

// TestSimPromotionOutlivesItsLeader: what a leader began another finishes, whichever step it had come to.
func TestSimPromotionOutlivesItsLeader(t *testing.T) {
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 200 * time.Millisecond, 600 * time.Millisecond, 1100 * time.Millisecond, 1500 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			simulate(t, 57, func(t *testing.T, s *sim) {
				a := s.voters(3)
				b, c := s.nodes[1], s.nodes[2]
				d := s.boot(3)
				s.joined(a, d)
				s.must(s.cluster(a, wire.ClusterRequest{Op: "admit", ID: d.id, Endpoint: raftEndpointOf(3)}))
				time.Sleep(after)
				s.cut(between(0))
				lead := s.led(b, c, d) // or itself, where the first one had come that far
				s.want(time.Minute, "the next leader promotes it", func() bool { return seats(lead, d) })
				s.cut(nil)
				s.want(30*time.Second, "the first one hears of it", func() bool { return a.leader().id == lead.id })
				s.agree(a, b, c, d)
			})
		})
	}
}

// TestSimLeaderCutOff: a leader that is cut off from the others decides nothing and says why and what to do within thirty
// seconds; the others go on, and afterwards there is one history.
func TestSimLeaderCutOff(t *testing.T) {
	simulate(t, 58, func(t *testing.T, s *sim) {
		a := s.voters(3)
		b, c := s.nodes[1], s.nodes[2]
		s.cut(between(0))
		began := time.Now()
		err := s.write(a, "11")
		var refused *wire.Error
		if !errors.As(err, &refused) || time.Since(began) > proposeTimeout+time.Second {
			t.Errorf("a leader without the others: %v after %s", err, time.Since(began))
		}
		lead := s.led(b, c)
		s.must(s.write(lead, "12"))
		s.want(30*time.Second, "it leads no more", func() bool { return !a.isLeader() })
		time.Sleep(time.Minute)
		began = time.Now()
		err = s.write(a, "13")
		if !errors.As(err, &refused) || refused.Code != wire.CodeNotLeader || !strings.Contains(refused.Hint, "2 of 3 voters are needed for one, and 1 heard") || !strings.Contains(refused.Hint, "pacectl fleet recover") || time.Since(began) > proposeTimeout {
			t.Errorf("a voter without the others: %v, %+v after %s", err, refused, time.Since(began))
		}
		s.cut(nil)
		s.want(30*time.Second, "it hears the leader", func() bool { return a.leader().id == lead.id })
		s.agree(a, b, c)
		if v, _ := a.View().Setting("enrollment.per-source"); v != "12" {
			t.Errorf("afterwards the setting is %s", v)
		}
	})
}

// TestSimCleanStop: a leader that is stopped hands over before it is gone.
func TestSimCleanStop(t *testing.T) {
	simulate(t, 59, func(t *testing.T, s *sim) {
		s.voters(3)
		b, c := s.nodes[1], s.nodes[2]
		stopped := make(chan struct{})
		a := s.nodes[0]
		s.nodes[0] = nil
		go func() { a.Stop(); close(stopped) }()
		took := s.want(500*time.Millisecond, "another leads", func() bool { return b.isLeader() || c.isLeader() })
		t.Logf("another leads after %s", took)
		lead := s.led(b, c)
		s.must(s.write(lead, "9"))
		<-stopped
	})
}

// TestSimVoterAlone: a voter that starts while the others are away knows its fleet all the same, from what it had applied.
func TestSimVoterAlone(t *testing.T) {
	simulate(t, 60, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent"}
		a := s.voters(3)
		s.must(s.write(a, "9"))
		s.agree(s.nodes...)
		want := a.View().Digest()
		for i := range 3 {
			s.halt(i)
		}
		b := s.boot(1)
		if b.View().Digest() != want || b.View().Len() != 3 {
			t.Errorf("alone it knows %d members at revision %d", b.View().Len(), b.View().Revision())
		}
		if p := b.pictured(); p.VotersTotal != 3 || p.VotersHeard != 1 {
			t.Errorf("it says %+v", p)
		}
		s.want(10*time.Second, "it says for how long it hears no leader", func() bool { return b.pictured().LeaderSilentMS > electionLasts.Milliseconds() })
		var refused *wire.Error
		if err := s.write(b, "10"); !errors.As(err, &refused) || refused.Code != wire.CodeNotLeader || !strings.Contains(refused.Hint, "pacectl fleet recover") {
			t.Errorf("a verb: %v", err)
		}
		s.boot(2)
		lead := s.led(b, s.nodes[2])
		s.must(s.write(lead, "10"))
		s.boot(0)
		s.agree(s.nodes...)
	})
}

// TestSimVoterMeetsNewVoters: a voter that was away while others took the seats and the lead takes the log from one whose
// key it never saw, on the word of those that it knows.
func TestSimVoterMeetsNewVoters(t *testing.T) {
	simulate(t, 61, func(t *testing.T, s *sim) {
		a := s.voters(3)
		b, c := s.nodes[1], s.nodes[2]
		s.halt(2)
		d := s.boot(3)
		s.joined(a, d)
		s.promote(a, d)
		s.must(s.cluster(a, wire.ClusterRequest{Op: "transfer", ID: d.id}))
		s.led(a, b, d)
		s.must(s.write(d, "9"))
		c = s.boot(2)
		s.want(time.Minute, "it takes the new leader's log", func() bool { return c.leader().id == d.id && c.View().Revision() == d.View().Revision() })
		s.agree(a, b, c, d)
		_ = c
	})
}

// TestSimAwaitedAsVoter: a machine that is awaited with a seat is a voter a moment after it asked.
func TestSimAwaitedAsVoter(t *testing.T) {
	simulate(t, 62, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		id, key := b.id, b.Key()
		s.halt(1)
		s.must(s.cluster(a, wire.ClusterRequest{Op: "admit", ID: id, Key: key.String(), Endpoint: raftEndpointOf(1)}))
		b = s.boot(1)
		s.want(time.Minute, "it is a voter", func() bool { return seats(a, b) })
		if m, _ := a.View().Member(id); m.Endpoints.Raft != raftEndpointOf(1) {
			t.Errorf("its endpoints: %+v", m.Endpoints)
		}
	})
}

// TestSimEnrollmentAtAFollower: a follower sends who asks to the leader, and its waiting list is the leader's matter.
func TestSimEnrollmentAtAFollower(t *testing.T) {
	simulate(t, 63, func(t *testing.T, s *sim) {
		a := s.voters(3)
		s.must(s.cluster(a, wire.ClusterRequest{Op: "transfer", ID: s.nodes[2].id}))
		lead := s.led(s.nodes...)
		// Only voters that do not lead are heard by the newcomer's beacons.
		s.deaf(func(i, j int) bool { return i == 2 && j == 3 || i == 3 && j == 2 })
		d := s.boot(3)
		s.joined(lead, d)
		var refused *wire.Error
		if _, err := a.enrollChange(context.Background(), control.Peer{Local: true}, wire.EnrollControl{Op: wire.ControlClear}); !errors.As(err, &refused) || refused.Code != wire.CodeNotLeader || refused.Text != endpointOf(2) {
			t.Errorf("a follower's list: %v", err)
		}
	})
}

// TestSimWholeFleetPoweredOff: three voters and a learner that are all started again are one fleet again.
func TestSimWholeFleetPoweredOff(t *testing.T) {
	simulate(t, 64, func(t *testing.T, s *sim) {
		a := s.voters(3)
		d := s.boot(3)
		s.joined(a, d)
		s.must(s.write(a, "9"))
		s.agree(s.nodes...)
		revision := a.View().Revision()
		for i := range s.nodes {
			s.halt(i)
		}
		for i := range 4 {
			s.boot(i)
		}
		lead := s.led(s.nodes[:3]...)
		s.must(s.write(lead, "10"))
		s.agree(s.nodes...)
		if lead.View().Revision() <= revision {
			t.Error(fmt.Sprint("the log went back: ", lead.View().Revision()))
		}
	})
}

// TestSimSeatOfWhoIsHeard: the remedy of a fleet of one voter names a machine that is there, where there is one.
func TestSimSeatOfWhoIsHeard(t *testing.T) {
	simulate(t, 490, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b, c := s.boot(1), s.boot(2)
		s.joined(a, b)
		s.joined(a, c)
		seat := func() string {
			for _, r := range a.board.List() {
				if r.ID == "single-voter-fleet" {
					return r.Remedy
				}
			}
			return ""
		}
		s.want(time.Minute, "it names one of them", func() bool { return strings.Contains(seat(), b.id) || strings.Contains(seat(), c.id) })
		off, other := 1, c
		if strings.Contains(seat(), c.id) {
			off, other = 2, b
		}
		gone := s.nodes[off].Key()
		s.halt(off)
		s.want(2*time.Minute, "its session is over", func() bool { return a.hub.ByKey(other.Key()) != nil && a.hub.ByKey(gone) == nil })
		s.must(s.write(a, "7"))
		s.want(time.Minute, "it names the other", func() bool { return strings.Contains(seat(), other.id) })
	})
}
