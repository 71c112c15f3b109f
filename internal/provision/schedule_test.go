package provision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// deed is one thing that happens in a history: what, to which machine, and how much.
type deed struct {
	what string
	id   string
	n    int
}

// history is one leader's life among eight machines.
type history struct {
	*fakeFleet
	leading bool
	faults  []string
}

func (h *history) fault(format string, args ...any) {
	h.faults = append(h.faults, fmt.Sprintf(format, args...))
}

func (h *history) change(id string, g func(m *machine)) { h.with(id, g) }

// verb does an operator's verb: without an effect it is refused in words, or says that this node does not lead.
func (h *history) verb(do func(context.Context, string) (string, error), id string) {
	var refused *wire.Error
	if text, err := do(context.Background(), id); (err == nil) != (text != "") || err != nil && !errors.As(err, &refused) && !errors.Is(err, ErrNotLeading) {
		h.fault("%q, %v", text, err)
	}
}

func (h *history) lead(leading bool) {
	depose := func() {
		h.mu.Lock()
		h.deposed = !leading
		h.mu.Unlock()
	}
	h.leading = leading
	if leading {
		depose() // before it hears of it: it may have begun by the time that the loop has turned
	}
	h.p.Lead(leading)
	h.sync(func(time.Time) {})
	depose()
}

// deeds is everything that may happen.
var deeds = map[string]func(h *history, id string, n int){
	"time": func(h *history, _ string, n int) {
		time.Sleep([]time.Duration{time.Millisecond, 50 * time.Millisecond, 400 * time.Millisecond, 3 * time.Second, 61 * time.Second}[n%5])
	},
	"lead":  func(h *history, _ string, n int) { h.lead(n%4 > 0) },
	"event": func(h *history, id string, _ int) { h.send(h.event(id)) },
	"boot": func(h *history, id string, _ int) {
		h.change(id, func(m *machine) { m.boot, m.sequence, m.wants, m.component = m.boot+1, 0, true, DefaultComponent })
	},
	"wants": func(h *history, id string, _ int) {
		h.change(id, func(m *machine) { m.wants, m.component = true, DefaultComponent })
	},
	"silent": func(h *history, id string, _ int) { h.change(id, func(m *machine) { m.silent = !m.silent }) },
	"slow": func(h *history, id string, _ int) {
		h.change(id, func(m *machine) { m.latency = 700*time.Millisecond - m.latency })
	},
	"mute": func(h *history, id string, _ int) { h.change(id, func(m *machine) { m.mute = !m.mute }) },
	"clash": func(h *history, id string, _ int) {
		h.change(id, func(m *machine) { m.answersAs = map[string]string{"": "a"}[m.answersAs] })
	},
	"session": func(h *history, id string, _ int) { h.change(id, func(m *machine) { m.session = !m.session }) },
	"refuses": func(h *history, id string, n int) {
		h.change(id, func(m *machine) { m.refuse["configure"] = wire.WorkAnswer{Error: "no", Transient: n%2 == 0} })
	},
	"mends":    func(h *history, id string, _ int) { h.change(id, func(m *machine) { delete(m.refuse, "configure") }) },
	"reach":    func(h *history, id string, _ int) { h.p.SessionUp(id) },
	"removed":  func(h *history, id string, _ int) { h.p.Removed(id) },
	"retry":    func(h *history, id string, _ int) { h.verb(h.p.Retry, id) },
	"again":    func(h *history, id string, _ int) { h.verb(h.p.Reprovision, id) },
	"drop":     func(h *history, id string, _ int) { h.verb(h.p.Drop, id) },
	"pause":    func(h *history, _ string, _ int) { _ = h.p.Pause(context.Background()) },
	"resume":   func(h *history, _ string, _ int) { _ = h.p.Resume(context.Background()) },
	"discover": func(h *history, _ string, _ int) { h.p.Discover() },
	"workers": func(h *history, _ string, n int) {
		h.p.Configure(Config{Workers: 1 + n%4, Default: trivial, QueueCap: 1 + n%7})
	},
}

// check asks what holds at every moment.
func (h *history) check() {
	synctest.Wait()
	h.sync(func(now time.Time) {
		q, p := h.q, h.p
		if err := q.Check(); err != nil {
			h.fault("%v", err)
		}
		gauges := map[string]float64{}
		for _, s := range p.Samples(now) {
			gauges[s.Metric] = s.V
		}
		states := map[queue.State]int{}
		for _, e := range q.Entries() {
			if !e.Added.IsZero() || !e.Made.IsZero() {
				states[e.State]++
			}
		}
		in := states[queue.StateWaiting] + states[queue.StateRunning] + states[queue.StateHeld] + states[queue.StateConfirmed]
		if in != q.Waiting() || gauges["pace_provision_waiting_nodes"] != float64(in) || gauges["pace_provision_work_queue_entries"] != float64(q.HeapLen()) {
			h.fault("%v are queued, running or held, the map holds %d, the gauge says %v", states, q.Waiting(), gauges["pace_provision_waiting_nodes"])
		}
		if busy := int(gauges["pace_provision_busy_workers"]); busy+len(p.idle) < p.crew || busy < states[queue.StateRunning] {
			h.fault("%v busy and %d idle of %d workers, and %v", busy, len(p.idle), p.crew, states)
		}
		if !h.leading && q.Waiting()+q.HeapLen()+len(p.ready)+len(p.slow)+len(p.awaiting) != 0 {
			h.fault("without leadership %v, %d on the heap, %d probed, %d slow, %d awaited", states, q.HeapLen(), len(p.ready), len(p.slow), len(p.awaiting))
		}
	})
}

// settle mends everything and gives it time: whoever was admitted leaves, and whoever wants it is provisioned.
func (h *history) settle(ids []string) {
	for _, id := range ids {
		h.with(id, func(m *machine) {
			m.silent, m.mute, m.session, m.answersAs, m.latency = false, false, true, "", 0
			clear(m.refuse)
		})
	}
	_ = h.p.Resume(context.Background())
	h.p.Configure(Config{Workers: 2, Default: trivial})
	h.lead(true)
	synctest.Wait()
	for _, id := range ids {
		_, _ = h.p.Retry(context.Background(), id) // of those that are parked
	}
	time.Sleep(40 * time.Minute) // a wait after failures is at most ten
	h.check()
	h.sync(func(time.Time) {
		if h.q.Waiting()+h.q.HeapLen()+len(h.p.runs)+len(h.p.awaiting) != 0 || h.p.busy.Load() != 0 || len(h.p.idle) != h.p.crew {
			h.fault("left: map %d, heap %d, runs %d, awaited %d, busy %d, %d idle of %d", h.q.Waiting(), h.q.HeapLen(), len(h.p.runs), len(h.p.awaiting), h.p.busy.Load(), len(h.p.idle), h.p.crew)
		}
	})
	for _, id := range ids {
		if h.get(id).wants {
			h.fault("%s still wants provisioning: %+v", id, h.state(id))
		}
	}
}

// TestRandomSchedules runs a leader with its workers, probes and rounds through random histories: machines that come, go, fall
// silent, fail and are removed, leadership that comes and goes, operators, other numbers of workers. At every moment nobody is
// worked twice at once, nothing is begun without leadership, and the map is what is queued, running or held, as the gauges say;
// at the end everybody has left, and whoever wanted it is provisioned.
func TestRandomSchedules(t *testing.T) {
	ids := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	one := rapid.Custom(func(t *rapid.T) deed {
		return deed{rapid.SampledFrom(slices.Sorted(maps.Keys(deeds))).Draw(t, "what"), rapid.SampledFrom(ids).Draw(t, "id"), rapid.IntRange(0, 20).Draw(t, "n")}
	})
	rapid.Check(t, func(rt *rapid.T) {
		all := rapid.SliceOfN(one, 10, 80).Draw(rt, "history")
		var faults []string
		// Virtual time has a test of its own for each history; what rapid drew is drawn before, in its goroutine.
		synctest.Test(t, func(t *testing.T) {
			h := &history{fakeFleet: newFleet(t, Config{Workers: 2, Default: trivial, QueueCap: 5})}
			defer h.close()
			for _, id := range ids {
				h.add(id)
			}
			h.lead(true)
			for i, d := range all {
				deeds[d.what](h, d.id, d.n)
				if h.check(); len(h.faults) > 0 {
					faults = append(h.faults, fmt.Sprintf("after deed %d, %+v", i, d))
					return
				}
			}
			h.settle(ids)
			faults = h.faults
		})
		if len(faults) > 0 || t.Failed() {
			rt.Fatalf("%q", faults)
		}
	})
}
