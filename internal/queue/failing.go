package queue

// FailingAfter is after how many runs without a confirmation a machine counts as failing again and again; a parked one
// does at once.
const FailingAfter = 3

// Failing counts the machines that fail again and again, and returns one of them: the first by id among the parked ones, or
// where none is, among the others. A machine that was only deferred, or that is unreachable, fails nothing: it is away.
func (q *Queue) Failing() (count int, id, lastError string) {
	parked := false
	for name, m := range q.memory {
		switch {
		case m.state == StateParked:
		case m.attempts < FailingAfter || m.kind != KindTransient || m.state != StateBackingOff && m.state != StateUnconfirmed:
			continue
		}
		count++
		if here := m.state == StateParked; id == "" || here && !parked || here == parked && name < id {
			id, lastError, parked = name, m.lastError, here
		}
	}
	return count, id, lastError
}
