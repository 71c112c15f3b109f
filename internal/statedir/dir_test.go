package statedir

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

func TestFirstStartMintsAndLaterStartsReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "state")
	d := mustOpen(t, path, Options{})
	r, key := mustLoad(t, d)
	want := Record{
		Format: 1, NodeID: r.NodeID, PublicKey: key.Public().String(), Mode: "solitary",
		Cluster: r.Cluster, Created: 1782907200, Hardware: "aa", // 2026-07-01 12:00 UTC
	}
	diff(t, "first record", want, r)
	if !identity.ValidMintedID(r.NodeID) || !identity.ValidMintedID(r.Cluster) || r.NodeID == r.Cluster {
		t.Errorf("ids %q and %q are not two minted ones", r.NodeID, r.Cluster)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	again := mustOpen(t, path, Options{})
	r2, key2, err := again.Load(mintFrom(1000))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "second start", r, r2)
	if key2.Seed() != key.Seed() {
		t.Error("the second start has another key")
	}
	diff(t, "entries", []string{".", "formation.json", "node-key", "node.lock"}, names(tree(t, path)))
}

func TestSaveKeepsEveryFieldByteForByte(t *testing.T) {
	path, r := started(t)
	d := mustOpen(t, path, Options{})
	mustLoad(t, d)
	r.Mode = "pending"
	r.Established = true
	r.Target = &Target{Cluster: "an other fleet", Created: 7, State: 2, LeaderID: "leader-1", Endpoint: "10.1.0.9:6674",
		Keys: []string{r.PublicKey}, Origin: "fleet-seed"}
	// White space and signs that a JSON writer would change: the roster's signature is over these bytes.
	r.Joined = &Joined{Signer: r.PublicKey, Roster: json.RawMessage("{\n  \"a\" : \"<&>\" }"), At: 1782907200}
	r.Rejections = []Rejection{{Cluster: strings.Repeat("b", 32), At: 5, LeftSeconds: 3600}}
	r.RevokedIn = []string{strings.Repeat("c", 32)}
	r.Remembered = []string{"10.1.0.9:6674", "[fd00::1]:6674"}
	r.OldCluster = strings.Repeat("d", 32)
	r.Order = (&wire.DissolveOrder{OldCluster: r.OldCluster, Survivor: "s", LeaderID: "n", LeaderEndpoint: "h:1", Signer: "m", Signature: [64]byte{0, 1, 0xff}}).Append(nil)
	if err := d.Save(r); err != nil {
		t.Fatal(err)
	}
	diff(t, "Record", r, d.Record())
	d.Close()
	d2 := mustOpen(t, path, Options{})
	got, _ := mustLoad(t, d2)
	diff(t, "after a start", r, got)
}

func TestSaveRefuses(t *testing.T) {
	path, r := started(t)
	d := mustOpen(t, path, Options{})
	if err := d.Save(r); !errors.Is(err, ErrRecord) {
		t.Errorf("Save before Load: %v, want ErrRecord", err)
	}
	mustLoad(t, d)
	before := tree(t, path)
	other := strings.Repeat("0", 32)
	for name, change := range map[string]func(*Record){
		"another node id":      func(r *Record) { r.NodeID = other },
		"another key":          func(r *Record) { r.PublicKey = identity.NewPrivateKey([32]byte{1}).Public().String() },
		"unknown mode":         func(r *Record) { r.Mode = "leader" },
		"cluster of 31":        func(r *Record) { r.Cluster = other[1:] },
		"pending, no target":   func(r *Record) { r.Mode = "pending" },
		"target, not pending":  func(r *Record) { r.Target = &Target{Cluster: other, Endpoint: "h:1", Keys: []string{r.PublicKey}} },
		"remembered port 0":    func(r *Record) { r.Remembered = []string{"h:0"} },
		"revoked in nothing":   func(r *Record) { r.RevokedIn = []string{""} },
		"waiting less than no": func(r *Record) { r.Rejections = []Rejection{{Cluster: other, LeftSeconds: -1}} },
		"joined by no key":     func(r *Record) { r.Joined = &Joined{Signer: "me"} },
		"roster is no JSON":    func(r *Record) { r.Joined = &Joined{Signer: r.PublicKey, Roster: []byte("{")} },
		"larger than is read":  func(r *Record) { r.RevokedIn = slices.Repeat([]string{other}, maxRecordBytes/len(other)) },
		"order of nothing":     func(r *Record) { r.Order, r.OldCluster = []byte{0, 1, 0xff}, other },
	} {
		bad := r.clone()
		change(&bad)
		if err := d.Save(bad); !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %v, want ErrRecord", name, err)
		}
	}
	diff(t, "files after refused saves", before, tree(t, path))
	d.Close()
	if err := d.Save(r); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Save after Close: %v", err)
	}
}

func TestBootCounterNeverGoesBack(t *testing.T) {
	path, r := started(t)
	d := mustOpen(t, path, Options{})
	if _, err := d.NextBoot(); !errors.Is(err, ErrRecord) {
		t.Errorf("NextBoot before Load: %v", err)
	}
	mustLoad(t, d)
	for want := uint64(1); want <= 3; want++ {
		if got, err := d.NextBoot(); err != nil || got != want {
			t.Fatalf("NextBoot = %d, %v, want %d", got, err, want)
		}
	}
	if err := d.Save(r); err != nil { // r still says 0
		t.Fatal(err)
	}
	d.Close()
	d2 := mustOpen(t, path, Options{})
	if got, _ := mustLoad(t, d2); got.BootCounter != 3 {
		t.Errorf("boot counter = %d after a save of an older record, want 3", got.BootCounter)
	}
}

func TestFailedWriteLeavesTheOldRecord(t *testing.T) {
	path, r := started(t)
	d := mustOpen(t, path, Options{})
	mustLoad(t, d)
	before := read1(t, filepath.Join(path, RecordFile))
	// A folder in the way makes the rename fail, as a full disk makes the write fail.
	if err := os.Remove(filepath.Join(path, RecordFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path, RecordFile, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.Established = true
	if err := d.Save(r); err == nil {
		t.Fatal("a write onto a folder went well")
	}
	if d.Record().Established {
		t.Error("what was not written is called the record")
	}
	os.RemoveAll(filepath.Join(path, RecordFile))
	write(t, filepath.Join(path, RecordFile), before)
	for _, name := range names(tree(t, path)) {
		if strings.Contains(name, tempMark) {
			t.Errorf("%s was left behind", name)
		}
	}
}

func TestSweepTempRemovesOnlyUnfinishedFiles(t *testing.T) {
	path, _ := started(t)
	write(t, filepath.Join(path, ".formation.json.tmp-0011"), []byte("half"))
	write(t, filepath.Join(path, "notes.tmp-1"), []byte("mine"))
	d := mustOpen(t, path, Options{})
	mustLoad(t, d)
	diff(t, "entries", []string{".", "formation.json", "node-key", "node.lock", "notes.tmp-1"}, names(tree(t, path)))
}

func TestHardwareMoved(t *testing.T) {
	for _, c := range []struct {
		record, here string
		want         bool
	}{
		{"aa", "aa", false},
		{"aa", "bb", true},
		{"", "bb", false}, // made before the machine could be told apart
		{"aa", "", false}, // this platform tells nothing
	} {
		if got := HardwareMoved(Record{Hardware: c.record}, c.here); got != c.want {
			t.Errorf("HardwareMoved(%q, %q) = %v", c.record, c.here, got)
		}
	}
}

func TestTenDirectoriesOfOneMachineAreTenMachines(t *testing.T) {
	seen := map[string]bool{}
	for i := range 10 {
		d := mustOpen(t, filepath.Join(t.TempDir(), "state"), Options{})
		r, _, err := d.Load(mintFrom(uint64(1000 * i)))
		if err != nil {
			t.Fatal(err)
		}
		if seen[r.NodeID] || seen[r.PublicKey] || HardwareMoved(r, "aa") {
			t.Errorf("directory %d: record %+v is not a machine of its own", i, r)
		}
		seen[r.NodeID], seen[r.PublicKey] = true, true
	}
}

// The frozen directory of format 1 must be readable by every later version.
func TestFrozenFormat1(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.CopyFS(dir, os.DirFS("testdata/format-1")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{KeyFile, RecordFile} {
		if err := os.Chmod(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d := mustOpen(t, dir, Options{})
	r, key := mustLoad(t, d)
	if r.NodeID != "5a1f0e7c9b3d4286a0c1e2f384756abc" || r.BootCounter != 12 || r.Mode != "learner" ||
		string(r.Joined.Roster) != "{\"cluster\": \"0123456789abcdef0123456789abcdef\"}\n" || key.Public().String() != r.PublicKey {
		t.Errorf("the frozen record reads as %+v", r)
	}
}
