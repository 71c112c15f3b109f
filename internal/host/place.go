package host

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// PlaceFacts is what lstat tells of a program, or of a folder above it.
type PlaceFacts struct {
	Path string
	UID  int
	Mode fs.FileMode
}

// placeCheck is one row of why somebody else than root could put another program there, asked in order.
type placeCheck struct {
	Name   string
	Folder bool // asked of the folders, else of the program
	Bad    func(f PlaceFacts) bool
	Say    string // of the path
}

var placeChecks = []placeCheck{
	{"kind", false, func(f PlaceFacts) bool { return !f.Mode.IsRegular() }, "%s is no file"},
	{"owner", false, func(f PlaceFacts) bool { return f.UID != 0 }, "%s is not root's"},
	{"writable", false, func(f PlaceFacts) bool { return f.Mode.Perm()&0o022 != 0 }, "%s can be written by others than root"},
	{"folder's owner", true, func(f PlaceFacts) bool { return f.UID != 0 }, "the folder %s is not root's"},
	// A group's folder (Debian's /usr/local/bin was staff's) is the administrator's own doing.
	{"folder writable", true, func(f PlaceFacts) bool { return f.Mode.Perm()&0o002 != 0 }, "the folder %s can be written by everybody"},
}

// JudgePlace tells why a program must not run as a service from where it is, or "". program is the file, folders are those
// above it.
func JudgePlace(program PlaceFacts, folders []PlaceFacts) string {
	for _, c := range placeChecks {
		all := []PlaceFacts{program}
		if c.Folder {
			all = folders
		}
		if i := slices.IndexFunc(all, c.Bad); i >= 0 {
			return fmt.Sprintf(c.Say, all[i].Path)
		}
	}
	return ""
}

// above lists the folders above a path, nearest first.
func above(path string) []string {
	var out []string
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		out = append(out, dir)
		if dir == filepath.Dir(dir) {
			return out
		}
	}
}
