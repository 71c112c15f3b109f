package discovery

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type cookieVector struct {
	Name               string
	Challenger         string
	EpochKey           string
	Host               string
	Serial0, Serial7   string
	TargetCluster      string
	TargetNode         string
	TargetRaftEndpoint string
}

func TestCookieVectors(t *testing.T) {
	b, err := os.ReadFile("../wire/testdata/discovery.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, raw := range all {
		var name struct{ Name string }
		if err := json.Unmarshal(raw, &name); err != nil {
			t.Fatal(err)
		}
		if name.Name != "cookie" {
			continue
		}
		var v cookieVector
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		found = true
		key, err := hex.DecodeString(v.EpochKey)
		if err != nil {
			t.Fatal(err)
		}
		c := cookies{entropy: func(b []byte) { copy(b, key) }}
		for serial, want := range map[int]string{0: v.Serial0, 7: v.Serial7} {
			// An IPv4-mapped address is folded before it gets here; the zero of the
			// port never entered.
			target := target{v.Challenger, v.TargetCluster, v.TargetNode, v.TargetRaftEndpoint, netip.MustParseAddr(v.Host)}
			c := cookies{entropy: c.entropy}
			var nonce [32]byte
			for range serial + 1 {
				nonce = c.issue(epochStart, &target)
			}
			if got := hex.EncodeToString(nonce[:]); got != want {
				t.Errorf("serial %d: got %s, want %s", serial, got, want)
			}
		}
	}
	if !found {
		t.Fatal("no cookie vector in the file")
	}
}

var someTarget = target{"c", "c", "n", "", netip.MustParseAddr("10.1.0.2")}

func TestCookieEpochs(t *testing.T) {
	keys := 0
	c := cookies{entropy: func(b []byte) { keys++; b[0] = byte(keys) }}
	at := func(d time.Duration) uint64 {
		n := c.issue(epochStart.Add(d), &someTarget)
		return binary.BigEndian.Uint64(n[:])
	}
	for i, d := range []time.Duration{0, time.Second, 15*time.Second - 1, 15 * time.Second, 30 * time.Second, 40 * time.Second} {
		if got := at(d); got != uint64(i) {
			t.Errorf("serial at %v is %d, want %d: one more each challenge, whatever the epoch", d, got, i)
		}
	}
	if keys != 3 {
		t.Errorf("%d epoch keys, want 3 (at 0, 15 and 30 s)", keys)
	}
	for serial, want := range map[uint64]bool{0: false, 2: false, 3: true, 4: true, 5: true, 6: false, 1 << 63: false} {
		if e, _ := c.find(serial); (e != nil) != want {
			t.Errorf("serial %d known = %v, want %v: only the epoch before is kept", serial, e != nil, want)
		}
	}
}

func TestCookieMemoryIsBounded(t *testing.T) {
	c := cookies{entropy: entropyOf("m")}
	for i := range 4 * 65536 {
		c.issue(epochStart.Add(time.Duration(i)*time.Microsecond), &someTarget)
	}
	for _, e := range []*epoch{&c.current, &c.past} {
		if e.issued > 65536 || len(e.states) > 16384 || cap(e.states) > 32768 || len(e.slots) > 151 {
			t.Errorf("an epoch of %d cookies holds %d (of %d) bytes of states and %d slots", e.issued, len(e.states), cap(e.states), len(e.slots))
		}
	}
}

// TestCookieBits compares the packed states with a plain map.
func TestCookieBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := cookies{entropy: entropyOf("b")}
		n := rapid.IntRange(1, 300).Draw(t, "cookies")
		for range n {
			c.issue(epochStart, &someTarget)
		}
		want := make([]cookieState, n)
		for range rapid.IntRange(0, 200).Draw(t, "writes") {
			i := rapid.IntRange(0, n-1).Draw(t, "place")
			s := cookieState(rapid.IntRange(0, 3).Draw(t, "state"))
			c.current.set(i, s)
			want[i] = s
		}
		for i := range want {
			if got := c.current.state(i); got != want[i] {
				t.Fatalf("cookie %d is %d, want %d", i, got, want[i])
			}
		}
	})
}

// TestCookieTimes: the kept time of a challenge is never later than the true one,
// nor more than a slot earlier.
func TestCookieTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := cookies{entropy: entropyOf("t")}
		now := epochStart
		var true_ []time.Time
		for range rapid.IntRange(1, 50).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "gap")))
			c.issue(now, &someTarget)
			true_ = append(true_, now)
		}
		for serial, at := range true_ {
			e, place := c.find(uint64(serial))
			if e == nil {
				continue
			}
			if got := e.issuedAt(place); got.After(at) || at.Sub(got) >= 100*time.Millisecond {
				t.Fatalf("cookie %d was issued at %v, kept as %v", serial, at.Sub(epochStart), got.Sub(epochStart))
			}
		}
	})
}
