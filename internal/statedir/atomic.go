package statedir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// WriteSteps are the names that WriteFileAtomic calls point with, in order.
var WriteSteps = []string{
	"write.before", "write.after", "sync.before", "sync.after",
	"rename.before", "rename.after", "dirsync.before", "dirsync.after",
}

// Points names every place where a crash must leave a directory that the next start can use.
var Points = concat(
	[]string{"statedir.create.before", "statedir.create.made", "statedir.create.after"},
	prefixed("statedir.key.", WriteSteps),
	prefixed("statedir.record.", WriteSteps),
	[]string{"statedir.archive.begin.before"},
	prefixed("statedir.archive.intent.", WriteSteps),
	[]string{
		"statedir.archive.move.before", "statedir.archive.move.after",
		"statedir.archive.sync.before", "statedir.archive.sync.after",
		"statedir.archive.name.before", "statedir.archive.name.renamed", "statedir.archive.name.after",
		"statedir.archive.prune.before", "statedir.archive.prune.renamed", "statedir.archive.prune.after",
	},
)

func concat(lists ...[]string) (all []string) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}

// under makes point's names begin with prefix.
func under(point func(string), prefix string) func(string) {
	return func(name string) { point(prefix + name) }
}

func quiet(string) {}

// tempMark is inside the name of every file that is not whole yet.
const tempMark = ".tmp-"

// owner is the account that new files are given; nil keeps the process's own.
type owner struct {
	uid, gid int
	alone    bool // what belongs to this process's own account is refused: the service runs as that one
}

// WriteFileAtomic puts data at path so that a reader, and a start after a power cut, finds the old bytes or the new
// ones and never a part: temporary file in the same folder, fsync, rename, fsync of the folder. The file's mode is
// exactly mode, whatever the umask. point (may be nil) is called around each step with the names of WriteSteps. On an
// error the old bytes are still there and the temporary file is gone, except that after a failed "dirsync" the new
// bytes are in place and may not survive a power cut.
func WriteFileAtomic(path string, data []byte, mode fs.FileMode, point func(string)) error {
	return writeFile(path, data, mode, nil, point)
}

func writeFile(path string, data []byte, mode fs.FileMode, who *owner, point func(string)) (err error) {
	if point == nil {
		point = quiet
	}
	var mark [8]byte
	rand.Read(mark[:])
	dir := filepath.Dir(path)
	temp := filepath.Join(dir, "."+filepath.Base(path)+tempMark+hex.EncodeToString(mark[:]))
	point("write.before")
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm()&0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(temp)
		}
	}()
	if _, err = f.Write(data); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err = give(f, mode, who); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	point("write.after")
	point("sync.before")
	if err = f.Sync(); err != nil {
		return fmt.Errorf("write %s: fsync: %w", path, err)
	}
	point("sync.after")
	if err = f.Close(); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	point("rename.before")
	if err = replace(temp, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	point("rename.after")
	point("dirsync.before")
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("write %s: fsync of the folder: %w", path, err)
	}
	point("dirsync.after")
	return nil
}

// MakeFolder makes a folder that only this account may enter, and makes its name durable; one that is there is no error.
func MakeFolder(path string) error {
	err := makeDir(path, nil)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// SweepTemp removes what an interrupted WriteFileAtomic left in dir. Only the folder's one writer may call it.
func SweepTemp(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var all []error
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), ".") && strings.Contains(e.Name(), tempMark) {
			all = append(all, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(all...)
}

// SyncFolder makes what was renamed or made in a folder durable.
func SyncFolder(path string) error { return syncDir(path) }
