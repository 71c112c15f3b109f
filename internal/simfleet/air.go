package simfleet

import (
	"net/netip"
	"slices"
	"time"

	"pace-node/internal/discovery"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// roster answers discovery's question from the applied state.
func (p *proc) roster(id string, key identity.PublicKey) discovery.RosterVerdict {
	v := p.view()
	if _, revoked := v.Revoked(key); revoked {
		return discovery.RosterRevoked
	}
	m, ok := v.Member(id)
	if !ok && p.learner != nil {
		for _, seed := range p.learner.voters() {
			if seed.ID == id {
				m, ok = seed, true
			}
		}
	}
	switch {
	case !ok:
		return discovery.RosterUnknown
	case m.Key == key:
		return discovery.RosterHolds
	}
	return discovery.RosterOtherKey
}

// speak tells discovery what this machine says of itself now.
func (p *proc) speak() {
	if s := p.summary(); !sameSummary(&p.said, &s) {
		p.said = s
		p.exchange.SetSelf(p.now(), discovery.Self{Summary: s})
	}
	if own := p.form.Own(); own.Target != nil {
		p.exchange.SetRetained([]string{own.Target.Cluster})
	} else {
		p.exchange.SetRetained(nil)
	}
}

// sameSummary reports whether two summaries say the same.
func sameSummary(a, b *wire.Summary) bool {
	return a.Cluster == b.Cluster && a.State == b.State && a.Created == b.Created && a.Leader == b.Leader && a.Pointer == b.Pointer &&
		a.Node == b.Node && a.RaftEndpoint == b.RaftEndpoint && a.Total == b.Total && a.OwnEndpoint == b.OwnEndpoint && slices.Equal(a.Members, b.Members)
}

// wakeAir has discovery woken when it asks to be.
func (p *proc) wakeAir() {
	next := max(p.exchange.Next(p.now()).Sub(epochStart), p.w.now)
	if next == p.airWake {
		return
	}
	p.airWake = next
	p.after(next-p.w.now, func() {
		if p.airWake == next {
			p.airWake = 0
			p.speak()
			p.aired(p.exchange.Tick(p.now()))
		}
	})
}

// aired sends what discovery wants sent, and hands formation what it proved.
func (p *proc) aired(o discovery.Output) {
	from := netip.AddrPortFrom(p.h.addr, portAnswer)
	if o.Beacon != nil {
		for _, to := range p.w.segments[p.h.segment] {
			p.carry(to, discovery.SocketListener, from, o.Beacon)
		}
	}
	for _, d := range o.Send {
		if to := p.w.byAddr[d.To.Addr()]; to != nil {
			p.carry(to, discovery.SocketAnswering, from, d.Bytes)
		}
	}
	for _, e := range slices.Clone(o.Events) {
		if e.Kind == discovery.EventForeignProven {
			f := formation.FleetOf(&e.Summary, e.Key, formation.OriginBeacon, e.From)
			f.Evidence = p.evidenceOf(f)
			p.step(formation.Event{Kind: formation.EvProven, Fleet: f})
		}
	}
	p.wakeAir()
}

// carry takes one datagram to a machine of the segment, or loses it.
func (p *proc) carry(to *host, on discovery.Socket, from netip.AddrPort, b []byte) {
	w := p.w
	if to != p.h && (!w.joined(p.h, to) || w.net.Float64() < w.loss) {
		return
	}
	if to == p.h && on == discovery.SocketListener {
		return // it hears itself, which changes nothing
	}
	w.after(w.net.between(time.Millisecond, 20*time.Millisecond), func() {
		if q := to.proc; q != nil && !to.frozen() {
			q.aired(q.exchange.Handle(q.now(), on, from, to.addr, b))
		}
	})
}
