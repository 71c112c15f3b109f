//go:build e2e

package crash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// The stories of a fleet that dissolves into another one.

// fission is two fleets at rest: an elder with a machine that was a voter of the younger one, and what is left of that: two
// voters and a learner. Every trial begins from the same state directories.
type fission struct {
	elder, moved           *machine
	leader, voter, learner *machine
	old, survivor          string
	saved                  string
}

func (f *fission) all() []*machine {
	return []*machine{f.elder, f.moved, f.leader, f.voter, f.learner}
}

// split gives the lane's fission with all machines as they were when it was made, none of them running.
func (l *lane) split() (f *fission, err error) {
	if f = l.fission; f == nil {
		if f, err = l.makeSplit(); err != nil {
			return nil, err
		}
		l.fission = f
	}
	for _, m := range f.all() {
		m.kill()
		if err := os.RemoveAll(m.dir); err != nil {
			return nil, err
		}
		if err := copyAll(filepath.Join(f.saved, m.name), m.dir); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// copyAll keeps owners and modes: a node looks at them.
func copyAll(from, to string) error {
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (l *lane) makeSplit() (*fission, error) {
	beacons, err := freePort("udp")
	if err != nil {
		return nil, err
	}
	f := &fission{saved: filepath.Join(l.dir, "saved")}
	// The elder is found only by whom it is typed to.
	if f.elder, err = newMachine("elder", l.dir, 0); err != nil {
		return nil, err
	}
	if err := f.elder.running(); err != nil {
		return nil, err
	}
	c, err := f.elder.cluster()
	if err != nil {
		return nil, err
	}
	f.survivor = c.Cluster
	if err := f.elder.set("enrollment.per-source", "64"); err != nil {
		return nil, err
	}
	if err := nextSecond(); err != nil {
		return nil, err
	}
	for _, m := range []struct {
		to   **machine
		name string
	}{{&f.leader, "leader"}, {&f.moved, "moved"}, {&f.voter, "voter"}, {&f.learner, "learner"}} {
		if *m.to, err = newMachine(m.name, l.dir, beacons); err != nil {
			return nil, err
		}
		if err := (*m.to).running(); err != nil {
			return nil, err
		}
		if *m.to == f.leader {
			if c, err = f.leader.cluster(); err != nil {
				return nil, err
			}
			f.old = c.Cluster
			if err := f.leader.set("enrollment.per-source", "64"); err != nil {
				return nil, err
			}
			if err := nextSecond(); err != nil {
				return nil, err
			}
			continue
		}
		if err := joined(f.leader, *m.to, f.old); err != nil {
			return nil, err
		}
	}
	for _, m := range []*machine{f.moved, f.voter} {
		r, err := m.record()
		if err != nil {
			return nil, err
		}
		// Two voters on a busy machine may elect the other one at any time: whoever leads is asked.
		if err := wait(m.name+" is a voter", func() (bool, string) {
			s, err := m.status()
			if err == nil && s.Mode == "voter" {
				return true, ""
			}
			state := fmt.Sprintf("%s %v", s.Mode, err)
			for _, v := range []*machine{f.leader, f.moved} {
				if c, err := v.cluster(); err == nil && c.View.Leads {
					state += fmt.Sprint("; ", v.change(wire.ClusterRequest{Op: "admit", ID: r.NodeID, Endpoint: fmt.Sprintf("127.0.0.1:%d", m.raft)}))
				}
			}
			return false, state
		}); err != nil {
			return nil, err
		}
	}
	revision := func(m *machine) uint64 { c, _ := m.cluster(); return c.View.Revision }
	if err := wait("the learner has it all", func() (bool, string) {
		a, b := revision(f.leader), revision(f.learner)
		return a > 0 && a == b, fmt.Sprintf("%d of %d", b, a)
	}); err != nil {
		return nil, err
	}
	for _, m := range []*machine{f.learner, f.voter, f.leader} {
		if err := m.stop(); err != nil {
			return nil, err
		}
	}
	if err := f.moved.change(wire.ClusterRequest{Op: "leave", Force: true}); err != nil {
		return nil, err
	}
	if err := f.moved.stop(); err != nil {
		return nil, err
	}
	f.moved.args = append(f.moved.args, "--fleet-seed="+f.elder.endpoint())
	if err := f.moved.running(); err != nil {
		return nil, err
	}
	if err := joined(f.elder, f.moved, f.survivor); err != nil {
		return nil, err
	}
	if err := os.Mkdir(f.saved, 0o700); err != nil {
		return nil, err
	}
	for _, m := range f.all() {
		if err := m.stop(); err != nil {
			return nil, err
		}
		if err := copyAll(m.dir, filepath.Join(f.saved, m.name)); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// running starts a machine and waits until it serves.
func (n *machine) running() error {
	if err := n.start(); err != nil {
		return err
	}
	return n.ready()
}

// joined approves a machine at a leader, and waits until it is a learner there.
func joined(leader, m *machine, fleet string) error {
	return wait(m.name+" is a learner", func() (bool, string) {
		s, err := m.status()
		if err != nil {
			return false, err.Error()
		}
		if err := leader.approve(s.NodeID); err != nil {
			return false, err.Error()
		}
		c, err := m.cluster()
		return err == nil && s.Mode == "learner" && c.Cluster == fleet, fmt.Sprintf("it is %s of %s", s.Mode, c.Cluster)
	})
}

// dissolves crashes the younger fleet's learner, dissolver its leader, while that fleet goes into the elder.
func dissolves(l *lane, c trial) error {
	return l.dissolve(c, func(f *fission) *machine { return f.learner })
}

func dissolver(l *lane, c trial) error {
	return l.dissolve(c, func(f *fission) *machine { return f.leader })
}

// met waits until everybody has a session with each voter. Whoever is away while the fleet dissolves has nothing to
// acknowledge, but is told of it by those who have gone. A learner that started before its voters may still be waiting to dial
// them again.
func (f *fission) met() error {
	for _, at := range []*machine{f.leader, f.voter} {
		if err := wait("everybody has said Hello to "+at.name, func() (bool, string) {
			c, err := at.cluster()
			if err != nil {
				return false, err.Error()
			}
			for _, m := range []*machine{f.leader, f.voter, f.learner} {
				r, err := m.record()
				if err != nil {
					return false, err.Error()
				}
				if s, times := member(c, r.NodeID); times != 1 || s.HeardMS == nil || *s.HeardMS != 0 { // 0: there is a session
					return false, fmt.Sprintf("%s is listed %d times, as %+v", m.name, times, s)
				}
			}
			return true, ""
		}); err != nil {
			return err
		}
	}
	return nil
}

func (l *lane) dissolve(c trial, who func(*fission) *machine) (err error) {
	f, err := l.split()
	if err != nil {
		return err
	}
	defer func() {
		for _, m := range f.all() {
			m.kill()
			if err != nil {
				err = fmt.Errorf("%w\n--- %s\n%s", err, m.name, m.log.tail(25))
			}
		}
	}()
	v := &victim{machine: who(f), point: c.point, nth: c.nth, limit: c.limit}
	before, err := v.archives()
	if err != nil {
		return err
	}
	if err := v.begin(); err != nil {
		return err
	}
	for _, m := range []*machine{f.elder, f.leader, f.voter, f.learner} {
		if m == v.machine {
			continue
		}
		if err := m.start(); err != nil {
			return err
		}
	}
	for _, m := range []*machine{f.elder, f.leader, f.voter, f.learner} {
		if err := m.ready(); err != nil {
			return err
		}
	}
	// The leader is to be who led; a voter that stops hands its lead on.
	for range 5 {
		led := ""
		if err := wait("one leads", func() (bool, string) {
			for _, m := range []*machine{f.leader, f.voter} {
				if s, err := m.cluster(); err == nil && s.View.Leads {
					led = m.name
				}
			}
			return led != "", ""
		}); err != nil {
			return err
		}
		if led == f.leader.name {
			break
		}
		if err := f.voter.stop(); err != nil {
			return err
		}
		if err := f.voter.running(); err != nil {
			return err
		}
	}
	if err := f.met(); err != nil {
		return err
	}
	if err := v.examine(); err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	if err := f.moved.start(); err != nil {
		return err
	}
	// Whoever crashes, and wherever: all of them end in the elder's list, each once.
	if err := v.until("all of them ask the elder", func() (bool, string) {
		for _, m := range []*machine{f.leader, f.voter, f.learner} {
			r, err := m.record()
			if err != nil {
				return false, err.Error()
			}
			row, ok, err := f.elder.row(r.NodeID)
			if err != nil || !ok || row.Key != r.Key || r.Mode != "pending" {
				return false, fmt.Sprintf("%s is %s of %s; listed %v, %v", m.name, r.Mode, r.Cluster, ok, err)
			}
		}
		return true, ""
	}); err != nil {
		return err
	}
	r, err := v.record()
	if err != nil {
		return err
	}
	if r.Cluster == f.old || r.Cluster == f.survivor {
		return errors.New("it waits, and is not a fleet of its own")
	}
	store := statedir.ConsensusDir
	if v.machine == f.learner {
		store = statedir.FollowDir
	}
	return v.end("pending", r.Cluster, append(before, f.old+"/"+store)...)
}
