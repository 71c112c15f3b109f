//go:build !windows

package statedir

import (
	"errors"

	"golang.org/x/sys/unix"
)

func roomOf(path string) (Room, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Room{}, err
	}
	block := uint64(s.Bsize)
	return Room{Free: uint64(s.Bavail) * block, Size: uint64(s.Blocks) * block}, nil
}

func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

func isReadOnly(err error) bool { return errors.Is(err, unix.EROFS) }
