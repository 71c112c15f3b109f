//go:build unix

package provision

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pace-node/internal/queue"
	"pace-node/internal/target"
	"pace-node/internal/wire"
)

// misbehaviour is one way in which a helper goes wrong: what it does, and what becomes of the machine for it.
type misbehaviour struct {
	name, body string
	state      queue.State
	stage      queue.Stage
	reason     string   // label of pace_provision_helper_errors_total; "": the helper's run is no failure of it
	says       []string // in the error that an operator reads
}

// misbehaviours is the list, with the state that the specification gives each: an answer that is whole and wrong parks the
// machine, what may be the moment's fault is tried again, and an answer that was given is used.
var misbehaviours = []misbehaviour{
	{"hangs", `sh -c 'echo $$ >>"$0.pids"; sleep 60; true' "$self"; true`, queue.StateBackingOff, queue.StageHelper, "timeout",
		[]string{"timed out: it was ended after 8s", `its stderr: "busy"`}},
	{"silent", `exit 0`, queue.StateBackingOff, queue.StageHelper, "no_output", []string{"printed nothing on stdout", `its stderr: "busy"`}},
	{"twice", good + `; ` + good, queue.StateBackingOff, queue.StageHelper, "several_documents", []string{"more than one JSON document", `{\"configuration\"`}},
	{"flood", `head -c 10000000 /dev/zero | tr '\0' x`, queue.StateBackingOff, queue.StageHelper, "too_large", []string{"more than 1 MiB on stdout", `"xxxx`}},
	{"text", `echo hello`, queue.StateBackingOff, queue.StageHelper, "not_json", []string{`not one JSON document: it printed "hello"`}},
	{"noise", `echo connecting...; ` + good, queue.StateBackingOff, queue.StageHelper, "not_json", []string{`it printed "connecting...\n{`}},
	{"three", good + `; exit 3`, queue.StateBackingOff, queue.StageHelper, "exit", []string{"ended with exit code 3", `its stderr: "busy"`}},
	{"type", `printf '{"configuration":{"port":80}}'`, queue.StateParked, queue.StageHelper, "wrong_type", []string{`the key "configuration"`, "all strings"}},
	{"empty", `printf '{"configuration":{}}'`, queue.StateParked, queue.StageHelper, "empty_configuration", []string{"holds no configuration"}},
	{"path", `printf '{"configuration":{"a":"b"},"pace":{"files":{"../../outside":{"text":"x"}}}}'`, queue.StateParked, queue.StageConfigure, "",
		[]string{"../../outside"}},
	{"many", `printf '{"configuration":{"a":"b"},"pace":{"files":{'; seq 1 10000 | sed 's/.*/"f&":{"text":"x"}/' | paste -sd, -; printf '}}}'`, queue.StateParked, queue.StageConfigure, "",
		[]string{`the key "files" holds 10000 entries and may hold 1024`}},
	{"nested", `head -c 200000 /dev/zero | tr '\0' '['`, queue.StateBackingOff, queue.StageHelper, "not_json", []string{"not one JSON document"}},
	{"dribbles", `while :; do printf ' '; sleep 0.1; done`, queue.StateBackingOff, queue.StageHelper, "timeout", []string{"timed out: it was ended after 8s"}},
	{"answered", good + `; sleep 60`, queue.StateBackingOff, queue.StageHelper, "timeout", []string{"timed out: it was ended after 8s"}},
	{"bytes", good + ` | dd bs=1 2>/dev/null`, queue.StateHeld, queue.StageRestart, "", nil},
	{"holds", `sleep 60 & ` + good, queue.StateHeld, queue.StageRestart, "", nil},
}

// TestMisbehavingHelpers runs each through the whole cycle against a real target: its own error, within its deadline,
// nothing configured, no process left, and the worker goes on with the next machine.
func TestMisbehavingHelpers(t *testing.T) {
	dir := t.TempDir()
	body := "self=" + dir + "/helper\nin=$(cat)\nid=$(printf '%s' \"$in\" | sed -n 's/.*\"identity\":\"\\([^\"]*\\)\".*/\\1/p')\n" +
		"self=$self.$id; echo $$ >>\"$self.pids\"; echo busy >&2\ncase $id in\n"
	for _, m := range misbehaviours {
		body += m.name + ") " + m.body + " ;;\n"
	}
	var mu sync.Mutex
	targets := map[string]*target.Target{}
	f := newFleetWith(t, Config{Workers: 2, Helper: script(t, body+"esac"), HelperTimeout: 8 * time.Second}, func(d *Deps) {
		d.Call = func(ctx context.Context, id string, verb wire.Verb, payload, reply any) error {
			mu.Lock()
			tg := targets[id]
			mu.Unlock()
			if verb == wire.VerbQuery {
				return into2(reply, tg.Query())
			}
			req := payload.(wire.WorkRequest)
			return into2(reply, tg.Work(ctx, req.Step, req.Body))
		}
	})
	for _, m := range misbehaviours {
		f.add(m.name)
		tg, err := target.Open(target.Config{Dir: filepath.Join(dir, m.name), NodeID: m.name, Name: m.name, Version: "1.0", Platform: "linux/amd64",
			Cluster: testCluster, BootCounter: 1, Mode: "auto"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := tg.Close(); err != nil {
				t.Error(err)
			}
		}()
		mu.Lock()
		targets[m.name] = tg
		mu.Unlock()
	}
	f.p.Lead(true)
	reasons := map[string]float64{}
	for _, m := range misbehaviours {
		var e queue.Entry
		for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
			if e = f.state(m.name); e.State == m.state {
				break
			}
			if time.Since(begun) > 4*patience {
				t.Fatalf("%s is %q (%s), want %q", m.name, e.State, e.LastError, m.state)
			}
		}
		if e.State != m.state || e.Stage != m.stage {
			t.Errorf("%s is %q after %q (%s), want %q after %q", m.name, e.State, e.Stage, e.LastError, m.state, m.stage)
		}
		for _, s := range m.says {
			if !strings.Contains(e.LastError, s) {
				t.Errorf("%s: %q does not say %q", m.name, e.LastError, s)
			}
		}
		if !printable(e.LastError) {
			t.Errorf("%s: %q", m.name, e.LastError)
		}
		if m.reason != "" {
			reasons[m.reason]++
		}
		group := pids(t, filepath.Join(dir, "helper."+m.name+".pids"))
		if m.name == "hangs" && len(group) < 2 {
			t.Errorf("the helper that hangs has the processes %v, want itself and a grandchild", group)
		}
		for _, pid := range append(group, -group[0]) {
			gone(t, pid)
		}
		_, err := os.Stat(filepath.Join(dir, m.name, "current"))
		if configured := err == nil; configured != (m.state == queue.StateHeld) {
			t.Errorf("%s: configured %v", m.name, configured)
		}
	}
	for _, r := range Reasons { // those that back off may have been tried again by now
		if got, want := f.value("helper_errors_total", string(r.Reason)), reasons[string(r.Reason)]; got < want || got > 0 && want == 0 {
			t.Errorf("helper_errors_total{%s} is %g, want %g", r.Reason, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "outside")); err == nil {
		t.Error("a file was written outside")
	}
	f.close()
}

// TestNoSecretReachesAHelpersNeighbours: what a helper is given is on its stdin alone, never in its arguments or its
// environment, where other accounts of the machine can read it.
func TestNoSecretReachesAHelpersNeighbours(t *testing.T) {
	t.Setenv("PACE_ADMIN_TOKEN_FILE", "SECRET")
	list := filepath.Join(t.TempDir(), "seen")
	command := script(t, `cat >/dev/null; { printf '%s\n' "$#" "$@"; env; } >`+list+"; "+good)
	if _, _, f := RunHelper(context.Background(), command+" 'an argument'", patience, []byte(`{"jwt":"`+hex.EncodeToString([]byte("SECRET"))+`"}`)); f != nil {
		t.Fatal(f)
	}
	b, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"SECRET", hex.EncodeToString([]byte("SECRET")), "PACE_"} {
		if strings.Contains(string(b), secret) {
			t.Errorf("%q is among the helper's arguments or environment:\n%s", secret, b)
		}
	}
	if !strings.HasPrefix(string(b), "1\nan argument\n") {
		t.Errorf("the helper was given %q", b)
	}
}
