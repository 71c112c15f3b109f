//go:build !windows

package netio

import (
	"os"
	"syscall"
)

// packetInfo: the system tells where a datagram was sent to, and lets one socket choose the source of each that it sends.
const packetInfo = true

// shareAddress lets several nodes of one machine listen on one port.
func shareAddress(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) {
		err = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
		if err == nil && reusePort {
			err = os.NewSyscallError("setsockopt", syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, soReusePort, 1))
		}
	}); cerr != nil {
		return cerr
	}
	return err
}
