package consensus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
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
		cfg.fault = func(string) error {
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

// TestTermThatCannotBeWritten: where raft would end the process it waits, leads nothing, says why, is closed at once, and
// goes on when there is room.
func TestTermThatCannotBeWritten(t *testing.T) {
	for _, what := range []string{"term", "vote", "log"} {
		for _, ends := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				var full atomic.Bool
				cfg := config(filepath.Join(t.TempDir(), "raft"))
				cfg.NoSync = true
				cfg.fault = func(w string) error {
					if full.Load() && (w == what || w == "log") { // the log's failing is what unseats a leader
						return syscall.ENOSPC
					}
					return nil
				}
				c, err := Open(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				term := c.Term()
				full.Store(true)
				if _, err := c.Apply(t.Context(), admit(1)); err == nil {
					t.Error("a command that could not be written is said to be done")
				}
				time.Sleep(time.Minute)
				if c.IsLeader() || !errors.Is(c.WriteErr(), syscall.ENOSPC) {
					t.Errorf("%s: after a minute it leads: %v, and says %v", what, c.IsLeader(), c.WriteErr())
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				began := time.Now()
				if _, err := c.Apply(ctx, admit(1)); !errors.Is(err, ErrNotLeader) && !errors.Is(err, ErrTimeout) || time.Since(began) > 30*time.Second {
					t.Errorf("%s: meanwhile a command ends with %v after %s", what, err, time.Since(began))
				}
				if ends {
					began = time.Now()
					c.Close()
					if took := time.Since(began); took > time.Second {
						t.Errorf("%s: closed after %s", what, took)
					}
					// What is on disk is what was there: opened with room, it leads again in a term that was never used.
					full.Store(false)
					if c, err = Open(t.Context(), cfg); err != nil {
						t.Fatal(err)
					}
				}
				full.Store(false)
				time.Sleep(20 * time.Second)
				if res, err := c.Apply(t.Context(), admit(1)); err != nil || res.Err != "" || c.WriteErr() != nil {
					t.Errorf("%s: with room again: %v %s, %v", what, err, res.Err, c.WriteErr())
				}
				if c.Term() <= term {
					t.Errorf("%s: term %d, it was %d", what, c.Term(), term)
				}
				c.Close()
			})
		}
	}
}

// TestFullDiskAtTheStart: a fleet of one that can write nothing is not opened, and says what it could not write.
func TestFullDiskAtTheStart(t *testing.T) {
	for _, what := range []string{"term", "vote", "log"} {
		synctest.Test(t, func(t *testing.T) {
			cfg := config(filepath.Join(t.TempDir(), "raft"))
			cfg.NoSync = true
			c, err := Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			cfg.fault = func(w string) error {
				if w == what {
					return syscall.ENOSPC
				}
				return nil
			}
			if c, err = Open(t.Context(), cfg); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), cfg.Dir) {
				t.Errorf("%s: %v", what, err)
			}
			if err == nil {
				c.Close()
			}
			cfg.fault = nil
			if c, err = Open(t.Context(), cfg); err != nil {
				t.Fatalf("%s: with room again: %v", what, err)
			}
			c.Close()
		})
	}
}

// TestWhoCannotWriteDoesNotStand: for some seconds after its log could not be written, a voter votes for others and not for
// itself; a vote that is not on disk is not given, and nothing is once the store is released.
func TestWhoCannotWriteDoesNotStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(filepath.Join(t.TempDir(), "raft"))
		cfg.NoSync = true
		var full atomic.Bool
		cfg.fault = func(string) error {
			if full.Load() {
				return syscall.ENOSPC
			}
			return nil
		}
		if err := os.Mkdir(cfg.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		store, err := openBolt(cfg, filepath.Join(cfg.Dir, storeFile))
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		cfg.Point = func(string) {}
		p := newPointed(store, cfg)
		own, other := []byte(cfg.NodeID), []byte("another")
		full.Store(true)
		if err := p.StoreLog(&raft.Log{Index: 1, Term: 1}); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		full.Store(false)
		if err := p.Set(keyVote, other); err != nil {
			t.Errorf("a vote for another: %v", err)
		}
		if err := p.Set(keyVote, own); !errors.Is(err, errUnwritable) {
			t.Errorf("a vote for itself: %v", err)
		}
		time.Sleep(noStand)
		if err := p.Set(keyVote, own); err != nil {
			t.Errorf("a vote for itself after %s: %v", noStand, err)
		}
		full.Store(true)
		if err := p.Set(keyVote, other); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("a vote that is not on disk: %v", err)
		}
		ended := make(chan error)
		go func() { ended <- p.SetUint64(keyTerm, 9) }()
		time.Sleep(time.Minute)
		select {
		case err := <-ended:
			t.Errorf("a term that is not on disk: %v", err)
		default:
		}
		p.release()
		if err := <-ended; err != nil {
			t.Errorf("a released term: %v, of which raft makes a panic", err)
		}
		full.Store(false)
		for what, err := range map[string]error{"vote": p.Set(keyVote, other), "log": p.StoreLog(&raft.Log{Index: 1, Term: 1})} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s after the release: %v", what, err)
			}
		}
	})
}
