package enroll

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

func (d *desk) row(n int) Row {
	d.t.Helper()
	for _, r := range d.l.Rows(d.now) {
		if r.ID == request(n).ID && r.Key == keyOf(n) {
			return r
		}
	}
	d.t.Fatalf("machine %d has no row", n)
	return Row{}
}

func TestRowIsShownAsItAsked(t *testing.T) {
	d := newDesk(t)
	heard := d.now.Add(-time.Hour)
	d.f.MemberNamed = func(name string) (string, time.Time, bool) { return "m-9", heard, name == "pc-1" }
	r := request(1)
	r.Endpoint = "10.1.9.9:6674"
	d.pending(sign(r, 1))
	d.now = d.now.Add(90 * time.Second)
	want := []Row{{ID: "n-1", Key: keyOf(1), Name: "pc-1", Platform: "linux/amd64", Version: "1.0.0", Endpoint: "10.1.9.9:6674",
		Source: hostOfNode(1), Age: 90 * time.Second, Heard: 90 * time.Second, Attempts: 1, Decision: Waiting, EndpointDiffers: true,
		NameOf: "m-9", NameHeard: heard}}
	if diff := cmp.Diff(want, d.l.Rows(d.now), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Fatal(diff)
	}
	d.pending(sound(2))
	if r := d.row(2); r.EndpointDiffers || r.NameOf != "" {
		t.Fatalf("%+v", r)
	}
}

func TestRefreshNeedsTheChallenge(t *testing.T) {
	d := newDesk(t)
	r := request(1) // an unknown row with any challenge is a first ask: the leader restarted
	r.HasChallenge, r.Challenge = true, [32]byte{9}
	j := d.pending(sign(r, 1))
	d.now = d.now.Add(time.Minute)
	wrong := d.pending(sound(1)) // without, and then with another one: pending, with the current one
	if wrong.Challenge != j.Challenge || d.row(1).Attempts != 1 || d.row(1).Heard != time.Minute {
		t.Fatalf("%+v", d.row(1))
	}
	if again := d.pending(sign(r, 1)); again.Challenge != j.Challenge || d.row(1).Attempts != 1 {
		t.Fatalf("%+v", d.row(1))
	}
	next := d.pending(answering(1, j))
	if next.Challenge == j.Challenge || d.row(1).Attempts != 2 || d.row(1).Heard != 0 {
		t.Fatalf("%+v", d.row(1))
	}
	d.now = d.now.Add(time.Minute)
	d.pending(answering(1, j)) // a copy of what was sent before refreshes nothing
	if d.row(1).Heard != time.Minute {
		t.Fatal("a replayed request keeps the row")
	}
}

func TestUndecidedRowGoesAfterTenMinutesUnheard(t *testing.T) {
	d := newDesk(t)
	j := d.pending(sound(1))
	d.pending(sound(2))
	d.l.Opened(d.now, RowID{"n-2", keyOf(2)})
	d.now = d.now.Add(UnheardFor - time.Second)
	if expired, _ := d.l.Tick(d.now); len(expired) != 0 {
		t.Fatalf("%v", expired)
	}
	d.now = d.now.Add(time.Second)
	expired, _ := d.l.Tick(d.now)
	if len(expired) != 1 || expired[0] != j.Row || d.l.Count(CountRequestsExpired) != 1 {
		t.Fatalf("%v", expired)
	}
	if d.row(2).Heard != 0 {
		t.Fatal("an open stream is not heard")
	}
	d.l.Closed(d.now, RowID{"n-2", keyOf(2)})
	d.now = d.now.Add(UnheardFor)
	if expired, _ := d.l.Tick(d.now); len(expired) != 1 {
		t.Fatalf("%v", expired)
	}
	j = d.pending(sound(3))
	d.now = d.now.Add(UnheardFor - 1)
	d.l.Heard(d.now, j.Row)
	d.now = d.now.Add(UnheardFor - 1)
	if expired, _ := d.l.Tick(d.now); len(expired) != 0 {
		t.Fatalf("%v", expired)
	}
}

func TestPendingAnswerIsRepeatedEveryMinuteOnOpenStreams(t *testing.T) {
	d := newDesk(t)
	j := d.pending(sound(1))
	d.pending(sound(2)) // no stream
	d.l.Opened(d.now, j.Row)
	for minute := range 30 {
		if next := d.l.Next(d.now); next.Sub(d.now) != RepeatEvery {
			t.Fatalf("minute %d: next in %v", minute, next.Sub(d.now))
		}
		d.now = d.now.Add(RepeatEvery - 1)
		if _, repeat := d.l.Tick(d.now); len(repeat) != 0 {
			t.Fatal("too soon")
		}
		d.now = d.now.Add(1)
		if _, repeat := d.l.Tick(d.now); len(repeat) != 1 || repeat[0] != j.Row {
			t.Fatalf("%v", repeat)
		}
		if c, ok := d.l.Challenge(j.Row); !ok || c != j.Challenge {
			t.Fatal("repeated with another challenge")
		}
	}
	if _, err := d.l.Approve(d.now, "n-1", keyOf(1)); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(RepeatEvery)
	if _, repeat := d.l.Tick(d.now); len(repeat) != 0 {
		t.Fatal("pending is repeated to an approved machine")
	}
}

func TestBounds(t *testing.T) {
	d := newDesk(t)
	for n := 1; n <= MaxRows; n++ {
		d.pending(sound(n))
	}
	j := d.judge(sound(65))
	if j.Refusal != RefusalListFull || !strings.Contains(j.Err.Text, "64") {
		t.Fatalf("%+v", j)
	}
	d.pending(sound(7)) // a known row is not in the way
	// Pre-approval works with a full list, and needs no row.
	d.f.PreApproved = func(id string, k identity.PublicKey) bool { return id == "n-65" && k == keyOf(65) }
	if j := d.judge(sound(65)); j.Outcome != wire.OutcomeApproved || !j.Admit || j.Auto || d.l.Waiting() != 64 {
		t.Fatalf("%+v", j)
	}
	// A decided row makes room.
	if _, err := d.l.Reject(d.now, "n-1", nil); err != nil {
		t.Fatal(err)
	}
	d.pending(sound(66))
}

func TestFourASourceNetwork(t *testing.T) {
	for _, c := range []struct {
		name string
		addr func(n int) string
		rows int
	}{
		{"one IPv4 address", func(int) string { return "10.9.9.9" }, 4},
		{"the same, mapped", func(n int) string { return []string{"10.9.9.9", "::ffff:10.9.9.9"}[n%2] }, 4},
		{"neighbours on IPv4", func(n int) string { return fmt.Sprintf("10.9.9.%d", n) }, 20},
		{"one IPv6 /64", func(n int) string { return fmt.Sprintf("2001:db8:0:7::%x", n) }, 4},
		{"one link, two zones", func(n int) string { return fmt.Sprintf("fe80::%x%%eth%d", n, n%2) }, 4},
		{"a /64 each", func(n int) string { return fmt.Sprintf("2001:db8:0:%x::1", n) }, 20},
		{"loopback is no exception where several nodes do not share it", func(int) string { return "127.0.0.1" }, 4},
	} {
		d := newDesk(t)
		for n := 1; n <= 20; n++ {
			r := request(n)
			r.Source = netip.MustParseAddr(c.addr(n))
			j := d.judge(sign(r, n))
			if j.Err != nil && (j.Err.Code != wire.CodeSourceFull || !strings.Contains(j.Err.Text+j.Err.Hint, "enrollment.per-source")) {
				t.Fatalf("%s: %+v", c.name, j.Err)
			}
		}
		if got := d.l.Waiting(); got != c.rows {
			t.Errorf("%s: %d rows, want %d", c.name, got, c.rows)
		}
	}
	limit := 6
	l := NewList(ListConfig{PerSource: func() int { return limit }}, time.Now())
	ask := func(n int) Judgement {
		r := request(n)
		r.Source = hostOfNode(1)
		return l.Judge(time.Now(), sign(r, n), leads(), entropy())
	}
	for n := 1; n <= 10; n++ {
		ask(n)
	}
	if l.Waiting() != 6 {
		t.Fatalf("the setting gives %d rows", l.Waiting())
	}
	if limit = 7; ask(11).Outcome != wire.OutcomePending {
		t.Fatal("the setting is not asked again")
	}
	if limit = 0; l.perSource() != DefaultPerSource {
		t.Fatal("a setting out of bounds")
	}
}

// Who needs no row is not held up by strangers of its own network.
func TestKnownMachineBehindAFullSource(t *testing.T) {
	d := newDesk(t)
	same := func(n int) Request { r := request(n); r.Source = hostOfNode(1); return sign(r, n) }
	var first Judgement
	for n := 1; n <= 4; n++ {
		if j := d.pending(same(n)); n == 1 {
			first = j
		}
	}
	d.f.Holds = func(id string, k identity.PublicKey) bool { return k == keyOf(5) }
	d.f.PreApproved = func(id string, k identity.PublicKey) bool { return k == keyOf(6) }
	d.f.Revoked = func(k identity.PublicKey) (uint64, bool) { return 3, k == keyOf(7) }
	if j := d.judge(same(5)); j.Outcome != wire.OutcomeApproved || j.Admit {
		t.Fatalf("%+v", j)
	}
	if j := d.judge(same(6)); j.Outcome != wire.OutcomeApproved || !j.Admit {
		t.Fatalf("%+v", j)
	}
	if j := d.judge(same(7)); j.Outcome != wire.OutcomeRevoked {
		t.Fatalf("%+v", j)
	}
	r := answering(1, first)
	r.Source = hostOfNode(1)
	d.pending(r)
	if j := d.judge(same(8)); j.Refusal != RefusalSource {
		t.Fatalf("%+v", j)
	}
}

func TestApprove(t *testing.T) {
	d := newDesk(t)
	d.pending(sound(1))
	if _, err := d.l.Approve(d.now, "n-1", keyOf(2)); !errors.Is(err, ErrOtherKey) || !strings.Contains(err.Error(), keyOf(1).String()) {
		t.Fatal(err)
	}
	if _, err := d.l.Approve(d.now, "n-9", keyOf(1)); !errors.Is(err, ErrNoRow) {
		t.Fatal(err)
	}
	id, err := d.l.Approve(d.now, "n-1", keyOf(1))
	if err != nil || id != (RowID{"n-1", keyOf(1)}) || d.l.Count(CountApprovalsManual) != 0 {
		t.Fatal(id, err, "or a decision counts as an admission")
	}
	d.l.Committed(false)
	if d.l.Count(CountApprovalsManual) != 1 || d.l.Count(CountApprovalsAuto) != 0 {
		t.Fatal("an admission does not count")
	}
	if _, err := d.l.Approve(d.now, "n-1", keyOf(1)); !errors.Is(err, ErrDecided) {
		t.Fatal(err)
	}
	if _, err := d.l.Reject(d.now, "n-1", nil); !errors.Is(err, ErrDecided) {
		t.Fatal(err)
	}
	if _, err := d.l.Reject(d.now, "n-9", nil); !errors.Is(err, ErrNoRow) {
		t.Fatal(err)
	}
	if _, err := d.l.Reject(d.now, "n-1", ptr(keyOf(1))); !errors.Is(err, ErrDecided) {
		t.Fatal(err)
	}
	if j := d.judge(sound(1)); j.Outcome != wire.OutcomePending || j.Admit { // the admission is being committed
		t.Fatalf("%+v", j)
	}
	d.l.Failed(d.now, id)
	if d.row(1).Decision != Waiting {
		t.Fatal("a failed admission leaves the row approved")
	}
	d.f.Holds = func(string, identity.PublicKey) bool { return true }
	if j := d.judge(sound(1)); j.Outcome != wire.OutcomeApproved || j.Admit || d.row(1).Decision != ApprovedManually {
		t.Fatalf("%+v", j)
	}
	d.now = d.now.Add(DecidedFor)
	if rows := d.l.Rows(d.now); len(rows) != 0 {
		t.Fatalf("%+v", rows)
	}
}

func ptr[T any](v T) *T { return &v }

func TestRejectedStaysAnHourOutsideTheSixtyFour(t *testing.T) {
	d := newDesk(t)
	for n := 1; n <= 100; n++ {
		d.pending(sound(n))
		if got, err := d.l.Reject(d.now, request(n).ID, nil); err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		d.now = d.now.Add(time.Second)
	}
	if rows := d.l.Rows(d.now); len(rows) != MaxDecided || d.l.Count(CountRejections) != 100 {
		t.Fatalf("%d rejected rows", len(rows))
	}
	for n := 101; n <= 100+MaxRows; n++ {
		d.pending(sound(n))
	}
	j := d.judge(sound(100))
	if j.Outcome != wire.OutcomeRejected || j.Refusal != RefusalRejected || j.Waits || j.HasChallenge {
		t.Fatalf("%+v", j)
	}
	if got, err := d.l.Reject(d.now, "n-100", ptr(keyOf(100))); err != nil || len(got) != 1 || d.l.Count(CountRejections) != 100 {
		t.Fatal("twice is once:", got, err)
	}
	// A person may think again.
	if _, err := d.l.Approve(d.now, "n-99", keyOf(99)); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(DecidedFor)
	d.l.Tick(d.now)
	if j := d.judge(sound(100)); j.Outcome != wire.OutcomePending {
		t.Fatalf("refused for ever: %+v", j)
	}
}

func TestClearAndDrop(t *testing.T) {
	d := newDesk(t)
	d.pending(sound(1))
	d.pending(sound(2))
	d.l.Reject(d.now, "n-2", nil)
	if n := d.l.Clear(d.now); n != 1 || d.l.Count(CountRequestsCleared) != 1 || len(d.l.Rows(d.now)) != 0 {
		t.Fatalf("%d cleared", n)
	}
	d.pending(sound(1))
	d.pending(sound(2))
	if _, err := d.l.Arm(d.now, time.Hour); err != nil {
		t.Fatal(err)
	}
	d.pending(sound(1))
	if got := d.l.Drop(); len(got) != 2 || d.l.Waiting() != 0 {
		t.Fatalf("%v", got)
	}
	if _, _, ok := d.l.Window(d.now); ok {
		t.Fatal("the window outlives the list")
	}
}

// One id, two keys: both are marked, and neither is ever auto-approved, whatever becomes of the other.
func TestConflictIsNeverAutoApproved(t *testing.T) {
	d := newDesk(t)
	other := func() Request { r := request(2); r.ID = "n-1"; return sign(r, 2) }
	j := d.pending(sound(1))
	d.pending(other())
	for _, r := range d.l.Rows(d.now) {
		if !r.ConflictRow || r.ConflictMember {
			t.Fatalf("not marked: %+v", r)
		}
	}
	if admit, err := d.l.Arm(d.now, time.Hour); err != nil || len(admit) != 0 {
		t.Fatal(admit, err)
	}
	if _, err := d.l.Reject(d.now, "n-1", ptr(keyOf(2))); err != nil {
		t.Fatal(err)
	}
	d.pending(answering(1, j))
	if admit, _ := d.l.Arm(d.now, time.Hour); len(admit) != 0 {
		t.Fatal("a mark wears off")
	}
	// The id of a member under another key.
	d.f.MemberID = func(id string) bool { return id == "n-5" }
	d.pending(sound(5))
	if r := d.row(5); !r.ConflictMember {
		t.Fatalf("%+v", r)
	}
	if _, err := d.l.Approve(d.now, "n-1", keyOf(1)); err != nil { // a person may
		t.Fatal(err)
	}
}

// A key that a person rejected comes back under another id, or asked under two from the start: it is marked, and no window
// admits it; a person may. When the rejection is forgotten it is a machine like any other.
func TestRejectedKeyIsNeverAutoApproved(t *testing.T) {
	as := func(id string, n int) Request { r := request(n); r.ID = id; return sign(r, n) }
	marked := func(d *desk) (ids []string) {
		for _, r := range d.l.Rows(d.now) {
			if r.KeyRejected {
				ids = append(ids, r.ID)
			}
		}
		slices.Sort(ids)
		return ids
	}
	d := newDesk(t)
	d.pending(sound(1))
	d.pending(as("n-0", 1)) // and under a second id
	d.pending(sound(2))
	if _, err := d.l.Reject(d.now, "n-1", nil); err != nil {
		t.Fatal(err)
	}
	d.pending(as("n-9", 1))
	if got := marked(d); !slices.Equal(got, []string{"n-0", "n-9"}) {
		t.Fatalf("marked are %q", got)
	}
	if admit, err := d.l.Arm(d.now, 10*time.Minute); err != nil || len(admit) != 1 || admit[0].ID != "n-2" {
		t.Fatal(admit, err)
	}
	d.pending(as("n-9", 1))
	d.pending(as("n-8", 1)) // and one that is new while the window is open
	if j := d.judge(sound(3)); !j.Auto {
		t.Fatalf("another machine: %+v", j)
	}
	if _, err := d.l.Approve(d.now, "n-9", keyOf(1)); err != nil {
		t.Fatal(err)
	}
	d.now = d.now.Add(DecidedFor)
	d.pending(as("n-7", 1))
	if got := marked(d); len(got) != 0 {
		t.Fatalf("an hour later marked are %q", got)
	}
}

func TestWindow(t *testing.T) {
	d := newDesk(t)
	if _, _, ok := d.l.Window(d.now); ok {
		t.Fatal("open from the start")
	}
	d.pending(sound(1))
	for _, bad := range []time.Duration{0, -1, MaxWindow + 1} {
		if _, err := d.l.Arm(d.now, bad); err == nil {
			t.Fatalf("%v taken", bad)
		}
	}
	if d.row(1).Decision != Waiting {
		t.Fatal("a window that is refused admits")
	}
	armed := d.now
	admit, err := d.l.Arm(d.now, 10*time.Minute)
	if err != nil || len(admit) != 1 || admit[0].ID != "n-1" {
		t.Fatal(admit, err)
	}
	d.now = d.now.Add(30 * time.Second)
	j := d.judge(sound(2))
	if j.Outcome != wire.OutcomeApproved || !j.Admit || !j.Auto || !j.HasChallenge || d.l.Count(CountApprovalsAuto) != 0 {
		t.Fatalf("%+v", j)
	}
	if r := d.row(2); r.Decision != ApprovedAuto || !r.ArmedAt.Equal(armed) || r.ArmedAgo != 30*time.Second {
		t.Fatalf("%+v", r)
	}
	if d.l.Committed(true); d.l.Count(CountApprovalsAuto) != 1 || d.l.Count(CountApprovalsManual) != 0 {
		t.Fatal("an admission by the window does not count")
	}
	d.l.Failed(d.now, j.Row)
	if r := d.row(2); r.Decision != Waiting || !r.ArmedAt.IsZero() {
		t.Fatalf("%+v", r)
	}
	if j := d.judge(sound(2)); !j.Auto {
		t.Fatalf("%+v", j)
	}
	left, at, ok := d.l.Window(d.now)
	if !ok || left != 9*time.Minute+30*time.Second || !at.Equal(armed) || MinutesLeft(left) != 10 {
		t.Fatal(left, at, ok)
	}
	d.now = armed.Add(10*time.Minute - 1)
	if left, _, ok := d.l.Window(d.now); !ok || MinutesLeft(left) != 1 {
		t.Fatal("the last minute is not 1")
	}
	d.now = armed.Add(10 * time.Minute)
	if _, _, ok := d.l.Window(d.now); ok {
		t.Fatal("it does not end")
	}
	d.pending(sound(3))
	if _, err := d.l.Arm(d.now, MaxWindow); err != nil {
		t.Fatal(err)
	}
	d.l.Off(d.now)
	d.pending(sound(4))
}

func TestParseWindow(t *testing.T) {
	for text, want := range map[string]time.Duration{"15m": 15 * time.Minute, "15min": 15 * time.Minute, "24h": 24 * time.Hour, "1s": time.Second,
		"1h30min": 90 * time.Minute, "1ns": 1} {
		if d, off, err := ParseWindow(text); err != nil || off || d != want {
			t.Errorf("%q: %v, %v, %v", text, d, off, err)
		}
	}
	if _, off, err := ParseWindow("off"); !off || err != nil {
		t.Error(err)
	}
	for text, want := range map[string]error{"": ErrWindowText, "15": ErrWindowText, "soon": ErrWindowText, "min": ErrWindowText, "OFF": ErrWindowText,
		"0": ErrWindowZero, "0s": ErrWindowZero, "-1m": ErrWindowZero, "24h0m1s": ErrWindowLong, "25h": ErrWindowLong} {
		if _, _, err := ParseWindow(text); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	for seconds, want := range map[uint64]error{0: ErrWindowZero, 1: nil, 86400: nil, 86401: ErrWindowLong, 1<<64 - 1: ErrWindowLong, 1 << 55: ErrWindowLong} {
		if _, err := WindowOf(seconds); !errors.Is(err, want) {
			t.Errorf("%d s: %v", seconds, err)
		}
	}
}

func FuzzWindow(f *testing.F) {
	f.Add("15min")
	f.Add("off")
	f.Fuzz(func(t *testing.T, text string) {
		d, off, err := ParseWindow(text)
		if err == nil && !off && (d <= 0 || d > MaxWindow) {
			t.Fatalf("%q is %v", text, d)
		}
	})
}

// Whatever is asked in whatever order, the bounds hold and no marked row is approved by the window.
func TestListInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now, rnd := time.Now(), entropy()
		l := NewList(ListConfig{}, now)
		challenges := map[int]Judgement{}
		for range rapid.IntRange(1, 150).Draw(rt, "steps") {
			n := rapid.IntRange(1, 90).Draw(rt, "machine")
			before := map[RowID]Decision{}
			for id, r := range l.rows {
				before[id] = r.Decision
			}
			id := request(n).ID
			switch rapid.IntRange(0, 11).Draw(rt, "what") {
			case 0:
				now = now.Add(time.Duration(rapid.IntRange(0, 900).Draw(rt, "seconds")) * time.Second)
				l.Tick(now)
			case 1:
				l.Approve(now, id, keyOf(n))
			case 2:
				l.Reject(now, id, nil)
			case 3:
				l.Arm(now, time.Duration(rapid.IntRange(0, 90000).Draw(rt, "window"))*time.Second)
			case 4:
				l.Off(now)
			case 5:
				l.Opened(now, RowID{id, keyOf(n)})
			case 6:
				l.Closed(now, RowID{id, keyOf(n)})
			default:
				r := request(n)
				if n%7 == 0 {
					r.ID = request(1).ID
				}
				r.Source = hostOfNode(n % 20)
				if j, ok := challenges[n]; ok && rapid.Bool().Draw(rt, "answers") {
					r.Challenge, r.HasChallenge = j.Challenge, true
				}
				challenges[n] = l.Judge(now, sign(r, n), leads(), rnd)
			}
			perNetwork := map[netip.Prefix]int{}
			rejected, approved, waiting := 0, 0, 0
			for _, r := range l.rows {
				switch r.Decision {
				case Waiting:
					waiting++
					perNetwork[r.network]++
				case RejectedByHand:
					rejected++
				default:
					approved++
				}
				if r.Decision == ApprovedAuto && before[r.RowID()] != ApprovedAuto && r.marked() {
					rt.Fatal("a marked row was approved by the window")
				}
			}
			if waiting > MaxRows || rejected > MaxDecided || approved > MaxDecided {
				rt.Fatalf("%d waiting, %d rejected, %d approved", waiting, rejected, approved)
			}
			for net, n := range perNetwork {
				if n > DefaultPerSource {
					rt.Fatalf("%d rows of %v", n, net)
				}
			}
			if next := l.Next(now); next.Before(now) {
				rt.Fatal("the next tick is in the past")
			}
		}
	})
}
