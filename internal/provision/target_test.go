package provision

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/target"
	"pace-node/internal/wire"
)

// TestWithRealTargets runs the leader's side against the machine's side, over nothing but their documents.
func TestWithRealTargets(t *testing.T) {
	const answer = `{"configuration":{"role":"web","motd":"<&>"},"ssldir":"/elsewhere","server_claims":{"x":1},
		"action_policies":{"a.policy":"policy default deny"},"pace":{"files":{"conf.d/a.ini":{"text":"a=1\n","mode":"0640"}}}}`
	var mu sync.Mutex
	targets := map[string]*target.Target{}
	get := func(id string) *target.Target { mu.Lock(); defer mu.Unlock(); return targets[id] }
	var f *fakeFleet
	commit := func(id string, rec fleet.Provision) {
		if rec.LastSuccess > 0 && rec.Stage == "confirm" {
			get(id).Confirmed(rec.ConfigDigest)
		}
		f.record(id, rec)
	}
	f = newFleetWith(t, Config{Workers: 2, Default: answer}, func(d *Deps) {
		d.Call = func(ctx context.Context, id string, verb wire.Verb, payload, reply any) error {
			tg := get(id)
			if tg == nil {
				return ErrUnreachable
			}
			if verb == wire.VerbQuery {
				return into2(reply, tg.Query())
			}
			req := payload.(wire.WorkRequest)
			return into2(reply, tg.Work(ctx, req.Step, req.Body))
		}
		d.Commit = func(_ context.Context, id string, rec fleet.Provision, done func(error)) { commit(id, rec); done(nil) }
	})
	dirs := map[string]string{}
	open := func(id string, boot uint64, mode string) {
		t.Helper()
		if dirs[id] == "" {
			dirs[id] = filepath.Join(t.TempDir(), "provisioned")
		}
		tg, err := target.Open(target.Config{Dir: dirs[id], NodeID: id, Name: "host-" + id, Version: "1.0", Platform: "linux/amd64",
			Cluster: testCluster, BootCounter: boot, Mode: mode, Restarted: func() {
				// As a node does: it says what it is once the target's side is up again.
				go func() {
					tg := get(id)
					wants, why := tg.Wants()
					b := tg.BootID()
					f.p.Announce(id, wire.Announce{Component: tg.Component(), ConfigDigest: tg.Digest(), Wants: wants, WantsWhy: why, BootID: hex.EncodeToString(b[:])})
				}()
			}})
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		targets[id] = tg
		mu.Unlock()
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for begun := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Since(begun) > time.Minute {
				t.Fatalf("not within a minute: %s", what)
			}
		}
	}
	for _, id := range []string{"a", "b"} {
		f.add(id)
		open(id, 1, map[string]string{"a": "auto", "b": "always"}[id])
	}
	f.p.Lead(true)
	for _, id := range []string{"a", "b"} {
		until(id+" is content", func() bool { w, _ := get(id).Wants(); return !w && get(id).Component() == ComponentServer })
		var got map[string]string
		b, err := os.ReadFile(filepath.Join(dirs[id], "current", "configuration.json"))
		if err != nil || json.Unmarshal(b, &got) != nil || got["motd"] != "<&>" {
			t.Fatalf("%s %v", b, err)
		}
		if b, err := os.ReadFile(filepath.Join(dirs[id], "current", "files", "conf.d", "a.ini")); err != nil || string(b) != "a=1\n" {
			t.Fatalf("%q %v", b, err)
		}
	}
	counted := func(want float64) {
		t.Helper()
		until("the confirmations count", func() bool { return f.value("provisioned_total", "") >= want })
		f.want("provisioned_total", "", want)
	}
	counted(2)

	// b boots again in mode always, within the hold and after its confirmation: an ordinary admission.
	if err := get("b").Close(); err != nil {
		t.Fatal(err)
	}
	open("b", 2, "always")
	tg := get("b")
	e := f.event("b", func(e *wire.StartupEvent) {
		e.BootID, e.Sequence, e.Component = tg.BootID(), tg.NextSequence(), tg.Component()
	})
	if a := f.send(e); !a.Admitted {
		t.Fatalf("%+v", a)
	}
	until("b is content again", func() bool { w, _ := tg.Wants(); return !w })
	counted(3)

	// An operator's reprovision of one that wants nothing, and a configuration that the machine refuses.
	if _, err := f.p.Reprovision(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	until("a is provisioned again", func() bool { return f.value("provisioned_total", "") == 4 })
	other := *f.p.cfg.Load()
	other.Default = `{"configuration":{"a":"b"},"pace":{"files":{"../../outside":{"text":"x"}}}}`
	f.p.Configure(other)
	if _, err := f.p.Reprovision(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	until("a is parked", func() bool { return f.state("a").State.String() == "parked" })
	if last := f.state("a").LastError; !strings.Contains(last, "outside") || !printable(last) {
		t.Fatal(last)
	}
	f.close()
	for _, id := range []string{"a", "b"} {
		if err := get(id).Close(); err != nil {
			t.Fatal(err)
		}
	}
}
