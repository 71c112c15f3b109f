package control

import (
	"fmt"
	"testing"
)

// checkCallsPerson: a person must act on every alert, and on machines that wait, whose number counts.
func checkCallsPerson() error {
	want := map[string][2]bool{"enrollment-requests-waiting": {true, true}}
	for _, id := range []string{"fleet-split-healing", "own-key-revoked", "pin-disagrees", "fleet-unreachable", "fleet-recovered-elsewhere", "formation-move-refused",
		"consensus-leader-silent", "consensus-store-unwritable", "identity-clash", "identity-cloned", "state-dir-lost", "fleet-state-differs", "fleet-format-newer"} {
		want[id] = [2]bool{true, false}
	}
	for _, row := range Conditions {
		calls, again := CallsPerson(ConditionStatus{ID: row.ID, Severity: row.Severity.String()})
		if got := [2]bool{calls, again}; got != want[row.ID] {
			return fmt.Errorf("%s: %v, want %v", row.ID, got, want[row.ID])
		}
	}
	return nil
}

func TestCallsPerson(t *testing.T) {
	if err := checkCallsPerson(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationCallsFor(t *testing.T) {
	for i := range callsFor {
		row := callsFor[i]
		callsFor[i].Again = !row.Again
		if checkCallsPerson() == nil {
			t.Errorf("%s: Again flipped passes", row.ID)
		}
		callsFor[i] = row
		callsFor[i].ID = "single-voter-fleet"
		if checkCallsPerson() == nil {
			t.Errorf("%s: another condition in its place passes", row.ID)
		}
		callsFor[i] = row
	}
}
