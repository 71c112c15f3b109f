package control

import (
	"fmt"
	"testing"

	"pace-node/internal/wire"
)

// Codes of refusal, short, for the table below. 0 is let in.
const (
	ok = wire.ErrorCode(0)
	nm = wire.CodeNotMember
	rv = wire.CodeRevoked
	ru = wire.CodeRefusedByRule
	ry = wire.CodeRosterNotApplied
)

// wantGate is written out from the table of verbs of the 0xFC endpoint: who may
// send each verb, for every kind of peer. A stranger is also a machine that waits.
var wantGate = []struct {
	verb                                              wire.Verb
	stranger, revoked, learner, voter, leader, socket wire.ErrorCode
}{
	{0x10, ok, ok, ok, ok, ok, ru}, // Enroll: anybody; a person is no machine that joins
	{0x11, nm, rv, ru, ok, ok, ok}, // EnrollControl: administrator
	{0x12, nm, rv, ok, ok, ok, ru}, // Follow: roster member
	{0x13, ok, ok, ok, ok, ok, ok}, // Hello: anybody
	{0x14, nm, rv, ok, ok, ok, ru}, // Announce: roster member
	{0x15, nm, rv, ok, ok, ok, ru}, // StartupEvent: roster member
	{0x16, nm, rv, ry, ry, ok, ru}, // Query: leader
	{0x17, nm, rv, ry, ry, ok, ru}, // Work: leader
	{0x18, nm, rv, ok, ok, ok, ok}, // Status: roster member, and administrators read it
	{0x19, nm, rv, ru, ok, ok, ok}, // Cluster: administrator
	{0x1A, nm, rv, ru, ok, ok, ok}, // Queue: administrator
	{0x1F, ok, ok, ok, ok, ok, ok}, // FleetSummary: anybody
}

func checkGate() error {
	if len(wantGate) != len(wire.Verbs) {
		return fmt.Errorf("%d verbs are expected, %d exist", len(wantGate), len(wire.Verbs))
	}
	for _, w := range wantGate {
		row, found := wire.LookupVerb(w.verb)
		if !found {
			return fmt.Errorf("verb %#x is gone", w.verb)
		}
		for kind, want := range [kindCount]wire.ErrorCode{w.stranger, w.revoked, w.learner, w.voter, w.leader, w.socket} {
			if got := judge(row, Kind(kind), false); got != want {
				return fmt.Errorf("%s by %s: %v, want %v", row.Name, Kind(kind), got, want)
			}
		}
	}
	// The one operation of a member for itself.
	row, _ := wire.LookupVerb(wire.VerbCluster)
	for kind, want := range [kindCount]wire.ErrorCode{nm, rv, ok, ok, ok, ok} {
		if got := judge(row, Kind(kind), true); got != want {
			return fmt.Errorf("leaving by %s: %v, want %v", Kind(kind), got, want)
		}
	}
	for _, r := range wire.Verbs {
		if r.Verb != wire.VerbCluster {
			if got := judge(r, KindLearner, true); got != judge(r, KindLearner, false) {
				return fmt.Errorf("%s lets a learner in by an operation it does not have", r.Name)
			}
		}
	}
	return nil
}

func TestGate(t *testing.T) {
	if err := checkGate(); err != nil {
		t.Fatal(err)
	}
}

// TestMutationGate flips every cell of the tables that decide who may, and each
// flip is seen.
func TestMutationGate(t *testing.T) {
	flip := func(name string, code *wire.ErrorCode) {
		was := *code
		if was == 0 {
			*code = wire.CodeBusy
		} else {
			*code = 0
		}
		if checkGate() == nil {
			t.Errorf("%s flipped goes unseen", name)
		}
		*code = was
	}
	// A cell of Gate that an exception of the socket or a verb's absence makes
	// unreachable would be dead; there is none but the socket's own "anybody".
	for i := range Gate {
		g := &Gate[i]
		flip(g.Kind.String()+" anybody", &g.Anybody)
		flip(g.Kind.String()+" member", &g.Member)
		flip(g.Kind.String()+" leader", &g.Leader)
		flip(g.Kind.String()+" administrator", &g.Administrator)
	}
	for i := range SocketVerbs {
		flip("socket "+SocketVerbs[i].Verb.String(), &SocketVerbs[i].Code)
	}
	for i := range wire.Verbs {
		was := wire.Verbs[i].Access
		for a := wire.AccessAnybody; a <= wire.AccessAdministrator; a++ {
			if a == was {
				continue
			}
			wire.Verbs[i].Access = a
			if checkGate() == nil {
				t.Errorf("%s for %s goes unseen", wire.Verbs[i].Name, a)
			}
		}
		wire.Verbs[i].Access = was
		op := wire.Verbs[i].MemberOp
		if op != "" {
			wire.Verbs[i].MemberOp = ""
			if checkGate() == nil {
				t.Errorf("%s without its member's operation goes unseen", wire.Verbs[i].Name)
			}
			wire.Verbs[i].MemberOp = op
		}
	}
	for i := range Gate {
		was := Gate[i]
		Gate[i].Kind = kindCount
		if checkGate() == nil {
			t.Errorf("a missing row of %s goes unseen", was.Kind)
		}
		Gate[i] = was
	}
	if err := checkGate(); err != nil {
		t.Fatalf("not put back: %v", err)
	}
}

func TestKindOf(t *testing.T) {
	revoked := wire.NewError(wire.CodeRevoked, "7", "")
	for _, c := range []struct {
		name string
		peer Peer
		role wire.Access
		err  *wire.Error
		want Kind
	}{
		{"socket", Peer{Local: true}, 0, nil, KindLocal},
		{"socket, whatever else", Peer{Local: true}, 0, revoked, KindLocal},
		{"stranger", Peer{}, wire.AccessAnybody, nil, KindStranger},
		{"learner", Peer{}, wire.AccessMember, nil, KindLearner},
		{"voter", Peer{}, wire.AccessAdministrator, nil, KindVoter},
		{"leader", Peer{}, wire.AccessLeader, nil, KindLeader},
		{"revoked before its role", Peer{}, wire.AccessLeader, revoked, KindRevoked},
		{"another error lets nobody in", Peer{}, wire.AccessLeader, wire.NewError(wire.CodeBusy, "", ""), KindStranger},
	} {
		if got := kindOf(c.peer, c.role, c.err); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
