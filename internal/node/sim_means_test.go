package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

func (s *sim) set(n *Node, name, value string) error {
	return s.asked(n, wire.ClusterRequest{Op: "set", Name: name, Value: value})
}

// TestSimProfile: a setting of the fleet gives every voter its helper, takes the queue up that had nothing to provision with,
// and says before it matters where it cannot be used.
func TestSimProfile(t *testing.T) {
	simulate(t, 471, func(t *testing.T, s *sim) {
		a := s.voters(3)
		b, c := s.nodes[1], s.nodes[2]
		d := s.boot(3)
		s.joined(a, d)
		s.want(10*time.Second, "the leader says that it has nothing to provision with", func() bool { _, ok := condition(a, "provisioning-paused"); return ok })
		time.Sleep(3 * time.Minute)
		for _, n := range s.nodes {
			if detail, ok := condition(n, "provisioning-helper-missing"); ok {
				t.Errorf("%s: nobody provisions in this fleet, and it says %q", n.name, detail)
			}
		}
		if s.metric(a, "pace_provision_paused") != 1 || counted(a, queue.CountDiscovered) != 0 {
			t.Error("the queue runs")
		}
		for value, says := range map[string]string{
			`{"provision-wrokers":"2"}`:     "provision-workers",
			`{"provision-interval":"1s"}`:   "provision-interval",
			`{"provision-mode":"always"}`:   "each machine's own",
			`{"provision-workers":"many"}`:  "provision-workers",
			`{"provision-workers":"2"`:      "no JSON object",
			`{"log-level":"debug"}`:         "no provision- option",
			`{"provision-component":"a.b"}`: "provision-component",
		} {
			if err := s.set(a, fleet.SettingProvisioning, value); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", value, err, says)
			}
		}
		answer := filepath.Join(s.dir, "answer.json")
		s.must(os.WriteFile(answer, []byte(`{"configuration":{"a":"b"}}`), 0o600))
		profile := fmt.Sprintf(`{"provision-default":%q,"provision-workers":"3"}`, answer)
		s.must(s.set(a, fleet.SettingProvisioning, profile))
		s.want(5*time.Second, "everybody is provisioned", func() bool {
			return provisioned(a, a) && provisioned(b, a) && provisioned(c, a) && provisioned(d, a)
		})
		if _, ok := condition(a, "provisioning-paused"); ok {
			t.Error("the condition stands")
		}

		// Another leader has it as well.
		s.halt(0)
		var lead *Node
		s.want(10*time.Second, "another leads", func() bool { lead = s.leading(); return lead != nil })
		s.want(10*time.Second, "it takes a wish", func() bool {
			_, err := lead.Queue(t.Context(), local, wire.QueueRequest{Op: "reprovision", ID: d.id})
			return err == nil
		})
		s.want(10*time.Second, "the next leader provisions with it", func() bool { return s.metric(lead, "pace_provision_provisioned_total") == 1 })

		// It cannot be used any more: every voter says so, a learner does not.
		s.must(os.Remove(answer))
		for _, n := range []*Node{b, c} {
			s.want(2*time.Minute, n.name+" says that it could not provision", func() bool {
				detail, ok := condition(n, "provisioning-helper-missing")
				return ok && strings.Contains(detail, "no such file")
			})
		}
		if detail, ok := condition(d, "provisioning-helper-missing"); ok {
			t.Errorf("a learner says %q", detail)
		}
		s.must(s.set(lead, fleet.SettingProvisioning, ""))
		s.want(10*time.Second, "the setting is gone", func() bool { // it is handed on, for none of them has anything to provision with
			lead := s.leading()
			if lead == nil {
				return false
			}
			value, _ := lead.View().Setting(fleet.SettingProvisioning)
			return value == "" && s.metric(lead, "pace_provision_paused") == 1
		})
	})
}

// TestSimLeaderWithoutMeansHandsOver: a leader with nothing to provision with parks nobody and has the voter lead that
// announced that it can; one that could and cannot any more does the same.
func TestSimLeaderWithoutMeansHandsOver(t *testing.T) {
	simulate(t, 472, func(t *testing.T, s *sim) {
		paths := []string{filepath.Join(s.dir, "b.json"), filepath.Join(s.dir, "c.json")}
		with := func(path string) tweak {
			return func(c *Config) {
				c.Settings.Provision.Default = path
				c.Settings.Typed = map[string]config.Origin{"provision-default": config.OriginFlag}
			}
		}
		for _, path := range paths {
			s.must(os.WriteFile(path, []byte(`{"configuration":{"a":"b"}}`), 0o600))
		}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b, c := s.boot(1, with(paths[0])), s.boot(2, with(paths[1]))
		s.joined(a, b)
		s.joined(a, c)
		s.must(os.Remove(paths[1]))
		s.want(2*time.Minute, "the other's default is gone", func() bool { return !c.provisions.Load() })
		s.promote(a, c)
		time.Sleep(3 * time.Minute)
		if !a.isLeader() {
			t.Fatal("it handed leadership to one that cannot either")
		}
		s.promote(a, b)
		s.want(90*time.Second, "the one that can leads", func() bool { return s.leading() == b })
		s.want(time.Minute, "it provisions", func() bool { return provisioned(a, b) && provisioned(b, b) && provisioned(c, b) })
		for _, n := range []*Node{a, c} {
			s.want(2*time.Minute, n.name+" says that it could not", func() bool { _, ok := condition(n, "provisioning-helper-missing"); return ok })
		}

		s.must(os.WriteFile(paths[1], []byte(`{"configuration":{"c":"d"}}`), 0o600))
		s.want(2*time.Minute, "the other can again", func() bool { _, ok := condition(c, "provisioning-helper-missing"); return !ok && c.provisions.Load() })
		s.must(os.Remove(paths[0]))
		s.want(2*time.Minute, "it leads", func() bool { return s.leading() == c })
		s.want(5*time.Second, "the other's queue ended", func() bool { _, ok := condition(b, "provisioning-paused"); return !ok })
		s.never(5*time.Minute, "leadership moves on", func() bool { return s.leading() != c })
		for _, n := range s.nodes {
			if m, _ := c.View().Member(n.id); m.Provision.Parked || m.Provision.LastError != "" {
				t.Errorf("%s: %+v", n.name, m.Provision)
			}
		}
	})
}

// TestSimStartIsToldUntilHeard: a machine that starts while nobody leads says so to whoever leads once somebody does, and to no
// other voter, and is provisioned then.
func TestSimStartIsToldUntilHeard(t *testing.T) {
	simulate(t, 473, func(t *testing.T, s *sim) {
		a := s.voters(3, provisioning)
		d := s.boot(3, func(c *Config) { c.Settings.Provision.Mode = "always" })
		s.joined(a, d)
		s.want(10*time.Second, "it is provisioned", func() bool { return provisioned(d, a) })
		time.Sleep(2 * time.Minute)
		s.halt(3)
		s.halt(1)
		s.halt(2)
		time.Sleep(10 * time.Second)
		d = s.boot(3)
		time.Sleep(30 * time.Second)
		// Before it knows who leads it would refuse the leader that comes to work, so it says nothing yet.
		if wants, _ := d.target.Wants(); !wants || d.target.Sequence() != 0 {
			t.Fatalf("it wants provisioning: %v, and has said so %d times", wants, d.target.Sequence())
		}
		s.boot(1)
		s.boot(2)
		var lead *Node
		s.want(30*time.Second, "somebody leads", func() bool { lead = s.leading(); return lead != nil })
		// It follows again once its own wait is over, which grew while nobody led.
		took := s.want(time.Minute, "it is provisioned by whoever leads", func() bool { return provisioned(d, lead) })
		t.Logf("%s after the election", took)
		// Who does not lead was told nothing; the leader knows which machine it is.
		if n := d.target.Sequence(); n != 1 {
			t.Errorf("it was told %d times", n)
		}
		m, _ := lead.View().Member(d.id)
		if boot := d.target.BootID(); m.Provision.BootID != hexText(boot[:]) {
			t.Errorf("the state holds the boot %q", m.Provision.BootID)
		}
	})
}

// TestSimAnotherLeaderFinishesSoon: machines that the leader of before had configured, and that were not confirmed, are taken
// up by the next one within seconds of following it, and not by a round that comes by.
func TestSimAnotherLeaderFinishesSoon(t *testing.T) {
	simulate(t, 474, func(t *testing.T, s *sim) {
		var armed atomic.Bool
		a := s.voters(3, provisioning, func(c *Config) {
			c.Point = func(name string) {
				if name == "provision.confirm.before" && armed.CompareAndSwap(true, false) {
					s.cut(between(0)) // what it says from here on nobody hears
				}
			}
		})
		s.want(10*time.Second, "the voters are provisioned", func() bool {
			return provisioned(a, a) && provisioned(s.nodes[1], a) && provisioned(s.nodes[2], a)
		})
		_, err := a.Queue(t.Context(), local, wire.QueueRequest{Op: "pause"})
		s.must(err)
		for i := 3; i < 11; i++ {
			s.joined(a, s.boot(i))
		}
		time.Sleep(2 * time.Minute)
		armed.Store(true)
		_, err = a.Queue(t.Context(), local, wire.QueueRequest{Op: "resume"})
		s.must(err)
		s.want(10*time.Second, "it is cut off while it works", func() bool { return !armed.Load() })
		var lead *Node
		s.want(30*time.Second, "another leads", func() bool { lead = s.leading(a); return lead != nil })
		left := func() (out []*Node) {
			for _, m := range s.nodes[3:] {
				if !provisioned(m, lead) {
					out = append(out, m)
				}
			}
			return out
		}
		s.want(40*time.Second, "everybody follows it", func() bool {
			for _, m := range s.nodes[3:] {
				if m.leader().id != lead.id {
					return false
				}
			}
			return true
		})
		took := s.want(4*time.Second, "it provisions everybody", func() bool { return len(left()) == 0 })
		t.Logf("%s after the last one followed", took)
	})
}

// TestSimAnotherLeaderActsInTime: another voter's queue runs within 5 s of the loss of the leader, and within a second where
// that is stopped.
func TestSimAnotherLeaderActsInTime(t *testing.T) {
	for name, c := range map[string]struct {
		goes   func(s *sim, stopped chan struct{})
		within time.Duration
	}{
		"lost": {func(s *sim, stopped chan struct{}) { s.cut(between(0)); close(stopped) }, 5 * time.Second},
		"stopped": {func(s *sim, stopped chan struct{}) {
			a := s.nodes[0]
			s.nodes[0] = nil
			go func() { a.Stop(); close(stopped) }()
		}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, 481, func(t *testing.T, s *sim) {
				a := s.voters(3, provisioning)
				others := s.nodes[1:3]
				acts := func(n *Node) bool { return s.metric(n, "pace_provision_paused") == 0 }
				s.want(10*time.Second, "the first one provisions", func() bool {
					return acts(a) && provisioned(a, a) && provisioned(others[0], a) && provisioned(others[1], a)
				})
				if acts(others[0]) || acts(others[1]) {
					t.Error("the queue of a voter runs that does not lead")
				}
				stopped := make(chan struct{})
				c.goes(s, stopped)
				took := s.want(c.within, "another one provisions", func() bool { return acts(others[0]) || acts(others[1]) })
				t.Logf("after %s", took)
				<-stopped
			})
		})
	}
}

// TestSimOnlyHelperIsTakenOut: of two voters the leader is the only one with a default. It can be demoted, and be forgotten, and
// leave: the other one, which cannot provision, does not hand leadership back meanwhile. Else it gives it back.
func TestSimOnlyHelperIsTakenOut(t *testing.T) {
	for i, c := range []struct {
		what string
		do   func(s *sim, a, b *Node) error
		gone func(a, b *Node) bool
	}{
		{"demoted", func(s *sim, a, b *Node) error { return s.asked(b, wire.ClusterRequest{Op: "admit-learner", ID: a.id}) }, func(a, b *Node) bool {
			m, ok := b.View().Member(a.id)
			return ok && m.Role == fleet.RoleLearner && a.Mode() == formation.Learner
		}},
		{"forgotten", func(s *sim, a, b *Node) error { return s.asked(b, wire.ClusterRequest{Op: "forget", ID: a.id}) }, func(a, b *Node) bool {
			_, ok := b.View().Member(a.id)
			return !ok
		}},
		{"leaves", func(s *sim, a, b *Node) error { return s.cluster(a, wire.ClusterRequest{Op: "leave"}) }, func(a, b *Node) bool {
			_, ok := b.View().Member(a.id)
			return !ok && a.Mode() == formation.Solitary
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			simulate(t, uint64(480+i), func(t *testing.T, s *sim) {
				s.expect = []string{"id=own-key-revoked"}
				path := filepath.Join(s.dir, "default.json")
				s.must(os.WriteFile(path, []byte(`{"configuration":{"a":"b"}}`), 0o600))
				a := s.boot(0, func(c *Config) {
					c.Settings.Provision.Default = path
					c.Settings.Typed = map[string]config.Origin{"provision-default": config.OriginFlag}
				})
				time.Sleep(2 * time.Second)
				b := s.boot(1)
				s.joined(a, b)
				s.promote(a, b)
				s.must(s.cluster(a, wire.ClusterRequest{Op: "transfer", ID: b.id}))
				s.want(10*time.Second, "the other leads, for a while", func() bool { return s.leading() == b })
				s.never(queue.HandBackAfter-5*time.Second, "it hands back at once", func() bool { return s.leading() == a })
				s.want(2*time.Minute, "the one that can leads again", func() bool { return s.leading() == a })
				time.Sleep(5 * time.Minute) // the other knows what it announced
				s.must(c.do(s, a, b))
				s.want(time.Minute, "it is "+c.what, func() bool { return c.gone(a, b) })
				s.want(10*time.Second, "the other leads alone", func() bool { return b.isLeader() && len(b.View().Voters()) == 1 })
			})
		})
	}
}
