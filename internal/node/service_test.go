package node

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestStatusIsToldWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mode atomic.Value
		mode.Store("solitary")
		failures := 0
		var heard []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			tellStatus(ctx, func(s string) error { heard = append(heard, s); return errors.New("nobody listens") },
				func() string { return mode.Load().(string) }, func(err error) {
					if err != nil {
						failures++
					}
				})
		}()
		for _, m := range []string{"solitary", "solitary", "pending", "learner", "learner"} {
			synctest.Wait()
			mode.Store(m)
			time.Sleep(statusEvery)
		}
		synctest.Wait()
		cancel()
		<-done
		if want := []string{"solitary", "pending", "learner"}; !slices.Equal(heard, want) || failures != 3 {
			t.Errorf("heard %q, want %q; %d failures", heard, want, failures)
		}
	})
}
