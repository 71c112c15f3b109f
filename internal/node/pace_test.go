package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/wire"
)

// TestAnnouncementsArePaced: a member's first changes go at once, then one a second, what would wait long is refused as busy,
// and no member waits for another.
func TestAnnouncementsArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer
		took := func(key string) time.Duration {
			began := time.Now()
			if err := p.wait(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		for i := range announceBurst {
			if d := took("a"); d != 0 {
				t.Errorf("change %d waits for %s", i, d)
			}
		}
		for range 3 {
			if d := took("a"); d != announceEvery {
				t.Errorf("a further change waits for %s", d)
			}
		}
		if d := took("b"); d != 0 {
			t.Errorf("another member waits for %s", d)
		}
		time.Sleep(announceBurst * announceEvery)
		for range announceBurst {
			if d := took("a"); d != 0 {
				t.Errorf("after a rest it waits for %s", d)
			}
		}
		// Sixty-four streams at once: those that would wait too long are told so, and take no turn away.
		var mu sync.Mutex
		var done, busy int
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				err := p.wait(t.Context(), "a")
				mu.Lock()
				defer mu.Unlock()
				var e *wire.Error
				switch {
				case err == nil:
					done++
				case errors.As(err, &e) && e.Code == wire.CodeBusy:
					busy++
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most := int(announceMost / announceEvery); done != most || busy != 64-most {
			t.Errorf("%d had their turn and %d were refused", done, busy)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.wait(gone, "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("who has gone is told %v", err)
		}
		for i := range 10 * minPaced { // and members that went leave nothing behind
			took(fmt.Sprint(i))
			time.Sleep(announceEvery)
		}
		if len(p.full) > minPaced {
			t.Errorf("%d are remembered", len(p.full))
		}
	})
}
