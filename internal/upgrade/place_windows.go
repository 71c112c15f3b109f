package upgrade

import (
	"errors"
	"io/fs"
	"os"
)

// keep renames the program: one that runs can be renamed here, and neither written nor removed. Until the new one has the
// name, nobody does; a power cut in that moment leaves it as the file that ends in .previous.exe.
func (p place) keep() error { return os.Rename(p.program, p.previous) }

// unkeep undoes keep after a swap that failed.
func (p place) unkeep() error { return os.Rename(p.previous, p.program) }

// moveAway makes way for another program; the one that runs is removed by the next upgrade.
func (p place) moveAway() error {
	if _, err := os.Lstat(p.program); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := remove(p.failed); err != nil {
		return err
	}
	return os.Rename(p.program, p.failed)
}

// like: a file has its folder's access list here.
func like(*os.File, fs.FileInfo) error { return nil }

// syncFolder: a rename is durable by the file system's own journal here.
func syncFolder(string) error { return nil }
