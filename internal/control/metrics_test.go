package control

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pace-node/internal/provision"
	"pace-node/internal/wire"
)

// scrape returns every sample line of ours by its name and labels.
func scrape(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	out := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "pace_") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out[line[:i]] = v
	}
	return out
}

// fixed are the series that the seeds and the operator's page name, written out
// from them.
var fixed = []string{
	"pace_discovery_beacons_over_bound_total", "pace_discovery_proofs_refused_unknown_key_total", "pace_discovery_proofs_refused_revoked_key_total",
	"pace_discovery_proofs_refused_forged_total", "pace_enrollment_approvals_auto_total",
	"pace_discovery_beacons_sent_total", "pace_discovery_beacons_heard_total", "pace_discovery_challenges_sent_total", "pace_discovery_proofs_sent_total",
	"pace_discovery_proofs_verified_total", "pace_discovery_proofs_refused_replayed_total", "pace_discovery_proofs_refused_expired_total",
	"pace_discovery_proofs_refused_exhausted_total", "pace_discovery_proof_checks_withheld_total", "pace_discovery_replies_withheld_total",
	"pace_discovery_datagrams_refused_version_total", "pace_discovery_datagrams_malformed_total",
	"pace_discovery_peers", "pace_discovery_foreign_fleets",
	"pace_formation_yields_total", "pace_formation_joins_abandoned_total", "pace_formation_moves_ignored_total", "pace_formation_pin_refusals_total",
	"pace_formation_admissions_refused_total",
	`pace_formation_mode{mode="solitary"}`, `pace_formation_mode{mode="pending"}`, `pace_formation_mode{mode="learner"}`, `pace_formation_mode{mode="voter"}`,
	"pace_enrollment_requests_total", "pace_enrollment_approvals_manual_total", "pace_enrollment_rejections_total", "pace_enrollment_requests_expired_total",
	"pace_enrollment_requests_cleared_total", `pace_enrollment_requests_refused_total{reason="signature"}`, "pace_enrollment_waiting",
	`pace_sessions{kind="stranger"}`, `pace_sessions_refused_total{reason="strangers-full"}`, "pace_fleet_revision", `pace_fleet_members{role="voter"}`,
	`pace_fleet_members{role="learner"}`, "pace_follow_lag", "pace_follow_switches_total", "pace_follow_snapshots_total",
	"pace_consensus_term", "pace_consensus_is_leader", "pace_consensus_commits_total", `pace_leases_refused_total{reason="expired"}`,
	"pace_provision_discovered_total", "pace_provision_event_discovered_total", "pace_provision_discover_cycles_total", "pace_provision_discovery_errors_total",
	`pace_provision_errors_total{stage="helper"}`, "pace_provision_provisioned_total", "pace_provision_deferred_total", "pace_provision_shutdowns_total",
	"pace_provision_upgrades_total", "pace_provision_busy_workers", "pace_provision_work_queue_entries", "pace_provision_waiting_nodes", "pace_provision_paused",
	`pace_provision_rpc_seconds_count{rpc="configure"}`, `pace_provision_rpc_errors_total{rpc="query"}`, "pace_provision_helper_seconds_sum",
	`pace_provision_helper_errors_total{reason="timeout"}`, `pace_provision_refused_total{reason="duplicate"}`, `pace_provision_refused_total{reason="not_due"}`,
	`pace_provision_refused_total{reason="full"}`, `pace_provision_refused_total{reason="stale"}`, `pace_provision_refused_total{reason="paused"}`,
	`pace_provision_refused_total{reason="invalid"}`, `pace_provision_retries_total{stage="configure"}`, "pace_provision_unreachable_total",
	"pace_provision_sighting_to_done_seconds_count", "pace_provision_oldest_entry_seconds", "pace_provision_leader_changes_total", "pace_provision_unconfirmed_total",
	`pace_condition{id="foreign-fleet-visible",severity="warning"}`, `pace_condition{id="single-voter-fleet",severity="notice"}`,
}

func TestEverySeriesIsThereAtZero(t *testing.T) {
	got := scrape(t, NewMetrics(NewBoard(nil), nil))
	for _, name := range fixed {
		if v, ok := got[name]; !ok || v != 0 {
			t.Errorf("%s: %v, %v", name, v, ok)
		}
	}
	for name, v := range got {
		if v != 0 {
			t.Errorf("%s starts at %v", name, v)
		}
	}
	for _, row := range Series {
		for _, v := range row.tuples() {
			name := row.Name
			if row.Kind == Histogram {
				name += "_count"
			}
			if len(v) > 0 {
				var pairs []string
				for i := range v {
					pairs = append(pairs, row.Labels[i]+`="`+v[i]+`"`)
				}
				name += "{" + strings.Join(pairs, ",") + "}"
			}
			if _, ok := got[name]; !ok {
				t.Errorf("%s is not exposed", name)
			}
		}
	}
}

func TestSeriesAreWellNamed(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range Series {
		if seen[row.Name] {
			t.Errorf("%s stands twice", row.Name)
		}
		seen[row.Name] = true
		if !regexp.MustCompile(`^pace_[a-z]+(_[a-z]+)*$`).MatchString(row.Name) || (row.Kind == Counter) != strings.HasSuffix(row.Name, "_total") {
			t.Errorf("%s is a %s", row.Name, row.Kind)
		}
		if len(row.Labels) > 0 && len(row.Values) == 0 {
			t.Errorf("%s has a label without values", row.Name)
		}
		tuples := map[string]bool{}
		for _, v := range row.Values {
			if len(v) != len(row.Labels) || tuples[strings.Join(v, " ")] {
				t.Errorf("%s: label values %v", row.Name, v)
			}
			tuples[strings.Join(v, " ")] = true
		}
		if !strings.HasSuffix(row.Help, ".") {
			t.Errorf("%s: help %q", row.Name, row.Help)
		}
	}
}

func TestMetricsAreFed(t *testing.T) {
	board := NewBoard(nil)
	m := NewMetrics(board, nil)
	m.SetSource(func(s *Snapshot) {
		s.Set("pace_formation_mode", 1, "voter")
		s.Set("pace_fleet_revision", 42)
		s.Add("pace_enrollment_waiting", 1)
		s.Add("pace_enrollment_waiting", 1)
		s.Set("pace_requests_total", 3, "Hello")
		s.SetDistribution("pace_provision_helper_seconds", Distribution{Count: 2, Sum: 1.5, Buckets: map[float64]uint64{0.1: 1, 2: 2}})
		s.Set("pace_nobody_total", 1)
		s.Set("pace_sessions", 1, "strange kind")
		s.SetDistribution("pace_fleet_revision", Distribution{})
	})
	m.Add("pace_requests_total", 2, "Hello")
	m.Add("pace_requests_total", 1, wire.VerbWork.String())
	m.Add("pace_helper", 1)
	m.Add("pace_provision_helper_seconds", 1)
	board.Raise("foreign-fleet-visible", "x")
	got := scrape(t, m)
	for name, want := range map[string]float64{
		`pace_formation_mode{mode="voter"}`: 1, `pace_formation_mode{mode="solitary"}`: 0, "pace_fleet_revision": 42, "pace_enrollment_waiting": 2,
		`pace_requests_total{verb="Hello"}`: 5, `pace_requests_total{verb="Work"}`: 1, "pace_provision_helper_seconds_count": 2, "pace_provision_helper_seconds_sum": 1.5,
		`pace_provision_helper_seconds_bucket{le="2"}`: 2, `pace_condition{id="foreign-fleet-visible",severity="warning"}`: 1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if u := m.Unknown(); len(u) != 5 {
		t.Errorf("not said: %q", u)
	}
	board.Clear("foreign-fleet-visible")
	m.SetSource(nil)
	got = scrape(t, m)
	if got[`pace_condition{id="foreign-fleet-visible",severity="warning"}`] != 0 || got["pace_fleet_revision"] != 0 {
		t.Error("old numbers stay")
	}
	var none *Metrics
	none.Add("pace_requests_total", 1, "Hello") // counts nothing, and does no harm
}

// TestFeedersKnowTheTable: what other packages count has a row here.
func TestFeedersKnowTheTable(t *testing.T) {
	m := NewMetrics(nil, nil)
	for _, r := range provision.Reasons {
		if _, ok := m.known[seriesKey("pace_provision_helper_errors_total", []string{string(r.Reason)})]; !ok {
			t.Errorf("no row for %s", r.Reason)
		}
	}
	for _, v := range wire.Verbs {
		if _, ok := m.known[seriesKey("pace_requests_total", []string{v.Name})]; !ok {
			t.Errorf("no row for %s", v.Name)
		}
	}
	for _, c := range wire.Codes {
		if _, ok := m.known[seriesKey("pace_requests_refused_total", []string{c.Name})]; !ok {
			t.Errorf("no row for %s", c.Name)
		}
	}
}

func TestMetricsAreText(t *testing.T) {
	w := httptest.NewRecorder()
	NewMetrics(nil, nil).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	b, err := io.ReadAll(w.Result().Body)
	if err != nil || !strings.HasPrefix(w.Result().Header.Get("Content-Type"), "text/plain") {
		t.Fatalf("%v %v", err, w.Result().Header)
	}
	for _, want := range []string{"# HELP pace_fleet_revision ", "# TYPE pace_fleet_revision gauge", "go_goroutines", "process_open_fds"} {
		if !strings.Contains(string(b), want) && !(want == "process_open_fds" && !strings.Contains(string(b), "process_")) {
			t.Errorf("no %q", want)
		}
	}
}

// TestWhoGoesIsNoFault: anybody may ask for the metrics and close the connection; that is no error of this node.
func TestWhoGoesIsNoFault(t *testing.T) {
	var log bytes.Buffer
	l := promLog{slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	l.Println("error encoding and sending metric family:", &net.OpError{Op: "write", Err: syscall.EPIPE})
	if s := log.String(); strings.Contains(s, "level=ERROR") || !strings.Contains(s, "level=DEBUG") {
		t.Error(s)
	}
	log.Reset()
	l.Println("error gathering metrics:", errors.New("collected metric was collected before with the same name"))
	if s := log.String(); !strings.Contains(s, "level=ERROR") {
		t.Error(s)
	}
}
