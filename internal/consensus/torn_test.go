package consensus

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// stored is a voter's folder with a log of several pages, and what its state is.
func stored(t *testing.T, entries int, snapshot bool) (dir string, want string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "raft")
	cfg := config(dir)
	cfg.NoSync = true
	c := open(t, cfg)
	for n := range entries {
		if _, err := c.Apply(t.Context(), admit(n)); err != nil {
			t.Fatal(err)
		}
	}
	if snapshot {
		if err := c.raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Apply(t.Context(), admit(entries)); err != nil {
			t.Fatal(err)
		}
	}
	want = fmt.Sprint(c.View().Revision(), c.View().Digest())
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, want
}

// reopened is what a start makes of a folder.
func reopened(t *testing.T, dir string) (string, error) {
	t.Helper()
	cfg := config(dir)
	cfg.NoSync, cfg.Bootstrap = true, nil
	c, err := Open(t.Context(), cfg)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return fmt.Sprint(c.View().Revision(), c.View().Digest()), nil
}

// TestTurnedBits turns bits of every file of a voter's folder: a start finds the very state that was there, or refuses by
// name, and never a third. Of large files every so many bytes are tried.
func TestTurnedBits(t *testing.T) {
	dir, want := stored(t, 120, true)
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	whole := map[string][]byte{}
	for _, path := range files {
		if whole[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	tries := 120
	if testing.Short() {
		tries = 25
	}
	saw := map[string]bool{}
	for _, path := range files {
		b := whole[path]
		starts, refusals := 0, 0
		for i := 0; i < len(b); i += max(1, len(b)/tries) {
			for _, c := range [][]byte{func() []byte { c := bytes.Clone(b); c[i] ^= 1 << (i % 8); return c }(), b[:i]} {
				for p, w := range whole { // a start that was not refused has written
					if have, err := os.ReadFile(p); err != nil || !bytes.Equal(have, w) {
						if err := os.WriteFile(p, w, 0o600); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := os.WriteFile(path, c, 0o600); err != nil {
					t.Fatal(err)
				}
				got, err := reopened(t, dir)
				where := fmt.Sprintf("%s, byte %d of %d, %d left", filepath.Base(path), i, len(b), len(c))
				switch {
				case err == nil && got != want:
					t.Fatalf("%s: another state: %s, want %s", where, got, want)
				case err == nil:
					starts++
				case !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrOtherCluster) && !errors.Is(err, ErrFormatNewer):
					t.Fatalf("%s: %v", where, err)
				case filepath.Base(path) == stateFile && !strings.Contains(err.Error(), filepath.Dir(path)):
					t.Fatalf("%s: the refusal names another file: %v", where, err)
				default:
					refusals++
				}
			}
		}
		saw[filepath.Base(path)] = true
		t.Logf("%s: %d starts, %d refusals", filepath.Base(path), starts, refusals)
	}
	for _, name := range []string{storeFile, clusterFile, markFile, metaFile, stateFile, metaSumFile} {
		if !saw[name] {
			t.Errorf("there was no %s", name)
		}
	}
}

// TestLostEntries: a log that ends before the last entry that was applied is refused, since a fleet of one would go on
// without it; and so is one whose beginning nothing holds.
func TestLostEntries(t *testing.T) {
	dir, _ := stored(t, 5, false)
	store, err := openBolt(Config{}, filepath.Join(dir, storeFile))
	if err != nil {
		t.Fatal(err)
	}
	last, err := store.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.DeleteRange(last, last), store.Close()); err != nil {
		t.Fatal(err)
	}
	sums := checksums(t, dir)
	if _, err := reopened(t, dir); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), markFile) || !strings.Contains(err.Error(), storeFile) {
		t.Errorf("a log without its last entry: %v", err)
	}
	if checksums(t, dir) != sums {
		t.Error("the refusal changed a file")
	}

	dir, _ = stored(t, 5, false)
	if store, err = openBolt(Config{}, filepath.Join(dir, storeFile)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(store.DeleteRange(1, 3), store.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := reopened(t, dir); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "begins at entry 4") {
		t.Errorf("a log without its beginning: %v", err)
	}
}

// TestChangedEntry: an entry whose bytes are others than those that were written is refused by its number, one without a
// checksum, as earlier versions wrote it, is taken.
func TestChangedEntry(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(l *raft.Log)
		good   bool
	}{
		{"as it was", func(*raft.Log) {}, true},
		{"of an earlier version", func(l *raft.Log) { l.Extensions = nil }, true},
		{"another command", func(l *raft.Log) { l.Data = bytes.Replace(l.Data, []byte("pc"), []byte("pd"), 1) }, false},
		{"another term", func(l *raft.Log) { l.Term++ }, false},
		{"another kind", func(l *raft.Log) { l.Type = raft.LogNoop }, false},
		{"another checksum", func(l *raft.Log) { l.Extensions[len(l.Extensions)-1] ^= 1 }, false},
		{"a checksum of a kind that is not known", func(l *raft.Log) { l.Extensions = []byte("other") }, false},
	} {
		dir, _ := stored(t, 5, false)
		store, err := openBolt(Config{}, filepath.Join(dir, storeFile))
		if err != nil {
			t.Fatal(err)
		}
		var l raft.Log
		if err := store.GetLog(5, &l); err != nil || len(l.Extensions) == 0 {
			t.Fatalf("%v, extensions %q", err, l.Extensions)
		}
		c.change(&l)
		if err := errors.Join(store.StoreLog(&l), store.Close()); err != nil {
			t.Fatal(err)
		}
		_, err = reopened(t, dir)
		if c.good && err != nil || !c.good && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "entry 5")) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestLaterFormatThatWasApplied: entries that a later version applied refuse the start of this one, also of a voter among
// others; one that nobody has applied is no reason.
func TestLaterFormatThatWasApplied(t *testing.T) {
	for _, others := range []bool{false, true} {
		for _, applied := range []bool{false, true} {
			name := fmt.Sprintf("others %v, applied %v", others, applied)
			dir := filepath.Join(t.TempDir(), "raft")
			c := open(t, config(dir))
			if others {
				if _, err := c.Apply(t.Context(), admit(1)); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			store, err := openBolt(Config{}, filepath.Join(dir, storeFile))
			if err != nil {
				t.Fatal(err)
			}
			last, err := store.LastIndex()
			if err != nil {
				t.Fatal(err)
			}
			logs := []*raft.Log{}
			if others { // a second voter, so that nothing here is committed by this one alone
				conf := raft.Configuration{Servers: []raft.Server{{ID: "n-a", Address: "n-a"}, {ID: "n-0001", Address: "n-0001"}}}
				last++
				logs = append(logs, &raft.Log{Index: last, Term: 2, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(conf)})
			}
			last++
			logs = append(logs, &raft.Log{Index: last, Term: 2, Type: raft.LogCommand, Data: []byte(`{"v":9,"kind":"teleport"}`)})
			if err := errors.Join(summing{store}.StoreLogs(logs), store.Close()); err != nil {
				t.Fatal(err)
			}
			if applied {
				var m mark
				if _, err := m.open(filepath.Join(dir, markFile)); err != nil {
					t.Fatal(err)
				}
				m.set(last)
				m.close()
			}
			_, err = reopened(t, dir)
			if refused := !others || applied; refused != errors.Is(err, ErrFormatNewer) || !refused && err != nil {
				t.Errorf("%s: %v", name, err)
			} else if refused && !strings.Contains(err.Error(), "upgrade") {
				t.Errorf("%s: no way out: %v", name, err)
			}
		}
	}
}

// FuzzCheckPages: what passes is read by bbolt without a panic, and nothing that is read ends the check.
func FuzzCheckPages(f *testing.F) {
	dir := f.TempDir()
	cfg := config(filepath.Join(dir, "raft"))
	cfg.NoSync = true
	c, err := Open(f.Context(), cfg)
	if err != nil {
		f.Fatal(err)
	}
	for n := range 60 {
		if _, err := c.Apply(f.Context(), admit(n)); err != nil {
			f.Fatal(err)
		}
	}
	c.Close()
	whole, err := os.ReadFile(filepath.Join(cfg.Dir, storeFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(0), byte(0), uint32(len(whole)))
	f.Add(uint32(4096*2+16), byte(0xff), uint32(len(whole)))
	f.Add(uint32(8), byte(1), uint32(4096))
	f.Fuzz(func(t *testing.T, at uint32, with byte, length uint32) {
		b := bytes.Clone(whole[:min(int(length), len(whole))])
		if len(b) > 0 {
			b[int(at)%len(b)] ^= with
		}
		path := filepath.Join(t.TempDir(), storeFile)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := checkStore(path); err != nil {
			return
		}
		s, err := openBolt(Config{NoSync: true}, path) // where bbolt would panic
		if err != nil {
			return
		}
		s.Close()
	})
}
