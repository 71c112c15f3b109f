// Package identity holds what a machine is: its minted ids, its Ed25519 key,
// the key's text form, and signing and verifying by purpose.
//
// It must never touch a file or a socket, mint randomness by itself, or sign
// bytes that do not start with a label of the wire package.
package identity

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"pace-node/internal/wire"
)

// Sentinels of this package.
var (
	// ErrKeyText: a text that is no key: wrong length, letters or last character.
	ErrKeyText = errors.New("not a key: a key is exactly 43 characters of base64url as `pacectl node` prints it; copy it whole")
	// ErrNotCanonical: 32 bytes that spell a point in a way no honest key does.
	ErrNotCanonical = errors.New("not a key: its bytes are not the canonical form of a point; copy the key from the machine itself")
	// ErrSmallOrder: a point under which a signature can be made without a secret.
	ErrSmallOrder = errors.New("not a key: the point has small order, so anybody could sign for it; refuse the machine that sent it")
	// ErrAdmitForm: a text that is not <id>@<key>.
	ErrAdmitForm = errors.New("not <id>@<key>: paste the line that `--print-identity` printed on the machine")
)

// NewID returns an id of 32 lowercase hex digits: a node id or a cluster id.
func NewID(random [16]byte) string { return hex.EncodeToString(random[:]) }

// ValidMintedID reports whether s is exactly 32 lowercase hex digits.
func ValidMintedID(s string) bool {
	if len(s) != mintedIDLength {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}

// mintedIDLength: 16 random bytes in hex.
const mintedIDLength = 32

// ParseAdmit reads <id>@<key>. The error names the half that is wrong.
func ParseAdmit(text string) (id string, key PublicKey, err error) {
	id, k, ok := strings.Cut(text, "@")
	if !ok {
		return "", PublicKey{}, fmt.Errorf("%q: %w", text, ErrAdmitForm)
	}
	if !wire.ValidID(id) {
		return "", PublicKey{}, fmt.Errorf("id %q: an id is 1 to 64 of A-Z a-z 0-9 . _ -: %w", id, ErrAdmitForm)
	}
	if key, err = ParsePublicKey(k); err != nil {
		return "", PublicKey{}, err
	}
	return id, key, nil
}

// FormatAdmit is the inverse of ParseAdmit.
func FormatAdmit(id string, key PublicKey) string { return id + "@" + key.String() }
