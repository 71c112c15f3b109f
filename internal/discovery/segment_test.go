package discovery

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"pace-node/internal/wire"
)

// lossy runs a segment: it drops and doubles parcels, and lets a hostile peer
// add its own, until d has passed.
type lossy struct {
	chance   *rand.Rand
	loss     float64
	double   float64
	stations []*Station
	hostile  func(now time.Time, seen []Parcel) []Parcel
	now      time.Time
	flying   []Parcel
	count    map[wire.Kind]int
}

func (l *lossy) run(d time.Duration) {
	const hop = time.Millisecond // each datagram's way
	for end := l.now.Add(d); l.now.Before(end); {
		out := PumpOnce(l.now, l.stations, l.flying)
		l.flying = l.flying[:0]
		for _, p := range out {
			l.count[wire.Kind(p.Bytes[2])]++
			if l.chance.Float64() >= l.loss {
				l.flying = append(l.flying, p)
			}
			if l.chance.Float64() < l.double {
				l.flying = append(l.flying, p)
			}
		}
		if l.hostile != nil {
			l.flying = append(l.flying, l.hostile(l.now, out)...)
		}
		next := PumpNext(l.now, l.stations)
		if len(l.flying) > 0 || !next.After(l.now) {
			next = l.now.Add(hop)
		}
		l.now = next
	}
}

func segment(n int, cluster func(int) string) ([]*rig, *lossy) {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("n-%03d", i)
	}
	l := &lossy{chance: rand.New(rand.NewPCG(1, 2)), now: epochStart, count: map[wire.Kind]int{}}
	rigs := make([]*rig, n)
	for i := range rigs {
		rigs[i] = newRig(ids[i], cluster(i), netip.AddrPortFrom(hostN(256+i), uint16(50000+i)).String(), newRoster(ids...))
		l.stations = append(l.stations, rigs[i].station())
	}
	return rigs, l
}

func office(int) string { return "c-office" }

func TestSegmentFindsItself(t *testing.T) {
	const n = 20
	rigs, l := segment(n, office)
	l.run(2 * time.Second)
	for _, g := range rigs {
		g.now = l.now
		if got := len(g.authenticated()); got != n-1 {
			t.Errorf("%s knows %d of %d after two seconds without loss", g.self.Node, got, n-1)
		}
	}
	// The first round costs each pair one signature each way; the next ones none
	// until a proof is 60 s old.
	if got := l.count[wire.KindProof]; got > n*(n-1)+n {
		t.Errorf("%d proofs for %d pairs", got, n*(n-1))
	}
	clear(l.count)
	l.run(45 * time.Second)
	if got := l.count[wire.KindProof]; got != 0 {
		t.Errorf("%d signatures in three beats of a quiet segment", got)
	}
	l.run(60 * time.Second)
	if got := l.count[wire.KindProof]; got > n*(n-1) {
		t.Errorf("%d signatures to prove %d pairs again", got, n*(n-1))
	}
	for _, g := range rigs {
		g.now = l.now
		if got := len(g.authenticated()); got != n-1 {
			t.Errorf("%s knows %d of %d after two minutes", g.self.Node, got, n-1)
		}
		if len(g.seen(EventPeerLost)) != 0 || g.Count(CountDatagramsMalformed) != 0 || g.Count(CountRefusedForged) != 0 {
			t.Errorf("%s: %v", g.self.Node, g.nonZero())
		}
	}
}

func TestSegmentWithLossAndHostilePeer(t *testing.T) {
	const n = 12
	rigs, l := segment(n, office)
	l.loss, l.double = 0.2, 0.1
	var recorded []Parcel
	var quiet time.Time
	bad := newVoice("c-office", "n-001", "mallory", mallory.String())
	l.hostile = func(now time.Time, seen []Parcel) (out []Parcel) {
		for _, p := range seen {
			if len(recorded) < 500 {
				recorded = append(recorded, p)
			}
			if p.To == mallory { // it answers what it is asked, under its own key
				if kind, _, _ := wire.ParseDatagram(p.Bytes); kind == wire.KindChallenge {
					out = append(out, Parcel{From: mallory, To: p.From, Bytes: bad.answer(t, p.Bytes)})
				}
			}
		}
		if now.Before(quiet) {
			return out
		}
		quiet = now.Add(40 * time.Millisecond)
		if len(recorded) > 0 { // and replays, re-sources and corrupts what it saw
			p := recorded[l.chance.IntN(len(recorded))]
			out = append(out, p)
			p.From = mallory
			out = append(out, p)
			p.Bytes = append([]byte(nil), p.Bytes...)
			p.Bytes[l.chance.IntN(len(p.Bytes))] ^= 1 << l.chance.IntN(8)
			out = append(out, p)
		}
		return append(out, Parcel{From: mallory, Broadcast: true, Bytes: bad.beacon()})
	}
	l.run(5 * time.Minute)
	for i, g := range rigs {
		g.now = l.now
		proven := map[string]bool{}
		for _, e := range g.seen(EventPeerProven) {
			proven[e.ID] = true
		}
		// Half of all exchanges lose one of their three datagrams, so some proofs
		// are over 90 s old at any moment; each peer was proven, and most are.
		if now := len(g.authenticated()); len(proven) != n-1 || now < n-4 {
			t.Errorf("%s proved %d and knows %d of %d: %v", g.self.Node, len(proven), now, n-1, g.nonZero())
		}
		for _, p := range g.Exchange.Authenticated(g.now) {
			if p.Summary.OwnEndpoint != netip.AddrPortFrom(p.Addr.Addr(), 6674).String() || p.Addr == mallory {
				t.Errorf("%s takes %s to be at %s (%s)", g.self.Node, p.ID, p.Summary.OwnEndpoint, p.Addr)
			}
		}
		if i != 1 && len(g.seen(EventUnknownKey)) == 0 {
			t.Errorf("%s never reported the impostor", g.self.Node)
		}
		if len(g.seen(EventSelfCloned)) != 0 {
			t.Errorf("%s takes itself for a copy", g.self.Node)
		}
	}
}

// TestSegmentOfManyFleets: every solitary node of a segment proves itself to
// every other, and the established one too.
func TestSegmentOfManyFleets(t *testing.T) {
	const n = 10
	rigs, l := segment(n, func(i int) string { return fmt.Sprintf("c-%03d", i) })
	l.loss = 0.2
	l.run(3 * time.Minute)
	for _, g := range rigs {
		g.now = l.now
		if got := len(g.Foreign(g.now)); got != n-1 {
			t.Errorf("%s knows %d of %d fleets", g.self.Node, got, n-1)
		}
		if len(g.Peers(g.now)) != 0 {
			t.Errorf("%s has peers of other clusters", g.self.Node)
		}
	}
}

// TestLateStarterIsTaughtAtOnce: the newcomer hears each established node within
// 250 ms of proving itself, not at the next period.
func TestLateStarterIsTaughtAtOnce(t *testing.T) {
	rigs, l := segment(6, office)
	late := l.stations[5]
	l.stations = l.stations[:5]
	l.run(20 * time.Second)
	rigs[5].Exchange = New(rigs[5].config("again"), l.now, Self{summaryOf("c-office", "n-005", rigs[5].addr.Addr())})
	late.Exchange = rigs[5].Exchange
	l.stations = append(l.stations, late)
	l.run(600 * time.Millisecond) // 250 for its own first beacon, 250 for theirs, and the ways
	g := rigs[5]
	g.now = l.now
	if got := len(g.authenticated()); got != 5 {
		t.Errorf("it knows %d of 5", got)
	}
}

// TestFloodOfSpoofedSources: 100,000 sources over five beacons of an honest
// newcomer. Every table stays small and the newcomer is proven.
func TestFloodOfSpoofedSources(t *testing.T) { floodFor(t, 100_000, 7) }

func floodFor(t *testing.T, flood int, seed uint64) {
	const beacons = 5
	g := newRig("n-a", "c-office", "10.1.0.1:50001", newRoster("n-b"))
	b := newVoice("c-office", "n-b", "n-b", "10.1.0.2:50002")
	chance := rand.New(rand.NewPCG(seed, seed))
	bad, template := keyOf("mallory"), summaryOf("c", "n", hostN(1))
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	step := beacons * 15 * time.Second / time.Duration(flood)
	honest := 0
	for i := range flood {
		g.after(time.Duration(chance.Int64N(2*int64(step) + 1)))
		g.events = g.events[:0]
		v := &voice{key: bad, addr: netip.AddrPortFrom(hostN(1000+i), 7), sum: template}
		v.sum.Cluster, v.sum.Node = []string{"c-office", fmt.Sprint("c-", i)}[i%2], fmt.Sprint("n-", i)
		v.sum.Created = chance.Uint64()
		v.sum.State = wire.SummaryState(1 + chance.IntN(3))
		if v.sum.State == wire.StatePending {
			v.sum.Pointer, v.sum.Leader = v.sum.Leader, wire.Leader{}
		}
		if c := g.challenged(v); c != nil && i%16 == 0 {
			g.get(v.addr, v.answer(t, c)) // some of them even prove a key
		}
		if i%50 == 7 {
			g.get(v.addr, b.answerForged(c32(i)))
		}
		if i%(flood/beacons) == flood/beacons/2 {
			honest++
			if c := g.challenged(b); c != nil {
				g.get(b.addr, b.answer(t, c))
			}
		}
	}
	if got := g.authenticated(); len(got) != 1 {
		t.Errorf("the honest peer was not proven by %d beacons: %v", honest, g.nonZero())
	}
	if grown := int64(heap()) - int64(before); grown > 2<<20 {
		t.Errorf("the heap grew by %d KiB", grown>>10)
	}
	if n := len(g.dir.strangers); n > 64 {
		t.Errorf("%d strangers", n)
	}
	if n := len(g.dir.members); n > 1 {
		t.Errorf("%d members of a roster of one", n)
	}
	if len(g.proven.fleets) > 16 || len(g.unproven.fleets) > 16 || len(g.provenHosts) > 1024 {
		t.Errorf("%d proven and %d unproven fleets, %d proven hosts", len(g.proven.fleets), len(g.unproven.fleets), len(g.provenHosts))
	}
	for w := range g.budgets {
		if n := len(g.budgets[w].hosts); n > 64 {
			t.Errorf("%d hosts with a budget", n)
		}
	}
	if g.Count(CountBeaconsOverBound) == 0 {
		t.Error("no displacement counted")
	}
	runtime.KeepAlive(g)
}

func c32(n int) (b [32]byte) { b[7] = byte(n); return b }

// answerForged is an unsolicited proof.
func (v *voice) answerForged(nonce [32]byte) []byte {
	return wire.EncodeProof(v.raw(), nonce, v.key.Public(), [64]byte{1})
}
