package netio_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/netsim"
	"pace-node/internal/wire"
)

func key(n byte) identity.PrivateKey { return identity.NewPrivateKey([32]byte{n, 1: 7}) }

// machine is a hub on a simulated network, with a handler that answers by verb.
type machine struct {
	*netio.Hub
	t    *testing.T
	addr netip.Addr
	key  identity.PrivateKey

	mu         sync.Mutex
	known      map[identity.PublicKey]bool
	opened     int
	closed     []error
	duplicates int
	serve      func(ctx context.Context, s *netio.Session, stream net.Conn) // nil: answer
}

type option func(*netio.HubConfig)

// boot starts machine n at 10.0.0.n:6674.
func boot(t *testing.T, network *netsim.Net, n byte, options ...option) *machine {
	t.Helper()
	m := &machine{t: t, addr: netip.AddrFrom4([4]byte{10, 0, 0, n}), key: key(n), known: map[identity.PublicKey]bool{}}
	cfg := netio.HubConfig{
		Key: m.key, Handler: m, Dialer: network.Dialer(m.addr),
		Admission: netio.AdmissionFacts{Known: func(k identity.PublicKey) bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.known[k]
		}},
		Duplicate: func(_, _ *netio.Session) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.duplicates++
		},
	}
	for _, o := range options {
		o(&cfg)
	}
	m.Hub = netio.NewHub(cfg)
	l, err := network.Listen(netip.AddrPortFrom(m.addr, 6674))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := m.Serve(l); err != nil && !errors.Is(err, net.ErrClosed) { // closed where a test cuts the power
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		m.Close()
		<-done
	})
	return m
}

func (m *machine) knows(keys ...byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range keys {
		m.known[key(n).Public()] = true
	}
}

func (m *machine) endpoint() string { return netip.AddrPortFrom(m.addr, 6674).String() }

func (m *machine) dial(to *machine) *netio.Session {
	m.t.Helper()
	want := to.key.Public()
	s, err := m.Dial(m.t.Context(), to.endpoint(), &want)
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

// ServeStream answers Hello with the payload, Follow with three pushes, Work with a refusal.
func (m *machine) ServeStream(ctx context.Context, s *netio.Session, stream net.Conn) {
	if m.serve != nil {
		m.serve(ctx, s, stream)
		return
	}
	row, payload, werr := netio.ReadRequest(stream)
	if werr != nil {
		netio.WriteError(stream, werr)
		return
	}
	switch row.Verb {
	case wire.VerbFollow:
		netio.WriteReply(stream, wire.StatusOK, nil)
		for i := range 3 {
			netio.WriteReply(stream, wire.StatusPush, []byte{byte(i)})
		}
	case wire.VerbEnroll:
		netio.WriteReply(stream, wire.StatusOK, nil)
		watched, stop := netio.WatchClose(ctx, stream)
		defer stop()
		<-watched.Done()
	case wire.VerbWork:
		netio.WriteError(stream, wire.NewError(wire.CodeLeaseRefused, "no lease", "take one"))
	case wire.VerbStatus:
		netio.WriteReply(stream, wire.StatusOK, make([]byte, wire.MaxAnswer))
	default:
		netio.WriteReply(stream, wire.StatusOK, payload)
	}
}

func (m *machine) SessionOpened(*netio.Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opened++
}

func (m *machine) SessionClosed(_ *netio.Session, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = append(m.closed, why)
}

// counts returns opened sessions, why they were closed, and duplicates.
func (m *machine) counts() (int, []error, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.opened, slices.Clone(m.closed), m.duplicates
}

func call(t *testing.T, s netio.Opener, verb wire.Verb, payload string) string {
	t.Helper()
	got, err := netio.Call(t.Context(), s, verb, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// TestSessionsBothDirections: whoever dialed, either side opens streams.
func TestSessionsBothDirections(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		voter, learner := boot(t, network, 1), boot(t, network, 2)
		voter.knows(2)
		out := learner.dial(voter)
		if got := call(t, out, wire.VerbHello, "from the learner"); got != "from the learner" {
			t.Errorf("%q", got)
		}
		in := voter.ByKey(learner.key.Public())
		if in == nil || !in.Inbound() || in.Peer() != learner.key.Public() || in.RemoteAddr().Addr() != learner.addr || in.LocalAddr() != netip.AddrPortFrom(voter.addr, 6674) {
			t.Fatalf("%+v", in)
		}
		if got := call(t, in, wire.VerbQuery, "from the voter"); got != "from the voter" {
			t.Errorf("%q", got)
		}
		if in.Err() != nil || in.Opened().IsZero() || in.ID() == 0 || len(voter.Sessions()) != 1 {
			t.Error("an open session looks closed")
		}
		if got := voter.Count(); got["inbound"] != 1 || got["outbound"] != 0 || got["stranger"] != 0 {
			t.Errorf("%v", got)
		}
		if got := learner.Count(); got["outbound"] != 1 || got["inbound"] != 0 {
			t.Errorf("%v", got)
		}
		// A large answer takes several windows.
		if got := call(t, out, wire.VerbStatus, ""); len(got) != wire.MaxAnswer {
			t.Errorf("%d bytes", len(got))
		}
		// A refusal is an error with its code, text and hint.
		var werr *wire.Error
		if _, err := netio.Call(t.Context(), in, wire.VerbWork, nil); !errors.As(err, &werr) || werr.Code != wire.CodeLeaseRefused || werr.Hint != "take one" {
			t.Errorf("%v", err)
		}
	})
}

// TestSessionEnds: the reason given on one side reaches its handler, and the other side sees the end at once.
func TestSessionEnds(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		a.knows(2)
		s := b.dial(a)
		call(t, s, wire.VerbHello, "x")
		gone := errors.New("forgotten by the fleet")
		if n := a.CloseKey(b.key.Public(), gone); n != 1 {
			t.Errorf("%d sessions closed", n)
		}
		<-s.Done()
		synctest.Wait()
		if _, why, _ := a.counts(); len(why) != 1 || !errors.Is(why[0], gone) {
			t.Errorf("%v", why)
		}
		if opened, why, _ := b.counts(); opened != 1 || len(why) != 1 || s.Err() == nil {
			t.Errorf("%d %v", opened, why)
		}
		if _, err := s.Open(t.Context()); err == nil {
			t.Error("opened a stream on a closed session")
		}
		if _, err := netio.Call(t.Context(), s, wire.VerbHello, nil); err == nil {
			t.Error("called on a closed session")
		}
		if a.ByKey(b.key.Public()) != nil || a.CloseKey(b.key.Public(), gone) != 0 || len(a.Sessions())+len(b.Sessions()) != 0 {
			t.Error("it is still on the books")
		}
	})
}

// TestKeepAlive: a machine that lost its power is noticed within 20 s by the end that dialed, which pings every 10 s and
// waits 10 s for the answer, and within 27 s by the other: it looks every 5 s for a session silent for 12 s, and pings that one.
func TestKeepAlive(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		a.knows(2)
		s := b.dial(a)
		call(t, s, wire.VerbHello, "x")
		time.Sleep(time.Hour)
		if s.Err() != nil {
			t.Fatalf("an idle session ended: %v", s.Err())
		}
		began := time.Now()
		network.Partition(func(netip.Addr, netip.Addr) bool { return true })
		<-s.Done()
		if d := time.Since(began); d > 21*time.Second {
			t.Errorf("noticed after %s", d)
		}
		time.Sleep(time.Until(began.Add(28 * time.Second)))
		synctest.Wait()
		if n := len(a.Sessions()); n != 0 {
			t.Errorf("%d sessions at the other end", n)
		}
	})
}

func TestSubscribe(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		a.knows(2)
		s := b.dial(a)
		first, next, stop, err := netio.Subscribe(t.Context(), s, wire.VerbFollow, []byte("{}"))
		if err != nil || len(first) != 0 {
			t.Fatal(first, err)
		}
		for i := range 3 {
			if got, err := next(); err != nil || !bytes.Equal(got, []byte{byte(i)}) {
				t.Fatal(got, err)
			}
		}
		if _, err := next(); !errors.Is(err, io.EOF) {
			t.Errorf("after the last push: %v", err)
		}
		stop()
		stop()
		// A subscription that is refused, one whose context ends, and one that is stopped.
		if _, _, _, err := netio.Subscribe(t.Context(), s, wire.VerbWork, nil); err == nil {
			t.Error("a refusal is no error")
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, next, stop, err = netio.Subscribe(ctx, s, wire.VerbEnroll, []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, cancel)
		if _, err := next(); !errors.Is(err, context.Canceled) {
			t.Errorf("after its context: %v", err)
		}
		stop()
		_, next, stop, err = netio.Subscribe(t.Context(), s, wire.VerbEnroll, []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, stop)
		if _, err := next(); err == nil {
			t.Error("next after stop")
		}
		// The server's side noticed each end, and its handlers are gone.
		synctest.Wait()
		if s.Err() != nil {
			t.Error(s.Err())
		}
	})
}

func TestCallIsBoundedByItsContext(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		a.knows(2)
		a.serve = func(ctx context.Context, _ *netio.Session, stream net.Conn) { <-ctx.Done() }
		s := b.dial(a)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := netio.Call(ctx, s, wire.VerbHello, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if _, err := netio.Call(ctx, s, wire.VerbHello, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a context that is over: %v", err)
		}
		if _, err := netio.Call(t.Context(), s, wire.Verb(0x77), nil); err == nil {
			t.Error("called an unknown verb")
		}
		if _, err := netio.Call(t.Context(), s, wire.VerbFleetSummary, make([]byte, 65)); !errors.Is(err, netio.ErrFrameTooLarge) {
			t.Error(err)
		}
	})
}

// TestOpenGivesUp: the other end takes no more streams; Open ends with its context and leaves no stream behind.
func TestOpenGivesUp(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		a.knows(2)
		s := b.dial(a)
		call(t, s, wire.VerbHello, "x")
		network.Partition(func(netip.Addr, netip.Addr) bool { return true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var err error
		for range 200 {
			if _, err = s.Open(ctx); err != nil {
				break
			}
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if _, err := s.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestHello(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		a.knows(2)
		s := b.dial(a)
		if _, _, ok := s.Hello(); ok {
			t.Error("a hello before it was said")
		}
		sent := time.Now()
		time.Sleep(2 * time.Second) // the answer takes two seconds; its clock was read in the middle, and is 90 s ahead
		s.SetHello(wire.Hello{ID: "a", ClockMS: sent.Add(time.Second + 90*time.Second).UnixMilli()}, sent)
		h, offset, ok := s.Hello()
		if !ok || h.ID != "a" || offset.Round(time.Millisecond) != 90*time.Second {
			t.Errorf("%v %s %v", h, offset, ok)
		}
	})
}

func TestConnectSharesOneDial(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		a.knows(2)
		greeted := 0
		greet := func(ctx context.Context, s *netio.Session) error {
			greeted++
			_, err := netio.Call(ctx, s, wire.VerbHello, nil)
			return err
		}
		sessions := make([]*netio.Session, 10)
		var wg sync.WaitGroup
		for i := range sessions {
			wg.Go(func() {
				s, err := b.Connect(t.Context(), a.endpoint(), a.key.Public(), greet)
				if err != nil {
					t.Error(err)
				}
				sessions[i] = s
			})
		}
		wg.Wait()
		for _, s := range sessions {
			if s == nil || s != sessions[0] {
				t.Fatal("two sessions")
			}
		}
		if greeted != 1 || network.Dials() != 1 {
			t.Errorf("%d greetings, %d dials", greeted, network.Dials())
		}
		// A greeting that fails leaves no session, and the next one dials again.
		sessions[0].Close(nil)
		synctest.Wait()
		bad := errors.New("another fleet")
		if _, err := b.Connect(t.Context(), a.endpoint(), a.key.Public(), func(context.Context, *netio.Session) error { return bad }); !errors.Is(err, bad) {
			t.Error(err)
		}
		synctest.Wait()
		if b.ByKey(a.key.Public()) != nil {
			t.Error("a session after a failed greeting")
		}
		if _, err := b.Connect(t.Context(), a.endpoint(), a.key.Public(), nil); err != nil {
			t.Error(err)
		}
		wrong := key(9).Public()
		if _, err := b.Connect(t.Context(), a.endpoint(), wrong, nil); !errors.Is(err, netio.ErrPeerKey) || b.Refused(netio.RefusePeerKey) != 1 {
			t.Error(err)
		}
	})
}

// TestDialEnds: a dial through a partition takes 10 s and no more, and the hub's end ends it.
func TestDialEnds(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		network.Partition(func(netip.Addr, netip.Addr) bool { return true })
		began := time.Now()
		if _, err := b.Dial(t.Context(), a.endpoint(), nil); err == nil || time.Since(began) != 10*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		time.AfterFunc(time.Second, b.Close)
		began = time.Now()
		if _, err := b.Dial(t.Context(), a.endpoint(), nil); !errors.Is(err, netio.ErrClosed) || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		network.Partition(nil)
		if _, err := b.Dial(t.Context(), a.endpoint(), nil); !errors.Is(err, netio.ErrClosed) {
			t.Errorf("dial on a closed hub: %v", err)
		}
		l, err := network.Listen(netip.MustParseAddrPort("10.0.0.2:7000"))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Serve(l); err != nil {
			t.Error(err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a closed hub keeps a listener: %v", err)
		}
	})
}

// TestCloseWaits: Close ends handlers by their context and waits for them.
func TestCloseWaits(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		a.knows(2)
		var ended bool
		started := make(chan struct{})
		a.serve = func(ctx context.Context, _ *netio.Session, _ net.Conn) {
			close(started)
			<-ctx.Done()
			time.Sleep(time.Minute)
			ended = true
		}
		s := b.dial(a)
		go netio.Call(t.Context(), s, wire.VerbHello, nil)
		<-started
		a.Close()
		if !ended {
			t.Error("Close did not wait for a handler")
		}
	})
}
