package node

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pace-node/internal/consensus"
	"pace-node/internal/follow"
	"pace-node/internal/statedir"
	"pace-node/internal/target"
	"pace-node/internal/upgrade"
)

// TestPointsAreThoseThatTheCodeCalls reads the source: a point that no code calls, and one that code calls and no list
// names, both fail.
func TestPointsAreThoseThatTheCodeCalls(t *testing.T) {
	for dir, listed := range map[string][]string{
		"statedir": slices.Concat(statedir.Points, statedir.RestorePoints), "consensus": slices.Concat(consensus.Points, consensus.RecoverPoints), "follow": follow.Points, "target": slices.Concat(target.Points, target.UnitPoints), "upgrade": upgrade.Points,
		"node": slices.Concat(Points, markPoints, leasePoints, recoverPoints, healPoints),
	} {
		src := parse(t, "../"+dir)
		called := src.points(t)
		for _, p := range listed {
			if !strings.HasPrefix(p, dir+".") {
				t.Errorf("%s lists %q: a point begins with its package", dir, p)
			}
			if !slices.Contains(called, p) {
				t.Errorf("%s lists %q, and no code there calls it", dir, p)
			}
		}
		for _, p := range called {
			if !slices.Contains(listed, p) {
				t.Errorf("code in %s calls %q, and its list does not name it", dir, p)
			}
		}
		if dir == "statedir" && !slices.Equal(src.steps, statedir.WriteSteps) {
			t.Errorf("writing a file calls %q, and WriteSteps are %q", src.steps, statedir.WriteSteps)
		}
	}
	seen := map[string]bool{}
	for _, p := range CrashPoints {
		if seen[p] {
			t.Errorf("%q is in the list twice", p)
		}
		seen[p] = true
	}
}

// source is one package's code, as far as it is needed to work out what its points are called.
type source struct {
	fset   *token.FileSet
	consts map[string]string
	fields map[string][]ast.Expr // field of a package's table → its values
	calls  map[callee][]site
	steps  []string // literals that the writing of a file calls
}

type callee struct {
	name   string
	method bool
}

// site is a call, and the function that it stands in.
type site struct {
	call *ast.CallExpr
	in   *ast.FuncDecl
	lits []*ast.FuncLit
}

func parse(t *testing.T, dir string) *source {
	t.Helper()
	s := &source{fset: token.NewFileSet(), consts: map[string]string{}, fields: map[string][]ast.Expr{}, calls: map[callee][]site{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source in %s: %v", dir, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(s.fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				s.values(d)
			case *ast.FuncDecl:
				s.collect(d)
			}
		}
	}
	return s
}

// values keeps constant texts, and the columns of tables.
func (s *source) values(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok || len(v.Values) != len(v.Names) {
			continue
		}
		for i, name := range v.Names {
			switch x := v.Values[i].(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(x.Value); err == nil && d.Tok == token.CONST {
					s.consts[name.Name] = text
				}
			case *ast.CompositeLit:
				s.table(x)
			}
		}
	}
}

func (s *source) table(x *ast.CompositeLit) {
	list, ok := x.Type.(*ast.ArrayType)
	if !ok {
		return
	}
	row, ok := list.Elt.(*ast.StructType)
	if !ok {
		return
	}
	var names []string
	for _, f := range row.Fields.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
	}
	for _, e := range x.Elts {
		if cells, ok := e.(*ast.CompositeLit); ok && len(cells.Elts) == len(names) {
			for i, cell := range cells.Elts {
				s.fields[names[i]] = append(s.fields[names[i]], cell)
			}
		}
	}
}

// collect keeps every call of a function's body.
func (s *source) collect(d *ast.FuncDecl) {
	var lits []*ast.FuncLit
	var walk func(n ast.Node) bool
	walk = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			lits = append(lits, n)
			ast.Inspect(n.Body, walk)
			lits = lits[:len(lits)-1]
			return false
		case *ast.CallExpr:
			at := site{n, d, slices.Clone(lits)}
			switch f := n.Fun.(type) {
			case *ast.Ident:
				s.calls[callee{f.Name, false}] = append(s.calls[callee{f.Name, false}], at)
			case *ast.SelectorExpr:
				s.calls[callee{f.Sel.Name, true}] = append(s.calls[callee{f.Sel.Name, true}], at)
			}
		}
		return true
	}
	if d.Body != nil {
		ast.Inspect(d.Body, walk)
	}
}

// points works out every name that a point is called with.
func (s *source) points(t *testing.T) (all []string) {
	t.Helper()
	for _, c := range []callee{{"point", false}, {"point", true}, {"Point", true}} {
		for _, at := range s.calls[c] {
			if len(at.call.Args) != 1 || at.in.Name.Name == "point" {
				continue // passes on what another call names
			}
			names, err := s.resolve(at.call.Args[0], at)
			if err != nil {
				t.Errorf("%s: %v", s.fset.Position(at.call.Pos()), err)
			}
			if at.in.Name.Name == "writeFile" {
				s.steps = append(s.steps, names...)
				continue
			}
			all = append(all, names...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// resolve gives every text that an expression can be.
func (s *source) resolve(e ast.Expr, at site) ([]string, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return []string{text}, err
	case *ast.BinaryExpr:
		left, err := s.resolve(e.X, at)
		if err != nil {
			return nil, err
		}
		right, err := s.resolve(e.Y, at)
		if err != nil {
			return nil, err
		}
		var out []string
		for _, l := range left {
			for _, r := range right {
				out = append(out, l+r)
			}
		}
		return out, nil
	case *ast.SelectorExpr:
		var out []string
		for _, cell := range s.fields[e.Sel.Name] {
			text, err := s.resolve(cell, at)
			if err != nil {
				return nil, err
			}
			out = append(out, text...)
		}
		if out == nil {
			return nil, fmt.Errorf("no table has a column %s", e.Sel.Name)
		}
		return out, nil
	case *ast.Ident:
		if text, ok := s.consts[e.Name]; ok {
			return []string{text}, nil
		}
		for _, lit := range at.lits {
			if indexOf(lit.Type, e.Name) >= 0 {
				return statedir.WriteSteps, nil // what the writing of a file calls its function with
			}
		}
		if i := indexOf(at.in.Type, e.Name); i >= 0 {
			return s.arguments(at.in, i)
		}
	}
	return nil, fmt.Errorf("it can't be read off the source what this point is called")
}

// arguments gives every text that a function is called with as its i-th argument.
func (s *source) arguments(f *ast.FuncDecl, i int) ([]string, error) {
	var out []string
	for _, at := range s.calls[callee{f.Name.Name, f.Recv != nil}] {
		if len(at.call.Args) <= i {
			continue
		}
		text, err := s.resolve(at.call.Args[i], at)
		if err != nil {
			return nil, err
		}
		out = append(out, text...)
	}
	if out == nil {
		return nil, fmt.Errorf("nobody calls %s", f.Name.Name)
	}
	return out, nil
}

func indexOf(f *ast.FuncType, param string) int {
	i := 0
	for _, field := range f.Params.List {
		for _, n := range field.Names {
			if n.Name == param {
				return i
			}
			i++
		}
	}
	return -1
}
