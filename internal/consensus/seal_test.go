package consensus

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pace-node/internal/statedir"
)

// TestCrashWhileASnapshotIsSealed: the folder as a power cut leaves it at each step of writing the checksum of a snapshot's
// description holds the very state, and the start mends what is left over.
func TestCrashWhileASnapshotIsSealed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "raft")
	cuts := map[string]string{}
	var want string
	cfg := config(dir)
	cfg.NoSync = true
	cfg.sealing = func(step string) {
		at := filepath.Join(t.TempDir(), "raft")
		if err := os.CopyFS(at, os.DirFS(dir)); err != nil {
			t.Error(err)
		}
		cuts[step] = at
	}
	c := open(t, cfg)
	for n := range 5 {
		if _, err := c.Apply(t.Context(), admit(n)); err != nil {
			t.Fatal(err)
		}
	}
	want = fmt.Sprint(c.View().Revision(), c.View().Digest())
	if err := c.raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, step := range statedir.WriteSteps {
		at, ok := cuts[step]
		if !ok {
			t.Errorf("nothing was cut at %s", step)
			continue
		}
		if got, err := reopened(t, at); err != nil || got != want {
			t.Errorf("cut at %s: %s (%v), want %s", step, got, err, want)
		}
	}
	if len(cuts) != len(statedir.WriteSteps) {
		t.Errorf("steps %v, want %v", slices.Sorted(maps.Keys(cuts)), statedir.WriteSteps)
	}
}
