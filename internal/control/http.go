package control

import (
	"context"
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

// HTTPConfig is what --admin-listen serves.
type HTTPConfig struct {
	Addr    string                                              // host:port; "" = off
	Metrics *Metrics                                            //
	Health  func() HealthFacts                                  // called at each request; quick
	Hosts   func() []string                                     // names that this machine is asked by, beside localhost and any address; nil = none
	Board   *Board                                              // admin-endpoint-off
	Logger  *slog.Logger                                        // nil: nothing is logged
	Listen  func(network, address string) (net.Listener, error) // nil = net.Listen
}

// HTTP serves metrics and health.
type HTTP struct {
	cfg    HTTPConfig
	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup
	mu     sync.Mutex
	addr   net.Addr
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

// listen opens the address, or raises the condition and returns nil.
func (h *HTTP) listen() net.Listener {
	l, err := h.cfg.Listen("tcp", h.cfg.Addr)
	if err != nil {
		h.cfg.Board.Raise("admin-endpoint-off", fmt.Sprintf("%s (--admin-listen): %v", h.cfg.Addr, err))
		return nil
	}
	h.mu.Lock()
	h.addr = l.Addr()
	h.mu.Unlock()
	h.cfg.Board.Clear("admin-endpoint-off")
	return l
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
	server := &http.Server{
		Handler: h.Handler(), ReadHeaderTimeout: httpHeaderTime, ReadTimeout: httpTime, WriteTimeout: httpTime,
		IdleTimeout: httpIdle, MaxHeaderBytes: httpHeaderMost, ErrorLog: slog.NewLogLogger(h.cfg.Logger.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(h.ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		h.cfg.Board.Raise("admin-endpoint-off", fmt.Sprintf("%s (--admin-listen): %v", h.cfg.Addr, err))
	}
	server.Close()
}

// Handler serves /metrics, /healthz and /readyz. A request whose Host is neither
// an address, nor localhost, nor a name of this machine is refused: a page that
// points its own name at this machine's address is no reader of ours. Nothing here
// changes anything, so only GET and HEAD are taken.
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
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		switch {
		case !h.hostAllowed(r.Host):
			h.cfg.Metrics.Add("pace_admin_requests_refused_total", 1, "host")
			http.Error(w, "this node is not called by that name", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.cfg.Metrics.Add("pace_admin_requests_refused_total", 1, "method")
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		default:
			mux.ServeHTTP(w, r)
		}
	})
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
