package consensus

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pace-node/internal/fleet"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

func TestMain(m *testing.M) {
	if point := os.Getenv("PACE_TEST_CRASH_AT"); point != "" {
		crashChild(point)
		return
	}
	goleak.VerifyTestMain(m)
}

// lonely is the layer of a machine that has no other voter.
type lonely struct {
	done chan struct{}
	once sync.Once
}

func newLonely() *lonely { return &lonely{done: make(chan struct{})} }

func (l *lonely) Dial(context.Context, string) (net.Conn, error) { return nil, errors.New("nobody") }
func (l *lonely) Accept() (net.Conn, error)                      { <-l.done; return nil, net.ErrClosed }
func (l *lonely) Close() error                                   { l.once.Do(func() { close(l.done) }); return nil }
func (l *lonely) Addr() net.Addr                                 { return idAddr("lonely") }

var founder = identity.NewPrivateKey([32]byte{1})

func config(dir string) Config {
	return Config{
		Dir: dir, NodeID: "n-a", Cluster: "c-office", Layer: newLonely(),
		Bootstrap: &Bootstrap{Created: 1790000000, Member: fleet.Member{
			ID: "n-a", Key: founder.Public(), Name: "office-a", Role: fleet.RoleVoter, Platform: "linux/amd64", Version: "1.0.0",
			Format: fleet.Format, Endpoints: wire.Endpoints{FC: "10.0.0.1:6674", Raft: "10.0.0.1:6680"}, Admitted: 1790000000,
		}},
	}
}

func open(t *testing.T, cfg Config) *Consensus {
	t.Helper()
	c, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func admit(n int) fleet.Command {
	key := identity.NewPrivateKey([32]byte{2, byte(n), byte(n >> 8)}).Public()
	return fleet.AdmitLearner(fmt.Sprintf("n-%04d", n), key, "pc", "linux/amd64", "1.0.0", wire.Endpoints{FC: fmt.Sprintf("10.0.%d.%d:6674", n/250, n%250+1)},
		fleet.Format, founder.Public().String(), 1790000100, false)
}

func TestFleetOfOneLeadsAtOnceAndKeepsItsState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "raft")
	c := open(t, config(dir))
	if !c.IsLeader() || c.Leader() != "n-a" {
		t.Fatalf("leader %v %q after Open; a fleet of one leads at once", c.IsLeader(), c.Leader())
	}
	if v := c.View(); v.Cluster() != "c-office" || v.Created() != 1790000000 || v.Revision() != 1 {
		t.Fatalf("founded as %q, %d at revision %d", v.Cluster(), v.Created(), v.Revision())
	}
	for n := range 5 {
		res, err := c.Apply(t.Context(), admit(n))
		if err != nil || res.Err != "" {
			t.Fatal(err, res.Err)
		}
	}
	want := c.View().Digest()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, config(dir))
	if got := again.View(); got.Digest() != want || got.Revision() != 6 {
		t.Fatalf("after a restart: revision %d, digest equal %v; want 6, true", got.Revision(), got.Digest() == want)
	}
	if again.Term() < 2 {
		t.Fatalf("term %d after a restart: each election raises it", again.Term())
	}
}

func TestSnapshotAndShortLogRestore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "raft")
	cfg := config(dir)
	cfg.NoSync = true
	c := open(t, cfg)
	for n := range 50 {
		if _, err := c.Apply(t.Context(), admit(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Apply(t.Context(), admit(50)); err != nil {
		t.Fatal(err)
	}
	want := c.View().Digest()
	c.Close()
	cfg.Layer = newLonely()
	if got := open(t, cfg).View(); got.Digest() != want || got.Revision() != 52 {
		t.Fatalf("from a snapshot and a tail: revision %d, digest equal %v", got.Revision(), got.Digest() == want)
	}
}

func TestEntriesReachTheListenerInOrderAndTheRing(t *testing.T) {
	cfg := config(filepath.Join(t.TempDir(), "raft"))
	cfg.NoSync = true
	var mu sync.Mutex
	var seen []Entry
	cfg.OnApply = func(e Entry) { mu.Lock(); seen = append(seen, e); mu.Unlock() }
	c := open(t, cfg)
	const n = ringSize + 10
	for i := range n {
		if _, err := c.Apply(t.Context(), fleet.Audit("test", "x", fmt.Sprint(i), "", 0)); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != n+1 {
		t.Fatalf("%d entries told, %d applied", len(seen), n+1)
	}
	for i, e := range seen {
		if e.Prev != uint64(i) || e.Revision != uint64(i+1) || e.View.Revision() != e.Revision {
			t.Fatalf("entry %d goes from %d to %d with a view at %d", i, e.Prev, e.Revision, e.View.Revision())
		}
	}
	rev := c.View().Revision()
	if got, ok := c.Since(rev); !ok || len(got) != 0 {
		t.Fatalf("from the newest revision: %d entries, %v", len(got), ok)
	}
	if got, ok := c.Since(rev - 3); !ok || len(got) != 3 || got[0].Prev != rev-3 {
		t.Fatalf("three behind: %d entries, %v", len(got), ok)
	}
	if _, ok := c.Since(rev - ringSize - 1); ok {
		t.Fatal("further back than the ring reaches, and no word of it")
	}
	if _, ok := c.Since(rev + 1); ok {
		t.Fatal("a revision that was never applied here has no continuation")
	}
}

func TestRefusedCommandIsToldAndRaisesTheRevision(t *testing.T) {
	cfg := config(filepath.Join(t.TempDir(), "raft"))
	cfg.NoSync = true
	c := open(t, cfg)
	res, err := c.Apply(t.Context(), fleet.Forget("n-a", founder.Public().String(), 0))
	if err != nil || res.Err == "" {
		t.Fatalf("the only voter was forgotten: %v %+v", err, res)
	}
	if c.View().Revision() != 2 {
		t.Fatalf("revision %d after a refused command, want 2: it counts every applied one", c.View().Revision())
	}
}

func TestNewerFormatStopsBeforeItIsApplied(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "raft")
	c := open(t, config(dir))
	before := c.View().Revision()
	f := c.raft.Apply([]byte(`{"v":9,"kind":"teleport"}`), 5*time.Second)
	if err := f.Error(); err != nil {
		t.Fatal(err)
	}
	if err := f.Response().(applied).err; !errors.Is(err, ErrFormatNewer) {
		t.Fatalf("a later format was answered with %v", err)
	}
	if !errors.Is(c.Err(), ErrFormatNewer) || c.View().Revision() != before {
		t.Fatalf("err %v, revision %d: the state must stay at %d", c.Err(), c.View().Revision(), before)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	// The store is kept: the same entry stops the next start of this version again, and a later version can apply it.
	if _, err := Open(t.Context(), config(dir)); err == nil {
		t.Fatal("a start went past a command of a later format")
	}
}

func TestOtherFleetsStoreIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "raft")
	open(t, config(dir)).Close()
	cfg := config(dir)
	cfg.Cluster = "c-other"
	sums := checksums(t, dir)
	_, err := Open(t.Context(), cfg)
	if !errors.Is(err, ErrOtherCluster) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "c-office") {
		t.Fatalf("another fleet's store: %v", err)
	}
	if checksums(t, dir) != sums {
		t.Fatal("the refusal changed a file")
	}
}

func TestDamagedStoreIsRefusedAndLeftAlone(t *testing.T) {
	damage := map[string]func(t *testing.T, path string){
		"cut in half": func(t *testing.T, path string) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, info.Size()/2); err != nil {
				t.Fatal(err)
			}
		},
		"cut to its first page": func(t *testing.T, path string) {
			if err := os.Truncate(path, 4096); err != nil {
				t.Fatal(err)
			}
		},
		"cut to ten bytes": func(t *testing.T, path string) {
			if err := os.Truncate(path, 10); err != nil {
				t.Fatal(err)
			}
		},
		"not a store": func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("hello ", 3000)), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"empty": func(t *testing.T, path string) {
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
		},
		"its fleet's name is gone": func(t *testing.T, path string) {
			if err := os.Remove(filepath.Join(filepath.Dir(path), clusterFile)); err != nil {
				t.Fatal(err)
			}
		},
		"its fleet's name is empty": func(t *testing.T, path string) {
			if err := os.Truncate(filepath.Join(filepath.Dir(path), clusterFile), 0); err != nil {
				t.Fatal(err)
			}
		},
		"its fleet's name is missing": func(t *testing.T, path string) {
			if err := os.Remove(filepath.Join(filepath.Dir(path), clusterFile)); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, do := range damage {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "raft")
			c := open(t, config(dir))
			for n := range 40 {
				if _, err := c.Apply(t.Context(), admit(n)); err != nil {
					t.Fatal(err)
				}
			}
			c.Close()
			do(t, filepath.Join(dir, storeFile))
			sums := checksums(t, dir)
			_, err := Open(t.Context(), config(dir))
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "move the state directory away") {
				t.Fatalf("a damaged store was answered with: %v", err)
			}
			if checksums(t, dir) != sums {
				t.Fatal("the refusal changed a file")
			}
		})
	}
}

func checksums(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(&out, "%s %x\n", path, sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// crashChild founds a store and admits a machine, and ends without ceremony at the named point.
func crashChild(at string) {
	cfg := config(os.Getenv("PACE_TEST_CRASH_DIR"))
	cfg.Point = func(name string) {
		if name == at {
			os.Exit(77)
		}
	}
	c, err := Open(context.Background(), cfg)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if _, err := c.Apply(context.Background(), admit(1)); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if err := c.AddNonvoter(context.Background(), "n-0001"); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

func TestCrashAtEachPointRecovers(t *testing.T) {
	for _, point := range Points {
		t.Run(point, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "raft")
			cmd := exec.Command(os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), "PACE_TEST_CRASH_AT="+point, "PACE_TEST_CRASH_DIR="+dir)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 77 {
				t.Fatalf("the point was never reached: %v\n%s", err, out)
			}
			c := open(t, config(dir))
			if c.View().Cluster() != "c-office" || !c.IsLeader() {
				t.Fatalf("after a crash at %s: cluster %q, leader %v", point, c.View().Cluster(), c.IsLeader())
			}
			if _, err := c.Apply(t.Context(), admit(2)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestClosedSaysSo(t *testing.T) {
	c := open(t, config(filepath.Join(t.TempDir(), "raft")))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatalf("closing twice: %v", err)
	}
	if _, err := c.Apply(t.Context(), admit(1)); !errors.Is(err, ErrClosed) {
		t.Fatalf("a command to a closed store: %v", err)
	}
}

func BenchmarkApply(b *testing.B) {
	for _, sync := range []bool{true, false} {
		b.Run(map[bool]string{true: "fsync", false: "no-fsync"}[sync], func(b *testing.B) {
			cfg := config(filepath.Join(b.TempDir(), "raft"))
			cfg.NoSync = !sync
			c, err := Open(b.Context(), cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := c.Apply(b.Context(), fleet.Audit("bench", "x", "", "", 0)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestInterruptedMakingOfTheStoreBeginsAgain has what a power cut leaves of a store that never got its name.
func TestInterruptedMakingOfTheStoreBeginsAgain(t *testing.T) {
	for name, left := range map[string][]byte{"empty": {}, "torn": []byte("half a page")} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "raft")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, storeFile+newMark), left, 0o600); err != nil {
				t.Fatal(err)
			}
			c := open(t, config(dir))
			if !c.IsLeader() || c.View().Cluster() != "c-office" {
				t.Fatalf("cluster %q, leader %v", c.View().Cluster(), c.IsLeader())
			}
			if _, err := os.Lstat(filepath.Join(dir, storeFile+newMark)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it is still there: %v", err)
			}
		})
	}
}
