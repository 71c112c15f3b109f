package netio

import "syscall"

const (
	// reusePort: without it a second listener on the port is refused.
	reusePort   = true
	soReusePort = syscall.SO_REUSEPORT
	// loopbackMulticast: lo0 can't broadcast.
	loopbackMulticast = true
)
