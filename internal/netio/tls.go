package netio

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"pace-node/internal/identity"
)

// Application protocols (ALPN) of the two ports.
const (
	ProtocolSession = "pace-0xfc/1"
	ProtocolRaft    = "pace-raft/1"
)

// certificateEnd is "no well-defined expiration date" of RFC 5280.
var certificateEnd = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// PeerKeyError says which machine answered in place of the one that was meant.
type PeerKeyError struct{ Got, Want identity.PublicKey }

// Error implements error.
func (e *PeerKeyError) Error() string {
	return fmt.Sprintf("the machine that answered has key %s, expected was %s", e.Got, e.Want)
}

// Is makes it an ErrPeerKey.
func (e *PeerKeyError) Is(target error) bool { return target == ErrPeerKey }

// certificate wraps the identity key, because TLS carries keys in certificates. Nothing in it but the key is looked at.
func certificate(key identity.PrivateKey) (tls.Certificate, error) {
	signer := key.Ed25519()
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: certificateEnd}
	der, err := x509.CreateCertificate(rand.Reader, t, t, signer.Public(), signer)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate of the identity key: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: signer}, nil
}

// presenter shows the own certificate: made once, for making one costs a signature.
type presenter struct {
	cert tls.Certificate
	err  error
}

func newPresenter(key identity.PrivateKey) *presenter {
	p := &presenter{}
	// It can't fail for a key of package identity; for the zero key every handshake fails and says so.
	p.cert, p.err = certificate(key)
	return p
}

// config is what both ends share: TLS 1.3, the own key, no resumption.
func (p *presenter) config(alpn string) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{alpn},
		SessionTicketsDisabled: true,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &p.cert, p.err },
		GetClientCertificate:   func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &p.cert, p.err },
	}
}

// ServerTLS returns the configuration of the listening end: TLS 1.3 only, alpn only, and a peer that shows a
// certificate with an Ed25519 key. No name, date, issuer or earlier session is looked at: the key is the peer.
func ServerTLS(key identity.PrivateKey, alpn string) *tls.Config {
	return newPresenter(key).server(alpn)
}

func (p *presenter) server(alpn string) *tls.Config {
	c := p.config(alpn)
	// Asked for, not required: a missing one is refused below, under its own name.
	c.ClientAuth = tls.RequestClientCert
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if n, ok := hello.Context().Value(helloNoteKey{}).(*helloNote); ok {
			n.seen = true
			n.tls13 = slices.Contains(hello.SupportedVersions, tls.VersionTLS13)
			n.protocol = slices.Contains(hello.SupportedProtos, alpn)
		}
		return nil, nil
	}
	c.VerifyConnection = func(s tls.ConnectionState) error {
		_, err := peerKey(s, alpn)
		return err
	}
	return c
}

// ClientTLS returns the configuration of the dialing end; want is the key that must answer, nil for any.
func ClientTLS(key identity.PrivateKey, alpn string, want *identity.PublicKey) *tls.Config {
	return newPresenter(key).client(alpn, want)
}

func (p *presenter) client(alpn string, want *identity.PublicKey) *tls.Config {
	c := p.config(alpn)
	c.InsecureSkipVerify = true // names and issuers prove nothing here: VerifyConnection checks the key
	c.VerifyConnection = func(s tls.ConnectionState) error {
		got, err := peerKey(s, alpn)
		if err == nil && want != nil && got != *want {
			err = &PeerKeyError{Got: got, Want: *want}
		}
		return err
	}
	return c
}

// peerKey judges a connection and returns the key of its other end.
func peerKey(s tls.ConnectionState, alpn string) (identity.PublicKey, error) {
	switch {
	case s.Version != tls.VersionTLS13:
		return identity.PublicKey{}, ErrPeerTLSVersion
	case s.NegotiatedProtocol != alpn:
		return identity.PublicKey{}, ErrPeerProtocol
	case len(s.PeerCertificates) == 0:
		return identity.PublicKey{}, ErrNoCertificate
	}
	raw, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok || len(raw) != len(identity.PublicKey{}) {
		return identity.PublicKey{}, ErrCertificateKind
	}
	k := identity.PublicKey(raw)
	if err := k.Check(); err != nil {
		return identity.PublicKey{}, fmt.Errorf("%w: %w", ErrWeakKey, err)
	}
	return k, nil
}

// PeerKey returns the key of the other end of a finished handshake.
func PeerKey(c *tls.Conn) (identity.PublicKey, error) {
	s := c.ConnectionState()
	if !s.HandshakeComplete {
		return identity.PublicKey{}, ErrNoCertificate
	}
	return peerKey(s, s.NegotiatedProtocol)
}

// helloNote is what a client's first message offered, kept beside the handshake so that a refusal has its own name:
// the library's own errors have none.
type helloNote struct{ seen, tls13, protocol bool }

type helloNoteKey struct{}

// handshakeRefusals is asked in order; the first that holds names a failed handshake.
var handshakeRefusals = []struct {
	Refusal Refusal
	Holds   func(err error, n *helloNote) bool
}{
	{RefuseTLSVersion, func(err error, n *helloNote) bool {
		return errors.Is(err, ErrPeerTLSVersion) || n.seen && !n.tls13
	}},
	{RefuseALPN, func(err error, n *helloNote) bool { return errors.Is(err, ErrPeerProtocol) || n.seen && !n.protocol }},
	{RefuseNoCertificate, func(err error, _ *helloNote) bool { return errors.Is(err, ErrNoCertificate) }},
	{RefuseCertificateKind, func(err error, _ *helloNote) bool { return errors.Is(err, ErrCertificateKind) }},
	{RefuseKey, func(err error, _ *helloNote) bool { return errors.Is(err, ErrWeakKey) }},
	{RefuseHandshakeLate, func(err error, _ *helloNote) bool {
		return errors.Is(err, context.DeadlineExceeded)
	}},
	{RefuseHandshake, func(error, *helloNote) bool { return true }},
}

// serverHandshake finishes a handshake within HandshakeWithin, and returns the peer's key or why it was refused.
func serverHandshake(ctx context.Context, c *tls.Conn) (identity.PublicKey, Refusal, error) {
	ctx, cancel := context.WithTimeout(ctx, HandshakeWithin)
	defer cancel()
	n := &helloNote{}
	err := c.HandshakeContext(context.WithValue(ctx, helloNoteKey{}, n))
	if err == nil {
		var key identity.PublicKey
		if key, err = PeerKey(c); err == nil {
			return key, RefusalNone, nil
		}
	}
	for _, r := range handshakeRefusals {
		if r.Holds(err, n) {
			return identity.PublicKey{}, r.Refusal, err
		}
	}
	return identity.PublicKey{}, RefuseHandshake, err
}
