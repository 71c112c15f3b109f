//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cpu is the processor time that the node's process has used.
func (n *node) cpu() time.Duration {
	n.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
	if err != nil {
		n.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ") // behind the name, which may hold spaces
	f := strings.Fields(rest)
	const user, system, hz = 11, 12, 100 // counted from the state; the kernel tells user space of hundredths
	ticks := 0
	for _, i := range []int{user, system} {
		x, err := strconv.Atoi(f[i])
		if err != nil {
			n.t.Fatal(err)
		}
		ticks += x
	}
	return time.Duration(ticks) * time.Second / hz
}

// TestHundredsOfInterfacesOfWhichSomeVanish: six hundred interfaces beside the card cost next to nothing; when a third of
// them and the card itself go, that is a few lines and a condition; when the card is back, its peers are.
func TestHundredsOfInterfacesOfWhichSomeVanish(t *testing.T) { // field case P06
	t.Parallel()
	const pairs, gone = 300, 100
	l := newLAN(t, 2)
	h := l.hosts[0]
	h.ip("link", "set", "eth0", "address", "02:00:00:00:00:06")
	sh(t, "ip", "netns", "exec", h.ns, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
	var add, del []string
	for i := range pairs {
		add = append(add, fmt.Sprintf("link add v%d type veth peer name w%d", i, i), fmt.Sprintf("link set v%d up", i), fmt.Sprintf("link set w%d up", i))
		if i < gone {
			del = append(del, fmt.Sprintf("link del v%d", i))
		}
	}
	h.batch(strings.Join(add, "\n") + "\n")
	a := h.start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch", metered)
	a.shows("birch authenticated", func(d nodeDoc) bool { return d.Peers.Authenticated == 1 })

	// More than a period in which interfaces are listed again.
	began, used := time.Now(), a.cpu()
	sent := a.metrics().of(t, "pace_discovery_beacons_sent_total")
	until(t, "forty seconds have passed", func() (bool, string) { return time.Since(began) > 40*time.Second, "" }) // asking would cost it more
	took := time.Since(began)
	used = a.cpu() - used
	if t.Logf("%s of processor in %s", used, took.Round(time.Second)); used > took/50 {
		t.Errorf("idle it used %s in %s, more than 2 %% of a core", used, took)
	}
	if now := a.metrics().of(t, "pace_discovery_beacons_sent_total"); now < sent+2 {
		t.Errorf("%v beacons were sent meanwhile", now-sent)
	}

	memory, lines := a.memory(), strings.Count(a.log.String(), "\n")
	h.batch(strings.Join(append(del, "link del eth0"), "\n") + "\n")
	a.shows("that nothing can carry a beacon", func(d nodeDoc) bool { return d.has("discovery-no-interface") })
	began = time.Now()
	until(t, "half a minute has passed", func() (bool, string) { return time.Since(began) > 30*time.Second, "" })
	if said := strings.Split(a.log.String(), "\n")[lines:]; len(said) > 10 {
		t.Errorf("%d lines for it:\n%s", len(said), strings.Join(said, "\n"))
	}
	a.holds(memory, 10)

	sh(t, "ip", "-n", l.name, "link", "add", h.port(), "type", "veth", "peer", "name", "eth0", "netns", h.ns)
	sh(t, "ip", "-n", l.name, "link", "set", h.port(), "master", "br0", "up")
	h.ip("link", "set", "eth0", "address", "02:00:00:00:00:06")
	h.ip("addr", "add", h.addr.String()+"/16", "brd", "+", "dev", "eth0")
	h.ip("link", "set", "eth0", "up")
	h.ip("route", "add", "default", "via", "10.1.255.254", "dev", "eth0")
	a.shows("its peer, and no condition", func(d nodeDoc) bool { return d.Peers.Authenticated == 1 && !d.has("discovery-no-interface") })
	a.must("--cluster-set=enrollment.per-source=9")
	b.follows(a)
}

// TestAnsweringPortIsFiltered: a firewall that lets the shared port pass and not the answering one is named, with the port
// and the rule to add; sessions and rosters do not move.
func TestAnsweringPortIsFiltered(t *testing.T) { // field case P10
	t.Parallel()
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch", metered)
	a.shows("birch authenticated", func(d nodeDoc) bool { return d.Peers.Authenticated == 1 })
	b.stop()
	b.host.nft("table inet wall { chain in { type filter hook input priority 0; udp dport != 6681 drop; }; }")
	b.start()
	b.ready()
	said := b.log.String()
	port := strings.Fields(said[strings.LastIndex(said, "discovery-answers=0.0.0.0:")+len("discovery-answers=0.0.0.0:"):])[0]
	b.follows(a)
	before, err := a.cluster() // its revision goes on: birch tells of its start
	if err != nil {
		t.Fatal(err)
	}
	b.shows("that nobody completes a proof", func(d nodeDoc) bool { return d.has("peers-never-authenticated") })
	wants(t, b.ctl("node"), "peers-never-authenticated", "port "+port, "remedy  pacectl doctor ", "# names the rule that the firewall here lacks for UDP port "+port)
	if got := strings.Count(b.log.String(), "peers-never-authenticated"); got != 1 {
		t.Errorf("it is said %d times", got)
	}
	b.follows(a)
	if after, err := a.cluster(); err != nil || after.roster() != before.roster() {
		t.Errorf("%v: before\n%s\nafter\n%s", err, before.roster(), after.roster())
	}
	b.host.nft("delete table inet wall")
	for _, n := range []*node{a, b} {
		n.shows("its peer, and no condition", func(d nodeDoc) bool { return d.Peers.Authenticated == 1 && !d.has("peers-never-authenticated") })
	}
}

// TestReusedAddressMergesNothing: while a fleet's voter is off, a machine of another fleet takes its address. What is dialled
// there ends at the key and is counted; no roster moves; the voter goes on from another address.
func TestReusedAddressMergesNothing(t *testing.T) { // field case P12
	t.Parallel()
	one, two := newLAN(t, 2), newLAN(t, 2)
	two.hosts[0].readdress("10.1.9.2/16")
	two.hosts[1].readdress("10.1.9.3/16")
	a1 := one.hosts[0].start(t, "alder", metered)
	b1 := two.hosts[0].start(t, "beech", metered)
	nextSecond(t)
	a2 := one.hosts[1].joined(t, a1, "aspen", metered)
	b2 := two.hosts[1].joined(t, b1, "birch")
	a2.follows(a1)
	b2.follows(b1)
	theirs, err := a2.cluster()
	if err != nil {
		t.Fatal(err)
	}
	others, err := b1.cluster()
	if err != nil {
		t.Fatal(err)
	}
	taken := a1.host.addr.String()
	a1.kill()
	a1.host.readdress("10.1.0.20/16")
	b2.stop()
	b2.host.readdress(taken + "/16")
	sh(t, "ip", "-n", one.name, "link", "add", "px", "type", "veth", "peer", "name", "px", "netns", two.name)
	for _, l := range []*lan{one, two} {
		sh(t, "ip", "-n", l.name, "link", "set", "px", "master", "br0", "up")
	}
	b2.start()
	b2.ready()
	a2.host.ip("neigh", "flush", "all") // as its next entry would tell it in half a minute
	b2.follows(b1)
	until(t, "what is dialled there ends at the key", func() (bool, string) {
		m := a2.metrics()
		return m.of(t, `pace_sessions_refused_total{reason="peer-key"}`) > 0, ""
	})
	a2.shows("that its leader is silent", func(d nodeDoc) bool { return d.Mode == "learner" && d.has("consensus-leader-silent") })
	a1.start()
	a1.ready()
	a2.follows(a1)
	a1.must("--cluster-set=enrollment.per-source=9")
	a2.follows(a1)
	if d, err := a2.cluster(); err != nil || d.roster() != theirs.roster() {
		t.Errorf("%v: before\n%s\nafter\n%s", err, theirs.roster(), d.roster())
	}
	if d, err := b1.cluster(); err != nil || d.roster() != others.roster() {
		t.Errorf("%v: before\n%s\nafter\n%s", err, others.roster(), d.roster())
	}
}

// TestFullDiskOfALeaderOfThree: a leader of three voters whose disk fills up hands leadership on, says where no room is left,
// and follows again once there is some, by itself.
func TestFullDiskOfALeaderOfThree(t *testing.T) { // field case P29
	t.Parallel()
	l := newLAN(t, 3)
	var all []*node
	for i, name := range []string{"alder", "birch", "cedar"} {
		n := l.hosts[i].diskNode(t, name, 32, metered)
		n.start()
		n.ready()
		if all = append(all, n); i == 0 {
			nextSecond(t)
			continue
		}
		n.approve(all[0])
		n.inMode("learner", all[0])
	}
	for _, n := range all[1:] {
		n.promoted(all[0])
	}
	a := leads(t, all...) // the founder, unless a busy machine has elected another one
	rest := others(a, all...)
	a.disk.fill(2 << 10)
	a.shows("that little room is left", func(d nodeDoc) bool { return d.has("state-dir-nearly-full") })
	w := writes(rest...)
	w.goesOn(t)
	a.disk.fill(0)
	leads(t, rest...)
	w.goesOn(t)
	a.shows("that it cannot write", func(d nodeDoc) bool { return d.has("consensus-store-unwritable") && !d.View.Leads })
	wants(t, a.log.String(), "no space left on device", "df -h "+a.dir)
	w.goesOn(t)
	w.end(t)
	select {
	case <-a.done:
		t.Fatalf("it ended: %s", a.cmd.ProcessState)
	default:
	}
	a.disk.empty()
	a.shows("nothing of it any more", func(d nodeDoc) bool {
		return d.Mode == "voter" && !d.has("consensus-store-unwritable") && !d.has("state-dir-nearly-full")
	})
	lead := leads(t, all...)
	lead.must("--cluster-set=enrollment.per-source=7")
	agree(t, append([]*node{lead}, all...)...)
}

// TestReturningLeaderIsNotStormed: learners that lost their leader all follow another voter, and do not come back to it in
// one moment. That no moment holds more than its part is TestHerd, with sixty.
func TestReturningLeaderIsNotStormed(t *testing.T) { // field case P32
	t.Parallel()
	const learners = 8
	l := newLAN(t, 3+learners)
	a, b, c := threeVoters(t, l, "--log-level=debug")
	a.must("--enroll-auto-approve=1h")
	var all []*node
	for i := range learners {
		all = append(all, l.hosts[3+i].start(t, fmt.Sprint("learner-", i)))
	}
	for _, n := range all {
		n.inMode("learner", a)
	}
	agree(t, append([]*node{a, b, c}, all...)...)
	a.kill()
	lead := leads(t, b, c)
	lead.must("--cluster-set=enrollment.per-source=9")
	agree(t, append([]*node{lead}, all...)...)
	began := time.Now() // until each has been turned away some times
	until(t, "half a minute has passed", func() (bool, string) { return time.Since(began) > 30*time.Second, "" })
	from := len(a.log.String())
	a.start()
	var opened []time.Time
	until(t, "all have a session with it again", func() (bool, string) {
		at := map[string]time.Time{}
		for line := range strings.Lines(a.log.String()[from:]) {
			when, rest, _ := strings.Cut(line, " ")
			stamp, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(when, "time="))
			_, key, found := strings.Cut(rest, " key=")
			if err != nil || !found || !strings.Contains(rest, "session opened") || !strings.Contains(rest, "inbound=true") {
				continue
			}
			key = strings.Fields(key)[0]
			if _, again := at[key]; !again {
				at[key] = stamp
			}
		}
		opened = nil
		for _, n := range all {
			if when, ok := at[n.keyText()]; ok {
				opened = append(opened, when)
			}
		}
		return len(opened) == learners, fmt.Sprintf("%d of %d", len(opened), learners)
	})
	for _, x := range opened {
		near := 0
		for _, y := range opened {
			if d := y.Sub(x); d >= 0 && d < 100*time.Millisecond {
				near++
			}
		}
		if near > learners/2 {
			t.Errorf("%d of %d came back within 100 ms: %v", near, learners, opened)
			break
		}
	}
}
