package control

import (
	"encoding/json"
	"strings"
	"testing"

	"pace-node/internal/config"
)

// TestDashboard: the address stands alone on the first line, and what another program reads is a member.
func TestDashboard(t *testing.T) {
	const url = "http://127.0.0.1:6690/#token=AbC-_123"
	own := &fakeNode{status: map[string]any{"dashboard": Dashboard{URL: url, LifeMS: 300_000, Tunnel: "ssh -N -L 6690:127.0.0.1:6690 10.1.0.2"}}}
	call := config.VerbCall{Name: config.ToolVerb, Words: []string{"dashboard"}}
	exit, out, errs := nodes{"": own}.run(t, call, config.Config{}, "")
	lines := strings.Split(out, "\n")
	if exit != 0 || errs != "" || lines[0] != url || !strings.Contains(lines[1], "within 5m") || !strings.HasSuffix(lines[2], ": ssh -N -L 6690:127.0.0.1:6690 10.1.0.2") {
		t.Errorf("%d %q %q", exit, out, errs)
	}
	exit, out, _ = nodes{"": own}.run(t, call, config.Config{JSON: true}, "")
	var d Dashboard
	if err := json.Unmarshal([]byte(out), &d); err != nil || exit != 0 || d.URL != url || d.V != DocumentVersion || d.LifeMS != 300_000 {
		t.Errorf("%d %s: %v", exit, out, err)
	}
	exit, _, errs = nodes{"": own, "10.1.0.9:6674": own}.run(t, call, config.Config{Scheduler: "10.1.0.9:6674"}, "")
	if exit != config.ExitUsage || !strings.Contains(errs, "type pacectl dashboard on that machine") {
		t.Errorf("%d %q", exit, errs)
	}
}
