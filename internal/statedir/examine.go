package statedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Health is a state directory as somebody who only looks sees it.
type Health struct {
	Absent bool  // no node has run there yet
	Err    error // why a node would refuse it; nil: it would not
	Denied bool  // this account may not look
	Room   Room  // of its file system, or of the one that it would be made on; zero: the system does not tell
}

// Examine judges a state directory as the node that is to run on it would, without its lock and without changing
// anything. Where root looks for the service's account, only what belongs to that account is good.
func Examine(path string, opt Options) Health {
	path, err := filepath.Abs(path)
	if err != nil {
		return Health{Err: err}
	}
	who := ownerOf(opt)
	if who != nil {
		who.alone = true
	}
	_, _, err = peek(path, who, 0)
	h := Health{Absent: errors.Is(err, ErrEmpty), Denied: errors.Is(err, fs.ErrPermission), Room: roomAbove(path)}
	if !h.Absent && !h.Denied {
		h.Err = err
	}
	return h
}

// roomAbove asks about the nearest folder that exists.
func roomAbove(path string) Room {
	for {
		if _, err := os.Lstat(path); err == nil || filepath.Dir(path) == path {
			room, _ := roomOf(path) // what the system does not tell stays zero
			return room
		}
		path = filepath.Dir(path)
	}
}
