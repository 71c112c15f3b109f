package netio

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The tests here need network namespaces, so root and the ip command. They start this test binary again inside a
// namespace, as a node that beacons, challenges what it hears and proves what is asked of it, without any signature:
// only the addresses matter. Nothing leaves the namespaces.

const namespaceRole = "PACE_NETIO_NAMESPACE"

// needNamespaces skips by name where they can't be had.
func needNamespaces(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root; run the tests as root to have this one")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("network namespaces need the ip command (iproute2)")
	}
	name := fmt.Sprintf("pn-probe-%d", os.Getpid())
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		t.Skipf("this machine makes no network namespaces: %s", out)
	}
	exec.Command("ip", "netns", "del", name).Run()
}

// segment is a bridge in a namespace of its own.
type segment struct {
	t     *testing.T
	name  string
	hosts int
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func newSegment(t *testing.T) *segment {
	t.Helper()
	needNamespaces(t)
	s := &segment{t: t, name: fmt.Sprintf("pn-%d-lan", os.Getpid())}
	ip(t, "netns", "add", s.name)
	t.Cleanup(func() { exec.Command("ip", "netns", "del", s.name).Run() })
	ip(t, "-n", s.name, "link", "add", "br0", "type", "bridge")
	ip(t, "-n", s.name, "link", "set", "br0", "up")
	return s
}

// host makes a namespace with eth0 on the segment and runs each line of set-up in it.
func (s *segment) host(setup ...string) string {
	s.t.Helper()
	s.hosts++
	name, port := fmt.Sprintf("pn-%d-h%d", os.Getpid(), s.hosts), fmt.Sprintf("p%d", s.hosts)
	ip(s.t, "netns", "add", name)
	s.t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
	ip(s.t, "-n", s.name, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
	ip(s.t, "-n", s.name, "link", "set", port, "master", "br0", "up")
	ip(s.t, "-n", name, "link", "set", "lo", "up")
	ip(s.t, "-n", name, "link", "set", "eth0", "up")
	for _, line := range setup {
		ip(s.t, append([]string{"-n", name}, strings.Fields(line)...)...)
	}
	return name
}

// childReport is one line of a node in a namespace.
type childReport struct {
	Kind, From, Local, Text string
}

// child is a running node.
type child struct {
	mu      sync.Mutex
	reports []childReport
	stdin   io.WriteCloser
	stderr  lockedText
}

func (c *child) all() []childReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.reports)
}

func (c *child) has(kind, from, text string) bool {
	return slices.ContainsFunc(c.all(), func(r childReport) bool {
		return r.Kind == kind && (from == "" || strings.HasPrefix(r.From, from+":")) && strings.Contains(r.Text, text)
	})
}

// node starts a node in a namespace; it ends when its standard input does.
func (s *segment) node(namespace, id string, flags ...string) *child {
	s.t.Helper()
	cmd := exec.Command("ip", append([]string{"netns", "exec", namespace, os.Args[0], "-test.run=^TestNamespaceChild$", "--", id}, flags...)...)
	cmd.Env = append(os.Environ(), namespaceRole+"=node")
	c := &child{}
	cmd.Stderr = &c.stderr
	var err error
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var r childReport
			if json.Unmarshal(lines.Bytes(), &r) == nil && r.Kind != "" {
				c.mu.Lock()
				c.reports = append(c.reports, r)
				c.mu.Unlock()
			}
		}
	}()
	s.t.Cleanup(func() {
		c.stdin.Close()
		<-read
		if err := cmd.Wait(); err != nil {
			s.t.Errorf("%s: %v\n%s", id, err, &c.stderr)
		}
		if s.t.Failed() {
			s.t.Logf("%s: %v\n%s", id, c.all(), &c.stderr)
		}
	})
	return c
}

// TestNamespaceChild is the node, started by the tests below; in an ordinary run it is nothing.
func TestNamespaceChild(t *testing.T) {
	if os.Getenv(namespaceRole) == "" {
		return
	}
	args := os.Args[slices.Index(os.Args, "--")+1:]
	id, include := args[0], args[1:]
	cfg := DatagramConfig{Listen: netip.MustParseAddrPort("0.0.0.0:6681"), Include: include}
	cfg.bound = slices.Contains(include, "bound")
	cfg.Include = slices.DeleteFunc(include, func(s string) bool { return s == "bound" })
	p, err := OpenDatagram(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	out := json.NewEncoder(os.Stdout)
	choices, route, err := CurrentInterfaces(InterfaceRules{Include: cfg.Include})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range choices {
		out.Encode(childReport{Kind: "choice", Text: brief(c)})
	}
	told, _ := AdvertiseAddress(choices, route)
	out.Encode(childReport{Kind: "advertise", Text: told.String()})
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		io.Copy(io.Discard, os.Stdin)
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			p.Relist()
			p.Beacon([]byte("beacon " + id))
		case r := <-p.Receive():
			word, who, _ := strings.Cut(string(r.Bytes), " ")
			// A challenge names the host that the beacon came from: the cookie binds it, so that a proof from any other
			// host is refused.
			proof, asked, _ := strings.Cut(who, " ")
			switch {
			case word == "beacon" && !r.Answering && who != id:
				out.Encode(childReport{"beacon", r.From.String(), r.Local.String(), who})
				p.Send(r.From, r.Local, []byte("challenge "+id+" "+r.From.Addr().String()))
			case word == "challenge" && r.Answering:
				p.Send(r.From, r.Local, []byte("proof "+id+" "+asked))
			case word == "proof" && r.Answering && asked == r.From.Addr().String():
				out.Encode(childReport{"proven", r.From.String(), r.Local.String(), proof})
			case word == "proof":
				out.Encode(childReport{"forged", r.From.String(), r.Local.String(), who})
			}
		}
	}
}

// TestNamespaceSourceAddress: a host with two addresses, whose kernel would send broadcasts from one and answers from the
// other, proves itself from where its beacon came. Both ways of keeping the address are tried.
func TestNamespaceSourceAddress(t *testing.T) {
	for _, way := range []string{"packet info", "bound"} {
		t.Run(way, func(t *testing.T) {
			var flags []string
			if way == "bound" {
				flags = []string{"bound"}
			}
			s := newSegment(t)
			x := s.host("addr add 10.1.0.5/24 dev eth0", "addr add 10.1.0.6/24 dev eth0", "route replace 10.1.0.0/24 dev eth0 src 10.1.0.6")
			y := s.host("addr add 10.1.0.9/24 brd + dev eth0")
			s.node(x, "x", flags...)
			hears := s.node(y, "y", flags...)
			wait(t, func() bool { return hears.has("proven", "10.1.0.5", "x") })
			for _, r := range hears.all() {
				if r.Kind == "forged" || r.Kind == "beacon" && !strings.HasPrefix(r.From, "10.1.0.5:") || r.Local != "" && r.Local != "10.1.0.9" {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

// TestNamespacePrefixes: hosts of segments other than /24 meet by the broadcast worked out, set or not.
func TestNamespacePrefixes(t *testing.T) {
	for _, c := range [][2]string{{"10.5.0.130/25", "10.5.0.131/25"}, {"10.6.17.4/20", "10.6.30.9/20"}, {"10.7.1.255/16", "10.7.2.0/16"}, {"10.8.0.1/30", "10.8.0.2/30"}} {
		t.Run(strings.ReplaceAll(c[0], "/", " "), func(t *testing.T) {
			s := newSegment(t)
			a := s.node(s.host("addr add "+c[0]+" dev eth0"), "a")
			b := s.node(s.host("addr add "+c[1]+" brd + dev eth0"), "b")
			wait(t, func() bool { return a.has("proven", "", "b") && b.has("proven", "", "a") })
		})
	}
}

// TestNamespaceInterfaces: container bridges are passed over, a tunnel with the default route changes nothing, a host
// with IPv6 alone starts, and an interface that comes is used.
func TestNamespaceInterfaces(t *testing.T) {
	s := newSegment(t)
	peer := s.node(s.host("addr add 10.1.0.9/24 dev eth0"), "peer")
	full := s.host(
		"addr add 10.1.0.2/24 dev eth0", "route add default via 10.1.0.1",
		"link add docker0 type bridge", "addr add 172.17.0.1/16 dev docker0", "link set docker0 up",
		"link add virbr0 type bridge", "addr add 192.168.122.1/24 dev virbr0", "link set virbr0 up",
		"tuntap add tun0 mode tun", "addr add 10.8.0.2/24 dev tun0", "link set tun0 up", "route replace default dev tun0",
	)
	node := s.node(full, "full")
	wait(t, func() bool { return peer.has("proven", "10.1.0.2", "full") && node.has("proven", "10.1.0.9", "peer") })
	for _, want := range []string{"eth0 10.1.0.2/24>10.1.0.255", "docker0 172.17.0.1/16 -virtual", "virbr0 192.168.122.1/24 -virtual", "tun0 10.8.0.2/24 -ptp", "lo 127.0.0.1/8 -loopback"} {
		if !node.has("choice", "", want) {
			t.Errorf("no choice %q", want)
		}
	}
	if !node.has("advertise", "", "10.1.0.2") {
		t.Error("another address is advertised")
	}
	six := s.node(s.host("addr add fd00:1::2/64 dev eth0 nodad"), "six")
	wait(t, func() bool { return six.has("advertise", "", "") })
	if !six.has("advertise", "", "fd00:1::2") || !six.has("choice", "", "eth0 fd00:1::2/64 -ipv6") {
		t.Errorf("%v", six.all())
	}
	late := s.host()
	node = s.node(late, "late")
	wait(t, func() bool { return node.has("advertise", "", "") })
	ip(t, "-n", late, "addr", "add", "10.1.0.3/24", "dev", "eth0")
	wait(t, func() bool { return peer.has("proven", "10.1.0.3", "late") })
	// The interface goes and comes back with the same address.
	ip(t, "-n", late, "addr", "del", "10.1.0.3/24", "dev", "eth0")
	ip(t, "-n", late, "addr", "add", "10.1.0.4/24", "dev", "eth0")
	wait(t, func() bool { return peer.has("proven", "10.1.0.4", "late") })
	if n := strings.Count(node.stderr.String(), "\n"); n != 0 {
		t.Errorf("%d lines on standard error", n)
	}
}

// TestNamespaceLeftOut: an interface that the operator left out neither speaks nor hears.
func TestNamespaceLeftOut(t *testing.T) {
	s := newSegment(t)
	peer := s.node(s.host("addr add 10.1.0.9/24 dev eth0"), "peer")
	deaf := s.node(s.host("addr add 10.1.0.2/24 dev eth0"), "deaf", "!eth*")
	fine := s.node(s.host("addr add 10.1.0.3/24 dev eth0"), "fine")
	wait(t, func() bool { return fine.has("proven", "10.1.0.9", "peer") && peer.has("proven", "10.1.0.3", "fine") })
	if peer.has("beacon", "10.1.0.2", "") || deaf.has("beacon", "", "") {
		t.Error("it takes part")
	}
}

// TestNamespaceManyInterfaces: each of some hundred interfaces is listed.
func TestNamespaceManyInterfaces(t *testing.T) {
	s := newSegment(t)
	var batch strings.Builder
	const pairs = 300
	for i := range pairs {
		fmt.Fprintf(&batch, "link add veth%d type veth peer name peer%d\n", i, i)
	}
	cmd := exec.Command("ip", "-n", s.name, "-batch", "-")
	cmd.Stdin = strings.NewReader(batch.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	inNamespace(t, s.name, func() {
		list, err := ListInterfaces()
		if err != nil || len(list) < 2*pairs {
			t.Errorf("%d interfaces, %v", len(list), err)
		}
	})
}

// TestNamespaceLoopbackMulticast tries, on Linux, the way that loopback mode takes where loopback can't broadcast.
func TestNamespaceLoopbackMulticast(t *testing.T) {
	s := newSegment(t)
	host := s.host("link set lo multicast on", "route add 239.0.0.0/8 dev lo")
	inNamespace(t, host, func() {
		grouped := func(c *DatagramConfig) { c.grouped = true }
		a := openLoopback(t, 0, grouped)
		b := openLoopback(t, a.ListenerAddr().Port(), grouped)
		if failed := a.Beacon([]byte("x")); failed != nil {
			t.Error(failed)
			return
		}
		for _, p := range []*Datagrams{a, b} {
			select {
			case r := <-p.Receive():
				if r.Answering || r.From != a.AnsweringAddr() {
					t.Errorf("%+v", r)
				}
			case <-time.After(patience):
				t.Error("nothing came")
			}
		}
	})
}

// inNamespace runs f on a thread that is in a namespace; the thread ends with it.
func inNamespace(t *testing.T, name string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread is not fit for anything else
		if err := enterNamespace("/var/run/netns/" + name); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}
