package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/netsim"
	"pace-node/internal/wire"
)

// mallory is a machine of our own making on the simulated segment: it sends any datagram, from any address, and speaks any
// verb under any key.
type mallory struct {
	s    *sim
	addr netip.Addr
	port *netsim.Port
	key  identity.PrivateKey

	in int // bytes that it, or who it claims to be, has sent to a node

	mu    sync.Mutex
	out   int // bytes that it was sent by a node
	heard []netsim.Frame
}

// overheard is what has been on the segment until now.
func (m *mallory) overheard() []netsim.Frame {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.heard)
}

// drawn is how many bytes nodes have sent it.
func (m *mallory) drawn() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out
}

// broadcastTo is where beacons go.
var broadcastTo = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 77, 255, 255}), 6681)

// mallory attaches one at the address of machine i. Everything that nodes send to anybody but each other counts as drawn by
// it: nobody else is there.
func (s *sim) mallory(i int) *mallory {
	m := &mallory{s: s, addr: addrOf(i), key: identity.NewPrivateKey([32]byte{'m', byte(i)})}
	m.port = s.segment.Attach(m.addr, 6681)
	s.segment.Hostile(func(f netsim.Frame) []netsim.Frame {
		m.mu.Lock()
		defer m.mu.Unlock()
		heard := f
		heard.Bytes = bytes.Clone(f.Bytes)
		m.heard = append(m.heard, heard)
		if !f.Broadcast && !s.machine(f.To.Addr()) && f.From.Addr() != m.addr {
			m.out += len(f.Bytes)
		}
		return []netsim.Frame{f}
	})
	return m
}

// threatened is how many machines the threat model's simulations boot at most: the hostile one stands behind them.
const threatened = 9

// machine reports whether a node may run at an address. It is asked while nodes are booted, and so looks at none.
func (s *sim) machine(a netip.Addr) bool {
	for i := range threatened {
		if addrOf(i) == a {
			return true
		}
	}
	return false
}

// ports of a node: where it hears beacons and where it answers.
func (s *sim) ports(i int) (listens, answers netip.AddrPort) {
	p := s.nodes[i].port
	return p.ListenerAddr(), p.AnsweringAddr()
}

// send puts a datagram on the segment under any source, and lets its receiver read it.
func (m *mallory) send(from, to netip.AddrPort, b []byte) {
	m.in += len(b)
	m.s.segment.Inject(netsim.Frame{From: from, To: to, Broadcast: to == broadcastTo, Bytes: b})
	time.Sleep(5 * time.Millisecond)
}

// own is where mallory is answered.
func (m *mallory) own() netip.AddrPort { return m.port.AnsweringAddr() }

// replies are the datagrams that have come since.
func (m *mallory) replies() (out [][]byte) {
	for {
		select {
		case r := <-m.port.Receive():
			if r.Answering {
				out = append(out, r.Bytes)
			}
		default:
			return out
		}
	}
}

// sound is a summary of a fleet of its own that nobody can find fault with.
func (m *mallory) sound(n int) *wire.Summary {
	id := fmt.Sprintf("%032x", n+1)
	endpoint := netip.AddrPortFrom(m.addr, 6674).String()
	return &wire.Summary{Cluster: id, State: wire.StateSolitary, Created: uint64(time.Now().Unix()), Node: id, OwnEndpoint: endpoint,
		RaftEndpoint: netip.AddrPortFrom(m.addr, 6680).String(), Leader: wire.Leader{ID: id, Endpoint: endpoint, Key: m.key.Public(), HasKey: true}, Members: []string{id}, Total: 1}
}

func raw(t *testing.T, s *wire.Summary) []byte {
	t.Helper()
	b, ok := wire.FitSummary(s)
	if !ok {
		t.Fatal("the summary does not fit")
	}
	return b
}

// challenged sends a beacon to a machine from an address and returns the challenge that it draws, if one.
func (m *mallory) challenged(from netip.AddrPort, i int, summary []byte) (c wire.Challenge, ok bool) {
	listens, _ := m.s.ports(i)
	m.replies()
	m.send(from, listens, wire.EncodeBeacon(summary))
	for _, b := range m.replies() {
		kind, payload, verdict := wire.ParseDatagram(b)
		if verdict == wire.VerdictOK && kind == wire.KindChallenge {
			c, err := wire.DecodeChallenge(payload)
			return c, err == nil
		}
	}
	return c, false
}

func proofOf(key identity.PrivateKey, c wire.Challenge, summary []byte) []byte {
	return wire.EncodeProof(summary, c.Nonce, key.Public(), key.Sign(wire.DiscoveryProofMessage(c.Cluster, c.Nonce, summary, key.Public())))
}

// proves goes through the whole exchange with machine i under a key, and reports whether it was asked for a proof.
func (m *mallory) proves(key identity.PrivateKey, i int, s *wire.Summary) bool {
	m.s.t.Helper()
	summary := raw(m.s.t, s)
	c, ok := m.challenged(m.own(), i, summary)
	if ok {
		_, answers := m.s.ports(i)
		m.send(m.own(), answers, proofOf(key, c, summary))
	}
	return ok
}

// hub speaks sessions under a key from an address.
func (m *mallory) hub(key identity.PrivateKey, from netip.Addr) *netio.Hub {
	return netio.NewHub(netio.HubConfig{Key: key, Handler: mute{}, Dialer: m.s.net.Dialer(from)})
}

type mute struct{}

func (mute) ServeStream(context.Context, *netio.Session, net.Conn) {}
func (mute) SessionOpened(*netio.Session)                          {}
func (mute) SessionClosed(*netio.Session, error)                   {}

// enroll says Hello and asks machine i to be admitted as an id, under the hub's key.
func (m *mallory) enroll(key identity.PrivateKey, from netip.Addr, i int, id string) (wire.EnrollAnswer, wire.ErrorCode) {
	m.s.t.Helper()
	h := m.hub(key, from)
	defer h.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := h.Dial(ctx, endpointOf(i), nil)
	if err != nil {
		return wire.EnrollAnswer{}, refusalCode(m.s.t, err)
	}
	hello := fmt.Appendf(nil, `{"id":%q,"name":"of our own making","wire":[%d],"format":1,"clock":%d}`, id, wire.ProtocolVersion, time.Now().UnixMilli())
	if _, err := netio.Call(ctx, s, wire.VerbHello, hello); err != nil {
		return wire.EnrollAnswer{}, refusalCode(m.s.t, err)
	}
	r := wire.EnrollRequest{ID: id, Endpoint: netip.AddrPortFrom(from, 6674).String(), Role: wire.RoleLearner, Key: key.Public(), Nonce: [32]byte{1}}
	r.Signature = key.Sign(r.Message())
	b, err := netio.Call(ctx, s, wire.VerbEnroll, r.Append(nil))
	if err != nil {
		return wire.EnrollAnswer{}, refusalCode(m.s.t, err)
	}
	a, err := wire.DecodeEnrollAnswer(b)
	if err != nil {
		m.s.t.Fatal(err)
	}
	return a, 0
}

func refusalCode(t *testing.T, err error) wire.ErrorCode {
	t.Helper()
	var e *wire.Error
	if !errors.As(err, &e) {
		t.Fatalf("%T %v is no refusal", err, err)
	}
	return e.Code
}

// all reads every series of a node's /metrics page.
func (s *sim) all(n *Node) map[string]float64 {
	w := httptest.NewRecorder()
	n.metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	out := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		name, text, ok := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(text, 64); ok && err == nil {
			out[name] = v
		}
	}
	return out
}

// counts runs f and wants exactly these refusals to be counted by n, and no other one.
func (s *sim) counts(n *Node, what string, want map[string]float64, f func()) {
	s.t.Helper()
	before := s.all(n)
	f()
	time.Sleep(20 * time.Millisecond)
	after := s.all(n)
	for name, v := range after {
		if strings.Contains(name, "refused") || strings.Contains(name, "withheld") || strings.Contains(name, "malformed") {
			if got := v - before[name]; got != want[name] {
				s.t.Errorf("%s: %s grew by %v, want %v", what, name, got, want[name])
			}
		}
	}
	for name := range want {
		if _, ok := after[name]; !ok {
			s.t.Errorf("%s: there is no series %s", what, name)
		}
	}
}

// standing is what nobody from outside may change on a node.
func (s *sim) standing(n *Node) string {
	v := n.View()
	out := fmt.Sprintf("%s in %s, digest %x, term %v, leader %s\n", n.Mode(), v.Cluster(), v.Digest(), s.metric(n, "pace_consensus_term"), n.leader().id)
	for m := range v.Members() {
		out += fmt.Sprintln(m.ID, m.Key, m.Role, m.Endpoints.FC)
	}
	return out
}

// lookup is where discovery has a member proven.
func lookup(n *Node, id string) (endpoint string, ok bool) {
	n.ask(context.Background(), func(time.Time) { endpoint, _, ok = n.exchange.Lookup(id) })
	return endpoint, ok
}

// tree is every file in a machine's state directory, by path.
func (s *sim) tree(i int) map[string][]byte {
	s.t.Helper()
	out := map[string][]byte{}
	dir := filepath.Join(s.dir, fmt.Sprintf("m%03d", i))
	s.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		out[strings.TrimPrefix(path, dir)], err = os.ReadFile(path)
		return err
	}))
	return out
}

// claiming is a datagram whose header claims a length.
func claiming(kind wire.Kind, length uint32) []byte {
	b := []byte{wire.Magic, wire.DatagramVersion, byte(kind), 0, 0, 0, 0}
	binary.BigEndian.PutUint32(b[3:], length)
	return b
}
