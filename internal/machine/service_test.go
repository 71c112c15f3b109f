package machine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/host"
)

// registrar remembers what it was asked for.
type registrar struct {
	fake
	asked   host.Registration
	removed string
	outcome host.Outcome
	err     error

	state    host.State
	stateErr error
}

func (r *registrar) Install(_ context.Context, asked host.Registration) (host.Outcome, error) {
	r.asked = asked
	return r.outcome, r.err
}

func (r *registrar) Uninstall(_ context.Context, name string) (host.Outcome, error) {
	r.removed = name
	return r.outcome, r.err
}
func (*registrar) AdminSocket(dir string) string {
	if dir == "/service" {
		return "/run/x/admin.sock"
	}
	return ""
}

func TestSurfacesOfSettings(t *testing.T) {
	h := &registrar{fake: fake{service: "/service", own: "/own"}}
	got, err := New(h, settings(t, "--fleet-seed=a", "--discovery-reply-port=6682", "--listen=10.0.0.1:7000")).Deps().Surfaces(t.Context())
	want := control.Surfaces{StateDir: "/service", Seeds: []string{"a:6674"}, Surfaces: []control.SurfaceRow{
		{Name: "node", Proto: "tcp", Port: 7000, Bind: "10.0.0.1", Scope: "network"}, {Name: "raft", Proto: "tcp", Port: 6680, Bind: "*", Scope: "network"},
		{Name: "discovery-beacon", Proto: "udp", Port: 6681, Bind: "*", Scope: "segment"}, {Name: "discovery-reply", Proto: "udp", Port: 6682, Bind: "*", Scope: "segment"},
		{Name: "admin", Proto: "tcp", Port: 6690, Bind: "127.0.0.1", Scope: "loopback"}, {Name: "admin-socket", Proto: "unix", Bind: "/run/x/admin.sock", Scope: "loopback"},
	}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	if _, err := New(&registrar{fake: fake{ordinary: true}}, settings(t)).Deps().Surfaces(t.Context()); !errors.Is(err, ErrNoStateDir) {
		t.Errorf("%v", err)
	}
}

func TestInstallAsksForWhatWasTyped(t *testing.T) {
	t.Setenv("PACE_NAME", "from the shell")
	h := &registrar{fake: fake{service: "/service"}, outcome: host.Outcome{Service: "s", Did: []string{"done"}, StateDir: "/service", Settings: "/e"}}
	got, err := New(h, settings(t, "--install-service", "--fleet-seed=a", "--config=c.yaml", "--service-name=x", "--firewall-allow=10.0.0.0/8")).Deps().Install(t.Context())
	if err != nil || got.Service != "s" || len(got.Changed) != 1 || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "PACE_NAME") {
		t.Errorf("%+v, %v", got, err)
	}
	program, _ := os.Executable()
	here, _ := os.Getwd()
	want := host.Registration{Name: "x", Program: program, Allow: []string{"10.0.0.0/8"}, Surfaces: h.asked.Surfaces, Keep: []config.Kept{
		{Key: "PACE_CONFIG", Values: []string{filepath.Join(here, "c.yaml")}}, {Key: "PACE_FLEET_SEED", Values: []string{"a"}, List: true},
		{Key: "PACE_SERVICE_NAME", Values: []string{"x"}}, {Key: "PACE_FIREWALL_ALLOW", Values: []string{"10.0.0.0/8"}, List: true},
	}}
	if d := cmp.Diff(want, h.asked); d != "" || len(h.asked.Surfaces) != 5 {
		t.Error(d)
	}
	if _, err := New(h, settings(t, "--install-service", "--state-dir=rel")).Deps().Install(t.Context()); err != nil || h.asked.StateDir != filepath.Join(here, "rel") {
		t.Errorf("%+v, %v", h.asked, err)
	}
	if _, err := New(h, settings(t, "--uninstall-service", "--service-name=y")).Deps().Uninstall(t.Context()); err != nil || h.removed != "y" {
		t.Errorf("%q, %v", h.removed, err)
	}
}

func (r *registrar) State(context.Context) (host.State, error) { return r.state, r.stateErr }

// TestRemediesKnowTheService: what mends it depends on how the service is.
func TestRemediesKnowTheService(t *testing.T) {
	at := host.State{Name: "s", Installed: true, Start: "START", Stop: "STOP", Log: "LOG"}
	for name, c := range map[string]struct {
		state          host.State
		err            error
		args           []string
		silent, toBusy string
	}{
		"nothing installed": {host.State{Name: "s", Start: "START"}, nil, nil, "install it as a service (pace-node --install-service)", "stop it, run this again"},
		"stopped":           {at, nil, nil, "the service s does not run: START", "stop it (STOP), run this again, and start it: START"},
		"running":           {host.State{Name: "s", Installed: true, Running: true, Log: "LOG", Start: "START", Stop: "STOP"}, nil, nil, "its log says why: LOG", "stop it (STOP)"},
		"nobody knows":      {at, errors.New("no manager"), nil, "start the node (pace-node)", "stop it, run this again"},
		"another node":      {at, nil, []string{"--state-dir=/x"}, "start the node (pace-node)", "stop it, run this again"},
	} {
		m := New(&registrar{fake: fake{service: "/s"}, state: c.state, stateErr: c.err}, settings(t, c.args...))
		if got := m.Deps().Silent(t.Context()); !strings.Contains(got, c.silent) {
			t.Errorf("%s: %q, want %q", name, got, c.silent)
		}
		if got := m.busy(); !strings.HasPrefix(got, c.toBusy) {
			t.Errorf("%s: %q, want %q", name, got, c.toBusy)
		}
	}
	if sudo("windows") == sudo("linux") || sudo("linux") != "run it with sudo" {
		t.Error(sudo("windows"))
	}
}

func TestOrdinaryUserIsToldWhatToRun(t *testing.T) {
	h := &registrar{err: host.ErrPrivilege}
	for name, ask := range map[string]func() error{
		"install":   func() error { _, err := New(h, settings(t)).Deps().Install(t.Context()); return err },
		"uninstall": func() error { _, err := New(h, settings(t)).Deps().Uninstall(t.Context()); return err },
	} {
		var says interface{ Remedy() string }
		if err := ask(); !errors.Is(err, host.ErrPrivilege) || !errors.As(err, &says) || !strings.HasPrefix(says.Remedy(), "sudo ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := asAdministrator("linux", "/opt/a b/pace-node", []string{"--install-service", "--label=x=it's"}); got != `sudo '/opt/a b/pace-node' --install-service '--label=x=it'\''s'` {
		t.Error(got)
	}
	if got := asAdministrator("windows", `C:\pace-node.exe`, nil); !strings.Contains(got, "Run as administrator") {
		t.Error(got)
	}
}
