//go:build unix

package node

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"pace-node/internal/fleet"
)

// scaleWatch is how long the idle voter's processor time is watched: four rounds of heartbeats, two of keep-alives.
const scaleWatch = 20 * time.Second

// BenchmarkLearners measures what learners cost the voter that they follow: idle, in memory, and one commit until the last
// has it. That the first grows linearly is what the sizes are there to show.
func BenchmarkLearners(b *testing.B) {
	for _, count := range []int{100, 300, 1000, fleet.MaxMembers - 1} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			// Four thousand snapshots of four thousand members are gigabytes; those go on from where they are.
			count, watch := count, scaleWatch
			if testing.Short() {
				count, watch = count/50, time.Second
			}
			f := startFeed(b, count, count <= 1000)
			before := processorTime(b)
			time.Sleep(watch)
			idle := processorTime(b) - before
			var worst time.Duration
			rounds := 0
			for b.Loop() {
				for range 5 {
					rounds++
					_, all := f.commit(rounds)
					worst = max(worst, all)
				}
			}
			b.ReportMetric(100*float64(idle)/float64(watch), "core-%")
			b.ReportMetric(float64(f.heap)/float64(count), "heap-B/learner")
			b.ReportMetric(float64(worst.Nanoseconds()), "ns/commit")
		})
	}
}

// processorTime is what this process has used of all cores.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
