package node

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/wire"
)

// TestThousandLearners: a thousand learners, each with its own key over TLS, yamux and Follow frames, follow one voter in
// one process. Every commit reaches every one of them, and when they leave the voter holds nothing of them.
func TestThousandLearners(t *testing.T) {
	learners := 1000
	if raceEnabled {
		learners = 100 // its handshakes take fifty times as long
	}
	n := feeder(t)
	defer n.Stop()
	for i := range learners {
		if _, err := n.propose(t.Context(), feedAdmit(n, i)); err != nil {
			t.Fatal(err)
		}
	}
	ask, err := json.Marshal(wire.FollowRequest{Revision: n.View().Revision(), Digest: fmt.Sprintf("%x", n.View().Digest())})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	have := map[uint64]int{}
	changed := make(chan struct{}, 1)
	arrived := func(rev uint64) {
		mu.Lock()
		defer mu.Unlock()
		have[rev]++
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	start := n.View().Revision()
	go func() {
		result <- followTogether(ctx, cancel, learners, n.fcEndpoint(), n.key.Public(), ask, start, arrived)
	}()
	all := func(rev uint64) {
		t.Helper()
		for {
			mu.Lock()
			got := have[rev]
			mu.Unlock()
			if got == learners {
				return
			}
			select {
			case <-changed:
			case err := <-result:
				t.Fatalf("%d of %d have revision %d: %v", got, learners, rev, err)
			}
		}
	}
	all(start)
	for i := range 3 {
		res, err := n.propose(t.Context(), fleet.Set(fleet.SettingPerSource, fmt.Sprint(5+i), n.key.Public().String(), 1))
		if err != nil {
			t.Fatal(err)
		}
		all(res.Revision)
	}
	for n.body.source.Stats().Commands < uint64(3*learners) { // counted once it is sent; the test's own time bounds it
		time.Sleep(time.Millisecond)
	}
	if s := n.body.source.Stats(); s.Followers != learners || s.Snapshots != 0 || s.Commands != uint64(3*learners) {
		t.Errorf("the voter counts %+v", s)
	}
	cancel()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	for n.body.source.Stats().Followers > 0 || len(n.hub.Sessions()) > 0 { // the test's own time bounds it
		time.Sleep(time.Millisecond)
	}
}
