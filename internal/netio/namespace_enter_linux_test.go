package netio

import (
	"os"

	"golang.org/x/sys/unix"
)

// enterNamespace moves the calling thread into the network namespace that a file stands for.
func enterNamespace(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return os.NewSyscallError("setns", unix.Setns(int(f.Fd()), unix.CLONE_NEWNET))
}
