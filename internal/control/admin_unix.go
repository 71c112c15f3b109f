//go:build unix

package control

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// The packages make this folder for the service's account and this group, whose
// members may then speak to the node without being root.
const (
	runtimeDir   = "/run/pace-node"
	adminGroup   = "pace-admin"
	serviceUser  = "pace-node"
	soloMode     = 0o600
	groupMode    = 0o660
	staleTimeout = 2 * time.Second // for another node to take our connection
	adminLook    = 5 * time.Second // how often it is looked whether the socket still has its name
)

// ListenAdmin opens the administrators' socket. It has its mode (0600, or 0660
// for group pace-admin in /run/pace-node) before anybody can connect. A socket
// that a dead node left is replaced; one that is answered, or a file that is no
// socket, is refused.
func ListenAdmin(path string) (net.Listener, error) {
	switch fi, err := os.Lstat(path); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("administrators' socket %s: %w", path, err)
	case fi.Mode().Type() != os.ModeSocket:
		return nil, fmt.Errorf("administrators' socket %s: %w", path, ErrNotSocket)
	default:
		if c, err := net.DialTimeout("unix", path, staleTimeout); err == nil {
			c.Close()
			return nil, fmt.Errorf("administrators' socket %s: %w", path, ErrInUse)
		} else if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("administrators' socket %s: %w", path, err)
		}
	}
	l := &unixListener{path: path}
	inner, made, err := openAdmin(path)
	if err != nil {
		return nil, err
	}
	l.inner, l.made = inner, made
	return l, nil
}

// openAdmin puts a socket of our own at a path.
func openAdmin(path string) (*net.UnixListener, os.FileInfo, error) {
	// A folder that only we can enter holds the socket until its mode is set;
	// a rename then shows it, and replaces a stale one, in one step.
	nest, err := makeNest(filepath.Dir(path))
	if err != nil {
		return nil, nil, fmt.Errorf("administrators' socket %s: %w", path, err)
	}
	defer os.RemoveAll(nest)
	early := filepath.Join(nest, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: early, Net: "unix"})
	if err != nil {
		return nil, nil, fmt.Errorf("administrators' socket %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	if err = protect(path, early); err == nil {
		err = os.Rename(early, path)
	}
	if err != nil {
		l.Close()
		return nil, nil, fmt.Errorf("administrators' socket %s: %w", path, err)
	}
	made, err := os.Lstat(path)
	if err != nil {
		l.Close()
		return nil, nil, fmt.Errorf("administrators' socket %s: %w", path, err)
	}
	return l, made, nil
}

// makeNest makes a folder of mode 0700 whose name is no longer than the socket's
// own: the path of a socket has 103 bytes on macOS.
func makeNest(dir string) (string, error) {
	const letters, size, tries = "0123456789abcdefghijklmnopqrstuvwxyz", 5, 16
	var err error
	for range tries {
		name := []byte(".a")
		for range size {
			name = append(name, letters[rand.IntN(len(letters))])
		}
		nest := filepath.Join(dir, string(name))
		if err = os.Mkdir(nest, 0o700); err == nil {
			return nest, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return "", err
		}
	}
	return "", err
}

// protect sets the mode and, where the packages want it, the group.
func protect(path, early string) error {
	if filepath.Dir(path) == runtimeDir {
		if g, err := user.LookupGroup(adminGroup); err == nil {
			gid, err := strconv.Atoi(g.Gid)
			if err != nil {
				return err
			}
			if err := os.Chown(early, -1, gid); err == nil {
				return os.Chmod(early, groupMode)
			}
			// The account is not in the group: the node still serves root and itself.
		}
	}
	return os.Chmod(early, soloMode)
}

// unixListener removes its socket when it is closed, if it is still its own, and makes it anew where somebody removed it: a
// program that cleans a temporary folder, or a hand. Without its name nobody could ask this node anything, or stop it by a verb.
type unixListener struct {
	path string

	mu     sync.Mutex
	inner  *net.UnixListener
	made   os.FileInfo
	closed bool
}

// Accept implements net.Listener.
func (l *unixListener) Accept() (net.Conn, error) {
	for {
		l.mu.Lock()
		inner := l.inner
		l.mu.Unlock()
		inner.SetDeadline(time.Now().Add(adminLook))
		c, err := inner.Accept()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return c, err
		}
		l.renew()
	}
}

// renew makes the socket anew where its name is gone. Where that fails, as without its folder, it is tried again.
func (l *unixListener) renew() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := os.Lstat(l.path); l.closed || !errors.Is(err, os.ErrNotExist) {
		return
	}
	if inner, made, err := openAdmin(l.path); err == nil {
		l.inner.Close()
		l.inner, l.made = inner, made
	}
}

// Close implements net.Listener.
func (l *unixListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.made) {
			os.Remove(l.path)
		}
	}
	return l.inner.Close()
}

// Addr returns the path that clients use.
func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// dialAdmin connects to the administrators' socket. Its owner, and that of the
// process behind it, is root, this account or the service's, else nothing is sent.
func dialAdmin(ctx context.Context, path string) (net.Conn, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if fi.Mode().Type() != os.ModeSocket {
		return nil, ErrNotSocket
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !ok || !trustedOwner(st.Uid) {
		return nil, ErrSocketOwner
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	uid, err := peerUID(c.(*net.UnixConn))
	if err == nil && !trustedOwner(uid) {
		err = ErrSocketOwner
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// accountOf says whose process has connected. One that the system does not tell,
// since it is gone, is nobody's.
func accountOf(c net.Conn) account {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return account{}
	}
	uid, err := peerUID(u)
	if err != nil {
		return account{uid: nobodysUID, other: true}
	}
	return account{uid: uid, other: uid != 0 && uint64(uid) != uint64(os.Geteuid())}
}

// nobodysUID is no account's: (uid_t)-1.
const nobodysUID = 1<<32 - 1

func trustedOwner(uid uint32) bool {
	if uid == 0 || uint64(uid) == uint64(os.Geteuid()) {
		return true
	}
	u, err := user.Lookup(serviceUser)
	return err == nil && u.Uid == strconv.FormatUint(uint64(uid), 10)
}
