package control

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of --admin-listen.
const (
	// doorMost is how many connections there are at once, and doorFrom how many of one other machine's. One that has
	// asked nothing yet, or nothing more, makes room for the next once it is doorGrace old.
	doorMost  = 128
	doorFrom  = 64
	doorGrace = 250 * time.Millisecond
	// doorFirst is for the first byte of a connection, which says whether it speaks TLS.
	doorFirst = 5 * time.Second
	// tlsHandshake is the first byte of a TLS connection; no method of HTTP begins so.
	tlsHandshake = 0x16
)

// door bounds the connections of a listener, and tells those that speak TLS from those that do not.
type door struct {
	refused func() // a connection was closed for want of room

	mu    sync.Mutex
	conns map[net.Conn]*doorConn
}

type doorConn struct {
	since time.Time
	quiet bool // nobody waits for an answer on it
	from  string
}

func newDoor(refused func()) *door {
	return &door{refused: refused, conns: map[net.Conn]*doorConn{}}
}

// enter takes a connection in, or closes it.
func (d *door) enter(c net.Conn) bool {
	from := sourceOf(c)
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	same := 0
	for _, other := range d.conns {
		if from != "" && other.from == from {
			same++
		}
	}
	if len(d.conns) >= doorMost && !d.displace(now, "") || same >= doorFrom && !d.displace(now, from) {
		c.Close()
		d.refused()
		return false
	}
	d.conns[c] = &doorConn{since: now, quiet: true, from: from}
	return true
}

// displace closes the connection that has been quiet for longest; of one source, where from is not "".
func (d *door) displace(now time.Time, from string) bool {
	var oldest net.Conn
	for c, s := range d.conns {
		if s.quiet && now.Sub(s.since) >= doorGrace && (from == "" || s.from == from) && (oldest == nil || s.since.Before(d.conns[oldest].since)) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	delete(d.conns, oldest)
	oldest.Close()
	return true
}

// state is http.Server's ConnState.
func (d *door) state(c net.Conn, s http.ConnState) {
	raw := c
	if t, ok := c.(*tls.Conn); ok {
		raw = t.NetConn()
	}
	if p, ok := raw.(*peeked); ok {
		raw = p.Conn
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.conns[raw]
	switch {
	case known == nil:
	case s == http.StateActive:
		known.quiet = false
	case s == http.StateIdle:
		known.quiet, known.since = true, time.Now()
	case s == http.StateClosed || s == http.StateHijacked:
		delete(d.conns, raw)
	}
}

func (d *door) leave(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
}

// sourceOf is the other machine, "" on loopback: everybody there is this machine.
func sourceOf(c net.Conn) string {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok || a.IP.IsLoopback() {
		return ""
	}
	return a.IP.String()
}

// bounded is a listener behind a door.
type bounded struct {
	net.Listener
	door *door
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.door.enter(c) {
			return c, nil
		}
	}
}

// lane is a listener of the connections that were told apart.
type lane struct {
	addr  net.Addr
	conns chan net.Conn
	done  <-chan struct{}
}

// Accept implements net.Listener.
func (l *lane) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener; whoever splits ends it.
func (l *lane) Close() error { return nil }

// Addr implements net.Listener.
func (l *lane) Addr() net.Addr { return l.addr }

// split tells connections apart by their first byte until the listener is closed; it returns when every one was handed on or
// closed.
func split(ctx context.Context, l *bounded, plain, secure *lane) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		wait.Go(func() {
			stop := context.AfterFunc(ctx, func() { c.Close() })
			defer stop()
			p := &peeked{Conn: c}
			c.SetReadDeadline(time.Now().Add(doorFirst))
			if n, err := c.Read(p.first[:]); n == 0 || err != nil {
				l.door.leave(c)
				c.Close()
				return
			}
			c.SetReadDeadline(time.Time{})
			to := plain
			if p.first[0] == tlsHandshake {
				to = secure
			}
			select {
			case to.conns <- p:
			case <-ctx.Done():
				l.door.leave(c)
				c.Close()
			}
		})
	}
}

// peeked is a connection whose first byte was read.
type peeked struct {
	net.Conn
	first [1]byte
	given bool
}

// Read implements net.Conn.
func (p *peeked) Read(b []byte) (int, error) {
	if p.given || len(b) == 0 {
		return p.Conn.Read(b)
	}
	p.given = true
	b[0] = p.first[0]
	return 1, nil
}
