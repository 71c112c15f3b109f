package main

import (
	"errors"
	"io"
	"os"

	win "golang.org/x/sys/windows"

	"pace-node/internal/host"
	"pace-node/platform/windows"
)

func newHost() host.Host { return windows.New() }

// stream is a standard stream that may lead nowhere: an installer starts this program without any, and what was done is
// done all the same.
type stream struct{ file *os.File }

func output(f *os.File) io.Writer { return stream{f} }

func (s stream) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	if errors.Is(err, win.ERROR_INVALID_HANDLE) {
		return len(p), nil
	}
	return n, err
}
