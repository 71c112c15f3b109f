package follow

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// LearnerConfig says which fleet is followed, and whom to tell. The callbacks run on Run's goroutine, and must not wait.
type LearnerConfig struct {
	Dir     string // <state>/follow, made where it is missing
	Cluster string
	Self    string             // this machine's id
	Key     identity.PublicKey // this machine's key; a roster that holds another under Self has replaced this machine
	Seed    []byte             // the roster's JSON at the approval: whom to follow first; needed until a state is on disk
	// OnApply is told every applied command in order, once it is durable. A snapshot is an entry without a command.
	OnApply func(Entry)
	// OnForgotten is told the revision that removed this machine, and whether its key was revoked by it: a machine that left
	// of its own will keeps its key's good name. Run then ends with ErrForgotten.
	OnForgotten func(revision uint64, revoked bool)
	// OnFormatNewer is told once that the fleet writes a later format. What is applied is kept, and heartbeats are still
	// heard, so that an upgrade reaches this machine.
	OnFormatNewer func(error)
	// OnRefused is told a voter's error frame, whatever it is.
	OnRefused func(voter string, e *wire.Error)
	// OnLeader is told that a heartbeat named a leader other than the one before it; Status says which.
	OnLeader func()
	// OnOtherEpoch is told that a voter is in another recovery epoch than this machine.
	OnOtherEpoch func(voter string, epoch uint64)
	Logger       *slog.Logger
	NoSync       bool           // no fsync: tests only
	Point        func(string)   // called at each of Points; may be nil
	Rand         func() float64 // of [0, 1), for the jitter; nil: math/rand
}

// Stream is one Follow on a session with a voter. Send asks, once, and ends when the context of the dial does. Recv
// returns the payload of the next push, which is the caller's from then on. Both may return a *wire.Error. Close is called
// once, maybe while a Recv waits, and ends it. A stream may also have the method PeerKey() identity.PublicKey; then it
// must be the voter's.
type Stream interface {
	Send(wire.FollowRequest) error
	Recv() ([]byte, error)
	Close() error
}

// Status is where a learner stands.
type Status struct {
	Following      string // id of the voter, empty while between two
	Since          time.Time
	LeaderID       string
	LeaderEndpoint string // 0xFC
	Term           uint64 // of the last heartbeat
	Heard          time.Time
	VoterRevision  uint64
	LeaderSilent   time.Duration // what the voter last said
	Frozen         bool          // the fleet writes a later format
	Failures       int           // in a row
	LastError      string        // why the last voter was left; escaped
}

// LearnerStats is what a learner counts.
type LearnerStats struct {
	Lag                          uint64 // revisions behind the voter that is followed
	Switches, Snapshots, Entries uint64
}

// Learner is a learner's side: one goroutine in Run owns the state, everything else reads views.
type Learner struct {
	cfg     LearnerConfig
	seeds   []fleet.Member
	seed    wire.Roster
	store   *store
	state   *fleet.State // Run's
	view    atomic.Pointer[fleet.View]
	updates chan struct{}

	mu     sync.Mutex
	status Status
	clock  clock
	term   term // of the store
	hints  map[string]hint
	closed bool
	cancel context.CancelFunc // of Run
	run    sync.WaitGroup

	switches, snapshots, entries atomic.Uint64
}

// clock is what a heartbeat said of the voter's clock, and when it came.
type clock struct {
	wall time.Time
	at   time.Time // with its monotonic reading
	ok   bool
}

// hint is what was heard of another voter's revision.
type hint struct {
	epoch, revision uint64
	at              time.Time
}

// OpenLearner reads the state on disk. One that does not read, or is another fleet's, is refused by name and left as it
// is; the torn end that a crash leaves is cut.
func OpenLearner(cfg LearnerConfig) (*Learner, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Point == nil {
		cfg.Point = func(string) {}
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Float64
	}
	l := &Learner{cfg: cfg, updates: make(chan struct{}, 1), hints: map[string]hint{}}
	if err := l.open(); err != nil {
		return nil, err
	}
	if err := l.readSeed(); err != nil {
		l.store.close()
		return nil, err
	}
	return l, nil
}

// open reads the folder anew.
func (l *Learner) open() error {
	s, state, err := openStore(l.cfg.Dir, l.cfg.NoSync, l.cfg.Point)
	if err != nil {
		return err
	}
	if have := state.View().Cluster(); have != "" && have != l.cfg.Cluster {
		s.close()
		return fmt.Errorf("%w: %s is of fleet %q, and this machine is in fleet %q; move %s away", ErrOtherCluster, l.cfg.Dir, have, l.cfg.Cluster, l.cfg.Dir)
	}
	l.store, l.state = s, state
	l.mu.Lock()
	l.term = s.term
	l.mu.Unlock()
	l.view.Store(state.View())
	return nil
}

func (l *Learner) readSeed() error {
	if len(l.cfg.Seed) == 0 {
		if l.state.View().Cluster() == "" {
			return fmt.Errorf("%w: none was given, and %s holds no state", ErrSeed, l.cfg.Dir)
		}
		return nil
	}
	if err := json.Unmarshal(l.cfg.Seed, &l.seed); err != nil {
		return fmt.Errorf("%w: %v", ErrSeed, err)
	}
	if l.seed.Cluster != l.cfg.Cluster {
		return fmt.Errorf("%w: it is of fleet %q, and this machine is in fleet %q", ErrSeed, l.seed.Cluster, l.cfg.Cluster)
	}
	for _, v := range l.seed.Voters {
		key, err := identity.ParsePublicKey(v.Key)
		if err != nil {
			return fmt.Errorf("%w: voter %q: %w", ErrSeed, v.ID, err)
		}
		l.seeds = append(l.seeds, fleet.Member{ID: v.ID, Key: key, Role: fleet.RoleVoter, Endpoints: v.Endpoints})
	}
	if len(l.seeds) == 0 {
		return ErrSeed
	}
	// Every state that came under this approval is of its recovery epoch, or of a later one. Within the epoch it may be older:
	// a voter that lost its seat is told so by a roster that is ahead of what it applied, and catches up as a learner.
	if v := l.state.View(); v.Cluster() != "" && v.Epoch() < l.seed.Epoch {
		return fmt.Errorf("%w: %s", ErrStale, l.cfg.Dir)
	}
	return nil
}

// View returns the applied state; its cluster is empty until the first snapshot came.
func (l *Learner) View() *fleet.View { return l.view.Load() }

// Updates holds one value whenever View changed since it was last read.
func (l *Learner) Updates() <-chan struct{} { return l.updates }

// Voters returns whom this machine may follow: the voters of the applied state, or before there is one those that the
// approval named.
func (l *Learner) Voters() []fleet.Member {
	if v := l.View(); v.Cluster() != "" {
		return v.Voters()
	}
	return l.seeds
}

// Status returns where the learner stands.
func (l *Learner) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Stats returns what was counted.
func (l *Learner) Stats() LearnerStats {
	st := LearnerStats{Switches: l.switches.Load(), Snapshots: l.snapshots.Load(), Entries: l.entries.Load()}
	if there, here := l.Status().VoterRevision, l.View().Revision(); there > here {
		st.Lag = there - here
	}
	return st
}

// Silence returns for how long no voter was heard; before the first is heard in this process it is as long as can be.
func (l *Learner) Silence(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.status.Heard.IsZero() {
		return math.MaxInt64
	}
	return max(0, now.Sub(l.status.Heard))
}

// LeaderNow returns the fleet's clock as the last heartbeat gave it, carried on by elapsed time; ok is false before one.
func (l *Learner) LeaderNow(now time.Time) (t time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clock.wall.Add(now.Sub(l.clock.at)), l.clock.ok
}

// ClockOffset returns how far the fleet's clock is ahead of this machine's; ok is false before a heartbeat.
func (l *Learner) ClockOffset(now time.Time) (d time.Duration, ok bool) {
	t, ok := l.LeaderNow(now)
	return t.Round(0).Sub(now.Round(0)), ok
}

// HighestTerm returns the highest term that a followed heartbeat confirmed in this cluster and recovery epoch; it outlives
// a restart.
func (l *Learner) HighestTerm() uint64 {
	epoch := l.epoch()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term.epoch != epoch {
		return 0
	}
	return l.term.term
}

// Hint tells what was heard of another voter's position. When that stays ahead of the voter that is followed for a
// heartbeat's time, the learner moves on.
func (l *Learner) Hint(voter string, epoch, revision uint64) {
	if m, ok := l.View().Member(voter); !ok || m.Role != fleet.RoleVoter {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.hints[voter]; ok && fleet.ComparePosition(epoch, revision, old.epoch, old.revision) <= 0 {
		return
	}
	l.hints[voter] = hint{epoch, revision, time.Now()}
}

// overtaken reports whether another voter has been ahead of what this one says for a heartbeat's time.
func (l *Learner) overtaken(voter string, epoch, revision uint64, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ahead := false
	for id, h := range l.hints {
		switch {
		case h.epoch == epoch && h.revision <= revision:
			delete(l.hints, id)
		case id != voter && h.epoch == epoch && now.Sub(h.at) >= HeartbeatEvery:
			ahead = true
		}
	}
	return ahead
}

// Epoch returns the recovery epoch that is followed.
func (l *Learner) Epoch() uint64 { return l.epoch() }

func (l *Learner) epoch() uint64 {
	if v := l.View(); v.Cluster() != "" {
		return v.Epoch()
	}
	return l.seed.Epoch
}

func (l *Learner) setStatus(edit func(*Status)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	edit(&l.status)
}

func (l *Learner) publish(e Entry) {
	l.view.Store(e.View)
	select {
	case l.updates <- struct{}{}:
	default:
	}
	if l.cfg.OnApply != nil {
		l.cfg.OnApply(e)
	}
}

// Close ends Run, waits for it, and closes the folder, so that it can be renamed.
func (l *Learner) Close() error {
	l.mu.Lock()
	was := l.closed
	l.closed = true
	if l.cancel != nil {
		l.cancel()
	}
	l.mu.Unlock()
	l.run.Wait()
	if was {
		return nil
	}
	return l.store.close()
}

// begin registers a Run.
func (l *Learner) begin(ctx context.Context) (context.Context, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, ErrClosed
	case l.cancel != nil:
		return nil, ErrRunning
	}
	ctx, l.cancel = context.WithCancel(ctx)
	l.run.Add(1)
	return ctx, nil
}

func (l *Learner) end() {
	l.mu.Lock()
	l.cancel()
	l.cancel = nil
	l.mu.Unlock()
	l.run.Done()
}
