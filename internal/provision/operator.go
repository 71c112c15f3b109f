package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// pauseTexts says each cause of a pause.
var pauseTexts = []struct {
	Reason queue.PauseReason
	Text   string
}{
	{queue.PauseNoLeadership, "this node does not lead the fleet"},
	{queue.PauseOperator, "an operator paused it"},
	{queue.PauseNothingToProvisionWith, "there is neither a usable helper nor a default"},
	{queue.PauseStopping, "this node is stopping"},
}

// PauseText says why the queue is paused; "": it is not.
func PauseText(why queue.PauseReason) string {
	var out []string
	for _, r := range pauseTexts {
		if why&r.Reason != 0 {
			out = append(out, r.Text)
		}
	}
	return strings.Join(out, ", and ")
}

// List is the queue as an operator sees it.
type List struct {
	Paused  queue.PauseReason
	Now     time.Time
	Entries []queue.Entry // sorted by id
}

// Entries returns the queue as it stands.
func (p *Provisioner) Entries(ctx context.Context) (List, error) {
	var out List
	err := p.ask(ctx, func(now time.Time) {
		out = List{Paused: p.deps.Queue.PausedBy(), Now: now, Entries: p.deps.Queue.Entries()}
		for i := range out.Entries {
			p.atStage(&out.Entries[i])
		}
	})
	if err != nil {
		return List{}, err // the loop may still be writing out
	}
	return out, nil
}

// Show returns what is known of one machine; false: nothing.
func (p *Provisioner) Show(ctx context.Context, id string) (queue.Entry, bool, error) {
	var e queue.Entry
	var ok bool
	if err := p.ask(ctx, func(time.Time) { e, ok = p.deps.Queue.Entry(id); p.atStage(&e) }); err != nil {
		return queue.Entry{}, false, err
	}
	return e, ok, nil
}

// atStage makes the stage of a running machine the one that it is at.
func (p *Provisioner) atStage(e *queue.Entry) {
	if r := p.runs[e.ID]; r != nil && e.State == queue.StateRunning {
		if s := r.stage.Load(); s != nil {
			e.Stage = *s
		}
	}
}

// Retry, Drop and Reprovision are the operator's verbs on one machine. A verb without an effect is an error that says
// why, a *wire.Error with a hint.
func (p *Provisioner) Retry(ctx context.Context, id string) (string, error) {
	return p.verb(ctx, id, func(now time.Time) queue.Answer { return p.deps.Queue.Retry(now, id) })
}

// Drop takes a machine out of the queue and cancels its run.
func (p *Provisioner) Drop(ctx context.Context, id string) (string, error) {
	return p.verb(ctx, id, func(time.Time) queue.Answer {
		a := p.deps.Queue.Drop(id)
		if a == queue.AnswerDropped {
			p.letGo(id)
		}
		return a
	})
}

// Reprovision runs a member's cycle whatever its state.
func (p *Provisioner) Reprovision(ctx context.Context, id string) (string, error) {
	return p.verb(ctx, id, func(now time.Time) queue.Answer {
		if _, standing := p.deps.MemberKey(id); standing != StandingMember {
			return queue.AnswerUnknown
		}
		return p.deps.Queue.Reprovision(now, id)
	})
}

// verb does it, and answers once the fleet's state holds it: what a person asked for outlives this leader.
func (p *Provisioner) verb(ctx context.Context, id string, f func(now time.Time) queue.Answer) (string, error) {
	var text string
	var err error
	ctx, cancel := context.WithTimeout(ctx, VerbCommit)
	defer cancel()
	kept := make(chan error, 1)
	asked := p.ask(ctx, func(now time.Time) {
		if !p.leading {
			err = ErrNotLeading
			return
		}
		_, standing := p.deps.MemberKey(id)
		row := f(now).Row()
		text = wire.Printable(id) + " " + row.Text
		if !row.Effect {
			hint := row.Hint
			switch {
			case row.Answer == queue.AnswerUnknown && standing != StandingMember:
				text, hint = wire.Printable(id)+" is not a member of this fleet", "pacectl member list"
			case row.Answer == queue.AnswerPaused:
				why := p.deps.Queue.PausedBy()
				text += " (" + PauseText(why) + ")"
				if why&queue.PauseNothingToProvisionWith != 0 { // resuming would not help
					hint = "give the leader a usable --provision-helper=PATH or --provision-default=FILE"
				}
			case row.Answer == queue.AnswerUnknown, row.Answer == queue.AnswerConfirmed, row.Answer == queue.AnswerRunning:
				hint += " " + id
			}
			err = wire.NewError(wire.CodeRefusedByRule, text, hint)
			text = ""
			return
		}
		if p.deps.Commit == nil {
			p.record(id)
			kept <- nil
		} else {
			p.deps.Commit(ctx, id, p.provision(id), func(err error) { kept <- err })
		}
		if p.failing {
			p.checkFailing()
		}
		p.after(now)
	})
	switch {
	case asked != nil:
		return "", asked
	case err != nil:
		return "", err
	}
	select {
	case err = <-kept:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return "", wire.NewError(wire.CodeRefusedByRule, text+" on this leader, and the fleet's state does not hold it: "+wire.Printable(err.Error()),
			"pacectl queue show "+id+" on whoever leads then")
	}
	return text, nil
}

// Pause and Resume are the operator's; what runs goes on.
func (p *Provisioner) Pause(ctx context.Context) error {
	return p.ask(ctx, func(now time.Time) { p.deps.Queue.Pause(queue.PauseOperator); p.after(now) })
}

// Resume ends the operator's pause. The members are asked at once: what they said meanwhile was dropped.
func (p *Provisioner) Resume(ctx context.Context) error {
	return p.ask(ctx, func(now time.Time) {
		if p.deps.Queue.PausedBy()&queue.PauseOperator != 0 {
			p.nextRound = now
		}
		p.deps.Queue.Resume(queue.PauseOperator)
		p.after(now)
	})
}

// HelperTrial is what a helper was given and what it said; nothing was configured.
type HelperTrial struct {
	Input, Output json.RawMessage
	Took          time.Duration
}

// trialFailure is a helper that failed where a person tried it.
type trialFailure struct {
	failure *Failure
	id      string
}

func (t *trialFailure) Error() string { return t.failure.Text }

// Unwrap gives the helper's failure, and what the person is answered with.
func (t *trialFailure) Unwrap() []error {
	hint := "mend the helper, and try it again: pacectl queue run-helper " + t.id + " --dry-run"
	if t.failure.Text == ErrNothing.Error() { // there is none to mend
		hint = "give the leader one, typed there: pace-node --install-service --provision-helper=PATH"
	}
	return []error{t.failure, wire.NewError(wire.CodeRefusedByRule, t.failure.Text, hint)}
}

// TryHelper runs the helper for one machine and configures nothing.
func (p *Provisioner) TryHelper(ctx context.Context, id string) (HelperTrial, error) {
	r := &run{ctx: ctx, cancel: func() {}, cfg: p.cfg.Load()}
	var refused error
	if err := p.ask(ctx, func(now time.Time) {
		switch {
		case !p.leading:
			refused = ErrNotLeading
		case !slices.Contains(p.deps.Members(), id):
			refused = wire.NewError(wire.CodeRefusedByRule, wire.Printable(id)+" has no session with this node", "pacectl member show "+id)
		default:
			e, _ := p.deps.Queue.Entry(id)
			r.job = queue.Job{ID: id, Attempt: e.Attempt + 1, FirstSeen: e.FirstSeen, LastError: e.LastError}
			r.bootID, r.info = e.BootID, p.deps.Info(id)
		}
	}); err != nil {
		return HelperTrial{}, err
	}
	if refused != nil {
		return HelperTrial{}, refused
	}
	inventory, f := p.inventory(r)
	if f != nil {
		return HelperTrial{}, errors.New(f.text)
	}
	if f := p.csr(r); f != nil { // it writes nothing but a key that the next request takes as well
		return HelperTrial{}, errors.New(f.text)
	}
	begun := time.Now()
	a, input, output, failure := p.runHelper(r, inventory)
	out := HelperTrial{Input: input, Output: output, Took: time.Since(begun)}
	if failure != nil {
		return out, &trialFailure{failure, id}
	}
	if output == nil {
		var err error
		if out.Output, err = encode(a.document()); err != nil {
			return out, fmt.Errorf("provision: %w", err)
		}
	}
	return out, nil
}
