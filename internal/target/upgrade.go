package target

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"pace-node/internal/wire"
)

// Upgrader replaces the program of this process.
type Upgrader interface {
	// Upgradable says whether it could, and why not.
	Upgradable() (ok bool, why string)
	// Upgrade fetches, checks and swaps; a ctx that ends before the swap leaves everything as it was. Its error may say
	// whether another try would help, with a method Permanent.
	Upgrade(ctx context.Context, body wire.UpgradeBody) (wire.UpgradeAnswer, error)
	// RolledBack tells of the last upgrade, where it was rolled back.
	RolledBack() (RolledBack, bool)
}

// RolledBack is an upgrade that did not serve.
type RolledBack struct {
	Version string // that was tried
	Why     string
	At      time.Time
}

// upgrade replaces the program, after which this process takes no step any more.
func (t *Target) upgrade(ctx context.Context, raw json.RawMessage) (any, *refusal) {
	var body wire.UpgradeBody
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, refuse(ReasonWrongType, `the keys "version", "repository" and "key" must be strings`)
	}
	if t.cfg.Upgrade == nil || t.cfg.Upgraded == nil {
		return nil, refuse(ReasonCannotDoSo, "this process cannot replace its program")
	}
	answer, err := t.cfg.Upgrade.Upgrade(ctx, body)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
			return nil, ended(cause)
		}
		var judged interface{ Permanent() bool }
		if errors.As(err, &judged) && judged.Permanent() {
			return nil, refuse(ReasonNoUpgrade, wire.Printable(err.Error()))
		}
		return nil, refuse(ReasonNotUpgraded, wire.Printable(err.Error()))
	}
	t.mu.Lock()
	t.replaced = true
	t.mu.Unlock()
	t.log.Info("program is replaced; this process ends, and the new one is started", "from", t.cfg.Version, "to", answer.Version)
	t.cfg.Upgraded(answer.Version)
	return answer, nil
}

// upgradeFacts is what an inventory says of upgrades.
func (t *Target) upgradeFacts(facts map[string]any) (upgradable bool) {
	why := "this process cannot replace its program"
	if t.cfg.Upgrade != nil && t.cfg.Upgraded != nil {
		upgradable, why = t.cfg.Upgrade.Upgradable()
		if back, ok := t.cfg.Upgrade.RolledBack(); ok {
			facts[wire.FactRolledBack] = map[string]any{"version": back.Version, "why": back.Why, "at": back.At.UTC().Format(time.RFC3339)}
		}
	}
	if !upgradable {
		facts[wire.FactNotUpgradable] = why
	}
	return upgradable
}
