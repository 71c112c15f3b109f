package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// undeciding are packages whose tables decide nothing in the product.
var undeciding = []string{"archtest", "netsim", "simfleet", "schema"}

// rooms are the packages under internal whose tables are held. A table is a variable of the package that lists rows of more
// than one cell: a slice, an array or a map of structures; or a set, a map of booleans.
func rooms(t *testing.T) (names []string) {
	t.Helper()
	all, err := os.ReadDir(filepath.Join(root(t), "internal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.IsDir() && !slices.Contains(undeciding, e.Name()) {
			names = append(names, e.Name())
		}
	}
	names = append(names, "control/page") // a room inside a room
	return names
}

// notMutated are tables without a test that flips their rows, and why none is needed.
var notMutated = map[string]string{
	"fleet.laterSettings":     "of a version that does not exist yet, built with the tag formatnext: TestNextFormat",
	"provision.pauseTexts":    "words for the causes of a pause, which queue decides",
	"netio.Passes":            "words for the reasons, which interfaceChecks and addressChecks decide",
	"control.gateText":        "words of a refusal, which Gate decides",
	"control.releaseRemedies": "words for the faults of a repository",
	"control.ownSeries":       "names and help of series: written out in docs/metrics.md, which TestDocs compares",
	"control.verbs":           "each verb is run by tests of its own, and TestDocs compares the pages that are made of it",
	"config.Verbs":            "each verb is run by tests of its own, and TestDocs compares the pages that are made of it",
	"config.exitRows":         "words of the help page: TestDocs; the statuses themselves are in control.Exits",
}

// source is a package's own files and its tests, parsed.
func sources(t *testing.T, pkg string) (own, tests []*ast.File) {
	t.Helper()
	dir := filepath.Join(root(t), "internal", pkg)
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if filepath.Ext(e.Name()) != ".go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(e.Name(), "_test.go") {
			tests = append(tests, file)
		} else {
			own = append(own, file)
		}
	}
	return own, tests
}

// tablesOf are the names of the tables that files declare.
func tablesOf(files []*ast.File) (names []string) {
	structs := map[string]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok {
					if _, ok := ts.Type.(*ast.StructType); ok {
						structs[ts.Name.Name] = true
					}
				}
			}
		}
	}
	row := func(e ast.Expr) bool {
		switch x := e.(type) {
		case *ast.StructType:
			return true
		case *ast.Ident:
			return structs[x.Name]
		}
		return false
	}
	for _, f := range files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				vs := s.(*ast.ValueSpec)
				for i, v := range vs.Values {
					lit, ok := v.(*ast.CompositeLit)
					if !ok || i >= len(vs.Names) {
						continue
					}
					switch x := lit.Type.(type) {
					case *ast.ArrayType:
						ok = row(x.Elt)
					case *ast.MapType:
						id, bare := x.Value.(*ast.Ident)
						ok = row(x.Value) || bare && id.Name == "bool" // a set decides too
					default:
						ok = false
					}
					if ok {
						names = append(names, vs.Names[i].Name)
					}
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// mutated are the names that tests whose name begins with TestMutation speak of.
func mutated(tests []*ast.File) map[string]bool {
	out := map[string]bool{}
	for _, f := range tests {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, "TestMutation") {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					out[id.Name] = true
				}
				return true
			})
		}
	}
	return out
}

// TestTablesAreMutated: each table has a test that flips its rows and must see a check fail, or a reason why none is needed.
func TestTablesAreMutated(t *testing.T) {
	found := 0
	excused := map[string]bool{}
	for _, pkg := range rooms(t) {
		own, tests := sources(t, pkg)
		flipped := mutated(tests)
		for _, name := range tablesOf(own) {
			found++
			full := pkg + "." + name
			why, isExcused := notMutated[full]
			excused[full] = isExcused
			switch {
			case isExcused && flipped[name]:
				t.Errorf("%s has a TestMutation, and an excuse for having none: %s", full, why)
			case !isExcused && !flipped[name]:
				t.Errorf("%s: no TestMutation of package %s flips its rows", full, pkg)
			}
		}
	}
	for full := range notMutated {
		if !excused[full] {
			t.Errorf("%s is excused, and there is no such table", full)
		}
	}
	if found < 40 {
		t.Errorf("found %d tables only: this test looks in the wrong place", found)
	}
}
