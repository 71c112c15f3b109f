package follow

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestSayingOncePerMinute: a link that flaps is said once a minute with how often it changed, and how it came to stand is
// said in the end.
func TestSayingOncePerMinute(t *testing.T) {
	var out strings.Builder
	var s saying
	log := slog.New(slog.NewTextHandler(&out, nil))
	start := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	took := func(want ...string) {
		t.Helper()
		var got []string
		for text := range strings.Lines(out.String()) {
			_, text, _ = strings.Cut(strings.TrimSpace(text), "msg=")
			got = append(got, text)
		}
		out.Reset()
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	s.change(log, start, "v1", true, "")
	took(`"following a voter" voter=v1`)
	s.tell(log, start.Add(time.Hour))
	took()
	start = start.Add(time.Hour)
	s.change(log, start, "v1", false, "cut")
	took(`"no longer following a voter" voter=v1 why=cut`)
	s.change(log, start.Add(time.Second), "v2", true, "")
	took(`"following a voter" voter=v2`)
	s.change(log, start.Add(2*time.Second), "v2", false, "cut")
	took(`"no longer following a voter" voter=v2 why=cut`)
	for i := range 10 {
		s.change(log, start.Add(time.Duration(3+2*i)*time.Second), "v2", true, "")
		s.change(log, start.Add(time.Duration(4+2*i)*time.Second), "v2", false, "cut")
	}
	s.change(log, start.Add(30*time.Second), "v2", true, "")
	s.tell(log, start.Add(60*time.Second))
	took()
	s.tell(log, start.Add(61*time.Second))
	took(`"following a voter" voter=v2 stands-for=21`)
	if len(s.last) > 2 {
		t.Errorf("%d lines are kept", len(s.last))
	}
}
