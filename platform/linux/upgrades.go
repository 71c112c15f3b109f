package linux

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"pace-node/internal/host"
)

const (
	upgradeNotes = "/var/lib/pace-node-upgrade" // StateDirectory= of pace-node-upgrade.service
	upgradePath  = "pace-node-upgrade.path"     // shipped disabled
	systemctl    = "/usr/bin/systemctl"
)

// wantsDirs are where systemctl enable puts a unit's link, for good and until the next boot.
var wantsDirs = []string{"/etc/systemd/system", "/run/systemd/system"}

// upgrades is root's way to replace the packages' program, on the machine whose root folder is given.
func upgrades(root string, run host.Runner) host.Upgrades {
	return host.Upgrades{
		Notes: upgradeNotes, Enable: "systemctl enable --now " + upgradePath,
		Enabled: func() bool { return enabled(root, upgradePath) },
		Life: func(ctx context.Context) (host.Life, error) {
			r, err := run(ctx, "", systemctl, "show", unitName, "--property=ActiveState,SubState,InvocationID,Result")
			if err == nil && r.Code != 0 {
				err = fmt.Errorf("systemctl show ends with %d: %s", r.Code, r.Out)
			}
			return lifeOf(r.Out), err
		},
		Restart: func(ctx context.Context) error {
			r, err := run(ctx, "", systemctl, "--no-block", "restart", unitName)
			if err == nil && r.Code != 0 {
				err = fmt.Errorf("systemctl restart ends with %d: %s", r.Code, r.Out)
			}
			return err
		},
	}
}

// enabled reports whether a unit is wanted by another, without asking systemd: the sandboxed service may not.
func enabled(root, unit string) bool {
	for _, dir := range wantsDirs {
		if to, err := os.Readlink(root + filepath.Join(dir, unit)); err == nil && to == "/dev/null" {
			return false // masked
		}
	}
	for _, dir := range wantsDirs {
		if links, _ := filepath.Glob(root + filepath.Join(dir, "*.wants", unit)); len(links) > 0 {
			return true
		}
	}
	return false
}

// lifeOf reads what systemctl show prints.
func lifeOf(text string) host.Life {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	state := values["ActiveState"]
	return host.Life{
		Active: state == "active",
		Down:   state == "inactive" || state == "failed", // what waits for its next start is activating
		Clean:  state == "inactive" && values["Result"] == "success",
		Start:  values["InvocationID"],
	}
}
