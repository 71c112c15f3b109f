//go:build linux && packages

package packages

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// identity is what a host's machine is admitted by.
func (l *lab) identity(host int) (id, key string) {
	l.t.Helper()
	for line := range strings.Lines(l.run(host, "pace-node --print-identity")) {
		if v, ok := strings.CutPrefix(line, "node-id "); ok {
			id = strings.TrimSpace(v)
		}
		if v, ok := strings.CutPrefix(line, "public-key "); ok {
			key = strings.TrimSpace(v)
		}
	}
	return id, key
}

// join has the first host's fleet admit another, by the key that the other prints.
func (l *lab) join(host int) {
	l.t.Helper()
	id, key := l.identity(host)
	l.until(1, patience, "pacectl enroll list --json | grep -q "+id)
	l.run(1, "pace-node --enroll-approve="+id+"@"+key)
	l.until(host, patience, "pacectl node --json | grep -q '\"mode\":\"learner\"'")
}

// TestThreeHostsFormAFleet, and keep it through an upgrade of each, crashes, a pulled cable and a power cut.
func TestThreeHostsFormAFleet(t *testing.T) {
	l := boot(t, 3)
	l.push("deb", 1, 2, 3)
	l.install(1, oldVersion)
	l.until(1, patience, "pacectl node --json | grep -q '\"mode\":\"solitary\"'")
	// Founding times count whole seconds, and the first host is to be the oldest.
	l.until(2, patience, "test $(date +%s) -gt "+l.run(1, "date +%s"))
	l.install(2, oldVersion)
	l.install(3, oldVersion)
	l.join(2)
	l.join(3)
	fleet, _, _ := strings.Cut(l.node(1).FleetID, "@")
	for host := 1; host <= 3; host++ {
		l.until(host, patience, "pacectl member list --json | grep -o '\"id\"' | wc -l | grep -qx 3")
		if got, _, _ := strings.Cut(l.node(host).FleetID, "@"); got != fleet {
			t.Fatalf("host %d is in fleet %s, and the first in %s", host, got, fleet)
		}
	}
	l.until(3, patience, "systemctl show -p StatusText --value pace-node | grep -q 'learner "+fleet+"'")

	// Three voters, so that an upgrade of one keeps a leader.
	for host := 2; host <= 3; host++ {
		id, key := l.identity(host)
		if said, err := l.start(commandTime, "run", "1", "pace-node", fmt.Sprintf("--cluster-admit=%s=10.79.0.%d:6680@%s", id, host, key)); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		l.until(host, patience, "pacectl node --json | grep -q '\"mode\":\"voter\"'")
	}
	before := map[int]node{}
	for host := 1; host <= 3; host++ {
		before[host] = l.node(host)
		l.run(host, "echo '# edited on host "+fmt.Sprint(host)+"' >>/etc/default/pace-node; echo 'label: [host=h"+fmt.Sprint(host)+"]' >>/etc/pace-node/pace-node.yaml")
	}
	l.upgrade(before)

	leads := leaderKnown
	l.run(2, "systemctl kill --kill-who=main -s SEGV pace-node")
	l.until(2, patience, "systemctl -q is-active pace-node && "+leads)

	l.script(commandTime, "cut", "3")
	l.until(1, patience, leads)
	l.script(commandTime, "join", "3")
	l.until(3, patience, leads)

	l.script(bootTime, "crash", "3")
	l.script(bootTime, "boot", "3")
	l.until(3, patience, "systemctl -q is-active pace-node && "+leads)
	if after := l.node(3); after.NodeID != before[3].NodeID || cut(after.FleetID) != fleet {
		t.Errorf("after a power cut %+v, before %+v", after, before[3])
	}
	for host := 1; host <= 3; host++ { // the whole site, as after a blackout
		l.script(bootTime, "crash", fmt.Sprint(host))
	}
	for host := 1; host <= 3; host++ {
		l.script(bootTime, "boot", fmt.Sprint(host))
	}
	for host := 1; host <= 3; host++ {
		l.until(host, patience, leads)
	}
}

// leaderKnown is a shell's question whether a host's node knows who leads.
const leaderKnown = "pacectl fleet status --json | grep -q '\"leader\":{'"

// upgrade installs the next version on one host of three after the other. What this fleet can never do is to stand still:
// changes are made all the while, on each host, and a leader is known. The change that only the next version knows is refused
// as long as one host has the older one, and accepted afterwards.
func (l *lab) upgrade(before map[int]node) {
	l.t.Helper()
	const writer = "i=0; while :; do i=$((i % 60 + 1)); pace-node --cluster-set=enrollment.per-source=$i >/dev/null 2>&1 && date +%s%N; sleep 0.2; done"
	for host := 1; host <= 3; host++ {
		l.pushFrom("next", nextVersion, "deb", host)
		l.run(host, "echo '"+writer+"' >/root/writer; systemd-run --quiet --unit=writer -p StandardOutput=append:/root/written sh /root/writer")
	}
	written := func(host int) string { return l.run(host, "wc -l </root/written") }
	goOn := func(when string, hosts ...int) {
		l.t.Helper()
		for _, host := range hosts {
			l.t.Logf("%s: host %d made %s changes", when, host, l.until(host, patience, "test -s /root/written && wc -l </root/written"))
			l.until(host, patience, "test $(wc -l </root/written) -ge $(("+written(host)+" + 2))")
		}
	}
	goOn("before", 1, 2, 3)
	const change = "pace-node --cluster-set=format.next=true"
	for host := 1; host <= 3; host++ {
		others := []int{host%3 + 1, (host+1)%3 + 1}
		if host > 1 {
			l.until(1, patience, "pacectl node --json | grep -q mixed-node-versions")
			if said := l.try(1, change+"; echo status $?"); !strings.Contains(said, "remedy: ") || strings.HasSuffix(said, "status 0") {
				l.t.Errorf("a change that host %d cannot read: %s", host, said)
			}
		}
		// While it is away the two others go on.
		l.run(host, "systemctl stop pace-node")
		goOn(fmt.Sprintf("host %d is away", host), others...)
		l.run(host, "systemctl start pace-node")
		l.until(host, patience, leaderKnown)
		began := time.Now()
		l.install(host, nextVersion)
		l.t.Logf("host %d upgraded in %s", host, time.Since(began).Round(time.Millisecond))
		l.same("upgraded", l.run(host, "systemctl is-active pace-node; tail -n 1 /etc/default/pace-node; tail -n 1 /etc/pace-node/pace-node.yaml"),
			fmt.Sprintf("active\n# edited on host %d\nlabel: [host=h%d]", host, host))
		goOn(fmt.Sprintf("host %d is upgraded", host), 1, 2, 3)
		for asked := 1; asked <= 3; asked++ {
			l.until(asked, patience, leaderKnown)
		}
		after, want := l.node(host), before[host]
		want.Version = nextVersion
		after.Mode, want.Mode = "", "" // a voter that leads is one that does not, a moment later
		if cut(after.FleetID) != cut(want.FleetID) || after.NodeID != want.NodeID || after.Key != want.Key || after.Version != want.Version {
			l.t.Errorf("host %d after the upgrade: %+v, before %+v", host, after, want)
		}
	}
	var gaps []string
	for host := 1; host <= 3; host++ {
		l.run(host, "systemctl stop writer")
		gaps = append(gaps, l.run(host, "awk 'NR > 1 && $1 - last > most { most = $1 - last } { last = $1 } END { printf \"%.1f s\", most / 1e9 }' /root/written"))
	}
	l.t.Logf("longest time between two changes made on one host: %s", strings.Join(gaps, ", ")) // a figure
	l.until(1, patience, "pacectl member list --json | grep -o '\"version\":\""+nextVersion+"\"' | wc -l | grep -qx 3")
	l.until(1, patience, change)
	for host := 1; host <= 3; host++ {
		l.until(host, patience, "pacectl fleet status --json | grep -q '\"format.next\",\"value\":\"true\"'")
		l.until(host, patience, "! pacectl node --json | grep -q mixed-node-versions")
	}
}

func cut(fleet string) string {
	id, _, _ := strings.Cut(fleet, "@")
	return id
}

// TestFirewalls: each is switched on with its default, which drops what comes; then our file is accepted, and machines
// find one another through it.
func TestFirewalls(t *testing.T) {
	l := boot(t, 2)
	l.push("deb", 1, 2)
	l.install(1, newVersion)
	open := "timeout 3 bash -c 'echo >/dev/tcp/10.79.0.1/6674'"
	l.until(2, patience, open)
	closed := func(what string) {
		t.Helper()
		if _, err := l.start(commandTime, "run", "2", "sh", "-c", open); err == nil {
			t.Errorf("%s lets everything in, so nothing is proved", what)
		}
	}

	l.run(1, "systemctl unmask firewalld && systemctl start firewalld && firewall-cmd --set-default-zone=public")
	closed("firewalld")
	if said := l.run(1, "firewall-offline-cmd --check-config 2>&1; firewall-cmd --info-service=pace-node"); !strings.Contains(said, "6674/tcp 6680/tcp 6681/udp 6682/udp") {
		t.Errorf("firewalld reads %q", said)
	}
	l.run(1, "firewall-cmd --permanent --add-service=pace-node && firewall-cmd --reload")
	l.until(2, patience, open)
	l.install(2, newVersion)
	id, _ := l.identity(2)
	other, _ := l.identity(1)
	l.until(1, patience, "pacectl enroll list --json | grep -q "+id+" || pacectl node --json | grep -q '\"mode\":\"pending\"'")
	l.run(2, "systemctl stop pace-node")
	l.run(1, "systemctl stop firewalld")

	l.run(1, "ufw app info pace-node && ufw --force enable")
	closed("ufw")
	l.run(1, "ufw allow from 10.79.0.0/24 to any app pace-node")
	l.until(2, patience, open)
	l.run(2, "systemctl start pace-node")
	l.until(2, patience, "pacectl enroll list --json | grep -q "+other+" || pacectl node --json | grep -q '\"mode\":\"pending\"'")
	l.run(1, "ufw --force disable; nft flush ruleset")

	// nft looks for control groups in /sys/fs/cgroup, which is the older hierarchy in these systems.
	for _, include := range []string{"pace-node.nft", "pace-node-ports.nft"} {
		rules := "table inet t {\n chain c {\n  type filter hook input priority filter; policy drop;\n  ct state established,related accept\n"
		load := "cat >/tmp/r.nft && unshare -m sh -c 'mount --bind /sys/fs/cgroup/unified /sys/fs/cgroup 2>/dev/null; nft -f /tmp/r.nft'"
		l.run(1, "printf '"+strings.ReplaceAll(rules, "\n", "\\n")+" }\\n}\\n' | ( "+load+" )")
		closed("nftables without " + include)
		l.run(1, "nft flush ruleset; printf '"+strings.ReplaceAll(rules, "\n", "\\n")+"  include \"/usr/share/pace-node/"+include+"\"\\n }\\n}\\n' | ( "+load+" )")
		l.until(2, patience, open)
		if out, err := l.start(commandTime, "run", "2", "ping", "-c1", "-W1", "10.79.0.1"); err == nil {
			t.Errorf("%s lets more in than pace-node: %s", include, out)
		}
		l.run(1, "nft flush ruleset")
	}
}
