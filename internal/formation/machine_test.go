package formation

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

func TestChoosesTheBestHalfASecondAfterTheFirstProof(t *testing.T) {
	r := newRig(t, Config{})
	r.want(r.beacon(solitaryFleet(3, older+500)))
	r.now = r.now.Add(300 * time.Millisecond)
	r.want(r.beacon(solitaryFleet(2, older)))
	r.now = r.now.Add(199 * time.Millisecond)
	r.want(r.beacon(solitaryFleet(4, older+10)))
	if next := r.m.Next(r.now); next.Sub(r.now) != time.Millisecond {
		t.Fatalf("next tick in %v", next.Sub(r.now))
	}
	out := r.want(r.wait(time.Millisecond), ActMove)
	if out[0].Target.Cluster != idOf(2) || out[0].Transition.Effect != EffectRecordTarget {
		t.Fatalf("asked %+v", out[0])
	}
	if got := out[0].Target; got.Endpoint != "10.0.0.2:6674" || len(got.Keys) != 1 || got.Keys[0] != keyOf(2) || got.Fallback != "" {
		t.Fatalf("target %+v", got)
	}
	if r.m.Count(CountYields) != 1 {
		t.Fatal("not counted")
	}
	r.want(r.beacon(establishedFleet(5, older))) // nothing else moves while the record is being written
	r.want(r.done(out), ActAsk)
}

// Whom to ask, in order: origin, established before solitary, older, lower cluster id. Each fleet here would win all the
// later comparisons.
func TestRanking(t *testing.T) {
	seed := solitaryFleet(9, younger+9)
	seed.Origin = OriginSeed
	remembered := establishedFleet(8, older+8)
	remembered.Origin = OriginRemembered
	srv := establishedFleet(7, older+7)
	srv.Origin = OriginSRV
	order := []Fleet{seed, remembered, srv, establishedFleet(6, older+6), solitaryFleet(5, older-5), solitaryFleet(3, older+4), solitaryFleet(4, older+4)}
	for i := range order {
		for j := range order {
			if got := rank(order[i], order[j]); i < j && got >= 0 || i > j && got <= 0 || i == j && got != 0 {
				t.Errorf("rank(%d, %d) = %d", i, j, got)
			}
		}
	}
	board := solitaryFleet(2, 20) // 1970 is no age to be preferred for
	if rank(board, order[6]) <= 0 {
		t.Error("a board without a clock is preferred as the elder")
	}
}

func TestTypedSeedsAreAskedFirstAndBeforeAnyFleetIsChosen(t *testing.T) {
	r := newRig(t, Config{Seeds: []Seed{{"typed-1:6674", OriginSeed}, {"typed-2:6674", OriginSeed}, {"old:6674", OriginRemembered}}})
	r.beacon(establishedFleet(5, older))
	out := r.wait(10 * time.Millisecond)
	all := append(slices.Clone(out), r.wait(1100*time.Millisecond)...)
	var asked []string
	for _, a := range all {
		if a.Kind == ActMove {
			t.Fatal("chosen before the typed seeds answered")
		}
		asked = append(asked, a.Endpoint)
	}
	if !slices.Equal(asked, []string{"typed-1:6674", "typed-2:6674"}) && !slices.Equal(asked, []string{"typed-2:6674"}) {
		t.Fatalf("asked %v", asked)
	}
	r.want(r.step(Event{Kind: EvSummaryFailed, Endpoint: "typed-1:6674", Err: "refused"}), ActSay)
	solitary := solitaryFleet(6, younger+5000) // younger than this machine, but typed
	out = r.answersAt("typed-2:6674", solitary)
	move := find(out, ActMove)
	if move == nil || move.Target.Cluster != idOf(6) || move.Target.Origin != OriginSeed {
		t.Fatalf("%+v", out)
	}
	if move.Target.Fallback != "typed-2:6674" {
		t.Fatalf("the address that answered is no fallback: %+v", move.Target)
	}
}

func TestSeedThatIsSilentHoldsTheChoiceOnlyOnce(t *testing.T) {
	r := newRig(t, Config{Seeds: []Seed{{"blackhole:6674", OriginSeed}}})
	r.want(r.step(Event{Kind: EvTick}), ActAskSummary)
	r.beacon(establishedFleet(5, older))
	out := r.wait(DialTimeout + Beat)
	if say := find(out, ActSay); say == nil || say.Say != SaySeedFailed {
		t.Fatalf("not said: %+v", out)
	}
	if find(out, ActMove) == nil {
		t.Fatalf("a seed that never answers holds the choice up: %+v", out)
	}
}

func TestSeedsAreAskedOnceAMinuteAndTheirFailureIsSaidOnce(t *testing.T) {
	r := newRig(t, Config{Seeds: []Seed{{"a:1", OriginSeed}, {"b:1", OriginRemembered}, {"c:1", OriginSRV}}})
	var order []string
	said := 0
	for end := r.now.Add(5 * time.Minute); r.now.Before(end); {
		for _, a := range r.wait(100 * time.Millisecond) {
			switch a.Kind {
			case ActAskSummary:
				order = append(order, a.Endpoint)
				for _, b := range r.step(Event{Kind: EvSummaryFailed, Endpoint: a.Endpoint, Err: "no route"}) {
					if b.Kind == ActSay {
						said++
					}
				}
			case ActSay:
				said++
			}
		}
	}
	if !slices.Equal(order[:3], []string{"a:1", "b:1", "c:1"}) {
		t.Errorf("first asked %v", order[:3])
	}
	if len(order) != 15 {
		t.Errorf("%d asks in five minutes of three seeds: %v", len(order), order)
	}
	if said != 3 {
		t.Errorf("said %d times", said)
	}
}

func TestSeedThatIsThisMachineIsNotedOnce(t *testing.T) {
	r := newRig(t, Config{Seeds: []Seed{{"node1:6674", OriginSeed}}})
	r.want(r.step(Event{Kind: EvTick}), ActAskSummary)
	out := r.want(r.answersAt("node1:6674", solitaryFleet(1, younger)), ActSay)
	if out[0].Say != SaySeedIsSelf {
		t.Fatalf("%+v", out)
	}
	r.want(r.wait(10 * time.Minute))
}

func TestTypedSeedOnAMemberIsNotFollowed(t *testing.T) {
	own := ownOf(1, younger)
	own.Mode, own.Established = Learner, true
	r := newRig(t, Config{Own: own, Seeds: []Seed{{"a1:6674", OriginSeed}, {"old:6674", OriginRemembered}}})
	out := r.want(r.step(Event{Kind: EvTick}), ActSay)
	if out[0].Say != SaySeedNotFollowed || out[0].Endpoint != "a1:6674" {
		t.Fatalf("%+v", out[0])
	}
	r.want(r.wait(10 * time.Minute))
	if got := r.m.NotFollowed(); !slices.Equal(got, []string{"a1:6674"}) {
		t.Fatalf("status says %v", got)
	}
	r.want(r.beacon(establishedFleet(2, older)), ActForeignVisible)
}

func TestPointerIsFollowedOneStepAMinute(t *testing.T) {
	r := newRig(t, Config{})
	r.want(r.beacon(pendingFleet(2, older, 9)))
	out := r.want(r.wait(ChoiceAfterProof), ActAskSummary)
	if out[0].Endpoint != "10.0.0.9:6674" || out[0].Origin != OriginBeacon {
		t.Fatalf("%+v", out[0])
	}
	r.step(Event{Kind: EvSummaryFailed, Endpoint: "10.0.0.9:6674"})
	asks := 0
	for range 12 {
		r.beacon(pendingFleet(2, older, 9))
		for _, a := range r.wait(15 * time.Second) {
			if a.Kind == ActAskSummary {
				asks++
				r.step(Event{Kind: EvSummaryFailed, Endpoint: a.Endpoint})
			}
		}
	}
	if asks != 3 && asks != 2 {
		t.Fatalf("%d steps in three minutes", asks)
	}
	r.beacon(pendingFleet(2, older, 9))
	out = r.wait(time.Minute)
	if find(out, ActAskSummary) == nil {
		t.Fatal("not followed")
	}
	out = r.answersAt("10.0.0.9:6674", establishedFleet(9, older))
	if move := find(out, ActMove); move == nil || move.Target.Cluster != idOf(9) || move.Target.Origin != OriginBeacon {
		t.Fatalf("%+v", out)
	}
}

func TestPointerToThisMachineOrToAKnownFleetIsNotFollowed(t *testing.T) {
	r := newRig(t, Config{Own: ownOf(1, older)})
	r.beacon(pendingFleet(2, younger, 1))
	r.beacon(solitaryFleet(3, younger)) // known, and no reason to yield
	r.beacon(pendingFleet(4, younger, 3))
	r.want(r.wait(80 * time.Second))
}

func TestAbandonedAfterTenMinutesWithoutASignedAnswer(t *testing.T) {
	r := newRig(t, Config{})
	ask := r.pending(establishedFleet(2, older))
	r.want(r.wait(9 * time.Minute))
	r.want(r.answer(ask, wire.OutcomePending))
	r.want(r.wait(AbandonAfter - time.Second))
	// An answer that did not verify counts as none.
	r.want(r.step(Event{Kind: EvAnswerRefused, Ask: ask.Ask, Err: "bad signature"}), ActSay)
	r.want(r.step(Event{Kind: EvAnswerRefused, Ask: ask.Ask, Err: "bad signature"}))
	out := r.want(r.wait(time.Second), ActStopAsk, ActMove)
	if out[1].Transition.On != Abandoned || out[1].Target != nil {
		t.Fatalf("%+v", out[1])
	}
	r.want(r.done(out))
	if r.m.Count(CountJoinsAbandoned) != 1 || r.m.Count(CountAdmissionsRefused) != 2 {
		t.Fatal("not counted")
	}
	// It is asked again later, and any other fleet before it.
	r.want(r.beacon(establishedFleet(2, older)))
	r.want(r.wait(AbandonHold - time.Second))
	r.want(r.beacon(establishedFleet(2, older)))
	out = r.wait(time.Second)
	if move := find(out, ActMove); move == nil || move.Target.Cluster != idOf(2) {
		t.Fatalf("not asked again: %+v", out)
	}
}

func TestAnotherFleetIsAskedBeforeTheAbandonedOne(t *testing.T) {
	r := newRig(t, Config{})
	r.pending(establishedFleet(2, older))
	r.want(r.done(r.wait(AbandonAfter)))
	r.now = r.now.Add(AbandonHold)
	r.beacon(pendingFleet(8, older, 7)) // nothing to choose yet
	r.m.remember(r.now, establishedFleet(2, older), "")
	out := r.beacon(solitaryFleet(3, older+9)) // ranks below it otherwise
	if move := find(out, ActMove); move == nil || move.Target.Cluster != idOf(3) {
		t.Fatalf("%+v", out)
	}
}

func TestRejectedIsNotAskedForAnHour(t *testing.T) {
	r := newRig(t, Config{})
	ask := r.pending(establishedFleet(2, older))
	out := r.want(r.answer(ask, wire.OutcomeRejected), ActStopAsk, ActMove)
	if out[1].Transition.Effect != EffectRememberRejection || out[1].Revoked {
		t.Fatalf("%+v", out[1])
	}
	if rej := r.m.Rejections(r.now); len(rej) != 1 || rej[0].Cluster != idOf(2) || rej[0].Left != time.Hour {
		t.Fatalf("the record would remember %+v", rej)
	}
	r.want(r.done(out))
	for r.m.Rejections(r.now)[0].Left > 15*time.Second {
		r.want(r.beacon(establishedFleet(2, older)))
		r.want(r.wait(15 * time.Second))
	}
	r.beacon(establishedFleet(2, older))
	if find(r.wait(16*time.Second), ActMove) == nil {
		t.Fatal("an hour later it is not asked again")
	}
}

func TestRejectionSurvivesARestartAsWhatIsLeft(t *testing.T) {
	r := newRig(t, Config{Rejections: []Rejection{{idOf(2), 10 * time.Second}, {idOf(3), 1000 * time.Hour}, {"", time.Hour}, {idOf(4), -time.Second}}})
	if got := r.m.Rejections(r.now); len(got) != 2 || got[1].Left != time.Hour {
		t.Fatalf("%+v", got)
	}
	r.beacon(establishedFleet(2, older))
	r.want(r.wait(9 * time.Second))
	if find(r.wait(time.Second), ActMove) == nil {
		t.Fatal("not asked when the rejection was over")
	}
}

func TestRevokedIsNeverAskedAgain(t *testing.T) {
	r := newRig(t, Config{})
	ask := r.pending(establishedFleet(2, older))
	out := r.want(r.answer(ask, wire.OutcomeRevoked), ActStopAsk, ActMove)
	if !out[1].Revoked || !slices.Equal(r.m.Revoked(), []string{idOf(2)}) {
		t.Fatalf("%+v", out[1])
	}
	r.want(r.done(out))
	for range 300 {
		r.want(r.beacon(establishedFleet(2, older)))
		r.want(r.wait(15 * time.Second))
	}
	again := newRig(t, Config{RevokedIn: r.m.Revoked()})
	again.beacon(establishedFleet(2, older))
	again.want(again.wait(time.Minute))
}

func TestApprovedDissolvesAndForgetsTheOtherFleets(t *testing.T) {
	r := newRig(t, Config{})
	ask := r.pending(establishedFleet(2, older))
	out := r.want(r.answer(ask, wire.OutcomeApproved), ActStopAsk, ActMove)
	if m := out[1]; m.Transition.To != Learner || !m.Transition.Rebuild || string(m.Roster) != "roster" || m.Target.Cluster != idOf(2) {
		t.Fatalf("%+v", m)
	}
	r.want(r.done(out))
	if own := r.m.Own(); own.Mode != Learner || own.Cluster != idOf(2) || own.State() != wire.StateEstablished {
		t.Fatalf("%+v", own)
	}
	r.want(r.beacon(establishedFleet(2, older)))
	r.want(r.wait(time.Minute))
	r.want(r.beacon(establishedFleet(3, older-9)), ActForeignVisible)
}

func TestAskIsOpenedAgainEveryTwoSeconds(t *testing.T) {
	r := newRig(t, Config{})
	ask := r.pending(establishedFleet(2, older))
	for range 5 {
		r.want(r.step(Event{Kind: EvAskEnded, Ask: ask.Ask, Err: "refused"}))
		r.want(r.step(Event{Kind: EvAskEnded, Ask: ask.Ask - 1, Err: "of an earlier one"}))
		r.want(r.wait(AskAgain - time.Millisecond))
		ask = r.want(r.wait(time.Millisecond), ActAsk)[0]
	}
	r.want(r.step(Event{Kind: EvRedirect, Ask: ask.Ask, Endpoint: ""})) // an election
	ask = r.want(r.wait(AskAgain), ActAsk)[0]
	r.want(r.step(Event{Kind: EvRedirect, Ask: ask.Ask, Endpoint: "no endpoint"}))
	r.want(r.wait(AskAgain), ActAsk)
}

func TestPendingIsAskedAgainAfterARestart(t *testing.T) {
	r := newRig(t, Config{})
	r.pending(establishedFleet(2, older))
	again := newRig(t, Config{Own: r.m.Own()})
	out := again.want(again.step(Event{Kind: EvTick}), ActAsk)
	if out[0].Target.Endpoint != "10.0.0.2:6674" {
		t.Fatalf("%+v", out[0])
	}
	again.want(again.wait(AbandonAfter-time.Second), []ActionKind{}...)
	again.want(again.wait(time.Second), ActStopAsk, ActMove)
}

func TestRecordThatIsNotWritten(t *testing.T) {
	r := newRig(t, Config{})
	r.beacon(establishedFleet(2, older))
	r.want(r.wait(ChoiceAfterProof), ActMove)
	out := r.want(r.step(Event{Kind: EvMoveFailed, Err: "disk full"}), ActSay)
	if out[0].Say != SayMoveRefused || r.m.Own().Mode != Solitary {
		t.Fatalf("%+v", out)
	}
	r.want(r.step(Event{Kind: EvOwnFleetRecordedMachine}))
	r.beacon(establishedFleet(2, older))
	r.want(r.wait(MoveRetry - time.Second))
	out = r.want(r.wait(time.Second), ActMove) // what came from elsewhere was kept, and comes first
	if out[0].Transition.On != OwnFleetRecordedMachine {
		t.Fatalf("%+v", out[0])
	}
}

func TestTriggersFromElsewhere(t *testing.T) {
	r := newRig(t, Config{})
	r.want(r.step(Event{Kind: EvForgotten})) // solitary: nobody can forget it
	r.want(r.step(Event{Kind: EvGiveUpAsk}))
	r.want(r.step(Event{Kind: EvTrigger, Trigger: Approved})) // this package's own conclusion
	r.want(r.step(Event{Kind: EvTrigger, Trigger: Trigger(99)}))
	if n := r.m.Count(CountMovesIgnored); n != 4 {
		t.Fatalf("%d ignored", n)
	}
	out := r.want(r.step(Event{Kind: EvOwnFleetRecordedMachine}), ActMove)
	if out[0].Transition.To != Voter {
		t.Fatalf("%+v", out[0])
	}
	// What comes while the record is being written waits for it.
	r.want(r.step(Event{Kind: EvTrigger, Trigger: SeatedAsLearner}))
	r.want(r.step(Event{Kind: EvTrigger, Trigger: SeatedAsLearner}))
	own := r.m.Own()
	own.Mode, own.Established = Voter, true
	out = r.want(r.step(Event{Kind: EvMoved, Own: own}), ActMove)
	if out[0].Transition.On != SeatedAsLearner || out[0].Transition.To != Learner {
		t.Fatalf("%+v", out[0])
	}
	r.want(r.done(out))
	out = r.want(r.step(Event{Kind: EvForgotten}), ActMove)
	if out[0].Transition.Effect != EffectMintNew || !slices.Contains(r.m.Revoked(), idOf(1)) {
		t.Fatalf("%+v", out[0])
	}
}

// Each trigger that comes from elsewhere, in each mode: the page's row is begun, and any other pair is ignored and counted.
func TestEveryTriggerFromElsewhereInEveryMode(t *testing.T) {
	for _, from := range allModes {
		for _, on := range allTriggers {
			if row, _ := on.Row(); !row.External {
				continue
			}
			own := ownOf(1, younger)
			own.Mode = from
			target := &Target{Cluster: idOf(2), Endpoint: "10.0.0.2:6674", Keys: []identity.PublicKey{keyOf(2)}}
			switch from {
			case Pending:
				own.Target = target
			case Learner, Voter:
				own.Established = true
			}
			r := newRig(t, Config{Own: own})
			out := r.step(Event{Kind: EvTrigger, Trigger: on, Target: target, Roster: []byte("roster"), From: keyOf(2)})
			move, ignored := find(out, ActMove), r.m.Count(CountMovesIgnored)
			want, known := wantTransitions[from][on]
			switch {
			case !known && (move != nil || ignored != 1):
				t.Errorf("%v on %v: %+v, and %d are counted", from, on, out, ignored)
			case known && (move == nil || ignored != 0):
				t.Errorf("%v on %v is not begun: %+v, and %d are counted", from, on, out, ignored)
			case known && (cell{move.Transition.To, move.Transition.Effect, move.Transition.Rebuild}) != want:
				t.Errorf("%v on %v: %+v", from, on, move.Transition)
			}
		}
	}
}

// A machine that was forgotten starts anew: the fleets of one that it had proven as a member are gone by then.
func TestForgottenJudgesOnlyWhatItHearsFromThenOn(t *testing.T) {
	own := ownOf(1, younger)
	own.Mode, own.Established = Learner, true
	r := newRig(t, Config{Own: own})
	gone := solitaryFleet(2, older)
	r.beacon(gone)
	out := r.done(r.want(r.step(Event{Kind: EvForgotten}), ActMove))
	if out = append(out, r.wait(time.Minute)...); len(out) != 0 {
		t.Fatalf("it acts upon what it heard as a member: %+v", out)
	}
	r.beacon(solitaryFleet(3, older))
	if a := find(r.wait(2*ChoiceAfterProof), ActMove); a == nil || a.Target.Cluster != idOf(3) {
		t.Errorf("%+v, want the fleet that it hears now", a)
	}
}

func TestOwnFleetRecordsAMachineWhileTheYieldIsWritten(t *testing.T) {
	r := newRig(t, Config{})
	r.beacon(establishedFleet(2, older))
	out := r.want(r.wait(ChoiceAfterProof), ActMove)
	r.want(r.step(Event{Kind: EvOwnFleetRecordedMachine}))
	out = r.want(r.done(out), ActMove)
	if tr := out[0].Transition; tr.From != Pending || tr.To != Voter || tr.Effect != EffectClearTarget {
		t.Fatalf("%+v", tr)
	}
}

func TestGivenUpByAnOperatorIsNotAskedAtTheNextBeat(t *testing.T) {
	r := newRig(t, Config{})
	r.pending(establishedFleet(2, older))
	r.want(r.done(r.want(r.step(Event{Kind: EvGiveUpAsk}), ActStopAsk, ActMove)))
	r.want(r.beacon(establishedFleet(2, older)))
	r.want(r.wait(59 * time.Minute))
}

func TestForeignFleetClearsFiveMinutesAfterItsLastProof(t *testing.T) {
	own := ownOf(1, younger)
	own.Mode, own.Established = Voter, true
	r := newRig(t, Config{Own: own})
	if r.m.ForeignClear(r.now) || r.m.ForeignClear(r.now.Add(ForeignQuiet-1)) || !r.m.ForeignClear(r.now.Add(ForeignQuiet)) {
		t.Fatal("before one beacon period nothing is clear")
	}
	out := r.want(r.beacon(establishedFleet(2, older)), ActForeignVisible)
	if out[0].Why != WhyNeitherYields || out[0].Fleet.Cluster != idOf(2) {
		t.Fatalf("%+v", out[0])
	}
	r.want(r.wait(4 * time.Minute))
	r.want(r.beacon(establishedFleet(2, older)))
	r.want(r.wait(ForeignClearAfter - time.Second))
	if len(r.m.Foreign(r.now)) != 1 || r.m.ForeignClear(r.now) {
		t.Fatal("not visible")
	}
	r.want(r.wait(time.Second), ActForeignClear)
	r.want(r.beacon(solitaryFleet(3, older)))
	r.want(r.beacon(pendingFleet(4, older, 2)))
}

func TestTablesAreBounded(t *testing.T) {
	own := ownOf(1, older)
	own.Mode, own.Established = Voter, true
	r := newRig(t, Config{Own: own})
	for i := 2; i < 500; i++ {
		r.beacon(establishedFleet(i, younger))
		r.step(Event{Kind: EvProven, Fleet: pendingFleet(i+1000, younger, 5)})
	}
	if len(r.m.fleets) != MaxFleets || len(r.m.Foreign(r.now)) != MaxForeign {
		t.Fatalf("%d fleets, %d visible", len(r.m.fleets), len(r.m.Foreign(r.now)))
	}
	// Each of the 498 and of the 498 that are pending, but those that found room; and of the first ones each that is not shown.
	if n := r.m.Count(CountFleetsOverBound); n != 2*498-MaxFleets+498-MaxForeign {
		t.Errorf("%d that found no room are counted", n)
	}
	for _, s := range r.m.fleets {
		if s.State == wire.StatePending {
			t.Fatal("a pointer displaced an established fleet")
		}
	}
	for i := range 500 {
		r.m.hold(r.now, idOf(i), time.Hour)
	}
	if len(r.m.rejections) != MaxRejections {
		t.Fatalf("%d rejections", len(r.m.rejections))
	}
}

func TestLoopbackEndpointsOfOthersAreTakenOut(t *testing.T) {
	f := establishedFleet(2, older)
	f.Leader.Endpoint, f.SpeakerEndpoint = "127.0.0.1:6674", "0.0.0.0:6674"
	r := newRig(t, Config{})
	r.beacon(f)
	r.want(r.wait(time.Minute))
	if r.m.Count(CountEndpointsRefused) != 2 {
		t.Fatal("not counted")
	}
	demo := newRig(t, Config{LoopbackOK: true})
	demo.beacon(f) // a loopback endpoint from elsewhere stays refused
	demo.want(demo.wait(time.Minute))
	f.From = netip.MustParseAddrPort("127.0.0.1:40000")
	if out := demo.beacon(f); find(out, ActMove) == nil {
		t.Fatalf("the demo on one machine does not form: %+v", out)
	}
}

func TestFallbackIsTheSourceOfTheProof(t *testing.T) {
	f := establishedFleet(2, older)
	f.Leader.Endpoint, f.SpeakerEndpoint = "10.1.0.9:6674", "10.1.0.9:6674"
	f.From = netip.MustParseAddrPort("[::ffff:10.2.0.9]:6682")
	r := newRig(t, Config{})
	ask := r.pending(f)
	if ask.Target.Endpoint != "10.1.0.9:6674" || ask.Target.Fallback != "10.2.0.9:6674" {
		t.Fatalf("%+v", ask.Target)
	}
	other := establishedFleet(3, older) // spoken by a learner: its address says nothing of the leader's
	other.Leader = wire.Leader{ID: "n-leader", Endpoint: "10.1.0.1:6674", Key: keyOf(7), HasKey: true}
	r = newRig(t, Config{})
	ask = r.pending(other)
	if ask.Target.Fallback != "" || !slices.Equal(ask.Target.Keys, []identity.PublicKey{keyOf(7), keyOf(3)}) {
		t.Fatalf("%+v", ask.Target)
	}
}
