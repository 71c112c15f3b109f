package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// stepFailure is a step that did not succeed.
type stepFailure struct {
	text                   string
	permanent, unreachable bool
	repeat                 bool
	stopped                bool
}

// cycle works one machine from its inventory to its restart; its Announce confirms later. The digest is that of the new
// configuration. Between two stages it ends when the node stops.
func (p *Provisioner) cycle(r *run) (queue.Result, string) {
	inventory, f := p.inventory(r)
	if f != nil {
		return failed(queue.StageInventory, f), ""
	}
	if p.boundary(r) {
		return skipped, ""
	}
	if f := p.csr(r); f != nil {
		return failed(queue.StageCSR, f), ""
	}
	if p.boundary(r) {
		return skipped, ""
	}
	answer, failure := p.helper(r, inventory)
	if failure != nil {
		return queue.Result{Outcome: queue.OutcomeError, Stage: queue.StageHelper, Error: failure.Text, Permanent: failure.Permanent()}, ""
	}
	if p.boundary(r) {
		return skipped, ""
	}
	switch {
	case answer.Defer: // defer wins over shutdown
		msg := ""
		if answer.Msg != "" {
			msg = "the helper deferred it: " + quote(answer.Msg)
		}
		return queue.Result{Outcome: queue.OutcomeDeferred, Stage: queue.StageHelper, RetryAfter: answer.RetryAfter, Error: msg}, ""
	case answer.Shutdown:
		if _, f := p.ask1(r, queue.StageShutdown, wire.ShutdownBody{Msg: answer.Msg}); f != nil {
			return failed(queue.StageShutdown, f), ""
		}
		return queue.Result{Outcome: queue.OutcomeShutdown, Stage: queue.StageShutdown}, ""
	}
	upgraded, f := p.upgrade(r, inventory, answer.Upgrade)
	switch {
	case f != nil:
		return failed(queue.StageUpgrade, f), ""
	case upgraded:
		return queue.Result{Outcome: queue.OutcomeUpgraded, Stage: queue.StageUpgrade}, ""
	case p.boundary(r):
		return skipped, ""
	}
	raw, f := p.ask1(r, queue.StageConfigure, answer.body(r.info.Cluster))
	if f != nil {
		return failed(queue.StageConfigure, f), ""
	}
	var configured wire.ConfigureAnswer
	if err := json.Unmarshal(raw, &configured); err != nil || configured.Digest == "" {
		return failed(queue.StageConfigure, &stepFailure{text: "it configured itself and did not say the digest of its new configuration"}), ""
	}
	if p.boundary(r) {
		return skipped, ""
	}
	p.carries.Store(r.job.ID, configured.Digest)
	r.restarts.Store(true)
	if _, f := p.ask1(r, queue.StageRestart, wire.RestartBody(configured)); f != nil {
		return failed(queue.StageRestart, f), ""
	}
	return queue.Result{Outcome: queue.OutcomeSuccess, Stage: queue.StageRestart}, configured.Digest
}

var skipped = queue.Result{Outcome: queue.OutcomeSkipped}

func failed(stage queue.Stage, f *stepFailure) queue.Result {
	if f.stopped {
		return skipped
	}
	if f.repeat {
		return queue.Result{Outcome: queue.OutcomeNotYet, Stage: stage, Error: f.text}
	}
	return queue.Result{Outcome: queue.OutcomeError, Stage: stage, Error: f.text, Permanent: f.permanent, Unreachable: f.unreachable}
}

// boundary reports whether the cycle ends here: the node stops, or the run was taken away.
func (p *Provisioner) boundary(r *run) bool { return p.stopping.Load() || r.ctx.Err() != nil }

// inventory asks a machine for what it is.
func (p *Provisioner) inventory(r *run) (json.RawMessage, *stepFailure) {
	raw, f := p.ask1(r, queue.StageInventory, nil)
	if f != nil {
		return nil, f
	}
	var object map[string]json.RawMessage
	if len(raw) > MaxInventory || json.Unmarshal(raw, &object) != nil || object == nil {
		return nil, &stepFailure{text: "its inventory is not one JSON object of at most 1 MiB"}
	}
	return raw, nil
}

// helper asks the helper, or the default that stands in for it.
func (p *Provisioner) helper(r *run, inventory json.RawMessage) (*Answer, *Failure) {
	p.passing(queue.StageHelper, false)
	a, _, _, f := p.runHelper(r, inventory)
	if f == nil {
		p.passing(queue.StageHelper, true)
	}
	if f != nil {
		p.m.helperErrors.add(string(f.Reason))
	}
	return a, f
}

func (p *Provisioner) runHelper(r *run, inventory json.RawMessage) (a *Answer, input, output []byte, f *Failure) {
	stage := queue.StageHelper
	r.stage.Store(&stage)
	input, err := encode(helperInput(r, inventory))
	if err != nil {
		return nil, nil, nil, fail(ReasonStart, "the helper's input cannot be written: "+err.Error())
	}
	if r.cfg.Helper == "" {
		if r.cfg.Default == "" {
			return nil, input, nil, fail(ReasonDefault, ErrNothing.Error())
		}
		a, err := readDefault(r.cfg.Default)
		if err != nil {
			return nil, input, nil, fail(ReasonDefault, "--provision-default: "+err.Error())
		}
		return a, input, nil, nil
	}
	begun := time.Now()
	a, output, f = RunHelper(r.ctx, r.cfg.Helper, r.cfg.HelperTimeout, input)
	p.m.helperSeconds.observe(time.Since(begun))
	return a, input, output, f
}

// ask1 makes one step of a machine, under its own timeout and, if it changes the machine, its own lease. It is repeated
// where the table of steps or of errors says that this is safe; a repeated one has a new lease, for a lease's serial is
// used once.
func (p *Provisioner) ask1(r *run, stage queue.Stage, body any) (json.RawMessage, *stepFailure) {
	row := step(stage)
	r.stage.Store(&stage)
	var raw json.RawMessage
	if body != nil {
		var err error
		if raw, err = encode(body); err != nil {
			return nil, &stepFailure{text: "its " + row.Step + " cannot be written: " + err.Error(), permanent: true}
		}
	}
	ctx, cancel := context.WithTimeout(r.ctx, row.Timeout)
	defer cancel()
	var last *stepFailure
	p.passing(stage, false)
	for lost := 1; ; {
		answer, f := p.ask2(ctx, r.job.ID, row, raw)
		if f == nil {
			p.passing(stage, true)
			return answer, nil
		}
		if ctx.Err() == nil || last == nil {
			last = f // a step that ran out of time shows what it waited for, not that it waited
		}
		if f.unreachable {
			lost++
		}
		if !f.repeat && (!f.unreachable || lost > row.Attempts) {
			return nil, last
		}
		wait := time.NewTimer(StepWait)
		select {
		case <-ctx.Done():
			wait.Stop()
			return nil, last
		case <-wait.C:
		}
		if p.boundary(r) {
			return nil, &stepFailure{text: errBoundary.Error(), stopped: true}
		}
	}
}

func (p *Provisioner) ask2(ctx context.Context, id string, row StepRow, body json.RawMessage) (json.RawMessage, *stepFailure) {
	req := wire.WorkRequest{Step: row.Step, Body: body}
	if row.Lease {
		lease, err := p.deps.Lease(id, row.Step, body)
		if err != nil {
			return nil, &stepFailure{text: "no lease for " + row.Step + ": " + err.Error()}
		}
		req.Lease = lease
	}
	var answer wire.WorkAnswer
	if err := p.call(ctx, id, row.Step, wire.VerbWork, req, &answer); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, &stepFailure{text: fmt.Sprintf("it did not answer %s within %s", row.Step, row.Timeout), unreachable: true}
		}
		return nil, callFailure(err, row.Step)
	}
	if !answer.OK {
		text := answer.Error
		if text == "" {
			text = "it gave no reason"
		}
		return nil, &stepFailure{text: row.Step + " failed there: " + wire.Printable(text), permanent: !answer.Transient}
	}
	return answer.Body, nil
}

// query asks a machine whether it is there and wants anything. One that asks for patience is asked again until ctx ends: in
// the moment after an election a machine may not have heard yet who leads. patient is called before each repeat.
func (p *Provisioner) query(ctx context.Context, id string, patient func()) (wire.QueryAnswer, error) {
	var refused error
	for {
		var a wire.QueryAnswer
		err := p.call(ctx, id, rpcQuery, wire.VerbQuery, struct{}{}, &a)
		if err != nil && refused != nil && ctx.Err() != nil {
			return a, refused // what it said while there was time, rather than that the time is over
		}
		if !asksPatience(err) {
			return a, err
		}
		refused = err
		patient()
		wait := time.NewTimer(QueryWait)
		select {
		case <-ctx.Done():
			wait.Stop()
			return a, err
		case <-wait.C:
		}
	}
}

// askAgain asks a machine once more, a moment later.
func (p *Provisioner) askAgain(ctx context.Context, id string) (wire.QueryAnswer, error) {
	wait := time.NewTimer(QueryWait)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return wire.QueryAnswer{}, ctx.Err()
	case <-wait.C:
		return p.query(ctx, id, func() {})
	}
}

// asksPatience reports whether a machine refused only for now.
func asksPatience(err error) bool { return err != nil && callFailure(err, "").repeat }

// call makes one request and counts it.
func (p *Provisioner) call(ctx context.Context, id, rpc string, verb wire.Verb, payload, reply any) error {
	begun := time.Now()
	err := p.deps.Call(ctx, id, verb, payload, reply)
	p.m.rpc(rpc, time.Since(begun), err)
	return err
}

// callFailure says what a failed request means for the run.
func callFailure(err error, what string) *stepFailure {
	var answered *wire.Error
	switch {
	case errors.As(err, &answered):
		f := &stepFailure{text: what + " was refused there: " + answered.Error()}
		for _, row := range CallErrors {
			if row.Code == answered.Code {
				f.permanent, f.repeat = row.Permanent, row.Repeat
			}
		}
		return f
	case errors.Is(err, ErrUnreachable):
		return &stepFailure{text: "it has no session with the leader", unreachable: true}
	default:
		return &stepFailure{text: what + ": the session failed: " + wire.Printable(err.Error()), unreachable: true}
	}
}
