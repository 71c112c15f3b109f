package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"pace-node/internal/consensus"
	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

// proposeTimeout bounds a verb that needs a quorum: it ends with a sentence, never with a hang.
const proposeTimeout = 30 * time.Second

// leaderInfo is who leads the fleet as far as this machine knows.
type leaderInfo struct {
	id, endpoint string
	key          identity.PublicKey
}

// leader is asked on any goroutine.
func (n *Node) leader() leaderInfo {
	if l := n.leads.Load(); l != nil {
		return *l
	}
	return leaderInfo{}
}

// Access implements control.Backend.
func (n *Node) Access(p control.Peer) (wire.Access, *wire.Error) {
	v := n.view.Load()
	if v == nil {
		return wire.AccessAnybody, nil
	}
	if rev, revoked := v.Revoked(p.Key); revoked {
		return wire.AccessAnybody, wire.NewError(wire.CodeRevoked, fmt.Sprint(rev), "this machine was forgotten: pace-node --reset-identity makes it a new one")
	}
	m, ok := v.ByKey(p.Key)
	switch {
	case !ok:
		// A session from before this machine obeyed the order may still be open.
		return wire.AccessAnybody, n.dissolvedFor(clusterOf(p))
	case m.Role != fleet.RoleVoter:
		return wire.AccessMember, nil
	case n.leader().key == p.Key:
		return wire.AccessLeader, nil
	}
	return wire.AccessAdministrator, nil
}

// Hello implements control.Backend.
func (n *Node) Hello(_ context.Context, p control.Peer, h wire.Hello) (wire.Hello, error) {
	if e := n.dissolvedFor(h.Cluster); e != nil {
		return wire.Hello{}, e
	}
	if s, ok := p.Session.(*netio.Session); ok {
		s.SetHello(h, time.Now())
		n.post(func(now time.Time) { n.greeted(now, p, h) })
	}
	own := n.ownHello()
	if p.Addr.IsValid() {
		own.Seen = p.Addr.Addr().Unmap().String()
	}
	if v := n.view.Load(); v != nil && n.member(p.Key) {
		own.Revision = v.Revision()
	}
	return own, nil
}

// FleetSummary implements control.Backend.
func (n *Node) FleetSummary(_ context.Context, p control.Peer, nonce [32]byte) (wire.FleetSummaryAnswer, error) {
	s := n.self.Load()
	if s == nil {
		return wire.FleetSummaryAnswer{}, wire.NewError(wire.CodeBusy, "this machine is starting", "try again in a second")
	}
	raw, ok := wire.FitSummary(s)
	if !ok {
		return wire.FleetSummaryAnswer{}, wire.NewError(wire.CodeRefusedByRule, "this machine's summary does not fit: its endpoints are too long", "give it a shorter --advertise")
	}
	key := n.key.Public()
	sig := n.key.Sign(wire.FleetSummaryMessage(nonce, raw, key))
	return wire.FleetSummaryAnswer{Summary: *s, Raw: raw, Key: key, Signature: sig}, nil
}

// Follow implements control.Backend.
func (n *Node) Follow(ctx context.Context, p control.Peer, r wire.FollowRequest) (func(func(...[]byte) error) error, error) {
	m, ok := n.view.Load().ByKey(p.Key)
	if !ok {
		return nil, wire.NewError(wire.CodeNotMember, "", "")
	}
	var b *body
	if err := n.ask(ctx, func(time.Time) { b = n.body }); err != nil {
		return nil, err
	}
	if b == nil || b.source == nil {
		return nil, n.notLeader("only voters are followed")
	}
	f, err := b.source.Begin(m.ID, r)
	if err != nil {
		return nil, err
	}
	return func(push func(...[]byte) error) error {
		ended := make(chan struct{})
		n.followers.Store(p.Session, ended)
		err := f.Run(ctx, push)
		if e := (*wire.Error)(nil); errors.As(err, &e) && e.Code == wire.CodeTooLarge {
			n.post(func(now time.Time) {
				n.noise.say(now, "the fleet's state is too large to be sent", "to", m.ID, "error", control.Sentence(e.Error()))
			})
		}
		n.followers.CompareAndDelete(p.Session, ended)
		close(ended)
		return err
	}, nil
}

const (
	// lastWordTime is what a forgotten machine is given to be sent the entry that says so, and the answer to what it asked:
	// it may have been told so by its own operator. Its sessions end within a second.
	lastWordTime = 800 * time.Millisecond
	// lastWordEvery is how often it is looked whether that is done.
	lastWordEvery = 20 * time.Millisecond
)

// lastWord waits until a session that is about to be closed has been sent everything that it is owed.
func (n *Node) lastWord(ctx context.Context, s *netio.Session) {
	timer := time.NewTimer(lastWordTime)
	defer timer.Stop()
	if ended, ok := n.followers.Load(s); ok {
		select {
		case <-ended.(chan struct{}):
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
	tick := time.NewTicker(lastWordEvery)
	defer tick.Stop()
	for s.Err() == nil && s.Serves() > 0 {
		select {
		case <-tick.C:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// notLeader is error 5: its text is where the leader is, so that a client can follow it.
func (n *Node) notLeader(hint string) *wire.Error {
	return wire.NewError(wire.CodeNotLeader, n.leader().endpoint, hint)
}

// notLeading is notLeader for whoever wants something committed: that this machine would lead, and cannot write, is no
// matter of asking another.
func (n *Node) notLeading(hint string) *wire.Error {
	if l := n.leader(); l.id == "" || l.id == n.id {
		if err := n.serving.Load().writeErr(); err != nil {
			return wire.NewError(wire.CodeRefusedByRule, "this machine cannot write the fleet's log, so it leads no fleet: "+err.Error(), "make room, and it goes on by itself: df -h "+n.dir.Path())
		}
		if l.id == "" {
			hint = n.leaderlessHint()
		}
	}
	return n.notLeader(hint)
}

// propose commits one command through this node, which must lead, and gives the refusal of the state as an error.
func (n *Node) propose(ctx context.Context, c fleet.Command) (fleet.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	var b *body
	if err := n.ask(ctx, func(time.Time) { b = n.body }); err != nil {
		return fleet.Result{}, err
	}
	if !b.leads() {
		return fleet.Result{}, n.notLeading("ask the leader")
	}
	return b.propose(ctx, c)
}

func (b *body) propose(ctx context.Context, c fleet.Command) (fleet.Result, error) {
	res, err := b.cons.Apply(ctx, c)
	switch {
	case err == nil && res.Err == "":
		b.n.freshen(b)
		return res, nil
	case err == nil:
		return res, wire.NewError(wire.CodeRefusedByRule, res.Err, res.Hint)
	case isAny(err, consensus.ErrNotLeader, consensus.ErrClosed):
		return res, b.n.notLeading("ask the leader")
	case errors.Is(err, fleet.ErrFormatHeldBack):
		holder := b.cons.View().HolderBack()
		return res, wire.NewError(wire.CodeRefusedByRule, wire.Printable(holder)+" runs a version that does not read this change yet", "upgrade "+holder+" first; pacectl member list shows the versions")
	case isAny(err, consensus.ErrLost):
		if b.cons.WriteErr() != nil {
			return res, b.n.notLeading("ask the leader")
		}
		return res, wire.NewError(wire.CodeBusy, "this machine lost the lead before a quorum had answered; it may be done all the same", "look whether it is, at pacectl fleet status, and where not do it again")
	case isAny(err, consensus.ErrTimeout):
		v := b.cons.View()
		return res, wire.NewError(wire.CodeBusy, fmt.Sprintf("no quorum of the fleet's %d voters answered within %s; it may still be done later", len(v.Voters()), proposeTimeout),
			hintQuorum)
	}
	return res, err
}

// Announce implements control.Backend.
func (n *Node) Announce(ctx context.Context, p control.Peer, a wire.Announce) error {
	m, ok := n.view.Load().ByKey(p.Key)
	if !ok {
		return wire.NewError(wire.CodeNotMember, "", "")
	}
	n.post(func(now time.Time) { n.announced(now, m.ID, a) })
	if !n.isLeader() {
		return nil
	}
	if !n.announceChanges(m, a) {
		return nil
	}
	if err := n.announces.wait(ctx, m.ID); err != nil {
		return err
	}
	_, err := n.propose(ctx, fleet.Announce(m.ID, a))
	return err
}

// announceChanges says whether the fleet's state would look otherwise: what is said again is not written again, nor what the
// record of the machine's confirmation will hold.
func (n *Node) announceChanges(m fleet.Member, a wire.Announce) bool {
	p := m.Provision
	return rosterChanges(m, a) || (p.Component != a.Component || p.BootID != a.BootID || p.ConfigDigest != a.ConfigDigest) &&
		!(a.Component == wire.ComponentServer && n.provisioner.Carries(m.ID, a.ConfigDigest))
}

// rosterChanges says whether the roster would.
func rosterChanges(m fleet.Member, a wire.Announce) bool {
	if !m.Arrived || m.Name != a.Name || m.Platform != a.Platform || m.Version != a.Version || m.Format != a.Format || m.Endpoints.FC != a.Endpoints.FC {
		return true
	}
	if a.Endpoints.Raft != "" && m.Endpoints.Raft != a.Endpoints.Raft || len(m.Labels) != len(a.Labels) {
		return true
	}
	for k, v := range a.Labels {
		if m.Labels[k] != v {
			return true
		}
	}
	return false
}

// Cluster implements control.Backend.
func (n *Node) Cluster(ctx context.Context, p control.Peer, r wire.ClusterRequest) (wire.ClusterAnswer, error) {
	if op := n.localOp(r.Op); op != nil && p.Local {
		return op(ctx, r)
	}
	if !n.isLeader() {
		return wire.ClusterAnswer{}, n.notLeading("ask the leader")
	}
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	by, at := n.actor(p), time.Now().Unix()
	v := n.view.Load()
	mode := *n.mode.Load()
	if mode == formation.Pending && r.Op != "forget" {
		own, err := n.own(ctx)
		if err != nil {
			return wire.ClusterAnswer{}, err
		}
		if own.Target != nil { // else it has just gone back to its own fleet
			return wire.ClusterAnswer{}, wire.NewError(wire.CodeRefusedByRule, "this machine asks another fleet to join, so it admits nobody and is set nothing",
				"do it on that fleet's leader: --scheduler="+own.Target.Endpoint)
		}
	}
	switch r.Op {
	case "set":
		if err := checkSetting(r.Name, r.Value); err != nil {
			return wire.ClusterAnswer{}, err
		}
		res, err := n.propose(ctx, fleet.Set(r.Name, r.Value, by, at))
		value := cmp.Or(r.Value, "at its default")
		if strings.HasPrefix(value, "{") { // a line of output holds no braces; pacectl fleet status shows the options
			value = "as given"
		}
		return wire.ClusterAnswer{Revision: res.Revision, Text: fmt.Sprintf("%s is %s from now on", r.Name, value)}, err
	case "admit-learner":
		if len(r.Lines) > 0 {
			return n.preApproveAll(ctx, r.Lines, by, at)
		}
		return n.decide(ctx, v, fleet.VerbAdmitLearner, r, by, at)
	case "admit":
		return n.decide(ctx, v, fleet.VerbAdmit, r, by, at)
	case "forget":
		return n.decide(ctx, v, fleet.VerbForget, r, by, at)
	case "leave":
		m, ok := v.ByKey(p.Key)
		if !ok || r.ID != "" && r.ID != m.ID {
			return wire.ClusterAnswer{}, wire.NewError(wire.CodeRefusedByRule, "a machine leaves at its own word only", "pacectl fleet leave on that machine, or pacectl member forget "+r.ID)
		}
		return n.decide(ctx, v, fleet.VerbLeave, wire.ClusterRequest{ID: m.ID}, by, at)
	}
	if r.Op == "transfer" {
		return n.transfer(ctx, r.ID)
	}
	return wire.ClusterAnswer{}, wire.NewError(wire.CodeRefusedByRule, fmt.Sprintf("this version does not do %q to a fleet", r.Op), "pacectl --help lists what it does")
}

// decide asks the table of membership rules, and commits what it says.
func (n *Node) decide(ctx context.Context, v *fleet.View, verb fleet.MembershipVerb, r wire.ClusterRequest, by string, at int64) (wire.ClusterAnswer, error) {
	var key *identity.PublicKey
	if r.Key != "" {
		k, err := identity.ParsePublicKey(r.Key)
		if err != nil {
			return wire.ClusterAnswer{}, wire.NewError(wire.CodeRefusedByRule, err.Error(), "paste the key as --print-identity printed it")
		}
		key = &k
	}
	d := v.Decide(verb, r.ID, key, r.Endpoint, by, at)
	if d.Refused() {
		return wire.ClusterAnswer{}, wire.NewError(wire.CodeRefusedByRule, d.Text, d.Hint)
	}
	if r.ID == n.id && (d.Do == fleet.DoDemote || d.Do == fleet.DoLeaveVotersFirst) {
		return wire.ClusterAnswer{}, n.stepDown(ctx) // whoever leads then does it
	}
	ans := wire.ClusterAnswer{Revision: v.Revision(), Text: d.Text}
	if d.Commit {
		res, err := n.propose(ctx, d.Command)
		if err != nil {
			return wire.ClusterAnswer{}, err
		}
		ans.Revision = res.Revision
	}
	if d.Do == fleet.DoLeaveVotersFirst {
		return n.gone(ctx, r.ID, verb == fleet.VerbLeave, ans)
	}
	return ans, nil
}

// preApproveAll takes a list of machines that are to come. Who is in the fleet already stays what it is, so that a whole
// inventory may be given, and given again.
func (n *Node) preApproveAll(ctx context.Context, lines []string, by string, at int64) (wire.ClusterAnswer, error) {
	v := n.view.Load()
	out := wire.ClusterAnswer{Revision: v.Revision()}
	awaited, members := 0, 0
	for i, line := range lines {
		id, key, err := identity.ParseAdmit(line)
		if err != nil {
			return out, wire.NewError(wire.CodeRefusedByRule, fmt.Sprintf("line %d: %v", i+1, err), "each line is <id>@<key>; "+recorded(i))
		}
		if _, already := v.Awaited(id, key); already { // perhaps with a seat, which it keeps
			awaited++
			continue
		}
		if m, ok := v.Member(id); ok && m.Key == key {
			members++
		} else {
			awaited++
		}
		ans, err := n.decide(ctx, n.view.Load(), fleet.VerbPreApprove, wire.ClusterRequest{ID: id, Key: key.String()}, by, at)
		var refused *wire.Error
		if errors.As(err, &refused) && refused.Code == wire.CodeRefusedByRule {
			return out, wire.NewError(refused.Code, refused.Text, refused.Hint+"; "+recorded(i))
		}
		if err != nil {
			return out, err
		}
		out.Revision = max(out.Revision, ans.Revision)
	}
	out.Text = plural(awaited, "machine is admitted as soon as it asks", "machines are admitted as soon as they ask")
	if members > 0 {
		out.Text += ", and " + plural(members, "is a member already", "are members already")
	}
	return out, nil
}

// recorded says what became of the lines of a list before the one that is refused.
func recorded(lines int) string {
	if lines == 0 {
		return "nothing of the list was recorded"
	}
	return "of the list, what comes before it is recorded"
}

// actor is who did it, for the audit: the key of another voter, or this machine's own for its administrators.
func (n *Node) actor(p control.Peer) string {
	if p.Local || p.Key.IsZero() {
		return n.key.Public().String()
	}
	return p.Key.String()
}

func (n *Node) isLeader() bool { return n.leader().id == n.id }

func encode(v any) (json.RawMessage, error) { return json.Marshal(v) }
