package netio

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Handler is what the node gives to a hub.
type Handler interface {
	// ServeStream serves one stream that the peer opened and on which a request's header has come, on its own goroutine;
	// the hub closes the stream afterwards. ctx ends with the session. What lasts may be left to the stream's method
	// Then(func()), which the hub calls when ServeStream has returned.
	ServeStream(ctx context.Context, s *Session, stream net.Conn)
	// SessionOpened is called before the session's first stream is served, SessionClosed once after it ended; handlers
	// may still be running then, with their context ended. Neither may block or close the hub.
	SessionOpened(s *Session)
	SessionClosed(s *Session, why error)
}

// Dialer dials TCP, in the shape of net.Dialer.DialContext.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// HubConfig is what NewHub needs.
type HubConfig struct {
	Key       identity.PrivateKey
	ALPN      string // empty: ProtocolSession
	Handler   Handler
	Logger    *slog.Logger // nil: silent
	Admission AdmissionFacts
	Dialer    Dialer // nil: net.Dialer
	Loopback  bool   // --discovery-loopback
	// Duplicate is told once of two living inbound sessions of one member's key that both answer; may be nil. It must
	// not block or close the hub.
	Duplicate func(older, newer *Session)
}

// Hub holds the sessions of the 0xFC endpoint.
type Hub struct {
	cfg    HubConfig
	noise  *noise
	shows  *presenter
	server *tls.Config
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{} // the janitor has an earlier deadline
	counts refusalCounts

	mu         sync.Mutex
	closed     bool
	wait       sync.WaitGroup // added to only under mu while not closed
	listeners  map[net.Listener]struct{}
	sessions   map[uint64]*Session
	byKey      map[identity.PublicKey][]*Session // oldest first
	handshakes handshakes
	lingering  int
	pairs      map[pair]struct{}
	dialing    map[identity.PublicKey]chan struct{} // closed when the dial is over
	admission  *Admission
	next       uint64
}

// NewHub makes a hub. Close ends it.
func NewHub(cfg HubConfig) *Hub {
	if cfg.ALPN == "" {
		cfg.ALPN = ProtocolSession
	}
	if cfg.Dialer == nil {
		cfg.Dialer = (&net.Dialer{}).DialContext
	}
	h := &Hub{
		cfg: cfg, noise: newNoise(cfg.Logger),
		shows:      newPresenter(cfg.Key),
		wake:       make(chan struct{}, 1),
		listeners:  map[net.Listener]struct{}{},
		sessions:   map[uint64]*Session{},
		byKey:      map[identity.PublicKey][]*Session{},
		handshakes: handshakes{loopback: cfg.Loopback},
		pairs:      map[pair]struct{}{},
		dialing:    map[identity.PublicKey]chan struct{}{},
		admission:  NewAdmission(cfg.Admission, cfg.Loopback),
	}
	h.server = h.shows.server(cfg.ALPN)
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.goes(h.janitor)
	return h
}

// goes runs f on a goroutine that Close waits for; false after Close.
func (h *Hub) goes(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.wait.Add(1)
	go func() {
		defer h.wait.Done()
		f()
	}()
	return true
}

// Close ends every listener, session and stream, and waits for their goroutines, handlers included.
func (h *Hub) Close() {
	h.mu.Lock()
	first := !h.closed
	h.closed = true
	listeners, sessions := h.listeners, h.all()
	h.listeners = map[net.Listener]struct{}{}
	h.mu.Unlock()
	if first {
		h.cancel()
		for l := range listeners {
			_ = l.Close()
		}
		var wg sync.WaitGroup
		for _, s := range sessions {
			wg.Go(func() { s.Close(nil) })
		}
		wg.Wait()
	}
	h.wait.Wait()
}

// all returns the sessions by opening. The caller holds mu.
func (h *Hub) all() []*Session {
	out := make([]*Session, 0, len(h.sessions))
	for _, s := range h.sessions {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Session) int { return int(int64(a.id) - int64(b.id)) })
	return out
}

// Sessions returns the open sessions, oldest first.
func (h *Hub) Sessions() []*Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all()
}

// ByKey returns the session to reach a key by: the oldest that carried a request which only a node sends, else the newest
// that carried none yet; nil if there is none. FleetSummary and the verbs of an operator are no such requests.
func (h *Hub) ByKey(key identity.PublicKey) *Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.best(key)
}

// best is ByKey. The caller holds mu.
func (h *Hub) best(key identity.PublicKey) *Session {
	var best *Session
	for _, s := range h.byKey[key] {
		if s.ctx.Err() != nil {
			continue
		}
		switch sessionUse(s.use.Load()) {
		case useLasting:
			return s
		case useUnknown:
			best = s
		}
	}
	return best
}

// CloseKey closes every session of a key and returns how many there were.
func (h *Hub) CloseKey(key identity.PublicKey, reason error) int {
	h.mu.Lock()
	list := slices.Clone(h.byKey[key])
	h.mu.Unlock()
	for _, s := range list {
		s.Close(reason)
	}
	return len(list)
}

// Refused returns how many connections, sessions and requests were refused for one reason.
func (h *Hub) Refused(r Refusal) uint64 { return h.counts.get(r) }

// SessionKinds are the labels of pace_sessions{kind}.
var SessionKinds = []string{"inbound", "outbound", "stranger"}

// Count returns the open sessions by kind; every kind is there.
func (h *Hub) Count() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	strangers, inbound := h.admission.Strangers(), 0
	for _, s := range h.sessions {
		if s.inbound {
			inbound++
		}
	}
	return map[string]int{"inbound": inbound - strangers, "outbound": len(h.sessions) - inbound, "stranger": strangers}
}

// Dial opens a session with the machine at endpoint, host:port; want is the key that must answer, nil for any. Without
// a deadline in ctx it takes at most 10 s. A second session to one key is the caller's matter: Connect avoids it.
func (h *Hub) Dial(ctx context.Context, endpoint string, want *identity.PublicKey) (*Session, error) {
	if !wire.ValidEndpoint(endpoint) {
		return nil, fmt.Errorf("dial %q: not a host:port", endpoint)
	}
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	raw, err := h.cfg.Dialer(ctx, "tcp", endpoint)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", endpoint, h.gone(err))
	}
	conn := tls.Client(raw, h.shows.client(h.cfg.ALPN, want))
	hctx, hcancel := context.WithTimeout(ctx, HandshakeWithin)
	defer hcancel()
	err = conn.HandshakeContext(hctx)
	var key identity.PublicKey
	if err == nil {
		key, err = PeerKey(conn)
	}
	if err != nil {
		if errors.Is(err, ErrPeerKey) {
			h.refuseFrom(addrPort(raw.RemoteAddr()).Addr(), RefusePeerKey, nil)
		}
		_ = raw.Close()
		return nil, fmt.Errorf("dial %s: handshake: %w", endpoint, h.gone(err))
	}
	s, err := h.open(conn, key, endpoint)
	if err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("dial %s: %w", endpoint, err)
	}
	return s, nil
}

// gone says "closed" where a dial was given up because the hub closes.
func (h *Hub) gone(err error) error {
	if h.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}

// Connect returns the session with key, or dials endpoint for one. Several at once share one dial, so that the peer never
// sees two sessions of this machine; greet, which may be nil, is called for a new session before Connect returns it to
// anybody, and its error closes the session. ByKey shows it meanwhile.
func (h *Hub) Connect(ctx context.Context, endpoint string, key identity.PublicKey, greet func(context.Context, *Session) error) (*Session, error) {
	for {
		h.mu.Lock()
		busy, s := h.dialing[key], h.best(key)
		if busy == nil && s == nil {
			h.dialing[key] = make(chan struct{})
		}
		h.mu.Unlock()
		switch {
		case busy != nil: // also where a session is there already: it is not greeted yet
		case s != nil:
			return s, nil
		default:
			return h.connect(ctx, endpoint, key, greet)
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (h *Hub) connect(ctx context.Context, endpoint string, key identity.PublicKey, greet func(context.Context, *Session) error) (*Session, error) {
	defer func() {
		h.mu.Lock()
		close(h.dialing[key])
		delete(h.dialing, key)
		h.mu.Unlock()
	}()
	s, err := h.Dial(ctx, endpoint, &key)
	if err != nil || greet == nil {
		return s, err
	}
	if err := greet(ctx, s); err != nil {
		s.Close(err)
		return nil, err
	}
	return s, nil
}

// open makes the session of a finished handshake and starts serving it.
func (h *Hub) open(conn *tls.Conn, key identity.PublicKey, dialed string) (*Session, error) {
	inbound := dialed == ""
	s := &Session{
		hub: h, peer: key, inbound: inbound, dialed: dialed, opened: time.Now(),
		remote: addrPort(conn.RemoteAddr()), local: addrPort(conn.LocalAddr()),
	}
	s.ctx, s.cancel = context.WithCancel(h.ctx)
	g := &gate{
		Conn: conn, since: s.opened, born: s.opened,
		trusted: func() bool { return !inbound || h.cfg.Admission.member(key) },
		refuse:  func() { h.refuse(s, RefuseFlood); s.fail(ErrFlood) },
	}
	s.gate = g
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		s.cancel()
		return nil, ErrClosed
	}
	h.next++
	s.id = h.next
	if inbound {
		if r := h.admission.Connect(s.opened, s.id, key, s.remote.Addr()); r != RefusalNone {
			h.mu.Unlock()
			s.cancel()
			return nil, refusedError{r}
		}
	}
	var err error
	if inbound {
		g.parity = 1
		s.mux, err = yamux.Server(g, muxConfig(h.noise, false))
	} else {
		s.mux, err = yamux.Client(g, muxConfig(h.noise, true))
	}
	if err != nil {
		h.admission.Gone(s.id)
		h.mu.Unlock()
		s.cancel()
		return nil, err
	}
	var over *Session
	if inbound {
		over = h.beyond(key)
	}
	h.sessions[s.id] = s
	h.byKey[key] = append(h.byKey[key], s)
	h.wait.Add(1)
	h.mu.Unlock()
	if over != nil {
		h.goes(func() {
			h.refuse(over, RefuseKeyFull)
			over.Close(refusedError{RefuseKeyFull})
		})
	}
	h.nudge()
	h.cfg.Handler.SessionOpened(s)
	go h.serve(s)
	return s, nil
}

// beyond is the inbound session of a key that gives way to one more; nil while there is room. The caller holds mu.
func (h *Hub) beyond(key identity.PublicKey) (oldest *Session) {
	most, open := MaxSessionsPerKey, 0
	if h.cfg.Admission.member(key) {
		most = MaxSessionsPerMember
	}
	for _, s := range h.byKey[key] {
		if !s.inbound || s.ctx.Err() != nil || s.gaveWay {
			continue
		}
		if open++; oldest == nil {
			oldest = s
		}
	}
	if open < most {
		return nil
	}
	oldest.gaveWay = true
	return oldest
}

// refusedError carries a refusal out of open.
type refusedError struct{ refusal Refusal }

func (e refusedError) Error() string { return e.refusal.Row().Text }

// serve accepts the peer's streams until the session ends, then takes it off the books.
func (h *Hub) serve(s *Session) {
	defer h.wait.Done()
	var handlers sync.WaitGroup
	for {
		st, err := s.mux.AcceptStream()
		if err != nil {
			s.fail(muxEnd(err))
			break
		}
		t := &sessionStream{Stream: st, session: s, theirs: true}
		if !h.room(s) {
			_ = WriteError(t, h.refuse(s, RefuseStreamsFull))
			_ = t.Close()
			continue
		}
		handlers.Add(1)
		go func() {
			defer handlers.Done()
			defer s.streams.Add(-1)
			defer t.settle() // also one that was left without an answer
			defer t.Close()
			if err := t.admit(); err != nil {
				_ = WriteError(t, err)
				return
			}
			h.cfg.Handler.ServeStream(s.ctx, s, t)
			if t.then != nil {
				t.then()
			}
		}()
	}
	s.cancel()
	_ = s.mux.Close()
	h.drop(s)
	why := s.Err()
	h.cfg.Handler.SessionClosed(s, why)
	handlers.Wait()
}

// room takes a place for one more stream of the peer.
func (h *Hub) room(s *Session) bool {
	n := s.streams.Add(1)
	if n <= maxStrangerStreams || n <= maxPeerStreams && (!s.inbound || h.cfg.Admission.member(s.peer)) {
		return true
	}
	s.streams.Add(-1)
	return false
}

// drop takes a session off the books.
func (h *Hub) drop(s *Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, s.id)
	h.admission.Gone(s.id)
	rest := slices.DeleteFunc(h.byKey[s.peer], func(o *Session) bool { return o == s })
	if len(rest) == 0 {
		delete(h.byKey, s.peer)
	} else {
		h.byKey[s.peer] = rest
	}
	for p := range h.pairs {
		if p.older == s.id || p.newer == s.id {
			delete(h.pairs, p)
		}
	}
}

// pair names two living sessions of one member's key that both answer.
type pair struct{ older, newer uint64 }

// refuse counts a refusal of a session's peer and says it once a minute.
func (h *Hub) refuse(s *Session, r Refusal) *wire.Error {
	h.refuseFrom(s.remote.Addr(), r, nil)
	return r.Answer()
}

// refuseFrom counts a refusal and says it once a minute; only the source is named, for nothing else is proven.
func (h *Hub) refuseFrom(source netip.Addr, r Refusal, err error) {
	h.counts.add(r)
	row := r.Row()
	attrs := []slog.Attr{slog.String("reason", row.Label), slog.String("source", source.String()), slog.String("why", row.Text)}
	if err != nil && r == RefuseHandshake {
		attrs = append(attrs, slog.String("error", wire.Printable(err.Error())))
	}
	h.noise.say("refused "+row.Label, "a connection was refused", attrs...)
}

// isRefused returns the refusal in an error of open.
func isRefused(err error) (Refusal, bool) {
	var r refusedError
	ok := errors.As(err, &r)
	return r.refusal, ok
}
