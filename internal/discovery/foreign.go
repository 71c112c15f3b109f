package discovery

import (
	"cmp"
	"crypto/sha256"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// speaker is a node that proved a summary of a foreign fleet from one host.
type speaker struct {
	node      string
	host      netip.Addr
	key       identity.PublicKey
	digest    [sha256.Size]byte
	lastProof time.Time
}

// fleet is another cluster that speaks on the segment.
type fleet struct {
	claim      // the latest: proven in the proven table, of a beacon in the other
	key        identity.PublicKey
	lastBeacon time.Time
	lastProof  time.Time
	speakers   []speaker
}

// foreignTable is a bounded table of fleets by cluster id.
type foreignTable struct {
	limit  bound
	fleets map[string]*fleet
}

// rankRow is how fleets of one state give way in a full table.
type rankRow struct {
	state    wire.SummaryState
	youngest bool // the youngest of them first, else the one not heard for longest
}

// ranks says which fleet gives way, the first row first. What is retained never
// does: the fleet this node asked, one the pin admits, one with split evidence.
var ranks = []rankRow{
	{wire.StatePending, false},
	{wire.StateSolitary, true},
	{wire.StateEstablished, false},
}

func rankOf(s wire.SummaryState) int {
	for i := range ranks {
		if ranks[i].state == s {
			return i
		}
	}
	return 0
}

// compareWorth is negative if a gives way before b.
func compareWorth(a, b *fleet) int {
	rank := rankOf(a.summary.State)
	if c := cmp.Compare(rank, rankOf(b.summary.State)); c != 0 {
		return c
	}
	if ranks[rank].youngest {
		if c := cmp.Compare(b.summary.Created, a.summary.Created); c != 0 {
			return c
		}
	}
	if c := a.lastBeacon.Compare(b.lastBeacon); c != 0 {
		return c
	}
	return strings.Compare(b.summary.Cluster, a.summary.Cluster)
}

// remember puts a fleet that is not in the table into it. When it is full the
// worst gives way, which may be the newcomer. displaced: something did.
func (t *foreignTable) remember(f *fleet, retained map[string]bool) (stored, displaced bool) {
	if len(t.fleets) >= t.limit.count() {
		var worst *fleet
		if !retained[f.summary.Cluster] {
			worst = f
		}
		for id, other := range t.fleets {
			if !retained[id] && (worst == nil || compareWorth(other, worst) < 0) {
				worst = other
			}
		}
		if worst == nil || worst == f {
			return false, true
		}
		delete(t.fleets, worst.summary.Cluster)
		displaced = true
	}
	t.fleets[f.summary.Cluster] = f
	return true, displaced
}

// SetRetained names the fleets that never give way in a full table: the one
// this node asked, those the pin admits, those with split evidence. More than a
// table holds are not all kept.
func (x *Exchange) SetRetained(clusters []string) {
	clear(x.retained)
	for _, c := range clusters {
		x.retained[c] = true
	}
}

// hearForeign notes a beacon of another cluster and reports whether to challenge.
func (x *Exchange) hearForeign(now time.Time, c claim) (challenge bool) {
	if f := x.proven.fleets[c.summary.Cluster]; f != nil {
		f.lastBeacon = now
		s := f.speaker(c.summary.Node, c.from.Addr())
		return s == nil || s.digest != c.digest || !within(now, s.lastProof, boundReprove)
	}
	f := x.unproven.fleets[c.summary.Cluster]
	if f == nil {
		x.rememberForeign(&x.unproven, &fleet{claim: c, lastBeacon: now})
		return true
	}
	f.claim, f.lastBeacon = c, now
	return true
}

func (x *Exchange) rememberForeign(t *foreignTable, f *fleet) bool {
	stored, displaced := t.remember(f, x.retained)
	if displaced {
		x.tally(CountBeaconsOverBound)
	}
	return stored
}

func (f *fleet) speaker(node string, host netip.Addr) *speaker {
	for i := range f.speakers {
		if s := &f.speakers[i]; s.node == node && s.host == host {
			return s
		}
	}
	return nil
}

// proofForeign notes a proof of another cluster and hands it to formation. The
// own roster says nothing about another cluster's keys and is not asked.
func (x *Exchange) proofForeign(now time.Time, c claim, raw []byte, key identity.PublicKey) (first bool) {
	cluster, host := c.summary.Cluster, c.from.Addr()
	f := x.proven.fleets[cluster]
	if f == nil {
		delete(x.unproven.fleets, cluster)
		f = &fleet{claim: c, lastBeacon: now}
		x.rememberForeign(&x.proven, f)
	}
	f.claim, f.key, f.lastProof = c, key, now
	first = true
	for i := range f.speakers { // the same machine may have spoken from another host
		s := &f.speakers[i]
		first = first && !(s.node == c.summary.Node && s.key == key && within(now, s.lastProof, boundProven))
	}
	s := f.speaker(c.summary.Node, host)
	if s == nil {
		s = x.newSpeaker(now, f)
	}
	*s = speaker{c.summary.Node, host, key, c.digest, now}
	x.say(now, Event{Kind: EventForeignProven, Summary: c.summary, Raw: slices.Clone(raw), Key: key, From: c.from, ID: c.summary.Node, First: first})
	return first
}

// newSpeaker makes room for one more speaker of f: the one whose proof is oldest
// gives way.
func (x *Exchange) newSpeaker(now time.Time, f *fleet) *speaker {
	f.speakers = slices.DeleteFunc(f.speakers, func(s speaker) bool { return !within(now, s.lastProof, boundProven) })
	if len(f.speakers) < boundSpeakers.count() {
		f.speakers = append(f.speakers, speaker{})
		return &f.speakers[len(f.speakers)-1]
	}
	x.tally(CountBeaconsOverBound)
	oldest := 0
	for i := range f.speakers {
		if f.speakers[i].lastProof.Before(f.speakers[oldest].lastProof) {
			oldest = i
		}
	}
	return &f.speakers[oldest]
}

func (t *foreignTable) forget(now time.Time) {
	for id, f := range t.fleets {
		if !within(now, f.lastBeacon, boundForgotten) {
			delete(t.fleets, id)
		}
	}
}

// Foreign is one proven fleet of another cluster, as a value.
type Foreign struct {
	Summary    wire.Summary // of the latest proof
	Key        identity.PublicKey
	From       netip.AddrPort
	LastBeacon time.Time
	LastProof  time.Time
	Speakers   int // nodes that proved it within 90 s
}

// Foreign returns the proven foreign fleets, sorted by cluster id.
func (x *Exchange) Foreign(now time.Time) []Foreign {
	out := make([]Foreign, 0, len(x.proven.fleets))
	for _, f := range x.proven.fleets {
		if !within(now, f.lastBeacon, boundForgotten) {
			continue
		}
		v := Foreign{Summary: f.summary, Key: f.key, From: f.from, LastBeacon: f.lastBeacon, LastProof: f.lastProof}
		for i := range f.speakers {
			if within(now, f.speakers[i].lastProof, boundProven) {
				v.Speakers++
			}
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b Foreign) int { return strings.Compare(a.Summary.Cluster, b.Summary.Cluster) })
	return out
}

// ForeignUnproven returns how many other clusters beacon and have proven nothing.
func (x *Exchange) ForeignUnproven(now time.Time) int {
	n := 0
	for _, f := range x.unproven.fleets {
		if within(now, f.lastBeacon, boundForgotten) {
			n++
		}
	}
	return n
}

// Speaker is a node that proved a summary of another cluster.
type Speaker struct {
	Cluster, Node string
	Key           identity.PublicKey
	LastProof     time.Time
}

// ForeignSpeakers returns who proved a summary of another cluster within 90 s,
// newest first: own members among them are listed first in the own summary.
func (x *Exchange) ForeignSpeakers(now time.Time) []Speaker {
	var out []Speaker
	for id, f := range x.proven.fleets {
		for i := range f.speakers {
			if s := &f.speakers[i]; within(now, s.lastProof, boundProven) {
				out = append(out, Speaker{id, s.node, s.key, s.lastProof})
			}
		}
	}
	slices.SortFunc(out, func(a, b Speaker) int {
		return cmp.Or(b.LastProof.Compare(a.LastProof), strings.Compare(a.Node, b.Node), strings.Compare(a.Cluster, b.Cluster))
	})
	return out
}
