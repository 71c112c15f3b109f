package node

import (
	"context"
	"net"
	"net/netip"

	"pace-node/internal/netio"
)

// Network is where a node's sockets come from: the system's, or a simulated segment's in tests.
type Network interface {
	// Datagrams opens the socket pair of discovery.
	Datagrams(cfg netio.DatagramConfig) (netio.DatagramPort, error)
	// Listen opens a TCP listener on addr.
	Listen(addr string) (net.Listener, error)
	// Dial opens a TCP connection.
	Dial(ctx context.Context, network, addr string) (net.Conn, error)
	// Address is the address that this machine is to be dialled at now, or false where it has none.
	Address(port netio.DatagramPort) (netip.Addr, bool)
}

// SeedFinder is a Network that can ask DNS for the seeds of this machine's site.
type SeedFinder interface {
	// LookupSRV asks for the records of a service under this machine's own DNS suffix. An empty suffix: it has none, and
	// nobody was asked.
	LookupSRV(ctx context.Context, service, proto string) (suffix string, records []netio.SRV, err error)
}

// LinkWatcher is a Network that is told of changes.
type LinkWatcher interface {
	// WatchLinks calls changed whenever a link, an address or a route changed, until ctx ends, and then returns nil.
	WatchLinks(ctx context.Context, changed func()) error
}
