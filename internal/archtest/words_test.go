package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// notYet are flags that the pages name as missing, or that belong to other programs.
var notYet = map[string]bool{"tags": true,
	// firewall-cmd
	"permanent": true, "add-service": true, "reload": true,
	// pkgutil, socketfilterfw, codesign, productsign, notarytool
	"expand": true, "payload-files": true, "pkg-info": true, "pkgs": true, "setglobalstate": true, "listapps": true,
	"now":       true,               // systemctl
	"predicate": true, "info": true, // log
	"sign": true, "options": true, "timestamp": true, "identifier": true, "keychain-profile": true, "wait": true,
}

// settings are names of the fleet's settings that look like a package's.
var settings = map[string]bool{"provision.paused": true, "provision.profile": true}

// endings are those of files whose name begins as a package's.
var endings = map[string]bool{"go": true, "md": true, "json": true, "lock": true}

// pages are the written pages, by their path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "build" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root(t), path)
		out[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 5 {
		t.Fatalf("found %d pages only: this test looks in the wrong place", len(out))
	}
	return out
}

// declared are the names that a package declares: types, functions, methods, constants, variables, fields.
func declared(t *testing.T) (byPackage map[string]map[string]bool, tests map[string]bool) {
	t.Helper()
	byPackage, tests = map[string]map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "build") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name := filepath.Base(filepath.Dir(path))
		if byPackage[name] == nil {
			byPackage[name] = map[string]bool{}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.FuncDecl:
				byPackage[name][x.Name.Name] = true
				if x.Recv == nil && strings.HasSuffix(path, "_test.go") {
					tests[x.Name.Name] = true
				}
			case *ast.TypeSpec:
				byPackage[name][x.Name.Name] = true
			case *ast.ValueSpec:
				for _, id := range x.Names {
					byPackage[name][id.Name] = true
				}
			case *ast.Field:
				for _, id := range x.Names {
					byPackage[name][id.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return byPackage, tests
}

var (
	link   = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	test   = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+…?`)
	code   = regexp.MustCompile("`([a-z]+)\\.([A-Za-z]\\w*)(?:\\.([A-Za-z]\\w*))?(?:\\(\\))?`")
	metric = regexp.MustCompile(`\bpace_[a-z_]+[a-z]\b`)
	flag   = regexp.MustCompile(`(?:^|[\s` + "`" + `/])--([a-z][a-z-]+[a-z])`)
	source = regexp.MustCompile("`((?:internal|test|docs|cmd|platform)/[\\w/.*-]+)`")
)

var (
	within  = regexp.MustCompile(`\]\(#([^)]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	unslug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are where links may lead within a page, as the usual viewers make them of its headings.
func anchors(text string) (out []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		out = append(out, strings.ReplaceAll(unslug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return out
}

// TestWords holds the written pages against the code: every link, test, name of a package, metric, flag and file that they
// name is there.
func TestWords(t *testing.T) {
	all := pages(t)
	names, tests := declared(t)
	man, err := os.ReadFile(filepath.Join(root(t), "docs", "pacectl.1"))
	if err != nil {
		t.Fatal(err)
	}
	flags := all["docs/flags.md"] + strings.ReplaceAll(string(man), `\`, "") // pacectl has one of its own
	for page, text := range all {
		for _, m := range within.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(anchors(text), m[1]) {
				t.Errorf("%s: it has no heading #%s", page, m[1])
			}
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root(t), filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", page, m[1])
			}
			to := path.Join(path.Dir(page), m[1])
			if m[2] != "" && !slices.Contains(anchors(all[to]), m[2][1:]) {
				t.Errorf("%s: %s has no heading %s", page, to, m[2])
			}
		}
		for _, name := range test.FindAllString(text, -1) {
			if !strings.HasSuffix(name, "…") && !tests[name] {
				t.Errorf("%s: there is no test %s", page, name)
			}
		}
		for _, m := range code.FindAllStringSubmatch(text, -1) {
			known, ours := names[m[1]]
			for _, name := range m[2:] {
				if ours && name != "" && !known[name] && !endings[name] && !settings[m[1]+"."+name] {
					t.Errorf("%s: package %s declares no %s", page, m[1], name)
				}
			}
		}
		for _, name := range metric.FindAllString(text, -1) {
			whole := strings.TrimSuffix(name, "_bucket") // a series of a histogram
			if !strings.Contains(all["docs/metrics.md"], "`"+whole+"`") && !strings.HasSuffix(name, "_") {
				t.Errorf("%s: there is no metric %s", page, name)
			}
		}
		for _, m := range flag.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(flags, "--"+m[1]) && !notYet[m[1]] {
				t.Errorf("%s: there is no flag --%s", page, m[1])
			}
		}
		for _, m := range source.FindAllStringSubmatch(text, -1) {
			if found, err := filepath.Glob(filepath.Join(root(t), m[1])); err != nil || len(found) == 0 {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
	}
}

// TestChangelog: what a script may rely on has its line. Each flag, series and condition of the generated pages is named.
func TestChangelog(t *testing.T) {
	all := pages(t)
	for page, row := range map[string]*regexp.Regexp{
		"docs/flags.md":      regexp.MustCompile("(?m)^\\| `(--[a-z-]+)"),
		"docs/metrics.md":    regexp.MustCompile("(?m)^\\| `(pace_[a-z_]+)`"),
		"docs/conditions.md": regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|"),
	} {
		found := row.FindAllStringSubmatch(all[page], -1)
		if len(found) < 5 {
			t.Errorf("%s has %d rows: this test reads it wrongly", page, len(found))
		}
		for _, m := range found {
			if !strings.Contains(all["CHANGELOG.md"], "`"+m[1]+"`") {
				t.Errorf("CHANGELOG.md does not name %s, which %s has: add it under Unreleased", m[1], page)
			}
		}
	}
}
