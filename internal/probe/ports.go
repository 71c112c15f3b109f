package probe

import (
	"context"
	"errors"
	"net"

	"pace-node/internal/netio"
)

// Bound is what became of binding an endpoint, which is let go at once.
type Bound struct {
	Taken  bool   // another socket has it
	Holder string // program and process that has it, "" where the system does not tell this account
	Err    error  // why it could not be bound, where nobody has it; nil: it could
}

// Bind tries an endpoint as a node binds it. shared: several nodes of one machine may have it. address is host:port, and
// its port is not 0.
func Bind(ctx context.Context, proto, address string, shared bool) (b Bound) {
	var err error
	switch {
	case proto == "tcp":
		var l net.Listener
		if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err == nil {
			err = l.Close()
		}
	case shared:
		err = netio.TryShared(ctx, address)
	default:
		var c net.PacketConn
		if c, err = (&net.ListenConfig{}).ListenPacket(ctx, "udp4", address); err == nil {
			err = c.Close()
		}
	}
	if isTaken(err) {
		b.Taken = true
		if _, port, failed := net.SplitHostPort(address); failed == nil {
			b.Holder = holder(proto, port)
		}
		return b
	}
	var call *net.OpError
	if errors.As(err, &call) {
		err = call.Err // which address it was, the asker knows
	}
	b.Err = err
	return b
}
