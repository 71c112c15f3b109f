package queue

import "testing"

// TestAnEndedWaitIsNoReason: where somebody stopped waiting before anything else was known of a machine, neither the list nor
// the history says it in a program's words.
func TestAnEndedWaitIsNoReason(t *testing.T) {
	for _, c := range []struct{ err, want string }{
		{"configure: context canceled", "configure: it was taken away before it had ended"},
		{"context deadline exceeded", "it did not end in time"},
	} {
		for _, outcome := range []Outcome{OutcomeError, OutcomeNotYet} {
			q := leading(10)
			add(t, q, t0, seen("a", t0), Admitted)
			finish(t, q, t0, take(t, q, t0, "a"), Result{Outcome: outcome, Stage: StageConfigure, Error: c.err})
			e, _ := q.Entry("a")
			if e.LastError != c.want || outcome == OutcomeError && e.History[0].Error != c.want {
				t.Errorf("%s, %q: %+v", outcome, c.err, e)
			}
		}
	}
}
