//go:build e2e

package crash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pace-node/internal/node"
	"pace-node/internal/wire"
)

// reign is three voters and a learner. Whichever voter leads provisions with the same document.
type reign struct {
	dir, next string // next names the point at which one of the voters ends
	fleet     string
	voters    []*machine
	target    *machine
	id        string // of the target
	lane      lane   // for its document
}

func newReign(t *testing.T) *reign {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r := &reign{dir: t.TempDir()}
	r.next = filepath.Join(r.dir, "next")
	r.lane.document = filepath.Join(r.dir, "document.json")
	must(r.lane.give("first"))
	for i, name := range []string{"alder", "birch", "cedar", "dogwood"} {
		// The helper takes long enough for the operator to be answered before it has ended.
		args := []string{"--provision-helper=sh -c 'sleep 0.3; cat " + r.lane.document + "'"}
		if i > 0 {
			args = append(args, "--fleet-seed="+r.voters[0].endpoint())
		}
		m, err := newMachine(name, r.dir, 0, args...)
		must(err)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%s:\n%s", m.name, m.log.tail(40))
			}
			m.kill()
		})
		if i < 3 {
			r.voters = append(r.voters, m)
			must(r.start(m))
		} else {
			r.target = m
			must(m.start())
		}
		must(m.ready())
		if i == 0 {
			rec, err := m.record()
			must(err)
			r.fleet = rec.Cluster
			must(nextSecond())
			continue
		}
		rec, err := m.record()
		must(err)
		must(wait(name+" is a learner", func() (bool, string) {
			if err := r.voters[0].approve(rec.NodeID); err != nil {
				return false, err.Error()
			}
			c, err := m.cluster()
			return err == nil && c.View.Mode == "learner" && c.Cluster == r.fleet, fmt.Sprint(c.View.Mode, err)
		}))
		if i < 3 {
			must(r.voters[0].change(wire.ClusterRequest{Op: "admit", ID: rec.NodeID, Endpoint: fmt.Sprintf("127.0.0.1:%d", m.raft)}))
			must(wait(name+" is a voter", func() (bool, string) { return r.votes(m) }))
		} else {
			r.id = rec.NodeID
		}
	}
	must(r.provisioned("first"))
	return r
}

// start starts a voter that ends where next says.
func (r *reign) start(m *machine) error { return m.start("PACE_CRASH_NEXT=" + r.next) }

func (r *reign) votes(m *machine) (bool, string) {
	c, err := m.cluster()
	if err != nil {
		return false, err.Error()
	}
	return c.View.Mode == "voter" && c.Leader != nil && c.Leader.ID != "", fmt.Sprintf("%s, leader %+v", c.View.Mode, c.Leader)
}

// leader is the voter that says that it leads; nil: none does.
func (r *reign) leader() *machine {
	for _, m := range r.voters {
		if _, ended := m.ended(); ended {
			continue
		}
		if c, err := m.cluster(); err == nil && c.View.Leads {
			return m
		}
	}
	return nil
}

// provisioned waits until the target has a configuration, the fleet's state says that it confirmed it, and whoever leads now
// holds it no longer as anything to do.
func (r *reign) provisioned(greeting string) error {
	return wait("the target is provisioned with "+greeting, func() (bool, string) {
		got, err := r.target.greeting()
		if err != nil || got != greeting {
			return false, fmt.Sprintf("it has %q (%v)", got, err)
		}
		lead := r.leader()
		if lead == nil {
			return false, "nobody leads"
		}
		q, err := lead.queueState(r.id)
		return err == nil && q.Entry.State == "confirmed", fmt.Sprintf("%s: %+v (%v)", lead.name, q.Entry, err)
	})
}

// cycle is the stages of every machine's cycle, in their order.
var cycle = []string{"probe", "inventory", "helper", "configure", "restart", "confirm"}

// TestLeaderKilledAtEachStage: of three voters the leader ends at each end of each stage of a machine's cycle, without a word.
// The machine has its old configuration or its new one at every moment, another leads, and finishes what was asked for.
func TestLeaderKilledAtEachStage(t *testing.T) {
	r := newReign(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	passed := 0
	for i, point := range node.StagePoints {
		if _, stage, _ := strings.Cut(point, "."); !slices.ContainsFunc(cycle, func(s string) bool { return strings.HasPrefix(stage, s+".") }) {
			continue
		}
		old, given := r.lane.given, fmt.Sprintf("greeting %d", i)
		must(r.lane.give(given))
		must(wait("a voter leads", func() (bool, string) { return r.leader() != nil, "" }))
		lead := r.leader()
		must(os.WriteFile(r.next+".x", []byte(point), 0o600))
		must(os.Rename(r.next+".x", r.next))
		asked := lead.queue("reprovision", r.id)
		must(wait("the leader ends at "+point, func() (bool, string) {
			status, ended := lead.ended()
			if ended && (status != crashStatus || !strings.Contains(lead.log.tail(3), "crash point "+point)) {
				t.Fatalf("%s ended with %d, not at %s", lead.name, status, point)
			}
			return ended, fmt.Sprintf("%s runs; asked: %v", lead.name, asked)
		}))
		got, err := r.target.greeting()
		if err == nil && !slices.Contains([]string{old, given}, got) {
			err = errors.New("it is neither")
		}
		if err != nil { // between two renames of a running machine there is none
			must(wait("it has one", func() (bool, string) {
				got, err := r.target.greeting()
				return err == nil && (got == old || got == given), fmt.Sprintf("%s: it has %q, and had %q (%v)", point, got, old, err)
			}))
		}
		// Who was answered need not ask again. At the stages before the helper's end the leader may be gone before it answers.
		if early := strings.HasPrefix(point, "provision.probe.") || strings.HasPrefix(point, "provision.inventory.") || point == "provision.helper.before"; asked != nil && !early {
			t.Errorf("%s: the operator was not answered: %v", point, asked)
		}
		if asked != nil {
			must(wait("another takes the wish", func() (bool, string) {
				next := r.leader()
				if next == nil {
					return false, "nobody leads"
				}
				err := next.queue("reprovision", r.id)
				return err == nil, fmt.Sprint(err)
			}))
		}
		must(r.provisioned(given))
		if now := r.leader(); now == lead {
			t.Fatalf("%s leads, and has ended", lead.name)
		}
		must(r.start(lead))
		must(lead.ready())
		must(wait(lead.name+" is a voter again", func() (bool, string) { return r.votes(lead) }))
		passed++
	}
	if want := 2 * len(cycle); passed != want {
		t.Errorf("%d points of %d", passed, want)
	}
}
