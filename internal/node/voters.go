package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pace-node/internal/consensus"
	"pace-node/internal/fleet"
	"pace-node/internal/wire"
)

// goneEvery is how often it is looked whether a member that is being taken out of consensus is gone.
const goneEvery = 50 * time.Millisecond

// electionLasts is after how long without a leader it is no election any more that keeps the voters from having one.
const electionLasts = 6 * time.Second

// hintQuorum is the way out of a fleet that has lost its quorum.
const hintQuorum = "bring the other voters back; where they are lost for good, pacectl fleet recover on one machine that is left; pacectl fleet status shows who is heard"

// gone answers the verb that removes a voter, once it is out of consensus and out of the roster. A leader that is itself
// named hands over first, and the next one does the rest: own says that whoever asked waits for that.
func (n *Node) gone(ctx context.Context, id string, own bool, ans wire.ClusterAnswer) (wire.ClusterAnswer, error) {
	tick := time.NewTicker(goneEvery)
	defer tick.Stop()
	cluster := n.view.Load().Cluster()
	for {
		v := n.view.Load()
		if _, still := v.Member(id); !still || v.Cluster() != cluster {
			ans.Revision = v.Revision()
			ans.Text = id + " is out of consensus and forgotten, and its key is revoked"
			if own {
				ans.Text = id + " has left; its key is not revoked"
			}
			return ans, nil
		}
		if !n.isLeader() && own {
			return wire.ClusterAnswer{}, n.notLeading("ask the leader")
		}
		if !n.isLeader() {
			return ans, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return wire.ClusterAnswer{}, wire.NewError(wire.CodeBusy, fmt.Sprintf("it is recorded that %s leaves consensus, and within %s it has not; the leader goes on with it", id, proposeTimeout), hintQuorum)
		}
	}
}

// stepDown hands leadership over because this machine is to lose its vote, and says where the verb is to be asked again:
// nobody takes a log from a leader that is no voter any more.
func (n *Node) stepDown(ctx context.Context) error {
	b := n.serving.Load()
	if err := b.handOver(ctx, ""); err != nil && !errors.Is(err, consensus.ErrNotLeader) {
		return wire.NewError(wire.CodeRefusedByRule, "this machine leads, and no other voter took leadership over: "+err.Error(), hintQuorum)
	}
	ctx, cancel := context.WithTimeout(ctx, electionLasts)
	defer cancel()
	tick := time.NewTicker(goneEvery)
	defer tick.Stop()
	for l := n.leader(); l.id == "" || l.id == n.id; l = n.leader() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return n.notLeading("ask the leader")
		}
	}
	return n.notLeader("ask the leader")
}

// transfer hands leadership to the voter of an id, or with none to any.
func (n *Node) transfer(ctx context.Context, id string) (wire.ClusterAnswer, error) {
	b, v := n.serving.Load(), n.view.Load()
	m, ok := v.Member(id)
	switch {
	case id != "" && (!ok || m.Role != fleet.RoleVoter):
		return wire.ClusterAnswer{}, wire.NewError(wire.CodeRefusedByRule, wire.Printable(id)+" is no voter of this fleet", "pacectl member list")
	case id == n.id:
		return wire.ClusterAnswer{}, wire.NewError(wire.CodeRefusedByRule, id+" leads already", "pacectl fleet status")
	}
	err := b.handOver(ctx, id)
	switch {
	case errors.Is(err, consensus.ErrNobody), errors.Is(err, consensus.ErrTimeout):
		return wire.ClusterAnswer{}, wire.NewError(wire.CodeRefusedByRule, "leadership was not taken over: "+err.Error(), "pacectl fleet status shows which voters are heard")
	case err != nil:
		return wire.ClusterAnswer{}, n.notLeading("ask the leader")
	}
	return wire.ClusterAnswer{Revision: v.Revision(), Text: "leadership is handed over"}, nil
}

// leaderlessHint says why nobody leads, and what to do.
func (n *Node) leaderlessHint() string {
	v := n.view.Load()
	voters, heard := 0, 0
	for _, m := range v.Voters() {
		voters++
		if m.ID == n.id || n.hub.ByKey(m.Key) != nil {
			heard++
		}
	}
	silent := n.leaderSilent()
	if silent < electionLasts {
		return "the voters elect a leader: try again in a few seconds"
	}
	return fmt.Sprintf("no leader is heard for %s; %d of %d voters are needed for one, and %d heard from here: ", silent.Truncate(time.Second), voters/2+1, voters, heard) + hintQuorum
}
