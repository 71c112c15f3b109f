//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

// fleetOf is the summary of an established fleet that a key of mallory's leads.
func (m *hostile) fleetOf(n int, created uint64, key identity.PrivateKey) []byte {
	m.t.Helper()
	id, endpoint := fmt.Sprintf("%032x", 0xf00+n), m.host.addr.String()+":6674"
	raw, ok := wire.FitSummary(&wire.Summary{Cluster: id, State: wire.StateEstablished, Created: created, Node: id, OwnEndpoint: endpoint,
		Leader: wire.Leader{ID: id, Endpoint: endpoint, Key: key.Public(), HasKey: true}, Total: 1_000_000})
	if !ok {
		m.t.Fatal("the summary does not fit")
	}
	return raw
}

// TestImpostorsAndMoreThanSixteenFleets: machines that prove "established, created at 0", and more fleets than are
// remembered, change nobody's mind: a fleet stays as it is and says so, a machine that asks goes on asking, tables stay bounded
// and what they displace is counted.
func TestImpostorsAndMoreThanSixteenFleets(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch", metered)
	b.follows(a)
	c := l.hosts[2].start(t, "cedar", metered)
	id, key := c.asks(a)
	m := l.hosts[3].hostile(t)
	before, memory := a.standing(), a.memory()
	asking, err := c.status()
	if err != nil || asking.Mode != "pending" {
		t.Fatalf("%s, %v", asking.Mode, err)
	}
	const fleets = 24
	for _, n := range []*node{a, c} {
		displaced := n.metrics().of(t, overBound)
		for i := range fleets {
			k := newKey(byte(150 + i))
			created := uint64(0)
			if i%2 == 1 { // and some whose age would win
				created = uint64(time.Date(2026, 1, 2, 0, 0, i, 0, time.UTC).Unix())
			}
			m.proves(n, k, m.fleetOf(i, created, k), verified)
		}
		got := n.metrics()
		if got.of(t, foreign) != 16 || got.of(t, overBound)-displaced < fleets-16 {
			t.Errorf("%s remembers %v fleets of %d, and counts %v displaced", n.name, got.of(t, foreign), fleets, got.of(t, overBound)-displaced)
		}
	}
	if after := a.standing(); after != before {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	a.shows("the condition", func(d nodeDoc) bool { return d.has("foreign-fleet-visible") })
	if d, err := c.status(); err != nil || d.Mode != "pending" {
		t.Errorf("cedar is %s, %v", d.Mode, err)
	}
	a.holds(memory, 16)
	if again, k := c.asks(a); again != id || k != key {
		t.Errorf("%s asks now", again)
	}
	a.must("--enroll-approve=" + id + "@" + key)
	c.inMode("learner", a)
}

// TestAsksFromOneIPv6Network: five hundred addresses of one IPv6 network are one source, at the sessions and in the list.
func TestAsksFromOneIPv6Network(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	for i, h := range l.hosts {
		h.ip("addr", "add", fmt.Sprintf("fd00:1::%d/64", i+1), "dev", "eth0", "nodad")
	}
	a := l.hosts[0].start(t, "alder", metered)
	h := l.hosts[1]
	endpoint := "[fd00:1::1]:6674"
	const asks = 500
	var batch strings.Builder
	for i := range asks {
		fmt.Fprintf(&batch, "addr add fd00:1::9:%x/128 dev eth0 nodad\n", i+1)
	}
	h.batch(batch.String())
	full, waiting := 0, 0
	for i := range asks {
		from := netip.MustParseAddr(fmt.Sprintf("fd00:1::9:%x", i+1))
		key := identity.NewPrivateKey([32]byte{'6', byte(i), byte(i >> 8)})
		hub := netio.NewHub(netio.HubConfig{Key: key, Handler: deaf{}, Dialer: func(ctx context.Context, _, addr string) (conn net.Conn, err error) {
			h.in(func() {
				conn, err = (&net.Dialer{Timeout: 5 * time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}).DialContext(ctx, "tcp6", addr)
			})
			return conn, err
		}})
		k := &client{t: t, key: key, hub: hub}
		ans, code := k.enroll(endpoint, wire.EnrollRequest{ID: fmt.Sprintf("%064d", i), Endpoint: "[" + from.String() + "]:6674", Nonce: [32]byte{1}})
		hub.Close()
		switch {
		case code == wire.CodeSourceFull:
			full++
		case code == 0 && ans.Outcome == wire.OutcomePending:
			waiting++
		default:
			t.Fatalf("ask %d: %s, %s", i, code, ans.Outcome)
		}
	}
	if waiting != 4 || full != asks-4 {
		t.Errorf("%d wait, %d are refused by name; one network has four rows", waiting, full)
	}
	m := a.metrics()
	if got := m.of(t, `pace_enrollment_requests_refused_total{reason="source"}`) + m.of(t, refusedSessions(netio.RefuseSourceFull)); got != asks-4 {
		t.Errorf("%v are counted of %d", got, asks-4)
	}
	if d, err := a.waiting(); err != nil || len(d.Rows) != 4 {
		t.Errorf("%v: %d rows", err, len(d.Rows))
	}
	// An honest machine is not of that network.
	nextSecond(t)
	c := l.hosts[2].start(t, "cedar")
	c.asks(a)
}

// batch runs many lines of ip inside the host's namespace.
func (h *host) batch(lines string) {
	h.lan.t.Helper()
	cmd := exec.Command("ip", "-n", h.ns, "-batch", "-")
	cmd.Stdin = strings.NewReader(lines)
	if out, err := cmd.CombinedOutput(); err != nil {
		h.lan.t.Fatalf("ip -batch: %v\n%s", err, out)
	}
}
