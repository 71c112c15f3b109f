package page

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/wire"
)

//go:embed assets
var assets embed.FS

// Policy is the page's content security policy: nothing but what this node serves, and no script or style inside the page.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// Names of what a browser sends.
const (
	// HeaderName is what every change carries: a page of another origin cannot set it, and its value is known to this page
	// only, while cookies go to every port of a machine.
	HeaderName = "X-Pace-Session"
	// NewSession is its value while there is no session.
	NewSession = "new"
)

// Bounds of requests.
const (
	bodyMost    = 4 << 10 // bytes of a change; ids and keys are shorter than 200
	actionsMost = 8       // changes at once
	actionTime  = 35 * time.Second
	readTime    = 5 * time.Second
	answerTime  = 15 * time.Second // for an answer to be taken, beyond the time to make it
)

// Config is what the page needs.
type Config struct {
	Backend control.Backend
	// Leader asks a verb of the machine that leads, under this machine's key; nil: nobody else is asked.
	Leader      func(ctx context.Context, v wire.Verb, payload []byte) ([]byte, error)
	Credentials *control.Credentials // nil: none
	Metrics     *control.Metrics     // nil: nothing is counted
	Logger      *slog.Logger         // nil: nothing is logged
	Entropy     func([]byte)         // fills with bytes that nobody can guess
}

// Page serves the page and its API. It may be used from many goroutines.
type Page struct {
	cfg      Config
	sessions *sessions
	live     *live
	actions  chan struct{}
}

// New makes a page.
func New(cfg Config) *Page {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Page{cfg: cfg, sessions: newSessions(cfg.Entropy), actions: make(chan struct{}, actionsMost)}
	p.live = newLive(p.document)
	return p
}

// Ticket makes a one-time token, and says for how long it is one.
func (p *Page) Ticket() (string, time.Duration) { return p.sessions.ticket(time.Now()), TicketLife }

// Close ends every stream, and waits for what feeds them.
func (p *Page) Close() { p.live.close() }

// local is who asks: an administrator of this machine, or who holds the token.
var local = control.Peer{Local: true}

// request is one request of the API, with what is known of who asks.
type request struct {
	p      *Page
	r      *http.Request
	route  *route
	known  bool // some route has the path
	header string
	read   bool
	change bool
	left   time.Duration
	bearer bearer
	body   map[string]string
	bad    error // of the body
}

// bearer is what an Authorization header was.
type bearer uint8

const (
	bearerNone bearer = iota
	bearerRight
	bearerWrong
	bearerTooMany // not judged
)

// check is one row of the checks of an API request. The first that fails is the answer, and its reason is counted.
type check struct {
	Reason string // one of control.AdminRefusals
	Status int
	Fails  func(*request) bool
	Says   string
	Remedy string
}

// Checks is the table of them, in order. What Host, Origin and Sec-Fetch-Site say was judged before.
var Checks = []check{
	{"path", http.StatusNotFound, func(q *request) bool { return !q.known }, "this version has no such path", "bring page and node to the same version: load the page again"},
	{"method", http.StatusMethodNotAllowed, func(q *request) bool { return q.route == nil }, "this path is not asked so", "load the page again"},
	{"header", http.StatusForbidden, func(q *request) bool { return q.route.Changes() && q.header == "" && q.bearer != bearerRight }, "a change needs the header " + HeaderName, "use the page, or Authorization: Bearer with the token of --admin-token-file"},
	{"tries", http.StatusTooManyRequests, func(q *request) bool { return q.bearer == bearerTooMany }, "too many wrong tokens came from there", "try again in a minute"},
	{"token", http.StatusUnauthorized, func(q *request) bool { return q.bearer == bearerWrong }, "the token is wrong", "look at the file of --admin-token-file"},
	{"session", http.StatusUnauthorized, func(q *request) bool { return q.needs() }, "this needs a session", "type pacectl dashboard on this machine, and open the address that it prints"},
	{"body", http.StatusBadRequest, func(q *request) bool { return q.bad != nil }, "the request does not read", "load the page again"},
}

// needs reports whether a session is missing: to change anything, and beyond loopback to read too.
func (q *request) needs() bool {
	switch {
	case q.route.Open:
		return false
	case q.route.Changes():
		return !q.change
	}
	return !q.read && !control.ReachOf(q.r.Context()).Loopback
}

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", Policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if !strings.HasPrefix(r.URL.Path, control.PageAPI) {
		p.asset(w, r)
		return
	}
	q := p.request(r)
	for _, c := range Checks {
		if c.Fails(q) {
			says := c.Says
			if c.Reason == "body" {
				says += ": " + q.bad.Error()
			}
			p.refuse(w, c.Reason, c.Status, says, c.Remedy)
			return
		}
	}
	q.route.Serve(p, w, q)
}

func (p *Page) count(reason string) {
	p.cfg.Metrics.Add("pace_admin_requests_refused_total", 1, reason)
}

// refuse answers with a failure of ours.
func (p *Page) refuse(w http.ResponseWriter, reason string, status int, says, remedy string) {
	p.count(reason)
	p.fail(w, status, control.Failure{Code: reason, Reason: says, Remedy: remedy, Exit: 1})
}

func (p *Page) fail(w http.ResponseWriter, status int, f control.Failure) {
	p.answer(w, status, &control.FailureDocument{V: control.DocumentVersion, Error: f})
}

func (p *Page) answer(w http.ResponseWriter, status int, doc any) {
	b, err := control.Encode(doc)
	if err != nil {
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
}

// types are the content types of assets by their ending.
var types = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func (p *Page) asset(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	if name == "" {
		name = "index.html"
	}
	kind := types[path.Ext(name)]
	b, err := assets.ReadFile("assets/" + name)
	if err != nil || kind == "" || strings.Contains(name, "/") {
		p.count("path")
		http.Error(w, "there is no such page", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Write(b)
}

// request gathers what the checks look at.
func (p *Page) request(r *http.Request) *request {
	q := &request{p: p, r: r, header: r.Header.Get(HeaderName)}
	for i := range routes {
		if routes[i].Path == r.URL.Path {
			q.known = true
			if routes[i].Method == r.Method || routes[i].Method == http.MethodGet && r.Method == http.MethodHead {
				q.route = &routes[i]
			}
		}
	}
	now := time.Now()
	if text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		q.bearer = p.judge(now, source(r), strings.TrimSpace(text))
		q.read, q.change = q.bearer == bearerRight, q.bearer == bearerRight
	} else {
		q.read, q.change, q.left = p.sessions.look(now, cookieOf(r), q.header)
	}
	if q.route != nil && q.route.Changes() && r.Method != http.MethodDelete {
		q.body, q.bad = readBody(r)
	}
	return q
}

// judge compares a typed token, of which each source may have some wrong.
func (p *Page) judge(now time.Time, from, text string) bearer {
	switch {
	case !p.cfg.Credentials.HasToken():
		return bearerWrong
	case !p.sessions.mayTry(now, from):
		return bearerTooMany
	case p.cfg.Credentials.Opens(text):
		return bearerRight
	}
	p.sessions.wrong(now, from)
	return bearerWrong
}

func source(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// readBody reads one flat JSON object of texts.
func readBody(r *http.Request) (map[string]string, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, errors.New("its content type is not application/json")
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, bodyMost+1))
	if err != nil {
		return nil, errors.New("it did not come whole")
	}
	return parseBody(b)
}

func parseBody(b []byte) (map[string]string, error) {
	if len(b) > bodyMost {
		return nil, fmt.Errorf("it has more than %d bytes", bodyMost)
	}
	var body map[string]string
	if err := json.Unmarshal(b, &body); err != nil || body == nil {
		return nil, errors.New("it is no object of texts")
	}
	return body, nil
}

// cookieName is the cookie's: cookies are of a machine and not of a port, so the port is in the name.
func cookieName(r *http.Request) string {
	port := "default"
	if _, p, err := net.SplitHostPort(r.Host); err == nil && p != "" {
		port = p
	}
	if r.TLS != nil {
		return "__Host-pace_" + port
	}
	return "pace_" + port
}

func cookieOf(r *http.Request) string {
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return ""
	}
	return c.Value
}
