package follow

import (
	"context"
	"sync"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/identity"
)

// Position is where a voter stands.
type Position struct{ Epoch, Revision uint64 }

// Reach finds or opens the session with a voter and asks where it stands; lost closes when that session ends. It must
// check that the session is under the voter's key, and end when ctx does.
type Reach func(ctx context.Context, voter fleet.Member) (at Position, lost <-chan struct{}, err error)

// Hold keeps a session with every voter until ctx ends. Only one of them is followed; the others are there so that the
// leader of tomorrow reaches this machine at once, and are asked now and then where they stand: a voter that others have
// left behind is followed no longer.
func (l *Learner) Hold(ctx context.Context, reach Reach) error {
	held := map[string]*holder{}
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		wanted := map[string]fleet.Member{}
		for _, m := range l.Voters() {
			if m.ID != l.cfg.Self {
				wanted[m.ID] = m
			}
		}
		for id, h := range held {
			if m, still := wanted[id]; !still || m.Key != h.key {
				h.cancel()
				delete(held, id)
			}
		}
		for id, m := range wanted {
			if held[id] != nil {
				continue
			}
			h := &holder{l: l, id: id, key: m.Key, reach: reach}
			var one context.Context
			one, h.cancel = context.WithCancel(ctx)
			held[id] = h
			all.Go(func() { h.run(one) })
		}
		if err := sleep(ctx, HeartbeatEvery); err != nil {
			return err
		}
	}
}

// holder keeps the session with one voter.
type holder struct {
	l      *Learner
	id     string
	key    identity.PublicKey
	reach  Reach
	cancel context.CancelFunc
}

func (h *holder) run(ctx context.Context) {
	failures := 0
	// Whom this machine follows is dialled by following; the others come after it.
	wait := backoff(0, h.l.cfg.Rand())
	var lost <-chan struct{}
	for {
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-lost: // and so did every other learner's, in this moment
			t.Stop()
			wait, lost = backoff(0, h.l.cfg.Rand()), nil
			continue
		case <-t.C:
		}
		at, ended, err := h.once(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			wait, lost = backoff(failures, h.l.cfg.Rand()), nil
			failures++
		default:
			if ended != nil {
				h.l.Hint(h.id, at.Epoch, at.Revision)
			}
			wait, lost, failures = askAgain(h.l.cfg.Rand()), ended, 0
		}
	}
}

// once asks the voter where it stands. The one that is followed tells it in its heartbeats.
func (h *holder) once(ctx context.Context) (Position, <-chan struct{}, error) {
	if h.l.Status().Following == h.id {
		return Position{}, nil, nil
	}
	for _, m := range h.l.Voters() {
		if m.ID == h.id && m.Key == h.key { // its endpoint may be another by now
			ctx, cancel := context.WithTimeout(ctx, SilenceLimit)
			defer cancel()
			return h.reach(ctx, m)
		}
	}
	return Position{}, nil, errNotVoter
}

// askAgain is when a voter that answered is asked again, for a random r of [0, 1).
func askAgain(r float64) time.Duration {
	return time.Duration(float64(positionEvery) * (1 - backoffJitter + 2*backoffJitter*r))
}
