package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// healthy are the facts of a machine on which nothing is wrong: every check is well on it.
func healthy() Facts {
	return Facts{
		OS:  "linux",
		Now: time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC),
		Node: &Node{
			Mode: "voter", Name: "alder", Version: "1.0.0", Leader: true, Leads: true, VotersHeard: 3, VotersTotal: 3, Members: 5,
			BeaconsSent: 9, BeaconsHeard: 30, ChallengesSent: 4, ProofsVerified: 4, Authenticated: 2,
			Heard:    []Heard{{From: addr("10.1.0.3"), Proven: true}},
			Sessions: []Session{{ID: "birch", Address: "10.1.0.3", Seen: "10.1.0.2", ClockAhead: time.Second}},
		},
		State:     State{Path: "/var/lib/pace-node", Free: 1 << 30, Size: 4 << 30},
		Discovery: true, Beacons: 6681, Answers: 6682,
		Interfaces: []Interface{card("eth0", "10.1.0.2/16", "10.1.255.255"), {Name: "lo", Addr: netip.MustParsePrefix("127.0.0.1/8"), Why: "loopback"}},
		Firewall:   Firewall{Kind: "nft", Family: "inet", Table: "filter", Chain: "input"},
	}
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// card is an interface that carries beacons.
func card(name, prefix, broadcast string) Interface {
	return Interface{Name: name, Addr: netip.MustParsePrefix(prefix), Broadcast: addr(broadcast), Used: true}
}

// unheard is a machine that nobody has been heard of yet, watched for a beacon's period.
func unheard(f *Facts) {
	f.Node.BeaconsHeard, f.Node.ChallengesSent, f.Node.ProofsVerified, f.Node.Heard, f.Node.Authenticated, f.Node.Sessions = 0, 0, 0, nil, 0, nil
	f.Watch.For = 17 * time.Second
}

func arrives(from, to string) Arrival { return Arrival{From: addr(from), To: addr(to), Version: 3} }

// cell is one row of what is expected: what is wrong on a machine that is healthy else, and what is then found.
type cell struct {
	what    string
	change  func(f *Facts)
	check   string
	verdict Verdict
	says    string // part of the detail
	remedy  string // part of the remedy
}

func raise(id, severity string) func(f *Facts) {
	return func(f *Facts) {
		f.Node.Conditions = append(f.Node.Conditions, Condition{ID: id, Severity: severity, Detail: "as it is", Remedy: "mend it"})
	}
}

var cells = []cell{
	{"the service is stopped", func(f *Facts) {
		f.Node, f.Silent = nil, Silent{Service: "pace-node", Start: "sudo systemctl start pace-node", Err: "no socket"}
	}, "node", Problem, "does not run", "sudo systemctl start pace-node"},
	{"the service runs and is silent", func(f *Facts) {
		f.Node, f.Silent = nil, Silent{Service: "pace-node", Running: true, Log: "journalctl -u pace-node", Err: "no socket"}
	}, "node", Problem, "does not answer", "journalctl -u pace-node"},
	{"no service and no node", func(f *Facts) { f.Node, f.Silent = nil, Silent{Err: "no socket"} }, "node", Problem, "no service", "--install-service"},
	{"the node does not talk to this account", func(f *Facts) { f.Node, f.Silent = nil, Silent{Forbidden: true, Err: "permission denied"} }, "node", Unknown, "this account", "sudo pacectl doctor"},
	{"the state directory is another's", func(f *Facts) { f.State.Refused, f.State.Remedy = "it belongs to user 7", "chown -R 0 /s" }, "state-directory", Problem, "user 7", "chown"},
	{"the state directory cannot be looked at", func(f *Facts) { f.State.Unknown = "permission denied" }, "state-directory", Unknown, "permission denied", "sudo pacectl doctor"},
	{"the state directory is gone", raise("state-dir-lost", "alert"), "state-directory", Problem, "as it is", "mend it"},
	{"a move cannot be written", raise("formation-move-refused", "alert"), "state-directory", Problem, "as it is", "mend it"},
	{"the disk is nearly full", func(f *Facts) { f.State.Free, f.State.Low = 12<<20, true }, "disk", Problem, "12 MiB of 4096 MiB", "df -h {folder}"},
	{"the node says that the disk is nearly full", raise("state-dir-nearly-full", "warning"), "disk", Warning, "as it is", "mend it"},
	{"the store cannot be written", raise("consensus-store-unwritable", "alert"), "disk", Problem, "as it is", "mend it"},
	{"the system does not tell of the disk", func(f *Facts) { f.State.Size = 0 }, "disk", Unknown, "does not tell", ""},
	{"a port is taken", func(f *Facts) {
		f.Node, f.Ports = nil, []Port{{Surface: "node", Proto: "tcp", Number: 6674, Flag: "listen", Taken: true, Holder: "nc, process 7"}}
	}, "ports", Problem, "tcp port 6674 (node, --listen) is taken by nc, process 7", "ss -ltnp"},
	{"a port is taken by nobody knows whom", func(f *Facts) {
		f.Node, f.Ports = nil, []Port{{Surface: "discovery-reply", Proto: "udp", Number: 6682, Flag: "discovery-reply-port", Taken: true}}
	}, "ports", Problem, "udp port 6682", "ss -lunp"},
	{"an address cannot be bound", func(f *Facts) {
		f.Node, f.Ports = nil, []Port{{Surface: "node", Proto: "tcp", Number: 6674, Flag: "listen", Err: "cannot assign requested address"}}
	}, "ports", Problem, "cannot assign", "--listen"},
	{"no interface can carry a beacon", func(f *Facts) {
		f.Interfaces = []Interface{{Name: "eth0", Up: true, Why: "it has no IPv4 address"}}
	}, "interfaces", Problem, "eth0: it has no IPv4 address", "--fleet-seed"},
	{"the node says so", raise("discovery-no-interface", "warning"), "interfaces", Problem, "as it is", "mend it"},
	{"a container bridge is chosen", func(f *Facts) {
		f.Interfaces = []Interface{{Name: "docker0", Addr: netip.MustParsePrefix("172.17.0.1/16"), Used: true, Virtual: true}, {Name: "eth0", Up: true, Why: "it has no IPv4 address"}}
	}, "interfaces", Problem, "docker0 172.17.0.1/16 alone", "--discovery-interface={interface}"},
	{"a container bridge is all there is", func(f *Facts) {
		f.Interfaces = []Interface{{Name: "docker0", Addr: netip.MustParsePrefix("172.17.0.1/16"), Used: true, Virtual: true}}
	}, "interfaces", Problem, "docker0", "pacectl node"},
	{"discovery is off", func(f *Facts) { f.Discovery = false }, "interfaces", Notice, "--discovery", ""},
	{"beacons stay on this machine", func(f *Facts) { f.Loopback, f.Discovery = true, false }, "interfaces", Notice, "--discovery-loopback", ""},
	{"the interfaces cannot be listed", func(f *Facts) { f.InterfacesErr = "netlink: no" }, "interfaces", Unknown, "netlink", ""},
	{"the netmask is too narrow", func(f *Facts) {
		unheard(f)
		f.Interfaces[0] = card("eth0", "10.1.0.2/24", "10.1.0.255")
		f.Watch.Beacons = []Arrival{arrives("10.1.0.3", "10.1.255.255")}
	}, "netmask", Problem, "a beacon of 10.1.0.3 went to 10.1.255.255, and this machine, as 10.1.0.2/24 on eth0, sends its own to 10.1.0.255: with a prefix of /16", "ip addr add {address} brd + dev {interface} && sudo ip addr del {wrong} dev {interface}"},
	{"the netmask is too wide", func(f *Facts) {
		unheard(f)
		f.Watch.Beacons = []Arrival{arrives("10.1.0.3", "10.1.0.255")}
	}, "netmask", Problem, "with a prefix of /24", "ip addr add {address}"},
	{"a beacon of another network is heard", func(f *Facts) {
		f.Interfaces[0] = card("eth0", "10.1.255.2/24", "10.1.255.255")
		f.Node.Heard = []Heard{{From: addr("10.1.0.3")}}
	}, "netmask", Problem, "no network of this machine holds that address", "ip -brief address"},
	{"two networks share the segment", func(f *Facts) {
		unheard(f)
		f.Watch.Beacons = []Arrival{arrives("192.168.7.3", "192.168.7.255")}
	}, "netmask", Notice, "192.168.7.3", ""},
	{"nobody may watch", func(f *Facts) { unheard(f); f.Watch.For, f.Watch.Skipped = 0, "only an administrator" }, "netmask", Unknown, "only an administrator", ""},
	{"nobody is heard", unheard, "segment", Warning, "where this machine is the first, all is well", "--fleet-seed"},
	{"nobody is heard, and a neighbour is connected", func(f *Facts) {
		unheard(f)
		f.Node.Sessions = []Session{{Address: "10.1.0.3"}}
	}, "segment", Warning, "10.1.0.3, of the same network, is connected", "--fleet-seed"},
	{"its beacons stay on this machine", func(f *Facts) { unheard(f); f.Loopback, f.Discovery = true, false }, "segment", OK, "beacons stay on this machine", ""},
	{"it has only begun", func(f *Facts) { unheard(f); f.Node.BeaconsSent = 1 }, "segment", Unknown, "just begun", ""},
	{"macOS withholds the permission", func(f *Facts) {
		f.OS, f.Unreachable, f.GatewayAnswers = "darwin", "10.1.0.0/16", true
	}, "segment", Problem, "the permission for the local network", "--install-service"},
	{"a Mac has no route", func(f *Facts) { f.OS, f.Unreachable = "darwin", "10.1.0.0/16" }, "segment", Problem, "no route", "ifconfig"},
	{"Linux has no route", func(f *Facts) { f.Unreachable, f.GatewayAnswers = "10.1.0.0/16", true }, "segment", Problem, "no route", "ip -brief"},
	{"a firewall here drops answers", func(f *Facts) {
		unheard(f)
		f.Node.BeaconsHeard, f.Watch.Answers = 1, 2
	}, "firewall", Problem, "2 answers of other machines arrived for UDP port 6682", "nft insert rule {family} {table} {chain} {proto} dport {port} accept"},
	{"a firewall here drops beacons", func(f *Facts) {
		unheard(f)
		f.Watch.Beacons = []Arrival{arrives("10.1.0.3", "10.1.255.255")}
	}, "firewall", Problem, "1 beacons of other machines arrived for UDP port 6681", "nft insert rule"},
	{"no proof comes back", func(f *Facts) {
		f.Node.ProofsVerified = 0
	}, "firewall", Warning, "4 challenges were sent and no proof came back", "{port}"},
	{"the node says that no proof comes back", raise("peers-never-authenticated", "warning"), "firewall", Problem, "as it is", "mend it"},
	{"a firewall filters and is not known to admit", func(f *Facts) { f.Node.ProofsVerified, f.Node.ChallengesSent = 0, 0 }, "firewall", Notice, "nft filters here", "pace-node.nft"},
	{"another wire version arrives", func(f *Facts) {
		f.Watch.Beacons = []Arrival{{From: addr("10.1.0.3"), To: addr("10.1.255.255"), Version: 2}}
	}, "wire-version", Warning, "10.1.0.3 speaks version 2", "upgrade the nodes"},
	{"another wire version came", func(f *Facts) { f.Node.OtherVersions = 4 }, "wire-version", Notice, "4 datagrams", "upgrade the nodes"},
	{"the node says that another version is there", raise("wire-version-seen", "notice"), "wire-version", Warning, "as it is", "mend it"},
	{"the clock is of 1970", func(f *Facts) { f.Now = time.Unix(20, 0) }, "clock", Problem, "1970-01-01", "timedatectl"},
	{"the clock differs", func(f *Facts) { f.Node.Sessions[0].ClockAhead = -2 * time.Hour }, "clock", Warning, "10.1.0.3 differ by 2h0m0s", "timedatectl"},
	{"another's clock differs", func(f *Facts) {
		f.Node.Sessions = append(f.Node.Sessions, Session{Address: "10.1.0.4"}, Session{Address: "10.1.0.5", ClockAhead: time.Hour})
	}, "clock", Notice, "the clock of 10.1.0.5", ""},
	{"the node says that its clock differs", raise("clock-skewed", "warning"), "clock", Warning, "as it is", "mend it"},
	{"DNS does not answer", func(f *Facts) { f.Suffix, f.SRVErr = "corp.test", "i/o timeout" }, "names", Warning, "_pace._tcp.corp.test: i/o timeout", "--fleet-seed"},
	{"a seed does not answer", func(f *Facts) {
		f.Node.Members, f.Seeds = 1, []Seed{{Endpoint: "10.1.0.99:6674", Origin: "fleet-seed", Err: "no route to host"}}
	}, "seeds", Problem, "10.1.0.99:6674 [fleet-seed] does not answer: no route", "pacectl doctor {host}"},
	{"a member's seed does not answer", func(f *Facts) {
		f.Seeds = []Seed{{Endpoint: "10.1.0.99:6674", Origin: "srv", Err: "no route to host"}}
	}, "seeds", Warning, "10.1.0.99:6674", "pacectl doctor {host}"},
	{"behind address translation", func(f *Facts) { f.Node.Sessions[0].Seen = "192.0.2.7" }, "nat", Warning, "sees it as 192.0.2.7", "--advertise={address}:6674"},
	{"behind address translation, and says so", func(f *Facts) {
		f.Node.Sessions[0].Seen, f.Node.Advertised = "192.0.2.7", "192.0.2.7:6674"
	}, "nat", OK, "advertises where it can be reached, 192.0.2.7:6674", ""},
	{"behind address translation, under a name", func(f *Facts) {
		f.Node.Sessions[0].Seen, f.Node.Advertised = "192.0.2.7", "pace.example:6674"
	}, "nat", OK, "pace.example:6674", ""},
	{"behind address translation, and says something else", func(f *Facts) {
		f.Node.Sessions[0].Seen, f.Node.Advertised = "192.0.2.7", "192.0.2.70:6674"
	}, "nat", Warning, "sees it as 192.0.2.7", "--advertise={address}:6674"},
	{"the pin admits nobody here", func(f *Facts) {
		f.Node.Members, f.Node.Pin, f.Node.Foreign = 1, "aa@k", []Foreign{{Cluster: "bb", State: "established", Address: "10.1.0.3"}}
	}, "pin", Problem, "bb [established, at 10.1.0.3]", "fleet-id"},
	{"the pin refused", func(f *Facts) { f.Node.Members, f.Node.Pin, f.Node.PinRefusals = 1, "aa@k", 3 }, "pin", Problem, "3 so far", "fleet-id"},
	{"the pin disagrees", raise("pin-disagrees", "alert"), "pin", Problem, "as it is", "mend it"},
	{"one voter", raise("single-voter-fleet", "notice"), "voters", Notice, "as it is", "mend it"},
	{"two voters", raise("two-voter-fleet", "warning"), "voters", Warning, "as it is", "mend it"},
	{"a promotion stands still", raise("promotion-stalled", "warning"), "voters", Warning, "as it is", "mend it"},
	{"the leader is silent", raise("consensus-leader-silent", "alert"), "voters", Problem, "as it is", "mend it"},
	{"the fleet is out of reach", raise("fleet-unreachable", "alert"), "voters", Problem, "as it is", "mend it"},
	{"one of two voters is lost", func(f *Facts) { f.Node.Leader, f.Node.VotersHeard, f.Node.VotersTotal = false, 1, 2 }, "voters", Problem, "1 of 2 voters answer, and 2 are needed", "pacectl fleet recover"},
	{"the queue is paused", raise("provisioning-paused", "warning"), "provisioning", Warning, "as it is", "mend it"},
	{"the helper is missing", raise("provisioning-helper-missing", "warning"), "provisioning", Warning, "as it is", "mend it"},
	{"runs fail", raise("provisioning-failing", "warning"), "provisioning", Warning, "as it is", "mend it"},
	{"a condition of nobody else", raise("identity-cloned", "alert"), "fleet", Problem, "as it is", "mend it"},
	{"it waits to be approved", func(f *Facts) { f.Node.Asks = "10.1.0.3:6674" }, "fleet", Notice, "waits at 10.1.0.3:6674", "pacectl enroll list"},
	{"without a node nothing is known of the queue", func(f *Facts) { f.Node = nil }, "provisioning", Unknown, "queue", ""},
	{"without a node nobody sends beacons", func(f *Facts) { f.Node = nil }, "segment", Unknown, "nobody sends beacons", ""},
	{"without a node nobody tells how it is seen", func(f *Facts) { f.Node = nil }, "nat", Unknown, "how this machine is seen", ""},
	{"without a node nothing is known of voters", func(f *Facts) { f.Node = nil }, "voters", Unknown, "fleet", ""},
	{"without a node nothing is known of the fleet", func(f *Facts) { f.Node = nil }, "fleet", Unknown, "fleet", ""},
	{"the admin endpoint is off", raise("admin-endpoint-off", "warning"), "ports", Warning, "as it is", "mend it"},
}

func checkCells() error {
	f := healthy()
	for _, x := range Examine(&f) {
		if x.Verdict != OK {
			return fmt.Errorf("on a healthy machine: %s is %s: %s", x.Check, x.Verdict, x.Detail)
		}
	}
	for _, c := range cells {
		f := healthy()
		c.change(&f)
		got := Examine(&f)
		at := slices.IndexFunc(got, func(x Finding) bool {
			return x.Check == c.check && x.Verdict == c.verdict && strings.Contains(x.Detail, c.says) && strings.Contains(x.Remedy, c.remedy) && (c.remedy == "") == (x.Remedy == "")
		})
		if at < 0 {
			return fmt.Errorf("%s: no %s of %s that says %q and %q in %+v", c.what, c.verdict, c.check, c.says, c.remedy, got)
		}
		for _, x := range got {
			if x.Verdict > Warning && x.Check != c.check && x.Check != "node" {
				return fmt.Errorf("%s: %s is %s too: %s", c.what, x.Check, x.Verdict, x.Detail)
			}
		}
	}
	return nil
}

func TestChecks(t *testing.T) {
	if err := checkCells(); err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, c := range cells {
		tried[c.check] = true
	}
	for _, c := range Checks {
		if !tried[c.Name] {
			t.Errorf("no cell is about %s", c.Name)
		}
		if c.Looks == "" {
			t.Errorf("%s does not say what it looks at", c.Name)
		}
	}
}

// TestMutationChecks flips each row.
func TestMutationChecks(t *testing.T) {
	flips := map[string]func(c *Check){
		"the name":  func(c *Check) { c.Name += "x" },
		"the judge": func(c *Check) { c.Judge = func(*Facts) []Finding { return []Finding{well("")} } },
	}
	for i := range Checks {
		for name, flip := range flips {
			was := Checks[i]
			flip(&Checks[i])
			if checkCells() == nil {
				t.Errorf("%s: %s flipped, and nobody noticed", was.Name, name)
			}
			Checks[i] = was
		}
		for j := range Checks[i].Conditions {
			was := Checks[i].Conditions[j]
			Checks[i].Conditions[j] += "x"
			if checkCells() == nil {
				t.Errorf("%s: the condition %s is not its, and nobody noticed", Checks[i].Name, was)
			}
			Checks[i].Conditions[j] = was
		}
	}
}

// checkWords holds the small tables against cells written out by hand.
func checkWords() error {
	for severity, want := range map[string]Verdict{"notice": Notice, "warning": Warning, "alert": Problem, "?": Unknown} {
		if got := verdictOf(Condition{ID: "x", Severity: severity}); got != want {
			return fmt.Errorf("%s: %s", severity, got)
		}
	}
	for id, want := range map[string]Verdict{"peers-never-authenticated": Problem, "discovery-no-interface": Problem, "wire-version-seen": Warning, "clock-skewed": Notice} {
		if got := verdictOf(Condition{ID: id, Severity: "notice"}); got != want {
			return fmt.Errorf("%s: %s", id, got)
		}
	}
	for os, want := range map[string][3]string{
		"linux": {"ip addr add {address}", "ip -brief", "timedatectl"}, "darwin": {"{address}", "ifconfig", "sntp"}, "windows": {"{address}", "Get-NetIPAddress", "w32tm"}, "plan9": {"", "", ""},
	} {
		for i, got := range []string{netmaskRemedy(os), showAddresses(os), setClock(os)} {
			if !strings.Contains(got, want[i]) || want[i] == "" && got != "" {
				return fmt.Errorf("%s: %q", os, got)
			}
		}
	}
	for kind, want := range map[string][2]string{
		"firewalld": {"sudo firewall-cmd --add-port={port}/{proto}", "sudo firewall-cmd --add-service=pace-node"},
		"ufw":       {"sudo ufw allow {port}/{proto}", "sudo ufw allow pace-node"},
		"nft":       {"sudo nft insert rule {family} {table} {chain} {proto} dport {port} accept", "sudo nft list ruleset"},
		"iptables":  {"sudo iptables -I INPUT -p {proto} --dport {port} -j ACCEPT", "sudo iptables -L"},
		"windows":   {"pace-node --install-service", "pace-node --install-service"},
		"macos":     {"sudo /usr/libexec/ApplicationFirewall/socketfilterfw --add {program}", "sudo /usr/libexec/ApplicationFirewall/socketfilterfw --add {program}"},
		"":          {"sudo nft list ruleset", ""},
	} {
		f := Facts{Firewall: Firewall{Kind: kind, Family: "ip", Table: "t", Chain: "c", Program: "/p"}}
		for i, port := range []uint16{6682, 0} {
			got := f.admitting(Problem, "d", "udp", port)
			if !strings.HasPrefix(got.Remedy, want[i]) || want[i] == "" && got.Remedy != "" {
				return fmt.Errorf("%s: %q", kind, got.Remedy)
			}
			if strings.Count(got.Remedy, "{") != len(got.Args) {
				return fmt.Errorf("%s: %q for %q", kind, got.Args, got.Remedy)
			}
		}
	}
	for os, want := range map[string][2]string{"linux": {"ss -ltnp", "ss -lunp"}, "darwin": {"-iTCP", "-iUDP"}, "windows": {"TCP", "UDP"}, "plan9": {"", ""}} {
		for i, proto := range []string{"tcp", "udp"} {
			if got := showHolder(os, proto); !strings.Contains(got, want[i]) || want[i] == "" && got != "" {
				return fmt.Errorf("%s %s: %q", os, proto, got)
			}
		}
	}
	return nil
}

func TestMutationWords(t *testing.T) {
	if err := checkWords(); err != nil {
		t.Fatal(err)
	}
	flipped := func(what string) {
		t.Helper()
		if checkWords() == nil {
			t.Errorf("%s flipped, and nobody noticed", what)
		}
	}
	for i := range severities {
		was := severities[i]
		severities[i].Verdict++
		flipped(was.Severity)
		severities[i] = was
	}
	for i := range worse {
		was := worse[i]
		worse[i].Verdict = OK
		flipped(was.Condition)
		worse[i] = was
	}
	for i := range netmaskRemedies {
		was := netmaskRemedies[i]
		netmaskRemedies[i].Remedy = ""
		flipped(was.OS)
		netmaskRemedies[i] = was
	}
	for i := range addressLists {
		was := addressLists[i]
		addressLists[i].Remedy = ""
		flipped(was.OS)
		addressLists[i] = was
	}
	for i := range clocks {
		was := clocks[i]
		clocks[i].Remedy = ""
		flipped(was.OS)
		clocks[i] = was
	}
	for i := range firewalls {
		was := firewalls[i]
		firewalls[i].One, firewalls[i].All = "x"+was.All, "x"+was.One
		flipped(was.Kind)
		firewalls[i] = was
	}
	for i := range holders {
		was := holders[i]
		holders[i].TCP, holders[i].UDP = was.UDP, was.TCP
		flipped(was.OS)
		holders[i] = was
	}
}

// TestOrder: the worst first, the table's order among equals, and a check says once what a condition says as well.
func TestOrder(t *testing.T) {
	f := healthy()
	raise("admin-endpoint-off", "warning")(&f)
	raise("state-dir-nearly-full", "warning")(&f)
	f.State.Low = true
	var got []string
	for _, x := range Examine(&f) {
		if x.Verdict > OK {
			got = append(got, x.Verdict.String()+" "+x.Check)
		}
	}
	if got, want := strings.Join(got, ", "), "problem disk, warning disk, warning ports"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	f.Node.Conditions[1].Severity = "alert"
	if n := len(Examine(&f)); n != len(Checks) {
		t.Errorf("%d findings: what a condition says is said again", n)
	}
	if Worst(nil) != OK {
		t.Error("nothing is bad")
	}
	for _, v := range Verdicts() {
		if v.String() == "?" {
			t.Errorf("verdict %d has no word", v)
		}
	}
	if len(Verdicts()) != int(verdictCount) || verdictCount.String() != "?" {
		t.Error("not every verdict is listed")
	}
}
