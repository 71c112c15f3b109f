package formation

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Fifty machines powered on together: a minute later all ask the eldest.
func TestFiftyPoweredOnTogether(t *testing.T) {
	s := newSim(t, 1)
	s.loss = 0.1
	for n := 1; n <= 50; n++ {
		created := older + uint64((n*7)%50)/3 // many within the same second
		s.add(n, created, s.between(0, 500*time.Millisecond), Config{})
	}
	s.run(time.Minute)
	root, err := s.settled()
	if err != nil {
		t.Fatal(err)
	}
	if want := s.eldest(); root != want {
		t.Fatalf("all ask %d, the eldest is %d", root.n, want.n)
	}
	yields := uint64(0)
	for _, x := range s.nodes {
		yields += x.m.Count(CountYields)
	}
	if yields != 49 {
		t.Fatalf("%d yields: a machine changed its mind", yields)
	}
	s.run(20 * time.Minute) // and nobody gives up while the leader answers
	if _, err := s.settled(); err != nil {
		t.Fatal(err)
	}
	for _, x := range s.nodes {
		if x.m.Count(CountJoinsAbandoned) != 0 {
			t.Fatal("given up")
		}
	}
}

// P15: five fresh machines started within a second, and with random offsets up to 20 s; then every row is approved.
func TestP15EverybodyStartsFirst(t *testing.T) {
	for round := range 11 {
		spread := 20 * time.Second
		if round == 0 {
			spread = time.Second
		}
		s := newSim(t, uint64(100+round))
		for n := 1; n <= 5; n++ {
			offset := s.between(0, spread)
			s.add(n, older+uint64(offset/time.Second), offset, Config{})
		}
		s.run(3 * time.Minute)
		root, err := s.settled()
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if root != s.eldest() {
			t.Fatalf("round %d: all ask %d", round, root.n)
		}
		s.approve = time.Second
		for _, ask := range sortedAsks(root.rows) {
			s.after(s.between(0, 10*time.Second), ask.approved)
		}
		s.run(10*time.Second + 2*time.Minute)
		ids := map[string]bool{}
		for _, x := range s.nodes {
			ids[x.own.NodeID] = true
			if x.own.Cluster != root.own.Cluster || x != root && x.own.Mode != Learner || x == root && x.own.Mode != Voter {
				t.Fatalf("round %d: not one fleet\n%s", round, s.picture())
			}
		}
		if s.archived != 4 || len(ids) != 5 {
			t.Fatalf("round %d: %d archived stores, %d ids", round, s.archived, len(ids))
		}
	}
}

// P15, the other half: rows are approved at once wherever they appear, while others are still on their way.
func TestP15ApprovedWhileOthersAreOnTheirWay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newSim(t, rapid.Uint64().Draw(rt, "seed"))
		s.approve = rapid.SampledFrom([]time.Duration{time.Millisecond, 300 * time.Millisecond, 3 * time.Second, 20 * time.Second}).Draw(rt, "approve")
		s.loss = 0.2
		n := rapid.IntRange(3, 7).Draw(rt, "machines")
		for i := 1; i <= n; i++ {
			s.add(i, older+rapid.Uint64Range(0, 3).Draw(rt, "created"), time.Duration(rapid.IntRange(0, 20000).Draw(rt, "offset"))*time.Millisecond, Config{})
		}
		s.run(5 * time.Minute)
		// More than one fleet may have been founded: each approval makes one. But nobody is lost: each is a member, or asks one that leads.
		for _, x := range s.nodes {
			if x.own.Mode == Pending {
				rt.Fatalf("%d still waits\n%s", x.n, s.picture())
			}
		}
	})
}

// Whatever the order of events: all but one end pending, asking exactly the eldest.
func TestAnyOrderEndsAtTheEldest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newSim(t, rapid.Uint64().Draw(rt, "seed"))
		s.loss = rapid.SampledFrom([]float64{0, 0.1, 0.3}).Draw(rt, "loss")
		n := rapid.IntRange(2, 9).Draw(rt, "machines")
		for i := 1; i <= n; i++ {
			created := rapid.OneOf(rapid.Uint64Range(older, older+3), rapid.SampledFrom([]uint64{0, 20, 1<<64 - 1})).Draw(rt, "created")
			s.add(i, created, time.Duration(rapid.IntRange(0, 20000).Draw(rt, "offset"))*time.Millisecond, Config{})
		}
		s.run(3 * time.Minute)
		root, err := s.settled()
		if err != nil {
			rt.Fatal(err)
		}
		if root != s.eldest() {
			rt.Fatalf("all ask %d, the eldest is %d\n%s", root.n, s.eldest().n, s.picture())
		}
	})
}

// With typed seeds that name any machine, rings and oneself included, all still end at one and the same machine.
func TestAnySeedsEndAtOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newSim(t, rapid.Uint64().Draw(rt, "seed"))
		s.loss = rapid.SampledFrom([]float64{0, 0.1, 0.3}).Draw(rt, "loss")
		n := rapid.IntRange(2, 7).Draw(rt, "machines")
		for i := 1; i <= n; i++ {
			var seeds []Seed
			for range rapid.IntRange(0, 2).Draw(rt, "seeds") {
				at := rapid.IntRange(1, n+1).Draw(rt, "seed at") // n+1 answers nobody
				seeds = append(seeds, Seed{fmt.Sprintf("10.0.0.%d:6674", at), OriginSeed})
			}
			created := rapid.Uint64Range(older, older+3).Draw(rt, "created")
			s.add(i, created, time.Duration(rapid.IntRange(0, 20000).Draw(rt, "offset"))*time.Millisecond, Config{Seeds: seeds})
		}
		s.run(3 * time.Minute)
		if _, err := s.settled(); err != nil {
			rt.Fatal(err)
		}
	})
}

// Two that name each other, started together.
func TestTwoThatNameEachOther(t *testing.T) {
	for round := range 50 {
		s := newSim(t, uint64(round))
		s.loss = 1 // seeds alone
		s.add(1, older, s.between(0, 300*time.Millisecond), Config{Seeds: []Seed{{"10.0.0.2:6674", OriginSeed}}})
		s.add(2, younger, s.between(0, 300*time.Millisecond), Config{Seeds: []Seed{{"10.0.0.1:6674", OriginSeed}}})
		s.run(90 * time.Second)
		if _, err := s.settled(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

// A ring of seeds without a beacon.
func TestRingOfSeeds(t *testing.T) {
	for round := range 30 {
		s := newSim(t, uint64(round))
		s.loss = 1
		n := 3 + round%4
		for i := 1; i <= n; i++ {
			s.add(i, older+uint64((i*5)%n), s.between(0, 200*time.Millisecond), Config{Seeds: []Seed{{fmt.Sprintf("10.0.0.%d:6674", i%n+1), OriginSeed}}})
		}
		s.run(3 * time.Minute)
		if _, err := s.settled(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

func TestRejectedGoesElsewhere(t *testing.T) {
	s := newSim(t, 3)
	a := s.add(1, older, 0, Config{})
	b := s.add(2, older+1, 0, Config{})
	a.rejects[2] = true
	c := s.add(3, older+2, 0, Config{})
	s.run(2 * time.Minute)
	if b.own.Mode != Solitary || c.own.Mode != Pending || c.own.Target.Cluster != a.own.Cluster {
		t.Fatalf("\n%s", s.picture())
	}
	if len(b.m.Rejections(s.now)) != 1 {
		t.Fatal("not remembered")
	}
	s.run(57 * time.Minute)
	if len(b.asked) != 1 {
		t.Fatalf("asked %d times within the hour", len(b.asked))
	}
	a.rejects[2] = false
	s.run(4 * time.Minute)
	if b.own.Mode != Pending {
		t.Fatalf("not asked again after an hour\n%s", s.picture())
	}
}

func TestTargetThatDiesIsGivenUpAndTheRestFormsWithoutIt(t *testing.T) {
	s := newSim(t, 4)
	a := s.add(1, older, 0, Config{})
	for n := 2; n <= 5; n++ {
		s.add(n, older+uint64(n), s.between(0, time.Second), Config{})
	}
	s.run(time.Minute)
	if root, err := s.settled(); err != nil || root != a {
		t.Fatal(err)
	}
	a.up = false
	a.silent = true
	a.own.Target = nil
	for ask := range a.rows {
		ask.open = false
		s.after(0, func() { ask.by.step(Event{Kind: EvAskEnded, Ask: ask.serial, Err: "gone"}) })
	}
	a.rows = map[*simAsk]bool{}
	a.beaconAt = time.Time{}
	s.run(9 * time.Minute)
	for _, x := range s.nodes[1:] {
		if x.own.Mode != Pending {
			t.Fatalf("given up too soon\n%s", s.picture())
		}
	}
	s.run(4 * time.Minute)
	for _, x := range s.nodes[2:] {
		if x.own.Mode != Pending || x.own.Target.Cluster != s.nodes[1].own.Cluster {
			t.Fatalf("the rest does not form\n%s", s.picture())
		}
	}
}

// Without any beacon, whatever the seeds: nobody waits in a ring, and whoever waits asks a machine that leads. (A machine
// whose seed is pending at a younger fleet of one waits until that one is established: a pointer counts as a beacon.)
func TestSeedsAloneLeaveNobodyInARing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newSim(t, rapid.Uint64().Draw(rt, "seed"))
		s.loss = 1
		n := rapid.IntRange(2, 8).Draw(rt, "machines")
		for i := 1; i <= n; i++ {
			var seeds []Seed
			for range rapid.IntRange(0, 2).Draw(rt, "seeds") {
				seeds = append(seeds, Seed{fmt.Sprintf("10.0.0.%d:6674", rapid.IntRange(1, n).Draw(rt, "seed at")), OriginSeed})
			}
			created := rapid.Uint64Range(older, older+3).Draw(rt, "created")
			s.add(i, created, time.Duration(rapid.IntRange(0, 5000).Draw(rt, "offset"))*time.Millisecond, Config{Seeds: seeds})
		}
		s.run(4 * time.Minute)
		for _, x := range s.nodes {
			if x.own.Mode != Pending {
				continue
			}
			if at := s.byHost[x.own.Target.Endpoint]; at.own.Mode == Pending || at.own.Cluster != x.own.Target.Cluster {
				rt.Fatalf("%d asks %d, which does not lead\n%s", x.n, at.n, s.picture())
			}
		}
	})
}

// P13: two grown fleets meet, all four restarted at once, one learner with a typed seed of the other fleet.
func TestP13TwoGrownFleetsSaySo(t *testing.T) {
	s := newSim(t, 13)
	grown := func(n, leader int, mode Mode, seeds ...Seed) *simNode {
		x := s.add(n, older+uint64(leader), s.between(0, time.Second), Config{Seeds: seeds})
		x.own.Mode, x.own.Established, x.own.Cluster = mode, true, idOf(leader)
		if n != leader {
			x.leader = s.nodes[leader-1]
		}
		return x
	}
	a := grown(1, 1, Voter)
	grown(2, 1, Learner)
	b := grown(3, 3, Voter)
	learner := grown(4, 3, Learner, Seed{"10.0.0.1:6674", OriginSeed})
	s.run(2 * time.Minute)
	for _, x := range []*simNode{a, b} {
		if f := x.m.Foreign(s.now); len(f) != 1 || f[0].Why != WhyNeitherYields || f[0].Cluster == x.own.Cluster {
			t.Fatalf("%d sees %+v", x.n, f)
		}
	}
	if got := learner.m.NotFollowed(); len(got) != 1 || got[0] != "10.0.0.1:6674" {
		t.Fatalf("the learner says %v of its typed seed", got)
	}
	for i, x := range s.nodes {
		if want := []Mode{Voter, Learner, Voter, Learner}[i]; x.own.Mode != want || len(x.asked) != 0 {
			t.Fatalf("\n%s", s.picture())
		}
	}
}
