package wire

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFieldsWidths(t *testing.T) {
	field := func(n int) []byte { return AppendField(nil, make([]byte, n)) }
	for _, c := range []struct {
		name string
		read func(*Fields)
		want []int // widths accepted
	}{
		{"U8", func(f *Fields) { f.U8() }, []int{1}},
		{"U32", func(f *Fields) { f.U32() }, []int{4}},
		{"U64", func(f *Fields) { f.U64() }, []int{8}},
		{"Key", func(f *Fields) { f.Key() }, []int{32}},
		{"Nonce", func(f *Fields) { f.Nonce() }, []int{32}},
		{"Signature", func(f *Fields) { f.Signature() }, []int{64}},
		{"bytes16", func(f *Fields) { f.bytes16() }, []int{16}},
		{"Optional32", func(f *Fields) { f.Optional32() }, []int{0, 32}},
		{"Bytes", func(f *Fields) { f.Bytes(2, 4) }, []int{2, 3, 4}},
		{"Text", func(f *Fields) { f.Text(2, 4) }, []int{2, 3, 4}},
	} {
		want := map[int]bool{}
		for _, n := range c.want {
			want[n] = true
		}
		for n := range 70 {
			f := ReadFields(field(n))
			c.read(&f)
			if err := f.End(); (err == nil) != want[n] {
				t.Errorf("%s of %d bytes: %v", c.name, n, err)
			}
		}
	}
}

func TestFieldsRefuse(t *testing.T) {
	for name, b := range map[string][]byte{
		"no length":                  {0, 0, 0},
		"claims more than there is":  {0, 0, 0, 2, 1},
		"claims 4 GiB":               {0xff, 0xff, 0xff, 0xff},
		"claims 2 GiB":               {0x80, 0, 0, 0, 1},
		"bytes after the last field": append(AppendField(nil, []byte("x")), 0),
		"not UTF-8":                  AppendField(nil, []byte{0xc3}),
	} {
		f := ReadFields(b)
		if s := f.Text(0, 1<<31-1); name != "bytes after the last field" && s != "" {
			t.Errorf("%s: read %q", name, s)
		}
		if err := f.End(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Once wrong, wrong for good: later reads give zero and End tells.
	f := ReadFields(AppendU64(AppendU8(nil, 1), 7))
	if f.U32(); f.U64() != 0 || f.More() || f.End() == nil {
		t.Error("a reader went on after a malformed field")
	}
	f = ReadFields(AppendU8(nil, 1))
	if f.Reject(); f.U8() != 0 || f.End() == nil {
		t.Error("Reject is forgotten")
	}
	// A sub-slice can't be grown into the next field.
	b := AppendField(AppendField(nil, []byte("a")), []byte("b"))
	f = ReadFields(b)
	_ = append(f.Bytes(1, 1), 0xee)
	if got := f.Bytes(1, 1); !bytes.Equal(got, []byte("b")) {
		t.Errorf("the second field became %q", got)
	}
}

func TestFieldsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.Byte()).Draw(t, "raw")
		text := rapid.String().Draw(t, "text")
		u8, u32, u64 := rapid.Byte().Draw(t, "u8"), rapid.Uint32().Draw(t, "u32"), rapid.Uint64().Draw(t, "u64")
		opt, has := gen32().Draw(t, "opt"), rapid.Bool().Draw(t, "has")
		b := AppendField(nil, raw)
		b = AppendText(b, text)
		b = AppendU8(b, u8)
		b = AppendU32(b, u32)
		b = AppendU64(b, u64)
		b = appendOptional32(b, &opt, has)
		f := ReadFields(b)
		if !bytes.Equal(f.Bytes(0, len(raw)), raw) || f.Text(0, len(text)) != text || f.U8() != u8 || f.U32() != u32 || f.U64() != u64 {
			t.Fatal("a field came back otherwise")
		}
		if v, present := f.Optional32(); present != has || has && v != opt {
			t.Fatal("the optional field came back otherwise")
		}
		if err := f.End(); err != nil {
			t.Fatal(err)
		}
		// Cut anywhere, it is malformed.
		short := ReadFields(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")])
		short.Bytes(0, len(raw))
		short.Text(0, len(text))
		short.U8()
		short.U32()
		short.U64()
		short.Optional32()
		if short.End() == nil {
			t.Fatal("a cut payload was accepted")
		}
	})
}

func TestValidEndpoint(t *testing.T) {
	long := strings.Repeat("h", MaxEndpoint-5)
	for s, want := range map[string]bool{
		"office-a:6674": true, "10.0.0.1:1": true, "10.0.0.1:65535": true, "[fe80::1]:6674": true, "[::1]:6674": true,
		"[fe80::1%eth0]:6674": true, "pc_7.lan:6674": true, "büro:6674": true, "a:80": true, long + ":6674": true,
		"": false, ":6674": false, "host": false, "host:": false, "host:0": false, "host:65536": false, "host:00000": false,
		"host:100000": false, "host:-1": false, "host:+80": false, "host: 80": false, "host:6674 ": false, "host:http": false,
		"::1:6674": false, "fe80::1:6674": false, "[fe80::1]": false, "[fe80::1:6674": false, "fe80::1]:6674": false, "[]:6674": false,
		"[host]:6674": false, "[10.0.0.1]:6674": false, "[fe80::1]x:6674": false, "[[::1]]:6674": false, "a:b:80": false,
		"http://host:6674": false, "host/path:6674": false, "user@host:6674": false, "a,b:6674": false, "ho st:6674": false,
		"host\n:6674": false, "host\x1b[31m:6674": false, "host\x00:6674": false, "ho\xffst:6674": false, "h\u202est:6674": false,
		"[fe80::1%\x1b]:6674": false, "\"h\":6674": false, long + "h:6674": false,
	} {
		if got := ValidEndpoint(s); got != want {
			t.Errorf("ValidEndpoint(%.40q) = %v, want %v", s, got, want)
		}
	}
}

func TestValidID(t *testing.T) {
	for s, want := range map[string]bool{
		"a": true, "A-Z.a_z-09": true, strings.Repeat("x", 64): true, ".": true, "-": true,
		"": false, strings.Repeat("x", 65): false, "a b": false, "a@b": false, "ü": false, "a\x00": false, "a/b": false, "a:b": false,
	} {
		if got := ValidID(s); got != want {
			t.Errorf("ValidID(%q) = %v, want %v", s, got, want)
		}
	}
}

func TestValidTextAndPrintable(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "Büro 7 ☃": "Büro 7 ☃", `a "b" \c`: `a "b" \c`, "日本": "日本", "🖥": "🖥",
		"a\nb": `a\nb`, "\x1b[31m": `\x1b[31m`, "\x7f": `\x7f`, "\u0085": `\u0085`, "\xff": `\xff`, "a\x00": `a\x00`,
		"\u202eevil": `\u202eevil`, "\u2066": `\u2066`, "\u2028": `\u2028`, "\ufeff": `\ufeff`, "\u200f": `\u200f`, "x\xc3": `x\xc3`,
	} {
		if got := Printable(s); got != want || ValidText(s) != (s == want) {
			t.Errorf("Printable(%q) = %q, want %q; ValidText %v", s, got, want, ValidText(s))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "s"))
		if p := Printable(s); !ValidText(p) {
			t.Fatalf("Printable(%q) = %q is not printable", s, p)
		}
	})
}
