package statedir

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func store(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, name, "log"), []byte(content))
}

func TestArchiveNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	d := mustOpen(t, path, Options{})
	mustLoad(t, d)
	a, b := strings.Repeat("a", 32), strings.Repeat("b", 32)
	if to, err := d.Archive(a, ConsensusDir); err != nil || to != "" {
		t.Errorf("nothing to move: %q, %v, want no place", to, err)
	}
	for i, c := range []struct{ cluster, want string }{{a, a}, {a, a + "-2"}, {b, b}, {a, a + "-3"}} {
		store(t, path, ConsensusDir, fmt.Sprint("round ", i))
		store(t, path, FollowDir, "followed")
		to, err := d.Archive(c.cluster, ConsensusDir, "not-there", FollowDir)
		if err != nil || to != filepath.Join(path, "archive", c.want) {
			t.Fatalf("round %d: %q, %v, want %s", i, to, err, c.want)
		}
		if got := string(read1(t, filepath.Join(to, ConsensusDir, "log"))); got != fmt.Sprint("round ", i) {
			t.Errorf("round %d holds %q", i, got)
		}
		read1(t, filepath.Join(to, FollowDir, "log"))
		again, err := d.Archive(c.cluster, ConsensusDir, FollowDir)
		if err != nil || again != to {
			t.Errorf("asked again: %q, %v, want %q", again, err, to)
		}
	}
	if _, err := os.Lstat(filepath.Join(path, ConsensusDir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the store is still there: %v", err)
	}
}

func TestArchiveKeepsTheLastEightAndOthersFolders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	d := mustOpen(t, path, Options{})
	mustLoad(t, d)
	foreign := filepath.Join(path, "archive", "mine")
	if err := os.MkdirAll(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 11 {
		store(t, path, ConsensusDir, fmt.Sprint(i))
		if _, err := d.Archive(fmt.Sprintf("%032x", 100-i), ConsensusDir); err != nil { // names fall while time passes
			t.Fatal(err)
		}
	}
	var kept []string
	entries, _ := os.ReadDir(filepath.Join(path, "archive"))
	for _, e := range entries {
		if e.Name() != "mine" {
			kept = append(kept, string(read1(t, filepath.Join(path, "archive", e.Name(), ConsensusDir, "log"))))
		}
	}
	diff(t, "kept, by name", []string{"10", "9", "8", "7", "6", "5", "4", "3"}, kept)
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a folder that is not ours went: %v", err)
	}
}

func TestArchiveRefusesNamesThatAreNotAStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	d := mustOpen(t, path, Options{})
	mustLoad(t, d)
	for _, name := range []string{"", ".", "..", "../x", "a/b", "/etc", KeyFile, RecordFile, LockFile, ArchiveDir} {
		if _, err := d.Archive(zeroes, name); !errors.Is(err, ErrRecord) {
			t.Errorf("%q: %v, want ErrRecord", name, err)
		}
	}
	if _, err := d.Archive("../../etc", ConsensusDir); !errors.Is(err, ErrRecord) {
		t.Errorf("a path as cluster id: %v", err)
	}
}

const zeroes = "00000000000000000000000000000000"

func TestArchiveFinishesAnInterruptedOneAndKeepsWhatIsNewer(t *testing.T) {
	path, _ := started(t)
	moving := filepath.Join(path, "archive", movingDir)
	if err := os.MkdirAll(filepath.Join(moving, ConsensusDir), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(moving, ConsensusDir, "log"), []byte("old"))
	write(t, filepath.Join(moving, intentFile), []byte(`{"format":1,"kind":"cluster","base":"`+zeroes+`","names":["consensus","follow"],"number":1,"at":1}`))
	store(t, path, ConsensusDir, "new") // made after the crash
	store(t, path, FollowDir, "old too")
	mustOpen(t, path, Options{})
	for name, want := range map[string]string{
		"consensus/log": "new", "archive/" + zeroes + "/consensus/log": "old", "archive/" + zeroes + "/follow/log": "old too",
	} {
		if got := string(read1(t, filepath.Join(path, name))); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
}

func TestResetIdentityLeavesNoTraceOutsideTheArchive(t *testing.T) {
	path, first := started(t)
	for round := range 2 {
		d := mustOpen(t, path, Options{})
		r, key, err := d.Load(mintFrom(uint64(100 * round)))
		if err != nil {
			t.Fatal(err)
		}
		store(t, path, ProvisionedDir, "for "+r.NodeID)
		store(t, path, ConsensusDir, "of "+key.Public().String())
		write(t, filepath.Join(path, "left-by-somebody"), []byte(r.NodeID))
		write(t, filepath.Join(path, EnvFile), []byte("PACE_NAME=x\n"))
		d.Close()
		if err := ResetIdentity(path); err != nil {
			t.Fatal(err)
		}
		seed := key.Seed()
		for name := range tree(t, path) {
			full := filepath.Join(path, name)
			if info, _ := os.Stat(full); strings.HasPrefix(name, "archive") || info.IsDir() {
				continue
			}
			data := read1(t, full)
			for what, old := range map[string][]byte{
				"id": []byte(r.NodeID), "key": []byte(r.PublicKey), "cluster": []byte(r.Cluster),
				"seed": bytes.TrimSpace(encodeKey(seed))[len(keyMagic):],
			} {
				if bytes.Contains(data, old) {
					t.Errorf("round %d: %s still holds the old %s", round, name, what)
				}
			}
		}
		read1(t, filepath.Join(path, EnvFile)) // settings stay
		archived := filepath.Join(path, "archive", "identity-"+r.NodeID)
		for _, name := range []string{KeyFile, RecordFile, "consensus/log", "provisioned/log", "left-by-somebody"} {
			read1(t, filepath.Join(archived, name))
		}
		if round > 0 && (r.NodeID == first.NodeID || r.PublicKey == first.PublicKey || r.Cluster == first.Cluster) {
			t.Errorf("after the reset it is still %+v", r)
		}
	}
	if err := ResetIdentity(path); err != nil {
		t.Errorf("with nothing to reset: %v", err)
	}
}

func TestResetIdentityIsTheWayOutOfDamage(t *testing.T) {
	for name, damage := range map[string]func(dir string){
		"empty key":    func(dir string) { write(t, dir+"/"+KeyFile, nil) },
		"empty record": func(dir string) { write(t, dir+"/"+RecordFile, nil) },
		"readable key": func(dir string) { os.Chmod(dir+"/"+KeyFile, 0o644) },
		"no key":       func(dir string) { os.Remove(dir + "/" + KeyFile) },
	} {
		path, old := started(t)
		damage(path)
		if err := ResetIdentity(path); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r, _, err := mustOpen(t, path, Options{}).Load(mintFrom(300))
		if err != nil || r.NodeID == old.NodeID {
			t.Errorf("%s: %v, id %s", name, err, r.NodeID)
		}
	}
	missing := filepath.Join(t.TempDir(), "state")
	if err := ResetIdentity(missing); !errors.Is(err, ErrEmpty) {
		t.Errorf("nothing there: %v, want ErrEmpty", err)
	}
	if _, err := os.Lstat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Error("it was made by a reset")
	}
}

func TestSocketPath(t *testing.T) {
	long := "/srv/" + strings.Repeat("x", 85) // with /admin.sock exactly 101 bytes
	for _, c := range []struct{ goos, dir, want string }{
		{"linux", "/var/lib/pace-node", "/var/lib/pace-node/admin.sock"},
		{"darwin", "/Library/Application Support/pace-node", "/Library/Application Support/pace-node/admin.sock"},
		{"linux", long[:89], long[:89] + "/admin.sock"}, // 100 bytes
		{"linux", long, ""}, // short, hashed, and another for another folder,
		{"windows", `C:\ProgramData\pace-node`, `\\.\pipe\pace-node-`},
	} {
		got := socketPath(c.goos, c.dir)
		if c.goos == "windows" {
			if !strings.HasPrefix(got, c.want) || got != socketPath(c.goos, strings.ToUpper(c.dir)) || len(got) != len(c.want)+16 {
				t.Errorf("windows: %q", got)
			}
			continue
		}
		if len(c.dir) == len(long) {
			if len(got) > 100 || !strings.HasPrefix(got, "/tmp/pace-node-") || got == socketPath(c.goos, c.dir+"y") {
				t.Errorf("%s: %q", c.dir, got)
			}
			continue
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.dir, got, c.want)
		}
	}
}
