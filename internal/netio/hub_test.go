package netio_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/netio"
	"pace-node/internal/netsim"
	"pace-node/internal/wire"
)

// refusal returns the code of a refusal by the peer, 0 for anything else.
func refusal(err error) wire.ErrorCode {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// TestDuplicateSessions: the newer of two sessions of a member stands beside the older one that answers, and both are
// reported; it replaces one that does not answer within 2 s.
func TestDuplicateSessions(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		clone := boot(t, network, 3, func(c *netio.HubConfig) { c.Key = key(2) })
		a.knows(2)
		first := b.dial(a)
		call(t, first, wire.VerbHello, "b")
		second := clone.dial(a)
		// A session that only asks what an operator asks, or for the fleet summary, is not the session of a member's node.
		for verb, payload := range map[wire.Verb]string{wire.VerbFleetSummary: strings.Repeat("n", 36), wire.VerbStatus: "{}", wire.VerbQueue: "{}", wire.VerbCluster: "{}", wire.VerbEnrollControl: "c"} {
			call(t, second, verb, payload)
			time.Sleep(5 * time.Second)
			if _, _, n := a.counts(); n != 0 {
				t.Fatalf("%s counts as a second session", verb)
			}
		}
		if s := a.ByKey(b.key.Public()); s == nil || s.RemoteAddr().Addr() != b.addr {
			t.Errorf("reached by %v", s)
		}
		call(t, second, wire.VerbHello, "clone")
		time.Sleep(5 * time.Second)
		if _, _, n := a.counts(); n != 1 {
			t.Errorf("%d reports", n)
		}
		for _, s := range a.Sessions() {
			if !s.Duplicate() {
				t.Errorf("the session from %s is not marked", s.RemoteAddr())
			}
		}
		if first.Err() != nil || second.Err() != nil {
			t.Error("a session was closed although both answer")
		}
		call(t, second, wire.VerbHello, "again")
		time.Sleep(5 * time.Second)
		if _, _, n := a.counts(); n != 1 {
			t.Errorf("%d reports of one pair", n)
		}
		// The clone goes: the mark goes with it.
		second.Close(nil)
		time.Sleep(time.Second)
		left := a.Sessions()
		if len(left) != 1 || left[0].Duplicate() {
			t.Errorf("%d sessions, marked %v", len(left), left[0].Duplicate())
		}
	})
}

func TestNewerSessionReplacesADeadOne(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		reborn := boot(t, network, 3, func(c *netio.HubConfig) { c.Key = key(2) })
		a.knows(2)
		call(t, b.dial(a), wire.VerbHello, "b")
		network.Vanish(b.addr)
		call(t, reborn.dial(a), wire.VerbHello, "b again")
		if s := a.ByKey(b.key.Public()); s.RemoteAddr().Addr() != b.addr {
			t.Error("replaced before it had time to answer")
		}
		time.Sleep(netio.DuplicatePing + time.Millisecond)
		synctest.Wait()
		if s := a.ByKey(b.key.Public()); s == nil || s.RemoteAddr().Addr() != reborn.addr || s.Duplicate() {
			t.Errorf("%+v", s)
		}
		if _, why, n := a.counts(); n != 0 || len(why) != 1 || !errors.Is(why[0], netio.ErrReplaced) {
			t.Errorf("%v, %d reports", why, n)
		}
	})
}

// TestCrossDial: two members that dial each other at once keep both sessions, and nothing is reported.
func TestCrossDial(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		a.knows(2)
		b.knows(1)
		call(t, a.dial(b), wire.VerbHello, "a")
		call(t, b.dial(a), wire.VerbHello, "b")
		time.Sleep(time.Minute)
		for _, m := range []*machine{a, b} {
			if _, _, n := m.counts(); n != 0 || len(m.Sessions()) != 2 {
				t.Errorf("%d reports, %d sessions", n, len(m.Sessions()))
			}
		}
	})
}

// TestStrangerIsServedAndClosed: a stranger is answered, and its session is closed 10 s after the last answer.
func TestStrangerIsServedAndClosed(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		s := b.dial(a)
		synctest.Wait()
		if got := a.Count(); got["stranger"] != 1 || got["inbound"] != 0 {
			t.Errorf("%v", got)
		}
		time.Sleep(4 * time.Second)
		call(t, s, wire.VerbHello, "x")
		time.Sleep(9 * time.Second)
		call(t, s, wire.VerbEnrollControl, "an answer that is longer than a request's header")
		began := time.Now()
		<-s.Done()
		if d := time.Since(began); d != netio.CloseAfterAnswer {
			t.Errorf("closed after %s", d)
		}
		synctest.Wait()
		if _, why, _ := a.counts(); len(why) != 1 || !errors.Is(why[0], netio.ErrIdle) {
			t.Errorf("%v", why)
		}
		for _, r := range netio.Refusals {
			if n := a.Refused(r.Refusal); n != 0 {
				t.Errorf("%d counted as %s", n, r.Label)
			}
		}
	})
}

// TestRowKeepsASession: while its key holds a row, a session stays; when the row runs out it is closed.
func TestRowKeepsASession(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		s := b.dial(a)
		call(t, s, wire.VerbHello, "x")
		a.knows(2)
		time.Sleep(time.Hour)
		if s.Err() != nil {
			t.Fatalf("closed although it holds a row: %v", s.Err())
		}
		if got := a.Count(); got["stranger"] != 0 || got["inbound"] != 1 {
			t.Errorf("%v", got)
		}
		a.mu.Lock()
		clear(a.known)
		a.mu.Unlock()
		began := time.Now()
		<-s.Done()
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("closed after %s", d)
		}
	})
}

func TestFleetSummaryOncePerConnection(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		s := b.dial(a)
		call(t, s, wire.VerbFleetSummary, strings.Repeat("n", 36))
		if _, err := netio.Call(t.Context(), s, wire.VerbFleetSummary, make([]byte, 36)); refusal(err) != wire.CodeRefusedByRule {
			t.Errorf("%v", err)
		}
		call(t, s, wire.VerbHello, "x")
		if a.Refused(netio.RefuseOncePerConnection) != 1 {
			t.Error("not counted")
		}
	})
}

// TestStrangersPerSource: the fifth session of one source is told why and closed; another source is served.
func TestStrangersPerSource(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a := boot(t, network, 1)
		crowd := boot(t, network, 2)
		for range netio.MaxStrangersPerSource {
			crowd.dial(a)
		}
		synctest.Wait() // the dialing end is done with a handshake before the other
		fifth := crowd.dial(a)
		if _, err := netio.Call(t.Context(), fifth, wire.VerbHello, nil); refusal(err) != wire.CodeSourceFull {
			t.Errorf("the fifth: %v", err)
		}
		began := time.Now()
		<-fifth.Done()
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("closed after %s", d)
		}
		call(t, boot(t, network, 3).dial(a), wire.VerbHello, "x")
		if a.Refused(netio.RefuseSourceFull) != 1 {
			t.Errorf("counted %d times", a.Refused(netio.RefuseSourceFull))
		}
		// The four ask nothing: closed after 5 s, counted.
		time.Sleep(netio.FirstRequestWithin)
		synctest.Wait()
		if n := a.Refused(netio.RefuseFirstRequestLate); n != netio.MaxStrangersPerSource {
			t.Errorf("%d late", n)
		}
		call(t, crowd.dial(a), wire.VerbHello, "x")
	})
}

// TestStrangersInAll fills every place: FleetSummary still works at the kept ones, and a member always.
func TestStrangersInAll(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a := boot(t, network, 1)
		a.knows(250)
		dial := func(n int) *netio.Session {
			t.Helper()
			h := netio.NewHub(netio.HubConfig{Key: key(byte(n)), Handler: a, Dialer: network.Dialer(netip.AddrFrom4([4]byte{10, 1, 0, byte(n)}))})
			t.Cleanup(h.Close)
			s, err := h.Dial(t.Context(), a.endpoint(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		// Askers who hold their session open by Enroll, which is not answered with a row here.
		for n := 2; n < 2+netio.MaxStrangers-netio.KeptForFleetSummary; n++ {
			if _, _, _, err := netio.Subscribe(t.Context(), dial(n), wire.VerbEnroll, nil); err != nil {
				t.Fatal(n, err)
			}
		}
		if _, err := netio.Call(t.Context(), dial(100), wire.VerbHello, nil); refusal(err) != wire.CodeBusy {
			t.Errorf("an asker beyond 56: %v", err)
		}
		if a.Refused(netio.RefuseSummaryReserve) != 1 {
			t.Error("not counted")
		}
		time.Sleep(2 * time.Second) // the refused one is closed
		for n := 101; n < 101+netio.KeptForFleetSummary; n++ {
			call(t, dial(n), wire.VerbFleetSummary, "n")
		}
		synctest.Wait()
		if _, err := netio.Call(t.Context(), dial(120), wire.VerbFleetSummary, nil); refusal(err) != wire.CodeBusy {
			t.Errorf("the 65th: %v", err)
		}
		if a.Refused(netio.RefuseStrangersFull) != 1 {
			t.Error("not counted")
		}
		call(t, dial(250), wire.VerbHello, "a member")
		// When their time is over there is room again.
		time.Sleep(netio.CloseAfterAnswer)
		synctest.Wait()
		call(t, dial(121), wire.VerbHello, "x")
	})
}

// TestSlowHandshake: a connection that says nothing, and one that says a byte a second, end after 5 s.
func TestSlowHandshake(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a := boot(t, network, 1)
		dial := network.Dialer(netip.MustParseAddr("10.0.0.9"))
		for name, talk := range map[string]bool{"silent": false, "trickling": true} {
			c, err := dial(t.Context(), "tcp", a.endpoint())
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			var talker sync.WaitGroup
			if talk {
				talker.Go(func() {
					for _, b := range []byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3} {
						if _, err := c.Write([]byte{b}); err != nil {
							return
						}
						time.Sleep(time.Second)
					}
				})
			}
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Errorf("%s: answered", name)
			}
			if d := time.Since(began); d != netio.HandshakeWithin {
				t.Errorf("%s: ended after %s", name, d)
			}
			c.Close()
			talker.Wait()
		}
		synctest.Wait()
		if n := a.Refused(netio.RefuseHandshakeLate); n != 2 {
			t.Errorf("counted %d times", n)
		}
	})
}

// TestSlowRequest: a stream whose request trickles ends after 5 s, with the reason; so does a stranger's session that
// never completes a header.
func TestSlowRequest(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		a.knows(2)
		s := b.dial(a)
		for _, sent := range []string{"", "\xfc\x01\x13", "\xfc\x01\x13\x00\x00\x00\x05abc"} {
			stream, err := s.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			io.WriteString(stream, sent)
			got, err := io.ReadAll(stream)
			if err != nil || len(got) < 5 || got[0] != byte(wire.StatusError) {
				t.Fatalf("%q: %q %v", sent, got, err)
			}
			e, err := wire.DecodeError(got[5:])
			if err != nil || e.Code != wire.CodeMalformed || time.Since(began) != 5*time.Second {
				t.Errorf("%q: %v after %s", sent, e, time.Since(began))
			}
			stream.Close()
		}
		c := boot(t, network, 3)
		s = c.dial(a)
		stream, err := s.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		io.WriteString(stream, "\xfc\x01\x13\x00")
		<-s.Done()
		if d := time.Since(began); d != netio.FirstRequestWithin {
			t.Errorf("closed after %s", d)
		}
	})
}

// TestFirstRequestTooLarge: a stranger's first request beyond 4 KiB is refused by its header, and the session closed.
func TestFirstRequestTooLarge(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		s := b.dial(a)
		stream, err := s.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(stream, "\xfc\x01\x17\x00\x00\x10\x01") // Work of 4097 bytes, none of them sent
		h := make([]byte, 5)
		if _, err := io.ReadFull(stream, h); err != nil || h[0] != byte(wire.StatusError) {
			t.Fatal(h, err)
		}
		body := make([]byte, binary.BigEndian.Uint32(h[1:]))
		io.ReadFull(stream, body)
		if e, err := wire.DecodeError(body); err != nil || e.Code != wire.CodeTooLarge {
			t.Errorf("%v %v", e, err)
		}
		<-s.Done()
		if a.Refused(netio.RefuseFirstRequestTooLarge) != 1 {
			t.Error("not counted")
		}
	})
}

// TestStreamsAreBounded: a stranger's fifth open stream, and a member's 65th, get an error; the session lives.
func TestStreamsAreBounded(t *testing.T) {
	for _, c := range []struct {
		name   string
		member bool
		bound  int
	}{{"stranger", false, 4}, {"member", true, 64}} {
		t.Run(c.name, func(t *testing.T) {
			netsim.Bubble(t, func(t *testing.T) {
				network := netsim.NewNet()
				a, b := boot(t, network, 1), boot(t, network, 2)
				if c.member {
					a.knows(2)
				}
				s := b.dial(a)
				for range c.bound {
					if _, _, _, err := netio.Subscribe(t.Context(), s, wire.VerbEnroll, nil); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := netio.Call(t.Context(), s, wire.VerbHello, nil); refusal(err) != wire.CodeBusy {
					t.Errorf("%v", err)
				}
				if a.Refused(netio.RefuseStreamsFull) != 1 || s.Err() != nil {
					t.Errorf("counted %d times, %v", a.Refused(netio.RefuseStreamsFull), s.Err())
				}
			})
		})
	}
}

// raw is a peer that speaks the session library's frames by hand.
func raw(t *testing.T, network *netsim.Net, from string, k byte, a *machine) *tls.Conn {
	t.Helper()
	c, err := network.Dialer(netip.MustParseAddr(from))(t.Context(), "tcp", a.endpoint())
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(c, netio.ClientTLS(key(k), netio.ProtocolSession, nil))
	if err := conn.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go io.Copy(io.Discard, conn)
	return conn
}

func frame(kind byte, flags uint16, stream, length uint32) []byte {
	b := []byte{0, kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint16(b[2:], flags)
	binary.BigEndian.PutUint32(b[4:], stream)
	binary.BigEndian.PutUint32(b[8:], length)
	return b
}

// TestFlood: a peer outside the roster that makes the library hold more than an honest one would is cut off.
func TestFlood(t *testing.T) {
	const data, window, ping, syn = 0, 1, 2, 1
	for _, c := range []struct {
		name  string
		frame func(i int) []byte
		count int
	}{
		{"a frame that reserves a window", func(int) []byte { return append(frame(data, syn, 1, 200<<10), make([]byte, 200<<10)...) }, 1},
		{"pings", func(i int) []byte { return frame(ping, syn, 0, uint32(i)) }, 65},
		{"streams", func(i int) []byte { return frame(window, syn, uint32(2*i+1), 0) }, 65},
		{"bytes", func(i int) []byte {
			flags := uint16(0)
			if i == 0 {
				flags = syn
			}
			return append(frame(data, flags, 1, 32<<10), make([]byte, 32<<10)...)
		}, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			netsim.Bubble(t, func(t *testing.T) {
				network := netsim.NewNet()
				a := boot(t, network, 1)
				conn := raw(t, network, "10.0.0.9", 9, a)
				synctest.Wait()
				for i := range c.count {
					conn.Write(c.frame(i))
				}
				synctest.Wait()
				if a.Refused(netio.RefuseFlood) != 1 || len(a.Sessions()) != 0 {
					t.Errorf("counted %d times, %d sessions", a.Refused(netio.RefuseFlood), len(a.Sessions()))
				}
				if _, why, _ := a.counts(); len(why) != 1 || !errors.Is(why[0], netio.ErrFlood) {
					t.Errorf("%v", why)
				}
			})
			netsim.Bubble(t, func(t *testing.T) {
				network := netsim.NewNet()
				a := boot(t, network, 1)
				a.knows(9)
				conn := raw(t, network, "10.0.0.9", 9, a)
				synctest.Wait()
				for i := range c.count {
					conn.Write(c.frame(i))
				}
				synctest.Wait()
				if a.Refused(netio.RefuseFlood) != 0 {
					t.Error("a member is bounded like a stranger")
				}
			})
		})
	}
}

// TestHandshakesAreBounded: connections that never shake hands take a bounded number of places, and leave them.
func TestHandshakesAreBounded(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		dial := network.Dialer(netip.MustParseAddr("10.0.0.9"))
		for range 40 {
			c, err := dial(t.Context(), "tcp", a.endpoint())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
		synctest.Wait()
		if n := a.Refused(netio.RefuseHandshakesFull); n != 8 {
			t.Errorf("%d of 40 refused, 32 may wait", n)
		}
		call(t, b.dial(a), wire.VerbHello, "another source")
		time.Sleep(netio.HandshakeWithin + time.Millisecond) // not in the very moment in which they are dropped
		c, err := dial(t.Context(), "tcp", a.endpoint())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		synctest.Wait()
		if n := a.Refused(netio.RefuseHandshakesFull); n != 8 {
			t.Errorf("%d refused after the places were free again", n)
		}
	})
}

// TestFailingListener: an error that passes is waited out, a closed listener ends Serve with its error.
func TestFailingListener(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		h := netio.NewHub(netio.HubConfig{Key: key(1), Handler: &machine{}})
		defer h.Close()
		l := &badListener{fail: make(chan error)}
		done := make(chan error)
		go func() { done <- h.Serve(l) }()
		for range 20 {
			l.fail <- errors.New("too many open files")
		}
		l.fail <- fmt.Errorf("accept: %w", net.ErrClosed)
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

type badListener struct{ fail chan error }

func (l *badListener) Accept() (net.Conn, error) { return nil, <-l.fail }
func (l *badListener) Close() error              { return nil }
func (l *badListener) Addr() net.Addr            { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 6674} }

// TestLingeringIsBounded: refused peers who ask nothing are let go after 5 s, and beyond 16 at once.
func TestLingeringIsBounded(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, crowd := boot(t, network, 1), boot(t, network, 2)
		var all []*netio.Session
		for range netio.MaxStrangersPerSource + 20 {
			all = append(all, crowd.dial(a))
		}
		time.Sleep(time.Second)
		open := 0
		for _, s := range all {
			if s.Err() == nil {
				open++
			}
		}
		if open != netio.MaxStrangersPerSource+16 {
			t.Errorf("%d are open", open)
		}
		time.Sleep(5 * time.Second)
		if n := len(crowd.Sessions()); n != 0 {
			t.Errorf("%d are open in the end", n)
		}
	})
}

// TestHandlerThatSaysNothing: a request that is never answered does not hold a stranger's place for good.
func TestHandlerThatSaysNothing(t *testing.T) {
	netsim.Bubble(t, func(t *testing.T) {
		network := netsim.NewNet()
		a, b := boot(t, network, 1), boot(t, network, 2)
		a.serve = func(ctx context.Context, _ *netio.Session, _ net.Conn) { <-ctx.Done() }
		s := b.dial(a)
		began := time.Now()
		_, err := netio.Call(t.Context(), s, wire.VerbHello, nil)
		if err == nil || time.Since(began) != netio.AnswerWithin {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if a.Refused(netio.RefuseAnswerLate) != 1 {
			t.Error("not counted")
		}
	})
}
