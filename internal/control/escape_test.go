package control

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestWord(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "-"},
		{"web1", "web1"},
		{"10.1.0.2:6674", "10.1.0.2:6674"},
		{"[fd00:1::2]:6674", "[fd00:1::2]:6674"},
		{"a b", `a\x20b`},
		{"$(touch pwned)", `\x24\x28touch\x20pwned\x29`},
		{"x'; touch pwned; '", `x\x27\x3b\x20touch\x20pwned\x3b\x20\x27`},
		{"`id`", `\x60id\x60`},
		{"a\x1b[2Jb", `a\x1b[2Jb`},
		{"a\nb\r", `a\x0ab\x0d`},
		{"<img src=x onerror=1>", `\x3cimg\x20src=x\x20onerror=1\x3e`},
		{"bücher-ж-東", "bücher-ж-東"},
		{"\u202eevil", `\u202eevil`},
		{"\u201cq\u201d", `\u201cq\u201d`},
		{"\xff\xfe", `\xff\xfe`},
		{`a\b`, `a\x5cb`},
		{"a#b~c*d?e!f", `a\x23b\x7ec\x2ad\x3fe\x21f`},
	} {
		if got := Word(c.in); got != c.want {
			t.Errorf("Word(%q) = %s, want %s", c.in, got, c.want)
		}
	}
	if got := Word(strings.Repeat("n", 5000)); len(got) != maxWordShown+3 {
		t.Errorf("a word of 5000 is shown with %d", len(got))
	}
}

func TestSentence(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"use --cluster-admit-learner=<id>@<key> (twice)", "use --cluster-admit-learner=ID@KEY [twice]"},
		{"say `pacectl node`", "say 'pacectl node'"},
		{"a > b", `a \x3e b`},
		{"<X>", `\x3cX\x3e`},
		{"a; rm -rf /;b;", `a, rm -rf /\x3bb\x3b`},
		{"a\nreboot", `a\x0areboot`},
		{"${HOME}", `\x24\x7bHOME\x7d`},
	} {
		if got := Sentence(c.in); got != c.want {
			t.Errorf("Sentence(%q) = %s, want %s", c.in, got, c.want)
		}
	}
}

// hostile is text that strangers have tried, and what a shell could act on.
var hostile = []string{
	"touch pwned",
	"$(touch pwned)", "`touch pwned`", "x'; touch pwned; '", `x"; touch pwned; "`, "--help", "a b", "; touch pwned",
	"\ntouch pwned\n", "&& touch pwned", "| touch pwned", "a\r\ntouch pwned", "<(touch pwned)", "> pwned", ">pwned", "<x>pwned",
	"$'\\x0atouch pwned'", "\\\ntouch pwned", "{touch,pwned}", "!touch", "a\\", "a'", `a"`, "(touch pwned)", "\u2028touch pwned",
	"$(touch${IFS}pwned)", "%COMSPEC%", "<img src=x onerror=document.title='owned'>", "=touch pwned", "#", "~", "* ?", "\x00touch pwned",
}

// pasteOne is everything that this package prints about machines, with text in
// every place that a stranger can fill.
func pasteOne(text string) []string {
	row := ConditionRow{ID: "x", Remedy: "pace-node --cluster-admit={id}={endpoint}"}
	cond := []ConditionStatus{{ID: text, Severity: text, Detail: text, Remedy: Remedy(row, text, text)}, {ID: "y", Remedy: text}}
	view := View{Mode: text, Revision: 1, AsOfMS: 5000}
	member := MemberStatus{ID: text, Key: text, Name: text, Role: "learner", Platform: text, Version: text, Provisioning: text, Labels: map[string]string{text: text}}
	member.Endpoints.FC = text + ":6674"
	machine := &Machine{ID: text, Name: text, Endpoint: text}
	docs := []Printable{
		&EnrollList{Rows: []EnrollRow{
			{Decision: DecisionWaiting, ID: text, Key: testKey, Name: text, Endpoint: text, Source: text, NameOf: &NameClash{ID: text}},
			{Decision: text, ID: idA, Key: text, Name: text, Endpoint: text, Source: text},
			{Decision: DecisionWaiting, ID: text, Key: text},
		}},
		&ClusterStatus{Cluster: text, Leader: machine, View: view, Members: []MemberStatus{member}, Settings: []Setting{{Name: text, Value: text}}, Conditions: cond, Said: text, PreApprove: []PreApproved{{ID: text, Key: text}}},
		&NodeStatus{Version: text, Mode: text, NodeID: text, Name: text, PublicKey: text, FleetID: text, FleetPin: text, Leader: machine, View: view,
			Asks: &Asking{Cluster: text, Endpoint: text, Outcome: text}, Endpoints: Endpoints{Advertised: text, Listen: text, Raft: text, Admin: text},
			Discovery: DiscoveryStatus{On: true, Listener: text, Answering: text, Interfaces: []InterfaceStatus{{Name: text, Address: text, Why: text}}},
			Seeds:     []SeedStatus{{Endpoint: text, Origin: text, Said: text}}, StateDir: text, Conditions: cond},
		&MemberShow{Member: member, View: view}, &MemberList{Members: []MemberStatus{member}, View: view},
		&QueueList{Paused: true, Why: text, View: view, Entries: []QueueEntry{{ID: text, Name: text, State: text, Stage: text, LastError: text}}},
		&QueueShow{Entry: QueueEntry{ID: text, Name: text, State: text, Stage: text, LastError: text}, Component: text, BootID: text, Digest: text, Outcomes: []QueueOutcome{{Outcome: text, Stage: text, Error: text}}},
		&AuditList{Entries: []AuditEntry{{By: text, Did: text, What: text}}}, &Done{Said: text}, &Identity{NodeID: text, PublicKey: text, Host: text},
		&ConditionList{Conditions: cond},
		&HelperRun{Input: json.RawMessage("[\n\"" + "touch pwned" + "\"\n]"), Output: json.RawMessage(text)},
	}
	out := []string{AdmitCommand(text, text, 0, text), AdmitCommand(idA, text, 0, testKey), approveCommand(text, testKey)}
	for _, d := range docs {
		out = append(out, d.Text())
		if _, raw := d.(*HelperRun); !raw { // its text above is no JSON
			if b, err := marshal(d); err == nil {
				out = append(out, string(b))
			} else {
				out = append(out, "unmarshalled "+err.Error())
			}
		}
	}
	return out
}

// TestPaste pastes whatever is printed into sh and bash, whole, line by line, and
// where a line holds a command to paste, that command alone: no file appears.
func TestPaste(t *testing.T) {
	for _, shell := range []string{"sh", "bash"} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Skipf("no %s on this machine", shell)
		}
		dir := t.TempDir()
		bin := filepath.Join(t.TempDir(), "bin")
		if err := os.Mkdir(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		// touch is what the texts try; our own commands do nothing.
		for name, body := range map[string]string{"touch": "echo > \"" + dir + "/pwned\"", "pace-node": ":", "pacectl": ":"} {
			if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		var script bytes.Buffer
		for _, text := range hostile {
			for _, printed := range pasteOne(text) {
				script.WriteString(printed + "\n")
				for line := range strings.Lines(printed) {
					for _, word := range []string{"approve ", "admit ", "remedy ", "remedy  ", "admit  ", "cluster-admit "} {
						if rest, ok := strings.CutPrefix(line, word); ok {
							script.WriteString(rest + "\n")
						}
					}
				}
			}
		}
		run := func(script, stdin string) string {
			cmd := exec.Command(shell, "-c", script)
			cmd.Dir, cmd.Stdin, cmd.Env = dir, strings.NewReader(stdin), []string{"PATH=" + bin, "HOME=" + dir}
			out, _ := cmd.Output() // how a pasted line ends does not matter
			left, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(left) != 0 {
				t.Fatalf("%s made %s; %s", shell, left[0].Name(), out)
			}
			return string(out)
		}
		// Whole, as a paste of everything.
		run(script.String(), "")
		var each strings.Builder
		seen := map[string]bool{}
		for line := range strings.Lines(script.String()) {
			if !seen[line] {
				seen[line] = true
				each.WriteString(line)
			}
		}
		// Each line on its own, as a terminal would: an unfinished quote must not hide the rest.
		run(`while IFS= read -r line; do
	( eval "$line" ) </dev/null >/dev/null 2>&1
	if [ -e pwned ]; then printf 'by the line %s\n' "$line"; exit; fi
done`, each.String())
		// The test itself can fail: raw text does make the file.
		cmd := exec.Command(shell)
		cmd.Dir, cmd.Stdin, cmd.Env = dir, strings.NewReader("approve pace-node --enroll-approve=$(touch pwned)@k\n"), []string{"PATH=" + bin}
		cmd.Run()
		if _, err := os.Stat(filepath.Join(dir, "pwned")); err != nil {
			t.Fatalf("%s does not run what this test looks for", shell)
		}
		os.Remove(filepath.Join(dir, "pwned"))
	}
}

func TestHostileLinesStayLines(t *testing.T) {
	for _, text := range hostile {
		for _, printed := range pasteOne(text) {
			for _, r := range printed {
				if r != '\n' && (r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x2028) {
					t.Fatalf("%q prints %q in %q", text, r, printed)
				}
			}
		}
		var one, two EnrollList
		one.Rows = []EnrollRow{{Decision: DecisionWaiting, ID: idA, Key: testKey, Name: text, Endpoint: text, Source: text}}
		two.Rows = []EnrollRow{{Decision: DecisionWaiting, ID: idA, Key: testKey, Name: "n", Endpoint: "e", Source: "s"}}
		if a, b := strings.Count(one.Text(), "\n"), strings.Count(two.Text(), "\n"); a != b {
			t.Errorf("%q changes the number of lines from %d to %d", text, b, a)
		}
		row, _, _ := strings.Cut(strings.TrimPrefix(one.Text(), "enrollment: manual\n"), "\n")
		if n := len(strings.Split(row, " ")); n != 7 {
			t.Errorf("%q makes %d columns of 7: %s", text, n, row)
		}
	}
}

func TestApproveLineNeedsAPasteableID(t *testing.T) {
	for _, id := range []string{"$(touch pwned)", "x'; touch pwned; '", "--help", "a b", "", "-", "=x", "a;b"} {
		l := EnrollList{Rows: []EnrollRow{{Decision: DecisionWaiting, ID: id, Key: testKey}}}
		text := l.Text()
		if strings.Contains(text, "\napprove ") || l.Rows[0].Approve != "" || !strings.Contains(text, "cannot be pasted") {
			t.Errorf("id %q:\n%s", id, text)
		}
	}
	l := EnrollList{Rows: []EnrollRow{{Decision: DecisionWaiting, ID: "web-1.x_Y", Key: testKey}}}
	if want := "\napprove pace-node --enroll-approve=web-1.x_Y@" + testKey + "\n"; !strings.Contains(l.Text(), want) {
		t.Errorf("no %q in\n%s", want, l.Text())
	}
}

func TestQuietJSON(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`$(touch pwned)`, `"\u0024\u0028touch pwned\u0029"` + "\n"},
		{`a"b`, `"a\u0022b"` + "\n"},
		{`a\`, `"a\\"` + "\n"},
		{`a\"b`, `"a\\\u0022b"` + "\n"},
		{"`x`!'", `"\u0060x\u0060\u0021\u0027"` + "\n"},
		{"\u201c", `"\u201c"` + "\n"},
		{"😀", `"\ud83d\ude00"` + "\n"},
		{"é\n", `"é\n"` + "\n"},
	} {
		got, err := marshal(c.in)
		if err != nil || string(got) != c.want {
			t.Errorf("marshal(%q) = %s (%v), want %s", c.in, got, err, c.want)
		}
	}
}

func FuzzEscape(f *testing.F) {
	for _, h := range hostile {
		f.Add(h)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, out := range []string{Word(s), Sentence(s)} {
			if !utf8.ValidString(out) || strings.ContainsAny(out, "$`;|&<>(){}\n\r\t!~^\x00\x1b\x7f\u2028\u201c\u2018") {
				t.Fatalf("%q → %q", s, out)
			}
		}
		if strings.ContainsAny(Word(s), " '\"#*?") || Word(s) == "" {
			t.Fatalf("%q → word %q", s, Word(s))
		}
		b, err := marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(b[:len(b)-1], "$`!';|&()<>\n\u201c\u2028") || bytes.Contains(b, []byte(`\"`)) && !bytes.Contains(b, []byte(`\\"`)) {
			t.Fatalf("%q → %s", s, b)
		}
		var back string
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("%q → %s: %v", s, b, err)
		}
		if diff := cmp.Diff(strings.ToValidUTF8(s, "\uFFFD"), back); diff != "" && utf8.ValidString(s) {
			t.Fatal(diff)
		}
	})
}

// TestPathsOfWindows: what mends a folder's protection there is pasted into cmd, so its path stands as it is.
func TestPathsOfWindows(t *testing.T) {
	const remedy = `icacls "C:\ProgramData\pace-node" /inheritance:r`
	if got := escape(plainer(remedy), sentenceSafe+pathSafe("windows"), -1); got != remedy {
		t.Errorf("%s", got)
	}
	for _, goos := range []string{"linux", "darwin"} {
		if got := escape(`a\b`, sentenceSafe+pathSafe(goos), -1); got != `a\x5cb` {
			t.Errorf("%s: %s", goos, got)
		}
	}
}

// TestKeysThatBeginWithADash: one key in 64 does, and behind an id it is no option.
func TestKeysThatBeginWithADash(t *testing.T) {
	key := "-" + testKey[1:]
	if got, want := approveCommand(idA, key), "pace-node --enroll-approve="+idA+"@"+key; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := AdmitCommand(idA, "10.1.0.2", 0, key), "pace-node --cluster-admit="+idA+"=10.1.0.2:6680@"+key; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
