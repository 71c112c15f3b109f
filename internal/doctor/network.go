package doctor

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"pace-node/internal/formation"
	"pace-node/internal/wire"
)

const (
	// enoughBeacons is how many of its own a node has sent before silence around it says something.
	enoughBeacons = 2
	// enoughChallenges is how many were sent before no answer says something.
	enoughChallenges = 2
	// clockSlack is by how much clocks may differ: what a lease has for it.
	clockSlack = 30 * time.Second
)

func judgeInterfaces(f *Facts) []Finding {
	if f.Loopback {
		return []Finding{found(Notice, "beacons stay on this machine, by --discovery-loopback: only nodes of this machine find one another", "")}
	}
	if !f.Discovery {
		return []Finding{found(Notice, "discovery is off, by --discovery: no machine finds this one, and it finds others by seeds alone", "")}
	}
	if f.InterfacesErr != "" {
		return []Finding{found(Unknown, "the interfaces could not be listed: "+f.InterfacesErr, "")}
	}
	var used, virtual, passed []string
	spare := ""
	for _, i := range f.Interfaces {
		switch {
		case i.Used && i.Virtual:
			virtual = append(virtual, i.Name+" "+i.Addr.String())
		case i.Used:
			used = append(used, i.Name+" "+i.Addr.String())
		default:
			passed = append(passed, i.Name+": "+i.Why)
			if i.Up && !i.Virtual && spare == "" {
				spare = i.Name
			}
		}
	}
	switch {
	case len(used)+len(virtual) == 0:
		return []Finding{found(Problem, "no network interface can carry a beacon, which needs IPv4 with a broadcast address: "+strings.Join(passed, ", "),
			keeps(f.OS, "fleet-seed=HOST", "a seed finds the fleet without beacons; or give an interface an IPv4 address"))}
	case len(used) == 0 && spare != "":
		return []Finding{found(Problem, "beacons leave by "+strings.Join(virtual, ", ")+" alone, a bridge or adapter of containers or virtual machines, which no other machine hears: "+strings.Join(passed, ", "),
			keeps(f.OS, "discovery-interface={interface}", "once it has an IPv4 address"), spare)}
	case len(used) == 0:
		return []Finding{found(Problem, "beacons leave by "+strings.Join(virtual, ", ")+" alone, a bridge or adapter of containers or virtual machines, which no other machine hears",
			"pacectl node # see the interfaces; give the one to the other machines an IPv4 address, or name it with --discovery-interface")}
	}
	return []Finding{well("beacons leave by " + strings.Join(append(used, virtual...), ", "))}
}

// keeps is the command that gives the service a setting and starts it anew, and what to know about that.
func keeps(os, setting, about string) string {
	command := "sudo pace-node --install-service --"
	if os == "windows" {
		command = "pace-node --install-service --"
	}
	return command + setting + " # " + about + ". A node that was started by hand takes the flag itself"
}

// judgeNetmask compares where other machines' beacons go with where this machine takes its own broadcast address to be.
func judgeNetmask(f *Facts) (out []Finding) {
	var other netip.Addr
	for _, b := range f.Watch.Beacons {
		in := within(f.Interfaces, b.From)
		if in != nil && in.Broadcast == b.To || broadcasts(f.Interfaces, b.To) && in != nil {
			continue
		}
		if i, bits, ok := meant(f.Interfaces, b.From, b.To); ok {
			return []Finding{found(Problem, fmt.Sprintf("a beacon of %s went to %s, and this machine, as %s on %s, sends its own to %s: with a prefix of /%d here both would meet. One of the two netmasks is wrong", b.From, b.To, i.Addr, i.Name, i.Broadcast, bits),
				netmaskRemedy(f.OS), i.Addr.Addr().String()+"/"+strconv.Itoa(bits), i.Name, i.Addr.String(), i.Name)}
		}
		other = b.From
	}
	if f.Node != nil {
		for _, h := range f.Node.Heard {
			if within(f.Interfaces, h.From) == nil && !h.Proven && !h.From.IsLoopback() {
				return []Finding{found(Problem, "beacons of "+h.From.String()+" arrive, and no network of this machine holds that address: answers to it go another way. One of the two netmasks is wrong", showAddresses(f.OS))}
			}
		}
	}
	switch {
	case other.IsValid():
		return []Finding{found(Notice, "machines of another network share this segment, such as "+other.String()+": beacons do not reach from the one to the other", "")}
	case f.Watch.For == 0 && (f.Node == nil || len(f.Node.Heard) == 0):
		return []Finding{found(Unknown, "nobody's beacons are known to compare with: "+f.Watch.Skipped, "")}
	}
	return []Finding{well("what arrives fits the networks of this machine")}
}

// netmaskRemedies set an address with another prefix.
var netmaskRemedies = []struct{ OS, Remedy string }{
	{"linux", "sudo ip addr add {address} brd + dev {interface} && sudo ip addr del {wrong} dev {interface} # if it is this machine's that is wrong, and in its network settings too"},
	{"darwin", "networksetup -listallnetworkservices # if it is this machine's that is wrong: {address} is meant on {interface}"},
	{"windows", "Get-NetIPAddress -AddressFamily IPv4 # if it is this machine's that is wrong: {address} is meant on {interface}"},
}

func netmaskRemedy(os string) string {
	for _, r := range netmaskRemedies {
		if r.OS == os {
			return r.Remedy
		}
	}
	return ""
}

// addressLists show the addresses of a machine.
var addressLists = []struct{ OS, Remedy string }{
	{"linux", "ip -brief address # compare with the other machine's"},
	{"darwin", "ifconfig -a inet # compare with the other machine's"},
	{"windows", "Get-NetIPAddress -AddressFamily IPv4 # compare with the other machine's"},
}

func showAddresses(os string) string {
	for _, r := range addressLists {
		if r.OS == os {
			return r.Remedy
		}
	}
	return ""
}

// within is the interface whose network holds an address.
func within(all []Interface, a netip.Addr) *Interface {
	for i := range all {
		if all[i].Addr.IsValid() && all[i].Addr.Contains(a) {
			return &all[i]
		}
	}
	return nil
}

func broadcasts(all []Interface, a netip.Addr) bool {
	for _, i := range all {
		if i.Broadcast == a {
			return true
		}
	}
	return false
}

// meant finds the prefix length with which an address of this machine and another machine's would have the broadcast
// address that the other one sends to.
func meant(all []Interface, from, to netip.Addr) (on Interface, bits int, ok bool) {
	if !from.Is4() || !to.Is4() {
		return on, 0, false
	}
	for _, i := range all {
		if !i.Addr.IsValid() || !i.Addr.Addr().Is4() || !i.Used {
			continue
		}
		for bits := 30; bits >= 8; bits-- { // the narrowest of those that fit
			p, err := i.Addr.Addr().Prefix(bits)
			if err == nil && bits != i.Addr.Bits() && p.Contains(from) && last(p) == to {
				return i, bits, true
			}
		}
	}
	return on, 0, false
}

// last is the last address of a network, its broadcast address.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		b[bit/8] |= 1 << (7 - bit%8)
	}
	return netip.AddrFrom4(b)
}

// judgeSegment asks whether anybody is heard.
func judgeSegment(f *Facts) []Finding {
	n := f.Node
	seed := keeps(f.OS, "fleet-seed=HOST", "HOST is a machine of the fleet, and beacons are not needed then")
	switch {
	case f.Unreachable != "" && f.OS == "darwin" && f.GatewayAnswers:
		return []Finding{found(Problem, "what this machine sends to its own network fails as if there were no route, while its gateway answers: macOS withholds the permission for the local network, which only the daemon of root has unasked",
			"sudo pace-node --install-service # or: System Settings, Privacy and Security, Local Network: allow the program that started pace-node")}
	case f.Unreachable != "":
		return []Finding{found(Problem, "what this machine sends to its own network "+f.Unreachable+" fails, since there is no route to it", showAddresses(f.OS))}
	case n == nil:
		return []Finding{found(Unknown, "without a node nobody sends beacons here", "")}
	case f.Loopback:
		return []Finding{well("beacons stay on this machine")}
	case !f.Discovery:
		return []Finding{well("discovery is off")}
	case n.BeaconsHeard > 0:
		return []Finding{well(fmt.Sprintf("%d beacons were sent, and %d of other machines heard", n.BeaconsSent, n.BeaconsHeard))}
	case len(f.Watch.Beacons) > 0:
		return []Finding{well("beacons of other machines arrive")} // what keeps them from the node is another check's
	case n.BeaconsSent < enoughBeacons:
		return []Finding{found(Unknown, "the node has only just begun to send beacons", "")}
	}
	for _, s := range n.Sessions {
		if a, err := netip.ParseAddr(s.Address); err == nil && within(f.Interfaces, a) != nil {
			return []Finding{found(Warning, fmt.Sprintf("own beacons leave [%d so far] and none of another machine is heard, though %s, of the same network, is connected: an access point that keeps its stations apart, or a switch that filters broadcasts, swallows them", n.BeaconsSent, s.Address), seed)}
		}
	}
	return []Finding{found(Warning, fmt.Sprintf("own beacons leave [%d so far] and none of another machine is heard. Where others run on this segment, an access point that keeps its stations apart, a switch that filters broadcasts, or a firewall over there swallows them; where this machine is the first, all is well", n.BeaconsSent), seed)}
}

// judgeFirewall asks whether what arrives reaches the node, and what comes back to the answering port.
func judgeFirewall(f *Facts) []Finding {
	n, w := f.Node, &f.Watch
	if n == nil || !f.Discovery {
		return firewallNotice(f)
	}
	var dropped []Finding
	if len(w.Beacons) > 0 && n.BeaconsHeard == 0 && heardHere(f) {
		dropped = append(dropped, f.admitting(Problem, fmt.Sprintf("%d beacons of other machines arrived for UDP port %d, and none reached the node: a firewall of this machine drops them", len(w.Beacons), f.Beacons), "udp", f.Beacons))
	}
	if w.Answers > 0 && w.AnsweredThen == 0 {
		dropped = append(dropped, f.admitting(Problem, fmt.Sprintf("%d answers of other machines arrived for UDP port %d, this node's answering port, and none reached it: a firewall of this machine drops them", w.Answers, f.Answers), "udp", f.Answers))
	}
	switch {
	case dropped != nil:
		return dropped
	case n.ChallengesSent >= enoughChallenges && n.ProofsVerified == 0:
		return []Finding{f.admitting(Warning, fmt.Sprintf("%d challenges were sent and no proof came back: a firewall here does not let UDP port %d pass, this node's answering port, or one over there its own", n.ChallengesSent, f.Answers), "udp", f.Answers)}
	case n.ProofsVerified > 0:
		return []Finding{well("proofs of other machines come back")}
	}
	return firewallNotice(f)
}

// heardHere: of the beacons that arrived, at least one went where this machine listens.
func heardHere(f *Facts) bool {
	for _, b := range f.Watch.Beacons {
		if broadcasts(f.Interfaces, b.To) {
			return true
		}
	}
	return false
}

func firewallNotice(f *Facts) []Finding {
	switch {
	case f.Firewall.Kind == "":
		return []Finding{well("no firewall is known to filter here")}
	case f.Firewall.Admits:
		return []Finding{well(f.Firewall.Kind + " admits the node")}
	}
	return []Finding{f.admitting(Notice, f.Firewall.Kind+" filters here and is not known to admit the node", "", 0)}
}

// firewalls are the one command that lets the node's ports pass, by the firewall. One is the command for a single port,
// where that can be said; All for everything.
var firewalls = []struct{ Kind, One, All string }{
	{"firewalld", "sudo firewall-cmd --add-port={port}/{proto} # for good: sudo firewall-cmd --permanent --add-service=pace-node", "sudo firewall-cmd --add-service=pace-node # for good: the same with --permanent"},
	{"ufw", "sudo ufw allow {port}/{proto}", "sudo ufw allow pace-node"},
	{"nft", "sudo nft insert rule {family} {table} {chain} {proto} dport {port} accept # and in the file that is loaded at boot", "sudo nft list ruleset # /usr/share/pace-node/pace-node.nft has the rule to include"},
	{"iptables", "sudo iptables -I INPUT -p {proto} --dport {port} -j ACCEPT", "sudo iptables -L INPUT -n # admit tcp 6674 and 6680, udp 6681 and the answering port"},
	{"windows", "pace-node --install-service # as an administrator: it makes the rules again", "pace-node --install-service # as an administrator: it makes the rules again"},
	{"macos", "sudo /usr/libexec/ApplicationFirewall/socketfilterfw --add {program}", "sudo /usr/libexec/ApplicationFirewall/socketfilterfw --add {program}"},
	{"", "sudo nft list ruleset # and let {proto} port {port} pass", ""},
}

// admitting is a finding with the command of this machine's firewall.
func (f *Facts) admitting(v Verdict, detail, proto string, port uint16) Finding {
	places := map[string]string{"proto": proto, "port": strconv.Itoa(int(port)), "family": f.Firewall.Family, "table": f.Firewall.Table, "chain": f.Firewall.Chain, "program": f.Firewall.Program}
	for _, w := range firewalls {
		if w.Kind != f.Firewall.Kind {
			continue
		}
		remedy := w.One
		if port == 0 {
			remedy = w.All
		}
		out := found(v, detail, remedy)
		for rest := remedy; ; {
			_, inner, ok := strings.Cut(rest, "{")
			if !ok {
				return out
			}
			name, tail, _ := strings.Cut(inner, "}")
			out.Args, rest = append(out.Args, places[name]), tail
		}
	}
	return found(v, detail, "")
}

func judgeVersion(f *Facts) []Finding {
	for _, b := range f.Watch.Beacons {
		if b.Version != wire.DatagramVersion {
			return []Finding{found(Warning, fmt.Sprintf("%s speaks version %d of the discovery wire, and this machine version %d: they do not see one another", b.From, b.Version, wire.DatagramVersion), "pacectl node # shows this one's version; upgrade the nodes of a segment together")}
		}
	}
	if f.Node != nil && f.Node.OtherVersions > 0 {
		return []Finding{found(Notice, fmt.Sprintf("%d datagrams of another version of the discovery wire came since the start", f.Node.OtherVersions), "pacectl node # shows this one's version; upgrade the nodes of a segment together")}
	}
	return []Finding{well("everybody who is heard speaks this version of the discovery wire")}
}

// clocks show and set the clock, on each system.
var clocks = []struct{ OS, Remedy string }{
	{"linux", "timedatectl status # and: sudo timedatectl set-ntp true"},
	{"darwin", "sudo sntp -sS time.apple.com"},
	{"windows", "w32tm /resync"},
}

func setClock(os string) string {
	for _, c := range clocks {
		if c.OS == os {
			return c.Remedy
		}
	}
	return ""
}

func judgeClock(f *Facts) []Finding {
	if f.Now.Unix() < int64(formation.EarliestCreated) {
		return []Finding{found(Problem, "this machine's date is "+f.Now.UTC().Format("2006-01-02")+", before this program was made: a fleet that it founds counts as the newest", setClock(f.OS))}
	}
	if f.Node == nil {
		return []Finding{well("the date is one of this program's time; there is nobody to compare it with")}
	}
	off := 0
	var one Session
	for _, s := range f.Node.Sessions {
		if s.ClockAhead.Abs() > clockSlack {
			off, one = off+1, s
		}
	}
	switch {
	case off == 0:
		return []Finding{well("it agrees with the machines that are connected")}
	case off*2 >= len(f.Node.Sessions):
		return []Finding{found(Warning, fmt.Sprintf("this machine's clock and that of %s differ by %s", one.Address, one.ClockAhead.Abs().Truncate(time.Second)), setClock(f.OS))}
	}
	return []Finding{found(Notice, fmt.Sprintf("the clock of %s differs by %s from this one, which agrees with the others", one.Address, one.ClockAhead.Abs().Truncate(time.Second)), "")}
}

func judgeNames(f *Facts) []Finding {
	switch {
	case f.Suffix == "":
		return []Finding{well("this machine has no DNS suffix, so nobody is asked for seeds")}
	case f.SRVErr != "":
		return []Finding{found(Warning, "DNS does not answer for _pace._tcp."+f.Suffix+": "+f.SRVErr, "pacectl node # shows what the node found; look at the name servers of this machine, or give --fleet-seed")}
	}
	return []Finding{well("DNS answers for _pace._tcp." + f.Suffix)}
}

func judgeSeeds(f *Facts) (out []Finding) {
	v := Problem
	if n := f.Node; n != nil && (n.Asks != "" || n.Members > 1 && n.Leader) {
		v = Warning // it has found its fleet without it
	}
	for _, s := range f.Seeds {
		if s.Err != "" && !s.Self {
			out = append(out, found(v, "the seed "+s.Endpoint+" ["+s.Origin+"] does not answer: "+s.Err, "pacectl doctor {host} # here, and pacectl doctor on that machine", s.Endpoint))
		}
	}
	if out == nil && len(f.Seeds) == 0 {
		return []Finding{well("none is given")}
	}
	if out == nil {
		return []Finding{well("every seed answers")}
	}
	return out
}

func judgeNAT(f *Facts) []Finding {
	if f.Node == nil {
		return []Finding{found(Unknown, "without a node nobody tells how this machine is seen", "")}
	}
	told := false
	for _, s := range f.Node.Sessions {
		a, err := netip.ParseAddr(s.Seen)
		if err != nil || a.IsLoopback() {
			continue
		}
		told = true
		own := false
		for _, i := range f.Interfaces {
			own = own || i.Addr.Addr() == a
		}
		if !own && forwarded(f.Node.Advertised, a) {
			return []Finding{well("this machine is behind address translation, and advertises where it can be reached, " + f.Node.Advertised + ", whose port has to be forwarded to it")}
		}
		if !own {
			return []Finding{found(Warning, "this machine is behind address translation: "+s.Address+" sees it as "+a.String()+", which is no address of its own. It works as a learner, which connects by itself; nobody reaches it by what it advertises",
				keeps(f.OS, "advertise={address}:6674", "and forward tcp 6674 there to this machine, and 6680 before it votes"), a.String())}
		}
	}
	if !told {
		return []Finding{well("nobody says that it sees this machine under another address")}
	}
	return []Finding{well("other machines see it under an address of its own")}
}

// forwarded says whether an endpoint that is advertised is where this machine is seen, or a name, which somebody typed for that.
func forwarded(endpoint string, seen netip.Addr) bool {
	at, err := netip.ParseAddrPort(endpoint)
	return endpoint != "" && (err != nil || at.Addr() == seen)
}

func judgePin(f *Facts) []Finding {
	n := f.Node
	if n == nil || n.Pin == "" {
		return []Finding{well("none is set")}
	}
	var refused []string
	for _, g := range n.Foreign {
		if g.Admitted {
			return []Finding{well("it admits a fleet that is heard")}
		}
		refused = append(refused, g.Cluster+" ["+g.State+", at "+g.Address+"]")
	}
	const remedy = "pacectl node # on a machine of the fleet that is meant: its line fleet-id is the pin to set here"
	switch {
	case n.Members > 1:
		return []Finding{well("it is set, and this machine is in its fleet")}
	case len(refused) > 0:
		return []Finding{found(Problem, "the pin of --fleet-id admits none of the fleets that are heard here: "+strings.Join(refused, ", "), remedy)}
	case n.PinRefusals > 0:
		return []Finding{found(Problem, fmt.Sprintf("the pin of --fleet-id refused every way into a fleet that was found, %d so far", n.PinRefusals), remedy)}
	}
	return []Finding{well("it is set, and no fleet that it refuses is heard")}
}

func judgeVoters(f *Facts) []Finding {
	n := f.Node
	if n == nil {
		return []Finding{found(Unknown, "without a node nothing is known of the fleet", "")}
	}
	if majority := n.VotersTotal/2 + 1; n.Mode == "voter" && !n.Leader && n.VotersHeard < majority {
		return []Finding{found(Problem, fmt.Sprintf("%d of %d voters answer, and %d are needed: nothing can be decided. Bring the others back; where they are lost for good, this machine can become the only voter", n.VotersHeard, n.VotersTotal, majority), "pacectl fleet recover")}
	}
	if n.VotersTotal == 0 {
		return []Finding{well("none is known yet")}
	}
	return []Finding{well(fmt.Sprintf("%d of %d voters answer", n.VotersHeard, n.VotersTotal))}
}

func judgeFleet(f *Facts) []Finding {
	n := f.Node
	switch {
	case n == nil:
		return []Finding{found(Unknown, "without a node nothing is known of the fleet", "")}
	case n.Asks != "":
		return []Finding{found(Notice, "this machine waits at "+n.Asks+" until a person approves it", "pacectl enroll list # on a voter of that fleet")}
	}
	return []Finding{well(fmt.Sprintf("%d members", n.Members))}
}

func judgeProvisioning(f *Facts) []Finding {
	if f.Node == nil {
		return []Finding{found(Unknown, "without a node nothing is known of the queue", "")}
	}
	return []Finding{well("nothing is reported")}
}
