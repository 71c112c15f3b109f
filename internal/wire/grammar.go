package wire

import (
	"encoding/binary"
	"errors"
	"unicode/utf8"
)

// Sentinels of this package. They are static so that refusing junk costs no
// allocation.
var (
	// ErrMalformed: the bytes do not follow the grammar or a bound of their message.
	ErrMalformed = errors.New("wire: malformed: the bytes do not follow the grammar; the sender is broken, hostile or of another build")
	// ErrLeaseVersion: a lease in a format that this build does not read.
	ErrLeaseVersion = errors.New("wire: lease of another format version: upgrade this node")
	// ErrTooLarge: a frame claims more than its ceiling.
	ErrTooLarge = errors.New("wire: frame larger than its ceiling")
	// ErrNoOrder: an error frame that carries no readable dissolve order.
	ErrNoOrder = errors.New("wire: the error carries no readable dissolve order; ask another member of the fleet")
)

// AppendField appends one field: u32 big-endian length, then the bytes.
func AppendField(dst, f []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(f)))
	return append(dst, f...)
}

// AppendText appends the bytes of s as one field.
func AppendText(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}

// AppendU8 appends a field of one byte.
func AppendU8(dst []byte, v uint8) []byte {
	return append(dst, 0, 0, 0, 1, v)
}

// AppendU32 appends a field of four big-endian bytes.
func AppendU32(dst []byte, v uint32) []byte {
	dst = append(dst, 0, 0, 0, 4)
	return binary.BigEndian.AppendUint32(dst, v)
}

// AppendU64 appends a field of eight big-endian bytes.
func AppendU64(dst []byte, v uint64) []byte {
	dst = append(dst, 0, 0, 0, 8)
	return binary.BigEndian.AppendUint64(dst, v)
}

// appendOptional32 appends v as a field, or an empty field when it is absent.
func appendOptional32(dst []byte, v *[32]byte, present bool) []byte {
	if !present {
		return AppendField(dst, nil)
	}
	return AppendField(dst, v[:])
}

// Fields reads a payload field by field. The first thing that is wrong makes
// every later read return zero; End tells. It never allocates except in Text.
type Fields struct {
	rest []byte
	bad  bool
}

// ReadFields starts reading the payload b, which it aliases.
func ReadFields(b []byte) Fields { return Fields{rest: b} }

// Bytes returns the next field as a sub-slice of the payload (no copy). Its
// length must be min..max bytes; otherwise nil, and End reports it.
func (f *Fields) Bytes(min, max int) []byte {
	if f.bad {
		return nil
	}
	if len(f.rest) < fieldHeader {
		return f.fail()
	}
	n := uint64(binary.BigEndian.Uint32(f.rest))
	body := f.rest[fieldHeader:]
	// Compared as uint64: a claimed length of 4 GiB is no negative int on 32 bits.
	if n > uint64(len(body)) || min < 0 || max < 0 || n < uint64(min) || n > uint64(max) {
		return f.fail()
	}
	f.rest = body[n:]
	return body[:n:n]
}

func (f *Fields) fail() []byte {
	f.bad, f.rest = true, nil
	return nil
}

// text is Bytes whose content must be UTF-8. It leaves the string to be made
// after End, so that junk costs no allocation.
func (f *Fields) text(min, max int) []byte {
	b := f.Bytes(min, max)
	if !utf8.Valid(b) {
		return f.fail()
	}
	return b
}

// endpoint is a text that is empty or a dialable host:port.
func (f *Fields) endpoint() []byte {
	b := f.text(0, MaxEndpoint)
	if len(b) > 0 && !validEndpoint(b) {
		return f.fail()
	}
	return b
}

// Text returns the next field as a string of min..max bytes of UTF-8.
func (f *Fields) Text(min, max int) string { return string(f.text(min, max)) }

// U8 returns a field of exactly one byte.
func (f *Fields) U8() uint8 {
	if b := f.Bytes(1, 1); b != nil {
		return b[0]
	}
	return 0
}

// U32 returns a field of exactly four bytes, big-endian.
func (f *Fields) U32() uint32 {
	if b := f.Bytes(4, 4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// U64 returns a field of exactly eight bytes, big-endian.
func (f *Fields) U64() uint64 {
	if b := f.Bytes(8, 8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Key returns a field of exactly 32 bytes. Whether it is a key anybody may use
// is for the identity package to check.
func (f *Fields) Key() (k [32]byte) {
	copy(k[:], f.Bytes(keySize, keySize))
	return k
}

// Nonce returns a field of exactly 32 bytes.
func (f *Fields) Nonce() (n [32]byte) {
	copy(n[:], f.Bytes(nonceSize, nonceSize))
	return n
}

// Signature returns a field of exactly 64 bytes.
func (f *Fields) Signature() (s [64]byte) {
	copy(s[:], f.Bytes(signatureSize, signatureSize))
	return s
}

// bytes16 returns a field of exactly 16 bytes.
func (f *Fields) bytes16() (v [16]byte) {
	copy(v[:], f.Bytes(len(v), len(v)))
	return v
}

// Optional32 returns a field of 32 bytes, or present == false for an empty one.
func (f *Fields) Optional32() (v [32]byte, present bool) {
	b := f.Bytes(0, 32)
	switch len(b) {
	case 0:
	case 32:
		copy(v[:], b)
		return v, true
	default:
		f.fail()
	}
	return v, false
}

// More reports whether bytes are left and nothing was wrong so far.
func (f *Fields) More() bool { return !f.bad && len(f.rest) > 0 }

// Reject marks the payload malformed: for a bound that the field alone does not show.
func (f *Fields) Reject() { f.fail() }

// End returns ErrMalformed if anything was wrong or bytes are left.
func (f *Fields) End() error {
	if f.bad || len(f.rest) != 0 {
		return ErrMalformed
	}
	return nil
}
