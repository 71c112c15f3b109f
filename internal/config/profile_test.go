package config

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestProfileOptions(t *testing.T) {
	got := ProfileOptions()
	for _, name := range []string{"provision-interval", "provision-workers", "provision-queue", "provision-helper", "provision-helper-timeout", "provision-default", "provision-component"} {
		if !slices.Contains(got, name) {
			t.Errorf("%s cannot be set for every voter", name)
		}
	}
	for _, name := range []string{"provision-mode", "state-dir", "log-level"} {
		if slices.Contains(got, name) {
			t.Errorf("%s can be set for every voter", name)
		}
	}
}

func TestCheckProfile(t *testing.T) {
	for _, c := range []struct {
		name, value string
		says        string // "": accepted
	}{
		{"provision-helper", "/opt/helper --site 'a b'", ""},
		{"provision-interval", "90s", ""},
		{"provision-pki", "true", ""},
		{"provision-pki", "maybe", "provision-pki"},
		{"provision-deny", "*.lan", ""},
		{"provision-default", `{"configuration":{"role":"web"}}`, ""},
		{"provision-default", `{"configuration"`, "not one JSON"},
		{"provision-workers", "8", ""},
		{"provision-interval", "59s", "provision-interval"},
		{"provision-workers", "0", "provision-workers"},
		{"provision-helper", `"open`, "not closed"},
		{"provision-helper", "", "provision-helper"},
		{"provision-component", "a.b", "provision-component"},
		{"provision-mode", "always", "each machine's own"},
		{"provision-wrokers", "4", "provision-workers"}, // the remedy
		{"log-level", "debug", "no such option"},
	} {
		err := CheckProfile(map[string]string{c.name: c.value})
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s=%q: %v, want %q", c.name, c.value, err, c.says)
		}
		var refused *RefusedError
		if err != nil && (!errors.As(err, &refused) || refused.Way() == "" || refused.Where != ProfileName) {
			t.Errorf("%s=%q: %#v", c.name, c.value, err)
		}
	}
}

// TestProfileNeedsASourceOfReleases: upgrades without a repository and a key are refused when they are set. A voter that
// finds them all the same leaves upgrades off, and follows the rest.
func TestProfileNeedsASourceOfReleases(t *testing.T) {
	whole := map[string]string{"provision-upgrades": "required", "provision-repository": "/srv/releases", "provision-release-key": releaseKey, "provision-helper": "/fleet"}
	if err := CheckProfile(whole); err != nil {
		t.Fatal(err)
	}
	for _, less := range []string{"provision-repository", "provision-release-key"} {
		profile := maps.Clone(whole)
		delete(profile, less)
		var refused *RefusedError
		if err := CheckProfile(profile); !errors.As(err, &refused) || refused.Key != "provision-upgrades" || !strings.Contains(refused.Way(), less) {
			t.Errorf("without %s: %v", less, err)
		}
		c, _, err := Parse(nil, func(string) (string, bool) { return "", false }, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, faults := c.WithProfile(profile)
		if got.Upgrades != "off" || got.Helper != "/fleet" || len(faults) != 1 || !strings.Contains(faults[0].Error(), "provision-upgrades") {
			t.Errorf("without %s: %+v, %v", less, got, faults)
		}
	}
	profile := maps.Clone(whole)
	profile["provision-upgrades"] = "off"
	delete(profile, "provision-repository")
	if err := CheckProfile(profile); err != nil {
		t.Error(err)
	}
}

// TestProfilePrecedence: what a machine was given itself stands before the profile, and the profile before the defaults.
func TestProfilePrecedence(t *testing.T) {
	profile := map[string]string{"provision-workers": "7", "provision-helper": "/fleet", "provision-interval": "2m", "provision-later": "x"}
	env := func(name string) (string, bool) { return "5m", name == "PACE_PROVISION_INTERVAL" }
	c, _, err := Parse([]string{"--provision-helper=/own"}, env, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := c.Provision
	got, faults := c.WithProfile(profile)
	if got.Workers != 7 || got.Helper != "/own" || got.Interval != 5*time.Minute || got.HelperTimeout != 10*time.Second || got.Mode != "auto" {
		t.Errorf("%+v", got)
	}
	if len(faults) != 1 || !strings.Contains(faults[0].Error(), "provision-later") {
		t.Errorf("faults %v", faults)
	}
	// It goes without a trace when the setting goes.
	if again, _ := c.WithProfile(nil); again.Workers != before.Workers || c.Provision.Workers != before.Workers || !maps.Equal(profile, map[string]string{"provision-workers": "7", "provision-helper": "/fleet", "provision-interval": "2m", "provision-later": "x"}) {
		t.Errorf("%+v, was %+v", again, before)
	}
}
