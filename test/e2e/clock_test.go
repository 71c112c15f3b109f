//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pace-node/internal/wire"
)

// jump is further than any lease lives, any window or row of the list is open, and any member may be silent.
const jump = skew(7 * time.Hour)

// untouched checks that each node is what it was in the fleet it was in, and that its process lives.
func untouched(t *testing.T, what string, cluster string, modes map[*node]string) {
	t.Helper()
	for n, mode := range modes {
		d, err := n.status()
		if err != nil {
			t.Fatalf("%s: %s: %v", what, n.name, err)
		}
		if d.Mode != mode || !strings.HasPrefix(d.FleetID, cluster+"@") {
			t.Errorf("%s: %s is a %s of %s", what, n.name, d.Mode, d.FleetID)
		}
		for _, wrong := range []string{"fleet-unreachable", "fleet-state-differs", "identity-cloned", "own-key-revoked", "fleet-split-healing", "consensus-leader-silent"} {
			if d.has(wrong) {
				t.Errorf("%s: %s raises %s", what, n.name, wrong)
			}
		}
	}
}

// shown is the year that the node's log shows at its start.
func (n *node) shown() string {
	_, at, _ := strings.Cut(lineWith(n.log.String(), "pace-node serves"), "time=")
	return at[:min(4, len(at))]
}

var logMessage = regexp.MustCompile(`(?m)^.*level=(\w+) msg=("[^"]*"|\S+).*$`)

// quiet checks that no line of the log was written over and over.
func (n *node) quiet() {
	n.t.Helper()
	const most = 40 // of one message; a line at each beat of such a test is more
	count := map[string]int{}
	for _, m := range logMessage.FindAllStringSubmatch(n.log.String(), -1) {
		count[m[1]+" "+m[2]]++
	}
	if len(count) == 0 {
		n.t.Errorf("%s logged nothing that this test can read:\n%s", n.name, n.log)
	}
	for line, times := range count {
		if times > most {
			n.t.Errorf("%s said %d times: %s", n.name, times, line)
		}
	}
}

// skewed waits until the node says that its clock and the leader's differ, or that they do not.
func (n *node) skewed(differ bool) {
	n.t.Helper()
	n.shows(fmt.Sprintf("clock-skewed: %v", differ), func(d nodeDoc) bool { return d.has("clock-skewed") == differ })
}

// TestClocksThatJumpWhileTheFleetWrites: a voter and a learner are born in 1970; then the leader's clock, a voter's and a
// learner's jump by seven hours, ahead and back, while the fleet writes. Nobody leaves the fleet, the leader stays the
// leader through all of one round of jumps (of three: a busy machine may elect by itself), and each commit reaches all. A
// skew is a condition and nothing else.
func TestClocksThatJumpWhileTheFleetWrites(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	a := l.hosts[0].clockedNode(t, "alder", 0, metered)
	a.start()
	a.ready()
	nextSecond(t)
	b, c, d := l.hosts[1].clockedNode(t, "birch", born1970(), metered), l.hosts[2].clockedNode(t, "cedar", 0, metered), l.hosts[3].clockedNode(t, "dogwood", born1970(), metered)
	for _, n := range []*node{b, c, d} {
		n.start()
		n.ready()
		n.approve(a)
	}
	for _, n := range []*node{b, c, d} {
		n.inMode("learner", a)
	}
	b.promoted(a)
	c.promoted(a)
	for n, year := range map[*node]string{a: time.Now().Format("2006"), b: "1970", c: time.Now().Format("2006"), d: "1970"} {
		if got := n.shown(); got != year {
			t.Fatalf("%s shows the year %q: this build's clock is not the file's", n.name, got)
		}
	}
	fleet, err := a.cluster()
	if err != nil {
		t.Fatal(err)
	}
	modes := map[*node]string{a: "voter", b: "voter", c: "voter", d: "learner"}
	b.skewed(true)
	d.skewed(true)
	c.skewed(false)
	a.skewed(false)

	w := writes(a, b, c)
	w.goesOn(t)
	jumps := func() {
		for _, n := range []*node{a, c, d} {
			for _, by := range []skew{jump, -jump, 0} {
				n.sets(by)
				w.goesOn(t)
				if status, body, err := n.get("/healthz"); err != nil || status != 200 {
					t.Errorf("%s counts as hung: %d %v %s", n.name, status, err, body)
				}
				untouched(t, fmt.Sprintf("%s's clock %s", n.name, time.Duration(by)), fleet.Cluster, modes)
			}
		}
	}
	// A busy machine may elect in that time without a clock's doing; clocks would make an election each time.
	was, led := leads(t, a, b, c), ""
	for range 3 {
		jumps()
		lead := leads(t, a, b, c)
		if led += " " + lead.name; lead == was {
			led = ""
			break
		}
		was = lead
	}
	if led != "" {
		t.Errorf("they led in turn, a clock that is set made elections:%s", led)
	}
	for _, n := range []*node{b, d} {
		n.sets(0) // as a time service does once the machine is on the network
		n.skewed(false)
	}
	lead := leads(t, a, b, c)
	lead.sets(jump)
	others(lead, b, c)[0].skewed(true)
	d.skewed(true)
	lead.sets(0)
	d.skewed(false)
	w.goesOn(t)
	w.end(t)
	agree(t, a, b, c, d)
	untouched(t, "at the end", fleet.Cluster, modes)
	if out, err := leads(t, a, b, c).pacectl("member", "stale", "--stale-for=1h"); err != nil || !strings.HasPrefix(out, "(nobody was silent ") {
		t.Errorf("somebody counts as silent: %v %s", err, out)
	}
	for n := range modes {
		n.quiet()
	}
}

// TestFoundedIn1970: the fleet of a board without a clock, established before others came, is joined by machines with the
// right date, provisions them, and goes on when its founder's clock is set, and when another leads.
func TestFoundedIn1970(t *testing.T) {
	t.Parallel()
	command, _ := helper(t, `printf '{"configuration":{"greeting":"hello %s"}}' "$id"`+"\n")
	l := newLAN(t, 5)
	a := l.hosts[0].clockedNode(t, "alder", born1970(), metered, "--provision-helper="+command)
	a.start()
	a.ready()
	a.must("--cluster-set=enrollment.per-source=16")
	fleet, err := a.cluster()
	if err != nil {
		t.Fatal(err)
	}

	// The waiting list and its window count elapsed time on the leader: its clock jumps while somebody waits.
	b := l.hosts[1].start(t, "birch")
	b.asks(a)
	for _, by := range []skew{born1970() + jump, born1970() - jump, 0, born1970()} {
		a.sets(by)
		a.asked(b)
	}
	b.approve(a)
	b.inMode("learner", a)
	b.configured("greeting", "hello "+b.id())
	a.must("--enroll-auto-approve=1h")
	a.sets(born1970() + jump)
	c := l.hosts[2].clockedNode(t, "cedar", born1970())
	c.start()
	c.ready()
	c.inMode("learner", a) // by the window, that seven hours of a date did not close
	a.must("--enroll-auto-approve=1s")
	a.sets(born1970() - jump)
	a.shows("that the window ended", func(d nodeDoc) bool { return !d.has("enrollment-window-open") })
	d := l.hosts[3].clockedNode(t, "dogwood", 0)
	d.start()
	d.ready()
	d.asks(a) // not by the window, that seven hours back did not keep open
	e := l.hosts[4].clockedNode(t, "elm", born1970())
	e.start()
	e.ready()
	id, _ := e.asks(a)
	a.must("--enroll-reject=" + id)
	e.inMode("solitary", nil)
	e.sets(0) // the hour of a rejection is not over because of a date

	b.promoted(a)
	c.promoted(a)
	for _, n := range []*node{b, c} { // a voter that has only just taken its seat takes no work before it has heard who leads
		n.shows("who leads", func(d nodeDoc) bool { return d.Leader != nil && d.Leader.ID == a.id() })
	}
	// A lease ends on the leader's clock: it is set between two leases, and to the true date.
	for i, by := range []skew{born1970() + jump, born1970() - jump, 0} {
		a.sets(by)
		before := a.metrics().of(t, "pace_provision_provisioned_total")
		for _, n := range []*node{b, c} {
			if out, err := a.pacectl("queue", "reprovision", n.id()); err != nil {
				t.Fatalf("%d: %v %s", i, err, out)
			}
		}
		until(t, "a voter is provisioned again", func() (bool, string) {
			m := a.metrics()
			for _, n := range []*node{b, c} {
				if strings.HasPrefix(a.queued(n.id()), "backing off") { // a seat that was just taken: the run comes again by itself, later
					a.pacectl("queue", "retry", n.id())
				}
			}
			return m.of(t, "pace_provision_provisioned_total") >= before+2, b.name + ": " + a.queued(b.id()) + ", " + c.name + ": " + a.queued(c.id())
		})
	}
	if got := a.metrics().of(t, refusedRequests(wire.CodeLeaseRefused)); got != 0 {
		t.Errorf("the leader refused %v leases", got)
	}
	for _, n := range []*node{b, c} {
		if strings.Contains(n.log.String(), "lease refused") {
			t.Errorf("%s refused a lease: %s", n.name, lineWith(n.log.String(), "lease refused"))
		}
	}
	if s, err := e.status(); err != nil || s.Mode != "solitary" {
		t.Errorf("elm asked again within the hour: %v %+v", err, s)
	}

	// The founder ends, back in 1970, and comes back there: another leads, and approves.
	a.sets(born1970())
	a.stop()
	lead := leads(t, b, c)
	d.approve(lead)
	d.inMode("learner", lead)
	a.start()
	a.ready()
	agree(t, lead, a, b, c, d)
	untouched(t, "at the end", fleet.Cluster, map[*node]string{a: "voter", b: "voter", c: "voter", d: "learner"})
	for _, n := range []*node{a, b, c, d, e} {
		n.quiet()
	}
}

// asked checks that the machine waits in the leader's list now.
func (n *node) asked(other *node) {
	n.t.Helper()
	id := other.id()
	d, err := n.waiting()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, r := range d.Rows {
		if r.ID == id && r.Decision == "waiting" {
			return
		}
	}
	n.t.Errorf("%s no longer waits: %+v", other.name, d.Rows)
}
