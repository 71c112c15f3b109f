package upgrade

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/release"
	"pace-node/internal/wire"
)

func TestUpgrade(t *testing.T) {
	r := newRig(t)
	if err := os.Chmod(r.program, 0o751); err != nil {
		t.Fatal(err)
	}
	a, err := r.upgrader(nil).Upgrade(t.Context(), r.body())
	if err != nil || a.Version != "2.0" {
		t.Fatalf("%+v, %v", a, err)
	}
	want := map[string]string{"pace-node": newBytes, "pace-node.previous": oldBytes, ".pace-node.upgrade": "swapped 0"}
	if d := cmp.Diff(want, r.files()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{".pace-node.new --version", ".pace-node.new --check-arguments --state-dir=/x PACE_NAME=alder"}, r.ran); d != "" {
		t.Error(d)
	}
	if info, err := os.Stat(r.program); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// A second one in the same process would be of a program that runs no more: the caller sees to that; the next version is
	// an upgrade like any other, and what was kept before goes.
	r.publish("3.0", "three")
	r.say["--version"] = answer{0, "pace-node 3.0 linux/amd64", nil}
	body := r.body()
	body.Version = "3.0"
	if _, err := r.upgrader(func(c *Config) { c.Version = "2.0" }).Upgrade(t.Context(), body); err != nil {
		t.Fatal(err)
	}
	if f := r.files(); f["pace-node"] != "three" || f["pace-node.previous"] != newBytes || len(f) != 3 {
		t.Errorf("%v", f)
	}
}

func TestUpgradeOverHTTP(t *testing.T) {
	r := newRig(t)
	s := httptest.NewServer(http.FileServer(http.Dir(r.repo)))
	defer s.Close()
	body := r.body()
	body.Repository = s.URL
	if _, err := r.upgrader(nil).Upgrade(t.Context(), body); err != nil {
		t.Fatal(err)
	}
	if f := r.files(); f["pace-node"] != newBytes {
		t.Errorf("%v", f)
	}
}

// TestUpgradeIsRefused: whatever is wrong, what was there is there byte for byte, and nothing else.
func TestUpgradeIsRefused(t *testing.T) {
	_, otherSecret, _, err := release.NewKey("")
	if err != nil {
		t.Fatal(err)
	}
	other, err := release.ParseSecretKey("", otherSecret)
	if err != nil {
		t.Fatal(err)
	}
	version := func(v string) func(*rig, *wire.UpgradeBody) {
		return func(_ *rig, b *wire.UpgradeBody) { b.Version = v }
	}
	for _, c := range []struct {
		name      string
		change    func(*rig, *wire.UpgradeBody)
		cfg       func(*rig, *Config)
		is        error
		permanent bool
		say       string
	}{
		{"no version", version("../2.0"), nil, release.ErrVersion, true, `"../2.0"`},
		{"empty", version(""), nil, release.ErrVersion, true, `"" is no version`},
		{"the same", version("1.0"), nil, ErrOlder, true, "runs 1.0, and 1.0 is not newer"},
		{"the same by another name", version("1.00"), nil, ErrOlder, true, "not newer"},
		{"older", version("0.9"), nil, ErrOlder, true, "not newer"},
		{"not there", version("7.0"), nil, release.ErrNotFound, false, "7.0"},
		{"no key", func(_ *rig, b *wire.UpgradeBody) { b.Key = "" }, nil, ErrKey, true, "--provision-release-key"},
		{"a key that is none", func(_ *rig, b *wire.UpgradeBody) { b.Key = "RW" }, nil, release.ErrKey, true, "56 characters"},
		{"another key's signature", func(r *rig, b *wire.UpgradeBody) { b.Key = other.Public().String() }, nil, release.ErrSignature, true, "signature"},
		{"the leader's key is not this machine's", nil, func(_ *rig, c *Config) { c.Key = other.Public().String() }, ErrKey, true, "this machine trusts"},
		{"signed by the leader's key only", func(r *rig, b *wire.UpgradeBody) { b.Key = "" }, func(_ *rig, c *Config) { c.Key = other.Public().String() }, release.ErrSignature, true, "signature"},
		{"no repository", func(_ *rig, b *wire.UpgradeBody) { b.Repository = "releases" }, nil, release.ErrRepository, false, "absolute path"},
		{"changed after it was signed", func(r *rig, _ *wire.UpgradeBody) {
			r.write(filepath.Join(r.repo, "2.0", platformOf(), "pace-node"), strings.Replace(newBytes, "longer", "larger", 1))
		}, nil, release.ErrDigest, false, "digest"},
		{"cut", func(r *rig, _ *wire.UpgradeBody) {
			r.write(filepath.Join(r.repo, "2.0", platformOf(), "pace-node"), newBytes[:10])
		}, nil, release.ErrDigest, false, "less"},
		{"an older one under a newer name", func(r *rig, b *wire.UpgradeBody) {
			if err := os.CopyFS(filepath.Join(r.repo, "3.0"), os.DirFS(filepath.Join(r.repo, "2.0"))); err != nil {
				t.Fatal(err)
			}
			b.Version = "3.0"
		}, nil, release.ErrManifest, true, "manifest of 2.0"},
		{"it does not run", func(r *rig, _ *wire.UpgradeBody) { r.say["--version"] = answer{0, "", errors.New("exec format error")} }, nil, ErrCheck, true, "exec format error"},
		{"it ends", func(r *rig, _ *wire.UpgradeBody) { r.say["--version"] = answer{1, "a\nb", nil} }, nil, ErrCheck, true, `status 1`},
		{"it says another version", func(r *rig, _ *wire.UpgradeBody) { r.say["--version"] = answer{0, "pace-node 1.0 x", nil} }, nil, ErrCheck, true, "over and over"},
		{"it says nothing", func(r *rig, _ *wire.UpgradeBody) { r.say["--version"] = answer{} }, nil, ErrCheck, true, "over and over"},
		{"it refuses a flag", func(r *rig, _ *wire.UpgradeBody) {
			r.say["--check-arguments"] = answer{78, "there is no flag --state-dir", nil}
		}, nil, ErrCheck, true, "no flag --state-dir"},
		{"a package's", nil, func(_ *rig, c *Config) {
			c.Owner = func(context.Context, string) (string, error) { return "dpkg", nil }
		}, ErrPlace, true, "dpkg owns"},
		{"perhaps a package's", nil, func(_ *rig, c *Config) {
			c.Owner = func(context.Context, string) (string, error) { return "", errors.New("locked") }
		}, ErrPlace, true, "locked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			body := r.body()
			if c.change != nil {
				c.change(r, &body)
			}
			u := r.upgrader(func(cfg *Config) {
				if c.cfg != nil {
					c.cfg(r, cfg)
				}
			})
			_, err := u.Upgrade(t.Context(), body)
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, c.is) || e.Permanent() != c.permanent || !strings.Contains(err.Error(), c.say) || !wire.ValidText(err.Error()) {
				t.Errorf("%v (%v)", err, errors.Is(err, c.is))
			}
			if d := cmp.Diff(map[string]string{"pace-node": oldBytes}, r.files()); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestUpgradeGivenUp: until the swap a step that is given up leaves everything as it was.
func TestUpgradeGivenUp(t *testing.T) {
	for _, at := range []string{"--version", "--check-arguments"} {
		r := newRig(t)
		ctx, cancel := context.WithCancel(t.Context())
		u := r.upgrader(func(c *Config) {
			run := c.Run
			c.Run = func(ctx context.Context, program string, args ...string) (int, string, error) {
				if args[0] == at {
					cancel()
				}
				return run(ctx, program, args...)
			}
		})
		if _, err := u.Upgrade(ctx, r.body()); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if d := cmp.Diff(map[string]string{"pace-node": oldBytes}, r.files()); d != "" {
			t.Error(d)
		}
		cancel()
	}
}

// TestOwnWordWins: a repository and a key that were typed on a machine take the leader's place.
func TestOwnWordWins(t *testing.T) {
	r := newRig(t)
	body := wire.UpgradeBody{Version: "2.0", Repository: filepath.Join(t.TempDir(), "nothing")}
	u := r.upgrader(func(c *Config) { c.Repository, c.Key = r.repo, r.key })
	if _, err := u.Upgrade(t.Context(), body); err != nil {
		t.Fatal(err)
	}
}

func TestUpgradable(t *testing.T) {
	r := newRig(t)
	if ok, why := r.upgrader(nil).Upgradable(); !ok || why != "" {
		t.Errorf("%v %q", ok, why)
	}
	asked := 0
	u := r.upgrader(func(c *Config) {
		c.Owner = func(_ context.Context, program string) (string, error) { asked++; return "rpm", nil }
	})
	for range 3 {
		if ok, why := u.Upgradable(); ok || why != "rpm owns "+r.program+": upgrade the package" {
			t.Errorf("%v %q", ok, why)
		}
	}
	if asked != 1 {
		t.Errorf("the package manager was asked %d times", asked)
	}
	gone := r.upgrader(func(c *Config) { c.Program = filepath.Join(r.dir, "not", "there") })
	if ok, why := gone.Upgradable(); ok || !strings.Contains(why, "may not write to") {
		t.Errorf("%v %q", ok, why)
	}
	if len(r.files()) != 1 {
		t.Errorf("%v", r.files())
	}
}
