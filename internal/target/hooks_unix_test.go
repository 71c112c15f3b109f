//go:build !windows

package target

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/wire"
)

// hookFolder is a folder of hooks, and a file to which they write what they do.
func hookFolder(t testing.TB, hooks map[string]string) (dir, log string) {
	t.Helper()
	dir, log = t.TempDir(), filepath.Join(t.TempDir(), "log")
	for name, body := range hooks {
		writeHook(t, dir, name, "log='"+log+"'; "+body)
	}
	return dir, log
}

func writeHook(t testing.TB, dir, name, body string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

func contents(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

func failing(t *testing.T, tg *Target, digest string) wire.WorkAnswer {
	t.Helper()
	a := tg.Work(t.Context(), wire.StepRestart, encode(t, wire.RestartBody{Digest: digest}))
	if a.OK || !wire.ValidText(a.Error) {
		t.Fatalf("restart: %+v", a)
	}
	return a
}

const (
	// says logs why and the mark of the configuration.
	says1 = `in=$(cat); why=$(printf %s "$in" | sed 's/.*"why":"\([^"]*\)".*/\1/'); mark=$(printf %s "$in" | sed 's/.*"b":"2 \([^"]*\)".*/\1/'); `
	log1  = says1 + `echo "$(basename "$0") $why $mark" >>"$log"; `
)

// TestHooksRunInOrder: each by the order of its name, with the configuration on stdin, and nothing else of the folder.
func TestHooksRunInOrder(t *testing.T) {
	dir, log := hookFolder(t, map[string]string{
		"20-second": log1, "10-first": `cat >"$log.in"; echo "first $(pwd)" >>"$log"; echo "$PACE_SECRET" >>"$log.env"`, "5-third": log1, "a b": log1,
		".hidden": log1, "10-first~": log1, "10-first.bak": log1, "x.dpkg-old": log1, "x.rpmsave": log1,
	})
	t.Setenv("PACE_SECRET", "secret")
	if err := os.WriteFile(filepath.Join(dir, "README"), []byte("no hook"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := config(folder(t))
	cfg.Hooks = Hooks{Dir: dir}
	tg := open(t, cfg)
	d := configure(t, tg, body("one"))
	if contents(log) != "" {
		t.Fatal("hooks ran before the restart")
	}
	restart(t, tg, d)
	if got, want := contents(log), "first /\n20-second configured one\n5-third configured one\na b configured one\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := contents(log + ".env"); got != "\n" {
		t.Errorf("a setting of the node is in a hook's environment: %q", got)
	}
	var in HookInput
	if err := json.Unmarshal([]byte(contents(log+".in")), &in); err != nil {
		t.Fatal(err)
	}
	var claims any
	if err := json.Unmarshal(in.ServerClaims, &claims); err != nil {
		t.Fatal(err)
	}
	in.ServerClaims = nil
	want := HookInput{V: 1, Why: "configured", Node: nodeID, Cluster: clusterA, Digest: d, Folder: filepath.Join(cfg.Dir, "current"),
		Configuration: map[string]string{"b": "2 one", "a": "1 <&>", "loglevel": "info"}}
	if diff := cmp.Diff(want, in); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{"exp": 5.0, "note": "one"}, claims); diff != "" {
		t.Errorf("claims: %s", diff)
	}
	b := body("two")
	b.ServerClaims = nil
	restart(t, tg, configure(t, tg, b))
	if got := contents(log + ".in"); !strings.Contains(got, `"server_claims":null`) {
		t.Errorf("without claims: %s", got)
	}
}

// TestFailingHookIsRolledBack: whatever a hook fails with, what was there is there byte for byte, and its hooks ran.
func TestFailingHookIsRolledBack(t *testing.T) {
	for _, c := range []struct{ name, fails, say string }{
		{"exit code", `echo "the shelf is empty" >&2; exit 7`, `the hook "20-fails" ended with exit code 7; its stderr: "the shelf is empty"`},
		{"silent", `exit 1`, `exit code 1; its stderr is empty`},
		{"signal", `kill -KILL $$`, `ended with signal: killed`},
		{"a key on stderr", `printf -- '-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n' >&2; exit 1`, `[a key, withheld]`},
		{"much on stderr", `head -c 100000 /dev/zero | tr '\0' x >&2; exit 1`, strings.Repeat("x", MaxHookStderr) + `"`},
		{"bytes on stderr", `printf '\377\033[2J' >&2; exit 1`, `[2J"`},
		{"hangs with a child", `sleep 600 & sleep 600`, `the hook "20-fails" timed out: it was ended when all hooks together had run for 5s`},
		{"no program", ``, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "hangs with a child" {
				defer func(was time.Duration) { hookTimes.hooks = was }(hookTimes.hooks)
				hookTimes.hooks = 5 * time.Second // the others have the whole of theirs: they end by themselves, on a busy machine too
			}
			dir, log := hookFolder(t, map[string]string{"10-first": log1, "20-fails": log1 + `case "$mark" in bad) ` + c.fails + `;; esac`, "30-last": log1})
			if c.name == "no program" {
				if err := os.WriteFile(filepath.Join(dir, "20-fails"), []byte("#!/not/there\n"), 0o700); err != nil {
					t.Fatal(err)
				}
				c.say = `the hook "20-fails" cannot be run: no such file`
			}
			cfg := config(folder(t))
			if c.name != "no program" {
				cfg.Hooks = Hooks{Dir: dir}
			}
			tg := provisioned(t, cfg, "good")
			tg.cfg.Hooks = Hooks{Dir: dir}
			was := below(tree(t, cfg.Dir), currentDir)
			if err := os.WriteFile(log, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			d := configure(t, tg, body("bad"))
			a := failing(t, tg, d)
			if !a.Transient || !strings.Contains(a.Error, c.say) || strings.Contains(a.Error, "SECRET") || tg.Refusals()[ReasonHook] != 1 {
				t.Errorf("%+v, want %s", a, c.say)
			}
			want := "10-first configured bad\n20-fails configured bad\n10-first rolled-back good\n20-fails rolled-back good\n30-last rolled-back good\n"
			say := "the configuration before it is back, and its hooks ran"
			if c.name == "no program" {
				want, say = "10-first configured bad\n10-first rolled-back good\n", "and its hooks failed too: "+c.say
			}
			if got := contents(log); got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if !strings.Contains(a.Error, say) {
				t.Errorf("%s, want %s", a.Error, say)
			}
			all := tree(t, cfg.Dir)
			if diff := cmp.Diff(was, below(all, currentDir)); diff != "" {
				t.Error(diff)
			}
			for _, left := range []string{droppedDir, stagingDir, intentFile, previousDir, hookRequestFile} {
				if _, ok := all[left]; ok {
					t.Errorf("%s is left", left)
				}
			}
			if want, _ := tg.Wants(); !want || tg.Component() != "provision_mode_server" || tg.Digest() == d {
				t.Errorf("after a roll-back it wants provisioning: %v, component %s", want, tg.Component())
			}
			tg = reopen(t, tg, nil)
			if diff := cmp.Diff(was, below(tree(t, cfg.Dir), currentDir)); diff != "" {
				t.Error(diff)
			}
			// The next one that its hooks take goes through, and what was rolled back to is the previous one.
			tg.cfg.Hooks = Hooks{}
			d = configure(t, tg, body("better"))
			restart(t, tg, d)
			tg.Confirmed(d)
			if diff := cmp.Diff(was, below(tree(t, cfg.Dir), previousDir)); diff != "" {
				t.Error(diff)
			}
			expect(t, tg, "after a better one", says{false, "", "server"})
		})
	}
}

// TestFirstConfigurationIsTakenAway where a hook fails with it: that is what was there.
func TestFirstConfigurationIsTakenAway(t *testing.T) {
	dir, log := hookFolder(t, map[string]string{"x": log1 + "exit 1"})
	cfg := config(folder(t))
	cfg.Hooks = Hooks{Dir: dir}
	tg := open(t, cfg)
	a := failing(t, tg, configure(t, tg, body("one")))
	if !strings.HasSuffix(a.Error, "there was no configuration before it, and there is none again") {
		t.Error(a.Error)
	}
	all := atRest(t, tg)
	delete(all, stateFile)
	delete(all, ".")
	if len(all) != 0 {
		t.Errorf("left:\n%s", dump(all))
	}
	if got := contents(log); got != "x configured one\n" {
		t.Errorf("%q", got)
	}
	expect(t, tg, "after it", says{true, WhyFirstBoot, "provision_mode_server"})
	expect(t, reopen(t, tg, nil), "at the next start", says{true, WhyFirstBoot, "provision_mode_server"})
}

// TestWhatRanIsWhatComesBack: a configuration that was put in place and never taken into use, because the leader went, is
// not what a hook's failure leads back to.
func TestWhatRanIsWhatComesBack(t *testing.T) {
	dir, _ := hookFolder(t, map[string]string{"x": says1 + `test "$mark" = good`})
	cfg := config(folder(t))
	cfg.Hooks = Hooks{Dir: dir}
	tg := provisioned(t, cfg, "good")
	was := below(tree(t, cfg.Dir), currentDir)
	configure(t, tg, body("unused"))
	tg = reopen(t, tg, nil)
	configure(t, tg, body("unused too"))
	if diff := cmp.Diff(was, below(tree(t, cfg.Dir), previousDir)); diff != "" {
		t.Error(diff)
	}
	failing(t, tg, configure(t, tg, body("bad")))
	if diff := cmp.Diff(was, below(tree(t, cfg.Dir), currentDir)); diff != "" {
		t.Error(diff)
	}
}

// TestDamagedPreviousIsNotPutBack: what is not whole is no configuration.
func TestDamagedPreviousIsNotPutBack(t *testing.T) {
	dir, _ := hookFolder(t, map[string]string{"x": says1 + `test "$mark" = good`})
	cfg := config(folder(t))
	cfg.Hooks = Hooks{Dir: dir}
	tg := provisioned(t, cfg, "good")
	d := configure(t, tg, body("bad"))
	if err := os.Remove(filepath.Join(cfg.Dir, previousDir, configurationFile)); err != nil {
		t.Fatal(err)
	}
	if a := failing(t, tg, d); !strings.Contains(a.Error, "there is none again") || tg.Digest() != "" {
		t.Errorf("%+v", a)
	}
}

// TestHooksAreRefused: those that others could change, before any of them runs.
func TestHooksAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, say string
		spoil     func(dir string) error
	}{
		{"writable by the group", `"20-last" is refused: "`, func(dir string) error { return os.Chmod(filepath.Join(dir, "20-last"), 0o770) }},
		{"writable by everybody", `can be written by others than root; make it root's alone: chown root:root and chmod go-w`, func(dir string) error { return os.Chmod(filepath.Join(dir, "20-last"), 0o707) }},
		{"its folder", `can be written by others than root`, func(dir string) error { return os.Chmod(dir, 0o777|fs.ModeSticky) }},
		{"a folder above", `can be written by everybody`, func(dir string) error { return os.Chmod(filepath.Dir(dir), 0o777) }},
		{"where a link leads", `can be written by others than root`, func(dir string) error {
			to := filepath.Join(filepath.Dir(dir), "elsewhere")
			if err := os.Rename(filepath.Join(dir, "20-last"), to); err != nil {
				return err
			}
			if err := os.Chmod(to, 0o777); err != nil {
				return err
			}
			return os.Symlink(to, filepath.Join(dir, "20-last"))
		}},
		{"the folder is a file", `cannot be read: not a directory`, func(dir string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o600)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "hooks.d")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			log := filepath.Join(t.TempDir(), "log")
			for _, name := range []string{"10-first", "20-last"} {
				writeHook(t, dir, name, "log='"+log+"'; "+log1)
			}
			cfg := config(folder(t))
			tg := provisioned(t, cfg, "good")
			was := below(tree(t, cfg.Dir), currentDir)
			if err := c.spoil(dir); err != nil {
				t.Fatal(err)
			}
			tg.cfg.Hooks = Hooks{Dir: dir}
			a := failing(t, tg, configure(t, tg, body("two")))
			if !a.Transient || !strings.Contains(a.Error, c.say) || !strings.HasSuffix(a.Error, "the configuration before it is back") || tg.Refusals()[ReasonHookRefused] != 1 {
				t.Errorf("%+v, want %s", a, c.say)
			}
			if got := contents(log); got != "" {
				t.Errorf("hooks ran all the same: %s", got)
			}
			if diff := cmp.Diff(was, below(tree(t, cfg.Dir), currentDir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// checkHookFacts writes out who may own a hook and what is above it.
func checkHookFacts() error {
	hook := func(uid int, mode fs.FileMode) hookFacts { return hookFacts{path: "/h/x", uid: uid, mode: mode} }
	in := func(uid int, mode fs.FileMode) hookFacts {
		return hookFacts{path: "/h", uid: uid, mode: fs.ModeDir | mode, folder: true, hooksDir: true}
	}
	above := func(uid int, mode fs.FileMode) hookFacts {
		return hookFacts{path: "/", uid: uid, mode: fs.ModeDir | mode, folder: true}
	}
	good, inGood := hook(0, 0o755), in(0, 0o755)
	for _, c := range []struct {
		name     string
		facts    []hookFacts
		accepted []int
		want     string
	}{
		{"root's", []hookFacts{good, inGood, above(0, 0o755)}, []int{0}, ""},
		{"own, and this is no root", []hookFacts{hook(7, 0o700), in(7, 0o700), above(0, 0o755)}, []int{0, 7}, ""},
		{"own of another", []hookFacts{hook(7, 0o700), inGood}, []int{0}, `"/h/x" is not root's`},
		{"folder of another", []hookFacts{good, in(7, 0o755)}, []int{0}, `"/h" is not root's`},
		{"folder above of another", []hookFacts{good, inGood, above(7, 0o755)}, []int{0}, `"/" is not root's`},
		{"group writes", []hookFacts{hook(0, 0o775), inGood}, []int{0}, `"/h/x" can be written by others than root`},
		{"others write", []hookFacts{hook(0, 0o757), inGood}, []int{0}, `"/h/x" can be written by others than root`},
		{"of another, and all write", []hookFacts{hook(7, 0o777), inGood}, []int{0}, `"/h/x" is not root's`},
		{"group writes its folder", []hookFacts{good, in(0, 0o775)}, []int{0}, `"/h" can be written by others than root`},
		{"all write its sticky folder", []hookFacts{good, in(0, 0o777|fs.ModeSticky)}, []int{0}, `"/h" can be written by others than root`},
		{"group writes above", []hookFacts{good, inGood, above(0, 0o775)}, []int{0}, ""},
		{"all write above", []hookFacts{good, inGood, above(0, 0o777)}, []int{0}, `the folder "/" can be written by everybody`},
		{"all write above, sticky", []hookFacts{good, inGood, above(0, 0o777|fs.ModeSticky)}, []int{0}, ""},
		{"a link", []hookFacts{hook(0, fs.ModeSymlink|0o777), inGood}, []int{0}, ""},
		{"a link above", []hookFacts{good, inGood, {path: "/l", mode: fs.ModeSymlink | 0o777, folder: true}}, []int{0}, ""},
		{"a link of another", []hookFacts{hook(7, fs.ModeSymlink|0o777), inGood}, []int{0}, `"/h/x" is not root's`},
	} {
		if got := judgeHookFacts(c.facts, c.accepted); got != c.want {
			return fmt.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	return nil
}

func TestHookFacts(t *testing.T) {
	if err := checkHookFacts(); err != nil {
		t.Error(err)
	}
}

func TestMutationHookFacts(t *testing.T) {
	rows := hookChecks
	defer func() { hookChecks = rows }()
	for i, r := range rows {
		for what, change := range map[string]func(*hookCheck){
			"left out":     func(c *hookCheck) { c.Bad = func(hookFacts, []int) bool { return false } },
			"turned round": func(c *hookCheck) { c.Bad = func(f hookFacts, a []int) bool { return !r.Bad(f, a) } },
			"silent":       func(c *hookCheck) { c.Say = "%s" },
		} {
			hookChecks = slices.Clone(rows)
			change(&hookChecks[i])
			if checkHookFacts() == nil {
				t.Errorf("the row %q %s goes unseen", r.Name, what)
			}
		}
	}
}

// TestStopEndsAHook: a node that is to stop lets a hook come to its end for a moment, and leaves nothing behind.
func TestStopEndsAHook(t *testing.T) {
	defer func(was time.Duration) { hookTimes.grace = was }(hookTimes.grace)
	hookTimes.grace = 10 * time.Millisecond
	dir, log := hookFolder(t, map[string]string{"x": log1 + `sleep 600`})
	cfg := config(folder(t))
	tg := provisioned(t, cfg, "good")
	tg.cfg.Hooks = Hooks{Dir: dir}
	d := configure(t, tg, body("two"))
	done := make(chan wire.WorkAnswer, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- tg.Work(ctx, wire.StepRestart, encode(t, wire.RestartBody{Digest: d})) }()
	for begun := time.Now(); contents(log) == ""; time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatal("the hook did not begin")
		}
	}
	cancel() // whoever asked has gone: the hook is not cut in two for that
	select {
	case a := <-done:
		t.Fatalf("a hook ended with whoever asked: %+v", a)
	case <-time.After(20 * time.Millisecond):
	}
	if err := tg.Close(); err != nil {
		t.Fatal(err)
	}
	if a := <-done; a.OK || !a.Transient || a.Error != `the hook "x" was ended: this node is stopping` || tg.Refusals()[ReasonClosed] != 1 {
		t.Errorf("%+v", a)
	}
	// It was not taken into use, and what was there is the previous one.
	tg = open(t, cfg)
	if want, _ := tg.Wants(); !want || tg.Digest() != d || tg.Component() != "provision_mode_server" {
		t.Errorf("wants %v, %s", want, tg.Component())
	}
	configure(t, tg, body("three"))
	if c := contents(filepath.Join(cfg.Dir, previousDir, configurationFile)); !strings.Contains(c, "2 good") {
		t.Errorf("previous is %s", c)
	}
}
