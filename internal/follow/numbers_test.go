package follow

import (
	"testing"
	"time"
)

// The pages' numbers, written out by hand: a constant that moves away from them is seen here, whatever other tests wait for.
func TestNumbersOfThePages(t *testing.T) {
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"a heartbeat", int64(HeartbeatEvery), int64(5 * time.Second)},
		{"silence before another voter is followed", int64(SilenceLimit), int64(15 * time.Second)},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
}
