package queue

import (
	"slices"
	"testing"
	"time"
)

// TestRefusedForNow: a refusal that is over by itself counts as nothing, is tried again within two seconds whatever failed
// before, and keeps the reason that was there; after half a minute of them it is a failure.
func TestRefusedForNow(t *testing.T) {
	q := leading(10)
	q.cfg.Rand = func() float64 { return 0.5 }
	add(t, q, t0, seen("a", t0), Admitted)
	for range 4 { // it waits the longer for each of these
		finish(t, q, t0, take(t, q, t0, "a"), Result{Outcome: OutcomeError, Stage: StageHelper, Error: "exit 3"})
		q.Retry(t0, "a")
	}
	now := t0
	var first time.Time
	notYet := Result{Outcome: OutcomeNotYet, Stage: StageProbe, Error: "not heard yet"}
	for {
		j := take(t, q, now, "a")
		if j.Attempt != 5 {
			t.Fatalf("attempt %d", j.Attempt)
		}
		finish(t, q, now, j, notYet)
		sound(t, q)
		e, _ := q.Entry("a")
		if first.IsZero() {
			first = now
		}
		if e.Attempt == 5 {
			break
		}
		if e.State != StateBackingOff || e.LastError != "exit 3" || len(e.History) != 4 || !e.Due.Equal(now.Add(1500*time.Millisecond)) {
			t.Fatalf("after %s: %+v", now.Sub(first), e)
		}
		if v := q.Add(now, seen("a", now)); v != NotDue {
			t.Fatalf("a sighting while it waits: %s", v)
		}
		count(t, q, CountErrors, 4)
		now = e.Due
		if due, _ := q.Tick(now); !slices.Equal(due, []string{"a"}) {
			t.Fatalf("due %v", due)
		}
	}
	count(t, q, CountErrors, 5)
	if e, _ := q.Entry("a"); now.Sub(first) != 30*time.Second || e.LastError != "not heard yet" || e.Kind != KindTransient || e.State != StateBackingOff {
		t.Fatalf("after %s: %+v", now.Sub(first), e)
	}
	// Whatever else happens begins its patience anew.
	q.Retry(now, "a")
	finish(t, q, now, take(t, q, now, "a"), Result{Outcome: OutcomeUnwanted})
	now = now.Add(time.Hour)
	add(t, q, now, seen("a", now), Admitted)
	finish(t, q, now, take(t, q, now, "a"), notYet)
	if e, _ := q.Entry("a"); e.Due.Sub(now) > 2*time.Second {
		t.Fatalf("%+v", e)
	}
	count(t, q, CountErrors, 5)
}
