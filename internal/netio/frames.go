package netio

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"pace-node/internal/wire"
)

// Opener opens streams: a Session, or the administrators' socket, one connection each.
type Opener interface {
	Open(ctx context.Context) (net.Conn, error)
}

// ReadRequest reads one request of a stream: its header within 5 s, judged against the table of verbs, and then its
// payload. Where it returns an error nothing of the payload was read or reserved; the caller answers with WriteError and
// closes the stream. Who may ask is not judged here.
func ReadRequest(stream net.Conn) (wire.VerbRow, []byte, *wire.Error) {
	_ = stream.SetReadDeadline(time.Now().Add(requestWithin))
	var h [wire.RequestHeaderSize]byte
	if _, err := io.ReadFull(stream, h[:]); err != nil {
		return wire.VerbRow{}, nil, readError(err, "no request came")
	}
	row, length, code := wire.ParseRequestHeader(h)
	if code != 0 {
		return row, nil, headerError(code, row, h)
	}
	if length > FirstRequestCeiling {
		_ = stream.SetReadDeadline(time.Now().Add(largePayloadWithin))
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(stream, payload); err != nil {
		return row, nil, readError(err, "the request ends early")
	}
	_ = stream.SetReadDeadline(time.Time{})
	return row, payload, nil
}

// headerError says what is wrong with a request's header.
func headerError(code wire.ErrorCode, row wire.VerbRow, h [wire.RequestHeaderSize]byte) *wire.Error {
	switch code {
	case wire.CodeTooLarge:
		return wire.NewError(code, fmt.Sprintf("%s takes %d bytes, this request has %d", row.Name, row.Ceiling, binary.BigEndian.Uint32(h[3:])), "")
	case wire.CodeUnsupportedVersion:
		return wire.NewError(code, fmt.Sprintf("this node speaks protocol versions %d to %d, the request has %d", wire.OldestProtocolVersion, wire.ProtocolVersion, h[1]), "use programs whose versions are neighbours")
	case wire.CodeUnknownVerb:
		return wire.NewError(code, fmt.Sprintf("verb %#02x is unknown to this node", h[2]), "")
	}
	return wire.NewError(code, "", "")
}

// readError words a failed read: a deadline is the peer's slowness, anything else a stream that ended.
func readError(err error, what string) *wire.Error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return wire.NewError(wire.CodeMalformed, what+" in time", "send the whole request at once")
	}
	return wire.NewError(wire.CodeMalformed, what, "")
}

// WriteReply writes one reply frame: an answer, an error or a push. A payload beyond wire.MaxAnswer is refused on this
// side with ErrFrameTooLarge. A peer that does not read is given up after 30 s.
func WriteReply(stream net.Conn, status wire.Status, payload []byte) error {
	if len(payload) > wire.MaxAnswer {
		return fmt.Errorf("reply of %d bytes: %w", len(payload), ErrFrameTooLarge)
	}
	_ = stream.SetWriteDeadline(time.Now().Add(writeWithin))
	_, err := stream.Write(wire.AppendReply(make([]byte, 0, wire.ReplyHeaderSize+len(payload)), status, payload))
	return err
}

// WriteError writes an error frame.
func WriteError(stream net.Conn, e *wire.Error) error {
	return WriteReply(stream, wire.StatusError, e.Append(nil))
}

// Call opens a stream, sends one request and returns its answer. A refusal by the peer is a *wire.Error. ctx bounds it
// all; without a deadline it waits until the peer answers or the session ends.
func Call(ctx context.Context, s Opener, verb wire.Verb, payload []byte) ([]byte, error) {
	stream, stop, row, err := ask(ctx, s, verb, payload)
	if err != nil {
		return nil, err
	}
	defer stop()
	status, reply, err := readReply(stream, row)
	switch {
	case err != nil:
		return nil, callError(ctx, verb, err)
	case status != wire.StatusOK:
		return nil, fmt.Errorf("%s: a push came in place of an answer: %w", verb, ErrAnswer)
	}
	return reply, nil
}

// ask opens a stream and sends the request. stop closes the stream and waits for what watches ctx.
func ask(ctx context.Context, s Opener, verb wire.Verb, payload []byte) (net.Conn, func(), wire.VerbRow, error) {
	row, ok := wire.LookupVerb(verb)
	if !ok {
		return nil, nil, row, fmt.Errorf("verb %#02x is unknown to this node", uint8(verb))
	}
	if len(payload) > int(row.Ceiling) {
		return nil, nil, row, fmt.Errorf("%s of %d bytes, at most %d: %w", verb, len(payload), row.Ceiling, ErrFrameTooLarge)
	}
	stream, err := s.Open(ctx)
	if err != nil {
		return nil, nil, row, fmt.Errorf("%s: %w", verb, err)
	}
	ended := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = stream.SetDeadline(time.Unix(1, 0)) // wakes whoever reads or writes
	})
	var once sync.Once
	stop := func() {
		once.Do(func() {
			if !unwatch() {
				<-ended
			}
			_ = stream.Close()
		})
	}
	if _, err := stream.Write(wire.AppendRequest(make([]byte, 0, wire.RequestHeaderSize+len(payload)), verb, payload)); err != nil {
		// The peer may have refused and closed already: its answer says more than the write's error.
		if _, _, rerr := readReply(stream, row); isWireError(rerr) {
			err = rerr
		}
		stop()
		return nil, nil, row, callError(ctx, verb, err)
	}
	return stream, stop, row, nil
}

func isWireError(err error) bool {
	var e *wire.Error
	return errors.As(err, &e)
}

// callError prefers the context's end over the stream's word for it.
func callError(ctx context.Context, verb wire.Verb, err error) error {
	if !isWireError(err) && ctx.Err() != nil {
		err = ctx.Err()
	}
	return fmt.Errorf("%s: %w", verb, err)
}

// readReply reads one frame; an error frame is returned as a *wire.Error. Lengths are checked before anything is read.
func readReply(stream net.Conn, row wire.VerbRow) (wire.Status, []byte, error) {
	var h [wire.ReplyHeaderSize]byte
	if _, err := io.ReadFull(stream, h[:]); err != nil {
		return 0, nil, fmt.Errorf("no answer: %w", err)
	}
	status, length, err := wire.ParseReplyHeader(h)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	if length > row.AnswerCeiling {
		return 0, nil, fmt.Errorf("%w: %d bytes, at most %d", ErrAnswer, length, row.AnswerCeiling)
	}
	payload, err := readGrowing(stream, int(length))
	if err != nil {
		return 0, nil, fmt.Errorf("the answer ends early: %w", err)
	}
	if status == wire.StatusError {
		e, err := wire.DecodeError(payload)
		if err != nil {
			return 0, nil, fmt.Errorf("%w: %w", ErrAnswer, err)
		}
		return status, nil, e
	}
	return status, payload, nil
}

// readGrowing reads length bytes and reserves them as they come: the length is only a claim.
func readGrowing(r io.Reader, length int) ([]byte, error) {
	const step = 64 << 10
	out := make([]byte, 0, min(length, step))
	for len(out) < length {
		n := min(step, length-len(out))
		at := len(out)
		out = append(out, make([]byte, n)...)
		if _, err := io.ReadFull(r, out[at:]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Subscribe opens a stream, sends one request, and returns its first answer, then each push by next, until the peer
// ends the stream (io.EOF), refuses (*wire.Error), ctx ends, or stop is called. stop must be called; it may be called
// at any time and more than once. next is for one goroutine.
func Subscribe(ctx context.Context, s Opener, verb wire.Verb, payload []byte) (first []byte, next func() ([]byte, error), stop func(), err error) {
	stream, stop, row, err := ask(ctx, s, verb, payload)
	if err != nil {
		return nil, nil, nil, err
	}
	status, first, err := readReply(stream, row)
	if err == nil && status != wire.StatusOK {
		err = fmt.Errorf("a push came before the answer: %w", ErrAnswer)
	}
	if err != nil {
		stop()
		return nil, nil, nil, callError(ctx, verb, err)
	}
	next = func() ([]byte, error) {
		status, push, err := readReply(stream, row)
		if err == nil && status != wire.StatusPush {
			err = fmt.Errorf("a second answer came in place of a push: %w", ErrAnswer)
		}
		if err != nil {
			return nil, callError(ctx, verb, err)
		}
		return push, nil
	}
	return first, next, stop, nil
}

// WatchClose returns a context that ends when the peer closes its side of a stream that keeps open, and a function that
// gives the watch up and waits for it. Meanwhile nobody else may read the stream; what the peer still sends ends it too,
// for a stream carries one request.
func WatchClose(ctx context.Context, stream net.Conn) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		var b [1]byte
		_, _ = stream.Read(b[:])
	}()
	return ctx, func() {
		cancel()
		_ = stream.SetReadDeadline(time.Unix(1, 0))
		<-done
	}
}
