package formation

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// waysIn leads a machine pinned to fleet 9 under key 9 to each way in, with what is not pinned, and reports whether it was
// let in. Nothing of it reads the table of ways.
var waysIn = []struct {
	way  Way
	in   string
	lets func(t *testing.T) bool
}{
	{WaySummary, "the summary it yields to", func(t *testing.T) bool {
		r := newRig(t, Config{Pin: pinOf(9, 9)})
		return find(append(r.beacon(establishedFleet(2, older)), r.wait(30*time.Second)...), ActMove) != nil
	}},
	{WayAnswer, "every answer to its ask", func(t *testing.T) bool {
		r := newRig(t, Config{Pin: pinOf(9, 9)})
		ask := r.pending(establishedFleet(9, older))
		return find(r.step(Event{Kind: EvAnswer, Ask: ask.Ask, Cluster: idOf(9), Outcome: wire.OutcomeApproved, From: keyOf(5)}), ActMove) != nil
	}},
	{WayRedirect, "the leader a redirect names", func(t *testing.T) bool {
		r := newRig(t, Config{Pin: pinOf(9, 9)})
		ask := r.pending(establishedFleet(9, older))
		within := establishedFleet(9, older)
		within.Speaker, within.SpeakerKey = "n-5", keyOf(5)
		within.Leader = wire.Leader{ID: "n-5", Endpoint: "10.0.0.5:6674", Key: keyOf(5), HasKey: true}
		r.want(redirect(r, ask, "10.0.0.5:6674"), ActAskSummary)
		out := append(r.answersAt("10.0.0.5:6674", within), r.wait(AskAgain)...)
		return r.m.Own().Target.Endpoint == "10.0.0.5:6674" || find(out, ActAsk).Target.Endpoint == "10.0.0.5:6674"
	}},
	{WayDissolve, "a dissolve", func(t *testing.T) bool {
		own := ownOf(1, older)
		own.Mode, own.Established = Learner, true
		r := newRig(t, Config{Own: own, Pin: pinOf(9, 9)})
		return find(r.step(Event{Kind: EvTrigger, Trigger: DissolvedInto, Target: &Target{Cluster: idOf(9), Endpoint: "10.0.0.9:6674"}, From: keyOf(4)}), ActMove) != nil
	}},
	{WayRecord, "its record at every start, judged by the key that signed its admission", func(t *testing.T) bool {
		own := ownOf(9, older)
		own.Mode, own.Established, own.AdmittedBy = Learner, true, keyOf(5)
		return !newRig(t, Config{Own: own, Pin: pinOf(9, 9)}).m.PinDisagrees()
	}},
}

func checkWays(t *testing.T) error {
	if len(Ways) != len(waysIn) {
		return fmt.Errorf("%d ways in", len(Ways))
	}
	names := map[string]bool{}
	for i, w := range waysIn {
		if row := Ways[i]; row.Way != w.way || row.Name == "" || names[row.Name] {
			return fmt.Errorf("row %d: %+v", i, row)
		}
		names[Ways[i].Name] = true
		if w.lets(t) {
			return errors.New("not asked of " + w.in)
		}
	}
	return nil
}

func TestPinIsAskedOfEveryWayIn(t *testing.T) {
	for _, w := range waysIn {
		t.Run(w.in, func(t *testing.T) {
			if w.lets(t) {
				t.Fatal("the pin is not asked")
			}
		})
	}
	if err := checkWays(t); err != nil {
		t.Fatal(err)
	}
}

func TestMutationWays(t *testing.T) {
	mutate(t, Ways, func() error { return checkWays(t) }, func(r *WayRow, step int) bool {
		switch step {
		case 0:
			r.Asked = false
		case 1:
			r.Way = r.Way%5 + 1
		case 2:
			r.Name = ""
		default:
			return false
		}
		return true
	})
}

// After the join nothing asks the pin: what a member is told of its fleet it takes, whoever leads, and however often it is
// told.
func TestPinIsAskedOfNothingAfterTheJoin(t *testing.T) {
	r := newRig(t, Config{Pin: pinOf(9, 9)})
	ask := r.pending(establishedFleet(9, older))
	out := r.answer(ask, wire.OutcomeApproved)
	own := r.m.Own()
	own.Mode, own.Target, own.Cluster, own.Established, own.AdmittedBy = Learner, nil, idOf(9), true, keyOf(9)
	if find(out, ActMove) == nil {
		t.Fatalf("%+v", out)
	}
	r.want(r.step(Event{Kind: EvMoved, Own: own}))
	refused := r.m.Count(CountPinRefusals)
	for n := 2; n < 8; n++ { // leaders that are not pinned speak for the fleet now
		f := establishedFleet(9, older)
		f.Speaker, f.SpeakerKey = fmt.Sprintf("n-%d", n), keyOf(n)
		f.Leader = wire.Leader{ID: f.Speaker, Endpoint: fmt.Sprintf("10.0.0.%d:6674", n), Key: keyOf(n), HasKey: true}
		r.want(r.beacon(f))
	}
	for _, on := range []Trigger{SeatedAsVoter, SeatedAsLearner} {
		out := r.step(Event{Kind: EvTrigger, Trigger: on})
		if find(out, ActMove) == nil {
			t.Fatalf("%v is not taken: %+v", on, out)
		}
		r.done(out)
	}
	if r.m.PinDisagrees() || r.m.Count(CountPinRefusals) != refused {
		t.Fatal("a member asks its pin")
	}
}

// A machine whose target, once it is asked, turns out to be under a key that is not pinned: nothing was asked of it, and
// the key is named.
func TestPinAndTheKeyAtTheTarget(t *testing.T) {
	r := newRig(t, Config{Pin: pinOf(9, 9)})
	ask := r.pending(establishedFleet(9, older))
	out := r.want(r.step(Event{Kind: EvKeyRefused, Ask: ask.Ask, Endpoint: "10.0.0.9:6674", From: keyOf(5)}), ActForeignVisible)
	if out[0].Why != WhyLeaderUnpinned || out[0].PinKey != keyOf(5) || out[0].Fleet.Cluster != idOf(9) || r.m.Count(CountPinRefusals) != 1 {
		t.Fatalf("%+v", out[0])
	}
	r.want(r.step(Event{Kind: EvAskEnded, Ask: ask.Ask}))
	again := r.want(r.wait(AskAgain), ActAsk)[0]
	r.want(r.step(Event{Kind: EvKeyRefused, Ask: ask.Ask, From: keyOf(6)})) // of the ask before
	r.want(r.step(Event{Kind: EvKeyRefused, Ask: again.Ask, Endpoint: "10.0.0.9:6674", From: keyOf(5)}))
	unpinned := newRig(t, Config{})
	ask = unpinned.pending(establishedFleet(9, older))
	unpinned.want(unpinned.step(Event{Kind: EvKeyRefused, Ask: ask.Ask, From: keyOf(5)}))
}

// A record of a pending machine that was written before the pin was: the target's fleet is the pinned one, its key is not.
func TestPinAtTheStartNamesTheTargetsKey(t *testing.T) {
	own := ownOf(1, younger)
	own.Mode, own.Target = Pending, &Target{Cluster: idOf(9), Endpoint: "10.0.0.5:6674", Keys: []identity.PublicKey{keyOf(5)}}
	r := newRig(t, Config{Own: own, Pin: pinOf(9, 9)})
	out := r.want(r.step(Event{Kind: EvTick}), ActForeignVisible, ActSay, ActMove)
	if out[0].Why != WhyPinnedKey || out[0].PinKey != keyOf(5) {
		t.Fatalf("%+v", out[0])
	}
}

// A seed, or a leader, that does not answer is no refusal of the pin: nobody was there whose key could be named. Nor is one that
// answers under the key that was asked for.
func TestPinAndWhoDoesNotAnswer(t *testing.T) {
	r := newRig(t, Config{Pin: pinOf(9, 9), Seeds: []Seed{{"typed-1:6674", OriginSeed}}})
	for _, from := range []identity.PublicKey{{}, keyOf(7)} { // a seed is asked under any key
		r.wait(SeedPeriod)
		if find(r.step(Event{Kind: EvSummaryFailed, Endpoint: "typed-1:6674", From: from, Err: "refused"}), ActForeignVisible) != nil {
			t.Fatal("a seed that fails is shown as an impostor")
		}
	}
	f := establishedFleet(9, older)
	f.Speaker, f.SpeakerKey = "n-4", keyOf(4) // names the pinned leader
	r.now = r.now.Add(SeedPeriod)
	r.beacon(f)
	for _, from := range []identity.PublicKey{{}, keyOf(9)} {
		if find(r.step(Event{Kind: EvSummaryFailed, Endpoint: f.Leader.Endpoint, From: from, Err: "timed out"}), ActForeignVisible) != nil {
			t.Fatal("a leader that fails is shown as an impostor")
		}
	}
	if got := r.m.Count(CountPinRefusals); got != 0 {
		t.Fatalf("%d refusals of the pin", got)
	}
}

// What impostors say keeps the true leader waiting for a beat at most: each endpoint that is named is asked once a minute,
// and one a beat.
func TestPinnedLeaderIsAskedBesideImpostors(t *testing.T) {
	word := func(speaker int, endpoint string) Fleet { // names the pinned key, and some endpoint
		f := establishedFleet(9, older)
		f.Speaker, f.SpeakerKey, f.Leader.Endpoint = fmt.Sprintf("n-%d", speaker), keyOf(speaker), endpoint
		return f
	}
	r := newRig(t, Config{Pin: pinOf(9, 9)})
	r.want(r.beacon(word(66, "10.6.6.6:6674")), ActAskSummary)
	r.want(r.beacon(word(4, "10.0.0.9:6674"))) // not in the same beat
	out := r.step(Event{Kind: EvSummaryFailed, Endpoint: "10.6.6.6:6674", From: keyOf(66)})
	if a := find(out, ActForeignVisible); a == nil || a.PinKey != keyOf(66) {
		t.Fatalf("%+v", out)
	}
	r.now = r.now.Add(Beat)
	r.want(r.beacon(word(66, "10.6.6.6:6674"))) // asked already
	out = r.want(r.beacon(word(4, "10.0.0.9:6674")), ActAskSummary)
	if out[0].RequireKey != keyOf(9) {
		t.Fatalf("%+v", out[0])
	}
	for i := range 5 * MaxLeaderAsks {
		r.now = r.now.Add(Beat)
		for _, a := range r.beacon(word(66, fmt.Sprintf("10.6.7.%d:6674", i))) {
			if a.Kind == ActAskSummary {
				r.step(Event{Kind: EvSummaryFailed, Endpoint: a.Endpoint})
			}
		}
		if len(r.m.leaders) > MaxLeaderAsks {
			t.Fatal("a bound was passed")
		}
	}
	r.now = r.now.Add(SeedPeriod)
	r.step(Event{Kind: EvTick})
	if len(r.m.leaders) != 0 {
		t.Fatalf("%d endpoints are remembered after their minute", len(r.m.leaders))
	}
}

// Neither the pinned fleet nor the one that is asked gives way in a full table, and whoever claims the pinned fleet is shown
// among sixteen others.
func TestPinnedFleetIsKeptAndShown(t *testing.T) {
	r := newRig(t, Config{Pin: pinOf(9, 9)})
	r.beacon(solitaryFleet(9, younger+100)) // the worst of all by rank
	for i := range 2 * MaxFleets {
		r.beacon(establishedFleet(100+i, older))
	}
	if _, ok := r.m.fleets[idOf(9)]; !ok || len(r.m.fleets) > MaxFleets {
		t.Fatalf("the pinned fleet gave way (%d are kept)", len(r.m.fleets))
	}
	if n := len(r.m.Foreign(r.now)); n != MaxForeign {
		t.Fatalf("%d shown", n)
	}
	claim := establishedFleet(9, older)
	claim.SpeakerKey, claim.Leader.Key = keyOf(66), keyOf(66)
	out := r.beacon(claim)
	if a := find(out, ActForeignVisible); a == nil || a.Why != WhyPinnedKey || a.PinKey != keyOf(66) || len(r.m.Foreign(r.now)) != MaxForeign {
		t.Fatalf("%+v", out)
	}
	// The target of an unpinned machine is kept too.
	r = newRig(t, Config{})
	r.pending(solitaryFleet(2, older))
	for i := range 2 * MaxFleets {
		r.beacon(establishedFleet(100+i, older))
	}
	if _, ok := r.m.fleets[idOf(2)]; !ok {
		t.Fatal("the fleet that is asked gave way")
	}
}

func TestObeysDissolve(t *testing.T) {
	for _, c := range []struct {
		name     string
		pin      *Pin
		survivor int
		signer   identity.PublicKey
		want     bool
	}{
		{"no pin", nil, 2, keyOf(2), true},
		{"into the pinned fleet, by a pinned key", pinOf(9, 9), 9, keyOf(9), true},
		{"into the pinned fleet, by another key", pinOf(9, 9), 9, keyOf(4), false},
		{"into another fleet, by a pinned key", pinOf(9, 9), 2, keyOf(9), false},
		{"by nobody", pinOf(9, 9), 9, identity.PublicKey{}, false},
	} {
		if got := newRig(t, Config{Pin: c.pin}).m.ObeysDissolve(idOf(c.survivor), c.signer); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
