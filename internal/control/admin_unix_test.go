//go:build unix

package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

func TestSocketModeAndCleanliness(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	var path string
	t.Cleanup(func() {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the socket was left: %v", err)
		}
	})
	path, _ = serveAdmin(t, &fakeNode{})
	fi, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode().Type() != os.ModeSocket || fi.Mode().Perm() != soloMode {
		t.Errorf("mode %v", fi.Mode())
	}
	left, _ := os.ReadDir(filepath.Dir(path))
	if len(left) != 1 {
		t.Errorf("%d files beside the socket: %v", len(left), left)
	}
}

func TestSocketReplacesAStaleOne(t *testing.T) {
	path := filepath.Join(shortDir(t), "admin.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	l, err := ListenAdmin(path)
	if err != nil {
		t.Fatalf("a stale socket is not replaced: %v", err)
	}
	defer l.Close()
	if got := l.Addr().String(); got != path {
		t.Errorf("address %s", got)
	}
	if _, err := ListenAdmin(path); !errors.Is(err, ErrInUse) {
		t.Errorf("a live socket was taken over: %v", err)
	}
}

func TestSocketRefusesAFile(t *testing.T) {
	path := filepath.Join(shortDir(t), "admin.sock")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ListenAdmin(path)
	if !errors.Is(err, ErrNotSocket) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Error("the file was changed")
	}
	if _, err := dialAdmin(context.Background(), path); !errors.Is(err, ErrNotSocket) {
		t.Errorf("dialled: %v", err)
	}
}

// TestSocketOfAnother: a later node's socket is not removed by an earlier one
// that closes.
func TestSocketOfAnother(t *testing.T) {
	path := filepath.Join(shortDir(t), "admin.sock")
	first, err := ListenAdmin(path)
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	second, err := ListenAdmin(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the other node's socket is gone: %v", err)
	}
}

func TestLongestSocketPath(t *testing.T) {
	dir := shortDir(t)
	dir += "/" + strings.Repeat("d", 100-len(dir)-len("/admin.sock")-1)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := dir + "/admin.sock"
	if len(path) != 100 {
		t.Fatalf("%d bytes", len(path))
	}
	l, err := ListenAdmin(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// TestOwnerIsChecked: nothing is sent to a socket of another account. Only root
// can make one.
func TestOwnerIsChecked(t *testing.T) {
	if os.Geteuid() != 0 {
		if trustedOwner(uint32(os.Geteuid())+1) && os.Geteuid() != 0 {
			t.Error("another account is trusted")
		}
		t.Skip("only root can give a socket away; the rule itself was tested")
	}
	path := filepath.Join(shortDir(t), "admin.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		if c, err := l.Accept(); err == nil {
			c.Close()
			t.Error("the client connected before it looked")
		}
	}()
	_, err = DialAdmin(path).Call(context.Background(), wire.VerbStatus, nil)
	if !errors.Is(err, ErrSocketOwner) {
		t.Errorf("got %v", err)
	}
	l.Close()
	<-heard
}

func TestPeerOwner(t *testing.T) {
	path, _ := serveAdmin(t, &fakeNode{})
	c, err := dialAdmin(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	uid, err := peerUID(c.(*net.UnixConn))
	if err != nil || uid != uint32(os.Geteuid()) {
		t.Errorf("uid %d, %v", uid, err)
	}
}

func TestCallOverTheSocket(t *testing.T) {
	node := &fakeNode{status: map[string]any{"node": NodeStatus{Mode: "solitary"}}}
	path, _ := serveAdmin(t, node)
	c := DialAdmin(filepath.Join(filepath.Dir(path), "nothing.sock"), path)
	b, err := c.Call(context.Background(), wire.VerbStatus, []byte(`{"what":"node"}`))
	if err != nil || !strings.Contains(string(b), `"mode":"solitary"`) {
		t.Fatalf("%s %v", b, err)
	}
	var e *wire.Error
	if _, err = c.Call(context.Background(), wire.VerbStatus, make([]byte, 8<<20)); !errors.Is(err, netio.ErrFrameTooLarge) {
		t.Errorf("too large, not sent: %v", err)
	}
	// Whoever sends it all the same is answered by the header alone.
	raw, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		raw.Write(wire.AppendRequest(nil, wire.VerbStatus, make([]byte, 8<<20)))
	}()
	status, refusal := readReply(t, raw)
	wantError(t, status, refusal, wire.CodeTooLarge)
	<-wrote
	_, err = c.Call(context.Background(), wire.VerbFollow, []byte(`{}`))
	if !errors.As(err, &e) || e.Code != wire.CodeRefusedByRule {
		t.Errorf("a machine's verb over the socket: %v", err)
	}
	_, err = DialAdmin(filepath.Join(filepath.Dir(path), "nothing.sock")).Call(context.Background(), wire.VerbStatus, nil)
	var nobody *NobodyError
	if !errors.As(err, &nobody) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no socket: %v", err)
	}
	if said := err.Error(); strings.Count(said, "nothing.sock") != 1 || strings.Contains(said, "Status") || strings.Contains(said, "lstat") {
		t.Errorf("no socket: %q names the path once, and neither verb nor system call", said)
	}
}

// TestManyAskers: more askers than places are all answered, and a silent one
// hinders nobody.
func TestManyAskers(t *testing.T) {
	path, _ := serveAdmin(t, &fakeNode{status: map[string]any{"node": NodeStatus{}}})
	silent, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var wait sync.WaitGroup
	fails := make(chan error, 3*localStreams)
	for range 3 * localStreams {
		wait.Go(func() {
			for begun := time.Now(); ; {
				_, err := DialAdmin(path).Call(context.Background(), wire.VerbStatus, []byte(`{"what":"node"}`))
				// A full backlog is told at once on Linux; a person's tool would say so.
				if errors.Is(err, syscall.EAGAIN) && time.Since(begun) < time.Minute {
					time.Sleep(time.Millisecond)
					continue
				}
				if err != nil {
					fails <- err
				}
				return
			}
		})
	}
	wait.Wait()
	close(fails)
	for err := range fails {
		t.Error(err)
	}
}

// TestRefusedByPermission: a socket that this account may not open is no dead
// node. Root may open everything.
func TestRefusedByPermission(t *testing.T) {
	err := &NobodyError{Where: "this machine's node", Err: fmt.Errorf("/x: %w", fs.ErrPermission)}
	f := failureOf(err, true)
	if f.Exit != 1 || !strings.Contains(f.Remedy, "sudo") {
		t.Errorf("%+v", f)
	}
}

func TestStoppedServerServesNoSocket(t *testing.T) {
	l, err := ListenAdmin(filepath.Join(shortDir(t), "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(ServerConfig{Backend: &fakeNode{}})
	s.Close()
	if err := s.ServeAdmin(l); !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
}

// brokenListener cannot accept twice, then is closed.
type brokenListener struct {
	net.Listener
	fails int
}

func (l *brokenListener) Accept() (net.Conn, error) {
	if l.fails++; l.fails <= 2 {
		return nil, syscall.EMFILE
	}
	return nil, net.ErrClosed
}
func (l *brokenListener) Close() error { return nil }

func TestAcceptGoesOn(t *testing.T) {
	l := &brokenListener{}
	s := NewServer(ServerConfig{Backend: &fakeNode{}})
	defer s.Close()
	began := time.Now()
	if err := s.ServeAdmin(l); !errors.Is(err, ErrStopped) || l.fails != 3 {
		t.Errorf("%v after %d", err, l.fails)
	}
	if time.Since(began) < 2*acceptPause {
		t.Error("it spins")
	}
}

// TestSocketIsMadeAnew: a socket whose name somebody removed is there again, with its mode, and closing removes that one; what
// else stands there by now is left alone.
func TestSocketIsMadeAnew(t *testing.T) {
	path := filepath.Join(shortDir(t), "admin.sock")
	l, err := ListenAdmin(path)
	if err != nil {
		t.Fatal(err)
	}
	ul := l.(*unixListener)
	accepted := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			c.Close()
		}
		accepted <- err
	}()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
		ul.mu.Lock()
		ul.inner.SetDeadline(time.Now()) // the next look is now
		ul.mu.Unlock()
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Lstat(path); err != nil || fi.Mode() != os.ModeSocket|soloMode {
		t.Errorf("%v %v", fi, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ul.renew()
	l.Close()
	ul.renew()
	if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("a file of somebody else's: %v %v", fi, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	ul.renew()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is made after it was closed: %v", err)
	}
}
