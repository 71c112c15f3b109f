//go:build !windows

package target

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// unit plays the unit of root's beside a target, in this process.
func unit(t *testing.T, cfg Config) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			if _, err := (HookUnit{Dir: cfg.Dir, Hooks: cfg.Hooks}).Serve(ctx); err != nil && !errors.Is(err, ErrHooks) {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond): // systemd would look at the file's being there
			}
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
}

// sandboxed is a target whose hooks a unit runs.
func sandboxed(t *testing.T, hooks map[string]string) (cfg Config, log string) {
	t.Helper()
	dir, log := hookFolder(t, hooks)
	cfg = config(folder(t))
	cfg.Hooks = Hooks{Dir: dir, Result: filepath.Join(t.TempDir(), "result.json"), Enable: "switch it on", writer: func(fs.FileInfo) bool { return true }}
	n := byte(0)
	cfg.Entropy = func(b []byte) { n++; b[0] = n } // nonces differ
	return cfg, log
}

func TestHooksByTheUnit(t *testing.T) {
	cfg, log := sandboxed(t, map[string]string{"10-first": log1, "20-picky": log1 + `test "$mark" != bad || { echo no >&2; exit 4; }`})
	unit(t, cfg)
	tg := provisioned(t, cfg, "good")
	was := below(tree(t, cfg.Dir), currentDir)
	a := failing(t, tg, configure(t, tg, body("bad")))
	if want := `the hook "20-picky" ended with exit code 4; its stderr: "no"; the configuration before it is back, and its hooks ran`; a.Error != want || !a.Transient || tg.Refusals()[ReasonHook] != 1 {
		t.Errorf("%+v, want %s", a, want)
	}
	if got, want := contents(log), "10-first configured good\n20-picky configured good\n10-first configured bad\n20-picky configured bad\n10-first rolled-back good\n20-picky rolled-back good\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := tg.Flush(); err != nil {
		t.Fatal(err)
	}
	all := tree(t, cfg.Dir)
	if diff := cmp.Diff(was, below(all, currentDir)); diff != "" {
		t.Error(diff)
	}
	for name := range all {
		if top, _, _ := strings.Cut(name, "/"); top != "." && top != currentDir && top != stateFile {
			t.Errorf("%s is left", name)
		}
	}
	if info, err := os.Stat(cfg.Hooks.Result); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the report: %v %v", info.Mode(), err)
	}
}

// TestHooksWithoutTheUnit: hooks that nothing runs are said with the remedy, and where there are none nothing is missed.
func TestHooksWithoutTheUnit(t *testing.T) {
	defer func(was time.Duration) { hookTimes.taken = was }(hookTimes.taken)
	hookTimes.taken = 50 * time.Millisecond
	cfg, _ := sandboxed(t, nil)
	tg := provisioned(t, cfg, "good")
	was := below(tree(t, cfg.Dir), currentDir)
	writeHook(t, cfg.Hooks.Dir, "x", "exit 0")
	a := failing(t, tg, configure(t, tg, body("two")))
	if !a.Transient || !strings.HasPrefix(a.Error, `there are hooks in "`+cfg.Hooks.Dir+`" and nothing runs them: on that machine, switch it on, or move the hooks away`) ||
		!strings.HasSuffix(a.Error, "; the configuration before it is back") || tg.Refusals()[ReasonHookUnit] != 1 {
		t.Errorf("%+v", a)
	}
	all := tree(t, cfg.Dir)
	if diff := cmp.Diff(was, below(all, currentDir)); diff != "" {
		t.Error(diff)
	}
	if _, ok := all[hookRequestFile]; ok {
		t.Error("the request is left, and would be answered when nobody waits")
	}
}

// TestReportsThatAreNone: what root did not write, and what does not read.
func TestReportsThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		write func(path string) error
		say   string
	}{
		"somebody else's": {func(path string) error { return os.WriteFile(path, []byte("{}"), 0o644) }, "is not what the unit of root's writes"},
		"a link":          {func(path string) error { return os.Symlink("/etc/passwd", path) }, "is not what the unit of root's writes"},
		"nonsense":        {func(path string) error { return os.WriteFile(path, []byte("nonsense"), 0o644) }, "invalid character"},
		"a later format":  {func(path string) error { return os.WriteFile(path, []byte(`{"format":2}`), 0o644) }, "format 2"},
		"another reason": {func(path string) error {
			return os.WriteFile(path, []byte(`{"format":1,"nonce":"`+strings.Repeat("00", 16)+`","reason":"x"}`), 0o644)
		}, "never writes"},
		"endless": {func(path string) error { return os.WriteFile(path, make([]byte, maxHookReport+1), 0o644) }, "is not what the unit of root's writes"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := sandboxed(t, map[string]string{"x": "exit 0"})
			cfg.Hooks.writer = func(fs.FileInfo) bool { return name != "somebody else's" }
			if err := c.write(cfg.Hooks.Result); err != nil {
				t.Fatal(err)
			}
			tg := open(t, cfg)
			if a := failing(t, tg, configure(t, tg, body("one"))); !strings.Contains(a.Error, c.say) || tg.Refusals()[ReasonHookRefused] != 1 {
				t.Errorf("%+v, want %s", a, c.say)
			}
		})
	}
}

// TestStopLeavesTheUnitItsHooks: a node that stops does not wait for another process.
func TestStopLeavesTheUnitItsHooks(t *testing.T) {
	cfg, _ := sandboxed(t, map[string]string{"x": "exit 0"})
	tg := open(t, cfg)
	d := configure(t, tg, body("one"))
	go func() {
		for {
			if _, err := os.Stat(filepath.Join(cfg.Dir, hookRequestFile)); err == nil {
				tg.Stop()
				return
			}
			time.Sleep(time.Millisecond) // a file of the goroutine below
		}
	}()
	if a := failing(t, tg, d); a.Error != "this node is stopping, and its hooks go on without it" || tg.Refusals()[ReasonClosed] != 1 {
		t.Errorf("%+v", a)
	}
}

// TestUnitRefuses what a service's account could have made of its folder.
func TestUnitRefuses(t *testing.T) {
	req := func(d string) string {
		return `{"format":1,"nonce":"` + strings.Repeat("ab", 16) + `","digest":"` + d + `","why":"configured"}`
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil  func(dir string) error
		text   func(d string) string // of the request
		ran    bool
		say    string // of the error
		report Reason
	}{
		"nothing asked":    {nil, nil, false, "", ""},
		"not JSON":         {nil, func(string) string { return "x" }, false, "hooks.json does not read", ""},
		"a later format":   {nil, func(string) string { return `{"format":2}` }, false, "format 2", ""},
		"no nonce":         {nil, func(d string) string { return `{"format":1,"digest":"` + d + `","why":"configured"}` }, false, "never writes", ""},
		"endless":          {nil, func(string) string { return strings.Repeat(" ", maxHookReport+1) }, false, "longer than it was", ""},
		"another digest":   {nil, func(string) string { return req(dA) }, true, "not aaaa", ReasonOtherDigest},
		"no configuration": {func(dir string) error { return os.RemoveAll(filepath.Join(dir, currentDir)) }, req, true, "cannot be read", ReasonDamaged},
		"damaged":          {func(dir string) error { return os.Truncate(filepath.Join(dir, currentDir, configurationFile), 1) }, req, true, "is not what was provisioned", ReasonDamaged},
		"current leads away": {func(dir string) error {
			to := filepath.Join(filepath.Dir(dir), "away")
			if err := os.Rename(filepath.Join(dir, currentDir), to); err != nil {
				return err
			}
			return os.Symlink(to, filepath.Join(dir, currentDir))
		}, req, true, "cannot be read", ReasonDamaged},
		"a file leads away": {func(dir string) error {
			path := filepath.Join(dir, currentDir, claimsFile)
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Symlink(outside, path)
		}, req, true, "is no file", ReasonDamaged},
		"the request is a link":   {func(dir string) error { return os.Symlink(outside, filepath.Join(dir, hookRequestFile)) }, nil, false, "is no file", ""},
		"the request is a folder": {func(dir string) error { return os.MkdirAll(filepath.Join(dir, hookRequestFile, "x"), 0o700) }, nil, false, "is no file", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, log := sandboxed(t, map[string]string{"x": log1})
			tg := open(t, Config{Dir: cfg.Dir, NodeID: nodeID, Cluster: clusterA})
			d := configure(t, tg, body("one"))
			if c.spoil != nil {
				if err := c.spoil(cfg.Dir); err != nil {
					t.Fatal(err)
				}
			}
			if c.text != nil {
				if err := os.WriteFile(filepath.Join(cfg.Dir, hookRequestFile), []byte(c.text(d)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			ran, err := HookUnit{Dir: cfg.Dir, Hooks: cfg.Hooks}.Serve(t.Context())
			if ran != c.ran || (err == nil) != (c.say == "") || err != nil && (!strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "secret")) {
				t.Errorf("ran %v, %v, want %q", ran, err, c.say)
			}
			if got := contents(log); got != "" {
				t.Errorf("hooks ran: %s", got)
			}
			if _, err := os.Lstat(filepath.Join(cfg.Dir, hookRequestFile)); !errors.Is(err, fs.ErrNotExist) {
				t.Error("the request is left, and would be taken again at once")
			}
			r, err := readReport(cfg.Hooks)
			if err != nil || r.Reason != c.report || r.Done != c.ran {
				t.Errorf("report %+v, %v", r, err)
			}
			if contents(outside) != "secret" {
				t.Error("a file elsewhere was changed")
			}
		})
	}
	if ran, err := (HookUnit{Dir: filepath.Join(t.TempDir(), "none")}).Serve(t.Context()); ran || err != nil {
		t.Errorf("a machine that was never provisioned: %v %v", ran, err)
	}
}

// TestCrashInARequest: a crash while hooks are asked for leaves no request that is answered later.
func TestCrashInARequest(t *testing.T) {
	first := prepare(t, 1)
	dir, _ := hookFolder(t, map[string]string{"x": "exit 0"})
	t.Setenv(childHooksEnv, dir)
	t.Setenv(childResultEnv, filepath.Join(t.TempDir(), "result.json"))
	for _, point := range UnitPoints {
		s := first.copy(t)
		if crashed, _ := child(t, "configure", s.dir, s.nextBody, point+"@1"); !crashed {
			t.Errorf("%s was not reached", point)
		}
		s.rolledBack(t, "crash at "+point, point)
	}
}

func FuzzHookDocuments(f *testing.F) {
	f.Add([]byte(`{"format":1,"nonce":"` + strings.Repeat("ab", 16) + `","digest":"` + strings.Repeat("ab", 32) + `","why":"configured"}`))
	f.Add([]byte(`{"format":1,"nonce":"` + strings.Repeat("ab", 16) + `","done":true,"begun":2,"reason":"hook","text":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodeHookRequest(b); err == nil && (!validDigest(r.Digest) || !validNonce(r.Nonce)) {
			t.Errorf("%+v", r)
		}
		if r, err := decodeHookReport(b); err == nil && (r.Begun < 0 || r.Reason != "" && !hookReportReasons[r.Reason]) {
			t.Errorf("%+v", r)
		}
	})
}
