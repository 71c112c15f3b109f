package consensus

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// lines is a log that many goroutines write.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(word string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), word)
}

// TestFullDisk: a voter that cannot write its log says why for as long as that lasts, floods no log with raft's own words,
// keeps what it holds, and leads again by itself.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		log := &lines{}
		cfg := config(filepath.Join(t.TempDir(), "raft"))
		cfg.NoSync, cfg.Logger = true, slog.New(slog.NewTextHandler(log, nil))
		cfg.fault = func() error {
			if full.Load() {
				return syscall.ENOSPC
			}
			return nil
		}
		c, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.WriteErr(); err != nil {
			t.Errorf("it could write, and says %v", err)
		}
		revision, term := c.View().Revision(), c.Term()
		full.Store(true)
		if _, err := c.Apply(t.Context(), admit(1)); err == nil {
			t.Error("a command that could not be written is said to be done")
		}
		time.Sleep(2 * time.Minute)
		if err := c.WriteErr(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("on a full disk it says %v", err)
		}
		if n := log.count("failed to commit logs"); n < 1 || n > 3 {
			t.Errorf("raft's error is logged %d times in two minutes, in %d elections", n, c.Term()-term)
		}
		if c.View().Revision() != revision {
			t.Errorf("revision %d, want %d", c.View().Revision(), revision)
		}
		full.Store(false)
		time.Sleep(10 * time.Second)
		if err := c.WriteErr(); err != nil || !c.IsLeader() {
			t.Errorf("with room again: leader %v, %v", c.IsLeader(), err)
		}
		if res, err := c.Apply(t.Context(), admit(1)); err != nil || res.Err != "" {
			t.Error(err, res.Err)
		}
	})
}

// TestCloseAnswersWhoAsks: whoever asks while the store is closed is answered, and no goroutine is left behind for it.
func TestCloseAnswersWhoAsks(t *testing.T) {
	for round := range 20 {
		synctest.Test(t, func(t *testing.T) { // which fails where a goroutine is left
			cfg := config(filepath.Join(t.TempDir(), "raft"))
			cfg.NoSync = true
			c, err := Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for n := range 50 {
				wg.Go(func() {
					if _, err := c.Apply(t.Context(), admit(n)); err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrNotLeader) {
						t.Error(err)
					}
				})
				wg.Go(func() { _ = c.Barrier(t.Context()) })
			}
			for range round {
				runtime.Gosched()
			}
			c.Close()
			wg.Wait()
			if _, err := c.Apply(t.Context(), admit(99)); !errors.Is(err, ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}
