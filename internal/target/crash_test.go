package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/wire"
)

// The test binary run again is a process of its own, which can end at a point.
const (
	childEnv     = "PACE_TARGET_CHILD" // what the child does
	childDirEnv  = "PACE_TARGET_CHILD_DIR"
	childBodyEnv = "PACE_TARGET_CHILD_BODY" // file with the body of configure
	childStopEnv = "PACE_TARGET_CHILD_STOP" // <point>@<n>: ends at the n-th time it comes there

	childHooksEnv  = "PACE_TARGET_CHILD_HOOKS"  // folder of hooks; empty: none
	childResultEnv = "PACE_TARGET_CHILD_RESULT" // where their unit would report; empty: the child runs them

	exitAtPoint = 3
)

func childMain(what string) {
	point := func(string) {}
	if stop := os.Getenv(childStopEnv); stop != "" {
		name, times, _ := strings.Cut(stop, "@")
		left, _ := strconv.Atoi(times)
		point = func(p string) {
			if p == name {
				if left--; left == 0 {
					os.Exit(exitAtPoint)
				}
			}
		}
	}
	var mu sync.Mutex
	counts := map[string]int{}
	if what == "count" {
		point = func(p string) { mu.Lock(); defer mu.Unlock(); counts[p]++ }
	}
	if what == "full" {
		point = fullFrom(os.Getenv(childStopEnv))
	}
	cfg := config(os.Getenv(childDirEnv))
	cfg.Point = point
	cfg.Hooks.Dir, cfg.Hooks.Result = os.Getenv(childHooksEnv), os.Getenv(childResultEnv)
	tg, err := Open(cfg)
	childFatal(err)
	if what == "open" {
		os.Exit(0)
	}
	if what == "csr" {
		if a := tg.Work(context.Background(), wire.StepCSR, nil); !a.OK {
			childFatal(errors.New(a.Error))
		}
		os.Exit(0)
	}
	raw, err := os.ReadFile(os.Getenv(childBodyEnv))
	childFatal(err)
	a := tg.Work(context.Background(), wire.StepConfigure, raw)
	if what != "count" {
		fmt.Println(string(encodeAnswer(a)))
	}
	if a.OK {
		var out wire.ConfigureAnswer
		childFatal(json.Unmarshal(a.Body, &out))
		body, _ := json.Marshal(wire.RestartBody(out))
		if a := tg.Work(context.Background(), wire.StepRestart, body); !a.OK && what != "full" && cfg.Hooks.Dir == "" {
			childFatal(errors.New(a.Error))
		}
		tg.Confirmed(out.Digest)
	}
	if err := tg.Close(); what != "full" {
		childFatal(err)
	}
	if what == "count" {
		b, _ := json.Marshal(counts)
		fmt.Println(string(b))
	}
	os.Exit(0)
}

func encodeAnswer(a wire.WorkAnswer) []byte { b, _ := json.Marshal(a); return b }

func childFatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}

// child runs a child and reports whether it ended at its point.
func child(t *testing.T, what, dir, bodyFile, stop string) (crashed bool, out string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+what, childDirEnv+"="+dir, childBodyEnv+"="+bodyFile, childStopEnv+"="+stop,
		"GORACE=atexit_sleep_ms=0") // a child of a race test would wait a second before it ends
	var stderr strings.Builder
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false, string(b)
	case errors.As(err, &exit) && exit.ExitCode() == exitAtPoint:
		return true, string(b)
	}
	t.Fatalf("%s at %s: the child ended with %v\n%s%s", what, stop, err, b, stderr.String())
	return false, ""
}

// stand is what a folder holds before a child works on it, and what may be there after.
type stand struct {
	dir             string
	current, before map[string]string // trees; nil: not there
	next            map[string]string
	nextBody        string // file
	currentD, nextD string // digests
}

// prepare makes a folder that was configured depth times, and works out in a twin what one more configuration gives.
func prepare(t *testing.T, depth int) stand {
	t.Helper()
	s := stand{dir: quick(t), nextBody: filepath.Join(t.TempDir(), "body.json")}
	twin := quick(t)
	for _, dir := range []string{s.dir, twin} {
		tg := open(t, config(dir))
		for i := range depth {
			d := configure(t, tg, body(fmt.Sprint("mark", i)))
			restart(t, tg, d)
			tg.Confirmed(d)
			s.currentD = d
		}
		if dir == twin {
			s.nextD = configure(t, tg, body(fmt.Sprint("mark", depth)))
		}
		if err := tg.Close(); err != nil {
			t.Fatal(err)
		}
	}
	all := tree(t, s.dir)
	s.current, s.before = below(all, currentDir), below(all, previousDir)
	s.next = below(tree(t, twin), currentDir)
	if err := os.WriteFile(s.nextBody, encode(t, body(fmt.Sprint("mark", depth))), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// settled opens a folder and says which configuration is there: "old" or "new". Anything else fails.
func (s *stand) settled(t *testing.T, when string) string {
	t.Helper()
	tg := open(t, config(s.dir))
	digest := tg.Digest()
	wants, _ := tg.Wants()
	if err := tg.Close(); err != nil {
		t.Fatal(err)
	}
	all := tree(t, s.dir)
	current, previous := below(all, currentDir), below(all, previousDir)
	which := ""
	switch {
	case maps.Equal(current, s.current) && maps.Equal(previous, s.before) && digest == s.currentD:
		which = "old"
		if wants != (s.currentD == "") {
			t.Errorf("%s: with the old configuration it says that it wants provisioning: %v", when, wants)
		}
	case maps.Equal(current, s.next) && (maps.Equal(previous, s.current) || len(s.current) == 0 && maps.Equal(previous, s.before)) && digest == s.nextD:
		which = "new"
	default:
		t.Fatalf("%s: a mixture, digest %s\n%s", when, digest, dump(all))
	}
	for name := range all {
		top, _, _ := strings.Cut(name, "/")
		if !slices.Contains([]string{".", currentDir, previousDir, stateFile}, top) {
			t.Fatalf("%s: %s is left", when, name)
		}
	}
	return which
}

// copy gives each crash a folder of its own.
func (s *stand) copy(t *testing.T) *stand {
	t.Helper()
	c := *s
	c.dir = quick(t)
	if err := os.CopyFS(c.dir, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	// CopyFS makes files with their mode under the umask, and folders open.
	for name, row := range tree(t, s.dir) {
		info, err := os.Stat(filepath.Join(s.dir, name))
		if err != nil {
			t.Fatal(err, row)
		}
		if err := os.Chmod(filepath.Join(c.dir, name), info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	return &c
}

// after are the points from which on a configuration is made and not taken back: those that follow the intent.
func after(point string) bool {
	return point == "target.intent.rename.after" || strings.HasPrefix(point, "target.intent.dirsync.") || strings.HasPrefix(point, "target.swap.")
}

// TestCrashAtEveryPoint ends a real process at each point of a configuration, the first time and the last time it comes
// there, and again while the next start mends it.
func TestCrashAtEveryPoint(t *testing.T) {
	var reached sync.Map
	t.Run("points", func(t *testing.T) {
		for depth := range 3 {
			first := prepare(t, depth)
			_, out := child(t, "count", first.copy(t).dir, first.nextBody, "")
			var counts map[string]int
			if err := json.Unmarshal([]byte(out), &counts); err != nil {
				t.Fatal(err)
			}
			for point, n := range counts {
				for _, n := range slices.Compact([]int{1, n}) {
					t.Run(fmt.Sprint(depth, " ", point, " ", n), func(t *testing.T) {
						t.Parallel()
						crashAt(t, first, depth, point, n, &reached)
					})
				}
			}
		}
	})
	for _, point := range Points {
		if _, ok := reached.Load(point); !ok && !elsewhere(point) {
			t.Errorf("no child ever came to %s", point)
		}
	}
}

// elsewhere are points that other tests come to: of a swap that is taken back, and of hooks.
func elsewhere(point string) bool {
	for _, prefix := range []string{"target.swap.back.", "target.swap.drop.", "target.swap.restore.", "target.hooks.", "target.csr."} {
		if strings.HasPrefix(point, prefix) {
			return true
		}
	}
	return false
}

func crashAt(t *testing.T, first stand, depth int, point string, n int, reached *sync.Map) {
	if !slices.Contains(Points, point) {
		t.Errorf("%s is not in the list of points", point)
	}
	stop := point + "@" + strconv.Itoa(n)
	s := first.copy(t)
	if crashed, _ := child(t, "configure", s.dir, s.nextBody, stop); !crashed {
		if !strings.HasPrefix(point, "target.state.") { // the keeper may write several changes at once
			t.Errorf("%s was not reached", stop)
		}
		if got := s.settled(t, stop); got != "new" {
			t.Errorf("%s was not reached, and the configuration is %s", stop, got)
		}
		return
	}
	reached.Store(point, true)
	if n == 1 && depth == 2 && (strings.HasPrefix(point, "target.swap.") || point == "target.intent.rename.after") {
		s.crashAgain(t, "crash at "+stop, reached)
	}
	got := s.settled(t, "crash at "+stop)
	switch {
	case strings.HasPrefix(point, "target.state."): // beside the configuration, whenever the keeper comes to it
	case strings.HasPrefix(point, "target.settle.") && n > 1: // the restart's
		if got != "new" {
			t.Errorf("%s: the %s configuration is there", stop, got)
		}
	case after(point) && got != "new", !after(point) && got != "old":
		t.Errorf("crash at %s: the %s configuration is there", stop, got)
	}
}

// crashAgain ends the start that mends at each of its points.
func (s *stand) crashAgain(t *testing.T, when string, reached *sync.Map) {
	t.Helper()
	for _, point := range Points {
		if !strings.HasPrefix(point, "target.swap.") {
			continue
		}
		c := s.copy(t)
		crashed, _ := child(t, "open", c.dir, "", point+"@1")
		if crashed {
			reached.Store(point, true)
		}
		if got := c.settled(t, when+", then at "+point); got != "new" {
			t.Errorf("%s, then at %s: the %s configuration is there", when, point, got)
		}
	}
}

// TestSwapTakenBack: a staged configuration that is not whole is never put in place, wherever the swap stood.
func TestSwapTakenBack(t *testing.T) {
	first := prepare(t, 2)
	for _, made := range []int{0, 1, 2} {
		s := first.copy(t)
		if crashed, _ := child(t, "configure", s.dir, s.nextBody, "target.intent.dirsync.after@1"); !crashed {
			t.Fatal("the child did not come to its point")
		}
		for _, m := range moves[:made] {
			if err := os.Rename(filepath.Join(s.dir, m.From), filepath.Join(s.dir, m.To)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Truncate(filepath.Join(s.dir, stagingDir, configurationFile), 1); err != nil {
			t.Fatal(err)
		}
		for _, point := range []string{"target.swap.back.before", "target.swap.back.after", "target.swap.done.before", "target.swap.done.after", "target.swap.clean.before"} {
			for _, n := range []string{"@1", "@2"} {
				c := s.copy(t)
				crashed, _ := child(t, "open", c.dir, "", point+n)
				if want := n == "@1" && (made > 0 || !strings.Contains(point, "back")) || n == "@2" && made > 1 && strings.Contains(point, "back"); crashed != want {
					t.Errorf("after %d moves, %s%s: crashed %v", made, point, n, crashed)
				}
				if got := c.settled(t, fmt.Sprintf("after %d moves, crash at %s%s", made, point, n)); got != "old" {
					t.Errorf("after %d moves, %s%s: the %s configuration is there", made, point, n, got)
				}
			}
		}
	}
}

// TestIntentUnread: an intent of which nothing can be told leads to the old configuration, and to a start.
func TestIntentUnread(t *testing.T) {
	first := prepare(t, 1)
	for _, text := range []string{"", "nonsense", `{"format":0}`, `{"format":1,"digest":"` + strings.Repeat("0", 64) + `"}`} {
		for _, stop := range []string{"target.intent.dirsync.after@1", "target.swap.previous.after@1"} {
			s := first.copy(t)
			if crashed, _ := child(t, "configure", s.dir, s.nextBody, stop); !crashed {
				t.Fatal("the child did not come to its point")
			}
			if err := os.WriteFile(filepath.Join(s.dir, intentFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := s.settled(t, stop+" with intent "+text); got != "old" {
				t.Errorf("%s with intent %q: %s", stop, text, got)
			}
		}
	}
}

// TestLeftovers: what a step left is removed at the start, links as links.
func TestLeftovers(t *testing.T) {
	s := prepare(t, 1)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.MkdirAll(filepath.Join(outside, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "deep", "kept"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	was := tree(t, outside)
	if err := os.Symlink(outside, filepath.Join(s.dir, stagingDir)); err != nil {
		t.Logf("this account may make no links: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(s.dir, discardDir, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, ".swap.json.tmp-00"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := s.settled(t, "leftovers"); got != "old" {
		t.Error(got)
	}
	if d := cmp.Diff(was, tree(t, outside)); d != "" {
		t.Error(d)
	}
}
