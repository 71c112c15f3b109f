//go:build !windows

package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func replace(from, to string) error { return os.Rename(from, to) }

// give sets the exact mode, and the owner where root writes for a service account.
func give(f *os.File, mode fs.FileMode, who *owner) error {
	if who != nil {
		if err := f.Chown(who.uid, who.gid); err != nil {
			return err
		}
	}
	return f.Chmod(mode)
}

// makeDir makes one folder that is never more open than dirMode, and then exactly that.
func makeDir(path string, who *owner) error {
	if err := os.Mkdir(path, dirMode); err != nil {
		return err
	}
	if who != nil {
		if err := os.Lchown(path, who.uid, who.gid); err != nil {
			return err
		}
	}
	return os.Chmod(path, dirMode)
}

// makeParent makes a folder above the state directory.
func makeParent(path string) error {
	if err := os.Mkdir(path, parentMode); err != nil {
		return err
	}
	return os.Chmod(path, parentMode)
}

// judge reads a path's protection without following a link.
func judge(path string, want kind, who *owner) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: the file system tells no owner", path)
	}
	accepted := []int{os.Geteuid()}
	switch {
	case who != nil && who.alone:
		accepted = []int{who.uid}
	case who != nil:
		accepted = append(accepted, who.uid)
	}
	return judgePOSIX(path, want, posixFacts{mode: info.Mode(), uid: int(st.Uid), accepted: accepted})
}

// openLock opens the lock's file without following a link and takes the lock, which ends with the process.
func openLock(path string) (f *os.File, created bool, err error) {
	for {
		flags := os.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK
		f, err = os.OpenFile(path, flags, 0)
		created = false
		if errors.Is(err, fs.ErrNotExist) {
			f, err = os.OpenFile(path, flags|os.O_CREATE|os.O_EXCL, lockMode)
			created = err == nil
			if errors.Is(err, fs.ErrExist) {
				continue // somebody made it in between
			}
		}
		if err != nil {
			return nil, false, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, false, ErrInUse
			}
			return nil, false, fmt.Errorf("lock %s: %w", path, err)
		}
		// Whoever held it may have removed the file that we opened: a lock on that one keeps nobody out.
		mine, err1 := f.Stat()
		there, err2 := os.Lstat(path)
		if err1 == nil && err2 == nil && os.SameFile(mine, there) {
			return f, created, nil
		}
		f.Close()
	}
}

func removeLock(path string) { os.Remove(path) }
