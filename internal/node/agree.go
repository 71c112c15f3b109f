package node

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"pace-node/internal/consensus"
	"pace-node/internal/control"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

// agreeEvery is how often a voter compares what it applied with the leader: a voter of another history is to be found before
// it can lead.
const agreeEvery = 10 * time.Second

// agreement is what a voter applied at an entry of the log. Digest is of the part that every member holds.
type agreement struct {
	Index    uint64 `json:"index"` // of raft's log
	Revision uint64 `json:"revision"`
	Digest   string `json:"digest"` // empty: it was not applied here lately
}

// agreesAt answers another voter; index 0 asks for the last entry.
func (b *body) agreesAt(index uint64) agreement {
	if b == nil || b.cons == nil {
		return agreement{Index: index}
	}
	if index == 0 {
		index = b.cons.Applied()
	}
	v, ok := b.cons.AppliedAt(index)
	if !ok {
		return agreement{Index: index}
	}
	d := v.Digest()
	return agreement{Index: index, Revision: v.Revision(), Digest: hex.EncodeToString(d[:])}
}

// compare asks the leader what it applied at the last entry that this voter knows, and at the leader's last one; where the
// two differ this voter stops.
func (b *body) compare() {
	n := b.n
	leader, ok := b.view().Member(b.cons.Leader())
	if !ok || leader.ID == n.id {
		return
	}
	for _, index := range []uint64{b.cons.Applied(), 0} {
		ctx, cancel := context.WithTimeout(b.ctx, callTimeout)
		var theirs agreement
		err := n.askStatusOf(ctx, leader, wire.StatusRequest{What: "agreement", Revision: index}, &theirs)
		cancel()
		if err != nil {
			return
		}
		mine := b.agreesAt(theirs.Index)
		if theirs.Digest == "" || mine.Digest == "" || theirs.Index == 0 || theirs == mine {
			continue
		}
		b.cons.Diverged(fmt.Errorf("%w: at entry %d it has revision %d and the leader, %s, revision %d", consensus.ErrDiverged, mine.Index, mine.Revision, control.Word(leader.ID), theirs.Revision))
		return
	}
}

// askClock has the leader say again what its clock shows, and tells it the same of this one: voters send each other no
// heartbeats that carry it, and either may have been set since the session began.
func (b *body) askClock() {
	s := b.leaderSession()
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, callTimeout)
	defer cancel()
	if err := b.n.hello(ctx, s); err != nil {
		b.n.log.Debug("the leader does not say what its clock shows", "error", err.Error())
	}
}

// leaderSession is a voter's session with the leader, nil where it leads itself or has none.
func (b *body) leaderSession() *netio.Session {
	if b.cons == nil || b.leads() {
		return nil
	}
	leader, ok := b.view().Member(b.cons.Leader())
	if !ok || leader.ID == b.n.id {
		return nil
	}
	return b.n.hub.ByKey(leader.Key)
}

// clockOffset is how far the leader's clock is ahead of what this machine's shows: on a learner by the heartbeats of the
// voter that it follows, on a voter by what the leader said last. known is false on the leader, and before anybody said it.
func (b *body) clockOffset(now time.Time) (offset time.Duration, known bool) {
	if b.learner != nil {
		return b.learner.ClockOffset(now)
	}
	s := b.leaderSession()
	if s == nil {
		return 0, false
	}
	_, offset, known = s.Hello()
	return offset, known
}
