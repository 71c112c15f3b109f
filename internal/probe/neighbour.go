package probe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"pace-node/internal/host"
)

// discard is the port of a service that answers nobody (RFC 863).
const discard = 9

// Unreachable reports whether a datagram to a broadcast address fails as if there were no route, as macOS has it fail for
// a program without the permission for the local network.
func Unreachable(broadcast netip.Addr) bool {
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(broadcast, discard)))
	if err == nil {
		_, err = c.Write(nil)
		c.Close()
	}
	return errors.Is(err, syscall.EHOSTUNREACH)
}

// GatewayAnswers asks macOS whether the gateway's link address is known: then the network itself works.
func GatewayAnswers(ctx context.Context, run host.Runner) bool {
	r, err := run(ctx, "", "/sbin/route", "-n", "get", "default")
	if err != nil {
		return false
	}
	gateway := gatewayIn(r.Out)
	if gateway == "" {
		return false
	}
	r, err = run(ctx, "", "/usr/sbin/arp", "-n", gateway)
	return err == nil && r.Code == 0 && strings.Contains(r.Out, " at ") && !strings.Contains(r.Out, "incomplete") && !strings.Contains(r.Out, "no entry")
}

// gatewayIn reads what `route -n get default` prints.
func gatewayIn(text string) string {
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && name == "gateway" {
			if a, err := netip.ParseAddr(strings.TrimSpace(value)); err == nil {
				return a.String()
			}
		}
	}
	return ""
}
