package discovery

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"pace-node/internal/wire"
)

// checkSockets: which kind arrives on which socket, every cell.
func checkSockets() error {
	a := newRig("n-a", "c-office", "10.1.0.1:50001", newRoster("n-b"))
	b := newVoice("c-office", "n-b", "n-b", "10.1.0.2:50002")
	challenge, _ := wire.EncodeChallenge("c-else", [32]byte{1}, 400)
	proof := b.answerForged([32]byte{})
	for _, row := range []struct {
		on       Socket
		datagram []byte
		accepted bool
	}{
		{SocketListener, b.beacon(), true},
		{SocketListener, challenge, false},
		{SocketListener, proof, false},
		{SocketAnswering, b.beacon(), false},
		{SocketAnswering, challenge, true},
		{SocketAnswering, proof, true},
		{sockets, b.beacon(), false},
	} {
		before := a.Count(CountDatagramsMalformed)
		a.Handle(a.now, row.on, b.addr, a.addr.Addr(), row.datagram)
		if got := a.Count(CountDatagramsMalformed) == before; got != row.accepted {
			return fmt.Errorf("kind %d on socket %d: accepted %v", row.datagram[2], row.on, got)
		}
	}
	return nil
}

func TestSockets(t *testing.T) {
	if err := checkSockets(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationSockets(t *testing.T) {
	for s := range accepts {
		saved := accepts[s]
		for _, k := range []wire.Kind{wire.KindBeacon, wire.KindChallenge, wire.KindProof} {
			var flipped []wire.Kind
			has := false
			for _, a := range saved {
				if has = has || a == k; a != k {
					flipped = append(flipped, a)
				}
			}
			if !has {
				flipped = append(flipped, k)
			}
			accepts[s] = flipped
			if checkSockets() == nil {
				t.Errorf("%s on socket %d flipped goes unnoticed", k, s)
			}
			accepts[s] = saved
		}
	}
}

func TestJunk(t *testing.T) {
	g, b := fleetOfTwo()
	beacon := b.beacon()
	for _, row := range []struct {
		what    string
		from    netip.AddrPort
		b       []byte
		version bool
	}{
		{"empty", b.addr, nil, false},
		{"one byte", b.addr, []byte{0xFD}, false},
		{"wrong magic", b.addr, append([]byte{0xFC}, beacon[1:]...), false},
		{"version 2", b.addr, append([]byte{0xFD, 2}, beacon[2:]...), true},
		{"version 4, cut", b.addr, []byte{0xFD, 4}, true},
		{"unknown kind", b.addr, append([]byte{0xFD, 3, 9}, beacon[3:]...), false},
		{"a byte too many", b.addr, append(append([]byte(nil), beacon...), 0), false},
		{"a byte missing", b.addr, beacon[:len(beacon)-1], false},
		{"no address", netip.AddrPort{}, beacon, false},
		{"no port", netip.AddrPortFrom(b.addr.Addr(), 0), beacon, false},
		{"from a group", netip.MustParseAddrPort("224.0.0.1:9"), beacon, false},
		{"from everybody", netip.MustParseAddrPort("255.255.255.255:9"), beacon, false},
		{"from the loopback's everybody", netip.MustParseAddrPort("127.255.255.255:9"), beacon, false},
		{"from nobody", netip.MustParseAddrPort("0.0.0.0:9"), beacon, false},
	} {
		mal, ver := g.Count(CountDatagramsMalformed), g.Count(CountDatagramsRefusedVersion)
		out := g.Handle(g.now, SocketListener, row.from, netip.Addr{}, row.b)
		mal, ver = g.Count(CountDatagramsMalformed)-mal, g.Count(CountDatagramsRefusedVersion)-ver
		if len(out.Send) != 0 || mal+ver != 1 || (ver == 1) != row.version {
			t.Errorf("%s: %d malformed, %d of another version, %d answers", row.what, mal, ver, len(out.Send))
		}
		for _, e := range out.Events {
			if e.Kind != EventVersionSeen || e.Version != 2 || e.From != row.from {
				t.Errorf("%s: %+v", row.what, e)
			}
		}
	}
	if got := len(g.Peers(g.now)); got != 0 {
		t.Errorf("%d peers of junk", got)
	}
}

// TestDirectedBroadcastIsNoSource: an answer to it would be answered by all.
func TestDirectedBroadcastIsNoSource(t *testing.T) {
	g, b := fleetOfTwo()
	all := netip.MustParseAddrPort("10.1.0.255:6682")
	g.cfg.Broadcast = func(a netip.Addr) bool { return a == all.Addr() }
	if sent := g.hear(all, b.beacon()); len(sent) != 0 || g.Count(CountDatagramsMalformed) != 1 {
		t.Error("a beacon from the segment's broadcast address was challenged")
	}
	out := g.Handle(g.now, SocketListener, b.addr, all.Addr(), b.beacon())
	if len(out.Send) != 1 || out.Send[0].Local.IsValid() {
		t.Errorf("an answer leaves from %v", out.Send)
	}
}

// TestAnswersLeaveFromTheAddressAsked: the cookie binds the source of the beacon.
func TestAnswersLeaveFromTheAddressAsked(t *testing.T) {
	g, b := fleetOfTwo()
	local := netip.MustParseAddr("10.1.0.5")
	out := g.Handle(g.now, SocketListener, b.addr, netip.MustParseAddr("::ffff:10.1.0.5"), b.beacon())
	if len(out.Send) != 1 || out.Send[0].Local != local || out.Send[0].To != b.addr {
		t.Errorf("challenge: %+v", out.Send)
	}
	challenge, _ := wire.EncodeChallenge("c-else", [32]byte{1}, 400)
	out = g.Handle(g.now, SocketAnswering, netip.MustParseAddrPort("[::ffff:10.1.0.2]:9"), local, challenge)
	if len(out.Send) != 1 || out.Send[0].Local != local || out.Send[0].To != netip.MustParseAddrPort("10.1.0.2:9") {
		t.Errorf("proof: %+v", out.Send)
	}
}

// TestNoAmplification: what is larger than its question is not sent, and not
// signed, whatever it would have cost the budget.
func TestNoAmplification(t *testing.T) {
	g, b := fleetOfTwo()
	proof := wire.ProofSize(len(g.raw))
	for _, row := range []struct {
		size int
		sent bool
	}{{proof - 1, false}, {proof, true}, {proof + 1, true}} {
		tokens := g.budgets[workAnswer].shared.credit
		withheld := g.Count(CountRepliesWithheld)
		challenge, ok := wire.EncodeChallenge("c-else", [32]byte{1}, row.size)
		if !ok {
			t.Fatal("no challenge of that size")
		}
		sent := g.get(b.addr, challenge)
		if (len(sent) == 1) != row.sent || (g.Count(CountRepliesWithheld) == withheld) != row.sent {
			t.Errorf("challenge of %d bytes, proof of %d: %d answers", row.size, proof, len(sent))
		}
		if spent := g.budgets[workAnswer].shared.credit != tokens; spent != row.sent {
			t.Errorf("challenge of %d bytes: budget spent = %v", row.size, spent)
		}
		if row.sent && len(sent[0].Bytes) > row.size {
			t.Errorf("%d bytes for %d", len(sent[0].Bytes), row.size)
		}
	}
	// A beacon without padding is smaller than the challenge of a long cluster id.
	long := newRig("n-a", strings.Repeat("c", 64), "10.1.0.1:50001", nil)
	s := wire.Summary{Cluster: "c", State: wire.StateSolitary}
	raw := wire.AppendSummary(nil, &s)
	unpadded := wire.AppendField(wire.AppendField(nil, raw), nil)
	datagram := append([]byte{0xFD, 3, 1, 0, 0, 0, byte(len(unpadded))}, unpadded...)
	if sent := long.hear(b.addr, datagram); len(sent) != 0 || long.Count(CountRepliesWithheld) != 1 || long.cookies.next != 0 {
		t.Errorf("a beacon of %d bytes: %d answers, %d cookies", len(datagram), len(sent), long.cookies.next)
	}
	// Between honest nodes all three have one length.
	c := g.challenged(b)
	if p := b.answer(t, c); len(b.beacon()) != len(c) || len(c) != len(p) {
		t.Errorf("beacon %d, challenge %d, proof %d bytes", len(b.beacon()), len(c), len(p))
	}
}

func TestOwnID(t *testing.T) {
	g, _ := fleetOfTwo()
	own := newVoice("c-office", "n-a", "n-a", g.addr.String())
	if g.challenged(own) != nil || g.Count(CountBeaconsHeard) != 0 {
		t.Error("it challenges or counts itself")
	}
	// A copy elsewhere, which holds the key: the condition, and no directory entry.
	clone := newVoice("c-office", "n-a", "n-a", "10.1.0.9:50009")
	g.prove(t, clone)
	e := g.seen(EventSelfCloned)
	if len(e) != 1 || e[0].From != clone.addr || e[0].ID != "n-a" || !strings.Contains(e[0].Reason, "--reset-identity") {
		t.Errorf("%+v", e)
	}
	if len(g.Peers(g.now)) != 0 || len(g.seen(EventPeerProven)) != 0 {
		t.Error("a copy became a peer")
	}
	// It speaks for another cluster: as much a copy.
	g.after(time.Minute + 1)
	clone.sum = summaryOf("c-else", "n-a", clone.addr.Addr())
	g.prove(t, clone)
	if len(g.seen(EventSelfCloned)) != 2 || len(g.seen(EventForeignProven)) != 0 {
		t.Error("a copy in another cluster was handed to formation")
	}
	// Somebody who only claims the id cannot raise it.
	g.after(time.Minute + 1)
	g.prove(t, newVoice("c-office", "n-a", "mallory", mallory.String()))
	if len(g.seen(EventSelfCloned)) != 2 || len(g.seen(EventUnknownKey)) != 1 {
		t.Error("a claim of the id alone was taken for a copy, or not reported")
	}
}

// TestOwnIDUnderANewAddress: a node that hears itself under an address that it
// does not know yet asks once, recognizes its own question and says nothing.
func TestOwnIDUnderANewAddress(t *testing.T) {
	g, _ := fleetOfTwo()
	moved := netip.MustParseAddrPort("10.1.0.7:50001")
	sent := g.hear(moved, g.beacon)
	if len(sent) != 1 {
		t.Fatal("not asked")
	}
	if sent := g.get(moved, sent[0].Bytes); len(sent) != 0 {
		t.Error("it answers itself")
	}
	if len(g.events) != 0 {
		t.Errorf("%+v", g.events)
	}
}

func TestWithheldSummary(t *testing.T) {
	for _, row := range []struct {
		what     string
		change   func(*wire.Summary)
		loopback bool
		reason   string // empty: announced
	}{
		{"sound", func(*wire.Summary) {}, false, ""},
		{"no endpoints", func(s *wire.Summary) { s.OwnEndpoint, s.RaftEndpoint = "", "" }, false, ""},
		{"own loopback", func(s *wire.Summary) { s.OwnEndpoint = "127.0.0.1:6674" }, false, "own 0xFC endpoint 127.0.0.1:6674"},
		{"own loopback by name", func(s *wire.Summary) { s.OwnEndpoint = "LocalHost.:6674" }, false, "own 0xFC endpoint"},
		{"own loopback, the demo", func(s *wire.Summary) { s.OwnEndpoint = "127.0.0.1:6674" }, true, ""},
		{"consensus wildcard", func(s *wire.Summary) { s.RaftEndpoint = "0.0.0.0:6680" }, false, "consensus endpoint 0.0.0.0:6680"},
		{"consensus wildcard, the demo", func(s *wire.Summary) { s.RaftEndpoint = "[::]:6680" }, true, "consensus endpoint [::]:6680"},
		{"leader loopback", func(s *wire.Summary) { s.Leader.Endpoint = "[::1]:6674" }, false, "leader's endpoint [::1]:6674"},
		{"mapped loopback", func(s *wire.Summary) { s.OwnEndpoint = "[::ffff:127.0.0.1]:6674" }, false, "own 0xFC endpoint"},
		{"pointer loopback", func(s *wire.Summary) {
			s.State, s.Leader, s.Pointer = wire.StatePending, wire.Leader{}, wire.Leader{Endpoint: "127.0.0.2:1"}
		}, false, "endpoint of the leader that was asked 127.0.0.2:1"},
		{"too large", func(s *wire.Summary) {
			s.OwnEndpoint = strings.Repeat("a", 600) + ":1"
			s.RaftEndpoint = strings.Repeat("b", 600) + ":1"
		}, false, "does not fit"},
	} {
		g, b := fleetOfTwo()
		g.cfg.Loopback = row.loopback
		s := summaryOf("c-office", "n-a", g.addr.Addr())
		row.change(&s)
		g.SetSelf(g.now, Self{s})
		g.after(time.Second)
		out := g.Tick(g.now)
		events := append([]Event(nil), out.Events...)
		challenge, _ := wire.EncodeChallenge("c-else", [32]byte{1}, 1200)
		answers := len(g.get(b.addr, challenge))
		if announced := out.Beacon != nil; announced != (row.reason == "") || announced != (answers == 1) || announced != (g.Count(CountBeaconsSent) == 1) {
			t.Errorf("%s: beacon %v, %d answers", row.what, announced, answers)
		}
		if row.reason == "" {
			continue
		}
		if len(events) != 1 || events[0].Kind != EventSummaryWithheld || !strings.HasPrefix(events[0].Reason, row.reason) && !strings.Contains(events[0].Reason, row.reason) || !strings.Contains(events[0].Reason, "--advertise") {
			t.Errorf("%s: %+v", row.what, events)
		}
		if g.Count(CountRepliesWithheld) != 1 {
			t.Errorf("%s: an answer withheld is not counted", row.what)
		}
		// It still learns about others, and says why it is silent once a minute.
		if g.challenged(b) == nil {
			t.Errorf("%s: it challenges nobody", row.what)
		}
		n := 0
		for range 20 {
			g.after(4 * time.Second)
			for _, e := range g.Tick(g.now).Events {
				if e.Kind == EventSummaryWithheld {
					n++
				}
			}
		}
		if n != 1 {
			t.Errorf("%s: %d more lines in 80 s", row.what, n)
		}
	}
}

// TestEndpointsOfOthers: no table ever holds a loopback or wildcard endpoint of
// a machine elsewhere.
func TestEndpointsOfOthers(t *testing.T) {
	for _, row := range []struct {
		endpoint, source string
		loopback, ok     bool
	}{
		{"10.1.0.2:6674", "10.1.0.2:9", false, true},
		{"office-b:6674", "10.1.0.2:9", false, true},
		{"9node.test:6674", "10.1.0.2:9", false, true},
		{"127.0.0.1:6674", "10.1.0.2:9", false, false},
		{"127.0.0.1:6674", "10.1.0.2:9", true, false},
		{"127.0.0.1:6674", "127.0.0.1:9", false, false},
		{"127.0.0.1:6674", "127.0.0.1:9", true, true},
		{"0.0.0.0:6674", "127.0.0.1:9", true, false},
		{"[::]:6674", "10.1.0.2:9", false, false},
		{"[::1]:6674", "10.1.0.2:9", false, false},
		{"localhost:6674", "10.1.0.2:9", false, false},
		{"a.localhost:6674", "10.1.0.2:9", false, false},
		{"localhost.localdomain:6674", "10.1.0.2:9", false, false},
		{"127.1:6674", "10.1.0.2:9", false, false},
		{"0:6674", "10.1.0.2:9", false, false},
		{"0x7f000001:6674", "10.1.0.2:9", false, false},
		{"2130706433:6674", "10.1.0.2:9", false, false},
		{"255.255.255.255:6674", "10.1.0.2:9", false, false},
		{"224.0.0.1:6674", "10.1.0.2:9", false, false},
	} {
		for field := range 3 {
			g, _ := fleetOfTwo()
			g.cfg.Loopback = row.loopback
			v := newVoice("c-office", "n-b", "n-b", "10.1.0.2:50002")
			v.addr = netip.MustParseAddrPort(row.source)
			switch field {
			case 0:
				v.sum.OwnEndpoint = row.endpoint
			case 1:
				v.sum.RaftEndpoint = row.endpoint
			case 2:
				v.sum.Leader.Endpoint = row.endpoint
			}
			challenged := g.challenged(v) != nil
			if challenged != row.ok || (len(g.Peers(g.now)) == 1) != row.ok || (g.Count(CountDatagramsMalformed) == 0) != row.ok {
				t.Errorf("%s from %s in field %d, loopback=%v: accepted %v", row.endpoint, row.source, field, row.loopback, challenged)
			}
		}
	}
}

func TestAdmitLine(t *testing.T) {
	for _, row := range []struct {
		id, raft, own, from, want string
	}{
		{"n-b", "10.1.0.2:6680", "10.1.0.2:6674", "10.1.0.2", "--cluster-admit=n-b=10.1.0.2:6680@KEY"},
		{"n-b", "", "pc-7:6674", "10.1.0.2", "--cluster-admit=n-b=pc-7:6680@KEY"},
		{"n-b", "", "[fd00::7]:6674", "10.1.0.2", "--cluster-admit=n-b=[fd00::7]:6680@KEY"},
		{"n-b", "", "", "10.1.0.2", "--cluster-admit=n-b=10.1.0.2:6680@KEY"},
		{"n-b", "", "", "fd00::7", "--cluster-admit=n-b=[fd00::7]:6680@KEY"},
		{"", "10.1.0.2:6680", "", "10.1.0.2", ""},
		{"$(touch pwned)", "10.1.0.2:6680", "", "10.1.0.2", ""},
		{"x'; touch pwned; '", "10.1.0.2:6680", "", "10.1.0.2", ""},
		{"n-b", "$(x):6680", "", "10.1.0.2", ""},
		{"n-b", "a;b:6680", "", "10.1.0.2", ""},
		{"n-b", "", "ümlaut:6674", "10.1.0.2", ""},
	} {
		s := wire.Summary{Node: row.id, RaftEndpoint: row.raft, OwnEndpoint: row.own}
		if got := admitLine(&s, "KEY", netip.MustParseAddr(row.from)); got != row.want {
			t.Errorf("%q %q %q: got %q, want %q", row.id, row.raft, row.own, got, row.want)
		}
	}
}

// TestBeaconsBroughtForward: one extra beacon within 250 ms for a newcomer, at
// most one in 2 s however many there are, none for who was proven lately.
func TestBeaconsBroughtForward(t *testing.T) {
	g := newRig("n-a", "c-office", "10.1.0.1:50001", newRoster("n-x1"))
	var sent []time.Duration
	run := func(d time.Duration) {
		for end := g.now.Add(d); g.now.Before(end); g.after(time.Millisecond) {
			if g.Tick(g.now).Beacon != nil {
				sent = append(sent, g.now.Sub(epochStart))
			}
		}
	}
	run(time.Second)
	if len(sent) != 1 || sent[0] > 250*time.Millisecond {
		t.Fatalf("at the start: %v", sent)
	}
	for i := range 30 { // one newcomer each 100 ms: a member, strangers, foreign ones
		v := stranger(i)
		if i%3 == 2 {
			v = newVoice(fmt.Sprint("c-", i), "n", fmt.Sprint("k", i), netip.AddrPortFrom(hostN(i+1), 9).String())
		}
		g.prove(t, v)
		run(100 * time.Millisecond)
	}
	run(4 * time.Second)
	if len(sent) != 4 && len(sent) != 3 {
		t.Errorf("%d beacons for thirty newcomers in 3 s: %v", len(sent)-1, sent)
	}
	if first := sent[1] - time.Second; first > 250*time.Millisecond {
		t.Errorf("the first came %v after the proof", first)
	}
	for i := 2; i < len(sent); i++ {
		if gap := sent[i] - sent[i-1]; gap < 2*time.Second || gap > 2500*time.Millisecond {
			t.Errorf("%v between two", gap)
		}
	}
	// Proven again after 61 s: the next beacon keeps its time.
	g.now = epochStart.Add(70 * time.Second)
	g.take(g.Tick(g.now))
	at := g.Next(g.now)
	g.prove(t, stranger(1))
	if e := g.seen(EventPeerProven); len(e) != 2 || !e[0].First || e[1].First || g.Next(g.now) != at {
		t.Error("a peer that was proven lately brought a beacon forward")
	}
	// Not heard for 90 s: first again.
	g.after(91 * time.Second)
	g.prove(t, stranger(1))
	if e := g.seen(EventPeerProven); !e[2].First || g.beaconAt.Sub(g.now) > 250*time.Millisecond {
		t.Error("a peer that returned brought no beacon forward")
	}
}

// TestMoreFleetsThanRemembered: on a segment of more fleets than the table holds each is proven anew at each of its
// beacons, and yet none of them is a newcomer: the next beacon keeps its time.
func TestMoreFleetsThanRemembered(t *testing.T) {
	g := spoken(0)
	var all []*voice
	for i := range 40 {
		name := fmt.Sprintf("x%02d", i)
		all = append(all, newVoice("c-"+name, "n-"+name, "n-"+name, fmt.Sprintf("10.1.1.%d:5000", 1+i)))
	}
	for _, v := range all {
		g.after(10 * time.Millisecond)
		g.prove(t, v)
	}
	g.after(2500 * time.Millisecond)
	g.take(g.Tick(g.now)) // the one that the newcomers brought forward
	at := g.beaconAt
	if at.Sub(g.now) < 13*time.Second {
		t.Fatalf("the next beacon is due in %v", at.Sub(g.now))
	}
	again := 0
	for _, v := range all {
		g.after(10 * time.Millisecond)
		if c := g.challenged(v); c != nil {
			again++
			g.get(v.addr, v.answer(t, c))
		}
	}
	if again < 40-16 {
		t.Errorf("only %d were challenged again", again)
	}
	if !g.beaconAt.Equal(at) {
		t.Errorf("who gave way in a full table brought a beacon forward, to %v", g.beaconAt.Sub(g.now))
	}
}

func TestSetSelf(t *testing.T) {
	g, b := fleetOfTwo()
	g.take(g.Tick(g.now.Add(time.Second)))
	at := g.Next(g.now)
	s := summaryOf("c-new", "n-a", g.addr.Addr())
	s.Members = nil
	for i := range 30 {
		s.Members = append(s.Members, strings.Repeat("m", 60)+fmt.Sprint(i))
	}
	s.Total = 30
	g.SetSelf(g.now, Self{s})
	if g.Next(g.now) != at {
		t.Error("a changed summary alone brought a beacon forward")
	}
	if len(s.Members) != 30 {
		t.Error("the caller's members were cut")
	}
	if c := g.challenged(b); decodeChallenge(t, c).Cluster != "c-new" {
		t.Error("it challenges under the old cluster")
	}
	if len(g.beacon) > wire.MaxDatagram || len(g.beacon) != wire.ProofSize(len(g.raw)) {
		t.Errorf("a beacon of %d bytes", len(g.beacon))
	}
	g.SetSelf(g.now, Self{})
	out := g.Tick(g.now.Add(time.Hour))
	if out.Beacon != nil || len(out.Events) != 0 || g.challenged(b) != nil {
		t.Error("without a summary it speaks")
	}
}

// checkEvents: which kinds are dampened.
func checkEvents() error {
	dampened := []EventKind{EventUnknownKey, EventRevokedKey, EventForged, EventVersionSeen, EventSummaryWithheld,
		EventSelfCloned, EventPeerCloned, EventBudgetAnswer, EventBudgetCheck, EventBudgetChallenge}
	whole := []EventKind{EventForeignProven, EventPeerProven, EventPeerLost}
	if len(dampened)+len(whole) != int(eventKinds)-1 {
		return errors.New("a kind is not in this test")
	}
	for _, kinds := range [][]EventKind{dampened, whole} {
		for _, k := range kinds {
			g := spoken(0)
			at := g.now
			for i := range 10 {
				g.begin(at)
				g.say(at, Event{Kind: k, From: from(i)})
				g.take(g.out)
				at = at.Add(time.Second)
			}
			if k.String() == "unknown" {
				return fmt.Errorf("kind %d has no name", k)
			}
			if len(kinds) == len(whole) {
				if err := wantEqual(k.String(), len(g.seen(k)), 10); err != nil {
					return err
				}
				continue
			}
			if err := wantEqual(k.String(), len(g.seen(k)), 1); err != nil {
				return err
			}
			// What was held back is said when the minute is over, with its number.
			if err := wantEqual(k.String()+" wants a tick", !g.Next(at).After(at.Add(50*time.Second)), true); err != nil {
				return err
			}
			g.take(g.Tick(at.Add(51 * time.Second)))
			e := g.seen(k)
			if len(e) < 2 || e[1].Count != 9 || e[1].From != from(9) {
				return fmt.Errorf("%s: the rest is %+v", k, e)
			}
		}
	}
	return nil
}

func TestEvents(t *testing.T) {
	if err := checkEvents(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationEvents(t *testing.T) {
	for k := EventKind(1); k < eventKinds; k++ {
		saved := eventRows[k]
		eventRows[k].Dampened = !saved.Dampened
		if checkEvents() == nil {
			t.Errorf("%s flipped goes unnoticed", saved.Name)
		}
		eventRows[k] = saved
	}
}

// TestNothingPrintedBeforeProof: of all that an unproven source sends, events
// hold its address alone.
func TestNothingPrintedBeforeProof(t *testing.T) {
	g, _ := fleetOfTwo()
	bare := func(e Event) bool {
		e.Kind, e.From, e.Count, e.Version = 0, netip.AddrPort{}, 0, 0
		return reflect.ValueOf(e).IsZero()
	}
	for i := range 300 {
		v := newVoice([]string{"c-office", "c-else"}[i%2], "n-b", "mallory", netip.AddrPortFrom(hostN(i+1), 9).String())
		c := g.challenged(v)
		g.hear(v.addr, []byte{0xFD, 1})
		if c != nil {
			g.get(v.addr, v.answerAs(t, c, keyOf("x"), v.key.Public()))
			g.get(v.addr, c)
		}
	}
	kinds := map[EventKind]bool{}
	for _, e := range g.events {
		kinds[e.Kind] = true
		if !bare(e) {
			t.Errorf("%+v", e)
		}
	}
	if !kinds[EventForged] || !kinds[EventBudgetChallenge] || !kinds[EventVersionSeen] {
		t.Errorf("kinds seen: %v", kinds)
	}
}
