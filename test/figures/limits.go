package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// limit is what the machine itself does, without any of the product.
type limit struct {
	id, name string
	each     time.Duration // how long one round lasts
	prepare  func(m *measurer) (once func() error, done func(), err error)
}

// limitRounds is how many values a limit gets each of the two times it is measured.
const limitRounds = 5

var limits = []limit{
	{"sign", "bare Ed25519 signature of 400 bytes", 100 * time.Millisecond, prepareSign},
	{"verify", "bare Ed25519 verification of it", 100 * time.Millisecond, prepareVerify},
	{"udp", "bare UDP datagram of 400 bytes over loopback, one way", 100 * time.Millisecond, prepareUDP},
	{"tls", "bare TLS 1.3 record of 200 bytes over loopback, written and read", 100 * time.Millisecond, prepareRecord},
	{"handshake", "bare TLS 1.3 handshake over loopback, both with an Ed25519 certificate, both ends", 200 * time.Millisecond, prepareHandshake},
	{"fsync", "bare write and fsync of 256 bytes", 200 * time.Millisecond, prepareFsync},
	{"fork", "bare fork and exec of `sh -c :`", 200 * time.Millisecond, prepareFork},
}

// measureLimits adds a few rounds of each limit.
func (m *measurer) measureLimits(ctx context.Context) error {
	for _, l := range limits {
		once, done, err := l.prepare(m)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		each := l.each
		if m.quick {
			each = 5 * time.Millisecond
		}
		for range m.runs(limitRounds) {
			n, began := 0, time.Now()
			for time.Since(began) < each && ctx.Err() == nil {
				if err := once(); err != nil {
					done()
					return fmt.Errorf("%s: %w", l.name, err)
				}
				n++
			}
			if n > 0 {
				m.limits[l.id] = append(m.limits[l.id], float64(time.Since(began).Nanoseconds())/float64(n))
			}
		}
		done()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func prepareSign(*measurer) (func() error, func(), error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	text := make([]byte, 400)
	return func() error { ed25519.Sign(key, text); return nil }, func() {}, err
}

func prepareVerify(*measurer) (func() error, func(), error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	text := make([]byte, 400)
	sig := ed25519.Sign(key, text)
	return func() error {
		if !ed25519.Verify(public, text, sig) {
			return fmt.Errorf("a true signature was refused")
		}
		return nil
	}, func() {}, nil
}

// prepareUDP sends a datagram and reads it, on one goroutine: what the kernel takes for both.
func prepareUDP(*measurer) (func() error, func(), error) {
	to, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	from, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		to.Close()
		return nil, nil, err
	}
	b := make([]byte, 400)
	return func() error {
		if _, err := from.WriteTo(b, to.LocalAddr()); err != nil {
			return err
		}
		_, _, err := to.ReadFrom(b)
		return err
	}, func() { from.Close(); to.Close() }, nil
}

// ends are two TLS ends over loopback, each with a certificate of its own.
type ends struct {
	listener       net.Listener
	client, server *tls.Config
}

func newEnds() (*ends, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &ends{listener: l}
	for _, c := range []**tls.Config{&e.client, &e.server} {
		public, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			l.Close()
			return nil, err
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(24 * time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
		if err != nil {
			l.Close()
			return nil, err
		}
		// Like the product's: self-signed ends that are told apart by key; whose key it is does not matter here.
		*c = &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	}
	return e, nil
}

// connect makes one pair of connections, both handshakes done.
func (e *ends) connect() (client, server *tls.Conn, err error) {
	type accepted struct {
		conn *tls.Conn
		err  error
	}
	ch := make(chan accepted, 1)
	go func() {
		raw, err := e.listener.Accept()
		if err != nil {
			ch <- accepted{nil, err}
			return
		}
		c := tls.Server(raw, e.server)
		ch <- accepted{c, c.Handshake()}
	}()
	raw, err := net.Dial("tcp4", e.listener.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	client = tls.Client(raw, e.client)
	err = client.Handshake()
	if err != nil {
		raw.Close()
	}
	a := <-ch
	if err == nil {
		err = a.err
	}
	return client, a.conn, err
}

func prepareHandshake(*measurer) (func() error, func(), error) {
	e, err := newEnds()
	if err != nil {
		return nil, nil, err
	}
	return func() error {
		c, s, err := e.connect()
		if err != nil {
			return err
		}
		c.Close()
		s.Close()
		return nil
	}, func() { e.listener.Close() }, nil
}

func prepareRecord(*measurer) (func() error, func(), error) {
	e, err := newEnds()
	if err != nil {
		return nil, nil, err
	}
	c, s, err := e.connect()
	if err != nil {
		e.listener.Close()
		return nil, nil, err
	}
	b := make([]byte, 200)
	return func() error {
		if _, err := s.Write(b); err != nil {
			return err
		}
		_, err := io.ReadFull(c, b)
		return err
	}, func() { c.Close(); s.Close(); e.listener.Close() }, nil
}

// prepareFsync writes where the nodes' state directories are.
func prepareFsync(m *measurer) (func() error, func(), error) {
	f, err := os.Create(filepath.Join(m.dir, "fsync"))
	if err != nil {
		return nil, nil, err
	}
	b := make([]byte, 256)
	return func() error {
		if _, err := f.Write(b); err != nil {
			return err
		}
		return f.Sync()
	}, func() { f.Close() }, nil
}

func prepareFork(*measurer) (func() error, func(), error) {
	return func() error { return exec.Command("sh", "-c", ":").Run() }, func() {}, nil
}
