//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestFounderKilledAndRestartedHasItsLearnersBack(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	c := l.hosts[2].joined(t, a, "cedar")
	for _, n := range []*node{b, c} {
		n.follows(a)
	}
	before, err := a.cluster()
	if err != nil {
		t.Fatal(err)
	}

	a.kill()
	// The learners go on serving what they have applied.
	for _, n := range []*node{b, c} {
		if d, err := n.cluster(); err != nil || d.roster() != before.roster() {
			t.Errorf("%s, its founder dead: %v\n%s", n.name, err, d.roster())
		}
	}
	a.start()
	a.ready()
	a.inMode("voter", nil)
	after, err := a.cluster()
	if err != nil || after.Cluster != before.Cluster || after.roster() != before.roster() || after.View.Revision < before.View.Revision {
		t.Fatalf("%v: fleet %s at %d before, %s at %d after\n%s", err, before.Cluster, before.View.Revision, after.Cluster, after.View.Revision, after.roster())
	}
	began := time.Now()
	a.must("--cluster-set=enrollment.per-source=7")
	changed, err := a.cluster()
	if err != nil || changed.View.Revision <= after.View.Revision {
		t.Fatalf("%v: revision %d after a change at %d", err, changed.View.Revision, after.View.Revision)
	}
	for _, n := range []*node{b, c} {
		n.follows(a)
		if out := n.must("--cluster-status"); !strings.Contains(out, "enrollment.per-source") || !strings.Contains(out, "7") {
			t.Errorf("%s does not show the new setting:\n%s", n.name, out)
		}
	}
	t.Logf("a commit after the restart was everywhere in %s", time.Since(began).Round(10*time.Millisecond))
}

// alone checks that a machine that was forgotten is a fleet of its own again, under the same id and key, says why, keeps
// what it had, and does not ask that fleet again.
func alone(t *testing.T, n, by *node, fleet string, spare *host) {
	t.Helper()
	id, key := n.id(), n.key().Public()
	n.inMode("solitary", nil)
	d := n.shows("that its key is revoked", func(d nodeDoc) bool { return d.has("own-key-revoked") })
	own, err := n.cluster()
	if err != nil || own.Cluster == fleet || len(own.Members) != 1 || own.Members[0].ID != id || own.Members[0].Key != key.String() || d.NodeID != id {
		t.Errorf("%v: %s is in %s as %s (%s):\n%s", err, n.name, own.Cluster, d.NodeID, d.Key, own.roster())
	}
	if kept := n.archived(); len(kept) == 0 || !strings.HasPrefix(strings.Join(kept, " "), fleet) && !strings.Contains(strings.Join(kept, " "), " "+fleet) {
		t.Errorf("%s has archived %q, nothing of %s", n.name, kept, fleet)
	}
	// It hears the fleet and knows it proven, and still leaves it alone. A newcomer that asks meanwhile shows that the
	// fleet can be asked.
	asked := by.metrics().of(t, "pace_enrollment_requests_total")
	until(t, n.name+" has proven the fleet that forgot it", func() (bool, string) {
		m := n.metrics()
		return m.of(t, "pace_discovery_foreign_fleets") >= 1, fmt.Sprint(m["pace_discovery_proofs_verified_total"])
	})
	nextSecond(t) // it must be younger than the one that was forgotten, or that one asks it
	fresh := spare.start(t, "dogwood")
	freshID, _ := fresh.asks(by)
	list, err := by.waiting()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list.Rows {
		if r.ID != freshID && r.Decision == "waiting" {
			t.Errorf("%s asks again: %+v", n.name, r)
		}
	}
	until(t, "all asks that were made are the newcomer's", func() (bool, string) {
		from := by.attempts("dogwood")
		got := by.metrics().of(t, "pace_enrollment_requests_total") - asked
		return int(got) == from && from > 0, fmt.Sprintf("%v asks, of which %d are the newcomer's", got, from)
	})
	if d, err := n.status(); err != nil || d.Mode != "solitary" || !d.has("own-key-revoked") {
		t.Errorf("%v: %s is %s with %v", err, n.name, d.Mode, d.Conditions)
	}
}

func TestForgottenWhileConnectedGoesSolitary(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch", metered)
	c := l.hosts[2].joined(t, a, "cedar")
	fleet, err := a.cluster()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if out := a.must("--cluster-forget=" + b.id()); !strings.Contains(out, b.key().Public().String()) {
		t.Errorf("it does not say which key is revoked: %s", out)
	}
	b.inMode("solitary", nil)
	t.Logf("forgotten to solitary in %s", time.Since(began).Round(10*time.Millisecond))
	alone(t, b, a, fleet.Cluster, l.hosts[3])
	c.follows(a)
	if d, err := a.cluster(); err != nil || len(d.Members) != 2 || strings.Contains(d.roster(), b.id()) {
		t.Errorf("%v:\n%s", err, d.roster())
	}
	// The word survives its next start.
	b.kill()
	b.start()
	b.ready()
	b.shows("still that its key is revoked", func(d nodeDoc) bool { return d.Mode == "solitary" && d.has("own-key-revoked") })
}

func TestForgottenWhileAwayLearnsItOnItsReturn(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch", metered)
	c := l.hosts[2].joined(t, a, "cedar")
	fleet, err := a.cluster()
	if err != nil {
		t.Fatal(err)
	}
	b.host.cut()
	a.must("--cluster-forget=" + b.id())
	c.follows(a)
	if d, err := b.status(); err != nil || d.Mode != "learner" || d.has("own-key-revoked") {
		t.Fatalf("%v: away it can't know: %+v", err, d)
	}
	b.host.join()
	began := time.Now()
	b.inMode("solitary", nil)
	t.Logf("back to solitary in %s", time.Since(began).Round(10*time.Millisecond))
	alone(t, b, a, fleet.Cluster, l.hosts[3])
	c.follows(a)
}

func TestForgottenWhileStoppedLearnsItAtItsNextStart(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch", metered)
	id := b.id()
	b.stop()
	a.must("--cluster-forget=" + id)
	b.start()
	b.ready()
	b.inMode("solitary", nil)
	b.shows("that its key is revoked", func(d nodeDoc) bool { return d.has("own-key-revoked") })
}

func TestTwoNodesInOneNamespaceCompleteTheHandshake(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[0].start(t, "birch", "--listen=:7674", "--listen-raft=:7680", "--admin-listen=127.0.0.1:7690")
	// Beacons on the shared port, challenges and proofs on the port that only one of them holds: each has proven the other.
	for _, n := range []*node{a, b} {
		until(t, n.name+" has proven the other", func() (bool, string) {
			m := n.metrics()
			return m.of(t, "pace_discovery_proofs_verified_total") >= 1 && m.of(t, "pace_discovery_proofs_sent_total") >= 1, fmt.Sprint(m)
		})
	}
	b.approve(a)
	b.inMode("learner", a)
	b.follows(a)
	a.shows("its learner authenticated by discovery", func(d nodeDoc) bool { return d.Peers.Authenticated == 1 })
	b.shows("its founder authenticated by discovery", func(d nodeDoc) bool { return d.Peers.Authenticated == 1 })
}

func TestLossOfThirtyPercentOnlyDelays(t *testing.T) {
	t.Parallel()
	const machines = 4
	l := newLAN(t, machines)
	for _, h := range l.hosts {
		h.lose(30)
	}
	began := time.Now()
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	nodes := []*node{a}
	for i, name := range []string{"birch", "cedar", "dogwood"} {
		n := l.hosts[i+1].newNode(t, name)
		n.start()
		nodes = append(nodes, n)
	}
	for _, n := range nodes[1:] {
		n.ready()
		n.approve(a)
	}
	for _, n := range nodes[1:] {
		n.inMode("learner", a)
	}
	a.must("--cluster-set=enrollment.per-source=9")
	for _, n := range nodes[1:] {
		n.follows(a)
	}
	t.Logf("%d machines are one fleet after %s", machines, time.Since(began).Round(10*time.Millisecond))
}
