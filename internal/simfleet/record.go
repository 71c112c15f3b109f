package simfleet

import (
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/queue"
)

// outcomeProvisioned is the outcome that a confirmation adds.
const outcomeProvisioned = "provisioned"

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
		Parked: e.State == queue.StateParked, ConfigDigest: k.awaiting[id]}
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

// known is what a new leader takes over of a machine.
func known(id string, rec fleet.Provision, wall time.Time) queue.Known {
	k := queue.Known{ID: id, Attempts: rec.Attempts, Stage: queue.Stage(rec.Stage), LastError: rec.LastError, Kind: queue.ErrorKind(rec.ErrorKind), BootID: rec.BootID}
	last := ""
	for _, o := range rec.Outcomes {
		last = o.Result
	}
	switch {
	case rec.Parked:
		k.State = queue.StateParked
	case rec.Due > 0 && last == queue.OutcomeDeferred.String():
		k.State = queue.StateDeferred
	case rec.Due > 0:
		k.State = queue.StateBackingOff
	case last == outcomeProvisioned:
		k.State = queue.StateConfirmed
	}
	if rec.Due > 0 {
		due := time.Unix(rec.Due, 0)
		k.DueIn = due.Sub(wall)
		if n := len(rec.Outcomes); n > 0 {
			k.DueIn = min(k.DueIn, due.Sub(time.Unix(rec.Outcomes[n-1].At, 0)))
		}
		if k.State != queue.StateDeferred {
			k.DueIn = min(k.DueIn, queue.BackoffMax)
		}
	}
	return k
}
