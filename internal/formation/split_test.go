package formation

import (
	"testing"
	"time"

	"pace-node/internal/identity"
)

// memberOf is a machine in an established fleet of the given age, as a voter.
func memberOf(n int, created uint64) Own {
	own := ownOf(n, created)
	own.Mode, own.Established = Voter, true
	return own
}

func evident(f Fleet, e Evidence) Fleet {
	f.Evidence = e
	return f
}

// TestSplitIsShownAndDecided: two established fleets meet. What the speaker's key is to the own roster, and who yields by
// the tie-break, decides what is shown, and whether the own fleet is to dissolve.
func TestSplitIsShownAndDecided(t *testing.T) {
	pinTo := func(f Fleet, keys ...identity.PublicKey) *Pin { return &Pin{Cluster: f.Cluster, Keys: keys} }
	elder, junior := establishedFleet(2, older), establishedFleet(3, younger+9)
	board := establishedFleet(4, 17) // created in 1970: the newest
	for _, c := range []struct {
		name  string
		seen  Fleet
		pin   *Pin
		why   Why
		heals bool
	}{
		{"no evidence", elder, nil, WhyNeitherYields, false},
		{"a learner's key", evident(elder, SplitByHand), nil, WhySplitByHand, false},
		{"a voter's key in an older fleet", evident(elder, SplitHealsByItself), nil, WhySplitYields, true},
		{"a voter's key in a younger fleet", evident(junior, SplitHealsByItself), nil, WhySplitStays, false},
		{"a voter's key in a fleet of a board without a clock", evident(board, SplitHealsByItself), nil, WhySplitStays, false},
		{"pinned to the own fleet", evident(elder, SplitHealsByItself), &Pin{Cluster: idOf(1), Keys: []identity.PublicKey{keyOf(1)}}, WhyPinnedFleet, false},
		{"pinned to the older one and its key", evident(elder, SplitHealsByItself), pinTo(elder, keyOf(2)), WhySplitYields, false}, // its own order it would not obey
		{"pinned to the older one, its key and this machine's", evident(elder, SplitHealsByItself), pinTo(elder, keyOf(2), keyOf(1)), WhySplitYields, true},
		{"pinned to a younger one", evident(junior, SplitHealsByItself), pinTo(junior, keyOf(3), keyOf(1)), WhySplitYields, true}, // the pin wins any tie-break
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{Own: memberOf(1, younger), Pin: c.pin})
			out := r.beacon(c.seen)
			a := find(out, ActForeignVisible)
			if a == nil || a.Why != c.why || a.Fleet.Cluster != c.seen.Cluster {
				t.Fatalf("%+v, want %d", out, c.why)
			}
			if find(out, ActMove) != nil {
				t.Fatal("it moved by itself")
			}
			f, ok := r.m.Split(r.now)
			if ok != c.heals || ok && f.Cluster != c.seen.Cluster {
				t.Fatalf("to dissolve: %v into %q", ok, f.Cluster)
			}
		})
	}
}

// TestSplitOutlivesOtherSpeakers: of a fleet's machines one holds a voter's key. What it showed stands when another speaks,
// and decides for as long as a proof is fresh.
func TestSplitOutlivesOtherSpeakers(t *testing.T) {
	r := newRig(t, Config{Own: memberOf(1, younger)})
	plain := establishedFleet(2, older)
	r.want(r.beacon(plain), ActForeignVisible)
	if _, ok := r.m.Split(r.now); ok {
		t.Fatal("without evidence")
	}
	if a := r.want(r.beacon(evident(plain, SplitHealsByItself)), ActForeignVisible)[0]; a.Why != WhySplitYields {
		t.Fatalf("%+v", a)
	}
	shown := r.now
	for r.now.Sub(shown) < ProofFresh {
		if _, ok := r.m.Split(r.now); !ok {
			t.Fatalf("forgotten after %v", r.now.Sub(shown))
		}
		r.wait(15 * time.Second)
		r.want(r.beacon(plain)) // nothing new
	}
	if _, ok := r.m.Split(r.now); ok {
		t.Fatal("decided upon a stale proof")
	}
	// It is shown for as long as a foreign fleet is after its last proof.
	for r.now.Sub(shown) < ForeignClearAfter-time.Minute {
		r.wait(30 * time.Second)
		r.want(r.beacon(plain))
	}
	r.wait(time.Minute)
	if a := r.want(r.beacon(plain), ActForeignVisible)[0]; a.Why != WhyNeitherYields {
		t.Fatalf("%+v", a)
	}
}

// TestSplitWaitsForALeader: an order names whom to ask; during an election nobody is named.
func TestSplitWaitsForALeader(t *testing.T) {
	for name, edit := range map[string]func(*Fleet){
		"no id": func(f *Fleet) { f.Leader.ID = "" }, "no endpoint": func(f *Fleet) { f.Leader.Endpoint = "" }, "no key": func(f *Fleet) { f.Leader.HasKey = false },
	} {
		r := newRig(t, Config{Own: memberOf(1, younger)})
		f := evident(establishedFleet(2, older), SplitHealsByItself)
		edit(&f)
		r.beacon(f)
		if _, ok := r.m.Split(r.now); ok {
			t.Errorf("%s: decided", name)
		}
	}
}

// TestSplitAmongManyFleets: sixteen other fleets do not hide the one that holds a voter's key, and of two such the elder
// survives.
func TestSplitAmongManyFleets(t *testing.T) {
	r := newRig(t, Config{Own: memberOf(1, younger)})
	for n := range MaxForeign + 3 {
		r.now = r.now.Add(time.Second)
		r.beacon(establishedFleet(100+n, older))
	}
	r.beacon(evident(establishedFleet(2, older+5), SplitHealsByItself))
	r.beacon(evident(establishedFleet(3, older+4), SplitHealsByItself))
	if f, ok := r.m.Split(r.now); !ok || f.Cluster != idOf(3) {
		t.Fatalf("%v %q", ok, f.Cluster)
	}
	if len(r.m.Foreign(r.now)) != MaxForeign {
		t.Fatalf("%d visible", len(r.m.Foreign(r.now)))
	}
}

// TestOnceAskedIsToldOnly: a fleet that this machine once asked is told to an operator, and decides nothing.
func TestOnceAskedIsToldOnly(t *testing.T) {
	r := newRig(t, Config{Own: memberOf(1, younger), RevokedIn: []string{idOf(2)}, Rejections: []Rejection{{idOf(3), time.Hour}}})
	for _, n := range []int{2, 3} {
		if a := r.want(r.beacon(establishedFleet(n, older)), ActForeignVisible)[0]; a.Why != WhySplitByHand {
			t.Fatalf("%+v", a)
		}
	}
	if _, ok := r.m.Split(r.now); ok {
		t.Fatal("decided")
	}
	if a := r.want(r.beacon(evident(establishedFleet(2, older), SplitHealsByItself)), ActForeignVisible)[0]; a.Why != WhySplitYields {
		t.Fatalf("%+v", a)
	}
}

// TestDissolvedGoesToTheSurvivorAndNotBack: after an order nothing of the split is shown, the survivor is asked, and the
// fleet that was left is not joined again, unless a person types it.
func TestDissolvedGoesToTheSurvivorAndNotBack(t *testing.T) {
	r := newRig(t, Config{Own: memberOf(1, younger)})
	survivor := evident(establishedFleet(2, older), SplitHealsByItself)
	r.beacon(survivor)
	target := &Target{Cluster: survivor.Cluster, LeaderID: "n-2", Endpoint: "10.0.0.2:6674", Keys: []identity.PublicKey{keyOf(2)}}
	out := r.step(Event{Kind: EvTrigger, Trigger: DissolvedInto, Target: target, From: keyOf(1)})
	move := r.want(out, ActMove)[0]
	if move.Transition.Effect != EffectMintAndAsk || move.Transition.To != Pending || move.Target.Cluster != survivor.Cluster {
		t.Fatalf("%+v", move)
	}
	own := r.m.Own()
	own.Mode, own.Cluster, own.Established, own.Target, own.OldCluster = Pending, idOf(500), false, target, idOf(1)
	r.want(r.step(Event{Kind: EvMoved, Own: own}), ActForeignClear, ActAsk)

	// The ask is given up; what is left of the old fleet is older than anything, and still not asked.
	own.Mode, own.Target = Solitary, nil
	r.step(Event{Kind: EvGiveUpAsk})
	r.step(Event{Kind: EvMoved, Own: own})
	old := establishedFleet(1, older-50)
	old.SpeakerKey = keyOf(77)
	r.beacon(old)
	if out := r.wait(3 * time.Minute); find(out, ActMove) != nil {
		t.Fatalf("back into the old fleet: %+v", out)
	}
	typed := newRig(t, Config{Own: own, Seeds: []Seed{{"old:6674", OriginSeed}}})
	typed.wait(time.Second)
	out = typed.answersAt("old:6674", old)
	if move := find(append(out, typed.wait(time.Second)...), ActMove); move == nil || move.Target.Cluster != idOf(1) {
		t.Fatalf("a typed seed is not followed: %+v", out)
	}
}

// TestDissolvedMachinesTakeTurns: where there is no room among those who wait, a machine that came by an order waits longer
// each time, and each machine another while; any other asks again at once.
func TestDissolvedMachinesTakeTurns(t *testing.T) {
	own := ownOf(1, younger)
	own.OldCluster = idOf(9)
	for _, spread := range []float64{0, 0.999} {
		r := newRig(t, Config{Own: own})
		a := r.pending(establishedFleet(2, older))
		for _, middle := range []time.Duration{2, 4, 8, 16, 32, 60, 60, 60} {
			r.step(Event{Kind: EvAskEnded, Ask: a.Ask, Err: "full", Full: true, Spread: spread})
			begun := r.now
			for {
				out := r.wait(100 * time.Millisecond)
				if next := find(out, ActAsk); next != nil {
					a = *next
					break
				}
				if r.now.Sub(begun) > 2*AskFullMost {
					t.Fatal("it never asks again")
				}
			}
			want := time.Duration(float64(middle*time.Second) * (0.5 + spread))
			if got := r.now.Sub(begun); got < want-100*time.Millisecond || got > want+200*time.Millisecond {
				t.Fatalf("again after %v, want %v", got, want)
			}
		}
		r.answer(a, 1) // pending: it has a row
		r.step(Event{Kind: EvAskEnded, Ask: a.Ask, Err: "full", Full: true, Spread: spread})
		if out := r.wait(4 * time.Second); find(out, ActAsk) == nil {
			t.Fatal("it still waits as long after it had a row")
		}
	}
	r := newRig(t, Config{})
	a := r.pending(establishedFleet(2, older))
	for range 5 {
		r.step(Event{Kind: EvAskEnded, Ask: a.Ask, Err: "full", Full: true, Spread: 0.9})
		next := find(r.wait(AskAgain), ActAsk)
		if next == nil {
			t.Fatal("not within two seconds")
		}
		a = *next
	}
}
