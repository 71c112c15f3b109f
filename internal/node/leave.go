package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/netio"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

const (
	// leaveTimeout bounds the verb; what is not answered by then goes on by itself or was not begun.
	leaveTimeout = 30 * time.Second
	// askAgainEvery is the wait between two rounds over the voters, while none of them answers as the leader.
	askAgainEvery = time.Second
	// leaveAgainEvery is how often a machine that is leaving asks again after the verb has ended.
	leaveAgainEvery = 15 * time.Second
)

// localOp gives the operations of Cluster that are typed on the very machine that they are about. They are no matter of the
// leader's, and nobody else may ask them.
func (n *Node) localOp(op string) func(context.Context, wire.ClusterRequest) (wire.ClusterAnswer, error) {
	switch op {
	case "leave":
		return n.leave
	case "recover":
		return n.recoverFleet
	case "accept":
		return n.accept
	}
	return nil
}

// noAnswer is why nobody answered as the fleet's leader. sent says that a request may have arrived all the same.
type noAnswer struct {
	last error
	sent bool
}

func (e *noAnswer) Error() string {
	if e.last == nil {
		return "no voter of the fleet is known"
	}
	return e.last.Error()
}

func (e *noAnswer) Unwrap() error { return e.last }

// errOtherFleet: this machine is in another fleet than when the asking began.
var errOtherFleet = errors.New("this machine has come into another fleet meanwhile")

// fleetNow is the fleet that this machine serves in, empty while that changes.
func (n *Node) fleetNow() string {
	if b := n.serving.Load(); b != nil {
		return b.cluster
	}
	return ""
}

// askLeader asks the leader of the own fleet to change it, wherever it is: the one that is known first, then every voter,
// until one answers as the leader or ctx ends. A refusal is a *wire.Error, anything else a *noAnswer.
func (n *Node) askLeader(ctx context.Context, r wire.ClusterRequest) (wire.ClusterAnswer, error) {
	payload, err := json.Marshal(r)
	if err != nil {
		return wire.ClusterAnswer{}, err
	}
	none := &noAnswer{}
	in := n.fleetNow()
	for {
		if n.fleetNow() != in {
			return wire.ClusterAnswer{}, errOtherFleet
		}
		if n.isLeader() {
			ans, err := n.Cluster(ctx, control.Peer{Key: n.key.Public(), ID: n.id}, r)
			var refused *wire.Error
			if !errors.As(err, &refused) || refused.Code != wire.CodeNotLeader {
				return ans, err
			}
			none.last = errors.New("this machine handed leadership over, and no other one answers as the leader") // which goes on with it
		}
		for _, m := range n.askedVoters() {
			s, err := n.voterSession(ctx, m)
			if err == nil {
				err = n.ourWord(ctx, s)
			}
			if err != nil {
				none.last = err
				continue
			}
			call, cancel := context.WithTimeout(ctx, callTimeout)
			raw, err := netio.Call(call, s, wire.VerbCluster, payload)
			cancel()
			var refused *wire.Error
			switch {
			case err == nil:
				return wire.DecodeDocument[wire.ClusterAnswer](raw)
			case errors.As(err, &refused) && refused.Code != wire.CodeNotLeader && refused.Code != wire.CodeBusy:
				return wire.ClusterAnswer{}, refused
			case errors.As(err, &refused):
				none.last = errors.New("no voter that answers leads the fleet")
			default:
				none.last, none.sent = err, true
			}
		}
		select {
		case <-ctx.Done():
			return wire.ClusterAnswer{}, none
		case <-time.After(askAgainEvery):
		}
	}
}

// askedVoters are the other voters, the known leader first.
func (n *Node) askedVoters() []fleet.Member {
	var all []fleet.Member
	if b := n.serving.Load(); b != nil && b.learner != nil {
		all = b.learner.Voters()
	} else if v := n.view.Load(); v != nil {
		all = v.Voters()
	}
	all = slices.DeleteFunc(slices.Clone(all), func(m fleet.Member) bool { return m.ID == n.id })
	lead := n.leader().id
	slices.SortStableFunc(all, func(a, b fleet.Member) int {
		switch {
		case (a.ID == lead) == (b.ID == lead):
			return 0
		case a.ID == lead:
			return -1
		}
		return 1
	})
	return all
}

// leave takes this machine out of what it is in, at its operator's word.
func (n *Node) leave(ctx context.Context, r wire.ClusterRequest) (wire.ClusterAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	own, err := n.own(ctx)
	if err != nil {
		return wire.ClusterAnswer{}, err
	}
	switch {
	case own.Mode == formation.Pending:
		return n.giveUpAsk(ctx, own)
	case own.Mode == formation.Solitary:
		return wire.ClusterAnswer{}, wire.NewError(wire.CodeRefusedByRule, "this machine is a fleet of its own, so there is none to leave", "pacectl node shows what it is in")
	case r.Force:
		return n.leaveAlone(ctx, own)
	}
	v := n.view.Load()
	if own.Mode == formation.Voter && v.Len() == 1 {
		return n.leaveAlone(ctx, own) // nobody is left behind, and nobody could be asked
	}
	if own.Mode == formation.Voter && v.CountRole(fleet.RoleVoter) == 1 {
		return wire.ClusterAnswer{}, wire.NewError(wire.CodeRefusedByRule, fmt.Sprintf("this machine is the last voter of its fleet, and %s on it", plural(v.Len()-1, "machine depends", "machines depend")),
			"make another machine a voter first (pacectl member admit), or forget the others; pacectl fleet leave --force goes alone and leaves them without a voter")
	}
	if err := n.setLeaving(ctx, true); err != nil {
		return wire.ClusterAnswer{}, err
	}
	err = n.tryLeaving(ctx)
	var refused *wire.Error
	var none *noAnswer
	switch {
	case err == nil:
	case errors.As(err, &refused):
		return wire.ClusterAnswer{}, errors.Join(refused, n.setLeaving(context.WithoutCancel(ctx), false))
	case errors.As(err, &none) && !none.sent:
		if err := n.setLeaving(context.WithoutCancel(ctx), false); err != nil {
			return wire.ClusterAnswer{}, err
		}
		return wire.ClusterAnswer{}, wire.NewError(wire.CodeBusy, fmt.Sprintf("no voter of the fleet took the word within %s, so nothing was done (%v)", leaveTimeout, none),
			"bring a voter back, or go without the fleet's word: pacectl fleet leave --force")
	default:
		n.effect(n.goOnLeaving)
		return wire.ClusterAnswer{}, wire.NewError(wire.CodeBusy, fmt.Sprintf("the fleet was asked and has not answered within %s (%v); this machine goes on leaving by itself", leaveTimeout, err),
			"pacectl node shows when it is a fleet of its own; pacectl fleet leave --force does not wait")
	}
	if err := n.until(ctx, inMode(formation.Solitary)); err != nil {
		return wire.ClusterAnswer{}, err
	}
	return wire.ClusterAnswer{Text: "this machine has left the fleet " + own.Cluster + " and is a fleet of its own; its key is not revoked, and it does not ask that fleet for an hour"}, nil
}

// giveUpAsk ends the ask of a pending machine.
func (n *Node) giveUpAsk(ctx context.Context, own formation.Own) (wire.ClusterAnswer, error) {
	if !n.post(func(now time.Time) {
		if n.form.Own().Mode == formation.Pending {
			n.step(now, formation.Event{Kind: formation.EvGiveUpAsk})
		}
	}) {
		return wire.ClusterAnswer{}, errStopping
	}
	if err := n.until(ctx, func(o formation.Own) bool { return o.Mode != formation.Pending }); err != nil {
		return wire.ClusterAnswer{}, err
	}
	asked := ""
	if own.Target != nil {
		asked = " at the fleet " + own.Target.Cluster
	}
	return wire.ClusterAnswer{Text: "the ask" + asked + " is given up; it is not asked again for an hour"}, nil
}

// leaveAlone goes without the fleet's word, and says what it leaves there.
func (n *Node) leaveAlone(ctx context.Context, own formation.Own) (wire.ClusterAnswer, error) {
	v := n.view.Load()
	said := "this machine has left the fleet " + own.Cluster + " and is a fleet of its own"
	voters, others := v.CountRole(fleet.RoleVoter), v.Len()-1
	switch {
	case own.Mode == formation.Voter && others == 0:
		said += "; nobody else was in it"
	case own.Mode == formation.Voter && voters == 1:
		said += fmt.Sprintf("; %s there without a voter: on one of them, pacectl fleet recover", plural(others, "machine is left", "machines are left"))
	case own.Mode == formation.Voter:
		said += fmt.Sprintf("; that fleet still lists it and counts its vote among %d: there, pacectl member forget %s", voters, n.id)
	default:
		said += "; that fleet still lists it: there, pacectl member forget " + n.id
	}
	if !n.post(func(now time.Time) { n.left(now, n.body) }) {
		return wire.ClusterAnswer{}, errStopping
	}
	if err := n.until(ctx, inMode(formation.Solitary)); err != nil {
		return wire.ClusterAnswer{}, err
	}
	return wire.ClusterAnswer{Text: said}, nil
}

// tryLeaving asks the leader to remove this machine's own row, until it is gone. That it is no member any more is an answer
// too: an earlier one was lost. Whoever votes is taken out of consensus first, which takes some seconds.
func (n *Node) tryLeaving(ctx context.Context) error {
	leaves := n.fleetNow()
	for {
		votes := n.mayVote()
		_, err := n.askLeader(ctx, wire.ClusterRequest{Op: "leave", ID: n.id})
		var refused *wire.Error
		gone := errors.As(err, &refused) && refused.Code == wire.CodeNotMember
		if errors.Is(err, errOtherFleet) || n.fleetNow() != leaves {
			return nil // it is out already
		}
		if err != nil && !gone {
			return err
		}
		still := true
		if err := n.ask(ctx, func(now time.Time) {
			if gone || !votes {
				n.left(now, n.body)
			}
			own := n.form.Own()
			still = inFleet(own.Mode) && n.body != nil && !gone && votes
		}); err != nil || !still {
			return err
		}
		select {
		case <-ctx.Done():
			return &noAnswer{last: errors.New("this machine is being taken out of consensus"), sent: true}
		case <-time.After(askAgainEvery):
		}
	}
}

// mayVote reports whether raft may hold this machine: what a learner's row says of anybody else is past.
func (n *Node) mayVote() bool {
	m, ok := n.view.Load().Member(n.id)
	return n.Mode() == formation.Voter || ok && m.Role != fleet.RoleLearner
}

// left begins the move out of the fleet, unless it is underway already: the log's entry and the leader's answer say the
// same.
func (n *Node) left(now time.Time, b *body) {
	own := n.form.Own()
	if b == nil || n.body != b || own.Mode != formation.Learner && own.Mode != formation.Voter {
		return
	}
	n.log.Warn("this machine leaves its fleet and becomes a fleet of its own", "fleet", control.Word(b.cluster))
	n.step(now, formation.Event{Kind: formation.EvTrigger, Trigger: formation.Left})
}

// goOnLeaving finishes what a stop, a crash or a silent leader interrupted.
func (n *Node) goOnLeaving(ctx context.Context) {
	if !n.leavingOn.CompareAndSwap(false, true) {
		return
	}
	defer n.leavingOn.Store(false)
	for {
		try, cancel := context.WithTimeout(ctx, leaveTimeout)
		err := n.tryLeaving(try)
		cancel()
		var refused *wire.Error
		if errors.As(err, &refused) {
			n.log.Warn("the fleet does not let this machine leave", "error", control.Sentence(refused.Text))
			if err := n.setLeaving(ctx, false); err != nil {
				n.log.Error("formation record not written", "error", err.Error())
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(leaveAgainEvery):
		}
		still := false
		if n.ask(ctx, func(time.Time) { still = n.rec.Leaving }) != nil || !still {
			return
		}
	}
}

// setLeaving keeps, durably, whether this machine is on its way out.
func (n *Node) setLeaving(ctx context.Context, on bool) error {
	return n.saveRecord(ctx, func(rec *statedir.Record) { rec.Leaving = on })
}

// saveRecord writes a change of the record and waits until it is durable.
func (n *Node) saveRecord(ctx context.Context, change func(*statedir.Record)) error {
	done := make(chan error, 1)
	if err := n.ask(ctx, func(time.Time) {
		n.keepRecordThen(change, func(err error) { done <- err })
	}); err != nil {
		return err
	}
	select {
	case err := <-done:
		if err != nil {
			return wire.NewError(wire.CodeRefusedByRule, "the formation record could not be written: "+err.Error(), "df -h "+n.dir.Path())
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-n.loopDone:
		return errStopping
	}
}

// until waits until formation's record is as it is wished.
func (n *Node) until(ctx context.Context, as func(formation.Own) bool) error {
	done := make(chan struct{})
	if err := n.ask(ctx, func(time.Time) {
		if n.body != nil && as(n.form.Own()) {
			close(done)
			return
		}
		n.awaited = append(n.awaited, awaited{as, done})
	}); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-n.loopDone:
		return errStopping
	}
}

func inMode(m formation.Mode) func(formation.Own) bool {
	return func(o formation.Own) bool { return o.Mode == m }
}

// awaited is somebody who waits for a move.
type awaited struct {
	as   func(formation.Own) bool
	done chan struct{}
}

// tellAwaiting tells those whose move has come.
func (n *Node) tellAwaiting(own formation.Own) {
	n.awaited = slices.DeleteFunc(n.awaited, func(a awaited) bool {
		if a.as(own) {
			close(a.done)
			return true
		}
		return false
	})
}
