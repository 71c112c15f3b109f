//go:build unix

package upgrade

import (
	"io"
	"io/fs"
	"os"
	"syscall"
)

// keep gives the program a second name, so that its own is never without one. Where the file system has no links it is
// copied.
func (p place) keep() error {
	if os.Link(p.program, p.previous) == nil {
		return nil
	}
	in, err := os.Open(p.program)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(p.previous, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err == nil {
		err = like(out, info)
	}
	if err == nil {
		err = out.Sync()
	}
	if failed := out.Close(); err == nil {
		err = failed
	}
	if err != nil {
		os.Remove(p.previous)
	}
	return err
}

// unkeep undoes keep after a swap that failed: the program has its name still.
func (p place) unkeep() error { return remove(p.previous) }

// moveAway makes way for another program: here a rename does.
func (p place) moveAway() error { return nil }

// like gives a file the mode and the owner of another.
func like(f *os.File, info fs.FileInfo) error {
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	have, _ := mine.Sys().(*syscall.Stat_t)
	if st, ok := info.Sys().(*syscall.Stat_t); ok && have != nil && os.Geteuid() == 0 && (st.Uid != have.Uid || st.Gid != have.Gid) {
		if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return f.Chmod(info.Mode().Perm())
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
