package netio

import (
	"net/netip"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// AdmissionFacts is what admission asks of the node, at each question, never cached. The functions must not block and
// must not call back into the hub.
type AdmissionFacts struct {
	// Known: the key is in the roster, pre-approved, or holds a row of the waiting list, which then bounds it.
	Known func(identity.PublicKey) bool
	// Member: the key is in the roster; nil means Known. A known key that is no member may open few streams and send
	// little on them.
	Member func(identity.PublicKey) bool
}

func (f *AdmissionFacts) known(k identity.PublicKey) bool { return f.Known != nil && f.Known(k) }

func (f *AdmissionFacts) member(k identity.PublicKey) bool {
	if f.Member == nil {
		return f.known(k)
	}
	return f.Member(k)
}

// admissionStage is when a bound is asked.
type admissionStage uint8

const (
	atConnect admissionStage = iota
	atFirstRequest
)

// admissionScope is which strangers a bound counts.
type admissionScope uint8

const (
	ofSource admissionScope = iota // those of the same source network
	ofAll                          // every one
	ofAskers                       // those whose first request was anything but FleetSummary
)

// admissionBound is one row of the bounds: at Stage, a newcomer is refused when Scope already counts Bound and nobody gives way.
type admissionBound struct {
	Refusal Refusal
	Stage   admissionStage
	Scope   admissionScope
	Bound   int
	// SparesLoopback: with --discovery-loopback it does not apply to 127.0.0.0/8.
	SparesLoopback bool
	// SparesSummary: it does not apply to a first request that is FleetSummary.
	SparesSummary bool
	// Of those that it counts, one gives way that has been here for Grace, or for Turn where its network holds at least two
	// more than the newcomer's.
	Grace, Turn time.Duration
}

// admissionBounds are asked in this order; the first that is reached is the reason.
var admissionBounds = []admissionBound{
	{RefuseSourceFull, atConnect, ofSource, MaxStrangersPerSource, true, false, StrangerGrace, StrangerTurn},
	{RefuseStrangersFull, atConnect, ofAll, MaxStrangers, false, false, StrangerGrace, StrangerTurn},
	{RefuseSummaryReserve, atFirstRequest, ofAskers, MaxStrangers - KeptForFleetSummary, false, true, StrangerGrace, StrangerTurn},
}

// admissionPhase is what a stranger's session waits for.
type admissionPhase uint8

const (
	awaitsRequest admissionPhase = iota
	awaitsAnswer
	awaitsMore
)

// admissionWait is one row of the deadlines: a stranger's session that stays in Phase for Within is closed.
type admissionWait struct {
	Phase   admissionPhase
	Within  time.Duration
	Refusal Refusal // RefusalNone: an ordinary end, not counted
}

var admissionWaits = []admissionWait{
	{awaitsRequest, FirstRequestWithin, RefuseFirstRequestLate},
	{awaitsAnswer, AnswerWithin, RefuseAnswerLate},
	{awaitsMore, CloseAfterAnswer, RefusalNone},
}

func waitOf(p admissionPhase) admissionWait {
	for _, w := range admissionWaits {
		if w.Phase == p {
			return w
		}
	}
	return admissionWait{Phase: p}
}

// Admission decides which sessions of strangers may be open: of keys that are not known. It reads no clock and keeps no
// timer; its caller serializes. Sessions are named by the caller's number.
type Admission struct {
	facts    AdmissionFacts
	loopback bool
	open     map[uint64]*stranger
	leaving  map[uint64]*stranger // gave way, and are closed at the next Due
}

// stranger is one open session of a key that was not known when it was last asked.
type stranger struct {
	key     identity.PublicKey
	source  netip.Prefix
	opened  time.Time
	gaveWay Refusal // with leaving: at which bound
	phase   admissionPhase
	since   time.Time
	pending int  // requests read and not yet answered
	asked   bool // a first request was read
	asker   bool // and it was not FleetSummary
}

// NewAdmission returns an empty table; loopback is --discovery-loopback.
func NewAdmission(facts AdmissionFacts, loopback bool) *Admission {
	return &Admission{facts: facts, loopback: loopback, open: map[uint64]*stranger{}, leaving: map[uint64]*stranger{}}
}

// sourceNetwork is what counts as one source: an IPv4 address, or an IPv6 /64.
func sourceNetwork(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := sourceBitsIPv4
	if a.Is6() {
		bits = sourceBitsIPv6
	}
	p, _ := a.Prefix(bits) // invalid for an invalid address: then all those share one
	return p
}

// Connect judges a new inbound session. A known key is admitted without a bound and not remembered.
func (a *Admission) Connect(now time.Time, id uint64, key identity.PublicKey, source netip.Addr) Refusal {
	if a.facts.known(key) {
		return RefusalNone
	}
	s := &stranger{key: key, source: sourceNetwork(source), opened: now, since: now}
	if r := a.refuses(now, atConnect, s, false); r != RefusalNone {
		return r
	}
	a.open[id] = s
	return RefusalNone
}

// refuses asks the bounds of a stage.
func (a *Admission) refuses(now time.Time, stage admissionStage, s *stranger, summary bool) Refusal {
	for _, b := range admissionBounds {
		if b.Stage != stage || b.SparesSummary && summary || b.SparesLoopback && a.loopback && s.source.Addr().IsLoopback() {
			continue
		}
		if a.count(b.Scope, s) < b.Bound {
			continue
		}
		// Who got a row meanwhile is bounded by the waiting list, and leaves room here.
		a.release()
		if a.count(b.Scope, s) >= b.Bound && !a.giveWay(now, &b, s) {
			return b.Refusal
		}
	}
	return RefusalNone
}

// counts reports whether a scope counts another stranger.
func (c admissionScope) counts(s, self *stranger) bool {
	return s != self && (c == ofAll || c == ofSource && s.source == self.source || c == ofAskers && s.asker)
}

// count counts the other strangers of a scope.
func (a *Admission) count(scope admissionScope, self *stranger) (n int) {
	for _, s := range a.open {
		if scope.counts(s, self) {
			n++
		}
	}
	return n
}

// giveWay makes a place where a bound is reached: of those that it counts, the one that has been here longest leaves, out of
// the network that holds most. Whoever says something now and then would hold its place for ever otherwise, and as many as
// there are places would keep out everybody.
func (a *Admission) giveWay(now time.Time, b *admissionBound, self *stranger) bool {
	held := map[netip.Prefix]int{}
	for _, s := range a.open {
		if b.Scope.counts(s, self) {
			held[s.source]++
		}
	}
	var id uint64
	var oldest *stranger
	for n, s := range a.open {
		if !b.Scope.counts(s, self) {
			continue
		}
		earlier := oldest == nil || held[s.source] > held[oldest.source] || held[s.source] == held[oldest.source] &&
			(s.opened.Before(oldest.opened) || s.opened.Equal(oldest.opened) && n < id)
		if earlier {
			id, oldest = n, s
		}
	}
	within := b.Grace
	if oldest != nil && held[oldest.source] >= held[self.source]+2 {
		within = b.Turn
	}
	if oldest == nil || now.Sub(oldest.opened) < within {
		return false
	}
	oldest.gaveWay = b.Refusal
	delete(a.open, id)
	a.leaving[id] = oldest
	return true
}

// release forgets strangers whose key became known.
func (a *Admission) release() {
	for id, s := range a.open {
		if a.facts.known(s.key) {
			delete(a.open, id)
		}
	}
}

// Request judges a request whose header was read, before its payload is.
func (a *Admission) Request(now time.Time, id uint64, verb wire.Verb, length uint32) Refusal {
	if s := a.leaving[id]; s != nil && !a.facts.known(s.key) {
		return s.gaveWay
	}
	s := a.open[id]
	if s == nil {
		return RefusalNone
	}
	if a.facts.known(s.key) {
		delete(a.open, id)
		return RefusalNone
	}
	if !s.asked {
		if length > FirstRequestCeiling {
			return RefuseFirstRequestTooLarge
		}
		summary := verb == wire.VerbFleetSummary
		if r := a.refuses(now, atFirstRequest, s, summary); r != RefusalNone {
			return r
		}
		s.asked, s.asker = true, !summary
	} else if verb != wire.VerbFleetSummary && !s.asker {
		// A summary's session that goes on to ask leaves the places that are kept for summaries.
		if r := a.refuses(now, atFirstRequest, s, false); r != RefusalNone {
			return r
		}
		s.asker = true
	}
	s.pending++
	s.phase, s.since = awaitsAnswer, now
	return RefusalNone
}

// Answered notes an answer on a session.
func (a *Admission) Answered(now time.Time, id uint64) {
	s := a.open[id]
	if s == nil {
		return
	}
	if s.pending > 0 {
		s.pending--
	}
	s.since = now
	if s.pending == 0 {
		s.phase = awaitsMore
	}
}

// Sweep takes up a session whose key is not known any more, such as one whose row ran out, and drops one whose key is.
// A session taken up here is not refused by a bound: it was admitted before.
func (a *Admission) Sweep(now time.Time, id uint64, key identity.PublicKey, source netip.Addr) {
	switch known := a.facts.known(key); {
	case known:
		delete(a.open, id)
	case a.open[id] == nil && a.leaving[id] == nil:
		a.open[id] = &stranger{key: key, source: sourceNetwork(source), opened: now, since: now, phase: awaitsMore, asked: true, asker: true}
	}
}

// Gone forgets a session.
func (a *Admission) Gone(id uint64) {
	delete(a.open, id)
	delete(a.leaving, id)
}

// Expired is a session to close.
type Expired struct {
	ID      uint64
	Refusal Refusal // RefusalNone: an ordinary end
}

// Due returns the sessions whose time is over, and those that gave way, and forgets them; one whose key became known is only
// forgotten.
func (a *Admission) Due(now time.Time) []Expired {
	var out []Expired
	for id, s := range a.leaving {
		delete(a.leaving, id)
		if !a.facts.known(s.key) {
			out = append(out, Expired{id, s.gaveWay})
		}
	}
	for id, s := range a.open {
		w := waitOf(s.phase)
		if now.Sub(s.since) < w.Within {
			continue
		}
		delete(a.open, id)
		if !a.facts.known(s.key) {
			out = append(out, Expired{id, w.Refusal})
		}
	}
	return out
}

// Next returns when Due is to be asked again, the zero time for at once; ok is false while no stranger is connected.
func (a *Admission) Next() (at time.Time, ok bool) {
	if len(a.leaving) > 0 {
		return time.Time{}, true
	}
	for _, s := range a.open {
		if t := s.since.Add(waitOf(s.phase).Within); !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// Strangers returns how many strangers' sessions are open.
func (a *Admission) Strangers() int { return len(a.open) }
