//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// newcomer is a person who has the README and nothing else: whatever they type is written there.
type newcomer struct {
	t      *testing.T
	readme string
}

func aNewcomer(t *testing.T) *newcomer {
	t.Helper()
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return &newcomer{t: t, readme: string(b)}
}

// reads holds that the README tells of the command.
func (p *newcomer) reads(command string) {
	p.t.Helper()
	if !strings.Contains(p.readme, command) {
		p.t.Errorf("the README does not tell of %q", command)
	}
}

// pastes runs a line that the program printed, as a shell on the machine does where the packages' programs are on the path.
func (p *newcomer) pastes(n *node, line string) string {
	p.t.Helper()
	cmd := n.inside("sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "PACE_STATE_DIR="+n.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s: %s: %v\n%s", n.name, line, err, out)
	}
	return string(out)
}

// TestNewcomersPath: one machine founds a fleet, two are approved from the page and one in the terminal, two are promoted, one
// breaks, is found by doctor, and is removed.
func TestNewcomersPath(t *testing.T) {
	t.Parallel()
	needChromium(t)
	person := aNewcomer(t)
	example, err := filepath.Abs("../../docs/examples/helper.sh")
	if err != nil {
		t.Fatal(err)
	}
	l := newLAN(t, 4)
	person.reads("--provision-helper=$PWD/docs/examples/helper.sh")
	a := l.hosts[0].start(t, "alder", metered, "--provision-helper="+example)
	nextSecond(t)
	birch := l.hosts[1].start(t, "birch")
	cedar := l.hosts[2].start(t, "cedar")
	dogwood := l.hosts[3].start(t, "dogwood")

	// On the page: who waits, their keys, and the two buttons; with the mouse, and from the keyboard.
	person.reads("pacectl dashboard")
	b := l.hosts[0].browse(t)
	b.open(a.dashboard())
	person.reads("--print-identity")
	b.shows("#waiting", birch.printedKey(), cedar.printedKey(), dogwood.printedKey())
	b.click(button("Approve birch"))
	b.shows("#sure", birch.printedKey())
	b.click("#sure-yes")
	b.shows("#members tbody", "birch")
	b.tabTo("Approve cedar")
	b.press(kb.Enter)
	b.shows("#sure", cedar.printedKey())
	b.press(kb.Tab)
	b.press(kb.Enter)
	b.shows("#members tbody", "cedar")

	// In the terminal: the line that the list prints, once its key was compared.
	person.reads("pace-node --enroll-list")
	list := person.pastes(a, "pace-node --enroll-list")
	if !strings.Contains(list, "key "+dogwood.printedKey()+"\n") {
		t.Errorf("the list has not the key that dogwood prints:\n%s", list)
	}
	approve := lineWith(list, "approve ", dogwood.id())
	person.pastes(a, strings.TrimPrefix(approve, "approve "))
	for _, n := range []*node{birch, cedar, dogwood} {
		n.inMode("learner", a)
		a.provisioned(n)
	}
	b.shows("#glance", "4: 1 voter, 3 learners")

	// Two are promoted: one on the page, one by the line that the status prints.
	b.click(button("Promote birch"))
	b.click("#sure-yes")
	birch.inMode("voter", a)
	person.reads("pacectl fleet status")
	person.reads("pace-node --cluster-admit=")
	until(t, "the status prints cedar's line", func() (bool, string) {
		out := person.pastes(a, "pacectl fleet status")
		line := lineWith(out, "pace-node --cluster-admit="+cedar.id())
		if line == "" {
			return false, out
		}
		person.pastes(a, line[strings.Index(line, "pace-node "):])
		return true, ""
	})
	cedar.inMode("voter", a)
	b.shows("#glance", "4: 3 voters, 1 learner")

	// One breaks: its state directory is another account's, and it does not start again.
	dogwood.stop()
	if err := os.Chown(dogwood.dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	dogwood.start()
	if status := dogwood.ends(); status == 0 {
		t.Errorf("dogwood ends with %d", status)
	}
	person.reads("pacectl doctor")
	dogwood.doctor().finds(t, "problem", "state-directory", "", "chown")

	// And is removed for good.
	person.reads("pacectl member forget")
	b.click(button("Forget dogwood"))
	b.shows("#sure", "for ever")
	b.click("#sure-yes")
	b.waits("that dogwood is gone", `![...document.querySelectorAll('#members tbody tr')].some((r) => r.textContent.includes('dogwood'))`)
	b.shows("#glance", "3: 3 voters, 0 learners")
	for _, n := range []*node{a, birch, cedar} {
		until(t, n.name+" lists three voters", func() (bool, string) {
			d, err := n.cluster()
			if err != nil {
				return false, err.Error()
			}
			voters := 0
			for _, m := range d.Members {
				if m.Role == "voter" {
					voters++
				}
			}
			return len(d.Members) == 3 && voters == 3, d.roster()
		})
	}
	b.axe("the newcomer's fleet")
}
