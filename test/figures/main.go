// Command figures measures the product against its goals and writes docs/figures.md: the benchmarks by go test, the rest
// with real processes of the binary over loopback, and beside them what the machine itself can do, measured in the same
// run. It asserts nothing: machines differ, and a shared one is noisy. It needs no root and no network card.
//
//	go run ./test/figures -binary build/pace-node -out docs/figures.md
//	go run ./test/figures -binary build/pace-node -only '^start'     # some figures, printed
//	go run ./test/figures -binary build/pace-node -only '^prov-' -out docs/figures.md     # the queue's table of the page
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the command's flags.
type options struct {
	binary, out, only string
	quick             bool
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "build/pace-node", "the pace-node to measure, as `make build/pace-node` builds it")
	flag.StringVar(&o.out, "out", "", "the page to write; empty: printed")
	flag.StringVar(&o.only, "only", "", "measure only the figures whose id matches this regular expression, and print them")
	flag.BoolVar(&o.quick, "quick", false, "once each, small and short: shows that the command works, and measures nothing worth keeping")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// run measures and writes. A figure that could not be measured says so in the page, and is the error.
func run(ctx context.Context, o options) error {
	var only *regexp.Regexp
	if o.only != "" {
		var err error
		if only, err = regexp.Compile(o.only); err != nil {
			return fmt.Errorf("-only: %w", err)
		}
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	if o.binary, err = filepath.Abs(o.binary); err != nil {
		return err
	}
	if _, err := os.Stat(o.binary); err != nil {
		return fmt.Errorf("%w; build it with make build/pace-node", err)
	}
	dir, err := os.MkdirTemp("", "pace-figures-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	m := &measurer{options: o, root: root, dir: dir, began: time.Now(), wanted: map[string]bool{}, figures: map[string]figure{}, limits: map[string][]float64{}}
	wanted := m.wanted
	for _, r := range rows {
		if only == nil || only.MatchString(r.id) {
			wanted[r.id] = true
		}
	}
	apart := only != nil && !slices.ContainsFunc(rows, func(r row) bool { return wanted[r.id] && r.group != queueGroup })
	if only != nil && o.out != "" && !apart {
		return errors.New("-only prints; leave -out away, so that the page keeps every figure")
	}
	if len(wanted) == 0 {
		return fmt.Errorf("-only %q matches no figure: %s", o.only, strings.Join(ids(), ", "))
	}
	m.commit = commit(ctx, root)
	m.loadBefore = loadAverage()
	m.say("the machine's limits")
	if err := m.measureLimits(ctx); err != nil {
		return err
	}
	for _, g := range groups {
		if !slices.ContainsFunc(rows, func(r row) bool { return r.group == g.id && wanted[r.id] }) {
			continue
		}
		m.say("%s", g.name)
		if err := g.measure(ctx, m, g); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			m.say("%s: %v", g.name, err)
			m.fail(g.id, err)
		}
	}
	m.say("the machine's limits again")
	if err := m.measureLimits(ctx); err != nil {
		return err
	}
	m.loadAfter = loadAverage()
	page := m.page(wanted)
	if o.out != "" && apart {
		b, err := os.ReadFile(o.out)
		if err != nil {
			return err
		}
		before, _, _ := strings.Cut(string(b), queueHeading)
		page = before + m.queueSection(wanted)
	}
	if o.out == "" {
		fmt.Print(page)
	} else if err := os.WriteFile(o.out, []byte(page), 0o644); err != nil {
		return err
	} else {
		m.say("%s is written", o.out)
	}
	return m.missing(wanted)
}

// measurer is one run.
type measurer struct {
	options
	root, dir             string
	commit                string
	loadBefore, loadAfter string
	began                 time.Time
	wanted                map[string]bool
	figures               map[string]figure
	limits                map[string][]float64 // nanoseconds, by id
	failures              []error
	labs                  int
}

// figure is what was measured for one row, in the row's unit.
type figure struct {
	values []float64
	err    error
}

func (m *measurer) add(id string, values ...float64) {
	f := m.figures[id]
	f.values = append(f.values, values...)
	m.figures[id] = f
}

// fail notes why a group's rows have no value.
func (m *measurer) fail(group string, err error) {
	m.failures = append(m.failures, fmt.Errorf("%s: %w", group, err))
	for _, r := range rows {
		if f := m.figures[r.id]; r.group == group && len(f.values) == 0 {
			f.err = err
			m.figures[r.id] = f
		}
	}
}

// missing is the error of a run that lacks figures.
func (m *measurer) missing(wanted map[string]bool) error {
	err := errors.Join(m.failures...)
	for _, r := range rows {
		if f := m.figures[r.id]; wanted[r.id] && len(f.values) == 0 && f.err == nil {
			err = errors.Join(err, fmt.Errorf("%s: nothing was measured", r.id))
		}
	}
	return err
}

// runs is how often a cheap measure is repeated.
func (m *measurer) runs(n int) int {
	if m.quick {
		return 1
	}
	return n
}

func (m *measurer) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(m.began).Seconds(), fmt.Sprintf(format, args...))
}

func ids() []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.id)
	}
	return out
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	mod := strings.TrimSpace(string(out))
	if err != nil || mod == "" || mod == os.DevNull {
		return "", fmt.Errorf("run it in the project's folder: %w", errors.Join(err, errors.New("go env GOMOD names no module")))
	}
	return filepath.Dir(mod), nil
}

// commit is what the working tree holds, with a mark where it holds more.
func commit(ctx context.Context, root string) string {
	git := func(args ...string) string {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	head := git("rev-parse", "HEAD")
	switch {
	case head == "":
		return "unknown: git names none here"
	case git("status", "--porcelain", "--untracked-files=no", "--", "*.go", "go.mod", "go.sum") != "":
		return head + " and changes that are not committed"
	}
	return head
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	words := strings.Fields(string(b))
	return strings.Join(words[:min(3, len(words))], " ")
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return runtime.GOARCH
}
