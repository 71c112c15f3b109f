package process

import (
	"os/exec"
	"syscall"
	"unsafe"
)

// The kernel's numbers of waitid, which package syscall does not name on macOS.
const (
	idTypePID   = 1
	waitExited  = 0x4
	waitNoReap  = 0x20
	sizeSiginfo = 128 // more than the 104 bytes of siginfo_t
)

// awaitExit returns when the program has ended and leaves it to be reaped.
func awaitExit(cmd *exec.Cmd) {
	var info [sizeSiginfo / 8]uint64
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idTypePID, uintptr(cmd.Process.Pid), uintptr(unsafe.Pointer(&info)),
			waitExited|waitNoReap, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}
