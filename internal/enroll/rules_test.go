package enroll

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// asID is the sound request of machine n under another id.
func asID(id string, n int) Request {
	r := request(n)
	r.ID = id
	return sign(r, n)
}

// Every request is counted, whatever becomes of it; a rejected one that asks on is seen to.
func TestRequestsAreCounted(t *testing.T) {
	d := newDesk(t)
	d.pending(sound(1))
	if _, err := d.l.Reject(d.now, "n-1", nil); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if j := d.judge(sound(1)); j.Outcome != wire.OutcomeRejected {
			t.Fatalf("%+v", j)
		}
	}
	d.judge(Request{})
	if got := d.l.Count(CountRequests); got != 5 {
		t.Errorf("%d requests counted, want 5", got)
	}
	if got := d.row(1).Attempts; got != 4 {
		t.Errorf("%d attempts shown, want 4", got)
	}
}

// What is as long as it may be is taken.
func TestLongestTexts(t *testing.T) {
	d := newDesk(t)
	r := request(1)
	r.Endpoint = strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + "." + strings.Repeat("c", 63) + "." + strings.Repeat("d", 61) + ":65535"
	r.Name, r.Platform, r.Version = strings.Repeat("n", 255), strings.Repeat("p", 64), strings.Repeat("v", 64)
	d.pending(sign(r, 1))
	r = request(2)
	r.Name = strings.Repeat("n", 256)
	if j := d.judge(sign(r, 2)); j.Refusal != RefusalText {
		t.Errorf("a name of 256 bytes: %+v", j)
	}
}

// Loopback and wildcard have many spellings, and every other machine would reach itself by each.
func TestSpellingsOfHere(t *testing.T) {
	d := newDesk(t)
	for _, endpoint := range []string{"127.0.0.1:6674", "127.9.9.9:6674", "[::1]:6674", "[::ffff:127.0.0.1]:6674", "0.0.0.0:6674", "[::]:6674", "[::ffff:0.0.0.0]:6674",
		"localhost:6674", "LocalHost:6674", "localhost.:6674", "pc.localhost:6674"} {
		r := request(1)
		r.Endpoint = endpoint
		if j := d.judge(sign(r, 1)); j.Refusal != RefusalEndpointHere {
			t.Errorf("%s: %+v", endpoint, j)
		}
	}
	r := request(2)
	r.Endpoint = "localhost.example:6674"
	d.pending(sign(r, 2))
	if d.row(2).EndpointDiffers {
		t.Error("a name is no other address than the source")
	}
}

// The setting enrollment.per-source is obeyed down to one.
func TestOneASourceNetwork(t *testing.T) {
	d := newDesk(t)
	d.l.cfg.PerSource = func() int { return 1 }
	d.pending(sound(1))
	r := sound(2)
	r.Source = hostOfNode(1)
	if j := d.judge(r); j.Refusal != RefusalSource || !strings.Contains(j.Err.Text, "enrollment.per-source") {
		t.Errorf("a second one: %+v", j)
	}
}

// Whoever is approved ahead while it waits stands in the list as approved, outside the sixty-four, and would be answered pending
// with a challenge nobody guesses if its admission failed.
func TestPreApprovedRow(t *testing.T) {
	d := newDesk(t)
	d.pending(sound(1))
	d.f.PreApproved = func(id string, key identity.PublicKey) bool { return id == "n-1" && key == keyOf(1) }
	j := d.judge(sound(1))
	if j.Outcome != wire.OutcomeApproved || !j.Admit || j.Auto || j.Challenge == [32]byte{} {
		t.Fatalf("%+v", j)
	}
	if r := d.row(1); r.Decision != ApprovedManually || d.l.Waiting() != 0 {
		t.Errorf("%+v", r)
	}
	if _, ok := d.l.Challenge(j.Row); ok {
		t.Error("an approved row has a pending answer's challenge")
	}
	d.l.Failed(d.now, j.Row)
	d.l.Failed(d.now, RowID{"nobody", keyOf(9)})
	if d.row(1).Decision != Waiting {
		t.Error("whose admission failed waits no more")
	}
}

// One key under two ids that both wait: nobody was rejected, so neither is marked.
func TestOneKeyTwoIDs(t *testing.T) {
	d := newDesk(t)
	d.pending(sound(1))
	d.pending(asID("n-0", 1))
	for _, r := range d.l.Rows(d.now) {
		if r.KeyRejected {
			t.Errorf("%+v", r)
		}
	}
}

// A row says whose name it bears as long as it bears it.
func TestNameOfIsAsItWasSaidLast(t *testing.T) {
	d := newDesk(t)
	d.f.MemberNamed = func(name string) (string, time.Time, bool) { return "m-9", d.now, name == "pc-1" }
	j := d.pending(sound(1))
	if d.row(1).NameOf != "m-9" {
		t.Fatalf("%+v", d.row(1))
	}
	r := request(1)
	r.Name, r.Challenge, r.HasChallenge = "another", j.Challenge, true
	d.pending(sign(r, 1))
	if got := d.row(1); got.Name != "another" || got.NameOf != "" || !got.NameHeard.IsZero() {
		t.Errorf("%+v", got)
	}
}

// An undecided row unheard for ten minutes is gone for whoever decides, also where no beat came in between.
func TestNobodyDecidesOnWhoIsGone(t *testing.T) {
	for what, decide := range map[string]func(*desk) error{
		"approve": func(d *desk) error { _, err := d.l.Approve(d.now, "n-1", keyOf(1)); return err },
		"reject":  func(d *desk) error { _, err := d.l.Reject(d.now, "n-1", nil); return err },
		"window": func(d *desk) error {
			if admit, err := d.l.Arm(d.now, time.Hour); err != nil || len(admit) != 0 {
				return err
			}
			return ErrNoRow
		},
	} {
		d := newDesk(t)
		d.pending(sound(1))
		d.now = d.now.Add(10 * time.Minute)
		if err := decide(d); !errors.Is(err, ErrNoRow) {
			t.Errorf("%s: %v, want ErrNoRow", what, err)
		}
	}
}

// Reject by an id alone means the one that waits: neither who is rejected already nor who is approved stands in the way.
func TestRejectByID(t *testing.T) {
	d := newDesk(t)
	d.pending(sound(1))
	if _, err := d.l.Reject(d.now, "n-1", nil); err != nil {
		t.Fatal(err)
	}
	d.pending(asID("n-1", 2))
	if _, err := d.l.Approve(d.now, "n-1", keyOf(2)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.l.Reject(d.now, "n-1", nil); !errors.Is(err, ErrDecided) {
		t.Errorf("approved alone: %v", err)
	}
	d.pending(asID("n-1", 3))
	if got, err := d.l.Reject(d.now, "n-1", nil); err != nil || !slices.Equal(got, []RowID{{"n-1", keyOf(3)}}) {
		t.Errorf("%v, %v", got, err)
	}
}

// Whoever leads no more keeps no row, decided ones neither.
func TestDropKeepsNoRow(t *testing.T) {
	d := newDesk(t)
	d.pending(sound(1))
	d.pending(sound(2))
	if _, err := d.l.Reject(d.now, "n-2", nil); err != nil {
		t.Fatal(err)
	}
	d.l.Drop()
	if rows := d.l.Rows(d.now); len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
}

// A row is heard when its stream opens and when it ends; two ends of one stream are one.
func TestStreamsAreHeard(t *testing.T) {
	d := newDesk(t)
	j := d.pending(sound(1))
	alive := func(when string) {
		t.Helper()
		d.now = d.now.Add(10*time.Minute - 1)
		if expired, _ := d.l.Tick(d.now); len(expired) != 0 {
			t.Fatalf("gone ten minutes after its request, though its stream %s since", when)
		}
	}
	d.now = d.now.Add(9 * time.Minute)
	d.l.Opened(d.now, j.Row)
	d.l.Closed(d.now, j.Row)
	alive("opened and ended")
	d.l.Opened(d.now, j.Row)
	d.now = d.now.Add(time.Hour)
	d.l.Closed(d.now, j.Row)
	d.l.Closed(d.now, j.Row)
	alive("ended")
	d.l.Opened(d.now, j.Row)
	d.now = d.now.Add(time.Hour)
	if expired, repeat := d.l.Tick(d.now); len(expired) != 0 || len(repeat) != 1 {
		t.Errorf("an open stream: expired %v, repeated %v", expired, repeat)
	}
}

// Next names the moment at which the first thing is due, and never one that is past.
func TestNextIsWhatIsDueFirst(t *testing.T) {
	d := newDesk(t)
	due := func(what string, want time.Duration) {
		t.Helper()
		if got := d.l.Next(d.now).Sub(d.now); got != want {
			t.Errorf("%s: in %s, want %s", what, got, want)
		}
	}
	due("nothing", time.Minute)
	j := d.pending(sound(1))
	d.now = d.now.Add(9*time.Minute + 30*time.Second)
	due("a row unheard", 30*time.Second)
	d.l.Opened(d.now, j.Row)
	due("an answer to be repeated, long ago", 0)
	d.l.Tick(d.now)
	d.now = d.now.Add(45 * time.Second)
	due("an answer to be repeated", 15*time.Second)
	if _, err := d.l.Arm(d.now, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	due("a window's end", 10*time.Second)
	d.now = d.now.Add(time.Hour - 5*time.Second)
	d.l.Off(d.now)
	due("a decided row's hour", 5*time.Second)
}

// Who waits stands first, the eldest before the younger, then who is decided on.
func TestOrderOfRows(t *testing.T) {
	d := newDesk(t)
	for _, n := range []int{3, 1, 4, 2} {
		d.pending(sound(n))
		d.now = d.now.Add(time.Second)
	}
	if _, err := d.l.Reject(d.now, "n-3", nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range d.l.Rows(d.now) {
		got = append(got, r.ID)
	}
	if want := []string{"n-1", "n-4", "n-2", "n-3"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Of more than sixty-four rejected rows the one that was rejected first goes, whenever it asked, and nobody who was approved.
func TestOldestRejectionGoes(t *testing.T) {
	d := newDesk(t)
	for n := 1; n <= 64; n++ {
		d.pending(sound(n))
	}
	for n := 64; n >= 1; n-- { // the last that asked is the first that is rejected
		d.now = d.now.Add(time.Second)
		if _, err := d.l.Reject(d.now, request(n).ID, nil); err != nil {
			t.Fatal(err)
		}
	}
	d.pending(sound(100))
	if _, err := d.l.Approve(d.now, "n-100", keyOf(100)); err != nil {
		t.Fatal(err)
	}
	if got := len(d.l.Rows(d.now)); got != 65 {
		t.Fatalf("%d rows, want 64 rejected and one approved", got)
	}
	d.pending(sound(101))
	if _, err := d.l.Reject(d.now, "n-101", nil); err != nil {
		t.Fatal(err)
	}
	var gone []int
	for n := 1; n <= 101; n++ {
		if (n <= 64 || n >= 100) && d.l.rows[RowID{request(n).ID, keyOf(n)}] == nil {
			gone = append(gone, n)
		}
	}
	if !slices.Equal(gone, []int{64}) {
		t.Errorf("gone are %v, want the one that was rejected first", gone)
	}
}

// A signer that is named again takes no other's place.
func TestSignerIsKeptOnce(t *testing.T) {
	ask := NewAsk([]identity.PublicKey{keyOf(50)}, cluster, "n-1", keyOf(1), "pc-1:6674", nonceOf(7))
	for range 20 {
		if err := ask.AcceptSigner(keyOf(51)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ask.Answer(answerTo(ask.Request(privateOf(1)), wire.OutcomeApproved, 50, cluster)); err != nil {
		t.Errorf("the first signer: %v", err)
	}
}

// An address that nobody knows is one source, and an address with a zone is that address.
func TestSourceNetworks(t *testing.T) {
	for _, c := range []struct{ a, b string }{{"fe80::1%eth0", "fe80::2%eth1"}, {"::ffff:10.0.0.1", "10.0.0.1"}, {"2001:db8::1", "2001:db8::ffff:0:0:1"}} {
		if network(netip.MustParseAddr(c.a)) != network(netip.MustParseAddr(c.b)) {
			t.Errorf("%s and %s are two sources", c.a, c.b)
		}
	}
	if network(netip.MustParseAddr("2001:db8::1")) == network(netip.MustParseAddr("2001:db8:0:1::1")) || network(netip.MustParseAddr("10.0.0.1")) == network(netip.MustParseAddr("10.0.0.2")) {
		t.Error("two networks are one source")
	}
	if network(netip.Addr{}) != (netip.Prefix{}) {
		t.Error("an address that nobody knows has a network")
	}
}
