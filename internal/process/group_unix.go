//go:build unix

package process

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

func prepare(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// processGroup is a program's own process group, whose number is that of the program.
type processGroup struct{ pid int }

func adopt(cmd *exec.Cmd) (*processGroup, error) { return &processGroup{cmd.Process.Pid}, nil }

func (g *processGroup) kill()  { _ = syscall.Kill(-g.pid, syscall.SIGKILL) }
func (g *processGroup) close() {}

// interrupt makes a read that waits return.
func interrupt(r *os.File) { _ = r.SetReadDeadline(time.Unix(1, 0)) }

// drain takes what lies in the pipe already, without waiting for whoever may still hold its other end.
func drain(r *os.File, limit int, take func([]byte)) {
	if r.SetReadDeadline(time.Time{}) != nil {
		return
	}
	raw, err := r.SyscallConn()
	if err != nil {
		return
	}
	chunk := chunks.Get().(*[chunkSize]byte)
	defer chunks.Put(chunk)
	for total := 0; total <= limit; {
		n := 0
		var failed error
		err := raw.Read(func(fd uintptr) bool {
			for {
				n, failed = syscall.Read(int(fd), chunk[:])
				if !errors.Is(failed, syscall.EINTR) {
					return true // also when there is nothing: waiting is what must not happen
				}
			}
		})
		if err != nil || failed != nil || n <= 0 {
			return
		}
		take(chunk[:n])
		total += n
	}
}
