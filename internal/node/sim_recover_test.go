package node

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

func recoverRequest(n *Node) wire.ClusterRequest {
	return wire.ClusterRequest{Op: "recover", ID: n.View().Cluster()}
}

// TestSimRecoverByALearner: a fleet whose only voter is lost is led by a learner, with everything that it had applied.
func TestSimRecoverByALearner(t *testing.T) {
	simulate(t, 311, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent", "id=own-key-revoked", "id=fleet-recovered-elsewhere"}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b, c, d := s.boot(1), s.boot(2), s.boot(3)
		for _, n := range []*Node{b, c, d} {
			s.joined(a, n)
		}
		s.must(s.cluster(a, forget(d)))
		s.must(s.cluster(a, wire.ClusterRequest{Op: "set", Name: "enrollment.per-source", Value: "9"}))
		s.want(time.Second, "both follow", func() bool { return follows(b, a) && follows(c, a) })
		fleet, revision := a.View().Cluster(), a.View().Revision()

		_, err := typed(b, recoverRequest(b))
		s.refusedWith(err, "has a leader", a.id)
		_, err = typed(a, recoverRequest(a))
		s.refusedWith(err, "leads the fleet")
		s.want(10*time.Second, "the forgotten one is a fleet of its own, and says so", func() bool {
			_, err := typed(d, recoverRequest(d))
			return err != nil && strings.Contains(err.Error(), "fleet of its own")
		})

		s.halt(0)
		time.Sleep(5 * time.Second)
		_, err = typed(b, recoverRequest(b))
		s.refusedWith(err, "recovering would make two fleets of one")
		time.Sleep(15 * time.Second)
		_, err = typed(b, wire.ClusterRequest{Op: "recover", ID: strings.Repeat("0", 32)})
		s.refusedWith(err, "given back", fleet)
		p, err := b.recoveryPreview(t.Context())
		s.must(err)
		if p.Epoch != 1 || p.Cluster != fleet || p.Members != 3 || len(p.Voters) != 1 || p.Voters[0].Machine.ID != a.id || len(p.Lost) != 3 {
			t.Errorf("the preview is %+v", p)
		}
		said, err := typed(b, recoverRequest(b))
		s.must(err)
		v := b.View()
		if b.Mode() != formation.Voter || !b.body.leads() || v.Cluster() != fleet || v.Epoch() != 1 || v.Revision() <= revision || !strings.Contains(said, "pacectl fleet accept "+b.Key().String()) {
			t.Errorf("%q; it is %s of %s in epoch %d at %d", said, b.Mode(), v.Cluster(), v.Epoch(), v.Revision())
		}
		if ids := v.Voters(); len(ids) != 1 || ids[0].ID != b.id || v.Len() != 3 {
			t.Errorf("its voters are %+v of %d members", ids, v.Len())
		}
		if _, revoked := v.Revoked(d.Key()); !revoked {
			t.Error("a forgotten machine's key is good again")
		}
		if value, _ := v.Setting("enrollment.per-source"); value != "9" {
			t.Errorf("the setting is %q", value)
		}
		if got := archives(t, b); len(got) != 2 { // of its own fleet of one, and of what it followed
			t.Errorf("archived are %q", got)
		}
		s.want(time.Second, "the record is clean", func() bool { return b.dir.Record().Recovery == nil })

		// It is a fleet like any other: it starts again, admits, and is written to.
		s.halt(1)
		b = s.boot(1)
		if v := b.View(); v.Epoch() != 1 || b.Mode() != formation.Voter {
			t.Errorf("started again it is %s in epoch %d", b.Mode(), v.Epoch())
		}
		s.must(s.cluster(b, wire.ClusterRequest{Op: "set", Name: "enrollment.per-source", Value: "11"}))
		e := s.boot(4)
		s.joined(b, e)
		if e.View().Epoch() != 1 || e.ownHello().Epoch != 1 {
			t.Errorf("who joined it is in epoch %d", e.View().Epoch())
		}
		s.halt(4)
		e = s.boot(4)
		s.want(time.Minute, "it follows again", func() bool { return follows(e, b) })
	})
}

// archives are the stores that a machine has put away, as <folder>/<store>.
func archives(t *testing.T, n *Node) []string {
	t.Helper()
	got, err := filepath.Glob(filepath.Join(n.dir.Path(), "archive", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(got, func(p string) bool { return filepath.Base(p) == "archived.json" })
}

func acceptRequest(n *Node) wire.ClusterRequest {
	return wire.ClusterRequest{Op: "accept", Key: n.Key().String()}
}

// recovered is a fleet of a founder and learners, of which machine 1 has recovered it while the founder was away.
func (s *sim) recovered(learners int) (old, fresh *Node, others []*Node) {
	s.t.Helper()
	s.expect = append(s.expect, "id=consensus-leader-silent", "id=fleet-recovered-elsewhere")
	a := s.boot(0)
	time.Sleep(2 * time.Second)
	for i := range learners {
		s.joined(a, s.boot(i+1))
	}
	b := s.nodes[1]
	s.halt(0)
	time.Sleep(16 * time.Second)
	_, err := typed(b, recoverRequest(b))
	s.must(err)
	return a, b, s.nodes[2:]
}

func told(n *Node) bool { _, ok := condition(n, "fleet-recovered-elsewhere"); return ok }

// TestSimAccept: whoever hears of the recovery says so and changes nothing, until an operator accepts it there; the old
// voter that comes back does the same, and becomes a learner.
func TestSimAccept(t *testing.T) {
	simulate(t, 312, func(t *testing.T, s *sim) {
		_, b, others := s.recovered(3)
		c, d := others[0], others[1]
		s.want(time.Minute, "the learners are told", func() bool { return told(c) && told(d) })
		if detail, _ := condition(c, "fleet-recovered-elsewhere"); !strings.Contains(detail, b.Key().String()) || !strings.Contains(detail, "epoch 1") {
			t.Errorf("it is told %q", detail)
		}
		if p, err := c.recoveryPreview(t.Context()); err != nil || len(p.Lost) != 4 || !strings.Contains(p.Lost[0], "pacectl fleet accept "+b.Key().String()) {
			t.Errorf("who would recover it once more is told %+v (%v)", p.Lost, err)
		}
		a := s.boot(0)
		s.want(time.Minute, "the old voter is told", func() bool { return told(a) })
		s.want(2*time.Minute, "the learners follow the old voter again, which is in their epoch", func() bool { return follows(c, a) && follows(d, a) })
		for _, n := range []*Node{a, c, d} {
			if n.View().Epoch() != 0 {
				t.Errorf("%s is in epoch %d unasked", n.name, n.View().Epoch())
			}
		}
		said, err := typed(c, acceptRequest(b))
		s.must(err)
		if !strings.Contains(said, "epoch 1") {
			t.Errorf("%q", said)
		}
		s.want(time.Minute, "it follows the machine that recovered", func() bool { return follows(c, b) && !told(c) })
		if got := archives(t, c); len(got) != 2 {
			t.Errorf("archived are %q", got)
		}
		_, err = typed(a, acceptRequest(b))
		s.must(err)
		s.want(time.Minute, "the old voter is a learner", func() bool { return follows(a, b) && !told(a) && a.Mode() == formation.Learner })
		_, err = typed(d, acceptRequest(b))
		s.must(err)
		s.want(time.Minute, "all are one fleet", func() bool { return s.oneFleet(b) })
		for _, n := range []*Node{a, c, d} {
			s.want(time.Minute, n.name+" has the same state", func() bool { return n.View().Digest() == b.View().Digest() })
			if rec := n.dir.Record(); rec.PutAway || rec.Joined.Signer != b.Key().String() {
				t.Errorf("the record of %s is %+v", n.name, rec)
			}
		}
		// All of it outlives a restart.
		for i := range s.nodes {
			s.halt(i)
			s.boot(i)
		}
		s.want(2*time.Minute, "all are one fleet again", func() bool { return s.oneFleet(s.nodes[1]) })
	})
}

// TestSimAcceptRefused: what is no later epoch of this fleet, led by the machine of that key, is not accepted.
func TestSimAcceptRefused(t *testing.T) {
	simulate(t, 313, func(t *testing.T, s *sim) {
		_, b, others := s.recovered(3)
		c, d := others[0], others[1]
		accept := func(n, whom *Node, at string, words ...string) {
			t.Helper()
			r := acceptRequest(whom)
			r.Endpoint = at
			_, err := typed(n, r)
			s.refusedWith(err, words...)
		}
		accept(c, c, "", "own key")
		accept(c, d, "", "epoch 0", "nothing to accept")
		accept(b, c, "", "older one accepts the newer", "type pacectl fleet accept there")
		_, err := typed(c, wire.ClusterRequest{Op: "accept", Key: "x"})
		s.refusedWith(err, "key")
		stranger := s.boot(9)
		accept(c, stranger, "", "not known here", "HOST:6674")
		accept(c, stranger, endpointOf(9), "is in fleet", stranger.View().Cluster())
		accept(stranger, b, "", "fleet of its own")
		// Whoever the recovered fleet does not hold asks to join again.
		s.must(s.cluster(b, forget(d)))
		accept(d, b, "", "revoked", "--reset-identity")
		if c.View().Epoch() != 0 || d.View().Epoch() != 0 || c.Mode() != formation.Learner || d.Mode() != formation.Learner {
			t.Error("a refusal changed something")
		}
		_, err = typed(c, acceptRequest(b))
		s.must(err)
		accept(c, b, "", "nothing to accept")
	})
}

// TestSimForgottenElsewhere: what a voter of another recovery epoch says of this machine is not obeyed.
func TestSimForgottenElsewhere(t *testing.T) {
	simulate(t, 314, func(t *testing.T, s *sim) {
		_, b, others := s.recovered(2)
		c := others[0]
		s.must(s.cluster(b, forget(c)))
		s.never(10*time.Minute, "it took another epoch's word", func() bool { return c.Mode() != formation.Learner })
		a := s.boot(0)
		s.want(2*time.Minute, "it follows its own voter", func() bool { return follows(c, a) })
		s.must(s.cluster(a, forget(b)))
		s.want(time.Minute, "where nobody meant it, forgetting ends it", func() bool { return !told(a) && !told(c) })
		s.never(5*time.Minute, "it comes again", func() bool { return told(a) || told(c) })
	})
}

// TestSimAcceptWithAPin: a pin is asked of the key that is accepted.
func TestSimAcceptWithAPin(t *testing.T) {
	simulate(t, 315, func(t *testing.T, s *sim) {
		a, b, _ := s.recovered(2)
		s.halt(2)
		pin := formation.Pin{Cluster: b.View().Cluster(), Keys: []identity.PublicKey{a.Key()}}
		c := s.boot(2, func(c *Config) { c.Settings.FleetID = pin.String() })
		_, err := typed(c, acceptRequest(b))
		s.refusedWith(err, "--fleet-id", b.Key().String())
		if got := s.metric(c, "pace_formation_pin_refusals_total"); got != 1 {
			t.Errorf("%v refusals of the pin are counted", got)
		}
		s.halt(2)
		pin.Keys = append(pin.Keys, b.Key())
		c = s.boot(2, func(c *Config) { c.Settings.FleetID = pin.String() })
		_, err = typed(c, acceptRequest(b))
		s.must(err)
		s.halt(2)
		c = s.boot(2)
		s.want(time.Minute, "it follows", func() bool { return follows(c, b) })
		if _, ok := condition(c, "pin-disagrees"); ok {
			t.Error("the pin disagrees with what it admitted")
		}
	})
}

// TestSimRecoverByAVoter: two of three voters are destroyed (field case P28); a verb that needs them ends in time with the
// way out, the third recovers the fleet with everything in it, and a destroyed one that returns after all is refused.
func TestSimRecoverByAVoter(t *testing.T) {
	simulate(t, 316, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent", "id=fleet-recovered-elsewhere", "id=own-key-revoked"}
		a := s.voters(3)
		d, e := s.boot(3), s.boot(4)
		s.joined(a, d)
		s.joined(a, e)
		s.must(s.cluster(a, forget(e)))
		s.must(s.write(a, "9"))
		s.want(time.Second, "all have it", func() bool {
			return s.nodes[1].View().Revision() == a.View().Revision() && s.nodes[2].View().Revision() == a.View().Revision()
		})
		c, audit := s.nodes[2], len(a.View().Audit())
		fleetID := a.View().Cluster()
		_, err := typed(c, recoverRequest(c))
		s.refusedWith(err, "has a leader")
		s.halt(0)
		s.halt(1)
		began := time.Now()
		err = s.cluster(c, wire.ClusterRequest{Op: "forget", ID: a.id})
		if err == nil || time.Since(began) > 31*time.Second {
			t.Errorf("a verb without a quorum: %v after %s", err, time.Since(began))
		}
		time.Sleep(20 * time.Second)
		_, err = typed(c, recoverRequest(c))
		s.must(err)
		v := c.View()
		_, revoked := v.Revoked(e.Key())
		if !c.body.leads() || v.Cluster() != fleetID || v.Epoch() != 1 || v.Len() != 4 || len(v.Voters()) != 1 || !revoked || len(v.Audit()) <= audit {
			t.Errorf("recovered: leads %v, epoch %d, %d members, %d voters, audit %d after %d, revoked %v", c.body.leads(), v.Epoch(), v.Len(), len(v.Voters()), len(v.Audit()), audit, revoked)
		}
		s.must(s.write(c, "10"))
		_, err = typed(d, acceptRequest(c))
		s.must(err)
		s.want(time.Minute, "the learner follows", func() bool { return follows(d, c) })

		// The destroyed ones return: they are a quorum of the old epoch, and nobody obeys them.
		x := s.boot(5)
		s.joined(c, x)
		a, b := s.boot(0), s.boot(1)
		s.want(time.Minute, "they hear of the recovery", func() bool { return told(a) && told(b) })
		s.never(2*time.Minute, "something of theirs came through", func() bool {
			return c.View().Epoch() != 1 || len(c.View().Voters()) != 1 || d.View().Epoch() != 1 || d.leader().id != c.id
		})
		for _, n := range []*Node{a, b} {
			_, err = typed(n, acceptRequest(c))
			s.must(err)
			s.want(time.Minute, "it is a learner of the recovered fleet", func() bool { return follows(n, c) && n.Mode() == formation.Learner })
		}
		s.must(s.cluster(c, forget(x))) // what is forgotten in the new epoch is forgotten by all of it
		s.want(10*time.Second, "all know", func() bool { _, ok := a.View().Revoked(x.Key()); return ok })
		// And may vote again, in the new epoch, over a store of its own.
		s.must(s.cluster(c, wire.ClusterRequest{Op: "admit", ID: a.id, Endpoint: raftEndpointOf(0)}))
		s.want(time.Minute, "it is a voter again", func() bool { return seats(c, a) })
		s.must(s.write(c, "11"))
		s.want(10*time.Second, "both have it", func() bool { return a.View().Revision() == c.View().Revision() && a.View().Epoch() == 1 })
	})
}

// TestSimVoterForgottenElsewhere: a voter that another epoch has forgotten is told of the recovery by a machine that says that
// its key is revoked, and stays in its own fleet.
func TestSimVoterForgottenElsewhere(t *testing.T) {
	simulate(t, 318, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent", "id=fleet-recovered-elsewhere"}
		s.voters(2)
		b := s.nodes[1]
		s.halt(0)
		time.Sleep(20 * time.Second)
		_, err := typed(b, recoverRequest(b))
		s.must(err)
		s.must(s.cluster(b, wire.ClusterRequest{Op: "forget", ID: func() string {
			for m := range b.View().Members() {
				if m.ID != b.id {
					return m.ID
				}
			}
			return ""
		}()}))
		a := s.boot(0)
		s.want(time.Minute, "it hears of the recovery", func() bool { return told(a) })
		s.never(5*time.Minute, "it took another epoch's word", func() bool { return a.Mode() != formation.Voter })
		_, err = typed(a, acceptRequest(b))
		s.refusedWith(err, "revoked", "--reset-identity")
		said, err := typed(a, wire.ClusterRequest{Op: "leave", Force: true})
		s.must(err)
		if a.Mode() != formation.Solitary {
			t.Errorf("%q, and it is %s", said, a.Mode())
		}
	})
}

// TestSimRecoverTwice: each recovery begins an epoch of its own, whoever makes it.
func TestSimRecoverTwice(t *testing.T) {
	simulate(t, 317, func(t *testing.T, s *sim) {
		_, b, others := s.recovered(3)
		c, d := others[0], others[1]
		for _, n := range []*Node{c, d} {
			_, err := typed(n, acceptRequest(b))
			s.must(err)
		}
		s.want(time.Minute, "both follow", func() bool { return follows(c, b) && follows(d, b) })
		s.halt(1)
		time.Sleep(16 * time.Second)
		_, err := typed(c, recoverRequest(c))
		s.must(err)
		if c.View().Epoch() != 2 {
			t.Errorf("it is in epoch %d", c.View().Epoch())
		}
		_, err = typed(d, acceptRequest(c))
		s.must(err)
		b = s.boot(1)
		s.want(2*time.Minute, "the first one hears of the second", func() bool { return told(b) })
		_, err = typed(b, acceptRequest(c))
		s.must(err)
		s.want(time.Minute, "all follow", func() bool { return follows(b, c) && follows(d, c) })
		// Recovered again by the machine that recovered first: its archived stores stay where they are.
		s.halt(2)
		time.Sleep(16 * time.Second)
		_, err = typed(b, recoverRequest(b))
		s.must(err)
		if b.View().Epoch() != 3 || !b.body.leads() {
			t.Errorf("it is in epoch %d", b.View().Epoch())
		}
	})
}
