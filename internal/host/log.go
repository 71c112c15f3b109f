package host

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Severity is a level as service managers' logs grade it.
type Severity uint8

// The severities that a line of ours can have.
const (
	SeverityDebug Severity = iota
	SeverityInfo
	SeverityWarning
	SeverityError
)

// SeverityOf grades a level of slog; levels in between count as the one below.
func SeverityOf(level slog.Level) Severity {
	switch {
	case level >= slog.LevelError:
		return SeverityError
	case level >= slog.LevelWarn:
		return SeverityWarning
	case level >= slog.LevelInfo:
		return SeverityInfo
	}
	return SeverityDebug
}

// NewLines is a handler that hands on each record as one line, without the time and level, which the log that it is for has
// fields of its own for. say is called by one goroutine at a time. format is text or json.
func NewLines(level slog.Leveler, format string, say func(Severity, string) error) slog.Handler {
	sink := &lineSink{say: say}
	bare := &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if _, own := a.Value.Any().(slog.Level); own && len(groups) == 0 && a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}
	if format == "json" {
		return lineHandler{slog.NewJSONHandler(&sink.buf, bare), sink}
	}
	return lineHandler{slog.NewTextHandler(&sink.buf, bare), sink}
}

type lineSink struct {
	mu  sync.Mutex
	buf bytes.Buffer
	say func(Severity, string) error
}

type lineHandler struct {
	slog.Handler
	sink *lineSink
}

// Handle implements slog.Handler.
func (h lineHandler) Handle(ctx context.Context, r slog.Record) error {
	h.sink.mu.Lock()
	defer h.sink.mu.Unlock()
	h.sink.buf.Reset()
	r.Time = time.Time{} // which handlers leave out
	if err := h.Handler.Handle(ctx, r); err != nil {
		return err
	}
	return h.sink.say(SeverityOf(r.Level), strings.TrimSuffix(h.sink.buf.String(), "\n"))
}

// WithAttrs implements slog.Handler.
func (h lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return lineHandler{h.Handler.WithAttrs(attrs), h.sink}
}

// WithGroup implements slog.Handler.
func (h lineHandler) WithGroup(name string) slog.Handler {
	return lineHandler{h.Handler.WithGroup(name), h.sink}
}

// NewStderr is a handler of whole lines for a stderr that nobody reads for us.
func NewStderr(w io.Writer, level slog.Leveler, format string) slog.Handler {
	opts := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.NewJSONHandler(w, opts)
	}
	return slog.NewTextHandler(w, opts)
}

// Queue stands between the program and a log that may be slow: nothing that is logged waits for it. What does not fit is
// counted and told with the next line that does.
type Queue struct {
	lines chan queued
	done  chan struct{}
	say   func(Severity, string) error

	mu     sync.Mutex
	lost   int
	closed bool
}

type queued struct {
	severity Severity
	line     string
}

// NewQueue starts the one goroutine that calls say, with room for size lines; Close ends it.
func NewQueue(size int, say func(Severity, string) error) *Queue {
	q := &Queue{lines: make(chan queued, size), done: make(chan struct{}), say: say}
	go func() {
		defer close(q.done)
		for l := range q.lines {
			_ = q.say(l.severity, l.line) // a log that does not take a line can be told of nothing
		}
	}()
	return q
}

// Say puts a line in the queue, and never waits.
func (q *Queue) Say(s Severity, line string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	if q.lost > 0 {
		select {
		case q.lines <- queued{SeverityWarning, fmt.Sprintf("msg=\"lines of the log were lost\" lines=%d", q.lost)}:
			q.lost = 0
		default:
		}
	}
	select {
	case q.lines <- queued{s, line}:
	default:
		q.lost++
	}
	return nil
}

// Close waits for what was said to be written, at most so long, and reports whether it all was.
func (q *Queue) Close(wait time.Duration) bool {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.lines)
	}
	q.mu.Unlock()
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case <-q.done:
		return true
	case <-late.C:
		return false
	}
}
