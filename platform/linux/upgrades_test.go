package linux

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pace-node/internal/host"
)

func TestUpgradesEnabled(t *testing.T) {
	for _, c := range []struct {
		links map[string]string // path → what it points at
		want  bool
	}{
		{nil, false},
		{map[string]string{"/etc/systemd/system/paths.target.wants/" + upgradePath: "/usr/lib/systemd/system/" + upgradePath}, true},
		{map[string]string{"/etc/systemd/system/multi-user.target.wants/" + upgradePath: "/lib/systemd/system/" + upgradePath}, true},
		{map[string]string{"/run/systemd/system/paths.target.wants/" + upgradePath: "/usr/lib/systemd/system/" + upgradePath}, true},
		{map[string]string{"/etc/systemd/system/paths.target.wants/pace-node-hooks.path": "x"}, false},
		{map[string]string{"/etc/systemd/system/paths.target.wants/" + upgradePath: "x", "/etc/systemd/system/" + upgradePath: "/dev/null"}, false},
	} {
		root := t.TempDir()
		for path, to := range c.links {
			if err := os.MkdirAll(filepath.Dir(root+path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(to, root+path); err != nil {
				t.Fatal(err)
			}
		}
		if got := upgrades(root, nil).Enabled(); got != c.want {
			t.Errorf("%v: %v", c.links, got)
		}
	}
}

func TestLifeOfTheService(t *testing.T) {
	for text, want := range map[string]host.Life{
		"ActiveState=active\nSubState=running\nInvocationID=0a\nResult=success":            {Active: true, Start: "0a"},
		"ActiveState=activating\nSubState=start\nInvocationID=0b\nResult=success":          {Start: "0b"},
		"ActiveState=activating\nSubState=auto-restart\nInvocationID=0b\nResult=exit-code": {Start: "0b"},
		"ActiveState=deactivating\nInvocationID=0b\nResult=success":                        {Start: "0b"},
		"ActiveState=inactive\nInvocationID=\nResult=success":                              {Down: true, Clean: true},
		"ActiveState=failed\nInvocationID=0c\nResult=exit-code":                            {Down: true, Start: "0c"},
		"ActiveState=inactive\nInvocationID=0c\nResult=exit-code":                          {Down: true, Start: "0c"},
		"": {},
	} {
		if got := lifeOf(text); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestSystemctlOfUpgrades(t *testing.T) {
	var asked []string
	code := 0
	u := upgrades("", func(_ context.Context, _, program string, args ...string) (host.Result, error) {
		asked = append(asked, program+" "+strings.Join(args, " "))
		return host.Result{Code: code, Out: "ActiveState=active"}, nil
	})
	if l, err := u.Life(t.Context()); err != nil || !l.Active {
		t.Errorf("%+v, %v", l, err)
	}
	if err := u.Restart(t.Context()); err != nil {
		t.Error(err)
	}
	want := []string{"/usr/bin/systemctl show pace-node.service --property=ActiveState,SubState,InvocationID,Result", "/usr/bin/systemctl --no-block restart pace-node.service"}
	if strings.Join(asked, "; ") != strings.Join(want, "; ") {
		t.Errorf("%q", asked)
	}
	code = 1
	_, err := u.Life(t.Context())
	if err = errors.Join(err, u.Restart(t.Context())); err == nil || strings.Count(err.Error(), "ends with 1") != 2 {
		t.Error(err)
	}
}
