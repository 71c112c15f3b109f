package formation

import (
	"slices"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// walk follows the chain that begins at the own target: a pending node points at whom it asked, and that one may be
// pending too. It ends at a fleet, which becomes the target; at this machine, and then everybody on the way waits in a
// ring that the tie-break opens; or nowhere.
type walk struct {
	redirect bool // began with the target's unsigned word
	confirm  bool // asking the target itself whether it is pending
	hop      int  // redirects followed in this ask before
	hops     []hop
	waiting  string // endpoint whose summary is awaited
}

// hop is a pending fleet on the way, as it proved itself.
type hop struct {
	cluster string
	created uint64
	key     identity.PublicKey
}

func hopOf(f Fleet) hop { return hop{f.Cluster, f.Created, f.SpeakerKey} }

// startWalk starts unless one is under way, or the same one was made a moment ago.
func (m *Machine) startWalk(now time.Time, w *walk, key string, to wire.Leader) {
	if m.walk != nil || key == m.lastWalk && now.Sub(m.lastWalkAt) < WalkAgain {
		return
	}
	m.lastWalk, m.lastWalkAt = key, now
	m.walk = w
	m.walkTo(now, to)
}

// walkTo takes the next step.
func (m *Machine) walkTo(now time.Time, to wire.Leader) {
	w := m.walk
	switch {
	case len(w.hops) > 0 && m.own.pointsHere(to):
		m.ringClosed(now)
	case to.Endpoint == "" || len(w.hops) > MaxHops:
		m.walk = nil
	default:
		w.waiting = to.Endpoint
		m.ask(now, to.Endpoint, OriginBeacon, identity.PublicKey{}) // or it is under way: its answer serves
	}
}

// walkReturned takes the summary that the walk waited for. self means that this machine answered its own question.
func (m *Machine) walkReturned(now time.Time, f Fleet, self bool) {
	if m.own.Mode != Pending || m.own.Target == nil || m.move != nil {
		m.walk = nil
		return
	}
	w, t := m.walk, m.own.Target
	w.waiting = ""
	ofTarget := f.Cluster == t.Cluster || slices.Contains(t.Keys, f.SpeakerKey)
	switch {
	case self && len(w.hops) > 0 && w.provenStart(t):
		m.ringClosed(now)
	case self && w.redirect && !w.confirm: // the target names this machine, unsigned: let it prove that it is pending
		m.confirm(now)
	case self || f.Cluster == m.own.Cluster:
		m.walk = nil
	case f.State == wire.StatePending && (w.confirm && len(w.hops) == 0 && !ofTarget || w.visited(f.Cluster)):
		m.walk = nil // another machine answers there, or a ring that this machine is not part of
	case f.State == wire.StatePending:
		w.hops = append(w.hops, hopOf(f))
		m.walkTo(now, f.Pointer)
	case f.Cluster == t.Cluster:
		m.walk = nil
		if w.redirect && !w.confirm {
			m.redirectWithin(now, f, w)
		} else {
			m.targetProven(now, f)
		}
	default:
		by := WaySummary
		if w.redirect {
			by = WayRedirect
		}
		way := m.wayIn(now, by, f)
		if w.redirect && !w.confirm && (way == wayRefused || way == wayOpen && m.held(now, f.Cluster)) {
			m.confirm(now) // before an unsigned word ends the ask
			return
		}
		switch way {
		case wayOpen:
			m.walk = nil
			endpoint := ""
			if speaksItself(f) {
				endpoint = m.walkedTo(f)
			}
			m.retargetTo(now, f, endpoint)
		case wayLeader: // the pinned leader speaks for itself next, if it was asked just now
			w.waiting = f.Leader.Endpoint
			if _, ok := m.inflight[w.waiting]; !ok {
				m.walk = nil
			}
		case wayRefused:
			m.walk = nil
			m.begin(now, TargetClosed, Action{})
		default:
			m.walk = nil
		}
	}
}

// confirm asks the target itself whether it has yielded.
func (m *Machine) confirm(now time.Time) {
	m.walk = &walk{redirect: true, confirm: true, hop: m.walk.hop}
	m.walkTo(now, wire.Leader{Endpoint: m.own.Target.Endpoint})
}

// walkedTo is the endpoint at which the proven fleet answered.
func (m *Machine) walkedTo(f Fleet) string {
	if s := m.fleets[f.Cluster]; s != nil && s.SpeakerKey == f.SpeakerKey {
		return s.asked
	}
	return ""
}

// provenStart reports whether the walk's first hop is the target, proven pending.
func (w *walk) provenStart(t *Target) bool {
	return w.hops[0].cluster == t.Cluster || slices.Contains(t.Keys, w.hops[0].key)
}

func (w *walk) visited(cluster string) bool {
	return slices.ContainsFunc(w.hops, func(h hop) bool { return h.cluster == cluster })
}

// redirectWithin follows a redirect inside the fleet that is asked: its target has proven that it speaks for that fleet.
func (m *Machine) redirectWithin(now time.Time, f Fleet, w *walk) {
	if m.wayIn(now, WayRedirect, f) != wayOpen {
		return
	}
	t, next := m.own.Target, m.targetOf(f, m.walkedTo(f), now)
	if next.Endpoint == "" {
		return
	}
	t.Endpoint, t.Fallback, t.LeaderID, t.State = next.Endpoint, next.Fallback, next.LeaderID, f.State
	m.acceptKeys(next.Keys)
	m.unanswered = 0
	m.openAsk(w.hop + 1)
}

// ringClosed: the chain from the target ends at this machine. Whoever wins the tie-break against all on the way goes back
// to solitary, and they then wait for it; exactly one does, since ages and ids are ordered.
func (m *Machine) ringClosed(now time.Time) {
	w := m.walk
	m.walk = nil
	if !w.provenStart(m.own.Target) {
		if w.redirect && !w.confirm {
			m.walk = w
			m.confirm(now)
		}
		return
	}
	for _, h := range w.hops {
		if m.pin != nil && m.pin.Admits(h.cluster, h.key) || TieBreakYields(m.own.Created, m.own.Cluster, h.created, h.cluster) {
			return
		}
	}
	m.begin(now, TargetPendingHere, Action{})
}
