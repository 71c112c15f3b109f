package formation

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Config is what a Machine starts from: the record, the settings, and what the record remembers of other fleets.
type Config struct {
	Own        Own
	Pin        *Pin
	Seeds      []Seed // typed and remembered, in any order
	SRV        bool   // DNS may be asked for more of them
	Rejections []Rejection
	RevokedIn  []string // fleets that called this key revoked: never asked again under it
	LoopbackOK bool     // --discovery-loopback: loopback endpoints from loopback sources are accepted
}

// Machine decides. It is not safe for concurrent use: one event loop owns it. Every `now` keeps its monotonic reading.
type Machine struct {
	own        Own
	pin        *Pin
	loopbackOK bool
	seeds      []*seedState
	given      [OriginBeacon][]string // what seeds is made of, by origin
	srv        lookup
	out        []Action
	counts     [counters]uint64
	started    time.Time
	began      time.Time // of the own fleet of one, in this process

	fleets     map[string]*sighting // by cluster id
	inflight   map[string]inflight  // summaries asked for, by endpoint
	rejections map[string]time.Time // until when
	revoked    map[string]bool
	abandoned  map[string]time.Time // when
	foreign    map[string]*VisibleFleet
	leaders    map[string]time.Time // leader endpoints asked because an unpinned speaker named them, when
	lastLeader time.Time            // the latest of these

	proofSeen   bool
	firstProof  time.Time
	lastBeat    time.Time // last summary asked for at a beat
	lastPointer time.Time // last pointer followed while nothing better was due

	move       *Action // in flight: nothing else moves
	moveEvent  Event   // what began it, for a trigger from elsewhere
	queued     []Event // triggers that came meanwhile
	moveBlock  time.Time
	asking     bool
	askSerial  uint64
	askAgainAt time.Time
	full       int  // refusals in a row because nobody more may wait
	answered   bool // the ask at hand was
	unanswered int  // asks in a row that were not
	voices     []voice
	lastSearch time.Time
	searched   int
	doubted    time.Time
	doubting   string // the target's endpoint while it is asked whether it is there
	redirects  int
	lastSigned time.Time
	answerSaid bool
	walk       *walk
	lastWalk   string
	lastWalkAt time.Time
}

type inflight struct {
	origin     Origin
	requireKey identity.PublicKey
	at         time.Time
}

// sighting is the proven word that is kept of one fleet.
type sighting struct {
	Fleet
	asked     string // the endpoint at which its speaker answered; empty for a beacon
	lastProof time.Time
}

// New returns a machine. A pending record is asked again at the first Step.
func New(cfg Config, now time.Time) *Machine {
	m := &Machine{
		own: cfg.Own, pin: cfg.Pin, loopbackOK: cfg.LoopbackOK, started: now, began: now,
		fleets: map[string]*sighting{}, inflight: map[string]inflight{}, rejections: map[string]time.Time{},
		revoked: map[string]bool{}, abandoned: map[string]time.Time{}, foreign: map[string]*VisibleFleet{},
		lastBeat: now.Add(-Beat), lastPointer: now.Add(-PointerPeriod), lastSigned: now, askAgainAt: now, moveBlock: now,
		lastWalkAt: now.Add(-WalkAgain), lastSearch: now.Add(-SearchEvery), doubted: now.Add(-WalkAgain), leaders: map[string]time.Time{}, lastLeader: now.Add(-Beat),
		srv: lookup{on: cfg.SRV},
	}
	m.own.Target = cfg.Own.Target.clone()
	for _, s := range cfg.Seeds {
		if s.Origin < OriginBeacon {
			m.given[s.Origin] = append(m.given[s.Origin], s.Endpoint)
		}
	}
	m.reseed()
	for _, r := range cfg.Rejections {
		m.hold(now, r.Cluster, min(r.Left, RejectionFor))
	}
	for _, c := range cfg.RevokedIn {
		m.revoked[c] = true
	}
	return m
}

// Own returns the record as the machine knows it; its target is a copy.
func (m *Machine) Own() Own {
	own := m.own
	own.Target = m.own.Target.clone()
	return own
}

// Count returns a counter.
func (m *Machine) Count(c Counter) uint64 { return m.counts[c] }

// Rejections returns the fleets that are not asked for a while, by cluster id: what belongs in the record.
func (m *Machine) Rejections(now time.Time) []Rejection {
	var out []Rejection
	for cluster, until := range m.rejections {
		if left := until.Sub(now); left > 0 {
			out = append(out, Rejection{cluster, left})
		}
	}
	slices.SortFunc(out, func(a, b Rejection) int { return strings.Compare(a.Cluster, b.Cluster) })
	return out
}

// Revoked returns the fleets that called this key revoked, sorted: what belongs in the record.
func (m *Machine) Revoked() []string {
	var out []string
	for cluster := range m.revoked {
		out = append(out, cluster)
	}
	slices.Sort(out)
	return out
}

// PinDisagrees reports whether this machine is in a fleet that its pin does not admit, judged by the key that signed its
// admission (its own for a founder): `pin-disagrees`, and no work is taken.
func (m *Machine) PinDisagrees() bool {
	if m.own.State() != wire.StateEstablished {
		return false
	}
	by := m.own.AdmittedBy
	if by.IsZero() {
		by = m.own.Key
	}
	return !m.pin.lets(WayRecord, m.own.Cluster, by)
}

// Settling reports whether nobody is to be admitted yet: this is a fleet of one that nobody has made more of, and its first
// choice, to ask another fleet or not, is still open. It would become two fleets that neither yield.
func (m *Machine) Settling(now time.Time) bool {
	return m.looking() && (m.move != nil || now.Sub(m.began) < SettleAfter || !m.seedsSettled())
}

// ObeysDissolve reports whether this machine follows a dissolve order: the pin is asked by the key that signed it.
func (m *Machine) ObeysDissolve(survivor string, signer identity.PublicKey) bool {
	return m.pin.lets(WayDissolve, survivor, signer)
}

// Step takes one event and returns what is wanted; it makes at most one move. The actions are carried out in order. The
// slice is valid until the next Step.
func (m *Machine) Step(now time.Time, e Event) []Action {
	m.out = m.out[:0]
	m.expire(now)
	m.take(now, e)
	m.decide(now)
	return m.out
}

func (m *Machine) act(a Action) { m.out = append(m.out, a) }

func (m *Machine) count(c Counter) { m.counts[c]++ }

// take changes what the machine knows.
func (m *Machine) take(now time.Time, e Event) {
	switch e.Kind {
	case EvProven:
		m.proven(now, e.Fleet, e.Endpoint)
	case EvSummaryFailed:
		m.summaryFailed(now, e.Endpoint, e.Err, e.From)
	case EvSRV:
		m.lookedUp(now, e)
	case EvRemembered:
		m.given[OriginRemembered] = e.Endpoints
		m.reseed()
	case EvAnswer:
		m.answer(now, e)
	case EvAnswerRefused:
		m.answerRefused(e)
	case EvKeyRefused:
		m.keyRefused(now, e)
	case EvRedirect:
		m.redirected(now, e)
	case EvAskEnded:
		if m.currentAsk(e.Ask) {
			m.askOver(now)
			if !e.Full { // whoever has no room is there
				m.unansweredAsk()
			}
			if e.Full && m.own.OldCluster != "" {
				m.askFull(now, e.Spread)
			}
		}
	case EvOwnFleetRecordedMachine:
		m.trigger(now, Event{Kind: EvTrigger, Trigger: OwnFleetRecordedMachine})
	case EvForgotten:
		m.trigger(now, Event{Kind: EvTrigger, Trigger: OwnRecordForgotten})
	case EvGiveUpAsk:
		m.trigger(now, Event{Kind: EvTrigger, Trigger: AskGivenUp})
	case EvTrigger:
		m.trigger(now, e)
	case EvEstablished:
		m.own.Established = true
	case EvMoved:
		m.moved(now, e.Own)
	case EvMoveFailed:
		m.moveFailed(now, e.Err)
	}
}

// decide acts upon what is known and due.
func (m *Machine) decide(now time.Time) {
	m.sayNotFollowed()
	m.clearForeign(now)
	m.runQueued(now)
	if m.move != nil {
		return
	}
	switch {
	case m.own.Mode == Pending:
		m.keepAsking(now)
	case m.looking():
		m.look(now)
	}
}

// looking reports whether this machine looks for a fleet to join.
func (m *Machine) looking() bool { return m.own.Mode == Solitary && !m.own.Established }

// trigger takes a trigger that was decided elsewhere.
func (m *Machine) trigger(now time.Time, e Event) {
	if row, ok := e.Trigger.Row(); !ok || !row.External {
		m.count(CountMovesIgnored)
		return
	}
	if m.move != nil || now.Before(m.moveBlock) {
		m.queue(e)
		return
	}
	a := Action{}
	switch e.Trigger {
	case DissolvedInto:
		if a.Target = e.Target.clone(); a.Target == nil {
			m.count(CountMovesIgnored)
			return
		}
		if !m.ObeysDissolve(a.Target.Cluster, e.From) {
			m.count(CountPinRefusals)
			m.raise(now, fleetOf(a.Target), WhyOrderUnpinned, e.From)
			return
		}
	case EpochAccepted: // an approval by another name: it is a way into a fleet
		if !m.pin.lets(WayAnswer, m.own.Cluster, e.From) {
			m.count(CountPinRefusals)
			return
		}
		a.Roster, a.From = e.Roster, e.From
	}
	if m.begin(now, e.Trigger, a) {
		m.moveEvent = e
	}
}

// queue keeps a trigger until the move in flight is over; each once.
func (m *Machine) queue(e Event) {
	if !slices.ContainsFunc(m.queued, func(q Event) bool { return q.Trigger == e.Trigger }) {
		m.queued = append(m.queued, e)
	}
}

func (m *Machine) runQueued(now time.Time) {
	for m.move == nil && len(m.queued) > 0 && !now.Before(m.moveBlock) {
		e := m.queued[0]
		m.queued = m.queued[1:]
		m.trigger(now, e)
	}
}

// begin starts the move of the table's row for the own mode. What the record must remember is remembered now, so that the
// record that is written holds it.
func (m *Machine) begin(now time.Time, on Trigger, a Action) bool {
	t, ok := Next(m.own.Mode, on)
	if !ok {
		m.count(CountMovesIgnored)
		return false
	}
	if m.move != nil || now.Before(m.moveBlock) {
		return false
	}
	asked := ""
	if m.own.Target != nil {
		asked = m.own.Target.Cluster
	}
	switch on {
	case YieldDecided:
		m.count(CountYields)
	case Rejected:
		if a.Revoked {
			m.revoked[asked] = true
		} else {
			m.hold(now, asked, RejectionFor)
		}
	case AskGivenUp: // an operator said no: the machine must not ask again at its next beat
		m.hold(now, asked, RejectionFor)
	case Abandoned:
		m.count(CountJoinsAbandoned)
		m.abandoned[asked] = now
	case TargetClosed: // nobody said no: it is asked again, once it may have come to another mind
		m.abandoned[asked] = now
		delete(m.fleets, asked)
	case Left:
		m.hold(now, m.own.Cluster, RejectionFor)
	case OwnRecordForgotten: // forgetting revokes the key
		m.revoked[m.own.Cluster] = true
	}
	if m.own.Mode == Pending {
		m.stopAsk()
	}
	a.Kind, a.Transition = ActMove, t
	m.move = &a
	m.act(a)
	return true
}

// moved takes the record as it now is.
func (m *Machine) moved(now time.Time, own Own) {
	fresh := m.move != nil || own.Mode != m.own.Mode
	m.own = own
	m.own.Target = own.Target.clone()
	if !fresh { // the same record, written again
		return
	}
	if m.move != nil && (m.move.Transition.Effect == EffectMintNew || m.move.Transition.Effect == EffectMintAndAsk) {
		m.began = now
	}
	if m.move != nil && m.move.Transition.Rebuild {
		m.forgetSplits(now)
	}
	if m.move != nil && m.move.Transition.Effect == EffectMintNew {
		// A machine that starts anew judges what it hears from now on: what it had proven before belongs to a time when
		// those machines were elsewhere, perhaps on their way into the fleet that it has just left.
		m.fleets, m.proofSeen = map[string]*sighting{}, false
	}
	m.move, m.walk = nil, nil
	m.moveBlock = now
	if own.Mode == Pending {
		m.lastSigned, m.askAgainAt, m.redirects, m.asking, m.answerSaid, m.full = now, now, 0, false, false, 0
		m.unanswered, m.voices, m.doubting = 0, nil, ""
	}
	delete(m.fleets, own.Cluster)
	if _, ok := m.foreign[own.Cluster]; ok {
		m.dropForeign(own.Cluster)
	}
}

// moveFailed: nothing was done. What came from elsewhere is tried again; what this machine concluded it concludes again.
func (m *Machine) moveFailed(now time.Time, why string) {
	if m.move == nil {
		return
	}
	on := m.move.Transition.On
	if row, _ := on.Row(); row.External {
		m.queue(m.moveEvent)
	}
	m.move, m.moveBlock = nil, now.Add(MoveRetry)
	m.askAgainAt = m.moveBlock
	m.act(Action{Kind: ActSay, Say: SayMoveRefused, Err: why})
}

// hold keeps a fleet from being asked for d.
func (m *Machine) hold(now time.Time, cluster string, d time.Duration) {
	if d <= 0 || cluster == "" {
		return
	}
	m.rejections[cluster] = now.Add(d)
	for len(m.rejections) > MaxRejections {
		first := ""
		for c, until := range m.rejections {
			if first == "" || until.Before(m.rejections[first]) || until.Equal(m.rejections[first]) && c < first {
				first = c
			}
		}
		delete(m.rejections, first)
	}
}

// held reports whether a fleet is not to be asked now.
func (m *Machine) held(now time.Time, cluster string) bool {
	if m.revoked[cluster] {
		return true
	}
	if until, ok := m.rejections[cluster]; ok && now.Before(until) {
		return true
	}
	at, ok := m.abandoned[cluster]
	return ok && now.Sub(at) < AbandonHold
}

// expire forgets what is over.
func (m *Machine) expire(now time.Time) {
	for endpoint, in := range m.inflight {
		if now.Sub(in.at) >= DialTimeout+Beat { // the asker's own failure comes first; this is for one that is lost
			m.summaryFailed(now, endpoint, "no answer within 3 s", identity.PublicKey{})
		}
	}
	if !m.srv.since.IsZero() && now.Sub(m.srv.since) >= DialTimeout+Beat {
		m.lookedUp(now, Event{Err: "no answer within 3 s"})
	}
	for endpoint, at := range m.leaders {
		if now.Sub(at) >= SeedPeriod {
			delete(m.leaders, endpoint)
		}
	}
	for c, until := range m.rejections {
		if !now.Before(until) {
			delete(m.rejections, c)
		}
	}
	for c, at := range m.abandoned {
		if now.Sub(at) >= AbandonLast {
			delete(m.abandoned, c)
		}
	}
	for c, s := range m.fleets {
		if now.Sub(s.lastProof) > ProofFresh {
			delete(m.fleets, c)
		}
	}
}

// Next returns when Step wants a tick at the latest.
func (m *Machine) Next(now time.Time) time.Time {
	next := now.Add(SeedPeriod)
	at := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	for _, in := range m.inflight {
		at(in.at.Add(DialTimeout + Beat))
	}
	if !m.srv.since.IsZero() {
		at(m.srv.since.Add(DialTimeout + Beat))
	}
	for _, f := range m.foreign {
		at(f.LastProof.Add(ForeignClearAfter))
	}
	if m.move == nil {
		if len(m.queued) > 0 {
			at(m.moveBlock)
		}
		switch {
		case m.own.Mode == Pending:
			at(later(m.lastSigned.Add(AbandonAfter), m.moveBlock))
			if !m.asking {
				at(m.askAgainAt)
			}
			if search, ok := m.searchAt(now); ok {
				at(search)
			}
		case m.looking():
			m.nextLook(now, at)
		}
	}
	if next.Before(now) {
		return now
	}
	return next
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func compareBool(a, b bool) int { // false first
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// rank orders fleets by whom to ask first: origin, established before solitary, older, lower cluster id.
func rank(a, b Fleet) int {
	return cmp.Or(
		cmp.Compare(a.Origin, b.Origin),
		compareBool(a.State != wire.StateEstablished, b.State != wire.StateEstablished),
		cmp.Compare(ageOf(a.Created), ageOf(b.Created)),
		strings.Compare(a.Cluster, b.Cluster),
	)
}
