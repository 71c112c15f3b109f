package discovery

import (
	"net/netip"
	"testing"
	"time"
)

// A host that takes another one's place in a full table has its eight tokens and not a ninth, however many buckets are fuller.
func TestNewcomerHasItsOwnBucket(t *testing.T) {
	now := time.Now()
	row := &budgets[workAnswer]
	b := &budget{shared: fullBucket(now, row.sharedSize, row.sharedEvery)}
	for i := range 64 {
		if a, displaced := b.take(now, row, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 0, false); a != taken || displaced {
			t.Fatalf("host %d: %v, displaced %v", i, a, displaced)
		}
	}
	newcomer := netip.MustParseAddr("10.0.1.1")
	for i := range 8 {
		if a, displaced := b.take(now, row, newcomer, 0, false); a != taken || displaced != (i == 0) {
			t.Fatalf("the newcomer's %d: %v, displaced %v", i+1, a, displaced)
		}
	}
	if a, _ := b.take(now, row, newcomer, 0, false); a != hostEmpty {
		t.Errorf("the newcomer's ninth: %v", a)
	}
	if a, _ := b.take(now.Add(250*time.Millisecond), row, newcomer, 0, false); a != taken {
		t.Errorf("a quarter of a second later: %v", a)
	}
}
