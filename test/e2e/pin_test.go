//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/statedir"
)

const refusals = "pace_formation_pin_refusals_total"

// pin is the line to paste that a node prints.
func (n *node) pin() string {
	n.t.Helper()
	d, err := n.status()
	if err != nil {
		n.t.Fatal(err)
	}
	if p, err := formation.ParsePin(d.FleetID); err != nil || p.String() != d.FleetID {
		n.t.Fatalf("%s prints %q, which does not read again: %v", n.name, d.FleetID, err)
	}
	return d.FleetID
}

func (n *node) clusterID() string {
	n.t.Helper()
	c, err := n.cluster()
	if err != nil {
		n.t.Fatal(err)
	}
	return c.Cluster
}

func pinOf(cluster string, keys ...identity.PublicKey) string {
	return (&formation.Pin{Cluster: cluster, Keys: keys}).String()
}

// refusesNaming waits until the node has refused a way in and shows whom, by these words.
func (n *node) refusesNaming(words ...string) {
	n.t.Helper()
	until(n.t, n.name+" raises foreign-fleet-visible naming "+strings.Join(words, ", "), func() (bool, string) {
		out, err := n.pacectl("node")
		if err != nil {
			return false, out
		}
		line := lineWith(out, append([]string{"foreign-fleet-visible"}, words...)...)
		return line != "" && n.metrics().of(n.t, refusals) > 0, out
	})
}

// neverAsked fails if the machine has told the impostor anything about itself.
func (i *impostor) neverAsked(n *node) {
	i.t.Helper()
	for _, what := range []string{"hello", "enroll"} {
		if c := i.count(what, n.key().Public()); c != 0 {
			i.t.Errorf("%s said %s to the impostor %d times", n.name, what, c)
		}
	}
}

// The rows of the pin's table, each under its own words, unpinned beside pinned.
func TestThreatPin(t *testing.T) {
	t.Run("Mint a fleet and prove it older", func(t *testing.T) {
		t.Parallel()
		l := newLAN(t, 4)
		a := l.hosts[0].start(t, "alder", metered)
		nextSecond(t)
		fake := fmt.Sprintf("%032x", 0xbad)
		m, _ := l.hosts[1].impostor(t, lie{Seed: [32]byte{1}, Cluster: fake, Created: 0, Answer: "wait"})
		// Unpinned: every solitary node that hears it asks to join.
		u := l.hosts[2].start(t, "unpinned")
		m.has("enroll", u.key().Public())
		u.inMode("pending", nil)
		m.has("enroll", a.key().Public()) // the founder of one too
		u.stop()
		// Pinned: not asked; counted, and raised as foreign-fleet-visible.
		a.stop()
		a.args = append(a.args, "--fleet-id="+pinOf(a.recordedCluster(), a.key().Public()))
		a.start()
		a.ready()
		a.inMode("solitary", nil)
		a.refusesNaming(fake)
		p := l.hosts[3].start(t, "pinned", metered, "--fleet-id="+a.pin())
		p.approve(a)
		p.inMode("learner", a)
		m.neverAsked(p)
	})
	t.Run("Claim the pinned fleet's id under its own key, by beacon or as a seed", func(t *testing.T) {
		t.Parallel()
		l := newLAN(t, 5)
		a := l.hosts[0].start(t, "alder", metered)
		nextSecond(t)
		id, pin := a.clusterID(), a.pin()
		a.host.cut()
		m, _ := l.hosts[1].impostor(t, lie{Seed: [32]byte{2}, Cluster: id, Created: 0, Answer: "approve"})
		own := m.key().Public()
		// Unpinned: joined, exactly as above.
		u := l.hosts[2].start(t, "unpinned")
		u.inMode("learner", nil)
		if got := u.recordedCluster(); got != id {
			t.Errorf("it joined %s", got)
		}
		// Pinned: not asked; counted, and raised naming the impostor's key.
		p := l.hosts[3].start(t, "pinned", metered, "--fleet-id="+pin)
		p.refusesNaming(id, own.String())
		s := l.hosts[4].start(t, "seeded", metered, "--discovery=", "--fleet-id="+pin, "--fleet-seed="+l.hosts[1].addr.String())
		s.refusesNaming(id, own.String())
		s.stop()
		// It is still free for the true one.
		a.host.join()
		p.approve(a)
		p.inMode("learner", a)
		for _, n := range []*node{p, s} {
			m.neverAsked(n)
		}
	})
	t.Run("Claim the pinned fleet's id, and that a pinned key leads it at the impostor's own endpoint", func(t *testing.T) {
		t.Parallel()
		l := newLAN(t, 4)
		a := l.hosts[0].start(t, "alder", metered)
		nextSecond(t)
		b := l.hosts[2].joined(t, a, "birch")
		b.follows(a)
		id, pin := a.clusterID(), a.pin()
		m, _ := l.hosts[1].impostor(t, lie{Seed: [32]byte{3}, Cluster: id, LeaderKey: a.key().Public().String(), Answer: "approve"})
		m.LeaderEndpoint = m.endpoint()
		a.host.cut() // only the fleet's learner and the impostor are heard
		p := l.hosts[3].start(t, "pinned", metered, "--fleet-id="+pin)
		p.refusesNaming(id, m.key().Public().String())
		m.neverAsked(p)
		if c := m.count("summary", p.key().Public()); c != 0 {
			t.Errorf("the impostor was asked for its summary %d times", c)
		}
		// The learner's true word is not held up by the false one.
		a.host.join()
		p.approve(a)
		p.inMode("learner", a)
		m.neverAsked(p)
	})
	t.Run("Answer the node's Enroll, or redirect it to a leader of its choosing", func(t *testing.T) {
		t.Parallel()
		t.Run("answers", func(t *testing.T) {
			t.Parallel()
			for _, pinned := range []bool{false, true} {
				t.Run(fmt.Sprintf("pinned %v", pinned), func(t *testing.T) {
					t.Parallel()
					l := newLAN(t, 3)
					a := l.hosts[0].start(t, "alder")
					nextSecond(t)
					id := a.clusterID()
					args := []string{metered}
					if pinned {
						args = append(args, "--fleet-id="+a.pin())
					}
					n := l.hosts[1].start(t, "asker", args...)
					n.asks(a)
					// Somebody else is where the leader was.
					a.kill()
					a.host.cut()
					l.hosts[2].readdress(l.hosts[0].addr.String() + "/16")
					n.host.ip("neigh", "flush", "all") // as its next entry would tell it in half a minute
					m, _ := l.hosts[2].impostor(t, lie{Seed: [32]byte{4}, Cluster: id, Answer: "approve", Mute: true})
					if !pinned { // its approval is taken
						m.has("enroll", n.key().Public())
						n.inMode("learner", nil)
						return
					}
					// Refused unless a pinned voter signed it.
					n.refusesNaming(id, m.key().Public().String())
					n.inMode("pending", nil)
					m.neverAsked(n)
				})
			}
		})
		t.Run("redirects", func(t *testing.T) {
			t.Parallel()
			for _, pinned := range []bool{false, true} {
				t.Run(fmt.Sprintf("pinned %v", pinned), func(t *testing.T) {
					t.Parallel()
					l := newLAN(t, 3)
					id := fmt.Sprintf("%032x", 0xfee7)
					chosen, _ := l.hosts[1].impostor(t, lie{Seed: [32]byte{5}, Cluster: id, Created: 1, Answer: "approve", Mute: true})
					first, _ := l.hosts[0].impostor(t, lie{Seed: [32]byte{6}, Cluster: id, Created: 1, Answer: "redirect", To: chosen.endpoint()})
					args := []string{metered}
					if pinned {
						args = append(args, "--fleet-id="+pinOf(id, first.key().Public()))
					}
					n := l.hosts[2].start(t, "asker", args...)
					first.has("enroll", n.key().Public())
					if !pinned {
						chosen.has("enroll", n.key().Public())
						n.inMode("learner", nil)
						return
					}
					// A leader whose key is not pinned is never asked, and the refusal names the key to add.
					n.refusesNaming(id, chosen.key().Public().String())
					n.inMode("pending", nil)
					chosen.neverAsked(n)
				})
			}
		})
	})
}

// The last rows of the pin's table: what a pin does not defend against, and its remedy.
func TestThreatPinLost(t *testing.T) {
	t.Run("Hold a pinned voter's identity key", func(t *testing.T) {
		t.Parallel()
		l := newLAN(t, 4)
		a := l.hosts[0].start(t, "alder", metered)
		id, pin, stolen := a.clusterID(), a.pin(), a.key().Public()
		other := identity.NewPrivateKey([32]byte{8}).Public()
		seed := a.seed()
		a.stop()
		m, _ := l.hosts[1].impostor(t, lie{Seed: seed, Cluster: id, Created: 0, Answer: "approve"})
		// That voter's exposure everywhere: whoever is pinned to its key joins whoever holds it.
		p := l.hosts[2].start(t, "pinned", metered, "--fleet-id="+pin)
		m.has("enroll", p.key().Public())
		p.inMode("learner", nil)
		if got := p.recordedCluster(); got != id {
			t.Errorf("it joined %s", got)
		}
		// Pinned anew, to another voter's key, a machine does not.
		q := l.hosts[3].start(t, "repinned", metered, "--fleet-id="+pinOf(id, other))
		q.refusesNaming(id, stolen.String())
		m.neverAsked(q)
	})
	t.Run("Capture the fleet's quorum after the node joined", func(t *testing.T) {
		t.Parallel()
		l := newLAN(t, 5)
		a := l.hosts[0].start(t, "alder", metered)
		nextSecond(t)
		id, pin, seed := a.clusterID(), a.pin(), a.seed()
		p := l.hosts[2].joined(t, a, "pinned", metered, "--fleet-id="+pin)
		b := l.hosts[1].joined(t, a, "birch", metered, "--provision-default="+provisionFile(t))
		b.promoted(a)
		// The voter that the pin names is forgotten: what is left of the quorum is not pinned.
		a.must("--cluster-forget=" + a.id())
		leads(t, b)
		// The pin is not asked after the join: the machine follows, and takes the work that it is granted.
		b.must("--cluster-set=enrollment.per-source=7")
		p.follows(b)
		until(t, "it is provisioned by who is not pinned", func() (bool, string) {
			d, err := b.cluster()
			if err != nil {
				return false, err.Error()
			}
			for _, m := range d.Members {
				if m.ID == p.id() {
					return m.Provisioning == "provisioned", m.Provisioning
				}
			}
			return false, "not listed"
		})
		p.kill()
		p.start() // its record was signed by the pinned key
		p.ready()
		p.follows(b)
		if d, err := p.status(); err != nil || d.has("pin-disagrees") {
			t.Errorf("%v: its pin disagrees", err)
		}
		// The key that was revoked leads nobody into the fleet who is pinned anew.
		a.kill()
		m, _ := l.hosts[3].impostor(t, lie{Seed: seed, Cluster: id, Created: 0, Answer: "approve"})
		q := l.hosts[4].start(t, "repinned", metered, "--fleet-id="+b.pin())
		q.approve(b)
		q.inMode("learner", b)
		m.neverAsked(q)
		if m.count("hello", p.key().Public()) != 0 {
			t.Error("a member talked to whoever holds the revoked key")
		}
	})
}

// provisionFile is a helper's answer for every machine.
func provisionFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "default.json")
	if err := os.WriteFile(path, []byte(`{"configuration":{"plugin.choria.server":"broker.example:4222"}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A machine in a fleet that its pin does not admit starts, says so, and takes no work; with the right pin it is as before.
func TestPinThatDisagrees(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch", metered)
	b.follows(a)
	pin := a.pin()
	other := identity.NewPrivateKey([32]byte{9}).Public()
	for _, wrong := range []string{pinOf(a.clusterID(), other), pinOf(fmt.Sprintf("%032x", 1), a.key().Public())} {
		b.stop()
		b.args = []string{metered, "--fleet-id=" + wrong}
		b.start()
		b.ready()
		b.shows("that its pin disagrees", func(d nodeDoc) bool { return d.Mode == "learner" && d.has("pin-disagrees") })
		b.follows(a) // it is a member as before
		if out := b.must("--cluster-status"); !strings.Contains(out, "pin-disagrees") || !strings.Contains(out, "takes no work") {
			t.Errorf("it does not say what that means:\n%s", out)
		}
	}
	b.stop()
	b.args = []string{metered, "--fleet-id=" + pin}
	b.start()
	b.ready()
	b.follows(a)
	if d, err := b.status(); err != nil || d.has("pin-disagrees") {
		t.Errorf("%v: the right pin disagrees", err)
	}
	// A learner prints the same pin as the voter.
	if got := b.pin(); got != pin {
		t.Errorf("birch prints %s, alder %s", got, pin)
	}
}

// Every form that is no pin is refused where it is typed, each with its own sentence.
func TestPinsAreRefusedWhereTyped(t *testing.T) {
	key := func(i int) string { return identity.NewPrivateKey([32]byte{byte(i), 7}).Public().String() }
	id := fmt.Sprintf("%032x", 0xabc)
	many := make([]string, 17)
	for i := range many {
		many[i] = key(i)
	}
	said := map[string]bool{}
	for _, c := range []struct{ what, text, word string }{
		{"an id without a key", id, "names no key"},
		{"31 hex", id[1:] + "@" + key(1), "it has 31 characters"},
		{"upper case", strings.ToUpper(id) + "@" + key(1), "lower case"},
		{"a bad key", id + "@" + key(1)[1:], "43 characters"},
		{"a small-order key", id + "@" + strings.Repeat("A", 43), "43 characters"},
		{"a repeated key", id + "@" + key(1) + "," + key(1), "comes twice"},
		{"a 17th key", id + "@" + strings.Join(many, ","), "at most 16"},
	} {
		out, err := exec.Command(binary, "--check-arguments", "--fleet-id="+c.text).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--fleet-id") || !strings.Contains(string(out), c.word) || said[string(out)] {
			t.Errorf("%s: %v: %s", c.what, err, out)
		}
		said[string(out)] = true
	}
	if out, err := exec.Command(binary, "--check-arguments", "--fleet-id="+id+"@"+strings.Join(many[:16], ",")).CombinedOutput(); err != nil {
		t.Errorf("16 keys: %v: %s", err, out)
	}
}

// seed is the secret of the node's own key, as a thief reads it.
func (n *node) seed() [32]byte {
	n.t.Helper()
	return n.key().Seed()
}

// recordedCluster is the fleet that the node's record names.
func (n *node) recordedCluster() string {
	n.t.Helper()
	r, _, err := statedir.Peek(n.dir)
	if err != nil {
		n.t.Fatal(err)
	}
	return r.Cluster
}
