package control

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/wire"
)

// pipes is a listener of pipes, for virtual time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// connect returns the asker's end, as soon as the listener has room for it.
func (p *pipes) connect() net.Conn {
	here, there := net.Pipe()
	p.conns <- there
	return here
}

// TestSilentConnectionsKeepNobodyOut: connections to the administrators' socket that ask nothing are closed after their
// time, counted, and hold up a request for the grace of one table of them at most, however many there are.
func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	for _, flood := range []int{localSilent - 1, 600, 2*localSilent - 1} {
		synctest.Test(t, func(t *testing.T) {
			l, metrics := newPipes(), NewMetrics(nil, nil)
			s := NewServer(ServerConfig{Backend: &fakeNode{status: map[string]any{"node": NodeStatus{}}}, Metrics: metrics})
			ended := make(chan error, 1)
			go func() { ended <- s.ServeAdmin(l) }()
			began := time.Now()
			for range flood {
				c := l.connect()
				defer c.Close()
			}
			c := l.connect()
			status, _ := exchange(t, c, wire.VerbStatus, []byte(`{"what":"node"}`))
			if took := time.Since(began); status != wire.StatusOK || took > localGrace {
				t.Errorf("beside %d silent connections a verb ended with status %d after %s", flood, status, took)
			}
			c.Close()
			time.Sleep(strangerRequestTime)
			synctest.Wait()
			refused := metrics.own[seriesKey("pace_requests_refused_total", []string{reasonNoRequest})]
			if refused != float64(flood) {
				t.Errorf("%v of %d silent connections are counted", refused, flood)
			}
			s.Close()
			if err := <-ended; !errors.Is(err, ErrStopped) {
				t.Error(err)
			}
		})
	}
}

// TestManyRequestsAtOnce: what is beyond the bound of requests that are served waits its turn, and what is beyond that is
// told so; nobody waits for ever.
func TestManyRequestsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		node := &fakeNode{status: map[string]any{"node": NodeStatus{}}, slow: func(ctx context.Context) error {
			select {
			case <-hold:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		l, metrics := newPipes(), NewMetrics(nil, nil)
		s := NewServer(ServerConfig{Backend: node, Metrics: metrics})
		ended := make(chan error, 1)
		go func() { ended <- s.ServeAdmin(l) }()
		ask := func() net.Conn {
			c := l.connect()
			go c.Write(wire.AppendRequest(nil, wire.VerbStatus, []byte(`{"what":"node"}`)))
			return c
		}
		var all []net.Conn
		for range localStreams + localQueued {
			all = append(all, ask())
			synctest.Wait()
		}
		status, b := readReply(t, ask())
		wantError(t, status, b, wire.CodeBusy)
		all[0].Close() // its turn goes to the next
		synctest.Wait()
		if got := len(node.seen()); got != localStreams+1 {
			t.Errorf("%d requests are served, want %d", got, localStreams+1)
		}
		time.Sleep(localTurnTime) // with those that are served standing, the others are told
		for _, c := range all[localStreams+1:] {
			status, b := readReply(t, c)
			wantError(t, status, b, wire.CodeBusy)
		}
		close(hold)
		for _, c := range all[1 : localStreams+1] {
			if status, b := readReply(t, c); status != wire.StatusOK {
				t.Errorf("status %d: %q", status, b)
			}
		}
		if got := metrics.own[seriesKey("pace_requests_refused_total", []string{wire.CodeBusy.String()})]; got != 1+localQueued {
			t.Errorf("%v refusals are counted, want %d and the one whose asker had gone", got, localQueued)
		}
		s.Close()
		if err := <-ended; !errors.Is(err, ErrStopped) {
			t.Error(err)
		}
	})
}
