package simfleet

import (
	"pace-node/internal/fleet"
)

// work is provisioning: the leader's queue, and the machine's own side.
type work struct {
	p *proc
}

func newWork(p *proc) *work { return &work{p: p} }

func (k *work) lead(bool)                    {}
func (k *work) tick()                        {}
func (k *work) viewChanged(*fleet.View)      {}
func (k *work) changedFleet(string)          {}
func (k *work) tellStart()                   {}
func (k *work) sessionUp(q *proc, s *stream) {}
