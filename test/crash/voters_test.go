//go:build e2e

package crash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// The stories of a fleet with two voters, and of one that lost them: each has a fleet of its own.

func init() {
	stories = append(stories,
		story{name: "promotes", run: promotes, hits: []string{"consensus.seats.", "consensus.commit.", "consensus.log."}},
		story{name: "is promoted", run: isPromoted, hits: []string{
			"statedir.record.", "node.move.", "consensus.cluster-file.", "consensus.store.create.", "consensus.store.rename.", "consensus.log.", "consensus.term."}},
		story{name: "demotes", run: demotes, hits: []string{"consensus.seats.", "consensus.commit.", "consensus.log."}},
		story{name: "is demoted", run: isDemoted, hits: []string{
			"statedir.record.", "node.move.", "follow.snapshot.", "follow.log."}},
		story{name: "recovers, a learner", run: recoversAsLearner, hits: []string{
			"statedir.record.", "node.move.", "node.recover.", "consensus.recover.begin.", "consensus.recover.snapshot.", "consensus.recover.name.", "consensus.recover.mark.",
			"consensus.recover.entry.", "statedir.archive.begin.", "statedir.archive.move."}},
		story{name: "recovers, a voter", run: recoversAsVoter, hits: []string{"consensus.recover.copy.", "node.recover.", "statedir.record."}},
		story{name: "accepts", run: accepts, hits: []string{"statedir.record.", "node.move.", "statedir.archive.begin.", "statedir.archive.move."}},
		story{name: "restored", run: isRestored, hits: []string{"statedir.restore."}},
	)
}

// two are a founder and a machine that it has admitted.
type two struct {
	a, b  *victim
	fleet string
	own   string // b's fleet before
}

// pair makes them; the founder has the one trial, the other machine the other.
func (l *lane) pair(founder, other trial) (p two, err error) {
	if p.a, err = l.fresh(founder, 0); err != nil {
		return p, err
	}
	if err := p.a.begin(); err != nil {
		return p, err
	}
	if err := p.a.ready(); err != nil {
		return p, err
	}
	if err := p.a.examine(); err != nil {
		return p, err
	}
	p.fleet = p.a.last.Cluster
	// A fleet's age counts in whole seconds.
	for began := time.Now().Unix(); time.Now().Unix() == began; {
		time.Sleep(pollEvery)
	}
	if p.b, err = l.fresh(other, 0, "--fleet-seed="+p.a.endpoint()); err != nil {
		return p, err
	}
	if err := p.b.begin(); err != nil {
		return p, err
	}
	if err := p.b.ready(); err != nil {
		return p, err
	}
	if err := p.b.examine(); err != nil {
		return p, err
	}
	p.own = p.b.last.Cluster
	err = wait("the other machine follows", func() (bool, string) {
		if err := p.a.approve(p.b.last.NodeID); err != nil {
			return false, err.Error()
		}
		return p.b.inMode("learner", p.fleet)
	})
	if err != nil {
		return p, err
	}
	return p, p.b.examine()
}

func (p *two) gone(err *error) {
	for _, v := range []*victim{p.b, p.a} {
		if v != nil {
			v.gone(err)
		}
	}
}

// votes waits until both have one picture of two voters, and one of them leads. again is asked in each round, for a crash may
// have come before the word was kept.
func (p *two) votes(until func(string, func() (bool, string)) error, again func() error) error {
	return until("both are voters of one fleet", func() (bool, string) {
		said := again()
		for _, v := range []*victim{p.a, p.b} {
			c, err := v.cluster()
			if err != nil {
				return false, fmt.Sprint(said, err)
			}
			if c.View.Mode != "voter" || c.Cluster != p.fleet || len(c.Members) != 2 || c.Leader == nil || c.Leader.ID == "" {
				return false, fmt.Sprintf("%v; %s is %s of %s with %+v", said, v.name, c.View.Mode, c.Cluster, c.Members)
			}
			for _, m := range c.Members {
				if m.Role != "voter" {
					return false, fmt.Sprintf("%v; %s has %s as a %s", said, v.name, m.ID, m.Role)
				}
			}
		}
		return true, ""
	})
}

// promote has the founder promote the other machine.
func (p *two) promote() error {
	return p.a.change(wire.ClusterRequest{Op: "admit", ID: p.b.last.NodeID, Endpoint: fmt.Sprintf("127.0.0.1:%d", p.b.raft)})
}

func promotes(l *lane, c trial) (err error) {
	p, err := l.pair(c, trial{})
	defer p.gone(&err)
	if err != nil {
		return err
	}
	if err := p.a.open(); err != nil {
		return err
	}
	if err := p.votes(p.a.until, p.promote); err != nil {
		return err
	}
	return p.endVoters()
}

// endVoters stops two voters and looks at what they leave.
func (p *two) endVoters() error { return errors.Join(p.left(p.b, "voter"), p.left(p.a, "voter")) }

// left is end for a machine that has been a learner and a voter of one fleet: it keeps the store of either, since the term
// and the vote that it gave outlive a demotion. Its fleet of before is archived once.
func (p *two) left(v *victim, mode string) error {
	if err := v.rest(); err != nil {
		return err
	}
	if err := v.examine(); err != nil {
		return err
	}
	if v.last.Mode != mode || v.last.Cluster != p.fleet {
		return fmt.Errorf("the record of %s says %+v", v.name, v.last)
	}
	store := map[string]string{"voter": statedir.ConsensusDir, "learner": statedir.FollowDir}[mode]
	if text, err := os.ReadFile(filepath.Join(v.dir, store, "cluster")); err != nil || string(text) != p.fleet+"\n" {
		return fmt.Errorf("%s: %s is of %q (%v)", v.name, store, text, err)
	}
	want := []string{p.own + "/" + statedir.ConsensusDir}
	if v == p.a {
		want = nil
	}
	if got, err := v.archives(); err != nil || !slices.Equal(got, want) {
		return fmt.Errorf("%s: archived is %q (%v), and is to be %q", v.name, got, err, want)
	}
	if left, err := v.leftovers(); err != nil || len(left) > 0 {
		return fmt.Errorf("%s: left over: %q (%v)", v.name, left, err)
	}
	return nil
}

func isPromoted(l *lane, c trial) (err error) {
	p, err := l.pair(trial{}, c)
	defer p.gone(&err)
	if err != nil {
		return err
	}
	if err := p.b.open(); err != nil {
		return err
	}
	if err := p.votes(p.b.until, p.promote); err != nil {
		return err
	}
	return p.endVoters()
}

func isDemoted(l *lane, c trial) (err error) {
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
	return p.demoted(p.b.until)
}

// demotes crashes the leader that takes the other voter's vote away, at each change of raft's configuration that it makes.
func demotes(l *lane, c trial) (err error) {
	p, err := l.pair(c, trial{})
	defer p.gone(&err)
	if err != nil {
		return err
	}
	if err := p.votes(p.a.settled, p.promote); err != nil {
		return err
	}
	for _, v := range []*victim{p.a, p.b} {
		if err := v.examine(); err != nil {
			return err
		}
	}
	if err := p.a.open(); err != nil {
		return err
	}
	return p.demoted(p.a.until)
}

// leading is who leads of the two, the founder where neither says so.
func (p *two) leading() *victim {
	for _, v := range []*victim{p.a, p.b} {
		if c, err := v.cluster(); err == nil && c.View.Leads {
			return v
		}
	}
	return p.a
}

// demoted has the other machine demoted, and ends the story.
func (p *two) demoted(until func(string, func() (bool, string)) error) error {
	if err := until("it is a learner of its fleet", func() (bool, string) {
		said := p.leading().change(wire.ClusterRequest{Op: "admit-learner", ID: p.b.last.NodeID})
		if ok, state := p.b.inMode("learner", p.fleet); !ok {
			return false, fmt.Sprint(said, state)
		}
		want, err := p.a.cluster()
		if err != nil {
			return false, err.Error()
		}
		got, err := p.b.cluster()
		if err != nil {
			return false, err.Error()
		}
		m, times := member(want, p.b.last.NodeID)
		return want.View.Leads && times == 1 && m.Role == "learner" && got.View.Revision >= want.View.Revision, fmt.Sprintf("%v; %+v, %+v", said, want.View, got.View)
	}); err != nil {
		return err
	}
	return errors.Join(p.left(p.b, "learner"), p.left(p.a, "voter"))
}

// recovered waits until a machine is the only voter of its fleet, in its next recovery epoch.
func (p *two) recovered(v *victim, until func(string, func() (bool, string)) error) error {
	return until("it has recovered its fleet", func() (bool, string) {
		said := v.change(wire.ClusterRequest{Op: "recover", ID: p.fleet})
		c, err := v.cluster()
		if err != nil {
			return false, fmt.Sprint(said, err)
		}
		voters := 0
		for _, m := range c.Members {
			if m.Role == "voter" {
				voters++
			}
		}
		_, times := member(c, v.last.NodeID)
		return c.View.Mode == "voter" && c.View.Leads && c.Cluster == p.fleet && len(c.Members) == 2 && voters == 1 && times == 1, fmt.Sprintf("%v; %+v with %d voters", said, c.View, voters)
	})
}

func recoversAsLearner(l *lane, c trial) (err error) {
	p, err := l.pair(trial{}, trial{})
	defer p.gone(&err)
	if err != nil {
		return err
	}
	p.a.kill() // for good
	return p.recovers(c)
}

// recovers has b recover the fleet without a. It is started anew, so that it has heard nobody.
func (p *two) recovers(c trial) error {
	if err := p.b.stop(); err != nil {
		return err
	}
	if err := p.b.examine(); err != nil {
		return err
	}
	p.b.point, p.b.nth, p.b.limit = c.point, c.nth, c.limit
	if err := p.b.begin(); err != nil {
		return err
	}
	if err := p.b.ready(); err != nil {
		return err
	}
	if err := p.b.open(); err != nil {
		return err
	}
	if err := p.recovered(p.b, p.b.until); err != nil {
		return err
	}
	archived, err := p.b.archives()
	if err != nil {
		return err
	}
	if len(archived) < 2 {
		return fmt.Errorf("archived is %q: what it recovered from is put away too", archived)
	}
	return p.b.end("voter", p.fleet, archived...)
}

func recoversAsVoter(l *lane, c trial) (err error) {
	p, err := l.pair(trial{}, trial{})
	defer p.gone(&err)
	if err != nil {
		return err
	}
	if err := p.votes(p.b.settled, p.promote); err != nil {
		return err
	}
	p.a.kill()
	return p.recovers(c)
}

// accepts has the founder accept that the other machine has recovered the fleet without it.
func accepts(l *lane, c trial) (err error) {
	p, err := l.pair(trial{}, trial{})
	defer p.gone(&err)
	if err != nil {
		return err
	}
	if err := p.a.stop(); err != nil {
		return err
	}
	if err := p.recovers(trial{}); err != nil {
		return err
	}
	if err := p.b.start(); err != nil {
		return err
	}
	if err := p.b.ready(); err != nil {
		return err
	}
	s, err := p.b.status()
	if err != nil {
		return err
	}
	p.a.point, p.a.nth, p.a.limit = c.point, c.nth, c.limit
	if err := p.a.begin(); err != nil {
		return err
	}
	if err := p.a.ready(); err != nil {
		return err
	}
	if err := p.a.open(); err != nil {
		return err
	}
	if err := p.a.until("it follows the one that recovered the fleet", func() (bool, string) {
		said := p.a.change(wire.ClusterRequest{Op: "accept", Key: s.PublicKey, Endpoint: p.b.endpoint()})
		if ok, state := p.a.inMode("learner", p.fleet); !ok {
			return false, fmt.Sprint(said, state)
		}
		want, err := p.b.cluster()
		if err != nil {
			return false, err.Error()
		}
		got, err := p.a.cluster()
		if err != nil {
			return false, err.Error()
		}
		return got.View.Revision >= want.View.Revision && got.Leader != nil && got.Leader.ID == p.b.last.NodeID, fmt.Sprintf("%v; %+v, %+v", said, want.View, got.View)
	}); err != nil {
		return err
	}
	archived, err := p.a.archives()
	if err != nil {
		return err
	}
	if len(archived) != 1 || archived[0] != p.fleet+"/"+statedir.ConsensusDir {
		return fmt.Errorf("archived is %q", archived)
	}
	return p.a.end("learner", p.fleet, archived...)
}

// ctl runs a word of pacectl towards a machine's state directory, as a process of the test build.
func (n *machine) ctl(env []string, args ...string) (string, error) {
	tool := filepath.Join(filepath.Dir(binary), "pacectl")
	if err := os.Link(binary, tool); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	cmd := exec.Command(tool, append([]string{n.args[0], "--state-dir=" + n.dir}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = strings.NewReader("five words are a passphrase\n")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// isRestored restores a founder's backup over a machine that was a fleet of its own, and ends the verb on its way: the next
// start is the old machine or the restored one, whole, and the verb typed again makes it the restored one.
func isRestored(l *lane, c trial) (err error) {
	p, err := l.pair(trial{}, trial{})
	defer p.gone(&err)
	if err != nil {
		return err
	}
	file := filepath.Join(l.dir, "backup-"+p.a.name)
	if out, err := p.a.ctl(nil, "fleet", "backup", file, "--passphrase-file=-"); err != nil {
		return fmt.Errorf("backup: %w: %s", err, out)
	}
	defer os.Remove(file)
	p.a.kill()
	v, err := l.fresh(trial{}, 0)
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
	was := v.last
	if err := v.stop(); err != nil {
		return err
	}
	restore := []string{"fleet", "restore", file, "--passphrase-file=-", "--yes=" + p.fleet}
	out, err := v.ctl([]string{"PACE_CRASH_AT=" + c.String()}, restore...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != crashStatus {
		return fmt.Errorf("the verb ended with %v, not at its point: %s", err, out)
	}
	v.key, v.last = nil, record{} // from here on it may be the other one
	if err := v.start(); err != nil {
		return err
	}
	if err := v.ready(); err != nil {
		return err
	}
	if err := v.examine(); err != nil {
		return err
	}
	key := p.a.last.Key
	switch v.last.NodeID {
	case was.NodeID:
		if v.last.Key != was.Key || v.last.Cluster != was.Cluster {
			return fmt.Errorf("a mixture: %+v, it was %+v", v.last, was)
		}
		if err := v.stop(); err != nil {
			return err
		}
		if out, err := v.ctl(nil, restore...); err != nil {
			return fmt.Errorf("restored again: %w: %s", err, out)
		}
		v.key, v.last = nil, record{}
		if err := v.start(); err != nil {
			return err
		}
	case p.a.last.NodeID:
	default:
		return fmt.Errorf("a third machine: %+v", v.last)
	}
	if err := wait("it leads the restored fleet", func() (bool, string) {
		c, err := v.cluster()
		if err != nil {
			return false, err.Error()
		}
		_, times := member(c, p.a.last.NodeID)
		return c.View.Mode == "voter" && c.View.Leads && c.Cluster == p.fleet && len(c.Members) == 2 && times == 1, fmt.Sprintf("%+v", c.View)
	}); err != nil {
		return err
	}
	s, err := v.status()
	if err != nil {
		return err
	}
	if _, err := identity.ParsePublicKey(s.PublicKey); err != nil || s.PublicKey != key {
		return fmt.Errorf("its key is %s, the founder's was %s (%v)", s.PublicKey, key, err)
	}
	if err := v.examine(); err != nil {
		return err
	}
	archived, err := v.archives()
	if err != nil {
		return err
	}
	return v.end("voter", p.fleet, archived...)
}
