package formation

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pace-node/internal/wire"
)

// sim runs many machines against one another on a model of a segment: beacons that are proven, summaries asked for, records
// written and asks opened, each after a delay of its own. Time and chance are its own.
type sim struct {
	t      testing.TB
	rng    *rand.Rand
	now    time.Time
	start  time.Time
	queue  simQueue
	seq    int
	nodes  []*simNode
	byHost map[string]*simNode
	loss   float64
	// approve makes every leader approve a row this long after it came; 0 leaves it waiting.
	approve  time.Duration
	archived int
}

type simEvent struct {
	at  time.Time
	seq int
	do  func()
}

type simQueue []simEvent

func (q simQueue) Len() int { return len(q) }
func (q simQueue) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].seq < q[j].seq
}
func (q simQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *simQueue) Push(x any)   { *q = append(*q, x.(simEvent)) }
func (q *simQueue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

type simNode struct {
	s        *sim
	n        int
	up       bool
	m        *Machine
	own      Own
	leader   *simNode // of the fleet it is a learner of
	tick     time.Time
	proven   map[int]simProof // of others, as discovery remembers them
	beaconAt time.Time
	extraAt  time.Time // last extra beacon
	ask      *simAsk
	rows     map[*simAsk]bool
	rejects  map[int]bool
	silent   bool // does not answer asks
	asked    []string
}

type simProof struct {
	at      time.Time
	summary string
}

type simAsk struct {
	serial uint64
	by, at *simNode
	open   bool
	target *Target
}

func newSim(t testing.TB, seed uint64) *sim {
	now := time.Now()
	return &sim{t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: now, start: now, byHost: map[string]*simNode{}}
}

func (s *sim) between(a, b time.Duration) time.Duration {
	return a + time.Duration(s.rng.Int64N(int64(b-a)+1))
}

func (s *sim) after(d time.Duration, do func()) {
	s.seq++
	heap.Push(&s.queue, simEvent{s.now.Add(d), s.seq, do})
}

func (s *sim) run(d time.Duration) {
	end := s.now.Add(d)
	for len(s.queue) > 0 && !s.queue[0].at.After(end) {
		e := heap.Pop(&s.queue).(simEvent)
		s.now = e.at
		e.do()
		if s.seq > 20_000_000 {
			s.t.Fatal("it never comes to rest")
		}
	}
	s.now = end
}

// add brings up machine n after offset.
func (s *sim) add(n int, created uint64, offset time.Duration, cfg Config) *simNode {
	x := &simNode{s: s, n: n, own: ownOf(n, created), proven: map[int]simProof{}, rows: map[*simAsk]bool{}, rejects: map[int]bool{}}
	x.own.Cluster = idOf(n)
	s.nodes = append(s.nodes, x)
	s.byHost[x.endpoint()] = x
	s.after(offset, func() {
		x.up = true
		cfg.Own = x.own
		x.m = New(cfg, s.now)
		x.beaconIn(s.between(0, 250*time.Millisecond))
		x.step(Event{Kind: EvTick})
	})
	return x
}

func (x *simNode) endpoint() string { return fmt.Sprintf("10.0.%d.%d:6674", x.n>>8, x.n&255) }

func (x *simNode) summary() Fleet {
	f := Fleet{Cluster: x.own.Cluster, Created: x.own.Created, State: x.own.State(), Speaker: x.own.NodeID, SpeakerKey: x.own.Key,
		SpeakerEndpoint: x.endpoint(), From: netip.MustParseAddrPort(x.endpoint())}
	switch {
	case x.own.Mode == Pending:
		t := x.own.Target
		f.Pointer = wire.Leader{ID: t.LeaderID, Endpoint: t.Endpoint}
		if x.n%2 == 0 { // whether the pointer carries a key is not to matter
			if at := x.s.byHost[t.Endpoint]; at != nil {
				f.Pointer.Key, f.Pointer.HasKey = at.own.Key, true
			}
		}
	case x.leader != nil:
		f.Created = x.leader.own.Created
		f.Leader = wire.Leader{ID: x.leader.own.NodeID, Endpoint: x.leader.endpoint(), Key: x.leader.own.Key, HasKey: true}
	default:
		f.Leader = wire.Leader{ID: x.own.NodeID, Endpoint: x.endpoint(), Key: x.own.Key, HasKey: true}
	}
	return f
}

func (x *simNode) beaconIn(d time.Duration) {
	at := x.s.now.Add(d)
	x.beaconAt = at
	x.s.after(d, func() {
		if x.beaconAt.Equal(at) {
			x.beacon()
			x.beaconIn(x.s.between(13500*time.Millisecond, 16500*time.Millisecond))
		}
	})
}

// beacon is heard by everybody; who has no fresh proof of this summary challenges it.
func (x *simNode) beacon() {
	said := fmt.Sprint(x.summary())
	for _, y := range x.s.nodes {
		p := y.proven[x.n]
		if y == x || !y.up || x.s.rng.Float64() < x.s.loss || p.summary == said && x.s.now.Sub(p.at) <= time.Minute {
			continue
		}
		x.s.after(x.s.between(time.Millisecond, 150*time.Millisecond), func() {
			f := x.summary()
			first := x.s.now.Sub(y.proven[x.n].at) > 90*time.Second
			y.proven[x.n] = simProof{x.s.now, fmt.Sprint(f)}
			if first && x.s.now.Sub(y.extraAt) >= 2*time.Second {
				y.extraAt = x.s.now
				y.beaconIn(x.s.between(0, 250*time.Millisecond))
			}
			if f.Cluster != y.own.Cluster {
				y.step(Event{Kind: EvProven, Fleet: f})
			}
		})
	}
}

func (x *simNode) step(e Event) {
	for _, a := range slices.Clone(x.m.Step(x.s.now, e)) {
		x.do(a)
	}
	next := x.m.Next(x.s.now)
	if next.Equal(x.tick) {
		return
	}
	if !next.After(x.s.now) {
		next = x.s.now.Add(time.Millisecond)
	}
	x.tick = next
	x.s.after(next.Sub(x.s.now), func() {
		if x.tick.Equal(next) {
			x.tick = time.Time{}
			x.step(Event{Kind: EvTick})
		}
	})
}

func (x *simNode) do(a Action) {
	s := x.s
	switch a.Kind {
	case ActAskSummary:
		y := s.byHost[a.Endpoint]
		s.after(s.between(time.Millisecond, 300*time.Millisecond), func() {
			if y == nil || !y.up {
				x.step(Event{Kind: EvSummaryFailed, Endpoint: a.Endpoint, Err: "down"})
				return
			}
			f := y.summary()
			f.Origin = a.Origin
			x.step(Event{Kind: EvProven, Fleet: f, Endpoint: a.Endpoint})
		})
	case ActMove:
		s.after(s.between(time.Millisecond, 50*time.Millisecond), func() { x.moved(a) })
	case ActStopAsk:
		x.closeAsk()
	case ActAsk:
		x.closeAsk()
		x.own.Target = a.Target
		x.asked = append(x.asked, a.Target.Cluster)
		ask := &simAsk{serial: a.Ask, by: x, at: s.byHost[a.Target.Endpoint], open: true, target: a.Target}
		x.ask = ask
		s.after(s.between(time.Millisecond, 200*time.Millisecond), func() { ask.arrive() })
	}
}

func (x *simNode) closeAsk() {
	if x.ask != nil {
		x.ask.open = false
		if x.ask.at != nil {
			delete(x.ask.at.rows, x.ask)
		}
		x.ask = nil
	}
}

func (x *simNode) moved(a Action) {
	own := x.m.Own()
	own.Mode, own.Target = a.Transition.To, nil
	switch a.Transition.Effect {
	case EffectRecordTarget:
		own.Target = a.Target
	case EffectDissolve:
		own.Cluster, own.Created, own.Established = a.Target.Cluster, a.Target.Created, true
		x.leader = x.s.byHost[a.Target.Endpoint]
		x.s.archived++
	}
	if own.Mode == Voter {
		own.Established = true
	}
	x.own = own
	x.step(Event{Kind: EvMoved, Own: own})
	if own.Mode == Pending || own.Mode == Learner { // every open stream is answered with a redirect
		for _, ask := range sortedAsks(x.rows) {
			delete(x.rows, ask)
			ask.redirect(x)
		}
	}
}

func sortedAsks(rows map[*simAsk]bool) []*simAsk {
	var out []*simAsk
	for ask := range rows {
		out = append(out, ask)
	}
	slices.SortFunc(out, func(a, b *simAsk) int { return a.by.n - b.by.n })
	return out
}

func (a *simAsk) redirect(at *simNode) {
	if !a.open {
		return
	}
	a.open = false
	to := ""
	switch {
	case at.own.Mode == Pending:
		to = at.own.Target.Endpoint
	case at.leader != nil:
		to = at.leader.endpoint()
	}
	at.s.after(at.s.between(time.Millisecond, 100*time.Millisecond), func() {
		a.by.step(Event{Kind: EvRedirect, Ask: a.serial, Endpoint: to})
	})
}

func (a *simAsk) arrive() {
	s := a.by.s
	if !a.open {
		return
	}
	switch {
	case a.at == nil || !a.at.up || a.at.silent:
		a.open = false
		a.by.step(Event{Kind: EvAskEnded, Ask: a.serial, Err: "down"})
	case a.at.own.Mode == Pending || a.at.own.Mode == Learner:
		a.redirect(a.at)
	case a.at.rejects[a.by.n]:
		a.answer(wire.OutcomeRejected)
	default:
		a.at.rows[a] = true
		a.answer(wire.OutcomePending)
		a.repeat()
		if s.approve > 0 {
			s.after(s.approve, a.approved)
		}
	}
}

func (a *simAsk) repeat() {
	a.by.s.after(time.Minute, func() {
		if a.open && a.at.rows[a] {
			a.answer(wire.OutcomePending)
			a.repeat()
		}
	})
}

// answer is signed by whom was asked; the asker takes it only from a key that it accepts.
func (a *simAsk) answer(o wire.Outcome) {
	if !slices.Contains(a.target.Keys, a.at.own.Key) {
		a.by.s.t.Errorf("%d asked %d and does not take its signature", a.by.n, a.at.n)
		return
	}
	a.by.step(Event{Kind: EvAnswer, Ask: a.serial, Cluster: a.at.own.Cluster, Outcome: o, From: a.at.own.Key})
}

func (a *simAsk) approved() {
	if !a.open || !a.at.rows[a] {
		return
	}
	delete(a.at.rows, a)
	if a.at.own.Mode == Solitary {
		a.at.step(Event{Kind: EvOwnFleetRecordedMachine})
	}
	a.answer(wire.OutcomeApproved)
}

// root returns the machine at which every ask ends; it fails if there is a ring, or more than one end.
func (s *sim) root() (*simNode, error) {
	var root *simNode
	for _, x := range s.nodes {
		at := x
		for hops := 0; at.own.Mode == Pending; hops++ {
			next := s.byHost[at.own.Target.Endpoint]
			if next == nil {
				return nil, fmt.Errorf("%d asks at %q, where nobody is", at.n, at.own.Target.Endpoint)
			}
			if hops > len(s.nodes) {
				return nil, fmt.Errorf("%d asks in a ring", x.n)
			}
			at = next
		}
		if root == nil {
			root = at
		}
		if at != root {
			return nil, fmt.Errorf("%d ends at %d, %d at %d", s.nodes[0].n, root.n, x.n, at.n)
		}
	}
	return root, nil
}

// settled fails unless all but one are pending and ask exactly that one.
func (s *sim) settled() (*simNode, error) {
	root, err := s.root()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, s.picture())
	}
	for _, x := range s.nodes {
		if x != root && (x.own.Mode != Pending || x.own.Target.Cluster != root.own.Cluster) {
			return nil, fmt.Errorf("%d does not ask %d\n%s", x.n, root.n, s.picture())
		}
	}
	return root, nil
}

func (s *sim) picture() string {
	out := ""
	for _, x := range s.nodes {
		out += fmt.Sprintf("  %d created %d: %v", x.n, x.own.Created, x.own.Mode)
		if x.own.Target != nil {
			out += fmt.Sprintf(", asks %s of %s", x.own.Target.Endpoint, x.own.Target.Cluster[:8])
		}
		out += fmt.Sprintf(" (asked %d times)\n", len(x.asked))
	}
	return out
}

// eldest is the one that no other wins the tie-break against.
func (s *sim) eldest() *simNode {
	best := s.nodes[0]
	for _, x := range s.nodes {
		if TieBreakYields(best.own.Created, idOf(best.n), x.own.Created, idOf(x.n)) {
			best = x
		}
	}
	return best
}
