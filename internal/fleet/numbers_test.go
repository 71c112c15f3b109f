package fleet

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
		{"the life of a lease", int64(LeaseLife), int64(10 * time.Minute)},
		{"the slack of its expiry", int64(LeaseSlack), int64(300 * time.Second)},
		{"no work after hearing no voter for", int64(LeaseSilence), int64(65 * time.Minute)},
		{"what was done under a lease is remembered for", int64(LeaseKept), int64(20 * time.Minute)},
		{"a promotion that stands still is withdrawn", int64(PromotionPatience), int64(10 * time.Minute)},
		{"the audit's ring", MaxAudit, 1000},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
}
