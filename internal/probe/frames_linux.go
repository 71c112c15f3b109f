package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// frameStep is how long one wait for a frame lasts before the context is looked at again.
	frameStep = 200 * time.Millisecond
	// maxFrame is how much of a frame is read, in bytes: its headers are looked at.
	maxFrame = 128
)

// WatchFrames calls seen for each UDP datagram over IPv4 to one of ports that arrives on any interface, until it says that
// it has seen enough or ctx ends. It sees what the firewall drops, and what is sent to a broadcast address that this machine
// does not take for one. Only an administrator may look: the error is then fs.ErrPermission.
func WatchFrames(ctx context.Context, ports []uint16, seen func(Frame) (enough bool)) error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(swapped(unix.ETH_P_IP)))
	if err != nil {
		return fmt.Errorf("look at what arrives: %w", err)
	}
	defer unix.Close(fd)
	step := unix.NsecToTimeval(frameStep.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &step); err != nil {
		return fmt.Errorf("look at what arrives: %w", err)
	}
	for b := make([]byte, maxFrame); ctx.Err() == nil; {
		n, from, err := unix.Recvfrom(fd, b, 0)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ENETDOWN):
			continue // ENETDOWN: one interface went, the others stay
		case err != nil:
			return fmt.Errorf("look at what arrives: %w", err)
		}
		at, ok := from.(*unix.SockaddrLinklayer)
		if !ok || at.Pkttype == unix.PACKET_OUTGOING || at.Pkttype == unix.PACKET_LOOPBACK {
			continue
		}
		f, ok := parseIPv4(b[:min(n, len(b))])
		if !ok || !slices.Contains(ports, f.To.Port()) {
			continue
		}
		f.Interface, f.Broadcast = at.Ifindex, at.Pkttype == unix.PACKET_BROADCAST
		if seen(f) {
			return nil
		}
	}
	return nil
}

// swapped is a number in the network's order, as the kernel wants the protocol.
func swapped(n uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], n)
	return binary.NativeEndian.Uint16(b[:])
}
