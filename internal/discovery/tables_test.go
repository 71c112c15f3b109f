package discovery

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// foreignNode is a speaker of the fleet c-<n>, created at n.
func foreignNode(n int, state wire.SummaryState) *voice {
	v := newVoice(fmt.Sprintf("c-%03d", n), fmt.Sprint("n-", n), "foreign", netip.AddrPortFrom(hostN(n+1), 9).String())
	v.sum.State, v.sum.Created = state, uint64(1_790_000_000+n)
	if state == wire.StatePending {
		v.sum.Pointer, v.sum.Leader = v.sum.Leader, wire.Leader{}
	}
	return v
}

// checkRanks fills the table of unproven fleets and then the one of proven ones
// and looks at who gave way, by the wire's words: pending, then the youngest
// solitary; an established one last; what is retained never.
func checkRanks() error {
	const full = 16
	type row struct {
		what     string
		held     func(i int) *voice // i = 0..15, each heard a second after the one before
		newcomer *voice
		retained string
		gone     string // the newcomer itself, if it got no place
	}
	all := func(s wire.SummaryState) func(int) *voice {
		return func(i int) *voice { return foreignNode(i, s) }
	}
	but := func(at int, odd, other wire.SummaryState) func(int) *voice {
		return func(i int) *voice {
			if i == at {
				return foreignNode(i, odd)
			}
			return foreignNode(i, other)
		}
	}
	rows := []row{
		{"a pending one before established ones", but(7, wire.StatePending, wire.StateEstablished), foreignNode(99, wire.StateEstablished), "", "c-007"},
		{"a pending one before solitary ones", but(7, wire.StatePending, wire.StateSolitary), foreignNode(99, wire.StateSolitary), "", "c-007"},
		{"a pending one before an old solitary one", but(7, wire.StatePending, wire.StateEstablished), foreignNode(99, wire.StateSolitary), "", "c-007"},
		{"a solitary one before established ones", but(7, wire.StateSolitary, wire.StateEstablished), foreignNode(99, wire.StateEstablished), "", "c-007"},
		{"the youngest solitary one", all(wire.StateSolitary), foreignNode(3, wire.StateSolitary).as("c-new"), "", "c-015"},
		{"the youngest solitary one is the newcomer", all(wire.StateSolitary), foreignNode(99, wire.StateSolitary), "", "c-099"},
		{"a solitary newcomer finds established ones", all(wire.StateEstablished), foreignNode(3, wire.StateSolitary).as("c-new"), "", "c-new"},
		{"a pending newcomer finds solitary ones", all(wire.StateSolitary), foreignNode(3, wire.StatePending).as("c-new"), "", "c-new"},
		{"the pending one not heard for longest", all(wire.StatePending), foreignNode(99, wire.StatePending), "", "c-000"},
		{"the established one not heard for longest", all(wire.StateEstablished), foreignNode(99, wire.StateEstablished), "", "c-000"},
		{"the retained one never", but(7, wire.StatePending, wire.StateEstablished), foreignNode(99, wire.StateEstablished), "c-007", "c-000"},
		{"a retained pending newcomer", all(wire.StateEstablished), foreignNode(99, wire.StatePending), "c-099", "c-000"},
	}
	for _, proven := range []bool{false, true} {
		for _, r := range rows {
			g := spoken(0)
			g.SetRetained([]string{r.retained})
			meet := func(v *voice) {
				g.after(time.Second)
				c := claim{from: v.addr, summary: v.sum}
				if proven {
					g.proofForeign(g.now, c, nil, v.key.Public())
				} else {
					g.hearForeign(g.now, c)
				}
			}
			want := map[string]bool{r.newcomer.sum.Cluster: true}
			for i := range full {
				v := r.held(i)
				want[v.sum.Cluster] = true
				meet(v)
			}
			delete(want, r.gone)
			meet(r.newcomer)
			table := g.unproven.fleets
			if proven {
				table = g.proven.fleets
			}
			for c := range want {
				if table[c] == nil || len(table) != full {
					return fmt.Errorf("%s (proven %v): %s gave way in place of %s (%d held)", r.what, proven, c, r.gone, len(table))
				}
			}
			if err := wantEqual(r.what+", counted", g.Count(CountBeaconsOverBound), 1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *voice) as(cluster string) *voice { v.sum.Cluster = cluster; return v }

func TestRanks(t *testing.T) {
	if err := checkRanks(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationRanks(t *testing.T) {
	for i := range ranks {
		saved := ranks[i]
		ranks[i].youngest = !saved.youngest
		if checkRanks() == nil {
			t.Errorf("row %d: youngest flipped goes unnoticed", i)
		}
		ranks[i] = saved
		for k := i + 1; k < len(ranks); k++ {
			ranks[i], ranks[k] = ranks[k], ranks[i]
			if checkRanks() == nil {
				t.Errorf("rows %d and %d exchanged goes unnoticed", i, k)
			}
			ranks[i], ranks[k] = ranks[k], ranks[i]
		}
	}
}

// checkOutcomes: the name and the counter of each outcome.
func checkOutcomes() error {
	for o, want := range map[Outcome]struct{ name, metric string }{
		OutcomeProven: {"proven", "proofs_verified"}, OutcomeNotIssued: {"not issued", "proofs_refused_not_issued"},
		OutcomeExpired: {"expired", "proofs_refused_expired"}, OutcomeReplayed: {"replayed", "proofs_refused_replayed"},
		OutcomeExhausted: {"exhausted", "proofs_refused_exhausted"}, OutcomeUnchecked: {"unchecked", "proof_checks_withheld"},
		OutcomeForged: {"forged", "proofs_refused_forged"},
	} {
		row := outcomeRows[o]
		if o.String() != want.name || counterRows[row.counter].Metric != "pace_discovery_"+want.metric+"_total" || row.counted == (o == OutcomeUnchecked) {
			return fmt.Errorf("%v: %+v", want, row)
		}
	}
	return nil
}

func TestOutcomes(t *testing.T) {
	if err := checkOutcomes(); err != nil {
		t.Fatal(err)
	}
	if outcomes.String() != "unknown" {
		t.Error("an outcome that is none has a name")
	}
}

func TestMutationOutcomes(t *testing.T) {
	for i := range outcomeRows {
		saved := outcomeRows[i]
		for _, change := range []func(*outcomeRow){
			func(r *outcomeRow) { r.counter = CountBeaconsHeard },
			func(r *outcomeRow) { r.counted = !r.counted },
			func(r *outcomeRow) { r.name = "" },
		} {
			change(&outcomeRows[i])
			if checkOutcomes() == nil {
				t.Errorf("row %d flipped goes unnoticed", i)
			}
			outcomeRows[i] = saved
		}
	}
}

// TestFullTablesWithholdNoChallenge: whoever finds no place is challenged, and
// proven, and handed on all the same.
func TestFullTablesWithholdNoChallenge(t *testing.T) {
	g := spoken(0)
	for i := range 20 {
		g.after(time.Second)
		g.prove(t, foreignNode(i, wire.StateEstablished))
	}
	pending := foreignNode(50, wire.StatePending)
	for range 3 {
		g.after(time.Second)
		g.prove(t, pending)
	}
	if got := len(g.seen(EventForeignProven)); got != 23 {
		t.Errorf("%d handed to formation, want 23", got)
	}
	for i := range 80 {
		g.after(time.Second)
		g.prove(t, stranger(100+i))
	}
	if got := len(g.Peers(g.now)); got != 64 {
		t.Errorf("%d strangers", got)
	}
	g.after(time.Second)
	if g.challenged(stranger(300)) == nil {
		t.Error("a full table withheld a challenge")
	}
	if len(g.Peers(g.now)) != 64 || g.dir.strangers[strangerKey{"n-x300", hostN(301)}] != nil {
		t.Error("an unproven newcomer took a proven one's place")
	}
}

// TestChallengeRule: the unproven, those whose summary changed, and those whose
// last proof is over 60 s old; nobody else.
func TestChallengeRule(t *testing.T) {
	for _, speaker := range []string{"member", "stranger", "foreign"} {
		g := newRig("n-a", "c-office", "10.1.0.1:50001", newRoster("n-b"))
		v := newVoice("c-office", "n-b", "n-b", "10.1.0.2:50002")
		switch speaker {
		case "stranger":
			v.sum.Node = "n-s"
		case "foreign":
			v.sum.Cluster = "c-else"
		}
		for _, step := range []struct {
			what   string
			after  time.Duration
			change func()
			answer bool
			want   bool
		}{
			{"unproven", 0, nil, false, true},
			{"still unproven", 15 * time.Second, nil, true, true},
			{"proven", 15 * time.Second, nil, false, false},
			{"its summary changed", time.Second, func() { v.sum.Total = 9 }, false, true},
			{"unanswered", time.Second, nil, true, true},
			{"proven again", 60 * time.Second, nil, false, false},
			{"over 60 s", time.Second, nil, true, true},
			{"another port, same machine", time.Second, func() { v.addr = netip.AddrPortFrom(v.addr.Addr(), 1) }, false, false},
		} {
			g.after(step.after)
			if step.change != nil {
				step.change()
			}
			c := g.challenged(v)
			if (c != nil) != step.want {
				t.Errorf("%s, %s: challenged %v", speaker, step.what, c != nil)
			}
			if c != nil && step.answer {
				g.get(v.addr, v.answer(t, c))
			}
		}
	}
}

// TestSignedCopyOfASummary: somebody who signs another machine's very summary
// under a key of its own does not spare that machine its challenge.
func TestSignedCopyOfASummary(t *testing.T) {
	for _, cluster := range []string{"c-office", "c-else"} {
		g, b := fleetOfTwo()
		b.sum.Cluster = cluster
		bad := &voice{keyOf("mallory"), mallory, b.sum}
		g.prove(t, bad)
		if g.challenged(b) == nil {
			t.Errorf("%s: the honest machine is not challenged", cluster)
		}
	}
}

func TestMovedEndpointLosesItsStatus(t *testing.T) {
	for _, which := range []string{"own", "consensus"} {
		g, b := fleetOfTwo()
		g.prove(t, b)
		saved := b.sum
		if which == "own" {
			b.sum.OwnEndpoint = "10.1.0.2:7000"
		} else {
			b.sum.RaftEndpoint = "10.1.0.2:7000"
		}
		c := g.challenged(b)
		if c == nil || len(g.authenticated()) != 0 {
			t.Fatalf("%s: the proof of the old endpoint still counts", which)
		}
		if _, _, ok := g.Lookup("n-b"); ok {
			t.Errorf("%s: the old endpoint is looked up", which)
		}
		moved := b.sum
		b.sum = saved
		g.hear(b.addr, b.beacon())
		if len(g.authenticated()) != 1 {
			t.Errorf("%s: back at the proven endpoint and not authenticated", which)
		}
		b.sum = moved
		g.prove(t, b)
		fc, raft, ok := g.Lookup("n-b")
		if !ok || fc != moved.OwnEndpoint || raft != moved.RaftEndpoint {
			t.Errorf("%s: after the new proof %q %q %v", which, fc, raft, ok)
		}
	}
}

// TestReusedAddressChangesNobody: a machine of another fleet takes the address
// of a member that is off; the member stays whom its key says, and its new
// address is found when it returns.
func TestReusedAddressChangesNobody(t *testing.T) {
	g, b := fleetOfTwo()
	g.prove(t, b)
	other := newVoice("c-else", "n-x", "n-x", b.addr.String())
	g.after(20 * time.Second)
	g.prove(t, other)
	if p := g.Peers(g.now); len(p) != 1 || p[0].ID != "n-b" || p[0].Key != b.key.Public() {
		t.Errorf("%+v", p)
	}
	back := newVoice("c-office", "n-b", "n-b", "10.1.0.20:50002")
	g.prove(t, back)
	if fc, _, _ := g.Lookup("n-b"); fc != "10.1.0.20:6674" {
		t.Errorf("n-b is at %q", fc)
	}
}

// TestWholeFleetMoved: every address changed while it was down; proven beacons
// are the address book.
func TestWholeFleetMoved(t *testing.T) {
	rigs, l := segment(5, office)
	l.run(2 * time.Second)
	for i, g := range rigs { // started again elsewhere
		g.addr = netip.AddrPortFrom(hostN(5000+i), 50000)
		g.own = map[netip.Addr]bool{g.addr.Addr(): true}
		g.Exchange = New(g.config(fmt.Sprint("again", i)), l.now, Self{summaryOf("c-office", g.self.Node, g.addr.Addr())})
		l.stations[i] = g.station()
	}
	l.run(2 * time.Second)
	for _, g := range rigs {
		for i := range 5 {
			id := fmt.Sprintf("n-%03d", i)
			fc, raft, ok := g.Lookup(id)
			want := netip.AddrPortFrom(hostN(5000+i), 6674).String()
			if id != g.self.Node && (!ok || fc != want || !strings.HasPrefix(raft, hostN(5000+i).String())) {
				t.Errorf("%s looks %s up: %q %q %v", g.self.Node, id, fc, raft, ok)
			}
		}
	}
}

func TestPeerLost(t *testing.T) {
	g, b := fleetOfTwo()
	g.prove(t, b)
	g.hear(from(9), stranger(8).beacon())
	for range 40 {
		g.after(5 * time.Second)
		g.take(g.Tick(g.now))
	}
	e := g.seen(EventPeerLost)
	if len(e) != 1 || e[0].ID != "n-b" || e[0].Key != b.key.Public() || len(g.dir.members)+len(g.dir.strangers) != 0 {
		t.Errorf("%+v", e)
	}
}

func TestAdmittedAfterItsProof(t *testing.T) {
	g, _ := fleetOfTwo()
	v := newVoice("c-office", "n-new", "n-new", "10.1.0.7:50007")
	g.prove(t, v)
	if _, _, ok := g.Lookup("n-new"); ok || len(g.authenticated()) != 0 {
		t.Fatal("authenticated before it was admitted")
	}
	g.roster.keys["n-new"] = v.key.Public()
	if fc, _, ok := g.Lookup("n-new"); !ok || fc != "10.1.0.7:6674" || len(g.authenticated()) != 1 {
		t.Error("the roster holds it now, and it is not authenticated")
	}
	if g.challenged(v) != nil || len(g.dir.strangers) != 0 || len(g.dir.members) != 1 {
		t.Error("its next beacon does not make it a member")
	}
	delete(g.roster.keys, "n-new")
	if len(g.authenticated()) != 0 {
		t.Error("forgotten by the roster and still authenticated")
	}
	g.after(6 * time.Second)
	g.take(g.Tick(g.now))
	if len(g.dir.members) != 0 {
		t.Error("the directory of members holds whom the roster does not know")
	}
}

// TestRosterIdsAreNotDisplaced: a flood of claims displaces no member.
func TestRosterIdsAreNotDisplaced(t *testing.T) {
	g, b := fleetOfTwo()
	g.prove(t, b)
	for i := range 1000 {
		v := newVoice("c-office", []string{"n-b", "n-a2"}[i%2], "mallory", netip.AddrPortFrom(hostN(100+i), 9).String())
		v.sum.Node += strings.Repeat("x", i%2)
		g.hear(v.addr, v.beacon())
	}
	if got := g.authenticated(); len(got) != 1 || len(g.dir.strangers) > 64 || len(g.dir.members) != 1 {
		t.Errorf("authenticated %v, %d strangers, %d members", got, len(g.dir.strangers), len(g.dir.members))
	}
}

// TestCopyOfAPeer: one key that proves two endpoints in turns is two machines;
// one that moved, even there and back, is one.
func TestCopyOfAPeer(t *testing.T) {
	g, b := fleetOfTwo()
	twin := newVoice("c-office", "n-b", "n-b", "10.1.0.3:50003")
	turns := []*voice{b, twin, b}
	for _, v := range turns {
		g.after(10 * time.Second)
		g.prove(t, v)
	}
	if len(g.seen(EventPeerCloned)) != 0 {
		t.Error("there and back is called a copy")
	}
	for _, v := range []*voice{twin, b, twin} {
		g.after(10 * time.Second)
		g.prove(t, v)
	}
	e := g.seen(EventPeerCloned)
	if len(e) != 1 || e[0].ID != "n-b" || !strings.Contains(e[0].Reason, "10.1.0.2:6674") || !strings.Contains(e[0].Reason, "10.1.0.3:6674") {
		t.Errorf("%+v", e)
	}
}

// TestCopiesOfAPeer: three machines under one key are seen as well as two.
func TestCopiesOfAPeer(t *testing.T) {
	g, b := fleetOfTwo()
	second, third := newVoice("c-office", "n-b", "n-b", "10.1.0.3:50003"), newVoice("c-office", "n-b", "n-b", "10.1.0.4:50003")
	for range 3 {
		for _, v := range []*voice{b, second, third} {
			g.after(5 * time.Second)
			g.prove(t, v)
		}
	}
	if e := g.seen(EventPeerCloned); len(e) == 0 {
		t.Error("three machines under one key are one")
	}
}

// TestMachineThatChangesPorts: a machine that is restarted again and again under ports of the kernel's choice, and becomes a
// voter and a learner meanwhile, is one machine; each change is another endpoint, and none is one that it had before.
func TestMachineThatChangesPorts(t *testing.T) {
	g, b := fleetOfTwo()
	host, _, _ := strings.Cut(b.sum.OwnEndpoint, ":")
	for i := range 12 {
		if i%2 == 0 {
			b.sum.OwnEndpoint = fmt.Sprint(host, ":", 40000+i)
		}
		b.sum.RaftEndpoint = []string{"", host + ":6680"}[i%2]
		g.after(4 * time.Second)
		g.prove(t, b)
	}
	if e := g.seen(EventPeerCloned); len(e) != 0 {
		t.Errorf("%+v", e)
	}
}

func TestForeignSpeakers(t *testing.T) {
	g := spoken(0)
	for i := range 3 {
		v := newVoice("c-else", fmt.Sprint("n-", i), fmt.Sprint("k", i), netip.AddrPortFrom(hostN(i+1), 9).String())
		g.after(time.Second)
		g.prove(t, v)
	}
	got := g.ForeignSpeakers(g.now)
	if len(got) != 3 || got[0].Node != "n-2" || got[2].Node != "n-0" || got[0].Key != keyOf("k2").Public() || got[0].Cluster != "c-else" {
		t.Errorf("%+v", got)
	}
	if f := g.Foreign(g.now); len(f) != 1 || f[0].Speakers != 3 || f[0].Key != keyOf("k2").Public() {
		t.Errorf("%+v", f)
	}
	if got := g.ForeignSpeakers(g.now.Add(89 * time.Second)); len(got) != 2 {
		t.Errorf("%d speakers after 89 s", len(got))
	}
	g.after(100 * time.Second)
	g.take(g.Tick(g.now))
	if len(g.Foreign(g.now)) != 0 || len(g.proven.fleets) != 0 {
		t.Error("not forgotten")
	}
}

// TestRosterOutOfRange: a verdict that is none is none.
func TestRosterOutOfRange(t *testing.T) {
	g, b := fleetOfTwo()
	g.cfg.Roster = func(string, identity.PublicKey) RosterVerdict { return 77 }
	g.prove(t, b)
	if len(g.authenticated()) != 0 || g.Count(CountRefusedUnknownKey) != 1 {
		t.Error("an unknown verdict admits")
	}
}
