package queue

import (
	"container/heap"
	"time"
)

// item is one admission on the heap.
type item struct {
	id     string
	gen    uint64
	failed bool
	due    time.Time
	seq    uint64
}

// work orders admissions: never failed first, then by time due, then first come.
type work []item

func (w work) Len() int      { return len(w) }
func (w work) Swap(i, j int) { w[i], w[j] = w[j], w[i] }
func (w work) Less(i, j int) bool {
	a, b := &w[i], &w[j]
	if a.failed != b.failed {
		return !a.failed
	}
	// Never failed ones are all due at once, so arrival alone orders them.
	if d := a.due.Sub(b.due); a.failed && d != 0 {
		return d < 0
	}
	return a.seq < b.seq
}
func (w *work) Push(x any) { *w = append(*w, x.(item)) }
func (w *work) Pop() any {
	old := *w
	it := old[len(old)-1]
	old[len(old)-1] = item{}
	*w = old[:len(old)-1]
	return it
}

func (w *work) push(it item) { heap.Push(w, it) }
func (w *work) pop() item    { return heap.Pop(w).(item) }

// removeID takes every entry of an id off the heap.
func (w *work) removeID(id string) {
	kept := (*w)[:0]
	for _, it := range *w {
		if it.id != id {
			kept = append(kept, it)
		}
	}
	clear((*w)[len(kept):])
	*w = kept
	heap.Init(w)
}

// timer is a moment at which an id is looked at again; whether it still means something is checked then.
type timer struct {
	at time.Time
	id string
}

type timers []timer

func (t timers) Len() int           { return len(t) }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t timers) Less(i, j int) bool { return t[i].at.Sub(t[j].at) < 0 }
func (t *timers) Push(x any)        { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	old := *t
	x := old[len(old)-1]
	old[len(old)-1] = timer{}
	*t = old[:len(old)-1]
	return x
}

func (t *timers) set(at time.Time, id string) { heap.Push(t, timer{at, id}) }

// expired pops the first timer whose moment has come.
func (t *timers) expired(now time.Time) (timer, bool) {
	if len(*t) == 0 || now.Sub((*t)[0].at) < 0 {
		return timer{}, false
	}
	return heap.Pop(t).(timer), true
}

// overflow is the bounded set of sightings that found no room, in the order they came.
type overflow struct {
	order []string
	byID  map[string]Sighting
}

func (o *overflow) put(s Sighting) {
	if _, ok := o.byID[s.ID]; ok || len(o.byID) >= MaxOverflow {
		return
	}
	if o.byID == nil {
		o.byID = map[string]Sighting{}
	}
	o.byID[s.ID] = s
	o.order = append(o.order, s.ID)
}

func (o *overflow) has(id string) bool { _, ok := o.byID[id]; return ok }

func (o *overflow) take() (Sighting, bool) {
	for len(o.order) > 0 {
		id := o.order[0]
		o.order = o.order[1:]
		if s, ok := o.byID[id]; ok {
			delete(o.byID, id)
			return s, true
		}
	}
	return Sighting{}, false
}

func (o *overflow) remove(id string) {
	if !o.has(id) {
		return
	}
	delete(o.byID, id)
	// Without this an id that comes and goes would grow the order, or be taken out of its turn later.
	for i, x := range o.order {
		if x == id {
			o.order = append(o.order[:i], o.order[i+1:]...)
			return
		}
	}
}
