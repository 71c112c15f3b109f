package netio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/wire"
)

// bytesConn reads from memory, and fails a test's wish to read on after a refused header.
type bytesConn struct {
	net.Conn
	in  *bytes.Reader
	out bytes.Buffer
}

func (c *bytesConn) Read(b []byte) (int, error)       { return c.in.Read(b) }
func (c *bytesConn) Write(b []byte) (int, error)      { return c.out.Write(b) }
func (c *bytesConn) SetReadDeadline(time.Time) error  { return nil }
func (c *bytesConn) SetWriteDeadline(time.Time) error { return nil }
func (c *bytesConn) SetDeadline(time.Time) error      { return nil }
func (c *bytesConn) Close() error                     { return nil }

// Open makes it an Opener of itself.
func (c *bytesConn) Open(context.Context) (net.Conn, error) { return c, nil }

func memory(b []byte) *bytesConn { return &bytesConn{in: bytes.NewReader(b)} }

func TestReadRequest(t *testing.T) {
	request := func(magic, version, verb byte, length uint32, payload string) []byte {
		b := []byte{magic, version, verb, 0, 0, 0, 0}
		binary.BigEndian.PutUint32(b[3:], length)
		return append(b, payload...)
	}
	for _, c := range []struct {
		name string
		in   []byte
		want wire.ErrorCode // 0: fine
		left int            // bytes not read
		text string
	}{
		{"a Hello", request(0xFC, 1, 0x13, 2, "{}more"), 0, 4, ""},
		{"nothing", nil, wire.CodeMalformed, 0, "no request came"},
		{"half a header", request(0xFC, 1, 0x13, 2, "")[:4], wire.CodeMalformed, 0, "no request came"},
		{"all wrong: the magic first", request(0xFD, 9, 0x77, 1<<31, "x"), wire.CodeMalformed, 1, "the request does not follow its format"},
		{"then the version", request(0xFC, 9, 0x77, 1<<31, "x"), wire.CodeUnsupportedVersion, 1, "this node speaks protocol versions 1 to 1, the request has 9"},
		{"version 0", request(0xFC, 0, 0x13, 2, "{}"), wire.CodeUnsupportedVersion, 2, "this node speaks protocol versions 1 to 1, the request has 0"},
		{"then the verb", request(0xFC, 1, 0x77, 1<<31, "x"), wire.CodeUnknownVerb, 1, "verb 0x77 is unknown to this node"},
		{"then the length", request(0xFC, 1, 0x10, 1025, "x"), wire.CodeTooLarge, 1, "Enroll takes 1024 bytes, this request has 1025"},
		{"4 GiB claimed", request(0xFC, 1, 0x17, 1<<32-1, "x"), wire.CodeTooLarge, 1, "Work takes 4194304 bytes, this request has 4294967295"},
		{"less than claimed", request(0xFC, 1, 0x13, 5, "{}"), wire.CodeMalformed, 0, "the request ends early"},
	} {
		conn := memory(c.in)
		row, payload, err := ReadRequest(conn)
		switch {
		case conn.in.Len() != c.left:
			t.Errorf("%s: %d bytes are left, want %d", c.name, conn.in.Len(), c.left)
		case c.want == 0 && (err != nil || row.Name != "Hello" || string(payload) != "{}"):
			t.Errorf("%s: %v %q %v", c.name, row, payload, err)
		case c.want != 0 && (err == nil || err.Code != c.want || err.Text != c.text || payload != nil):
			t.Errorf("%s: %v, want %s %q", c.name, err, c.want, c.text)
		}
	}
}

// TestTooLargeIsAnsweredBeforeReading: the answer comes while the peer has sent nothing but the header, over a
// connection without any buffer.
func TestTooLargeIsAnsweredBeforeReading(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		defer far.Close()
		_, _, err := ReadRequest(far)
		WriteError(far, err)
	}()
	near.SetDeadline(time.Now().Add(patience))
	if _, err := near.Write([]byte{0xFC, 1, 0x1F, 0, 1, 0, 0}); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(near)
	if err != nil || len(answer) < 5 || answer[0] != byte(wire.StatusError) {
		t.Fatal(answer, err)
	}
	if e, err := wire.DecodeError(answer[5:]); err != nil || e.Code != wire.CodeTooLarge {
		t.Fatal(e, err)
	}
}

// TestSlowPayload: a payload beyond 4 KiB has a minute, a small one 5 s.
func TestSlowPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for length, want := range map[uint32]time.Duration{100: 5 * time.Second, 8 << 10: time.Minute} {
			near, far := net.Pipe()
			go near.Write(binary.BigEndian.AppendUint32([]byte{0xFC, 1, 0x17}, length))
			began := time.Now()
			_, _, err := ReadRequest(far)
			if err == nil || err.Text != "the request ends early in time" || time.Since(began) != want {
				t.Errorf("%d bytes: %v after %s", length, err, time.Since(began))
			}
			near.Close()
			far.Close()
		}
	})
}

func TestWriteReply(t *testing.T) {
	c := memory(nil)
	if err := WriteReply(c, wire.StatusPush, []byte("ab")); err != nil || !bytes.Equal(c.out.Bytes(), []byte{4, 0, 0, 0, 2, 'a', 'b'}) {
		t.Errorf("%x %v", c.out.Bytes(), err)
	}
	c = memory(nil)
	if err := WriteReply(c, wire.StatusOK, make([]byte, wire.MaxAnswer+1)); !errors.Is(err, ErrFrameTooLarge) || c.out.Len() != 0 {
		t.Errorf("%d bytes, %v", c.out.Len(), err)
	}
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		began := time.Now()
		if err := WriteReply(far, wire.StatusOK, nil); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 30*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestCallJudgesAnswers(t *testing.T) {
	reply := func(status byte, length uint32, payload string) []byte {
		b := []byte{status, 0, 0, 0, 0}
		binary.BigEndian.PutUint32(b[1:], length)
		return append(b, payload...)
	}
	for _, c := range []struct {
		name string
		verb wire.Verb
		in   []byte
		want error // nil: fine
	}{
		{"fine", wire.VerbHello, reply(1, 2, "{}"), nil},
		{"nothing", wire.VerbHello, nil, io.EOF},
		{"half", wire.VerbHello, reply(1, 9, "{}"), io.ErrUnexpectedEOF},
		{"another status", wire.VerbHello, reply(3, 2, "{}"), ErrAnswer},
		{"a push", wire.VerbHello, reply(4, 2, "{}"), ErrAnswer},
		{"more than a mebibyte", wire.VerbHello, reply(1, wire.MaxAnswer+1, ""), ErrAnswer},
		{"more than the verb's", wire.VerbFleetSummary, reply(1, 64<<10+1, ""), ErrAnswer},
		{"an error that is none", wire.VerbHello, reply(2, 2, "{}"), ErrAnswer},
	} {
		conn := memory(c.in)
		got, err := Call(t.Context(), conn, c.verb, []byte("x"))
		if c.want == nil && (err != nil || string(got) != "{}") || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %q %v, want %v", c.name, got, err, c.want)
		}
		if want := append([]byte{0xFC, 1, byte(c.verb), 0, 0, 0, 1}, 'x'); !bytes.Equal(conn.out.Bytes(), want) {
			t.Errorf("%s: sent %x", c.name, conn.out.Bytes())
		}
	}
	// A push before the answer, and an answer among the pushes.
	if _, _, _, err := Subscribe(t.Context(), memory(reply(4, 0, "")), wire.VerbFollow, nil); !errors.Is(err, ErrAnswer) {
		t.Error(err)
	}
	_, next, stop, err := Subscribe(t.Context(), memory(append(reply(1, 0, ""), reply(1, 0, "")...)), wire.VerbFollow, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := next(); !errors.Is(err, ErrAnswer) {
		t.Error(err)
	}
}

// TestClaimedLengthReservesLittle: a claim of a mebibyte with nothing behind it reserves a step, not the claim.
func TestClaimedLengthReservesLittle(t *testing.T) {
	r := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := readGrowing(bytes.NewReader([]byte("x")), wire.MaxAnswer); err == nil {
				b.Fatal("read")
			}
		}
	})
	if got := r.AllocedBytesPerOp(); got > 200<<10 {
		t.Errorf("%d bytes for a claim", got)
	}
}

func TestWatchClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		ctx, stop := WatchClose(t.Context(), far)
		time.AfterFunc(time.Second, func() { near.Close() })
		<-ctx.Done()
		stop()
		near, far = net.Pipe()
		defer near.Close()
		ctx, stop = WatchClose(t.Context(), far)
		stop()
		if ctx.Err() == nil {
			t.Error("it goes on after stop")
		}
		far.Close()
	})
}

func FuzzReadRequest(f *testing.F) {
	f.Add([]byte{0xFC, 1, 0x13, 0, 0, 0, 2, '{', '}'})
	f.Add([]byte{0xFC, 1, 0x17, 0xFF, 0xFF, 0xFF, 0xFF})
	f.Fuzz(func(t *testing.T, b []byte) {
		conn := memory(b)
		row, payload, err := ReadRequest(conn)
		if err != nil {
			if payload != nil || err.Code == 0 {
				t.Fatalf("%q: %q beside %v", b, payload, err)
			}
			return
		}
		if len(payload) > int(row.Ceiling) || !bytes.Equal(b[:len(b)-conn.in.Len()], wire.AppendRequest(nil, row.Verb, payload)) {
			t.Fatalf("%q: %v %q", b, row, payload)
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add(byte(0x12), []byte{1, 0, 0, 0, 0, 4, 0, 0, 0, 1, 'x'})
	f.Add(byte(0x13), []byte{2, 0, 0, 0, 1, 0})
	f.Fuzz(func(t *testing.T, verb byte, b []byte) {
		row, ok := wire.LookupVerb(wire.Verb(verb))
		if !ok {
			return
		}
		conn := memory(b)
		for {
			before := conn.in.Len()
			_, payload, err := readReply(conn, row)
			if err != nil {
				return
			}
			if len(payload) > int(row.AnswerCeiling) || before-conn.in.Len() != wire.ReplyHeaderSize+len(payload) {
				t.Fatalf("%q: %d bytes", b, len(payload))
			}
		}
	})
}

// FuzzGate: however the bytes are cut into reads, the verdict is the same.
func FuzzGate(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 'a', 'b', 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9}, 3)
	f.Add(bytes.Repeat([]byte{0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9}, 70), 7)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		stranger := func() *gate { return &gate{parity: 1, trusted: func() bool { return false }} }
		now := time.Unix(1000, 0)
		whole := stranger().pass(b, now)
		g, pieces := stranger(), true
		for rest := b; len(rest) > 0 && pieces; {
			n := min(len(rest), 1+max(cut, 0)%64)
			pieces = g.pass(rest[:n], now)
			rest = rest[n:]
		}
		if whole != pieces {
			t.Fatalf("in one piece %v, in pieces %v", whole, pieces)
		}
	})
}

func FuzzRaftHeader(f *testing.F) {
	h := wire.RaftStreamHeader{Cluster: "c", Source: "a", Target: "b", Epoch: 3}
	f.Add(append(h.Append(nil), "raft"...))
	f.Add([]byte{0, 0, 0, 65})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		raw, err := readRaftHeader(r)
		if err != nil {
			return
		}
		if len(raw) > wire.MaxRaftStreamHeader || !bytes.Equal(raw, b[:len(b)-r.Len()]) {
			t.Fatalf("%x is not the beginning of %x", raw, b)
		}
		if h, err := wire.DecodeRaftStreamHeader(raw); err == nil && !bytes.Equal(h.Append(nil), raw) {
			t.Fatalf("%x reads as %+v", raw, h)
		}
	})
}
