package provision

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// signedBy is minisign's own public key, as its manual gives it.
const signedBy = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"

// checkUpgrades writes the table of upgrades out, each row under both policies.
func checkUpgrades() error {
	for _, c := range []struct {
		wanted, version string
		upgradable      bool
		off, on         upgradeAct
		say             string
	}{
		{"", "1.0", true, upgradePass, upgradePass, ""},
		{"2.0", "1.0", true, upgradePass, upgradeAsk, ""},
		{"2.0", "1.0", false, upgradePass, upgradeFail, "cannot be upgraded"},
		{"1.0", "1.0", true, upgradePass, upgradePass, ""},
		{"0.28.00", "0.28.0", true, upgradePass, upgradePass, ""},
		{"1.0", "1.0", false, upgradePass, upgradePass, ""}, // it has what it is to have
		{"1.0", "1.0~rc1", true, upgradePass, upgradeAsk, ""},
		{"1.0~rc1", "1.0", true, upgradePass, upgradePass, "older"},
		{"1.0-1", "1.0", true, upgradePass, upgradeAsk, ""},
		{"1:1.0", "2.0", true, upgradePass, upgradeAsk, ""},
		{"2.0", "1:1.0", false, upgradePass, upgradePass, "older"},
		{"../2.0", "1.0", true, upgradePass, upgradeFail, "no version"},
		{"2.0", "", true, upgradePass, upgradeAsk, ""}, // a machine that names none
	} {
		for policy, want := range map[UpgradePolicy]upgradeAct{UpgradesOff: c.off, UpgradesRequired: c.on, UpgradesOptional: c.on} {
			row, said := judgeUpgrade(upgradeFacts{policy: policy, wanted: c.wanted, version: c.version, upgradable: c.upgradable})
			say := c.say
			if policy == UpgradesOff && c.wanted != "" {
				say = "upgrades are off"
			}
			if row.Do != want || !strings.Contains(said, say) || say == "" && said != "" {
				return fmt.Errorf("%s: %s to %s, upgradable %v: %s does %d and says %q", policy, c.version, c.wanted, c.upgradable, row.Name, row.Do, said)
			}
		}
	}
	row, said := judgeUpgrade(upgradeFacts{UpgradesRequired, "2.0", "1.0", false, "dpkg owns\n/usr/bin/pace-node"})
	if row.Name != "not upgradable" || !strings.Contains(said, "dpkg owns") || strings.Contains(said, "\n") {
		return fmt.Errorf("%s says %q", row.Name, said)
	}
	return nil
}

func TestUpgradeTable(t *testing.T) {
	if err := checkUpgrades(); err != nil {
		t.Error(err)
	}
}

func TestMutationUpgrades(t *testing.T) {
	for i := range upgradeRows {
		was := upgradeRows[i]
		upgradeRows[i].When = func(upgradeFacts) bool { return false }
		if checkUpgrades() == nil {
			t.Errorf("row %q taken out, and nothing noticed", was.Name)
		}
		upgradeRows[i] = was
		upgradeRows[i].Do = (was.Do + 1) % 3
		if checkUpgrades() == nil {
			t.Errorf("row %q does another thing, and nothing noticed", was.Name)
		}
		upgradeRows[i] = was
	}
}

func TestUpgradesNeedARepositoryAndAKey(t *testing.T) {
	for _, c := range []struct {
		cfg Config
		say string
	}{
		{Config{Upgrades: UpgradesRequired}, "--provision-repository and --provision-release-key"},
		{Config{Upgrades: UpgradesOptional, Repository: "/r"}, "--provision-release-key"},
		{Config{Upgrades: UpgradesOptional, Repository: "r", ReleaseKey: signedBy}, "--provision-repository"},
		{Config{Upgrades: UpgradesOptional, Repository: "/r", ReleaseKey: "RW"}, "--provision-release-key"},
		{Config{Upgrades: "sometimes"}, "off, required or optional"},
	} {
		if err := c.cfg.Complete(); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
	for _, cfg := range []Config{{}, {Upgrades: UpgradesOff, Repository: "nonsense"}, {Upgrades: UpgradesRequired, Repository: "/r", ReleaseKey: signedBy}} {
		if err := cfg.Complete(); err != nil {
			t.Error(err)
		}
	}
}

// TestUpgradeInTheCycle: what each policy makes of each end of the step.
func TestUpgradeInTheCycle(t *testing.T) {
	const answer = `{"configuration":{"role":"web"},"upgrade":"2.0"}`
	refused := func(transient bool) func(*machine) {
		return func(m *machine) {
			m.refuse = map[string]wire.WorkAnswer{"upgrade": {Error: "no valid\nsignature", Transient: transient}}
		}
	}
	for _, c := range []struct {
		name   string
		policy UpgradePolicy
		mend   func(*machine)
		steps  []string
		state  queue.State
		counts map[string]float64
	}{
		{"off", UpgradesOff, nil, []string{"inventory", "configure", "restart"}, queue.StateConfirmed, map[string]float64{"provisioned_total": 1, "upgrades_total": 0}},
		{"newer", UpgradesRequired, nil, []string{"inventory", "upgrade"}, queue.StateNone, map[string]float64{"provisioned_total": 0, "upgrades_total": 1, "waiting_nodes": 0}},
		{"equal", UpgradesRequired, func(m *machine) { m.version = "2.00" }, []string{"inventory", "configure", "restart"}, queue.StateConfirmed, map[string]float64{"provisioned_total": 1, "upgrades_total": 0}},
		{"required, and refused", UpgradesRequired, refused(false), []string{"inventory", "upgrade"}, queue.StateParked, map[string]float64{"provisioned_total": 0, "errors_total": 1}},
		{"required, and failed", UpgradesRequired, refused(true), []string{"inventory", "upgrade"}, queue.StateBackingOff, map[string]float64{"provisioned_total": 0, "errors_total": 1}},
		{"required, and a package's", UpgradesRequired, func(m *machine) { m.cannot = "dpkg owns it" }, []string{"inventory"}, queue.StateParked, map[string]float64{"errors_total": 1}},
		{"optional, and refused", UpgradesOptional, refused(false), []string{"inventory", "upgrade", "configure", "restart"}, queue.StateConfirmed, map[string]float64{"provisioned_total": 1, "errors_total": 0}},
		{"optional, and a package's", UpgradesOptional, func(m *machine) { m.cannot = "dpkg owns it" }, []string{"inventory", "configure", "restart"}, queue.StateConfirmed, map[string]float64{"provisioned_total": 1, "errors_total": 0}},
		{"optional, and the session is lost", UpgradesOptional, func(m *machine) {
			m.fail["upgrade"] = func(int) error { return errors.New("reset") }
		}, []string{"inventory", "upgrade"}, queue.StateBackingOff, map[string]float64{"provisioned_total": 0, "errors_total": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Config{Workers: 2, Default: answer, Upgrades: c.policy, Repository: "/srv/releases", ReleaseKey: signedBy})
				defer f.close()
				f.add("a", func(m *machine) {
					if c.mend != nil {
						c.mend(m)
					}
				})
				f.p.Lead(true)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				m := f.get("a")
				if !slices.Equal(m.log, c.steps) {
					t.Errorf("steps %v", m.log)
				}
				if e := f.state("a"); e.State != c.state {
					t.Errorf("%s: %+v", e.State, e)
				}
				for name, want := range c.counts {
					label := ""
					if name == "errors_total" {
						label = "upgrade"
					}
					f.want(name, label, want)
				}
				if c.state == queue.StateParked || c.state == queue.StateBackingOff {
					rec := f.records["a"]
					if rec.Stage != "upgrade" || rec.LastError == "" || strings.Contains(rec.LastError, "\n") {
						t.Errorf("record %+v", rec)
					}
				}
				if slices.Contains(c.steps, "upgrade") && c.mend == nil {
					want := wire.UpgradeBody{Version: "2.0", Repository: "/srv/releases", Key: signedBy}
					if m.upgrade != want {
						t.Errorf("it was told %+v", m.upgrade)
					}
					if rec := f.records["a"]; len(rec.Outcomes) != 1 || rec.Outcomes[0].Result != "upgraded" || rec.LastSuccess != 0 {
						t.Errorf("record %+v", rec)
					}
				}
			})
		})
	}
}

// TestUpgradedMachineComesBack: done at once, it is taken up again by its next start's event, and configured.
func TestUpgradedMachineComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 2, Default: `{"configuration":{"role":"web"},"upgrade":"2.0"}`, Upgrades: UpgradesOptional, Repository: "/r", ReleaseKey: signedBy})
		defer f.close()
		f.add("a")
		f.p.Lead(true)
		time.Sleep(time.Second)
		synctest.Wait()
		f.want("upgrades_total", "", 1)
		if a := f.send(f.event("a")); !a.Admitted {
			t.Fatalf("%+v", a)
		}
		f.provisioned(1, 5*time.Second)
		if m := f.get("a"); !slices.Equal(m.log, []string{"inventory", "upgrade", "inventory", "configure", "restart"}) {
			t.Errorf("steps %v", m.log)
		}
	})
}

// TestAskedUpgradeIsTriedAgain: an operator's word goes with the step.
func TestAskedUpgradeIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 2, Default: `{"configuration":{"role":"web"},"upgrade":"2.0"}`, Upgrades: UpgradesRequired, Repository: "/r", ReleaseKey: signedBy})
		defer f.close()
		f.add("a", func(m *machine) {
			m.refuse = map[string]wire.WorkAnswer{"upgrade": {Error: "rolled back before"}}
		})
		f.p.Lead(true)
		time.Sleep(time.Second)
		synctest.Wait()
		if e := f.state("a"); e.State != queue.StateParked {
			t.Fatalf("%+v", e)
		}
		f.with("a", func(m *machine) { m.refuse = nil })
		if _, err := f.p.Retry(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if m := f.get("a"); !m.upgrade.Again || m.version != "2.0" {
			t.Errorf("it was told %+v", m.upgrade)
		}
	})
}

// TestAskedOnceIsTriedOnce: a machine that comes back as it was from an upgrade that a person asked for is not sent round for
// ever by that word.
func TestAskedOnceIsTriedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{Workers: 2, Default: `{"configuration":{"role":"web"},"upgrade":"2.0"}`, Upgrades: UpgradesRequired, Repository: "/r", ReleaseKey: signedBy})
		defer f.close()
		f.add("a", func(m *machine) {
			m.wants = false
			m.refuse = map[string]wire.WorkAnswer{"upgrade": {Error: "rolled back before"}}
		})
		f.p.Lead(true)
		time.Sleep(time.Second)
		synctest.Wait()
		asks := func(f2 func() (string, error)) {
			t.Helper()
			if _, err := f2(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if m := f.get("a"); !m.upgrade.Again || m.version != "2.0" {
				t.Fatalf("it was told %+v", m.upgrade)
			}
		}
		asks(func() (string, error) { return f.p.Reprovision(t.Context(), "a") })
		for range 2 {
			f.with("a", func(m *machine) { m.version, m.upgrade = "1.0", wire.UpgradeBody{} }) // rolled back; it wants nothing by itself
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if e := f.state("a"); e.State != queue.StateParked || !strings.Contains(e.LastError, "rolled back before") {
				t.Fatalf("%+v", e)
			}
			asks(func() (string, error) { return f.p.Retry(t.Context(), "a") })
		}
		f.want("upgrades_total", "", 3)
	})
}
