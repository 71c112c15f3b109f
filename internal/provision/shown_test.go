package provision

import (
	"context"
	"testing"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/queue"
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
	for _, r := range queue.Outcomes {
		if got, want := StateOf(fleet.Provision{Outcomes: []fleet.Outcome{{Result: r.Name}}, Due: map[bool]int64{true: 1}[!r.Hold && r.Next != queue.StateNone]}), r.Next; !r.Hold && got != want {
			t.Errorf("%s: %q, want %q", r.Name, got, want)
		}
	}
}

// TestDocumentOfADefault: what a trial shows of a default reads as the default did.
func TestDocumentOfADefault(t *testing.T) {
	for _, text := range []string{
		trivial, `{"defer":true,"msg":"later","pace":{"retry_after":"15m0s"}}`, `{"shutdown":true}`,
		`{"configuration":{"a":"<b>"},"certificate":"c","ca":"d","key":"e","ssldir":"f","action_policies":{"g":"h"},"opa_policies":{"i":"j"},` +
			`"server_claims":{"k":[1]},"upgrade":"2.0","pace":{"files":{"l":{"text":"m","mode":"0640"}}}}`,
	} {
		a, f := ParseAnswer([]byte(text))
		if f != nil {
			t.Fatal(f)
		}
		if got, err := encode(a.document()); err != nil || string(got) != text {
			t.Errorf("%s %v, want %s", got, err, text)
		}
	}
}

// TestStageOfARunningMachine: the list says at which stage a machine is that is being worked.
func TestStageOfARunningMachine(t *testing.T) {
	f := newFleet(t, Config{Workers: 1, Default: trivial})
	f.add("a", func(m *machine) { m.fail["configure"] = func(int) error { return errHang } })
	f.p.Lead(true)
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		list, err := f.p.Entries(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Entries) == 1 && list.Entries[0].State == queue.StateRunning && list.Entries[0].Stage == queue.StageConfigure &&
			f.state("a").Stage == queue.StageConfigure {
			break
		}
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("%+v", list.Entries)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	f.p.Stop(ctx)
	close(f.done)
	f.end.Wait()
}
