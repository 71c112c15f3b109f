package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"time"

	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

const (
	// callTime bounds one request and its answer: a verb that needs a quorum ends
	// within 30 s, and the rest is for the way.
	callTime = 35 * time.Second
	// dialTime bounds a connection.
	dialTime = 5 * time.Second
)

// Transport is a session to another machine's 0xFC endpoint. Each request takes
// a stream of its own.
type Transport interface {
	Open(ctx context.Context) (net.Conn, error)
	Close() error
}

// Client asks verbs of one node, each on a stream of its own.
type Client struct {
	where string // for a person
	open  func(ctx context.Context) (net.Conn, error)
	close func() error
}

// DialAdmin returns a client of the administrators' socket: of paths, the first
// that exists. It connects at each call. The owner of the socket is checked
// before anything is sent.
func DialAdmin(paths ...string) *Client {
	return &Client{
		where: "this machine's node",
		open: func(ctx context.Context) (net.Conn, error) {
			var last error
			for _, path := range paths {
				c, err := dialAdmin(ctx, path)
				if err == nil {
					return c, nil
				}
				var twice *fs.PathError // it names the path too
				if errors.As(err, &twice) {
					err = twice.Err
				}
				err = fmt.Errorf("%s: %w", path, err)
				if !errors.Is(err, fs.ErrNotExist) {
					return nil, err
				}
				last = err
			}
			if last == nil {
				last = fmt.Errorf("no administrators' socket is known: %w", fs.ErrNotExist)
			}
			return nil, last
		},
		close: func() error { return nil },
	}
}

// PackagedSocket is the administrators' socket where the Linux packages made its
// folder.
const PackagedSocket = "/run/pace-node/admin.sock"

// AdminPaths returns where a client looks for the administrators' socket, in
// order. packaged says that the state directory is the platform's default one:
// only then may it be the packaged service's socket.
func AdminPaths(socket string, packaged bool) []string {
	if packaged {
		return []string{PackagedSocket, socket}
	}
	return []string{socket}
}

// NewClient returns a client of a session that is open. where names the other end
// for a person.
func NewClient(t Transport, where string) *Client {
	return &Client{where: where, open: t.Open, close: t.Close}
}

// Close ends the session.
func (c *Client) Close() error { return c.close() }

// NobodyError: no answer came.
type NobodyError struct {
	Where string
	Err   error
}

func (e *NobodyError) Error() string { return e.Where + " does not answer: " + e.Err.Error() }
func (e *NobodyError) Unwrap() error { return e.Err }

// Call sends one request and returns the answer's payload. An error frame is a
// *wire.Error; no answer is a *NobodyError. Without a deadline in ctx it gives
// the node 35 s.
func (c *Client) Call(ctx context.Context, verb wire.Verb, payload []byte) ([]byte, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTime)
		defer cancel()
	}
	nobody := func(err error) error { return &NobodyError{Where: c.where, Err: err} }
	var unopened error
	answer, err := netio.Call(ctx, opener(func(ctx context.Context) (net.Conn, error) {
		dial, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		conn, err := c.open(dial)
		unopened = err
		return conn, err
	}), verb, payload)
	var refused *wire.Error
	switch {
	case err == nil:
		return answer, nil
	case errors.As(err, &refused):
		return nil, refused
	case errors.Is(err, netio.ErrFrameTooLarge):
		return nil, fmt.Errorf("the request is too large: %w", err)
	case unopened != nil:
		return nil, nobody(unopened) // which verb could not be sent says nothing
	}
	return nil, nobody(err)
}

// opener makes a function an Opener.
type opener func(ctx context.Context) (net.Conn, error)

func (o opener) Open(ctx context.Context) (net.Conn, error) { return o(ctx) }

// ask sends a JSON document and reads one.
func ask[T any](ctx context.Context, call func(context.Context, wire.Verb, []byte) ([]byte, error), verb wire.Verb, request any) (T, error) {
	var zero T
	payload, err := json.Marshal(request)
	if err != nil {
		return zero, fmt.Errorf("control: encode %T: %w", request, err)
	}
	return answer[T](ctx, call, verb, payload)
}

// answer sends a payload and reads a JSON document.
func answer[T any](ctx context.Context, call func(context.Context, wire.Verb, []byte) ([]byte, error), verb wire.Verb, payload []byte) (T, error) {
	var zero T
	b, err := call(ctx, verb, payload)
	if err != nil {
		return zero, err
	}
	doc, err := wire.DecodeDocument[T](b)
	if err != nil {
		return zero, fmt.Errorf("the answer of %s is no document of this version: %w", verb, err)
	}
	return doc, nil
}

// silentRemedy is what to do where this machine's node does not answer; RunDeps.Silent
// knows better how the service is.
const silentRemedy = "start the node, check --state-dir, or name another machine with --scheduler=HOST"

// nobodyRemedy says what to do where no answer came.
func nobodyRemedy(err error, socket bool) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "run it with sudo, or as a member of the group pace-admin"
	case errors.Is(err, ErrSocketOwner), errors.Is(err, ErrNotSocket):
		return "look at who made that file; the node's own socket belongs to root or to the service's account"
	case errors.Is(err, context.DeadlineExceeded):
		return "look at the node's log, then try again"
	case socket:
		return silentRemedy
	}
	return "check that the machine runs and that TCP port 6674 reaches it"
}
