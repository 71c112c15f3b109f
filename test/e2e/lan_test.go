//go:build e2e

// Package e2e runs whole nodes as processes of the built binary in network namespaces of their own, joined by one bridge:
// what a segment of real machines sees, on one machine. It needs root, nft and ip; without root every test is skipped by
// name.
package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds every wait; each of them is for something that takes seconds on an idle machine.
const patience = 4 * time.Minute

var binary = func() string {
	if b := os.Getenv("PACE_BINARY"); b != "" {
		return b
	}
	b, _ := filepath.Abs("../../build/pace-node")
	return b
}()

func TestMain(m *testing.M) {
	if _, err := os.Stat(binary); err != nil {
		fmt.Fprintf(os.Stderr, "%s is not there: run these by make e2e, or set PACE_BINARY\n", binary)
		os.Exit(1)
	}
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "pace-e2e-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(scratch)
		defer closeBrowser()
		return m.Run()
	}())
}

// scratch is a folder of all these tests, for what they build.
var scratch string

// needRoot skips a test by name for an ordinary user, who may make no network namespaces.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes network namespaces")
	}
}

var lans atomic.Uint32

// lan is one bridge in a namespace of its own, and hosts on it at 10.1.0.1, 10.1.0.2, …, each a namespace.
type lan struct {
	t     *testing.T
	name  string
	hosts []*host
}

// host is one namespace with eth0 on the bridge.
type host struct {
	lan  *lan
	ns   string
	addr netip.Addr
}

func sh(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// newLAN makes a segment of n hosts, and removes it at the end of the test.
func newLAN(t *testing.T, n int) *lan {
	t.Helper()
	needRoot(t)
	l := &lan{t: t, name: fmt.Sprintf("pe%d-%d", os.Getpid()%100000, lans.Add(1))}
	sh(t, "ip", "netns", "add", l.name)
	t.Cleanup(func() { exec.Command("ip", "netns", "del", l.name).Run() })
	sh(t, "ip", "-n", l.name, "link", "add", "br0", "type", "bridge")
	sh(t, "ip", "-n", l.name, "link", "set", "br0", "up")
	for range n {
		l.addHost()
	}
	return l
}

func (l *lan) addHost() *host {
	l.t.Helper()
	i := len(l.hosts) + 1
	h := &host{lan: l, ns: fmt.Sprintf("%s-%d", l.name, i), addr: netip.AddrFrom4([4]byte{10, 1, byte(i / 250), byte(i%250 + 1)})}
	port := fmt.Sprintf("p%d", i)
	sh(l.t, "ip", "netns", "add", h.ns)
	l.t.Cleanup(func() { exec.Command("ip", "netns", "del", h.ns).Run() })
	hideStored(l.t, h.ns)
	sh(l.t, "ip", "-n", h.ns, "link", "set", "lo", "up")
	sh(l.t, "ip", "-n", l.name, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", h.ns)
	sh(l.t, "ip", "-n", l.name, "link", "set", port, "master", "br0", "up")
	sh(l.t, "ip", "-n", h.ns, "addr", "add", h.addr.String()+"/16", "brd", "+", "dev", "eth0")
	sh(l.t, "ip", "-n", h.ns, "link", "set", "eth0", "up")
	sh(l.t, "ip", "-n", h.ns, "route", "add", "default", "via", "10.1.255.254", "dev", "eth0")
	l.hosts = append(l.hosts, h)
	return h
}

// hideStored keeps what a package on this very machine has stored, if one is installed, from the nodes of a namespace:
// ip shows a namespace the folders of /etc/netns in the place of /etc's own.
func hideStored(t *testing.T, ns string) {
	t.Helper()
	if _, err := os.Stat("/etc/default/pace-node"); err != nil {
		return
	}
	shown := filepath.Join("/etc/netns", ns)
	t.Cleanup(func() {
		os.RemoveAll(shown)
		os.Remove("/etc/netns") // only when nobody else has something in it
	})
	if err := os.MkdirAll(filepath.Join(shown, "default"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// cut pulls the host's cable, join puts it back.
func (h *host) cut() { sh(h.lan.t, "ip", "-n", h.lan.name, "link", "set", h.port(), "down") }
func (h *host) join() {
	sh(h.lan.t, "ip", "-n", h.lan.name, "link", "set", h.port(), "up")
}
func (h *host) port() string { return "p" + h.ns[strings.LastIndex(h.ns, "-")+1:] }

// lose makes every packet that arrives at the host be lost with a chance of percent in a hundred.
func (h *host) lose(percent int) {
	h.nft(fmt.Sprintf("table inet loss { chain in { type filter hook input priority 0; iifname eth0 numgen random mod 100 < %d drop; }; }", percent))
}

// in runs f on a thread of its own inside the host's namespace: sockets that f opens are the host's. f must not hand its
// work to other goroutines before they are open.
func (h *host) in(f func()) {
	h.lan.t.Helper()
	if err := inNamespace(h.ns, f); err != nil {
		h.lan.t.Fatal(err)
	}
}

func inNamespace(ns string, f func()) error {
	done := make(chan error, 1)
	go func() {
		// Not unlocked: the thread is in another namespace and ends with the goroutine.
		runtime.LockOSThread()
		fd, err := unix.Open("/run/netns/"+ns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			unix.Close(fd)
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		return fmt.Errorf("enter %s: %w", ns, err)
	}
	return nil
}

// dial opens a TCP connection as the host.
func (h *host) dial(ctx context.Context, _, addr string) (c net.Conn, err error) {
	h.in(func() { c, err = (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp4", addr) })
	return c, err
}

// node is one pace-node process in a host's namespace.
type node struct {
	t    *testing.T
	host *host
	name string
	dir  string
	args []string
	log  *logFile
	cmd  *exec.Cmd
	done chan struct{}
	disk *disk // of the state directory; nil: the host's own

	binary string   // that start runs; empty: the one that is tested
	env    []string // beside this process' own
}

// inside is a command that runs args where the node runs.
func (n *node) inside(args ...string) *exec.Cmd {
	if n.disk != nil {
		return n.disk.inside(args...)
	}
	return exec.Command("ip", append([]string{"netns", "exec", n.host.ns}, args...)...)
}

// state is the node's state directory as this process sees it.
func (n *node) state() string {
	if n.disk != nil {
		return n.disk.outside(n.dir)
	}
	return n.dir
}

// newNode prepares a node; start runs it.
func (h *host) newNode(t *testing.T, name string, args ...string) *node {
	n := &node{t: t, host: h, name: name, dir: filepath.Join(t.TempDir(), name), args: args, log: newLog(t)}
	t.Cleanup(func() {
		n.kill()
		for _, fault := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
			if strings.Contains(n.log.String(), fault) {
				t.Errorf("%s: %s\n%s", name, fault, n.log)
			}
		}
		if t.Failed() {
			lines := strings.Split(n.log.String(), "\n")
			t.Logf("--- %s\n%s", name, strings.Join(lines[max(0, len(lines)-60):], "\n"))
		}
	})
	return n
}

func (h *host) start(t *testing.T, name string, args ...string) *node {
	t.Helper()
	n := h.newNode(t, name, args...)
	n.start()
	n.ready()
	return n
}

// start runs the process, without waiting for it to serve.
func (n *node) start() {
	n.t.Helper()
	args := []string{cmp.Or(n.binary, binary), "--state-dir=" + n.dir, "--name=" + n.name}
	if !slices.ContainsFunc(n.args, func(a string) bool { return strings.HasPrefix(a, "--admin-listen=") }) {
		args = append(args, "--admin-listen=")
	}
	args = append(args, n.args...)
	n.cmd = n.inside(args...)
	n.cmd.Env = append(os.Environ(), n.env...)
	n.log.takes(n.cmd)
	n.done = make(chan struct{})
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	cmd, done := n.cmd, n.done
	go func() { cmd.Wait(); close(done) }()
}

// kill ends the process as a power cut does.
func (n *node) kill() {
	if n.cmd == nil || n.cmd.Process == nil {
		return
	}
	n.cmd.Process.Kill() // what enters the namespace execs the binary, so this is its pid
	<-n.done
}

// stop ends it as a service manager does.
func (n *node) stop() {
	n.cmd.Process.Signal(unix.SIGTERM)
	select {
	case <-n.done:
	case <-time.After(patience):
		n.t.Fatalf("%s did not stop", n.name)
	}
}

// verb runs a verb of pace-node towards this node and returns what it printed.
func (n *node) verb(args ...string) (string, error) {
	out, err := n.inside(append([]string{binary, "--state-dir=" + n.dir}, args...)...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out), fmt.Errorf("%s: %w: %s%s", strings.Join(args, " "), err, out, exit.Stderr)
	}
	return string(out), err
}

// pacectl runs the operator's tool towards this node.
func (n *node) pacectl(args ...string) (string, error) {
	out, err := n.inside(append([]string{filepath.Join(filepath.Dir(binary), "pacectl"), "--state-dir=" + n.dir}, args...)...).CombinedOutput()
	return string(out), err
}

// The documents of the verbs, as far as these tests read them.
type (
	nodeDoc struct {
		Mode    string `json:"mode"`
		NodeID  string `json:"node_id"`
		Key     string `json:"public_key"`
		FleetID string `json:"fleet_id"`
		Leader  *struct {
			ID string `json:"id"`
		} `json:"leader"`
		View struct {
			Revision       uint64 `json:"revision"`
			Leads          bool   `json:"leads"`
			LeaderSilentMS int64  `json:"leader_silent_ms"`
		} `json:"view"`
		Peers struct {
			Authenticated int `json:"authenticated"`
			Sessions      int `json:"sessions"`
		} `json:"peers"`
		Conditions []struct {
			ID      string `json:"id"`
			SinceMS int64  `json:"since_ms"`
		} `json:"conditions"`
		UptimeMS int64 `json:"uptime_ms"`
	}
	clusterDoc struct {
		Cluster string `json:"cluster"`
		Leader  *struct {
			ID string `json:"id"`
		} `json:"leader"`
		View struct {
			Revision uint64 `json:"revision"`
		} `json:"view"`
		Members []struct {
			ID           string `json:"id"`
			Key          string `json:"key"`
			Name         string `json:"name"`
			Role         string `json:"role"`
			Provisioning string `json:"provisioning"`
			Arrived      bool   `json:"arrived"`
			HeardMS      *int64 `json:"heard_ms"`
		} `json:"members"`
	}
	enrollDoc struct {
		Rows []struct {
			Decision string `json:"decision"`
			ID       string `json:"id"`
			Key      string `json:"key"`
			Name     string `json:"name"`
			Source   string `json:"source"`
			AgeMS    int64  `json:"age_ms"`
			Attempts int    `json:"attempts"`
		} `json:"rows"`
	}
)

func (n *node) status() (d nodeDoc, err error) {
	out, err := n.pacectl("node", "--json")
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal([]byte(out), &d)
}

func (n *node) cluster() (d clusterDoc, err error) {
	out, err := n.verb("--cluster-status", "--json")
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal([]byte(out), &d)
}

func (n *node) waiting() (d enrollDoc, err error) {
	out, err := n.verb("--enroll-list", "--json")
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal([]byte(out), &d)
}

// until polls a condition; what is said last tells why it was not met. within, if given, takes patience's place.
func until(t *testing.T, what string, done func() (bool, string), within ...time.Duration) {
	t.Helper()
	patience := patience
	for _, d := range within {
		patience = d
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for {
		ok, state := done()
		if ok {
			return
		}
		select {
		case <-limit:
			t.Fatalf("still not after %s: %s (%s)", patience, what, state)
		case <-tick.C:
		}
	}
}

// ready waits until the node serves.
func (n *node) ready() {
	n.t.Helper()
	until(n.t, n.name+" serves", func() (bool, string) {
		select {
		case <-n.done:
			n.t.Fatalf("%s ended: %s\n%s", n.name, n.cmd.ProcessState, n.log)
		default:
		}
		d, err := n.status()
		if err != nil {
			return false, err.Error()
		}
		return d.Mode != "", ""
	})
}

// inMode waits until the node is in the mode, in the fleet of of (or any fleet).
func (n *node) inMode(mode string, of *node) {
	n.t.Helper()
	want := ""
	if of != nil {
		c, err := of.cluster()
		if err != nil {
			n.t.Fatal(err)
		}
		want = c.Cluster
	}
	until(n.t, n.name+" is a "+mode, func() (bool, string) {
		d, err := n.status()
		if err != nil {
			return false, err.Error()
		}
		if d.Mode != mode {
			return false, "it is " + d.Mode
		}
		if want == "" {
			return true, ""
		}
		c, err := n.cluster()
		if err != nil {
			return false, err.Error()
		}
		return c.Cluster == want, "it is in " + c.Cluster
	})
}

// asks waits until the node stands in the leader's list, and returns its key there.
func (n *node) asks(leader *node) (id, key string) {
	n.t.Helper()
	until(n.t, n.name+" asks "+leader.name, func() (bool, string) {
		d, err := leader.waiting()
		if err != nil {
			return false, err.Error()
		}
		for _, r := range d.Rows {
			if r.Name == n.name && r.Decision == "waiting" {
				id, key = r.ID, r.Key
				return true, ""
			}
		}
		return false, fmt.Sprintf("%d rows", len(d.Rows))
	})
	return id, key
}

// approve compares the key with what the machine itself prints, as a person does, and approves it.
func (n *node) approve(leader *node) {
	n.t.Helper()
	id, key := n.asks(leader)
	if own := n.must("--print-identity"); !strings.Contains(own, "node-id "+id+"\n") || !strings.Contains(own, "public-key "+key+"\n") {
		n.t.Fatalf("%s asks as %s under %s and prints:\n%s", n.name, id, key, own)
	}
	// The list goes with its leader, and who waits asks the next one.
	until(n.t, n.name+" is approved at "+leader.name, func() (bool, string) {
		_, err := leader.verb("--enroll-approve=" + id + "@" + key)
		if err != nil && !electing(err) && !strings.Contains(err.Error(), "no machine is waiting under that id") {
			n.t.Fatal(err)
		}
		return err == nil, fmt.Sprint(err)
	})
}
