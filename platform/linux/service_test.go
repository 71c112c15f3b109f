package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/config"
	"pace-node/internal/host"
)

// machine is a Linux in a scratch folder, with a systemd that remembers what it was told.
type machine struct {
	*services
	t       *testing.T
	enabled map[string]bool
	active  map[string]bool
	account bool
	asked   []string          // commands that change something
	fails   map[string]string // "systemctl start" → what it prints; its status is 1
	exe     string
	other   *fakeInit
}

func newMachine(t *testing.T, programs ...string) *machine {
	m := &machine{t: t, enabled: map[string]bool{}, active: map[string]bool{}, fails: map[string]string{}}
	m.services = &services{
		root: t.TempDir(), run: m.run,
		find: func(program string) string {
			if slices.Contains(programs, program) {
				return "/usr/bin/" + program
			}
			return ""
		},
		account: func() (int, int, bool) { return os.Getuid(), os.Getgid(), m.account },
		place:   func(string) (string, error) { return "", nil },
		exe:     func(string) string { return m.exe },
		other: func(name, program string) (initSystem, error) {
			m.other.name, m.other.program, m.other.root = name, program, m.services.root
			return m.other, nil
		},
	}
	return m
}

func (m *machine) run(_ context.Context, input, program string, args ...string) (host.Result, error) {
	command := append([]string{filepath.Base(program)}, args...)
	line := strings.Join(command, " ")
	asks := slices.Contains(args, "is-enabled") || slices.Contains(args, "is-active") || slices.Contains(args, "show") || command[0] == "journalctl"
	if !asks {
		m.asked = append(m.asked, line)
	}
	for begins, says := range m.fails {
		if strings.HasPrefix(line, begins) {
			return host.Result{Code: 1, Out: says}, nil
		}
	}
	unit := args[len(args)-1]
	yes := func(is bool) host.Result {
		if is {
			return host.Result{}
		}
		return host.Result{Code: 1}
	}
	switch command[0] + " " + args[0] {
	case "systemctl is-enabled":
		return yes(m.enabled[unit]), nil
	case "systemctl is-active":
		return yes(m.active[unit]), nil
	case "systemctl enable":
		m.enabled[unit] = true
	case "systemctl disable":
		m.enabled[unit] = false
	case "systemctl start", "systemctl restart":
		m.active[unit] = true
	case "systemctl stop":
		m.active[unit] = false
	case "systemctl show":
		return host.Result{Out: "4711"}, nil
	case "journalctl _SYSTEMD_UNIT=pace-node.service":
		return host.Result{Out: "pace-node: port 6674 is taken\nremedy: --listen"}, nil
	case "systemd-sysusers -":
		if !strings.Contains(input, "u pace-node") {
			m.t.Errorf("sysusers was told %q", input)
		}
		m.account = true
	}
	if command[0] == "useradd" {
		m.account = true
	}
	return host.Result{}, nil
}

func (m *machine) write(path, text string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.at(path)), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.at(path), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) read(path string) string {
	data, err := os.ReadFile(m.at(path))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// systemd makes it a machine where systemd runs.
func (m *machine) systemd() *machine {
	m.write(systemdRuns+"/x", "")
	return m
}

func (m *machine) packages() *machine {
	m.write("/usr/lib/systemd/system/pace-node.service", "[Unit]\n")
	return m
}

var program = host.Registration{Program: "/usr/local/bin/pace-node"}

func kept(key string, values ...string) []config.Kept {
	return []config.Kept{{Key: key, Values: values, List: len(values) > 1}}
}

func (m *machine) installs(r host.Registration, did ...string) {
	m.t.Helper()
	o, err := m.install(m.t.Context(), r)
	if d := cmp.Diff(did, o.Did); err != nil || d != "" {
		m.t.Errorf("install: %v\n%s", err, d)
	}
}

func (m *machine) refuses(r host.Registration, kind error, say ...string) {
	m.t.Helper()
	m.asked = nil
	_, err := m.install(m.t.Context(), r)
	var refusal *host.Refusal
	if !errors.Is(err, kind) || kind != host.ErrPrivilege && (!errors.As(err, &refusal) || refusal.Remedy() == "") {
		m.t.Errorf("%v, want %v with a remedy", err, kind)
		return
	}
	for _, part := range say {
		if !strings.Contains(err.Error(), part) {
			m.t.Errorf("%q does not say %q", err, part)
		}
	}
}

func (m *machine) commands(want ...string) {
	m.t.Helper()
	if d := cmp.Diff(want, m.asked); d != "" {
		m.t.Error(d)
	}
	m.asked = nil
}

func TestInstallBareProgram(t *testing.T) {
	m := newMachine(t, "systemctl", "systemd-sysusers", "journalctl").systemd()
	const unit = "/etc/systemd/system/pace-node.service"
	if m.installed() {
		t.Error("it is installed already")
	}
	r := program
	r.Keep = kept("PACE_FLEET_SEED", "a", "b")
	m.installs(r, "the account pace-node is made", "/etc/default/pace-node holds PACE_FLEET_SEED", unit+" runs /usr/local/bin/pace-node",
		"pace-node.service is enabled", "pace-node.service is started")
	m.commands("systemd-sysusers -", "systemctl daemon-reload", "systemctl enable --quiet pace-node.service", "systemctl start pace-node.service")
	if m.read(settings) != "PACE_FLEET_SEED=\"a b\"\n" || !m.installed() {
		t.Errorf("%s", m.read(settings))
	}

	// The same text as the packages', but for the program.
	packaged, err := os.ReadFile("../../packaging/linux/pace-node.service")
	if err != nil {
		t.Fatal(err)
	}
	mark, rest, _ := strings.Cut(m.read(unit), "\n")
	if d := cmp.Diff(strings.Replace(string(packaged), "ExecStart=/usr/bin/pace-node", "ExecStart=/usr/local/bin/pace-node", 1), rest); d != "" || !strings.HasPrefix(mark, "# Written by pace-node --install-service") {
		t.Errorf("%s\n%s", mark, d)
	}

	m.exe = "/usr/local/bin/pace-node"
	m.installs(r)
	m.installs(program)
	m.commands()

	// A changed setting, a replaced program, another place: each starts it anew, once.
	r.Keep = kept("PACE_NAME", "x y")
	m.installs(r, "/etc/default/pace-node holds PACE_NAME", "pace-node.service is restarted")
	m.exe = "/usr/local/bin/pace-node (deleted)"
	m.installs(program, "pace-node.service is restarted")
	m.exe = "/usr/local/bin/pace-node"
	m.commands("systemctl restart pace-node.service", "systemctl restart pace-node.service")
	r = host.Registration{Program: `/opt/a b%/"x"`, StateDir: "/srv/pace state"}
	m.write("/srv/x", "")
	m.installs(r, "/srv/pace state is made, for the account pace-node", unit+` runs /opt/a b%/"x"`, "pace-node.service is restarted")
	m.commands("systemctl daemon-reload", "systemctl restart pace-node.service")
	if text := m.read(unit); !strings.Contains(text, "\nExecStart=\"/opt/a b%%/\\\"x\\\"\"\n") || !strings.Contains(text, "\nStateDirectoryMode=0700\nReadWritePaths=\"/srv/pace state\"\n") {
		t.Error(text)
	}
	if info, err := os.Stat(m.at("/srv/pace state")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}

	o, err := m.uninstall(t.Context(), "")
	if d := cmp.Diff([]string{"pace-node.service is stopped", "pace-node.service is disabled", unit + " is removed"}, o.Did); err != nil || d != "" || o.Settings != settings {
		t.Errorf("%+v, %v\n%s", o, err, d)
	}
	m.commands("systemctl stop pace-node.service", "systemctl disable --quiet pace-node.service", "systemctl daemon-reload")
	if m.installed() || m.read(settings) != "PACE_FLEET_SEED=\"a b\"\nPACE_NAME=\"x y\"\n" || !m.is("/srv/pace state") {
		t.Error("settings and state were to stay")
	}
	if o, err = m.uninstall(t.Context(), ""); err != nil || len(o.Did) != 0 {
		t.Errorf("done again: %+v, %v", o, err)
	}
	m.commands()
}

func TestServiceOfAnotherName(t *testing.T) {
	m := newMachine(t, "systemctl", "systemd-sysusers").systemd()
	m.account = true
	r := program
	r.Name, r.Keep = "corp.node", kept("PACE_SERVICE_NAME", "corp.node")
	m.installs(r, "/etc/default/pace-node holds PACE_SERVICE_NAME", "/etc/systemd/system/corp.node.service runs /usr/local/bin/pace-node", "corp.node.service is enabled", "corp.node.service is started")
	m.exe = program.Program
	m.installs(program) // the name is remembered
	m.refuses(host.Registration{Name: "other", Program: program.Program}, host.ErrOther, "registered as corp.node", "--uninstall-service")
	m.write("/etc/systemd/system/sshd.service", "[Unit]\n")
	m.refuses(host.Registration{Name: "sshd", Program: program.Program}, host.ErrOther, "did not write it")
	if o, err := m.uninstall(t.Context(), "sshd"); !errors.Is(err, host.ErrOther) {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := m.uninstall(t.Context(), ""); err != nil || o.Service != "corp.node" || m.is("/etc/systemd/system/corp.node.service") || !m.is("/etc/systemd/system/sshd.service") {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestPackagedUnitIsEnabledNotShadowed(t *testing.T) {
	m := newMachine(t, "systemctl").systemd().packages()
	const own = "/etc/systemd/system/pace-node.service"
	r := program
	r.Keep = kept("PACE_NAME", "x")
	m.installs(r, "/etc/default/pace-node holds PACE_NAME", "pace-node.service is enabled", "pace-node.service is started")
	m.commands("systemctl enable --quiet pace-node.service", "systemctl start pace-node.service")
	if m.is(own) {
		t.Error("it is shadowed")
	}
	m.installs(program)
	m.refuses(host.Registration{Name: "other", Program: program.Program}, host.ErrOther, "one service a machine")
	m.refuses(host.Registration{StateDir: "/srv/x", Program: program.Program}, host.ErrOther, "/var/lib/pace-node")

	// One that an earlier install of a bare program wrote goes; somebody's own stays.
	m.write(own, unitMark+"\n[Unit]\n")
	m.asked = nil
	m.installs(program, own+" is removed: it hid the package's unit", "pace-node.service is restarted")
	m.commands("systemctl daemon-reload", "systemctl restart pace-node.service")
	m.write(own, "[Unit]\n# mine\n")
	if o, err := m.install(t.Context(), program); err != nil || len(o.Did) != 0 || len(o.Notes) != 1 || !m.is(own) {
		t.Errorf("%+v, %v", o, err)
	}

	o, err := m.uninstall(t.Context(), "")
	if d := cmp.Diff([]string{"pace-node.service is stopped", "pace-node.service is disabled"}, o.Did); err != nil || d != "" || len(o.Notes) != 1 || !m.is(own) {
		t.Errorf("%+v, %v\n%s", o, err, d)
	}

	if err := os.Remove(m.at(own)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", m.at(own)); err != nil {
		t.Fatal(err)
	}
	m.refuses(program, host.ErrOther, "masked", "systemctl unmask pace-node.service")
	m.commands()
}

func TestNoFirewallIsChanged(t *testing.T) {
	m := newMachine(t, "systemctl").systemd().packages()
	r := program
	r.Allow = []string{"10.0.0.0/8", "fd00::/8"}
	if o, err := m.install(t.Context(), r); err != nil || len(o.Notes) != 1 || !strings.Contains(o.Notes[0], "--print-surfaces") || !strings.Contains(o.Notes[0], "10.0.0.0/8, fd00::/8") {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestInstallRefusals(t *testing.T) {
	m := newMachine(t, "systemctl").systemd()
	m.account = true
	for _, path := range []string{"/home/a/pace-node", "/root/pace-node", "/tmp/pace-node", "/var/tmp/x/pace-node", "/run/user/1/pace-node"} {
		m.refuses(host.Registration{Program: path}, host.ErrPlace, path, "install -m 755")
	}
	m.refuses(host.Registration{Program: "/opt/a\nb"}, host.ErrPlace, "control character")
	m.place = func(string) (string, error) { return "the folder /opt can be written by everybody", nil }
	m.refuses(program, host.ErrPlace, "the folder /opt", "install -m 755")
	m.place = func(string) (string, error) { return "", nil }
	m.refuses(host.Registration{Program: program.Program, StateDir: "/home/a/s"}, host.ErrPlace, "home folder", "--state-dir")
	m.refuses(host.Registration{Program: program.Program, StateDir: "/no/such/s"}, os.ErrNotExist, "--state-dir")
	m.commands()
	m.write(settings, "nonsense\n")
	if _, err := m.install(t.Context(), program); !errors.Is(err, host.ErrEnvFile) {
		t.Errorf("settings that do not read: %v", err)
	}
	// Whatever stands in the settings, the service can be removed.
	m.write(ownUnits+"/pace-node.service", unitMark+"\n")
	if o, err := m.uninstall(t.Context(), ""); err != nil || len(o.Did) != 1 || len(o.Notes) != 2 {
		t.Errorf("%+v, %v", o, err)
	}
	m.euid = 1000
	m.refuses(program, host.ErrPrivilege)
	if _, err := m.uninstall(t.Context(), ""); !errors.Is(err, host.ErrPrivilege) {
		t.Errorf("%v", err)
	}
}

func TestServiceThatDoesNotStart(t *testing.T) {
	m := newMachine(t, "systemctl", "journalctl").systemd()
	m.account = true
	m.fails["systemctl start"] = "Job for pace-node.service failed"
	o, err := m.install(t.Context(), program)
	var refusal *host.Refusal
	if !errors.Is(err, host.ErrNotStarted) || !errors.As(err, &refusal) || !strings.Contains(err.Error(), "port 6674 is taken / remedy: --listen") ||
		!strings.Contains(refusal.Remedy(), "systemctl restart pace-node.service") || len(o.Did) != 2 {
		t.Errorf("%+v, %v", o, err)
	}
	m.fails = map[string]string{"systemctl stop": "timeout"}
	m.active["pace-node.service"] = true
	if _, err := m.uninstall(t.Context(), ""); !errors.Is(err, host.ErrNotStopped) || !m.is(ownUnits+"/pace-node.service") {
		t.Errorf("%v", err)
	}
}

// TestAccountWithoutSysusers: the same account by the tools of older systems.
func TestAccountWithoutSysusers(t *testing.T) {
	m := newMachine(t, "systemctl", "groupadd", "useradd", "usermod").systemd()
	m.fails["groupadd"] = "group 'pace-admin' already exists"
	m.installs(program, "the account pace-node is made", ownUnits+"/pace-node.service runs /usr/local/bin/pace-node", "pace-node.service is enabled", "pace-node.service is started")
	if d := cmp.Diff([]string{"groupadd --system pace-admin",
		"useradd --system --user-group --no-create-home --home-dir /var/lib/pace-node --shell /usr/sbin/nologin --comment Pace fleet node pace-node",
		"usermod -a -G pace-admin pace-node"}, m.asked[:3]); d != "" {
		t.Error(d)
	}
	m = newMachine(t, "systemctl").systemd()
	m.refuses(program, os.ErrNotExist, "systemd-sysusers", "make a system account")
}

// TestImageWithoutARunningSystemd: where an image is made, the unit is written and enabled, and nothing starts.
func TestImageWithoutARunningSystemd(t *testing.T) {
	m := newMachine(t, "systemctl")
	m.account = true
	o, err := m.install(t.Context(), program)
	if d := cmp.Diff([]string{ownUnits + "/pace-node.service runs /usr/local/bin/pace-node", "pace-node.service is enabled"}, o.Did); err != nil || d != "" || len(o.Notes) != 1 {
		t.Errorf("%+v, %v\n%s", o, err, d)
	}
	m.commands("systemctl enable --quiet pace-node.service")
}

type fakeInit struct {
	name, program, root string
	running             bool
	did                 []string
	fail                error
}

func (f *fakeInit) Platform() string { return "unix-systemv" }
func (f *fakeInit) Script() string   { return "/etc/init.d/" + f.name }
func (f *fakeInit) Running() bool    { return f.running }
func (f *fakeInit) do(what string) error {
	f.did = append(f.did, what)
	return f.fail
}
func (f *fakeInit) Install() error {
	if err := os.MkdirAll(f.root+"/etc/init.d", 0o755); err != nil {
		return err
	}
	return errors.Join(f.do("install"), os.WriteFile(f.root+f.Script(), []byte("cmd="+f.program), 0o755))
}
func (f *fakeInit) Uninstall() error {
	return errors.Join(f.do("uninstall"), os.Remove(f.root+f.Script()))
}
func (f *fakeInit) Start() error   { f.running = true; return f.do("start") }
func (f *fakeInit) Stop() error    { f.running = false; return f.do("stop") }
func (f *fakeInit) Restart() error { return f.do("restart") }

func TestOtherInitSystems(t *testing.T) {
	m := newMachine(t)
	m.other = &fakeInit{}
	r := program
	r.Keep = kept("PACE_NAME", "x")
	m.installs(r, "/etc/default/pace-node holds PACE_NAME", "/etc/init.d/pace-node runs /usr/local/bin/pace-node", "pace-node is started")
	if !m.installed() {
		t.Error("not installed")
	}
	m.installs(r)
	r.Keep = kept("PACE_NAME", "y")
	m.installs(r, "/etc/default/pace-node holds PACE_NAME", "pace-node is restarted")
	m.refuses(host.Registration{Program: "/opt/other"}, host.ErrOther, "runs another program")
	m.refuses(host.Registration{Program: "/opt/a b"}, host.ErrPlace, "blank")
	m.place = func(string) (string, error) { return "/opt/x is not root's", nil }
	m.refuses(host.Registration{Program: "/opt/x"}, host.ErrPlace, "is not root's")
	o, err := m.uninstall(t.Context(), "")
	if d := cmp.Diff([]string{"pace-node is stopped", "/etc/init.d/pace-node is removed"}, o.Did); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	if o, err = m.uninstall(t.Context(), ""); err != nil || len(o.Did) != 0 {
		t.Errorf("%+v, %v", o, err)
	}
	if d := cmp.Diff([]string{"install", "start", "restart", "stop", "uninstall"}, m.other.did); d != "" {
		t.Error(d)
	}
	m.place = func(string) (string, error) { return "", nil }
	m.other.fail = errors.New("no")
	if _, err := m.install(t.Context(), program); err == nil || !strings.Contains(err.Error(), "unix-systemv") {
		t.Errorf("%v", err)
	}
}

func TestStatus(t *testing.T) {
	m := newMachine(t, "systemctl").systemd()
	status := func(name string, installed, running bool, start string) {
		t.Helper()
		st, err := m.status(t.Context())
		if err != nil || st.Name != name || st.Installed != installed || st.Running != running || st.Start != start || st.Stop == "" || st.Log == "" {
			t.Errorf("%+v, %v", st, err)
		}
	}
	status("pace-node", false, false, "sudo systemctl start pace-node")
	m.account = true
	r := program
	r.Name = "corp"
	m.installs(r, ownUnits+"/corp.service runs /usr/local/bin/pace-node", "corp.service is enabled", "corp.service is started")
	status("corp", true, true, "sudo systemctl start corp")
	m.active["corp.service"] = false
	status("corp", true, false, "sudo systemctl start corp")

	m = newMachine(t)
	m.other = &fakeInit{}
	status("pace-node", false, false, "sudo service pace-node start")
	m.installs(program, "/etc/init.d/pace-node runs /usr/local/bin/pace-node", "pace-node is started")
	status("pace-node", true, true, "sudo service pace-node start")
}

// TestScripts writes out where each init system keeps what starts a service.
func TestScripts(t *testing.T) {
	got := fmt.Sprint(scriptOf("linux-upstart", "a"), scriptOf("linux-openrc", "a"), scriptOf("linux-rcs", "a"), scriptOf("linux-procd", "a"), scriptOf("unix-systemv", "a"), scriptOf("linux-systemd", "a"))
	if got != "/etc/init/a.conf/etc/init.d/a/etc/init.d/a/etc/init.d/a/etc/init.d/a" {
		t.Error(got)
	}
}
