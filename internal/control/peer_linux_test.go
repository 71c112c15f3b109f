package control

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAccountOf: whose process has connected is what the system says. That another account's is told from root's only
// root can try.
func TestAccountOf(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	told := func() account {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return accountOf(c)
	}
	mine, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	if got, want := told(), (account{uid: uint32(os.Geteuid())}); got != want {
		t.Errorf("this process is %+v, want %+v", got, want)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can connect as another account; its own was tested")
	}
	const nobody = 65534
	for _, dir := range []string{filepath.Dir(path), path} { // whoever may reach it may open it
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	fails := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its account
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			fails <- errno
			return
		}
		c, err := net.Dial("unix", path)
		if err == nil {
			defer c.Close()
		}
		fails <- err
	}()
	if err := <-fails; err != nil {
		t.Fatal(err)
	}
	if got, want := told(), (account{uid: nobody, other: true}); got != want {
		t.Errorf("another account is %+v, want %+v", got, want)
	}
}
