//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"pace-node/internal/wire"
)

func TestForgottenIsTrustedNoLongerAndLeftInPeace(t *testing.T) { // field case P24
	t.Parallel()
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch", metered)
	c := l.hosts[2].joined(t, a, "cedar")
	id, key := b.id(), b.key()
	fleet, err := a.cluster()
	if err != nil {
		t.Fatal(err)
	}
	// A copy of its key holds a session open from elsewhere.
	b.host.cut()
	thief := l.hosts[3].client(t, key)
	held := thief.session(a.endpoint())
	payloads := requests(t, id, key, fleet.Cluster, c.id())
	if _, code := thief.asksOn(held, wire.VerbStatus, payloads[wire.VerbStatus]); code != 0 {
		t.Fatalf("a member's key reads no status: %s", code)
	}
	a.must("--cluster-forget=" + id)
	select { // within a second: TestSimForgetVoter and its like hold that, in a time that no load bends
	case <-held.Done():
	case <-time.After(patience):
		t.Error("its session stays open")
	}
	// From then on the key gets FLEET-SUMMARY, Hello and the signed word on its ask, and nothing else.
	before := a.standing()
	for _, v := range wire.Verbs {
		if v.Access == wire.AccessAnybody {
			continue
		}
		a.counted(v.Name+" under a revoked key", func() {
			if _, code := thief.asks(a.endpoint(), v.Verb, payloads[v.Verb]); code != wire.CodeRevoked {
				t.Errorf("%s: %s, want %s", v.Name, code, wire.CodeRevoked)
			}
		}, refusedRequests(wire.CodeRevoked))
	}
	if ans, code := thief.enroll(a.endpoint(), wire.EnrollRequest{ID: id, Endpoint: "10.1.0.3:6674", Nonce: [32]byte{1}}); code != 0 || ans.Outcome != wire.OutcomeRevoked {
		t.Errorf("its ask: %s, %s", code, ans.Outcome)
	}
	if ans, code := thief.enroll(a.endpoint(), wire.EnrollRequest{ID: "another-id", Endpoint: "10.1.0.3:6674", Nonce: [32]byte{2}}); code != 0 || ans.Outcome != wire.OutcomeRevoked {
		t.Errorf("its ask under another id: %s, %s", code, ans.Outcome)
	}
	if _, code := thief.asks(a.endpoint(), wire.VerbFleetSummary, payloads[wire.VerbFleetSummary]); code != 0 {
		t.Errorf("FleetSummary: %s", code)
	}
	if after := a.standing(); after != before {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	// The machine itself comes back, notices, and nobody of the fleet dials it from then on.
	b.host.join()
	b.inMode("solitary", nil)
	b.host.nft(`table inet seen { counter syn {};
		chain in { type filter hook input priority 0; iifname eth0 tcp flags & (syn | ack) == syn counter name syn; }; }`)
	heard := b.metrics().of(t, "pace_discovery_beacons_heard_total")
	until(t, "two more beacons of the fleet's two machines", func() (bool, string) {
		got := b.metrics().of(t, "pace_discovery_beacons_heard_total") - heard
		return got >= 4, fmt.Sprint(got)
	})
	if n := b.host.counters("seen")["syn"].Packets; n != 0 {
		t.Errorf("the fleet dialled the machine that it forgot %d times", n)
	}
	if after := a.standing(); after != before {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
}

func TestStaleViewSaysHowOldItIs(t *testing.T) { // field case P34
	t.Parallel()
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch", metered)
	b.follows(a)
	ready := func(n *node) int {
		status, _, err := n.get("/readyz")
		if err != nil {
			t.Fatal(err)
		}
		return status
	}
	for _, n := range []*node{a, b} {
		if got := ready(n); got != http.StatusOK {
			t.Errorf("%s: /readyz says %d", n.name, got)
		}
	}
	b.host.cut()
	type view struct {
		View struct {
			AsOfMS         int64 `json:"as_of_ms"`
			LeaderSilentMS int64 `json:"leader_silent_ms"`
		}
	}
	// How long it is silent, and for how long the condition is raised, say both the node: what is between them is when that was,
	// which is looked at once a second. The first is read before the second, so a busy machine only makes it less.
	const silence, beat, hung = 90 * time.Second, time.Second, 10 // of beats, behind which a node counts as hung
	until(t, "the condition, after 90 s of silence", func() (bool, string) {
		d, err := b.status()
		raised := time.Duration(0)
		for _, c := range d.Conditions {
			if c.ID == "consensus-leader-silent" {
				raised = time.Duration(d.View.LeaderSilentMS-c.SinceMS) * time.Millisecond
			}
		}
		if raised >= silence+hung*beat {
			t.Fatalf("raised after %s, wanted after %s", raised, silence)
		}
		return raised >= silence-beat/10, fmt.Sprintf("silent for %d ms, %v, %v", d.View.LeaderSilentMS, d.Conditions, err) // rounded twice
	})
	for _, args := range [][]string{{"node", "--json"}, {"fleet", "status", "--json"}} {
		out, err := b.pacectl(args...)
		var v view
		if err != nil || json.Unmarshal([]byte(out), &v) != nil || v.View.AsOfMS < 80_000 || v.View.LeaderSilentMS < 80_000 {
			t.Errorf("%v: %v, %+v\n%s", args, err, v.View, out)
		}
	}
	for _, args := range [][]string{{"node"}, {"fleet", "status"}} {
		out, err := b.pacectl(args...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		wants(t, out, "as of", "consensus-leader-silent")
	}
	if got := ready(b); got != http.StatusServiceUnavailable {
		t.Errorf("/readyz says %d", got)
	}
	if status, _, err := b.get("/healthz"); err != nil || status != http.StatusOK {
		t.Errorf("/healthz says %d, %v: it lives", status, err)
	}
	// Back again it is well by itself.
	b.host.join()
	until(t, "ready again", func() (bool, string) { return ready(b) == http.StatusOK, "" })
	b.shows("no silence", func(d nodeDoc) bool { return !d.has("consensus-leader-silent") })
	b.follows(a)
}
