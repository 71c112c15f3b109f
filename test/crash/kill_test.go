//go:build e2e

package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

const (
	// killRuns is how many lives are lived under random kills.
	killRuns = 10
	// killsEach is how often a machine is killed in one life.
	killsEach = 6
)

// TestKilledAtRandomMoments kills machines in the middle of whatever they do. PACE_KILL_SEED repeats a run.
func TestKilledAtRandomMoments(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("PACE_KILL_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("PACE_KILL_SEED=%d", seed)
	var all []work
	for i := range uint64(killRuns) {
		rng := func() *rand.Rand { return rand.New(rand.NewPCG(seed, i)) }
		name, life := "member", killedMember
		if i%2 == 1 {
			name, life = "founder", killedFounder
		}
		all = append(all, work{fmt.Sprintf("%s %d", name, i), func(t *testing.T, l *lane) {
			if err := life(l, rng()); err != nil {
				t.Errorf("seed %d, run %d: %v", seed, i, err)
			}
		}})
	}
	share(t, all)
}

// mortal makes a machine that is killed at random moments from its start on.
func (l *lane) mortal(rng *rand.Rand, beacons int, args ...string) (*victim, error) {
	v, err := l.fresh(trial{limit: killsEach}, beacons, args...)
	if err == nil {
		v.rng = rng
	}
	return v, err
}

// killedMember lives a member's whole life: it founds a fleet of one, yields, is approved, provisioned, provisioned anew
// and forgotten.
func killedMember(l *lane, rng *rand.Rand) (err error) {
	v, err := l.mortal(rng, 0, "--fleet-seed="+l.founder.endpoint())
	if err != nil {
		return err
	}
	defer v.gone(&err)
	if err := v.begin(); err != nil {
		return err
	}
	own, err := l.asks(v, v.settled)
	if err != nil {
		return err
	}
	id, key := v.last.NodeID, v.last.Key
	v.later = l.given
	if err := l.join(v, v.settled); err != nil {
		return err
	}
	for first := true; first || v.crashes < v.limit; first = false {
		if err := l.reprovision(v, v.settled); err != nil {
			return err
		}
	}
	v.limit += 2
	v.soon()
	if err := l.founder.change(wire.ClusterRequest{Op: "forget", ID: id}); err != nil {
		return err
	}
	minted := ""
	if err := v.settled("it is a new fleet of one", func() (bool, string) {
		ok, state := v.inMode("solitary", "")
		c, err := v.cluster()
		if err != nil {
			return false, err.Error()
		}
		minted = c.Cluster
		return ok && minted != own && minted != l.fleet, state
	}); err != nil {
		return err
	}
	v.rng = nil
	if err := v.end("solitary", minted, own+"/"+statedir.ConsensusDir, l.fleet+"/"+statedir.FollowDir); err != nil {
		return err
	}
	if v.last.NodeID != id || v.last.Key != key {
		return fmt.Errorf("it was %s under %s, and is %+v", id, key, v.last)
	}
	return nil
}

// killedFounder kills a founder while it admits a machine and is changed: what it has acknowledged is never lost.
func killedFounder(l *lane, rng *rand.Rand) (err error) {
	beacons, err := freePort("udp")
	if err != nil {
		return err
	}
	v, err := l.mortal(rng, beacons)
	if err != nil {
		return err
	}
	defer v.gone(&err)
	if err := v.begin(); err != nil {
		return err
	}
	// A fleet's age counts in whole seconds, and the other machine is to be the younger.
	began := time.Now().Unix()
	if err := v.settled("it serves", func() (bool, string) {
		_, err := v.status()
		return err == nil && time.Now().Unix() > began+1, fmt.Sprint(err)
	}); err != nil {
		return err
	}
	joiner, err := l.fresh(trial{}, beacons)
	if err != nil {
		return err
	}
	defer joiner.gone(&err)
	if err := joiner.begin(); err != nil {
		return err
	}
	if err := joiner.ready(); err != nil {
		return err
	}
	if err := joiner.examine(); err != nil {
		return err
	}
	own := joiner.last.Cluster
	acknowledged := 1
	fleet := ""
	if err := v.settled("a machine is admitted and has every change", func() (bool, string) {
		next := acknowledged%60 + 2
		if err := v.set("enrollment.per-source", strconv.Itoa(next)); err == nil {
			acknowledged = next
		}
		if err := v.approve(joiner.last.NodeID); err != nil {
			return false, err.Error()
		}
		mine, err := v.cluster()
		if err != nil {
			return false, err.Error()
		}
		fleet = mine.Cluster
		for _, s := range mine.Settings {
			if s.Name != "enrollment.per-source" {
				continue
			}
			// One that was not acknowledged may be there too: nobody was told that it is not.
			if got, _ := strconv.Atoi(s.Value); acknowledged > 1 && got != acknowledged && got != next {
				return false, fmt.Sprintf("the setting is %s, and %d was acknowledged", s.Value, acknowledged)
			}
		}
		theirs, err := joiner.cluster()
		if err != nil {
			return false, err.Error()
		}
		_, times := member(mine, joiner.last.NodeID)
		return v.crashes == v.limit && times == 1 && theirs.View.Mode == "learner" && theirs.Cluster == mine.Cluster && len(theirs.Members) == 2,
			fmt.Sprintf("%d kills, the other machine is %s of %s", v.crashes, theirs.View.Mode, theirs.Cluster)
	}); err != nil {
		return err
	}
	v.rng = nil
	if err := joiner.end("learner", fleet, own+"/"+statedir.ConsensusDir); err != nil {
		return err
	}
	return v.end("voter", fleet)
}
