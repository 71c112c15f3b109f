// Package macpkg writes and reads macOS's flat packages: a xar archive of Distribution, PackageInfo, Payload and Scripts
// (cpio, gzip) and Bom, with a universal Mach-O inside. Its one job is that the same input makes the same bytes on any
// system, and that what was written can be read back and compared.
//
// It must never run anything, ask the clock, or read what it was not handed: times come from the plan, owners are root's.
// The readers take files from anywhere: lengths are checked before anything is allocated.
package macpkg

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

var (
	// ErrFormat: bytes that are no archive of the kind asked for.
	ErrFormat = errors.New("the archive does not read")
	// ErrPlan: a package that cannot be built from what was given.
	ErrPlan = errors.New("the package cannot be built")
	// ErrDiffers: a package whose parts contradict one another.
	ErrDiffers = errors.New("the package contradicts itself")
)

// File types and the mask over them, as in a mode.
const (
	typeMask = 0o170000
	typeFile = 0o100000
	typeDir  = 0o040000
	typeLink = 0o120000
	permMask = 0o7777
)

// Entry is a file, folder or link of a payload.
type Entry struct {
	Path     string // ".", or "./" and a clean path
	Mode     uint32 // type and permissions, as stat gives them
	UID, GID uint32
	MTime    uint32 // seconds since 1970, UTC
	Link     string // where a link points
	Data     []byte // a file's bytes
}

func (e Entry) dir() bool  { return e.Mode&typeMask == typeDir }
func (e Entry) link() bool { return e.Mode&typeMask == typeLink }

// body is what an archive holds of it.
func (e Entry) body() []byte {
	switch {
	case e.link():
		return []byte(e.Link)
	case e.dir():
		return nil
	}
	return e.Data
}

// cleanPath tells whether p is "." or "./" and a clean path below it.
func cleanPath(p string) bool {
	if p == "." {
		return true
	}
	rest, ok := strings.CutPrefix(p, "./")
	return ok && rest == path.Clean(rest) && rest != "." && rest != ".." && !strings.HasPrefix(rest, "../") && !strings.HasPrefix(rest, "/") &&
		!strings.ContainsRune(rest, 0)
}

// sorted checks that a payload is one and puts it in order: "." first, each folder before what is in it, no path twice,
// every parent there.
func sorted(entries []Entry) ([]Entry, error) {
	out := slices.Clone(entries)
	slices.SortStableFunc(out, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	dirs := map[string]bool{}
	for i, e := range out {
		switch {
		case !cleanPath(e.Path):
			return nil, fmt.Errorf("%w: %q is no path of a payload: . or ./ and a clean path", ErrPlan, e.Path)
		case i > 0 && out[i-1].Path == e.Path:
			return nil, fmt.Errorf("%w: %s is given twice", ErrPlan, e.Path)
		case e.Path != "." && !dirs[path.Join(".", path.Dir(e.Path))]:
			return nil, fmt.Errorf("%w: the folder of %s is missing before it", ErrPlan, e.Path)
		case e.Mode&^(typeMask|permMask) != 0 || !e.dir() && !e.link() && e.Mode&typeMask != typeFile:
			return nil, fmt.Errorf("%w: %s has mode %o: a file, folder or link is meant", ErrPlan, e.Path, e.Mode)
		case e.link() && (e.Link == "" || strings.ContainsRune(e.Link, 0)):
			return nil, fmt.Errorf("%w: the link %s points at %q", ErrPlan, e.Path, e.Link)
		}
		if e.dir() {
			dirs[path.Clean(e.Path)] = true
		}
	}
	if len(out) == 0 || out[0].Path != "." || !out[0].dir() {
		return nil, fmt.Errorf("%w: the payload has no root, the folder \".\"", ErrPlan)
	}
	return out, nil
}
