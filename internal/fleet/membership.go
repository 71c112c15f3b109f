package fleet

import (
	"strings"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// MembershipVerb is what an operator, or a machine for itself, asks of the roster.
type MembershipVerb uint8

// Membership verbs.
const (
	VerbAdmitLearner MembershipVerb = iota + 1 // --cluster-admit-learner=<id>[@<key>]
	VerbAdmit                                  // --cluster-admit=<id>=<host>:<port>[@<key>]
	VerbForget                                 // --cluster-forget=<id>
	VerbLeave                                  // pacectl fleet leave, of the machine itself
	VerbPreApprove                             // a line of a list of machines that are to come; it changes no member
)

// Subject is what the roster holds under the id that a verb names.
type Subject uint8

// Subjects.
const (
	SubjectAny Subject = iota // in a rule: whatever it is
	SubjectUnknown
	SubjectAwaited // pre-approved, not here yet
	SubjectLearner
	SubjectPending // voter-pending
	SubjectVoter   // one of several
	SubjectOnlyVoter
	SubjectLeaving
)

// KeyRelation is how the key that a verb names stands to the roster.
type KeyRelation uint8

// Key relations.
const (
	KeyAny     KeyRelation = iota // in a rule: whatever it is
	KeyNone                       // no key was named
	KeySame                       // the member's own
	KeyOther                      // another than the member's, or that of an unknown machine
	KeyRevoked                    // a revoked one
	KeyForeign                    // that of another member
)

// MembershipAction is what a rule says to do.
type MembershipAction uint8

// Membership actions.
const (
	DoRefuse MembershipAction = iota
	DoNothing
	DoPreApprove
	DoPreApproveSeat
	DoUnapprove
	DoPromote
	DoDemote
	DoRecordMove
	DoRekey
	DoRemove
	DoRemoveAndRevoke
	DoLeaveVotersFirst // wish leaving; removed once it is out of consensus
)

// MembershipRule is one row of the membership rules: the first that fits decides. Text and Hint say it to the operator;
// %s in Text is the id.
type MembershipRule struct {
	Verb    MembershipVerb
	Subject Subject
	Key     KeyRelation
	Do      MembershipAction
	Text    string
	Hint    string
}

const (
	hintReset  = "on that machine: pace-node --reset-identity; then it asks again under a new id"
	hintKey    = "give <id>@<key> as the machine's --print-identity prints it"
	hintList   = "pacectl member list"
	hintVoter  = "make another member a voter first: pace-node --cluster-admit=<id>=<host>:<port>"
	hintWait   = "wait until it is gone: pacectl member list"
	hintAlone  = "to re-key that machine, name it alone: pace-node --cluster-admit-learner=<id>@<key>"
	textRevoke = "the key named for %s is revoked and is never admitted again"
	textOther  = "the key named for %s is another member's"
)

// MembershipRules is the one table of the membership verbs.
var MembershipRules = []MembershipRule{
	{VerbAdmitLearner, SubjectAny, KeyRevoked, DoRefuse, textRevoke, hintReset},
	{VerbAdmitLearner, SubjectAny, KeyForeign, DoRefuse, textOther, hintList},
	{VerbAdmitLearner, SubjectUnknown, KeyNone, DoRefuse, "%s is unknown, and no key is named to await it under", hintKey},
	{VerbAdmitLearner, SubjectUnknown, KeyOther, DoPreApprove, "%s is admitted as soon as it asks", ""},
	{VerbAdmitLearner, SubjectAwaited, KeyNone, DoNothing, "%s is awaited already", ""},
	{VerbAdmitLearner, SubjectAwaited, KeyOther, DoPreApprove, "%s is admitted as soon as it asks", ""},
	{VerbAdmitLearner, SubjectLearner, KeyNone, DoNothing, "%s is a learner already", ""},
	{VerbAdmitLearner, SubjectLearner, KeySame, DoNothing, "%s is a learner already", ""},
	{VerbAdmitLearner, SubjectLearner, KeyOther, DoRekey, "%s has another key from now on", ""},
	{VerbAdmitLearner, SubjectPending, KeyNone, DoDemote, "%s stays a learner", ""},
	{VerbAdmitLearner, SubjectPending, KeySame, DoDemote, "%s stays a learner", ""},
	{VerbAdmitLearner, SubjectPending, KeyOther, DoRekey, "%s has another key from now on, and is a learner", ""},
	{VerbAdmitLearner, SubjectVoter, KeyNone, DoDemote, "%s becomes a learner", ""},
	{VerbAdmitLearner, SubjectVoter, KeySame, DoDemote, "%s becomes a learner", ""},
	{VerbAdmitLearner, SubjectVoter, KeyOther, DoRekey, "%s has another key from now on, and is a learner", ""},
	{VerbAdmitLearner, SubjectOnlyVoter, KeyAny, DoRefuse, "%s is the only voter, and a fleet needs one", hintVoter},
	{VerbAdmitLearner, SubjectLeaving, KeyAny, DoRefuse, "%s is being forgotten", hintWait},

	{VerbAdmit, SubjectAny, KeyRevoked, DoRefuse, textRevoke, hintReset},
	{VerbAdmit, SubjectAny, KeyForeign, DoRefuse, textOther, hintList},
	{VerbAdmit, SubjectUnknown, KeyNone, DoRefuse, "%s is unknown, and no key is named to await it under", hintKey},
	{VerbAdmit, SubjectUnknown, KeyOther, DoPreApproveSeat, "%s is admitted, and becomes a voter, as soon as it asks", ""},
	{VerbAdmit, SubjectAwaited, KeyNone, DoRefuse, "%s is awaited, and no key is named to seat it under", hintKey},
	{VerbAdmit, SubjectAwaited, KeyOther, DoPreApproveSeat, "%s is admitted, and becomes a voter, as soon as it asks", ""},
	{VerbAdmit, SubjectLearner, KeyNone, DoPromote, "%s becomes a voter once it has caught up", ""},
	{VerbAdmit, SubjectLearner, KeySame, DoPromote, "%s becomes a voter once it has caught up", ""},
	{VerbAdmit, SubjectLearner, KeyOther, DoRekey, "%s has another key from now on", ""},
	{VerbAdmit, SubjectPending, KeyNone, DoRecordMove, "%s is being promoted", ""},
	{VerbAdmit, SubjectPending, KeySame, DoRecordMove, "%s is being promoted", ""},
	{VerbAdmit, SubjectPending, KeyOther, DoRekey, "%s has another key from now on, and is a learner; admit it again once it is here", ""},
	{VerbAdmit, SubjectVoter, KeyNone, DoRecordMove, "%s is a voter at this endpoint from now on", ""},
	{VerbAdmit, SubjectVoter, KeySame, DoRecordMove, "%s is a voter at this endpoint from now on", ""},
	{VerbAdmit, SubjectVoter, KeyOther, DoRekey, "%s has another key from now on, and is a learner; admit it again once it is here", ""},
	{VerbAdmit, SubjectOnlyVoter, KeyNone, DoRecordMove, "%s is a voter at this endpoint from now on", ""},
	{VerbAdmit, SubjectOnlyVoter, KeySame, DoRecordMove, "%s is a voter at this endpoint from now on", ""},
	{VerbAdmit, SubjectOnlyVoter, KeyOther, DoRefuse, "%s is the only voter: under another key nobody could lead the fleet", hintVoter},
	{VerbAdmit, SubjectLeaving, KeyAny, DoRefuse, "%s is being forgotten", hintWait},

	{VerbForget, SubjectUnknown, KeyAny, DoRefuse, "no member has the id %s", hintList},
	{VerbForget, SubjectAwaited, KeyAny, DoUnapprove, "%s is no longer awaited", ""},
	{VerbForget, SubjectLearner, KeyAny, DoRemoveAndRevoke, "%s is forgotten and its key revoked", ""},
	{VerbForget, SubjectPending, KeyAny, DoLeaveVotersFirst, "%s is taken out of consensus, then forgotten", ""},
	{VerbForget, SubjectVoter, KeyAny, DoLeaveVotersFirst, "%s is taken out of consensus, then forgotten", ""},
	{VerbForget, SubjectOnlyVoter, KeyAny, DoRefuse, "%s is the only voter and can't be forgotten", hintVoter},
	{VerbForget, SubjectLeaving, KeyAny, DoRemoveAndRevoke, "%s is forgotten and its key revoked", ""},

	{VerbLeave, SubjectUnknown, KeyAny, DoRefuse, "no member has the id %s", hintList},
	{VerbLeave, SubjectAwaited, KeyAny, DoRefuse, "%s is not a member yet", hintList},
	{VerbLeave, SubjectLearner, KeyAny, DoRemove, "%s has left; its key is not revoked", ""},
	{VerbLeave, SubjectPending, KeyAny, DoLeaveVotersFirst, "%s is taken out of consensus, then leaves", ""},
	{VerbLeave, SubjectVoter, KeyAny, DoLeaveVotersFirst, "%s is taken out of consensus, then leaves", ""},
	{VerbLeave, SubjectOnlyVoter, KeyAny, DoRefuse, "%s is the last voter of its fleet and can't leave it", "forget the others first: pacectl member list"},
	{VerbLeave, SubjectLeaving, KeyAny, DoRemove, "%s has left; its key is not revoked", ""},

	// A list may be the whole inventory: whoever is in the fleet already stays what it is, voters too.
	{VerbPreApprove, SubjectAny, KeyRevoked, DoRefuse, textRevoke, hintReset},
	{VerbPreApprove, SubjectAny, KeyForeign, DoRefuse, textOther, hintList},
	{VerbPreApprove, SubjectUnknown, KeyOther, DoPreApprove, "%s is admitted as soon as it asks", ""},
	{VerbPreApprove, SubjectAwaited, KeyOther, DoPreApprove, "%s is admitted as soon as it asks", ""},
	{VerbPreApprove, SubjectLeaving, KeyAny, DoRefuse, "%s is being forgotten", hintWait},
	{VerbPreApprove, SubjectAny, KeySame, DoNothing, "%s is a member already", ""},
	{VerbPreApprove, SubjectAny, KeyOther, DoRefuse, "%s is a member under another key, which a list does not change", hintAlone},
}

// noRule is what a verb gets that no row fits, which the table's test excludes.
var noRule = MembershipRule{Do: DoRefuse, Text: "no rule lets that be done with %s", Hint: hintList}

func lookupRule(verb MembershipVerb, s Subject, k KeyRelation) *MembershipRule {
	for i := range MembershipRules {
		r := &MembershipRules[i]
		if r.Verb == verb && (r.Subject == SubjectAny || r.Subject == s) && (r.Key == KeyAny || r.Key == k) {
			return r
		}
	}
	return &noRule
}

func (r *MembershipRule) say(id string) string { return strings.ReplaceAll(r.Text, "%s", clip(id)) }

func (r *MembershipRule) refusal(id string) *refusal { return &refusal{text: r.say(id), hint: r.Hint} }

// subject says what the roster holds under an id.
func (v *View) subject(id string) Subject {
	m := v.record(id)
	if m == nil {
		for i := range v.pre {
			if v.pre[i].ID == id {
				return SubjectAwaited
			}
		}
		return SubjectUnknown
	}
	switch m.Role {
	case RoleLearner:
		return SubjectLearner
	case RoleVoterPending:
		return SubjectPending
	case RoleLeaving:
		return SubjectLeaving
	}
	if v.CountRole(RoleVoter) == 1 {
		return SubjectOnlyVoter
	}
	return SubjectVoter
}

func (v *View) keyRelation(id string, key *identity.PublicKey) KeyRelation {
	if key == nil {
		return KeyNone
	}
	if m := v.record(id); m != nil && m.Key == *key {
		return KeySame
	}
	if _, ok := v.Revoked(*key); ok {
		return KeyRevoked
	}
	if _, ok := v.ByKey(*key); ok {
		return KeyForeign
	}
	return KeyOther
}

// Decision is what the membership rules say to a verb.
type Decision struct {
	Do      MembershipAction
	Command Command // to propose; only when there is something to commit
	Commit  bool
	Text    string // what is done, or why it is refused
	Hint    string // what to do after a refusal
}

// Refused reports whether the rules refuse the verb.
func (d *Decision) Refused() bool { return d.Do == DoRefuse }

// Decide asks the membership rules what a verb means now. id is the machine's, key what the operator named or nil,
// endpoint the consensus endpoint that VerbAdmit names (host:port) or empty.
func (v *View) Decide(verb MembershipVerb, id string, key *identity.PublicKey, endpoint, by string, at int64) Decision {
	if r := checkID(id); r != nil {
		return Decision{Text: r.text, Hint: r.hint}
	}
	if endpoint != "" {
		if r := checkEndpoints(wire.Endpoints{Raft: endpoint}); r != nil {
			return Decision{Text: r.text, Hint: r.hint}
		}
	}
	rule := lookupRule(verb, v.subject(id), v.keyRelation(id, key))
	d := Decision{Do: rule.Do, Text: rule.say(id), Hint: rule.Hint}
	switch rule.Do {
	case DoPreApprove:
		d.Command, d.Commit = PreApprove(id, *key, false, by, at), true
	case DoPreApproveSeat:
		d.Command, d.Commit = PreApproveSeat(id, *key, endpoint, by, at), true
	case DoPromote:
		e, _ := v.moved(id, endpoint)
		d.Command, d.Commit = Promote(id, e, by, at), true
	case DoDemote:
		d.Command, d.Commit = SetRole(id, RoleLearner, by, at), true
	case DoLeaveVotersFirst:
		d.Command, d.Commit = LeaveVoters(id, verb == VerbLeave, by, at), true
	case DoUnapprove:
		d.Command, d.Commit = Unapprove(id, by, at), true
	case DoRekey:
		d.Command, d.Commit = Rekey(id, *key, by, at), true
	case DoRemove:
		d.Command, d.Commit = Leave(id, by, at), true
		v.underway(&d, id, true, by, at)
	case DoRemoveAndRevoke:
		d.Command, d.Commit = Forget(id, by, at), true
		if m := v.record(id); m != nil {
			d.Text += ": " + m.Key.String()
		}
		v.underway(&d, id, false, by, at)
	case DoRecordMove:
		e, moved := v.moved(id, endpoint)
		d.Command, d.Commit = MoveEndpoint(id, e, by, at), moved
	}
	return d
}

// underway turns the removal of a member that is being taken out of consensus into the wish for it: whoever does that
// removes it once it is out. A machine that is forgotten meanwhile is not let go unrevoked.
func (v *View) underway(d *Decision, id string, ownWish bool, by string, at int64) {
	m := v.record(id)
	if m == nil || m.Role != RoleLeaving {
		return
	}
	d.Do, d.Text = DoLeaveVotersFirst, clip(id)+" is being taken out of consensus already"
	d.Command, d.Commit = LeaveVoters(id, false, by, at), m.OwnWish && !ownWish
}

// moved returns the endpoints of a member whose consensus endpoint an operator names anew; where both shared a host the
// 0xFC endpoint moves along.
func (v *View) moved(id, raft string) (e wire.Endpoints, moved bool) {
	m := v.record(id)
	if m == nil || raft == "" || raft == m.Endpoints.Raft {
		return wire.Endpoints{}, false
	}
	e.Raft = raft
	if sharesHost(m.Endpoints) {
		_, port := splitEndpoint(m.Endpoints.FC)
		host, _ := splitEndpoint(raft)
		e.FC = host + ":" + port
	}
	return e, true
}

// movedByItself returns the endpoints of a member that announces some. A learner's are its own word; a voter's move with
// its word only where both share a host before and after, so that no announcement points consensus at a stranger.
func movedByItself(m *Member, said wire.Endpoints) wire.Endpoints {
	e := m.Endpoints
	if m.Role == RoleLearner {
		if said.FC != "" {
			e.FC = said.FC
		}
		e.Raft = said.Raft
		return e
	}
	if e == (wire.Endpoints{}) || sharesHost(e) && sharesHost(said) {
		return said
	}
	return e
}

func sharesHost(e wire.Endpoints) bool {
	a, _ := splitEndpoint(e.FC)
	b, _ := splitEndpoint(e.Raft)
	return a != "" && a == b
}

func splitEndpoint(s string) (host, port string) {
	at := strings.LastIndexByte(s, ':')
	if at < 0 {
		return "", ""
	}
	return s[:at], s[at+1:]
}

// RoleMove is one row of the table of role changes.
type RoleMove struct {
	From, To Role
	Allowed  bool
}

// RoleMoves is the table of role changes that the reconciler may record. A member that leaves never comes back.
var RoleMoves = []RoleMove{
	{RoleLearner, RoleVoterPending, true},
	{RoleLearner, RoleVoter, true}, // raft holds it as a voter already: the entry follows the fact
	{RoleLearner, RoleLeaving, false},
	{RoleVoterPending, RoleLearner, true},
	{RoleVoterPending, RoleVoter, true},
	{RoleVoterPending, RoleLeaving, true},
	{RoleVoter, RoleLearner, true},
	{RoleVoter, RoleVoterPending, false},
	{RoleVoter, RoleLeaving, true},
	{RoleLeaving, RoleLearner, false},
	{RoleLeaving, RoleVoterPending, false},
	{RoleLeaving, RoleVoter, false},
}

func roleMove(from, to Role) bool {
	for i := range RoleMoves {
		if RoleMoves[i].From == from && RoleMoves[i].To == to {
			return RoleMoves[i].Allowed
		}
	}
	return false
}
