//go:build e2e

package crash

import (
	"errors"
	"fmt"

	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// The stories of machines that leave a fleet, or give up asking one, at their operator's word.

func init() {
	// The record is written once before the fleet is asked, and once by the move.
	stories = append(stories,
		story{name: "leaves", run: leaves, hits: []string{
			"statedir.record.", "statedir.record.@2", "node.move.", "statedir.archive.begin.", "statedir.archive.move.", "consensus.cluster-file.", "consensus.found."}},
		story{name: "leaves, a voter", run: leavesAsVoter, hits: []string{"statedir.record.rename.", "statedir.record.rename.@2", "node.move.", "statedir.archive.move."}},
		story{name: "leaves alone", run: leavesAlone, hits: []string{"statedir.record.rename.", "node.move.", "statedir.archive.move."}},
		story{name: "gives its ask up", run: givesUp, hits: []string{"statedir.record.", "node.move.record."}},
		story{name: "forgotten, a voter", run: forgottenVoter, hits: []string{"statedir.record.rename.", "node.move.", "statedir.archive.move."}},
		story{name: "accepts, a learner", run: acceptsAsLearner, hits: []string{"statedir.record.rename.", "node.move.", "statedir.archive.begin.", "statedir.archive.move."}},
	)
}

// alone waits until a machine that left is a new fleet of one, saying again what its operator said: a crash may have come
// before the word was kept.
func (v *victim) alone(again func() error, not ...string) (minted string, err error) {
	err = v.until("it is a new fleet of one", func() (bool, string) {
		ok, state := v.inMode("solitary", "")
		if !ok {
			return false, fmt.Sprintf("%s; %v", state, again())
		}
		c, err := v.cluster()
		if err != nil {
			return false, err.Error()
		}
		for _, old := range not {
			if c.Cluster == old {
				return false, "it is in " + old + " again"
			}
		}
		_, times := member(c, v.last.NodeID)
		minted = c.Cluster
		return c.View.Leads && len(c.Members) == 1 && times == 1 && !raised(c.Conditions, "own-key-revoked"), fmt.Sprintf("%+v %+v", c.View, c.Conditions)
	})
	return minted, err
}

// leave is what the operator types on the machine that leaves.
func (v *victim) leave(force bool) error {
	return v.change(wire.ClusterRequest{Op: "leave", Force: force})
}

// unlisted waits until a machine's fleet lists another one no more, and no machine twice.
func (n *machine) unlisted(id string, left int) error {
	return wait(n.name+" lists it no more", func() (bool, string) {
		c, err := n.cluster()
		if err != nil {
			return false, err.Error()
		}
		_, times := member(c, id)
		return times == 0 && len(c.Members) == left && c.View.Leads, fmt.Sprintf("listed %d times among %d, %+v", times, len(c.Members), c.View)
	})
}

func leaves(l *lane, c trial) (err error) {
	p, err := l.pair(trial{}, c)
	defer p.gone(&err)
	if err != nil {
		return err
	}
	if err := p.b.open(); err != nil {
		return err
	}
	minted, err := p.b.alone(func() error { return p.b.leave(false) }, p.own, p.fleet)
	if err != nil {
		return err
	}
	if err := p.a.unlisted(p.b.last.NodeID, 1); err != nil {
		return err
	}
	return errors.Join(p.b.end("solitary", minted, p.own+"/"+statedir.ConsensusDir, p.fleet+"/"+statedir.FollowDir), p.a.end("voter", p.fleet))
}

func leavesAsVoter(l *lane, c trial) (err error) {
	p, err := l.pair(trial{}, c)
	defer p.gone(&err)
	if err != nil {
		return err
	}
	if err := p.votes(p.b.settled, p.promote); err != nil {
		return err
	}
	if err := p.b.examine(); err != nil {
		return err
	}
	if err := p.b.open(); err != nil {
		return err
	}
	minted, err := p.b.alone(func() error { return p.b.leave(false) }, p.own, p.fleet)
	if err != nil {
		return err
	}
	if err := p.a.unlisted(p.b.last.NodeID, 1); err != nil {
		return err
	}
	return errors.Join(p.endAlone(minted), p.a.end("voter", p.fleet))
}

// endAlone looks at what b leaves that has been a learner and a voter of the fleet: it has a store of either, and both are put
// away, the second beside the first.
func (p *two) endAlone(minted string) error {
	return p.b.end("solitary", minted, p.own+"/"+statedir.ConsensusDir, p.fleet+"/"+statedir.ConsensusDir, p.fleet+"-2/"+statedir.FollowDir)
}

// leavesAlone has the founder of a fleet go without the fleet's word, for it is its only voter.
func leavesAlone(l *lane, c trial) (err error) {
	p, err := l.pair(c, trial{})
	defer p.gone(&err)
	if err != nil {
		return err
	}
	if err := p.a.open(); err != nil {
		return err
	}
	minted, err := p.a.alone(func() error { return p.a.leave(true) }, p.own, p.fleet)
	if err != nil {
		return err
	}
	if err := p.b.end("learner", p.fleet, p.own+"/"+statedir.ConsensusDir); err != nil {
		return err
	}
	return p.a.end("solitary", minted, p.fleet+"/"+statedir.ConsensusDir)
}

// givesUp has a machine that waits give its ask up: it stays the fleet of one that it was.
func givesUp(l *lane, c trial) (err error) {
	v, err := l.fresh(c, 0, "--fleet-seed="+l.founder.endpoint())
	if err != nil {
		return err
	}
	defer l.tidy(&err)
	defer v.gone(&err)
	own, err := l.pending(v)
	if err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	minted, err := v.alone(func() error { return v.leave(false) }, l.fleet)
	if err != nil {
		return err
	}
	if minted != own {
		return fmt.Errorf("it was fleet %s and is %s", own, minted)
	}
	return v.end("solitary", own)
}

func forgottenVoter(l *lane, c trial) (err error) {
	p, err := l.pair(trial{}, c)
	defer p.gone(&err)
	if err != nil {
		return err
	}
	if err := p.votes(p.b.settled, p.promote); err != nil {
		return err
	}
	if err := p.b.examine(); err != nil {
		return err
	}
	if err := p.b.open(); err != nil {
		return err
	}
	// Whoever led before hands over where it is to lose its vote, and is asked again then.
	forget := func() error {
		err := p.a.change(wire.ClusterRequest{Op: "forget", ID: p.b.last.NodeID})
		if err != nil {
			err = errors.Join(err, p.b.change(wire.ClusterRequest{Op: "forget", ID: p.b.last.NodeID}))
		}
		return err
	}
	minted := ""
	if err := p.b.until("it is a new fleet of one", func() (bool, string) {
		ok, state := p.b.inMode("solitary", "")
		if !ok {
			return false, fmt.Sprintf("%s; %v", state, forget())
		}
		c, err := p.b.cluster()
		if err != nil {
			return false, err.Error()
		}
		minted = c.Cluster
		return c.View.Leads && len(c.Members) == 1 && raised(c.Conditions, "own-key-revoked"), fmt.Sprintf("%+v %+v", c.View, c.Conditions)
	}); err != nil {
		return err
	}
	if err := p.a.unlisted(p.b.last.NodeID, 1); err != nil {
		return err
	}
	return errors.Join(p.endAlone(minted), p.a.end("voter", p.fleet))
}

// acceptsAsLearner has a learner accept that another one has recovered the fleet, whose only voter is gone for good.
func acceptsAsLearner(l *lane, c trial) (err error) {
	p, err := l.pair(trial{}, trial{})
	defer p.gone(&err)
	if err != nil {
		return err
	}
	v, err := l.fresh(c, 0, "--fleet-seed="+p.a.endpoint())
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
	own := v.last.Cluster
	if err := joined(p.a.machine, v.machine, p.fleet); err != nil {
		return err
	}
	// Both know of each other before the voter goes.
	if err := wait("both learners have it all", func() (bool, string) {
		for _, n := range []*victim{p.b, v} {
			if c, err := n.cluster(); err != nil || len(c.Members) != 3 {
				return false, fmt.Sprintf("%s lists %d (%v)", n.name, len(c.Members), err)
			}
		}
		return true, ""
	}); err != nil {
		return err
	}
	if err := v.examine(); err != nil {
		return err
	}
	p.a.kill()
	if err := p.b.stop(); err != nil { // started anew it has heard nobody
		return err
	}
	if err := p.b.start(); err != nil {
		return err
	}
	if err := p.b.ready(); err != nil {
		return err
	}
	if err := wait("the other learner has recovered the fleet", func() (bool, string) {
		said := p.b.change(wire.ClusterRequest{Op: "recover", ID: p.fleet})
		c, err := p.b.cluster()
		return err == nil && c.View.Mode == "voter" && c.View.Leads && c.Cluster == p.fleet, fmt.Sprint(said, err)
	}); err != nil {
		return err
	}
	s, err := p.b.status()
	if err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	if err := v.until("it follows the one that recovered the fleet", func() (bool, string) {
		said := v.change(wire.ClusterRequest{Op: "accept", Key: s.PublicKey, Endpoint: p.b.endpoint()})
		if ok, state := v.inMode("learner", p.fleet); !ok {
			return false, fmt.Sprint(said, state)
		}
		want, err := p.b.cluster()
		if err != nil {
			return false, err.Error()
		}
		got, err := v.cluster()
		if err != nil {
			return false, err.Error()
		}
		return got.View.Epoch == want.View.Epoch && got.View.Revision >= want.View.Revision && got.Leader != nil && got.Leader.ID == p.b.last.NodeID,
			fmt.Sprintf("%v; %+v, %+v", said, want.View, got.View)
	}); err != nil {
		return err
	}
	return v.end("learner", p.fleet, own+"/"+statedir.ConsensusDir, p.fleet+"/"+statedir.FollowDir)
}
