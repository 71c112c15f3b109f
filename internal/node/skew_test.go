package node

import (
	"testing"
	"time"
)

func TestSkewText(t *testing.T) {
	for _, c := range []struct {
		offset time.Duration
		want   string
	}{
		{5*time.Minute + 12*time.Second + 400*time.Millisecond, "the leader's clock is 5m12s ahead of this machine's"},
		{-5*time.Minute - 12*time.Second, "the leader's clock is 5m12s behind this machine's"},
		{-26 * time.Hour, "the leader's clock is 1d2h behind this machine's"},
		{400 * 24 * time.Hour, "the leader's clock is 400d ahead of this machine's"},
		{-498901 * time.Hour, "the leader's clock is 56 years behind this machine's"},
	} {
		if got := skewText(c.offset); got != c.want {
			t.Errorf("%s: %q, want %q", c.offset, got, c.want)
		}
	}
}
