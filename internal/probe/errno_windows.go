package probe

import (
	"errors"

	"golang.org/x/sys/windows"
)

// isTaken: the port is another socket's, which may have taken it for itself alone.
func isTaken(err error) bool {
	return errors.Is(err, windows.WSAEADDRINUSE) || errors.Is(err, windows.WSAEACCES)
}
