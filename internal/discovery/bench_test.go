package discovery

import (
	"net/netip"
	"testing"
	"time"

	"pace-node/internal/wire"
)

type junk struct {
	name string
	on   Socket
	b    []byte
}

func junks() []junk {
	_, v := fleetOfTwo()
	return []junk{
		{"magic", SocketListener, []byte("GET / HTTP/1.1\r\n\r\n")},
		{"version", SocketListener, []byte{0xFD, 2, 1, 0, 0, 0, 0}},
		{"length", SocketListener, []byte{0xFD, 3, 1, 0, 0, 0, 9}},
		{"socket", SocketAnswering, v.beacon()},
		{"fields", SocketListener, []byte{0xFD, 3, 1, 0, 0, 0, 4, 0, 0, 0, 9}},
	}
}

func TestRefusingJunkAllocatesNothing(t *testing.T) {
	for _, j := range junks() {
		g, b := fleetOfTwo()
		g.Handle(g.now, j.on, b.addr, g.addr.Addr(), j.b) // the line a minute
		if n := testing.AllocsPerRun(1000, func() { g.Handle(g.now, j.on, b.addr, g.addr.Addr(), j.b) }); n != 0 {
			t.Errorf("%s: %v allocations", j.name, n)
		}
	}
}

func BenchmarkRefuseJunk(b *testing.B) {
	for _, j := range junks() {
		b.Run(j.name, func(b *testing.B) {
			g, v := fleetOfTwo()
			b.ReportAllocs()
			for b.Loop() {
				g.Handle(g.now, j.on, v.addr, g.addr.Addr(), j.b)
			}
		})
	}
}

func BenchmarkBeacon(b *testing.B) {
	b.Run("proven", func(b *testing.B) {
		g, v := fleetOfTwo()
		g.prove(b, v)
		beacon := v.beacon()
		b.ReportAllocs()
		for b.Loop() {
			if out := g.Handle(g.now, SocketListener, v.addr, g.addr.Addr(), beacon); len(out.Send) != 0 {
				b.Fatal("challenged")
			}
		}
	})
	b.Run("challenged", func(b *testing.B) {
		g, v := fleetOfTwo()
		beacon := v.beacon()
		b.ReportAllocs()
		for b.Loop() {
			g.after(time.Second)
			if out := g.Handle(g.now, SocketListener, v.addr, g.addr.Addr(), beacon); len(out.Send) != 1 {
				b.Fatal("not challenged")
			}
		}
	})
	b.Run("over-budget", func(b *testing.B) { // a flood under ever new sources
		g, v := fleetOfTwo()
		beacon := v.beacon()
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			n++
			g.Handle(g.now, SocketListener, netip.AddrPortFrom(hostN(n), 9), g.addr.Addr(), beacon)
		}
	})
}

func BenchmarkChallengeAnswered(b *testing.B) {
	g, v := fleetOfTwo()
	challenge, _ := wire.EncodeChallenge("c-else", [32]byte{1}, 400)
	b.ReportAllocs()
	for b.Loop() {
		g.after(time.Second)
		if out := g.Handle(g.now, SocketAnswering, v.addr, g.addr.Addr(), challenge); len(out.Send) != 1 {
			b.Fatal("not answered")
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	for _, name := range []string{"proven", "not issued", "replayed"} {
		b.Run(name, func(b *testing.B) {
			j, err := newJudged()
			if err != nil {
				b.Fatal(err)
			}
			want := OutcomeProven
			switch name {
			case "not issued":
				j.proof.Nonce[31] ^= 1
				want = OutcomeNotIssued
			case "replayed":
				j.epoch.set(j.place, cookieSpent)
				want = OutcomeReplayed
			}
			b.ReportAllocs()
			for b.Loop() {
				if want == OutcomeProven {
					j.epoch.set(j.place, cookieUnanswered)
					j.g.budgets[workCheck] = budget{shared: fullBucket(j.g.now, 128, 3*time.Millisecond)}
				}
				if got := j.g.judge(j.g.now, j.from, &j.proof); got != want {
					b.Fatal(got)
				}
			}
		})
	}
}
