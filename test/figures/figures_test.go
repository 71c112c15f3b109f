package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// firstColumn returns the first cell of each line of the table below a heading, without its head.
func firstColumn(page, heading string) []string {
	_, rest, _ := strings.Cut(page, "\n## "+heading+"\n")
	rest, _, _ = strings.Cut(rest, "\n## ")
	var out []string
	for line := range strings.Lines(rest) {
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "|") && len(cells) > 2 {
			out = append(out, strings.TrimSpace(cells[1]))
		}
	}
	return out[min(2, len(out)):]
}

func names() (limitNames, rowNames, queueNames []string) {
	for _, l := range limits {
		limitNames = append(limitNames, l.name)
	}
	for _, r := range rows {
		if r.group == queueGroup {
			queueNames = append(queueNames, r.name)
		} else {
			rowNames = append(rowNames, r.name)
		}
	}
	return limitNames, rowNames, queueNames
}

// TestPageHasEveryRow holds docs/figures.md against the tables: names, not values.
func TestPageHasEveryRow(t *testing.T) {
	b, err := os.ReadFile("../../docs/figures.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	limitNames, rowNames, queueNames := names()
	if d := cmp.Diff(limitNames, firstColumn(page, "The machine's limits")); d != "" {
		t.Errorf("docs/figures.md is not of this table of limits; make figures writes it:\n%s", d)
	}
	if d := cmp.Diff(rowNames, firstColumn(page, "The product")); d != "" {
		t.Errorf("docs/figures.md is not of this table of figures; make figures writes it:\n%s", d)
	}
	// The queue's table is written alone, on a machine that does nothing else meanwhile.
	if d := cmp.Diff(queueNames, firstColumn(page, "The provisioning queue")); d != "" && strings.Contains(page, queueHeading) {
		t.Errorf("docs/figures.md is not of the queue's table of figures; make bench-provision writes it:\n%s", d)
	}
	if strings.Contains(page, "-quick`") || strings.Contains(page, "not measured") {
		t.Error("docs/figures.md was made with -quick, or lacks a value")
	}
}

// TestQuick runs the whole command on small numbers: every benchmark is found, every process does what is waited for.
func TestQuick(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are measured through Linux's /proc")
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "pace-node")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "pace-node/cmd/pace-node")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	page := filepath.Join(dir, "figures.md")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	if err := run(ctx, options{binary: binary, out: page, quick: true}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rowNames, queueNames := names()
	if d := cmp.Diff(rowNames, firstColumn(string(b), "The product")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(queueNames, firstColumn(string(b), "The provisioning queue")); d != "" {
		t.Error(d)
	}
	if strings.Contains(string(b), "not measured") || !strings.Contains(string(b), "-quick`") {
		t.Errorf("%s", b)
	}
}

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.id] || seen[r.name] && !strings.HasPrefix(r.name, "the same: ") { // which is read with the row above it
			t.Errorf("%s, %q: twice in the table", r.id, r.name)
		}
		seen[r.id], seen[r.name] = true, true
		at := slices.IndexFunc(groups, func(g group) bool { return g.id == r.group })
		if at < 0 {
			t.Errorf("%s: no group %q", r.id, r.group)
			continue
		}
		if (groups[at].pkg != "") != (r.bench != "") {
			t.Errorf("%s: benchmark %q in the group of %q", r.id, r.bench, groups[at].pkg)
		}
		if r.beside != "" && !slices.ContainsFunc(limits, func(l limit) bool { return l.id == r.beside }) {
			t.Errorf("%s: no limit %q", r.id, r.beside)
		}
	}
}

const benchText = `goos: linux
pkg: pace-node/internal/x
BenchmarkA/one-2         	 1000	       250.5 ns/op	      16 B/op	       2 allocs/op
BenchmarkA/two_words-2   	 1000	       300 ns/op	       0 B/op	       0 allocs/op
BenchmarkA/one-2         	 1000	       260 ns/op	      16 B/op	       2 allocs/op
BenchmarkAB-2            	  100	      9000 ns/op	   59439 heap-B/session	      12.5 machines/s
BenchmarkLogs-2
some text of a log
PASS
`

func TestParseBenchmarks(t *testing.T) {
	results, err := parseBenchmarks(strings.NewReader(benchText))
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 4 {
		t.Fatalf("%d lines, want 4: %v", len(results), results)
	}
	for _, c := range []struct {
		name string
		row  row
		want []float64
	}{
		{"repeated", row{bench: "BenchmarkA/one"}, []float64{250.5, 260}},
		{"words", row{bench: "BenchmarkA/two_words"}, []float64{300}},
		{"worst of those below", row{bench: "BenchmarkA", metric: "allocs/op"}, []float64{2}},
		{"a name that another begins with", row{bench: "BenchmarkAB"}, []float64{9000}},
		{"a metric of its own", row{bench: "BenchmarkAB", metric: "heap-B/session"}, []float64{59439}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := metricOf(results, c.row)
			if err != nil || !slices.Equal(got, c.want) {
				t.Fatalf("%v %v, want %v", got, err, c.want)
			}
		})
	}
	if _, err := metricOf(results, row{bench: "BenchmarkB"}); err == nil {
		t.Error("a benchmark that is not there has a value")
	}
	if _, err := parseBenchmarks(strings.NewReader("PASS\n")); err == nil {
		t.Error("no benchmark at all is no error")
	}
}

func TestMet(t *testing.T) {
	for _, c := range []struct {
		name      string
		row       row
		v         float64
		goal, met string
	}{
		{"below", row{goal: ms(300)}, ms(299), "≤ 300 ms", "yes"},
		{"equal", row{goal: ms(300)}, ms(300), "≤ 300 ms", "yes"},
		{"above", row{goal: ms(300)}, ms(301), "≤ 300 ms", "**no**"},
		{"at least", row{unit: perSecond, goal: 200, atLeast: true}, 200, "≥ 200 a second", "yes"},
		{"less than at least", row{unit: perSecond, goal: 200, atLeast: true}, 199, "≥ 200 a second", "**no**"},
		{"no allocation", row{unit: allocations, goal: 0}, 0, "none", "yes"},
		{"one allocation", row{unit: allocations, goal: 0}, 1, "none", "**no**"},
		{"no goal", row{goal: none}, 1, "–", "–"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := goal(c.row); got != c.goal {
				t.Errorf("goal %q, want %q", got, c.goal)
			}
			if got := met(c.row, c.v); got != c.met {
				t.Errorf("met %q, want %q", got, c.met)
			}
		})
	}
}

func TestShow(t *testing.T) {
	for _, c := range []struct {
		unit unit
		v    float64
		want string
	}{
		{nanoseconds, 31.2, "31.2 ns"}, {nanoseconds, 4400, "4.40 µs"}, {nanoseconds, 72.5e6, "72.5 ms"}, {nanoseconds, 1.2e9, "1.20 s"},
		{allocations, 4, "4"}, {bytes, 14.5e6, "14.5 MB"}, {kilobytes, 59439, "59.4 kB"}, {percent, 0.062, "0.06 %"}, {percent, 0.0062, "0.0062 %"}, {perSecond, 412.7, "413 a second"},
	} {
		if got := show(c.unit, c.v); got != c.want {
			t.Errorf("%v of %v: %q, want %q", c.v, c.unit, got, c.want)
		}
	}
	if got := median([]float64{3, 1, 2, 10}); got != 2.5 {
		t.Errorf("median %v", got)
	}
}

// TestMultiple compares a figure with what it is made of.
func TestMultiple(t *testing.T) {
	m := &measurer{limits: map[string][]float64{"fork": {ms(2), ms(4), ms(9)}}}
	for _, c := range []struct {
		row  row
		v    float64
		want string
	}{
		{row{beside: "fork"}, ms(40), "10 × fork"},
		{row{beside: "fork", times: 10}, ms(40), "1 × 10 fork"},
		{row{beside: "fork", unit: perSecond}, 125, "2 × fork"},
		{row{beside: ""}, 1, "–"},
	} {
		if got := m.multiple(c.row, c.v); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	twenty := make([]float64, 20)
	for i := range twenty {
		twenty[i] = float64(20 - i)
	}
	for _, c := range []struct {
		values []float64
		p      int
		want   float64
	}{{twenty, 99, 20}, {twenty, 50, 10}, {twenty, 95, 19}, {[]float64{7}, 99, 7}, {[]float64{2, 1}, 50, 1}} {
		if got := percentile(c.values, c.p); got != c.want {
			t.Errorf("%d of %v: %v, want %v", c.p, c.values, got, c.want)
		}
	}
}
