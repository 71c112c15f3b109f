package node

import (
	"fmt"
	"maps"
	"testing"

	"pace-node/internal/fleet"
	"pace-node/internal/formation"
)

// With which wished role a learner's consensus port is open: the table of modes, "open while voter-pending", and while raft
// may hold it as a voter, whatever became of the entry that says so.
func checkSeatRoles() error {
	for role, open := range map[fleet.Role]bool{
		fleet.RoleLearner: false, fleet.RoleVoterPending: true, fleet.RoleVoter: true, fleet.RoleLeaving: true, "": false, "leader": false,
	} {
		if seatRoles[role] != open {
			return fmt.Errorf("as %q its consensus port is open: %v", role, !open)
		}
	}
	return nil
}

// After which effects this machine's sessions with those whom it knew are closed, so that it says Hello anew: it is in another
// fleet, or another epoch. Whoever goes into a survivor takes its sessions along: the leader that dissolves lingers for them.
func checkParting() error {
	want := map[formation.Effect]bool{
		formation.EffectNone: false, formation.EffectRecordTarget: false, formation.EffectDissolve: false, formation.EffectRememberRejection: false,
		formation.EffectClearTarget: false, formation.EffectAdoptSeat: false, formation.EffectMintNew: true, formation.EffectArchiveEpoch: true,
		formation.EffectArchive: true, formation.EffectMintAndAsk: false,
	}
	for _, t := range formation.Transitions {
		if _, known := want[t.Effect]; !known {
			return fmt.Errorf("effect %d of %s on %s has no row here", t.Effect, t.From, t.On)
		}
	}
	for effect, parts := range want {
		if parting[effect] != parts {
			return fmt.Errorf("effect %d parts: %v", effect, !parts)
		}
	}
	return nil
}

func TestSeatRoles(t *testing.T) {
	if err := checkSeatRoles(); err != nil {
		t.Error(err)
	}
}

func TestParting(t *testing.T) {
	if err := checkParting(); err != nil {
		t.Error(err)
	}
}

func TestMutationSeatRoles(t *testing.T) {
	flipEach(t, seatRoles, checkSeatRoles, fleet.RoleLearner)
}

func TestMutationParting(t *testing.T) {
	flipEach(t, parting, checkParting, formation.EffectDissolve, formation.EffectAdoptSeat, formation.EffectMintAndAsk)
}

// flipEach takes each row out, and puts others in, and must see the check fail.
func flipEach[K comparable](t *testing.T, table map[K]bool, check func() error, others ...K) {
	t.Helper()
	whole := maps.Clone(table)
	for k := range whole {
		delete(table, k)
		if check() == nil {
			t.Errorf("row %v taken out, and nothing noticed", k)
		}
		table[k] = true
	}
	for _, k := range others {
		table[k] = true
		if check() == nil {
			t.Errorf("row %v put in, and nothing noticed", k)
		}
		delete(table, k)
	}
}
