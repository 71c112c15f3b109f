package control

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUID returns the account of the process at the other end.
func peerUID(c *net.UnixConn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Xucred
	var got error
	if err := raw.Control(func(fd uintptr) {
		cred, got = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if got != nil {
		return 0, got
	}
	return cred.Uid, nil
}
