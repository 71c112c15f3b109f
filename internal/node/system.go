package node

import (
	"context"
	"net"
	"net/netip"

	"pace-node/internal/netio"
)

// SystemNetwork is the machine's own sockets.
type SystemNetwork struct {
	Rules    []string // --discovery-interface
	Loopback bool     // --discovery-loopback
}

// Datagrams implements Network.
func (s SystemNetwork) Datagrams(cfg netio.DatagramConfig) (netio.DatagramPort, error) {
	port, err := netio.OpenDatagram(cfg)
	if err != nil {
		return nil, err // not the nil pointer, which an interface would hide
	}
	return port, nil
}

// Listen implements Network.
func (s SystemNetwork) Listen(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }

// Dial implements Network.
func (s SystemNetwork) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// WatchLinks implements LinkWatcher.
func (s SystemNetwork) WatchLinks(ctx context.Context, changed func()) error {
	return netio.WatchLinks(ctx, changed)
}

// LookupSRV implements SeedFinder.
func (s SystemNetwork) LookupSRV(ctx context.Context, service, proto string) (suffix string, records []netio.SRV, err error) {
	return netio.LookupSRV(ctx, service, proto)
}

// Address implements Network: the primary address of the eligible interface that has the default route, else of the first
// eligible one.
func (s SystemNetwork) Address(netio.DatagramPort) (netip.Addr, bool) {
	choices, route, err := netio.CurrentInterfaces(netio.InterfaceRules{Include: s.Rules, Loopback: s.Loopback})
	if err != nil {
		return netip.Addr{}, false
	}
	return netio.AdvertiseAddress(choices, route)
}
