package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pace-node/internal/statedir"
)

// store is the folder "provisioned" as one step at a time changes it.
type store struct {
	dir   string
	point func(string)
}

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

// at calls f between the points name.before and name.after.
func (s *store) at(name string, f func() error) error {
	s.point("target." + name + ".before")
	if err := f(); err != nil {
		return err
	}
	s.point("target." + name + ".after")
	return nil
}

// stage writes a whole configuration beside the current one, makes it durable and reads it back. What it leaves after an
// error is removed by unstage. Between two files it looks at ctx.
func (s *store) stage(ctx context.Context, m manifest, files []planned) error {
	err := s.at("stage.create", func() error { return makeFolder(s.path(stagingDir)) })
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(s.path(stagingDir))
	if err != nil {
		return err
	}
	err = s.fill(ctx, root, m, files)
	// Windows does not rename a folder that is open.
	if err := errors.Join(err, root.Close()); err != nil {
		return err
	}
	return s.at("stage.check", func() error {
		c := load(s.path(stagingDir))
		if !c.whole() || c.manifest.Digest != m.Digest {
			return fmt.Errorf("what was written does not read back: %s", c.damage)
		}
		return nil
	})
}

func (s *store) fill(ctx context.Context, root *os.Root, m manifest, files []planned) error {
	made := map[string]bool{".": true} // folder → whether it holds anything
	for _, name := range folders {
		if err := makeFolders(root, name, made); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		dir, _ := splitPath(f.path)
		if err := makeFolders(root, dir, made); err != nil {
			return err
		}
		made[dir] = true
		if err := s.at("stage.file", func() error { return writeNew(root, f.path, f.data, f.mode) }); err != nil {
			return err
		}
	}
	b, err := encodeManifest(m)
	if err != nil {
		return err
	}
	if err := s.at("stage.manifest", func() error { return writeNew(root, manifestFile, b, secretMode) }); err != nil {
		return err
	}
	return s.at("stage.sync", func() error {
		for _, dir := range slices.Backward(sorted(made)) {
			if !made[dir] {
				continue // nothing in it that could be lost; its own name is in the folder above
			}
			if err := syncDir(filepath.Join(root.Name(), filepath.FromSlash(dir))); err != nil {
				return err
			}
		}
		return nil
	})
}

func splitPath(p string) (dir, name string) {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return ".", p
	}
	return p[:i], p[i+1:]
}

func makeFolder(path string) error {
	if err := os.Mkdir(path, folderMode); err != nil || !hasModes {
		return err
	}
	return os.Chmod(path, folderMode) // whatever the umask
}

// makeFolders makes a folder of the staging folder and those above it.
func makeFolders(root *os.Root, dir string, made map[string]bool) error {
	if _, is := made[dir]; is {
		return nil
	}
	above, _ := splitPath(dir)
	if err := makeFolders(root, above, made); err != nil {
		return err
	}
	local := filepath.FromSlash(dir)
	err := root.Mkdir(local, folderMode)
	if errors.Is(err, fs.ErrExist) { // another spelling in this plan: the file system folds them
		info, err := root.Lstat(local)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("%w: the folder %s is the same as a file of this configuration", errClash, shown(dir))
		}
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if hasModes {
		if err := root.Chmod(local, folderMode); err != nil {
			return err
		}
	}
	made[above], made[dir] = true, false
	return nil
}

// errClash: the file system takes two names of one plan for the same file.
var errClash = errors.New("target: two names are one file here")

func writeNew(root *os.Root, path string, data []byte, mode fs.FileMode) (err error) {
	f, err := root.OpenFile(filepath.FromSlash(path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode&secretMode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s is the same file as another name of this configuration", errClash, shown(path))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if hasModes {
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	return f.Sync()
}

// unstage removes a configuration that is not to be.
func (s *store) unstage() error { return os.RemoveAll(s.path(stagingDir)) }

// there reports whether a name exists, as whatever it is.
func (s *store) there(name string) (bool, error) {
	_, err := os.Lstat(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// move renames one entry to another name that is free, between its points.
func (s *store) move(step, from, to string) error {
	return s.at("swap."+step, func() error { return rename(s.path(from), s.path(to)) })
}

// The renames that a configuration is put in place by, or taken away, by their place in moves.
const (
	moveDiscard = iota
	movePrevious
	moveCurrent
	moveDrop
	moveRestore
)

// moves is the table of renames.
var moves = []struct{ Step, From, To string }{
	{"discard", previousDir, discardDir},
	{"previous", currentDir, previousDir},
	{"current", stagingDir, currentDir},
	{"drop", currentDir, droppedDir},
	{"restore", previousDir, currentDir},
}

// swapPlan is how a configuration is put in place, and its name in the intent.
type swapPlan struct {
	Name  string
	Moves []int // of moves
}

// swapPlans is the table of them. Which of a plan's moves a crash left out can be told from what is there: none is made
// whose source is gone or whose place is taken, and the last one alone leaves nothing of the others to do.
var swapPlans = []swapPlan{
	// The current one is in use: it becomes the previous one.
	{"swap", []int{moveDiscard, movePrevious, moveCurrent}},
	// The current one was never taken into use: the previous one stays, so that a hook that fails finds what ran before.
	{"replace", []int{moveDrop, moveCurrent}},
	// A hook failed with the current one: the previous one is put back.
	{"back", []int{moveDrop, moveRestore}},
	// A hook failed with the first one: there is nothing to put back.
	{"away", []int{moveDrop}},
}

// planOf is the plan of an intent; an older version's names none.
func planOf(name string) (swapPlan, bool) {
	for _, p := range swapPlans {
		if p.Name == name || name == "" {
			return p, true
		}
	}
	return swapPlan{}, false
}

// stages reports whether a plan puts a staged configuration in place.
func (p swapPlan) stages() bool { return p.Moves[len(p.Moves)-1] == moveCurrent }

// forward does what is left of a plan; done holds the moves that were made, for undo.
func (s *store) forward(p swapPlan) (done []int, err error) {
	current, err := s.there(currentDir)
	if err != nil {
		return nil, err
	}
	for _, i := range p.Moves {
		m := moves[i]
		if i != moveCurrent {
			from, err := s.there(m.From)
			if err != nil {
				return done, err
			}
			to, err := s.there(m.To)
			if err != nil {
				return done, err
			}
			// The previous one is set aside only while there is a current one to take its place.
			if !from || to || i == moveDiscard && !current {
				continue
			}
		}
		if err := s.move(m.Step, m.From, m.To); err != nil {
			return done, err
		}
		done = append(done, i)
	}
	return done, s.at("swap.sync", func() error { return syncDir(s.dir) })
}

// undo takes the moves back, last first.
func (s *store) undo(done []int) error {
	for _, i := range slices.Backward(done) {
		m := moves[i]
		if err := rename(s.path(m.To), s.path(m.From)); err != nil {
			return err
		}
	}
	return syncDir(s.dir)
}

// finish removes what a swap needed: first the intent, since without it nothing else means anything.
func (s *store) finish() error {
	err := s.at("swap.done", func() error {
		if err := os.Remove(s.path(intentFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.at("swap.clean", func() error {
		return errors.Join(os.RemoveAll(s.path(discardDir)), os.RemoveAll(s.path(droppedDir)))
	})
}

const intentFormat = 1

// intent is swap.json: from its being there until its going, the configuration that it names is to be the current one.
type intent struct {
	Format int    `json:"format"`
	Digest string `json:"digest"`         // of the staged or the previous one; "" where none is to be there
	Plan   string `json:"plan,omitempty"` // of swapPlans; "": the first
}

func decodeIntent(b []byte) (intent, error) {
	var in intent
	if err := json.Unmarshal(b, &in); err != nil {
		return intent{}, err
	}
	if in.Format != intentFormat {
		return intent{}, fmt.Errorf("format %d, and this version reads %d", in.Format, intentFormat)
	}
	if _, ok := planOf(in.Plan); !ok {
		return intent{}, errors.New("it names a plan that this version does not know")
	}
	return in, nil
}

func (s *store) writeIntent(in intent) error {
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return statedir.WriteFileAtomic(s.path(intentFile), append(b, '\n'), secretMode, under(s.point, "target.intent."))
}

var errUndone = errors.New("target: a swap could be neither made nor taken back")

// carry carries out a plan, after which the configuration with this digest is the current one. After an error everything is
// as before, except after errUndone: then settle, at the next step or start, ends what was begun.
func (s *store) carry(p swapPlan, digest string) error {
	if err := s.writeIntent(intent{intentFormat, digest, p.Name}); err != nil {
		return errors.Join(err, s.dropIntent())
	}
	done, err := s.forward(p)
	if err != nil {
		if back := s.undo(done); back != nil {
			return fmt.Errorf("%w: %w; %w", errUndone, err, back)
		}
		return errors.Join(err, s.dropIntent())
	}
	return nil
}

// dropIntent removes an intent of which nothing was done.
func (s *store) dropIntent() error {
	if err := os.Remove(s.path(intentFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", errUndone, err)
	}
	return nil
}

// settle ends what a crash interrupted: a swap that was begun is made, or taken back where the staged configuration is
// not whole; anything else beside the current and the previous one is removed. Nothing to do changes nothing. begun says
// that there was a swap to end, so that the current configuration may be another one now.
func (s *store) settle() (begun bool, err error) {
	if begun, err = s.there(intentFile); err != nil {
		return begun, err
	}
	if begun {
		if err := s.resume(); err != nil {
			return begun, err
		}
		if err := s.finish(); err != nil {
			return begun, err
		}
	}
	for _, name := range []string{stagingDir, discardDir, droppedDir, hookRequestFile} {
		if err := os.RemoveAll(s.path(name)); err != nil {
			return begun, err
		}
	}
	return begun, nil
}

func (s *store) resume() error {
	in, readErr := s.readIntent()
	p, _ := planOf(in.Plan)
	if readErr == nil && !p.stages() {
		_, err := s.forward(p)
		return err
	}
	staged := load(s.path(stagingDir))
	if staged.missing() {
		if is, err := s.there(currentDir); err != nil || is {
			return err // the last move was made
		}
	}
	// Not what an earlier swap meant that could not remove its intent.
	if readErr == nil && staged.whole() && staged.manifest.Digest == in.Digest {
		_, err := s.forward(p)
		return err
	}
	if readErr != nil {
		if dropped, err := s.there(droppedDir); err != nil {
			return err
		} else if dropped { // no other plan drops one
			p, _ = planOf("replace")
		}
	}
	for _, i := range slices.Backward(p.Moves[:len(p.Moves)-1]) {
		m := moves[i]
		from, err := s.there(m.From)
		if err != nil {
			return err
		}
		to, err := s.there(m.To)
		if err != nil {
			return err
		}
		if to && !from {
			if err := s.at("swap.back", func() error { return rename(s.path(m.To), s.path(m.From)) }); err != nil {
				return err
			}
		}
	}
	return syncDir(s.dir)
}

func (s *store) readIntent() (intent, error) {
	b, err := readSmall(s.path(intentFile), maxIntent)
	if err != nil {
		return intent{}, err
	}
	return decodeIntent(b)
}
