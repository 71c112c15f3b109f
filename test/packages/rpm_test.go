//go:build linux && packages

package packages

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRPM runs the scriptlets under real rpm and systemd. Debian's rpm knows none of Debian's packages, hence --nodeps.
func TestRPM(t *testing.T) {
	l := boot(t, 1)
	l.push("rpm", 1)
	rpm := func(what string) string {
		t.Helper()
		return l.run(1, "rpm --nodeps "+what+" 2>/tmp/rpm.err || { cat /tmp/rpm.err; exit 1; }")
	}
	state := "systemctl is-enabled pace-node; systemctl is-active pace-node"
	l.run(1, "PACE_FLEET_SEED='10.79.0.77' rpm -i --nodeps /root/"+oldVersion+".rpm")
	l.same("installed", l.try(1, state), "enabled\nactive")
	l.same("seed", l.seeds(1), "10.79.0.77:6674")
	// The file of settings was written by the install; nothing else may differ from the package.
	l.same("rpm -V", l.try(1, "rpm -V --nodeps pace-node | grep -v ' c /etc/default/pace-node'"), "")
	before := l.node(1)

	l.run(1, "echo '# mine' >>/etc/pace-node/pace-node.yaml")
	rpm("-U /root/" + newVersion + ".rpm")
	l.same("upgraded", l.try(1, state+"; tail -n 1 /etc/pace-node/pace-node.yaml; rpm -q pace-node"), "enabled\nactive\n# mine\npace-node-"+newVersion+"-1.x86_64")
	before.Version = newVersion
	l.stays("upgraded", 1, before)

	l.run(1, "systemctl disable --now pace-node")
	rpm("-U --oldpackage /root/" + oldVersion + ".rpm")
	l.same("disabled, then downgraded", l.try(1, state), "disabled\ninactive")
	l.run(1, "systemctl mask pace-node")
	rpm("-U /root/" + newVersion + ".rpm")
	l.same("masked, then upgraded", l.try(1, state), "masked\ninactive")
	l.run(1, "systemctl unmask pace-node; systemctl enable --now pace-node")

	l.run(1, "rpm -e pace-node")
	l.same("erased", l.try(1, "systemctl is-active pace-node; pidof pace-node; ls /etc/default/pace-node.rpmsave /etc/pace-node/pace-node.yaml.rpmsave /var/lib/pace-node/node-key"),
		"inactive\n/etc/default/pace-node.rpmsave\n/etc/pace-node/pace-node.yaml.rpmsave\n/var/lib/pace-node/node-key")
	l.run(1, "test ! -e /usr/lib/systemd/system/pace-node.service && test ! -L /etc/systemd/system/multi-user.target.wants/pace-node.service")
	rpm("-i /root/" + newVersion + ".rpm")
	if again := l.node(1); again.NodeID != before.NodeID {
		t.Errorf("installed again: %+v, before %+v", again, before)
	}

	l.run(1, "rpm -e pace-node; mkdir -p /etc/systemd/system-preset; echo 'disable pace-node.service' >/etc/systemd/system-preset/10-site.preset")
	rpm("-i /root/" + newVersion + ".rpm")
	l.same("an administrator's preset says no", l.try(1, state), "disabled\ninactive")
	l.run(1, "rpm -e pace-node; rm -r /etc/systemd/system-preset; systemctl mask pace-node")
	rpm("-i /root/" + newVersion + ".rpm")
	l.same("masked before the first install", l.try(1, state), "masked\ninactive")
}

// base stands for the packages of a distribution that ours depends on.
const base = `Name: base
Version: 1
Release: 1
Summary: stands for a distribution
License: none
BuildArch: noarch
Provides: /bin/sh, systemd, shadow-utils
%description
none
%files
`

// TestDNF has dnf solve the dependencies, and install, upgrade and remove from a repository. Scripts are run by TestRPM.
func TestDNF(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"dnf", "createrepo_c", "rpmbuild"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed, so dnf's part is not tested here", tool)
		}
	}
	dir := t.TempDir()
	repo := filepath.Join(dir, "repo")
	run := func(name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(name string, args ...string) string {
		t.Helper()
		out, err := run(name, args...)
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return out
	}
	if err := os.MkdirAll(repo, 0o755); err != nil {
		t.Fatal(err)
	}
	publish := func(folder string) {
		found, _ := filepath.Glob(filepath.Join("..", "..", "build", "testhosts", folder, "*.rpm"))
		for _, file := range found {
			must("cp", file, repo)
		}
		must("createrepo_c", "-q", repo)
	}
	calls := 0
	dnf := func(verb ...string) (string, error) {
		calls++ // a cache each: it takes a repository that was made anew within a second for the same
		return run("dnf", append([]string{"-y", "-q", "--installroot=" + filepath.Join(dir, "root"), "--releasever=9", "--setopt=reposdir=/dev/null", "--setopt=gpgcheck=0",
			"--setopt=tsflags=noscripts", "--setopt=cachedir=" + filepath.Join(dir, fmt.Sprint("cache", calls)), "--setopt=metadata_expire=0", "--repofrompath=l,file://" + repo}, verb...)...)
	}
	publish("old")
	if out, err := dnf("install", "pace-node"); err == nil || !strings.Contains(out, "systemd") {
		t.Errorf("installed without what it depends on: %v\n%s", err, out)
	}
	spec := filepath.Join(dir, "base.spec")
	if err := os.WriteFile(spec, []byte(base), 0o644); err != nil {
		t.Fatal(err)
	}
	must("rpmbuild", "-bb", "--quiet", "--define", "_topdir "+dir+"/build", "--define", "_rpmdir "+repo, spec)
	publish("old")
	if out, err := dnf("install", "pace-node"); err != nil {
		t.Fatalf("install: %v\n%s", err, out)
	}
	publish("new")
	if out, err := dnf("upgrade", "pace-node"); err != nil {
		t.Fatalf("upgrade: %v\n%s", err, out)
	}
	out, err := run(filepath.Join(dir, "root/usr/bin/pace-node"), "--version")
	if err != nil || !strings.Contains(out, newVersion) {
		t.Errorf("upgraded to %q, %v", out, err)
	}
	if out, err := dnf("remove", "pace-node"); err != nil {
		t.Errorf("remove: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "root/usr/bin/pace-node")); err == nil {
		t.Error("removed, and yet there")
	}
}
