//go:build e2e

package crash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"pace-node/internal/statedir"
)

// The stories of a machine that is a learner already.

// shared gives the lane's learner, provisioned twice so that there is a previous configuration, and stopped.
func (l *lane) shared(c trial) (v *victim, err error) {
	if l.resident == nil {
		v, err := l.fresh(trial{}, l.beacons)
		if err != nil {
			return nil, err
		}
		v.later = l.given
		if _, err := l.pending(v); err != nil {
			return nil, err
		}
		if err := l.join(v, v.settled); err != nil {
			return nil, err
		}
		l.resident = v
		for range 2 {
			if err := l.reprovision(v, v.settled); err != nil {
				return nil, err
			}
		}
	}
	v = l.resident
	if err := v.stop(); err != nil {
		return nil, err
	}
	if err := v.examine(); err != nil {
		return nil, err
	}
	v.point, v.nth, v.limit, v.crashes = c.point, c.nth, c.limit, 0
	if v.was, err = v.greeting(); err != nil {
		return nil, err
	}
	v.later = v.was
	return v, nil
}

// reprovision gives a machine another configuration.
func (l *lane) reprovision(v *victim, until func(string, func() (bool, string)) error) error {
	l.settings++
	v.was = v.later
	v.later = "greeting " + strconv.Itoa(l.settings)
	if err := l.give(v.later); err != nil {
		return err
	}
	if err := l.founder.queue("reprovision", v.last.NodeID); err != nil {
		return err
	}
	return until("it has the new configuration", func() (bool, string) { return l.provisioned(v) })
}

// after drops the lane's learner where a story with it failed.
func (l *lane) after(v *victim, err *error) {
	if *err != nil {
		v.gone(err)
		l.resident = nil
	}
}

// serving starts the lane's learner and waits until it follows.
func (l *lane) serving(v *victim) error {
	if err := v.begin(); err != nil {
		return err
	}
	return v.settled("it follows again", func() (bool, string) { return l.level(v) })
}

func (v *victim) endShared(l *lane) error {
	archived, err := v.archives() // its own solitary store only
	if err != nil {
		return err
	}
	if len(archived) != 1 {
		return fmt.Errorf("archived is %q, and is to be one store", archived)
	}
	return v.end("learner", l.fleet, archived...)
}

func follows(l *lane, c trial) (err error) {
	v, err := l.shared(c)
	if err != nil {
		return err
	}
	defer l.after(v, &err)
	if err := l.serving(v); err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	l.settings++
	value := strconv.Itoa(10 + l.settings%50)
	if err := l.founder.set("enrollment.per-source", value); err != nil {
		return err
	}
	if err := v.until("it has applied the setting", func() (bool, string) {
		c, err := v.cluster()
		if err != nil {
			return false, err.Error()
		}
		for _, s := range c.Settings {
			if s.Name == "enrollment.per-source" && s.Value == value {
				return l.level(v)
			}
		}
		return false, fmt.Sprintf("%+v", c.Settings)
	}); err != nil {
		return err
	}
	return v.endShared(l)
}

// tornLog has the learner find the end of its log as a power cut leaves it.
func tornLog(l *lane, c trial) (err error) {
	v, err := l.shared(c)
	if err != nil {
		return err
	}
	defer l.after(v, &err)
	f, err := os.OpenFile(filepath.Join(v.dir, statedir.FollowDir, "log"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if _, err := f.Write([]byte{0, 0, 1, 0, 1, 2, 3, 4, 2}); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := v.begin(); err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	if err := v.until("it follows", func() (bool, string) { return l.level(v) }); err != nil {
		return err
	}
	return v.endShared(l)
}

// farBehind has the learner come back when nobody keeps the commands that it lacks any more: it gets a snapshot.
func farBehind(l *lane, c trial) (err error) {
	v, err := l.shared(c)
	if err != nil {
		return err
	}
	defer l.after(v, &err)
	old := v.dir + ".behind"
	if _, err := os.Stat(old); err != nil {
		if err := os.CopyFS(old, os.DirFS(filepath.Join(v.dir, statedir.FollowDir))); err != nil {
			return err
		}
		if err := l.commit(1100); err != nil { // more than the 1,024 that a voter keeps
			return err
		}
	} else {
		for _, name := range []string{"log", "snapshot"} {
			b, err := os.ReadFile(filepath.Join(old, name))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(v.dir, statedir.FollowDir, name), b, 0o600); err != nil {
				return err
			}
		}
	}
	if err := v.begin(); err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	if err := v.until("it has caught up", func() (bool, string) { return l.level(v) }); err != nil {
		return err
	}
	return v.endShared(l)
}

// commit raises the fleet's revision by n, some at a time.
func (l *lane) commit(n int) error {
	var wait sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wait.Go(func() {
			for k := range (n + len(errs) - 1) / len(errs) {
				if errs[i] = l.founder.set("enrollment.per-source", strconv.Itoa(32+k%32)); errs[i] != nil {
					return
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func reprovisioned(l *lane, c trial) (err error) {
	v, err := l.shared(c)
	if err != nil {
		return err
	}
	defer l.after(v, &err)
	if err := l.serving(v); err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	if err := l.reprovision(v, v.until); err != nil {
		return err
	}
	return v.endShared(l)
}

// hookFails gives the learner a configuration that one of its hooks refuses, and ends it in the roll-back; once the hook is
// mended it has the new configuration.
func hookFails(l *lane, c trial) (err error) {
	v, err := l.shared(c)
	if err != nil {
		return err
	}
	defer l.after(v, &err)
	hooks := filepath.Join(v.dir, "hooks.d")
	refuses := filepath.Join(v.dir+".gate", "refuses")
	if err := os.MkdirAll(hooks, 0o700); err != nil {
		return err
	}
	defer os.RemoveAll(hooks)
	if err := v.begin(); err != nil { // makes the folder of the gate
		return err
	}
	if err := v.settled("it follows again", func() (bool, string) { return l.level(v) }); err != nil {
		return err
	}
	l.settings++
	v.was, v.later = v.later, "greeting "+strconv.Itoa(l.settings)
	script := "#!/bin/sh\nin=$(cat)\ncase \"$in\" in *'" + v.later + "'*) test ! -e '" + refuses + "' || { echo no >&2; exit 5; };; esac\n"
	if err := os.WriteFile(filepath.Join(hooks, "10-picky"), []byte(script), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(refuses, nil, 0o600); err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	if err := l.give(v.later); err != nil {
		return err
	}
	if err := l.founder.queue("reprovision", v.last.NodeID); err != nil {
		return err
	}
	if err := v.until("its hook fails, and what was there is back", func() (bool, string) {
		got, err := v.greeting()
		return err == nil && got == v.was && v.crashes > 0, fmt.Sprintf("%q (%v)", got, err)
	}); err != nil {
		return err
	}
	if err := os.Remove(refuses); err != nil {
		return err
	}
	// It is waiting for its next try by now, or is on its way: both come to the new configuration.
	_ = l.founder.queue("retry", v.last.NodeID)
	if err := v.settled("it has the new configuration once the hook is mended", func() (bool, string) { return l.provisioned(v) }); err != nil {
		return err
	}
	return v.endShared(l)
}

// damagedStaging ends the learner in the middle of a swap, and damages what was to be put in place: the next start goes back.
func damagedStaging(l *lane, c trial) (err error) {
	v, err := l.shared(c)
	if err != nil {
		return err
	}
	defer l.after(v, &err)
	first := trial{point: "target.swap.previous.after", nth: 1, limit: 1}
	v.point, v.nth, v.limit = first.point, first.nth, first.limit
	if err := l.serving(v); err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	l.settings++
	v.later = "greeting " + strconv.Itoa(l.settings)
	if err := l.give(v.later); err != nil {
		return err
	}
	if err := l.founder.queue("reprovision", v.last.NodeID); err != nil {
		return err
	}
	<-v.done
	if status, _ := v.ended(); status != crashStatus {
		return fmt.Errorf("it ended with %d", status)
	}
	if err := os.Truncate(filepath.Join(v.dir, statedir.ProvisionedDir, "staging", "configuration.json"), 3); err != nil {
		return err
	}
	v.point, v.nth, v.limit = c.point, c.nth, c.limit
	if err := v.start(v.env()...); err != nil {
		return err
	}
	if err := v.until("it has the new configuration after all", func() (bool, string) { return l.provisioned(v) }); err != nil {
		return err
	}
	return v.endShared(l)
}
