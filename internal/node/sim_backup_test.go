package node

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pace-node/internal/consensus"
	"pace-node/internal/control"
	"pace-node/internal/formation"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// fetched is the fleet's state as a verb fetches it, part by part.
func (s *sim) fetched(n *Node) (state []byte, last control.BackupPart) {
	s.t.Helper()
	for {
		raw, err := n.Status(s.t.Context(), local, wire.StatusRequest{What: "backup", Offset: uint64(len(state)), Revision: last.Revision})
		s.must(err)
		last = control.BackupPart{}
		s.must(json.Unmarshal(raw, &last))
		if state = append(state, last.Bytes...); uint64(len(state)) == last.Total {
			return state, last
		}
	}
}

// sealed is a backup of a running machine, sealed and opened again.
func (s *sim) sealed(n *Node) *statedir.Backup {
	s.t.Helper()
	state, last := s.fetched(n)
	b := statedir.Backup{Record: n.dir.Record(), Seed: n.key.Seed(), State: state, At: time.Now().Unix(), Epoch: last.Epoch}
	file, err := b.Seal([]byte("five words are a passphrase"), n.cfg.Entropy)
	s.must(err)
	got, err := statedir.OpenBackup(file, []byte("five words are a passphrase"))
	s.must(err)
	return got
}

// restore puts a backup in the place of machine i, which does not run.
func (s *sim) restore(i int, b *statedir.Backup) error {
	dir := filepath.Join(s.dir, fmt.Sprintf("m%03d", i))
	_, err := statedir.Restore(dir, statedir.Options{}, b, "the hardware of "+dir, func(at string) error {
		return consensus.Build{Dir: at, NodeID: b.Record.NodeID, Cluster: b.Record.Cluster, Epoch: b.Epoch + 1}.FromState(b.State)
	})
	return err
}

// TestSimBackupAndRestore: a founder whose machine is destroyed goes on on another one, under the next recovery epoch, and
// its learners follow it once they are told to.
func TestSimBackupAndRestore(t *testing.T) {
	simulate(t, 321, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent", "id=fleet-recovered-elsewhere", "id=own-key-revoked"}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b, c, d := s.boot(1), s.boot(2), s.boot(3)
		for _, n := range []*Node{b, c, d} {
			s.joined(a, n)
		}
		s.must(s.cluster(a, forget(d)))
		s.must(s.cluster(a, wire.ClusterRequest{Op: "set", Name: "enrollment.per-source", Value: "9"}))
		backup := s.sealed(a)
		s.must(s.cluster(a, wire.ClusterRequest{Op: "set", Name: "enrollment.per-source", Value: "11"})) // lost
		s.want(time.Second, "it is everywhere", func() bool { return follows(b, a) && follows(c, a) })
		id, key, audit := a.id, a.Key(), len(a.View().Audit())-1
		later := b.View().Revision()
		s.halt(0)

		s.boot(5) // the machine that takes its place has run already
		s.halt(5)
		s.must(s.restore(5, backup))
		e := s.boot(5)
		v := e.View()
		if e.id != id || e.Key() != key || e.Mode() != formation.Voter || !e.body.leads() || v.Epoch() != 1 || v.Len() != 3 || len(v.Audit()) != audit+1 {
			t.Errorf("restored: %s, %s, epoch %d, %d members, %d audit entries after %d", e.id, e.Mode(), v.Epoch(), v.Len(), len(v.Audit()), audit)
		}
		if value, _ := v.Setting("enrollment.per-source"); value != "9" {
			t.Errorf("the setting is %q", value)
		}
		if _, revoked := v.Revoked(d.Key()); !revoked {
			t.Error("a forgotten machine's key is good again")
		}
		s.want(2*time.Minute, "its learners hear of it", func() bool { return told(b) && told(c) })
		if b.View().Revision() != later || b.View().Epoch() != 0 {
			t.Error("a learner followed an older state unasked")
		}
		for _, n := range []*Node{b, c} {
			_, err := typed(n, acceptRequest(e))
			s.must(err)
			s.want(time.Minute, "it follows", func() bool { return follows(n, e) && !told(n) })
		}
		s.halt(5)
		e = s.boot(5)
		s.want(time.Minute, "it starts again, and is followed", func() bool { return follows(b, e) && follows(c, e) && e.dir.Record().Recovery == nil })
	})
}

// TestSimBackupRefused: what is no voter of a fleet is not backed up, and nobody else may fetch the state.
func TestSimBackupRefused(t *testing.T) {
	simulate(t, 322, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		ask := func(n *Node, p control.Peer, r wire.StatusRequest) error {
			r.What = "backup"
			_, err := n.Status(t.Context(), p, r)
			return err
		}
		s.refusedWith(ask(a, local, wire.StatusRequest{}), "nobody else was ever in")
		b := s.boot(1)
		s.joined(a, b)
		s.refusedWith(ask(b, local, wire.StatusRequest{}), "is a learner", a.id)
		s.refusedWith(ask(a, control.Peer{Key: a.Key(), ID: a.id}, wire.StatusRequest{}), "own administrators")
		s.refusedWith(ask(a, local, wire.StatusRequest{Offset: 1, Revision: 1}), "no longer held")
		s.must(ask(a, local, wire.StatusRequest{}))
		if err := s.restore(1, s.sealed(a)); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("restored under a running node: %v", err)
		}
		s.halt(1)
		if err := s.restore(1, s.sealed(a)); err == nil || !strings.Contains(err.Error(), "--reset-identity") {
			t.Errorf("restored over a member of a fleet: %v", err)
		}
	})
}

// TestSimBackupBesideARecovery: an old backup is restored after the fleet was recovered elsewhere. Both lead recovery epoch 1; each
// says so, naming the other's key, and one follows the other at a person's word, whichever revision is higher.
func TestSimBackupBesideARecovery(t *testing.T) {
	simulate(t, 323, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent", "id=fleet-recovered-elsewhere", "id=fleet-unreachable"}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b, c := s.boot(1), s.boot(2)
		s.joined(a, b)
		s.joined(a, c)
		backup := s.sealed(a)
		s.halt(0)
		time.Sleep(16 * time.Second)
		_, err := typed(b, recoverRequest(b))
		s.must(err)
		_, err = typed(c, acceptRequest(b))
		s.must(err)
		s.want(time.Minute, "it follows the recovered fleet", func() bool { return follows(c, b) })
		s.never(2*time.Minute, "a healthy fleet says that it is led twice", func() bool { return told(b) })
		s.must(s.restore(5, backup))
		e := s.boot(5)
		s.want(time.Minute, "it leads the same epoch", func() bool { return e.isLeader() && e.View().Epoch() == 1 && b.isLeader() && b.View().Epoch() == 1 })
		s.want(3*time.Minute, "both say so", func() bool { return told(b) && told(e) })
		for n, other := range map[*Node]*Node{b: e, e: b} {
			if detail, _ := condition(n, "fleet-recovered-elsewhere"); !strings.Contains(detail, other.Key().String()) || !strings.Contains(detail, "same recovery epoch 1") {
				t.Errorf("%s says %q", n.name, detail)
			}
		}
		for range 5 {
			s.must(s.write(b, "9"))
			s.must(s.write(b, "10"))
		}
		_, err = typed(b, acceptRequest(e)) // the lower revision goes on: a person says so
		s.must(err)
		s.want(time.Minute, "one leads, and the other follows it", func() bool { return follows(b, e) && e.isLeader() && e.View().Epoch() == 1 })
		s.want(6*time.Minute, "neither says so any more", func() bool { return !told(b) && !told(e) })
	})
}
