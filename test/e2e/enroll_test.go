//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pace-node/internal/wire"
)

// exits runs a verb that must fail, and returns what it printed, with its exit status.
func (n *node) exits(status int, args ...string) string {
	n.t.Helper()
	out, err := n.verb(args...)
	if err == nil {
		n.t.Fatalf("%s: %q succeeded: %s", n.name, args, out)
	}
	if !strings.Contains(err.Error(), fmt.Sprintf("exit status %d:", status)) {
		n.t.Errorf("%s: %q: %v, want exit status %d", n.name, args, err, status)
	}
	return err.Error()
}

// decided waits until the row of a name has the decision.
func (n *node) decided(name, decision string) {
	n.t.Helper()
	until(n.t, name+" is "+decision, func() (bool, string) {
		d, err := n.waiting()
		if err != nil {
			return false, err.Error()
		}
		for _, r := range d.Rows {
			if r.Name == name && r.Decision == decision {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%+v", d.Rows)
	})
}

func TestApprovalFromAnotherMachineNeedsAVotersKey(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	c := l.hosts[2].start(t, "cedar")
	id, key := c.asks(a)
	scheduler := "--scheduler=" + a.endpoint()

	// A learner's key is refused, also where its own node sent the verb on to the leader, and nobody's key too.
	for _, args := range [][]string{{scheduler, "--enroll-approve=" + id + "@" + key}, {"--enroll-approve=" + id + "@" + key}} {
		if said := b.exits(4, args...); !strings.Contains(said, "the waiting list is not for a learner") || !strings.Contains(said, "remedy: ") {
			t.Errorf("a learner is told: %s", said)
		}
	}
	nobody := l.hosts[3].newNode(t, "nobody")
	nobody.must("--print-identity")
	if said := nobody.exits(4, scheduler, "--enroll-approve="+id+"@"+key); !strings.Contains(said, "roster") {
		t.Errorf("a stranger is told: %s", said)
	}
	if said := nobody.exits(5, "--scheduler=10.1.0.200", "--enroll-list"); !strings.Contains(said, "10.1.0.200:6674") {
		t.Errorf("nobody there, and it says: %s", said)
	}
	c.inMode("pending", nil)
	// A member's verb beside its running node is no copied machine.
	if out := b.must(scheduler, "--cluster-status"); !strings.Contains(out, a.id()) {
		t.Errorf("a learner reads: %s", out)
	}
	if d, err := a.status(); err != nil || d.has("identity-cloned") {
		t.Errorf("%v: a verb typed on a member raised %v", err, d.Conditions)
	}

	// The founder's administrator sits at another machine: its state directory is what makes the verb the voter's.
	from := *a
	from.host = l.hosts[3]
	if out := from.must(scheduler, "--enroll-list"); !strings.Contains(out, "key "+key) {
		t.Errorf("the list from afar: %s", out)
	}
	from.must(scheduler, "--enroll-approve="+id+"@"+key)
	c.inMode("learner", a)
	// A not-leader is followed to the leader.
	if out := from.must("--scheduler="+b.endpoint(), "--enroll-list"); !strings.HasPrefix(out, "enrollment: manual") {
		t.Errorf("by way of a learner: %s", out)
	}
}

func TestRejectedDoesNotAskAgain(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].start(t, "birch", metered)
	id, _ := b.asks(a)
	a.must("--enroll-reject=" + id)
	b.inMode("solitary", nil)
	a.decided("birch", "rejected")
	once := a.attempts("birch")
	// Neither when it has heard the fleet again, nor at its next start.
	b.kill()
	b.start()
	b.ready()
	until(t, "birch has proven alder again", func() (bool, string) {
		return b.metrics().of(t, "pace_discovery_proofs_verified_total") >= 1, ""
	})
	c := l.hosts[2].start(t, "cedar")
	c.asks(a)
	if got := a.attempts("birch"); got != once || once == 0 {
		t.Errorf("it has asked %d times, and %d times when it was rejected", got, once)
	}
	if d, err := b.status(); err != nil || d.Mode != "solitary" {
		t.Errorf("%v: birch is %s", err, d.Mode)
	}
}

func TestWindowAdmits(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].start(t, "birch")
	b.asks(a) // one that waits already is admitted as well
	for arg, exit := range map[string]int{"0": 2, "25h": 4, "yes": 2} {
		a.exits(exit, "--enroll-auto-approve="+arg)
	}
	a.must("--enroll-auto-approve=5m")
	a.shows("the open window", func(d nodeDoc) bool { return d.has("enrollment-window-open") })
	if out := a.must("--enroll-list"); !strings.HasPrefix(out, "enrollment: auto-approve (5 min left)\n") {
		t.Errorf("the list begins: %s", out)
	}
	b.inMode("learner", a)
	c := l.hosts[2].start(t, "cedar")
	c.inMode("learner", a)
	if out := a.must("--enroll-list"); !strings.Contains(out, "cedar") || !strings.Contains(out, "armed") {
		t.Errorf("a row that the window admitted does not say when it was armed: %s", out)
	}
	a.must("--enroll-auto-approve=off")
	a.shows("no window", func(d nodeDoc) bool { return !d.has("enrollment-window-open") })
	d := l.hosts[3].start(t, "dogwood")
	d.asks(a)
	d.inMode("pending", nil)
	m := a.metrics()
	if auto, manual := m.of(t, "pace_enrollment_approvals_auto_total"), m.of(t, "pace_enrollment_approvals_manual_total"); auto != 2 || manual != 0 {
		t.Errorf("%v by the window, %v by hand", auto, manual)
	}
}

func TestPreApprovedIsAdmittedWhenItComes(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].newNode(t, "birch")
	b.must("--print-identity")
	a.must("--cluster-admit-learner=" + b.id() + "@" + b.key().Public().String())
	b.start()
	b.ready()
	b.inMode("learner", a)
}

func TestRestartOfEitherSideResumesTheAsk(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].start(t, "birch")
	id, key := b.asks(a)

	b.kill()
	b.start()
	b.ready()
	if d, err := b.status(); err != nil || d.Mode != "pending" {
		t.Errorf("%v: back as %s, want pending", err, d.Mode)
	}
	if again, sameKey := b.asks(a); again != id || sameKey != key {
		t.Errorf("asks as %s under %s, before as %s under %s", again, sameKey, id, key)
	}
	if d, err := a.waiting(); err != nil || len(d.Rows) != 1 {
		t.Errorf("%v: %d rows of one machine", err, len(d.Rows))
	}

	// The leader's list is in its memory: the joiner asks again by itself.
	a.kill()
	a.start()
	a.ready()
	began := time.Now()
	b.approve(a)
	b.inMode("learner", a)
	t.Logf("approved %s after the leader's restart", time.Since(began).Round(10*time.Millisecond))
}

// A machine that waits at one that yields itself is sent on.
func TestAskerOfAFleetThatYieldsIsSentOn(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	a.host.cut()
	b := l.hosts[1].start(t, "birch")
	nextSecond(t)
	c := l.hosts[2].start(t, "cedar")
	c.asks(b)
	a.host.join()
	b.asks(a)
	c.asks(a)
	b.approve(a)
	c.approve(a)
	for _, n := range []*node{b, c} {
		n.inMode("learner", a)
		n.follows(a)
	}
}

func TestOneIDUnderTwoKeys(t *testing.T) { // field case P17
	t.Parallel()
	l := newLAN(t, 3)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	id, key := b.id(), b.key().Public().String()
	other := l.hosts[2].client(t, newKey(7))
	ans, code := other.enroll(a.endpoint(), wire.EnrollRequest{ID: id, Endpoint: "10.1.0.4:6674", Nonce: [32]byte{1}})
	if code != 0 || ans.Outcome != wire.OutcomePending {
		t.Fatalf("%s, %s", code, ans.Outcome)
	}
	list := a.must("--enroll-list")
	if !strings.Contains(list, "key "+newKey(7).Public().String()) || strings.Count(list, "KEY-CONFLICT") != 2 {
		t.Errorf("the list does not mark the other key:\n%s", list)
	}
	// An open window is not for it.
	a.must("--enroll-auto-approve=10m")
	if ans, code := other.enroll(a.endpoint(), wire.EnrollRequest{ID: id, Endpoint: "10.1.0.4:6674", Nonce: [32]byte{2}}); code != 0 || ans.Outcome != wire.OutcomePending {
		t.Errorf("with the window open: %s, %s", code, ans.Outcome)
	}
	a.must("--enroll-auto-approve=off")
	before := b.shows("its session", func(d nodeDoc) bool { return d.Peers.Sessions == 1 })
	a.must("--enroll-reject=" + id)
	// Rejected, it comes back from the same address under an id of its own, while a window is open: it waits, and is marked.
	a.must("--enroll-auto-approve=10m")
	if ans, code := other.enroll(a.endpoint(), wire.EnrollRequest{ID: "born-again", Endpoint: "10.1.0.4:6674", Nonce: [32]byte{3}}); code != 0 || ans.Outcome != wire.OutcomePending {
		t.Errorf("rejected and back under another id: %s, %s", code, ans.Outcome)
	}
	if line := lineWith(a.must("--enroll-list"), "born-again", "KEY-REJECTED"); !strings.HasPrefix(line, "waiting ") {
		t.Errorf("the list says of it: %q", line)
	}
	a.must("--enroll-auto-approve=off")
	a.must("--enroll-clear")
	a.must("--cluster-set=enrollment.per-source=8")
	b.follows(a)
	if d := b.shows("its session still", func(d nodeDoc) bool { return d.Peers.Sessions == before.Peers.Sessions }); d.Mode != "learner" {
		t.Errorf("the member itself is touched: %+v", d)
	}
	b.kill()
	b.start()
	b.ready()
	b.follows(a)
	if out := a.must("--cluster-forget=" + id); !strings.Contains(out, key) {
		t.Errorf("it does not say which key it revokes: %s", out)
	}
}

func TestWaitingJoinersLeakNoConnections(t *testing.T) { // field case P20
	t.Parallel()
	const joiners = 10
	l := newLAN(t, joiners+1)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	var nodes []*node
	for i := range joiners {
		nodes = append(nodes, l.hosts[i+1].newNode(t, fmt.Sprintf("m%02d", i)))
	}
	// All of them start, are killed and start again, as often as it takes to see a leak of one file a round.
	start := func() {
		for _, n := range nodes {
			n.start()
		}
		for _, n := range nodes {
			n.ready()
		}
		until(t, "all wait with an open ask", func() (bool, string) {
			d, err := a.status()
			if err != nil {
				return false, err.Error()
			}
			w, err := a.waiting()
			waiting := 0
			for _, r := range w.Rows {
				if r.Decision == "waiting" {
					waiting++
				}
			}
			return err == nil && d.Peers.Sessions == joiners && waiting == joiners, fmt.Sprintf("%d sessions, %d waiting", d.Peers.Sessions, waiting)
		})
	}
	start()
	files, threads := a.openFiles()
	for range 3 {
		for _, n := range nodes {
			n.kill()
		}
		until(t, "no session is left", func() (bool, string) {
			d, err := a.status()
			return err == nil && d.Peers.Sessions == 0, fmt.Sprintf("%d sessions, %v", d.Peers.Sessions, err)
		})
		start()
	}
	until(t, "the leader has as many files open as in the first round", func() (bool, string) {
		f, th := a.openFiles()
		return f <= files+5 && th <= threads+5, fmt.Sprintf("%d files and %d threads, at first %d and %d", f, th, files, threads)
	})
	lines := strings.Count(a.log.String(), "\n")
	if most := 4*joiners + 60; lines > most {
		t.Errorf("%d lines of log for %d joiners, at most %d are useful", lines, joiners, most)
	}
}
