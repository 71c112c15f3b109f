// Package consensus keeps the fleet's replicated state on its voters: it is the only importer of hashicorp/raft, and holds
// the log's store, its snapshots, leadership and the applier of fleet commands. It never looks at discovery or at the
// provisioning queue, and decides nothing about the fleet: what a command means is package fleet's alone.
package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"pace-node/internal/fleet"
)

var (
	// ErrNotLeader says that this voter does not lead: ask the leader.
	ErrNotLeader = errors.New("this machine does not lead its fleet")
	// ErrLost says that leadership was lost before it was known whether a quorum took the command; it may be done, or done later.
	ErrLost = errors.New("leadership was lost before it was known whether that is done")
	// ErrTimeout says that no quorum answered in time; the command may still be committed later.
	ErrTimeout = errors.New("no quorum of voters answered in time")
	// ErrClosed says that the store was closed under the caller.
	ErrClosed = errors.New("the consensus store is closed")
	// ErrOtherCluster says that the store on disk belongs to another fleet.
	ErrOtherCluster = errors.New("the consensus store belongs to another fleet")
	// ErrDamaged says that the store on disk does not read.
	ErrDamaged = errors.New("the consensus store does not read")
	// ErrFormatNewer says that the log holds a command of a later format; raft was stopped before it was applied.
	ErrFormatNewer = errors.New("the fleet's log holds a command of a later format")
)

const (
	// ringSize is how many recent commands are kept for learners that are a little behind; one further back gets a snapshot.
	ringSize = 1024
	// snapshotThreshold and trailingLogs bound the log: a fleet's state is small, so snapshots are cheap.
	snapshotThreshold = 2048
	trailingLogs      = 1024
	snapshotsKept     = 2
	// transportTimeout bounds one raft call to another voter.
	transportTimeout = 10 * time.Second
	// foundTimeout bounds a fleet of one's own election and first entry at start; on an idle machine it takes milliseconds.
	foundTimeout = 30 * time.Second

	// drainTime is what commands that are underway get before raft is shut down; they take milliseconds.
	drainTime = 500 * time.Millisecond

	storeFile   = "raft.db"
	clusterFile = "cluster"
)

// Times of elections. A voter whose leader was killed stands for election after one to two heartbeat timeouts, so that
// writes are accepted again well within 3 s, a second attempt included; they stay far above what a busy disk or a poor
// wireless link delays a heartbeat by, which raft sends ten times within one.
const (
	heartbeatTimeout = 800 * time.Millisecond
	electionTimeout  = 800 * time.Millisecond
	leaseTimeout     = 400 * time.Millisecond
)

// Layer carries raft streams between voters by node id; package netio has the one that the product uses. Dial takes a
// node id, and is bounded by ctx.
type Layer interface {
	Dial(ctx context.Context, id string) (net.Conn, error)
	Accept() (net.Conn, error)
	Close() error
	Addr() net.Addr
}

// Bootstrap is what an empty store is founded with.
type Bootstrap struct {
	Created uint64 // Unix seconds
	Member  fleet.Member
}

// Entry is one applied command. View is the state right after it, and is nil in entries taken from the ring.
type Entry struct {
	Prev, Revision uint64
	Command        []byte
	View           *fleet.View
	Result         fleet.Result
}

// Config says which store is opened, and for whom.
type Config struct {
	Dir             string // the store's folder, made where it is missing
	NodeID, Cluster string
	Layer           Layer // closed by Close
	Logger          *slog.Logger
	Bootstrap       *Bootstrap // nil: the store was founded before, and one that is missing is refused
	// Epoch, where not 0, is the recovery epoch that a store which was built by a recovery is to be in: if it is not yet, its
	// first entry begins it, by the key whose text is RecoveredBy, before Open returns.
	Epoch       uint64
	RecoveredBy string
	// Seat opens the store of a member that is being promoted: one that is missing is made empty, raft fills it, and what it
	// commits is only counted, since following the fleet is what applies it until the seat is adopted. The view stays empty.
	Seat bool
	// OnApply is called on the applier's goroutine for every applied command, in order, before Apply returns; it must not
	// block. A start replays what no snapshot holds, and that is told too.
	OnApply func(Entry)
	// NoSync leaves out every fsync. Tests only.
	NoSync bool
	// Point is called at each of Points; may be nil.
	Point   func(name string)
	fault   func(what string) error // tests only: how a write of "log", "term" or "vote" fails
	sealing func(step string)       // tests only: told of each step of writing a snapshot's checksum
}

// Consensus is one voter's share of the fleet's log.
type Consensus struct {
	cfg     Config
	raft    *raft.Raft
	trans   *transport
	store   *raftboltdb.BoltStore
	durable *pointed // store, as raft writes it
	fsm     *machine
	lead    chan bool
	started chan struct{} // closed once raft is set
	done    chan struct{}
	wait    sync.WaitGroup
	closed  sync.Once
	err     error
	heard   atomic.Int64 // commits
	opened  time.Time

	mu      sync.Mutex // closing, and adding to asked
	closing bool
	asked   sync.WaitGroup // commands and barriers that raft has not answered
}

// Open opens or founds the store in cfg.Dir and starts raft. A fleet of one leads, and holds its founding entry, when
// Open returns. A store that does not read, or that is another fleet's, is refused by name and left as it is.
func Open(ctx context.Context, cfg Config) (*Consensus, error) {
	if cfg.Point == nil {
		cfg.Point = func(string) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	path := filepath.Join(cfg.Dir, storeFile)
	if _, err := os.Lstat(path); cfg.Bootstrap == nil && !cfg.Seat && errors.Is(err, os.ErrNotExist) {
		return nil, damaged(path, errors.New("it is missing, and the fleet is kept in it"))
	}
	if err := claimFolder(cfg); err != nil {
		return nil, err
	}
	if err := makeStore(cfg, path); err != nil {
		return nil, err
	}
	first, last, err := checkStore(path)
	if err != nil {
		return nil, err
	}
	culprit, err := checkWhole(cfg, path, first, last)
	if err != nil {
		return nil, err
	}
	logger := hclogOver(cfg.Logger)
	store, err := openBolt(cfg, path)
	if err != nil {
		return nil, damaged(path, err)
	}
	files, err := raft.NewFileSnapshotStoreWithLogger(cfg.Dir, snapshotsKept, logger)
	if err != nil {
		store.Close()
		return nil, fmt.Errorf("open the snapshots in %s: %w", cfg.Dir, err)
	}
	c := &Consensus{cfg: cfg, store: store, lead: make(chan bool, 1), done: make(chan struct{}), started: make(chan struct{}), opened: time.Now()}
	c.fsm = newMachine(c)
	snaps := &watched{SnapshotStore: files, fsm: c.fsm, dir: filepath.Join(cfg.Dir, snapshotsDir), step: cfg.sealing}
	c.trans = newTransport(cfg.Layer, cfg.NodeID, logger)

	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(cfg.NodeID)
	conf.Logger = logger
	conf.SnapshotThreshold = snapshotThreshold
	conf.TrailingLogs = trailingLogs
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = heartbeatTimeout, electionTimeout, leaseTimeout
	conf.ShutdownOnRemove = false // whoever is removed learns it from the fleet's state, and closes the store itself
	notify := make(chan bool, 8)
	conf.NotifyCh = notify

	fail := func(err error) (*Consensus, error) {
		c.trans.Close()
		c.fsm.mark.close()
		store.Close()
		return nil, err
	}
	existing, err := raft.HasExistingState(store, store, snaps)
	if err == nil && !existing && !cfg.Seat {
		err = errors.New("it holds no fleet")
	}
	if err != nil {
		return fail(damaged(path, err))
	}
	if err := c.fsm.recall(cfg.Dir, summing{store}, snaps); err != nil {
		return fail(err)
	}
	c.durable = newPointed(store, cfg)
	if c.raft, err = raft.NewRaft(conf, c.fsm, c.durable, c.durable, snaps, c.trans); err != nil {
		return fail(damaged(culprit, err))
	}
	close(c.started)
	leaders := make(chan raft.Observation, 8)
	c.raft.RegisterObserver(raft.NewObserver(leaders, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	}))
	c.wait.Add(1)
	go c.follow(notify, leaders)
	if cfg.Seat {
		return c, nil
	}
	if err := c.settle(ctx); err != nil {
		if full := c.WriteErr(); full != nil {
			err = fmt.Errorf("the fleet's log in %s cannot be written: %w", cfg.Dir, full)
		}
		c.Close()
		return nil, err
	}
	return c, nil
}

// settle makes a fleet of one lead at once and hold its founding entry.
func (c *Consensus) settle(ctx context.Context) error {
	conf := c.raft.GetConfiguration()
	if err := conf.Error(); err != nil {
		return err
	}
	for _, s := range conf.Configuration().Servers {
		if (s.Suffrage == raft.Voter) != (s.ID == raft.ServerID(c.cfg.NodeID)) {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, foundTimeout)
	defer cancel()
	// Nobody else can vote, so there is nothing to wait for: an election timeout would only delay the start by seconds.
	if err := c.trans.timeoutNowToSelf(ctx); err != nil {
		if failed := c.Err(); failed != nil {
			return failed
		}
		return fmt.Errorf("lead a fleet of one: %w", err)
	}
	if err := c.Barrier(ctx); err != nil {
		if failed := c.Err(); failed != nil {
			return failed // why it is closed
		}
		return fmt.Errorf("lead a fleet of one: %w", err)
	}
	// The barrier passes a command that was read and not applied: raft ends a moment later.
	if err := c.Err(); err != nil {
		return err
	}
	if c.View().Revision() > 0 {
		return c.recoverEntry(ctx)
	}
	if c.cfg.Bootstrap == nil {
		return fmt.Errorf("the consensus store in %s holds no founding entry and nothing says how to found it", c.cfg.Dir)
	}
	c.cfg.Point("consensus.found.before")
	res, err := c.Apply(ctx, fleet.Found(c.cfg.Cluster, c.cfg.Bootstrap.Created, c.cfg.Bootstrap.Member))
	if err != nil {
		return fmt.Errorf("write the founding entry: %w", err)
	}
	if res.Err != "" {
		return fmt.Errorf("the founding entry was refused: %s", res.Err)
	}
	c.cfg.Point("consensus.found.after")
	return nil
}

// follow passes on who leads, coalesced: a reader that was away sees the last state.
func (c *Consensus) follow(notify <-chan bool, leaders <-chan raft.Observation) {
	defer c.wait.Done()
	for {
		var lead bool
		select {
		case <-c.done:
			return
		case lead = <-notify:
		case <-leaders:
			lead = c.IsLeader()
		}
		select {
		case <-c.lead:
		default:
		}
		c.lead <- lead
	}
}

// Apply proposes one command and waits until it is applied here. ErrNotLeader, ErrTimeout and ErrClosed are sentinels;
// a command that the state refuses is applied all the same, and Result.Err says why.
func (c *Consensus) Apply(ctx context.Context, cmd fleet.Command) (fleet.Result, error) {
	// Every member must be able to read it: the oldest one decides which format is written.
	bytes, err := cmd.EncodeFor(c.View().WriteFormat())
	if err != nil {
		return fleet.Result{}, err
	}
	c.cfg.Point("consensus.commit.before")
	var f raft.ApplyFuture
	if err := c.await(ctx, func() raft.Future { f = c.raft.Apply(bytes, timeLeft(ctx)); return f }); err != nil {
		return fleet.Result{}, err
	}
	out, ok := f.Response().(applied)
	if !ok {
		return fleet.Result{}, ErrClosed
	}
	c.cfg.Point("consensus.commit.after")
	return out.result, out.err
}

// Barrier returns once everything committed before it is applied here; it needs leadership.
func (c *Consensus) Barrier(ctx context.Context) error {
	for {
		err := c.await(ctx, func() raft.Future { return c.raft.Barrier(timeLeft(ctx)) })
		// A fleet of one that was just told to lead is a candidate for some microseconds.
		if !errors.Is(err, ErrNotLeader) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-c.done:
			return ErrClosed
		case <-time.After(time.Millisecond):
		}
	}
}

// View is the state as last applied; never nil.
func (c *Consensus) View() *fleet.View { return c.fsm.view.Load() }

// Updates holds one value whenever the state changed since it was last read.
func (c *Consensus) Updates() <-chan struct{} { return c.fsm.updates }

// Leadership holds a value when this voter has gained (true) or lost leadership, or hears of another leader, and that was
// not read yet.
func (c *Consensus) Leadership() <-chan bool { return c.lead }

// IsLeader reports whether this voter leads now.
func (c *Consensus) IsLeader() bool { return c.raft.State() == raft.Leader }

// Leader is the node id of the leader, or empty during an election.
func (c *Consensus) Leader() string {
	_, id := c.raft.LeaderWithID()
	return string(id)
}

// Term is raft's current term.
func (c *Consensus) Term() uint64 { return c.raft.CurrentTerm() }

// LeadsIn returns the term in which this voter leads; false: it does not. The term is the same before and after the question
// who leads, so that one that just stepped down never takes its follower's term for its own.
func (c *Consensus) LeadsIn() (term uint64, ok bool) {
	term = c.Term()
	return term, c.IsLeader() && c.Term() == term
}

// Commits counts the commands applied since Open.
func (c *Consensus) Commits() uint64 { return uint64(c.heard.Load()) }

// LastContact is how long ago this voter heard its leader, since it was opened where it heard none: zero on the leader
// itself.
func (c *Consensus) LastContact() time.Duration {
	if c.IsLeader() {
		return 0
	}
	if at := c.raft.LastContact(); at.After(c.opened) {
		return time.Since(at)
	}
	return time.Since(c.opened)
}

// Heard is when the leader was last heard since this was opened, now where this one leads; ok is false before that.
func (c *Consensus) Heard() (at time.Time, ok bool) {
	if c.IsLeader() {
		return time.Now(), true
	}
	if at := c.raft.LastContact(); at.After(c.opened) {
		return at, true
	}
	return time.Time{}, false
}

// Snapshot writes the state and shortens the log.
func (c *Consensus) Snapshot() error {
	err := c.raft.Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// Since gives the commands after the revision, oldest first, or false where the ring no longer reaches back to it.
func (c *Consensus) Since(revision uint64) ([]Entry, bool) { return c.fsm.since(revision) }

// SnapshotFor gives the state as the learner may see it, with its revision.
func (c *Consensus) SnapshotFor(learner string) (revision uint64, bytes []byte) {
	return c.fsm.snapshotFor(learner)
}

// Err is why raft stopped by itself, or nil.
func (c *Consensus) Err() error { return c.fsm.failure() }

// WriteErr is why the log, a term or a vote could not be written the last time that it had to be, as on a full disk; nil
// once it could. A voter that can't write leads nothing: it steps down, leaves the next election to others, and tries again.
func (c *Consensus) WriteErr() error { return c.durable.err() }

// Close stops raft and closes the store and the layer, so that the folder may be renamed. It may be called twice.
func (c *Consensus) Close() error {
	c.closed.Do(func() {
		c.settleAsked()
		c.durable.release()
		if c.raft != nil {
			c.err = c.raft.Shutdown().Error()
		}
		close(c.done)
		c.trans.Close()
		c.wait.Wait()
		c.fsm.mark.close()
		if err := c.store.Close(); c.err == nil {
			c.err = err
		}
	})
	return c.err
}

// halt ends raft alone: what it holds stays as it is.
func (c *Consensus) halt() {
	<-c.started
	c.raft.Shutdown()
}

// settleAsked takes no further command and lets those underway end: raft never answers one that its applier has not reached
// when it is shut down. What waits for a quorum is answered by the shutdown, so it is not waited for longer than drainTime.
func (c *Consensus) settleAsked() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	settled := make(chan struct{})
	go func() { c.asked.Wait(); close(settled) }()
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-settled:
	case <-timer.C:
	}
}

func timeLeft(ctx context.Context) time.Duration {
	if d, ok := ctx.Deadline(); ok {
		return max(time.Until(d), time.Millisecond)
	}
	return 0
}

// await begins a future and returns when it is done or the context is. While raft tries to hand leadership over it refuses
// everything, and for a moment after it has said that the attempt failed; that is waited out, for a leader that leads on is to
// say to nobody that it does not.
func (c *Consensus) await(ctx context.Context, begin func() raft.Future) error {
	for {
		err := c.awaitOnce(ctx, begin)
		if !errors.Is(err, raft.ErrLeadershipTransferInProgress) {
			return err
		}
		select {
		case <-time.After(transferAgain):
		case <-ctx.Done():
			return ErrTimeout
		}
	}
}

func (c *Consensus) awaitOnce(ctx context.Context, begin func() raft.Future) error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return ErrClosed
	}
	c.asked.Add(1)
	c.mu.Unlock()
	// A raft that waits for its disk takes nothing, so that even to begin may take as long as the context lives.
	done := make(chan error, 1)
	go func() {
		defer c.asked.Done()
		done <- begin().Error()
	}()
	select {
	case err := <-done:
		switch {
		case err == nil:
			return nil
		case errors.Is(err, raft.ErrLeadershipLost):
			return fmt.Errorf("%w (%v)", ErrLost, err)
		case errors.Is(err, raft.ErrNotLeader):
			return fmt.Errorf("%w (%v)", ErrNotLeader, err)
		case errors.Is(err, raft.ErrEnqueueTimeout):
			return ErrTimeout
		case errors.Is(err, raft.ErrRaftShutdown):
			return ErrClosed
		}
		return err
	case <-ctx.Done():
		return ErrTimeout
	}
}
