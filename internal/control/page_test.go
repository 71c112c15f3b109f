package control

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// pageCells are written out from the specification: open on loopback; beyond it only over TLS, with a token.
var pageCells = []struct {
	name string
	f    PageFacts
	says string // "" = served
}{
	{"loopback", PageFacts{Loopback: true}, ""},
	{"loopback over TLS", PageFacts{Loopback: true, TLS: true}, ""},
	{"loopback, plain beside a certificate and a token", PageFacts{Loopback: true, Credential: true}, ""},
	{"beyond it, with nothing", PageFacts{}, "--admin-tls-cert, --admin-tls-key and --admin-token-file"},
	{"beyond it, over TLS without a token", PageFacts{TLS: true}, "--admin-token-file"},
	{"beyond it, plain beside a certificate and a token", PageFacts{Credential: true}, "https only"},
	{"beyond it, with everything", PageFacts{Credential: true, TLS: true}, ""},
}

func checkPageRules() error {
	for _, c := range pageCells {
		got := pageOff(c.f)
		if (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			return fmt.Errorf("%s: %q", c.name, got)
		}
	}
	return nil
}

func TestPageRules(t *testing.T) {
	if err := checkPageRules(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationPageRules(t *testing.T) {
	for i := range PageRules {
		was := PageRules[i].Not
		PageRules[i].Not = func(f PageFacts) bool { return !was(f) }
		if checkPageRules() == nil {
			t.Errorf("row %d flipped goes unseen", i)
		}
		PageRules[i].Not = was
	}
	PageRules[0], PageRules[1] = PageRules[1], PageRules[0]
	if checkPageRules() == nil {
		t.Error("rows exchanged go unseen")
	}
	PageRules[0], PageRules[1] = PageRules[1], PageRules[0]
}

// stubPage answers with how a request came.
type stubPage struct{}

func (stubPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %+v", r.Method, ReachOf(r.Context()))
}
func (stubPage) Close() {}

func TestPageIsServedOnLoopbackOnly(t *testing.T) {
	metrics := NewMetrics(nil, nil)
	h := &HTTP{local: true, cfg: HTTPConfig{Metrics: metrics, Health: healthy, Page: stubPage{}}}
	if w := get(h.Handler(), http.MethodGet, "localhost:6690", "/"); w.Code != 200 || w.Body.String() != "GET {Loopback:true TLS:false}" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := get(h.Handler(), http.MethodPost, "localhost:6690", "/api/v1/session"); w.Code != 200 {
		t.Errorf("the API takes changes: %d", w.Code)
	}
	if w := get(h.Handler(), http.MethodPost, "localhost:6690", "/"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("the page takes none: %d", w.Code)
	}
	h.local = false
	for _, path := range []string{"/", "/page.js", "/api/v1/fleet", "/api/v1/session"} {
		if w := get(h.Handler(), http.MethodGet, "10.1.0.2:6690", path); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "--admin-token-file") {
			t.Errorf("%s beyond loopback: %d %s", path, w.Code, w.Body)
		}
	}
	if w := get(h.Handler(), http.MethodGet, "10.1.0.2:6690", "/metrics"); w.Code != 200 {
		t.Errorf("metrics are plain at any address: %d", w.Code)
	}
	if n := metrics.own[seriesKey("pace_admin_requests_refused_total", []string{"not-served"})]; n != 4 {
		t.Errorf("%v counted", n)
	}
}

// TestOrigins: who is at another origin reads nothing, at any path, and what a browser says of the site is believed for the API.
func TestOrigins(t *testing.T) {
	h := (&HTTP{local: true, cfg: HTTPConfig{Metrics: NewMetrics(nil, nil), Health: healthy, Page: stubPage{}}}).Handler()
	for _, c := range []struct {
		origin, site string
		page, api    bool
	}{
		{"", "", true, true},
		{"http://localhost:6690", "same-origin", true, true},
		{"HTTP://LOCALHOST:6690", "", true, true},
		{"http://localhost:6691", "same-site", false, false}, // another program on this machine
		{"https://localhost:6690", "", false, false},
		{"http://evil.example", "cross-site", false, false},
		{"null", "", false, false},
		{"", "none", true, true}, // typed into the address bar
		{"", "cross-site", true, false},
		{"", "same-site", true, false},
		{"", "same-origin", true, true},
	} {
		for path, ok := range map[string]bool{"/": c.page, "/metrics": c.page, "/healthz": c.page, "/api/v1/fleet": c.api} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = "localhost:6690"
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			if c.site != "" {
				r.Header.Set("Sec-Fetch-Site", c.site)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if (w.Code == 200) != ok {
				t.Errorf("origin %q site %q path %s: %d", c.origin, c.site, path, w.Code)
			}
		}
	}
}
