//go:build e2e

package e2e

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"pace-node/test/docs"
)

// newcomer is a person who has the README and nothing else: they read it from its beginning to its end, and whatever they type
// stands there, behind what they typed before.
type newcomer struct {
	t      *testing.T
	stage  *stage
	readme docs.Page
	at     int // the line that they have come to
}

// told is a command that the README tells of: a line of a block, or a piece of code in the text.
type told struct {
	line  int
	text  string
	block docs.Block // zero: it stands in the text
	typed docs.Typing
}

func aNewcomer(t *testing.T, s *stage) *newcomer {
	t.Helper()
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	page, err := docs.Parse("README.md", string(b))
	if err != nil {
		t.Fatal(err)
	}
	return &newcomer{t: t, stage: s, readme: page}
}

// commands are those of our programs that the README tells of, in its order.
func (p *newcomer) commands() (out []told) {
	for _, b := range p.readme.Blocks {
		if b.NoRun != "" {
			continue
		}
		for _, typed := range b.Typings() {
			out = append(out, told{typed.Line, typed.Text, b, typed})
		}
	}
	for _, s := range p.readme.Spans {
		if len(docs.Commands(s.Text, false)) > 0 {
			out = append(out, told{line: s.Line, text: s.Text})
		}
	}
	slices.SortStableFunc(out, func(a, b told) int { return cmp.Compare(a.line, b.line) })
	return out
}

// reads goes on to the next command of the README with these words in it.
func (p *newcomer) reads(words string) told {
	p.t.Helper()
	for _, c := range p.commands() {
		if c.line > p.at && strings.Contains(c.text, words) {
			p.at = c.line
			return c
		}
	}
	p.t.Fatalf("behind its line %d the README does not tell of %q", p.at, words)
	return told{}
}

// types types the lines of the README's blocks up to the one with these words, each as it stands there, on the machine that
// it is for.
func (p *newcomer) types(scene, last string) {
	p.t.Helper()
	for _, c := range p.commands() {
		if c.block.Scene != scene || c.line <= p.at {
			continue
		}
		p.stage.types(c.block, c.typed)
		p.at = c.line
		if strings.Contains(c.text, last) {
			return
		}
	}
	p.t.Fatalf("no block of %s has %q", scene, last)
}

// pastes runs a line as a shell on the machine does where the packages' programs are on the path, and returns what it prints
// and its status.
func (p *newcomer) pastes(n *node, line string) (string, int) {
	p.t.Helper()
	cmd := p.stage.shell(n, line)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		p.t.Fatalf("%s: %s: %v", n.name, line, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestNewcomersPath: one machine founds a fleet; one is approved in the terminal as the README's blocks have it, two from the
// page; two are promoted; one breaks, is found by doctor, and is removed.
func TestNewcomersPath(t *testing.T) {
	t.Parallel()
	needChromium(t)
	l := newLAN(t, 4)
	a, birch := l.hosts[0].newNode(t, "alder"), l.hosts[1].newNode(t, "birch")
	s := newStage(t, "alder", a, birch)
	s.says = s.as(birch)
	s.always = []string{metered} // where it is without a word, and nowhere else
	s.before = func(typed string, n *node) {
		if strings.HasSuffix(typed, "--enroll-list") {
			birch.asks(a)
		}
	}
	s.after = func(typed string, n *node) {
		if n == a && strings.Contains(typed, "--provision-helper") {
			nextSecond(t)
		}
	}
	person := aNewcomer(t, s)

	// In the terminal: who the machine is, who waits, and the line that the list prints once its key was compared.
	person.types("two-machines", "--enroll-approve")
	birch.inMode("learner", a)
	a.provisioned(birch)
	person.types("two-machines", "fleet status")

	// It is promoted by the line that the status prints.
	status := person.reads("pacectl fleet status")
	admit := person.reads("pace-node --cluster-admit=")
	until(t, "the status prints birch's line", func() (bool, string) {
		out, _ := person.pastes(a, status.text)
		line := lineWith(out, strings.TrimSuffix(admit.text, "…")+birch.id())
		if line == "" {
			return false, out
		}
		said, code := person.pastes(a, line[strings.Index(line, "pace-node "):])
		return code == 0, said
	})
	birch.inMode("voter", a)

	// On the page: who waits, their keys, and the two buttons; with the mouse, and from the keyboard.
	cedar, dogwood := l.hosts[2].start(t, "cedar"), l.hosts[3].start(t, "dogwood")
	printed, code := person.pastes(a, person.reads("pacectl dashboard").text)
	address, _, _ := strings.Cut(printed, "\n")
	if code != 0 || !strings.HasPrefix(address, pageAddress+"#token=") {
		t.Fatalf("pacectl dashboard: %d: %s", code, printed)
	}
	b := l.hosts[0].browse(t)
	b.open(address)
	b.shows("#waiting", cedar.printedKey(), dogwood.printedKey())
	b.click(button("Approve cedar"))
	b.shows("#sure", cedar.printedKey())
	b.click("#sure-yes")
	b.shows("#members tbody", "cedar")
	b.tabTo("Approve dogwood")
	b.press(kb.Enter)
	b.shows("#sure", dogwood.printedKey())
	b.press(kb.Tab)
	b.press(kb.Enter)
	b.shows("#members tbody", "dogwood")
	for _, n := range []*node{cedar, dogwood} {
		n.inMode("learner", a)
		a.provisioned(n)
	}
	b.shows("#glance", "4: 2 voters, 2 learners")
	b.click(button("Promote cedar"))
	b.click("#sure-yes")
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
	said, code := person.pastes(dogwood, person.reads("sudo pacectl doctor").text)
	if code != 1 || lineWith(said, "state-directory") == "" || !strings.Contains(said, "chown -R 0 "+dogwood.dir) {
		t.Errorf("doctor ends with %d: %s", code, said)
	}

	// And is removed for good.
	said, code = person.pastes(a, strings.Replace(person.reads("pacectl member forget").text, "MACHINE", "dogwood", 1))
	if code != 0 {
		t.Errorf("forget ends with %d: %s", code, said)
	}
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
