package statedir

import (
	"testing"
)

// The pages' numbers, written out by hand: a constant that moves away from them is seen here, whatever other tests wait for.
func TestNumbersOfThePages(t *testing.T) {
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"archives kept", keptArchives, 8},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
}
