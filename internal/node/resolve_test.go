package node

import (
	"slices"
	"testing"
)

// TestRaftEndpoints: proven by discovery, then the roster's, then remembered.
func TestRaftEndpoints(t *testing.T) {
	list := func(e ...string) []string { return e }
	for _, c := range []struct {
		name         string
		proven, said string
		remembered   []string
		want         []string
	}{
		{"nothing is known", "", "", nil, nil},
		{"only remembered", "", "", list("10.0.0.9:6674"), list("10.0.0.9:6680")},
		{"the order", "10.0.0.1:6680", "10.0.0.2:6680", list("10.0.0.3:6674"), list("10.0.0.1:6680", "10.0.0.2:6680", "10.0.0.3:6680")},
		{"each once", "10.0.0.1:6680", "10.0.0.1:6680", list("10.0.0.1:6674", "10.0.0.3:6674"), list("10.0.0.1:6680", "10.0.0.3:6680")},
		{"the roster's port", "", "10.0.0.2:7000", list("10.0.0.3:6674"), list("10.0.0.2:7000", "10.0.0.3:7000")},
		{"the proven port", "10.0.0.1:7001", "10.0.0.2:7000", list("[fd00::1]:6674"), list("10.0.0.1:7001", "10.0.0.2:7000", "[fd00::1]:7001")},
		{"a name", "", "10.0.0.2:6680", list("voter.example:6674"), list("10.0.0.2:6680", "voter.example:6680")},
		{"no endpoint", "", "10.0.0.2:6680", list("nonsense"), list("10.0.0.2:6680")},
		{"at most four", "10.0.0.1:1", "10.0.0.2:1", list("10.0.0.3:1", "10.0.0.4:1", "10.0.0.5:1"), list("10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1")},
	} {
		if got := raftEndpoints(c.proven, c.said, c.remembered); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
