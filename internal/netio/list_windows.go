package netio

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	// ifTypePropVirtual and ifTypeTunnel are what VPN adapters call themselves (IF_TYPE_PROP_VIRTUAL, IF_TYPE_TUNNEL).
	ifTypePropVirtual = 53
	// adaptersSize is the first guess for the list, in bytes, as the system's manual recommends.
	adaptersSize = 15000
	// adaptersTries: the list may grow between two questions.
	adaptersTries = 5
)

// adapters asks for all adapters at once; the list lives in the returned buffer.
func adapters() (*windows.IpAdapterAddresses, error) {
	const flags = windows.GAA_FLAG_SKIP_ANYCAST | windows.GAA_FLAG_SKIP_MULTICAST | windows.GAA_FLAG_SKIP_DNS_SERVER
	size := uint32(adaptersSize)
	for range adaptersTries {
		b := make([]byte, size)
		first := (*windows.IpAdapterAddresses)(unsafe.Pointer(&b[0]))
		err := windows.GetAdaptersAddresses(windows.AF_UNSPEC, flags, 0, first, &size)
		switch {
		case err == nil && size == 0, errors.Is(err, windows.ERROR_NO_DATA):
			return nil, nil
		case err == nil:
			return first, nil
		case !errors.Is(err, windows.ERROR_BUFFER_OVERFLOW) || size <= uint32(len(b)):
			return nil, fmt.Errorf("list interfaces: %w", os.NewSyscallError("getadaptersaddresses", err))
		}
	}
	return nil, fmt.Errorf("list interfaces: %w", os.NewSyscallError("getadaptersaddresses", windows.ERROR_BUFFER_OVERFLOW))
}

// ListInterfaces lists the interfaces of this machine by the names that Windows shows.
func ListInterfaces() ([]Interface, error) {
	first, err := adapters()
	if err != nil {
		return nil, err
	}
	var out []Interface
	for a := first; a != nil; a = a.Next {
		ifi := Interface{
			Index: int(a.IfIndex), Name: windows.UTF16PtrToString(a.FriendlyName),
			Up:           a.OperStatus == windows.IfOperStatusUp,
			Loopback:     a.IfType == windows.IF_TYPE_SOFTWARE_LOOPBACK,
			PointToPoint: a.IfType == windows.IF_TYPE_PPP || a.IfType == windows.IF_TYPE_TUNNEL || a.IfType == ifTypePropVirtual,
		}
		if ifi.Index == 0 {
			ifi.Index = int(a.Ipv6IfIndex)
		}
		ifi.Broadcast = !ifi.Loopback && !ifi.PointToPoint
		for u := a.FirstUnicastAddress; u != nil; u = u.Next {
			if u.DadState != windows.IpDadStatePreferred && u.DadState != windows.IpDadStateDeprecated {
				continue
			}
			addr, ok := netip.AddrFromSlice(u.Address.IP())
			if !ok {
				continue
			}
			addr = addr.Unmap()
			if int(u.OnLinkPrefixLength) > addr.BitLen() {
				continue
			}
			ifi.Addrs = append(ifi.Addrs, InterfaceAddr{
				Prefix:    netip.PrefixFrom(addr, int(u.OnLinkPrefixLength)),
				Secondary: u.DadState == windows.IpDadStateDeprecated,
			})
		}
		out = append(out, ifi)
	}
	return out, nil
}

func defaultRoutes() []Route {
	first, err := adapters()
	if err != nil {
		return nil // as if there was no default route
	}
	var table *windows.MibIpForwardTable2
	if err := windows.GetIpForwardTable2(windows.AF_UNSPEC, &table); err != nil {
		return nil
	}
	defer windows.FreeMibTable(unsafe.Pointer(table))
	var out []Route
	for _, r := range table.Rows() {
		if r.DestinationPrefix.PrefixLength != 0 || r.Loopback != 0 {
			continue
		}
		for a := first; a != nil; a = a.Next {
			if a.Luid != r.InterfaceLuid {
				continue
			}
			// What Windows compares is the route's metric and the interface's together.
			route := Route{Interface: windows.UTF16PtrToString(a.FriendlyName), Metric: r.Metric + a.Ipv4Metric}
			if r.DestinationPrefix.Prefix.Family == windows.AF_INET6 {
				route.IPv6, route.Metric = true, r.Metric+a.Ipv6Metric
			}
			out = append(out, route)
		}
	}
	return out
}
