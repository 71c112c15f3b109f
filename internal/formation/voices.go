package formation

import (
	"slices"
	"time"

	"pace-node/internal/identity"
)

// voice is a machine that proved that it speaks for the fleet that is asked: where nobody answers at the target any more, it
// may know who leads now.
type voice struct {
	key      identity.PublicKey
	endpoint string
	heard    time.Time
}

// lost reports whether the machine that is asked has stopped answering: several asks in a row brought no signed answer.
func (m *Machine) lost() bool { return m.unanswered >= LostAsks }

// unansweredAsk counts an ask that is over. One that was answered says nothing against the target: its stream ended, and
// the next ask shows whether anybody is there.
func (m *Machine) unansweredAsk() {
	if !m.answered {
		m.unanswered = min(m.unanswered+1, LostAsks)
	}
}

// hearVoice keeps a proven speaker of the fleet that is asked. The one that was heard first gives way.
func (m *Machine) hearVoice(now time.Time, f Fleet) {
	m.voices = slices.DeleteFunc(m.voices, func(v voice) bool { return v.key == f.SpeakerKey || now.Sub(v.heard) > ProofFresh })
	if f.SpeakerEndpoint == "" {
		return
	}
	if len(m.voices) >= MaxVoices {
		m.voices = m.voices[1:]
	}
	m.voices = append(m.voices, voice{f.SpeakerKey, f.SpeakerEndpoint, now})
}

// lead is somebody who may know who leads the fleet that is asked.
type lead struct {
	endpoint string
	origin   Origin
	seed     *seedState // nil for a voice
	due      time.Time
}

// leads are whom may be asked, and from when on: whoever spoke for the fleet, the latest first, and then the seeds, which
// are asked once a minute.
func (m *Machine) leads(now time.Time) (all []lead) {
	t := m.own.Target
	add := func(l lead) {
		if l.endpoint != t.Endpoint && l.endpoint != t.Fallback && !slices.ContainsFunc(all, func(o lead) bool { return o.endpoint == l.endpoint }) {
			all = append(all, l)
		}
	}
	for _, v := range slices.Backward(m.voices) {
		if now.Sub(v.heard) <= ProofFresh {
			add(lead{endpoint: v.endpoint, origin: OriginBeacon})
		}
	}
	for _, s := range m.seeds {
		if !s.self {
			l := lead{endpoint: s.Endpoint, origin: s.origin(), seed: s}
			if s.asked {
				l.due = s.lastAsk.Add(SeedPeriod)
			}
			add(l)
		}
	}
	return all
}

// searchAt is when the next of them is asked; false while that is not wanted.
func (m *Machine) searchAt(now time.Time) (at time.Time, ok bool) {
	if !m.lost() {
		return time.Time{}, false
	}
	for _, l := range m.leads(now) {
		if !ok || l.due.Before(at) {
			at, ok = l.due, true
		}
	}
	return later(at, m.lastSearch.Add(SearchEvery)), ok
}

// search asks the next one for its summary, each in its turn: what is proven there is judged by targetProven.
func (m *Machine) search(now time.Time) {
	if at, ok := m.searchAt(now); !ok || now.Before(at) {
		return
	}
	due := slices.DeleteFunc(m.leads(now), func(l lead) bool { return now.Before(l.due) })
	l := due[m.searched%len(due)]
	m.lastSearch = now
	m.searched++
	if l.seed != nil {
		l.seed.asked, l.seed.lastAsk = true, now
	}
	m.ask(now, l.endpoint, l.origin, identity.PublicKey{})
}

// doubt has the target asked whether it is there, since another machine says that somebody else leads its fleet: the stream
// of the ask would stay open for a while where the target's machine has lost its power.
func (m *Machine) doubt(now time.Time) {
	if !m.asking || !m.answered || now.Sub(m.doubted) < WalkAgain {
		return
	}
	m.doubted = now
	if m.ask(now, m.own.Target.Endpoint, OriginBeacon, identity.PublicKey{}) {
		m.doubting = m.own.Target.Endpoint
	}
}

// doubtOver takes what came of it.
func (m *Machine) doubtOver(endpoint string, answered bool) {
	if endpoint == "" || endpoint != m.doubting {
		return
	}
	m.doubting = ""
	if t := m.own.Target; t != nil && t.Endpoint == endpoint && !answered {
		m.unanswered = LostAsks
	}
}

// namesAnother reports whether a speaker says that another machine than the target leads the fleet that is asked.
func (m *Machine) namesAnother(f Fleet) bool {
	t := m.own.Target
	return f.Leader.ID != "" && f.Leader.Endpoint != "" && (f.Leader.ID != t.LeaderID || f.Leader.Endpoint != t.Endpoint)
}
