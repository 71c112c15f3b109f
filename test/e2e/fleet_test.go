//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// nextSecond waits until fleets founded from now on are younger than those before: their age counts in whole seconds.
func nextSecond(t *testing.T) {
	t.Helper()
	began := time.Now().Unix()
	until(t, "the next second", func() (bool, string) { return time.Now().Unix() > began, "" })
}

func TestThreeStartedInTurnFormOneFleet(t *testing.T) {
	l := newLAN(t, 3)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].start(t, "birch")
	b.approve(a)
	b.inMode("learner", a)
	c := l.hosts[2].start(t, "cedar")
	c.approve(a)
	c.inMode("learner", a)
	a.inMode("voter", a)
	until(t, "all three show the same members", func() (bool, string) {
		var want string
		for _, n := range []*node{a, b, c} {
			d, err := n.cluster()
			if err != nil {
				return false, err.Error()
			}
			got := ""
			for _, m := range d.Members {
				got += m.ID + " " + m.Key + " " + m.Name + " " + m.Role + "\n"
			}
			if len(d.Members) != 3 || want != "" && got != want {
				return false, n.name + " shows:\n" + got
			}
			want = got
		}
		return strings.Count(want, "voter") == 1 && strings.Count(want, "learner") == 2, want
	})
}

func TestTenPoweredOnTogetherEndAsOneFleet(t *testing.T) { // field cases P15 and P23: ten machines on one hardware
	const machines = 10
	l := newLAN(t, machines)
	nodes := make([]*node, machines)
	for i, h := range l.hosts {
		nodes[i] = h.newNode(t, fmt.Sprintf("m%02d", i))
	}
	for _, n := range nodes {
		n.start()
	}
	for _, n := range nodes {
		n.ready()
	}
	// Exactly one of them is asked by all others, whatever came first.
	var founder *node
	until(t, "nine pending and one asked", func() (bool, string) {
		founder = nil
		pending := 0
		for _, n := range nodes {
			d, err := n.status()
			if err != nil {
				return false, err.Error()
			}
			switch d.Mode {
			case "pending":
				pending++
			case "solitary":
				founder = n
			}
		}
		return pending == machines-1 && founder != nil, fmt.Sprintf("%d pending", pending)
	})
	for _, n := range nodes {
		if n != founder {
			n.approve(founder)
		}
	}
	for _, n := range nodes {
		if n != founder {
			n.inMode("learner", founder)
		}
	}
	d, err := founder.cluster()
	if err != nil || len(d.Members) != machines {
		t.Fatalf("the founder lists %d members (%v), want %d", len(d.Members), err, machines)
	}
	ids := map[string]bool{}
	for _, n := range nodes {
		ids[n.id()] = true
		if s, err := n.status(); err != nil || s.has("identity-cloned") || s.has("identity-clash") {
			t.Errorf("%v: %s calls somebody a copy: %+v", err, n.name, s.Conditions)
		}
	}
	if len(ids) != machines {
		t.Errorf("%d machines have %d ids", machines, len(ids))
	}
}
