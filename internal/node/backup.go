package node

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/formation"
	"pace-node/internal/wire"
)

const (
	// backupChunk is how much of the state goes with one answer: with base64 it stays well below what a frame may have.
	backupChunk = 512 << 10
	// backupHeld is how long a state is kept for whoever fetches it in parts.
	backupHeld = time.Minute
)

// backupState is a state that is being fetched.
type backupState struct {
	mu       sync.Mutex
	revision uint64
	bytes    []byte
	at       time.Time
}

// drop forgets a state that nobody goes on fetching.
func (s *backupState) drop(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes != nil && now.Sub(s.at) > backupHeld {
		s.bytes = nil
	}
}

// backupPart gives a part of the fleet's state as a voter keeps it, to this machine's own administrators.
func (n *Node) backupPart(r wire.StatusRequest) (control.BackupPart, error) {
	var none control.BackupPart
	v := n.view.Load()
	switch mode := n.Mode(); {
	case mode == formation.Learner:
		var names []string
		for _, m := range v.Voters() {
			names = append(names, control.Word(m.ID)+" "+control.Word(m.Name))
		}
		return none, wire.NewError(wire.CodeRefusedByRule, "this machine is a learner, which holds no audit, no pre-approvals and nobody else's provisioning", "back a voter up, on it: "+strings.Join(names, ", "))
	case mode != formation.Voter && !v.Established():
		return none, wire.NewError(wire.CodeRefusedByRule, "this machine is a fleet of its own that nobody else was ever in: a new install has all that it has", "back it up once its fleet has somebody else in it")
	}
	s := &n.backup
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Offset == 0 {
		s.revision, s.bytes = v.Revision(), v.Snapshot()
	}
	if s.bytes == nil || r.Offset != 0 && r.Revision != s.revision || r.Offset > uint64(len(s.bytes)) {
		return none, wire.NewError(wire.CodeBusy, fmt.Sprintf("the state at revision %d is no longer held", r.Revision), "begin again")
	}
	s.at = time.Now()
	out := control.BackupPart{V: control.DocumentVersion, Cluster: v.Cluster(), Epoch: v.Epoch(), Revision: s.revision, Members: v.Len(), Total: uint64(len(s.bytes)), Offset: r.Offset}
	end := min(r.Offset+backupChunk, out.Total)
	out.Bytes = s.bytes[r.Offset:end]
	if end == out.Total {
		s.bytes = nil
	}
	return out, nil
}
