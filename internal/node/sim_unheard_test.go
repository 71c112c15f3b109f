package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSimUnreachableOverRestarts: a machine that is restarted every eight hours says after a day of running alone that its
// fleet is out of reach, says so again at the next start, and stops when a voter is heard. What counts is the time in which
// it ran: one that was switched off for a week says nothing.
func TestSimUnreachableOverRestarts(t *testing.T) {
	simulate(t, 245, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent", "id=fleet-unreachable"}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		cluster := a.View().Cluster()
		s.halt(0)
		s.halt(1)
		time.Sleep(7 * 24 * time.Hour)

		on := func(n *Node) bool { _, ok := condition(n, "fleet-unreachable"); return ok }
		file := filepath.Join(s.config(1).Settings.StateDir, unheardFile)
		writes, last := 0, ""
		for begun := 0 * time.Hour; begun < 24*time.Hour; begun += 8 * time.Hour {
			b = s.boot(1)
			for range 8 * 60 {
				if on(b) {
					t.Fatalf("it is said in the boot that began after %s", begun)
				}
				time.Sleep(time.Minute)
				if raw, err := os.ReadFile(file); err == nil && string(raw) != last {
					writes, last = writes+1, string(raw)
				}
			}
			s.halt(1)
			time.Sleep(time.Hour)
		}
		if writes > 3*8*4 {
			t.Errorf("%d writes in a day", writes)
		}
		// At most unheardStep was lost at each of three stops.
		b = s.boot(1)
		s.want(4*unheardStep, "it is said", func() bool { return on(b) })
		if detail, _ := condition(b, "fleet-unreachable"); !strings.Contains(detail, cluster) || !strings.Contains(detail, "24h0m0s") {
			t.Error(detail)
		}
		time.Sleep(unheardStep)
		s.halt(1)
		b = s.boot(1)
		s.want(2*time.Second, "it is said again at once", func() bool { return on(b) })

		a = s.boot(0)
		s.want(2*time.Minute, "it follows", func() bool { return follows(b, a) && !on(b) })
		time.Sleep(2 * time.Second)
		s.halt(0)
		s.halt(1)
		b = s.boot(1)
		s.never(10*time.Minute, "it is said of what is over", func() bool { return on(b) })

		// A file that nobody can read is none.
		s.halt(1)
		if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		b = s.boot(1)
		s.never(time.Minute, "it is said", func() bool { return on(b) })
	})
}
