package simfleet

import (
	"encoding/hex"
	"slices"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// heartbeatEvery is how often a voter tells those who follow it that it is there.
const heartbeatEvery = 5 * time.Second

// feed is one learner that follows this voter.
type feed struct {
	v       *voter
	stream  *stream
	l       *learner
	learner string
	key     identity.PublicKey
	epoch   uint64
	at      uint64
	whole   bool // it needs a snapshot
	over    bool
}

// serveFollow answers a learner's request to be followed.
func (p *proc) serveFollow(s *stream, l *learner, key identity.PublicKey, req wire.FollowRequest) {
	refuse := func(code wire.ErrorCode) {
		e := wire.NewError(code, "", "")
		s.push(p, func() { l.refused(s, e) })
	}
	v := p.voter
	view := p.view()
	m, member := view.ByKey(key)
	_, revoked := view.Revoked(key)
	if o := p.dissolvedOrder(l.store.cluster); o != nil {
		s.push(p, func() {
			l.leave("it dissolved")
			l.p.toldDissolved(o)
		})
		return
	}
	switch {
	case p.form.Own().Cluster != l.store.cluster || view.Cluster() != "" && view.Epoch() != req.Epoch: // it is in another fleet, or epoch, whose word is none here
		s.close(p, "of another fleet")
	case revoked:
		refuse(wire.CodeRevoked)
	case v == nil:
		refuse(wire.CodeNotLeader)
	case !member:
		refuse(wire.CodeNotMember)
	case req.Epoch < view.Epoch():
		refuse(wire.CodeRefusedByRule)
	case fleet.ComparePosition(req.Epoch, req.Revision, view.Epoch(), view.Revision()) > 0:
		refuse(wire.CodeBehind)
	default:
		f := &feed{v: v, stream: s, l: l, learner: m.ID, key: key, epoch: req.Epoch, at: req.Revision}
		d := view.Digest()
		f.whole = req.Revision == 0 || req.Revision == view.Revision() && req.Digest != hex.EncodeToString(d[:])
		v.feeds = append(v.feeds, f)
		s.onBreak(p, func(string) { f.end() })
		f.heartbeat()
		f.run()
		var again func()
		again = func() {
			if !f.over && v.live() {
				f.heartbeat()
				p.after(heartbeatEvery, again)
			}
		}
		p.after(heartbeatEvery, again)
	}
}

func (f *feed) end() {
	f.over = true
	f.v.feeds = slices.DeleteFunc(f.v.feeds, func(x *feed) bool { return x == f })
}

// feed sends every learner what it lacks.
func (v *voter) feed() {
	for _, f := range slices.Clone(v.feeds) {
		f.run()
	}
}

func (f *feed) heartbeat() {
	v := f.v
	silent := time.Duration(0)
	if v.role != roleLeader {
		silent = v.p.w.now - v.heard
	}
	id, endpoint, _ := v.p.leader()
	h := wire.Heartbeat{Epoch: v.state.View().Epoch(), Cluster: v.store.cluster, Term: v.store.term, LeaderID: id, LeaderEndpoint: endpoint,
		Revision: v.state.View().Revision(), WallMS: uint64(max(0, v.p.h.wall().UnixMilli())), SilentMS: uint64(silent.Milliseconds())}
	f.stream.push(v.p, func() { f.l.heartbeat(f.stream, h) })
}

// run sends what the learner lacks: commands where they are kept, else the whole state.
func (f *feed) run() {
	v := f.v
	for !f.over {
		view := v.state.View()
		if f.at >= view.Revision() && !f.whole {
			return
		}
		at := slices.IndexFunc(v.ring, func(r ringEntry) bool { return r.prev == f.at })
		if f.whole || at < 0 {
			if _, member := view.Member(f.learner); !member {
				e := wire.NewError(wire.CodeNotMember, "", "")
				f.stream.push(v.p, func() { f.l.refused(f.stream, e) })
				f.end()
				return
			}
			f.at, f.whole = view.Revision(), false
			b := v.state.SnapshotFor(f.learner)
			f.stream.push(v.p, func() { f.l.snapshot(f.stream, b) })
			return
		}
		r := v.ring[at]
		others, subject := fleet.ForOthers(r.command)
		cmd := others
		if subject == f.learner && subject != "" {
			cmd = r.command
		}
		epoch := view.Epoch()
		f.at = r.revision
		f.stream.push(v.p, func() { f.l.command(f.stream, epoch, r.prev, r.revision, cmd) })
		if c, err := fleet.DecodeCommand(r.command); err == nil && c.ID == f.learner && (c.Kind == fleet.KindForget || c.Kind == fleet.KindLeave || c.Kind == fleet.KindRekey) {
			f.end() // that was its last word
			p, s := v.p, f.stream
			p.after(time.Second, func() { s.close(p, "no member any more") })
		}
	}
}
