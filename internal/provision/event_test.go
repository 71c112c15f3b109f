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

	"pace-node/internal/identity"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// eventCell is an event that one check refuses and every later one would refuse too.
type eventCell struct {
	name   string
	change func(c *eventCase)
	want   EventRefusal // "": nothing refuses it
}

// checkEvents walks the checks in the order of the specification.
func checkEvents() error {
	var seed [32]byte
	seed[0] = 7
	key := identity.NewPrivateKey(seed)
	good := func() *eventCase {
		e := &wire.StartupEvent{Cluster: testCluster, Node: "a", Component: "provision_mode_server", Sequence: 5, Version: "1"}
		e.BootID[7] = 3
		return &eventCase{event: e, key: key.Public(), standing: StandingMember, cluster: testCluster,
			last: queue.Mark{Boot: 3, Sequence: 4}, component: "provision_mode_server"}
	}
	component := func(c *eventCase) { c.event.Component = "server" }
	clash := func(c *eventCase) { component(c); c.clash = true }
	replayed := func(c *eventCase) { clash(c); c.last.Sequence = 5 }
	cluster := func(c *eventCase) { replayed(c); c.event.Cluster = "other" }
	badKey := func(c *eventCase) { cluster(c); c.key = identity.PublicKey{1} }
	revoked := func(c *eventCase) { badKey(c); c.standing = StandingRevoked }
	for _, cell := range []eventCell{
		{"good", func(*eventCase) {}, ""},
		{"a later boot with a lower sequence", func(c *eventCase) { c.event.BootID[7], c.event.Sequence = 4, 1 }, ""},
		{"a first event", func(c *eventCase) { c.last = queue.Mark{} }, ""},
		{"an earlier boot with a higher sequence", func(c *eventCase) { c.event.BootID[7], c.event.Sequence = 2, 99 }, "replayed"},
		{"component", component, "component"},
		{"clash and all later", clash, "identity_clash"},
		{"replayed and all later", replayed, "replayed"},
		{"cluster and all later", cluster, "cluster"},
		{"signature and all later", badKey, "signature"},
		{"revoked and all later", revoked, "revoked"},
		{"unknown and all later", func(c *eventCase) { badKey(c); c.standing = StandingUnknown }, "unknown"},
	} {
		c := good()
		cell.change(c)
		c.event.Signature = key.Sign(c.event.Message())
		row, refused := judgeEvent(c, false)
		if !refused {
			row, refused = judgeEvent(c, true)
		}
		if row.Refusal != cell.want || refused != (cell.want != "") {
			return fmt.Errorf("%s: refused %q, want %q", cell.name, row.Refusal, cell.want)
		}
		if row.Invalid != (refused && cell.want != "component" && cell.want != "identity_clash") {
			return fmt.Errorf("%s: counts as invalid: %v", cell.name, row.Invalid)
		}
	}
	return nil
}

func TestEventChecks(t *testing.T) {
	if err := checkEvents(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationEventChecks(t *testing.T) {
	for i := range EventChecks {
		was := EventChecks[i]
		for name, flip := range map[string]func(r *EventCheck){
			"never":   func(r *EventCheck) { r.Fails = func(*eventCase) bool { return false } },
			"inverse": func(r *EventCheck) { r.Fails = func(c *eventCase) bool { return !was.Fails(c) } },
			"invalid": func(r *EventCheck) { r.Invalid = !r.Invalid },
		} {
			flip(&EventChecks[i])
			err := checkEvents()
			EventChecks[i] = was
			if err == nil {
				t.Errorf("check %s, %s, passes", was.Refusal, name)
			}
		}
	}
	for i := range len(EventChecks) - 1 { // the order within one side is part of the table
		if EventChecks[i].OnLoop != EventChecks[i+1].OnLoop {
			continue
		}
		EventChecks[i], EventChecks[i+1] = EventChecks[i+1], EventChecks[i]
		err := checkEvents()
		EventChecks[i], EventChecks[i+1] = EventChecks[i+1], EventChecks[i]
		if err == nil && i > 0 { // unknown and revoked exclude each other
			t.Errorf("checks %d and %d exchanged pass", i, i+1)
		}
	}
}

func TestEventsAreRefusedByReasonAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 1, Default: trivial})
		defer f.close()
		f.add("a", func(m *machine) { m.mute = true })
		f.add("revoked", func(m *machine) { m.standing = StandingRevoked })
		bad := func(want string, e wire.StartupEvent) {
			t.Helper()
			if a := f.send(e); a.Admitted || a.Refused != want {
				t.Fatalf("%+v, want %q", a, want)
			}
		}
		bad("paused", f.event("a"))
		f.want("refused_total", "paused", 1)
		f.p.Lead(true)
		synctest.Wait()
		time.Sleep(2 * time.Minute) // unconfirmed, and due again
		synctest.Wait()
		f.p.Discover()
		stranger := f.event("a")
		stranger.Node = "stranger"
		bad("unknown", stranger)
		bad("revoked", f.event("revoked"))
		forged := f.event("a")
		forged.Sequence++
		bad("signature", forged)
		bad("cluster", f.event("a", func(e *wire.StartupEvent) { e.Cluster = "another" }))
		again := f.event("a")
		f.send(again)
		bad("replayed", again)
		bad("component", f.event("a", func(e *wire.StartupEvent) { e.Component = ComponentServer }))
		for _, reason := range []string{"unknown", "revoked", "signature", "cluster", "replayed", "component"} {
			f.want("events_refused_total", reason, 1)
		}
		f.want("refused_total", "invalid", 5)
		f.want("event_discovered_total", "", 0)
	})
}

func TestAnEventsAgeIsMeasuredHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 1, Default: trivial})
		defer f.close()
		f.add("a", func(m *machine) { m.mute = true })
		f.p.Lead(true)
		time.Sleep(time.Second) // a is held
		synctest.Wait()
		for _, c := range []struct {
			age  uint64
			want string
		}{{0, "duplicate"}, {59_999, "duplicate"}, {60_000, ""}, {1<<64 - 1, ""}} {
			e := f.event("a", func(e *wire.StartupEvent) {
				e.AgeMS = c.age
				e.At = 1 // the machine's wall clock says 1970: it decides nothing
			})
			if a := f.send(e); a.Refused != c.want {
				t.Fatalf("age %d: %+v, want %q", c.age, a, c.want)
			}
			synctest.Wait()
		}
	})
}

func TestOperatorVerbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		f := newFleet(t, Config{Workers: 1, Default: trivial})
		defer f.close()
		f.add("parked", func(m *machine) { m.refuse["configure"] = wire.WorkAnswer{Error: "no PEM"} })
		f.add("idle", func(m *machine) { m.wants = false })
		if _, err := f.p.Retry(ctx, "parked"); !errors.Is(err, ErrNotLeading) {
			t.Fatalf("without leadership: %v", err)
		}
		f.p.Lead(true)
		time.Sleep(time.Second)
		synctest.Wait()
		sentences := map[string]string{}
		refuse := func(name string, verb func(context.Context, string) (string, error), id, hint string) {
			t.Helper()
			text, err := verb(ctx, id)
			var e *wire.Error
			if !errors.As(err, &e) || text != "" || e.Hint != hint {
				t.Fatalf("%s: %q, %v (hint %q)", name, text, err, e.Hint)
			}
			if with := sentences[e.Text]; with != "" {
				t.Fatalf("%s and %s have one sentence", name, with)
			}
			sentences[e.Text] = name
		}
		refuse("a stranger", f.p.Retry, "stranger", "pacectl member list")
		refuse("never asked", f.p.Retry, "idle", "pacectl queue reprovision idle")
		f.with("parked", func(m *machine) {
			delete(m.refuse, "configure")
			m.fail["configure"] = func(int) error { return errHang }
		})
		if text, err := f.p.Retry(ctx, "parked"); err != nil || text != "parked is queued" {
			t.Fatalf("%q %v", text, err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		refuse("running", f.p.Retry, "parked", "pacectl queue show parked")
		if text, err := f.p.Drop(ctx, "parked"); err != nil || text != "parked is dropped" {
			t.Fatalf("%q %v", text, err)
		}
		synctest.Wait()
		f.want("busy_workers", "", 0) // its run is cancelled
		f.with("parked", func(m *machine) { delete(m.fail, "configure") })
		if _, err := f.p.Reprovision(ctx, "parked"); err != nil {
			t.Fatal(err)
		}
		f.provisioned(1, time.Second)
		refuse("confirmed", f.p.Retry, "parked", "pacectl queue reprovision parked")
		// A machine that does not want anything is provisioned when a person says so.
		if _, err := f.p.Reprovision(ctx, "idle"); err != nil {
			t.Fatal(err)
		}
		f.provisioned(2, time.Second)
		refuse("a stranger's reprovision", func(ctx context.Context, id string) (string, error) { return f.p.Reprovision(ctx, id) }, "nobody", "pacectl member list")
		if err := f.p.Pause(ctx); err != nil {
			t.Fatal(err)
		}
		_, err := f.p.Reprovision(ctx, "idle")
		if err == nil || !strings.Contains(err.Error(), "an operator paused it") {
			t.Fatalf("paused: %v", err)
		}
		list, err := f.p.Entries(ctx)
		if err != nil || PauseText(list.Paused) != "an operator paused it" || len(list.Entries) != 2 {
			t.Fatalf("%+v %v", list, err)
		}
		if _, err := f.p.TryHelper(ctx, "nobody"); err == nil {
			t.Fatal("tried for a stranger")
		}
		steps := len(f.get("idle").log)
		trial, err := f.p.TryHelper(ctx, "idle")
		if err != nil || !strings.Contains(string(trial.Output), `"role":"web"`) || !strings.Contains(string(trial.Input), `"identity":"idle"`) {
			t.Fatalf("%s %s %v", trial.Input, trial.Output, err)
		}
		f.p.cfg.Store(func() *Config { c := *f.p.cfg.Load(); c.Helper, c.Default = "/no/such/helper", ""; return &c }())
		_, err = f.p.TryHelper(ctx, "idle")
		var told *wire.Error
		if !errors.As(err, &told) || !strings.Contains(told.Text, "/no/such/helper") || told.Hint != "mend the helper, and try it again: pacectl queue run-helper idle --dry-run" {
			t.Fatalf("a helper that fails: %v", err)
		}
		f.p.cfg.Store(func() *Config { c := *f.p.cfg.Load(); c.Helper, c.Default = "", ""; return &c }())
		if _, err = f.p.TryHelper(ctx, "idle"); !errors.As(err, &told) || !strings.Contains(told.Hint, "--install-service --provision-helper=PATH") {
			t.Fatalf("no helper at all: %v, %+v", err, told)
		}
		if log := f.get("idle").log[steps:]; !slices.Equal(log, []string{"inventory", "inventory", "inventory"}) {
			t.Fatalf("three trials did %v", log)
		}
	})
}

// checkCallErrors is what each error of a machine means.
func checkCallErrors() error {
	permanent := []wire.ErrorCode{wire.CodeUnsupportedVersion, wire.CodeUnknownVerb, wire.CodeMalformed, wire.CodeTooLarge,
		wire.CodeRefusedByRule, wire.CodeNewerFormat}
	repeat := []wire.ErrorCode{wire.CodeRosterNotApplied, wire.CodeBusy}
	for c := wire.ErrorCode(1); c <= 18; c++ {
		f := callFailure(fmt.Errorf("call: %w", wire.NewError(c, "why", "")), "configure")
		if f.permanent != slices.Contains(permanent, c) || f.repeat != slices.Contains(repeat, c) || f.unreachable || f.text == "" {
			return fmt.Errorf("code %s: %+v", c, f)
		}
	}
	if f := callFailure(wire.NewError(99, "later", ""), "x"); f.permanent || f.repeat || f.unreachable {
		return fmt.Errorf("a later code: %+v", f)
	}
	if f := callFailure(ErrUnreachable, "x"); !f.unreachable || f.permanent {
		return fmt.Errorf("unreachable: %+v", f)
	}
	return nil
}

func TestCallErrors(t *testing.T) {
	if len(CallErrors) != 16 {
		t.Fatalf("%d rows", len(CallErrors))
	}
	if err := checkCallErrors(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationCallErrors(t *testing.T) {
	for i := range CallErrors {
		was := CallErrors[i]
		for _, flip := range []func(r *CallRow){func(r *CallRow) { r.Permanent = !r.Permanent }, func(r *CallRow) { r.Repeat = !r.Repeat }} {
			flip(&CallErrors[i])
			err := checkCallErrors()
			CallErrors[i] = was
			if err == nil {
				t.Errorf("row %s flipped passes", was.Code)
			}
		}
	}
}

func TestEverySeriesIsThereAtZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 1, Default: trivial})
		defer f.close()
		seen := map[string]bool{}
		f.sync(func(now time.Time) {
			for _, s := range f.p.Samples(now) {
				key := s.Metric + "{" + s.Label + "=" + s.Value + "}"
				if seen[key] {
					t.Errorf("%s stands twice", key)
				}
				seen[key] = true
				seen[strings.TrimPrefix(s.Metric, "pace_provision_")] = true
				if (s.V != 0 && s.Metric != "pace_provision_paused") || s.Count != 0 || s.Help == "" {
					t.Errorf("%s is %g at the start, help %q", key, s.V, s.Help)
				}
			}
		})
		for _, want := range []string{"discovered_total", "event_discovered_total", "discover_cycles_total", "discovery_errors_total", "errors_total",
			"provisioned_total", "deferred_total", "shutdowns_total", "upgrades_total", "busy_workers", "work_queue_entries", "waiting_nodes",
			"paused", "rpc_seconds", "rpc_errors_total", "helper_seconds", "helper_errors_total", "refused_total", "retries_total",
			"unreachable_total", "sighting_to_done_seconds", "oldest_entry_seconds", "leader_changes_total", "unconfirmed_total"} {
			if !seen[want] {
				t.Errorf("there is no %s", want)
			}
		}
	})
}
