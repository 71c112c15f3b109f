package simfleet

import (
	"fmt"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/formation"
)

const (
	// handingFor is what another voter is given to take leadership over.
	handingFor = 3 * time.Second
	// meansHeardFor is for how long a voter that announced itself counts as one with a session.
	meansHeardFor = 2*tellEvery + silenceLeast
)

// meansLooked is a leader's look at what there is to provision with, once an interval: without anything its queue stays
// paused, and it has a voter lead that can provision.
func (k *work) meansLooked() {
	if !k.p.h.helper && k.busy == 0 {
		k.p.handQueueOver()
	}
}

// tellMeans tells the other voters whether this one could provision, were it to lead.
func (p *proc) tellMeans() {
	v := p.view()
	m, member := v.Member(p.id())
	if p.voter == nil || p.moving || !member || m.Role != fleet.RoleVoter {
		return
	}
	cluster, id, provisions := v.Cluster(), p.id(), p.h.helper
	for _, o := range v.Voters() {
		if o.ID != id {
			p.call(p.w.hostAt(o.Endpoints.FC), probeFor, func(q *proc, _ func(func())) {
				if q.view().Cluster() == cluster && !q.moving {
					q.meansHeard(id, provisions)
				}
			}, func(string) {})
		}
	}
}

// meansHeard keeps what another voter announced; a leader that has nothing to provision with may hand over to it.
func (p *proc) meansHeard(id string, provisions bool) {
	if p.heardOf == nil {
		p.heardOf = map[string]time.Duration{}
	}
	p.heardOf[id] = p.w.now
	if p.means.Heard(id, provisions) && provisions && p.leads() && !p.h.helper {
		p.handQueueOver()
	}
}

// handQueueOver has a voter lead that announced that it could provision, since this one cannot.
func (p *proc) handQueueOver() {
	if p.handing || !p.leads() || p.w.breaks.KeepLeading {
		return
	}
	var here []string
	for _, m := range p.view().Voters() {
		if at, heard := p.heardOf[m.ID]; heard && m.ID != p.id() && p.w.now-at < meansHeardFor {
			here = append(here, m.ID)
		}
	}
	for _, id := range p.means.HandTo(p.now(), p.means.Able(here)) {
		if p.voter.handOverTo(id) {
			p.handing = true
			p.after(handingFor, func() { p.handing = false })
			return
		}
	}
}

// unprovisioned says why a machine that wants provisioning has not come to rest; empty: nobody who could lead its fleet can
// provision it, or a person paused the queue.
func (w *World) unprovisioned(h *host, lead *proc) string {
	if !h.proc.work.target.wants() || lead.view().Switch(fleet.SettingProvisionPaused) {
		return ""
	}
	if lead.h.helper {
		e, _ := lead.work.q.Entry(h.disk.id)
		return fmt.Sprintf("waits to be provisioned (%s, paused by %d, last error %q)", e.State, lead.work.q.PausedBy(), e.LastError)
	}
	for _, m := range lead.view().Voters() {
		if o := w.hostAt(m.Endpoints.Raft); o != nil && o.helper && o.proc != nil && o.disk.id == m.ID && o.proc.form.Own().Mode == formation.Voter {
			return "waits for a leader that can provision it: " + lead.h.name + " leads, and " + o.name + " could"
		}
	}
	return ""
}
