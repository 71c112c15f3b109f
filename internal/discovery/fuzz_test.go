package discovery

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pace-node/internal/wire"
)

// FuzzHandle: whatever arrives, nothing panics, at most one datagram answers it,
// to whom it came from, and none is larger than what was asked.
func FuzzHandle(f *testing.F) {
	_, b := fleetOfTwo()
	challenge, _ := wire.EncodeChallenge("c-else", [32]byte{1}, 400)
	for _, seed := range [][]byte{b.beacon(), challenge, b.answerForged([32]byte{}), {0xFD, 2}, nil} {
		f.Add(seed, true, uint16(9))
		f.Add(seed, false, uint16(9))
	}
	g, _ := fleetOfTwo()
	f.Fuzz(func(t *testing.T, b []byte, listener bool, port uint16) {
		on := SocketAnswering
		if listener {
			on = SocketListener
		}
		g.after(300 * time.Millisecond)
		before := make(map[string]uint64)
		for k, v := range g.nonZero() {
			before[k] = v
		}
		source := netip.AddrPortFrom(hostN(int(port)), port)
		out := g.Handle(g.now, on, source, g.addr.Addr(), b)
		if len(out.Send) > 1 || len(out.Send) == 1 && (out.Send[0].To != source || len(out.Send[0].Bytes) > len(b)) || out.Beacon != nil {
			t.Errorf("%d bytes provoked %+v", len(b), out)
		}
		if len(g.Authenticated(g.now)) != 0 {
			t.Error("authenticated by chance")
		}
		counted := false
		for k, v := range g.nonZero() {
			counted = counted || v > before[k]
		}
		if !counted {
			t.Error("a datagram that no counter saw")
		}
	})
}

// FuzzEndpoint: an endpoint is judged without a panic, and what names loopback
// plainly is seen.
func FuzzEndpoint(f *testing.F) {
	for _, s := range []string{"127.0.0.1:1", "[::1]:1", "a:1", ":1", "", "[", "]:1", "1.:2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r := reachOf(s)
		if !wire.ValidEndpoint(s) {
			return
		}
		if a, err := netip.ParseAddrPort(s); err == nil && (r == reachAnybody) == (a.Addr().Unmap().IsLoopback() || a.Addr().Unmap().IsUnspecified()) && !a.Addr().IsMulticast() && a.Addr().Unmap() != limitedBroadcast {
			t.Errorf("%q is %d", s, r)
		}
	})
}

// TestPropertyBudgets: over any history a source is never granted more than its
// bucket and what came back, all together never more than the shared one, and
// strangers never what is kept.
func TestPropertyBudgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := spoken(0)
		w := work(rapid.IntRange(0, int(workKinds)-1).Draw(t, "work"))
		start := g.now
		granted, all := map[int]int{}, 0
		for range rapid.IntRange(1, 600).Draw(t, "asks") {
			g.after(time.Duration(rapid.IntRange(0, 4000).Draw(t, "µs")) * time.Microsecond)
			n := rapid.IntRange(0, 40).Draw(t, "host") // fewer than have a bucket
			if g.afford(g.now, w, from(n)) {
				granted[n]++
				all++
			}
			passed := g.now.Sub(start)
			if most := 8 + int(passed/(250*time.Millisecond)); granted[n] > most {
				t.Fatalf("host %d was granted %d in %v", n, granted[n], passed)
			}
			if most := 96 + int(passed/budgetCells[w].sharedEvery); all > most {
				t.Fatalf("strangers were granted %d in %v", all, passed)
			}
		}
	})
}

// TestPropertyProvenOnce: over any mix of beacons, answers, replays, forgeries
// and waits, no challenge is proven twice, and none 30 s after it was sent.
func TestPropertyProvenOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, b := fleetOfTwo()
		type asked struct {
			challenge []byte
			at        time.Time
			proven    bool
		}
		var all []*asked
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				b.sum.Total++ // so that it is challenged
				sent := g.hear(b.addr, b.beacon())
				if len(sent) == 1 {
					all = append(all, &asked{sent[0].Bytes, g.now, false})
				}
			case 1:
				g.after(time.Duration(rapid.IntRange(0, 10000).Draw(t, "ms")) * time.Millisecond)
			default:
				if len(all) == 0 {
					continue
				}
				a := all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
				_, payload, _ := wire.ParseDatagram(a.challenge)
				c, err := wire.DecodeChallenge(payload)
				if err != nil {
					t.Fatal(err)
				}
				raw, pub := b.raw(), b.key.Public()
				sig := b.key.Sign(wire.DiscoveryProofMessage(c.Cluster, c.Nonce, raw, pub))
				if rapid.IntRange(0, 3).Draw(t, "forge") == 0 {
					sig[0] ^= 1
				}
				before := g.Count(CountProofsVerified)
				g.get(b.addr, wire.EncodeProof(raw, c.Nonce, pub, sig))
				if g.Count(CountProofsVerified) > before {
					if a.proven || g.now.Sub(a.at) > 30*time.Second {
						t.Fatalf("proven again, or %v after it was asked", g.now.Sub(a.at))
					}
					a.proven = true
				}
			}
		}
	})
}
