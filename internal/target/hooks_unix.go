//go:build !windows

package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// hookCommand is how a file is run, false where it is no program.
func hookCommand(path string, info fs.FileInfo) ([]string, bool) {
	return []string{path}, info.Mode().Perm()&0o111 != 0
}

// judgeHooks says why hooks must not run: the folder, or what is in it, could be changed by somebody who is neither root
// nor, where an ordinary user runs this, that user.
func judgeHooks(dir string, hooks []hook) string {
	accepted := []int{0}
	if self := os.Geteuid(); self != 0 {
		accepted = append(accepted, self)
	}
	for _, h := range hooks {
		// What is run is where the links lead.
		path, err := filepath.EvalSymlinks(h.argv[0])
		if err != nil {
			return fmt.Sprintf("the hook %s cannot be looked at: %s", shown(h.name), plain(err))
		}
		for _, p := range []string{path, filepath.Join(dir, h.name)} {
			if why := judgeHook(p, accepted); why != "" {
				return fmt.Sprintf("the hook %s is refused: %s; make it root's alone: chown root:root and chmod go-w, then try again", shown(h.name), why)
			}
		}
	}
	return ""
}

// judgeHook looks at a program and every folder above it.
func judgeHook(path string, accepted []int) string {
	var facts []hookFacts
	for p, top := path, false; !top; p = filepath.Dir(p) {
		info, err := os.Lstat(p)
		if err != nil {
			return plain(err)
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return "the file system tells no owner of " + shown(p)
		}
		facts = append(facts, hookFacts{path: p, uid: int(st.Uid), mode: info.Mode(), folder: p != path, hooksDir: len(facts) == 1})
		top = p == filepath.Dir(p)
	}
	return judgeHookFacts(facts, accepted)
}

// hookFacts is what one lstat tells.
type hookFacts struct {
	path     string
	uid      int
	mode     fs.FileMode
	folder   bool // above the hook
	hooksDir bool // the one that it is in
}

// hookCheck is one row of why somebody else could put another program there.
type hookCheck struct {
	Name string
	Bad  func(f hookFacts, accepted []int) bool
	Say  string // of the path
}

// hookChecks is asked in order, of the hook first and then of the folders above it.
var hookChecks = []hookCheck{
	{"owner", func(f hookFacts, accepted []int) bool { return !slices.Contains(accepted, f.uid) }, "%s is not root's"},
	// A link has no mode of its own: what it leads to is looked at as well.
	{"writable", func(f hookFacts, _ []int) bool {
		return (!f.folder || f.hooksDir) && f.mode&fs.ModeSymlink == 0 && f.mode.Perm()&0o022 != 0
	}, "%s can be written by others than root"},
	// In a sticky folder nobody renames or removes what is root's. A group's folder higher up is the administrator's own doing.
	{"folder writable", func(f hookFacts, _ []int) bool {
		return f.folder && f.mode&fs.ModeSymlink == 0 && f.mode.Perm()&0o002 != 0 && f.mode&fs.ModeSticky == 0
	}, "the folder %s can be written by everybody"},
}

func judgeHookFacts(facts []hookFacts, accepted []int) string {
	for _, f := range facts {
		for _, c := range hookChecks {
			if c.Bad(f, accepted) {
				return fmt.Sprintf(c.Say, shown(f.path))
			}
		}
	}
	return ""
}

func ownedByRoot(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid == 0
}

// writeReport writes the report for the group of whoever owns the service's folder: it may hold what a hook said.
func writeReport(path string, b []byte, owner fs.FileInfo) error {
	st, ok := owner.Sys().(*syscall.Stat_t)
	if !ok {
		return errNoOwner
	}
	temp := path + ".new" // in a folder of root's, where one of us is at work at a time
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, secretMode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Chown(-1, int(st.Gid))
	}
	if err == nil {
		err = f.Chmod(reportMode)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
