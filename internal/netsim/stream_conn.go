package netsim

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// half is one direction of a connection. Everything in it is guarded by the Net's mutex.
type half struct {
	cond sync.Cond
	buf  []byte
	fin  bool // the writer closed
	dead bool // the reader closed: what is written goes nowhere
}

func newHalf(mu *sync.Mutex) *half {
	h := &half{}
	h.cond.L = mu
	return h
}

// streamConn is one end of a connection.
type streamConn struct {
	net           *Net
	local, remote netip.AddrPort
	in, out       *half
	peer          *streamConn
	err           error // set once: closed here, or reset
	deaf          bool  // the other machine lost its power
	read, write   streamDeadline
}

// streamDeadline is a moment and the timer that wakes whoever waits for it.
type streamDeadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *streamDeadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// silent reports whether nothing passes now. The caller holds net.mu.
func (c *streamConn) silent() bool { return c.deaf || c.net.apart(c.local.Addr(), c.remote.Addr()) }

// fail ends this end with err. The caller holds net.mu.
func (c *streamConn) fail(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	c.read.stop()
	c.write.stop()
	c.in.cond.Broadcast()
	c.out.cond.Broadcast()
}

func (d *streamDeadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// Read implements net.Conn.
func (c *streamConn) Read(b []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	for {
		switch {
		case c.err != nil:
			return 0, opError("read", c.local, c.remote, c.err)
		case c.read.passed():
			return 0, opError("read", c.local, c.remote, os.ErrDeadlineExceeded)
		case len(b) == 0:
			return 0, nil
		case c.silent():
		case len(c.in.buf) > 0:
			n := copy(b, c.in.buf)
			if c.in.buf = c.in.buf[n:]; len(c.in.buf) == 0 {
				c.in.buf = nil // else the array behind it would grow for as long as the connection lives
			}
			c.in.cond.Broadcast()
			return n, nil
		case c.in.fin:
			return 0, io.EOF
		}
		c.in.cond.Wait()
	}
}

// Write implements net.Conn. It waits while the buffer is full, as while a peer does not read or is separated.
func (c *streamConn) Write(b []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	for n := 0; ; {
		switch {
		case c.err != nil:
			return n, opError("write", c.local, c.remote, c.err)
		case c.write.passed():
			return n, opError("write", c.local, c.remote, os.ErrDeadlineExceeded)
		case n == len(b):
			return n, nil
		case c.out.dead && !c.silent():
			return n, opError("write", c.local, c.remote, os.NewSyscallError("write", syscall.EPIPE))
		}
		if room := min(streamBuffer-len(c.out.buf), len(b)-n); room > 0 {
			c.out.buf = append(c.out.buf, b[n:n+room]...)
			n += room
			c.out.cond.Broadcast()
			continue
		}
		c.out.cond.Wait()
	}
}

// Close implements net.Conn. What was written is still delivered; what was not read is lost.
func (c *streamConn) Close() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.err != nil {
		if c.err == net.ErrClosed {
			return opError("close", c.local, c.remote, net.ErrClosed)
		}
		c.err = net.ErrClosed
		return nil
	}
	c.fail(net.ErrClosed)
	c.out.fin, c.in.dead = true, true
	c.in.buf = nil
	c.in.cond.Broadcast()
	c.out.cond.Broadcast()
	delete(c.net.conns, c)
	return nil
}

// LocalAddr implements net.Conn; it is a *net.TCPAddr.
func (c *streamConn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.local) }

// RemoteAddr implements net.Conn; it is a *net.TCPAddr.
func (c *streamConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

// SetDeadline implements net.Conn.
func (c *streamConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *streamConn) SetReadDeadline(t time.Time) error { return c.arm(&c.read, c.in, t) }

// SetWriteDeadline implements net.Conn.
func (c *streamConn) SetWriteDeadline(t time.Time) error { return c.arm(&c.write, c.out, t) }

func (c *streamConn) arm(d *streamDeadline, h *half, t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.err != nil {
		return opError("set", c.local, c.remote, c.err)
	}
	d.stop()
	d.at, d.timer = t, nil
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		d.timer = time.AfterFunc(wait, func() {
			c.net.mu.Lock()
			defer c.net.mu.Unlock()
			h.cond.Broadcast()
		})
	}
	h.cond.Broadcast()
	return nil
}
