package queue

import "time"

// Answer is what an operator is told. An answer without an effect says so and is never exit 0.
type Answer uint8

// The answers.
const (
	AnswerQueued Answer = iota + 1
	AnswerAgain
	AnswerDropped
	AnswerUnknown
	AnswerWaiting
	AnswerRunning
	AnswerConfirmed
	AnswerPaused
	AnswerFull
	AnswerNothing
)

// AnswerRow is one row of Answers.
type AnswerRow struct {
	Answer Answer
	Effect bool
	Text   string // the machine's id comes before it
	Hint   string
}

// Answers is the table of what an operator is told.
var Answers = []AnswerRow{
	{AnswerQueued, true, "is queued", ""},
	{AnswerAgain, true, "is being worked and runs once more afterwards", ""},
	{AnswerDropped, true, "is dropped", ""},
	{AnswerUnknown, false, "is not known to the queue: it never asked to be provisioned", "pacectl queue reprovision"},
	{AnswerWaiting, false, "already waits its turn: nothing to do", "pacectl queue list"},
	{AnswerRunning, false, "is being worked right now: wait for its end", "pacectl queue show"},
	{AnswerConfirmed, false, "is provisioned and has confirmed: there is nothing to retry", "pacectl queue reprovision"},
	{AnswerPaused, false, "was left alone: the queue is paused", "pacectl queue resume"},
	{AnswerFull, false, "finds no room in the queue; it is tried as soon as there is some", "pacectl queue list"},
	{AnswerNothing, false, "neither waits nor runs: there is nothing to drop", "pacectl queue list"},
}

// Row returns the answer's row.
func (a Answer) Row() AnswerRow {
	for _, r := range Answers {
		if r.Answer == a {
			return r
		}
	}
	return AnswerRow{}
}

// Retry is an operator's word that a machine that failed, was deferred, parked or is held runs now.
func (q *Queue) Retry(now time.Time, id string) Answer {
	switch e, ok := q.Entry(id); {
	case !ok:
		return AnswerUnknown
	case e.State == StateRunning:
		return AnswerRunning
	case e.State == StateWaiting:
		return AnswerWaiting
	case e.State == StateConfirmed:
		return AnswerConfirmed
	}
	return q.operator(now, id)
}

// Reprovision is an operator's word that a machine is provisioned whatever its state. Whether the id is a member is the
// caller's to know.
func (q *Queue) Reprovision(now time.Time, id string) Answer { return q.operator(now, id) }

func (q *Queue) operator(now time.Time, id string) Answer {
	switch v := q.Add(now, Sighting{ID: id, Made: now, Source: SourceOperator, Wants: true}); v {
	case Admitted, AdmittedAgain:
		return AnswerQueued
	case RunAgainOnce:
		return AnswerAgain
	case Duplicate:
		return AnswerWaiting
	case Paused:
		return AnswerPaused
	case Full:
		return AnswerFull
	default:
		return AnswerUnknown
	}
}

// Drop takes a machine out of the queue and out of its waiting; what is known of its past stays. A run in progress is
// no longer current: the caller cancels it.
func (q *Queue) Drop(id string) Answer {
	m := q.memory[id]
	switch {
	case m == nil && !q.overflow.has(id):
		return AnswerUnknown
	case q.entries[id] == nil && !q.overflow.has(id) && !m.state.waits():
		return AnswerNothing
	}
	q.heap.removeID(id)
	q.overflow.remove(id)
	delete(q.entries, id)
	if m != nil {
		m.asked = false
		if m.state.waits() {
			m.state, m.due = StateNone, time.Time{}
		}
	}
	return AnswerDropped
}
