package simfleet

import (
	"fmt"
	"net/netip"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/formation"
)

// Breaks are faults that a test puts in, to see that the checker reports them.
type Breaks struct {
	AdmitAnybody bool // a leader admits whoever asks
	ForgetVotes  bool // a voter votes twice in a term
	LoseTail     bool // a disk says that it wrote, and did not
	KeepStores   bool // a machine that joins keeps its own fleet's store open
	DropCommands bool // a learner leaves some commands out
	Deaf         bool // an approval never reaches who waits
	KeepQueue    bool // a leader that lost its seat keeps its queue
	KeepRuns     bool // it has its workers go on
	KeepLeading  bool // one that has nothing to provision with leads on
	TwoSteps     bool // a machine begins a step while another one runs
	OldTerms     bool // it takes leases of any term
	OldRestarts  bool // it does to restart, and leaders wait for a while before
	ForgetRuns   bool // a leader records a machine without how its runs ended
}

// World is a story being told.
type World struct {
	agenda
	story      *Story
	layout     chance
	net        chance
	hosts      []*host
	segments   [][]*host
	byAddr     map[netip.Addr]*host
	byEndpoint map[string]*host
	streams    []*stream
	loss       float64
	islands    int
	srv        []string // what DNS names
	check      *Checker
	breaks     Breaks
	said       []string
	calm       bool
	recovering map[string]*host // who was told to recover a fleet
	sum        Sum
}

// New lays the machines of a story out: which segment each is on, whom it is told of, how its clock is set.
func New(s *Story, breaks Breaks) *World {
	w := &World{story: s, layout: chanceOf(s.Seed, chanceLayout), net: chanceOf(s.Seed, chanceNetwork), byAddr: map[netip.Addr]*host{}, byEndpoint: map[string]*host{}, check: NewChecker(), breaks: breaks, recovering: map[string]*host{}}
	w.segments = make([][]*host, max(1, s.Segments))
	for n := range s.Machines {
		h := &host{w: w, n: n, name: nameOf(n), segment: w.layout.IntN(len(w.segments)), chance: chanceOf(s.Seed, chanceMachine+n)}
		h.addr = addrOf(h.segment, n)
		w.hosts = append(w.hosts, h)
		h.fc, h.raft = netip.AddrPortFrom(h.addr, portFC).String(), netip.AddrPortFrom(h.addr, portRaft).String()
		w.byAddr[h.addr], w.byEndpoint[h.fc], w.byEndpoint[h.raft] = h, h, h
		w.segments[h.segment] = append(w.segments[h.segment], h)
	}
	for _, h := range w.hosts {
		w.furnish(h)
	}
	if w.layout.one(6) {
		w.srv = []string{w.hosts[w.layout.IntN(len(w.hosts))].endpoint(portFC)}
	}
	return w
}

// furnish says what a machine is told before its first start.
func (w *World) furnish(h *host) {
	for w.layout.one(3) && len(h.seeds) < 3 {
		other := w.hosts[w.layout.IntN(len(w.hosts))]
		endpoint := other.endpoint(portFC)
		if w.layout.one(8) {
			endpoint = "10.250.0.1:6674" // a seed that nobody answers at
		}
		h.seeds = append(h.seeds, formation.Seed{Endpoint: endpoint, Origin: formation.OriginSeed})
	}
	h.helper = !w.layout.one(4)
	switch w.layout.IntN(8) {
	case 0:
		h.skew = w.layout.between(-10*time.Minute, 10*time.Minute)
	case 1:
		h.skew = w.layout.between(-72*time.Hour, 72*time.Hour)
	case 2:
		h.skew = -epochStart.Sub(time.Unix(0, 0)) // a board without a clock
	}
}

func nameOf(n int) string { return fmt.Sprintf("m%02d", n) }

// time is the moment, as a clock that is right shows it.
func (w *World) time() time.Time { return epochStart.Add(w.now) }

// toldLines is how many of the last lines a story that fails is told with.
const toldLines = 120

// say keeps a line of what happened.
func (w *World) say(h *host, format string, args ...any) {
	if len(w.said) >= 4*toldLines {
		w.said = append(w.said[:0], w.said[len(w.said)-toldLines:]...)
	}
	w.said = append(w.said, fmt.Sprintf("%11s %s %s", w.now.Truncate(time.Millisecond), h.name, fmt.Sprintf(format, args...)))
}

// fail says that the model itself went wrong.
func (w *World) fail(h *host, format string, args ...any) {
	w.check.fail(RuleModel, w.now, h.name, format, args...)
}

// glance is what the checker judges a machine by. While it and what people did are the same, so is the verdict; and what
// people do only ever allows more.
type glance struct {
	proc        *proc
	mode        formation.Mode
	cluster     string
	log, follow string // clusters of its stores
	view        *fleet.View
	moving      bool
}

// look shows a machine to the checker.
func (w *World) look(h *host) {
	p := h.proc
	if p == nil {
		return
	}
	own := p.form.Own()
	g := glance{proc: p, mode: own.Mode, cluster: own.Cluster, view: p.view(), moving: p.moving || p.voter == nil && p.learner == nil}
	s := Sight{At: w.now, Who: h.name, ID: h.disk.id, Key: p.key(), Mode: own.Mode, Cluster: own.Cluster, View: g.view, Moving: g.moving}
	if l := h.disk.log; l != nil {
		g.log = l.cluster
	}
	if f := h.disk.follow; f != nil {
		g.follow = f.cluster
	}
	if g == h.seen {
		return
	}
	h.seen = g
	for _, cluster := range []string{g.log, g.follow} {
		if cluster != "" {
			s.Stores = append(s.Stores, cluster)
		}
	}
	w.check.See(s)
}
