package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pace-node/internal/consensus"
	"pace-node/internal/formation"
	"pace-node/internal/statedir"
)

// TestSimRecordBeforeActing: at every point of a move after the record, the record on disk already says where the move
// goes; before it, nothing of the move has been done.
func TestSimRecordBeforeActing(t *testing.T) {
	simulate(t, 21, func(t *testing.T, s *sim) {
		s.expect = []string{"id=own-key-revoked"}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		type seen struct{ point, mode, cluster string }
		var mu sync.Mutex
		var all []seen
		dir := filepath.Join(s.dir, "m001")
		b := s.boot(1, func(c *Config) {
			c.Point = func(name string) {
				if !slices.Contains(Points, name) {
					return
				}
				rec, _, err := statedir.Peek(dir)
				if err != nil {
					t.Errorf("at %s the record does not read: %v", name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, seen{name, rec.Mode, rec.Cluster})
				if name == "node.move.record.before" && rec.Mode == "solitary" && s.metric(a, "pace_enrollment_requests_total") != 0 {
					t.Error("it asked before its record said so")
				}
			}
		})
		own := b.View().Cluster()
		s.joined(a, b)
		s.must(s.cluster(a, forget(b)))
		s.want(time.Second, "it is solitary", func() bool { return b.Mode() == formation.Solitary })
		mu.Lock()
		defer mu.Unlock()
		fresh := b.View().Cluster()
		rebuilt := Points[2:]
		want := []seen{{Points[0], "solitary", own}, {Points[1], "pending", own}, {Points[0], "pending", own}, {Points[1], "learner", a.View().Cluster()}}
		for _, p := range rebuilt {
			want = append(want, seen{p, "learner", a.View().Cluster()})
		}
		want = append(want, seen{Points[0], "learner", a.View().Cluster()}, seen{Points[1], "solitary", fresh})
		for _, p := range rebuilt {
			want = append(want, seen{p, "solitary", fresh})
		}
		if !slices.Equal(all, want) {
			t.Errorf("points and records:\n got %v\nwant %v", all, want)
		}
	})
}

// TestSimRecordNotWritten: a move whose record can't be written does nothing, says so, and is made when it can.
func TestSimRecordNotWritten(t *testing.T) {
	simulate(t, 22, func(t *testing.T, s *sim) {
		s.expect = []string{"id=formation-move-refused", "id=state-dir-lost"}
		d := s.boot(3)
		s.cut(between(3))
		time.Sleep(2 * time.Second)
		var broken atomic.Bool
		dir := filepath.Join(s.dir, "m000")
		a := s.boot(0, func(c *Config) {
			c.Point = func(name string) {
				if name == "node.move.record.before" && broken.Load() {
					if err := os.Rename(dir, dir+".gone"); err != nil {
						t.Error(err)
					}
				}
			}
		})
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.want(5*time.Second, "the younger waits at the older", func() bool { return s.waits(a, b) })
		broken.Store(true)
		s.cut(nil)
		s.deaf(between(3, 1))
		s.want(30*time.Second, "the older could not move", func() bool { _, ok := condition(a, "formation-move-refused"); return ok })
		if a.Mode() != formation.Solitary || !s.waits(a, b) || !asks(b, a) {
			t.Errorf("something was done without a record: %s, the younger waits there: %v", a.Mode(), s.waits(a, b))
		}
		s.want(time.Minute, "the folder is said to be gone", func() bool { _, ok := condition(a, "state-dir-lost"); return ok })
		s.never(30*time.Second, "it asked", func() bool { return s.waits(d, a) })
		broken.Store(false)
		s.must(os.Rename(dir+".gone", dir))
		s.want(time.Minute, "it moves when its record can be written", func() bool { return asks(a, d) && asks(b, d) })
		s.want(time.Minute, "the folder is back", func() bool { _, ok := condition(a, "state-dir-lost"); return !ok })
		if _, ok := condition(a, "formation-move-refused"); ok {
			t.Error("the condition stays raised")
		}
	})
}

// TestSimNoAdmissionWithoutRecord: an approval whose record can't be written leaves the machine pending and serving, and is
// taken later.
func TestSimNoAdmissionWithoutRecord(t *testing.T) {
	simulate(t, 23, func(t *testing.T, s *sim) {
		s.expect = []string{"id=formation-move-refused", "id=state-dir-lost"}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		var broken atomic.Bool
		dir := filepath.Join(s.dir, "m001")
		b := s.boot(1, func(c *Config) {
			c.Point = func(name string) {
				if name == "node.move.record.before" && broken.Load() {
					if err := os.Rename(dir, dir+".gone"); err != nil {
						t.Error(err)
					}
				}
			}
		})
		own := b.View().Cluster()
		s.want(5*time.Second, "it waits", func() bool { return s.waits(a, b) })
		broken.Store(true)
		s.must(s.grant(a, b))
		s.want(time.Second, "its record is refused", func() bool { _, ok := condition(b, "formation-move-refused"); return ok })
		if b.Mode() != formation.Pending || b.View().Cluster() != own || !b.isLeader() {
			t.Errorf("it is %s in %s", b.Mode(), b.View().Cluster())
		}
		broken.Store(false)
		s.must(os.Rename(dir+".gone", dir))
		s.want(65*time.Second, "it joins when its record can be written", func() bool { return follows(b, a) })
		if _, ok := condition(b, "formation-move-refused"); ok {
			t.Error("the condition stays raised")
		}
	})
}

// TestSimGrownBeforeRecord: a founder that ends between the commit of its first admission and the record of it finishes at
// the next start.
func TestSimGrownBeforeRecord(t *testing.T) {
	simulate(t, 24, func(t *testing.T, s *sim) {
		s.expect = []string{"id=formation-move-refused", "id=state-dir-lost"}
		var broken atomic.Bool
		dir := filepath.Join(s.dir, "m000")
		a := s.boot(0, func(c *Config) {
			c.Point = func(name string) {
				if name == "node.move.record.before" && broken.CompareAndSwap(true, false) {
					if err := os.Rename(dir, dir+".gone"); err != nil {
						t.Error(err)
					}
				}
			}
		})
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.want(5*time.Second, "it waits", func() bool { return s.waits(a, b) })
		broken.Store(true)
		s.must(s.grant(a, b))
		s.want(time.Second, "its record is refused", func() bool { _, ok := condition(a, "formation-move-refused"); return ok })
		s.must(os.Rename(dir+".gone", dir))
		s.halt(0)
		if rec, _, err := statedir.Peek(dir); err != nil || rec.Mode != "solitary" {
			t.Fatalf("the record says %+v, %v", rec, err)
		}
		a = s.boot(0)
		s.want(2*time.Second, "it is a voter", func() bool { return a.Mode() == formation.Voter })
		s.want(45*time.Second, "the other one follows", func() bool { return follows(b, a) })
	})
}

// TestSimFounderWithoutItsStore: a founder with members whose store is gone, or is named another fleet's, does not start:
// it would lead an empty fleet of the same id, without a roster and without a revocation.
func TestSimFounderWithoutItsStore(t *testing.T) {
	simulate(t, 24, func(t *testing.T, s *sim) {
		dir := s.dir
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		fleet, revision := a.View().Cluster(), a.View().Revision()
		s.halt(0)
		store := filepath.Join(dir, "m000", statedir.ConsensusDir)
		other := strings.Repeat("ab", 16)
		for _, c := range []struct {
			name      string
			hurt, fix func() error
			is        error
			says      []string
		}{
			{"folder gone", func() error { return os.Rename(store, store+".away") }, func() error { return os.Rename(store+".away", store) },
				consensus.ErrDamaged, []string{filepath.Join(store, "raft.db"), "missing", "nothing was changed", "backup"}},
			{"file gone", func() error { return os.Rename(filepath.Join(store, "raft.db"), store+".db") }, func() error { return os.Rename(store+".db", filepath.Join(store, "raft.db")) },
				consensus.ErrDamaged, []string{filepath.Join(store, "raft.db"), "missing", "nothing was changed", "backup"}},
			{"another fleet's", func() error { return os.WriteFile(filepath.Join(store, "cluster"), []byte(other+"\n"), 0o600) },
				func() error { return os.WriteFile(filepath.Join(store, "cluster"), []byte(fleet+"\n"), 0o600) },
				consensus.ErrOtherCluster, []string{store, other, fleet, "nothing was changed", "backup"}},
			{"nobody's", func() error { return os.WriteFile(filepath.Join(store, "cluster"), []byte("\x01no id\n"), 0o600) },
				func() error { return os.WriteFile(filepath.Join(store, "cluster"), []byte(fleet+"\n"), 0o600) },
				consensus.ErrOtherCluster, []string{store, "\\x01no id", fleet, "nothing was changed", "backup"}},
		} {
			s.must(c.hurt())
			before := names(t, filepath.Join(dir, "m000"))
			n, err := Start(s.config(0))
			if err == nil {
				n.Stop()
				t.Fatalf("%s: it starts", c.name)
			}
			if !errors.Is(err, c.is) {
				t.Errorf("%s: %v", c.name, err)
			}
			for _, word := range c.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%s: %q does not say %q", c.name, err, word)
				}
			}
			if after := names(t, filepath.Join(dir, "m000")); !slices.Equal(before, after) {
				t.Errorf("%s: the state directory held\n%q, and now\n%q", c.name, before, after)
			}
			s.must(c.fix())
		}
		a = s.boot(0)
		if v := a.View(); v.Cluster() != fleet || v.Revision() < revision || !v.Holds(b.ID(), b.Key()) {
			t.Errorf("with its store back it holds revision %d of %s", v.Revision(), v.Cluster())
		}
	})
}

// names are the paths of everything under a folder.
func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		out = append(out, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}
