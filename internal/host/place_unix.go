//go:build unix

package host

import (
	"io/fs"
	"os"
	"syscall"
)

// CheckPlace looks at a program and the folders above it, and tells who else than root could put another one there, or "".
// The path's links are resolved already. Errors are the system's, naming the path.
func CheckPlace(program string) (string, error) {
	own, err := place(program)
	if err != nil {
		return "", err
	}
	var folders []PlaceFacts
	for _, dir := range above(program) {
		f, err := place(dir)
		if err != nil {
			return "", err
		}
		folders = append(folders, f)
	}
	return JudgePlace(own, folders), nil
}

func place(path string) (PlaceFacts, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return PlaceFacts{}, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return PlaceFacts{}, &fs.PathError{Op: "lstat", Path: path, Err: fs.ErrInvalid}
	}
	return PlaceFacts{Path: path, UID: int(stat.Uid), Mode: info.Mode()}, nil
}
