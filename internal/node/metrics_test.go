package node

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pace-node/internal/control"
	"pace-node/internal/netsim"
)

// TestEverySeriesIsKnownAndThereFromTheStart scrapes a node that has just started.
func TestEverySeriesIsKnownAndThereFromTheStart(t *testing.T) {
	dir := t.TempDir()
	netsim.Bubble(t, func(t *testing.T) {
		s := newSim(t, 1, dir)
		defer s.stop()
		n := s.start(0)
		s.nodes = append(s.nodes, n)
		w := httptest.NewRecorder()
		n.metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if unknown := n.metrics.Unknown(); len(unknown) > 0 {
			t.Errorf("the node feeds series that no row names: %s", strings.Join(unknown, ", "))
		}
		body := w.Body.String()
		for _, row := range control.Series {
			if !strings.Contains(body, "\n"+row.Name) && !strings.HasPrefix(body, row.Name) {
				t.Errorf("%s is not there from the start", row.Name)
			}
		}
		for _, want := range []string{`pace_formation_mode{mode="solitary"} 1`, `pace_formation_mode{mode="learner"} 0`, "pace_consensus_is_leader 1", `pace_fleet_members{role="voter"} 1`} {
			if !strings.Contains(body, "\n"+want+"\n") {
				t.Errorf("a solitary node that leads does not show %s", want)
			}
		}
	})
}
