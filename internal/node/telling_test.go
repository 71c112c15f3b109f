package node

import (
	"testing"
	"time"
)

// TestTelling: what the fleet does not hold is said again, at once to another leader, and to one that keeps to its word ever
// more rarely.
func TestTelling(t *testing.T) {
	var x telling
	began := time.Unix(1_800_000_000, 0)
	said := func(leader string, differs bool, until time.Duration) (out []time.Duration) {
		for at := time.Duration(0); at < until; at += time.Second {
			if x.due(began.Add(at), leader, differs) {
				out = append(out, at)
			}
		}
		return out
	}
	if got := said("a", false, time.Hour); got != nil {
		t.Errorf("what the fleet holds is said at %v", got)
	}
	if got := said("", true, time.Hour); got != nil {
		t.Errorf("without a leader it is said at %v", got)
	}
	got := said("a", true, time.Hour)
	want := []time.Duration{0, 10 * time.Second, 30 * time.Second, 70 * time.Second, 150 * time.Second, 310 * time.Second, 630 * time.Second, 1230 * time.Second, 1830 * time.Second, 2430 * time.Second, 3030 * time.Second}
	if len(got) != len(want) {
		t.Fatalf("said at %v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("said at %v, want %v", got[i], want[i])
		}
	}
	if !x.due(began, "b", true) {
		t.Error("another leader is not told at once")
	}
	if x.due(began, "b", false) || !x.due(began, "b", true) {
		t.Error("what differs anew is not said at once")
	}
}
