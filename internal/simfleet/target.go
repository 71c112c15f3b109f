package simfleet

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// tellEvery is how often a machine says again what its fleet has not taken.
const tellEvery = 10 * time.Second

// component is what a machine that was provisioned says it is.
const component = "server"

// target is a machine's own side of provisioning.
type target struct {
	p        *proc
	boot     [16]byte
	sequence uint64
	busy     bool
	wished   bool // a person asked that it be provisioned again
	told     time.Duration
	started  bool // this start was heard by a leader
	obeyed   fleet.Obeyed
}

func newTarget(p *proc) *target {
	t := &target{p: p}
	binary.BigEndian.PutUint64(t.boot[:8], p.h.disk.boot)
	p.h.chance.fill(t.boot[8:])
	return t
}

// wants reports whether this machine wants provisioning.
func (t *target) wants() bool {
	d := &t.p.h.disk
	return t.wished || d.current.cluster != t.p.rec.own.Cluster || !d.current.confirmed
}

func (t *target) query() any {
	return wire.QueryAnswer{ID: t.p.id(), Wants: t.wants(), BootID: fmt.Sprintf("%x", t.boot), Busy: t.busy}
}

func (t *target) announcement() wire.Announce {
	a := wire.Announce{Name: t.p.h.name, Platform: "linux/amd64", Version: "1.0.0", Format: fleet.Format, Component: "provision_mode_server",
		Endpoints: wire.Endpoints{FC: t.p.h.endpoint(portFC)}, BootID: fmt.Sprintf("%x", t.boot), Sequence: t.sequence, Wants: t.wants()}
	if c := t.p.h.disk.current; c.cluster == t.p.rec.own.Cluster {
		a.Component, a.ConfigDigest = component, c.digest
	}
	if t.p.voter != nil {
		a.Endpoints.Raft = t.p.h.endpoint(portRaft)
	}
	return a
}

// tick says to the leader what it does not know yet.
func (t *target) tick() {
	if t.p.w.now-t.told >= tellEvery {
		t.p.tellMeans()
		t.tell()
	}
}

func (t *target) tell() {
	p := t.p
	t.told = p.w.now
	own, v := p.rec.own, p.view()
	m, member := v.Member(p.id())
	if p.moving || !member || v.Cluster() != own.Cluster {
		return
	}
	a := t.announcement()
	if changed := !m.Arrived || m.Endpoints.FC != a.Endpoints.FC || m.Provision.BootID != a.BootID || m.Provision.ConfigDigest != a.ConfigDigest || m.Provision.Component != a.Component; changed || t.wants() {
		t.toLeader(func(q *proc) { q.takeAnnounce(p.id(), a) })
	}
	if t.wants() && !t.started && v.Cluster() != "" {
		t.sequence++
		e := wire.StartupEvent{Cluster: own.Cluster, Node: p.id(), Component: "provision_mode_server", BootID: t.boot, Sequence: t.sequence,
			AgeMS: uint64((p.w.now - p.started).Milliseconds())}
		t.toLeader(func(q *proc) {
			if q.work.heardStart(e) {
				t.started = true
			}
		})
	}
}

// toLeader says something to whoever leads the own fleet; this machine says it to itself.
func (t *target) toLeader(f func(q *proc)) {
	p := t.p
	if p.leads() {
		f(p)
		return
	}
	_, endpoint, _ := p.leader()
	cluster := p.rec.own.Cluster
	p.call(p.w.hostAt(endpoint), stepFor, func(q *proc, _ func(func())) {
		if q.view().Cluster() == cluster && q.leads() {
			f(q)
		}
	}, func(string) {})
}

// takeAnnounce is the leader's side of an announcement.
func (p *proc) takeAnnounce(id string, a wire.Announce) {
	m, member := p.view().Member(id)
	if !member || !p.leads() {
		return
	}
	if m.Arrived && m.Endpoints.FC == a.Endpoints.FC && m.Provision.BootID == a.BootID && m.Provision.ConfigDigest == a.ConfigDigest && m.Provision.Component == a.Component {
		p.work.announced(id, a)
		return
	}
	p.propose(fleet.Announce(id, a), func(fleet.Result, error) { p.work.announced(id, a) })
}

// viewChanged ends the wish once the fleet's state holds that it was granted.
func (t *target) viewChanged(v *fleet.View) {
	m, ok := v.Member(t.p.id())
	d := &t.p.h.disk
	if !ok || len(m.Provision.Outcomes) == 0 || d.current.cluster != v.Cluster() {
		return
	}
	last := m.Provision.Outcomes[len(m.Provision.Outcomes)-1]
	if last.Result == queue.PastProvisioned && m.Provision.ConfigDigest != "" && m.Provision.ConfigDigest == d.current.digest && !d.current.confirmed {
		d.current.confirmed, t.wished = true, false
	}
}

// changedFleet: a machine wants provisioning in a new fleet, and knows no term of it.
func (t *target) changedFleet() {
	t.started, t.obeyed = false, fleet.Obeyed{}
	t.p.h.disk.serials = nil
}

type stepAnswer struct {
	digest, failed string
	again          bool // it is refused for now
}

// doStep does one step of a lease, which it judges by the roster that is applied here, and by the clock of whoever sent it:
// as its heartbeats give it where it is followed, else as it said on the session.
func (t *target) doStep(step string, lease, body []byte, from string, said time.Duration) any {
	p := t.p
	if t.busy && !p.w.breaks.TwoSteps {
		return stepAnswer{failed: "busy with another change", again: true}
	}
	in := fleet.LeaseInput{Raw: lease, View: p.view(), Self: p.id(), Step: step, BodyDigest: sha256.Sum256(body), LeaderNow: p.w.time().Add(said),
		Seen: func(s [16]byte) bool { return p.h.disk.serials[s] }, ObeyedTerm: t.obeyed.Term(p.now(), p.view().Cluster(), p.view().Epoch())}
	if l := p.learner; l != nil {
		in.Silence, in.HighestTerm = time.Duration(math.MaxInt64), l.highest
		if l.everHeard {
			in.Silence = p.w.now - l.heard
		}
		if l.clock && l.following == from {
			in.LeaderNow = epochStart.Add(p.w.now + l.offset)
		}
	} else if p.voter != nil {
		in.HighestTerm = p.voter.store.term
	}
	if p.w.breaks.OldTerms || p.w.breaks.OldRestarts && step == string(queue.StageRestart) {
		in.HighestTerm, in.ObeyedTerm = 0, 0
	}
	claims, verdict := fleet.JudgeLease(in)
	if verdict != fleet.LeaseOK {
		return stepAnswer{failed: "lease refused: " + verdict.String(), again: verdict.Retry()}
	}
	t.busy = true
	return later(func(done func(any)) {
		end := func(a stepAnswer) {
			t.busy = false
			p.w.check.StepEnds(p.h.name)
			done(a)
		}
		p.write("lease", func() {
			if p.h.disk.serials == nil {
				p.h.disk.serials = map[[16]byte]bool{}
			}
			p.h.disk.serials[claims.Serial] = true
		}, func(err error) {
			if err != nil {
				end(stepAnswer{failed: err.Error()})
				return
			}
			t.obeyed.Begin(p.now(), &claims)
			p.w.check.StepBegins(p.w.now, p.h.name, claims)
			switch {
			case claims.Cluster != p.rec.own.Cluster || p.moving:
				end(stepAnswer{failed: "this machine changes fleets"})
			case step == string(queue.StageConfigure):
				t.configure(claims, body, end)
			case p.h.disk.current.digest != string(body):
				end(stepAnswer{failed: "it holds another configuration"})
			default:
				p.after(p.h.chance.between(10*time.Millisecond, 3*time.Second), func() {
					end(stepAnswer{})
					t.tell()
				})
			}
		})
	})
}

func (t *target) configure(claims wire.LeaseClaims, body []byte, end func(stepAnswer)) {
	digest := fmt.Sprintf("%x", sha256.Sum256(body))
	t.p.write("configured", func() {
		t.p.w.check.StepWrites(t.p.w.now, t.p.h.name, claims)
		t.p.h.disk.current = configured{cluster: claims.Cluster, digest: digest}
	}, func(err error) {
		if err != nil {
			end(stepAnswer{failed: err.Error()})
			return
		}
		end(stepAnswer{digest: digest})
	})
}
