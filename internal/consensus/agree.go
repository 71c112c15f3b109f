package consensus

import (
	"errors"

	"pace-node/internal/fleet"
)

// ErrDiverged says that this voter applied another history than the one that leads the fleet.
var ErrDiverged = errors.New("this voter's state differs from the leader's at the same entry of the log")

// Raft compares terms, never contents: it relies on no disk going back. Where the disks of several voters were put back to
// copies of different moments, a term comes again with other entries, and voters apply different histories without a word.
// So what was applied at an entry can be compared from outside.

// recentKept is how many applied entries can be compared.
const recentKept = 32

// recent is the state right after an entry.
type recent struct {
	index uint64
	view  *fleet.View
}

// note keeps what was applied. The caller holds mu.
func (m *machine) note(index uint64, v *fleet.View) {
	if len(m.recent) == recentKept {
		copy(m.recent, m.recent[1:])
		m.recent = m.recent[:recentKept-1]
	}
	m.recent = append(m.recent, recent{index, v})
}

// Applied is the log's index of the last entry that was applied, 0 before the first.
func (c *Consensus) Applied() uint64 {
	c.fsm.mu.Lock()
	defer c.fsm.mu.Unlock()
	if n := len(c.fsm.recent); n > 0 {
		return c.fsm.recent[n-1].index
	}
	return 0
}

// AppliedAt is the state right after an entry, where it was applied lately.
func (c *Consensus) AppliedAt(index uint64) (*fleet.View, bool) {
	c.fsm.mu.Lock()
	defer c.fsm.mu.Unlock()
	for _, r := range c.fsm.recent {
		if r.index == index {
			return r.view, true
		}
	}
	return nil, false
}

// Diverged stops raft and keeps the store as it is: going on, this voter could lead by a history that the others do not
// have.
func (c *Consensus) Diverged(why error) {
	c.fsm.mu.Lock()
	first := c.fsm.failed == nil
	if first {
		c.fsm.failed = why
	}
	c.fsm.mu.Unlock()
	if first {
		c.cfg.Logger.Error("stopped: this voter's state differs from the leader's", "error", why.Error())
		go c.halt()
	}
}
