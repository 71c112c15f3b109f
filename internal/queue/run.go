package queue

import (
	"strings"
	"time"
)

// ErrorKind says what may be expected of another try.
type ErrorKind string

// The kinds of failures.
const (
	KindNone        ErrorKind = ""
	KindTransient   ErrorKind = "transient"   // tried again after a wait
	KindUnreachable ErrorKind = "unreachable" // transient, and a new session or boot makes it due
	KindPermanent   ErrorKind = "permanent"   // parked until a person or a new boot
)

// Job is one run that was picked up. It stays the caller's until Finish, or until Begin answered false.
type Job struct {
	ID         string
	Generation uint64
	Added      time.Time
	Made       time.Time // of the sighting
	Source     Source
	Attempt    int // 1 for the first since the last confirmation
	FirstSeen  time.Time
	LastError  string
	BootID     string // of the sighting; may be empty
	Asked      bool   // a person asked for it: it runs whether or not the machine says that it wants anything
}

// Result is how a run ended. Of the three kinds Permanent wins, and none of them means transient.
type Result struct {
	Outcome     Outcome
	Stage       Stage
	Error       string
	Transient   bool
	Permanent   bool
	Unreachable bool
	RetryAfter  time.Duration // OutcomeDeferred: what the helper asked for; 0: the backoff
	BootID      string        // of the machine as it ran; empty: unknown
}

func (r *Result) kind() ErrorKind {
	switch {
	case r.Outcome != OutcomeError:
		return KindNone
	case r.Permanent:
		return KindPermanent
	case r.Unreachable:
		return KindUnreachable
	}
	return KindTransient
}

// Take pops the next current entry. Superseded ones are skipped, ones that waited more than two intervals are refused
// and counted, and one whose id is still at work keeps its place.
func (q *Queue) Take(now time.Time) (Job, bool) {
	if q.paused != 0 {
		return Job{}, false
	}
	var aside []item
	defer func() {
		for _, it := range aside {
			q.heap.push(it)
		}
		q.refill(now)
	}()
	for len(q.heap) > 0 {
		it := q.heap.pop()
		e := q.entries[it.id]
		switch {
		case e == nil || e.queued != it.gen:
			continue // superseded, or dropped with the map; uncounted
		case q.stale(now, e.added):
			q.counts[RefusedStale]++
			e.queued = 0
			q.leave(it.id)
			q.rearm(now, it.id)
			continue
		case q.busy[it.id] != 0:
			aside = append(aside, it)
			continue
		}
		m := q.memory[it.id]
		e.queued, e.running, e.held, e.begun = 0, it.gen, 0, false
		q.busy[it.id] = it.gen
		return Job{ID: it.id, Generation: it.gen, Added: e.added, Made: e.made, Source: e.source, Attempt: m.attempts + 1,
			FirstSeen: m.firstSeen, LastError: m.lastError, BootID: e.bootID, Asked: m.asked}, true
	}
	return Job{}, false
}

func (q *Queue) stale(now, added time.Time) bool {
	return now.Sub(added) > StaleIntervals*q.cfg.Interval
}

// IsCurrent reports whether a run is still the one that the map knows, by id and generation.
func (q *Queue) IsCurrent(id string, gen uint64) bool {
	e := q.entries[id]
	return e != nil && gen != 0 && e.running == gen
}

// Begin is asked when a worker has a machine in hand. False means: do nothing with it, and do not call Finish; it was
// superseded or dropped (uncounted), the queue is paused, or it waited too long (counted).
func (q *Queue) Begin(now time.Time, j Job) bool {
	current := q.IsCurrent(j.ID, j.Generation)
	if current && q.paused == 0 && !q.stale(now, j.Added) {
		q.entries[j.ID].begun = true
		return true
	}
	if current && q.paused == 0 {
		q.counts[RefusedStale]++
	}
	q.Finish(now, j, Result{Outcome: OutcomeSkipped})
	return false
}

// Finish ends a run. It acts on its own generation only; false means that the map no longer knew it and nothing was
// counted.
func (q *Queue) Finish(now time.Time, j Job, r Result) bool {
	if q.busy[j.ID] == j.Generation {
		delete(q.busy, j.ID)
	}
	row, ok := outcomeRow(r.Outcome)
	if !ok || !q.IsCurrent(j.ID, j.Generation) {
		return false
	}
	e, m := q.entries[j.ID], q.memory[j.ID]
	e.running, e.begun = 0, false
	if row.Outcome == OutcomeSkipped {
		q.leave(j.ID)
		q.rearm(now, j.ID)
		return true
	}
	if row.Outcome == OutcomeNotYet {
		if m.notYet.IsZero() {
			m.notYet = now
		}
		if now.Sub(m.notYet) < NotYetMost {
			q.refusedForNow(now, j.ID, m, row, r)
			return true
		}
		r.Outcome = OutcomeError
		row, _ = outcomeRow(r.Outcome)
	}
	m.notYet = time.Time{}
	if row.Outcome == OutcomeUnwanted {
		if m.state != StateConfirmed { // who said that it runs what it was given, and then that it wants nothing more, still runs it
			m.state = row.Next
		}
		m.due = time.Time{} // or it would come due again at once, for ever
		q.leave(j.ID)
		return true
	}
	if r.BootID != "" {
		m.bootID = r.BootID
	}
	m.attempts++
	m.stage = knownStage(r.Stage)
	m.kind = r.kind()
	m.due = time.Time{}
	switch row.Counts {
	case 0:
	case CountErrors:
		q.errors[m.stage]++
	default:
		q.counts[row.Counts]++
	}
	switch row.Outcome {
	case OutcomeError:
		q.failed(now, j.ID, m, row, r)
	case OutcomeDeferred:
		m.deferrals++
		wait := min(r.RetryAfter, RetryAfterMax)
		if wait <= 0 {
			wait = q.backoff(m.deferrals)
		}
		m.state = row.Next
		q.dueAt(m, j.ID, now.Add(wait))
	default:
		m.failures, m.deferrals, m.state, m.lastError = 0, 0, StateNone, ""
		if !row.Hold {
			m.state = row.Next
		}
		switch {
		case row.Confirms:
		case row.Hold:
			m.asked = e.askedAgain()
		case m.asked: // upgraded in place, and not configured yet
			q.dueAt(m, j.ID, now.Add(q.cfg.Interval))
		}
	}
	if row.Outcome == OutcomeDeferred && realError(r.Error) {
		m.lastError = cut(r.Error) // the helper's own words
	}
	m.past(Past{At: now, Outcome: row.Name, Stage: m.stage, Error: m.lastError})
	if row.Hold {
		e.held, e.holdEnds, e.holdMade, e.holdBoot = j.Generation, now.Add(q.cfg.Hold), j.Made, m.bootID
		e.confirms, e.confirmed, e.after = row.Confirms, false, row.Next
		q.holds.set(e.holdEnds, j.ID)
	}
	q.leave(j.ID)
	return true
}

// refusedForNow has a machine tried again soon. It is no run: of what is kept only the reason shows, where there was none.
func (q *Queue) refusedForNow(now time.Time, id string, m *memory, row OutcomeRow, r Result) {
	m.state, m.stage = row.Next, knownStage(r.Stage)
	if m.lastError == "" {
		m.lastError = cut(withoutContext(r.Error))
	}
	wait := NotYetWait
	if q.cfg.Rand != nil {
		wait = time.Duration(float64(wait) * (1 - BackoffJitter*q.cfg.Rand()))
	}
	q.leave(id)
	q.dueAt(m, id, now.Add(wait))
}

// failed records a failed run.
func (q *Queue) failed(now time.Time, id string, m *memory, row OutcomeRow, r Result) {
	m.failures++
	m.deferrals = 0
	if realError(r.Error) || m.lastError == "" {
		m.lastError = cut(withoutContext(r.Error))
	}
	if m.kind == KindUnreachable {
		q.counts[CountUnreachable]++
	}
	if m.kind == KindPermanent {
		m.state = StateParked
		return
	}
	m.state = row.Next
	q.dueAt(m, id, now.Add(q.backoff(m.failures)))
}

// holdBroken ends a hold because the machine booted anew and still wants provisioning.
func (q *Queue) holdBroken(now time.Time, id string, e *entry, bootID string) {
	m := q.memory[id]
	stage, text := StageConfirm, "it started again within the hold and still wants provisioning: its configuration did not take"
	if !e.confirms {
		stage, text = StageShutdown, "it was told to shut down, and was started again within the hold"
	}
	e.held, e.queued = 0, 0 // a waiting entry would run before its time
	m.unconf++
	m.state, m.stage, m.kind, m.bootID, m.lastError = StateBackingOff, stage, KindTransient, bootID, text
	q.errors[stage]++
	m.past(Past{At: now, Outcome: PastHoldEnded, Stage: stage, Error: text})
	q.dueAt(m, id, now.Add(q.backoff(m.unconf)))
	q.leave(id)
}

// Confirmed records that a held machine runs its new configuration and that this is committed. False: nobody awaits it.
func (q *Queue) Confirmed(now time.Time, id string) bool {
	e := q.entries[id]
	if !q.AwaitsConfirm(id) {
		return false
	}
	e.confirmed = true
	m := q.memory[id]
	m.state, m.success, m.stage, m.kind = StateConfirmed, now, StageConfirm, KindNone
	m.failures, m.unconf, m.deferrals, m.attempts, m.firstSeen, m.lastError = 0, 0, 0, 0, time.Time{}, ""
	m.asked = e.askedAgain()
	q.counts[CountProvisioned]++
	m.past(Past{At: now, Outcome: PastProvisioned, Stage: StageConfirm})
	return true
}

// askedAgain reports whether a person asked for the run that still waits.
func (e *entry) askedAgain() bool { return e.queued != 0 && e.source == SourceOperator }

// AwaitsConfirm reports whether a machine is held and has not confirmed.
func (q *Queue) AwaitsConfirm(id string) bool {
	e := q.entries[id]
	return e != nil && e.held != 0 && e.confirms && !e.confirmed
}

// Reachable says that a machine has a session again: one whose last failure was that it had none is due now.
func (q *Queue) Reachable(now time.Time, id string) {
	m := q.memory[id]
	if m == nil || m.kind != KindUnreachable || m.state != StateBackingOff || now.Sub(m.due) >= 0 {
		return
	}
	q.dueAt(m, id, now)
}

// Tick ends the holds whose time has come, then admits the machines that are due and those that found no room. It
// returns the ids that were due and those that did not confirm in time.
func (q *Queue) Tick(now time.Time) (due, unconfirmed []string) {
	for {
		t, ok := q.holds.expired(now)
		if !ok {
			break
		}
		e := q.entries[t.id]
		if e == nil || e.held == 0 || now.Sub(e.holdEnds) < 0 {
			continue
		}
		late := q.AwaitsConfirm(t.id)
		e.held = 0
		switch {
		case late:
			q.notConfirmed(now, t.id, e.after)
			unconfirmed = append(unconfirmed, t.id)
		case !e.confirmed:
			q.memory[t.id].state = e.after
		}
		q.leave(t.id)
	}
	if q.paused != 0 {
		return nil, unconfirmed
	}
	q.refill(now)
	for {
		t, ok := q.dues.expired(now)
		if !ok {
			return due, unconfirmed
		}
		m := q.memory[t.id]
		if m == nil || !m.comesDue() || now.Sub(m.due) < 0 || q.entries[t.id] != nil || q.overflow.has(t.id) {
			continue
		}
		due = append(due, t.id)
		source := SourceRetry
		if !m.state.waits() {
			source = SourceOperator // nothing failed: a person's word is carried on
		}
		if v := q.Add(now, Sighting{ID: t.id, Made: now, Source: source, BootID: m.bootID}); v == Full && !q.overflow.has(t.id) {
			q.dues.set(now.Add(OverflowRetry), t.id)
		}
	}
}

func (q *Queue) notConfirmed(now time.Time, id string, next State) {
	m := q.memory[id]
	m.unconf++
	m.state, m.stage, m.kind = next, StageConfirm, KindTransient
	m.lastError = "it did not say within " + q.cfg.Hold.String() + " that it runs its new configuration"
	q.counts[CountUnconfirmed]++
	m.past(Past{At: now, Outcome: PastUnconfirmed, Stage: StageConfirm, Error: m.lastError})
	q.dueAt(m, id, now.Add(q.backoff(m.unconf)))
}

// Next returns when Tick has something to do; zero: not before something else happens.
func (q *Queue) Next(now time.Time) time.Time {
	var next time.Time
	earlier := func(t time.Time) {
		if next.IsZero() || t.Sub(next) < 0 {
			next = t
		}
	}
	if len(q.holds) > 0 {
		earlier(q.holds[0].at)
	}
	if q.paused != 0 {
		return next
	}
	if len(q.dues) > 0 {
		earlier(q.dues[0].at)
	}
	if len(q.overflow.byID) > 0 && len(q.heap) < q.cfg.Capacity {
		earlier(now)
	}
	return next
}

// backoff is the wait after so many consecutive failures.
func (q *Queue) backoff(step int) time.Duration {
	d := BackoffFirst
	for i := 1; i < step && d < BackoffMax; i++ {
		d *= 2
	}
	d = min(d, BackoffMax)
	if q.cfg.Rand != nil {
		d = time.Duration(float64(d) * (1 - BackoffJitter + 2*BackoffJitter*q.cfg.Rand()))
	}
	return min(d, BackoffMax)
}

func (q *Queue) dueAt(m *memory, id string, at time.Time) {
	m.due = at
	q.dues.set(at, id)
}

// rearm puts the timer of a machine back that left the map without having run.
func (q *Queue) rearm(now time.Time, id string) {
	m := q.memory[id]
	if m == nil || !m.comesDue() || q.entries[id] != nil {
		return
	}
	at := m.due
	if now.Sub(at) > 0 {
		at = now
	}
	q.dues.set(at, id)
}

// comesDue reports whether a machine that is not in the map is tried again by itself.
func (m *memory) comesDue() bool {
	return m.state != StateParked && (m.state.waits() || m.asked)
}

func (m *memory) past(p Past) {
	if len(m.history) >= MaxHistory {
		m.history = append(m.history[:0], m.history[len(m.history)-MaxHistory+1:]...)
	}
	m.history = append(m.history, p)
}

func knownStage(s Stage) Stage {
	for _, k := range Stages {
		if k == s {
			return s
		}
	}
	return StageConfirm // the last; a caller's slip must not open the label's list
}

func cut(s string) string {
	if len(s) <= MaxErrorText {
		return s
	}
	return strings.ToValidUTF8(s[:MaxErrorText], "") + " …"
}
