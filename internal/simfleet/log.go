package simfleet

import (
	"errors"
	"slices"
	"strings"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/wire"
)

// The model of the replicated log is raft by its paper, with the pre-vote and one change of the configuration at a time,
// as hashicorp/raft keeps it: terms, votes and entries are durable before anybody is told of them.

// Times of the log. They are slower than the product's, so that an idle fleet costs little; nothing decided depends on it.
const (
	beatEvery     = time.Second
	electionLeast = 3 * time.Second
	electionMost  = 6 * time.Second
	leaseOfLeader = 3 * time.Second // without a majority for so long a leader stands down
	proposeFor    = 30 * time.Second
	compactAfter  = 48 // entries beyond the last snapshot
	ringEntries   = 24 // applied commands kept for learners
	sendAtOnce    = 32 // entries a message
)

// seat is a member of the log's configuration.
type seat struct {
	id    string
	votes bool
}

type entryKind uint8

const (
	entryCommand entryKind = iota + 1
	entrySeats
	entryNothing // what a new leader writes to commit what came before it
)

type logEntry struct {
	term    uint64
	kind    entryKind
	command []byte
	seats   []seat // never changed once written
}

// logStore is what one voter has on disk.
type logStore struct {
	cluster  string
	term     uint64
	voted    string
	base     uint64 // index of the snapshot
	baseTerm uint64
	baseConf []seat
	snapshot []byte // nil: none
	entries  []logEntry
	mark     uint64 // index of the last entry that was applied, or one before it
	epoch    uint64 // the recovery that built it; 0: none did
}

func (s *logStore) last() uint64 { return s.base + uint64(len(s.entries)) }

func (s *logStore) at(i uint64) *logEntry { return &s.entries[i-s.base-1] }

// termAt is the term of an entry; false where it is compacted away or not there.
func (s *logStore) termAt(i uint64) (uint64, bool) {
	switch {
	case i == s.base:
		return s.baseTerm, true
	case i < s.base || i > s.last():
		return 0, false
	}
	return s.at(i).term, true
}

// conf is the configuration that counts: the last one written, committed or not.
func (s *logStore) conf() (seats []seat, index uint64) {
	for i := s.last(); i > s.base; i-- {
		if e := s.at(i); e.kind == entrySeats {
			return e.seats, i
		}
	}
	return s.baseConf, s.base
}

func seatOf(seats []seat, id string) (votes, ok bool) {
	at := slices.IndexFunc(seats, func(s seat) bool { return s.id == id })
	if at < 0 {
		return false, false
	}
	return seats[at].votes, true
}

// withSeat returns the configuration with one seat changed; nil votes takes it out.
func withSeat(seats []seat, id string, votes *bool) []seat {
	out := slices.DeleteFunc(slices.Clone(seats), func(s seat) bool { return s.id == id })
	if votes != nil {
		out = append(out, seat{id, *votes})
	}
	slices.SortFunc(out, func(a, b seat) int { return strings.Compare(a.id, b.id) })
	return out
}

// newStore is a fleet of one, as its founder writes it.
func newStore(cluster string, created uint64, founder fleet.Member) *logStore {
	return &logStore{cluster: cluster, term: 1, voted: founder.ID, entries: []logEntry{
		{term: 1, kind: entrySeats, seats: []seat{{founder.ID, true}}},
		{term: 1, kind: entryCommand, command: fleet.Found(cluster, created, founder).Encode()},
	}}
}

type logRole uint8

const (
	roleFollower logRole = iota
	roleCandidate
	roleLeader
)

// voter is an open store: this machine's share of its fleet's log, and the state that it applies.
type voter struct {
	p       *proc
	store   *logStore
	state   *fleet.State
	seat    bool   // of a learner that is to be a voter: entries are counted only, and its learner's side applies them
	counted uint64 // a seat's: the revision that a state would have

	role      logRole
	leader    string
	commit    uint64
	applied   uint64
	next      map[string]uint64
	match     map[string]uint64
	answered  map[string]time.Duration // leader: when each seat answered last
	votes     map[string]bool
	pre       bool // the votes are of a pre-vote
	heard     time.Duration
	timer     int // the election timer's generation
	beats     int // the heartbeat's
	began     uint64
	proposals map[uint64]*proposal
	handing   string // leadership is being handed to

	busy   int // writes under way: what comes waits
	queue  []func()
	closed bool

	ring  []ringEntry
	feeds []*feed

	turns       map[string]time.Duration // a leader's: since when it works on each promotion
	parting     []parting
	settled     *fleet.View // the state and the configuration that nothing was to be changed about
	settledConf []seat
	changing    bool          // a change of the voters is under way
	asked       time.Duration // when the others were asked for the roster last
	told        *wire.Roster  // what another voter said of the roster, ahead of the own state
}

type proposal struct {
	term uint64
	done func(fleet.Result, error)
	over bool
}

type ringEntry struct {
	prev, revision uint64
	command        []byte
}

var (
	errNotLeader = wire.NewError(wire.CodeNotLeader, "", "ask the leader")
	errTimeout   = wire.NewError(wire.CodeBusy, "no quorum answered; it may still be done later", "")
	errLost      = errors.New("leadership was lost before it was committed; it may still be done")
)

// openVoter opens the store, or founds a fleet of one.
func (p *proc) openVoter() {
	d := &p.h.disk
	if d.log == nil {
		if p.rec.own.Established {
			p.w.fail(p.h, "an established fleet's store is gone: it would be founded anew")
			return
		}
		d.log = newStore(p.rec.own.Cluster, p.rec.own.Created, p.founder())
	}
	v := newVoter(p, d.log)
	p.voter = v
	v.open()
}

func newVoter(p *proc, store *logStore) *voter {
	return &voter{p: p, store: store, state: fleet.New(), proposals: map[uint64]*proposal{}, turns: map[string]time.Duration{}}
}

func (p *proc) founder() fleet.Member {
	return fleet.Member{ID: p.id(), Key: p.key(), Name: p.h.name, Role: fleet.RoleVoter, Platform: "linux/amd64", Version: "1.0.0", Format: fleet.Format,
		Endpoints: wire.Endpoints{FC: p.h.endpoint(portFC), Raft: p.h.endpoint(portRaft)}, Admitted: p.h.wall().Unix(), AdmittedBy: p.key().String()}
}

// open reads the store, and recalls what was applied before: raft itself would know what is committed only once a leader
// says so, and until then neither its fleet nor the others' keys.
func (v *voter) open() {
	if s := v.store.snapshot; s != nil {
		state, err := fleet.Restore(s)
		if err != nil {
			v.p.w.fail(v.p.h, "a snapshot that was written does not read: %v", err)
			return
		}
		v.counted = state.View().Revision()
		if !v.seat {
			v.state = state
		}
	}
	v.commit, v.applied = v.store.base, v.store.base
	for i := v.store.base + 1; i <= min(v.store.mark, v.store.last()); i++ {
		if e := v.store.at(i); e.kind == entryCommand {
			v.counted++
			if v.seat {
				continue
			}
			if _, err := v.state.Apply(e.command); err != nil {
				v.p.w.fail(v.p.h, "an entry that was applied before does not apply: %v", err)
				return
			}
		}
		v.commit, v.applied = i, i
	}
	v.heard = v.p.w.now
	v.rearm()
	if v.alone() {
		v.run(v.stand) // a fleet of one leads at once
	}
	v.p.every(time.Second, func() {
		if v.live() {
			v.tend()
		}
	})
}

// close ends the voter: nothing more is done to its store.
func (v *voter) close() {
	v.closed = true
	for _, f := range slices.Clone(v.feeds) {
		f.stream.close(v.p, "closed")
	}
	v.feeds = nil
	v.drop(errNotLeader)
}

// open reports whether the voter is the process's own still.
func (v *voter) live() bool { return !v.closed && v.p.alive() }

// run does one thing after the other: while something is being written, the rest waits.
func (v *voter) run(f func()) {
	if v.closed {
		return
	}
	if v.busy > 0 {
		v.queue = append(v.queue, f)
		return
	}
	f()
}

// save makes a change of the store durable and goes on; a disk that takes nothing takes nothing from memory either.
func (v *voter) save(change func(), then func()) { v.saveOr(change, then, func(error) {}) }

// saveOr also says when the disk took nothing.
func (v *voter) saveOr(change func(), then func(), failed func(error)) {
	v.busy++
	end := func() {
		v.busy--
		for len(v.queue) > 0 && v.busy == 0 && v.live() {
			f := v.queue[0]
			v.queue = v.queue[1:]
			f()
		}
	}
	v.p.write("log", func() {
		if !v.closed {
			change()
		}
	}, func(err error) {
		if v.closed {
			return
		}
		if err != nil {
			v.stepDown(v.store.term)
			failed(err)
		} else {
			then()
		}
		if v.live() {
			end()
		}
	})
}

// alone reports whether this machine is the only one that votes.
func (v *voter) alone() bool {
	seats, _ := v.store.conf()
	n := 0
	for _, s := range seats {
		if s.votes {
			n++
		}
	}
	votes, _ := seatOf(seats, v.p.id())
	return n == 1 && votes
}

// quorum reports whether those for whom have is true are a majority of who votes.
func (v *voter) quorum(have func(id string) bool) bool {
	seats, _ := v.store.conf()
	all, some := 0, 0
	for _, s := range seats {
		if !s.votes {
			continue
		}
		all++
		if have(s.id) {
			some++
		}
	}
	return some > all/2
}

func (v *voter) leading() bool { return !v.closed && v.role == roleLeader && v.applied >= v.began }

// propose commits a command through this process, which must lead; done is called once, unless the process ends first.
func (p *proc) propose(c fleet.Command, done func(fleet.Result, error)) {
	v := p.voter
	if v == nil || !v.leading() {
		p.after(0, func() { done(fleet.Result{}, errNotLeader) })
		return
	}
	cmd, err := c.EncodeFor(v.state.View().WriteFormat())
	if err != nil {
		p.after(0, func() { done(fleet.Result{}, err) })
		return
	}
	v.run(func() { v.write(logEntry{kind: entryCommand, command: cmd}, done) })
}

// write appends an entry as the leader.
func (v *voter) write(e logEntry, done func(fleet.Result, error)) {
	if v.role != roleLeader {
		if done != nil {
			done(fleet.Result{}, errNotLeader)
		}
		return
	}
	e.term = v.store.term
	x := &proposal{term: e.term, done: done}
	if done == nil {
		x.done = func(fleet.Result, error) {}
	}
	v.saveOr(func() { v.store.entries = append(v.store.entries, e) }, func() {
		v.proposals[v.store.last()] = x
		v.p.after(proposeFor, func() { x.end(fleet.Result{}, errTimeout) })
		v.advance()
		v.replicate()
	}, func(err error) { x.end(fleet.Result{}, err) })
}

func (x *proposal) end(r fleet.Result, err error) {
	if !x.over {
		x.over = true
		x.done(r, err)
	}
}

// drop ends every proposal that waits.
func (v *voter) drop(err error) {
	indexes := make([]uint64, 0, len(v.proposals))
	for i := range v.proposals {
		indexes = append(indexes, i)
	}
	slices.Sort(indexes)
	for _, i := range indexes {
		x := v.proposals[i]
		delete(v.proposals, i)
		v.p.after(0, func() { x.end(fleet.Result{}, err) })
	}
}

// advance commits what a majority holds, and applies it.
func (v *voter) advance() {
	if v.role == roleLeader {
		for n := v.store.last(); n > v.commit; n-- {
			if t, ok := v.store.termAt(n); !ok || t != v.store.term {
				break
			}
			if v.quorum(func(id string) bool { return id == v.p.id() || v.match[id] >= n }) {
				v.commit = n
				break
			}
		}
	}
	v.apply()
}

// apply carries out what is committed.
func (v *voter) apply() {
	for v.applied < v.commit && v.live() {
		v.applied++
		v.store.mark = v.applied
		e := v.store.at(v.applied)
		var res fleet.Result
		if e.kind == entryCommand && v.seat {
			v.counted++
		} else if e.kind == entryCommand {
			var ok bool
			if res, ok = v.carryOut(e.command); !ok {
				return
			}
		}
		if x := v.proposals[v.applied]; x != nil {
			delete(v.proposals, v.applied)
			err := error(nil)
			switch {
			case x.term != e.term:
				err = errLost
			case res.Err != "":
				err = wire.NewError(wire.CodeRefusedByRule, res.Err, res.Hint)
			}
			x.end(res, err)
		}
		if e.kind == entrySeats && v.live() {
			v.seated(e.seats)
		}
		if v.live() && v.role == roleLeader && v.applied == v.began {
			v.p.leadership()
		}
	}
	if v.live() && !v.seat && v.applied-v.store.base >= compactAfter {
		v.run(v.compact)
	}
}

// carryOut applies one command; false means that the machine is no longer there to go on.
func (v *voter) carryOut(cmd []byte) (fleet.Result, bool) {
	prev := v.state.View()
	res, err := v.state.Apply(cmd)
	if err != nil {
		v.p.w.fail(v.p.h, "a committed command does not apply: %v", err)
		return res, false
	}
	if v.p.point("committed") {
		return res, false
	}
	v.ring = append(v.ring, ringEntry{prev.Revision(), res.Revision, cmd})
	if over := len(v.ring) - ringEntries; over > 0 {
		v.ring = v.ring[over:]
	}
	v.p.w.look(v.p.h)
	v.feed()
	v.p.viewChanged()
	if v.live() {
		v.ownRole()
	}
	return res, v.live()
}

// compact replaces the entries that are applied by a snapshot.
func (v *voter) compact() {
	base := v.applied
	if base-v.store.base < compactAfter {
		return // it was queued twice
	}
	term, _ := v.store.termAt(base)
	conf := v.store.baseConf
	for i := base; i > v.store.base; i-- {
		if e := v.store.at(i); e.kind == entrySeats {
			conf = e.seats
			break
		}
	}
	snapshot := v.state.Snapshot()
	v.save(func() {
		s := v.store
		s.entries = slices.Clone(s.entries[base-s.base:])
		s.base, s.baseTerm, s.baseConf, s.snapshot = base, term, conf, snapshot
	}, func() {})
}

// seated: a configuration is committed.
func (v *voter) seated(seats []seat) {
	if _, ok := seatOf(seats, v.p.id()); !ok && v.role == roleLeader {
		v.stepDown(v.store.term)
	}
}
