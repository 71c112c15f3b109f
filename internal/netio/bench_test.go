package netio_test

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/netsim"
	"pace-node/internal/wire"
)

// sessionCost opens n sessions to one hub and returns what one end of a session takes in memory, stacks
// included: half of what both take.
func sessionCost(tb testing.TB, n int) (bytes uint64, goroutines int) {
	tb.Helper()
	network := netsim.NewNet()
	serve := &machine{known: map[identity.PublicKey]bool{}}
	everybody := netio.AdmissionFacts{Known: func(identity.PublicKey) bool { return true }, Member: func(identity.PublicKey) bool { return false }}
	a := netio.NewHub(netio.HubConfig{Key: key(1), Handler: serve, Admission: everybody})
	var hubs []*netio.Hub // as many keys as it takes, for one has so many sessions and no more
	for i := range (n + netio.MaxSessionsPerKey - 1) / netio.MaxSessionsPerKey {
		hubs = append(hubs, netio.NewHub(netio.HubConfig{Key: key(byte(2 + i)), Handler: serve, Dialer: network.Dialer(netip.MustParseAddr("10.0.0.2"))}))
	}
	l, err := network.Listen(netip.MustParseAddrPort("10.0.0.1:6674"))
	if err != nil {
		tb.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Serve(l)
	}()
	defer func() {
		a.Close()
		for _, b := range hubs {
			b.Close()
		}
		<-done
	}()
	before, threads := inUse(), runtime.NumGoroutine()
	for i := range n {
		s, err := hubs[i/netio.MaxSessionsPerKey].Dial(tb.Context(), "10.0.0.1:6674", nil)
		if err != nil {
			tb.Fatal(err)
		}
		// As a learner's session is: it said Hello and keeps one stream open.
		if _, err := netio.Call(tb.Context(), s, wire.VerbHello, make([]byte, 300)); err != nil {
			tb.Fatal(err)
		}
	}
	for len(a.Sessions()) < n {
		time.Sleep(time.Millisecond)
	}
	return (inUse() - before) / uint64(2*n), (runtime.NumGoroutine() - threads) / (2 * n)
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// TestSessionMemory: a voter holds a session for each learner; a thousand must stay small.
func TestSessionMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes memory of its own")
	}
	const most = 44 << 10 // measured 34 KiB: 12 of stacks, 4 of the library's read buffer, the rest TLS and bookkeeping
	if bytes, goroutines := sessionCost(t, 200); bytes > most {
		t.Errorf("%d bytes and %d goroutines a session, at most %d bytes", bytes, goroutines, most)
	}
}

func BenchmarkThousandSessions(b *testing.B) {
	for b.Loop() {
		bytes, goroutines := sessionCost(b, 1000)
		b.ReportMetric(float64(bytes), "B/session")
		b.ReportMetric(float64(goroutines), "goroutines/session")
	}
}
