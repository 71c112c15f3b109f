package node

import (
	"context"
	"sync"
	"time"
)

// beatPeriod is how often the loop looks at what has no deadline of its own.
const beatPeriod = time.Second

// inbox holds what effects have for the loop. It has no bound of its own, since the loop itself posts too and must never
// wait; what fills it are answers to this node's own effects and requests of admitted sessions, which are bounded.
type inbox struct {
	mu     sync.Mutex
	items  []func(now time.Time)
	closed bool
	signal chan struct{}
}

func newInbox() *inbox { return &inbox{signal: make(chan struct{}, 1)} }

func (b *inbox) put(f func(now time.Time)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.items = append(b.items, f)
	select {
	case b.signal <- struct{}{}:
	default:
	}
	return true
}

func (b *inbox) take() []func(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items = nil
	return items
}

// close refuses everything from now on, and returns what was accepted and not run yet.
func (b *inbox) close() []func(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.closed, b.items = true, nil
	return items
}

// post hands f to the loop. It returns false when the loop has ended, and f is then never run. The loop itself may post.
func (n *Node) post(f func(now time.Time)) bool { return n.inbox.put(f) }

// ask runs f on the loop and waits for it; an error means that f was not run, or that nobody waits for it any more. The
// loop itself must not ask.
func (n *Node) ask(ctx context.Context, f func(now time.Time)) error {
	done := make(chan struct{})
	if !n.post(func(now time.Time) {
		defer close(done)
		f(now)
	}) {
		return errStopping
	}
	select {
	case <-done:
		return nil
	case <-n.loopDone:
		return errStopping
	}
}

// effect runs f off the loop, and Stop waits for it. ctx ends when the node stops.
func (n *Node) effect(f func(ctx context.Context)) {
	n.effects.Add(1)
	go func() {
		defer n.effects.Done()
		f(n.ctx)
	}()
}

// loop owns discovery, formation, the waiting list and the queue. It never waits for raft, a disk, a peer or a process.
func (n *Node) loop() {
	defer close(n.loopDone)
	defer func() {
		// Whoever was told that it is run counts on it: a rebuilt body that nobody takes over would stay open.
		for _, f := range n.inbox.close() {
			f(time.Now())
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	beats := time.NewTicker(beatPeriod)
	defer beats.Stop()
	datagrams := n.datagrams()
	for {
		select {
		case <-n.quit:
			return
		case <-n.inbox.signal:
			for _, f := range n.inbox.take() {
				f(time.Now())
			}
		case d, ok := <-datagrams:
			if !ok {
				datagrams = nil
				continue
			}
			n.datagram(time.Now(), d)
		case <-beats.C:
			n.beat(time.Now())
		case <-timer.C:
			n.due(time.Now())
		}
		now := time.Now()
		timer.Reset(max(n.next(now).Sub(now), 0))
	}
}

// due does what discovery and formation asked to be woken for.
func (n *Node) due(now time.Time) {
	if n.port != nil && !n.exchange.Next(now).After(now) {
		n.exchanged(now, n.exchange.Tick(now))
	}
	if t := n.form.Next(now); !t.IsZero() && !t.After(now) {
		n.step(now, tick)
	}
	if t := n.list.Next(now); !t.IsZero() && !t.After(now) {
		n.tickList(now)
	}
	if t := n.relistAt; !t.IsZero() && !t.After(now) {
		n.readdress(now)
	}
}

// next is when due has something to do; never more than a beat away, so that a clock that jumps costs at most that.
func (n *Node) next(now time.Time) time.Time {
	next := now.Add(beatPeriod)
	if n.port != nil {
		next = sooner(next, n.exchange.Next(now))
	}
	next = sooner(next, n.form.Next(now))
	next = sooner(next, n.relistAt)
	return sooner(next, n.list.Next(now))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func sooner(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
