package formation

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// madeKeys keeps what was made: making a key costs more than most tests.
var madeKeys sync.Map

func keyOf(n int) identity.PublicKey {
	if k, ok := madeKeys.Load(n); ok {
		return k.(identity.PublicKey)
	}
	var seed [32]byte
	seed[0], seed[1], seed[2] = byte(n), byte(n>>8), 7
	k := identity.NewPrivateKey(seed).Public()
	madeKeys.Store(n, k)
	return k
}

func idOf(n int) string { return identity.NewID([16]byte{byte(n >> 8), byte(n), 15: 1}) }

const (
	older   = EarliestCreated + 1000
	younger = EarliestCreated + 2000
)

// encounter is a case of Classify: this machine founded at younger, the seen fleet at older unless said otherwise.
func encounter(own, seen wire.SummaryState, ownCreated, seenCreated uint64, origin Origin) (Own, Fleet) {
	mode := map[wire.SummaryState]Mode{wire.StateSolitary: Solitary, wire.StateEstablished: Learner, wire.StatePending: Pending}[own]
	o := Own{Mode: mode, Cluster: idOf(1), Created: ownCreated, NodeID: "n-own", Key: keyOf(1)}
	f := Fleet{Cluster: idOf(2), Created: seenCreated, State: seen, Speaker: "n-seen", SpeakerKey: keyOf(2), Origin: origin}
	if seen == wire.StatePending {
		f.Pointer = wire.Leader{ID: "n-third", Endpoint: "third:6674", Key: keyOf(3), HasKey: true}
	} else {
		f.Leader = wire.Leader{ID: "n-seen", Endpoint: "seen:6674", Key: keyOf(2), HasKey: true}
	}
	return o, f
}

// checkEncounters walks every cell of the page's table, each for an older and for a younger fleet.
func checkEncounters() error {
	const sol, est, pen = wire.StateSolitary, wire.StateEstablished, wire.StatePending
	type want struct{ ifOlder, ifYounger Outcome }
	same := func(o Outcome) want { return want{o, o} }
	tie := want{TieBreakYield, Stay}
	cells := []struct {
		own, seen wire.SummaryState
		ev        Evidence
		want      want
	}{
		{sol, est, NoSplit, same(Yield)},
		{sol, sol, NoSplit, tie},
		{sol, pen, NoSplit, same(FollowPointer)},
		{est, sol, NoSplit, same(Stay)},
		{est, est, NoSplit, same(ForeignFleet)},
		{est, pen, NoSplit, same(Stay)},
		{pen, sol, NoSplit, same(Stay)},
		{pen, est, NoSplit, same(Stay)},
		{pen, pen, NoSplit, same(Stay)},
		{sol, est, SplitHealsByItself, same(Yield)},
		{sol, sol, SplitHealsByItself, tie},
		{sol, pen, SplitHealsByItself, same(FollowPointer)},
		{est, sol, SplitHealsByItself, same(Stay)},
		{est, est, SplitHealsByItself, tie},
		{est, pen, SplitHealsByItself, same(Stay)},
		{pen, sol, SplitHealsByItself, same(Stay)},
		{pen, est, SplitHealsByItself, same(Stay)},
		{pen, pen, SplitHealsByItself, same(Stay)},
	}
	if len(Encounters) != len(cells) {
		return fmt.Errorf("%d rows for %d cells", len(Encounters), len(cells))
	}
	for _, c := range cells {
		rows := 0
		for _, r := range Encounters {
			if r.Own == c.own && r.Seen == c.seen && r.Evidence == c.ev {
				rows++
			}
		}
		if rows != 1 {
			return fmt.Errorf("%v / %v, evidence %d: %d rows", c.own, c.seen, c.ev, rows)
		}
		for _, isOlder := range []bool{true, false} {
			created, want := uint64(older), c.want.ifOlder
			if !isOlder {
				created, want = younger+1000, c.want.ifYounger
			}
			own, seen := encounter(c.own, c.seen, younger, created, OriginBeacon)
			if got := Classify(own, seen, c.ev, nil); got != want {
				return fmt.Errorf("%v / %v, evidence %d, older %v: %v, want %v", c.own, c.seen, c.ev, isOlder, got, want)
			}
			seen.Cluster = own.Cluster
			if got := Classify(own, seen, c.ev, nil); got != SameFleet {
				return fmt.Errorf("%v / %v of the own cluster: %v", c.own, c.seen, got)
			}
		}
	}
	return nil
}

func TestEncounters(t *testing.T) {
	if err := checkEncounters(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationEncounters(t *testing.T) {
	mutate(t, Encounters, checkEncounters, func(r *EncounterRow, step int) bool {
		switch {
		case step < 7: // each other outcome
			was := r.Outcome
			r.Outcome = Outcome(step + 1)
			if r.Outcome == was {
				r.Outcome = TieBreak
			}
		case step == 7:
			r.Own = r.Own%3 + 1
		case step == 8:
			r.Seen = r.Seen%3 + 1
		case step == 9:
			r.Evidence = 1 - r.Evidence
		default:
			return false
		}
		return true
	})
}

func TestClassifyFleetOfOneThatIsEstablished(t *testing.T) {
	own, seen := encounter(wire.StateSolitary, wire.StateEstablished, younger, older, OriginSeed)
	own.Established = true
	if got := Classify(own, seen, NoSplit, nil); got != ForeignFleet {
		t.Fatalf("an established fleet of one meets an established fleet: %v", got)
	}
	own.Mode = Pending
	if own.State() != wire.StatePending {
		t.Fatal("a pending machine announces pending, whatever it once was")
	}
}

// A solitary fleet found by a typed seed or SRV wins the tie-break whatever the ages; an established/established tie-break
// knows no such thing.
func TestClassifyTypedSeedWinsTheTieBreak(t *testing.T) {
	for _, c := range []struct {
		origin Origin
		want   Outcome
	}{{OriginSeed, TieBreakYield}, {OriginRemembered, Stay}, {OriginSRV, TieBreakYield}, {OriginBeacon, Stay}} {
		own, seen := encounter(wire.StateSolitary, wire.StateSolitary, older, younger, c.origin)
		if got := Classify(own, seen, NoSplit, nil); got != c.want {
			t.Errorf("%v: %v, want %v", c.origin, got, c.want)
		}
		own, seen = encounter(wire.StateEstablished, wire.StateEstablished, older, younger, c.origin)
		if got := Classify(own, seen, SplitHealsByItself, nil); got != Stay {
			t.Errorf("split heal, %v: %v", c.origin, got)
		}
	}
}

func TestClassifyPin(t *testing.T) {
	const sol, est, pen = wire.StateSolitary, wire.StateEstablished, wire.StatePending
	theirs := &Pin{Cluster: idOf(2), Keys: []identity.PublicKey{keyOf(2)}}
	otherKey := &Pin{Cluster: idOf(2), Keys: []identity.PublicKey{keyOf(9)}}
	other := &Pin{Cluster: idOf(8), Keys: []identity.PublicKey{keyOf(2)}}
	for _, c := range []struct {
		name      string
		own, seen wire.SummaryState
		ev        Evidence
		seenAge   uint64
		pin       *Pin
		want      Outcome
	}{
		{"admitted", sol, est, NoSplit, older, theirs, Yield},
		{"another fleet", sol, est, NoSplit, older, other, PinnedElsewhere},
		{"another key", sol, est, NoSplit, older, otherKey, PinnedElsewhere},
		{"admitted wins the tie-break", sol, sol, NoSplit, younger + 1000, theirs, TieBreakYield},
		{"another fleet, older", sol, sol, NoSplit, older, other, PinnedElsewhere},
		{"another fleet, younger: no yield, so nothing to refuse", sol, sol, NoSplit, younger + 1000, other, Stay},
		{"a pointer is no yield", sol, pen, NoSplit, older, other, FollowPointer},
		{"established stays", est, est, NoSplit, older, other, ForeignFleet},
		{"a heal into a fleet that is not pinned", est, est, SplitHealsByItself, older, other, PinnedElsewhere},
		{"a heal into the pinned fleet", est, est, SplitHealsByItself, younger + 1000, theirs, TieBreakYield},
		{"pending stays", pen, est, NoSplit, older, theirs, Stay},
	} {
		own, seen := encounter(c.own, c.seen, younger, c.seenAge, OriginBeacon)
		if got := Classify(own, seen, c.ev, c.pin); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestClassifyPointerToOneself(t *testing.T) {
	for _, c := range []struct {
		name    string
		pointer wire.Leader
		want    Outcome
	}{
		{"by key", wire.Leader{ID: "n-other", Endpoint: "x:1", Key: keyOf(1), HasKey: true}, Stay},
		{"by id without a key", wire.Leader{ID: "n-own", Endpoint: "x:1"}, Stay},
		{"the own id under another key is another machine", wire.Leader{ID: "n-own", Endpoint: "x:1", Key: keyOf(3), HasKey: true}, FollowPointer},
		{"nobody named", wire.Leader{Endpoint: "x:1"}, FollowPointer},
	} {
		own, seen := encounter(wire.StateSolitary, wire.StatePending, younger, older, OriginBeacon)
		seen.Pointer = c.pointer
		if got := Classify(own, seen, NoSplit, nil); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestTieBreak(t *testing.T) {
	const lo, hi = "0aaa", "0bbb"
	for _, c := range []struct {
		name         string
		ownAge       uint64
		own          string
		seenAge      uint64
		seen         string
		wantOwnYield bool
	}{
		{"later yields", younger, lo, older, hi, true},
		{"earlier stays", older, hi, younger, lo, false},
		{"equal: the higher id yields", older, hi, older, lo, true},
		{"equal: the lower id stays", older, lo, older, hi, false},
		{"a second before 2026 is the newest", EarliestCreated - 1, lo, younger, hi, true},
		{"2026 itself is a date", EarliestCreated, hi, EarliestCreated + 1, lo, false},
		{"1970 against 1980: the id decides", 20, lo, 315532800, hi, false},
		{"1980 against 1970: the id decides", 315532800, hi, 20, lo, true},
		{"all ones is the newest", math.MaxUint64, lo, younger, hi, true},
		{"all ones against 1970: the id decides", math.MaxUint64, lo, 20, hi, false},
		{"a far future loses against a near one", math.MaxUint64 - 1, lo, younger, hi, true},
	} {
		if got := TieBreakYields(c.ownAge, c.own, c.seenAge, c.seen); got != c.wantOwnYield {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// Of two fleets of different ids exactly one yields, and among any number one yields to nobody.
func TestTieBreakIsAntisymmetricAndTotal(t *testing.T) {
	created := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(EarliestCreated-2, EarliestCreated+2),
		rapid.SampledFrom([]uint64{0, 20, math.MaxUint64, math.MaxUint64 - 1}))
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 8).Draw(t, "fleets")
		ids := rapid.SliceOfNDistinct(rapid.StringN(1, 6, 32), n, n, rapid.ID[string]).Draw(t, "ids")
		ages := make([]uint64, n)
		for i := range ages {
			ages[i] = created.Draw(t, "created")
		}
		winners := 0
		for i := range ids {
			yieldsTo := 0
			for j := range ids {
				if i == j {
					continue
				}
				a, b := TieBreakYields(ages[i], ids[i], ages[j], ids[j]), TieBreakYields(ages[j], ids[j], ages[i], ids[i])
				if a == b {
					t.Fatalf("(%d %q) and (%d %q): %v and %v", ages[i], ids[i], ages[j], ids[j], a, b)
				}
				if a {
					yieldsTo++
				}
			}
			if yieldsTo == 0 {
				winners++
			}
		}
		if winners != 1 {
			t.Fatalf("%d of %d yield to nobody: the order has a ring", winners, n)
		}
	})
}

// P36: a board that founded its fleet in 1970 is not the elder, in the first meeting and in a split heal alike.
func TestP36BornIn1970(t *testing.T) {
	const board, lastWeek = 20, EarliestCreated + 30*86400
	own, seen := encounter(wire.StateSolitary, wire.StateSolitary, board, lastWeek, OriginBeacon)
	if got := Classify(own, seen, NoSplit, nil); got != TieBreakYield {
		t.Fatalf("the board: %v", got)
	}
	own, seen = encounter(wire.StateSolitary, wire.StateSolitary, lastWeek, board, OriginBeacon)
	if got := Classify(own, seen, NoSplit, nil); got != Stay {
		t.Fatalf("the honest fleet: %v", got)
	}
	own, seen = encounter(wire.StateEstablished, wire.StateEstablished, board, lastWeek, OriginBeacon)
	if got := Classify(own, seen, SplitHealsByItself, nil); got != TieBreakYield {
		t.Fatalf("the board in a split heal: %v", got)
	}
	own, seen = encounter(wire.StateEstablished, wire.StateEstablished, lastWeek, board, OriginBeacon)
	if got := Classify(own, seen, SplitHealsByItself, nil); got != Stay {
		t.Fatalf("the honest fleet in a split heal: %v", got)
	}
}
