package provision

import (
	"encoding/json"
	"fmt"

	"pace-node/internal/queue"
	"pace-node/internal/release"
	"pace-node/internal/wire"
)

// UpgradePolicy is what the leader does with the version that a helper names.
type UpgradePolicy string

// The policies.
const (
	UpgradesOff      UpgradePolicy = "off"
	UpgradesRequired UpgradePolicy = "required" // what fails is an error of the run
	UpgradesOptional UpgradePolicy = "optional" // what fails is said, and the machine is configured as it is
)

// upgradesUsable refuses a policy that cannot be kept.
func (c *Config) upgradesUsable() error {
	switch c.Upgrades {
	case UpgradesOff:
		return nil
	case UpgradesRequired, UpgradesOptional:
	default:
		return fmt.Errorf("--provision-upgrades=%s: give off, required or optional", quote(string(c.Upgrades)))
	}
	if c.Repository == "" || c.ReleaseKey == "" {
		return fmt.Errorf("--provision-upgrades=%s: give --provision-repository and --provision-release-key too", c.Upgrades)
	}
	if _, err := release.ParseRepository(c.Repository); err != nil {
		return fmt.Errorf("--provision-repository: %w", err)
	}
	if _, err := release.ParsePublicKey(c.ReleaseKey); err != nil {
		return fmt.Errorf("--provision-release-key: %w", err)
	}
	return nil
}

// upgradeFacts is what the table of upgrades looks at.
type upgradeFacts struct {
	policy     UpgradePolicy
	wanted     string // the helper's version, "" for none
	version    string // that the machine runs
	upgradable bool
	why        string // why it is not, as the machine says; may be empty
}

// upgradeAct is what is done about a version that a helper named.
type upgradeAct uint8

const (
	upgradePass upgradeAct = iota // configure
	upgradeAsk                    // ask the machine
	upgradeFail                   // as the policy has it
)

// upgradeRow is one row of the table; the first whose When holds decides.
type upgradeRow struct {
	Name string
	When func(f upgradeFacts) bool
	Do   upgradeAct
	Say  func(f upgradeFacts) string // "": nothing is said
}

func silent(upgradeFacts) string { return "" }

// upgradeRows is the table of upgrades. Versions are compared as RPM does.
var upgradeRows = []upgradeRow{
	{"none", func(f upgradeFacts) bool { return f.wanted == "" }, upgradePass, silent},
	{"off", func(f upgradeFacts) bool { return f.policy == UpgradesOff }, upgradePass, func(upgradeFacts) string {
		return "the helper asks for a version, and upgrades are off: set --provision-upgrades"
	}},
	{"no version", func(f upgradeFacts) bool { return !release.ValidVersion(f.wanted) }, upgradeFail, func(f upgradeFacts) string {
		return fmt.Sprintf("the helper's upgrade %s is no version", quote(f.wanted))
	}},
	{"equal", func(f upgradeFacts) bool { return release.Compare(f.wanted, f.version) == 0 }, upgradePass, silent},
	{"older", func(f upgradeFacts) bool { return release.Compare(f.wanted, f.version) < 0 }, upgradePass, func(f upgradeFacts) string {
		return "the helper asks for an older version than the machine runs, and none is taken back"
	}},
	{"not upgradable", func(f upgradeFacts) bool { return !f.upgradable }, upgradeFail, func(f upgradeFacts) string {
		if f.why == "" {
			return "the machine says that it cannot be upgraded"
		}
		return "it cannot be upgraded: " + wire.Printable(f.why)
	}},
	{"newer", func(upgradeFacts) bool { return true }, upgradeAsk, silent},
}

func judgeUpgrade(f upgradeFacts) (upgradeRow, string) {
	for _, r := range upgradeRows {
		if r.When(f) {
			return r, r.Say(f)
		}
	}
	return upgradeRow{Do: upgradePass}, ""
}

// upgrade has a machine replace its program where the helper names a newer version; true: it ends, and comes back as that.
func (p *Provisioner) upgrade(r *run, inventory json.RawMessage, wanted string) (bool, *stepFailure) {
	var has wire.Inventory
	if wanted != "" { // its keys were read as an object before; one of another type is a machine that says nothing
		_ = json.Unmarshal(inventory, &has)
	}
	why, _ := has.Facts[wire.FactNotUpgradable].(string)
	row, said := judgeUpgrade(upgradeFacts{r.cfg.Upgrades, wanted, has.Version, has.Upgradable, why})
	log := p.log.With("id", r.job.ID, "wanted", wire.Printable(wanted), "runs", wire.Printable(has.Version))
	switch row.Do {
	case upgradeFail:
		return false, p.notUpgraded(r, &stepFailure{text: said, permanent: true})
	case upgradePass:
		if said != "" {
			log.Info("machine is not upgraded", "why", said)
		}
		return false, nil
	}
	log.Info("machine is upgraded")
	body := wire.UpgradeBody{Version: wanted, Repository: r.cfg.Repository, Key: r.cfg.ReleaseKey, Again: r.again}
	if _, f := p.ask1(r, queue.StageUpgrade, body); f != nil {
		return false, p.notUpgraded(r, f)
	}
	return true, nil
}

// asksAgain reports whether a person asked for this very run. One that follows an upgrade is that upgrade's: where the machine
// came back as it was, the same must not be tried for ever on a word that was given once. The loop's.
func (p *Provisioner) asksAgain(job queue.Job) bool {
	if job.Source != queue.SourceOperator {
		return false
	}
	e, _ := p.deps.Queue.Entry(job.ID)
	return len(e.History) == 0 || e.History[len(e.History)-1].Outcome != queue.OutcomeUpgraded.String()
}

// notUpgraded is what a failed upgrade means by the policy. What the run or the session ended for is a failure anyway.
func (p *Provisioner) notUpgraded(r *run, f *stepFailure) *stepFailure {
	if r.cfg.Upgrades == UpgradesOptional && !f.stopped && !f.unreachable {
		p.log.Warn("machine is not upgraded, and configured as it is", "id", r.job.ID, "error", f.text)
		return nil
	}
	return f
}
