package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

const (
	// linkRetry and linkRetryMost are the waits before a voter that did not answer is dialled again.
	linkRetry     = time.Second
	linkRetryMost = 15 * time.Second
	// linkJitter is how far a wait may be from its middle, as a part of it.
	linkJitter = 0.5
	// tellSilence is after how long without a leader a voter asks the others who votes: longer than an election.
	tellSilence = 3 * time.Second
	// takenOutSilence is after how long without a leader a voter takes the word of those that have one that it is a learner:
	// many elections.
	takenOutSilence = 30 * time.Second
)

// linkState is when a voter may be dialled again.
type linkState struct {
	next time.Time
	wait time.Duration
}

// keepLinks keeps a voter's sessions with every other voter: the leader comes to its members over these, and they tell it
// what they are.
func (b *body) keepLinks() {
	links := map[string]*linkState{}
	tick := time.NewTicker(seatBeat)
	defer tick.Stop()
	led := time.Now() // when this voter led, or heard a leader, last
	compared := time.Now()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-tick.C:
		case <-b.links:
		}
		b.dialLinks(links)
		if !b.leads() && time.Since(compared) >= agreeEvery {
			compared = time.Now()
			b.compare()
			b.askClock()
		}
		if b.leads() || b.cons.LastContact() < tellSilence {
			led = time.Now()
			// Raft tells nobody that it has taken this machine out.
			b.n.post(func(now time.Time) { b.n.ownRole(now, b, b.view()) })
			continue
		}
		if r := b.askRosters(); r != nil && time.Since(led) >= takenOutSilence {
			b.takenOut(*r)
		}
	}
}

// link has the sessions looked at now.
func (b *body) link() {
	select {
	case b.links <- struct{}{}:
	default:
	}
}

// linked are whom this machine keeps a session with.
func (b *body) linked() []fleet.Member {
	var out []fleet.Member
	for _, m := range b.voters() {
		if m.ID != b.n.id {
			out = append(out, m)
		}
	}
	return out
}

// voters are the fleet's as this machine sees them: those of its state, and those that it was told of.
func (b *body) voters() []fleet.Member {
	out := b.view().Voters()
	if h := b.told.Load(); h != nil {
		for _, v := range h.Voters {
			if m, ok := b.sight(v.ID); ok {
				if known, in := b.view().Member(v.ID); !in || known.Role != fleet.RoleVoter {
					out = append(out, m)
				}
			}
		}
	}
	return out
}

func (b *body) dialLinks(links map[string]*linkState) {
	n := b.n
	now := time.Now()
	for _, m := range b.linked() {
		if n.hub.ByKey(m.Key) != nil {
			delete(links, m.ID)
			continue
		}
		l := links[m.ID]
		if l == nil {
			l = &linkState{next: now, wait: linkRetry}
			links[m.ID] = l
		}
		if now.Before(l.next) {
			continue
		}
		l.next = now.Add(time.Duration(float64(l.wait) * (1 - linkJitter + 2*linkJitter*n.cfg.Random())))
		l.wait = min(2*l.wait, linkRetryMost)
		b.wait.Go(func() { b.dialLink(m) })
	}
}

// dialLink opens one session and says there who this is.
func (b *body) dialLink(m fleet.Member) {
	n := b.n
	ctx, cancel := context.WithTimeout(b.ctx, callTimeout)
	defer cancel()
	s, err := n.voterSession(ctx, m)
	if err != nil {
		n.log.Debug("no session with a voter", "voter", m.ID, "error", err.Error())
		return
	}
	n.post(func(now time.Time) {
		if n.body == b {
			n.announceTo(now, s)
		}
	})
}

// askRosters asks the other voters who votes. A voter that was away while others took seats would refuse their streams for
// ever otherwise; one that was removed meanwhile hears of it here. It returns the newest roster by which a voter that has a
// leader holds this machine as a learner, nil where none does.
func (b *body) askRosters() (learner *wire.Roster) {
	n := b.n
	asked, strangers := 0, 0
	for _, m := range b.voters() {
		if m.ID == n.id {
			continue
		}
		ctx, cancel := context.WithTimeout(b.ctx, seatAskTimeout)
		var r wire.Roster
		err := n.askStatus(ctx, m, "roster", &r)
		n.toldDissolved(m.ID, err)
		var refused *wire.Error
		out := errors.As(err, &refused) && (refused.Code == wire.CodeRevoked || refused.Code == wire.CodeNotMember)
		if out && !b.speaksForUs(ctx, m, refused.Code) {
			cancel()
			continue
		}
		if err == nil && b.asLearner(m, r) && (learner == nil || r.Revision > learner.Revision) && b.speaksForUs(ctx, m, wire.CodeNotMember) {
			learner = &r
		}
		cancel()
		asked++
		switch {
		case err == nil:
			b.toldBy(r)
		case out && refused.Code == wire.CodeRevoked:
			n.post(func(now time.Time) { n.outOfFleet(now, b, true, 0) })
			return nil
		case out:
			strangers++
		}
	}
	// One voter may be behind and not know this machine yet; most of them are not.
	if 2*strangers > asked {
		n.post(func(now time.Time) { n.outOfFleet(now, b, false, 0) })
	}
	return learner
}

// asLearner reports whether a roster, of a machine that votes by it itself, holds this one as a learner.
func (b *body) asLearner(of fleet.Member, r wire.Roster) bool {
	v, self := b.state(), r.Self
	return r.Cluster == b.cluster && r.Epoch == v.Epoch() && r.Revision >= v.Revision() &&
		self.ID == b.n.id && self.Key == b.n.key.Public().String() && self.Role == string(fleet.RoleLearner) &&
		slices.ContainsFunc(r.Voters, func(v wire.RosterVoter) bool { return v.ID == of.ID })
}

// speaksForUs asks a voter anew which fleet it is in: what it said when its session began may be over, and then what it
// says of this machine is another fleet's word. That a key is revoked stays true. That a machine is no member, or no voter,
// says only who knows a leader: one that was away may be older than this machine's admission, and one that is yet to be
// elected may need this machine's vote.
func (b *body) speaksForUs(ctx context.Context, m fleet.Member, said wire.ErrorCode) bool {
	s := b.n.hub.ByKey(m.Key)
	if s == nil || b.n.hello(ctx, s) != nil {
		return false
	}
	if h, _, _ := s.Hello(); h.Cluster != b.cluster {
		return false
	}
	if said == wire.CodeRevoked {
		return true
	}
	// Over a connection of its own: a summary is answered once a connection, and this may be asked for as long as no leader is heard.
	var endpoints []string
	if b.n.ask(ctx, func(now time.Time) { endpoints = b.n.memberEndpoints(now, m) }) != nil {
		return false
	}
	for _, endpoint := range endpoints {
		f, err := b.n.fetchSummary(ctx, endpoint, &m.Key, formation.OriginRemembered)
		if err == nil {
			return f.Cluster == b.cluster && f.Leader.ID != "" && f.Leader.ID != b.n.id
		}
	}
	return false
}

// toldBy takes what another voter said of the roster.
func (b *body) toldBy(r wire.Roster) {
	v := b.state()
	if r.Cluster != b.cluster || r.Epoch != v.Epoch() || r.Revision < v.Revision() {
		return
	}
	if old := b.told.Load(); old == nil || r.Revision > old.Revision {
		b.told.Store(&r)
	}
}

// takenOut has a voter that was taken out of consensus while it was away become a learner: a voter that has a leader says
// that it is one, and that leader does not come to it. Not at the word of one that has none: the role is a wish, and until
// raft's configuration follows it whoever is to be elected may need this machine's vote, and would never be without it.
func (b *body) takenOut(r wire.Roster) {
	b.n.post(func(now time.Time) { b.n.seatedAsLearner(now, b, r) })
}

// endRevoked closes the sessions of a key that the state has just revoked. A follower is first sent everything up to and
// including the entry that says so.
func (n *Node) endRevoked(s *netio.Session) {
	n.effect(func(ctx context.Context) {
		n.lastWord(ctx, s)
		s.Close(errRevoked)
	})
}
