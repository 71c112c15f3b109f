//go:build linux && packages

package packages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// Limits are for what never comes: on an idle machine each of these takes seconds, and on a busy one many of them.
	commandTime = 3 * time.Minute // for one command in a host; the longest is an install
	bootTime    = 6 * time.Minute // for hosts to come up
	patience    = 3 * time.Minute // for what comes by itself
	oldVersion  = "0.0.1"
	newVersion  = "0.0.2"
	nextVersion = "0.0.3" // knows one change more than the other two
)

// lab is some booted Debian systems on one bridge, in namespaces of its own: nothing of it reaches this machine's network.
type lab struct {
	t      *testing.T
	dir    string
	prefix string
}

var labs atomic.Int32

// boot starts hosts. Labs know nothing of one another, so tests with one run side by side.
func boot(t *testing.T, hosts int) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("booting systems needs root")
	}
	t.Parallel()
	l := &lab{t: t, dir: filepath.Join(t.TempDir(), "lab"), prefix: fmt.Sprintf("pk%d-%d", os.Getpid(), labs.Add(1))}
	t.Cleanup(func() {
		if t.Failed() {
			for i := 1; i <= hosts; i++ {
				t.Logf("host %d:\n%s", i, l.try(i, "journalctl --no-pager -n 12 -u pace-node | cut -c1-200; systemctl status pace-node --no-pager -n 0"))
			}
		}
		l.script(bootTime, "down")
	})
	l.script(bootTime, "up", fmt.Sprint(hosts))
	return l
}

// script runs hosts.sh.
func (l *lab) script(limit time.Duration, args ...string) string {
	l.t.Helper()
	out, err := l.start(limit, args...)
	if err != nil {
		l.t.Fatalf("hosts.sh %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (l *lab) start(limit time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "./hosts.sh", args...)
	work, err := filepath.Abs("../../build/testhosts")
	if err != nil {
		return "", err
	}
	cmd.Env = append(os.Environ(), "ROOTFS="+work+"/rootfs", "LAB="+l.dir, "P="+l.prefix, "NET=10.79.0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second // a host's console may hold the pipes open
	err = cmd.Run()
	return out.String(), err
}

// run runs a shell command in a host and fails the test where it fails.
func (l *lab) run(host int, command string) string {
	l.t.Helper()
	out, err := l.start(commandTime, "run", fmt.Sprint(host), "sh", "-c", command)
	if err != nil {
		l.t.Fatalf("host %d: %s: %v\n%s", host, command, err, out)
	}
	return strings.TrimSpace(out)
}

// try runs a shell command in a host and returns what it printed, whatever its status.
func (l *lab) try(host int, command string) string {
	out, _ := l.start(commandTime, "run", fmt.Sprint(host), "sh", "-c", command)
	return strings.TrimSpace(out)
}

// until waits for a command to succeed in a host.
func (l *lab) until(host int, limit time.Duration, command string) string {
	l.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		out, err := l.start(commandTime, "run", fmt.Sprint(host), "sh", "-c", command)
		if err == nil {
			return strings.TrimSpace(out)
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("host %d: not in %s: %s\n%s", host, limit, command, out)
		}
		time.Sleep(200 * time.Millisecond) // a poll of another system: there is nothing to wait on
	}
}

// push copies the packages of a format, of both versions, to /root/<version>.<format> of each host.
func (l *lab) push(format string, hosts ...int) {
	l.t.Helper()
	l.pushFrom("old", oldVersion, format, hosts...)
	l.pushFrom("new", newVersion, format, hosts...)
}

func (l *lab) pushFrom(folder, version, format string, hosts ...int) {
	l.t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "..", "build", "testhosts", folder, "pace-node*."+format))
	if err != nil || len(found) != 1 {
		l.t.Fatalf("build/testhosts/%s has %d packages of format %s: run test/packages/prepare.sh", folder, len(found), format)
	}
	for _, host := range hosts {
		l.script(commandTime, "push", fmt.Sprint(host), found[0], "/root/"+version+"."+format)
	}
}

// install installs the package of a version with dpkg, with settings in its environment.
func (l *lab) install(host int, version string, env ...string) string {
	l.t.Helper()
	return l.run(host, strings.Join(append(env, "DEBIAN_FRONTEND=noninteractive dpkg -i /root/"+version+".deb"), " "))
}

// node is what pacectl says of a host's node.
type node struct {
	Version string `json:"version"`
	Mode    string `json:"mode"`
	NodeID  string `json:"node_id"`
	Key     string `json:"public_key"`
	FleetID string `json:"fleet_id"`
}

// node asks a host's node, waiting for it to answer as a member of a fleet, its own or another.
func (l *lab) node(host int) node {
	l.t.Helper()
	var n node
	text := l.until(host, patience, "pacectl node --json | grep '\"fleet_id\":\"..*\"'")
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		l.t.Fatalf("host %d: %v: %s", host, err, text)
	}
	return n
}

// stays wants a host's node to be, or soon to become, what it was.
func (l *lab) stays(what string, host int, before node) {
	l.t.Helper()
	now := l.node(host)
	for deadline := time.Now().Add(patience); now != before && time.Now().Before(deadline); now = l.node(host) {
		time.Sleep(200 * time.Millisecond) // a poll of another system: there is nothing to wait on
	}
	if now != before {
		l.t.Errorf("%s: %+v, before %+v", what, now, before)
	}
}

// seeds are those that a host's node was given, whatever became of asking them since.
func (l *lab) seeds(host int) string {
	l.t.Helper()
	var n struct {
		Seeds []struct{ Endpoint, Origin string }
	}
	text := l.until(host, patience, "pacectl node --json")
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		l.t.Fatalf("host %d: %v: %s", host, err, text)
	}
	var given []string
	for _, s := range n.Seeds {
		if s.Origin == "fleet-seed" {
			given = append(given, s.Endpoint)
		}
	}
	slices.Sort(given)
	return strings.Join(given, " ")
}

// same fails the test where two texts differ.
func (l *lab) same(what, got, want string) {
	l.t.Helper()
	if got != want {
		l.t.Errorf("%s: %q, want %q", what, got, want)
	}
}
