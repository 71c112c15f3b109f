package simfleet

import (
	"encoding/hex"
	"slices"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/wire"
)

// Times of a learner.
const (
	silenceLimit = 15 * time.Second // a voter that says nothing for so long is left
	roundFirst   = 500 * time.Millisecond
	roundMost    = 15 * time.Second
)

// learner is an open store of a learner: it follows one voter at a time.
type learner struct {
	p     *proc
	store *followStore
	state *fleet.State // nil before the first snapshot
	view  *fleet.View  // what is durable, and shown

	stream         *stream
	following      string // the voter that is followed; empty while between two
	last           string
	leaderID       string
	leaderEndpoint string
	term           uint64
	highest        uint64 // term that a followed heartbeat of a led voter confirmed
	heard          time.Duration
	everHeard      bool
	offset         time.Duration // the fleet's clock against this machine's elapsed time
	clock          bool
	tried          []fleet.Member
	failures       int
	whole          bool // the next request asks for a snapshot
	busy           bool
	queue          []func()
	closed         bool
	seat           *voter // while it is to be a voter
}

func (p *proc) openLearner() {
	d := &p.h.disk
	if d.follow == nil {
		d.follow = &followStore{cluster: p.rec.own.Cluster}
	}
	l := &learner{p: p, store: d.follow, view: d.follow.view, highest: d.follow.highest}
	if l.view != nil {
		state, err := fleet.Restore(l.view.Snapshot())
		if err != nil {
			p.w.fail(p.h, "the state on disk does not read: %v", err)
			return
		}
		l.state = state
		l.view = state.View()
	}
	p.learner = l
	p.after(0, l.round)
	p.every(time.Second, func() {
		if !l.closed {
			l.tendSeat()
		}
		if !l.closed && l.stream != nil && p.w.now-l.heard >= silenceLimit {
			l.leave("nothing was heard of it")
		}
	})
}

func (l *learner) live() bool { return !l.closed && l.p.alive() }

func (l *learner) close() {
	l.closed = true
	if l.seat != nil {
		l.seat.close()
		l.seat = nil
	}
	if l.stream != nil {
		l.stream.close(l.p, "closed")
	}
}

// voters are whom it may follow.
func (l *learner) voters() []fleet.Member {
	if l.view != nil {
		return l.view.Voters()
	}
	return l.p.rec.voters
}

func (l *learner) epoch() uint64 {
	if l.view != nil {
		return l.view.Epoch()
	}
	return l.p.rec.epoch
}

// round dials the next voter: the leader first.
func (l *learner) round() {
	if !l.live() || l.stream != nil {
		return
	}
	voters := l.voters()
	l.tried = slices.DeleteFunc(l.tried, func(m fleet.Member) bool {
		return !slices.ContainsFunc(voters, func(v fleet.Member) bool { return v.ID == m.ID })
	})
	left := slices.DeleteFunc(slices.Clone(voters), func(v fleet.Member) bool {
		return slices.ContainsFunc(l.tried, func(m fleet.Member) bool { return m.ID == v.ID })
	})
	if len(left) == 0 {
		l.tried, left = nil, voters
	}
	if len(left) == 0 {
		l.again()
		return
	}
	pick := left[l.p.h.chance.IntN(len(left))]
	for _, m := range left {
		if m.ID == l.leaderID {
			pick = m
		}
	}
	l.tried = append(l.tried, pick)
	p := l.p
	to := p.w.hostAt(pick.Endpoints.FC)
	if to != nil && to.disk.key.Public() != pick.Key {
		to = nil
	}
	p.dial(to, silenceLimit, func(s *stream) { l.follow(s, pick) }, func(string) { l.again() })
}

// again tries the next voter after a while.
func (l *learner) again() {
	if !l.live() {
		return
	}
	wait := roundFirst
	for i := 0; i < l.failures && wait < roundMost; i++ {
		wait *= 2
	}
	l.failures++
	wait = min(wait, roundMost)
	l.p.after(l.p.h.chance.between(wait/4, wait*7/4), l.round)
}

func (l *learner) follow(s *stream, voter fleet.Member) {
	if !l.live() || l.stream != nil {
		s.close(l.p, "not needed")
		return
	}
	p := l.p
	l.stream, l.following, l.heard = s, voter.ID, p.w.now
	s.onBreak(p, func(string) { l.left(s) })
	req := wire.FollowRequest{Epoch: l.epoch()}
	if l.view != nil && !l.whole {
		d := l.view.Digest()
		req.Revision, req.Digest = l.view.Revision(), hex.EncodeToString(d[:])
	}
	l.whole = false
	q := s.ends[s.other(p)]
	key := p.key()
	s.push(p, func() { q.serveFollow(s, l, key, req) })
}

// leave ends the stream that is followed.
func (l *learner) leave(string) {
	if s := l.stream; s != nil {
		s.close(l.p, "left")
		l.left(s)
	}
}

func (l *learner) left(s *stream) {
	if l.stream == s {
		l.stream, l.last, l.following = nil, l.following, ""
		l.p.speak()
		l.again()
	}
}

// run takes pushes one after the other: each is durable before it is shown.
func (l *learner) run(s *stream, f func()) {
	if !l.live() || l.stream != s {
		return
	}
	if l.busy {
		l.queue = append(l.queue, func() { l.run(s, f) })
		return
	}
	f()
}

func (l *learner) save(then func()) {
	l.busy = true
	view := l.state.View()
	l.p.write("follow", func() {
		if !l.closed {
			l.store.view = view
		}
	}, func(err error) {
		if l.closed {
			return
		}
		l.busy = false
		if err != nil { // back to what is on disk
			l.state = nil
			if l.view != nil {
				if state, rerr := fleet.Restore(l.view.Snapshot()); rerr == nil {
					l.state = state
				}
			}
			l.queue = nil
			l.leave(err.Error())
			return
		}
		l.view = view
		then()
		for len(l.queue) > 0 && !l.busy && l.live() {
			f := l.queue[0]
			l.queue = l.queue[1:]
			f()
		}
	})
}

func (l *learner) heartbeat(s *stream, h wire.Heartbeat) {
	l.run(s, func() {
		p := l.p
		l.heard, l.everHeard, l.term = p.w.now, true, h.Term
		if h.Cluster != l.store.cluster || h.Epoch != l.epoch() {
			l.leave("another epoch")
			return
		}
		l.offset, l.clock = time.UnixMilli(int64(h.WallMS)).Sub(epochStart)-p.w.now, true
		silent := time.Duration(h.SilentMS) * time.Millisecond
		if h.LeaderID != "" && silent < silenceLimit {
			l.highest = max(l.highest, h.Term)
			l.store.highest = l.highest
			l.failures, l.tried = 0, nil
			if l.leaderID != h.LeaderID || l.leaderEndpoint != h.LeaderEndpoint {
				l.leaderID, l.leaderEndpoint = h.LeaderID, h.LeaderEndpoint
				p.speak()
				p.work.target.tell()
			}
		} else if silent >= silenceLimit && len(l.voters()) > 1 {
			l.leave("it hears no leader")
		}
	})
}

func (l *learner) command(s *stream, epoch, prev, revision uint64, cmd []byte) {
	l.run(s, func() {
		l.heard = l.p.w.now
		if l.state == nil || l.state.View().Revision() != prev || epoch != l.epoch() {
			l.whole = true
			l.leave("a gap")
			return
		}
		if c, err := fleet.DecodeCommand(cmd); l.p.w.breaks.DropCommands && err == nil && c.Kind == fleet.KindSet {
			cmd = fleet.EmptyCommand(1)
		}
		if _, err := l.state.Apply(cmd); err != nil {
			l.p.w.fail(l.p.h, "a followed command does not apply: %v", err)
			return
		}
		l.save(l.applied)
	})
}

func (l *learner) snapshot(s *stream, b []byte) {
	l.run(s, func() {
		l.heard = l.p.w.now
		state, err := fleet.Restore(b)
		if err != nil {
			l.p.w.fail(l.p.h, "a snapshot for learners does not read: %v", err)
			return
		}
		v := state.View()
		switch {
		case v.Cluster() != l.store.cluster, v.Epoch() != l.epoch():
			l.leave("another fleet's or epoch's snapshot")
			return
		case l.view != nil && fleet.ComparePosition(v.Epoch(), v.Revision(), l.view.Epoch(), l.view.Revision()) < 0,
			v.Revision() < l.p.rec.admitted && v.Epoch() == l.p.rec.epoch:
			l.leave("an older snapshot")
			return
		}
		l.state = state
		l.save(l.applied)
	})
}

// applied looks at what was just made durable: a roster without this machine has forgotten it.
func (l *learner) applied() {
	p := l.p
	p.w.look(p.h)
	if !l.view.Holds(p.id(), p.key()) {
		_, revoked := l.view.Revoked(p.key())
		l.forgotten(revoked)
		return
	}
	p.viewChanged()
	if l.live() {
		l.tendSeat()
	}
}

// forgotten: the fleet removed this machine, at its own wish where its key is not revoked.
func (l *learner) forgotten(revoked bool) {
	p := l.p
	l.close()
	if !revoked {
		p.step(formation.Event{Kind: formation.EvTrigger, Trigger: formation.Left})
		return
	}
	p.w.say(p.h, "is forgotten by %s", short(l.store.cluster))
	p.step(formation.Event{Kind: formation.EvForgotten})
}

// refused takes a voter's error frame.
func (l *learner) refused(s *stream, e *wire.Error) {
	l.run(s, func() {
		l.heard = l.p.w.now
		if e.Code == wire.CodeRevoked {
			l.forgotten(true)
			return
		}
		l.leave(e.Error())
	})
}
