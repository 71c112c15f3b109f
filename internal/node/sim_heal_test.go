package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// split is two fleets that are apart: the elder, with one machine that was a voter of the younger one, and what is left of
// the younger, whose roster holds that machine as a voter still.
type split struct {
	*sim
	elder, moved           *Node
	leader, voter, learner *Node
}

// outside tells whether two machines are on different sides.
func outside(side ...int) func(i, j int) bool {
	return func(i, j int) bool { return slices.Contains(side, i) != slices.Contains(side, j) }
}

// splitFleets makes a split, and leaves the two sides apart: machines 0 and 2 here, the others there. tweaks are those of
// machine 1, 3 and 4.
func splitFleets(s *sim, tweaks ...tweak) *split {
	s.t.Helper()
	s.expect = append(s.expect, "fleet-split-healing")
	s.cut(outside(0))
	x := &split{sim: s, elder: s.boot(0)}
	time.Sleep(3 * time.Second)
	x.leader = s.boot(1, tweaks...)
	time.Sleep(2 * time.Second)
	x.moved, x.learner, x.voter = s.boot(2), s.boot(3, tweaks...), s.boot(4, tweaks...)
	for _, m := range []*Node{x.moved, x.learner, x.voter} {
		s.joined(x.leader, m)
	}
	s.promote(x.leader, x.moved)
	s.promote(x.leader, x.voter)
	s.must(s.cluster(x.elder, wire.ClusterRequest{Op: "set", Name: fleet.SettingPerSource, Value: "5"}))
	s.cut(outside(0, 2))
	_, err := typed(x.moved, wire.ClusterRequest{Op: "leave", Force: true})
	s.must(err)
	s.joined(x.elder, x.moved)
	return x
}

// gone reports whether all that is left of the younger fleet waits at the elder.
func (x *split) gone() bool {
	return x.waits(x.elder, x.leader) && x.waits(x.elder, x.learner) && x.waits(x.elder, x.voter)
}

// archived are the stores that a machine put away of a fleet.
func archived(n *Node, cluster string) []string {
	entries, _ := os.ReadDir(filepath.Join(n.dir.Path(), statedir.ArchiveDir, cluster))
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestSimSplitHeals: a voter of the younger fleet speaks for the elder. The younger fleet's leader dissolves it: everybody
// archives its state, becomes a fleet of one under the same id and key, asks the elder, and waits there. The elder is as it
// was, and grows by whom a person approves.
func TestSimSplitHeals(t *testing.T) {
	simulate(t, 401, func(t *testing.T, s *sim) {
		x := splitFleets(s)
		old, survivor := x.leader.View().Cluster(), x.elder.View().Cluster()
		ids := map[*Node]string{x.leader: x.leader.id, x.learner: x.learner.id, x.voter: x.voter.id}
		before := x.elder.View().Revision()
		s.cut(nil)
		s.want(2*time.Minute, "all have asked the elder", x.gone)
		for n, id := range ids {
			own := owns(n)
			if n.id != id || own.Cluster == old || own.Cluster == survivor || own.Established || own.OldCluster != old || own.Mode != formation.Pending {
				t.Errorf("%s: %+v", n.name, own)
			}
			rec := n.dir.Record()
			order, err := wire.DecodeDissolveOrder(rec.Order)
			if err != nil || order.OldCluster != old || order.Survivor != survivor || order.Signer != x.leader.id || order.LeaderID != x.elder.id || rec.OldCluster != old || rec.Joined != nil {
				t.Errorf("%s kept %+v, %v", n.name, order, err)
			}
		}
		for _, n := range []*Node{x.leader, x.voter} {
			if got := archived(n, old); !slices.Contains(got, statedir.ConsensusDir) {
				t.Errorf("%s archived %v", n.name, got)
			}
		}
		if got := archived(x.learner, old); !slices.Contains(got, statedir.FollowDir) {
			t.Errorf("the learner archived %v", got)
		}
		if rev := x.elder.View().Revision(); rev < before || x.elder.View().Len() != 2 {
			t.Errorf("the elder changed: %d members at revision %d", x.elder.View().Len(), rev)
		}
		for n := range ids {
			s.must(s.grant(x.elder, n))
		}
		s.want(time.Minute, "one fleet", func() bool { return s.oneFleet(x.elder) })
		for n := range ids {
			if m, _ := x.elder.View().Member(n.id); m.Role != fleet.RoleLearner || m.Key != n.Key() {
				t.Errorf("%s is %+v there", n.name, m)
			}
			s.want(10*time.Minute, "the condition goes", func() bool { _, on := condition(n, "fleet-split-healing"); return !on })
		}
	})
}

// TestSimSplitOrderOnceAMinute: an order that could not be proposed, because the survivor's leader does not answer, is tried
// once a minute and no more; the fleet stays as it is meanwhile.
func TestSimSplitOrderOnceAMinute(t *testing.T) {
	simulate(t, 402, func(t *testing.T, s *sim) {
		x := splitFleets(s)
		s.expect = append(s.expect, "id=consensus-leader-silent")
		s.cut(outside(0)) // the elder itself is not reached: its learner speaks for it
		said := func() int { return s.log.count("could not be dissolved into the other part yet") }
		s.want(2*time.Minute, "it was tried", func() bool { return said() > 0 })
		first := said()
		time.Sleep(5 * time.Minute)
		// A learner that does not hear its leader stops naming it, and then nothing is tried.
		if n := said() - first; n > 5 {
			t.Errorf("%d tries in five minutes", n)
		}
		if x.leader.View().Dissolving() != nil || x.leader.Mode() != formation.Voter || x.learner.Mode() != formation.Learner {
			t.Error("dissolved into a fleet that nobody reached")
		}
		s.cut(nil)
		s.want(2*time.Minute, "it heals", x.gone)
	})
}

// TestSimSplitByALearnersKey: a learner's key in another fleet only raises the condition, on both sides.
func TestSimSplitByALearnersKey(t *testing.T) {
	simulate(t, 403, func(t *testing.T, s *sim) {
		s.expect = append(s.expect, "fleet-split-healing")
		s.cut(outside(0))
		elder := s.boot(0)
		time.Sleep(3 * time.Second)
		leader := s.boot(1)
		time.Sleep(2 * time.Second)
		moved := s.boot(2)
		s.joined(leader, moved)
		s.must(s.cluster(elder, wire.ClusterRequest{Op: "set", Name: fleet.SettingPerSource, Value: "5"}))
		s.cut(outside(0, 2))
		_, err := typed(moved, wire.ClusterRequest{Op: "leave", Force: true})
		s.must(err)
		s.joined(elder, moved)
		s.cut(nil)
		s.want(40*time.Second, "the fleet that lists it says so", func() bool { _, on := condition(leader, "fleet-split-healing"); return on })
		s.want(40*time.Second, "the machine that once was there says so", func() bool { _, on := condition(moved, "fleet-split-healing"); return on })
		s.never(10*time.Minute, "somebody moved", func() bool {
			return leader.Mode() != formation.Voter || elder.Mode() != formation.Voter || leader.View().Dissolving() != nil
		})
	})
}

// TestSimSplitElderStays: the fleet that wins the tie-break does nothing but say so, whoever holds whose key.
func TestSimSplitElderStays(t *testing.T) {
	simulate(t, 404, func(t *testing.T, s *sim) {
		s.expect = append(s.expect, "fleet-split-healing")
		s.cut(outside(2))
		leader := s.boot(0) // the elder, and the one whose voter is elsewhere
		time.Sleep(2 * time.Second)
		moved := s.boot(1)
		third := s.boot(3)
		s.joined(leader, moved)
		s.joined(leader, third)
		s.promote(leader, third)
		s.promote(leader, moved)
		s.cut(outside(1))
		_, err := typed(moved, wire.ClusterRequest{Op: "leave", Force: true})
		s.must(err)
		s.must(s.cluster(moved, wire.ClusterRequest{Op: "set", Name: fleet.SettingPerSource, Value: "5"}))
		s.cut(nil)
		s.want(40*time.Second, "it says so", func() bool { _, on := condition(leader, "fleet-split-healing"); return on })
		if detail, _ := condition(leader, "fleet-split-healing"); !strings.Contains(detail, "younger one") || !strings.Contains(detail, moved.View().Cluster()) {
			t.Errorf("detail %q", detail)
		}
		s.never(5*time.Minute, "somebody moved", func() bool {
			return leader.Mode() != formation.Voter || owns(moved).Mode != formation.Solitary || leader.View().Dissolving() != nil
		})
	})
}

// TestSimSplitPinned: a stolen voter's key dissolves a fleet, and a pin closes that: the leader proposes nothing, and a
// pinned learner does not obey an order whose signer it does not name.
func TestSimSplitPinned(t *testing.T) {
	t.Run("the leader", func(t *testing.T) {
		simulate(t, 405, func(t *testing.T, s *sim) {
			x := splitFleets(s)
			pin := pinned(x.leader.View().Cluster(), x.leader.Key())
			s.halt(1)
			s.halt(4)
			x.leader, x.voter = s.boot(1, pin), s.boot(4, pin)
			s.want(time.Minute, "one leads", func() bool { return s.leading(x.elder) != nil })
			s.cut(nil)
			s.want(time.Minute, "it says so", func() bool { _, on := condition(s.leading(x.elder), "foreign-fleet-visible"); return on })
			s.never(10*time.Minute, "it dissolved", func() bool { return x.leader.View().Dissolving() != nil || x.leader.Mode() != formation.Voter })
		})
	})
	t.Run("a learner", func(t *testing.T) {
		simulate(t, 406, func(t *testing.T, s *sim) {
			x := splitFleets(s)
			pin := pinned(x.leader.View().Cluster(), x.leader.Key())
			s.halt(3)
			x.learner = s.boot(3, pin)
			old := x.leader.View().Cluster()
			s.expect = append(s.expect, "id=consensus-leader-silent") // its voters have gone: only a person can say what now
			s.want(time.Minute, "it follows", func() bool { return follows(x.learner, x.leader) })
			s.cut(nil)
			s.want(3*time.Minute, "the leader went", func() bool { return s.waits(x.elder, x.leader) })
			s.never(10*time.Minute, "the pinned one went too", func() bool {
				return x.learner.Mode() != formation.Learner || x.learner.View().Cluster() != old
			})
			if n := s.metric(x.learner, `pace_dissolve_orders_refused_total{reason="pinned"}`); n != 1 {
				t.Errorf("%v refusals counted", n)
			}
		})
	})
}

// TestSimSplitAbsentMember: a learner that was off while its fleet dissolved is told by whoever obeyed, with the signed
// order, and obeys it as the entry.
func TestSimSplitAbsentMember(t *testing.T) {
	for _, told := range []string{"by a machine that waits", "by a machine that has joined"} {
		t.Run(told, func(t *testing.T) {
			simulate(t, 407, func(t *testing.T, s *sim) {
				x := splitFleets(s)
				old := x.leader.View().Cluster()
				s.halt(3)
				s.cut(nil)
				s.want(2*time.Minute, "the leader has asked", func() bool { return s.waits(x.elder, x.leader) })
				if told == "by a machine that has joined" {
					s.must(s.grant(x.elder, x.leader))
					s.want(time.Minute, "it follows", func() bool { return follows(x.leader, x.elder) })
				}
				time.Sleep(time.Hour)
				x.learner = s.boot(3)
				if x.learner.Mode() != formation.Learner || x.learner.View().Cluster() != old {
					t.Fatal("it is not where it was")
				}
				s.want(2*time.Minute, "it has asked too", func() bool { return s.waits(x.elder, x.learner) })
				if rec := x.learner.dir.Record(); rec.OldCluster != old || len(rec.Order) == 0 {
					t.Errorf("it kept %+v", rec)
				}
				s.must(s.grant(x.elder, x.learner))
				s.want(time.Minute, "it follows", func() bool { return follows(x.learner, x.elder) })
			})
		})
	}
}

// TestSimSplitSurvivorKnowsSome: the survivor admits at once whom its own roster holds under the same id and key; the
// others wait.
func TestSimSplitSurvivorKnowsSome(t *testing.T) {
	simulate(t, 408, func(t *testing.T, s *sim) {
		x := splitFleets(s)
		m, _ := x.leader.View().Member(x.learner.id)
		// As after a split: the elder's roster was made when the machine was one of its own.
		if _, err := x.elder.propose(t.Context(), fleet.AdmitLearner(m.ID, m.Key, m.Name, m.Platform, m.Version, m.Endpoints, fleet.Format, x.elder.key.Public().String(), 1, false)); err != nil {
			t.Fatal(err)
		}
		s.cut(nil)
		s.want(2*time.Minute, "it is in without a person", func() bool { return follows(x.learner, x.elder) })
		s.want(2*time.Minute, "the other waits", func() bool { return s.waits(x.elder, x.leader) })
		s.never(time.Minute, "the other was let in", func() bool { return x.leader.Mode() != formation.Pending })
	})
}

// TestSimSplitRefusesAdmissions: while an order is pending nobody is admitted, and whoever asks is sent to the survivor.
func TestSimSplitRefusesAdmissions(t *testing.T) {
	simulate(t, 409, func(t *testing.T, s *sim) {
		x := splitFleets(s)
		// The learner hears nothing, so that the leader waits its whole minute for it; one more machine asks there.
		order := fleet.SignDissolve(x.leader.View().Cluster(), x.elder.View().Cluster(), x.elder.id, x.elder.Key(), endpointOf(0), x.leader.id, x.leader.key)
		fifth := s.boot(5)
		s.want(time.Minute, "it waits", func() bool { return s.waits(x.leader, fifth) })
		s.cut(outside(0, 2, 3))
		if _, err := x.leader.propose(t.Context(), fleet.DissolveInto(order.Append(nil), x.leader.Key().String(), 1)); err != nil {
			t.Fatal(err)
		}
		s.want(time.Second, "it is pending", func() bool { return x.leader.View().Dissolving() != nil })
		s.refusedWith(s.grant(x.leader, fifth), x.elder.View().Cluster(), "--scheduler="+endpointOf(0))
		_, err := x.leader.EnrollControl(t.Context(), local, wire.EnrollControl{Op: wire.ControlWindow, Argument: []byte("60")})
		s.refusedWith(err, x.elder.View().Cluster(), "--scheduler="+endpointOf(0))
		s.refusedWith(s.cluster(x.leader, wire.ClusterRequest{Op: "admit-learner", ID: "later", Key: fifth.Key().String()}), x.elder.View().Cluster())
		s.want(time.Second, "it waits there no more", func() bool { return !s.waits(x.leader, fifth) })
	})
}

// TestSimSplitLeaderLingers: the leader stays until every connected member has applied the order, and no longer than a
// minute where one does not.
func TestSimSplitLeaderLingers(t *testing.T) {
	for _, c := range []struct {
		name        string
		mute        bool
		least, most time.Duration // closing a log whose other voter is cut off takes up to 30 s of it
	}{{"everybody acknowledges", false, lingerLeast, 45 * time.Second}, {"one does not", true, 60 * time.Second, 105 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			simulate(t, 410, func(t *testing.T, s *sim) {
				hold := make(chan struct{})
				var mute atomic.Bool
				x := splitFleets(s, func(cfg *Config) {
					cfg.Point = func(name string) {
						if mute.Load() && cfg.HostName == "m003" && name == "follow.append.before" {
							<-hold // a disk that hangs
						}
					}
				})
				defer close(hold)
				mute.Store(c.mute)
				time.Sleep(2 * time.Minute) // discovery has forgotten the voter that went
				order := fleet.SignDissolve(x.leader.View().Cluster(), x.elder.View().Cluster(), x.elder.id, x.elder.Key(), endpointOf(0), x.leader.id, x.leader.key)
				began := time.Now()
				if _, err := x.leader.propose(t.Context(), fleet.DissolveInto(order.Append(nil), x.leader.Key().String(), 1)); err != nil {
					t.Fatal(err)
				}
				s.want(2*time.Minute, "the leader goes", func() bool { return x.leader.Mode() == formation.Pending })
				if d := time.Since(began); d < c.least || d > c.most {
					t.Errorf("after %s", d)
				}
			})
		})
	}
}

// TestSimSplitBadOrders: whoever hands on an order that no voter signed, or one for another fleet, is not obeyed, and it is
// counted by its reason.
func TestSimSplitBadOrders(t *testing.T) {
	simulate(t, 411, func(t *testing.T, s *sim) {
		x := splitFleets(s)
		old, survivor := x.leader.View().Cluster(), x.elder.View().Cluster()
		good := func() wire.DissolveOrder {
			return fleet.SignDissolve(old, survivor, x.elder.id, x.elder.Key(), endpointOf(0), x.leader.id, x.leader.key)
		}
		for reason, edit := range map[string]func(*wire.DissolveOrder){
			"bad-signature": func(o *wire.DissolveOrder) { o.LeaderEndpoint = "10.9.9.9:6674" },
			"other-cluster": func(o *wire.DissolveOrder) {
				*o = fleet.SignDissolve(survivor, old, x.elder.id, x.elder.Key(), endpointOf(0), x.leader.id, x.leader.key)
			},
			"signer-not-a-voter": func(o *wire.DissolveOrder) {
				*o = fleet.SignDissolve(old, survivor, x.elder.id, x.elder.Key(), endpointOf(0), x.learner.id, x.learner.key)
			},
			"into-itself": func(o *wire.DissolveOrder) {
				*o = fleet.SignDissolve(old, old, x.elder.id, x.elder.Key(), endpointOf(0), x.leader.id, x.leader.key)
			},
		} {
			o := good()
			edit(&o)
			x.learner.toldDissolved(x.leader.id, fmt.Errorf("hello: %w", wire.NewDissolvedError(&o)))
			s.want(time.Second, reason+" is counted", func() bool {
				return s.metric(x.learner, `pace_dissolve_orders_refused_total{reason="`+reason+`"}`) == 1
			})
		}
		x.learner.toldDissolved(x.leader.id, wire.NewError(wire.CodeDissolved, "junk", ""))
		s.want(time.Second, "junk is counted", func() bool {
			return s.metric(x.learner, `pace_dissolve_orders_refused_total{reason="malformed"}`) == 1
		})
		s.never(time.Minute, "one was obeyed", func() bool { return x.learner.Mode() != formation.Learner })
	})
}
