package follow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Entry is one applied command. A learner that took a snapshot instead is told so by an entry without a Command.
type Entry struct {
	Prev, Revision uint64
	Command        []byte
	View           *fleet.View // right after it; may be nil in what Since returns
	Result         fleet.Result
}

// SourceConfig is what a voter's side asks of its node.
type SourceConfig struct {
	Cluster string
	State   func() *fleet.View // as last applied
	// Since returns the entries after a revision, oldest first, or false when they are no longer kept. May be nil.
	Since func(epoch, revision uint64) ([]Entry, bool)
	// SnapshotFor returns the state as a learner keeps it. Nil: State's own.
	SnapshotFor func(learner string) (revision uint64, snapshot []byte)
	Term        func() uint64
	Leader      func() (id, endpoint string) // empty during an election
	Silent      func() time.Duration         // for how long no leader was heard
	Now         func() time.Time             // wall clock; nil: time.Now
}

// Source serves the followers of one voter. All methods may be called from any goroutine.
type Source struct {
	cfg SourceConfig

	mu     sync.Mutex
	ring   []*pushed // consecutive
	bytes  int
	wake   chan struct{}        // closed and replaced whenever there is something new for everybody
	later  *time.Timer          // wakes everybody for what only others were told of; nil: nothing waits
	nudges map[string]*Follower // by learner, the newest first
	beats  uint64               // heartbeats that were asked for out of turn
	closed bool

	snapMu   sync.Mutex // one snapshot is built at a time
	snapRev  uint64
	snapshot []byte // for every learner that has no provisioning record

	served   sync.WaitGroup
	counters sourceCounters
}

type sourceCounters struct {
	mu                  sync.Mutex
	followers           int
	snapshots, commands uint64
}

// SourceStats is what a Source counts.
type SourceStats struct {
	Followers           int
	Snapshots, Commands uint64 // sent
}

// pushed is an entry encoded once for all who follow.
type pushed struct {
	prev, revision, epoch uint64
	digest                [32]byte // of the shared part after it
	digestKnown           bool
	all                   []byte // the push for everybody but the subject
	own                   []byte // the subject's
	subject               string
	forgot                string // who was removed
	revokes               bool
}

// NewSource returns the source of one voter's life as such.
func NewSource(cfg SourceConfig) *Source {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Source{cfg: cfg, wake: make(chan struct{})}
}

// Publish takes an applied entry; it is called in order, by the applier, and does not wait for any follower.
func (s *Source) Publish(e Entry) {
	if e.Command == nil { // a whole state took the place of everything before: there is nothing to go on from
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ring, s.bytes = nil, 0
		s.wakeLocked()
		return
	}
	p := encode(e, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.ring); n > 0 && s.ring[n-1].revision != p.prev {
		s.ring, s.bytes = nil, 0 // raft took a snapshot in between
	}
	s.ring = append(s.ring, p)
	s.bytes += len(p.all) + len(p.own)
	drop := 0
	for len(s.ring)-drop > ringEntries || s.bytes > ringBytes && len(s.ring)-drop > 1 {
		s.bytes -= len(s.ring[drop].all) + len(s.ring[drop].own)
		drop++
	}
	// What is dropped is not cleared: followers may be reading it. It goes when append moves the rest to a new array.
	s.ring = s.ring[drop:]
	if p.subject == "" || p.revokes || p.forgot != "" {
		s.wakeLocked()
		return
	}
	for f := s.nudges[p.subject]; f != nil; f = f.before {
		select {
		case f.nudge <- struct{}{}:
		default:
		}
	}
	if s.later == nil && !s.closed {
		s.later = time.AfterFunc(OthersWait, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.wakeLocked()
		})
	}
}

// Beat makes every follower get a heartbeat now: the leader or its term changed.
func (s *Source) Beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beats++
	s.wakeLocked()
}

func (s *Source) wakeLocked() {
	if s.later != nil {
		s.later.Stop()
		s.later = nil
	}
	if !s.closed {
		close(s.wake)
		s.wake = make(chan struct{})
	}
}

// Close ends every Serve and waits for them.
func (s *Source) Close() {
	s.mu.Lock()
	if !s.closed {
		if s.closed = true; s.later != nil {
			s.later.Stop()
			s.later = nil
		}
		close(s.wake)
	}
	s.mu.Unlock()
	s.served.Wait()
}

// Stats returns what was counted.
func (s *Source) Stats() SourceStats {
	s.counters.mu.Lock()
	defer s.counters.mu.Unlock()
	return SourceStats{Followers: s.counters.followers, Snapshots: s.counters.snapshots, Commands: s.counters.commands}
}

func (s *Source) count(followers int, snapshots, commands uint64) {
	s.counters.mu.Lock()
	defer s.counters.mu.Unlock()
	s.counters.followers += followers
	s.counters.snapshots += snapshots
	s.counters.commands += commands
}

// encode makes the pushes of an entry; epoch is used where the entry has no view.
func encode(e Entry, epoch uint64) *pushed {
	p := &pushed{prev: e.Prev, revision: e.Revision, epoch: epoch, forgot: e.Result.Forgot, revokes: e.Result.Changed.Has(fleet.ChangedRevocations)}
	if e.View != nil {
		p.epoch, p.digest, p.digestKnown = e.View.Epoch(), e.View.Digest(), true
	}
	if e.View == nil {
		// The log keeps bytes only: whom they removed is read off them.
		if c, err := fleet.DecodeCommand(e.Command); err == nil && (c.Kind == fleet.KindForget || c.Kind == fleet.KindLeave) {
			p.forgot = c.ID
		}
	}
	others, subject := fleet.ForOthers(e.Command)
	push := wire.CommandPush{Epoch: p.epoch, Prev: p.prev, Revision: p.revision, Bytes: others}
	p.all = push.Append(nil)
	if subject != "" {
		p.subject = subject
		push.Bytes = e.Command
		p.own = push.Append(nil)
	}
	return p
}

func (p *pushed) bytesFor(learner string) []byte {
	if p.subject != "" && p.subject == learner {
		return p.own
	}
	return p.all
}

// after returns what the ring holds after a revision; ok is false when it does not reach back so far.
func (s *Source) after(revision uint64) (list []*pushed, ok bool, wake <-chan struct{}, beats uint64, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.ring)
	switch {
	case n == 0:
		ok = true
	case revision >= s.ring[n-1].revision:
		ok = true
	case revision >= s.ring[0].prev:
		list, ok = s.ring[revision-s.ring[0].prev:], true
	}
	return list, ok, s.wake, s.beats, s.closed
}

// digestAt returns the digest of the shared part at a revision, where it is known.
func (s *Source) digestAt(v *fleet.View, revision uint64) (d [32]byte, known bool) {
	if revision == v.Revision() {
		return v.Digest(), true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ring) == 0 || revision < s.ring[0].revision || revision > s.ring[len(s.ring)-1].revision {
		return d, false
	}
	p := s.ring[revision-s.ring[0].revision]
	return p.digest, p.digestKnown
}

// Serve answers one Follow: Begin and Follower.Run in one.
func (s *Source) Serve(ctx context.Context, learner string, req wire.FollowRequest, push func(...[]byte) error) error {
	f, err := s.Begin(learner, req)
	if err != nil {
		return err
	}
	return f.Run(ctx, push)
}

// Begin judges one Follow; its error is a *wire.Error, or ErrClosed. Run must be called on what it returns. The two are
// apart because Run lasts for as long as the machine follows: it is called with as little as can be on the stack, which a
// voter pays for once a learner.
func (s *Source) Begin(learner string, req wire.FollowRequest) (*Follower, error) {
	if !s.enter() {
		return nil, ErrClosed
	}
	v := s.cfg.State()
	if e := s.judge(v, learner, req); e != nil {
		s.served.Done()
		return nil, e
	}
	f := &Follower{s: s, learner: learner, epoch: req.Epoch, at: req.Revision, nudge: make(chan struct{}, 1)}
	if m, ok := v.Member(learner); ok {
		f.key = m.Key
	}
	f.whole, f.seen = req.Revision == 0 || s.differs(v, req), v.Revision()
	return f, nil
}

// Run pushes heartbeats, and snapshots or commands from where the learner is, until ctx ends, push fails, or the learner is
// removed (then everything up to and including that entry was sent, and the error is nil). A *wire.Error after the first
// push says that the fleet was recovered meanwhile. push is called by this goroutine only, and must end when ctx does.
func (f *Follower) Run(ctx context.Context, push func(...[]byte) error) error {
	defer f.s.served.Done()
	f.push = push
	f.s.count(1, 0, 0)
	f.s.listen(f, true)
	err := f.serve(ctx)
	f.s.listen(f, false)
	f.s.count(-1, 0, 0)
	return err
}

// listen has a follower told of what is about its own machine, or no longer.
func (s *Source) listen(f *Follower, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		if s.nudges == nil {
			s.nudges = map[string]*Follower{}
		}
		f.before, s.nudges[f.learner] = s.nudges[f.learner], f
		return
	}
	if first := s.nudges[f.learner]; first == f && f.before == nil {
		delete(s.nudges, f.learner)
	} else if first == f {
		s.nudges[f.learner] = f.before
	} else {
		for ; first != nil; first = first.before {
			if first.before == f {
				first.before = f.before
			}
		}
	}
}

func (s *Source) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.served.Add(1)
	return true
}

// judge refuses what can't be served.
func (s *Source) judge(v *fleet.View, learner string, req wire.FollowRequest) *wire.Error {
	switch {
	case req.Epoch < v.Epoch():
		return recovered(v.Epoch())
	case fleet.ComparePosition(req.Epoch, req.Revision, v.Epoch(), v.Revision()) > 0:
		return wire.NewError(wire.CodeBehind, "", "")
	}
	if _, ok := v.Member(learner); ok {
		return nil
	}
	// It was removed just now: the way it learns that is the log, where the log still reaches it.
	list, ok, _, _, _ := s.after(req.Revision)
	for _, p := range list {
		if ok && p.forgot == learner && req.Revision > 0 {
			return nil
		}
	}
	return wire.NewError(wire.CodeNotMember, "", "ask to join: the machine's own `pacectl node` shows its key")
}

func recovered(epoch uint64) *wire.Error {
	return wire.NewError(wire.CodeRefusedByRule, "this fleet was recovered; it is in recovery epoch "+strconv.FormatUint(epoch, 10),
		"where that was meant: pacectl fleet accept <key>")
}

func (s *Source) differs(v *fleet.View, req wire.FollowRequest) bool {
	d, known := s.digestAt(v, req.Revision)
	return known && req.Digest != "" && req.Digest != hex.EncodeToString(d[:])
}

// Follower is one Follow that was let in.
type Follower struct {
	s       *Source
	learner string
	key     identity.PublicKey
	epoch   uint64
	at      uint64 // the learner's revision
	seen    uint64 // the voter's revision a heartbeat ago
	whole   bool   // the learner needs a snapshot
	beats   uint64
	before  *Follower     // of the same learner; the source's
	nudge   chan struct{} // there is something about its own machine
	push    func(...[]byte) error
}

func (f *Follower) serve(ctx context.Context) error {
	_, _, _, f.beats, _ = f.s.after(f.at)
	if err := f.heartbeat(); err != nil {
		return err
	}
	tick := time.NewTicker(HeartbeatEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		list, ok, wake, beats, closed := f.s.after(f.at)
		if closed {
			return ErrClosed
		}
		// What was there a heartbeat ago and is still not in the ring came in no entry: raft restored a snapshot of its
		// own, or the voter started from one.
		if !ok || len(list) == 0 && f.at < f.seen {
			list, ok = f.bridge()
		}
		if f.whole || !ok {
			if err := f.snapshot(); err != nil {
				return err
			}
			continue
		}
		if len(list) > 0 {
			if done, err := f.commands(list); done || err != nil {
				return err
			}
			continue
		}
		if beats != f.beats {
			f.beats = beats
			if err := f.heartbeat(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		case <-f.nudge:
		case <-tick.C:
			f.seen = f.s.cfg.State().Revision()
			if err := f.heartbeat(); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// bridge asks the log for what the ring does not hold.
func (f *Follower) bridge() ([]*pushed, bool) {
	if f.s.cfg.Since == nil {
		return nil, false
	}
	entries, ok := f.s.cfg.Since(f.epoch, f.at)
	if !ok {
		return nil, false
	}
	list := make([]*pushed, len(entries))
	for i, e := range entries {
		list[i] = encode(e, f.epoch)
	}
	return list, true
}

// commands pushes entries, as many in one write as it holds; done says that the learner's last was among them.
func (f *Follower) commands(list []*pushed) (done bool, err error) {
	var batch [][]byte
	size, at := 0, f.at
	for _, p := range list {
		if p.epoch != f.epoch {
			done, err = true, recovered(p.epoch)
			break
		}
		if p.prev != at {
			f.whole = true
			break
		}
		b := p.bytesFor(f.learner)
		if len(batch) == pushEntries || size > 0 && size+len(b) > pushBytes {
			break // the rest is in the next
		}
		batch, size, at = append(batch, b), size+len(b), p.revision
		if p.forgot != "" && p.forgot == f.learner {
			done = true
			break
		}
		if p.revokes {
			// Another key under the same id: whoever follows here was replaced.
			if m, ok := f.s.cfg.State().Member(f.learner); ok && m.Key != f.key {
				done = true
				break
			}
		}
	}
	if len(batch) > 0 {
		if err := f.push(batch...); err != nil {
			return true, err
		}
		f.at = at
		f.s.count(0, 0, uint64(len(batch)))
	}
	return done, err
}

func (f *Follower) heartbeat() error {
	v := f.s.cfg.State()
	if v.Epoch() != f.epoch {
		return recovered(v.Epoch())
	}
	id, endpoint := f.s.cfg.Leader()
	h := wire.Heartbeat{Epoch: f.epoch, Cluster: f.s.cfg.Cluster, Term: f.s.cfg.Term(), LeaderID: id, LeaderEndpoint: endpoint,
		Revision: v.Revision(), WallMS: uint64(max(0, f.s.cfg.Now().UnixMilli())), SilentMS: uint64(max(0, f.s.cfg.Silent().Milliseconds()))}
	return f.push(h.Append(nil))
}

// snapshot pushes the whole state in numbered chunks, and goes on from its revision.
func (f *Follower) snapshot() error {
	v := f.s.cfg.State()
	if v.Epoch() != f.epoch {
		return recovered(v.Epoch())
	}
	m, ok := v.Member(f.learner)
	if !ok {
		return wire.NewError(wire.CodeNotMember, "", "")
	}
	revision, b := f.s.snapshotFor(v, &m)
	if len(b) > wire.MaxSnapshot { // the learner would take it in part, and then refuse it, again and again
		return wire.NewError(wire.CodeTooLarge, fmt.Sprintf("the fleet's state takes %d bytes as a learner keeps it, and %d are the most that one takes", len(b), wire.MaxSnapshot),
			"forget members that are gone (pacectl member list shows when each was heard), and shorten names and labels")
	}
	digest := sha256.Sum256(b)
	count := max(1, (len(b)+wire.SnapshotChunkSize-1)/wire.SnapshotChunkSize)
	for i := range count {
		part := b[i*wire.SnapshotChunkSize : min(len(b), (i+1)*wire.SnapshotChunkSize)]
		c := wire.SnapshotChunk{Epoch: f.epoch, Revision: revision, Index: uint32(i), Count: uint32(count), Digest: digest, Bytes: part}
		if err := f.push(c.Append(nil)); err != nil {
			return err
		}
	}
	f.at, f.whole = revision, false
	f.s.count(0, 1, 0)
	return nil
}

// snapshotFor builds the state for one learner, or takes the one that was built for all who have no record with the
// queue: a thousand machines that join in one hour have none.
func (s *Source) snapshotFor(v *fleet.View, m *fleet.Member) (uint64, []byte) {
	build := func(learner string) (uint64, []byte) {
		if s.cfg.SnapshotFor != nil {
			return s.cfg.SnapshotFor(learner)
		}
		now := s.cfg.State()
		return now.Revision(), now.SnapshotFor(learner)
	}
	s.snapMu.Lock()
	defer s.snapMu.Unlock()
	if m.Provision.IsZero() {
		if s.snapshot == nil || s.snapRev < v.Revision() {
			s.snapRev, s.snapshot = build("")
		}
		// The state is by now at least as new as what was built: a record of before then would show.
		if now, ok := s.cfg.State().Member(m.ID); ok && now.Provision.IsZero() {
			return s.snapRev, s.snapshot
		}
	}
	return build(m.ID)
}
