//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"
)

// pageAddress is where a node that is started with metered has its page, seen from its own host.
const pageAddress = "http://127.0.0.1:6690/"

func TestBrowserReachesOnlyWhatItIsSentTo(t *testing.T) {
	t.Parallel()
	needChromium(t)
	l := newLAN(t, 1)
	a := l.hosts[0].start(t, "alder", metered)
	b := l.hosts[0].browse(t)
	b.open(pageAddress + "healthz")
	b.waits("that the node is well", "document.body.innerText.includes('\"status\":\"ok\"')")
	if got := eval[string](b, "document.body.innerText"); !strings.Contains(got, a.id()) {
		t.Errorf("/healthz in a browser: %s", got)
	}
	// What the browser complains of is noticed.
	b.open(pageAddress + "metrics/nowhere")
	until(t, "the browser complains of what is not there", func() (bool, string) { return b.forgive("404") > 0, strings.Join(b.complaints(), "\n") })
	if got := b.reached(); !slices.Equal(got, []string{"127.0.0.1:6690"}) {
		t.Errorf("the browser opened connections to %q", got)
	}
}
