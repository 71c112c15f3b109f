package simfleet

import (
	"strconv"
	"strings"
	"time"

	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// leaderOf is the process that leads this machine's fleet, where a person at the machine reaches it; nil: none does.
func (w *World) leaderOf(h *host) *proc {
	p := h.proc
	if p == nil || h.frozen() {
		return nil
	}
	if p.leads() {
		return p
	}
	_, endpoint, _ := p.leader()
	if to := w.hostAt(endpoint); to != nil && to.proc != nil && !to.frozen() && to.proc.leads() && w.joined(h, to) && to.proc.view().Cluster() == p.form.Own().Cluster {
		return to.proc
	}
	return nil
}

// admits reports whether a leader may be told to admit machines: one that asks another fleet refuses, and one that still
// chooses whether to ask has people wait.
func (p *proc) admits() bool {
	return p != nil && !p.h.frozen() && p.leads() && p.form.Own().Mode != formation.Pending && !p.moving && !p.form.Settling(p.now()) &&
		p.view().Dissolving() == nil
}

// admitterOf is the leader of the fleet that a machine is in, or of the one that it asks, if it admits machines; nil: none.
func (w *World) admitterOf(h *host) *proc {
	if p := w.leaderOf(h); p.admits() {
		return p
	}
	if p := h.proc; p != nil && p.form.Own().Target != nil {
		if at := w.hostAt(p.form.Own().Target.Endpoint); at != nil && at.proc.admits() {
			return at.proc
		}
	}
	return nil
}

// waiting is the row of a list that an argument names; false: none.
func (w *World) waiting(p *proc, arg string) (row enroll.Row, ok bool) {
	var rows []enroll.Row
	var who []*host
	for _, r := range p.list.Rows(p.now()) {
		if h := w.hostAt(r.Endpoint); h != nil && r.Decision == enroll.Waiting {
			rows, who = append(rows, r), append(who, h)
		}
	}
	h := w.which(arg, who)
	for i := range who {
		if who[i] == h {
			return rows[i], true
		}
	}
	return row, false
}

// doApprove is a person who compared the keys of a machine that waits.
func doApprove(w *World, h *host, arg string) {
	if p := w.admitterOf(h); p != nil && !w.breaks.Deaf {
		if row, ok := w.waiting(p, arg); ok {
			p.approveRow(row)
		}
	}
}

func (p *proc) approveRow(row enroll.Row) {
	if _, revoked := p.view().Revoked(row.Key); revoked {
		return
	}
	id, err := p.list.Approve(p.now(), row.ID, row.Key)
	if err != nil {
		return
	}
	cluster := p.view().Cluster()
	p.w.check.Allow(cluster, id.ID, id.Key, "approved on "+p.h.name)
	p.w.say(p.h, "is told to approve %s (%s)", row.Name, short(row.ID))
	p.admitRows(p.rowsOf([]enroll.RowID{id}), false, func(r enroll.Row, res fleet.Result, err error) {
		if err != nil {
			p.w.say(p.h, "could not admit %s: %v", r.Name, err)
			return
		}
		p.acked(res, AckAdmitted, r.ID, r.Key)
	})
}

// acked: a person was told that it is done.
func (p *proc) acked(res fleet.Result, what AckKind, id string, key identity.PublicKey) {
	v := p.view()
	p.w.say(p.h, "says that the %s of %s is done at revision %d", ackNames[what], short(id), res.Revision)
	p.w.check.Acked(v.Cluster(), v.Epoch(), res.Revision, what, id, key)
}

func doReject(w *World, h *host, arg string) {
	p := w.admitterOf(h)
	if p == nil {
		return
	}
	row, ok := w.waiting(p, arg)
	if !ok {
		return
	}
	key := row.Key
	ids, err := p.list.Reject(p.now(), row.ID, &key)
	if err != nil {
		return
	}
	w.say(p.h, "is told to reject %s", row.Name)
	for _, id := range ids {
		for _, x := range append([]*waiter(nil), p.waiters[id]...) {
			p.tell(x, p.answer(wire.OutcomeRejected, x, [32]byte{}, false), true)
		}
	}
}

func doWindow(w *World, h *host, arg string) {
	p := w.admitterOf(h)
	d, err := time.ParseDuration(arg)
	if err != nil || p == nil {
		return
	}
	p.propose(fleet.MarkEstablished("window of "+arg, p.key().String(), p.h.wall().Unix()), func(_ fleet.Result, err error) {
		if err != nil || !p.admits() {
			return
		}
		ids, err := p.list.Arm(p.now(), d)
		if err != nil {
			return
		}
		cluster := p.view().Cluster()
		w.check.Window(cluster, p.h.name, w.now, d)
		w.say(p.h, "opens the window for %s", d)
		for _, id := range ids {
			w.check.ByWindow(cluster, id, p.h.name, w.now)
		}
		p.admitRows(p.rowsOf(ids), true, nil)
	})
}

func doWindowOff(w *World, h *host, _ string) {
	if p := w.admitterOf(h); p != nil {
		p.list.Off(p.now())
		w.check.WindowEnds(p.view().Cluster(), p.h.name, w.now)
	}
}

// members are the machines of a roster, without this one.
func (w *World) members(p *proc, inside bool) []*host {
	var out []*host
	for _, h := range w.hosts {
		if _, member := p.view().Member(h.disk.id); h != p.h && h.disk.minted && member == inside {
			out = append(out, h)
		}
	}
	return out
}

// await pre-approves a machine that is no member, with a seat or without.
func (w *World) await(h *host, arg string, seat bool) {
	p := w.admitterOf(h)
	if p == nil {
		return
	}
	m := w.which(arg, w.members(p, false))
	if m == nil || !m.disk.minted {
		return
	}
	id, key := m.disk.id, m.disk.key.Public()
	verb, endpoint := fleet.VerbAdmitLearner, ""
	if seat {
		verb, endpoint = fleet.VerbAdmit, m.endpoint(portRaft)
	}
	d := p.view().Decide(verb, id, &key, endpoint, p.key().String(), p.h.wall().Unix())
	if d.Refused() || !d.Commit || d.Do != fleet.DoPreApprove && d.Do != fleet.DoPreApproveSeat {
		return
	}
	w.say(p.h, "is told to admit %s as soon as it asks", m.name)
	w.check.Allow(p.view().Cluster(), id, key, "awaited on "+p.h.name)
	p.propose(d.Command, func(res fleet.Result, err error) {
		if err == nil {
			p.acked(res, AckAwaited, id, key)
		}
	})
}

// doPromote has a member become a voter.
func doPromote(w *World, h *host, arg string) {
	w.reseat(h, arg, fleet.VerbAdmit, "promote", false)
}

// doDemote has a voter become a learner; it may be the leader itself.
func doDemote(w *World, h *host, arg string) {
	w.reseat(h, arg, fleet.VerbAdmitLearner, "demote", true)
}

func (w *World) reseat(h *host, arg string, verb fleet.MembershipVerb, word string, own bool) {
	p := w.admitterOf(h)
	if p == nil {
		return
	}
	among := w.members(p, true)
	if own {
		among = append(among, p.h)
	}
	m := w.which(arg, among)
	if m == nil || !m.disk.minted {
		return
	}
	endpoint := ""
	if verb == fleet.VerbAdmit {
		endpoint = m.endpoint(portRaft)
	}
	d := p.view().Decide(verb, m.disk.id, nil, endpoint, p.key().String(), p.h.wall().Unix())
	if d.Refused() || !d.Commit {
		return
	}
	w.say(p.h, "is told to %s %s", word, m.name)
	p.propose(d.Command, func(fleet.Result, error) {})
}

func doForget(w *World, h *host, arg string) {
	p := w.admitterOf(h)
	if p == nil {
		return
	}
	m := w.which(arg, w.members(p, true))
	if m == nil || !m.disk.minted {
		return
	}
	id := m.disk.id
	v := p.view()
	d := v.Decide(fleet.VerbForget, id, nil, "", p.key().String(), p.h.wall().Unix())
	if d.Refused() || !d.Commit {
		return
	}
	w.say(p.h, "is told to forget %s", m.name)
	key := m.disk.key.Public()
	if member, ok := v.Member(id); ok {
		key = member.Key
	}
	w.check.Remove(v.Cluster(), id, key)
	p.propose(d.Command, func(res fleet.Result, err error) {
		if err == nil && d.Do == fleet.DoRemoveAndRevoke {
			p.acked(res, AckForgotten, id, key)
		}
	})
}

func doSet(w *World, h *host, arg string) {
	name, value, _ := strings.Cut(arg, "=")
	if p := w.admitterOf(h); p != nil && fleet.CheckSetting(name, value) == nil {
		p.propose(fleet.Set(name, value, p.key().String(), p.h.wall().Unix()), func(fleet.Result, error) {})
	}
}

func doPause(w *World, h *host, _ string) {
	if p := w.admitterOf(h); p != nil {
		value := strconv.FormatBool(!p.view().Switch(fleet.SettingProvisionPaused))
		p.propose(fleet.Set(fleet.SettingProvisionPaused, value, p.key().String(), p.h.wall().Unix()), func(fleet.Result, error) {})
	}
}

func doReprovision(w *World, h *host, arg string) {
	p := w.admitterOf(h)
	if p == nil || !p.work.led {
		return
	}
	if m := w.which(arg, w.members(p, true)); m != nil {
		if _, member := p.view().Member(m.disk.id); member {
			p.work.q.Reprovision(p.now(), m.disk.id)
			p.work.record(m.disk.id)
			p.work.dispatch()
		}
	}
}

// queueVerb does something to a machine that the queue knows.
func (w *World) queueVerb(h *host, arg string, verb func(k *work, id string)) {
	p := w.admitterOf(h)
	if p == nil || !p.work.led {
		return
	}
	var known []*host
	for _, e := range p.work.q.Entries() {
		for _, m := range w.hosts {
			if m.disk.id == e.ID {
				known = append(known, m)
			}
		}
	}
	if m := w.which(arg, known); m != nil {
		verb(p.work, m.disk.id)
		p.work.dispatch()
	}
}
