package process

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// A program starts suspended, so that it cannot have a child before it is in its job.
func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true,
		CreationFlags: windows.CREATE_SUSPENDED | windows.CREATE_NEW_PROCESS_GROUP}
}

// processGroup is a program's job object: all that it starts is in it, and is ended with it.
type processGroup struct{ job windows.Handle }

var resumeProcess = windows.NewLazySystemDLL("ntdll.dll").NewProc("NtResumeProcess")

func adopt(cmd *exec.Cmd) (*processGroup, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("CreateJobObject: %w", err)
	}
	g := &processGroup{job}
	limits := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if _, err := windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits))); err != nil {
		g.close()
		return nil, fmt.Errorf("SetInformationJobObject: %w", err)
	}
	var inner error
	if err := cmd.Process.WithHandle(func(handle uintptr) {
		if err := windows.AssignProcessToJobObject(job, windows.Handle(handle)); err != nil {
			inner = fmt.Errorf("AssignProcessToJobObject: %w", err)
			return
		}
		if err := resumeProcess.Find(); err != nil {
			inner = err
			return
		}
		if status, _, _ := resumeProcess.Call(handle); status != 0 {
			inner = fmt.Errorf("NtResumeProcess: status %#x", status)
		}
	}); err != nil {
		inner = err
	}
	if inner != nil {
		g.close()
		return nil, inner
	}
	return g, nil
}

func (g *processGroup) kill()  { _ = windows.TerminateJobObject(g.job, 1) }
func (g *processGroup) close() { _ = windows.CloseHandle(g.job) }

// awaitExit returns when the program has ended.
func awaitExit(cmd *exec.Cmd) {
	_ = cmd.Process.WithHandle(func(handle uintptr) {
		_, _ = windows.WaitForSingleObject(windows.Handle(handle), windows.INFINITE)
	})
}

// interrupt has nothing to do: nobody can leave the job, so the pipe has ended with it.
func interrupt(*os.File) {}

// drain has nothing to do: the reader has read to the end.
func drain(*os.File, int, func([]byte)) {}
