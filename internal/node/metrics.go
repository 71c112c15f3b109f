package node

import (
	"context"
	"sync"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/discovery"
	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/netio"
	"pace-node/internal/provision"
)

// scrapeTimeout bounds how long a scrape waits for the loop, which never waits itself.
const scrapeTimeout = 2 * time.Second

// measure fills in the numbers of one moment.
func (n *Node) measure(s *control.Snapshot) {
	ctx, cancel := context.WithTimeout(n.ctx, scrapeTimeout)
	defer cancel()
	v := n.view.Load()
	mode := *n.mode.Load()
	for _, row := range formation.Modes {
		s.Set("pace_formation_mode", flag(row.Mode == mode), row.Name)
	}
	s.Set("pace_fleet_revision", float64(v.Revision()))
	for _, role := range fleet.Roles {
		s.Set("pace_fleet_members", float64(v.CountRole(role)), string(role))
	}
	for kind, count := range n.hub.Count() {
		s.Set("pace_sessions", float64(count), kind)
	}
	for _, row := range netio.Refusals {
		s.Set("pace_sessions_refused_total", float64(n.hub.Refused(row.Refusal)+n.raftPorts.refused(row.Refusal)), row.Label)
	}
	for reason, count := range n.target.Refusals() {
		s.Set("pace_target_refused_total", float64(count), string(reason))
	}
	for reason, count := range n.leases.counts() {
		s.Set("pace_leases_refused_total", float64(count), reason)
	}
	b := n.serving.Load()
	switch {
	case b == nil:
	case b.cons != nil:
		s.Set("pace_consensus_term", float64(b.cons.Term()))
		s.Set("pace_consensus_is_leader", flag(b.cons.IsLeader()))
		s.Set("pace_consensus_commits_total", float64(b.cons.Commits()))
	default:
		st := b.learner.Stats()
		s.Set("pace_follow_lag", float64(st.Lag))
		s.Set("pace_follow_switches_total", float64(st.Switches))
		s.Set("pace_follow_snapshots_total", float64(st.Snapshots))
	}
	if err := n.ask(ctx, func(now time.Time) { n.measureLoop(now, s) }); err != nil {
		n.log.Debug("scrape without the loop's numbers", "error", err.Error())
	}
}

// measureLoop fills in what the loop owns.
func (n *Node) measureLoop(now time.Time, s *control.Snapshot) {
	for _, row := range discovery.Counters() {
		s.Set(row.Metric, float64(n.exchange.Count(row.Counter)))
	}
	s.Set("pace_discovery_peers", float64(len(n.exchange.Peers(now))))
	s.Set("pace_discovery_foreign_fleets", float64(len(n.exchange.Foreign(now))))
	for _, row := range formation.Counters {
		s.Set(row.Metric, float64(n.form.Count(row.Counter)))
	}
	for _, row := range enroll.Counters {
		s.Set(row.Metric, float64(n.list.Count(row.Counter)))
	}
	for _, row := range enroll.Refusals {
		s.Set("pace_enrollment_requests_refused_total", float64(n.list.Refused(row.Refusal)), row.Reason)
	}
	s.Set("pace_enrollment_waiting", float64(n.list.Waiting()))
	for _, x := range n.provisioner.Samples(now) {
		var labels []string
		if x.Label != "" {
			labels = []string{x.Value}
		}
		if x.Kind == provision.KindHistogram {
			d := control.Distribution{Count: x.Count, Sum: x.Sum, Buckets: make(map[float64]uint64, len(x.Buckets))}
			for _, b := range x.Buckets {
				d.Buckets[b.UpTo] = b.Count
			}
			s.SetDistribution(x.Metric, d, labels...)
			continue
		}
		s.Set(x.Metric, x.V, labels...)
	}
}

// raftPorts counts what the consensus port refused, over every time that it was opened.
type raftPorts struct {
	mu   sync.Mutex
	past map[netio.Refusal]uint64
	last *netio.RaftLayer
}

// opened is told of each opening; the one before is closed by then.
func (r *raftPorts) opened(layer *netio.RaftLayer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.past == nil {
		r.past = map[netio.Refusal]uint64{}
	}
	for _, row := range netio.Refusals {
		if r.last != nil {
			r.past[row.Refusal] += r.last.Refused(row.Refusal)
		}
	}
	r.last = layer
}

func (r *raftPorts) refused(why netio.Refusal) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := r.past[why]
	if r.last != nil {
		count += r.last.Refused(why)
	}
	return count
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
