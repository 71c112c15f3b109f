package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A snapshot is a head of snapshotHead bytes and a body: magic (8), format (u32), length of the body (u64), SHA-256 of the
// body (32), the body as JSON. The format stands before everything that a later one may lay out otherwise.
const (
	snapshotMagic = "pace-fs\n"
	snapshotHead  = len(snapshotMagic) + 4 + 8 + 32
)

// snapshotBody is the body of format 1. Slices are in the order of the view, so that one state has one spelling.
type snapshotBody struct {
	Cluster     string         `json:"cluster"`
	Created     uint64         `json:"created"`
	Epoch       uint64         `json:"epoch"`
	Revision    uint64         `json:"revision"`
	Format      int            `json:"format"` // in use
	Established bool           `json:"established"`
	Members     []Member       `json:"members,omitempty"`
	Revoked     []Revocation   `json:"revoked,omitempty"`
	Pre         []PreApproval  `json:"pre_approved,omitempty"`
	Settings    []settingValue `json:"settings,omitempty"`
	Audit       []AuditEntry   `json:"audit,omitempty"`
	Order       []byte         `json:"order,omitempty"`          // the pending dissolve order
	OrderAt     uint64         `json:"order_revision,omitempty"` // of its entry
}

// Snapshot returns the whole state as a voter keeps it.
func (s *State) Snapshot() []byte { return s.cur.Snapshot() }

// SnapshotFor returns the state as a learner keeps it: without the provisioning of others, what is awaited, and the audit.
func (s *State) SnapshotFor(learner string) []byte { return s.cur.SnapshotFor(learner) }

// Snapshot is State.Snapshot at this revision; it may run beside later commands.
func (v *View) Snapshot() []byte {
	return v.encode(func(m *Member) Member { return *m }, v.pre, v.audit)
}

// SnapshotFor is State.SnapshotFor at this revision.
func (v *View) SnapshotFor(learner string) []byte {
	return v.encode(func(m *Member) Member {
		out := *m
		if m.ID != learner {
			out.Provision = Provision{}
		}
		return out
	}, nil, nil)
}

func (v *View) encode(member func(*Member) Member, pre []PreApproval, audit []AuditEntry) []byte {
	body := snapshotBody{Cluster: v.cluster, Created: v.created, Epoch: v.epoch, Revision: v.revision, Format: v.format,
		Established: v.established, Members: make([]Member, len(v.members)), Revoked: v.revoked, Pre: pre, Settings: v.settings, Audit: audit}
	if d := v.dissolving; d != nil {
		body.Order, body.OrderAt = d.Raw, d.Revision
	}
	for i, r := range v.members {
		body.Members[i] = member(&r.Member)
	}
	var buf bytes.Buffer
	buf.Write(make([]byte, snapshotHead))
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil { // strings, numbers and maps of strings: can't fail
		return nil
	}
	return fillHead(buf.Bytes(), v.FormatInUse())
}

// fillHead writes the head before a body that has room for it. A state that holds nothing of a later format is written in
// the one that was in use: who reads no more than that must be able to take it over.
func fillHead(b []byte, format int) []byte {
	sum := sha256.Sum256(b[snapshotHead:])
	head := append(b[:0], snapshotMagic...)
	head = binary.BigEndian.AppendUint32(head, uint32(format))
	head = binary.BigEndian.AppendUint64(head, uint64(len(b)-snapshotHead))
	copy(b[len(head):], sum[:])
	return b
}

// Restore reads a snapshot of either kind. The error is ErrSnapshotSize, ErrFormatNewer or ErrSnapshot.
func Restore(b []byte) (*State, error) {
	if len(b) > MaxSnapshot {
		return nil, fmt.Errorf("%d bytes: %w", len(b), ErrSnapshotSize)
	}
	if len(b) < snapshotHead || string(b[:len(snapshotMagic)]) != snapshotMagic {
		return nil, fmt.Errorf("it does not start as one: %w", ErrSnapshot)
	}
	rest := b[len(snapshotMagic):]
	format, length, sum, raw := binary.BigEndian.Uint32(rest), binary.BigEndian.Uint64(rest[4:]), rest[12:44], rest[44:]
	if format > Format {
		return nil, fmt.Errorf("a snapshot of format %d, this version reads %d: %w", format, Format, ErrFormatNewer)
	}
	if format < 1 || length != uint64(len(raw)) {
		return nil, fmt.Errorf("its length is not what it says: %w", ErrSnapshot)
	}
	if got := sha256.Sum256(raw); !bytes.Equal(got[:], sum) {
		return nil, fmt.Errorf("its digest differs: %w", ErrSnapshot)
	}
	var body snapshotBody
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrSnapshot, err)
	}
	if body.Format > Format {
		return nil, fmt.Errorf("a state of format %d, this version reads %d: %w", body.Format, Format, ErrFormatNewer)
	}
	v, why := body.view()
	if why != "" {
		return nil, fmt.Errorf("%s: %w", why, ErrSnapshot)
	}
	return &State{cur: v}, nil
}

// view checks that the body is a state that commands could have made.
func (b *snapshotBody) view() (v *View, why string) {
	v = &View{cluster: b.Cluster, created: b.Created, epoch: b.Epoch, revision: b.Revision, format: b.Format,
		established: b.Established, revoked: b.Revoked, pre: b.Pre, settings: b.Settings, audit: b.Audit}
	if len(b.Members) > MaxMembers || len(b.Revoked) > MaxRevoked || len(b.Pre) > MaxPreApproved || len(b.Audit) > MaxAudit || b.Format < 0 {
		return nil, "it is beyond a bound"
	}
	if len(b.Order) > 0 {
		if v.dissolving = readDissolution(b.Order, b.OrderAt); v.dissolving == nil || v.dissolving.OldCluster != b.Cluster || b.OrderAt > b.Revision {
			return nil, "its dissolve order is not valid"
		}
	}
	v.members = make([]*record, len(b.Members))
	v.keys = make([]keyRef, len(b.Members))
	for i := range b.Members {
		m := &b.Members[i]
		if i > 0 && b.Members[i-1].ID >= m.ID {
			return nil, "its members are not in order"
		}
		if checkID(m.ID) != nil || checkKey(&m.Key) != nil || !slices.Contains(Roles, m.Role) ||
			checkDescription(m.Name, m.Labels, m.Platform, m.Version, m.Format, m.Endpoints) != nil || checkProvision(&m.Provision) != nil {
			return nil, fmt.Sprintf("member %d is not valid", i)
		}
		v.members[i] = &record{Member: *m, shared: sharedHash(m)}
		v.keys[i] = keyRef{m.Key, m.ID}
	}
	slices.SortFunc(v.keys, func(a, b keyRef) int { return bytes.Compare(a.key[:], b.key[:]) })
	for i := 1; i < len(v.keys); i++ {
		if v.keys[i].key == v.keys[i-1].key {
			return nil, "two members have one key"
		}
	}
	if !slices.IsSortedFunc(v.revoked, func(a, b Revocation) int { return bytes.Compare(a.Key[:], b.Key[:]) }) ||
		!slices.IsSortedFunc(v.pre, comparePre) {
		return nil, "its lists are not in order"
	}
	for i, s := range v.settings {
		row := lookupSetting(s.Name)
		if row == nil || i > 0 && strings.Compare(v.settings[i-1].Name, s.Name) >= 0 {
			return nil, "its settings are not valid"
		}
		if value, r := row.normal(s.Value); r != nil || value == "" || value != s.Value {
			return nil, "its settings are not valid"
		}
	}
	return v, ""
}
