package node

import (
	crand "crypto/rand"
	mathrand "math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pace-node/internal/config"
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
