package enroll

import (
	"net/netip"
	"strings"
)

// network is what counts as one source: an IPv4 address, or an IPv6 /64.
func network(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = ipv6Network
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // an address that nobody knows is one source
	}
	return p
}

// hostOf is the host of host:port, without brackets.
func hostOf(endpoint string) string {
	at := strings.LastIndexByte(endpoint, ':')
	if at < 0 {
		return endpoint
	}
	return strings.TrimSuffix(strings.TrimPrefix(endpoint[:at], "["), "]")
}

// here reports whether an endpoint names loopback or the wildcard: whoever dials it reaches itself.
func here(endpoint string) bool {
	host := hostOf(endpoint)
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.Unmap()
		return a.IsLoopback() || a.IsUnspecified()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// disagrees reports whether a claimed endpoint is an address other than the one the request came from.
func disagrees(endpoint string, source netip.Addr) bool {
	a, err := netip.ParseAddr(hostOf(endpoint))
	return err == nil && source.IsValid() && a.Unmap().WithZone("") != source.Unmap().WithZone("")
}
