package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"pace-node/internal/consensus"
	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

const (
	// seatAskTimeout bounds one question of how far a promotion has come.
	seatAskTimeout = 2 * time.Second
	// handOverTime is what another voter is given to take leadership over.
	handOverTime = 3 * time.Second
	// handOverTries is how often each of them is told to stand.
	handOverTries = 2
	// stallShownAfter is how long a promotion stands still before it is shown; one that goes well takes seconds.
	stallShownAfter = time.Minute
	// stallShownFor is how long a promotion that was withdrawn is shown.
	stallShownFor = time.Hour
)

// nudge has whoever tends seats look now.
func (b *body) nudge() {
	select {
	case b.nudges <- struct{}{}:
	default:
	}
}

// reconcile brings raft's configuration to the wished roles while this voter leads, one change at a time. What a crash or
// another leader left half-done is taken from the two themselves: nothing else is remembered.
func (b *body) reconcile() {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		for b.ctx.Err() == nil && b.leads() && b.reconcileOnce() {
		}
		if !b.leads() && len(b.turns)+len(b.withdrawn) > 0 {
			clear(b.turns)
			clear(b.withdrawn)
			b.n.board.Clear("promotion-stalled")
		}
		if len(b.turns) > 0 {
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

// reconcileOnce makes the next change, and reports whether there may be another one at once.
func (b *body) reconcileOnce() bool {
	n := b.n
	in := fleet.ReconcileInput{View: b.cons.View(), Self: n.id, Seats: b.cons.Seats(), Progress: map[string]fleet.Progress{}}
	if in.Seats == nil {
		return false
	}
	ids, waits := fleet.Promoting(in.View, n.id, in.Seats)
	reports := map[string]*fleet.SeatReport{}
	for id := range b.turns {
		if !slices.Contains(ids, id) || waits[id] {
			delete(b.turns, id)
		}
	}
	for _, id := range ids {
		if waits[id] {
			continue
		}
		if _, begun := b.turns[id]; !begun {
			b.turns[id] = time.Now()
		}
		reports[id] = b.askSeat(id)
		in.Progress[id] = fleet.ProgressOf(reports[id], time.Since(b.turns[id]))
	}
	b.showStalled(in.View, reports)
	step, id := fleet.Reconcile(in)
	if step == fleet.StepNone {
		return false
	}
	ctx, cancel := context.WithTimeout(b.ctx, proposeTimeout)
	defer cancel()
	m, _ := in.View.Member(id)
	if err := b.take(ctx, step, id, m, reports[id]); err != nil {
		if b.ctx.Err() == nil {
			n.log.Info("a change of the fleet's voters waits", "step", stepNames[step], "id", control.Word(id), "error", err.Error())
		}
		return false
	}
	n.log.Info("the fleet's voters", "step", stepNames[step], "id", control.Word(id), "name", control.Word(m.Name))
	return step != fleet.StepHandOver
}

// stepNames are the words of the log.
var stepNames = map[fleet.ReconcileStep]string{
	fleet.StepRecordVoter: "recorded as a voter", fleet.StepHandOver: "hands leadership over", fleet.StepRemoveSeat: "taken out of consensus",
	fleet.StepFinish: "removed from the roster", fleet.StepAddNonvoter: "is sent the log", fleet.StepMakeVoter: "is given a vote",
	fleet.StepWithdraw: "promotion withdrawn",
}

// take makes one change.
func (b *body) take(ctx context.Context, step fleet.ReconcileStep, id string, m fleet.Member, r *fleet.SeatReport) error {
	n := b.n
	by, at := n.key.Public().String(), time.Now().Unix()
	var c fleet.Command
	switch step {
	case fleet.StepHandOver:
		return b.handOver(ctx, "")
	case fleet.StepRemoveSeat:
		return b.cons.RemoveSeat(ctx, id)
	case fleet.StepAddNonvoter:
		return b.cons.AddNonvoter(ctx, id)
	case fleet.StepMakeVoter:
		return b.cons.AddVoter(ctx, id)
	case fleet.StepRecordVoter:
		c = fleet.SetRole(id, fleet.RoleVoter, by, at)
	case fleet.StepWithdraw:
		b.withdrawn[id] = stall{at: time.Now(), detail: stallText(m, r, true)}
		c = fleet.SetRole(id, fleet.RoleLearner, by, at)
	case fleet.StepFinish:
		if c = fleet.Forget(id, by, at); m.OwnWish {
			c = fleet.Leave(id, by, at)
		}
	}
	_, err := b.propose(ctx, c)
	return err
}

// handOver has another voter lead: the one that is named, or one with a live session, since a voter that is away would have
// to be waited for.
func (b *body) handOver(ctx context.Context, to string) error {
	if b == nil || b.cons == nil { // between two modes, or a learner already
		return consensus.ErrNotLeader
	}
	ctx, cancel := context.WithTimeout(ctx, handOverTime)
	defer cancel()
	var others []string
	seats := b.cons.Seats()
	for _, m := range b.cons.View().Voters() {
		if m.ID != b.n.id && seats[m.ID] == fleet.SeatVoter && (to == "" || to == m.ID) {
			if b.n.hub.ByKey(m.Key) != nil {
				others = slices.Insert(others, 0, m.ID)
			} else {
				others = append(others, m.ID)
			}
		}
	}
	err := consensus.ErrNobody
	// The first try may find the stream broken that raft kept from before the other one's restart.
	for range handOverTries {
		for _, id := range others {
			if err = b.cons.Transfer(ctx, id); err == nil || !errors.Is(err, consensus.ErrNobody) {
				return err
			}
		}
	}
	return err
}

// askSeat asks a member how far its promotion has come; nil is no answer.
func (b *body) askSeat(id string) *fleet.SeatReport {
	n := b.n
	m, ok := b.cons.View().Member(id)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(b.ctx, seatAskTimeout)
	defer cancel()
	var out fleet.SeatReport
	if err := n.askStatus(ctx, m, "seat", &out); err != nil {
		return nil
	}
	return &out
}

// askStatus asks one member's status over a session of its key.
func (n *Node) askStatus(ctx context.Context, m fleet.Member, what string, out any) error {
	return n.askStatusOf(ctx, m, wire.StatusRequest{What: what}, out)
}

func (n *Node) askStatusOf(ctx context.Context, m fleet.Member, r wire.StatusRequest, out any) error {
	s, err := n.voterSession(ctx, m)
	if err != nil {
		return err
	}
	if err := n.ourWord(ctx, s); err != nil {
		return err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	reply, err := netio.Call(ctx, s, wire.VerbStatus, b)
	if err != nil {
		return err
	}
	return json.Unmarshal(reply, out)
}

// stall is a promotion that stands still, or was withdrawn for that.
type stall struct {
	at     time.Time
	detail string
}

func stallText(m fleet.Member, r *fleet.SeatReport, withdrawn bool) string {
	text := control.Word(m.ID) + " " + control.Word(m.Name)
	if withdrawn {
		text += " was to become a voter and stays a learner: within " + fleet.PromotionPatience.String()
	} else {
		text += " is to become a voter: so far"
	}
	port := m.Endpoints.Raft
	if r != nil && r.Endpoint != "" {
		port = r.Endpoint
	}
	switch {
	case r == nil:
		return text + " it did not answer; its consensus port is " + control.Word(port)
	case !r.Open && r.Said != "":
		return text + " its consensus port " + control.Word(port) + " did not open: " + control.Sentence(r.Said)
	case !r.Open:
		return text + " its consensus port " + control.Word(port) + " did not open"
	case r.Counted == 0:
		return text + " nothing reached its consensus port " + control.Word(port) + ": let TCP through to it from the voters"
	}
	return text + fmt.Sprintf(" its log came to revision %d of %d, over its consensus port %s", r.Counted, r.Followed, control.Word(port))
}

// showStalled raises promotions that stand still.
func (b *body) showStalled(v *fleet.View, reports map[string]*fleet.SeatReport) {
	detail, id, raft := "", "", ""
	add := func(who fleet.Member, text string) {
		if detail != "" {
			detail += "; "
		}
		detail += text
		if id == "" {
			id, raft = who.ID, who.Endpoints.Raft
		}
	}
	for key, w := range b.withdrawn {
		if m, ok := v.Member(key); !ok || m.Role != fleet.RoleLearner || time.Since(w.at) >= stallShownFor {
			delete(b.withdrawn, key)
		}
	}
	for _, key := range sortedKeys(b.withdrawn) {
		m, _ := v.Member(key)
		add(m, b.withdrawn[key].detail)
	}
	for _, key := range sortedKeys(reports) {
		if m, ok := v.Member(key); ok && time.Since(b.turns[key]) >= stallShownAfter {
			add(m, stallText(m, reports[key], false))
		}
	}
	b.n.board.Set(detail != "", "promotion-stalled", detail, id, raft)
}
