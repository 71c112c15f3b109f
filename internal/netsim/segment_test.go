package netsim

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/discovery"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

const segmentPort = 6681

func host(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, 0, byte(n)}) }

func drain(p *Port) (out []netio.Received) {
	for {
		select {
		case r, ok := <-p.Receive():
			if !ok {
				return out
			}
			out = append(out, r)
		default:
			return out
		}
	}
}

func TestSegmentDelivers(t *testing.T) {
	s := NewSegment(1)
	defer s.Close()
	a, b, other := s.Attach(host(1), segmentPort), s.Attach(host(2), segmentPort), s.Attach(host(3), 7777)
	if errs := a.Beacon([]byte("b")); errs != nil {
		t.Fatal(errs)
	}
	if err := b.Send(a.AnsweringAddr(), host(2), []byte("c")); err != nil {
		t.Fatal(err)
	}
	if err := b.Send(a.ListenerAddr(), netip.Addr{}, []byte("d")); err != nil {
		t.Fatal(err)
	}
	if err := b.Send(netip.MustParseAddrPort("10.1.0.9:1"), netip.Addr{}, []byte("e")); err != nil {
		t.Fatal(err)
	}
	beacon := netio.Received{From: a.AnsweringAddr(), Local: host(2), Bytes: []byte("b")}
	own := beacon
	own.Local = host(1)
	same := cmp.Comparer(func(x, y netip.Addr) bool { return x == y })
	samePort := cmp.Comparer(func(x, y netip.AddrPort) bool { return x == y })
	for _, row := range []struct {
		what string
		port *Port
		want []netio.Received
	}{
		{"the sender hears its own beacon, and its two sockets", a, []netio.Received{own,
			{Answering: true, From: b.AnsweringAddr(), Local: host(1), Bytes: []byte("c")},
			{From: b.AnsweringAddr(), Local: host(1), Bytes: []byte("d")}}},
		{"another host", b, []netio.Received{beacon}},
		{"another port", other, nil},
	} {
		if diff := cmp.Diff(row.want, drain(row.port), same, samePort); diff != "" {
			t.Errorf("%s: %s", row.what, diff)
		}
	}
	if got := s.Stats(); got.Unheard != 1 || got.Delivered != 4 {
		t.Errorf("%+v", got)
	}
	if err := b.Send(a.AnsweringAddr(), host(1), nil); err == nil {
		t.Error("a port sends from another's address")
	}
}

func TestSegmentTwoNodesOnOneHost(t *testing.T) {
	s := NewSegment(1)
	defer s.Close()
	a, b, c := s.Attach(host(1), segmentPort), s.Attach(host(1), segmentPort), s.Attach(host(2), segmentPort)
	c.Beacon([]byte("to both"))
	if err := c.Send(a.ListenerAddr(), netip.Addr{}, []byte("to one")); err != nil {
		t.Fatal(err)
	}
	if err := c.Send(a.AnsweringAddr(), netip.Addr{}, []byte("to the first")); err != nil {
		t.Fatal(err)
	}
	if na, nb := len(drain(a)), len(drain(b)); na != 2 || nb != 2 {
		t.Errorf("%d and %d datagrams, want the beacon for each, one unicast for the last bound, one for its own port", na, nb)
	}
}

func TestSegmentKnobs(t *testing.T) {
	count := func(seed uint64, k Knobs) SegmentStats {
		s := NewSegment(seed)
		defer s.Close()
		a, b := s.Attach(host(1), segmentPort), s.Attach(host(2), segmentPort)
		s.Set(k)
		for range 10000 {
			_ = a.Send(b.AnsweringAddr(), netip.Addr{}, []byte{1})
			drain(b)
		}
		return s.Stats()
	}
	k := Knobs{Loss: 0.25, Duplicate: 0.1}
	got := count(7, k)
	if got != count(7, k) {
		t.Error("one seed, two results")
	}
	if got.Sent < 10800 || got.Sent > 11200 || got.Lost < 2500 || got.Lost > 3000 || got.Sent != got.Delivered+got.Lost {
		t.Errorf("%+v", got)
	}
	if got := count(7, Knobs{Loss: 1}); got.Delivered != 0 {
		t.Errorf("loss of everything: %+v", got)
	}
}

func TestSegmentOverflowIsCountedNotWaitedFor(t *testing.T) {
	s := NewSegment(1)
	defer s.Close()
	a, b := s.Attach(host(1), segmentPort), s.Attach(host(2), segmentPort)
	for range segmentQueue + 10 {
		_ = a.Send(b.AnsweringAddr(), netip.Addr{}, nil)
	}
	if got := s.Stats().Overflowed; got != 10 {
		t.Errorf("%d overflowed, want 10", got)
	}
}

func TestSegmentDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSegment(3)
		defer s.Close()
		a, b := s.Attach(host(1), segmentPort), s.Attach(host(2), segmentPort)
		s.Set(Knobs{MinDelay: 10 * time.Millisecond, MaxDelay: 30 * time.Millisecond})
		start := time.Now()
		for i := range 50 {
			_ = a.Send(b.AnsweringAddr(), netip.Addr{}, []byte{byte(i)})
		}
		swapped, last := 0, -1
		for range 50 {
			r := <-b.Receive()
			if d := time.Since(start); d < 10*time.Millisecond || d > 30*time.Millisecond {
				t.Errorf("after %v", d)
			}
			if int(r.Bytes[0]) < last {
				swapped++
			}
			last = int(r.Bytes[0])
		}
		if swapped == 0 {
			t.Error("no two out of order")
		}
		_ = a.Send(b.AnsweringAddr(), netip.Addr{}, nil)
		s.Close() // what flies is dropped
		if _, ok := <-b.Receive(); ok {
			t.Error("delivered after Close")
		}
	})
}

func TestSegmentPartitionAndLink(t *testing.T) {
	s := NewSegment(1)
	defer s.Close()
	a, b := s.Attach(host(1), segmentPort), s.Attach(host(2), segmentPort)
	reaches := func() bool {
		_ = a.Send(b.AnsweringAddr(), netip.Addr{}, nil)
		return len(drain(b)) == 1
	}
	s.Partition(func(x, y netip.Addr) bool { return x != y })
	if reaches() || s.Stats().Parted != 1 {
		t.Error("through a partition")
	}
	s.Partition(nil)
	if !reaches() {
		t.Error("not healed")
	}
	if a.Relist() {
		t.Error("a change without one")
	}
	a.SetLink(false)
	if reaches() || len(a.Beacon(nil)) != 1 || a.Interfaces()[0].Used || !a.Relist() || a.Relist() {
		t.Error("a pulled cable goes unnoticed")
	}
	b.Beacon(nil)
	if len(drain(a)) != 0 {
		t.Error("heard without a cable")
	}
	a.SetLink(true)
	drain(b)
	if !reaches() || !a.Relist() || !a.Interfaces()[0].Used {
		t.Error("the cable is back and nothing changed")
	}
	_ = a.Close()
	if err := a.Send(b.AnsweringAddr(), netip.Addr{}, nil); !errors.Is(err, net.ErrClosed) || a.Close() != nil {
		t.Errorf("after Close: %v", err)
	}
}

func TestSegmentHostile(t *testing.T) {
	s := NewSegment(1)
	defer s.Close()
	a, b := s.Attach(host(1), segmentPort), s.Attach(host(2), segmentPort)
	s.Hostile(func(f Frame) []Frame {
		forged := f
		forged.From, forged.Bytes = netip.MustParseAddrPort("10.1.0.66:1"), append([]byte("x"), f.Bytes...)
		return []Frame{forged}
	})
	sent := []byte("true")
	_ = a.Send(b.AnsweringAddr(), netip.Addr{}, sent)
	sent[0] = '!'
	if got := drain(b); len(got) != 1 || string(got[0].Bytes) != "xtrue" || got[0].From.Addr() != host(66) {
		t.Errorf("%+v", got)
	}
	s.Inject(Frame{From: a.AnsweringAddr(), To: netip.AddrPortFrom(host(255), segmentPort), Broadcast: true, Bytes: []byte("i")})
	if got := drain(b); len(got) != 1 || string(got[0].Bytes) != "i" || got[0].From != a.AnsweringAddr() {
		t.Errorf("%+v", got)
	}
}

// simNode drives one exchange over a port, as the event loop of a node does.
type simNode struct {
	x    *discovery.Exchange
	port *Port
	stop chan struct{}
}

func (n *simNode) run() {
	for {
		timer := time.NewTimer(time.Until(n.x.Next(time.Now())))
		var out discovery.Output
		select {
		case <-n.stop:
			timer.Stop()
			return
		case r := <-n.port.Receive():
			on := discovery.SocketListener
			if r.Answering {
				on = discovery.SocketAnswering
			}
			out = n.x.Handle(time.Now(), on, r.From, r.Local, r.Bytes)
		case <-timer.C:
			out = n.x.Tick(time.Now())
		}
		timer.Stop()
		if out.Beacon != nil {
			n.port.Beacon(out.Beacon)
		}
		for _, d := range out.Send {
			_ = n.port.Send(d.To, d.Local, d.Bytes)
		}
	}
}

// TestSegmentCarriesDiscovery runs whole exchanges, each in its own goroutine,
// over a segment that loses, doubles and delays.
func TestSegmentCarriesDiscovery(t *testing.T) {
	const n = 8
	keys := map[string]identity.PublicKey{}
	key := func(id string) identity.PrivateKey { return identity.NewPrivateKey(sha256.Sum256([]byte(id))) }
	for i := range n {
		id := fmt.Sprint("n-", i)
		keys[id] = key(id).Public()
	}
	Bubble(t, func(t *testing.T) {
		s := NewSegment(11)
		defer s.Close()
		s.Set(Knobs{Loss: 0.1, Duplicate: 0.05, MinDelay: 100 * time.Microsecond, MaxDelay: 5 * time.Millisecond})
		var wait sync.WaitGroup
		var nodes []*simNode
		for i := range n {
			id, addr, words := fmt.Sprint("n-", i), host(i+1), uint64(0)
			fc := netip.AddrPortFrom(addr, 6674).String()
			x := discovery.New(discovery.Config{
				Entropy: func(b []byte) {
					words++
					sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(id), words))
					copy(b, sum[:])
				},
				Roster: func(id string, k identity.PublicKey) discovery.RosterVerdict {
					switch held, ok := keys[id]; {
					case !ok:
						return discovery.RosterUnknown
					case held == k:
						return discovery.RosterHolds
					}
					return discovery.RosterOtherKey
				},
				OwnAddress: func(a netip.Addr) bool { return a == addr },
				Key:        key(id),
			}, time.Now(), discovery.Self{Summary: wire.Summary{Cluster: "c", State: wire.StateEstablished, Node: id, OwnEndpoint: fc, Total: 1}})
			node := &simNode{x, s.Attach(addr, segmentPort), make(chan struct{})}
			nodes = append(nodes, node)
			wait.Go(node.run)
		}
		time.Sleep(50 * time.Second)
		for _, node := range nodes {
			close(node.stop)
		}
		wait.Wait()
		for i, node := range nodes {
			if got := len(node.x.Authenticated(time.Now())); got != n-1 {
				t.Errorf("node %d knows %d of %d", i, got, n-1)
			}
			if got := node.x.Count(discovery.CountDatagramsMalformed); got != 0 {
				t.Errorf("node %d: %d malformed", i, got)
			}
		}
	})
}
