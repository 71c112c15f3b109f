package formation

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pace-node/internal/wire"
)

func TestSRVName(t *testing.T) {
	if got := SRVName("corp.test"); got != "_pace._tcp.corp.test" {
		t.Fatal(got)
	}
}

// Priority ascending, then weight descending; what cannot be dialled is left out.
func TestSRVEndpoints(t *testing.T) {
	got, left := SRVEndpoints([]SRVRecord{
		{"far.corp.test.", 6674, 10, 100}, {"light.corp.test.", 6674, 0, 5}, {"heavy.corp.test.", 7000, 0, 50},
		{"b.corp.test.", 6674, 5, 0}, {"a.corp.test.", 6674, 5, 0}, {"bare.", 6674, 20, 0}, {"10.0.0.9.", 6674, 30, 0},
		{".", 6674, 0, 99}, {"nobody.corp.test.", 0, 0, 99}, {"ho st.", 6674, 0, 99}, {"", 6674, 0, 99}, {"0.0.0.0.", 6674, 0, 99}, {"a,b.", 6674, 0, 0},
	})
	want := []string{"heavy.corp.test:7000", "light.corp.test:6674", "a.corp.test:6674", "b.corp.test:6674", "far.corp.test:6674", "bare.:6674", "10.0.0.9:6674"}
	if !slices.Equal(got, want) || left != 6 {
		t.Fatalf("%q, %d left out", got, left)
	}
	many := make([]SRVRecord, MaxSRV+3)
	for i := range many {
		many[i] = SRVRecord{fmt.Sprintf("h%02d.test.", i), 6674, uint16(len(many) - i), 0}
	}
	if got, left := SRVEndpoints(many); len(got) != MaxSRV || left != 3 || got[0] != fmt.Sprintf("h%02d.test:6674", len(many)-1) {
		t.Fatalf("%q, %d left out", got, left)
	}
}

func TestSRVEndpointsAreSeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var records []SRVRecord
		for range rapid.IntRange(0, 30).Draw(t, "n") {
			records = append(records, SRVRecord{rapid.String().Draw(t, "target"), rapid.Uint16().Draw(t, "port"), rapid.Uint16().Draw(t, "priority"), rapid.Uint16().Draw(t, "weight")})
		}
		got, left := SRVEndpoints(records)
		if len(got)+left != len(records) || len(got) > MaxSRV {
			t.Fatalf("%d of %d, %d left out", len(got), len(records), left)
		}
		for _, e := range got {
			if again, err := ParseSeed(e); err != nil || again != e {
				t.Fatalf("%q: %q, %v", e, again, err)
			}
		}
	})
}

func (r *rig) dns(name string, endpoints ...string) []Action {
	r.t.Helper()
	return r.step(Event{Kind: EvSRV, Endpoint: name, Endpoints: endpoints})
}

const corp = "_pace._tcp.corp.test"

// DNS is asked once a minute while this machine looks for a fleet, and costs no beat; what it names is asked in turn.
func TestSRVIsLookedUpOnceAMinute(t *testing.T) {
	r := newRig(t, Config{SRV: true, Seeds: []Seed{{"typed:6674", OriginSeed}}})
	out := r.want(r.step(Event{Kind: EvTick}), ActLookupSRV, ActAskSummary)
	if out[1].Endpoint != "typed:6674" {
		t.Fatalf("%+v", out[1])
	}
	r.want(r.dns(corp, "one:6674", "two:6674"))
	for _, want := range []string{"one:6674", "two:6674"} {
		out = r.want(r.wait(Beat), ActAskSummary)
		if out[0].Endpoint != want || out[0].Origin != OriginSRV {
			t.Fatalf("%+v", out[0])
		}
		r.step(Event{Kind: EvSummaryFailed, Endpoint: want})
	}
	r.step(Event{Kind: EvSummaryFailed, Endpoint: "typed:6674"})
	r.want(r.wait(SeedPeriod - 2*Beat - time.Millisecond))
	// A minute later: the name again, then who is in it now.
	out = r.wait(2 * time.Millisecond)
	if find(out, ActLookupSRV) == nil {
		t.Fatalf("not looked up again: %+v", out)
	}
	r.want(r.dns(corp, "three:6674"))
	if got := r.m.Seeds(); len(got) != 2 || got[1].Endpoint != "three:6674" {
		t.Fatalf("%+v", got)
	}
	out = r.wait(3 * Beat)
	if a := find(slices.DeleteFunc(out, func(a Action) bool { return a.Origin != OriginSRV }), ActAskSummary); a == nil || a.Endpoint != "three:6674" {
		t.Fatalf("%+v", out)
	}
}

func TestSRVIsNotLookedUp(t *testing.T) {
	member := ownOf(1, older)
	member.Mode, member.Established = Learner, true
	for name, cfg := range map[string]Config{"where nobody can": {}, "by a member": {SRV: true, Own: member}} {
		r := newRig(t, cfg)
		if out := append(r.step(Event{Kind: EvTick}), r.wait(5*time.Minute)...); find(out, ActLookupSRV) != nil {
			t.Errorf("%s: %+v", name, out)
		}
	}
	// No suffix: nobody was asked, and nothing is said.
	r := newRig(t, Config{SRV: true})
	r.want(r.step(Event{Kind: EvTick}), ActLookupSRV)
	r.want(r.dns(""))
	r.want(r.wait(SeedPeriod-time.Millisecond), []ActionKind{}...)
	// While it is pending its own target decides.
	r = newRig(t, Config{SRV: true})
	r.step(Event{Kind: EvTick})
	r.dns(corp)
	r.pending(establishedFleet(2, older))
	if out := r.wait(3 * time.Minute); find(out, ActLookupSRV) != nil {
		t.Errorf("looked up while pending: %+v", out)
	}
}

// A failure is said once, keeps what an earlier answer said, and is said again only after an answer.
func TestSRVFailureIsSaidOnce(t *testing.T) {
	r := newRig(t, Config{SRV: true})
	r.want(r.step(Event{Kind: EvTick}), ActLookupSRV)
	r.dns(corp, "one:6674")
	said := 0
	round := func(e Event) {
		for _, a := range r.wait(SeedPeriod) {
			switch {
			case a.Kind == ActAskSummary:
				r.answersAt(a.Endpoint, solitaryFleet(8, younger+5)) // of another origin it would not win
			case a.Kind == ActLookupSRV:
				e.Kind = EvSRV
				for _, b := range r.step(e) {
					if b.Kind == ActSay && b.Say == SaySRVFailed {
						said++
					}
				}
			}
			if r.m.Own().Mode != Solitary {
				t.Fatal("it went on its way")
			}
		}
	}
	r.m.rejections[idOf(8)] = r.now.Add(1000 * time.Hour)
	fail := Event{Endpoint: corp, Err: "server misbehaving"}
	for range 4 {
		round(fail)
	}
	if got := r.m.Seeds(); said != 1 || len(got) != 1 || got[0].Endpoint != "one:6674" {
		t.Fatalf("said %d times, seeds %+v", said, got)
	}
	round(Event{Endpoint: corp})
	if got := r.m.Seeds(); len(got) != 0 {
		t.Fatalf("%+v", got)
	}
	round(fail)
	if said != 2 {
		t.Fatalf("said %d times", said)
	}
}

// A question that nobody answers has failed after 3 s, and its late answer is nobody's.
func TestSRVThatNeverAnswers(t *testing.T) {
	r := newRig(t, Config{SRV: true})
	r.want(r.step(Event{Kind: EvTick}), ActLookupSRV)
	out := r.want(r.wait(DialTimeout+Beat), ActSay)
	if out[0].Say != SaySRVFailed {
		t.Fatalf("%+v", out[0])
	}
	r.dns(corp, "late:6674")
	if got := r.m.Seeds(); len(got) != 0 {
		t.Fatalf("%+v", got)
	}
}

// Of duplicates the earlier source stays, but what a person typed is asked first and waited for, whoever else names it.
func TestTypedSeedThatIsAlsoRememberedIsTyped(t *testing.T) {
	r := newRig(t, Config{SRV: true, Seeds: []Seed{{"old:6674", OriginRemembered}, {"Both:6674", OriginSeed}, {"both:6674", OriginRemembered}}})
	out := r.want(r.step(Event{Kind: EvTick}), ActLookupSRV, ActAskSummary)
	if out[1].Endpoint != "both:6674" || out[1].Origin != OriginSeed {
		t.Fatalf("%+v", out[1])
	}
	got := r.m.Seeds()
	if len(got) != 2 || got[1].Seed != (Seed{"both:6674", OriginRemembered}) {
		t.Fatalf("%+v", got)
	}
	r.beacon(establishedFleet(5, older))
	r.want(r.wait(ChoiceAfterProof + 100*time.Millisecond)) // it is waited for
	out = r.answersAt("both:6674", solitaryFleet(6, younger+9))
	if m := find(out, ActMove); m == nil || m.Target.Cluster != idOf(6) || m.Target.Origin != OriginSeed {
		t.Fatalf("%+v", out)
	}
}

// What is remembered is the record's: it comes and goes with it, and never holds a choice.
func TestRememberedSeeds(t *testing.T) {
	r := newRig(t, Config{Seeds: []Seed{{"old:6674", OriginRemembered}}})
	out := r.want(r.step(Event{Kind: EvTick}), ActAskSummary)
	if out[0].Endpoint != "old:6674" || out[0].Origin != OriginRemembered {
		t.Fatalf("%+v", out[0])
	}
	out = append(r.beacon(establishedFleet(5, older)), r.wait(ChoiceAfterProof)...)
	if m := find(out, ActMove); m == nil || m.Target.Cluster != idOf(5) {
		t.Fatalf("a remembered seed that is silent holds the choice: %+v", out)
	}
	r = newRig(t, Config{Seeds: []Seed{{"old:6674", OriginRemembered}}})
	r.step(Event{Kind: EvTick})
	r.want(r.step(Event{Kind: EvRemembered, Endpoints: []string{"new:6674"}}))
	if out = r.want(r.wait(Beat), ActAskSummary); out[0].Endpoint != "new:6674" {
		t.Fatalf("%+v", out[0])
	}
	r.want(r.step(Event{Kind: EvSummaryFailed, Endpoint: "old:6674"})) // of one that is no seed any more
	// Found by what is remembered comes before what DNS or a beacon found, though it is younger.
	r.beacon(establishedFleet(5, older))
	r.answersAt("new:6674", establishedFleet(6, younger))
	out = r.wait(ChoiceAfterProof)
	if m := find(out, ActMove); m == nil || m.Target.Cluster != idOf(6) || m.Target.Origin != OriginRemembered {
		t.Fatalf("%+v", out)
	}
}

// A member says once that its typed seed is not followed, unless that is one of its own fleet's voters.
func TestTypedSeedThatIsAVotersOfTheOwnFleetIsNoNews(t *testing.T) {
	own := ownOf(1, older)
	own.Mode, own.Established = Learner, true
	r := newRig(t, Config{Own: own, Seeds: []Seed{{"voter:6674", OriginSeed}, {"voter:6674", OriginRemembered}, {"other:6674", OriginSeed}}})
	out := r.want(r.step(Event{Kind: EvTick}), ActSay)
	if out[0].Say != SaySeedNotFollowed || out[0].Endpoint != "other:6674" {
		t.Fatalf("%+v", out)
	}
	if got := r.m.NotFollowed(); !slices.Equal(got, []string{"other:6674"}) {
		t.Fatal(got)
	}
	for i, want := range []Say{0, SaySeedNotFollowed} {
		if got := r.m.Seeds()[i]; got.Say != want {
			t.Errorf("%+v", got)
		}
	}
}

// The preference is the origin, then established before solitary, then older, then the lower cluster id: each rule decides
// only where those before it leave a tie, and wins against all those after it.
func TestPreferenceRuleByRule(t *testing.T) {
	at := func(origin Origin, state wire.SummaryState, created uint64, n int) Fleet {
		f := solitaryFleet(n, created)
		f.Origin, f.State = origin, state
		return f
	}
	const sol, est = wire.StateSolitary, wire.StateEstablished
	for _, c := range []struct {
		rule         string
		first, later Fleet
	}{
		{"found by --fleet-seed before remembered", at(OriginSeed, sol, younger, 9), at(OriginRemembered, est, older, 2)},
		{"remembered before DNS SRV", at(OriginRemembered, sol, younger, 9), at(OriginSRV, est, older, 2)},
		{"DNS SRV before a beacon", at(OriginSRV, sol, younger, 9), at(OriginBeacon, est, older, 2)},
		{"established before solitary", at(OriginBeacon, est, younger, 9), at(OriginBeacon, sol, older, 2)},
		{"the older", at(OriginBeacon, sol, older, 9), at(OriginBeacon, sol, younger, 2)},
		{"the lower cluster id", at(OriginBeacon, sol, older, 2), at(OriginBeacon, sol, older, 9)},
		{"a clock before 2026 counts as newest", at(OriginBeacon, sol, younger, 9), at(OriginBeacon, sol, 20, 2)},
	} {
		if rank(c.first, c.later) >= 0 || rank(c.later, c.first) <= 0 {
			t.Errorf("%s: does not decide", c.rule)
		}
	}
}

// A fleet of one that has just begun admits nobody before its first choice.
func TestSettling(t *testing.T) {
	at := func(r *rig) bool { return r.m.Settling(r.now) }
	r := newRig(t, Config{})
	r.step(Event{Kind: EvTick})
	r.wait(SettleAfter - time.Millisecond)
	if !at(r) {
		t.Fatal("settled before its time")
	}
	r.wait(time.Millisecond)
	if at(r) {
		t.Fatal("not settled after its time")
	}
	r = newRig(t, Config{Seeds: []Seed{{"typed:6674", OriginSeed}}})
	r.step(Event{Kind: EvTick})
	if r.wait(SettleAfter + 500*time.Millisecond); !at(r) {
		t.Fatal("settled before its typed seed answered")
	}
	if r.step(Event{Kind: EvSummaryFailed, Endpoint: "typed:6674"}); at(r) {
		t.Fatal("not settled after its typed seed failed")
	}
	r = newRig(t, Config{})
	if r.step(Event{Kind: EvEstablished}); at(r) {
		t.Fatal("an operator's deed made it established: there is no choice left")
	}
	// While the record of a yield is written.
	r = newRig(t, Config{})
	r.wait(SettleAfter)
	r.beacon(establishedFleet(2, older))
	if out := r.wait(ChoiceAfterProof); find(out, ActMove) == nil || !at(r) {
		t.Fatalf("it admits while it yields: %+v", out)
	}
	// A fleet of one that begins anew chooses anew.
	own := ownOf(1, older)
	own.Mode, own.Established = Learner, true
	r = newRig(t, Config{Own: own})
	r.wait(time.Hour)
	if at(r) {
		t.Fatal("a member has no such choice")
	}
	r.done(r.step(Event{Kind: EvForgotten}))
	if !at(r) {
		t.Fatal("begun anew, it admits at once")
	}
	if r.wait(SettleAfter); at(r) {
		t.Fatal("begun anew, it never settles")
	}
}
