package node

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/formation"
	"pace-node/internal/netio"
	"pace-node/internal/netsim"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// pair starts two machines of which the second asks the first.
func pair(t *testing.T, s *sim) (founder, other *Node) {
	t.Helper()
	time.Sleep(time.Until(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)))
	founder = s.start(0)
	s.nodes = append(s.nodes, founder)
	time.Sleep(2 * time.Second) // it is the elder
	other = s.start(1)
	s.nodes = append(s.nodes, other)
	if !s.until(2*time.Minute, func() bool { return len(s.waiting(founder)) == 1 }) {
		s.log.tell(t, 100)
		t.Fatal("nobody asks")
	}
	return founder, other
}

func (s *sim) waiting(n *Node) []control.EnrollRow {
	list, err := n.enrollList(context.Background())
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(list.Rows, func(r control.EnrollRow) bool { return r.Decision != control.DecisionWaiting })
}

// approve admits whoever waits under an id, and returns what is answered.
func (s *sim) approve(n, joiner *Node) (control.Done, error) {
	b, err := n.EnrollControl(context.Background(), local, wire.EnrollControl{Op: wire.ControlApprove, Argument: wire.AppendControlMember(nil, joiner.ID(), joiner.Key())})
	if err != nil {
		return control.Done{}, err
	}
	return wire.DecodeDocument[control.Done](b)
}

func (s *sim) join(t *testing.T, founder, other *Node) control.Done {
	t.Helper()
	done, err := s.approve(founder, other)
	if err != nil {
		t.Fatal(err)
	}
	if !s.until(time.Minute, func() bool {
		m, ok := founder.View().Member(other.ID())
		return other.Mode() == formation.Learner && ok && m.Arrived && founder.hub.ByKey(other.Key()) != nil
	}) {
		s.log.tell(t, 100)
		t.Fatalf("not joined: %s", s.modes())
	}
	return done
}

func raised(n *Node, id string) (control.ConditionStatus, bool) {
	for _, c := range n.board.List() {
		if c.ID == id {
			return c, true
		}
	}
	return control.ConditionStatus{}, false
}

// TestConditionsOfAFleet: what needs members is not raised in a fleet of one, and goes when it is one again.
func TestConditionsOfAFleet(t *testing.T) {
	dir := t.TempDir()
	netsim.Bubble(t, func(t *testing.T) {
		s := newSim(t, 1, dir)
		defer s.stop()
		founder, other := pair(t, s)
		time.Sleep(2 * time.Minute)
		for _, id := range []string{"single-voter-fleet", "provisioning-paused"} {
			if c, ok := raised(founder, id); ok {
				t.Errorf("a fleet of one raises %+v", c)
			}
		}
		before := founder.View().Revision()
		done := s.join(t, founder, other)
		if done.Revision != before+1 {
			t.Errorf("the approval says revision %d, and it is %d", done.Revision, before+1)
		}
		for _, n := range s.nodes {
			if !s.until(time.Minute, func() bool { _, ok := raised(n, "single-voter-fleet"); return ok }) {
				t.Errorf("%s does not raise single-voter-fleet", n.name)
			}
		}
		want := "pace-node --cluster-admit=" + other.ID() + "=" + "10.77.0.2:6680"
		if c, _ := raised(founder, "single-voter-fleet"); c.Remedy != want {
			t.Errorf("the remedy is %q, want %q", c.Remedy, want)
		}
		if _, ok := raised(founder, "provisioning-paused"); !ok {
			t.Error("a fleet with members and nothing to provision them with does not say so")
		}
		if _, err := founder.Cluster(context.Background(), local, wire.ClusterRequest{Op: "forget", ID: other.ID()}); err != nil {
			t.Fatal(err)
		}
		if !s.until(time.Minute, func() bool { return other.Mode() != formation.Learner && founder.View().Len() == 1 }) {
			t.Fatalf("not forgotten: %s", s.modes())
		}
		time.Sleep(2 * time.Second)
		for _, n := range s.nodes {
			for _, id := range []string{"single-voter-fleet", "provisioning-paused", "consensus-leader-silent"} {
				if c, ok := raised(n, id); ok {
					t.Errorf("%s, a fleet of one again, raises %+v", n.name, c)
				}
			}
		}
		if c, ok := raised(other, "own-key-revoked"); !ok || strings.Count(c.Detail, founder.View().Cluster()) != 1 {
			t.Errorf("%+v, want the fleet named once", c)
		}
		// Its row still says approved: who wants it back is told of the key, not to forget it once more.
		var e *wire.Error
		if _, err := s.approve(founder, other); !errors.As(err, &e) || !strings.Contains(e.Text, "revoked") || !strings.Contains(e.Hint, "--reset-identity") {
			t.Errorf("a forgotten machine is approved once more: %v", err)
		}
	})
}

// TestWaitingListIsTheLeaders: another member says where it is, so that a client follows.
func TestWaitingListIsTheLeaders(t *testing.T) {
	dir := t.TempDir()
	netsim.Bubble(t, func(t *testing.T) {
		s := newSim(t, 2, dir)
		defer s.stop()
		founder, other := pair(t, s)
		if _, err := other.EnrollControl(context.Background(), local, wire.EnrollControl{Op: wire.ControlList}); err != nil {
			t.Errorf("a pending machine has a list of its own, an empty one: %v", err)
		}
		s.join(t, founder, other)
		s.until(time.Minute, func() bool { return other.leader().endpoint != "" })
		_, err := other.EnrollControl(context.Background(), local, wire.EnrollControl{Op: wire.ControlList})
		var e *wire.Error
		if !errors.As(err, &e) || e.Code != wire.CodeNotLeader || e.Text != "10.77.0.1:6674" {
			t.Errorf("a learner answers %v, want the leader's endpoint", err)
		}
	})
}

// silent serves nothing.
type silent struct{}

func (silent) ServeStream(context.Context, *netio.Session, net.Conn) {}
func (silent) SessionOpened(*netio.Session)                          {}
func (silent) SessionClosed(*netio.Session, error)                   {}

// TestClonedIsNotProvisioned: two live sessions of one member's key keep both out of provisioning until one is gone.
func TestClonedIsNotProvisioned(t *testing.T) {
	dir := t.TempDir()
	netsim.Bubble(t, func(t *testing.T) {
		s := newSim(t, 3, dir)
		defer s.stop()
		founder, other := pair(t, s)
		s.join(t, founder, other)
		in := func() bool { return slices.Contains(founder.reachable(), other.ID()) }
		if !in() {
			t.Fatal("a member with one session is not asked who wants provisioning")
		}
		hub := netio.NewHub(netio.HubConfig{Key: other.key, Handler: silent{}, Dialer: s.net.Dialer(netip.MustParseAddr("10.77.0.9"))})
		defer hub.Close()
		copied, err := hub.Dial(context.Background(), "10.77.0.1:6674", nil)
		if err != nil {
			t.Fatal(err)
		}
		hello, _ := json.Marshal(wire.Hello{ID: other.ID(), Wire: []int{1}, Format: 1})
		if _, err := netio.Call(context.Background(), copied, wire.VerbHello, hello); err != nil {
			t.Fatal(err)
		}
		if !s.until(10*time.Second, func() bool { return founder.board.Raised("identity-cloned") }) {
			t.Fatal("identity-cloned is not raised")
		}
		// The leader may not be told to reset itself: whose key it is has to be looked at first.
		for _, c := range founder.board.List() {
			if c.ID == "identity-cloned" && !strings.HasPrefix(c.Remedy, "pacectl member show "+other.ID()+" ") {
				t.Errorf("the remedy is %q", c.Remedy)
			}
		}
		if in() {
			t.Error("a cloned machine is asked who wants provisioning")
		}
		if err := founder.callMember(context.Background(), other.ID(), wire.VerbQuery, nil, nil); !errors.Is(err, errCloned) {
			t.Errorf("a cloned machine is called: %v", err)
		}
		e := other.startupEvent(other.serving.Load(), other.announcement())
		var refused *wire.Error
		if _, err := netio.Call(context.Background(), copied, wire.VerbStartupEvent, e.Append(nil)); !errors.As(err, &refused) || refused.Code != wire.CodeRefusedByRule {
			t.Errorf("a cloned machine's startup event is taken: %v", err)
		}
		copied.Close(nil)
		if !s.until(10*time.Second, in) {
			t.Error("it stays out of provisioning after the copy is gone")
		}
		if !s.until(seenFor+time.Minute, func() bool { return !founder.board.Raised("identity-cloned") }) {
			t.Error("identity-cloned is not cleared")
		}
	})
}

// TestMoveRefused: a record that cannot be written raises the condition, which goes once the move is made.
func TestMoveRefused(t *testing.T) {
	dir := t.TempDir()
	netsim.Bubble(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)))
		s := newSim(t, 4, dir)
		defer s.stop()
		founder := s.start(0)
		s.nodes = append(s.nodes, founder)
		time.Sleep(2 * time.Second)
		other := s.start(1)
		s.nodes = append(s.nodes, other)
		record := filepath.Join(dir, "m001", statedir.RecordFile)
		if err := errors.Join(os.Remove(record), os.MkdirAll(filepath.Join(record, "in-the-way"), 0o700)); err != nil {
			t.Fatal(err)
		}
		if !s.until(2*time.Minute, func() bool { return other.board.Raised("formation-move-refused") }) {
			s.log.tell(t, 50)
			t.Fatalf("not raised: %s", s.modes())
		}
		if c, _ := raised(other, "formation-move-refused"); c.Severity != "alert" || c.Remedy != "df -h "+filepath.Join(dir, "m001") {
			t.Errorf("%+v", c)
		}
		if other.Mode() != formation.Solitary {
			t.Errorf("it is %s without a record", other.Mode())
		}
		if err := os.RemoveAll(record); err != nil {
			t.Fatal(err)
		}
		if !s.until(2*time.Minute, func() bool { return other.Mode() == formation.Pending && !other.board.Raised("formation-move-refused") }) {
			t.Errorf("%s, conditions %+v", other.Mode(), other.board.List())
		}
	})
}

// TestEveryStatusSaysItsRevision: what a person reads says of which state it is.
func TestEveryStatusSaysItsRevision(t *testing.T) {
	dir := t.TempDir()
	netsim.Bubble(t, func(t *testing.T) {
		s := newSim(t, 5, dir)
		defer s.stop()
		n := s.start(0)
		s.nodes = append(s.nodes, n)
		time.Sleep(5 * time.Second) // its first entries are applied
		for _, what := range []string{"node", "cluster", "conditions", "audit"} {
			raw, err := n.Status(context.Background(), local, wire.StatusRequest{What: what})
			if err != nil {
				t.Fatal(err)
			}
			doc, err := wire.DecodeDocument[struct{ View control.View }](raw)
			if err != nil || doc.View.Revision != n.View().Revision() || doc.View.Revision == 0 {
				t.Errorf("%s: revision %d (%v), want %d", what, doc.View.Revision, err, n.View().Revision())
			}
		}
	})
}
