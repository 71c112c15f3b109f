// Command runner runs the project's tests and fuzz targets: it prints what failed whole and the rest a line a package, names every
// skipped test with its reason, and in CI fails on a skip that test/allowed-skips.txt does not list.
//
//	go run ./test/runner test [go test flags and packages]
//	go run ./test/runner fuzz -time 30s ./internal/...
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		fatal(errors.New("usage: runner test|fuzz …"))
	}
	var err error
	switch os.Args[1] {
	case "test":
		err = runTests(os.Args[2:])
	case "fuzz":
		err = runFuzz(os.Args[2:])
	default:
		err = fmt.Errorf("no verb %q: test or fuzz", os.Args[1])
	}
	if err != nil {
		fatal(err)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "runner:", err)
	os.Exit(1)
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

type key struct{ pkg, test string }

func runTests(args []string) error {
	allowed, err := allowedSkips(aboveHere("test/allowed-skips.txt"))
	if err != nil {
		return err
	}
	all, err := goTest(args)
	if err != nil {
		return err
	}
	for pkg, ended := range all.died { // of a run under the race detector alone
		for again := 1; ; again++ {
			if again > diedMost {
				return fmt.Errorf("the race detector's own runtime ended %s %d times", pkg, again)
			}
			fmt.Printf("%s: the race detector's own runtime ended the process; the tests that had not ended by then run in another one (docs/decisions/0113)\n", pkg)
			more, err := goTest(rest(args, pkg, ended))
			if err != nil {
				return err
			}
			all.passed, all.failed, all.skips = all.passed+more.passed, all.failed+more.failed, append(all.skips, more.skips...)
			late, dead := more.died[pkg]
			if !dead {
				break
			}
			ended = append(ended, late...)
		}
	}
	passed, failed, skips := all.passed, all.failed, all.skips
	bad := 0
	for _, s := range skips {
		why, ok := allowed[s.test]
		switch {
		case ok && why != "":
			fmt.Printf("skipped %s: %s (allowed: %s)\n", s.test, s.reason, why)
		case os.Getenv("CI") != "":
			fmt.Printf("SKIPPED %s: %s: not in test/allowed-skips.txt\n", s.test, s.reason)
			bad++
		default:
			fmt.Printf("skipped %s: %s\n", s.test, s.reason)
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, len(skips))
	switch {
	case failed > 0:
		return fmt.Errorf("%d failed", failed)
	case bad > 0:
		return fmt.Errorf("%d skipped without leave", bad)
	case passed == 0:
		return errors.New("no test ran")
	}
	return nil
}

type skip struct{ test, reason string }

// outcome is what a run of go test said.
type outcome struct {
	passed, failed int // tests
	skips          []skip
	broken         int                 // packages that failed, those in died too
	died           map[string][]string // packages that the race detector's own runtime ended, and their tests that had ended before
}

// goTest runs go test and reports. It fails where go test does and neither a test nor the race detector's runtime is why.
func goTest(args []string) (outcome, error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return outcome{}, err
	}
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	all, scanErr := report(out, os.Stdout)
	runErr := cmd.Wait()
	if !slices.Contains(args, "-race") {
		clear(all.died)
	}
	switch {
	case scanErr != nil:
		return all, scanErr
	case runErr != nil && all.failed == 0 && (len(all.died) == 0 || all.broken > len(all.died)):
		return all, runErr
	}
	return all, nil
}

// diedMost is how often the rest of a package is run after the race detector's own runtime ended its process.
const diedMost = 3

// tsanDied is what a process prints that the race detector's runtime ended in a bubble of testing/synctest (golang/go#78156): a
// check of its own, a fault in its code, which is no Go code, or a fault there whose stack Go cannot read. A fault in Go code is a
// panic, and says so; and there is no other code than Go's in this project.
var tsanDied = regexp.MustCompile(`ThreadSanitizer: CHECK failed|` +
	`SIGSEGV: segmentation violation\n\s*PC=0x[0-9a-f]+ m=\d+ [^\n]*\n\s*\n\s*goroutine 0 |` +
	`fatal error: traceback did not unwind completely|` +
	`unexpected return pc for runtime\.sigpanic `)

// rest are the arguments that run the tests of one package but those that have ended.
func rest(args []string, pkg string, ended []string) (out []string) {
	for _, a := range args {
		if !strings.HasPrefix(a, "./") {
			out = append(out, a)
		}
	}
	if len(ended) > 0 {
		out = append(out, "-skip", "^("+strings.Join(ended, "|")+")$")
	}
	return append(out, pkg)
}

// report reads go test's events, prints what a person wants to see, and counts.
func report(r io.Reader, w io.Writer) (outcome, error) {
	all := outcome{died: map[string][]string{}}
	kept, ended, failedIn := map[key][]string{}, map[string][]string{}, map[string]bool{}
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 1<<20), 16<<20)
	for sc.Scan() {
		var e event
		if json.Unmarshal(sc.Bytes(), &e) != nil {
			fmt.Fprintln(w, sc.Text())
			continue
		}
		k := key{e.Package, e.Test}
		switch e.Action {
		case "output":
			kept[k] = append(kept[k], e.Output)
		case "build-output":
			fmt.Fprint(w, e.Output)
		case "pass":
			if e.Test == "" {
				fmt.Fprintf(w, "ok   %s (%.1fs)\n", e.Package, e.Elapsed)
			} else {
				all.passed++
			}
			delete(kept, k)
		case "skip":
			if e.Test != "" {
				all.skips = append(all.skips, skip{e.Package + "." + e.Test, reason(kept[k])})
			}
			delete(kept, k)
		case "fail":
			if e.Test == "" {
				all.broken++
				said := strings.Join(kept[k], "")
				dead := tsanDied.MatchString(said)
				for _, t := range unended(kept, e.Package) { // the process died under them: why stands in what the last one printed
					text := strings.Join(kept[key{e.Package, t}], "")
					dead = dead || tsanDied.MatchString(text)
					fmt.Fprintf(w, "%s of %s had not ended:\n%s", t, e.Package, text)
					delete(kept, key{e.Package, t})
				}
				fmt.Fprintf(w, "FAIL %s (%.1fs)\n%s", e.Package, e.Elapsed, said)
				switch {
				case dead && !failedIn[e.Package]:
					all.died[e.Package] = ended[e.Package]
				case said != "" && !slices.ContainsFunc(kept[k], func(s string) bool { return strings.HasPrefix(s, "FAIL") }):
					all.failed++
				}
			} else {
				all.failed++
				failedIn[e.Package] = true
				fmt.Fprint(w, strings.Join(kept[k], ""))
			}
			delete(kept, k)
		}
		switch e.Action {
		case "pass", "fail", "skip":
			if e.Test != "" && !strings.Contains(e.Test, "/") {
				ended[e.Package] = append(ended[e.Package], e.Test)
			}
		}
	}
	return all, sc.Err()
}

// unended are the tests of a package that have printed something and neither passed, failed nor were skipped.
func unended(kept map[key][]string, pkg string) (tests []string) {
	for k := range kept {
		if k.pkg == pkg && k.test != "" {
			tests = append(tests, k.test)
		}
	}
	slices.Sort(tests)
	return tests
}

var skipLine = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)$`)

func reason(output []string) string {
	for _, line := range output {
		if m := skipLine.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			return m[1]
		}
	}
	return "no reason given"
}

// aboveHere finds a file of the repository from one of its folders.
func aboveHere(path string) string {
	for range 4 {
		if _, err := os.Stat(path); err == nil {
			break
		}
		path = filepath.Join("..", path)
	}
	return path
}

// allowedSkips reads lines "package.Test<tab or spaces># reason"; a line without a reason is refused.
func allowedSkips(path string) (map[string]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for i, line := range strings.Split(string(b), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, why, _ := strings.Cut(line, "#")
		if strings.TrimSpace(why) == "" {
			return nil, fmt.Errorf("%s:%d: %q has no reason: write name # reason", path, i+1, line)
		}
		out[strings.TrimSpace(name)] = strings.TrimSpace(why)
	}
	return out, nil
}

func runFuzz(args []string) error {
	flags := flag.NewFlagSet("fuzz", flag.ExitOnError)
	each := flags.Duration("time", 30*time.Second, "how long each target runs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pkgs, err := exec.Command("go", append([]string{"list"}, flags.Args()...)...).Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	type target struct{ pkg, name string }
	var all []target
	for _, p := range strings.Fields(string(pkgs)) {
		list, err := exec.Command("go", "test", "-list", "^Fuzz", p).Output()
		if err != nil {
			return fmt.Errorf("list the fuzz targets of %s: %w\n%s", p, err, list)
		}
		for _, line := range strings.Fields(string(list)) {
			if strings.HasPrefix(line, "Fuzz") {
				all = append(all, target{p, line})
			}
		}
	}
	if len(all) == 0 {
		return errors.New("no fuzz target found")
	}
	// One worker each, and twice as many targets at a time as there are cores: each runs its whole time all the same.
	type result struct {
		target
		out []byte
		err error
	}
	work, done := make(chan target), make(chan result)
	for range 2 * runtime.NumCPU() {
		go func() {
			for t := range work {
				out, err := fuzzOne(t.pkg, t.name, *each)
				if err != nil && deadlineOnly(out) {
					out, err = fuzzOne(t.pkg, t.name, *each)
				}
				done <- result{t, out, err}
			}
		}()
	}
	go func() {
		for _, t := range all {
			work <- t
		}
		close(work)
	}()
	failed := 0
	for range all {
		r := <-done
		if r.err != nil {
			failed++
			fmt.Printf("FAIL %s %s\n%s\n", r.pkg, r.name, r.out)
			continue
		}
		lines := bytes.Split(bytes.TrimSpace(r.out), []byte("\n"))
		last := ""
		for _, l := range lines {
			if bytes.Contains(l, []byte("execs:")) {
				last = string(l)
			}
		}
		fmt.Printf("ok   %s %s %s\n", r.pkg, r.name, strings.TrimSpace(last))
	}
	fmt.Printf("%d passed, %d failed\n", len(all)-failed, failed)
	if failed > 0 {
		return fmt.Errorf("%d fuzz targets failed", failed)
	}
	return nil
}

func fuzzOne(pkg, name string, each time.Duration) ([]byte, error) {
	// Minimizing is bounded by runs: by time it may take the whole of a short run.
	return exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+name+"$", "-fuzztime", each.String(), "-fuzzminimizetime", "10x", "-parallel", "1", pkg).CombinedOutput()
}

// deadlineOnly reports whether a run failed for nothing but its own end: the go command reports a worker that is busy at
// the deadline as a failure without an input (golang/go#48591 and its kin).
func deadlineOnly(out []byte) bool {
	return bytes.Contains(out, []byte("context deadline exceeded")) && !bytes.Contains(out, []byte("Failing input written"))
}
