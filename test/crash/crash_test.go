//go:build e2e

package crash

import (
	cryptorand "crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pace-node/internal/node"
)

// lanes is how many stories run at a time: they wait more than they work, on two cores.
const lanes = 6

func entropy(b []byte) { cryptorand.Read(b) }

// trials are a story's cases, from the list of the code.
func (s *story) trials() (all []trial) {
	for _, hit := range s.hits {
		prefix, times, _ := strings.Cut(hit, "@")
		nth, err := strconv.Atoi(times)
		if err != nil {
			nth = 1
		}
		for _, p := range node.CrashPoints {
			if strings.HasPrefix(p, prefix) {
				// A start that mends passes some of the points again: it is ended there too, once.
				all = append(all, trial{point: p, nth: nth, limit: 2})
			}
		}
	}
	return all
}

func (t trial) String() string {
	if t.nth > 1 {
		return fmt.Sprintf("%s@%d", t.point, t.nth)
	}
	return t.point
}

// work is what one lane does at a time.
type work struct {
	name string
	run  func(t *testing.T, l *lane)
}

// share gives the work to the lanes.
func share(t *testing.T, all []work) {
	todo := make(chan work)
	var wait sync.WaitGroup
	for range min(lanes, len(all)) {
		l, err := newLane()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.close)
		wait.Go(func() {
			for w := range todo {
				t.Run(w.name, func(t *testing.T) { w.run(t, l) })
			}
		})
	}
	// A fleet's age counts in whole seconds: what is founded from now on is younger.
	for began := time.Now().Unix(); time.Now().Unix() == began; {
		time.Sleep(pollEvery)
	}
	for _, w := range all {
		todo <- w
	}
	close(todo)
	wait.Wait()
}

// TestCrashAtEveryPoint ends a real node at each point of the code's list, in each move in which it comes there, and starts
// it again.
func TestCrashAtEveryPoint(t *testing.T) {
	named := map[string]bool{}
	var all []work
	for _, s := range stories {
		trials := s.trials()
		for _, hit := range s.hits {
			prefix, _, _ := strings.Cut(hit, "@")
			if !slices.ContainsFunc(trials, func(c trial) bool { return strings.HasPrefix(c.point, prefix) }) {
				t.Errorf("%s: no point begins with %s", s.name, prefix)
			}
		}
		one := func(t *testing.T, l *lane, c trial) {
			if err := s.run(l, c); err != nil {
				t.Errorf("%s, crash at %s: %v", s.name, c, err)
			}
		}
		for _, c := range trials {
			named[c.point] = true
			if !s.together {
				all = append(all, work{s.name + "/" + c.String(), func(t *testing.T, l *lane) { one(t, l, c) }})
			}
		}
		if s.together {
			all = append(all, work{s.name, func(t *testing.T, l *lane) {
				for _, c := range trials {
					t.Run(c.String(), func(t *testing.T) { one(t, l, c) })
				}
			}})
		}
	}
	for _, p := range node.CrashPoints {
		if !named[p] {
			t.Errorf("no story comes to %s", p)
		}
	}
	t.Logf("%d crashes at %d points", len(all), len(node.CrashPoints))
	share(t, all)
}
