package discovery

import (
	"crypto/sha256"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// claim is a summary as one datagram gave it.
type claim struct {
	from    netip.AddrPort
	summary wire.Summary
	digest  [sha256.Size]byte // of the summary's bytes
}

// peer is a speaker of the own cluster. "Seen" and "proven" are facts apart, and
// only a proof sets the second.
type peer struct {
	seen       claim
	lastBeacon time.Time
	proved     claim
	key        identity.PublicKey // zero until proven
	lastProof  time.Time
	// moved: its last beacon advertises other endpoints than its proof covers.
	moved bool
	// left are the endpoints that its proofs came away from, the latest last; flips are the latest changes of endpoint, and
	// how each began.
	left  []departure
	flips []flip
}

// departure is an endpoint that is proven no more, since another one is.
type departure struct {
	endpoint string
	at       time.Time
}

// flip is a change of the proven endpoint. back: to one that it had come away from while a proof of it still counts. A
// machine that is restarted moves to new ports and a voter closes its consensus port: neither goes back and forth.
type flip struct {
	at   time.Time
	back bool
}

// strangerKey keeps claims to one id by several hosts apart, so that none of
// them can push another aside.
type strangerKey struct {
	id   string
	host netip.Addr
}

// directory is who speaks for the own cluster.
type directory struct {
	// members are the ids that the roster knows, so it is as large as that.
	members map[string]*peer
	// strangers are all others, and hosts that claim a member's id unproven.
	strangers map[strangerKey]*peer
}

func sameEndpoints(a, b *wire.Summary) bool {
	return a.OwnEndpoint == b.OwnEndpoint && a.RaftEndpoint == b.RaftEndpoint
}

// rosterKnows reports whether the roster holds this id under any key.
func (x *Exchange) rosterKnows(id string) bool {
	return x.cfg.Roster(id, identity.PublicKey{}) != RosterUnknown
}

// hear notes a beacon of the speaker p and reports whether to challenge it.
func (p *peer) hear(now time.Time, c claim) (challenge bool) {
	p.lastBeacon = now
	known := within(now, p.lastProof, boundProven)
	if known && c.digest == p.proved.digest {
		if c.from.Addr() == p.proved.from.Addr() {
			p.seen, p.moved = c, false
		}
		return !within(now, p.lastProof, boundReprove)
	}
	p.seen = c
	p.moved = known && !sameEndpoints(&c.summary, &p.proved.summary)
	return true
}

// prove notes a proof of p; first reports that it was not proven in the last 90 s.
func (p *peer) prove(now time.Time, key identity.PublicKey, c claim) (first bool) {
	first = p.key != key || !within(now, p.lastProof, boundProven)
	if was := p.proved.summary.OwnEndpoint; !first && c.summary.OwnEndpoint != was {
		p.changed(now, was, c.summary.OwnEndpoint)
	}
	p.seen, p.proved, p.key, p.lastProof, p.moved = c, c, key, now, false
	if p.lastBeacon.IsZero() {
		p.lastBeacon = now
	}
	return first
}

// changed notes that it proves another endpoint than before.
func (p *peer) changed(now time.Time, was, is string) {
	most := boundCloneFlips.count()
	back := slices.ContainsFunc(p.left, func(d departure) bool { return d.endpoint == is && within(now, d.at, boundProven) })
	p.left = slices.DeleteFunc(p.left, func(d departure) bool { return d.endpoint == was })
	p.left = append(p.left, departure{was, now})
	p.left = p.left[max(0, len(p.left)-most):]
	p.flips = append(p.flips, flip{now, back})
	p.flips = p.flips[max(0, len(p.flips)-most):]
}

// flipping reports whether its endpoint changed so often that two machines must hold the key: a copy's proofs go back and
// forth, so all changes but the first lead to where one came away from. The other endpoint is what it came away from last.
func (p *peer) flipping(now time.Time) (other string, flips bool) {
	n := boundCloneFlips.count()
	if len(p.flips) < n || !within(now, p.flips[0].at, boundProven) || slices.ContainsFunc(p.flips[1:], func(f flip) bool { return !f.back }) {
		return "", false
	}
	return p.left[len(p.left)-1].endpoint, true
}

// hearOwn notes a beacon of the own cluster and reports whether to challenge.
func (x *Exchange) hearOwn(now time.Time, c claim) (challenge bool) {
	id, host := c.summary.Node, c.from.Addr()
	at := strangerKey{id, host}
	if s := x.dir.strangers[at]; s != nil {
		if !s.lastProof.IsZero() && x.cfg.Roster(id, s.key) == RosterHolds && x.dir.members[id] == nil {
			delete(x.dir.strangers, at) // admitted since its proof
			x.dir.members[id] = s
		} else {
			return s.hear(now, c)
		}
	}
	m := x.dir.members[id]
	if m == nil && x.rosterKnows(id) {
		m = &peer{}
		x.dir.members[id] = m
	}
	// What a proof gave is not taken by a beacon from elsewhere: anybody can send
	// one. A machine that really moved proves it a moment later.
	if m != nil && (!within(now, m.lastProof, boundProven) || c.digest == m.proved.digest || host == m.proved.from.Addr()) {
		return m.hear(now, c)
	}
	if s := x.newStranger(at, false); s != nil {
		s.hear(now, c)
	}
	return true
}

// newStranger makes room for one more stranger, nil if there is none for it.
// What gives way: the unproven first, then who was not heard for longest; an
// unproven newcomer takes no proven one's place.
func (x *Exchange) newStranger(at strangerKey, proven bool) *peer {
	if len(x.dir.strangers) >= boundStrangers.count() {
		x.tally(CountBeaconsOverBound)
		var worst strangerKey
		var p *peer
		for k, s := range x.dir.strangers {
			if p == nil || givesWayBefore(s, k, p, worst) {
				worst, p = k, s
			}
		}
		if p == nil || !proven && !p.lastProof.IsZero() {
			return nil
		}
		delete(x.dir.strangers, worst)
	}
	s := &peer{}
	x.dir.strangers[at] = s
	return s
}

func givesWayBefore(a *peer, ak strangerKey, b *peer, bk strangerKey) bool {
	if a.lastProof.IsZero() != b.lastProof.IsZero() {
		return a.lastProof.IsZero()
	}
	if !a.lastBeacon.Equal(b.lastBeacon) {
		return a.lastBeacon.Before(b.lastBeacon)
	}
	if ak.id != bk.id { // any order, but always the same
		return ak.id < bk.id
	}
	return ak.host.Less(bk.host)
}

// refusal is what a verdict of the roster makes of a proof of the own cluster.
type refusal struct {
	counter Counter
	event   EventKind
	admit   bool // the event carries the line that would admit it
	reason  string
}

// refusals is indexed by the roster's verdict. RosterHolds refuses nothing.
var refusals = [rosterVerdicts]refusal{
	RosterUnknown:  {CountRefusedUnknownKey, EventUnknownKey, true, "the roster does not hold this machine; if it belongs to the fleet, admit it"},
	RosterOtherKey: {CountRefusedUnknownKey, EventUnknownKey, true, "the roster holds this id under another key, and admitting it would replace that key; compare both with the machines first"},
	RosterRevoked:  {CountRefusedRevokedKey, EventRevokedKey, false, "this key was revoked and is never admitted again; a machine that is to return needs a new identity (pace-node --reset-identity)"},
}

// proofOwn notes a proof of the own cluster. Whether it is believed is for the
// roster to say.
func (x *Exchange) proofOwn(now time.Time, c claim, raw []byte, key identity.PublicKey) (first bool) {
	id, at := c.summary.Node, strangerKey{c.summary.Node, c.from.Addr()}
	verdict := x.cfg.Roster(id, key)
	if verdict == RosterHolds {
		m := x.dir.members[id]
		if m == nil {
			m = &peer{}
			x.dir.members[id] = m
		}
		delete(x.dir.strangers, at)
		if m.key != key {
			m.left, m.flips = nil, nil
		}
		first = m.prove(now, key, c)
		x.say(now, Event{Kind: EventPeerProven, Summary: c.summary, Raw: slices.Clone(raw), Key: key, From: c.from, ID: id, First: first})
		if other, ok := m.flipping(now); ok {
			x.say(now, Event{Kind: EventPeerCloned, Summary: c.summary, Key: key, From: c.from, ID: id,
				Reason: "one key proves " + wire.Printable(other) + " and " + wire.Printable(c.summary.OwnEndpoint) + " in turns"})
		}
		return first
	}
	s := x.dir.strangers[at]
	if s == nil {
		s = x.newStranger(at, true)
	}
	first = true
	if s != nil {
		first = s.prove(now, key, c)
	}
	if verdict >= rosterVerdicts {
		verdict = RosterUnknown
	}
	row := &refusals[verdict]
	e := Event{Kind: row.event, Summary: c.summary, Key: key, From: c.from, ID: id, Reason: row.reason, First: first}
	if row.admit {
		e.Admit = admitLine(&c.summary, key.String(), c.from.Addr())
	}
	x.tally(row.counter)
	x.say(now, e)
	return first
}

// forgetPeers drops who was not heard for 90 s, and members that the roster
// knows no more.
func (x *Exchange) forgetPeers(now time.Time) {
	var lost []string
	for id, m := range x.dir.members {
		if !within(now, m.lastBeacon, boundForgotten) {
			lost = append(lost, id)
		} else if !x.rosterKnows(id) {
			delete(x.dir.members, id)
		}
	}
	slices.Sort(lost)
	for _, id := range lost {
		m := x.dir.members[id]
		delete(x.dir.members, id)
		if !m.lastProof.IsZero() {
			x.say(now, Event{Kind: EventPeerLost, Summary: m.proved.summary, Key: m.key, From: m.proved.from, ID: id})
		}
	}
	for k, s := range x.dir.strangers {
		if !within(now, s.lastBeacon, boundForgotten) {
			delete(x.dir.strangers, k)
		}
	}
}

// Peer is one speaker of the own cluster, as a value.
type Peer struct {
	ID string
	// Summary and Addr are what the proof covers if Authenticated, else what the
	// last beacon claims.
	Summary wire.Summary
	Addr    netip.AddrPort // of its answering socket
	Key     identity.PublicKey
	// Authenticated: proven within 90 s, under the key that the roster holds now
	// for this id, and not advertising another endpoint since.
	Authenticated bool
	Verdict       RosterVerdict // of the roster now; RosterUnknown while unproven
	LastBeacon    time.Time
	LastProof     time.Time // zero: never
}

func (x *Exchange) view(now time.Time, id string, p *peer) Peer {
	v := Peer{
		ID: id, Summary: p.seen.summary, Addr: p.seen.from, Key: p.key,
		LastBeacon: p.lastBeacon, LastProof: p.lastProof,
	}
	if p.lastProof.IsZero() {
		return v
	}
	v.Verdict = x.cfg.Roster(id, p.key)
	if v.Verdict == RosterHolds && !p.moved && within(now, p.lastProof, boundProven) {
		v.Authenticated, v.Summary, v.Addr = true, p.proved.summary, p.proved.from
	}
	return v
}

// Peers returns the directory of the own cluster, sorted by id and address,
// asking the roster again about each.
func (x *Exchange) Peers(now time.Time) []Peer {
	out := make([]Peer, 0, len(x.dir.members)+len(x.dir.strangers))
	add := func(id string, p *peer) {
		if within(now, p.lastBeacon, boundForgotten) {
			out = append(out, x.view(now, id, p))
		}
	}
	for id, m := range x.dir.members {
		add(id, m)
	}
	for k, s := range x.dir.strangers {
		add(k.id, s)
	}
	slices.SortFunc(out, func(a, b Peer) int {
		if c := strings.Compare(a.ID, b.ID); c != 0 {
			return c
		}
		return a.Addr.Compare(b.Addr)
	})
	return out
}

// Authenticated returns the peers whose key the roster holds now.
func (x *Exchange) Authenticated(now time.Time) []Peer {
	return slices.DeleteFunc(x.Peers(now), func(p Peer) bool { return !p.Authenticated })
}

// Lookup returns the endpoints that the member of this id proved within 90 s of
// the last call of Handle or Tick: the address book of a fleet whose addresses
// changed. ok is false for one that is not authenticated.
func (x *Exchange) Lookup(id string) (endpointFC, endpointRaft string, ok bool) {
	if m := x.dir.members[id]; m != nil {
		if v := x.view(x.latest, id, m); v.Authenticated {
			return v.Summary.OwnEndpoint, v.Summary.RaftEndpoint, true
		}
	}
	for k, s := range x.dir.strangers { // admitted since its proof
		if k.id == id {
			if v := x.view(x.latest, id, s); v.Authenticated {
				return v.Summary.OwnEndpoint, v.Summary.RaftEndpoint, true
			}
		}
	}
	return "", "", false
}
