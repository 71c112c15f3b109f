package queue

import (
	"fmt"
	"testing"
	"time"
)

// checkAnswers is an operator's retry, drop and reprovision in every state: never 0 without an effect, and each refusal
// with its own sentence.
func checkAnswers() error {
	fresh := func(prepare func(q *Queue)) *Queue {
		q := leading(10)
		prepare(q)
		return q
	}
	put := func(q *Queue) { q.Add(t0, seen("a", t0)) }
	run := func(q *Queue) Job {
		put(q)
		j, _ := q.Take(t0)
		q.Begin(t0, j)
		return j
	}
	end := func(r Result) func(q *Queue) {
		return func(q *Queue) { q.Finish(t0, run(q), r) }
	}
	parked := end(Result{Outcome: OutcomeError, Stage: StageHelper, Error: "x", Permanent: true})
	held := end(Result{Outcome: OutcomeSuccess, Stage: StageRestart})
	for _, c := range []struct {
		name                     string
		prepare                  func(q *Queue)
		retry, reprovision, drop Answer
	}{
		{"unknown", func(*Queue) {}, AnswerUnknown, AnswerQueued, AnswerUnknown},
		{"waiting", put, AnswerWaiting, AnswerWaiting, AnswerDropped},
		{"running", func(q *Queue) { run(q) }, AnswerRunning, AnswerAgain, AnswerDropped},
		{"held", held, AnswerQueued, AnswerQueued, AnswerDropped},
		{"confirmed", func(q *Queue) { held(q); q.Confirmed(t0, "a") }, AnswerConfirmed, AnswerQueued, AnswerDropped},
		{"confirmed long ago", func(q *Queue) { held(q); q.Confirmed(t0, "a"); q.Tick(t0.Add(time.Minute)) }, AnswerConfirmed, AnswerQueued, AnswerNothing},
		{"parked", parked, AnswerQueued, AnswerQueued, AnswerDropped},
		{"deferred", end(Result{Outcome: OutcomeDeferred, Stage: StageHelper}), AnswerQueued, AnswerQueued, AnswerDropped},
		{"backing off", end(Result{Outcome: OutcomeError, Stage: StageHelper}), AnswerQueued, AnswerQueued, AnswerDropped},
		{"shut down", func(q *Queue) { end(Result{Outcome: OutcomeShutdown})(q); q.Tick(t0.Add(time.Minute)) }, AnswerQueued, AnswerQueued, AnswerNothing},
		{"paused", func(q *Queue) { parked(q); q.Pause(PauseOperator) }, AnswerPaused, AnswerPaused, AnswerDropped},
		{"full", func(q *Queue) { parked(q); q.cfg.Capacity = 1; q.Add(t0, seen("b", t0)) }, AnswerFull, AnswerFull, AnswerDropped},
	} {
		q := fresh(c.prepare)
		was := q.gen
		if got := q.Retry(t0, "a"); got != c.retry {
			return fmt.Errorf("%s: retry says %q", c.name, got.Row().Text)
		} else if got.Row().Effect != (q.gen > was) {
			return fmt.Errorf("%s: retry says %q with %d new runs", c.name, got.Row().Text, q.gen-was)
		}
		q = fresh(c.prepare)
		was = q.gen
		if got := q.Reprovision(t0, "a"); got != c.reprovision {
			return fmt.Errorf("%s: reprovision says %q", c.name, got.Row().Text)
		} else if got.Row().Effect != (q.gen > was) {
			return fmt.Errorf("%s: reprovision says %q with %d new runs", c.name, got.Row().Text, q.gen-was)
		}
		q = fresh(c.prepare)
		before, _ := q.Entry("a")
		waiting := q.Waiting()
		got := q.Drop("a")
		if got != c.drop {
			return fmt.Errorf("%s: drop says %q", c.name, got.Row().Text)
		}
		if e, _ := q.Entry("a"); got.Row().Effect && e.State != StateNone && e.State != StateConfirmed {
			return fmt.Errorf("%s: dropped, and %q", c.name, e.State)
		}
		after, _ := q.Entry("a")
		if got.Row().Effect != (before.State != after.State || waiting != q.Waiting()) {
			return fmt.Errorf("%s: drop says %q, and it was %q, is %q", c.name, got.Row().Text, before.State, after.State)
		}
		if err := faults(q); err != nil {
			return err
		}
	}
	texts := map[string]bool{}
	for _, r := range Answers {
		if r.Text == "" || texts[r.Text] || (!r.Effect && r.Hint == "") {
			return fmt.Errorf("answer %d: %q, hint %q", r.Answer, r.Text, r.Hint)
		}
		texts[r.Text] = true
	}
	return nil
}

func TestOperatorAnswers(t *testing.T) {
	if err := checkAnswers(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationAnswers(t *testing.T) {
	for i := range Answers {
		was := Answers[i]
		Answers[i].Effect = !was.Effect
		err := checkAnswers()
		Answers[i] = was
		if err == nil {
			t.Errorf("answer %q flipped passes", was.Text)
		}
	}
}

func TestRetryTwiceIsOneAttempt(t *testing.T) {
	q := leading(10)
	add(t, q, t0, seen("a", t0), Admitted)
	finish(t, q, t0, take(t, q, t0, "a"), Result{Outcome: OutcomeError, Stage: StageHelper, Error: "x", Permanent: true})
	if a := q.Retry(t0, "a"); a != AnswerQueued {
		t.Fatal(a.Row().Text)
	}
	if a := q.Retry(t0, "a"); a != AnswerWaiting {
		t.Fatal(a.Row().Text)
	}
	take(t, q, t0, "a")
	none(t, q, t0)
}

func TestDropOfARunningOneEndsIt(t *testing.T) {
	q := leading(10)
	add(t, q, t0, seen("a", t0), Admitted)
	j := take(t, q, t0, "a")
	if a := q.Drop("a"); a != AnswerDropped || q.IsCurrent("a", j.Generation) {
		t.Fatal("still current")
	}
	add(t, q, t0, seen("a", t0), Admitted)
	none(t, q, t0) // its worker has not ended yet
	q.Finish(t0, j, Result{Outcome: OutcomeError})
	take(t, q, t0, "a")
}

func TestEntries(t *testing.T) {
	q := leading(2)
	for _, id := range []string{"w", "h"} {
		add(t, q, t0, seen(id, t0), Admitted)
	}
	add(t, q, t0, seen("over", t0), Full)
	take(t, q, t0, "w")
	var got []string
	for _, e := range q.Entries() {
		got = append(got, e.ID+":"+e.State.String())
	}
	want := []string{"h:waiting", "over:waiting", "w:running"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	if added, ok := q.Oldest(); !ok || !added.Equal(t0) {
		t.Fatal("the oldest entry is not found")
	}
}

// TestAskedStaysUntilConfirmed: what a person asked for is tried again after a failure, also where the machine itself says
// that it wants nothing, until a run is confirmed or the machine is dropped.
func TestAskedStaysUntilConfirmed(t *testing.T) {
	failed := Result{Outcome: OutcomeError, Stage: StageConfigure, Error: "x", Unreachable: true}
	q := leading(10)
	now := t0
	next := func(want bool, r Result) {
		t.Helper()
		j := take(t, q, now, "a")
		if j.Asked != want {
			t.Fatalf("asked is %v, want %v", j.Asked, want)
		}
		finish(t, q, now, j, r)
	}
	add(t, q, now, seen("a", now), Admitted)
	next(false, failed)
	q.Reprovision(now, "a")
	next(true, failed)
	q.Reachable(now, "a")
	q.Tick(now)
	next(true, Result{Outcome: OutcomeDeferred, Stage: StageHelper, RetryAfter: time.Second})
	now = now.Add(time.Second)
	q.Tick(now)
	next(true, Result{Outcome: OutcomeSuccess, Stage: StageRestart})
	now = now.Add(DefaultHold) // not confirmed
	q.Tick(now)
	now = now.Add(BackoffMax)
	q.Tick(now)
	next(true, Result{Outcome: OutcomeSuccess, Stage: StageRestart})
	q.Confirmed(now, "a")
	now = now.Add(MinInterval)
	q.Tick(now)
	add(t, q, now, seen("a", now), Admitted)
	next(false, failed)

	// A word that comes while another run is at work is about the one after it.
	now = now.Add(BackoffMax)
	q.Tick(now)
	j := take(t, q, now, "a")
	q.Begin(now, j)
	q.Reprovision(now, "a")
	finish(t, q, now, j, Result{Outcome: OutcomeSuccess, Stage: StageRestart})
	q.Confirmed(now, "a")
	next(true, failed)
	q.Drop("a")
	add(t, q, now, seen("a", now), Admitted)
	next(false, failed)
}

// TestConfigureQueue: what waits beyond a smaller capacity stays and is worked; nothing is admitted until it has drained.
func TestConfigureQueue(t *testing.T) {
	q := leading(4)
	for _, id := range []string{"a", "b", "c"} {
		add(t, q, t0, seen(id, t0), Admitted)
	}
	q.Configure(2*time.Minute, 1)
	sound(t, q)
	add(t, q, t0, seen("d", t0), Full)
	add(t, q, t0, seen("a", t0.Add(-119*time.Second)), Duplicate) // the interval is another one too
	for _, id := range []string{"a", "b"} {
		finish(t, q, t0, take(t, q, t0, id), Result{Outcome: OutcomeUpgraded})
	}
	c := take(t, q, t0.Add(4*time.Minute), "c") // exactly two of the new intervals
	finish(t, q, t0.Add(4*time.Minute), c, Result{Outcome: OutcomeUpgraded})
	finish(t, q, t0.Add(4*time.Minute), take(t, q, t0.Add(4*time.Minute), "d"), Result{Outcome: OutcomeUpgraded})
	q.Configure(0, 0)
	if q.cfg.Interval != MinInterval || q.cfg.Capacity != DefaultCapacity {
		t.Errorf("%+v", q.cfg)
	}
	sound(t, q)
}
