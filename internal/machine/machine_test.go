package machine

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"pace-node/internal/config"
	"pace-node/internal/host"
	"pace-node/internal/statedir"
)

type fake struct {
	host.Host
	ordinary, installed bool
	service, own        string
	report              string // of the unit that runs hooks
}

func (f fake) StateDir(user bool) string {
	if user {
		return f.own
	}
	return f.service
}
func (f fake) Ordinary() bool                            { return f.ordinary }
func (f fake) Installed() bool                           { return f.installed }
func (f fake) Account() (uid, gid int, ok bool)          { return 0, 0, false }
func (f fake) State(context.Context) (host.State, error) { return host.State{}, nil }
func (f fake) Hardware() string                          { return "aa" }
func (f fake) Hooks(stateDir string) host.Hooks {
	return host.Hooks{Dir: stateDir + "/hooks.d", Unit: f.ordinary, Report: f.report, Enable: "switch it on"}
}

func settings(t *testing.T, args ...string) config.Config {
	t.Helper()
	c, _, err := config.Parse(args, func(string) (string, bool) { return "", false }, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWhichStateDirectory(t *testing.T) {
	for _, c := range []struct {
		name                string
		ordinary, installed bool
		typed, want         string
		packaged            bool
		err                 error
	}{
		{"service or root", false, true, "", "/service", true, nil},
		{"ordinary user, nothing installed", true, false, "", "/own", true, nil},
		{"ordinary user beside the service", true, true, "", "/service", true, ErrSudo},
		{"ordinary user, own folder named", true, true, "/mine", "/mine", false, nil},
	} {
		var args []string
		if c.typed != "" {
			args = []string{"--state-dir=" + c.typed}
		}
		m := New(fake{ordinary: c.ordinary, installed: c.installed, service: "/service", own: "/own"}, settings(t, args...))
		_, err := m.State()
		if m.Config.StateDir != c.want || m.Packaged != c.packaged || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, packaged %v, %v", c.name, m.Config.StateDir, m.Packaged, err)
		}
	}
	if _, err := New(fake{ordinary: true}, settings(t)).State(); !errors.Is(err, ErrNoStateDir) {
		t.Errorf("no home: %v", err)
	}
}

func TestAnOrdinaryUserMintsNoSecondIdentity(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own")
	m := New(fake{ordinary: true, installed: true, service: filepath.Join(t.TempDir(), "s"), own: own}, settings(t))
	for name, ask := range map[string]func() error{
		"print-identity": func() error { _, err := m.Deps().PeekIdentity(context.Background()); return err },
		"reset-identity": func() error { _, err := m.Deps().ResetIdentity(context.Background()); return err },
	} {
		if err := ask(); !errors.Is(err, ErrSudo) || !strings.Contains(err.Error(), "sudo") {
			t.Errorf("%s: %v, want ErrSudo", name, err)
		}
	}
	if _, _, err := statedir.Peek(own); !errors.Is(err, statedir.ErrEmpty) {
		t.Errorf("something was minted: %v", err)
	}
}

func TestIdentityIsMintedOnceAndReset(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	m := New(fake{}, settings(t, "--state-dir="+dir, "--advertise=[fd00::7]:7000", "--listen-raft=:7001"))
	deps := m.Deps()
	if done, err := deps.ResetIdentity(t.Context()); !errors.Is(err, statedir.ErrEmpty) {
		t.Errorf("reset of nothing: %v, %v", done, err)
	}
	first, err := deps.PeekIdentity(t.Context())
	if err != nil || first.Host != "fd00::7" || first.RaftPort != 7001 {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := deps.PeekIdentity(t.Context()); err != nil || again != first {
		t.Errorf("%+v, %v, want the same", again, err)
	}
	done, err := deps.ResetIdentity(t.Context())
	if err != nil || !strings.Contains(done.Said, "identity-"+first.NodeID) {
		t.Errorf("%+v, %v", done, err)
	}
	if other, err := deps.PeekIdentity(t.Context()); err != nil || other.NodeID == first.NodeID || other.PublicKey == first.PublicKey {
		t.Errorf("%+v, %v, want another machine", other, err)
	}
}

// TestResetBesideARunningNode: what is pasted from the condition own-key-revoked says what comes first.
func TestResetBesideARunningNode(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	m := New(fake{}, settings(t, "--state-dir="+dir))
	d, err := statedir.Open(dir, statedir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, _, err := d.Load(m.Mint()); err != nil {
		t.Fatal(err)
	}
	_, err = m.Deps().ResetIdentity(context.Background())
	var says interface{ Remedy() string }
	if !errors.Is(err, statedir.ErrInUse) || !errors.As(err, &says) || !strings.Contains(says.Remedy(), "stop it") {
		t.Errorf("%v, want how to stop the node first", err)
	}
}

func TestAdvertisedAddressAsTyped(t *testing.T) {
	for typed, want := range map[string]string{"10.1.0.2": "10.1.0.2", "node1:7": "node1", "[fd00::1]": "fd00::1", "[fd00::1]:7": "fd00::1"} {
		if got := New(fake{}, settings(t, "--state-dir=/x", "--advertise="+typed)).address(); got != want {
			t.Errorf("%s: %q, want %q", typed, got, want)
		}
	}
}

func TestPlainName(t *testing.T) {
	for host, want := range map[string]string{
		"node1": "node1", "node1.example.org": "node1.example.org", "a\x1b[2Jb": "a[2Jb", " x ": "x", "\xffy": "y",
		strings.Repeat("a", 60) + ".example.org": strings.Repeat("a", 60), strings.Repeat("é", 40): strings.Repeat("é", 32),
	} {
		if got := PlainName(host); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}
