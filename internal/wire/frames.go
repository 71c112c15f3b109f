package wire

import "encoding/binary"

// Frames of the 0xFC endpoint.
const (
	FrameMagic = 0xFC
	// ProtocolVersion is N; a node speaks N and N−1.
	ProtocolVersion = 1
	// OldestProtocolVersion is N−1, or 1 while there was no version before.
	OldestProtocolVersion = 1
	// RequestHeaderSize: magic, version, verb, u32 length.
	RequestHeaderSize = 7
	// ReplyHeaderSize: status, u32 length.
	ReplyHeaderSize = 5

	fleetSummaryAnswerCeiling = 64 << 10
)

// Verb is what a request asks for.
type Verb uint8

// Verbs, by their byte.
const (
	VerbEnroll        Verb = 0x10
	VerbEnrollControl Verb = 0x11
	VerbFollow        Verb = 0x12
	VerbHello         Verb = 0x13
	VerbAnnounce      Verb = 0x14
	VerbStartupEvent  Verb = 0x15
	VerbQuery         Verb = 0x16
	VerbWork          Verb = 0x17
	VerbStatus        Verb = 0x18
	VerbCluster       Verb = 0x19
	VerbQueue         Verb = 0x1A
	VerbFleetSummary  Verb = 0x1F
)

// Access is who may send a verb.
type Access uint8

// Who may send a verb.
const (
	AccessAnybody       Access = iota
	AccessMember               // a key of the applied roster, under its id
	AccessLeader               // the leader's key by the applied roster
	AccessAdministrator        // the administrators' socket, or a voter's key
)

// String returns who.
func (a Access) String() string {
	switch a {
	case AccessAnybody:
		return "anybody"
	case AccessMember:
		return "roster member"
	case AccessLeader:
		return "leader"
	case AccessAdministrator:
		return "administrator"
	}
	return "nobody"
}

// VerbRow is one row of the table of verbs.
type VerbRow struct {
	Verb              Verb
	Name              string
	Access            Access
	Ceiling           uint32 // bytes of the request
	Streams           bool   // keeps its stream open for pushes
	OncePerConnection bool
	AnswerCeiling     uint32 // bytes of one answer or push
	MemberOp          string // the one operation that a member may ask for itself without being an administrator
}

// Verbs is the one table of verbs: who may send each, and how large a request
// may be. A verb that is not in it is unknown.
var Verbs = []VerbRow{
	{VerbEnroll, "Enroll", AccessAnybody, 1 << 10, true, false, MaxAnswer, ""},
	{VerbEnrollControl, "EnrollControl", AccessAdministrator, 64 << 10, false, false, MaxAnswer, ""},
	{VerbFollow, "Follow", AccessMember, 64 << 10, true, false, MaxAnswer, ""},
	{VerbHello, "Hello", AccessAnybody, 4 << 10, false, false, MaxAnswer, ""},
	{VerbAnnounce, "Announce", AccessMember, 16 << 10, false, false, MaxAnswer, ""},
	{VerbStartupEvent, "StartupEvent", AccessMember, 4 << 10, false, false, MaxAnswer, ""},
	{VerbQuery, "Query", AccessLeader, 4 << 10, false, false, MaxAnswer, ""},
	{VerbWork, "Work", AccessLeader, 4 << 20, false, false, MaxAnswer, ""},
	{VerbStatus, "Status", AccessMember, 64 << 10, false, false, MaxAnswer, ""},
	{VerbCluster, "Cluster", AccessAdministrator, 64 << 10, false, false, MaxAnswer, "leave"},
	{VerbQueue, "Queue", AccessAdministrator, 64 << 10, false, false, MaxAnswer, ""},
	{VerbFleetSummary, "FleetSummary", AccessAnybody, 64, false, true, fleetSummaryAnswerCeiling, ""},
}

// LookupVerb returns the row of v.
func LookupVerb(v Verb) (VerbRow, bool) {
	for i := range Verbs {
		if Verbs[i].Verb == v {
			return Verbs[i], true
		}
	}
	return VerbRow{}, false
}

// String returns the name of the verb, "unknown" for any other byte.
func (v Verb) String() string {
	if r, ok := LookupVerb(v); ok {
		return r.Name
	}
	return "unknown"
}

// Status is the first byte of a reply.
type Status uint8

// Statuses of a reply.
const (
	StatusOK    Status = 1
	StatusError Status = 2 // the payload is an Error
	StatusPush  Status = 4
)

// Valid reports whether s is one of the three statuses.
func (s Status) Valid() bool { return s == StatusOK || s == StatusError || s == StatusPush }

// AppendRequest appends a request frame.
func AppendRequest(dst []byte, v Verb, payload []byte) []byte {
	dst = append(dst, FrameMagic, ProtocolVersion, byte(v))
	return AppendField(dst, payload)
}

// ParseRequestHeader reads the header of a request and judges it, in this
// order: magic, version, verb, length against the verb's ceiling. code is 0 when
// all is well; otherwise the payload must not be read.
func ParseRequestHeader(h [RequestHeaderSize]byte) (row VerbRow, length uint32, code ErrorCode) {
	if h[0] != FrameMagic {
		return VerbRow{}, 0, CodeMalformed
	}
	if h[1] < OldestProtocolVersion || h[1] > ProtocolVersion {
		return VerbRow{}, 0, CodeUnsupportedVersion
	}
	row, ok := LookupVerb(Verb(h[2]))
	if !ok {
		return VerbRow{}, 0, CodeUnknownVerb
	}
	length = binary.BigEndian.Uint32(h[3:])
	if length > row.Ceiling {
		return row, 0, CodeTooLarge
	}
	return row, length, 0
}

// AppendReply appends a reply frame: an answer, an error or a push.
func AppendReply(dst []byte, s Status, payload []byte) []byte {
	return AppendField(append(dst, byte(s)), payload)
}

// ParseReplyHeader reads the header of a reply. A length beyond MaxAnswer is
// ErrTooLarge, another status ErrMalformed; then the payload must not be read.
// The asker compares the length with the verb's AnswerCeiling as well.
func ParseReplyHeader(h [ReplyHeaderSize]byte) (Status, uint32, error) {
	s, n := Status(h[0]), binary.BigEndian.Uint32(h[1:])
	if !s.Valid() {
		return 0, 0, ErrMalformed
	}
	if n > MaxAnswer {
		return 0, 0, ErrTooLarge
	}
	return s, n, nil
}
