package queue

import "fmt"

// Check reports which of the queue's own invariants does not hold; they do after every call. Tests and simulations ask it.
func (q *Queue) Check() error {
	current := map[string]int{}
	for _, it := range q.heap {
		if e := q.entries[it.id]; e != nil && e.queued == it.gen {
			current[it.id]++
		}
	}
	if len(q.heap) > q.cfg.Capacity+q.surplus {
		return fmt.Errorf("the heap holds %d of %d", len(q.heap), q.cfg.Capacity)
	}
	for id, e := range q.entries {
		switch {
		case e.empty():
			return fmt.Errorf("%s is in the map and neither queued, running nor held", id)
		case e.queued != 0 && current[id] != 1:
			return fmt.Errorf("%s waits %d times", id, current[id])
		case e.queued == 0 && current[id] != 0:
			return fmt.Errorf("%s is current on the heap and not queued", id)
		case e.running != 0 && q.busy[id] != e.running:
			return fmt.Errorf("%s runs as %d, busy says %d", id, e.running, q.busy[id])
		case e.running != 0 && e.held != 0:
			return fmt.Errorf("%s runs and is held", id)
		case q.memory[id] == nil:
			return fmt.Errorf("%s is in the map and nothing is kept of it", id)
		}
		if q.overflow.has(id) && e.queued != 0 {
			return fmt.Errorf("%s waits, and is remembered as having found no room", id)
		}
	}
	if len(q.overflow.byID) > MaxOverflow || len(q.overflow.order) != len(q.overflow.byID) {
		return fmt.Errorf("the overflow holds %d ids in %d places", len(q.overflow.byID), len(q.overflow.order))
	}
	if q.Waiting() != len(q.entries) || q.HeapLen() != len(q.heap) {
		return fmt.Errorf("gauges say %d and %d, map and heap hold %d and %d", q.Waiting(), q.HeapLen(), len(q.entries), len(q.heap))
	}
	return nil
}
