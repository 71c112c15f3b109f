package formation

import (
	"slices"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// keepAsking keeps the ask of a pending machine open, and gives it up in time.
func (m *Machine) keepAsking(now time.Time) {
	t := m.own.Target
	switch {
	case t == nil: // no record of ours reads so; there is nobody to ask
		m.begin(now, AskGivenUp, Action{})
	case !m.pin.lets(WayRecord, t.Cluster, t.Keys...):
		m.count(CountPinRefusals)
		why, key := WhyPinnedFleet, identity.PublicKey{}
		if t.Cluster == m.pin.Cluster && len(t.Keys) > 0 {
			why, key = WhyPinnedKey, t.Keys[0]
		}
		m.raise(now, fleetOf(t), why, key)
		m.act(Action{Kind: ActSay, Say: SayTargetRefused, Endpoint: t.Endpoint, Origin: t.Origin})
		m.begin(now, AskGivenUp, Action{})
	case now.Sub(m.lastSigned) >= AbandonAfter:
		m.begin(now, Abandoned, Action{})
	default:
		if !m.asking && !now.Before(m.askAgainAt) {
			m.openAsk(0)
		}
		m.search(now)
	}
}

// openAsk opens the ask; hop is how many redirects led here.
func (m *Machine) openAsk(hop int) {
	m.askSerial++
	m.asking, m.redirects, m.answered = true, hop, false
	m.act(Action{Kind: ActAsk, Target: m.own.Target.clone(), Ask: m.askSerial, Hop: hop})
}

func (m *Machine) stopAsk() {
	m.walk = nil
	if m.asking {
		m.asking = false
		m.act(Action{Kind: ActStopAsk, Ask: m.askSerial})
	}
	m.askSerial++ // what still comes of it is nobody's
}

// askOver: the stream is gone; ask again soon.
func (m *Machine) askOver(now time.Time) {
	m.asking, m.askAgainAt = false, now.Add(AskAgain)
}

// askFull: there was no room among those who wait. The machines of a fleet that dissolved all come at once, so they take
// turns: each waits longer every time, and each another while.
func (m *Machine) askFull(now time.Time, spread float64) {
	wait := AskFullMost
	if m.full < 5 { // 2 s · 2⁵ is beyond it
		wait = min(wait, AskAgain<<m.full)
	}
	m.full++
	m.asking, m.askAgainAt = false, now.Add(time.Duration(float64(wait)*(1-AskSpread+2*AskSpread*spread)))
}

// currentAsk reports whether an event belongs to the ask at hand.
func (m *Machine) currentAsk(serial uint64) bool {
	return m.own.Mode == Pending && m.own.Target != nil && m.move == nil && (serial == 0 || serial == m.askSerial)
}

// answer takes a verified answer.
func (m *Machine) answer(now time.Time, e Event) {
	t := m.own.Target
	if !m.currentAsk(e.Ask) || e.Cluster != t.Cluster {
		m.count(CountAdmissionsRefused)
		return
	}
	if !m.pin.lets(WayAnswer, t.Cluster, e.From) {
		m.count(CountPinRefusals)
		f := fleetOf(t)
		f.SpeakerKey = e.From
		m.raise(now, f, WhyAnswerUnpinned, e.From)
		return
	}
	m.full, m.unanswered, m.answered = 0, 0, true
	switch e.Outcome {
	case wire.OutcomePending:
		m.lastSigned = now
	case wire.OutcomeApproved:
		m.begin(now, Approved, Action{Target: t.clone(), Roster: e.Roster})
	case wire.OutcomeRejected:
		m.begin(now, Rejected, Action{})
	case wire.OutcomeRevoked:
		m.begin(now, Rejected, Action{Revoked: true})
	default:
		m.count(CountAdmissionsRefused)
	}
}

// keyRefused: the machine that answers at the target's endpoint, where a redirect or a changed leader led, is not pinned.
func (m *Machine) keyRefused(now time.Time, e Event) {
	if !m.currentAsk(e.Ask) || m.pin == nil {
		return
	}
	m.count(CountPinRefusals)
	f := fleetOf(m.own.Target)
	f.SpeakerKey, f.SpeakerEndpoint = e.From, e.Endpoint
	m.raise(now, f, WhyLeaderUnpinned, e.From)
}

// fleetOf is what is known of a target, to be reported.
func fleetOf(t *Target) Fleet {
	return Fleet{Cluster: t.Cluster, Created: t.Created, State: t.State, Leader: wire.Leader{ID: t.LeaderID, Endpoint: t.Endpoint}, Origin: t.Origin}
}

func (m *Machine) answerRefused(e Event) {
	m.count(CountAdmissionsRefused)
	if m.currentAsk(e.Ask) && !m.answerSaid {
		m.answerSaid = true
		m.act(Action{Kind: ActSay, Say: SayAnswerRefused, Endpoint: m.own.Target.Endpoint, Origin: m.own.Target.Origin, Err: e.Err})
	}
}

// redirected takes error 5 of the target. It is unsigned: whoever it names proves itself before anything changes.
func (m *Machine) redirected(now time.Time, e Event) {
	if !m.currentAsk(e.Ask) {
		return
	}
	hop := m.redirects
	m.askOver(now)
	m.unansweredAsk()
	if e.Endpoint == "" || !wire.ValidEndpoint(e.Endpoint) || hop >= MaxRedirects {
		return // an election, or a circle: ask again soon
	}
	m.startWalk(now, &walk{redirect: true, hop: hop}, "redirect "+e.Endpoint, wire.Leader{Endpoint: e.Endpoint})
}

// targetProven takes a proven summary that may concern the target.
func (m *Machine) targetProven(now time.Time, f Fleet) {
	t := m.own.Target
	known := slices.Contains(t.Keys, f.SpeakerKey)
	switch {
	case f.State == wire.StatePending:
		if known { // the target yielded itself
			m.startWalk(now, &walk{hops: []hop{hopOf(f)}}, "pointer "+f.Pointer.ID+" "+f.Pointer.Endpoint, f.Pointer)
		}
	case f.Cluster == t.Cluster:
		m.hearVoice(now, f)
		switch {
		case known, m.lost() && m.namesAnother(f), now.Sub(m.lastSigned) >= TargetSilent:
			m.refresh(now, f)
		case m.namesAnother(f):
			m.doubt(now)
		}
	case known: // the machine that was asked speaks for another fleet now
		m.retarget(now, f)
	}
}

// refresh takes the newer word about the fleet that is asked: its leader may have changed.
func (m *Machine) refresh(now time.Time, f Fleet) {
	if m.wayIn(now, WaySummary, f) != wayOpen {
		return
	}
	t, next := m.own.Target, m.targetOf(f, "", now)
	changed := next.LeaderID != t.LeaderID
	if next.Endpoint != "" {
		t.Endpoint, t.Fallback, t.LeaderID = next.Endpoint, next.Fallback, next.LeaderID
	}
	t.State = f.State
	m.acceptKeys(next.Keys)
	if changed {
		m.unanswered = 0
		m.openAsk(0)
	}
}

// acceptKeys puts signers before the target's, the newest kept when there are too many.
func (m *Machine) acceptKeys(keys []identity.PublicKey) {
	t := m.own.Target
	all := slices.Clone(keys)
	for _, k := range t.Keys {
		if !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	t.Keys = all[:min(len(all), MaxTargetKeys)]
}

// retarget moves the ask to another proven fleet, as far as the pin goes.
func (m *Machine) retarget(now time.Time, f Fleet) {
	switch m.wayIn(now, WaySummary, f) {
	case wayOpen:
		m.retargetTo(now, f, "")
	case wayRefused:
		m.begin(now, TargetClosed, Action{})
	}
}

// retargetTo moves the ask to a fleet that the pin admits. asked is where its leader answered, or empty. A fleet that may
// not be asked ends the ask: nobody would answer it any more.
func (m *Machine) retargetTo(now time.Time, f Fleet, asked string) {
	if m.held(now, f.Cluster) {
		m.begin(now, TargetClosed, Action{})
		return
	}
	if t := m.targetOf(f, asked, now); t.Endpoint != "" {
		m.begin(now, TargetYielded, Action{Target: t})
	}
}
