package simfleet

import (
	"slices"
	"strings"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/wire"
)

const (
	// rosterSilence is after how long without a leader a voter asks the others who votes.
	rosterSilence = 8 * time.Second
	// demotedSilence is after how long without a leader a voter takes the word of one that has a leader that it votes no more.
	demotedSilence = 30 * time.Second
	// seatAskFor bounds a question about a seat.
	seatAskFor = 2 * time.Second
)

// seat is the seat of a learner that is to be a voter; nil: none.
func (p *proc) seat() *voter {
	if p.learner == nil {
		return nil
	}
	return p.learner.seat
}

// seatRoles are the wished roles with which a learner's consensus port is open.
var seatRoles = []fleet.Role{fleet.RoleVoterPending, fleet.RoleVoter, fleet.RoleLeaving}

// tendSeat opens and closes a learner's seat as its wished role says, and adopts it once the log and the state agree that it
// is a voter's.
func (l *learner) tendSeat() {
	p := l.p
	if p.moving || l.view == nil {
		return
	}
	m, known := l.view.Member(p.id())
	if !known || m.Key != p.key() || !slices.Contains(seatRoles, m.Role) {
		if l.seat != nil {
			l.seat.close()
			l.seat = nil
		}
		return
	}
	if l.seat == nil {
		if p.h.disk.log == nil {
			p.h.disk.log = &logStore{cluster: l.store.cluster}
		}
		l.seat = newVoter(p, p.h.disk.log)
		l.seat.seat = true
		l.seat.open()
	}
	seats, _ := l.seat.store.conf()
	if votes, _ := seatOf(seats, p.id()); m.Role == fleet.RoleVoter && l.seat.counted >= l.view.Revision() && votes {
		p.step(formation.Event{Kind: formation.EvTrigger, Trigger: formation.SeatedAsVoter})
	}
}

// ownRole looks at this voter's own record in the state that it has just applied.
func (v *voter) ownRole() {
	p, view := v.p, v.state.View()
	if v.seat || p.voter != v || view.Cluster() == "" || p.form.Own().Mode != formation.Voter || p.moving {
		return
	}
	m, ok := view.Member(p.id())
	switch ok = ok && m.Key == p.key(); {
	case ok && m.Role == fleet.RoleLearner && v.role != roleLeader && !v.named():
		r := view.Roster(p.id())
		p.seatedAsLearner(&r)
	case !ok:
		_, revoked := view.Revoked(p.key())
		p.outOfFleet(revoked)
	}
}

// named reports whether the log's configuration names this machine: whoever is to lead may need its vote until it does not.
func (v *voter) named() bool {
	seats, _ := v.store.conf()
	_, ok := seatOf(seats, v.p.id())
	return ok
}

func (p *proc) seatedAsLearner(r *wire.Roster) {
	if !p.moving && p.voter != nil {
		p.following = r
		p.step(formation.Event{Kind: formation.EvTrigger, Trigger: formation.SeatedAsLearner})
	}
}

// outOfFleet has a voter that its fleet removed begin anew.
func (p *proc) outOfFleet(revoked bool) {
	if p.moving || p.voter == nil {
		return
	}
	if revoked {
		p.step(formation.Event{Kind: formation.EvForgotten})
		return
	}
	p.left()
}

// sight is who votes as far as this voter can tell: what it applied, or what another voter told it of a later revision.
func (v *voter) sight(id string) (fleet.Member, bool) {
	view := v.p.view()
	m, ok := view.Member(id)
	if ok && (m.Role == fleet.RoleVoter || m.Role == fleet.RoleVoterPending) {
		return m, true
	}
	if r := v.told; r != nil && fleet.ComparePosition(r.Epoch, r.Revision, view.Epoch(), view.Revision()) > 0 {
		if voters, err := votersOf(r); err == nil {
			for _, t := range voters {
				if t.ID == id {
					return t, true
				}
			}
		}
	}
	return m, ok
}

// tend is what a voter looks at each second: who votes while it hears no leader, and as a leader the wished roles.
func (v *voter) tend() {
	p := v.p
	if v.seat {
		return
	}
	v.ownRole()
	switch {
	case !v.live() || p.voter != v:
	case v.leading():
		v.reconcile()
	case p.w.now-v.heard >= rosterSilence && p.w.now-v.asked >= rosterSilence:
		v.asked = p.w.now
		v.askRosters()
	default:
		clear(v.turns)
	}
}

// askRosters asks the other voters who votes: a voter that was away while others took seats would refuse their streams for
// ever otherwise.
func (v *voter) askRosters() {
	p := v.p
	voters := v.state.View().Voters()
	if v.told != nil {
		more, _ := votersOf(v.told)
		voters = append(voters, more...)
	}
	for _, m := range voters {
		to := p.w.hostAt(m.Endpoints.FC)
		if m.ID == p.id() || to == nil || to.disk.key.Public() != m.Key {
			continue
		}
		key, cluster := p.key(), v.store.cluster
		p.call(to, seatAskFor, func(q *proc, send func(func())) {
			view := q.view()
			if o := q.dissolvedOrder(cluster); o != nil {
				send(func() { p.toldDissolved(o) })
				return
			}
			if q.form.Own().Cluster != cluster || view.Epoch() != v.state.View().Epoch() {
				return // it went to another fleet, whose word is none here
			}
			if _, revoked := view.Revoked(key); revoked {
				send(func() { v.outOf(true) })
				return
			}
			self, ok := view.ByKey(key)
			id, _, _ := q.leader()
			led := id != "" && id != p.id()
			if !ok && !led {
				return // it was away itself, and may be older than this machine's admission
			}
			if !ok {
				send(func() { v.outOf(false) })
				return
			}
			r := view.Roster(self.ID)
			out := led && q.voter != nil && r.Self.Role == string(fleet.RoleLearner)
			send(func() { v.toldBy(&r, out) })
		}, func(string) {})
	}
}

func (v *voter) outOf(revoked bool) {
	if v.live() && v.p.voter == v {
		v.p.outOfFleet(revoked)
	}
}

// toldBy takes what another voter said of the roster; out: it has a leader, and holds this machine as a learner.
func (v *voter) toldBy(r *wire.Roster, out bool) {
	view := v.state.View()
	if !v.live() || r.Cluster != v.store.cluster || r.Epoch != view.Epoch() || r.Revision < view.Revision() {
		return
	}
	if v.told == nil || r.Revision >= v.told.Revision {
		v.told = r
	}
	if out && v.p.voter == v && !v.leading() && v.p.w.now-v.heard >= demotedSilence {
		v.p.seatedAsLearner(r) // it was taken out of the log while it was away
	}
}

// reconcile brings the log's configuration to the wished roles, one change at a time, by the product's table.
func (v *voter) reconcile() {
	p := v.p
	at, _ := v.store.conf()
	if v.changing || v.settled == v.state.View() && slices.Equal(v.settledConf, at) {
		return
	}
	seats := map[string]fleet.Seat{}
	conf, _ := v.store.conf()
	for _, s := range conf {
		seats[s.id] = fleet.SeatNonvoter
		if s.votes {
			seats[s.id] = fleet.SeatVoter
		}
	}
	in := fleet.ReconcileInput{View: v.state.View(), Self: p.id(), Seats: seats, Progress: map[string]fleet.Progress{}}
	ids, waits := fleet.Promoting(in.View, p.id(), seats)
	for id := range v.turns {
		if !slices.Contains(ids, id) || waits[id] {
			delete(v.turns, id)
		}
	}
	var ask []string
	for _, id := range ids {
		if !waits[id] {
			ask = append(ask, id)
		}
	}
	v.changing = true
	v.progress(ask, in, func() {
		if !v.live() || !v.leading() {
			v.changing = false
			return
		}
		step, id := fleet.Reconcile(in)
		if step == fleet.StepNone && len(ids) == 0 {
			v.settled, v.settledConf = in.View, conf
		}
		v.take(step, id)
	})
}

// progress asks one member after the other how far its promotion has come.
func (v *voter) progress(ids []string, in fleet.ReconcileInput, done func()) {
	if len(ids) == 0 {
		done()
		return
	}
	p, id := v.p, ids[0]
	if _, begun := v.turns[id]; !begun {
		v.turns[id] = p.w.now
	}
	next := func(r *fleet.SeatReport) {
		if begun, ok := v.turns[id]; ok {
			in.Progress[id] = fleet.ProgressOf(r, p.w.now-begun)
		}
		v.progress(ids[1:], in, done)
	}
	p.work.ask(id, seatAskFor, func(t *target) any { return t.p.seatReport() }, func(a any) { next(a.(*fleet.SeatReport)) }, func(string) { next(nil) })
}

// seatReport answers the leader that promotes this machine.
func (p *proc) seatReport() *fleet.SeatReport {
	out := &fleet.SeatReport{Followed: p.view().Revision(), Endpoint: p.h.endpoint(portRaft)}
	if p.voter != nil {
		out.Open, out.Counted = true, p.view().Revision()
	} else if s := p.seat(); s != nil {
		out.Open, out.Counted = true, s.counted
	}
	return out
}

// take makes one change of the voters.
func (v *voter) take(step fleet.ReconcileStep, id string) {
	p := v.p
	by, at := p.key().String(), p.h.wall().Unix()
	m, _ := v.state.View().Member(id)
	over := func(fleet.Result, error) { v.changing = false }
	yes, no := true, false
	switch step {
	case fleet.StepNone:
		v.changing = false
		return
	case fleet.StepHandOver:
		v.changing = false
		v.handOver()
	case fleet.StepRemoveSeat:
		v.changeSeat(id, nil, over)
	case fleet.StepAddNonvoter:
		v.changeSeat(id, &no, over)
	case fleet.StepMakeVoter:
		v.changeSeat(id, &yes, over)
	case fleet.StepRecordVoter:
		p.propose(fleet.SetRole(id, fleet.RoleVoter, by, at), over)
	case fleet.StepWithdraw:
		p.propose(fleet.SetRole(id, fleet.RoleLearner, by, at), over)
	case fleet.StepFinish:
		c := fleet.Forget(id, by, at)
		if m.OwnWish {
			c = fleet.Leave(id, by, at)
		}
		p.propose(c, over)
	}
	p.w.say(p.h, "changes the voters of %s: step %d about %s", short(v.store.cluster), step, m.Name)
}

// changeSeat writes a configuration, unless an earlier one is not committed yet.
func (v *voter) changeSeat(id string, votes *bool, done func(fleet.Result, error)) {
	v.run(func() {
		seats, index := v.store.conf()
		if v.role != roleLeader || index > v.commit || v.applied < v.began {
			done(fleet.Result{}, errNotLeader)
			return
		}
		if votes == nil {
			v.parting = append(v.parting, parting{id, v.store.last() + 1, v.p.w.now + partingFor})
		}
		v.write(logEntry{kind: entrySeats, seats: withSeat(seats, id, votes)}, done)
	})
}

// partingFor is how long whoever was taken out of the log is still sent the entry that says so.
const partingFor = 5 * time.Second

type parting struct {
	id    string
	index uint64
	until time.Duration
}

// handOver has another voter lead: one whose log has all of this one's.
func (v *voter) handOver() {
	conf, _ := v.store.conf()
	best := ""
	for _, s := range conf {
		if s.votes && s.id != v.p.id() && (best == "" || v.match[s.id] > v.match[best] || v.match[s.id] == v.match[best] && strings.Compare(s.id, best) < 0) {
			best = s.id
		}
	}
	v.handOverTo(best)
}

// handOverTo has a voter lead, if its log has all of this one's; false: it has not, or this one does not lead.
func (v *voter) handOverTo(id string) bool {
	conf, _ := v.store.conf()
	if votes, _ := seatOf(conf, id); v.role != roleLeader || !votes || v.match[id] != v.store.last() {
		return false
	}
	v.send(id, message{kind: msgTimeoutNow, term: v.store.term})
	return true
}

func restored(snapshot []byte) *fleet.View {
	s, err := fleet.Restore(snapshot)
	if err != nil {
		panic(err) // it was made a moment ago
	}
	return s.View()
}
