package simfleet

import (
	"encoding/json"
	"net/netip"
	"time"

	"pace-node/internal/discovery"
	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// proc is one process of a machine: the decisions of the product's packages, and what it holds in memory. It does what
// internal/node does on its event loop, one thing at a time.
type proc struct {
	w       *World
	h       *host
	started time.Duration
	rec     record

	form     *formation.Machine
	formWake time.Duration
	exchange *discovery.Exchange
	airWake  time.Duration
	said     wire.Summary // what discovery was told last
	list     *enroll.List
	waiters  map[enroll.RowID][]*waiter
	formats  map[enroll.RowID]int

	voter   *voter   // nil: no store of a voter is open
	learner *learner // nil: no store of a learner is
	changes int      // bodies opened so far, so that what belonged to an earlier one is dropped

	ask        *ask
	lastAsk    *enroll.Ask
	lastAskOf  string
	admittedBy identity.PublicKey
	grown      string       // the own fleet whose first other machine formation was told of
	following  *wire.Roster // with which a voter becomes a learner
	moving     bool
	led        bool
	afterMove  []func(*record)
	records    []func() // to be written, the first of them now
	work       *work
	means      queue.Means
	heardOf    map[string]time.Duration // by voter: when it announced itself last
	handing    bool                     // leadership is being handed to one that can provision
	healing    healing
}

func newProc(h *host) *proc {
	return &proc{w: h.w, h: h, started: h.w.now, rec: h.disk.rec, waiters: map[enroll.RowID][]*waiter{}, formats: map[enroll.RowID]int{}}
}

// alive reports whether this is the machine's process still.
func (p *proc) alive() bool { return p.h.proc == p }

// after lets f happen unless the process has ended by then.
func (p *proc) after(d time.Duration, f func()) {
	p.w.after(d, func() {
		if p.h.frozen() {
			p.h.awake(func() {
				if p.alive() {
					f()
				}
			})
		} else if p.alive() {
			f()
		}
	})
}

// now is the moment as the pure packages are given it: it carries no machine's clock.
func (p *proc) now() time.Time { return p.w.time() }

func (p *proc) id() string              { return p.h.disk.id }
func (p *proc) key() identity.PublicKey { return p.h.disk.key.Public() }

// begin is a start: it finishes what a crash interrupted, and opens everything.
func (p *proc) begin() {
	h, now := p.h, p.now()
	h.disk.takeStores(p.w)
	p.rec = h.disk.rec
	p.form = formation.New(formation.Config{Own: p.rec.own, Seeds: append(p.rec.remembered(), h.seeds...), SRV: len(p.w.srv) > 0,
		Rejections: p.rec.rejections, RevokedIn: p.rec.revokedIn}, now)
	p.list = enroll.NewList(enroll.ListConfig{PerSource: func() int { return p.view().Number(fleet.SettingPerSource) }}, now)
	p.exchange = discovery.New(discovery.Config{
		Entropy: h.chance.fill, Roster: p.roster, OwnAddress: func(a netip.Addr) bool { return a == h.addr }, Key: h.disk.key,
	}, now, discovery.Self{})
	p.work = newWork(p)
	p.openBody()
	p.speak()
	p.wakeAir()
	p.every(time.Second, p.beat)
	p.step(formation.Event{Kind: formation.EvTick})
	p.after(0, p.viewChanged) // what was recalled is news to this process
	if p.rec.leaving {
		p.goOnLeaving()
	}
}

// every lets f happen again and again, at a phase of its own.
func (p *proc) every(d time.Duration, f func()) {
	var again func()
	again = func() {
		f()
		if p.alive() {
			p.after(d, again)
		}
	}
	p.after(time.Duration(p.h.chance.Int64N(int64(d))), again)
}

// beat does what has no deadline of its own.
func (p *proc) beat() {
	p.tickList()
	p.work.tick()
	p.heal()
	if !p.alive() {
		return
	}
	p.w.look(p.h)
}

// openBody opens the stores of the record's mode.
func (p *proc) openBody() {
	p.changes++
	p.voter, p.learner = nil, nil
	if p.rec.own.Mode == formation.Learner {
		p.openLearner()
	} else {
		p.openVoter()
	}
}

// closeBody closes the stores; until others are open nothing is proposed or followed.
func (p *proc) closeBody() {
	p.changes++
	if v := p.voter; v != nil {
		v.close()
	}
	if l := p.learner; l != nil {
		l.close()
	}
	p.voter, p.learner = nil, nil
	p.leadership()
}

var noView = fleet.New().View()

// view is the fleet's state as it is applied here; it is empty while there is none.
func (p *proc) view() *fleet.View {
	switch {
	case p.voter != nil:
		return p.voter.state.View()
	case p.learner != nil && p.learner.view != nil:
		return p.learner.view
	}
	return noView
}

// leads reports whether this process leads a fleet.
func (p *proc) leads() bool { return p.voter != nil && p.voter.leading() }

// leader is who leads the own fleet and where, as far as it is known here.
func (p *proc) leader() (id, endpoint string, key identity.PublicKey) {
	switch {
	case p.voter != nil:
		id = p.voter.leader
	case p.learner != nil:
		id, endpoint = p.learner.leaderID, p.learner.leaderEndpoint
	}
	if id == p.id() {
		return id, p.h.endpoint(portFC), p.key()
	}
	m, ok := p.view().Member(id)
	if !ok {
		return id, endpoint, key
	}
	if endpoint == "" {
		endpoint = m.Endpoints.FC
	}
	return id, endpoint, m.Key
}

// step gives formation an event and carries out what it wants.
func (p *proc) step(e formation.Event) {
	actions := append([]formation.Action(nil), p.form.Step(p.now(), e)...)
	for _, a := range actions {
		if !p.alive() {
			return
		}
		p.act(a)
	}
	p.wakeForm()
}

// wakeForm has formation woken when it asks to be.
func (p *proc) wakeForm() {
	next := p.form.Next(p.now()).Sub(epochStart)
	if next <= p.w.now {
		next = p.w.now + time.Millisecond
	}
	if next == p.formWake {
		return
	}
	p.formWake = next
	p.after(next-p.w.now, func() {
		if p.formWake == next {
			p.formWake = 0
			p.step(formation.Event{Kind: formation.EvTick})
		}
	})
}

func (p *proc) act(a formation.Action) {
	switch a.Kind {
	case formation.ActAskSummary:
		p.askSummary(a)
	case formation.ActLookupSRV:
		p.after(p.w.latency(), func() {
			p.step(formation.Event{Kind: formation.EvSRV, Endpoint: "_pace._tcp.example", Endpoints: p.w.srv})
		})
	case formation.ActMove:
		p.move(a)
	case formation.ActAsk:
		p.openAsk(a)
	case formation.ActStopAsk:
		p.closeAsk()
	}
}

// askSummary asks an endpoint for its fleet summary. The key is the session's, which TLS proves.
func (p *proc) askSummary(a formation.Action) {
	to := p.w.hostAt(a.Endpoint)
	if to != nil && !a.RequireKey.IsZero() && to.disk.key.Public() != a.RequireKey {
		to = nil
	}
	p.summaryOf(to, a.Origin, func(f formation.Fleet) {
		p.step(formation.Event{Kind: formation.EvProven, Fleet: f, Endpoint: a.Endpoint})
	}, func(why string) {
		p.step(formation.Event{Kind: formation.EvSummaryFailed, Endpoint: a.Endpoint, Err: why})
	})
}

func (p *proc) summaryOf(to *host, origin formation.Origin, proven func(formation.Fleet), failed func(string)) {
	p.call(to, formation.DialTimeout, func(q *proc, answer func(func())) {
		s, key := q.summary(), q.key()
		answer(func() {
			f := formation.FleetOf(&s, key, origin, netip.AddrPortFrom(to.addr, portFC))
			f.Evidence = p.evidenceOf(f)
			proven(f)
		})
	}, failed)
}

// maxListed is how many members a summary lists.
const maxListed = 10

// summary is what this machine says of its fleet.
func (p *proc) summary() wire.Summary {
	own, v := p.form.Own(), p.view()
	s := wire.Summary{Cluster: own.Cluster, State: own.State(), Created: own.Created, Node: p.id(), OwnEndpoint: p.h.endpoint(portFC)}
	if p.voter != nil {
		s.RaftEndpoint = p.h.endpoint(portRaft)
	}
	if own.Target != nil && s.State == wire.StatePending {
		s.Pointer = wire.Leader{ID: own.Target.LeaderID, Endpoint: own.Target.Endpoint}
		if len(own.Target.Keys) > 0 {
			s.Pointer.Key, s.Pointer.HasKey = own.Target.Keys[0], true
		}
	} else if id, endpoint, key := p.leader(); id != "" {
		s.Leader = wire.Leader{ID: id, Endpoint: endpoint}
		if !key.IsZero() {
			s.Leader.Key, s.Leader.HasKey = key, true
		}
	}
	if v.Cluster() == own.Cluster {
		for m := range v.Members() {
			if s.Total++; len(s.Members) < maxListed {
				s.Members = append(s.Members, m.ID)
			}
		}
	}
	if s.Total == 0 {
		s.Members, s.Total = []string{p.id()}, 1
	}
	return s
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // documents of this program: a fault of the model
	}
	return b
}

// leadership tells whoever depends on it whether this process leads.
func (p *proc) leadership() {
	leads := p.leads()
	id, _, _ := p.leader()
	p.means.Led(p.now(), id, p.id())
	if leads != p.led {
		p.led = leads
		if leads {
			p.w.say(p.h, "leads %s in term %d", short(p.voter.store.cluster), p.voter.store.term)
		} else {
			_, elsewhere, _ := p.leader()
			if own := p.form.Own(); own.Target != nil {
				elsewhere = own.Target.Endpoint
			}
			p.stopAdmitting(elsewhere)
		}
		p.work.lead(leads)
	}
	p.speak()
	if p.voter != nil {
		for _, f := range append([]*feed(nil), p.voter.feeds...) {
			f.heartbeat()
		}
	}
}
