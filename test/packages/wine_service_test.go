//go:build linux && packages

package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// What Wine cannot show is listed in docs/verified.md: the firewall itself, what the manager does after a failure, the
// announcement of a shutdown, access lists, an ordinary user.

const (
	wineNode  = `C:\Program Files\Pace\pace-node.exe`
	wineReady = 3 * time.Minute // for what comes by itself, as a service that starts or ends; seconds on an idle machine
)

// withNetsh puts a netsh into the system that remembers what it is told.
func (w *wine) withNetsh() {
	w.t.Helper()
	out := filepath.Join(w.t.TempDir(), "netsh.exe")
	build := exec.Command("go", "build", "-o", out, "./wine/netsh")
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		w.t.Fatalf("netsh: %v\n%s", err, said)
	}
	w.put(out, `C:\windows\system32\netsh.exe`)
}

// lines are those of a file of the system.
func (w *wine) lines(windows string) []string {
	data, err := os.ReadFile(w.path(windows))
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// says runs the program and compares the lines that begin with a word.
func (w *wine) says(word string, want []string, args ...string) string {
	w.t.Helper()
	out := w.run(append([]string{wineNode}, args...)...)
	var got []string
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), word+" "); ok {
			got = append(got, rest)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		w.t.Errorf("%q: \n%s\nlines that begin with %s, want\n%s", args, out, word, strings.Join(want, "\n"))
	}
	return out
}

// healthy waits for the node to say that it is well. Where something holds the port, the node tries it again after 30 s.
func (w *wine) healthy(when string) {
	w.t.Helper()
	for deadline := time.Now().Add(wineReady); ; time.Sleep(200 * time.Millisecond) { // a poll of another system: there is nothing to wait on
		out, _ := w.here(wineCommand, "bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/6690 && printf 'GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' >&3 && cat <&3`)
		if strings.Contains(out, "200 OK") {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: the node says %q", when, out)
		}
	}
}

const nothing = "nothing: all is as it was asked for"

// TestWineService is the life of the service: registered with settings, asked for twice, stopped, started, changed, after a
// restart of the machine, refused its settings, mended, removed.
func TestWineService(t *testing.T) {
	t.Parallel()
	w := bootWine(t, "win1", "")
	w.put(wineProgram(t, newVersion), wineNode)
	w.withNetsh()

	surfaces := w.run(wineNode, "--print-surfaces", "--fleet-seed=[::1]:6674", "--discovery-reply-port=6682")
	if want := regexp.MustCompile(`^node tcp/6674 \* network
raft tcp/6680 \* network
discovery-beacon udp/6681 \* segment
discovery-reply udp/6682 \* segment
admin tcp/6690 127\.0\.0\.1 loopback
admin-socket pipe/- \\\\\.\\pipe\\pace-node-[0-9a-f]{16} loopback
state-dir C:\\ProgramData\\pace-node
seed \[::1\]:6674
pin -$`); !want.MatchString(surfaces) {
		t.Errorf("--print-surfaces:\n%s", surfaces)
	}

	w.says("changed", []string{
		`HKLM\Software\Pace\Node holds PACE_NAME, PACE_LABEL, PACE_DISCOVERY_REPLY_PORT, PACE_FLEET_SEED`, `the service PaceNode runs ` + wineNode,
		`the firewall has the rule "PaceNode node tcp/6674"`, `the firewall has the rule "PaceNode raft tcp/6680"`,
		`the firewall has the rule "PaceNode discovery-beacon udp/6681"`, `the firewall has the rule "PaceNode discovery-reply udp/6682"`, "the service PaceNode is started",
	}, "--install-service", "--name=win one", `--label=site=main hall "1"`, "--discovery-reply-port=6682", "--fleet-seed=[::1]:6674", "--fleet-seed=10.0.0.9")
	w.untilSays(wineReady, "RUNNING", "sc", "query", "PaceNode")
	w.healthy("installed")
	identity := w.run(wineNode, "--print-identity")

	// What is stored is what the program reads, in the service and in a shell.
	w.says("seed", []string{"[::1]:6674", "10.0.0.9:6674"}, "--print-surfaces")
	stored := w.run("reg", "query", `HKLM\Software\Pace\Node`)
	for _, want := range []string{`PACE_LABEL    REG_MULTI_SZ    site=main hall "1"`, `PACE_NAME    REG_SZ    win one`, `PACE_FLEET_SEED    REG_SZ    [::1]:6674 10.0.0.9`} {
		if !strings.Contains(stored, want) {
			t.Errorf("stored:\n%s\nwant %s", stored, want)
		}
	}
	registered := w.run("reg", "query", `HKLM\System\CurrentControlSet\Services\PaceNode`)
	for _, want := range []string{"ObjectName    REG_SZ    LocalSystem", "Start    REG_DWORD    0x2", "Type    REG_DWORD    0x10", "PreshutdownTimeout    REG_DWORD    0x61a8"} {
		if !strings.Contains(registered, want) {
			t.Errorf("registered:\n%s\nwant %s", registered, want)
		}
	}

	// The arguments, as they come out of Windows' own command line.
	rules := w.lines(`C:\netsh-rules.txt`)
	if want := `name=PaceNode discovery-reply udp/6682|dir=in|action=allow|program=` + wineNode + `|service=PaceNode|protocol=udp|localport=6682|remoteip=any|profile=any|enable=yes|` +
		`description=pace-node: PaceNode, discovery-reply (segment)`; len(rules) != 4 || rules[3] != want {
		t.Errorf("%q, want %s", rules, want)
	}

	// Applied twice it changes nothing: no rule, no restart, no value.
	told := len(w.lines(`C:\netsh-told.txt`))
	w.says("changed", []string{nothing}, "--install-service")
	w.says("changed", []string{nothing}, "--install-service", "--name=win one")
	for i, line := range w.lines(`C:\netsh-told.txt`)[told:] {
		if !strings.HasPrefix(line, "advfirewall|firewall|show|") {
			t.Errorf("told %d: %s", i, line)
		}
	}
	if again := w.run("reg", "query", `HKLM\Software\Pace\Node`); again != stored {
		t.Errorf("stored:\n%s\nbefore:\n%s", again, stored)
	}

	// Stopped cleanly and started by the manager: the same machine.
	w.run("sc", "stop", "PaceNode")
	stopped := w.untilSays(wineReady, "STOPPED", "sc", "query", "PaceNode")
	if !strings.Contains(stopped, "WIN32_EXIT_CODE    : 0") || !strings.Contains(stopped, "SERVICE_EXIT_CODE  : 0") {
		t.Errorf("a clean stop:\n%s", stopped)
	}
	if said, code := w.try(wineNode, "--cluster-status"); code != 5 || !strings.Contains(said, "the service PaceNode does not run: sc start PaceNode") {
		t.Errorf("beside a stopped service: status %d: %s", code, said)
	}
	w.run("sc", "start", "PaceNode")
	w.untilSays(wineReady, "RUNNING", "sc", "query", "PaceNode")
	if again := w.run(wineNode, "--print-identity"); again != identity {
		t.Errorf("after a stop and a start %q, before %q", again, identity)
	}

	// Another port: one restart, one other rule, and the old one goes.
	w.says("changed", []string{`HKLM\Software\Pace\Node holds PACE_LISTEN, PACE_FIREWALL_ALLOW`, `the firewall has the rule "PaceNode node tcp/7000"`,
		`the firewall has the rule "PaceNode raft tcp/6680"`, `the firewall has the rule "PaceNode discovery-beacon udp/6681"`, `the firewall has the rule "PaceNode discovery-reply udp/6682"`,
		`the firewall's rule "PaceNode node tcp/6674" is gone`, "the service PaceNode is restarted"}, "--install-service", "--listen=:7000", "--firewall-allow=10.0.0.0/8", "--firewall-allow=fd00::1")
	for _, rule := range w.lines(`C:\netsh-rules.txt`) {
		if !strings.Contains(rule, "|remoteip=10.0.0.0/8,fd00::1/128|") || strings.Contains(rule, "6674") {
			t.Errorf("%s", rule)
		}
	}

	// The machine is restarted: it comes up by itself.
	w.reboot()
	w.untilSays(wineReady, "RUNNING", "sc", "query", "PaceNode")
	w.healthy("after a restart")

	// Refused settings: the manager is told status 78, and does not wait. The verb that mends them starts it.
	w.run("sc", "stop", "PaceNode")
	w.untilSays(wineReady, "STOPPED", "sc", "query", "PaceNode")
	w.run("reg", "add", `HKLM\Software\Pace\Node`, "/v", "PACE_LISTEN", "/d", "nonsense", "/f")
	w.try("sc", "start", "PaceNode")
	if said := w.untilSays(wineReady, "STOPPED", "sc", "query", "PaceNode"); !strings.Contains(said, "SERVICE_EXIT_CODE  : 78") {
		t.Errorf("refused settings:\n%s", said)
	}
	if said, code := w.try(wineNode, "--install-service"); code != 78 || !strings.Contains(said, `HKLM\Software\Pace\Node: PACE_LISTEN = "nonsense"`) {
		t.Errorf("status %d: %s", code, said)
	}
	w.says("changed", []string{`HKLM\Software\Pace\Node holds PACE_LISTEN`, `the firewall has the rule "PaceNode node tcp/6674"`, `the firewall's rule "PaceNode node tcp/7000" is gone`, "the service PaceNode is started"},
		"--install-service", "--listen=:6674")

	// Whatever stands in the settings, the service can be removed; settings, state and key stay.
	w.run("reg", "add", `HKLM\Software\Pace\Node`, "/v", "PACE_LISTEN", "/d", "nonsense", "/f")
	gone := w.says("changed", []string{"the service PaceNode is stopped", "the service PaceNode is removed", `the firewall's rule "PaceNode node tcp/6674" is gone`, `the firewall's rule "PaceNode raft tcp/6680" is gone`,
		`the firewall's rule "PaceNode discovery-beacon udp/6681" is gone`, `the firewall's rule "PaceNode discovery-reply udp/6682" is gone`}, "--uninstall-service")
	if !strings.Contains(gone, "state-dir C:\\ProgramData\\pace-node\nsettings HKLM\\Software\\Pace\\Node") {
		t.Errorf("%s", gone)
	}
	if said, code := w.try("sc", "query", "PaceNode"); code == 0 {
		t.Errorf("still there:\n%s", said)
	}
	if rules := w.lines(`C:\netsh-rules.txt`); len(rules) != 1 || rules[0] != "" {
		t.Errorf("%q", rules)
	}
	w.says("changed", []string{nothing}, "--uninstall-service")
	w.run("reg", "delete", `HKLM\Software\Pace\Node`, "/v", "PACE_LISTEN", "/f")
	if again := w.run(wineNode, "--print-identity"); again != identity {
		t.Errorf("after the removal %q, before %q", again, identity)
	}
}

// TestWineServiceOfAnotherName also shows what is said where a service does not start.
func TestWineServiceOfAnotherName(t *testing.T) {
	t.Parallel()
	w := bootWine(t, "win1", "")
	w.put(wineProgram(t, newVersion), wineNode)
	w.run(wineNode, "--install-service", "--service-name=Corp.Pace", "--listen=127.0.0.1:6674")
	w.untilSays(wineReady, "RUNNING", "sc", "query", "Corp.Pace")
	w.says("changed", []string{nothing}, "--install-service")
	said, code := w.try(wineNode, "--install-service", "--service-name=PaceNode")
	if code != 1 || !strings.Contains(said, "registered as Corp.Pace") || !strings.Contains(said, "remedy: ") {
		t.Errorf("a second service: status %d: %s", code, said)
	}
	said, code = w.try(wineNode, "--install-service", "--service-name=Eventlog")
	if code != 1 || !strings.Contains(said, "the service Eventlog is there") {
		t.Errorf("somebody else's service: status %d: %s", code, said)
	}
	said, code = w.try(wineNode, "--install-service", "--firewall-allow=0.0.0.0/0")
	if code != 78 || !strings.Contains(said, "--firewall-allow") {
		t.Errorf("everybody: status %d: %s", code, said)
	}
	w.says("service", []string{"Corp.Pace"}, "--uninstall-service")

	// The port is taken: registered, not running, and the reason's place is named.
	said, code = w.try(wineNode, "--install-service", "--service-name=PaceNode", "--listen=:6690", "--admin-listen=")
	if code != 0 {
		t.Fatalf("status %d: %s", code, said)
	}
	w.run("sc", "stop", "PaceNode")
	w.untilSays(wineReady, "STOPPED", "sc", "query", "PaceNode")
	holder := w.command(t.Context(), wineLoader, wineNode, "--state-dir=C:\\other", "--listen=:6690", "--listen-raft=:0", "--admin-listen=", "--discovery=")
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { w.end(); holder.Wait() }()
	w.t.Log("waiting for the port to be held")
	deadline := time.Now().Add(wineReady)
	for {
		if _, code := w.here(wineCommand, "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/6690"); code == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the port is not held")
		}
		time.Sleep(100 * time.Millisecond) // a poll of another system: there is nothing to wait on
	}
	said, code = w.try(wineNode, "--install-service")
	if code != 1 || !strings.Contains(said, "is registered and does not run") || !strings.Contains(said, "source PaceNode") {
		t.Errorf("a port that is taken: status %d: %s", code, said)
	}
	if said := w.untilSays(wineReady, "STOPPED", "sc", "query", "PaceNode"); !strings.Contains(said, "SERVICE_EXIT_CODE  : 1 ") {
		t.Errorf("%s", said)
	}
}
