package target

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/windows"
)

const hasModes = false

// A virus scanner or an indexer opens new files for some hundred milliseconds, and a folder with an open file in it can
// not be renamed.
const (
	renameTries = 20
	renameWait  = 50 * time.Millisecond
)

// rename moves a folder and returns when that is on disk: there is no fsync of a folder.
func rename(from, to string) error {
	a, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return err
	}
	b, err := windows.UTF16PtrFromString(to)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := windows.MoveFileEx(a, b, windows.MOVEFILE_WRITE_THROUGH)
		if err == nil {
			return nil
		}
		held := errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED)
		if !held || try == renameTries {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
		}
		time.Sleep(renameWait)
	}
}

func syncDir(string) error { return nil }
