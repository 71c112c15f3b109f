package formation

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// drawFleet is any summary that somebody could prove, true or not.
func drawFleet(t *rapid.T) Fleet {
	f := solitaryFleet(rapid.IntRange(1, 6).Draw(t, "cluster"), rapid.Uint64Range(older, older+3).Draw(t, "created"))
	f.State = wire.SummaryState(rapid.IntRange(1, 3).Draw(t, "state"))
	speaker := rapid.IntRange(1, 6).Draw(t, "speaker")
	f.Speaker, f.SpeakerKey = fmt.Sprintf("n-%d", speaker), keyOf(speaker)
	if f.State == wire.StatePending {
		f.Leader = wire.Leader{}
		f.Pointer = solitaryFleet(rapid.IntRange(1, 6).Draw(t, "pointer"), 0).Leader
		f.Pointer.HasKey = rapid.Bool().Draw(t, "pointer key")
	}
	if rapid.IntRange(0, 5).Draw(t, "nameless") == 0 {
		f.Leader = wire.Leader{}
	}
	f.Origin = Origin(rapid.IntRange(0, 3).Draw(t, "origin"))
	f.From = netip.AddrPort{}
	return f
}

// Whatever comes in, in whatever order: no panic, one move at a time, an ask only while pending, a target wherever one is
// due, and nothing that another machine can grow without a bound.
func TestAnythingGoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Now()
		cfg := Config{Own: ownOf(1, older+1), Seeds: []Seed{{"10.0.0.2:6674", OriginSeed}, {"10.0.0.1:6674", OriginRemembered}}}
		cfg.Own.Mode = Mode(rapid.IntRange(1, 4).Draw(rt, "mode"))
		cfg.Own.Established = cfg.Own.Mode > Pending
		if rapid.Bool().Draw(rt, "pinned") {
			cfg.Pin = pinOf(rapid.IntRange(1, 6).Draw(rt, "pin"), 2, 3)
		}
		m := New(cfg, now)
		var inFlight *Action
		for range rapid.IntRange(1, 120).Draw(rt, "events") {
			now = now.Add(time.Duration(rapid.OneOf(rapid.IntRange(0, 3000), rapid.IntRange(0, 700_000)).Draw(rt, "ms")) * time.Millisecond)
			var e Event
			e.Kind = EventKind(rapid.IntRange(1, int(EvMoveFailed)+1).Draw(rt, "kind"))
			e.Ask = rapid.SampledFrom([]uint64{0, m.askSerial, m.askSerial - 1}).Draw(rt, "ask")
			e.Endpoint = rapid.SampledFrom([]string{"", "10.0.0.1:6674", "10.0.0.2:6674", "10.0.0.3:6674", "nonsense"}).Draw(rt, "endpoint")
			e.Cluster, e.From = idOf(rapid.IntRange(1, 6).Draw(rt, "of")), keyOf(rapid.IntRange(1, 6).Draw(rt, "signer"))
			e.Outcome = wire.Outcome(rapid.IntRange(0, 5).Draw(rt, "outcome"))
			e.Trigger = Trigger(rapid.IntRange(0, 17).Draw(rt, "trigger"))
			if rapid.Bool().Draw(rt, "target") {
				e.Target = &Target{Cluster: e.Cluster, Endpoint: "10.0.0.9:6674", Keys: []identity.PublicKey{e.From}}
			}
			switch e.Kind {
			case EvProven:
				e.Fleet = drawFleet(rt)
			case EvMoved:
				if inFlight == nil {
					continue
				}
				e.Own = m.Own()
				e.Own.Mode, e.Own.Target = inFlight.Transition.To, inFlight.Target
				if e.Own.Mode != Pending {
					e.Own.Target = nil
				}
				e.Own.Established = e.Own.Mode > Pending
				inFlight = nil
			case EvMoveFailed:
				inFlight = nil
			}
			for _, a := range m.Step(now, e) {
				switch a.Kind {
				case ActMove:
					if inFlight != nil {
						rt.Fatal("two moves at once")
					}
					c := a
					inFlight = &c
					if want, ok := Next(m.own.Mode, a.Transition.On); !ok || want != a.Transition {
						rt.Fatalf("%+v is not in the table for %v", a.Transition, m.own.Mode)
					}
					if needs := a.Transition.To == Pending || a.Transition.On == Approved; needs != (a.Target != nil) || needs && a.Target.Endpoint == "" {
						rt.Fatalf("%v with the target %+v", a.Transition.On, a.Target)
					}
					// (The signer of a dissolve order is no signer of the target's.)
					if a.Target != nil && a.Transition.On != DissolvedInto && !m.pin.Admits(a.Target.Cluster, a.Target.Keys...) {
						rt.Fatal("into a fleet that the pin does not admit")
					}
				case ActAsk:
					if m.own.Mode != Pending || inFlight != nil || a.Target == nil {
						rt.Fatalf("asks while %v", m.own.Mode)
					}
				}
			}
			if len(m.fleets) > MaxFleets || len(m.foreign) > MaxForeign || len(m.rejections) > MaxRejections || len(m.queued) > len(Triggers) ||
				m.own.Target != nil && len(m.own.Target.Keys) > MaxTargetKeys {
				rt.Fatal("a bound was passed")
			}
			if m.walk != nil {
				if _, ok := m.inflight[m.walk.waiting]; !ok {
					rt.Fatal("a walk that waits for nothing")
				}
			}
			if m.Next(now).Before(now) {
				rt.Fatal("the next tick is in the past")
			}
		}
	})
}
