package node

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"pace-node/internal/consensus"
	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/follow"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// seatBeat is how often a learner looks at its seat, and a leader at the promotions that are underway.
const (
	seatBeat = time.Second
	// seatSoon is the same while one is about to take its seat.
	seatSoon = 200 * time.Millisecond
)

// seat is a learner's way to a vote: while its wished role says so, its consensus port is open and raft fills its store.
// What it follows stays the only state that it applies.
type seat struct {
	layer *netio.RaftLayer
	cons  *consensus.Consensus
}

func (s *seat) close() error {
	if s == nil {
		return nil
	}
	return s.cons.Close()
}

// seatRoles are the wished roles with which a learner's consensus port is open: one that raft holds as a voter already
// counts towards the quorum, whatever became of the entry that says so.
var seatRoles = map[fleet.Role]bool{fleet.RoleVoterPending: true, fleet.RoleVoter: true, fleet.RoleLeaving: true}

// ownRecord is this machine's record in a state, under its own key.
func (n *Node) ownRecord(v *fleet.View) (fleet.Member, bool) {
	m, ok := v.Member(n.id)
	return m, ok && m.Key == n.key.Public()
}

// keepSeat opens and closes a learner's seat as its wished role says, and adopts it once raft and the fleet's state agree
// that it is a voter's.
func (b *body) keepSeat() {
	tick := time.NewTimer(0)
	defer tick.Stop()
	defer func() {
		if err := b.seat.Load().close(); err != nil {
			b.n.log.Error("closing the seat", "error", err.Error())
		}
	}()
	for b.ctx.Err() == nil {
		b.tendSeat()
		if b.seat.Load() != nil {
			tick.Reset(seatSoon)
		} else {
			tick.Reset(seatBeat)
		}
		select {
		case <-b.ctx.Done():
			return
		case <-tick.C:
		case <-b.nudges:
		}
	}
}

func (b *body) tendSeat() {
	n, v := b.n, b.view()
	m, known := n.ownRecord(v)
	s := b.seat.Load()
	if b.behindAdmission(v) {
		return
	}
	if !known || !seatRoles[m.Role] {
		if s != nil {
			b.seat.Store(nil)
			if err := s.close(); err != nil {
				n.log.Error("closing the seat", "error", err.Error())
			}
			n.log.Info("no longer to be a voter: the consensus port is closed", "role", string(m.Role))
		}
		b.seatSaid.Store(nil)
		return
	}
	if s == nil {
		var err error
		if s, err = b.openSeat(); err != nil {
			said := err.Error()
			if old := b.seatSaid.Swap(&said); old == nil || *old != said {
				n.log.Warn("this machine is to be a voter, and its seat could not be opened; trying again", "error", said)
			}
			return
		}
		b.seatSaid.Store(nil)
		b.seat.Store(s)
		n.log.Info("to be a voter: the consensus port is open", "listen", s.layer.Addr().String(), "role", string(m.Role))
	}
	s.layer.Recheck()
	if s.cons.IsLeader() {
		// Elected before it was seated, as after a crash of the leader that had just given it its vote: it applies nothing, so
		// it can commit nothing, and no other would be chosen while it keeps them quiet.
		b.handSeatOn(s)
	}
	if m.Role == fleet.RoleVoter && s.cons.Revision() >= v.Revision() && s.cons.Seats()[n.id] == fleet.SeatVoter {
		n.post(func(now time.Time) {
			if n.body == b && !n.inMove && n.Mode() == formation.Learner {
				n.step(now, formation.Event{Kind: formation.EvTrigger, Trigger: formation.SeatedAsVoter})
			}
		})
	}
}

// behindAdmission reports whether a state is older than the word by which this machine became a learner. A voter that was
// told of its demotion has its old state, and a store of raft's that names it a voter, until it has followed somebody: by
// these it would take its seat again.
func (b *body) behindAdmission(v *fleet.View) bool {
	return fleet.ComparePosition(v.Epoch(), v.Revision(), b.admitted.Epoch, b.admitted.Revision) < 0
}

// handSeatOn gives leadership to a voter that can use it.
func (b *body) handSeatOn(s *seat) {
	ctx, cancel := context.WithTimeout(b.ctx, callTimeout)
	defer cancel()
	if err := s.cons.Transfer(ctx, ""); err != nil && b.ctx.Err() == nil {
		b.n.log.Debug("leadership not handed on by a seat", "error", err.Error())
	}
}

func (b *body) openSeat() (*seat, error) {
	n := b.n
	listener, err := n.listen(n.cfg.Settings.ListenRaft, "--listen-raft")
	if err != nil {
		return nil, err
	}
	layer := b.newLayer(listener)
	cons, err := consensus.Open(b.ctx, consensus.Config{
		Dir: filepath.Join(n.dir.Path(), statedir.ConsensusDir), NodeID: n.id, Cluster: b.cluster, Layer: layer, Logger: n.log,
		Seat: true, NoSync: n.cfg.NoSync, Point: n.point,
	})
	if err != nil {
		layer.Close()
		return nil, err
	}
	return &seat{layer: layer, cons: cons}, nil
}

// seatReport answers the leader that asks how far this machine's promotion has come.
func (n *Node) seatReport() fleet.SeatReport {
	b, v := n.serving.Load(), n.view.Load()
	out := fleet.SeatReport{Followed: v.Revision(), Endpoint: n.endpoint(n.consensusPort())}
	if b == nil {
		return out
	}
	if b.cons != nil {
		out.Open, out.Counted = true, b.cons.Revision()
		return out
	}
	if s := b.seat.Load(); s != nil {
		out.Open, out.Counted = true, s.cons.Revision()
	} else if said := b.seatSaid.Load(); said != nil {
		out.Said = control.Sentence(*said)
	}
	return out
}

// ownRole is told of each state that a voter applied: its own record says whether it still is one.
func (n *Node) ownRole(now time.Time, b *body, v *fleet.View) {
	if b.cons == nil || v.Cluster() == "" || n.Mode() != formation.Voter || n.inMove {
		return
	}
	m, ok := n.ownRecord(v)
	switch {
	case ok && m.Role == fleet.RoleLearner && !b.leads() && !b.named():
		n.seatedAsLearner(now, b, v.Roster(n.id))
	case !ok:
		_, revoked := v.Revoked(n.key.Public())
		n.outOfFleet(now, b, revoked, v.Revision())
	}
}

// named reports whether raft's configuration names this machine. Until it does not, whoever leads next may need its vote,
// and its acknowledgement of the entry before which a new leader changes no configuration: of two voters, the one that is
// left could never be elected.
func (b *body) named() bool {
	seats := b.cons.Seats()
	return seats == nil || seats[b.n.id] != fleet.SeatNone
}

// seatedAsLearner has a voter become a learner; roster is what it begins to follow by.
func (n *Node) seatedAsLearner(now time.Time, b *body, roster wire.Roster) {
	if n.body != b || n.inMove {
		return
	}
	b.roster = &roster
	n.step(now, formation.Event{Kind: formation.EvTrigger, Trigger: formation.SeatedAsLearner})
}

// outOfFleet has a voter that its fleet removed begin anew.
func (n *Node) outOfFleet(now time.Time, b *body, revoked bool, revision uint64) {
	if n.body != b || n.inMove {
		return
	}
	n.forgotten(now, b, revision, revoked)
}

// keepState gives a voter that becomes a learner the state that it applied as such, so that it never goes back.
func (n *Node) keepState(old *body) {
	if old.cons == nil {
		return
	}
	v := old.cons.View()
	dir := filepath.Join(n.dir.Path(), statedir.FollowDir)
	err := markStore(dir, old.cluster, n.point)
	if err == nil {
		err = follow.Install(dir, n.cfg.NoSync, n.point, v.SnapshotFor(n.id), v.Epoch(), old.cons.Term())
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		n.log.Warn("the state was not kept for following: a voter sends it again", "error", err.Error())
	}
}

// sight is who votes as far as this voter can tell: what it applied, or what another voter told it of a later revision.
func (b *body) sight(id string) (m fleet.Member, ok bool) {
	m, ok = b.state().Member(id)
	if ok && (m.Role == fleet.RoleVoter || m.Role == fleet.RoleVoterPending) {
		return m, true
	}
	h := b.told.Load()
	if h == nil || fleet.ComparePosition(h.Epoch, h.Revision, b.state().Epoch(), b.state().Revision()) <= 0 {
		return m, ok
	}
	for _, v := range h.Voters {
		if v.ID != id {
			continue
		}
		key, err := identity.ParsePublicKey(v.Key)
		if err != nil {
			return m, ok
		}
		return fleet.Member{ID: v.ID, Key: key, Role: fleet.RoleVoter, Endpoints: v.Endpoints}, true
	}
	return m, ok
}
