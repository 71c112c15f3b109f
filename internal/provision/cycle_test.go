package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

func TestWholeCycles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 4, Default: trivial})
		defer f.close()
		for i := range 50 {
			f.add(fmt.Sprintf("m%02d", i), func(m *machine) { m.latency = 10 * time.Millisecond })
		}
		f.add("content", func(m *machine) { m.wants = false })
		f.want("paused", "", 1)
		f.want("discover_cycles_total", "", 0)
		f.p.Discover() // paused: nothing is asked and the counter stays
		synctest.Wait()
		f.want("discover_cycles_total", "", 0)
		f.p.Lead(true)
		f.provisioned(50, 5*time.Second)
		synctest.Wait()
		f.want("discovered_total", "", 50)
		f.want("provisioned_total", "", 50)
		f.want("discover_cycles_total", "", 1)
		f.want("waiting_nodes", "", 50) // held, while the next round would find them
		f.want("work_queue_entries", "", 0)
		f.want("busy_workers", "", 0)
		f.want("sighting_to_done_seconds", "", 50)
		for _, rpc := range []string{"inventory", "configure", "restart"} {
			f.want("rpc_seconds", rpc, 50)
		}
		for i := range 50 {
			m := f.get(fmt.Sprintf("m%02d", i))
			if !slices.Equal(m.log, []string{"inventory", "configure", "restart"}) || m.body.Configuration["role"] != "web" || m.body.Cluster != testCluster {
				t.Fatalf("%s: %v %+v", m.id, m.log, m.body)
			}
		}
		if len(f.get("content").log) != 0 {
			t.Fatal("a machine that wants nothing was worked")
		}
		rec := f.records["m00"]
		if rec.LastSuccess == 0 || rec.ConfigDigest != f.get("m00").digest || rec.Component != "server" || rec.Attempts != 0 || len(rec.Outcomes) != 2 {
			t.Fatalf("record %+v", rec)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		f.want("waiting_nodes", "", 0)
		f.want("discover_cycles_total", "", 2)
		f.want("provisioned_total", "", 50) // the second round finds nobody who wants
		f.want("unconfirmed_total", "", 0)
	})
}

func TestDeadMachinesCostNoWorker(t *testing.T) {
	for _, kind := range []string{"silent", "without a session"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Config{Workers: 4, Default: trivial})
				defer f.close()
				for i := range 500 {
					f.add(fmt.Sprintf("a%03d", i), func(m *machine) {
						m.silent, m.session = kind == "silent", kind == "silent"
					})
				}
				for i := range 20 {
					f.add(fmt.Sprintf("z%03d", i), func(m *machine) { m.latency = 50 * time.Millisecond })
				}
				f.p.Lead(true)
				synctest.Wait()
				for _, id := range slices.Sorted(func(yield func(string) bool) {
					for id := range f.machines {
						if !yield(id) {
							return
						}
					}
				}) { // the dead ones first, as if each had been seen just before it died
					f.sync(func(now time.Time) {
						f.q.Add(now, queue.Sighting{ID: id, Made: now, Source: queue.SourceDiscovery, Wants: true, BootID: bootID(1)})
						f.p.after(now)
					})
				}
				f.provisioned(20, 10*time.Second)
				f.want("errors_total", "helper", 0)
				// Every dead one is found to be unreachable, and none is lost.
				time.Sleep(30 * time.Second)
				synctest.Wait()
				if got := f.value("unreachable_total", ""); got < 500 {
					t.Fatalf("%g unreachable", got)
				}
				if e := f.state("a000"); e.State != queue.StateBackingOff && e.State != queue.StateWaiting || e.Kind != queue.KindUnreachable {
					t.Fatalf("%+v", e)
				}
			})
		})
	}
}

func TestProbesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 2, Default: trivial})
		defer f.close()
		f.p.Lead(true)
		time.Sleep(3 * time.Second) // the first round is over before there is anybody
		synctest.Wait()
		for i := range 300 {
			f.add(fmt.Sprintf("m%03d", i), func(m *machine) { m.silent = true })
		}
		f.sync(func(now time.Time) {
			for id := range f.machines {
				f.q.Add(now, queue.Sighting{ID: id, Made: now, Source: queue.SourceDiscovery, Wants: true})
			}
			f.p.after(now)
		})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if f.mostAtOnce != ProbesAtOnce {
			t.Fatalf("%d probes at once, want %d", f.mostAtOnce, ProbesAtOnce)
		}
	})
}

func TestASlowMachineIsNotDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 2, Default: trivial})
		defer f.close()
		for i := range 100 {
			f.add(fmt.Sprintf("m%03d", i), func(m *machine) { m.latency = 1200 * time.Millisecond })
		}
		f.p.Lead(true)
		f.provisioned(100, 10*time.Minute)
		f.want("unreachable_total", "", 0)
	})
}

func TestANewSessionMakesDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 2, Default: trivial})
		defer f.close()
		f.add("a")
		f.with("a", func(m *machine) { m.silent = true })
		f.p.Lead(true)
		synctest.Wait()
		f.send(f.event("a"))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if e := f.state("a"); e.State != queue.StateBackingOff || !strings.Contains(e.LastError, "did not answer within 2s") {
			t.Fatalf("%+v", e)
		}
		f.with("a", func(m *machine) { m.silent = false })
		f.p.SessionUp("a")
		f.provisioned(1, 200*time.Millisecond)
	})
}

func TestEventToProvisioned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 2, Default: trivial})
		defer f.close()
		f.p.Lead(true)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		f.add("a", func(m *machine) { m.latency = 20 * time.Millisecond })
		f.begun = time.Now()
		if a := f.send(f.event("a")); !a.Admitted {
			t.Fatalf("%+v", a)
		}
		f.provisioned(1, 150*time.Millisecond)
		f.want("event_discovered_total", "", 1)
		f.want("discovered_total", "", 0)
	})
}

func TestDeferAndShutdown(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		state        queue.State
		counter      string
		steps        []string
		due          time.Duration
	}{
		{"defer", `{"defer":true,"msg":"no slot\nyet","pace":{"retry_after":"15m"}}`, queue.StateDeferred, "deferred_total", []string{"inventory"}, 15 * time.Minute},
		{"defer wins over shutdown", `{"defer":true,"shutdown":true}`, queue.StateDeferred, "deferred_total", []string{"inventory"}, 5 * time.Second},
		{"shutdown", `{"shutdown":true,"msg":"retired"}`, queue.StateHeld, "shutdowns_total", []string{"inventory", "shutdown"}, 60 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Config{Workers: 2, Default: c.answer})
				defer f.close()
				f.add("a")
				f.p.Lead(true)
				synctest.Wait()
				begun := time.Now()
				e := f.state("a")
				if e.State != c.state || !e.Due.Equal(begun.Add(c.due)) {
					t.Fatalf("state %q, due in %s: %+v", e.State, e.Due.Sub(begun), e)
				}
				f.want(c.counter, "", 1)
				f.want("provisioned_total", "", 0)
				if m := f.get("a"); !slices.Equal(m.log, c.steps) || m.shutdown != (c.counter == "shutdowns_total") {
					t.Fatalf("steps %v", m.log)
				}
				if strings.Contains(e.LastError, "\n") {
					t.Fatal("the helper's words are not escaped")
				}
				if r := f.records["a"]; c.state == queue.StateDeferred && r.Due != e.Due.Unix() {
					t.Fatalf("record %+v", r)
				}
			})
		})
	}
}

func TestLeadershipLostInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 4, Default: trivial})
		defer f.close()
		for i := range 30 {
			f.add(fmt.Sprintf("m%02d", i), func(m *machine) {
				m.fail["configure"] = func(n int) error {
					if n == 1 {
						return errHang
					}
					return nil
				}
			})
		}
		f.p.Lead(true)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := f.value("busy_workers", ""); got != 4 {
			t.Fatalf("%g busy", got)
		}
		f.p.Lead(false)
		time.Sleep(100 * time.Millisecond) // cancelling returns within this
		synctest.Wait()
		f.want("busy_workers", "", 0)
		f.want("waiting_nodes", "", 0)
		f.want("work_queue_entries", "", 0)
		f.want("paused", "", 1)
		for _, s := range queue.Stages {
			f.want("errors_total", string(s), 0) // what is taken away is no failure
		}
		calls := f.calls["configure"]
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if f.calls["configure"] != calls || f.calls["query"] == 0 {
			t.Fatal("work went on without leadership")
		}
		if len(f.records) != 0 {
			t.Fatalf("records %v", f.records)
		}
		f.want("discover_cycles_total", "", 1)
		if a := f.send(f.event("m00")); a.Admitted || a.Refused != "paused" {
			t.Fatalf("%+v", a)
		}
		f.want("refused_total", "paused", 1)
		f.p.Lead(true)
		f.p.Lead(true) // said twice is once
		f.with("m00", func(m *machine) { m.fail = nil })
		f.provisioned(30, 5*time.Minute)
		f.want("leader_changes_total", "", 2)
	})
}

// TestAgeOfTheOldestEntry: who waits longest, also where what was added before has left the queue.
func TestAgeOfTheOldestEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 1, Default: trivial})
		defer f.close()
		f.p.Lead(true)
		time.Sleep(3 * time.Second) // the first round is over before there is anybody
		synctest.Wait()
		f.want("oldest_entry_seconds", "", 0)
		for i := range 4 { // one is worked, one is probed and waits for the worker, two are in the queue
			f.add(fmt.Sprint("m", i), func(m *machine) { m.fail["configure"] = func(int) error { return errHang } })
			if a := f.send(f.event(fmt.Sprint("m", i))); !a.Admitted {
				t.Fatalf("%+v", a)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		f.want("work_queue_entries", "", 2)
		f.want("oldest_entry_seconds", "", 4)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		f.want("oldest_entry_seconds", "", 9)
		f.p.Lead(false)
		synctest.Wait()
		f.want("oldest_entry_seconds", "", 0)
	})
}

// TestLeadershipLostInABackoff: between two tries of a step nothing waits for the next one.
func TestLeadershipLostInABackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 1, Default: trivial})
		defer f.close()
		f.add("a", func(m *machine) {
			m.fail["configure"] = func(int) error { return wire.NewError(wire.CodeRosterNotApplied, "not yet", "") }
		})
		f.p.Lead(true)
		time.Sleep(4*StepWait + StepWait/10)
		synctest.Wait()
		f.want("busy_workers", "", 1)
		asked := f.calls["configure"]
		if asked != 5 {
			t.Fatalf("asked %d times, want it to be waiting for the sixth", asked)
		}
		f.p.Lead(false)
		time.Sleep(100 * time.Millisecond) // the next try would be later
		synctest.Wait()
		f.want("busy_workers", "", 0)
		f.want("errors_total", "configure", 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		if f.calls["configure"] != asked {
			t.Error("it was asked again")
		}
	})
}

func TestStepsHaveDeadlines(t *testing.T) {
	for _, c := range []struct {
		step  string
		limit time.Duration
		asked int
		err   string
	}{
		{"inventory", 10 * time.Second, 1, "it did not answer inventory within 10s"},
		{"configure", 30 * time.Second, 1, "it did not answer configure within 30s"},
		{"restart", 3 * time.Minute, 1, "it did not answer restart within 3m0s"},
	} {
		t.Run(c.step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Config{Workers: 1, Default: trivial})
				defer f.close()
				f.add("a", func(m *machine) { m.fail[c.step] = func(int) error { return errHang } })
				f.p.Lead(true)
				time.Sleep(c.limit - time.Millisecond)
				synctest.Wait()
				f.want("busy_workers", "", 1)
				time.Sleep(2 * time.Millisecond)
				synctest.Wait()
				f.want("busy_workers", "", 0)
				f.want("errors_total", c.step, 1)
				if e := f.state("a"); e.State != queue.StateBackingOff || e.LastError != c.err || string(e.Stage) != c.step {
					t.Fatalf("%+v", e)
				}
				if got := f.get("a").asked[c.step]; got != c.asked {
					t.Fatalf("asked %d times, want %d", got, c.asked)
				}
			})
		})
	}
}

func TestRepeatsOnlyWhereItIsSafe(t *testing.T) {
	lost := func(upTo int, err error) func(int) error {
		return func(n int) error {
			if n <= upTo {
				return err
			}
			return nil
		}
	}
	cut := errors.New("stream reset")
	notYet := wire.NewError(wire.CodeRosterNotApplied, "", "")
	for _, c := range []struct {
		name, step string
		fail       func(int) error
		asked      int
		ok         bool
	}{
		{"a lost inventory is asked again", "inventory", lost(1, cut), 2, true},
		{"once", "inventory", lost(9, cut), 2, false},
		{"a lost configure is not", "configure", lost(1, cut), 1, false},
		{"a lost restart is not", "restart", lost(1, cut), 1, false},
		{"the roster is not yet applied", "configure", lost(3, notYet), 4, true},
		{"busy", "restart", lost(2, wire.NewError(wire.CodeBusy, "", "")), 3, true},
		{"for ever", "configure", lost(1<<20, notYet), 240, false}, // two runs of its 30 s, and then it is a failure
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Config{Workers: 1, Default: trivial})
				defer f.close()
				f.add("a", func(m *machine) { m.fail[c.step] = c.fail })
				f.p.Lead(true)
				for begun := time.Now(); time.Since(begun) < 65*time.Second && f.value("provisioned_total", "")+f.value("errors_total", c.step) == 0; {
					time.Sleep(50 * time.Millisecond)
					synctest.Wait()
				}
				if got := f.get("a").asked[c.step]; got != c.asked && (c.asked < 100 || got > c.asked+2 || got < c.asked) { // the last falls on the deadline
					t.Fatalf("asked %d times, want %d", got, c.asked)
				}
				if c.ok {
					f.want("provisioned_total", "", 1)
				} else {
					f.want("errors_total", c.step, 1)
				}
			})
		})
	}
}

func TestRefusalsThere(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(f *fakeFleet, m *machine)
		state  queue.State
		err    string
	}{
		{"a configuration that it refuses", func(_ *fakeFleet, m *machine) {
			m.refuse["configure"] = wire.WorkAnswer{Error: "ssl/key.pem: no PEM\x1b[2J"}
		}, queue.StateParked, `configure failed there: ssl/key.pem: no PEM\x1b[2J`},
		{"no room on its disk", func(_ *fakeFleet, m *machine) {
			m.refuse["configure"] = wire.WorkAnswer{Error: "no space left", Transient: true}
		}, queue.StateBackingOff, "configure failed there: no space left"},
		{"no reason", func(_ *fakeFleet, m *machine) { m.refuse["restart"] = wire.WorkAnswer{} }, queue.StateParked, "restart failed there: it gave no reason"},
		{"no digest", func(_ *fakeFleet, m *machine) { m.refuse["configure"] = wire.WorkAnswer{OK: true} }, queue.StateBackingOff,
			"it configured itself and did not say the digest of its new configuration"},
		{"an inventory that is none", func(_ *fakeFleet, m *machine) {
			m.refuse["inventory"] = wire.WorkAnswer{OK: true, Body: []byte(`[1]`)}
		}, queue.StateBackingOff, "its inventory is not one JSON object of at most 1 MiB"},
		{"no lease", func(f *fakeFleet, _ *machine) { f.leaseErr = errors.New("this node does not lead") }, queue.StateBackingOff,
			"no lease for configure: this node does not lead"},
		{"another id", func(_ *fakeFleet, m *machine) {
			m.fail["query"] = func(n int) error {
				m.answersAs = ""
				if n > 1 {
					m.answersAs = "b"
				}
				return nil
			}
		}, queue.StateBackingOff, `it answers as "b"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Config{Workers: 1, Default: trivial})
				defer f.close()
				c.change(f, f.add("a"))
				f.p.Lead(true)
				time.Sleep(time.Second)
				synctest.Wait()
				if e := f.state("a"); e.State != c.state || e.LastError != c.err {
					t.Fatalf("state %q, error %q, want %q, %q", e.State, e.LastError, c.state, c.err)
				}
				if r := f.records["a"]; r.Parked != (c.state == queue.StateParked) || r.LastError == "" || r.ErrorKind == "" {
					t.Fatalf("record %+v", r)
				}
			})
		})
	}
}

func TestUnconfirmedAndLateCommit(t *testing.T) {
	t.Run("it never says", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, Config{Workers: 1, Default: trivial})
			defer f.close()
			f.add("a", func(m *machine) { m.mute = true })
			f.p.Lead(true)
			time.Sleep(59 * time.Second)
			synctest.Wait()
			if e := f.state("a"); e.State != queue.StateHeld {
				t.Fatalf("%+v", e)
			}
			// Another digest, or another component, confirms nothing.
			f.p.Announce("a", wire.Announce{Component: ComponentServer, ConfigDigest: "00"})
			f.p.Announce("a", wire.Announce{Component: DefaultComponent, ConfigDigest: f.get("a").digest})
			time.Sleep(2 * time.Second)
			synctest.Wait()
			f.want("unconfirmed_total", "", 1)
			f.want("provisioned_total", "", 0)
			f.with("a", func(m *machine) { m.mute = false })
			f.provisioned(1, 10*time.Second) // tried again by itself
			f.want("retries_total", "confirm", 1)
		})
	})
	t.Run("the commit fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, Config{Workers: 1, Default: trivial})
			defer f.close()
			f.commitErr = errors.New("no quorum")
			f.add("a")
			f.p.Lead(true)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			f.want("provisioned_total", "", 0)
			if e := f.state("a"); e.State != queue.StateHeld {
				t.Fatalf("%+v", e)
			}
			f.mu.Lock()
			f.commitErr = nil
			f.mu.Unlock()
			f.p.Announce("a", wire.Announce{Component: ComponentServer, ConfigDigest: f.get("a").digest}) // said again
			synctest.Wait()
			f.want("provisioned_total", "", 1)
		})
	})
	t.Run("an announcement of before the restart", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, Config{Workers: 1, Default: trivial})
			defer f.close()
			f.add("a")
			f.p.Lead(true)
			f.provisioned(1, time.Second)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			f.with("a", func(m *machine) { m.mute = true })
			if _, err := f.p.Reprovision(context.Background(), "a"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			// The same configuration has the same digest: what it said long ago must not confirm it.
			if e := f.state("a"); e.State != queue.StateHeld {
				t.Fatalf("%+v", e)
			}
		})
	})
}

func TestStopAtABoundary(t *testing.T) {
	t.Run("at the next stage", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, Config{Workers: 1, Default: trivial})
			f.add("a", func(m *machine) { m.latency = 1500 * time.Millisecond })
			f.p.Lead(true)
			time.Sleep(5500 * time.Millisecond) // in configure
			synctest.Wait()
			if got := f.get("a").log; !slices.Equal(got, []string{"inventory", "configure"}) {
				t.Fatalf("steps %v", got)
			}
			begun := time.Now()
			f.close()
			if took := time.Since(begun); took > 2*time.Second {
				t.Fatalf("stopped after %s", took)
			}
			if m := f.get("a"); m.digest == "" || slices.Contains(m.log, "restart") {
				t.Fatalf("steps %v, digest %q", m.log, m.digest)
			}
		})
	})
	t.Run("at once after ten seconds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, Config{Workers: 1, Default: trivial})
			f.add("a", func(m *machine) { m.fail["configure"] = func(int) error { return errHang } })
			f.p.Lead(true)
			time.Sleep(time.Second)
			synctest.Wait()
			begun := time.Now()
			f.close()
			if took := time.Since(begun); took != StopPatience {
				t.Fatalf("stopped after %s", took)
			}
			f.p.Stop(context.Background()) // twice is once
			if err := f.p.Pause(context.Background()); !errors.Is(err, ErrStopped) {
				t.Fatalf("after Stop: %v", err)
			}
		})
	})
}

func TestRemovedIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 1, Default: trivial})
		defer f.close()
		f.add("a", func(m *machine) { m.fail["configure"] = func(int) error { return errHang } })
		f.p.Lead(true)
		time.Sleep(time.Second)
		synctest.Wait()
		f.p.Removed("a")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		f.want("busy_workers", "", 0)
		f.want("waiting_nodes", "", 0)
		f.want("errors_total", "configure", 0)
		if _, ok, _ := f.p.Show(context.Background(), "a"); ok {
			t.Fatal("a removed machine is remembered")
		}
	})
}
