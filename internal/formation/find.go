package formation

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// proven takes a summary that somebody has proven. endpoint is where it was asked for, empty for a beacon.
func (m *Machine) proven(now time.Time, f Fleet, endpoint string) {
	f = m.reachable(f)
	in, asked := m.inflight[endpoint]
	if asked {
		delete(m.inflight, endpoint)
		m.doubtOver(endpoint, true)
		f.Origin = in.origin
		if !in.requireKey.IsZero() && in.requireKey != f.SpeakerKey {
			m.inflight[endpoint] = in
			m.summaryFailed(now, endpoint, "another key answered than the pinned one", f.SpeakerKey)
			return
		}
	} else if endpoint == "" {
		f.Origin = OriginBeacon
	}
	self := f.SpeakerKey == m.own.Key && !m.own.Key.IsZero()
	if seed := m.seed(endpoint); seed != nil {
		seed.settled, seed.said = true, false
		if self && !seed.self {
			seed.self = true
			m.act(Action{Kind: ActSay, Say: SaySeedIsSelf, Endpoint: endpoint, Origin: seed.Origin})
		}
	}
	walking := m.walk != nil && endpoint != "" && m.walk.waiting == endpoint
	if self || f.Cluster == m.own.Cluster {
		if walking {
			m.walkReturned(now, f, self)
		}
		return
	}
	if !m.proofSeen {
		m.proofSeen, m.firstProof = true, now
	}
	m.remember(now, f, endpoint)
	switch out := m.classify(f); {
	case m.own.State() == wire.StateEstablished && f.State == wire.StateEstablished && out != PinnedElsewhere:
		m.meet(now, f)
	case out == ForeignFleet:
		m.raise(now, f, WhyNeitherYields, identity.PublicKey{})
	case out == PinnedElsewhere:
		m.wayIn(now, WaySummary, f)
	}
	if m.own.Mode != Pending || m.own.Target == nil || m.move != nil {
		return
	}
	if walking {
		m.walkReturned(now, f, false)
		return
	}
	m.targetProven(now, f)
}

func (m *Machine) classify(f Fleet) Outcome { return Classify(m.own, f, f.Evidence, m.pin) }

// reachable takes loopback and wildcard endpoints out of what another machine said: whoever dialled them would reach
// itself. On one machine's demo they stay, from a loopback source.
func (m *Machine) reachable(f Fleet) Fleet {
	if m.loopbackOK && f.From.Addr().Unmap().IsLoopback() {
		return f
	}
	for _, endpoint := range []*string{&f.Leader.Endpoint, &f.Pointer.Endpoint, &f.SpeakerEndpoint} {
		if *endpoint != "" && Unreachable(*endpoint) {
			*endpoint = ""
			m.count(CountEndpointsRefused)
		}
	}
	return f
}

// remember keeps one proven word a fleet. Another speaker of the same fleet takes its place only if it is nearer to the
// truth: pinned where the kept one is not, found by a preferred source, the leader itself, or when the kept one is stale.
func (m *Machine) remember(now time.Time, f Fleet, endpoint string) {
	old, ok := m.fleets[f.Cluster]
	if ok && old.SpeakerKey != f.SpeakerKey && now.Sub(old.lastProof) < SpeakerStale && !m.nearer(f, old.Fleet) {
		return
	}
	s := &sighting{Fleet: f, asked: endpoint, lastProof: now}
	if ok && old.SpeakerKey == f.SpeakerKey && old.Origin < f.Origin { // a beacon does not undo that a seed found it
		s.Origin, s.asked = old.Origin, old.asked
	}
	m.fleets[f.Cluster] = s
	if len(m.fleets) <= MaxFleets {
		return
	}
	worst := ""
	for c, s := range m.fleets {
		if m.kept(c) {
			continue
		}
		if worst == "" || displaced(s.Fleet, m.fleets[worst].Fleet) {
			worst = c
		}
	}
	delete(m.fleets, worst)
	m.count(CountFleetsOverBound)
}

// kept reports whether a fleet never gives way in a full table: the one that is asked, and the one that the pin names.
func (m *Machine) kept(cluster string) bool {
	return m.pin != nil && m.pin.Cluster == cluster || m.own.Target != nil && m.own.Target.Cluster == cluster
}

func (m *Machine) nearer(a, b Fleet) bool {
	if pa, pb := m.pin.Holds(a.SpeakerKey), m.pin.Holds(b.SpeakerKey); pa != pb {
		return pa
	}
	if a.Origin != b.Origin {
		return a.Origin < b.Origin
	}
	return speaksItself(a) && !speaksItself(b)
}

// speaksItself reports whether the speaker is the leader that the summary names.
func speaksItself(f Fleet) bool {
	if f.Leader.HasKey {
		return f.SpeakerKey == identity.PublicKey(f.Leader.Key)
	}
	return f.Leader.ID != "" && f.Leader.ID == f.Speaker
}

// displaced reports whether a gives way before b: pending ones first, then the youngest solitary, an established one last.
func displaced(a, b Fleet) bool {
	if pa, pb := a.State == wire.StatePending, b.State == wire.StatePending; pa != pb {
		return pa
	}
	return rank(a, b) > 0
}

// way is what the pin makes of a fleet on the way in.
type way uint8

const (
	wayOpen way = iota + 1
	wayLeader
	wayWait
	wayRefused
)

// wayIn asks the pin whether f may be joined. Of the pinned fleet spoken for by a key that is not pinned (its own learners
// do that) the leader is asked, if it is named under a pinned key; without a key the next summary is waited for; else
// nothing is dialled, and the key is named.
func (m *Machine) wayIn(now time.Time, by Way, f Fleet) way {
	if m.pin.lets(by, f.Cluster, f.SpeakerKey) {
		return wayOpen
	}
	if f.Cluster != m.pin.Cluster {
		m.count(CountPinRefusals)
		m.raise(now, f, WhyPinnedFleet, identity.PublicKey{})
		return wayRefused
	}
	leader := identity.PublicKey(f.Leader.Key)
	switch {
	case !f.Leader.HasKey:
		return wayWait
	case !m.pin.Holds(leader):
		m.count(CountPinRefusals)
		m.raise(now, f, WhyPinnedKey, leader)
		return wayRefused
	case f.Leader.Endpoint == "":
		return wayWait
	}
	m.askLeader(now, f, leader)
	return wayLeader
}

// askLeader asks the pinned leader itself, at the endpoint that a speaker named who may be lying: each endpoint once in a
// seed's period, and one a beat, so that what somebody makes up holds up the true one by a beacon's period at most.
func (m *Machine) askLeader(now time.Time, f Fleet, leader identity.PublicKey) {
	if _, asked := m.leaders[f.Leader.Endpoint]; asked || now.Sub(m.lastLeader) < Beat {
		return
	}
	if len(m.leaders) >= MaxLeaderAsks {
		first := ""
		for endpoint, at := range m.leaders {
			if first == "" || at.Before(m.leaders[first]) || at.Equal(m.leaders[first]) && endpoint < first {
				first = endpoint
			}
		}
		delete(m.leaders, first)
	}
	if m.ask(now, f.Leader.Endpoint, f.Origin, leader) {
		m.leaders[f.Leader.Endpoint], m.lastLeader = now, now
	}
}

// ask asks an endpoint for its summary; false if that is already under way.
func (m *Machine) ask(now time.Time, endpoint string, origin Origin, requireKey identity.PublicKey) bool {
	if endpoint == "" {
		return false
	}
	if in, busy := m.inflight[endpoint]; busy { // that answer serves both
		in.origin = min(in.origin, origin)
		m.inflight[endpoint] = in
		return false
	}
	m.inflight[endpoint] = inflight{origin, requireKey, now}
	m.act(Action{Kind: ActAskSummary, Endpoint: endpoint, Origin: origin, RequireKey: requireKey})
	return true
}

// look chooses whom to ask, or asks one more seed or pointer for its summary.
func (m *Machine) look(now time.Time) {
	if !now.Before(m.choiceAt()) && m.seedsSettled() {
		if s := m.best(now); s != nil {
			if m.begin(now, YieldDecided, Action{Target: m.targetOf(s.Fleet, s.asked, now)}) {
				return
			}
		}
	}
	m.lookUp(now)
	if now.Sub(m.lastBeat) < Beat {
		return
	}
	if s := m.dueSeed(now); s != nil {
		s.asked, s.lastAsk, m.lastBeat = true, now, now
		m.ask(now, s.Endpoint, s.origin(), identity.PublicKey{})
		return
	}
	if p := m.duePointer(now); p != "" {
		m.lastBeat, m.lastPointer = now, now
		m.ask(now, p, OriginBeacon, identity.PublicKey{})
	}
}

// choiceAt is when the first choice may be made.
func (m *Machine) choiceAt() time.Time {
	if !m.proofSeen {
		return m.started.Add(never)
	}
	return m.firstProof.Add(ChoiceAfterProof)
}

// candidate reports whether this machine would ask s now.
func (m *Machine) candidate(now time.Time, s *sighting) bool {
	return !m.held(now, s.Cluster) && !m.dissolved(s) && m.classify(s.Fleet).Yields() &&
		m.targetOf(s.Fleet, s.asked, now).Endpoint != ""
}

// best returns the fleet to ask first. One that was given up lately comes after every other.
func (m *Machine) best(now time.Time) *sighting {
	var best *sighting
	for _, s := range m.fleets {
		if !m.candidate(now, s) {
			continue
		}
		if best == nil || m.before(s, best) {
			best = s
		}
	}
	return best
}

func (m *Machine) before(a, b *sighting) bool {
	_, la := m.abandoned[a.Cluster]
	_, lb := m.abandoned[b.Cluster]
	if la != lb {
		return lb
	}
	return rank(a.Fleet, b.Fleet) < 0
}

// duePointer returns an endpoint that a pending node points at, the freshest first, if the fleet there is not known yet.
func (m *Machine) duePointer(now time.Time) string {
	if now.Sub(m.lastPointer) < PointerPeriod || now.Before(m.choiceAt()) {
		return ""
	}
	var best *sighting
	for _, s := range m.fleets {
		if m.followable(s) && (best == nil || s.lastProof.After(best.lastProof) ||
			s.lastProof.Equal(best.lastProof) && s.Cluster < best.Cluster) {
			best = s
		}
	}
	if best == nil {
		return ""
	}
	return best.Pointer.Endpoint
}

func (m *Machine) followable(s *sighting) bool {
	return m.classify(s.Fleet) == FollowPointer && s.Pointer.Endpoint != "" && !m.known(s.Pointer)
}

// known reports whether the leader that a pointer names speaks, or is named, in a proven summary that is no pointer.
func (m *Machine) known(p wire.Leader) bool {
	for _, s := range m.fleets {
		if s.State == wire.StatePending {
			continue
		}
		if p.HasKey && (s.SpeakerKey == identity.PublicKey(p.Key) || s.Leader.HasKey && s.Leader.Key == p.Key) {
			return true
		}
		if !p.HasKey && p.ID != "" && (s.Speaker == p.ID || s.Leader.ID == p.ID) {
			return true
		}
	}
	return false
}

// targetOf is the target that a proven fleet makes. asked is where its speaker answered, empty for a beacon.
func (m *Machine) targetOf(f Fleet, asked string, now time.Time) *Target {
	t := &Target{Cluster: f.Cluster, Created: f.Created, State: f.State, LeaderID: f.Leader.ID, Endpoint: f.Leader.Endpoint,
		Keys: m.signers(f), Origin: f.Origin, AskedAt: now}
	if t.Endpoint == "" { // an election, or an endpoint that was refused: the speaker will redirect
		t.Endpoint, t.LeaderID = f.SpeakerEndpoint, f.Speaker
	}
	if t.LeaderID == f.Speaker || speaksItself(f) {
		t.Fallback = asked
		if asked == "" {
			t.Fallback = AtSource(f.SpeakerEndpoint, f.From.Addr())
		}
		if t.Endpoint == "" {
			t.Endpoint = t.Fallback
		}
	}
	if t.Fallback == t.Endpoint {
		t.Fallback = ""
	}
	return t
}

// AtSource is an endpoint's port at the address that a proof came from: a machine on two segments announces one address
// and is heard from the other. Empty where either is missing.
func AtSource(endpoint string, from netip.Addr) string {
	if endpoint == "" || !from.IsValid() {
		return ""
	}
	port, err := strconv.ParseUint(endpoint[strings.LastIndexByte(endpoint, ':')+1:], 10, 16)
	if err != nil {
		return ""
	}
	return netip.AddrPortFrom(from.Unmap(), uint16(port)).String()
}

// signers are the keys whose answer counts for a proven summary: the leader's, where it can be asked, and the speaker's,
// as far as the pin goes.
func (m *Machine) signers(f Fleet) []identity.PublicKey {
	var out []identity.PublicKey
	add := func(k identity.PublicKey) {
		if k.Check() == nil && !slices.Contains(out, k) && m.pin.Admits(f.Cluster, k) {
			out = append(out, k)
		}
	}
	if f.Leader.HasKey && f.Leader.Endpoint != "" {
		add(identity.PublicKey(f.Leader.Key))
	}
	add(f.SpeakerKey)
	if f.Leader.HasKey {
		add(identity.PublicKey(f.Leader.Key))
	}
	return out
}

// nextLook reports when something of look is due.
func (m *Machine) nextLook(now time.Time, at func(time.Time)) {
	beat := m.lastBeat.Add(Beat)
	if m.srv.on && m.srv.since.IsZero() {
		if !m.srv.started {
			at(now)
		} else {
			at(m.srv.last.Add(SeedPeriod))
		}
	}
	for _, s := range m.seeds {
		switch {
		case !s.asked:
			at(beat)
		case !s.self:
			at(later(s.lastAsk.Add(SeedPeriod), beat))
		}
	}
	if !m.proofSeen {
		return
	}
	choice := later(m.choiceAt(), m.moveBlock)
	if now.Before(choice) {
		at(choice)
	}
	for c, s := range m.fleets {
		if m.classify(s.Fleet).Yields() && !m.revoked[c] && !m.dissolved(s) {
			due := later(choice, m.rejections[c])
			if gaveUp, ok := m.abandoned[c]; ok {
				due = later(due, gaveUp.Add(AbandonHold))
			}
			if due.After(now) {
				at(due)
			}
		}
		if m.followable(s) {
			at(later(later(m.lastPointer.Add(PointerPeriod), beat), choice))
		}
	}
}
