package simfleet

import (
	"pace-node/internal/fleet"
	"pace-node/internal/queue"
)

// record keeps what is known of a machine in the fleet's state.
func (k *work) record(id string) {
	if k.p.leads() {
		e, _ := k.q.Entry(id)
		k.p.w.check.Shown(k.p.w.now, k.p.h.name, e)
		if k.p.w.breaks.ForgetRuns {
			e.History = nil
		}
		k.p.propose(fleet.ProvisionUpdate(id, queue.RecordOf(e, k.beside(id))), func(fleet.Result, error) {})
	}
}

// beside is what this leader knows of a machine beside its entry. The queue's times are elapsed ones here; the state's are dates
// of the leader's clock.
func (k *work) beside(id string) queue.Beside {
	return queue.Beside{Last: k.events[id], Digest: k.awaiting[id], Clock: k.p.h.skew}
}

// takeOver loads the queue of a new leader from what the fleet's state knows of a machine.
func (k *work) takeOver(id string, rec fleet.Provision) {
	k.events[id] = queue.Mark{Boot: rec.BootCounter, Sequence: rec.Sequence}
	k.q.Load(k.now(), queue.Recall(id, rec, k.p.h.wall(), k.p.h.skew))
	if queue.Awaits(rec) && k.q.AwaitsConfirm(id) {
		k.awaiting[id] = rec.ConfigDigest
	}
}
