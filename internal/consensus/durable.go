package consensus

import (
	"bytes"
	"cmp"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// Keys of the stable store: raft's, as raft spells them (raft.go), and our own.
var (
	keyTerm     = []byte("CurrentTerm")
	keyVoteTerm = []byte("LastVoteTerm")
	keyVote     = []byte("LastVoteCand")
	keyProbe    = []byte("pace.probe")
)

const (
	// termRetry is how often a term that could not be written is tried again.
	termRetry = 500 * time.Millisecond
	// noStand is for how long after a failed write of the log this voter does not vote for itself: longer than an election,
	// so that one that can write leads.
	noStand = 5 * time.Second
	// probeEvery is how often it is tried whether there is room again.
	probeEvery = time.Second
)

// probes are the bytes that are tried in the place of what could not be written.
var probes = map[string]int{"log": 64 << 10, "vote": 64}

// errUnwritable is what raft is told when it would stand for election and the log cannot be written.
var errUnwritable = errors.New("the log could not be written a moment ago, so this voter does not stand for election")

// pointed is raft's store with a crash point before and after each of its commits. It keeps how its last write ended, and
// stands between a full disk and raft: raft ends the process where its term cannot be written, and is elected again and
// again where only its log cannot.
type pointed struct {
	*raftboltdb.BoltStore
	point func(string)
	fault func(what string) error // tests only; may be nil
	self  []byte                  // this voter as raft writes it into a vote

	closing chan struct{}
	wait    sync.WaitGroup // of the probe

	mu      sync.Mutex
	closed  bool
	errs    map[string]error // how the last write of each kind failed
	failed  time.Time        // when the log could not be written last
	probing bool
}

func newPointed(store *raftboltdb.BoltStore, cfg Config) *pointed {
	return &pointed{BoltStore: store, point: cfg.Point, fault: cfg.fault, self: []byte(cfg.NodeID), closing: make(chan struct{}), errs: map[string]error{}}
}

// release lets a term go that waits to be written: raft is about to be shut down. From then on nothing is written, so that
// nothing is voted or acknowledged in a term that is not on disk.
func (p *pointed) release() {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.closing)
	}
	p.mu.Unlock()
	p.wait.Wait()
}

func (p *pointed) released() bool {
	select {
	case <-p.closing:
		return true
	default:
		return false
	}
}

// err is how a write failed that has not been made since, nil where there is none.
func (p *pointed) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.errs["log"], p.errs["term"], p.errs["vote"])
}

// write carries out one commit and keeps how it ended.
func (p *pointed) write(what string, commit func() error) error {
	if p.released() {
		return ErrClosed
	}
	var err error
	if p.fault != nil {
		err = p.fault(what)
	}
	if err == nil {
		err = commit()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs[what] = err
	if err != nil && what == "log" {
		p.failed = time.Now()
	}
	if err != nil && !p.probing && !p.closed {
		p.probing = true
		p.wait.Go(p.probe)
	}
	return err
}

// probe writes something of its own until there is room again: a voter that leads nothing may have nothing to write for long.
func (p *pointed) probe() {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-p.closing:
			return
		case <-ticker.C:
		}
		for what, size := range probes {
			if p.failing(what) {
				p.write(what, func() error { return p.BoltStore.Set(keyProbe, make([]byte, size)) })
			}
		}
		if p.mended() {
			return
		}
	}
}

// mended ends the probe once everything could be written, a term by retry.
func (p *pointed) mended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probing = p.errs["log"] != nil || p.errs["term"] != nil || p.errs["vote"] != nil
	return !p.probing
}

func (p *pointed) failing(what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errs[what] != nil
}

// StoreLog implements raft.LogStore.
func (p *pointed) StoreLog(l *raft.Log) error { return p.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (p *pointed) StoreLogs(l []*raft.Log) error {
	p.point("consensus.log.before")
	err := p.write("log", func() error { return summing{p.BoltStore}.StoreLogs(l) })
	p.point("consensus.log.after")
	return err
}

// GetLog implements raft.LogStore.
func (p *pointed) GetLog(index uint64, l *raft.Log) error {
	return summing{p.BoltStore}.GetLog(index, l)
}

// Get implements raft.StableStore.
func (p *pointed) Get(k []byte) ([]byte, error) { return summing{p.BoltStore}.Get(k) }

// GetUint64 implements raft.StableStore.
func (p *pointed) GetUint64(k []byte) (uint64, error) { return summing{p.BoltStore}.GetUint64(k) }

// Set implements raft.StableStore. A vote that is not written is not given.
func (p *pointed) Set(k, v []byte) error {
	if bytes.Equal(k, keyVote) && bytes.Equal(v, p.self) && p.failedLately() {
		return errUnwritable
	}
	p.point("consensus.term.before")
	err := p.write("vote", func() error { return summing{p.BoltStore}.Set(k, v) })
	p.point("consensus.term.after")
	return err
}

func (p *pointed) failedLately() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.failed.IsZero() && time.Since(p.failed) < noStand
}

// SetUint64 implements raft.StableStore. For a term raft takes no for an answer only by a panic; so it waits until there is
// room, and meanwhile this voter neither leads nor votes, and the others choose another.
func (p *pointed) SetUint64(k []byte, v uint64) error {
	what := "vote"
	if bytes.Equal(k, keyTerm) {
		what = "term"
		if have, err := p.GetUint64(k); err == nil && have == v {
			return nil
		}
	}
	p.point("consensus.term.before")
	err := p.write(what, func() error { return summing{p.BoltStore}.SetUint64(k, v) })
	if err != nil && what == "term" {
		err = p.retry(k, v)
	}
	p.point("consensus.term.after")
	return err
}

func (p *pointed) retry(k []byte, v uint64) error {
	ticker := time.NewTicker(termRetry)
	defer ticker.Stop()
	for {
		select {
		case <-p.closing:
			return nil // raft ends, and does nothing more that is written
		case <-ticker.C:
		}
		if err := p.write("term", func() error { return summing{p.BoltStore}.SetUint64(k, v) }); err == nil {
			return nil
		}
	}
}
