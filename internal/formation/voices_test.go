package formation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// voiceOf is machine n, a member of the fleet of machine of, which says that machine lead leads it.
func voiceOf(n, of, lead int) Fleet {
	f := establishedFleet(of, older)
	f.Speaker, f.SpeakerKey, f.SpeakerEndpoint = fmt.Sprintf("n-%d", n), keyOf(n), fmt.Sprintf("10.0.0.%d:6674", n)
	f.Leader = solitaryFleet(lead, older).Leader
	return f
}

func asksAt(out []Action, endpoint string) bool {
	a := find(out, ActAsk)
	return a != nil && a.Target.Endpoint == endpoint
}

// waiting is a machine that waits at the fleet of machine 2, where it was answered.
func waiting(t *testing.T, cfg Config) (*rig, Action) {
	t.Helper()
	r := newRig(t, cfg)
	ask := r.pending(establishedFleet(2, older))
	r.want(r.answer(ask, wire.OutcomePending))
	return r, ask
}

// unanswered ends asks that brought nothing.
func (r *rig) unanswered(times int) (out []Action) {
	r.t.Helper()
	for range times {
		out = append(out, r.wait(AskAgain)...)
		out = append(out, r.step(Event{Kind: EvAskEnded})...)
	}
	return out
}

// What happened to the ask, and whether another speaker's word of who leads the fleet is taken at once.
func TestWhenAnotherSpeakersWordIsTaken(t *testing.T) {
	gone := func(r *rig, ask Action) {
		r.step(Event{Kind: EvAskEnded, Ask: ask.Ask}) // the stream of an ask that was answered
		r.unanswered(LostAsks)
	}
	for _, c := range []struct {
		name  string
		state func(r *rig, ask Action)
		word  Fleet
		at    string // whom it asks then; empty: nothing changes
	}{
		{"the stream stands", func(*rig, Action) {}, voiceOf(8, 2, 8), ""},
		{"the stream ended", func(r *rig, ask Action) { r.step(Event{Kind: EvAskEnded, Ask: ask.Ask}) }, voiceOf(8, 2, 8), ""},
		{"one ask was not answered", func(r *rig, ask Action) {
			r.step(Event{Kind: EvAskEnded, Ask: ask.Ask})
			r.unanswered(LostAsks - 1)
		}, voiceOf(8, 2, 8), ""},
		{"two asks were not answered", gone, voiceOf(8, 2, 8), "10.0.0.8:6674"},
		{"two asks were not answered, and a follower names the leader", gone, voiceOf(7, 2, 8), "10.0.0.8:6674"},
		{"two asks were not answered, and the word is the old one", gone, voiceOf(7, 2, 2), ""},
		{"two asks were not answered, and nobody leads", gone, func() Fleet {
			f := voiceOf(7, 2, 8)
			f.Leader = wire.Leader{}
			return f
		}(), ""},
		{"two asks were not answered, and another fleet speaks", gone, voiceOf(8, 9, 8), ""},
		{"a stranger's full list", func(r *rig, ask Action) {
			for range 2 * LostAsks {
				r.step(Event{Kind: EvAskEnded, Full: true})
				r.wait(AskAgain)
			}
		}, voiceOf(8, 2, 8), ""},
		{"redirected to nobody twice", func(r *rig, ask Action) {
			r.step(Event{Kind: EvAskEnded, Ask: ask.Ask})
			for range LostAsks {
				r.wait(AskAgain)
				r.step(Event{Kind: EvRedirect})
			}
		}, voiceOf(8, 2, 8), "10.0.0.8:6674"},
		{"answered again", func(r *rig, ask Action) {
			gone(r, ask)
			again := find(r.wait(AskAgain), ActAsk)
			r.answer(*again, wire.OutcomePending)
		}, voiceOf(8, 2, 8), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, ask := waiting(t, Config{})
			c.state(r, ask)
			out := r.beacon(c.word)
			if c.at != "" && !asksAt(out, c.at) || c.at == "" && find(out, ActAsk) != nil {
				t.Fatalf("%+v", out)
			}
			if got := r.m.Own().Target; c.at == "" && (got.Endpoint != "10.0.0.2:6674" || slices.Contains(got.Keys, c.word.SpeakerKey)) {
				t.Fatalf("taken over: %+v", got)
			}
		})
	}
}

// A target whose machine lost its power keeps the ask's stream open for a while: another speaker's word has it asked
// whether it is there, and when it is not, whoever spoke is asked who leads.
func TestDoubtOfATarget(t *testing.T) {
	r, _ := waiting(t, Config{})
	out := r.want(r.beacon(voiceOf(8, 2, 8)), ActAskSummary)
	if out[0].Endpoint != "10.0.0.2:6674" {
		t.Fatalf("%+v", out)
	}
	r.want(r.answersAt("10.0.0.2:6674", establishedFleet(2, older))) // it is there: whoever spoke was nobody
	r.want(r.beacon(voiceOf(8, 2, 8)))                               // nor is it asked again at once
	r.now = r.now.Add(WalkAgain)
	r.want(r.beacon(voiceOf(8, 2, 8)), ActAskSummary)
	out = r.want(r.step(Event{Kind: EvSummaryFailed, Endpoint: "10.0.0.2:6674", Err: "no answer within 3 s"}), ActAskSummary)
	if out[0].Endpoint != "10.0.0.8:6674" {
		t.Fatalf("%+v", out)
	}
	if out = r.answersAt("10.0.0.8:6674", voiceOf(8, 2, 8)); !asksAt(out, "10.0.0.8:6674") {
		t.Fatalf("%+v", out)
	}
	r.want(r.beacon(voiceOf(7, 2, 2))) // an older word, of one that the new target did not name
}

// Where no beacon reaches, the seeds are asked who leads, each once a minute.
func TestSeedsAreAskedWhoLeads(t *testing.T) {
	seeds := []Seed{{"10.0.0.2:6674", OriginSeed}, {"10.0.0.8:6674", OriginSeed}}
	r := newRig(t, Config{Seeds: seeds})
	r.wait(2 * Beat)
	r.answersAt("10.0.0.2:6674", establishedFleet(2, older))
	r.step(Event{Kind: EvSummaryFailed, Endpoint: "10.0.0.8:6674", Err: "refused"})
	out := r.wait(ChoiceAfterProof)
	ask := *find(r.done(out), ActAsk)
	r.answer(ask, wire.OutcomePending)
	r.wait(SeedPeriod)
	r.step(Event{Kind: EvAskEnded, Ask: ask.Ask})
	out = r.unanswered(LostAsks)
	if a := find(out, ActAskSummary); a == nil || a.Endpoint != "10.0.0.8:6674" || a.Origin != OriginSeed {
		t.Fatalf("%+v", out)
	}
	r.step(Event{Kind: EvSummaryFailed, Endpoint: "10.0.0.8:6674", Err: "refused"})
	if out = r.wait(SeedPeriod - time.Second); find(out, ActAskSummary) != nil {
		t.Fatalf("more than once a minute: %+v", out)
	}
	if out = r.wait(time.Second); find(out, ActAskSummary) == nil {
		t.Fatal("not asked again")
	}
	if out = r.answersAt("10.0.0.8:6674", voiceOf(8, 2, 8)); !asksAt(out, "10.0.0.8:6674") {
		t.Fatalf("%+v", out)
	}
}

// Each of those who spoke is asked in its turn, a beat or two apart, and no more are kept than the bound.
func TestVoicesTakeTurns(t *testing.T) {
	r, ask := waiting(t, Config{})
	for n := 10; n < 10+2*MaxVoices; n++ {
		r.beacon(voiceOf(n, 2, 2))
	}
	if len(r.m.voices) != MaxVoices {
		t.Fatalf("%d are kept", len(r.m.voices))
	}
	r.step(Event{Kind: EvAskEnded, Ask: ask.Ask})
	asked := map[string]int{}
	began, out := r.now, r.unanswered(LostAsks)
	for range MaxVoices {
		for _, a := range out {
			if a.Kind == ActAskSummary {
				asked[a.Endpoint]++
				r.step(Event{Kind: EvSummaryFailed, Endpoint: a.Endpoint, Err: "refused"})
			}
		}
		out = r.wait(SearchEvery)
	}
	if len(asked) != MaxVoices {
		t.Fatalf("asked in %s: %v", r.now.Sub(began), asked)
	}
	for endpoint, times := range asked {
		if times > 2 {
			t.Errorf("%s was asked %d times", endpoint, times)
		}
	}
	r.now = r.now.Add(ProofFresh)
	if out = r.wait(SearchEvery); find(out, ActAskSummary) != nil {
		t.Errorf("asked by a word of long ago: %+v", out)
	}
}

// A pin holds here as everywhere: whom it does not name is not asked, however long the target is silent.
func TestPinnedMachineAndAnotherSpeakersWord(t *testing.T) {
	r, ask := waiting(t, Config{Pin: &Pin{Cluster: idOf(2), Keys: []identity.PublicKey{keyOf(2), keyOf(5)}}})
	r.step(Event{Kind: EvAskEnded, Ask: ask.Ask})
	r.unanswered(LostAsks)
	if out := r.beacon(voiceOf(8, 2, 8)); find(out, ActAsk) != nil || find(out, ActForeignVisible) == nil {
		t.Fatalf("%+v", out)
	}
	if out := r.beacon(voiceOf(5, 2, 5)); !asksAt(out, "10.0.0.5:6674") {
		t.Fatalf("%+v", out)
	}
}
