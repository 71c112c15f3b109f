//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// etc gives the host a file of /etc of its own: ip shows a namespace the files of /etc/netns in the place of /etc's.
func (h *host) etc(name, text string) {
	h.lan.t.Helper()
	shown := filepath.Join("/etc/netns", h.ns)
	h.lan.t.Cleanup(func() {
		os.RemoveAll(shown)
		os.Remove("/etc/netns") // only when nobody else has something in it
	})
	if err := os.MkdirAll(shown, 0o755); err != nil {
		h.lan.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(shown, name), []byte(text), 0o644); err != nil {
		h.lan.t.Fatal(err)
	}
}

// router is a host with an interface in each of two segments, that forwards between them. No broadcast passes it.
func newRouter(t *testing.T, one, two *lan) *host {
	t.Helper()
	r := one.addHost()
	sh(t, "ip", "-n", two.name, "link", "add", "pr", "type", "veth", "peer", "name", "eth1", "netns", r.ns)
	sh(t, "ip", "-n", two.name, "link", "set", "pr", "master", "br0", "up")
	r.readdress("10.1.255.254/16")
	r.ip("addr", "add", "10.2.255.254/16", "brd", "+", "dev", "eth1")
	r.ip("link", "set", "eth1", "up")
	sh(t, "ip", "netns", "exec", r.ns, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	for i, h := range two.hosts {
		h.readdress(fmt.Sprintf("10.2.0.%d/16", i+2))
		h.ip("route", "replace", "default", "via", "10.2.255.254", "dev", "eth0")
	}
	for _, h := range one.hosts {
		if h != r { // readdress takes routes with it
			h.ip("route", "replace", "default", "via", "10.1.255.254", "dev", "eth0")
		}
	}
	return r
}

// dnsmasq runs a name server on the host, at every address of it.
func (h *host) dnsmasq(t *testing.T, args ...string) (log *logFile, stop func()) {
	t.Helper()
	if _, err := exec.LookPath("dnsmasq"); err != nil {
		t.Fatal("needs dnsmasq: apt-get install dnsmasq-base")
	}
	log = newLog(t)
	cmd := exec.Command("ip", append([]string{"netns", "exec", h.ns, "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=root",
		"--pid-file=", "--log-queries", "--log-facility=-", "--local=/test/", "--local-ttl=1"}, args...)...)
	log.takes(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { cmd.Wait(); close(done) }()
	stop = func() { cmd.Process.Kill(); <-done }
	t.Cleanup(stop)
	until(t, "the name server serves", func() (bool, string) {
		select {
		case <-done:
			t.Fatalf("dnsmasq ended: %s", log)
		default:
		}
		return strings.Contains(log.String(), "started"), log.String()
	})
	return log, stop
}

func (n *node) remembers(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(n.dir, "formation.json"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(b), `"remembered": [`)
	if !found {
		return nil
	}
	list, _, _ = strings.Cut(list, "]")
	return strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune("\",\n ", r) })
}

// A seed across a routed link, where no beacon reaches, forms the fleet; and what is remembered keeps it.
func TestSeedAcrossARouter(t *testing.T) {
	t.Parallel()
	one, two := newLAN(t, 1), newLAN(t, 2)
	newRouter(t, one, two)
	a := one.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	seed := "--fleet-seed=10.1.0.2"
	b := two.hosts[0].start(t, "birch", metered, seed)
	b.approve(a)
	b.inMode("learner", a)
	b.follows(a)
	if got := a.metrics().of(t, "pace_discovery_beacons_heard_total"); got != 0 {
		t.Errorf("%v beacons passed the router", got)
	}
	// Its session is what it is heard by.
	until(t, "both are heard", func() (bool, string) {
		c, err := a.cluster()
		heard := 0
		for _, m := range c.Members {
			if m.HeardMS != nil && *m.HeardMS <= 60_000 {
				heard++
			}
		}
		return err == nil && len(c.Members) == 2 && heard == 2, fmt.Sprintf("%v: %+v", err, c.Members)
	})
	until(t, "birch remembers the leader", func() (bool, string) {
		got := b.remembers(t)
		return slices.Equal(got, []string{"10.1.0.2:6674"}), fmt.Sprint(got)
	})
	// A third, beside the second, hears the second's beacon, which names the leader.
	d := two.hosts[1].start(t, "cedar")
	d.approve(a)
	d.inMode("learner", a)
	// Without the seed it comes back.
	b.stop()
	b.args = []string{metered}
	b.start()
	b.ready()
	a.must("--cluster-set=enrollment.per-source=6")
	b.follows(a)
}

// DNS names the fleet to a machine behind a router, with no flag.
func TestDNSNamesTheFleet(t *testing.T) { // field case P11
	t.Parallel()
	one, two := newLAN(t, 2), newLAN(t, 1)
	r := newRouter(t, one, two)
	gone := netip.MustParseAddr("10.1.0.200") // nobody has it
	queries, _ := r.dnsmasq(t, "--srv-host=_pace._tcp.corp.test,host9.corp.test,6674,0,5", "--srv-host=_pace._tcp.corp.test,host1.corp.test,6674,10,5",
		"--srv-host=_pace._tcp.corp.test,host1.corp.test,7777,20,5", "--host-record=host1.corp.test,10.1.0.2", "--host-record=host9.corp.test,"+gone.String())
	j := two.hosts[0]
	j.etc("resolv.conf", "search corp.test other.test\nnameserver 10.2.255.254\n")
	a := one.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := j.start(t, "birch", metered)
	b.asks(a)
	// How long it has run, and since when it stands in the list: what is between them is how long it took, less what passes
	// between the two questions.
	s, err := b.status()
	if err != nil {
		t.Fatal(err)
	}
	list, err := a.waiting()
	if err != nil || len(list.Rows) != 1 {
		t.Fatalf("%v: %+v", err, list.Rows)
	}
	took := time.Duration(s.UptimeMS-list.Rows[0].AgeMS) * time.Millisecond
	if t.Logf("in the list %s after its start", took); took > 30*time.Second {
		t.Errorf("in the list after %s", took)
	}
	for _, want := range []string{"seed host9.corp.test:6674 srv", "seed host1.corp.test:6674 srv seed host1.corp.test:7777 srv seed _pace._tcp.corp.test srv 3 seeds"} { // by priority
		until(t, "the status says "+want, func() (bool, string) {
			out, err := b.pacectl("node")
			return err == nil && strings.Contains(strings.Join(strings.Fields(out), " "), want), fmt.Sprint(err, out)
		})
	}
	b.approve(a)
	b.inMode("learner", a)
	b.follows(a)
	// No beacon of it arrives, and it is heard by its session: ten minutes later as now.
	until(t, "it is heard at this moment", func() (bool, string) {
		d, err := a.cluster()
		for _, m := range d.Members {
			if m.ID == b.id() {
				return m.HeardMS != nil && *m.HeardMS == 0, fmt.Sprint(m.HeardMS)
			}
		}
		return false, fmt.Sprint(err)
	})
	if got := a.metrics().of(t, "pace_discovery_beacons_heard_total"); got != 0 {
		t.Errorf("%v beacons were heard across a router", got)
	}
	if log := queries.String(); strings.Contains(log, "other.test") || strings.Contains(log, "corp.test.corp.test") || strings.Contains(log, "_pace._tcp.test ") {
		t.Errorf("asked elsewhere too:\n%s", log)
	}
	// A member asks DNS no more; and it comes back although DNS is forgotten.
	b.stop()
	j.etc("resolv.conf", "nameserver 10.2.255.253\n")
	b.start()
	b.ready()
	b.follows(a)
}

// Where DNS names nobody, or does not answer, nothing is said more than once, and a beacon does as ever.
func TestDNSThatNamesNobody(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	queries, stop := l.hosts[2].dnsmasq(t)
	for _, h := range l.hosts[:2] {
		h.etc("resolv.conf", "domain corp.test\nnameserver "+l.hosts[2].addr.String()+"\noptions timeout:1 attempts:1\n")
	}
	a := l.hosts[0].start(t, "alder")
	until(t, "the name is asked for", func() (bool, string) {
		return strings.Contains(queries.String(), "query[SRV] _pace._tcp.corp.test"), queries.String()
	})
	says := func(n *node, what string) {
		until(t, n.name+" says "+what, func() (bool, string) {
			out, err := n.pacectl("node")
			return err == nil && strings.Contains(out, what), out
		})
	}
	says(a, "DNS has no such records")
	stop()
	nextSecond(t)
	b := l.hosts[1].start(t, "birch")
	b.approve(a)
	b.inMode("learner", a)
	if n := strings.Count(b.log.String(), "DNS did not answer"); n > 1 {
		t.Errorf("said %d times", n)
	}
	if line := lineWith(a.log.String(), "level=WARN", "DNS"); line != "" {
		t.Errorf("a name without records is an alarm: %s", line)
	}
}

// A segment that has IPv6 only carries no beacon: a name server's word forms the fleet there.
func TestIPv6OnlyByDNS(t *testing.T) { // field case P05
	t.Parallel()
	l := newLAN(t, 3)
	for i, h := range l.hosts {
		h.ip("addr", "flush", "dev", "eth0")
		h.ip("addr", "add", fmt.Sprintf("fd00:1::%d/64", i+1), "dev", "eth0", "nodad")
	}
	l.hosts[2].dnsmasq(t, "--srv-host=_pace._tcp.corp.test,host1.corp.test,6674", "--host-record=host1.corp.test,fd00:1::1")
	l.hosts[1].etc("resolv.conf", "search corp.test\nnameserver fd00:1::3\n")
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].start(t, "birch")
	b.approve(a)
	b.inMode("learner", a)
	b.follows(a)
}

// An access point swallows what is broadcast: nobody is heard, and a seed does.
func TestSeedWhereBroadcastsAreSwallowed(t *testing.T) { // field case P09, but for doctor's words
	t.Parallel()
	l := newLAN(t, 2)
	cmd := exec.Command("ip", "netns", "exec", l.name, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(`table bridge ap { chain f { type filter hook forward priority 0; ether daddr ff:ff:ff:ff:ff:ff udp dport 6681 drop; }; }`)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	}
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].start(t, "birch", "--fleet-seed="+l.hosts[0].addr.String())
	b.approve(a)
	b.inMode("learner", a)
	b.follows(a)
	if got := a.metrics().of(t, "pace_discovery_beacons_heard_total"); got != 0 {
		t.Errorf("%v beacons were heard", got)
	}
}

// One configuration for three machines names one of them, which its own hosts file puts at 127.0.1.1.
func TestSharedSeedThatIsTheMachineItself(t *testing.T) { // field case P07
	t.Parallel()
	l := newLAN(t, 3)
	l.hosts[0].etc("hosts", "127.0.0.1 localhost\n127.0.1.1 node1\n")
	for _, h := range l.hosts[1:] {
		h.etc("hosts", "127.0.0.1 localhost\n"+l.hosts[0].addr.String()+" node1\n")
	}
	const seed = "--fleet-seed=node1"
	a := l.hosts[0].start(t, "node1", seed)
	until(t, "node1 knows itself", func() (bool, string) {
		out, err := a.pacectl("node")
		return err == nil && strings.Contains(out, "this machine itself"), out
	})
	nextSecond(t)
	b := l.hosts[1].start(t, "node2", seed, "--discovery=")
	c := l.hosts[2].start(t, "node3", seed)
	for _, n := range []*node{b, c} {
		n.approve(a)
		n.inMode("learner", a)
		n.follows(a)
	}
	if n := strings.Count(a.log.String(), "seed is this machine itself"); n != 1 {
		t.Errorf("said %d times", n)
	}
	if line := lineWith(a.log.String(), "level=WARN", "seed"); line != "" {
		t.Errorf("it is an alarm: %s", line)
	}
	if out := a.must("--cluster-status"); strings.Contains(out, "127.0.") {
		t.Errorf("a loopback endpoint is told:\n%s", out)
	}
}

// Every form that is no seed is refused where it is typed, showing the right one.
func TestSeedsAreRefusedWhereTyped(t *testing.T) {
	for text, word := range map[string]string{"": "empty", ":6674": "no host", "h:0": "1 to 65535", "h:70000": "1 to 65535", "fd00::1": "brackets", "http://h": "scheme", "h/x": "path",
		"a,b": "repeat the flag", "0.0.0.0": "wildcard"} {
		out, err := exec.Command(binary, "--check-arguments", "--fleet-seed="+text).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 78 || !strings.Contains(string(out), "--fleet-seed") || !strings.Contains(string(out), word) {
			t.Errorf("%q: %v: %s", text, err, out)
		}
	}
}
