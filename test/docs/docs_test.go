package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	page, err := Parse("p.md", strings.Join([]string{
		"Type `pacectl",
		"node` or `x`.",
		"",
		"```sh run=first on=alder",
		"# said alone",
		"pacectl fleet set a='{\"b\":1}' \\",
		"  --json   # why",
		"cat >f <<'END'",
		"pacectl none",
		"END",
		"```",
		"",
		"```console norun: needs macOS",
		"$ pace-node --version",
		"pace-node 1",
		"```",
		"`y`",
	}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Page{Path: "p.md",
		Spans: []Span{{"p.md", 1, "pacectl node"}, {"p.md", 2, "x"}, {"p.md", 17, "y"}},
		Blocks: []Block{
			{Page: "p.md", Line: 4, Lang: "sh", Scene: "first", On: "alder", Lines: page.Blocks[0].Lines},
			{Page: "p.md", Line: 13, Lang: "console", NoRun: "needs macOS", Lines: page.Blocks[1].Lines}}}
	if diff := cmp.Diff(want, page); diff != "" {
		t.Error(diff)
	}
	typed := page.Blocks[0].Typings()
	if diff := cmp.Diff([]Typing{
		{Line: 6, Text: "pacectl fleet set a='{\"b\":1}' \\\n  --json   # why"},
		{Line: 8, Text: "cat >f <<'END'\npacectl none\nEND"}}, typed); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Typing{{Line: 14, Text: "pace-node --version", Answer: []string{"pace-node 1"}}}, page.Blocks[1].Typings()); diff != "" {
		t.Error(diff)
	}
	if got := Commands(typed[1].Text, false); got != nil {
		t.Errorf("a here document is no command: %q", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"```\nx\n```":        "p.md:1: the block has no language",
		"```perl\nx\n```":    `a block of "perl" is not known`,
		"```sh now\nx\n```":  `"now" is neither`,
		"```sh run=\nx\n```": `"run=" is neither`,
		"a\n```sh\nx":        "p.md:2: the block is never closed",
	} {
		if _, err := Parse("p.md", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		line string
		bat  bool
		want [][]string
	}{
		{"pacectl node", false, [][]string{{"pacectl", "node"}}},
		{"sudo PACE_NAME='a b' build/pace-node --x=\"y z\" # pacectl", false, [][]string{{"pace-node", "--x=y z"}}},
		{"systemctl stop pace-node; pace-node --reset-identity && pacectl node >f 2>&1", false,
			[][]string{{"pace-node", "--reset-identity"}, {"pacectl", "node"}}},
		{"install -m 755 pace-node /usr/bin/pace-node", false, nil},
		{"sudo systemctl restart pace-node", false, nil},
		{"pacectl a | pacectl b", false, [][]string{{"pacectl", "a"}, {"pacectl", "b"}}},
		{"X=$(pacectl node)", false, [][]string{{"pacectl", "node"}}},
		{"ssh -L 6690:127.0.0.1:6690 -N admin@host pacectl dashboard", false, [][]string{{"pacectl", "dashboard"}}},
		{`"%ProgramFiles%\Pace\pacectl.exe" fleet status`, true, [][]string{{"pacectl", "fleet", "status"}}},
		{`a\ b pacectl`, false, nil},
		{"pacectl fleet set p='{\"x\":\"y\"}'", false, [][]string{{"pacectl", "fleet", "set", `p={"x":"y"}`}}},
		{`pacectl 2>/dev/null >out member <in list`, false, [][]string{{"pacectl", "member", "list"}}},
	} {
		if diff := cmp.Diff(c.want, Commands(c.line, c.bat)); diff != "" {
			t.Errorf("%s: %s", c.line, diff)
		}
	}
}

// TestEveryBlockHasItsTest: what a page has somebody type is typed by a test, or says why not.
func TestEveryBlockHasItsTest(t *testing.T) {
	pages, err := Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	tests := declaredTests(t)
	typed, used := map[string]int{}, map[string]int{}
	for _, p := range pages {
		for _, b := range p.Blocks {
			by, isBy := strings.CutPrefix(b.NoRun, "typed by ")
			switch fault := b.Fault(); {
			case fault != "":
				t.Errorf("%s: %s", b.Where(), fault)
			case b.Scene != "":
				typed[b.Scene]++
			case b.NoRun != "":
				used[b.NoRun]++
				if isBy && Reasons[b.NoRun] == "" && !tests[by] {
					t.Errorf("%s: there is no test %s", b.Where(), by)
				}
			}
		}
	}
	for name, what := range Scenes {
		if typed[name] == 0 {
			t.Errorf("no page has a block of the scene %q", name)
		}
		t.Logf("%2d blocks are typed: %s", typed[name], what)
	}
	for reason, n := range used {
		why := reason
		if stands := Reasons[reason]; stands != "" {
			why += ": " + stands
		}
		t.Logf("%2d blocks are not typed by a scene: %s", n, why)
	}
	for reason := range Reasons {
		if used[reason] == 0 {
			t.Errorf("no block has the reason %q: take it out of docs.Reasons", reason)
		}
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)

// declaredTests are the names of the tree's tests, whatever they are built with.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(b, -1) {
			out[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// looked are what an operator looks for, and where it stands; the README leads there.
var looked = map[string]string{
	"quick start":                        "docs/operator.md#quick-start-three-machines",
	"ports":                              "docs/operator.md#ports",
	"day two":                            "docs/operator.md#day-two",
	"upgrade":                            "docs/upgrades.md",
	"backup and restore":                 "docs/recovery.md#a-founder-is-backed-up-and-restored",
	"all voters lost":                    "docs/recovery.md#all-voters-are-lost",
	"a forgotten machine comes back":     "docs/recovery.md#a-forgotten-machine-comes-back",
	"two fleets on one segment":          "docs/operator.md#two-fleets-on-one-segment",
	"images and clones":                  "docs/recovery.md#images-and-clones",
	"laptops":                            "docs/operator.md#laptops-and-machines-that-are-often-off",
	"the threat model":                   "docs/security.md",
	"a tour of the house":                "docs/tour.md",
	"how to add a verb":                  "CONTRIBUTING.md",
	"an honest comparison":               "docs/comparison.md",
	"conditions and what mends them":     "docs/conditions.md",
	"a program that calls a person":      "docs/alerts.md",
	"what a script reads":                "docs/schema/README.md",
	"what was verified, and what is not": "docs/verified.md",
}

// TestReadmeLeadsThere holds that; that the links lead somewhere is another test's.
func TestReadmeLeadsThere(t *testing.T) {
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for what, link := range looked {
		if !strings.Contains(string(b), "]("+link+")") {
			t.Errorf("%s: the README has no link to %s", what, link)
		}
	}
}
