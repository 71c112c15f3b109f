//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pace-node/internal/config"
	"pace-node/internal/release"
)

// The versions of upgrades' tests: one tree, linked under three names.
const (
	oldVersion = "1.0.0"
	newVersion = "2.0.0"
	badVersion = "2.0.1" // a build that a test can have end or hang at its start
)

// releases is what they share: a program of each version, and the key that signs them.
type releases struct {
	dir    string
	key    string // as --provision-release-key takes it
	secret string // its file
}

// built makes the programs, once; TestMain removes the folder with the others.
var built = sync.OnceValues(func() (r releases, err error) {
	if r.dir, err = os.MkdirTemp(scratch, "releases-"); err != nil {
		return r, err
	}
	for version, tags := range map[string]string{oldVersion: "", newVersion: "", badVersion: "crashpoints"} {
		out, err := exec.Command("go", "build", "-trimpath", "-tags", tags, "-ldflags", "-s -w -X pace-node/internal/version.Version="+version,
			"-o", r.program(version), "pace-node/cmd/pace-node").CombinedOutput()
		if err != nil {
			return r, fmt.Errorf("build of %s: %w\n%s", version, err, out)
		}
	}
	r.secret = filepath.Join(r.dir, "key")
	public, err := release.WriteKey(r.secret, "")
	r.key = public.String()
	return r, err
})

func (r releases) program(version string) string { return filepath.Join(r.dir, "pace-node-"+version) }

// repository makes a signed repository of a version with the operator's tool.
func (r releases) repository(t *testing.T, versions ...string) string {
	t.Helper()
	repo := filepath.Join(t.TempDir(), "repo")
	tool := filepath.Join(filepath.Dir(binary), "pacectl")
	for _, version := range versions {
		sh(t, tool, "release", "new", repo, version, runtime.GOOS+"-"+runtime.GOARCH+"="+r.program(version))
		sh(t, tool, "release", "sign", "--key="+r.secret, repo, version)
	}
	return repo
}

// installed is a folder of its own with the program of a version, as a machine has it.
func (r releases) installed(t *testing.T, version string) string {
	t.Helper()
	b, err := os.ReadFile(r.program(version))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pace-node")
	if err := writeProgram(path, b); err != nil {
		t.Fatal(err)
	}
	return path
}

// serves makes a folder a web server's, and returns its address.
func (h *host) serves(t *testing.T, folder string) string {
	t.Helper()
	var listener net.Listener
	var err error
	h.in(func() { listener, err = net.Listen("tcp4", net.JoinHostPort(h.addr.String(), "0")) })
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.FileServer(http.Dir(folder))}
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(listener) }()
	t.Cleanup(func() { s.Close(); <-done })
	return "http://" + listener.Addr().String()
}

// upgrading starts a leader that gives every machine but itself a version.
func upgrading(t *testing.T, h *host, r releases, policy, version, repository string) *node {
	t.Helper()
	command, _ := helper(t, fmt.Sprintf(`case $in in *'"name":"alder"'*) up= ;; *) up=',"upgrade":"%s"' ;; esac
printf '{"configuration":{"greeting":"hello %%s"}%%s}' "$id" "$up"`+"\n", version))
	return h.start(t, "alder", metered, "--provision-helper="+command, "--provision-upgrades="+policy, "--provision-repository="+repository,
		"--provision-release-key="+r.key)
}

// again waits for the process to end for its upgrade, and starts it as a service manager does.
func (n *node) again() {
	n.t.Helper()
	if code := n.ends(); code != config.ExitAgain {
		n.t.Fatalf("%s ended with %d", n.name, code)
	}
	n.start()
}

// version is what the running node says that it is.
func (n *node) version() string {
	n.t.Helper()
	out, err := n.pacectl("node", "--json")
	if err != nil {
		return err.Error()
	}
	var d struct{ Version string }
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		n.t.Fatal(err)
	}
	return d.Version
}

// beside is a file of an upgrade beside the machine's program.
func (n *node) beside(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(filepath.Dir(n.binary), name))
	return string(b), err
}

func TestUpgradeOfABareProgram(t *testing.T) {
	t.Parallel()
	r, err := built()
	if err != nil {
		t.Fatal(err)
	}
	l := newLAN(t, 2)
	a := upgrading(t, l.hosts[0], r, "required", newVersion, r.repository(t, newVersion))
	nextSecond(t)
	b := l.hosts[1].newNode(t, "birch")
	b.binary = r.installed(t, oldVersion)
	b.start()
	b.ready()
	b.approve(a)
	b.again()
	// Until it has served for half a minute.
	until(t, "the new program is watched", func() (bool, string) {
		intent, err := b.beside(".pace-node.upgrade")
		return err == nil && strings.Contains(intent, `"phase": "swapped"`) && strings.Contains(intent, `"starts": 1`), fmt.Sprint(err, intent)
	})
	b.ready()
	b.configured("greeting", "hello "+b.id())
	if v := b.version(); v != newVersion {
		t.Errorf("it runs %s", v)
	}
	if old, err := b.beside("pace-node.previous"); err != nil || len(old) == 0 {
		t.Errorf("the old program is not kept: %v", err)
	}
	until(t, "it counts as provisioned", func() (bool, string) {
		m := a.metrics()
		up, done := m.of(t, "pace_provision_upgrades_total"), m.of(t, "pace_provision_provisioned_total")
		return up == 1 && done >= 2, fmt.Sprintf("%v upgraded, %v provisioned", up, done)
	})
	if out, err := a.pacectl("queue", "history", "birch"); err != nil || !strings.Contains(out, "upgraded") {
		t.Errorf("history: %v %s", err, out)
	}
	b.stop() // a clean end of what serves settles it
	if intent, err := b.beside(".pace-node.upgrade"); err == nil {
		t.Errorf("it is watched still: %s", intent)
	}
}

// TestUpgradeToWhatDoesNotServe: a program that ends at its start and one that hangs there are taken back, over http.
func TestUpgradeToWhatDoesNotServe(t *testing.T) {
	t.Parallel()
	r, err := built()
	if err != nil {
		t.Fatal(err)
	}
	l := newLAN(t, 3)
	a := upgrading(t, l.hosts[0], r, "optional", badVersion, l.hosts[0].serves(t, r.repository(t, badVersion)))
	nextSecond(t)
	for i, c := range []struct {
		name, why string
		env       []string
		ends      []int
	}{
		// Every start comes to this point before it serves; the old program knows no points.
		{"birch", "it was started 3 times", []string{"PACE_CRASH_AT=statedir.record.write.before"}, []int{77, 77, 77, config.ExitAgain}},
		{"cedar", "it did not serve within 2s", []string{"PACE_CRASH_AT=statedir.record.write.before", "PACE_CRASH_HANG=yes", "PACE_SERVE_WITHIN=2s"}, []int{config.ExitAgain}},
	} {
		n := l.hosts[i+1].newNode(t, c.name)
		n.binary, n.env = r.installed(t, oldVersion), c.env
		n.start()
		n.ready()
		n.approve(a)
		n.again()
		for _, code := range c.ends {
			if got := n.ends(); got != code {
				t.Fatalf("%s ended with %d, want %d", n.name, got, code)
			}
			n.start()
		}
		n.ready()
		// The old program serves again, says why, and, where an upgrade is optional, is configured.
		n.configured("greeting", "hello "+n.id())
		if v := n.version(); v != oldVersion {
			t.Errorf("%s runs %s", n.name, v)
		}
		wants(t, n.log.String(), "last upgrade was rolled back", c.why)
		wants(t, a.log.String(), "machine is not upgraded, and configured as it is")
		out, err := a.pacectl("queue", "run-helper", n.name, "--dry-run", "--json")
		if err != nil || !strings.Contains(out, "rolled_back") || !strings.Contains(out, c.why) {
			t.Errorf("its inventory does not say so: %v %s", err, out)
		}
	}
}
