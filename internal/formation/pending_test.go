package formation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

func TestTargetThatYieldedIsFollowedAtOnce(t *testing.T) {
	for _, c := range []struct {
		name  string
		third Fleet
	}{
		{"to an established fleet", establishedFleet(3, younger+9)},
		{"to a solitary one, younger than this machine", solitaryFleet(3, younger+9)},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{})
			r.pending(solitaryFleet(2, older))
			out := r.want(r.beacon(pendingFleet(2, older, 3)), ActAskSummary)
			if out[0].Endpoint != "10.0.0.3:6674" {
				t.Fatalf("%+v", out[0])
			}
			out = r.want(r.answersAt("10.0.0.3:6674", c.third), ActStopAsk, ActMove)
			if m := out[1]; m.Transition.On != TargetYielded || m.Transition.To != Pending || m.Target.Cluster != idOf(3) ||
				m.Target.Origin != OriginBeacon || m.Target.Keys[0] != keyOf(3) {
				t.Fatalf("%+v", m)
			}
			if ask := r.want(r.done(out), ActAsk)[0]; ask.Target.Cluster != idOf(3) {
				t.Fatalf("%+v", ask)
			}
		})
	}
}

func TestTargetsPointerIsWalkedToTheEnd(t *testing.T) {
	r := newRig(t, Config{})
	r.pending(solitaryFleet(2, older))
	r.want(r.beacon(pendingFleet(2, older, 3)), ActAskSummary)
	r.want(r.answersAt("10.0.0.3:6674", pendingFleet(3, older, 4)), ActAskSummary)
	r.want(r.answersAt("10.0.0.4:6674", pendingFleet(4, older, 5)), ActAskSummary)
	out := r.want(r.answersAt("10.0.0.5:6674", establishedFleet(5, older)), ActStopAsk, ActMove)
	if out[1].Target.Cluster != idOf(5) {
		t.Fatalf("%+v", out[1])
	}
}

func TestChainThatNeverEnds(t *testing.T) {
	r := newRig(t, Config{})
	r.pending(solitaryFleet(2, older))
	out := r.beacon(pendingFleet(2, older, 3))
	steps := 0
	for a := find(out, ActAskSummary); a != nil; a = find(out, ActAskSummary) {
		steps++
		out = r.answersAt(a.Endpoint, pendingFleet(2+steps, older, 3+steps))
	}
	if steps != MaxHops {
		t.Fatalf("%d steps", steps)
	}
	// A ring that this machine is not part of.
	r.now = r.now.Add(WalkAgain)
	r.want(r.beacon(pendingFleet(2, older, 3)), ActAskSummary)
	r.want(r.answersAt("10.0.0.3:6674", pendingFleet(3, older, 4)), ActAskSummary)
	r.want(r.answersAt("10.0.0.4:6674", pendingFleet(4, older, 3)), ActAskSummary)
	r.want(r.answersAt("10.0.0.3:6674", pendingFleet(3, older, 4)))
	if r.m.Own().Mode != Pending || r.m.walk != nil {
		t.Fatal("lost in somebody else's ring")
	}
}

func TestTheSameChainIsNotWalkedAgainAtOnce(t *testing.T) {
	r := newRig(t, Config{})
	r.pending(solitaryFleet(2, older))
	r.want(r.beacon(pendingFleet(2, older, 3)), ActAskSummary)
	r.want(r.beacon(pendingFleet(2, older, 3)))
	r.step(Event{Kind: EvSummaryFailed, Endpoint: "10.0.0.3:6674"})
	r.want(r.beacon(pendingFleet(2, older, 3)))
	r.want(r.beacon(pendingFleet(2, older, 4)), ActAskSummary) // but another one is
	r.step(Event{Kind: EvSummaryFailed, Endpoint: "10.0.0.4:6674"})
	r.now = r.now.Add(WalkAgain)
	r.want(r.beacon(pendingFleet(2, older, 4)), ActAskSummary)
}

// Whose word a pending machine takes for its target's.
func TestOnlyTheTargetsOwnKeySaysThatItYielded(t *testing.T) {
	r := newRig(t, Config{})
	r.pending(solitaryFleet(2, older))
	liar := pendingFleet(2, older, 9)
	liar.SpeakerKey = keyOf(66)
	r.want(r.beacon(liar))
	other := establishedFleet(7, 1)
	r.want(r.beacon(other)) // pending, any: stay
	r.want(r.beacon(pendingFleet(8, older, 7)))
	impostor := establishedFleet(2, older)
	impostor.SpeakerKey, impostor.Leader.Key, impostor.Leader.Endpoint = keyOf(66), keyOf(66), "10.6.6.6:6674"
	r.want(r.beacon(impostor))
	if got := r.m.Own().Target; got.Endpoint != "10.0.0.2:6674" || slices.Contains(got.Keys, keyOf(66)) {
		t.Fatalf("taken over: %+v", got)
	}
}

func TestTargetsMachineSpeaksForAnotherFleet(t *testing.T) {
	r := newRig(t, Config{})
	r.pending(solitaryFleet(2, older))
	admitted := establishedFleet(9, older) // the machine that was asked is a learner of fleet 9 now
	admitted.Speaker, admitted.SpeakerKey = "n-2", keyOf(2)
	out := r.want(r.beacon(admitted), ActStopAsk, ActMove)
	if m := out[1]; m.Target.Cluster != idOf(9) || m.Target.Endpoint != "10.0.0.9:6674" ||
		!slices.Equal(m.Target.Keys, []identity.PublicKey{keyOf(9), keyOf(2)}) {
		t.Fatalf("%+v", m.Target)
	}
}

func TestLeaderOfTheTargetChanges(t *testing.T) {
	r := newRig(t, Config{})
	ask := r.pending(establishedFleet(2, older))
	word := establishedFleet(2, older) // the old leader names the new one
	word.Leader = wire.Leader{ID: "n-5", Endpoint: "10.0.0.5:6674", Key: keyOf(5), HasKey: true}
	next := r.want(r.beacon(word), ActAsk)[0]
	if next.Ask == ask.Ask || next.Target.Endpoint != "10.0.0.5:6674" || !slices.Contains(next.Target.Keys, keyOf(5)) {
		t.Fatalf("%+v", next)
	}
	r.want(r.answer(ask, wire.OutcomeApproved)) // of the ask that is over
	r.want(r.beacon(word))
	// A speaker that the target never named is believed only when the target has been silent for long.
	other := establishedFleet(2, older)
	other.Speaker, other.SpeakerKey = "n-8", keyOf(8)
	other.Leader = wire.Leader{ID: "n-8", Endpoint: "10.0.0.8:6674", Key: keyOf(8), HasKey: true}
	r.want(r.beacon(other))
	r.want(r.wait(TargetSilent))
	r.want(r.beacon(other), ActAsk)
}

func redirect(r *rig, ask Action, to string) []Action {
	r.t.Helper()
	return r.step(Event{Kind: EvRedirect, Ask: ask.Ask, Endpoint: to})
}

func TestRedirectWithinTheFleet(t *testing.T) {
	r := newRig(t, Config{})
	ask := r.pending(establishedFleet(2, older))
	at := func(n int) Fleet {
		f := establishedFleet(2, older)
		f.Speaker, f.SpeakerKey, f.SpeakerEndpoint = fmt.Sprintf("n-%d", n), keyOf(n), fmt.Sprintf("10.0.0.%d:6674", n)
		f.Leader = wire.Leader{ID: f.Speaker, Endpoint: f.SpeakerEndpoint, Key: keyOf(n), HasKey: true}
		return f
	}
	for hop := 1; hop <= MaxRedirects; hop++ {
		to := fmt.Sprintf("10.0.0.%d:6674", 10+hop)
		r.want(redirect(r, ask, to), ActAskSummary)
		if hop == 1 {
			r.want(r.step(Event{Kind: EvAnswer, Ask: ask.Ask, Cluster: idOf(2), Outcome: wire.OutcomePending, From: keyOf(2)}))
		}
		ask = r.want(r.answersAt(to, at(10+hop)), ActAsk)[0]
		if ask.Hop != hop || ask.Target.Endpoint != to || ask.Target.Cluster != idOf(2) || !slices.Contains(ask.Target.Keys, keyOf(10+hop)) {
			t.Fatalf("%+v", ask)
		}
	}
	r.want(redirect(r, ask, "10.0.0.77:6674")) // a third one is not followed
	ask = r.want(r.wait(AskAgain), ActAsk)[0]
	if ask.Hop != 0 {
		t.Fatal("a new ask starts with redirects used up")
	}
	r.want(redirect(r, ask, "10.0.0.77:6674"), ActAskSummary)
}

func TestRedirectThatProvesNothing(t *testing.T) {
	r := newRig(t, Config{})
	ask := r.pending(establishedFleet(2, older))
	r.want(redirect(r, ask, "10.0.0.77:6674"), ActAskSummary)
	r.want(r.step(Event{Kind: EvSummaryFailed, Endpoint: "10.0.0.77:6674", Err: "not proven"}))
	again := r.want(r.wait(AskAgain), ActAsk)[0]
	if again.Target.Endpoint != "10.0.0.2:6674" {
		t.Fatal("an unproven redirect moved the ask")
	}
}

func TestRedirectIntoAnotherClusterIsANewTarget(t *testing.T) {
	r := newRig(t, Config{})
	ask := r.pending(solitaryFleet(2, older))
	r.want(redirect(r, ask, "10.0.0.9:6674"), ActAskSummary)
	out := r.want(r.answersAt("10.0.0.9:6674", establishedFleet(9, older)), ActMove) // that ask is over already
	if m := out[0]; m.Transition.On != TargetYielded || m.Target.Cluster != idOf(9) {
		t.Fatalf("%+v", m)
	}
	r.want(r.done(out), ActAsk)
}

// A target that yields to a fleet which this machine may not ask has closed: the machine is its own again at once, and not
// after ten minutes of asking where nobody answers.
func TestTargetThatYieldsToARefusedFleetHasClosed(t *testing.T) {
	asLearner := establishedFleet(9, older) // the machine that was asked, in the fleet that it joined
	asLearner.Speaker, asLearner.SpeakerKey = "n-2", keyOf(2)
	gone := func(t *testing.T, r *rig, out []Action) {
		t.Helper()
		move := find(out, ActMove)
		if move == nil || move.Transition.On != TargetClosed || move.Transition.To != Solitary || move.Target != nil {
			t.Fatalf("%+v", out)
		}
		r.want(r.done(out))
		for range 5 { // the fleet that said no is not asked, nor the one that is closed
			r.beacon(establishedFleet(9, older))
			r.want(r.wait(10 * time.Second))
		}
	}
	rejected := Config{Rejections: []Rejection{{idOf(9), time.Hour}}}
	pinned := Config{Pin: pinOf(2, 2)}
	for _, c := range []struct {
		name string
		cfg  Config
		yes  bool // a refusal by the pin is shown
	}{{"rejected there", rejected, false}, {"revoked there", Config{RevokedIn: []string{idOf(9)}}, false}, {"pinned elsewhere", pinned, true}} {
		t.Run(c.name, func(t *testing.T) {
			bring := func(t *testing.T) (*rig, Action) {
				r := newRig(t, c.cfg)
				return r, r.pending(solitaryFleet(2, older))
			}
			proven := func(r *rig, out []Action) []Action {
				if c.yes {
					if a := find(out, ActForeignVisible); a == nil || a.Why != WhyPinnedFleet || a.Fleet.Cluster != idOf(9) {
						t.Fatalf("the pin's refusal is not shown: %+v", out)
					}
				}
				return out
			}
			t.Run("it proves itself pending there", func(t *testing.T) {
				r, _ := bring(t)
				r.want(r.beacon(pendingFleet(2, older, 9)), ActAskSummary)
				gone(t, r, proven(r, r.answersAt("10.0.0.9:6674", establishedFleet(9, older))))
			})
			t.Run("it speaks as a member of it", func(t *testing.T) {
				r, _ := bring(t)
				gone(t, r, proven(r, r.beacon(asLearner)))
			})
			t.Run("it redirects there, and proves it when it is asked itself", func(t *testing.T) {
				r, ask := bring(t)
				r.want(redirect(r, ask, "10.0.0.9:6674"), ActAskSummary)
				out := r.answersAt("10.0.0.9:6674", establishedFleet(9, older))
				if a := find(out, ActAskSummary); a == nil || a.Endpoint != "10.0.0.2:6674" || find(out, ActMove) != nil {
					t.Fatalf("%+v", proven(r, out))
				}
				gone(t, r, r.answersAt("10.0.0.2:6674", asLearner))
			})
			t.Run("it redirects there and lied", func(t *testing.T) {
				r, ask := bring(t)
				r.want(redirect(r, ask, "10.0.0.9:6674"), ActAskSummary)
				r.answersAt("10.0.0.9:6674", establishedFleet(9, older))
				r.want(r.answersAt("10.0.0.2:6674", solitaryFleet(2, older)))
				r.want(r.wait(AskAgain), ActAsk)
			})
		})
	}
}

// Two that name each other: the one that wins the plain tie-break goes back to solitary, the other waits for it.
func TestTargetPendingHere(t *testing.T) {
	for _, c := range []struct {
		name string
		own  uint64
		wins bool
	}{{"this node is the elder", older, true}, {"this node is the younger", younger + 5, false}} {
		t.Run(c.name, func(t *testing.T) {
			seed := []Seed{{"10.0.0.2:6674", OriginSeed}}
			bring := func(t *testing.T) (*rig, Action) {
				r := newRig(t, Config{Own: ownOf(1, c.own), Seeds: seed})
				r.want(r.step(Event{Kind: EvTick}), ActAskSummary)
				r.want(r.answersAt("10.0.0.2:6674", solitaryFleet(2, younger)))
				return r, r.want(r.done(r.wait(ChoiceAfterProof)), ActAsk)[0]
			}
			check := func(t *testing.T, r *rig, out []Action) {
				t.Helper()
				if !c.wins {
					r.want(out)
					return
				}
				move := find(out, ActMove)
				if move == nil || move.Transition.On != TargetPendingHere || move.Transition.To != Solitary {
					t.Fatalf("%+v", out)
				}
				r.want(r.done(out))
				for range 20 { // and stays there, though its seed is asked again and again
					for _, a := range r.wait(30 * time.Second) {
						if a.Kind == ActMove {
							t.Fatal("asks again")
						}
						r.answersAt(a.Endpoint, pendingFleet(2, younger, 1))
					}
				}
			}
			t.Run("by its beacon", func(t *testing.T) {
				r, _ := bring(t)
				check(t, r, r.beacon(pendingFleet(2, younger, 1)))
			})
			t.Run("by its redirect", func(t *testing.T) {
				r, ask := bring(t)
				r.want(redirect(r, ask, "10.0.0.1:6674"), ActAskSummary)
				// The endpoint is this machine's own. The word was unsigned: the target is asked itself.
				out := r.want(r.answersAt("10.0.0.1:6674", pendingFleet(1, c.own, 2)), ActAskSummary)
				if out[0].Endpoint != "10.0.0.2:6674" {
					t.Fatalf("%+v", out[0])
				}
				check(t, r, r.answersAt("10.0.0.2:6674", pendingFleet(2, younger, 1)))
			})
			t.Run("the redirect lied", func(t *testing.T) {
				r, ask := bring(t)
				r.want(redirect(r, ask, "10.0.0.1:6674"), ActAskSummary)
				r.want(r.answersAt("10.0.0.1:6674", pendingFleet(1, c.own, 2)), ActAskSummary)
				r.want(r.answersAt("10.0.0.2:6674", solitaryFleet(2, younger)))
			})
		})
	}
}

// Three that wait in a ring: exactly the eldest goes back.
func TestRingOfThree(t *testing.T) {
	for _, c := range []struct {
		own  uint64
		wins bool
	}{{older - 5, true}, {older + 5, false}, {younger + 5, false}} {
		r := newRig(t, Config{Own: ownOf(1, c.own), Seeds: []Seed{{"10.0.0.2:6674", OriginSeed}}})
		r.step(Event{Kind: EvTick})
		r.answersAt("10.0.0.2:6674", solitaryFleet(2, younger))
		ask := r.want(r.done(r.wait(ChoiceAfterProof)), ActAsk)[0]
		for _, start := range []func() []Action{
			func() []Action { return r.beacon(pendingFleet(2, younger, 3)) },
			func() []Action { return redirect(r, ask, "10.0.0.3:6674") },
		} {
			r.now = r.now.Add(WalkAgain)
			out := start()
			r.want(out, ActAskSummary)
			out = r.answersAt("10.0.0.3:6674", pendingFleet(3, older, 1))
			if a := find(out, ActAskSummary); a != nil { // by an unsigned redirect: from the target on, proven
				r.want(out, ActAskSummary)
				r.want(r.answersAt(a.Endpoint, pendingFleet(2, younger, 3)), ActAskSummary)
				out = r.answersAt("10.0.0.3:6674", pendingFleet(3, older, 1))
			}
			if got := find(out, ActMove) != nil; got != c.wins {
				t.Fatalf("founded %d: goes back %v", c.own, got)
			}
			if c.wins {
				break
			}
		}
	}
}

func pinOf(cluster int, ks ...int) *Pin {
	p := &Pin{Cluster: idOf(cluster)}
	for _, k := range ks {
		p.Keys = append(p.Keys, keyOf(k))
	}
	return p
}

func TestPinKeepsFromEveryOtherFleet(t *testing.T) {
	r := newRig(t, Config{Pin: pinOf(9, 9), Seeds: []Seed{{"typed:6674", OriginSeed}}})
	r.step(Event{Kind: EvTick})
	out := r.want(r.answersAt("typed:6674", establishedFleet(2, older)), ActForeignVisible)
	if out[0].Why != WhyPinnedFleet || !out[0].PinKey.IsZero() {
		t.Fatalf("%+v", out[0])
	}
	r.want(r.wait(30 * time.Second))
	if r.m.Count(CountPinRefusals) != 1 {
		t.Fatal("not counted")
	}
	out = r.beacon(solitaryFleet(9, younger+7)) // pinned, solitary, younger: it wins
	if m := find(out, ActMove); m == nil || m.Target.Cluster != idOf(9) {
		t.Fatalf("%+v", out)
	}
}

func TestPinnedFleetSpokenForByAKeyThatIsNotPinned(t *testing.T) {
	learner := establishedFleet(9, older)
	learner.Speaker, learner.SpeakerKey, learner.SpeakerEndpoint = "n-4", keyOf(4), "10.0.0.4:6674"

	r := newRig(t, Config{Pin: pinOf(9, 9)})
	out := r.want(r.beacon(learner), ActAskSummary)
	if out[0].Endpoint != "10.0.0.9:6674" || out[0].RequireKey != keyOf(9) {
		t.Fatalf("%+v", out[0])
	}
	r.want(r.beacon(learner)) // not again at once
	r.want(r.answersAt("10.0.0.9:6674", establishedFleet(9, older)))
	out = r.want(r.wait(ChoiceAfterProof), ActMove)
	if k := out[0].Target.Keys; !slices.Equal(k, []identity.PublicKey{keyOf(9)}) {
		t.Fatalf("signers %v", k)
	}

	r = newRig(t, Config{Pin: pinOf(9, 9)}) // another key answers there
	r.want(r.beacon(learner), ActAskSummary)
	out = r.want(r.answersAt("10.0.0.9:6674", learner), ActForeignVisible)
	if out[0].Why != WhyLeaderUnpinned || out[0].PinKey != keyOf(4) || r.m.Count(CountPinRefusals) != 1 {
		t.Fatalf("%+v", out[0])
	}
	r.want(r.wait(30 * time.Second))

	nameless := learner
	nameless.Leader.HasKey, nameless.Leader.Key = false, [32]byte{}
	r = newRig(t, Config{Pin: pinOf(9, 9)})
	r.want(r.beacon(nameless)) // the next summary may say
	r.want(r.wait(30 * time.Second))
	if r.m.Count(CountPinRefusals) != 0 {
		t.Fatal("waiting is no refusal")
	}

	other := learner
	other.Leader.Key = keyOf(5)
	r = newRig(t, Config{Pin: pinOf(9, 9)})
	out = r.want(r.beacon(other), ActForeignVisible)
	if out[0].Why != WhyPinnedKey || out[0].PinKey != keyOf(5) {
		t.Fatalf("%+v", out[0])
	}
	r.want(r.wait(30 * time.Second)) // nothing is dialled
}

func TestPinAndTheAnswer(t *testing.T) {
	r := newRig(t, Config{Pin: pinOf(9, 9)})
	ask := r.pending(establishedFleet(9, older))
	for _, o := range []wire.Outcome{wire.OutcomeApproved, wire.OutcomeRejected, wire.OutcomeRevoked, wire.OutcomePending} {
		out := r.step(Event{Kind: EvAnswer, Ask: ask.Ask, Cluster: idOf(9), Outcome: o, From: keyOf(5)})
		if o == wire.OutcomeApproved {
			r.want(out, ActForeignVisible)
			if out[0].Why != WhyAnswerUnpinned || out[0].PinKey != keyOf(5) {
				t.Fatalf("%+v", out[0])
			}
			continue
		}
		r.want(out)
	}
	if r.m.Count(CountPinRefusals) != 4 || r.m.Own().Mode != Pending {
		t.Fatal("an answer by a key that is not pinned counted")
	}
	r.want(r.answer(ask, wire.OutcomeApproved), ActStopAsk, ActMove)
}

func TestPinAndTheRedirect(t *testing.T) {
	r := newRig(t, Config{Pin: pinOf(9, 9)})
	ask := r.pending(establishedFleet(9, older))
	within := establishedFleet(9, older) // the new leader is not pinned
	within.Speaker, within.SpeakerKey = "n-5", keyOf(5)
	within.Leader = wire.Leader{ID: "n-5", Endpoint: "10.0.0.5:6674", Key: keyOf(5), HasKey: true}
	r.want(redirect(r, ask, "10.0.0.5:6674"), ActAskSummary)
	out := r.want(r.answersAt("10.0.0.5:6674", within), ActForeignVisible)
	if out[0].Why != WhyPinnedKey || out[0].PinKey != keyOf(5) {
		t.Fatalf("%+v", out[0])
	}
	ask = r.want(r.wait(AskAgain), ActAsk)[0]
	if ask.Target.Endpoint != "10.0.0.9:6674" || slices.Contains(ask.Target.Keys, keyOf(5)) {
		t.Fatalf("%+v", ask.Target)
	}
	r.want(redirect(r, ask, "10.0.0.3:6674"), ActAskSummary)
	// Whoever is redirected into another fleet asks the target itself before it gives the ask up.
	out = r.want(r.answersAt("10.0.0.3:6674", establishedFleet(3, older)), ActForeignVisible, ActAskSummary)
	if out[0].Why != WhyPinnedFleet || out[1].Endpoint != "10.0.0.9:6674" {
		t.Fatalf("%+v", out[0])
	}
}

func TestPinAtTheStart(t *testing.T) {
	own := ownOf(1, younger)
	own.Mode, own.Target = Pending, &Target{Cluster: idOf(2), Endpoint: "10.0.0.2:6674", Keys: []identity.PublicKey{keyOf(2)}}
	r := newRig(t, Config{Own: own, Pin: pinOf(9, 9)})
	out := r.want(r.step(Event{Kind: EvTick}), ActForeignVisible, ActSay, ActMove)
	if out[1].Say != SayTargetRefused || out[2].Transition.To != Solitary {
		t.Fatalf("%+v", out)
	}
	for _, c := range []struct {
		name        string
		mode        Mode
		established bool
		by          identity.PublicKey
		pin         *Pin
		want        bool
	}{
		{"no pin", Learner, true, keyOf(5), nil, false},
		{"admitted by a pinned key", Learner, true, keyOf(9), pinOf(1, 9), false},
		{"admitted by another key", Learner, true, keyOf(5), pinOf(1, 9), true},
		{"another fleet", Voter, true, keyOf(9), pinOf(2, 9), true},
		{"a founder under its own key", Voter, true, identity.PublicKey{}, pinOf(1, 1), false},
		{"a founder that is not pinned", Voter, true, identity.PublicKey{}, pinOf(1, 9), true},
		{"an established fleet of one", Solitary, true, identity.PublicKey{}, pinOf(2, 9), true},
		{"a fleet of one that looks for the pinned one", Solitary, false, identity.PublicKey{}, pinOf(2, 9), false},
	} {
		own := ownOf(1, older)
		own.Mode, own.Established, own.AdmittedBy = c.mode, c.established, c.by
		if got := newRig(t, Config{Own: own, Pin: c.pin}).m.PinDisagrees(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	own = ownOf(1, older)
	own.Mode, own.Established = Learner, true
	r = newRig(t, Config{Own: own, Pin: pinOf(9, 9)})
	order := Event{Kind: EvTrigger, Trigger: DissolvedInto, Target: &Target{Cluster: idOf(9), Endpoint: "10.0.0.9:6674"}, From: keyOf(4)}
	out = r.want(r.step(order), ActForeignVisible) // signed by a key that is not pinned
	if out[0].Why != WhyOrderUnpinned || out[0].PinKey != keyOf(4) || r.m.Count(CountPinRefusals) != 1 {
		t.Fatalf("%+v", out[0])
	}
	order.From = keyOf(9)
	out = r.want(r.step(order), ActMove)
	if out[0].Target.Cluster != idOf(9) || out[0].Transition.Effect != EffectMintAndAsk {
		t.Fatalf("%+v", out[0])
	}
}
