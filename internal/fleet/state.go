package fleet

import (
	"bytes"
	"cmp"
	"slices"

	"pace-node/internal/identity"
)

// Changed says which parts of the state a command changed.
type Changed uint16

// Parts.
const (
	ChangedRoster Changed = 1 << iota // a member came, went, or says otherwise of itself
	ChangedSettings
	ChangedRevocations
	ChangedProvision
	ChangedEstablished
	ChangedPreApproved
	ChangedAudit
	ChangedEpoch
	ChangedDissolving
)

// Has reports whether all of part is in c.
func (c Changed) Has(part Changed) bool { return c&part == part }

// Result is what became of one applied command.
type Result struct {
	Revision uint64
	Err      string // why it changed nothing; empty when it was carried out
	Hint     string // what to do then
	Changed  Changed
	Forgot   string // the member that it removed
}

// State is the state machine. It has one owner, who applies commands and hands out views; it is not safe for use by two
// goroutines, a View is.
type State struct{ cur *View }

// New returns the empty state, at revision 0.
func New() *State { return &State{cur: &View{}} }

// View returns the state as it is now; it never changes and may be read anywhere.
func (s *State) View() *View { return s.cur }

// Apply carries out one command. Each raises the revision by one on every machine alike, also one that is refused by
// rule: then Result.Err says why and nothing else changed. An error is ErrFormatNewer or ErrMalformed, and then nothing
// at all changed.
func (s *State) Apply(cmd []byte) (Result, error) {
	c, err := DecodeCommand(cmd)
	if err != nil {
		return Result{}, err
	}
	next := *s.cur
	next.revision++
	next.format = max(next.format, c.V)
	ch := change{next: &next, cmd: &c}
	r := ch.guard()
	if r == nil {
		r = lookupKind(c.Kind).apply(&ch)
	}
	if r != nil {
		bare := *s.cur // what was half changed is dropped
		bare.revision, bare.format = next.revision, next.format
		s.cur = &bare
		return Result{Revision: bare.revision, Err: r.text, Hint: r.hint}, nil
	}
	s.cur = &next
	return Result{Revision: next.revision, Changed: ch.changed, Forgot: ch.forgot}, nil
}

// Try says what would become of a command at this revision, and changes nothing: what is refused anyway need not go into the
// log. What is committed meanwhile may still decide otherwise.
func (v *View) Try(c Command) Result {
	trial := *v
	trial.audit = slices.Clip(trial.audit) // its array is the owner's to append to
	r, err := (&State{cur: &trial}).Apply(c.Encode())
	if err != nil {
		r.Err = err.Error()
	}
	return r
}

// ForLearner returns what a learner is sent in place of cmd: the queue's records of others, and what only voters need,
// are an empty command that only raises the revision.
func (s *State) ForLearner(cmd []byte, learner string) []byte {
	others, subject := ForOthers(cmd)
	if subject == learner && subject != "" {
		return cmd
	}
	return others
}

// change is one command on its way into the state: next is a copy whose slices are still those of the views that are
// out, so each is cloned before it is written.
type change struct {
	next    *View
	cmd     *Command
	changed Changed
	forgot  string
}

// guard judges what every kind has in common.
func (ch *change) guard() *refusal {
	c := ch.cmd
	if ch.next.cluster == "" && c.Kind != KindFound && c.Kind != KindEmpty {
		return refuse("the first command founds the fleet", "no fleet is founded here")
	}
	return checkTexts(textBound{"acting key", c.By, MaxDigest})
}

// member returns the record of an id, or nil.
func (ch *change) member(id string) *record { return ch.next.record(id) }

// put adds or replaces a member's record.
func (ch *change) put(m Member) {
	v := ch.next
	rec := &record{Member: m}
	rec.shared = sharedHash(&rec.Member)
	at, found := v.find(m.ID)
	if found {
		v.members = slices.Clone(v.members)
		old := v.members[at]
		v.members[at] = rec
		if old.Key != m.Key {
			v.keys = without(v.keys, old.Key)
			v.keys = with(v.keys, keyRef{m.Key, m.ID})
		}
		if old.shared != rec.shared {
			ch.changed |= ChangedRoster
		}
		return
	}
	v.members = slices.Insert(slices.Clone(v.members), at, rec)
	v.keys = with(v.keys, keyRef{m.Key, m.ID})
	ch.changed |= ChangedRoster
}

// remove takes a member out.
func (ch *change) remove(id string) {
	v := ch.next
	at, found := v.find(id)
	if !found {
		return
	}
	v.keys = without(v.keys, v.members[at].Key)
	v.members = slices.Delete(slices.Clone(v.members), at, at+1)
	ch.changed |= ChangedRoster
	ch.forgot = id
}

// revoke records that a key is never admitted again.
func (ch *change) revoke(key identity.PublicKey) *refusal {
	v := ch.next
	at, found := slices.BinarySearchFunc(v.revoked, key, func(r Revocation, k identity.PublicKey) int { return bytes.Compare(r.Key[:], k[:]) })
	if found {
		return nil
	}
	if len(v.revoked) >= MaxRevoked {
		return refuse("found a new fleet and let the machines move", "%d keys are revoked, and no more can be kept", len(v.revoked))
	}
	v.revoked = slices.Insert(slices.Clone(v.revoked), at, Revocation{Key: key, Revision: v.revision})
	ch.changed |= ChangedRevocations
	return nil
}

// dropPreApprovals takes out those of an id; with a key only that pair, and says whether there was any.
func (ch *change) dropPreApprovals(id string, key *identity.PublicKey) bool {
	v := ch.next
	kept := slices.DeleteFunc(slices.Clone(v.pre), func(p PreApproval) bool {
		return p.ID == id && (key == nil || p.Key == *key)
	})
	if len(kept) == len(v.pre) {
		return false
	}
	v.pre = kept
	ch.changed |= ChangedPreApproved
	return true
}

// establish marks the fleet established, for good.
func (ch *change) establish() {
	if !ch.next.established {
		ch.next.established = true
		ch.changed |= ChangedEstablished
	}
}

// audit appends an entry and drops the oldest beyond MaxAudit. Views hold a window of the array, so that appending
// beyond their ends costs no copy of a thousand entries for each command.
func (ch *change) audit(what, subject, detail string) {
	v := ch.next
	e := AuditEntry{Revision: v.revision, At: ch.cmd.At, By: ch.cmd.By, What: what, Subject: subject, Detail: fit(detail, MaxDetail)}
	if len(v.audit) >= MaxAudit {
		v.audit = v.audit[len(v.audit)-MaxAudit+1:]
	}
	if len(v.audit) == cap(v.audit) {
		grown := make([]AuditEntry, len(v.audit), max(16, min(2*len(v.audit), 2*MaxAudit)))
		copy(grown, v.audit)
		v.audit = grown
	}
	v.audit = append(v.audit, e)
	ch.changed |= ChangedAudit
}

func compareRef(r keyRef, k identity.PublicKey) int { return bytes.Compare(r.key[:], k[:]) }

func with(refs []keyRef, r keyRef) []keyRef {
	at, _ := slices.BinarySearchFunc(refs, r.key, compareRef)
	return slices.Insert(slices.Clone(refs), at, r)
}

func without(refs []keyRef, k identity.PublicKey) []keyRef {
	at, found := slices.BinarySearchFunc(refs, k, compareRef)
	if !found {
		return refs
	}
	return slices.Delete(slices.Clone(refs), at, at+1)
}

// ComparePosition orders two states by recovery epoch, then by revision.
func ComparePosition(epochA, revisionA, epochB, revisionB uint64) int {
	return cmp.Or(cmp.Compare(epochA, epochB), cmp.Compare(revisionA, revisionB))
}
