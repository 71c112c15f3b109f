package provision

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/queue"
)

// TestConfigure gives a leader that has nothing to provision with a default and more workers, then fewer.
func TestConfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 1})
		defer f.close()
		for _, id := range []string{"a", "b", "c", "d"} {
			f.add(id, func(m *machine) { m.latency = time.Second })
		}
		f.p.Lead(true)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		f.want("paused", "", 1)
		f.p.Configure(Config{Workers: -1, Default: trivial}) // passed over
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		f.want("paused", "", 1)

		f.p.Configure(Config{Workers: 3, Default: trivial, QueueCap: 2})
		time.Sleep(4 * time.Second) // not at the next round: at once
		synctest.Wait()
		f.want("paused", "", 0)
		f.want("busy_workers", "", 3)
		f.provisioned(4, time.Minute)

		// Who is at work ends with what it began with, and then is one too many.
		f.with("a", func(m *machine) { m.latency = 1500 * time.Millisecond })
		if _, err := f.p.Reprovision(context.Background(), "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		f.want("busy_workers", "", 1)
		f.p.Configure(Config{Workers: 1, Default: `{"configuration":{"role":"db"}}`})
		f.sync(func(time.Time) {
			if f.p.crew != 1 || len(f.p.idle) != 0 {
				t.Errorf("%d workers, %d idle", f.p.crew, len(f.p.idle))
			}
		})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got := f.get("a").body.Configuration["role"]; got != "web" {
			t.Errorf("a machine that was picked up before was given %q", got)
		}
		f.with("a", func(m *machine) { m.latency = 0 })
		for _, id := range []string{"a", "b"} {
			if _, err := f.p.Reprovision(context.Background(), id); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		for _, id := range []string{"a", "b"} {
			if got := f.get(id).body.Configuration["role"]; got != "db" {
				t.Errorf("%s was given %q", id, got)
			}
		}
		f.sync(func(time.Time) {
			if f.p.crew != 1 || len(f.p.idle) != 1 {
				t.Errorf("%d workers, %d idle", f.p.crew, len(f.p.idle))
			}
		})
		f.want("busy_workers", "", 0)
	})
}

// TestStandbyLooksAtItsMeans: who does not lead tells what it could not provision with, and nothing else.
func TestStandbyLooksAtItsMeans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 1})
		defer f.close()
		synctest.Wait()
		if !errors.Is(f.means, ErrNothing) {
			t.Fatalf("at the start: %v", f.means)
		}
		f.p.Configure(Config{Workers: 1, Default: t.TempDir() + "/none.json"})
		synctest.Wait()
		if f.means == nil || errors.Is(f.means, ErrNothing) {
			t.Fatalf("of a default that is not there: %v", f.means)
		}
		f.p.Configure(Config{Workers: 1, Default: trivial})
		synctest.Wait()
		if f.means != nil || f.handOvers != 0 || len(f.conditions) != 0 {
			t.Fatalf("%v, %d hand-overs, conditions %v", f.means, f.handOvers, f.conditions)
		}
		f.want("paused", "", 1) // for want of leadership
		f.want("discover_cycles_total", "", 0)
		f.p.Lead(true)
		f.p.Lead(false)
		synctest.Wait()
		f.p.Configure(Config{Workers: 1})
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if !errors.Is(f.means, ErrNothing) || f.handOvers != 0 || len(f.conditions) != 0 {
			t.Fatalf("%v, %d hand-overs, conditions %v", f.means, f.handOvers, f.conditions)
		}
	})
}

// TestQuiesce: a node that stops has its cycles at a stage's boundary while it still leads, and begins nothing any more.
func TestQuiesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 1, Default: trivial})
		defer f.close()
		f.add("a", func(m *machine) { m.latency = 1500 * time.Millisecond })
		f.add("b")
		f.p.Lead(true)
		synctest.Wait()
		if a := f.send(f.event("a")); !a.Admitted {
			t.Fatalf("%+v", a)
		}
		time.Sleep(3500 * time.Millisecond) // in configure
		synctest.Wait()
		f.p.Quiesce(context.Background())
		if m := f.get("a"); m.working != 0 || m.digest == "" || !slices.Equal(m.log[len(m.log)-1:], []string{"configure"}) {
			t.Errorf("steps %v, digest %q", m.log, m.digest)
		}
		if a := f.send(f.event("b")); a.Admitted || a.Refused != "paused" { // dropped, and counted as any other
			t.Errorf("%+v", a)
		}
		dropped := 0.0
		f.p.post(func(now time.Time) {
			for _, s := range f.p.Samples(now) {
				if s.Metric == "pace_provision_refused_total" && s.Value == "paused" {
					dropped = s.V
				}
			}
		})
		synctest.Wait()
		if dropped != 1 {
			t.Errorf("%g are counted, want 1", dropped)
		}
		before := len(f.get("b").log)
		f.p.Discover()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := len(f.get("b").log); n != before {
			t.Errorf("%d steps were begun after it", n-before)
		}
		if why := f.q.PausedBy(); why != queue.PauseStopping {
			t.Errorf("paused by %q", PauseText(why))
		}
		begun := time.Now()
		f.p.Lead(false) // handed over
		f.p.Stop(context.Background())
		if took := time.Since(begun); took > 0 {
			t.Errorf("the rest took %s", took)
		}
	})
}
