package enroll

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// P17: machine i is a member under k1; another one asks under i with k2. Rejecting and clearing touch only the asking row.
func TestP17OneIDTwoKeys(t *testing.T) {
	d := newDesk(t)
	d.f.Holds = func(id string, k identity.PublicKey) bool { return id == "n-1" && k == keyOf(1) }
	d.f.MemberID = func(id string) bool { return id == "n-1" }
	other := request(2)
	other.ID = "n-1"
	d.pending(sign(other, 2))
	rows := d.l.Rows(d.now)
	if len(rows) != 1 || rows[0].Key != keyOf(2) || !rows[0].ConflictMember {
		t.Fatalf("%+v", rows)
	}
	if admit, _ := d.l.Arm(d.now, time.Hour); len(admit) != 0 {
		t.Fatal("auto-approved")
	}
	d.l.Off(d.now)
	gone, err := d.l.Reject(d.now, "n-1", nil)
	if err != nil || len(gone) != 1 || gone[0].Key != keyOf(2) {
		t.Fatal(gone, err)
	}
	if j := d.judge(sound(1)); j.Outcome != wire.OutcomeApproved || j.Admit { // the member, restarted
		t.Fatalf("%+v", j)
	}
	if j := d.judge(sign(other, 2)); j.Outcome != wire.OutcomeRejected {
		t.Fatalf("%+v", j)
	}
	d.l.Clear(d.now)
	if j := d.judge(sound(1)); j.Outcome != wire.OutcomeApproved || len(d.l.Rows(d.now)) != 0 {
		t.Fatalf("%+v", j)
	}
}

// P18: a stranger asks first under v's id. Both show; approving v's true key is one command; rejecting the stranger does
// not refuse v; and the stranger cannot hold v out by refreshing.
func TestP18AStrangerAsksFirstUnderYourID(t *testing.T) {
	d := newDesk(t)
	stranger := func(j *Judgement) Request {
		r := request(66)
		r.ID = "n-1"
		if j != nil {
			r.Challenge, r.HasChallenge = j.Challenge, true
		}
		return sign(r, 66)
	}
	first := d.pending(stranger(nil))
	for range 50 {
		d.now = d.now.Add(2 * time.Second)
		first = d.pending(stranger(&first))
	}
	d.pending(sound(1))
	rows := d.l.Rows(d.now)
	if len(rows) != 2 || rows[0].Source == rows[1].Source || rows[0].Key == rows[1].Key || !rows[0].ConflictRow || !rows[1].ConflictRow {
		t.Fatalf("%+v", rows)
	}
	if _, err := d.l.Reject(d.now, "n-1", nil); err == nil || !strings.Contains(err.Error(), keyOf(66).String()) || !strings.Contains(err.Error(), keyOf(1).String()) {
		t.Fatal("a reject by id alone hits both:", err)
	}
	if gone, err := d.l.Reject(d.now, "n-1", ptr(keyOf(66))); err != nil || len(gone) != 1 || gone[0].Key != keyOf(66) {
		t.Fatal(gone, err)
	}
	if d.row(1).Decision != Waiting {
		t.Fatal("v was refused with the stranger")
	}
	if id, err := d.l.Approve(d.now, "n-1", keyOf(1)); err != nil || id.Key != keyOf(1) {
		t.Fatal(id, err)
	}
}

// P19: 500 well-signed asks with 64-byte ids from 200 addresses, and from 500 of one IPv6 /64.
func TestP19AnonymousRequests(t *testing.T) {
	flood := func(d *desk, source func(n int) netip.Addr) (taken, full, share int) {
		for n := 1000; n < 1500; n++ {
			r := request(n)
			r.ID = fmt.Sprintf("%064d", n)
			r.Source = source(n)
			switch j := d.judge(sign(r, n)); {
			case j.Outcome == wire.OutcomePending:
				taken++
			case j.Err.Code == wire.CodeWaitingListFull:
				full++
			case j.Err.Code == wire.CodeSourceFull:
				share++
			}
			d.now = d.now.Add(20 * time.Millisecond)
		}
		return taken, full, share
	}
	d := newDesk(t)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	taken, full, share := flood(d, func(n int) netip.Addr { return hostOfNode(n % 200) })
	runtime.GC()
	runtime.ReadMemStats(&after)
	if taken != MaxRows || full+share != 500-MaxRows || full == 0 {
		t.Fatalf("%d taken, %d full, %d over their share", taken, full, share)
	}
	if after.HeapAlloc > before.HeapAlloc+10<<20 {
		t.Fatalf("%d bytes more", after.HeapAlloc-before.HeapAlloc)
	}
	if j := d.judge(sound(1)); j.Err == nil || j.Err.Code != wire.CodeWaitingListFull {
		t.Fatalf("%+v", j)
	}
	d.now = d.now.Add(11 * time.Minute)
	if expired, _ := d.l.Tick(d.now); len(expired) != MaxRows || len(d.l.Rows(d.now)) != 0 {
		t.Fatalf("%d expired", len(expired))
	}
	d.pending(sound(1)) // an honest machine

	d = newDesk(t)
	taken, _, share = flood(d, func(n int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", n)) })
	if taken != DefaultPerSource || share != 500-DefaultPerSource {
		t.Fatalf("one /64: %d taken", taken)
	}
}

// at is a moment whose wall clock and monotonic reading are set apart; see the layout of time.Time. The first lines of the
// test check that it still is so.
func at(wall time.Time, mono time.Duration) time.Time {
	var t time.Time
	raw := (*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&t))
	since1885 := wall.Unix() - time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	raw.wall = 1<<63 | uint64(since1885)<<30 | uint64(wall.Nanosecond())
	raw.ext = int64(mono)
	return t
}

// P35: the wall clock steps 25 years ahead after 30 s and an hour back after 60 s: the window ends after ten minutes, the
// printed minutes are right, and no row expires for it.
func TestP35WindowArmedBeforeNTP(t *testing.T) {
	start := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	clock := func(mono time.Duration) time.Time {
		wall := start.Add(mono)
		if mono >= 30*time.Second {
			wall = wall.AddDate(25, 0, 0)
		}
		if mono >= time.Minute {
			wall = wall.Add(-time.Hour)
		}
		return at(wall, time.Hour+mono)
	}
	if a, b := clock(0), clock(time.Minute); b.Sub(a) != time.Minute || b.Year()-a.Year() < 24 {
		t.Fatalf("this clock does not step: %v, %v", a, b)
	}
	d := newDesk(t)
	d.l, d.now = NewList(ListConfig{}, clock(0)), clock(0)
	other := request(2)
	other.ID = "n-1"
	d.pending(sound(1))
	d.pending(sign(other, 2)) // marked: both wait, whatever the window
	if _, err := d.l.Arm(d.now, 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	for mono := time.Duration(0); mono < 10*time.Minute; mono += 10 * time.Second {
		d.now = clock(mono)
		if expired, _ := d.l.Tick(d.now); len(expired) != 0 {
			t.Fatalf("expired after %v", mono)
		}
		left, _, ok := d.l.Window(d.now)
		if !ok || left != 10*time.Minute-mono || MinutesLeft(left) != int((10*time.Minute-mono+59*time.Second)/time.Minute) {
			t.Fatalf("after %v: %v left, %d min", mono, left, MinutesLeft(left))
		}
		if r := d.row(1); r.Age != mono {
			t.Fatalf("age %v after %v", r.Age, mono)
		}
	}
	d.now = clock(10 * time.Minute)
	if _, _, ok := d.l.Window(d.now); ok {
		t.Fatal("still open")
	}
	if expired, _ := d.l.Tick(d.now); len(expired) != 2 {
		t.Fatalf("%v", expired)
	}
}

// An ask and a list, end to end: pending, asked again with the challenge, approved, and approved at once after a restart.
func TestAskMeetsList(t *testing.T) {
	d := newDesk(t)
	const leader = 50
	sendTo := func(ask *Ask) (wire.Outcome, Judgement) {
		t.Helper()
		r := Request{EnrollRequest: ask.Request(privateOf(1)), Name: "pc-1", Source: hostOfNode(1), SessionKey: keyOf(1), Format: 1}
		j := d.judge(r)
		if j.Err != nil {
			t.Fatal(j.Err)
		}
		ans := wire.EnrollAnswer{Outcome: j.Outcome, Signer: keyOf(leader)}
		if j.Outcome == wire.OutcomePending {
			ans.Challenge, ans.HasChallenge = j.Challenge, true
		}
		if j.Outcome == wire.OutcomeApproved {
			ans.Roster = []byte("{}")
		}
		o, err := ask.Answer(resign(ans, r.EnrollRequest, leader, cluster))
		if err != nil {
			t.Fatal(err)
		}
		return o, j
	}
	ask := NewAsk([]identity.PublicKey{keyOf(leader)}, cluster, "n-1", keyOf(1), "pc-1:6674", nonceOf(1))
	for i := range 5 {
		if o, _ := sendTo(ask); o != wire.OutcomePending || d.row(1).Attempts != i+1 {
			t.Fatalf("%v, %+v", o, d.row(1))
		}
		d.now = d.now.Add(2 * time.Second)
		ask = ask.Again(nonceOf(byte(2+i)), "10.0.0.9:6674")
	}
	if _, err := d.l.Approve(d.now, "n-1", keyOf(1)); err != nil {
		t.Fatal(err)
	}
	d.f.Holds = func(id string, k identity.PublicKey) bool { return id == "n-1" && k == keyOf(1) }
	if o, j := sendTo(ask); o != wire.OutcomeApproved || j.Admit {
		t.Fatalf("%v, %+v", o, j)
	}
	d.l = NewList(ListConfig{}, d.now)
	if o, _ := sendTo(ask.Again(nonceOf(99), "10.0.0.9:6674")); o != wire.OutcomeApproved {
		t.Fatal(o)
	}
}
