package node

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

func unreachable(n *Node) bool { _, ok := condition(n, "fleet-unreachable"); return ok }

// TestSimFleetUnreachable: a learner says after a day that it reaches nobody, and takes it back.
func TestSimFleetUnreachable(t *testing.T) {
	simulate(t, 331, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent", "id=fleet-unreachable"}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		s.cut(between(0))
		for range 23 * 2 {
			time.Sleep(30 * time.Minute)
			if unreachable(a) || unreachable(b) {
				t.Fatalf("it is said too early: %v, %v", unreachable(a), unreachable(b))
			}
		}
		s.want(2*time.Hour, "a day is over", func() bool { return unreachable(b) })
		for _, x := range b.board.List() {
			if x.ID == "fleet-unreachable" && (!strings.Contains(x.Remedy, "pacectl fleet recover") || !strings.Contains(x.Remedy, "fleet leave")) {
				t.Errorf("its remedy is %q", x.Remedy)
			}
		}
		if unreachable(a) {
			t.Error("the one that leads says so")
		}
		s.cut(nil)
		s.want(5*time.Minute, "it is over", func() bool { return !unreachable(b) })
	})
}

// TestSimStrangersSpeakForTheFleet: a machine that was away while every voter that it knows was replaced says under which
// keys its fleet goes on, and follows one once it is accepted.
func TestSimStrangersSpeakForTheFleet(t *testing.T) {
	simulate(t, 332, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent", "id=fleet-unreachable", "id=own-key-revoked"}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		s.halt(1)
		c := s.boot(2)
		s.joined(a, c)
		s.promote(a, c)
		s.must(s.asked(a, forget(a)))
		s.want(time.Minute, "the founder is gone", func() bool { return a.Mode() == formation.Solitary && len(c.View().Voters()) == 1 })
		s.halt(0)
		b = s.boot(1)
		s.want(5*time.Minute, "it meets strangers", func() bool { return unreachable(b) })
		detail, _ := condition(b, "fleet-unreachable")
		if !strings.Contains(detail, c.Key().String()) || b.Mode() != formation.Learner {
			t.Errorf("it is %s and says %q", b.Mode(), detail)
		}
		for _, x := range b.board.List() {
			if x.ID == "fleet-unreachable" && x.Remedy != "pacectl fleet accept "+c.Key().String() {
				t.Errorf("its remedy is %q", x.Remedy)
			}
		}
		_, err := typed(b, acceptRequest(c))
		s.must(err)
		s.want(time.Minute, "it follows", func() bool { return follows(b, c) && !unreachable(b) })
	})
}

func (s *sim) stale(n *Node, d time.Duration) (control.StaleList, error) {
	raw, err := n.Status(s.t.Context(), local, wire.StatusRequest{What: "stale", ForMS: d.Milliseconds()})
	var out control.StaleList
	if err == nil {
		s.must(json.Unmarshal(raw, &out))
	}
	return out, err
}

// TestSimStaleMembers: the leader lists who was silent, as long as it can tell, and who never arrived.
func TestSimStaleMembers(t *testing.T) {
	simulate(t, 333, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b, c, d := s.boot(1), s.boot(2), s.boot(3)
		s.joined(a, b)
		s.joined(a, c)
		s.want(time.Minute, "the third waits", func() bool { return s.waits(a, d) })
		s.halt(2)
		s.cut(between(3)) // it never learns that it is admitted
		time.Sleep(time.Second)
		s.must(s.grant(a, d))
		time.Sleep(4 * time.Hour)
		list := func(n *Node, d time.Duration) string {
			l, err := s.stale(n, d)
			s.must(err)
			var out []string
			for _, m := range l.Members {
				x := m.Name
				if m.NeverArrived {
					x += " never"
				}
				out = append(out, x)
			}
			return strings.Join(out, ",")
		}
		both := map[bool]string{true: "m002,m003 never", false: "m003 never,m002"}[c.id < d.id]
		for span, want := range map[time.Duration]string{3 * time.Hour: both, 5 * time.Hour: ""} {
			if got := list(a, span); got != want {
				t.Errorf("silent for %s: %q, want %q", span, got, want)
			}
		}
		_, err := s.stale(b, time.Hour)
		if err == nil {
			t.Error("a learner says who is silent")
		}
		// Nor does a date before 2026 say since when, of an admission by a leader without a clock.
		now := time.Now()
		for admitted, want := range map[int64]time.Duration{20: now.Sub(a.serving.Load().began), now.Add(-48 * time.Hour).Unix(): 48 * time.Hour} {
			var got time.Duration
			s.must(a.ask(context.Background(), func(time.Time) {
				got = a.silentFor(now, a.body, fleet.Member{ID: "never", Key: identity.NewPrivateKey([32]byte{9}).Public(), Admitted: admitted})
			}))
			if (got - want).Abs() > time.Minute {
				t.Errorf("admitted at %d: silent for %s, want %s", admitted, got, want)
			}
		}
		// A leader that has just started does not know.
		s.halt(0)
		a = s.boot(0)
		time.Sleep(time.Minute)
		l, err := s.stale(a, 3*time.Hour)
		s.must(err)
		if len(l.Members) != 1 || l.Members[0].ID != d.id || l.ListenedMS > 120_000 {
			t.Errorf("after a restart it lists %+v, having listened %d ms", l.Members, l.ListenedMS)
		}
	})
}

// TestSimHardware: a directory that came to other hardware says so while it serves, and belongs there after an hour in its
// fleet's sight (field case P23); ten machines on one hardware are ten machines.
func TestSimHardware(t *testing.T) {
	simulate(t, 334, func(t *testing.T, s *sim) {
		s.expect = []string{"id=identity-cloned", "id=consensus-leader-silent"}
		on := func(hw string) tweak {
			return func(c *Config) { c.Mint.Hardware, c.Mint.Entropy, c.Mint.Now = hw, c.Entropy, time.Now() }
		}
		a := s.boot(0, on("host"))
		time.Sleep(2 * time.Second)
		var all []*Node
		for i := 1; i < 10; i++ {
			n := s.boot(i, on("host"))
			s.joined(a, n)
			all = append(all, n)
		}
		cloned := func(n *Node) bool { _, ok := condition(n, "identity-cloned"); return ok }
		for _, n := range append(all, a) {
			if cloned(n) {
				t.Errorf("%s is called a copy", n.name)
			}
		}
		if a.View().Len() != 10 {
			t.Errorf("%d members", a.View().Len())
		}
		for i := 1; i < 10; i++ {
			s.halt(i)
		}
		b := s.boot(1, on("another host"))
		s.want(time.Minute, "it says so, and follows", func() bool { return cloned(b) && follows(b, a) })
		s.halt(0) // out of sight of its fleet it proves nothing
		s.never(2*time.Hour, "it took the place for its own", func() bool { return !cloned(b) })
		a = s.boot(0)
		s.want(63*time.Minute, "it belongs there", func() bool { return !cloned(b) })
		s.halt(1)
		b = s.boot(1)
		s.never(time.Minute, "it says it again", func() bool { return cloned(b) })
	})
}
