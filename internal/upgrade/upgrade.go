package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"pace-node/internal/release"
	"pace-node/internal/target"
	"pace-node/internal/wire"
)

// Config is what an Upgrader is made with.
type Config struct {
	Program    string                                                    // whole path of this process' program; "": the system's word
	Args       []string                                                  // that this process was started with, its name left out
	Words      []string                                                  // settings beside them, each PACE_NAME=value
	Version    string                                                    // that runs
	Repository string                                                    // typed on this machine; "": the leader's
	Key        string                                                    // release key typed on this machine; "": the leader's
	Owner      func(ctx context.Context, program string) (string, error) // who owns the program's file, "" for nobody; nil: nobody
	Root       *Handover                                                 // root's way where this process may not; nil: there is none
	Guard      *Guard                                                    // of this process; nil: none watches
	Run        func(ctx context.Context, program string, args ...string) (code int, said string, err error)
	Point      func(string) // crash points of a test build; nil: none
}

// Upgrader replaces the program of this process. Its methods may be called from several goroutines; one upgrade runs at a
// time, which whoever calls Upgrade sees to.
type Upgrader struct {
	cfg   Config
	place place
	owner func() (string, error)
}

// New makes an Upgrader. It touches nothing.
func New(cfg Config) (*Upgrader, error) {
	if cfg.Program == "" {
		path, err := program()
		if err != nil {
			return nil, err
		}
		cfg.Program = path
	}
	u := &Upgrader{cfg: cfg, place: placeOf(cfg.Program, cfg.Point)}
	// A process' file changes hands only with the process: a package restarts the service.
	u.owner = sync.OnceValues(func() (string, error) {
		if cfg.Owner == nil {
			return "", nil
		}
		return cfg.Owner(context.Background(), cfg.Program)
	})
	return u, nil
}

// Upgradable says whether the program of this process can be replaced, by itself or by root, and why not. The package manager
// is asked once; the folder is tried each time.
func (u *Upgrader) Upgradable() (bool, string) {
	alone, why := u.alone()
	if alone {
		return true, ""
	}
	return u.byRoot(why)
}

// alone says whether this process can do it by itself, and why not.
func (u *Upgrader) alone() (bool, string) {
	owner, err := u.owner()
	switch {
	case err != nil:
		return false, fmt.Sprintf("whether a package owns %s cannot be found out: %v", u.cfg.Program, err)
	case owner != "":
		return false, fmt.Sprintf("%s owns %s: upgrade the package", owner, u.cfg.Program)
	}
	if err := u.place.writable(); err != nil {
		return false, err.Error()
	}
	return true, ""
}

// RolledBack tells of the last upgrade, where it was rolled back and this is the old program again.
func (u *Upgrader) RolledBack() (target.RolledBack, bool) {
	in, ok := u.past()
	if !ok {
		return target.RolledBack{}, false
	}
	return target.RolledBack{Version: in.To, Why: in.Why, At: time.Unix(in.At, 0)}, true
}

// Upgrade puts the version that is asked for in the place of this process' program, which goes on running until whoever
// called ends it. A ctx that ends before the swap leaves everything as it was; after that it completes. Errors are *Error.
func (u *Upgrader) Upgrade(ctx context.Context, body wire.UpgradeBody) (wire.UpgradeAnswer, error) {
	alone, why := u.alone()
	if !alone {
		if ok, why := u.byRoot(why); !ok {
			return wire.UpgradeAnswer{}, &Error{ErrPlace, why, true}
		}
	}
	if !release.ValidVersion(body.Version) {
		return wire.UpgradeAnswer{}, &Error{release.ErrVersion, fmt.Sprintf("%q is no version", wire.Printable(body.Version)), true}
	}
	if release.Compare(body.Version, u.cfg.Version) <= 0 {
		return wire.UpgradeAnswer{}, &Error{ErrOlder, fmt.Sprintf("this machine runs %s, and %s is not newer", u.cfg.Version, body.Version), true}
	}
	key, err := chooseKey(u.cfg.Key, body.Key)
	if err != nil {
		return wire.UpgradeAnswer{}, err
	}
	address := u.cfg.Repository
	if address == "" {
		address = body.Repository
	}
	repository, err := release.ParseRepository(address)
	if err != nil {
		return wire.UpgradeAnswer{}, fetchError(err)
	}
	defer repository.Close()
	if err := u.fresh(ctx, repository, key, body); err != nil {
		return wire.UpgradeAnswer{}, err
	}
	if !alone {
		if err := u.handOver(ctx, repository, key, body.Version); err != nil {
			return wire.UpgradeAnswer{}, err
		}
		return wire.UpgradeAnswer{Version: body.Version}, nil
	}
	file, err := u.fetch(ctx, repository, key, body)
	if err != nil {
		return wire.UpgradeAnswer{}, err
	}
	if err := u.finish(ctx, file, body.Version); err != nil {
		return wire.UpgradeAnswer{}, errors.Join(err, remove(u.place.staged))
	}
	return wire.UpgradeAnswer{Version: body.Version}, nil
}

// chooseKey is the release key that is trusted: the machine's own where it has one, and then no other.
func chooseKey(own, leaders string) (release.PublicKey, error) {
	text := own
	if text == "" {
		text = leaders
	}
	if text == "" {
		return release.PublicKey{}, &Error{ErrKey, "neither this machine nor its fleet's leader has a release key: give --provision-release-key", true}
	}
	key, err := release.ParsePublicKey(text)
	if err != nil {
		return release.PublicKey{}, &Error{err, wire.Printable(err.Error()), true}
	}
	if own == "" || leaders == "" {
		return key, nil
	}
	other, err := release.ParsePublicKey(leaders)
	if err != nil {
		return release.PublicKey{}, &Error{err, wire.Printable(err.Error()), true}
	}
	if !key.Equal(other) {
		return release.PublicKey{}, &Error{ErrKey, "the leader names the release key " + other.String() + ", and this machine trusts " + key.String() +
			" only: correct --provision-release-key on one of them", true}
	}
	return key, nil
}

// fresh refuses a program that was rolled back here before, by its digest, unless a person asked.
func (u *Upgrader) fresh(ctx context.Context, repository *release.Repository, key release.PublicKey, body wire.UpgradeBody) error {
	m, err := repository.Manifest(ctx, key, body.Version)
	if err != nil {
		return fetchError(err)
	}
	f, ok := m.File(platformOf())
	if !ok {
		return fetchError(fmt.Errorf("%w: version %s for %s in %s", release.ErrNotFound, body.Version, platformOf(), repository))
	}
	if in, ok := u.past(); ok && in.New == f.SHA256 && !body.Again {
		return &Error{ErrRolledBack, fmt.Sprintf("the upgrade to %s was rolled back here at %s: %s; release it mended under a newer version, or have this one tried again: pacectl queue retry",
			in.To, time.Unix(in.At, 0).UTC().Format(time.RFC3339), wire.Printable(in.Why)), true}
	}
	return nil
}

// fetch writes the new program beside the old one.
func (u *Upgrader) fetch(ctx context.Context, repository *release.Repository, key release.PublicKey, body wire.UpgradeBody) (f release.File, err error) {
	err = u.place.at("stage", func() error {
		return u.place.stage(func(w io.Writer) (err error) {
			f, err = repository.Fetch(ctx, key, body.Version, platformOf(), w)
			return err
		})
	})
	if err != nil {
		return release.File{}, fetchError(err)
	}
	return f, nil
}

// transientFaults are those of a repository that may be mended a moment later: one that is being copied, or a server's.
var transientFaults = []error{release.ErrNotFound, release.ErrDigest, release.ErrRepository}

// permanentFaults are those that stay until a person mends them.
var permanentFaults = []error{release.ErrSignature, release.ErrManifest, release.ErrVersion, release.ErrKey}

func fetchError(err error) error {
	permanent := false
	for _, f := range permanentFaults {
		permanent = permanent || errors.Is(err, f)
	}
	for _, f := range transientFaults {
		permanent = permanent && !errors.Is(err, f)
	}
	return &Error{err, wire.Printable(err.Error()), permanent}
}

// finish checks the staged program, and swaps it in.
func (u *Upgrader) finish(ctx context.Context, file release.File, version string) error {
	if err := u.check(ctx, version); err != nil {
		return err
	}
	old, err := digestOf(u.cfg.Program)
	if err != nil {
		return u.storage(err)
	}
	if err := context.Cause(ctx); err != nil { // the boundary: from here the upgrade completes
		return &Error{err, "the upgrade was given up by whoever asked for it; nothing was changed here", false}
	}
	u.cfg.Guard.Settle() // this process serves, or it could not have been asked
	in := Intent{Phase: PhaseSwapped, From: u.cfg.Version, To: version, Old: old, New: file.SHA256, Args: digestArgs(u.cfg.Args), At: time.Now().Unix()}
	if err := u.place.write(in, "intent"); err != nil {
		return u.storage(errors.Join(err, remove(u.place.intent)))
	}
	if err := u.place.swap(); err != nil {
		if now, failed := digestOf(u.cfg.Program); failed != nil || now != old {
			return u.storage(fmt.Errorf("%w; the program in place is not the one that runs, and the next start settles it", err))
		}
		return u.storage(errors.Join(err, remove(u.place.intent)))
	}
	return nil
}

// storage is an error of this machine's disk.
func (u *Upgrader) storage(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return &Error{ErrPlace, wire.Printable(err.Error()), true}
	}
	return &Error{err, "the new program cannot be put in place: " + wire.Printable(err.Error()) + "; make room on that disk, or look at it", false}
}

// Program is the path of the program that is replaced.
func (u *Upgrader) Program() string { return u.cfg.Program }
