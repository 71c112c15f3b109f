package provision

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/identity"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// Standing is what the applied roster says of an id.
type Standing uint8

// The standings.
const (
	StandingUnknown Standing = iota
	StandingMember
	StandingRevoked
)

// Deps is what the leader's side is given.
//
// Post, Queue, Members, Info, Load, Record, Commit, Raise, Clear, Means, HandOver and Tell are the loop's: everything but Post is
// called only inside it, and must not wait. Call, Lease, MemberKey and Cluster are called from any goroutine.
type Deps struct {
	// Post runs a function on the node's event loop; now keeps its monotonic reading. It must run whatever is posted
	// until Stop has returned.
	Post  func(func(now time.Time))
	Queue *queue.Queue
	// Members returns the ids of the members that have a session, and this node's own.
	Members func() []string
	// Call makes one request on a member's session and reads its JSON answer into reply; this node itself is called in
	// process. ErrUnreachable: no session. It returns soon after ctx has ended.
	Call func(ctx context.Context, id string, verb wire.Verb, payload, reply any) error
	// Lease returns the bytes of a signed lease for one step with exactly this body; an error when this node does not
	// lead.
	Lease func(id, step string, body []byte) ([]byte, error)
	// Record writes a machine's outcome into the fleet's state, as an effect.
	Record func(id string, p fleet.Provision)
	Info   func(id string) HelperContext
	// Cluster is the id of the fleet that this node leads.
	Cluster func() string
	// MemberKey returns a member's key by the applied roster.
	MemberKey func(id string) (identity.PublicKey, Standing)

	// Commit is Record for what counts only once it is committed: done is called with the end of it, on some goroutine, also
	// when ctx has ended before. Of one machine what came first is committed first. nil: Record is used, and counts at once.
	Commit func(ctx context.Context, id string, p fleet.Provision, done func(error))
	// Load returns what the fleet's state holds of each member; nil: a new leader begins with nothing.
	Load func() map[string]fleet.Provision
	// Passing is called with each name of Points, from any goroutine; nil: nobody looks.
	Passing func(name string)
	// Raise and Clear set and end a condition; nil: nobody is told.
	Raise func(condition, detail string)
	Clear func(condition string)
	// Means is told, after each look, why this node could not provision a machine if it led; nil: it could. Whether it leads
	// makes no difference. nil: nobody is told.
	Means func(err error)
	// HandOver asks for another leader because this one has nothing to provision with: after each look that found nothing,
	// while no machine is worked. nil: nobody is asked.
	HandOver func(why string)
	// Tell is told what a person may want to watch as it happens: kind startup or run, what happened in a word, and the rest.
	// nil: nobody is told.
	Tell   func(kind, what, id, detail string)
	Logger *slog.Logger // nil: none
}

// Provisioner is the leader's side. Its methods may be called from any goroutine.
type Provisioner struct {
	cfg  atomic.Pointer[Config] // complete; what it points to is not changed
	deps Deps
	log  *slog.Logger
	m    *metrics

	ctx         context.Context // ends when Stop has waited long enough
	cancel      context.CancelFunc
	quit        chan struct{}
	stopping    atomic.Bool
	quiesceOnce sync.Once
	working     sync.WaitGroup // the workers
	wg          sync.WaitGroup // everything else
	wake        chan time.Duration
	busy        atomic.Int64
	carries     sync.Map // id → digest that a record of ours will hold

	// The loop's.
	leading     bool
	leadCtx     context.Context
	leadCancel  context.CancelFunc
	idle        []*worker
	crew        int    // workers that there are, those that are to end at their next boundary left out
	ready       []*run // probed, waiting for a worker
	slow        []*run // to be probed for the second time
	probing     int
	probing2    int
	runs        map[string]*run
	awaiting    map[string]*pending
	events      map[string]queue.Mark
	always      map[string]bool // machines that ask at every boot
	discovering bool
	pauseSaid   queue.PauseReason // why members were last not asked, as the log was told; 0: they were
	nextRound   time.Time
	failing     bool
	nothing     string // why there is nothing to provision with; "" if there is
	unsure      bool   // a new leader has not looked yet
	clashes     map[string]bool
	said        map[string]failureSaid
}

// run is one machine that was picked up.
type run struct {
	job       queue.Job
	cfg       *Config // as it was when the machine was picked up
	info      HelperContext
	csr       *HelperCSR // nil without --provision-pki
	bootID    string
	ctx       context.Context
	cancel    context.CancelFunc
	again     bool                        // a person's word, also for an upgrade that was rolled back
	second    bool                        // its first probe had no answer in time
	stage     atomic.Pointer[queue.Stage] // that it is at, for whoever looks
	restarts  atomic.Bool
	announced *wire.Announce // since the restart; the loop's
}

// pending is a held machine that has to confirm.
type pending struct {
	digest     string
	made       time.Time // zero: another leader saw it
	component  string
	committing bool
	taken      bool // taken over from another leader, to whom it may have said it already
}

// worker takes one machine at a time: it is handed one only while it is idle, so nothing waits in its channel.
type worker struct{ hand chan *run }

// Start begins paused, without leadership. The error says what is wrong with cfg and how to mend it.
func Start(ctx context.Context, cfg Config, deps Deps) (*Provisioner, error) {
	if err := cfg.Complete(); err != nil {
		return nil, err
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Provisioner{deps: deps, log: deps.Logger.With("component", "provisioner"), m: newMetrics(),
		quit: make(chan struct{}), wake: make(chan time.Duration, 1), runs: map[string]*run{},
		awaiting: map[string]*pending{}, events: map[string]queue.Mark{}, always: map[string]bool{}, clashes: map[string]bool{}, said: map[string]failureSaid{}}
	p.cfg.Store(&cfg)
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.leadCtx, p.leadCancel = context.WithCancel(p.ctx)
	p.log.Info("provisioner started", "workers", cfg.Workers, "interval", cfg.Interval, "listens_for", cfg.Component)
	p.wg.Go(p.keepTime)
	p.crew = cfg.Workers
	for range cfg.Workers {
		p.working.Go(p.work)
	}
	p.post(func(now time.Time) {
		p.tell(TellStartup, "started", "", "component "+ComponentProvisioner)
		p.tick(now) // the first look at what there is to provision with
	})
	return p, nil
}

// Configure takes another configuration into use, of which the machines that are worked know nothing yet. One that cannot
// be used is passed over, and said. Whether its helper or its default can be used is looked at right away.
func (p *Provisioner) Configure(cfg Config) {
	if err := cfg.check(); err != nil {
		p.log.Warn("a configuration of provisioning is passed over", "error", err.Error())
		return
	}
	p.post(func(now time.Time) {
		if p.stopping.Load() {
			return
		}
		p.cfg.Store(&cfg)
		p.deps.Queue.Configure(cfg.Interval, cfg.QueueCap)
		p.man()
		p.nextRound = now
		p.after(now)
	})
}

// man brings the workers to the number that is configured: one that has a machine in hand ends after it.
func (p *Provisioner) man() {
	want := p.cfg.Load().Workers
	for p.crew < want {
		p.crew++
		p.working.Go(p.work)
	}
	for p.crew > want && len(p.idle) > 0 {
		p.dismiss(p.idle[len(p.idle)-1])
		p.idle = p.idle[:len(p.idle)-1]
	}
}

// dismiss ends a worker that is idle.
func (p *Provisioner) dismiss(w *worker) {
	p.crew--
	close(w.hand)
}

// post runs f on the loop.
func (p *Provisioner) post(f func(now time.Time)) { p.deps.Post(f) }

// ask runs f on the loop and waits for it.
func (p *Provisioner) ask(ctx context.Context, f func(now time.Time)) error {
	done := make(chan struct{})
	p.post(func(now time.Time) { f(now); close(done) })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.quit:
		return ErrStopped
	}
}

// Lead says that this node gained or lost leadership; gained means after the barrier, so that the state is whole.
func (p *Provisioner) Lead(leading bool) {
	p.post(func(now time.Time) {
		if leading == p.leading || (leading && p.stopping.Load()) {
			return
		}
		p.leading = leading
		if leading {
			p.gained(now)
		} else {
			p.lost()
		}
		p.after(now)
	})
}

func (p *Provisioner) gained(now time.Time) {
	p.m.leaderChanges.Add(1)
	p.leadCancel()
	p.leadCtx, p.leadCancel = context.WithCancel(p.ctx)
	if p.deps.Load != nil {
		for id, rec := range p.deps.Load() {
			if rec.IsZero() {
				continue // it never asked, and stays unknown to the queue
			}
			p.events[id] = queue.Mark{Boot: rec.BootCounter, Sequence: rec.Sequence}
			p.deps.Queue.Load(now, queue.Recall(id, rec, now, 0))
			if queue.Awaits(rec) && p.deps.Queue.AwaitsConfirm(id) {
				p.awaiting[id] = &pending{digest: rec.ConfigDigest, taken: true}
			}
		}
	}
	// Nothing begins before the first look at what there is to provision with, or machines would fail for want of it.
	p.unsure, p.nothing = true, ""
	p.deps.Queue.Pause(queue.PauseNothingToProvisionWith)
	p.deps.Queue.Resume(queue.PauseNoLeadership)
	p.log.Info("leadership gained: provisioning begins")
	p.nextRound = now // one round at once
}

func (p *Provisioner) lost() {
	p.deps.Queue.Pause(queue.PauseNoLeadership)
	p.leadCancel()
	p.deps.Queue.DropAll()
	for _, list := range [][]*run{p.ready, p.slow} {
		for _, r := range list {
			p.abandon(r)
		}
	}
	p.ready, p.slow = nil, nil
	clear(p.awaiting)
	p.carries.Clear()
	clear(p.events)
	clear(p.always)
	clear(p.said)
	if len(p.clashes) > 0 {
		clear(p.clashes)
		p.clearCondition("identity-clash")
	}
	if p.failing {
		p.failing = false
		p.clearCondition("provisioning-failing")
	}
	if p.nothing != "" {
		p.nothing = ""
		p.clearCondition("provisioning-paused")
	}
	p.log.Info("leadership lost: provisioning ends here")
}

// abandon gives up a run that no worker has.
func (p *Provisioner) abandon(r *run) {
	r.cancel()
	p.forgetRun(r)
	p.deps.Queue.Finish(time.Time{}, r.job, queue.Result{Outcome: queue.OutcomeSkipped})
}

func (p *Provisioner) forgetRun(r *run) {
	if p.runs[r.job.ID] == r {
		delete(p.runs, r.job.ID)
	}
}

// keepTime wakes the loop for the next round, hold or due machine.
func (p *Provisioner) keepTime() {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case d := <-p.wake:
			timer.Reset(d)
		case <-timer.C:
			p.post(p.tick)
		case <-p.quit:
			return
		}
	}
}

// tick is the loop's turn at a moment that was asked for.
func (p *Provisioner) tick(now time.Time) { p.after(now) }

// after is run at the end of everything that may have changed the queue: holds and dues, a round that is due, machines
// to idle workers, and the next moment to wake at.
func (p *Provisioner) after(now time.Time) {
	if p.stopping.Load() {
		p.dispatch(now)
		return
	}
	if p.leading {
		_, unconfirmed := p.deps.Queue.Tick(now)
		for _, id := range unconfirmed {
			delete(p.awaiting, id)
			p.carries.Delete(id)
			p.log.Warn("machine did not confirm its configuration", "id", id)
			p.record(id)
		}
		if len(unconfirmed) > 0 {
			p.checkFailing()
		}
	}
	if now.Sub(p.nextRound) >= 0 {
		p.nextRound = now.Add(p.cfg.Load().Interval)
		p.begin()
		if p.leading {
			p.checkFailing()
		}
	}
	p.dispatch(now)
	p.rearm(now)
}

func (p *Provisioner) rearm(now time.Time) {
	next := p.nextRound
	if t := p.deps.Queue.Next(now); p.leading && !t.IsZero() && t.Sub(next) < 0 {
		next = t
	}
	d := max(next.Sub(now), 0)
	select {
	case <-p.wake: // the newest moment replaces one that was not taken yet
	default:
	}
	select {
	case p.wake <- d:
	default:
	}
}

// begin looks at what there is to provision with, also where this node does not lead, and starts a leader's timed round.
// The look reads a disk, so it is not the loop's.
func (p *Provisioner) begin() {
	lead, leading := p.leadCtx, p.leading
	cfg := p.cfg.Load()
	p.wg.Go(func() {
		err := cfg.usable()
		p.post(func(now time.Time) {
			if p.cfg.Load() != cfg {
				return // another look is on its way
			}
			if p.deps.Means != nil && !p.stopping.Load() {
				p.deps.Means(err)
			}
			if lead.Err() != nil || !leading {
				return
			}
			p.checkMeans(err)
			p.round(now)
			p.after(now)
		})
	})
}

// checkMeans pauses the queue of a leader that has nothing to provision with, and resumes it by itself.
func (p *Provisioner) checkMeans(err error) {
	unsure := p.unsure
	p.unsure = false
	switch {
	case err == nil && unsure:
		p.deps.Queue.Resume(queue.PauseNothingToProvisionWith)
	case err == nil && p.nothing != "":
		p.nothing = ""
		p.deps.Queue.Resume(queue.PauseNothingToProvisionWith)
		p.clearCondition("provisioning-paused")
		p.log.Info("provisioning resumes: there is a helper or a default again")
	case err != nil && p.nothing == "":
		p.nothing = err.Error()
		p.deps.Queue.Pause(queue.PauseNothingToProvisionWith)
		p.raise("provisioning-paused", p.nothing)
		p.log.Warn("provisioning pauses: this leader has nothing to provision with", "why", p.nothing)
	case err != nil && p.nothing != err.Error():
		p.nothing = err.Error()
		p.raise("provisioning-paused", p.nothing)
	}
	if p.nothing != "" && p.busy.Load() == 0 && p.deps.HandOver != nil {
		p.deps.HandOver(p.nothing)
	}
}

// checkFailing raises one condition for all machines that fail again and again.
func (p *Provisioner) checkFailing() {
	count, id, lastError := p.deps.Queue.Failing()
	switch {
	case count > 0:
		p.failing = true
		detail := id + ": " + lastError
		if count > 1 {
			detail += fmt.Sprintf(" (and %d more)", count-1)
		}
		p.raise("provisioning-failing", detail)
	case p.failing:
		p.failing = false
		p.clearCondition("provisioning-failing")
	}
}

func (p *Provisioner) raise(condition, detail string) {
	if p.deps.Raise != nil {
		p.deps.Raise(condition, detail)
	}
}

func (p *Provisioner) clearCondition(condition string) {
	if p.deps.Clear != nil {
		p.deps.Clear(condition)
	}
}

// SessionUp says that a member has a session: one that was unreachable is due now.
func (p *Provisioner) SessionUp(id string) {
	p.post(func(now time.Time) {
		p.deps.Queue.Reachable(now, id)
		p.after(now)
	})
}

// Removed says that a machine is no longer a member: its run is cancelled and nothing of it is kept.
func (p *Provisioner) Removed(id string) {
	p.post(func(now time.Time) {
		p.deps.Queue.Removed(id)
		p.letGo(id)
		delete(p.events, id)
		delete(p.always, id)
		p.after(now)
	})
}

// letGo cancels a machine's run and stops awaiting its confirmation.
func (p *Provisioner) letGo(id string) {
	delete(p.awaiting, id)
	delete(p.said, id)
	p.carries.Delete(id)
	if r := p.runs[id]; r != nil {
		r.cancel()
	}
}

// Announce is what a member says of itself; it may confirm a configuration.
func (p *Provisioner) Announce(id string, a wire.Announce) {
	p.post(func(now time.Time) {
		if a.Wants && a.WantsWhy == WhyAlways {
			p.always[id] = true
		} else if a.Wants {
			delete(p.always, id)
		}
		if r := p.runs[id]; r != nil && r.restarts.Load() {
			r.announced = &a
		}
		p.confirm(now, id, &a)
		p.after(now)
	})
}

// Carries reports whether a record that this leader will write holds the digest that a machine announces: the announcement
// needs no entry of its own. It may be called from any goroutine.
func (p *Provisioner) Carries(id, digest string) bool {
	d, ok := p.carries.Load(id)
	return ok && d == digest
}

// WhyAlways is the reason of a machine that asks at every boot, by --provision-mode=always.
const WhyAlways = wire.WantsAlways

// confirm commits the confirmation of a held machine whose announcement says what is awaited.
func (p *Provisioner) confirm(now time.Time, id string, a *wire.Announce) {
	w := p.awaiting[id]
	if p.stopping.Load() || w == nil || w.committing || a == nil || a.Component != ComponentServer || a.ConfigDigest != w.digest || !p.deps.Queue.AwaitsConfirm(id) {
		return
	}
	w.component = a.Component
	rec := p.confirmed(now, id)
	p.passing(queue.StageConfirm, false)
	done := func(now time.Time) {
		p.passing(queue.StageConfirm, true)
		if p.awaiting[id] != w || !p.deps.Queue.Confirmed(now, id) {
			return
		}
		delete(p.awaiting, id)
		if !w.made.IsZero() {
			p.m.sightingToDone.observe(now.Sub(w.made))
		}
		if p.failing {
			p.checkFailing()
		}
		p.log.Info("machine provisioned", "id", id, "digest", w.digest)
		p.tell(TellRun, "provisioned", id, "")
	}
	if p.deps.Commit == nil {
		p.deps.Record(id, rec)
		done(now)
		return
	}
	w.committing = true
	ctx, cancel := context.WithTimeout(p.leadCtx, ConfirmCommit)
	p.deps.Commit(ctx, id, rec, func(err error) {
		cancel()
		p.post(func(now time.Time) {
			w.committing = false
			p.carries.CompareAndDelete(id, w.digest)
			if err != nil {
				p.log.Warn("confirmation was not committed", "id", id, "error", err)
				if p.awaiting[id] == w && p.leading {
					p.record(id)
				}
				return
			}
			done(now)
			p.after(now)
		})
	})
}

// Quiesce begins the stop of a node that may still lead: nothing is begun any more, and what runs has reached its next
// stage's boundary when it returns, or StopPatience or ctx has ended. Only then is leadership handed over: another leader
// would begin with machines that are still worked here.
func (p *Provisioner) Quiesce(ctx context.Context) {
	p.quiesceOnce.Do(func() {
		p.stopping.Store(true)
		if busy := p.busy.Load(); busy > 0 {
			p.log.Info("this node stops: machines that are worked reach the end of their stage", "machines", busy, "at_most", StopPatience)
		}
		patience, cancel := context.WithTimeout(ctx, StopPatience)
		defer cancel()
		// After this turn of the loop nothing is started any more, so that what runs can be waited for.
		paused := make(chan struct{})
		p.post(func(time.Time) { p.deps.Queue.Pause(queue.PauseStopping); close(paused) })
		select {
		case <-paused:
		case <-patience.Done():
		}
		close(p.quit)
		idle := make(chan struct{})
		p.wg.Go(func() { p.working.Wait(); close(idle) })
		select {
		case <-idle:
		case <-patience.Done():
			if busy := p.busy.Load(); busy > 0 {
				p.log.Warn("machines are still worked; their runs are cancelled within a stage", "machines", busy)
			}
		}
	})
}

// Stop ends everything: workers stop at their next stage's boundary, and at once after StopPatience or when ctx ends.
// When it returns, no goroutine and no helper of this provisioner is left.
func (p *Provisioner) Stop(ctx context.Context) {
	p.Quiesce(ctx)
	p.cancel()
	p.working.Wait()
	p.wg.Wait()
}
