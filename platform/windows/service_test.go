package windows

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"pace-node/internal/config"
	"pace-node/internal/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pc is a Windows that remembers what it was told.
type pc struct {
	*services
	wall
	have     map[string]registered
	recovers map[string]recovery
	state    map[string]uint32
	sources  map[string]bool
	values   []registryValue
	did      []string
	fail     map[string]error
	slow     time.Duration // from a start or a stop to its end
	changes  time.Time
	becomes  uint32
	ends     bool // it ends right after a start
}

func newPC() *pc {
	p := &pc{have: map[string]registered{}, recovers: map[string]recovery{}, state: map[string]uint32{}, sources: map[string]bool{}, fail: map[string]error{}}
	p.services = &services{admin: true, state: `C:\ProgramData\pace-node`, manager: p, netsh: p.wall.run, place: func(string) string { return "" }}
	return p
}

func (p *pc) note(what string) error { p.did = append(p.did, what); return p.fail[what] }

func (p *pc) Query(name string) (registered, bool, error) {
	r, there := p.have[name]
	return r, there, p.fail["query"]
}

func (p *pc) Create(name, program string) error {
	p.have[name] = registered{Command: program, Start: startType, Type: serviceType, Account: accountName, Display: displayName, Description: description}
	p.state[name], p.sources[name] = stateStopped, true
	return p.note("create")
}

func (p *pc) Change(name string, to registered) error { p.have[name] = to; return p.note("change") }
func (p *pc) Delete(name string) error {
	delete(p.have, name)
	delete(p.recovers, name)
	return p.note("delete")
}

func (p *pc) State(name string) (uint32, error) {
	if !p.changes.IsZero() && !time.Now().Before(p.changes) {
		p.state[name], p.changes = p.becomes, time.Time{}
	}
	return p.state[name], p.fail["state"]
}

func (p *pc) later(name string, now, then uint32) {
	p.state[name], p.becomes, p.changes = now, then, time.Now().Add(p.slow)
}

func (p *pc) Start(name string) error {
	if p.later(name, stateStartPending, stateRunning); p.ends {
		p.becomes = stateStopped
	}
	return p.note("start")
}

func (p *pc) Stop(name string) error {
	p.later(name, stateStopPending, stateStopped)
	return p.note("stop")
}

func (p *pc) Recovery(name string) (recovery, error) { return p.recovers[name], p.fail["recovery"] }
func (p *pc) SetRecovery(name string, to recovery) error {
	p.recovers[name] = to
	return p.note("set recovery")
}

func (p *pc) EventSource(name string, wanted bool) (bool, error) {
	changed := p.sources[name] != wanted
	p.sources[name] = wanted
	return changed, p.fail["source"]
}

func (p *pc) Settings() ([]registryValue, error) { return slices.Clone(p.values), p.fail["settings"] }
func (p *pc) Keep(v registryValue) error {
	p.values = append(slices.DeleteFunc(p.values, func(o registryValue) bool { return o.Name == v.Name }), v)
	return p.fail["keep"]
}

func (p *pc) Forget(name string) error {
	p.values = slices.DeleteFunc(p.values, func(o registryValue) bool { return o.Name == name })
	return p.fail["forget"]
}

func (p *pc) asks(t *testing.T, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, p.did); d != "" {
		t.Error(d)
	}
	p.did = nil
}

func (p *pc) installs(t *testing.T, r host.Registration, did ...string) {
	t.Helper()
	o, err := p.install(t.Context(), r)
	did = append(did, []string{}...)
	got := slices.DeleteFunc(o.Did, func(s string) bool { return strings.HasPrefix(s, "the firewall has") })
	if d := cmp.Diff(append([]string{}, did...), append([]string{}, got...)); err != nil || d != "" || len(o.Notes) != 0 {
		t.Errorf("install: %v, %q\n%s", err, o.Notes, d)
	}
}

func registration(t *testing.T, args ...string) host.Registration {
	t.Helper()
	c, _, err := config.Parse(append([]string{"--install-service"}, args...), func(string) (string, bool) { return "", false }, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := c.Keep(func(s string) (string, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	return host.Registration{Name: c.ServiceName, Program: `C:\Pace\pace-node.exe`, Keep: kept, Surfaces: c.Surfaces(), Allow: c.FirewallAllow}
}

func TestInstall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPC()
		p.slow = 3 * time.Second
		r := registration(t, "--fleet-seed=a", "--fleet-seed=b", "--name=x y")
		p.installs(t, r, `HKLM\Software\Pace\Node holds PACE_NAME, PACE_FLEET_SEED`, `the service PaceNode runs C:\Pace\pace-node.exe`, "the service PaceNode is started")
		p.asks(t, "create", "set recovery", "start")
		if len(p.rules) != 4 || !p.sources["PaceNode"] || p.state["PaceNode"] != stateRunning {
			t.Errorf("%q", p.rules)
		}
		want := []registryValue{{Name: "PACE_NAME", Type: regSZ, Text: "x y"}, {Name: "PACE_FLEET_SEED", Type: regSZ, Text: "a b"}, {Name: "FirewallRules", Type: regMultiSZ, List: p.rules}}
		if d := cmp.Diff(want, p.values); d != "" {
			t.Error(d)
		}
		want3 := recovery{After: []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}, ResetAfter: 24 * time.Hour, OnError: true, PreShutdown: 25 * time.Second}
		if d := cmp.Diff(want3, p.recovers["PaceNode"]); d != "" {
			t.Error(d)
		}
		// What is stored is what the program reads.
		if stored, err := settingsOf(p.values); err != nil || stored["PACE_FLEET_SEED"].Value != "a b" || stored["PACE_NAME"].Value != "x y" {
			t.Errorf("%v, %v", stored, err)
		}

		// Applied twice it changes nothing.
		p.installs(t, r)
		p.installs(t, registration(t))
		p.asks(t)
		if len(p.rules) != 4 {
			t.Errorf("%q", p.rules)
		}

		// Another setting, another place: each starts it anew.
		p.installs(t, registration(t, "--name=z"), `HKLM\Software\Pace\Node holds PACE_NAME`, "the service PaceNode is restarted")
		p.asks(t, "stop", "start")
		moved := registration(t)
		moved.Program = `D:\Program Files\pace-node.exe`
		p.installs(t, moved, `the service PaceNode: it runs D:\Program Files\pace-node.exe`, "the service PaceNode is restarted")
		p.asks(t, "change", "stop", "start")
		if len(p.rules) != 4 || !strings.Contains(p.rules[0], `program=D:\Program Files\pace-node.exe`) || p.have["PaceNode"].Command != `"D:\Program Files\pace-node.exe"` {
			t.Errorf("%q, %+v", p.rules, p.have["PaceNode"])
		}
		// Disabled by hand, and asked for again: the verb says what is wanted.
		off := p.have["PaceNode"]
		off.Start, off.Account, off.Type, off.Description = 4, "NT AUTHORITY\\LocalService", 0x20, "old"
		p.have["PaceNode"] = off
		p.recovers["PaceNode"] = recovery{}
		p.sources["PaceNode"] = false
		p.installs(t, moved, "the service PaceNode: it starts with the machine, it has a process of its own, it runs as LocalSystem, its description is this version's",
			"the service PaceNode is started again when it fails, after 1, 5 and 30 seconds", "the Event Log has the source PaceNode", "the service PaceNode is restarted")
		p.did = nil

		o, err := p.uninstall(t.Context(), "")
		if err != nil || len(o.Did) != 7 || len(p.rules) != 0 || p.sources["PaceNode"] || o.Settings != `HKLM\Software\Pace\Node` || o.StateDir != `C:\ProgramData\pace-node` {
			t.Errorf("%+v, %v, %q", o, err, p.rules)
		}
		p.asks(t, "stop", "delete")
		if d := cmp.Diff([]registryValue{{Name: "PACE_FLEET_SEED", Type: regSZ, Text: "a b"}, {Name: "PACE_NAME", Type: regSZ, Text: "z"}}, p.values); d != "" {
			t.Error(d)
		}
		if o, err = p.uninstall(t.Context(), ""); err != nil || len(o.Did) != 0 {
			t.Errorf("done again: %+v, %v", o, err)
		}
		p.asks(t)
	})
}

func TestServiceOfAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPC()
		p.installs(t, registration(t, "--service-name=Corp"), `HKLM\Software\Pace\Node holds PACE_SERVICE_NAME`, `the service Corp runs C:\Pace\pace-node.exe`, "the service Corp is started")
		if !strings.HasPrefix(p.rules[0], "Corp node tcp/6674|") {
			t.Errorf("%q", p.rules)
		}
		p.installs(t, registration(t)) // the name is remembered
		for name, say := range map[string]string{"PaceNode": "registered as Corp", "Spooler": "runs C:\\Windows\\spoolsv.exe"} {
			p.have["Spooler"] = registered{Command: `C:\Windows\spoolsv.exe`}
			if _, err := p.install(t.Context(), registration(t, "--service-name="+name)); !errors.Is(err, host.ErrOther) || !strings.Contains(err.Error(), say) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := p.uninstall(t.Context(), "Spooler"); !errors.Is(err, host.ErrOther) {
			t.Errorf("%v", err)
		}
		if o, err := p.uninstall(t.Context(), ""); err != nil || o.Service != "Corp" || len(p.have) != 1 {
			t.Errorf("%+v, %v", o, err)
		}
		// The other way round: the platform's own name is taken, and another one is asked for.
		p.installs(t, registration(t, "--service-name=PaceNode"), `HKLM\Software\Pace\Node holds PACE_SERVICE_NAME`, `the service PaceNode runs C:\Pace\pace-node.exe`, "the service PaceNode is started")
		if _, err := p.install(t.Context(), registration(t, "--service-name=Corp")); !errors.Is(err, host.ErrOther) {
			t.Errorf("%v", err)
		}
	})
}

// TestServiceThatIsEnding: what was told to end by somebody else is not taken for a service that fails.
func TestServiceThatIsEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPC()
		p.installs(t, registration(t), `the service PaceNode runs C:\Pace\pace-node.exe`, "the service PaceNode is started")
		p.slow = 3 * time.Second
		for _, r := range []struct{ flag, did string }{{"", "the service PaceNode is started"}, {"--name=x", "the service PaceNode is restarted"}} {
			p.later("PaceNode", stateStopPending, stateStopped)
			args, did := []string{}, []string{r.did}
			if r.flag != "" {
				args, did = append(args, r.flag), []string{`HKLM\Software\Pace\Node holds PACE_NAME`, r.did}
			}
			if p.installs(t, registration(t, args...), did...); p.state["PaceNode"] != stateRunning {
				t.Errorf("%q: state %d", args, p.state["PaceNode"])
			}
		}
		p.slow = time.Hour
		p.later("PaceNode", stateStopPending, stateStopped)
		if _, err := p.install(t.Context(), registration(t)); !errors.Is(err, host.ErrNotStopped) {
			t.Errorf("one that does not end: %v", err)
		}
	})
}

// TestServiceThatMakesTrouble: what starts and ends at once, what never ends, what takes for ever; each with its deadline.
func TestServiceThatMakesTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refusal *host.Refusal
		p := newPC()
		p.ends, p.slow = true, time.Second
		o, err := p.install(t.Context(), registration(t))
		if !errors.Is(err, host.ErrNotStarted) || !errors.As(err, &refusal) || !strings.Contains(refusal.Remedy(), "source PaceNode") || len(o.Did) != 5 {
			t.Errorf("%+v, %v", o, err)
		}
		p = newPC()
		p.slow = time.Hour
		began := time.Now()
		if _, err := p.install(t.Context(), registration(t)); !errors.Is(err, host.ErrNotStarted) || time.Since(began) != 100*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		p.state["PaceNode"], p.changes = stateRunning, time.Time{}
		began = time.Now()
		if _, err := p.uninstall(t.Context(), ""); !errors.Is(err, host.ErrNotStopped) || time.Since(began) != 30*time.Second || len(p.have) != 1 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestInstallRefusalsAndNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPC()
		for _, program := range []string{`\\server\share\pace-node.exe`, `C:\a"b\pace-node.exe`} {
			r := registration(t)
			r.Program = program
			if _, err := p.install(t.Context(), r); !errors.Is(err, host.ErrPlace) {
				t.Errorf("%s: %v", program, err)
			}
		}
		p.asks(t)
		p.place = func(program string) string { return "Users can change " + program }
		p.fail["set recovery"], p.fail["source"] = errors.New("invalid level"), errors.New("no key")
		p.broken = func([]string) error { return errors.New("netsh is missing") }
		o, err := p.install(t.Context(), registration(t))
		if err != nil || len(o.Notes) != 4 || !strings.Contains(fmt.Sprint(o.Notes), "Users can change") || !strings.Contains(fmt.Sprint(o.Notes), "netsh is missing") {
			t.Errorf("%q, %v", o.Notes, err)
		}
		for _, what := range []string{"query", "settings", "keep", "create", "change", "delete", "state"} {
			p := newPC()
			p.fail[what] = errors.New("access is denied")
			_, err := p.install(t.Context(), registration(t, "--name=x"))
			if want := what != "change" && what != "delete"; want != (err != nil) {
				t.Errorf("%s: install: %v", what, err)
			}
			p = newPC()
			p.have["PaceNode"], p.state["PaceNode"] = wanted(`C:\pace-node.exe`), stateStopped
			p.fail[what] = errors.New("access is denied")
			o, err := p.uninstall(t.Context(), "")
			if want := what == "query" || what == "delete" || what == "state"; want != (err != nil) || what == "settings" && len(o.Notes) != 1 {
				t.Errorf("%s: uninstall: %+v, %v", what, o, err)
			}
		}
		p.admin = false
		if _, err := p.install(t.Context(), registration(t)); !errors.Is(err, host.ErrPrivilege) {
			t.Errorf("%v", err)
		}
		if _, err := p.uninstall(t.Context(), ""); !errors.Is(err, host.ErrPrivilege) {
			t.Errorf("%v", err)
		}
	})
}

func TestStatus(t *testing.T) {
	p := newPC()
	status := func(want host.State, fails bool) {
		t.Helper()
		st, err := p.status()
		if d := cmp.Diff(want, st); d != "" || fails != (err != nil) {
			t.Errorf("%v\n%s", err, d)
		}
	}
	want := host.State{Name: "PaceNode", Start: "sc start PaceNode", Stop: "sc stop PaceNode", Log: "the Event Log, Windows Logs, Application, source PaceNode"}
	status(want, false)
	p.have["PaceNode"], p.state["PaceNode"] = wanted(`C:\pace-node.exe`), stateStopped
	want.Installed = true
	status(want, false)
	p.state["PaceNode"] = stateRunning
	want.Running = true
	status(want, false)
	p.fail["settings"] = errors.New("access is denied")
	want.Installed, want.Running = false, false
	status(want, true)
	p.fail["settings"] = nil
	p.values = []registryValue{{Name: "PACE_SERVICE_NAME", Type: regSZ, Text: "Corp"}}
	status(host.State{Name: "Corp", Start: "sc start Corp", Stop: "sc stop Corp", Log: "the Event Log, Windows Logs, Application, source Corp"}, false)
}

func TestCommandLines(t *testing.T) {
	for command, want := range map[string]bool{
		`"C:\Program Files\Pace\pace-node.exe"`: true, `C:\Pace\PACE-NODE.EXE`: true, `pace-node.exe`: true, `"C:\pace-node.exe" --service-name=x`: true, `C:\pace-node.exe --x`: true,
		`C:\not-pace-node.exe`: false, `C:\Windows\system32\svchost.exe -k netsvcs`: false, `"C:\x.exe" "C:\pace-node.exe"`: false, "": false,
	} {
		if got := isOurs(command); got != want {
			t.Errorf("%s: %v", command, got)
		}
	}
	if got := commandLine(`C:\a b\pace-node.exe`); got != `"C:\a b\pace-node.exe"` {
		t.Error(got)
	}
	if !sameProgram(`"C:\A b.exe"`, `c:\a B.exe`) || sameProgram(`"C:\a.exe"`, `"C:\a.exe" --x`) {
		t.Error("command lines that mean the same")
	}
}

func TestEventTypes(t *testing.T) {
	for s, want := range map[host.Severity]uint16{host.SeverityDebug: 4, host.SeverityInfo: 4, host.SeverityWarning: 2, host.SeverityError: 1} {
		if got := eventOf(s); got != want {
			t.Errorf("%d: %d", s, got)
		}
	}
}

// TestMutationRecovery: each part of what is done after a failure is asked for.
func TestMutationRecovery(t *testing.T) {
	for what, other := range map[string]recovery{
		"delays": {After: []time.Duration{time.Second}, ResetAfter: 24 * time.Hour, OnError: true, PreShutdown: 25 * time.Second},
		"reset":  {After: wantedRecovery.After, ResetAfter: time.Hour, OnError: true, PreShutdown: 25 * time.Second},
		"errors": {After: wantedRecovery.After, ResetAfter: 24 * time.Hour, PreShutdown: 25 * time.Second},
		"before": {After: wantedRecovery.After, ResetAfter: 24 * time.Hour, OnError: true},
	} {
		if wantedRecovery.equal(other) {
			t.Errorf("%s: another one is not told from it", what)
		}
	}
}

// TestValueOf: what the package of Windows Installer keeps and reads again is text.
func TestValueOf(t *testing.T) {
	for _, c := range []struct {
		kept config.Kept
		want registryValue
	}{
		{config.Kept{Key: "PACE_NAME", Values: []string{"x y"}}, registryValue{Name: "PACE_NAME", Type: regSZ, Text: "x y"}},
		{config.Kept{Key: "PACE_FLEET_SEED", Values: []string{"[::1]:6674"}, List: true}, registryValue{Name: "PACE_FLEET_SEED", Type: regSZ, Text: "[::1]:6674"}},
		{config.Kept{Key: "PACE_FLEET_SEED", Values: []string{"a", "b"}, List: true}, registryValue{Name: "PACE_FLEET_SEED", Type: regSZ, Text: "a b"}},
		{config.Kept{Key: "PACE_LABEL", Values: []string{"a=b c"}, List: true}, registryValue{Name: "PACE_LABEL", Type: regMultiSZ, List: []string{"a=b c"}}},
		{config.Kept{Key: "PACE_LABEL", Values: []string{"a=b", "c=d\te"}, List: true}, registryValue{Name: "PACE_LABEL", Type: regMultiSZ, List: []string{"a=b", "c=d\te"}}},
	} {
		if d := cmp.Diff(c.want, valueOf(c.kept)); d != "" {
			t.Errorf("%+v: %s", c.kept, d)
		}
	}
}
