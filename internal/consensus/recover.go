package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"pace-node/internal/fleet"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// A recovered store is built in a folder of its own, beside whatever it is built from, and takes the store's place only
// when it is whole: until then a crash costs nothing, and afterwards the old store is put away, never deleted.

const (
	// recoveredFile marks a store that was built by a recovery, and names its epoch.
	recoveredFile = "recovered"
	// firstIndex and firstTerm are where the log of a store begins that was built from a state alone.
	firstIndex, firstTerm = 1, 1
)

// Build says what store is built, and where.
type Build struct {
	Dir             string // must not exist; its parent must
	NodeID, Cluster string
	Epoch           uint64 // recovery epoch that the store's first entry begins
	Logger          *slog.Logger
	NoSync          bool              // tests only
	Point           func(name string) // called at each of RecoverPoints; may be nil
}

// RecoverPoints names the places at which a test build may end the process while a store is built.
var RecoverPoints = recoverPoints()

func recoverPoints() []string {
	out := []string{"consensus.recover.begin.before", "consensus.recover.begin.after", "consensus.recover.copy.before", "consensus.recover.copy.after",
		"consensus.recover.snapshot.before", "consensus.recover.snapshot.after"}
	out = append(out, under("consensus.recover.name.", statedir.WriteSteps)...)
	out = append(out, under("consensus.recover.mark.", statedir.WriteSteps)...)
	return append(out, "consensus.recover.entry.before", "consensus.recover.entry.after")
}

// FromState builds a voter's store that holds the state of a snapshot (fleet's own, of either kind) and has NodeID as its
// only voter.
func (b Build) FromState(snapshot []byte) error {
	state, err := fleet.Restore(snapshot)
	if err != nil {
		return err
	}
	if have := state.View().Cluster(); have != b.Cluster {
		return fmt.Errorf("%w: the state is of fleet %q, and this machine is in fleet %q", ErrOtherCluster, have, b.Cluster)
	}
	return b.build(func(s *building) error {
		sink, err := s.snaps.Create(1, firstIndex, firstTerm, s.only(), 1, s.trans)
		if err != nil {
			return err
		}
		if err := saved(snapshot).Persist(sink); err != nil {
			return err
		}
		return s.store.SetUint64(keyTerm, firstTerm)
	}, nil)
}

// FromStore builds it from another voter's store, which is only read: its snapshot and every entry of its log, also those
// of which it is not known that they were committed.
func (b Build) FromStore(old string) error {
	have, err := Owner(old)
	if err != nil {
		return err
	}
	if have != b.Cluster {
		return fmt.Errorf("%w: %s is fleet %q's, and this machine is in fleet %q", ErrOtherCluster, old, have, b.Cluster)
	}
	return b.build(func(s *building) error {
		conf := raft.DefaultConfig()
		conf.LocalID, conf.Logger = raft.ServerID(b.NodeID), hclogOver(b.Logger)
		return raft.RecoverCluster(conf, &replayed{state: fleet.New()}, s.store, s.store, s.snaps, s.trans, s.only())
	}, func() error {
		if _, _, err := checkStore(filepath.Join(old, storeFile)); err != nil {
			return err
		}
		b.Point("consensus.recover.copy.before")
		for _, name := range []string{storeFile, snapshotsDir} {
			if err := copyDurably(filepath.Join(old, name), filepath.Join(b.Dir, name), b.NoSync); err != nil && !(name == snapshotsDir && errors.Is(err, fs.ErrNotExist)) {
				return err
			}
		}
		b.Point("consensus.recover.copy.after")
		return nil
	})
}

// snapshotsDir is where raft's file store keeps its snapshots, below the folder that it is given.
const snapshotsDir = "snapshots"

// building is a store that is not whole yet.
type building struct {
	id    string
	store interface {
		raft.LogStore
		raft.StableStore
		Close() error
	}
	snaps *raft.FileSnapshotStore
	trans raft.Transport
}

// only is the configuration of a fleet whose one voter this machine is.
func (s *building) only() raft.Configuration {
	return raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(s.id), Address: raft.ServerAddress(s.id)}}}
}

func (b *Build) build(fill func(*building) error, before func() error) (err error) {
	if b.Point == nil {
		b.Point = func(string) {}
	}
	if b.Logger == nil {
		b.Logger = slog.New(slog.DiscardHandler)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("build the recovered store in %s: %w", b.Dir, err)
		}
	}()
	b.Point("consensus.recover.begin.before")
	if err := os.Mkdir(b.Dir, 0o700); err != nil {
		return err
	}
	b.Point("consensus.recover.begin.after")
	if before != nil {
		if err := before(); err != nil {
			return err
		}
	}
	cfg := Config{Dir: b.Dir, NoSync: b.NoSync}
	store, err := openBolt(cfg, filepath.Join(b.Dir, storeFile))
	if err != nil {
		return err
	}
	b.Point("consensus.recover.snapshot.before")
	_, trans := raft.NewInmemTransport(raft.ServerAddress(b.NodeID))
	s := &building{id: b.NodeID, store: summing{store}, trans: trans}
	if s.snaps, err = raft.NewFileSnapshotStoreWithLogger(b.Dir, snapshotsKept, hclogOver(b.Logger)); err == nil {
		err = fill(s)
	}
	if err := errors.Join(err, trans.Close(), store.Close()); err != nil {
		return err
	}
	b.Point("consensus.recover.snapshot.after")
	if err := b.write(clusterFile, b.Cluster+"\n", "name"); err != nil {
		return err
	}
	if err := b.write(recoveredFile, strconv.FormatUint(b.Epoch, 10)+"\n", "mark"); err != nil {
		return err
	}
	if b.NoSync {
		return nil
	}
	return syncDir(b.Dir)
}

func (b *Build) write(name, text, step string) error {
	path := filepath.Join(b.Dir, name)
	if b.NoSync {
		return os.WriteFile(path, []byte(text), 0o600)
	}
	if step == "name" {
		return statedir.WriteFileAtomic(path, []byte(text), 0o600, func(step string) { b.Point("consensus.recover.name." + step) })
	}
	return statedir.WriteFileAtomic(path, []byte(text), 0o600, func(step string) { b.Point("consensus.recover.mark." + step) })
}

// RecoveredEpoch is the epoch of the recovery that built the store in dir, 0 where none did or none is there.
func RecoveredEpoch(dir string) (uint64, error) {
	b, err := os.ReadFile(filepath.Join(dir, recoveredFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	text, ended := strings.CutSuffix(string(b), "\n")
	epoch, err := strconv.ParseUint(text, 10, 64)
	if err != nil || !ended || epoch == 0 {
		return 0, fmt.Errorf("%w: %s names no recovery epoch; restore the state directory from a backup", ErrDamaged, filepath.Join(dir, recoveredFile))
	}
	return epoch, nil
}

// replayed is raft's state machine while a store is recovered.
type replayed struct {
	state  *fleet.State
	failed error
}

// Apply implements raft.FSM.
func (r *replayed) Apply(l *raft.Log) any {
	if r.failed == nil {
		if _, err := r.state.Apply(l.Data); err != nil {
			r.failed = fmt.Errorf("%w (log index %d): %v; upgrade this machine", ErrFormatNewer, l.Index, err)
		}
	}
	return nil
}

// Restore implements raft.FSM.
func (r *replayed) Restore(rc io.ReadCloser) error {
	b, err := io.ReadAll(io.LimitReader(rc, wire.MaxState+1))
	if err != nil {
		return err
	}
	state, err := fleet.Restore(b)
	if err == nil {
		r.state = state
	}
	return err
}

// Snapshot implements raft.FSM.
func (r *replayed) Snapshot() (raft.FSMSnapshot, error) {
	if r.failed != nil {
		return nil, r.failed
	}
	return saved(r.state.Snapshot()), nil
}

// recoverEntry commits the entry that begins the recovery epoch, once.
func (c *Consensus) recoverEntry(ctx context.Context) error {
	if c.cfg.Epoch == 0 || c.View().Epoch() >= c.cfg.Epoch {
		return nil
	}
	c.cfg.Point("consensus.recover.entry.before")
	res, err := c.Apply(ctx, fleet.Recover(c.cfg.NodeID, c.cfg.RecoveredBy, time.Now().Unix()))
	if err == nil && res.Err != "" {
		err = errors.New(res.Err)
	}
	if err == nil && c.View().Epoch() != c.cfg.Epoch {
		err = fmt.Errorf("the state is in recovery epoch %d after it, and is to be in %d", c.View().Epoch(), c.cfg.Epoch)
	}
	if err != nil {
		return fmt.Errorf("write the entry that recovers the fleet: %w", err)
	}
	c.cfg.Point("consensus.recover.entry.after")
	return nil
}

// copyDurably copies a file, or a folder of files.
func copyDurably(from, to string, noSync bool) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return copyFile(from, to, noSync)
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := copyDurably(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()), noSync); err != nil {
			return err
		}
	}
	if noSync {
		return nil
	}
	return syncDir(to)
}

func copyFile(from, to string, noSync bool) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil || noSync {
		return err
	}
	return out.Sync()
}
