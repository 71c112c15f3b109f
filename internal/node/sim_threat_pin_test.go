package node

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// The second table of the threat model over the simulated segment: what an attacker can do to a machine that joins its first
// fleet, unpinned and pinned. Each row is a test under its own words; TestThreatPin has the same over real sockets.

// older is a founding time before everybody else's.
var older = time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC)

// posing mints a machine whose own fleet has another fleet's id, and is older.
func posing(cluster string) tweak {
	return func(c *Config) {
		draws, entropy := 0, c.Entropy
		c.Mint.Now = older
		c.Mint.Entropy = func(b []byte) {
			if entropy(b); len(b) == 16 { // the machine's id, then its fleet's
				if draws++; draws == 2 {
					hex.Decode(b, []byte(cluster))
				}
			}
		}
	}
}

func atAddress(i int) tweak {
	return func(c *Config) { c.Network = &simNet{s: c.Network.(*simNet).s, addr: addrOf(i)} }
}

// founded is a fleet of one that is pinned to itself, so that no older fleet draws it away.
func (s *sim) founded(i int) (*Node, tweak) {
	s.t.Helper()
	a := s.boot(i)
	pin := pinned(a.View().Cluster(), a.Key())
	s.halt(i)
	time.Sleep(2 * time.Second) // whoever comes next is younger
	return s.boot(i, pin), pin
}

// refuses waits until n has refused a way in and names whom it saw.
func (s *sim) refuses(n *Node, words ...string) {
	s.t.Helper()
	s.want(2*time.Minute, "it names whom it refused", func() bool {
		detail, ok := condition(n, "foreign-fleet-visible")
		for _, w := range words {
			ok = ok && strings.Contains(detail, w)
		}
		return ok && s.metric(n, "pace_formation_pin_refusals_total") > 0
	})
}

func TestSimThreatPin(t *testing.T) {
	t.Run("Mint a fleet and prove it older", func(t *testing.T) {
		simulate(t, 241, func(t *testing.T, s *sim) {
			minted := s.boot(5, func(c *Config) { c.Mint.Entropy, c.Mint.Now = c.Entropy, older })
			s.must(s.arm(minted, 86400))
			a, pin := s.founded(0)
			u := s.boot(1)
			s.want(time.Minute, "the unpinned joins it", func() bool { return follows(u, minted) })
			s.refuses(a, minted.View().Cluster())
			s.halt(0)
			p := s.boot(2, pin)
			s.refuses(p, minted.View().Cluster())
			s.never(2*time.Minute, "it asked the minted fleet", func() bool { return p.Mode() != formation.Solitary })
			a = s.boot(0)
			s.joined(a, p)
		})
	})
	t.Run("Claim the pinned fleet's id under its own key, by beacon or as a seed", func(t *testing.T) {
		simulate(t, 242, func(t *testing.T, s *sim) {
			s.expect = []string{"id=fleet-unreachable"}
			a, pin := s.founded(0)
			cluster := a.View().Cluster()
			s.halt(0)
			impostor := s.boot(5, posing(cluster))
			s.must(s.arm(impostor, 86400))
			if impostor.View().Cluster() != cluster || impostor.Key() == a.Key() {
				t.Fatal("it poses as nobody")
			}
			u := s.boot(1)
			s.want(time.Minute, "the unpinned joins it", func() bool { return follows(u, impostor) })
			p := s.boot(2, pin)
			s.refuses(p, cluster, impostor.Key().String())
			s.deaf(between(3))
			q := s.boot(3, pin, seededBy(endpointOf(5)))
			s.refuses(q, cluster, impostor.Key().String())
			s.never(2*time.Minute, "one of them asked it", func() bool { return p.Mode() != formation.Solitary || q.Mode() != formation.Solitary })
			if len(s.rows(impostor)) > 1 {
				t.Errorf("its list: %+v", s.rows(impostor))
			}
			a = s.boot(0)
			s.joined(a, p)
		})
	})
	t.Run("Answer the node's Enroll, or redirect it to a leader of its choosing", func(t *testing.T) {
		for name, isPinned := range map[string]bool{"answers, unpinned": false, "answers, pinned": true} {
			t.Run(name, func(t *testing.T) {
				simulate(t, 243, func(t *testing.T, s *sim) {
					a, pin := s.founded(0)
					cluster := a.View().Cluster()
					var tweaks []tweak
					if isPinned {
						tweaks = []tweak{pin}
					}
					p := s.boot(1, tweaks...)
					s.want(time.Minute, "it waits", func() bool { return s.waits(a, p) })
					s.halt(0)
					s.deaf(between(0))
					impostor := s.boot(5, posing(cluster), atAddress(0)) // where the leader was
					s.must(s.arm(impostor, 86400))
					if !isPinned {
						s.want(2*time.Minute, "its approval is taken", func() bool { return follows(p, impostor) })
						return
					}
					s.refuses(p, impostor.Key().String())
					s.never(5*time.Minute, "its approval is taken", func() bool { return p.Mode() == formation.Learner || len(s.rows(impostor)) > 0 })
				})
			})
		}
		for name, isPinned := range map[string]bool{"redirects, unpinned": false, "redirects, pinned": true} {
			t.Run(name, func(t *testing.T) {
				simulate(t, 244, func(t *testing.T, s *sim) {
					chosen := s.boot(5)
					time.Sleep(2 * time.Second)
					first := s.boot(0)
					s.joined(chosen, first)
					s.deaf(between(5)) // whoever is led there is not heard
					var tweaks []tweak
					if isPinned {
						tweaks = []tweak{pinned(chosen.View().Cluster(), first.Key())}
					}
					p := s.boot(1, tweaks...)
					if !isPinned {
						s.want(time.Minute, "it asks whom it is sent to", func() bool { return s.waits(chosen, p) })
						return
					}
					s.refuses(p, chosen.Key().String())
					s.never(5*time.Minute, "the one whose key is not pinned was asked", func() bool { return s.waits(chosen, p) || p.Mode() == formation.Learner })
				})
			})
		}
	})
	t.Run("Hold a pinned voter's identity key", func(t *testing.T) {
		simulate(t, 245, func(t *testing.T, s *sim) {
			a, pin := s.founded(0)
			cluster, stolen := a.View().Cluster(), a.Key()
			s.halt(0)
			s.copyDir(s.dirOf(0), s.dirOf(5))
			thief := s.boot(5)
			s.must(s.arm(thief, 86400))
			p := s.boot(1, pin)
			s.want(time.Minute, "who is pinned to the key joins whoever holds it", func() bool { return follows(p, thief) })
			q := s.boot(2, pinned(cluster, identity.NewPrivateKey([32]byte{8}).Public()))
			s.refuses(q, stolen.String())
			s.never(2*time.Minute, "pinned anew it asked", func() bool { return q.Mode() != formation.Solitary })
		})
	})
	t.Run("Capture the fleet's quorum after the node joined", func(t *testing.T) {
		simulate(t, 246, func(t *testing.T, s *sim) {
			s.expect = []string{"id=own-key-revoked"}
			a, pin := s.founded(0)
			p := s.boot(1, pin)
			s.joined(a, p)
			b := s.boot(2, provisioning)
			s.joined(a, b)
			s.promote(a, b)
			s.must(s.asked(s.led(a, b), forget(a)))
			s.want(time.Minute, "the pinned voter is forgotten", func() bool { return a.Mode() == formation.Solitary })
			b = s.led(b)
			s.must(s.asked(b, wire.ClusterRequest{Op: "set", Name: "enrollment.per-source", Value: "7"})) // again, where it is just being elected
			s.want(2*time.Minute, "it follows, and takes work", func() bool { return follows(p, b) && provisioned(p, b) })
			s.halt(1)
			p = s.boot(1)
			s.want(time.Minute, "it follows after a start", func() bool { return follows(p, b) })
			if _, ok := condition(p, "pin-disagrees"); ok {
				t.Error("its pin disagrees")
			}
			if v, ok := p.View().Setting("enrollment.per-source"); !ok || v != "7" {
				t.Errorf("it shows %q", v)
			}
		})
	})
}
