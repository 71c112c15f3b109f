package node

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pace-node/internal/formation"
)

// The moves by which an ask ends unanswered are ended here at each point of their record. test/crash ends real processes at
// those of every move but Abandoned, for which each would wait ten minutes.

// movesBecause is why a machine's last move began, as it said.
func (s *sim) movesBecause(name string) string {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for _, line := range slices.Backward(s.log.lines) {
		if strings.Contains(line, "msg=moving on="+name+" ") {
			_, rest, _ := strings.Cut(line, "because=")
			because, _, _ := strings.Cut(rest, " ")
			return because
		}
	}
	return ""
}

// crash is a power cut at a point of a machine's move: its record, and what is beside it, is as it was then. Its stores are
// left alone: these moves do not touch them.
type crash struct {
	s     *sim
	i     int // whose power that is
	on    formation.Trigger
	point string
	cut   atomic.Bool
	files map[string][]byte
}

func (c *crash) tweak(cfg *Config) {
	name := cfg.Settings.Name
	cfg.Point = func(point string) {
		if point != c.point || c.cut.Load() || c.s.movesBecause(name) != c.on.String() {
			return
		}
		files := map[string][]byte{}
		entries, err := os.ReadDir(cfg.Settings.StateDir)
		for _, e := range entries {
			if b, rerr := os.ReadFile(filepath.Join(cfg.Settings.StateDir, e.Name())); !e.IsDir() && rerr == nil {
				files[e.Name()] = b
			}
		}
		if err == nil {
			c.i, _ = strconv.Atoi(strings.TrimPrefix(name, "m"))
			c.files = files
			c.cut.Store(true)
		}
	}
}

// restart puts the machine back to where the power was cut, and starts it.
func (c *crash) restart() *Node {
	c.s.t.Helper()
	c.s.halt(c.i)
	dir := c.s.dirOf(c.i)
	entries, err := os.ReadDir(dir)
	c.s.must(err)
	for _, e := range entries {
		if !e.IsDir() {
			c.s.must(os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	for name, b := range c.files {
		c.s.must(os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	return c.s.boot(c.i)
}

// recordPoints are those of a move that writes the record and nothing else at which what is on disk differs.
var recordPoints = []string{"node.move.record.before", "statedir.record.write.after", "statedir.record.rename.after", "node.move.record.after"}

// TestSimCrashInAMove: from each point of its record each of these moves is finished, or begins anew, at the next start.
func TestSimCrashInAMove(t *testing.T) {
	for _, c := range []struct {
		on  formation.Trigger
		run func(s *sim, c *crash) // to the power cut, and what holds after the start
	}{
		{formation.Abandoned, func(s *sim, c *crash) {
			a := s.boot(0)
			time.Sleep(2 * time.Second)
			b := s.boot(1, c.tweak)
			s.want(5*time.Second, "it waits", func() bool { return s.waits(a, b) })
			s.cut(between(0))
			s.want(formation.AbandonAfter+time.Minute, "the power is cut", c.cut.Load)
			b = c.restart()
			s.want(formation.AbandonAfter+time.Minute, "it is its own again", func() bool { return b.Mode() == formation.Solitary })
			s.cut(nil)
			s.want(5*time.Minute, "it asks again", func() bool { return s.waits(a, b) })
			s.joined(a, b)
		}},
		{formation.TargetPendingHere, func(s *sim, c *crash) {
			s.cut(between(0)) // each asks the other's word anew in the same moment, a minute later, and yields to it
			s.boot(0, seededBy(endpointOf(1)), c.tweak)
			s.boot(1, seededBy(endpointOf(0)), c.tweak)
			time.Sleep(10 * time.Second)
			s.net.Partition(nil)
			s.want(2*time.Minute, "the power is cut", c.cut.Load)
			c.restart()
			s.cut(nil)
			a, b := s.nodes[0], s.nodes[1]
			s.want(2*time.Minute, "one waits for the other", func() bool { return s.waits(a, b) || s.waits(b, a) })
			if s.waits(b, a) {
				a, b = b, a
			}
			s.joined(a, b)
		}},
		{formation.TargetClosed, func(s *sim, c *crash) {
			d := s.boot(3)
			s.cut(between(0))
			time.Sleep(2 * time.Second)
			a := s.boot(0)
			time.Sleep(2 * time.Second)
			b := s.boot(1, c.tweak)
			s.want(5*time.Second, "it waits at the oldest", func() bool { return s.waits(d, b) })
			s.must(s.reject(d, b))
			s.want(5*time.Second, "it is rejected", func() bool { return b.Mode() == formation.Solitary })
			s.cut(between(3))
			s.want(30*time.Second, "it waits at the other", func() bool { return asks(b, a) && s.waits(a, b) })
			s.cut(nil)
			s.want(time.Minute, "the power is cut", c.cut.Load)
			b = c.restart()
			s.want(time.Minute, "it is its own again", func() bool { return b.Mode() == formation.Solitary })
			s.never(20*time.Second, "it asks whom it may not", func() bool { return b.Mode() != formation.Solitary })
		}},
	} {
		for _, point := range recordPoints {
			t.Run(c.on.String()+"/"+point, func(t *testing.T) {
				simulate(t, 78, func(t *testing.T, s *sim) {
					c.run(s, &crash{s: s, on: c.on, point: point})
				})
			})
		}
	}
}
