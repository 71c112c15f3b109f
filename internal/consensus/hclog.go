package consensus

import (
	"context"
	"io"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// raftLog is hclog's interface over slog, so that raft's lines have the form of all others. raft's info level tells of
// every start and election in its own words; an operator reads ours, so it is kept for debugging.
type raftLog struct {
	log  *slog.Logger
	args []any
	name string
	said *said
}

func hclogOver(l *slog.Logger) hclog.Logger {
	return &raftLog{log: l, said: &said{at: map[string]time.Time{}}}
}

// sayAgainAfter is how often raft's same error is logged: on a full disk it says it at each election, once a second.
const sayAgainAfter = time.Minute

// said is when each of raft's errors was last logged. raft's messages are constants, so there are few.
type said struct {
	mu sync.Mutex
	at map[string]time.Time
}

// again reports whether a message is due, and notes that it is logged.
func (s *said) again(msg string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.at[msg]; ok && now.Sub(last) < sayAgainAfter {
		return false
	}
	s.at[msg] = now
	return true
}

// peerWords are raft's errors that say no more than that another voter is away, or that a stream ended: each voter that
// restarts causes them.
var peerWords = map[string]slog.Level{
	"failed to decode incoming command": slog.LevelDebug, "failed to flush response": slog.LevelDebug,
	"failed to pipeline appendEntries": slog.LevelDebug, "failed to start pipeline replication to": slog.LevelDebug,
	"failed to heartbeat to": slog.LevelWarn, "failed to appendEntries to": slog.LevelWarn, "failed to make requestVote RPC": slog.LevelWarn,
	"failed to install snapshot": slog.LevelWarn, "failed to send snapshot to": slog.LevelWarn,
}

func (r *raftLog) at(level hclog.Level, msg string) slog.Level {
	switch level {
	case hclog.Error:
		if l, ok := peerWords[msg]; ok {
			return l
		}
		return slog.LevelError
	case hclog.Warn:
		// raft warns at each of a fleet of one's normal steps (an election timeout that was asked for).
		return slog.LevelDebug
	default:
		return slog.LevelDebug - 4
	}
}

// Log implements hclog.Logger.
func (r *raftLog) Log(level hclog.Level, msg string, args ...any) {
	ctx, l := context.Background(), r.at(level, msg)
	if !r.log.Enabled(ctx, l) || l >= slog.LevelWarn && !r.said.again(msg, time.Now()) {
		return
	}
	r.log.Log(ctx, l, "raft: "+msg, append(append([]any(nil), r.args...), args...)...)
}

func (r *raftLog) Trace(msg string, args ...any) { r.Log(hclog.Trace, msg, args...) }
func (r *raftLog) Debug(msg string, args ...any) { r.Log(hclog.Debug, msg, args...) }
func (r *raftLog) Info(msg string, args ...any)  { r.Log(hclog.Info, msg, args...) }
func (r *raftLog) Warn(msg string, args ...any)  { r.Log(hclog.Warn, msg, args...) }
func (r *raftLog) Error(msg string, args ...any) { r.Log(hclog.Error, msg, args...) }

func (r *raftLog) enabled(l hclog.Level) bool {
	return r.log.Enabled(context.Background(), r.at(l, ""))
}

func (r *raftLog) IsTrace() bool { return r.enabled(hclog.Trace) }
func (r *raftLog) IsDebug() bool { return r.enabled(hclog.Debug) }
func (r *raftLog) IsInfo() bool  { return r.enabled(hclog.Info) }
func (r *raftLog) IsWarn() bool  { return r.enabled(hclog.Warn) }
func (r *raftLog) IsError() bool { return r.enabled(hclog.Error) }

func (r *raftLog) ImpliedArgs() []any { return r.args }
func (r *raftLog) With(args ...any) hclog.Logger {
	return &raftLog{log: r.log, args: append(append([]any(nil), r.args...), args...), name: r.name, said: r.said}
}
func (r *raftLog) Name() string { return r.name }
func (r *raftLog) Named(name string) hclog.Logger {
	return &raftLog{log: r.log, args: r.args, name: name, said: r.said}
}
func (r *raftLog) ResetNamed(name string) hclog.Logger { return r.Named(name) }
func (r *raftLog) SetLevel(hclog.Level)                {}
func (r *raftLog) GetLevel() hclog.Level               { return hclog.Info }
func (r *raftLog) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return slog.NewLogLogger(r.log.Handler(), slog.LevelDebug)
}
func (r *raftLog) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return io.Discard }
