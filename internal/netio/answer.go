package netio

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/net/ipv4"
)

// packetInfoAnswer is one socket for every address; each datagram that it sends names its source.
type packetInfoAnswer struct {
	conn *net.UDPConn
	// named: the source is set for each datagram; not on loopback, where the socket is bound to the one address.
	named bool
}

func (p *Datagrams) openPacketInfo() (answering, error) {
	host := netip.IPv4Unspecified()
	if p.cfg.Loopback {
		host = loopbackAddr
	}
	at := netip.AddrPortFrom(host, p.cfg.ReplyPort)
	c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return nil, fmt.Errorf("discovery answering socket on UDP %s (--discovery-reply-port): %w", at, err)
	}
	_ = c.SetReadBuffer(receiveBuffer) // a wish: the system may have a lower limit
	v4 := ipv4.NewPacketConn(c)
	if packetInfo {
		if err := v4.SetControlMessage(ipv4.FlagDst|ipv4.FlagInterface, true); err != nil {
			_ = c.Close()
			return nil, fmt.Errorf("discovery answering socket on UDP %s: packet info: %w", at, err)
		}
	}
	if p.cfg.grouped {
		lo, err := loopbackInterface()
		if err == nil {
			err = errors.Join(v4.SetMulticastInterface(lo), v4.SetMulticastLoopback(true), v4.SetMulticastTTL(0))
		}
		if err != nil {
			_ = c.Close()
			return nil, fmt.Errorf("discovery answering socket: multicast on the loopback interface: %w", err)
		}
	}
	p.wait.Add(1)
	go p.read(c, true, netip.Addr{})
	return &packetInfoAnswer{conn: c, named: packetInfo && !p.cfg.Loopback}, nil
}

func (a *packetInfoAnswer) adopt([]InterfaceChoice) []SendError { return nil }

func (a *packetInfoAnswer) send(src netip.Addr, index int, to netip.AddrPort, b []byte) error {
	if !a.named || !src.Is4() {
		_, err := a.conn.WriteToUDPAddrPort(b, to)
		return err
	}
	cm := ipv4.ControlMessage{Src: src.AsSlice(), IfIndex: index}
	_, _, err := a.conn.WriteMsgUDPAddrPort(b, cm.Marshal(), to)
	return err
}

func (a *packetInfoAnswer) addr() netip.AddrPort {
	return unmap(a.conn.LocalAddr().(*net.UDPAddr).AddrPort())
}

func (a *packetInfoAnswer) close() error { return a.conn.Close() }

// boundAnswer is a socket for each used address, all with one port number.
type boundAnswer struct {
	port *Datagrams
	want uint16 // 0: the kernel chooses

	mu     sync.Mutex
	number uint16 // the one they share; 0 until the first is open
	conns  map[netip.Addr]*boundConn
	order  []netip.Addr
	closed bool
}

type boundConn struct {
	conn   *net.UDPConn
	prefix netip.Prefix
}

// adopt implements answering.
func (a *boundAnswer) adopt(choices []InterfaceChoice) []SendError {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	wanted := map[netip.Addr]InterfaceChoice{}
	a.order = a.order[:0]
	for _, c := range choices {
		if _, twice := wanted[c.Addr.Addr()]; c.Used && !twice {
			wanted[c.Addr.Addr()] = c
			a.order = append(a.order, c.Addr.Addr())
		}
	}
	for addr, c := range a.conns {
		if _, still := wanted[addr]; !still {
			_ = c.conn.Close() // its reader ends by it
			delete(a.conns, addr)
		}
	}
	var failed []SendError
	for try := 0; ; try++ {
		failed = a.open(wanted)
		// With no fixed port and nothing open before, another number may be free at every address.
		if len(failed) == 0 || a.want != 0 || len(a.conns) == 0 || try == portTries || a.had() {
			break
		}
		for addr, c := range a.conns {
			_ = c.conn.Close()
			delete(a.conns, addr)
		}
		a.number = 0
	}
	for _, addr := range a.order {
		c, open := a.conns[addr]
		if !open || c.prefix.IsValid() {
			continue
		}
		c.prefix = wanted[addr].Addr
		a.port.wait.Add(1)
		go a.port.read(c.conn, true, addr)
	}
	return failed
}

// had reports whether an earlier adopt left sockets: peers know their port. The caller holds mu.
func (a *boundAnswer) had() bool {
	for _, c := range a.conns {
		if c.prefix.IsValid() {
			return true
		}
	}
	return false
}

// open opens what is missing. The caller holds mu.
func (a *boundAnswer) open(wanted map[netip.Addr]InterfaceChoice) []SendError {
	var failed []SendError
	for _, addr := range a.order {
		if _, open := a.conns[addr]; open {
			continue
		}
		number := a.number
		if number == 0 {
			number = a.want
		}
		at := netip.AddrPortFrom(addr, number)
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
		if err != nil {
			failed = append(failed, SendError{Interface: wanted[addr].Name, From: addr, Err: fmt.Errorf("bind %s: %w", at, err)})
			continue
		}
		_ = c.SetReadBuffer(receiveBuffer) // a wish: the system may have a lower limit
		a.number = c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
		a.conns[addr] = &boundConn{conn: c}
	}
	return failed
}

// send implements answering.
func (a *boundAnswer) send(src netip.Addr, _ int, to netip.AddrPort, b []byte) error {
	a.mu.Lock()
	c := a.conns[src]
	if c == nil && !src.IsValid() {
		for _, addr := range a.order {
			if o := a.conns[addr]; o != nil && (c == nil || o.prefix.Contains(to.Addr()) && !c.prefix.Contains(to.Addr())) {
				c = o
			}
		}
	}
	a.mu.Unlock()
	if c == nil {
		return fmt.Errorf("send to %s: no answering socket at %s", to, src)
	}
	_, err := c.conn.WriteToUDPAddrPort(b, to)
	return err
}

// addr implements answering.
func (a *boundAnswer) addr() netip.AddrPort {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.conns) == 1 {
		for addr := range a.conns {
			return netip.AddrPortFrom(addr, a.number)
		}
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), a.number)
}

// close implements answering.
func (a *boundAnswer) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	var err error
	for _, c := range a.conns {
		err = errors.Join(err, c.conn.Close())
	}
	clear(a.conns)
	return err
}
