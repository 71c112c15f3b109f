//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pace-node/test/docs"
)

// scenes set the stage of each scene of docs.Scenes.
var scenes = map[string]func(t *testing.T) *stage{
	"two-machines": twoMachines,
	"by-hand":      byHand,
	"quick-start":  quickStart,
	"day-two":      dayTwo,
	"pinned":       pinned,
	"leave":        leaving,
	"recover":      recovering,
	"backup":       backedUp,
	"forgotten":    forgotten,
	"copied":       copied,
	"upgrades":     upgrades,
}

func twoMachines(t *testing.T) *stage {
	l := newLAN(t, 2)
	a, b := l.hosts[0].newNode(t, "alder"), l.hosts[1].newNode(t, "birch")
	s := newStage(t, "alder", a, b)
	s.says = s.as(b)
	s.before = func(typed string, n *node) {
		if strings.HasSuffix(typed, "--enroll-list") {
			b.asks(a)
		}
	}
	s.after = func(typed string, n *node) {
		switch {
		case strings.Contains(typed, "--provision-helper"):
			nextSecond(t)
		case strings.Contains(typed, "--enroll-approve"):
			b.inMode("learner", a)
			b.configured("greeting", "hello, birch")
		}
	}
	return s
}

func byHand(t *testing.T) *stage {
	n := newLAN(t, 1).hosts[0].newNode(t, "one")
	s := newStage(t, "one", n)
	s.says = func() []string { return []string{"/tmp/one", n.dir} }
	return s
}

func quickStart(t *testing.T) *stage {
	l := newLAN(t, 3)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b, c := l.hosts[1].start(t, "birch"), l.hosts[2].start(t, "cedar")
	s := newStage(t, "alder", a, b, c)
	s.says = s.as(b, docs.OtherKey, c.keyText(), "192.0.2.3", c.host.addr.String())
	s.before = func(typed string, n *node) {
		if strings.Contains(typed, "enroll list") {
			b.asks(a)
			c.asks(a)
		}
	}
	s.after = func(typed string, n *node) {
		for who, mode := range map[string]string{"enroll approve": "learner", "member admit": "voter"} {
			if !strings.Contains(typed, who) {
				continue
			}
			if strings.Contains(typed, "cedar") {
				c.inMode(mode, a)
			} else {
				b.inMode(mode, a)
			}
		}
		if strings.Contains(typed, "fleet status") {
			a.lists(b, "voter")
			a.lists(c, "voter")
		}
	}
	return s
}

func dayTwo(t *testing.T) *stage {
	command, _ := helper(t, `printf '{"configuration":{"greeting":"hello"}}'`+"\n")
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	d, e := l.hosts[2].newNode(t, "dogwood"), l.hosts[3].start(t, "elm")
	s := newStage(t, "alder", a, b)
	s.says = s.as(b, "/usr/local/bin/helper", command)
	inventory := strings.Repeat("0", 31) + "1@" + newKey(1).Public().String() + "\n"
	if err := os.WriteFile(filepath.Join(s.dir, "inventory.txt"), []byte(inventory), 0o600); err != nil {
		t.Fatal(err)
	}
	s.before = func(typed string, n *node) {
		switch {
		case strings.Contains(typed, "enroll window 15m"):
			e.asks(a)
		case strings.Contains(typed, "enroll reject"):
			d.start()
			d.ready()
			d.asks(a)
		case strings.Contains(typed, "queue run-helper"):
			b.configured("greeting", "hello")
		}
	}
	s.after = func(typed string, n *node) {
		switch {
		case strings.Contains(typed, "member admit"):
			b.inMode("voter", a)
			a.lists(b, "voter")
		case strings.Contains(typed, "member demote"):
			b.inMode("learner", a)
		case strings.Contains(typed, "member forget"):
			b.inMode("solitary", nil)
		case strings.Contains(typed, "enroll window off"):
			e.inMode("learner", a)
		}
	}
	return s
}

func pinned(t *testing.T) *stage {
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder")
	a.must("--cluster-set=enrollment.per-source=9") // both are established: neither yields
	nextSecond(t)
	c := l.hosts[2].newNode(t, "cedar")
	c.args = []string{"--discovery=:6699"} // somewhere else, until it is established too
	c.start()
	c.ready()
	c.must("--cluster-set=enrollment.per-source=9")
	c.stop()
	c.args = nil
	c.start()
	c.ready()
	d := l.hosts[3].newNode(t, "dogwood")
	s := newStage(t, "alder", a, c, d)
	s.says = func() []string { return []string{docs.OtherFleet, c.clusterID(), docs.OtherKey, c.keyText()} }
	s.after = func(typed string, n *node) {
		if n == d {
			d.asks(c)
			d.approve(c)
			d.inMode("learner", c)
			for _, n := range []*node{a, c} {
				n.shows("the other fleet", func(d nodeDoc) bool { return d.has("foreign-fleet-visible") })
			}
		}
	}
	return s
}

func leaving(t *testing.T) *stage {
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	s := newStage(t, "birch", a, b)
	s.fleet = a.fleetID()
	s.after = func(string, *node) {
		b.inMode("solitary", nil)
		if b.listedBy(a) {
			t.Error("the fleet lists who has left")
		}
	}
	return s
}

func recovering(t *testing.T) *stage {
	l := newLAN(t, 3)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b, c := l.hosts[1].joined(t, a, "birch"), l.hosts[2].joined(t, a, "cedar")
	for _, n := range []*node{b, c} {
		n.follows(a)
	}
	s := newStage(t, "birch", b, c)
	s.fleet = a.fleetID()
	s.says = func() []string { return []string{"KEY", b.keyText()} }
	a.kill()
	s.before = func(typed string, n *node) {
		if strings.Contains(typed, "fleet recover") {
			until(t, "no leader is heard", func() (bool, string) {
				out, err := b.pacectlIn("no\n", "fleet", "recover") // not given back: nothing is done
				return err != nil && strings.Contains(out, "not given back"), out
			})
		} else {
			c.shows("the recovery", func(d nodeDoc) bool { return d.has("fleet-recovered-elsewhere") })
		}
	}
	s.after = func(typed string, n *node) {
		if strings.Contains(typed, "fleet recover") {
			b.shows("that it leads", func(d nodeDoc) bool { return d.View.Leads })
		} else {
			c.follows(b)
		}
	}
	return s
}

func backedUp(t *testing.T) *stage {
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder")
	a.must("--cluster-set=enrollment.per-source=9")
	nextSecond(t)
	c := l.hosts[1].start(t, "cedar", "--discovery=")
	s := newStage(t, "alder", a, c)
	s.fleet = a.fleetID()
	id := a.id()
	s.says = func() []string { return []string{"/media/stick/", s.path + "/"} }
	s.after = func(typed string, n *node) {
		switch {
		case strings.Contains(typed, "fleet backup"):
			a.kill()
		case strings.Contains(typed, "start pace-node"):
			c.shows("that it is the machine of the backup, and leads", func(d nodeDoc) bool { return d.View.Leads && d.NodeID == id })
			wants(t, c.must("--cluster-status"), s.fleet, "enrollment.per-source 9")
		}
	}
	return s
}

func forgotten(t *testing.T) *stage {
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	s := newStage(t, "birch", a, b)
	old := b.id()
	a.must("--cluster-forget=" + old)
	b.shows("that its key is revoked", func(d nodeDoc) bool { return d.has("own-key-revoked") })
	s.after = func(typed string, n *node) {
		if strings.Contains(typed, "start pace-node") {
			if b.id() == old {
				t.Error("the reset did not reset")
			}
			b.approve(a)
			b.inMode("learner", a)
		}
	}
	return s
}

func copied(t *testing.T) *stage {
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].start(t, "birch")
	s := newStage(t, "birch", a, b)
	old := b.id()
	s.after = func(typed string, n *node) {
		if strings.Contains(typed, "start pace-node") {
			if b.id() == old {
				t.Error("the reset did not reset")
			}
			b.asks(a)
		}
	}
	return s
}

func upgrades(t *testing.T) *stage {
	a := newLAN(t, 1).hosts[0].start(t, "alder")
	s := newStage(t, "alder", a)
	s.says = func() []string { return []string{"RW…", "RWR77b8aB/Ebcgy0o7LROSGkP5QWgCWzt6SCcmNS09vK9wXV1f2RhR1h"} }
	s.after = func(string, *node) { wants(t, a.must("--cluster-status"), "provision.profile", "releases.example") }
	return s
}
