package netio

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// The header of the session library's frames: version, type, flags (2), stream (4), length (4), big-endian.
const (
	muxHeader  = 12
	muxData    = 0
	muxPing    = 2
	muxFlagSYN = 1
)

// gate reads along with the session library and ends a session whose peer is outside the roster and sends more than the
// library should be made to hold: it reserves a window for 12 bytes, and starts a goroutine a ping. It reads only the
// headers; what they mean is the library's matter. Only the library's reader calls it.
type gate struct {
	net.Conn
	parity  uint32      // of the streams that the peer opens: 1 if it dialed
	trusted func() bool // asked only when a bound is passed
	refuse  func()      // told once

	header  [muxHeader]byte
	have    int    // bytes of header gathered
	skip    uint32 // bytes of data left to pass
	since   time.Time
	streams int
	pings   int
	bytes   uint64
	shut    bool

	heard  atomic.Int64    // when something was last read, as time since born
	born   time.Time       // with its monotonic reading
	head   [muxHeader]byte // of a frame whose data comes in the next Write
	headed bool            // there is one
}

// writes is where a frame's header and its data are put together.
var writes = sync.Pool{New: func() any { b := make([]byte, 0, muxHeader+maxPiece); return &b }}

// Write implements net.Conn. The library writes a frame's header and its data one after the other; they go out as one
// record, which halves what a push costs. Only the library's writer calls it.
func (g *gate) Write(b []byte) (int, error) {
	if !g.headed {
		if len(b) == muxHeader && b[1] == muxData && binary.BigEndian.Uint32(b[8:]) > 0 {
			copy(g.head[:], b)
			g.headed = true
			return len(b), nil
		}
		return g.Conn.Write(b)
	}
	g.headed = false
	p := writes.Get().(*[]byte)
	*p = append(append((*p)[:0], g.head[:]...), b...)
	n, err := g.Conn.Write(*p)
	if cap(*p) <= 2*(muxHeader+maxPiece) {
		writes.Put(p)
	}
	return max(0, n-muxHeader), err
}

// silent is for how long nothing was read.
func (g *gate) silent(now time.Time) time.Duration {
	return now.Sub(g.born) - time.Duration(g.heard.Load())
}

// Read implements net.Conn.
func (g *gate) Read(b []byte) (int, error) {
	if g.shut {
		return 0, ErrFlood
	}
	n, err := g.Conn.Read(b)
	now := time.Now()
	g.heard.Store(int64(now.Sub(g.born)))
	if !g.pass(b[:n], now) {
		g.shut = true
		g.refuse()
		return 0, ErrFlood
	}
	return n, err
}

// pass follows the frames in b and reports whether the peer stays within its bounds.
func (g *gate) pass(b []byte, now time.Time) bool {
	if now.Sub(g.since) >= floodWindow {
		g.since, g.streams, g.pings, g.bytes = now, 0, 0, 0
	}
	for len(b) > 0 {
		if g.skip > 0 {
			n := min(g.skip, uint32(len(b)))
			g.skip -= n
			b = b[n:]
			continue
		}
		n := copy(g.header[g.have:], b)
		g.have += n
		b = b[n:]
		if g.have == muxHeader {
			g.have = 0
			if !g.frame() && !g.trusted() {
				return false
			}
		}
	}
	return true
}

// frame counts one header and reports whether every bound holds.
func (g *gate) frame() bool {
	kind := g.header[1]
	flags := binary.BigEndian.Uint16(g.header[2:])
	stream := binary.BigEndian.Uint32(g.header[4:])
	length := binary.BigEndian.Uint32(g.header[8:])
	theirs := stream%2 == g.parity
	if flags&muxFlagSYN != 0 && kind != muxPing {
		g.streams++
	}
	ok := true
	switch kind {
	case muxPing:
		g.pings++
	case muxData:
		g.skip = length
		if theirs {
			g.bytes += uint64(length)
			ok = length <= floodOneFrame
		}
	}
	return ok && g.streams <= floodStreams && g.pings <= floodPings && g.bytes <= floodBytes
}
