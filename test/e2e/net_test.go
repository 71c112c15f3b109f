//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// readdress gives the host another address in place of its own.
func (h *host) readdress(prefix string) {
	h.lan.t.Helper()
	p := netip.MustParsePrefix(prefix)
	h.ip("addr", "flush", "dev", "eth0")
	h.ip("addr", "add", prefix, "brd", "+", "dev", "eth0")
	h.addr = p.Addr()
}

// proven waits until each of two machines has proven the other by discovery.
func proven(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		until(t, n.name+" has proven the other", func() (bool, string) {
			m := n.metrics()
			return m.of(t, "pace_discovery_proofs_verified_total") >= 1, fmt.Sprintf("heard %v, challenged %v, proofs sent %v, not issued or forged %v", m["pace_discovery_beacons_heard_total"],
				m["pace_discovery_challenges_sent_total"], m["pace_discovery_proofs_sent_total"], m["pace_discovery_proofs_refused_forged_total"])
		})
	}
}

func TestContainerBridgesBesideTheCard(t *testing.T) { // field case P01
	t.Parallel()
	l := newLAN(t, 2)
	h := l.hosts[0]
	sh(t, "ip", "netns", "exec", h.ns, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1") // its addresses come late, each a change to tell of
	for name, addr := range map[string]string{"docker0": "172.17.0.1/16", "virbr0": "192.168.122.1/24"} {
		h.ip("link", "add", name, "type", "bridge")
		h.ip("addr", "add", addr, "brd", "+", "dev", name)
		h.ip("link", "set", name, "up")
	}
	a := h.start(t, "alder", metered)
	b := l.hosts[1].start(t, "birch", metered)
	proven(t, a, b)
	log := a.log.String()
	if !strings.Contains(log, "eth0 10.1.0.2/16: used") {
		t.Error("the start does not say that the card is used")
	}
	for _, name := range []string{"docker0", "virbr0"} { // each with its reason, and not chosen
		if line := lineWith(log, "interface passed over", "interface="+name+" "); !strings.Contains(line, "why=\"a bridge or adapter of containers") {
			t.Errorf("the start does not say why %s is passed over: %q", name, line)
		}
	}
	if !strings.Contains(log, "advertised=10.1.0.2:6674") || strings.Contains(log, "advertised=1"+"72.") {
		t.Errorf("not the card's address is advertised:\n%s", log)
	}
	if out := a.must("--print-identity"); !strings.Contains(out, "=10.1.0.2:6680@") {
		t.Errorf("print-identity: %s", out)
	}
	// Several beacons later the bridges have cost no further line.
	sent := a.metrics().of(t, "pace_discovery_beacons_sent_total")
	lines := strings.Count(a.log.String(), "docker0")
	until(t, "one more beacon", func() (bool, string) {
		return a.metrics().of(t, "pace_discovery_beacons_sent_total") > sent, ""
	})
	if got := strings.Count(a.log.String(), "docker0"); got != lines {
		t.Errorf("docker0 is in %d lines, after a beacon in %d", lines, got)
	}
}

func TestPrefixLengthsAndOddHosts(t *testing.T) { // field case P04
	t.Parallel()
	for _, c := range []struct{ a, b, broadcast string }{
		{"10.5.0.130/25", "10.5.0.131/25", "10.5.0.255"},
		{"10.6.17.4/20", "10.6.30.9/20", "10.6.31.255"},
		{"10.7.1.255/16", "10.7.2.0/16", "10.7.255.255"},
		{"10.8.0.1/30", "10.8.0.2/30", "10.8.0.3"},
	} {
		t.Run(strings.ReplaceAll(c.a, "/", "-"), func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 2)
			l.hosts[0].readdress(c.a)
			l.hosts[1].readdress(c.b)
			h := l.hosts[0]
			// A second card with addresses that have no broadcast.
			h.ip("link", "add", "eth1", "type", "veth", "peer", "name", "eth2")
			h.ip("addr", "add", "10.9.0.0/31", "dev", "eth1")
			h.ip("addr", "add", "10.9.0.9/32", "dev", "eth2")
			h.ip("link", "set", "eth1", "up")
			h.ip("link", "set", "eth2", "up")
			h.nft(fmt.Sprintf(`table inet seen { counter right {}; counter wrong {};
				chain out { type filter hook output priority 0; udp dport 6681 ip daddr %s counter name right accept; udp dport 6681 counter name wrong; }; }`, c.broadcast))
			a := h.start(t, "alder", metered)
			b := l.hosts[1].start(t, "birch", metered)
			proven(t, a, b)
			if seen := h.counters("seen"); seen["right"].Packets == 0 || seen["wrong"].Packets != 0 {
				t.Errorf("%d beacons to %s, %d elsewhere", seen["right"].Packets, c.broadcast, seen["wrong"].Packets)
			}
			for _, addr := range []string{"10.9.0.0", "10.9.0.9"} {
				if line := lineWith(a.log.String(), "interface passed over", addr); !strings.Contains(line, "why=") || strings.Contains(line, `why=""`) {
					t.Errorf("%s is not passed over with its reason: %q", addr, line)
				}
			}
		})
	}
}

// lineWith is the first line that holds all words.
func lineWith(log string, words ...string) string {
lines:
	for line := range strings.Lines(log) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue lines
			}
		}
		return line
	}
	return ""
}

func TestTwoAddressesOnOneCard(t *testing.T) { // field case P08
	t.Parallel()
	l := newLAN(t, 2)
	h := l.hosts[0]
	h.ip("addr", "add", "10.1.0.77/16", "brd", "+", "dev", "eth0")
	// What is sent to one machine now leaves from the second address, what is broadcast from the first.
	h.ip("route", "replace", "10.1.0.0/16", "dev", "eth0", "src", "10.1.0.77")
	a := h.start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].start(t, "birch", metered)
	proven(t, a, b)
	b.approve(a)
	b.inMode("learner", a)
	// The primary address is advertised, and each has the other authenticated.
	if line := lineWith(a.log.String(), "pace-node serves"); !strings.Contains(line, "advertised=10.1.0.2:6674") {
		t.Errorf("advertised is not the primary address: %s", line)
	}
	for _, n := range []*node{a, b} {
		n.shows("the other authenticated", func(d nodeDoc) bool { return d.Peers.Authenticated == 1 })
	}
}

func TestOneLeaderOnTwoSegments(t *testing.T) { // field case P03
	t.Parallel()
	one, two := newLAN(t, 2), newLAN(t, 1)
	h := one.hosts[0]
	sh(t, "ip", "-n", two.name, "link", "add", "px", "type", "veth", "peer", "name", "eth1", "netns", h.ns)
	sh(t, "ip", "-n", two.name, "link", "set", "px", "master", "br0", "up")
	h.ip("addr", "add", "10.2.0.2/16", "brd", "+", "dev", "eth1")
	h.ip("link", "set", "eth1", "up")
	two.hosts[0].readdress("10.2.0.3/16")
	a := h.start(t, "alder")
	nextSecond(t)
	b := one.hosts[1].start(t, "birch")
	c := two.hosts[0].start(t, "cedar")
	for _, n := range []*node{b, c} {
		n.approve(a)
		n.inMode("learner", a)
		n.follows(a)
	}
	// cedar cannot reach the address that alder tells: it comes back by the one at which it reached it.
	until(t, "cedar remembers where it reached alder", func() (bool, string) {
		got := c.remembers(t)
		return len(got) > 0 && got[0] == "10.2.0.2:6674", fmt.Sprint(got)
	})
	c.stop()
	c.start()
	c.ready()
	a.must("--cluster-set=enrollment.per-source=6")
	c.follows(a)
}

func TestVPNThatTakesTheDefaultRoute(t *testing.T) { // field case P02
	t.Parallel()
	l := newLAN(t, 2)
	h := l.hosts[0]
	a := h.start(t, "alder", metered)
	fleet, err := a.cluster()
	if err != nil {
		t.Fatal(err)
	}
	a.stop()
	h.ip("tuntap", "add", "dev", "tun0", "mode", "tun")
	h.ip("addr", "add", "10.8.0.2", "peer", "10.8.0.1", "dev", "tun0")
	h.ip("link", "set", "tun0", "up")
	h.ip("route", "replace", "default", "via", "10.8.0.1", "dev", "tun0")
	h.nft(`table inet seen { counter tun {}; counter lan {}; chain out { type filter hook output priority 0;
		oifname tun0 udp dport 6681 counter name tun; oifname eth0 udp dport 6681 counter name lan; }; }`)
	a.start()
	a.ready()
	if c, err := a.cluster(); err != nil || c.Cluster != fleet.Cluster || len(c.Members) != 1 {
		t.Errorf("%v: %+v", err, c)
	}
	a.shows("that it leads", func(d nodeDoc) bool { return d.View.Leads })
	nextSecond(t)
	b := l.hosts[1].start(t, "birch", metered)
	proven(t, a, b)
	if line := lineWith(strings.SplitAfterN(a.log.String(), "pace-node serves", 2)[1], "pace-node serves"); !strings.Contains(line, "advertised=10.1.0.2:6674") {
		t.Errorf("advertised by way of the VPN: %s", line)
	}
	if seen := h.counters("seen"); seen["tun"].Packets != 0 || seen["lan"].Packets == 0 {
		t.Errorf("%d beacons left by the VPN, %d by the card", seen["tun"].Packets, seen["lan"].Packets)
	}
	h.ip("link", "del", "tun0")
	b.approve(a)
	b.inMode("learner", a)
}

func TestLoopbackIsNeverAnnouncedToOthers(t *testing.T) { // field case P16
	t.Parallel()
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	seed := "--fleet-seed=" + l.hosts[0].addr.String()
	if out, err := a.verb("--check-arguments", "--discovery-loopback", seed); err == nil || !strings.Contains(err.Error(), "--fleet-seed") || !strings.Contains(err.Error(), "another one") {
		t.Errorf("a node of one machine is given another's seed: %v, %s", err, out)
	}
	for i, args := range [][]string{{"--advertise=127.0.0.1:6674", seed}, {"--advertise=0.0.0.0:6674", seed}} {
		n := l.hosts[1].newNode(t, fmt.Sprintf("bad%d", i), args...)
		n.start()
		// Refused at its start, or by the leader with the claimed endpoint and the source.
		until(t, strings.Join(args, " ")+" is refused", func() (bool, string) {
			select {
			case <-n.done:
				return n.cmd.ProcessState.ExitCode() != 0 && strings.Contains(n.log.String(), "--advertise"), n.log.String()
			default:
			}
			return strings.Contains(n.log.String(), "10.1.0.3 claims the endpoint"), n.log.String()
		})
		n.kill()
	}
	if d, err := a.waiting(); err != nil || len(d.Rows) != 0 {
		t.Errorf("%v: %+v", err, d.Rows)
	}
	if out := a.must("--cluster-status"); strings.Contains(out, "127.0.0.1") || strings.Contains(out, "0.0.0.0") {
		t.Errorf("the status holds an endpoint that nobody reaches:\n%s", out)
	}
}
