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

// manned is a listener whose connections come from accounts of a test's choosing.
type manned struct {
	*pipes
	accounts sync.Map // server's end → account
}

func (m *manned) connectAs(uid uint32) net.Conn {
	here, there := net.Pipe()
	m.accounts.Store(there, account{uid: uid, other: uid != 0})
	m.conns <- there
	return here
}

// manServer serves a listener of such connections until stop.
func manServer(t *testing.T, node *fakeNode) (l *manned, refused func(reason string) float64, stop func()) {
	l, metrics := &manned{pipes: newPipes()}, NewMetrics(nil, nil)
	s := NewServer(ServerConfig{Backend: node, Metrics: metrics})
	s.accountOf = func(c net.Conn) account {
		who, _ := l.accounts.Load(c)
		return who.(account)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.ServeAdmin(l) }()
	return l, func(reason string) float64 {
			return metrics.own[seriesKey("pace_requests_refused_total", []string{reason})]
		}, func() {
			s.Close()
			if err := <-ended; !errors.Is(err, ErrStopped) {
				t.Error(err)
			}
		}
}

// TestOneAccountKeepsNobodyOut: an account that is neither root's nor the node's own has so many connections to the
// administrators' socket and no more, each beyond that is counted, and meanwhile root, and every other account, is
// answered at once. What it holds in silence gives way to what it asks.
func TestOneAccountKeepsNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, refused, stop := manServer(t, &fakeNode{status: map[string]any{"node": NodeStatus{}}})
		answered := func(uid uint32) {
			t.Helper()
			began := time.Now()
			c := l.connectAs(uid)
			defer c.Close()
			if status, _ := exchange(t, c, wire.VerbStatus, []byte(`{"what":"node"}`)); status != wire.StatusOK || time.Since(began) != 0 {
				t.Errorf("account %d is answered with status %d after %s", uid, status, time.Since(began))
			}
		}
		for range 3 * localPerAccount {
			defer l.connectAs(1000).Close()
		}
		synctest.Wait()
		if got := refused(reasonConnections); got != 2*localPerAccount {
			t.Errorf("%v refusals are counted, want %d", got, 2*localPerAccount)
		}
		answered(0)
		answered(1001)
		time.Sleep(localGrace)
		answered(1000)
		time.Sleep(strangerRequestTime)
		synctest.Wait()
		if got := refused(reasonNoRequest); got != localPerAccount {
			t.Errorf("%v silent connections are counted, want %d", got, localPerAccount)
		}
		for range localPerAccount { // all of them are gone: there is room again
			defer l.connectAs(1000).Close()
		}
		synctest.Wait()
		if got := refused(reasonConnections); got != 2*localPerAccount {
			t.Errorf("%v refusals are counted, want no more than before", got)
		}
		stop()
	})
}

// TestRootIsServedBesideManyAccounts: no number of other accounts, silent or asking, takes root's place.
func TestRootIsServedBesideManyAccounts(t *testing.T) {
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
		l, refused, stop := manServer(t, node)
		ask := func(uid uint32) net.Conn {
			c := l.connectAs(uid)
			go c.Write(wire.AppendRequest(nil, wire.VerbStatus, []byte(`{"what":"node"}`)))
			return c
		}
		const beyond = 7
		for i := range localStreams + localQueued + beyond {
			defer ask(uint32(1000 + i/localPerAccount)).Close()
			synctest.Wait()
		}
		if got := refused(wire.CodeBusy.String()); got != beyond || len(node.seen()) != localStreams {
			t.Errorf("%v are told that the node is busy and %d are served, want %d and %d", got, len(node.seen()), beyond, localStreams)
		}
		for i := range localSilent + beyond {
			defer l.connectAs(uint32(2000 + i/localPerAccount)).Close()
		}
		synctest.Wait()
		if got := refused(reasonConnections); got != beyond {
			t.Errorf("%v refusals are counted, want %d", got, beyond)
		}
		defer ask(0).Close()
		synctest.Wait()
		if got := len(node.seen()); got != localStreams+1 {
			t.Errorf("%d requests are served, want root's too", got)
		}
		close(hold)
		stop()
	})
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
