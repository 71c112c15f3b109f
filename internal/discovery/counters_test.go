package discovery

import (
	"fmt"
	"strings"
	"testing"
)

// wantCounters are the series in the order of the counters.
var wantCounters = strings.Fields(`beacons_sent beacons_heard challenges_sent proofs_sent proofs_verified
	proofs_refused_unknown_key proofs_refused_revoked_key proofs_refused_forged proofs_refused_replayed
	proofs_refused_expired proofs_refused_exhausted proofs_refused_not_issued proof_checks_withheld
	replies_withheld beacons_over_bound datagrams_refused_version datagrams_malformed`)

func checkCounters() error {
	rows := Counters()
	if len(rows) != len(wantCounters) {
		return fmt.Errorf("%d counters, want %d", len(rows), len(wantCounters))
	}
	for i, r := range rows {
		if r.Counter != Counter(i) || r.Metric != "pace_discovery_"+wantCounters[i]+"_total" || !strings.HasSuffix(r.Help, ".") {
			return fmt.Errorf("row %d: %+v", i, r)
		}
	}
	return nil
}

func TestCountersTable(t *testing.T) {
	if err := checkCounters(); err != nil {
		t.Fatal(err)
	}
	g, _ := fleetOfTwo()
	for _, r := range Counters() {
		if g.Count(r.Counter) != 0 {
			t.Errorf("%s does not begin at zero", r.Metric)
		}
	}
	if g.Count(counterKinds) != 0 {
		t.Error("a counter that is none")
	}
}

func TestMutationCounters(t *testing.T) {
	for i := range counterRows {
		for name, flip := range map[string]func(*CounterRow){
			"the counter": func(r *CounterRow) { r.Counter = (r.Counter + 1) % counterKinds },
			"the series":  func(r *CounterRow) { r.Metric = strings.Replace(r.Metric, "_total", "s_total", 1) },
			"the help":    func(r *CounterRow) { r.Help = "" },
		} {
			was := counterRows[i]
			flip(&counterRows[i])
			if checkCounters() == nil {
				t.Errorf("row %d, %s flipped: nobody noticed", i, name)
			}
			counterRows[i] = was
		}
	}
}
