package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pace-node/internal/control"
)

// cell is one request that fails a check and every later one that it can fail.
type cell struct {
	name   string
	method string
	path   string
	who    func(t *testing.T, p *Page) *browser
	change func(*http.Request)
	body   string
	status int
	reason string // "" = done
}

func onLoopback(b *browser) *browser { b.reach = control.Reach{Loopback: true}; return b }

const pause = "/api/v1/queue/pause"

func bearing(text string, reach control.Reach) func(*testing.T, *Page) *browser {
	return func(_ *testing.T, p *Page) *browser { return &browser{p: p, bearer: text, reach: reach} }
}

// tired is a source of too many wrong tokens.
func tired(_ *testing.T, p *Page) *browser {
	b := &browser{p: p, bearer: "wrong", from: "10.9.9.9:1"}
	for range triesMost {
		b.ask(http.MethodGet, "/api/v1/fleet", "")
	}
	return b
}

const token = "a-token-of-more-than-twenty-characters"

var beyond = control.Reach{TLS: true}

var cells = []cell{
	{"no such path, by nobody, with nothing", http.MethodPost, "/api/v1/nothing", tired, nil, "{", http.StatusNotFound, "path"},
	{"a document is not posted", http.MethodPost, "/api/v1/fleet", tired, nil, "{", http.StatusMethodNotAllowed, "method"},
	{"a change is not got", http.MethodGet, pause, tired, nil, "", http.StatusMethodNotAllowed, "method"},
	{"without the header", http.MethodPost, pause, tired, nil, "{", http.StatusForbidden, "header"},
	{"too many wrong tokens", http.MethodPost, pause, tired, withHeader, "{", http.StatusTooManyRequests, "tries"},
	{"a wrong token", http.MethodPost, pause, bearing("wrong", beyond), withHeader, "{", http.StatusUnauthorized, "token"},
	{"a wrong token reads nothing either where reading is open", http.MethodGet, "/api/v1/fleet", bearing("wrong", control.Reach{Loopback: true}), nil, "", http.StatusUnauthorized, "token"},
	{"no session", http.MethodPost, pause, nil, withHeader, "{", http.StatusUnauthorized, "session"},
	{"beyond loopback, reading", http.MethodGet, "/api/v1/fleet", func(_ *testing.T, p *Page) *browser { return &browser{p: p, reach: beyond} }, nil, "", http.StatusUnauthorized, "session"},
	{"beyond loopback, the stream", http.MethodGet, "/api/v1/events", func(_ *testing.T, p *Page) *browser { return &browser{p: p, reach: beyond} }, nil, "", http.StatusUnauthorized, "session"},
	{"a body that is none", http.MethodPost, pause, signedIn, nil, "{", http.StatusBadRequest, "body"},
	{"a body that is a form", http.MethodPost, pause, signedIn, func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, "{}", http.StatusBadRequest, "body"},
	{"a change by who may", http.MethodPost, pause, signedIn, nil, "{}", 200, ""},
	{"a change under the token", http.MethodPost, pause, bearing(token, beyond), nil, "{}", 200, ""},
	{"reading under the token", http.MethodGet, "/api/v1/fleet", bearing(token, beyond), nil, "", 200, ""},
	{"reading on loopback", http.MethodGet, "/api/v1/fleet", nil, nil, "", 200, ""},
	{"the session's state, beyond loopback", http.MethodGet, "/api/v1/session", func(_ *testing.T, p *Page) *browser { return &browser{p: p, reach: beyond} }, nil, "", 200, ""},
}

func withHeader(r *http.Request) { r.Header.Set(HeaderName, "x") }

func checkCells(t *testing.T) error {
	for _, c := range cells {
		p := newPage(t, &fakeNode{}, withToken(t))
		b := onLoopback(&browser{p: p})
		if c.who != nil {
			b = c.who(t, p)
		}
		w := func() (w *httptest.ResponseRecorder) {
			defer func() {
				if recover() != nil {
					w = httptest.NewRecorder() // a check before it was to catch this
					w.Code = 0
				}
			}()
			if c.change == nil {
				return b.ask(c.method, c.path, c.body)
			}
			return b.ask(c.method, c.path, c.body, c.change)
		}()
		if w.Code != c.status || c.reason != "" && !strings.Contains(w.Body.String(), `"code":"`+c.reason+`"`) {
			return fmt.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
	}
	return nil
}

func TestChecks(t *testing.T) {
	if err := checkCells(t); err != nil {
		t.Fatal(err)
	}
}

func TestMutationChecks(t *testing.T) {
	for i := range Checks {
		was := Checks[i].Fails
		Checks[i].Fails = func(*request) bool { return false }
		if checkCells(t) == nil {
			t.Errorf("row %s left out goes unseen", Checks[i].Reason)
		}
		Checks[i].Fails = was
	}
	for i := 1; i < len(Checks); i++ {
		Checks[i-1], Checks[i] = Checks[i], Checks[i-1]
		err := checkCells(t)
		Checks[i-1], Checks[i] = Checks[i], Checks[i-1]
		if err == nil && !(Checks[i-1].Reason == "tries" && Checks[i].Reason == "token") { // of which one request is either
			t.Errorf("rows %s and %s exchanged go unseen", Checks[i-1].Reason, Checks[i].Reason)
		}
	}
}

// TestEveryReasonIsCounted: whatever refuses has its series.
func TestEveryReasonIsCounted(t *testing.T) {
	for _, c := range Checks {
		found := false
		for _, r := range control.AdminRefusals {
			found = found || r == c.Reason
		}
		if !found {
			t.Errorf("%s is no reason of the metric", c.Reason)
		}
	}
}
