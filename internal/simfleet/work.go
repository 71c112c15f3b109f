package simfleet

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// Times of provisioning.
const (
	workInterval = time.Minute
	probeFor     = 2 * time.Second
	stepFor      = 30 * time.Second
	workers      = 2
)

// work is the leader's side of provisioning: the product's queue, and workers that run what it hands out.
type work struct {
	p        *proc
	q        *queue.Queue
	led      bool
	turn     int // of leadership, so that what an earlier one began is dropped
	round    time.Duration
	runs     map[string]*workRun // by machine: what is probed or worked
	busy     int
	events   map[string]queue.Mark
	awaiting map[string]string // digest that a held machine has to announce
	confirms map[string]bool   // its confirmation is being committed
	target   *target
}

type workRun struct {
	job  queue.Job
	boot string
	turn int
	over bool
}

func newWork(p *proc) *work {
	k := &work{p: p, runs: map[string]*workRun{}, events: map[string]queue.Mark{}, awaiting: map[string]string{}, confirms: map[string]bool{}}
	k.q = queue.New(queue.Config{Interval: workInterval, Capacity: 16, Rand: p.h.chance.Float64})
	k.target = newTarget(p)
	return k
}

func (k *work) now() time.Time { return k.p.now() }

// lead says that leadership was gained, after everything committed is applied, or lost.
func (k *work) lead(on bool) {
	if on == k.led {
		return
	}
	k.led = on
	k.turn++
	if !on {
		if k.p.w.breaks.KeepQueue {
			return
		}
		k.q.Pause(queue.PauseNoLeadership)
		k.q.DropAll()
		for _, r := range k.sorted() {
			if !k.p.w.breaks.KeepRuns {
				k.give(r, queue.Result{Outcome: queue.OutcomeSkipped}) // a worker ends at its next boundary
			}
		}
		clear(k.events)
		clear(k.awaiting)
		clear(k.confirms)
		return
	}
	for m := range k.p.view().Members() {
		if p := m.Provision; !p.IsZero() {
			k.takeOver(m.ID, p)
		}
	}
	if k.p.h.helper {
		k.q.Resume(queue.PauseNothingToProvisionWith)
	} else {
		k.q.Pause(queue.PauseNothingToProvisionWith)
	}
	k.q.Resume(queue.PauseNoLeadership)
	k.followPause()
	k.round = k.p.w.now
}

func (k *work) followPause() {
	if k.p.view().Switch(fleet.SettingProvisionPaused) {
		k.q.Pause(queue.PauseOperator)
	} else {
		k.q.Resume(queue.PauseOperator)
	}
}

func (k *work) sorted() []*workRun {
	out := make([]*workRun, 0, len(k.runs))
	for _, r := range k.runs {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *workRun) int { return int(int64(a.job.Generation) - int64(b.job.Generation)) })
	return out
}

// tick is the queue's clock.
func (k *work) tick() {
	k.target.tick()
	if !k.led {
		k.check()
		return
	}
	_, unconfirmed := k.q.Tick(k.now())
	for _, id := range unconfirmed {
		delete(k.awaiting, id)
		k.record(id)
	}
	if k.p.w.now >= k.round {
		k.round = k.p.w.now + workInterval
		k.meansLooked()
		k.discover()
	}
	k.dispatch()
	k.check()
}

// check asks the queue whether its own rules hold, and those that only its surroundings can see.
func (k *work) check() {
	w, name := k.p.w, k.p.h.name
	if err := k.q.Check(); err != nil {
		w.check.fail(RuleQueue, w.now, name, "%v", err)
	}
	if !k.p.leads() && (k.q.Waiting() != 0 || k.q.HeapLen() != 0) && !k.p.moving {
		w.check.fail(RuleQueue, w.now, name, "it leads no fleet, and its queue holds %d machines", k.q.Waiting())
	}
	if k.busy > workers {
		w.check.fail(RuleQueue, w.now, name, "%d workers are busy, and there are %d", k.busy, workers)
	}
	for id, r := range k.runs {
		if k.led && !r.over && r.turn == k.turn && !k.q.IsCurrent(id, r.job.Generation) {
			if _, member := k.p.view().Member(id); member {
				if e, ok := k.q.Entry(id); ok && e.State == queue.StateRunning {
					w.check.fail(RuleQueue, w.now, name, "%s is worked under generation %d and runs under another one", short(id), r.job.Generation)
				}
			}
		}
	}
}

// viewChanged takes out who is gone, and follows the operator's pause.
func (k *work) viewChanged(v *fleet.View) {
	k.target.viewChanged(v)
	if !k.led {
		return
	}
	k.followPause()
	for _, e := range k.q.Entries() {
		if _, member := v.Member(e.ID); !member {
			k.q.Removed(e.ID)
			if r := k.runs[e.ID]; r != nil {
				k.give(r, queue.Result{Outcome: queue.OutcomeSkipped})
			}
			delete(k.awaiting, e.ID)
			delete(k.events, e.ID)
		}
	}
}

func (k *work) changedFleet(string) { k.target.changedFleet() }

// ask asks a member of the own fleet; this machine asks itself.
func (k *work) ask(id string, patience time.Duration, serve func(*target) any, answer func(any), failed func(string)) {
	p, cluster, epoch := k.p, k.p.view().Cluster(), k.p.view().Epoch()
	m, ok := p.view().Member(id)
	to := p.w.hostAt(m.Endpoints.FC)
	if !ok || to == nil || to.disk.key.Public() != m.Key {
		p.after(0, func() { failed("no session") })
		return
	}
	p.call(to, patience, func(q *proc, send func(func())) {
		if q.view().Cluster() != cluster || q.view().Epoch() != epoch || q.moving {
			send(func() { failed("no session") })
			return
		}
		serveLater(serve(q.work.target), func(v any) { send(func() { answer(v) }) })
	}, failed)
}

// later is an answer that comes when a disk has done its part.
type later func(done func(any))

func serveLater(v any, done func(any)) {
	if f, ok := v.(later); ok {
		f(done)
		return
	}
	done(v)
}

// discover asks every member who wants provisioning.
func (k *work) discover() {
	if k.q.PausedBy() != 0 {
		return
	}
	turn := k.turn
	for m := range k.p.view().Members() {
		k.ask(m.ID, probeFor, (*target).query, func(v any) {
			if a := v.(wire.QueryAnswer); k.turn == turn && a.Wants && a.ID == m.ID {
				k.q.Add(k.now(), queue.Sighting{ID: m.ID, Made: k.now(), Source: queue.SourceDiscovery, BootID: a.BootID, Wants: true})
				k.dispatch()
			}
		}, func(string) {})
	}
}

// heardStart takes a startup event of a member.
func (k *work) heardStart(e wire.StartupEvent) (taken bool) {
	m, ok := k.p.view().Member(e.Node)
	if !k.led || !ok || e.Cluster != k.p.view().Cluster() {
		return false
	}
	at := queue.MarkOf(&e)
	if !at.After(k.events[m.ID]) {
		return true
	}
	if k.q.PausedBy() == 0 {
		k.events[m.ID] = at
	}
	v := k.q.Add(k.now(), queue.Sighting{ID: m.ID, Made: k.now().Add(-time.Duration(e.AgeMS) * time.Millisecond), Source: queue.SourceEvent,
		BootID: fmt.Sprintf("%x", e.BootID), Wants: true})
	if v == queue.HoldEnded {
		delete(k.awaiting, m.ID)
		k.record(m.ID)
	}
	k.dispatch()
	return true
}

// dispatch hands machines to workers: each is probed first.
func (k *work) dispatch() {
	for k.led && k.busy < workers {
		job, ok := k.q.Take(k.now())
		if !ok {
			return
		}
		r := &workRun{job: job, boot: job.BootID, turn: k.turn}
		k.runs[job.ID] = r
		k.busy++
		k.ask(job.ID, probeFor, (*target).query, func(v any) {
			a := v.(wire.QueryAnswer)
			switch {
			case r.over:
			case !a.Wants && !job.Asked:
				k.give(r, queue.Result{Outcome: queue.OutcomeUnwanted, Stage: queue.StageProbe})
			case a.Busy && !k.p.w.breaks.TwoSteps:
				k.give(r, queue.Result{Outcome: queue.OutcomeNotYet, Stage: queue.StageProbe, Error: "busy with another leader's step"})
			default:
				r.boot = a.BootID
				k.begin(r)
			}
		}, func(why string) {
			k.give(r, queue.Result{Outcome: queue.OutcomeError, Stage: queue.StageProbe, Error: why, Unreachable: true})
		})
	}
}

func (k *work) begin(r *workRun) {
	if !k.q.Begin(k.now(), r.job) {
		r.over = true
		k.forget(r)
		return
	}
	k.p.after(k.p.h.chance.between(50*time.Millisecond, 2*time.Second), func() { k.cycle(r) })
}

// cycle is a helper's answer and what follows from it.
func (k *work) cycle(r *workRun) {
	if r.over {
		return
	}
	chance := k.p.h.chance.IntN(40)
	if k.p.w.calm {
		chance = 39
	}
	switch {
	case chance < 2:
		k.give(r, queue.Result{Outcome: queue.OutcomeError, Stage: queue.StageHelper, Error: "the helper failed"})
	case chance < 3:
		k.give(r, queue.Result{Outcome: queue.OutcomeError, Stage: queue.StageHelper, Error: "the helper says never", Permanent: true})
	case chance < 5:
		k.give(r, queue.Result{Outcome: queue.OutcomeDeferred, Stage: queue.StageHelper, RetryAfter: k.p.h.chance.between(0, 10*time.Minute)})
	default:
		body := fmt.Appendf(nil, "configuration %d of %s", r.job.Generation, r.job.ID)
		k.step(r, queue.StageConfigure, body, func(digest string) {
			restart := func() {
				k.step(r, queue.StageRestart, []byte(digest), func(string) {
					k.awaiting[r.job.ID] = digest
					k.give(r, queue.Result{Outcome: queue.OutcomeSuccess, Stage: queue.StageRestart})
				})
			}
			if k.p.w.breaks.OldRestarts {
				k.p.after(3*time.Second, restart)
				return
			}
			restart()
		})
	}
}

// step has a machine do one writing step, under a lease of its own.
func (k *work) step(r *workRun, stage queue.Stage, body []byte, done func(digest string)) {
	v, p := k.p.view(), k.p
	if r.over || p.voter == nil {
		return
	}
	claims := wire.LeaseClaims{Version: wire.LeaseVersion, Target: r.job.ID, Step: string(stage), Digest: sha256.Sum256(body),
		Expiry: uint64(max(p.h.wall().Add(fleet.LeaseLife).Unix(), 0)), Cluster: v.Cluster(), Epoch: v.Epoch(), Term: p.voter.store.term, Signer: p.id()}
	p.h.chance.fill(claims.Serial[:])
	lease := fleet.SignLease(p.h.disk.key, claims)
	said := p.h.wall().Sub(p.w.time()) // of its clock, on the session
	k.ask(r.job.ID, stepFor, func(t *target) any { return t.doStep(string(stage), lease, body, p.id(), said) }, func(v any) {
		a := v.(stepAnswer)
		switch {
		case r.over:
		case a.failed == "":
			done(a.digest)
		case a.again:
			k.give(r, queue.Result{Outcome: queue.OutcomeNotYet, Stage: stage, Error: a.failed})
		default:
			k.give(r, queue.Result{Outcome: queue.OutcomeError, Stage: stage, Error: a.failed})
		}
	}, func(why string) {
		k.give(r, queue.Result{Outcome: queue.OutcomeError, Stage: stage, Error: why, Unreachable: true})
	})
}

func (k *work) forget(r *workRun) {
	k.busy--
	if k.runs[r.job.ID] == r {
		delete(k.runs, r.job.ID)
	}
}

// leavesNothing reports whether a run ended so that nothing of it is kept in the fleet's state.
func (k *work) leavesNothing(r *workRun, res queue.Result) bool {
	e, _ := k.q.Entry(r.job.ID)
	return res.Outcome == queue.OutcomeSkipped || res.Outcome == queue.OutcomeUnwanted ||
		res.Outcome == queue.OutcomeNotYet && e.Attempt < r.job.Attempt // where it is not, it was refused for too long
}

// give ends a run.
func (k *work) give(r *workRun, res queue.Result) {
	if r.over {
		return
	}
	r.over = true
	k.forget(r)
	res.BootID = r.boot
	if !k.q.Finish(k.now(), r.job, res) || k.leavesNothing(r, res) {
		k.dispatch()
		return
	}
	if res.Outcome != queue.OutcomeSuccess {
		delete(k.awaiting, r.job.ID)
	}
	k.record(r.job.ID)
	k.dispatch()
}

// announced takes what a member says of itself: a held one may confirm by it.
func (k *work) announced(id string, a wire.Announce) {
	if !k.led || k.confirms[id] || k.awaiting[id] == "" || k.awaiting[id] != a.ConfigDigest || !k.q.AwaitsConfirm(id) {
		return
	}
	e, _ := k.q.Entry(id)
	b := k.beside(id)
	b.Component = a.Component
	rec, turn := queue.ConfirmedRecord(k.now(), e, b), k.turn
	k.confirms[id] = true
	k.p.propose(fleet.ProvisionUpdate(id, rec), func(_ fleet.Result, err error) {
		if k.turn == turn {
			delete(k.confirms, id)
		}
		if err == nil && k.turn == turn && k.q.Confirmed(k.now(), id) {
			delete(k.awaiting, id)
			k.p.w.sum.Provisioned++
		}
	})
}

func (k *work) retry(id string) { k.q.Retry(k.now(), id) }

// dropOne takes a machine out of the queue; what runs ends at its next boundary.
func (k *work) dropOne(id string) {
	if k.q.Drop(id) == queue.AnswerDropped {
		if r := k.runs[id]; r != nil {
			k.give(r, queue.Result{Outcome: queue.OutcomeSkipped})
		}
		delete(k.awaiting, id)
		k.record(id)
	}
}
