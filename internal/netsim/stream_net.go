// Package netsim is the network of the tests: a datagram segment with loss, delay, duplication, partitions and a hostile
// peer, and an in-memory TCP with the same partitions. It must never be imported by the product.
package netsim

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
)

const (
	// streamBuffer is what one direction of a connection holds before a writer waits: a small kernel socket buffer.
	streamBuffer = 64 << 10
	// firstEphemeral is the first port that a dialer's end gets, as on Linux.
	firstEphemeral = 32768
	// lastPort is the highest port of TCP.
	lastPort = 65535
)

// Net is an in-memory TCP for machines that have one address each. It starts no goroutine, and waits only on conditions
// and channels, so it works inside a testing/synctest bubble. The zero value is not usable: NewNet makes one.
type Net struct {
	mu        sync.Mutex
	listeners map[netip.AddrPort]*streamListener
	conns     map[*streamConn]struct{}
	names     map[string]netip.Addr
	separated func(a, b netip.Addr) bool
	changed   chan struct{} // closed and replaced when a knob moves, for dialers that wait
	port      uint16
	dials     uint64
}

// NewNet returns a network without partitions.
func NewNet() *Net {
	return &Net{
		listeners: map[netip.AddrPort]*streamListener{},
		conns:     map[*streamConn]struct{}{},
		names:     map[string]netip.Addr{},
		changed:   make(chan struct{}),
		port:      firstEphemeral,
	}
}

// Name makes a host name resolve to addr for every dialer.
func (n *Net) Name(name string, addr netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[name] = addr
}

// Partition separates the addresses for which f is true, until the next call; nil heals everything. A separated
// connection stays open and carries nothing, as with a pulled cable; what was written meanwhile arrives after healing.
// f must be symmetric and must not call the Net.
func (n *Net) Partition(f func(a, b netip.Addr) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.separated = f
	n.stir()
}

// Cut resets every connection between a and b; both ends see "connection reset by peer".
func (n *Net) Cut(a, b netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.local.Addr() == a && c.remote.Addr() == b || c.local.Addr() == b && c.remote.Addr() == a {
			c.fail(syscall.ECONNRESET)
			delete(n.conns, c)
		}
	}
	n.stir()
}

// Vanish is a power cut at addr: its listeners and its ends of connections are closed, and the other ends hear nothing,
// until the machine listens or dials again; then they are reset.
func (n *Net) Vanish(addr netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for at, l := range n.listeners {
		if at.Addr() == addr {
			l.shut()
		}
	}
	for c := range n.conns {
		if c.local.Addr() == addr {
			c.fail(net.ErrClosed)
			delete(n.conns, c)
			c.peer.deaf = true
		}
	}
	n.stir()
}

// Open returns how many connections are open, each counted once.
func (n *Net) Open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	ends := map[*streamConn]struct{}{}
	for c := range n.conns {
		if _, ok := ends[c.peer]; !ok {
			ends[c] = struct{}{}
		}
	}
	return len(ends)
}

// Dials returns how many dials were begun.
func (n *Net) Dials() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

// stir wakes everybody who waits. The caller holds mu.
func (n *Net) stir() {
	close(n.changed)
	n.changed = make(chan struct{})
	for c := range n.conns {
		c.in.cond.Broadcast()
		c.out.cond.Broadcast()
	}
}

// wakes ends the silence after Vanish: the machine is up, and knows nothing of its old connections. The caller holds mu.
func (n *Net) wakes(addr netip.Addr) {
	for c := range n.conns {
		if c.deaf && c.remote.Addr() == addr {
			c.fail(syscall.ECONNRESET)
			delete(n.conns, c)
		}
	}
}

// apart reports whether nothing passes between a and b. The caller holds mu.
func (n *Net) apart(a, b netip.Addr) bool { return a != b && n.separated != nil && n.separated(a, b) }

// Listen opens addr, which must name one address; port 0 picks a free one.
func (n *Net) Listen(addr netip.AddrPort) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if addr.Port() == 0 {
		addr = n.ephemeral(addr.Addr())
	}
	if _, taken := n.listeners[addr]; taken {
		return nil, opError("listen", netip.AddrPort{}, addr, os.NewSyscallError("bind", syscall.EADDRINUSE))
	}
	n.wakes(addr.Addr())
	l := &streamListener{net: n, at: addr}
	l.cond.L = &n.mu
	n.listeners[addr] = l
	n.stir()
	return l, nil
}

// ephemeral returns an unused address of a. The caller holds mu.
func (n *Net) ephemeral(a netip.Addr) netip.AddrPort {
	for {
		at := netip.AddrPortFrom(a, n.port)
		if n.port++; n.port == lastPort {
			n.port = firstEphemeral
		}
		if _, taken := n.listeners[at]; !taken {
			return at
		}
	}
}

// Dialer returns a dial function of the machine at from, in the shape of net.Dialer.DialContext. A port that nobody
// listens on refuses at once; a separated machine is silent until ctx ends.
func (n *Net) Dialer(from netip.Addr) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		to, err := n.resolve(addr)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		n.mu.Lock()
		n.dials++
		n.mu.Unlock()
		for {
			if err := ctx.Err(); err != nil {
				return nil, opError("dial", netip.AddrPort{}, to, err)
			}
			n.mu.Lock()
			if !n.apart(from, to.Addr()) {
				c, err := n.connect(from, to)
				n.mu.Unlock()
				return c, err
			}
			changed := n.changed
			n.mu.Unlock()
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// connect makes the two ends. The caller holds mu.
func (n *Net) connect(from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	n.wakes(from)
	l := n.listeners[to]
	if l == nil {
		return nil, opError("dial", netip.AddrPort{}, to, os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	at := n.ephemeral(from)
	near, far := &streamConn{net: n, local: at, remote: to}, &streamConn{net: n, local: to, remote: at}
	near.in, near.out = newHalf(&n.mu), newHalf(&n.mu)
	far.in, far.out = near.out, near.in
	near.peer, far.peer = far, near
	n.conns[near], n.conns[far] = struct{}{}, struct{}{}
	l.waiting = append(l.waiting, far)
	l.cond.Signal()
	return near, nil
}

func (n *Net) resolve(addr string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	n.mu.Lock()
	a, known := n.names[host]
	n.mu.Unlock()
	if !known {
		if a, err = netip.ParseAddr(host); err != nil {
			return netip.AddrPort{}, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
	}
	var p uint16
	if _, err := fmt.Sscanf(port, "%d", &p); err != nil {
		return netip.AddrPort{}, fmt.Errorf("port %q: %w", port, err)
	}
	return netip.AddrPortFrom(a.Unmap(), p), nil
}

// streamListener is one listening address.
type streamListener struct {
	net     *Net
	at      netip.AddrPort
	cond    sync.Cond // on net.mu
	waiting []*streamConn
	closed  bool
}

// Accept implements net.Listener.
func (l *streamListener) Accept() (net.Conn, error) {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	for !l.closed && len(l.waiting) == 0 {
		l.cond.Wait()
	}
	if l.closed {
		return nil, opError("accept", netip.AddrPort{}, l.at, net.ErrClosed)
	}
	c := l.waiting[0]
	l.waiting = l.waiting[1:]
	return c, nil
}

// Close implements net.Listener; connections that nobody accepted are reset.
func (l *streamListener) Close() error {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	if l.closed {
		return opError("close", netip.AddrPort{}, l.at, net.ErrClosed)
	}
	l.shut()
	return nil
}

// shut closes the listener. The caller holds net.mu.
func (l *streamListener) shut() {
	l.closed = true
	delete(l.net.listeners, l.at)
	for _, c := range l.waiting {
		for _, end := range []*streamConn{c, c.peer} {
			end.fail(syscall.ECONNRESET)
			delete(l.net.conns, end)
		}
	}
	l.waiting = nil
	l.cond.Broadcast()
}

// Addr implements net.Listener; it is a *net.TCPAddr.
func (l *streamListener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }

func opError(op string, from, to netip.AddrPort, err error) error {
	e := &net.OpError{Op: op, Net: "tcp", Err: err}
	if from.IsValid() {
		e.Source = net.TCPAddrFromAddrPort(from)
	}
	if to.IsValid() {
		e.Addr = net.TCPAddrFromAddrPort(to)
	}
	return e
}
