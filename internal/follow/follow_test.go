package follow

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/wire"
)

func TestWholeStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		v := r.voters[0]
		r.start()
		r.same(v)
		if s := r.l.Stats(); s.Snapshots != 1 || s.Entries != 0 {
			t.Fatalf("a learner without a state begins with a snapshot: %+v", s)
		}
		v.apply(admit(2), fleet.Set("enrollment.per-source", "7", by, 1), fleet.PreApprove("n-0009", pub(9), false, by, 1),
			fleet.ProvisionUpdate("n-0002", fleet.Provision{LastError: "not for you"}), fleet.ProvisionUpdate(self, fleet.Provision{LastError: "for you"}))
		r.same(v)
		if s := r.l.Stats(); s.Snapshots != 1 || s.Entries != 5 {
			t.Fatalf("commands came as commands: %+v", s)
		}
		if m, _ := r.l.View().Member("n-0002"); m.Provision.LastError != "" {
			t.Fatal("another's provisioning came along")
		}
		if m, _ := r.l.View().Member(self); m.Provision.LastError != "for you" {
			t.Fatal("its own provisioning did not come")
		}
		r.until("a heartbeat of the last revision", func() bool { return r.l.Status().VoterRevision == v.view().Revision() })
		st := r.l.Status()
		if st.Following != "v-0" || st.LeaderID != "v-0" || st.LeaderEndpoint != "10.0.0.1:6674" || st.Term != 3 || r.l.HighestTerm() != 3 || r.l.Stats().Lag != 0 {
			t.Fatalf("%+v", st)
		}
		if d := r.l.Silence(time.Now()); d > HeartbeatEvery {
			t.Fatalf("silent for %v", d)
		}
		if off, ok := r.l.ClockOffset(time.Now()); !ok || off.Abs() > 2*time.Millisecond {
			t.Fatalf("clock offset %v, %v", off, ok)
		}
		if err := r.stop(); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		r.checkEntries()

		// A restart goes on from the disk, without a snapshot.
		v.apply(admit(3))
		l, err := OpenLearner(r.cfg)
		if err != nil {
			t.Fatal(err)
		}
		if l.View().Revision() != v.view().Revision()-1 || l.HighestTerm() != 3 || l.Silence(time.Now()) < fleet.LeaseSilence {
			t.Fatalf("on disk: %d, term %d, silent for %v", l.View().Revision(), l.HighestTerm(), l.Silence(time.Now()))
		}
		l.Close()
		r.start()
		r.same(v)
		if s := r.l.Stats(); s.Snapshots != 0 || s.Entries != 1 {
			t.Fatalf("after a restart: %+v", s)
		}
		r.stop()
	})
}

func TestSourceGoesOnFromTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		v := r.voters[0]
		r.start()
		r.same(v)
		r.stop()
		v.apply(admit(2), admit(3))
		// The voter started again: its ring is empty, the log still reaches back.
		v.src.Close()
		again := newVoter(t, v.id, v.state)
		again.log = v.log
		r.voters[0] = again
		r.start()
		r.same(again)
		if s := r.l.Stats(); s.Snapshots != 0 || s.Entries != 2 {
			t.Fatalf("%+v", s)
		}
		r.stop()
		// And where it does not, a snapshot comes.
		again.apply(admit(4))
		again.src.Close()
		third := newVoter(t, v.id, v.state)
		third.noSince = true
		r.voters[0] = third
		r.start()
		r.same(third)
		if s := r.l.Stats(); s.Snapshots != 1 || s.Entries != 0 {
			t.Fatalf("%+v", s)
		}
		r.stop()
		r.checkEntries()
	})
}

// TestRaftSnapshotAtTheVoter: a voter whose raft took a snapshot tells of no entry; its followers get one within two
// heartbeats.
func TestRaftSnapshotAtTheVoter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		v := r.voters[0]
		r.start()
		r.same(v)
		v.apply(admit(2))
		r.same(v)
		v.set(func(v *voter) {
			for _, c := range []fleet.Command{admit(3), admit(4)} {
				if _, err := v.state.Apply(c.Encode()); err != nil {
					t.Fatal(err)
				}
			}
			v.noSince = true
		})
		begun := time.Now()
		r.same(v)
		if d := time.Since(begun); d > 2*HeartbeatEvery+time.Second {
			t.Fatalf("took %v", d)
		}
		v.apply(admit(5))
		r.same(v)
		r.stop()
		r.checkEntries()
	})
}

func TestGapAsksForASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		v := r.voters[0]
		r.start()
		r.same(v)
		dropped := false
		v.set(func(v *voter) {
			v.edit = func(b []byte) []byte {
				if k, _ := wire.ReadPushKind(b); k == wire.PushCommand && !dropped {
					dropped = true
					return nil
				}
				return b
			}
		})
		v.apply(admit(2), admit(3))
		begun := time.Now()
		r.same(v)
		if s := r.l.Stats(); s.Snapshots != 2 || time.Since(begun) > 2*time.Second {
			t.Fatalf("%+v after %v", s, time.Since(begun))
		}
		if last := v.lastAsked(); last.Revision != 0 || last.Digest != "" {
			t.Fatalf("asked %+v", last)
		}
		r.stop()
		r.checkEntries()
	})
}

func TestDigestMismatchGetsASnapshot(t *testing.T) {
	for _, behind := range []int{0, 2} {
		t.Run(fmt.Sprint(behind, " behind"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1)
				v := r.voters[0]
				v.apply(admit(2))
				r.start()
				r.same(v)
				r.stop()
				// The disk holds another state of the same revision.
				other := fleet.New()
				for _, c := range []fleet.Command{fleet.Found(testCluster, 1790000000, founder()), admit(1), admit(77)} {
					if _, err := other.Apply(c.Encode()); err != nil {
						t.Fatal(err)
					}
				}
				s, _, err := openStore(r.cfg.Dir, true, func(string) {})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.install(other.Snapshot()); err != nil {
					t.Fatal(err)
				}
				s.close()
				for i := range behind {
					v.apply(admit(10 + i))
				}
				r.entries = nil
				r.start()
				r.same(v)
				if s := r.l.Stats(); s.Snapshots != 1 {
					t.Fatalf("%+v", s)
				}
				if _, ok := r.l.View().Member("n-0077"); ok {
					t.Fatal("the other state is still there")
				}
				r.stop()
			})
		})
	}
}

func TestBehindVoterIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.applyAll(admit(2), admit(3))
		r.start()
		r.same(r.voters[0])
		r.stop()
		// v-1 is at an older revision, and is the leader the learner knows of.
		old := newRig(t, 2).voters[1]
		r.voters[1] = old
		r.voters[0].set(func(v *voter) { v.refuse = errors.New("unreachable") })
		r.start()
		r.until("error 16", func() bool { return len(r.told().refused) > 0 })
		if e := r.told().refused[0]; e.Code != wire.CodeBehind {
			t.Fatalf("%v", e)
		}
		r.voters[0].set(func(v *voter) { v.refuse = nil })
		r.until("follow the other", func() bool { return r.l.Status().Following == "v-0" })
		r.stop()
		r.checkEntriesFrom(t)
	})
}

func (r *rig) checkEntriesFrom(t *testing.T) {
	for _, e := range r.entries {
		if e.Revision < e.Prev {
			t.Fatalf("went back from %d to %d", e.Prev, e.Revision)
		}
	}
}

func TestOlderSnapshotNeverReplacesANewerState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		v := r.voters[0]
		old := v.view().SnapshotFor(self)
		oldRev := v.view().Revision()
		v.apply(admit(2), admit(3))
		r.start()
		r.same(v)
		at := r.l.View().Revision()
		sess := &session{r: &runner{l: r.l}, l: r.l, epoch: 0}
		r.cancel()
		<-r.result
		if err := sess.install(old, oldRev); !errors.Is(err, errOlder) {
			t.Fatalf("%v", err)
		}
		if r.l.View().Revision() != at || r.l.Stats().Snapshots != 1 {
			t.Fatal("the older one was taken")
		}
		if err := r.l.Close(); err != nil {
			t.Fatal(err)
		}
		// Nor is one of before this machine's own admission believed.
		early := fleet.New()
		if _, err := early.Apply(fleet.Found(testCluster, 1790000000, founder()).Encode()); err != nil {
			t.Fatal(err)
		}
		r.cfg.Dir = t.TempDir()
		r.voters[0] = newVoter(t, v.id, early)
		l, err := OpenLearner(r.cfg)
		if err != nil {
			t.Fatal(err)
		}
		sess = &session{r: &runner{l: l}, l: l, epoch: 0}
		if err := sess.install(early.SnapshotFor(self), 1); !errors.Is(err, errOlder) {
			t.Fatalf("%v", err)
		}
		l.Close()
	})
}

func TestSilenceMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3)
		r.start()
		r.same(r.voters[0])
		r.until("the leader is followed", func() bool { return r.l.Status().Following != "" })
		first := r.l.Status().Following
		for _, v := range r.voters {
			if v.id == first {
				v.set(func(v *voter) { v.mute = true })
			}
		}
		begun := time.Now()
		r.until("another is followed", func() bool { f := r.l.Status().Following; return f != "" && f != first })
		d := time.Since(begun)
		if d < SilenceLimit-HeartbeatEvery || d > SilenceLimit+backoffBase*2 {
			t.Fatalf("moved on after %v", d)
		}
		if s := r.l.Stats(); s.Switches != 1 {
			t.Fatalf("%+v", s)
		}
		r.applyAll(admit(5))
		r.same(r.voters[0])
		r.stop()
		r.checkEntries()
	})
}

func TestLeaderlessHeartbeatsMoveOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.voters[1].set(func(v *voter) { v.refuse = errors.New("down") })
		r.start()
		r.until("v-0 is followed", func() bool { return r.l.Status().Following == "v-0" })
		r.voters[1].set(func(v *voter) { v.refuse, v.leader, v.term = nil, "v-1", 9 })
		r.voters[0].set(func(v *voter) { v.leader, v.term = "", 50 })
		begun := time.Now()
		r.until("v-1 is followed", func() bool { return r.l.Status().Following == "v-1" })
		if d := time.Since(begun); d > SilenceLimit+2*HeartbeatEvery+2*backoffBase {
			t.Fatalf("after %v", d)
		}
		r.until("its term counts", func() bool { return r.l.HighestTerm() == 9 })
		r.stop()
	})
}

// TestElectionEverywhere: where no voter hears a leader, the learner does not go round and round.
func TestElectionEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3)
		for _, v := range r.voters {
			v.set(func(v *voter) { v.leader, v.silent = "", time.Hour })
		}
		r.start()
		r.until("followed", func() bool { return r.l.View().Revision() > 0 })
		time.Sleep(10 * time.Minute)
		dials := 0
		for _, v := range r.voters {
			dials += v.dialled()
		}
		if dials > 40 {
			t.Fatalf("%d dials in ten minutes", dials)
		}
		if r.l.HighestTerm() != 0 {
			t.Fatal("a term of nobody was believed")
		}
		for _, v := range r.voters {
			v.set(func(v *voter) { v.leader, v.silent = "v-0", 0 })
			v.src.Beat()
		}
		r.until("the leader is heard", func() bool { return r.l.Status().LeaderID == "v-0" })
		r.stop()
	})
}

func TestAnotherVoterAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.voters[1].set(func(v *voter) { v.refuse = errors.New("down") })
		r.start()
		r.until("v-0 is followed", func() bool { return r.l.Status().Following == "v-0" })
		r.voters[1].set(func(v *voter) { v.refuse = nil })
		r.voters[1].apply(admit(2), admit(3))
		r.l.Hint("nobody", 0, 1000)
		r.l.Hint("v-1", 0, r.voters[1].view().Revision())
		r.until("v-1 is followed", func() bool { return r.l.Status().Following == "v-1" })
		r.same(r.voters[1])
		r.stop()
	})
}
