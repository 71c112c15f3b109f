package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pace-node/internal/host"
	"pace-node/internal/statedir"
	"pace-node/packaging"
)

const (
	serviceName  = "pace-node" // the packages' too
	unitSuffix   = ".service"
	ownUnits     = "/etc/systemd/system" // where an administrator's units are, and those that --install-service writes
	systemdRuns  = "/run/systemd/system" // is there while systemd is the init system, sd_booted(3)
	unitMode     = 0o644
	settingsMode = 0o644 // as the packages install it: an ordinary user's pacectl reads it too
	stateMode    = 0o700
	journalLines = "3"
)

// unitMark is the first line of a unit that --install-service wrote: nothing else is ever changed or removed.
const unitMark = "# Written by pace-node --install-service, and removed by pace-node --uninstall-service. Your own lines: systemctl edit"

// packagedUnits are the folders of units that packages install.
var packagedUnits = []string{"/usr/lib/systemd/system", "/lib/systemd/system"}

// programDirs are where the system's programs are; PATH is the caller's.
var programDirs = []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin"}

// hidden are folders whose programs the unit's sandbox cannot run: ProtectHome= and PrivateTmp=.
var hidden = []string{"/home", "/root", "/run/user", "/tmp", "/var/tmp"}

// initSystem is a service manager other than systemd.
type initSystem interface {
	Platform() string
	Script() string // what would be written
	Install() error
	Uninstall() error
	Start() error
	Stop() error
	Restart() error
	Running() bool
}

// services registers and removes the service.
type services struct {
	root    string // "" = this machine; the folder of a test
	euid    int
	run     host.Runner
	find    func(program string) string // its path, "" = it is not there
	account func() (uid, gid int, ok bool)
	place   func(program string) (string, error)
	other   func(name, program string) (initSystem, error)
	exe     func(pid string) string // the program of a process
}

// unitText is the packages' unit, for a program and a state directory elsewhere.
func unitText(program, state string) string {
	text := strings.Replace(packaging.Unit, "\nExecStart=/usr/bin/pace-node\n", "\nExecStart="+unitWord(program)+"\n", 1)
	if state != "" && filepath.Clean(state) != systemState {
		const after = "\nStateDirectoryMode=0700\n"
		text = strings.Replace(text, after, after+"ReadWritePaths="+unitWord(state)+"\n", 1)
	}
	return unitMark + "\n" + text
}

// unitWord quotes a path for systemd: specifiers begin with %.
func unitWord(path string) string {
	path = strings.ReplaceAll(path, "%", "%%")
	if !strings.ContainsAny(path, " \t\"'\\;$") {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
}

func (s *services) at(path string) string { return s.root + path }

func (s *services) is(path string) bool {
	_, err := os.Stat(s.at(path))
	return err == nil
}

// ours reports whether --install-service wrote a unit.
func (s *services) ours(path string) bool {
	info, err := os.Lstat(s.at(path))
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	data, err := os.ReadFile(s.at(path))
	return err == nil && bytes.HasPrefix(data, []byte(unitMark+"\n"))
}

// own lists the services whose units --install-service wrote.
func (s *services) own() (names []string) {
	found, _ := filepath.Glob(s.at(ownUnits) + "/*" + unitSuffix)
	for _, path := range found {
		if name := filepath.Base(path); s.ours(filepath.Join(ownUnits, name)) {
			names = append(names, strings.TrimSuffix(name, unitSuffix))
		}
	}
	return names
}

// packaged is the unit that a package installed, or "".
func (s *services) packaged() string {
	for _, dir := range packagedUnits {
		if path := filepath.Join(dir, unitName); s.is(path) {
			return path
		}
	}
	return ""
}

// installed reports whether the service is registered, by a package or by --install-service.
func (s *services) installed() bool {
	if s.packaged() != "" || s.is(filepath.Join(ownUnits, unitName)) || len(s.own()) > 0 {
		return true
	}
	for platform := range scripts {
		if s.is(scriptOf(platform, serviceName)) {
			return true
		}
	}
	return false
}

func (s *services) stored() (map[string]host.Setting, error) {
	data, err := os.ReadFile(s.at(settings))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return host.ParseEnvFile(settings, data)
}

// keep puts settings into the file that the service and every shell's pacectl read.
func (s *services) keep(o *host.Outcome, r host.Registration) error {
	o.Settings = settings
	if len(r.Keep) == 0 {
		return nil
	}
	path := s.at(settings)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	mode := fs.FileMode(settingsMode)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	values, names := map[string]string{}, []string{}
	for _, k := range r.Keep {
		values[k.Key] = k.Text()
		names = append(names, k.Key)
	}
	data, err := host.SetEnvFile(settings, old, values)
	if err != nil {
		return &host.Refusal{Err: err, Wrong: err.Error(), Mended: "mend that line of the file, or move the file away, and run this again"}
	}
	if bytes.Equal(old, data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := statedir.WriteFileAtomic(path, data, mode, nil); err != nil {
		return err
	}
	o.Change(settings + " holds " + strings.Join(names, ", "))
	return nil
}

// install registers the service and starts it.
func (s *services) install(ctx context.Context, r host.Registration) (host.Outcome, error) {
	o := host.Outcome{StateDir: systemState, Settings: settings}
	if r.StateDir != "" {
		o.StateDir = r.StateDir
	}
	if s.euid != 0 {
		return o, host.ErrPrivilege
	}
	stored, err := s.stored()
	if err != nil {
		return o, err
	}
	o.Service = strings.TrimSuffix(host.KeptName(r.Name, stored, serviceName), unitSuffix)
	if len(r.Allow) > 0 {
		o.Note("no firewall of this machine is changed: pace-node --print-surfaces lists what it has to admit, from " + strings.Join(r.Allow, ", "))
	}
	if s.find("systemctl") == "" && !s.is(systemdRuns) {
		return o, s.installOther(&o, r)
	}
	if unit := s.packaged(); unit != "" {
		return o, s.enablePackaged(ctx, &o, r, unit)
	}
	return o, s.installUnit(ctx, &o, r)
}

// enablePackaged enables the package's unit: one of ours beside it would shadow it, and every later one.
func (s *services) enablePackaged(ctx context.Context, o *host.Outcome, r host.Registration, unit string) error {
	if o.Service != serviceName {
		return &host.Refusal{Err: host.ErrOther, Wrong: "a package installed the service as " + unitName + " (" + unit + "), and there is one service a machine",
			Mended: "leave --service-name out, or remove the package first"}
	}
	if filepath.Clean(o.StateDir) != systemState {
		return &host.Refusal{Err: host.ErrOther, Wrong: "the package's unit keeps the state in " + systemState + ", and may write nowhere else",
			Mended: "leave --state-dir out, or remove the package first"}
	}
	shadow := filepath.Join(ownUnits, unitName)
	if err := s.masked(shadow); err != nil {
		return err
	}
	reload := false
	switch {
	case s.ours(shadow):
		if err := os.Remove(s.at(shadow)); err != nil {
			return err
		}
		o.Change(shadow + " is removed: it hid the package's unit")
		reload = true
	case s.is(shadow):
		o.Note(shadow + " is somebody's own, and is used in place of the package's " + unit)
	}
	if err := s.keep(o, r); err != nil {
		return err
	}
	return s.bringUp(ctx, o, "", reload)
}

// masked refuses what an administrator switched off for good.
func (s *services) masked(unit string) error {
	if to, err := os.Readlink(s.at(unit)); err == nil && to == os.DevNull {
		return &host.Refusal{Err: host.ErrOther, Wrong: filepath.Base(unit) + " is masked: somebody said that it must not run",
			Mended: "if that is over: sudo systemctl unmask " + filepath.Base(unit)}
	}
	return nil
}

// installUnit writes a unit of this program's.
func (s *services) installUnit(ctx context.Context, o *host.Outcome, r host.Registration) error {
	if err := s.mayRun(r.Program); err != nil {
		return err
	}
	unit := filepath.Join(ownUnits, o.Service+unitSuffix)
	if err := s.masked(unit); err != nil {
		return err
	}
	if s.is(unit) && !s.ours(unit) {
		return &host.Refusal{Err: host.ErrOther, Wrong: unit + " is there, and --install-service did not write it",
			Mended: "give another --service-name, or move it away"}
	}
	if others := slices.DeleteFunc(s.own(), func(name string) bool { return name == o.Service }); len(others) > 0 {
		return &host.Refusal{Err: host.ErrOther, Wrong: "the service is registered as " + others[0] + ", and there is one service a machine",
			Mended: "leave --service-name out, or first: sudo pace-node --uninstall-service"}
	}
	if err := s.accounts(ctx, o); err != nil {
		return err
	}
	if err := s.keep(o, r); err != nil {
		return err
	}
	if err := s.state(o); err != nil {
		return err
	}
	text := unitText(r.Program, o.StateDir)
	old, err := os.ReadFile(s.at(unit))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	wrote := string(old) != text
	if wrote {
		if err := os.MkdirAll(s.at(ownUnits), 0o755); err != nil {
			return err
		}
		if err := statedir.WriteFileAtomic(s.at(unit), []byte(text), unitMode, nil); err != nil {
			return err
		}
		o.Change(unit + " runs " + r.Program)
	}
	return s.bringUp(ctx, o, r.Program, wrote)
}

// mayRun refuses a program that the unit cannot run, or that others could put another one in the place of.
func (s *services) mayRun(program string) error {
	const move = "put it where only root can change it, and run that one: sudo install -m 755 pace-node /usr/local/bin/pace-node"
	if strings.ContainsFunc(program, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return &host.Refusal{Err: host.ErrPlace, Wrong: fmt.Sprintf("%q holds a control character", program), Mended: move}
	}
	for _, dir := range hidden {
		if strings.HasPrefix(program, dir+"/") {
			return &host.Refusal{Err: host.ErrPlace, Wrong: program + " is below " + dir + ", which the service's sandbox does not see", Mended: move}
		}
	}
	why, err := s.place(program)
	if err != nil {
		return err
	}
	if why != "" {
		return &host.Refusal{Err: host.ErrPlace, Wrong: why + ", and whoever can change " + program + " would be the service", Mended: move}
	}
	return nil
}

// Arguments that make the account and the group where systemd-sysusers is missing, as the packages' scripts do.
var (
	addGroup   = []string{"groupadd", "--system", "pace-admin"}
	addAccount = []string{"useradd", "--system", "--user-group", "--no-create-home", "--home-dir", systemState, "--shell", "/usr/sbin/nologin", "--comment", "Pace fleet node", account}
	addMember  = []string{"usermod", "-a", "-G", "pace-admin", account}
)

// accounts makes the account that the unit names.
func (s *services) accounts(ctx context.Context, o *host.Outcome) error {
	if _, _, ok := s.account(); ok {
		return nil
	}
	if program := s.find("systemd-sysusers"); program != "" {
		if err := s.must(s.run(ctx, packaging.Sysusers, program, "-")); err != nil {
			return fmt.Errorf("make the account %s: %w", account, err)
		}
	} else {
		for _, args := range [][]string{addGroup, addAccount, addMember} {
			program := s.find(args[0])
			if program == "" {
				return &host.Refusal{Err: fs.ErrNotExist, Wrong: "there is neither systemd-sysusers nor " + args[0] + " to make the account " + account + " with",
					Mended: "make a system account and a group of that name, and a group pace-admin with the account in it"}
			}
			// A group that is there already is no failure: whether the account is, is looked at below.
			if err := s.must(s.run(ctx, "", program, args[1:]...)); err != nil && args[0] != "groupadd" {
				return fmt.Errorf("make the account %s: %w", account, err)
			}
		}
	}
	if _, _, ok := s.account(); !ok {
		return fmt.Errorf("the account %s was made, and is not there", account)
	}
	o.Change("the account " + account + " is made")
	return nil
}

// state makes a state directory elsewhere than at the platform's place, which systemd makes by itself.
func (s *services) state(o *host.Outcome) error {
	if filepath.Clean(o.StateDir) == systemState {
		return nil
	}
	if strings.HasPrefix(o.StateDir, "/home/") || strings.HasPrefix(o.StateDir, "/root/") {
		return &host.Refusal{Err: host.ErrPlace, Wrong: o.StateDir + " is in a home folder, which the service's sandbox does not see", Mended: "give another --state-dir"}
	}
	err := os.Mkdir(s.at(o.StateDir), stateMode)
	if errors.Is(err, fs.ErrExist) {
		return nil // the node judges it
	}
	if err != nil {
		return &host.Refusal{Err: err, Wrong: err.Error(), Mended: "make the folder above it, or give another --state-dir"}
	}
	uid, gid, _ := s.account()
	if err := os.Chown(s.at(o.StateDir), uid, gid); err != nil {
		return err
	}
	o.Change(o.StateDir + " is made, for the account " + account)
	return nil
}

// named is the service that is registered, or would be.
func (s *services) named() string {
	stored, err := s.stored()
	if own := s.own(); len(own) == 1 && (err != nil || stored["PACE_SERVICE_NAME"].Value == "") {
		return own[0]
	}
	return strings.TrimSuffix(host.KeptName("", stored, serviceName), unitSuffix)
}

// status asks whichever init system there is.
func (s *services) status(ctx context.Context) (host.State, error) {
	name := s.named()
	if s.find("systemctl") == "" && !s.is(systemdRuns) {
		st := host.State{Name: name, Start: "sudo service " + name + " start", Stop: "sudo service " + name + " stop", Log: "tail /var/log/" + name + ".err"}
		m, err := s.other(name, "")
		if err != nil {
			return st, err
		}
		if st.Installed = s.is(m.Script()); st.Installed {
			st.Running = m.Running()
		}
		return st, nil
	}
	st := host.State{Name: name, Installed: s.installed(), Start: "sudo systemctl start " + name, Stop: "sudo systemctl stop " + name, Log: "journalctl -u " + name + " -n 20"}
	if !st.Installed || !s.is(systemdRuns) {
		return st, nil
	}
	r, err := s.systemctl(ctx, "is-active", "--quiet", name+unitSuffix)
	st.Running = err == nil && r.Code == 0
	return st, err
}

// systemctl runs systemctl.
func (s *services) systemctl(ctx context.Context, args ...string) (host.Result, error) {
	return s.run(ctx, "", s.find("systemctl"), args...)
}

// must makes an error of a status other than 0.
func (s *services) must(r host.Result, err error) error {
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("status %d: %s", r.Code, firstLine(r.Out))
	}
	return err
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// bringUp makes systemd know the unit, enables it, and starts it, or starts it anew where what it runs on has changed.
// program is what runs, or "" where it is the package's.
func (s *services) bringUp(ctx context.Context, o *host.Outcome, program string, reload bool) error {
	unit, changed := o.Service+unitSuffix, len(o.Did) > 0
	live := s.is(systemdRuns)
	if reload && live {
		if err := s.must(s.systemctl(ctx, "daemon-reload")); err != nil {
			return fmt.Errorf("systemctl daemon-reload: %w", err)
		}
	}
	if r, err := s.systemctl(ctx, "is-enabled", "--quiet", unit); err != nil {
		return err
	} else if r.Code != 0 {
		if err := s.must(s.systemctl(ctx, "enable", "--quiet", unit)); err != nil {
			return fmt.Errorf("systemctl enable %s: %w", unit, err)
		}
		o.Change(unit + " is enabled")
	}
	if !live {
		o.Note("systemd does not run here: the service starts with the machine")
		return nil
	}
	r, err := s.systemctl(ctx, "is-active", "--quiet", unit)
	if err != nil {
		return err
	}
	verb := "start"
	if r.Code == 0 {
		if verb = "restart"; !changed && s.runs(ctx, unit, program) {
			return nil
		}
	}
	if err := s.must(s.systemctl(ctx, verb, unit)); err != nil {
		return &host.Refusal{Err: errors.Join(host.ErrNotStarted, err), Wrong: unit + " is registered and did not start: " + s.why(ctx, unit, err),
			Mended: "systemctl status " + unit + " says more; after mending that: sudo systemctl restart " + unit}
	}
	o.Change(unit + " is " + verb + "ed")
	return nil
}

// runs reports whether the process of a unit is the program, and not one that was replaced on the disk.
func (s *services) runs(ctx context.Context, unit, program string) bool {
	r, err := s.systemctl(ctx, "show", "--property=MainPID", "--value", unit)
	if err != nil || r.Code != 0 || r.Out == "" {
		return true // nothing tells that it is not
	}
	exe := s.exe(r.Out)
	return exe == "" || exe == program || program == "" && !strings.HasSuffix(exe, " (deleted)")
}

// why is the end of what the unit's own processes logged, where there is a journal.
func (s *services) why(ctx context.Context, unit string, err error) string {
	if program := s.find("journalctl"); program != "" {
		if r, failed := s.run(ctx, "", program, "_SYSTEMD_UNIT="+unit, "--lines="+journalLines, "--output=cat", "--no-pager", "--quiet"); failed == nil && r.Code == 0 && r.Out != "" {
			return strings.Join(strings.Split(r.Out, "\n"), " / ")
		}
	}
	return err.Error()
}

// uninstall stops and removes the service; a package's is disabled.
func (s *services) uninstall(ctx context.Context, name string) (host.Outcome, error) {
	o := host.Outcome{StateDir: systemState, Settings: settings}
	if s.euid != 0 {
		return o, host.ErrPrivilege
	}
	stored, err := s.stored()
	if err != nil {
		o.Note("what is stored does not read, and stays as it is: " + err.Error())
	}
	if dir := stored["PACE_STATE_DIR"].Value; dir != "" {
		o.StateDir = dir
	}
	own := s.own()
	o.Service = strings.TrimSuffix(host.KeptName(name, stored, serviceName), unitSuffix)
	if name == "" && len(own) == 1 {
		o.Service = own[0]
	}
	unit := filepath.Join(ownUnits, o.Service+unitSuffix)
	switch {
	case s.find("systemctl") == "" && !s.is(systemdRuns):
		return o, s.uninstallOther(&o)
	case s.ours(unit):
		if err := s.disable(ctx, &o); err != nil {
			return o, err
		}
		if err := os.Remove(s.at(unit)); err != nil {
			return o, err
		}
		o.Change(unit + " is removed")
		if s.is(systemdRuns) {
			if err := s.must(s.systemctl(ctx, "daemon-reload")); err != nil {
				return o, fmt.Errorf("systemctl daemon-reload: %w", err)
			}
		}
		if s.is(unit + ".d") {
			o.Note(unit + ".d is somebody's own, and stays")
		}
		o.Note("the account " + account + " stays, since the state is its own")
	case o.Service == serviceName && s.packaged() != "":
		if err := s.disable(ctx, &o); err != nil {
			return o, err
		}
		o.Note("the package stays; apt remove pace-node, or dnf remove pace-node, removes it")
	case s.is(unit):
		return o, &host.Refusal{Err: host.ErrOther, Wrong: unit + " was not written by --install-service", Mended: "remove it as it was made"}
	}
	return o, nil
}

// disable stops a unit and keeps it from starting.
func (s *services) disable(ctx context.Context, o *host.Outcome) error {
	unit := o.Service + unitSuffix
	if s.is(systemdRuns) {
		if r, err := s.systemctl(ctx, "is-active", "--quiet", unit); err != nil {
			return err
		} else if r.Code == 0 {
			if err := s.must(s.systemctl(ctx, "stop", unit)); err != nil {
				return &host.Refusal{Err: errors.Join(host.ErrNotStopped, err), Wrong: unit + " does not stop: " + err.Error(),
					Mended: "sudo systemctl kill -s KILL " + unit + ", then this again"}
			}
			o.Change(unit + " is stopped")
		}
	}
	if r, err := s.systemctl(ctx, "is-enabled", "--quiet", unit); err != nil {
		return err
	} else if r.Code == 0 {
		if err := s.must(s.systemctl(ctx, "disable", "--quiet", unit)); err != nil {
			return fmt.Errorf("systemctl disable %s: %w", unit, err)
		}
		o.Change(unit + " is disabled")
	}
	return nil
}
