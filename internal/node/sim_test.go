package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/formation"
	"pace-node/internal/netio"
	"pace-node/internal/netsim"
	"pace-node/internal/wire"
)

// simNet is one machine on a simulated segment.
type simNet struct {
	s    *sim
	addr netip.Addr
	port *netsim.Port
}

func (m *simNet) Datagrams(cfg netio.DatagramConfig) (netio.DatagramPort, error) {
	m.port = m.s.segment.Attach(m.addr, cfg.Listen.Port())
	return m.port, nil
}
func (m *simNet) Listen(addr string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	return m.s.net.Listen(netip.AddrPortFrom(m.addr, uint16(p)))
}
func (m *simNet) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return m.s.net.Dialer(m.addr)(ctx, network, addr)
}
func (m *simNet) Address(netio.DatagramPort) (netip.Addr, bool) { return m.addr, true }

// sim is a segment with whole nodes on it, in virtual time.
type sim struct {
	t       *testing.T
	seed    uint64
	dir     string
	segment *netsim.Segment
	net     *netsim.Net
	nodes   []*Node
	log     *story
	tweaks  map[int][]tweak // how the kit booted each machine
	healthy bool            // nothing alarming may be raised
	expect  []string        // but alarms that the test is about: parts of their lines
}

// story keeps the last lines of every node, for a seed that fails, and the ones that no healthy run holds.
type story struct {
	mu     sync.Mutex
	lines  []string
	alarms []string
	marks  map[string]mark // of conditions, by id
}

// mark is what the log said of one condition.
type mark struct{ raised, cleared bool }

func (s *story) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := strings.TrimRight(string(b), "\n")
	s.lines = append(s.lines, line)
	s.note(line)
	if alarming(line) {
		s.alarms = append(s.alarms, line)
	}
	if len(s.lines) > 4000 {
		s.lines = s.lines[2000:]
	}
	return len(b), nil
}

// all are the lines that are kept.
func (s *story) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}

func (s *story) tell(t *testing.T, last int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Log(strings.Join(s.lines[max(0, len(s.lines)-last):], "\n"))
}

func newSim(t *testing.T, seed uint64, dir string) *sim {
	return &sim{t: t, seed: seed, dir: dir, segment: netsim.NewSegment(seed), net: netsim.NewNet(), log: &story{}, tweaks: map[int][]tweak{}}
}

// settings are what a node runs under on the segment.
func settings(dir, name string) config.Config {
	return config.Config{StateDir: dir, Name: name, Labels: map[string]string{}, Listen: ":6674", ListenRaft: ":6680", Discovery: ":6681",
		Provision: config.ProvisionConfig{Interval: time.Minute, Workers: 2, Queue: 1000, HelperTimeout: 10 * time.Second, Component: "provision_mode_server", Mode: "auto"}}
}

func (s *sim) config(i int) Config {
	name := fmt.Sprintf("m%03d", i)
	rng := rand.New(rand.NewPCG(s.seed, uint64(i)))
	var mu sync.Mutex
	return Config{
		Settings: settings(filepath.Join(s.dir, name), name), HostName: name,
		Logger:  slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelInfo})).With("on", name),
		Network: &simNet{s: s, addr: netip.AddrFrom4([4]byte{10, 77, byte(i / 200), byte(i%200 + 1)})},
		Entropy: func(b []byte) {
			mu.Lock()
			defer mu.Unlock()
			for len(b) > 0 {
				var w [8]byte
				binary.LittleEndian.PutUint64(w[:], rng.Uint64())
				b = b[copy(b, w[:]):]
			}
		},
		Random: func() float64 { mu.Lock(); defer mu.Unlock(); return rng.Float64() },
		Facts:  func() map[string]any { return map[string]any{} },
		NoSync: true,
	}
}

func (s *sim) start(i int) *Node {
	n, err := Start(s.config(i))
	if err != nil {
		s.t.Fatalf("start of node %d: %v", i, err)
	}
	return n
}

func (s *sim) stop() {
	if s.healthy && !s.t.Failed() {
		s.checkProofs()
		for _, n := range s.nodes {
			if n != nil && n.ask(context.Background(), func(time.Time) {}) == nil {
				s.checkIgnored(n)
			}
		}
	}
	var wg sync.WaitGroup
	for _, n := range s.nodes {
		if n != nil {
			wg.Go(n.Stop)
		}
	}
	wg.Wait()
	s.segment.Close()
	if s.healthy {
		s.checkAlarms()
	}
}

var local = control.Peer{Local: true}

// arm opens the auto-approve window on a node.
func (s *sim) arm(n *Node, seconds int) error {
	_, err := n.EnrollControl(context.Background(), local, wire.EnrollControl{Op: wire.ControlWindow, Argument: []byte(strconv.Itoa(seconds))})
	return err
}

// until waits in virtual time.
func (s *sim) until(limit time.Duration, done func() bool) bool {
	for began := time.Now(); time.Since(began) < limit; time.Sleep(100 * time.Millisecond) {
		if done() {
			return true
		}
	}
	return done()
}

func (s *sim) modes() string {
	count := map[string]int{}
	for _, n := range s.nodes {
		count[n.Mode().String()+" in "+n.View().Cluster()[:6]]++
	}
	return fmt.Sprint(count)
}

// eldest is who wins every tie-break: the founder that all others end at.
func (s *sim) eldest() *Node {
	return slices.MinFunc(s.nodes, func(a, b *Node) int {
		if formation.TieBreakYields(a.View().Created(), a.View().Cluster(), b.View().Created(), b.View().Cluster()) {
			return 1
		}
		return -1
	})
}

// seeds are the simulation's seeds: five in a test run, as many as PACE_SIM_SEEDS says with make
// sim-nodes.
func seeds(t *testing.T) int {
	text := os.Getenv("PACE_SIM_SEEDS")
	if text == "" {
		return 5
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("PACE_SIM_SEEDS=%q is not a number of seeds", text)
	}
	return n
}

// TestSimPoweredOnTogether: fifty nodes that are powered on together end as one fleet with one founder.
func TestSimPoweredOnTogether(t *testing.T) {
	machines := simMachines
	for i := range seeds(t) {
		seed := uint64(i + 1)
		loss := []float64{0, 0.2, 0.4}[i%3]
		t.Run(fmt.Sprintf("seed %d loss %.0f%%", seed, loss*100), func(t *testing.T) {
			dir := t.TempDir()
			netsim.Bubble(t, func(t *testing.T) {
				// A clock before 2026 counts as none, and a fleet founded under it as the newest.
				time.Sleep(time.Until(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)))
				s := newSim(t, seed, dir)
				s.healthy = true
				defer s.stop()
				s.segment.Set(netsim.Knobs{Loss: loss, Duplicate: 0.05, MaxDelay: 5 * time.Millisecond})
				for j := range machines {
					s.nodes = append(s.nodes, s.start(j))
				}
				founder := s.eldest()
				cluster := founder.View().Cluster()
				if err := s.arm(founder, 3600); err != nil {
					t.Fatalf("arm the window: %v", err)
				}
				one := func() bool {
					for _, n := range s.nodes {
						want := formation.Learner
						if n == founder {
							want = formation.Voter
						}
						if n.Mode() != want || n.View().Cluster() != cluster || n.View().Len() != machines || n.View().Digest() != founder.View().Digest() {
							return false
						}
					}
					return true
				}
				began := time.Now()
				if !s.until(10*time.Minute, one) {
					s.log.tell(t, 200)
					t.Fatalf("after %s: %s", time.Since(began), s.modes())
				}
				t.Logf("one fleet after %s of virtual time", time.Since(began))
				for _, n := range s.nodes {
					if n != founder {
						if entries, err := os.ReadDir(filepath.Join(n.dir.Path(), "archive")); err != nil || len(entries) != 1 {
							t.Errorf("%s archived %d stores (%v), want its own solitary one", n.name, len(entries), err)
						}
					}
				}
			})
		})
	}
}

// simMachines is how many machines are powered on together.
var simMachines = func() int {
	if n, err := strconv.Atoi(os.Getenv("PACE_SIM_MACHINES")); err == nil && n > 1 {
		return n
	}
	return 50
}()
