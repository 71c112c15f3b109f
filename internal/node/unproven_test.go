package node

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pace-node/internal/netio"
	"pace-node/internal/netsim"
)

// TestUnproven: the edges of when challenges that nobody answers are a condition, written out.
func TestUnproven(t *testing.T) {
	type at struct {
		s                   int // seconds
		heard, sent, proven uint64
		on                  bool
	}
	for name, c := range map[string][]at{
		"nobody is heard":         {{0, 0, 0, 0, false}, {1000, 0, 0, 0, false}},
		"one beacon a period":     {{0, 1, 1, 0, false}, {15, 2, 2, 0, false}, {30, 3, 3, 0, false}, {45, 4, 4, 0, false}, {89, 5, 5, 0, false}, {90, 6, 6, 0, true}},
		"few challenges":          {{0, 1, 1, 0, false}, {90, 8, 3, 0, false}, {91, 9, 4, 0, true}},
		"a proof in between":      {{0, 1, 1, 0, false}, {60, 5, 5, 1, false}, {100, 8, 8, 1, false}, {150, 12, 12, 1, false}, {190, 15, 15, 1, true}, {191, 15, 15, 2, false}},
		"the other has gone":      {{0, 1, 1, 0, false}, {90, 6, 6, 0, true}, {134, 6, 6, 0, true}, {135, 6, 6, 0, false}},
		"proven and heard on":     {{0, 1, 1, 1, false}, {100, 8, 2, 2, false}, {200, 15, 3, 3, false}},
		"proven before, not now":  {{0, 1, 1, 1, false}, {60, 5, 2, 1, false}, {75, 6, 3, 1, false}, {90, 7, 5, 1, false}, {149, 9, 8, 1, false}, {150, 10, 9, 1, true}},
		"challenged, never heard": {{0, 0, 9, 0, false}, {200, 0, 19, 0, false}},
	} {
		var u unproven
		began := time.Unix(1_800_000_000, 0)
		u.look(began, 0, 0, 0)
		for _, x := range c {
			if got := u.look(began.Add(time.Duration(x.s)*time.Second), x.heard, x.sent, x.proven); got != x.on {
				t.Errorf("%s, after %d s: %v", name, x.s, got)
			}
		}
	}
}

// TestSimAnsweringPortBlocked is field case P10: a machine that no challenge and no proof reaches says so, naming its
// answering port, and nothing else of it changes.
func TestSimAnsweringPortBlocked(t *testing.T) {
	simulate(t, 221, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		_, answers := s.ports(1)
		s.segment.Hostile(func(f netsim.Frame) []netsim.Frame {
			if f.To == answers {
				return nil
			}
			return []netsim.Frame{f}
		})
		before := s.standing(a) + s.standing(b)
		s.want(3*time.Minute, "it says so", func() bool {
			detail, ok := condition(b, unprovenCondition)
			return ok && strings.Contains(detail, netip.AddrPort.String(answers)[strings.LastIndex(answers.String(), ":")+1:])
		})
		if after := s.standing(a) + s.standing(b); after != before || !follows(b, a) {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
		time.Sleep(5 * time.Minute)
		lines := 0
		s.log.mu.Lock()
		for _, line := range s.log.lines {
			if strings.Contains(line, unprovenCondition) && strings.Contains(line, "on="+b.name) {
				lines++
			}
		}
		s.log.mu.Unlock()
		if lines != 1 {
			t.Errorf("it is said %d times", lines)
		}
		s.segment.Hostile(nil)
		s.want(time.Minute, "nothing of it any more", func() bool { _, ok := condition(b, unprovenCondition); return !ok })
	})
}

// TestPassedOver: a host with hundreds of interfaces names some of each reason.
func TestPassedOver(t *testing.T) {
	choices := []netio.InterfaceChoice{{Name: "lo", Why: "loopback"}, {Name: "lo", Why: "loopback"}, {Name: "eth0", Why: "used", Used: true}}
	for i := range 300 {
		choices = append(choices, netio.InterfaceChoice{Name: fmt.Sprint("v", i), Why: "no IPv4"})
	}
	if got, want := passedOver(choices), "lo: loopback; v0, v1, v2, v3 and 296 more: no IPv4"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := passedOver(nil); got != "" {
		t.Errorf("%q of none", got)
	}
}
