//go:build linux && packages

package packages

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestInstallWithoutANetwork: no install waits for a network, a name server or another machine.
func TestInstallWithoutANetwork(t *testing.T) {
	l := boot(t, 1)
	l.push("deb", 1)
	l.script(commandTime, "cut", "1")
	l.run(1, "ip addr flush dev eth0; ip link set eth0 down; echo nameserver 10.79.0.250 >/etc/resolv.conf")
	began := time.Now()
	l.install(1, newVersion)
	t.Logf("installed in %s", time.Since(began).Round(time.Millisecond))
	l.same("right after the install", l.run(1, "systemctl is-active pace-node; systemctl is-enabled pace-node"), "active\nenabled")
	ready := l.run(1, "systemctl show pace-node -p InactiveExitTimestampMonotonic -p ActiveEnterTimestampMonotonic --value")
	times := strings.Fields(ready)
	a, _ := strconv.Atoi(times[0])
	b, _ := strconv.Atoi(times[1])
	t.Logf("ready after %d ms", max(a-b, b-a)/1000) // a figure: the goal is 2 s on an idle machine

	identity := l.run(1, "pace-node --print-identity")
	n := l.node(1)
	if !strings.HasPrefix(identity, "node-id "+n.NodeID+"\npublic-key "+n.Key+"\n") {
		t.Errorf("printed %q, and the service is %s with %s", identity, n.NodeID, n.Key)
	}
	l.same("state", l.run(1, "stat -c '%a %U %G' /var/lib/pace-node /var/lib/pace-node/node-key"), "700 pace-node pace-node\n600 pace-node pace-node")
	l.same("socket", l.run(1, "stat -c '%a %U %G' /run/pace-node/admin.sock"), "660 pace-node pace-admin")
	if said := l.run(1, "useradd op; usermod -aG pace-admin op; su -s /bin/sh op -c 'pacectl node --json'"); !strings.Contains(said, n.NodeID) {
		t.Errorf("a member of pace-admin hears %q", said)
	}
	if said := l.try(1, "useradd other; su -s /bin/sh other -c 'pacectl node'"); !strings.Contains(said, "pace-admin") || strings.Contains(said, n.NodeID) {
		t.Errorf("somebody else hears %q", said)
	}
	if said := l.try(1, "su -s /bin/sh other -c 'pace-node --print-identity'"); !strings.Contains(said, "sudo") {
		t.Errorf("an ordinary user's identity beside the service's: %q", said)
	}
	l.run(1, "systemd-analyze security --no-pager --threshold=15 pace-node.service >/dev/null")
	caps := l.run(1, "sed -n 's/^\\(CapEff\\|NoNewPrivs\\|Seccomp\\):\\t//p' /proc/$(systemctl show -p MainPID --value pace-node)/status | tr '\\n' ' '")
	l.same("capabilities, NoNewPrivs, seccomp", caps, "0000000000000000 1 2")
	l.same("surfaces", l.run(1, "ss -Hltu 2>/dev/null | awk '{n=split($5,a,\":\"); print $1, a[n]}' | sort -u | tr '\\n' ','"), "tcp 6674,tcp 6680,tcp 6690,udp 6681,udp 6682,")

	// The cable comes, later than the service.
	l.run(1, "ip link set eth0 up; ip addr add 10.79.0.1/24 brd + dev eth0")
	l.script(commandTime, "join", "1")
	l.until(1, patience, "pacectl node --json | grep -q 'advertised\":\"10.79.0.1:6674'")
}

func TestCrashWatchdogAndRefusedSettings(t *testing.T) {
	l := boot(t, 1)
	l.push("deb", 1)
	l.install(1, newVersion)
	before := l.node(1)
	for i, signal := range []string{"SEGV", "KILL", "ABRT"} {
		l.run(1, "systemctl kill --kill-who=main -s "+signal+" pace-node")
		l.until(1, patience, "test $(systemctl show -p NRestarts --value pace-node) -ge "+strconv.Itoa(i+1)+" && systemctl -q is-active pace-node")
	}
	l.stays("after three crashes", 1, before)

	l.run(1, "systemctl kill --kill-who=main -s STOP pace-node")
	l.until(1, patience, "test $(systemctl show -p NRestarts --value pace-node) -ge 4 && systemctl -q is-active pace-node")
	if said := l.run(1, "journalctl --no-pager -u pace-node"); !strings.Contains(said, "Watchdog timeout") {
		t.Error("a program that hung was not ended by the watchdog")
	}

	// Status 78: what is refused once is refused again, so it is not tried again, and the log names file, line and key.
	// A unit that waits for its next try is activating (auto-restart), not failed.
	l.run(1, "echo PACE_LISTEN=1 >>/etc/default/pace-node; systemctl restart pace-node || true")
	l.same("a refused setting", l.try(1, "systemctl show -p ActiveState -p SubState -p ExecMainStatus -p NRestarts --value pace-node | sort | tr '\\n' ' '"), "0 78 failed failed")
	if said := l.run(1, "journalctl --no-pager -n 20 -u pace-node"); !strings.Contains(said, "/etc/default/pace-node line") || !strings.Contains(said, "PACE_LISTEN") {
		t.Errorf("the log does not name the setting:\n%s", said)
	}
	l.run(1, "sed -i /PACE_LISTEN/d /etc/default/pace-node; systemctl restart pace-node")

	// What the file of settings says holds for a shell's pacectl too, and a drop-in wins over it.
	l.run(1, "echo PACE_NAME=from-file >>/etc/default/pace-node; systemctl restart pace-node; pacectl node --json | grep -q '\"name\":\"from-file\"'")
	l.run(1, "mkdir -p /etc/systemd/system/pace-node.service.d; printf '[Service]\\nEnvironment=PACE_NAME=from-drop-in\\n' >/etc/systemd/system/pace-node.service.d/x.conf; "+
		"systemctl daemon-reload; systemctl restart pace-node; pacectl node --json | grep -q '\"name\":\"from-drop-in\"'")
	l.run(1, "echo 'name: from-yaml' >>/etc/pace-node/pace-node.yaml; rm -r /etc/systemd/system/pace-node.service.d; sed -i /PACE_NAME/d /etc/default/pace-node; "+
		"systemctl daemon-reload; systemctl restart pace-node; pacectl node --json | grep -q '\"name\":\"from-yaml\"'")
}

func TestDisabledMaskedStopped(t *testing.T) {
	l := boot(t, 1)
	l.push("deb", 1)
	state := "systemctl is-enabled pace-node; systemctl is-active pace-node"

	l.install(1, oldVersion)
	l.run(1, "systemctl disable --now pace-node")
	l.install(1, newVersion)
	l.same("disabled, then upgraded", l.try(1, state), "disabled\ninactive")
	l.run(1, "systemctl start pace-node")
	l.install(1, newVersion)
	l.same("disabled and running, then installed again", l.try(1, state), "disabled\nactive")

	l.run(1, "systemctl enable pace-node; systemctl stop pace-node")
	l.install(1, oldVersion)
	l.same("stopped, then downgraded", l.try(1, state), "enabled\ninactive")

	l.run(1, "systemctl mask pace-node")
	l.install(1, newVersion)
	l.same("masked, then upgraded", l.try(1, state), "masked\ninactive")
	l.run(1, "systemctl unmask pace-node; systemctl start pace-node")
	l.same("unmasked", l.try(1, state), "enabled\nactive")

	l.run(1, "dpkg -P pace-node; systemctl mask pace-node")
	l.install(1, newVersion)
	l.same("masked before the first install", l.try(1, state), "masked\ninactive")
	l.run(1, "systemctl unmask pace-node; dpkg -P pace-node")

	l.run(1, "printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d; chmod +x /usr/sbin/policy-rc.d")
	l.install(1, newVersion)
	l.same("policy-rc.d says no", l.try(1, state), "enabled\ninactive")
	l.run(1, "test ! -e /var/lib/pace-node/node-key; rm /usr/sbin/policy-rc.d")
}

// TestImageBuild installs where systemd does not run, as an image builder does in a chroot: no key is made, and the first
// boot starts the service.
func TestImageBuild(t *testing.T) {
	l := boot(t, 1)
	l.push("deb", 1)
	l.run(1, "unshare -m sh -c 'mount -t tmpfs none /run && PACE_FLEET_SEED=fleet.example DEBIAN_FRONTEND=noninteractive dpkg -i /root/"+newVersion+".deb'")
	l.same("in the image", l.run(1, "ls -d /var/lib/pace-node 2>/dev/null; systemctl is-enabled pace-node; id -nG pace-node; grep ^PACE_FLEET_SEED /etc/default/pace-node"),
		"enabled\npace-node pace-admin\nPACE_FLEET_SEED=\"fleet.example\"")
	l.script(bootTime, "off", "1")
	l.script(bootTime, "boot", "1")
	l.until(1, patience, "systemctl -q is-active pace-node && test -s /var/lib/pace-node/node-key")
}

func TestRemoveAndPurge(t *testing.T) {
	l := boot(t, 1)
	l.push("deb", 1)
	l.install(1, newVersion)
	before := l.node(1)
	l.run(1, "echo '# mine' >>/etc/default/pace-node; dpkg -r pace-node")
	l.same("after remove", l.try(1, "systemctl is-active pace-node; pidof pace-node; ls /etc/pace-node/pace-node.yaml /var/lib/pace-node/node-key; tail -n 1 /etc/default/pace-node"),
		"inactive\n/etc/pace-node/pace-node.yaml\n/var/lib/pace-node/node-key\n# mine")
	l.install(1, newVersion)
	l.stays("removed and installed again", 1, before)
	l.same("installed again", l.try(1, "systemctl is-enabled pace-node; systemctl is-active pace-node; tail -n 1 /etc/default/pace-node"), "enabled\nactive\n# mine")

	// Files of somebody else beside ours stay.
	l.run(1, "mkdir -p /var/lib/pace-node-other /etc/pace-node; touch /var/lib/pace-node-other/x /etc/pace-node/mine.yaml")
	if said := l.run(1, "dpkg -P pace-node 2>&1"); !strings.Contains(said, "Its fleet still lists it") {
		t.Errorf("purge said %q", said)
	}
	l.same("after purge", l.try(1, "find / -xdev -name '*pace-node*' -not -path '/proc/*' -not -path '/root/*' -not -path '/var/log/*' | sort"),
		"/etc/pace-node\n/var/lib/pace-node-other")
	l.run(1, "rm -r /etc/pace-node /var/lib/pace-node-other; systemctl daemon-reload; test -z \"$(systemctl list-unit-files --no-legend 'pace-node*')\"")

	l.install(1, newVersion)
	l.run(1, "systemctl stop pace-node; mv /var/lib/pace-node /srv/kept; ln -s /srv/kept /var/lib/pace-node; dpkg -P pace-node 2>&1 | grep 'is a link'")
	l.run(1, "test -s /srv/kept/node-key; rm /var/lib/pace-node")

	l.install(1, newVersion)
	l.run(1, "systemctl stop pace-node; rm -r /var/lib/pace-node; mkdir /var/lib/pace-node; mount --bind /srv/kept /var/lib/pace-node; dpkg -P pace-node 2>&1 | grep mounted; test -s /srv/kept/node-key")
}

func TestSeedAtInstall(t *testing.T) {
	l := boot(t, 1)
	l.push("deb", 1)
	said := l.try(1, "DEBIAN_FRONTEND=noninteractive PACE_FLEET_SEED='one:99999' dpkg -i /root/"+newVersion+".deb; echo status $?")
	if !strings.Contains(said, "PACE_FLEET_SEED is refused") || !strings.Contains(said, "status 1") || strings.Contains(l.run(1, "cat /etc/default/pace-node"), "one:") {
		t.Errorf("a seed that is none: %s", said)
	}
	l.same("after a refused seed", l.try(1, "systemctl is-active pace-node; ls /var/lib/pace-node 2>&1 | tail -n 1"), "inactive\nls: cannot access '/var/lib/pace-node': No such file or directory")
	l.run(1, "DEBIAN_FRONTEND=noninteractive PACE_FLEET_SEED='10.79.0.77 [fd00::1]:6674' dpkg --configure -a")
	l.same("seeds", l.seeds(1), "10.79.0.77:6674 [fd00::1]:6674")
	l.run(1, "DEBIAN_FRONTEND=noninteractive PACE_FLEET_SEED=10.79.0.88 dpkg -i /root/"+newVersion+".deb")
	l.same("another one stated over a held one", l.seeds(1), "10.79.0.77:6674 [fd00::1]:6674")
	l.run(1, "dpkg -P pace-node")

	l.run(1, "echo 'pace-node pace-node/fleet-seed string 10.79.0.66' | debconf-set-selections")
	l.install(1, newVersion)
	l.same("preseeded", l.seeds(1), "10.79.0.66:6674")
	l.run(1, "sed -i s/10.79.0.66/10.79.0.55/ /etc/default/pace-node; DEBIAN_FRONTEND=noninteractive dpkg-reconfigure pace-node; systemctl restart pace-node")
	l.same("reconfigured after an edit", l.seeds(1), "10.79.0.55:6674")
	l.run(1, "dpkg -P pace-node; test -z \"$(debconf-show pace-node)\"")

	// A settings file that was there before the package, as configuration management writes it.
	l.run(1, "echo PACE_FLEET_SEED=10.79.0.44 >/etc/default/pace-node; DEBIAN_FRONTEND=noninteractive dpkg --force-confdef --force-confold -i /root/"+newVersion+".deb")
	l.same("written before the install", l.seeds(1)+" "+l.run(1, "cat /etc/default/pace-node"), "10.79.0.44:6674 PACE_FLEET_SEED=10.79.0.44")
}

// TestHelperInTheSandbox: what the service's sandbox leaves to a provisioning helper.
func TestHelperInTheSandbox(t *testing.T) {
	l := boot(t, 1)
	l.push("deb", 1)
	l.script(commandTime, "push", "1", "../../docs/examples/helper.sh", "/usr/local/bin/helper")
	l.run(1, "chmod 755 /usr/local/bin/helper; echo PACE_PROVISION_HELPER=/usr/local/bin/helper >/etc/default/pace-node; "+
		"DEBIAN_FRONTEND=noninteractive dpkg --force-confold -i /root/"+newVersion+".deb")
	said := l.until(1, patience, "pacectl queue run-helper host1 --json")
	if !strings.Contains(said, "\"v\":1") {
		t.Errorf("the helper said %s", said)
	}
	l.until(1, patience, "find /var/lib/pace-node -name motd | grep -q .")
}

// TestHooksOfRoot: the service asks, and the unit that an administrator switches on runs the hooks as root; what one of them
// refuses is taken back.
func TestHooksOfRoot(t *testing.T) {
	l := boot(t, 1)
	l.push("deb", 1)
	l.run(1, `cat >/usr/local/bin/helper <<'END'
#!/bin/sh
printf '{"configuration":{"greeting":"%s"}}' "$(cat /etc/greeting)"
END
chmod 755 /usr/local/bin/helper; echo hello >/etc/greeting; echo PACE_PROVISION_HELPER=/usr/local/bin/helper >/etc/default/pace-node
DEBIAN_FRONTEND=noninteractive dpkg --force-confold -i /root/`+newVersion+`.deb`)
	greeting := func(want string) {
		t.Helper()
		l.until(1, patience, `grep -q '"greeting": "`+want+`"' /var/lib/pace-node/provisioned/current/configuration.json && pacectl queue show host1 --json | grep -q '"state":"\(held\|confirmed\)"'`)
	}
	greeting("hello")
	l.same("shipped", l.try(1, "systemctl is-enabled pace-node-hooks.path; systemctl is-active pace-node-hooks.path; stat -c '%a %U' /etc/pace-node/hooks.d"), "disabled\ninactive\n755 root")
	l.run(1, `cat >/etc/pace-node/hooks.d/10-picky <<'END'
#!/bin/sh
in=$(cat)
echo "$(id -u) $(echo "$in" | sed 's/.*"why":"\([^"]*\)".*"greeting":"\([^"]*\)".*/\1 \2/')" >>/srv/did
case $in in *'"greeting":"bad"'*) echo "no such greeting" >&2; exit 5;; esac
END
chmod 755 /etc/pace-node/hooks.d/10-picky`)
	again := func(word string) {
		t.Helper()
		l.run(1, "echo '"+word+"' >/etc/greeting")
		l.until(1, patience, "pacectl queue reprovision host1 || pacectl queue retry host1")
	}
	shows := func(part string) {
		t.Helper()
		l.until(1, patience, "pacectl queue show host1 | grep -qF '"+part+"'")
	}

	// Nothing runs them: the operator is told what does, and the old configuration stays.
	again("good day")
	shows("sudo systemctl enable --now pace-node-hooks.path")
	// It is tried again meanwhile: between two tries the old one is there, and nothing waits for root.
	l.until(1, patience, "grep -q hello /var/lib/pace-node/provisioned/current/configuration.json && test ! -e /var/lib/pace-node/provisioned/hooks.json && test ! -e /srv/did")

	l.run(1, "systemctl enable --now pace-node-hooks.path")
	again("good day")
	greeting("good day")
	l.same("the hook ran as root", l.run(1, "sort -u /srv/did"), "0 configured good day")
	l.same("the report", l.run(1, "stat -c '%a %U %G' /run/pace-node-hooks/result.json"), "640 root pace-node")

	again("bad")
	shows("ended with exit code 5")
	shows("no such greeting")
	l.until(1, patience, "grep -q 'good day' /var/lib/pace-node/provisioned/current/configuration.json && test \"$(tail -n 1 /srv/did)\" = '0 rolled-back good day'")

	// A hook that somebody else could change is refused, and does not run.
	l.run(1, "chmod 777 /etc/pace-node/hooks.d/10-picky")
	again("evening")
	shows("is refused")
	l.run(1, "! grep -q evening /srv/did")
	l.run(1, "chmod 755 /etc/pace-node/hooks.d/10-picky")
	again("evening")
	greeting("evening")

	// Removed, nothing of root's waits for a service that is gone; what the administrator wrote stays.
	l.run(1, "dpkg -P pace-node; systemctl daemon-reload; test -z \"$(systemctl list-unit-files --no-legend 'pace-node*')\"; test -e /etc/pace-node/hooks.d/10-picky; test ! -L /etc/systemd/system/paths.target.wants/pace-node-hooks.path")
}
