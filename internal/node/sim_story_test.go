package node

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pace-node/internal/consensus"
	"pace-node/internal/control"
	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/netsim"
	"pace-node/internal/simfleet"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// realStories are what is drawn for whole nodes: clocks, disks and points of the code are one process's here. Of machines that
// are lost for good the tests of sim_recover_test.go tell.
var realStories = simfleet.Kind{Least: 5, Most: 9, Span: 12 * time.Minute, Gap: 20 * time.Second,
	Without: []simfleet.Act{simfleet.ActTrap, simfleet.ActFreeze, simfleet.ActClock, simfleet.ActDiskFull, simfleet.ActDiskFree,
		simfleet.ActDestroy, simfleet.ActRecover, simfleet.ActAccept, simfleet.ActLeaveAlone}}

const (
	// storyRest is by when all is at rest after a story, and storyPatience what one act of a person may take.
	storyRest     = 45 * time.Minute
	storyPatience = 40 * time.Second
)

// teller tells a story of package simfleet over whole nodes, and shows them to its checker.
type teller struct {
	*sim
	began time.Time
	wg    sync.WaitGroup
	boots uint64

	mu    sync.Mutex
	check *simfleet.Checker
	said  []string
}

// TestSimStories tells stories over whole nodes with real raft; after each second every rule holds, and in the end all are
// at rest.
func TestSimStories(t *testing.T) {
	first, last := uint64(1), uint64(storySeeds(t))
	if text := os.Getenv("PACE_SIM_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, last = n, n
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { tell(t, simfleet.Draw(seed, realStories)) })
	}
}

// storySeeds is how many stories a plain test run tells, or as many as make sim-nodes says.
func storySeeds(t *testing.T) int {
	if os.Getenv("PACE_SIM_SEEDS") == "" {
		return 3
	}
	return seeds(t)
}

func tell(t *testing.T, story *simfleet.Story) {
	dir := t.TempDir()
	netsim.Bubble(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)))
		x := &teller{sim: newSim(t, story.Seed, dir), began: time.Now(), check: simfleet.NewChecker()}
		x.check.Slack = time.Second // a roster has seconds
		x.nodes = make([]*Node, story.Machines)
		defer x.stop()
		defer x.wg.Wait()
		for _, step := range story.Steps {
			x.until(step.At)
			x.said = append(x.said, step.String())
			x.perform(step)
			x.look()
		}
		x.until(story.Span)
		took := x.rest()
		t.Logf("%d machines, %d steps, at rest %s after the last", story.Machines, len(story.Steps), took.Round(time.Second))
	})
}

func (x *teller) now() time.Duration { return time.Since(x.began) }

// until looks at every machine each second up to a moment of the story.
func (x *teller) until(at time.Duration) {
	for x.now() < at {
		time.Sleep(min(time.Second, at-x.now()))
		x.look()
	}
}

// broken fails the test with the story, once a rule is.
func (x *teller) broken() {
	if v := x.check.Err; v != nil {
		x.log.tell(x.t, 120)
		x.t.Fatalf("%v\nPACE_SIM_SEED=%d tells it again; the steps so far:\n%s", v, x.seed, strings.Join(x.said, "\n"))
	}
}

// look shows every machine to the checker.
func (x *teller) look() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, n := range x.nodes {
		if n != nil {
			x.lookAt(i, n)
		}
	}
	x.broken()
}

func (x *teller) lookAt(i int, n *Node) {
	s := simfleet.Sight{At: x.now(), Who: name(i), ID: n.id, Key: n.Key()}
	if n.ask(context.Background(), func(time.Time) {
		own := n.form.Own()
		s.Mode, s.Cluster, s.Moving, s.View = own.Mode, own.Cluster, n.inMove || n.body == nil, n.view.Load()
		if b := n.body; b != nil && b.cons != nil {
			s.View = b.cons.View()
			if term := b.cons.Term(); b.cons.IsLeader() && b.cons.Term() == term {
				x.check.Leads(s.At, s.Who, b.cluster, b.cons.View().Epoch(), term, n.id)
			}
		}
	}) != nil {
		return
	}
	if !s.Moving {
		s.Stores = x.stores(n)
	}
	for m := range s.View.Members() {
		if m.Auto {
			for j, o := range x.nodes {
				if o != nil && o.Key().String() == m.AdmittedBy {
					x.check.ByWindowOnce(s.View.Cluster(), enroll.RowID{ID: m.ID, Key: m.Key}, name(j), time.Unix(m.Admitted, 0).Sub(x.began))
				}
			}
		}
	}
	x.check.See(s)
}

// stores are the fleets whose stores a machine has not put away.
func (x *teller) stores(n *Node) []string {
	var out []string
	for _, owner := range []struct {
		dir string
		of  func(string) (string, error)
	}{{statedir.ConsensusDir, consensus.Owner}, {statedir.FollowDir, storeOwner}} {
		if cluster, err := owner.of(filepath.Join(n.dir.Path(), owner.dir)); err == nil && cluster != "" {
			out = append(out, cluster)
		}
	}
	return out
}

func name(i int) string { return fmt.Sprintf("m%02d", i) }

// leaderOf is the node that leads the fleet that machine i is in, or that it asks; nil: none answers as that.
func (x *teller) leaderOf(i int) *Node {
	n := x.nodes[i]
	if n == nil {
		return nil
	}
	own := owns(n)
	at := n.leader().endpoint
	if own.Target != nil {
		at = own.Target.Endpoint
	}
	if n.isLeader() && own.Target == nil {
		return n
	}
	for j, o := range x.nodes {
		if o != nil && at == endpointOf(j) && o.isLeader() && owns(o).Mode != formation.Pending {
			return o
		}
	}
	return nil
}

// others are the machines that are members of a node's fleet, or are not, without itself.
func (x *teller) others(n *Node, members bool) (out []int) {
	for i, o := range x.nodes {
		if o == nil || o == n {
			continue
		}
		if _, in := n.View().Member(o.id); in == members {
			out = append(out, i)
		}
	}
	return out
}

func (x *teller) waiting(n *Node) (out []int) {
	rows := x.rows(n)
	for i, o := range x.nodes {
		if o != nil && slices.ContainsFunc(rows, func(r control.EnrollRow) bool {
			return r.ID == o.id && r.Key == o.Key().String() && r.Decision == control.DecisionWaiting
		}) {
			out = append(out, i)
		}
	}
	return out
}

// act does something that a person waits for, beside the story.
func (x *teller) act(f func(ctx context.Context)) {
	x.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), storyPatience)
		defer cancel()
		f(ctx)
	})
}

func (x *teller) locked(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f()
}

func (x *teller) perform(step simfleet.Step) {
	i := step.Who
	switch step.Act {
	case simfleet.ActBoot:
		x.power(i)
	case simfleet.ActCrash:
		x.down(i)
	case simfleet.ActStop:
		if x.nodes[i] != nil {
			x.locked(func() { x.check.WindowEnds(x.nodes[i].View().Cluster(), name(i), x.now()) })
			x.halt(i)
		}
	case simfleet.ActCut:
		island := append(simfleet.Group(step.Arg), i)
		x.cut(func(a, b int) bool { return slices.Contains(island, a) != slices.Contains(island, b) })
	case simfleet.ActHeal:
		x.cut(nil)
	case simfleet.ActLoss:
		percent, _ := strconv.Atoi(step.Arg)
		x.segment.Set(netsim.Knobs{Loss: float64(percent) / 100, Duplicate: 0.05, MaxDelay: 20 * time.Millisecond})
	default:
		if lead := x.leaderOf(i); lead != nil {
			x.person(lead, x.nodes[i], step)
		}
	}
}

// power starts a machine. What it draws by chance differs at each start: it would mint a fleet's id a second time otherwise.
func (x *teller) power(i int) {
	if x.nodes[i] != nil {
		return
	}
	x.boots++
	rng := rand.New(rand.NewPCG(x.seed, 1000+x.boots))
	var mu sync.Mutex
	x.boot(i, provisioning, func(c *Config) {
		c.Entropy = func(b []byte) {
			mu.Lock()
			defer mu.Unlock()
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
		}
	})
}

// down takes a machine's power: nobody is told goodbye.
func (x *teller) down(i int) {
	if x.nodes[i] == nil {
		return
	}
	x.locked(func() { x.check.WindowEnds(x.nodes[i].View().Cluster(), name(i), x.now()) })
	x.net.Vanish(addrOf(i))
	<-x.nodes[i].Done() // it stops by itself, since it has lost its port: two that stop it would wait for one another's lock
	x.nodes[i] = nil
}

// person is an act of a person at a leader.
func (x *teller) person(lead, at *Node, step simfleet.Step) {
	cluster, epoch := lead.View().Cluster(), lead.View().Epoch()
	pick := func(among []int) *Node {
		if i := simfleet.Pick(step.Arg, among); i >= 0 && i < len(x.nodes) {
			return x.nodes[i]
		}
		return nil
	}
	switch step.Act {
	case simfleet.ActApprove:
		if m := pick(x.waiting(lead)); m != nil {
			x.approve(lead, m)
		}
	case simfleet.ActReject:
		if m := pick(x.waiting(lead)); m != nil {
			x.act(func(context.Context) { _ = x.reject(lead, m) })
		}
	case simfleet.ActGiveUp, simfleet.ActLeave:
		x.locked(func() { x.check.Remove(at.View().Cluster(), at.id, at.Key()) })
		x.act(func(context.Context) { _, _ = typed(at, wire.ClusterRequest{Op: "leave"}) })
	case simfleet.ActWindow:
		d, err := time.ParseDuration(step.Arg)
		if err != nil {
			return
		}
		who := x.numberOf(lead)
		x.locked(func() { x.check.Window(cluster, name(who), x.now(), d+storyPatience) })
		x.act(func(context.Context) { _ = x.arm(lead, int(d/time.Second)) })
	case simfleet.ActWindowOff:
		x.act(func(ctx context.Context) {
			if _, err := lead.EnrollControl(ctx, local, wire.EnrollControl{Op: wire.ControlWindowOff}); err == nil {
				x.locked(func() { x.check.WindowEnds(cluster, name(x.numberOf(lead)), x.now()) })
			}
		})
	case simfleet.ActAwait, simfleet.ActSeat:
		if m := pick(x.others(lead, false)); m != nil {
			r := wire.ClusterRequest{Op: "admit-learner", ID: m.id, Key: m.Key().String()}
			if step.Act == simfleet.ActSeat {
				r.Op, r.Endpoint = "admit", raftEndpointOf(x.numberOf(m))
			}
			x.locked(func() { x.check.Allow(cluster, m.id, m.Key(), "awaited") })
			x.ask1(lead, r, func(revision uint64) { x.check.Acked(cluster, epoch, revision, simfleet.AckAwaited, m.id, m.Key()) })
		}
	case simfleet.ActPromote:
		if m := pick(x.others(lead, true)); m != nil {
			x.ask1(lead, wire.ClusterRequest{Op: "admit", ID: m.id, Endpoint: raftEndpointOf(x.numberOf(m))}, nil)
		}
	case simfleet.ActDemote:
		if m := pick(append(x.others(lead, true), x.numberOf(lead))); m != nil {
			x.ask1(lead, demote(m), nil)
		}
	case simfleet.ActForget:
		if m := pick(x.others(lead, true)); m != nil {
			x.locked(func() { x.check.Remove(cluster, m.id, m.Key()) })
			x.ask1(lead, forget(m), func(revision uint64) {
				if _, in := lead.View().Member(m.id); !in {
					x.check.Acked(cluster, epoch, revision, simfleet.AckForgotten, m.id, m.Key())
				}
			})
		}
	case simfleet.ActSet:
		key, value, _ := strings.Cut(step.Arg, "=")
		x.ask1(lead, wire.ClusterRequest{Op: "set", Name: key, Value: value}, nil)
	case simfleet.ActPause, simfleet.ActReprovision, simfleet.ActRetry, simfleet.ActDrop:
		x.queueVerb(lead, step)
	}
}

func (x *teller) queueVerb(lead *Node, step simfleet.Step) {
	r := wire.QueueRequest{Op: string(step.Act)}
	if step.Act == simfleet.ActPause {
		if lead.View().Switch(fleet.SettingProvisionPaused) {
			r.Op = "resume"
		}
	} else if i := simfleet.Pick(step.Arg, x.others(lead, true)); i >= 0 && i < len(x.nodes) && x.nodes[i] != nil {
		r.ID = x.nodes[i].id
	} else {
		return
	}
	x.act(func(ctx context.Context) { _, _ = lead.Queue(ctx, local, r) })
}

func (x *teller) numberOf(n *Node) int { return slices.Index(x.nodes, n) }

// ask1 asks a leader to change its fleet; done is told of what was committed.
func (x *teller) ask1(lead *Node, r wire.ClusterRequest, done func(revision uint64)) {
	x.act(func(ctx context.Context) {
		if a, err := lead.Cluster(ctx, local, r); err == nil && done != nil {
			x.locked(func() { done(a.Revision) })
		}
	})
}

func (x *teller) approve(lead, m *Node) {
	cluster, epoch := lead.View().Cluster(), lead.View().Epoch()
	x.locked(func() { x.check.Allow(cluster, m.id, m.Key(), "approved") })
	x.act(func(ctx context.Context) {
		raw, err := lead.EnrollControl(ctx, local, wire.EnrollControl{Op: wire.ControlApprove, Argument: wire.AppendControlMember(nil, m.id, m.Key())})
		var done control.Done
		if err == nil && json.Unmarshal(raw, &done) == nil {
			x.locked(func() { x.check.Acked(cluster, epoch, done.Revision, simfleet.AckAdmitted, m.id, m.Key()) })
		}
	})
}

// rest ends every disturbance, and waits until all is at rest.
func (x *teller) rest() time.Duration {
	x.said = append(x.said, "calm")
	x.cut(nil)
	x.segment.Set(netsim.Knobs{})
	for i := range x.nodes {
		x.power(i)
	}
	began, quiet, why := time.Now(), 0, ""
	for quiet < 2 {
		if time.Since(began) > storyRest {
			x.log.tell(x.t, 120)
			x.t.Fatalf("not at rest: %s\nPACE_SIM_SEED=%d tells it again; the steps:\n%s", why, x.seed, strings.Join(x.said, "\n"))
		}
		x.tend()
		x.until(x.now() + 20*time.Second)
		if why = x.unrest(); why == "" {
			quiet++
		} else {
			quiet = 0
		}
	}
	x.locked(func() {
		for i, n := range x.nodes {
			if n.isLeader() {
				x.check.Rested(x.now(), name(i), n.View())
			}
		}
		x.broken()
	})
	return time.Since(began)
}

// tend is people who look after their fleets: they approve who waits, and where a machine says whose key its fleet is led
// under now, they have it accept that.
func (x *teller) tend() {
	for _, n := range x.nodes {
		if n.isLeader() && owns(n).Mode != formation.Pending {
			for _, i := range x.waiting(n) {
				x.approve(n, x.nodes[i])
			}
		}
		detail, ok := condition(n, "fleet-unreachable")
		for _, o := range x.nodes {
			if ok && o.isLeader() && strings.Contains(detail, o.Key().String()) {
				x.act(func(context.Context) { _, _ = typed(n, wire.ClusterRequest{Op: "accept", Key: o.Key().String()}) })
			}
		}
	}
}

// unrest says who has not come to rest, and why.
func (x *teller) unrest() string {
	var out []string
	for i, n := range x.nodes {
		if why := x.restless(i, n); why != "" {
			out = append(out, name(i)+" "+why)
		}
	}
	return strings.Join(out, "; ")
}

func (x *teller) restless(i int, n *Node) string {
	own := owns(n)
	switch own.Mode {
	case formation.Pending:
		return "asks " + own.Target.Endpoint
	case formation.Solitary:
		return ""
	}
	lead := x.leaderOf(i)
	switch {
	case lead == nil:
		return "knows no leader"
	case own.Mode == formation.Learner && !follows(n, lead):
		return fmt.Sprintf("is at revision %d and does not follow %s at %d", n.View().Revision(), lead.name, lead.View().Revision())
	case n.View().Revision() != lead.View().Revision():
		return fmt.Sprintf("is at revision %d of %d", n.View().Revision(), lead.View().Revision())
	}
	if n == lead && n.View().CountRole(fleet.RoleVoterPending)+n.View().CountRole(fleet.RoleLeaving) > 0 {
		return "changes its voters"
	}
	if wants, why := n.target.Wants(); wants && !lead.View().Switch(fleet.SettingProvisionPaused) {
		return "wants to be provisioned: " + why
	}
	return ""
}
