package formation

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

func keys(n int) []identity.PublicKey {
	out := make([]identity.PublicKey, n)
	for i := range out {
		out[i] = keyOf(i + 1)
	}
	return out
}

func TestPinAdmits(t *testing.T) {
	pin := &Pin{Cluster: idOf(1), Keys: keys(2)}
	for _, c := range []struct {
		name    string
		pin     *Pin
		cluster string
		signers []identity.PublicKey
		want    bool
	}{
		{"no pin", nil, idOf(2), nil, true},
		{"first key", pin, idOf(1), []identity.PublicKey{keyOf(1)}, true},
		{"second key", pin, idOf(1), []identity.PublicKey{keyOf(2)}, true},
		{"one of several signers", pin, idOf(1), []identity.PublicKey{keyOf(8), keyOf(2)}, true},
		{"no signer", pin, idOf(1), nil, false},
		{"zero key", pin, idOf(1), []identity.PublicKey{{}}, false},
		{"another key", pin, idOf(1), []identity.PublicKey{keyOf(3)}, false},
		{"another id", pin, idOf(2), []identity.PublicKey{keyOf(1)}, false},
		{"upper case id", pin, strings.ToUpper(idOf(0xabc)), []identity.PublicKey{keyOf(1)}, false},
		{"prefix of the id", pin, idOf(1)[:31], []identity.PublicKey{keyOf(1)}, false},
	} {
		if got := c.pin.Admits(c.cluster, c.signers...); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestParsePinRefusals(t *testing.T) {
	id, k := idOf(0xabc), keyOf(1).String()
	many := make([]string, 17)
	for i := range many {
		many[i] = keyOf(i + 1).String()
	}
	seen := map[string]string{}
	for _, c := range []struct {
		name, text string
		want       error
	}{
		{"empty", "", ErrPinNoKey},
		{"id alone", id, ErrPinNoKey},
		{"id and at", id + "@", ErrPinNoKey},
		{"31 hex", id[:31] + "@" + k, ErrPinCluster},
		{"33 hex", id + "0@" + k, ErrPinCluster},
		{"not hex", strings.Repeat("g", 32) + "@" + k, ErrPinCluster},
		{"upper case", strings.ToUpper(id) + "@" + k, ErrPinUpperCase},
		{"short key", id + "@" + k[:42], ErrPinKey},
		{"long key", id + "@" + k + "A", ErrPinKey},
		{"not canonical last character", id + "@" + k[:42] + "_", ErrPinKey},
		{"small order", id + "@" + strings.Repeat("A", 43), ErrPinKey},
		{"empty among", id + "@" + k + ",", ErrPinKey},
		{"space", id + "@" + k + ", " + keyOf(2).String(), ErrPinKey},
		{"repeated", id + "@" + k + "," + k, ErrPinRepeated},
		{"17 keys", id + "@" + strings.Join(many, ","), ErrPinTooMany},
	} {
		p, err := ParsePin(c.text)
		if !errors.Is(err, c.want) || p != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
			continue
		}
		if other, ok := seen[err.Error()]; ok && c.text != "" {
			t.Errorf("%s says the same as %s: %v", c.name, other, err)
		}
		seen[err.Error()] = c.name
	}
	if _, err := ParsePin(id + "@" + strings.Join(many[:16], ",")); err != nil {
		t.Errorf("16 keys: %v", err)
	}
}

func TestPinPrintsAsItReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &Pin{Cluster: identity.NewID([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")))}
		for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(1, 40), 1, MaxPinKeys, rapid.ID[int]).Draw(t, "keys") {
			p.Keys = append(p.Keys, keyOf(n))
		}
		got, err := ParsePin(p.String())
		if err != nil || !cmp.Equal(got, p) {
			t.Fatalf("%s: %v", p, err)
		}
	})
	if (*Pin)(nil).String() != "" {
		t.Fatal("no pin prints")
	}
}

func FuzzPin(f *testing.F) {
	f.Add(idOf(1) + "@" + keyOf(1).String())
	f.Add(idOf(1) + "@" + keyOf(1).String() + "," + keyOf(2).String())
	f.Add("@,")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePin(text)
		if (p == nil) == (err == nil) {
			t.Fatal("neither or both")
		}
		if err == nil && p.String() != text {
			t.Fatalf("%q prints as %q", text, p)
		}
	})
}

func TestParseSeed(t *testing.T) {
	for text, want := range map[string]string{
		"office-a": "office-a:6674", "office-a:7000": "office-a:7000", "10.1.0.2": "10.1.0.2:6674", "10.1.0.2:1": "10.1.0.2:1",
		"[fd00:1::1]": "[fd00:1::1]:6674", "[fd00:1::1]:65535": "[fd00:1::1]:65535", "node1.example.org.": "node1.example.org.:6674",
		"127.0.0.1:6674": "127.0.0.1:6674",
	} {
		if got, err := ParseSeed(text); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, c := range []struct {
		text string
		want error
	}{
		{"", ErrSeedEmpty}, {":6674", ErrSeedNoHost}, {"host:0", ErrSeedPortZero}, {"host:00", ErrSeedPortZero},
		{"fd00:1::1", ErrSeedBareIPv6}, {"fd00:1::1:6674", ErrSeedBareIPv6}, {"::1", ErrSeedBareIPv6}, {"[::1", ErrSeedBareIPv6},
		{"[office]:1", ErrSeedBareIPv6}, {"[10.1.0.2]:1", ErrSeedBareIPv6}, {"[::1]6674", ErrSeedBareIPv6},
		{"https://office-a", ErrSeedScheme}, {"tcp://office-a:6674", ErrSeedScheme}, {"office-a/x", ErrSeedPath}, {"office-a:6674/", ErrSeedPath},
		{"office-a,office-b", ErrSeedList}, {"office-a;office-b", ErrSeedList}, {"host:65536", ErrSeedPort}, {"host:", ErrSeedPort},
		{"host:x", ErrSeedPort}, {"host:-1", ErrSeedPort}, {"host:+1", ErrSeedPort}, {"host:06674", ErrSeedPort},
		{"host:99999999999999999999999", ErrSeedPort}, {"ho st", ErrSeedHost}, {"a\x00b", ErrSeedHost}, {"0.0.0.0", ErrSeedWildcard}, {"[::]", ErrSeedWildcard},
		{strings.Repeat("a", 300), ErrSeedHost},
	} {
		if got, err := ParseSeed(c.text); !errors.Is(err, c.want) || got != "" {
			t.Errorf("%.40q: %q, %v, want %v", c.text, got, err, c.want)
		}
	}
}

func FuzzSeed(f *testing.F) {
	for _, s := range []string{"", "a", "a:1", "[::1]:2", "::1", "http://a", "a,b", "a:0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseSeed(text)
		if (got == "") == (err == nil) {
			t.Fatal("neither or both")
		}
		if err != nil {
			return
		}
		if !wire.ValidEndpoint(got) {
			t.Fatalf("%q gives %q, which cannot be dialled", text, got)
		}
		if again, err := ParseSeed(got); err != nil || again != got {
			t.Fatalf("%q reads again as %q, %v", got, again, err)
		}
	})
}

func TestOrderSeeds(t *testing.T) {
	got := OrderSeeds(
		Seed{"typed-1:6674", OriginSeed}, Seed{"srv-1:6674", OriginSRV}, Seed{"old-1:6674", OriginRemembered}, Seed{"typed-2:6674", OriginSeed},
		Seed{"OLD-1:6674", OriginSeed}, Seed{"srv-2:6674", OriginSRV}, Seed{"typed-1:6674", OriginSRV}, Seed{"", OriginSeed},
		Seed{"beacon:6674", OriginBeacon}, Seed{"old-2:6674", OriginRemembered})
	want := []Seed{{"old-1:6674", OriginRemembered}, {"old-2:6674", OriginRemembered}, {"typed-1:6674", OriginSeed},
		{"typed-2:6674", OriginSeed}, {"srv-1:6674", OriginSRV}, {"srv-2:6674", OriginSRV}}
	if !slices.Equal(got, want) {
		t.Fatal(cmp.Diff(want, got))
	}
}

func TestUnreachable(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "0.0.0.0:1": true, "[::]:1": true, "localhost:1": true,
		"LocalHost.:1": true, "x.localhost:1": true, "[::ffff:127.0.0.1]:1": true,
		"10.1.0.2:1": false, "office-a:1": false, "[fd00::1]:1": false, "localhost.example:1": false,
	} {
		if got := Unreachable(endpoint); got != want {
			t.Errorf("%s: %v", endpoint, got)
		}
	}
}
