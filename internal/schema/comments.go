package schema

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// Comments are what the source says of its types and fields: by "pkg.Type" and "pkg.Type.Field".
type Comments struct{ Types, Fields map[string]string }

// ReadComments reads the Go files of folders, one package each.
func ReadComments(dirs ...string) (Comments, error) {
	c := Comments{map[string]string{}, map[string]string{}}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return c, err
		}
		for _, path := range files {
			src, err := os.ReadFile(path)
			if err != nil {
				return c, err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return c, err
			}
			c.read(file)
		}
	}
	return c, nil
}

func (c *Comments) read(file *ast.File) {
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.TYPE {
			continue
		}
		for _, spec := range gen.Specs {
			ts := spec.(*ast.TypeSpec)
			name := file.Name.Name + "." + ts.Name.Name
			doc := ts.Doc
			if doc == nil && len(gen.Specs) == 1 {
				doc = gen.Doc
			}
			c.Types[name] = line(doc)
			st, ok := ts.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range st.Fields.List {
				text := strings.TrimSpace(line(f.Doc) + " " + line(f.Comment))
				for _, id := range f.Names {
					c.Fields[name+"."+id.Name] = text
				}
			}
		}
	}
}

// line is a comment as one line.
func line(g *ast.CommentGroup) string {
	if g == nil {
		return ""
	}
	return strings.Join(strings.Fields(g.Text()), " ")
}

// taggedTypes lists the struct types of a folder that name their fields for JSON, outside tests.
func taggedTypes(dir string) ([]string, error) {
	var out []string
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			ts, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			st, ok := ts.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, f := range st.Fields.List {
				if f.Tag != nil && strings.Contains(f.Tag.Value, `json:"`) {
					out = append(out, ts.Name.Name)
					break
				}
			}
			return true
		})
	}
	return out, nil
}
