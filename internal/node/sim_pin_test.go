package node

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netsim"
	"pace-node/internal/wire"
)

// pinned is --fleet-id.
func pinned(cluster string, keys ...identity.PublicKey) tweak {
	p := &formation.Pin{Cluster: cluster, Keys: keys}
	return func(c *Config) { c.Settings.FleetID = p.String() }
}

// TestSimPinThatDisagrees: a machine in a fleet that its pin does not admit starts and follows, says so, takes no work and
// wants none; with the right pin it is provisioned.
func TestSimPinThatDisagrees(t *testing.T) {
	for _, c := range []struct {
		name  string
		wrong func(a *Node) tweak
	}{
		{"another fleet", func(a *Node) tweak { return pinned(strings.Repeat("0", 31)+"1", a.Key()) }},
		{"another key", func(a *Node) tweak {
			return pinned(a.View().Cluster(), identity.NewPrivateKey([32]byte{7}).Public())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, 111, func(t *testing.T, s *sim) {
				s.expect = []string{"id=pin-disagrees"}
				a := s.boot(0)
				time.Sleep(2 * time.Second)
				b := s.boot(1)
				s.joined(a, b)
				s.halt(1)
				s.halt(0)
				a = s.boot(0, provisioning)
				b = s.boot(1, c.wrong(a))
				s.want(time.Minute, "it follows", func() bool { return follows(b, a) })
				if _, ok := condition(b, "pin-disagrees"); !ok {
					t.Error("it does not say that its pin disagrees")
				}
				q, err := b.Query(context.Background(), local)
				if err != nil || q.Wants || q.Why != pinDisagreesText {
					t.Errorf("it wants work: %+v, %v", q, err)
				}
				for _, step := range []string{wire.StepInventory, wire.StepRestart} {
					if _, err := b.Work(context.Background(), control.Peer{Key: a.Key()}, wire.WorkRequest{Step: step}); err == nil || !strings.Contains(err.Error(), "takes no work") {
						t.Errorf("%s: %v", step, err)
					}
				}
				time.Sleep(5 * time.Minute)
				if manifestOf(t, b) != "" || s.metric(a, `pace_provision_errors_total{stage="inventory"}`) != 0 {
					t.Error("it was provisioned, or tried in vain")
				}
				s.halt(1)
				b = s.boot(1, pinned(a.View().Cluster(), a.Key()))
				s.want(time.Minute, "with the right pin it is provisioned", func() bool { return follows(b, a) && provisioned(b, a) })
				if _, ok := condition(b, "pin-disagrees"); ok {
					t.Error("the right pin disagrees")
				}
			})
		})
	}
}

// TestSimPinKeepsFromEveryOther: a pinned machine among older fleets and an established one stays until its own comes, says
// whom it saw, and then asks that one, though it is the youngest of all.
func TestSimPinKeepsFromEveryOther(t *testing.T) {
	simulate(t, 112, func(t *testing.T, s *sim) {
		own := s.boot(0)
		cluster, key := own.View().Cluster(), own.Key()
		s.halt(0)
		older := s.boot(1)
		s.must(s.cluster(older, wire.ClusterRequest{Op: "set", Name: "enrollment.per-source", Value: "5"}))
		time.Sleep(2 * time.Second)
		p := s.boot(2, pinned(cluster, key))
		s.want(20*time.Second, "it says whom it saw", func() bool {
			said, ok := condition(p, "foreign-fleet-visible")
			return ok && strings.Contains(said, older.View().Cluster()) && strings.Contains(said, "is not the one of --fleet-id")
		})
		s.never(5*time.Minute, "it asked another fleet", func() bool { return p.Mode() != formation.Solitary })
		if s.metric(p, "pace_formation_pin_refusals_total") == 0 {
			t.Error("not counted")
		}
		own = s.boot(0, pinned(cluster, key)) // its founder is pinned to itself, and stays too
		s.want(30*time.Second, "it asks its own", func() bool { return asks(p, own) })
		s.joined(own, p)
	})
}

// TestSimPoweredOnTogetherPinned: machines that are pinned to one of them end at that one, whatever the ages, while others
// are powered on beside them.
func TestSimPoweredOnTogetherPinned(t *testing.T) {
	simulate(t, 113, func(t *testing.T, s *sim) {
		s.segment.Set(netsim.Knobs{Loss: 0.2, MaxDelay: 5 * time.Millisecond})
		s.boot(9) // the oldest, whom the unpinned ask
		time.Sleep(2 * time.Second)
		founder := s.boot(0)
		pin := pinned(founder.View().Cluster(), founder.Key())
		s.halt(0)
		for i := 1; i < 6; i++ {
			s.boot(i, pin)
		}
		s.boot(6)
		founder = s.boot(0, pin)
		s.must(s.arm(founder, 3600))
		s.want(3*time.Minute, "the pinned end at the one of their pin", func() bool {
			for i := 1; i < 6; i++ {
				if !follows(s.nodes[i], founder) {
					return false
				}
			}
			return asks(s.nodes[6], s.nodes[9]) || asks(s.nodes[6], founder) || follows(s.nodes[6], founder)
		})
	})
}

// TestSimPinByALearnersWord: a pinned machine that hears only a learner of its fleet, whose key is not pinned, asks the
// leader that the learner names; the learner is no impostor, and what it says of itself is not believed.
func TestSimPinByALearnersWord(t *testing.T) {
	simulate(t, 110, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		s.deaf(between(0, 2)) // the leader is not heard
		c := s.boot(2, pinned(a.View().Cluster(), a.Key()))
		s.want(20*time.Second, "it asks the leader", func() bool { return asks(c, a) })
		if keys := owns(c).Target.Keys; len(keys) != 1 || keys[0] != a.Key() {
			t.Errorf("answers count by %v", keys)
		}
		if _, ok := condition(c, "foreign-fleet-visible"); ok {
			t.Error("the fleet's own learner is an impostor")
		}
		s.joined(a, c)
		if _, ok := condition(c, "pin-disagrees"); ok {
			t.Error("it is in the fleet of its pin")
		}
		// The pin that is printed is the one to paste, on each of its machines.
		for _, n := range s.nodes {
			text := n.pinToPaste().String()
			p, err := formation.ParsePin(text)
			if err != nil || p.String() != text || p.Cluster != a.View().Cluster() || !slices.Equal(p.Keys, []identity.PublicKey{a.Key()}) {
				t.Errorf("%s prints %q: %v", n.name, text, err)
			}
		}
	})
}

// TestSimForeignIsNotClearAtOnce: before one beacon period nobody says that no foreign fleet is visible.
func TestSimForeignIsNotClearAtOnce(t *testing.T) {
	simulate(t, 115, func(t *testing.T, s *sim) {
		a := s.boot(0)
		clear := func() bool {
			raw, err := a.nodeStatus(context.Background())
			s.must(err)
			var doc control.NodeStatus
			s.must(json.Unmarshal(raw, &doc))
			return doc.Peers.ForeignClear
		}
		s.never(formation.ForeignQuiet-time.Second, "it says so already", clear)
		s.want(2*time.Second, "it says so", clear)
	})
}
