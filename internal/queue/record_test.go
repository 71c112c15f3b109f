package queue

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pace-node/internal/fleet"
)

// TestStateOf: what each record reads as, by the words that `pacectl queue list` has for it.
func TestStateOf(t *testing.T) {
	ended := func(results ...string) (out []fleet.Outcome) {
		for _, r := range results {
			out = append(out, fleet.Outcome{Result: r})
		}
		return out
	}
	for _, c := range []struct {
		name string
		rec  fleet.Provision
		want string
	}{
		{"nothing", fleet.Provision{}, "none"},
		{"asked", fleet.Provision{BootID: "b", Sequence: 3}, "none"},
		{"parked", fleet.Provision{Parked: true, Outcomes: ended("error")}, "parked"},
		{"parked after a confirmation", fleet.Provision{Parked: true, LastSuccess: 7, Outcomes: ended("provisioned", "error")}, "parked"},
		{"deferred", fleet.Provision{Due: 9, Outcomes: ended("error", "deferred")}, "deferred"},
		{"unconfirmed", fleet.Provision{Due: 9, Outcomes: ended("success", "unconfirmed")}, "unconfirmed"},
		{"backing off", fleet.Provision{Due: 9, Outcomes: ended("provisioned", "error")}, "backing off"},
		{"a hold that was broken", fleet.Provision{Due: 9, Outcomes: ended("success", "hold_ended")}, "backing off"},
		{"confirmed", fleet.Provision{LastSuccess: 9, Outcomes: ended("success", "provisioned")}, "confirmed"},
		{"held", fleet.Provision{ConfigDigest: "d", Outcomes: ended("error", "success")}, "held"},
		{"told to shut down", fleet.Provision{Outcomes: ended("shutdown")}, "held"},
		{"upgraded", fleet.Provision{Outcomes: ended("upgraded")}, "none"},
		{"asked by a person", fleet.Provision{Asked: true, LastSuccess: 7, Outcomes: ended("provisioned")}, "waiting"},
		{"asked, and failed since", fleet.Provision{Asked: true, Due: 9, Outcomes: ended("error")}, "backing off"},
		{"asked, and parked since", fleet.Provision{Asked: true, Parked: true, Outcomes: ended("error")}, "parked"},
		{"asked, and held", fleet.Provision{Asked: true, Outcomes: ended("success")}, "held"},
		{"dropped", fleet.Provision{LastError: "x", Outcomes: ended("error")}, "none"},
	} {
		if got := StateOf(c.rec); got.String() != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestStateOfWhatARecordKeeps: a record that the leader writes reads as the state that its own list shows.
func TestStateOfWhatARecordKeeps(t *testing.T) {
	for _, r := range Outcomes {
		if got, want := StateOf(fleet.Provision{Outcomes: []fleet.Outcome{{Result: r.Name}}, Due: map[bool]int64{true: 1}[!r.Hold && r.Next != StateNone]}), r.Next; !r.Hold && got != want {
			t.Errorf("%s: %q, want %q", r.Name, got, want)
		}
	}
}

// TestClockOfTheLeaderBefore: a wait that another leader gave is what is left of it where the clocks agree, the whole of it at
// most where the other's was ahead, and over where it was behind.
func TestClockOfTheLeaderBefore(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		name  string
		skew  time.Duration // of the clock of the leader before
		ended time.Duration // ago
		told  time.Duration
		last  string
		want  time.Duration
	}{
		{"deferred, one clock", 0, 4 * time.Minute, 10 * time.Minute, "deferred", 6 * time.Minute},
		{"deferred, ahead by an hour", time.Hour, 4 * time.Minute, 10 * time.Minute, "deferred", 10 * time.Minute},
		{"deferred, ahead by years", 20 * 365 * 24 * time.Hour, 0, 10 * time.Minute, "deferred", 10 * time.Minute},
		{"deferred, behind by an hour", -time.Hour, 4 * time.Minute, 10 * time.Minute, "deferred", -54 * time.Minute},
		{"deferred for a day", time.Hour, 2 * time.Hour, 24 * time.Hour, "deferred", 23 * time.Hour},
		{"failed, one clock", 0, time.Second, 20 * time.Second, "error", 19 * time.Second},
		{"failed, ahead by an hour", time.Hour, time.Second, 20 * time.Second, "error", 20 * time.Second},
		{"nothing kept of how it ended", time.Hour, 0, 20 * time.Second, "", BackoffMax},
	} {
		at := now.Add(c.skew - c.ended)
		rec := fleet.Provision{Due: at.Add(c.told).Unix(), Attempts: 1}
		if c.last != "" {
			rec.Outcomes = []fleet.Outcome{{At: 1, Result: "error"}, {At: at.Unix(), Result: c.last}}
		}
		if got := Recall("n", rec, now, 0).DueIn; got != c.want {
			t.Errorf("%s: it waits %s, want %s", c.name, got, c.want)
		}
	}
}

// TestRecordOf: what the fleet's state keeps of a machine, entry by entry, at a leader whose clock is an hour ahead.
func TestRecordOf(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	beside := Beside{Last: Mark{1, 7}, Clock: time.Hour}
	for _, c := range []struct {
		name   string
		entry  Entry
		beside Beside
		want   fleet.Provision
	}{
		{"nothing", Entry{}, Beside{}, fleet.Provision{}},
		{"backing off", Entry{State: StateBackingOff, Stage: StageHelper, Attempt: 2, LastError: "exit\ncode 3", Kind: KindTransient, Due: at, FirstSeen: at, BootID: bootA,
			History: []Past{{At: at, Outcome: "error", Stage: StageHelper, Error: strings.Repeat("x", 2000)}}}, beside,
			fleet.Provision{Stage: "helper", LastError: "exit\\ncode 3", ErrorKind: "transient", Attempts: 2, Due: 1_800_003_600, FirstSeen: 1_800_003_600,
				BootID: bootA, BootCounter: 1, Sequence: 7, Outcomes: []fleet.Outcome{{At: 1_800_003_600, Stage: "helper", Result: "error", Error: strings.Repeat("x", fleet.MaxOutcomeError-3) + "…"}}}},
		{"deferred", Entry{State: StateDeferred, Due: at}, Beside{}, fleet.Provision{Due: 1_800_000_000}},
		{"unconfirmed", Entry{State: StateUnconfirmed, Due: at}, Beside{}, fleet.Provision{Due: 1_800_000_000}},
		{"parked", Entry{State: StateParked, Due: at, Kind: KindPermanent}, Beside{}, fleet.Provision{Parked: true, ErrorKind: "permanent"}},
		{"held: its due is the hold's end, and none", Entry{State: StateHeld, Due: at}, Beside{Digest: "d", Component: "server"}, fleet.Provision{ConfigDigest: "d", Component: "server"}},
		{"confirmed", Entry{State: StateConfirmed, LastSuccess: at}, Beside{}, fleet.Provision{LastSuccess: 1_800_000_000}},
		{"asked", Entry{State: StateWaiting, Asked: true}, Beside{}, fleet.Provision{Asked: true}},
		{"no event of this boot was heard", Entry{BootID: bootB}, beside, fleet.Provision{BootID: bootB, BootCounter: 2}},
		{"an event of a later boot was", Entry{BootID: bootA}, Beside{Last: Mark{2, 3}}, fleet.Provision{BootID: bootA, BootCounter: 2, Sequence: 3}},
	} {
		if got := RecordOf(c.entry, c.beside); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

// TestConfirmedRecord: a confirmation ends what failed before it, and keeps a wish for one more run.
func TestConfirmedRecord(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	e := Entry{State: StateWaiting, Source: SourceOperator, Stage: StageHelper, Attempt: 4, LastError: "x", Kind: KindTransient, FirstSeen: at, Asked: true, BootID: bootA}
	for range fleet.MaxOutcomes {
		e.History = append(e.History, Past{At: at, Outcome: "error"})
	}
	got := ConfirmedRecord(at, e, Beside{Digest: "d", Component: "server", Clock: time.Minute})
	if n := len(got.Outcomes); n != fleet.MaxOutcomes || got.Outcomes[n-1] != (fleet.Outcome{At: 1_800_000_060, Stage: "confirm", Result: "provisioned"}) {
		t.Errorf("%d outcomes, the last %+v", n, got.Outcomes[n-1])
	}
	got.Outcomes = nil
	want := fleet.Provision{Stage: "confirm", LastSuccess: 1_800_000_060, ConfigDigest: "d", Component: "server", BootID: bootA, BootCounter: 1, Asked: true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	if e.Source = SourceEvent; ConfirmedRecord(at, e, Beside{}).Asked {
		t.Error("nobody asked for one more run, and it is recorded")
	}
}

// TestRecallIsTheWayBack: what a leader records is what the next one takes over, whatever either's clock is ahead by.
func TestRecallIsTheWayBack(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	e := Entry{State: StateBackingOff, Stage: StageHelper, Attempt: 2, LastError: "exit code 3", Kind: KindTransient, Due: now.Add(8 * time.Second), FirstSeen: now.Add(-time.Hour),
		LastSuccess: now.Add(-2 * time.Hour), BootID: bootA, Asked: true, History: []Past{{At: now.Add(-2 * time.Second), Outcome: "error", Stage: StageHelper, Error: "exit code 3"}}}
	want := Known{ID: "n", State: StateBackingOff, DueIn: 8 * time.Second, Attempts: 2, Stage: StageHelper, LastError: "exit code 3", Kind: KindTransient,
		LastSuccess: e.LastSuccess, FirstSeen: e.FirstSeen, BootID: bootA, Asked: true, History: e.History}
	for _, clock := range []time.Duration{0, time.Hour, -3 * time.Hour} {
		if got := Recall("n", RecordOf(e, Beside{Clock: clock}), now.Add(clock), clock); !reflect.DeepEqual(got, want) {
			t.Errorf("ahead by %s:\n got %+v\nwant %+v", clock, got, want)
		}
	}
}

// TestMarkAfter: a later boot, or a later event of the same one.
func TestMarkAfter(t *testing.T) {
	for _, c := range []struct {
		m, o Mark
		want bool
	}{
		{Mark{1, 1}, Mark{}, true}, {Mark{2, 1}, Mark{1, 9}, true}, {Mark{1, 9}, Mark{2, 1}, false}, {Mark{1, 2}, Mark{1, 1}, true}, {Mark{1, 1}, Mark{1, 1}, false},
	} {
		if c.m.After(c.o) != c.want {
			t.Errorf("%v after %v: %v", c.m, c.o, !c.want)
		}
	}
}
