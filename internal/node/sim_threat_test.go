package node

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netsim"
	"pace-node/internal/wire"
)

const (
	metricForged    = "pace_discovery_proofs_refused_forged_total"
	metricReplayed  = "pace_discovery_proofs_refused_replayed_total"
	metricExpired   = "pace_discovery_proofs_refused_expired_total"
	metricNotIssued = "pace_discovery_proofs_refused_not_issued_total"
	metricUnknown   = "pace_discovery_proofs_refused_unknown_key_total"
	metricRevoked   = "pace_discovery_proofs_refused_revoked_key_total"
	metricMalformed = "pace_discovery_datagrams_malformed_total"
	metricVersion   = "pace_discovery_datagrams_refused_version_total"
)

// attacked runs f against a fleet of two, with mallory beside it, and wants it to stand as it stood.
func attacked(t *testing.T, seed uint64, changes bool, f func(t *testing.T, s *sim, a, b *Node, m *mallory)) {
	simulate(t, seed, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		s.want(time.Minute, "the two have proven each other", func() bool {
			_, ok := lookup(a, b.id)
			_, ko := lookup(b, a.id)
			return ok && ko
		})
		m := s.mallory(9)
		before := s.standing(a) + s.standing(b)
		f(t, s, a, b, m)
		if after := s.standing(a) + s.standing(b); after != before && !changes {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
		if out := m.drawn(); out > m.in {
			t.Errorf("%d bytes drew %d bytes", m.in, out)
		}
	})
}

// TestSimThreats: the first table of the threat model, row by row, against whole nodes in virtual time.
func TestSimThreats(t *testing.T) {
	t.Run("Listen to the segment", func(t *testing.T) {
		attacked(t, 201, false, func(t *testing.T, s *sim, a, b *Node, m *mallory) {
			time.Sleep(2 * time.Minute)
			heard := m.overheard()
			if len(heard) < 10 {
				t.Fatalf("%d datagrams were heard", len(heard))
			}
			for _, f := range heard {
				for _, n := range s.nodes {
					if seed := n.key.Seed(); bytes.Contains(f.Bytes, seed[:]) {
						t.Error("a private key is on the segment")
					}
				}
			}
			// What was heard admits nobody, said again by its first sender or by another.
			proofs := map[int]float64{}
			late := 0.0
			for i := range s.nodes {
				_, answers := s.ports(i)
				s.counts(s.nodes[i], "a recording", map[string]float64{}, func() {
					for _, f := range heard {
						if kind, _, verdict := wire.ParseDatagram(f.Bytes); verdict == wire.VerdictOK && kind == wire.KindBeacon {
							m.send(netip.AddrPortFrom(m.addr, 5), f.To, f.Bytes)
						}
					}
				})
				before := s.all(s.nodes[i])
				for _, f := range heard {
					if kind, _, _ := wire.ParseDatagram(f.Bytes); kind == wire.KindProof {
						m.send(m.own(), answers, f.Bytes)
						m.send(f.From, answers, f.Bytes)
						proofs[i] += 2
					}
				}
				after := s.all(s.nodes[i])
				for _, name := range []string{metricNotIssued, metricReplayed, metricExpired} {
					late += after[name] - before[name]
				}
				if after["pace_discovery_proofs_verified_total"] != before["pace_discovery_proofs_verified_total"] {
					t.Error("a recorded proof verified")
				}
			}
			if late != proofs[0]+proofs[1] || late == 0 {
				t.Errorf("%v of %v recorded proofs are counted as refused", late, proofs)
			}
			if rows := s.waiting(a); len(rows) != 0 {
				t.Errorf("a recording has rows: %+v", rows)
			}
		})
	})

	t.Run("Send arbitrary datagrams", func(t *testing.T) {
		attacked(t, 202, false, func(t *testing.T, s *sim, a, _ *Node, m *mallory) {
			listens, answers := s.ports(0)
			// It provokes a challenge, and answers it under a key of its own: reported, never desired.
			stranger := m.sound(1)
			stranger.Cluster, stranger.State, stranger.Node = a.View().Cluster(), wire.StateEstablished, "mallory"
			s.counts(a, "a proof under a key of its own", map[string]float64{metricUnknown: 1}, func() {
				if !m.proves(m.key, 0, stranger) {
					t.Error("it is not challenged")
				}
			})
			lines := func(part string) (n int) {
				s.log.mu.Lock()
				defer s.log.mu.Unlock()
				for _, line := range s.log.lines {
					if strings.Contains(line, part) {
						n++
					}
				}
				return n
			}
			if n := lines(m.key.Public().String()); n != 1 {
				t.Errorf("its key is said %d times", n)
			}
			// A minute of other keys: each is counted, and the log has a line a minute.
			for i := range 30 {
				key := identity.NewPrivateKey([32]byte{'k', byte(i)})
				stranger.Node = fmt.Sprint("mallory-", i)
				s.counts(a, "another key", map[string]float64{metricUnknown: 1}, func() { m.proves(key, 0, stranger) })
				time.Sleep(2 * time.Second)
			}
			if n := lines("proof under a key that the roster does not hold"); n > 3 {
				t.Errorf("%d lines in a minute", n)
			}
			// Junk, each kind counted as what it is.
			small, _ := wire.EncodeChallenge("x", [32]byte{1}, 90)
			for _, c := range []struct {
				what    string
				to      netip.AddrPort
				b       []byte
				counted string
			}{
				{"nothing", listens, nil, metricMalformed},
				{"one byte", listens, []byte{wire.Magic}, metricMalformed},
				{"another magic", listens, append([]byte{0xFC}, claiming(wire.KindBeacon, 0)[1:]...), metricMalformed},
				{"another version", listens, append([]byte{wire.Magic, 2}, claiming(wire.KindBeacon, 0)[2:]...), metricVersion},
				{"another kind", listens, claiming(9, 0), metricMalformed},
				{"a claim of 4 GiB", listens, claiming(wire.KindBeacon, 1<<32-1), metricMalformed},
				{"a beacon without fields", listens, claiming(wire.KindBeacon, 0), metricMalformed},
				{"a challenge at the listener", listens, small, metricMalformed},
				{"a beacon at the answering socket", answers, wire.EncodeBeacon(raw(t, m.sound(2))), metricMalformed},
				{"noise", answers, bytes.Repeat([]byte{0xFD, 3, 3}, 400), metricMalformed},
			} {
				s.counts(a, c.what, map[string]float64{c.counted: 1}, func() { m.send(m.own(), c.to, c.b) })
			}
			s.counts(a, "a challenge smaller than its proof", map[string]float64{"pace_discovery_replies_withheld_total": 1}, func() { m.send(m.own(), answers, small) })
			if got := m.replies(); len(got) != 0 {
				t.Errorf("%d replies to it", len(got))
			}
			// A flood from addresses that are somebody else's: tables are bounded, what was displaced is counted, and an honest
			// machine is proven all the same.
			before := s.all(a)
			for i := range 4000 {
				from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 77, byte(100 + i/250), byte(i%250 + 1)}), 40000)
				m.in += len(wire.EncodeBeacon(raw(t, m.sound(10+i))))
				s.segment.Inject(netsim.Frame{From: from, To: listens, Bytes: wire.EncodeBeacon(raw(t, m.sound(10+i)))})
				if i%50 == 0 {
					time.Sleep(100 * time.Millisecond)
				}
			}
			c := s.boot(2)
			s.want(75*time.Second, "an honest machine asks", func() bool { return s.waits(a, c) })
			after := s.all(a)
			if after["pace_discovery_beacons_over_bound_total"]-before["pace_discovery_beacons_over_bound_total"] < 3000 {
				t.Errorf("%v displacements of 4000 beacons are counted", after["pace_discovery_beacons_over_bound_total"])
			}
			if n := after["pace_discovery_foreign_fleets"]; n > 16 {
				t.Errorf("%v fleets are remembered", n)
			}
		})
	})

	t.Run("Replay a captured proof", func(t *testing.T) {
		attacked(t, 203, false, func(t *testing.T, s *sim, a, _ *Node, m *mallory) {
			_, answers := s.ports(0)
			own := raw(t, m.sound(1))
			c, _ := m.challenged(m.own(), 0, own)
			proof := proofOf(m.key, c, own)
			elsewhere := netip.AddrPortFrom(addrOf(8), 4000)
			s.counts(a, "from another address", map[string]float64{metricNotIssued: 1}, func() { m.send(elsewhere, answers, proof) })
			s.counts(a, "the proof", nil, func() { m.send(m.own(), answers, proof) })
			s.counts(a, "again", map[string]float64{metricReplayed: 1}, func() { m.send(m.own(), answers, proof) })
			s.counts(a, "again from another port", map[string]float64{metricReplayed: 1}, func() { m.send(netip.AddrPortFrom(m.addr, 9), answers, proof) })
			s.counts(a, "at another machine", map[string]float64{}, func() {
				_, other := s.ports(1)
				s.counts(s.nodes[1], "of another's challenge", map[string]float64{metricNotIssued: 1}, func() { m.send(m.own(), other, proof) })
			})
			time.Sleep(31 * time.Second)
			s.counts(a, "late", map[string]float64{metricExpired: 1}, func() { m.send(m.own(), answers, proof) })
			// One that was never used, late.
			c, _ = m.challenged(m.own(), 0, raw(t, m.sound(2)))
			time.Sleep(31 * time.Second)
			s.counts(a, "a first proof, late", map[string]float64{metricExpired: 1}, func() { m.send(m.own(), answers, proofOf(m.key, c, raw(t, m.sound(2)))) })
		})
	})

	t.Run("Capture a proof and re-aim it at another endpoint", func(t *testing.T) {
		attacked(t, 204, false, func(t *testing.T, s *sim, a, b *Node, m *mallory) {
			// What birch proves of itself is captured on its way, and sent on with mallory's endpoint in it; the true one follows.
			_, answers := s.ports(0)
			var taken atomic.Bool
			proofs := make(chan netsim.Frame, 1)
			s.segment.Hostile(func(f netsim.Frame) []netsim.Frame {
				if kind, _, _ := wire.ParseDatagram(f.Bytes); kind == wire.KindProof && f.To == answers && taken.CompareAndSwap(false, true) {
					proofs <- f
					return nil
				}
				return []netsim.Frame{f}
			})
			s.want(2*time.Minute, "birch proves itself", func() bool { return len(proofs) > 0 })
			captured := <-proofs
			_, payload, _ := wire.ParseDatagram(captured.Bytes)
			p, err := wire.DecodeProof(payload)
			if err != nil {
				t.Fatal(err)
			}
			sum := p.Summary
			sum.OwnEndpoint, sum.RaftEndpoint = "10.77.0.10:6674", "10.77.0.10:6680"
			aimed := wire.EncodeProof(raw(t, &sum), p.Nonce, p.Key, p.Signature)
			where, _ := lookup(a, b.id)
			// The cookie binds what the beacon claimed, so that another endpoint was never asked to be proven.
			s.counts(a, "re-aimed", map[string]float64{metricNotIssued: 1}, func() { m.send(captured.From, answers, aimed) })
			// With the endpoint as it was, and another field changed: only the signature covers that.
			sum = p.Summary
			sum.Total++
			s.counts(a, "otherwise altered", map[string]float64{metricForged: 1}, func() {
				m.send(captured.From, answers, wire.EncodeProof(raw(t, &sum), p.Nonce, p.Key, p.Signature))
			})
			s.counts(a, "the true proof", nil, func() { m.send(captured.From, answers, captured.Bytes) })
			if got, ok := lookup(a, b.id); !ok || got != where {
				t.Errorf("birch is at %q, %v; it was at %q", got, ok, where)
			}
		})
	})

	t.Run("Claim a known member's id", func(t *testing.T) {
		attacked(t, 205, false, func(t *testing.T, s *sim, a, b *Node, m *mallory) {
			claim := m.sound(1)
			claim.Cluster, claim.State, claim.Node = a.View().Cluster(), wire.StateEstablished, b.id
			where, _ := lookup(a, b.id)
			s.counts(a, "a proof under its own key", map[string]float64{metricUnknown: 1}, func() {
				if !m.proves(m.key, 0, claim) {
					t.Error("it is not challenged")
				}
			})
			if got, ok := lookup(a, b.id); !ok || got != where {
				t.Errorf("birch is at %q, %v; it was at %q", got, ok, where)
			}
			// And to be admitted under that id it waits as what it is.
			if ans, code := m.enroll(m.key, m.addr, 0, b.id); code != 0 || ans.Outcome != wire.OutcomePending {
				t.Errorf("%s %s", code, ans.Outcome)
			}
			if rows := s.waiting(a); len(rows) != 1 || rows[0].Key != m.key.Public().String() {
				t.Errorf("rows %+v", rows)
			}
			s.must(s.arm(a, 600)) // which is no way in for it
			if _, ok := a.View().Member(b.id); !ok || a.View().Len() != 2 {
				t.Error("the roster has changed")
			}
			if rows := s.waiting(a); len(rows) != 1 {
				t.Errorf("the window decided it: %+v", s.rows(a))
			}
		})
	})

	t.Run("Obtain a shared cluster key", func(t *testing.T) {
		attacked(t, 206, false, func(t *testing.T, s *sim, a, b *Node, m *mallory) {
			// There is none: all that birch knows but its private key proves nothing, also not that of another member.
			claim := m.sound(1)
			claim.Cluster, claim.State, claim.Node, claim.OwnEndpoint, claim.RaftEndpoint = a.View().Cluster(), wire.StateEstablished, b.id, endpointOf(9), ""
			summary := raw(t, claim)
			for _, signer := range []identity.PrivateKey{m.key, a.key} {
				c, ok := m.challenged(m.own(), 0, summary)
				if !ok {
					t.Fatal("it is not challenged")
				}
				sig := signer.Sign(wire.DiscoveryProofMessage(c.Cluster, c.Nonce, summary, b.Key()))
				_, answers := s.ports(0)
				s.counts(a, "birch's key with another's signature", map[string]float64{metricForged: 1}, func() { m.send(m.own(), answers, wire.EncodeProof(summary, c.Nonce, b.Key(), sig)) })
			}
			files := s.files(0, 1)
			for name, one := range files[0] {
				if other, ok := files[1][name]; ok && bytes.Equal(one, other) && !strings.HasSuffix(name, "cluster") && name != "/node.lock" {
					t.Errorf("%s is the same file on two members", name)
				}
			}
		})
	})

	t.Run("Obtain one member's identity key", func(t *testing.T) {
		attacked(t, 207, true, func(t *testing.T, s *sim, a, b *Node, m *mallory) {
			s.expect = []string{"identity-cloned", "the identity may be cloned", "own-key-revoked"}
			c := s.boot(2)
			s.joined(a, c)
			stolen := b.key
			s.halt(1)
			moved := m.sound(1)
			moved.Cluster, moved.State, moved.Node, moved.RaftEndpoint = a.View().Cluster(), wire.StateEstablished, b.id, ""
			// Its address can be moved by a proof, and nothing else.
			before := a.View().Digest()
			s.counts(a, "a proof under the stolen key", nil, func() {
				if !m.proves(stolen, 0, moved) {
					t.Error("it is not challenged")
				}
			})
			if got, ok := lookup(a, b.id); !ok || got != endpointOf(9) {
				t.Errorf("birch is at %q, %v", got, ok)
			}
			if a.View().Digest() != before {
				t.Error("a proof changed the fleet's state")
			}
			// Until the key is revoked, for which nothing has to change on any other machine.
			s.must(s.cluster(a, forget(b)))
			if got, ok := lookup(a, b.id); ok {
				t.Errorf("after the revocation it is at %q", got)
			}
			time.Sleep(61 * time.Second)
			s.counts(a, "a proof under the revoked key", map[string]float64{metricRevoked: 1}, func() { m.proves(stolen, 0, moved) })
			if !follows(c, a) {
				t.Error("another member does not follow any more")
			}
			if ans, code := m.enroll(stolen, m.addr, 0, "another-id"); code != 0 || ans.Outcome != wire.OutcomeRevoked {
				t.Errorf("under another id it is told %s %s", code, ans.Outcome)
			}
		})
	})

	t.Run("Mint a fleet of its own on the segment", func(t *testing.T) {
		attacked(t, 208, false, func(t *testing.T, s *sim, a, _ *Node, _ *mallory) {
			// A whole node of mallory's: established, and older than every other.
			founded := time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC)
			minted := s.boot(5, func(c *Config) {
				c.Mint.Entropy, c.Mint.Now = c.Entropy, founded
			})
			s.must(s.arm(minted, 86400))
			s.want(time.Minute, "the established fleet says so", func() bool {
				detail, ok := condition(a, "foreign-fleet-visible")
				return ok && strings.Contains(detail, minted.View().Cluster())
			})
			// A solitary machine that hears it may ask to join it: that is trust on first use. A typed seed outranks it.
			c := s.boot(2)
			d := s.boot(3, seededBy(endpointOf(0)))
			s.want(time.Minute, "the one that is not told better joins it", func() bool { return follows(c, minted) })
			s.want(time.Minute, "the seeded one asks its seed", func() bool { return s.waits(a, d) })
			s.never(2*time.Minute, "the seeded one turned to it", func() bool { return !asks(d, a) })
			s.must(s.reject(a, d))
			s.halt(3)
		})
	})
}

// files are those in the state directories of machines.
func (s *sim) files(machines ...int) []map[string][]byte {
	out := make([]map[string][]byte, len(machines))
	for i, m := range machines {
		out[i] = s.tree(m)
	}
	return out
}

// TestSimImpostorsCreatedAtZero: machines that prove "established, created at 0" change no member's mind, raise one condition
// that names them, and win nobody who hears an honest established fleet: a creation time before any clock can be right counts
// as the newest.
func TestSimImpostorsCreatedAtZero(t *testing.T) {
	attacked(t, 211, false, func(t *testing.T, s *sim, a, b *Node, m *mallory) {
		for i := range 5 {
			key := identity.NewPrivateKey([32]byte{'0', byte(i)})
			imp := m.sound(100 + i)
			imp.State, imp.Created, imp.Members, imp.Total = wire.StateEstablished, 0, nil, 1_000_000
			imp.Leader.Key = key.Public()
			for n := range 2 {
				s.counts(s.nodes[n], "an impostor", nil, func() {
					if !m.proves(key, n, imp) {
						t.Error("it is not challenged")
					}
				})
			}
			detail, ok := condition(a, "foreign-fleet-visible")
			if !ok || !strings.Contains(detail, imp.Cluster) {
				t.Errorf("it is not named: %q", detail)
			}
		}
		impostor := s.boot(5, func(c *Config) { c.Mint.Entropy, c.Mint.Now = c.Entropy, time.Unix(0, 0) })
		s.must(s.arm(impostor, 86400))
		if impostor.View().Created() != 0 {
			t.Fatalf("created at %d", impostor.View().Created())
		}
		time.Sleep(10 * time.Second) // a beacon for a newcomer comes at most every two seconds
		c := s.boot(2)
		s.want(time.Minute, "a solitary machine asks the honest fleet", func() bool { return s.waits(a, c) })
		s.never(5*time.Minute, "it turned to the impostor", func() bool { return !asks(c, a) })
		if b.Mode() != formation.Learner || impostor.View().Len() != 1 {
			t.Error("the impostor has somebody")
		}
		s.must(s.reject(a, c))
		s.halt(2)
		s.want(11*time.Minute, "the condition goes when they have gone", func() bool {
			s.segment.Partition(func(x, y netip.Addr) bool { return x == addrOf(5) || y == addrOf(5) })
			_, ok := condition(a, "foreign-fleet-visible")
			return !ok
		})
	})
}

// TestSimMoreThanSixteenForeignFleets: proven foreign fleets beyond the bound displace each other, counted, and never the one
// that a machine asks; what a member shows is bounded too.
func TestSimMoreThanSixteenForeignFleets(t *testing.T) {
	attacked(t, 212, false, func(t *testing.T, s *sim, a, _ *Node, m *mallory) {
		c := s.boot(2)
		s.want(time.Minute, "a machine asks", func() bool { return s.waits(a, c) })
		var keys []identity.PrivateKey
		for i := range 48 {
			keys = append(keys, identity.NewPrivateKey([32]byte{'f', byte(i)}))
		}
		for _, at := range []int{0, 2} {
			before := s.all(s.nodes[at])
			proven := 0.0
			for i, key := range keys {
				f := m.sound(300 + i)
				f.State, f.Created, f.Leader.Key = wire.StateEstablished, uint64(time.Date(2026, 1, 2, 0, 0, i, 0, time.UTC).Unix()), key.Public()
				if m.proves(key, at, f) {
					proven++
				}
				time.Sleep(500 * time.Millisecond)
			}
			after := s.all(s.nodes[at])
			if got := after["pace_discovery_proofs_verified_total"] - before["pace_discovery_proofs_verified_total"]; got < proven || proven != 48 {
				t.Errorf("machine %d: %v challenged and %v proven of 48: a full table withholds no challenge", at, proven, got)
			}
			if n := after["pace_discovery_foreign_fleets"]; n != 16 {
				t.Errorf("machine %d remembers %v", at, n)
			}
			if got := after["pace_discovery_beacons_over_bound_total"] - before["pace_discovery_beacons_over_bound_total"]; got < 32 {
				t.Errorf("machine %d: %v displacements are counted", at, got)
			}
		}
		s.never(3*time.Minute, "it forgot whom it asks", func() bool { return !asks(c, a) || !s.waits(a, c) })
		detail, _ := condition(a, "foreign-fleet-visible")
		if len(detail) > 16<<10 {
			t.Errorf("the condition has %d bytes", len(detail))
		}
		s.must(s.reject(a, c))
		s.halt(2)
	})
}

// TestSimRelayedProofs: a proof that is relayed, so that it comes from the relay, proves nothing; one that is only carried
// on from its sender's own address is the sender's.
func TestSimRelayedProofs(t *testing.T) {
	attacked(t, 213, false, func(t *testing.T, s *sim, a, b *Node, m *mallory) {
		// mallory shows alder's summary to birch as its own, hands birch's challenge to alder, and alder's proof to birch.
		_, aAnswers := s.ports(0)
		_, bAnswers := s.ports(1)
		claim := m.sound(1)
		claim.Cluster, claim.State, claim.Node = a.View().Cluster(), wire.StateEstablished, a.id
		tried := 0
		for what, summary := range map[string][]byte{"with alder's own summary": raw(t, a.self.Load()), "with mallory's endpoint in it": raw(t, claim)} {
			c, ok := m.challenged(m.own(), 1, summary)
			if !ok {
				continue // alder is proven, so that its beacon from elsewhere draws nothing
			}
			tried++
			relayed, _ := wire.EncodeChallenge(c.Cluster, c.Nonce, wire.MaxDatagram)
			m.send(m.own(), aAnswers, relayed)
			replies := m.replies()
			if len(replies) != 1 {
				t.Fatalf("%s: alder answers with %d datagrams", what, len(replies))
			}
			_, payload, _ := wire.ParseDatagram(replies[0])
			p, err := wire.DecodeProof(payload)
			if err != nil || p.Summary.OwnEndpoint != endpointOf(0) {
				t.Fatalf("%s: %+v, %v", what, p, err)
			}
			before := s.all(s.nodes[1])
			m.send(m.own(), bAnswers, replies[0])
			after := s.all(s.nodes[1])
			if got := after[metricNotIssued] - before[metricNotIssued]; bytes.Equal(summary, raw(t, claim)) && got != 1 {
				t.Errorf("%s: %v are counted as never asked for", what, got)
			}
			if where, ok := lookup(b, a.id); !ok || where != endpointOf(0) {
				t.Errorf("%s: alder is at %q, %v", what, where, ok)
			}
		}
		if tried == 0 {
			t.Error("birch challenged nobody")
		}
	})
}

// TestSimAsksFromOneNetwork: asks from five hundred addresses of one IPv6 network are those of one source; the list is kept
// for others, and an honest machine gets in.
func TestSimAsksFromOneNetwork(t *testing.T) {
	attacked(t, 214, false, func(t *testing.T, s *sim, a, _ *Node, m *mallory) {
		waiting, full := 0, 0
		for i := range 500 {
			from := netip.AddrFrom16([16]byte{0xfd, 0, 0, 1, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, byte(i >> 8), byte(i)})
			key := identity.NewPrivateKey([32]byte{'6', byte(i), byte(i >> 8)})
			ans, code := m.enroll(key, from, 0, fmt.Sprintf("%064d", i))
			switch {
			case code == wire.CodeSourceFull:
				full++
			case code == 0 && ans.Outcome == wire.OutcomePending:
				waiting++
			default:
				t.Fatalf("ask %d: %s %s", i, code, ans.Outcome)
			}
		}
		if waiting != 4 || full != 496 || len(s.waiting(a)) != 4 {
			t.Errorf("%d wait, %d are refused, %d rows", waiting, full, len(s.waiting(a)))
		}
		if got := s.metric(a, `pace_enrollment_requests_refused_total{reason="source"}`); got != 496 {
			t.Errorf("%v are counted", got)
		}
		// Another network has its own four.
		other := netip.AddrFrom16([16]byte{0xfd, 0, 0, 1, 0, 0, 0, 1, 15: 1})
		if ans, code := m.enroll(m.key, other, 0, "another"); code != 0 || ans.Outcome != wire.OutcomePending {
			t.Errorf("another network is told %s %s", code, ans.Outcome)
		}
		c := s.boot(2)
		s.want(time.Minute, "an honest machine waits among them", func() bool { return s.waits(a, c) })
		s.halt(2)
		s.want(12*time.Minute, "the list is empty when nobody asks any more", func() bool { return len(s.waiting(a)) == 0 })
	})
}

// TestSimSquattedID: a stranger that asks under another's id first, and again and again, keeps it neither out nor from its
// decision.
func TestSimSquattedID(t *testing.T) {
	attacked(t, 215, true, func(t *testing.T, s *sim, a, _ *Node, m *mallory) {
		c := s.boot(2)
		s.want(time.Minute, "a machine waits", func() bool { return s.waits(a, c) })
		// The stranger squats it under a hundred keys, from as many addresses.
		for i := range 100 {
			key := identity.NewPrivateKey([32]byte{'s', byte(i)})
			m.enroll(key, netip.AddrFrom4([4]byte{10, 78, byte(i), 1}), 0, c.id)
		}
		rows := s.waiting(a)
		if len(rows) != 64 || !s.waits(a, c) {
			t.Errorf("%d rows, and its own is there: %v", len(rows), s.waits(a, c))
		}
		s.must(s.arm(a, 600))
		if a.View().Len() != 2 {
			t.Error("the window admitted one of two keys that ask under one id")
		}
		s.must(s.grant(a, c))
		s.want(time.Minute, "the person's word is taken", func() bool { return follows(c, a) })
		if m, ok := a.View().Member(c.id); !ok || m.Key != c.Key() || a.View().Len() != 3 {
			t.Errorf("%+v", m)
		}
	})
}
