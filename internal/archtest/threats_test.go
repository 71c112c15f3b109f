package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// threats are the rows of both threat models, in their own words: what an attacker on the segment can do, and what one can do
// to a machine that joins its first fleet, with a pin and without.
var threats = map[string][]string{
	"the segment": {
		"Listen to the segment",
		"Send arbitrary datagrams",
		"Replay a captured proof",
		"Capture a proof and re-aim it at another endpoint",
		"Claim a known member's id",
		"Obtain a shared cluster key",
		"Obtain one member's identity key",
		"Mint a fleet of its own on the segment",
	},
	"the pin": {
		"Mint a fleet and prove it older",
		"Claim the pinned fleet's id under its own key, by beacon or as a seed",
		"Answer the node's Enroll, or redirect it to a leader of its choosing",
		"Hold a pinned voter's identity key",
		"Capture the fleet's quorum after the node joined",
	},
}

// threatTests are where each of them is tried: over the simulated segment, and by processes over real sockets.
var threatTests = map[string][]string{
	"the segment": {"internal/node/sim_threat_test.go", "test/e2e/threat_test.go"},
	"the pin":     {"internal/node/sim_threat_pin_test.go", "test/e2e/pin_test.go"},
}

// subtests are the names that a file gives to a function it runs: t.Run("…", …), or a helper of its own called the same way.
func subtests(t *testing.T, path string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), path), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 {
			return true
		}
		called := ""
		switch f := call.Fun.(type) {
		case *ast.SelectorExpr:
			called = f.Sel.Name
		case *ast.Ident:
			called = f.Name
		}
		lit, isText := call.Args[0].(*ast.BasicLit)
		if _, runs := call.Args[1].(*ast.FuncLit); !runs || !isText || lit.Kind != token.STRING || !strings.EqualFold(called, "run") {
			return true
		}
		name, err := strconv.Unquote(lit.Value)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
		return true
	})
	return names
}

// TestThreatRows: every row of the threat models is a test under the row's own words, in each of the places, and the page on
// security has a row for it.
func TestThreatRows(t *testing.T) {
	page := strings.ToLower(strings.ReplaceAll(pages(t)["docs/security.md"], "`", ""))
	for table, rows := range threats {
		for _, path := range threatTests[table] {
			names := subtests(t, path)
			for _, row := range rows {
				if !slices.Contains(names, row) {
					t.Errorf("%s: no test is named %q", path, row)
				}
			}
		}
		for _, row := range rows {
			if !strings.Contains(page, "\n| "+strings.ToLower(row)+" |") {
				t.Errorf("docs/security.md has no row %q", row)
			}
		}
	}
}

// TestThreatsNameTheirTests: each row of a table of the page on security whose last column says what shows it names a test, so
// that no row is an assertion alone.
func TestThreatsNameTheirTests(t *testing.T) {
	const shown = "| Shown by |"
	inTable, rows := false, 0
	for line := range strings.Lines(pages(t)["docs/security.md"]) {
		line = strings.TrimSpace(line)
		switch cells := strings.Split(line, "|"); {
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case strings.HasSuffix(line, shown):
			inTable = true
		case inTable && !strings.HasPrefix(line, "|---"):
			rows++
			if !test.MatchString(cells[len(cells)-2]) {
				t.Errorf("docs/security.md: no test shows %q", strings.TrimSpace(cells[1]))
			}
		}
	}
	if rows < 15 {
		t.Errorf("found %d rows only: this test reads the page wrongly", rows)
	}
}
