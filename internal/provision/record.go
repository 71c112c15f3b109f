package provision

import (
	"strconv"
	"time"
	"unicode/utf8"

	"pace-node/internal/fleet"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// record writes what is known of a machine into the fleet's state.
func (p *Provisioner) record(now time.Time, id string) { p.deps.Record(id, p.provision(now, id)) }

// provision is what the fleet's state keeps of a machine.
func (p *Provisioner) provision(now time.Time, id string) fleet.Provision {
	e, _ := p.deps.Queue.Entry(id)
	mark := p.events[id]
	out := fleet.Provision{Stage: string(e.Stage), LastError: fit(e.LastError, fleet.MaxLastError), ErrorKind: string(e.Kind),
		Attempts: e.Attempt, LastSuccess: unixSeconds(e.LastSuccess), FirstSeen: unixSeconds(e.FirstSeen), BootID: e.BootID, BootCounter: bootCounter(e.BootID),
		Sequence: mark.sequence, Parked: e.State == queue.StateParked, Asked: e.Asked}
	if mark.boot > out.BootCounter {
		out.BootCounter = mark.boot
	} else if mark.boot < out.BootCounter {
		out.Sequence = 0 // no event of this boot was heard
	}
	switch e.State {
	case queue.StateBackingOff, queue.StateDeferred, queue.StateUnconfirmed:
		out.Due = unixSeconds(e.Due)
	}
	for _, h := range e.History {
		out.Outcomes = append(out.Outcomes, fleet.Outcome{At: unixSeconds(h.At), Stage: string(h.Stage), Result: h.Outcome,
			Error: fit(h.Error, fleet.MaxOutcomeError)})
	}
	if w := p.awaiting[id]; w != nil {
		out.ConfigDigest, out.Component = w.digest, w.component
	}
	return out
}

// confirmRecord makes of a held machine's record the one that is committed when it confirms.
func confirmRecord(rec *fleet.Provision, now time.Time, w *pending) {
	rec.Stage, rec.LastError, rec.ErrorKind, rec.Attempts, rec.Due, rec.Parked = string(queue.StageConfirm), "", "", 0, 0, false
	rec.LastSuccess, rec.FirstSeen, rec.ConfigDigest, rec.Component = unixSeconds(now), 0, w.digest, w.component
	rec.Outcomes = append(rec.Outcomes, fleet.Outcome{At: unixSeconds(now), Stage: string(queue.StageConfirm), Result: queue.PastProvisioned})
	if over := len(rec.Outcomes) - fleet.MaxOutcomes; over > 0 {
		rec.Outcomes = rec.Outcomes[over:]
	}
}

// Known is what a new leader, whose clock shows now, takes over of a machine by the record that the fleet's state has of it.
func Known(id string, rec fleet.Provision, now time.Time) queue.Known {
	k := queue.Known{ID: id, Attempts: rec.Attempts, Stage: queue.Stage(rec.Stage), LastError: rec.LastError,
		Kind: queue.ErrorKind(rec.ErrorKind), BootID: rec.BootID, Asked: rec.Asked}
	if rec.LastSuccess > 0 {
		k.LastSuccess = time.Unix(rec.LastSuccess, 0)
	}
	for _, o := range rec.Outcomes {
		k.History = append(k.History, queue.Past{At: time.Unix(o.At, 0), Outcome: o.Result, Stage: queue.Stage(o.Stage), Error: o.Error})
	}
	if rec.FirstSeen > 0 {
		k.FirstSeen = time.Unix(rec.FirstSeen, 0)
	}
	if k.State = StateOf(rec); k.State == queue.StateHeld && !Awaits(rec) {
		k.State = queue.StateNone // it was told to shut down, and whether it came back the first round shows
	}
	if rec.Due > 0 {
		// Of another leader's clock: where that was ahead of this one, the machine waits as long as it was told to, and no longer.
		due := time.Unix(rec.Due, 0)
		k.DueIn = due.Sub(now)
		if n := len(rec.Outcomes); n > 0 {
			k.DueIn = min(k.DueIn, due.Sub(time.Unix(rec.Outcomes[n-1].At, 0)))
		}
		if k.State != queue.StateDeferred {
			k.DueIn = min(k.DueIn, queue.BackoffMax)
		}
	}
	return k
}

// Awaits reports whether a machine's last run ended well and its confirmation is not in the fleet's state.
func Awaits(rec fleet.Provision) bool {
	n := len(rec.Outcomes)
	return n > 0 && rec.Outcomes[n-1].Result == queue.OutcomeSuccess.String() && rec.ConfigDigest != ""
}

func unixSeconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// bootCounter is the first eight bytes of a boot id in hex; 0 for what is none.
func bootCounter(id string) uint64 {
	if len(id) != 32 {
		return 0
	}
	n, err := strconv.ParseUint(id[:16], 16, 64)
	if err != nil {
		return 0
	}
	return n
}

// fit makes a text that the fleet's state takes: printable and at most max bytes.
func fit(s string, max int) string {
	s = wire.Printable(s)
	if len(s) <= max {
		return s
	}
	const mark = "…"
	cut := max - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}
