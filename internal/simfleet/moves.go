package simfleet

import (
	"fmt"
	"slices"
	"time"

	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// move carries out a transition: the record first, then the stores, and only then the new mode; a crash may come between
// any two of them.
func (p *proc) move(a formation.Action) {
	tr := a.Transition
	rec, err := p.recordAfter(a)
	if err != nil {
		p.after(0, func() { p.step(formation.Event{Kind: formation.EvMoveFailed, Err: err.Error()}) })
		return
	}
	p.moving = true
	p.w.say(p.h, "moves from %s to %s of %s: %s", tr.From, tr.To, short(rec.own.Cluster), tr.On)
	voter, learner := p.voter, p.learner
	if tr.Rebuild {
		p.voter, p.learner = nil, nil // from here on nothing is proposed to what is put away
		p.leadership()
	}
	p.saveRecord(rec, func(err error) {
		switch {
		case err != nil:
			p.voter, p.learner = voter, learner
			p.leadership()
			p.endMove()
			p.step(formation.Event{Kind: formation.EvMoveFailed, Err: err.Error()})
		case !tr.Rebuild:
			p.moved(a, rec)
		default:
			p.voter, p.learner = voter, learner
			p.closeBody()
			if voter != nil && tr.On == formation.SeatedAsLearner { // what it applied as a voter is not fetched again
				p.h.disk.follow = &followStore{cluster: voter.store.cluster, view: restored(voter.state.SnapshotFor(p.id())), highest: voter.store.term}
			}
			if !p.point("closed") {
				p.rebuild(a, rec)
			}
		}
	})
}

// rebuild puts the other stores away and opens those of the record.
func (p *proc) rebuild(a formation.Action, rec record) {
	p.after(p.h.chance.between(time.Millisecond, 30*time.Millisecond), func() {
		if !p.w.breaks.KeepStores {
			p.h.disk.takeStores(p.w)
			rec = p.h.disk.rec
		}
		if p.point("archived") {
			return
		}
		p.after(p.h.chance.between(time.Millisecond, 30*time.Millisecond), func() {
			p.rec = rec
			p.openBody()
			if !p.point("opened") {
				p.moved(a, rec)
			}
		})
	})
}

// moved ends a move.
func (p *proc) moved(a formation.Action, rec record) {
	p.rec = rec
	p.endMove()
	var remembered []string
	for _, seed := range rec.remembered() {
		remembered = append(remembered, seed.Endpoint)
	}
	p.step(formation.Event{Kind: formation.EvRemembered, Endpoints: remembered})
	p.step(formation.Event{Kind: formation.EvMoved, Own: rec.own})
	if a.Transition.From == formation.Solitary && rec.own.Target != nil {
		p.stopAdmitting(rec.own.Target.Endpoint)
	}
	if a.Transition.Rebuild {
		p.healing = healing{}
		p.work.changedFleet(rec.own.Cluster)
	}
	p.speak()
	p.w.look(p.h)
	p.viewChanged()
}

func (p *proc) endMove() {
	p.moving = false
	waiting := p.afterMove
	p.afterMove = nil
	for _, change := range waiting {
		p.keepRecord(change)
	}
}

// keepRecord writes a change of the record that no move waits for; during a move it waits for the move's end.
func (p *proc) keepRecord(change func(*record)) {
	if p.moving {
		p.afterMove = append(p.afterMove, change)
		return
	}
	change(&p.rec)
	p.saveRecord(p.rec, func(error) {})
}

// saveRecord writes one record after the other, in the order in which they were made.
func (p *proc) saveRecord(rec record, then func(error)) {
	p.records = append(p.records, func() {
		p.write("record", func() { p.h.disk.rec = rec }, func(err error) {
			then(err)
			if p.records = p.records[1:]; p.alive() && len(p.records) > 0 {
				p.records[0]()
			}
		})
	})
	if len(p.records) == 1 {
		p.records[0]()
	}
}

// recordAfter is the record as a move leaves it.
func (p *proc) recordAfter(a formation.Action) (rec record, err error) {
	rec = p.rec
	now := p.now()
	rec.own.Mode, rec.own.Target = a.Transition.To, nil
	if a.Transition.To == formation.Pending {
		rec.own.Target = a.Target
	}
	rec.rejections, rec.leaving = p.form.Rejections(now), false
	for _, c := range p.form.Revoked() {
		if !slices.Contains(rec.revokedIn, c) {
			rec.revokedIn = append(slices.Clone(rec.revokedIn), c)
		}
	}
	switch a.Transition.Effect {
	case formation.EffectNone, formation.EffectRecordTarget, formation.EffectClearTarget, formation.EffectRememberRejection:
		if a.Transition.To == formation.Voter {
			rec.own.Established = true
		}
	case formation.EffectDissolve:
		if p.rec.own.Target == nil {
			return rec, fmt.Errorf("an approval came and no fleet was asked")
		}
		roster, err := enroll.CheckRoster(a.Roster, p.rec.own.Target.Cluster, p.id(), p.key())
		if err != nil {
			return rec, err
		}
		rec.own.Cluster, rec.own.Created, rec.own.Established, rec.own.AdmittedBy = roster.Cluster, roster.Created, true, p.admittedBy
		rec.roster, rec.admitted, rec.epoch = a.Roster, roster.Revision, roster.Epoch
		if rec.voters, err = votersOf(&roster); err != nil {
			return rec, err
		}
	case formation.EffectAdoptSeat:
		rec.own.Established = true
		if a.Transition.To == formation.Learner {
			if p.following == nil {
				return rec, fmt.Errorf("this voter becomes a learner and knows no roster to follow by")
			}
			rec.roster, rec.admitted, rec.epoch = encode(p.following), p.following.Revision, p.following.Epoch
			if rec.voters, err = votersOf(p.following); err != nil {
				return rec, err
			}
		}
	case formation.EffectArchiveEpoch:
		rec.own.Established, rec.recovery = true, p.view().Epoch()+1
	case formation.EffectArchive:
		roster, err := enroll.CheckRoster(a.Roster, p.rec.own.Cluster, p.id(), p.key())
		if err != nil {
			return rec, err
		}
		rec.own.Established, rec.own.AdmittedBy, rec.putAway, rec.recovery = true, a.From, true, 0
		rec.roster, rec.admitted, rec.epoch = a.Roster, roster.Revision, roster.Epoch
		if rec.voters, err = votersOf(&roster); err != nil {
			return rec, err
		}
	case formation.EffectMintNew, formation.EffectMintAndAsk:
		if a.Transition.Effect == formation.EffectMintAndAsk {
			o := p.healing.obeying
			if o == nil || o.cluster != rec.own.Cluster {
				return rec, fmt.Errorf("a move into a survivor without the order that says so")
			}
			rec.order, rec.own.OldCluster = o.raw, o.cluster
		}
		rec.own.Cluster, rec.own.Created = p.h.newID(), founding(p.h.wall())
		rec.own.Established, rec.own.AdmittedBy, rec.roster, rec.voters, rec.admitted, rec.epoch = false, identity.PublicKey{}, nil, nil, 0, 0
		rec.recovery = 0
	default:
		return rec, fmt.Errorf("the model does not know how a machine moves from %s on %s", a.Transition.From, a.Transition.On)
	}
	return rec, nil
}

// votersOf are the voters that a roster names.
func votersOf(r *wire.Roster) ([]fleet.Member, error) {
	var out []fleet.Member
	for _, v := range r.Voters {
		key, err := identity.ParsePublicKey(v.Key)
		if err != nil {
			return nil, err
		}
		out = append(out, fleet.Member{ID: v.ID, Key: key, Role: fleet.RoleVoter, Endpoints: v.Endpoints})
	}
	return out, nil
}

// viewChanged looks at the state that was just applied.
func (p *proc) viewChanged() {
	if p.moving || p.voter == nil && p.learner == nil {
		return
	}
	v, own := p.view(), p.form.Own()
	if p.voter != nil {
		if v.Established() && !own.Established {
			p.keepRecord(func(rec *record) { rec.own.Established = true })
			p.step(formation.Event{Kind: formation.EvEstablished})
		}
		if v.Len() > 1 && (own.Mode == formation.Solitary || own.Mode == formation.Pending) && p.grown != v.Cluster() {
			p.grown = v.Cluster()
			p.step(formation.Event{Kind: formation.EvOwnFleetRecordedMachine})
		}
	}
	if p.alive() {
		p.dissolving(v)
		p.admitAwaited(v)
		p.work.viewChanged(v)
	}
}
