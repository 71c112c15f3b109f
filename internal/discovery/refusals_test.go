package discovery

import (
	"fmt"
	"testing"

	"pace-node/internal/identity"
)

// checkRefusals is the table of what a verdict of the roster makes of a proof.
func checkRefusals() error {
	for verdict, want := range map[RosterVerdict]struct {
		metric string
		event  EventKind
		admit  bool
	}{
		RosterUnknown:  {"pace_discovery_proofs_refused_unknown_key_total", EventUnknownKey, true},
		RosterOtherKey: {"pace_discovery_proofs_refused_unknown_key_total", EventUnknownKey, true},
		RosterRevoked:  {"pace_discovery_proofs_refused_revoked_key_total", EventRevokedKey, false},
	} {
		g := spoken(0)
		g.cfg.Roster = func(_ string, key identity.PublicKey) RosterVerdict {
			if key.IsZero() {
				return RosterUnknown
			}
			return verdict
		}
		if err := proveQuietly(g, 1); err != nil {
			return err
		}
		e := g.seen(want.event)
		if g.nonZero()[want.metric] != 1 || len(e) != 1 || (e[0].Admit != "") != want.admit {
			return fmt.Errorf("verdict %d: counted %v, events %+v", verdict, g.nonZero(), e)
		}
		if want.admit && e[0].Admit != "--cluster-admit=n-x1=10.0.0.2:6680@"+keyOf("n-x1").Public().String() {
			return fmt.Errorf("admit line %q", e[0].Admit)
		}
	}
	return nil
}

func TestRefusals(t *testing.T) {
	if err := checkRefusals(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationRefusals(t *testing.T) {
	for _, v := range []RosterVerdict{RosterUnknown, RosterOtherKey, RosterRevoked} {
		saved := refusals[v]
		for _, change := range []func(*refusal){
			func(r *refusal) { r.admit = !r.admit },
			func(r *refusal) { r.counter = CountRefusedForged },
			func(r *refusal) { r.event = EventForged },
		} {
			change(&refusals[v])
			if checkRefusals() == nil {
				t.Errorf("verdict %d flipped goes unnoticed", v)
			}
			refusals[v] = saved
		}
	}
}
