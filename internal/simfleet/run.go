package simfleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/queue"
)

// Times of the calm after a story.
const (
	calmLook  = 20 * time.Second // how often people approve, and it is looked whether all is at rest
	calmMost  = 45 * time.Minute // by then it is: an ask is given up after 10 minutes, a fleet held for another one
	calmTwice = 2                // looks in a row
)

// Outcome is how a story ended.
type Outcome struct {
	Story     *Story
	Violation *Violation // nil: every rule held
	Sum       Sum
	said      []string
}

// Sum is what happened in stories, in numbers.
type Sum struct {
	Virtual                                time.Duration // in their own time
	Events                                 uint64
	Steps                                  int
	Admitted, Provisioned, Leaders, Killed int
	Worst                                  time.Duration // until all was at rest
}

// Add adds another story's.
func (s *Sum) Add(o Sum) {
	s.Virtual += o.Virtual
	s.Events += o.Events
	s.Steps += o.Steps
	s.Admitted += o.Admitted
	s.Provisioned += o.Provisioned
	s.Leaders += o.Leaders
	s.Killed += o.Killed
	s.Worst = max(s.Worst, o.Worst)
}

// Run tells a story to its end, then lets everything be at rest, and looks whether it is.
func Run(s *Story, breaks Breaks) *Outcome {
	w := New(s, breaks)
	for _, step := range s.Steps {
		w.at(step.At, func() { w.perform(step) })
	}
	w.until(s.Span)
	w.at(s.Span, w.beCalm)
	w.until(s.Span + time.Millisecond)
	w.rest()
	w.sum.Steps = len(s.Steps)
	w.sum.Virtual, w.sum.Events, w.sum.Admitted, w.sum.Leaders, w.sum.Worst = w.now, w.done, w.check.admitted(), len(w.check.leaders), w.now-s.Span
	return &Outcome{Story: s, Violation: w.check.Err, Sum: w.sum, said: w.said}
}

// until lets everything happen up to a moment, unless a rule is broken.
func (w *World) until(end time.Duration) {
	for w.check.Err == nil && w.next(end) {
	}
}

// beCalm ends every disturbance.
func (w *World) beCalm() {
	w.calm = true
	w.said = append(w.said, "            — calm")
	w.loss = 0
	w.heal()
	for _, h := range w.hosts {
		h.full, h.trap = false, ""
		h.start()
	}
}

// rest waits until all is at rest.
func (w *World) rest() {
	end, quiet, why := w.now+calmMost, 0, ""
	for w.check.Err == nil && quiet < calmTwice {
		if w.now >= end {
			w.rested()
			w.check.fail(RuleUnsettled, w.now, "all", "%s", why)
			return
		}
		w.tend()
		w.until(w.now + calmLook)
		if why = w.unrest(); why == "" {
			quiet++
		} else {
			quiet = 0
		}
	}
	w.rested()
}

// tend is people who look after their fleets: they approve who waits, and have tried again what was given up.
func (w *World) tend() {
	for _, h := range w.hosts {
		p := h.proc
		if w.breaks.Deaf {
			return
		}
		w.rescue(h)
		if !p.admits() {
			continue
		}
		for _, r := range p.list.Rows(p.now()) {
			if r.Decision == enroll.Waiting {
				p.approveRow(r)
			}
		}
		for _, e := range p.work.q.Entries() {
			if e.State == queue.StateParked {
				p.work.q.Retry(p.now(), e.ID)
			}
		}
	}
}

func (w *World) rested() {
	for _, h := range w.hosts {
		if p := h.proc; p != nil && p.leads() {
			w.check.Rested(w.now, h.name, p.view())
		}
	}
}

// unrest says who has not come to rest, and why; empty: everybody has.
func (w *World) unrest() string {
	var out []string
	for _, h := range w.hosts {
		if why := w.restless(h); why != "" {
			out = append(out, h.name+" "+why)
		}
	}
	return strings.Join(out, "; ")
}

func (w *World) restless(h *host) string {
	p := h.proc
	if p == nil {
		return "is down"
	}
	own, v := p.form.Own(), p.view()
	if p.moving {
		return "is moving"
	}
	switch own.Mode {
	case formation.Pending:
		return "asks " + short(own.Target.Cluster) + " at " + own.Target.Endpoint
	case formation.Solitary:
		if !p.leads() {
			return "is alone and does not lead itself"
		}
		if why := w.overlooks(h, own); why != "" {
			return why
		}
		return w.unprovisioned(h, p)
	}
	lead := w.leaderOf(h)
	switch {
	case lead == nil:
		return "knows no leader of " + short(own.Cluster)
	case v.Epoch() != lead.view().Epoch() || v.Revision() != lead.view().Revision():
		return fmt.Sprintf("is at revision %d, its leader at %d", v.Revision(), lead.view().Revision())
	case own.Mode == formation.Learner && p.learner.following == "":
		return "follows nobody"
	case lead.h == h && v.CountRole(fleet.RoleVoterPending)+v.CountRole(fleet.RoleLeaving) > 0:
		return "changes its voters"
	}
	return w.unprovisioned(h, lead)
}

// overlooks says which fleet of its segment a machine on its own would ask and does not.
func (w *World) overlooks(h *host, own formation.Own) string {
	if own.Established {
		return ""
	}
	var held []string
	for _, r := range h.proc.form.Rejections(h.proc.now()) {
		held = append(held, r.Cluster)
	}
	held = append(held, h.proc.form.Revoked()...)
	for _, o := range w.segments[h.segment] {
		if o == h || o.proc == nil || o.proc.form.Own().Mode == formation.Pending {
			continue
		}
		s := o.proc.summary()
		f := formation.FleetOf(&s, o.proc.key(), formation.OriginBeacon, netAddr(o))
		if !slices.Contains(held, f.Cluster) && formation.Classify(own, f, formation.NoSplit, nil).Yields() {
			return "sees fleet " + short(f.Cluster) + " and does not ask it"
		}
	}
	return ""
}

// Tell is the story of a failure: what was broken, the steps, and the last lines of what happened.
func (o *Outcome) Tell() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n\n%s\n", o.Violation, o.Story)
	last := o.said[max(0, len(o.said)-toldLines):]
	fmt.Fprintf(&b, "the last of what happened:\n%s\n", strings.Join(last, "\n"))
	return b.String()
}
