package netio

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// voters is a roster of this test: who may speak for which id.
type voters map[string]struct {
	key  identity.PublicKey
	role string
}

func (v voters) guard(h wire.RaftStreamHeader, peer identity.PublicKey) error {
	m, ok := v[h.Source]
	switch {
	case !ok:
		return errors.New("not in the roster")
	case m.key != peer:
		return errors.New("another key")
	case m.role != "voter" && m.role != "voter-pending":
		return errors.New("its role is " + m.role)
	}
	return nil
}

func testVoters() voters {
	v := voters{}
	for i, role := range []string{"voter", "voter", "voter-pending", "learner"} {
		v[fmt.Sprintf("n%d", i+1)] = struct {
			key  identity.PublicKey
			role string
		}{testKey(byte(i + 1)).Public(), role}
	}
	return v
}

// layerOf starts the consensus port of node n on 127.0.0.1.
func layerOf(t *testing.T, n byte, change func(*RaftConfig)) *RaftLayer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := RaftConfig{
		Key: testKey(n), NodeID: fmt.Sprintf("n%d", n), Cluster: "c", Epoch: func() uint64 { return 3 },
		Guard: testVoters().guard, Listen: l,
		Resolve: func(string) ([]string, identity.PublicKey, error) {
			return nil, identity.PublicKey{}, errors.New("nowhere")
		},
	}
	if change != nil {
		change(&cfg)
	}
	layer := NewRaftLayer(cfg)
	t.Cleanup(func() { layer.Close() })
	return layer
}

// resolveTo makes a layer find node id at another layer.
func resolveTo(to *RaftLayer, n byte) func(*RaftConfig) {
	return func(c *RaftConfig) {
		c.Resolve = func(string) ([]string, identity.PublicKey, error) {
			return []string{to.Addr().String()}, testKey(n).Public(), nil
		}
	}
}

func TestRaftStreams(t *testing.T) {
	a := layerOf(t, 1, nil)
	for _, n := range []byte{2, 3} { // a voter and a pending one
		b := layerOf(t, n, resolveTo(a, 1))
		out, err := b.Dial(t.Context(), "n1")
		if err != nil {
			t.Fatal(err)
		}
		in, err := a.Accept()
		if err != nil {
			t.Fatal(err)
		}
		// What raft writes right behind the header reaches raft whole, in both directions.
		go io.WriteString(out, "append entries")
		got := make([]byte, len("append entries"))
		if _, err := io.ReadFull(in, got); err != nil || string(got) != "append entries" {
			t.Fatalf("%q %v", got, err)
		}
		go io.WriteString(in, "ok")
		if _, err := io.ReadFull(out, got[:2]); err != nil || string(got[:2]) != "ok" {
			t.Fatalf("%q %v", got[:2], err)
		}
		out.Close()
		if _, err := in.Read(got); err == nil {
			t.Error("read from a closed stream")
		}
		in.Close()
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, err := a.Accept(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if len(a.streams) != 0 {
		t.Errorf("%d streams are kept", len(a.streams))
	}
}

// guardCases: a stranger, another cluster, another target, another epoch, another role. Each header fails its check and
// the later ones too: the counted reason must be the earlier.
var guardCases = []struct {
	name   string
	key    byte
	header wire.RaftStreamHeader
	want   Refusal
}{
	{"another cluster", 9, wire.RaftStreamHeader{Cluster: "d", Source: "n1", Target: "n9", Epoch: 4}, RefuseRaftCluster},
	{"another target", 9, wire.RaftStreamHeader{Cluster: "c", Source: "n1", Target: "n9", Epoch: 4}, RefuseRaftTarget},
	{"from oneself", 9, wire.RaftStreamHeader{Cluster: "c", Source: "n1", Target: "n1", Epoch: 4}, RefuseRaftSource},
	{"an older epoch", 9, wire.RaftStreamHeader{Cluster: "c", Source: "n9", Target: "n1", Epoch: 2}, RefuseRaftEpoch},
	{"a newer epoch", 9, wire.RaftStreamHeader{Cluster: "c", Source: "n9", Target: "n1", Epoch: 4}, RefuseRaftEpoch},
	{"a stranger", 9, wire.RaftStreamHeader{Cluster: "c", Source: "n9", Target: "n1", Epoch: 3}, RefuseRaftGuard},
	{"a stranger under a voter's id", 9, wire.RaftStreamHeader{Cluster: "c", Source: "n2", Target: "n1", Epoch: 3}, RefuseRaftGuard},
	{"a voter under another's id", 3, wire.RaftStreamHeader{Cluster: "c", Source: "n2", Target: "n1", Epoch: 3}, RefuseRaftGuard},
	{"a learner", 4, wire.RaftStreamHeader{Cluster: "c", Source: "n4", Target: "n1", Epoch: 3}, RefuseRaftGuard},
	{"a voter", 2, wire.RaftStreamHeader{Cluster: "c", Source: "n2", Target: "n1", Epoch: 3}, RefusalNone},
}

func checkRaftGuard() error {
	l := &RaftLayer{cfg: RaftConfig{NodeID: "n1", Cluster: "c", Epoch: func() uint64 { return 3 }, Guard: testVoters().guard}}
	for _, c := range guardCases {
		if got, _ := l.judge(&c.header, testKey(c.key).Public()); got != c.want {
			return fmt.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	return nil
}

func TestRaftGuard(t *testing.T) {
	if err := checkRaftGuard(); err != nil {
		t.Fatal(err)
	}
	// The same over real connections: closed without a byte, and counted.
	var text lockedText
	l := layerOf(t, 1, func(c *RaftConfig) { c.Logger = text.logger() })
	counted := map[Refusal]uint64{}
	for _, c := range guardCases {
		if c.want == RefusalNone {
			continue
		}
		if err := say(l.Addr().String(), c.key, c.header.Append(nil)); err == nil {
			t.Errorf("%s: served", c.name)
		}
		counted[c.want]++
	}
	for r, n := range counted {
		wait(t, func() bool { return l.Refused(r) == n })
	}
	if len(l.ready) != 0 {
		t.Error("raft gets a refused stream")
	}
	if strings.Contains(text.String(), "n9") {
		t.Errorf("an unproven id is in the log:\n%s", &text)
	}
}

func TestMutationRaftChecks(t *testing.T) {
	mutate(t, raftChecks, func(r *struct {
		Refusal Refusal
		Fits    func(c *RaftConfig, h *wire.RaftStreamHeader) bool
	}) {
		r.Fits = func(*RaftConfig, *wire.RaftStreamHeader) bool { return true }
	}, checkRaftGuard)
}

// say connects under a key, writes bytes and waits for an answer or the end.
func say(addr string, key byte, b []byte) error {
	c, err := tls.Dial("tcp", addr, ClientTLS(testKey(key), ProtocolRaft, nil))
	if err != nil {
		return err
	}
	defer c.Close()
	c.Write(b)
	c.SetReadDeadline(time.Now().Add(patience))
	_, err = c.Read(make([]byte, 1))
	return err
}

func TestRaftHeaderRefusals(t *testing.T) {
	l := layerOf(t, 1, nil)
	for _, b := range [][]byte{
		{0, 0, 0, 65},              // a field beyond its bound, nothing of it sent
		{0xFF, 0xFF, 0xFF, 0xFF},   // 4 GiB
		{0, 0, 0, 0, 0, 0, 0, 0},   // empty ids, cut short by the next line's field
		[]byte("GET / HTTP/1.1\r"), // another protocol
	} {
		c, err := tls.Dial("tcp", l.Addr().String(), ClientTLS(testKey(2), ProtocolRaft, nil))
		if err != nil {
			t.Fatal(err)
		}
		c.Write(b)
		c.CloseWrite()
		c.SetReadDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%q: served", b)
		}
		c.Close()
	}
	wait(t, func() bool { return l.Refused(RefuseRaftHeader) == 4 })
	// The session port's protocol is not the consensus port's.
	if err := knock(l.Addr().String(), ClientTLS(testKey(2), ProtocolSession, nil)); err == nil {
		t.Error("served")
	}
	wait(t, func() bool { return l.Refused(RefuseALPN) == 1 })
}

func TestRaftDialErrors(t *testing.T) {
	a := layerOf(t, 1, nil)
	if _, err := a.Dial(t.Context(), "n2"); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Error(err)
	}
	wrong := layerOf(t, 2, resolveTo(a, 9))
	if _, err := wrong.Dial(t.Context(), "n1"); !errors.Is(err, ErrPeerKey) || wrong.Refused(RefusePeerKey) != 1 {
		t.Errorf("%v, counted %d times", err, wrong.Refused(RefusePeerKey))
	}
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	b := layerOf(t, 2, func(c *RaftConfig) {
		c.Resolve = func(string) ([]string, identity.PublicKey, error) {
			return []string{dead.Addr().String()}, testKey(1).Public(), nil
		}
	})
	if _, err := b.Dial(t.Context(), "n1"); err == nil {
		t.Error("dialed a closed port")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := layerOf(t, 2, resolveTo(a, 1))
	if _, err := c.Dial(ctx, "n1"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	c.Close()
	if _, err := c.Dial(t.Context(), "n1"); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestRaftDialsWhereItMayBe: endpoints are tried in turn, and at last where the node answered before.
func TestRaftDialsWhereItMayBe(t *testing.T) {
	a := layerOf(t, 1, nil)
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	said := []string{dead.Addr().String(), a.Addr().String()}
	b := layerOf(t, 2, func(c *RaftConfig) {
		c.Resolve = func(string) ([]string, identity.PublicKey, error) { return said, testKey(1).Public(), nil }
	})
	for _, said = range [][]string{said, {dead.Addr().String()}, nil} {
		c, err := b.Dial(t.Context(), "n1")
		if err != nil {
			t.Fatalf("%q: %v", said, err)
		}
		c.Close()
	}
	other := layerOf(t, 2, func(c *RaftConfig) {
		c.Resolve = func(string) ([]string, identity.PublicKey, error) { return nil, testKey(1).Public(), nil }
	})
	if _, err := other.Dial(t.Context(), "n1"); err == nil || !strings.Contains(err.Error(), "not known where it is") {
		t.Error(err)
	}
}

// TestRaftRecheckOutbound: streams to a node that the roster lost are closed too.
func TestRaftRecheckOutbound(t *testing.T) {
	a := layerOf(t, 1, nil)
	var out atomic.Bool
	b := layerOf(t, 2, func(c *RaftConfig) {
		resolveTo(a, 1)(c)
		c.Keep = func(target string, key identity.PublicKey) error {
			if target != "n1" || key != testKey(1).Public() || out.Load() {
				return errors.New("lost")
			}
			return nil
		}
	})
	c, err := b.Dial(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	if n := b.Recheck(); n != 0 || b.Open("n1") != 1 {
		t.Fatalf("%d closed, %d open", n, b.Open("n1"))
	}
	out.Store(true)
	if n := b.Recheck(); n != 1 || b.Open("n1") != 0 {
		t.Fatalf("%d closed, %d open", n, b.Open("n1"))
	}
	if _, err := c.Write([]byte("x")); err == nil {
		t.Error("it can be written on")
	}
}

// TestRaftRecheck: a voter that the roster lost loses its open streams.
func TestRaftRecheck(t *testing.T) {
	var out atomic.Bool
	a := layerOf(t, 1, func(c *RaftConfig) {
		guard := c.Guard
		c.Guard = func(h wire.RaftStreamHeader, peer identity.PublicKey) error {
			if out.Load() && h.Source == "n2" {
				return errors.New("forgotten")
			}
			return guard(h, peer)
		}
	})
	var streams []net.Conn
	for _, n := range []byte{2, 3} {
		c, err := layerOf(t, n, resolveTo(a, 1)).Dial(t.Context(), "n1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Accept(); err != nil {
			t.Fatal(err)
		}
		streams = append(streams, c)
	}
	if n := a.Recheck(); n != 0 {
		t.Errorf("%d streams closed without a reason", n)
	}
	out.Store(true)
	if n := a.Recheck(); n != 1 || a.Refused(RefuseRaftGuard) != 1 {
		t.Errorf("%d streams closed, %d counted", n, a.Refused(RefuseRaftGuard))
	}
	streams[0].SetReadDeadline(time.Now().Add(patience))
	if _, err := streams[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the forgotten voter's stream: %v", err)
	}
	streams[1].SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	var timeout net.Error
	if _, err := streams[1].Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("the other voter's stream: %v", err)
	}
}

// TestRaftBacklog: streams that raft does not take are bounded.
func TestRaftBacklog(t *testing.T) {
	a := layerOf(t, 1, nil)
	b := layerOf(t, 2, resolveTo(a, 1))
	for range raftBacklog + 3 {
		if _, err := b.Dial(t.Context(), "n1"); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, func() bool { return a.Refused(RefuseRaftBacklog) == 3 })
}
