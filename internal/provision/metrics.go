package provision

import (
	"sync"
	"sync/atomic"
	"time"

	"pace-node/internal/queue"
)

// Kind is a metric's kind.
type Kind uint8

// The kinds.
const (
	KindCounter Kind = iota + 1
	KindGauge
	KindHistogram
)

// Sample is one series at one moment.
type Sample struct {
	Metric, Label, Value string // the label is empty for a series without one
	Kind                 Kind
	Help                 string
	V                    float64  // of a counter or gauge
	Buckets              []Bucket // of a histogram, cumulative, upper bounds rising
	Sum                  float64  // seconds
	Count                uint64
}

// Bucket is one bucket of a histogram.
type Bucket struct {
	UpTo  float64 // seconds
	Count uint64
}

// rpcQuery labels the request that asks whether a machine wants anything; the others are named after their step.
const rpcQuery = "query"

var rpcs = func() []string {
	out := []string{rpcQuery}
	for _, s := range Steps {
		out = append(out, s.Step)
	}
	return out
}()

// secondsBounds covers a request on a LAN to a helper at its deadline and a machine that waited two intervals.
var secondsBounds = []float64{0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300}

type histogram struct {
	mu     sync.Mutex
	counts [16]uint64
	sum    float64
	count  uint64
}

func (h *histogram) observe(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := d.Seconds()
	for i, b := range secondsBounds {
		if s <= b {
			h.counts[i]++
		}
	}
	h.sum += s
	h.count++
}

func (h *histogram) sample(metric, label, value, help string) Sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := Sample{Metric: metric, Label: label, Value: value, Kind: KindHistogram, Help: help, Sum: h.sum, Count: h.count}
	for i, b := range secondsBounds {
		s.Buckets = append(s.Buckets, Bucket{b, h.counts[i]})
	}
	return s
}

// labelled is one counter for each value of a closed list.
type labelled map[string]*atomic.Uint64

func newLabelled(values ...string) labelled {
	l := labelled{}
	for _, v := range values {
		l[v] = &atomic.Uint64{}
	}
	return l
}

func (l labelled) add(value string) {
	if c := l[value]; c != nil {
		c.Add(1)
	}
}

type metrics struct {
	discoverCycles, discoveryErrors, leaderChanges, invalidEvents atomic.Uint64
	lateEvents                                                    atomic.Uint64 // dropped because this node stops
	rpcErrors, helperErrors, eventsRefused                        labelled
	rpcSeconds                                                    map[string]*histogram
	helperSeconds, sightingToDone                                 histogram
}

func newMetrics() *metrics {
	m := &metrics{rpcErrors: newLabelled(rpcs...), rpcSeconds: map[string]*histogram{}}
	for _, r := range rpcs {
		m.rpcSeconds[r] = &histogram{}
	}
	var reasons, refusals []string
	for _, r := range Reasons {
		reasons = append(reasons, string(r.Reason))
	}
	for _, r := range EventChecks {
		refusals = append(refusals, string(r.Refusal))
	}
	m.helperErrors, m.eventsRefused = newLabelled(reasons...), newLabelled(refusals...)
	return m
}

func (m *metrics) rpc(name string, took time.Duration, err error) {
	if h := m.rpcSeconds[name]; h != nil {
		h.observe(took)
	}
	if err != nil {
		m.rpcErrors.add(name)
	}
}

// Samples returns every series of the queue and of its leader's side, also those at zero. It is the loop's: call it
// inside Post.
func (p *Provisioner) Samples(now time.Time) []Sample {
	q := p.deps.Queue
	var out []Sample
	for _, s := range q.Series() {
		v := s.Count
		switch {
		case s.Label != "reason":
		case s.Value == queue.Invalid.String():
			v += p.m.invalidEvents.Load()
		case s.Value == queue.Paused.String():
			v += p.m.lateEvents.Load()
		}
		out = append(out, Sample{Metric: s.Metric, Label: s.Label, Value: s.Value, Kind: KindCounter, Help: s.Help, V: float64(v)})
	}
	counter := func(metric, help string, c *atomic.Uint64) {
		out = append(out, Sample{Metric: metric, Kind: KindCounter, Help: help, V: float64(c.Load())})
	}
	counter("pace_provision_discover_cycles_total", "Discovery rounds that were begun.", &p.m.discoverCycles)
	counter("pace_provision_discovery_errors_total", "Members that answered a round with an error or under another id.", &p.m.discoveryErrors)
	counter("pace_provision_leader_changes_total", "Times that this node gained leadership.", &p.m.leaderChanges)
	each := func(metric, label, help string, values []string, l labelled) {
		for _, v := range values {
			if c := l[v]; c != nil {
				out = append(out, Sample{Metric: metric, Label: label, Value: v, Kind: KindCounter, Help: help, V: float64(c.Load())})
			}
		}
	}
	each("pace_provision_rpc_errors_total", "rpc", "Failed requests to machines.", rpcs, p.m.rpcErrors)
	var reasons, refusals []string
	for _, r := range Reasons {
		reasons = append(reasons, string(r.Reason))
	}
	for _, r := range EventChecks {
		refusals = append(refusals, string(r.Refusal))
	}
	each("pace_provision_helper_errors_total", "reason", "Helper runs that gave no answer.", reasons, p.m.helperErrors)
	each("pace_provision_events_refused_total", "reason", "Startup events refused before the queue was asked.", refusals, p.m.eventsRefused)

	gauge := func(metric, help string, v float64) {
		out = append(out, Sample{Metric: metric, Kind: KindGauge, Help: help, V: v})
	}
	paused, oldest := 0.0, 0.0
	if q.PausedBy() != 0 {
		paused = 1
	}
	if added, ok := q.Oldest(); ok {
		oldest = max(now.Sub(added), 0).Seconds()
	}
	gauge("pace_provision_busy_workers", "Workers that have a machine in hand.", float64(p.busy.Load()))
	gauge("pace_provision_work_queue_entries", "Entries on the heap.", float64(q.HeapLen()))
	gauge("pace_provision_waiting_nodes", "Machines queued, running or held.", float64(q.Waiting()))
	gauge("pace_provision_paused", "1 while nothing is admitted and nothing begun.", paused)
	gauge("pace_provision_oldest_entry_seconds", "Age of the oldest entry that waits.", oldest)

	for _, r := range rpcs {
		out = append(out, p.m.rpcSeconds[r].sample("pace_provision_rpc_seconds", "rpc", r, "Time of requests to machines."))
	}
	return append(out,
		p.m.helperSeconds.sample("pace_provision_helper_seconds", "", "", "Time of helper runs."),
		p.m.sightingToDone.sample("pace_provision_sighting_to_done_seconds", "", "", "Time from a machine's sighting to its committed confirmation."))
}
