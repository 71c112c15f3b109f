package follow

import (
	"context"
	"errors"
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

// TestBackoffSpread: at every backoff, and at its cap, the shortest and the longest wait are at least 30 % apart.
func TestBackoffSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1<<30).Draw(t, "attempt")
		shortest, longest := backoff(n, 0), backoff(n, 0.999999)
		if shortest <= 0 || float64(longest-shortest) < 0.3*float64(longest) {
			t.Fatalf("attempt %d waits %v to %v", n, shortest, longest)
		}
		r := rapid.Float64Range(0, 0.999999).Draw(t, "r")
		if d := backoff(n, r); d < shortest || d > longest || d > backoffCap*2 {
			t.Fatalf("attempt %d waits %v", n, d)
		}
		if n > 0 && n < 1000 && backoff(n, r) < backoff(n-1, r) {
			t.Fatalf("attempt %d waits less than the one before", n)
		}
	})
}

func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var voters []fleet.Member
		for i := range rapid.IntRange(0, 7).Draw(t, "voters") {
			voters = append(voters, fleet.Member{ID: fmt.Sprint(i)})
		}
		leader, left := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "leader")), fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "left"))
		got := order(voters, leader, left, func() float64 { return rapid.Float64Range(0, 0.99).Draw(t, "r") })
		seen := map[string]bool{}
		for i, m := range got {
			seen[m.ID] = true
			if m.ID == left && i != len(got)-1 {
				t.Fatalf("the one just left is not last: %v", got)
			}
			if m.ID == leader && leader != left && i != 0 {
				t.Fatalf("the leader is not first: %v", got)
			}
		}
		if len(got) != len(voters) || len(seen) != len(voters) {
			t.Fatalf("%v of %v", got, voters)
		}
	})
}

// TestOrderSpreads: machines that lost one voter do not all go to the same other one.
func TestOrderSpreads(t *testing.T) {
	voters := []fleet.Member{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	count := map[string]int{}
	state := uint64(1)
	rand := func() float64 { // any sequence that is not constant
		state = state*6364136223846793005 + 1442695040888963407
		return float64(state>>11) / (1 << 53)
	}
	for range 1000 {
		count[order(voters, "a", "a", rand)[0].ID]++
	}
	if count["b"] < 400 || count["c"] < 400 {
		t.Fatalf("%v", count)
	}
}

// TestHerd: sixty learners lose their leader in one moment. All follow another voter within 30 s, none of them at once.
func TestHerd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const machines = 60
		r := newRig(t, 3)
		for i := range machines - 1 {
			r.applyAll(admit(2 + i))
		}
		var mu sync.Mutex
		var dials []time.Time
		var learners []*Learner
		var running sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for i := range machines {
			cfg := LearnerConfig{Dir: t.TempDir(), Cluster: testCluster, Self: fmt.Sprintf("n-%04d", 1+i), Key: pub(1 + i), Seed: r.cfg.Seed, NoSync: true,
				Rand: rand.New(rand.NewPCG(uint64(i), 1)).Float64}
			l, err := OpenLearner(cfg)
			if err != nil {
				t.Fatal(err)
			}
			learners = append(learners, l)
			running.Go(func() {
				l.Run(ctx, func(ctx context.Context, m fleet.Member) (Stream, error) {
					for n, v := range r.voters {
						if v.id == m.ID {
							mu.Lock()
							dials = append(dials, time.Now())
							mu.Unlock()
							return v.dial(ctx, cfg.Self, pub(9000+n))
						}
					}
					return nil, errDown
				})
			})
		}
		follow := func(not string) bool {
			for _, l := range learners {
				if f := l.Status().Following; f == "" || f == not {
					return false
				}
			}
			return true
		}
		r.until("all follow", func() bool { return follow("") })
		// All come to the leader, so that its end is everybody's.
		for _, v := range r.voters[1:] {
			v.set(func(v *voter) { v.refuse = errDown })
			v.cut()
		}
		r.until("all follow the leader", func() bool { return follow("v-1") && follow("v-2") })
		time.Sleep(time.Minute)
		mu.Lock()
		dials = nil
		mu.Unlock()
		for _, v := range r.voters[1:] {
			v.set(func(v *voter) { v.refuse = nil })
		}
		r.voters[0].set(func(v *voter) { v.refuse = errDown })
		r.voters[0].cut()
		begun := time.Now()
		r.until("all follow another", func() bool { return follow("v-0") })
		if d := time.Since(begun); d > 30*time.Second {
			t.Fatalf("took %v", d)
		}
		per := map[time.Duration]int{}
		mu.Lock()
		for _, at := range dials {
			per[at.Sub(begun)/(100*time.Millisecond)]++
		}
		mu.Unlock()
		for slot, n := range per {
			if n > machines*15/100 {
				t.Fatalf("%d of %d dials in the 100 ms from %v", n, machines, slot*100*time.Millisecond)
			}
		}
		cancel()
		running.Wait()
		for _, l := range learners {
			l.Close()
		}
	})
}

var errDown = errors.New("down")

// BenchmarkFanOut measures one commit on its way to 1,000 followers, in memory.
func BenchmarkFanOut(b *testing.B) {
	const followers = 1000
	state := fleet.New()
	run := func(c fleet.Command) Entry {
		prev := state.View().Revision()
		cmd := c.Encode()
		r, err := state.Apply(cmd)
		if err != nil || r.Err != "" {
			b.Fatal(err, r.Err)
		}
		return Entry{Prev: prev, Revision: r.Revision, Command: cmd, View: state.View(), Result: r}
	}
	run(fleet.Found(testCluster, 1, founder()))
	for i := range followers {
		run(admit(i + 1))
	}
	var mu sync.Mutex
	view := state.View()
	src := NewSource(SourceConfig{Cluster: testCluster, State: func() *fleet.View { mu.Lock(); defer mu.Unlock(); return view }, Term: func() uint64 { return 1 },
		Leader: func() (string, string) { return "v-0", "10.0.0.1:6674" }, Silent: func() time.Duration { return 0 }})
	ctx, cancel := context.WithCancel(b.Context())
	var got, served sync.WaitGroup
	got.Add(followers) // one heartbeat each
	d := view.Digest()
	for i := range followers {
		served.Go(func() {
			src.Serve(ctx, fmt.Sprintf("n-%04d", i+1), wire.FollowRequest{Revision: view.Revision(), Digest: fmt.Sprintf("%x", d)}, func(...[]byte) error {
				got.Done()
				return nil
			})
		})
	}
	got.Wait()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		e := run(fleet.Announce(fmt.Sprintf("n-%04d", 1+n%followers), wire.Announce{Name: fmt.Sprint("pc-", n), Format: 1}))
		mu.Lock()
		view = e.View
		mu.Unlock()
		got.Add(followers)
		src.Publish(e)
		got.Wait()
	}
	b.ReportMetric(float64(b.N*followers)/b.Elapsed().Seconds(), "pushes/s")
	cancel()
	served.Wait()
}

// BenchmarkPublish measures what the applier pays for a commit.
func BenchmarkPublish(b *testing.B) {
	state := fleet.New()
	for i := range 1001 {
		c := admit(i)
		if i == 0 {
			c = fleet.Found(testCluster, 1, founder())
		}
		if r, err := state.Apply(c.Encode()); err != nil || r.Err != "" {
			b.Fatal(err, r.Err)
		}
	}
	src := NewSource(SourceConfig{})
	cmd := fleet.ProvisionUpdate("n-0001", fleet.Provision{Stage: "configure"}).Encode()
	v := state.View()
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		src.Publish(Entry{Prev: i, Revision: i + 1, Command: cmd, View: v})
	}
}
