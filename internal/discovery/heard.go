package discovery

import (
	"net/netip"
	"slices"
	"time"
)

// Heard is where beacons of other machines come from, whoever they say they are.
type Heard struct {
	From       netip.Addr
	LastBeacon time.Time
	Proven     bool // something from there was proven within 90 s
}

// Heard returns the sources of the beacons that are remembered, sorted by address: for somebody who asks why nothing comes
// of them.
func (x *Exchange) Heard(now time.Time) []Heard {
	at := map[netip.Addr]Heard{}
	note := func(from netip.Addr, beacon, proof time.Time) {
		if !from.IsValid() || !within(now, beacon, boundForgotten) {
			return
		}
		h := at[from]
		h.From, h.Proven = from, h.Proven || within(now, proof, boundProven)
		if beacon.After(h.LastBeacon) {
			h.LastBeacon = beacon
		}
		at[from] = h
	}
	for _, p := range x.dir.members {
		note(p.seen.from.Addr(), p.lastBeacon, p.lastProof)
	}
	for _, p := range x.dir.strangers {
		note(p.seen.from.Addr(), p.lastBeacon, p.lastProof)
	}
	for _, f := range x.unproven.fleets {
		note(f.from.Addr(), f.lastBeacon, time.Time{})
	}
	for _, f := range x.proven.fleets {
		note(f.from.Addr(), f.lastBeacon, f.lastProof)
	}
	out := make([]Heard, 0, len(at))
	for _, h := range at {
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b Heard) int { return a.From.Compare(b.From) })
	return out
}
