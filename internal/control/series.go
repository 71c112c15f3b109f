package control

import "pace-node/internal/wire"

// reasonNoRequest: a stream on which no whole request came in time.
const reasonNoRequest = "no-request"

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
	out := []string{reasonNoRequest}
	for _, c := range wire.Codes {
		out = append(out, c.Name)
	}
	return out
}

// Label values that several series share.
var (
	stages = []string{"probe", "inventory", "helper", "shutdown", "configure", "restart", "confirm"}
	rpcs   = []string{"query", "inventory", "configure", "restart", "shutdown"}
)

// Series is the table of metrics. Names that the seeds fix stand as they are;
// counters are split by what an operator does about them.
var Series = []SeriesRow{
	{Name: "pace_condition", Kind: Gauge, Labels: []string{"id", "severity"}, Values: conditionTuples(), Help: "1 while the condition is raised; docs/conditions.md lists them."},

	counter("pace_discovery_beacons_sent_total", "Beacons given to the interfaces."),
	counter("pace_discovery_beacons_heard_total", "Well-formed beacons of other nodes."),
	counter("pace_discovery_challenges_sent_total", "Challenges sent."),
	counter("pace_discovery_proofs_sent_total", "Challenges answered with a proof."),
	counter("pace_discovery_proofs_verified_total", "Proofs whose signature verified, whatever the key."),
	counter("pace_discovery_proofs_refused_unknown_key_total", "Proofs of the own cluster under a key that the roster does not hold for that id: admit the machine, or ignore it."),
	counter("pace_discovery_proofs_refused_revoked_key_total", "Proofs under a revoked key, which is never admitted again."),
	counter("pace_discovery_proofs_refused_forged_total", "Proofs whose signature does not verify: somebody hostile or broken."),
	counter("pace_discovery_proofs_refused_replayed_total", "Proofs of a challenge that was already answered."),
	counter("pace_discovery_proofs_refused_expired_total", "Proofs that came too late."),
	counter("pace_discovery_proofs_refused_exhausted_total", "Proofs of a challenge that two failed signatures used up."),
	counter("pace_discovery_proofs_refused_not_issued_total", "Proofs that answer no challenge of this node to that address."),
	counter("pace_discovery_proof_checks_withheld_total", "Proofs not checked for want of budget."),
	counter("pace_discovery_replies_withheld_total", "Challenges and proofs not sent: over budget, larger than what asked, or nothing to announce."),
	counter("pace_discovery_beacons_over_bound_total", "Entries displaced from a full table."),
	counter("pace_discovery_datagrams_refused_version_total", "Datagrams of another version of the wire: upgrade the segment's nodes together."),
	counter("pace_discovery_datagrams_malformed_total", "Datagrams that follow no format, or came to the wrong socket."),
	gauge("pace_discovery_peers", "Peers that discovery knows, authenticated or not."),
	gauge("pace_discovery_foreign_fleets", "Other fleets that were proven lately."),

	counter("pace_formation_yields_total", "Times this node decided to ask another fleet to join."),
	counter("pace_formation_joins_abandoned_total", "Asks given up after ten minutes without a signed answer."),
	counter("pace_formation_moves_ignored_total", "Triggers that the node's mode has no move for."),
	counter("pace_formation_pin_refusals_total", "Ways into a fleet that the pin does not admit."),
	counter("pace_formation_admissions_refused_total", "Approvals that did not verify or that the pin refused."),
	gaugeBy("pace_formation_mode", "mode", "1 for the mode that this node is in.", "solitary", "pending", "learner", "voter"),

	counter("pace_enrollment_requests_total", "Asks to join that were judged, repeats included."),
	counter("pace_enrollment_approvals_manual_total", "Machines admitted by a person."),
	counter("pace_enrollment_approvals_auto_total", "Machines admitted by the auto-approve window."),
	counter("pace_enrollment_rejections_total", "Machines rejected by a person."),
	counter("pace_enrollment_requests_expired_total", "Undecided rows that were not heard for ten minutes."),
	counter("pace_enrollment_requests_cleared_total", "Rows cleared by a person."),
	counterBy("pace_enrollment_requests_refused_total", "reason", "Asks refused, by reason.", enrollRefusals...),
	gauge("pace_enrollment_waiting", "Undecided rows of the waiting list."),

	gaugeBy("pace_sessions", "kind", "Open sessions, by what the peer is.", "member", "stranger"),
	counterBy("pace_sessions_refused_total", "reason", "Connections refused, by reason.", sessionRefusals...),
	counterBy("pace_requests_total", "verb", "Requests read whole, by verb.", verbNames()...),
	counterBy("pace_requests_refused_total", "reason", "Requests answered with an error, by its code; no-request: none came in time.", refusalNames()...),

	gauge("pace_fleet_revision", "Revision of the applied state."),
	gaugeBy("pace_fleet_members", "role", "Members of the fleet, by role.", "voter", "learner", "voter-pending", "leaving"),
	gauge("pace_follow_lag", "Revisions between the followed voter and this node's applied state."),
	counter("pace_follow_switches_total", "Times this node moved on to another voter."),
	counter("pace_follow_snapshots_total", "Snapshots that this node took from a voter."),
	gauge("pace_consensus_term", "Consensus term, 0 on a learner."),
	gauge("pace_consensus_is_leader", "1 while this node leads."),
	counter("pace_consensus_commits_total", "Entries committed while this node was a voter."),
	counterBy("pace_leases_refused_total", "reason", "Leases refused, by reason.", leaseRefusals...),

	counter("pace_provision_discovered_total", "Machines admitted from broadcast discovery."),
	counter("pace_provision_event_discovered_total", "Machines admitted from startup events."),
	counter("pace_provision_discover_cycles_total", "Rounds of broadcast discovery; a paused one does not count."),
	counter("pace_provision_discovery_errors_total", "Rounds of broadcast discovery that could not ask."),
	counterBy("pace_provision_errors_total", "stage", "Failed runs, by the stage that failed.", stages...),
	counter("pace_provision_provisioned_total", "Machines provisioned and confirmed."),
	counter("pace_provision_deferred_total", "Machines deferred by the helper."),
	counter("pace_provision_shutdowns_total", "Machines told to shut down."),
	counter("pace_provision_upgrades_total", "Machines upgraded in place."),
	counter("pace_provision_unreachable_total", "Runs that found no session or no answer."),
	counter("pace_provision_unconfirmed_total", "Machines that did not confirm within the hold."),
	counterBy("pace_provision_refused_total", "reason", "Sightings and entries refused, by reason.", "duplicate", "not_due", "full", "stale", "paused", "invalid"),
	counterBy("pace_provision_retries_total", "stage", "Machines tried again, by the stage that had failed.", stages...),
	counter("pace_provision_leader_changes_total", "Times the queue gained or lost leadership."),
	gauge("pace_provision_busy_workers", "Workers that hold a machine."),
	gauge("pace_provision_work_queue_entries", "Entries of the queue's heap."),
	gauge("pace_provision_waiting_nodes", "Machines queued, running or held."),
	gauge("pace_provision_paused", "1 while the queue is paused."),
	gauge("pace_provision_oldest_entry_seconds", "Age of the oldest entry of the queue."),
	histogramBy("pace_provision_rpc_seconds", "rpc", "Time of a call to a machine.", rpcs...),
	counterBy("pace_provision_rpc_errors_total", "rpc", "Calls to a machine that failed.", rpcs...),
	histogram("pace_provision_helper_seconds", "Time of the helper program."),
	counterBy("pace_provision_helper_errors_total", "reason", "Failures of the helper program, by reason.", helperErrors...),
	histogram("pace_provision_sighting_to_done_seconds", "From the sighting of a machine to its confirmation."),

	counterBy("pace_admin_requests_refused_total", "reason", "Requests to --admin-listen that were refused.", adminRefusals...),
}

// Reasons, each the word that the counting package gives.
var (
	enrollRefusals  = []string{"malformed", "id", "endpoint", "text", "key", "key_mismatch", "source_full", "not_leader", "signature", "revoked", "waiting_list_full", "newer_format"}
	sessionRefusals = []string{"handshake", "strangers", "source", "closed"}
	leaseRefusals   = []string{"malformed", "roster_not_applied", "not_voter", "signature", "cluster", "epoch", "target", "digest", "expired", "replayed", "term", "silent"}
	helperErrors    = []string{"missing", "start", "timeout", "exit", "output", "document"}
	adminRefusals   = []string{"host", "method"}
)
