package provision

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// Discover asks the members who wants provisioning, now. Paused, it says so and leaves the cycle counter unchanged.
func (p *Provisioner) Discover() {
	p.post(func(now time.Time) {
		p.round(now)
		p.after(now)
	})
}

// round starts one discovery round, unless one runs.
func (p *Provisioner) round(now time.Time) {
	if p.stopping.Load() {
		return
	}
	if why := p.deps.Queue.PausedBy(); why != 0 {
		if why != p.pauseSaid { // the condition says that it lasts
			p.pauseSaid = why
			p.log.Info("members are not asked: provisioning is paused", "why", PauseText(why))
		}
		return
	}
	p.pauseSaid = 0
	if p.discovering {
		return
	}
	p.discovering = true
	p.m.discoverCycles.Add(1)
	members := slices.Clone(p.deps.Members())
	lead := p.leadCtx
	p.wg.Go(func() {
		found := p.askAll(lead, members)
		p.post(func(now time.Time) {
			p.discovering = false
			if lead.Err() == nil {
				p.found(now, found)
			}
			p.after(now)
		})
	})
}

// heard is one machine's answer in a round.
type heard struct {
	asked  string
	answer wire.QueryAnswer
	at     time.Time
}

// askAll asks every member under a sliding window: it ends 300 ms after the last answer or question, 2 s at most.
func (p *Provisioner) askAll(ctx context.Context, members []string) []heard {
	ctx, cancel := context.WithTimeout(ctx, RoundMax)
	defer cancel()
	// In another order every time: silent members must not keep the same others from being asked.
	rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	var wg sync.WaitGroup
	answers := make(chan heard)
	slots := make(chan struct{}, RoundAtOnce)
	asked := make(chan struct{})
	ended := make(chan struct{})
	wg.Go(func() {
		for _, id := range members {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			select {
			case asked <- struct{}{}:
			case <-ctx.Done():
				return
			}
			wg.Go(func() { p.askOne(ctx, id, slots, asked, answers) })
		}
	})
	go func() { wg.Wait(); close(ended) }()
	var out []heard
	quiet := time.NewTimer(RoundMax)
	defer quiet.Stop()
	for {
		select {
		case h := <-answers:
			out = append(out, h)
			quiet.Reset(RoundQuiet)
		case <-asked:
			if len(out) > 0 {
				quiet.Reset(RoundQuiet)
			}
		case <-quiet.C:
			cancel()
			<-ended
			return out
		case <-ctx.Done():
			<-ended
			return out
		case <-ended:
			return out
		}
	}
}

// askOne asks one member. After RoundPatience its place goes to another; the answer still counts while the round lasts. One
// that asks for patience keeps the round open, as one does that was asked just now.
func (p *Provisioner) askOne(ctx context.Context, id string, slots chan struct{}, asked chan<- struct{}, answers chan<- heard) {
	var once sync.Once
	release := func() { once.Do(func() { <-slots }) }
	defer release()
	patience := time.AfterFunc(RoundPatience, release)
	defer patience.Stop()
	a, err := p.query(ctx, id, func() {
		select {
		case asked <- struct{}{}:
		case <-ctx.Done():
		}
	})
	if err != nil {
		if !errors.Is(err, ErrUnreachable) && ctx.Err() == nil {
			p.m.discoveryErrors.Add(1)
			p.log.Debug("member did not answer the round", "id", id, "error", err)
		}
		return
	}
	select {
	case answers <- heard{id, a, time.Now()}:
	case <-ctx.Done():
	}
}

// found puts a round's answers, once for each id, through admission.
func (p *Provisioner) found(now time.Time, all []heard) {
	by := map[string][]heard{}
	for _, h := range all {
		by[h.answer.ID] = append(by[h.answer.ID], h)
	}
	clashes := map[string]bool{}
	for _, h := range all {
		switch {
		case len(by[h.answer.ID]) > 1:
			clashes[h.answer.ID] = true // two machines answer for one id: neither is taken
		case h.answer.ID != h.asked:
			p.m.discoveryErrors.Add(1)
			p.log.Warn("member answers under another id", "id", h.asked, "answered_as", wire.Printable(h.answer.ID))
		case h.answer.Wants:
			p.noteWhy(h.asked, h.answer.Why)
			if w := p.awaiting[h.asked]; w != nil && w.taken {
				p.confirm(now, h.asked, &wire.Announce{Component: h.answer.Component, ConfigDigest: h.answer.ConfigDigest})
			}
			made := h.at
			if made.After(now) {
				made = now
			}
			v := p.deps.Queue.Add(now, queue.Sighting{ID: h.asked, Made: made, Source: queue.SourceDiscovery, BootID: h.answer.BootID,
				Wants: true, Always: p.always[h.asked]})
			p.log.Debug("machine discovered", "id", h.asked, "verdict", v.String())
		}
	}
	for id := range clashes {
		p.raise("identity-clash", wire.Printable(id))
		p.log.Warn("two machines answer for one id; neither is provisioned", "id", wire.Printable(id))
	}
	if len(clashes) == 0 && len(p.clashes) > 0 {
		p.clearCondition("identity-clash")
	}
	p.clashes = clashes
}

func (p *Provisioner) noteWhy(id, why string) {
	if why == WhyAlways {
		p.always[id] = true
	} else {
		delete(p.always, id)
	}
}
