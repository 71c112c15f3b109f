// Package archtest holds the house's arrows: which package may import which; and its words: that what the written pages
// name is there. It has tests only, and runs the go command to read what is really imported.
package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "pace-node"

// pure are the packages that decide, leftmost first: each may import those before it, and of the standard library only
// what pureStd lists. They never see a socket, a clock, a log, a lock or a goroutine.
var pure = []string{"wire", "identity", "discovery", "formation", "enroll", "fleet", "queue", "doctor"}

var pureStd = []string{
	"errors", "fmt", "bytes", "cmp", "container/heap", "iter", "maps", "math/bits", "net/netip", "slices", "sort", "strings",
	"strconv", "time", "unicode/utf8",
}

// pureStdPrefixes are whole families that pure packages may import: encoders and cryptography.
var pureStdPrefixes = []string{"encoding", "crypto"}

// forbidden is the "never" column of the design: from a package to a path it must not reach, directly or through others
// of ours, and why.
var forbidden = []struct{ From, To, Why string }{
	{"discovery", "internal/formation", "discovery reports, formation decides"},
	{"formation", "internal/discovery", "formation judges proven summaries and never looks into discovery's tables"},
	{"enroll", "internal/fleet", "the waiting list is the leader's memory and knows nothing of the state machine"},
	{"netio", "internal/discovery", "sockets carry bytes"},
	{"netio", "internal/formation", "sockets carry bytes"},
	{"consensus", "internal/discovery", "the log does not care where members are"},
	{"consensus", "internal/provision", "the log does not care what is provisioned"},
	{"follow", "internal/consensus", "a learner is no raft member"},
	{"statedir", "internal/netio", "the state directory opens no socket"},
	{"statedir", "internal/consensus", "the state directory knows no raft"},
	{"provision", "internal/consensus", "the queue's workers see no raft types"},
	{"target", "internal/queue", "a target is provisioned, and never looks at the leader's queue"},
	{"target", "internal/provision", "a target is provisioned, and never looks at the leader's workers"},
	{"target", "internal/upgrade", "a target is handed what replaces its program"},
	{"upgrade", "internal/provision", "a machine is upgraded, and never looks at who asks"},
	{"upgrade", "internal/node", "the guard runs before any node does"},
	{"control", "internal/consensus", "verbs reach raft through the node"},
	{"host", "internal/node", "the platform is given to the node, not the other way round"},
	{"config", "internal/node", "options know nobody"},
	{"simfleet", "internal/node", "the model carries decisions out by itself, beside the product's composition"},
	{"simfleet", "internal/consensus", "the log is a model here; real raft has stories of its own"},
	{"node", "platform/linux", "the node sees package host's interface"},
	{"node", "platform/windows", "the node sees package host's interface"},
	{"node", "platform/darwin", "the node sees package host's interface"},
}

// only names modules that exactly one package may import.
var only = []struct{ Import, By, Why string }{
	{"github.com/hashicorp/raft", "internal/consensus", "one door to raft"},
	{"github.com/hashicorp/raft-boltdb/v2", "internal/consensus", "one door to raft's store"},
	{"github.com/hashicorp/yamux", "internal/netio", "one door to sessions"},
	{"github.com/prometheus/client_golang/prometheus", "internal/control", "one table of metrics"},
	{"github.com/spf13/pflag", "internal/config", "one table of options"},
	{"go.yaml.in/yaml/v3", "internal/config", "one table of options"},
	{"aead.dev/minisign", "internal/release", "one door to release signatures"},
}

// testsOnly are packages that the product never imports: the simulators, and what writes docs/schema.
var testsOnly = []string{"internal/netsim", "internal/simfleet", "internal/schema"}

type pkg struct {
	ImportPath                string
	Imports                   []string
	TestImports, XTestImports []string
	Standard                  bool
}

func load(t *testing.T, goos string) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Standard", "./...")
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list for %s: %v\n%s", goos, err, stderr.String())
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func ours(path string) (string, bool) { return strings.CutPrefix(path, module+"/") }

// faults lists every import that the design forbids.
func faults(all []pkg) []string {
	var out []string
	direct := map[string][]string{}
	for _, p := range all {
		if name, ok := ours(p.ImportPath); ok {
			direct[name] = p.Imports
		}
	}
	for i, name := range pure {
		for _, imp := range direct["internal/"+name] {
			if inner, ok := ours(imp); ok {
				if at := slices.Index(pure, strings.TrimPrefix(inner, "internal/")); at < 0 || at >= i {
					out = append(out, fmt.Sprintf("internal/%s imports %s: a pure package imports only pure packages to its left", name, inner))
				}
			} else if !allowedStd(imp) {
				out = append(out, fmt.Sprintf("internal/%s imports %s: a pure package decides, edges act", name, imp))
			}
		}
	}
	for _, f := range forbidden {
		if path := reach(direct, "internal/"+f.From, f.To, nil); path != nil {
			out = append(out, fmt.Sprintf("%s: %s", strings.Join(path, " → "), f.Why))
		}
	}
	for name, imports := range direct {
		if slices.Contains(testsOnly, name) {
			continue
		}
		for _, tests := range testsOnly {
			if slices.Contains(imports, module+"/"+tests) {
				out = append(out, name+" imports "+tests+": it is for tests only")
			}
		}
		for _, o := range only {
			if name != o.By && slices.Contains(imports, o.Import) {
				out = append(out, fmt.Sprintf("%s imports %s, which only %s may: %s", name, o.Import, o.By, o.Why))
			}
		}
	}
	slices.Sort(out)
	return out
}

func allowedStd(imp string) bool {
	if slices.Contains(pureStd, imp) {
		return true
	}
	return slices.ContainsFunc(pureStdPrefixes, func(p string) bool { return imp == p || strings.HasPrefix(imp, p+"/") })
}

func reach(direct map[string][]string, from, to string, seen map[string]bool) []string {
	if seen == nil {
		seen = map[string]bool{}
	}
	if seen[from] {
		return nil
	}
	seen[from] = true
	for _, imp := range direct[from] {
		inner, ok := ours(imp)
		if !ok {
			continue
		}
		if inner == to {
			return []string{from, to}
		}
		if rest := reach(direct, inner, to, seen); rest != nil {
			return append([]string{from}, rest...)
		}
	}
	return nil
}

func TestArrows(t *testing.T) {
	for _, goos := range []string{"linux", "windows", "darwin"} {
		t.Run(goos, func(t *testing.T) {
			for _, f := range faults(load(t, goos)) {
				t.Error(f)
			}
		})
	}
}

// TestArrowsAreSeen shows that each rule can fail: it plants one forbidden import a rule.
func TestArrowsAreSeen(t *testing.T) {
	plant := func(from string, imports ...string) []pkg {
		return []pkg{{ImportPath: module + "/" + from, Imports: imports}}
	}
	for _, f := range forbidden {
		if got := faults(plant("internal/"+f.From, module+"/"+f.To)); len(got) == 0 {
			t.Errorf("internal/%s importing %s goes unseen", f.From, f.To)
		}
		via := append(plant("internal/"+f.From, module+"/internal/between"), pkg{ImportPath: module + "/internal/between", Imports: []string{module + "/" + f.To}})
		if got := faults(via); !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "between") }) {
			t.Errorf("internal/%s reaching %s through another package goes unseen", f.From, f.To)
		}
	}
	for _, o := range only {
		if got := faults(plant("internal/host", o.Import)); len(got) == 0 {
			t.Errorf("%s imported by another package goes unseen", o.Import)
		}
	}
	for _, name := range pure {
		for _, imp := range []string{"net", "os", "log/slog", "sync", "context", "math/rand", "math/rand/v2", module + "/internal/node"} {
			if got := faults(plant("internal/"+name, imp)); len(got) == 0 {
				t.Errorf("internal/%s importing %s goes unseen", name, imp)
			}
		}
	}
	if got := faults(plant("internal/wire", module+"/internal/identity")); len(got) == 0 {
		t.Error("an import to the right goes unseen")
	}
	for _, name := range testsOnly {
		if got := faults(plant("internal/node", module+"/"+name)); len(got) == 0 {
			t.Errorf("%s in the product goes unseen", name)
		}
	}
}

// TestClocks refuses time.Now and goroutines in pure packages, which an import list cannot show.
func TestClocks(t *testing.T) {
	for _, name := range pure {
		files, err := filepath.Glob(filepath.Join(root(t), "internal", name, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(b), "\n") {
				code, _, _ := strings.Cut(line, "//")
				for _, bad := range []string{"time.Now", "time.Since", "time.Until", "time.After", "time.Sleep", "time.NewTimer", "time.Tick", "\tgo "} {
					if strings.Contains(code, bad) {
						t.Errorf("%s:%d has %q: now is an argument, and pure code starts nothing", filepath.Base(file), i+1, strings.TrimSpace(bad))
					}
				}
			}
		}
	}
}

// TestLongFiles holds the bound on a file's length.
func TestLongFiles(t *testing.T) {
	const most = 600
	err := filepath.WalkDir(root(t), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "build") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if n := bytes.Count(b, []byte("\n")); n > most && !bytes.HasPrefix(b, []byte("// long-file: ")) {
			t.Errorf("%s has %d lines: split it, or say why in a first line \"// long-file: why\"", path, n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestMainIsThin holds the bound on cmd/pace-node.
func TestMainIsThin(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(root(t), "cmd", "pace-node", "*.go"))
	lines := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(b, []byte("//go:build crashpoints\n")) {
			continue // in test builds only
		}
		lines += bytes.Count(b, []byte("\n"))
	}
	if lines > 150 {
		t.Errorf("cmd/pace-node has %d lines: the command only chooses, packages do", lines)
	}
}
