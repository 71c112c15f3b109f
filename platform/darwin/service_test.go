package darwin

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/config"
	"pace-node/internal/host"
)

// mac is a macOS in a scratch folder, with a launchd that remembers what it was told.
type mac struct {
	*services
	t         *testing.T
	loadedNow map[string]bool
	disabled  map[string]bool
	asked     []string // commands that change something
	refuse    func(command string) bool
	gone      bool // there is no launchd
	runs      bool // what is loaded runs
	slow      time.Duration
	leaves    time.Time
}

func newMac(t *testing.T) *mac {
	m := &mac{t: t, loadedNow: map[string]bool{}, disabled: map[string]bool{}, refuse: func(string) bool { return false }, runs: true}
	m.services = &services{root: t.TempDir(), run: m.run, place: func(string) (string, error) { return "", nil }}
	m.write(firewall, "")
	m.write("/Library/Application Support/x", "")
	return m
}

func (m *mac) run(_ context.Context, _, program string, args ...string) (host.Result, error) {
	line := strings.Join(append([]string{filepath.Base(program)}, args...), " ")
	if args[0] != "print" && args[0] != "print-disabled" {
		m.asked = append(m.asked, line)
	}
	if m.gone && program == launchctl || m.refuse(line) {
		return host.Result{Code: 5, Out: "Bootstrap failed: 5: Input/output error"}, nil
	}
	last := args[len(args)-1]
	name := strings.TrimPrefix(last, "system/")
	switch args[0] {
	case "print":
		if last == "system" {
			return host.Result{}, nil
		}
		if !m.leaves.IsZero() && !time.Now().Before(m.leaves) {
			m.loadedNow, m.leaves = map[string]bool{}, time.Time{}
		}
		switch {
		case !m.loadedNow[name]:
			return host.Result{Code: 113, Out: "Could not find service"}, nil
		case m.runs:
			return host.Result{Out: last + " = {\n\tstate = running\n\tpid = 7\n}"}, nil
		}
		return host.Result{Out: last + " = {\n\tstate = spawn scheduled\n}"}, nil
	case "print-disabled":
		out := "disabled services = {\n\t\"com.example\" => disabled\n"
		for name, is := range m.disabled {
			out += "\t\"" + name + "\" => " + map[bool]string{true: "disabled", false: "enabled"}[is] + "\n"
		}
		return host.Result{Out: out + "}"}, nil
	case "enable":
		m.disabled[name] = false
	case "disable":
		m.disabled[name] = true
	case "bootout":
		m.leaves = time.Now().Add(m.slow)
		return host.Result{Code: 36, Out: "Operation now in progress"}, nil
	case "bootstrap":
		m.loadedNow[strings.TrimSuffix(filepath.Base(last), ".plist")] = true
	}
	return host.Result{}, nil
}

func (m *mac) write(path, text string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.at(path)), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.at(path), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *mac) read(path string) string {
	data, err := os.ReadFile(m.at(path))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func (m *mac) installs(r host.Registration, did ...string) {
	m.t.Helper()
	o, err := m.install(m.t.Context(), r)
	if d := cmp.Diff(did, o.Did); err != nil || d != "" {
		m.t.Errorf("install: %v\n%s", err, d)
	}
}

func (m *mac) commands(want ...string) {
	m.t.Helper()
	asked := slices.DeleteFunc(m.asked, func(line string) bool { return strings.HasPrefix(line, "socketfilterfw") })
	if d := cmp.Diff(want, asked, cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); d != "" {
		m.t.Error(d)
	}
	m.asked = nil
}

const (
	plist   = "/Library/LaunchDaemons/io.pace.node.plist"
	state   = "/Library/Application Support/pace-node"
	envPath = state + "/pace-node.env"
)

var program = host.Registration{Program: "/usr/local/pace/pace-node"}

func TestInstallBareProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMac(t)
		r := program
		r.Keep = []config.Kept{{Key: "PACE_FLEET_SEED", Values: []string{"a", "b"}, List: true}}
		m.installs(r, state+" is made", envPath+" holds PACE_FLEET_SEED", plist+" runs /usr/local/pace/pace-node", "io.pace.node is loaded")
		if d := cmp.Diff([]string{"socketfilterfw --add /usr/local/pace/pace-node", "socketfilterfw --unblockapp /usr/local/pace/pace-node"}, m.asked[:2]); d != "" {
			t.Error(d)
		}
		m.commands("launchctl bootstrap system " + plist)
		for path, mode := range map[string]os.FileMode{state: 0o700 | os.ModeDir, envPath: 0o600, plist: 0o644} {
			if info, err := os.Stat(m.at(path)); err != nil || info.Mode() != mode {
				t.Errorf("%s: %v, %v", path, info, err)
			}
		}
		if m.read(envPath) != "PACE_FLEET_SEED=\"a b\"\n" || !m.installed() {
			t.Error(m.read(envPath))
		}

		// The same text as the package's, but for the program.
		packaged, err := os.ReadFile("../../packaging/macos/io.pace.node.plist")
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Replace(string(packaged), "/opt/pace-node/bin/pace-node", "/usr/local/pace/pace-node", 1)
		if d := cmp.Diff(want, strings.Replace(m.read(plist), plistMark+"\n", "", 1)); d != "" {
			t.Error(d)
		}

		m.installs(r)
		m.installs(program)
		m.commands()
		r.Keep[0].Values = []string{"c"}
		m.installs(r, envPath+" holds PACE_FLEET_SEED", "io.pace.node is restarted")
		m.commands("launchctl kickstart -k system/io.pace.node")

		// Another place: the old one is waited for, however long it takes to end.
		m.slow = 17 * time.Second
		other := host.Registration{Program: "/opt/a&b <c>/pace-node"}
		m.installs(other, plist+" runs /opt/a&b <c>/pace-node", "io.pace.node is loaded")
		m.commands("launchctl bootout system/io.pace.node", "launchctl bootstrap system "+plist)
		for d := xml.NewDecoder(strings.NewReader(m.read(plist))); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}

		m.disabled[label] = true
		m.installs(other, "io.pace.node is enabled", "io.pace.node is restarted")
		m.commands("launchctl enable system/io.pace.node", "launchctl kickstart -k system/io.pace.node")

		o, err := m.uninstall(t.Context(), "")
		if d := cmp.Diff([]string{"io.pace.node is ended", plist + " is removed"}, o.Did); err != nil || d != "" {
			t.Errorf("%v\n%s", err, d)
		}
		if !slices.Contains(m.asked, "socketfilterfw --remove /opt/a&b <c>/pace-node") || m.is(plist) || !m.is(envPath) {
			t.Errorf("%q", m.asked)
		}
		if o, err = m.uninstall(t.Context(), ""); err != nil || len(o.Did) != 0 || o.Settings != envPath || o.StateDir != state {
			t.Errorf("done again: %+v, %v", o, err)
		}
	})
}

func TestPackagedDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMac(t)
		m.write(packagedProgram, "")
		m.write(plist, "<plist/>")
		m.installs(program, state+" is made", "io.pace.node is loaded")
		if m.read(plist) != "<plist/>" || !slices.Contains(m.asked, "socketfilterfw --add /opt/pace-node/bin/pace-node") {
			t.Errorf("%q", m.asked)
		}
		m.installs(program)
		if _, err := m.install(t.Context(), host.Registration{Name: "other", Program: "/x"}); !errors.Is(err, host.ErrOther) || !strings.Contains(err.Error(), "pace-node-uninstall") {
			t.Errorf("%v", err)
		}
		o, err := m.uninstall(t.Context(), "")
		if d := cmp.Diff([]string{"io.pace.node is ended", "io.pace.node is disabled"}, o.Did); err != nil || d != "" || !m.is(plist) || len(o.Notes) != 1 {
			t.Errorf("%+v, %v\n%s", o, err, d)
		}
		if o, err = m.uninstall(t.Context(), ""); err != nil || len(o.Did) != 0 {
			t.Errorf("%+v, %v", o, err)
		}
		m.installs(program, "io.pace.node is enabled", "io.pace.node is loaded")
	})
}

func TestDaemonOfAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMac(t)
		r := program
		r.Name, r.Keep = "com.example.pace", []config.Kept{{Key: "PACE_SERVICE_NAME", Values: []string{"com.example.pace"}}}
		m.installs(r, state+" is made", envPath+" holds PACE_SERVICE_NAME", "/Library/LaunchDaemons/com.example.pace.plist runs /usr/local/pace/pace-node", "com.example.pace is loaded")
		if !strings.Contains(m.read("/Library/LaunchDaemons/com.example.pace.plist"), "<key>Label</key>\n\t<string>com.example.pace</string>") || !m.installed() {
			t.Error(m.read("/Library/LaunchDaemons/com.example.pace.plist"))
		}
		m.installs(program)
		for name, say := range map[string]string{"another": "registered as com.example.pace", "taken": "did not write it"} {
			m.write("/Library/LaunchDaemons/taken.plist", "<plist/>")
			if _, err := m.install(t.Context(), host.Registration{Name: name, Program: "/x"}); !errors.Is(err, host.ErrOther) || !strings.Contains(err.Error(), say) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := m.uninstall(t.Context(), "taken"); !errors.Is(err, host.ErrOther) {
			t.Errorf("%v", err)
		}
		if o, err := m.uninstall(t.Context(), ""); err != nil || o.Service != "com.example.pace" || m.is("/Library/LaunchDaemons/com.example.pace.plist") {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

// TestLaunchdMakesTrouble: bootstrap right after bootout fails for a while; a daemon may not end, or not run.
func TestLaunchdMakesTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMac(t)
		tries := 0
		m.refuse = func(line string) bool {
			if strings.HasPrefix(line, "launchctl bootstrap") {
				tries++
			}
			return strings.HasPrefix(line, "launchctl bootstrap") && tries < 10
		}
		m.installs(program, state+" is made", plist+" runs /usr/local/pace/pace-node", "io.pace.node is loaded")

		m = newMac(t)
		m.refuse = func(line string) bool { return strings.HasPrefix(line, "launchctl bootstrap") }
		var refusal *host.Refusal
		if _, err := m.install(t.Context(), program); !errors.Is(err, host.ErrNotStarted) || !errors.As(err, &refusal) || !strings.Contains(refusal.Remedy(), "bootstrap system "+plist) {
			t.Errorf("%v", err)
		}
		if n := len(slices.DeleteFunc(m.asked, func(l string) bool { return !strings.Contains(l, "bootstrap") })); n != bootstrapTries {
			t.Errorf("%d tries", n)
		}

		m = newMac(t)
		m.runs = false
		m.write(logFile, "old\nolder\none\ntwo\nremedy: --listen\n")
		if _, err := m.install(t.Context(), program); !errors.Is(err, host.ErrNotStarted) || !strings.Contains(err.Error(), "one / two / remedy: --listen") || !strings.Contains(err.Error(), "kickstart -k") {
			t.Errorf("%v", err)
		}
		m.slow = time.Hour
		if _, err := m.uninstall(t.Context(), ""); !errors.Is(err, host.ErrNotStopped) || !m.is(plist) {
			t.Errorf("%v", err)
		}

		m = newMac(t)
		m.gone = true
		if o, err := m.install(t.Context(), program); err != nil || len(o.Notes) != 1 || !m.is(plist) {
			t.Errorf("no launchd: %+v, %v", o, err)
		}

		m = newMac(t)
		m.refuse = func(line string) bool { return strings.HasPrefix(line, "socketfilterfw") }
		r := program
		r.Allow = []string{"10.0.0.0/8"}
		if o, err := m.install(t.Context(), r); err != nil || len(o.Notes) != 3 || !strings.Contains(o.Notes[1], "sudo "+firewall+" --add /usr/local/pace/pace-node") {
			t.Errorf("firewall: %+v, %v", o, err)
		}
	})
}

func TestInstallRefusals(t *testing.T) {
	m := newMac(t)
	m.place = func(string) (string, error) { return "the folder /usr/local/bin is not root's", nil }
	if _, err := m.install(t.Context(), program); !errors.Is(err, host.ErrPlace) || !strings.Contains(err.Error(), packagedProgram) {
		t.Errorf("%v", err)
	}
	m.place = func(string) (string, error) { return "", nil }
	if _, err := m.install(t.Context(), host.Registration{Program: "/a\nb"}); !errors.Is(err, host.ErrPlace) {
		t.Errorf("%v", err)
	}
	if err := os.Symlink("/tmp", m.at(state)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.install(t.Context(), program); !errors.Is(err, host.ErrPlace) || !strings.Contains(err.Error(), "is no folder") {
		t.Errorf("%v", err)
	}
	if err := os.Remove(m.at(state)); err != nil {
		t.Fatal(err)
	}
	m.write(envPath, "nonsense\n")
	if _, err := m.install(t.Context(), program); !errors.Is(err, host.ErrEnvFile) {
		t.Errorf("%v", err)
	}
	if o, err := m.uninstall(t.Context(), ""); err != nil || len(o.Notes) != 1 {
		t.Errorf("whatever stands in the settings, it can be removed: %+v, %v", o, err)
	}
	if len(m.asked) != 0 {
		t.Errorf("%q", m.asked)
	}
	m.euid = 501
	if _, err := m.install(t.Context(), program); !errors.Is(err, host.ErrPrivilege) {
		t.Errorf("%v", err)
	}
	if _, err := m.uninstall(t.Context(), ""); !errors.Is(err, host.ErrPrivilege) {
		t.Errorf("%v", err)
	}
}

func TestStatus(t *testing.T) {
	m := newMac(t)
	status := func(name string, installed, running bool, start string) {
		t.Helper()
		st, err := m.status(t.Context())
		if err != nil || st.Name != name || st.Installed != installed || st.Running != running || st.Start != start || st.Stop != "sudo launchctl bootout system/"+name || st.Log == "" {
			t.Errorf("%+v, %v", st, err)
		}
	}
	status("io.pace.node", false, false, "sudo launchctl bootstrap system /Library/LaunchDaemons/io.pace.node.plist")
	m.write("/Library/LaunchDaemons/corp.plist", plistMark)
	status("corp", true, false, "sudo launchctl bootstrap system /Library/LaunchDaemons/corp.plist")
	m.loadedNow["corp"] = true
	status("corp", true, true, "sudo launchctl kickstart -k system/corp")
	m.runs = false
	status("corp", true, false, "sudo launchctl kickstart -k system/corp")
}

func TestIsDisabled(t *testing.T) {
	for printed, want := range map[string]bool{
		"": false, "\t\"io.pace.node\" => disabled\n": true, "\t\"io.pace.node\" => true\n": true, "\t\"io.pace.node\" => enabled\n": false,
		"\t\"io.pace.node\" => false\n": false, "\t\"io.pace.node.rotate\" => disabled\n": false,
	} {
		if got := isDisabled(printed, "io.pace.node"); got != want {
			t.Errorf("%q: %v", printed, got)
		}
	}
}
