//go:build linux && packages

package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const (
	maxProgram = 20 << 20 // bytes, stripped
	maxDeb     = 8 << 20  // bytes
)

// TestSizes holds the budgets of what people download and run.
func TestSizes(t *testing.T) {
	found, err := filepath.Glob(fromRoot(t, "build/testhosts/new/pace-node*.deb"))
	if err != nil || len(found) != 1 {
		t.Fatalf("build/testhosts/new has %d packages: run test/packages/prepare.sh", len(found))
	}
	dir := t.TempDir()
	if out, err := exec.Command("dpkg-deb", "-x", found[0], dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range []struct {
		file string
		most int64
	}{{found[0], maxDeb}, {filepath.Join(dir, "usr/bin/pace-node"), maxProgram}, {wineProgram(t, newVersion), maxProgram}} {
		info, err := os.Stat(c.file)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", filepath.Base(c.file), info.Size())
		if info.Size() > c.most {
			t.Errorf("%s has %d bytes, more than %d", c.file, info.Size(), c.most)
		}
	}
}
