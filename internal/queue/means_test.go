package queue

import (
	"slices"
	"testing"
	"time"
)

// TestMeans: who is handed leadership by a leader that cannot provision.
func TestMeans(t *testing.T) {
	at := func(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }
	var m Means
	if got := m.Able([]string{"b", "c"}); len(got) != 0 {
		t.Errorf("before anybody said anything: %v", got)
	}
	if m.Heard("b", false) || !m.Heard("c", true) || m.Heard("c", true) || !m.Heard("d", true) || !m.Heard("e", true) {
		t.Error("what is news and what is not")
	}
	m.Gone("e")
	able := m.Able([]string{"d", "e", "b", "c"})
	if !slices.Equal(able, []string{"d", "c"}) {
		t.Errorf("able are %v", able)
	}
	for _, c := range []struct {
		name string
		led  []string // who led, one after the other, each a second later
		now  int
		want []string
	}{
		{"it led from the start", []string{"a"}, 5, []string{"d", "c"}},
		{"it took over from one that cannot", []string{"b", "a"}, 5, []string{"d", "c"}},
		{"it took over from one that can: not back at once", []string{"d", "a"}, 15, []string{"c"}},
		{"a moment without a leader changes nothing", []string{"d", "", "a"}, 16, []string{"c"}},
		{"its own name again changes nothing", []string{"d", "a", "a"}, 15, []string{"c"}},
		{"back after a while", []string{"d", "a"}, 16, []string{"d", "c"}},
		{"the one before counts, not the one before that", []string{"c", "d", "a"}, 16, []string{"c"}},
	} {
		n := m
		for i, id := range c.led {
			n.Led(at(i), id, "a")
		}
		if got := n.HandTo(at(c.now), able); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if !slices.Equal(able, []string{"d", "c"}) {
		t.Error("the caller's list was changed")
	}
	m.Clear()
	if got := m.Able([]string{"c", "d"}); len(got) != 0 {
		t.Errorf("in another fleet: %v", got)
	}
}
