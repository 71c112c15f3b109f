package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/wire"
)

// watched asks a node what a person at it sees.
func watched(t *testing.T, n *Node, p control.Peer, after uint64) control.WatchStatus {
	t.Helper()
	b, err := n.Status(context.Background(), p, wire.StatusRequest{What: "watch", After: after})
	if err != nil {
		t.Fatalf("%s: %v", n.name, err)
	}
	d, err := wire.DecodeDocument[control.WatchStatus](b)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// happened are the events of a picture: kind, what and whose.
func happened(d control.WatchStatus) string {
	var s []string
	for _, e := range d.Events {
		s = append(s, e.Kind+" "+e.What+" "+e.ID)
	}
	return strings.Join(s, "\n") + "\n"
}

// inOrder looks for each text behind the one before it.
func inOrder(t *testing.T, text string, want ...string) {
	t.Helper()
	at := 0
	for _, w := range want {
		i := strings.Index(text[at:], w)
		if i < 0 {
			t.Fatalf("no %q behind byte %d in:\n%s", w, at, text)
		}
		at += i + len(w)
	}
}

// TestSimWatch: what happens at the leader is told in its order, startup events among it.
func TestSimWatch(t *testing.T) {
	simulate(t, 1051, func(t *testing.T, s *sim) {
		founder := s.boot(0, provisioning)
		time.Sleep(2 * time.Second)
		other := s.boot(1, provisioning)
		s.want(time.Minute, "the other waits", func() bool { return s.waits(founder, other) })
		d := watched(t, founder, local, 0)
		if len(d.Waiting) != 1 || d.Waiting[0].ID != other.ID() || d.Roles["voter"] != 1 || !d.View.Leads {
			t.Errorf("before: %+v", d)
		}
		for _, want := range []string{"startup started " + founder.ID(), "node serves " + founder.ID(), "leader leads " + founder.ID(), "enroll asks " + other.ID(), "condition raised"} {
			inOrder(t, happened(d), want)
		}
		for _, e := range d.Events {
			if e.Kind == control.EventStartup && e.What == "started" && e.Detail != "component provisioner" {
				t.Errorf("its component: %q", e.Detail)
			}
		}
		after := d.Next
		s.joined(founder, other)
		s.want(2*time.Minute, "the other is provisioned", func() bool { m, _ := founder.View().Member(other.ID()); return m.Provision.LastSuccess != 0 })
		s.want(time.Minute, "that is told", func() bool {
			return strings.Contains(happened(watched(t, founder, local, after)), "run provisioned "+other.ID())
		})
		d = watched(t, founder, local, after)
		inOrder(t, happened(d), "fleet approve "+other.ID(), "startup heard "+other.ID(), "run begun "+other.ID(), "run success "+other.ID(), "run provisioned "+other.ID())
		inOrder(t, happened(d), "condition cleared")
		if len(d.Waiting) != 0 || d.Roles["learner"] != 1 || d.Missed != 0 {
			t.Errorf("after: %+v", d)
		}
		// The learner tells what it knows itself; what it is told over the network leaves out what only administrators see.
		if own := watched(t, other, local, 0); own.Node.ID != other.ID() || !strings.Contains(happened(own), "node learner "+other.ID()) || own.View.Leads {
			t.Errorf("the learner: %+v", own)
		}
		far := watched(t, founder, control.Peer{Key: other.Key(), ID: other.ID()}, 0)
		if far.Partial == "" || len(far.Events)+len(far.Waiting)+len(far.Queue.Entries) != 0 || len(far.Members) != 2 {
			t.Errorf("a learner is told %+v", far)
		}
	})
}

// TestSimWatchOnAVoter: a voter shows its leader's picture, its own while the leader is away, and then the next leader's.
func TestSimWatchOnAVoter(t *testing.T) {
	simulate(t, 1052, func(t *testing.T, s *sim) {
		a := s.voters(3)
		b := s.nodes[1]
		s.want(time.Minute, "the leader's picture", func() bool { return watched(t, b, local, 0).Node.ID == a.ID() })
		if d := watched(t, b, local, 0); !d.View.Leads || d.Partial != "" || d.Boot != watched(t, a, local, 0).Boot {
			t.Errorf("%+v", d)
		}
		var redirect *wire.Error
		if _, err := b.Status(t.Context(), control.Peer{Key: s.nodes[2].Key()}, wire.StatusRequest{What: "watch"}); !errors.As(err, &redirect) || redirect.Code != wire.CodeNotLeader || redirect.Text != endpointOf(0) {
			t.Errorf("another voter is not sent to the leader: %v", err)
		}
		// Cut off, the leader is still the one that b knows, for a moment: it shows what it knows itself,
		// unless it is elected meanwhile.
		s.cut(between(0))
		if d := watched(t, b, local, 0); d.Node.ID != b.ID() || d.View.Leads == (d.Partial != "") || len(d.Members) != 3 {
			t.Errorf("while the leader is away: %+v", d)
		}
		s.want(time.Minute, "the next leader's picture", func() bool {
			d := watched(t, b, local, 0)
			return d.View.Leads && d.Node.ID != a.ID() && strings.Contains(happened(d), "leader leads "+d.Node.ID)
		})
		s.cut(nil)
	})
}
