package machine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/host"
	"pace-node/internal/statedir"
)

// socket is where the node of this machine's settings listens for its administrators.
func (m *Machine) socket() string {
	if path := m.host.AdminSocket(m.Config.StateDir); path != "" {
		return path
	}
	return statedir.SocketPath(m.Config.StateDir)
}

// surfaces lists what the node of this machine's settings binds.
func (m *Machine) surfaces(context.Context) (control.Surfaces, error) {
	if m.Config.StateDir == "" {
		return control.Surfaces{}, ErrNoStateDir
	}
	d := control.Surfaces{StateDir: m.Config.StateDir, Seeds: m.Config.FleetSeeds, Pin: m.Config.FleetID}
	for _, s := range m.Config.Surfaces() {
		d.Surfaces = append(d.Surfaces, control.SurfaceRow{Name: s.Name, Proto: s.Proto, Port: int(s.Port), Bind: s.Bind, Scope: s.Scope})
	}
	path, proto := m.socket(), "unix"
	if strings.HasPrefix(path, `\\.\pipe\`) {
		proto = "pipe"
	}
	d.Surfaces = append(d.Surfaces, control.SurfaceRow{Name: "admin-socket", Proto: proto, Bind: path, Scope: config.ScopeLoopback})
	return d, nil
}

// install registers this program as the service.
func (m *Machine) install(ctx context.Context) (control.ServiceChange, error) {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return control.ServiceChange{}, err
	}
	kept, err := m.Config.Keep(filepath.Abs)
	if err != nil {
		return control.ServiceChange{}, err
	}
	r := host.Registration{Name: m.Config.ServiceName, Program: program, Keep: kept, Surfaces: m.Config.Surfaces(), Allow: m.Config.FirewallAllow}
	if !m.Packaged {
		if r.StateDir, err = filepath.Abs(m.Config.StateDir); err != nil {
			return control.ServiceChange{}, err
		}
	}
	o, err := m.host.Install(ctx, r)
	for _, name := range config.Unkept(os.LookupEnv) {
		o.Note(name + " is in this shell's environment, which the service does not have: give the flag to keep it")
	}
	return changeOf(o), privileged(err, program, os.Args[1:])
}

// uninstall removes the service.
func (m *Machine) uninstall(ctx context.Context) (control.ServiceChange, error) {
	o, err := m.host.Uninstall(ctx, m.Config.ServiceName)
	program := "pace-node"
	if path, failed := os.Executable(); failed == nil {
		program = path
	}
	return changeOf(o), privileged(err, program, os.Args[1:])
}

// stateTime is how long the service manager may take to say how the service is, where only a remedy hangs on it.
const stateTime = 2 * time.Second

// state is the service, as far as its manager tells.
func (m *Machine) state(ctx context.Context) host.State {
	ctx, cancel := context.WithTimeout(ctx, stateTime)
	defer cancel()
	st, err := m.host.State(ctx)
	if err != nil {
		st.Installed, st.Running = false, false // nobody knows
	}
	return st
}

// silent says what to do where this machine's node does not answer. A node whose state directory was named is no service.
func (m *Machine) silent(ctx context.Context) string {
	st := m.state(ctx)
	switch {
	case !m.Packaged || !st.Installed:
		return "start the node (pace-node), install it as a service (pace-node --install-service), check --state-dir, or name another machine with --scheduler=HOST"
	case st.Running:
		return "the service " + st.Name + " runs and does not answer, its log says why: " + st.Log
	}
	return "start the node, the service " + st.Name + " does not run: " + st.Start
}

// busy says what to do where a verb needs a node that does not run.
func (m *Machine) busy() string {
	if st := m.state(context.Background()); m.Packaged && st.Installed {
		return "stop it (" + st.Stop + "), run this again, and start it: " + st.Start
	}
	return "stop it, run this again, and start it"
}

func changeOf(o host.Outcome) control.ServiceChange {
	return control.ServiceChange{Service: o.Service, Changed: o.Did, Notes: o.Notes, StateDir: o.StateDir, Settings: o.Settings}
}

// privileged says what to run instead, where an administrator is needed.
func privileged(err error, program string, args []string) error {
	if !errors.Is(err, host.ErrPrivilege) {
		return err
	}
	return &told{err, "registering a service is an administrator's to do, and this is an ordinary user", asAdministrator(runtime.GOOS, program, args)}
}

// asAdministrator is the way to run the same as an administrator.
func asAdministrator(goos, program string, args []string) string {
	if goos == "windows" {
		return sudo(goos)
	}
	words := []string{"sudo", host.ShellQuote(program)}
	for _, arg := range args {
		words = append(words, host.ShellQuote(arg))
	}
	return strings.Join(words, " ")
}
