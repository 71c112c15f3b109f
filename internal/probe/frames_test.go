package probe

import (
	"net/netip"
	"testing"
)

// packet is a beacon's head from 10.1.0.2:41000 to 10.1.255.255:6681, written out by hand.
var packet = []byte{
	0x45, 0, 0, 36, 0, 1, 0, 0, 64, 17, 0, 0, 10, 1, 0, 2, 10, 1, 255, 255,
	0xa0, 0x28, 0x1a, 0x19, 0, 16, 0, 0,
	0xfd, 0x03, 0x01, 0, 0, 0, 0, 9,
}

func TestParseIPv4(t *testing.T) {
	f, ok := parseIPv4(packet)
	if !ok || f.From != netip.MustParseAddrPort("10.1.0.2:41000") || f.To != netip.MustParseAddrPort("10.1.255.255:6681") || f.Head != [3]byte{0xfd, 3, 1} {
		t.Errorf("%t %+v", ok, f)
	}
	options := append(append([]byte{0x46}, packet[1:20]...), append(make([]byte, 4), packet[20:]...)...)
	if g, ok := parseIPv4(options); !ok || g != f {
		t.Errorf("with options: %t %+v", ok, g)
	}
	for what, change := range map[string]func(b []byte) []byte{
		"TCP":                   func(b []byte) []byte { b[9] = 6; return b },
		"IPv6":                  func(b []byte) []byte { b[0] = 0x65; return b },
		"a header too short":    func(b []byte) []byte { b[0] = 0x44; return b },
		"a later fragment":      func(b []byte) []byte { b[7] = 1; return b },
		"more fragments":        func(b []byte) []byte { b[6] = 0x20; return b },
		"cut in the UDP header": func(b []byte) []byte { return b[:27] },
		"nothing":               func([]byte) []byte { return nil },
	} {
		if g, ok := parseIPv4(change(append([]byte(nil), packet...))); ok {
			t.Errorf("%s: %+v", what, g)
		}
	}
}

func FuzzParseIPv4(f *testing.F) {
	f.Add(packet)
	f.Fuzz(func(t *testing.T, b []byte) {
		if g, ok := parseIPv4(b); ok && (!g.From.Addr().Is4() || !g.To.Addr().Is4()) {
			t.Errorf("%+v", g)
		}
	})
}
