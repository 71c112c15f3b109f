package statedir

import (
	"errors"

	"golang.org/x/sys/windows"
)

func roomOf(path string) (Room, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return Room{}, err
	}
	var free, size uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, &size, nil); err != nil {
		return Room{}, err
	}
	return Room{Free: free, Size: size}, nil
}

func isFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

func isReadOnly(err error) bool { return errors.Is(err, windows.ERROR_WRITE_PROTECT) }
