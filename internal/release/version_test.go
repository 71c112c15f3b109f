package release

import (
	"testing"

	"pgregory.net/rapid"
)

// orders are pairs from the provisioning page and from rpm's own documentation: the first against the second.
var orders = []struct {
	a, b string
	want int
}{
	{"0.28.0", "0.28.00", 0}, // the provisioning page's four
	{"1.0~rc1", "1.0", -1},
	{"1.0", "1.0-1", -1},
	{"1:1.0", "2.0", 1},
	{"1:1.0", "1.0", 1},
	{"0:1.0", "1.0", 0},
	{"1.0", "1.0", 0}, // rpmvercmp's own cases
	{"1.0", "2.0", -1},
	{"2.0.1", "2.0", 1},
	{"2.0", "2.0.1a", -1},
	{"2.0.1a", "2.0.1", 1},
	{"5.5p1", "5.5p2", -1},
	{"5.5p10", "5.5p1", 1},
	{"10xyz", "10.1xyz", -1},
	{"xyz10", "xyz10.1", -1},
	{"xyz.4", "8", -1},
	{"8", "xyz.4", 1},
	{"5.6.0", "5.6p1", 1},
	{"6.0", "6.0.rc1", -1},
	{"6.0.rc1", "6.0", 1},
	{"10b2", "10a1", 1},
	{"1.0aa", "1.0a", 1},
	{"10.0001", "10.0039", -1},
	{"4.999.9", "5.0", -1},
	{"20101121", "20101122", -1},
	{"2_0", "2.0", 0},
	{"1.0~rc1", "1.0~rc2", -1},
	{"1.0~rc1~git123", "1.0~rc1", -1},
	{"1.0^", "1.0", 1},
	{"1.0^git1", "1.0^git2", -1},
	{"1.0^git1", "1.01", -1},
	{"1.0^20160101", "1.0.1", -1},
	{"1.0^20160102", "1.0^20160101^git1", 1},
	{"1.0~rc1^git1", "1.0~rc1", 1},
	{"1.0^git1~pre", "1.0^git1", -1},
	{"1.0-1", "1.0-2", -1},
	{"1.0-1", "1.0.1", -1},
}

func TestVersionsCompareAsRPM(t *testing.T) {
	for _, o := range orders {
		if got := Compare(o.a, o.b); got != o.want {
			t.Errorf("Compare(%q, %q) = %d, want %d", o.a, o.b, got, o.want)
		}
		if got := Compare(o.b, o.a); got != -o.want {
			t.Errorf("Compare(%q, %q) = %d, want %d", o.b, o.a, got, -o.want)
		}
	}
}

func TestVersionsAreOrdered(t *testing.T) {
	text := rapid.StringMatching(`([0-9]:)?[0-9a-c][0-9a-c.~^-]{0,8}`)
	rapid.Check(t, func(r *rapid.T) {
		a, b, c := text.Draw(r, "a"), text.Draw(r, "b"), text.Draw(r, "c")
		if Compare(a, a) != 0 {
			r.Fatalf("%q differs from itself", a)
		}
		if Compare(a, b) != -Compare(b, a) {
			r.Fatalf("%q and %q are not antisymmetric", a, b)
		}
		if Compare(a, b) <= 0 && Compare(b, c) <= 0 && Compare(a, c) > 0 {
			r.Fatalf("%q, %q, %q are not transitive", a, b, c)
		}
	})
}

func TestValidVersion(t *testing.T) {
	for text, want := range map[string]bool{
		"1.0": true, "1:1.0-1~x^y+z_w": true, "v1.0": true, "": false, ".": false, "..": false, ".1": false, "1/2": false,
		`1\2`: false, "1 0": false, "~1": false, ":1": false, "1:": false, "a:1": false, "1:2:3": false, "1\n": false,
		string(make([]byte, 65)): false,
	} {
		if got := ValidVersion(text); got != want {
			t.Errorf("ValidVersion(%q) = %t", text, got)
		}
	}
}
