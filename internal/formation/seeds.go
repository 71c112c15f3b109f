package formation

import (
	"slices"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// seedState is a seed and what became of it.
type seedState struct {
	Seed
	typed                                  bool // by a person, whatever earlier source names it too
	asked, settled, self, said, memberSaid bool
	lastAsk                                time.Time
}

// lookup is what is known of DNS as a source of seeds.
type lookup struct {
	on      bool
	started bool
	last    time.Time // of the latest question
	since   time.Time // of the question under way; zero for none
	said    bool
}

// origin is what a fleet counts as that this seed finds.
func (s *seedState) origin() Origin {
	if s.typed {
		return OriginSeed
	}
	return s.Origin
}

// reseed puts the seeds in order again; what is known of those that stay is kept.
func (m *Machine) reseed() {
	var all []Seed
	typed := map[string]bool{}
	for origin, list := range m.given {
		for _, endpoint := range list {
			all = append(all, Seed{Endpoint: endpoint, Origin: Origin(origin)})
			if Origin(origin) == OriginSeed {
				typed[seedKey(endpoint)] = true
			}
		}
	}
	old := m.seeds
	m.seeds = nil
	for _, s := range OrderSeeds(all...) {
		key := seedKey(s.Endpoint)
		state := &seedState{}
		if at := slices.IndexFunc(old, func(o *seedState) bool { return seedKey(o.Endpoint) == key }); at >= 0 {
			state = old[at]
		}
		state.Seed, state.typed = s, typed[key]
		m.seeds = append(m.seeds, state)
	}
}

// SeedStatus is a seed for people.
type SeedStatus struct {
	Seed
	Say Say // what was said of it last, 0 for nothing
}

// Seeds returns the seeds in the order in which they are dialled.
func (m *Machine) Seeds() []SeedStatus {
	out := make([]SeedStatus, len(m.seeds))
	for i, s := range m.seeds {
		out[i] = SeedStatus{Seed: s.Seed}
		switch {
		case s.self:
			out[i].Say = SaySeedIsSelf
		case s.memberSaid:
			out[i].Say = SaySeedNotFollowed
		case s.said:
			out[i].Say = SaySeedFailed
		}
	}
	return out
}

// lookedUp takes what DNS answered. Without an answer the endpoints of the last one stay: they are a hint, and asked again.
func (m *Machine) lookedUp(now time.Time, e Event) {
	if m.srv.since.IsZero() {
		return
	}
	m.srv.since = time.Time{}
	if e.Err != "" {
		if !m.srv.said {
			m.srv.said = true
			m.act(Action{Kind: ActSay, Say: SaySRVFailed, Endpoint: e.Endpoint, Origin: OriginSRV, Err: e.Err})
		}
		return
	}
	m.srv.said = false
	m.given[OriginSRV] = slices.Clone(e.Endpoints[:min(len(e.Endpoints), MaxSRV)])
	m.reseed()
}

// lookUp asks DNS when that is due. It costs no beat: it is no summary, and there is one name.
func (m *Machine) lookUp(now time.Time) {
	if l := &m.srv; l.on && l.since.IsZero() && (!l.started || now.Sub(l.last) >= SeedPeriod) {
		l.started, l.last, l.since = true, now, now
		m.act(Action{Kind: ActLookupSRV})
	}
}

func (m *Machine) summaryFailed(now time.Time, endpoint, why string, answered identity.PublicKey) {
	if in, ok := m.inflight[endpoint]; ok && !in.requireKey.IsZero() && !answered.IsZero() && answered != in.requireKey && m.pin != nil {
		// Somebody sits where the pinned leader was said to be.
		m.count(CountPinRefusals)
		m.raise(now, Fleet{Cluster: m.pin.Cluster, State: wire.StateEstablished, SpeakerKey: answered, SpeakerEndpoint: endpoint, Origin: in.origin},
			WhyLeaderUnpinned, answered)
	}
	delete(m.inflight, endpoint)
	m.doubtOver(endpoint, false)
	if m.walk != nil && m.walk.waiting == endpoint {
		m.walk = nil
	}
	if s := m.seed(endpoint); s != nil && s.asked {
		s.settled = true
		if !s.said {
			s.said = true
			m.act(Action{Kind: ActSay, Say: SaySeedFailed, Endpoint: endpoint, Origin: s.Origin, Err: why})
		}
	}
}

func (m *Machine) seed(endpoint string) *seedState {
	for _, s := range m.seeds {
		if s.Endpoint == endpoint {
			return s
		}
	}
	return nil
}

// sayNotFollowed says once that a typed seed is not followed by a machine that is in a fleet already.
func (m *Machine) sayNotFollowed() {
	if m.own.State() != wire.StateEstablished {
		return
	}
	for _, s := range m.seeds {
		// One that is a voter's of the own fleet was followed long ago.
		if s.typed && s.Origin == OriginSeed && !s.memberSaid && !s.self && !s.settled {
			s.memberSaid = true
			m.act(Action{Kind: ActSay, Say: SaySeedNotFollowed, Endpoint: s.Endpoint, Origin: s.Origin})
		}
	}
}

// NotFollowed returns the typed seeds that are not followed because this machine is in a fleet already.
func (m *Machine) NotFollowed() []string {
	var out []string
	for _, s := range m.seeds {
		if s.memberSaid {
			out = append(out, s.Endpoint)
		}
	}
	return out
}

// seedsSettled reports whether each typed seed has answered or failed once.
func (m *Machine) seedsSettled() bool {
	return !slices.ContainsFunc(m.seeds, func(s *seedState) bool { return s.typed && !s.settled })
}

// dueSeed returns the next seed to ask: typed ones that were never asked first, then by dial order what is due.
func (m *Machine) dueSeed(now time.Time) *seedState {
	for _, s := range m.seeds {
		if s.typed && !s.asked {
			return s
		}
	}
	for _, s := range m.seeds {
		if !s.self && (!s.asked || now.Sub(s.lastAsk) >= SeedPeriod) {
			return s
		}
	}
	return nil
}
