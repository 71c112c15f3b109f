package netio

import (
	"bufio"
	"strconv"
	"strings"
)

const (
	routeUp     = 0x1   // RTF_UP
	routeReject = 0x200 // RTF_REJECT: an unreachable route, which IPv6 keeps on lo
)

// parseProcRoute reads the text of /proc/net/route and returns the default routes in it. Lines that do not have the
// columns are passed over: the kernel writes the file, and a later one may add to it.
func parseProcRoute(text string) []Route {
	var out []Route
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		// Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
		f := strings.Fields(lines.Text())
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" {
			continue
		}
		flags, err1 := strconv.ParseUint(f[3], 16, 32)
		metric, err2 := strconv.ParseUint(f[6], 10, 32)
		if err1 != nil || err2 != nil || flags&routeUp == 0 || flags&routeReject != 0 {
			continue
		}
		out = append(out, Route{Interface: f[0], Metric: uint32(metric)})
	}
	return out
}

// parseProcIPv6Route reads the text of /proc/net/ipv6_route and returns the default routes in it.
func parseProcIPv6Route(text string) []Route {
	var out []Route
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		// destination length source length nexthop metric refcnt use flags device, in hex
		f := strings.Fields(lines.Text())
		if len(f) < 10 || strings.Trim(f[0], "0") != "" || f[1] != "00" {
			continue
		}
		metric, err1 := strconv.ParseUint(f[5], 16, 32)
		flags, err2 := strconv.ParseUint(f[8], 16, 32)
		if err1 != nil || err2 != nil || flags&routeUp == 0 || flags&routeReject != 0 {
			continue
		}
		out = append(out, Route{Interface: f[9], Metric: uint32(metric), IPv6: true})
	}
	return out
}
