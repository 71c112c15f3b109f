package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	pipeBuffer = 64 << 10 // bytes each way; what is beyond waits in the writer
	// pipeBusyPause is waited before another try while every instance is taken.
	pipeBusyPause = 50 * time.Millisecond
)

// ListenAdmin opens the administrators' pipe of that name. A pipe of this name
// that somebody else has opened first is refused.
func ListenAdmin(path string) (net.Listener, error) {
	sid, err := ordinaryUserSID()
	if err != nil {
		return nil, fmt.Errorf("administrators' pipe %s: %w", path, err)
	}
	sd, err := windows.SecurityDescriptorFromString(pipeSDDL(sid))
	if err != nil {
		return nil, fmt.Errorf("administrators' pipe %s: %w", path, err)
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, fmt.Errorf("administrators' pipe %s: %w", path, err)
	}
	closing, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return nil, fmt.Errorf("administrators' pipe %s: %w", path, err)
	}
	l := &pipeListener{path: path, name: name, sd: sd, closing: closing}
	if l.next, err = l.instance(windows.FILE_FLAG_FIRST_PIPE_INSTANCE); err != nil {
		windows.CloseHandle(closing)
		if errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_PIPE_BUSY) {
			err = ErrInUse
		}
		return nil, fmt.Errorf("administrators' pipe %s: %w", path, err)
	}
	return l, nil
}

// ordinaryUserSID returns this process's user, "" where it is SYSTEM or an
// elevated administrator, whom the pipe's list holds anyway.
func ordinaryUserSID() (string, error) {
	token := windows.GetCurrentProcessToken()
	if token.IsElevated() {
		return "", nil
	}
	u, err := token.GetTokenUser()
	if err != nil {
		return "", err
	}
	if u.User.Sid.IsWellKnown(windows.WinLocalSystemSid) {
		return "", nil
	}
	return u.User.Sid.String(), nil
}

// pipeListener keeps one instance ready, so that a client always finds one. One
// goroutine accepts; Close may be called from any.
type pipeListener struct {
	path    string
	name    *uint16
	sd      *windows.SECURITY_DESCRIPTOR
	closing windows.Handle // event: the listener is closed

	accepting sync.Mutex // held by Accept; next is its own
	next      windows.Handle
	once      sync.Once
}

func (l *pipeListener) instance(first uint32) (windows.Handle, error) {
	sa := &windows.SecurityAttributes{SecurityDescriptor: l.sd}
	sa.Length = uint32(unsafe.Sizeof(*sa))
	return windows.CreateNamedPipe(l.name,
		windows.PIPE_ACCESS_DUPLEX|windows.FILE_FLAG_OVERLAPPED|first,
		windows.PIPE_TYPE_BYTE|windows.PIPE_READMODE_BYTE|windows.PIPE_WAIT|windows.PIPE_REJECT_REMOTE_CLIENTS,
		windows.PIPE_UNLIMITED_INSTANCES, pipeBuffer, pipeBuffer, 0, sa)
}

// Accept waits for a client. After Close it returns net.ErrClosed.
func (l *pipeListener) Accept() (net.Conn, error) {
	l.accepting.Lock()
	defer l.accepting.Unlock()
	if which, err := windows.WaitForSingleObject(l.closing, 0); err != nil || which == windows.WAIT_OBJECT_0 {
		return nil, net.ErrClosed
	}
	if l.next == 0 {
		h, err := l.instance(0)
		if err != nil {
			return nil, err
		}
		l.next = h
	}
	if err := l.connect(l.next); err != nil {
		windows.CloseHandle(l.next)
		l.next = 0
		return nil, err
	}
	h := l.next
	var err error
	if l.next, err = l.instance(0); err != nil {
		l.next = 0 // made anew by the next Accept
	}
	f := os.NewFile(uintptr(h), l.path)
	if f == nil {
		windows.CloseHandle(h)
		return nil, os.ErrInvalid
	}
	return &pipeConn{File: f, addr: pipeAddr(l.path)}, nil
}

// connect waits until a client has opened the instance, or the listener closes.
func (l *pipeListener) connect(h windows.Handle) error {
	event, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(event)
	o := windows.Overlapped{HEvent: event}
	switch err := windows.ConnectNamedPipe(h, &o); {
	case err == nil, errors.Is(err, windows.ERROR_PIPE_CONNECTED):
		return nil
	case !errors.Is(err, windows.ERROR_IO_PENDING):
		return err
	}
	which, err := windows.WaitForMultipleObjects([]windows.Handle{l.closing, event}, false, windows.INFINITE)
	var n uint32
	if err != nil || which == windows.WAIT_OBJECT_0 {
		// The overlapped structure must outlive the operation.
		windows.CancelIoEx(h, &o)
		windows.GetOverlappedResult(h, &o, &n, true)
		if err != nil {
			return err
		}
		return net.ErrClosed
	}
	return windows.GetOverlappedResult(h, &o, &n, false)
}

// Close ends a waiting Accept and takes the pipe away.
func (l *pipeListener) Close() error {
	l.once.Do(func() {
		windows.SetEvent(l.closing)
		l.accepting.Lock()
		defer l.accepting.Unlock()
		if l.next != 0 {
			windows.CloseHandle(l.next)
			l.next = 0
		}
	})
	return nil
}

// Addr returns the pipe's name.
func (l *pipeListener) Addr() net.Addr { return pipeAddr(l.path) }

type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }

// pipeConn is one end of a pipe; its file is opened for overlapped use, so that
// deadlines work.
type pipeConn struct {
	*os.File
	addr pipeAddr
}

func (c *pipeConn) LocalAddr() net.Addr  { return c.addr }
func (c *pipeConn) RemoteAddr() net.Addr { return c.addr }

// dialAdmin opens the administrators' pipe. Its owner is SYSTEM, Administrators
// or this account, else nothing is sent; the other end may learn who we are, and
// not act as us.
func dialAdmin(ctx context.Context, path string) (net.Conn, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	for {
		h, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING,
			windows.FILE_FLAG_OVERLAPPED|windows.SECURITY_SQOS_PRESENT|windows.SECURITY_IDENTIFICATION, 0)
		if errors.Is(err, windows.ERROR_PIPE_BUSY) {
			select {
			case <-time.After(pipeBusyPause):
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if err != nil {
			return nil, err
		}
		if err := trustedPipe(h); err != nil {
			windows.CloseHandle(h)
			return nil, err
		}
		f := os.NewFile(uintptr(h), path)
		if f == nil {
			windows.CloseHandle(h)
			return nil, os.ErrInvalid
		}
		return &pipeConn{File: f, addr: pipeAddr(path)}, nil
	}
}

// accountOf tells nobody apart: the pipe's list holds SYSTEM, administrators and this process's own account alone.
func accountOf(net.Conn) account { return account{} }

func trustedPipe(h windows.Handle) error {
	sd, err := windows.GetSecurityInfo(h, windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return err
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return err
	}
	if owner.IsWellKnown(windows.WinLocalSystemSid) || owner.IsWellKnown(windows.WinBuiltinAdministratorsSid) {
		return nil
	}
	u, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return err
	}
	if !owner.Equals(u.User.Sid) {
		return ErrSocketOwner
	}
	return nil
}
