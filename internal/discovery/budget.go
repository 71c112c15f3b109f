package discovery

import (
	"bytes"
	"net/netip"
	"time"

	"pace-node/internal/identity"
)

// bucket is a token bucket whose tokens are time: a token is worth the time in
// which it comes back.
type bucket struct {
	credit time.Duration
	at     time.Time
}

func fullBucket(now time.Time, size int, every time.Duration) bucket {
	return bucket{credit: time.Duration(size) * every, at: now}
}

func (b *bucket) fill(now time.Time, size int, every time.Duration) {
	full := time.Duration(size) * every
	if passed := now.Sub(b.at); passed > 0 {
		b.credit = min(b.credit+min(passed, full), full)
		b.at = now
	}
}

type hostBucket struct {
	host netip.Addr
	bucket
}

// budget is the buckets of one kind of work.
type budget struct {
	shared bucket
	hosts  []hostBucket
}

// answer is what a budget says.
type answer uint8

const (
	taken answer = iota
	hostEmpty
	sharedEmpty
)

// take asks the host's bucket, then the shared one, and takes from both or from
// none. The shared one must hold spare tokens beside the one that is taken; an
// exempt source is not asked for its own. displaced: another host's bucket was
// given up.
func (b *budget) take(now time.Time, row *budgetRow, source netip.Addr, spare int, exempt bool) (a answer, displaced bool) {
	var h *hostBucket
	if !exempt {
		h, displaced = b.host(now, row, source)
		if h.credit < row.hostEvery {
			return hostEmpty, displaced
		}
	}
	b.shared.fill(now, row.sharedSize, row.sharedEvery)
	if b.shared.credit < time.Duration(1+spare)*row.sharedEvery {
		return sharedEmpty, displaced
	}
	b.shared.credit -= row.sharedEvery
	if h != nil {
		h.credit -= row.hostEvery
	}
	return taken, displaced
}

// host returns the filled bucket of a source. With a full table the fullest
// bucket gives way: it says least about its host, and a host that emptied its
// own cannot have it replaced by sending under other addresses. Giving up one
// that is full loses nothing and is no displacement.
func (b *budget) host(now time.Time, row *budgetRow, source netip.Addr) (h *hostBucket, displaced bool) {
	for i := range b.hosts {
		if b.hosts[i].host == source {
			b.hosts[i].fill(now, row.hostSize, row.hostEvery)
			return &b.hosts[i], false
		}
	}
	fresh := hostBucket{source, fullBucket(now, row.hostSize, row.hostEvery)}
	if len(b.hosts) < boundHosts.count() {
		b.hosts = append(b.hosts, fresh)
		return &b.hosts[len(b.hosts)-1], false
	}
	fullest := 0
	for i := range b.hosts {
		b.hosts[i].fill(now, row.hostSize, row.hostEvery)
		if b.hosts[i].credit > b.hosts[fullest].credit {
			fullest = i
		}
	}
	displaced = b.hosts[fullest].credit < fresh.credit
	b.hosts[fullest] = fresh
	return &b.hosts[fullest], displaced
}

// sourceOf is what a source is budgeted by: the address, or the /64 of an IPv6 one.
func sourceOf(host netip.Addr) netip.Addr {
	if host.Is4() {
		return host
	}
	p, err := host.Prefix(boundV6Prefix.count())
	if err != nil {
		return host
	}
	return p.Addr()
}

// afford takes one piece of work from its budgets, or counts and reports it.
func (x *Exchange) afford(now time.Time, w work, from netip.AddrPort) bool {
	row := &budgets[w]
	source := sourceOf(from.Addr())
	spare := 0
	if !x.isProvenHost(now, source) {
		spare = row.sharedSize / boundSharedKept.count()
		if w == workChallenge && x.recall.pressed(now) && !x.recall.returns(source) {
			spare += boundRecallKept.count()
		}
	}
	a, displaced := x.budgets[w].take(now, row, source, spare, x.exempt(from.Addr()))
	if displaced {
		x.tally(CountBeaconsOverBound)
	}
	if a == taken {
		return true
	}
	if w == workChallenge && a == sharedEmpty {
		x.recall.refuse(now, source)
	}
	x.tally(row.withheld)
	x.say(now, Event{Kind: row.event, From: from})
	return false
}

// exempt reports whether the bounds of one source do not apply: several nodes
// on one machine share its loopback address.
func (x *Exchange) exempt(host netip.Addr) bool { return x.cfg.Loopback && host.IsLoopback() }

// provenHost notes that a proof came from this source. When the table is full,
// the one whose proof is oldest gives way.
func (x *Exchange) provenHost(now time.Time, source netip.Addr) {
	if _, known := x.provenHosts[source]; !known && len(x.provenHosts) >= boundProvenHosts.count() {
		var oldest netip.Addr
		for a, at := range x.provenHosts {
			if b := x.provenHosts[oldest]; !oldest.IsValid() || at.Before(b) || at.Equal(b) && a.Less(oldest) {
				oldest = a
			}
		}
		delete(x.provenHosts, oldest)
		x.tally(CountBeaconsOverBound)
	}
	x.provenHosts[source] = now
}

// provenKey notes that a proof came under this key, and reports whether none had
// for as long as a proof counts. The tables of peers and fleets can't tell: on a
// segment of more fleets than they hold, whoever gave way would be a newcomer at
// each of its beacons, and every node would beacon every two seconds for it.
func (x *Exchange) provenKey(now time.Time, key identity.PublicKey) (newcomer bool) {
	at, known := x.provenKeys[key]
	if !known && len(x.provenKeys) >= boundProvenKeys.count() {
		var oldest identity.PublicKey
		var since time.Time
		for k, at := range x.provenKeys {
			if since.IsZero() || at.Before(since) || at.Equal(since) && bytes.Compare(k[:], oldest[:]) < 0 {
				oldest, since = k, at
			}
		}
		delete(x.provenKeys, oldest)
		x.tally(CountBeaconsOverBound)
	}
	x.provenKeys[key] = now
	return !within(now, at, boundProven)
}

func (x *Exchange) isProvenHost(now time.Time, source netip.Addr) bool {
	at, ok := x.provenHosts[source]
	return ok && within(now, at, boundProven)
}

// within reports whether at is no longer ago than a bound; a zero time is never.
func within(now, at time.Time, b bound) bool {
	return !at.IsZero() && now.Sub(at) <= b.duration()
}
