package identity

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMintedID(t *testing.T) {
	if got := NewID([16]byte{0: 0xAB, 15: 1}); got != "ab000000000000000000000000000001" {
		t.Errorf("NewID = %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		r := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "random"))
		if id := NewID(r); !ValidMintedID(id) {
			t.Fatalf("minted %q", id)
		}
	})
	for s, want := range map[string]bool{
		strings.Repeat("0", 32): true, "0123456789abcdef0123456789abcdef": true,
		"": false, strings.Repeat("0", 31): false, strings.Repeat("0", 33): false,
		"0123456789ABCDEF0123456789ABCDEF": false, "0123456789abcdef0123456789abcdeg": false, "0123456789abcdef-123456789abcdef": false,
	} {
		if ValidMintedID(s) != want {
			t.Errorf("ValidMintedID(%q) = %v", s, !want)
		}
	}
}

func TestParseAdmit(t *testing.T) {
	const key = "SAdaWX5yGhVuLgeZ3lzAxTJNxufq8c3UYlCGjsUyFd0"
	id, k, err := ParseAdmit("n-7@" + key)
	if err != nil || id != "n-7" || k.String() != key || FormatAdmit(id, k) != "n-7@"+key {
		t.Errorf("%q %v %v", id, k, err)
	}
	for _, c := range []struct {
		text string
		want error
	}{
		{"", ErrAdmitForm}, {"n-7", ErrAdmitForm}, {key, ErrAdmitForm}, {"@" + key, ErrAdmitForm}, {"n 7@" + key, ErrAdmitForm},
		{strings.Repeat("n", 65) + "@" + key, ErrAdmitForm}, {"n-7@", ErrKeyText}, {"n-7@@" + key, ErrKeyText}, {"n-7@" + key + " ", ErrKeyText},
		{" n-7@" + key, ErrAdmitForm}, {"n-7@" + key[:42], ErrKeyText}, {"n-7@" + strings.Repeat("A", 43), ErrSmallOrder}, {"n\x1b[31m@" + key, ErrAdmitForm},
	} {
		id, k, err := ParseAdmit(c.text)
		if !errors.Is(err, c.want) || id != "" || !k.IsZero() {
			t.Errorf("%q: %q %v %v, want %v", c.text, id, k, err, c.want)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%q is said raw", c.text)
		}
	}
}

func FuzzParseAdmit(f *testing.F) {
	f.Add("n-7@SAdaWX5yGhVuLgeZ3lzAxTJNxufq8c3UYlCGjsUyFd0")
	f.Add("n-7@")
	f.Fuzz(func(t *testing.T, s string) {
		id, k, err := ParseAdmit(s)
		if err == nil && (FormatAdmit(id, k) != s || k.Check() != nil) {
			t.Fatalf("%q comes back as %q", s, FormatAdmit(id, k))
		}
	})
}
