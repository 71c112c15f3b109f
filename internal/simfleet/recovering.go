package simfleet

import (
	"slices"

	"pace-node/internal/fleet"
	"pace-node/internal/formation"
)

// destroy loses a machine for good; another one, with an identity of its own, takes its place.
func (w *World) destroy(h *host) {
	if !h.disk.minted {
		return
	}
	h.kill("is lost for good")
	h.disk = disk{}
	w.check.Replaced(h.name)
}

// hopeless reports whether the voters that a machine's log names, or its state, can't have a quorum again: too many of them
// are lost, or have gone to other fleets.
func (w *World) hopeless(of *host, v *fleet.View) bool {
	left, voters := 0, v.Voters()
	if p := of.proc; p.voter != nil { // the log counts, of which the state may not have applied the last entries
		voters = nil
		conf, _ := p.voter.store.conf()
		for _, s := range conf {
			if s.votes {
				voters = append(voters, fleet.Member{ID: s.id})
			}
		}
	}
	for _, m := range voters {
		for _, h := range w.hosts {
			if own := h.disk.rec.own; h.disk.id == m.ID && own.Cluster == v.Cluster() && h.disk.log != nil && h.disk.log.epoch == v.Epoch() {
				left++
			}
		}
	}
	return left <= len(voters)/2
}

// recoverable reports whether a person at a machine may recover its fleet: nobody leads it, nor can, and nobody recovered it.
func (w *World) recoverable(h *host) bool {
	p := h.proc
	if p == nil || p.moving {
		return false
	}
	own, v := p.form.Own(), p.view()
	if own.Mode != formation.Learner && own.Mode != formation.Voter || v.Cluster() != own.Cluster || !v.Holds(p.id(), p.key()) || p.leads() || !w.hopeless(h, v) {
		return false
	}
	for _, o := range w.hosts {
		if o.disk.rec.own.Cluster == own.Cluster && (o.disk.rec.recovery > v.Epoch() || o.disk.log != nil && o.disk.log.epoch > v.Epoch() || o.disk.rec.epoch > v.Epoch()) {
			return false
		}
	}
	if by, ok := w.recovering[own.Cluster]; ok && by != h && !by.gone(own.Cluster) {
		return false
	}
	if l := p.learner; l != nil {
		return l.stream == nil || l.leaderID == "" || w.now-l.heard >= silenceLimit
	}
	return p.voter.leader == ""
}

// gone reports whether a machine is no longer in a fleet.
func (h *host) gone(cluster string) bool { return h.disk.rec.own.Cluster != cluster }

// recover has a machine become the only voter of its fleet, under the next recovery epoch.
func (w *World) recover(h *host) {
	if !w.recoverable(h) {
		return
	}
	cluster := h.proc.form.Own().Cluster
	w.say(h, "is told to recover %s", short(cluster))
	w.recovering[cluster] = h
	h.proc.step(formation.Event{Kind: formation.EvTrigger, Trigger: formation.Recovered})
}

// recovered builds the store of a recovery from what this machine has.
func (d *disk) recovered(w *World, epoch uint64) {
	state, learner := fleet.New(), false
	apply := func(cmd []byte) {
		if _, err := state.Apply(cmd); err != nil {
			w.check.fail(RuleModel, w.now, d.id, "what a fleet is recovered from does not apply: %v", err)
		}
	}
	restore := func(b []byte) {
		s, err := fleet.Restore(b)
		if err != nil {
			w.check.fail(RuleModel, w.now, d.id, "what a fleet is recovered from does not read: %v", err)
			return
		}
		state = s
	}
	switch {
	case d.log != nil && (d.follow == nil || d.follow.view == nil || d.log.voted != "" || d.log.last() > 0) && d.log.holds(d.id):
		if d.log.snapshot != nil {
			restore(d.log.snapshot)
		}
		for _, e := range d.log.entries { // entries of which it does not know that a quorum took them count as taken
			if e.kind == entryCommand {
				apply(e.command)
			}
		}
	case d.follow != nil && d.follow.view != nil:
		learner = true
		restore(d.follow.view.Snapshot())
	default:
		w.check.fail(RuleModel, w.now, d.id, "there is nothing to recover a fleet from")
		return
	}
	at := state.View().Revision()
	apply(fleet.Recover(d.id, d.key.Public().String(), w.time().Unix()).Encode())
	v := state.View()
	w.check.Recovered(v.Cluster(), v.Epoch(), at, learner)
	d.log = &logStore{cluster: v.Cluster(), term: 1, voted: d.id, base: 1, baseTerm: 1, baseConf: []seat{{d.id, true}}, snapshot: state.Snapshot(), mark: 1, epoch: epoch}
	d.follow = nil
}

// holds reports whether a store's configuration names a machine as a voter.
func (s *logStore) holds(id string) bool {
	seats, _ := s.conf()
	votes, _ := seatOf(seats, id)
	return votes
}

// ahead is the machine that leads a machine's fleet and that it does not take as its voter: in a later epoch, or chosen by
// voters that it knows nothing of, while none that it knows is heard. Nil: none.
func (w *World) ahead(h *host) *proc {
	p := h.proc
	if p == nil || p.moving {
		return nil
	}
	own := p.form.Own()
	if own.Mode != formation.Learner && own.Mode != formation.Voter {
		return nil
	}
	epoch, voters := p.view().Epoch(), p.view().Voters()
	alone := p.voter != nil && p.voter.leader == ""
	if l := p.learner; l != nil {
		epoch, voters, alone = l.epoch(), l.voters(), l.stream == nil
	}
	for _, o := range w.hosts {
		q := o.proc
		if q == nil || q == p || !q.leads() || q.form.Own().Cluster != own.Cluster || !w.joined(h, o) {
			continue
		}
		known := slices.ContainsFunc(voters, func(m fleet.Member) bool { return m.ID == q.id() })
		if q.view().Epoch() > epoch || q.view().Epoch() == epoch && q.view().Revision() > p.view().Revision() && !known && alone {
			return q
		}
	}
	return nil
}

// accept has a machine follow whoever recovered its fleet, at a person's word.
func (w *World) accept(h *host) {
	q := w.ahead(h)
	if q == nil {
		return
	}
	if _, member := q.view().Member(h.disk.id); !member {
		return
	}
	p, roster := h.proc, q.view().Roster(h.disk.id)
	w.say(h, "is told to accept %s, who recovered %s", q.h.name, short(roster.Cluster))
	p.step(formation.Event{Kind: formation.EvTrigger, Trigger: formation.EpochAccepted, Roster: encode(roster), From: q.key()})
}

// rescue is what people do for a machine whose fleet is lost, once everything else is calm.
func (w *World) rescue(h *host) {
	p := h.proc
	if p == nil || p.moving {
		return
	}
	own, v := p.form.Own(), p.view()
	if own.Mode != formation.Learner && own.Mode != formation.Voter {
		return
	}
	if q := w.ahead(h); q != nil {
		if _, member := q.view().Member(h.disk.id); member {
			w.accept(h)
		} else {
			p.leaveAlone() // it was admitted after what the recovery knew of
		}
		return
	}
	if w.leaderOf(h) != nil {
		return
	}
	if w.recoverable(h) {
		for _, o := range w.hosts { // whoever knows most
			if q := o.proc; q != nil && o != h && w.recoverable(o) && q.form.Own().Cluster == own.Cluster &&
				fleet.ComparePosition(q.view().Epoch(), q.view().Revision(), v.Epoch(), v.Revision()) > 0 {
				return
			}
		}
		w.recover(h)
		return
	}
	if v.Cluster() == "" && !w.anybodyHas(own.Cluster) {
		p.leaveAlone()
	}
}

// anybodyHas reports whether any machine holds a fleet's state.
func (w *World) anybodyHas(cluster string) bool {
	for _, h := range w.hosts {
		d := &h.disk
		if d.rec.own.Cluster == cluster && (d.log != nil && d.log.last() > 0 || d.follow != nil && d.follow.view != nil) {
			return true
		}
	}
	return false
}
