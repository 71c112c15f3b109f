package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// How a node is flooded: datagrams of every kind to both its sockets, and connections to both TCP ports that never shake
// hands. The first flood fills every table; the second, ten times as long, must find them full.
const (
	floodDatagrams   = 50_000
	floodConnections = 512
	// heapSamples is how often the heap is read after a flood. Each reading makes garbage, so that the collector runs
	// between some of them: the least is what lives.
	heapSamples = 200
)

// flood measures what the heap of a fleet of one grows by under a flood, once its tables are full.
func flood(ctx context.Context, m *measurer, _ group) error {
	for range m.runs(3) {
		if err := floodOnce(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func floodOnce(ctx context.Context, m *measurer) error {
	l, err := m.newLab()
	if err != nil {
		return err
	}
	defer l.close()
	n, err := l.add("alder")
	if err != nil {
		return err
	}
	if err := n.start(); err != nil {
		return err
	}
	if _, err := n.ready(ctx); err != nil {
		return err
	}
	datagrams, samples := floodDatagrams, heapSamples
	if m.quick {
		datagrams, samples = 2000, 20
	}
	idle, err := n.heap(ctx, samples)
	if err != nil {
		return err
	}
	if err := n.flooded(ctx, datagrams); err != nil {
		return err
	}
	full, err := n.heap(ctx, samples)
	if err != nil {
		return err
	}
	if err := n.flooded(ctx, 10*datagrams); err != nil {
		return err
	}
	again, err := n.heap(ctx, samples)
	if err != nil {
		return err
	}
	m.add("flood-tables", max(0, full-idle))
	m.add("flood-heap", max(0, again-full))
	return nil
}

// flooded sends a flood and returns when the node has read what was not dropped on the way.
func (n *node) flooded(ctx context.Context, datagrams int) error {
	answering, err := n.answering()
	if err != nil {
		return err
	}
	to := []*net.UDPAddr{{IP: net.IPv4(127, 0, 0, 1), Port: n.lab.beacons}, answering}
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	defer conn.Close()
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for i := range floodConnections {
		port := []int{n.fc, n.raft}[i%2]
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue // its table of connections is full: that is what it is for
		}
		conns = append(conns, c)
	}
	rng := rand.New(rand.NewPCG(1, uint64(datagrams)))
	key := identity.NewPrivateKey([32]byte{'f'})
	noise := make([]byte, 1400)
	for i := range datagrams {
		var b []byte
		id := fmt.Sprintf("%032x", rng.Uint64())
		switch i % 6 {
		case 0, 1: // a beacon of a fleet that nobody has heard of
			s := wire.Summary{Cluster: id, State: wire.StateEstablished, Created: rng.Uint64(), Node: id, OwnEndpoint: "127.0.0.1:1", Total: 1}
			raw, ok := wire.FitSummary(&s)
			if !ok {
				return fmt.Errorf("the summary of a flood does not fit")
			}
			b = wire.EncodeBeacon(raw)
		case 2: // a challenge
			b, _ = wire.EncodeChallenge(id, [32]byte{byte(i)}, wire.MaxDatagram)
		case 3: // a proof for which nobody asked
			raw, _ := wire.FitSummary(&wire.Summary{Cluster: id, State: wire.StateSolitary, Node: id, OwnEndpoint: "127.0.0.1:1", Total: 1})
			b = wire.EncodeProof(raw, [32]byte{byte(i)}, key.Public(), [64]byte{1})
		case 4: // noise
			binary.LittleEndian.PutUint64(noise, rng.Uint64())
			b = noise[:rng.IntN(len(noise))]
		case 5: // another version
			b = []byte{wire.Magic, 9, 1, 0, 0, 0, 0}
		}
		if _, err := conn.WriteToUDP(b, to[i%len(to)]); err != nil {
			return err
		}
		if i%256 == 0 {
			if err := pause(ctx, time.Millisecond); err != nil {
				return err
			}
		}
	}
	return pause(ctx, time.Second)
}

// answering is where the node answers discovery, as its log says.
func (n *node) answering() (*net.UDPAddr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, line := range n.tail {
		var said struct {
			Answers string `json:"discovery-answers"`
		}
		if json.Unmarshal([]byte(line), &said) == nil && said.Answers != "" {
			_, port, err := net.SplitHostPort(said.Answers)
			if err != nil {
				return nil, err
			}
			p, err := strconv.Atoi(port)
			return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p}, err
		}
	}
	return nil, fmt.Errorf("%s does not say where it answers", n.name)
}

// heap is the least of many readings of the node's heap, in bytes.
func (n *node) heap(ctx context.Context, samples int) (float64, error) {
	client := http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	least := math.Inf(1)
	for range samples {
		resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", n.http))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", n.name, err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "go_memstats_heap_alloc_bytes "); ok {
				f, err := strconv.ParseFloat(v, 64)
				if err != nil {
					return 0, err
				}
				least = min(least, f)
			}
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
	if math.IsInf(least, 1) {
		return 0, fmt.Errorf("%s: /metrics tells no heap", n.name)
	}
	return least, nil
}
