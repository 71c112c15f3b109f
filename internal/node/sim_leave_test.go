package node

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/formation"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// typed carries out an operation of Cluster as this machine's own administrator.
func typed(n *Node, r wire.ClusterRequest) (string, error) {
	a, err := n.Cluster(context.Background(), local, r)
	return a.Text, err
}

// refusedWith fails unless err is a refusal that holds the words, with a remedy.
func (s *sim) refusedWith(err error, words ...string) {
	s.t.Helper()
	var e *wire.Error
	if !errors.As(err, &e) || e.Hint == "" {
		s.t.Fatalf("%v is no refusal with a remedy", err)
	}
	for _, w := range words {
		if !strings.Contains(e.Text+" "+e.Hint, w) {
			s.t.Errorf("%q (%q) does not say %q", e.Text, e.Hint, w)
		}
	}
}

// TestSimLeaveGivesTheAskUp: a pending machine that leaves gives its ask up, and does not ask that fleet for an hour.
func TestSimLeaveGivesTheAskUp(t *testing.T) {
	simulate(t, 301, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		own := b.View().Cluster()
		s.want(5*time.Second, "it waits", func() bool { return s.waits(a, b) })
		said, err := typed(b, wire.ClusterRequest{Op: "leave"})
		s.must(err)
		if !strings.Contains(said, a.View().Cluster()) || b.Mode() != formation.Solitary || b.View().Cluster() != own {
			t.Errorf("%q, and it is %s", said, b.Mode())
		}
		s.never(59*time.Minute, "it asks again", func() bool { return b.Mode() == formation.Pending })
		s.want(3*time.Minute, "after an hour it asks again", func() bool { return asks(b, a) })
	})
}

// TestSimLeaveOfALearner: the leader removes its row, its key keeps its good name, and it may come back.
func TestSimLeaveOfALearner(t *testing.T) {
	simulate(t, 302, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b, c := s.boot(1), s.boot(2)
		s.joined(a, b)
		s.joined(a, c)
		fleet := a.View().Cluster()
		said, err := typed(b, wire.ClusterRequest{Op: "leave"})
		s.must(err)
		if !strings.Contains(said, fleet) || b.Mode() != formation.Solitary || b.View().Cluster() == fleet {
			t.Errorf("%q, and it is %s of %s", said, b.Mode(), b.View().Cluster())
		}
		_, listed := a.View().Member(b.id)
		_, revoked := a.View().Revoked(b.Key())
		if _, raised := condition(b, "own-key-revoked"); listed || revoked || raised {
			t.Errorf("listed %v, revoked %v, own-key-revoked %v", listed, revoked, raised)
		}
		if rec := b.dir.Record(); rec.Leaving || len(rec.RevokedIn) != 0 || len(rec.Rejections) != 1 {
			t.Errorf("its record is %+v", rec)
		}
		if e := a.View().Audit(); e[len(e)-1].What != "leave" || e[len(e)-1].Subject != b.id {
			t.Errorf("the audit ends with %+v", e[len(e)-1])
		}
		s.want(time.Second, "the other follows on", func() bool { return follows(c, a) })
		s.want(time.Second, "no session with its old fleet is left", func() bool { return b.hub.ByKey(a.Key()) == nil })
		s.never(59*time.Minute, "it asks that fleet again", func() bool { return b.Mode() != formation.Solitary })
		s.want(5*time.Minute, "after an hour it asks again", func() bool { return s.waits(a, b) })
		s.joined(a, b)
	})
}

// TestSimLeaveRefused: of whom a fleet depends on, of whom is in none, and of anybody but the machine itself.
func TestSimLeaveRefused(t *testing.T) {
	simulate(t, 303, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent"}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		_, err := typed(a, wire.ClusterRequest{Op: "leave"})
		s.refusedWith(err, "fleet of its own")
		b, c := s.boot(1), s.boot(2)
		s.joined(a, b)
		s.joined(a, c)
		_, err = typed(a, wire.ClusterRequest{Op: "leave"})
		s.refusedWith(err, "last voter", "2 machines depend", "--force")
		// Another machine's row is nobody's to remove this way.
		_, err = b.askLeader(t.Context(), wire.ClusterRequest{Op: "leave", ID: c.id})
		if err == nil || follows(c, a) == false {
			t.Errorf("a learner removed another one: %v", err)
		}
		s.halt(0)
		began := time.Now()
		_, err = typed(b, wire.ClusterRequest{Op: "leave"})
		s.refusedWith(err, "nothing was done", "--force")
		if took := time.Since(began); took > 35*time.Second {
			t.Errorf("it took %s to say so", took)
		}
		if b.Mode() != formation.Learner || b.dir.Record().Leaving {
			t.Errorf("it is %s, leaving %v", b.Mode(), b.dir.Record().Leaving)
		}
		// Alone it goes, and says what stays.
		said, err := typed(b, wire.ClusterRequest{Op: "leave", Force: true})
		s.must(err)
		if !strings.Contains(said, "still lists it") || !strings.Contains(said, b.id) || b.Mode() != formation.Solitary {
			t.Errorf("%q, and it is %s", said, b.Mode())
		}
		a = s.boot(0)
		s.want(time.Minute, "the fleet lists it still, and the other follows", func() bool {
			_, listed := a.View().Member(b.id)
			return listed && follows(c, a)
		})
		said, err = typed(a, wire.ClusterRequest{Op: "leave", Force: true})
		s.must(err)
		if !strings.Contains(said, "2 machines are left there without a voter") && !strings.Contains(said, "without a voter") {
			t.Errorf("%q", said)
		}
	})
}

// TestSimLastOneLeaves: a voter whose fleet has nobody else goes, and founds a new fleet.
func TestSimLastOneLeaves(t *testing.T) {
	simulate(t, 304, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		_, err := typed(b, wire.ClusterRequest{Op: "leave"})
		s.must(err)
		fleet := a.View().Cluster()
		s.halt(1)
		said, err := typed(a, wire.ClusterRequest{Op: "leave"})
		s.must(err)
		if a.Mode() != formation.Solitary || a.View().Cluster() == fleet || !strings.Contains(said, "nobody else") {
			t.Errorf("%q, and it is %s of %s", said, a.Mode(), a.View().Cluster())
		}
	})
}

// TestSimLeaveGoesOn: a machine that stopped between its wish and the fleet's answer leaves at its next start, also where
// the fleet had removed it before.
func TestSimLeaveGoesOn(t *testing.T) {
	for name, asked := range map[string]bool{"before the leader was asked": false, "after the leader removed it": true} {
		t.Run(name, func(t *testing.T) {
			simulate(t, 305, func(t *testing.T, s *sim) {
				a := s.boot(0)
				time.Sleep(2 * time.Second)
				b := s.boot(1)
				s.joined(a, b)
				s.must(b.setLeaving(t.Context(), true))
				id := b.id
				s.halt(1)
				if asked {
					_, err := a.Cluster(t.Context(), control.Peer{Key: b.Key(), ID: b.id}, wire.ClusterRequest{Op: "leave"})
					s.must(err)
					// Nobody remembers the entry any more.
					for i := range 1100 {
						s.must(s.cluster(a, wire.ClusterRequest{Op: "set", Name: "enrollment.per-source", Value: []string{"7", "8"}[i%2]}))
					}
					s.halt(0)
					a = s.boot(0)
				}
				b = s.boot(1)
				s.want(time.Minute, "it has left", func() bool {
					_, listed := a.View().Member(id)
					return b.Mode() == formation.Solitary && !listed && !b.dir.Record().Leaving
				})
			})
		})
	}
}

// TestSimLeaveWithoutAnAnswer: a leader that takes the word and loses the answer is not asked in vain.
func TestSimLeaveWithoutAnAnswer(t *testing.T) {
	simulate(t, 306, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent"}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		var cut atomic.Bool
		dir := ""
		b := s.boot(1, func(c *Config) {
			dir = c.Settings.StateDir
			c.Point = func(name string) {
				// The wish is written; then the answer, and the entry, never come.
				if name == "statedir.record.dirsync.after" {
					if rec, _, err := statedir.Peek(dir); err == nil && rec.Leaving && cut.CompareAndSwap(false, true) {
						s.cut(between(0, 1))
					}
				}
			}
		})
		s.joined(a, b)
		_, err := typed(b, wire.ClusterRequest{Op: "leave"})
		if err == nil {
			t.Fatal("it was told that it left")
		}
		s.cut(nil)
		s.want(2*time.Minute, "it ends in one state or the other, and both agree", func() bool {
			_, listed := a.View().Member(b.id)
			if b.dir.Record().Leaving {
				return false
			}
			return listed && follows(b, a) || !listed && b.Mode() == formation.Solitary
		})
	})
}

// TestSimVotersLeave: a voter leaves consensus first, a leader hands leadership over before that, and the fleet writes on.
func TestSimVotersLeave(t *testing.T) {
	simulate(t, 307, func(t *testing.T, s *sim) {
		a := s.voters(3)
		d := s.boot(3)
		s.joined(a, d)
		fleetID := a.View().Cluster()
		for _, n := range []*Node{s.nodes[1], a} { // a follower, then the leader
			said, err := typed(n, wire.ClusterRequest{Op: "leave"})
			s.must(err)
			if n.Mode() != formation.Solitary || n.View().Cluster() == fleetID || !strings.Contains(said, fleetID) {
				t.Errorf("%q, and it is %s of %s", said, n.Mode(), n.View().Cluster())
			}
			if _, raised := condition(n, "own-key-revoked"); raised {
				t.Error("it says that its key is revoked")
			}
			var lead *Node
			s.want(15*time.Second, "another one leads, and writes", func() bool { lead = s.leading(n); return lead != nil && s.write(lead, "8") == nil })
			s.want(15*time.Second, "raft and the roster agree that it is gone", func() bool {
				_, listed := lead.View().Member(n.id)
				_, seated := lead.body.cons.Seats()[n.id]
				_, revoked := lead.View().Revoked(n.Key())
				return !listed && !seated && !revoked
			})
			s.want(time.Minute, "the learner follows", func() bool { return follows(d, lead) || d.View().Revision() == lead.View().Revision() })
		}
		last := s.nodes[2]
		_, err := typed(last, wire.ClusterRequest{Op: "leave"})
		s.refusedWith(err, "last voter")
	})
}

// TestSimVoterLeavesWithoutAQuorum: where no quorum is, a voter's wish is not granted, and the way out is said.
func TestSimVoterLeavesWithoutAQuorum(t *testing.T) {
	simulate(t, 308, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent"}
		s.voters(3)
		s.halt(0)
		s.halt(1)
		time.Sleep(10 * time.Second)
		began := time.Now()
		_, err := typed(s.nodes[2], wire.ClusterRequest{Op: "leave"})
		s.refusedWith(err, "--force")
		if took := time.Since(began); took > 35*time.Second || s.nodes[2].Mode() != formation.Voter {
			t.Errorf("after %s it is %s", took, s.nodes[2].Mode())
		}
		said, err := typed(s.nodes[2], wire.ClusterRequest{Op: "leave", Force: true})
		s.must(err)
		if !strings.Contains(said, "counts its vote among 3") || s.nodes[2].Mode() != formation.Solitary {
			t.Errorf("%q, and it is %s", said, s.nodes[2].Mode())
		}
	})
}
