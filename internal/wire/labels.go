package wire

import (
	"crypto/sha256"
	"slices"
)

// Purpose is what a signature is for. Each has a label of its own, the first
// field of the signed bytes, so that one construction never verifies as another.
type Purpose uint8

// Purposes. The zero value is none, and nothing is signed for it.
const (
	PurposeDiscoveryProof Purpose = iota + 1
	PurposeFleetSummary
	PurposeEnrollRequest
	PurposeEnrollAnswer
	PurposeStartupEvent
	PurposeDissolveOrder
	PurposeLease
	// PurposeDiscoveryCookie labels an HMAC input; no identity key signs it.
	PurposeDiscoveryCookie
)

// LabelRow is one row of the table of labels.
type LabelRow struct {
	Purpose Purpose
	Label   string
	About   string // what follows the label
}

// Labels is the one table of labels. A label is never reused and its spelling
// never changes: a new construction gets a new one.
var Labels = []LabelRow{
	{PurposeDiscoveryProof, "fastcache-discovery-proof-v3", "challenger's cluster id, nonce, summary, public key"},
	{PurposeFleetSummary, "fastcache-fleet-summary-v1", "asker's nonce, summary, public key"},
	{PurposeEnrollRequest, "fastcache-enroll-request-v1", "node id, 0xFC endpoint, role byte, key, nonce, leader's challenge (may be empty)"},
	{PurposeEnrollAnswer, "fastcache-enroll-admission-v1", "asker's nonce, asker's id, asker's key, cluster id, outcome byte, SHA-256 of the roster bytes, leader's next challenge"},
	{PurposeStartupEvent, "pace-startup-event-v1", "cluster id, node id, component, boot id, sequence, at, age, version"},
	{PurposeDissolveOrder, "pace-dissolve-order-v1", "old cluster id, survivor's cluster id, survivor leader's id, key and 0xFC endpoint, signer's id"},
	{PurposeLease, "pace-lease-v1", "the claims of the lease, one field"},
	{PurposeDiscoveryCookie, "fastcache-discovery-cookie-v2", "HMAC input, not signed: serial, challenger's cluster, target's cluster, node id and consensus endpoint, source host"},
}

// Label returns the label of the purpose, empty for an unknown one.
func (p Purpose) Label() string {
	for i := range Labels {
		if Labels[i].Purpose == p {
			return Labels[i].Label
		}
	}
	return ""
}

// String is the label.
func (p Purpose) String() string { return p.Label() }

// Message is what an identity key signs: bytes that start with the label of
// their purpose. Only the constructors of this package make one, so nothing
// without a label can be signed; the zero Message is signed by nobody and
// verifies for nobody.
type Message struct {
	purpose Purpose
	body    []byte
}

// Purpose returns what the message is for, 0 for the zero Message.
func (m Message) Purpose() Purpose { return m.purpose }

// Bytes returns a copy of the signed bytes, label field first; nil for the zero
// Message.
func (m Message) Bytes() []byte { return slices.Clone(m.body) }

// IsZero reports whether m was made by no constructor.
func (m Message) IsZero() bool { return m.purpose == 0 || len(m.body) == 0 }

// newMessage starts a message with its label; room is for what follows.
func newMessage(p Purpose, room int) Message {
	label := p.Label()
	return Message{purpose: p, body: AppendText(make([]byte, 0, fieldHeader+len(label)+room), label)}
}

// DiscoveryProofMessage is what a proof signs.
func DiscoveryProofMessage(challengerCluster string, nonce [32]byte, summaryRaw []byte, key [32]byte) Message {
	m := newMessage(PurposeDiscoveryProof, 4*fieldHeader+len(challengerCluster)+nonceSize+len(summaryRaw)+keySize)
	m.body = AppendText(m.body, challengerCluster)
	m.body = AppendField(m.body, nonce[:])
	m.body = AppendField(m.body, summaryRaw)
	m.body = AppendField(m.body, key[:])
	return m
}

// FleetSummaryMessage is what the answer to FleetSummary signs.
func FleetSummaryMessage(nonce [32]byte, summaryRaw []byte, key [32]byte) Message {
	m := newMessage(PurposeFleetSummary, 3*fieldHeader+nonceSize+len(summaryRaw)+keySize)
	m.body = AppendField(m.body, nonce[:])
	m.body = AppendField(m.body, summaryRaw)
	m.body = AppendField(m.body, key[:])
	return m
}

// Message is what the joiner signs.
func (r *EnrollRequest) Message() Message {
	m := newMessage(PurposeEnrollRequest, 256)
	m.body = r.appendSigned(m.body)
	return m
}

// Message is what the leader signs, for every outcome: it binds the answer to
// the asker, the ask and the cluster.
func (a *EnrollAnswer) Message(askerNonce [32]byte, askerID string, askerKey [32]byte, cluster string) Message {
	roster := sha256.Sum256(a.Roster)
	m := newMessage(PurposeEnrollAnswer, 256)
	m.body = AppendField(m.body, askerNonce[:])
	m.body = AppendText(m.body, askerID)
	m.body = AppendField(m.body, askerKey[:])
	m.body = AppendText(m.body, cluster)
	m.body = AppendU8(m.body, uint8(a.Outcome))
	m.body = AppendField(m.body, roster[:])
	m.body = appendOptional32(m.body, &a.Challenge, a.HasChallenge)
	return m
}

// Message is what the node that started signs.
func (e *StartupEvent) Message() Message {
	m := newMessage(PurposeStartupEvent, 256)
	m.body = e.appendSigned(m.body)
	return m
}

// Message is what the signer of the order signs.
func (d *DissolveOrder) Message() Message {
	m := newMessage(PurposeDissolveOrder, 384)
	m.body = d.appendSigned(m.body)
	return m
}

// Message is what the leader signs: the claims, as one field.
func (l *LeaseClaims) Message() Message {
	m := newMessage(PurposeLease, 384)
	m.body = AppendField(m.body, l.Append(nil))
	return m
}

// CookieFields is the HMAC input of a challenge's cookie. sourceHost is the
// beacon's source address without port, IPv4-mapped IPv6 folded.
func CookieFields(serial uint64, challengerCluster, targetCluster, targetNode, targetRaftEndpoint, sourceHost string) []byte {
	b := AppendText(nil, PurposeDiscoveryCookie.Label())
	b = AppendU64(b, serial)
	b = AppendText(b, challengerCluster)
	b = AppendText(b, targetCluster)
	b = AppendText(b, targetNode)
	b = AppendText(b, targetRaftEndpoint)
	return AppendText(b, sourceHost)
}
