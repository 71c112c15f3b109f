package control

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds of --admin-listen.
const (
	// doorMost is how many connections there are at once, and doorFrom how many of one other machine's. One on which no
	// request has come whole since doorGrace makes room for the next; where there is none such, one that has been taking
	// the answer of a GET, which is made in milliseconds, since doorTaking.
	doorMost   = 128
	doorFrom   = 64
	doorGrace  = 250 * time.Millisecond
	doorTaking = 3 * time.Second
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
	since time.Time // of does
	does  doing
	from  string
}

// doing is what a connection does, in the order in which they make room.
type doing int

const (
	doorAsks  doing = iota // no request on it has come whole: it says nothing, or one trickles in
	doorTakes              // a GET is answered
	doorLasts              // a change is made, or a stream of events is written, which have bounds of their own
)

// doorTime is how long each may last where another wants its place; 0 = for ever.
var doorTime = [...]time.Duration{doorAsks: doorGrace, doorTakes: doorTaking, doorLasts: 0}

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
	d.conns[c] = &doorConn{since: now, from: from}
	return true
}

// displace closes the connection that makes room first; of one source, where from is not "".
func (d *door) displace(now time.Time, from string) bool {
	var first net.Conn
	for c, s := range d.conns {
		if t := doorTime[s.does]; t == 0 || now.Sub(s.since) < t || from != "" && s.from != from {
			continue
		}
		if o := d.conns[first]; o == nil || s.does < o.does || s.does == o.does && s.since.Before(o.since) {
			first = c
		}
	}
	if first == nil {
		return false
	}
	delete(d.conns, first)
	first.Close()
	return true
}

// rawOf is the connection that entered.
func rawOf(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if p, ok := c.(*peeked); ok {
		c = p.Conn
	}
	return c
}

// state is http.Server's ConnState. StateActive is the first byte of a request, and says nothing of the rest.
func (d *door) state(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateActive, http.StateIdle:
		d.does(rawOf(c), doorAsks)
	case http.StateClosed, http.StateHijacked:
		d.leave(rawOf(c))
	}
}

// does notes what a connection does from now on.
func (d *door) does(raw net.Conn, what doing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.conns[raw]; known != nil {
		known.does, known.since = what, time.Now()
	}
}

type doorKey struct{}

// place is one connection at a door, in the context of its requests.
type place struct {
	door *door
	raw  net.Conn
}

// context is http.Server's ConnContext.
func (d *door) context(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, doorKey{}, place{d, rawOf(c)})
}

// Lasts says of a request that its connection is not to make room from now on: whoever calls it bounds how many there are.
func Lasts(ctx context.Context) {
	if p, ok := ctx.Value(doorKey{}).(place); ok {
		p.door.does(p.raw, doorLasts)
	}
}

// asked serves requests, and tells their door when one has come whole and when it was answered.
func asked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok := r.Context().Value(doorKey{}).(place)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		answer := doorTakes
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			answer = doorLasts
		}
		if r.Body == nil || r.Body == http.NoBody {
			p.door.does(p.raw, answer)
		} else {
			r.Body = &wholeBody{r.Body, func() { p.door.does(p.raw, answer) }}
		}
		next.ServeHTTP(w, r)
		p.door.does(p.raw, doorAsks) // what is left of its body, or of the answer, trickles
	})
}

// wholeBody tells when a body was read to its end.
type wholeBody struct {
	io.ReadCloser
	ended func()
}

// Read implements io.Reader.
func (b *wholeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended()
	}
	return n, err
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
