//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

// TestStrangersKeepNobodyOut: sessions that are complete, under sound keys that nobody admitted, from as many addresses as it
// takes to hold every stranger's place many times over, and as many at the consensus port: some silent, the others saying Hello
// now and then, as keeps a session open, each begun again as soon as it ends. An honest machine that comes meanwhile asks, is
// admitted and follows, and the learner's sessions and the leader are what they were. And one key that waits holds so many sessions
// and no more.
func TestStrangersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	b.follows(a)
	before, memory := a.standing(), a.memory()
	h := l.hosts[2]

	const sources, each = 24, 5 // four a source are let in
	hello, err := json.Marshal(wire.Hello{ID: "mallory", Wire: []int{wire.ProtocolVersion}, Format: 1, ClockMS: time.Now().UnixMilli()})
	if err != nil {
		t.Fatal(err)
	}
	summary := wire.FleetSummaryRequest{Nonce: [32]byte{1}}
	stop, halt := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	defer crowd.Wait()
	defer halt()
	var opened, refused atomic.Int64
	for i := range sources {
		from := netip.AddrFrom4([4]byte{10, 1, 61, byte(i + 1)})
		h.ip("addr", "add", from.String()+"/16", "dev", "eth0")
		for j := range each {
			c := h.clientFrom(t, newKey(byte(i*each+j)), from)
			crowd.Go(func() {
				for stop.Err() == nil {
					s, err := c.hub.Dial(stop, a.endpoint(), nil)
					if err == nil {
						opened.Add(1)
						// One of each five says nothing; the others say something now and then, as long as they are let.
						for said := 0; err == nil; said++ {
							if j > 0 {
								if _, err = netio.Call(stop, s, wire.VerbHello, hello); err == nil && said == 0 {
									_, err = netio.Call(stop, s, wire.VerbFleetSummary, summary.Append(nil))
								}
							}
							select {
							case <-s.Done():
								err = s.Err()
							case <-stop.Done():
								err = stop.Err()
							case <-time.After(2 * time.Second):
							}
						}
						refused.Add(1)
						s.Close(nil)
					}
					select {
					case <-time.After(50 * time.Millisecond):
					case <-stop.Done():
					}
				}
			})
		}
		crowd.Go(func() { // and at the consensus port, without a word
			for stop.Err() == nil {
				var raw net.Conn
				var err error
				h.in(func() {
					raw, err = (&net.Dialer{Timeout: 5 * time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}).DialContext(stop, "tcp4", net.JoinHostPort(a.host.addr.String(), "6680"))
				})
				if err == nil {
					conn := tls.Client(raw, netio.ClientTLS(newKey(byte(i)), netio.ProtocolRaft, nil))
					if conn.HandshakeContext(stop) == nil {
						end := context.AfterFunc(stop, func() { raw.Close() })
						conn.Read(make([]byte, 1)) // until it is closed over there
						end()
					}
					raw.Close()
				}
				select {
				case <-time.After(50 * time.Millisecond):
				case <-stop.Done():
				}
			}
		})
	}
	until(t, "every stranger's place is taken", func() (bool, string) {
		n := a.metrics().of(t, `pace_sessions{kind="stranger"}`)
		return n >= netio.MaxStrangers, fmt.Sprint(n)
	})
	began := time.Now()
	c := l.hosts[3].joined(t, a, "cedar")
	c.follows(a)
	b.follows(a)
	t.Logf("an honest machine follows %s after its start; %d sessions of strangers were opened, and %d ended", time.Since(began).Round(100*time.Millisecond), opened.Load(), refused.Load())
	halt()
	crowd.Wait()
	until(t, "no stranger is left", func() (bool, string) {
		n := a.metrics().of(t, `pace_sessions{kind="stranger"}`)
		return n == 0, fmt.Sprint(n)
	})
	// Who holds a row is bounded by its key: of forty sessions eight are left, and each that gave way is counted.
	waiting := h.client(t, newKey(200))
	if ans, code := waiting.enroll(a.endpoint(), wire.EnrollRequest{ID: "waits", Endpoint: h.addr.String() + ":6674", Nonce: [32]byte{1}}); code != 0 || ans.Outcome != wire.OutcomePending {
		t.Fatalf("%s, %s", code, ans.Outcome)
	}
	inbound, full := `pace_sessions{kind="inbound"}`, a.metrics().of(t, refusedSessions(netio.RefuseKeyFull))
	had := a.metrics().of(t, inbound)
	const many = 40
	for range many {
		waiting.session(a.endpoint())
	}
	until(t, "all but eight gave way", func() (bool, string) {
		m := a.metrics()
		got, n := m.of(t, refusedSessions(netio.RefuseKeyFull))-full, m.of(t, inbound)-had
		return got >= many-netio.MaxSessionsPerKey && n <= netio.MaxSessionsPerKey, fmt.Sprintf("%v counted, %v more are open", got, n)
	})
	after := a.standing()
	if after.term != before.term || after.leader != before.leader || after.learners != before.learners+1 {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	a.holds(memory, 48)
}
