package netio

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// noise lets a kind of log line through once a minute, with the number of lines it stands for. Kinds are chosen by this
// program (a reason, an interface), never by a peer; beyond noiseKinds the surplus shares one.
type noise struct {
	log *slog.Logger

	mu    sync.Mutex
	kinds map[string]*noiseKind
}

type noiseKind struct {
	said  time.Time
	since uint64
}

func newNoise(log *slog.Logger) *noise {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &noise{log: log, kinds: map[string]*noiseKind{}}
}

// due reports whether a line of the kind is to be written now, and how many it stands for.
func (n *noise) due(now time.Time, kind string) (count uint64, yes bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := n.kinds[kind]
	if k == nil {
		if len(n.kinds) >= noiseKinds {
			n.forget(now)
		}
		if len(n.kinds) >= noiseKinds {
			kind = ""
			k = n.kinds[kind]
		}
		if k == nil {
			k = &noiseKind{}
			n.kinds[kind] = k
		}
	}
	k.since++
	if !k.said.IsZero() && now.Sub(k.said) < noiseEvery {
		return 0, false
	}
	count, k.said, k.since = k.since, now, 0
	return count, true
}

// forget drops kinds that were quiet for a minute and have nothing unsaid. The caller holds mu.
func (n *noise) forget(now time.Time) {
	for name, k := range n.kinds {
		if k.since == 0 && now.Sub(k.said) >= noiseEvery {
			delete(n.kinds, name)
		}
	}
}

// say writes a warning of the kind if one is due.
func (n *noise) say(kind, message string, attrs ...slog.Attr) {
	n.at(slog.LevelWarn, kind, message, attrs...)
}

func (n *noise) at(level slog.Level, kind, message string, attrs ...slog.Attr) {
	if !n.log.Enabled(context.Background(), level) {
		return
	}
	count, yes := n.due(time.Now(), kind)
	if !yes {
		return
	}
	n.log.LogAttrs(context.Background(), level, message, append(attrs, slog.Uint64("count", count))...)
}
