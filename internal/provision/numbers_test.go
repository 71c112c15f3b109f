package provision

import (
	"testing"
	"time"
)

// The page's numbers, written out by hand: a constant that moves away from them is seen here, whatever other tests wait for.
func TestNumbersOfThePage(t *testing.T) {
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"a round ends after the last answer", int64(RoundQuiet), int64(300 * time.Millisecond)},
		{"and in any case", int64(RoundMax), int64(2 * time.Second)},
		{"probes at once", ProbesAtOnce, 64},
		{"a probe lasts", int64(ProbeTimeout), int64(2 * time.Second)},
		{"--provision-helper-timeout", int64(DefaultHelperTimeout), int64(10 * time.Second)},
		{"stdout of a helper", MaxStdout, 1 << 20},
		{"stderr of it in the error", MaxStderr, 4 << 10},
		{"a clean stop waits for cycles", int64(StopPatience), int64(10 * time.Second)},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
	if DefaultComponent != "provision_mode_server" || ComponentServer != "server" {
		t.Errorf("components %q and %q", DefaultComponent, ComponentServer)
	}
}
