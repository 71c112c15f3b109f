package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// page is docs/figures.md.
func (m *measurer) page(wanted map[string]bool) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Figures\n")
	if m.quick {
		line("**Made with `-quick`: everything once, small and short. It shows that the command works; keep none of it.**\n")
	}
	line("Written by `make figures`. Each value is the median of its runs, with the least and the greatest beside it. Nothing of")
	line("this is asserted by a test, for **the machine is shared and noisy**: other work ran on it meanwhile, and its disk is")
	line("sometimes a hundred times slower than at other times. So the machine's own limits are measured in the same run, before and after,")
	line("and each figure that speed matters for stands as a multiple of the limit that it is made of.\n")
	line("| | |\n|---|---|")
	line("| commit | %s |", m.commit)
	line("| date | %s |", m.began.UTC().Format(time.DateOnly))
	line("| machine | %d cores, %s, %s/%s, %s |", runtime.NumCPU(), cpuModel(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	line("| load average before, after | %s; %s |", m.loadBefore, m.loadAfter)
	line("| took | %s |\n", time.Since(m.began).Round(time.Second))

	line("## The machine's limits\n")
	line("| Limit | Median | Least – greatest (rounds) |\n|---|---|---|")
	for _, l := range limits {
		v := m.limits[l.id]
		line("| %s | %s | %s |", l.name, show(nanoseconds, median(v)), spread(nanoseconds, v))
	}

	letters := map[string]string{}
	var commands []string
	for _, g := range groups {
		if g.id != queueGroup && slices.ContainsFunc(rows, func(r row) bool { return r.group == g.id && wanted[r.id] }) {
			letters[g.id] = string(rune('A' + len(commands)))
			commands = append(commands, command(g))
		}
	}
	line("\n## The product\n")
	line("| Figure | Median | Least – greatest (runs) | Goal | Met | Multiple of a limit | By |\n|---|---|---|---|---|---|---|")
	for _, r := range rows {
		if wanted[r.id] && r.group != queueGroup {
			line("%s", m.row(r, letters[r.group]))
		}
	}
	line("\nBy:\n")
	for i, c := range commands {
		line("- %c: `%s`", 'A'+i, c)
	}
	b.WriteString(legend)
	b.WriteString(m.queueSection(wanted))
	return b.String()
}

// queueGroup has a table of its own, so that it can be written alone: it takes as long as all the others.
const queueGroup = "provision"

const queueHeading = "\n## The provisioning queue\n"

// queueSection is the last part of the page, with the limits of the run that measured it.
func (m *measurer) queueSection(wanted map[string]bool) string {
	if !slices.ContainsFunc(rows, func(r row) bool { return r.group == queueGroup && wanted[r.id] }) {
		return ""
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	b.WriteString(queueHeading)
	if m.quick {
		line("\n**Made with `-quick`: keep none of it.**")
	}
	line("\nWritten with the rest, or alone by `make bench-provision`. Measured at commit %s on %s, load average before and after %s; %s (two cores).",
		m.commit, m.began.UTC().Format(time.DateOnly), m.loadBefore, m.loadAfter)
	for _, id := range []string{"fsync", "fork"} {
		for _, l := range limits {
			if l.id == id {
				line("In the same run, %s: %s, %s.", l.name, show(nanoseconds, median(m.limits[id])), spread(nanoseconds, m.limits[id]))
			}
		}
	}
	line("\n| Figure | Median | Least – greatest (runs) | Goal | Met | Multiple of a limit |\n|---|---|---|---|---|---|")
	for _, r := range rows {
		if wanted[r.id] && r.group == queueGroup {
			line("%s", strings.TrimSuffix(m.row(r, ""), "  |"))
		}
	}
	b.WriteString(queueLegend)
	return b.String()
}

const queueLegend = `
- *live machines*: whole nodes in one process beside the leader's, each with a key, a TLS session, leases and the transaction; their
  state is in memory where the row does not say otherwise, for no disk is shared by hundreds of machines, and the leader's on the disk.
  They have joined while the queue was paused. A rate is from an operator's ` + "`resume`" + `, which asks them all who wants provisioning, until
  the last confirmation is committed, with 32 workers. The processor times are of both processes over that time, whatever else they do; the
  helper's own is in neither. Their sum is what the rate can be: two idle cores have 10 ms for each of 200 machines a second. What all cores could do
  is that sum and a fork of this run, for as many cores as there are; the machines' part of it is work that 400 machines elsewhere would do themselves,
  most of it following what became of the other 399, of which a slow run has more for each: what comes within a tenth of a second is followed together.
- *the queue's process*: the most that it had resident (VmHWM), from its start and the joining of all machines on.
- *dead*: members with a session, whose startup events are sent and that then never answer; the live ones are found among them by the round that
  ` + "`resume`" + ` begins, and by nothing else. Timed from the first event of the dead.
- *startup event → provisioned*: the leader's own histogram, from when the machine was started, by the age that its event tells, to the committed
  confirmation, less the helper's time.
- *leader killed*: by SIGKILL, in the middle of its queue, until the log of another voter says that provisioning begins there.
`

const legend = `
What begins and ends a figure:

- *start → serving*: from the fork until ` + "`/readyz`" + ` answers 200: the state is loaded and the sockets are bound.
- *has asked*: from the fork of the younger node, three seconds after the elder began to serve, until the elder raises
  ` + "`enrollment-requests-waiting`" + `.
- *approval → learner*: from the request on the founder's administrators' socket until the learner says that the fleet's
  state is applied; it has by then written its record, archived its own store and followed the founder.
- *→ provisioned*: from there until the learner says that its configuration is confirmed: startup event, inventory, the
  helper (` + "`sh`" + `), the transaction on disk, restart, confirmation in the fleet's state.
- *powered on together*: all processes are forked one after the other without waiting. When the fleet that wins the
  tie-break has heard all others ask (of a hundred: when its list of 64 is full; the others ask again), its window is armed. "approvals →
  all joined" begins there, "power on → all joined" at the first fork; both end when the last node has applied the fleet's state.
- *→ the last node has it on its disk*: read off the files' times afterwards; a file system's clock ticks every 4 ms.
- *a voter with learners*: learners of one other process, each with its own key over TLS, yamux and Follow frames; those of up
  to 1,000 have fetched the whole state. Memory is the voter's heap and stacks after collections, CPU that of its process.
- *three voters that lose their leader*: from SIGKILL, or the signal of a stop, until one of the other two has answered that a
  setting is committed; it is tried on both every 5 ms. Twenty times each; whoever ended is started again and all are level
  before the next one.
- *flood*: 50,000 datagrams of six kinds to both sockets, then 500,000, and 512 connections that never shake hands. The heap is
  the least of 200 readings, between which the collector runs; the goal, no growth, leaves the collector 100 kB of rounding.
- *idle*: ten seconds after the last event. CPU is the scheduler's account of all threads over 60 s.
- Times inside a node are those of its own log lines, so that nothing is polled while it is measured.
- The nodes' state is in the temporary folder of the machine's disk, with every fsync.
`

// row is one line of the product's table.
func (m *measurer) row(r row, letter string) string {
	f := m.figures[r.id]
	if len(f.values) == 0 {
		why := "nothing was measured"
		if f.err != nil {
			why, _, _ = strings.Cut(f.err.Error(), "\n")
		}
		return fmt.Sprintf("| %s | not measured: %s | | %s | | | %s |", r.name, strings.ReplaceAll(why, "|", "/"), goal(r), letter)
	}
	v := median(f.values)
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |", r.name, show(r.unit, v), spread(r.unit, f.values), goal(r), met(r, v), m.multiple(r, v), letter)
}

func goal(r row) string {
	switch {
	case r.goal < 0:
		return "–"
	case r.atLeast:
		return "≥ " + show(r.unit, r.goal)
	case r.unit == allocations && r.goal == 0:
		return "none"
	}
	return "≤ " + show(r.unit, r.goal)
}

func met(r row, v float64) string {
	switch {
	case r.goal < 0:
		return "–"
	case r.atLeast && v >= r.goal, !r.atLeast && v <= r.goal:
		return "yes"
	}
	return "**no**"
}

// multiple is how many of the limit's time the figure takes.
func (m *measurer) multiple(r row, v float64) string {
	limit := median(m.limits[r.beside])
	if r.beside == "" || limit == 0 {
		return "–"
	}
	if r.unit == perSecond {
		v = float64(time.Second) / v
	}
	times := max(r.times, 1)
	name := r.beside
	if times > 1 {
		name = fmt.Sprintf("%.0f %s", times, name)
	}
	return fmt.Sprintf("%s × %s", digits(v/(limit*times)), name)
}

// command is what runs a group alone.
func command(g group) string {
	if g.pkg == "" {
		var parts []string
		for _, r := range rows {
			if r.group == g.id {
				first, _, _ := strings.Cut(r.id, "-")
				if !slices.Contains(parts, first) {
					parts = append(parts, first)
				}
			}
		}
		return fmt.Sprintf("go run ./test/figures -binary build/pace-node -only '^(%s)'", strings.Join(parts, "|"))
	}
	args := benchArgs(g, false)
	for i, a := range args {
		if strings.ContainsAny(a, "^$|") {
			args[i] = "'" + a + "'"
		}
	}
	return "go " + strings.Join(args, " ")
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

func spread(u unit, v []float64) string {
	if len(v) < 2 {
		return "once"
	}
	return fmt.Sprintf("%s – %s (%d)", show(u, slices.Min(v)), show(u, slices.Max(v)), len(v))
}

// show writes a value with three digits that count.
func show(u unit, v float64) string {
	switch u {
	case allocations:
		return digits(v)
	case bytes:
		return digits(v/1e6) + " MB"
	case kilobytes:
		return digits(v/1e3) + " kB"
	case percent:
		return digits(v) + " %"
	case perSecond:
		return digits(v) + " a second"
	}
	for _, step := range []struct {
		ns   float64
		name string
	}{{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}} {
		if v >= step.ns {
			return digits(v/step.ns) + " " + step.name
		}
	}
	return digits(v) + " ns"
}

func digits(v float64) string {
	switch {
	case v == math.Trunc(v) || v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}
