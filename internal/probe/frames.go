package probe

import (
	"encoding/binary"
	"net/netip"
)

// Frame is a UDP datagram as it arrived on an interface, before any firewall of this machine saw it.
type Frame struct {
	Interface int // its index
	From, To  netip.AddrPort
	Broadcast bool    // it was sent to every station of the segment
	Head      [3]byte // of what it carries; zero where there is less
}

const (
	minIPv4   = 20 // bytes of a header without options
	udpHeader = 8  // bytes
	protoUDP  = 17
	moreFrags = 0x3fff // more fragments, or not the first one
)

// parseIPv4 reads a packet, and returns the UDP datagram that it is. A fragment is none.
func parseIPv4(b []byte) (f Frame, ok bool) {
	if len(b) < minIPv4 || b[0]>>4 != 4 || b[9] != protoUDP {
		return f, false
	}
	header := int(b[0]&0x0f) * 4
	if header < minIPv4 || len(b) < header+udpHeader || binary.BigEndian.Uint16(b[6:])&moreFrags != 0 {
		return f, false
	}
	udp := b[header:]
	f.From = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:16])), binary.BigEndian.Uint16(udp))
	f.To = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[16:20])), binary.BigEndian.Uint16(udp[2:]))
	copy(f.Head[:], udp[udpHeader:])
	return f, true
}
