package upgrade

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"pace-node/internal/statedir"
)

// Points names every place at which a crash must leave a program that starts.
var Points = slices.Concat(
	[]string{"upgrade.stage.before", "upgrade.stage.after"},
	prefixed("upgrade.intent.", statedir.WriteSteps),
	around("upgrade.keep", "upgrade.swap", "upgrade.sync"),
	prefixed("upgrade.count.", statedir.WriteSteps),
	around("upgrade.settle"),
	prefixed("upgrade.undo.", statedir.WriteSteps),
	around("upgrade.back"),
)

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}

func around(names ...string) (out []string) {
	for _, n := range names {
		out = append(out, n+".before", n+".after")
	}
	return out
}

// place is where a program is, with what an upgrade keeps beside it: in the same folder, since only there a rename is one
// step.
type place struct {
	program  string // its whole path, links resolved
	staged   string // the new one, before it takes the place
	previous string // the old one, after
	failed   string // one that was rolled back, on systems where a running program cannot be removed
	intent   string
	point    func(string)
}

// placeOf is the place of a program. point may be nil.
func placeOf(program string, point func(string)) place {
	if point == nil {
		point = func(string) {}
	}
	dir, base := filepath.Split(program)
	ext := filepath.Ext(base)
	if !strings.EqualFold(ext, ".exe") {
		ext = "" // a version's dot
	}
	base = strings.TrimSuffix(base, ext)
	return place{program: program, staged: dir + "." + base + ".new" + ext, previous: dir + base + ".previous" + ext,
		failed: dir + "." + base + ".failed" + ext, intent: dir + "." + base + ".upgrade", point: point}
}

// program is this process' own, links resolved.
func program() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

func (p place) folder() string { return filepath.Dir(p.program) }

func (p place) write(in Intent, name string) error {
	return writeIntent(p.intent, in, func(step string) { p.point("upgrade." + name + "." + step) })
}

// at calls do between the two points of a name.
func (p place) at(name string, do func() error) error {
	p.point("upgrade." + name + ".before")
	err := do()
	if err == nil {
		p.point("upgrade." + name + ".after")
	}
	return err
}

// sweep removes what the writing of an intent left that a crash interrupted.
func (p place) sweep() {
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(p.intent), "."+filepath.Base(p.intent)+".tmp-*"))
	for _, path := range left {
		os.Remove(path)
	}
}

// stage makes the file that the new program is written to, with the old one's mode and owner. What an earlier upgrade left
// there goes.
func (p place) stage(write func(io.Writer) error) (err error) {
	info, err := os.Stat(p.program)
	if err != nil {
		return err
	}
	p.sweep()
	if err := remove(p.staged); err != nil {
		return err
	}
	f, err := os.OpenFile(p.staged, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(p.staged)
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := like(f, info); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// swap puts the staged program in the place of the other, which is kept.
func (p place) swap() error {
	if err := p.at("keep", func() error { return errors.Join(remove(p.failed), remove(p.previous), p.keep()) }); err != nil {
		return fmt.Errorf("keep the old program: %w", err)
	}
	if err := p.at("swap", func() error { return os.Rename(p.staged, p.program) }); err != nil {
		return errors.Join(fmt.Errorf("put the new program in place: %w", err), p.unkeep())
	}
	return p.at("sync", func() error { return syncFolder(p.folder()) })
}

// back puts the kept program in its place again.
func (p place) back() error {
	return p.at("back", func() error {
		if _, err := os.Lstat(p.previous); err != nil {
			return err
		}
		if err := p.moveAway(); err != nil {
			return err
		}
		if err := os.Rename(p.previous, p.program); err != nil {
			return err
		}
		return syncFolder(p.folder())
	})
}

// remove deletes what may not be there.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writable says why this process cannot put another program beside this one; nil: it can.
func (p place) writable() error {
	f, err := os.CreateTemp(p.folder(), ".pace-node-*")
	if err != nil {
		return fmt.Errorf("%w: this process may not write to %s, where it is (%w)", ErrPlace, p.folder(), cause(err))
	}
	f.Close()
	return os.Remove(f.Name())
}

func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// platformOf is a repository's name of a system: linux-amd64.
func platformOf() string { return runtime.GOOS + "-" + runtime.GOARCH }
