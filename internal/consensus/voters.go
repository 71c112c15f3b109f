package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"pace-node/internal/fleet"
)

// ErrNobody says that no other voter can take leadership over.
var ErrNobody = errors.New("no other voter can take leadership over")

// Seats is raft's latest configuration: how each member that it names is seated.
func (c *Consensus) Seats() map[string]fleet.Seat {
	conf := c.raft.GetConfiguration()
	if conf.Error() != nil {
		return nil
	}
	out := map[string]fleet.Seat{}
	for _, s := range conf.Configuration().Servers {
		out[string(s.ID)] = fleet.SeatNonvoter
		if s.Suffrage == raft.Voter {
			out[string(s.ID)] = fleet.SeatVoter
		}
	}
	return out
}

// Revision is that of the state, or on a seat what it has counted so far.
func (c *Consensus) Revision() uint64 { return c.fsm.revision() }

// AddNonvoter has raft send its log to a member. It needs leadership, and returns once the change is committed.
func (c *Consensus) AddNonvoter(ctx context.Context, id string) error {
	return c.change(ctx, func() raft.Future {
		return c.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(id), 0, timeLeft(ctx))
	})
}

// AddVoter gives a member a vote.
func (c *Consensus) AddVoter(ctx context.Context, id string) error {
	return c.change(ctx, func() raft.Future {
		return c.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(id), 0, timeLeft(ctx))
	})
}

// RemoveSeat takes a member out of raft's configuration.
func (c *Consensus) RemoveSeat(ctx context.Context, id string) error {
	return c.change(ctx, func() raft.Future { return c.raft.RemoveServer(raft.ServerID(id), 0, timeLeft(ctx)) })
}

func (c *Consensus) change(ctx context.Context, begin func() raft.Future) error {
	c.cfg.Point("consensus.seats.before")
	err := c.await(ctx, begin)
	c.cfg.Point("consensus.seats.after")
	return err
}

// transferAgain is the wait before raft is asked again that is still busy with an attempt to hand leadership over.
const transferAgain = 10 * time.Millisecond

// Transfer hands leadership to another voter: to one that is named, or to the one whose log is the longest. It returns once
// the other was told to stand for election; who leads then is seen as ever. ErrNobody where there is none to hand it to.
func (c *Consensus) Transfer(ctx context.Context, to string) error {
	// raft would tell whoever is sent the log to stand, a member without a vote too, which ends this leader and elects nobody.
	if to != "" && c.Seats()[to] != fleet.SeatVoter {
		return fmt.Errorf("%w: %q has no vote", ErrNobody, to)
	}
	err := c.await(ctx, func() raft.Future {
		if to == "" {
			return c.raft.LeadershipTransfer()
		}
		return c.raft.LeadershipTransferToServer(raft.ServerID(to), raft.ServerAddress(to))
	})
	switch {
	case err == nil, errors.Is(err, ErrNotLeader), errors.Is(err, ErrLost), errors.Is(err, ErrTimeout), errors.Is(err, ErrClosed):
		return err
	}
	return fmt.Errorf("%w: %w", ErrNobody, err)
}
