package formation

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Evidence that anybody in a fleet may give decides nothing: each cell is the one without evidence.
func TestSplitByHandDecidesNothing(t *testing.T) {
	solitary := ownOf(1, younger)
	established, pending := solitary, solitary
	established.Mode, established.Established = Voter, true
	pending.Mode, pending.Target = Pending, &Target{Cluster: idOf(7)}
	for _, c := range []struct {
		own  Own
		seen Fleet
		want Outcome
	}{
		{solitary, establishedFleet(2, older), Yield},
		{solitary, solitaryFleet(2, older), TieBreakYield},
		{solitary, solitaryFleet(2, younger+1), Stay},
		{solitary, pendingFleet(2, older, 9), FollowPointer},
		{established, solitaryFleet(2, older), Stay},
		{established, establishedFleet(2, older), ForeignFleet},
		{established, pendingFleet(2, older, 9), Stay},
		{pending, solitaryFleet(2, older), Stay},
		{pending, establishedFleet(2, older), Stay},
		{pending, pendingFleet(2, older, 9), Stay},
	} {
		if got := Classify(c.own, c.seen, SplitByHand, nil); got != c.want {
			t.Errorf("%v / %v: %s, want %s", c.own.State(), c.seen.State, got, c.want)
		}
	}
}

// Who is asked where no leader is named, or none that can be reached: the speaker, at its own word or where it answered.
func TestWhomToAskWithoutALeader(t *testing.T) {
	election := establishedFleet(2, older)
	election.Leader = wire.Leader{}
	r := newRig(t, Config{})
	ask := r.pending(election)
	if got := ask.Target; got.Endpoint != "10.0.0.2:6674" || got.LeaderID != "n-2" || !slices.Equal(got.Keys, []identity.PublicKey{keyOf(2)}) {
		t.Errorf("during an election: %+v", got)
	}

	nowhere := establishedFleet(2, older)
	nowhere.Leader.Endpoint, nowhere.SpeakerEndpoint = "127.0.0.1:6674", "127.0.0.1:6674"
	r = newRig(t, Config{Seeds: []Seed{{"10.0.0.9:6674", OriginSeed}}})
	r.want(r.step(Event{Kind: EvTick}), ActAskSummary)
	r.answersAt("10.0.0.9:6674", nowhere)
	if move := find(r.wait(ChoiceAfterProof), ActMove); move == nil || move.Target.Endpoint != "10.0.0.9:6674" {
		t.Errorf("at a seed that names only itself: %+v", move)
	}

	named := establishedFleet(2, older) // a speaker that names another as its leader, whom nobody can ask
	named.Leader = wire.Leader{ID: "n-5", Key: keyOf(5), HasKey: true}
	r = newRig(t, Config{})
	if got := r.pending(named).Target; got.Endpoint != "10.0.0.2:6674" || got.LeaderID != "n-2" || !slices.Equal(got.Keys, []identity.PublicKey{keyOf(2), keyOf(5)}) {
		t.Errorf("without the leader's endpoint: %+v", got)
	}

	for _, c := range []struct{ endpoint, from, want string }{
		{"pc:6674", "10.9.9.9", "10.9.9.9:6674"}, {"pc:6674", "::ffff:10.9.9.9", "10.9.9.9:6674"}, {"", "10.9.9.9", ""}, {"pc:port", "10.9.9.9", ""},
	} {
		if got := AtSource(c.endpoint, netip.MustParseAddr(c.from)); got != c.want {
			t.Errorf("%s from %s: %q, want %q", c.endpoint, c.from, got, c.want)
		}
	}
	if got := AtSource("pc:6674", netip.Addr{}); got != "" {
		t.Errorf("from nowhere: %q", got)
	}
}

// A pointer is no news once the machine that it names speaks for a proven fleet, or is named there as its leader.
func TestPointerToAKnownLeader(t *testing.T) {
	told := solitaryFleet(3, younger) // of a fleet that this machine stays away from, by another speaker
	told.Speaker, told.SpeakerKey, told.SpeakerEndpoint = "n-7", keyOf(7), "10.0.0.7:6674"
	unknown := solitaryFleet(3, younger)
	unknown.Speaker, unknown.SpeakerKey = "n-8", keyOf(8)
	unknown.Leader = wire.Leader{ID: "n-9", Endpoint: "10.0.0.9:6674", Key: keyOf(9), HasKey: true}
	leaderless := solitaryFleet(3, younger)
	leaderless.Leader = wire.Leader{ID: "n-9", Endpoint: "10.0.0.9:6674"}
	byID := wire.Leader{ID: "n-3", Endpoint: "10.0.0.3:6674"}
	for _, c := range []struct {
		name    string
		seen    Fleet
		pointer wire.Leader
		known   bool
	}{
		{"it speaks, by its key", leaderless, solitaryFleet(3, 0).Leader, true},
		{"it is named, by its key", told, solitaryFleet(3, 0).Leader, true},
		{"it speaks, by its id", solitaryFleet(3, younger), byID, true},
		{"it is named, by its id", told, byID, true},
		{"another key speaks and is named", unknown, solitaryFleet(3, 0).Leader, false},
		{"another id speaks and is named", unknown, byID, false},
		{"its id alone under another key", unknown, wire.Leader{ID: "n-9", Endpoint: "10.0.0.3:6674", Key: keyOf(3), HasKey: true}, false},
		{"a pointer names it too", pendingFleet(3, younger, 3), byID, false},
	} {
		r := newRig(t, Config{Own: ownOf(1, older)})
		r.beacon(c.seen)
		points := pendingFleet(4, younger, 3)
		points.Pointer = c.pointer
		r.beacon(points)
		a := find(r.wait(ChoiceAfterProof+Beat), ActAskSummary)
		if (a == nil) != c.known || a != nil && a.Endpoint != "10.0.0.3:6674" {
			t.Errorf("%s: %+v", c.name, a)
		}
	}
}

// Whose word of one fleet is kept, and who gives way in a full table, each rule alone.
func TestWhoseWordIsKept(t *testing.T) {
	leader, speaker := establishedFleet(2, older), establishedFleet(2, older)
	speaker.Speaker, speaker.SpeakerKey = "n-7", keyOf(7)
	bySeed := speaker
	bySeed.Origin = OriginSeed
	keyless := leader
	keyless.Leader.HasKey, keyless.Leader.Key = false, [32]byte{}
	keylessSpeaker := speaker
	keylessSpeaker.Leader = keyless.Leader
	impostor := speaker // under the leader's id, and another key
	impostor.Speaker = "n-2"
	nobody := speaker
	nobody.Speaker, nobody.Leader = "", wire.Leader{}
	m := newRig(t, Config{}).m
	pinned := newRig(t, Config{Pin: pinOf(2, 7)}).m
	for _, c := range []struct {
		name string
		m    *Machine
		a, b Fleet
		want bool
	}{
		{"the leader before another", m, leader, speaker, true},
		{"another after the leader", m, speaker, leader, false},
		{"another under the leader's id", m, impostor, speaker, false},
		{"two others", m, speaker, speaker, false},
		{"the leader again", m, leader, leader, false},
		{"a leader without a key, by its id", m, keyless, keylessSpeaker, true},
		{"another where the leader has no key", m, keylessSpeaker, keyless, false},
		{"whoever names nobody is no leader", m, nobody, speaker, false},
		{"found by a seed before the leader's beacon", m, bySeed, leader, true},
		{"the leader's beacon after what a seed found", m, leader, bySeed, false},
		{"a pinned key before the leader", pinned, speaker, leader, true},
		{"the leader after a pinned key", pinned, leader, bySeed, false},
	} {
		if got := c.m.nearer(c.a, c.b); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	r := newRig(t, Config{Own: ownOf(1, older)})
	kept := func() string { return r.m.fleets[idOf(2)].Speaker }
	young, other := solitaryFleet(2, younger), solitaryFleet(2, younger)
	other.Speaker, other.SpeakerKey = "n-7", keyOf(7)
	r.beacon(young)
	r.now = r.now.Add(30*time.Second - 1)
	if r.beacon(other); kept() != "n-2" {
		t.Error("another speaker's word took the leader's place")
	}
	r.now = r.now.Add(1)
	if r.beacon(other); kept() != "n-7" {
		t.Error("the word of a leader that is silent for 30 s was kept")
	}

	for _, c := range []struct {
		name string
		a, b Fleet
		want bool
	}{
		{"pending before established", pendingFleet(2, older, 9), establishedFleet(3, older), true},
		{"pending before the youngest solitary", pendingFleet(2, older, 9), solitaryFleet(3, younger), true},
		{"solitary after pending", solitaryFleet(3, younger), pendingFleet(2, older, 9), false},
		{"the younger solitary", solitaryFleet(2, younger), solitaryFleet(3, older), true},
		{"the elder solitary", solitaryFleet(2, older), solitaryFleet(3, younger), false},
		{"solitary before established", solitaryFleet(2, older), establishedFleet(3, younger), true},
		{"established after solitary", establishedFleet(2, younger), solitaryFleet(3, older), false},
		{"the higher id of one age", solitaryFleet(3, older), solitaryFleet(2, older), idOf(3) > idOf(2)},
		{"itself", solitaryFleet(2, older), solitaryFleet(2, older), false},
	} {
		if got := displaced(c.a, c.b); got != c.want {
			t.Errorf("%s gives way first: %v", c.name, got)
		}
	}
}

// A fleet that a seed found keeps that origin when it is heard by a beacon too; one question serves both who ask.
func TestOriginIsTheBestOne(t *testing.T) {
	r := newRig(t, Config{Own: ownOf(1, younger), Seeds: []Seed{{"10.0.0.2:6674", OriginSeed}}})
	r.want(r.step(Event{Kind: EvTick}), ActAskSummary)
	r.answersAt("10.0.0.2:6674", establishedFleet(2, older))
	r.beacon(establishedFleet(2, older))
	if move := find(r.wait(ChoiceAfterProof), ActMove); move == nil || move.Target.Origin != OriginSeed {
		t.Errorf("%+v", move)
	}
	r = newRig(t, Config{})
	if !r.m.ask(r.now, "10.0.0.2:6674", OriginBeacon, identity.PublicKey{}) || r.m.ask(r.now, "10.0.0.2:6674", OriginSeed, identity.PublicKey{}) || r.m.ask(r.now, "", OriginSeed, identity.PublicKey{}) {
		t.Error("asked twice, or nobody")
	}
	r.answersAt("10.0.0.2:6674", establishedFleet(2, older))
	if got := r.m.fleets[idOf(2)].Origin; got != OriginSeed {
		t.Errorf("found by %s", got)
	}
}

// Another recovery epoch is a way into a fleet, and the pin is asked; what was accepted survives a record that could not be written.
func TestAcceptedEpochAsksThePin(t *testing.T) {
	own := ownOf(1, older)
	own.Mode, own.Established, own.AdmittedBy = Learner, true, keyOf(9)
	r := newRig(t, Config{Own: own, Pin: pinOf(1, 9)})
	accept := func(by int) []Action {
		return r.step(Event{Kind: EvTrigger, Trigger: EpochAccepted, Roster: []byte("roster"), From: keyOf(by)})
	}
	r.want(accept(4))
	if r.m.Count(CountPinRefusals) != 1 {
		t.Error("the pin's refusal is not counted")
	}
	began := func(out []Action) {
		t.Helper()
		if a := find(out, ActMove); a == nil || a.Transition.On != EpochAccepted || string(a.Roster) != "roster" || a.From != keyOf(9) {
			t.Fatalf("%+v", out)
		}
	}
	began(accept(9))
	r.want(r.step(Event{Kind: EvMoveFailed, Err: "disk full"}), ActSay)
	r.want(r.wait(MoveRetry - time.Second))
	began(r.wait(time.Second))

	order := Event{Kind: EvTrigger, Trigger: DissolvedInto, From: keyOf(9)} // into nowhere
	own.AdmittedBy = identity.PublicKey{}
	r = newRig(t, Config{Own: own})
	r.want(r.step(order))
	if r.m.Count(CountMovesIgnored) != 1 {
		t.Error("an order into nowhere is not counted")
	}
}

// Whoever left a fleet does not ask it again for an hour, though it is heard.
func TestLeftIsNotAskedForAnHour(t *testing.T) {
	own := ownOf(1, younger)
	own.Mode, own.Established, own.Cluster, own.AdmittedBy = Learner, true, idOf(2), keyOf(2)
	r := newRig(t, Config{Own: own})
	r.done(r.want(r.step(Event{Kind: EvTrigger, Trigger: Left}), ActMove))
	for range 59 {
		r.beacon(establishedFleet(2, older))
		r.want(r.wait(time.Minute))
	}
	r.beacon(establishedFleet(2, older))
	if move := find(r.wait(time.Minute), ActMove); move == nil || move.Target.Cluster != idOf(2) {
		t.Errorf("not asked after an hour: %+v", move)
	}
}

// Whose target closed asks another first, and that one a minute later at the earliest.
func TestClosedTargetIsNotAskedAtOnce(t *testing.T) {
	r := newRig(t, Config{RevokedIn: []string{idOf(9)}})
	r.pending(solitaryFleet(2, older))
	member := establishedFleet(9, older) // the machine that was asked, in a fleet that this one may not ask
	member.Speaker, member.SpeakerKey = "n-2", keyOf(2)
	r.done(r.beacon(member))
	if r.m.fleets[idOf(2)] != nil {
		t.Error("what the fleet said before it closed is kept")
	}
	r.beacon(solitaryFleet(2, older))
	r.want(r.wait(AbandonHold - time.Second))
	r.beacon(solitaryFleet(2, older))
	if move := find(r.wait(time.Second), ActMove); move == nil || move.Target.Cluster != idOf(2) {
		t.Errorf("not asked a minute later: %+v", move)
	}
}

// Each refusal is counted: an answer to another ask, of another fleet or without a verified signature, a record whose target
// the pin does not admit, and a pinned fleet spoken for by others.
func TestRefusalsAreCounted(t *testing.T) {
	r := newRig(t, Config{})
	ask := r.pending(establishedFleet(2, older))
	r.want(r.step(Event{Kind: EvAnswer, Ask: ask.Ask + 1, Cluster: idOf(2), Outcome: wire.OutcomeApproved, From: keyOf(2)}))
	r.want(r.step(Event{Kind: EvAnswer, Ask: ask.Ask, Cluster: idOf(3), Outcome: wire.OutcomeApproved, From: keyOf(2)}))
	r.want(r.step(Event{Kind: EvAnswer, Ask: ask.Ask, Cluster: idOf(2), Outcome: wire.Outcome(9), From: keyOf(2)}))
	r.step(Event{Kind: EvAnswerRefused, Ask: ask.Ask, Err: "bad signature"})
	if got := r.m.Count(CountAdmissionsRefused); got != 4 {
		t.Errorf("%d answers counted, want 4", got)
	}

	own := ownOf(1, younger)
	own.Mode, own.Target = Pending, &Target{Cluster: idOf(2), Endpoint: "10.0.0.2:6674", Keys: []identity.PublicKey{keyOf(2)}}
	for pin, why := range map[*Pin]Why{pinOf(9, 9): WhyPinnedFleet, pinOf(2, 9): WhyPinnedKey} {
		r = newRig(t, Config{Own: own, Pin: pin})
		a := find(r.step(Event{Kind: EvTick}), ActForeignVisible)
		if a == nil || a.Why != why || r.m.Count(CountPinRefusals) != 1 {
			t.Errorf("%d refusals counted, %+v", r.m.Count(CountPinRefusals), a)
		}
	}

	impostor := establishedFleet(9, older)
	impostor.SpeakerKey, impostor.Leader.Key = keyOf(4), keyOf(5)
	r = newRig(t, Config{Pin: pinOf(9, 9)})
	out := r.want(r.beacon(impostor), ActForeignVisible)
	if out[0].PinKey != keyOf(5) || r.m.Count(CountPinRefusals) != 1 {
		t.Errorf("%d refusals counted, %+v", r.m.Count(CountPinRefusals), out[0])
	}

	waiting := establishedFleet(9, older) // named under the pinned key, and not where: the next summary may say
	waiting.SpeakerKey, waiting.Leader.Endpoint = keyOf(4), ""
	r = newRig(t, Config{Pin: pinOf(9, 9)})
	r.want(r.beacon(waiting))
	r.want(r.wait(30 * time.Second))
	if r.m.Count(CountPinRefusals) != 0 {
		t.Error("waiting is no refusal")
	}
}

// Whose answer counts: the leader's and the speaker's key of each summary proven for that fleet, the newest eight.
func TestSignersOfATarget(t *testing.T) {
	r := newRig(t, Config{})
	r.pending(establishedFleet(2, older))
	var want []identity.PublicKey
	for n := 20; n < 30; n++ { // the machine that is asked names one leader after the other
		word := establishedFleet(2, older)
		word.Leader = wire.Leader{ID: "n-x", Endpoint: "10.0.1.1:6674", Key: keyOf(n), HasKey: true}
		r.beacon(word)
		want = append([]identity.PublicKey{keyOf(n), keyOf(2)}, slices.DeleteFunc(want, func(k identity.PublicKey) bool { return k == keyOf(2) })...)
	}
	if got := r.m.Own().Target.Keys; !slices.Equal(got, want[:MaxTargetKeys]) {
		t.Errorf("%v, want %v", got, want[:MaxTargetKeys])
	}
}

// The next tick is asked for when the first thing is due.
func TestNextIsWhatIsDueFirst(t *testing.T) {
	due := func(r *rig, what string, want time.Duration) {
		t.Helper()
		if got := r.m.Next(r.now).Sub(r.now); got != want {
			t.Errorf("%s: in %s, want %s", what, got, want)
		}
	}
	due(newRig(t, Config{}), "nothing", time.Minute)
	due(newRig(t, Config{SRV: true}), "a lookup that was never made", 0)
	r := newRig(t, Config{SRV: true})
	r.want(r.step(Event{Kind: EvTick}), ActLookupSRV)
	r.step(Event{Kind: EvSRV})
	r.now = r.now.Add(20 * time.Second)
	due(r, "the next lookup", 40*time.Second)

	r = newRig(t, Config{Seeds: []Seed{{"10.0.0.2:6674", OriginSeed}, {"10.0.0.3:6674", OriginSeed}}})
	due(r, "a seed that was never asked", 0)
	r.want(r.step(Event{Kind: EvTick}), ActAskSummary)
	due(r, "the next seed, a beat later", time.Second)
	r.now = r.now.Add(time.Second)
	r.want(r.step(Event{Kind: EvTick}), ActAskSummary)
	for _, e := range []string{"10.0.0.2:6674", "10.0.0.3:6674"} {
		r.step(Event{Kind: EvSummaryFailed, Endpoint: e})
	}
	r.now = r.now.Add(20 * time.Second)
	due(r, "a seed again, a minute after it was asked", 39*time.Second)

	r = newRig(t, Config{})
	r.beacon(establishedFleet(2, older))
	due(r, "the choice", 500*time.Millisecond)
	r = newRig(t, Config{Rejections: []Rejection{{idOf(2), 30 * time.Second}}})
	r.beacon(establishedFleet(2, older))
	r.now = r.now.Add(time.Second)
	due(r, "the end of a rejection", 29*time.Second)
	r = newRig(t, Config{})
	r.m.abandoned[idOf(2)] = r.now
	r.beacon(establishedFleet(2, older))
	r.now = r.now.Add(time.Second)
	due(r, "a minute after it was given up", 59*time.Second)
	r = newRig(t, Config{RevokedIn: []string{idOf(2)}})
	r.beacon(establishedFleet(2, older))
	r.now = r.now.Add(time.Second)
	due(r, "a fleet that is never asked", time.Minute)
	r = newRig(t, Config{})
	r.beacon(pendingFleet(2, older, 9))
	r.want(r.wait(ChoiceAfterProof), ActAskSummary)
	r.step(Event{Kind: EvSummaryFailed, Endpoint: "10.0.0.9:6674"})
	r.now = r.now.Add(20 * time.Second)
	due(r, "the next step along a pointer", 40*time.Second)
}

// A table of visible fleets that is full shows no further one, but whoever shows that it holds a voter's key.
func TestFullTableOfVisibleFleets(t *testing.T) {
	for _, c := range []struct {
		name  string
		seen  Fleet
		shown bool
	}{
		{"one more", establishedFleet(99, older), false},
		{"a split that this fleet survives", establishedFleet(99, younger+1), true},
		{"a split that this fleet dissolves by", establishedFleet(99, older), true},
		{"a split that a person heals", establishedFleet(99, older), false},
	} {
		own := ownOf(1, younger)
		own.Mode, own.Established = Voter, true
		r := newRig(t, Config{Own: own})
		for n := 2; n < 2+MaxForeign; n++ {
			r.want(r.beacon(establishedFleet(n, older)), ActForeignVisible)
			r.now = r.now.Add(time.Millisecond)
		}
		switch c.seen.Evidence = NoSplit; {
		case c.shown:
			c.seen.Evidence = SplitHealsByItself
		case c.name != "one more":
			c.seen.Evidence = SplitByHand
		}
		r.beacon(c.seen)
		var shown []string
		for _, f := range r.m.Foreign(r.now) {
			shown = append(shown, f.Cluster)
		}
		if len(shown) != MaxForeign || slices.Contains(shown, idOf(99)) != c.shown || slices.Contains(shown, idOf(2)) == c.shown || !slices.IsSorted(shown) {
			t.Errorf("%s: shown are %q", c.name, shown)
		}
	}
}

// A fleet that this machine has come into is no foreign one.
func TestOwnFleetIsNotForeign(t *testing.T) {
	own := ownOf(1, younger)
	own.Mode, own.Established = Voter, true
	r := newRig(t, Config{Own: own})
	r.want(r.beacon(establishedFleet(2, older)), ActForeignVisible)
	order := Event{Kind: EvTrigger, Trigger: DissolvedInto, Target: &Target{Cluster: idOf(2), Endpoint: "10.0.0.2:6674", Keys: []identity.PublicKey{keyOf(2)}}, From: keyOf(1)}
	out := r.done(r.want(r.step(order), ActMove))
	ask := find(out, ActAsk)
	if ask == nil {
		t.Fatalf("%+v", out)
	}
	out = r.done(r.answer(*ask, wire.OutcomeApproved))
	if clear := find(out, ActForeignClear); clear == nil || clear.Fleet.Cluster != idOf(2) || len(r.m.Foreign(r.now)) != 0 || r.m.fleets[idOf(2)] != nil {
		t.Errorf("%+v", out)
	}
}

// A move whose record could not be written is made again a minute later, by another ask; the same record written again changes nothing.
func TestAskAfterARecordThatIsNotWritten(t *testing.T) {
	r := newRig(t, Config{})
	ask := r.pending(establishedFleet(2, older))
	r.want(r.step(Event{Kind: EvMoved, Own: r.m.Own()}))
	r.want(r.step(Event{Kind: EvRedirect, Ask: ask.Ask + 1, Endpoint: "10.0.0.9:6674"})) // of no ask of this machine
	r.want(r.answer(ask, wire.OutcomeApproved), ActStopAsk, ActMove)
	r.want(r.step(Event{Kind: EvMoveFailed, Err: "disk full"}), ActSay)
	r.want(r.wait(MoveRetry - time.Second))
	again := r.want(r.wait(time.Second), ActAsk)[0]
	r.want(r.answer(again, wire.OutcomeApproved), ActStopAsk, ActMove)
}

// Triggers that come while a record is being written are kept in their order, each once.
func TestTriggersWaitInTheirOrder(t *testing.T) {
	r := newRig(t, Config{})
	r.want(r.step(Event{Kind: EvOwnFleetRecordedMachine}), ActMove)
	for _, on := range []Trigger{SeatedAsLearner, OwnRecordForgotten, SeatedAsLearner} {
		r.want(r.step(Event{Kind: EvTrigger, Trigger: on}))
	}
	own := r.m.Own()
	own.Mode, own.Established = Voter, true
	out := r.want(r.step(Event{Kind: EvMoved, Own: own}), ActMove)
	if out[0].Transition.On != SeatedAsLearner {
		t.Fatalf("%+v", out[0])
	}
	out = r.want(r.done(out), ActMove)
	if out[0].Transition.On != OwnRecordForgotten {
		t.Fatalf("%+v", out[0])
	}
	r.want(r.done(out))
	if n := r.m.Count(CountMovesIgnored); n != 0 {
		t.Errorf("%d ignored", n)
	}
}

// What the target says of itself later is what is known of it: a fleet of one that was asked has become more.
func TestTargetsStateIsItsLatest(t *testing.T) {
	r := newRig(t, Config{})
	r.pending(solitaryFleet(2, older))
	r.want(r.beacon(establishedFleet(2, older)))
	if got := r.m.Own().Target.State; got != wire.StateEstablished {
		t.Errorf("%v", got)
	}
}

// What became of each seed is told: this machine itself, one that did not answer, and one that is not due before its minute is over.
func TestWhatBecameOfSeeds(t *testing.T) {
	r := newRig(t, Config{Seeds: []Seed{{"10.0.0.1:6674", OriginSeed}, {"10.0.0.2:6674", OriginSeed}, {"10.0.0.3:6674", OriginSeed}}, Rejections: []Rejection{{idOf(3), time.Hour}}})
	var asked []string
	for range 3 {
		asked = append(asked, r.want(r.step(Event{Kind: EvTick}), ActAskSummary)[0].Endpoint)
		r.now = r.now.Add(time.Second)
	}
	if want := []string{"10.0.0.1:6674", "10.0.0.2:6674", "10.0.0.3:6674"}; !slices.Equal(asked, want) {
		t.Fatalf("asked were %q, want one a beat: %q", asked, want)
	}
	r.answersAt("10.0.0.1:6674", solitaryFleet(1, younger)) // under this machine's own key
	r.step(Event{Kind: EvSummaryFailed, Endpoint: "10.0.0.2:6674", Err: "refused"})
	r.answersAt("10.0.0.3:6674", solitaryFleet(3, younger+1))
	var got []Say
	for _, s := range r.m.Seeds() {
		got = append(got, s.Say)
	}
	if !slices.Equal(got, []Say{SaySeedIsSelf, SaySeedFailed, 0}) {
		t.Errorf("said are %v", got)
	}
	r.now = r.now.Add(time.Minute - 2*time.Second - 1) // a nanosecond before the second one's minute is over
	r.want(r.step(Event{Kind: EvTick}))
	r.now = r.now.Add(1)
	if a := r.want(r.step(Event{Kind: EvTick}), ActAskSummary)[0]; a.Endpoint != "10.0.0.2:6674" {
		t.Errorf("%+v", a)
	}
}

// A seed's host is a DNS name of 253 bytes at most.
func TestLongestSeed(t *testing.T) {
	name := strings.Repeat(strings.Repeat("s", 49)+".", 6)[:252] + "s"
	if got, err := ParseSeed(name); err != nil || got != name+":6674" {
		t.Errorf("of %d bytes: %q, %v", len(name), got, err)
	}
	if got, err := ParseSeed(name + ":65535"); err != nil || got != name+":65535" {
		t.Errorf("with a port: %q, %v", got, err)
	}
	for _, long := range []string{name + "s", name + "ssssssss", name + "s:6674"} {
		if _, err := ParseSeed(long); !errors.Is(err, ErrSeedHost) {
			t.Errorf("of %d bytes: %v", len(long), err)
		}
	}
}

// A pointer that says where and not whom leads back to this machine: its own answer closes the ring, and the tie-break opens it. One that
// leads to another machine of this one's own fleet is no news.
func TestPointerThatLeadsHere(t *testing.T) {
	for _, c := range []struct {
		name    string
		target  uint64
		speaker int
		moves   bool
	}{{"this machine is the elder", older + 1, 1, true}, {"its target is the elder", older - 1, 1, false}, {"another machine of its fleet", older + 1, 8, false}} {
		r := newRig(t, Config{Own: ownOf(1, older), Seeds: []Seed{{"10.0.0.2:6674", OriginSeed}}})
		r.want(r.step(Event{Kind: EvTick}), ActAskSummary)
		r.answersAt("10.0.0.2:6674", solitaryFleet(2, c.target))
		r.want(r.done(r.wait(ChoiceAfterProof)), ActAsk)
		points := pendingFleet(2, c.target, 1)
		points.Pointer = wire.Leader{Endpoint: "10.0.0.1:6674"}
		if a := r.want(r.beacon(points), ActAskSummary)[0]; a.Endpoint != "10.0.0.1:6674" {
			t.Fatalf("%+v", a)
		}
		answer := solitaryFleet(1, older)
		answer.SpeakerKey = keyOf(c.speaker)
		out := r.answersAt("10.0.0.1:6674", answer)
		move := find(out, ActMove)
		if (move != nil) != c.moves || move != nil && (move.Transition.On != TargetPendingHere || move.Transition.To != Solitary) || r.m.walk != nil {
			t.Errorf("%s: %+v", c.name, out)
		}
	}
}
