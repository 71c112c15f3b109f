package netio_test

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/netsim"
	"pace-node/internal/wire"
)

// dawdle opens n connections from each of some sources, which say nothing.
func dawdle(t *testing.T, network *netsim.Net, to string, sources, n int) {
	t.Helper()
	for i := range sources {
		dial := network.Dialer(netip.AddrFrom4([4]byte{10, 0, 9, byte(i + 1)}))
		for range n {
			c, err := dial(t.Context(), "tcp", to)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
		}
	}
	synctest.Wait()
}

// TestDawdlersGiveWay: connections that never shake hands, from as many addresses as it takes to hold every place of a port,
// keep an honest machine out for a second at most, on the sessions' port and on the consensus port; each is counted once.
func TestDawdlersGiveWay(t *testing.T) {
	const places, sources = 256, 10 // 32 a source
	t.Run("sessions", func(t *testing.T) {
		netsim.Bubble(t, func(t *testing.T) {
			network := netsim.NewNet()
			a, b := boot(t, network, 1), boot(t, network, 2)
			dawdle(t, network, a.endpoint(), sources, 32)
			if n := a.Refused(netio.RefuseHandshakesFull); n != sources*32-places {
				t.Errorf("%d refused of %d, %d may wait", n, sources*32, places)
			}
			time.Sleep(time.Second)
			call(t, b.dial(a), wire.VerbHello, "an honest machine")
			if n := a.Refused(netio.RefuseHandshakesFull); n != sources*32-places+1 {
				t.Errorf("%d refused, one more gave way", n)
			}
			// One of a source that holds its share is let in in the place of that source's oldest.
			dawdle(t, network, a.endpoint(), 1, 2) // the one that gave way was of that source
			if n := a.Refused(netio.RefuseHandshakesFull); n != sources*32-places+2 {
				t.Errorf("%d refused, one more gave way", n)
			}
			time.Sleep(netio.HandshakeWithin)
			synctest.Wait()
			if n := a.Refused(netio.RefuseHandshakesFull) + a.Refused(netio.RefuseHandshakeLate); n != sources*32+2 {
				t.Errorf("%d are counted of %d", n, sources*32+2)
			}
		})
	})
	t.Run("consensus", func(t *testing.T) {
		netsim.Bubble(t, func(t *testing.T) {
			network := netsim.NewNet()
			at := netip.MustParseAddrPort("10.0.0.1:6680")
			l, err := network.Listen(at)
			if err != nil {
				t.Fatal(err)
			}
			layer := func(n byte, c netio.RaftConfig) *netio.RaftLayer {
				c.Key, c.NodeID, c.Cluster, c.Dialer = key(n), string(rune('a'+n)), "c", network.Dialer(netip.AddrFrom4([4]byte{10, 0, 0, n}))
				c.Guard = func(wire.RaftStreamHeader, identity.PublicKey) error { return nil }
				r := netio.NewRaftLayer(c)
				t.Cleanup(func() { r.Close() })
				return r
			}
			a := layer(1, netio.RaftConfig{Listen: l})
			own, err := network.Listen(netip.MustParseAddrPort("10.0.0.2:6680"))
			if err != nil {
				t.Fatal(err)
			}
			b := layer(2, netio.RaftConfig{Listen: own, Resolve: func(string) ([]string, identity.PublicKey, error) { return []string{at.String()}, key(1).Public(), nil }})
			dawdle(t, network, at.String(), sources, 32)
			time.Sleep(time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			c, err := b.Dial(ctx, "b")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			in, err := a.Accept()
			if err != nil {
				t.Fatal(err)
			}
			in.Close()
			time.Sleep(netio.HandshakeWithin)
			synctest.Wait()
			if n := a.Refused(netio.RefuseHandshakesFull) + a.Refused(netio.RefuseHandshakeLate); n != sources*32 {
				t.Errorf("%d are counted of %d", n, sources*32)
			}
		})
	})
}

// TestStrangersGiveWay: sessions of strangers from as many addresses as it takes to hold every place, each of which says
// something as often as keeps it, keep no honest machine out: one of theirs gives way. Each that did is counted.
func TestStrangersGiveWay(t *testing.T) {
	for _, c := range []struct {
		what          string
		sources, each int
		after         time.Duration // how long they have been there when the honest one comes
	}{
		{"sixteen addresses", netio.MaxStrangers / netio.MaxStrangersPerSource, netio.MaxStrangersPerSource, netio.StrangerTurn},
		{"as many addresses as places", netio.MaxStrangers, 1, netio.StrangerGrace},
	} {
		t.Run(c.what, func(t *testing.T) {
			netsim.Bubble(t, func(t *testing.T) {
				network := netsim.NewNet()
				a, b := boot(t, network, 1), boot(t, network, 2)
				stop := make(chan struct{})
				var crowd sync.WaitGroup
				for i := range c.sources {
					h := netio.NewHub(netio.HubConfig{Key: key(byte(100 + i)), Handler: a, Dialer: network.Dialer(netip.AddrFrom4([4]byte{10, 0, 9, byte(i + 1)}))})
					t.Cleanup(h.Close)
					for range c.each {
						s, err := h.Dial(t.Context(), a.endpoint(), nil)
						if err != nil {
							t.Fatal(err)
						}
						crowd.Go(func() {
							for {
								select {
								case <-stop:
									return
								case <-s.Done():
									return
								case <-time.After(netio.FirstRequestWithin / 2):
								}
								netio.Call(t.Context(), s, wire.VerbHello, nil)
							}
						})
					}
				}
				synctest.Wait()
				if n := a.Count()["stranger"]; n != netio.MaxStrangers {
					t.Fatalf("%d strangers", n)
				}
				time.Sleep(c.after)
				call(t, b.dial(a), wire.VerbHello, "an honest machine")
				synctest.Wait()
				if n := a.Refused(netio.RefuseStrangersFull) + a.Refused(netio.RefuseSourceFull); n != 1 {
					t.Errorf("%d are counted, one gave way", n)
				}
				close(stop)
				crowd.Wait()
			})
		})
	}
}

// TestSessionsOfOneKey: who holds a row, and a member, has so many sessions and no more: the oldest gives way, counted, and with
// it what it asked. Another key is not touched.
func TestSessionsOfOneKey(t *testing.T) {
	for _, c := range []struct {
		what   string
		member bool
		most   int
	}{{"a row", false, netio.MaxSessionsPerKey}, {"a member", true, netio.MaxSessionsPerMember}} {
		t.Run(c.what, func(t *testing.T) {
			netsim.Bubble(t, func(t *testing.T) {
				network := netsim.NewNet()
				a := boot(t, network, 1, func(cfg *netio.HubConfig) {
					cfg.Admission.Known = func(identity.PublicKey) bool { return true }
					cfg.Admission.Member = func(k identity.PublicKey) bool { return c.member && k == key(9).Public() }
				})
				other := boot(t, network, 2).dial(a)
				call(t, other, wire.VerbHello, "another")
				h := netio.NewHub(netio.HubConfig{Key: key(9), Handler: a, Dialer: network.Dialer(netip.AddrFrom4([4]byte{10, 0, 9, 1}))})
				t.Cleanup(h.Close)
				var all []*netio.Session
				for range c.most + 5 {
					s, err := h.Dial(t.Context(), a.endpoint(), nil)
					if err != nil {
						t.Fatal(err)
					}
					call(t, s, wire.VerbHello, "x")
					all = append(all, s)
				}
				synctest.Wait()
				for i, s := range all {
					if open := s.Err() == nil; open != (i >= 5) {
						t.Errorf("the session %d of %d is open: %v", i, len(all), open)
					}
				}
				if n := a.Refused(netio.RefuseKeyFull); n != 5 || other.Err() != nil {
					t.Errorf("%d are counted, another's: %v", n, other.Err())
				}
				// Where one is closed there is room.
				all[10].Close(nil)
				synctest.Wait()
				s, err := h.Dial(t.Context(), a.endpoint(), nil)
				if err != nil {
					t.Fatal(err)
				}
				call(t, s, wire.VerbHello, "x")
				if n := a.Refused(netio.RefuseKeyFull); n != 5 {
					t.Errorf("%d are counted", n)
				}
			})
		})
	}
}
