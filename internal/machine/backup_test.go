package machine

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

const words = "five words are a passphrase"

// founded is a machine whose state directory is that of a fleet's founder, and the fleet's state.
func founded(t *testing.T) (m *Machine, f control.FounderState) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	m = New(fake{}, settings(t, "--state-dir="+dir))
	d, err := statedir.Open(dir, statedir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, key, err := d.Load(m.Mint())
	if err == nil {
		r.Mode, r.Established = "voter", true
		err = d.Save(r)
	}
	if err := errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	state := fleet.New()
	founder := fleet.Member{ID: r.NodeID, Key: key.Public(), Name: "alder", Role: fleet.RoleVoter, Format: 1, Endpoints: wire.Endpoints{FC: "10.0.0.1:6674"}}
	if res, err := state.Apply(fleet.Found(r.Cluster, r.Created, founder).Encode()); err != nil || res.Err != "" {
		t.Fatal(err, res.Err)
	}
	v := state.View()
	return m, control.FounderState{Cluster: v.Cluster(), Epoch: v.Epoch(), Revision: v.Revision(), Members: v.Len(), State: state.Snapshot()}
}

func TestBackupAndRestore(t *testing.T) {
	m, f := founded(t)
	file := filepath.Join(t.TempDir(), "founder.backup")
	done, err := m.backup(context.Background(), file, []byte(words), f)
	if err != nil {
		t.Fatal(err)
	}
	record, key, err := statedir.Peek(m.Config.StateDir)
	if err != nil || !strings.Contains(done.Said, f.Cluster) || !strings.Contains(done.Said, file) {
		t.Fatalf("%v %q", err, done.Said)
	}
	if b, err := os.ReadFile(file); err != nil || bytes.Contains(b, []byte(record.NodeID)) {
		t.Errorf("%v, or the file shows the id", err)
	}
	if _, err := m.backup(context.Background(), file, []byte(words), f); !errors.Is(err, statedir.ErrBackup) {
		t.Errorf("written over: %v", err)
	}

	other := New(fake{}, settings(t, "--state-dir="+filepath.Join(t.TempDir(), "state")))
	never := func(control.Restoring) error { t.Error("asked"); return nil }
	if _, err := other.restore(context.Background(), file, []byte("another passphrase"), never); !errors.Is(err, statedir.ErrPassphrase) {
		t.Errorf("a wrong passphrase: %v", err)
	}
	if _, err := other.restore(context.Background(), file, []byte(words), func(control.Restoring) error { return errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("not confirmed: %v", err)
	}
	if _, err := os.Lstat(other.Config.StateDir); err == nil {
		t.Error("something was made before it was confirmed")
	}
	var told control.Restoring
	done, err = other.restore(context.Background(), file, []byte(words), func(s control.Restoring) error { told = s; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if told.Cluster != f.Cluster || told.ID != record.NodeID || told.Name != "alder" || told.Epoch != 1 || told.Revision != 1 || told.Members != 1 || !strings.Contains(done.Said, key.String()) {
		t.Errorf("%+v %q", told, done.Said)
	}
	got, gotKey, err := statedir.Peek(other.Config.StateDir)
	if err != nil || got.NodeID != record.NodeID || gotKey != key || got.Recovery == nil || got.Recovery.Epoch != 1 || got.Hardware != "aa" {
		t.Errorf("%v %+v", err, got)
	}
	// A node that runs is not disturbed.
	d, err := statedir.Open(other.Config.StateDir, statedir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := other.restore(context.Background(), file, []byte(words), func(control.Restoring) error { return nil }); !errors.Is(err, statedir.ErrInUse) || !strings.Contains(err.Error(), "stop") {
		t.Errorf("%v", err)
	}
}

// TestSealedLooksFirst: what is wrong with a backup's file is known before a passphrase is typed.
func TestSealedLooksFirst(t *testing.T) {
	dir := t.TempDir()
	there, none := filepath.Join(dir, "there"), filepath.Join(dir, "none")
	if err := os.WriteFile(there, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file string
		made bool
		want string // "": nothing is wrong
	}{
		{there, true, "is there already"}, {there, false, ""}, {none, true, ""}, {none, false, "is not there"},
		{filepath.Join(none, "b"), true, "no folder"}, {filepath.Join(there, "b"), true, "no folder"}, {dir, true, "is there already"}, {dir, false, "cannot be read"},
	} {
		err := sealed(c.file, c.made)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, statedir.ErrBackup) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, to be made %v: %v, want %q", c.file, c.made, err, c.want)
		}
	}
	if _, err := os.Lstat(none); err == nil {
		t.Error("looking made the file")
	}
}

func TestBackupRefuses(t *testing.T) {
	m, f := founded(t)
	_, g := founded(t)
	file := func() string { return filepath.Join(t.TempDir(), "b") }
	if _, err := m.backup(context.Background(), file(), []byte("short"), f); !errors.Is(err, statedir.ErrPassphrase) {
		t.Errorf("a weak passphrase: %v", err)
	}
	if _, err := m.backup(context.Background(), file(), []byte(words), g); err == nil || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("another machine's state: %v", err)
	}
	fresh := New(fake{}, settings(t, "--state-dir="+filepath.Join(t.TempDir(), "state")))
	if _, err := fresh.backup(context.Background(), file(), []byte(words), f); !errors.Is(err, statedir.ErrEmpty) {
		t.Errorf("nothing there: %v", err)
	}
	if _, err := fresh.identity(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := fresh.backup(context.Background(), file(), []byte(words), f); !errors.Is(err, statedir.ErrBackup) {
		t.Errorf("a fleet of one that nobody was in: %v", err)
	}
}

func TestPassphraseSources(t *testing.T) {
	m := New(fake{}, settings(t, "--state-dir="+t.TempDir()))
	file := filepath.Join(t.TempDir(), "pass")
	for text, want := range map[string]string{words + "\n": words, words: words, words + "\r\nand more\n": words, "short\n": "", "\n": "", strings.Repeat("x", 5000): ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := m.passphrase(file, "", true)
		if (want == "") != (err != nil) || err == nil && string(got) != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if _, err := m.passphrase(file+".none", "", true); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("%v", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString(words + "\nnext"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if got, err := firstLine(r); err != nil || string(got) != words {
		t.Errorf("%q, %v", got, err)
	}
	rest := make([]byte, 8)
	if n, _ := r.Read(rest); string(rest[:n]) != "next" {
		t.Errorf("it read on: %q is left", rest[:n])
	}
}
