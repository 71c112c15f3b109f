package netio

const (
	// reusePort: on Linux SO_REUSEPORT would share datagrams out instead of giving each listener its own copy.
	reusePort   = false
	soReusePort = 0
	// loopbackMulticast: 127.255.255.255 is a broadcast address here, so no multicast is needed.
	loopbackMulticast = false
)
