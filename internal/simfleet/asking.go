package simfleet

import (
	"errors"
	"slices"
	"time"

	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// askTimeout bounds opening an ask.
const askTimeout = 10 * time.Second

// ask is the joiner's side of one ask.
type ask struct {
	p      *proc
	action formation.Action
	stream *stream
	closed bool
}

func (p *proc) openAsk(a formation.Action) {
	p.closeAsk()
	if t := p.rec.own.Target; t == nil || !sameTarget(t, a.Target) {
		target := a.Target
		p.keepRecord(func(rec *record) {
			if rec.own.Target != nil {
				rec.own.Target = target
			}
		})
	}
	k := &ask{p: p, action: a}
	p.ask = k
	p.speak()
	k.dial(a.Target.Endpoint, a.Target.Fallback)
}

func sameTarget(a, b *formation.Target) bool {
	return a.Cluster == b.Cluster && a.State == b.State && a.LeaderID == b.LeaderID && a.Endpoint == b.Endpoint && slices.Equal(a.Keys, b.Keys)
}

func (p *proc) closeAsk() {
	if k := p.ask; k != nil {
		p.ask = nil
		k.closed = true
		if k.stream != nil {
			k.stream.close(p, "closed by the asker")
		}
	}
}

func (k *ask) dial(endpoint, fallback string) {
	p := k.p
	p.dial(p.w.hostAt(endpoint), askTimeout, k.opened, func(why string) {
		if fallback != "" && !k.closed {
			k.dial(fallback, "")
			return
		}
		k.over(why)
	})
}

// over tells formation that the stream ended.
func (k *ask) over(why string) {
	if !k.closed && k.p.alive() {
		k.closed = true
		k.p.step(formation.Event{Kind: formation.EvAskEnded, Ask: k.action.Ask, Err: why})
	}
}

// opened goes on over a session: a machine whose key no proven summary named proves first for whom it speaks.
func (k *ask) opened(s *stream) {
	p, t := k.p, k.action.Target
	if k.closed {
		s.close(p, "closed by the asker")
		return
	}
	k.stream = s
	s.onBreak(p, k.over)
	q := s.ends[s.other(p)]
	next := p.nextAsk(t)
	if slices.Contains(t.Keys, q.key()) {
		k.request(next, q)
		return
	}
	p.summaryOf(q.h, formation.OriginBeacon, func(f formation.Fleet) {
		switch {
		case k.closed:
		case f.Cluster != t.Cluster:
			p.step(formation.Event{Kind: formation.EvProven, Fleet: f})
			k.end("it speaks for another fleet than the one that is asked")
		case next.AcceptSigner(f.SpeakerKey) != nil:
			k.end("its key is none")
		default:
			k.request(next, q)
		}
	}, k.end)
}

// end closes the stream and says so.
func (k *ask) end(why string) {
	if !k.closed && k.stream != nil {
		k.stream.close(k.p, why)
	}
	k.over(why)
}

// nextAsk goes on from the last ask of the same fleet, whose challenge refreshes the row.
func (p *proc) nextAsk(t *formation.Target) *enroll.Ask {
	var nonce [32]byte
	p.h.chance.fill(nonce[:])
	if p.lastAsk != nil && p.lastAskOf == t.Cluster {
		p.lastAsk = p.lastAsk.Again(nonce, p.h.endpoint(portFC))
	} else {
		p.lastAsk = enroll.NewAsk(nil, t.Cluster, p.id(), p.key(), p.h.endpoint(portFC), nonce)
	}
	p.lastAskOf = t.Cluster
	for _, k := range t.Keys {
		_ = p.lastAsk.AcceptSigner(k)
	}
	return p.lastAsk
}

// request sends the signed ask.
func (k *ask) request(next *enroll.Ask, q *proc) {
	p := k.p
	r := enroll.Request{EnrollRequest: next.Request(p.h.disk.key), Name: p.h.name, Platform: "linux/amd64", Version: "1.0.0",
		Source: p.h.addr, SessionKey: p.key(), Format: fleet.Format}
	k.stream.push(p, func() { q.enrolled(k, next, r) })
}

// answered takes one answer of the leader.
func (k *ask) answered(next *enroll.Ask, ans wire.EnrollAnswer) {
	p := k.p
	if k.closed {
		return
	}
	outcome, err := next.Answer(ans)
	if err != nil {
		p.step(formation.Event{Kind: formation.EvAnswerRefused, Ask: k.action.Ask, Err: err.Error()})
		k.end(err.Error())
		return
	}
	signer := identity.PublicKey(ans.Signer)
	if outcome == wire.OutcomeApproved {
		p.admittedBy = signer
	}
	p.step(formation.Event{Kind: formation.EvAnswer, Ask: k.action.Ask, Cluster: k.action.Target.Cluster, Outcome: outcome, From: signer, Roster: ans.Roster})
	if outcome != wire.OutcomePending && p.alive() {
		k.end("answered")
	}
}

// refused takes an error frame: one that names a leader is a redirect.
func (k *ask) refused(e *wire.Error) {
	if k.closed {
		return
	}
	if e.Code != wire.CodeNotLeader {
		k.stream.close(k.p, e.Error())
		k.closed = true
		full := e.Code == wire.CodeWaitingListFull || e.Code == wire.CodeSourceFull
		k.p.step(formation.Event{Kind: formation.EvAskEnded, Ask: k.action.Ask, Err: e.Error(), Full: full, Spread: k.p.h.chance.Float64()})
		return
	}
	k.stream.close(k.p, "redirected")
	k.closed = true
	k.p.step(formation.Event{Kind: formation.EvRedirect, Ask: k.action.Ask, Endpoint: e.Text})
}

var errChanging = wire.NewError(wire.CodeNotLeader, "", "this machine is changing fleets")

// asWire is an error as it travels.
func asWire(err error) *wire.Error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	return wire.NewError(wire.CodeBusy, err.Error(), "")
}
