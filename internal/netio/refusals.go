package netio

import (
	"sync/atomic"

	"pace-node/internal/wire"
)

// Refusal is why a connection, a session or a stream was refused. The zero value is none.
type Refusal uint8

// Refusals of the sessions' port and of the consensus port, and of what answers where this machine dials.
const (
	RefusalNone Refusal = iota
	RefuseHandshakesFull
	RefuseHandshakeLate
	RefuseTLSVersion
	RefuseALPN
	RefuseNoCertificate
	RefuseCertificateKind
	RefuseKey
	RefuseHandshake
	RefuseSourceFull
	RefuseStrangersFull
	RefuseSummaryReserve
	RefuseKeyFull
	RefuseFirstRequestLate
	RefuseFirstRequestTooLarge
	RefuseAnswerLate
	RefuseOncePerConnection
	RefuseStreamsFull
	RefuseFlood
	RefuseRaftHeader
	RefuseRaftCluster
	RefuseRaftTarget
	RefuseRaftSource
	RefuseRaftEpoch
	RefuseRaftGuard
	RefuseRaftBacklog
	RefusePeerKey
	refusals
)

// RefusalRow is one row of the table of refusals. Code is 0 where the peer is told nothing: there is no stream to tell
// it on, or it speaks another protocol.
type RefusalRow struct {
	Refusal Refusal
	Label   string // of pace_sessions_refused_total{reason}
	Code    wire.ErrorCode
	Text    string // to the peer and to the log
	Hint    string
}

// Refusals is the table of refusals.
var Refusals = []RefusalRow{
	{RefuseHandshakesFull, "handshakes-full", 0, "too many handshakes are under way", ""},
	{RefuseHandshakeLate, "handshake-late", 0, "the handshake was not finished in time", ""},
	{RefuseTLSVersion, "tls-version", 0, "the peer does not speak TLS 1.3", ""},
	{RefuseALPN, "protocol", 0, "the peer does not speak this protocol", ""},
	{RefuseNoCertificate, "no-certificate", 0, "the peer showed no certificate", ""},
	{RefuseCertificateKind, "certificate-kind", 0, "the peer's certificate holds no Ed25519 key", ""},
	{RefuseKey, "key", 0, "the peer's key is one that no honest machine has", ""},
	{RefuseHandshake, "handshake", 0, "the handshake failed", ""},
	{RefuseSourceFull, "source-full", wire.CodeSourceFull, "too many sessions of this network are open", "ask again in a minute, or approve what is waiting there"},
	{RefuseStrangersFull, "strangers-full", wire.CodeBusy, "too many machines outside the roster are connected", "ask again in a minute"},
	{RefuseSummaryReserve, "summary-reserve", wire.CodeBusy, "too many machines outside the roster are connected; the rest is kept for FleetSummary", "ask again in a minute"},
	{RefuseKeyFull, "key-full", 0, "too many sessions of this key are open; the oldest gave way", ""},
	{RefuseFirstRequestLate, "first-request-late", 0, "no request came in time", ""},
	{RefuseFirstRequestTooLarge, "first-request-too-large", wire.CodeTooLarge, "the first request of a machine outside the roster is at most 4 KiB", "send Hello first"},
	{RefuseAnswerLate, "answer-late", 0, "a request was not answered in time", ""},
	{RefuseOncePerConnection, "once-per-connection", wire.CodeRefusedByRule, "this verb is answered once a connection", "connect again"},
	{RefuseStreamsFull, "streams-full", wire.CodeBusy, "too many streams are open on this session", "wait for an answer before the next request"},
	{RefuseFlood, "flood", 0, "the peer sends more than a machine outside the roster may", ""},
	{RefuseRaftHeader, "raft-header", 0, "the stream does not open with its header", ""},
	{RefuseRaftCluster, "raft-cluster", 0, "the stream is for another cluster", ""},
	{RefuseRaftTarget, "raft-target", 0, "the stream is for another node", ""},
	{RefuseRaftSource, "raft-source", 0, "the stream claims to come from this node", ""},
	{RefuseRaftEpoch, "raft-epoch", 0, "the stream is of another recovery epoch", ""},
	{RefuseRaftGuard, "raft-roster", 0, "the roster does not hold that key for that id as a voter", ""},
	{RefuseRaftBacklog, "raft-backlog", 0, "too many streams wait for raft", ""},
	{RefusePeerKey, "peer-key", 0, "another machine answers where a peer was dialed", ""},
}

// Row returns the row of r, with the label "none" for a value that is in no row.
func (r Refusal) Row() RefusalRow {
	for i := range Refusals {
		if Refusals[i].Refusal == r {
			return Refusals[i]
		}
	}
	return RefusalRow{Refusal: r, Label: "none"}
}

// String returns the label.
func (r Refusal) String() string { return r.Row().Label }

// Answer returns what the peer is told.
func (r Refusal) Answer() *wire.Error {
	row := r.Row()
	if row.Code == 0 {
		row.Code = wire.CodeBusy
	}
	return wire.NewError(row.Code, row.Text, row.Hint)
}

// refusalCounts counts refusals by reason; every reason is there from the start, at zero.
type refusalCounts [refusals]atomic.Uint64

func (c *refusalCounts) add(r Refusal) {
	if r < refusals {
		c[r].Add(1)
	}
}

// get returns the count of r.
func (c *refusalCounts) get(r Refusal) uint64 {
	if r >= refusals {
		return 0
	}
	return c[r].Load()
}
