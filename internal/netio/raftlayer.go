package netio

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// RaftConfig is what NewRaftLayer needs.
type RaftConfig struct {
	Key             identity.PrivateKey
	NodeID, Cluster string
	// Epoch is the recovery epoch now; nil: 0. It is asked at each stream, since the store that knows it opens after the
	// layer. It must not block.
	Epoch func() uint64
	// Guard is the roster's word on a stream whose cluster, target and epoch fit: whether the key is that of the source,
	// and its role voter or voter-pending. An error refuses. It must not block.
	Guard func(h wire.RaftStreamHeader, peer identity.PublicKey) error
	// Keep is the roster's word on a stream that this node opened: whether the key is still that of the target. An error
	// closes it at a Recheck; nil keeps all. It must not block.
	Keep func(target string, key identity.PublicKey) error
	// Resolve says where a node may be, likeliest first, and which key must answer there. Where it was reached last is
	// tried after them.
	Resolve func(id string) (endpoints []string, key identity.PublicKey, err error)
	Listen  net.Listener // owned by the layer
	Dialer  Dialer       // nil: net.Dialer
	Logger  *slog.Logger // nil: silent
	// Loopback is --discovery-loopback: no bound a source for 127.0.0.0/8.
	Loopback bool
}

func (c *RaftConfig) epoch() uint64 {
	if c.Epoch == nil {
		return 0
	}
	return c.Epoch()
}

// RaftLayer carries raft's streams between voters: each is a TLS connection that opens with its header and is served
// only where the cluster, the epoch, the target and the roster agree. Raft itself checks none of this.
type RaftLayer struct {
	cfg    RaftConfig
	noise  *noise
	shows  *presenter
	server *tls.Config
	ctx    context.Context
	cancel context.CancelFunc
	ready  chan net.Conn
	counts refusalCounts

	mu         sync.Mutex
	closed     bool
	wait       sync.WaitGroup // added to only under mu while not closed
	streams    map[*raftStream]struct{}
	reached    map[string]string // id → the endpoint at which it answered last
	handshakes handshakes
}

// NewRaftLayer starts to accept on cfg.Listen. Close ends it.
func NewRaftLayer(cfg RaftConfig) *RaftLayer {
	if cfg.Dialer == nil {
		cfg.Dialer = (&net.Dialer{}).DialContext
	}
	l := &RaftLayer{
		cfg: cfg, noise: newNoise(cfg.Logger),
		shows:      newPresenter(cfg.Key),
		ready:      make(chan net.Conn, raftBacklog),
		streams:    map[*raftStream]struct{}{},
		reached:    map[string]string{},
		handshakes: handshakes{loopback: cfg.Loopback},
	}
	l.server = l.shows.server(ProtocolRaft)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.wait.Add(1)
	go func() {
		defer l.wait.Done()
		if err := acceptAll(l.ctx, cfg.Listen, l.noise, l.begin); err != nil {
			l.noise.say("listener", "the consensus port stopped listening", slog.Any("error", err))
		}
	}()
	return l
}

// Addr returns what the layer listens on.
func (l *RaftLayer) Addr() net.Addr { return l.cfg.Listen.Addr() }

// Refused returns how many connections and streams were refused for one reason.
func (l *RaftLayer) Refused(r Refusal) uint64 { return l.counts.get(r) }

// Open returns how many streams are open with a node, in both directions.
func (l *RaftLayer) Open(id string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.streams {
		if s.inbound && s.header.Source == id || !s.inbound && s.header.Target == id {
			n++
		}
	}
	return n
}

// Dial opens a stream to a node.
func (l *RaftLayer) Dial(ctx context.Context, id string) (net.Conn, error) {
	endpoints, key, err := l.cfg.Resolve(id)
	if err != nil {
		return nil, fmt.Errorf("consensus stream to %s: %w", wire.Printable(id), err)
	}
	l.mu.Lock()
	last := l.reached[id]
	l.mu.Unlock()
	if last != "" && !slices.Contains(endpoints, last) {
		endpoints = append(slices.Clip(endpoints), last)
	}
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	err = fmt.Errorf("consensus stream to %s: it is not known where it is", wire.Printable(id))
	for i, endpoint := range endpoints {
		try, stop := ctx, context.CancelFunc(func() {})
		if i < len(endpoints)-1 {
			try, stop = context.WithTimeout(ctx, raftTryWithin)
		}
		var c net.Conn
		c, err = l.dial(try, id, endpoint, key)
		stop()
		if err == nil {
			l.mu.Lock()
			l.reached[id] = endpoint
			l.mu.Unlock()
			return c, nil
		}
		if l.ctx.Err() != nil {
			err = ErrClosed
		}
		err = fmt.Errorf("consensus stream to %s at %s: %w", wire.Printable(id), wire.Printable(endpoint), err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

func (l *RaftLayer) dial(ctx context.Context, id, endpoint string, key identity.PublicKey) (net.Conn, error) {
	raw, err := l.cfg.Dialer(ctx, "tcp", endpoint)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, l.shows.client(ProtocolRaft, &key))
	hctx, cancel := context.WithTimeout(ctx, HandshakeWithin)
	defer cancel()
	if err := conn.HandshakeContext(hctx); err != nil {
		if errors.Is(err, ErrPeerKey) {
			l.refuse(addrPort(raw.RemoteAddr()).Addr(), RefusePeerKey, nil)
		}
		_ = raw.Close()
		return nil, fmt.Errorf("handshake: %w", err)
	}
	h := wire.RaftStreamHeader{Cluster: l.cfg.Cluster, Source: l.cfg.NodeID, Target: id, Epoch: l.cfg.epoch()}
	_ = conn.SetWriteDeadline(time.Now().Add(raftHeaderWithin))
	if _, err := conn.Write(h.Append(nil)); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("header: %w", err)
	}
	_ = conn.SetWriteDeadline(time.Time{})
	s := &raftStream{Conn: conn, layer: l, header: h, peer: key}
	if !l.keep(s) {
		_ = raw.Close()
		return nil, ErrClosed
	}
	return s, nil
}

// Accept returns the next stream that the guard let in; its error after Close is ErrClosed.
func (l *RaftLayer) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.ctx.Done():
		return nil, ErrClosed
	}
}

// Close stops listening, closes every stream in both directions, and waits.
func (l *RaftLayer) Close() error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	streams := make([]*raftStream, 0, len(l.streams))
	for s := range l.streams {
		streams = append(streams, s)
	}
	l.mu.Unlock()
	var err error
	if first {
		l.cancel()
		err = l.cfg.Listen.Close()
		for _, s := range streams {
			// Not through TLS: its farewell waits for a peer that does not read.
			_ = s.NetConn().Close()
		}
	}
	l.wait.Wait()
	return err
}

// Recheck asks the roster again about every stream, and closes those that it refuses now: after it lost a voter.
func (l *RaftLayer) Recheck() (closed int) {
	l.mu.Lock()
	var open []*raftStream
	for s := range l.streams {
		open = append(open, s)
	}
	l.mu.Unlock()
	for _, s := range open {
		if !s.inbound {
			if l.cfg.Keep != nil && l.cfg.Keep(s.header.Target, s.peer) != nil {
				_ = s.NetConn().Close() // not through TLS: its farewell waits for a peer that does not read
				_ = s.Close()
				closed++
			}
			continue
		}
		if err := l.cfg.Guard(s.header, s.peer); err != nil {
			l.refuse(addrPort(s.RemoteAddr()).Addr(), RefuseRaftGuard, err)
			_ = s.Close()
			closed++
		}
	}
	return closed
}

// raftStream is one stream in either direction.
type raftStream struct {
	*tls.Conn
	layer   *RaftLayer
	inbound bool
	header  wire.RaftStreamHeader
	peer    identity.PublicKey
}

// Close implements net.Conn.
func (s *raftStream) Close() error {
	s.layer.mu.Lock()
	delete(s.layer.streams, s)
	s.layer.mu.Unlock()
	return s.Conn.Close()
}

// keep books an open stream; false after Close.
func (l *RaftLayer) keep(s *raftStream) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.streams[s] = struct{}{}
	return true
}

// begin takes a place for a handshake and runs it.
func (l *RaftLayer) begin(c net.Conn) {
	source := addrPort(c.RemoteAddr()).Addr()
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		_ = c.Close()
		return
	}
	l.wait.Add(1)
	l.mu.Unlock()
	place := l.handshakes.begin(c)
	if place == nil {
		l.refuse(source, RefuseHandshakesFull, nil)
		_ = c.Close()
		l.wait.Done()
		return
	}
	go func() {
		defer l.wait.Done()
		s, r, err := l.accept(c)
		if l.handshakes.end(place) && r != RefusalNone {
			r, err = RefuseHandshakesFull, errGaveWay
		}
		if r == RefusalNone {
			select {
			case l.ready <- s:
				return
			default:
				r = RefuseRaftBacklog
				_ = s.Close()
			}
		}
		if l.ctx.Err() == nil {
			l.refuse(source, r, err)
		}
		_ = c.Close()
	}()
}

// raftChecks are asked of a header in this order; the first that fails is the reason.
var raftChecks = []struct {
	Refusal Refusal
	Fits    func(c *RaftConfig, h *wire.RaftStreamHeader) bool
}{
	{RefuseRaftCluster, func(c *RaftConfig, h *wire.RaftStreamHeader) bool { return h.Cluster == c.Cluster }},
	{RefuseRaftTarget, func(c *RaftConfig, h *wire.RaftStreamHeader) bool { return h.Target == c.NodeID }},
	{RefuseRaftSource, func(c *RaftConfig, h *wire.RaftStreamHeader) bool { return h.Source != c.NodeID }},
	{RefuseRaftEpoch, func(c *RaftConfig, h *wire.RaftStreamHeader) bool { return h.Epoch == c.epoch() }},
}

// judge returns why a header is refused.
func (l *RaftLayer) judge(h *wire.RaftStreamHeader, peer identity.PublicKey) (Refusal, error) {
	for _, c := range raftChecks {
		if !c.Fits(&l.cfg, h) {
			return c.Refusal, nil
		}
	}
	if err := l.cfg.Guard(*h, peer); err != nil {
		return RefuseRaftGuard, err
	}
	return RefusalNone, nil
}

// accept does the handshake and reads and judges the header.
func (l *RaftLayer) accept(c net.Conn) (*raftStream, Refusal, error) {
	conn := tls.Server(c, l.server)
	key, r, err := serverHandshake(l.ctx, conn)
	if err != nil {
		return nil, r, err
	}
	// Close must reach a connection that names itself slowly.
	defer context.AfterFunc(l.ctx, func() { _ = c.Close() })()
	_ = conn.SetReadDeadline(time.Now().Add(raftHeaderWithin))
	raw, err := readRaftHeader(conn)
	if err != nil {
		return nil, RefuseRaftHeader, err
	}
	h, err := wire.DecodeRaftStreamHeader(raw)
	if err != nil {
		return nil, RefuseRaftHeader, err
	}
	_ = conn.SetReadDeadline(time.Time{})
	if r, err := l.judge(&h, key); r != RefusalNone {
		return nil, r, err
	}
	s := &raftStream{Conn: conn, layer: l, inbound: true, header: h, peer: key}
	if !l.keep(s) {
		return nil, RefuseRaftBacklog, ErrClosed
	}
	return s, RefusalNone, nil
}

// raftFields bounds each field of a header, in order: cluster, source, target, epoch.
var raftFields = [...]uint32{wire.MaxID, wire.MaxID, wire.MaxID, 8}

// readRaftHeader reads the four fields and no byte more: what follows is raft's.
func readRaftHeader(r io.Reader) ([]byte, error) {
	out := make([]byte, 0, wire.MaxRaftStreamHeader)
	for _, most := range raftFields {
		var n [4]byte
		if _, err := io.ReadFull(r, n[:]); err != nil {
			return nil, err
		}
		length := binary.BigEndian.Uint32(n[:])
		if length > most {
			return nil, wire.ErrMalformed
		}
		out = append(out, n[:]...)
		at := len(out)
		out = append(out, make([]byte, length)...)
		if _, err := io.ReadFull(r, out[at:]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// refuse counts a refusal and says it once a minute. Nothing that the stream claims is named, and of the guard's error
// only what the guard says.
func (l *RaftLayer) refuse(source netip.Addr, r Refusal, err error) {
	l.counts.add(r)
	row := r.Row()
	attrs := []slog.Attr{slog.String("reason", row.Label), slog.String("source", source.String()), slog.String("why", row.Text)}
	if err != nil && (r == RefuseRaftGuard || r == RefuseHandshake) {
		attrs = append(attrs, slog.String("error", wire.Printable(err.Error())))
	}
	l.noise.say("refused "+row.Label, "a consensus stream was refused", attrs...)
}
