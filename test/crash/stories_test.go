//go:build e2e

package crash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// story is one move of a machine's life. Its cases end the machine at each point of the code's list that begins with one
// of hits, which may end in @<n> for the n-th passing. Every point must be in some story.
type story struct {
	name string
	hits []string
	run  func(l *lane, c trial) error
	// together keeps the cases in one lane, one after the other.
	together bool
}

// trial is one case: the point at which the machine ends, and how often it does.
type trial struct {
	point string
	nth   int
	limit int // crashes
}

var stories = []story{
	{name: "first start", run: firstStart, hits: []string{
		"statedir.create.", "statedir.key.", "statedir.record.", "statedir.record.@2", // minted, and the boot counted
		"consensus.cluster-file.", "consensus.store.", "consensus.found.", "consensus.commit.", "consensus.log.", "consensus.term.",
		"target.settle.", "target.state."}},
	{name: "yields", run: yields, hits: []string{"statedir.record.@3", "node.move.record."}},
	{name: "its target yields", run: retargets, hits: []string{"statedir.record.", "node.move.record."}},
	{name: "rejected", run: rejected, hits: []string{"statedir.record.", "node.move.record."}},
	{name: "approved", run: approved, hits: []string{
		"statedir.record.", "node.move.", "statedir.archive.begin.", "statedir.archive.intent.", "statedir.archive.move.",
		"statedir.archive.sync.", "statedir.archive.name.", "node.mark.", "follow.snapshot.", "follow.log.", "follow.append.", "target.state.",
		"node.lease.", "target.csr.", "target.stage.", "target.intent.", "target.swap.current.", "target.swap.sync.", "target.swap.done.", "target.swap.clean."}},
	{name: "approved with archives to prune", run: prunes, hits: []string{"statedir.archive.prune."}},
	{name: "follows", run: follows, hits: []string{"follow.append."}},
	{name: "follows over a torn log", run: tornLog, hits: []string{"follow.truncate."}},
	{name: "far behind", run: farBehind, together: true, hits: []string{"follow.snapshot.", "follow.log."}},
	{name: "reprovisioned", run: reprovisioned, hits: []string{
		"node.lease.", "node.lease.@2", "node.lease.@3", "target.settle.", "target.stage.", "target.intent.", "target.swap.discard.", "target.swap.previous.",
		"target.swap.current.", "target.swap.sync.", "target.swap.done.", "target.swap.clean.", "target.state."}},
	{name: "a hook fails", run: hookFails, hits: []string{"target.hooks.run.", "target.swap.drop.", "target.swap.restore."}},
	{name: "staging damaged in mid-swap", run: damagedStaging, hits: []string{"target.swap.back."}},
	{name: "forgotten", run: forgotten, hits: []string{
		"statedir.record.", "node.move.", "statedir.archive.begin.", "statedir.archive.intent.", "statedir.archive.move.",
		"statedir.archive.sync.", "statedir.archive.name.", "consensus.cluster-file.", "consensus.store.", "consensus.found.",
		"consensus.commit.", "consensus.log.", "consensus.term.", "target.state."}},
	{name: "its fleet dissolves", run: dissolves, hits: []string{"statedir.record.", "node.move.", "node.heal.acknowledged."}},
	{name: "dissolves its fleet", run: dissolver, hits: []string{"node.heal.", "node.move.record.", "node.move.closed."}},
	{name: "upgraded", run: upgraded, hits: []string{
		"upgrade.stage.", "upgrade.intent.", "upgrade.keep.", "upgrade.swap.", "upgrade.sync.", "upgrade.count.", "upgrade.settle."}},
	{name: "upgraded to what does not serve", run: takenBack, hits: []string{"upgrade.undo.", "upgrade.back."}},
	{name: "founder records a machine", run: founderRecords, hits: []string{
		"statedir.record.", "node.move.record.", "consensus.commit.", "consensus.log."}},
}

// fresh makes a machine that was never started, with the trial's point. Its beacons go to a port, 0: it sends none.
func (l *lane) fresh(c trial, beacons int, args ...string) (*victim, error) {
	l.made++
	n, err := newMachine(fmt.Sprintf("m%03d", l.made), l.dir, beacons, args...)
	if err != nil {
		return nil, err
	}
	return &victim{machine: n, point: c.point, nth: c.nth, limit: c.limit}, nil
}

// gone ends what is left of a machine when its story is over, and shows the end of its log where that failed.
func (v *victim) gone(err *error) {
	v.kill()
	if *err != nil {
		*err = fmt.Errorf("%w\n--- %s (%s)\n%s", *err, v.name, v.dir, v.log.tail(40))
	}
	os.RemoveAll(v.dir)
}

func firstStart(l *lane, c trial) (err error) {
	v, err := l.fresh(c, 0)
	if err != nil {
		return err
	}
	defer v.gone(&err)
	if err := v.begin(); err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	first := ""
	if err := v.until("it founds a fleet of one and leads it", func() (bool, string) {
		s, err := v.cluster()
		if err != nil {
			return false, err.Error()
		}
		_, times := member(s, v.last.NodeID)
		first = s.Cluster
		return s.View.Leads && len(s.Members) == 1 && (v.crashes == 0 || v.last.NodeID == "" || times == 1), fmt.Sprintf("%+v", s.View)
	}); err != nil {
		return err
	}
	if v.last.Cluster != "" && v.last.Cluster != first {
		return fmt.Errorf("it had minted %s and leads %s", v.last.Cluster, first)
	}
	return v.end("solitary", first)
}

// pending starts a machine and waits until it stands in the founder's list.
func (l *lane) pending(v *victim) (own string, err error) {
	if err := v.begin(); err != nil {
		return "", err
	}
	return l.asks(v, v.settled)
}

func (l *lane) asks(v *victim, until func(string, func() (bool, string)) error) (own string, err error) {
	err = until("it asks the founder", func() (bool, string) {
		if ok, state := v.inMode("pending", ""); !ok {
			return false, state
		}
		s, err := v.status()
		if err != nil || s.Asks == nil || s.Asks.Cluster != l.fleet {
			return false, fmt.Sprintf("it asks %+v (%v)", s.Asks, err)
		}
		r, ok, err := l.founder.row(s.NodeID)
		if err != nil || !ok || r.Key != s.PublicKey {
			return false, fmt.Sprintf("the founder lists %+v (%v)", r, err)
		}
		c, err := v.cluster()
		own = c.Cluster
		return err == nil, fmt.Sprint(err)
	})
	if err == nil {
		err = v.examine()
	}
	return own, err
}

// tidy takes a machine that waits out of the founder's list, so that the next ones have room there.
func (l *lane) tidy(err *error) {
	*err = errors.Join(*err, l.founder.enroll(wire.ControlClear, nil))
}

func yields(l *lane, c trial) (err error) {
	// By beacons alone a machine that was proven a moment ago waits for the founder's next one.
	v, err := l.fresh(c, l.beacons, "--fleet-seed="+l.founder.endpoint())
	if err != nil {
		return err
	}
	defer l.tidy(&err)
	defer v.gone(&err)
	if err := v.begin(); err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	own, err := l.asks(v, v.until)
	if err != nil {
		return err
	}
	return v.end("pending", own)
}

// retargets has a machine ask another one, which then yields itself to the founder.
func retargets(l *lane, c trial) (err error) {
	other, err := l.fresh(trial{}, 0)
	if err != nil {
		return err
	}
	defer l.tidy(&err)
	defer other.gone(&err)
	if err := other.begin(); err != nil {
		return err
	}
	if err := other.ready(); err != nil {
		return err
	}
	v, err := l.fresh(c, 0, "--fleet-seed="+other.endpoint())
	if err != nil {
		return err
	}
	defer v.gone(&err)
	if err := v.begin(); err != nil {
		return err
	}
	if err := v.settled("it asks the other machine", func() (bool, string) {
		s, err := v.status()
		if err != nil {
			return false, err.Error()
		}
		r, ok, err := other.row(s.NodeID)
		return ok && s.Mode == "pending", fmt.Sprintf("%+v (%v)", r, err)
	}); err != nil {
		return err
	}
	if err := other.stop(); err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	other.args = append(other.args, "--fleet-seed="+l.founder.endpoint())
	if err := other.start(); err != nil {
		return err
	}
	own, err := l.asks(v, v.until)
	if err != nil {
		return err
	}
	return v.end("pending", own)
}

func rejected(l *lane, c trial) (err error) {
	v, err := l.fresh(c, l.beacons)
	if err != nil {
		return err
	}
	defer v.gone(&err)
	own, err := l.pending(v)
	if err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	if err := l.founder.enroll(wire.ControlReject, []byte(v.last.NodeID)); err != nil {
		return err
	}
	if err := v.until("it is a fleet of its own again", func() (bool, string) { return v.inMode("solitary", own) }); err != nil {
		return err
	}
	return v.end("solitary", own)
}

// join approves a machine that waits, and waits until it follows the founder and is configured.
func (l *lane) join(v *victim, until func(string, func() (bool, string)) error) error {
	id := v.last.NodeID
	return until("it is a learner and provisioned", func() (bool, string) {
		if err := l.founder.approve(id); err != nil {
			return false, err.Error()
		}
		return l.provisioned(v)
	})
}

// provisioned reports whether a machine follows the founder and has, confirmed, what the founder gives now. After a crash it
// does what an operator does who will not wait for the backoff.
func (l *lane) provisioned(v *victim) (bool, string) {
	id := v.last.NodeID
	if ok, state := l.level(v); !ok {
		return false, state
	}
	c, err := l.founder.cluster()
	if err != nil {
		return false, err.Error()
	}
	m, times := member(c, id)
	if times != 1 || m.Key != v.last.Key {
		return false, fmt.Sprintf("the founder lists it %d times, %+v", times, m)
	}
	q, err := l.founder.queueState(id)
	if err != nil {
		return false, err.Error()
	}
	if q.Entry.State == "backing off" {
		l.founder.queue("retry", id)
	}
	got, err := v.greeting()
	if err != nil || got != v.later {
		return false, fmt.Sprintf("its configuration is %q (%v), %+v", got, err, q.Entry)
	}
	return q.Entry.State == "confirmed", fmt.Sprintf("%+v", q.Entry)
}

// level reports whether a machine has applied what the founder has.
func (l *lane) level(v *victim) (bool, string) {
	if ok, state := v.inMode("learner", l.fleet); !ok {
		return false, state
	}
	want, err := l.founder.cluster()
	if err != nil {
		return false, err.Error()
	}
	got, err := v.cluster()
	if err != nil {
		return false, err.Error()
	}
	return got.View.Revision >= want.View.Revision && len(got.Members) == len(want.Members),
		fmt.Sprintf("it is at %d of %d with %d of %d members", got.View.Revision, want.View.Revision, len(got.Members), len(want.Members))
}

func approved(l *lane, c trial) error { return l.admitted(c, nil) }

func (l *lane) admitted(c trial, before func(v *victim) (archived []string, err error)) (err error) {
	v, err := l.fresh(c, l.beacons)
	if err != nil {
		return err
	}
	defer v.gone(&err)
	v.later = l.given
	var archived []string
	if before != nil {
		if archived, err = before(v); err != nil {
			return err
		}
	}
	own, err := l.pending(v)
	if err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	if err := l.join(v, v.until); err != nil {
		return err
	}
	return v.end("learner", l.fleet, append(archived, own+"/"+statedir.ConsensusDir)...)
}

// prunes has a machine with as many archives as are kept put away one more.
func prunes(l *lane, c trial) error {
	const kept = 8
	return l.admitted(c, func(v *victim) (archived []string, err error) {
		d, err := statedir.Open(v.dir, statedir.Options{})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, d.Close()) }()
		if _, _, err := d.Load(statedir.Mint{Entropy: entropy, Now: time.Now()}); err != nil {
			return nil, err
		}
		for i := range kept {
			if err := os.MkdirAll(filepath.Join(v.dir, statedir.FollowDir), 0o700); err != nil {
				return nil, err
			}
			cluster := fmt.Sprintf("%032x", i+1)
			if _, err := d.Archive(cluster, statedir.FollowDir); err != nil {
				return nil, err
			}
			if i > 0 { // the oldest goes
				archived = append(archived, cluster+"/"+statedir.FollowDir)
			}
		}
		return archived, nil
	})
}

func forgotten(l *lane, c trial) (err error) {
	v, err := l.fresh(c, l.beacons)
	if err != nil {
		return err
	}
	defer v.gone(&err)
	v.later = l.given
	own, err := l.pending(v)
	if err != nil {
		return err
	}
	if err := l.join(v, v.settled); err != nil {
		return err
	}
	if err := v.examine(); err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	if err := l.founder.change(wire.ClusterRequest{Op: "forget", ID: v.last.NodeID}); err != nil {
		return err
	}
	var minted string
	if err := v.until("it is a new fleet of one", func() (bool, string) {
		c, err := v.cluster()
		if err != nil {
			return false, err.Error()
		}
		_, times := member(c, v.last.NodeID)
		minted = c.Cluster
		return c.View.Mode == "solitary" && c.View.Leads && len(c.Members) == 1 && times == 1 && c.Cluster != own && c.Cluster != l.fleet && raised(c.Conditions, "own-key-revoked"),
			fmt.Sprintf("%s of %s", c.View.Mode, c.Cluster)
	}); err != nil {
		return err
	}
	s, err := l.founder.cluster()
	if err != nil {
		return err
	}
	if _, times := member(s, v.last.NodeID); times != 0 {
		return fmt.Errorf("the founder lists it %d times", times)
	}
	return v.end("solitary", minted, own+"/"+statedir.ConsensusDir, l.fleet+"/"+statedir.FollowDir)
}

func raised(all []control.ConditionStatus, id string) bool {
	for _, c := range all {
		if strings.EqualFold(c.ID, id) {
			return true
		}
	}
	return false
}

// founderRecords crashes a founder while it admits its first machine and becomes its fleet's voter.
func founderRecords(l *lane, c trial) (err error) {
	v, err := l.fresh(c, 0)
	if err != nil {
		return err
	}
	defer v.gone(&err)
	if err := v.begin(); err != nil {
		return err
	}
	if err := v.ready(); err != nil {
		return err
	}
	if err := v.examine(); err != nil {
		return err
	}
	joiner, err := l.fresh(trial{}, 0, "--fleet-seed="+v.endpoint())
	if err != nil {
		return err
	}
	defer joiner.gone(&err)
	if err := joiner.begin(); err != nil {
		return err
	}
	fleet := v.last.Cluster
	var own string
	if err := v.settled("the other machine asks", func() (bool, string) {
		s, err := joiner.status()
		if err != nil {
			return false, err.Error()
		}
		c, err := joiner.cluster()
		if err != nil {
			return false, err.Error()
		}
		own = c.Cluster
		_, ok, err := v.row(s.NodeID)
		return ok && s.Mode == "pending", fmt.Sprintf("it is %s (%v)", s.Mode, err)
	}); err != nil {
		return err
	}
	if err := joiner.examine(); err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	if err := v.until("the machine is admitted, and each has the same fleet", func() (bool, string) {
		if err := v.approve(joiner.last.NodeID); err != nil {
			return false, err.Error()
		}
		mine, err := v.cluster()
		if err != nil {
			return false, err.Error()
		}
		theirs, err := joiner.cluster()
		if err != nil {
			return false, err.Error()
		}
		_, a := member(mine, v.last.NodeID)
		_, b := member(mine, joiner.last.NodeID)
		return mine.View.Mode == "voter" && mine.View.Leads && mine.Cluster == fleet && theirs.View.Mode == "learner" && theirs.Cluster == fleet &&
			len(mine.Members) == 2 && a == 1 && b == 1 && theirs.View.Revision == mine.View.Revision, fmt.Sprintf("%+v and %+v of %s", mine.View, theirs.View, theirs.Cluster)
	}); err != nil {
		return err
	}
	if err := joiner.end("learner", fleet, own+"/"+statedir.ConsensusDir); err != nil {
		return err
	}
	return v.end("voter", fleet)
}
