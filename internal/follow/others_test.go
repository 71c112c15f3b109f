package follow

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/wire"
)

// TestOthersWait: who an entry is about has it at once; to everybody else it tells nothing, and waits for more of its kind, a
// tenth of a second at most, or for an entry that is about everybody. What waited goes in one write, and in order.
func TestOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := fleet.New()
		var mu sync.Mutex
		run := func(c fleet.Command) Entry {
			mu.Lock()
			defer mu.Unlock()
			prev := state.View().Revision()
			r, err := state.Apply(c.Encode())
			if err != nil || r.Err != "" {
				t.Fatal(err, r.Err)
			}
			return Entry{Prev: prev, Revision: r.Revision, Command: c.Encode(), View: state.View(), Result: r}
		}
		view := func() *fleet.View { mu.Lock(); defer mu.Unlock(); return state.View() }
		run(fleet.Found(testCluster, 1, founder()))
		for i := range 3 {
			run(admit(i + 1))
		}
		src := NewSource(SourceConfig{Cluster: testCluster, State: view, Term: func() uint64 { return 1 },
			Leader: func() (string, string) { return voterID(0), "10.0.0.1:6674" }, Silent: func() time.Duration { return 0 }})
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		type write struct {
			after     time.Duration
			revisions []uint64
		}
		got := map[string][]write{}
		var served sync.WaitGroup
		follow := func(id string) {
			d := view().Digest()
			served.Go(func() {
				src.Serve(ctx, id, wire.FollowRequest{Revision: view().Revision(), Digest: fmt.Sprintf("%x", d)}, func(all ...[]byte) error {
					w := write{after: time.Since(began)}
					for _, b := range all {
						if c, err := wire.DecodeCommandPush(b); err == nil {
							w.revisions = append(w.revisions, c.Revision)
						}
					}
					if len(w.revisions) > 0 {
						mu.Lock()
						got[id] = append(got[id], w)
						mu.Unlock()
					}
					return nil
				})
			})
		}
		for _, id := range []string{"n-0001", "n-0002", "n-0002"} { // the second one follows twice, as while it moves on
			follow(id)
		}
		synctest.Wait()
		about := func(n int) {
			src.Publish(run(fleet.ProvisionUpdate(fmt.Sprintf("n-%04d", n), fleet.Provision{Stage: "configure", Attempts: 1})))
			synctest.Wait()
		}
		first := view().Revision()
		about(3)
		time.Sleep(10 * time.Millisecond)
		about(1)
		time.Sleep(10 * time.Millisecond)
		about(3)
		time.Sleep(OthersWait)
		about(3)
		time.Sleep(20 * time.Millisecond)
		src.Publish(run(fleet.Set("enrollment.per-source", "9", by, 1)))
		synctest.Wait()
		ms := time.Millisecond
		want := map[string][]write{
			// Its own, with what came before it; the rest when the first has waited its time; then what is for everybody.
			"n-0001": {{10 * ms, []uint64{first + 1, first + 2}}, {OthersWait, []uint64{first + 3}}, {OthersWait + 40*ms, []uint64{first + 4, first + 5}}},
			"n-0002": {{OthersWait, []uint64{first + 1, first + 2, first + 3}}, {OthersWait + 40*ms, []uint64{first + 4, first + 5}}},
		}
		mu.Lock()
		for id, w := range want {
			if id == "n-0002" {
				w = append(slices.Clone(w), w...)
				slices.SortStableFunc(w, func(a, b write) int { return int(a.after - b.after) })
			}
			if fmt.Sprint(got[id]) != fmt.Sprint(w) {
				t.Errorf("%s was sent %v, want %v", id, got[id], w)
			}
		}
		mu.Unlock()
		about(2)
		cancel()
		served.Wait()
		if len(src.nudges) != 0 {
			t.Errorf("the source holds %d followers that have gone", len(src.nudges))
		}
		src.Close() // with an entry that waits
	})
}

// TestOneWriteIsBounded: what a follower lacks goes in writes of a bounded number of entries.
func TestOneWriteIsBounded(t *testing.T) {
	list := make([]*pushed, 2*pushEntries+1)
	for i := range list {
		list[i] = &pushed{prev: uint64(i), revision: uint64(i + 1), all: make([]byte, 10)}
	}
	var sizes []int
	f := &Follower{s: NewSource(SourceConfig{}), push: func(all ...[]byte) error { sizes = append(sizes, len(all)); return nil }}
	for f.at < uint64(len(list)) {
		if done, err := f.commands(list[f.at:]); done || err != nil {
			t.Fatal(done, err)
		}
	}
	list = []*pushed{{prev: f.at, revision: f.at + 1, all: make([]byte, pushBytes)}, {prev: f.at + 1, revision: f.at + 2, all: make([]byte, 1)}}
	if done, err := f.commands(list); done || err != nil {
		t.Fatal(done, err)
	}
	if want := []int{pushEntries, pushEntries, 1, 1}; !slices.Equal(sizes, want) {
		t.Errorf("%v, want %v", sizes, want)
	}
}
