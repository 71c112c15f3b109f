package release

import (
	"bytes"
	"fmt"
	"strings"

	"aead.dev/minisign"
)

// PublicKey is the release key that a machine trusts.
type PublicKey struct{ key minisign.PublicKey }

// ParsePublicKey reads a release key's text: the 56 characters of the second line of a minisign key file, or the whole
// file.
func ParsePublicKey(text string) (PublicKey, error) {
	if len(text) > MaxSignature {
		return PublicKey{}, fmt.Errorf("%w: it has %d bytes", ErrKey, len(text))
	}
	text = strings.TrimSpace(text)
	var k minisign.PublicKey
	if err := k.UnmarshalText([]byte(text)); err != nil {
		return PublicKey{}, fmt.Errorf("%w: give the second line of its .pub file, 56 characters that begin with RW", ErrKey)
	}
	return PublicKey{k}, nil
}

// String is the key as --provision-release-key takes it.
func (k PublicKey) String() string { return k.key.String() }

// file is the key as minisign keeps it.
func (k PublicKey) file() []byte {
	return []byte(fmt.Sprintf("untrusted comment: pace-node release key %X\n%s\n", k.key.ID(), k.key))
}

// Verify checks a manifest's bytes against the signature file beside it, and reads it.
func (k PublicKey) Verify(manifest, signature []byte) (Manifest, error) {
	if len(signature) > MaxSignature || !minisign.Verify(k.key, manifest, signature) {
		return Manifest{}, fmt.Errorf("%w %s", ErrSignature, k)
	}
	return ParseManifest(manifest)
}

// SecretKey signs releases.
type SecretKey struct{ key minisign.PrivateKey }

// NewKey makes a release key from the system's randomness. secret is the text of its file, sealed under password, or
// plain where that is empty (minisign -W); public is that of the .pub file. Sealing takes minisign's scrypt: a gigabyte
// and some seconds.
func NewKey(password string) (public PublicKey, secret, publicFile []byte, err error) {
	pub, priv, err := minisign.GenerateKey(nil)
	if err != nil {
		return PublicKey{}, nil, nil, err
	}
	if password == "" {
		secret, err = priv.MarshalText()
	} else {
		secret, err = minisign.EncryptKey(password, priv)
	}
	if err != nil {
		return PublicKey{}, nil, nil, err
	}
	public = PublicKey{pub}
	return public, secret, public.file(), nil
}

// ParseSecretKey reads a secret key file, sealed under password or plain (minisign -W).
func ParseSecretKey(password string, text []byte) (SecretKey, error) {
	if len(text) > MaxSignature {
		return SecretKey{}, fmt.Errorf("%w: it has %d bytes", ErrKey, len(text))
	}
	if minisign.IsEncrypted(text) {
		k, err := minisign.DecryptKey(password, text)
		if err != nil {
			return SecretKey{}, fmt.Errorf("%w, or the password is not its: %w", ErrKey, err)
		}
		return SecretKey{k}, nil
	}
	var k minisign.PrivateKey
	if err := k.UnmarshalText(bytes.TrimSpace(text)); err != nil {
		return SecretKey{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return SecretKey{k}, nil
}

// Public is the key that verifies.
func (s SecretKey) Public() PublicKey { return PublicKey{s.key.Public().(minisign.PublicKey)} }

// sign signs a manifest; the trusted comment names the version, for whoever reads the file.
func (s SecretKey) sign(m Manifest, b []byte) []byte {
	return minisign.SignWithComments(s.key, b, "pace-node "+m.Version, "signature of the pace-node release key")
}

// Equal says whether both are the same key.
func (k PublicKey) Equal(o PublicKey) bool { return k.key.Equal(o.key) }

// Sealed says whether a secret key file asks for a passphrase.
func Sealed(text []byte) bool { return len(text) <= MaxSignature && minisign.IsEncrypted(text) }
