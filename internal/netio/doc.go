// Package netio carries bytes: the pair of datagram sockets of discovery, the choice of interfaces, TLS by key, sessions
// with their streams and frames, and the streams of the consensus port. It decides who may connect at all, and never
// what is answered: it must never import discovery or formation, know a roster, or judge a request.
package netio

import "errors"

// Errors of this package.
var (
	// ErrClosed is returned by everything that was closed on this side.
	ErrClosed = errors.New("closed")
	// ErrPeerKey: the machine that answered is not the one that was meant; *PeerKeyError holds both keys.
	ErrPeerKey = errors.New("the machine that answered has another key than the one expected")
	// ErrPeerTLSVersion and the next four are why a TLS handshake is refused.
	ErrPeerTLSVersion  = errors.New("the other end does not speak TLS 1.3")
	ErrPeerProtocol    = errors.New("the other end does not speak this protocol (ALPN)")
	ErrNoCertificate   = errors.New("the other end showed no certificate")
	ErrCertificateKind = errors.New("the other end's certificate does not hold an Ed25519 key")
	ErrWeakKey         = errors.New("the other end's key is one that no honest machine has")
	// ErrAnswer: what came back is no frame of this protocol, or a larger one than its verb allows.
	ErrAnswer = errors.New("the answer is not a frame of this protocol")
	// ErrFrameTooLarge: this side tried to send a frame beyond its bound.
	ErrFrameTooLarge = errors.New("frame too large")
	// ErrReplaced closes a session whose machine came back with a newer one while the old did not answer.
	ErrReplaced = errors.New("replaced by a newer session of the same key")
	// ErrIdle closes a stranger's session after its answer.
	ErrIdle = errors.New("nothing more was asked on a session without a row")
	// ErrFlood closes a session of a key outside the roster that sends more than any honest machine.
	ErrFlood = errors.New("the peer sends more than a machine outside the roster may")
	// ErrRule: an interface rule is empty.
	ErrRule = errors.New("an interface rule is a name, !name, or a glob with * and ?")
	// ErrNoAddress: no interface has an address that could be told to peers.
	ErrNoAddress = errors.New("no interface has an address that other machines could reach")
	// ErrLoopbackOnly: with --discovery-loopback nothing may leave the machine.
	ErrLoopbackOnly = errors.New("with --discovery-loopback nothing is sent beyond 127.0.0.0/8")
)
