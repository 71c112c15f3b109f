package wire

import (
	"testing"
)

// The pages' numbers, written out by hand: a constant that moves away from them is seen here, whatever other tests wait for.
func TestNumbersOfThePages(t *testing.T) {
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"an answer or a push", MaxAnswer, 1 << 20},
		{"a snapshot", MaxSnapshot, 64 << 20},
		{"the protocol's version", ProtocolVersion, 1},
		{"the version of a lease", int64(LeaseVersion), 1},
		{"the role of a learner", int64(RoleLearner), 3},
		{"an id", MaxID, 64},
		{"Enroll", int64(ceiling(VerbEnroll)), 1 << 10},
		{"Work", int64(ceiling(VerbWork)), 4 << 20},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
}

func ceiling(v Verb) uint32 {
	row, _ := LookupVerb(v)
	return uint32(row.Ceiling)
}
