//go:build e2e

package e2e

import (
	"cmp"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pace-node/internal/config"
	"pace-node/test/docs"
)

// stage is where the blocks of one scene are typed: its machines, and what is different from the reader's.
type stage struct {
	t     *testing.T
	nodes map[string]*node // by the name that the page gives them
	on    string           // where a block that names none is typed
	dir   string           // the folder that it is typed in
	path  string           // folder of stand-ins for sudo and of our programs
	pass  string           // the file of the passphrase that a reader types
	// says are texts of the page and what stands for them here, in pairs; asked anew before each line.
	says func() []string
	// before waits for what the page's reader has seen before they type a line; after for what it promises. Either may be nil.
	before, after func(typed string, n *node)
	fleet         string   // its id, which verbs ask back on stdin
	always        []string // flags of a node that is started, beside those that were typed
}

// programs is a folder for the path of a shell: our programs, and a sudo that asks nobody.
func programs(t *testing.T) string {
	t.Helper()
	path := t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(path, "sudo"), []byte("#!/bin/sh\nexec env \"$@\"\n"), 0o700),
		os.Symlink(binary, filepath.Join(path, "pace-node")),
		os.Symlink(binary, filepath.Join(path, "pacectl")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// newStage makes a scene without its own.
func newStage(t *testing.T, on string, nodes ...*node) *stage {
	t.Helper()
	s := &stage{t: t, on: on, nodes: map[string]*node{}, dir: t.TempDir(), path: programs(t)}
	for _, n := range nodes {
		s.nodes[n.name] = n
	}
	s.pass = filepath.Join(s.path, "passphrase")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.WriteFile(s.pass, []byte("five words are a passphrase\n"), 0o600),
		os.Symlink(s.path, filepath.Join(s.dir, "build")),
		os.Symlink(filepath.Join(root, "docs"), filepath.Join(s.dir, "docs")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// filled puts what there is here in the place of what the page shows.
func (s *stage) filled(text string) string {
	pairs := []string{
		"fleet backup ", "fleet backup --passphrase-file=" + s.pass + " ", // no terminal is here to type it on
		"fleet restore ", "fleet restore --passphrase-file=" + s.pass + " ",
	}
	if s.says != nil {
		pairs = append(s.says(), pairs...)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// service is what a block tells the service manager, which is this test.
var service = regexp.MustCompile(`^(?:sudo )?systemctl (stop|start|restart) pace-node(?:\s+#.*)?$`)

func (s *stage) types(b docs.Block, typed docs.Typing) {
	s.t.Helper()
	n := s.nodes[cmp.Or(b.On, s.on)]
	if n == nil {
		s.t.Fatalf("%s: the scene has no %s", b.Where(), cmp.Or(b.On, s.on))
	}
	text := s.filled(typed.Text)
	where := b.Page + ": " + n.name + "$ " + text
	if s.before != nil {
		s.before(typed.Text, n)
	}
	if m := service.FindStringSubmatch(text); m != nil {
		if m[1] != "start" {
			n.stop()
		}
		if m[1] != "stop" {
			n.start()
			n.ready()
		}
	} else if flags := s.serves(text); flags != nil {
		n.args = append(flags, s.always...)
		n.start()
		n.ready()
	} else if live.MatchString(text) {
		s.watches(where, n, text)
	} else {
		cmd := s.shell(n, text)
		cmd.Stdin = strings.NewReader(s.fleet + "\n")
		out, err := cmd.CombinedOutput()
		if err != nil {
			s.t.Fatalf("%s: %v\n%s", where, err, out)
		}
		s.answers(where, typed, string(out))
	}
	if s.after != nil {
		s.after(typed.Text, n)
	}
}

// live is what goes on until somebody ends it.
var live = regexp.MustCompile(`^(?:sudo )?pacectl watch$`)

// watches runs a line until it has printed something, and ends it as Ctrl-C does.
func (s *stage) watches(where string, n *node, text string) {
	s.t.Helper()
	printed := newLog(s.t)
	cmd := s.shell(n, "exec "+strings.TrimPrefix(text, "sudo "))
	printed.takes(cmd)
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("%s: %v", where, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	until(s.t, where+" prints something", func() (bool, string) { return printed.String() != "", "" })
	cmd.Process.Signal(unix.SIGINT)
	if err := <-done; err != nil {
		s.t.Fatalf("%s: %v\n%s", where, err, printed)
	}
}

// shell is a command that types a line on a machine.
func (s *stage) shell(n *node, text string) *exec.Cmd {
	cmd := n.inside("bash", "-euo", "pipefail", "-c", text)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "PATH="+s.path+":"+os.Getenv("PATH"), "PACE_STATE_DIR="+n.dir)
	return cmd
}

// serves are the flags of a line that runs the node until somebody ends it, nil for any other line.
func (s *stage) serves(text string) []string {
	all := docs.Commands(os.Expand(text, func(name string) string {
		if name == "PWD" {
			return s.dir
		}
		return "$" + name
	}), false)
	if len(all) != 1 || !config.Serves(all[0]) {
		return nil
	}
	return slices.DeleteFunc(append([]string{}, all[0][1:]...), func(arg string) bool {
		return strings.HasPrefix(arg, "--state-dir=") || strings.HasPrefix(arg, "--name=") // the node has its own
	})
}

// answers compares what a console block shows with what was printed: each line that is shown begins as some printed line
// does. Further words differ from run to run.
func (s *stage) answers(where string, typed docs.Typing, printed string) {
	s.t.Helper()
	for _, line := range typed.Answer {
		words := strings.Fields(s.filled(line))
		if len(words) == 0 || strings.HasPrefix(words[0], "[") {
			continue
		}
		if !slices.ContainsFunc(strings.Split(printed, "\n"), func(got string) bool {
			return strings.HasPrefix(strings.TrimSpace(got)+" ", words[0]+" ")
		}) {
			s.t.Errorf("%s: the page shows %q, and this was printed:\n%s", where, line, printed)
		}
	}
}

// as puts a machine in the place of the birch that the pages show in full; more are further pairs.
func (s *stage) as(birch *node, more ...string) func() []string {
	return func() []string {
		if birch.cmd == nil {
			return more
		}
		return append([]string{docs.ExampleID, birch.id(), docs.ExampleKey, birch.keyText(), "192.0.2.2", birch.host.addr.String()}, more...)
	}
}

// TestPages types every block of the written pages that names a scene, and looks whether each line succeeds and answers as
// the page shows.
func TestPages(t *testing.T) {
	t.Parallel()
	needRoot(t)
	pages, err := docs.Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]docs.Block{}
	for _, p := range pages {
		for _, b := range p.Blocks {
			if b.Scene != "" {
				blocks[b.Scene] = append(blocks[b.Scene], b)
			}
		}
	}
	if a, b := slices.Sorted(maps.Keys(scenes)), slices.Sorted(maps.Keys(docs.Scenes)); !slices.Equal(a, b) {
		t.Errorf("the stages are %q, docs.Scenes are %q", a, b)
	}
	for name, set := range scenes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := set(t)
			for _, b := range blocks[name] {
				for _, typed := range b.Typings() {
					s.types(b, typed)
				}
			}
		})
	}
}
