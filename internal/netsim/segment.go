package netsim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"pace-node/internal/netio"
)

const (
	// segmentBits is the prefix that every port of a segment reports.
	segmentBits = 16
	// segmentQueue is what a port holds before it drops, as a socket's buffer does.
	segmentQueue = 256
)

// Knobs is what a segment does to each datagram. The zero value delivers each
// one once and at once.
type Knobs struct {
	Loss               float64 // share of copies that vanish, 0..1
	Duplicate          float64 // share of datagrams that arrive twice, 0..1
	MinDelay, MaxDelay time.Duration
}

// Frame is a datagram on the segment.
type Frame struct {
	From, To  netip.AddrPort
	Broadcast bool // to every listener on To.Port(), the sender's own too
	Bytes     []byte
}

// SegmentStats counts what became of the copies of frames.
type SegmentStats struct {
	Sent, Delivered, Lost, Parted, Unheard, Overflowed uint64
}

// Segment is one broadcast domain. It starts no goroutine of its own: delays are
// time.AfterFunc, so it works inside a testing/synctest bubble. What it decides
// by chance follows from its seed and the order in which frames are sent.
type Segment struct {
	mu        sync.Mutex
	chance    *rand.Rand
	knobs     Knobs
	separated func(a, b netip.Addr) bool
	hostile   func(Frame) []Frame
	ports     []*Port
	nextPort  uint16
	late      map[*time.Timer]struct{}
	closed    bool
	stats     SegmentStats
}

// NewSegment returns an empty segment that loses nothing.
func NewSegment(seed uint64) *Segment {
	return &Segment{chance: rand.New(rand.NewPCG(seed, seed)), nextPort: firstEphemeral, late: map[*time.Timer]struct{}{}}
}

// Set turns the knobs for frames sent from now on.
func (s *Segment) Set(k Knobs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knobs = k
}

// Partition separates the addresses for which f is true, until the next call;
// nil heals everything. f must be symmetric and must not call the segment.
func (s *Segment) Partition(f func(a, b netip.Addr) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.separated = f
}

// Hostile lets f see each frame as it is sent and choose what travels in its
// place: nothing, the frame, it altered, others beside it. f must not call the
// segment; nil removes it. What f returns is not shown to it again.
func (s *Segment) Hostile(f func(Frame) []Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hostile = f
}

// Inject puts a frame on the segment under any source address.
func (s *Segment) Inject(f Frame) {
	f.Bytes = bytes.Clone(f.Bytes)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.travel(f)
}

// Stats returns the counts so far.
func (s *Segment) Stats() SegmentStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Close closes every port and drops what is on its way.
func (s *Segment) Close() {
	s.mu.Lock()
	s.closed = true
	for t := range s.late {
		t.Stop()
	}
	clear(s.late)
	ports := slices.Clone(s.ports)
	s.mu.Unlock()
	for _, p := range ports {
		_ = p.Close()
	}
}

// Attach gives a machine of the address addr its pair of sockets: a listener on
// listenPort, which several may share, and an answering one of its own. Two pairs
// of one address are two nodes of one machine.
func (s *Segment) Attach(addr netip.Addr, listenPort uint16) *Port {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &Port{
		segment: s, listener: netip.AddrPortFrom(addr.Unmap(), listenPort),
		answering: netip.AddrPortFrom(addr.Unmap(), s.nextPort),
		received:  make(chan netio.Received, segmentQueue), up: true, listed: true,
	}
	s.nextPort++
	s.ports = append(s.ports, p)
	return p
}

// send is called with a frame of a port's own.
func (s *Segment) send(f Frame) {
	f.Bytes = bytes.Clone(f.Bytes)
	s.mu.Lock()
	defer s.mu.Unlock()
	frames := []Frame{f}
	if s.hostile != nil {
		frames = s.hostile(f)
	}
	for _, f := range frames {
		s.travel(f)
	}
}

// travel rolls the dice for one frame, per receiver. The lock is held.
func (s *Segment) travel(f Frame) {
	if s.closed {
		return
	}
	heard := false
	for _, to := range s.receivers(f) {
		heard = true
		copies := 1
		if s.chance.Float64() < s.knobs.Duplicate {
			copies = 2
		}
		for range copies {
			s.stats.Sent++
			switch {
			case s.separated != nil && s.separated(f.From.Addr(), to.port.listener.Addr()):
				s.stats.Parted++
			case s.chance.Float64() < s.knobs.Loss:
				s.stats.Lost++
			default:
				s.deliverIn(s.delay(), to, f)
			}
		}
	}
	if !heard {
		s.stats.Unheard++
	}
}

func (s *Segment) delay() time.Duration {
	spread := s.knobs.MaxDelay - s.knobs.MinDelay
	if spread <= 0 {
		return s.knobs.MinDelay
	}
	return s.knobs.MinDelay + time.Duration(s.chance.Int64N(int64(spread)+1))
}

type receiver struct {
	port      *Port
	answering bool
}

// receivers is the table of who hears a frame. A unicast to a listener that
// several nodes of a machine share reaches the one bound last, as on Linux.
func (s *Segment) receivers(f Frame) (out []receiver) {
	for i := len(s.ports) - 1; i >= 0; i-- {
		p := s.ports[i]
		switch {
		case f.Broadcast && p.listener.Port() == f.To.Port():
			out = append(out, receiver{p, false})
		case f.Broadcast:
		case p.answering == f.To:
			return []receiver{{p, true}}
		case p.listener == f.To:
			return []receiver{{p, false}}
		}
	}
	slices.Reverse(out) // in the order of attachment
	return out
}

func (s *Segment) deliverIn(d time.Duration, to receiver, f Frame) {
	if d <= 0 {
		s.deliver(to, f)
		return
	}
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.late, t); !s.closed {
			s.deliver(to, f)
		}
	})
	s.late[t] = struct{}{}
}

// deliver queues a copy at its receiver. The lock is held.
func (s *Segment) deliver(to receiver, f Frame) {
	p := to.port
	if p.closed || !p.up {
		s.stats.Lost++
		return
	}
	select {
	case p.received <- netio.Received{Answering: to.answering, From: f.From, Local: p.listener.Addr(), Bytes: bytes.Clone(f.Bytes)}:
		s.stats.Delivered++
	default:
		s.stats.Overflowed++
	}
}

// Port is one node's pair of sockets on a segment.
type Port struct {
	segment             *Segment
	listener, answering netip.AddrPort
	received            chan netio.Received
	// The rest is guarded by the segment's lock.
	closed, up, listed bool
}

var _ netio.DatagramPort = (*Port)(nil)

// Beacon sends b to every listener of the same port.
func (p *Port) Beacon(b []byte) []netio.SendError {
	to := netip.AddrPortFrom(p.broadcast(), p.listener.Port())
	if err := p.sendable(); err != nil {
		return []netio.SendError{{Interface: "sim0", From: p.answering.Addr(), To: to, Err: err}}
	}
	p.segment.send(Frame{From: p.answering, To: to, Broadcast: true, Bytes: b})
	return nil
}

// Send sends b to one socket. local must be invalid or this port's address.
func (p *Port) Send(to netip.AddrPort, local netip.Addr, b []byte) error {
	if err := p.sendable(); err != nil {
		return err
	}
	if local.IsValid() && local != p.answering.Addr() {
		return fmt.Errorf("send to %s from %s: this port has %s only", to, local, p.answering.Addr())
	}
	p.segment.send(Frame{From: p.answering, To: netip.AddrPortFrom(to.Addr().Unmap(), to.Port()), Bytes: b})
	return nil
}

func (p *Port) sendable() error {
	p.segment.mu.Lock()
	defer p.segment.mu.Unlock()
	switch {
	case p.closed:
		return net.ErrClosed
	case !p.up:
		return fmt.Errorf("sim0: the link is down")
	}
	return nil
}

// SetLink pulls the cable out, or puts it back; Relist notices.
func (p *Port) SetLink(up bool) {
	p.segment.mu.Lock()
	defer p.segment.mu.Unlock()
	p.up = up
}

// Receive returns the channel of both sockets; Close closes it.
func (p *Port) Receive() <-chan netio.Received { return p.received }

// ListenerAddr returns the address and port of the listener.
func (p *Port) ListenerAddr() netip.AddrPort { return p.listener }

// AnsweringAddr returns the address and port that everything leaves from.
func (p *Port) AnsweringAddr() netip.AddrPort { return p.answering }

// Interfaces returns the one interface there is.
func (p *Port) Interfaces() []netio.InterfaceChoice {
	p.segment.mu.Lock()
	defer p.segment.mu.Unlock()
	c := netio.InterfaceChoice{Name: "sim0", Addr: netip.PrefixFrom(p.answering.Addr(), segmentBits), Broadcast: p.broadcast(), Used: true, Why: "used", Index: 1, Reachable: true}
	if !p.up {
		c.Broadcast, c.Used, c.Why = netip.Addr{}, false, "down"
	}
	return []netio.InterfaceChoice{c}
}

// broadcast is the directed broadcast address of the port's prefix.
func (p *Port) broadcast() netip.Addr {
	a := p.answering.Addr().As16()
	a[14], a[15] = 0xff, 0xff
	return netip.AddrFrom16(a).Unmap()
}

// Relist reports whether the link changed since the last call.
func (p *Port) Relist() bool {
	p.segment.mu.Lock()
	defer p.segment.mu.Unlock()
	changed := p.listed != p.up
	p.listed = p.up
	return changed
}

// Close detaches the port. It may be called again.
func (p *Port) Close() error {
	p.segment.mu.Lock()
	defer p.segment.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	close(p.received)
	p.segment.ports = slices.DeleteFunc(p.segment.ports, func(q *Port) bool { return q == p })
	return nil
}
