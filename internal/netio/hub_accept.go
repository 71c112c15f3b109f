package netio

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/hashicorp/yamux"

	"pace-node/internal/wire"
)

// Serve accepts connections of l until l or the hub is closed; it owns l. It returns nil where the hub closed it.
func (h *Hub) Serve(l net.Listener) error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		_ = l.Close()
		return nil
	}
	h.listeners[l] = struct{}{}
	h.wait.Add(1)
	h.mu.Unlock()
	defer h.wait.Done()
	err := acceptAll(h.ctx, l, h.noise, func(c net.Conn) {
		if !h.begin(c) {
			_ = c.Close()
		}
	})
	h.mu.Lock()
	delete(h.listeners, l)
	h.mu.Unlock()
	return err
}

// acceptAll hands every connection of l to f, and waits out errors that pass, such as too many open files.
func acceptAll(ctx context.Context, l net.Listener, n *noise, f func(net.Conn)) error {
	pause := retryLeast
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			pause = retryLeast
			f(c)
			continue
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		}
		n.say("accept", "a connection could not be accepted", slog.String("listener", l.Addr().String()), slog.Any("error", err))
		t := time.NewTimer(pause)
		select {
		case <-t.C:
			pause = min(2*pause, retryMost)
		case <-ctx.Done():
			t.Stop()
			return nil
		}
	}
}

// begin takes a place for a handshake and runs it; false where there is none.
func (h *Hub) begin(c net.Conn) bool {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return false
	}
	h.wait.Add(1)
	h.mu.Unlock()
	place := h.handshakes.begin(c)
	if place == nil {
		h.refuseFrom(addrPort(c.RemoteAddr()).Addr(), RefuseHandshakesFull, nil)
		h.wait.Done()
		return false
	}
	go func() {
		defer h.wait.Done()
		h.accept(c, place)
	}()
	return true
}

// accept does one inbound handshake and opens the session or says why not.
func (h *Hub) accept(c net.Conn, place *handshake) {
	source := addrPort(c.RemoteAddr()).Addr()
	conn := tls.Server(c, h.server)
	key, refusal, err := serverHandshake(h.ctx, conn)
	if h.handshakes.end(place) {
		refusal, err = RefuseHandshakesFull, errGaveWay
	}
	switch {
	case h.ctx.Err() != nil:
		_ = c.Close()
	case err != nil:
		h.refuseFrom(source, refusal, err)
		_ = c.Close()
	default:
		_, err := h.open(conn, key, "")
		if err == nil {
			return
		}
		if r, ok := isRefused(err); ok {
			h.refuseFrom(source, r, nil)
			h.linger(conn, r)
		}
		_ = c.Close()
	}
}

// linger keeps a refused connection long enough to tell it why: the first stream that it opens gets the error. Beyond
// maxLingering it is told nothing.
func (h *Hub) linger(conn *tls.Conn, r Refusal) {
	h.mu.Lock()
	full := h.lingering >= maxLingering
	if !full {
		h.lingering++
	}
	h.mu.Unlock()
	if full {
		return
	}
	defer func() {
		h.mu.Lock()
		h.lingering--
		h.mu.Unlock()
	}()
	g := &gate{Conn: conn, since: time.Now(), born: time.Now(), parity: 1, trusted: func() bool { return false }, refuse: func() {}}
	mux, err := yamux.Server(g, muxConfig(h.noise, false))
	if err != nil {
		return
	}
	defer mux.Close()
	ctx, cancel := context.WithTimeout(h.ctx, lingerWithin)
	defer cancel()
	st, err := mux.AcceptStreamWithContext(ctx)
	if err != nil {
		return
	}
	_ = WriteError(st, r.Answer())
	_ = st.Close()
	t := time.NewTimer(lingerAfter)
	defer t.Stop()
	select {
	case <-t.C:
	case <-mux.CloseChan():
	case <-h.ctx.Done():
	}
}

// admitRequest asks admission about a request; a refused session is closed after the peer had time to read why.
func (h *Hub) admitRequest(t *sessionStream, verb wire.Verb, length uint32) *wire.Error {
	s := t.session
	h.mu.Lock()
	r := RefusalNone
	if s.inbound {
		r = h.admission.Request(time.Now(), s.id, verb, length)
	}
	h.mu.Unlock()
	if r == RefusalNone {
		t.asked = true
		h.nudge()
		return nil
	}
	h.goes(func() {
		timer := time.NewTimer(lingerAfter)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.ctx.Done():
		}
		s.Close(refusedError{r})
	})
	return h.refuse(s, r)
}

// answered tells admission of an answer.
func (h *Hub) answered(s *Session) {
	if !s.inbound {
		return
	}
	h.mu.Lock()
	h.admission.Answered(time.Now(), s.id)
	h.mu.Unlock()
	h.nudge()
}

// nudge makes the janitor look at its deadlines again.
func (h *Hub) nudge() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// janitor closes strangers' sessions when their time is over, and asks now and then who is still known.
func (h *Hub) janitor() {
	timer := time.NewTimer(knownSweep)
	defer timer.Stop()
	swept := time.Now()
	listened := swept
	for {
		now := time.Now()
		h.mu.Lock()
		if now.Sub(swept) >= knownSweep {
			swept = now
			for id, s := range h.sessions {
				if s.inbound {
					h.admission.Sweep(now, id, s.peer, s.remote.Addr())
				}
			}
		}
		var silent []*Session
		if now.Sub(listened) >= listenSweep {
			listened = now
			for _, s := range h.sessions {
				if s.inbound && s.gate.silent(now) >= silentAfter {
					silent = append(silent, s)
				}
			}
		}
		due := h.admission.Due(now)
		closing := make(map[*Session]Refusal, len(due))
		for _, d := range due {
			if s := h.sessions[d.ID]; s != nil {
				closing[s] = d.Refusal
			}
		}
		next := swept.Add(knownSweep)
		if at := listened.Add(listenSweep); at.Before(next) {
			next = at
		}
		if at, ok := h.admission.Next(); ok && at.Before(next) {
			next = at
		}
		idle := len(h.sessions) == 0
		h.mu.Unlock()
		for s, r := range closing {
			reason := error(ErrIdle)
			if r != RefusalNone {
				h.refuse(s, r)
				reason = refusedError{r}
			}
			s.Close(reason)
		}
		for _, s := range silent {
			h.goes(func() { h.listen(s) })
		}
		var alarm <-chan time.Time
		if !idle {
			timer.Reset(max(next.Sub(now), time.Millisecond))
			alarm = timer.C
		}
		select {
		case <-alarm:
		case <-h.wake:
		case <-h.ctx.Done():
			return
		}
	}
}

// listen asks a session that has fallen silent for a sign of life, and ends one that gives none.
func (h *Hub) listen(s *Session) {
	if !s.listening.CompareAndSwap(false, true) {
		return
	}
	defer s.listening.Store(false)
	if _, err := s.mux.Ping(); err != nil && s.ctx.Err() == nil {
		s.Close(errNoKeepAlive)
	}
}

// lasting is told when a session turned out to be more than a FleetSummary; an older one of the same member must answer
// a ping or make room.
func (h *Hub) lasting(s *Session) {
	if !s.inbound || !h.cfg.Admission.member(s.peer) {
		return
	}
	h.mu.Lock()
	var others []*Session
	for _, o := range h.byKey[s.peer] {
		if o != s && o.inbound && sessionUse(o.use.Load()) == useLasting {
			others = append(others, o)
		}
	}
	h.mu.Unlock()
	for _, o := range others {
		older, newer := o, s
		if older.id > newer.id {
			older, newer = newer, older
		}
		h.goes(func() { h.compare(older, newer) })
	}
}

// compare pings the older of two sessions.
func (h *Hub) compare(older, newer *Session) {
	ctx, cancel := context.WithTimeout(h.ctx, DuplicatePing)
	defer cancel()
	_, err := older.Ping(ctx)
	if h.ctx.Err() != nil {
		return
	}
	if err != nil {
		older.Close(ErrReplaced)
		return
	}
	h.mu.Lock()
	both := pair{older.id, newer.id}
	_, known := h.pairs[both]
	if h.sessions[older.id] == nil || h.sessions[newer.id] == nil || known {
		h.mu.Unlock()
		return
	}
	h.pairs[both] = struct{}{}
	h.mu.Unlock()
	h.noise.say("duplicate", "two sessions of one key both answer: the identity may be cloned",
		slog.String("key", older.peer.String()), slog.String("older", older.remote.String()), slog.String("newer", newer.remote.String()))
	if h.cfg.Duplicate != nil {
		h.cfg.Duplicate(older, newer)
	}
}
