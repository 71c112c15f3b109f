package discovery

import (
	"net/netip"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// EventKind says what an event reports.
type EventKind uint8

// Kinds of event.
const (
	// EventForeignProven: a speaker of another cluster proved its summary. For
	// formation. Summary, Raw, Key, From, ID, First.
	EventForeignProven EventKind = iota + 1
	// EventPeerProven: a peer of the own cluster proved the key that the roster
	// holds for it. Summary, Raw, Key, From, ID, First.
	EventPeerProven
	// EventPeerLost: a proven peer of the own cluster was not heard for 90 s.
	// Summary, Key, From, ID.
	EventPeerLost
	// EventUnknownKey: a proof of the own cluster under a key that the roster
	// does not hold for that id. Summary, Key, From, ID, Admit, Reason.
	EventUnknownKey
	// EventRevokedKey: the same under a revoked key, never admitted again.
	EventRevokedKey
	// EventForged: a proof whose signature does not verify. From.
	EventForged
	// EventVersionSeen: a datagram of another version of the wire. From, Version.
	EventVersionSeen
	// EventSummaryWithheld: this node announces nothing. Reason.
	EventSummaryWithheld
	// EventSelfCloned: another machine proved this node's own key. From, ID, Reason.
	EventSelfCloned
	// EventPeerCloned: one key of the roster proves two endpoints in turns.
	// Key, From, ID, Reason (the two endpoints).
	EventPeerCloned
	// EventBudgetAnswer: proofs were not signed for want of budget. From, the last.
	EventBudgetAnswer
	// EventBudgetCheck: proofs were not checked for want of budget. From.
	EventBudgetCheck
	// EventBudgetChallenge: beacons were not challenged for want of budget. From.
	EventBudgetChallenge
	eventKinds
)

// EventRow is one row of the table of events.
type EventRow struct {
	Kind     EventKind
	Name     string
	Dampened bool // at most one a minute, Count says how many it stands for
}

var eventRows = [eventKinds]EventRow{
	EventForeignProven:   {EventForeignProven, "foreign-proven", false},
	EventPeerProven:      {EventPeerProven, "peer-proven", false},
	EventPeerLost:        {EventPeerLost, "peer-lost", false},
	EventUnknownKey:      {EventUnknownKey, "unknown-key", true},
	EventRevokedKey:      {EventRevokedKey, "revoked-key", true},
	EventForged:          {EventForged, "forged", true},
	EventVersionSeen:     {EventVersionSeen, "version-seen", true},
	EventSummaryWithheld: {EventSummaryWithheld, "summary-withheld", true},
	EventSelfCloned:      {EventSelfCloned, "self-cloned", true},
	EventPeerCloned:      {EventPeerCloned, "peer-cloned", true},
	EventBudgetAnswer:    {EventBudgetAnswer, "budget-answer", true},
	EventBudgetCheck:     {EventBudgetCheck, "budget-check", true},
	EventBudgetChallenge: {EventBudgetChallenge, "budget-challenge", true},
}

// String returns the kind's name, "unknown" for none.
func (k EventKind) String() string {
	if k == 0 || k >= eventKinds {
		return "unknown"
	}
	return eventRows[k].Name
}

// Event is something the caller may act upon or log. Text in it came from
// another machine and is to be escaped where it is shown. Summary's Members is
// shared and read-only.
type Event struct {
	Kind    EventKind
	Summary wire.Summary
	Raw     []byte // the summary's bytes as signed; the receiver's own copy
	Key     identity.PublicKey
	From    netip.AddrPort
	ID      string // node id of the speaker
	// Admit is the flag that would admit the speaker, empty if the id or the
	// endpoint holds a character that does not belong on a command line.
	Admit   string
	Reason  string
	Version byte
	First   bool   // not proven in the last 90 s
	Count   uint64 // how many this event stands for, at least 1
}

// damper holds back one kind of event.
type damper struct {
	said bool
	last time.Time
	held uint64
	next Event // the last one held back
}

// say reports e, or holds it back when its kind was said within a minute.
func (x *Exchange) say(now time.Time, e Event) {
	e.Count = 1
	if !eventRows[e.Kind].Dampened {
		x.out.Events = append(x.out.Events, e)
		return
	}
	d := &x.dampers[e.Kind]
	if d.said && now.Sub(d.last) < boundLogLine.duration() {
		d.held++
		d.next = e
		return
	}
	e.Count += d.held
	*d = damper{said: true, last: now}
	x.out.Events = append(x.out.Events, e)
}

// sayHeld reports what was held back for a minute.
func (x *Exchange) sayHeld(now time.Time) {
	for k := range x.dampers {
		d := &x.dampers[k]
		if d.held == 0 || now.Sub(d.last) < boundLogLine.duration() {
			continue
		}
		e := d.next
		e.Count = d.held
		*d = damper{said: true, last: now}
		x.out.Events = append(x.out.Events, e)
	}
}

// nextHeld is when sayHeld has something to say; zero for never.
func (x *Exchange) nextHeld() (at time.Time) {
	for k := range x.dampers {
		if d := &x.dampers[k]; d.held > 0 {
			at = earliest(at, d.last.Add(boundLogLine.duration()))
		}
	}
	return at
}

// earliest returns the earlier of two times, where zero is never.
func earliest(a, b time.Time) time.Time {
	switch {
	case a.IsZero():
		return b
	case b.IsZero() || a.Before(b):
		return a
	}
	return b
}
