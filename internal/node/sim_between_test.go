package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/wire"
)

// between runs f while n has no serving body, as it has none between two modes; published says that who leads is said
// anew, without which others still take n for the leader.
func (s *sim) between(n *Node, published bool, f func()) {
	s.t.Helper()
	var b *body
	s.must(n.ask(context.Background(), func(now time.Time) {
		b, n.body = n.body, nil
		n.serving.Store(nil)
		if published {
			n.publish(now)
		}
	}))
	f()
	s.must(n.ask(context.Background(), func(now time.Time) {
		n.body = b
		n.leadership(now)
	}))
}

// TestSimBetweenTwoModes: whatever comes in between two modes, or was begun before, is answered: the machine goes on, the
// waiting list is as it was, and no window is armed that nobody would end.
func TestSimBetweenTwoModes(t *testing.T) {
	simulate(t, 31, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		c := s.boot(2)
		s.want(time.Minute, "the third one waits", func() bool { return s.waits(a, c) })
		lease, err := a.lease(b.id, "restart", nil)
		s.must(err)
		judged := func() fleet.LeaseVerdict {
			_, verdict := fleet.JudgeLease(b.leaseInput(control.Peer{Key: a.Key(), ID: a.id}, wire.WorkRequest{Step: "restart", Lease: lease}))
			return verdict
		}
		if got := judged(); got != fleet.LeaseOK {
			t.Errorf("a learner's lease: %s", got)
		}
		s.between(b, true, func() { // it knows no term then, below which it would refuse
			if got := judged(); got != fleet.LeaseSignerUnknown {
				t.Errorf("between two modes a lease is %s, want one that is asked for again", got)
			}
		})
		member := control.Peer{Key: b.Key(), ID: b.id}
		for _, published := range []bool{false, true} {
			s.between(a, published, func() {
				for op, decide := range map[string]func() error{
					"approve": func() error { return s.grant(a, c) },
					"reject":  func() error { return s.reject(a, c) },
					"window":  func() error { return s.arm(a, 60) },
				} {
					if err, e := decide(), (*wire.Error)(nil); !errors.As(err, &e) || e.Code != wire.CodeNotLeader {
						t.Errorf("published %v: %s: %v, want error 5", published, op, err)
					}
				}
				for _, r := range []wire.ClusterRequest{{Op: "transfer"}, {Op: "set", Name: "enrollment.per-source", Value: "5"}, {Op: "admit-learner", ID: c.id, Key: c.Key().String()},
					{Op: "admit", ID: b.id}, {Op: "forget", ID: b.id}, {Op: "recover", ID: a.View().Cluster()}, {Op: "accept", Key: b.Key().String()}} {
					if _, err := a.Cluster(t.Context(), local, r); err == nil {
						t.Errorf("published %v: %s was done between two modes", published, r.Op)
					}
				}
				// What these answer is no matter here, as long as the machine goes on.
				for _, what := range []string{"node", "cluster", "recover", "doctor", "stale", "follows", "watch", "conditions", "audit", "seat", "agreement", "roster"} {
					_, _ = a.Status(t.Context(), local, wire.StatusRequest{What: what})
					_, _ = a.Status(t.Context(), member, wire.StatusRequest{What: what})
				}
				for _, op := range []string{"list", "show", "history", "retry", "drop", "pause", "resume", "reprovision"} {
					_, _ = a.Queue(t.Context(), local, wire.QueueRequest{Op: op, ID: b.id})
				}
				_, _ = a.Query(t.Context(), member)
				_, _ = a.Follow(t.Context(), member, wire.FollowRequest{})
				_ = a.Announce(t.Context(), member, b.announcement())
				_, _ = a.StartupEvent(t.Context(), member, b.startupEvent(b.serving.Load(), b.announcement()))
				_, _ = a.lease(b.id, "restart", nil)
				time.Sleep(3 * time.Second) // some beats, and what peers say meanwhile
			})
		}
		if !s.waits(a, c) {
			t.Error("who waited waits no more")
		}
		if _, open := raised(a, "enrollment-window-open"); open {
			t.Error("a window is armed")
		}
		s.joined(a, c)
	})
}
