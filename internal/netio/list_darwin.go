package netio

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/net/route"
)

// ListInterfaces lists the interfaces of this machine. macOS marks no address as secondary: the order is the system's.
func ListInterfaces() ([]Interface, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	out := make([]Interface, 0, len(list))
	for _, i := range list {
		ifi := Interface{
			Index: i.Index, Name: i.Name,
			Up:           i.Flags&net.FlagUp != 0,
			Broadcast:    i.Flags&net.FlagBroadcast != 0,
			Loopback:     i.Flags&net.FlagLoopback != 0,
			PointToPoint: i.Flags&net.FlagPointToPoint != 0,
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue // it went away between the two questions
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				if p, ok := prefixOf(n); ok {
					ifi.Addrs = append(ifi.Addrs, InterfaceAddr{Prefix: p})
				}
			}
		}
		out = append(out, ifi)
	}
	return out, nil
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	a, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	a = a.Unmap()
	ones, bits := n.Mask.Size()
	if bits == 0 || bits-ones > a.BitLen() {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, a.BitLen()-(bits-ones)), true
}

func defaultRoutes() []Route {
	return append(defaultRoutesOf(syscall.AF_INET), defaultRoutesOf(syscall.AF_INET6)...)
}

// defaultRoutesOf reads the routing table. The system keeps no metric: the first default route without an interface
// scope is the one it uses, so the order is the metric and scoped ones come after.
func defaultRoutesOf(family int) []Route {
	rib, err := route.FetchRIB(family, route.RIBTypeRoute, 0)
	if err != nil {
		return nil // as if there was no default route
	}
	messages, err := route.ParseRIB(route.RIBTypeRoute, rib)
	if err != nil {
		return nil
	}
	var out []Route
	for n, m := range messages {
		r, ok := m.(*route.RouteMessage)
		if !ok || r.Flags&syscall.RTF_UP == 0 || r.Flags&syscall.RTF_GATEWAY == 0 || !isDefault(r.Addrs) {
			continue
		}
		i, err := net.InterfaceByIndex(r.Index)
		if err != nil {
			continue
		}
		metric := uint32(n)
		if r.Flags&syscall.RTF_IFSCOPE != 0 {
			metric += 1 << 30
		}
		out = append(out, Route{Interface: i.Name, Metric: metric, IPv6: family == syscall.AF_INET6})
	}
	return out
}

// isDefault: destination and mask are all zeros; a default route's mask may be left out.
func isDefault(addrs []route.Addr) bool {
	if len(addrs) <= syscall.RTAX_NETMASK || addrs[syscall.RTAX_DST] == nil {
		return false
	}
	zero := func(a route.Addr) bool {
		switch a := a.(type) {
		case *route.Inet4Addr:
			return a.IP == [4]byte{}
		case *route.Inet6Addr:
			return a.IP == [16]byte{}
		}
		return a == nil
	}
	return zero(addrs[syscall.RTAX_DST]) && zero(addrs[syscall.RTAX_NETMASK])
}
