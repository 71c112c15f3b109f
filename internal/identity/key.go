package identity

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"

	"pace-node/internal/wire"
)

// keyTextLength: 32 bytes in unpadded base64url.
const keyTextLength = 43

// PublicKey is an Ed25519 public key (RFC 8032).
type PublicKey [32]byte

// String returns the text form: 43 characters of unpadded base64url.
func (k PublicKey) String() string { return base64.RawURLEncoding.EncodeToString(k[:]) }

// ParsePublicKey reads the text form: exactly 43 characters, the last one
// canonical (its two unused bits zero), and a key that Check accepts.
func ParsePublicKey(text string) (PublicKey, error) {
	var k PublicKey
	if len(text) != keyTextLength {
		return PublicKey{}, fmt.Errorf("key %q has %d characters: %w", clip(text), len(text), ErrKeyText)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	// The decoder passes over line breaks; a shorter result shows them.
	if err != nil || len(b) != len(k) {
		return PublicKey{}, fmt.Errorf("key %q: %w", text, ErrKeyText)
	}
	copy(k[:], b)
	if err := k.Check(); err != nil {
		return PublicKey{}, fmt.Errorf("key %q: %w", text, err)
	}
	return k, nil
}

// clip keeps an error line short whatever was typed.
func clip(s string) string {
	const shown = 64
	if len(s) > shown {
		return s[:shown] + "…"
	}
	return s
}

// MarshalText is String, so that documents hold the text form.
func (k PublicKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is ParsePublicKey.
func (k *PublicKey) UnmarshalText(text []byte) (err error) {
	*k, err = ParsePublicKey(string(text))
	return err
}

// IsZero reports whether k is the zero value, which is no key.
func (k PublicKey) IsZero() bool { return k == PublicKey{} }

// smallOrderY holds the y coordinates, little-endian without the sign bit, of
// the eight points whose order divides the cofactor, and the two spellings of
// them that are not reduced. Either sign bit is refused. Source: RFC 7748 and
// RFC 8032; the test works them out by arithmetic.
var smallOrderY = [...][32]byte{
	{},  // y = 0, order 4
	{1}, // y = 1, the neutral element
	{ // y = p−1, order 2
		0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
	},
	{ // y = p, spelling 0
		0xed, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
	},
	{ // y = p+1, spelling 1
		0xee, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
	},
	{ // order 8
		0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
		0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
	},
	{ // order 8, the other
		0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
		0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
	},
}

// Check refuses what no honest key is: a point of small order, under which
// anybody can sign, and a spelling that is not canonical, which would give one
// key two texts. It is asked wherever a key enters.
func (k PublicKey) Check() error {
	y := k
	y[31] &= 0x7f
	for i := range smallOrderY {
		if y == PublicKey(smallOrderY[i]) {
			return ErrSmallOrder
		}
	}
	// y ≥ p = 2²⁵⁵−19: all ones above the lowest byte, and that at least 0xed.
	if y[31] == 0x7f && y[0] >= 0xed {
		for i := 1; ; i++ {
			if i == 31 {
				return ErrNotCanonical
			}
			if y[i] != 0xff {
				break
			}
		}
	}
	return nil
}

// PrivateKey is a machine's identity key. It prints as nothing but its kind.
type PrivateKey struct {
	key [ed25519.PrivateKeySize]byte
	ok  bool // the zero PrivateKey signs nothing
}

// NewPrivateKey makes the key of a 32-byte seed (RFC 8032's private key).
func NewPrivateKey(seed [32]byte) PrivateKey {
	k := PrivateKey{ok: true}
	copy(k.key[:], ed25519.NewKeyFromSeed(seed[:]))
	return k
}

// Public returns the public key, zero for the zero PrivateKey.
func (k PrivateKey) Public() (p PublicKey) {
	copy(p[:], k.key[32:])
	return p
}

// Seed returns the 32 bytes to keep.
func (k PrivateKey) Seed() (s [32]byte) {
	copy(s[:], k.key[:32])
	return s
}

// Ed25519 returns a copy for crypto/tls and crypto/x509.
func (k PrivateKey) Ed25519() ed25519.PrivateKey {
	return append(ed25519.PrivateKey(nil), k.key[:]...)
}

// Format prints the public half whatever the verb, so that no log holds the seed.
func (k PrivateKey) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "private key of %s", k.Public())
}

// Sign signs m, pure Ed25519. Only the wire package makes messages, each under
// its label; the zero Message and the zero PrivateKey give the zero signature,
// which verifies under no key.
func (k PrivateKey) Sign(m wire.Message) (sig [64]byte) {
	if !k.ok || m.IsZero() {
		return sig
	}
	copy(sig[:], ed25519.Sign(k.key[:], m.Bytes()))
	return sig
}

// Verify reports whether sig is k's signature of m. A key that Check refuses
// verifies nothing.
func Verify(k PublicKey, m wire.Message, sig [64]byte) bool {
	if m.IsZero() || k.Check() != nil {
		return false
	}
	return ed25519.Verify(k[:], m.Bytes(), sig[:])
}
