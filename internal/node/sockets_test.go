package node

import (
	"context"
	crand "crypto/rand"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/netio"
	"pace-node/internal/netsim"
	"pace-node/internal/wire"
)

// takenUDP is a UDP port of 127.255.255.255 and of 127.0.0.1 that somebody holds for himself.
func takenUDP(t *testing.T) int {
	t.Helper()
	c, err := net.ListenPacket("udp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().(*net.UDPAddr).Port
}

func systemConfig(t *testing.T) Config {
	s := settings(filepath.Join(t.TempDir(), "state"), "one")
	s.Listen, s.ListenRaft, s.AdminListen, s.DiscoveryLoopback, s.Typed = "127.0.0.1:0", "127.0.0.1:0", "", true, map[string]config.Origin{}
	return Config{Settings: s, Network: SystemNetwork{Loopback: true}, Entropy: func(b []byte) { crand.Read(b) }, Random: mathrand.Float64, NoSync: true}
}

// TestDiscoveryPortTaken: a port that was typed refuses the start and is named; a default stands down, and the node serves.
func TestDiscoveryPortTaken(t *testing.T) {
	taken := takenUDP(t)
	for _, c := range []struct {
		name  string
		typed []string
		set   func(*config.Config)
		flag  string // named in the refusal; "": it stands down
	}{
		{"typed listener", []string{"discovery"}, func(c *config.Config) { c.Discovery = ":" + strconv.Itoa(taken) }, "--discovery"},
		{"typed answering port", []string{"discovery-reply-port"}, func(c *config.Config) { c.DiscoveryReplyPort = uint16(taken) }, "--discovery-reply-port"},
		{"default listener", nil, func(c *config.Config) { c.Discovery = ":" + strconv.Itoa(taken) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := systemConfig(t)
			c.set(&cfg.Settings)
			for _, o := range c.typed {
				cfg.Settings.Typed[o] = config.OriginFlag
			}
			n, err := Start(cfg)
			if c.flag != "" {
				if err == nil {
					n.Stop()
					t.Fatal("it started")
				}
				if !strings.Contains(err.Error(), c.flag) || !strings.Contains(err.Error(), strconv.Itoa(taken)) {
					t.Errorf("%v, want the flag %s and the port %d named", err, c.flag, taken)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer n.Stop()
			if list := n.board.List(); !n.board.Raised("discovery-no-interface") {
				t.Errorf("conditions %+v, want discovery-no-interface", list)
			}
			if n.discoveryStatus().On {
				t.Error("discovery is shown as on")
			}
		})
	}
}

// TestStatusWithoutAnAddress: what is open is shown as open, and one reason of two addresses is said once.
func TestStatusWithoutAnAddress(t *testing.T) {
	dir := t.TempDir()
	netsim.Bubble(t, func(t *testing.T) {
		s := newSim(t, 1, dir)
		defer s.stop()
		cfg := s.config(0)
		cfg.Settings.AdminListen = ""
		cfg.Network = &noAddress{simNet: cfg.Network.(*simNet)}
		n, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		s.nodes = append(s.nodes, n)
		raw, err := n.nodeStatus(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		doc, err := wire.DecodeDocument[control.NodeStatus](raw)
		if err != nil {
			t.Fatal(err)
		}
		if doc.Endpoints.Advertised != "" || !strings.HasSuffix(doc.Endpoints.Raft, ":6680") {
			t.Errorf("endpoints %+v, want the consensus port as open and nothing advertised", doc.Endpoints)
		}
		c, ok := raised(n, "discovery-no-interface")
		if want := "no interface can carry a beacon, which needs IPv4 and broadcast: lo: loopback; tun0: it is down"; !ok || c.Detail != want {
			t.Errorf("%+v, want %q", c, want)
		}
	})
}

// noAddress is a machine whose interfaces cannot carry a beacon.
type noAddress struct{ *simNet }

func (m *noAddress) Address(netio.DatagramPort) (netip.Addr, bool) { return netip.Addr{}, false }

func (m *noAddress) Datagrams(cfg netio.DatagramConfig) (netio.DatagramPort, error) {
	port, err := m.simNet.Datagrams(cfg)
	return &noInterface{port}, err
}

type noInterface struct{ netio.DatagramPort }

func (noInterface) Interfaces() []netio.InterfaceChoice {
	return []netio.InterfaceChoice{{Name: "lo", Why: "loopback"}, {Name: "lo", Why: "loopback"}, {Name: "tun0", Why: "it is down"}}
}

// TestConsensusPortOfTheKernel: a learner whose consensus port nobody has chosen yet announces none, and arrives.
func TestConsensusPortOfTheKernel(t *testing.T) {
	dir := t.TempDir()
	netsim.Bubble(t, func(t *testing.T) {
		s := newSim(t, 6, dir)
		defer s.stop()
		founder, other := pair(t, s)
		s.join(t, founder, other)
		other.Stop()
		cfg := s.config(1)
		cfg.Settings.ListenRaft = ":0"
		cfg.Settings.Labels = map[string]string{"again": "yes"}
		again, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		s.nodes[1] = again
		if !s.until(time.Minute, func() bool { m, _ := founder.View().Member(other.ID()); return m.Labels["again"] == "yes" }) {
			m, _ := founder.View().Member(other.ID())
			t.Errorf("its announcement is refused: %+v", m.Endpoints)
		}
	})
}
