package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// What people who run comparable systems reported, as whole nodes in virtual time. docs/verified.md has the table.

// elsewhere is machine i at another address.
func (s *sim) elsewhere(i int) tweak {
	return func(c *Config) {
		c.Network = &simNet{s: s, addr: netip.AddrFrom4([4]byte{10, 77, 100, byte(i + 1)})}
	}
}

// copyDir copies a machine's state directory, with its modes; what is at the other place goes.
func (s *sim) copyDir(from, to string) {
	s.t.Helper()
	s.must(os.RemoveAll(to))
	s.must(os.CopyFS(to, os.DirFS(from)))
	s.must(filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	}))
}

func (s *sim) dirOf(i int) string { return filepath.Join(s.dir, fmt.Sprintf("m%03d", i)) }

// TestSimReusedAddress is field case P12: a machine of another fleet takes the address of a voter that is off. Everything that
// is dialled there ends at the key, is counted, and changes nobody; the voter goes on at another address.
func TestSimReusedAddress(t *testing.T) {
	simulate(t, 231, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent"}
		a1 := s.boot(0)
		time.Sleep(2 * time.Second)
		a2 := s.boot(1)
		s.joined(a1, a2)
		s.deaf(func(i, j int) bool { return (i < 2) != (j < 2) }) // until both are grown
		b1 := s.boot(2)
		time.Sleep(2 * time.Second)
		b2 := s.boot(3)
		s.joined(b1, b2)
		s.deaf(nil)
		s.halt(0)
		s.halt(3)
		before := s.standing(b1)
		roster := func(n *Node) (out string) {
			for m := range n.View().Members() {
				out += fmt.Sprintln(m.ID, m.Key, m.Role)
			}
			return out
		}
		others := roster(a2)
		b2 = s.boot(3, func(c *Config) { c.Network = &simNet{s: s, addr: addrOf(0)} })
		s.want(time.Minute, "it follows from there", func() bool { return follows(b2, b1) })
		was := s.metric(a2, `pace_sessions_refused_total{reason="peer-key"}`)
		time.Sleep(5 * time.Minute)
		if got := s.metric(a2, `pace_sessions_refused_total{reason="peer-key"}`); got == was {
			t.Error("what it dials there is not counted")
		}
		if _, ok := condition(a2, "consensus-leader-silent"); !ok || roster(a2) != others || a2.Mode() != formation.Learner {
			t.Errorf("silent: %v, %s\n%s", ok, a2.Mode(), roster(a2))
		}
		if now := s.standing(b1); now == before { // only its endpoint has changed there
			t.Error("the other fleet did not notice its member's address")
		}
		a1 = s.boot(0, s.elsewhere(0))
		s.want(2*time.Minute, "the voter goes on", func() bool { return follows(a2, a1) })
		if roster(a1) != others || b1.View().Len() != 2 || a1.View().Len() != 2 {
			t.Errorf("rosters:\n%s\n%s", roster(a1), roster(b1))
		}
	})
}

// TestSimCopyTakenElsewhere is field case P22: a copy of a learner's directory that is reset and joins another fleet takes
// nothing from the original; a reset leaves neither the old id nor the old key outside the archive.
func TestSimCopyTakenElsewhere(t *testing.T) {
	simulate(t, 232, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		s.deaf(func(i, j int) bool { return (i < 2) != (j < 2) })
		other := s.boot(2)
		time.Sleep(2 * time.Second)
		s.halt(1)
		s.copyDir(s.dirOf(1), s.dirOf(3))
		b = s.boot(1)
		s.want(time.Minute, "the original follows", func() bool { return follows(b, a) })
		row := s.standing(a)
		seen := map[string]bool{b.ID(): true}
		for round := range uint64(2) { // and a second reset works too
			if _, err := statedir.Reset(s.dirOf(3), statedir.Options{}); err != nil {
				t.Fatal(err)
			}
			for name, text := range s.tree(3) {
				for old := range seen {
					if !strings.HasPrefix(name, "/archive") && strings.Contains(string(text), old) {
						t.Errorf("%s holds the old identity", name)
					}
				}
			}
			c := s.boot(3, func(c *Config) {
				rng := rand.New(rand.NewPCG(round, 99)) // the kit's own mints the same again
				c.Entropy = func(b []byte) {
					for i := range b {
						b[i] = byte(rng.Uint32())
					}
				}
			})
			if seen[c.ID()] || c.Key() == b.Key() || c.Mode() != formation.Solitary {
				t.Fatalf("after a reset it is %s under %s", c.ID(), c.Key())
			}
			seen[c.ID()] = true
			s.joined(other, c)
			time.Sleep(10 * time.Minute)
			s.must(s.cluster(other, forget(c)))
			s.want(time.Minute, "it is alone again", func() bool { return c.Mode() == formation.Solitary })
			s.halt(3)
			if s.standing(a) != row || !follows(b, a) {
				t.Errorf("before\n%s\nafter\n%s", row, s.standing(a))
			}
			s.expect = append(s.expect, "id=own-key-revoked")
		}
	})
}

// TestSimWholeFleetMovesWhileOff is field case P27: three voters and two learners are stopped, every address changes, all
// are started: they find one another by their beacons, and nobody types anything. Also with two of three voters moved.
func TestSimWholeFleetMovesWhileOff(t *testing.T) {
	for name, moved := range map[string][]int{"all": {0, 1, 2, 3, 4}, "two of three voters": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			simulate(t, 233, func(t *testing.T, s *sim) {
				a := s.voters(3)
				for i := 3; i < 5; i++ {
					s.joined(a, s.boot(i))
				}
				s.agree(s.nodes...)
				cluster := a.View().Cluster()
				for i := range s.nodes {
					s.halt(i)
				}
				for i := range 5 {
					if slices.Contains(moved, i) {
						s.boot(i, s.elsewhere(i))
					} else {
						s.boot(i)
					}
				}
				began := time.Now()
				var lead *Node
				s.want(time.Minute, "one leads", func() bool { lead = s.leading(); return lead != nil && s.write(lead, "9") == nil })
				t.Logf("a write is accepted after %s", time.Since(began))
				s.want(time.Minute, "the roster has where each is", func() bool {
					for _, i := range moved {
						m, ok := lead.View().Member(s.nodes[i].id)
						if !ok || m.Endpoints.FC != fmt.Sprintf("10.77.100.%d:6674", i+1) {
							return false
						}
					}
					return true
				})
				s.agree(s.nodes...)
				for _, n := range s.nodes {
					if n.View().Cluster() != cluster {
						t.Errorf("%s is in %s", n.name, n.View().Cluster())
					}
				}
			})
		})
	}
}

// TestSimVoterFromAnOldCopy is field case P31: a voter whose disk is put back to a moment before a machine was forgotten and
// another admitted agrees with the others again, lets the forgotten one in nowhere, and shows its old roster only with how
// long it heard no leader; and all three put back to copies of different seconds are one history or none.
func TestSimVoterFromAnOldCopy(t *testing.T) {
	simulate(t, 234, func(t *testing.T, s *sim) {
		s.expect = []string{"id=own-key-revoked", "id=consensus-leader-silent", "id=fleet-state-differs"}
		a := s.voters(3)
		gone := s.boot(3)
		s.joined(a, gone)
		s.agree(s.nodes[:3]...)
		s.halt(2)
		s.copyDir(s.dirOf(2), s.dirOf(2)+".old")
		s.boot(2)
		lead := s.led(s.nodes[:3]...)
		key := gone.Key()
		s.must(s.asked(lead, forget(gone)))
		s.want(time.Minute, "it is alone", func() bool { return gone.Mode() == formation.Solitary })
		s.halt(3)
		fresh := s.boot(4)
		s.joined(s.led(s.nodes[:3]...), fresh)
		s.agree(s.nodes[:3]...)
		s.halt(2)
		s.copyDir(s.dirOf(2)+".old", s.dirOf(2))
		c := s.boot(2)
		if _, revoked := c.View().Revoked(key); !revoked { // what it shows now is old, and it says how long it heard nobody
			raw, err := c.nodeStatus(context.Background())
			s.must(err)
			st, err := wire.DecodeDocument[control.NodeStatus](raw)
			if err != nil || st.View.Leads || st.Leader != nil && st.View.AsOfMS == 0 {
				t.Errorf("it shows an old roster as if it were new: %+v, led by %+v, %v", st.View, st.Leader, err)
			}
		}
		s.want(30*time.Second, "it agrees with the others", func() bool {
			return c.View().Digest() == s.nodes[0].View().Digest() && c.View().Digest() == s.nodes[1].View().Digest() && seats(s.nodes[0], c)
		})
		if _, err := c.Access(control.Peer{Key: key}); err == nil || err.Code != wire.CodeRevoked {
			t.Errorf("the forgotten machine is told %v", err)
		}
		// All three from copies that were taken some seconds apart, each while the others went on.
		for i := range 3 {
			s.halt(i)
			s.copyDir(s.dirOf(i), s.dirOf(i)+".old")
			s.boot(i)
			lead := s.led(s.nodes[:3]...)
			s.must(s.asked(lead, wire.ClusterRequest{Op: "set", Name: "enrollment.per-source", Value: fmt.Sprint(20 + i)}))
			s.agree(s.nodes[:3]...)
		}
		for i := range 3 {
			s.halt(i)
			s.copyDir(s.dirOf(i)+".old", s.dirOf(i))
		}
		for i := range 3 {
			s.boot(i)
		}
		// One history, or a voter that stops since it holds another: never two rosters.
		lead = s.led(s.nodes[:3]...)
		s.must(s.asked(lead, wire.ClusterRequest{Op: "set", Name: "enrollment.per-source", Value: "40"}))
		s.want(time.Minute, "each holds the leader's state, or has stopped", func() bool {
			for _, n := range s.nodes[:3] {
				_, stopped := condition(n, "fleet-state-differs")
				if !stopped && n.View().Digest() != lead.View().Digest() {
					return false
				}
			}
			return true
		})
		s.never(2*time.Minute, "two of them lead", func() bool {
			n := 0
			for _, v := range s.nodes[:3] {
				if v.isLeader() && v.serving.Load().leads() {
					n++
				}
			}
			return n > 1
		})
		for i := range 5 { // a learner goes back to no revision: it takes that history once it is no shorter than its own
			s.must(s.asked(s.led(lead), wire.ClusterRequest{Op: "set", Name: "enrollment.per-source", Value: fmt.Sprint(41 + i)}))
		}
		s.want(time.Minute, "the learner has that history", func() bool { return fresh.View().Digest() == lead.View().Digest() })
		// What the condition's remedy says: one that stopped leaves, and is admitted anew.
		for i, n := range s.nodes[:3] {
			if _, stopped := condition(n, "fleet-state-differs"); !stopped {
				continue
			}
			t.Logf("machine %d stopped", i)
			s.must(s.asked(n, wire.ClusterRequest{Op: "leave"}))
			s.want(time.Minute, "it is alone", func() bool { return n.Mode() == formation.Solitary })
		}
	})
}

// TestSimLongSilence is field case P33: a learner that heard no voter for 66 minutes refuses work, counted; a voter returns
// after leadership has changed twice, and the next lease is good without anybody's word. The same after a week.
func TestSimLongSilence(t *testing.T) {
	simulate(t, 235, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent", "id=fleet-unreachable"}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		work := func() *wire.Error {
			in := wire.WorkRequest{Step: "restart", Body: []byte("{}")}
			var err error
			if in.Lease, err = s.nodes[0].lease(b.id, in.Step, in.Body); err != nil {
				t.Fatal(err)
			}
			_, err = b.Work(context.Background(), control.Peer{Key: s.nodes[0].Key(), ID: s.nodes[0].id}, in)
			var refused *wire.Error
			errors.As(err, &refused)
			return refused
		}
		if e := work(); e != nil {
			t.Fatalf("a lease while it follows: %v", e)
		}
		for _, silent := range []time.Duration{66 * time.Minute, 7 * 24 * time.Hour} {
			s.cut(between(1))
			term := a.serving.Load().cons.Term()
			for range 2 {
				s.halt(0)
				if silent > fleet.LeaseSilence*2 {
					time.Sleep(silent / 2) // while nobody runs but the learner
				}
				a = s.boot(0)
			}
			if rest := silent - time.Minute; silent < fleet.LeaseSilence*2 {
				time.Sleep(rest + time.Minute)
			}
			if got := a.serving.Load().cons.Term(); got < term+2 {
				t.Errorf("the term went from %d to %d", term, got)
			}
			series := `pace_leases_refused_total{reason="no_voter_heard"}`
			before := s.metric(b, series)
			if e := work(); e == nil || e.Code != wire.CodeLeaseRefused || s.metric(b, series) != before+1 {
				t.Errorf("after %s of silence: %v, counted %v times", silent, e, s.metric(b, series)-before)
			}
			s.cut(nil)
			s.want(2*time.Minute, "it follows again", func() bool { return follows(b, a) })
			if e := work(); e != nil {
				t.Errorf("after %s of silence and a voter's return: %v", silent, e)
			}
		}
	})
}

// TestSimPromotionThatStandsStill is field case P25: a machine that is to be a voter and is not there counts for nothing:
// with one of three voters cut off the others write on, and the next machine is promoted meanwhile.
func TestSimPromotionThatStandsStill(t *testing.T) {
	simulate(t, 236, func(t *testing.T, s *sim) {
		a := s.voters(3)
		gone, fresh := s.boot(3), s.boot(4)
		s.joined(a, gone)
		s.joined(a, fresh)
		s.halt(3)
		s.must(s.asked(s.led(s.nodes[:3]...), wire.ClusterRequest{Op: "admit", ID: gone.id, Endpoint: "10.77.0.99:6680"}))
		s.want(2*time.Minute, "the leader says so", func() bool {
			lead := s.leading()
			if lead == nil {
				return false
			}
			detail, ok := condition(lead, "promotion-stalled")
			return ok && strings.Contains(detail, gone.id)
		})
		lead := s.led(s.nodes[:3]...)
		other := slices.IndexFunc(s.nodes[:3], func(n *Node) bool { return n != lead })
		s.cut(between(other))
		s.must(s.write(lead, "9"))
		s.cut(nil)
		lead = s.led(s.nodes[:3]...)
		began := time.Now()
		s.promote(lead, fresh)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it took %s beside one that stands still", took)
		}
		if got := roleIn(lead, gone); got != fleet.RoleVoterPending {
			t.Errorf("the one that is not there is %s", got)
		}
		if got := lead.serving.Load().cons.Seats(); len(got) != 4 || got[gone.id] != fleet.SeatNone {
			t.Errorf("raft holds %v", got)
		}
	})
}

// TestSimVoterOfAnotherHistory: the disks of two of three voters are put back to a moment before a change that the third one has
// applied. The two go on without it; the third finds that it differs, stops, and is a member again after it left and asked anew.
func TestSimVoterOfAnotherHistory(t *testing.T) {
	simulate(t, 237, func(t *testing.T, s *sim) {
		s.expect = []string{"id=fleet-state-differs"}
		a := s.voters(3)
		s.must(s.write(a, "5"))
		s.agree(s.nodes...)
		for i := range 3 {
			s.halt(i)
			s.copyDir(s.dirOf(i), s.dirOf(i)+".old")
		}
		// Raft itself puts the third right where its entries are of another term, and has the third win where its log is longer. The
		// fault needs other entries of the same term, and more of them: two lives that begin from the same disks, in the same term.
		term := func() uint64 { return s.leading().serving.Load().cons.Term() }
		live := func(fits func() bool) *Node {
			for {
				for i := range 3 {
					s.copyDir(s.dirOf(i)+".old", s.dirOf(i))
					s.boot(i)
				}
				if lead := s.led(s.nodes...); fits() {
					return lead
				}
				for i := range 3 {
					s.halt(i)
				}
			}
		}
		stop := func() {
			for _, i := range []int{2, 0, 1} { // the third first: who stops as leader hands over in a later term
				s.halt(i)
			}
		}
		lead := live(func() bool { return s.leading() != s.nodes[2] })
		s.must(s.asked(lead, wire.ClusterRequest{Op: "set", Name: fleet.SettingProvisionPaused, Value: "true"}))
		s.agree(s.nodes...)
		first, last := term(), s.nodes[2].serving.Load().cons.Applied()
		stop()
		s.copyDir(s.dirOf(2), s.dirOf(2)+".first")
		lead = live(func() bool { return term() == first })
		for v := 40; lead.serving.Load().cons.Applied() < last+10; v++ {
			s.must(s.write(lead, strconv.Itoa(v)))
		}
		s.agree(s.nodes...)
		stop()
		s.copyDir(s.dirOf(2)+".first", s.dirOf(2))
		s.boot(0)
		s.boot(1)
		s.led(s.nodes[:2]...)
		c := s.boot(2)
		s.want(time.Minute, "the third finds that it differs", func() bool {
			_, ok := condition(c, "fleet-state-differs")
			return ok
		})
		s.never(time.Minute, "it leads", func() bool { return c.serving.Load().leads() })
		lead = s.led(s.nodes[:2]...)
		s.must(s.write(lead, "31"))
		// What the condition's remedy says.
		s.must(s.cluster(c, wire.ClusterRequest{Op: "leave"}))
		s.want(time.Minute, "it is alone", func() bool { return c.Mode() == formation.Solitary })
		if _, ok := condition(c, "fleet-state-differs"); ok {
			t.Error("it is said of a store that is put away")
		}
		time.Sleep(formation.RejectionFor) // who left asks again after an hour
		s.joined(s.led(s.nodes[:2]...), c)
		s.agree(s.nodes...)
	})
}
