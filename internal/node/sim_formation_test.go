package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netsim"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// TestSimThirdFollowsPointer: a machine that hears only a pending one asks the fleet that that one asked.
func TestSimThirdFollowsPointer(t *testing.T) {
	simulate(t, 1, func(t *testing.T, s *sim) {
		s.deaf(between(0)) // the founder is on another network
		a := s.boot(0)
		b := s.boot(1, seededBy(endpointOf(0)))
		s.want(5*time.Second, "the second asks the founder", func() bool { return asks(b, a) })
		c := s.boot(2)
		took := s.want(5*time.Second, "the third asks the founder", func() bool { return asks(c, a) })
		t.Logf("pointer followed after %s", took)
		if own := owns(b); own.Target.LeaderID != a.id {
			t.Errorf("the second points at %s, and the leader of the fleet that it asks is %s", own.Target.LeaderID, a.id)
		}
		s.joined(a, b)
		s.joined(a, c)
		s.want(5*time.Second, "one fleet", func() bool { return s.oneFleet(a) })
	})
}

// TestSimTargetYields: a machine whose target yields goes where the target went, at once, and the target admits nobody any
// more.
func TestSimTargetYields(t *testing.T) {
	simulate(t, 2, func(t *testing.T, s *sim) {
		d := s.boot(3)
		s.cut(between(3))
		time.Sleep(2 * time.Second)
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.want(5*time.Second, "the younger waits at the older", func() bool { return asks(b, a) && s.waits(a, b) })
		s.cut(nil)
		s.deaf(between(3, 1)) // the younger does not hear the oldest
		s.want(30*time.Second, "the older asks the oldest", func() bool { return asks(a, d) })
		took := s.want(3*time.Second, "the younger goes where its target went", func() bool { return asks(b, d) })
		t.Logf("followed after %s", took)
		if rows := s.rows(a); len(rows) > 0 {
			t.Errorf("a pending machine keeps rows: %v", rows)
		}
		for what, err := range map[string]error{
			"approve":      s.grant(a, b),
			"window":       s.arm(a, 60),
			"pre-approval": s.cluster(a, wire.ClusterRequest{Op: "admit-learner", ID: b.id, Key: b.Key().String()}),
		} {
			var refused *wire.Error
			if !errors.As(err, &refused) || !strings.Contains(refused.Text+refused.Hint, endpointOf(3)) {
				t.Errorf("%s on a pending machine: %v, want a refusal that names %s", what, err, endpointOf(3))
			}
		}
		s.joined(d, b)
		s.joined(d, a)
		s.want(5*time.Second, "one fleet", func() bool { return s.oneFleet(d) })
	})
}

// TestSimEverybodyStartsFirst: five new machines are started at random moments of a second or of 20 s. All but one end up
// asking, nobody in a ring, and every way ends at the same one; approved as they come up, they are one fleet.
func TestSimEverybodyStartsFirst(t *testing.T) {
	for i := range 2 * seeds(t) {
		seed, within := uint64(i), []time.Duration{time.Second, 20 * time.Second}[i%2]
		t.Run(fmt.Sprintf("seed %d within %s", seed, within), func(t *testing.T) {
			simulate(t, seed, func(t *testing.T, s *sim) {
				const machines = 5
				rng := rand.New(rand.NewPCG(seed, 15))
				at := make([]time.Duration, machines)
				for i := range at {
					at[i] = time.Duration(rng.Int64N(int64(within)))
				}
				order := []int{0, 1, 2, 3, 4}
				slices.SortFunc(order, func(a, b int) int { return int(at[a] - at[b]) })
				began := time.Now()
				for _, i := range order {
					time.Sleep(time.Until(began.Add(at[i])))
					s.boot(i)
				}
				var first *Node
				took := s.want(3*time.Minute, "all but one ask, and every way ends at that one", func() bool {
					first = s.endOfAsks()
					return first != nil
				})
				t.Logf("%s after the last was started", took)
				s.never(time.Minute, "it changed its mind", func() bool { return s.endOfAsks() != first })
				last := time.Now()
				s.want(10*time.Minute, "one fleet", func() bool {
					for _, n := range s.nodes {
						for _, row := range s.rows(n) {
							key, err := identity.ParsePublicKey(row.Key)
							s.must(err)
							// A machine that asks another one refuses, and the row comes up where it is sent to.
							if row.Decision == control.DecisionWaiting {
								if _, err := n.EnrollControl(context.Background(), local, wire.EnrollControl{Op: wire.ControlApprove, Argument: wire.AppendControlMember(nil, row.ID, key)}); err == nil {
									last = time.Now()
								}
							}
						}
					}
					return s.oneFleet(first)
				})
				if took := time.Since(last); took > 2*time.Minute {
					t.Errorf("one fleet %s after the last approval", took)
				}
				ids := map[string]bool{}
				for _, n := range s.nodes {
					ids[n.id] = true
					entries, err := os.ReadDir(filepath.Join(n.dir.Path(), statedir.ArchiveDir))
					if n == first && len(entries) != 0 || n != first && (err != nil || len(entries) != 1) {
						t.Errorf("%s archived %d stores (%v)", n.name, len(entries), err)
					}
				}
				if len(ids) != machines || first.View().Len() != machines {
					t.Errorf("%d ids, %d members", len(ids), first.View().Len())
				}
			})
		})
	}
}

// endOfAsks is the one machine that asks nobody and that every other one's asks lead to, nil where there is no such.
func (s *sim) endOfAsks() (end *Node) {
	by := map[string]*Node{}
	for _, n := range s.nodes {
		by[owns(n).Cluster] = n
	}
	for _, n := range s.nodes {
		at := n
		for range s.nodes {
			if own := owns(at); own.Mode == formation.Pending {
				if at = by[own.Target.Cluster]; at == nil {
					return nil
				}
			}
		}
		if owns(at).Mode != formation.Solitary || end != nil && end != at {
			return nil
		}
		end = at
	}
	return end
}

// TestSimRejected: who is rejected is solitary again, and does not ask that fleet for an hour, also across a restart.
func TestSimRejected(t *testing.T) {
	simulate(t, 4, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.want(5*time.Second, "it waits", func() bool { return s.waits(a, b) })
		s.must(s.reject(a, b))
		s.want(time.Second, "it is solitary again", func() bool { return b.Mode() == formation.Solitary })
		rejected := time.Now()
		asked := func() bool { return b.Mode() != formation.Solitary }
		s.never(20*time.Minute, "it asks again", asked)
		s.halt(1)
		b = s.boot(1)
		restarted := time.Now()
		s.never(rejected.Add(time.Hour).Sub(restarted), "it asks again after a restart", asked)
		// How long a machine was off is not known without a date, so the hour begins anew with a start at most.
		s.want(time.Until(restarted.Add(time.Hour+time.Minute)), "it asks again", func() bool { return s.waits(a, b) })
		if n := s.metric(a, "pace_enrollment_requests_total"); n != 2 {
			t.Errorf("it asked %v times, want 2", n)
		}
	})
}

// TestSimApprovalReachesAtOnce: an approval comes over the open stream, and needs no poll.
func TestSimApprovalReachesAtOnce(t *testing.T) {
	simulate(t, 5, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.want(5*time.Second, "it waits", func() bool { return s.waits(a, b) })
		time.Sleep(3*time.Minute + 700*time.Millisecond)
		s.must(s.grant(a, b))
		if took := s.want(time.Second, "it follows", func() bool { return follows(b, a) }); took > 50*time.Millisecond {
			t.Errorf("it followed %s after the approval", took)
		}
		m, ok := a.View().Member(b.id)
		if s.want(time.Second, "it announced itself", func() bool { m, ok = a.View().Member(b.id); return ok && m.Arrived }); m.Name != b.name {
			t.Errorf("the roster names it %q", m.Name)
		}
		session := a.hub.ByKey(b.Key())
		if h, _, ok := session.Hello(); !ok || h.Cluster != a.View().Cluster() {
			t.Errorf("after its admission it said that it is in %q", h.Cluster)
		}
	})
}

// TestSimAbandoned: ten minutes without a signed answer end an ask, and it is made again later.
func TestSimAbandoned(t *testing.T) {
	simulate(t, 6, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.want(5*time.Second, "it waits", func() bool { return s.waits(a, b) })
		s.never(15*time.Minute, "a waiting machine gave up though its answers came", func() bool { return !asks(b, a) })
		s.cut(between(0))
		// The last signed answer is at most a minute old.
		s.never(9*time.Minute-time.Second, "it gave up before ten minutes were over", func() bool { return !asks(b, a) })
		s.want(65*time.Second, "it gives up after ten minutes", func() bool { return b.Mode() == formation.Solitary })
		if n := s.metric(b, "pace_formation_joins_abandoned_total"); n != 1 {
			t.Errorf("%v asks are counted as given up, want 1", n)
		}
		s.cut(nil)
		s.want(2*time.Minute, "it asks again", func() bool { return asks(b, a) && s.waits(a, b) })
	})
}

// TestSimFounderRestartsWhileJoinersWait: the list is the leader's memory, and whoever waits asks again within a poll.
func TestSimFounderRestartsWhileJoinersWait(t *testing.T) {
	simulate(t, 7, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b, c := s.boot(1), s.boot(2)
		both := func() bool { return s.waits(a, b) && s.waits(a, c) }
		s.want(5*time.Second, "both wait", both)
		s.must(s.arm(a, 1))
		s.want(5*time.Second, "the window is over", func() bool { _, open := condition(a, "enrollment-window-open"); return !open })
		s.want(5*time.Second, "both were admitted by it", func() bool { return s.oneFleet(a) })
		d := s.boot(3)
		s.want(5*time.Second, "a third waits", func() bool { return s.waits(a, d) })
		s.halt(0)
		time.Sleep(20 * time.Second)
		a = s.boot(0)
		took := s.want(3*time.Second, "the third asks again", func() bool { return s.waits(a, d) })
		t.Logf("asked again %s after the restart", took)
		s.want(30*time.Second, "the learners are back", func() bool { return follows(b, a) && follows(c, a) })
		s.joined(a, d)
	})
}

// TestSimWindow: a window admits who waits and who comes, raises its condition, and ends.
func TestSimWindow(t *testing.T) {
	simulate(t, 8, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.want(5*time.Second, "it waits", func() bool { return s.waits(a, b) })
		if _, waiting := condition(a, "enrollment-requests-waiting"); !waiting {
			t.Error("nobody is told that a machine waits")
		}
		s.must(s.arm(a, 60))
		armed := time.Now()
		s.want(time.Second, "who waited is admitted", func() bool { return follows(b, a) })
		if _, open := condition(a, "enrollment-window-open"); !open {
			t.Error("an open window is not shown")
		}
		if m, _ := a.View().Member(b.id); !m.Arrived && m.AdmittedBy != a.Key().String() {
			t.Errorf("the roster says %+v of it", m)
		}
		c := s.boot(2)
		s.want(5*time.Second, "who comes is admitted", func() bool { return follows(c, a) })
		s.want(time.Minute, "the window ends", func() bool { _, open := condition(a, "enrollment-window-open"); return !open })
		if took := time.Since(armed); took < time.Minute || took > 61*time.Second {
			t.Errorf("a window of a minute ended after %s", took)
		}
		d := s.boot(3)
		s.want(5*time.Second, "who comes later waits", func() bool { return s.waits(a, d) })
		s.never(time.Minute, "it was admitted", func() bool { return !s.waits(a, d) })
		for _, seconds := range []int{0, 86401} {
			if err := s.arm(a, seconds); err == nil {
				t.Errorf("a window of %d s was armed", seconds)
			}
		}
	})
}

// TestSimPreApprovedWithFullList: a machine that was approved ahead is admitted whatever the list holds.
func TestSimPreApprovedWithFullList(t *testing.T) {
	simulate(t, 9, func(t *testing.T, s *sim) {
		a := s.boot(0)
		s.deaf(func(i, j int) bool { return i != j })
		s.must(a.ask(context.Background(), func(now time.Time) {
			for i := range enroll.MaxRows {
				key := identity.NewPrivateKey([32]byte{1, byte(i)})
				r := wire.EnrollRequest{ID: fmt.Sprintf("stranger-%d", i), Endpoint: fmt.Sprintf("10.78.0.%d:6674", i+1), Role: wire.RoleLearner, Key: key.Public()}
				r.Signature = key.Sign(r.Message())
				a.list.Judge(now, enroll.Request{EnrollRequest: r, Format: fleet.Format, Source: addrOf(200 + i), SessionKey: key.Public()}, a.facts(now), a.cfg.Entropy)
			}
		}))
		if n := len(s.rows(a)); n != enroll.MaxRows {
			t.Fatalf("%d rows wait, want %d", n, enroll.MaxRows)
		}
		b := s.boot(1)
		s.must(s.cluster(a, wire.ClusterRequest{Op: "admit-learner", ID: b.id, Key: b.Key().String()}))
		s.want(time.Second, "it is in the fleet's state", func() bool { _, ok := a.View().PreApproved(b.id, b.Key()); return ok })
		s.deaf(nil)
		s.want(30*time.Second, "it is admitted", func() bool { return follows(b, a) })
		if n := len(a.View().PreApprovals()); n != 0 {
			t.Errorf("%d machines are still awaited", n)
		}
		c := s.boot(2)
		s.want(30*time.Second, "another is refused", func() bool {
			return s.metric(a, `pace_enrollment_requests_refused_total{reason="list-full"}`) > 0
		})
		if !asks(c, a) {
			t.Errorf("who finds the list full is %s", c.Mode())
		}
	})
}

// TestSimTypedSeedWins: of an older fleet that beacons and a younger one that was typed, the typed one is asked; and
// nothing is chosen before the typed seed has answered or failed.
func TestSimTypedSeedWins(t *testing.T) {
	simulate(t, 10, func(t *testing.T, s *sim) {
		s.deaf(between(1)) // the typed one is on another network
		older := s.boot(0)
		time.Sleep(3 * time.Second)
		c := s.boot(2, seededBy(endpointOf(1)))
		s.want(5*time.Second, "a seed that nobody answers at gives way to the beacon", func() bool { return asks(c, older) })
		s.halt(2)
		seeded := s.boot(1)
		time.Sleep(2 * time.Second)
		d := s.boot(3, seededBy(endpointOf(1)))
		s.want(5*time.Second, "the typed one is asked", func() bool { return owns(d).Mode == formation.Pending })
		if !asks(d, seeded) {
			t.Errorf("it asks %+v", owns(d).Target)
		}
		s.never(time.Minute, "it changed its mind", func() bool { return !asks(d, seeded) })
	})
}

// TestSimSilentSeedIsWaitedFor: a typed seed that does not answer holds the choice for the time of one dial, no longer.
func TestSimSilentSeedIsWaitedFor(t *testing.T) {
	simulate(t, 11, func(t *testing.T, s *sim) {
		older := s.boot(0)
		s.boot(1)
		s.cut(between(1))
		time.Sleep(2 * time.Second)
		c := s.boot(2, seededBy(endpointOf(1)))
		s.never(2900*time.Millisecond, "it chose before its seed failed", func() bool { return c.Mode() != formation.Solitary })
		s.want(time.Second, "it goes on after 3 s", func() bool { return asks(c, older) })
	})
}

// TestSimSeedsNameEachOther: of two machines that were typed on one another exactly one asks in the end.
func TestSimSeedsNameEachOther(t *testing.T) {
	simulate(t, 12, func(t *testing.T, s *sim) {
		a := s.boot(0, seededBy(endpointOf(1)))
		b := s.boot(1, seededBy(endpointOf(0)))
		settled := func() bool {
			return a.Mode() == formation.Solitary && asks(b, a) && s.waits(a, b) || b.Mode() == formation.Solitary && asks(a, b) && s.waits(b, a)
		}
		took := s.want(time.Minute, "one of them asks", settled)
		t.Logf("settled after %s", took)
		s.never(3*time.Minute, "they changed their minds", func() bool { return !settled() })
	})
}

// TestSimBestOfAll: a machine that starts among several takes the best of those that proved themselves within 500 ms of
// the first, in one step.
func TestSimBestOfAll(t *testing.T) {
	simulate(t, 13, func(t *testing.T, s *sim) {
		apart := func(i, j int) bool { return i != j && i != 3 && j != 3 }
		s.cut(apart)
		var all []*Node
		for i := range 3 {
			all = append(all, s.boot(2-i)) // the oldest has the highest address
			time.Sleep(1500 * time.Millisecond)
		}
		s.must(s.cluster(all[1], wire.ClusterRequest{Op: "set", Name: fleet.SettingPerSource, Value: "5"}))
		s.want(time.Second, "it is established", func() bool { return owns(all[1]).Established })
		began := time.Now()
		d := s.boot(3)
		s.want(5*time.Second, "it asks", func() bool { return owns(d).Mode == formation.Pending })
		if took := time.Since(began); took < formation.ChoiceAfterProof || took > 1200*time.Millisecond {
			t.Errorf("it asked %s after its start", took)
		}
		if !asks(d, all[1]) {
			t.Errorf("it asks %s, and the established fleet comes before older solitary ones", owns(d).Target.Cluster)
		}
		if n := s.metric(d, "pace_formation_yields_total"); n != 1 {
			t.Errorf("it took %v steps", n)
		}
	})
}

// TestSimEstablishedFleetsStay: neither of two established fleets yields; both say so until five minutes after the last
// proof.
func TestSimEstablishedFleetsStay(t *testing.T) {
	simulate(t, 14, func(t *testing.T, s *sim) {
		s.cut(func(i, j int) bool { return i%2 != j%2 })
		a, b := s.boot(0), s.boot(1)
		c, d := s.boot(2), s.boot(3)
		time.Sleep(time.Second)
		lead := func(x, y *Node) (*Node, *Node) {
			s.want(5*time.Second, "one asks the other", func() bool { return asks(x, y) || asks(y, x) })
			if asks(x, y) {
				x, y = y, x
			}
			s.joined(x, y)
			return x, y
		}
		first, second := lead(a, c)
		other, fourth := lead(b, d)
		all := []*Node{first, second, other, fourth}
		visible := func(n *Node) bool { _, ok := condition(n, "foreign-fleet-visible"); return ok }
		for _, n := range all {
			if visible(n) {
				t.Errorf("%s sees a fleet that it cannot hear", n.name)
			}
		}
		s.cut(nil)
		s.want(20*time.Second, "both leaders say so", func() bool { return visible(first) && visible(other) })
		s.want(20*time.Second, "the learners too", func() bool { return visible(second) && visible(fourth) })
		if detail, _ := condition(first, "foreign-fleet-visible"); !strings.Contains(detail, other.View().Cluster()) {
			t.Errorf("the detail does not name the fleet: %s", detail)
		}
		s.never(5*time.Minute, "somebody yielded", func() bool {
			return first.Mode() != formation.Voter || other.Mode() != formation.Voter || second.Mode() != formation.Learner || fourth.Mode() != formation.Learner
		})
		s.cut(func(i, j int) bool { return i%2 != j%2 })
		s.never(3*time.Minute+50*time.Second, "it was cleared before its time", func() bool { return !visible(first) || !visible(other) })
		s.want(80*time.Second, "it is cleared", func() bool {
			return !slices.ContainsFunc(all, visible)
		})
	})
}

// TestSimForgotten: a forgotten learner learns it at once, is a new fleet of one, and never asks that fleet again.
func TestSimForgotten(t *testing.T) {
	for _, away := range []string{"connected", "stopped", "separated"} {
		t.Run(away, func(t *testing.T) {
			simulate(t, 15, func(t *testing.T, s *sim) {
				s.expect = []string{"id=own-key-revoked"}
				if away == "separated" {
					s.expect = append(s.expect, "id=consensus-leader-silent")
				}
				a := s.boot(0)
				time.Sleep(2 * time.Second)
				b := s.boot(1)
				s.joined(a, b)
				old := a.View().Cluster()
				switch away {
				case "stopped":
					s.halt(1)
				case "separated":
					s.cut(between(1))
					time.Sleep(time.Minute)
				}
				s.must(s.cluster(a, forget(b)))
				limit := time.Second
				switch away {
				case "stopped":
					time.Sleep(time.Minute)
					b = s.boot(1)
				case "separated":
					s.never(30*time.Second, "it can't know yet", func() bool { return b.Mode() != formation.Learner })
					s.cut(nil)
					limit = 45 * time.Second // a backoff of its dials
				}
				s.want(limit, "it is solitary", func() bool { return b.Mode() == formation.Solitary })
				if b.View().Cluster() == old || b.id != owns(b).NodeID {
					t.Error("it is not a new fleet under the same id")
				}
				if _, ok := condition(b, "own-key-revoked"); !ok {
					t.Error("it does not say that its key is revoked")
				}
				rec, key, err := statedir.Peek(b.dir.Path())
				if s.must(err); key != b.Key() || !slices.Equal(rec.RevokedIn, []string{old}) || rec.Joined != nil {
					t.Errorf("its record says %+v", rec)
				}
				s.never(10*time.Minute, "it asks again", func() bool { return b.Mode() != formation.Solitary })
				if _, ok := a.View().Member(b.id); ok || a.View().Len() != 1 {
					t.Error("it is still in the roster")
				}
			})
		})
	}
}

// TestSimClocksBefore2026: a fleet that was founded without a clock counts as the newest, and of two such the higher
// cluster id yields.
func TestSimClocksBefore2026(t *testing.T) {
	dir := t.TempDir()
	netsim.Bubble(t, func(t *testing.T) { // the bubble's clock begins in 2000
		s := newSim(t, 16, dir)
		s.healthy = true
		defer s.stop()
		a, b := s.boot(0), s.boot(1)
		time.Sleep(3 * time.Second)
		c := s.boot(2)
		lower := slices.MinFunc([]*Node{a, b, c}, func(x, y *Node) int { return strings.Compare(x.View().Cluster(), y.View().Cluster()) })
		s.want(20*time.Second, "the highest ids ask the lowest", func() bool {
			for _, n := range s.nodes {
				if n != lower && !asks(n, lower) {
					return false
				}
			}
			return lower.Mode() == formation.Solitary
		})
		for i := range 3 {
			s.halt(i)
		}
		time.Sleep(time.Until(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)))
		d := s.boot(3)
		time.Sleep(2 * time.Second)
		for i := range 3 {
			s.boot(i)
		}
		s.want(30*time.Second, "a fleet with a clock is older than all of them", func() bool {
			for _, n := range s.nodes[:3] {
				if !asks(n, d) {
					return false
				}
			}
			return d.Mode() == formation.Solitary
		})
	})
}

// TestSimPointsAtLeader: who was found through a learner points at the leader of that fleet, under the leader's key.
func TestSimPointsAtLeader(t *testing.T) {
	simulate(t, 17, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		l := s.boot(1)
		s.joined(a, l)
		s.deaf(between(0))
		time.Sleep(2 * time.Second)
		b := s.boot(2)
		s.want(20*time.Second, "it asks the fleet that it heard of through a learner", func() bool { return asks(b, a) && s.waits(a, b) })
		if p := b.self.Load().Pointer; p.ID != a.id || p.Endpoint != endpointOf(0) || !p.HasKey || identity.PublicKey(p.Key) != a.Key() {
			t.Errorf("it points at %s at %s under %s, and the leader is %s under %s", p.ID, p.Endpoint, identity.PublicKey(p.Key), a.id, a.Key())
		}
		s.deaf(func(i, j int) bool { return i == 0 || j == 0 || i == 1 || j == 1 })
		c := s.boot(3)
		s.want(20*time.Second, "the third follows its pointer", func() bool { return asks(c, a) && s.waits(a, c) })
		s.joined(a, c)
		s.joined(a, b)
	})
}
