package consensus

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"pace-node/internal/fleet"
)

// grown is a store of a fleet with members, closed; twoVoters gives it a second voter that is not there.
func grown(t *testing.T, dir string, members int, twoVoters bool) *fleet.View {
	t.Helper()
	cfg := config(dir)
	cfg.NoSync = true
	c := open(t, cfg)
	for n := range members {
		if res, err := c.Apply(t.Context(), admit(n)); err != nil || res.Err != "" {
			t.Fatal(err, res.Err)
		}
		if n == members/2 {
			if err := c.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if twoVoters {
		if res, err := c.Apply(t.Context(), fleet.SetRole("n-0000", fleet.RoleVoter, "", 0)); err != nil || res.Err != "" {
			t.Fatal(err, res.Err)
		}
		if err := c.raft.AddVoter("n-0000", raft.ServerAddress("n-0000"), 0, 0).Error(); err != nil && !errors.Is(err, raft.ErrLeadershipLost) {
			t.Log(err) // it can't be committed: nobody answers for the second one
		}
	}
	v := c.View()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return v
}

func builder(dir, id string) Build {
	return Build{Dir: dir, NodeID: id, Cluster: "c-office", Epoch: 1, NoSync: true}
}

// recoveredConfig opens what was built.
func recoveredConfig(dir, id string) Config {
	cfg := config(dir)
	cfg.Bootstrap, cfg.NodeID, cfg.NoSync, cfg.Epoch, cfg.RecoveredBy = nil, id, true, 1, founder.Public().String()
	return cfg
}

func checkRecovered(t *testing.T, dir, id string, was *fleet.View) {
	t.Helper()
	if got, err := RecoveredEpoch(dir); err != nil || got != 1 {
		t.Fatalf("the store is marked with %d, %v", got, err)
	}
	c := open(t, recoveredConfig(dir, id))
	v := c.View()
	if !c.IsLeader() || v.Epoch() != 1 || v.Revision() != was.Revision()+1 || v.Len() != was.Len() {
		t.Fatalf("leads %v, epoch %d, revision %d after %d, %d members of %d", c.IsLeader(), v.Epoch(), v.Revision(), was.Revision(), v.Len(), was.Len())
	}
	if voters := v.Voters(); len(voters) != 1 || voters[0].ID != id {
		t.Fatalf("voters %+v", voters)
	}
	if _, err := c.Apply(t.Context(), admit(900)); err != nil {
		t.Fatal(err)
	}
	want := c.View()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	// Once more, as after a crash before the recovery was forgotten: the entry is not written twice.
	again := open(t, recoveredConfig(dir, id))
	if got := again.View(); got.Digest() != want.Digest() || got.Epoch() != 1 || got.Revision() != want.Revision() {
		t.Fatalf("opened again: epoch %d, revision %d, want %d", got.Epoch(), got.Revision(), want.Revision())
	}
}

func TestRecoverFromALearnersState(t *testing.T) {
	at := t.TempDir()
	was := grown(t, filepath.Join(at, "old"), 5, false)
	b := builder(filepath.Join(at, "new"), "n-0003")
	if err := b.FromState(was.SnapshotFor("n-0003")); err != nil {
		t.Fatal(err)
	}
	checkRecovered(t, b.Dir, "n-0003", was)
}

// TestRecoverFromAVotersStore: what its log holds is taken, its configuration is not, and the old store stays as it was.
func TestRecoverFromAVotersStore(t *testing.T) {
	for name, twoVoters := range map[string]bool{"one voter": false, "two, of which one is lost": true} {
		t.Run(name, func(t *testing.T) {
			at := t.TempDir()
			old := filepath.Join(at, "old")
			was := grown(t, old, 6, twoVoters)
			before := contents(t, old)
			b := builder(filepath.Join(at, "new"), "n-a")
			if err := b.FromStore(old); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(before, contents(t, old)) {
				t.Error("the old store was changed")
			}
			checkRecovered(t, b.Dir, "n-a", was)
		})
	}
}

func contents(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out = append(out, path+string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRecoverRefuses(t *testing.T) {
	at := t.TempDir()
	old := filepath.Join(at, "old")
	was := grown(t, old, 2, false)
	b := builder(filepath.Join(at, "a"), "n-a")
	b.Cluster = "c-other"
	if err := b.FromState(was.Snapshot()); !errors.Is(err, ErrOtherCluster) {
		t.Errorf("another fleet's state: %v", err)
	}
	if err := b.FromStore(old); !errors.Is(err, ErrOtherCluster) {
		t.Errorf("another fleet's store: %v", err)
	}
	if err := builder(filepath.Join(at, "b"), "n-a").FromState([]byte("x")); !errors.Is(err, fleet.ErrSnapshot) {
		t.Errorf("no state: %v", err)
	}
	if err := builder(old, "n-a").FromState(was.Snapshot()); err == nil {
		t.Error("a folder that is there is built in")
	}
	if err := os.Truncate(filepath.Join(old, storeFile), 5000); err != nil {
		t.Fatal(err)
	}
	if err := builder(filepath.Join(at, "c"), "n-a").FromStore(old); !errors.Is(err, ErrDamaged) {
		t.Errorf("a store that was cut: %v", err)
	}
	mark := filepath.Join(at, "d")
	for text, ok := range map[string]bool{"3\n": true, "3": false, "0\n": false, "x\n": false, "": false} {
		if err := os.MkdirAll(mark, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(mark, recoveredFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		epoch, err := RecoveredEpoch(mark)
		if ok != (err == nil && epoch == 3) || !ok && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), recoveredFile)) {
			t.Errorf("a mark %q: %d, %v", text, epoch, err)
		}
	}
}

// TestRecoverPassesEveryPoint: each place at which a test build may end the process is passed, in the order of the list.
func TestRecoverPassesEveryPoint(t *testing.T) {
	at := t.TempDir()
	old := filepath.Join(at, "old")
	grown(t, old, 2, false)
	var passed []string
	b := builder(filepath.Join(at, "new"), "n-a")
	b.NoSync = false
	b.Point = func(name string) { passed = append(passed, name) }
	if err := b.FromStore(old); err != nil {
		t.Fatal(err)
	}
	cfg := recoveredConfig(b.Dir, "n-a")
	cfg.Point = func(name string) {
		if strings.HasPrefix(name, "consensus.recover.") {
			passed = append(passed, name)
		}
	}
	open(t, cfg)
	if !slices.Equal(passed, RecoverPoints) {
		t.Errorf("passed %q\nlisted %q", passed, RecoverPoints)
	}
}
