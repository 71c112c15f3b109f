//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pace-node/internal/wire"
)

func TestIPv6Only(t *testing.T) { // field case P05
	t.Parallel()
	l := newLAN(t, 2)
	for i, h := range l.hosts {
		h.ip("addr", "flush", "dev", "eth0")
		h.ip("addr", "add", fmt.Sprintf("fd00:1::%d/64", i+1), "dev", "eth0", "nodad")
	}
	a := l.hosts[0].start(t, "alder")
	d := a.shows("that nothing can carry a beacon", func(d nodeDoc) bool { return d.has("discovery-no-interface") })
	if out := a.must("--cluster-status"); d.Mode != "solitary" || !strings.Contains(out, "discovery-no-interface") || !strings.Contains(out, "--fleet-seed") {
		t.Errorf("it is %s and says:\n%s", d.Mode, out)
	}
	nextSecond(t)
	b := l.hosts[1].start(t, "birch", "--fleet-seed=[fd00:1::1]:6674")
	b.approve(a)
	b.inMode("learner", a)
	b.follows(a)
	if out := a.must("--cluster-status"); !strings.Contains(out, "[fd00:1::2]:6674") {
		t.Errorf("birch's endpoint is not its address:\n%s", out)
	}
}

func TestIPv6SwitchedOff(t *testing.T) { // field case P05
	t.Parallel()
	l := newLAN(t, 2)
	for _, h := range l.hosts {
		sh(t, "ip", "netns", "exec", h.ns, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
	}
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	b.follows(a)
	for _, n := range []*node{a, b} {
		if line := lineWith(n.log.String(), "level=ERROR"); line != "" {
			t.Errorf("%s: %s", n.name, line)
		}
	}
}

func TestTwoGrownFleetsSayThatTheyMeet(t *testing.T) { // field case P13
	t.Parallel()
	one, two := newLAN(t, 2), newLAN(t, 2)
	two.hosts[0].readdress("10.1.9.2/16")
	two.hosts[1].readdress("10.1.9.3/16")
	a1 := one.hosts[0].start(t, "alder")
	b1 := two.hosts[0].start(t, "beech")
	nextSecond(t)
	a2 := one.hosts[1].joined(t, a1, "aspen")
	b2 := two.hosts[1].joined(t, b1, "birch")
	// One cable makes them one segment.
	sh(t, "ip", "-n", one.name, "link", "add", "px", "type", "veth", "peer", "name", "px", "netns", two.name)
	for _, l := range []*lan{one, two} {
		sh(t, "ip", "-n", l.name, "link", "set", "px", "master", "br0", "up")
	}
	b2.stop()
	b2.args = append(b2.args, "--fleet-seed="+a1.endpoint())
	b2.start()
	b2.ready()
	for n, other := range map[*node]*node{a1: b1, b1: a1} {
		n.shows("the other fleet", func(d nodeDoc) bool { return d.has("foreign-fleet-visible") })
		c, err := other.cluster()
		if err != nil {
			t.Fatal(err)
		}
		out := n.must("--cluster-status")
		wants(t, out, c.Cluster, "remedy")
	}
	until(t, "birch says that its seed is not followed", func() (bool, string) {
		out, err := b2.pacectl("node")
		return err == nil && strings.Contains(out, a1.endpoint()) && strings.Contains(out, "not followed"), fmt.Sprint(err, out)
	})
	b2.follows(b1)
	a2.follows(a1)
}

func TestStrangerThatAsksFirstUnderAnothersID(t *testing.T) { // field case P18
	t.Parallel()
	l := newLAN(t, 3)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	v := l.hosts[1].newNode(t, "victim")
	v.must("--print-identity")
	id, key := v.id(), v.key().Public().String()
	thief := l.hosts[2].client(t, newKey(5))
	claim := wire.EnrollRequest{ID: id, Endpoint: "10.1.0.4:6674", Nonce: [32]byte{1}}
	if ans, code := thief.enroll(a.endpoint(), claim); code != 0 || ans.Outcome != wire.OutcomePending {
		t.Fatalf("%s, %s", code, ans.Outcome)
	}
	v.start()
	v.ready()
	v.asks(a)
	wants(t, a.must("--enroll-list"), "key "+key, "key "+newKey(5).Public().String(), "10.1.0.3", "10.1.0.4", "KEY-CONFLICT")
	// The stranger's refreshing changes nothing, and rejecting it refuses nobody else.
	thief.enroll(a.endpoint(), claim)
	a.must("--enroll-reject=" + id + "@" + newKey(5).Public().String())
	a.must("--enroll-approve=" + id + "@" + key)
	v.inMode("learner", a)
	if ans, code := thief.enroll(a.endpoint(), claim); code != 0 || ans.Outcome != wire.OutcomeRejected {
		t.Errorf("the stranger is told %s, %s", code, ans.Outcome)
	}
}

func TestAnonymousAsksAreBounded(t *testing.T) { // field case P19
	t.Parallel()
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder", metered)
	sizes := func() (out string) { // of all that it writes, but for the log of this test
		for name, b := range leftBy(t, a.dir) {
			out += fmt.Sprintln(name, len(b))
		}
		lines := strings.Split(out, "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	files, since := "", time.Now()
	until(t, "what it writes at its start is written", func() (bool, string) { // it looks at itself once a second
		if now := sizes(); now != files {
			files, since = now, time.Now()
		}
		return time.Since(since) > 3*time.Second, files
	})
	memory := a.memory()
	h := l.hosts[1]
	const sources, asks = 20, 5
	full, waiting := 0, 0
	for i := range sources {
		from := netip.AddrFrom4([4]byte{10, 1, 50, byte(i + 1)})
		h.ip("addr", "add", from.String()+"/16", "dev", "eth0")
		for j := range asks {
			c := h.clientFrom(t, newKey(byte(100+i*asks+j)), from)
			ans, code := c.enroll(a.endpoint(), wire.EnrollRequest{ID: strings.Repeat("x", 60) + fmt.Sprintf("-%d-%d", i, j)[:4], Endpoint: from.String() + ":6674", Nonce: [32]byte{byte(j)}})
			c.hub.Close()
			switch {
			case code == wire.CodeSourceFull, code == wire.CodeWaitingListFull:
				full++
			case code == 0 && ans.Outcome == wire.OutcomePending:
				waiting++
			default:
				t.Fatalf("ask %d of %s: %s, %s", j, from, code, ans.Outcome)
			}
		}
	}
	if waiting != 64 || full != sources*asks-64 {
		t.Errorf("%d wait, %d are refused by name; 64 fit, 4 a source", waiting, full)
	}
	if d, err := a.waiting(); err != nil || len(d.Rows) != 64 {
		t.Errorf("%v: %d rows", err, len(d.Rows))
	}
	a.holds(memory, 10)
	if now := sizes(); now != files {
		t.Errorf("files grew: before\n%s\nafter\n%s", files, now)
	}
	a.must("--enroll-clear")
	if d, err := a.waiting(); err != nil || len(d.Rows) != 0 {
		t.Errorf("%v: %d rows after clear", err, len(d.Rows))
	}
}

func TestCopiedStateDirectory(t *testing.T) { // field case P21
	t.Parallel()
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	b.stop()
	c := l.hosts[2].newNode(t, "copy")
	if out, err := exec.Command("cp", "-a", b.dir, c.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b.start()
	c.start()
	b.ready()
	c.ready()
	a.shows("that one identity is in two places", func(d nodeDoc) bool { return d.has("identity-cloned") })
	wants(t, a.must("--cluster-status"), "identity-cloned", "10.1.0.3", "10.1.0.4", "--reset-identity")
	// Both go with the key, and a reset makes the copy somebody new.
	a.must("--cluster-forget=" + b.id())
	for _, n := range []*node{b, c} {
		n.shows("that its key is revoked", func(d nodeDoc) bool { return d.has("own-key-revoked") })
	}
	c.stop()
	old := c.id()
	c.must("--reset-identity")
	if kept, _ := filepath.Glob(filepath.Join(c.dir, "archive", "identity-*")); len(kept) != 1 {
		t.Errorf("the old identity is in %v", kept)
	}
	c.name = "fresh"
	c.start()
	c.ready()
	if c.id() == old {
		t.Error("the id is the old one after a reset")
	}
	c.approve(a)
	c.inMode("learner", a)
}
