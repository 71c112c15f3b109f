package node

import (
	"context"
	"encoding/json"
	"io/fs"
	"net/netip"
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
	"pace-node/internal/wire"
)

func named(name string) tweak { return func(c *Config) { c.Settings.Name = name } }

// TestSimRowsGo: a waiting machine that is not heard for ten minutes loses its row; one with an open stream keeps it.
func TestSimRowsGo(t *testing.T) {
	simulate(t, 51, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b, c := s.boot(1), s.boot(2)
		s.want(5*time.Second, "both wait", func() bool { return s.waits(a, b) && s.waits(a, c) })
		time.Sleep(12 * time.Minute)
		if !s.waits(a, b) || !s.waits(a, c) {
			t.Fatal("a row went though its stream is open")
		}
		s.net.Vanish(addrOf(1))
		s.cut(between(1))
		s.never(9*time.Minute+50*time.Second, "a row went before ten minutes", func() bool { return !s.waits(a, b) })
		s.want(2*time.Minute, "the row goes", func() bool { return !s.waits(a, b) })
		if !s.waits(a, c) || s.metric(a, "pace_enrollment_requests_expired_total") != 1 {
			t.Error("another row went with it")
		}
	})
}

// TestSimNameOfAMember: a row that bears a member's name says whose, and when that member was last heard: now, where it has
// a session.
func TestSimNameOfAMember(t *testing.T) {
	simulate(t, 52, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1, named("pump-1"))
		s.joined(a, b)
		time.Sleep(3 * time.Hour)
		c := s.boot(2, named("pump-1"))
		row := func() control.EnrollRow {
			s.want(30*time.Second, "it waits", func() bool { return s.waits(a, c) })
			rows := s.rows(a)
			return rows[slices.IndexFunc(rows, func(r control.EnrollRow) bool { return r.ID == c.id })]
		}
		if r := row(); r.NameOf == nil || r.NameOf.ID != b.id || r.NameOf.HeardMS == nil || *r.NameOf.HeardMS > 60_000 {
			t.Errorf("of a member that is there it says %+v", r.NameOf)
		}
		s.halt(1)
		s.halt(2)
		time.Sleep(time.Hour)
		c = s.boot(2)
		if r := row(); r.NameOf == nil || r.NameOf.HeardMS == nil || *r.NameOf.HeardMS < 58*60_000 || *r.NameOf.HeardMS > 62*60_000 {
			t.Errorf("of a member that went an hour ago it says %+v", r.NameOf)
		}
	})
}

// TestSimSeedsOfAMember: a seed that is this machine itself is said once and skipped; one that is given to a member is not
// followed, and its status says so.
func TestSimSeedsOfAMember(t *testing.T) {
	simulate(t, 53, func(t *testing.T, s *sim) {
		a := s.boot(0, seededBy(endpointOf(0)))
		said := func(n *Node) string {
			raw, err := n.nodeStatus(context.Background())
			s.must(err)
			var doc control.NodeStatus
			s.must(json.Unmarshal(raw, &doc))
			return doc.Seeds[len(doc.Seeds)-1].Said // after what is remembered
		}
		s.want(5*time.Second, "it knows itself", func() bool { return said(a) == formation.SaySeedIsSelf.String() })
		dials := s.net.Dials()
		time.Sleep(5 * time.Minute)
		if n := s.net.Dials() - dials; n != 0 {
			t.Errorf("it dialled %d times more", n)
		}
		b := s.boot(1)
		s.joined(a, b)
		s.boot(2)
		s.halt(1)
		b = s.boot(1, seededBy(endpointOf(2)))
		s.want(5*time.Second, "it says that it does not follow", func() bool { return said(b) == formation.SaySeedNotFollowed.String() })
		s.never(3*time.Minute, "it followed", func() bool { return b.Mode() != formation.Learner })
	})
}

// TestSimPorts: the consensus port is open on a machine that votes, and closed on a learner.
func TestSimPorts(t *testing.T) {
	simulate(t, 54, func(t *testing.T, s *sim) {
		s.expect = []string{"id=own-key-revoked"}
		open := func(i int) bool {
			c, err := s.net.Dialer(addrOf(9))(context.Background(), "tcp", netip.AddrPortFrom(addrOf(i), 6680).String())
			if err == nil {
				c.Close()
			}
			return err == nil
		}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.want(5*time.Second, "it waits", func() bool { return s.waits(a, b) })
		if !open(0) || !open(1) {
			t.Error("a solitary or pending machine's consensus port is closed")
		}
		s.joined(a, b)
		if open(1) || b.self.Load().RaftEndpoint != "" {
			t.Error("a learner's consensus port is open or announced")
		}
		s.must(s.cluster(a, forget(b)))
		s.want(time.Second, "it is solitary", func() bool { return b.Mode() == formation.Solitary && open(1) })
	})
}

// TestSimEstablishedIsKept: a setting, a pre-approval and an armed window each make a fleet of one established for ever, also
// where it was taken back: it does not yield to an older one, which yields to it.
func TestSimEstablishedIsKept(t *testing.T) {
	for name, by := range map[string]func(s *sim, b *Node){
		"a setting": func(s *sim, b *Node) {
			s.must(s.cluster(b, wire.ClusterRequest{Op: "set", Name: fleet.SettingPerSource, Value: "7"}))
			s.must(s.cluster(b, wire.ClusterRequest{Op: "set", Name: fleet.SettingPerSource}))
		},
		"a pre-approval": func(s *sim, b *Node) {
			s.must(s.cluster(b, wire.ClusterRequest{Op: "admit-learner", ID: "n-9", Key: identity.NewPrivateKey([32]byte{9}).Public().String()}))
			s.must(s.cluster(b, wire.ClusterRequest{Op: "forget", ID: "n-9"}))
		},
		"an armed window": func(s *sim, b *Node) { s.must(s.arm(b, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, 55, func(t *testing.T, s *sim) {
				s.cut(between(1))
				older := s.boot(0)
				time.Sleep(2 * time.Second)
				b := s.boot(1)
				by(s, b)
				s.want(time.Second, "it announces so", func() bool { return b.self.Load().State == wire.StateEstablished })
				time.Sleep(2 * time.Second)
				s.halt(1)
				b = s.boot(1)
				if b.self.Load().State != wire.StateEstablished {
					t.Error("a restart forgot it")
				}
				s.cut(nil)
				s.want(30*time.Second, "the older one yields", func() bool { return asks(older, b) })
				if b.Mode() != formation.Solitary {
					t.Errorf("it is %s", b.Mode())
				}
			})
		})
	}
}

// TestSimEveryAddressChanged: a fleet whose every address changed while it was off finds itself again by its beacons.
func TestSimEveryAddressChanged(t *testing.T) {
	simulate(t, 56, func(t *testing.T, s *sim) {
		at := func(i int) tweak {
			return func(c *Config) {
				c.Network = &simNet{s: s, addr: netip.AddrFrom4([4]byte{10, 77, 100, byte(i + 1)})}
			}
		}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		s.halt(0)
		s.halt(1)
		b = s.boot(1, at(1))
		time.Sleep(5 * time.Second)
		a = s.boot(0, at(0))
		s.want(45*time.Second, "it follows again", func() bool { return follows(b, a) })
		for _, n := range []*Node{a, b} {
			s.want(5*time.Second, "the roster knows the new addresses", func() bool {
				m, _ := b.View().Member(n.id)
				return strings.HasPrefix(m.Endpoints.FC, "10.77.100.")
			})
		}
	})
}

// TestSimNoDiscovery: seeds alone are enough.
func TestSimNoDiscovery(t *testing.T) {
	simulate(t, 57, func(t *testing.T, s *sim) {
		off := func(c *Config) { c.Settings.Discovery = "" }
		a := s.boot(0, off)
		time.Sleep(2 * time.Second)
		b := s.boot(1, off, seededBy(endpointOf(0)))
		s.joined(a, b)
		s.halt(0)
		time.Sleep(time.Minute)
		a = s.boot(0)
		s.want(45*time.Second, "it follows again", func() bool { return follows(b, a) })
	})
}

// TestSimRevokedAsksAgain: a machine whose key was revoked, and that does not know, is told by a signed answer, says so and
// does not ask again.
func TestSimRevokedAsksAgain(t *testing.T) {
	simulate(t, 58, func(t *testing.T, s *sim) {
		s.expect = []string{"id=own-key-revoked"}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		s.boot(1)
		s.halt(1)
		home, copied := filepath.Join(s.dir, "m001"), filepath.Join(s.dir, "backup")
		s.must(os.CopyFS(copied, os.DirFS(home)))
		b := s.boot(1)
		s.joined(a, b)
		s.halt(1)
		s.must(s.cluster(a, forget(b)))
		s.must(os.RemoveAll(home))
		s.must(filepath.WalkDir(copied, func(path string, d fs.DirEntry, err error) error { // a backup of before it joined
			rel, _ := filepath.Rel(copied, path)
			if err != nil || d.IsDir() {
				return mkdirLike(err, filepath.Join(home, rel))
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(home, rel), raw, 0o600)
		}))
		b = s.boot(1)
		s.want(30*time.Second, "it says that its key is revoked", func() bool { _, ok := condition(b, "own-key-revoked"); return ok })
		s.want(time.Second, "it is solitary", func() bool { return b.Mode() == formation.Solitary })
		if n := s.metric(a, `pace_enrollment_requests_refused_total{reason="revoked"}`); n != 1 {
			t.Errorf("it was told %v times, want 1", n)
		}
		s.halt(1)
		b = s.boot(1)
		s.never(2*time.Hour, "it asks again", func() bool { return b.Mode() != formation.Solitary })
	})
}

func mkdirLike(err error, path string) error {
	if err != nil {
		return err
	}
	return os.MkdirAll(path, 0o700)
}

// TestSimClone: a machine and its copy are seen, and neither is provisioned any more.
func TestSimClone(t *testing.T) {
	simulate(t, 59, func(t *testing.T, s *sim) {
		s.expect = []string{"identity-cloned", "the identity may be cloned"}
		a := s.boot(0, provisioning)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		s.want(5*time.Second, "it is provisioned", func() bool { return provisioned(b, a) })
		s.halt(1)
		s.must(os.CopyFS(filepath.Join(s.dir, "m002"), os.DirFS(filepath.Join(s.dir, "m001"))))
		s.must(filepath.WalkDir(filepath.Join(s.dir, "m002"), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				return os.Chmod(path, 0o700)
			}
			if err == nil {
				return os.Chmod(path, 0o600)
			}
			return err
		}))
		b = s.boot(1)
		s.want(30*time.Second, "it follows", func() bool { return follows(b, a) })
		clone := s.boot(2)
		cloned := func(n *Node) bool { _, ok := condition(n, "identity-cloned"); return ok }
		s.want(2*time.Minute, "the leader says so", func() bool { return cloned(a) })
		s.want(2*time.Minute, "the two say so", func() bool { return cloned(b) && cloned(clone) })
		s.halt(2)
		s.want(10*time.Minute, "nobody says so when the copy is gone", func() bool { return !cloned(a) && !cloned(b) })
	})
}

// TestSimPreApprovedWhileWaiting: approving ahead a machine that waits already admits it, over its open stream.
func TestSimPreApprovedWhileWaiting(t *testing.T) {
	simulate(t, 60, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.want(5*time.Second, "it waits", func() bool { return s.waits(a, b) })
		s.must(s.cluster(a, wire.ClusterRequest{Op: "admit-learner", ID: b.id, Key: b.Key().String()}))
		s.want(time.Second, "it follows", func() bool { return follows(b, a) })
		if n := len(a.View().PreApprovals()); n != 0 {
			t.Errorf("%d machines are still awaited", n)
		}
	})
}

// TestSimJoinerRestarts: a machine that is restarted while it waits goes on waiting.
func TestSimJoinerRestarts(t *testing.T) {
	simulate(t, 61, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.want(5*time.Second, "it waits", func() bool { return s.waits(a, b) })
		s.halt(1)
		time.Sleep(time.Minute)
		b = s.boot(1)
		s.want(3*time.Second, "its stream is open again", func() bool { return asks(b, a) && s.rows(a)[0].HeardMS == 0 })
		s.must(s.grant(a, b))
		s.want(time.Second, "it follows", func() bool { return follows(b, a) })
		if rows := s.rows(a); len(rows) != 1 {
			t.Errorf("%d rows for one machine", len(rows))
		}
	})
}

// TestSimFounderMovesWhileJoinersWait: who waits finds a founder that comes back at another address.
func TestSimFounderMovesWhileJoinersWait(t *testing.T) {
	simulate(t, 62, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.want(5*time.Second, "it waits", func() bool { return s.waits(a, b) })
		s.halt(0)
		time.Sleep(10 * time.Second)
		a = s.boot(0, func(c *Config) { c.Network = &simNet{s: s, addr: netip.AddrFrom4([4]byte{10, 77, 100, 1})} })
		s.want(20*time.Second, "it waits again", func() bool { return s.waits(a, b) })
		s.joined(a, b)
	})
}

// TestSimSeedIsALearner: a seed may be any machine of the fleet; its leader is asked.
func TestSimSeedIsALearner(t *testing.T) {
	simulate(t, 63, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		s.deaf(between(2))
		c := s.boot(2, seededBy(endpointOf(1)))
		s.want(5*time.Second, "the leader is asked", func() bool { return s.waits(a, c) })
		s.joined(a, c)
	})
}

// TestSimOtherWireVersion: a datagram of another version is counted, said once a minute, and answered by nothing.
func TestSimOtherWireVersion(t *testing.T) {
	simulate(t, 64, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(time.Second)
		sent := s.metric(a, "pace_discovery_challenges_sent_total") + s.metric(a, "pace_discovery_proofs_sent_total")
		for range 90 {
			s.segment.Inject(netsim.Frame{From: netip.AddrPortFrom(addrOf(7), 4000), To: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 77, 255, 255}), 6681), Broadcast: true,
				Bytes: append([]byte{0xFD, 2, 1, 0, 0, 0, 4}, 0, 0, 0, 0)})
			time.Sleep(time.Second)
		}
		if n := s.metric(a, "pace_discovery_datagrams_refused_version_total"); n != 90 {
			t.Errorf("%v are counted, want 90", n)
		}
		if n := s.metric(a, "pace_discovery_challenges_sent_total") + s.metric(a, "pace_discovery_proofs_sent_total"); n != sent {
			t.Error("it was answered")
		}
		lines := 0
		for _, line := range s.log.lines {
			if strings.Contains(line, "another version of the discovery wire") && strings.Contains(line, addrOf(7).String()) && strings.Contains(line, "version=2") {
				lines++
			}
		}
		if lines != 2 {
			t.Errorf("it is said %d times in 90 s, want 2", lines)
		}
		if detail, ok := condition(a, "wire-version-seen"); !ok || !strings.Contains(detail, addrOf(7).String()) {
			t.Errorf("the condition says %q", detail)
		}
		time.Sleep(6*time.Minute + 2*time.Second) // its last line came up to a minute later
		if _, ok := condition(a, "wire-version-seen"); ok {
			t.Error("it is still raised five minutes after the last line")
		}
	})
}

// TestSimListOfTheWholeInventory: a list of machines that are to come may name those that are in the fleet already. They stay
// what they are, the leader and the other voters too, a seat that somebody is awaited for is kept, and nobody gets another key.
func TestSimListOfTheWholeInventory(t *testing.T) {
	simulate(t, 64, func(t *testing.T, s *sim) {
		a := s.voters(2)
		b, c := s.nodes[1], s.boot(2)
		s.joined(a, c)
		key := func(i byte) identity.PublicKey { return identity.NewPrivateKey([32]byte{9, i}).Public() }
		s.must(s.cluster(a, wire.ClusterRequest{Op: "admit", ID: "seated", Key: key(1).String(), Endpoint: "10.78.0.1:6680"}))
		list := []string{identity.FormatAdmit(a.id, a.Key()), identity.FormatAdmit(b.id, b.Key()), identity.FormatAdmit(c.id, c.Key()),
			identity.FormatAdmit("seated", key(1)), identity.FormatAdmit("later", key(2))}
		ans, err := a.Cluster(context.Background(), local, wire.ClusterRequest{Op: "admit-learner", Lines: list})
		s.must(err)
		if ans.Text != "2 machines are admitted as soon as they ask, and 3 are members already" {
			t.Errorf("it says %q", ans.Text)
		}
		v := a.View()
		if p, ok := v.Awaited("seated", key(1)); !ok || !p.Seat {
			t.Errorf("who is awaited for a seat is %+v", p)
		}
		if _, ok := v.Awaited("later", key(2)); !ok || v.CountRole(fleet.RoleVoter) != 2 || v.Len() != 3 || !a.isLeader() {
			t.Errorf("%d voters of %d members after the list", v.CountRole(fleet.RoleVoter), v.Len())
		}
		again, err := a.Cluster(context.Background(), local, wire.ClusterRequest{Op: "admit-learner", Lines: list})
		s.must(err)
		if again.Text != ans.Text || len(a.View().PreApprovals()) != 2 {
			t.Errorf("given again it says %q, and %d are awaited", again.Text, len(a.View().PreApprovals()))
		}
		err = s.cluster(a, wire.ClusterRequest{Op: "admit-learner", Lines: []string{identity.FormatAdmit("last", key(3)), identity.FormatAdmit(c.id, key(4))}})
		s.refusedWith(err, c.id, "under another key", "what comes before it is recorded", "--cluster-admit-learner=")
		if m, _ := a.View().Member(c.id); m.Key != c.Key() {
			t.Error("a list has re-keyed a member")
		}
		if _, ok := a.View().Awaited("last", key(3)); !ok {
			t.Error("the line before the refused one is not recorded")
		}
	})
}

// TestSimOlderWordForTheSameId: a machine was approved ahead under one key, and then one with the same id was admitted under
// another. The first one's key waits for a person: it does not put the member out.
func TestSimOlderWordForTheSameId(t *testing.T) {
	simulate(t, 66, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		other := identity.NewPrivateKey([32]byte{9, 9}).Public()
		s.must(s.cluster(a, wire.ClusterRequest{Op: "admit-learner", ID: b.id, Key: other.String()}))
		ahead := func() (yes bool) {
			s.must(a.ask(context.Background(), func(now time.Time) { f := a.facts(now); yes = f.PreApproved(b.id, other) }))
			return yes
		}
		if !ahead() {
			t.Fatal("the one that was approved ahead would not be admitted")
		}
		s.joined(a, b)
		if _, ok := a.View().PreApproved(b.id, other); !ok || ahead() {
			t.Errorf("awaited still: %v, and it would be admitted in the member's place: %v", ok, ahead())
		}
	})
}

// TestSimRefusedAdmissionIsNoEntry: an admission that the fleet's state refuses is asked for again every two seconds, and the
// log does not grow by it.
func TestSimRefusedAdmissionIsNoEntry(t *testing.T) {
	simulate(t, 65, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b, m := s.boot(1), s.mallory(9)
		s.must(s.cluster(a, wire.ClusterRequest{Op: "admit-learner", ID: b.id, Key: m.key.Public().String()}))
		s.joined(a, b)
		s.promote(a, b)
		time.Sleep(time.Minute) // what the two say of themselves is recorded
		before := a.View().Revision()
		for range 5 {
			if ans, code := m.enroll(m.key, m.addr, 0, b.id); code != 0 || ans.Outcome != wire.OutcomePending {
				t.Errorf("%s %s", code, ans.Outcome)
			}
			time.Sleep(2 * time.Second)
		}
		if v := a.View(); v.Revision() != before {
			t.Errorf("five asks that are refused raised the revision by %d", v.Revision()-before)
		} else if r, _ := v.Member(b.id); r.Key != b.Key() {
			t.Error("a voter has another key")
		}
	})
}

// TestWaitingListTakesWhatTheFleetTakes: nobody waits whose approval the fleet's state would refuse for its words.
func TestWaitingListTakesWhatTheFleetTakes(t *testing.T) {
	for _, c := range []struct {
		what       string
		list, kept int
	}{
		{"a name", enroll.MaxName, fleet.MaxName}, {"a platform", enroll.MaxPlatform, fleet.MaxPlatform},
		{"a version", enroll.MaxVersion, fleet.MaxVersion}, {"an endpoint", enroll.MaxEndpoint, fleet.MaxEndpoint},
	} {
		if c.list != c.kept {
			t.Errorf("%s: the list takes %d bytes, the fleet's state keeps %d", c.what, c.list, c.kept)
		}
	}
}
