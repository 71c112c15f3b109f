package netio

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pace-node/internal/wire"
)

// patience is how long a test waits for something that comes at once.
const patience = time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openLoopback(t *testing.T, listen uint16, change func(*DatagramConfig)) *Datagrams {
	t.Helper()
	cfg := DatagramConfig{Listen: netip.AddrPortFrom(netip.IPv4Unspecified(), listen), Loopback: true}
	if change != nil {
		change(&cfg)
	}
	p, err := OpenDatagram(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func next(t *testing.T, p DatagramPort) Received {
	t.Helper()
	select {
	case r, ok := <-p.Receive():
		if !ok {
			t.Fatal("closed")
		}
		return r
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	panic("unreachable")
}

// TestLoopbackPair: two nodes of one machine share the listener's port; each hears the other's beacon and its own, and
// answers pass between the answering sockets alone.
func TestLoopbackPair(t *testing.T) {
	a := openLoopback(t, 0, nil)
	port := a.ListenerAddr().Port()
	b := openLoopback(t, port, nil)
	if a.ListenerAddr() != b.ListenerAddr() || a.AnsweringAddr() == b.AnsweringAddr() {
		t.Fatalf("listeners %s %s, answering %s %s", a.ListenerAddr(), b.ListenerAddr(), a.AnsweringAddr(), b.AnsweringAddr())
	}
	if failed := a.Beacon([]byte("beacon of a")); failed != nil {
		t.Fatal(failed)
	}
	for _, p := range []*Datagrams{a, b} {
		r := next(t, p)
		if r.Answering || string(r.Bytes) != "beacon of a" || r.From != a.AnsweringAddr() || r.Local != netip.MustParseAddr("127.0.0.1") {
			t.Fatalf("%+v", r)
		}
		// The beacon's source is where an answer goes.
		if p == b {
			if err := b.Send(r.From, r.Local, []byte("challenge")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r := next(t, a); !r.Answering || string(r.Bytes) != "challenge" || r.From != b.AnsweringAddr() {
		t.Fatalf("%+v", r)
	}
	if got := a.Interfaces(); len(got) != 1 || !got[0].Used || got[0].Broadcast != LoopbackBroadcast {
		t.Errorf("%+v", got)
	}
	if a.Relist() {
		t.Error("loopback changed")
	}
}

func TestLoopbackNeverLeaves(t *testing.T) {
	p := openLoopback(t, 0, nil)
	err := p.Send(netip.MustParseAddrPort("192.0.2.1:9"), netip.Addr{}, []byte("x"))
	if !errors.Is(err, ErrLoopbackOnly) {
		t.Fatal(err)
	}
	if p.Stats().SendErrors != 1 {
		t.Errorf("%+v", p.Stats())
	}
}

func TestDatagramTooLong(t *testing.T) {
	p := openLoopback(t, 0, nil)
	long := bytes.Repeat([]byte{0xFD}, 2*datagramBuffer)
	if err := p.Send(p.AnsweringAddr(), netip.Addr{}, long); err != nil {
		t.Fatal(err)
	}
	if r := next(t, p); len(r.Bytes) != wire.MaxDatagram+1 {
		t.Errorf("%d bytes: a too long datagram must be seen as too long", len(r.Bytes))
	}
}

func TestDatagramQueueIsBounded(t *testing.T) {
	p := openLoopback(t, 0, func(c *DatagramConfig) { c.received = 4 })
	const sent = 50
	for range sent {
		if err := p.Send(p.AnsweringAddr(), netip.Addr{}, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, func() bool { return p.Stats().ReceiveDropped >= sent-4 })
	if got := len(p.Receive()); got != 4 {
		t.Errorf("%d are waiting", got)
	}
}

func wait(t *testing.T, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come about")
		}
	}
}

func TestDatagramClose(t *testing.T) {
	p := openLoopback(t, 0, nil)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if _, ok := <-p.Receive(); ok {
		t.Error("something came after close")
	}
	if err := p.Send(netip.MustParseAddrPort("127.0.0.1:9"), netip.Addr{}, []byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if failed := p.Beacon([]byte("x")); len(failed) != 1 || !errors.Is(failed[0], net.ErrClosed) {
		t.Error(failed)
	}
}

func TestDatagramOpenErrors(t *testing.T) {
	held, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	taken := held.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	list := func() ([]Interface, []Route, error) { return []Interface{card(2, "eth0", "192.0.2.2/24")}, nil, nil }
	for _, c := range []struct {
		name string
		cfg  DatagramConfig
		want []string
	}{
		{"reply port taken", DatagramConfig{Loopback: true, ReplyPort: taken}, []string{"--discovery-reply-port", "address already in use"}},
		{"a rule that says nothing", DatagramConfig{Loopback: true, Include: []string{"!"}}, []string{`interface rule "!"`}},
		{"IPv6", DatagramConfig{Listen: netip.MustParseAddrPort("[::1]:0")}, []string{"--discovery=[::1]:0", "IPv4"}},
		{"no such address", DatagramConfig{Listen: netip.MustParseAddrPort("192.0.2.9:0"), list: list}, []string{"--discovery=192.0.2.9:0", "no interface"}},
	} {
		p, err := OpenDatagram(c.cfg)
		if err == nil {
			p.Close()
			t.Errorf("%s: opened", c.name)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q lacks %q", c.name, err, w)
			}
		}
	}
}

// loopbackCards lists two addresses of 127.0.0.0/8 as if they were two cards, so that real sockets can be bound to them.
func loopbackCards(names ...string) func() ([]Interface, []Route, error) {
	return func() ([]Interface, []Route, error) {
		var out []Interface
		for i, n := range names {
			// Their "broadcast" is a unicast address of the same range: nothing leaves the machine.
			c := card(0, n, netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(2 + i)}), 8).String())
			c.Addrs[0].Broadcast = netip.MustParseAddr("127.0.0.1")
			out = append(out, c)
		}
		return out, nil, nil
	}
}

// TestBoundAnswering is the way without packet info: a socket for each address, all with one port; what comes to one is
// answered from it.
func TestBoundAnswering(t *testing.T) {
	var mu sync.Mutex
	names := []string{"a", "b"}
	p, err := OpenDatagram(DatagramConfig{bound: true, list: func() ([]Interface, []Route, error) {
		mu.Lock()
		defer mu.Unlock()
		return loopbackCards(names...)()
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	port := p.AnsweringAddr().Port()
	if port == 0 || !p.AnsweringAddr().Addr().IsUnspecified() {
		t.Fatal(p.AnsweringAddr())
	}
	out, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	peer := out.LocalAddr().(*net.UDPAddr).AddrPort()
	for _, a := range []string{"127.0.0.2", "127.0.0.3"} {
		at := netip.AddrPortFrom(netip.MustParseAddr(a), port)
		if _, err := out.WriteToUDPAddrPort([]byte("challenge"), at); err != nil {
			t.Fatal(err)
		}
		r := next(t, p)
		if !r.Answering || r.Local != at.Addr() {
			t.Fatalf("%+v", r)
		}
		if err := p.Send(r.From, r.Local, []byte("proof")); err != nil {
			t.Fatal(err)
		}
		out.SetReadDeadline(time.Now().Add(patience))
		if _, from, err := out.ReadFromUDPAddrPort(make([]byte, 9)); err != nil || from != at {
			t.Fatalf("from %s, want %s: %v", from, at, err)
		}
	}
	// Without a local address any socket will do.
	if err := p.Send(peer, netip.Addr{}, []byte("x")); err != nil {
		t.Error(err)
	}
	if err := p.Send(peer, netip.MustParseAddr("127.0.0.9"), []byte("x")); err == nil {
		t.Error("sent from an address without a socket")
	}
	// An interface goes: its socket goes with it, the other keeps the port.
	mu.Lock()
	names = []string{"a", "c"}
	mu.Unlock()
	if !p.Relist() {
		t.Error("the change was not seen")
	}
	mu.Lock()
	names = []string{"a"}
	mu.Unlock()
	if !p.Relist() || p.Relist() {
		t.Error("a change is one change")
	}
	if got := p.AnsweringAddr(); got != netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), port) {
		t.Errorf("answering at %s", got)
	}
	mu.Lock()
	names = nil
	mu.Unlock()
	p.Relist()
	if err := p.Send(peer, netip.Addr{}, []byte("x")); err == nil {
		t.Error("sent without any socket")
	}
}

// TestBoundPortTaken: a fixed port that is taken at one address costs that address alone, and is tried again.
func TestBoundPortTaken(t *testing.T) {
	held, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 3)})
	if err != nil {
		t.Fatal(err)
	}
	port := held.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	var text lockedText
	p, err := OpenDatagram(DatagramConfig{bound: true, ReplyPort: port, list: loopbackCards("a", "b"), Logger: text.logger()})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got := p.AnsweringAddr(); got != netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), port) {
		t.Errorf("answering at %s", got)
	}
	if !strings.Contains(text.String(), "no answering socket for an address") || !strings.Contains(text.String(), "127.0.0.3") {
		t.Errorf("log:\n%s", &text)
	}
	held.Close()
	p.Relist()
	if err := p.Send(netip.MustParseAddrPort("127.0.0.1:9"), netip.MustParseAddr("127.0.0.3"), []byte("x")); err != nil {
		t.Error(err)
	}
}

// TestOneDeadInterface: an interface that can't send costs a log line a minute, and the other sends on.
func TestOneDeadInterface(t *testing.T) {
	var text lockedText
	p, err := OpenDatagram(DatagramConfig{Logger: text.logger(), list: func() ([]Interface, []Route, error) {
		// 127.0.0.1 is real; the other address is of the documentation range and on no interface.
		good, bad := card(0, "good", "127.0.0.1/8"), card(0, "bad", "192.0.2.7/24")
		good.Addrs[0].Broadcast = netip.MustParseAddr("127.0.0.9")
		return []Interface{bad, good}, nil, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.mu.Lock()
	p.choices[0].Broadcast = netip.MustParseAddr("127.0.0.9") // whatever happens, nothing leaves the machine
	p.mu.Unlock()
	for range 20 {
		failed := p.Beacon([]byte("x"))
		if len(failed) != 1 || failed[0].Interface != "bad" {
			t.Fatalf("%v", failed)
		}
		if r := next(t, p); r.Answering || r.From.Addr() != netip.MustParseAddr("127.0.0.1") {
			t.Fatalf("%+v", r)
		}
	}
	if n := strings.Count(text.String(), "a beacon could not be sent"); n != 1 {
		t.Errorf("%d lines:\n%s", n, &text)
	}
	if p.Stats().SendErrors != 20 {
		t.Errorf("%+v", p.Stats())
	}
}

// TestLeftOutInterface: what comes by an interface that the operator left out is not heard.
func TestLeftOutInterface(t *testing.T) {
	p, err := OpenDatagram(DatagramConfig{Include: []string{"!a"}, list: loopbackCards("a")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	// Index 0 in the list: the subnet decides, as where there is no packet info.
	p.deliver(false, netip.MustParseAddrPort("127.0.0.9:5"), 0, netip.Addr{}, netip.Addr{}, []byte("x"))
	if p.Stats().ReceiveElsewhere != 1 || len(p.Receive()) != 0 {
		t.Errorf("%+v", p.Stats())
	}
}

func TestReceiveErrorsAreReadPast(t *testing.T) {
	p := openLoopback(t, 0, nil)
	// A closed port answers with "port unreachable", which some systems report on the next receive.
	dead, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	to := dead.LocalAddr().(*net.UDPAddr).AddrPort()
	dead.Close()
	for range 5 {
		_ = p.Send(to, netip.Addr{}, []byte("x"))
	}
	if err := p.Send(p.AnsweringAddr(), netip.Addr{}, []byte("still here")); err != nil {
		t.Fatal(err)
	}
	if r := next(t, p); string(r.Bytes) != "still here" {
		t.Fatalf("%+v", r)
	}
	pause := retryLeast
	if !p.rest(&pause) || pause != 2*retryLeast {
		t.Errorf("pause %s", pause)
	}
	pause = retryMost
	p.Close()
	if p.rest(&pause) || pause != retryMost {
		t.Errorf("a closed port waits: %s", pause)
	}
}

func TestOpenLogsSockets(t *testing.T) {
	var text lockedText
	p := openLoopback(t, 0, func(c *DatagramConfig) { c.Logger = text.logger() })
	for _, want := range []string{"discovery sockets are open", p.ListenerAddr().String(), p.AnsweringAddr().String(), "used"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &text)
		}
	}
	text = lockedText{}
	q, err := OpenDatagram(DatagramConfig{Logger: text.logger(), list: func() ([]Interface, []Route, error) {
		return []Interface{tunnel(2, "tun0", "10.8.0.2/32")}, nil, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for _, want := range []string{"no interface can carry beacons", "tun0 10.8.0.2/32: point-to-point", "--fleet-seed"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &text)
		}
	}
}

// TestOpenBeforeTheSystemKnowsItsInterfaces: a service that starts with the machine may come before them.
func TestOpenBeforeTheSystemKnowsItsInterfaces(t *testing.T) {
	var text lockedText
	var known atomic.Bool
	p, err := OpenDatagram(DatagramConfig{bound: true, Logger: text.logger(), list: func() ([]Interface, []Route, error) {
		if !known.Load() {
			return nil, nil, io.ErrUnexpectedEOF
		}
		return loopbackCards("a")()
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Relist() || len(p.Interfaces()) != 0 || !strings.Contains(text.String(), "could not be listed") || !strings.Contains(text.String(), "unexpected EOF") {
		t.Errorf("%v\n%s", p.Interfaces(), &text)
	}
	known.Store(true)
	if !p.Relist() || len(p.Interfaces()) != 1 {
		t.Errorf("%v", p.Interfaces())
	}
}

// lockedText is a log that a test reads while others write.
type lockedText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedText) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func TestNoise(t *testing.T) {
	n := newNoise(nil)
	now := time.Unix(1000, 0)
	for i, c := range []struct {
		after time.Duration
		kind  string
		count uint64
		yes   bool
	}{
		{0, "a", 1, true}, {time.Second, "a", 0, false}, {time.Second, "b", 1, true}, {59 * time.Second, "a", 0, false},
		{60 * time.Second, "a", 3, true}, {61 * time.Second, "a", 0, false}, {121 * time.Second, "a", 2, true},
	} {
		if count, yes := n.due(now.Add(c.after), c.kind); count != c.count || yes != c.yes {
			t.Errorf("step %d: %d %v", i, count, yes)
		}
	}
	for i := range 10 * noiseKinds {
		n.due(now, strings.Repeat("x", i))
	}
	if len(n.kinds) > noiseKinds+1 {
		t.Errorf("%d kinds are remembered", len(n.kinds))
	}
	n.due(now.Add(time.Hour), "fresh")
	if len(n.kinds) > noiseKinds+1 {
		t.Errorf("%d kinds are remembered", len(n.kinds))
	}
}

func TestSendErrorText(t *testing.T) {
	e := SendError{Interface: "eth0", From: netip.MustParseAddr("10.0.0.1"), To: netip.MustParseAddrPort("10.0.0.255:6681"), Err: os.NewSyscallError("sendmsg", syscall.ENODEV)}
	if !errors.Is(e, syscall.ENODEV) || !strings.Contains(e.Error(), "eth0") {
		t.Error(e)
	}
}
