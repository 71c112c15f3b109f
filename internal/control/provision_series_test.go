package control

import (
	"slices"
	"strings"
	"testing"
)

// provisionSeries are the queue's series, written out from the specification: its names, kinds, labels, and the values of
// those labels that it fixes.
var provisionSeries = []struct {
	Name   string
	Kind   SeriesKind
	Label  string
	Values []string // at least these
}{
	{"discovered_total", Counter, "", nil},
	{"event_discovered_total", Counter, "", nil},
	{"discover_cycles_total", Counter, "", nil},
	{"discovery_errors_total", Counter, "", nil},
	{"errors_total", Counter, "stage", []string{"probe", "inventory", "csr", "helper", "shutdown", "upgrade", "configure", "restart", "confirm"}},
	{"provisioned_total", Counter, "", nil},
	{"deferred_total", Counter, "", nil},
	{"shutdowns_total", Counter, "", nil},
	{"upgrades_total", Counter, "", nil},
	{"busy_workers", Gauge, "", nil},
	{"work_queue_entries", Gauge, "", nil},
	{"waiting_nodes", Gauge, "", nil},
	{"paused", Gauge, "", nil},
	{"rpc_seconds", Histogram, "rpc", []string{"query", "inventory", "csr", "shutdown", "upgrade", "configure", "restart"}},
	{"rpc_errors_total", Counter, "rpc", []string{"query", "inventory", "csr", "shutdown", "upgrade", "configure", "restart"}},
	{"helper_seconds", Histogram, "", nil},
	{"helper_errors_total", Counter, "reason", []string{"timeout", "exit", "no_output", "not_json", "several_documents", "too_large", "wrong_type", "empty_configuration"}},
	{"refused_total", Counter, "reason", []string{"duplicate", "not_due", "full", "stale", "paused", "invalid"}},
	{"retries_total", Counter, "stage", []string{"probe", "inventory", "csr", "helper", "shutdown", "upgrade", "configure", "restart", "confirm"}},
	{"unreachable_total", Counter, "", nil},
	{"sighting_to_done_seconds", Histogram, "", nil},
	{"oldest_entry_seconds", Gauge, "", nil},
	{"leader_changes_total", Counter, "", nil},
	{"unconfirmed_total", Counter, "", nil},
}

// faultOfProvisionSeries is the first way in which the registry's table differs from the specification's list; "": none.
func faultOfProvisionSeries() string {
	for _, want := range provisionSeries {
		i := slices.IndexFunc(Series, func(r SeriesRow) bool { return r.Name == "pace_provision_"+want.Name })
		if i < 0 {
			return want.Name + " is not in the table"
		}
		row := Series[i]
		if row.Kind != want.Kind || strings.Join(row.Labels, ",") != want.Label {
			return want.Name + " is a " + row.Kind.String() + " by " + strings.Join(row.Labels, ",")
		}
		for _, v := range want.Values {
			if !slices.ContainsFunc(row.Values, func(t []string) bool { return t[0] == v }) {
				return want.Name + " has no series of " + want.Label + " " + v
			}
		}
	}
	return ""
}

// TestProvisionSeries: each is in the table, and scraped at zero before anything has happened.
func TestProvisionSeries(t *testing.T) {
	if fault := faultOfProvisionSeries(); fault != "" {
		t.Error(fault)
	}
	got := scrape(t, NewMetrics(NewBoard(nil), nil))
	for _, want := range provisionSeries {
		names := []string{"pace_provision_" + want.Name}
		if want.Kind == Histogram {
			names = []string{names[0] + "_count", names[0] + "_sum"}
		}
		for _, name := range names {
			for _, v := range append([]string{}, want.Values...) {
				if value, ok := got[name+`{`+want.Label+`="`+v+`"}`]; !ok || value != 0 {
					t.Errorf("%s{%s=%q}: %v, there: %v", name, want.Label, v, value, ok)
				}
			}
			if value, ok := got[name]; want.Label == "" && (!ok || value != 0) {
				t.Errorf("%s: %v, there: %v", name, value, ok)
			}
		}
	}
}

// TestMutationSeries takes each row out of the table, and gives it another kind: the check sees it.
func TestMutationSeries(t *testing.T) {
	for i := range Series {
		if !slices.ContainsFunc(provisionSeries, func(w struct {
			Name   string
			Kind   SeriesKind
			Label  string
			Values []string
		}) bool {
			return "pace_provision_"+w.Name == Series[i].Name
		}) {
			continue
		}
		was := Series[i]
		Series[i].Name += "x"
		named := faultOfProvisionSeries()
		Series[i] = was
		Series[i].Kind = (was.Kind + 1) % 3
		kind := faultOfProvisionSeries()
		Series[i] = was
		if named == "" || kind == "" {
			t.Errorf("%s changed goes unseen", was.Name)
		}
	}
}
