//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLeaderGoesWhileItsHelperRuns: of three voters the leader is killed while a machine's helper runs; whoever leads next
// provisions that machine at the word that the first one was given. That one is stopped by its service manager while a helper
// runs: the helper ends by itself, leadership is handed over then, and a third one goes on.
func TestLeaderGoesWhileItsHelperRuns(t *testing.T) {
	t.Parallel()
	// While hold is there a helper waits; it says that it began, and that it came to its end.
	command, folder := helper(t, `echo "$PPID" >> "$1/began.$id"
while [ -e "$1/hold" ]; do sleep 0.1; done
echo "$PPID" >> "$1/ended.$id"
printf '{"configuration":{"greeting":"%s"}}' "$(cat "$1/greeting")"`+"\n")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lines := func(name string) int {
		b, _ := os.ReadFile(filepath.Join(folder, name))
		return strings.Count(string(b), "\n")
	}
	var voters []*node
	runs := func(name string) *node { // whose helper wrote the last line
		b, _ := os.ReadFile(filepath.Join(folder, name))
		all := strings.Fields(string(b))
		for _, n := range voters {
			if len(all) > 0 && all[len(all)-1] == fmt.Sprint(n.cmd.Process.Pid) {
				return n
			}
		}
		t.Fatalf("no voter is the parent of the helper: %q", all)
		return nil
	}
	write("greeting", "hello")
	l := newLAN(t, 4)
	a, b, c := threeVoters(t, l, "--provision-helper="+command, "--provision-helper-timeout=1m")
	voters = []*node{a, b, c}
	d := l.hosts[3].joined(t, a, "dogwood")
	d.configured("greeting", "hello")
	confirmed := func(by *node) {
		t.Helper()
		until(t, by.name+" has d confirmed", func() (bool, string) { s := by.queued(d.id()); return strings.HasPrefix(s, "confirmed"), s })
	}
	confirmed(a)

	write("hold", "")
	write("greeting", "good day")
	began := lines("began." + d.id())
	if out, err := a.pacectl("queue", "reprovision", "dogwood"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	until(t, "the helper runs", func() (bool, string) { n := lines("began." + d.id()); return n > began, fmt.Sprint(n) })
	first := runs("began." + d.id()) // the founder, unless a busy machine has elected another one
	first.kill()
	if got := d.configuration()["greeting"]; got != "hello" {
		t.Errorf("in the middle it has %q", got)
	}
	if err := os.Remove(filepath.Join(folder, "hold")); err != nil {
		t.Fatal(err)
	}
	lead := leads(t, others(first, voters...)...)
	d.configured("greeting", "good day")
	confirmed(lead)
	first.start()
	first.ready()
	first.inMode("voter", lead)

	write("hold", "")
	write("greeting", "good night")
	began = lines("began." + d.id())
	if out, err := lead.pacectl("queue", "reprovision", "dogwood"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	until(t, "the helper runs again", func() (bool, string) { n := lines("began." + d.id()); return n > began, fmt.Sprint(n) })
	lead = runs("began." + d.id())
	ended := lines("ended." + d.id())
	stopped := make(chan struct{})
	go func() { lead.stop(); close(stopped) }()
	until(t, "it waits for the end of the stage", func() (bool, string) {
		select {
		case <-stopped:
			t.Fatalf("it ended in the middle of a stage:\n%s", lead.log)
		default:
		}
		return strings.Contains(lead.log.String(), "machines that are worked reach the end of their stage"), ""
	})
	if err := os.Remove(filepath.Join(folder, "hold")); err != nil {
		t.Fatal(err)
	}
	<-stopped
	if n := lines("ended." + d.id()); n == ended {
		t.Error("the helper was ended in the middle")
	}
	if bad := "machines are still worked"; strings.Contains(lead.log.String(), bad) { // that it hands over is TestStoppedLeaderHandsOver
		t.Errorf("it says %q:\n%s", bad, lead.log)
	}
	next := leads(t, others(lead, a, b, c)...)
	d.configured("greeting", "good night")
	confirmed(next)
}

// others are the nodes but one.
func others(but *node, all ...*node) (out []*node) {
	for _, n := range all {
		if n != but {
			out = append(out, n)
		}
	}
	return out
}

// TestLeaderWithoutAHelperHandsOver: of three voters the leader loses the helper that it alone was given, while the fleet's profile
// gives the other two one. It parks nobody, one of those leads, and provisions with it; what is wrong with the first is shown there.
func TestLeaderWithoutAHelperHandsOver(t *testing.T) {
	t.Parallel()
	own, ownFolder := helper(t, `printf '{"configuration":{"by":"its own"}}'`+"\n")
	shared, _ := helper(t, `printf '{"configuration":{"by":"the profile"}}'`+"\n")
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder", "--provision-helper="+own)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	c := l.hosts[2].joined(t, a, "cedar")
	b.promoted(a)
	c.promoted(a)
	d := l.hosts[3].joined(t, a, "dogwood")
	d.configured("by", "its own")
	a.provisioned(d)
	if err := os.Remove(filepath.Join(ownFolder, "helper.sh")); err != nil {
		t.Fatal(err)
	}
	// The workers make it another profile to the first one as well, which looks at what it has.
	if out, err := a.pacectl("fleet", "set", `provision.profile={"provision-helper":"`+shared+`","provision-workers":"3"}`); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lead := leads(t, b, c)
	a.shows("it lacks a helper", func(s nodeDoc) bool { return s.has("provisioning-helper-missing") && !s.View.Leads })
	until(t, "the queue of the next leader takes a wish", func() (bool, string) {
		out, err := lead.pacectl("queue", "reprovision", "dogwood")
		return err == nil, out
	})
	d.configured("by", "the profile")
	until(t, "it is confirmed", func() (bool, string) { s := lead.queued(d.id()); return strings.HasPrefix(s, "confirmed"), s })
	for _, n := range []*node{a, b, c} {
		if s := lead.queued(n.id()); strings.HasPrefix(s, "parked") {
			t.Errorf("%s is parked: %s", n.name, s)
		}
	}
}
