package node

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
		{"a verb without a quorum ends", int64(proposeTimeout), int64(30 * time.Second)},
		{"forget, accept, recover", int64(max(leaveTimeout, acceptTimeout, recoverTimeout)), int64(30 * time.Second)},
		{"one DissolveInto at most", int64(healEvery), int64(time.Minute)},
		{"a leader lingers at most", int64(lingerMost), int64(60 * time.Second)},
		{"fleet-unreachable", int64(unreachableAfter), int64(24 * time.Hour)},
		{"a repeated line", int64(noiseEvery), int64(time.Minute)},
		{"interfaces are listed again", int64(relistPeriod), int64(30 * time.Second)},
		{"members of a summary", maxListed, 10},
		{"a voter's peer counts as proven", int64(leaderSilence), int64(90 * time.Second)},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
}
