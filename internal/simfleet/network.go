package simfleet

import (
	"net/netip"
	"slices"
	"time"
)

// Times of the network.
const (
	// latencyLeast and latencyMost are what a packet takes.
	latencyLeast = time.Millisecond
	latencyMost  = 40 * time.Millisecond
	// silenceLeast and silenceMost are after how long a broken stream is noticed at an end: yamux's keep-alive is 10 s.
	silenceLeast = 10 * time.Second
	silenceMost  = 20 * time.Second
)

// joined reports whether packets pass between two machines.
func (w *World) joined(a, b *host) bool { return a == b || a.island == b.island }

func (w *World) latency() time.Duration { return w.net.between(latencyLeast, latencyMost) }

// hostAt finds a machine by an endpoint; nil: there is none.
func (w *World) hostAt(endpoint string) *host { return w.byEndpoint[endpoint] }

// call carries a question to the process that serves at a machine, and what it answers back. serve is given a function
// that sends the answer, which it may call later or never. Exactly one of the answer and failed happens within patience,
// while the asking process lives.
func (p *proc) call(to *host, patience time.Duration, serve func(q *proc, answer func(func())), failed func(why string)) {
	w, over := p.w, false
	end := func(f func()) {
		if !over && p.alive() {
			over = true
			f()
		}
	}
	p.after(patience, func() { end(func() { failed("no answer within " + patience.String()) }) })
	if to == nil {
		p.after(w.latency(), func() { end(func() { failed("no such host") }) })
		return
	}
	w.after(w.latency(), func() {
		if !w.joined(p.h, to) {
			return
		}
		to.awake(func() {
			q := to.proc
			if q == nil {
				w.after(w.latency(), func() { p.h.awake(func() { end(func() { failed("connection refused") }) }) })
				return
			}
			serve(q, func(f func()) {
				w.after(w.latency(), func() {
					if q.alive() && w.joined(p.h, to) {
						p.h.awake(func() { end(f) })
					}
				})
			})
		})
	})
}

// stream is a session's stream between two processes: what is pushed arrives in order, or the stream breaks.
type stream struct {
	w       *World
	ends    [2]*proc
	arrives [2]time.Duration // when the last thing pushed from this end arrives
	broken  [2]func(why string)
	stalled bool
	closed  bool
}

// dial opens a stream to the process that serves at a machine.
func (p *proc) dial(to *host, patience time.Duration, opened func(*stream), failed func(why string)) {
	p.call(to, patience, func(q *proc, answer func(func())) {
		s := &stream{w: p.w, ends: [2]*proc{p, q}}
		answer(func() {
			p.w.streams = append(p.w.streams, s)
			opened(s)
		})
	}, failed)
}

// other is the end that is not p's.
func (s *stream) other(p *proc) int {
	if s.ends[0] == p {
		return 1
	}
	return 0
}

// onBreak says what an end does when the stream breaks.
func (s *stream) onBreak(p *proc, f func(why string)) { s.broken[1-s.other(p)] = f }

// push carries f to the other end.
func (s *stream) push(from *proc, f func()) {
	if s.closed || s.stalled {
		return
	}
	to := s.other(from)
	at := max(s.w.now+s.w.latency(), s.arrives[1-to]+1)
	s.arrives[1-to] = at
	s.w.at(at, func() {
		switch {
		case s.closed && s.broken[to] == nil:
		case s.stalled || !s.ends[to].alive():
		case !s.w.joined(from.h, s.ends[to].h):
			s.stall()
		default:
			s.ends[to].h.awake(func() {
				if s.ends[to].alive() && (!s.closed || s.broken[to] != nil) {
					f()
				}
			})
		}
	})
}

// stall: nothing passes any more, and both ends notice in their time.
func (s *stream) stall() {
	if s.stalled || s.closed {
		return
	}
	s.stalled = true
	for i := range s.ends {
		s.w.after(s.w.net.between(silenceLeast, silenceMost), func() { s.end(i, "keep-alive timed out") })
	}
}

// end tells one end that the stream is over.
func (s *stream) end(i int, why string) {
	f := s.broken[i]
	s.broken[i] = nil
	if p := s.ends[i]; f != nil && p.alive() {
		p.h.awake(func() {
			if p.alive() {
				f(why)
			}
		})
	}
	if s.broken[0] == nil && s.broken[1] == nil {
		s.closed = true
	}
}

// close ends the stream from one end; the other hears of it.
func (s *stream) close(from *proc, why string) {
	if s.closed || s.stalled {
		return
	}
	to := s.other(from)
	s.closed = true
	s.broken[1-to] = nil
	at := max(s.w.now+s.w.latency(), s.arrives[1-to]+1)
	if !s.w.joined(s.ends[0].h, s.ends[1].h) {
		at = s.w.now + s.w.net.between(silenceLeast, silenceMost)
	}
	s.w.at(at, func() { s.end(to, why) })
}

// parted stalls the streams that a cut goes through.
func (w *World) parted() {
	w.sweep()
	for _, s := range w.streams {
		if !w.joined(s.ends[0].h, s.ends[1].h) {
			s.stall()
		}
	}
}

// died ends every stream of a process that is gone.
func (w *World) died(p *proc) {
	for _, s := range w.streams {
		if s.ends[0] == p || s.ends[1] == p {
			s.close(p, "connection reset")
		}
	}
	w.sweep()
}

// sweep forgets streams that are over.
func (w *World) sweep() {
	w.streams = slices.DeleteFunc(w.streams, func(s *stream) bool { return s.closed })
}

func netAddr(h *host) netip.AddrPort { return netip.AddrPortFrom(h.addr, portFC) }
