package follow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"pace-node/internal/fleet"
	"pace-node/internal/wire"
)

func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// history keeps the digest of each revision of a voter.
func history(v *voter) map[uint64][32]byte {
	h := map[uint64][32]byte{0: fleet.New().View().Digest()}
	for _, e := range v.log {
		h[e.Revision] = e.View.Digest()
	}
	return h
}

// TestKillAtEachPoint takes the disk as it is at each point, as a kill there would leave it, and starts from it: nothing
// that was shown is lost, what is there is a state the voter had, and following goes on.
func TestKillAtEachPoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		v := r.voters[0]
		base := v.view()
		type left struct {
			point, dir string
			shown      uint64
		}
		var kills []left
		count := map[string]int{}
		r.cfg.NoSync = false
		r.cfg.Point = func(p string) {
			if count[p]++; count[p] > 3 {
				return
			}
			r.mu.Lock()
			shown := uint64(0)
			if n := len(r.entries); n > 0 {
				shown = r.entries[n-1].Revision
			}
			r.mu.Unlock()
			kills = append(kills, left{p, copyDir(t, r.cfg.Dir), shown})
		}
		r.start()
		r.same(v)
		for i := range 3 {
			v.apply(admit(2 + i))
			r.same(v)
		}
		for i := range compactEntries { // beyond what the log holds: it is folded into a snapshot
			v.apply(fleet.Set("enrollment.per-source", fmt.Sprint(1+i%60), by, 1))
		}
		r.same(v)
		r.stop()
		if r.l.Stats().Snapshots != 1 {
			t.Fatalf("%+v", r.l.Stats())
		}
		h := history(v)
		h[base.Revision()] = base.Digest()

		// The torn end of a log is cut at the next start: that is a point too.
		torn := copyDir(t, r.cfg.Dir)
		appendTo(t, filepath.Join(torn, logFile), []byte{0, 0, 0, 9, 1, 2})
		l := openAt(t, r, torn)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		for _, p := range Points {
			if count[p] == 0 && p != "follow.truncate.before" && p != "follow.truncate.after" {
				t.Errorf("%s was never reached", p)
			}
		}
		t.Logf("%d kills at %d points", len(kills), len(count))
		for _, k := range kills {
			l := openAt(t, r, k.dir)
			at := l.View()
			if at.Revision() < k.shown {
				t.Errorf("%s: at %d, though %d was shown", k.point, at.Revision(), k.shown)
			}
			if at.Digest() != h[at.Revision()] {
				t.Errorf("%s: no state that the voter had at %d", k.point, at.Revision())
			}
			names, _ := filepath.Glob(filepath.Join(k.dir, ".*"))
			if len(names) > 0 {
				t.Errorf("%s: %v was left behind", k.point, names)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		// And on from some of them.
		for _, k := range kills[:min(len(kills), 40)] {
			again := &rig{t: t, voters: r.voters, cfg: r.cfg}
			again.cfg.Dir, again.cfg.Point, again.cfg.NoSync = k.dir, nil, true
			again.cfg.OnApply = nil
			again.start()
			again.same(v)
			again.stop()
		}
	})
}

func openAt(t *testing.T, r *rig, dir string) *Learner {
	t.Helper()
	cfg := r.cfg
	cfg.Dir, cfg.Point = dir, nil
	l, err := OpenLearner(cfg)
	if err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	return l
}

func appendTo(t testing.TB, path string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
}

// written makes a folder with a snapshot and a log of some commands, and returns the voter.
func written(t *testing.T, r *rig) *voter {
	v := r.voters[0]
	r.start()
	r.same(v)
	for i := range 4 {
		v.apply(admit(2 + i))
	}
	r.same(v)
	r.stop()
	return v
}

// TestTornLogTail cuts the log at each byte, and flips a byte in each place: what is before is kept, the rest is cut.
func TestTornLogTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		base := r.voters[0].view()
		v := written(t, r)
		h := history(v)
		h[base.Revision()] = base.Digest()
		whole, err := os.ReadFile(filepath.Join(r.cfg.Dir, logFile))
		if err != nil {
			t.Fatal(err)
		}
		dir := copyDir(t, r.cfg.Dir)
		check := func(name string, b []byte, least uint64) {
			if err := os.WriteFile(filepath.Join(dir, logFile), b, 0o600); err != nil {
				t.Fatal(err)
			}
			l := openAt(t, r, dir)
			at := l.View()
			if at.Revision() < least || at.Digest() != h[at.Revision()] {
				t.Fatalf("%s: at %d", name, at.Revision())
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			left, err := os.ReadFile(filepath.Join(dir, logFile))
			if err != nil || !bytes.HasPrefix(b, left) {
				t.Fatalf("%s: the sound part was changed", name)
			}
		}
		for i := range whole {
			if i < 300 || i%4 == 0 {
				check(fmt.Sprint("cut at ", i), whole[:i], base.Revision())
			}
			if i%8 == 0 {
				b := bytes.Clone(whole)
				b[i] ^= 0x40
				check(fmt.Sprint("flipped at ", i), b, base.Revision())
			}
		}
		check("whole", whole, v.view().Revision())
		check("junk behind it", append(bytes.Clone(whole), make([]byte, 50)...), v.view().Revision())
	})
}

func TestDamagedStateRefusesTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		written(t, r)
		path := filepath.Join(r.cfg.Dir, snapshotFile)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		flipped := bytes.Clone(good)
		flipped[len(flipped)/2] ^= 1
		later := bytes.Clone(good)
		later[11] = 9
		for _, c := range []struct {
			name  string
			bytes []byte
			want  error
			text  string
		}{
			{"empty", nil, ErrDamaged, "move " + r.cfg.Dir + " away"},
			{"cut in half", good[:len(good)/2], ErrDamaged, path},
			{"one bit", flipped, ErrDamaged, path},
			{"a later format", later, fleet.ErrFormatNewer, path},
		} {
			if err := os.WriteFile(path, c.bytes, 0o600); err != nil {
				t.Fatal(err)
			}
			before := dump(t, r.cfg.Dir)
			l, err := OpenLearner(r.cfg)
			if l != nil || !errors.Is(err, c.want) || !hasText(err, c.text) {
				t.Fatalf("%s: %v", c.name, err)
			}
			if !slices.Equal(before, dump(t, r.cfg.Dir)) {
				t.Fatalf("%s: files were changed", c.name)
			}
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
		other := r.cfg
		other.Cluster = "c0ffee00000000000000000000000002"
		if _, err := OpenLearner(other); !errors.Is(err, ErrOtherCluster) {
			t.Fatal(err)
		}
		// A log of a later format.
		cmd := []byte(`{"v":2,"kind":"later"}`)
		b, _ := os.ReadFile(filepath.Join(r.cfg.Dir, logFile))
		rev := r.l.View().Revision()
		appendTo(t, filepath.Join(r.cfg.Dir, logFile), appendCommandRecord(nil, 0, rev, rev+1, cmd))
		if _, err := OpenLearner(r.cfg); !errors.Is(err, fleet.ErrFormatNewer) || !hasText(err, logFile) {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.cfg.Dir, logFile), b, 0o600); err != nil {
			t.Fatal(err)
		}
		r.start()
		r.same(r.voters[0])
		r.stop()
	})
}

func dump(t *testing.T, dir string) (out []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Name()+string(b))
	}
	return out
}

func TestSeed(t *testing.T) {
	good := newRig(t, 1).cfg
	for _, c := range []struct{ name, seed string }{
		{"none", ""}, {"no JSON", "{"}, {"another fleet's", `{"cluster":"x","voters":[]}`}, {"no voter", `{"cluster":"` + testCluster + `"}`},
		{"a bad key", `{"cluster":"` + testCluster + `","voters":[{"id":"v","key":"short"}]}`},
	} {
		cfg := good
		cfg.Dir, cfg.Seed = t.TempDir(), []byte(c.seed)
		if _, err := OpenLearner(cfg); !errors.Is(err, ErrSeed) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	l, err := OpenLearner(good)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if vs := l.Voters(); len(vs) != 1 || vs[0].ID != "v-0" || vs[0].Endpoints.FC != "10.0.0.1:6674" || l.View().Cluster() != "" {
		t.Fatalf("%+v", vs)
	}
}

// TestSeedAheadOfTheState: a state of before the roster that it is gone on with is gone on with in the same recovery
// epoch, since what it lacks is sent; one of an earlier epoch is not.
func TestSeedAheadOfTheState(t *testing.T) {
	for _, c := range []struct {
		epoch, revision uint64
		want            error
	}{{0, 0, nil}, {0, 1 << 40, nil}, {1, 0, ErrStale}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 1)
			v := written(t, r)
			ahead := v.view().Roster("n-0001")
			ahead.Epoch, ahead.Revision = c.epoch, max(ahead.Revision, c.revision)
			seed, err := json.Marshal(ahead)
			if err != nil {
				t.Fatal(err)
			}
			cfg := r.cfg
			cfg.Seed = seed
			l, err := OpenLearner(cfg)
			if !errors.Is(err, c.want) {
				t.Errorf("epoch %d, revision %d: %v, want %v", c.epoch, c.revision, err, c.want)
			}
			if err == nil {
				l.Close()
			}
		})
	}
}

// TestDiskFails: a write that fails shows nothing that is not on disk, and following goes on when the disk does.
func TestDiskFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		v := r.voters[0]
		fail := 0
		r.cfg.Point = func(p string) {
			if p == "follow.append.before" && fail > 0 {
				fail--
				r.l.store.log.Close()
			}
		}
		r.start()
		r.same(v)
		r.until("a heartbeat", func() bool { return r.l.HighestTerm() == 3 })
		r.stop()
		at := r.l.View().Revision()
		fail = 2
		v.apply(admit(2), admit(3))
		r.start()
		r.until("failed", func() bool { return hasText(errors.New(r.l.Status().LastError), "could not be written") })
		if got := r.l.View().Revision(); got != at {
			t.Fatalf("shows %d, the disk holds %d", got, at)
		}
		r.same(v)
		r.stop()
		r.checkEntries()
	})
}

// TestEmptyBytesRaiseTheRevision: a command without bytes is the empty one.
func TestEmptyBytesRaiseTheRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		v := r.voters[0]
		v.set(func(v *voter) {
			v.edit = func(b []byte) []byte {
				if c, err := wire.DecodeCommandPush(b); err == nil {
					c.Bytes = nil
					return c.Append(nil)
				}
				return b
			}
		})
		r.start()
		r.same(v)
		v.apply(fleet.Audit("retry", "", "", by, 1), fleet.Audit("retry", "", "", by, 1))
		r.same(v)
		r.stop()
		l := openAt(t, r, r.cfg.Dir)
		if l.View().Revision() != v.view().Revision() {
			t.Fatal("not on disk")
		}
		l.Close()
	})
}

// TestLargeSnapshot goes over several chunks.
func TestLargeSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		v := r.voters[0]
		for i := 2; i < 1000; i++ {
			v.apply(admit(i))
		}
		labels := map[string]string{"room": string(bytes.Repeat([]byte{'x'}, 900))}
		for n := 2; n < 1000; n++ {
			v.apply(fleet.Announce(fmt.Sprintf("n-%04d", n), wire.Announce{Name: "pc", Labels: labels, Endpoints: wire.Endpoints{FC: "10.0.0.1:6674"}}))
		}
		if n := len(v.view().SnapshotFor(self)); n <= wire.SnapshotChunkSize {
			t.Fatalf("%d bytes are one chunk", n)
		}
		v.set(func(v *voter) { v.noSince = true })
		r.start()
		r.same(v)
		if s := r.l.Stats(); s.Snapshots != 1 || s.Entries != 0 {
			t.Fatalf("%+v", s)
		}
		r.stop()
	})
}

func FuzzReplay(f *testing.F) {
	state := fleet.New()
	if _, err := state.Apply(fleet.Found(testCluster, 1, founder()).Encode()); err != nil {
		f.Fatal(err)
	}
	snap := state.SnapshotFor(self)
	log := appendTermRecord(nil, term{0, 7})
	log = appendCommandRecord(log, 0, 1, 2, admit(1).Encode())
	log = appendCommandRecord(log, 0, 2, 3, fleet.EmptyCommand(1))
	f.Add(log)
	f.Add(log[:len(log)-3])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{snapshotFile: snap, logFile: b} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, st, err := openStore(dir, true, func(string) {})
		if errors.Is(err, fleet.ErrFormatNewer) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		at := st.View().Revision()
		if err := s.append(appendCommandRecord(nil, 0, at, at+1, fleet.EmptyCommand(1)), 1); err != nil {
			t.Fatal(err)
		}
		s.close()
		s, st, err = openStore(dir, true, func(string) {})
		if err != nil || st.View().Revision() != at+1 {
			t.Fatalf("%v: at %d, want %d", err, st.View().Revision(), at+1)
		}
		s.close()
	})
}

func FuzzTake(f *testing.F) {
	r := newRig(f, 1)
	v := r.voters[0].view()
	for _, p := range []interface{ Append([]byte) []byte }{&wire.Heartbeat{Cluster: testCluster, LeaderID: "v-0", Term: 4},
		&wire.CommandPush{Prev: v.Revision(), Revision: v.Revision() + 1, Bytes: admit(4).Encode()},
		&wire.SnapshotChunk{Revision: v.Revision(), Count: 1, Bytes: v.SnapshotFor(self)}, &wire.SnapshotChunk{Revision: 3, Count: 2, Index: 1}} {
		f.Add(p.Append(nil))
	}
	seed, err := json.Marshal(v.Roster(self))
	if err != nil {
		f.Fatal(err)
	}
	snap := v.SnapshotFor(self)
	f.Fuzz(func(t *testing.T, b []byte) {
		cfg := LearnerConfig{Dir: t.TempDir(), Cluster: testCluster, Self: self, Key: pub(1), Seed: seed, NoSync: true}
		if err := os.WriteFile(filepath.Join(cfg.Dir, snapshotFile), snap, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := OpenLearner(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s := &session{r: &runner{l: l}, l: l, voter: founder()}
		s.takeAll(received{bytes: b}, nil)
		if l.View().Cluster() != testCluster || l.View().Revision() < v.Revision() {
			t.Fatalf("went back to %d", l.View().Revision())
		}
	})
}
