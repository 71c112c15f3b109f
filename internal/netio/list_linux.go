package netio

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"unsafe"
)

// ListInterfaces lists the interfaces of this machine with two questions to the kernel, however many there are: the
// standard library asks for all addresses again at each interface, which on a host of some thousand takes a core.
func ListInterfaces() ([]Interface, error) {
	links, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", os.NewSyscallError("netlink", err))
	}
	addrs, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", os.NewSyscallError("netlink", err))
	}
	return parseNetlink(links, addrs)
}

// Address flags of the kernel (linux/if_addr.h).
const (
	addrSecondary  = 0x01 // of IPv6: temporary
	addrDADFailed  = 0x08
	addrDeprecated = 0x20
	addrTentative  = 0x40
	attrAddrFlags  = 8 // IFA_FLAGS, 32 bits, in place of the 8 of the header
)

func parseNetlink(links, addrs []byte) ([]Interface, error) {
	messages, err := syscall.ParseNetlinkMessage(links)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var out []Interface
	at := map[int]int{}
	for i := range messages {
		m := &messages[i]
		if m.Header.Type != syscall.RTM_NEWLINK || len(m.Data) < syscall.SizeofIfInfomsg {
			continue
		}
		info := (*syscall.IfInfomsg)(unsafe.Pointer(&m.Data[0]))
		attrs, err := syscall.ParseNetlinkRouteAttr(m)
		if err != nil {
			return nil, fmt.Errorf("list interfaces: %w", err)
		}
		ifi := Interface{
			Index:        int(info.Index),
			Up:           info.Flags&syscall.IFF_UP != 0,
			Broadcast:    info.Flags&syscall.IFF_BROADCAST != 0,
			Loopback:     info.Flags&syscall.IFF_LOOPBACK != 0,
			PointToPoint: info.Flags&syscall.IFF_POINTOPOINT != 0,
		}
		for _, a := range attrs {
			if a.Attr.Type == syscall.IFLA_IFNAME && len(a.Value) > 0 {
				ifi.Name = string(a.Value[:len(a.Value)-1])
			}
		}
		at[ifi.Index] = len(out)
		out = append(out, ifi)
	}
	if messages, err = syscall.ParseNetlinkMessage(addrs); err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	for i := range messages {
		m := &messages[i]
		if m.Header.Type != syscall.RTM_NEWADDR || len(m.Data) < syscall.SizeofIfAddrmsg {
			continue
		}
		info := (*syscall.IfAddrmsg)(unsafe.Pointer(&m.Data[0]))
		n, known := at[int(info.Index)]
		if !known {
			continue // it came after the first question
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(m)
		if err != nil {
			return nil, fmt.Errorf("list addresses: %w", err)
		}
		if a, ok := parseAddr(info, attrs); ok {
			out[n].Addrs = append(out[n].Addrs, a)
		}
	}
	return out, nil
}

// parseAddr reads one address; one that is not usable yet, or never, is not ok.
func parseAddr(info *syscall.IfAddrmsg, attrs []syscall.NetlinkRouteAttr) (a InterfaceAddr, ok bool) {
	flags := uint32(info.Flags)
	var local, address netip.Addr
	for _, attr := range attrs {
		switch attr.Attr.Type {
		case syscall.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(attr.Value)
		case syscall.IFA_ADDRESS:
			address, _ = netip.AddrFromSlice(attr.Value)
		case syscall.IFA_BROADCAST:
			a.Broadcast, _ = netip.AddrFromSlice(attr.Value)
		case attrAddrFlags:
			if len(attr.Value) == 4 {
				flags = binary.NativeEndian.Uint32(attr.Value)
			}
		}
	}
	if flags&(addrDADFailed|addrTentative) != 0 {
		return a, false
	}
	// IFA_LOCAL is this machine's address; IFA_ADDRESS is the same, or the other end's.
	if !local.IsValid() {
		local = address
	}
	if !local.IsValid() || int(info.Prefixlen) > local.BitLen() {
		return a, false
	}
	a.Prefix = netip.PrefixFrom(local, int(info.Prefixlen))
	a.Secondary = flags&(addrSecondary|addrDeprecated) != 0
	return a, true
}

func defaultRoutes() []Route {
	v4, _ := os.ReadFile("/proc/net/route") // unreadable: as if there was no default route
	v6, _ := os.ReadFile("/proc/net/ipv6_route")
	return append(parseProcRoute(string(v4)), parseProcIPv6Route(string(v6))...)
}
