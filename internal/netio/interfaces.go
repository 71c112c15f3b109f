package netio

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
)

// Interface is what the choice is made from: one interface as the system lists it.
type Interface struct {
	Index        int
	Name         string
	Up           bool // administratively up
	Broadcast    bool // can broadcast
	Loopback     bool
	PointToPoint bool // a tunnel or a dial-up link
	Addrs        []InterfaceAddr
}

// InterfaceAddr is one address of an interface, in the system's order: the primary one first.
type InterfaceAddr struct {
	Prefix    netip.Prefix // the address itself with its prefix length, not masked
	Broadcast netip.Addr   // as set by hand; invalid where it is to be worked out
	Secondary bool         // the system says so (Linux)
}

// Pass is why an address is passed over for beacons; PassNot is none.
type Pass uint8

// Reasons, in the order in which they are asked.
const (
	PassNot Pass = iota
	PassDown
	PassLoopback
	PassPointToPoint
	PassNoBroadcast
	PassRuleExcludes
	PassRuleOmits
	PassExactAddress
	PassNoIPv4
	PassIPv6
	PassPrefix
	PassSameSubnet
	PassVirtual
)

// PassRow is one row of the table of reasons.
type PassRow struct {
	Pass Pass
	Why  string // for a person
}

// Passes is the table of reasons.
var Passes = []PassRow{
	{PassNot, "used"},
	{PassDown, "it is down"},
	{PassLoopback, "loopback"},
	{PassPointToPoint, "point-to-point: a broadcast has no meaning there"},
	{PassNoBroadcast, "it can't broadcast"},
	{PassRuleExcludes, "excluded by --discovery-interface"},
	{PassRuleOmits, "not named by --discovery-interface"},
	{PassExactAddress, "--discovery names another address"},
	{PassNoIPv4, "it has no IPv4 address, and beacons need one; --fleet-seed works without"},
	{PassIPv6, "IPv6: beacons need IPv4; --fleet-seed works without"},
	{PassPrefix, "a prefix of /31 or /32 has no broadcast address"},
	{PassSameSubnet, "another address of the same subnet is used"},
	{PassVirtual, "a bridge or adapter of containers or virtual machines; --discovery-interface=<name> uses it"},
}

// String returns the reason for a person.
func (p Pass) String() string {
	for i := range Passes {
		if Passes[i].Pass == p {
			return Passes[i].Why
		}
	}
	return "unknown"
}

// InterfaceChoice is the verdict on one address of one interface, or on an interface without one.
type InterfaceChoice struct {
	Name      string
	Addr      netip.Prefix // invalid for an interface without an address
	Broadcast netip.Addr   // where its beacons go; invalid unless Used
	Used      bool
	Why       string // "used", or why not
	Pass      Pass
	Index     int
	// Reachable: other machines could reach the address, used for beacons or not; then it may be advertised.
	Reachable bool
}

// String returns one line for the start-up message.
func (c InterfaceChoice) String() string {
	name := fmt.Sprintf("%q", c.Name)
	if name == `"`+c.Name+`"` && !strings.ContainsAny(c.Name, " ") {
		name = c.Name
	}
	if !c.Addr.IsValid() {
		return name + ": " + c.Why
	}
	if c.Used {
		return fmt.Sprintf("%s %s: used, beacons to %s", name, c.Addr, c.Broadcast)
	}
	return fmt.Sprintf("%s %s: %s", name, c.Addr, c.Why)
}

// InterfaceRules is what the operator asked for.
type InterfaceRules struct {
	Include  []string   // --discovery-interface: names or !names, globs with * and ?
	Exact    netip.Addr // the address of --discovery; unspecified or invalid: every one
	Loopback bool       // --discovery-loopback: 127.0.0.1 alone
}

// VirtualName is one row of the names that are passed over by default.
type VirtualName struct {
	Glob        string
	UnlessAlone bool // passed over only on a host that has others
	About       string
}

// VirtualNames are the bridges and adapters of containers and hypervisors. They are asked in this order; an interface
// that has the default route is never passed over for its name, nor is the last one left.
var VirtualNames = []VirtualName{
	{"docker*", false, "Docker's own bridge"},
	{"br-*", false, "Docker's bridge of a network"},
	{"virbr*", false, "libvirt's bridge"},
	{"vEthernet*", false, "Hyper-V's and WSL's adapter"},
	{"veth*", true, "one end of a container's pair"},
}

// LoopbackBroadcast is where beacons go with --discovery-loopback.
var LoopbackBroadcast = netip.AddrFrom4([4]byte{127, 255, 255, 255})

var loopbackAddr = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// ParseInterfaceRule checks one --discovery-interface.
func ParseInterfaceRule(s string) error {
	if strings.TrimPrefix(s, "!") == "" {
		return fmt.Errorf("interface rule %q: %w", s, ErrRule)
	}
	return nil
}

// ChooseInterfaces judges every address of list by rules. defaultRoute is the name of the interface that has the default
// route, or empty (DefaultRouteInterface). The answer has one row an address, in the list's order, and one row for an
// interface without any. It is a function of its arguments only.
func ChooseInterfaces(list []Interface, rules InterfaceRules, defaultRoute string) []InterfaceChoice {
	if rules.Loopback {
		return []InterfaceChoice{{
			Name: LoopbackName, Addr: netip.PrefixFrom(loopbackAddr, 8), Broadcast: LoopbackBroadcast,
			Used: true, Why: PassNot.String(), Reachable: true,
		}}
	}
	var out []InterfaceChoice
	for i := range list {
		ifi := &list[i]
		pass := passInterface(ifi, rules)
		if len(ifi.Addrs) == 0 {
			if pass == PassNot {
				pass = PassNoIPv4
			}
			out = append(out, InterfaceChoice{Name: ifi.Name, Index: ifi.Index, Pass: pass})
			continue
		}
		first := len(out)
		for _, a := range ordered(ifi.Addrs) {
			c := InterfaceChoice{
				Name: ifi.Name, Index: ifi.Index, Addr: a.Prefix, Pass: pass,
				Reachable: ifi.Up && !ifi.Loopback && !ifi.PointToPoint && routable(a.Prefix.Addr()) && pass != PassRuleExcludes && pass != PassRuleOmits,
			}
			if c.Pass == PassNot {
				c.Pass = passAddress(a, rules, out[first:])
			}
			if c.Pass == PassNot {
				c.Broadcast = broadcastOf(a)
			}
			out = append(out, c)
		}
	}
	passVirtual(out, rules, defaultRoute)
	for i := range out {
		c := &out[i]
		if c.Used = c.Pass == PassNot; !c.Used {
			c.Broadcast = netip.Addr{}
		}
		c.Why = c.Pass.String()
	}
	return out
}

// interfaceChecks are asked of an interface, in order; the first that holds is the reason.
var interfaceChecks = []struct {
	Pass  Pass
	Holds func(i *Interface, r *InterfaceRules) bool
}{
	{PassDown, func(i *Interface, _ *InterfaceRules) bool { return !i.Up }},
	{PassLoopback, func(i *Interface, _ *InterfaceRules) bool { return i.Loopback }},
	{PassPointToPoint, func(i *Interface, _ *InterfaceRules) bool { return i.PointToPoint }},
	{PassNoBroadcast, func(i *Interface, _ *InterfaceRules) bool { return !i.Broadcast }},
	{PassRuleExcludes, func(i *Interface, r *InterfaceRules) bool { return r.excludes(i.Name) }},
	{PassRuleOmits, func(i *Interface, r *InterfaceRules) bool { return r.named() && !r.names(i.Name) }},
}

func passInterface(i *Interface, r InterfaceRules) Pass {
	for _, c := range interfaceChecks {
		if c.Holds(i, &r) {
			return c.Pass
		}
	}
	return PassNot
}

// addressChecks are asked of an address of an interface that passed; before are the rows of the same interface so far.
var addressChecks = []struct {
	Pass  Pass
	Holds func(a *InterfaceAddr, r *InterfaceRules, before []InterfaceChoice) bool
}{
	{PassIPv6, func(a *InterfaceAddr, _ *InterfaceRules, _ []InterfaceChoice) bool { return !a.Prefix.Addr().Is4() }},
	{PassExactAddress, func(a *InterfaceAddr, r *InterfaceRules, _ []InterfaceChoice) bool {
		return r.Exact.IsValid() && !r.Exact.IsUnspecified() && r.Exact != a.Prefix.Addr()
	}},
	{PassPrefix, func(a *InterfaceAddr, _ *InterfaceRules, _ []InterfaceChoice) bool { return a.Prefix.Bits() > 30 }},
	{PassSameSubnet, func(a *InterfaceAddr, _ *InterfaceRules, before []InterfaceChoice) bool {
		for i := range before {
			if before[i].Pass == PassNot && before[i].Addr.Masked() == a.Prefix.Masked() {
				return true
			}
		}
		return false
	}},
}

func passAddress(a InterfaceAddr, r InterfaceRules, before []InterfaceChoice) Pass {
	for _, c := range addressChecks {
		if c.Holds(&a, &r, before) {
			return c.Pass
		}
	}
	return PassNot
}

// ordered puts primary addresses before secondary ones, else as they come.
func ordered(addrs []InterfaceAddr) []InterfaceAddr {
	out := make([]InterfaceAddr, 0, len(addrs))
	for _, secondary := range []bool{false, true} {
		for _, a := range addrs {
			if a.Secondary == secondary {
				out = append(out, a)
			}
		}
	}
	return out
}

// passVirtual passes over the interfaces that VirtualNames names, unless the operator named interfaces.
func passVirtual(out []InterfaceChoice, rules InterfaceRules, defaultRoute string) {
	if rules.named() || rules.Exact.IsValid() && !rules.Exact.IsUnspecified() {
		return
	}
	for _, v := range VirtualNames {
		matches := func(c *InterfaceChoice) bool {
			return c.Name != defaultRoute && glob(v.Glob, c.Name)
		}
		if v.UnlessAlone && !anyUsed(out, func(c *InterfaceChoice) bool { return !glob(v.Glob, c.Name) }) {
			continue
		}
		for i := range out {
			c := &out[i]
			if c.Pass == PassNot && matches(c) && anyUsed(out, func(o *InterfaceChoice) bool { return o.Name != c.Name }) {
				for j := range out {
					if out[j].Name == c.Name && out[j].Pass == PassNot {
						out[j].Pass = PassVirtual
					}
				}
			}
		}
	}
}

// IsVirtual reports whether an interface is named as those of containers and hypervisors are.
func IsVirtual(name string) bool {
	for _, v := range VirtualNames {
		if glob(v.Glob, name) {
			return true
		}
	}
	return false
}

func anyUsed(out []InterfaceChoice, f func(*InterfaceChoice) bool) bool {
	for i := range out {
		if out[i].Pass == PassNot && f(&out[i]) {
			return true
		}
	}
	return false
}

// routable: an address that another machine can dial without naming a zone.
func routable(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast() && !a.IsLinkLocalUnicast() || a.Is4() && a.IsLinkLocalUnicast()
}

// BroadcastOf is the directed broadcast of an address's network, invalid for what has none.
func BroadcastOf(p netip.Prefix) netip.Addr {
	if !p.IsValid() || !p.Addr().Is4() || p.Bits() > 30 {
		return netip.Addr{}
	}
	return broadcastOf(InterfaceAddr{Prefix: p})
}

// broadcastOf is the directed broadcast: the one set by hand if it lies inside the prefix, else the prefix's last.
func broadcastOf(a InterfaceAddr) netip.Addr {
	if a.Broadcast.Is4() && a.Prefix.Contains(a.Broadcast) && a.Broadcast != a.Prefix.Addr() {
		return a.Broadcast
	}
	b := a.Prefix.Addr().As4()
	v := binary.BigEndian.Uint32(b[:]) | (1<<(32-a.Prefix.Bits()) - 1)
	binary.BigEndian.PutUint32(b[:], v)
	return netip.AddrFrom4(b)
}

// named reports whether the operator named an interface to use, rather than only some to leave out.
func (r *InterfaceRules) named() bool {
	for _, s := range r.Include {
		if !strings.HasPrefix(s, "!") {
			return true
		}
	}
	return false
}

func (r *InterfaceRules) names(name string) bool {
	for _, s := range r.Include {
		if !strings.HasPrefix(s, "!") && folded(s, name) {
			return true
		}
	}
	return false
}

func (r *InterfaceRules) excludes(name string) bool {
	for _, s := range r.Include {
		if rest, not := strings.CutPrefix(s, "!"); not && folded(rest, name) {
			return true
		}
	}
	return false
}

// folded is glob without regard to case: Windows has none, and an operator's rule is typed by hand.
func folded(pattern, name string) bool { return glob(strings.ToLower(pattern), strings.ToLower(name)) }

// glob matches the whole name: * is any run, ? one character, all else itself, since names hold brackets and spaces.
func glob(pattern, name string) bool {
	p, s := []rune(pattern), []rune(name)
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(s) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == s[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// LoopbackName is what the one interface of --discovery-loopback is called in lists, whatever the system calls its own.
const LoopbackName = "loopback"
