package node

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pace-node/internal/formation"
	"pace-node/internal/statedir"
)

// What a start makes of a file of the state directory that was cut short, or of which a bit was turned.
type tornRule struct {
	pattern string // below the state directory, as path.Match has it
	start   tornStart
}

type tornStart uint8

const (
	refuses  tornStart = iota // it names the file and the remedy, and changes nothing
	asBefore                  // it starts in the fleet that it was in, with every member that it knew
	either                    // one or the other
	follows0                  // a learner starts in its fleet: what its log lost is sent again
)

// tornRules is asked in order. Every file that a node leaves must be in it.
var tornRules = []tornRule{
	{statedir.KeyFile, refuses},
	{statedir.RecordFile, refuses},
	{leasesFile, refuses},
	{"consensus/cluster", refuses},
	{"consensus/raft.db", either},      // what no transaction reaches may hold anything
	{"consensus/applied", asBefore},    // less is recalled
	{"follow/cluster", refuses},        //
	{"follow/snapshot", refuses},       //
	{"follow/log", follows0},           //
	{"provisioned/state.json", either}, // a digit that makes it a later version's refuses, all else asks for provisioning
	{"provisioned/*/manifest.json", either},
	{"provisioned/*/*", asBefore},
	{"provisioned/*/*/*", asBefore},
	{"archive/*/*", asBefore},
	{"archive/*/*/*", asBefore},
	{statedir.LockFile, asBefore},
}

// tornDense is up to which size every length and every byte is tried; of larger files as many, at a stride.
const tornDense = 140

// remedies are words with which a way out begins.
var remedies = []string{"put ", "restore ", "move ", "install ", "upgrade "}

func readTree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		all[filepath.ToSlash(rel)] = b
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// putTree makes a directory hold these files again.
func putTree(t *testing.T, dir string, all map[string][]byte) {
	t.Helper()
	for name := range readTree(t, dir) {
		if _, keep := all[name]; !keep {
			if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, b := range all {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, b) {
			continue
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// torn are the ways in which a file is damaged: cut to each length, each byte with a bit turned.
func torn(b []byte) map[string][]byte {
	out := map[string][]byte{}
	stride := func(n int) int {
		s := (n + tornDense - 1) / tornDense
		if raceEnabled || testing.Short() {
			s *= 8
		}
		return max(s, 1)
	}
	cuts := len(b)
	if cuts > tornDense {
		cuts *= 4
	}
	for i := 0; i < len(b); i += stride(cuts) {
		out[fmt.Sprintf("cut to %d of %d bytes", i, len(b))] = b[:i]
	}
	for i := 0; i < len(b); i += stride(len(b)) {
		c := bytes.Clone(b)
		c[i] ^= 1 << (i % 8)
		out[fmt.Sprintf("bit %d of byte %d of %d turned", i%8, i, len(b))] = c
	}
	return out
}

// membership is who a node holds for its fleet: what a damaged file must never change in silence.
func membership(n *Node) string {
	v := n.view.Load()
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s %s", n.Mode(), n.rec.Cluster, n.Key())
	for m := range v.Members() {
		fmt.Fprintf(&out, " %s=%s/%s", m.ID, m.Key, m.Role)
	}
	return out.String()
}

func ruleOf(t *testing.T, name string) tornStart {
	t.Helper()
	for _, r := range tornRules {
		if ok, err := filepath.Match(r.pattern, name); err != nil {
			t.Fatal(err)
		} else if ok {
			return r.start
		}
	}
	t.Errorf("no rule says what becomes of a damaged %s", name)
	return asBefore
}

// tornFleet is a founder that has provisioned a learner, both stopped.
func tornFleet(s *sim) {
	a := s.boot(0, provisioning)
	time.Sleep(2 * time.Second) // a fleet's age counts in whole ones
	b := s.boot(1)
	s.joined(a, b)
	s.want(time.Minute, "it is provisioned", func() bool { return provisioned(b, a) })
	s.halt(1)
	s.halt(0)
}

// TestSimTornFiles cuts and turns each file of a founder's and a learner's state directory, and starts the node.
func TestSimTornFiles(t *testing.T) {
	simulate(t, 60, func(t *testing.T, s *sim) {
		tornFleet(s)
		for i, role := range []string{"founder", "learner"} {
			dir := filepath.Join(s.dir, fmt.Sprintf("m%03d", i))
			whole := readTree(t, dir)
			n := s.boot(i)
			want := membership(n)
			s.halt(i)
			putTree(t, dir, whole)
			starts, refusals := 0, 0
			for _, name := range slices.Sorted(maps.Keys(whole)) {
				rule := ruleOf(t, name)
				cases := torn(whole[name])
				for _, how := range slices.Sorted(maps.Keys(cases)) {
					where := fmt.Sprintf("%s: %s %s", role, name, how)
					damaged := maps.Clone(whole)
					damaged[name] = cases[how]
					putTree(t, dir, damaged)
					n, err := Start(s.config(i))
					if err != nil {
						refusals++
						if rule != refuses && rule != either {
							t.Errorf("%s: refused with %v", where, err)
						}
						text := err.Error()
						if !strings.Contains(text, filepath.FromSlash(name)) && !strings.Contains(text, filepath.Dir(filepath.FromSlash(name))) {
							t.Errorf("%s: the refusal names another file: %s", where, text)
						}
						if !slices.ContainsFunc(remedies, func(w string) bool { return strings.Contains(text, w) }) {
							t.Errorf("%s: the refusal says no way out: %s", where, text)
						}
						if left := readTree(t, dir); !bytes.Equal(left[name], cases[how]) {
							t.Errorf("%s: the refusal changed the file", where)
						}
						continue
					}
					starts++
					got := membership(n)
					n.Stop()
					if rule == refuses {
						t.Errorf("%s: it started, as %s", where, got)
					}
					if rule != follows0 && got != want || n.Mode() != map[string]formation.Mode{"founder": formation.Voter, "learner": formation.Learner}[role] {
						t.Errorf("%s: it started as %s, and was %s", where, got, want)
					}
					if t.Failed() {
						s.log.tell(t, 15)
						return
					}
				}
			}
			t.Logf("%s: %d files, %d starts, %d refusals", role, len(whole), starts, refusals)
			putTree(t, dir, whole)
		}
		// And what was left alone works on.
		a, b := s.boot(0, provisioning), s.boot(1)
		s.want(time.Minute, "the learner follows again", func() bool { return follows(b, a) })
	})
}

// TestSimLaterFormats: each record of a state directory that a later version wrote refuses the start in words, whatever this
// machine is, and is left as it is.
func TestSimLaterFormats(t *testing.T) {
	sealed := func(magic string) func([]byte) []byte {
		return func(b []byte) []byte {
			_, body, _ := bytes.Cut(b, []byte("\n"))
			return statedir.Seal(magic, 2, body)
		}
	}
	field := func(b []byte) []byte { return bytes.Replace(b, []byte(`"format": 1`), []byte(`"format": 2`), 1) }
	rows := []struct {
		machine int // 0: a voter, 1: a learner, 2: a fleet of one
		file    string
		later   func([]byte) []byte
		says    string
	}{
		{0, statedir.RecordFile, sealed("pace-node-record"), "install that version again"},
		{1, statedir.RecordFile, sealed("pace-node-record"), "install that version again"},
		{2, statedir.RecordFile, sealed("pace-node-record"), "install that version again"},
		{1, leasesFile, sealed(leasesMagic), "install that version again"},
		{1, "follow/snapshot", func(b []byte) []byte { c := bytes.Clone(b); c[11] = 9; return c }, "upgrade this node"},
		{0, "provisioned/state.json", field, "install that version again"},
		{1, "provisioned/state.json", field, "install that version again"},
		{2, "provisioned/state.json", field, "install that version again"},
		{1, "provisioned/current/manifest.json", field, "install that version again"},
	}
	simulate(t, 61, func(t *testing.T, s *sim) {
		tornFleet(s)
		s.boot(2, func(c *Config) { c.Settings.Discovery = "" })
		s.halt(2)
		for _, r := range rows {
			where := fmt.Sprintf("machine %d, %s", r.machine, r.file)
			dir := filepath.Join(s.dir, fmt.Sprintf("m%03d", r.machine))
			whole := readTree(t, dir)
			later := maps.Clone(whole)
			later[r.file] = r.later(whole[r.file])
			if bytes.Equal(later[r.file], whole[r.file]) {
				t.Fatalf("%s is not there as it is looked for:\n%s", where, whole[r.file])
			}
			putTree(t, dir, later)
			n, err := Start(s.config(r.machine))
			if err == nil {
				n.Stop()
				t.Errorf("%s: it started", where)
			} else if text := err.Error(); !strings.Contains(text, "later version") || !strings.Contains(text, filepath.FromSlash(r.file)) || !strings.Contains(text, r.says) {
				t.Errorf("%s: refused with %v", where, err)
			}
			if left := readTree(t, dir); !bytes.Equal(left[r.file], later[r.file]) {
				t.Errorf("%s: the refusal changed it", where)
			}
			putTree(t, dir, whole)
		}
		a, b := s.boot(0, provisioning), s.boot(1)
		s.want(time.Minute, "the learner follows again", func() bool { return follows(b, a) })
	})
}
