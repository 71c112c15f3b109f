package control

import (
	"errors"
	"net"
	"time"
)

// acceptPause is waited after an accept that failed for want of something (file
// descriptors), so that the loop does not spin.
const acceptPause = 100 * time.Millisecond

// ServeAdmin serves the administrators' socket until the listener or the server
// is closed, and returns when every asker has been answered. Whoever may connect
// is an administrator: the socket's modes decide that.
func (s *Server) ServeAdmin(l net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		l.Close()
		return ErrStopped
	}
	s.listeners[l] = struct{}{}
	s.wait.Add(1)
	s.mu.Unlock()
	defer s.wait.Done()
	defer l.Close()

	room := make(chan struct{}, localStreams)
	for {
		select {
		case room <- struct{}{}:
		case <-s.ctx.Done():
			return ErrStopped
		}
		conn, err := l.Accept()
		if err != nil {
			<-room
			if errors.Is(err, net.ErrClosed) || s.ctx.Err() != nil {
				return ErrStopped
			}
			s.cfg.Logger.Warn("administrators' socket cannot accept", "error", err)
			select {
			case <-time.After(acceptPause):
			case <-s.ctx.Done():
				return ErrStopped
			}
			continue
		}
		if !s.enter() {
			conn.Close()
			return ErrStopped
		}
		go func() {
			defer s.wait.Done()
			defer func() { <-room }()
			s.serve(s.ctx, Peer{Local: true}, conn)
		}()
	}
}
