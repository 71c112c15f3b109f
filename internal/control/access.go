package control

import (
	"fmt"
	"net/netip"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Peer is who sent a request.
type Peer struct {
	Local   bool               // the administrators' socket; the other members are then zero
	Key     identity.PublicKey // TLS key of the session
	ID      string             // as it said in Hello; a label, never a credential
	Addr    netip.AddrPort     // address of the session
	Session any                // the session itself, comparable; what "one a connection" counts by
}

// Kind is what a peer is to this node at the moment of a request.
type Kind uint8

// Kinds of peer.
const (
	KindStranger Kind = iota // a key outside the roster, waiting or not
	KindRevoked              // a key that was forgotten
	KindLearner
	KindVoter  // a voter that this node does not know to lead
	KindLeader // the leader by the applied roster and its heartbeats
	KindLocal  // the administrators' socket
	kindCount
)

// String returns the name of the kind.
func (k Kind) String() string {
	return [kindCount]string{"stranger", "revoked", "learner", "voter", "leader", "administrators' socket"}[k]
}

// GateRow says, for one kind of peer, with which code a verb of each access is
// refused; 0 is let in.
type GateRow struct {
	Kind                                   Kind
	Anybody, Member, Leader, Administrator wire.ErrorCode
}

// Gate is the table of kinds. What each verb asks for is the access column of
// wire.Verbs. A member that asks for what only the leader may is told to come
// again: it may lead since a moment, before its first heartbeat arrived here, or
// before the entry was applied here that makes it a voter.
var Gate = []GateRow{
	{KindStranger, 0, wire.CodeNotMember, wire.CodeNotMember, wire.CodeNotMember},
	{KindRevoked, 0, wire.CodeRevoked, wire.CodeRevoked, wire.CodeRevoked},
	{KindLearner, 0, 0, wire.CodeRosterNotApplied, wire.CodeRefusedByRule},
	{KindVoter, 0, 0, wire.CodeRosterNotApplied, 0},
	{KindLeader, 0, 0, 0, 0},
	{KindLocal, 0, wire.CodeRefusedByRule, wire.CodeRefusedByRule, 0},
}

// SocketRow is a verb that the administrators' socket treats otherwise than its
// row in Gate says.
type SocketRow struct {
	Verb wire.Verb
	Code wire.ErrorCode // 0: let in
	Why  string
}

// SocketVerbs is the table of those: a person may ask for the status, and a
// person is no machine that could join.
var SocketVerbs = []SocketRow{
	{wire.VerbStatus, 0, "the status is what administrators read"},
	{wire.VerbEnroll, wire.CodeRefusedByRule, "only a machine asks to enroll, by its own key over its own session"},
}

// gateText is what a refusal says, by its code.
var gateText = []struct {
	Code       wire.ErrorCode
	Text, Hint string
}{
	{wire.CodeNotMember, "%s is for members of the fleet, and this key is not in its roster", "approve the machine first: pace-node --enroll-list on the leader"},
	{wire.CodeRevoked, "", "a revoked key is never admitted again: run pace-node --reset-identity on that machine"},
	{wire.CodeRefusedByRule, "%s is not for %s", "run it on a voter of the fleet: pacectl fleet status names them"},
	{wire.CodeRosterNotApplied, "%s is for the leader, and this node has not yet heard that this member leads", "try again in a few seconds"},
}

// kindOf reads what Backend.Access said: the highest access of the key, or why
// it has none.
func kindOf(p Peer, role wire.Access, err *wire.Error) Kind {
	switch {
	case p.Local:
		return KindLocal
	case err != nil && err.Code == wire.CodeRevoked:
		return KindRevoked
	case err != nil:
		return KindStranger
	case role == wire.AccessMember:
		return KindLearner
	case role == wire.AccessAdministrator:
		return KindVoter
	case role == wire.AccessLeader:
		return KindLeader
	}
	return KindStranger
}

// judge returns the code with which a verb is refused to a kind of peer, 0 if it
// is let in. memberOp says that the request is the one operation that a member
// may ask for itself.
func judge(row wire.VerbRow, kind Kind, memberOp bool) wire.ErrorCode {
	access := row.Access
	if memberOp && row.MemberOp != "" && kind == KindLearner {
		access = wire.AccessMember
	}
	if kind == KindLocal {
		for _, s := range SocketVerbs {
			if s.Verb == row.Verb {
				return s.Code
			}
		}
	}
	for _, g := range Gate {
		if g.Kind != kind {
			continue
		}
		switch access {
		case wire.AccessAnybody:
			return g.Anybody
		case wire.AccessMember:
			return g.Member
		case wire.AccessLeader:
			return g.Leader
		case wire.AccessAdministrator:
			return g.Administrator
		}
	}
	return wire.CodeRefusedByRule // a row that is missing lets nobody in
}

// admit asks the backend who p is, now, and judges the verb.
func (s *Server) admit(p Peer, row wire.VerbRow, memberOp bool) *wire.Error {
	var role wire.Access
	var said *wire.Error
	if !p.Local && row.Access != wire.AccessAnybody {
		role, said = s.cfg.Backend.Access(p)
	}
	kind := kindOf(p, role, said)
	code := judge(row, kind, memberOp)
	if code == 0 {
		return nil
	}
	if said != nil && said.Code == wire.CodeDissolved {
		return said // who speaks as a member of the fleet that was is told where it went
	}
	if said != nil && said.Code == code {
		if said.Hint == "" {
			return wire.NewError(code, said.Text, hintOf(code))
		}
		return said
	}
	return refusal(code, row, kind)
}

// verbText says for a person what a verb is for, where the wire's name does not.
func verbText(row wire.VerbRow) string {
	switch row.Verb {
	case wire.VerbEnrollControl:
		return "the waiting list"
	case wire.VerbCluster:
		return "changing the fleet"
	case wire.VerbQueue:
		return "steering the queue"
	}
	return row.Name
}

func refusal(code wire.ErrorCode, row wire.VerbRow, kind Kind) *wire.Error {
	for _, g := range gateText {
		if g.Code != code {
			continue
		}
		text := g.Text
		switch code {
		case wire.CodeRefusedByRule:
			text = fmt.Sprintf(g.Text, verbText(row), article(kind))
		case wire.CodeRevoked:
		default:
			text = fmt.Sprintf(g.Text, verbText(row))
		}
		return wire.NewError(code, text, g.Hint)
	}
	return wire.NewError(code, "", "")
}

func article(kind Kind) string {
	if kind == KindLocal {
		return "the administrators' socket"
	}
	return "a " + kind.String()
}

func hintOf(code wire.ErrorCode) string {
	for _, g := range gateText {
		if g.Code == code {
			return g.Hint
		}
	}
	return ""
}
