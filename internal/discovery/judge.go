package discovery

import (
	"crypto/hmac"
	"encoding/binary"
	"net/netip"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Outcome is what became of a proof.
type Outcome uint8

// Outcomes of a proof.
const (
	OutcomeProven    Outcome = iota // the signature verifies: the challenge is spent
	OutcomeNotIssued                // this node sent no such challenge to that address
	OutcomeExpired
	OutcomeReplayed  // the challenge is spent
	OutcomeExhausted // two failed signatures used the challenge up
	OutcomeUnchecked // no budget to check it
	OutcomeForged    // the signature does not verify
	outcomes
)

type outcomeRow struct {
	name    string
	counter Counter
	counted bool // false: counted where it is decided
}

var outcomeRows = [outcomes]outcomeRow{
	OutcomeProven:    {"proven", CountProofsVerified, true},
	OutcomeNotIssued: {"not issued", CountRefusedNotIssued, true},
	OutcomeExpired:   {"expired", CountRefusedExpired, true},
	OutcomeReplayed:  {"replayed", CountRefusedReplayed, true},
	OutcomeExhausted: {"exhausted", CountRefusedExhausted, true},
	OutcomeUnchecked: {"unchecked", CountProofChecksWithheld, false}, // by its budget
	OutcomeForged:    {"forged", CountRefusedForged, true},
}

// String returns the outcome's name.
func (o Outcome) String() string {
	if o >= outcomes {
		return "unknown"
	}
	return outcomeRows[o].name
}

// trial is one proof before its judge.
type trial struct {
	now    time.Time
	from   netip.AddrPort
	proof  *wire.Proof
	target target
	serial uint64
	epoch  *epoch // set by the first check
	place  int
}

// judgeRow is one check of a proof and what its failure is called.
type judgeRow struct {
	check   string
	passes  func(*Exchange, *trial) bool
	failure Outcome
}

// judgeOrder is the order in which a proof is judged; the first failure is the
// answer. The cheap and the harmless come first: nothing before the last check
// costs a curve operation, and nothing but the last one changes a cookie.
var judgeOrder = [...]judgeRow{
	{"serial known", serialKnown, OutcomeNotIssued},
	{"HMAC equal", macEqual, OutcomeNotIssued},
	{"within its window", withinWindow, OutcomeExpired},
	{"not spent", notSpent, OutcomeReplayed},
	{"not exhausted", notExhausted, OutcomeExhausted},
	{"proof-check budget", withinBudget, OutcomeUnchecked},
	{"signature", signatureVerifies, OutcomeForged},
}

// judge says what a proof is worth and notes it with its cookie.
func (x *Exchange) judge(now time.Time, from netip.AddrPort, p *wire.Proof) Outcome {
	t := trial{
		now: now, from: from, proof: p, serial: binary.BigEndian.Uint64(p.Nonce[:]),
		target: target{x.self.Cluster, p.Summary.Cluster, p.Summary.Node, p.Summary.RaftEndpoint, from.Addr()},
	}
	outcome := OutcomeProven
	for i := range judgeOrder {
		if !judgeOrder[i].passes(x, &t) {
			outcome = judgeOrder[i].failure
			break
		}
	}
	switch outcome {
	case OutcomeProven:
		t.epoch.set(t.place, cookieSpent)
	case OutcomeForged:
		t.epoch.set(t.place, afterForgery[t.epoch.state(t.place)])
	}
	if row := &outcomeRows[outcome]; row.counted {
		x.tally(row.counter)
	}
	return outcome
}

func serialKnown(x *Exchange, t *trial) bool {
	t.epoch, t.place = x.cookies.find(t.serial)
	return t.epoch != nil
}

func macEqual(_ *Exchange, t *trial) bool {
	want := t.epoch.sum(t.serial, &t.target)
	return hmac.Equal(want[:], t.proof.Nonce[cookieSerialSize:])
}

func withinWindow(_ *Exchange, t *trial) bool {
	return within(t.now, t.epoch.issuedAt(t.place), boundCookieLife)
}

func notSpent(_ *Exchange, t *trial) bool { return t.epoch.state(t.place) != cookieSpent }

func notExhausted(_ *Exchange, t *trial) bool { return t.epoch.state(t.place) != cookieExhausted }

func withinBudget(x *Exchange, t *trial) bool { return x.afford(t.now, workCheck, t.from) }

func signatureVerifies(x *Exchange, t *trial) bool {
	p := t.proof
	m := wire.DiscoveryProofMessage(x.self.Cluster, p.Nonce, p.Raw, p.Key)
	return identity.Verify(p.Key, m, p.Signature)
}
