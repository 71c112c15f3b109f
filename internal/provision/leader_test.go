package provision

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

func TestANewLeaderGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		state := map[string]fleet.Provision{
			"parked":  {Parked: true, Attempts: 2, Stage: "configure", LastError: "no PEM", ErrorKind: "permanent", BootID: bootID(1), BootCounter: 1, Sequence: 7},
			"waiting": {Due: now.Add(90 * time.Second).Unix(), Attempts: 3, Stage: "helper", LastError: "exit code 3", ErrorKind: "transient"},
			"skewed":  {Due: now.Add(24 * time.Hour).Unix(), Attempts: 1, Stage: "helper", ErrorKind: "transient"},
			"done":    {LastSuccess: now.Unix(), Outcomes: []fleet.Outcome{{At: now.Unix(), Result: "provisioned"}}},
		}
		f := newFleetWith(t, Config{Workers: 1, Default: trivial}, func(d *Deps) { d.Load = func() map[string]fleet.Provision { return state } })
		defer f.close()
		state["idle"] = fleet.Provision{}
		for id := range state {
			f.add(id, func(m *machine) { m.wants = id != "done" && id != "idle" })
		}
		f.p.Lead(true)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		f.want("provisioned_total", "", 0)
		if e := f.state("parked"); e.State != queue.StateParked || e.LastError != "no PEM" {
			t.Fatalf("%+v", e)
		}
		if e := f.state("done"); e.State != queue.StateConfirmed {
			t.Fatalf("%+v", e)
		}
		if _, ok, _ := f.p.Show(context.Background(), "idle"); ok {
			t.Fatal("one that never asked is known to the queue")
		}
		// The event that the leader of before has recorded is a replay here too.
		f.with("parked", func(m *machine) { m.sequence = 6 })
		if a := f.send(f.event("parked")); a.Refused != "replayed" {
			t.Fatalf("%+v", a)
		}
		f.provisioned(1, 70*time.Second)
		if _, ok := f.provAt["waiting"]; !ok {
			t.Fatal("the one that was due is not provisioned")
		}
		f.provisioned(2, 10*time.Minute) // the skewed one waits ten minutes at most
	})
}

// TestANewLeaderConfirms: a machine that has its configuration when its leader goes is not configured again. The next leader
// hears from it, by its announcement or by its answer to the first round, and commits the confirmation; what it says otherwise
// confirms nothing. When it was first seen is kept.
func TestANewLeaderConfirms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *fakeFleet
		f = newFleetWith(t, Config{Workers: 2, Default: trivial}, func(d *Deps) {
			d.Load = func() map[string]fleet.Provision { f.mu.Lock(); defer f.mu.Unlock(); return maps.Clone(f.records) }
		})
		defer f.close()
		for _, id := range []string{"asked", "says", "other"} {
			f.add(id, func(m *machine) {
				m.mute = true
				m.fail["inventory"] = func(n int) error {
					if n == 1 {
						return errors.New("lost")
					}
					return nil
				}
			})
		}
		first := time.Now()
		f.p.Lead(true)
		time.Sleep(20 * time.Second) // each failed once, is configured, and the state says so
		synctest.Wait()
		f.want("provisioned_total", "", 0)
		for _, id := range []string{"asked", "says", "other"} {
			if rec := f.records[id]; queue.StateOf(rec) != queue.StateHeld || rec.FirstSeen != first.Unix() {
				t.Fatalf("%s: %+v", id, rec)
			}
		}
		f.p.Lead(false)
		f.with("says", func(m *machine) { m.component = DefaultComponent }) // it has not come so far when it is asked
		f.with("other", func(m *machine) { m.digest = bootID(9) })
		f.p.Lead(true)
		f.provisioned(1, time.Second)
		if e := f.state("asked"); e.State != queue.StateConfirmed {
			t.Fatalf("%+v", e)
		}
		f.p.Announce("says", wire.Announce{Component: ComponentServer, ConfigDigest: f.records["says"].ConfigDigest})
		f.provisioned(2, time.Second)
		for _, id := range []string{"asked", "says"} {
			if n := f.get(id).asked["configure"]; n != 1 {
				t.Errorf("%s was configured %d times", id, n)
			}
			if rec := f.records[id]; rec.FirstSeen != 0 || rec.LastSuccess == 0 {
				t.Errorf("%s: %+v", id, rec)
			}
		}
		f.want("sighting_to_done_seconds", "", 0) // this leader has not seen the beginning
		time.Sleep(queue.DefaultHold)
		synctest.Wait()
		if e := f.state("other"); e.State != queue.StateUnconfirmed || e.FirstSeen.Unix() != first.Unix() {
			t.Fatalf("%+v", e)
		}
		f.with("other", func(m *machine) { m.mute = false })
		f.provisioned(3, 2*queue.BackoffFirst)
	})
}

// TestAWishOutlivesTheLeader: an operator is answered once the state holds what was asked for, and the next leader does it,
// though the machine itself wants nothing.
func TestAWishOutlivesTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		var f *fakeFleet
		f = newFleetWith(t, Config{Workers: 1, Default: trivial}, func(d *Deps) {
			d.Load = func() map[string]fleet.Provision { f.mu.Lock(); defer f.mu.Unlock(); return maps.Clone(f.records) }
		})
		defer f.close()
		f.add("a", func(m *machine) { m.wants = false; m.fail["configure"] = func(int) error { return errHang } })
		f.p.Lead(true)
		synctest.Wait()
		if _, err := f.p.Reprovision(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if rec := f.records["a"]; !rec.Asked {
			t.Fatalf("it was answered before the state held it: %+v", rec)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		f.want("busy_workers", "", 1)
		f.p.Lead(false) // killed in the middle of configure
		synctest.Wait()
		f.with("a", func(m *machine) { delete(m.fail, "configure") })
		f.p.Lead(true)
		f.provisioned(1, time.Second)
		if rec := f.records["a"]; rec.Asked || rec.LastSuccess == 0 {
			t.Fatalf("after its confirmation: %+v", rec)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()

		// Dropped is dropped for the next leader too.
		f.with("a", func(m *machine) { m.wants = false; m.fail["configure"] = func(int) error { return errHang } })
		if _, err := f.p.Reprovision(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := f.p.Drop(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		f.p.Lead(false)
		f.p.Lead(true)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		f.want("waiting_nodes", "", 0)

		// What the state does not hold is no success.
		f.mu.Lock()
		f.commitErr = errors.New("no quorum")
		f.mu.Unlock()
		text, err := f.p.Reprovision(ctx, "a")
		var refused *wire.Error
		if !errors.As(err, &refused) || text != "" || !strings.Contains(refused.Text, "no quorum") || refused.Hint == "" {
			t.Fatalf("%q, %v", text, err)
		}
	})
}

// TestWhoHasNotHeardOfTheElection: in the first moments of a leader its members may not know yet that it leads. Its round
// waits for them, and so does a probe; that is no failure of a machine.
func TestWhoHasNotHeardOfTheElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 1, Default: trivial})
		defer f.close()
		unaware := func(until int) func(m *machine) {
			return func(m *machine) {
				m.fail["query"] = func(n int) error {
					if n <= until {
						return wire.NewError(wire.CodeRosterNotApplied, "not heard yet", "")
					}
					return nil
				}
			}
		}
		f.add("aware")
		f.add("soon", unaware(6))
		f.add("late", unaware(30), func(m *machine) { m.wants = false })
		f.p.Lead(true)
		f.provisioned(2, 2500*time.Millisecond)
		f.want("errors_total", "probe", 0)
		f.want("discover_cycles_total", "", 1)
		if _, err := f.p.Reprovision(context.Background(), "late"); err != nil {
			t.Fatal(err)
		}
		f.provisioned(3, 4*time.Second)
		f.want("errors_total", "probe", 0)

		// For ever is not patience.
		f.with("aware", unaware(1000))
		if _, err := f.p.Reprovision(context.Background(), "aware"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(queue.NotYetMost - time.Second)
		synctest.Wait()
		f.want("errors_total", "probe", 0)
		time.Sleep(2*ProbeTimeout + queue.NotYetWait)
		synctest.Wait()
		f.want("errors_total", "probe", 1)
		if e := f.state("aware"); e.State != queue.StateBackingOff || e.Kind != queue.KindTransient || !strings.Contains(e.LastError, "not heard yet") {
			t.Fatalf("%+v", e)
		}
	})
}

// TestASeatedVoterIsTriedSoon: a machine refuses for longer than a probe or a step lasts, as a voter does that was just seated
// and hears its leader late. It is provisioned within two seconds of the end of that, and nothing counts as a failure.
func TestASeatedVoterIsTriedSoon(t *testing.T) {
	for _, at := range []string{"query", "inventory", "restart"} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Config{Workers: 1, Default: trivial})
				defer f.close()
				row := step(queue.StageRestart)
				refuses := min(20*time.Second, row.Timeout)
				begun := time.Now()
				f.add("a", func(m *machine) {
					m.fail[at] = func(int) error {
						if time.Since(begun) < refuses {
							return wire.NewError(wire.CodeRosterNotApplied, "not heard yet", "")
						}
						return nil
					}
				})
				f.p.Lead(true)
				if at == "query" { // it answers no round either
					time.Sleep(time.Second)
					synctest.Wait()
					if _, err := f.p.Reprovision(context.Background(), "a"); err != nil {
						t.Fatal(err)
					}
				}
				f.provisioned(1, refuses+queue.NotYetWait+time.Second)
				for _, s := range queue.Stages {
					f.want("errors_total", string(s), 0)
				}
				if r := f.records["a"]; r.Attempts != 0 || r.LastError != "" || len(r.Outcomes) != 2 {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// TestBusyMachinesCostNoWorker: a leader is gone while machines run their hooks, which may take a minute. The next one leaves them to
// that, without a worker and without a failure, goes on with whoever is free, and finishes them as soon as they are.
func TestBusyMachinesCostNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 2, Default: trivial})
		defer f.close()
		const hooks = 20 * time.Second
		for _, id := range []string{"a", "b"} { // as many as there are workers
			f.add(id, func(m *machine) { m.busyUntil = time.Now().Add(hooks) })
		}
		f.p.Lead(true)
		time.Sleep(3 * time.Second) // both are known, and have been tried
		synctest.Wait()
		for i := range 8 {
			f.add(fmt.Sprint("free", i))
		}
		for i := range 8 {
			if _, err := f.p.Reprovision(context.Background(), fmt.Sprint("free", i)); err != nil {
				t.Fatal(err)
			}
		}
		f.provisioned(8, 2*time.Second)
		f.provisioned(10, hooks+queue.NotYetWait+time.Second)
		for _, s := range queue.Stages {
			f.want("errors_total", string(s), 0)
		}
		for _, id := range []string{"a", "b"} {
			if log := f.get(id).log; !slices.Equal(log, []string{"inventory", "configure", "restart"}) {
				t.Errorf("%s was asked for %v", id, log)
			}
		}
	})
}

// TestBusyForGoodIsSeen: one that is busy for longer than any hook may take fails with that as its reason.
func TestBusyForGoodIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 1, Default: trivial})
		defer f.close()
		f.add("stuck", func(m *machine) { m.busyUntil = time.Now().Add(24 * time.Hour) })
		f.p.Lead(true)
		time.Sleep(queue.NotYetMost + 10*time.Second)
		synctest.Wait()
		f.want("errors_total", "probe", 1)
		if e := f.state("stuck"); e.Kind != queue.KindTransient || e.Attempt != 1 || !strings.Contains(e.LastError, "busy with a step") {
			t.Errorf("%+v", e)
		}
		f.want("busy_workers", "", 0)
	})
}

// TestOrderOfTheStart: the provisioner says that it is there, then it is paused with every metric at zero; leadership brings
// one round within a second.
func TestOrderOfTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		f := newFleetWith(t, Config{Workers: 1, Default: trivial}, func(d *Deps) {
			d.Logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelInfo}))
		})
		defer f.close()
		synctest.Wait()
		if first, _, _ := strings.Cut(said.String(), "\n"); !strings.Contains(first, "component=provisioner") || !strings.Contains(first, "started") {
			t.Fatalf("first it says %q", first)
		}
		f.want("paused", "", 1)
		f.sync(func(now time.Time) {
			for _, s := range f.p.Samples(now) {
				if (s.V != 0 || s.Count != 0) && s.Metric != "pace_provision_paused" {
					t.Errorf("%s{%s} is %g at the start", s.Metric, s.Value, s.V)
				}
			}
		})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		f.want("discover_cycles_total", "", 0) // a standby asks nobody
		f.p.Lead(true)
		time.Sleep(time.Second)
		synctest.Wait()
		f.want("discover_cycles_total", "", 1)
		f.want("leader_changes_total", "", 1)
	})
}
