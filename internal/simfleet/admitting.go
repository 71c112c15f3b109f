package simfleet

import (
	"time"

	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// waiter is one open Enroll stream of a row.
type waiter struct {
	row   enroll.RowID
	nonce [32]byte
	ask   *ask
	next  *enroll.Ask
	over  bool
}

// facts are what the waiting list is told at this moment.
func (p *proc) facts() enroll.Facts {
	v, own := p.view(), p.form.Own()
	_, endpoint, _ := p.leader()
	f := enroll.Facts{
		Leads: p.leads() && (own.Mode == formation.Solitary || own.Mode == formation.Voter), LeaderEndpoint: endpoint,
		FormatInUse: v.FormatInUse(), Revoked: v.Revoked, Holds: v.Holds,
		PreApproved: func(id string, key identity.PublicKey) bool { _, ok := v.PreApproved(id, key); return ok },
		MemberID:    func(id string) bool { _, ok := v.Member(id); return ok },
		MemberNamed: func(name string) (string, time.Time, bool) {
			for m := range v.Named(name) {
				return m.ID, time.Time{}, true
			}
			return "", time.Time{}, false
		},
	}
	switch own.Mode {
	case formation.Pending:
		f.Elsewhere = true
		if own.Target != nil {
			f.PendingAt = own.Target.Endpoint
		}
	case formation.Learner:
		f.Elsewhere, f.PendingAt = true, endpoint
	}
	p.closed(&f)
	return f
}

// enrolled is the leader's side of an ask.
func (p *proc) enrolled(k *ask, next *enroll.Ask, r enroll.Request) {
	if p.voter == nil && p.learner == nil {
		p.refuse(k, errChanging)
		return
	}
	j := p.list.Judge(p.now(), r, p.facts(), p.h.chance.fill)
	if p.w.breaks.AdmitAnybody && j.Outcome == wire.OutcomePending && j.Waits {
		j.Outcome, j.Admit = wire.OutcomeApproved, true
	}
	if j.Err != nil {
		p.refuse(k, j.Err)
		return
	}
	w := &waiter{row: j.Row, nonce: r.Nonce, ask: k, next: next}
	if j.Waits {
		p.formats[j.Row] = r.Format
		p.waiters[j.Row] = append(p.waiters[j.Row], w)
		p.list.Opened(p.now(), j.Row)
		k.stream.onBreak(p, func(string) { p.unwait(w) })
	} else {
		k.stream.onBreak(p, func(string) {})
	}
	switch {
	case j.Admit:
		if j.Auto {
			p.w.check.ByWindow(p.view().Cluster(), j.Row, p.h.name, p.w.now)
		}
		c := p.admission(j.Row, r.Endpoint, r.Name, r.Platform, r.Version, r.Format, j.Auto)
		p.propose(c, func(res fleet.Result, err error) {
			if err != nil {
				p.list.Failed(p.now(), j.Row)
				p.tell(w, p.answer(wire.OutcomePending, w, j.Challenge, true), false)
				return
			}
			p.tell(w, p.approval(w), true)
		})
	case j.Outcome == wire.OutcomeApproved:
		p.tell(w, p.approval(w), true)
	case j.Outcome == wire.OutcomePending:
		p.tell(w, p.answer(wire.OutcomePending, w, j.Challenge, j.HasChallenge), false)
	default:
		p.tell(w, p.answer(j.Outcome, w, [32]byte{}, false), true)
	}
}

func (p *proc) admission(row enroll.RowID, endpoint, name, platform, version string, format int, auto bool) fleet.Command {
	e := wire.Endpoints{FC: endpoint}
	awaited, _ := p.view().Awaited(row.ID, row.Key)
	if awaited.Seat {
		e.Raft = awaited.Raft
	}
	c := fleet.AdmitLearner(row.ID, row.Key, name, platform, version, e, format, p.key().String(), p.h.wall().Unix(), auto)
	c.Seat = awaited.Seat
	return c
}

// refuse sends an error frame.
func (p *proc) refuse(k *ask, e *wire.Error) {
	k.stream.push(p, func() { k.refused(e) })
}

// answer signs one outcome.
func (p *proc) answer(o wire.Outcome, w *waiter, challenge [32]byte, has bool) wire.EnrollAnswer {
	a := wire.EnrollAnswer{Outcome: o, Challenge: challenge, HasChallenge: has, Signer: p.key()}
	a.Signature = p.h.disk.key.Sign(a.Message(w.nonce, w.row.ID, w.row.Key, p.view().Cluster()))
	return a
}

func (p *proc) approval(w *waiter) wire.EnrollAnswer {
	a := wire.EnrollAnswer{Outcome: wire.OutcomeApproved, Roster: encode(p.view().Roster(w.row.ID)), Signer: p.key()}
	a.Signature = p.h.disk.key.Sign(a.Message(w.nonce, w.row.ID, w.row.Key, p.view().Cluster()))
	return a
}

// tell pushes an answer to one stream; after the last one it is over.
func (p *proc) tell(w *waiter, a wire.EnrollAnswer, last bool) {
	if w.over || last && p.point("answered") {
		return
	}
	w.ask.stream.push(p, func() { w.ask.answered(w.next, a) })
	if last {
		p.unwait(w)
	}
}

// unwait takes a stream off its row.
func (p *proc) unwait(w *waiter) {
	if w.over {
		return
	}
	w.over = true
	all := p.waiters[w.row]
	for i, x := range all {
		if x == w {
			p.waiters[w.row] = append(all[:i:i], all[i+1:]...)
			p.list.Closed(p.now(), w.row)
			break
		}
	}
	if len(p.waiters[w.row]) == 0 {
		delete(p.waiters, w.row)
	}
}

// stopAdmitting ends the window and sends everybody who waits elsewhere.
func (p *proc) stopAdmitting(elsewhere string) {
	p.w.check.WindowEnds(p.form.Own().Cluster, p.h.name, p.w.now)
	rows := p.list.Drop()
	e := wire.NewError(wire.CodeNotLeader, elsewhere, "this machine does not lead a fleet that admits machines")
	for _, row := range rows {
		for _, w := range append([]*waiter(nil), p.waiters[row]...) {
			p.refuse(w.ask, e)
			p.unwait(w)
		}
	}
}

// tickList does what the waiting list's clock asks for.
func (p *proc) tickList() {
	expired, repeat := p.list.Tick(p.now())
	for _, row := range expired {
		for _, w := range append([]*waiter(nil), p.waiters[row]...) {
			w.ask.stream.close(p, "its row expired")
			p.unwait(w)
		}
	}
	for _, row := range repeat {
		challenge, ok := p.list.Challenge(row)
		for _, w := range p.waiters[row] {
			p.tell(w, p.answer(wire.OutcomePending, w, challenge, ok), false)
		}
	}
}

// rowsOf are the rows of these ids as they stand.
func (p *proc) rowsOf(ids []enroll.RowID) []enroll.Row {
	var out []enroll.Row
	for _, r := range p.list.Rows(p.now()) {
		for _, id := range ids {
			if r.RowID() == id {
				out = append(out, r)
			}
		}
	}
	return out
}

// admitRows commits the admissions of rows that were approved in the list, and tells their streams.
func (p *proc) admitRows(rows []enroll.Row, auto bool, done func(r enroll.Row, res fleet.Result, err error)) {
	for _, r := range rows {
		c := p.admission(r.RowID(), r.Endpoint, r.Name, r.Platform, r.Version, p.formats[r.RowID()], auto)
		p.propose(c, func(res fleet.Result, err error) {
			if err != nil {
				p.list.Failed(p.now(), r.RowID())
			} else {
				for _, w := range append([]*waiter(nil), p.waiters[r.RowID()]...) {
					p.tell(w, p.approval(w), true)
				}
			}
			if done != nil && p.alive() {
				done(r, res, err)
			}
		})
	}
}

// admitAwaited admits the machines that wait and were approved ahead meanwhile.
func (p *proc) admitAwaited(v *fleet.View) {
	if len(v.PreApprovals()) == 0 || !p.leads() {
		return
	}
	var ids []enroll.RowID
	for _, r := range p.list.Rows(p.now()) {
		if _, awaited := v.PreApproved(r.ID, r.Key); awaited && r.Decision == enroll.Waiting {
			if id, err := p.list.Approve(p.now(), r.ID, r.Key); err == nil {
				ids = append(ids, id)
			}
		}
	}
	p.admitRows(p.rowsOf(ids), false, nil)
}
