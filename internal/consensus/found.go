package consensus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"pace-node/internal/statedir"
)

// Points names the places at which a test build may end the process.
var Points = slices.Concat(
	under("consensus.cluster-file.", statedir.WriteSteps),
	[]string{
		"consensus.store.create.before", "consensus.store.create.after",
		"consensus.store.bootstrap.before", "consensus.store.bootstrap.after",
		"consensus.store.rename.before", "consensus.store.rename.after",
		"consensus.store.dirsync.before", "consensus.store.dirsync.after",
		"consensus.found.before", "consensus.found.after",
		"consensus.commit.before", "consensus.commit.after",
		"consensus.log.before", "consensus.log.after",
		"consensus.term.before", "consensus.term.after",
		"consensus.seats.before", "consensus.seats.after",
	},
)

func under(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}

// newMark ends the name of a store that is not whole yet.
const newMark = ".new"

// makeStore makes the store where there is none. It is made under another name and gets its own when it holds the first
// configuration: a store under its own name was whole once, so one that does not read is damage and is never made anew.
func makeStore(cfg Config, path string) error {
	fresh := path + newMark
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fail := func(err error) error { return fmt.Errorf("found the consensus store in %s: %w", cfg.Dir, err) }
	// What a crash left under that name was never used.
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fail(err)
	}
	cfg.Point("consensus.store.create.before")
	store, err := openBolt(cfg, fresh)
	if err != nil {
		return fail(err)
	}
	cfg.Point("consensus.store.create.after")
	cfg.Point("consensus.store.bootstrap.before")
	id := raft.ServerID(cfg.NodeID)
	conf := raft.DefaultConfig()
	conf.LocalID, conf.Logger = id, hclogOver(cfg.Logger)
	if !cfg.Seat { // a seat's first configuration is its leader's
		first := raft.Configuration{Servers: []raft.Server{{ID: id, Address: raft.ServerAddress(cfg.NodeID)}}}
		err = raft.BootstrapCluster(conf, summing{store}, summing{store}, raft.NewDiscardSnapshotStore(), nil, first)
	}
	if err := errors.Join(err, store.Close()); err != nil {
		return fail(err)
	}
	cfg.Point("consensus.store.bootstrap.after")
	cfg.Point("consensus.store.rename.before")
	if err := os.Rename(fresh, path); err != nil {
		return fail(err)
	}
	cfg.Point("consensus.store.rename.after")
	if cfg.NoSync {
		return nil
	}
	cfg.Point("consensus.store.dirsync.before")
	if err := syncDir(cfg.Dir); err != nil {
		return fail(err)
	}
	cfg.Point("consensus.store.dirsync.after")
	return nil
}

func openBolt(cfg Config, path string) (*raftboltdb.BoltStore, error) {
	return raftboltdb.New(raftboltdb.Options{Path: path, NoSync: cfg.NoSync, BoltOptions: boltOptions()})
}

// claimFolder makes the store's folder and the file that names its fleet, or checks the one that is there.
func claimFolder(cfg Config) error {
	if err := statedir.MakeFolder(cfg.Dir); err != nil {
		return fmt.Errorf("make the consensus store's folder: %w", err)
	}
	path := filepath.Join(cfg.Dir, clusterFile)
	have, err := Owner(cfg.Dir)
	switch {
	case err != nil:
		return err
	case have == cfg.Cluster:
		return nil
	case have != "":
		return fmt.Errorf("%w: %s is fleet %q's, and this machine is in fleet %q; move %s away", ErrOtherCluster, cfg.Dir, have, cfg.Cluster, cfg.Dir)
	}
	if _, err := os.Stat(filepath.Join(cfg.Dir, storeFile)); err == nil {
		return damaged(path, errors.New("it is missing beside a store"))
	}
	if err := nameFolder(cfg, path); err != nil {
		return fmt.Errorf("name the consensus store's fleet: %w", err)
	}
	return nil
}

func nameFolder(cfg Config, path string) error {
	text := []byte(cfg.Cluster + "\n")
	if cfg.NoSync {
		return os.WriteFile(path, text, 0o600)
	}
	if err := statedir.SweepTemp(cfg.Dir); err != nil {
		return err
	}
	return statedir.WriteFileAtomic(path, text, 0o600, func(step string) { cfg.Point("consensus.cluster-file." + step) })
}

// Owner is the cluster id that the store's folder is kept for, or empty where it is not named yet.
func Owner(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, clusterFile))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read which fleet the consensus store is for: %w", err)
	}
	name := string(b)
	if len(name) < 2 || name[len(name)-1] != '\n' {
		return "", damaged(filepath.Join(dir, clusterFile), errors.New("it does not name a fleet"))
	}
	return name[:len(name)-1], nil
}
