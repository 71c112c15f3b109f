package discovery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// entropyValue makes every random duration v modulo (most+1).
func entropyValue(v uint64) func([]byte) {
	return func(b []byte) {
		clear(b)
		if len(b) == 8 {
			binary.LittleEndian.PutUint64(b, v)
		}
	}
}

// boundProbes measure what the exchange really does, against figures written out
// from the wire's table of bounds. A probe belongs to one row.
var boundProbes = []struct {
	row   bound
	probe func() error
}{
	{boundBeaconPeriod, func() error { return probePeriod(0, 13500*time.Millisecond) }},
	{boundBeaconJitter, func() error { return probePeriod(3_000_000_000, 16500*time.Millisecond) }},
	{boundStartDelay, func() error {
		for v, want := range map[uint64]time.Duration{0: 0, 250_000_000: 250 * time.Millisecond, 250_000_001: 0} {
			x := New(Config{Entropy: entropyValue(v)}, epochStart, Self{})
			if err := wantEqual("first beacon", x.Next(epochStart).Sub(epochStart), want); err != nil {
				return err
			}
		}
		return nil
	}},
	{boundForwardDelay, func() error {
		for v, want := range map[uint64]time.Duration{250_000_000: 250 * time.Millisecond, 250_000_001: 0} {
			g := spoken(v)
			if err := proveQuietly(g, 1); err != nil {
				return err
			}
			if err := wantEqual("beacon after a first proof", g.beaconAt.Sub(g.now), want); err != nil {
				return err
			}
		}
		return nil
	}},
	{boundForwardGap, func() error {
		g := spoken(0)
		if err := proveQuietly(g, 1); err != nil {
			return err
		}
		g.take(g.Tick(g.now))
		if err := proveQuietly(g, 2); err != nil {
			return err
		}
		return wantEqual("second extra beacon", g.beaconAt.Sub(g.now), 2*time.Second)
	}},
	{boundForgotten, func() error {
		g := spoken(0)
		v := newVoice("c-office", "n-x", "n-x", "10.1.0.9:5000")
		f := newVoice("c-else", "n-y", "n-y", "10.1.0.8:5000")
		g.hear(v.addr, v.beacon())
		g.hear(f.addr, f.beacon())
		at := g.now.Add(90 * time.Second)
		if len(g.Peers(at)) != 1 || g.ForeignUnproven(at) != 1 {
			return errors.New("forgotten before 90 s")
		}
		if at = at.Add(1); len(g.Peers(at)) != 0 || g.ForeignUnproven(at) != 0 {
			return errors.New("still known after 90 s")
		}
		return nil
	}},
	{boundProven, func() error {
		g := spoken(0)
		g.roster.keys["n-x1"] = keyOf("n-x1").Public()
		if err := proveQuietly(g, 1); err != nil {
			return err
		}
		beat := func(d time.Duration) int {
			g.now = g.now.Add(d)
			g.members()["n-x1"].lastBeacon = g.now
			return len(g.Exchange.Authenticated(g.now))
		}
		if beat(90*time.Second) != 1 || beat(1) != 0 {
			return errors.New("a proof does not count for 90 s")
		}
		return nil
	}},
	{boundReprove, func() error {
		g := spoken(0)
		if err := proveQuietly(g, 1); err != nil {
			return err
		}
		v := stranger(1)
		g.after(60 * time.Second)
		if g.challenged(v) != nil {
			return errors.New("challenged 60 s after its proof")
		}
		if g.after(1); g.challenged(v) == nil {
			return errors.New("not challenged over 60 s after its proof")
		}
		return nil
	}},
	{boundForeignProven, func() error {
		g := spoken(0)
		for i := range 40 {
			v := newVoice(fmt.Sprintf("c-%02d", i), "n", "k", netip.AddrPortFrom(hostN(i+1), 5000).String())
			g.proofForeign(g.now, claim{from: v.addr, summary: v.sum}, nil, v.key.Public())
		}
		return wantEqual("proven foreign fleets", len(g.Foreign(g.now)), 16)
	}},
	{boundForeignUnproven, func() error {
		g := spoken(0)
		for i := range 40 {
			v := newVoice(fmt.Sprintf("c-%02d", i), "n", "k", netip.AddrPortFrom(hostN(i+1), 5000).String())
			g.hearForeign(g.now, claim{from: v.addr, summary: v.sum})
		}
		return wantEqual("unproven foreign fleets", g.ForeignUnproven(g.now), 16)
	}},
	{boundStrangers, func() error {
		g := spoken(0)
		for i := range 200 {
			v := stranger(i)
			g.hearOwn(g.now, claim{from: v.addr, summary: v.sum})
		}
		return wantEqual("strangers", len(g.Peers(g.now)), 64)
	}},
	{boundHosts, func() error {
		g := spoken(0)
		for w := range workKinds {
			for i := range 200 {
				g.afford(g.now, w, from(i))
			}
			if err := wantEqual("hosts with a budget", len(g.budgets[w].hosts), 64); err != nil {
				return err
			}
		}
		return nil
	}},
	{boundSharedKept, func() error {
		g := spoken(0)
		n := 0
		for g.afford(g.now, workAnswer, from(n)) {
			n++
		}
		if err := wantEqual("strangers' share of 128", n, 96); err != nil {
			return err
		}
		for n = 0; ; n++ {
			g.provenHost(g.now, hostN(1000+n))
			if !g.afford(g.now, workAnswer, from(1000+n)) {
				return wantEqual("what is kept", n, 32)
			}
		}
	}},
	{boundV6Prefix, func() error {
		g := spoken(0)
		n := 0
		for i := range 40 { // 40 addresses of one /64
			if g.afford(g.now, workAnswer, netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf("fd00:1:2:3:%x::1", i)), 9)) {
				n++
			}
		}
		if err := wantEqual("a /64", n, 8); err != nil {
			return err
		}
		for i := range 8 { // and eight /64 of one /48 to show that no more than 64 bits count
			if !g.afford(g.now, workAnswer, netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf("fd00:1:2:1%d::1", i)), 9)) {
				return errors.New("another /64 shares the budget")
			}
		}
		return nil
	}},
	{boundEpochAge, func() error {
		keys := 0
		c := cookies{entropy: func([]byte) { keys++ }}
		c.issue(epochStart, &someTarget)
		c.issue(epochStart.Add(15*time.Second-1), &someTarget)
		first := keys
		c.issue(epochStart.Add(15*time.Second), &someTarget)
		return errors.Join(wantEqual("keys before 15 s", first, 1), wantEqual("keys at 15 s", keys, 2))
	}},
	{boundCookieLife, func() error {
		for d, want := range map[time.Duration]Outcome{30 * time.Second: OutcomeProven, 30*time.Second + 1: OutcomeExpired} {
			j, err := newJudged()
			if err != nil {
				return err
			}
			if err := wantEqual("a proof after "+d.String(), j.g.judge(j.g.now.Add(d), j.from, &j.proof), want); err != nil {
				return err
			}
		}
		return nil
	}},
	{boundLogLine, func() error {
		g := spoken(0)
		junk := []byte{0xFD, 2, 1}
		for _, d := range []time.Duration{0, 1, 60*time.Second - 2, 1} {
			g.after(d)
			g.hear(from(1), junk)
		}
		e := g.seen(EventVersionSeen)
		if len(e) != 2 || e[0].Count != 1 || e[1].Count != 3 {
			return fmt.Errorf("lines in a minute: %+v", e)
		}
		return nil
	}},
	{boundCloneChallenge, func() error {
		g := spoken(0)
		v := newVoice("c-office", "n-a", "n-a", "10.1.0.99:5000")
		first := g.challenged(v) != nil
		g.after(60 * time.Second)
		early := g.challenged(v) != nil
		g.after(1)
		late := g.challenged(v) != nil
		if !first || early || !late {
			return fmt.Errorf("own id challenged at 0, 60 s and later: %v %v %v", first, early, late)
		}
		return nil
	}},
	{boundSpeakers, func() error {
		g := spoken(0)
		for i := range 200 {
			v := newVoice("c-else", fmt.Sprint("n", i), "k", netip.AddrPortFrom(hostN(i+1), 5000).String())
			g.proofForeign(g.now, claim{from: v.addr, summary: v.sum}, nil, v.key.Public())
		}
		return wantEqual("speakers of one fleet", g.Foreign(g.now)[0].Speakers, 64)
	}},
	{boundProvenHosts, func() error {
		g := spoken(0)
		for i := range 1100 {
			g.provenHost(g.now, hostN(i))
		}
		if err := wantEqual("proven hosts", len(g.provenHosts), 1024); err != nil {
			return err
		}
		return wantEqual("displaced", g.Count(CountBeaconsOverBound), 1100-1024)
	}},
	{boundProvenKeys, func() error {
		g := spoken(0)
		for i := range 1100 {
			if !g.provenKey(g.now.Add(time.Duration(i)), identity.PublicKey{byte(i >> 8), byte(i)}) {
				return fmt.Errorf("speaker %d is no newcomer", i)
			}
		}
		if err := wantEqual("proven speakers", len(g.provenKeys), 1024); err != nil {
			return err
		}
		return wantEqual("displaced", g.Count(CountBeaconsOverBound), 1100-1024)
	}},
	{boundSweep, func() error {
		g := newRig("n-a", "c-office", "10.1.0.1:50001", nil)
		return wantEqual("sweep", g.sweepAt.Sub(epochStart), 5*time.Second)
	}},
	{boundCloneFlips, func() error {
		g := spoken(0)
		p := &peer{}
		for i := range 6 {
			v := stranger(1)
			v.sum.OwnEndpoint = fmt.Sprintf("10.1.0.%d:6674", i%2)
			p.prove(g.now, keyOf("k").Public(), claim{from: v.addr, summary: v.sum})
			if _, got := p.flipping(g.now); got != (i >= 3) {
				return fmt.Errorf("after %d changes of endpoint: a copy = %v", i, got)
			}
		}
		return nil
	}},
	{boundPressure, func() error {
		g := spoken(0)
		for g.afford(g.now, workChallenge, from(1000)) || g.recall.refused[0] == 0 {
			g.budgets[workChallenge].hosts = nil // only the shared budget matters here
		}
		for n := 1; n < 200; n++ {
			if err := wantEqual(fmt.Sprint("pressure after ", n), g.recall.pressed(g.now), n >= 64); err != nil {
				return err
			}
			g.afford(g.now, workChallenge, from(2000+n))
		}
		return nil
	}},
	{boundRecallKept, func() error {
		g := pressed()
		g.after(time.Second)
		n := 0
		for g.afford(g.now, workChallenge, from(9000+n)) {
			n++
		}
		if err := wantEqual("new sources under pressure", n, 96-8); err != nil {
			return err
		}
		for n = 0; g.afford(g.now, workChallenge, from(2100+n)); {
			n++
		}
		return wantEqual("returning sources", n, 8)
	}},
	{boundRecall, func() error {
		for d, want := range map[time.Duration]bool{
			0: true, 16500 * time.Millisecond: true, 33*time.Second - 2*time.Second: true, 34 * time.Second: false,
		} {
			g := pressed()
			g.after(d)
			if err := wantEqual("remembered after "+d.String(), g.recall.pressed(g.now) && g.recall.returns(hostN(2100)), want); err != nil {
				return err
			}
		}
		return nil
	}},
	// The slow one is last, so that another row's fault is seen before it.
	{boundEpochCookies, func() error {
		keys := 0
		c := cookies{entropy: func([]byte) { keys++ }}
		for range 65536 {
			c.issue(epochStart, &someTarget)
		}
		first := keys
		c.issue(epochStart, &someTarget)
		return errors.Join(wantEqual("keys of 65,536 cookies", first, 1), wantEqual("keys of one more", keys, 2))
	}},
}

// pressed returns a rig 1 s after its start whose shared challenge budget is
// empty and has refused sources 2000 to 2199.
func pressed() *rig {
	g := spoken(0)
	for i := range 96 {
		g.afford(g.now, workChallenge, from(1000+i))
	}
	for i := range 200 {
		g.afford(g.now, workChallenge, from(2000+i))
	}
	return g
}

func probePeriod(v uint64, want time.Duration) error {
	g := newRig("n-a", "c-office", "10.1.0.1:50001", nil)
	g.cfg.Entropy = entropyValue(v)
	g.beaconAt = g.now
	if g.Tick(g.now).Beacon == nil {
		return errors.New("no beacon")
	}
	return wantEqual("next beacon", g.beaconAt.Sub(g.now), want)
}

// spoken returns a rig whose first beacon is out, one second in, and whose
// random durations are v.
func spoken(v uint64) *rig {
	g := newRig("n-a", "c-office", "10.1.0.1:50001", nil)
	g.cfg.Entropy = entropyValue(v)
	g.cookies.entropy = entropyOf("cookies")
	g.after(time.Second)
	g.take(g.Tick(g.now))
	return g
}

func (g *rig) members() map[string]*peer { return g.dir.members }

func stranger(n int) *voice {
	id := fmt.Sprint("n-x", n)
	return newVoice("c-office", id, id, netip.AddrPortFrom(hostN(n+1), 5000).String())
}

func proveQuietly(g *rig, n int) error {
	v := stranger(n)
	sent := g.hear(v.addr, v.beacon())
	if len(sent) != 1 {
		return errors.New("no challenge")
	}
	_, payload, _ := wire.ParseDatagram(sent[0].Bytes)
	c, err := wire.DecodeChallenge(payload)
	if err != nil {
		return err
	}
	raw, pub := v.raw(), v.key.Public()
	g.get(v.addr, wire.EncodeProof(raw, c.Nonce, pub, v.key.Sign(wire.DiscoveryProofMessage(c.Cluster, c.Nonce, raw, pub))))
	return nil
}

// budgetCells are the budgets of the wire's table, written out.
var budgetCells = [workKinds]struct {
	host, shared           int
	hostEvery, sharedEvery time.Duration
	counter                string
	event                  EventKind
}{
	workAnswer:    {8, 128, 250 * time.Millisecond, time.Millisecond, "pace_discovery_replies_withheld_total", EventBudgetAnswer},
	workCheck:     {8, 128, 250 * time.Millisecond, 3 * time.Millisecond, "pace_discovery_proof_checks_withheld_total", EventBudgetCheck},
	workChallenge: {8, 128, 250 * time.Millisecond, time.Millisecond, "pace_discovery_replies_withheld_total", EventBudgetChallenge},
}

func eventsOf(all []Event, kind EventKind) (n int) {
	for _, e := range all {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// checkBudgets drains each budget and watches it come back.
func checkBudgets() error {
	for w, want := range budgetCells {
		w := work(w)
		drain := func(g *rig, host func(int) netip.AddrPort) (n int) {
			for n < 1000 && g.afford(g.now, w, host(n)) {
				n++
			}
			return n
		}
		one := func(int) netip.AddrPort { return from(1) }
		g := spoken(0)
		errs := []error{wantEqual("one host", drain(g, one), want.host)}
		g.after(want.hostEvery - 1)
		errs = append(errs, wantEqual("one host, a moment early", drain(g, one), 0))
		g.after(1)
		errs = append(errs, wantEqual("one host, a token later", drain(g, one), 1))
		g.after(time.Hour)
		errs = append(errs, wantEqual("one host, an hour later", drain(g, one), want.host))
		errs = append(errs, wantEqual("counted", g.nonZero()[want.counter], 4), wantEqual("a line a minute", eventsOf(g.out.Events, want.event), 2))

		g = spoken(0)
		proven := func(i int) netip.AddrPort { g.provenHost(g.now, hostN(i)); return from(i) }
		errs = append(errs, wantEqual("all together", drain(g, proven), want.shared))
		g.after(want.sharedEvery - 1)
		next := func(i int) netip.AddrPort { return proven(2000 + i) }
		errs = append(errs, wantEqual("all, a moment early", drain(g, next), 0))
		g.after(1)
		errs = append(errs, wantEqual("all, a token later", drain(g, next), 1))
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("%s: %w", budgets[w].what, err)
		}
	}
	return nil
}

func checkBounds() error {
	for _, p := range boundProbes {
		if err := p.probe(); err != nil {
			return fmt.Errorf("%s: %w", bounds[p.row].what, err)
		}
	}
	return nil
}

func TestBounds(t *testing.T) {
	if err := checkBounds(); err != nil {
		t.Error(err)
	}
	if err := checkBudgets(); err != nil {
		t.Error(err)
	}
	probed := map[bound]bool{}
	for _, p := range boundProbes {
		probed[p.row] = true
	}
	for b := range bounds {
		if !probed[bound(b)] || bounds[b].what == "" || bounds[b].why == "" || (bounds[b].d == 0) == (bounds[b].n == 0) {
			t.Errorf("row %d (%s) is not probed, has no reason, or not one figure", b, bounds[b].what)
		}
	}
}

func TestMutationBounds(t *testing.T) {
	for i := range bounds {
		saved := bounds[i]
		for _, change := range []func(*boundRow){
			func(r *boundRow) { r.d, r.n = r.d*2, r.n*2 },
			func(r *boundRow) { r.d, r.n = r.d/2, r.n/2 },
		} {
			change(&bounds[i])
			if bounds[i].d+time.Duration(bounds[i].n) > 0 && checkBounds() == nil {
				t.Errorf("%s: %v %d goes unnoticed", saved.what, bounds[i].d, bounds[i].n)
			}
			bounds[i] = saved
		}
	}
	for i := range budgets {
		saved := budgets[i]
		for name, change := range map[string]func(*budgetRow){
			"host size":    func(r *budgetRow) { r.hostSize++ },
			"host every":   func(r *budgetRow) { r.hostEvery *= 2 },
			"shared size":  func(r *budgetRow) { r.sharedSize++ },
			"shared every": func(r *budgetRow) { r.sharedEvery *= 2 },
			"counter":      func(r *budgetRow) { r.withheld = CountDatagramsMalformed },
			"event":        func(r *budgetRow) { r.event = EventForged },
		} {
			change(&budgets[i])
			if checkBudgets() == nil {
				t.Errorf("%s: %s goes unnoticed", saved.what, name)
			}
			budgets[i] = saved
		}
	}
	if err := errors.Join(checkBounds(), checkBudgets()); err != nil {
		t.Fatalf("not restored: %v", err)
	}
}

// TestBudgetDisplacement: a host that emptied its budget cannot have it replaced
// by filling the table under other addresses, and every loss is counted.
func TestBudgetDisplacement(t *testing.T) {
	g := spoken(0)
	victim := from(1)
	for g.afford(g.now, workChallenge, victim) {
	}
	for i := range 500 {
		g.after(time.Millisecond) // so that the shared budget lasts
		g.afford(g.now, workChallenge, from(100+i))
	}
	if g.Count(CountBeaconsOverBound) == 0 {
		t.Error("displaced buckets are not counted")
	}
	n := 0
	for g.afford(g.now, workChallenge, victim) {
		n++
	}
	if n > 2 { // what came back in half a second
		t.Errorf("its budget was renewed: %d tokens", n)
	}
	// Buckets that are full again say nothing: replacing one loses nothing.
	g.after(time.Minute)
	before := g.Count(CountBeaconsOverBound)
	for i := range 64 {
		g.afford(g.now, workChallenge, from(5000+i))
	}
	if got := g.Count(CountBeaconsOverBound); got != before {
		t.Errorf("%d full buckets counted as displaced", got-before)
	}
}

func TestLoopbackIsExemptFromSourceBounds(t *testing.T) {
	source := netip.MustParseAddrPort("127.0.0.1:5000")
	for loopback, want := range map[bool]int{false: 8, true: 96} {
		g := spoken(0)
		g.cfg.Loopback = loopback
		n := 0
		for n < 1000 && g.afford(g.now, workAnswer, source) {
			n++
		}
		if n != want {
			t.Errorf("loopback=%v: %d answers at once, want %d: the totals hold", loopback, n, want)
		}
	}
}
