package page

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/wire"
)

const (
	idA  = "0123456789abcdef0123456789abcdef"
	keyA = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
)

// fakeNode is a backend that answers with what it is given and keeps what it was asked.
type fakeNode struct {
	control.Backend
	mu      sync.Mutex
	asked   []string
	fleet   control.ClusterStatus
	waiting control.EnrollList
	audit   control.AuditList
	fail    error // of every change
	away    error // of the waiting list
	hold    chan struct{}
}

func (f *fakeNode) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, what)
}

func (f *fakeNode) changes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, a := range f.asked {
		if !strings.HasPrefix(a, "read ") {
			out = append(out, a)
		}
	}
	return out
}

func (f *fakeNode) set(change func(*fakeNode)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeNode) Status(_ context.Context, p control.Peer, r wire.StatusRequest) (json.RawMessage, error) {
	if !p.Local {
		return nil, wire.NewError(wire.CodeNotMember, "", "")
	}
	f.note("read " + r.What)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r.What {
	case "node":
		return json.Marshal(control.NodeStatus{V: 1, Name: "alder"})
	case "cluster":
		return json.Marshal(f.fleet)
	case "follows":
		return json.Marshal(control.FollowList{V: 1})
	case "audit":
		return json.Marshal(f.audit)
	}
	return nil, wire.NewError(wire.CodeRefusedByRule, "no such status", "")
}

func (f *fakeNode) EnrollControl(_ context.Context, _ control.Peer, c wire.EnrollControl) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.Op == wire.ControlList {
		if f.away != nil {
			return nil, f.away
		}
		return json.Marshal(f.waiting)
	}
	f.asked = append(f.asked, c.Op.String()+" "+string(bytes.ToValidUTF8(c.Argument, nil)))
	if f.fail != nil {
		return nil, f.fail
	}
	return json.Marshal(control.Done{V: 1, Said: "did it", Revision: 7})
}

func (f *fakeNode) Queue(_ context.Context, _ control.Peer, r wire.QueueRequest) (json.RawMessage, error) {
	if r.Op == "list" {
		return json.Marshal(control.QueueList{V: 1})
	}
	f.note("queue " + r.Op + " " + r.ID)
	f.mu.Lock()
	hold := f.hold
	f.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return json.Marshal(control.Done{V: 1, Said: "did it"})
}

func (f *fakeNode) Cluster(_ context.Context, _ control.Peer, r wire.ClusterRequest) (wire.ClusterAnswer, error) {
	f.note("cluster " + r.Op + " " + r.ID + " " + r.Endpoint)
	return wire.ClusterAnswer{Revision: 9, Text: "did it"}, nil
}

func newPage(t *testing.T, f *fakeNode, more ...func(*Config)) *Page {
	t.Helper()
	cfg := Config{Backend: f, Metrics: control.NewMetrics(nil, nil), Entropy: func(b []byte) { rand.Read(b) }}
	for _, m := range more {
		m(&cfg)
	}
	p := New(cfg)
	t.Cleanup(p.Close)
	return p
}

// browser asks a page as one does.
type browser struct {
	p      *Page
	reach  control.Reach
	cookie *http.Cookie
	secret string
	bearer string
	from   string
}

func (b *browser) ask(method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "localhost:6690"
	if b.from != "" {
		r.RemoteAddr = b.from
	}
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
		if b.secret != "" {
			r.Header.Set(HeaderName, b.secret)
		}
	}
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	if b.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+b.bearer)
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	b.p.ServeHTTP(w, r.WithContext(control.WithReach(r.Context(), b.reach)))
	return w
}

func read[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return v
}

// signedIn is a browser on loopback that opened the address of pacectl dashboard.
func signedIn(t *testing.T, p *Page) *browser {
	t.Helper()
	b := &browser{p: p, reach: control.Reach{Loopback: true}, secret: NewSession}
	token, _ := p.Ticket()
	w := b.ask(http.MethodPost, "/api/v1/session", `{"token":"`+token+`"}`)
	d := read[SessionDocument](t, w)
	if w.Code != 200 || d.Secret == "" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	b.cookie, b.secret = w.Result().Cookies()[0], d.Secret
	return b
}

func wantRefused(t *testing.T, w *httptest.ResponseRecorder, status int, reason string) {
	t.Helper()
	d := read[control.FailureDocument](t, w)
	if w.Code != status || d.Error.Code != reason || d.Error.Reason == "" || d.Error.Remedy == "" {
		t.Errorf("%d %+v, want %d %s", w.Code, d.Error, status, reason)
	}
}

// withToken gives a page the token.
func withToken(t *testing.T) func(*Config) {
	return func(c *Config) {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if c.Credentials, err = control.OpenCredentials(config.Config{AdminTokenFile: path}, nil); err != nil {
			t.Fatal(err)
		}
	}
}
