//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pace-node/internal/wire"
)

// report is what `pacectl doctor --json` prints.
type report struct {
	Verdict  string    `json:"verdict"`
	Findings []finding `json:"findings"`
	text     string
}

type finding struct {
	Check   string `json:"check"`
	Verdict string `json:"verdict"`
	Detail  string `json:"detail"`
	Remedy  string `json:"remedy"`
}

// doctor asks what is wrong with the node's machine, or with another one from it, and holds the exit status.
func (n *node) doctor(args ...string) (d report) {
	n.t.Helper()
	cmd := n.inside(append([]string{filepath.Join(filepath.Dir(binary), "pacectl"), "--state-dir=" + n.dir, "--json", "doctor"}, args...)...)
	cmd.Env = append(os.Environ(), n.env...)
	out, err := cmd.Output()
	if failed := json.Unmarshal(out, &d); failed != nil {
		n.t.Fatalf("doctor: %v, %v: %s", err, failed, out)
	}
	if status := cmd.ProcessState.ExitCode(); (status == 1) != (d.Verdict == "problem") || status > 1 {
		n.t.Errorf("doctor ends with %d and says %s", status, d.Verdict)
	}
	d.text = string(out)
	return d
}

// says reports whether a check has that verdict, and a detail and a remedy with these words.
func (d report) says(verdict, check, detail, remedy string) bool {
	for _, f := range d.Findings {
		if f.Check == check && f.Verdict == verdict && strings.Contains(f.Detail, detail) && strings.Contains(f.Remedy, remedy) {
			return true
		}
	}
	return false
}

// finds holds that a report says so.
func (d report) finds(t *testing.T, verdict, check, detail, remedy string) {
	t.Helper()
	if !d.says(verdict, check, detail, remedy) {
		t.Errorf("no %s of %s that says %q and %q:\n%s", verdict, check, detail, remedy, d.text)
	}
}

// finds waits until doctor says so, and returns that report: what is seen of a network is what came while it was looked at, and
// a beacon that is due within 16.5 s may come to a busy machine after the 17 s of a look.
func (n *node) finds(verdict, check, detail, remedy string) (d report) {
	n.t.Helper()
	until(n.t, fmt.Sprintf("doctor of %s finds a %s of %s that says %q and %q", n.name, verdict, check, detail, remedy), func() (bool, string) {
		d = n.doctor()
		return d.says(verdict, check, detail, remedy), d.text
	})
	return d
}

// mends pastes the remedy of a finding into a shell of the node's machine, as root, and returns what that prints.
func (d report) mends(n *node, check string) string {
	n.t.Helper()
	out, err := d.pastes(n, check)
	if err != nil {
		n.t.Fatalf("the remedy of %s: %v: %s", check, err, out)
	}
	return out
}

// pastes runs a remedy as mends does. What a remedy tells the installed service is only checked: a service is the whole machine's,
// which no namespace keeps apart, and what installs one is tried on booted hosts.
func (d report) pastes(n *node, check string) (string, error) {
	n.t.Helper()
	for _, f := range d.Findings {
		if f.Check == check && f.Remedy != "" {
			cmd := n.inside("sh", "-c", strings.ReplaceAll(f.Remedy, "--install-service", "--check-arguments"))
			cmd.Env = append(os.Environ(), "PATH="+programs(n.t)+":"+os.Getenv("PATH"), "PACE_STATE_DIR="+n.dir)
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
	}
	n.t.Fatalf("no remedy of %s:\n%s", check, d.text)
	return "", nil
}

// well waits until a check of this machine is ok.
func (n *node) well(check string) {
	n.t.Helper()
	until(n.t, "doctor is content with "+check+" of "+n.name, func() (bool, string) {
		d := n.doctor()
		return d.of(check) == "ok", d.text
	})
}

// of is the verdict of a check.
func (d report) of(check string) string {
	for _, f := range d.Findings {
		if f.Check == check {
			return f.Verdict
		}
	}
	return ""
}

func TestDoctorPortTaken(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	holder := h.start(t, "alder")
	second := h.newNode(t, "second")
	second.refused(patience, 1)
	d := second.doctor()
	d.finds(t, "problem", "ports", "tcp port 6674 (node, --listen) is taken by pace-node, process", "ss -ltnp sport = :6674")
	d.finds(t, "problem", "node", "no node answers", "--install-service")
	if d := holder.doctor(); d.Verdict == "problem" || d.of("ports") != "ok" || d.of("node") != "ok" {
		t.Errorf("the machine whose ports they are: %s", d.text)
	}
	wants(t, d.mends(second, "ports"), "pace-node", fmt.Sprintf("pid=%d,", holder.cmd.Process.Pid))
	holder.stop()
	second.well("ports")
}

func TestDoctorStateDirectoryOfAnother(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	n := l.hosts[0].start(t, "alder")
	n.stop()
	if err := os.Chown(n.dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	n.refused(patience, 1)
	d := n.doctor()
	d.finds(t, "problem", "state-directory", "belongs to user 12345", "chown -R 0 "+n.dir)
	d.mends(n, "state-directory")
	n.well("state-directory")
	n.start()
	n.ready()
}

func TestDoctorDiskNearlyFull(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	n := l.hosts[0].diskNode(t, "alder", 32)
	n.start()
	n.ready()
	if v := n.doctor().of("disk"); v != "ok" {
		t.Errorf("an empty disk is %s", v)
	}
	n.disk.fill(1)
	n.doctor().finds(t, "problem", "disk", "MiB of ", "df -h "+n.dir)
	n.stop()
	d := n.doctor()
	d.finds(t, "problem", "disk", "MiB of ", "df -h "+n.dir)
	wants(t, d.mends(n, "disk"), n.disk.at)
	n.disk.empty()
	n.well("disk")
}

func TestDoctorNoEligibleInterface(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	l.hosts[0].ip("addr", "flush", "dev", "eth0")
	n := l.hosts[0].start(t, "alder")
	n.finds("problem", "interfaces", "discovery-no-interface", "--fleet-seed")
	n.stop()
	d := n.doctor()
	d.finds(t, "problem", "interfaces", "no network interface can carry a beacon", "--fleet-seed=HOST")
	d.mends(n, "interfaces")
	n.start()
	n.ready()
	l.hosts[0].ip("addr", "add", "10.1.0.2/16", "brd", "+", "dev", "eth0")
	n.well("interfaces")
}

func TestDoctorContainerBridgeChosen(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	h.ip("addr", "flush", "dev", "eth0")
	h.ip("link", "add", "docker0", "type", "bridge")
	h.ip("addr", "add", "172.17.0.1/16", "brd", "+", "dev", "docker0")
	h.ip("link", "set", "docker0", "up")
	n := h.start(t, "alder")
	d := n.finds("problem", "interfaces", "docker0 172.17.0.1/16 alone, a bridge or adapter of containers", "--discovery-interface=eth0")
	d.mends(n, "interfaces")
	n.stop()
	n.args = append(n.args, "--discovery-interface=eth0")
	n.start()
	n.ready()
	h.ip("addr", "add", "10.1.0.2/16", "brd", "+", "dev", "eth0")
	n.well("interfaces")
}

func TestDoctorWrongNetmask(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	l.hosts[1].readdress("10.1.0.3/24")
	a := l.hosts[0].start(t, "alder", metered)
	b := l.hosts[1].start(t, "birch", metered)
	d := b.finds("problem", "netmask", "a beacon of 10.1.0.2 went to 10.1.255.255, and this machine, as 10.1.0.3/24 on eth0", "sudo ip addr add 10.1.0.3/16 brd + dev eth0 && sudo ip addr del 10.1.0.3/24 dev eth0")
	d.mends(b, "netmask")
	proven(t, a, b)
	b.well("netmask")
}

func TestDoctorFirewallDropsAnswers(t *testing.T) { // field case P10
	t.Parallel()
	l := newLAN(t, 2)
	l.hosts[0].nft(`table inet fw { chain in { type filter hook input priority 0; meta l4proto udp udp dport != 6681 drop; }; }`)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].start(t, "birch", metered)
	d := a.finds("problem", "firewall", "this node's answering port, and none reached it: a firewall of this machine drops them", "sudo nft insert rule inet fw in udp dport ")
	d.mends(a, "firewall")
	proven(t, a, b)
	a.well("firewall")
}

func TestDoctorFirewallDropsBeacons(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	l.hosts[0].nft(`table inet fw { chain in { type filter hook input priority 0; policy drop; ct state established,related accept; iifname lo accept; }; }`)
	a := l.hosts[0].start(t, "alder")
	l.hosts[1].start(t, "birch")
	d := a.finds("problem", "firewall", "for UDP port 6681, and none reached the node", "sudo nft insert rule inet fw in udp dport 6681 accept")
	d.mends(a, "firewall")
	until(t, "beacons reach the node", func() (bool, string) {
		d := a.doctor()
		return d.of("segment") == "ok" && !strings.Contains(d.text, "none reached the node"), d.text
	})
}

func TestDoctorClientIsolation(t *testing.T) { // field case P09
	t.Parallel()
	l := newLAN(t, 2)
	cmd := exec.Command("ip", "netns", "exec", l.name, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(`table bridge ap { chain f { type filter hook forward priority 0; ether daddr ff:ff:ff:ff:ff:ff udp dport 6681 drop; }; }`)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	}
	a := l.hosts[0].start(t, "alder", metered)
	until(t, "it has sent beacons", func() (bool, string) {
		return a.metrics().of(t, "pace_discovery_beacons_sent_total") >= 2, ""
	})
	d := a.finds("warning", "segment", "none of another machine is heard", "--fleet-seed=HOST")
	d.mends(a, "segment") // on the machine that is to join, and with the host that is meant:
	nextSecond(t)
	b := l.hosts[1].start(t, "birch", "--fleet-seed="+l.hosts[0].addr.String())
	b.approve(a)
	b.inMode("learner", a)
	a.finds("warning", "segment", "10.1.0.3, of the same network, is connected", "--fleet-seed=HOST")
}

func TestDoctorClockSkew(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].clockedNode(t, "birch", skew(3*time.Hour))
	b.start()
	b.ready()
	b.approve(a)
	b.inMode("learner", a)
	b.skewed(true)
	b.finds("warning", "clock", "clock-skewed", "timedatectl")
}

func TestDoctorSeedThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	n := l.hosts[0].start(t, "alder", "--fleet-seed=10.1.0.3")
	d := n.doctor()
	d.finds(t, "problem", "seeds", "the seed 10.1.0.3:6674 [fleet-seed] does not answer", "pacectl doctor 10.1.0.3:6674")
	if out, err := d.pastes(n, "seeds"); err == nil || !strings.Contains(out, "takes no connection") {
		t.Errorf("the remedy: %v: %s", err, out)
	}
	l.hosts[1].start(t, "birch")
	d.mends(n, "seeds")
	n.well("seeds")
}

func TestDoctorSRVWithoutAnswer(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	h := l.hosts[0]
	h.etc("resolv.conf", "search corp.test\nnameserver 10.1.0.3\noptions timeout:1 attempts:1\n")
	n := h.start(t, "alder")
	n.finds("warning", "names", "DNS does not answer for _pace._tcp.corp.test", "--fleet-seed")
	// It answers, and whom it names does not.
	l.hosts[1].dnsmasq(t, "--srv-host=_pace._tcp.corp.test,host1.corp.test,6674", "--host-record=host1.corp.test,10.1.0.3")
	n.finds("ok", "names", "_pace._tcp.corp.test", "")
	d := n.finds("problem", "seeds", "the seed host1.corp.test:6674 [srv] does not answer", "pacectl doctor host1.corp.test:6674")
	l.hosts[1].start(t, "birch")
	d.mends(n, "seeds")
	n.well("seeds")
}

func TestDoctorAnotherWireVersion(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder", metered)
	old := []byte{wire.Magic, 2, byte(wire.KindBeacon), 0, 0, 0, 0}
	l.hosts[1].in(func() {
		c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.1.255.255:6681")))
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if _, err := c.Write(old); err != nil {
			t.Error(err)
		}
	})
	until(t, "it is counted", func() (bool, string) {
		return a.metrics().of(t, "pace_discovery_datagrams_refused_version_total") == 1, ""
	})
	d := a.finds("warning", "wire-version", "10.1.0.3 speaks another version", "pacectl node")
	wants(t, d.mends(a, "wire-version"), "wire-version-seen", "10.1.0.3 speaks another version")
}

func TestDoctorBehindNAT(t *testing.T) {
	t.Parallel()
	one, two := newLAN(t, 1), newLAN(t, 1)
	r := newRouter(t, one, two)
	r.nft(`table ip nat { chain post { type nat hook postrouting priority 100; oifname eth0 masquerade; }; }`)
	a := one.hosts[0].start(t, "alder")
	nextSecond(t)
	b := two.hosts[0].start(t, "birch", "--fleet-seed="+one.hosts[0].addr.String())
	b.approve(a)
	b.inMode("learner", a)
	d := b.finds("warning", "nat", "10.1.0.2 sees it as 10.1.255.254, which is no address of its own", "--advertise=10.1.255.254:6674")
	d.mends(b, "nat")
	b.stop()
	b.args = append(b.args, "--advertise=10.1.255.254:6674")
	b.start()
	b.ready()
	until(t, "it is seen where it says that it is", func() (bool, string) {
		d := b.doctor()
		return strings.Contains(d.text, "advertises where it can be reached, 10.1.255.254:6674"), d.text
	})
	if v := a.doctor().of("nat"); v != "ok" {
		t.Errorf("the machine that is reached: %s", v)
	}
}

func TestDoctorPinAdmitsNobody(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].start(t, "birch", metered, "--fleet-id="+pinOf(fmt.Sprintf("%032x", 7), newKey(7).Public()))
	proven(t, a, b)
	d := b.finds("problem", "pin", "the pin of --fleet-id admits none of the fleets that are heard here: "+a.clusterID(), "pacectl node")
	var pin string
	for line := range strings.Lines(d.mends(a, "pin")) { // it is typed on a machine of the fleet that is meant
		if f := strings.Fields(line); len(f) == 2 && f[0] == "fleet-id" {
			pin = f[1]
		}
	}
	b.stop()
	b.args = []string{metered, "--fleet-id=" + pin}
	b.start()
	b.ready()
	b.asks(a)
	b.well("pin")
}

func TestDoctorTwoVoters(t *testing.T) { // field case P28
	t.Parallel()
	l := newLAN(t, 3)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	b.promoted(a)
	a.shows("that two vote", func(d nodeDoc) bool { return d.has("two-voter-fleet") })
	a.finds("warning", "voters", "two are worse than one", "--cluster-admit=")
	b.kill()
	a.finds("problem", "voters", "1 of 2 voters answer, and 2 are needed", "pacectl fleet recover")
	b.start()
	b.ready()
	lead := leads(t, a, b)
	c := l.hosts[2].joined(t, lead, "cedar")
	c.follows(lead)
	var d report
	until(t, "the remedy names cedar", func() (bool, string) {
		d = lead.doctor()
		return strings.Contains(d.text, "--cluster-admit="+c.id()), d.text
	})
	until(t, "the remedy is taken", func() (bool, string) { // two voters may elect meanwhile
		out, err := d.pastes(lead, "voters")
		return err == nil, fmt.Sprint(err, out)
	})
	c.inMode("voter", lead)
	lead.well("voters")
}

func TestDoctorAnotherMachine(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	var d report
	until(t, "doctor is content with a machine that is well", func() (bool, string) { // a beacon is to be answered within three seconds
		d = b.doctor(l.hosts[0].addr.String())
		return d.Verdict == "ok", d.text
	})
	d.finds(t, "ok", "identity", "it is "+a.id()+", named alder, of key "+a.key().Public().String(), "")
	d.finds(t, "ok", "fleet", "it is in fleet "+a.clusterID()+" [established, 2 members], as this machine", "")
	d.finds(t, "ok", "udp", "a beacon was answered", "")
	d.finds(t, "ok", "consensus", "10.1.0.2:6680 takes a connection", "")
	// Nothing came of it over there: no row, no fleet that is proven, no second machine of birch's key.
	if w, err := a.waiting(); err != nil || len(w.Rows) != 1 {
		t.Errorf("%v: %+v", err, w)
	}
	if s, err := a.status(); err != nil || s.has("identity-cloned") || s.has("foreign-fleet-visible") {
		t.Errorf("%v: %+v", err, s)
	}
	// A firewall over there, then something that is no pace-node, then nobody.
	l.hosts[0].nft(`table inet fw { chain in { type filter hook input priority 0; meta l4proto udp drop; tcp dport 6680 reject with tcp reset; }; }`)
	d = b.doctor(l.hosts[0].addr.String())
	d.finds(t, "notice", "udp", "was not answered", "pacectl doctor")
	d.finds(t, "warning", "consensus", "10.1.0.2:6680 takes no connection: ", "pacectl doctor")
	b.doctor(l.hosts[0].addr.String()+":6690").finds(t, "problem", "tcp", "tcp port 6690 takes no connection", "pacectl doctor") // its metrics are for itself alone
	var stranger net.Listener
	l.hosts[2].in(func() { stranger, _ = net.Listen("tcp4", "10.1.0.4:6674") })
	if stranger == nil {
		t.Fatal("no listener")
	}
	defer stranger.Close()
	go func() {
		for {
			c, err := stranger.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "220 mail.example ESMTP\r\n")
			c.Close()
		}
	}()
	b.doctor("10.1.0.4").finds(t, "problem", "identity", "does not speak as a pace-node does", "--print-surfaces")
	b.doctor("10.1.0.77").finds(t, "problem", "tcp", "tcp port 6674 takes no connection", "pacectl doctor")
	b.doctor("nobody.test").finds(t, "problem", "name", "no address is found", "pacectl doctor ADDRESS")
}
