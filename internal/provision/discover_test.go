package provision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// round asks everybody once, without a queue behind it.
func (f *fakeFleet) round() (ids []string, took time.Duration) {
	begun := time.Now()
	for _, h := range f.p.askAll(context.Background(), f.members()) {
		ids = append(ids, h.asked)
	}
	slices.Sort(ids)
	return ids, time.Since(begun)
}

func TestSlidingWindow(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		name    string
		answers []time.Duration // 0: never
		want    []string
		took    time.Duration
	}{
		{"nobody", nil, nil, 0},
		{"everybody at once", []time.Duration{ms, ms}, []string{"m0", "m1"}, ms},
		{"it slides", []time.Duration{10 * ms, 300 * ms, 590 * ms, 880 * ms, 0}, []string{"m0", "m1", "m2", "m3"}, 1180 * ms},
		{"ends 300 ms after the last", []time.Duration{10 * ms, 320 * ms}, []string{"m0"}, 310 * ms},
		{"two seconds at most", []time.Duration{250 * ms, 500 * ms, 750 * ms, 1000 * ms, 1250 * ms, 1500 * ms, 1750 * ms, 1990 * ms, 2010 * ms},
			[]string{"m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"}, 2000 * ms},
		{"silence", []time.Duration{0}, nil, 2000 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Config{Workers: 1, Default: trivial})
				defer f.close()
				for i, d := range c.answers {
					f.add(fmt.Sprintf("m%d", i), func(m *machine) { m.latency, m.silent = d, d == 0 })
				}
				ids, took := f.round()
				if !slices.Equal(ids, c.want) || took != c.took {
					t.Fatalf("heard %v in %s, want %v in %s", ids, took, c.want, c.took)
				}
			})
		})
	}
}

func TestSilentMembersHideNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 1, Default: trivial})
		defer f.close()
		for i := range 300 {
			f.add(fmt.Sprintf("dead%d", i), func(m *machine) { m.silent = true })
		}
		for i := range 700 {
			f.add(fmt.Sprintf("live%d", i), func(m *machine) { m.latency = 5 * time.Millisecond })
		}
		ids, took := f.round()
		if len(ids) != 700 || took > RoundMax {
			t.Fatalf("heard %d in %s", len(ids), took)
		}
	})
}

func TestARoundIsNotStartedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 1, Default: trivial})
		defer f.close()
		f.add("a", func(m *machine) { m.silent = true })
		f.p.Lead(true)
		for range 5 {
			f.p.Discover()
		}
		synctest.Wait()
		f.want("discover_cycles_total", "", 1)
		time.Sleep(RoundMax + time.Millisecond)
		synctest.Wait()
		f.p.Discover()
		synctest.Wait()
		f.want("discover_cycles_total", "", 2)
	})
}

func TestIdentityClash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 2, Default: trivial})
		defer f.close()
		f.add("a")
		f.add("b", func(m *machine) { m.answersAs = "a" })  // two keys answer for a
		f.add("c", func(m *machine) { m.answersAs = "zz" }) // and one for nobody
		f.add("d")
		f.p.Lead(true)
		f.provisioned(1, time.Second)
		synctest.Wait()
		if len(f.get("a").log)+len(f.get("b").log)+len(f.get("c").log) != 0 {
			t.Fatal("a machine of a clash was worked")
		}
		if f.conditions["identity-clash"] != "a" {
			t.Fatalf("conditions %v", f.conditions)
		}
		f.want("discovery_errors_total", "", 1)
		f.with("b", func(m *machine) { m.answersAs = "" })
		time.Sleep(time.Minute)
		synctest.Wait()
		f.provisioned(3, 10*time.Second)
		if _, raised := f.conditions["identity-clash"]; raised {
			t.Fatal("the clash is over and still raised")
		}
	})
}

// TestIdentityClashBothWays: whichever of the two answers first, neither is taken, by a round, by an event, or from the queue.
func TestIdentityClashBothWays(t *testing.T) {
	for _, first := range []string{"a", "b"} {
		t.Run(first+" first", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Config{Workers: 1, Default: trivial})
				defer f.close()
				f.add("a", func(m *machine) { m.wants = false })
				f.add("b", func(m *machine) { m.wants = false })
				for _, id := range []string{"a", "b"} {
					if id != first {
						f.with(id, func(m *machine) { m.latency = 100 * time.Millisecond })
					}
				}
				f.p.Lead(true)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				f.with("b", func(m *machine) { m.answersAs, m.wants = "a", true })
				f.with("a", func(m *machine) { m.wants = true })
				time.Sleep(time.Minute) // the round
				synctest.Wait()
				if f.conditions["identity-clash"] != "a" {
					t.Fatalf("conditions %v", f.conditions)
				}
				f.want("discovered_total", "", 0)
				if a := f.send(f.event("a")); a.Refused != "identity_clash" {
					t.Fatalf("%+v", a)
				}
				f.want("events_refused_total", "identity_clash", 1)
				f.want("refused_total", "invalid", 0)
				// At an operator's word it is queued, and not worked.
				if _, err := f.p.Reprovision(context.Background(), "a"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if e := f.state("a"); e.State != queue.StateBackingOff || !strings.Contains(e.LastError, "two machines answer") || e.Stage != queue.StageProbe {
					t.Fatalf("%+v", e)
				}
				if n := len(f.get("a").log) + len(f.get("b").log); n != 0 {
					t.Fatalf("%d steps of machines that clash", n)
				}
				f.with("b", func(m *machine) { m.answersAs = "" })
				f.provisioned(2, 2*time.Minute)
			})
		})
	}
}

func TestRoundsAreTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 1, Interval: 90 * time.Second, Default: trivial})
		defer f.close()
		f.add("a", func(m *machine) {
			m.fail["query"] = func(int) error { return errors.New("stream reset") }
		})
		f.add("gone", func(m *machine) { m.fail["query"] = func(int) error { return ErrUnreachable } })
		f.p.Lead(true)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		f.want("discover_cycles_total", "", 1)
		time.Sleep(89 * time.Second)
		synctest.Wait()
		f.want("discover_cycles_total", "", 1)
		time.Sleep(time.Second)
		synctest.Wait()
		f.want("discover_cycles_total", "", 2)
		f.want("discovery_errors_total", "", 2) // a, twice; one without a session is no error
		f.want("rpc_errors_total", "query", 4)
		if err := f.p.Pause(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		f.want("discover_cycles_total", "", 2)
		f.want("paused", "", 1)
		if err := f.p.Resume(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		f.want("discover_cycles_total", "", 3) // at once: what was said meanwhile was dropped
		time.Sleep(91 * time.Second)
		synctest.Wait()
		f.want("discover_cycles_total", "", 4)
	})
}

func TestNothingToProvisionWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir() + "/answer.json"
		write(t, path, trivial, 0o600)
		f := newFleet(t, Config{Workers: 1, Default: path})
		defer f.close()
		remove(t, path)
		f.add("a")
		f.p.Lead(true)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		f.want("paused", "", 1)
		f.want("discover_cycles_total", "", 0)
		if f.handOvers != 1 || !strings.Contains(f.conditions["provisioning-paused"], "no such file") || f.means == nil {
			t.Fatalf("hand-overs %d, conditions %v", f.handOvers, f.conditions)
		}
		if _, err := f.p.Reprovision(context.Background(), "a"); err == nil || !strings.Contains(err.Error(), "--provision-helper=") || strings.Contains(err.Error(), "resume") {
			t.Fatalf("there is nothing to provision with, and resuming would not help: %v", err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if f.handOvers != 6 || len(f.records) != 0 { // it asks at each look, and nobody is parked
			t.Fatalf("hand-overs %d, records %v", f.handOvers, f.records)
		}
		write(t, path, trivial, 0o600)
		f.provisioned(1, 2*time.Minute) // by itself
		if len(f.conditions) != 0 || f.means != nil {
			t.Fatalf("conditions %v, %v", f.conditions, f.means)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 1})
		defer f.close()
		f.add("a")
		f.p.Lead(true)
		synctest.Wait()
		if f.conditions["provisioning-paused"] != ErrNothing.Error() {
			t.Fatalf("conditions %v", f.conditions)
		}
	})
}

func TestAlwaysModeRebootIsNoFailure(t *testing.T) {
	for _, always := range []bool{true, false} {
		t.Run(fmt.Sprint(always), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Config{Workers: 1, Default: trivial})
				defer f.close()
				f.add("a", func(m *machine) {
					m.mute = true
					if always {
						m.why = WhyAlways
					}
				})
				f.p.Lead(true)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				f.with("a", func(m *machine) { m.boot, m.sequence, m.mute = 2, 0, false })
				a := f.send(f.event("a", func(e *wire.StartupEvent) {}))
				if a.Admitted != always || !always && a.Refused != "hold_ended" {
					t.Fatalf("%+v", a)
				}
				f.provisioned(1, 6*time.Second)
				failures := 1.0
				if always {
					failures = 0
				}
				f.want("errors_total", "confirm", failures)
			})
		})
	}
}

// TestPauseIsSaidOnce: a pause that lasts for a day is one line of the log, and the next one of the same reason is said again.
func TestPauseIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		f := newFleetWith(t, Config{Workers: 1, Default: trivial}, func(d *Deps) { d.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		defer f.close()
		said := func() int { return strings.Count(log.String(), "does not lead the fleet") }
		for range 100 {
			f.p.Discover()
		}
		synctest.Wait()
		if said() != 1 {
			t.Fatalf("said %d times:\n%s", said(), log.String())
		}
		f.p.Lead(true)
		f.p.Discover()
		synctest.Wait()
		f.p.Lead(false)
		f.p.Discover()
		f.p.Discover()
		synctest.Wait()
		if said() != 2 {
			t.Fatalf("the second pause: said %d times:\n%s", said(), log.String())
		}
	})
}
