package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pace-node/internal/formation"
	"pace-node/internal/wire"
)

// crashStories are the names of the stories in test/crash.
func crashStories(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), "test", "crash", "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			kv, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			key, isName := kv.Key.(*ast.Ident)
			lit, isText := kv.Value.(*ast.BasicLit)
			if isName && isText && key.Name == "name" && lit.Kind == token.STRING {
				if name, err := strconv.Unquote(lit.Value); err == nil {
					names = append(names, name)
				}
			}
			return true
		})
	}
	return names
}

// TestFormationPage holds the page that says which test holds each rule of formation: every row of it names a test (TestWords
// holds that it is there) or a story of crashes, and the tables of modes, transitions and encounters are there row by row.
func TestFormationPage(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root(t), "docs", "formation-tests.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	stories := crashStories(t)
	quoted := regexp.MustCompile(`"([^"]+)"`)
	rows, decided := 0, false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.Trim(line, "|"), "|")
		switch {
		case !strings.HasPrefix(line, "|"):
			decided = false
			continue
		case strings.HasPrefix(line, "| Own |"):
			decided = true // what the table decides: its tests stand above it
			continue
		case strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| Mode |") || strings.HasPrefix(line, "| From |") || strings.HasPrefix(line, "| Rule |"):
			continue
		case decided:
			continue
		}
		rows++
		last := cells[len(cells)-1]
		for _, m := range quoted.FindAllStringSubmatch(last, -1) {
			if !slices.Contains(stories, m[1]) {
				t.Errorf("there is no story of crashes %q", m[1])
			}
		}
		if !test.MatchString(last) && !quoted.MatchString(last) {
			t.Errorf("this row names no test: %s", line)
		}
	}
	if rows < 80 {
		t.Errorf("found %d rows only: this test reads the page wrongly", rows)
	}
	has := func(cells ...string) {
		t.Helper()
		if want := "\n| " + strings.Join(cells, " | ") + " |"; strings.Count(page, want) != 1 {
			t.Errorf("the page has %d rows %s", strings.Count(page, want), strings.TrimSpace(want))
		}
	}
	modes, _, _ := strings.Cut(page, "\n## Transitions\n")
	for _, m := range formation.Modes {
		if strings.Count(modes, "\n| "+m.Name+" |") != 1 {
			t.Errorf("the page has no row of the mode %s", m.Name)
		}
	}
	for _, tr := range formation.Transitions {
		has(tr.From.String(), tr.On.String(), tr.To.String())
	}
	// What the page says of two fleets is what is decided of them, the first of a pair of rows by the evidence.
	outcome := map[formation.EncounterRow]formation.Outcome{}
	for _, e := range formation.Encounters {
		key := e
		key.Outcome = 0
		outcome[key] = e.Outcome
	}
	states := []wire.SummaryState{wire.StateSolitary, wire.StateEstablished, wire.StatePending}
	for _, own := range states {
		for _, seen := range states {
			has(own.String(), seen.String(), outcome[formation.EncounterRow{Own: own, Seen: seen, Evidence: formation.NoSplit}].String(),
				outcome[formation.EncounterRow{Own: own, Seen: seen, Evidence: formation.SplitHealsByItself}].String())
		}
	}
	if n := strings.Count(page, "\n| solitary |") + strings.Count(page, "\n| pending |") + strings.Count(page, "\n| learner |") + strings.Count(page, "\n| voter |") +
		strings.Count(page, "\n| established |"); n != len(formation.Modes)+len(formation.Transitions)+len(states)*len(states) {
		t.Errorf("the page has %d rows of modes, transitions and encounters, and the tables have another number", n)
	}
}
