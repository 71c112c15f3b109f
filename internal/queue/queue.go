package queue

import (
	"strings"
	"time"

	"pace-node/internal/wire"
)

// Config is what a queue is made with.
type Config struct {
	Interval time.Duration  // between discovery rounds; below MinInterval it is raised to it
	Capacity int            // entries that the heap holds; below 1: DefaultCapacity
	Hold     time.Duration  // 0: DefaultHold
	Rand     func() float64 // 0 ≤ x < 1, for the jitter of waits; nil: no jitter
}

// Sighting is one machine seen wanting provisioning. Made is on the caller's monotonic clock.
type Sighting struct {
	ID     string
	Made   time.Time
	Source Source
	BootID string // empty where the source does not know it
	Wants  bool   // a discovery or an event that does not want provisioning is Invalid
	Always bool   // the machine asks at every boot by its own setting, so a reboot in the hold is no failure
}

// entry is one machine in the map: queued, running or held, each under its own generation.
type entry struct {
	queued  uint64 // generation that waits in the heap; 0: none
	running uint64 // generation that a worker has; 0: none
	held    uint64 // generation that is restarting; 0: none

	added     time.Time // of the queued generation
	made      time.Time // of its sighting
	source    Source
	bootID    string
	begun     bool // the running generation is at work, not only being probed
	holdEnds  time.Time
	holdMade  time.Time // the sighting of the held generation
	holdBoot  string
	confirms  bool  // the hold awaits a confirmation
	confirmed bool  // it came
	after     State // the hold ended without it
}

func (e *entry) empty() bool { return e.queued == 0 && e.running == 0 && e.held == 0 }

// memory is what is kept of a machine whether or not it is in the map.
type memory struct {
	state     State
	due       time.Time
	failures  int       // consecutive runs that failed; decides the wait
	unconf    int       // consecutive runs that ended well and were not confirmed
	deferrals int       // consecutive
	notYet    time.Time // since when it refuses for now; zero: it does not
	attempts  int       // since the last confirmation, failed or not
	stage     Stage
	lastError string
	kind      ErrorKind
	success   time.Time
	firstSeen time.Time
	bootID    string
	asked     bool // a person asked for a run, and none was confirmed since
	history   []Past
}

// What a past run is called beside the names of Outcomes.
const (
	PastProvisioned = "provisioned" // a held machine confirmed
	PastUnconfirmed = "unconfirmed" // it did not in time
	PastHoldEnded   = "hold_ended"  // it booted anew instead
)

// Past is one finished run.
type Past struct {
	At      time.Time
	Outcome string // a row's name of Outcomes, or one of the above
	Stage   Stage
	Error   string
}

// Queue is the provisioning queue of one leader. It starts paused until leadership. It is not safe for concurrent use.
type Queue struct {
	cfg      Config
	paused   PauseReason
	gen      uint64
	seq      uint64
	entries  map[string]*entry
	busy     map[string]uint64 // what workers hold, also after the map was emptied under them
	heap     work
	surplus  int // entries that the heap held beyond a capacity that became smaller
	memory   map[string]*memory
	holds    timers
	dues     timers
	overflow overflow
	counts   [counterEnd]uint64
	errors   map[Stage]uint64
	retries  map[Stage]uint64
}

// New makes an empty queue, paused for want of leadership.
func New(cfg Config) *Queue {
	cfg.Interval = max(cfg.Interval, MinInterval)
	if cfg.Capacity < 1 {
		cfg.Capacity = DefaultCapacity
	}
	if cfg.Hold <= 0 {
		cfg.Hold = DefaultHold
	}
	q := &Queue{cfg: cfg, paused: PauseNoLeadership, memory: map[string]*memory{}, busy: map[string]uint64{},
		errors: map[Stage]uint64{}, retries: map[Stage]uint64{}}
	q.clear()
	return q
}

// Configure takes another interval and another capacity into use, as New does. What waits beyond a smaller capacity stays;
// nothing is admitted before it has drained.
func (q *Queue) Configure(interval time.Duration, capacity int) {
	q.cfg.Interval = max(interval, MinInterval)
	if q.cfg.Capacity = capacity; capacity < 1 {
		q.cfg.Capacity = DefaultCapacity
	}
	q.surplus = max(0, len(q.heap)-q.cfg.Capacity)
}

func (q *Queue) clear() {
	q.entries = map[string]*entry{}
	q.heap = nil
	q.surplus = 0
	q.holds, q.dues = nil, nil
	q.overflow = overflow{}
}

// Add is the one admission: every source calls it, and nothing else writes to the queue.
func (q *Queue) Add(now time.Time, s Sighting) Verdict {
	q.refill(now)
	v := q.add(now, s)
	if c := verdictRow(v).Counts; c != 0 {
		q.counts[c]++
	}
	if e := q.entries[s.ID]; v == Full && (e == nil || e.queued == 0) {
		q.overflow.put(s)
	}
	return v
}

// add applies the rules in their order. It changes nothing unless the sighting enters, ends a hold, or makes a waiting
// machine due.
func (q *Queue) add(now time.Time, s Sighting) Verdict {
	if !wire.ValidID(s.ID) || s.Source < SourceDiscovery || s.Source > SourceOperator ||
		(!s.Wants && (s.Source == SourceDiscovery || s.Source == SourceEvent)) {
		return Invalid
	}
	if q.paused != 0 {
		return Paused
	}
	e, m := q.entries[s.ID], q.memory[s.ID]

	// Rule 1: backing off, deferred or parked, and not due.
	if m != nil && m.state.waits() && !q.makesDue(now, s, m) {
		return NotDue
	}
	newBoot := e != nil && e.held != 0 && s.BootID != "" && e.holdBoot != "" && s.BootID != e.holdBoot
	endsHold := false
	if e != nil {
		switch {
		case s.Source == SourceOperator && e.queued != 0:
			return Duplicate // it already waits; a second word adds nothing
		case s.Source == SourceOperator:
			endsHold = true // overrides the hold; a running one gets one more run
		case s.Source == SourceEvent && newBoot && !s.Always && !e.confirmed:
			// Rule 5: a configuration that does not take must not spin.
			q.holdBroken(now, s.ID, e, s.BootID)
			return HoldEnded
		case s.Source == SourceEvent && newBoot:
			endsHold = true // an ordinary admission, as if the hold were over
		case now.Sub(s.Made) < q.cfg.Interval:
			return Duplicate // Rule 2, by the age of the sighting
		}
	}
	// Rule 3: room is checked before the map is touched.
	if len(q.heap) >= q.cfg.Capacity {
		return Full
	}
	// Rule 4: a new generation. An older one that still waits is skipped at pick-up.
	v := Admitted
	switch {
	case e == nil:
		e = &entry{}
		q.entries[s.ID] = e
	case e.running != 0:
		v = RunAgainOnce
	case !endsHold:
		v = AdmittedAgain
	}
	if endsHold {
		e.held = 0
	}
	m = q.remember(now, s)
	q.gen++
	e.queued, e.added, e.made, e.source = q.gen, now, s.Made, s.Source
	if s.BootID != "" {
		e.bootID = s.BootID
	}
	it := item{id: s.ID, gen: q.gen, failed: m.failures > 0 || m.unconf > 0, due: now, seq: q.nextSeq()}
	if it.failed && !m.due.IsZero() {
		it.due = m.due
	}
	q.heap.push(it)
	q.overflow.remove(s.ID)
	switch s.Source {
	case SourceDiscovery:
		q.counts[CountDiscovered]++
	case SourceEvent:
		q.counts[CountEventDiscovered]++
	case SourceRetry:
		q.retries[m.stage]++
	}
	return v
}

// makesDue reports whether a machine that waits may run now: its time has come, or the sighting brings it forward.
func (q *Queue) makesDue(now time.Time, s Sighting, m *memory) bool {
	newBoot := s.BootID != "" && m.bootID != "" && s.BootID != m.bootID
	switch {
	case s.Source == SourceOperator:
	case newBoot && (m.state == StateParked || m.kind == KindUnreachable):
	case m.state == StateParked:
		return false
	case now.Sub(m.due) >= 0:
		return true
	default:
		return false
	}
	m.due = now
	return true
}

// remember makes or refreshes what is kept of an admitted machine.
func (q *Queue) remember(now time.Time, s Sighting) *memory {
	m := q.memory[s.ID]
	if m == nil {
		m = &memory{}
		q.memory[s.ID] = m
	}
	if m.firstSeen.IsZero() {
		m.firstSeen = now
	}
	if s.BootID != "" {
		m.bootID = s.BootID
	}
	m.asked = m.asked || s.Source == SourceOperator
	return m
}

// refill tries the machines that found no room, first come first, while there is room.
func (q *Queue) refill(now time.Time) {
	for q.paused == 0 && len(q.heap) < q.cfg.Capacity {
		s, ok := q.overflow.take()
		if !ok {
			return
		}
		q.add(now, s)
	}
}

func (q *Queue) nextSeq() uint64 { q.seq++; return q.seq }

// leave takes an id out of the map when nothing of it is queued, running or held.
func (q *Queue) leave(id string) {
	if e := q.entries[id]; e != nil && e.empty() {
		delete(q.entries, id)
	}
}

// Pause adds a cause for which nothing is admitted and nothing begun; what runs goes on.
func (q *Queue) Pause(r PauseReason) { q.paused |= r }

// Resume takes a cause away.
func (q *Queue) Resume(r PauseReason) { q.paused &^= r }

// PausedBy returns the causes that hold; 0 means that the queue runs.
func (q *Queue) PausedBy() PauseReason { return q.paused }

// DropAll empties the map, the heap and what is remembered of dues: leadership is lost, and another leader's state is
// the truth from now on. Workers that still hold a machine keep it from running twice until they have called Finish.
func (q *Queue) DropAll() {
	q.clear()
	q.memory = map[string]*memory{}
}

// Removed forgets a machine that is no longer a member.
func (q *Queue) Removed(id string) {
	q.heap.removeID(id)
	q.overflow.remove(id)
	delete(q.entries, id)
	delete(q.memory, id)
}

// Waiting is the size of the map: ids queued, running or held.
func (q *Queue) Waiting() int { return len(q.entries) }

// HeapLen is the number of entries on the heap, superseded ones included.
func (q *Queue) HeapLen() int { return len(q.heap) }

// Oldest returns when the oldest entry still waiting was added.
func (q *Queue) Oldest() (added time.Time, ok bool) {
	for _, e := range q.entries {
		if e.queued != 0 && (!ok || e.added.Before(added)) {
			added, ok = e.added, true
		}
	}
	return added, ok
}

// Series is one value of a metric.
type Series struct {
	Metric, Label, Value, Help string
	Count                      uint64
}

// Series returns every counter, also those at zero, in the order of Counters and Stages.
func (q *Queue) Series() []Series {
	out := make([]Series, 0, len(Counters)+2*len(Stages))
	for _, r := range Counters {
		if r.Label != "stage" {
			out = append(out, Series{r.Metric, r.Label, r.Value, r.Help, q.counts[r.Counter]})
			continue
		}
		by := q.errors
		if r.Counter == CountRetries {
			by = q.retries
		}
		for _, s := range Stages {
			out = append(out, Series{r.Metric, r.Label, string(s), r.Help, by[s]})
		}
	}
	return out
}

// Count returns one counter's value; for the two that count by stage it is the sum.
func (q *Queue) Count(c Counter) uint64 {
	by := map[Counter]map[Stage]uint64{CountErrors: q.errors, CountRetries: q.retries}[c]
	if by == nil {
		return q.counts[c]
	}
	var n uint64
	for _, v := range by {
		n += v
	}
	return n
}

// givenUp are the endings of errors that say that somebody stopped waiting rather than what went wrong, and what a person is
// shown of one where nothing else is known.
var givenUp = []struct{ ending, says string }{
	{"context canceled", "it was taken away before it had ended"},
	{"context deadline exceeded", "it did not end in time"},
}

// realError reports whether a text says what went wrong.
func realError(text string) bool { return text != "" && withoutContext(text) == text }

// withoutContext is an error as a person may be shown it.
func withoutContext(text string) string {
	for _, g := range givenUp {
		if before, ok := strings.CutSuffix(text, g.ending); ok {
			return before + g.says
		}
	}
	return text
}
