package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"pace-node/internal/consensus"
	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/follow"
	"pace-node/internal/formation"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// recoverTimeout bounds the verb: a store of some megabytes is copied, and one entry is written.
const recoverTimeout = 30 * time.Second

// recoverPoints are the crash points of a recovered store on its way into its place.
var recoverPoints = []string{
	"node.recover.built.before", "node.recover.built.after", "node.recover.away.before", "node.recover.away.after",
	"node.recover.place.before", "node.recover.place.renamed", "node.recover.place.after",
}

// buildingMark ends the name of a recovered store that is not whole yet.
const buildingMark = ".new"

// takeStores brings the stores to what the record says, whatever a crash has left of that, and returns the record as it is
// then: what another epoch's acceptance left is put away, a recovered store is built and put in its place, and stores of
// other fleets are archived.
func (n *Node) takeStores(rec statedir.Record) (statedir.Record, error) {
	if rec.PutAway {
		to, err := n.dir.Archive(rec.Cluster, statedir.ConsensusDir, statedir.FollowDir)
		if err != nil {
			return rec, fmt.Errorf("put the stores of before another epoch was accepted away under archive/: %w", err)
		}
		n.log.Info("stores archived: another recovery epoch was accepted", "fleet", rec.Cluster, "to", to)
		rec.PutAway = false
		if err := n.dir.Save(rec); err != nil {
			return rec, err
		}
	}
	if rec.Recovery != nil {
		if err := n.placeRecovered(rec); err != nil {
			return rec, err
		}
	}
	return rec, n.archiveOthers(rec)
}

// placeRecovered builds the store of a recovery, puts the old ones away, and puts it in their place. Each step is passed
// over where it was done before a crash.
func (n *Node) placeRecovered(rec statedir.Record) error {
	at := func(name string) string { return filepath.Join(n.dir.Path(), name) }
	have, err := consensus.RecoveredEpoch(at(statedir.ConsensusDir))
	if err != nil {
		return err
	}
	if have == rec.Recovery.Epoch {
		return nil
	}
	built := at(statedir.RecoveredDir)
	if _, err := os.Lstat(built); errors.Is(err, fs.ErrNotExist) {
		if err := n.buildRecovered(rec, built); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	n.point("node.recover.away.before")
	to, err := n.dir.Archive(rec.Cluster, statedir.ConsensusDir, statedir.FollowDir)
	if err != nil {
		return fmt.Errorf("put the stores that were recovered from away under archive/: %w", err)
	}
	n.log.Info("stores archived: the fleet is recovered from them", "fleet", rec.Cluster, "to", to)
	n.point("node.recover.away.after")
	n.point("node.recover.place.before")
	if err := os.Rename(built, at(statedir.ConsensusDir)); err != nil {
		return fmt.Errorf("put the recovered store in its place: %w", err)
	}
	n.point("node.recover.place.renamed")
	if err := statedir.SyncFolder(n.dir.Path()); err != nil {
		return fmt.Errorf("put the recovered store in its place: %w", err)
	}
	n.point("node.recover.place.after")
	return nil
}

// buildRecovered builds the store under another name and gives it its own when it is whole.
func (n *Node) buildRecovered(rec statedir.Record, built string) error {
	fresh := built + buildingMark
	if err := os.RemoveAll(fresh); err != nil { // what a crash left of one
		return fmt.Errorf("build the recovered store: %w", err)
	}
	b := consensus.Build{Dir: fresh, NodeID: n.id, Cluster: rec.Cluster, Epoch: rec.Recovery.Epoch, Logger: n.log, NoSync: n.cfg.NoSync, Point: n.point}
	n.point("node.recover.built.before")
	switch rec.Recovery.From {
	case statedir.FromLearner:
		snapshot, err := follow.State(filepath.Join(n.dir.Path(), statedir.FollowDir), n.point)
		if err != nil {
			return err
		}
		if snapshot == nil {
			return fmt.Errorf("%w: %s holds no state to recover the fleet from; put that folder back from a backup", follow.ErrDamaged, filepath.Join(n.dir.Path(), statedir.FollowDir))
		}
		if err := b.FromState(snapshot); err != nil {
			return err
		}
	case statedir.FromVoter:
		if err := b.FromStore(filepath.Join(n.dir.Path(), statedir.ConsensusDir)); err != nil {
			return err
		}
	default: // a restored one comes with its store
		return fmt.Errorf("%w: %s is missing, and this machine was restored from a backup; run pacectl fleet restore again", consensus.ErrDamaged, built)
	}
	if err := os.Rename(fresh, built); err != nil {
		return fmt.Errorf("build the recovered store: %w", err)
	}
	if err := statedir.SyncFolder(n.dir.Path()); err != nil {
		return fmt.Errorf("build the recovered store: %w", err)
	}
	n.point("node.recover.built.after")
	return nil
}

// recoveryRefusal is one row of what stands against a recovery, asked in order.
type recoveryRefusal struct {
	Name string
	Bad  func(f recoveryFacts) bool
	Say  func(f recoveryFacts) (text, hint string)
}

// recoveryFacts are what a recovery is judged by.
type recoveryFacts struct {
	mode    formation.Mode
	moving  bool
	held    bool          // the applied state holds this machine under its own id and key
	applied bool          // there is an applied state
	frozen  bool          // the fleet writes a later format than this version reads
	leads   bool          // this machine leads
	leader  string        // who leads, "" where nobody does
	silent  time.Duration // since a leader was heard
	voters  int
	heard   int // of them, this one included
}

const hintFleet = "pacectl fleet status shows who is heard"

// recoveryRefusals is the table: a fleet that has a leader, or voters enough for one, is not in need of it, and recovering
// would make two fleets of one.
var recoveryRefusals = []recoveryRefusal{
	{"moving", func(f recoveryFacts) bool { return f.moving },
		func(recoveryFacts) (string, string) {
			return "this machine is changing its place in a fleet", "try again in a few seconds"
		}},
	{"no fleet", func(f recoveryFacts) bool { return f.mode == formation.Solitary || f.mode == formation.Pending },
		func(recoveryFacts) (string, string) {
			return "this machine is a fleet of its own, which it leads: there is nothing to recover", "pacectl node shows what it is in"
		}},
	{"no state", func(f recoveryFacts) bool { return !f.applied },
		func(recoveryFacts) (string, string) {
			return "this machine has not applied the fleet's state yet, so there is nothing to recover from", "run it on a machine that has: pacectl fleet status shows the members there"
		}},
	{"not a member", func(f recoveryFacts) bool { return !f.held },
		func(recoveryFacts) (string, string) {
			return "the state that this machine has applied does not hold it as a member", "run it on another machine of the fleet"
		}},
	{"later format", func(f recoveryFacts) bool { return f.frozen },
		func(recoveryFacts) (string, string) {
			return "the fleet writes a later format than this version reads, so what it has is not all there is", "upgrade this machine first"
		}},
	{"leads", func(f recoveryFacts) bool { return f.leads },
		func(recoveryFacts) (string, string) {
			return "this machine leads the fleet: there is nothing to recover", "machines that are gone are forgotten: pacectl member forget"
		}},
	{"has a leader", func(f recoveryFacts) bool { return f.leader != "" && f.silent < follow.SilenceLimit },
		func(f recoveryFacts) (string, string) {
			return fmt.Sprintf("the fleet has a leader, %s, heard %s ago: recovering would make two fleets of one", control.Word(f.leader), f.silent.Truncate(time.Second)),
				"if it is really gone, try again once it has been silent for " + follow.SilenceLimit.String()
		}},
	{"has a quorum", func(f recoveryFacts) bool { return f.heard > f.voters/2 },
		func(f recoveryFacts) (string, string) {
			return fmt.Sprintf("%d of the fleet's %d voters are heard, which are enough to elect a leader: recovering would make two fleets of one", f.heard, f.voters),
				"give them some seconds; " + hintFleet
		}},
}

// recoverable reports what stands against a recovery here, nil for nothing. The loop's.
func (n *Node) recoverable() *wire.Error {
	own, b, v := n.form.Own(), n.body, n.view.Load()
	f := recoveryFacts{mode: own.Mode, moving: b == nil || n.inMove, applied: v.Cluster() == own.Cluster && v.Cluster() != "", voters: len(v.Voters()), silent: n.leaderSilent()}
	f.held = v.Holds(n.id, n.key.Public())
	if !f.moving {
		f.leads, f.leader = b.leads(), n.leader().id
		if b.learner != nil {
			f.frozen = b.learner.Status().Frozen
		} else {
			f.frozen = errors.Is(b.cons.Err(), consensus.ErrFormatNewer)
		}
	}
	for _, m := range v.Voters() {
		if m.ID == n.id && own.Mode == formation.Voter || m.ID != n.id && n.hub.ByKey(m.Key) != nil {
			f.heard++
		}
	}
	for i := range recoveryRefusals {
		if r := &recoveryRefusals[i]; r.Bad(f) {
			text, hint := r.Say(f)
			return wire.NewError(wire.CodeRefusedByRule, text, hint)
		}
	}
	return nil
}

// recoveryPreview says what a recovery would do here, and what it may lose.
func (n *Node) recoveryPreview(ctx context.Context) (control.RecoverPreview, error) {
	out := control.RecoverPreview{V: control.DocumentVersion, View: n.pictured(), Lost: []string{}}
	v := n.view.Load()
	out.Cluster, out.Epoch, out.Members = v.Cluster(), v.Epoch()+1, v.Len()
	var refused *wire.Error
	err := n.ask(ctx, func(now time.Time) {
		refused = n.recoverable()
		for _, m := range v.Voters() {
			s := control.Machine{ID: m.ID, Name: m.Name, Endpoint: m.Endpoints.FC}
			if m.ID == n.id {
				continue
			}
			row := control.RecoverVoter{Machine: s}
			if at := n.heardOf(now, m); !at.IsZero() {
				ms := now.Sub(at).Milliseconds()
				row.HeardMS = &ms
			}
			out.Voters = append(out.Voters, row)
		}
		out.Lost = append(out.Lost, n.recoveredAlready()...)
	})
	if err != nil {
		return out, err
	}
	if refused != nil {
		return out, refused
	}
	out.Lost = append(out.Lost, fmt.Sprintf("whatever the fleet committed after revision %d, which this machine has applied", v.Revision()))
	if n.Mode() == formation.Learner {
		out.Lost = append(out.Lost, "what only voters keep: the audit, machines that are awaited (pre-approvals), and where each machine stands with provisioning")
	} else {
		out.Lost = append(out.Lost, "nothing that this voter wrote down; entries of which it does not know that a quorum took them count as taken")
	}
	out.Lost = append(out.Lost, "the fleet's other voters: each becomes a learner, and follows only after pacectl fleet accept on it, or after asking to join again")
	return out, nil
}

// recoverFleet makes this machine the only voter of its fleet, under the next recovery epoch.
func (n *Node) recoverFleet(ctx context.Context, r wire.ClusterRequest) (wire.ClusterAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	var refused *wire.Error
	var epoch uint64
	var cluster string
	err := n.ask(ctx, func(now time.Time) {
		if refused = n.recoverable(); refused != nil {
			return
		}
		v := n.view.Load()
		cluster, epoch = v.Cluster(), v.Epoch()+1
		if r.ID != cluster {
			refused = wire.NewError(wire.CodeRefusedByRule, "the fleet's id that was given back is not this fleet's, so nothing was done", "give back "+cluster)
			return
		}
		n.log.Warn("this machine recovers its fleet: it becomes its only voter", "fleet", cluster, "epoch", epoch, "revision", v.Revision())
		n.step(now, formation.Event{Kind: formation.EvTrigger, Trigger: formation.Recovered})
	})
	if err != nil {
		return wire.ClusterAnswer{}, err
	}
	if refused != nil {
		return wire.ClusterAnswer{}, refused
	}
	done := func(o formation.Own) bool {
		b := n.body
		return o.Mode == formation.Voter && b != nil && b.cons != nil && b.view().Epoch() == epoch
	}
	if err := n.until(ctx, done); err != nil {
		return wire.ClusterAnswer{}, wire.NewError(wire.CodeBusy, fmt.Sprintf("the recovery is recorded and not finished within %s (%v); it goes on by itself", recoverTimeout, err),
			"pacectl node shows what stands in its way")
	}
	return wire.ClusterAnswer{Revision: n.view.Load().Revision(), Text: fmt.Sprintf("this machine is the only voter of fleet %s, in recovery epoch %d; on each other machine of the fleet: pacectl fleet accept %s", cluster, epoch, n.key.Public())}, nil
}

// recoveryRecord is the record with which this machine becomes its fleet's only voter.
func (n *Node) recoveryRecord(rec statedir.Record, from formation.Mode) statedir.Record {
	rec.Established = true
	rec.Recovery = &statedir.Recovery{Epoch: n.view.Load().Epoch() + 1, From: statedir.FromVoter}
	if from == formation.Learner {
		rec.Recovery.From = statedir.FromLearner
	}
	return rec
}

// recoveryDone forgets a recovery whose entry is in the log.
func (n *Node) recoveryDone(b *body) {
	if n.rec.Recovery != nil && b != nil && b.cons != nil && b.view().Epoch() >= n.rec.Recovery.Epoch {
		n.keepRecord(func(rec *statedir.Record) { rec.Recovery = nil })
	}
}

// recoveryEpoch is the recovery epoch that a body is in: before its first state, the one of the approval.
func (b *body) recoveryEpoch() uint64 {
	switch {
	case b == nil:
		return 0
	case b.learner != nil:
		return b.learner.Epoch()
	case b.cons != nil:
		return b.view().Epoch()
	}
	return 0
}

// position is where a body's state is, to be compared with another's.
func (b *body) position() (epoch, revision uint64) {
	var v *fleet.View
	if b != nil {
		v = b.view()
	}
	if v == nil {
		return 0, 0
	}
	return b.recoveryEpoch(), v.Revision()
}
