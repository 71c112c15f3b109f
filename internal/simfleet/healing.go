package simfleet

import (
	"slices"
	"time"

	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Times of a split that heals.
const (
	healEvery   = time.Minute
	lingerMost  = 60 * time.Second
	lingerLeast = 3 * time.Second
)

// healing is what a process knows of a split: what it proposed, and the order that it obeys.
type healing struct {
	proposed time.Duration
	busy     bool
	obeying  *obeying
}

// obeying is an order on its way into the record.
type obeying struct {
	raw          []byte
	cluster      string // that it dissolves
	revision     uint64 // of the entry; 0: it was told of it
	target       formation.Target
	signer       identity.PublicKey
	since, until time.Duration
	waiting      []string // members that have not applied it
	began        bool
}

// evidenceOf is what a proven speaker of another fleet shows of a split, by the applied roster.
func (p *proc) evidenceOf(f formation.Fleet) formation.Evidence {
	v := p.view()
	m, ok := v.Member(f.Speaker)
	if _, revoked := v.Revoked(f.SpeakerKey); !ok || m.Key != f.SpeakerKey || revoked {
		return formation.NoSplit
	}
	if m.Role == fleet.RoleVoter {
		return formation.SplitHealsByItself
	}
	return formation.SplitByHand
}

// heal has the leader of a fleet that is to dissolve into another one propose it.
func (p *proc) heal() {
	p.goOnObeying()
	h := &p.healing
	if !p.alive() || !p.leads() || h.busy || p.moving || h.proposed != 0 && p.w.now-h.proposed < healEvery {
		return
	}
	f, ok := p.form.Split(p.now())
	if !ok {
		return
	}
	if d := p.view().Dissolving(); d != nil && d.Survivor == f.Cluster && d.LeaderKey == f.Leader.Key && d.LeaderEndpoint == f.Leader.Endpoint {
		return
	}
	h.busy, h.proposed = true, p.w.now
	key := identity.PublicKey(f.Leader.Key)
	to := p.w.hostAt(f.Leader.Endpoint)
	if to != nil && to.disk.key.Public() != key {
		to = nil
	}
	p.summaryOf(to, formation.OriginBeacon, func(got formation.Fleet) {
		h.busy = false
		got.Evidence = p.evidenceOf(formation.Fleet{Speaker: f.Witness, SpeakerKey: f.WitnessKey})
		if p.moving || !p.leads() || got.Cluster != f.Cluster || got.State != wire.StateEstablished || !got.Leader.HasKey || got.Leader.Key != f.Leader.Key || got.Leader.Endpoint == "" ||
			formation.Classify(p.form.Own(), got, got.Evidence, nil) != formation.TieBreakYield {
			return
		}
		order := fleet.SignDissolve(p.view().Cluster(), got.Cluster, got.Leader.ID, key, got.Leader.Endpoint, p.id(), p.h.disk.key)
		p.w.say(p.h, "has %s dissolve into %s", short(order.OldCluster), short(order.Survivor))
		p.w.check.Dissolves(order.OldCluster)
		p.propose(fleet.DissolveInto(order.Append(nil), p.key().String(), p.h.wall().Unix()), func(fleet.Result, error) {})
	}, func(string) { h.busy = false })
}

// dissolving is told the state as it was just applied.
func (p *proc) dissolving(v *fleet.View) {
	h, d := &p.healing, v.Dissolving()
	if d == nil {
		if o := h.obeying; o != nil && o.revision != 0 && !o.began {
			h.obeying = nil // a recovery took it back
		}
		return
	}
	if o := h.obeying; o != nil && (o.began || slices.Equal(o.raw, d.Raw)) {
		return
	}
	o := p.obey(&d.DissolveOrder, d.Raw)
	if o == nil {
		return
	}
	p.stopAdmitting(d.LeaderEndpoint)
	o.revision, o.since, o.until = d.Revision, p.w.now+p.h.chance.between(10*time.Millisecond, 2*time.Second), p.w.now+lingerMost
	if p.voter != nil {
		for _, f := range p.voter.feeds {
			o.waiting = append(o.waiting, f.learner)
		}
		if p.leads() && len(v.Voters()) > 1 {
			o.since = p.w.now + lingerLeast
		}
	}
}

// obey begins to obey an order that was judged; nil where this machine does not.
func (p *proc) obey(d *wire.DissolveOrder, raw []byte) *obeying {
	m, _ := p.memberOf(d.Signer)
	if !p.form.ObeysDissolve(d.Survivor, m.Key) {
		return nil
	}
	p.healing.obeying = &obeying{raw: raw, cluster: d.OldCluster, signer: m.Key, target: formation.Target{Cluster: d.Survivor, State: wire.StateEstablished,
		LeaderID: d.LeaderID, Endpoint: d.LeaderEndpoint, Keys: []identity.PublicKey{d.LeaderKey}, Origin: formation.OriginBeacon}}
	return p.healing.obeying
}

// memberOf is a member by the applied state, or by the approval before there is one.
func (p *proc) memberOf(id string) (fleet.Member, bool) {
	if m, ok := p.view().Member(id); ok || p.learner == nil {
		return m, ok
	}
	for _, m := range p.learner.voters() {
		if m.ID == id {
			return m, true
		}
	}
	return fleet.Member{}, false
}

// goOnObeying makes the move once nobody is waited for any more.
func (p *proc) goOnObeying() {
	o := p.healing.obeying
	if o == nil || o.began || p.moving || o.cluster != p.form.Own().Cluster {
		return
	}
	o.waiting = slices.DeleteFunc(o.waiting, func(id string) bool {
		if p.voter == nil {
			return true
		}
		at := slices.IndexFunc(p.voter.feeds, func(f *feed) bool { return f.learner == id })
		if at < 0 {
			return true // it is told when it comes back
		}
		view := p.voter.feeds[at].l.view
		return view != nil && view.Revision() >= o.revision
	})
	if p.w.now < o.since || len(o.waiting) > 0 && p.w.now < o.until {
		return
	}
	o.began = true
	p.step(formation.Event{Kind: formation.EvTrigger, Trigger: formation.DissolvedInto, Target: &o.target, From: o.signer})
}

// dissolvedOrder is the order that this machine obeyed when it left a fleet: its absent members are told; nil: none.
func (p *proc) dissolvedOrder(cluster string) *wire.DissolveOrder {
	own := p.rec.own
	if len(p.rec.order) == 0 || own.OldCluster != cluster || cluster == own.Cluster {
		return nil
	}
	o, err := wire.DecodeDissolveOrder(p.rec.order)
	if err != nil {
		p.w.fail(p.h, "the order in the record does not read: %v", err)
		return nil
	}
	return &o
}

// toldDissolved takes the order that a former voter answers with: it is judged by the applied roster, and counts as the entry.
func (p *proc) toldDissolved(o *wire.DissolveOrder) {
	if p.moving || p.voter == nil && p.learner == nil || p.healing.obeying != nil {
		return
	}
	if fleet.JudgeOrder(p.form.Own().Cluster, p.memberOf, o) != fleet.OrderObeyed {
		return
	}
	p.w.say(p.h, "is told that %s dissolved into %s", short(o.OldCluster), short(o.Survivor))
	if x := p.obey(o, o.Append(nil)); x != nil {
		p.goOnObeying()
	}
}

// closed reports whether a fleet admits nobody since it dissolves, and where to ask then.
func (p *proc) closed(f *enroll.Facts) {
	if d := p.view().Dissolving(); d != nil {
		f.Elsewhere, f.PendingAt = true, d.LeaderEndpoint
	}
}
