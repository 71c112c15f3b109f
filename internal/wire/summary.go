package wire

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// SummaryState is what a fleet says of itself.
type SummaryState uint8

// The three states of a summary.
const (
	StateSolitary    SummaryState = 1 // a fleet of one that never recorded anybody
	StateEstablished SummaryState = 2 // a fleet that others joined or may join
	StatePending     SummaryState = 3 // a pointer: this node asked another fleet
)

// SummaryStateRow is one row of the table of states.
type SummaryStateRow struct {
	State SummaryState
	Name  string
}

// SummaryStates is the table of states; a byte that is not in it is malformed.
var SummaryStates = []SummaryStateRow{
	{StateSolitary, "solitary"},
	{StateEstablished, "established"},
	{StatePending, "pending"},
}

// Valid reports whether s is one of the three states.
func (s SummaryState) Valid() bool { return s.row() != nil }

// String returns the name of the state, "unknown" for any other byte.
func (s SummaryState) String() string {
	if r := s.row(); r != nil {
		return r.Name
	}
	return "unknown"
}

func (s SummaryState) row() *SummaryStateRow {
	for i := range SummaryStates {
		if SummaryStates[i].State == s {
			return &SummaryStates[i]
		}
	}
	return nil
}

// Leader names the leader of a fleet; any part may be unknown.
type Leader struct {
	ID       string // 0..64 bytes
	Endpoint string // 0xFC endpoint host:port, where Enroll goes; or empty
	Key      [32]byte
	HasKey   bool
}

// Summary is what a node says of its fleet: eleven fields on the wire.
type Summary struct {
	Cluster string // 1..64 bytes of UTF-8
	State   SummaryState
	Created uint64 // Unix seconds
	// Leader is the fleet's own leader; zero when State is StatePending.
	Leader Leader
	// Pointer is the leader of the fleet that was asked; set only when State is
	// StatePending. It is a value of its own so that no caller takes it for a leader.
	Pointer      Leader
	Node         string   // the speaker's id, 0..64 bytes
	RaftEndpoint string   // the speaker's consensus endpoint; empty for a learner
	Members      []string // at most MaxMembers, each 1..64 bytes of UTF-8, none twice
	Total        uint64   // all members, not below len(Members)
	OwnEndpoint  string   // the speaker's own 0xFC endpoint
}

// content is what the bytes of a summary's field must be, beside their number.
type content uint8

const (
	contentAny      content = iota // integers, and the member list that is read apart
	contentText                    // UTF-8
	contentEndpoint                // empty, or a dialable host:port
	contentKey                     // empty, or 32 bytes
)

func (c content) accepts(b []byte) bool {
	switch c {
	case contentText:
		return utf8.Valid(b)
	case contentEndpoint:
		return len(b) == 0 || utf8.Valid(b) && validEndpoint(b)
	case contentKey:
		return len(b) == 0 || len(b) == keySize
	}
	return true
}

type summaryBound struct {
	name     string
	min, max int // bytes
	content  content
}

// summaryBounds is the table of the eleven fields, indexed by field number.
var summaryBounds = [...]summaryBound{
	0:  {"cluster id", 1, MaxID, contentText},
	1:  {"state", 1, 1, contentAny},
	2:  {"created", 8, 8, contentAny},
	3:  {"leader id", 0, MaxID, contentText},
	4:  {"leader endpoint", 0, MaxEndpoint, contentEndpoint},
	5:  {"node id", 0, MaxID, contentText},
	6:  {"consensus endpoint", 0, MaxEndpoint, contentEndpoint},
	7:  {"members", 0, MaxMembers * (fieldHeader + MaxID), contentAny},
	8:  {"member total", 8, 8, contentAny},
	9:  {"own endpoint", 0, MaxEndpoint, contentEndpoint},
	10: {"leader key", 0, keySize, contentKey},
}

// memberBound is the bound of each entry of field 7.
var memberBound = summaryBound{"member id", 1, MaxID, contentText}

// AppendSummary appends the eleven fields of s: the one encoder for beacon,
// proof and TCP reply. It does not judge s; FitSummary does.
func AppendSummary(dst []byte, s *Summary) []byte {
	lead := &s.Leader
	if s.State == StatePending {
		lead = &s.Pointer
	}
	var members []byte
	for _, m := range s.Members {
		members = AppendText(members, m)
	}
	dst = AppendText(dst, s.Cluster)
	dst = AppendU8(dst, uint8(s.State))
	dst = AppendU64(dst, s.Created)
	dst = AppendText(dst, lead.ID)
	dst = AppendText(dst, lead.Endpoint)
	dst = AppendText(dst, s.Node)
	dst = AppendText(dst, s.RaftEndpoint)
	dst = AppendField(dst, members)
	dst = AppendU64(dst, s.Total)
	dst = AppendText(dst, s.OwnEndpoint)
	return appendOptional32(dst, &lead.Key, lead.HasKey)
}

// DecodeSummary reads the eleven fields, checking every bound before anything
// is allocated. The summary holds no part of b.
func DecodeSummary(b []byte) (Summary, error) {
	var raw [len(summaryBounds)][]byte
	f := ReadFields(b)
	for i := range raw {
		raw[i] = f.Bytes(summaryBounds[i].min, summaryBounds[i].max)
		if !summaryBounds[i].content.accepts(raw[i]) {
			f.Reject()
		}
	}
	if f.End() != nil {
		return Summary{}, ErrMalformed
	}
	state := SummaryState(raw[1][0])
	total := binary.BigEndian.Uint64(raw[8])
	var members [MaxMembers][]byte
	n, ok := splitMembers(raw[7], &members)
	if !ok || !state.Valid() || uint64(n) > total {
		return Summary{}, ErrMalformed
	}
	s := Summary{
		Cluster: string(raw[0]), State: state, Created: binary.BigEndian.Uint64(raw[2]),
		Node: string(raw[5]), RaftEndpoint: string(raw[6]),
		Total: total, OwnEndpoint: string(raw[9]),
	}
	lead := Leader{ID: string(raw[3]), Endpoint: string(raw[4]), HasKey: len(raw[10]) > 0}
	copy(lead.Key[:], raw[10])
	if state == StatePending {
		s.Pointer = lead
	} else {
		s.Leader = lead
	}
	if n > 0 {
		s.Members = make([]string, n)
		for i, m := range members[:n] {
			s.Members[i] = string(m)
		}
	}
	return s, nil
}

// splitMembers reads field 7 into out, which bounds the count.
func splitMembers(b []byte, out *[MaxMembers][]byte) (n int, ok bool) {
	f := ReadFields(b)
	for f.More() {
		if n == len(out) {
			return 0, false
		}
		m := f.Bytes(memberBound.min, memberBound.max)
		if !memberBound.content.accepts(m) {
			return 0, false
		}
		for _, earlier := range out[:n] {
			if bytes.Equal(earlier, m) {
				return 0, false
			}
		}
		out[n] = m
		n++
	}
	return n, f.End() == nil
}

// FitSummary encodes s, listing at most MaxMembers and then dropping members
// from the end until its proof fits MaxDatagram. ok is false if it does not fit
// without any, or if no reader would accept it: then the summary is withheld.
func FitSummary(s *Summary) (raw []byte, ok bool) {
	c := *s
	c.Members = c.Members[:min(len(c.Members), MaxMembers)]
	for {
		raw = AppendSummary(raw[:0], &c)
		if ProofSize(len(raw)) <= MaxDatagram {
			break
		}
		if len(c.Members) == 0 {
			return nil, false
		}
		c.Members = c.Members[:len(c.Members)-1]
	}
	if _, err := DecodeSummary(raw); err != nil {
		return nil, false
	}
	return raw, true
}
