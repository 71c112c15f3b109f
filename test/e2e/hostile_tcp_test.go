//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

// certificate is a self-signed one of any key.
func certificate(t *testing.T, key any, public any) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// smallOrder is a certificate whose key has order one: everybody can sign for it. No library signs it, so it is not offered
// with a signature that verifies.
func smallOrder(t *testing.T) tls.Certificate {
	seed := make([]byte, ed25519.SeedSize)
	key := ed25519.NewKeyFromSeed(seed)
	one := make(ed25519.PublicKey, ed25519.PublicKeySize)
	one[0] = 1
	return certificate(t, key, one)
}

// TestOtherKeysVersionsAndProtocols: on both TCP ports, a handshake with another version, another protocol, no certificate,
// or one of another kind ends, and is counted under its own name; no byte of what follows is answered.
func TestOtherKeysVersionsAndProtocols(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder", metered)
	own := newKey(1)
	elliptic, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for port, alpn := range map[string]string{"6674": netio.ProtocolSession, "6680": netio.ProtocolRaft} {
		other := netio.ProtocolRaft
		if alpn == other {
			other = netio.ProtocolSession
		}
		for _, x := range []struct {
			what   string
			config *tls.Config
			reason netio.Refusal
		}{
			{"TLS 1.2", &tls.Config{MaxVersion: tls.VersionTLS12, NextProtos: []string{alpn}}, netio.RefuseTLSVersion},
			{"TLS 1.0", &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10, NextProtos: []string{alpn}}, netio.RefuseTLSVersion},
			{"the other port's protocol", netio.ClientTLS(own, other, nil), netio.RefuseALPN},
			{"HTTP/2", &tls.Config{NextProtos: []string{"h2", "http/1.1"}}, netio.RefuseALPN},
			{"no protocol", &tls.Config{}, netio.RefuseALPN},
			{"no certificate", &tls.Config{NextProtos: []string{alpn}}, netio.RefuseNoCertificate},
			{"an elliptic key", &tls.Config{NextProtos: []string{alpn}, Certificates: []tls.Certificate{certificate(t, elliptic, &elliptic.PublicKey)}}, netio.RefuseCertificateKind},
			{"a key of small order", &tls.Config{NextProtos: []string{alpn}, Certificates: []tls.Certificate{smallOrder(t)}}, netio.RefuseKey},
		} {
			a.counted(x.what+" on "+port, func() {
				raw, err := l.hosts[1].dial(t.Context(), "tcp", net.JoinHostPort(a.host.addr.String(), port))
				if err != nil {
					t.Fatal(err)
				}
				defer raw.Close()
				raw.SetDeadline(time.Now().Add(20 * time.Second))
				x.config.InsecureSkipVerify = true
				conn := tls.Client(raw, x.config)
				if err := conn.Handshake(); err != nil {
					return
				}
				conn.Write(wire.AppendRequest(nil, wire.VerbHello, []byte("{}")))
				if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, net.ErrClosed) {
					t.Errorf("%s on %s: answered (%v)", x.what, port, err)
				}
			}, refusedSessions(x.reason))
		}
		// What is no TLS at all.
		for what, b := range map[string]string{"HTTP": "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH": "SSH-2.0-x\r\n", "zeros": string(make([]byte, 64)), "a frame in the clear": string(wire.AppendRequest(nil, wire.VerbHello, []byte("{}")))} {
			a.counted(what+" on "+port, func() {
				raw, err := l.hosts[1].dial(t.Context(), "tcp", net.JoinHostPort(a.host.addr.String(), port))
				if err != nil {
					t.Fatal(err)
				}
				defer raw.Close()
				raw.SetDeadline(time.Now().Add(20 * time.Second))
				raw.Write([]byte(b))
				for err == nil { // an alert may come first
					_, err = raw.Read(make([]byte, 64))
				}
				if errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "timeout") {
					t.Errorf("%s on %s: %v", what, port, err)
				}
			}, refusedSessions(netio.RefuseHandshake))
		}
	}
}

// TestSlowAndOversizedOnBothPorts: connections that say nothing, or a byte a second, from as many addresses as it takes to
// hold every place of both TCP ports, and frames that claim more than they may, keep nobody out, are counted, and cost no
// memory that stays.
func TestSlowAndOversizedOnBothPorts(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch", metered)
	b.follows(a)
	before, memory := a.standing(), a.memory()
	h := l.hosts[2]
	total := func(names ...string) (sum float64) {
		m := a.metrics()
		for _, name := range names {
			sum += m.of(t, name)
		}
		return sum
	}
	dawdled := []string{refusedSessions(netio.RefuseHandshakesFull), refusedSessions(netio.RefuseHandshakeLate)}
	was := total(dawdled...)

	// Ten addresses with thirty-two connections each, on each port, and more as these end.
	const sources, each = 10, 32
	stop := make(chan struct{})
	var floods sync.WaitGroup
	var opened sync.Map
	for i := range sources {
		from := netip.AddrFrom4([4]byte{10, 1, 60, byte(i + 1)})
		h.ip("addr", "add", from.String()+"/16", "dev", "eth0")
		for _, port := range []uint16{6674, 6680} {
			to := netip.AddrPortFrom(a.host.addr, port).String()
			for j := range each {
				floods.Go(func() {
					for n := 0; ; n++ {
						var conn net.Conn
						var err error
						h.in(func() {
							conn, err = (&net.Dialer{Timeout: 5 * time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}).DialContext(t.Context(), "tcp4", to)
						})
						if err == nil {
							opened.Store([3]int{i, int(port), j*1000 + n}, true)
							done := make(chan struct{})
							go func() {
								defer close(done)
								conn.Read(make([]byte, 1)) // until it is closed over there
							}()
							for ended, at := false, 0; !ended; at++ {
								if j%2 == 0 && at < 5 { // half of them trickle
									conn.Write([]byte{[]byte{22, 3, 1, 2, 0}[at]})
								}
								select {
								case <-stop:
									ended = true
								case <-done:
									ended = true
								case <-time.After(time.Second):
								}
							}
							conn.Close()
							<-done
						}
						select {
						case <-stop:
							return
						case <-time.After(200 * time.Millisecond):
						}
					}
				})
			}
		}
	}
	until(t, "every place is taken", func() (bool, string) {
		n := 0
		opened.Range(func(any, any) bool { n++; return true })
		return n >= 2*sources*each, fmt.Sprint(n)
	})
	// Meanwhile an honest machine comes, asks, is admitted, and follows; and the one that follows goes on.
	c := l.hosts[3].joined(t, a, "cedar")
	c.follows(a)
	b.follows(a)
	close(stop)
	floods.Wait()
	began := 0.0
	opened.Range(func(any, any) bool { began++; return true })
	t.Logf("%v connections were opened", began)
	until(t, "they are counted", func() (bool, string) {
		m := a.metrics()
		got := total(append(dawdled, refusedSessions(netio.RefuseHandshake))...) - was
		return got >= began && m.of(t, `pace_sessions{kind="stranger"}`) == 0, fmt.Sprint(got, " of ", began)
	})

	// Through the handshake, and then silent, or with a header that never ends.
	for what, b := range map[string][]byte{"says nothing": nil, "sends half a header": {wire.FrameMagic, 1, byte(wire.VerbHello)}} {
		a.counted("a session that "+what, func() {
			s := h.client(t, newKey(3)).session(a.endpoint())
			if b != nil {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				stream, err := s.Open(ctx)
				if err != nil {
					t.Fatal(err)
				}
				stream.Write(b)
			}
			select {
			case <-s.Done():
			case <-time.After(patience):
				t.Errorf("a session that %s stays open", what)
			}
		}, refusedSessions(netio.RefuseFirstRequestLate))
	}
	a.counted("a consensus connection that does not name itself", func() {
		conn := raftDial(t, h, net.JoinHostPort(a.host.addr.String(), "6680"), newKey(3))
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("it is answered: %v", err)
		}
	}, refusedSessions(netio.RefuseRaftHeader))
	// Frames that claim more than they may: a stranger's first request, a header of 4 GiB, and a field of the consensus port's.
	a.counted("a first request of 8 KiB", func() {
		s := h.client(t, newKey(4)).session(a.endpoint())
		defer s.Close(nil)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := netio.Call(ctx, s, wire.VerbStatus, make([]byte, 8<<10)); err == nil {
			t.Error("it is answered")
		}
	}, refusedSessions(netio.RefuseFirstRequestTooLarge))
	a.counted("a field of 4 GiB", func() {
		conn := raftDial(t, h, net.JoinHostPort(a.host.addr.String(), "6680"), newKey(4))
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		conn.Write([]byte{0xff, 0xff, 0xff, 0xff})
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("it is answered: %v", err)
		}
	}, refusedSessions(netio.RefuseRaftHeader))

	if after := a.standing(); after.term != before.term || after.leader != before.leader {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	a.holds(memory, 32)
}

// falseVoter serves sessions under a key at an endpoint, answers Hello, and offers to be followed.
type falseVoter struct {
	t        *testing.T
	hub      *netio.Hub
	opened   chan identity.PublicKey
	followed chan string
}

func (h *host) falseVoter(t *testing.T, key identity.PrivateKey, endpoint string) *falseVoter {
	t.Helper()
	i := &falseVoter{t: t, opened: make(chan identity.PublicKey, 64), followed: make(chan string, 64)}
	i.hub = netio.NewHub(netio.HubConfig{Key: key, Handler: i, Dialer: h.dial, Admission: netio.AdmissionFacts{Known: func(identity.PublicKey) bool { return true }}})
	var l net.Listener
	var err error
	h.in(func() { l, err = net.Listen("tcp4", endpoint) })
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		i.hub.Serve(l)
	}()
	t.Cleanup(func() { i.hub.Close(); <-served })
	return i
}

func (i *falseVoter) ServeStream(_ context.Context, _ *netio.Session, stream net.Conn) {
	defer stream.Close()
	row, payload, refused := netio.ReadRequest(stream)
	if refused != nil {
		return
	}
	if row.Verb == wire.VerbFollow {
		i.followed <- string(payload)
	}
	b, _ := json.Marshal(wire.Hello{ID: "x", Wire: []int{wire.ProtocolVersion}, Format: 1})
	netio.WriteReply(stream, wire.StatusOK, b)
}
func (i *falseVoter) SessionOpened(s *netio.Session)      { i.opened <- s.Peer() }
func (i *falseVoter) SessionClosed(*netio.Session, error) {}

// TestKeysBeyondTheirRole: a learner's key is no voter's where the fleet is followed, and another fleet's voter has no word
// here, on either port. What a learner's key may ask is TestStrangerCanNeitherFeedNorVoteNorAppend.
func TestKeysBeyondTheirRole(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 5)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch", metered)
	c := l.hosts[2].joined(t, a, "cedar", metered)
	for _, n := range []*node{b, c} {
		n.follows(a)
	}
	cluster := a.standing().cluster

	t.Run("a voter of another fleet", func(t *testing.T) {
		before := a.standing()
		// It leads a fleet of its own, which alder has met.
		other := l.hosts[3].start(t, "other", metered)
		other.must("--enroll-auto-approve=1h")
		key, id, theirs := other.key(), other.id(), other.standing().cluster
		other.stop()
		voter := l.hosts[3].client(t, key)
		payloads := requests(t, id, key, theirs, c.id())
		for _, row := range gate {
			if row.stranger == 0 {
				continue
			}
			a.counted(fmt.Sprintf("%s under another fleet's voter's key", row.verb), func() {
				if _, code := voter.asks(a.endpoint(), row.verb, payloads[row.verb]); code != row.stranger {
					t.Errorf("%s: %s, want %s", row.verb, code, row.stranger)
				}
			}, refusedRequests(row.stranger))
		}
		for _, x := range []struct {
			what            string
			cluster, source string
			reason          netio.Refusal
		}{
			{"in its own fleet's name", theirs, id, netio.RefuseRaftCluster},
			{"in this fleet's name", cluster, id, netio.RefuseRaftGuard},
			{"as a member of this fleet", cluster, b.id(), netio.RefuseRaftGuard},
		} {
			a.counted("a raft stream of another fleet's voter "+x.what, func() {
				conn := raftDial(t, l.hosts[3], net.JoinHostPort(a.host.addr.String(), "6680"), key)
				defer conn.Close()
				header := wire.RaftStreamHeader{Cluster: x.cluster, Source: x.source, Target: a.id()}
				conn.SetDeadline(time.Now().Add(20 * time.Second))
				conn.Write(append(header.Append(nil), 1))
				if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
					t.Errorf("%s: answered (%v)", x.what, err)
				}
			}, refusedSessions(x.reason))
		}
		if after := a.standing(); after != before {
			t.Errorf("before %+v\nafter  %+v", before, after)
		}
	})

	t.Run("a learner as a source to follow", func(t *testing.T) {
		// birch's key, at alder's address and at its own: cedar asks neither for the fleet's state.
		key := b.key()
		b.kill()
		before, err := c.cluster()
		if err != nil {
			t.Fatal(err)
		}
		at := a.endpoint()
		a.kill()
		l.hosts[0].ip("addr", "del", a.host.addr.String()+"/16", "dev", "eth0")
		l.hosts[4].ip("addr", "add", a.host.addr.String()+"/16", "brd", "+", "dev", "eth0")
		sh(t, "ip", "netns", "exec", c.host.ns, "ip", "neigh", "flush", "all")
		thief := l.hosts[4].falseVoter(t, key, at)
		until(t, "cedar counts that another machine answers where it dials", func() (bool, string) {
			got := c.metrics().of(t, refusedSessions(netio.RefusePeerKey))
			return got >= 2, fmt.Sprint(got)
		})
		wants(t, c.log.String(), "another machine answers where a peer was dialed", "reason=peer-key", "source="+a.host.addr.String())
		select {
		case what := <-thief.followed:
			t.Errorf("it is followed: %s", what)
		case peer := <-thief.opened:
			if peer == c.key().Public() {
				t.Error("cedar opened a session with it")
			}
		default:
		}
		if now, err := c.cluster(); err != nil || now.View.Revision != before.View.Revision || now.roster() != before.roster() {
			t.Errorf("%v: before\n%s\nafter\n%s", err, before.roster(), now.roster())
		}
	})
}
