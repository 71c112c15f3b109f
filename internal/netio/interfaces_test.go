package netio

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func addrs(list ...string) []InterfaceAddr {
	var out []InterfaceAddr
	for _, s := range list {
		s, secondary := strings.CutSuffix(s, " secondary")
		out = append(out, InterfaceAddr{Prefix: netip.MustParsePrefix(s), Secondary: secondary})
	}
	return out
}

func card(index int, name string, list ...string) Interface {
	return Interface{Index: index, Name: name, Up: true, Broadcast: true, Addrs: addrs(list...)}
}

var lo = Interface{Index: 1, Name: "lo", Up: true, Loopback: true, Addrs: addrs("127.0.0.1/8", "::1/128")}

func tunnel(index int, name string, list ...string) Interface {
	return Interface{Index: index, Name: name, Up: true, PointToPoint: true, Addrs: addrs(list...)}
}

// brief writes a choice as "name prefix>broadcast" or "name prefix -reason".
func brief(c InterfaceChoice) string {
	s := c.Name
	if c.Addr.IsValid() {
		s += " " + c.Addr.String()
	}
	if c.Used {
		return s + ">" + c.Broadcast.String()
	}
	return s + " -" + passNames[c.Pass]
}

var passNames = map[Pass]string{
	PassNot: "used", PassDown: "down", PassLoopback: "loopback", PassPointToPoint: "ptp", PassNoBroadcast: "nobroadcast",
	PassRuleExcludes: "excluded", PassRuleOmits: "omitted", PassExactAddress: "exact", PassNoIPv4: "noipv4", PassIPv6: "ipv6",
	PassPrefix: "prefix", PassSameSubnet: "subnet", PassVirtual: "virtual",
}

// interfaceCases are written from the discovery wire's "Two sockets" and from field reports of other programs.
var interfaceCases = []struct {
	name      string
	list      []Interface
	routes    []Route
	rules     InterfaceRules
	want      []string
	advertise string // empty: none
}{
	{
		name:   "container bridges beside the real card",
		list:   []Interface{lo, card(2, "eth0", "10.1.0.2/24"), card(3, "docker0", "172.17.0.1/16"), card(4, "virbr0", "192.168.122.1/24")},
		routes: []Route{{Interface: "eth0", Metric: 100}},
		want: []string{
			"lo 127.0.0.1/8 -loopback", "lo ::1/128 -loopback", "eth0 10.1.0.2/24>10.1.0.255",
			"docker0 172.17.0.1/16 -virtual", "virbr0 192.168.122.1/24 -virtual",
		},
		advertise: "10.1.0.2",
	},
	{
		name:      "a VPN beside the default route",
		list:      []Interface{tunnel(2, "tun0", "10.8.0.2/32"), card(3, "eth0", "10.1.0.2/24")},
		routes:    []Route{{Interface: "tun0", Metric: 0}, {Interface: "eth0", Metric: 100}},
		want:      []string{"tun0 10.8.0.2/32 -ptp", "eth0 10.1.0.2/24>10.1.0.255"},
		advertise: "10.1.0.2",
	},
	{
		name:      "a VPN that took the default route",
		list:      []Interface{tunnel(2, "tun0", "10.8.0.2/24"), card(3, "eth0", "10.1.0.2/24")},
		routes:    []Route{{Interface: "tun0", Metric: 0}},
		want:      []string{"tun0 10.8.0.2/24 -ptp", "eth0 10.1.0.2/24>10.1.0.255"},
		advertise: "10.1.0.2",
	},
	{
		name:      "two segments, the default route on the second",
		list:      []Interface{card(2, "eth0", "10.2.0.9/24"), card(3, "eth1", "10.1.0.9/24")},
		routes:    []Route{{Interface: "eth1"}},
		want:      []string{"eth0 10.2.0.9/24>10.2.0.255", "eth1 10.1.0.9/24>10.1.0.255"},
		advertise: "10.1.0.9",
	},
	{
		name:      "no default route",
		list:      []Interface{card(2, "eth0", "10.2.0.9/24"), card(3, "eth1", "10.1.0.9/24")},
		want:      []string{"eth0 10.2.0.9/24>10.2.0.255", "eth1 10.1.0.9/24>10.1.0.255"},
		advertise: "10.2.0.9",
	},
	{
		name: "other prefixes than /24, hosts ending in 0 and 255",
		list: []Interface{
			card(2, "a", "10.5.0.130/25"), card(3, "b", "10.6.17.4/20"), card(4, "c", "10.7.1.255/16"), card(5, "d", "10.7.2.0/16"),
			card(6, "e", "10.8.0.1/30"), card(7, "f", "10.9.0.0/31"), card(8, "g", "10.9.0.9/32"),
		},
		want: []string{
			"a 10.5.0.130/25>10.5.0.255", "b 10.6.17.4/20>10.6.31.255", "c 10.7.1.255/16>10.7.255.255",
			"d 10.7.2.0/16>10.7.255.255", "e 10.8.0.1/30>10.8.0.3", "f 10.9.0.0/31 -prefix", "g 10.9.0.9/32 -prefix",
		},
		advertise: "10.5.0.130",
	},
	{
		name:      "IPv6 only",
		list:      []Interface{lo, card(2, "eth0", "fd00:1::2/64", "fe80::1/64")},
		routes:    []Route{{Interface: "eth0", Metric: 1024, IPv6: true}},
		want:      []string{"lo 127.0.0.1/8 -loopback", "lo ::1/128 -loopback", "eth0 fd00:1::2/64 -ipv6", "eth0 fe80::1/64 -ipv6"},
		advertise: "fd00:1::2",
	},
	{
		name:   "nothing but loopback",
		list:   []Interface{lo},
		want:   []string{"lo 127.0.0.1/8 -loopback", "lo ::1/128 -loopback"},
		routes: []Route{{Interface: "lo", IPv6: true}},
	},
	{
		name:      "virtual adapters of Windows with lower metrics",
		list:      []Interface{card(10, "vEthernet (WSL)", "172.28.0.1/20"), card(11, "VirtualBox Host-Only Network", "192.168.56.1/24"), card(12, "Ethernet", "192.168.1.20/24")},
		routes:    []Route{{Interface: "Ethernet", Metric: 25}},
		want:      []string{"vEthernet (WSL) 172.28.0.1/20 -virtual", "VirtualBox Host-Only Network 192.168.56.1/24>192.168.56.255", "Ethernet 192.168.1.20/24>192.168.1.255"},
		advertise: "192.168.1.20",
	},
	{
		name:      "an external Hyper-V switch holds the address",
		list:      []Interface{card(10, "vEthernet (WSL)", "172.28.0.1/20"), card(11, "VirtualBox Host-Only Network", "192.168.56.1/24"), card(12, "Ethernet"), card(13, "vEthernet (LAN)", "192.168.1.20/24")},
		routes:    []Route{{Interface: "vEthernet (LAN)", Metric: 25}},
		want:      []string{"vEthernet (WSL) 172.28.0.1/20 -virtual", "VirtualBox Host-Only Network 192.168.56.1/24>192.168.56.255", "Ethernet -noipv4", "vEthernet (LAN) 192.168.1.20/24>192.168.1.255"},
		advertise: "192.168.1.20",
	},
	{
		name:      "the last one left keeps its place",
		list:      []Interface{card(2, "docker0", "172.17.0.1/16"), card(3, "br-1234", "172.18.0.1/16"), card(4, "virbr0", "192.168.122.1/24")},
		want:      []string{"docker0 172.17.0.1/16 -virtual", "br-1234 172.18.0.1/16 -virtual", "virbr0 192.168.122.1/24>192.168.122.255"},
		advertise: "192.168.122.1",
	},
	{
		name:      "the default route outweighs the name",
		list:      []Interface{card(2, "br-lan", "10.1.0.2/24"), card(3, "eth1", "10.2.0.2/24")},
		routes:    []Route{{Interface: "br-lan"}},
		want:      []string{"br-lan 10.1.0.2/24>10.1.0.255", "eth1 10.2.0.2/24>10.2.0.255"},
		advertise: "10.1.0.2",
	},
	{
		name:      "a host with nothing but pairs",
		list:      []Interface{card(2, "veth-a", "10.1.0.2/24"), card(3, "veth-b", "10.2.0.2/24"), card(4, "docker0", "172.17.0.1/16")},
		want:      []string{"veth-a 10.1.0.2/24>10.1.0.255", "veth-b 10.2.0.2/24>10.2.0.255", "docker0 172.17.0.1/16 -virtual"},
		advertise: "10.1.0.2",
	},
	{
		name:      "pairs on a host that has others",
		list:      []Interface{card(2, "veth1", "10.1.0.2/24"), card(3, "eth0", "10.2.0.2/24")},
		want:      []string{"veth1 10.1.0.2/24 -virtual", "eth0 10.2.0.2/24>10.2.0.255"},
		advertise: "10.2.0.2",
	},
	{
		name:      "one beacon a subnet, secondary addresses last",
		list:      []Interface{card(2, "eth0", "10.1.0.6/24 secondary", "10.1.0.5/24", "10.3.0.5/24", "10.1.0.7/24")},
		want:      []string{"eth0 10.1.0.5/24>10.1.0.255", "eth0 10.3.0.5/24>10.3.0.255", "eth0 10.1.0.7/24 -subnet", "eth0 10.1.0.6/24 -subnet"},
		advertise: "10.1.0.5",
	},
	{
		name: "down, and without broadcasts",
		list: []Interface{
			{Index: 2, Name: "eth0", Broadcast: true, Addrs: addrs("10.1.0.2/24")},
			{Index: 3, Name: "ib0", Up: true, Addrs: addrs("10.2.0.2/24")},
			card(4, "eth1"),
		},
		want:      []string{"eth0 10.1.0.2/24 -down", "ib0 10.2.0.2/24 -nobroadcast", "eth1 -noipv4"},
		advertise: "10.2.0.2",
	},
	{
		name:      "a cloud machine with a /32",
		list:      []Interface{card(2, "ens4", "10.128.0.3/32"), card(3, "docker0")},
		routes:    []Route{{Interface: "ens4"}},
		want:      []string{"ens4 10.128.0.3/32 -prefix", "docker0 -noipv4"},
		advertise: "10.128.0.3",
	},
	{
		name:      "named by the operator",
		list:      []Interface{card(2, "eth0", "10.1.0.2/24"), card(3, "docker0", "172.17.0.1/16"), card(4, "docker1", "172.18.0.1/16")},
		routes:    []Route{{Interface: "eth0"}},
		rules:     InterfaceRules{Include: []string{"docker*", "!docker1"}},
		want:      []string{"eth0 10.1.0.2/24 -omitted", "docker0 172.17.0.1/16>172.17.255.255", "docker1 172.18.0.1/16 -excluded"},
		advertise: "172.17.0.1",
	},
	{
		name:      "left out by the operator, the defaults stay",
		list:      []Interface{card(2, "eth0", "10.1.0.2/24"), card(3, "eth1", "10.2.0.2/24"), card(4, "docker0", "172.17.0.1/16")},
		routes:    []Route{{Interface: "eth0"}},
		rules:     InterfaceRules{Include: []string{"!eth0"}},
		want:      []string{"eth0 10.1.0.2/24 -excluded", "eth1 10.2.0.2/24>10.2.0.255", "docker0 172.17.0.1/16 -virtual"},
		advertise: "10.2.0.2",
	},
	{
		name:      "one address by --discovery",
		list:      []Interface{card(2, "eth0", "10.1.0.2/24"), card(3, "docker0", "172.17.0.1/16")},
		routes:    []Route{{Interface: "eth0"}},
		rules:     InterfaceRules{Exact: netip.MustParseAddr("172.17.0.1")},
		want:      []string{"eth0 10.1.0.2/24 -exact", "docker0 172.17.0.1/16>172.17.255.255"},
		advertise: "172.17.0.1",
	},
	{
		name:      "loopback mode",
		list:      []Interface{card(2, "eth0", "10.1.0.2/24")},
		routes:    []Route{{Interface: "eth0"}},
		rules:     InterfaceRules{Loopback: true},
		want:      []string{"loopback 127.0.0.1/8>127.255.255.255"},
		advertise: "127.0.0.1",
	},
}

func checkInterfaces() error {
	for _, c := range interfaceCases {
		route := DefaultRouteInterface(c.list, c.routes)
		choices := ChooseInterfaces(c.list, c.rules, route)
		var got []string
		for _, ch := range choices {
			got = append(got, brief(ch))
		}
		if d := cmp.Diff(c.want, got); d != "" {
			return fmt.Errorf("%s (-want +got):\n%s", c.name, d)
		}
		told := ""
		if a, ok := AdvertiseAddress(choices, route); ok {
			told = a.String()
		}
		if told != c.advertise {
			return fmt.Errorf("%s: advertises %q, want %q", c.name, told, c.advertise)
		}
	}
	return nil
}

func TestChooseInterfaces(t *testing.T) {
	if err := checkInterfaces(); err != nil {
		t.Fatal(err)
	}
}

// mutate changes one row at a time, expects check to notice, and restores.
func mutate[T any](t *testing.T, table []T, change func(row *T), check func() error) {
	t.Helper()
	for i := range table {
		was := table[i]
		change(&table[i])
		if err := check(); err == nil {
			t.Errorf("row %d can be changed unnoticed: %v", i, was)
		}
		table[i] = was
	}
	if err := check(); err != nil {
		t.Fatalf("after restoring: %v", err)
	}
}

func TestMutationInterfaces(t *testing.T) {
	never := func(*Interface, *InterfaceRules) bool { return false }
	mutate(t, interfaceChecks, func(r *struct {
		Pass  Pass
		Holds func(i *Interface, r *InterfaceRules) bool
	}) {
		r.Holds = never
	}, checkInterfaces)
	mutate(t, addressChecks, func(r *struct {
		Pass  Pass
		Holds func(a *InterfaceAddr, r *InterfaceRules, before []InterfaceChoice) bool
	}) {
		r.Holds = func(*InterfaceAddr, *InterfaceRules, []InterfaceChoice) bool { return false }
	}, checkInterfaces)
	mutate(t, VirtualNames, func(r *VirtualName) { r.Glob = "none" }, checkInterfaces)
	mutate(t, VirtualNames[4:], func(r *VirtualName) { r.UnlessAlone = false }, checkInterfaces)
	mutate(t, advertiseOrder[:3], func(r *struct {
		About string
		Fits  func(c *InterfaceChoice, defaultRoute string) bool
	}) {
		r.Fits = func(*InterfaceChoice, string) bool { return false }
	}, checkAdvertise)
	mutate(t, advertiseOrder[3:], func(r *struct {
		About string
		Fits  func(c *InterfaceChoice, defaultRoute string) bool
	}) {
		r.Fits = func(*InterfaceChoice, string) bool { return false }
	}, checkAdvertise)
}

// checkAdvertise has one case for each row of the order, in which the rows after it would answer differently.
func checkAdvertise() error {
	used := func(name, a string) InterfaceChoice {
		return InterfaceChoice{Name: name, Addr: netip.MustParsePrefix(a), Used: true, Reachable: true}
	}
	idle := func(name, a string) InterfaceChoice {
		return InterfaceChoice{Name: name, Addr: netip.MustParsePrefix(a), Reachable: true}
	}
	unreachable := InterfaceChoice{Name: "tun0", Addr: netip.MustParsePrefix("10.8.0.1/32")}
	for _, c := range []struct {
		choices []InterfaceChoice
		want    string
	}{
		{[]InterfaceChoice{used("eth1", "10.2.0.1/24"), used("eth0", "10.1.0.1/24")}, "10.1.0.1"},
		{[]InterfaceChoice{idle("eth0", "10.3.0.1/32"), used("eth1", "10.2.0.1/24"), used("eth2", "10.4.0.1/24")}, "10.2.0.1"},
		{[]InterfaceChoice{idle("eth1", "10.5.0.1/32"), idle("eth0", "fd00::1/64"), idle("eth0", "10.3.0.1/32")}, "10.3.0.1"},
		{[]InterfaceChoice{idle("eth0", "fd00::1/64"), idle("eth1", "10.5.0.1/32")}, "10.5.0.1"},
		{[]InterfaceChoice{unreachable, idle("eth1", "fd00::2/64"), idle("eth0", "fd00::1/64")}, "fd00::1"},
		{[]InterfaceChoice{unreachable, idle("eth1", "fd00::2/64")}, "fd00::2"},
		{[]InterfaceChoice{unreachable}, "invalid IP"},
	} {
		if got, _ := AdvertiseAddress(c.choices, "eth0"); got.String() != c.want {
			return fmt.Errorf("%v: advertises %s, want %s", c.choices, got, c.want)
		}
	}
	return nil
}

func TestAdvertiseOrder(t *testing.T) {
	if err := checkAdvertise(); err != nil {
		t.Fatal(err)
	}
}

// TestInterfaceCheckOrder: an interface that fails a check and all later ones is passed over for the earlier.
func TestInterfaceCheckOrder(t *testing.T) {
	i := Interface{Name: "x", Loopback: true, PointToPoint: true, Addrs: addrs("10.0.0.1/24")}
	rules := InterfaceRules{Include: []string{"!x", "y"}}
	mend := []func(){
		func() { i.Up = true }, func() { i.Loopback = false }, func() { i.PointToPoint = false }, func() { i.Broadcast = true },
		func() { rules.Include = []string{"y"} }, func() { rules.Include = nil },
	}
	for n, want := range []Pass{PassDown, PassLoopback, PassPointToPoint, PassNoBroadcast, PassRuleExcludes, PassRuleOmits} {
		if got := passInterface(&i, rules); got != want {
			t.Errorf("step %d: %s, want %s", n, got, want)
		}
		mend[n]()
	}
	if got := passInterface(&i, rules); got != PassNot {
		t.Errorf("mended: %s", got)
	}
	before := []InterfaceChoice{{Addr: netip.MustParsePrefix("10.0.0.9/32"), Pass: PassNot}}
	exact := InterfaceRules{Exact: netip.MustParseAddr("10.0.0.8")}
	for _, c := range []struct {
		a     string
		rules InterfaceRules
		want  Pass
	}{
		{"fd00::1/128", exact, PassIPv6}, {"10.0.0.9/32", exact, PassExactAddress}, {"10.0.0.9/32", InterfaceRules{}, PassPrefix},
	} {
		if got := passAddress(addrs(c.a)[0], c.rules, before); got != c.want {
			t.Errorf("%s: %s, want %s", c.a, got, c.want)
		}
	}
}

func TestInterfaceRules(t *testing.T) {
	for _, bad := range []string{"", "!"} {
		if err := ParseInterfaceRule(bad); !errors.Is(err, ErrRule) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"eth0", "eth0", true}, {"eth0", "ETH0", true}, {"eth0", "eth01", false}, {"eth*", "eth", true}, {"*", "", true},
		{"e?h0", "eth0", true}, {"e?h0", "eh0", false}, {"*0", "eth0", true}, {"*h*0", "eth10", true}, {"v* (WSL)", "vEthernet (WSL)", true},
		{"[a]", "a", false}, {"[a]", "[a]", true}, {"a*b*c", "aXbYbZc", true}, {"a*b*c", "aXbYbZ", false}, {"?", "ä", true},
	} {
		if got := folded(c.pattern, c.name); got != c.want {
			t.Errorf("glob(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}

func TestBroadcastSetByHand(t *testing.T) {
	list := []Interface{card(2, "eth0", "10.1.0.2/24")}
	for set, want := range map[string]string{"10.1.0.127": "10.1.0.127", "10.1.0.0": "10.1.0.0", "255.255.255.255": "10.1.0.255", "10.1.0.2": "10.1.0.255"} {
		list[0].Addrs[0].Broadcast = netip.MustParseAddr(set)
		if got := ChooseInterfaces(list, InterfaceRules{}, "")[0].Broadcast.String(); got != want {
			t.Errorf("set to %s: %s, want %s", set, got, want)
		}
	}
}

// TestBroadcastProperty: the broadcast worked out lies in the prefix, is its last address, and no address outside it.
func TestBroadcastProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address")
		bits := rapid.IntRange(1, 30).Draw(t, "bits")
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte(b)), bits)
		got := broadcastOf(InterfaceAddr{Prefix: p})
		if !p.Contains(got) || p.Contains(got.Next()) {
			t.Fatalf("%s: %s", p, got)
		}
	})
}

func TestLocalFor(t *testing.T) {
	choices := ChooseInterfaces([]Interface{
		card(2, "eth0", "10.1.0.5/24", "10.1.0.6/24", "10.3.0.5/24"), card(3, "eth1", "10.1.0.7/24"), tunnel(4, "tun0", "10.8.0.2/32"),
	}, InterfaceRules{}, "")
	for _, c := range []struct {
		about     string
		index     int
		dst, from string
		want      string
	}{
		{"to one address of many", 2, "10.1.0.6", "10.1.0.9", "10.1.0.6"},
		{"to a broadcast, by the interface", 2, "10.1.0.255", "10.1.0.9", "10.1.0.5"},
		{"the same subnet on another interface", 3, "10.1.0.255", "10.1.0.9", "10.1.0.7"},
		{"another subnet of the interface", 2, "10.3.0.255", "10.3.0.9", "10.3.0.5"},
		{"from nowhere near, by the interface", 2, "255.255.255.255", "192.168.0.1", "10.1.0.5"},
		{"no packet info, by the subnet", 0, "", "10.3.0.9", "10.3.0.5"},
		{"no packet info, from nowhere near", 0, "", "192.168.0.1", "invalid IP"},
		{"an interface that is not used", 4, "255.255.255.255", "10.8.0.1", "invalid IP"},
	} {
		dst, _ := netip.ParseAddr(c.dst)
		if got := localFor(choices, c.index, dst, netip.MustParseAddr(c.from)); got.String() != c.want {
			t.Errorf("%s: %s, want %s", c.about, got, c.want)
		}
	}
}

func TestDefaultRouteInterface(t *testing.T) {
	list := []Interface{card(2, "eth0", "10.1.0.2/24"), card(3, "wlan0", "10.2.0.2/24"), tunnel(4, "tun0", "10.8.0.2/32"), card(5, "idle0"), {Index: 6, Name: "down0", Broadcast: true, Addrs: addrs("10.9.0.1/24")}}
	for _, c := range []struct {
		routes []Route
		want   string
	}{
		{nil, ""},
		{[]Route{{Interface: "eth0", Metric: 600}, {Interface: "wlan0", Metric: 100}}, "wlan0"},
		{[]Route{{Interface: "eth0", Metric: 5}, {Interface: "wlan0", Metric: 1, IPv6: true}}, "eth0"},
		{[]Route{{Interface: "wlan0", Metric: 1, IPv6: true}}, "wlan0"},
		{[]Route{{Interface: "tun0"}, {Interface: "idle0"}, {Interface: "down0"}, {Interface: "gone0"}}, ""},
	} {
		if got := DefaultRouteInterface(list, c.routes); got != c.want {
			t.Errorf("%v: %q, want %q", c.routes, got, c.want)
		}
	}
}

func TestParseProcRoutes(t *testing.T) {
	v4 := "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
		"tun0\t00000000\t0100080A\t0003\t0\t0\t50\t00000000\t0\t0\t0\n" +
		"eth0\t00000000\t0100010A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n" +
		"eth0\t0000010A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n" +
		"tun0\t00000000\t0100080A\t0003\t0\t0\t0\t00000080\t0\t0\t0\n" +
		"eth1\t00000000\t00000000\t0200\t0\t0\t0\t00000000\t0\t0\t0\n" + "short line\n"
	if d := cmp.Diff([]Route{{Interface: "tun0", Metric: 50}, {Interface: "eth0", Metric: 100}}, parseProcRoute(v4)); d != "" {
		t.Errorf("IPv4 (-want +got):\n%s", d)
	}
	zero := strings.Repeat("0", 32)
	v6 := zero + " 00 " + zero + " 00 fe800000000000000000000000000001 00000400 00000001 00000000 00450003 eth0\n" +
		zero + " 00 " + zero + " 00 " + zero + " ffffffff 00000001 00000000 00200200 lo\n" +
		"fd000001000000000000000000000000 40 " + zero + " 00 " + zero + " 00000100 00000001 00000000 00000001 eth0\n"
	if d := cmp.Diff([]Route{{Interface: "eth0", Metric: 1024, IPv6: true}}, parseProcIPv6Route(v6)); d != "" {
		t.Errorf("IPv6 (-want +got):\n%s", d)
	}
}

func FuzzParseProcRoutes(f *testing.F) {
	f.Add("eth0\t00000000\t0100010A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range append(parseProcRoute(text), parseProcIPv6Route(text)...) {
			if r.Interface == "" {
				t.Fatal("a route without an interface")
			}
		}
	})
}

func TestListInterfaces(t *testing.T) {
	list, err := ListInterfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		if i.Loopback {
			if i.Name == "" || i.Index == 0 {
				t.Errorf("loopback without a name or number: %+v", i)
			}
			return
		}
	}
	t.Errorf("no loopback interface in %+v", list)
}

func TestChoiceText(t *testing.T) {
	got := ChooseInterfaces([]Interface{card(2, "eth0", "10.1.0.2/24"), card(3, "vEthernet (WSL)", "172.28.0.1/20"), card(4, "a\nb")}, InterfaceRules{}, "")
	want := []string{
		"eth0 10.1.0.2/24: used, beacons to 10.1.0.255",
		`"vEthernet (WSL)" 172.28.0.1/20: a bridge or adapter of containers or virtual machines; --discovery-interface=<name> uses it`,
		`"a\nb": it has no IPv4 address, and beacons need one; --fleet-seed works without`,
	}
	for i := range want {
		if got[i].String() != want[i] {
			t.Errorf("%s\nwant %s", got[i], want[i])
		}
	}
}
