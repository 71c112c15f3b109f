package statedir

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// told is what a child said before it ended.
type told struct {
	id, key      string
	boot         int
	store        int // last marker written, -1 for none
	cluster      string
	resetBegan   bool
	reset        bool
	output, stop string
}

func parseTold(out, stop string) told {
	t := told{store: -1, output: out, stop: stop}
	for line := range strings.Lines(out) {
		w := strings.Fields(line)
		switch w[0] {
		case "id":
			t.id, t.key = w[1], w[2]
		case "boot":
			t.boot, _ = strconv.Atoi(w[1])
		case "store":
			t.store, _ = strconv.Atoi(w[1])
		case "cluster":
			t.cluster = w[1]
		case "reset":
			t.resetBegan = true
			t.reset = w[1] != "begins"
		}
	}
	return t
}

// TestCrashAtEveryPoint ends a real process at each point, several times over its life, and starts again.
func TestCrashAtEveryPoint(t *testing.T) {
	reached := map[string]bool{}
	for _, point := range Points {
		for _, times := range []int{1, 2, archivesInLife + 1} {
			stop := point + "@" + strconv.Itoa(times)
			dir := filepath.Join(t.TempDir(), "state")
			out, err := child(t, "life", dir, stop).Output()
			if err == nil {
				break // this point does not come that often
			}
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != exitAtPoint {
				t.Fatalf("%s: the child ended with %v after\n%s", stop, err, out)
			}
			reached[point] = true
			recovered(t, dir, parseTold(string(bytes.TrimSpace(out)), stop))
		}
	}
	for _, point := range Points {
		if !reached[point] {
			t.Errorf("no child ever came to %s", point)
		}
	}
}

// recovered starts in the directory that a crash left, and compares with what was durable before.
func recovered(t *testing.T, dir string, before told) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("crash at %s: "+format+"\nit had said:\n%s", append(append([]any{before.stop}, args...), before.output)...)
	}
	minted, _ := os.ReadFile(filepath.Join(dir, KeyFile))
	d, err := Open(dir, Options{})
	if err != nil {
		fail("Open: %v", err)
		return
	}
	defer d.Close()
	r, key, err := d.Load(mintFrom(5000))
	if err != nil {
		fail("Load: %v", err)
		return
	}
	if r.PublicKey != key.Public().String() {
		fail("key %s and record %s differ", key.Public(), r.PublicKey)
	}
	if minted != nil && !before.resetBegan && !bytes.Equal(minted, read1(t, filepath.Join(dir, KeyFile))) {
		fail("a key that was there was minted anew")
	}
	if before.id != "" && !before.resetBegan {
		if r.NodeID != before.id || r.PublicKey != before.key {
			fail("the machine was %s and is %s", before.id, r.NodeID)
		}
		if int(r.BootCounter) < before.boot {
			fail("boot counter %d, and %d was given out", r.BootCounter, before.boot)
		}
		if before.cluster != "" && r.Cluster < before.cluster {
			fail("cluster %s, and %s was durable", r.Cluster, before.cluster)
		}
	}
	if before.reset && r.NodeID == before.id {
		fail("the reset did not take")
	}
	// What a store held is in exactly one place, but for those that 8 later ones pushed out.
	found := map[int]int{}
	for name := range tree(t, dir) {
		if filepath.Base(name) == "marker" {
			n, err := strconv.Atoi(string(read1(t, filepath.Join(dir, name))))
			if err != nil {
				fail("marker %s: %v", name, err)
			}
			found[n]++
		}
		if strings.Contains(name, movingDir) || strings.Contains(name, doomedPrefix) {
			fail("%s is left over", name)
		}
	}
	for i := 0; i <= before.store; i++ {
		if want := 1; found[i] > want || found[i] < want && i >= before.store-keptArchives+1 {
			fail("the store of round %d is in %d places", i, found[i])
		}
	}
	if _, err := d.NextBoot(); err != nil {
		fail("NextBoot: %v", err)
	}
	for name := range tree(t, dir) {
		if strings.Contains(name, tempMark) && !strings.HasPrefix(name, ArchiveDir) {
			fail("%s is left over", name)
		}
	}
}
