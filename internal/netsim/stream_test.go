package netsim

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

var (
	hostA = netip.MustParseAddr("10.0.0.1")
	hostB = netip.MustParseAddr("10.0.0.2")
)

// streams returns a connection from A to B and its other end.
func streams(t *testing.T, n *Net) (near, far net.Conn) {
	t.Helper()
	l, err := n.Listen(netip.AddrPortFrom(hostB, 80))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = n.Dialer(hostA)(t.Context(), "tcp", "10.0.0.2:80"); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

func TestStreamCarriesBothWays(t *testing.T) {
	defer goleak.VerifyNone(t)
	synctest.Test(t, func(t *testing.T) {
		n := NewNet()
		near, far := streams(t, n)
		if got := near.LocalAddr().(*net.TCPAddr).AddrPort().Addr(); got != hostA {
			t.Errorf("near end at %s", got)
		}
		if got := far.RemoteAddr().String(); got != near.LocalAddr().String() {
			t.Errorf("far end sees %s", got)
		}
		big := make([]byte, 3*streamBuffer)
		for i := range big {
			big[i] = byte(i % 251)
		}
		go func() {
			if _, err := near.Write(big); err != nil {
				t.Error(err)
			}
			near.Close()
		}()
		got, err := io.ReadAll(far)
		if err != nil || string(got) != string(big) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		if _, err := far.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to a closed end: %v", err)
		}
		far.Close()
		if n.Open() != 0 {
			t.Errorf("%d connections are left", n.Open())
		}
	})
}

func TestStreamRefusedAndTaken(t *testing.T) {
	n := NewNet()
	if _, err := n.Dialer(hostA)(t.Context(), "tcp", "10.0.0.2:80"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial to nobody: %v", err)
	}
	l, err := n.Listen(netip.AddrPortFrom(hostB, 80))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Listen(netip.AddrPortFrom(hostB, 80)); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listen twice: %v", err)
	}
	n.Name("b", hostB)
	c, err := n.Dialer(hostA)(t.Context(), "tcp", "b:80")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read on a connection that nobody accepted: %v", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
	var dns *net.DNSError
	if _, err := n.Dialer(hostA)(t.Context(), "tcp", "nowhere:80"); !errors.As(err, &dns) {
		t.Errorf("dial to an unknown name: %v", err)
	}
}

func TestStreamDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := streams(t, NewNet())
		defer far.Close()
		defer near.Close()
		began := time.Now()
		near.SetReadDeadline(began.Add(3 * time.Second))
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 3*time.Second {
			t.Errorf("read after %s: %v", time.Since(began), err)
		}
		near.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := near.Write(make([]byte, 2*streamBuffer))
		if n != streamBuffer || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write of %d bytes: %v", n, err)
		}
		near.SetDeadline(time.Time{})
		go func() {
			time.Sleep(time.Second)
			near.SetReadDeadline(time.Unix(1, 0))
		}()
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read woken by a past deadline: %v", err)
		}
	})
}

func TestStreamPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNet()
		near, far := streams(t, n)
		defer near.Close()
		n.Partition(func(a, b netip.Addr) bool { return true })
		if _, err := near.Write([]byte("late")); err != nil {
			t.Fatal(err)
		}
		far.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := far.Read(make([]byte, 4)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read through a partition: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := n.Dialer(hostA)(ctx, "tcp", "10.0.0.2:80"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial through a partition: %v", err)
		}
		far.SetReadDeadline(time.Time{})
		far.Close()
		near.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a close came through a partition: %v", err)
		}
		near.SetReadDeadline(time.Time{})
		go func() {
			time.Sleep(time.Second)
			n.Partition(nil)
		}()
		if _, err := near.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("after healing: %v", err)
		}
	})
}

func TestStreamDialWaitsForHealing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNet()
		l, err := n.Listen(netip.AddrPortFrom(hostB, 80))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		n.Partition(func(a, b netip.Addr) bool { return a == hostA || b == hostA })
		go func() {
			time.Sleep(time.Second)
			n.Partition(nil)
		}()
		c, err := n.Dialer(hostA)(t.Context(), "tcp", "10.0.0.2:80")
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if n.Dials() != 1 {
			t.Errorf("%d dials", n.Dials())
		}
	})
}

func TestStreamCutAndVanish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNet()
		near, far := streams(t, n)
		n.Cut(hostB, hostA)
		for _, c := range []net.Conn{near, far} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read after a cut: %v", err)
			}
		}
		near, far = streams(t, n)
		n.Vanish(hostB)
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read on the machine without power: %v", err)
		}
		near.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read from the machine without power: %v", err)
		}
		l, err := n.Listen(netip.AddrPortFrom(hostB, 80))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read after it came back: %v", err)
		}
	})
}

func TestStreamPorts(t *testing.T) {
	n := NewNet()
	n.port = lastPort - 1
	l, err := n.Listen(netip.AddrPortFrom(hostA, 0))
	if err != nil {
		t.Fatal(err)
	}
	m, err := n.Listen(netip.AddrPortFrom(hostA, 0))
	if err != nil || l.Addr().String() == m.Addr().String() {
		t.Fatalf("%s and %s: %v", l.Addr(), m.Addr(), err)
	}
}
