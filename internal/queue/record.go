package queue

import (
	"encoding/binary"
	"strconv"
	"time"
	"unicode/utf8"

	"pace-node/internal/fleet"
	"pace-node/internal/wire"
)

// Mark is the last startup event that was accepted of a machine: the number of its boot, and of the event within it.
type Mark struct{ Boot, Sequence uint64 }

// MarkOf is the mark of an event.
func MarkOf(e *wire.StartupEvent) Mark {
	return Mark{binary.BigEndian.Uint64(e.BootID[:8]), e.Sequence}
}

// After reports whether an event is newer than the one of o.
func (m Mark) After(o Mark) bool {
	return fleet.ComparePosition(m.Boot, m.Sequence, o.Boot, o.Sequence) > 0
}

// Beside is what a leader knows of a machine beside the queue's entry.
type Beside struct {
	Last              Mark
	Digest, Component string // that a held machine is to announce, and announced; empty: nothing is awaited
	// Clock is by how much the leader's clock is ahead of the queue's times, where these do not carry it themselves.
	Clock time.Duration
}

// seconds is a time of the queue as a date of the leader's clock, in Unix seconds; 0 for none.
func (b *Beside) seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Add(b.Clock).Unix()
}

// RecordOf is what the fleet's state keeps of a machine: the one way from the queue into the state. Recall is the way back.
func RecordOf(e Entry, b Beside) fleet.Provision {
	out := fleet.Provision{Stage: string(e.Stage), LastError: fit(e.LastError, fleet.MaxLastError), ErrorKind: string(e.Kind),
		Attempts: e.Attempt, LastSuccess: b.seconds(e.LastSuccess), FirstSeen: b.seconds(e.FirstSeen), BootID: e.BootID, BootCounter: bootCounter(e.BootID),
		Sequence: b.Last.Sequence, Parked: e.State == StateParked, Asked: e.Asked, ConfigDigest: b.Digest, Component: b.Component}
	if b.Last.Boot > out.BootCounter {
		out.BootCounter = b.Last.Boot
	} else if b.Last.Boot < out.BootCounter {
		out.Sequence = 0 // no event of this boot was heard
	}
	switch e.State {
	case StateBackingOff, StateDeferred, StateUnconfirmed:
		out.Due = b.seconds(e.Due)
	}
	for _, h := range e.History {
		out.Outcomes = append(out.Outcomes, fleet.Outcome{At: b.seconds(h.At), Stage: string(h.Stage), Result: h.Outcome,
			Error: fit(h.Error, fleet.MaxOutcomeError)})
	}
	return out
}

// ConfirmedRecord is what the fleet's state keeps of a held machine from the moment in which its confirmation is committed.
func ConfirmedRecord(now time.Time, e Entry, b Beside) fleet.Provision {
	out := RecordOf(e, b)
	out.Stage, out.LastError, out.ErrorKind, out.Attempts, out.Due, out.Parked = string(StageConfirm), "", "", 0, 0, false
	out.LastSuccess, out.FirstSeen = b.seconds(now), 0
	out.Asked = e.State == StateWaiting && e.Source == SourceOperator // for one more run after this one
	out.Outcomes = append(out.Outcomes, fleet.Outcome{At: b.seconds(now), Stage: string(StageConfirm), Result: PastProvisioned})
	if over := len(out.Outcomes) - fleet.MaxOutcomes; over > 0 {
		out.Outcomes = out.Outcomes[over:]
	}
	return out
}

// Recall is what a new leader, whose clock shows wall, takes over of a machine by the record that the fleet's state has of it.
// clock is by how much that clock is ahead of the queue's times, as in Beside.
func Recall(id string, rec fleet.Provision, wall time.Time, clock time.Duration) Known {
	date := func(at int64) time.Time {
		if at <= 0 {
			return time.Time{}
		}
		return time.Unix(at, 0).Add(-clock)
	}
	k := Known{ID: id, Attempts: rec.Attempts, Stage: Stage(rec.Stage), LastError: rec.LastError, LastSuccess: date(rec.LastSuccess),
		FirstSeen: date(rec.FirstSeen), Kind: ErrorKind(rec.ErrorKind), BootID: rec.BootID, Asked: rec.Asked}
	for _, o := range rec.Outcomes {
		k.History = append(k.History, Past{At: time.Unix(o.At, 0).Add(-clock), Outcome: o.Result, Stage: Stage(o.Stage), Error: o.Error})
	}
	if k.State = StateOf(rec); k.State == StateHeld && !Awaits(rec) {
		k.State = StateNone // it was told to shut down, and whether it came back the first round shows
	}
	if rec.Due > 0 {
		// Of another leader's clock: where that was ahead of this one, the machine waits as long as it was told to, and no longer.
		due := time.Unix(rec.Due, 0)
		k.DueIn = due.Sub(wall)
		if n := len(rec.Outcomes); n > 0 {
			k.DueIn = min(k.DueIn, due.Sub(time.Unix(rec.Outcomes[n-1].At, 0)))
		}
		if k.State != StateDeferred {
			k.DueIn = min(k.DueIn, BackoffMax)
		}
	}
	return k
}

// StateOf is the state of a machine by what the fleet's state keeps of it, as a node tells it that does not run the queue,
// and as a new leader takes it over. A machine of which nothing is kept has none: it never asked, or has not been looked at
// yet. One that was being worked when its leader went away has the state that its last finished run left.
func StateOf(rec fleet.Provision) State {
	last := ""
	if n := len(rec.Outcomes); n > 0 {
		last = rec.Outcomes[n-1].Result
	}
	switch {
	case rec.Parked:
		return StateParked
	case rec.Due > 0 && last == OutcomeDeferred.String():
		return StateDeferred
	case rec.Due > 0 && last == PastUnconfirmed:
		return StateUnconfirmed
	case rec.Due > 0:
		return StateBackingOff
	case last == OutcomeSuccess.String(), last == OutcomeShutdown.String():
		return StateHeld
	case rec.Asked:
		return StateWaiting
	case last == PastProvisioned:
		return StateConfirmed
	}
	return StateNone
}

// Awaits reports whether a machine's last run ended well and its confirmation is not in the fleet's state.
func Awaits(rec fleet.Provision) bool {
	n := len(rec.Outcomes)
	return n > 0 && rec.Outcomes[n-1].Result == OutcomeSuccess.String() && rec.ConfigDigest != ""
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
