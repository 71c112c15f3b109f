package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"pace-node/internal/fleet"
	"pace-node/internal/wire"
)

// machine is raft's state machine: it forwards to fleet.State and publishes views.
type machine struct {
	c       *Consensus
	view    atomic.Pointer[fleet.View]
	updates chan struct{}

	mu      sync.Mutex // guards what a learner's stream reads: ring and state
	state   *fleet.State
	ring    []Entry
	recent  []recent
	failed  error
	index   uint64 // raft's, of the last entry applied
	opening uint64 // raft's, of the snapshot that is read next
	counted uint64 // a seat's: the revision that a state would have
	mark    mark

	recalling bool // before raft runs
}

type applied struct {
	result fleet.Result
	err    error
}

func newMachine(c *Consensus) *machine {
	m := &machine{c: c, state: fleet.New(), updates: make(chan struct{}, 1)}
	m.view.Store(m.state.View())
	return m
}

// Apply implements raft.FSM.
func (m *machine) Apply(l *raft.Log) any {
	m.mu.Lock()
	if m.failed != nil {
		m.mu.Unlock()
		return applied{err: m.failed}
	}
	if l.Index <= m.index {
		m.mu.Unlock()
		return applied{} // recalled at the start
	}
	if m.c.cfg.Seat {
		m.index = l.Index
		m.counted++
		m.mu.Unlock()
		m.mark.set(l.Index)
		return applied{}
	}
	prev := m.view.Load().Revision()
	res, err := m.state.Apply(l.Data)
	if err != nil && m.recalling {
		m.mu.Unlock()
		return applied{err: err}
	}
	if err != nil {
		// The entry is committed but this build cannot read it. Stopping here keeps the store for a later build; going on
		// would make this voter's state differ from the others'.
		m.failed = fmt.Errorf("%w (log index %d): %v; upgrade this machine", ErrFormatNewer, l.Index, err)
		m.mu.Unlock()
		m.c.cfg.Logger.Error("stopped before a log entry that this version cannot apply", "index", l.Index, "err", err)
		go m.c.halt()
		return applied{err: m.failed}
	}
	m.index = l.Index
	view := m.state.View()
	entry := Entry{Prev: prev, Revision: view.Revision(), Command: l.Data}
	if len(m.ring) == ringSize {
		copy(m.ring, m.ring[1:])
		m.ring = m.ring[:ringSize-1]
	}
	m.ring = append(m.ring, entry)
	m.note(l.Index, view)
	m.mu.Unlock()
	m.mark.set(l.Index)
	m.c.heard.Add(1) // before it is shown: who sees the state finds its commands counted
	m.publish(view)
	if m.c.cfg.OnApply != nil {
		entry.View, entry.Result = view, res
		m.c.cfg.OnApply(entry)
	}
	return applied{result: res}
}

func (m *machine) publish(v *fleet.View) {
	m.view.Store(v)
	select {
	case m.updates <- struct{}{}:
	default:
	}
}

func (m *machine) since(revision uint64) ([]Entry, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if revision == m.state.View().Revision() {
		return nil, true
	}
	for i, e := range m.ring {
		if e.Prev == revision {
			return append([]Entry(nil), m.ring[i:]...), true
		}
	}
	return nil, false
}

func (m *machine) snapshotFor(learner string) (uint64, []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.View().Revision(), m.state.SnapshotFor(learner)
}

func (m *machine) failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// Snapshot implements raft.FSM.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return nil, m.failed
	}
	if m.c.cfg.Seat {
		return nil, errCounts
	}
	return saved(m.state.Snapshot()), nil
}

// Restore implements raft.FSM.
func (m *machine) Restore(rc io.ReadCloser) error {
	defer rc.Close()
	b, err := io.ReadAll(io.LimitReader(rc, wire.MaxState+1))
	if err != nil {
		return err
	}
	m.mu.Lock()
	at := m.opening
	if at <= m.index && m.index > 0 {
		m.mu.Unlock()
		return nil // recalled at the start, and more after it
	}
	m.mu.Unlock()
	st, err := fleet.Restore(b)
	if errors.Is(err, fleet.ErrFormatNewer) && !m.recalling {
		m.mu.Lock()
		m.failed = fmt.Errorf("%w: a snapshot from another voter: %v; upgrade this machine", ErrFormatNewer, err)
		m.mu.Unlock()
		m.c.cfg.Logger.Error("stopped before a snapshot that this version cannot take over", "err", err)
		go m.c.halt()
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.index = at
	v := st.View()
	if m.c.cfg.Seat {
		m.counted = v.Revision()
		m.mu.Unlock()
		return nil
	}
	m.state, m.ring, m.recent = st, nil, nil
	m.note(at, v)
	m.mu.Unlock()
	m.publish(v)
	return nil
}

type saved []byte

// Persist implements raft.FSMSnapshot.
func (s saved) Persist(sink raft.SnapshotSink) error {
	if _, err := sink.Write(s); err != nil {
		sink.Cancel()
		return err
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (s saved) Release() {}

// errCounts: a seat holds no state, so raft keeps its whole log meanwhile.
var errCounts = errors.New("a seat that is not adopted yet only counts")

// revision is the state's, or what a seat has counted.
func (m *machine) revision() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.c.cfg.Seat {
		return m.counted
	}
	return m.state.View().Revision()
}

// watched tells the state machine which snapshot it is given: raft hands over the bytes alone.
type watched struct {
	raft.SnapshotStore
	fsm  *machine
	dir  string
	step func(string) // tests only: Config.sealing
}

// Create implements raft.SnapshotStore.
func (w *watched) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, trans raft.Transport) (raft.SnapshotSink, error) {
	sink, err := w.SnapshotStore.Create(version, index, term, conf, confIndex, trans)
	if err != nil {
		return nil, err
	}
	return sealing{sink, w.dir, w.step}, nil
}

// List implements raft.SnapshotStore: those whose description reads.
func (w *watched) List() ([]*raft.SnapshotMeta, error) {
	list, err := w.SnapshotStore.List()
	return slices.DeleteFunc(list, func(m *raft.SnapshotMeta) bool {
		_, err := soundMeta(filepath.Join(w.dir, m.ID)) // raft checks the state itself
		return err != nil
	}), err
}

// Open implements raft.SnapshotStore.
func (w *watched) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, rc, err := w.SnapshotStore.Open(id)
	if err == nil {
		w.fsm.mu.Lock()
		w.fsm.opening = meta.Index
		w.fsm.mu.Unlock()
	}
	return meta, rc, err
}

// recall applies what was applied before this start: raft itself begins again from its last snapshot and knows what is
// committed only once a leader says so, and until then a voter would know neither its fleet nor the keys of the others.
func (m *machine) recall(dir string, logs raft.LogStore, snaps raft.SnapshotStore) error {
	m.recalling = true
	defer func() { m.recalling = false }()
	upto, err := m.mark.open(filepath.Join(dir, markFile))
	if err != nil {
		return fmt.Errorf("open the mark of what was applied: %w", err)
	}
	last, err := logs.LastIndex()
	if err != nil {
		return err
	}
	list, err := snaps.List()
	if err != nil {
		return err
	}
	if len(list) > 0 {
		m.opening = list[0].Index
		_, rc, err := snaps.Open(list[0].ID)
		if err != nil {
			return nil // raft says what is wrong with it, or reads an older one
		}
		err = m.Restore(rc)
		if errors.Is(err, fleet.ErrFormatNewer) {
			return fmt.Errorf("%w: the snapshot in %s: %w", ErrFormatNewer, dir, err)
		}
		if err != nil {
			return nil
		}
	}
	if upto > last {
		return nil // the log is not the one that the mark was made beside
	}
	for i := m.index + 1; i <= upto; i++ {
		var l raft.Log
		if err := logs.GetLog(i, &l); err != nil {
			return nil
		}
		if l.Type != raft.LogCommand {
			continue
		}
		// It was applied here, by a later version or before the disk changed it.
		switch out := m.Apply(&l).(applied); {
		case errors.Is(out.err, fleet.ErrFormatNewer):
			return fmt.Errorf("%w: entry %d of the log in %s: %w", ErrFormatNewer, i, dir, out.err)
		case out.err != nil:
			return damaged(filepath.Join(dir, storeFile), fmt.Errorf("entry %d of its log: %w", i, out.err))
		}
	}
	return nil
}

// markFile holds the raft index of the last applied entry. It is written without waiting for the disk: one that is behind,
// or torn, only means that less is recalled.
const markFile = "applied"

type mark struct{ f *os.File }

func (k *mark) open(path string) (uint64, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	k.f = f
	return readMark(path), nil
}

func readMark(path string) uint64 {
	b, err := os.ReadFile(path)
	if err != nil || len(b) != 12 || crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]) {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (k *mark) set(index uint64) {
	if k.f == nil {
		return
	}
	var b [12]byte
	binary.BigEndian.PutUint64(b[:], index)
	binary.BigEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[:8]))
	_, _ = k.f.WriteAt(b[:], 0) // a mark that stays behind costs nothing
}

func (k *mark) close() {
	if k.f != nil {
		_ = k.f.Close()
		k.f = nil
	}
}
