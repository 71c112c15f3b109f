package formation

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pace-node/internal/wire"
)

// rig drives one machine by hand.
type rig struct {
	t   *testing.T
	m   *Machine
	now time.Time
	own int
}

func ownOf(n int, created uint64) Own {
	return Own{Mode: Solitary, Cluster: idOf(n), Created: created, NodeID: fmt.Sprintf("n-%d", n), Key: keyOf(n)}
}

func newRig(t *testing.T, cfg Config) *rig {
	t.Helper()
	if cfg.Own.Mode == 0 {
		cfg.Own = ownOf(1, younger)
	}
	now := time.Now()
	return &rig{t: t, m: New(cfg, now), now: now}
}

func (r *rig) step(e Event) []Action {
	r.t.Helper()
	out := slices.Clone(r.m.Step(r.now, e))
	moves := 0
	for _, a := range out {
		if a.Kind == ActMove {
			moves++
		}
	}
	if moves > 1 {
		r.t.Fatalf("%d moves in one step", moves)
	}
	return out
}

// wait lets d pass in ticks as Next asks for them, and returns everything that was wanted.
func (r *rig) wait(d time.Duration) []Action {
	r.t.Helper()
	var out []Action
	end := r.now.Add(d)
	for i := 0; r.now.Before(end); i++ {
		next := r.m.Next(r.now)
		if i > 20000 {
			r.t.Fatal("it never comes to rest")
		}
		if !next.After(r.now) {
			next = r.now.Add(time.Millisecond)
		}
		if next.After(end) {
			next = end
		}
		r.now = next
		out = append(out, r.step(Event{Kind: EvTick})...)
	}
	return out
}

func (r *rig) want(out []Action, kinds ...ActionKind) []Action {
	r.t.Helper()
	var got []ActionKind
	for _, a := range out {
		got = append(got, a.Kind)
	}
	if !slices.Equal(got, kinds) {
		r.t.Fatalf("actions %v, want %v: %+v", got, kinds, out)
	}
	return out
}

func find(out []Action, kind ActionKind) *Action {
	for i := range out {
		if out[i].Kind == kind {
			return &out[i]
		}
	}
	return nil
}

// done carries out the move among out and tells the machine.
func (r *rig) done(out []Action) []Action {
	r.t.Helper()
	a := find(out, ActMove)
	if a == nil {
		r.t.Fatalf("no move among %+v", out)
	}
	own := r.m.Own()
	own.Mode, own.Target = a.Transition.To, nil
	if own.Mode == Pending {
		own.Target = a.Target
	}
	switch a.Transition.Effect {
	case EffectDissolve:
		own.Cluster, own.Created, own.Established = a.Target.Cluster, a.Target.Created, true
	case EffectMintNew, EffectMintAndAsk:
		own.Cluster, own.Established = idOf(4000+r.own), false
	}
	return r.step(Event{Kind: EvMoved, Own: own})
}

// fleet is what machine n says of its own fleet of one.
func solitaryFleet(n int, created uint64) Fleet {
	id, host := fmt.Sprintf("n-%d", n), fmt.Sprintf("10.0.%d.%d", n>>8, n&255)
	ep := host + ":6674"
	return Fleet{Cluster: idOf(n), Created: created, State: wire.StateSolitary, Speaker: id, SpeakerKey: keyOf(n), SpeakerEndpoint: ep,
		Leader: wire.Leader{ID: id, Endpoint: ep, Key: keyOf(n), HasKey: true}, Origin: OriginBeacon,
		From: netip.MustParseAddrPort(host + ":40000")}
}

func establishedFleet(n int, created uint64) Fleet {
	f := solitaryFleet(n, created)
	f.State = wire.StateEstablished
	return f
}

// pendingFleet is machine n, which asks the fleet of machine at.
func pendingFleet(n int, created uint64, at int) Fleet {
	f := solitaryFleet(n, created)
	f.State, f.Pointer, f.Leader = wire.StatePending, solitaryFleet(at, 0).Leader, wire.Leader{}
	return f
}

func (r *rig) beacon(f Fleet) []Action {
	r.t.Helper()
	return r.step(Event{Kind: EvProven, Fleet: f})
}

func (r *rig) answersAt(endpoint string, f Fleet) []Action {
	r.t.Helper()
	return r.step(Event{Kind: EvProven, Fleet: f, Endpoint: endpoint})
}

// pending brings the machine to asking fleet f.
func (r *rig) pending(f Fleet) Action {
	r.t.Helper()
	r.beacon(f)
	out := r.wait(ChoiceAfterProof)
	move := find(out, ActMove)
	if move == nil || move.Transition.On != YieldDecided || move.Target.Cluster != f.Cluster {
		r.t.Fatalf("not asked: %+v", out)
	}
	return r.want(r.done(out), ActAsk)[0]
}

func (r *rig) answer(a Action, o wire.Outcome) []Action {
	r.t.Helper()
	return r.step(Event{Kind: EvAnswer, Ask: a.Ask, Cluster: a.Target.Cluster, Outcome: o, From: a.Target.Keys[0], Roster: []byte("roster")})
}
