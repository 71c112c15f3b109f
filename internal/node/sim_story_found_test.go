package node

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/wire"
)

// slowLog makes each write of a machine's log take as long as a busy disk does.
func slowLog(c *Config) {
	was := c.Point
	c.Point = func(name string) {
		if name == "consensus.log.before" || name == "consensus.term.before" {
			time.Sleep(100 * time.Millisecond)
		}
		if was != nil {
			was(name)
		}
	}
}

// TestSimDemotedLeaderOfTwo: a leader of two voters that is demoted stays in the log until the other one, which needs its
// vote and its acknowledgement to lead at all, has taken it out.
func TestSimDemotedLeaderOfTwo(t *testing.T) {
	simulate(t, 71, func(t *testing.T, s *sim) {
		a := s.voters(2, slowLog)
		b := s.nodes[1]
		s.must(s.asked(a, demote(a)))
		s.want(30*time.Second, "the other one leads alone", func() bool { return b.isLeader() && len(b.serving.Load().cons.Seats()) == 1 })
		s.want(time.Minute, "the demoted one follows", func() bool { return a.Mode() == formation.Learner && follows(a, b) })
		s.must(s.write(b, "9"))
		s.agree(a, b)
	})
}

// TestSimAnotherFleetsWordIsNone: a voter that went to another fleet, where this machine's key is revoked, says so as that
// fleet's member; in the fleet that both were in before nobody has forgotten anybody.
func TestSimAnotherFleetsWordIsNone(t *testing.T) {
	simulate(t, 72, func(t *testing.T, s *sim) {
		s.expect = []string{"id=own-key-revoked", "id=consensus-leader-silent", "id=foreign-fleet-visible", "id=fleet-unreachable", "id=fleet-split-healing"}
		s.nodes = make([]*Node, 4)
		other := s.boot(2)
		time.Sleep(2 * time.Second)
		l := s.boot(3)
		s.joined(other, l)
		s.must(s.cluster(other, forget(l)))
		s.want(10*time.Second, "it is on its own", func() bool { return l.Mode() == formation.Solitary })
		s.cut(between(2))

		a := s.boot(0)
		s.must(s.cluster(a, wire.ClusterRequest{Op: "admit-learner", ID: l.id, Key: l.Key().String()}))
		s.want(time.Minute, "it is the other fleet's", func() bool { return follows(l, a) })
		v := s.boot(1)
		s.joined(a, v)
		s.promote(a, v)
		s.want(time.Minute, "all have the same state", func() bool { return follows(l, a) && v.View().Revision() == a.View().Revision() })
		ours := a.View().Cluster()
		s.halt(3)

		_, err := typed(v, wire.ClusterRequest{Op: "leave"})
		s.must(err)
		s.cut(nil)
		s.want(2*time.Minute, "it waits at the other fleet", func() bool { return s.waits(other, v) })
		s.must(s.grant(other, v))
		s.want(time.Minute, "it is the other fleet's", func() bool { return follows(v, other) })
		s.halt(0)

		l = s.boot(3)
		s.never(3*time.Minute, "it leaves its fleet at another fleet's word", func() bool { return l.View().Cluster() != ours })
		a = s.boot(0)
		s.want(time.Minute, "it follows its own fleet again", func() bool { return follows(l, a) })
	})
}

// TestSimLeasesByTheLeadersClock: a lease is judged by the clock of the leader that signed it, not by that of the voter that
// is followed, nor by this machine's own; and a clock that was set since the session began is asked again.
func TestSimLeasesByTheLeadersClock(t *testing.T) {
	simulate(t, 73, func(t *testing.T, s *sim) {
		a := s.voters(2)
		b := s.nodes[1]
		l := s.boot(2)
		s.joined(a, l)
		s.want(time.Minute, "it holds sessions with both", func() bool { return l.hub.ByKey(a.Key()) != nil && l.hub.ByKey(b.Key()) != nil })
		skew := func(on, of *Node, by time.Duration) control.Peer {
			ses := on.hub.ByKey(of.Key())
			h, _, ok := ses.Hello()
			if !ok {
				t.Fatalf("%s said no Hello to %s", of.name, on.name)
			}
			h.ClockMS = time.Now().Add(by).UnixMilli()
			ses.SetHello(h, time.Now())
			return control.Peer{Key: of.Key(), ID: of.id, Session: ses}
		}
		for _, c := range []struct {
			name string
			on   *Node
			peer control.Peer
			want time.Duration
		}{
			{"the leader is followed: its heartbeats", l, skew(l, a, time.Hour), 0},
			{"another voter is followed: what the leader said on its session", l, skew(l, b, time.Hour), time.Hour},
			{"a voter: what the leader said", b, skew(b, a, -24*time.Hour), -24 * time.Hour},
			{"itself", a, control.Peer{Key: a.Key(), ID: a.id}, 0},
		} {
			now := time.Now()
			got := c.on.leaderNow(now, c.on.serving.Load(), c.peer).Round(0).Sub(now.Round(0))
			if off := (got - c.want).Abs(); off > 2*time.Second {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}

		lease, err := a.lease(b.id, "restart", []byte("{}"))
		s.must(err)
		_, err = b.Work(context.Background(), skew(b, a, time.Hour), wire.WorkRequest{Step: "restart", Lease: lease, Body: []byte("{}")})
		var refused *wire.Error
		if errors.As(err, &refused) && refused.Code == wire.CodeLeaseRefused {
			t.Errorf("a clock that was set since is not asked again: %v", err)
		}
	})
}

// TestSimNoLeadersWordIsNone: the voter that had just been elected to take the demoted leader out of consensus loses it
// before it has. It says "you are a learner" and has no leader: for as long as that lasts the demoted one keeps the vote
// without which nobody could ever be elected.
func TestSimNoLeadersWordIsNone(t *testing.T) {
	simulate(t, 75, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent", "id=fleet-unreachable"}
		var armed, walled atomic.Bool
		apart := func(c *Config) { c.Network = &walledNet{c.Network.(*simNet), &walled} }
		a := s.voters(2, apart, func(c *Config) {
			c.Point = func(name string) {
				if name != "consensus.seats.before" || !armed.CompareAndSwap(true, false) {
					return
				}
				for roleIn(s.nodes[0], s.nodes[0]) != fleet.RoleLearner {
					time.Sleep(10 * time.Millisecond)
				}
				walled.Store(true)
				s.net.Cut(addrOf(0), addrOf(1))
				time.Sleep(10 * time.Second)
			}
		})
		b := s.nodes[1]
		armed.Store(true)
		s.must(s.asked(a, demote(a)))
		s.want(time.Minute, "it is walled off", walled.Load)
		s.never(2*time.Minute, "it gives its vote up", func() bool { return a.Mode() != formation.Voter })
		if roleIn(b, a) != fleet.RoleLearner || b.hub.ByKey(a.Key()) == nil || b.leader().id != "" {
			t.Fatalf("the other one says that it is %s, hears it: %v, and is led by %q", roleIn(b, a), b.hub.ByKey(a.Key()) != nil, b.leader().id)
		}
		stream := wire.RaftStreamHeader{Cluster: a.View().Cluster(), Source: a.id}
		if err := b.serving.Load().guard(stream, a.Key()); err != nil {
			t.Errorf("raft names it, and its streams are refused: %v", err)
		}
		walled.Store(false)
		s.want(time.Minute, "the other one leads alone", func() bool { return b.isLeader() && len(b.serving.Load().cons.Seats()) == 1 })
		s.want(time.Minute, "the demoted one follows", func() bool { return a.Mode() == formation.Learner && follows(a, b) })
		if err := b.serving.Load().guard(stream, a.Key()); !errors.Is(err, errRaftRole) {
			t.Errorf("a learner's streams: %v", err)
		}
		s.must(s.write(b, "9"))
		s.agree(a, b)
	})
}

// TestSimDemotedUnheard: a voter that raft's log does not reach is demoted. Its sessions stand all the while, so it has asked the
// others often before it may take their word: each time they must be able to say that they are led.
func TestSimDemotedUnheard(t *testing.T) {
	simulate(t, 76, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent"}
		var walled atomic.Bool
		a := s.voters(3, func(c *Config) { c.Network = &walledNet{c.Network.(*simNet), &walled} })
		last := s.nodes[2]
		walled.Store(true)
		s.net.Cut(addrOf(0), addrOf(2))
		s.net.Cut(addrOf(1), addrOf(2))
		s.must(s.asked(a, demote(last)))
		s.want(time.Minute, "it is out of consensus", func() bool { return len(a.serving.Load().cons.Seats()) == 2 })
		if last.Mode() != formation.Voter {
			t.Fatalf("it heard of it: %s", last.Mode())
		}
		s.want(2*time.Minute, "it follows", func() bool { return last.Mode() == formation.Learner && follows(last, a) })
		walled.Store(false)
		s.must(s.write(a, "9"))
		s.agree(s.nodes...)
	})
}

// TestSimDemotedAndCutOff: a voter that was told of its demotion is cut off before it has followed anybody. Its old state and
// raft's store still call it a voter; the word of a later revision stands.
func TestSimDemotedAndCutOff(t *testing.T) {
	simulate(t, 77, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent"}
		var walled, cut atomic.Bool
		a := s.voters(3, func(c *Config) {
			c.Network = &walledNet{c.Network.(*simNet), &walled}
			if c.Settings.Name == "m002" {
				c.Point = func(name string) {
					if name == "node.move.opened.before" && walled.Load() && cut.CompareAndSwap(false, true) {
						s.cut(between(2))
					}
				}
			}
		})
		last := s.nodes[2]
		walled.Store(true)
		s.net.Cut(addrOf(0), addrOf(2))
		s.net.Cut(addrOf(1), addrOf(2))
		s.must(s.asked(a, demote(last)))
		s.want(3*time.Minute, "it is a learner, and cut off", func() bool { return cut.Load() && last.Mode() == formation.Learner })
		s.never(20*time.Second, "it takes its seat again", func() bool { return last.Mode() != formation.Learner || last.serving.Load().seat.Load() != nil })
		walled.Store(false)
		s.cut(nil)
		s.want(time.Minute, "it follows", func() bool { return follows(last, a) })
	})
}

// TestSimVotersTurnedOver: while a learner was away the fleet's only voter gave its seat to another learner and left. The
// one that comes back knows no voter that is left: it says whose key it is led under now, and a person's word is enough.
func TestSimVotersTurnedOver(t *testing.T) {
	simulate(t, 74, func(t *testing.T, s *sim) {
		s.expect = []string{"id=fleet-unreachable", "id=consensus-leader-silent", "id=fleet-split-healing"}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b, l := s.boot(1), s.boot(2)
		s.joined(a, b)
		s.joined(a, l)
		s.halt(2)
		s.promote(a, b)
		_, err := typed(a, wire.ClusterRequest{Op: "leave"})
		s.must(err)
		s.want(time.Minute, "the other one leads alone", func() bool { return b.isLeader() && len(b.View().Voters()) == 1 })
		s.halt(0)
		l = s.boot(2)
		var said string
		s.want(4*time.Minute, "it says whose key its fleet is led under", func() bool {
			detail, ok := condition(l, "fleet-unreachable")
			said = detail
			return ok
		})
		if !strings.Contains(said, b.Key().String()) {
			t.Errorf("%q does not name the key", said)
		}
		_, err = typed(l, wire.ClusterRequest{Op: "accept", Key: b.Key().String()})
		s.must(err)
		s.want(time.Minute, "it follows", func() bool { return follows(l, b) })
		s.want(time.Minute, "it misses nobody", func() bool { _, ok := condition(l, "fleet-unreachable"); return !ok })
	})
}
