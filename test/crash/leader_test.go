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

	"pace-node/internal/config"
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
	r := &reign{dir: t.TempDir()}
	r.next = filepath.Join(r.dir, "next")
	r.lane.document = filepath.Join(r.dir, "document.json")
	must(t, r.lane.give("first"))
	upgrades, err := published()
	must(t, err)
	for i, name := range []string{"alder", "birch", "cedar", "dogwood"} {
		// The helper does not end before the operator was answered.
		args := append([]string{"--provision-helper=sh -c 'while [ -e " + r.hold() + " ]; do sleep 0.02; done; cat " + r.lane.document + "'", "--provision-pki"}, upgrades...)
		if i > 0 {
			args = append(args, "--fleet-seed="+r.voters[0].endpoint())
		}
		if i == 3 {
			args = append(args, "--provision-mode=always") // it says each of its starts
		}
		m, err := newMachine(name, r.dir, 0, args...)
		must(t, err)
		must(t, ownProgram(m))
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%s:\n%s", m.name, m.log.tail(40))
			}
			m.kill()
		})
		if i < 3 {
			r.voters = append(r.voters, m)
			must(t, r.start(m))
		} else {
			r.target = m
			must(t, m.start())
		}
		must(t, m.ready())
		if i == 0 {
			rec, err := m.record()
			must(t, err)
			r.fleet = rec.Cluster
			must(t, nextSecond())
			continue
		}
		rec, err := m.record()
		must(t, err)
		// Two voters on a busy machine may elect another one at any time: whoever leads is asked.
		must(t, wait(name+" is a learner", func() (bool, string) {
			c, err := m.cluster()
			if err == nil && c.View.Mode == "learner" && c.Cluster == r.fleet {
				return true, ""
			}
			lead := r.leader()
			if lead == nil {
				return false, "nobody leads"
			}
			return false, fmt.Sprint(c.View.Mode, err, lead.approve(rec.NodeID))
		}))
		if i < 3 {
			must(t, wait(name+" is a voter", func() (bool, string) {
				ok, state := r.votes(m)
				if lead := r.leader(); !ok && lead != nil {
					state += fmt.Sprint("; ", lead.change(wire.ClusterRequest{Op: "admit", ID: rec.NodeID, Endpoint: fmt.Sprintf("127.0.0.1:%d", m.raft)}))
				}
				return ok, state
			}))
		} else {
			r.id = rec.NodeID
		}
	}
	must(t, r.provisioned("first"))
	return r
}

// hold is a file that keeps the helpers waiting.
func (r *reign) hold() string { return filepath.Join(r.dir, "hold") }

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

// killed has a machine provisioned with what the helper says now, by a leader that ends at a point of its cycle. It returns
// that leader. Whoever was answered need not ask again; at the stages before the helper's end the leader may be gone before it
// answers, and then the next one is asked. Where a busy machine has elected another, that one is asked, and ends.
func (r *reign) killed(t *testing.T, point string) *machine {
	t.Helper()
	must(t, os.WriteFile(r.hold(), nil, 0o600))
	must(t, os.WriteFile(r.next+".x", []byte(point), 0o600))
	must(t, os.Rename(r.next+".x", r.next))
	var dead *machine
	answered := false
	must(t, wait("a leader ends at "+point, func() (bool, string) {
		for _, m := range r.voters {
			if _, ended := m.ended(); !ended {
				continue
			}
			if !m.crashedAt(point) {
				t.Fatalf("%s ended with %d, not at %s", m.name, m.cmd.ProcessState.ExitCode(), point)
			}
			dead = m
			return true, ""
		}
		if answered {
			return false, "all voters run"
		}
		lead := r.leader()
		if lead == nil {
			return false, "nobody leads"
		}
		asked := lead.queue("reprovision", r.id)
		if answered = taken(asked); answered {
			must(t, os.Remove(r.hold()))
		}
		return false, fmt.Sprintf("%s runs; asked: %v", lead.name, asked)
	}))
	early := slices.ContainsFunc([]string{"probe.", "inventory.", "csr.", "helper.before"}, func(s string) bool { return strings.HasPrefix(point, "provision."+s) })
	if !answered && !early {
		t.Errorf("%s: %s ended before the operator was answered", point, dead.name)
	}
	if !answered {
		must(t, os.Remove(r.hold()))
		r.reprovision(t)
	}
	return dead
}

// reprovision asks whoever leads now.
func (r *reign) reprovision(t *testing.T) {
	t.Helper()
	must(t, wait("a leader takes the wish", func() (bool, string) {
		next := r.leader()
		if next == nil {
			return false, "nobody leads"
		}
		err := next.queue("reprovision", r.id)
		return taken(err), fmt.Sprint(err)
	}))
}

// taken reports whether a leader's answer says that it has the wish, from this time or from one before.
func taken(err error) bool { return err == nil || strings.Contains(err.Error(), "waits its turn") }

// targetEnds waits until the target has ended by itself.
func (r *reign) targetEnds(t *testing.T, status int) {
	t.Helper()
	must(t, wait("the target ends", func() (bool, string) {
		got, ended := r.target.ended()
		if ended && got != status {
			t.Fatalf("it ended with %d, want %d\n%s", got, status, r.target.log.tail(20))
		}
		return ended, "it runs"
	}))
}

func (r *reign) targetRuns(t *testing.T, version string) {
	t.Helper()
	must(t, r.target.start())
	must(t, r.target.ready())
	if s, err := r.target.status(); err != nil || s.Version != version {
		t.Fatalf("it runs %q (%v), want %s", s.Version, err, version)
	}
}

// ownProgram gives a machine a program that an upgrade may replace, and nothing of an upgrade before.
func ownProgram(m *machine) error {
	dir := m.dir + ".bin"
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	m.program = filepath.Join(dir, "pace-node")
	return os.Link(binary, m.program)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLeaderKilledAtEachStage: of three voters the leader ends at each end of each stage of a machine's cycle, without a word.
// The machine has its old configuration or its new one at every moment, another leads, and finishes what was asked for: it
// configures the machine, has it shut down, or upgrades it.
func TestLeaderKilledAtEachStage(t *testing.T) {
	r := newReign(t)
	for i, point := range node.StagePoints {
		old, given := r.lane.given, fmt.Sprintf("greeting %d", i)
		shutdown, upgrade := strings.HasPrefix(point, "provision.shutdown."), strings.HasPrefix(point, "provision.upgrade.")
		must(t, r.lane.give(given))
		switch {
		case shutdown:
			must(t, r.lane.answer(map[string]any{"shutdown": true, "msg": "that will do"}))
		case upgrade:
			doc := greets(given)
			doc["upgrade"] = newerVersion
			must(t, r.lane.answer(doc))
		}
		lead := r.killed(t, point)
		got, err := r.target.greeting()
		if err == nil && !slices.Contains([]string{old, given}, got) {
			err = errors.New("it is neither")
		}
		if err != nil { // between two renames of a running machine there is none
			must(t, wait("it has one", func() (bool, string) {
				got, err := r.target.greeting()
				return err == nil && (got == old || got == given), fmt.Sprintf("%s: it has %q, and had %q (%v)", point, got, old, err)
			}))
		}
		switch {
		case shutdown:
			r.targetEnds(t, config.ExitOK)
			if got, err := r.target.greeting(); got != old || err != nil {
				t.Errorf("%s: it was shut down with %q (%v), and had %q", point, got, err, old)
			}
			must(t, r.lane.give(given))
			r.targetRuns(t, olderVersion)
			r.reprovision(t)
		case upgrade:
			r.targetEnds(t, config.ExitAgain)
			r.targetRuns(t, newerVersion)
		}
		must(t, r.provisioned(given))
		if upgrade { // for the next one it is as it was
			must(t, r.lane.give(given))
			must(t, r.target.stop())
			must(t, ownProgram(r.target))
			r.targetRuns(t, olderVersion)
			must(t, r.provisioned(given))
		}
		if now := r.leader(); now == lead {
			t.Fatalf("%s leads, and has ended", lead.name)
		}
		must(t, r.start(lead))
		must(t, lead.ready())
		must(t, wait(lead.name+" is a voter again", func() (bool, string) { return r.votes(lead) }))
	}
}
