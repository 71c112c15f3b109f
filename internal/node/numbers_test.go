package node

import (
	"reflect"
	"testing"
	"time"

	"pace-node/internal/wire"
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

// TestSameSummary: a summary is another one whichever of its fields differs.
func TestSameSummary(t *testing.T) {
	full := wire.Summary{Cluster: "c", Members: []string{"a", "b"}, Total: 2}
	if !sameSummary(full, wire.Summary{Cluster: "c", Members: []string{"a", "b"}, Total: 2}) {
		t.Error("equal ones differ")
	}
	for i := range reflect.TypeFor[wire.Summary]().NumField() {
		other := full
		switch f := reflect.ValueOf(&other).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString("other")
		case reflect.Uint64, reflect.Uint8:
			f.SetUint(9)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"a", "c"}))
		case reflect.Struct:
			f.FieldByName("ID").SetString("other")
		default:
			t.Fatalf("field %d is of a kind that this test does not set", i)
		}
		if sameSummary(full, other) {
			t.Errorf("field %s is not compared", reflect.TypeFor[wire.Summary]().Field(i).Name)
		}
	}
}
