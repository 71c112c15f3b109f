package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"pace-node/internal/wire"
)

// fakeNode is a Backend that records what reached it.
type fakeNode struct {
	mu       sync.Mutex
	calls    []string
	access   wire.Access
	denied   *wire.Error
	fail     error // answered by every verb
	refuse   error // answered by Cluster and Queue
	status   map[string]any
	statusOf func(wire.StatusRequest) (any, error) // in the place of status
	list     EnrollList
	queue    map[string]any
	clusters []wire.ClusterRequest
	controls []wire.EnrollControl
	queues   []wire.QueueRequest
	wait     func(ctx context.Context, push func(wire.EnrollAnswer) error) error
	follow   func(ctx context.Context, push func(...[]byte) error) error
	work     func(ctx context.Context) error
	slow     func(ctx context.Context) error // before Status is answered
}

func (f *fakeNode) saw(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, what)
	return f.fail
}

func (f *fakeNode) setFail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = err
}

func (f *fakeNode) seen() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...)
}

func (f *fakeNode) Access(Peer) (wire.Access, *wire.Error) { return f.access, f.denied }

func (f *fakeNode) Hello(_ context.Context, _ Peer, h wire.Hello) (wire.Hello, error) {
	return wire.Hello{ID: "me", Cluster: h.Cluster}, f.saw("Hello")
}

func (f *fakeNode) Enroll(ctx context.Context, _ Peer, r wire.EnrollRequest, push func(wire.EnrollAnswer) error) (wire.EnrollAnswer, func() error, error) {
	first := wire.EnrollAnswer{Outcome: wire.OutcomePending, HasChallenge: true}
	if err := f.saw("Enroll " + r.ID); err != nil {
		return first, nil, err
	}
	if f.wait == nil {
		return first, nil, nil
	}
	return first, func() error { return f.wait(ctx, push) }, nil
}

func (f *fakeNode) EnrollControl(_ context.Context, _ Peer, c wire.EnrollControl) ([]byte, error) {
	f.mu.Lock()
	f.controls = append(f.controls, wire.EnrollControl{Op: c.Op, Argument: append([]byte(nil), c.Argument...)})
	f.mu.Unlock()
	if err := f.saw("EnrollControl " + c.Op.String()); err != nil && c.Op != wire.ControlList {
		return nil, err
	} else if err != nil {
		return nil, err
	}
	if c.Op == wire.ControlList {
		return EncodeDocument(f.list)
	}
	return EncodeDocument(Done{V: 1, Said: c.Op.String()})
}

func (f *fakeNode) Follow(ctx context.Context, _ Peer, r wire.FollowRequest) (func(func(...[]byte) error) error, error) {
	if err := f.saw("Follow"); err != nil {
		return nil, err
	}
	return func(push func(...[]byte) error) error {
		if f.follow == nil {
			return nil
		}
		return f.follow(ctx, push)
	}, nil
}

func (f *fakeNode) Announce(_ context.Context, _ Peer, a wire.Announce) error {
	return f.saw("Announce " + a.Name)
}

func (f *fakeNode) StartupEvent(_ context.Context, _ Peer, e wire.StartupEvent) (wire.StartupEventAnswer, error) {
	return wire.StartupEventAnswer{Admitted: true}, f.saw("StartupEvent " + e.Node)
}

func (f *fakeNode) Query(context.Context, Peer) (wire.QueryAnswer, error) {
	return wire.QueryAnswer{ID: "me"}, f.saw("Query")
}

func (f *fakeNode) Work(ctx context.Context, _ Peer, w wire.WorkRequest) (wire.WorkAnswer, error) {
	if err := f.saw("Work " + w.Step); err != nil {
		return wire.WorkAnswer{}, err
	}
	if f.work != nil {
		if err := f.work(ctx); err != nil {
			return wire.WorkAnswer{}, err
		}
	}
	return wire.WorkAnswer{OK: true}, nil
}

func (f *fakeNode) Status(ctx context.Context, _ Peer, r wire.StatusRequest) (json.RawMessage, error) {
	if err := f.saw("Status " + r.What); err != nil {
		return nil, err
	}
	if f.slow != nil {
		if err := f.slow(ctx); err != nil {
			return nil, err
		}
	}
	if f.statusOf != nil {
		doc, err := f.statusOf(r)
		if err != nil {
			return nil, err
		}
		return EncodeDocument(doc)
	}
	return EncodeDocument(f.status[r.What])
}

func (f *fakeNode) Cluster(_ context.Context, _ Peer, r wire.ClusterRequest) (wire.ClusterAnswer, error) {
	f.mu.Lock()
	f.clusters = append(f.clusters, r)
	f.mu.Unlock()
	return wire.ClusterAnswer{Revision: 7, Text: "did " + r.Op}, cmp.Or(f.saw("Cluster "+r.Op), f.refuse)
}

func (f *fakeNode) Queue(_ context.Context, _ Peer, r wire.QueueRequest) (json.RawMessage, error) {
	f.mu.Lock()
	f.queues = append(f.queues, r)
	f.mu.Unlock()
	if err := f.saw("Queue " + r.Op); err != nil {
		return nil, err
	}
	if f.refuse != nil {
		return nil, f.refuse
	}
	if d, ok := f.queue[r.Op]; ok {
		return EncodeDocument(d)
	}
	return EncodeDocument(Done{V: 1, Said: r.Op + " " + r.ID})
}

func (f *fakeNode) FleetSummary(_ context.Context, _ Peer, nonce [32]byte) (wire.FleetSummaryAnswer, error) {
	return wire.FleetSummaryAnswer{Raw: nonce[:], Key: nonce}, f.saw("FleetSummary")
}

// pipeTo serves one stream of a peer and returns the asker's end. Everything has
// ended when the test does.
func pipeTo(t *testing.T, s *Server, p Peer) net.Conn {
	t.Helper()
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ServeStream(context.Background(), p, there)
	}()
	t.Cleanup(func() {
		here.Close()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Error("the stream was not ended")
		}
	})
	return here
}

// exchange sends a request and reads one reply.
func exchange(t *testing.T, c net.Conn, v wire.Verb, payload []byte) (wire.Status, []byte) {
	t.Helper()
	go c.Write(wire.AppendRequest(nil, v, payload))
	return readReply(t, c)
}

func readReply(t *testing.T, c net.Conn) (wire.Status, []byte) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	var h [wire.ReplyHeaderSize]byte
	if err := readFull(c, h[:]); err != nil {
		t.Fatalf("no reply: %v", err)
	}
	status, n, err := wire.ParseReplyHeader(h)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, n)
	if err := readFull(c, b); err != nil {
		t.Fatal(err)
	}
	return status, b
}

func wantError(t *testing.T, status wire.Status, b []byte, code wire.ErrorCode) *wire.Error {
	t.Helper()
	if status != wire.StatusError {
		t.Fatalf("status %d, want an error of code %s", status, code)
	}
	e, err := wire.DecodeError(b)
	if err != nil {
		t.Fatal(err)
	}
	if e.Code != code {
		t.Fatalf("code %s (%s), want %s", e.Code, e.Text, code)
	}
	return e
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// shortDir is a folder whose path leaves room for a socket on every system.
func shortDir(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/tmp", "pn")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// socketPath is a fresh name for the administrators' socket or pipe.
func socketPath(t *testing.T) string {
	dir := shortDir(t)
	if runtime.GOOS == "windows" {
		return `\\.\pipe\pace-node-test-` + filepath.Base(filepath.Dir(dir)) + filepath.Base(dir)
	}
	return filepath.Join(dir, "admin.sock")
}

// serveAdmin serves a backend at a real socket.
func serveAdmin(t *testing.T, b Backend) (path string, s *Server) {
	t.Helper()
	path = socketPath(t)
	l, err := ListenAdmin(path)
	if err != nil {
		t.Fatal(err)
	}
	s = NewServer(ServerConfig{Backend: b})
	done := make(chan error, 1)
	go func() { done <- s.ServeAdmin(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; !errors.Is(err, ErrStopped) {
			t.Errorf("ServeAdmin: %v", err)
		}
	})
	return path, s
}

func contextWithCancel(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ctx, cancel
}

// dialOnly is a machine whose --scheduler is a server in this process.
func dialOnly(s *Server) RunDeps {
	return RunDeps{DialScheduler: func(context.Context, string) (Transport, error) { return pipeTransport{s, Peer{}}, nil }}
}
