package control

import (
	"slices"

	"pace-node/internal/discovery"
	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/netio"
	"pace-node/internal/provision"
	"pace-node/internal/queue"
	"pace-node/internal/target"
	"pace-node/internal/wire"
)

// reasonNoRequest: a stream on which no whole request came in time.
const reasonNoRequest = "no-request"

// reasonConnections: a connection to the administrators' socket whose account has too many.
const reasonConnections = "connections"

// one makes label tuples of one label.
func one(values ...string) [][]string {
	out := make([][]string, len(values))
	for i, v := range values {
		out[i] = []string{v}
	}
	return out
}

func counter(name, help string) SeriesRow { return SeriesRow{Name: name, Kind: Counter, Help: help} }
func gauge(name, help string) SeriesRow   { return SeriesRow{Name: name, Kind: Gauge, Help: help} }
func counterBy(name, label, help string, values ...string) SeriesRow {
	return SeriesRow{Name: name, Kind: Counter, Labels: []string{label}, Values: one(values...), Help: help}
}
func gaugeBy(name, label, help string, values ...string) SeriesRow {
	return SeriesRow{Name: name, Kind: Gauge, Labels: []string{label}, Values: one(values...), Help: help}
}
func histogram(name, help string) SeriesRow {
	return SeriesRow{Name: name, Kind: Histogram, Help: help}
}
func histogramBy(name, label, help string, values ...string) SeriesRow {
	return SeriesRow{Name: name, Kind: Histogram, Labels: []string{label}, Values: one(values...), Help: help}
}

func conditionTuples() [][]string {
	var out [][]string
	for _, c := range Conditions {
		out = append(out, []string{c.ID, c.Severity.String()})
	}
	return out
}

func verbNames() []string {
	var out []string
	for _, v := range wire.Verbs {
		out = append(out, v.Name)
	}
	return out
}

func refusalNames() []string {
	out := []string{reasonNoRequest, reasonConnections}
	for _, c := range wire.Codes {
		out = append(out, c.Name)
	}
	return out
}

// orderReasons are why a dissolve order is not obeyed: what the applied roster says, bytes that do not read, and the pin.
func orderReasons() []string {
	var out []string
	for _, r := range fleet.OrderVerdicts {
		out = append(out, r.Name)
	}
	return append(out, "malformed", "pinned")
}

// rpcs are the calls of the queue's leader to a machine: the query, and a step each.
var rpcs = []string{"query", "inventory", "csr", "shutdown", "upgrade", "configure", "restart"}

// Series is the table of metrics. Names that the seeds fix stand as they are;
// counters are split by what an operator does about them.
//
// What a package counts stands in that package's own table, and is taken from
// there.
var Series = slices.Concat(ownSeries, discoverySeries(), formationSeries(), enrollSeries(), queueSeries())

var ownSeries = []SeriesRow{
	{Name: "pace_condition", Kind: Gauge, Labels: []string{"id", "severity"}, Values: conditionTuples(), Help: "1 while the condition is raised; docs/conditions.md lists them."},

	gauge("pace_discovery_peers", "Peers that discovery knows, authenticated or not."),
	gauge("pace_discovery_foreign_fleets", "Other fleets that were proven lately."),

	gaugeBy("pace_formation_mode", "mode", "1 for the mode that this node is in.", modeNames()...),

	counterBy(enroll.RefusedMetric, "reason", "Asks refused, by reason.", names(enroll.Refusals, func(r enroll.RefusalRow) string { return r.Reason })...),
	gauge("pace_enrollment_waiting", "Undecided rows of the waiting list."),

	gaugeBy("pace_sessions", "kind", "Open sessions, by who opened them; stranger: a key outside the roster.", netio.SessionKinds...),
	counterBy("pace_sessions_refused_total", "reason", "Connections, sessions and streams refused, by reason.", names(netio.Refusals, func(r netio.RefusalRow) string { return r.Label })...),
	counterBy("pace_requests_total", "verb", "Requests read whole, by verb.", verbNames()...),
	counterBy("pace_dissolve_orders_refused_total", "reason", "Dissolve orders that this machine did not obey, by why.", orderReasons()...),
	counterBy("pace_requests_refused_total", "reason", "Requests answered with an error, by its code; no-request: none came in time; connections: its account had too many to the administrators' socket.", refusalNames()...),

	gauge("pace_fleet_revision", "Revision of the applied state."),
	gaugeBy("pace_fleet_members", "role", "Members of the fleet, by role.", names(fleet.Roles, func(r fleet.Role) string { return string(r) })...),
	gauge("pace_follow_lag", "Revisions between the followed voter and this node's applied state."),
	counter("pace_follow_switches_total", "Times this node moved on to another voter."),
	counter("pace_follow_snapshots_total", "Snapshots that this node took from a voter."),
	gauge("pace_consensus_term", "Consensus term, 0 on a learner."),
	gauge("pace_consensus_is_leader", "1 while this node leads."),
	counter("pace_consensus_commits_total", "Entries committed while this node was a voter."),
	counterBy("pace_target_refused_total", "reason", "Steps of provisioning that were refused or failed on this machine, by reason.", names(target.Reasons, func(r target.ReasonRow) string { return string(r.Reason) })...),
	counterBy("pace_leases_refused_total", "reason", "Leases refused, by reason.", names(fleet.LeaseVerdicts, func(r fleet.LeaseRow) string { return r.Name })...),

	counter("pace_provision_discover_cycles_total", "Rounds of broadcast discovery; a paused one does not count."),
	counter("pace_provision_discovery_errors_total", "Members that answered a round with an error or under another id."),
	counterBy("pace_provision_events_refused_total", "reason", "Startup events refused before the queue was asked.", names(provision.EventChecks, func(r provision.EventCheck) string { return string(r.Refusal) })...),
	counter("pace_provision_leader_changes_total", "Times that this node gained leadership."),
	gauge("pace_provision_busy_workers", "Workers that hold a machine."),
	gauge("pace_provision_work_queue_entries", "Entries of the queue's heap."),
	gauge("pace_provision_waiting_nodes", "Machines queued, running or held."),
	gauge("pace_provision_paused", "1 while the queue is paused."),
	gauge("pace_provision_oldest_entry_seconds", "Age of the oldest entry of the queue."),
	histogramBy("pace_provision_rpc_seconds", "rpc", "Time of a call to a machine.", rpcs...),
	counterBy("pace_provision_rpc_errors_total", "rpc", "Calls to a machine that failed.", rpcs...),
	histogram("pace_provision_helper_seconds", "Time of the helper program."),
	counterBy("pace_provision_helper_errors_total", "reason", "Failures of the helper program, by reason.", names(provision.Reasons, func(r provision.ReasonRow) string { return string(r.Reason) })...),
	histogram("pace_provision_sighting_to_done_seconds", "From the sighting of a machine to its confirmation."),

	counterBy("pace_alert_runs_total", "result", "Runs of the program of --alert-exec, by how they ended.", AlertResults...),
	counterBy("pace_admin_requests_refused_total", "reason", "Requests to --admin-listen that were refused, by why.", AdminRefusals...),
}

func names[T any](rows []T, name func(T) string) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = name(r)
	}
	return out
}

func modeNames() []string {
	return names(formation.Modes, func(m formation.ModeRow) string { return m.Name })
}

func discoverySeries() (out []SeriesRow) {
	for _, r := range discovery.Counters() {
		out = append(out, counter(r.Metric, sentence(r.Help)))
	}
	return out
}

func formationSeries() (out []SeriesRow) {
	for _, r := range formation.Counters {
		out = append(out, counter(r.Metric, sentence(r.Help)))
	}
	return out
}

func enrollSeries() (out []SeriesRow) {
	for _, r := range enroll.Counters {
		out = append(out, counter(r.Metric, sentence(r.Help)))
	}
	return out
}

// queueSeries joins the queue's rows of one metric, which has a row for each
// value, or one row for every stage.
func queueSeries() (out []SeriesRow) {
	for _, r := range queue.Counters {
		values := []string{r.Value}
		if r.Label != "" && r.Value == "" {
			values = names(queue.Stages, func(s queue.Stage) string { return string(s) })
		}
		at := slices.IndexFunc(out, func(o SeriesRow) bool { return o.Name == r.Metric })
		switch {
		case r.Label == "":
			out = append(out, counter(r.Metric, sentence(r.Help)))
		case at < 0:
			out = append(out, counterBy(r.Metric, r.Label, sentence(r.Help), values...))
		default:
			out[at].Values = append(out[at].Values, one(values...)...)
		}
	}
	return out
}

// sentence begins with a capital letter and ends with a stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	if c := s[0]; c >= 'a' && c <= 'z' {
		s = string(c-'a'+'A') + s[1:]
	}
	if s[len(s)-1] != '.' {
		s += "."
	}
	return s
}
