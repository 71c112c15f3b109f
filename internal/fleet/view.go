package fleet

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"strings"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Revocation is a key that is never admitted again, and the revision that revoked it.
type Revocation struct {
	Key      identity.PublicKey `json:"key"`
	Revision uint64             `json:"revision"`
}

// PreApproval is a machine that is admitted as soon as it asks.
type PreApproval struct {
	ID   string             `json:"id"`
	Key  identity.PublicKey `json:"key"`
	Seat bool               `json:"seat,omitempty"` // is to be a voter
	Raft string             `json:"raft,omitempty"` // its consensus endpoint, where an operator named it
	By   string             `json:"by,omitempty"`
	At   int64              `json:"at,omitempty"` // Unix seconds
}

// AuditEntry is one act of an operator, or of the window.
type AuditEntry struct {
	Revision uint64 `json:"revision"`
	At       int64  `json:"at"` // Unix seconds
	By       string `json:"by,omitempty"`
	What     string `json:"what"`
	Subject  string `json:"subject,omitempty"` // member id
	Detail   string `json:"detail,omitempty"`
}

// record is a member with the hash of its shared part, worked out once when it is written.
type record struct {
	Member
	shared [32]byte
}

type keyRef struct {
	key identity.PublicKey
	id  string
}

type settingValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// View is the state at one revision. It never changes: it may be kept, and read by any goroutine.
type View struct {
	cluster     string
	created     uint64
	epoch       uint64
	revision    uint64
	format      int
	established bool
	members     []*record      // by id
	keys        []keyRef       // by key
	revoked     []Revocation   // by key
	pre         []PreApproval  // by id, then key
	settings    []settingValue // by name; only what was set
	audit       []AuditEntry   // oldest first
	dissolving  *Dissolution   // pending, or nil
}

// Cluster returns the cluster id, empty before the fleet is founded.
func (v *View) Cluster() string { return v.cluster }

// Created returns when the fleet was founded, in Unix seconds.
func (v *View) Created() uint64 { return v.created }

// Epoch returns the recovery epoch.
func (v *View) Epoch() uint64 { return v.epoch }

// Revision returns how many commands were applied.
func (v *View) Revision() uint64 { return v.revision }

// Established reports whether the fleet has once recorded another machine, a pre-approval, a setting or a window.
func (v *View) Established() bool { return v.established }

// FormatInUse returns the highest format that was written so far; a machine that can't read it can't join.
func (v *View) FormatInUse() int { return max(v.format, 1) }

func (v *View) find(id string) (int, bool) {
	return slices.BinarySearchFunc(v.members, id, func(r *record, id string) int { return strings.Compare(r.ID, id) })
}

func (v *View) record(id string) *record {
	if at, ok := v.find(id); ok {
		return v.members[at]
	}
	return nil
}

// Len returns how many members there are.
func (v *View) Len() int { return len(v.members) }

// Member returns the member of an id.
func (v *View) Member(id string) (Member, bool) {
	if r := v.record(id); r != nil {
		return r.Member, true
	}
	return Member{}, false
}

// ByKey returns the member that holds a key.
func (v *View) ByKey(key identity.PublicKey) (Member, bool) {
	at, ok := slices.BinarySearchFunc(v.keys, key, compareRef)
	if !ok {
		return Member{}, false
	}
	return v.Member(v.keys[at].id)
}

// Holds reports whether a member has this id and this key.
func (v *View) Holds(id string, key identity.PublicKey) bool {
	r := v.record(id)
	return r != nil && r.Key == key
}

// Members goes through the members by id.
func (v *View) Members() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for _, r := range v.members {
			if !yield(r.Member) {
				return
			}
		}
	}
}

// SameMembers reports whether another view is known to hold the same records of the same members, without looking at any: a
// command that is about none leaves their list to the next view as it is. False says nothing.
func (v *View) SameMembers(o *View) bool {
	return len(v.members) == len(o.members) && (len(v.members) == 0 || &v.members[0] == &o.members[0])
}

// Gone returns the ids that an earlier view of the same fleet holds and this one does not.
func (v *View) Gone(earlier *View) []string {
	if v.SameMembers(earlier) {
		return nil
	}
	var out []string
	at := 0
	for _, r := range earlier.members {
		for at < len(v.members) && v.members[at].ID < r.ID {
			at++
		}
		if at == len(v.members) || v.members[at].ID != r.ID {
			out = append(out, r.ID)
		}
	}
	return out
}

// Named goes through the members of a name, by id.
func (v *View) Named(name string) iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for _, r := range v.members {
			if r.Name == name && !yield(r.Member) {
				return
			}
		}
	}
}

// Voters returns the members whose role is voter, by id.
func (v *View) Voters() []Member {
	var out []Member
	for _, r := range v.members {
		if r.Role == RoleVoter {
			out = append(out, r.Member)
		}
	}
	return out
}

// CountRole returns how many members have a role.
func (v *View) CountRole(role Role) int {
	n := 0
	for _, r := range v.members {
		if r.Role == role {
			n++
		}
	}
	return n
}

// IsVoterKey reports whether a voter of this state holds the key.
func (v *View) IsVoterKey(key identity.PublicKey) bool {
	m, ok := v.ByKey(key)
	return ok && m.Role == RoleVoter
}

// Revoked returns the revision at which a key was revoked.
func (v *View) Revoked(key identity.PublicKey) (revision uint64, ok bool) {
	at, ok := slices.BinarySearchFunc(v.revoked, key, func(r Revocation, k identity.PublicKey) int { return bytes.Compare(r.Key[:], k[:]) })
	if !ok {
		return 0, false
	}
	return v.revoked[at].Revision, true
}

// Revocations returns every revoked key, by key. Read only.
func (v *View) Revocations() []Revocation { return v.revoked }

func comparePre(a, b PreApproval) int {
	return cmp.Or(strings.Compare(a.ID, b.ID), bytes.Compare(a.Key[:], b.Key[:]))
}

// PreApproved reports whether a machine is awaited under this id and key, and whether a seat is wished for it.
func (v *View) PreApproved(id string, key identity.PublicKey) (seat, ok bool) {
	at, ok := slices.BinarySearchFunc(v.pre, PreApproval{ID: id, Key: key}, comparePre)
	if !ok {
		return false, false
	}
	return v.pre[at].Seat, true
}

// Awaited returns the pre-approval of an id and key.
func (v *View) Awaited(id string, key identity.PublicKey) (PreApproval, bool) {
	at, ok := slices.BinarySearchFunc(v.pre, PreApproval{ID: id, Key: key}, comparePre)
	if !ok {
		return PreApproval{}, false
	}
	return v.pre[at], true
}

// PreApprovedKey reports whether a machine is awaited under this key, whatever its id.
func (v *View) PreApprovedKey(key identity.PublicKey) bool {
	return slices.ContainsFunc(v.pre, func(p PreApproval) bool { return p.Key == key })
}

// PreApprovals returns every machine that is awaited, by id and key. Read only.
func (v *View) PreApprovals() []PreApproval { return v.pre }

// Audit returns the audit entries, oldest first. Read only.
func (v *View) Audit() []AuditEntry { return v.audit }

// Roster returns what a machine is told of the fleet at its admission: the voters, and its own record. Self is zero when
// the id is not in the roster.
func (v *View) Roster(id string) wire.Roster {
	r := wire.Roster{Cluster: v.cluster, Created: v.created, Epoch: v.epoch, Revision: v.revision, Voters: []wire.RosterVoter{}}
	for _, m := range v.members {
		if m.Role == RoleVoter {
			r.Voters = append(r.Voters, wire.RosterVoter{ID: m.ID, Key: m.Key.String(), Endpoints: m.Endpoints})
		}
	}
	if m := v.record(id); m != nil {
		r.Self = wire.RosterMember{ID: m.ID, Key: m.Key.String(), Name: m.Name, Role: string(m.Role), Endpoints: m.Endpoints,
			Admitted: m.Admitted, AdmittedBy: m.AdmittedBy}
	}
	return r
}

// reads returns the highest format that a member reads.
func (m *Member) reads() int { return max(m.Format, 1) }

// WriteFormat returns the format that the leader writes: the lowest that every member reads, and never above Format.
func (v *View) WriteFormat() int { return v.writeFormat(Format) }

func (v *View) writeFormat(own int) int {
	for _, r := range v.members {
		own = min(own, r.reads())
	}
	return own
}

// HolderBack returns the first member, by id, whose version holds the format back, or "" when no member reads a later
// format than the one that is written.
func (v *View) HolderBack() string { return v.holderBack(Format) }

func (v *View) holderBack(own int) string {
	lowest, highest, holder := own, own, ""
	for _, r := range v.members {
		highest = max(highest, r.reads())
		if r.reads() < lowest || holder == "" && r.reads() == lowest {
			lowest, holder = r.reads(), r.ID
		}
	}
	if lowest == highest {
		return ""
	}
	return holder
}
