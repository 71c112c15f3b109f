package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestRule1NotDue(t *testing.T) {
	for _, c := range []struct {
		name  string
		res   Result
		state State
	}{
		{"backing off", Result{Outcome: OutcomeError, Stage: StageHelper, Error: "exit code 3"}, StateBackingOff},
		{"deferred", Result{Outcome: OutcomeDeferred, Stage: StageHelper, RetryAfter: 5 * time.Second}, StateDeferred},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := leading(10)
			add(t, q, t0, seen("a", t0), Admitted)
			finish(t, q, t0, take(t, q, t0, "a"), c.res)
			state(t, q, "a", c.state)
			add(t, q, t0.Add(5*time.Second-1), seen("a", t0), NotDue)
			count(t, q, RefusedNotDue, 1)
			// A new boot alone brings neither forward.
			add(t, q, t0.Add(time.Second), event("a", t0, bootB), NotDue)
			add(t, q, t0.Add(5*time.Second), seen("a", t0), Admitted)
		})
	}
	t.Run("parked", func(t *testing.T) {
		parked := func() *Queue {
			q := leading(10)
			add(t, q, t0, seen("a", t0), Admitted)
			finish(t, q, t0, take(t, q, t0, "a"), Result{Outcome: OutcomeError, Stage: StageConfigure, Error: "refused", Permanent: true})
			state(t, q, "a", StateParked)
			return q
		}
		late := t0.Add(24 * time.Hour)
		q := parked()
		q.Tick(late)
		add(t, q, late, seen("a", late), NotDue)
		add(t, q, late, event("a", late, bootA), NotDue)
		add(t, q, late, event("a", late, bootB), Admitted) // a new boot makes a parked one due
		q = parked()
		if a := q.Retry(late, "a"); a != AnswerQueued { // and so does a person
			t.Fatalf("Retry = %v", a.Row())
		}
		sound(t, q)
	})
	t.Run("unreachable", func(t *testing.T) {
		gone := func() *Queue {
			q := leading(10)
			add(t, q, t0, seen("a", t0), Admitted)
			finish(t, q, t0, take(t, q, t0, "a"), Result{Outcome: OutcomeError, Stage: StageProbe, Error: "no session", Unreachable: true})
			add(t, q, t0, seen("a", t0), NotDue)
			return q
		}
		q := gone()
		q.Reachable(t0, "a")
		add(t, q, t0, seen("a", t0), Admitted)
		q = gone()
		add(t, q, t0, event("a", t0, bootB), Admitted)
		q = gone()
		q.Reachable(t0, "a")
		if due, _ := q.Tick(t0); len(due) != 1 {
			t.Fatalf("a new session made %v due", due)
		}
	})
	t.Run("a new session is nothing to a machine that failed otherwise", func(t *testing.T) {
		q := leading(10)
		add(t, q, t0, seen("a", t0), Admitted)
		finish(t, q, t0, take(t, q, t0, "a"), Result{Outcome: OutcomeError, Stage: StageHelper, Error: "exit code 3"})
		q.Reachable(t0, "a")
		add(t, q, t0, seen("a", t0), NotDue)
	})
}

func TestRule2AgeOfTheSighting(t *testing.T) {
	now := t0.Add(time.Hour)
	q := leading(10)
	add(t, q, now, seen("a", now.Add(-30*time.Minute)), Admitted) // unknown: its age does not matter
	add(t, q, now, seen("a", now.Add(-time.Minute+1)), Duplicate)
	count(t, q, RefusedDuplicate, 1)
	add(t, q, now, seen("a", now.Add(-time.Minute)), AdmittedAgain) // exactly the interval
	if q.Waiting() != 1 || q.HeapLen() != 2 {
		t.Fatalf("map %d, heap %d; want 1 and 2", q.Waiting(), q.HeapLen())
	}
	// It is the sighting's age, not that of the entry: an entry of long ago and a fresh sighting are a duplicate.
	add(t, q, now.Add(90*time.Second), seen("a", now.Add(90*time.Second)), Duplicate)
	// A sighting from the future has no age.
	add(t, q, now, seen("a", now.Add(time.Hour)), Duplicate)
}

func TestRule3RoomBeforeTheMap(t *testing.T) {
	q := leading(2)
	add(t, q, t0, seen("a", t0), Admitted)
	add(t, q, t0, seen("b", t0), Admitted)
	add(t, q, t0, seen("c", t0), Full)
	add(t, q, t0, seen("d", t0), Full)
	count(t, q, RefusedFull, 2)
	count(t, q, CountDiscovered, 2) // the reference counts a refused one as discovered
	if q.Waiting() != 2 || q.HeapLen() != 2 {
		t.Fatalf("map %d, heap %d after a refusal; want 2 and 2", q.Waiting(), q.HeapLen())
	}
	// Known, old enough to be admitted again, and no room: the one that waits is not lost.
	add(t, q, t0, seen("a", t0.Add(-time.Hour)), Full)
	a := take(t, q, t0, "a")
	// The first that found no room is tried first once there is some, before a newer sighting.
	add(t, q, t0, seen("e", t0), Full)
	take(t, q, t0, "b")
	take(t, q, t0, "c")
	finish(t, q, t0, a, Result{Outcome: OutcomeUpgraded})
	take(t, q, t0, "d")
}

func TestRule3TheRememberedAreBounded(t *testing.T) {
	q := leading(1)
	add(t, q, t0, seen("first", t0), Admitted)
	for i := range MaxOverflow + 100 {
		if v := q.Add(t0, seen(fmt.Sprintf("m%d", i), t0)); v != Full {
			t.Fatalf("m%d: %s", i, v)
		}
	}
	sound(t, q)
	if n := len(q.overflow.byID); n != MaxOverflow {
		t.Fatalf("%d are remembered, want %d", n, MaxOverflow)
	}
	// A due machine that finds neither room nor a place is tried again a little later, not lost.
	q2 := leading(1)
	add(t, q2, t0, seen("r", t0), Admitted)
	finish(t, q2, t0, take(t, q2, t0, "r"), Result{Outcome: OutcomeError, Stage: StageHelper, Error: "x"})
	add(t, q2, t0, seen("first", t0), Admitted)
	for i := range MaxOverflow {
		q2.Add(t0, seen(fmt.Sprintf("m%d", i), t0))
	}
	now := t0.Add(BackoffFirst)
	if due, _ := q2.Tick(now); len(due) != 1 || q2.overflow.has("r") {
		t.Fatalf("due %v", due)
	}
	q2.overflow = overflow{}
	take(t, q2, now, "first")
	if due, _ := q2.Tick(now.Add(OverflowRetry)); len(due) != 1 {
		t.Fatal("a due machine that found no room was lost")
	}
	take(t, q2, now.Add(OverflowRetry), "r")
}

func TestRule4Generations(t *testing.T) {
	t.Run("an older one that waits is skipped", func(t *testing.T) {
		q := leading(10)
		add(t, q, t0, seen("a", t0), Admitted)
		add(t, q, t0, seen("a", t0.Add(-time.Minute)), AdmittedAgain)
		j := take(t, q, t0, "a")
		none(t, q, t0)
		if j.Generation != 2 || q.HeapLen() != 0 {
			t.Fatalf("generation %d, heap %d", j.Generation, q.HeapLen())
		}
		count(t, q, RefusedStale, 0) // skipped is not counted
	})
	t.Run("one more run after one that is running", func(t *testing.T) {
		q := leading(10)
		add(t, q, t0, seen("a", t0), Admitted)
		first := take(t, q, t0, "a")
		old := t0.Add(-time.Minute)
		add(t, q, t0, seen("a", old), RunAgainOnce)
		add(t, q, t0, seen("a", old), RunAgainOnce) // still one
		add(t, q, t0, seen("b", t0), Admitted)
		take(t, q, t0, "b") // it does not hold up others
		none(t, q, t0)      // and does not run twice at once
		if !q.IsCurrent("a", first.Generation) {
			t.Fatal("the running generation is no longer current")
		}
		finish(t, q, t0, first, Result{Outcome: OutcomeSuccess, Stage: StageRestart})
		second := take(t, q, t0, "a")
		finish(t, q, t0, second, Result{Outcome: OutcomeUpgraded})
		none(t, q, t0)
		if q.Waiting() != 1 || q.HeapLen() != 0 { // b
			t.Fatalf("map %d, heap %d", q.Waiting(), q.HeapLen())
		}
	})
	t.Run("finish acts on its own generation", func(t *testing.T) {
		q := leading(10)
		add(t, q, t0, seen("a", t0), Admitted)
		first := take(t, q, t0, "a")
		q.DropAll()
		add(t, q, t0, seen("a", t0), Admitted)
		none(t, q, t0) // the worker of before still has it
		if q.IsCurrent("a", first.Generation) {
			t.Fatal("a dropped run is current")
		}
		if q.Finish(t0, first, Result{Outcome: OutcomeError, Stage: StageHelper, Error: "late"}) {
			t.Fatal("a dropped run was finished")
		}
		count(t, q, CountErrors, 0)
		state(t, q, "a", StateWaiting)
		second := take(t, q, t0, "a")
		finish(t, q, t0, second, Result{Outcome: OutcomeUpgraded})
	})
	t.Run("a hold acts on its own generation", func(t *testing.T) {
		q := leading(10)
		add(t, q, t0, seen("a", t0), Admitted)
		succeed(t, q, t0, "a")
		now := t0.Add(59 * time.Second)
		add(t, q, now, seen("a", now.Add(-time.Minute)), AdmittedAgain)
		q.Tick(t0.Add(60 * time.Second)) // the old hold ends; the newer entry stays
		state(t, q, "a", StateWaiting)
		take(t, q, t0.Add(61*time.Second), "a")
	})
}

func TestRule5BootDuringTheHold(t *testing.T) {
	held := func() *Queue {
		q := leading(10)
		add(t, q, t0, seen("a", t0), Admitted)
		succeed(t, q, t0, "a")
		state(t, q, "a", StateHeld)
		return q
	}
	now := t0.Add(10 * time.Second)
	t.Run("same boot id", func(t *testing.T) {
		q := held()
		add(t, q, now, event("a", now, bootA), Duplicate)
		state(t, q, "a", StateHeld)
	})
	t.Run("a discovery with a new boot id is not an event", func(t *testing.T) {
		q := held()
		s := seen("a", now)
		s.BootID = bootB
		add(t, q, now, s, Duplicate)
	})
	t.Run("new boot id", func(t *testing.T) {
		q := held()
		add(t, q, now, event("a", now, bootB), HoldEnded)
		e := state(t, q, "a", StateBackingOff)
		if e.Attempt != 1 || e.Stage != StageConfirm || !e.Due.Equal(now.Add(5*time.Second)) || q.Waiting() != 0 {
			t.Fatalf("entry %+v, map %d", e, q.Waiting())
		}
		count(t, q, CountErrors, 1)
		add(t, q, now, event("a", now, bootB), NotDue)
		if due, _ := q.Tick(now.Add(5*time.Second - 1)); len(due) != 0 {
			t.Fatal("due too early")
		}
		if due, _ := q.Tick(now.Add(5 * time.Second)); len(due) != 1 {
			t.Fatal("not due after the first step")
		}
		// A configuration that never takes waits longer each time.
		later := now.Add(5 * time.Second)
		j := take(t, q, later, "a")
		finish(t, q, later, j, Result{Outcome: OutcomeSuccess, Stage: StageRestart, BootID: bootB})
		add(t, q, later, event("a", later, "00000000000000030000000000000003"), HoldEnded)
		if e := state(t, q, "a", StateBackingOff); !e.Due.Equal(later.Add(10 * time.Second)) {
			t.Fatalf("due %s after the second, want 10s", e.Due.Sub(later))
		}
	})
	t.Run("it was told to shut down", func(t *testing.T) {
		q := leading(10)
		add(t, q, t0, seen("a", t0), Admitted)
		finish(t, q, t0, take(t, q, t0, "a"), Result{Outcome: OutcomeShutdown, Stage: StageShutdown, BootID: bootA})
		add(t, q, now, event("a", now, bootB), HoldEnded)
		e := state(t, q, "a", StateBackingOff)
		if e.Stage != StageShutdown || e.LastError != "it was told to shut down, and was started again within the hold" || !e.Due.Equal(now.Add(5*time.Second)) ||
			e.History[len(e.History)-1].Stage != StageShutdown {
			t.Fatalf("%+v", e)
		}
		count(t, q, CountErrors, 1)
	})
	t.Run("mode always", func(t *testing.T) {
		q := held()
		s := event("a", now, bootB)
		s.Always = true
		add(t, q, now, s, Admitted)
		count(t, q, CountErrors, 0)
		state(t, q, "a", StateWaiting)
	})
	t.Run("confirmed", func(t *testing.T) {
		q := held()
		if !q.Confirmed(now, "a") {
			t.Fatal("not confirmed")
		}
		add(t, q, now, event("a", now, bootB), Admitted)
		count(t, q, CountErrors, 0)
	})
	t.Run("no room keeps the hold", func(t *testing.T) {
		q := leading(1)
		add(t, q, t0, seen("a", t0), Admitted)
		succeed(t, q, t0, "a")
		add(t, q, now, seen("b", now), Admitted)
		s := event("a", now, bootB)
		s.Always = true
		add(t, q, now, s, Full)
		if e := q.entries["a"]; e == nil || e.held == 0 {
			t.Fatal("the hold is gone")
		}
	})
	t.Run("an operator overrides hold and backoff", func(t *testing.T) {
		q := held()
		if a := q.Retry(now, "a"); a != AnswerQueued {
			t.Fatalf("Retry of a held one: %s", a.Row().Text)
		}
		state(t, q, "a", StateWaiting)
		q = held()
		add(t, q, now, event("a", now, bootB), HoldEnded)
		if a := q.Reprovision(now, "a"); a != AnswerQueued {
			t.Fatalf("Reprovision of one backing off: %s", a.Row().Text)
		}
		take(t, q, now, "a")
	})
}

// TestOrderOfAdmission gives inputs that a check refuses and every later one would too.
func TestOrderOfAdmission(t *testing.T) {
	full := func() *Queue { // a parked, b queued, and no room
		q := leading(1)
		add(t, q, t0, seen("a", t0), Admitted)
		finish(t, q, t0, take(t, q, t0, "a"), Result{Outcome: OutcomeError, Stage: StageHelper, Error: "x", Permanent: true})
		add(t, q, t0, seen("b", t0), Admitted)
		return q
	}
	q := full()
	q.Pause(PauseOperator)
	add(t, q, t0, Sighting{ID: "a b", Made: t0, Source: SourceDiscovery, Wants: true}, Invalid)
	add(t, q, t0, Sighting{ID: "a", Made: t0, Source: SourceEvent}, Invalid) // it wants nothing
	add(t, q, t0, Sighting{ID: "a", Made: t0, Wants: true}, Invalid)         // of no source
	add(t, q, t0, Sighting{ID: strings.Repeat("x", 65), Made: t0, Source: SourceRetry}, Invalid)
	add(t, q, t0, seen("a", t0), Paused)
	q.Resume(PauseOperator)
	add(t, q, t0, seen("a", t0), NotDue)
	add(t, q, t0, seen("b", t0), Duplicate)
	add(t, q, t0, seen("c", t0), Full)
	count(t, q, RefusedInvalid, 4)
	count(t, q, RefusedPaused, 1)
	count(t, q, RefusedNotDue, 1)
	count(t, q, RefusedDuplicate, 1)
	count(t, q, RefusedFull, 1)
}

func TestPausedUntilLeadership(t *testing.T) {
	q := New(Config{Interval: time.Minute, Capacity: 10})
	add(t, q, t0, seen("a", t0), Paused)
	q.Pause(PauseOperator)
	q.Resume(PauseNoLeadership)
	add(t, q, t0, seen("a", t0), Paused) // two causes, one is left
	q.Resume(PauseOperator)
	add(t, q, t0, seen("a", t0), Admitted)
	q.Pause(PauseNothingToProvisionWith)
	none(t, q, t0)
	if n := q.Next(t0); !n.IsZero() {
		t.Fatalf("a paused queue wakes at %s", n)
	}
	q.Resume(PauseNothingToProvisionWith)
	take(t, q, t0, "a")
}

func BenchmarkAdd(b *testing.B) {
	b.Run("duplicate", func(b *testing.B) {
		q := leading(10)
		q.Add(t0, seen("a", t0))
		b.ReportAllocs()
		for b.Loop() {
			q.Add(t0, seen("a", t0))
		}
	})
	b.Run("round of 1000", func(b *testing.B) {
		ids := make([]string, 1000)
		for i := range ids {
			ids[i] = fmt.Sprintf("%032x", i)
		}
		b.ReportAllocs()
		for b.Loop() {
			q := leading(50_000)
			for _, id := range ids {
				q.Add(t0, seen(id, t0))
			}
			for {
				j, ok := q.Take(t0)
				if !ok {
					break
				}
				q.Finish(t0, j, Result{Outcome: OutcomeUpgraded})
			}
		}
	})
	b.Run("at 50000", func(b *testing.B) {
		q := leading(60_000)
		for i := range 50_000 {
			q.Add(t0, seen(fmt.Sprintf("%032x", i), t0))
		}
		b.ReportAllocs()
		for b.Loop() {
			j, _ := q.Take(t0)
			q.Finish(t0, j, Result{Outcome: OutcomeUpgraded})
			q.Add(t0, seen(j.ID, t0))
		}
	})
}
