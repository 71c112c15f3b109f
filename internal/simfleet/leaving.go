package simfleet

import (
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/wire"
)

// leaveAgain is how often a machine that is leaving asks its leader again.
const leaveAgain = 15 * time.Second

// leave takes this machine out of what it is in, at the word of a person in front of it.
func (p *proc) leave() {
	own, v := p.form.Own(), p.view()
	switch {
	case p.moving || p.rec.leaving:
	case own.Mode == formation.Pending:
		p.step(formation.Event{Kind: formation.EvGiveUpAsk})
	case own.Mode == formation.Solitary, own.Mode == formation.Voter && v.CountRole(fleet.RoleVoter) == 1 && v.Len() > 1:
	case own.Mode == formation.Voter && v.Len() == 1:
		p.w.check.Remove(own.Cluster, p.id(), p.key())
		p.left()
	default:
		p.w.say(p.h, "is told to leave %s", short(own.Cluster))
		p.w.check.Remove(own.Cluster, p.id(), p.key())
		p.keepRecord(func(rec *record) { rec.leaving = true })
		p.goOnLeaving()
	}
}

// leaveAlone goes without the fleet's word: it is listed there still.
func (p *proc) leaveAlone() {
	own := p.form.Own()
	if p.moving || own.Mode != formation.Learner && own.Mode != formation.Voter {
		return
	}
	p.w.say(p.h, "is told to leave %s, whatever that says", short(own.Cluster))
	p.w.check.Remove(own.Cluster, p.id(), p.key())
	p.left()
}

// goOnLeaving asks the leader to remove this machine's row until it is done, also after a crash.
func (p *proc) goOnLeaving() {
	p.after(time.Second, func() {
		own := p.form.Own()
		if !p.rec.leaving || own.Mode != formation.Learner && own.Mode != formation.Voter {
			return
		}
		cluster, epoch := own.Cluster, p.view().Epoch()
		again := func() { p.after(leaveAgain, p.goOnLeaving) }
		if p.leads() {
			p.removeOwn(p.id(), func(*wire.Error) { again() })
			return
		}
		_, endpoint, _ := p.leader()
		if voters := p.view().Voters(); endpoint == "" && len(voters) > 0 {
			// Whoever was removed is told by nobody who leads: the voters are asked in turn.
			endpoint = voters[p.h.chance.IntN(len(voters))].Endpoints.FC
		}
		p.call(p.w.hostAt(endpoint), stepFor, func(q *proc, send func(func())) {
			if q.view().Cluster() != cluster || q.view().Epoch() != epoch || !q.leads() {
				send(again)
				return
			}
			q.removeOwn(p.id(), func(e *wire.Error) {
				send(func() {
					switch {
					case e == nil || e.Code == wire.CodeNotMember:
						p.left()
					case e.Code == wire.CodeRefusedByRule:
						p.keepRecord(func(rec *record) { rec.leaving = false })
					default:
						again()
					}
				})
			})
		}, func(string) { again() })
	})
}

// removeOwn is the leader's side: a member asks for its own row to be removed.
func (p *proc) removeOwn(id string, done func(*wire.Error)) {
	v := p.view()
	if _, member := v.Member(id); !member {
		done(wire.NewError(wire.CodeNotMember, "", ""))
		return
	}
	d := v.Decide(fleet.VerbLeave, id, nil, "", p.key().String(), p.h.wall().Unix())
	switch {
	case d.Refused():
		done(wire.NewError(wire.CodeRefusedByRule, d.Text, d.Hint))
	case !d.Commit:
		done(wire.NewError(wire.CodeBusy, d.Text, ""))
	default:
		p.propose(d.Command, func(_ fleet.Result, err error) {
			if err != nil {
				done(asWire(err))
				return
			}
			if _, member := p.view().Member(id); member {
				done(wire.NewError(wire.CodeBusy, d.Text, "")) // it is taken out of consensus first
				return
			}
			done(nil)
		})
	}
}

// left begins the move out of the fleet, unless it is underway.
func (p *proc) left() {
	if m := p.form.Own().Mode; !p.moving && (m == formation.Learner || m == formation.Voter) {
		p.step(formation.Event{Kind: formation.EvTrigger, Trigger: formation.Left})
	}
}
