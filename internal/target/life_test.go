package target

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// says is what a machine tells of itself.
type says struct {
	wants     bool
	why       string
	component string
}

func expect(t *testing.T, tg *Target, when string, want says) {
	t.Helper()
	wants, why := tg.Wants()
	got := says{wants, why, tg.Component()}
	if got != want {
		t.Fatalf("%s it says %+v, want %+v", when, got, want)
	}
	q := tg.Query()
	if q.Wants != got.wants || q.Why != got.why || q.Component != got.component || q.ConfigDigest != tg.Digest() || q.ID != nodeID || q.Busy {
		t.Fatalf("%s the answer to a query differs: %+v", when, q)
	}
}

// TestLife walks one machine from its first boot through everything that makes it want provisioning.
func TestLife(t *testing.T) {
	dir := folder(t)
	restarts := 0
	cfg := config(dir)
	cfg.Restarted = func() { restarts++ }
	tg := open(t, cfg)
	expect(t, tg, "at its first boot", says{true, WhyFirstBoot, "provision_mode_server"})
	if tg.Digest() != "" {
		t.Fatalf("digest %q before anything is configured", tg.Digest())
	}

	boot := tg.BootID()
	d1 := configure(t, tg, body("one"))
	expect(t, tg, "configured and not restarted", says{true, WhyFirstBoot, "provision_mode_server"})
	if tg.Digest() != d1 {
		t.Fatalf("digest %s, configure answered %s", tg.Digest(), d1)
	}
	tg.Confirmed(strings.Repeat("0", 64))
	expect(t, tg, "after another digest's confirmation", says{true, WhyFirstBoot, "provision_mode_server"})
	a := restart(t, tg, d1)
	if want := (wire.RestartAnswer{Digest: d1, Component: "server", BootID: hex.EncodeToString(boot[:])}); a != want {
		t.Fatalf("restart answers %+v, want %+v", a, want)
	}
	if restarts != 1 || tg.BootID() != boot {
		t.Fatalf("%d restarts told, boot id %x", restarts, tg.BootID())
	}
	expect(t, tg, "restarted and not confirmed", says{true, WhyFirstBoot, "server"})

	tg = reopen(t, tg, nil)
	expect(t, tg, "booted before its confirmation", says{true, WhyFirstBoot, "provision_mode_server"})
	if b := tg.BootID(); binary.BigEndian.Uint64(b[:8]) != 8 || b == boot {
		t.Fatalf("boot id %x after the next boot", b)
	}
	tg.Confirmed(d1) // committed before the boot, and told again by the fleet's state
	expect(t, tg, "confirmed", says{false, "", "server"})
	tg = reopen(t, tg, nil)
	expect(t, tg, "booted after its confirmation", says{false, "", "server"})

	tg.Reprovision("new disk")
	expect(t, tg, "after a reprovision", says{true, "reprovision: new disk", "provision_mode_server"})
	tg.Confirmed(d1)
	expect(t, tg, "told the old confirmation after a reprovision", says{true, "reprovision: new disk", "provision_mode_server"})
	tg = reopen(t, tg, nil)
	tg.Confirmed(d1)
	expect(t, tg, "and over a boot", says{true, "reprovision: new disk", "provision_mode_server"})
	if d := configure(t, tg, body("one")); d != d1 {
		t.Fatalf("the same content has digest %s, then %s", d1, d)
	}
	restart(t, tg, d1)
	expect(t, tg, "restarted after a reprovision", says{true, "reprovision: new disk", "server"})
	tg.Confirmed(d1)
	expect(t, tg, "confirmed again", says{false, "", "server"})

	// A leader may configure what asked for nothing: it waits for its own confirmation.
	d2 := configure(t, tg, body("two"))
	expect(t, tg, "configured unasked", says{true, WhyUnconfirmed, "provision_mode_server"})
	tg.Confirmed(d1)
	tg = reopen(t, tg, nil)
	expect(t, tg, "and booted", says{true, WhyUnconfirmed, "provision_mode_server"})
	restart(t, tg, d2)
	tg.Confirmed(d2)
	expect(t, tg, "and confirmed", says{false, "", "server"})
	d2again := configure(t, tg, body("two"))
	expect(t, tg, "configured unasked with the same content", says{true, WhyUnconfirmed, "provision_mode_server"})
	restart(t, tg, d2again)
	tg.Confirmed(d2)
	expect(t, tg, "and confirmed", says{false, "", "server"})

	// Another fleet: what is provisioned stays; coming back is a change too.
	was := tree(t, filepath.Join(dir, currentDir))
	tg.ChangeFleet(clusterA)
	expect(t, tg, "changed to its own fleet", says{false, "", "server"})
	tg.ChangeFleet(clusterB)
	expect(t, tg, "in another fleet", says{true, WhyFirstBoot, "provision_mode_server"})
	tg.Confirmed(d2)
	expect(t, tg, "in another fleet, told the old confirmation", says{true, WhyFirstBoot, "provision_mode_server"})
	if d := cmp.Diff(was, tree(t, filepath.Join(dir, currentDir))); d != "" {
		t.Fatal(d)
	}
	tg = reopen(t, tg, nil)
	expect(t, tg, "booted in another fleet", says{true, WhyFirstBoot, "provision_mode_server"})
	tg = reopen(t, tg, func(c *Config) { c.Cluster = clusterA })
	tg.Confirmed(d2)
	expect(t, tg, "back in the first fleet", says{true, WhyFirstBoot, "provision_mode_server"})
	restart(t, tg, configure(t, tg, body("two")))
	tg.Confirmed(d2)
	expect(t, tg, "provisioned there again", says{false, "", "server"})
	if restarts != 5 {
		t.Errorf("%d restarts told, want 5", restarts)
	}
}

// spoiled is one way in which what was provisioned is lost, and why the machine wants provisioning then.
type spoiled struct {
	name, why string
	path      func(*testing.T, string) string
	spoil     func(path string) error
}

func allSpoiled() []spoiled {
	in := func(name string) func(*testing.T, string) string {
		return func(_ *testing.T, dir string) string { return filepath.Join(dir, currentDir, filepath.FromSlash(name)) }
	}
	write := func(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }
	return []spoiled{
		{"folder removed", WhyMissing, in("."), os.RemoveAll},
		{"folder is a file", WhyDamaged + ": it is no folder (----------)", in("."), func(p string) error {
			if err := os.RemoveAll(p); err != nil {
				return err
			}
			return write(p, "x")
		}},
		{"manifest removed", WhyDamaged + ": manifest.json is missing", in(manifestFile), os.Remove},
		{"manifest empty", WhyDamaged + ": manifest.json does not read: unexpected end of JSON input", in(manifestFile), func(p string) error { return os.Truncate(p, 0) }},
		{"manifest of no version", WhyDamaged + ": manifest.json does not read: format 0, and this version reads 1", in(manifestFile),
			func(p string) error { return replaceIn(p, `"format": 1`, `"format": 0`) }},
		{"manifest with another mode", WhyDamaged + ": manifest.json does not read: its digest is not that of its rows", in(manifestFile),
			func(p string) error { return replaceIn(p, `"mode": "0755"`, `"mode": "0700"`) }},
		{"file removed", WhyDamaged + `: "ssl/private.pem" is missing`, in(keyFile), os.Remove},
		{"file emptied", WhyDamaged + `: "configuration.json" is not what was provisioned`, in(configurationFile), func(p string) error { return os.Truncate(p, 0) }},
		{"file grown", WhyDamaged + `: "files/plain" is longer than it was`, in("files/plain"), func(p string) error { return write(p, "x") }},
		{"byte changed", WhyDamaged + `: "policies/main.rego" is not what was provisioned`, in("policies/main.rego"),
			func(p string) error { return replaceIn(p, "main", "mein") }},
		{"file is a folder", WhyDamaged + `: "files/run.sh" is no file (d---------)`, in("files/run.sh"), func(p string) error {
			if err := os.Remove(p); err != nil {
				return err
			}
			return os.Mkdir(p, 0o700)
		}},
	}
}

// TestMissingAndDamaged: each way of not being whole is seen at the next start, said with the file's name, and outlives
// a second start.
func TestMissingAndDamaged(t *testing.T) {
	for _, c := range allSpoiled() {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t)
			tg := provisioned(t, config(dir), "one")
			d := tg.Digest()
			if err := c.spoil(c.path(t, dir)); err != nil {
				t.Fatal(err)
			}
			tg = reopen(t, tg, nil)
			expect(t, tg, "after a start", says{true, c.why, "provision_mode_server"})
			if tg.Digest() != "" {
				t.Errorf("digest %q of what is not whole", tg.Digest())
			}
			tg = reopen(t, tg, nil)
			tg.Confirmed(d)
			expect(t, tg, "after another start", says{true, c.why, "provision_mode_server"})
			if d2 := configure(t, tg, body("one")); d2 != d {
				t.Errorf("digest %s, then %s", d, d2)
			}
			tg = reopen(t, tg, nil)
			expect(t, tg, "repaired and not confirmed", says{true, c.why, "provision_mode_server"})
			restart(t, tg, d)
			tg.Confirmed(d)
			expect(t, tg, "confirmed", says{false, "", "server"})
		})
	}
}

func replaceIn(path, old, with string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Replace(string(b), old, with, 1)), 0o600)
}

// TestStateUnread: a record that does not read makes the machine want provisioning, and refuses no start.
func TestStateUnread(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "not JSON": "hello", "no format": `{"cluster":"` + clusterA + `","demand":1}`,
		"endless demand": `{"format":1,"demand":18446744073709551615,"cluster":"` + clusterA + `"}`,
		"no demand":      `{"format":1,"cluster":"` + clusterA + `"}`, "no cluster": `{"format":1,"demand":1}`,
		"digest": `{"format":1,"demand":1,"confirmed":"xyz","cluster":"` + clusterA + `"}`,
		"escape": `{"format":1,"demand":1,"asked":"\u001b[2J","cluster":"` + clusterA + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			tg := provisioned(t, config(dir), "one")
			d := tg.Digest()
			if err := tg.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, stateFile), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			tg = reopen(t, tg, nil)
			tg.Confirmed(d)
			expect(t, tg, "with a record that does not read", says{true, WhyRecordUnread, "provision_mode_server"})
			restart(t, tg, configure(t, tg, body("two")))
			tg.Confirmed(tg.Digest())
			expect(t, reopen(t, tg, nil), "after it was provisioned", says{false, "", "server"})
		})
	}
}

// laterCases make each record of a folder one of a later version.
var laterCases = map[string]func(dir string) error{
	stateFile: func(dir string) error { return replaceIn(filepath.Join(dir, stateFile), `"format": 1`, `"format": 2`) },
	currentDir + "/" + manifestFile: func(dir string) error {
		return replaceIn(filepath.Join(dir, currentDir, manifestFile), `"format": 1`, `"format": 2`)
	},
	intentFile: func(dir string) error {
		return os.WriteFile(filepath.Join(dir, intentFile), []byte(`{"format":2,"digest":"later"}`), 0o600)
	},
	stagingDir + "/" + manifestFile: func(dir string) error {
		if err := os.Mkdir(filepath.Join(dir, stagingDir), 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, stagingDir, manifestFile), []byte(`{"format":2}`), 0o600)
	},
}

// takesLater is what is wrong with how a folder is opened of which one record is a later version's.
func takesLater(t *testing.T, name string) error {
	t.Helper()
	dir := folder(t)
	tg := provisioned(t, config(dir), "one")
	if err := errors.Join(tg.Close(), laterCases[name](dir)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Open(tg.cfg)
	if err == nil {
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !errors.Is(err, statedir.ErrNewerFormat) || !strings.Contains(err.Error(), path+" was written by a later version") || !strings.Contains(err.Error(), "install that version again") {
		return fmt.Errorf("opened with %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		return fmt.Errorf("the refusal changed %s (%v)", path, err)
	}
	return nil
}

// TestLaterFormat: what a later version wrote refuses the start, naming the file and the way out, and is left as it is.
func TestLaterFormat(t *testing.T) {
	for name := range laterCases {
		if err := takesLater(t, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(laterCases) != len(laterFiles) {
		t.Errorf("%d records are looked at, and %d are tried", len(laterFiles), len(laterCases))
	}
}

func TestMutationLaterFiles(t *testing.T) {
	for i := range laterFiles {
		was := laterFiles[i]
		laterFiles[i].known = 2
		if takesLater(t, filepath.ToSlash(was.path)) == nil {
			t.Errorf("%s: nobody saw that its later format is read", was.path)
		}
		laterFiles[i] = was
	}
}

// TestModes: always asks at each boot, never asks for nothing.
func TestModes(t *testing.T) {
	dir := folder(t)
	cfg := config(dir)
	cfg.Mode = "always"
	tg := provisioned(t, cfg, "one")
	d := tg.Digest()
	for range 2 {
		tg = reopen(t, tg, nil)
		expect(t, tg, "always: at each boot", says{true, "always", "provision_mode_server"})
		tg.Confirmed(d)
		expect(t, tg, "always: told the old confirmation", says{true, "always", "provision_mode_server"})
	}
	configure(t, tg, body("one"))
	tg = reopen(t, tg, nil)
	tg.Confirmed(d)
	expect(t, tg, "always: configured before the boot", says{true, "always", "provision_mode_server"})
	restart(t, tg, configure(t, tg, body("one")))
	tg.Confirmed(d)
	expect(t, tg, "always: once provisioned", says{false, "", "server"})
	tg.Reprovision("")
	expect(t, tg, "always: reprovision", says{true, "reprovision", "provision_mode_server"})

	tg = reopen(t, tg, nil)
	tg = reopen(t, tg, func(c *Config) { c.Mode = "auto" })
	expect(t, tg, "auto: asked by always before", says{true, WhyUnconfirmed, "provision_mode_server"})
	tg = reopen(t, tg, func(c *Config) { c.Mode = "never" })
	expect(t, tg, "never", says{false, whyNever, "server"})
	tg.Reprovision("please")
	tg.ChangeFleet(clusterB)
	expect(t, tg, "never: whatever is asked", says{false, whyNever, "server"})
	tg = reopen(t, tg, func(c *Config) { c.Mode = "auto" })
	expect(t, tg, "auto: asked while never", says{true, WhyFirstBoot, "provision_mode_server"})
}

// TestReprovisionDuringConfigure: a configuration that was begun before the demand does not answer it.
func TestReprovisionDuringConfigure(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		cfg := config(folder(t))
		var tg *Target
		demand := func() {}
		cfg.Point = func(p string) {
			if p == "target.stage.check.after" {
				demand()
			}
		}
		tg = open(t, cfg)
		if confirmed {
			restart(t, tg, configure(t, tg, body("zero")))
			tg.Confirmed(tg.Digest())
		}
		demand = func() { tg.Reprovision("now"); demand = func() {} }
		d := configure(t, tg, body("one"))
		restart(t, tg, d)
		tg.Confirmed(d)
		expect(t, tg, "confirmed what was begun before", says{true, "reprovision: now", "provision_mode_server"})
		restart(t, tg, configure(t, tg, body("one")))
		tg.Confirmed(d)
		expect(t, tg, "confirmed what was begun after", says{false, "", "server"})
	}
}

func TestSequence(t *testing.T) {
	tg := open(t, config(folder(t)))
	if tg.Sequence() != 0 || tg.NextSequence() != 1 || tg.NextSequence() != 2 || tg.Sequence() != 2 {
		t.Error("sequences do not rise by one from 1")
	}
	if b := tg.BootID(); string(b[:]) != "\x00\x00\x00\x00\x00\x00\x00\x07entropy!" {
		t.Errorf("boot id %q", b)
	}
}

// TestReasonIsBounded: an operator's text is kept whole where it can be, and never as control characters.
func TestReasonIsBounded(t *testing.T) {
	tg := open(t, config(folder(t)))
	for _, reason := range []string{"\x1b[2J\nx", strings.Repeat("ü", 300), "\xff\xfe", strings.Repeat("\x00", 200)} {
		tg.Reprovision(reason)
		_, why := tg.Wants()
		if !wire.ValidText(why) || len(why) > MaxReason+len(WhyReprovision)+2 {
			t.Errorf("%q is announced as %q", reason, why)
		}
		tg = reopen(t, tg, nil)
		if _, again := tg.Wants(); again != why {
			t.Errorf("%q after a boot, before %q", again, why)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Config)
		say    string
	}{
		"no folder":  {func(c *Config) { c.Dir = "" }, "no folder"},
		"node id":    {func(c *Config) { c.NodeID = "a b" }, `"a b" is no node id`},
		"cluster":    {func(c *Config) { c.Cluster = "" }, `"" is no cluster id`},
		"mode":       {func(c *Config) { c.Mode = "sometimes" }, `and not "sometimes"`},
		"a file":     {func(c *Config) { c.Dir = file }, "it is no folder"},
		"no parent":  {func(c *Config) { c.Dir = filepath.Join(file, "x") }, "make it usable"},
		"no parents": {func(c *Config) { c.Dir = filepath.Join(filepath.Dir(file), "x", "y") }, "make it usable"},
	} {
		cfg := config(folder(t))
		c.change(&cfg)
		if tg, err := Open(cfg); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v", name, err)
			if tg != nil {
				tg.Close()
			}
		}
	}
}

// TestClosed: nothing is done and nothing written after Close.
func TestClosed(t *testing.T) {
	dir := folder(t)
	tg := open(t, config(dir))
	if err := tg.Close(); err != nil {
		t.Fatal(err)
	}
	was := tree(t, dir)
	tg.Reprovision("late")
	if err := tg.Flush(); err != ErrClosed {
		t.Errorf("flush after close: %v", err)
	}
	for _, s := range Steps {
		if a := tg.Work(t.Context(), s.Step, nil); a.OK || !a.Transient || !strings.Contains(a.Error, "is stopping") {
			t.Errorf("%s after close: %+v", s.Step, a)
		}
	}
	if err := tg.Close(); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(was, tree(t, dir)); d != "" {
		t.Error(d)
	}
}

// TestFlush: what was asked for is on disk when Flush returns.
func TestFlush(t *testing.T) {
	dir := folder(t)
	tg := open(t, config(dir))
	tg.Reprovision("kept")
	if err := tg.Flush(); err != nil {
		t.Fatal(err)
	}
	s, err := readState(dir)
	if err != nil || s.Asked != "reprovision: kept" {
		t.Errorf("on disk: %+v, %v", s, err)
	}
}

func TestInventory(t *testing.T) {
	cfg := config(folder(t))
	cfg.Facts = func() map[string]any { return map[string]any{"rack": 7, "name": "told"} }
	tg := open(t, cfg)
	a := tg.Work(t.Context(), wire.StepInventory, nil)
	direct, err := tg.Inventory()
	if err != nil || !a.OK {
		t.Fatal(err, a.Error)
	}
	var keys, keys2 map[string]json.RawMessage
	if json.Unmarshal(a.Body, &keys) != nil || json.Unmarshal(direct, &keys2) != nil {
		t.Fatalf("%s", a.Body)
	}
	want := []string{"agents", "classes", "collectives", "data_plugins", "facts", "machines", "main_collective", "upgradable", "version"}
	if d := cmp.Diff(want, sorted(keys)); d != "" {
		t.Error(d)
	}
	for _, k := range []string{"agents", "classes", "collectives", "data_plugins", "machines"} {
		var list []string
		if err := json.Unmarshal(keys[k], &list); err != nil || list == nil {
			t.Errorf("%s is %s", k, keys[k])
		}
	}
	var facts map[string]any
	if err := json.Unmarshal(keys["facts"], &facts); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"hostname", "name", "labels", "os", "arch", "cpus", "memory", "addresses", "distribution", "kernel"} {
		if facts[k] == nil && (k != "distribution" || runtime.GOOS != "linux") {
			t.Errorf("no fact %s", k)
		}
	}
	if facts["rack"] != 7.0 || facts["name"] != "told" || facts["os"] != runtime.GOOS {
		t.Errorf("facts %v", facts)
	}
	if m, _ := facts["memory"].(float64); m < 1<<20 {
		t.Errorf("memory %v", facts["memory"])
	}

	for name, bad := range map[string]any{"no JSON": func() {}, "large": strings.Repeat("x", 2<<20)} {
		tg.cfg.Facts = func() map[string]any { return map[string]any{"bad": bad} }
		if a := tg.Work(t.Context(), wire.StepInventory, nil); a.OK || !a.Transient || a.Error == "" || len(a.Error) > 300 {
			t.Errorf("%s: %+v", name, a.Error)
		}
	}
}

func TestShutdown(t *testing.T) {
	cfg := config(folder(t))
	var told []string
	cfg.Shutdown = func(msg string) { told = append(told, msg) }
	tg := open(t, cfg)
	for _, b := range []string{`{"msg":"bye"}`, `{}`, ``} {
		if a := tg.Work(t.Context(), wire.StepShutdown, json.RawMessage(b)); !a.OK {
			t.Errorf("%q: %s", b, a.Error)
		}
	}
	if d := cmp.Diff([]string{"bye", "", ""}, told); d != "" {
		t.Error(d)
	}
	if a := tg.Work(t.Context(), wire.StepShutdown, json.RawMessage(`{"msg":7}`)); a.OK || !strings.Contains(a.Error, "msg") {
		t.Errorf("%+v", a)
	}
}

// TestKeeperTriesAgain: a state that cannot be written is not forgotten, and written once it can be.
func TestKeeperTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := folder(t)
		tg := open(t, config(dir))
		synctest.Wait()
		state := filepath.Join(dir, stateFile)
		if err := os.Remove(state); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(state, "x"), 0o700); err != nil { // no file can be renamed onto it
			t.Fatal(err)
		}
		tg.Reprovision("again")
		synctest.Wait() // the keeper has failed
		if err := tg.Flush(); err == nil {
			t.Fatal("a state was written onto a folder")
		}
		if err := os.RemoveAll(state); err != nil {
			t.Fatal(err)
		}
		time.Sleep(saveRetry + time.Second)
		synctest.Wait()
		if s, err := readState(dir); err != nil || s.Asked != "reprovision: again" {
			t.Errorf("on disk: %+v, %v", s, err)
		}
	})
}

// TestTheSameRefusalIsSaidOnceAMinute: a leader that asks again and again for what cannot be done is one line a minute, and each
// is counted.
func TestTheSameRefusalIsSaidOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		cfg := config(folder(t))
		cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))
		tg := open(t, cfg)
		ask := func(step string) int {
			if a := tg.Work(t.Context(), step, json.RawMessage(`{"digest":"x"}`)); a.OK {
				t.Fatalf("%s is carried out", step)
			}
			return strings.Count(log.String(), "step not carried out")
		}
		for i, c := range []struct {
			step  string
			after time.Duration
			said  int
		}{
			{"restart", 0, 1}, {"restart", 5 * time.Second, 1}, {"restart", 54 * time.Second, 1}, {"restart", time.Second, 2},
			{"later", time.Second, 3}, {"later", 0, 3}, {"restart", 0, 4},
		} {
			time.Sleep(c.after)
			if got := ask(c.step); got != c.said {
				t.Errorf("%d, %s: %d lines, want %d", i, c.step, got, c.said)
			}
		}
		if n := tg.Refusals(); n[ReasonWrongType] != 5 || n[ReasonUnknownStep] != 2 {
			t.Errorf("%v", n)
		}
		if err := tg.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
