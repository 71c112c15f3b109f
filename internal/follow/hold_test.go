package follow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"pace-node/internal/fleet"
	"pace-node/internal/wire"
)

// sessions is what a machine holds beside what it follows: Reach, without a network.
type sessions struct {
	mu    sync.Mutex
	rig   *rig
	lost  map[string]chan struct{}
	asked map[string][]time.Time
	down  map[string]bool
}

func newSessions(r *rig) *sessions {
	return &sessions{rig: r, lost: map[string]chan struct{}{}, asked: map[string][]time.Time{}, down: map[string]bool{}}
}

func (s *sessions) reach(_ context.Context, m fleet.Member) (Position, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[m.ID] = append(s.asked[m.ID], time.Now())
	if s.down[m.ID] {
		return Position{}, nil, errDown
	}
	if s.lost[m.ID] == nil {
		s.lost[m.ID] = make(chan struct{})
	}
	for _, v := range s.rig.voters {
		if v.id == m.ID {
			return Position{v.view().Epoch(), v.view().Revision()}, s.lost[m.ID], nil
		}
	}
	return Position{}, s.lost[m.ID], nil
}

func (s *sessions) times(id string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.asked[id]...)
}

// end breaks the session with a voter.
func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.lost[id])
	delete(s.lost, id)
}

// hold runs Hold beside a started rig until the function that it returns is called.
func (s *sessions) hold() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.rig.l.Hold(ctx, s.reach)
	}()
	return func() { cancel(); <-done }
}

// TestHoldsEveryVoter: a learner has a session with every voter and follows one of them.
func TestHoldsEveryVoter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3)
		r.start()
		r.until("one is followed", func() bool { return r.l.Status().Following != "" })
		s := newSessions(r)
		stop := s.hold()
		time.Sleep(10 * time.Second)
		followed := r.l.Status().Following
		for _, v := range r.voters {
			if n := len(s.times(v.id)); v.id == followed && n != 0 || v.id != followed && n != 1 {
				t.Fatalf("%s is followed; %s was asked %d times", followed, v.id, n)
			}
		}
		// A session that ends is opened again soon, and not at once.
		other := "v-0"
		if followed == other {
			other = "v-1"
		}
		s.end(other)
		ended := time.Now()
		r.until("it is held again", func() bool { return len(s.times(other)) == 2 })
		if d := s.times(other)[1].Sub(ended); d < backoffBase/4 || d > 2*backoffBase {
			t.Fatalf("again after %v", d)
		}
		// A voter that can't be reached is tried less and less often.
		s.mu.Lock()
		s.down[other] = true
		s.mu.Unlock()
		s.end(other)
		was := len(s.times(other))
		time.Sleep(10 * time.Minute)
		if n := len(s.times(other)) - was; n < 15 || n > 125 {
			t.Fatalf("%d tries in ten minutes", n)
		}
		stop()
		r.stop()
	})
}

// TestHoldFollowsTheRoster: a voter that comes is reached, one that goes is not asked any more.
func TestHoldFollowsTheRoster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		for _, v := range r.voters {
			v.set(func(v *voter) { v.leader = "v-0" })
		}
		r.start()
		s := newSessions(r)
		stop := s.hold()
		r.until("one is followed", func() bool { return r.l.Status().Following != "" })
		r.applyAll(fleet.AdmitLearner("v-9", pub(99), "", "", "", wire.Endpoints{FC: "10.0.0.9:6674"}, 1, by, 1, false), fleet.SetRole("v-9", fleet.RoleVoterPending, by, 1), fleet.SetRole("v-9", fleet.RoleVoter, by, 1))
		r.until("the new voter is reached", func() bool { return len(s.times("v-9")) == 1 })
		r.applyAll(fleet.SetRole("v-9", fleet.RoleLearner, by, 1))
		time.Sleep(HeartbeatEvery + time.Second)
		n := len(s.times("v-9"))
		time.Sleep(10 * time.Minute)
		if now := len(s.times("v-9")); now != n {
			t.Fatalf("asked %d times more", now-n)
		}
		stop()
		r.stop()
	})
}

// TestLeavesAVoterThatFellBehind: the one that is followed answers and is behind; the others, when they are asked, say so.
func TestLeavesAVoterThatFellBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3)
		r.start()
		r.until("one is followed", func() bool { return r.l.Status().Following != "" })
		s := newSessions(r)
		stop := s.hold()
		behind := r.l.Status().Following
		for _, v := range r.voters {
			if v.id != behind {
				v.apply(admit(2), admit(3))
			}
		}
		r.until("another is followed", func() bool { f := r.l.Status().Following; return f != behind && f != "" })
		for _, v := range r.voters {
			if v.id == r.l.Status().Following {
				r.same(v)
			}
		}
		stop()
		r.stop()
	})
}

// TestHoldHerd: a voter with a thousand sessions ends; they do not come back in one second.
func TestHoldHerd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		per := map[time.Duration]int{}
		for range 1000 {
			per[backoff(0, x.Float64())/(100*time.Millisecond)]++
		}
		for slot, n := range per {
			if n > 80 { // of 3 s: 33 in the middle
				t.Fatalf("%d of 1000 in the 100 ms from %v", n, slot*100*time.Millisecond)
			}
		}
		least, most := askAgain(0), askAgain(0.999999)
		if float64(most-least) < 0.3*float64(most) || least <= 0 {
			t.Fatalf("asked every %v to %v", least, most)
		}
	})
}

// TestEveryWayBackToTheSameState: a learner that lags, that was restarted, that was away until the log no longer reaches
// back, and one whose clock is wrong by hours, all arrive at the voters' digest.
func TestEveryWayBackToTheSameState(t *testing.T) {
	change := func(r *rig, n int) {
		for i := range n {
			r.applyAll(fleet.Set("enrollment.per-source", fmt.Sprint(1+i%60), by, int64(i)))
		}
	}
	for _, c := range []struct {
		name      string
		away      func(r *rig) // between two lives
		snapshots int          // more than the first
	}{
		{"restarted", func(r *rig) { change(r, 3) }, 0},
		{"lagging by what the voters keep encoded", func(r *rig) { change(r, ringEntries-1) }, 0},
		{"lagging by what only the log holds", func(r *rig) { change(r, ringEntries+200) }, 0},
		{"long absent: the log was compacted", func(r *rig) {
			change(r, ringEntries+200)
			for _, v := range r.voters {
				v.set(func(v *voter) { v.noSince = true })
			}
		}, 1},
		{"the voters were started anew from a snapshot", func(r *rig) {
			change(r, 50)
			for _, v := range r.voters {
				v.restart()
				v.set(func(v *voter) { v.noSince = true })
			}
		}, 1},
		{"the voters' clocks are hours off", func(r *rig) {
			for i, v := range r.voters {
				v.set(func(v *voter) { v.skew = time.Duration(i*2-1) * 26 * time.Hour })
			}
			change(r, 3)
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 3)
				r.start()
				r.same(r.voters[0])
				first := r.l.Stats().Snapshots
				r.stop()
				c.away(r)
				r.start()
				for _, v := range r.voters {
					r.same(v)
				}
				if n := int(r.l.Stats().Snapshots); n != c.snapshots || first != 1 {
					t.Errorf("%d snapshots, want %d (and %d at first)", n, c.snapshots, first)
				}
				change(r, 2)
				r.same(r.voters[0])
				r.checkEntries()
				r.stop()
			})
		})
	}
}
