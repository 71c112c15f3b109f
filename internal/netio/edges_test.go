package netio

import (
	"net/netip"
	"testing"
	"time"

	"pace-node/internal/wire"
)

// TestLongestFirstRequest: a stranger's first request may have 4 KiB, and not a byte more.
func TestLongestFirstRequest(t *testing.T) {
	a := NewAdmission(AdmissionFacts{}, false)
	a.Connect(admissionStart, 1, keyed(1), netip.MustParseAddr("10.0.0.1"))
	if got := a.Request(admissionStart, 1, wire.VerbHello, 4097); got != RefuseFirstRequestTooLarge {
		t.Errorf("of 4097 bytes: %s", got)
	}
	if got := a.Request(admissionStart, 1, wire.VerbHello, 4096); got != RefusalNone {
		t.Errorf("of 4096 bytes: %s", got)
	}
}

// TestOthersDoNotGiveWay: at a source's bound one of that source gives way, though others have been here for longer.
func TestOthersDoNotGiveWay(t *testing.T) {
	a := NewAdmission(AdmissionFacts{}, false)
	for n := 1; n <= 4; n++ {
		a.Connect(admissionStart, uint64(n), keyed(n), netip.MustParseAddr("10.0.0.9"))
	}
	now := admissionStart.Add(time.Second)
	for n := 5; n <= 8; n++ {
		a.Connect(now, uint64(n), keyed(n), netip.MustParseAddr("10.0.0.1"))
	}
	now = now.Add(3*time.Second - 1)
	if got := a.Connect(now, 9, keyed(9), netip.MustParseAddr("10.0.0.1")); got != RefuseSourceFull {
		t.Errorf("a fifth one of a source, a moment too early: %s", got)
	}
	if got := a.Connect(now.Add(1), 9, keyed(9), netip.MustParseAddr("10.0.0.1")); got != RefusalNone {
		t.Errorf("a fifth one of a source, three seconds later: %s", got)
	}
	if got := a.Due(now.Add(1)); len(got) != 1 || got[0].ID < 5 || got[0].Refusal != RefuseSourceFull {
		t.Errorf("closed are %v, want one of the same source", got)
	}
}

// TestAskerCountsOnceItAsks: who came for a summary and goes on to ask takes a place of those who ask; one that gave way is closed at
// once.
func TestAskerCountsOnceItAsks(t *testing.T) {
	a := NewAdmission(AdmissionFacts{}, false)
	for n := 1; n <= 64; n++ {
		a.Connect(admissionStart, uint64(n), keyed(n), netip.AddrFrom4([4]byte{10, 0, 1, byte(n)}))
	}
	ask := func(n int, verb wire.Verb, want Refusal) {
		t.Helper()
		if got := a.Request(admissionStart, uint64(n), verb, 10); got != want {
			t.Errorf("session %d: %s, want %s", n, got, want)
		}
	}
	for n := 1; n <= 55; n++ {
		ask(n, wire.VerbHello, RefusalNone)
	}
	ask(56, wire.VerbFleetSummary, RefusalNone)
	ask(56, wire.VerbHello, RefusalNone)
	ask(57, wire.VerbHello, RefuseSummaryReserve)

	later := admissionStart.Add(3 * time.Second)
	if got := a.Connect(later, 65, keyed(65), netip.MustParseAddr("10.0.2.1")); got != RefusalNone {
		t.Fatalf("the sixty-fifth: %s", got)
	}
	if at, ok := a.Next(); !ok || !at.IsZero() {
		t.Errorf("who gave way is closed at %s", at)
	}
}
