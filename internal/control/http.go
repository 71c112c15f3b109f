package control

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	// silentNotReady: a learner or voter that has heard no leader for 90 s is not
	// ready.
	silentNotReady = 90 * time.Second
	// httpRetry is how often a taken address is tried again.
	httpRetry = 30 * time.Second
	// Times of a request: metrics are gathered in milliseconds, and a scraper
	// gives up after ten seconds.
	httpHeaderTime = 5 * time.Second
	httpTime       = 15 * time.Second
	httpIdle       = 60 * time.Second
	httpHeaderMost = 16 << 10 // bytes
)

// HealthFacts is what the health pages are worked out from.
type HealthFacts struct {
	Alive     bool          // the event loop turns
	Loaded    bool          // the state directory's record and the state are read
	Bound     bool          // the sockets are bound
	Mode      string        // solitary, pending, learner, voter
	LeaderID  string        // "" while none is known
	Leader    string        // its 0xFC endpoint
	SilentFor time.Duration // since a leader was heard; 0 where this node leads
}

// Health is the answer of /healthz and /readyz.
type Health struct {
	V        int    `json:"v"`
	Status   string `json:"status"` // ok, or why not
	Mode     string `json:"mode"`
	LeaderID string `json:"leader_id"`
	Leader   string `json:"leader"`
	SilentMS int64  `json:"leader_silent_ms"`
}

// ReadyRow is one check of readiness, in the order of the answers.
type ReadyRow struct {
	Not  func(HealthFacts) bool
	Says string
}

// Readiness is the table of those.
var Readiness = []ReadyRow{
	{func(f HealthFacts) bool { return !f.Loaded }, "the state is not loaded yet"},
	{func(f HealthFacts) bool { return !f.Bound }, "the sockets are not bound yet"},
	{func(f HealthFacts) bool {
		return (f.Mode == "learner" || f.Mode == "voter") && f.SilentFor >= silentNotReady
	}, "no leader has been heard for 90 s"},
}

// ready returns why a node is not ready, "" if it is.
func ready(f HealthFacts) string {
	for _, r := range Readiness {
		if r.Not(f) {
			return r.Says
		}
	}
	return ""
}

// Page is the web page with its API.
type Page interface {
	http.Handler
	// Close ends what lasts, and waits for it.
	Close()
}

// Reach says how a request for the page came.
type Reach struct {
	Loopback bool // the listener is on loopback, where reading is open
	TLS      bool // the connection is
}

type reachKey struct{}

// WithReach is a request's context that says how it came.
func WithReach(ctx context.Context, r Reach) context.Context {
	return context.WithValue(ctx, reachKey{}, r)
}

// ReachOf says how a request came; by default neither way.
func ReachOf(ctx context.Context) Reach {
	r, _ := ctx.Value(reachKey{}).(Reach)
	return r
}

// PageFacts is what decides whether the page is served.
type PageFacts struct {
	Loopback   bool // the listener is
	Credential bool // certificate, key and token are given
	TLS        bool // the connection speaks it
}

// PageRow is one check of that, in the order of the answers.
type PageRow struct {
	Not  func(PageFacts) bool
	Says string
}

// PageRules is the table of those.
var PageRules = []PageRow{
	{func(f PageFacts) bool { return !f.Loopback && !f.Credential },
		"beyond loopback the web page is served only with --admin-tls-cert, --admin-tls-key and --admin-token-file"},
	{func(f PageFacts) bool { return !f.Loopback && !f.TLS }, "beyond loopback the web page is served over https only"},
}

// pageOff returns why the page is not served, "" if it is.
func pageOff(f PageFacts) string {
	for _, r := range PageRules {
		if r.Not(f) {
			return r.Says
		}
	}
	return ""
}

// HTTPConfig is what --admin-listen serves.
type HTTPConfig struct {
	Page    Page                                                // nil = none
	TLS     *tls.Config                                         // nil = plain connections only; else both, told apart by their first byte
	Token   bool                                                // --admin-token-file is given
	Addr    string                                              // host:port; "" = off
	Metrics *Metrics                                            //
	Health  func() HealthFacts                                  // called at each request; quick
	Hosts   func() []string                                     // names that this machine is asked by, beside localhost and any address; nil = none
	Board   *Board                                              // admin-endpoint-off
	Logger  *slog.Logger                                        // nil: nothing is logged
	Listen  func(network, address string) (net.Listener, error) // nil = net.Listen
}

// HTTP serves metrics, health and the page.
type HTTP struct {
	cfg    HTTPConfig
	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup
	mu     sync.Mutex
	addr   net.Addr
	local  bool // addr is on loopback
}

// StartHTTP begins to serve. An address that is taken stands down with the
// condition admin-endpoint-off, and is tried again every 30 s; nothing else of
// the node depends on it.
func StartHTTP(cfg HTTPConfig) *HTTP {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Board == nil {
		cfg.Board = NewBoard(nil)
	}
	if cfg.Listen == nil {
		cfg.Listen = net.Listen
	}
	h := &HTTP{cfg: cfg}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	if cfg.Addr == "" {
		return h
	}
	l := h.listen()
	h.wait.Add(1)
	go h.run(l)
	return h
}

// Addr returns where it serves, "" while it does not.
func (h *HTTP) Addr() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.addr == nil {
		return ""
	}
	return h.addr.String()
}

// Close stops serving and waits.
func (h *HTTP) Close() {
	h.cancel()
	h.wait.Wait()
}

// portOf is the port of host:port, for a person.
func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// listen opens the address, or raises the condition and returns nil.
func (h *HTTP) listen() net.Listener {
	l, err := h.cfg.Listen("tcp", h.cfg.Addr)
	if err != nil {
		h.cfg.Board.Raise("admin-endpoint-off", fmt.Sprintf("%s (--admin-listen): %v", h.cfg.Addr, err), portOf(h.cfg.Addr))
		return nil
	}
	h.mu.Lock()
	h.addr, h.local = l.Addr(), isLoopback(l.Addr())
	h.mu.Unlock()
	h.cfg.Board.Clear("admin-endpoint-off")
	h.sayPage()
	return l
}

func isLoopback(a net.Addr) bool {
	ap, err := netip.ParseAddrPort(a.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// sayPage says once it listens whether the page is served.
func (h *HTTP) sayPage() {
	if h.cfg.Page == nil {
		return
	}
	f := h.facts(h.cfg.TLS != nil)
	scheme := "http"
	if f.TLS {
		scheme = "https"
	}
	if why := pageOff(f); why != "" {
		h.cfg.Logger.Warn("web page not served", "admin-listen", h.Addr(), "why", why)
		return
	}
	h.cfg.Logger.Info("web page served", "address", scheme+"://"+h.Addr()+"/", "changes", "pacectl dashboard")
}

func (h *HTTP) facts(tls bool) PageFacts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return PageFacts{Loopback: h.local, Credential: h.cfg.TLS != nil && h.cfg.Token, TLS: tls}
}

// PageAt says where the page is served, "" while it is not, and why not.
func (h *HTTP) PageAt() (scheme, addr, why string) {
	if h == nil || h.cfg.Page == nil || h.cfg.Addr == "" {
		return "", "", "--admin-listen is empty, so nothing is served there"
	}
	addr = h.Addr()
	if addr == "" {
		return "", "", "the address of --admin-listen is taken or cannot be bound"
	}
	f := h.facts(h.cfg.TLS != nil)
	if scheme = "http"; f.TLS {
		scheme = "https"
	}
	return scheme, addr, pageOff(f)
}

func (h *HTTP) run(l net.Listener) {
	defer h.wait.Done()
	for l == nil {
		select {
		case <-h.ctx.Done():
			return
		case <-time.After(httpRetry):
			l = h.listen()
		}
	}
	gate := newDoor(func() { h.cfg.Metrics.Add("pace_admin_requests_refused_total", 1, "connections") })
	server := &http.Server{
		Handler: asked(h.Handler()), ReadHeaderTimeout: httpHeaderTime, ReadTimeout: httpTime, WriteTimeout: httpTime,
		ConnState: gate.state, ConnContext: gate.context,
		IdleTimeout: httpIdle, MaxHeaderBytes: httpHeaderMost, ErrorLog: slog.NewLogLogger(h.cfg.Logger.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(h.ctx, func() { server.Close(); l.Close() })
	defer stop()
	if err := h.serve(server, &bounded{l, gate}); err != nil && !errors.Is(err, http.ErrServerClosed) && h.ctx.Err() == nil {
		h.cfg.Board.Raise("admin-endpoint-off", fmt.Sprintf("%s (--admin-listen): %v", h.cfg.Addr, err), portOf(h.cfg.Addr))
	}
	server.Close()
	if h.cfg.Page != nil {
		h.cfg.Page.Close()
	}
}

// serve serves plain connections, and with a certificate beside them those that speak TLS.
func (h *HTTP) serve(server *http.Server, l *bounded) error {
	if h.cfg.TLS == nil {
		return server.Serve(l)
	}
	ctx, cancel := context.WithCancel(h.ctx)
	plain := &lane{addr: l.Addr(), conns: make(chan net.Conn), done: ctx.Done()}
	secure := &lane{addr: l.Addr(), conns: make(chan net.Conn), done: ctx.Done()}
	var wait sync.WaitGroup
	wait.Go(func() { server.Serve(plain) })
	wait.Go(func() { server.Serve(tls.NewListener(secure, h.cfg.TLS)) })
	err := split(ctx, l, plain, secure)
	cancel()
	server.Close()
	wait.Wait()
	return err
}

// Handler serves /metrics, /healthz, /readyz and the page. A request whose Host is neither
// an address, nor localhost, nor a name of this machine is refused: a page that
// points its own name at this machine's address is no reader of ours, nor is one of
// another origin. Nothing changes anything but the page's API, so elsewhere only GET
// and HEAD are taken.
func (h *HTTP) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", h.cfg.Metrics.Handler())
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		f := h.cfg.Health()
		why := ""
		if !f.Alive {
			why = "the event loop does not turn"
		}
		h.health(w, f, why)
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		f := h.cfg.Health()
		h.health(w, f, ready(f))
	})
	if h.cfg.Page != nil {
		mux.HandleFunc("/", h.page)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		changes := h.cfg.Page != nil && strings.HasPrefix(r.URL.Path, PageAPI)
		switch {
		case !h.hostAllowed(r.Host):
			h.refuse(w, "host", "this node is not called by that name", http.StatusForbidden)
		case !originAllowed(r):
			h.refuse(w, "origin", "another site asks", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead && !changes:
			w.Header().Set("Allow", "GET, HEAD")
			h.refuse(w, "method", "only GET and HEAD", http.StatusMethodNotAllowed)
		default:
			mux.ServeHTTP(w, r)
		}
	})
}

// PageAPI is where the API of the page begins.
const PageAPI = "/api/"

func (h *HTTP) refuse(w http.ResponseWriter, reason, text string, status int) {
	h.cfg.Metrics.Add("pace_admin_requests_refused_total", 1, reason)
	http.Error(w, text, status)
}

// page hands a request to the page where it is served.
func (h *HTTP) page(w http.ResponseWriter, r *http.Request) {
	f := h.facts(r.TLS != nil)
	if why := pageOff(f); why != "" {
		h.refuse(w, "not-served", why, http.StatusNotFound)
		return
	}
	h.cfg.Page.ServeHTTP(w, r.WithContext(WithReach(r.Context(), Reach{Loopback: f.Loopback, TLS: f.TLS})))
}

// originAllowed judges where a browser says that a request comes from. A program that is no browser says nothing.
func originAllowed(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); strings.HasPrefix(r.URL.Path, PageAPI) && site != "" && site != "same-origin" && site != "none" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return strings.EqualFold(origin, scheme+r.Host)
}

func (h *HTTP) health(w http.ResponseWriter, f HealthFacts, why string) {
	status := http.StatusOK
	if why != "" {
		status = http.StatusServiceUnavailable
	}
	b, err := marshal(Health{
		V: DocumentVersion, Status: orText(why, "ok"), Mode: f.Mode, LeaderID: f.LeaderID, Leader: f.Leader, SilentMS: f.SilentFor.Milliseconds(),
	})
	if err != nil {
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
}

// hostAllowed judges the Host header.
func (h *HTTP) hostAllowed(host string) bool {
	if host == "" {
		return false
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if name == "localhost" {
		return true
	}
	if h.cfg.Hosts == nil {
		return false
	}
	for _, own := range h.cfg.Hosts() {
		if own != "" && strings.ToLower(own) == name {
			return true
		}
	}
	return false
}
