package netio

import (
	"context"
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// WatchLinks calls changed whenever the system tells that a link, an address or a route changed, until ctx ends, and then
// returns nil. What changed is not read: many changes come at once, and the list is asked for anew. changed must not block.
func WatchLinks(ctx context.Context, changed func()) error {
	syscall.ForkLock.RLock()
	fd, err := unix.Socket(unix.AF_ROUTE, unix.SOCK_RAW, unix.AF_UNSPEC)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return os.NewSyscallError("setnonblock", err)
	}
	return watchSocket(ctx, os.NewFile(uintptr(fd), "route"), changed)
}

// overflowed reports that the kernel had more to tell than the socket holds, which is a change too.
func overflowed(err error) bool { return errors.Is(err, unix.ENOBUFS) }
