package netio

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// handshakes bounds the connections of a port whose key is not known yet, in all and a source network. Where there is no
// place, the one that has taken its time longest gives way once that is handshakeGrace: whoever is honest is through by
// then, so that many who dawdle keep out nobody for long.
type handshakes struct {
	loopback bool // no bound a source for 127.0.0.0/8

	mu  sync.Mutex
	all []*handshake // oldest first
	of  map[netip.Prefix]int
}

// errGaveWay is why a connection that gave way ended.
var errGaveWay = errors.New("it took longer than others that wanted its place")

// handshake is one connection's place.
type handshake struct {
	conn     net.Conn
	network  netip.Prefix
	since    time.Time
	gaveWay  bool // closed for another
	finished bool
}

// begin takes a place; nil where there is none.
func (x *handshakes) begin(c net.Conn) *handshake {
	source := addrPort(c.RemoteAddr()).Addr()
	h := &handshake{conn: c, network: sourceNetwork(source), since: time.Now()}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.of == nil {
		x.of = map[netip.Prefix]int{}
	}
	spared := x.loopback && source.IsLoopback()
	if x.of[h.network] >= maxHandshakesPerSource && !spared && !x.displace(func(o *handshake) bool { return o.network == h.network }) {
		return nil
	}
	if len(x.all) >= maxHandshakes && !x.displace(func(*handshake) bool { return true }) {
		return nil
	}
	x.all = append(x.all, h)
	x.of[h.network]++
	return h
}

// displace closes the oldest of those that may give way, if it has had its time. The caller holds mu.
func (x *handshakes) displace(may func(*handshake) bool) bool {
	at := slices.IndexFunc(x.all, may)
	if at < 0 || time.Since(x.all[at].since) < handshakeGrace {
		return false
	}
	h := x.all[at]
	h.gaveWay = true
	_ = h.conn.Close()
	x.remove(h)
	return true
}

// end gives a place back, and reports whether it was taken away before.
func (x *handshakes) end(h *handshake) (gaveWay bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(h)
	return h.gaveWay
}

func (x *handshakes) remove(h *handshake) {
	if h.finished {
		return
	}
	h.finished = true
	x.all = slices.DeleteFunc(x.all, func(o *handshake) bool { return o == h })
	if x.of[h.network]--; x.of[h.network] == 0 {
		delete(x.of, h.network)
	}
}
