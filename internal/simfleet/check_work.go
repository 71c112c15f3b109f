package simfleet

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// worker is what a checker knows of the steps that one machine does for leaders.
type worker struct {
	running    *wire.LeaseClaims // nil: none
	configured *wire.LeaseClaims // whose step made its configuration; nil: nobody's
}

// inFleet is a machine in one epoch of a fleet.
type inFleet struct {
	who, cluster string
	epoch        uint64
}

func (c *Checker) worker(who string) *worker {
	k := c.workers[who]
	if k == nil {
		k = &worker{}
		c.workers[who] = k
	}
	return k
}

// StepBegins judges that a machine begins a step of a lease: whoever signed it led its fleet in that term, no other step is
// under way, no leader of a later term was obeyed, and what is restarted is what the same leader configured.
func (c *Checker) StepBegins(at time.Duration, who string, l wire.LeaseClaims) {
	if leader := c.leaders[termOf{l.Cluster, l.Epoch, l.Term}]; leader != l.Signer {
		c.fail(RuleQueue, at, who, "it does a step for %s, which never led fleet %s in term %d", short(l.Signer), short(l.Cluster), l.Term)
	}
	k, in := c.worker(who), inFleet{who, l.Cluster, l.Epoch}
	if k.running != nil {
		c.fail(RuleOneStep, at, who, "it begins to %s for %s while it does a step (%s) for %s", l.Step, short(l.Signer), k.running.Step, short(k.running.Signer))
	}
	if l.Step == string(queue.StageRestart) {
		if o := k.configured; o == nil || o.Cluster != l.Cluster || o.Epoch != l.Epoch || o.Term != l.Term || o.Signer != l.Signer {
			c.fail(RuleTwice, at, who, "it restarts for %s, leader of term %d, into what another one configured", short(l.Signer), l.Term)
		}
	}
	if top := c.obeyed[in]; l.Term < top {
		c.fail(RuleLease, at, who, "it begins to %s for %s by a lease of term %d, and obeyed the leader of term %d before", l.Step, short(l.Signer), l.Term, top)
	}
	c.obeyed[in] = max(c.obeyed[in], l.Term)
	k.running = &l
}

// StepWrites judges that the step under way changes what the machine runs.
func (c *Checker) StepWrites(at time.Duration, who string, l wire.LeaseClaims) {
	if top := c.obeyed[inFleet{who, l.Cluster, l.Epoch}]; l.Term < top {
		c.fail(RuleLease, at, who, "it carries on to %s by a lease of term %d, and obeyed the leader of term %d meanwhile", l.Step, l.Term, top)
	}
	c.worker(who).configured = &l
}

// StepEnds notes that a machine's step is over, also by its process' end.
func (c *Checker) StepEnds(who string) { c.worker(who).running = nil }

// forgetTerms drops what was obeyed from an epoch on: its numbers are used again.
func (c *Checker) forgetTerms(cluster string, epoch uint64) {
	maps.DeleteFunc(c.obeyed, func(in inFleet, _ uint64) bool { return in.cluster == cluster && in.epoch >= epoch })
}

// seeRecords judges how the records of provisioning go on from one revision to the next, as a voter holds them: the last startup
// event that is kept is never an earlier one, and what was kept of how runs ended stays.
func (c *Checker) seeRecords(s Sight, f *knownFleet) {
	v, prev := s.View, f.records
	if s.Mode == formation.Learner || s.Moving || prev != nil && fleet.ComparePosition(v.Epoch(), v.Revision(), prev.Epoch(), prev.Revision()) <= 0 {
		return
	}
	f.records = v
	if prev == nil || prev.Epoch() != v.Epoch() || prev.Revision()+1 != v.Revision() {
		return
	}
	for m := range v.Members() {
		was, ok := prev.Member(m.ID)
		if !ok || was.Key != m.Key {
			continue
		}
		if why := backwards(&was.Provision, &m.Provision); why != "" {
			c.fail(RuleBack, s.At, s.Who, "the record of %s (%s) in fleet %s at revision %d: %s", m.Name, short(m.ID), short(v.Cluster()), v.Revision(), why)
		}
	}
}

// backwards says how a record went back; empty: it did not.
func backwards(was, now *fleet.Provision) string {
	if fleet.ComparePosition(now.BootCounter, now.Sequence, was.BootCounter, was.Sequence) < 0 {
		return "its last startup event is an earlier one than before"
	}
	if n := len(was.Outcomes); n == 0 || n == len(now.Outcomes) && &was.Outcomes[0] == &now.Outcomes[0] {
		return ""
	}
	// What is new stands behind what was there, of which the oldest may be gone. A confirmation is known to its leader only once it is
	// committed: what that leader writes in the moment before, at a person's word, does not hold it.
	kept := was.Outcomes
	if n := len(kept) - 1; kept[n].Result == queue.PastProvisioned {
		kept = kept[:n]
	}
	if len(kept) == 0 {
		return ""
	}
	for from := range kept {
		if rest := kept[from:]; len(rest) <= len(now.Outcomes) && slices.EqualFunc(rest, now.Outcomes[:len(rest)], sameEnd) {
			if from > 0 && len(now.Outcomes) < fleet.MaxOutcomes {
				return "outcomes are gone, and there was room for them"
			}
			return ""
		}
	}
	return fmt.Sprintf("how its runs ended is forgotten: there were %d, the last %s, and are %d, the last %s", len(was.Outcomes), last(was), len(now.Outcomes), last(now))
}

// sameEnd compares two outcomes but for their dates: those of the queue's elapsed times move here with the clock of the leader.
func sameEnd(a, b fleet.Outcome) bool {
	return a.Stage == b.Stage && a.Result == b.Result && a.Error == b.Error
}

// last is how a machine's last run ended, as its record keeps it.
func last(p *fleet.Provision) string {
	if n := len(p.Outcomes); n > 0 {
		return fmt.Sprintf("%s at %s of %d", p.Outcomes[n-1].Result, p.Outcomes[n-1].Stage, p.Outcomes[n-1].At)
	}
	return "none"
}

// Shown judges a machine's record as it is written: what is given up, or waits to be tried again, has a reason that a person can
// read.
func (c *Checker) Shown(at time.Duration, who string, e queue.Entry) {
	switch e.State {
	case queue.StateParked, queue.StateBackingOff, queue.StateUnconfirmed:
		if e.LastError == "" {
			c.fail(RuleQueue, at, who, "%s is %s, and nothing says why", short(e.ID), e.State)
		}
	}
}
