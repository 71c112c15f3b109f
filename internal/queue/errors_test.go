package queue

import (
	"fmt"
	"testing"
)

// checkGivenUp: where somebody stopped waiting before anything else was known of a machine, neither the list nor the history
// says it in a program's words.
func checkGivenUp() error {
	for _, c := range []struct{ err, want string }{
		{"configure: context canceled", "configure: it was taken away before it had ended"},
		{"context deadline exceeded", "it did not end in time"},
		{"context canceled by its owner", "context canceled by its owner"},
	} {
		for _, outcome := range []Outcome{OutcomeError, OutcomeNotYet} {
			q := leading(10)
			q.Add(t0, seen("a", t0))
			j, _ := q.Take(t0)
			q.Finish(t0, j, Result{Outcome: outcome, Stage: StageConfigure, Error: c.err})
			e, _ := q.Entry("a")
			if e.LastError != c.want || outcome == OutcomeError && e.History[0].Error != c.want {
				return fmt.Errorf("%s, %q: %+v", outcome, c.err, e)
			}
		}
	}
	return nil
}

func TestAnEndedWaitIsNoReason(t *testing.T) {
	if err := checkGivenUp(); err != nil {
		t.Error(err)
	}
}

func TestMutationGivenUp(t *testing.T) {
	for i := range givenUp {
		was := givenUp[i]
		for name, flip := range map[string]func(){
			"the ending":     func() { givenUp[i].ending = "x" + was.ending },
			"what is said":   func() { givenUp[i].says = was.ending },
			"nothing at all": func() { givenUp[i].says = "" },
		} {
			flip()
			err := checkGivenUp()
			givenUp[i] = was
			if err == nil {
				t.Errorf("%q: %s flipped passes", was.ending, name)
			}
		}
	}
}
