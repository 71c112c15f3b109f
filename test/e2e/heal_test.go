//go:build e2e

package e2e

import (
	"slices"
	"testing"
)

// TestSplitHealsOnAVotersKey: of a fleet of three voters and two learners one voter goes by force and joins an older fleet.
// What it left is the younger fleet, whose roster holds it as a voter still: its leader dissolves it, everybody asks the
// elder, and a learner that was off meanwhile is told when it comes back.
func TestSplitHealsOnAVotersKey(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 6)
	elder := l.hosts[0].start(t, "alder", "--discovery=") // it is found only by whom it is typed to
	elder.must("--cluster-set=enrollment.per-source=8")
	nextSecond(t)
	a := l.hosts[1].start(t, "birch")
	nextSecond(t)
	b, c := l.hosts[2].joined(t, a, "cedar"), l.hosts[3].joined(t, a, "dogwood")
	near, away := l.hosts[4].joined(t, a, "elm"), l.hosts[5].joined(t, a, "fir")
	b.promoted(a)
	c.promoted(a)
	away.follows(a)
	away.stop()
	old := a.clusterID()

	if out, err := c.pacectl("fleet", "leave", "--force", "--yes="+old); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.stop()
	c.args = append(c.args, "--fleet-seed="+elder.endpoint())
	c.start()
	c.ready()
	c.approve(elder)
	c.inMode("learner", elder)

	for _, n := range []*node{a, b, near} {
		n.approve(elder)
	}
	for _, n := range []*node{a, b, near} {
		n.inMode("learner", elder)
		n.follows(elder)
	}
	for n, store := range map[*node]string{a: "consensus", b: "consensus", near: "follow"} {
		if got := n.archived(); !slices.Contains(got, old+"/"+store) {
			t.Errorf("%s archived %q", n.name, got)
		}
	}

	away.start()
	away.ready()
	away.approve(elder)
	away.inMode("learner", elder)
	away.follows(elder)
	d, err := elder.cluster()
	if err != nil || len(d.Members) != 6 {
		t.Fatalf("%v: %+v", err, d.Members)
	}
	for _, m := range d.Members {
		if voter := m.Name == "alder"; voter != (m.Role == "voter") {
			t.Errorf("%s is a %s", m.Name, m.Role)
		}
	}
}
