package fleet

import (
	"cmp"
	"slices"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Each function below carries out one kind of command. It returns a refusal before it has changed anything that shows,
// and what it does to the shared part (roster, revocations, settings, epoch) depends on nothing else, since learners
// hold nothing else.

func applyEmpty(*change) *refusal { return nil }

func applyFound(ch *change) *refusal {
	c, v := ch.cmd, ch.next
	if v.cluster != "" {
		return refuse("nothing needs to be done", "the fleet is founded already")
	}
	if c.Cluster == "" || len(c.Cluster) > wire.MaxID || !wire.ValidText(c.Cluster) {
		return refuse("a cluster id is 32 hex digits", "the cluster id %q is not valid", clip(c.Cluster))
	}
	m, r := ch.described()
	if r != nil {
		return r
	}
	m.Role, m.Arrived, m.AdmittedBy = RoleVoter, true, c.By
	v.cluster, v.created = c.Cluster, c.Created
	ch.put(m)
	ch.audit("found", m.ID, "")
	return nil
}

// described reads the machine that a founding or an admission describes.
func (ch *change) described() (Member, *refusal) {
	c := ch.cmd
	r := checkID(c.ID)
	if r == nil {
		r = checkKey(c.Key)
	}
	var e wire.Endpoints
	if c.Endpoints != nil {
		e = *c.Endpoints
	}
	if r == nil {
		r = checkDescription(c.Name, c.Labels, c.Platform, c.Version, c.Format, e)
	}
	if r != nil {
		return Member{}, r
	}
	return Member{ID: c.ID, Key: *c.Key, Name: c.Name, Labels: c.Labels, Platform: c.Platform, Version: c.Version, Format: c.Format,
		Endpoints: e, Admitted: c.At, AdmittedBy: c.By, Auto: c.Auto}, nil
}

func checkID(id string) *refusal {
	if !wire.ValidID(id) {
		return refuse("an id is 1 to 64 of A-Z a-z 0-9 . _ -", "the id %q is not valid", clip(id))
	}
	return nil
}

func checkKey(key *identity.PublicKey) *refusal {
	if key == nil || key.Check() != nil {
		return refuse("copy the key that the machine itself prints", "no valid key is given")
	}
	return nil
}

func (ch *change) known(id string) (*record, *refusal) {
	if m := ch.member(id); m != nil {
		return m, nil
	}
	if r := checkID(id); r != nil {
		return nil, r
	}
	return nil, refuse("pacectl member list", "no member has the id %s", id)
}

// freeKey judges a key that is to become a member's.
func (ch *change) freeKey(id string, key identity.PublicKey) *refusal {
	if rev, ok := ch.next.Revoked(key); ok {
		return refuse("on that machine: pace-node --reset-identity; then it asks again", "the key %s was revoked at revision %d and is never admitted again", key, rev)
	}
	if m, ok := ch.next.ByKey(key); ok && m.ID != id {
		return refuse("each machine has its own key", "the key %s is that of member %s", key, m.ID)
	}
	return nil
}

func applyAdmit(ch *change) *refusal {
	m, r := ch.described()
	if r == nil {
		r = ch.closed()
	}
	if r == nil {
		r = ch.freeKey(m.ID, m.Key)
	}
	if r != nil {
		return r
	}
	if m.reads() < ch.next.FormatInUse() {
		return refuse("upgrade it first", "the machine reads format %d, this fleet uses %d", m.reads(), ch.next.FormatInUse())
	}
	m.Role = RoleLearner
	if ch.cmd.Seat {
		m.Role = RoleVoterPending
	}
	if old := ch.member(m.ID); old != nil {
		switch {
		case old.Key == m.Key: // asked twice: it is a member already
			ch.dropPreApprovals(m.ID, &m.Key)
			return nil
		case old.Role != RoleLearner:
			return refuse("forget that member first", "the id %s is that of a %s under another key", m.ID, old.Role)
		case m.Auto:
			return refuse("compare the keys and approve it by hand", "the id %s is a member's under another key", m.ID)
		}
		// An operator compared the new key: the machine was set up again.
		if r := ch.revoke(old.Key); r != nil {
			return r
		}
	} else if len(ch.next.members) >= MaxMembers {
		return refuse("forget machines that are gone: pacectl member stale", "the fleet has %d members and takes no more", MaxMembers)
	}
	ch.put(m)
	ch.dropPreApprovals(m.ID, &m.Key)
	ch.establish()
	what := "approve"
	if m.Auto {
		what = "approve-auto"
	}
	ch.audit(what, m.ID, m.Name)
	return nil
}

func applyPreApprove(ch *change) *refusal {
	c, v := ch.cmd, ch.next
	r := checkID(c.ID)
	if r == nil {
		r = checkKey(c.Key)
	}
	if r == nil {
		r = ch.closed()
	}
	if r == nil {
		r = ch.freeKey(c.ID, *c.Key)
	}
	if r != nil {
		return r
	}
	if ch.member(c.ID) != nil {
		return refuse("pacectl member show "+c.ID, "%s is a member already", c.ID)
	}
	p := PreApproval{ID: c.ID, Key: *c.Key, Seat: c.Seat, By: c.By, At: c.At}
	if c.Endpoints != nil {
		if r := checkEndpoints(*c.Endpoints); r != nil {
			return r
		}
		p.Raft = c.Endpoints.Raft
	}
	at, found := slices.BinarySearchFunc(v.pre, p, comparePre)
	if !found && len(v.pre) >= MaxPreApproved {
		return refuse("let those come first, or forget some", "%d machines are awaited and no more can be", len(v.pre))
	}
	v.pre = slices.Clone(v.pre)
	if found {
		v.pre[at] = p
	} else {
		v.pre = slices.Insert(v.pre, at, p)
	}
	ch.changed |= ChangedPreApproved
	ch.establish()
	ch.audit("pre-approve", c.ID, c.Key.String())
	return nil
}

func applyUnapprove(ch *change) *refusal {
	if !ch.dropPreApprovals(ch.cmd.ID, nil) {
		return refuse("pacectl enroll list", "no machine is awaited under the id %q", clip(ch.cmd.ID))
	}
	ch.audit("withdraw-pre-approval", ch.cmd.ID, "")
	return nil
}

func applyForget(ch *change) *refusal {
	m, r := ch.known(ch.cmd.ID)
	if r != nil {
		return r
	}
	if r := ch.byRule(VerbForget, m); r != nil {
		return r
	}
	if r := ch.revoke(m.Key); r != nil {
		return r
	}
	ch.remove(m.ID)
	ch.audit("forget", m.ID, m.Name)
	return nil
}

func applyLeave(ch *change) *refusal {
	m, r := ch.known(ch.cmd.ID)
	if r != nil {
		return r
	}
	if r := ch.byRule(VerbLeave, m); r != nil {
		return r
	}
	ch.remove(m.ID)
	ch.audit("leave", m.ID, m.Name)
	return nil
}

// byRule asks the membership rules again at the moment that counts: between the verb and its entry the roster may have
// changed. A removal is carried out only where the rule says remove.
func (ch *change) byRule(verb MembershipVerb, m *record) *refusal {
	rule := lookupRule(verb, ch.next.subject(m.ID), KeyNone)
	if rule.Do == DoRemoveAndRevoke || rule.Do == DoRemove {
		return nil
	}
	if rule.Do == DoLeaveVotersFirst {
		return refuse("pacectl member forget "+m.ID, "%s is still a voter: it is taken out of consensus first", m.ID)
	}
	return rule.refusal(m.ID)
}

func applySet(ch *change) *refusal {
	c, v := ch.cmd, ch.next
	row := lookupSetting(c.Name)
	if row == nil {
		return unknownSetting(c.Name)
	}
	value, r := row.normal(c.Value)
	if r != nil {
		return r
	}
	at, found := slices.BinarySearchFunc(v.settings, c.Name, compareSetting)
	switch {
	case value == "" && found:
		v.settings = slices.Delete(slices.Clone(v.settings), at, at+1)
	case value == "":
	case found:
		v.settings = slices.Clone(v.settings)
		v.settings[at].Value = value
	default:
		v.settings = slices.Insert(slices.Clone(v.settings), at, settingValue{c.Name, value})
	}
	ch.changed |= ChangedSettings
	ch.establish()
	ch.audit("set", "", c.Name+"="+value)
	return nil
}

func applyAnnounce(ch *change) *refusal {
	c := ch.cmd
	old, r := ch.known(c.ID)
	if r != nil {
		return r
	}
	var e wire.Endpoints
	if c.Endpoints != nil {
		e = *c.Endpoints
	}
	if r := checkDescription(c.Name, c.Labels, c.Platform, c.Version, c.Format, e); r != nil {
		return r
	}
	m := old.Member
	m.Name, m.Labels, m.Platform, m.Version, m.Format, m.Arrived = c.Name, c.Labels, c.Platform, c.Version, c.Format, true
	m.Endpoints = movedByItself(&m, e)
	if c.Boot != nil {
		if r := c.Boot.check(); r != nil {
			return r
		}
		m.Provision.boot(c.Boot)
		ch.changed |= ChangedProvision
	}
	ch.put(m)
	return nil
}

// check judges the part by itself: what it says must not make the rest of the announcement depend on what only some hold.
func (b *Boot) check() *refusal {
	if _, ok := bootCounter(b.ID); b.ID != "" && !ok {
		return refuse("a boot id is 32 hex digits", "the boot id %q is not valid", clip(b.ID))
	}
	return checkProvision(&Provision{Component: b.Component, ConfigDigest: b.ConfigDigest, BootID: b.ID})
}

// boot records what a member says of its boot. A counter below the recorded one is a state directory of another day: the
// recorded one stays, so that an old startup event is not taken for a new one.
func (p *Provision) boot(b *Boot) {
	p.Component, p.ConfigDigest = b.Component, b.ConfigDigest
	counter, ok := bootCounter(b.ID)
	if ok && !later(p.BootCounter, p.Sequence, counter, b.Sequence) {
		p.BootID, p.BootCounter, p.Sequence = b.ID, counter, b.Sequence
	}
}

// later reports whether (counter, sequence) a is above b.
func later(counterA, sequenceA, counterB, sequenceB uint64) bool {
	return ComparePosition(counterA, sequenceA, counterB, sequenceB) > 0
}

func applyProvision(ch *change) *refusal {
	c := ch.cmd
	old, r := ch.known(c.ID)
	if r != nil {
		return r
	}
	if c.Provision == nil {
		return refuse("give the record", "the update of %s holds no record", c.ID)
	}
	p, was := *c.Provision, &old.Provision
	if p.BootID != "" {
		counter, ok := bootCounter(p.BootID)
		if !ok {
			return refuse("a boot id is 32 hex digits", "the boot id %q is not valid", clip(p.BootID))
		}
		p.BootCounter = counter
	}
	// An announcement may have come in between: what it said of a later boot stays.
	if later(was.BootCounter, was.Sequence, p.BootCounter, p.Sequence) {
		p.BootID, p.BootCounter, p.Sequence = was.BootID, was.BootCounter, was.Sequence
		p.Component, p.ConfigDigest = was.Component, was.ConfigDigest
	}
	// A run that failed says nothing of what the machine runs: its own announcement stands.
	p.Component, p.ConfigDigest = cmp.Or(p.Component, was.Component), cmp.Or(p.ConfigDigest, was.ConfigDigest)
	if r := checkProvision(&p); r != nil {
		return r
	}
	m := old.Member
	m.Provision = p
	ch.put(m)
	ch.changed |= ChangedProvision
	return nil
}

func applyEstablished(ch *change) *refusal {
	if r := checkTexts(textBound{"reason", ch.cmd.Why, MaxDetail}); r != nil {
		return r
	}
	ch.establish()
	ch.audit("established", "", ch.cmd.Why)
	return nil
}

func applySetRole(ch *change) *refusal {
	c := ch.cmd
	old, r := ch.known(c.ID)
	if r != nil {
		return r
	}
	if old.Role == c.Role && old.OwnWish == c.OwnWish {
		return nil
	}
	if old.Role != c.Role && !roleMove(old.Role, c.Role) {
		return refuse("pacectl member show "+c.ID, "a %s does not become a %q", old.Role, clip(string(c.Role)))
	}
	if old.Role == RoleVoter && ch.next.CountRole(RoleVoter) == 1 {
		return refuse(hintVoter, "%s is the only voter", c.ID)
	}
	m := old.Member
	m.Role, m.OwnWish = c.Role, c.OwnWish && c.Role == RoleLeaving
	if c.Endpoints != nil {
		if r := checkEndpoints(*c.Endpoints); r != nil {
			return r
		}
		m.Endpoints.FC, m.Endpoints.Raft = cmp.Or(c.Endpoints.FC, m.Endpoints.FC), cmp.Or(c.Endpoints.Raft, m.Endpoints.Raft)
	}
	ch.put(m)
	ch.audit("role", m.ID, string(old.Role)+" → "+string(m.Role))
	return nil
}

func applyMoveEndpoint(ch *change) *refusal {
	c := ch.cmd
	old, r := ch.known(c.ID)
	if r != nil {
		return r
	}
	if c.Endpoints == nil || *c.Endpoints == (wire.Endpoints{}) {
		return refuse("give host:port", "the move of %s names no endpoint", c.ID)
	}
	if r := checkEndpoints(*c.Endpoints); r != nil {
		return r
	}
	m := old.Member
	if c.Endpoints.FC != "" {
		m.Endpoints.FC = c.Endpoints.FC
	}
	if c.Endpoints.Raft != "" {
		m.Endpoints.Raft = c.Endpoints.Raft
	}
	ch.put(m)
	ch.audit("move", m.ID, m.Endpoints.FC+" "+m.Endpoints.Raft)
	return nil
}

func applyRekey(ch *change) *refusal {
	c := ch.cmd
	old, r := ch.known(c.ID)
	if r == nil {
		r = checkKey(c.Key)
	}
	if r != nil || old.Key == *c.Key {
		return r
	}
	if r := ch.freeKey(c.ID, *c.Key); r != nil {
		return r
	}
	switch {
	case old.Role == RoleVoter && ch.next.CountRole(RoleVoter) == 1:
		return refuse(hintVoter, "%s is the only voter", c.ID)
	case old.Role == RoleLeaving:
		return refuse(hintWait, "%s is being forgotten", c.ID)
	}
	if r := ch.revoke(old.Key); r != nil {
		return r
	}
	m := old.Member
	// Whoever comes under the new key comes with an empty log, and a vote that has forgotten what it voted elects a second
	// leader: it votes again once it has been promoted again.
	m.Role = RoleLearner
	m.Key, m.Admitted, m.AdmittedBy, m.Arrived = *c.Key, c.At, c.By, false
	ch.put(m)
	ch.dropPreApprovals(m.ID, nil)
	ch.audit("re-key", m.ID, m.Key.String())
	return nil
}

func applyRecover(ch *change) *refusal {
	c, v := ch.cmd, ch.next
	if _, r := ch.known(c.ID); r != nil {
		return r
	}
	v.epoch++
	v.dissolving = nil // who recovers a fleet means it to stay
	ch.changed |= ChangedEpoch
	for _, old := range v.members { // the slice of before: put clones it
		role := RoleLearner
		if old.ID == c.ID {
			role = RoleVoter
		}
		if old.Role != role {
			m := old.Member
			m.Role = role
			ch.put(m)
		}
	}
	ch.audit("recover", c.ID, "")
	return nil
}

func applyAudit(ch *change) *refusal {
	c := ch.cmd
	if c.What == "" {
		return refuse("say what was done", "the audit entry names no act")
	}
	if r := checkTexts(textBound{"act", c.What, MaxStage}, textBound{"subject", c.ID, wire.MaxID}, textBound{"detail", c.Why, MaxDetail}); r != nil {
		return r
	}
	ch.audit(c.What, c.ID, c.Why)
	return nil
}
