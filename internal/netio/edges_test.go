package netio

import (
	"net/netip"
	"slices"
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

// TestPassedOverIsNotSpokenTo: an interface that is passed over for its name has no broadcast address, unless the operator named one, or
// the address to be told; a wildcard names none.
func TestPassedOverIsNotSpokenTo(t *testing.T) {
	list := []Interface{card(2, "eth0", "10.1.0.2/24"), card(3, "docker0", "172.17.0.1/16")}
	for _, c := range []struct {
		name  string
		rules InterfaceRules
		want  []string
	}{
		{"by itself", InterfaceRules{}, []string{"eth0 10.1.0.2/24>10.1.0.255", "docker0 172.17.0.1/16 -virtual"}},
		{"under a wildcard", InterfaceRules{Exact: netip.MustParseAddr("0.0.0.0")}, []string{"eth0 10.1.0.2/24>10.1.0.255", "docker0 172.17.0.1/16 -virtual"}},
		{"named", InterfaceRules{Include: []string{"eth0", "docker0"}}, []string{"eth0 10.1.0.2/24>10.1.0.255", "docker0 172.17.0.1/16>172.17.255.255"}},
		{"its address named", InterfaceRules{Exact: netip.MustParseAddr("172.17.0.1")}, []string{"eth0 10.1.0.2/24 -exact", "docker0 172.17.0.1/16>172.17.255.255"}},
	} {
		var got []string
		for _, i := range ChooseInterfaces(list, c.rules, "eth0") {
			got = append(got, brief(i))
			if i.Used != i.Broadcast.IsValid() {
				t.Errorf("%s: %s has the broadcast address %s", c.name, i.Name, i.Broadcast)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for name, virtual := range map[string]bool{"docker0": true, "br-1a2b": true, "vEthernet (WSL)": true, "virbr0": true, "eth0": false, "bridge": false} {
		if IsVirtual(name) != virtual {
			t.Errorf("%s: %v", name, !virtual)
		}
	}
}

// TestWhichAddressesReach: what another machine can dial without a zone, and which networks have a broadcast address.
func TestWhichAddressesReach(t *testing.T) {
	for a, want := range map[string]bool{"10.1.0.2": true, "169.254.7.7": true, "fd00::1": true, "2001:db8::1": true,
		"0.0.0.0": false, "127.0.0.1": false, "224.0.0.1": false, "::": false, "::1": false, "fe80::1": false, "ff02::1": false} {
		if got := routable(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: %v", a, got)
		}
	}
	for p, want := range map[string]string{"10.1.0.2/24": "10.1.0.255", "10.1.0.1/30": "10.1.0.3", "10.1.0.0/31": "invalid IP", "10.1.0.2/32": "invalid IP", "fd00::1/64": "invalid IP"} {
		if got := BroadcastOf(netip.MustParsePrefix(p)); got.String() != want {
			t.Errorf("%s: %s, want %s", p, got, want)
		}
	}
	if got := BroadcastOf(netip.Prefix{}); got.IsValid() {
		t.Errorf("no network: %s", got)
	}
}
