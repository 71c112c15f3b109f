package upgrade

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/host"
	"pace-node/internal/release"
)

// service is the packages' service as systemd would tell of it.
type service struct {
	mu       sync.Mutex
	life     host.Life
	restarts int
	onStart  func(s *service) // what a restart brings
	err      error
}

func (s *service) is(l host.Life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life = l
}

func (s *service) Life(context.Context) (host.Life, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life, s.err
}

func (s *service) Restart(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restarts++
	if s.onStart != nil {
		s.onStart(s)
	}
	return nil
}

// packagedRig is a rig whose program belongs to dpkg, with root's way beside it.
type packagedRig struct {
	*rig
	spool, notes string
	enabled      bool
	service      *service
	key          string // that root typed
}

func newPackaged(t *testing.T) *packagedRig {
	r := newRig(t)
	p := &packagedRig{rig: r, spool: filepath.Join(t.TempDir(), "upgrade"), notes: t.TempDir(), enabled: true, key: r.key,
		service: &service{life: host.Life{Active: true, Start: "a"}}}
	return p
}

func (p *packagedRig) upgrader(change func(*Config)) *Upgrader {
	return p.rig.upgrader(func(c *Config) {
		c.Key = p.rig.key
		c.Owner = func(context.Context, string) (string, error) { return "dpkg", nil }
		c.Root = &Handover{Spool: p.spool, Notes: p.notes, Enabled: func() bool { return p.enabled }, Enable: "systemctl enable it"}
		if change != nil {
			change(c)
		}
	})
}

func (p *packagedRig) root() *Root {
	return &Root{Program: p.program, Version: "1.0", Key: p.key, Words: []string{"PACE_NAME=alder"}, Spool: p.spool, Notes: p.notes,
		Life: p.service.Life, Restart: p.service.Restart, Run: p.rig.upgrader(nil).cfg.Run}
}

// asked has the service ask, and root answer as its path unit would have it; went is called with the end of the service's
// half.
func (p *packagedRig) asked(ctx context.Context, root *Root, went func(error)) (said string, rootErr, err error) {
	p.t.Helper()
	var wait sync.WaitGroup
	wait.Go(func() {
		_, err = p.upgrader(nil).Upgrade(ctx, p.body())
		if went != nil {
			went(err)
		}
	})
	for {
		if _, statErr := os.Stat(filepath.Join(p.spool, requestFile)); statErr == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	said, rootErr = root.Apply(ctx)
	wait.Wait()
	return said, rootErr, err
}

func TestByRootOnly(t *testing.T) {
	p := newPackaged(t)
	for _, c := range []struct {
		enabled bool
		key     string
		ok      bool
		say     string
	}{
		{true, p.rig.key, true, ""},
		{false, p.rig.key, false, "dpkg owns " + p.program + ": upgrade the package, or let root do it: systemctl enable it"},
		{true, "", false, "give --provision-release-key"},
	} {
		p.enabled = c.enabled
		ok, why := p.upgrader(func(cfg *Config) { cfg.Key = c.key }).Upgradable()
		if ok != c.ok || !strings.Contains(why, c.say) || c.say == "" && why != "" {
			t.Errorf("%+v: %v %q", c, ok, why)
		}
	}
}

func TestUpgradeByRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPackaged(t)
		began := time.Now()
		said, rootErr, err := p.asked(t.Context(), p.root(), func(err error) {
			time.Sleep(2 * time.Second) // it ends, and systemd waits before it starts it again
			p.service.is(host.Life{Start: "b"})
			time.Sleep(3 * time.Second)
			p.service.is(host.Life{Start: "b", Active: true})
		})
		if err != nil || rootErr != nil || !strings.Contains(said, "is upgraded from 1.0 to 2.0") {
			t.Fatalf("%q, %v, %v", said, rootErr, err)
		}
		p.wants("upgraded", settled)
		if took := time.Since(began); took < SettleAfter || took > time.Minute {
			t.Errorf("it took %s", took)
		}
		if p.service.restarts != 0 {
			t.Error("it was restarted, and ended by itself")
		}
		if left, _ := os.ReadDir(p.spool); len(left) != 0 {
			t.Errorf("left in the spool: %v", left)
		}
		// Both halves ran the program: staged by the service, and copied by root.
		if d := cmp.Diff([]string{"pace-node --version", "pace-node --check-arguments --state-dir=/x PACE_NAME=alder",
			".pace-node.new --version", ".pace-node.new --check-arguments PACE_NAME=alder"}, p.ran); d != "" {
			t.Error(d)
		}
	})
}

// TestServiceThatDoesNotEnd is restarted.
func TestServiceThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPackaged(t)
		p.service.onStart = func(s *service) { s.life = host.Life{Start: "b", Active: true} }
		if _, rootErr, err := p.asked(t.Context(), p.root(), nil); err != nil || rootErr != nil || p.service.restarts != 1 {
			t.Errorf("%v, %v, %d restarts", rootErr, err, p.service.restarts)
		}
		p.wants("upgraded", settled)
	})
}

// TestRootRollsBack: whatever keeps the new program from serving brings the old one back, and has it started.
func TestRootRollsBack(t *testing.T) {
	for name, c := range map[string]struct {
		say string
		go_ func(s *service)
	}{
		"it ends, and nobody starts it": {"not started again", func(s *service) { s.is(host.Life{Start: "b", Down: true}) }},
		"it ends well at once":          {"not started again", func(s *service) { s.is(host.Life{Start: "b", Down: true, Clean: true}) }},
		"it hangs":                      {"did not serve within 1m0s", func(s *service) { s.is(host.Life{Start: "b"}) }},
		"it ends over and over": {"started 3 times", func(s *service) {
			for _, start := range []string{"b", "c", "d", "e"} {
				s.is(host.Life{Start: start})
				time.Sleep(3 * time.Second)
			}
		}},
		"it crashes whenever it serves": {"started 3 times", func(s *service) {
			for _, start := range []string{"b", "c", "d", "e"} {
				s.is(host.Life{Start: start, Active: true})
				time.Sleep(10 * time.Second)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPackaged(t)
				p.service.onStart = func(s *service) { s.life = host.Life{Start: "old", Active: true} }
				said, rootErr, err := p.asked(t.Context(), p.root(), func(error) { c.go_(p.service) })
				if err != nil || rootErr != nil || !strings.Contains(said, "is rolled back: ") || !strings.Contains(said, c.say) {
					t.Fatalf("%q, %v, %v", said, rootErr, err)
				}
				p.wants("rolled back", map[string]string{"pace-node": oldBytes})
				if p.service.restarts != 1 {
					t.Errorf("%d restarts", p.service.restarts)
				}
				u := p.upgrader(nil)
				if back, ok := u.RolledBack(); !ok || back.Version != "2.0" || !strings.Contains(back.Why, c.say) {
					t.Errorf("%+v", back)
				}
				if _, err := u.Upgrade(t.Context(), p.body()); !errors.Is(err, ErrRolledBack) {
					t.Errorf("taken again: %v", err)
				}
				if _, ok := p.upgrader(func(c *Config) { c.Version = "1.5" }).RolledBack(); ok {
					t.Error("said of a program that a package brought since")
				}
			})
		})
	}
}

// TestRootTellsBeforeTheOldProgramIsBack: systemd may start the old program as soon as it is there, and that one must know
// that it was taken back, or it would ask for the same again.
func TestRootTellsBeforeTheOldProgramIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPackaged(t)
		p.service.onStart = func(s *service) { s.life = host.Life{Start: "old", Active: true} }
		root, knew := p.root(), false
		root.point = func(name string) {
			if name == "upgrade.back.before" {
				_, knew = p.upgrader(nil).RolledBack()
			}
		}
		if _, rootErr, err := p.asked(t.Context(), root, func(error) { p.service.is(host.Life{Start: "b", Down: true}) }); err != nil || rootErr != nil {
			t.Fatalf("%v, %v", rootErr, err)
		}
		if !knew {
			t.Error("the old program is there, and does not know that it was taken back")
		}
	})
}

// TestRootRefuses: what root did not type, and what the service could have changed, changes nothing.
func TestRootRefuses(t *testing.T) {
	_, otherSecret, _, err := release.NewKey("")
	if err != nil {
		t.Fatal(err)
	}
	other, err := release.ParseSecretKey("", otherSecret)
	if err != nil {
		t.Fatal(err)
	}
	staged := func(p *packagedRig) string {
		return filepath.Join(p.spool, spoolRepository, "2.0", platformOf(), "pace-node")
	}
	for name, c := range map[string]struct {
		change func(p *packagedRig, root *Root)
		say    string
	}{
		"no key":               {func(_ *packagedRig, r *Root) { r.Key = "" }, "/etc/default/pace-node"},
		"another key":          {func(_ *packagedRig, r *Root) { r.Key = other.Public().String() }, "signature"},
		"not newer":            {func(_ *packagedRig, r *Root) { r.Version = "2.0" }, "not newer"},
		"another program":      {func(_ *packagedRig, r *Root) { r.Program = filepath.Join(t.TempDir(), "x") }, "the service runs"},
		"changed in the spool": {func(p *packagedRig, _ *Root) { p.write(staged(p), "something else") }, "less"},
		"a link in the spool":  {func(p *packagedRig, _ *Root) { os.Remove(staged(p)); os.Symlink("/etc/hostname", staged(p)) }, ""},
		"nothing in the spool": {func(p *packagedRig, _ *Root) { os.RemoveAll(filepath.Join(p.spool, spoolRepository)) }, "not in the repository"},
		"it does not run": {func(_ *packagedRig, r *Root) {
			r.Run = func(context.Context, string, ...string) (int, string, error) { return 1, "", nil }
		}, "status 1"},
		"a program of a version": {func(p *packagedRig, _ *Root) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.say["--version"] = answer{0, "pace-node 1.0 x", nil}
		}, "over and over"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPackaged(t)
				root := p.root()
				var err error
				var wait sync.WaitGroup
				wait.Go(func() { _, err = p.upgrader(nil).Upgrade(t.Context(), p.body()) })
				for {
					if _, statErr := os.Stat(filepath.Join(p.spool, requestFile)); statErr == nil {
						break
					}
					time.Sleep(50 * time.Millisecond)
				}
				c.change(p, root)
				_, rootErr := root.Apply(t.Context())
				wait.Wait()
				if rootErr == nil || err == nil || !strings.Contains(rootErr.Error(), c.say) || !strings.Contains(err.Error(), "root refuses it") {
					t.Errorf("root: %v; the service: %v", rootErr, err)
				}
				p.wants(name, map[string]string{"pace-node": oldBytes})
				if _, err := os.Stat(filepath.Join(p.notes, "intent.json")); err == nil {
					t.Error("an intent is left")
				}
			})
		})
	}
}

// TestARefusalEndsNoRollBack: root refuses a later request, and the service still knows what was rolled back before.
func TestARefusalEndsNoRollBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPackaged(t)
		p.service.onStart = func(s *service) { s.life = host.Life{Start: "old", Active: true} }
		if said, rootErr, err := p.asked(t.Context(), p.root(), func(error) { p.service.is(host.Life{Start: "b", Down: true}) }); err != nil || rootErr != nil {
			t.Fatalf("%q, %v, %v", said, rootErr, err)
		}
		before, ok := p.upgrader(nil).RolledBack()
		if !ok {
			t.Fatal("not rolled back")
		}
		for range 2 { // a refusal after a refusal neither
			if err := writeSealed(filepath.Join(p.spool, requestFile), requestMagic, request{ID: "later", Version: "1.0", Program: p.program}, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := p.root().Apply(t.Context()); !errors.Is(err, ErrOlder) {
				t.Fatalf("not refused: %v", err)
			}
			var a note
			if err := readSealed(filepath.Join(p.notes, answerFile), answerMagic, &a); err != nil || a.ID != "later" || a.Refused == "" {
				t.Fatalf("%+v, %v", a, err)
			}
			if after, ok := p.upgrader(nil).RolledBack(); !ok || after != before {
				t.Fatalf("%+v, %v; before %+v", after, ok, before)
			}
		}
		if _, err := p.upgrader(nil).Upgrade(t.Context(), p.body()); !errors.Is(err, ErrRolledBack) {
			t.Errorf("taken again: %v", err)
		}
	})
}

// TestRootIsSilent: without an answer the service says where to look.
func TestRootIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPackaged(t)
		_, err := p.upgrader(nil).Upgrade(t.Context(), p.body())
		var e *Error
		if !errors.As(err, &e) || e.Permanent() || !strings.Contains(err.Error(), "systemctl status pace-node-upgrade.path") {
			t.Error(err)
		}
		if left, _ := os.ReadDir(p.spool); len(left) != 0 {
			t.Errorf("left in the spool: %v", left)
		}
		if said, err := p.root().Apply(t.Context()); err != nil || said != "nobody asks for an upgrade" {
			t.Errorf("%q, %v", said, err)
		}
	})
}

// TestRootGoesOn: each place at which a power cut could have ended root's half.
func TestRootGoesOn(t *testing.T) {
	digest := func(p *packagedRig, text string) string {
		path := filepath.Join(t.TempDir(), "x")
		p.write(path, text)
		d, err := digestOf(path)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for name, c := range map[string]struct {
		phase    Phase
		program  string
		previous bool
		say      string
		want     map[string]string
		restarts int
	}{
		"before the swap":        {PhaseSwapped, oldBytes, true, "not that of an upgrade", map[string]string{"pace-node": oldBytes, "pace-node.previous": oldBytes}, 0},
		"after the swap":         {PhaseSwapped, newBytes, true, "is upgraded", settled, 0},
		"somebody else's":        {PhaseSwapped, "third", true, "not that of an upgrade", map[string]string{"pace-node": "third", "pace-node.previous": oldBytes}, 0},
		"before the way back":    {PhaseRolledBack, newBytes, true, "is rolled back: it hung", map[string]string{"pace-node": oldBytes}, 1},
		"after the way back":     {PhaseRolledBack, oldBytes, false, "is rolled back: it hung", map[string]string{"pace-node": oldBytes}, 1},
		"back, and a third came": {PhaseRolledBack, "third", false, "not that of an upgrade", map[string]string{"pace-node": "third"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPackaged(t)
				in := Intent{Phase: c.phase, From: "1.0", To: "2.0", Old: digest(p, oldBytes), New: digest(p, newBytes), Starts: 1}
				if c.phase == PhaseRolledBack {
					in.Why = "it hung"
				}
				p.write(p.program, c.program)
				if c.previous {
					p.write(filepath.Join(p.dir, "pace-node.previous"), oldBytes)
				}
				if err := writeIntent(filepath.Join(p.notes, "intent.json"), in, nil); err != nil {
					t.Fatal(err)
				}
				said, err := p.root().Apply(t.Context())
				if err != nil || !strings.Contains(said, c.say) || p.service.restarts != c.restarts {
					t.Errorf("%q, %v, %d restarts", said, err, p.service.restarts)
				}
				p.wants(name, c.want)
				if _, err := os.Stat(filepath.Join(p.notes, "intent.json")); err == nil {
					t.Error("the intent is left")
				}
			})
		})
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte("pace-node-upgrade-request 1 00\n{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q request
		var n note
		_ = parseSealed(b, requestMagic, &q)
		_ = parseSealed(b, answerMagic, &n)
	})
}
