package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// SeriesKind is the Prometheus type of a series.
type SeriesKind uint8

// Kinds of series.
const (
	Counter SeriesKind = iota
	Gauge
	Histogram
)

// String returns the kind's word.
func (k SeriesKind) String() string { return [...]string{"counter", "gauge", "histogram"}[k] }

// SeriesRow is one row of the table of metrics.
type SeriesRow struct {
	Name   string
	Kind   SeriesKind
	Labels []string   // names
	Values [][]string // every tuple of label values, so that each is there from the start
	Help   string
}

// Snapshot is the numbers of one moment, which the node fills in when they are
// asked for.
type Snapshot struct {
	values        map[string]float64
	distributions map[string]Distribution
}

// Distribution is a histogram at one moment, in seconds.
type Distribution struct {
	Count   uint64
	Sum     float64
	Buckets map[float64]uint64 // cumulative, by upper bound
}

// NewSnapshot makes an empty snapshot.
func NewSnapshot() *Snapshot {
	return &Snapshot{values: map[string]float64{}, distributions: map[string]Distribution{}}
}

// SetDistribution gives a histogram its numbers.
func (s *Snapshot) SetDistribution(name string, d Distribution, labels ...string) {
	s.distributions[seriesKey(name, labels)] = d
}

// Set gives a series its value; labels are the label values in the row's order.
func (s *Snapshot) Set(name string, value float64, labels ...string) {
	s.values[seriesKey(name, labels)] = value
}

// Add adds to a series.
func (s *Snapshot) Add(name string, value float64, labels ...string) {
	s.values[seriesKey(name, labels)] += value
}

const keySeparator = "\xff" // no UTF-8 text holds it

func seriesKey(name string, labels []string) string {
	if len(labels) == 0 {
		return name
	}
	return name + keySeparator + strings.Join(labels, keySeparator)
}

// Metrics is the registry: every series of the table, at zero from the start. A
// series is what the source says at the moment of a scrape, a counter or gauge
// plus what was added here. It may be used from many goroutines, and a nil
// *Metrics counts nothing.
type Metrics struct {
	logger   *slog.Logger
	board    *Board
	registry *prometheus.Registry
	descs    map[string]*prometheus.Desc
	known    map[string]SeriesKind // by key

	mu      sync.Mutex
	source  func(*Snapshot)
	own     map[string]float64
	unknown map[string]bool
}

// NewMetrics makes the registry. The board, if any, feeds pace_condition.
func NewMetrics(board *Board, logger *slog.Logger) *Metrics {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	m := &Metrics{
		logger: logger, board: board, registry: prometheus.NewPedanticRegistry(),
		descs: map[string]*prometheus.Desc{}, known: map[string]SeriesKind{},
		own: map[string]float64{}, unknown: map[string]bool{},
	}
	for _, row := range Series {
		m.descs[row.Name] = prometheus.NewDesc(row.Name, row.Help, row.Labels, nil)
		for _, v := range row.tuples() {
			m.known[seriesKey(row.Name, v)] = row.Kind
		}
	}
	m.registry.MustRegister((*tableCollector)(m), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// zeroBuckets are those of a histogram that nobody feeds yet, seconds: those of
// the queue's leader, so that a series keeps its buckets.
var zeroBuckets = map[float64]uint64{0.005: 0, 0.02: 0, 0.1: 0, 0.5: 0, 2: 0, 10: 0, 60: 0, 300: 0}

// tuples returns the label tuples, the empty one where there is no label.
func (r SeriesRow) tuples() [][]string {
	if len(r.Labels) == 0 {
		return [][]string{nil}
	}
	return r.Values
}

// SetSource sets what fills in the numbers; it is called at each scrape and must
// be quick. nil takes it away.
func (m *Metrics) SetSource(source func(*Snapshot)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.source = source
}

// Add adds to a counter or gauge of the table. A series without a row is said
// once and not kept.
func (m *Metrics) Add(name string, value float64, labels ...string) {
	if m == nil {
		return
	}
	key := seriesKey(name, labels)
	m.mu.Lock()
	defer m.mu.Unlock()
	if kind, ok := m.known[key]; !ok || kind == Histogram {
		m.strange(key)
		return
	}
	m.own[key] += value
}

// strange says once that a number has no row, which is a fault of the program.
func (m *Metrics) strange(key string) {
	if m.unknown[key] {
		return
	}
	m.unknown[key] = true
	m.logger.Error("metric without a row", "series", strings.ReplaceAll(key, keySeparator, " "))
}

// Unknown returns the series that were given without a row in the table, for
// tests of those who feed it.
func (m *Metrics) Unknown() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for k := range m.unknown {
		out = append(out, strings.ReplaceAll(k, keySeparator, " "))
	}
	slices.Sort(out)
	return out
}

// Handler serves the Prometheus text.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorLog: promLog{m.logger}})
}

type promLog struct{ *slog.Logger }

func (l promLog) Println(v ...any) {
	for _, part := range v {
		if err, ok := part.(error); ok && gone(err) {
			l.Debug("metrics were not taken to the end", "error", err.Error())
			return
		}
	}
	l.Error("metrics cannot be gathered", "error", strings.TrimSpace(fmt.Sprintln(v...)))
}

// gone reports whether whoever asked has closed the connection: anybody may, and it is no fault of this node.
func gone(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, http.ErrHandlerTimeout) || errors.Is(err, context.Canceled)
}

// tableCollector collects the table.
type tableCollector Metrics

func (c *tableCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

func (c *tableCollector) Collect(out chan<- prometheus.Metric) {
	m := (*Metrics)(c)
	m.mu.Lock()
	source := m.source
	m.mu.Unlock()
	snap := NewSnapshot()
	if source != nil {
		source(snap)
	}
	if m.board != nil {
		for _, r := range m.board.List() {
			snap.Set("pace_condition", 1, r.ID, r.Severity)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range snap.values {
		if kind, ok := m.known[key]; !ok || kind == Histogram {
			m.strange(key)
		}
	}
	for key := range snap.distributions {
		if m.known[key] != Histogram {
			m.strange(key)
		}
	}
	for _, row := range Series {
		for _, v := range row.tuples() {
			key := seriesKey(row.Name, v)
			switch row.Kind {
			case Histogram:
				d, ok := snap.distributions[key]
				if !ok {
					d.Buckets = zeroBuckets
				}
				out <- prometheus.MustNewConstHistogram(m.descs[row.Name], d.Count, d.Sum, d.Buckets, v...)
			case Gauge:
				out <- prometheus.MustNewConstMetric(m.descs[row.Name], prometheus.GaugeValue, snap.values[key]+m.own[key], v...)
			default:
				out <- prometheus.MustNewConstMetric(m.descs[row.Name], prometheus.CounterValue, snap.values[key]+m.own[key], v...)
			}
		}
	}
}

// MetricsMarkdown is docs/metrics.md.
func MetricsMarkdown() string {
	var b strings.Builder
	b.WriteString("# Metrics\n\nWritten from the registry's table by `make docs`; a test fails where the two differ.\n\n" +
		"Prometheus text on `/metrics` of `--admin-listen`. Every series is there from the start, at zero. Beside these stand the Go runtime's (`go_…`) and the process's (`process_…`).\n\n" +
		"| Series | Type | Labels | What it counts |\n|---|---|---|---|\n")
	rows := slices.Clone(Series)
	slices.SortFunc(rows, func(a, b SeriesRow) int { return strings.Compare(a.Name, b.Name) })
	for _, r := range rows {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Name, r.Kind, labelsText(r), r.Help)
	}
	return b.String()
}

// labelsText shows one label with its values, and several by their names.
func labelsText(r SeriesRow) string {
	switch len(r.Labels) {
	case 0:
		return ""
	case 1:
		var v []string
		for _, t := range r.Values {
			v = append(v, "`"+t[0]+"`")
		}
		return "`" + r.Labels[0] + "`: " + strings.Join(v, ", ")
	}
	return "`" + strings.Join(r.Labels, "`, `") + "`"
}
