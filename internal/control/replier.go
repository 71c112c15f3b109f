package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"pace-node/internal/wire"
)

// replier writes the frames of one stream. Answers that are pushed before the
// first one wait for it.
type replier struct {
	ctx     context.Context
	stream  net.Conn
	mu      sync.Mutex
	started bool
	early   [][]byte
	last    func(push func(...[]byte) error) error // what a verb that lasts does after it was let in
	poll    bool                                   // nobody reads the stream: look whether it has ended
	polled  time.Time
}

// pollEvery is how often a stream that nobody reads is looked at: a few heartbeats' time.
const pollEvery = 15 * time.Second

// gone looks whether the asker has closed its side, without waiting.
func (r *replier) gone(now time.Time) bool {
	if !r.poll || now.Sub(r.polled) < pollEvery {
		return false
	}
	r.polled = now
	r.stream.SetReadDeadline(time.Unix(1, 0))
	n, err := r.stream.Read(make([]byte, 1))
	var timeout net.Error
	return n > 0 || !errors.As(err, &timeout) || !timeout.Timeout()
}

// pushImplicit is push for a verb whose first answer is empty.
func (r *replier) pushImplicit(payloads ...[]byte) error {
	if r.gone(time.Now()) {
		return errGone
	}
	return r.push(true, payloads...)
}

// earlyPushes is how many pushes may wait for the first answer: an approval and
// a repeat; more would be a fault of the backend.
const earlyPushes = 8

func (r *replier) write(status wire.Status, payload []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writeLocked(status, payload)
}

// frameBuffers are what frames are put together in. A voter pushes each entry to every member, a thousand times over.
var frameBuffers = sync.Pool{New: func() any { return new([]byte) }}

// keptBuffer bounds those that are kept; a snapshot's is larger.
const keptBuffer = 64 << 10

func (r *replier) writeLocked(status wire.Status, payloads ...[]byte) error {
	buffer := frameBuffers.Get().(*[]byte)
	frames := (*buffer)[:0]
	for _, payload := range payloads {
		frames = appendFrame(frames, status, payload)
	}
	defer func() {
		if *buffer = frames; cap(frames) <= keptBuffer {
			frameBuffers.Put(buffer)
		}
	}()
	r.stream.SetWriteDeadline(time.Now().Add(answerTime))
	if r.ctx.Err() != nil {
		r.stream.SetWriteDeadline(time.Now().Add(lastWordTime))
	}
	_, err := r.stream.Write(frames) // in one write: each is a record of TLS for itself
	return err
}

func appendFrame(frames []byte, status wire.Status, payload []byte) []byte {
	if len(payload) > wire.MaxAnswer {
		e := wire.NewError(wire.CodeTooLarge, fmt.Sprintf("the answer has %d bytes, and a frame holds %d", len(payload), wire.MaxAnswer), "ask for less at once")
		status, payload = wire.StatusError, e.Append(nil)
	}
	return wire.AppendReply(frames, status, payload)
}

// start writes the first answer and what was pushed before it.
func (r *replier) start(payload []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.writeLocked(wire.StatusOK, payload); err != nil {
		return err
	}
	r.started = true
	for _, p := range r.early {
		if err := r.writeLocked(wire.StatusPush, p); err != nil {
			return err
		}
	}
	r.early = nil
	return nil
}

// push writes a push; lazily also the empty OK that comes before the first one
// when implicit is set.
func (r *replier) push(implicit bool, payloads ...[]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.started && implicit {
		if err := r.writeLocked(wire.StatusOK, []byte(nil)); err != nil {
			return err
		}
		r.started = true
	}
	if !r.started {
		if len(r.early)+len(payloads) > earlyPushes {
			return fmt.Errorf("control: more than %d pushes before the first answer", earlyPushes)
		}
		r.early = append(r.early, payloads...)
		return nil
	}
	return r.writeLocked(wire.StatusPush, payloads...)
}
