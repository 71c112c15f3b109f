package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Room is how much may be written to the file system of a state directory.
type Room struct{ Free, Size uint64 } // bytes; Size is 0 where the system does not tell

// nearlyFull is when a state directory's file system has little left: 64 MiB hold a fleet's log and a configuration or two,
// and on a small one a tenth is little. Full again means once half as much more is free.
const nearlyFull = 64 << 20 // bytes

// Low reports whether there is little room. was is what it said before: what was low stays so until there is half as much
// more, so that a file that comes and goes changes nothing.
func (r Room) Low(was bool) bool {
	least := min(uint64(nearlyFull), r.Size/10)
	if was {
		least += least / 2
	}
	return r.Size > 0 && r.Free < least
}

// Room asks the system.
func (d *Dir) Room() (Room, error) { return roomOf(d.path) }

// Lost says why the directory is no longer what this process opened: removed, renamed, or with another in its place; nil
// while it is. What a running process keeps in it then is lost, and its lock keeps nobody out.
func (d *Dir) Lost() error {
	d.mu.Lock()
	lock, accepted := d.lock, d.accepted
	d.mu.Unlock()
	if lock == nil {
		return nil
	}
	if _, err := os.Lstat(d.path); err != nil {
		return gone(d.path, err)
	}
	mine, err := lock.Stat()
	if err != nil {
		return fmt.Errorf("the lock of %s: %w", d.path, err)
	}
	there, err := os.Lstat(d.file(LockFile))
	if err != nil {
		return gone(d.file(LockFile), err)
	}
	if !os.SameFile(mine, there) {
		return fmt.Errorf("%s is another directory than the one that this process opened", d.path)
	}
	for _, name := range []string{KeyFile, RecordFile} {
		if _, err := os.Lstat(d.file(name)); accepted && err != nil {
			return gone(d.file(name), err)
		}
	}
	return nil
}

func gone(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s was removed", path)
	}
	return err
}

// Explain gives an error of the disk that holds the state directory the remedy that mends it, and leaves every other one as
// it is.
func Explain(err error, path string) error {
	switch {
	case err == nil:
		return nil
	case isFull(err):
		return &refusal{kind: err, what: err.Error(), remedy: "nothing that was there is lost: make room on that disk (df -h " + shellQuote(path) + "), then start again"}
	case isReadOnly(err):
		return &refusal{kind: err, what: err.Error(), remedy: "nothing was changed: mount that file system to be written, or give --state-dir another one"}
	}
	return err
}
