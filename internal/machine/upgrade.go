package machine

import (
	"context"
	"os"
	"path/filepath"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/host"
	"pace-node/internal/target"
	"pace-node/internal/upgrade"
	"pace-node/internal/version"
)

// Upgrader replaces the program of this process, which guard watches, at the word of the fleet's leader.
func (m *Machine) Upgrader(guard *upgrade.Guard) (target.Upgrader, error) {
	words, err := config.Words(os.LookupEnv, m.host.StoredSettings)
	if err != nil {
		return nil, err
	}
	var root *upgrade.Handover
	if way, ok := m.upgrades(); ok && m.Packaged {
		root = &upgrade.Handover{Spool: m.spool(), Notes: way.Notes, Enabled: way.Enabled, Enable: way.Enable}
	}
	return upgrade.New(upgrade.Config{
		Root: root,
		Args: os.Args[1:], Words: words, Version: version.Version, Guard: guard, Point: m.Point,
		Repository: m.Config.Provision.Repository, Key: m.Config.Provision.ReleaseKey,
		Owner: func(ctx context.Context, program string) (string, error) {
			return upgrade.PackageOwner(ctx, host.Run, program)
		},
	})
}

// upgrades is root's way to replace the program of a service that may not, if the platform has one.
func (m *Machine) upgrades() (host.Upgrades, bool) {
	if h, ok := m.host.(interface{ Upgrades() host.Upgrades }); ok {
		return h.Upgrades(), true
	}
	return host.Upgrades{}, false
}

// spool is where the service stages a release for root.
func (m *Machine) spool() string { return filepath.Join(m.Config.StateDir, "upgrade") }

// applyUpgrade is root's half of an upgrade.
func (m *Machine) applyUpgrade(ctx context.Context) (control.Done, error) {
	way, ok := m.upgrades()
	if !ok {
		return control.Done{}, &told{nil, "on this system the service replaces its program itself", "upgrade it through its fleet"}
	}
	if os.Geteuid() != 0 {
		return control.Done{}, &told{nil, "only root replaces the program of the service", "let its unit run this: " + way.Enable}
	}
	words, err := config.Words(os.LookupEnv, m.host.StoredSettings)
	if err != nil {
		return control.Done{}, err
	}
	r := upgrade.Root{Version: version.Version, Key: m.Config.Provision.ReleaseKey, Words: words, Spool: m.spool(), Notes: way.Notes, Life: way.Life, Restart: way.Restart}
	said, err := r.Apply(ctx)
	return control.Done{Said: said}, err
}
