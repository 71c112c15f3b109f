package target

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"pace-node/internal/wire"
)

// StepRow is one step that this machine carries out.
type StepRow struct {
	Step  string
	Lease bool // it changes the machine: whoever calls Work has judged a lease for it
	run   func(t *Target, ctx context.Context, body json.RawMessage) (any, *refusal)
}

// Steps is the table of steps.
var Steps = []StepRow{
	{wire.StepInventory, false, (*Target).inventory},
	{wire.StepCSR, true, (*Target).csr},
	{wire.StepConfigure, true, (*Target).configure},
	{wire.StepRestart, true, (*Target).restart},
	{wire.StepShutdown, true, (*Target).shutdown},
	{wire.StepUpgrade, true, (*Target).upgrade},
}

// LookupStep returns the row of a step.
func LookupStep(step string) (StepRow, bool) {
	for _, r := range Steps {
		if r.Step == step {
			return r, true
		}
	}
	return StepRow{}, false
}

// Work carries out one step. A second one meanwhile is answered BusyText. A step whose ctx ends before its change is made
// leaves everything as it was; after that it completes.
func (t *Target) Work(ctx context.Context, step string, body json.RawMessage) wire.WorkAnswer {
	answer, _ := t.WorkUnder(ctx, step, body, nil)
	return answer
}

// WorkUnder is Work that asks allow, where that is not nil, when the step's turn has come: no other one begins between its word
// and the step, and while it is asked every other one is answered BusyText. Its error is returned, and nothing is done or
// counted then.
func (t *Target) WorkUnder(ctx context.Context, step string, body json.RawMessage, allow func(context.Context) error) (wire.WorkAnswer, error) {
	answer, r, err := t.work(ctx, step, body, allow)
	if err != nil {
		return wire.WorkAnswer{}, err
	}
	var raw []byte
	if r == nil {
		var err error
		if raw, err = json.Marshal(answer); err != nil {
			r = refuse(ReasonFacts, "the answer cannot be written: "+wire.Printable(err.Error()))
		} else if len(raw) > MaxInventory {
			r = refuse(ReasonFacts, fmt.Sprintf("the answer has %d bytes and may have %d", len(raw), MaxInventory))
		}
	}
	if r == nil {
		return wire.WorkAnswer{OK: true, Body: raw}, nil
	}
	said, level := refusalSaid{shown(step), r.reason, r.text}, slog.LevelWarn
	t.mu.Lock()
	t.refused[r.reason]++
	if now := time.Now(); said == t.said && now.Sub(t.saidAt) < refusalEvery {
		level = slog.LevelDebug // a leader that asks again and again
	} else {
		t.said, t.saidAt = said, now
	}
	t.mu.Unlock()
	t.log.Log(ctx, level, "step not carried out", "step", wire.Printable(shown(step)), "reason", string(r.reason), "error", r.text)
	return wire.WorkAnswer{Error: r.text, Transient: transient(r.reason)}, nil
}

func (t *Target) work(ctx context.Context, step string, body json.RawMessage, allow func(context.Context) error) (any, *refusal, error) {
	row, ok := LookupStep(step)
	if !ok {
		return nil, refuse(ReasonUnknownStep, fmt.Sprintf("this node does not know the step %s: it may be older than the leader", shown(step))), nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.mu.Lock()
	switch {
	case t.closed || t.replaced:
		t.mu.Unlock()
		return nil, refuse(ReasonClosed, "this node is stopping; try again when it is back"), nil
	case t.running != nil:
		t.mu.Unlock()
		return nil, refuse(ReasonBusy, BusyText), nil
	}
	t.running = &running{step, cancel}
	t.steps.Add(1)
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		t.running = nil
		t.mu.Unlock()
		t.steps.Done()
	}()
	if allow != nil {
		if err := allow(ctx); errors.Is(err, ErrNotKept) {
			return nil, refuse(ReasonStorage, wire.Printable(err.Error())), nil
		} else if err != nil {
			return nil, nil, err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, ended(err), nil
	}
	t.mu.Lock()
	t.begun++
	t.suspect = ""
	t.mu.Unlock()
	answer, r := row.run(t, ctx, body)
	return answer, r, nil
}

// ended says why a step ended at its boundary.
func ended(err error) *refusal {
	switch {
	case errors.Is(err, errChangedFleet):
		return refuse(ReasonChangedFleet, "this machine changed fleet; nothing was changed here")
	case errors.Is(err, ErrClosed):
		return refuse(ReasonClosed, "this node is stopping; nothing was changed here")
	default:
		return refuse(ReasonCancelled, "the step was given up by whoever asked for it; nothing was changed here")
	}
}

// failed turns an error of staging and swapping into a refusal.
func failed(ctx context.Context, err error) *refusal {
	cause := context.Cause(ctx)
	switch {
	case cause != nil && errors.Is(err, cause):
		return ended(cause)
	case errors.Is(err, errClash):
		return refuse(ReasonNameClash, wire.Printable(err.Error()))
	case errors.Is(err, errUndone):
		return refuse(ReasonStorage, "the new configuration could be neither put in place nor taken back; the next step or start of this node ends it: "+wire.Printable(err.Error()))
	default:
		return refuse(ReasonStorage, "the configuration cannot be written, and what was there is untouched: "+wire.Printable(err.Error())+
			"; make room on that disk, or let the account of this node write there")
	}
}

// configure is the transaction: judge, stage, check, swap.
func (t *Target) configure(ctx context.Context, raw json.RawMessage) (any, *refusal) {
	body, r := parseBody(raw)
	if r != nil {
		return nil, r
	}
	t.mu.Lock()
	cluster := t.state.Cluster
	demand := t.state.Demand
	if t.state.Confirmed != "" { // nothing was asked for: what is configured now waits for its own confirmation
		t.issued++
		demand = t.issued
	}
	t.mu.Unlock()
	own := t.ownKey(body)
	if r := judge(body, setting{cluster, runtime.GOOS}); r != nil {
		if r.reason == ReasonPair && own != nil {
			r = own // says more
		}
		return nil, r
	}
	files, err := plan(body)
	if err != nil {
		return nil, refuse(ReasonNotJSON, "the configuration cannot be written as JSON: "+wire.Printable(err.Error()))
	}
	m := makeManifest(cluster, t.cfg.NodeID, demand, files)
	if err := t.settle(); err != nil {
		return nil, failed(ctx, err)
	}
	if err := t.store.stage(ctx, m, files); err != nil {
		return nil, t.rollBack(ctx, err)
	}
	if err := context.Cause(ctx); err != nil { // the boundary: from here the step completes
		return nil, t.rollBack(ctx, err)
	}
	if err := t.store.carry(t.planned(), m.Digest); err != nil {
		if errors.Is(err, errUndone) {
			t.reload()
			return nil, failed(ctx, err)
		}
		return nil, t.rollBack(ctx, err)
	}
	t.mu.Lock()
	t.current, t.restarted = configured{manifest: m}, false
	if m.Demand > t.state.Demand {
		t.state.Used = t.state.inUse()
		t.state.Demand, t.state.Asked, t.state.Confirmed = m.Demand, WhyUnconfirmed, ""
		t.keep()
	}
	t.mu.Unlock()
	if err := t.requestAnswered(body.Key); err != nil {
		t.log.Warn("the key of a request that was answered is not removed; the next request does it", "error", err.Error())
	}
	if err := t.store.finish(); err != nil {
		t.log.Warn("what a swap needed is not removed; the next step or start does it", "error", err.Error())
	}
	t.log.Info("new configuration is in place", "digest", m.Digest, "files", len(m.Files))
	return wire.ConfigureAnswer{Digest: m.Digest}, nil
}

// planned is how the staged configuration is put in place: what is current and was never taken into use is no previous one.
func (t *Target) planned() swapPlan {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current.missing() || t.state.used(t.current.manifest.Digest) {
		return swapPlans[0]
	}
	p, _ := planOf("replace")
	return p
}

// settle ends what an earlier step could not, before this one begins.
func (t *Target) settle() error {
	return t.store.at("settle", func() error {
		begun, err := t.store.settle()
		if begun {
			t.reload()
		}
		return err
	})
}

// rollBack removes what was staged.
func (t *Target) rollBack(ctx context.Context, err error) *refusal {
	if gone := t.store.unstage(); gone != nil {
		t.log.Warn("what was staged is not removed; the next step or start does it", "error", gone.Error())
	}
	return failed(ctx, err)
}

// reload reads what is on disk.
func (t *Target) reload() configured {
	c := load(t.store.path(currentDir))
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.manifest.Digest != t.current.manifest.Digest || c.damage != "" {
		t.restarted = false
	}
	t.current = c
	return c
}

// restart reloads the target's side: from here on this machine runs what is current. The boot id stays, and consensus is
// not touched.
func (t *Target) restart(ctx context.Context, raw json.RawMessage) (any, *refusal) {
	var body wire.RestartBody
	if err := json.Unmarshal(raw, &body); err != nil || !validDigest(body.Digest) {
		return nil, refuse(ReasonWrongType, `the key "digest" must be the 64 hex digits of the configuration to come up with`)
	}
	if err := t.settle(); err != nil {
		return nil, refuse(ReasonStorage, "the folder of the configuration cannot be put in order: "+wire.Printable(err.Error()))
	}
	c := t.reload()
	switch {
	case c.missing():
		return nil, refuse(ReasonNothing, "nothing is configured on this machine: configure it first")
	case c.damage != "":
		return nil, refuse(ReasonDamaged, "the configuration on this machine is damaged: "+c.damage+"; configure it again")
	case c.manifest.Digest != body.Digest:
		return nil, refuse(ReasonOtherDigest, fmt.Sprintf("this machine holds the configuration %s, not %s: configure it again", c.manifest.Digest, body.Digest))
	}
	if err := context.Cause(ctx); err != nil { // the boundary: from here the step completes
		return nil, ended(err)
	}
	t.mu.Lock()
	t.restarted = false
	t.mu.Unlock()
	if o := t.hook(c.manifest, HookConfigured); o.bad() {
		return nil, t.takeBack(o)
	}
	t.inForce(c.manifest.Digest)
	t.mu.Lock()
	answer := wire.RestartAnswer{Digest: c.manifest.Digest, Component: t.component(), BootID: hex.EncodeToString(t.boot[:])}
	t.mu.Unlock()
	t.log.Info("target restarted with its configuration", "digest", answer.Digest)
	if t.cfg.Restarted != nil {
		t.cfg.Restarted()
	}
	return answer, nil
}

// inForce notes that this machine runs what is current.
func (t *Target) inForce(digest string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.restarted = true
	if t.state.Used != digest {
		t.state.Used = digest
		t.keep()
	}
}

// takeBack puts the previous configuration back after a hook, and runs its hooks where the failed one's may have changed
// something. A first configuration is taken away: that is what was there.
func (t *Target) takeBack(o hookOutcome) *refusal {
	if o.reason == ReasonClosed {
		// There is no time for a roll-back's hooks: the next start wants provisioning, and what is there was not taken into use.
		return refuse(o.reason, o.text)
	}
	p, _ := planOf("away")
	previous := load(t.store.path(previousDir))
	if previous.whole() {
		p, _ = planOf("back")
	}
	err := t.store.carry(p, previous.manifest.Digest)
	c := t.reload()
	if err != nil {
		return refuse(o.reason, o.text+"; and the configuration before it could not be put back: "+wire.Printable(err.Error()))
	}
	if err := t.store.finish(); err != nil {
		t.log.Warn("what a roll-back needed is not removed; the next step or start does it", "error", err.Error())
	}
	if c.missing() {
		return refuse(o.reason, o.text+"; there was no configuration before it, and there is none again")
	}
	text := o.text + "; the configuration before it is back"
	if o.begun > 0 {
		if o := t.hook(c.manifest, HookRolledBack); o.bad() {
			return refuse(ReasonHook, text+", and its hooks failed too: "+o.text)
		}
		text += ", and its hooks ran"
	}
	t.inForce(c.manifest.Digest)
	t.log.Warn("configuration rolled back", "digest", c.manifest.Digest)
	return refuse(o.reason, text)
}

// shutdown tells the process to end with 0.
func (t *Target) shutdown(_ context.Context, raw json.RawMessage) (any, *refusal) {
	var body wire.ShutdownBody
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &body); err != nil {
			return nil, refuse(ReasonWrongType, `the key "msg" must be a string`)
		}
	}
	if t.cfg.Shutdown == nil {
		return nil, refuse(ReasonCannotDoSo, "this process cannot be told to shut down: stop its service on the machine itself")
	}
	t.log.Info("the leader told this machine to shut down", "msg", wire.Printable(body.Msg))
	t.cfg.Shutdown(body.Msg)
	return struct{}{}, nil
}
