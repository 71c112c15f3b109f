package simfleet

import (
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
	if p == nil {
		return nil
	}
	if p.leads() {
		return p
	}
	_, endpoint, _ := p.leader()
	if to := w.hostAt(endpoint); to != nil && to.proc != nil && to.proc.leads() && w.joined(h, to) && to.proc.view().Cluster() == p.form.Own().Cluster {
		return to.proc
	}
	return nil
}

// admits reports whether a leader may be told to admit machines: one that asks another fleet refuses.
func (p *proc) admits() bool {
	return p != nil && p.leads() && p.form.Own().Mode != formation.Pending && !p.moving
}

// waitsAt is the leader in whose list a machine waits, and its row.
func (w *World) waitsAt(h *host) (*proc, enroll.Row) {
	p := h.proc
	if p == nil || p.form.Own().Target == nil {
		return nil, enroll.Row{}
	}
	at := w.hostAt(p.form.Own().Target.Endpoint)
	if at == nil || !at.proc.admits() {
		return nil, enroll.Row{}
	}
	for _, r := range at.proc.list.Rows(at.proc.now()) {
		if r.ID == h.disk.id && r.Key == p.key() && r.Decision == enroll.Waiting {
			return at.proc, r
		}
	}
	return nil, enroll.Row{}
}

// approve is a person who compared the keys of a machine that waits.
func (w *World) approve(h *host) {
	p, row := w.waitsAt(h)
	if p == nil || w.breaks.Deaf {
		return
	}
	p.approveRow(row)
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
		p.acked(res, ackAdmitted, r.ID, r.Key)
	})
}

// acked: a person was told that it is done.
func (p *proc) acked(res fleet.Result, what ackKind, id string, key identity.PublicKey) {
	v := p.view()
	p.w.say(p.h, "says that the %s of %s is done at revision %d", ackNames[what], short(id), res.Revision)
	p.w.check.acked(v.Cluster(), v.Epoch(), res.Revision, what, id, key)
}

func (w *World) reject(h *host) {
	p, row := w.waitsAt(h)
	if p == nil {
		return
	}
	key := row.Key
	ids, err := p.list.Reject(p.now(), row.ID, &key)
	if err != nil {
		return
	}
	for _, id := range ids {
		for _, x := range append([]*waiter(nil), p.waiters[id]...) {
			p.tell(x, p.answer(wire.OutcomeRejected, x, [32]byte{}, false), true)
		}
	}
}

func doWindow(w *World, h *host, arg string) {
	p := w.leaderOf(h)
	d, err := time.ParseDuration(arg)
	if err != nil || !p.admits() {
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
			w.check.decidedByWindow(cluster, id, p.h.name, w.now)
		}
		p.admitRows(p.rowsOf(ids), true, nil)
	})
}

func doWindowOff(w *World, h *host, _ string) {
	if p := w.leaderOf(h); p.admits() {
		p.list.Off(p.now())
		w.check.windowEnds(p.view().Cluster(), p.h.name, w.now)
	}
}

// decide asks the membership rules, and commits what they say.
func (p *proc) decide(verb fleet.MembershipVerb, id string, key *identity.PublicKey, endpoint string, done func(fleet.Result, error)) fleet.Decision {
	d := p.view().Decide(verb, id, key, endpoint, p.key().String(), p.h.wall().Unix())
	if !d.Refused() && d.Commit {
		p.propose(d.Command, done)
	}
	return d
}

func doAwait(w *World, h *host, arg string) {
	p, m := w.leaderOf(h), w.named(arg)
	if !p.admits() || m == nil || !m.disk.minted {
		return
	}
	id, key := m.disk.id, m.disk.key.Public()
	d := p.view().Decide(fleet.VerbAdmitLearner, id, &key, "", p.key().String(), p.h.wall().Unix())
	if d.Refused() || !d.Commit {
		return
	}
	w.say(p.h, "is told to admit %s as soon as it asks", m.name)
	w.check.Allow(p.view().Cluster(), id, key, "awaited on "+p.h.name)
	p.propose(d.Command, func(res fleet.Result, err error) {
		if err == nil && d.Do == fleet.DoPreApprove {
			p.acked(res, ackAwaited, id, key)
		}
	})
}

func doForget(w *World, h *host, arg string) {
	p, m := w.leaderOf(h), w.named(arg)
	if p == nil || !p.leads() || m == nil || !m.disk.minted {
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
			p.acked(res, ackForgotten, id, key)
		}
	})
}

func doSet(w *World, h *host, arg string) {
	name, value, _ := strings.Cut(arg, "=")
	if p := w.leaderOf(h); p.admits() && fleet.CheckSetting(name, value) == nil {
		p.propose(fleet.Set(name, value, p.key().String(), p.h.wall().Unix()), func(fleet.Result, error) {})
	}
}
