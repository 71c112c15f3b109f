package control

import (
	"sync"
	"time"
)

// Kinds of events.
const (
	EventNode      = "node"      // this node began to serve, or changed its mode
	EventLeader    = "leader"    // who leads, as far as this node knows
	EventFleet     = "fleet"     // a change of the fleet's record: an admission, a role, a setting, a word of an operator
	EventEnroll    = "enroll"    // a machine asks to join, or asks no more
	EventStartup   = "startup"   // a startup event that this node heard, its own included
	EventRun       = "run"       // a machine is being provisioned, and how that ended
	EventCondition = "condition" // raised, or cleared
)

// EventKinds lists them.
var EventKinds = []string{EventNode, EventLeader, EventFleet, EventEnroll, EventStartup, EventRun, EventCondition}

const (
	// feedKept is how many events a node remembers: at one a second a quarter of an hour, and some hundred KiB.
	feedKept = 1000
	// feedTold is how many of them one answer holds, the newest: a screen shows fewer, and a frame holds 1 MiB.
	feedTold = 200
	// feedDetail bounds a detail, in bytes.
	feedDetail = 512
)

// Event is one thing that happened, as `pacectl watch` shows it. ID, Name and Detail may be text of another machine.
type Event struct {
	Seq      uint64 `json:"seq"`  // 1 for the first of this process
	At       int64  `json:"at"`   // Unix seconds, this node's clock
	Kind     string `json:"kind"` // node, leader, fleet, enroll, startup, run, condition
	What     string `json:"what"` // a word: what happened
	ID       string `json:"id,omitempty"`
	Name     string `json:"name,omitempty"`
	Detail   string `json:"detail,omitempty"`
	Severity string `json:"severity,omitempty"` // notice, warning, alert; of a condition, and warning of a run that failed
	Revision uint64 `json:"revision,omitempty"` // of the fleet's state; the same on every machine
}

// Feed keeps the newest events of a node. It may be used from many goroutines; a nil one keeps nothing.
type Feed struct {
	mu   sync.Mutex
	ring []Event // oldest first
	last uint64
}

// NewFeed makes an empty feed.
func NewFeed() *Feed { return &Feed{} }

// Add appends an event; its number and time are given to it here.
func (f *Feed) Add(e Event) {
	if f == nil {
		return
	}
	if len(e.Detail) > feedDetail {
		e.Detail = e.Detail[:feedDetail]
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	e.Seq, e.At = f.last, time.Now().Unix()
	if len(f.ring) >= 2*feedKept {
		f.ring = append(f.ring[:0], f.ring[len(f.ring)-feedKept+1:]...)
	}
	f.ring = append(f.ring, e)
}

// After returns the newest events behind a number, at most feedTold, the number to ask behind next, and how many were passed
// over. A number that was never given is that of an earlier process: everything is behind it.
func (f *Feed) After(seq uint64) (events []Event, next, missed uint64) {
	events = []Event{}
	if f == nil {
		return events, 0, 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if seq > f.last {
		seq = 0
	}
	behind := f.last - seq
	told := min(behind, uint64(len(f.ring)), feedTold)
	events = append(events, f.ring[len(f.ring)-int(told):]...)
	return events, f.last, behind - told
}
