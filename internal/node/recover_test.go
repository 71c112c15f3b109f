package node

import (
	"fmt"
	"testing"
	"time"

	"pace-node/internal/formation"
)

// wantRecovery: what stands against a recovery, with each of its facts at the edge. "" is nothing.
var wantRecovery = []struct {
	facts recoveryFacts
	name  string
}{
	{recoveryFacts{mode: formation.Learner, applied: true, held: true, voters: 1, silent: time.Hour}, ""},
	{recoveryFacts{mode: formation.Voter, applied: true, held: true, voters: 2, heard: 1, silent: time.Hour}, ""},
	{recoveryFacts{mode: formation.Voter, applied: true, held: true, voters: 3, heard: 1, leader: "x", silent: 15 * time.Second}, ""},
	{recoveryFacts{mode: formation.Learner, applied: true, held: true, voters: 4, heard: 2, silent: time.Hour}, ""},
	{recoveryFacts{moving: true}, "moving"},
	{recoveryFacts{mode: formation.Solitary, leads: true}, "no fleet"},
	{recoveryFacts{mode: formation.Pending, leads: true}, "no fleet"},
	{recoveryFacts{mode: formation.Learner, voters: 1}, "no state"},
	{recoveryFacts{mode: formation.Learner, applied: true, voters: 1, frozen: true}, "not a member"},
	{recoveryFacts{mode: formation.Learner, applied: true, held: true, frozen: true, leader: "x", voters: 1}, "later format"},
	{recoveryFacts{mode: formation.Voter, applied: true, held: true, leads: true, leader: "x", voters: 1, heard: 1}, "leads"},
	{recoveryFacts{mode: formation.Learner, applied: true, held: true, leader: "x", silent: 15*time.Second - 1, voters: 3, heard: 2}, "has a leader"},
	{recoveryFacts{mode: formation.Voter, applied: true, held: true, voters: 3, heard: 2, silent: time.Hour}, "has a quorum"},
	{recoveryFacts{mode: formation.Learner, applied: true, held: true, voters: 1, heard: 1, silent: time.Hour}, "has a quorum"},
}

// checkRecovery: the first row that fits is the answer, and each has words and a way out.
func checkRecovery() error {
	for i, w := range wantRecovery {
		got := ""
		for j := range recoveryRefusals {
			if r := &recoveryRefusals[j]; r.Bad(w.facts) {
				got = r.Name
				if text, hint := r.Say(w.facts); text == "" || hint == "" {
					return fmt.Errorf("%s: %q, %q", r.Name, text, hint)
				}
				break
			}
		}
		if got != w.name {
			return fmt.Errorf("case %d: %q, want %q", i, got, w.name)
		}
	}
	return nil
}

func TestRecoveryRefusals(t *testing.T) {
	if err := checkRecovery(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationRecoveryRefusals(t *testing.T) {
	for i := range recoveryRefusals {
		old := recoveryRefusals[i]
		recoveryRefusals[i].Bad = func(recoveryFacts) bool { return false }
		if checkRecovery() == nil {
			t.Errorf("row %q taken out, and nothing failed", old.Name)
		}
		recoveryRefusals[i] = old
	}
}
