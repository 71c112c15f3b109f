package queue

import (
	"maps"
	"slices"
	"time"
)

// Entry is what is known of one machine.
type Entry struct {
	ID          string
	State       State
	Stage       Stage // of the last finished run
	Attempt     int   // runs since the last confirmation
	LastError   string
	Kind        ErrorKind
	Source      Source    // of the last admission; 0 once it left the map
	Added       time.Time // of the entry that waits or runs; zero otherwise
	Made        time.Time // the sighting of the entry that is held; zero otherwise
	Due         time.Time // when it is looked at again; zero: not by itself
	LastSuccess time.Time // zero: never
	FirstSeen   time.Time
	BootID      string
	Again       bool // runs, and once more afterwards
	Asked       bool // a person asked for a run, and none was confirmed since
	History     []Past
}

// Entry returns what is known of one machine; false: nothing.
func (q *Queue) Entry(id string) (Entry, bool) {
	e, m := q.entries[id], q.memory[id]
	if m == nil {
		if !q.overflow.has(id) {
			return Entry{ID: id}, false
		}
		m = &memory{}
	}
	out := Entry{ID: id, State: m.state, Stage: m.stage, Attempt: m.attempts, LastError: m.lastError, Kind: m.kind, Due: m.due,
		LastSuccess: m.success, FirstSeen: m.firstSeen, BootID: m.bootID, Asked: m.asked, History: slices.Clone(m.history)}
	if e == nil {
		if q.overflow.has(id) {
			out.State = StateWaiting
		}
		return out, true
	}
	out.Source, out.Due = e.source, time.Time{}
	switch {
	case e.running != 0 && e.begun:
		out.State, out.Added, out.Again = StateRunning, e.added, e.queued != 0
	case e.running != 0 || e.queued != 0:
		out.State, out.Added = StateWaiting, e.added
	case e.confirmed:
		out.State, out.Made = StateConfirmed, e.holdMade
	default:
		out.State, out.Due, out.Made = StateHeld, e.holdEnds, e.holdMade
	}
	return out, true
}

// Entries returns every machine that has a state to show, sorted by id.
func (q *Queue) Entries() []Entry {
	ids := slices.Collect(maps.Keys(q.memory))
	for id := range q.overflow.byID {
		if q.memory[id] == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	out := make([]Entry, 0, len(ids))
	for _, id := range ids {
		if e, ok := q.Entry(id); ok && e.State != StateNone {
			out = append(out, e)
		}
	}
	return out
}

// Known is what a new leader takes over of one machine from the voters' state.
type Known struct {
	ID          string
	State       State         // backing off, deferred, parked, confirmed, unconfirmed, held for its confirmation, or none
	DueIn       time.Duration // until it is due; below 0 is 0, above RetryAfterMax is cut
	Attempts    int
	Stage       Stage
	LastError   string
	Kind        ErrorKind
	LastSuccess time.Time
	FirstSeen   time.Time // zero: now
	BootID      string
	Asked       bool   // a person asked for a run, and none was confirmed since
	History     []Past // oldest first
}

// Load takes over what is kept of a machine; one that the queue already has in hand is left alone.
func (q *Queue) Load(now time.Time, k Known) {
	if q.entries[k.ID] != nil || q.overflow.has(k.ID) {
		return
	}
	m := &memory{attempts: k.Attempts, lastError: cut(k.LastError), kind: k.Kind, success: k.LastSuccess,
		firstSeen: k.FirstSeen, bootID: k.BootID, asked: k.Asked, history: slices.Clone(k.History)}
	if m.firstSeen.IsZero() && k.State != StateConfirmed {
		m.firstSeen = now
	}
	if k.Stage != "" {
		m.stage = knownStage(k.Stage)
	}
	if over := len(m.history) - MaxHistory; over > 0 {
		m.history = m.history[over:]
	}
	q.memory[k.ID] = m
	switch k.State {
	case StateParked:
		m.state, m.failures = k.State, max(k.Attempts, 1)
	case StateBackingOff:
		m.state, m.failures = k.State, max(k.Attempts, 1)
	case StateUnconfirmed:
		m.state, m.unconf = k.State, max(k.Attempts, 1)
	case StateDeferred:
		m.state, m.deferrals = k.State, max(k.Attempts, 1)
	case StateConfirmed:
		m.state = k.State
	case StateHeld: // it has its configuration, and may have said so to nobody: the whole hold begins anew
		q.gen++
		e := &entry{held: q.gen, holdEnds: now.Add(q.cfg.Hold), holdBoot: k.BootID, bootID: k.BootID, confirms: true, after: StateUnconfirmed}
		q.entries[k.ID], m.unconf = e, max(k.Attempts-1, 0)
		q.holds.set(e.holdEnds, k.ID)
		return
	}
	switch {
	case m.state == StateParked:
	case m.state.waits():
		q.dueAt(m, k.ID, now.Add(min(max(k.DueIn, 0), RetryAfterMax)))
	case m.asked:
		q.dueAt(m, k.ID, now) // it was waiting its turn, or at work
	}
}
