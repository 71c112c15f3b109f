package darwin

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"pace-node/internal/host"
	"pace-node/internal/statedir"
	"pace-node/packaging"
)

const (
	label           = "io.pace.node" // the package's too
	daemons         = "/Library/LaunchDaemons"
	packagedProgram = "/opt/pace-node/bin/pace-node"
	plistSuffix     = ".plist"
	plistMode       = 0o644
	settingsMode    = 0o600
	stateMode       = 0o700
	logFile         = "/var/log/pace-node.log"
	logTail         = 3    // lines of it that a failed start repeats
	logTailBytes    = 2048 // and how much of its end is read for them

	launchctl = "/bin/launchctl" // by its full path: PATH is the caller's
	firewall  = "/usr/libexec/ApplicationFirewall/socketfilterfw"
)

// How launchd is waited for. The plist's ExitTimeOut is 20 s; right after a bootout, a bootstrap fails for a while with
// 5, 37 or 125.
const (
	goneWait       = 40 * time.Second
	bootstrapTries = 10
	startWait      = 10 * time.Second
	launchdPause   = time.Second // between two questions
)

// plistMark is in a plist that --install-service wrote: nothing else is ever changed or removed.
const plistMark = "<!-- Written by the verb install-service of pace-node, and removed by its verb uninstall-service. -->"

// services registers and removes the daemon.
type services struct {
	root  string // "" = this machine; the folder of a test
	euid  int
	run   host.Runner
	place func(program string) (string, error)
}

// plistText is the package's daemon, for a program and a label of another name.
func plistText(name, program string) string {
	text := strings.Replace(packaging.Daemon, "<string>"+packagedProgram+"</string>", "<string>"+xmlText(program)+"</string>", 1)
	text = strings.Replace(text, "<string>"+label+"</string>", "<string>"+xmlText(name)+"</string>", 1)
	const after = "<plist version=\"1.0\">\n"
	return strings.Replace(text, after, plistMark+"\n"+after, 1)
}

func xmlText(s string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		return ""
	}
	return b.String()
}

var programOf = regexp.MustCompile(`<key>ProgramArguments</key>\s*<array>\s*<string>([^<]*)</string>`)

// programIn is the program that a plist of ours runs.
func programIn(plist string) string {
	m := programOf.FindStringSubmatch(plist)
	if m == nil {
		return ""
	}
	return strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">", "&#39;", "'", "&#34;", `"`).Replace(m[1])
}

func (s *services) at(path string) string { return s.root + path }

func (s *services) is(path string) bool {
	_, err := os.Stat(s.at(path))
	return err == nil
}

func plistOf(name string) string { return path.Join(daemons, name+plistSuffix) }

// ours reports whether --install-service wrote a plist.
func (s *services) ours(plist string) bool {
	info, err := os.Lstat(s.at(plist))
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	data, err := os.ReadFile(s.at(plist))
	return err == nil && bytes.Contains(data, []byte(plistMark))
}

// own lists the labels whose plists --install-service wrote.
func (s *services) own() (names []string) {
	found, _ := filepath.Glob(s.at(daemons) + "/*" + plistSuffix)
	for _, file := range found {
		if name := filepath.Base(file); s.ours(path.Join(daemons, name)) {
			names = append(names, strings.TrimSuffix(name, plistSuffix))
		}
	}
	return names
}

// packaged reports whether the package's daemon is there.
func (s *services) packaged() bool {
	return s.is(packagedProgram) && s.is(plistOf(label)) && !s.ours(plistOf(label))
}

func (s *services) installed() bool { return s.is(plistOf(label)) || len(s.own()) > 0 }

var settingsFile = path.Join(systemState, envFile)

func (s *services) stored() (map[string]host.Setting, error) {
	data, err := os.ReadFile(s.at(settingsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return host.ParseEnvFile(settingsFile, data)
}

// keep puts settings into the file that the daemon and pacectl read.
func (s *services) keep(o *host.Outcome, r host.Registration) error {
	err := os.Mkdir(s.at(systemState), stateMode)
	switch {
	case err == nil:
		o.Change(systemState + " is made")
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	if info, err := os.Lstat(s.at(systemState)); err != nil {
		return err
	} else if !info.IsDir() {
		return &host.Refusal{Err: host.ErrPlace, Wrong: systemState + " is no folder, and what it points at could be turned elsewhere", Mended: "put the folder itself there, and run this again"}
	}
	if len(r.Keep) == 0 {
		return nil
	}
	file := s.at(settingsFile)
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	values, names := map[string]string{}, []string{}
	for _, k := range r.Keep {
		values[k.Key] = k.Text()
		names = append(names, k.Key)
	}
	data, err := host.SetEnvFile(settingsFile, old, values)
	if err != nil {
		return &host.Refusal{Err: err, Wrong: err.Error(), Mended: "mend that line of the file, or move the file away, and run this again"}
	}
	if bytes.Equal(old, data) {
		return nil
	}
	if err := statedir.WriteFileAtomic(file, data, settingsMode, nil); err != nil {
		return err
	}
	o.Change(settingsFile + " holds " + strings.Join(names, ", "))
	return nil
}

// install registers the daemon and starts it.
func (s *services) install(ctx context.Context, r host.Registration) (host.Outcome, error) {
	o := host.Outcome{StateDir: systemState, Settings: settingsFile}
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
	o.Service = host.KeptName(r.Name, stored, label)
	program, text, plist := r.Program, "", plistOf(o.Service)
	switch others := slices.DeleteFunc(s.own(), func(name string) bool { return name == o.Service }); {
	case s.packaged() && o.Service != label:
		return o, &host.Refusal{Err: host.ErrOther, Wrong: "a package installed the daemon as " + label + ", and there is one a machine",
			Mended: "leave --service-name out, or first: sudo pace-node-uninstall"}
	case s.packaged():
		program = packagedProgram
	case s.is(plist) && !s.ours(plist):
		return o, &host.Refusal{Err: host.ErrOther, Wrong: plist + " is there, and --install-service did not write it", Mended: "give another --service-name, or move it away"}
	case len(others) > 0:
		return o, &host.Refusal{Err: host.ErrOther, Wrong: "the daemon is registered as " + others[0] + ", and there is one a machine",
			Mended: "leave --service-name out, or first: sudo pace-node --uninstall-service"}
	default:
		if err := s.mayRun(program); err != nil {
			return o, err
		}
		text = plistText(o.Service, program)
	}
	if err := s.keep(&o, r); err != nil {
		return o, err
	}
	if len(r.Allow) > 0 {
		o.Note("macOS's application firewall knows programs and no addresses: --firewall-allow does nothing with it")
	}
	s.tellFirewall(ctx, &o, program)
	return o, s.load(ctx, &o, plist, text)
}

func (s *services) mayRun(program string) error {
	const move = "put it where only root can change it, and run that one: sudo mkdir -p /opt/pace-node/bin, then: sudo install -m 755 pace-node " + packagedProgram
	if strings.ContainsFunc(program, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return &host.Refusal{Err: host.ErrPlace, Wrong: fmt.Sprintf("%q holds a control character", program), Mended: move}
	}
	why, err := s.place(program)
	if err != nil {
		return err
	}
	if why != "" {
		return &host.Refusal{Err: host.ErrPlace, Wrong: why + ", and whoever can change " + program + " would be root", Mended: move}
	}
	return nil
}

// firewallArgs tell the application firewall, which goes by path, that a program may be reached.
func firewallArgs(program string) [][]string {
	return [][]string{{"--add", program}, {"--unblockapp", program}}
}

// tellFirewall notes what was refused: where a profile keeps the firewall, it refuses, and that is the profile's to say.
func (s *services) tellFirewall(ctx context.Context, o *host.Outcome, program string) {
	if !s.is(firewall) {
		return
	}
	for _, args := range firewallArgs(program) {
		if r, err := s.run(ctx, "", firewall, args...); err != nil || r.Code != 0 {
			o.Note("the application firewall was not told; where it is on: sudo " + firewall + " " + args[0] + " " + host.ShellQuote(program))
		}
	}
}

// named is the label that is registered, or would be.
func (s *services) named() string {
	stored, err := s.stored() // an ordinary user may not read it
	if own := s.own(); len(own) == 1 && (err != nil || stored["PACE_SERVICE_NAME"].Value == "") {
		return own[0]
	}
	return host.KeptName("", stored, label)
}

// status asks launchd.
func (s *services) status(ctx context.Context) (host.State, error) {
	name := s.named()
	st := host.State{Name: name, Installed: s.installed(), Log: "sudo tail " + logFile, Stop: "sudo launchctl bootout " + target(name),
		Start: "sudo launchctl bootstrap system " + host.ShellQuote(plistOf(name))}
	if !st.Installed {
		return st, nil
	}
	r, err := s.launchctl(ctx, "print", target(name))
	if err == nil && r.Code == 0 {
		st.Running = strings.Contains(r.Out, "state = running")
		st.Start = "sudo launchctl kickstart -k " + target(name) // it is loaded
	}
	return st, err
}

func (s *services) launchctl(ctx context.Context, args ...string) (host.Result, error) {
	return s.run(ctx, "", launchctl, args...)
}

func target(name string) string { return "system/" + name }

// loaded is what launchd tells of a daemon, ok only while it knows it.
func (s *services) loaded(ctx context.Context, name string) (told string, ok bool) {
	r, err := s.launchctl(ctx, "print", target(name))
	return r.Out, err == nil && r.Code == 0
}

// isDisabled reads what launchctl print-disabled prints: before macOS 13 a disabled label reads true.
func isDisabled(printed, name string) bool {
	for line := range strings.Lines(printed) {
		before, after, found := strings.Cut(strings.TrimSpace(line), " => ")
		if found && before == `"`+name+`"` {
			return after == "disabled" || after == "true"
		}
	}
	return false
}

// load writes the plist, if text is one, and makes launchd run what it says.
func (s *services) load(ctx context.Context, o *host.Outcome, plist, text string) error {
	old, err := os.ReadFile(s.at(plist))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	wrote := text != "" && string(old) != text
	if wrote {
		if err := os.MkdirAll(s.at(daemons), 0o755); err != nil {
			return err
		}
		if err := statedir.WriteFileAtomic(s.at(plist), []byte(text), plistMode, nil); err != nil {
			return err
		}
		o.Change(plist + " runs " + programIn(text))
	}
	if r, err := s.launchctl(ctx, "print", "system"); err != nil || r.Code != 0 {
		o.Note("launchd does not run here: the daemon starts with this volume")
		return nil
	}
	if r, err := s.launchctl(ctx, "print-disabled", "system"); err == nil && isDisabled(r.Out, o.Service) {
		if err := must(s.launchctl(ctx, "enable", target(o.Service))); err != nil {
			return fmt.Errorf("launchctl enable %s: %w", target(o.Service), err)
		}
		o.Change(o.Service + " is enabled")
	}
	_, loaded := s.loaded(ctx, o.Service)
	if loaded && wrote {
		if err := s.bootOut(ctx, o.Service); err != nil {
			return err
		}
		loaded = false
	}
	switch {
	case !loaded:
		if err := s.bootstrap(ctx, o.Service, plist); err != nil {
			return err
		}
		o.Change(o.Service + " is loaded")
	case len(o.Did) > 0:
		if err := must(s.launchctl(ctx, "kickstart", "-k", target(o.Service))); err != nil {
			return fmt.Errorf("launchctl kickstart -k %s: %w", target(o.Service), err)
		}
		o.Change(o.Service + " is restarted")
	}
	return s.comesUp(ctx, o.Service)
}

func must(r host.Result, err error) error {
	if err == nil && r.Code != 0 {
		line, _, _ := strings.Cut(r.Out, "\n")
		err = fmt.Errorf("status %d: %s", r.Code, line)
	}
	return err
}

// until asks again and again, and reports whether the answer became yes in time.
func until(ctx context.Context, limit time.Duration, yes func() bool) bool {
	for waited := time.Duration(0); !yes(); waited += launchdPause {
		if waited >= limit {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(launchdPause):
		}
	}
	return true
}

// bootOut ends a daemon and waits until it is gone. Its own answer says little: a daemon that takes its time to end makes
// it say "Operation now in progress".
func (s *services) bootOut(ctx context.Context, name string) error {
	_, err := s.launchctl(ctx, "bootout", target(name))
	gone := until(ctx, goneWait, func() bool { _, loaded := s.loaded(ctx, name); return !loaded })
	if err == nil && !gone {
		err = fmt.Errorf("it is still there after %s", goneWait)
	}
	if err != nil {
		return &host.Refusal{Err: errors.Join(host.ErrNotStopped, err), Wrong: name + " does not end: " + err.Error(), Mended: "restart this Mac, or end its process, then this again"}
	}
	return nil
}

func (s *services) bootstrap(ctx context.Context, name, plist string) error {
	var err error
	for range bootstrapTries {
		if err = must(s.launchctl(ctx, "bootstrap", "system", plist)); err == nil {
			return nil
		}
		if _, loaded := s.loaded(ctx, name); loaded {
			return nil // the try that failed, or launchd itself, did it after all
		}
		until(ctx, launchdPause, func() bool { return ctx.Err() != nil })
	}
	return &host.Refusal{Err: errors.Join(host.ErrNotStarted, err), Wrong: name + " is registered and launchd does not load it: " + err.Error(),
		Mended: "it starts with this Mac; to try again: sudo launchctl bootstrap system " + host.ShellQuote(plist)}
}

// comesUp waits for the daemon to run. It is not waited for beyond that: no network, name or peer is needed.
func (s *services) comesUp(ctx context.Context, name string) error {
	if until(ctx, startWait, func() bool { told, _ := s.loaded(ctx, name); return strings.Contains(told, "state = running") }) {
		return nil
	}
	return &host.Refusal{Err: host.ErrNotStarted, Wrong: name + " is registered and does not run: " + s.tail(), Mended: "after mending that: sudo launchctl kickstart -k " + target(name)}
}

// tail is the end of the daemon's log.
func (s *services) tail() string {
	data, err := os.ReadFile(s.at(logFile))
	if err != nil {
		return logFile + " may say why"
	}
	data = data[max(0, len(data)-logTailBytes):]
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(data), "")), "\n")
	return strings.Join(lines[max(0, len(lines)-logTail):], " / ")
}

// uninstall ends and removes the daemon; a package's is switched off.
func (s *services) uninstall(ctx context.Context, name string) (host.Outcome, error) {
	o := host.Outcome{StateDir: systemState, Settings: settingsFile}
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
	o.Service = host.KeptName(name, stored, label)
	if own := s.own(); name == "" && len(own) == 1 {
		o.Service = own[0]
	}
	plist := plistOf(o.Service)
	if !s.is(plist) {
		return o, nil
	}
	packaged := s.packaged() && o.Service == label
	if !s.ours(plist) && !packaged {
		return o, &host.Refusal{Err: host.ErrOther, Wrong: plist + " was not written by --install-service", Mended: "remove it as it was made"}
	}
	if _, loaded := s.loaded(ctx, o.Service); loaded {
		if err := s.bootOut(ctx, o.Service); err != nil {
			return o, err
		}
		o.Change(o.Service + " is ended")
	}
	if packaged {
		if r, err := s.launchctl(ctx, "print-disabled", "system"); err == nil && !isDisabled(r.Out, label) {
			if err := must(s.launchctl(ctx, "disable", target(label))); err != nil {
				return o, fmt.Errorf("launchctl disable %s: %w", target(label), err)
			}
			o.Change(label + " is disabled")
		}
		o.Note("the package stays; sudo pace-node-uninstall removes it")
		return o, nil
	}
	data, err := os.ReadFile(s.at(plist))
	if err != nil {
		return o, err
	}
	if err := os.Remove(s.at(plist)); err != nil {
		return o, err
	}
	o.Change(plist + " is removed")
	if program := programIn(string(data)); program != "" && s.is(firewall) {
		if r, err := s.run(ctx, "", firewall, "--remove", program); err != nil || r.Code != 0 {
			o.Note("the application firewall may still list it: sudo " + firewall + " --remove " + host.ShellQuote(program))
		}
	}
	return o, nil
}
