package netio

import (
	"cmp"
	"net/netip"
	"slices"
)

// Route is one default route.
type Route struct {
	Interface string
	Metric    uint32 // lower wins
	IPv6      bool
}

// DefaultRouteInterface returns the name of the interface whose default route counts: of those that could reach
// neighbours (up, not loopback, not point-to-point, with an address), the one with the lowest metric, IPv4 before IPv6.
// A VPN that takes the default route is point-to-point and so changes nothing. Empty if there is none.
func DefaultRouteInterface(list []Interface, routes []Route) string {
	candidates := slices.DeleteFunc(slices.Clone(routes), func(r Route) bool {
		return !slices.ContainsFunc(list, func(i Interface) bool {
			return i.Name == r.Interface && i.Up && !i.Loopback && !i.PointToPoint && len(i.Addrs) > 0
		})
	})
	if len(candidates) == 0 {
		return ""
	}
	return slices.MinFunc(candidates, func(a, b Route) int {
		if a.IPv6 != b.IPv6 {
			if a.IPv6 {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Metric, b.Metric)
	}).Interface
}

// advertiseOrder is the order in which an address to tell peers is looked for; the first row with an answer wins.
var advertiseOrder = []struct {
	About string
	Fits  func(c *InterfaceChoice, defaultRoute string) bool
}{
	{"the eligible interface that has the default route", func(c *InterfaceChoice, d string) bool {
		return c.Used && c.Name == d
	}},
	{"the first eligible interface", func(c *InterfaceChoice, _ string) bool { return c.Used }},
	{"IPv4 without broadcasts, such as a /32, on the default route", func(c *InterfaceChoice, d string) bool {
		return c.Reachable && c.Addr.Addr().Is4() && c.Name == d
	}},
	{"any IPv4 without broadcasts", func(c *InterfaceChoice, _ string) bool {
		return c.Reachable && c.Addr.Addr().Is4()
	}},
	{"IPv6 on the default route", func(c *InterfaceChoice, d string) bool { return c.Reachable && c.Name == d }},
	{"any IPv6", func(c *InterfaceChoice, _ string) bool { return c.Reachable }},
}

// AdvertiseAddress returns the address to tell peers where --advertise names none; ok is false if no interface has one.
func AdvertiseAddress(choices []InterfaceChoice, defaultRoute string) (addr netip.Addr, ok bool) {
	for _, row := range advertiseOrder {
		for i := range choices {
			if c := &choices[i]; c.Addr.IsValid() && row.Fits(c, defaultRoute) {
				return c.Addr.Addr(), true
			}
		}
	}
	return netip.Addr{}, false
}

// localFor returns the address of this machine that a datagram came in by: where beacons of that subnet leave from, so
// that a beacon and the answers around it have one source. index is the interface it came in by, 0 if unknown; dst is
// where it was sent to, which may be a broadcast or invalid.
func localFor(choices []InterfaceChoice, index int, dst, from netip.Addr) netip.Addr {
	if dst.IsValid() {
		for i := range choices {
			if c := &choices[i]; c.Addr.IsValid() && c.Addr.Addr() == dst {
				return dst
			}
		}
	}
	var onInterface netip.Addr
	for i := range choices {
		c := &choices[i]
		if !c.Used || index != 0 && c.Index != 0 && c.Index != index {
			continue
		}
		if c.Addr.Contains(from) {
			return c.Addr.Addr()
		}
		if index != 0 && !onInterface.IsValid() {
			onInterface = c.Addr.Addr()
		}
	}
	return onInterface
}

// CurrentInterfaces lists and judges the interfaces of this machine, for a node that runs without discovery: the same
// choice, and the default route's interface.
func CurrentInterfaces(rules InterfaceRules) (choices []InterfaceChoice, defaultRoute string, err error) {
	list, err := ListInterfaces()
	if err != nil {
		return nil, "", err
	}
	defaultRoute = DefaultRouteInterface(list, defaultRoutes())
	return ChooseInterfaces(list, rules, defaultRoute), defaultRoute, nil
}
