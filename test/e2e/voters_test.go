//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"testing"
	"time"
)

// raftEndpoint is where the node's consensus port is, by its flags.
func (n *node) raftEndpoint() string { return net.JoinHostPort(n.host.addr.String(), "6680") }

// promoted makes a learner a voter at the leader's word, and waits until it serves as one.
func (n *node) promoted(leader *node) {
	n.t.Helper()
	leader.must(fmt.Sprintf("--cluster-admit=%s=%s", n.id(), n.raftEndpoint()))
	n.inMode("voter", leader)
	until(n.t, leader.name+" lists "+n.name+" as a voter", func() (bool, string) {
		d, err := leader.cluster()
		if err != nil {
			return false, err.Error()
		}
		for _, m := range d.Members {
			if m.ID == n.id() {
				return m.Role == "voter", m.Role
			}
		}
		return false, "not listed"
	})
}

// leads waits until one of the nodes says that it leads, and returns it.
func leads(t *testing.T, nodes ...*node) (leader *node) {
	t.Helper()
	until(t, "a voter leads", func() (bool, string) {
		said := ""
		for _, n := range nodes {
			d, err := n.status()
			if err != nil {
				said += n.name + ": " + err.Error() + "; "
				continue
			}
			if d.View.Leads {
				leader = n
				return true, ""
			}
		}
		return false, said
	})
	return leader
}

// threeVoters starts a founder and two machines that it promotes.
func threeVoters(t *testing.T, l *lan, args ...string) (a, b, c *node) {
	t.Helper()
	a = l.hosts[0].start(t, "alder", args...)
	nextSecond(t)
	b = l.hosts[1].joined(t, a, "birch", args...)
	c = l.hosts[2].joined(t, a, "cedar", args...)
	b.promoted(a)
	c.promoted(a)
	return a, b, c
}

// TestVoterKilledAnotherLeads: of three voters the leader is killed; another leads, writes are accepted, the learner
// follows, and the one that was killed comes back as a voter.
func TestVoterKilledAnotherLeads(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	a, b, c := threeVoters(t, l)
	d := l.hosts[3].joined(t, a, "dogwood")
	a.kill()
	began := time.Now()
	lead := leads(t, b, c)
	lead.must("--cluster-set=enrollment.per-source=9")
	t.Logf("another leads and writes after %s", time.Since(began))
	d.follows(lead)
	a.start()
	a.ready()
	a.inMode("voter", lead)
	a.follows(lead)
}
