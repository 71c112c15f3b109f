package netio

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// linkGroups are the kernel's announcements of what the choice of interfaces and of the advertised address depends on.
const linkGroups = unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV4_ROUTE | unix.RTMGRP_IPV6_IFADDR | unix.RTMGRP_IPV6_ROUTE

// WatchLinks calls changed whenever the system tells that a link, an address or a route changed, until ctx ends, and then
// returns nil. What changed is not read: many changes come at once, and the list is asked for anew. changed must not block.
func WatchLinks(ctx context.Context, changed func()) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: linkGroups}); err != nil {
		_ = unix.Close(fd)
		return os.NewSyscallError("bind", err)
	}
	return watchSocket(ctx, os.NewFile(uintptr(fd), "rtnetlink"), changed)
}

// overflowed reports that the kernel had more to tell than the socket holds, which is a change too.
func overflowed(err error) bool { return errors.Is(err, unix.ENOBUFS) }
