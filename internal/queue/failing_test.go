package queue

import (
	"testing"
	"time"
)

// TestFailing: who counts as failing again and again, and for how long.
func TestFailing(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	q := New(Config{})
	q.Resume(PauseNoLeadership)
	run := func(id string, r Result) {
		t.Helper()
		now = now.Add(time.Hour) // whatever it waited for is over
		q.Tick(now)
		q.Add(now, Sighting{ID: id, Made: now, Source: SourceOperator, Wants: true})
		for tries := 0; ; {
			j, ok := q.Take(now)
			if !ok { // it had waited since the last hour, for too long
				if tries++; tries > 1 {
					t.Fatalf("%s does not run", id)
				}
				q.Tick(now)
				q.Add(now, Sighting{ID: id, Made: now, Source: SourceOperator, Wants: true})
				continue
			}
			if j.ID == id && q.Begin(now, j) {
				q.Finish(now, j, r)
				return
			}
			q.Finish(now, j, Result{Outcome: OutcomeSkipped})
		}
	}
	want := func(count int, id, lastError string) {
		t.Helper()
		if c, i, e := q.Failing(); c != count || i != id || e != lastError {
			t.Errorf("%d %q %q, want %d %q %q", c, i, e, count, id, lastError)
		}
	}
	failed := Result{Outcome: OutcomeError, Stage: StageHelper, Error: "exit code 3"}
	want(0, "", "")
	run("b", failed)
	run("b", failed)
	want(0, "", "")
	run("b", failed)
	want(1, "b", "exit code 3")
	for range 4 { // it is away, which is no failure of its provisioning
		run("away", Result{Outcome: OutcomeError, Stage: StageProbe, Error: "no session", Unreachable: true})
		run("later", Result{Outcome: OutcomeDeferred, Stage: StageHelper})
	}
	want(1, "b", "exit code 3")
	run("d", Result{Outcome: OutcomeError, Stage: StageHelper, Error: "wrong type", Permanent: true})
	want(2, "d", "wrong type")
	run("c", Result{Outcome: OutcomeError, Stage: StageHelper, Error: "wrong too", Permanent: true})
	want(3, "c", "wrong too")
	// It stays so while it is tried once more, and ends with a confirmation or an operator's word.
	q.Retry(now, "c")
	want(3, "c", "wrong too")
	run("c", Result{Outcome: OutcomeSuccess, Stage: StageRestart})
	q.Confirmed(now, "c")
	want(2, "d", "wrong type")
	q.Drop("d")
	want(1, "b", "exit code 3")
	q.Removed("b")
	want(0, "", "")
}
