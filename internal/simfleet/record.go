package simfleet

import (
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/provision"
	"pace-node/internal/queue"
)

// record keeps what is known of a machine in the fleet's state.
func (k *work) record(id string) {
	if k.p.leads() {
		k.p.propose(fleet.ProvisionUpdate(id, k.provision(id)), func(fleet.Result, error) {})
	}
}

// provision is what the fleet's state keeps of a machine.
func (k *work) provision(id string) fleet.Provision {
	e, _ := k.q.Entry(id)
	out := fleet.Provision{Stage: string(e.Stage), LastError: e.LastError, ErrorKind: string(e.Kind), Attempts: e.Attempt, BootID: e.BootID,
		Parked: e.State == queue.StateParked, Asked: e.Asked, ConfigDigest: k.awaiting[id]}
	at := func(t time.Time) int64 { // the queue's times are elapsed ones; the state's are dates of the leader's clock
		if t.IsZero() {
			return 0
		}
		return t.Add(k.p.h.skew).Unix()
	}
	out.LastSuccess = at(e.LastSuccess)
	if m := k.events[id]; bootID(m.boot) == e.BootID[:min(16, len(e.BootID))] {
		out.Sequence = m.sequence
	}
	switch e.State {
	case queue.StateBackingOff, queue.StateDeferred, queue.StateUnconfirmed:
		out.Due = at(e.Due)
	}
	for _, h := range e.History {
		out.Outcomes = append(out.Outcomes, fleet.Outcome{At: at(h.At), Stage: string(h.Stage), Result: h.Outcome, Error: h.Error})
	}
	return out
}

// takeOver loads the queue of a new leader from what the fleet's state knows of a machine. The dates of that are the leader's clock's, and
// the queue's times are elapsed ones.
func (k *work) takeOver(id string, rec fleet.Provision) {
	known := provision.Known(id, rec, k.p.h.wall())
	elapsed := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return t.Add(-k.p.h.skew)
	}
	known.LastSuccess, known.FirstSeen = elapsed(known.LastSuccess), elapsed(known.FirstSeen)
	for i := range known.History {
		known.History[i].At = elapsed(known.History[i].At)
	}
	k.q.Load(k.now(), known)
	if provision.Awaits(rec) && k.q.AwaitsConfirm(id) {
		k.awaiting[id] = rec.ConfigDigest
	}
}
