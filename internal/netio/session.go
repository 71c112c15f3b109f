package netio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// sessionUse is what a session turned out to be for, from its first request in either direction.
type sessionUse uint32

const (
	useUnknown sessionUse = iota
	useProbe              // FleetSummary or an operator's verbs only: not the session of a member's node
	useLasting
)

// Session is one connection with a peer whose key is proven. Either side opens streams on it.
type Session struct {
	hub     *Hub
	id      uint64
	peer    identity.PublicKey
	remote  netip.AddrPort
	local   netip.AddrPort
	dialed  string // endpoint as given, empty of an inbound one
	inbound bool
	opened  time.Time
	gaveWay bool // to a newer one of its key; the hub's
	mux     *yamux.Session
	gate    *gate
	ctx     context.Context // ends with the session
	cancel  context.CancelFunc

	use       atomic.Uint32 // sessionUse
	listening atomic.Bool   // it fell silent and is asked for a sign of life
	streams   atomic.Int32  // of the peer, being served
	once      atomic.Uint32 // requests of the verb that is answered once a connection, FleetSummary

	mu     sync.Mutex
	reason error
	hello  *wire.Hello
	clock  time.Time // the peer's, when this side's elapsed time was at; never this side's date, which may be set meanwhile
	at     time.Time
}

// Peer returns the key of the other end, proven by the handshake.
func (s *Session) Peer() identity.PublicKey { return s.peer }

// RemoteAddr returns the other end's address, unmapped; of an inbound session it is the source.
func (s *Session) RemoteAddr() netip.AddrPort { return s.remote }

// Dialed returns the endpoint at which the peer was dialled, as it was given; empty of an inbound session.
func (s *Session) Dialed() string { return s.dialed }

// LocalAddr returns this end's address, unmapped: the address by which the peer is reached.
func (s *Session) LocalAddr() netip.AddrPort { return s.local }

// Inbound reports whether the peer dialed.
func (s *Session) Inbound() bool { return s.inbound }

// Opened returns when the handshake was done.
func (s *Session) Opened() time.Time { return s.opened }

// ID returns a number that no other session of the hub has.
func (s *Session) ID() uint64 { return s.id }

// Done is closed when the session ends.
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// Err returns why the session ended, nil while it is open.
func (s *Session) Err() error {
	if s.ctx.Err() == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason == nil {
		return ErrClosed
	}
	return s.reason
}

// Duplicate reports whether another living session of the same key answers as well: the identity may be cloned.
func (s *Session) Duplicate() bool {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	for p := range s.hub.pairs {
		if p.older == s.id || p.newer == s.id {
			return true
		}
	}
	return false
}

// Duplicates returns the pairs of living sessions of one key of which each answers, older first.
func (h *Hub) Duplicates() [][2]*Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out [][2]*Session
	for p := range h.pairs {
		if a, b := h.sessions[p.older], h.sessions[p.newer]; a != nil && b != nil {
			out = append(out, [2]*Session{a, b})
		}
	}
	return out
}

// SetHello keeps what the peer said of itself. sent is when this side asked, or the time of receipt where the peer spoke
// first: the peer's clock is taken to have shown what it said in the middle between it and now.
func (s *Session) SetHello(h wire.Hello, sent time.Time) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hello, s.clock, s.at = &h, time.UnixMilli(h.ClockMS), now.Add(-now.Sub(sent)/2)
}

// Serves returns how many streams of the peer are being served.
func (s *Session) Serves() int { return int(s.streams.Load()) }

// Hello returns what the peer said of itself, and how far its clock is ahead of what this one shows now, to within half the
// time that the answer took; ok is false before it did.
func (s *Session) Hello() (h wire.Hello, offset time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hello == nil {
		return wire.Hello{}, 0, false
	}
	now := time.Now()
	return *s.hello, s.clock.Add(now.Sub(s.at)).Sub(now.Round(0)), true
}

// Open opens a stream to the peer.
func (s *Session) Open(ctx context.Context) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// The library waits for room without a context, so it does so on a goroutine of its own; whoever comes first
	// decides whether the stream is taken or closed.
	const taken, abandoned = 1, 2
	var fate atomic.Int32
	var stream *yamux.Stream
	var err error
	done := make(chan struct{})
	if !s.hub.goes(func() {
		defer close(done)
		if stream, err = s.mux.OpenStream(); err == nil && !fate.CompareAndSwap(0, taken) {
			_ = stream.Close()
		}
	}) {
		return nil, s.ended(ErrClosed)
	}
	select {
	case <-done:
	case <-ctx.Done():
		if fate.CompareAndSwap(0, abandoned) {
			return nil, ctx.Err()
		}
		<-done
	}
	if err != nil {
		return nil, s.ended(muxEnd(err))
	}
	return &sessionStream{Stream: stream, session: s}, nil
}

// ended prefers the reason why the session ended over the library's word for it.
func (s *Session) ended(err error) error {
	if why := s.Err(); why != nil {
		err = why
	}
	return fmt.Errorf("session with %s: %w", s.remote, err)
}

// Ping asks the peer for a sign of life and returns the time it took.
func (s *Session) Ping(ctx context.Context) (time.Duration, error) {
	type result struct {
		took time.Duration
		err  error
	}
	done := make(chan result, 1)
	if !s.hub.goes(func() {
		took, err := s.mux.Ping()
		done <- result{took, err}
	}) {
		return 0, s.ended(ErrClosed)
	}
	select {
	case r := <-done:
		return r.took, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Close ends the session and all its streams; the first reason stays. It returns at once: saying goodbye to a peer that
// does not read takes a while, and handlers end on their own.
func (s *Session) Close(reason error) {
	s.fail(reason)
	s.cancel()
	if !s.hub.goes(func() { _ = s.mux.Close() }) {
		_ = s.mux.Close()
	}
}

// fail notes why the session ends.
func (s *Session) fail(reason error) {
	if reason == nil {
		reason = ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason == nil {
		s.reason = reason
	}
}

// sessionStream is a stream of a session. It looks at the first bytes that pass in each direction, so that the bounds of
// admission hold whatever the handler does.
type sessionStream struct {
	*yamux.Stream
	session *Session
	theirs  bool   // the peer opened it
	ahead   []byte // the request's header, read before the handler was called
	begun   atomic.Bool
	asked   bool // admission counts a request that is to be answered
	then    func()
}

// Then has the hub call f when ServeStream has returned, before it closes the stream: what lasts as long as a session is
// run there with nothing of the handler left on its stack.
func (t *sessionStream) Then(f func()) { t.then = f }

// RemoteAddr implements net.Conn with the session's address.
func (t *sessionStream) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(t.session.remote) }

// LocalAddr implements net.Conn with the session's address.
func (t *sessionStream) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(t.session.local) }

// Read implements net.Conn.
func (t *sessionStream) Read(b []byte) (int, error) {
	if len(t.ahead) > 0 {
		n := copy(b, t.ahead)
		t.ahead = t.ahead[n:]
		return n, nil
	}
	return t.Stream.Read(b)
}

// Write implements net.Conn. The first bytes on a stream of this side are a request's header, on the peer's an answer.
func (t *sessionStream) Write(b []byte) (int, error) {
	if !t.theirs && len(b) >= wire.RequestHeaderSize && t.begun.CompareAndSwap(false, true) {
		t.session.note(wire.Verb(b[2]))
	}
	total := 0
	var err error
	for err == nil && total < len(b) {
		// The library keeps room for the largest piece that it ever wrote, a session long.
		var n int
		n, err = t.Stream.Write(b[total:min(len(b), total+maxPiece)])
		total += n
	}
	if t.theirs {
		t.settle()
	}
	return total, err
}

// settle tells admission, once, that the peer's request was answered or given up.
func (t *sessionStream) settle() {
	if t.asked && t.begun.CompareAndSwap(false, true) {
		t.session.hub.answered(t.session)
	}
}

// admit reads the header of the peer's request, within requestWithin, and asks admission about it. The handler reads it
// again. A header that is malformed counts as a request: the handler says what is wrong with it.
func (t *sessionStream) admit() *wire.Error {
	_ = t.SetReadDeadline(time.Now().Add(requestWithin))
	var h [wire.RequestHeaderSize]byte
	if _, err := io.ReadFull(t.Stream, h[:]); err != nil {
		return readError(err, "no request came")
	}
	_ = t.SetReadDeadline(time.Time{})
	t.ahead = h[:]
	s := t.session
	row, length, _ := wire.ParseRequestHeader(h)
	if row.Verb == 0 {
		return s.hub.admitRequest(t, 0, 0)
	}
	s.note(row.Verb)
	if row.OncePerConnection && s.once.Add(1) > 1 {
		return s.hub.refuse(s, RefuseOncePerConnection)
	}
	return s.hub.admitRequest(t, row.Verb, length)
}

// note remembers what the session is for.
func (s *Session) note(v wire.Verb) {
	use := useLasting
	if row, _ := wire.LookupVerb(v); v == wire.VerbFleetSummary || v == wire.VerbStatus || row.Access == wire.AccessAdministrator {
		use = useProbe
	}
	for {
		was := sessionUse(s.use.Load())
		if was >= use {
			return
		}
		if s.use.CompareAndSwap(uint32(was), uint32(use)) {
			if use == useLasting {
				s.hub.lasting(s)
			}
			return
		}
	}
}

// muxLog takes the session library's lines, which are about a peer's behaviour, and dampens them.
type muxLog struct{ noise *noise }

func (l muxLog) write(v ...any) {
	l.noise.at(slog.LevelDebug, "mux", "the session library says", slog.String("line", wire.Printable(fmt.Sprint(v...))))
}

// Print implements the library's logger.
func (l muxLog) Print(v ...any) { l.write(v...) }

// Println implements the library's logger.
func (l muxLog) Println(v ...any) { l.write(v...) }

// Printf implements the library's logger.
func (l muxLog) Printf(format string, v ...any) {
	if l.noise.log.Enabled(context.Background(), slog.LevelDebug) {
		l.write(fmt.Sprintf(format, v...))
	}
}

// muxConfig is small, because a voter holds a session for each learner: about 34 KiB an end, by BenchmarkThousandSessions.
//
// The one that dialed keeps the session alive; of the other end's sessions one goroutine, the janitor, asks those that
// have fallen silent.
func muxConfig(n *noise, keepsAlive bool) *yamux.Config {
	return &yamux.Config{
		AcceptBacklog:          streamBacklog,
		EnableKeepAlive:        keepsAlive,
		KeepAliveInterval:      keepAlive,
		ConnectionWriteTimeout: pingTimeout,
		MaxStreamWindowSize:    streamWindow,
		StreamOpenTimeout:      streamOpenTimeout,
		StreamCloseTimeout:     streamCloseTimeout,
		Logger:                 muxLog{n},
	}
}

// addrPort reads a connection's address; one that is no TCP address gives the invalid value.
func addrPort(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		return unmap(t.AddrPort())
	}
	return netip.AddrPort{}
}

// muxEnd is the library's reason in this package's words.
func muxEnd(err error) error {
	switch {
	case err == nil, errors.Is(err, yamux.ErrSessionShutdown):
		return ErrClosed
	case errors.Is(err, yamux.ErrKeepAliveTimeout):
		return errNoKeepAlive
	}
	return err
}

var errNoKeepAlive = errors.New("the peer answered no keep-alive")
