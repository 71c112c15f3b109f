package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

const (
	restoringDir  = "restoring" // what a restore has made ready and puts in place
	restoringMark = ".new"      // behind it while it is not whole
)

// RestorePoints names the places of a restore where a crash must leave a directory that the next start can use. Up to "commit.renamed" the old identity stays as it is; from there on the
// next start finishes the restore.
var RestorePoints = concat(
	[]string{"statedir.restore.begin.before"},
	prefixed("statedir.restore.key.", WriteSteps), prefixed("statedir.restore.record.", WriteSteps),
	[]string{
		"statedir.restore.built.before", "statedir.restore.built.after",
		"statedir.restore.commit.before", "statedir.restore.commit.renamed", "statedir.restore.commit.after",
		"statedir.restore.place.before", "statedir.restore.place.moved", "statedir.restore.place.after",
		"statedir.restore.done.before", "statedir.restore.done.after",
	},
)

// restored are what a restore puts in place, in this order: the record last, which makes it a node.
var restored = []string{RecoveredDir, KeyFile, RecordFile}

// ErrEstablished: a restore onto a machine that is in a fleet.
var ErrEstablished = errors.New("this machine is in a fleet")

// Restore puts a backup in the place of this machine's identity, which is archived. build makes the recovered store in the
// folder that it is given, which does not exist yet; the record says that it begins the next recovery epoch. A machine that
// is in an established fleet is refused (ErrEstablished), and so is one that runs (ErrInUse) or does not read. It tells
// where the old identity is now, "" where there was none.
func Restore(path string, opt Options, b *Backup, hardware string, build func(dir string) error) (archivedTo string, err error) {
	if err := Restorable(b.Record); err != nil {
		return "", err
	}
	d, err := open(path, opt, kindSecret)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	old, _, err := read(d.path)
	var missing *missingError
	switch {
	case errors.As(err, &missing) && missing.store == "":
	case err != nil:
		return "", err
	case old.Established || old.Mode == "learner" || old.Mode == "voter":
		return "", refuse(ErrEstablished, fmt.Sprintf("this machine is in the fleet %s", old.Cluster),
			"leave it first (pacectl fleet leave), or put its identity away: pace-node --reset-identity; then restore")
	}
	if err := d.makeReady(b, hardware, build); err != nil {
		return "", err
	}
	archivedTo, err = d.finishRestore()
	if err == nil {
		d.accepted = true // the lock's file stays
	}
	return archivedTo, err
}

// makeReady makes everything that is put in place, and then gives it the name that commits the restore.
func (d *Dir) makeReady(b *Backup, hardware string, build func(dir string) error) error {
	ready := d.file(restoringDir)
	fresh := ready + restoringMark
	d.point("statedir.restore.begin.before")
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := makeDir(fresh, d.who); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	r := b.Record
	r.Format, r.Mode, r.Established, r.Hardware = RecordFormat, "voter", true, hardware
	r.Target, r.Leaving, r.PutAway = nil, false, false
	r.Recovery = &Recovery{Epoch: b.Epoch + 1, From: FromBackup}
	record, err := encodeRecord(&r)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(fresh, KeyFile), encodeKey(b.Seed), keyMode, d.who, under(d.point, "statedir.restore.key.")); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(fresh, RecordFile), record, recordMode, d.who, under(d.point, "statedir.restore.record.")); err != nil {
		return err
	}
	d.point("statedir.restore.built.before")
	store := filepath.Join(fresh, RecoveredDir)
	if err := build(store); err != nil {
		return err
	}
	if err := giveAll(store, d.who); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := syncDir(fresh); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	d.point("statedir.restore.built.after")
	d.point("statedir.restore.commit.before")
	if err := os.Rename(fresh, ready); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	d.point("statedir.restore.commit.renamed")
	if err := syncDir(d.path); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	d.point("statedir.restore.commit.after")
	return nil
}

// finishRestore archives the identity that was here and puts the restored one in its place. Called again after a crash it
// goes on where that came: what is no longer among what was made ready is in place already.
func (d *Dir) finishRestore() (archivedTo string, err error) {
	ready := d.file(restoringDir)
	if _, err := os.Lstat(ready); errors.Is(err, fs.ErrNotExist) {
		if err := os.RemoveAll(ready + restoringMark); err != nil { // it holds a key
			return "", fmt.Errorf("restore: %w", err)
		}
		return "", nil
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		if slices.Contains(keptByReset, name) || name == restoringDir || name == restoringDir+restoringMark {
			continue
		}
		if slices.Contains(restored, name) {
			if _, err := os.Lstat(filepath.Join(ready, name)); errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		names = append(names, name)
	}
	if archivedTo, err = d.archive(identityKind, identityStart+d.nameForReset(), names); err != nil {
		return "", err
	}
	d.point("statedir.restore.place.before")
	for _, name := range restored {
		if err := os.Rename(filepath.Join(ready, name), d.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("restore: %w", err)
		}
		d.point("statedir.restore.place.moved")
	}
	for _, dir := range []string{ready, d.path} {
		if err := syncDir(dir); err != nil {
			return "", fmt.Errorf("restore: %w", err)
		}
	}
	d.point("statedir.restore.place.after")
	d.point("statedir.restore.done.before")
	if err := os.RemoveAll(ready); err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	if err := syncDir(d.path); err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	d.point("statedir.restore.done.after")
	return archivedTo, nil
}

// giveAll gives a folder that was made here, and what is in it, to the account that root writes for.
func giveAll(path string, who *owner) error {
	return filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err != nil || who == nil {
			return err
		}
		return os.Lchown(path, who.uid, who.gid)
	})
}
