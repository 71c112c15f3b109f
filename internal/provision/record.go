package provision

import (
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/queue"
)

// record writes what is known of a machine into the fleet's state.
func (p *Provisioner) record(id string) { p.deps.Record(id, p.provision(id)) }

// provision is what the fleet's state keeps of a machine.
func (p *Provisioner) provision(id string) fleet.Provision {
	e, _ := p.deps.Queue.Entry(id)
	return queue.RecordOf(e, p.beside(id))
}

// confirmed is what it keeps from the moment in which the machine's confirmation is committed.
func (p *Provisioner) confirmed(now time.Time, id string) fleet.Provision {
	e, _ := p.deps.Queue.Entry(id)
	return queue.ConfirmedRecord(now, e, p.beside(id))
}

// beside is what this leader knows of a machine beside its entry.
func (p *Provisioner) beside(id string) queue.Beside {
	b := queue.Beside{Last: p.events[id]}
	if w := p.awaiting[id]; w != nil {
		b.Digest, b.Component = w.digest, w.component
	}
	return b
}
