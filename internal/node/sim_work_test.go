package node

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/provision"
	"pace-node/internal/queue"
	"pace-node/internal/statedir"
	"pace-node/internal/target"
	"pace-node/internal/wire"
)

// manifestOf is the fleet that made what a machine is configured with, empty where it is not.
func manifestOf(t *testing.T, n *Node) (cluster string) {
	raw, err := os.ReadFile(filepath.Join(n.dir.Path(), statedir.ProvisionedDir, "current", "manifest.json"))
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	var m struct {
		Cluster string `json:"cluster"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.Cluster
}

// provisioned reports whether the fleet's state says that m runs what it holds, and m knows it.
func provisioned(m, leader *Node) bool {
	r, _ := leader.View().Member(m.id)
	wants, _ := m.target.Wants()
	return r.Provision.LastSuccess != 0 && r.Provision.ConfigDigest != "" && r.Provision.ConfigDigest == m.target.Digest() &&
		r.Provision.Component == wire.ComponentServer && m.target.Component() == wire.ComponentServer && !wants
}

// counted is one of a leader's counters.
func counted(n *Node, c queue.Counter) (count uint64) {
	if err := n.ask(context.Background(), func(time.Time) { count = n.queue.Count(c) }); err != nil {
		return 0
	}
	return count
}

// TestSimProvisioning: a leader provisions itself and its learners, each as soon as it says that it started; a machine that
// joins leaves its own queue behind and is provisioned anew.
func TestSimProvisioning(t *testing.T) {
	simulate(t, 41, func(t *testing.T, s *sim) {
		a := s.boot(0, provisioning)
		s.want(2*time.Second, "it provisions itself", func() bool { return provisioned(a, a) && manifestOf(t, a) == a.View().Cluster() })
		time.Sleep(2 * time.Second)
		s.deaf(between(0))
		b := s.boot(1)
		c := s.boot(2, provisioning)
		s.want(10*time.Second, "one of the two asks the other", func() bool { return b.Mode() == formation.Pending || c.Mode() == formation.Pending })
		own := c.View().Cluster()
		s.want(2*time.Second, "a fleet of one provisions itself where it can", func() bool { return provisioned(c, c) && manifestOf(t, c) == own })
		if wants, _ := b.target.Wants(); !wants || manifestOf(t, b) != "" {
			t.Error("a machine that has nothing to provision with provisioned itself")
		}
		boot, sequence := c.target.BootID(), c.target.Sequence()
		s.deaf(nil)
		for _, n := range []*Node{b, c} {
			s.want(time.Minute, "it waits at the oldest", func() bool { return s.waits(a, n) })
			s.must(s.grant(a, n))
			took := s.want(time.Minute, "it is provisioned by the fleet", func() bool { return follows(n, a) && provisioned(n, a) && manifestOf(t, n) == a.View().Cluster() })
			if took > time.Second {
				t.Errorf("%s was provisioned %s after its approval: a round found it, and no event", n.name, took)
			}
			list, err := n.provisioner.Entries(context.Background())
			if s.must(err); len(list.Entries) != 0 || list.Paused&queue.PauseNoLeadership == 0 {
				t.Errorf("%s keeps a queue of its own: %+v", n.name, list)
			}
		}
		if c.target.BootID() != boot || c.target.Sequence() < sequence {
			t.Error("changing fleet changed the boot id or took the sequence back")
		}
		if n := s.metric(a, "pace_provision_event_discovered_total"); n != 2 {
			t.Errorf("%v machines were found by their event, want 2", n)
		}
		if n := s.metric(a, "pace_provision_provisioned_total"); n != 3 {
			t.Errorf("%v machines are counted as provisioned, want 3", n)
		}
		time.Sleep(70 * time.Second)
		if n := s.metric(a, "pace_provision_waiting_nodes"); n != 0 {
			t.Errorf("%v machines are still held", n)
		}
		time.Sleep(5 * time.Minute)
		if n := s.metric(a, "pace_provision_provisioned_total"); n != 3 {
			t.Errorf("%v machines are counted as provisioned after rounds that find nobody, want 3", n)
		}
		var doc control.QueueList
		raw, err := a.Queue(context.Background(), local, wire.QueueRequest{Op: "list"})
		s.must(err)
		s.must(json.Unmarshal(raw, &doc))
		for _, e := range doc.Entries {
			if e.State != "confirmed" {
				t.Errorf("%s is %s", e.ID, e.State)
			}
		}
		if len(doc.Entries) != 3 {
			t.Errorf("%d machines are in the list", len(doc.Entries))
		}
	})
}

// TestSimForgottenIsProvisionedAnew: who is forgotten keeps what it was configured with, and wants provisioning as a fleet
// of one.
func TestSimForgottenIsProvisionedAnew(t *testing.T) {
	simulate(t, 42, func(t *testing.T, s *sim) {
		s.expect = []string{"id=own-key-revoked"}
		a := s.boot(0, provisioning)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		s.want(5*time.Second, "it is provisioned", func() bool { return provisioned(b, a) })
		digest, old := b.target.Digest(), a.View().Cluster()
		s.must(s.cluster(a, forget(b)))
		s.want(time.Second, "it is solitary", func() bool { return b.Mode() == formation.Solitary })
		if wants, why := b.target.Wants(); !wants || b.target.Digest() != digest || manifestOf(t, b) != old {
			t.Errorf("it wants %v (%s), and holds %s of %s", wants, why, b.target.Digest(), manifestOf(t, b))
		}
	})
}

// TestSimLeases: a lease is good once, for its machine, step and body, from a voter of the applied roster, in its time and
// term; every refusal is counted by its reason, and a spent serial stays spent across a restart.
func TestSimLeases(t *testing.T) {
	simulate(t, 43, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent"}
		a := s.boot(0, provisioning)
		time.Sleep(2 * time.Second)
		b, c := s.boot(1), s.boot(2)
		s.joined(a, b)
		s.joined(a, c)
		s.want(5*time.Second, "both are provisioned", func() bool { return provisioned(b, a) && provisioned(c, a) })
		body, err := json.Marshal(wire.RestartBody{Digest: b.target.Digest()})
		s.must(err)
		var serial byte
		claims := func() wire.LeaseClaims {
			serial++
			return wire.LeaseClaims{Version: wire.LeaseVersion, Serial: [16]byte{0xFF, serial}, Target: b.id, Step: "restart", Digest: sha256.Sum256(body),
				Expiry: uint64(time.Now().Add(fleet.LeaseLife).Unix()), Cluster: a.View().Cluster(), Term: a.serving.Load().cons.Term(), Signer: a.id}
		}
		work := func(lease []byte) error {
			ans, err := b.Work(context.Background(), control.Peer{Key: a.Key(), ID: a.id}, wire.WorkRequest{Step: "restart", Lease: lease, Body: body})
			if err == nil && !ans.OK {
				return errors.New(ans.Error)
			}
			return err
		}
		refused := func(what, reason string, code wire.ErrorCode, key identity.PrivateKey, change func(*wire.LeaseClaims)) {
			t.Helper()
			l := claims()
			change(&l)
			series := `pace_leases_refused_total{reason="` + reason + `"}`
			before := s.metric(b, series)
			var e *wire.Error
			if err := work(fleet.SignLease(key, l)); !errors.As(err, &e) || e.Code != code {
				t.Errorf("%s: %v, want error %d", what, err, code)
			}
			if got := s.metric(b, series); got != before+1 {
				t.Errorf("%s: %s went from %v to %v", what, series, before, got)
			}
		}
		good, err := a.lease(b.id, "restart", body)
		s.must(err)
		if err := work(good); err != nil {
			t.Fatalf("a good lease: %v", err)
		}
		replay := func(when string) {
			t.Helper()
			before := s.metric(b, `pace_leases_refused_total{reason="replayed"}`)
			if err := work(good); err == nil || s.metric(b, `pace_leases_refused_total{reason="replayed"}`) != before+1 {
				t.Errorf("a replayed lease %s: %v", when, err)
			}
		}
		replay("at once")
		// Each also fails every later check that can fail at once: the reason is the earlier one's.
		old := func(l *wire.LeaseClaims) { l.Term = 1 }
		late := func(l *wire.LeaseClaims) {
			l.Expiry = uint64(time.Now().Add(-fleet.LeaseSlack - 2*time.Second).Unix())
			old(l)
		}
		other := func(l *wire.LeaseClaims) { l.Digest[0] ^= 1; late(l) }
		elsewhere := func(l *wire.LeaseClaims) { l.Target = c.id; other(l) }
		foreign := func(l *wire.LeaseClaims) { l.Cluster = c.id; elsewhere(l) }
		refused("of an old term", "old_term", wire.CodeLeaseRefused, a.key, old)
		refused("expired", "expired", wire.CodeLeaseRefused, a.key, late)
		refused("with another body's digest", "wrong_digest", wire.CodeLeaseRefused, a.key, other)
		refused("for another target", "wrong_target", wire.CodeLeaseRefused, a.key, elsewhere)
		refused("of another fleet", "wrong_cluster", wire.CodeLeaseRefused, a.key, foreign)
		refused("under another key", "signature", wire.CodeLeaseRefused, c.key, foreign)
		refused("of a learner", "not_voter", wire.CodeLeaseRefused, c.key, func(l *wire.LeaseClaims) { foreign(l); l.Signer = c.id })
		refused("of a stranger", "roster_not_applied", wire.CodeRosterNotApplied, c.key, func(l *wire.LeaseClaims) { foreign(l); l.Signer = "nobody" })
		before := s.metric(b, `pace_leases_refused_total{reason="malformed"}`)
		if err := work([]byte("no lease")); err == nil || s.metric(b, `pace_leases_refused_total{reason="malformed"}`) != before+1 {
			t.Errorf("no lease: %v", err)
		}
		// Each step that changes a machine, and none that only asks.
		for step, needs := range map[string]bool{"inventory": false, "csr": true, "configure": true, "restart": true, "shutdown": true, "upgrade": true} {
			before := s.metric(b, `pace_leases_refused_total{reason="malformed"}`)
			_, err := b.Work(context.Background(), control.Peer{Key: a.Key(), ID: a.id}, wire.WorkRequest{Step: step})
			var e *wire.Error
			if leased := errors.As(err, &e) && e.Code == wire.CodeLeaseRefused && s.metric(b, `pace_leases_refused_total{reason="malformed"}`) == before+1; leased != needs {
				t.Errorf("%s without a lease: %v", step, err)
			}
		}
		s.halt(1)
		b = s.boot(1)
		s.want(30*time.Second, "it follows again", func() bool { return follows(b, a) })
		replay("after a restart")
		refused("of an old term after a restart", "old_term", wire.CodeLeaseRefused, a.key, old)

		s.cut(between(1))
		time.Sleep(fleet.LeaseSilence - 20*time.Second)
		fresh, err := a.lease(b.id, "restart", body)
		s.must(err)
		if err := work(fresh); err != nil {
			t.Errorf("a lease an hour after the last voter was heard: %v", err)
		}
		time.Sleep(30 * time.Second)
		refused("65 minutes after the last voter was heard", "no_voter_heard", wire.CodeLeaseRefused, a.key, func(*wire.LeaseClaims) {})
	})
}

// TestSimLeaseAtASilentVoter: a voter that heard no leader for 65 minutes takes no work either: whom its roster names as a voter
// may have been forgotten meanwhile. It does again once it hears one.
func TestSimLeaseAtASilentVoter(t *testing.T) {
	simulate(t, 44, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent"}
		a := s.voters(3, provisioning)
		b, c := s.nodes[1], s.nodes[2]
		s.want(time.Minute, "all are provisioned", func() bool { return provisioned(b, a) && provisioned(c, a) })
		lead, key := s.led(a, b, c), a.key
		if lead != a {
			t.Fatalf("%s leads", lead.name)
		}
		body, err := json.Marshal(wire.RestartBody{Digest: b.target.Digest()})
		s.must(err)
		var serial byte
		work := func() error { // as somebody does who has the key of a's, in the term that b knows
			serial++
			l := wire.LeaseClaims{Version: wire.LeaseVersion, Serial: [16]byte{0xFE, serial}, Target: b.id, Step: "restart", Digest: sha256.Sum256(body),
				Expiry: uint64(time.Now().Add(fleet.LeaseLife).Unix()), Cluster: b.View().Cluster(), Term: b.serving.Load().cons.Term(), Signer: a.id}
			ans, err := b.Work(context.Background(), control.Peer{Key: key.Public(), ID: a.id}, wire.WorkRequest{Step: "restart", Lease: fleet.SignLease(key, l), Body: body})
			if err == nil && !ans.OK {
				return errors.New(ans.Error)
			}
			return err
		}
		s.must(work())
		s.halt(0)
		s.halt(2)
		time.Sleep(fleet.LeaseSilence - time.Minute)
		s.must(work())
		time.Sleep(2 * time.Minute)
		var e *wire.Error
		if err := work(); !errors.As(err, &e) || e.Code != wire.CodeLeaseRefused || s.metric(b, `pace_leases_refused_total{reason="no_voter_heard"}`) != 1 {
			t.Errorf("65 minutes after the last leader was heard: %v", err)
		}
		s.boot(0)
		s.want(time.Minute, "it takes work again once it hears a leader", func() bool { return work() == nil })
	})
}

// TestSimDamagedIsProvisionedAgain: a machine whose configuration is gone when it starts says so, and is provisioned again; so is one
// that loses it while it runs.
func TestSimDamagedIsProvisionedAgain(t *testing.T) {
	simulate(t, 44, func(t *testing.T, s *sim) {
		a := s.boot(0, provisioning)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		s.want(5*time.Second, "it is provisioned", func() bool { return provisioned(b, a) })
		time.Sleep(2 * time.Minute)
		s.halt(1)
		s.must(os.RemoveAll(filepath.Join(s.dir, "m001", statedir.ProvisionedDir, "current")))
		b = s.boot(1)
		if wants, _ := b.target.Wants(); !wants {
			t.Error("it wants nothing")
		}
		took := s.want(30*time.Second, "it is provisioned again", func() bool { return provisioned(b, a) && manifestOf(t, b) != "" })
		t.Logf("%s after its start", took)
		if n := s.metric(a, "pace_provision_provisioned_total"); n != 3 {
			t.Errorf("%v runs were confirmed, want 3", n)
		}
		s.must(os.RemoveAll(filepath.Join(s.dir, "m001", statedir.ProvisionedDir, "current")))
		took = s.want(5*time.Minute, "it is provisioned again while it runs", func() bool {
			return counted(a, queue.CountProvisioned) == 4 && provisioned(b, a) && manifestOf(t, b) != ""
		})
		t.Logf("%s after its loss", took)
		time.Sleep(2 * target.LookEvery)
		if n := s.metric(a, "pace_provision_provisioned_total"); n != 4 {
			t.Errorf("%v runs were confirmed in the end, want 4", n)
		}
	})
}

// TestSimReprovisionOutlivesFailures: a machine that an operator has provisioned anew is tried again when that fails, though
// it does not ask for it itself.
func TestSimReprovisionOutlivesFailures(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the helper is a shell script")
	}
	simulate(t, 45, func(t *testing.T, s *sim) {
		broken := filepath.Join(s.dir, "broken")
		helper := filepath.Join(s.dir, "helper")
		s.must(os.WriteFile(helper, []byte("#!/bin/sh\ncat >/dev/null\n[ -e "+broken+" ] && exit 3\necho '{\"configuration\":{\"a\":\"b\"}}'\n"), 0o700))
		a := s.boot(0, func(c *Config) { c.Settings.Provision.Helper = helper })
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		s.want(5*time.Second, "it is provisioned", func() bool { return provisioned(b, a) })
		time.Sleep(2 * time.Minute)
		s.must(os.WriteFile(broken, nil, 0o600))
		_, err := a.Queue(context.Background(), local, wire.QueueRequest{Op: "reprovision", ID: b.id})
		s.must(err)
		s.want(time.Minute, "the helper fails twice", func() bool { return counted(a, queue.CountErrors) >= 2 })
		before := counted(a, queue.CountProvisioned)
		s.must(os.Remove(broken))
		s.want(time.Minute, "it is provisioned when the helper is mended", func() bool { return counted(a, queue.CountProvisioned) == before+1 })
		time.Sleep(2 * time.Minute)
		s.want(time.Second, "it rests", func() bool { return provisioned(b, a) && counted(a, queue.CountProvisioned) == before+1 })
	})
}

// TestSimProvisionModes: a machine of mode always is provisioned at each boot, one of never at none.
func TestSimProvisionModes(t *testing.T) {
	simulate(t, 46, func(t *testing.T, s *sim) {
		mode := func(m string) tweak { return func(c *Config) { c.Settings.Provision.Mode = m } }
		a := s.boot(0, provisioning)
		time.Sleep(2 * time.Second)
		always, never := s.boot(1, mode("always")), s.boot(2, mode("never"))
		s.joined(a, always)
		s.joined(a, never)
		for boot := range 3 {
			if boot > 0 {
				s.halt(1)
				s.halt(2)
				time.Sleep(10 * time.Second) // within the hold
				always, never = s.boot(1), s.boot(2)
			}
			s.want(30*time.Second, "it is provisioned at this boot", func() bool {
				return provisioned(always, a) && counted(a, queue.CountProvisioned) == uint64(boot+2)
			})
			time.Sleep(30 * time.Second)
		}
		time.Sleep(2 * time.Minute)
		if wants, _ := never.target.Wants(); wants || never.target.Digest() != "" {
			t.Error("a machine that never wants it was provisioned")
		}
		if n := counted(a, queue.CountProvisioned); n != 4 {
			t.Errorf("%v runs were confirmed, want 4", n)
		}
	})
}

// TestSimWhoseRoleIsNotAppliedIsAskedToWait: a member that may lead by now, and that the machine it comes to still holds as a
// learner, is refused for now: the machine is tried again, and is not parked.
func TestSimWhoseRoleIsNotAppliedIsAskedToWait(t *testing.T) {
	simulate(t, 91, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		for verb, payload := range map[wire.Verb]any{wire.VerbQuery: struct{}{}, wire.VerbWork: wire.WorkRequest{Step: wire.StepInventory}} {
			err := b.callMember(context.Background(), a.id, verb, payload, nil)
			var refused *wire.Error
			if !errors.As(err, &refused) {
				t.Fatalf("%s of a learner: %v", verb, err)
			}
			at := slices.IndexFunc(provision.CallErrors, func(r provision.CallRow) bool { return r.Code == refused.Code })
			if at < 0 || !provision.CallErrors[at].Repeat || provision.CallErrors[at].Permanent {
				t.Errorf("%s of a learner is refused as %s, which is no refusal for now", verb, refused.Code)
			}
		}
	})
}
