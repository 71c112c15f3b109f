package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"pace-node/internal/wire"
)

// acceptPause is waited after an accept that failed for want of something (file
// descriptors), so that the loop does not spin.
const acceptPause = 100 * time.Millisecond

// ServeAdmin serves the administrators' socket until the listener or the server
// is closed, and returns when every asker has been answered. Whoever may connect
// is an administrator: the socket's modes decide that. A connection that asks
// nothing keeps nobody out, and no account keeps out root, or this process's own.
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

	own, others := newDesk(), newDesk()
	for {
		conn, err := l.Accept()
		if err != nil {
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
		d, who := own, s.accountOf(conn)
		if who.other {
			// Nobody waits for them: neither root nor this account, behind them.
			d = others
			if !d.quiet.admit(who, conn) {
				s.cfg.Metrics.Add("pace_requests_refused_total", 1, reasonConnections)
				s.cfg.Logger.Debug("connection refused: its account has too many", "uid", who.uid, "most", localPerAccount)
				conn.Close()
				s.wait.Done()
				continue
			}
		} else {
			d.quiet.add(s.ctx, conn)
		}
		go func() {
			defer d.quiet.leave(who)
			defer d.quiet.drop(conn)
			s.serve(s.ctx, Peer{Local: true}, conn, func(ctx context.Context) (func(), *fault) {
				d.quiet.drop(conn)
				return d.room.take(ctx)
			})
		}()
	}
}

// account is whose process is at the other end of a connection.
type account struct {
	uid   uint32
	other bool // neither root's nor this process's own; false where the system does not tell
}

// desk is where connections wait and requests take turns. Root and this process's
// account have one of their own, so that no other account can fill it.
type desk struct {
	quiet *silent
	room  turns
}

func newDesk() *desk {
	return &desk{&silent{left: make(chan struct{}, 1), held: map[uint32]int{}},
		turns{serving: make(chan struct{}, localStreams), all: make(chan struct{}, localStreams+localQueued)}}
}

// silent are the connections that have not asked yet, in the order in which they
// came.
type silent struct {
	left chan struct{} // holds one value when some connection has left

	mu    sync.Mutex
	conns []quietConn
	held  map[uint32]int // connections of other accounts, with a request or without
}

type quietConn struct {
	net.Conn
	since time.Time
	who   account
}

// add takes one in. Where there is no place it waits until one leaves, or until the
// oldest has had its time, which is then closed.
func (q *silent) add(ctx context.Context, c net.Conn) {
	for {
		wait, added := q.try(c)
		if added {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-q.left:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

func (q *silent) try(c net.Conn) (wait time.Duration, added bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.conns) >= localSilent {
		if age := time.Since(q.conns[0].since); age < localGrace {
			return localGrace - age, false
		}
		q.displace(0)
	}
	q.conns = append(q.conns, quietConn{c, time.Now(), account{}})
	return 0, true
}

// admit takes one of another account in, at once or not at all. It displaces the
// oldest silent one of its account, or of all where all have too many, once that
// has had its time.
func (q *silent) admit(who account, c net.Conn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held[who.uid] >= localPerAccount {
		at := slices.IndexFunc(q.conns, func(x quietConn) bool { return x.who == who })
		if at < 0 || time.Since(q.conns[at].since) < localGrace {
			return false
		}
		q.displace(at)
	}
	if len(q.conns) >= localSilent {
		if time.Since(q.conns[0].since) < localGrace {
			return false
		}
		q.displace(0)
	}
	q.held[who.uid]++
	q.conns = append(q.conns, quietConn{c, time.Now(), who})
	return true
}

func (q *silent) displace(at int) {
	q.conns[at].Close()
	q.conns = slices.Delete(q.conns, at, at+1)
}

// leave says that a connection is over.
func (q *silent) leave(who account) {
	if !who.other {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held[who.uid]--; q.held[who.uid] == 0 {
		delete(q.held, who.uid)
	}
}

func (q *silent) drop(c net.Conn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.IndexFunc(q.conns, func(x quietConn) bool { return x.Conn == c })
	if at < 0 {
		return
	}
	q.conns = slices.Delete(q.conns, at, at+1)
	select {
	case q.left <- struct{}{}:
	default:
	}
}

// turns bounds what is served at once.
type turns struct{ serving, all chan struct{} }

func (r *turns) take(ctx context.Context) (done func(), refused *fault) {
	busy := func() *fault {
		return &fault{wire.NewError(wire.CodeBusy, fmt.Sprintf("this node is serving %d administrators' requests", localStreams), "try again when fewer programs ask it at once")}
	}
	select {
	case r.all <- struct{}{}:
	default:
		return nil, busy()
	}
	timer := time.NewTimer(localTurnTime)
	defer timer.Stop()
	select {
	case r.serving <- struct{}{}:
		return func() { <-r.serving; <-r.all }, nil
	case <-ctx.Done():
		<-r.all
		return nil, &fault{}
	case <-timer.C:
		<-r.all
		return nil, busy()
	}
}
