package netio

import (
	"os"
	"syscall"
)

const (
	// packetInfo: the library can't set the source of a datagram here, so there is a socket for each address.
	packetInfo = false
	// loopbackMulticast: the loopback interface can't broadcast.
	loopbackMulticast = true
)

// shareAddress lets several nodes of one machine listen on one port.
func shareAddress(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) {
		err = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(syscall.Handle(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	}); cerr != nil {
		return cerr
	}
	return err
}
