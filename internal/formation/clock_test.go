package formation

import (
	"testing"
	"time"
	"unsafe"

	"pace-node/internal/wire"
)

// at is a moment whose wall clock and whose monotonic reading are set apart, as they are on a machine whose clock is
// stepped. The layout is that of time.Time since Go 1.9: a flag, 33 bits of seconds since 1885 and 30 of nanoseconds;
// then the monotonic nanoseconds. The test below it checks that this is still so.
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

func TestClockOfTheTest(t *testing.T) {
	wall := time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC)
	a, b := at(wall, time.Hour), at(wall.AddDate(25, 0, 0), time.Hour+time.Minute)
	if !a.Equal(a) || a.Unix() != wall.Unix() || b.Sub(a) != time.Minute || !a.Before(b) || b.Year() != 2026 {
		t.Fatalf("%v, %v, %v apart", a, b, b.Sub(a))
	}
}

// P35: the wall clock is 2001 at the start, steps 25 years ahead after 30 s and an hour back after 60 s. Every deadline is
// elapsed time.
func TestP35ClockBeforeNTP(t *testing.T) {
	var mono time.Duration
	clock := func() time.Time {
		wall := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC).Add(mono)
		if mono >= 30*time.Second {
			wall = wall.AddDate(25, 8, 0)
		}
		if mono >= 60*time.Second {
			wall = wall.Add(-time.Hour)
		}
		return at(wall, time.Hour+mono)
	}
	m := New(Config{Own: ownOf(1, younger), Rejections: []Rejection{{idOf(7), 50 * time.Minute}}}, clock())
	step := func(e Event) []Action { return append([]Action(nil), m.Step(clock(), e)...) }
	run := func(until time.Duration, forbid ActionKind) []Action {
		for mono < until {
			mono += 100 * time.Millisecond
			out := step(Event{Kind: EvTick})
			if find(out, forbid) != nil {
				if mono < until {
					t.Fatalf("too soon, at %v: %+v", mono, out)
				}
				return out
			}
		}
		return nil
	}
	step(Event{Kind: EvProven, Fleet: establishedFleet(2, older)})
	out := run(ChoiceAfterProof, ActMove)
	own := m.Own()
	own.Mode, own.Target = Pending, find(out, ActMove).Target
	step(Event{Kind: EvMoved, Own: own})
	out = run(mono+AbandonAfter, ActMove)
	if a := find(out, ActMove); a == nil || a.Transition.On != Abandoned {
		t.Fatalf("pending for %v: %+v", mono, out)
	}
	if r := m.Rejections(clock()); len(r) != 1 || r[0].Left != 50*time.Minute-mono {
		t.Fatalf("%v later %+v are left of 50 minutes", mono, r)
	}
	own.Mode, own.Target = Solitary, nil
	step(Event{Kind: EvMoved, Own: own})

	// A rejection is remembered for an hour of elapsed time, across the same steps.
	mono = 0
	m = New(Config{Own: ownOf(1, younger)}, clock())
	step(Event{Kind: EvProven, Fleet: establishedFleet(2, older)})
	out = run(ChoiceAfterProof, ActMove)
	own = m.Own()
	own.Mode, own.Target = Pending, find(out, ActMove).Target
	out = step(Event{Kind: EvMoved, Own: own})
	out = step(Event{Kind: EvAnswer, Ask: find(out, ActAsk).Ask, Cluster: idOf(2), Outcome: wire.OutcomeRejected, From: keyOf(2)})
	if find(out, ActMove) == nil {
		t.Fatalf("%+v", out)
	}
	own.Mode, own.Target = Solitary, nil
	step(Event{Kind: EvMoved, Own: own})
	rejectedAt := mono
	for mono < rejectedAt+RejectionFor-200*time.Millisecond {
		mono += 10 * time.Second
		mono = min(mono, rejectedAt+RejectionFor-200*time.Millisecond)
		if out := step(Event{Kind: EvProven, Fleet: establishedFleet(2, older)}); find(out, ActMove) != nil {
			t.Fatalf("asked again after %v", mono-rejectedAt)
		}
	}
	mono += 200 * time.Millisecond
	if out := step(Event{Kind: EvProven, Fleet: establishedFleet(2, older)}); find(out, ActMove) == nil {
		t.Fatal("not asked again after an hour")
	}
}
