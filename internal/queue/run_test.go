package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestExactlyTwoIntervalsStillRuns(t *testing.T) {
	q := leading(10)
	add(t, q, t0, seen("a", t0), Admitted)
	take(t, q, t0.Add(2*time.Minute), "a")

	q = leading(10)
	add(t, q, t0, seen("a", t0), Admitted)
	none(t, q, t0.Add(2*time.Minute+1))
	count(t, q, RefusedStale, 1)
	if q.Waiting() != 0 || q.HeapLen() != 0 {
		t.Fatalf("map %d, heap %d after a stale one", q.Waiting(), q.HeapLen())
	}
	// Picked up in time, and a worker only much later: the same rule.
	q = leading(10)
	add(t, q, t0, seen("a", t0), Admitted)
	j, _ := q.Take(t0)
	if q.Begin(t0.Add(2*time.Minute+1), j) {
		t.Fatal("begun though it waited too long")
	}
	sound(t, q)
	count(t, q, RefusedStale, 1)
	// The age is that since add, not that of the sighting.
	q = leading(10)
	add(t, q, t0, seen("a", t0.Add(-time.Hour)), Admitted)
	take(t, q, t0, "a")
}

func TestStaleRetryIsNotLost(t *testing.T) {
	q := leading(10)
	add(t, q, t0, seen("a", t0), Admitted)
	finish(t, q, t0, take(t, q, t0, "a"), Result{Outcome: OutcomeError, Stage: StageHelper, Error: "x"})
	now := t0.Add(5 * time.Second)
	if due, _ := q.Tick(now); !slices.Equal(due, []string{"a"}) {
		t.Fatalf("due %v", due)
	}
	now = now.Add(3 * time.Minute)
	none(t, q, now)
	count(t, q, RefusedStale, 1)
	if due, _ := q.Tick(now); !slices.Equal(due, []string{"a"}) {
		t.Fatalf("due %v after it was stale", due)
	}
	take(t, q, now, "a")
}

func TestHeapOrder(t *testing.T) {
	q := leading(20)
	fail := func(id string, after time.Duration) {
		add(t, q, t0, seen(id, t0), Admitted)
		finish(t, q, t0, take(t, q, t0, id), Result{Outcome: OutcomeError, Stage: StageHelper, Error: "x"})
		m := q.memory[id]
		m.due = t0.Add(after)
	}
	fail("f-late", 3*time.Second)
	fail("f-early", time.Second)
	fail("f-also-early", time.Second)
	now := t0.Add(10 * time.Second)
	for _, id := range []string{"f-late", "f-early", "f-also-early", "n2", "n1"} {
		add(t, q, now, seen(id, now), Admitted)
	}
	// Never failed first in the order they came, whatever the age of the sighting; then by time due, then first come.
	add(t, q, now, seen("n0", now.Add(-time.Hour)), Admitted)
	for _, want := range []string{"n2", "n1", "n0", "f-early", "f-also-early", "f-late"} {
		take(t, q, now, want)
	}
}

// outcomeCell is one line of the outcome table as the specification has it.
type outcomeCell struct {
	outcome  Outcome
	done     time.Duration // 0: at once
	counter  Counter       // at once; 0: nothing
	after    State         // once done, unconfirmed
	confirms bool          // a confirmation in the hold counts as provisioned
}

var outcomeCells = []outcomeCell{
	{OutcomeError, 0, CountErrors, StateBackingOff, false},
	{OutcomeDeferred, 0, CountDeferred, StateDeferred, false},
	{OutcomeUpgraded, 0, CountUpgrades, StateNone, false},
	{OutcomeSuccess, 60 * time.Second, 0, StateUnconfirmed, true},
	{OutcomeShutdown, 60 * time.Second, CountShutdowns, StateNone, false},
	{OutcomeUnwanted, 0, 0, StateNone, false},
	{OutcomeSkipped, 0, 0, StateNone, false},
	{OutcomeNotYet, 0, 0, StateBackingOff, false},
}

// checkOutcomes walks the outcome table by what the queue does.
func checkOutcomes() error {
	for _, c := range outcomeCells {
		prepare := func() *Queue {
			q := leading(10)
			q.Add(t0, seen("a", t0))
			j, _ := q.Take(t0)
			q.Finish(t0, j, Result{Outcome: c.outcome, Stage: StageHelper, Error: "x", BootID: bootA})
			return q
		}
		q := prepare()
		for k := CountErrors; k < counterEnd; k++ {
			want := uint64(0)
			if k == c.counter {
				want = 1
			}
			if got := q.Count(k); got != want {
				return fmt.Errorf("%s: counter %d is %d, want %d", c.outcome, k, got, want)
			}
		}
		if c.done > 0 {
			if e, _ := q.Entry("a"); q.Waiting() != 1 || e.State != StateHeld {
				return fmt.Errorf("%s: map %d, state %q; want it held", c.outcome, q.Waiting(), e.State)
			}
			q.Tick(t0.Add(c.done - 1))
			if q.Waiting() != 1 {
				return fmt.Errorf("%s: done before %s", c.outcome, c.done)
			}
		}
		q.Tick(t0.Add(c.done))
		if q.Waiting() != 0 {
			return fmt.Errorf("%s: still in the map at %s", c.outcome, c.done)
		}
		if e, _ := q.Entry("a"); e.State != c.after {
			return fmt.Errorf("%s: becomes %q, want %q", c.outcome, e.State, c.after)
		}
		if q.Count(CountProvisioned) != 0 {
			return fmt.Errorf("%s: counts as provisioned without a confirmation", c.outcome)
		}
		q = prepare()
		if got := q.Confirmed(t0.Add(time.Second), "a"); got != c.confirms || q.Count(CountProvisioned) != b2u(c.confirms) {
			return fmt.Errorf("%s: confirmed %v, counted %d", c.outcome, got, q.Count(CountProvisioned))
		}
		q.Tick(t0.Add(c.done))
		if e, _ := q.Entry("a"); c.confirms && (e.State != StateConfirmed || q.Count(CountUnconfirmed) != 0) {
			return fmt.Errorf("%s: confirmed and then %q", c.outcome, e.State)
		}
		if err := faults(q); err != nil {
			return err
		}
	}
	return nil
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func TestOutcomeTable(t *testing.T) {
	if len(outcomeCells) != len(Outcomes) {
		t.Fatalf("%d rows, %d expected", len(Outcomes), len(outcomeCells))
	}
	if err := checkOutcomes(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationOutcomes(t *testing.T) {
	for i := range Outcomes {
		was := Outcomes[i]
		flips := map[string]func(r *OutcomeRow){
			"hold":   func(r *OutcomeRow) { r.Hold = !r.Hold },
			"counts": func(r *OutcomeRow) { r.Counts = CountUnreachable },
			"next":   func(r *OutcomeRow) { r.Next = StateConfirmed },
			"gone":   func(r *OutcomeRow) { r.Outcome = 99 },
		}
		if was.Hold {
			flips["confirms"] = func(r *OutcomeRow) { r.Confirms = !r.Confirms }
		}
		if was.Outcome == OutcomeSkipped { // nothing was begun: only what it leaves alone matters
			delete(flips, "hold")
			delete(flips, "counts")
			delete(flips, "next")
		}
		if was.Outcome == OutcomeUnwanted || was.Outcome == OutcomeNotYet {
			delete(flips, "hold")
			delete(flips, "counts")
		}
		for name, flip := range flips {
			flip(&Outcomes[i])
			err := safely(checkOutcomes)
			Outcomes[i] = was
			if err == nil {
				t.Errorf("row %s with another %q passes", was.Name, name)
			}
		}
	}
	if err := checkOutcomes(); err != nil {
		t.Fatal(err)
	}
}

// safely turns a panic of a broken table into a failure of the check.
func safely(check func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return check()
}

func TestBackoff(t *testing.T) {
	want := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second,
		320 * time.Second, 10 * time.Minute, 10 * time.Minute}
	for _, c := range []struct {
		rand float64
		part float64
	}{{0, 0.5}, {0.5, 1}, {1, 1.5}} {
		q := New(Config{Rand: func() float64 { return c.rand }})
		for i, w := range want {
			expect := min(time.Duration(float64(w)*c.part), 10*time.Minute)
			if got := q.backoff(i + 1); got != expect {
				t.Errorf("step %d at %.1f: %s, want %s", i+1, c.rand, got, expect)
			}
		}
	}
	q := leading(10)
	if got := q.backoff(1 << 30); got != BackoffMax {
		t.Fatalf("a huge step waits %s", got)
	}
}

func TestDeferredByTheHelper(t *testing.T) {
	for _, c := range []struct{ ask, want time.Duration }{
		{15 * time.Minute, 15 * time.Minute}, {0, 5 * time.Second}, {30 * 24 * time.Hour, RetryAfterMax},
	} {
		q := leading(10)
		add(t, q, t0, seen("a", t0), Admitted)
		finish(t, q, t0, take(t, q, t0, "a"), Result{Outcome: OutcomeDeferred, Stage: StageHelper, RetryAfter: c.ask, Error: "not yet"})
		e := state(t, q, "a", StateDeferred)
		if !e.Due.Equal(t0.Add(c.want)) || e.LastError != "not yet" {
			t.Fatalf("due in %s with %q, want %s", e.Due.Sub(t0), e.LastError, c.want)
		}
		if n := q.Next(t0); !n.Equal(e.Due) {
			t.Fatalf("wakes at %s, due %s", n, e.Due)
		}
	}
}

func TestTheLastRealErrorIsKept(t *testing.T) {
	q := leading(10)
	now := t0
	for _, c := range []struct{ err, want string }{
		{"helper: exit code 3", "helper: exit code 3"},
		{"configure: context canceled", "helper: exit code 3"},
		{"context deadline exceeded", "helper: exit code 3"},
		{"", "helper: exit code 3"},
		{"refused there", "refused there"},
	} {
		q.Retry(now, "a")
		if _, known := q.Entry("a"); !known {
			add(t, q, now, seen("a", now), Admitted)
		}
		j := take(t, q, now, "a")
		finish(t, q, now, j, Result{Outcome: OutcomeError, Stage: StageHelper, Error: c.err})
		if e, _ := q.Entry("a"); e.LastError != c.want {
			t.Fatalf("after %q: %q, want %q", c.err, e.LastError, c.want)
		}
		now = now.Add(time.Hour)
	}
	if e, _ := q.Entry("a"); e.Attempt != 5 || len(e.History) != 5 {
		t.Fatalf("attempt %d, history %d", e.Attempt, len(e.History))
	}
}

func TestHistoryIsBounded(t *testing.T) {
	q := leading(10)
	now := t0
	add(t, q, now, seen("a", now), Admitted)
	for range 50 {
		j := take(t, q, now, "a")
		finish(t, q, now, j, Result{Outcome: OutcomeError, Stage: StageHelper, Error: strings.Repeat("x", 100_000)})
		now = now.Add(time.Hour)
		q.Tick(now)
	}
	e, _ := q.Entry("a")
	if len(e.History) != 20 || len(e.LastError) > MaxErrorText+8 {
		t.Fatalf("%d outcomes kept, an error of %d bytes", len(e.History), len(e.LastError))
	}
}

func TestConfirmation(t *testing.T) {
	q := leading(10)
	add(t, q, t0, seen("a", t0), Admitted)
	succeed(t, q, t0, "a")
	add(t, q, t0.Add(30*time.Second), seen("a", t0.Add(30*time.Second)), Duplicate) // the next round skips it
	if q.Confirmed(t0, "b") {
		t.Fatal("a stranger confirmed")
	}
	if !q.Confirmed(t0.Add(time.Second), "a") || q.Confirmed(t0.Add(time.Second), "a") {
		t.Fatal("a confirmation counts once")
	}
	if e := state(t, q, "a", StateConfirmed); e.Attempt != 0 || e.LastSuccess.IsZero() {
		t.Fatalf("%+v", e)
	}
	if _, late := q.Tick(t0.Add(60 * time.Second)); len(late) != 0 || q.Waiting() != 0 {
		t.Fatal("a confirmed one is unconfirmed")
	}
	state(t, q, "a", StateConfirmed)
	add(t, q, t0.Add(2*time.Minute), seen("a", t0.Add(2*time.Minute)), Admitted)
}

func TestUnconfirmedIsTriedAgain(t *testing.T) {
	q := leading(10)
	add(t, q, t0, seen("a", t0), Admitted)
	succeed(t, q, t0, "a")
	end := t0.Add(60 * time.Second)
	if n := q.Next(t0); !n.Equal(end) {
		t.Fatalf("wakes at %s, the hold ends at %s", n, end)
	}
	if _, late := q.Tick(end); !slices.Equal(late, []string{"a"}) {
		t.Fatalf("unconfirmed: %v", late)
	}
	count(t, q, CountUnconfirmed, 1)
	if e := state(t, q, "a", StateUnconfirmed); !e.Due.Equal(end.Add(5 * time.Second)) {
		t.Fatalf("due in %s", e.Due.Sub(end))
	}
	if q.Confirmed(end, "a") {
		t.Fatal("confirmed after the hold")
	}
	due, _ := q.Tick(end.Add(5 * time.Second))
	if !slices.Equal(due, []string{"a"}) {
		t.Fatalf("due %v", due)
	}
	count(t, q, CountRetries, 1)
	j := take(t, q, end.Add(5*time.Second), "a")
	if j.Attempt != 2 || j.Source != SourceRetry {
		t.Fatalf("%+v", j)
	}
}

func TestUnwantedDoesNotComeDueForEver(t *testing.T) {
	q := leading(10)
	add(t, q, t0, seen("a", t0), Admitted)
	finish(t, q, t0, take(t, q, t0, "a"), Result{Outcome: OutcomeError, Stage: StageHelper, Error: "x"})
	now := t0.Add(5 * time.Second)
	q.Tick(now)
	finish(t, q, now, take(t, q, now, "a"), Result{Outcome: OutcomeUnwanted})
	if due, _ := q.Tick(now.Add(time.Hour)); len(due) != 0 {
		t.Fatalf("due %v", due)
	}
}

// TestUnwantedStaysConfirmed: a machine that confirmed and is looked at once more, since it started again, and wants nothing,
// still runs what it confirmed.
func TestUnwantedStaysConfirmed(t *testing.T) {
	q := leading(10)
	add(t, q, t0, seen("a", t0), Admitted)
	finish(t, q, t0, take(t, q, t0, "a"), Result{Outcome: OutcomeSuccess, Stage: StageRestart, BootID: bootA})
	if !q.Confirmed(t0, "a") {
		t.Fatal("not awaited")
	}
	now := t0.Add(time.Hour)
	q.Tick(now)
	add(t, q, now, event("a", now, bootB), Admitted)
	finish(t, q, now, take(t, q, now, "a"), Result{Outcome: OutcomeUnwanted})
	state(t, q, "a", StateConfirmed)
}

func TestLeadershipLost(t *testing.T) {
	q := leading(10)
	for _, id := range []string{"a", "b", "c"} {
		add(t, q, t0, seen(id, t0), Admitted)
	}
	a := take(t, q, t0, "a")
	b, _ := q.Take(t0) // probed, not begun
	q.Pause(PauseNoLeadership)
	q.DropAll()
	sound(t, q)
	if q.Waiting() != 0 || q.HeapLen() != 0 || len(q.Entries()) != 0 {
		t.Fatalf("map %d, heap %d", q.Waiting(), q.HeapLen())
	}
	if q.Begin(t0, b) || q.Finish(t0, a, Result{Outcome: OutcomeError, Stage: StageHelper, Error: "canceled"}) {
		t.Fatal("a run went on without leadership")
	}
	for k := CountErrors; k < counterEnd; k++ {
		count(t, q, k, 0)
	}
	if len(q.busy) != 0 {
		t.Fatalf("busy %v", q.busy)
	}
}

func TestRemoved(t *testing.T) {
	q := leading(10)
	add(t, q, t0, seen("a", t0), Admitted)
	add(t, q, t0, seen("b", t0), Admitted)
	j := take(t, q, t0, "a")
	q.Removed("a")
	q.Removed("b")
	sound(t, q)
	if q.Waiting() != 0 || q.HeapLen() != 0 || q.Finish(t0, j, Result{Outcome: OutcomeSuccess}) {
		t.Fatal("something of a removed machine is left")
	}
	if _, ok := q.Entry("a"); ok {
		t.Fatal("a removed machine is remembered")
	}
}

func TestLoadGoesOn(t *testing.T) {
	q := leading(10)
	q.Load(t0, Known{ID: "a", State: StateBackingOff, DueIn: 30 * time.Second, Attempts: 3, Stage: StageHelper, LastError: "exit code 3", BootID: bootA})
	q.Load(t0, Known{ID: "p", State: StateParked, DueIn: 30 * time.Second, Attempts: 1, LastError: "refused", BootID: bootA})
	q.Load(t0, Known{ID: "d", State: StateDeferred, DueIn: -time.Hour, Attempts: 1})
	q.Load(t0, Known{ID: "c", State: StateConfirmed, LastSuccess: t0})
	sound(t, q)
	add(t, q, t0, seen("a", t0), NotDue)
	add(t, q, t0, seen("p", t0), NotDue)
	if due, _ := q.Tick(t0); !slices.Equal(due, []string{"d"}) {
		t.Fatalf("due %v", due)
	}
	if due, _ := q.Tick(t0.Add(30 * time.Second)); !slices.Equal(due, []string{"a"}) {
		t.Fatalf("due %v", due)
	}
	take(t, q, t0.Add(30*time.Second), "d") // it has not failed
	if j := take(t, q, t0.Add(30*time.Second), "a"); j.Attempt != 4 || j.LastError != "exit code 3" {
		t.Fatalf("%+v", j)
	}
	state(t, q, "c", StateConfirmed)
}

// TestLoadGoesOnHolding: what has its configuration and has not confirmed is awaited by the next leader too, for a whole
// hold; it is not worked a second time, and has failed once where nothing is heard of it.
func TestLoadGoesOnHolding(t *testing.T) {
	q := leading(10)
	for _, id := range []string{"a", "b", "c"} {
		q.Load(t0, Known{ID: id, State: StateHeld, Attempts: 2, FirstSeen: t0.Add(-time.Hour), BootID: bootA, Asked: true})
	}
	sound(t, q)
	if q.Waiting() != 3 || !q.AwaitsConfirm("a") {
		t.Fatalf("%d in the map", q.Waiting())
	}
	state(t, q, "a", StateHeld)
	add(t, q, t0, seen("a", t0), Duplicate)
	if due, _ := q.Tick(t0.Add(time.Second)); len(due) != 0 {
		t.Fatalf("due %v", due)
	}
	if !q.Confirmed(t0.Add(time.Second), "a") {
		t.Fatal("its confirmation is awaited by nobody")
	}
	// Rule 5 holds for a hold that was taken over.
	add(t, q, t0.Add(2*time.Second), Sighting{ID: "c", Made: t0.Add(2 * time.Second), Source: SourceEvent, BootID: bootB, Wants: true}, HoldEnded)
	if _, late := q.Tick(t0.Add(DefaultHold - time.Nanosecond)); len(late) != 0 {
		t.Fatalf("unconfirmed %v", late)
	}
	if _, late := q.Tick(t0.Add(DefaultHold)); !slices.Equal(late, []string{"b"}) {
		t.Fatalf("unconfirmed %v", late)
	}
	state(t, q, "b", StateUnconfirmed)
	if e, _ := q.Entry("b"); e.Attempt != 2 || !e.FirstSeen.Equal(t0.Add(-time.Hour)) {
		t.Fatalf("%+v", e)
	}
	sound(t, q)
}

// TestLoadCarriesAWish: what a person asked for the leader of before runs under the next one, without counting as a retry;
// what has failed since waits its time, and what was parked waits for a person.
func TestLoadCarriesAWish(t *testing.T) {
	q := leading(10)
	q.Load(t0, Known{ID: "a", State: StateConfirmed, Asked: true, LastSuccess: t0})
	q.Load(t0, Known{ID: "b", State: StateBackingOff, Asked: true, Attempts: 1, Stage: StageHelper, DueIn: 20 * time.Second})
	q.Load(t0, Known{ID: "c", State: StateParked, Asked: true, Attempts: 1})
	q.Load(t0, Known{ID: "d", State: StateConfirmed})
	sound(t, q)
	if due, _ := q.Tick(t0); !slices.Equal(due, []string{"a"}) {
		t.Fatalf("due %v", due)
	}
	count(t, q, CountRetries, 0)
	j := take(t, q, t0, "a")
	if !j.Asked {
		t.Fatal("it would run only if the machine wanted it")
	}
	// Taken away before anything was begun with it: it comes due again.
	finish(t, q, t0, j, Result{Outcome: OutcomeSkipped})
	if due, _ := q.Tick(t0); !slices.Equal(due, []string{"a"}) {
		t.Fatalf("after a skip due %v", due)
	}
	finish(t, q, t0, take(t, q, t0, "a"), Result{Outcome: OutcomeSuccess, Stage: StageRestart})
	if e, _ := q.Entry("a"); !e.Asked {
		t.Fatal("the wish ended before the confirmation")
	}
	q.Confirmed(t0, "a")
	if e, _ := q.Entry("a"); e.Asked {
		t.Fatal("the wish outlived the confirmation")
	}
	now := t0.Add(20 * time.Second)
	if due, _ := q.Tick(now); !slices.Equal(due, []string{"b"}) {
		t.Fatalf("due %v", due)
	}
	count(t, q, CountRetries, 1)
	if j := take(t, q, now, "b"); !j.Asked {
		t.Fatal("a retry lost the wish")
	}
	if due, _ := q.Tick(now.Add(time.Hour)); len(due) != 0 {
		t.Fatalf("due %v", due)
	}
}

// TestUpgradedKeepsTheWish: an upgrade in place is no configuration, so that what a person asked for goes on after it.
func TestUpgradedKeepsTheWish(t *testing.T) {
	q := leading(10)
	q.Reprovision(t0, "a")
	finish(t, q, t0, take(t, q, t0, "a"), Result{Outcome: OutcomeUpgraded})
	if q.Waiting() != 0 {
		t.Fatal("it is not done at once")
	}
	if due, _ := q.Tick(t0.Add(time.Minute - 1)); len(due) != 0 {
		t.Fatalf("due %v before the next cycle", due)
	}
	if due, _ := q.Tick(t0.Add(time.Minute)); !slices.Equal(due, []string{"a"}) {
		t.Fatalf("due %v at the next cycle", due)
	}
	if j := take(t, q, t0.Add(time.Minute), "a"); !j.Asked {
		t.Fatal("the wish ended with the upgrade")
	}
	// Who was not asked for waits for its next sighting.
	add(t, q, t0, seen("b", t0), Admitted)
	finish(t, q, t0, take(t, q, t0, "b"), Result{Outcome: OutcomeUpgraded})
	if due, _ := q.Tick(t0.Add(time.Hour)); slices.Contains(due, "b") {
		t.Fatal("it came due by itself")
	}
}

// checkNames is the labels and words that the outside sees, as the specification has them.
func checkNames() error {
	var got []string
	for _, s := range New(Config{}).Series() {
		got = append(got, strings.TrimSuffix(strings.TrimPrefix(s.Metric, "pace_provision_"), "_total")+" "+s.Label+"="+s.Value)
	}
	want := []string{"discovered =", "event_discovered ="}
	for _, m := range []string{"errors", "retries"} {
		for _, s := range []string{"probe", "inventory", "csr", "helper", "shutdown", "upgrade", "configure", "restart", "confirm"} {
			want = append(want, m+" stage="+s)
		}
	}
	want = append(want, "provisioned =", "deferred =", "shutdowns =", "upgrades =", "unreachable =", "unconfirmed =",
		"refused reason=duplicate", "refused reason=not_due", "refused reason=full", "refused reason=stale", "refused reason=paused",
		"refused reason=invalid")
	if !slices.Equal(got, want) {
		return fmt.Errorf("series\n%q, want\n%q", got, want)
	}
	for v, name := range map[Verdict]string{Duplicate: "duplicate", NotDue: "not_due", Full: "full", Stale: "stale", Paused: "paused", Invalid: "invalid"} {
		if v.String() != name || v.Enters() || verdictRow(v).Counts == 0 {
			return fmt.Errorf("verdict %s", v)
		}
	}
	for v, enters := range map[Verdict]bool{Admitted: true, AdmittedAgain: true, RunAgainOnce: true, HoldEnded: false} {
		if v.Enters() != enters || verdictRow(v).Counts != 0 || v.String() == "unknown" {
			return fmt.Errorf("verdict %s enters %v", v, v.Enters())
		}
	}
	if Verdict(0).String() != "unknown" || Outcome(77).String() != "unknown" || State(77).String() != "unknown" || Source(77).String() != "unknown" {
		return errors.New("a value outside its list has a name")
	}
	for s, name := range map[State]string{StateWaiting: "waiting", StateRunning: "running", StateHeld: "held", StateDeferred: "deferred",
		StateBackingOff: "backing off", StateParked: "parked", StateConfirmed: "confirmed", StateUnconfirmed: "unconfirmed"} {
		if s.String() != name {
			return fmt.Errorf("state %s, want %s", s, name)
		}
	}
	return nil
}

func TestNames(t *testing.T) {
	if err := checkNames(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationVerdictsAndCounters(t *testing.T) {
	for i := range Verdicts {
		was := Verdicts[i]
		Verdicts[i].Enters = !was.Enters
		err := checkNames()
		Verdicts[i] = was
		if err == nil {
			t.Errorf("verdict %s flipped passes", was.Name)
		}
	}
	for i := range Counters {
		was := Counters[i]
		Counters[i].Metric += "x"
		err := checkNames()
		Counters[i] = was
		if err == nil {
			t.Errorf("counter %s renamed passes", was.Metric)
		}
	}
}
