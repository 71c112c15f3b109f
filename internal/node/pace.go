package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"pace-node/internal/wire"
)

// How often one member may have the roster say something else of it. What it announces is committed and sent to everybody, so
// a member that says now this and now that waits, and costs nobody else more than a commit a second. An honest one changes
// a few times when it starts and when it is provisioned.
const (
	announceBurst = 16
	announceEvery = time.Second
	// announceMost is how long an announcement waits; one that would wait longer is refused as busy.
	announceMost = 20 * time.Second
)

// pacer spreads what each key asks for over time.
type pacer struct {
	mu   sync.Mutex
	full map[string]time.Time // when the key's whole burst is there again
}

// minPaced is how many keys are kept before those that have their whole burst are dropped.
const minPaced = 64

// wait returns when it is the key's turn.
func (p *pacer) wait(ctx context.Context, key string) error {
	after, ok := p.reserve(time.Now(), key)
	if !ok {
		return wire.NewError(wire.CodeBusy, fmt.Sprintf("this member has announced more than %d changes of itself, and is given one a second", announceBurst), "say only what has changed")
	}
	if after <= 0 {
		return nil
	}
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pacer) reserve(now time.Time, key string) (after time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full == nil {
		p.full = map[string]time.Time{}
	}
	if len(p.full) >= minPaced {
		for k, t := range p.full {
			if t.Before(now) {
				delete(p.full, k)
			}
		}
	}
	full := later(p.full[key], now).Add(announceEvery)
	if after = full.Sub(now) - announceBurst*announceEvery; after > announceMost {
		return 0, false
	}
	p.full[key] = full
	return after, true
}
