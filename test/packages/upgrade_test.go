//go:build linux && packages

package packages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"pace-node/internal/release"
)

// badVersion is a build that ends at its start.
const badVersion = "0.0.3"

// endsAtItsStart is what has that build end there; no other knows it.
const endsAtItsStart = "PACE_CRASH_AT=statedir.record.write.before"

// repository makes a signed repository of the newer package's program and of the bad one, as a tar file, and the key.
func repository(t *testing.T) (tar, key string) {
	t.Helper()
	dir := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	debs, err := filepath.Glob(filepath.Join("..", "..", "build", "testhosts", "new", "pace-node*.deb"))
	if err != nil || len(debs) != 1 {
		t.Fatalf("%d packages: run test/packages/prepare.sh", len(debs))
	}
	run("dpkg-deb", "-x", debs[0], filepath.Join(dir, "deb"))
	bad := filepath.Join(dir, "bad")
	run("go", "build", "-tags", "crashpoints", "-ldflags", "-s -w -X pace-node/internal/version.Version="+badVersion, "-o", bad, "pace-node/cmd/pace-node")
	public, secretText, _, err := release.NewKey("")
	if err != nil {
		t.Fatal(err)
	}
	secret, err := release.ParseSecretKey("", secretText)
	if err != nil {
		t.Fatal(err)
	}
	for version, program := range map[string]string{newVersion: filepath.Join(dir, "deb", "usr", "bin", "pace-node"), badVersion: bad} {
		if _, err := release.New(filepath.Join(dir, "repo"), version, map[string]string{"linux-" + runtime.GOARCH: program}); err != nil {
			t.Fatal(err)
		}
		if _, err := release.Sign(filepath.Join(dir, "repo"), version, secret); err != nil {
			t.Fatal(err)
		}
	}
	tar = filepath.Join(dir, "repo.tar")
	run("tar", "-C", dir, "-cf", tar, "repo")
	return tar, public.String()
}

// TestUpgradeOfAPackage: the program of a package is passed over until an administrator lets root replace it; then the
// fleet upgrades it, root's half goes on after it was killed, and a program that does not serve is taken back.
func TestUpgradeOfAPackage(t *testing.T) {
	l := boot(t, 1)
	tar, key := repository(t)
	l.push("deb", 1)
	l.script(commandTime, "push", "1", tar, "/root/repo.tar")
	l.install(1, oldVersion)
	wants := func(version string) {
		l.run(1, fmt.Sprintf(`printf '#!/bin/sh\ncat >/dev/null\necho '\''{"configuration":{"a":"b"},"upgrade":"%s"}'\''\n' >/usr/local/bin/helper; chmod 755 /usr/local/bin/helper`, version))
	}
	wants(newVersion)
	l.run(1, "mkdir -p /srv && tar -C /srv -xf /root/repo.tar && chmod -R go+rX /srv/repo && printf '%s\\n' PACE_PROVISION_HELPER=/usr/local/bin/helper "+
		"PACE_PROVISION_UPGRADES=required PACE_PROVISION_REPOSITORY=/srv/repo PACE_PROVISION_RELEASE_KEY="+key+" >>/etc/default/pace-node && systemctl restart pace-node")
	l.same("shipped", l.try(1, "systemctl is-enabled pace-node-upgrade.path; systemctl is-active pace-node-upgrade.path"), "disabled\ninactive")
	l.until(1, patience, "pacectl queue show host1 | grep -q 'dpkg owns /usr/bin/pace-node: upgrade the package, or let root do it: systemctl enable --now pace-node-upgrade.path'")

	l.run(1, "systemctl enable --now pace-node-upgrade.path && pacectl queue retry host1")
	l.until(1, patience, "pacectl node --json | grep -q '\"version\":\"0.0.2\"'")
	// Root's half is killed while it watches, and started again by what it left.
	l.until(1, patience, "test -e /var/lib/pace-node-upgrade/intent.json && systemctl kill -s KILL pace-node-upgrade.service && test -e /var/lib/pace-node-upgrade/intent.json")
	l.until(1, patience, "test ! -e /var/lib/pace-node-upgrade/intent.json")
	l.until(1, patience, "find /var/lib/pace-node/provisioned/current -name configuration.json | grep -q .")
	l.same("upgraded", l.try(1, "systemctl is-active pace-node; /usr/bin/pace-node --version | cut -d' ' -f2; /usr/bin/pace-node.previous --version | cut -d' ' -f2; stat -c '%a %U' /usr/bin/pace-node; ls -A /var/lib/pace-node/upgrade"),
		"active\n0.0.2\n0.0.1\n755 root")

	// A program that ends at its start: the old one is back, says why, and is not replaced by it again.
	wants(badVersion)
	l.run(1, "mkdir -p /etc/systemd/system/pace-node.service.d && printf '[Service]\\nEnvironment="+endsAtItsStart+"\\n' >/etc/systemd/system/pace-node.service.d/x.conf && "+
		"systemctl daemon-reload && pacectl queue reprovision host1")
	l.until(1, patience, "journalctl --no-pager -u pace-node-upgrade | grep -q 'to 0.0.3 is rolled back: it was started 3 times'")
	l.until(1, patience, "pacectl node --json | grep -q '\"version\":\"0.0.2\"'")
	l.until(1, patience, "pacectl queue show host1 | grep -q 'the upgrade to 0.0.3 was rolled back here'")
	l.same("rolled back", l.try(1, "systemctl is-active pace-node; /usr/bin/pace-node --version | cut -d' ' -f2; ls /usr/bin/pace-node.previous /var/lib/pace-node-upgrade/intent.json 2>/dev/null"), "active\n0.0.2")
	if said := l.run(1, "journalctl --no-pager -u pace-node"); !strings.Contains(said, "last upgrade was rolled back") {
		t.Error("the service's log does not say that it was rolled back")
	}

	// The next package has its way, and nothing is left after a purge.
	l.install(1, newVersion)
	l.run(1, "dpkg -P pace-node 2>&1")
	l.same("after purge", l.try(1, "find / -xdev -name '*pace-node*' -not -path '/proc/*' -not -path '/root/*' -not -path '/var/log/*' -not -path '/etc/systemd/system/pace-node.service.d*' -not -path '/srv/repo/*' | sort"), "")
}
