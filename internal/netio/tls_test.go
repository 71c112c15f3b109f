package netio

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"pace-node/internal/identity"
)

func testKey(n byte) identity.PrivateKey { return identity.NewPrivateKey([32]byte{n, 1: 7}) }

// idleHandler closes every stream.
type idleHandler struct{}

func (idleHandler) ServeStream(context.Context, *Session, net.Conn) {}
func (idleHandler) SessionOpened(*Session)                          {}
func (idleHandler) SessionClosed(*Session, error)                   {}

// loopbackHub serves a hub on a port of 127.0.0.1.
func loopbackHub(t *testing.T, cfg HubConfig) (*Hub, string) {
	t.Helper()
	if cfg.Handler == nil {
		cfg.Handler = idleHandler{}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := NewHub(cfg)
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	t.Cleanup(func() {
		h.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return h, l.Addr().String()
}

// strangeCertificate is self-signed by any key but the right kind.
func strangeCertificate(t *testing.T, key any, public any) tls.Certificate {
	t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: certificateEnd}
	der, err := x509.CreateCertificate(rand.Reader, c, c, public, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// weakCertificate holds a key of small order, under which anybody can sign. The certificate's own signature is not
// looked at, so it can be made with any key.
func weakCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	weak := ed25519.PublicKey(make([]byte, 32))
	weak[0] = 1
	ca := testKey(99).Ed25519()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: certificateEnd}
	der, err := x509.CreateCertificate(rand.Reader, c, c, weak, ca)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: ca}
}

// handshakeCases are the strangers at the door, and the counted reason. Each fails its check and, where it can, the
// later ones too: the earlier reason must be counted.
var handshakeCases = []struct {
	name string
	want Refusal
	mend func(t *testing.T, c *tls.Config)
}{
	{"TLS 1.2, no ALPN, no certificate", RefuseTLSVersion, func(_ *testing.T, c *tls.Config) {
		c.MinVersion, c.MaxVersion, c.NextProtos = tls.VersionTLS12, tls.VersionTLS12, nil
		c.GetClientCertificate = nil
	}},
	{"another protocol, no certificate", RefuseALPN, func(_ *testing.T, c *tls.Config) {
		c.NextProtos, c.GetClientCertificate = []string{"h2"}, nil
	}},
	{"no protocol, no certificate", RefuseALPN, func(_ *testing.T, c *tls.Config) { c.NextProtos, c.GetClientCertificate = nil, nil }},
	{"the consensus port's protocol", RefuseALPN, func(_ *testing.T, c *tls.Config) { c.NextProtos = []string{ProtocolRaft} }},
	{"no certificate", RefuseNoCertificate, func(_ *testing.T, c *tls.Config) { c.GetClientCertificate = nil }},
	{"an RSA certificate", RefuseCertificateKind, func(t *testing.T, c *tls.Config) {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		present(c, strangeCertificate(t, k, k.Public()))
	}},
	{"an ECDSA certificate", RefuseCertificateKind, func(t *testing.T, c *tls.Config) {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		present(c, strangeCertificate(t, k, k.Public()))
	}},
	{"a key of small order", RefuseKey, func(t *testing.T, c *tls.Config) { present(c, weakCertificate(t)) }},
}

func present(c *tls.Config, cert tls.Certificate) {
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
}

// knock dials with a configuration and returns why the door was shut.
func knock(addr string, c *tls.Config) error {
	conn, err := tls.Dial("tcp", addr, c)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	_, err = conn.Read(make([]byte, 1))
	return err
}

func TestHandshakeRefusals(t *testing.T) {
	h, addr := loopbackHub(t, HubConfig{Key: testKey(1)})
	for _, c := range handshakeCases {
		t.Run(c.name, func(t *testing.T) {
			before := h.Refused(c.want)
			cfg := ClientTLS(testKey(2), ProtocolSession, nil)
			cfg.VerifyConnection = nil
			c.mend(t, cfg)
			if err := knock(addr, cfg); err == nil {
				t.Error("let in")
			}
			wait(t, func() bool { return h.Refused(c.want) == before+1 })
		})
	}
	// One refusal each, none under another name.
	total := uint64(0)
	for _, r := range Refusals {
		total += h.Refused(r.Refusal)
	}
	if total != uint64(len(handshakeCases)) {
		t.Errorf("%d refusals for %d handshakes", total, len(handshakeCases))
	}
	if n := len(h.Sessions()); n != 0 {
		t.Errorf("%d sessions", n)
	}
}

// TestHandshakeNotTLS: bytes that are no TLS at all.
func TestHandshakeNotTLS(t *testing.T) {
	var text lockedText
	h, addr := loopbackHub(t, HubConfig{Key: testKey(1), Logger: text.logger()})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: \x1b[2J\r\n\r\n")
	wait(t, func() bool { return h.Refused(RefuseHandshake) == 1 })
	wait(t, func() bool { return strings.Contains(text.String(), "reason=handshake") })
	if strings.Contains(text.String(), "\x1b") {
		t.Errorf("raw text of a peer in the log:\n%q", text.String())
	}
}

// checkHandshakeTable asks the classification alone: each error with every later reason true as well.
func checkHandshakeTable() error {
	all := errors.Join(ErrPeerTLSVersion, ErrPeerProtocol, ErrNoCertificate, ErrCertificateKind, ErrWeakKey, context.DeadlineExceeded)
	for _, c := range []struct {
		err  error
		note helloNote
		want Refusal
	}{
		{all, helloNote{seen: true}, RefuseTLSVersion},
		{errors.New("remote error"), helloNote{seen: true, protocol: true}, RefuseTLSVersion},
		{errors.Join(ErrPeerProtocol, ErrNoCertificate, ErrCertificateKind, ErrWeakKey, context.DeadlineExceeded), helloNote{seen: true, tls13: true, protocol: true}, RefuseALPN},
		{context.DeadlineExceeded, helloNote{seen: true, tls13: true}, RefuseALPN},
		{errors.Join(ErrNoCertificate, ErrCertificateKind, ErrWeakKey, context.DeadlineExceeded), helloNote{}, RefuseNoCertificate},
		{errors.Join(ErrCertificateKind, ErrWeakKey, context.DeadlineExceeded), helloNote{}, RefuseCertificateKind},
		{errors.Join(ErrWeakKey, context.DeadlineExceeded), helloNote{}, RefuseKey},
		{fmt.Errorf("read: %w", context.DeadlineExceeded), helloNote{}, RefuseHandshakeLate},
		{io.EOF, helloNote{}, RefuseHandshake},
	} {
		got := RefusalNone
		for _, r := range handshakeRefusals {
			if r.Holds(c.err, &c.note) {
				got = r.Refusal
				break
			}
		}
		if got != c.want {
			return fmt.Errorf("%v %+v: %s, want %s", c.err, c.note, got, c.want)
		}
	}
	return nil
}

func TestHandshakeTable(t *testing.T) {
	if err := checkHandshakeTable(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationHandshakeTable(t *testing.T) {
	mutate(t, handshakeRefusals, func(r *struct {
		Refusal Refusal
		Holds   func(err error, n *helloNote) bool
	}) {
		r.Holds = func(error, *helloNote) bool { return false }
	}, checkHandshakeTable)
}

func TestDialKeys(t *testing.T) {
	_, addr := loopbackHub(t, HubConfig{Key: testKey(1)})
	client := NewHub(HubConfig{Key: testKey(2), Handler: idleHandler{}})
	defer client.Close()
	right, wrong := testKey(1).Public(), testKey(3).Public()
	_, err := client.Dial(t.Context(), addr, &wrong)
	var pk *PeerKeyError
	if !errors.Is(err, ErrPeerKey) || !errors.As(err, &pk) || pk.Got != right || pk.Want != wrong {
		t.Errorf("wrong key: %v", err)
	}
	for _, want := range []*identity.PublicKey{nil, &right} {
		s, err := client.Dial(t.Context(), addr, want)
		if err != nil {
			t.Fatal(err)
		}
		if s.Peer() != right || s.Inbound() || s.RemoteAddr().String() != addr || !s.LocalAddr().IsValid() {
			t.Errorf("%s at %s, inbound %v", s.Peer(), s.RemoteAddr(), s.Inbound())
		}
	}
	for _, bad := range []string{"", "127.0.0.1", "127.0.0.1:0", ":6674", "a b:1"} {
		if _, err := client.Dial(t.Context(), bad, nil); err == nil {
			t.Errorf("dialed %q", bad)
		}
	}
}

// TestDialRefusesServers: the dialing end judges the answering one the same way.
func TestDialRefusesServers(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		want error
		mend func(c *tls.Config)
	}{
		{"another protocol", nil, func(c *tls.Config) { c.NextProtos = []string{"h2"} }},
		{"no protocol", ErrPeerProtocol, func(c *tls.Config) { c.NextProtos = nil }},
		{"TLS 1.2", nil, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }},
		{"RSA", ErrCertificateKind, func(c *tls.Config) {
			cert := strangeCertificate(t, rsaKey, rsaKey.Public())
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil }
		}},
		{"small order", ErrWeakKey, func(c *tls.Config) {
			cert := weakCertificate(t)
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &cert, nil }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := ServerTLS(testKey(1), ProtocolSession)
			cfg.VerifyConnection = nil
			c.mend(cfg)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				if raw, err := l.Accept(); err == nil {
					tls.Server(raw, cfg).Handshake()
					raw.Close()
				}
			}()
			client := NewHub(HubConfig{Key: testKey(2), Handler: idleHandler{}})
			defer client.Close()
			_, err = client.Dial(t.Context(), l.Addr().String(), nil)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			<-done
		})
	}
}

// TestNoResumption: a second handshake with a client that would resume is a full one.
func TestNoResumption(t *testing.T) {
	_, addr := loopbackHub(t, HubConfig{Key: testKey(1)})
	cfg := ClientTLS(testKey(2), ProtocolSession, nil)
	cfg.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	for range 2 {
		c, err := tls.Dial("tcp", addr, cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		c.Read(make([]byte, 1)) // takes in a ticket, if there was one
		if c.ConnectionState().DidResume {
			t.Error("resumed")
		}
		c.Close()
	}
}

func TestZeroKeyServesNobody(t *testing.T) {
	h, addr := loopbackHub(t, HubConfig{Key: identity.PrivateKey{}})
	if err := knock(addr, ClientTLS(testKey(2), ProtocolSession, nil)); err == nil {
		t.Error("let in")
	}
	wait(t, func() bool { return h.Refused(RefuseKey)+h.Refused(RefuseHandshake) == 1 })
}
