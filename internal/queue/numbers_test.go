package queue

import (
	"testing"
	"time"
)

// The page's numbers, written out by hand: a constant that moves away from them is seen here, whatever other tests wait for.
func TestNumbersOfThePage(t *testing.T) {
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"interval, not below", int64(MinInterval), int64(time.Minute)},
		{"hold", int64(DefaultHold), int64(60 * time.Second)},
		{"--provision-queue", DefaultCapacity, 50_000},
		{"picked up at an age above so many intervals", StaleIntervals, 2},
		{"the first wait after a failure", int64(BackoffFirst), int64(5 * time.Second)},
		{"the longest", int64(BackoffMax), int64(10 * time.Minute)},
		{"more or less by so many percent", int64(100 * BackoffJitter), 50},
		{"outcomes that are kept", MaxHistory, 20},
		{"a refusal for now is tried again within", int64(NotYetWait), int64(2 * time.Second)},
		{"and counts as nothing for", int64(NotYetMost), int64(30 * time.Second)},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
}
