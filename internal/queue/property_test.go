package queue

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is a queue under a random schedule, with what the test knows beside it.
type world struct {
	q       *Queue
	now     time.Time
	running map[string]Job // what workers hold, by id
	lead    bool
}

func (w *world) check(t *rapid.T) {
	if err := faults(w.q); err != nil {
		t.Fatal(err)
	}
	running := 0
	for id, e := range w.q.entries {
		if e.running != 0 {
			running++
			if j, ok := w.running[id]; !ok || j.Generation != e.running {
				t.Fatalf("%s runs in the map and no worker has it", id)
			}
		}
	}
	if !w.lead && (w.q.Waiting() != 0 || w.q.HeapLen() != 0 || running != 0) {
		t.Fatalf("without leadership: map %d, heap %d, running %d", w.q.Waiting(), w.q.HeapLen(), running)
	}
}

func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 6).Draw(t, "capacity")
		rnd := rapid.Float64Range(0, 0.999).Draw(t, "rand")
		w := &world{q: New(Config{Interval: time.Minute, Capacity: capacity, Rand: func() float64 { return rnd }}), now: t0,
			running: map[string]Job{}}
		id := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"})
		boot := rapid.SampledFrom([]string{"", bootA, bootB})
		outcome := rapid.SampledFrom([]Outcome{OutcomeError, OutcomeDeferred, OutcomeUpgraded, OutcomeSuccess, OutcomeShutdown,
			OutcomeSkipped, OutcomeUnwanted, OutcomeNotYet})
		held := func(t *rapid.T) (Job, bool) {
			ids := make([]string, 0, len(w.running))
			for _, x := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				if _, ok := w.running[x]; ok {
					ids = append(ids, x)
				}
			}
			if len(ids) == 0 {
				return Job{}, false
			}
			return w.running[rapid.SampledFrom(ids).Draw(t, "held")], true
		}
		t.Repeat(map[string]func(*rapid.T){
			"": w.check,
			"add": func(t *rapid.T) {
				age := time.Duration(rapid.IntRange(0, 150).Draw(t, "age")) * time.Second
				s := Sighting{ID: id.Draw(t, "id"), Made: w.now.Add(-age), Source: rapid.SampledFrom([]Source{SourceDiscovery, SourceEvent}).Draw(t, "source"),
					BootID: boot.Draw(t, "boot"), Wants: rapid.IntRange(0, 9).Draw(t, "wants") > 0, Always: rapid.Bool().Draw(t, "always")}
				before, heap := w.q.Waiting(), w.q.HeapLen()
				over := len(w.q.overflow.byID)
				v := w.q.Add(w.now, s)
				if v == Full && over == 0 && (w.q.Waiting() != before || w.q.HeapLen() != heap) {
					t.Fatalf("refused as full, and map %d→%d, heap %d→%d", before, w.q.Waiting(), heap, w.q.HeapLen())
				}
				if !w.lead && v != Paused && v != Invalid {
					t.Fatalf("%s without leadership", v)
				}
			},
			"take": func(t *rapid.T) {
				j, ok := w.q.Take(w.now)
				if !ok {
					return
				}
				if !w.lead {
					t.Fatal("taken without leadership")
				}
				if _, twice := w.running[j.ID]; twice {
					t.Fatalf("%s runs twice", j.ID)
				}
				if w.now.Sub(j.Added) > 2*time.Minute {
					t.Fatalf("%s waited %s", j.ID, w.now.Sub(j.Added))
				}
				w.running[j.ID] = j
				if rapid.Bool().Draw(t, "begin") && !w.q.Begin(w.now, j) {
					delete(w.running, j.ID)
				}
			},
			"finish": func(t *rapid.T) {
				j, ok := held(t)
				if !ok {
					return
				}
				r := Result{Outcome: outcome.Draw(t, "outcome"), Stage: rapid.SampledFrom(Stages).Draw(t, "stage"), Error: "x",
					Permanent: rapid.IntRange(0, 4).Draw(t, "permanent") == 0, Unreachable: rapid.Bool().Draw(t, "unreachable"), BootID: boot.Draw(t, "boot")}
				current := w.q.IsCurrent(j.ID, j.Generation)
				if w.q.Finish(w.now, j, r) != current {
					t.Fatal("finished without being current, or not though current")
				}
				delete(w.running, j.ID)
				if w.q.Finish(w.now, j, r) {
					t.Fatal("finished twice")
				}
			},
			"confirm":   func(t *rapid.T) { w.q.Confirmed(w.now, id.Draw(t, "id")) },
			"reachable": func(t *rapid.T) { w.q.Reachable(w.now, id.Draw(t, "id")) },
			"tick": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
				w.q.Tick(w.now)
				if n := w.q.Next(w.now); w.q.PausedBy() == 0 && !n.IsZero() && n.Before(w.now) && len(w.q.overflow.byID) == 0 {
					t.Fatalf("after a tick it wakes %s ago", w.now.Sub(n))
				}
			},
			"operator": func(t *rapid.T) {
				x := id.Draw(t, "id")
				switch rapid.IntRange(0, 3).Draw(t, "verb") {
				case 0:
					w.q.Retry(w.now, x)
				case 1:
					w.q.Reprovision(w.now, x)
				case 2:
					w.q.Drop(x)
				case 3:
					w.q.Removed(x)
				}
			},
			"lead": func(t *rapid.T) {
				w.lead = rapid.IntRange(0, 3).Draw(t, "lead") > 0
				if w.lead {
					w.q.Resume(PauseNoLeadership)
				} else {
					w.q.Pause(PauseNoLeadership)
					w.q.DropAll()
				}
			},
		})
		// Every admitted id leaves: with workers that end and time that passes, nothing stays in the map.
		w.q.Resume(PauseNoLeadership)
		w.lead = true
		for _, j := range w.running {
			w.q.Finish(w.now, j, Result{Outcome: OutcomeUpgraded})
		}
		clear(w.running)
		for range 200 {
			w.q.Tick(w.now)
			for {
				j, ok := w.q.Take(w.now)
				if !ok {
					break
				}
				w.q.Finish(w.now, j, Result{Outcome: OutcomeUpgraded})
			}
			if w.q.Waiting() == 0 && w.q.Next(w.now).IsZero() {
				break
			}
			w.now = w.now.Add(time.Minute)
		}
		if w.q.Waiting() != 0 || w.q.HeapLen() != 0 || len(w.q.overflow.byID) != 0 || len(w.q.busy) != 0 {
			t.Fatalf("left: map %d, heap %d, remembered %d, busy %d", w.q.Waiting(), w.q.HeapLen(), len(w.q.overflow.byID), len(w.q.busy))
		}
	})
}

// TestHeapOrderProperty draws machines in any order of failures and dues; they come out by the rule.
func TestHeapOrderProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "n")
		q := leading(100)
		now := t0.Add(time.Hour)
		for i := range n {
			id := fmt.Sprintf("m%02d", i)
			if rapid.Bool().Draw(t, "failed") {
				q.Load(t0, Known{ID: id, State: StateBackingOff, Attempts: 1, DueIn: time.Duration(rapid.IntRange(0, 5).Draw(t, "due")) * time.Second})
			}
			if v := q.Add(now, seen(id, now)); v != Admitted {
				t.Fatal(v)
			}
		}
		type key struct {
			failed bool
			due    time.Duration
			at     string
		}
		var last key
		for i := range n {
			j, ok := q.Take(now)
			if !ok {
				t.Fatal("nothing left too early")
			}
			m := q.memory[j.ID]
			k := key{failed: m.failures > 0, at: j.ID}
			if k.failed {
				k.due = m.due.Sub(t0)
			}
			if i > 0 && (last.failed && !k.failed || last.failed == k.failed && (last.due > k.due || last.due == k.due && last.at > k.at)) {
				t.Fatalf("%+v before %+v", last, k)
			}
			last = k
		}
	})
}
