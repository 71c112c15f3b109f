package node

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

// Attacks beyond the rows of the threat model's tables, over the simulated segment.

// TestSimReplaysOfAnEarlierHour: everything that was on the segment an hour ago, when a machine joined and another went, is said
// again, by its first senders and by another: to those who are there, and to one that has started anew. No proof verifies, nobody is
// where it was then, and the fleet is what it is now.
func TestSimReplaysOfAnEarlierHour(t *testing.T) {
	attacked(t, 216, true, func(t *testing.T, s *sim, a, b *Node, m *mallory) {
		c := s.boot(2)
		s.joined(a, c)
		time.Sleep(2 * time.Minute)
		heard := m.overheard()
		s.must(s.cluster(a, forget(c)))
		s.expect = append(s.expect, "id=own-key-revoked")
		s.want(time.Minute, "it is alone", func() bool { return c.Mode() == formation.Solitary })
		s.halt(2)
		s.halt(1)
		b = s.boot(1, s.elsewhere(1)) // it has another address since
		s.want(2*time.Minute, "it follows from there", func() bool { return follows(b, a) })
		time.Sleep(time.Hour)
		s.halt(0)
		a = s.boot(0)
		s.want(time.Minute, "the two are proven", func() bool { return provenAt(a, b, "10.77.100.2:6674") && provenAt(b, a, endpointOf(0)) })
		before := s.standing(a)
		for i, n := range s.nodes[:2] {
			listens, answers := s.ports(i)
			was := s.all(n)
			proofs := 0.0
			for _, f := range heard {
				kind, _, verdict := wire.ParseDatagram(f.Bytes)
				if verdict != wire.VerdictOK {
					t.Fatal("the segment carried what is no datagram")
				}
				to := answers
				if kind == wire.KindBeacon {
					to = listens
				}
				for _, from := range []netip.AddrPort{f.From, m.own()} {
					if from.Addr() == addrOf(i) && i == 0 {
						continue // no system takes a datagram from itself off its network
					}
					m.send(from, to, f.Bytes)
					if kind == wire.KindProof {
						proofs++
					}
				}
			}
			now := s.all(n)
			refused := now[metricNotIssued] - was[metricNotIssued]
			if refused != proofs || proofs < 10 {
				t.Errorf("machine %d: %v of %v proofs of an earlier hour are counted as never asked for", i, refused, proofs)
			}
			if got := now["pace_discovery_proofs_verified_total"] - was["pace_discovery_proofs_verified_total"]; got > 8 { // the two's own meanwhile
				t.Errorf("machine %d: %v proofs verified", i, got)
			}
		}
		s.want(time.Minute, "each has the other where it is", func() bool { return provenAt(a, b, "10.77.100.2:6674") && provenAt(b, a, endpointOf(0)) })
		s.never(3*time.Minute, "they come back where they were", func() bool { return !provenAt(a, b, "10.77.100.2:6674") || !follows(b, a) })
		if after := s.standing(a); after != before || a.View().Len() != 2 {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
	})
}

func provenAt(n, other *Node, endpoint string) bool {
	got, ok := lookup(n, other.id)
	return ok && got == endpoint
}

// TestSimOldKeyOfARekeyedMember: a learner and a voter are given other keys. Whoever holds an old one is answered as anybody whose
// key was revoked: at each verb, at an ask under any id, by discovery, and by its open sessions, which end. The new machine under
// the id is a member as any other.
func TestSimOldKeyOfARekeyedMember(t *testing.T) {
	simulate(t, 217, func(t *testing.T, s *sim) {
		s.expect = []string{"id=own-key-revoked", "id=identity-cloned", "the identity may be cloned"}
		a := s.voters(3)
		b, c := s.nodes[1], s.nodes[2]
		d := s.boot(3)
		s.joined(a, d)
		s.agree(a, b, c)
		m := s.mallory(9)
		for _, old := range []*Node{d, c} {
			key, id := old.key, old.id
			h := m.hub(key, m.addr)
			defer h.Close()
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			var open []*netio.Session
			for i := range 2 {
				o, err := h.Dial(ctx, endpointOf(i), nil)
				s.must(err)
				if _, err := netio.Call(ctx, o, wire.VerbStatus, []byte(`{"what":"cluster"}`)); err != nil {
					t.Fatalf("a member's key reads no status: %v", err)
				}
				open = append(open, o)
			}
			for i, n := range s.nodes { // the machine itself goes; what is left of it is its key
				if n == old {
					s.halt(i)
				}
			}
			fresh := identity.NewPrivateKey([32]byte{'n', id[0], id[1]}).Public()
			s.must(s.asked(s.led(a, b), wire.ClusterRequest{Op: "admit-learner", ID: id, Key: fresh.String()}))
			s.want(10*time.Second, "the key is revoked on both", func() bool {
				_, here := a.View().Revoked(key.Public())
				_, there := b.View().Revoked(key.Public())
				return here && there
			})
			for i, o := range open {
				s.want(2*time.Second, "its session is closed", func() bool { return o.Err() != nil })
				for _, v := range wire.Verbs {
					if v.Access == wire.AccessAnybody {
						continue
					}
					again, err := h.Dial(ctx, endpointOf(i), nil)
					s.must(err)
					before := s.metric(s.nodes[i], `pace_requests_refused_total{reason="revoked"}`)
					_, err = netio.Call(ctx, again, v.Verb, []byte("{}"))
					var refused *wire.Error
					if !errors.As(err, &refused) || refused.Code != wire.CodeRevoked {
						t.Errorf("%s under the old key of %s: %v", v.Name, id, err)
					}
					if got := s.metric(s.nodes[i], `pace_requests_refused_total{reason="revoked"}`); got != before+1 {
						t.Errorf("%s is counted %v times", v.Name, got-before)
					}
					again.Close(nil)
					time.Sleep(20 * time.Millisecond)
				}
			}
			lead := s.led(a, b)
			at := 0
			if lead == b {
				at = 1
			}
			for _, as := range []string{id, "another-id"} {
				if ans, code := m.enroll(key, m.addr, at, as); code != 0 || ans.Outcome != wire.OutcomeRevoked {
					t.Errorf("an ask as %s under the old key is told %s %s", as, code, ans.Outcome)
				}
			}
			claim := m.sound(1)
			claim.Cluster, claim.State, claim.Node = a.View().Cluster(), wire.StateEstablished, id
			summary := raw(t, claim)
			if ch, ok := m.challenged(m.own(), 0, summary); ok {
				_, answers := s.ports(0)
				before := s.metric(a, metricRevoked)
				m.send(m.own(), answers, proofOf(key, ch, summary))
				if got := s.metric(a, metricRevoked) - before; got != 1 {
					t.Errorf("a proof under the old key is counted %v times as revoked", got)
				}
			} else {
				t.Error("it is not challenged")
			}
			if where, ok := lookup(a, id); ok {
				t.Errorf("%s is at %s", id, where)
			}
			if row, ok := a.View().Member(id); !ok || row.Key != fresh || row.Role != fleet.RoleLearner {
				t.Errorf("the member is %+v, %v", row, ok)
			}
			time.Sleep(61 * time.Second)
		}
		s.must(s.write(s.led(a, b), "9"))
		s.agree(a, b)
	})
}
