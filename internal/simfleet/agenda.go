package simfleet

import (
	"math/rand/v2"
	"time"
)

// epochStart is what every clock that is right shows when a story begins. A clock before 2026 counts as none.
var epochStart = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

// occurrence is something that happens at a moment.
type occurrence struct {
	at  time.Duration
	seq uint64
	do  func()
}

// agenda is what is still to happen, the soonest first; of one moment, in the order in which it was put there.
type agenda struct {
	now   time.Duration
	seq   uint64
	items []occurrence
	done  uint64 // how many happened
}

func (x *occurrence) before(y *occurrence) bool { return x.at < y.at || x.at == y.at && x.seq < y.seq }

// at puts f on the agenda; a moment that has passed is now. The items are a heap of their own, since container/heap would
// put each of them on Go's.
func (a *agenda) at(when time.Duration, f func()) {
	a.seq++
	x := occurrence{max(when, a.now), a.seq, f}
	a.items = append(a.items, x)
	at := len(a.items) - 1
	for at > 0 {
		up := (at - 1) / 2
		if !x.before(&a.items[up]) {
			break
		}
		a.items[at], at = a.items[up], up
	}
	a.items[at] = x
}

// take takes the soonest out; there is one.
func (a *agenda) take() occurrence {
	first, last := a.items[0], len(a.items)-1
	x := a.items[last]
	a.items[last] = occurrence{}
	a.items = a.items[:last]
	at := 0
	for down := 1; down < last; down = 2*at + 1 {
		if right := down + 1; right < last && a.items[right].before(&a.items[down]) {
			down = right
		}
		if !a.items[down].before(&x) {
			break
		}
		a.items[at], at = a.items[down], down
	}
	if last > 0 {
		a.items[at] = x
	}
	return first
}

func (a *agenda) after(d time.Duration, f func()) { a.at(a.now+d, f) }

// next lets one thing happen, unless there is none until the end.
func (a *agenda) next(end time.Duration) bool {
	if len(a.items) == 0 || a.items[0].at > end {
		a.now = max(a.now, end)
		return false
	}
	x := a.take()
	a.now = x.at
	a.done++
	x.do()
	return true
}

// chance is a stream of random numbers of one purpose, so that what one part draws moves nothing of another.
type chance struct{ *rand.Rand }

// Purposes of streams of chance.
const (
	chancePlan = iota + 1
	chanceLayout
	chanceNetwork
	chanceMachine // and one for each machine above it
)

func chanceOf(seed uint64, purpose int) chance {
	return chance{rand.New(rand.NewPCG(seed, uint64(purpose)))}
}

func (c chance) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(c.Int64N(int64(hi-lo)+1))
}

// one reports true once in n.
func (c chance) one(n int) bool { return c.IntN(n) == 0 }

// fill makes unguessable bytes that a seed repeats.
func (c chance) fill(b []byte) {
	for len(b) > 0 {
		v := c.Uint64()
		for i := 0; i < 8 && len(b) > 0; i++ {
			b[0] = byte(v)
			b, v = b[1:], v>>8
		}
	}
}
