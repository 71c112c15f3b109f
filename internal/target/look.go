package target

import "time"

// LookEvery, a minute, is how often a node has its configuration looked at.
const LookEvery = time.Minute

// Look reads a confirmed configuration anew while no step runs, as a start does. What two looks in a row find missing, or damaged in
// one way, makes the machine want provisioning: one alone may have met a program that was writing. It reads the disk, so it is not for
// an event loop. It reports whether it asked.
func (t *Target) Look() bool {
	t.mu.Lock()
	begun, idle := t.begun, t.settled()
	t.mu.Unlock()
	if !idle {
		return false
	}
	c := load(t.store.path(currentDir))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun != begun || !t.settled() {
		return false
	}
	amiss := ""
	switch {
	case c.missing():
		amiss = WhyMissing
	case c.damage != "":
		amiss = WhyDamaged + ": " + c.damage
	case c.manifest.Digest != t.state.Confirmed:
		amiss = WhyUnconfirmed // another one was put there
	}
	before := t.suspect
	if t.suspect = amiss; amiss == "" || amiss != before {
		return false
	}
	t.current, t.restarted, t.suspect = c, false, ""
	t.demand(amiss)
	t.log.Warn("what was provisioned is not there any more as it was; this machine wants provisioning", "why", amiss, "mode", string(t.mode))
	return true
}

// settled reports whether a confirmed configuration runs that is the fleet's to mend, and no step. The caller holds mu.
func (t *Target) settled() bool {
	return t.mode != ModeNever && !t.closed && !t.replaced && t.running == nil && t.state.Confirmed != "" && t.state.Confirmed == t.current.manifest.Digest
}
