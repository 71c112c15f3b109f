package queue

import (
	"testing"
	"time"
)

// t0 has a monotonic reading, as the product's now has.
var t0 = time.Now()

const (
	bootA = "00000000000000010000000000000001"
	bootB = "00000000000000020000000000000002"
)

// leading is a queue that may run: interval 1 minute, hold 60 s, no jitter.
func leading(capacity int) *Queue {
	q := New(Config{Interval: time.Minute, Capacity: capacity, Hold: 60 * time.Second})
	q.Resume(PauseNoLeadership)
	return q
}

func seen(id string, made time.Time) Sighting {
	return Sighting{ID: id, Made: made, Source: SourceDiscovery, BootID: bootA, Wants: true}
}

func event(id string, made time.Time, boot string) Sighting {
	return Sighting{ID: id, Made: made, Source: SourceEvent, BootID: boot, Wants: true}
}

func add(t *testing.T, q *Queue, now time.Time, s Sighting, want Verdict) {
	t.Helper()
	if got := q.Add(now, s); got != want {
		t.Fatalf("Add(%s, %s) = %s, want %s", s.ID, s.Source, got, want)
	}
	sound(t, q)
}

func take(t *testing.T, q *Queue, now time.Time, want string) Job {
	t.Helper()
	j, ok := q.Take(now)
	if !ok || j.ID != want {
		t.Fatalf("Take = %q %v, want %q", j.ID, ok, want)
	}
	if !q.Begin(now, j) {
		t.Fatalf("Begin(%s) refused", j.ID)
	}
	sound(t, q)
	return j
}

func none(t *testing.T, q *Queue, now time.Time) {
	t.Helper()
	if j, ok := q.Take(now); ok {
		t.Fatalf("Take = %q, want nothing", j.ID)
	}
	sound(t, q)
}

func finish(t *testing.T, q *Queue, now time.Time, j Job, r Result) {
	t.Helper()
	if r.BootID == "" {
		r.BootID = bootA
	}
	if !q.Finish(now, j, r) {
		t.Fatalf("Finish(%s) was not current", j.ID)
	}
	sound(t, q)
}

func state(t *testing.T, q *Queue, id string, want State) Entry {
	t.Helper()
	e, _ := q.Entry(id)
	if e.State != want {
		t.Fatalf("state of %s is %q, want %q", id, e.State, want)
	}
	return e
}

func count(t *testing.T, q *Queue, c Counter, want uint64) {
	t.Helper()
	if got := q.Count(c); got != want {
		t.Fatalf("counter %d is %d, want %d", c, got, want)
	}
}

// succeed runs a machine to its hold.
func succeed(t *testing.T, q *Queue, now time.Time, id string) Job {
	t.Helper()
	j := take(t, q, now, id)
	finish(t, q, now, j, Result{Outcome: OutcomeSuccess, Stage: StageRestart})
	return j
}

func sound(t *testing.T, q *Queue) {
	t.Helper()
	if err := faults(q); err != nil {
		t.Fatal(err)
	}
}

// faults reports which of the queue's invariants does not hold.
func faults(q *Queue) error { return q.Check() }
