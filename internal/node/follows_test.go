package node

import (
	"slices"
	"testing"

	"pace-node/internal/control"
)

// TestOneEach: a machine follows one voter, and what is known here stands before what others said.
func TestOneEach(t *testing.T) {
	got := oneEach([]control.FollowLink{{ID: "c", Follows: "here"}, {ID: "a", Follows: "here"}, {ID: "a", Follows: "there"}, {ID: "b", Follows: "there"}, {ID: "c", Follows: "there"}})
	want := []control.FollowLink{{ID: "a", Follows: "here"}, {ID: "b", Follows: "there"}, {ID: "c", Follows: "here"}}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
