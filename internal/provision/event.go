package provision

import (
	"encoding/hex"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// EventRefusal is why a startup event was not admitted before the queue was asked; it is the label of
// pace_provision_events_refused_total.
type EventRefusal string

// The refusals.
const (
	RefusedUnknown   EventRefusal = "unknown"
	RefusedRevoked   EventRefusal = "revoked"
	RefusedSignature EventRefusal = "signature"
	RefusedCluster   EventRefusal = "cluster"
	RefusedReplayed  EventRefusal = "replayed"
	RefusedClash     EventRefusal = "identity_clash"
	RefusedComponent EventRefusal = "component"
)

// eventCase is what an event is judged by.
type eventCase struct {
	event     *wire.StartupEvent
	key       identity.PublicKey
	standing  Standing
	cluster   string
	last      queue.Mark // the last event that was accepted of it
	clash     bool       // two machines answered the last round for its id
	component string
}

// EventCheck is one row of EventChecks.
type EventCheck struct {
	Refusal EventRefusal
	Invalid bool // it also counts in pace_provision_refused_total{reason="invalid"}
	OnLoop  bool // it needs what only the loop knows
	Fails   func(*eventCase) bool
}

// EventChecks is the ordered list of checks: the first that fails is the reason. A machine that is not in the roster has
// no key to verify with, so that is asked first; a clash and another component are no fault of the event.
var EventChecks = []EventCheck{
	{RefusedUnknown, true, false, func(c *eventCase) bool { return c.standing == StandingUnknown }},
	{RefusedRevoked, true, false, func(c *eventCase) bool { return c.standing == StandingRevoked }},
	{RefusedSignature, true, false, func(c *eventCase) bool { return !identity.Verify(c.key, c.event.Message(), c.event.Signature) }},
	{RefusedCluster, true, false, func(c *eventCase) bool { return c.event.Cluster != c.cluster }},
	{RefusedReplayed, true, true, func(c *eventCase) bool { return !queue.MarkOf(c.event).After(c.last) }},
	{RefusedClash, false, true, func(c *eventCase) bool { return c.clash }},
	{RefusedComponent, false, true, func(c *eventCase) bool { return c.event.Component != c.component }},
}

// judgeEvent returns the first check that fails among those of one side.
func judgeEvent(c *eventCase, onLoop bool) (EventCheck, bool) {
	for _, row := range EventChecks {
		if row.OnLoop == onLoop && row.Fails(c) {
			return row, true
		}
	}
	return EventCheck{}, false
}

// Event judges a startup event that came over a member's session and puts it through admission; answer is called once,
// on some goroutine. It verifies the signature before it returns.
func (p *Provisioner) Event(e wire.StartupEvent, answer func(wire.StartupEventAnswer)) {
	c := &eventCase{event: &e, cluster: p.deps.Cluster(), component: p.cfg.Load().Component}
	c.key, c.standing = p.deps.MemberKey(e.Node)
	if row, refused := judgeEvent(c, false); refused {
		p.refuseEvent(e.Node, row, answer)
		return
	}
	if p.stopping.Load() {
		p.m.lateEvents.Add(1)
		answer(wire.StartupEventAnswer{Refused: queue.Paused.String()})
		return
	}
	heard := time.Now()
	p.post(func(now time.Time) {
		c.last, c.clash = p.events[e.Node], p.clashes[e.Node]
		if row, refused := judgeEvent(c, true); refused {
			p.refuseEvent(e.Node, row, answer)
			return
		}
		if p.deps.Queue.PausedBy() == 0 {
			p.events[e.Node] = queue.MarkOf(&e) // a dropped one may come again once the queue runs
		}
		age := min(time.Duration(min(e.AgeMS, uint64(MaxEventAge/time.Millisecond)))*time.Millisecond+max(now.Sub(heard), 0), MaxEventAge)
		v := p.deps.Queue.Add(now, queue.Sighting{ID: e.Node, Made: now.Add(-age), Source: queue.SourceEvent,
			BootID: hex.EncodeToString(e.BootID[:]), Wants: true, Always: p.always[e.Node]})
		if v == queue.HoldEnded {
			delete(p.awaiting, e.Node)
			last, _ := p.deps.Queue.Entry(e.Node)
			p.log.Warn("machine started again within the hold", "id", e.Node, "stage", string(last.Stage), "error", last.LastError)
			p.record(e.Node)
		}
		p.log.Debug("startup event", "id", e.Node, "verdict", v.String())
		a := wire.StartupEventAnswer{Admitted: v.Enters()}
		said := "heard"
		if !a.Admitted {
			a.Refused, said = v.String(), "passed-over"
		}
		p.tell(TellStartup, said, e.Node, "component "+e.Component+", "+v.String())
		answer(a)
		p.after(now)
	})
}

func (p *Provisioner) refuseEvent(id string, row EventCheck, answer func(wire.StartupEventAnswer)) {
	p.m.eventsRefused.add(string(row.Refusal))
	if row.Invalid {
		p.m.invalidEvents.Add(1)
	}
	p.log.Debug("startup event refused", "id", wire.Printable(id), "reason", string(row.Refusal))
	p.post(func(time.Time) { p.tell(TellStartup, "refused", id, string(row.Refusal)) })
	answer(wire.StartupEventAnswer{Refused: string(row.Refusal)})
}

// What Tell is told of.
const (
	TellStartup = "startup"
	TellRun     = "run"
)

// ComponentProvisioner is the component of the leader's side's own startup event.
const ComponentProvisioner = "provisioner"

func (p *Provisioner) tell(kind, what, id, detail string) {
	if p.deps.Tell != nil {
		p.deps.Tell(kind, what, id, detail)
	}
}
