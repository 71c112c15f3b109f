package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func healthy() HealthFacts {
	return HealthFacts{Alive: true, Loaded: true, Bound: true, Mode: "learner", LeaderID: idA, Leader: "10.1.0.2:6674", SilentFor: time.Second}
}

// wantReady is written out from the operator's page: ready once the state is
// loaded and the sockets are bound, not once a learner or voter has heard no
// leader for 90 s.
var wantReady = []struct {
	name   string
	change func(*HealthFacts)
	says   string
}{
	{"ready", func(*HealthFacts) {}, ""},
	{"not loaded before anything else", func(f *HealthFacts) { f.Loaded, f.Bound, f.SilentFor = false, false, time.Hour }, "not loaded"},
	{"not bound before silence", func(f *HealthFacts) { f.Bound, f.SilentFor = false, time.Hour }, "not bound"},
	{"89.9 s of silence", func(f *HealthFacts) { f.SilentFor = 89_900 * time.Millisecond }, ""},
	{"90 s of silence", func(f *HealthFacts) { f.SilentFor = 90 * time.Second }, "no leader"},
	{"95 s on a voter", func(f *HealthFacts) { f.Mode, f.SilentFor = "voter", 95*time.Second }, "no leader"},
	{"a fleet of one has no other leader", func(f *HealthFacts) { f.Mode, f.SilentFor = "solitary", time.Hour }, ""},
	{"pending serves its own fleet of one", func(f *HealthFacts) { f.Mode, f.SilentFor = "pending", time.Hour }, ""},
}

func checkReady() error {
	for _, c := range wantReady {
		f := healthy()
		c.change(&f)
		got := ready(f)
		if (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			return fmt.Errorf("%s: %q", c.name, got)
		}
	}
	return nil
}

func TestReady(t *testing.T) {
	if err := checkReady(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationReadiness(t *testing.T) {
	for i := range Readiness {
		was := Readiness[i].Not
		Readiness[i].Not = func(f HealthFacts) bool { return !was(f) }
		if checkReady() == nil {
			t.Errorf("row %d flipped goes unseen", i)
		}
		Readiness[i].Not = was
	}
	for i := range len(Readiness) - 1 {
		Readiness[i], Readiness[i+1] = Readiness[i+1], Readiness[i]
		if checkReady() == nil {
			t.Errorf("rows %d and %d exchanged go unseen", i, i+1)
		}
		Readiness[i], Readiness[i+1] = Readiness[i+1], Readiness[i]
	}
	if err := checkReady(); err != nil {
		t.Fatal(err)
	}
}

func get(h http.Handler, method, host, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHosts(t *testing.T) {
	metrics := NewMetrics(nil, nil)
	h := (&HTTP{cfg: HTTPConfig{Metrics: metrics, Health: healthy, Hosts: func() []string { return []string{"web1", "Web1.corp.test"} }}}).Handler()
	for _, c := range []struct {
		host string
		ok   bool
	}{
		{"localhost:6690", true}, {"localhost", true}, {"LOCALHOST:6690", true}, {"127.0.0.1:6690", true}, {"[::1]:6690", true}, {"[::1]", true}, {"10.1.0.2:6690", true},
		{"web1:6690", true}, {"web1.corp.test:6690", true}, {"WEB1.corp.test.", true},
		{"evil.example:6690", false}, {"evil.example", false}, {"localhost.evil.example", false}, {"127.0.0.1.evil.example:6690", false}, {"", false},
		{"web1.evil.example", false}, {"evil.example:6690:1", false},
	} {
		for _, path := range []string{"/metrics", "/healthz", "/readyz", "/"} {
			got := get(h, http.MethodGet, c.host, path).Code
			if refused := got == http.StatusForbidden; refused == c.ok {
				t.Errorf("Host %q on %s: %d", c.host, path, got)
			}
		}
	}
	if n := metrics.own[seriesKey("pace_admin_requests_refused_total", []string{"host"})]; n != 7*4 {
		t.Errorf("%v counted", n)
	}
	none := (&HTTP{cfg: HTTPConfig{Metrics: metrics, Health: healthy}}).Handler()
	if got := get(none, http.MethodGet, "web1", "/healthz").Code; got != http.StatusForbidden {
		t.Errorf("a name without names: %d", got)
	}
}

func TestOnlyReads(t *testing.T) {
	metrics := NewMetrics(nil, nil)
	h := (&HTTP{cfg: HTTPConfig{Metrics: metrics, Health: healthy}}).Handler()
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, "BREW"} {
		if w := get(h, method, "localhost", "/metrics"); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	if w := get(h, http.MethodHead, "localhost", "/healthz"); w.Code != http.StatusOK {
		t.Errorf("HEAD: %d", w.Code)
	}
	if w := get(h, http.MethodGet, "localhost", "/nothing"); w.Code != http.StatusNotFound {
		t.Errorf("unknown path: %d", w.Code)
	}
	if w := get(h, http.MethodGet, "localhost", "/metrics"); w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", w.Header())
	}
}

func TestHealthPages(t *testing.T) {
	facts := healthy()
	h := (&HTTP{cfg: HTTPConfig{Metrics: NewMetrics(nil, nil), Health: func() HealthFacts { return facts }}}).Handler()
	page := func(path string) (int, Health) {
		w := get(h, http.MethodGet, "localhost", path)
		var d Health
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Header().Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %v: %s", path, err, w.Body)
		}
		return w.Code, d
	}
	if code, d := page("/readyz"); code != 200 || d != (Health{V: 1, Status: "ok", Mode: "learner", LeaderID: idA, Leader: "10.1.0.2:6674", SilentMS: 1000}) {
		t.Errorf("%d %+v", code, d)
	}
	facts.SilentFor = 95 * time.Second
	if code, d := page("/readyz"); code != 503 || !strings.Contains(d.Status, "no leader") || d.SilentMS != 95_000 {
		t.Errorf("%d %+v", code, d)
	}
	if code, _ := page("/healthz"); code != 200 {
		t.Errorf("a node without a leader is alive: %d", code)
	}
	facts.Alive = false
	if code, d := page("/healthz"); code != 503 || !strings.Contains(d.Status, "loop") {
		t.Errorf("%d %+v", code, d)
	}
}

func TestHTTPServesAndStops(t *testing.T) {
	board := NewBoard(nil)
	h := StartHTTP(HTTPConfig{Addr: "127.0.0.1:0", Metrics: NewMetrics(board, nil), Health: healthy, Board: board})
	defer h.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + h.Addr() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, r.Body)
	r.Body.Close()
	if r.StatusCode != 200 || board.Raised("admin-endpoint-off") {
		t.Errorf("%d, %+v", r.StatusCode, board.List())
	}
	addr := h.Addr()
	h.Close()
	if _, err := client.Get("http://" + addr + "/readyz"); err == nil {
		t.Error("it still serves")
	}
	off := StartHTTP(HTTPConfig{})
	if off.Addr() != "" {
		t.Error("nothing was to be served")
	}
	off.Close()
}

// quietListener accepts nobody until it is closed.
type quietListener struct {
	closed chan struct{}
	once   sync.Once
}

func (l *quietListener) Accept() (net.Conn, error) { <-l.closed; return nil, net.ErrClosed }
func (l *quietListener) Close() error              { l.once.Do(func() { close(l.closed) }); return nil }
func (l *quietListener) Addr() net.Addr            { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6690} }

// TestTakenAddressStandsDown: the condition names the address and the flag, and
// goes once the address is free.
func TestTakenAddressStandsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		board := NewBoard(nil)
		var mu sync.Mutex
		taken := true
		h := StartHTTP(HTTPConfig{Addr: "127.0.0.1:6690", Metrics: NewMetrics(board, nil), Health: healthy, Board: board, Listen: func(string, string) (net.Listener, error) {
			mu.Lock()
			defer mu.Unlock()
			if taken {
				return nil, errors.New("address already in use")
			}
			return &quietListener{closed: make(chan struct{})}, nil
		}})
		l := board.List()
		if len(l) != 1 || l[0].ID != "admin-endpoint-off" || !strings.Contains(l[0].Detail, "127.0.0.1:6690") || !strings.Contains(l[0].Detail, "--admin-listen") || h.Addr() != "" {
			t.Fatalf("%+v", l)
		}
		mu.Lock()
		taken = false
		mu.Unlock()
		time.Sleep(httpRetry + time.Second)
		synctest.Wait()
		if board.Raised("admin-endpoint-off") || h.Addr() != "127.0.0.1:6690" {
			t.Errorf("not tried again: %+v %q", board.List(), h.Addr())
		}
		h.Close()

		taken = true
		h = StartHTTP(HTTPConfig{Addr: "127.0.0.1:6690", Metrics: NewMetrics(board, nil), Health: healthy, Board: board, Listen: func(string, string) (net.Listener, error) {
			return nil, errors.New("in use")
		}})
		h.Close() // while it waits for the next try
	})
}
