package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"

	"pace-node/internal/wire"

	"pgregory.net/rapid"
)

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// TestRFC8032 has the vectors of RFC 8032, section 7.1: tests 1, 2, 3 and SHA(abc).
func TestRFC8032(t *testing.T) {
	for _, v := range []struct{ name, seed, public, message, signature string }{
		{"1", "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
			"e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"},
		{"2", "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb", "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
			"92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
		{"3", "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7", "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
			"6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"},
		{"SHA(abc)", "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42", "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
			"ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
			"dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704"},
	} {
		k := NewPrivateKey([32]byte(unhex(t, v.seed)))
		p := k.Public()
		if hex.EncodeToString(p[:]) != v.public || p.Check() != nil {
			t.Errorf("test %s: public %x, check %v", v.name, p[:], p.Check())
		}
		if seed := k.Seed(); hex.EncodeToString(seed[:]) != v.seed {
			t.Errorf("test %s: seed %x", v.name, seed)
		}
		message, sig := unhex(t, v.message), unhex(t, v.signature)
		if got := ed25519.Sign(k.Ed25519(), message); !bytes.Equal(got, sig) || !ed25519.Verify(p[:], message, sig) {
			t.Errorf("test %s: signature %x", v.name, got)
		}
	}
}

type vector struct {
	Name, Text, Message, Signature, By, Nonce, Challenger, Bytes string
	SeedA, SeedB, PublicA, PublicB, TextA, TextB                 string
	Node, Endpoint                                               string
}

// TestVectors: keys, their text and two signatures of the discovery wire's vectors.
func TestVectors(t *testing.T) {
	b, err := os.ReadFile("../wire/testdata/discovery.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []vector
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	v := map[string]vector{}
	for _, e := range list {
		v[e.Name] = e
	}
	keys := v["keys"]
	private := map[string]PrivateKey{}
	for _, c := range []struct{ name, seed, public, text string }{
		{"A", keys.SeedA, keys.PublicA, keys.TextA}, {"B", keys.SeedB, keys.PublicB, keys.TextB},
	} {
		k := NewPrivateKey([32]byte(unhex(t, c.seed)))
		private[c.name] = k
		p := k.Public()
		parsed, err := ParsePublicKey(c.text)
		if hex.EncodeToString(p[:]) != c.public || p.String() != c.text || err != nil || parsed != p {
			t.Errorf("key %s: %x %s, %v", c.name, p, p, err)
		}
	}
	if p, err := ParsePublicKey(v["RFC 8032 test 1"].Text); err != nil || hex.EncodeToString(p[:]) != "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a" {
		t.Errorf("RFC 8032 test 1: %x %v", p, err)
	}

	key := private["A"]
	raw, nonce := unhex(t, v["summary"].Bytes), [32]byte(unhex(t, v["proof"].Nonce))
	request := wire.EnrollRequest{ID: v["enrollment request"].Node, Endpoint: v["enrollment request"].Endpoint, Role: wire.RoleLearner, Key: key.Public(), Nonce: nonce}
	for name, m := range map[string]wire.Message{
		"proof":                  wire.DiscoveryProofMessage(v["proof"].Challenger, nonce, raw, key.Public()),
		"fleet summary over TCP": wire.FleetSummaryMessage(nonce, raw, key.Public()),
		"enrollment request":     request.Message(),
	} {
		sig := key.Sign(m)
		if hex.EncodeToString(sig[:]) != v[name].Signature || !Verify(key.Public(), m, sig) {
			t.Errorf("%s: signature %x, want %s", name, sig, v[name].Signature)
		}
		if Verify(private["B"].Public(), m, sig) {
			t.Errorf("%s verifies under another key", name)
		}
		sig[0] ^= 1
		if Verify(key.Public(), m, sig) {
			t.Errorf("%s: a changed signature verifies", name)
		}
	}
}

func TestKeyText(t *testing.T) {
	const text = "SAdaWX5yGhVuLgeZ3lzAxTJNxufq8c3UYlCGjsUyFd0"
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	// The last of 43 characters holds 4 bits: every fourth letter is canonical.
	for i, c := range alphabet {
		s := text[:42] + string(c)
		if _, err := ParsePublicKey(s); (err == nil) != (i%4 == 0) {
			t.Errorf("last character %c: %v", c, err)
		}
	}
	for name, s := range map[string]string{
		"empty": "", "42 characters": text[:42], "44 characters": text + "A", "padded": text + "=", "padding inside": text[:42] + "=",
		"standard base64 +": "+" + text[1:], "standard base64 /": "/" + text[1:], "space before": " " + text[:42], "space inside": text[:20] + " " + text[21:],
		"newline inside": text[:20] + "\n" + text[21:], "newline at the end": text[:42] + "\n", "newline after": text + "\n", "carriage return": "\r" + text[:42],
		"hex": "48075a597e721a156e2e0799de5cc0c5324dc6e7eaf1cdd46250868ec53215dd", "not ASCII": "ü" + text[2:], "an escape": "\x1b[31m" + text[5:], "very long": strings.Repeat("A", 1<<16),
	} {
		k, err := ParsePublicKey(s)
		if !errors.Is(err, ErrKeyText) || !k.IsZero() {
			t.Errorf("%s: %v %v", name, k, err)
		}
		if strings.ContainsAny(err.Error(), "\x1b\n\r") || len(err.Error()) > 400 {
			t.Errorf("%s is said raw or at length: %.500q", name, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		k := NewPrivateKey([32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed"))).Public()
		back, err := ParsePublicKey(k.String())
		if err != nil || back != k || len(k.String()) != 43 {
			t.Fatal(k, back, err)
		}
		b, err := json.Marshal(map[string]PublicKey{"key": k})
		var m map[string]PublicKey
		if err != nil || json.Unmarshal(b, &m) != nil || m["key"] != k || string(b) != `{"key":"`+k.String()+`"}` {
			t.Fatalf("%s", b)
		}
	})
	var k PublicKey
	if err := k.UnmarshalText([]byte("x")); !errors.Is(err, ErrKeyText) || !k.IsZero() {
		t.Errorf("%v %v", k, err)
	}
}

// Edwards arithmetic over big integers, to work out the points of small order
// instead of trusting a list.
var (
	prime = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	curve = mod(new(big.Int).Mul(big.NewInt(-121665), new(big.Int).ModInverse(big.NewInt(121666), prime)))
)

func mod(x *big.Int) *big.Int { return x.Mod(x, prime) }
func mul(x *big.Int, y ...*big.Int) *big.Int {
	z := new(big.Int).Set(x)
	for _, f := range y {
		z = mod(z.Mul(z, f))
	}
	return z
}

type point struct{ x, y *big.Int }

func (p point) add(q point) point {
	k := mul(curve, p.x, q.x, p.y, q.y)
	inverse := func(v *big.Int) *big.Int { return new(big.Int).ModInverse(mod(v), prime) }
	one := big.NewInt(1)
	return point{
		mul(new(big.Int).Add(mul(p.x, q.y), mul(q.x, p.y)), inverse(new(big.Int).Add(one, k))),
		mul(new(big.Int).Add(mul(p.y, q.y), mul(p.x, q.x)), inverse(new(big.Int).Sub(one, k))),
	}
}

// decodePoint reads 32 bytes as RFC 8032 does, but reduces y and takes a sign
// bit on x = 0: every spelling of a point.
func decodePoint(k PublicKey) (point, bool) {
	sign := k[31] >> 7
	k[31] &= 0x7f
	b := slices.Clone(k[:])
	slices.Reverse(b)
	y := mod(new(big.Int).SetBytes(b))
	y2 := mul(y, y)
	u := mod(new(big.Int).Sub(y2, big.NewInt(1)))
	v := mod(new(big.Int).Add(mul(curve, y2), big.NewInt(1)))
	x := new(big.Int).ModSqrt(mul(u, new(big.Int).ModInverse(v, prime)), prime)
	if x == nil {
		return point{}, false
	}
	if x.Bit(0) != uint(sign) {
		x = mod(x.Neg(x))
	}
	return point{x, y}, true
}

// order returns the order of p if it divides 8, else 0.
func (p point) order() int {
	for n := 1; n <= 8; n *= 2 {
		if p.x.Sign() == 0 && p.y.Cmp(big.NewInt(1)) == 0 {
			return n
		}
		p = p.add(p)
	}
	return 0
}

// smallOrderKeys is every 32-byte spelling of the eight points of small order.
func smallOrderKeys(tb testing.TB) map[PublicKey]int {
	// A point of order 8 comes from any point times the prime order of the group.
	l, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	points := map[string]point{}
	for y := byte(2); len(points) < 8; y++ {
		p, ok := decodePoint(PublicKey{y})
		if !ok {
			continue
		}
		q := point{big.NewInt(0), big.NewInt(1)}
		for i := l.BitLen() - 1; i >= 0; i-- {
			if q = q.add(q); l.Bit(i) == 1 {
				q = q.add(p)
			}
		}
		for r := q; ; r = r.add(q) {
			id := r.x.String() + "," + r.y.String()
			if _, ok := points[id]; ok {
				break
			}
			points[id] = r
		}
		if y == 100 {
			tb.Fatal("the eight points were not found")
		}
	}
	keys := map[PublicKey]int{}
	for _, p := range points {
		for _, y := range []*big.Int{p.y, new(big.Int).Add(p.y, prime)} {
			if y.BitLen() > 255 {
				continue // p.y + prime has no room
			}
			for _, sign := range []byte{0, 0x80} {
				var k PublicKey
				y.FillBytes(k[:])
				slices.Reverse(k[:])
				k[31] |= sign
				if q, ok := decodePoint(k); ok && q.order() == p.order() {
					keys[k] = p.order()
				}
			}
		}
	}
	return keys
}

// checkSmallOrder holds the table against the arithmetic.
func checkSmallOrder(keys map[PublicKey]int) error {
	for k, order := range keys {
		if err := k.Check(); !errors.Is(err, ErrSmallOrder) {
			return fmt.Errorf("%x of order %d: %v", k, order, err)
		}
	}
	for _, y := range smallOrderY {
		if p, ok := decodePoint(y); !ok || p.order() == 0 {
			return fmt.Errorf("%x is in the table and has no small order", y)
		}
	}
	return nil
}

func TestSmallOrder(t *testing.T) {
	keys := smallOrderKeys(t)
	// y = 0, 1, p−1, two of order 8; 0 and 1 have a second spelling: seven, each with either sign.
	if len(keys) != 14 || len(smallOrderY) != 7 {
		t.Errorf("%d spellings, want 14", len(keys))
	}
	if err := checkSmallOrder(keys); err != nil {
		t.Error(err)
	}
	for k := range keys {
		if _, err := ParsePublicKey(k.String()); !errors.Is(err, ErrSmallOrder) {
			t.Errorf("text of %x: %v", k, err)
		}
		if _, _, err := ParseAdmit("n@" + k.String()); !errors.Is(err, ErrSmallOrder) {
			t.Errorf("admit of %x: %v", k, err)
		}
	}
}

func TestMutationSmallOrder(t *testing.T) {
	keys := smallOrderKeys(t)
	for i := range smallOrderY {
		kept := smallOrderY[i]
		smallOrderY[i][16] ^= 0x55
		if checkSmallOrder(keys) == nil {
			t.Errorf("row %d: a change goes unnoticed", i)
		}
		smallOrderY[i] = kept
	}
	if err := checkSmallOrder(keys); err != nil {
		t.Fatal(err)
	}
}

func TestNotCanonical(t *testing.T) {
	// p+2 … p+18 are the spellings with room in 255 bits; p and p+1 have small order.
	for low := 0xec; low <= 0xff; low++ {
		for _, sign := range []byte{0, 0x80} {
			k := PublicKey(bytes.Repeat([]byte{0xff}, 32))
			k[0], k[31] = byte(low), 0x7f|sign
			want := ErrNotCanonical
			if low <= 0xee {
				want = ErrSmallOrder
			}
			if err := k.Check(); !errors.Is(err, want) {
				t.Errorf("%x: %v, want %v", k, err, want)
			}
		}
	}
	// Just below p, and with one byte that is not all ones: canonical.
	k := PublicKey(bytes.Repeat([]byte{0xff}, 32))
	k[0], k[31] = 0xeb, 0x7f
	if err := k.Check(); err != nil {
		t.Errorf("p−2: %v", err)
	}
	for i := 1; i < 32; i++ {
		k := PublicKey(bytes.Repeat([]byte{0xff}, 32))
		k[31] = 0x7f
		k[i]--
		if err := k.Check(); err != nil {
			t.Errorf("byte %d lowered: %v", i, err)
		}
	}
}

// TestSmallOrderForgery: under the neutral element the library accepts one
// signature for every message. Verify must not.
func TestSmallOrderForgery(t *testing.T) {
	neutral := PublicKey{1}
	m := wire.FleetSummaryMessage([32]byte{}, []byte("anything"), neutral)
	sig := [64]byte{1}
	if !ed25519.Verify(neutral[:], m.Bytes(), sig[:]) {
		t.Log("the library refuses it by itself now")
	}
	if Verify(neutral, m, sig) {
		t.Error("a forgery under a key of small order verifies")
	}
}

func TestSignOnlyMessages(t *testing.T) {
	k := NewPrivateKey([32]byte{7})
	var none [64]byte
	m := wire.FleetSummaryMessage([32]byte{}, nil, k.Public())
	if k.Sign(wire.Message{}) != none {
		t.Error("the zero message was signed")
	}
	if (PrivateKey{}).Sign(m) != none || !(PrivateKey{}).Public().IsZero() {
		t.Error("the zero key signed")
	}
	if Verify(k.Public(), m, none) || Verify(k.Public(), wire.Message{}, none) || Verify(PublicKey{}, m, none) {
		t.Error("the zero signature verifies")
	}
	empty := ed25519.Sign(k.Ed25519(), nil)
	if Verify(k.Public(), wire.Message{}, [64]byte(empty)) {
		t.Error("the zero message verifies")
	}
	// A signature for one purpose verifies for no other over the same values.
	if Verify(k.Public(), wire.DiscoveryProofMessage("", [32]byte{}, nil, k.Public()), k.Sign(m)) {
		t.Error("a signature crossed purposes")
	}
	// What Ed25519 hands out is a copy.
	clear(k.Ed25519())
	if k != NewPrivateKey([32]byte{7}) {
		t.Error("a caller changed the key")
	}
}

func TestPrivateKeyPrintsNoSecret(t *testing.T) {
	k := NewPrivateKey([32]byte(bytes.Repeat([]byte{0xA5}, 32)))
	held := struct{ Key PrivateKey }{k}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b"} {
		for _, v := range []any{k, &k, held} {
			s := fmt.Sprintf(format, v)
			for _, secret := range []string{"a5a5", "A5A5", "165 165", "0xa5", base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{0xA5}, 9))} {
				if strings.Contains(s, secret) {
					t.Errorf("%s of %T shows the secret: %s", format, v, s)
				}
			}
		}
	}
	if b, err := json.Marshal(held); err != nil || string(b) != `{"Key":{}}` {
		t.Errorf("%s %v", b, err)
	}
}

func FuzzParsePublicKey(f *testing.F) {
	f.Add("SAdaWX5yGhVuLgeZ3lzAxTJNxufq8c3UYlCGjsUyFd0")
	f.Add(strings.Repeat("A", 43))
	f.Fuzz(func(t *testing.T, s string) {
		k, err := ParsePublicKey(s)
		if err != nil {
			if !errors.Is(err, ErrKeyText) && !errors.Is(err, ErrNotCanonical) && !errors.Is(err, ErrSmallOrder) || !k.IsZero() {
				t.Fatal(k, err)
			}
			return
		}
		if k.String() != s || k.Check() != nil {
			t.Fatalf("%q comes back as %q", s, k)
		}
	})
}

// benchProof is a worst-case proof's parts.
func benchProof() (PrivateKey, wire.Message, []byte, [32]byte) {
	k := NewPrivateKey([32]byte{1})
	s := wire.Summary{Cluster: strings.Repeat("c", 64), State: wire.StateEstablished, OwnEndpoint: "255.255.255.255:65535", Total: 10}
	for i := range 10 {
		s.Members = append(s.Members, fmt.Sprintf("%064d", i))
	}
	raw, _ := wire.FitSummary(&s)
	nonce := [32]byte{2}
	return k, wire.DiscoveryProofMessage("c", nonce, raw, k.Public()), raw, nonce
}

func BenchmarkSignProof(b *testing.B) {
	k, _, raw, nonce := benchProof()
	b.ReportAllocs()
	for b.Loop() {
		m := wire.DiscoveryProofMessage("c", nonce, raw, k.Public())
		wire.EncodeProof(raw, nonce, k.Public(), k.Sign(m))
	}
}

func BenchmarkVerifyProof(b *testing.B) {
	k, m, raw, nonce := benchProof()
	_, payload, _ := wire.ParseDatagram(wire.EncodeProof(raw, nonce, k.Public(), k.Sign(m)))
	b.ReportAllocs()
	for b.Loop() {
		p, err := wire.DecodeProof(payload)
		if err != nil || !Verify(p.Key, wire.DiscoveryProofMessage("c", p.Nonce, p.Raw, p.Key), p.Signature) {
			b.Fatal("refused")
		}
	}
}
