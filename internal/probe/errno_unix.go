//go:build !windows

package probe

import (
	"errors"
	"syscall"
)

// isTaken: the port is another socket's.
func isTaken(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
