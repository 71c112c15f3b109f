//go:build linux && packages

package packages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// What Wine cannot show of the package is listed in docs/verified.md: what Windows Installer takes back when an upgrade fails,
// repair, the effect of the tables that Wine does not know, elevation.

const (
	settingsKey = `HKLM\Software\Pace\Node`
	productsKey = `HKLM\Software\Microsoft\Windows\CurrentVersion\Uninstall`

	// Statuses of msiexec, of which Wine keeps the low byte.
	msiFailed  = 1603 & 255 // ERROR_INSTALL_FAILURE
	msiRefused = 1627 & 255 // what Wine makes of a custom action that did not succeed
)

var msiBuilt struct {
	sync.Mutex
	files map[string]string // by version
}

// msi builds the package of a version around the program for Wine; everything else of it is as it is shipped.
func msi(t *testing.T, version string) string {
	t.Helper()
	program := wineProgram(t, version)
	msiBuilt.Lock()
	defer msiBuilt.Unlock()
	if file := msiBuilt.files[version]; file != "" {
		return file
	}
	out := fromRoot(t, wineHeld+"msi/"+version)
	cmd := exec.Command("go", "run", "./cmd/mkmsi", "-arch", "amd64", "-version", version, "-program", program, "-out", out)
	cmd.Dir = fromRoot(t, "installer")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mkmsi: %v\n%s", err, said)
	}
	found, err := filepath.Glob(filepath.Join(out, "*.msi"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s has %v", out, found)
	}
	if msiBuilt.files == nil {
		msiBuilt.files = map[string]string{}
	}
	msiBuilt.files[version] = found[0]
	return found[0]
}

// bootMSI is a Windows 10 with the packages of both versions at C:\0.0.1.msi and C:\0.0.2.msi, and a netsh that remembers.
func bootMSI(t *testing.T, network string) *wine {
	t.Helper()
	old, next := msi(t, oldVersion), msi(t, newVersion)
	w := bootWine(t, "win1", network)
	w.run("winecfg", "/v", "win10")
	w.withNetsh()
	w.put(old, `C:\`+oldVersion+`.msi`)
	w.put(next, `C:\`+newVersion+`.msi`)
	return w
}

// line runs what an administrator types, exactly as it is typed: what starts a program from here would quote it anew.
func (w *wine) line(typed string) int {
	w.t.Helper()
	if err := os.WriteFile(w.path(`C:\typed.bat`), []byte("@"+typed+"\r\n@exit /b %errorlevel%\r\n"), 0o644); err != nil {
		w.t.Fatal(err)
	}
	out, code := w.try("cmd", "/c", `C:\typed.bat`)
	if out != "" {
		w.t.Logf("%s: %s", typed, out)
	}
	return code
}

// msiexec runs the installer silently with what stands behind /i, and wants a status.
func (w *wine) msiexec(want int, rest string) {
	w.t.Helper()
	if got := w.line("start /wait msiexec /qn /l*v C:\\msi.log " + rest); got != want {
		log, _ := os.ReadFile(w.path(`C:\msi.log`))
		w.t.Fatalf("msiexec %s: status %d, want %d\n%s", rest, got, want, actions(string(log)))
	}
}

// actions are the last lines of an installer's log that say how an action ended.
func actions(log string) string {
	const most = 25
	all := regexp.MustCompile(`(?m)^Action ended.*$`).FindAllString(strings.ReplaceAll(log, "\r", ""), -1)
	return strings.Join(all[max(0, len(all)-most):], "\n")
}

// stored is a value of the settings' key, or "-" where there is none.
func (w *wine) stored(name string) string {
	w.t.Helper()
	out, _ := w.try("reg", "query", settingsKey, "/v", name)
	m := regexp.MustCompile(`(?m)^\s+` + name + `\s+REG_SZ[ \t]*(.*)$`).FindStringSubmatch(out)
	if m == nil {
		return "-"
	}
	return strings.TrimPrefix(m[1], "   ")
}

// wants compares what the registry holds.
func (w *wine) wants(when string, want map[string]string) {
	w.t.Helper()
	for name, value := range want {
		if got := w.stored(name); got != value {
			w.t.Errorf("%s: %s is %q, want %q", when, name, got, value)
		}
	}
}

// products are the versions in Apps and Features.
func (w *wine) products() (versions []string) {
	w.t.Helper()
	out, _ := w.try("reg", "query", productsKey, "/s")
	for _, product := range strings.Split(out, "\n\n") {
		if m := regexp.MustCompile(`DisplayVersion\s+REG_SZ\s+(\S+)`).FindStringSubmatch(product); m != nil && regexp.MustCompile(`DisplayName\s+REG_SZ\s+pace-node`).MatchString(product) {
			versions = append(versions, m[1])
		}
	}
	return versions
}

// running wants a service of a version that answers, and returns its identity.
func (w *wine) running(when, version string) string {
	w.t.Helper()
	w.untilSays(wineReady, "RUNNING", "sc", "query", "PaceNode")
	if got := w.run(wineNode, "--version"); !strings.HasPrefix(got, "pace-node "+version+" windows/") {
		w.t.Errorf("%s: the program says %q, want %s", when, got, version)
	}
	if got := w.run(`C:\Program Files\Pace\pacectl.exe`, "--version"); !strings.HasPrefix(got, "pace-node "+version+" windows/") {
		w.t.Errorf("%s: pacectl says %q", when, got)
	}
	w.healthy(when)
	if got := w.products(); len(got) != 1 || got[0] != version {
		w.t.Errorf("%s: Apps and Features has %v, want %s", when, got, version)
	}
	return w.run(wineNode, "--print-identity")
}

// gone wants nothing of the package.
func (w *wine) gone(when string) {
	w.t.Helper()
	if out, code := w.try("sc", "query", "PaceNode"); code == 0 {
		w.t.Errorf("%s: the service is there:\n%s", when, out)
	}
	if _, err := os.Stat(w.path(`C:\Program Files\Pace`)); !os.IsNotExist(err) {
		w.t.Errorf("%s: the folder of the programs is there: %v", when, err)
	}
	if got := w.products(); got != nil {
		w.t.Errorf("%s: Apps and Features has %v", when, got)
	}
	if data, err := os.ReadFile(w.path(`C:\netsh-rules.txt`)); err == nil && len(data) > 0 {
		w.t.Errorf("%s: the firewall has\n%s", when, data)
	}
}

// measures waits for a line among the node's metrics that satisfies is: Wine does not say whose its end of the
// administrators' pipe is, so pacectl does not trust it.
func (w *wine) measures(limit time.Duration, pattern string, is func(line string) bool) {
	w.t.Helper()
	re := regexp.MustCompile(`(?m)^` + pattern + `$`)
	for deadline := time.Now().Add(limit); ; {
		out, _ := w.here(wineCommand, "bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/6690 && printf 'GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' >&3 && cat <&3`)
		line := re.FindString(out)
		if line != "" && is(line) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("not in %s: %s, but %q", limit, pattern, line)
		}
		time.Sleep(200 * time.Millisecond) // a poll of another system: there is nothing to wait on
	}
}

func one(line string) bool { return strings.HasSuffix(line, " 1") }

// TestMSILife: installed with a seed, asked again by the program itself, upgraded without the seed, told another one, told
// none, removed, installed again.
func TestMSILife(t *testing.T) {
	t.Parallel()
	w := bootMSI(t, "")
	w.msiexec(0, `/i C:\0.0.1.msi PACE_FLEET_SEED="10.79.0.77 [::1]:6674"`)
	identity := w.running("installed", oldVersion)
	w.wants("installed", map[string]string{"PACE_FLEET_SEED": "10.79.0.77 [::1]:6674", "PACE_FLEET_ID": "", "PACE_DISCOVERY_REPLY_PORT": "6682", "PACE_FIREWALL_ALLOW": ""})
	seeds := []string{"10.79.0.77:6674", "[::1]:6674"}
	w.says("seed", seeds, "--print-surfaces")
	if got, want := len(w.lines(`C:\netsh-rules.txt`)), 4; got != want {
		t.Errorf("%d rules, want %d", got, want)
	}
	for _, rule := range w.lines(`C:\netsh-rules.txt`) {
		if !strings.Contains(rule, "|program="+wineNode+"|service=PaceNode|") || strings.Contains(rule, "localport=any") {
			t.Errorf("rule %s", rule)
		}
	}
	// The package registers what the program itself would register.
	w.says("changed", []string{nothing}, "--install-service")
	registered := w.run("reg", "query", `HKLM\System\CurrentControlSet\Services\PaceNode`)
	for _, want := range []string{"ObjectName    REG_SZ    LocalSystem", "Start    REG_DWORD    0x2", "Type    REG_DWORD    0x10"} {
		if !strings.Contains(registered, want) {
			t.Errorf("registered:\n%s\nwant %s", registered, want)
		}
	}
	if image := regexp.MustCompile(`ImagePath\s+\S+\s+(.*)`).FindStringSubmatch(registered); image == nil || strings.Trim(image[1], `"`) != wineNode {
		t.Errorf("the service runs %v: settings are no arguments", image)
	}

	told := len(w.lines(`C:\netsh-told.txt`))
	w.msiexec(0, `/i C:\0.0.2.msi`)
	if again := w.running("upgraded", newVersion); again != identity {
		t.Errorf("upgraded: %s, before %s", again, identity)
	}
	w.wants("upgraded", map[string]string{"PACE_FLEET_SEED": "10.79.0.77 [::1]:6674", "PACE_DISCOVERY_REPLY_PORT": "6682"})
	w.says("seed", seeds, "--print-surfaces")
	for _, line := range w.lines(`C:\netsh-told.txt`)[told:] {
		if strings.Contains(line, "|delete|") {
			t.Errorf("an upgrade took a rule away: %s", line)
		}
	}

	// The version that is installed already, told something: that is applied.
	w.msiexec(0, `/i C:\0.0.2.msi PACE_FLEET_SEED=fleet.example PACE_DISCOVERY_REPLY_PORT=7000 PACE_FIREWALL_ALLOW=10.0.0.0/8`)
	w.running("told another seed", newVersion)
	w.wants("told another seed", map[string]string{"PACE_FLEET_SEED": "fleet.example", "PACE_DISCOVERY_REPLY_PORT": "7000", "PACE_FIREWALL_ALLOW": "10.0.0.0/8"})
	for _, rule := range w.lines(`C:\netsh-rules.txt`) {
		if !strings.Contains(rule, "|remoteip=10.0.0.0/8|") || strings.Contains(rule, "6682") {
			t.Errorf("rule %s", rule)
		}
	}
	w.msiexec(0, `/i C:\0.0.2.msi PACE_FLEET_SEED=NONE PACE_DISCOVERY_REPLY_PORT=none PACE_FIREWALL_ALLOW=none`)
	w.running("told none", newVersion)
	w.wants("told none", map[string]string{"PACE_FLEET_SEED": "", "PACE_DISCOVERY_REPLY_PORT": "0", "PACE_FIREWALL_ALLOW": ""})
	w.says("seed", []string{"-"}, "--print-surfaces")

	w.msiexec(0, `/x C:\0.0.2.msi`)
	w.gone("removed")
	w.wants("removed", map[string]string{"PACE_FLEET_SEED": "", "PACE_DISCOVERY_REPLY_PORT": "0"})
	if _, err := os.Stat(w.path(`C:\ProgramData\pace-node\node-key`)); err != nil {
		t.Errorf("an uninstall keeps the identity: %v", err)
	}
	w.msiexec(0, `/i C:\0.0.2.msi`)
	if again := w.running("installed again", newVersion); again != identity {
		t.Errorf("installed again: %s, before %s", again, identity)
	}
}

// TestMSIRemembersAcrossUpgrades: each of the settings, kept by an upgrade that says nothing, replaced and cleared by one that
// does. Wine forgets after one upgrade what the next one is related to, so each has a system of its own.
func TestMSIUpgradeIsTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, before, told string
		want               map[string]string
	}{
		{"nothing", `PACE_FLEET_SEED=a.example PACE_DISCOVERY_REPLY_PORT=7001`, ``, map[string]string{"PACE_FLEET_SEED": "a.example", "PACE_DISCOVERY_REPLY_PORT": "7001"}},
		{"another seed", `PACE_FLEET_SEED=a.example`, `PACE_FLEET_SEED=b.example`, map[string]string{"PACE_FLEET_SEED": "b.example", "PACE_DISCOVERY_REPLY_PORT": "6682"}},
		{"no seed any more", `PACE_FLEET_SEED=a.example PACE_FIREWALL_ALLOW=10.0.0.0/8`, `PACE_FLEET_SEED=none`, map[string]string{"PACE_FLEET_SEED": "", "PACE_FIREWALL_ALLOW": "10.0.0.0/8"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := bootMSI(t, "")
			w.msiexec(0, `/i C:\0.0.1.msi `+c.before)
			w.msiexec(0, `/i C:\0.0.2.msi `+c.told)
			w.running("upgraded", newVersion)
			w.wants("upgraded", c.want)
		})
	}
}

// TestMSIValues: a value arrives as it was typed, or is refused before anything is changed.
func TestMSIValues(t *testing.T) {
	t.Parallel()
	const pin = "00112233445566778899aabbccddeeff@O2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik"
	w := bootMSI(t, "")
	for _, c := range []struct {
		typed  string
		stored map[string]string
	}{
		{`PACE_FLEET_SEED=[::1]:6674 PACE_FLEET_ID=` + pin, map[string]string{"PACE_FLEET_SEED": `[::1]:6674`, "PACE_FLEET_ID": pin}},
		{`PACE_FLEET_SEED="a.example [fd00::1]:6674 10.1.2.3" PACE_FIREWALL_ALLOW="10.0.0.0/8 fd00::/8" PACE_FLEET_ID=""`,
			map[string]string{"PACE_FLEET_SEED": `a.example [fd00::1]:6674 10.1.2.3`, "PACE_FIREWALL_ALLOW": `10.0.0.0/8 fd00::/8`, "PACE_FLEET_ID": ""}},
	} {
		w.msiexec(0, `/i C:\0.0.2.msi `+c.typed)
		w.wants(c.typed, c.stored)
		w.running(c.typed, newVersion)
		w.msiexec(0, `/x C:\0.0.2.msi`)
		w.gone(c.typed)
		w.run("reg", "delete", settingsKey, "/f")
	}
	refused := []string{
		`PACE_FLEET_SEED=a.example\`, `PACE_FLEET_SEED="a b.example\"`, `PACE_FLEET_SEED="a ""b"" c"`, `PACE_FLEET_SEED='a.example'`, `PACE_FLEET_SEED=https://a.example`,
		`PACE_FLEET_SEED=a.example:99999`, `PACE_FLEET_SEED="a"" --name=""b"`, `PACE_FLEET_SEED=[PACE_FLEET_ID]`,
		`PACE_FLEET_ID=0123`, `PACE_DISCOVERY_REPLY_PORT=66820`, `PACE_FIREWALL_ALLOW=0.0.0.0/0`, `PACE_FIREWALL_ALLOW=everybody`,
	}
	for _, typed := range refused {
		w.msiexec(msiRefused, `/i C:\0.0.2.msi `+typed)
		if _, err := os.Stat(w.path(`C:\Program Files\Pace`)); !os.IsNotExist(err) {
			t.Fatalf("%s: refused, and installed: %v", typed, err)
		}
		if out, code := w.try("reg", "query", settingsKey); code == 0 {
			t.Fatalf("%s: refused, and stored:\n%s", typed, out)
		}
	}
	w.gone("refused")

	// Refused for what is installed: it goes on as it was.
	w.msiexec(0, `/i C:\0.0.1.msi PACE_FLEET_SEED=a.example`)
	before := w.running("before", oldVersion)
	w.msiexec(msiRefused, `/i C:\0.0.2.msi PACE_FLEET_SEED=a.example:99999`)
	if after := w.running("an upgrade with a value that is refused", oldVersion); after != before {
		t.Errorf("%s, before %s", after, before)
	}
	w.wants("an upgrade with a value that is refused", map[string]string{"PACE_FLEET_SEED": "a.example"})
}

// TestMSIRefusals: an older version over a newer one, an older Windows, settings of another kind; an install whose service
// does not start leaves nothing.
func TestMSIRefusals(t *testing.T) {
	t.Parallel()
	w := bootMSI(t, "")
	w.msiexec(0, `/i C:\0.0.2.msi PACE_FLEET_SEED=a.example`)
	before := w.running("before", newVersion)
	w.msiexec(msiFailed, `/i C:\0.0.1.msi PACE_FLEET_SEED=b.example`)
	if after := w.running("a downgrade", newVersion); after != before {
		t.Errorf("%s, before %s", after, before)
	}
	w.wants("a downgrade", map[string]string{"PACE_FLEET_SEED": "a.example"})
	log, _ := os.ReadFile(w.path(`C:\msi.log`))
	if !strings.Contains(string(log), "LaunchConditions. Return value 0") {
		t.Errorf("a downgrade is refused by something else:\n%s", actions(string(log)))
	}
	w.msiexec(0, `/x C:\0.0.2.msi`)

	// The service ends at once for a setting that only it reads.
	w.run("reg", "delete", settingsKey, "/f")
	w.run("reg", "add", settingsKey, "/v", "PACE_LISTEN", "/d", "nonsense", "/f")
	w.msiexec(msiRefused, `/i C:\0.0.2.msi PACE_FLEET_SEED=a.example`)
	w.gone("a service that does not start")
	w.wants("a service that does not start", map[string]string{"PACE_FLEET_SEED": "-", "PACE_LISTEN": "nonsense"})
	w.run("reg", "delete", settingsKey, "/f")
	w.msiexec(0, `/i C:\0.0.2.msi`)
	w.running("mended", newVersion)
	w.msiexec(0, `/x C:\0.0.2.msi`)

	w.run("reg", "delete", `HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion`, "/v", "CurrentMajorVersionNumber", "/f") // Windows 8.1 has none
	w.msiexec(msiFailed, `/i C:\0.0.2.msi`)
	w.gone("an older Windows")
}

// TestMSIDisabled: what an administrator disabled stays so.
func TestMSIDisabled(t *testing.T) {
	t.Parallel()
	w := bootMSI(t, "")
	w.msiexec(0, `/i C:\0.0.1.msi`)
	w.running("before", oldVersion)
	w.run("sc", "stop", "PaceNode")
	w.untilSays(wineReady, "STOPPED", "sc", "query", "PaceNode")
	const service = `HKLM\System\CurrentControlSet\Services\PaceNode`
	w.run("reg", "add", service, "/v", "Start", "/t", "REG_DWORD", "/d", "4", "/f") // Wine has no sc config
	w.msiexec(0, `/i C:\0.0.2.msi`)
	if got := w.run("sc", "query", "PaceNode"); !strings.Contains(got, "STOPPED") {
		t.Errorf("disabled and upgraded:\n%s", got)
	}
	if got := w.run("reg", "query", service, "/v", "Start"); !strings.Contains(got, "0x4") {
		t.Errorf("disabled and upgraded:\n%s", got)
	}
	if got := w.run(wineNode, "--version"); !strings.Contains(got, newVersion) {
		t.Errorf("the program is %s", got)
	}
}

// TestWindowsJoinsLinux: a Windows machine and a Linux one on one segment find one another, and the Windows one is admitted
// to the Linux one's fleet by the key that it prints.
func TestWindowsJoinsLinux(t *testing.T) {
	l := boot(t, 1)
	l.push("deb", 1)
	l.install(1, newVersion)
	founder := l.node(1)
	network := l.prefix + "win"
	for _, args := range [][]string{
		{"netns", "add", network},
		{"-n", l.prefix + "lan", "link", "add", "pwin", "type", "veth", "peer", "name", "eth0", "netns", network},
		{"-n", l.prefix + "lan", "link", "set", "pwin", "master", "br0", "up"},
		{"-n", network, "addr", "add", "10.79.0.50/24", "brd", "+", "dev", "eth0"},
		{"-n", network, "link", "set", "lo", "up"},
		{"-n", network, "link", "set", "eth0", "up"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v\n%s", args, err, out)
		}
	}
	t.Cleanup(func() { exec.Command("ip", "netns", "del", network).Run() })
	// Founding times count whole seconds, and the Linux host is to be the older one.
	l.until(1, patience, "test $(date +%s) -gt "+l.run(1, "date +%s"))

	w := bootMSI(t, network)
	w.msiexec(0, `/i C:\0.0.2.msi`)
	var id, key string
	for line := range strings.Lines(w.running("installed", newVersion)) {
		if v, ok := strings.CutPrefix(line, "node-id "); ok {
			id = strings.TrimSpace(v)
		}
		if v, ok := strings.CutPrefix(line, "public-key "); ok {
			key = strings.TrimSpace(v)
		}
	}
	l.until(1, patience, "pacectl enroll list --json | grep -q "+id)
	l.run(1, fmt.Sprintf("pace-node --enroll-approve=%s@%s", id, key))
	w.measures(wineReady, `pace_formation_mode\{mode="learner"\} .*`, one)
	w.measures(wineReady, `pace_fleet_members\{role="learner"\} .*`, one)
	l.until(1, patience, `pacectl member show `+id+` --json | grep -q '"platform":"windows/amd64"'`)
	if got, _ := os.ReadFile(w.path(`C:\ProgramData\pace-node\formation.json`)); !strings.Contains(string(got), `"cluster": "`+cut(founder.FleetID)+`"`) {
		t.Errorf("in another fleet than %s: %s", founder.FleetID, got)
	}

	// Stopped and started again by the service manager, it follows again.
	w.run("sc", "stop", "PaceNode")
	w.untilSays(wineReady, "STOPPED", "sc", "query", "PaceNode")
	l.run(1, "pace-node --cluster-set=enrollment.per-source=8")
	w.run("sc", "start", "PaceNode")
	w.measures(wineReady, `pace_fleet_revision [0-9]+`, func(line string) bool {
		return line == "pace_fleet_revision "+l.run(1, `pacectl fleet status --json | grep -o '"revision":[0-9]*' | head -n 1 | cut -d: -f2`)
	})
}
