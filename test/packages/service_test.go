//go:build linux && packages

package packages

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// bare builds the program of this tree, and puts it into a host as an administrator would.
func (l *lab) bare(host int) {
	l.t.Helper()
	out := fromRoot(l.t, "build/testhosts/bare/pace-node")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X pace-node/internal/version.Version="+newVersion, "-o", out, "./cmd/pace-node")
	build.Dir = fromRoot(l.t, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if said, err := build.CombinedOutput(); err != nil {
		l.t.Fatalf("the program: %v\n%s", err, said)
	}
	l.script(commandTime, "push", "1", out, "/root/pace-node")
	l.run(host, "install -m 755 /root/pace-node /usr/local/bin/pace-node; ln -sf pace-node /usr/local/bin/pacectl")
}

// changed runs a verb of the service in a host and returns the lines of what it changed.
func (l *lab) changed(host int, verb string) string {
	l.t.Helper()
	var out []string
	for line := range strings.Lines(l.run(host, "/usr/local/bin/pace-node "+verb)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "changed "); ok {
			out = append(out, rest)
		}
	}
	return strings.Join(out, "\n")
}

// TestServiceOfBareProgram is the life of the service without a package, under real systemd.
func TestServiceOfBareProgram(t *testing.T) {
	l := boot(t, 1)
	l.bare(1)
	if said := l.try(1, "/root/pace-node --install-service; echo status $?"); !strings.Contains(said, "sandbox does not see") || !strings.Contains(said, "install -m 755") || !strings.Contains(said, "status 1") {
		t.Errorf("from a home folder: %s", said)
	}
	if said := l.try(1, "useradd op; su -s /bin/sh op -c '/usr/local/bin/pace-node --install-service --name=x'; echo status $?"); !strings.Contains(said, "remedy: sudo /usr/local/bin/pace-node --install-service --name=x") || !strings.Contains(said, "status 1") {
		t.Errorf("as an ordinary user: %s", said)
	}
	l.same("nothing was changed", l.try(1, "systemctl list-unit-files --no-legend 'pace-node*'; ls /etc/default/pace-node /var/lib/pace-node 2>/dev/null; id -u pace-node 2>/dev/null"), "")

	l.same("installed", l.changed(1, "--install-service --fleet-seed=10.79.0.77 --fleet-seed=[fd00::1]:6674 --label='site=main hall'"),
		"the account pace-node is made\n/etc/default/pace-node holds PACE_LABEL, PACE_FLEET_SEED\n/etc/systemd/system/pace-node.service runs /usr/local/bin/pace-node\n"+
			"pace-node.service is enabled\npace-node.service is started")
	l.same("state", l.run(1, "systemctl is-active pace-node; systemctl is-enabled pace-node; stat -c '%a %U %G' /var/lib/pace-node /var/lib/pace-node/node-key /run/pace-node/admin.sock"),
		"active\nenabled\n700 pace-node pace-node\n600 pace-node pace-node\n660 pace-node pace-admin")
	before := l.node(1)
	if identity := l.run(1, "pace-node --print-identity"); !strings.HasPrefix(identity, "node-id "+before.NodeID+"\n") {
		t.Errorf("printed %q, and the service is %s", identity, before.NodeID)
	}
	l.same("seeds", l.run(1, "pace-node --print-surfaces | sed -n 's/^seed //p' | tr '\\n' ','"), "10.79.0.77:6674,[fd00::1]:6674,")
	l.same("the unit verified", l.run(1, "systemd-analyze verify /etc/systemd/system/pace-node.service 2>&1 | grep -v 'man pace-node' | grep -v 'man:pace-node' || true"), "")
	l.run(1, "systemd-analyze security --no-pager --threshold=15 pace-node.service >/dev/null")
	// What is bound is what is printed.
	l.same("surfaces", l.run(1, "pace-node --print-surfaces | awk '$2 ~ /^(tcp|udp)/ {sub(\"/\", \" \", $2); print $2}' | grep -v any | sort | tr '\\n' ','"), "tcp 6674,tcp 6680,tcp 6690,udp 6681,")
	l.same("bound", l.run(1, "ss -Hltu | awk '{n=split($5,a,\":\"); print $1, a[n]}' | sort -u | grep -v 'udp [0-57-9]' | grep -v 'udp 6[0-57-9]' | grep -v 'udp [0-9]\\{5\\}' | tr '\\n' ','"), "tcp 6674,tcp 6680,tcp 6690,udp 6681,")

	// Done twice it changes nothing: the same process runs.
	process := l.run(1, "systemctl show -p InvocationID --value pace-node")
	l.same("again", l.changed(1, "--install-service"), nothing)
	l.same("again, with the same flags", l.changed(1, "--install-service --label='site=main hall'"), nothing)
	l.same("the process", l.run(1, "systemctl show -p InvocationID --value pace-node"), process)
	l.same("as a document", l.run(1, "pace-node --install-service --json | grep -o '\"changed\":\\[\\]'"), `"changed":[]`)

	l.same("another setting", l.changed(1, "--install-service --name=x --log-level=debug"), "/etc/default/pace-node holds PACE_NAME, PACE_LOG_LEVEL\npace-node.service is restarted")
	l.stays("after a restart", 1, before)
	// The journal has the severities; the lines have neither time nor level.
	l.same("severities", l.until(1, patience, "journalctl -q -u pace-node -o json --output-fields=PRIORITY,MESSAGE | grep 'msg=' | grep -o '\"PRIORITY\":\"[0-9]\"' | sort -u | grep -c -e 4 -e 6"), "2")
	l.same("fields of the journal's own", l.run(1, "journalctl -q -u pace-node -o cat | grep -c -e ' level=' -e '^time=' || true"), "0")

	// Another version in its place.
	l.run(1, "cp /usr/local/bin/pace-node /usr/local/bin/.new && mv /usr/local/bin/.new /usr/local/bin/pace-node")
	l.same("a replaced program", l.changed(1, "--install-service"), "pace-node.service is restarted")
	l.run(1, "systemctl kill --kill-who=main -s KILL pace-node")
	l.until(1, patience, "test $(systemctl show -p NRestarts --value pace-node) = 1 && systemctl -q is-active pace-node")

	if said := l.try(1, "systemctl stop pace-node; pacectl node; echo status $?; systemctl start pace-node"); !strings.Contains(said, "the service pace-node does not run: sudo systemctl start pace-node") || !strings.Contains(said, "status 5") {
		t.Errorf("beside a stopped service: %s", said)
	}

	// What does not start is said, with the log's own words.
	said := l.try(1, "pace-node --install-service --listen=10.9.9.9:6674; echo status $?")
	if !strings.Contains(said, "did not start") || !strings.Contains(said, "10.9.9.9:6674") || !strings.Contains(said, "status 1") {
		t.Errorf("an address of another machine: %s", said)
	}
	l.same("mended", l.changed(1, "--install-service --listen=:6674"), "/etc/default/pace-node holds PACE_LISTEN\npace-node.service is started")
	l.run(1, "echo PACE_LISTEN=nonsense >>/etc/default/pace-node")
	if said := l.try(1, "pace-node --install-service; echo status $?"); !strings.Contains(said, "/etc/default/pace-node line") || !strings.Contains(said, "status 78") {
		t.Errorf("settings that the service refuses: %s", said)
	}

	// Whatever stands in the settings, it can be removed.
	l.same("removed", l.changed(1, "--uninstall-service"), "pace-node.service is stopped\npace-node.service is disabled\n/etc/systemd/system/pace-node.service is removed")
	l.same("left", l.try(1, "systemctl list-unit-files --no-legend 'pace-node*'; pidof pace-node; ls /etc/systemd/system/pace-node.service 2>/dev/null; ls /etc/default/pace-node /var/lib/pace-node/node-key"),
		"/etc/default/pace-node\n/var/lib/pace-node/node-key")
	l.same("removed again", l.changed(1, "--uninstall-service"), nothing)
	l.run(1, "sed -i /nonsense/d /etc/default/pace-node; pace-node --install-service")
	l.stays("installed again", 1, before)
	l.run(1, "pace-node --uninstall-service")

	// Another name and another place, remembered.
	l.same("another name", l.changed(1, "--install-service --service-name=corp-pace --state-dir=/srv/pace"),
		"/etc/default/pace-node holds PACE_STATE_DIR, PACE_SERVICE_NAME\n/srv/pace is made, for the account pace-node\n/etc/systemd/system/corp-pace.service runs /usr/local/bin/pace-node\n"+
			"corp-pace.service is enabled\ncorp-pace.service is started")
	l.same("its state", l.run(1, "stat -c '%a %U' /srv/pace /srv/pace/node-key"), "700 pace-node\n600 pace-node")
	if said := l.try(1, "pace-node --install-service --service-name=pace-node; echo status $?"); !strings.Contains(said, "registered as corp-pace") || !strings.Contains(said, "status 1") {
		t.Errorf("a second service: %s", said)
	}
	if said := l.try(1, "pace-node --install-service --service-name=dbus; echo status $?"); !strings.Contains(said, "status 1") {
		t.Errorf("somebody else's: %s", said)
	}
	l.same("its removal", l.changed(1, "--uninstall-service"), "corp-pace.service is stopped\ncorp-pace.service is disabled\n/etc/systemd/system/corp-pace.service is removed")
}

// TestServiceBesideThePackage: a packaged unit is enabled, and never hidden.
func TestServiceBesideThePackage(t *testing.T) {
	l := boot(t, 1)
	l.push("deb", 1)
	l.bare(1)
	l.run(1, "pace-node --install-service --name=early")
	before := l.node(1)
	l.run(1, "DEBIAN_FRONTEND=noninteractive dpkg --force-confold -i /root/"+newVersion+".deb")
	l.same("hidden by the earlier one", l.run(1, "systemctl show -p FragmentPath --value pace-node"), "/etc/systemd/system/pace-node.service")
	l.same("shown", l.changed(1, "--install-service"), "/etc/systemd/system/pace-node.service is removed: it hid the package's unit\npace-node.service is restarted")
	unit := l.run(1, "systemctl show -p FragmentPath --value pace-node")
	if !strings.HasSuffix(unit, "lib/systemd/system/pace-node.service") || strings.HasPrefix(unit, "/etc") {
		t.Errorf("the unit is %s", unit)
	}
	l.stays("beside the package", 1, before)
	l.same("again", l.changed(1, "--install-service"), nothing)
	l.run(1, "systemctl disable --now pace-node")
	l.same("disabled, and asked for", l.changed(1, "--install-service --name=late"), "/etc/default/pace-node holds PACE_NAME\npace-node.service is enabled\npace-node.service is started")
	l.same("not hidden", l.run(1, "systemctl show -p FragmentPath --value pace-node; systemctl is-enabled pace-node"), unit+"\nenabled")
	for _, flags := range []string{"--service-name=other", "--state-dir=/srv/x"} {
		if said := l.try(1, "pace-node --install-service "+flags+"; echo status $?"); !strings.Contains(said, "package") || !strings.Contains(said, "status 1") {
			t.Errorf("%s beside the package: %s", flags, said)
		}
	}
	l.same("switched off", l.changed(1, "--uninstall-service"), "pace-node.service is stopped\npace-node.service is disabled")
	l.same("the package stays", l.try(1, "systemctl is-enabled pace-node; systemctl is-active pace-node; dpkg -s pace-node | grep ^Status; ls /var/lib/pace-node/node-key"),
		"disabled\ninactive\nStatus: install ok installed\n/var/lib/pace-node/node-key")
	l.run(1, "systemctl mask pace-node")
	if said := l.try(1, "pace-node --install-service; echo status $?"); !strings.Contains(said, "systemctl unmask pace-node.service") || !strings.Contains(said, "status 1") {
		t.Errorf("masked: %s", said)
	}
}

// TestServiceWithoutSystemd: an image that is being made, and an init system with scripts. Each is a mount, PID and network
// namespace of a host in which systemd's own folders are hidden.
func TestServiceWithoutSystemd(t *testing.T) {
	l := boot(t, 1)
	l.bare(1)
	const inside = "unshare -m -n -p --fork --mount-proc sh -euc 'ip link set lo up; mount -t tmpfs none /run; "
	said := l.run(1, inside+"pace-node --install-service --name=image'")
	if !strings.Contains(said, "pace-node.service is enabled") || !strings.Contains(said, "starts with the machine") {
		t.Errorf("in an image: %s", said)
	}
	l.same("no key is made", l.try(1, "ls /var/lib/pace-node/node-key 2>/dev/null; systemctl is-active pace-node"), "inactive")
	l.script(bootTime, "off", "1")
	l.script(bootTime, "boot", "1")
	l.until(1, patience, "systemctl -q is-active pace-node && pacectl node --json | grep -q '\"name\":\"image\"'")
	l.run(1, "pace-node --uninstall-service; rm -r /var/lib/pace-node; mkdir -p /etc/rc2.d /etc/rc0.d")

	said = l.run(1, inside+"mount --bind /dev/null /usr/bin/systemctl; "+
		"pace-node --install-service; for i in $(seq 1200); do pacectl node >/dev/null 2>&1 && break; sleep 0.1; done; pacectl node | grep ^mode; service pace-node status; ls -l /etc/rc2.d/S50pace-node; "+
		"pace-node --install-service; pace-node --install-service --name=y; pacectl --version; pace-node --uninstall-service; ls /etc/init.d/pace-node /etc/rc2.d/S50pace-node 2>&1 || true; ps ax | grep -c [/]usr/local/bin/pace-node || true'")
	for _, want := range []string{"/etc/init.d/pace-node runs /usr/local/bin/pace-node", "pace-node is started", "solitary", "Running", "S50pace-node -> /etc/init.d/pace-node", nothing,
		"pace-node is restarted", "pace-node is stopped", "/etc/init.d/pace-node is removed", "cannot access '/etc/init.d/pace-node'", "cannot access '/etc/rc2.d/S50pace-node'"} {
		if !strings.Contains(said, want) {
			t.Errorf("by System V's scripts: there is no %q in\n%s", want, said)
		}
	}
	if !strings.HasSuffix(said, "\n0") {
		t.Errorf("a process is left:\n%s", said)
	}
}
