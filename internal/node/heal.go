package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/discovery"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// Times of a split that heals.
const (
	// healEvery is how often the leader of a fleet that is to dissolve proposes it.
	healEvery = time.Minute
	// lingerMost is how long a voter stays, at most, until every connected member has acknowledged the order.
	lingerMost = 60 * time.Second
	// lingerLeast is how long the leader stays in any case where there are other voters: it is by its next heartbeats that
	// they learn that the order is committed.
	lingerLeast = 3 * time.Second
	// pollEvery is how often those who have not acknowledged are asked.
	pollEvery = 5 * time.Second
	// acknowledgeTimeout bounds telling one voter that the order is applied here.
	acknowledgeTimeout = 5 * time.Second
)

// healPoints are the steps between the proposal of an order and the move that obeys it.
var healPoints = []string{"node.heal.proposed.before", "node.heal.proposed.after", "node.heal.acknowledged.before", "node.heal.acknowledged.after"}

// healing is what the loop knows of a split: the proposal under way, and the order that is being obeyed.
type healing struct {
	proposed time.Time // last
	busy     bool
	obeying  *obeying
	refused  string // the order that this machine does not obey, as it was signed
}

// obeying is an order on its way into the record.
type obeying struct {
	body    *body
	order   []byte // as it was signed
	cluster string // that it dissolves
	target  formation.Target
	signer  identity.PublicKey
	since   time.Time       // nothing is done before
	until   time.Time       // nobody is waited for any longer
	waiting map[string]bool // members that have not acknowledged
	polled  time.Time       // when those were last asked
	told    bool            // this machine has acknowledged it itself
	began   bool            // the move
}

// evidenceOf is what a proven speaker of another fleet shows of a split, by the applied roster.
func (n *Node) evidenceOf(speaker string, key identity.PublicKey) formation.Evidence {
	v := n.view.Load()
	if v == nil {
		return formation.NoSplit
	}
	m, ok := v.Member(speaker)
	if _, revoked := v.Revoked(key); !ok || m.Key != key || revoked {
		return formation.NoSplit
	}
	if m.Role == fleet.RoleVoter {
		return formation.SplitHealsByItself
	}
	return formation.SplitByHand
}

// heal has the leader of a fleet that is to dissolve into another propose it. The loop's, at each beat.
func (n *Node) heal(now time.Time) {
	n.goOnObeying(now)
	b, h := n.body, &n.healing
	if !b.leads() || h.busy || !h.proposed.IsZero() && now.Sub(h.proposed) < healEvery {
		return
	}
	f, ok := n.form.Split(now)
	if !ok {
		return
	}
	if d := b.view().Dissolving(); d != nil && d.Survivor == f.Cluster && d.LeaderKey == f.Leader.Key && d.LeaderEndpoint == f.Leader.Endpoint {
		return // it is being obeyed
	}
	h.busy, h.proposed = true, now
	n.effect(func(ctx context.Context) {
		err := n.proposeDissolve(ctx, b, f)
		n.post(func(now time.Time) { h.busy = false })
		if err != nil && ctx.Err() == nil {
			n.log.Warn("the fleet is split, and could not be dissolved into the other part yet", "survivor", control.Word(f.Cluster), "error", control.Sentence(err.Error()), "again-in", healEvery.String())
		}
	})
}

// proposeDissolve asks the survivor's leader itself first: its endpoint and key go into the order, and everybody goes there.
func (n *Node) proposeDissolve(ctx context.Context, b *body, f formation.VisibleFleet) error {
	key := identity.PublicKey(f.Leader.Key)
	ask, cancel := context.WithTimeout(ctx, formation.DialTimeout)
	defer cancel()
	got, err := n.fetchSummary(ask, f.Leader.Endpoint, &key, formation.OriginBeacon)
	if err != nil {
		return fmt.Errorf("the leader of that fleet was not reached: %w", err)
	}
	if got.Cluster != f.Cluster || got.State != wire.StateEstablished || got.Leader.ID == "" || !got.Leader.HasKey || got.Leader.Key != f.Leader.Key || got.Leader.Endpoint == "" {
		return errors.New("the machine that should lead that fleet does not")
	}
	var still bool
	if err := n.ask(ctx, func(now time.Time) {
		// What its leader says decides, and the roster as it is now: a key may have been revoked since it was seen.
		got.Evidence = n.evidenceOf(f.Witness, f.WitnessKey)
		still = n.body == b && formation.Classify(n.form.Own(), got, got.Evidence, n.pin) == formation.TieBreakYield
	}); err != nil {
		return err
	}
	if !still {
		return errors.New("what showed the split holds no longer")
	}
	order := fleet.SignDissolve(b.cluster, got.Cluster, got.Leader.ID, key, got.Leader.Endpoint, n.id, n.key)
	n.point("node.heal.proposed.before")
	if _, err := b.propose(ctx, fleet.DissolveInto(order.Append(nil), n.key.Public().String(), time.Now().Unix())); err != nil {
		return err
	}
	n.point("node.heal.proposed.after")
	n.log.Warn("the fleet is split: this part dissolves into the other", "fleet", control.Word(b.cluster), "survivor", control.Word(got.Cluster), "leader", control.Word(got.Leader.Endpoint),
		"shown-by", control.Word(f.Witness), "key", f.WitnessKey.String())
	return nil
}

// dissolving is told the state as it was just applied. An order in it is obeyed once this machine has said so to the voters
// and, on a voter, everybody who is connected has.
func (n *Node) dissolving(now time.Time, b *body, v *fleet.View) {
	h := &n.healing
	d := v.Dissolving()
	if d == nil {
		if o := h.obeying; o != nil && o.body == b && o.order != nil && !o.began {
			h.obeying = nil // a recovery took it back
		}
		n.showForeign()
		return
	}
	if o := h.obeying; o != nil && o.body == b && (o.began || slices.Equal(o.order, d.Raw)) {
		return
	}
	o := n.obey(now, b, &d.DissolveOrder, d.Raw)
	if o == nil {
		return
	}
	n.stopAdmitting(now, d.LeaderEndpoint)
	o.until = now.Add(lingerMost)
	if b.cons != nil {
		for m := range v.Members() {
			// Voters are the leader's to wait for.
			if m.ID != n.id && (m.Role != fleet.RoleVoter || b.leads()) && n.connected(now, m) {
				o.waiting[m.ID] = true
			}
		}
		if b.leads() && len(v.Voters()) > 1 {
			o.since = now.Add(lingerLeast)
		}
	}
	n.log.Warn("this fleet dissolves into another", "fleet", control.Word(b.cluster), "survivor", control.Word(d.Survivor), "leader", control.Word(d.LeaderEndpoint), "signer", control.Word(d.Signer), "waits-for", len(o.waiting))
	n.showForeign()
	n.effect(func(ctx context.Context) {
		n.point("node.heal.acknowledged.before")
		n.acknowledge(ctx)
		n.point("node.heal.acknowledged.after")
		n.post(func(now time.Time) { o.told = true; n.goOnObeying(now) })
	})
}

// obey begins to obey an order that was judged, nil where this machine does not: its pin asks who signed it.
func (n *Node) obey(now time.Time, b *body, d *wire.DissolveOrder, raw []byte) *obeying {
	h := &n.healing
	signer, _ := n.orderSigner(b, d.Signer)
	leader := identity.PublicKey(d.LeaderKey)
	o := &obeying{body: b, order: raw, cluster: b.cluster, signer: signer.Key, waiting: map[string]bool{},
		target: formation.Target{Cluster: d.Survivor, State: wire.StateEstablished, LeaderID: d.LeaderID, Endpoint: d.LeaderEndpoint, Keys: []identity.PublicKey{leader}, Origin: formation.OriginBeacon, AskedAt: now}}
	if n.form.ObeysDissolve(d.Survivor, signer.Key) {
		h.obeying = o
		return o
	}
	if h.refused != string(raw) {
		h.refused = string(raw)
		n.metrics.Add("pace_dissolve_orders_refused_total", 1, "pinned")
		n.log.Warn("dissolve order not obeyed: --fleet-id does not name who signed it", "survivor", control.Word(d.Survivor), "signer", control.Word(d.Signer), "key", signer.Key.String())
		n.step(now, o.event()) // formation refuses it, and shows why
	}
	return nil
}

func (o *obeying) event() formation.Event {
	return formation.Event{Kind: formation.EvTrigger, Trigger: formation.DissolvedInto, Target: &o.target, From: o.signer}
}

// orderSigner is the voter that an order names, by the applied state, or by the approval before there is one.
func (n *Node) orderSigner(b *body, id string) (fleet.Member, bool) {
	if m, ok := b.view().Member(id); ok || b.learner == nil {
		return m, ok
	}
	for _, m := range b.learner.Voters() {
		if m.ID == id {
			return m, true
		}
	}
	return fleet.Member{}, false
}

// connected reports whether a member of this fleet is there: by a session, or, of a voter, by discovery.
func (n *Node) connected(now time.Time, m fleet.Member) bool {
	if s := n.hub.ByKey(m.Key); s != nil {
		if h, _, said := s.Hello(); said {
			return h.Cluster == n.body.cluster
		}
	}
	elsewhere := slices.ContainsFunc(n.exchange.ForeignSpeakers(now), func(sp discovery.Speaker) bool { return sp.Node == m.ID && sp.Key == m.Key })
	_, _, proven := n.exchange.Lookup(m.ID)
	return proven && m.Role == fleet.RoleVoter && !elsewhere
}

// acknowledge says to the voters of this fleet how far this machine has applied its state: to those that it has a session
// with, and to the leader in any case. One that does not answer keeps nobody.
func (n *Node) acknowledge(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, acknowledgeTimeout)
	defer cancel()
	lead := n.leader().id
	var all sync.WaitGroup
	for _, m := range n.askedVoters() {
		s := n.hub.ByKey(m.Key)
		if s == nil && m.ID != lead {
			continue
		}
		all.Go(func() {
			var err error
			if s == nil {
				s, err = n.voterSession(ctx, m)
			}
			if err == nil {
				err = n.hello(ctx, s)
			}
			if err != nil {
				n.log.Debug("a voter was not told that the dissolve order is applied", "voter", control.Word(m.ID), "error", err.Error())
			}
		})
	}
	all.Wait()
}

// acknowledged takes a member's word on how far it has applied the state.
func (n *Node) acknowledged(now time.Time, id string, revision uint64) {
	o := n.healing.obeying
	if o == nil || !o.waiting[id] {
		return
	}
	if d := o.body.view().Dissolving(); d != nil && revision >= d.Revision {
		delete(o.waiting, id)
		n.goOnObeying(now)
	}
}

// goOnObeying makes the move once nobody is waited for any more.
func (n *Node) goOnObeying(now time.Time) {
	o := n.healing.obeying
	if o == nil || o.began || o.body != n.body || !o.told {
		return
	}
	v := o.body.view()
	for id := range o.waiting {
		if m, ok := v.Member(id); !ok || !n.connected(now, m) { // it is told when it comes back
			delete(o.waiting, id)
		}
	}
	if now.Before(o.since) || len(o.waiting) > 0 && now.Before(o.until) {
		if now.Sub(o.polled) >= pollEvery {
			o.polled = now
			n.pollWaiting(o)
		}
		return
	}
	if len(o.waiting) > 0 {
		n.log.Info("not every member has acknowledged the dissolve order; those are told when they come", "members", len(o.waiting))
	}
	o.began = true
	n.step(now, o.event())
}

// pollWaiting asks those who have not acknowledged how far they are: the word of one may have been lost, and one that has
// obeyed already says so.
func (n *Node) pollWaiting(o *obeying) {
	v := o.body.view()
	for id := range o.waiting {
		m, _ := v.Member(id)
		s := n.hub.ByKey(m.Key)
		if s == nil {
			continue
		}
		n.effect(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, acknowledgeTimeout)
			defer cancel()
			err := n.hello(ctx, s)
			h, _, _ := s.Hello()
			var refused *wire.Error
			n.post(func(now time.Time) {
				switch {
				case err == nil && h.Cluster == o.cluster:
					n.acknowledged(now, id, h.Revision)
				case err == nil, errors.As(err, &refused) && refused.Code == wire.CodeDissolved:
					delete(o.waiting, id) // it is elsewhere already
					n.goOnObeying(now)
				}
			})
		})
	}
}

// keepOrder puts what is obeyed into the record, so that absent members of the fleet that was can be told.
func (n *Node) keepOrder(rec *statedir.Record) error {
	o := n.healing.obeying
	if o == nil || o.cluster != rec.Cluster {
		return errors.New("a move into a survivor without the order that says so")
	}
	rec.Order, rec.OldCluster = o.order, o.cluster
	return nil
}

// dissolvedInto is what members of the fleet that this machine has left by an order are told.
type dissolvedInto struct {
	cluster string
	order   wire.DissolveOrder
}

// showDissolved makes the record's order readable by every goroutine.
func (n *Node) showDissolved(rec statedir.Record) {
	if len(rec.Order) == 0 || rec.OldCluster == rec.Cluster {
		n.dissolved.Store(nil)
		return
	}
	o, err := wire.DecodeDissolveOrder(rec.Order)
	if err != nil { // no record is read, nor written, whose order does not
		n.log.Error("the dissolve order in the formation record does not read; members that were away are not told", "error", err.Error())
		return
	}
	n.dissolved.Store(&dissolvedInto{cluster: rec.OldCluster, order: o})
}

// dissolvedFor is the refusal of whoever speaks as a member of the fleet that was dissolved, nil for anybody else.
func (n *Node) dissolvedFor(cluster string) *wire.Error {
	d := n.dissolved.Load()
	if d == nil || cluster == "" || d.cluster != cluster {
		return nil
	}
	return wire.NewDissolvedError(&d.order)
}

// toldDissolved takes error 18 of a voter: the order that it carries is judged by the applied roster, and counts as the
// entry. It is called on any goroutine.
func (n *Node) toldDissolved(voter string, err error) {
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != wire.CodeDissolved {
		return
	}
	order, oerr := e.Order()
	n.post(func(now time.Time) {
		b := n.body
		if b == nil || n.inMove || n.healing.obeying != nil && n.healing.obeying.began {
			return
		}
		verdict := "malformed"
		if oerr == nil {
			verdict = n.judgeOrder(b, &order)
		}
		if verdict != "" {
			n.metrics.Add("pace_dissolve_orders_refused_total", 1, verdict)
			n.noise.say(now, "dissolve order of a voter not obeyed", "voter", control.Word(voter), "reason", verdict)
			return
		}
		if d := b.view().Dissolving(); d != nil && n.healing.obeying != nil && n.healing.obeying.body == b {
			return // the entry is here already, and is being obeyed
		}
		o := n.obey(now, b, &order, order.Append(nil))
		if o == nil {
			return
		}
		n.log.Warn("the fleet was dissolved into another while this machine was away", "fleet", control.Word(b.cluster), "survivor", control.Word(order.Survivor), "told-by", control.Word(voter))
		o.told, o.until = true, now // there is nobody to wait for
		n.goOnObeying(now)
	})
}

// judgeOrder is why an order is refused, empty where it is not. A learner that has no state yet knows the voters that its
// approval named.
func (n *Node) judgeOrder(b *body, o *wire.DissolveOrder) string {
	v := b.view()
	if v.Cluster() == "" && b.learner != nil {
		return fleet.JudgeOrder(b.cluster, func(id string) (fleet.Member, bool) { return n.orderSigner(b, id) }, o).Refusal()
	}
	return v.JudgeOrder(o).Refusal()
}

// splitText is what the condition says of one fleet, and of the order that is being obeyed.
func splitText(a formation.Action) string {
	speaker := control.Word(a.Fleet.Speaker)
	switch a.Why {
	case formation.WhySplitYields:
		return ": " + speaker + " speaks for it under a voter's key of this fleet; it is the older one, so this fleet's leader dissolves this fleet into it"
	case formation.WhySplitStays:
		return ": " + speaker + " speaks for it under a voter's key of this fleet; it is the younger one, so it is for that fleet to come here"
	}
	return " holds a machine of this fleet, or was once asked by this machine, which decides nothing"
}

// clusterOf is the fleet that a session's peer last said it is in.
func clusterOf(p control.Peer) string {
	if s, ok := p.Session.(*netio.Session); ok {
		if h, _, said := s.Hello(); said {
			return h.Cluster
		}
	}
	return ""
}
