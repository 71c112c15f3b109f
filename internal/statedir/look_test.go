package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestLowRoom: the edges of what is called nearly full, written out.
func TestLowRoom(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		free, size uint64
		was, low   bool
	}{
		{64 * mib, 100 << 30, false, false}, {64*mib - 1, 100 << 30, false, true},
		{64 * mib, 100 << 30, true, true}, {96 * mib, 100 << 30, true, false}, {96*mib - 1, 100 << 30, true, true},
		{32 * mib, 320 * mib, false, false}, {32*mib - 1, 320 * mib, false, true}, {48 * mib, 320 * mib, true, false},
		{0, 100 << 30, false, true}, {0, 0, false, false}, {0, 0, true, false},
	} {
		if got := (Room{c.free, c.size}).Low(c.was); got != c.low {
			t.Errorf("%d of %d free, low before %v: %v", c.free, c.size, c.was, got)
		}
	}
}

func TestRoom(t *testing.T) {
	d, err := Open(filepath.Join(t.TempDir(), "state"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	r, err := d.Room()
	if err != nil || r.Size == 0 || r.Free > r.Size {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestLost: whatever takes the place of the directory of a running node is noticed, and that it is back is noticed too.
func TestLost(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("what a running process has open cannot be removed on Windows")
	}
	for what, c := range map[string]struct {
		take func(dir string) error
		back func(dir string) error // nil: what was removed does not come back
		says string
	}{
		"removed":          {os.RemoveAll, nil, "was removed"},
		"emptied":          {func(dir string) error { return os.Remove(filepath.Join(dir, LockFile)) }, nil, LockFile + " was removed"},
		"without its key":  {func(dir string) error { return os.Remove(filepath.Join(dir, KeyFile)) }, nil, KeyFile + " was removed"},
		"without a record": {func(dir string) error { return os.Remove(filepath.Join(dir, RecordFile)) }, nil, RecordFile + " was removed"},
		"renamed": {func(dir string) error { return os.Rename(dir, dir+".away") },
			func(dir string) error { return os.Rename(dir+".away", dir) }, "was removed"},
		"another in its place": {func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".away"), os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, LockFile), nil, 0o600))
		}, func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Rename(dir+".away", dir)) }, "another directory"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			d, err := Open(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if err := d.Lost(); err != nil {
				t.Fatalf("before the first record: %v", err)
			}
			if _, _, err := d.Load(Mint{Entropy: func(b []byte) { b[0]++ }, Now: time.Unix(1_800_000_000, 0)}); err != nil {
				t.Fatal(err)
			}
			if err := d.Lost(); err != nil {
				t.Fatal(err)
			}
			if err := c.take(dir); err != nil {
				t.Fatal(err)
			}
			if err := d.Lost(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("lost: %v", err)
			}
			if c.back != nil {
				if err := c.back(dir); err != nil {
					t.Fatal(err)
				}
				if err := d.Lost(); err != nil {
					t.Errorf("back: %v", err)
				}
			}
		})
	}
}

// TestExplain: an error of a full disk has a remedy and stays what it was.
func TestExplain(t *testing.T) {
	other := errors.New("another")
	if Explain(nil, "/x") != nil || Explain(other, "/x") != other {
		t.Error("what is no error of the disk was changed")
	}
	for errno, remedy := range diskErrors {
		err := fmt.Errorf("write formation.json: %w", &fs.PathError{Op: "write", Path: "/x", Err: errno})
		got := Explain(err, "/x")
		var says interface{ Remedy() string }
		if !errors.Is(got, errno) || !errors.As(got, &says) || !strings.Contains(says.Remedy(), remedy) || !strings.Contains(got.Error(), "formation.json") {
			t.Errorf("%v: %v", errno, got)
		}
	}
}
