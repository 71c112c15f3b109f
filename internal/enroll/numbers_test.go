package enroll

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
		{"rows that wait", MaxRows, 64},
		{"rejected rows kept", MaxDecided, 64},
		{"undecided rows a source network", DefaultPerSource, 4},
		{"bits of a source network over IPv6", ipv6Network, 64},
		{"an undecided row unheard goes", int64(UnheardFor), int64(10 * time.Minute)},
		{"a rejected row goes", int64(DecidedFor), int64(time.Hour)},
		{"the pending answer is repeated", int64(RepeatEvery), int64(60 * time.Second)},
		{"the longest window", int64(MaxWindow), int64(24 * time.Hour)},
		{"redirects an ask", MaxRedirects, 2},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
}
