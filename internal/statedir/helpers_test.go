package statedir

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/identity"
)

// counting fills with bytes that differ at each call, so that two mintings never look alike.
func counting(from uint64) func([]byte) {
	n := from
	return func(b []byte) {
		for i := range b {
			if i%8 == 0 {
				n++
			}
			var word [8]byte
			binary.BigEndian.PutUint64(word[:], n*0x9E3779B97F4A7C15)
			b[i] = word[i%8]
		}
	}
}

var founded = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func mintFrom(n uint64) Mint {
	return Mint{Entropy: counting(n), Now: founded, Hardware: "aa"}
}

// noWait refuses a held lock at once.
var noWait = Options{Wait: -1}

func mustOpen(t *testing.T, path string, opt Options) *Dir {
	t.Helper()
	d, err := Open(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func mustLoad(t *testing.T, d *Dir) (Record, identity.PrivateKey) {
	t.Helper()
	r, key, err := d.Load(mintFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	return r, key
}

// started is a state directory in which a node has run and been stopped.
func started(t *testing.T) (path string, r Record) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "state")
	d := mustOpen(t, path, Options{})
	r, _ = mustLoad(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return path, r
}

// tree is every entry below dir: mode, and the digest of a file or the target of a link.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %x", sha256.Sum256(data))
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " " + to
		}
		name, err := filepath.Rel(dir, path)
		out[name] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func names(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func read1(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}
