package discovery

import (
	"testing"
	"time"
)

// TestHeard: each source once, with whether something from there was proven, until 90 s after its last beacon.
func TestHeard(t *testing.T) {
	g := newRig("n-a", "c-office", "10.9.0.1:6674", newRoster("n-a", "n-b"))
	for _, v := range []struct {
		cluster, node, addr string
		proves              bool
	}{
		{"c-office", "n-b", "10.9.0.2:6674", true},
		{"c-office", "n-x", "10.9.0.3:6674", false},
		{"c-other", "n-y", "10.9.0.4:6674", true},
		{"c-third", "n-z", "10.9.0.5:6674", false},
	} {
		voice := newVoice(v.cluster, v.node, v.node, v.addr)
		if v.proves {
			g.prove(t, voice)
		} else {
			g.challenged(voice)
		}
	}
	proven, all := 0, g.Heard(g.now)
	for i, h := range all {
		if h.Proven {
			proven++
		}
		if i > 0 && !all[i-1].From.Less(h.From) {
			t.Error("not by address")
		}
	}
	if len(all) != 4 || proven != 2 {
		t.Errorf("%+v", all)
	}
	g.after(91 * time.Second)
	if all := g.Heard(g.now); len(all) != 0 {
		t.Errorf("still there: %+v", all)
	}
}
