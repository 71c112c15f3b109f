package machine

import (
	"context"
	"os"

	"pace-node/internal/config"
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
	return upgrade.New(upgrade.Config{
		Args: os.Args[1:], Words: words, Version: version.Version, Guard: guard, Point: m.Point,
		Repository: m.Config.Provision.Repository, Key: m.Config.Provision.ReleaseKey,
		Owner: func(ctx context.Context, program string) (string, error) {
			return upgrade.PackageOwner(ctx, host.Run, program)
		},
	})
}
