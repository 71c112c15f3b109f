package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// dispatch hands probed machines to idle workers and keeps enough machines probed.
func (p *Provisioner) dispatch(now time.Time) {
	if p.stopping.Load() {
		return
	}
	for len(p.idle) > 0 && len(p.ready) > 0 {
		r := p.ready[0]
		p.ready = p.ready[1:]
		if !p.deps.Queue.Begin(now, r.job) {
			r.cancel()
			p.forgetRun(r)
			continue
		}
		w := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		p.busy.Add(1)
		p.tell(TellRun, "begun", r.job.ID, fmt.Sprintf("attempt %d", r.job.Attempt))
		w.hand <- r
	}
	for len(p.ready) < p.cfg.Load().Workers && p.probing < ProbesAtOnce {
		if len(p.slow) > 0 && p.probing2 < SecondProbes {
			p.probeSlow()
			continue
		}
		job, ok := p.deps.Queue.Take(now)
		if !ok && len(p.slow) > 0 {
			p.probeSlow()
			continue
		}
		if !ok {
			return
		}
		r := &run{job: job, cfg: p.cfg.Load(), info: p.deps.Info(job.ID), bootID: job.BootID}
		r.again = p.asksAgain(job)
		r.ctx, r.cancel = context.WithCancel(p.leadCtx)
		p.runs[job.ID] = r
		p.probe(r)
	}
}

func (p *Provisioner) probeSlow() {
	r := p.slow[0]
	p.slow = p.slow[1:]
	if !p.deps.Queue.IsCurrent(r.job.ID, r.job.Generation) {
		p.abandon(r)
		return
	}
	p.probe(r)
}

// probe asks a machine whether it is there and still wants anything, outside the workers.
func (p *Provisioner) probe(r *run) {
	p.probing++
	timeout := ProbeTimeout
	if r.second {
		p.probing2++
	} else if p.deps.Queue.HeapLen() > 0 {
		timeout = ProbePatience
	}
	p.wg.Go(func() {
		ctx, cancel := context.WithTimeout(r.ctx, timeout)
		defer cancel()
		p.passing(queue.StageProbe, false)
		answer, err := p.query(ctx, r.job.ID, func() {})
		for err == nil && answer.Busy { // with a step of the leader before
			again, failed := p.askAgain(ctx, r.job.ID)
			if failed != nil && ctx.Err() != nil {
				break // what it said while there was time
			}
			answer, err = again, failed
		}
		silent := err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
		p.post(func(now time.Time) {
			p.probing--
			if r.second {
				p.probing2--
			}
			p.probed(now, r, answer, err, silent, timeout)
			p.after(now)
		})
	})
}

func (p *Provisioner) probed(now time.Time, r *run, a wire.QueryAnswer, err error, silent bool, waited time.Duration) {
	id := r.job.ID
	if r.ctx.Err() != nil || p.stopping.Load() || !p.deps.Queue.IsCurrent(id, r.job.Generation) {
		p.abandon(r)
		return
	}
	if silent && waited < ProbeTimeout {
		r.second = true
		p.slow = append(p.slow, r)
		return
	}
	res := queue.Result{Outcome: queue.OutcomeError, Stage: queue.StageProbe}
	switch {
	case silent && !asksPatience(err):
		res.Unreachable, res.Error = true, fmt.Sprintf("it did not answer within %s", waited)
	case err != nil:
		res = failed(queue.StageProbe, callFailure(err, "probe"))
	case p.clashes[id]:
		res.Error = "two machines answer for its id, so neither is provisioned"
	case a.ID != id:
		res.Error = "it answers as " + quote(a.ID)
	case !a.Wants && !r.job.Asked:
		res.Outcome = queue.OutcomeUnwanted
	case a.Busy: // it would keep a worker waiting
		res.Outcome, res.Error = queue.OutcomeNotYet, "it is busy with a step that another leader began"
	default:
		if a.BootID != "" {
			r.bootID = a.BootID
		}
		p.passing(queue.StageProbe, true)
		p.ready = append(p.ready, r)
		return
	}
	r.cancel()
	p.finish(now, r, res, "")
}

// work is one worker. It says that it is idle, is handed one machine, works it, and says how it went.
func (p *Provisioner) work() {
	w := &worker{hand: make(chan *run, 1)}
	idle := func(now time.Time) {
		p.idle = append(p.idle, w)
		p.dispatch(now)
	}
	p.post(idle)
	for {
		var r *run
		select {
		case r = <-w.hand:
		case <-p.quit:
			select {
			case r = <-w.hand: // handed in the same moment; the cycle ends at its first boundary
			default:
			}
		}
		if r == nil {
			return // there is to be one worker less, or the node stops
		}
		res, digest := p.cycle(r)
		if (res.Outcome == queue.OutcomeError || res.Outcome == queue.OutcomeNotYet) && r.ctx.Err() != nil {
			res = skipped // it was taken away, which is no failure of the machine
		}
		r.cancel()
		p.busy.Add(-1)
		p.post(func(now time.Time) {
			p.finish(now, r, res, digest)
			if p.crew > p.cfg.Load().Workers {
				p.dismiss(w)
			} else {
				p.idle = append(p.idle, w)
			}
			p.after(now)
		})
	}
}

// finish is the one that removes: every run that ended comes here, on the loop.
func (p *Provisioner) finish(now time.Time, r *run, res queue.Result, digest string) {
	id := r.job.ID
	p.forgetRun(r)
	res.BootID = r.bootID
	if !p.deps.Queue.Finish(now, r.job, res) {
		return // leadership or membership went meanwhile
	}
	if res.Outcome == queue.OutcomeNotYet {
		if e, _ := p.deps.Queue.Entry(id); e.Attempt < r.job.Attempt {
			p.log.Debug("machine refuses for now", "id", id, "stage", string(res.Stage), "error", res.Error)
			return
		}
		res.Outcome = queue.OutcomeError // it did for too long
	}
	switch res.Outcome {
	case queue.OutcomeSkipped, queue.OutcomeUnwanted:
		return
	case queue.OutcomeError:
		p.sayFailure(now, r, res)
		p.tell(TellRun, "failed", id, "stage "+string(res.Stage)+": "+res.Error)
	default:
		delete(p.said, id)
		p.log.Info("cycle ended", "id", id, "outcome", res.Outcome.String())
		p.tell(TellRun, res.Outcome.String(), id, "")
	}
	delete(p.awaiting, id)
	if res.Outcome == queue.OutcomeSuccess {
		p.awaiting[id] = &pending{digest: digest, made: r.job.Made}
	}
	if res.Outcome == queue.OutcomeError || p.failing {
		p.checkFailing()
	}
	if res.Outcome != queue.OutcomeSuccess {
		p.carries.Delete(id)
		p.record(id)
		return
	}
	w := p.awaiting[id]
	p.confirm(now, id, r.announced)
	switch {
	case p.awaiting[id] != w || w.committing:
	case p.stopping.Load():
		p.record(id)
	default:
		p.recordLater(id, w)
	}
}

// recordLater records a run that ended well, unless its confirmation does.
func (p *Provisioner) recordLater(id string, w *pending) {
	lead := p.leadCtx
	p.wg.Go(func() {
		wait := time.NewTimer(RecordWait)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-lead.Done():
			return
		case <-p.quit:
		}
		p.post(func(now time.Time) {
			if p.awaiting[id] == w && !w.committing && lead.Err() == nil {
				p.record(id)
			}
		})
	})
}
