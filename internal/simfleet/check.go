package simfleet

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
)

// Rule is what must hold after every event, or at a story's end.
type Rule uint8

// Rules. The zero value is none.
const (
	RuleUnasked    Rule = iota + 1 // no admission without an approval, pre-approval or open window
	RuleLost                       // nothing approved is lost
	RuleTwoFleets                  // no machine in two fleets
	RuleTwoLeaders                 // at most one leader a term
	RuleUnsettled                  // every machine ends in a fleet or solitary
	RuleQueue                      // the queue's own rules
	RuleOneStep                    // a machine does one leader's step at a time
	RuleLease                      // a lease ends with its leader's term
	RuleTwice                      // no machine is provisioned by two leaders at once
	RuleBack                       // no record goes back
	RuleDigest                     // equal states at equal epoch and revision
	RuleModel                      // the model itself went wrong
)

// RuleRow is one row of the table of rules.
type RuleRow struct {
	Rule Rule
	Name string
}

// Rules is the table of rules.
var Rules = []RuleRow{
	{RuleUnasked, "no admission without an approval, pre-approval or open window"},
	{RuleLost, "nothing approved is lost"},
	{RuleTwoFleets, "no machine in two fleets"},
	{RuleTwoLeaders, "at most one leader a term"},
	{RuleUnsettled, "every machine ends in a fleet or solitary"},
	{RuleQueue, "the queue's rules"},
	{RuleOneStep, "a machine does one leader's step at a time"},
	{RuleLease, "a lease ends with its leader's term"},
	{RuleTwice, "no machine is provisioned by two leaders at once"},
	{RuleBack, "no record of provisioning goes back"},
	{RuleDigest, "equal states at equal epoch and revision"},
	{RuleModel, "the model carries out what it is asked"},
}

// String returns the rule in words.
func (r Rule) String() string {
	for _, row := range Rules {
		if row.Rule == r {
			return row.Name
		}
	}
	return "unknown"
}

// Violation is a rule that was broken.
type Violation struct {
	Rule Rule
	At   time.Duration // since the story began
	Who  string
	Text string
}

// Error implements error.
func (v *Violation) Error() string {
	return fmt.Sprintf("broken after %s at %s: %s: %s", v.At, v.Who, v.Rule, v.Text)
}

// Sight is what one machine shows at one moment.
type Sight struct {
	At      time.Duration
	Who     string // its name in the story
	ID      string
	Key     identity.PublicKey
	Mode    formation.Mode
	Cluster string      // of its record
	Stores  []string    // clusters of the stores that it has not put away
	Moving  bool        // between two modes: what it shows need not fit together
	View    *fleet.View // applied; never nil
}

// Checker knows what was asked of the machines, and judges what they show. The first rule that is broken is kept.
type Checker struct {
	fleets  map[string]*knownFleet
	digests map[position]seenDigest
	leaders map[termOf]string
	last    map[string]*fleet.View // by machine
	home    map[string]string      // by machine: the fleet that it is a member of
	workers map[string]*worker     // by machine
	obeyed  map[inFleet]uint64     // the highest term whose leader a machine obeyed
	Err     *Violation
	Slack   time.Duration // how exactly the time of an admission by a window is known
}

type position struct {
	cluster         string
	epoch, revision uint64
}

type seenDigest struct {
	digest [32]byte
	who    string
}

type termOf struct {
	cluster     string
	epoch, term uint64
}

// knownFleet is what operators did to one fleet.
type knownFleet struct {
	founder   pair
	allowed   map[pair]string   // why it may be in the roster
	gone      map[pair]position // where it was removed last
	spent     map[pair]bool     // it was removed, and nobody let it in again since
	mayGo     map[pair]bool     // somebody tried to take it out since it was let in last
	acks      []ack
	windows   []window
	recovers  []recovery
	fresh     *fleet.View // the latest state that anybody showed
	records   *fleet.View // the latest state that a voter showed
	dissolves bool        // somebody proposed that it goes into another one
}

type pair struct {
	id  string
	key identity.PublicKey
}

// ack is something that an operator was told is done.
type ack struct {
	epoch, revision uint64
	pair            pair
	what            AckKind
	released        bool // somebody tried to undo it since
}

// AckKind is what was acknowledged.
type AckKind uint8

// What people are told is done.
const (
	AckAdmitted AckKind = iota + 1
	AckAwaited
	AckForgotten
)

var ackNames = [...]string{AckAdmitted: "admission", AckAwaited: "pre-approval", AckForgotten: "revocation"}

// window is a time in which a leader's window was open.
type window struct {
	on          string
	from, until time.Duration
}

// recovery is where a new epoch began: what was acknowledged after that revision may be gone.
type recovery struct {
	epoch, revision uint64
	learner         bool
}

// NewChecker returns a checker that has seen nothing.
func NewChecker() *Checker {
	return &Checker{fleets: map[string]*knownFleet{}, digests: map[position]seenDigest{}, leaders: map[termOf]string{}, last: map[string]*fleet.View{}, home: map[string]string{},
		workers: map[string]*worker{}, obeyed: map[inFleet]uint64{}}
}

func (c *Checker) fail(r Rule, at time.Duration, who, format string, args ...any) {
	if c.Err == nil {
		c.Err = &Violation{Rule: r, At: at, Who: who, Text: fmt.Sprintf(format, args...)}
	}
}

func (c *Checker) fleet(cluster string) *knownFleet {
	f := c.fleets[cluster]
	if f == nil {
		f = &knownFleet{allowed: map[pair]string{}, gone: map[pair]position{}, spent: map[pair]bool{}, mayGo: map[pair]bool{}}
		c.fleets[cluster] = f
	}
	return f
}

// Allow notes that an operator approved a machine, now or ahead.
func (c *Checker) Allow(cluster, id string, key identity.PublicKey, why string) {
	c.fleet(cluster).allowed[pair{id, key}] = why
	delete(c.fleet(cluster).spent, pair{id, key})
	delete(c.fleet(cluster).mayGo, pair{id, key})
}

// Remove notes that somebody tries to take a machine, or its pre-approval, out of a fleet: what was acknowledged of it so
// far may be gone from now on.
func (c *Checker) Remove(cluster, id string, key identity.PublicKey) {
	c.fleet(cluster).mayGo[pair{id, key}] = true
	acks := c.fleet(cluster).acks
	for i := range acks {
		if a := &acks[i]; a.pair == (pair{id, key}) && a.what != AckForgotten {
			a.released = true
		}
	}
}

// Window notes that a machine's auto-approve window is open for so long.
func (c *Checker) Window(cluster, on string, from, length time.Duration) {
	c.WindowEnds(cluster, on, from)
	f := c.fleet(cluster)
	f.windows = append(f.windows, window{on, from, from + length})
}

// WindowEnds notes that a machine's window is closed from now on.
func (c *Checker) WindowEnds(cluster, on string, at time.Duration) {
	f := c.fleet(cluster)
	for i := range f.windows {
		if w := &f.windows[i]; w.on == on && w.until > at {
			w.until = at
		}
	}
}

// ByWindow notes that a leader admits a machine by its window; it must be open.
func (c *Checker) ByWindow(cluster string, row enroll.RowID, on string, at time.Duration) {
	f := c.fleet(cluster)
	for _, w := range f.windows {
		if w.on == on && w.from-c.Slack <= at && at <= w.until+c.Slack {
			c.Allow(cluster, row.ID, row.Key, "the window on "+on)
			return
		}
	}
	c.fail(RuleUnasked, at, on, "admits %s by a window that is not open", row.ID)
}

// Acked notes what an operator was told is done, at a revision of a fleet.
func (c *Checker) Acked(cluster string, epoch, revision uint64, what AckKind, id string, key identity.PublicKey) {
	c.fleet(cluster).acks = append(c.fleet(cluster).acks, ack{epoch: epoch, revision: revision, pair: pair{id, key}, what: what})
}

// Leads notes that a machine leads in a term.
func (c *Checker) Leads(at time.Duration, who, cluster string, epoch, term uint64, id string) {
	of := termOf{cluster, epoch, term}
	if other, ok := c.leaders[of]; ok && other != id {
		c.fail(RuleTwoLeaders, at, who, "%s and %s lead fleet %s in term %d", short(other), short(id), short(cluster), term)
		return
	}
	c.leaders[of] = id
}

// admitted counts the machines that people, or a window, let into a fleet.
func (c *Checker) admitted() (n int) {
	for _, f := range c.fleets {
		n += len(f.allowed)
	}
	return n
}

// See judges what a machine shows.
func (c *Checker) See(s Sight) {
	f := c.fleet(s.Cluster)
	if f.founder == (pair{}) && (s.Mode == formation.Solitary || s.Mode == formation.Pending) {
		f.founder = pair{s.ID, s.Key} // a fleet begins with one machine that minted it
	}
	if !s.Moving {
		c.seeWhole(s, f)
	}
	v := s.View
	if v.Cluster() == "" || c.last[s.Who] == v {
		return
	}
	prev := c.last[s.Who]
	c.last[s.Who] = v
	if f := c.fleet(v.Cluster()); f.fresh == nil || fleet.ComparePosition(v.Epoch(), v.Revision(), f.fresh.Epoch(), f.fresh.Revision()) > 0 {
		f.fresh = v
	}
	c.seeRoster(s, prev)
	c.seeAcks(s)
	c.seeRecords(s, c.fleet(v.Cluster()))
	at := position{v.Cluster(), v.Epoch(), v.Revision()}
	d := v.Digest()
	if seen, ok := c.digests[at]; !ok {
		c.digests[at] = seenDigest{d, s.Who}
	} else if seen.digest != d {
		c.fail(RuleDigest, s.At, s.Who, "its state of fleet %s at epoch %d revision %d is another than that of %s", short(at.cluster), at.epoch, at.revision, seen.who)
	}
}

// seeWhole judges whether a machine that is not on its way anywhere is in one fleet.
func (c *Checker) seeWhole(s Sight, f *knownFleet) {
	for _, store := range s.Stores {
		if store != s.Cluster {
			c.fail(RuleTwoFleets, s.At, s.Who, "it is in fleet %s and keeps the store of fleet %s open", short(s.Cluster), short(store))
		}
	}
	if v := s.View.Cluster(); v != "" && v != s.Cluster {
		c.fail(RuleTwoFleets, s.At, s.Who, "it is in fleet %s and applies fleet %s", short(s.Cluster), short(v))
	}
	self := pair{s.ID, s.Key}
	if home := c.home[s.Who]; home != "" && home != s.Cluster && !c.fleet(home).mayGo[self] && !c.fleet(home).dissolves &&
		c.fleet(home).fresh != nil && c.fleet(home).fresh.Holds(s.ID, s.Key) {
		c.fail(RuleLost, s.At, s.Who, "it was a member of fleet %s and is a %s of fleet %s, though nobody took it out", short(home), s.Mode, short(s.Cluster))
	}
	delete(c.home, s.Who)
	if s.Mode == formation.Learner || s.Mode == formation.Voter {
		c.home[s.Who] = s.Cluster
	}
	if (s.Mode == formation.Learner || s.Mode == formation.Voter) && f.founder != self && f.allowed[self] == "" {
		c.fail(RuleUnasked, s.At, s.Who, "it is a %s of fleet %s, which nobody let it into", s.Mode, short(s.Cluster))
	}
}

// seeRoster judges who is new in a roster: each was let in, and after it was removed it was let in again.
func (c *Checker) seeRoster(s Sight, prev *fleet.View) {
	v := s.View
	f := c.fleet(v.Cluster())
	if prev != nil && prev.Cluster() != v.Cluster() {
		prev = nil
	}
	at := position{v.Cluster(), v.Epoch(), v.Revision()}
	if prev != nil && prev.Epoch() == v.Epoch() && prev.Revision()+1 == v.Revision() {
		for _, id := range v.Gone(prev) {
			m, _ := prev.Member(id)
			if p := (pair{id, m.Key}); f.gone[p].before(at) && !f.undone(at) {
				f.gone[p], f.spent[p] = at, true
			}
		}
	}
	for m := range v.Members() {
		if prev != nil && prev.Holds(m.ID, m.Key) {
			continue
		}
		p := pair{m.ID, m.Key}
		if p != f.founder && f.allowed[p] == "" || f.spent[p] && f.gone[p].before(at) {
			c.fail(RuleUnasked, s.At, s.Who, "fleet %s holds %s (%s), which nobody approved", short(v.Cluster()), m.Name, short(m.ID))
		}
	}
}

// undone reports whether a recovery began from an earlier state than that of an earlier epoch.
func (f *knownFleet) undone(at position) bool {
	for _, r := range f.recovers {
		if r.epoch > at.epoch && at.revision > r.revision {
			return true
		}
	}
	return false
}

func (p position) before(o position) bool {
	return fleet.ComparePosition(p.epoch, p.revision, o.epoch, o.revision) < 0
}

// seeAcks judges whether everything that an operator was told is there.
func (c *Checker) seeAcks(s Sight) {
	v, f := s.View, c.fleet(s.View.Cluster())
	for _, a := range f.acks {
		if a.after(v) || a.released || f.excused(a, v.Epoch()) {
			continue
		}
		there := v.Holds(a.pair.id, a.pair.key)
		switch a.what {
		case AckAwaited:
			_, awaited := v.PreApproved(a.pair.id, a.pair.key)
			there = there || awaited || s.Mode == formation.Learner // learners are not told
		case AckForgotten:
			_, there = v.Revoked(a.pair.key)
		}
		if !there {
			c.fail(RuleLost, s.At, s.Who, "the %s of %s, committed at epoch %d revision %d of fleet %s, is not there at epoch %d revision %d",
				ackNames[a.what], short(a.pair.id), a.epoch, a.revision, short(v.Cluster()), v.Epoch(), v.Revision())
		}
	}
}

// after reports whether it was committed later than a state.
func (a ack) after(v *fleet.View) bool {
	return fleet.ComparePosition(a.epoch, a.revision, v.Epoch(), v.Revision()) > 0
}

// Recovered notes that a fleet goes on in another epoch from what one machine held at a revision: what was committed after
// that may be gone, and who was removed after that may be back. A learner does not hold who is awaited.
func (c *Checker) Recovered(cluster string, epoch, revision uint64, learner bool) {
	f := c.fleet(cluster)
	f.recovers = append(f.recovers, recovery{epoch, revision, learner})
	for p, at := range f.gone {
		if at.revision > revision || at.epoch >= epoch {
			delete(f.gone, p)
			delete(f.spent, p)
		}
	}
	// An earlier recovery under this number has nobody left, or there would have been no other one: all who held it went to another
	// fleet meanwhile, or are lost. What they held is compared with nothing any more, nor who led them, and what they promised is
	// gone with them.
	f.acks = slices.DeleteFunc(f.acks, func(a ack) bool { return a.epoch >= epoch })
	maps.DeleteFunc(c.leaders, func(of termOf, _ string) bool { return of.cluster == cluster && of.epoch >= epoch })
	c.forgetTerms(cluster, epoch)
	if f.records != nil && f.records.Epoch() >= epoch {
		f.records = nil
	}
	maps.DeleteFunc(c.digests, func(at position, _ seenDigest) bool { return at.cluster == cluster && at.epoch >= epoch })
}

// Dissolves notes that a fleet's leader proposes that all of it goes into another one.
func (c *Checker) Dissolves(cluster string) { c.fleet(cluster).dissolves = true }

// Replaced notes that a machine was lost for good, and that another one has its name now.
func (c *Checker) Replaced(who string) {
	delete(c.home, who)
	delete(c.last, who)
	delete(c.workers, who)
	maps.DeleteFunc(c.obeyed, func(in inFleet, _ uint64) bool { return in.who == who })
}

// Rested judges a leader when all is at rest: nothing that was acknowledged is still to come.
func (c *Checker) Rested(at time.Duration, who string, v *fleet.View) {
	f := c.fleet(v.Cluster())
	for _, a := range f.acks {
		if a.after(v) && !f.excused(a, v.Epoch()) {
			c.fail(RuleLost, at, who, "the %s of %s was committed at epoch %d revision %d of fleet %s, whose leader is at epoch %d revision %d",
				ackNames[a.what], short(a.pair.id), a.epoch, a.revision, short(v.Cluster()), v.Epoch(), v.Revision())
		}
	}
}

// excused: a recovery began from an earlier revision, and said so.
func (f *knownFleet) excused(a ack, epoch uint64) bool {
	for _, r := range f.recovers {
		if r.epoch > a.epoch && r.epoch <= epoch && (a.revision > r.revision || a.what == AckAwaited && r.learner) {
			return true
		}
	}
	return false
}

// ByWindowOnce is ByWindow for whoever sees an admission only afterwards, and maybe again.
func (c *Checker) ByWindowOnce(cluster string, row enroll.RowID, on string, at time.Duration) {
	if c.fleet(cluster).allowed[pair{row.ID, row.Key}] == "" {
		c.ByWindow(cluster, row, on, at)
	}
}
