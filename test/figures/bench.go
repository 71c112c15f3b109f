package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// benchmarks runs a group's benchmarks, all in one go test, and takes each row's metric.
func benchmarks(ctx context.Context, m *measurer, g group) error {
	args := benchArgs(g, m.quick)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = m.root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	results, err := parseBenchmarks(strings.NewReader(string(out)))
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.group != g.id {
			continue
		}
		values, err := metricOf(results, r)
		if err != nil {
			return err
		}
		m.add(r.id, values...)
	}
	return nil
}

// benchArgs are the arguments of go.
func benchArgs(g group, quick bool) []string {
	var names []string
	for _, r := range rows {
		top, _, _ := strings.Cut(r.bench, "/")
		if r.group == g.id && !slices.Contains(names, top) {
			names = append(names, top)
		}
	}
	each, count := benchTime, benchCount
	if g.time != "" {
		each = g.time
	}
	if g.count > 0 {
		count = g.count
	}
	if quick {
		each, count = "1x", 1
	}
	args := []string{"test", "-run", "^$", "-bench", "^(" + strings.Join(names, "|") + ")$", "-benchmem", "-benchtime", each, "-count", strconv.Itoa(count)}
	if quick {
		args = append(args, "-short")
	}
	return append(args, g.pkg)
}

// result is one line of a benchmark: its name without the number of processors, and its metrics.
type result struct {
	name    string
	metrics map[string]float64
}

var procs = regexp.MustCompile(`-\d+$`)

// parseBenchmarks reads go test's text: lines of a name, a number of iterations, and pairs of value and unit.
func parseBenchmarks(r io.Reader) ([]result, error) {
	var out []result
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		words := strings.Fields(sc.Text())
		if len(words) < 4 || !strings.HasPrefix(words[0], "Benchmark") {
			continue
		}
		if _, err := strconv.Atoi(words[1]); err != nil {
			continue
		}
		res := result{name: procs.ReplaceAllString(words[0], ""), metrics: map[string]float64{}}
		for i := 2; i+1 < len(words); i += 2 {
			v, err := strconv.ParseFloat(words[i], 64)
			if err != nil {
				return nil, fmt.Errorf("%q is no line of a benchmark: %w", sc.Text(), err)
			}
			res.metrics[words[i+1]] = v
		}
		out = append(out, res)
	}
	if len(out) == 0 {
		return nil, errors.New("go test ran no benchmark")
	}
	return out, sc.Err()
}

// metricOf is a row's values: one a repetition, or, where the row means several sub-benchmarks, the largest of all.
func metricOf(results []result, r row) ([]float64, error) {
	metric := r.metric
	if metric == "" {
		metric = "ns/op"
	}
	var exact, below []float64
	for _, res := range results {
		v, ok := res.metrics[metric]
		switch {
		case !ok:
		case res.name == r.bench:
			exact = append(exact, v)
		case strings.HasPrefix(res.name, r.bench+"/"):
			below = append(below, v)
		}
	}
	switch {
	case len(exact) > 0:
		return exact, nil
	case len(below) > 0:
		return []float64{slices.Max(below)}, nil
	}
	return nil, fmt.Errorf("%s has no %s: was the benchmark renamed?", r.bench, metric)
}
