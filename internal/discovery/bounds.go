package discovery

import "time"

// bound names one row of the table of bounds.
type bound uint8

const (
	boundBeaconPeriod bound = iota
	boundBeaconJitter
	boundStartDelay
	boundForwardDelay
	boundForwardGap
	boundForgotten
	boundProven
	boundReprove
	boundForeignProven
	boundForeignUnproven
	boundStrangers
	boundHosts
	boundSharedKept
	boundV6Prefix
	boundEpochAge
	boundEpochCookies
	boundCookieLife
	boundLogLine
	boundCloneChallenge
	boundSpeakers
	boundProvenHosts
	boundProvenKeys
	boundSweep
	boundCloneFlips
	boundRecall
	boundRecallKept
	boundPressure
)

// boundRow is one bound: a duration or a number, and the reason for it.
type boundRow struct {
	what string
	d    time.Duration
	n    int
	why  string
}

// bounds is the one table of what a segment may cost this node (the discovery
// wire, version 3, "Bounds and budgets"; the rows marked "ours" bound tables
// that the wire leaves to the implementation).
var bounds = [...]boundRow{
	boundBeaconPeriod:    {what: "beacon period", d: 15 * time.Second, why: "a machine is found within seconds, at a cost nobody notices"},
	boundBeaconJitter:    {what: "beacon jitter, percent either way", n: 10, why: "machines powered on together do not speak together"},
	boundStartDelay:      {what: "first beacon after the start, at most", d: 250 * time.Millisecond, why: "the same, at power-on"},
	boundForwardDelay:    {what: "beacon brought forward by a first proof, at most", d: 250 * time.Millisecond, why: "a challenge teaches the newcomer nothing, the beacon does"},
	boundForwardGap:      {what: "between two beacons brought forward, at least", d: 2 * time.Second, why: "newcomers, however many, cost one beacon"},
	boundForgotten:       {what: "peer or fleet forgotten after its last beacon", d: 90 * time.Second, why: "six periods: a lost datagram costs nothing"},
	boundProven:          {what: "a proof counts for", d: 90 * time.Second, why: "status, kept budget and first proof all ask the same"},
	boundReprove:         {what: "challenged again after the last proof", d: 60 * time.Second, why: "leaves two beacons to prove again before a proof stops counting"},
	boundForeignProven:   {what: "proven foreign fleets remembered", n: 16, why: "keys cost nothing to mint"},
	boundForeignUnproven: {what: "unproven foreign fleets remembered", n: 16, why: "beacons cost nothing to send"},
	boundStrangers:       {what: "unrostered peers of the own cluster remembered", n: 64, why: "ids cost nothing to claim"},
	boundHosts:           {what: "source hosts with a budget of their own, per kind of work", n: 64, why: "addresses cost nothing to spoof"},
	boundSharedKept:      {what: "one part in so many of a shared budget kept for proven sources", n: 4, why: "a flood of strangers leaves the fleet its quarter"},
	boundV6Prefix:        {what: "bits of an IPv6 source that are budgeted", n: 64, why: "one machine holds a whole /64"},
	boundEpochAge:        {what: "age at which an epoch key is replaced", d: 15 * time.Second, why: "the bitmaps stay small"},
	boundEpochCookies:    {what: "cookies of one epoch key", n: 65536, why: "two bits each: 16 KiB"},
	boundCookieLife:      {what: "life of a cookie", d: 30 * time.Second, why: "two epochs"},
	boundLogLine:         {what: "between two log lines of one kind", d: time.Minute, why: "noise is said once, with how many it stands for"},
	boundCloneChallenge:  {what: "between two challenges of a node that speaks under this node's own id", d: time.Minute, why: "a copy is a condition, no race"},
	boundSpeakers:        {what: "ours: proven speakers remembered of one foreign fleet", n: 64, why: "each is spared a signature a beat; more cost only that"},
	boundProvenHosts:     {what: "ours: proven source hosts remembered", n: 1024, why: "a segment of a /22, whole"},
	boundProvenKeys:      {what: "ours: proven speakers remembered, so that one whose fleet gave way in a full table is no newcomer", n: 1024, why: "a segment of a /22, whole"},
	boundSweep:           {what: "ours: between two searches for what is to be forgotten", d: 5 * time.Second, why: "what is asked is exact anyway; this frees and reports"},
	boundCloneFlips:      {what: "ours: changes of endpoint under one key, there and back and there within the time a proof counts, that make a copy", n: 3, why: "a laptop that changes its network and returns makes two"},
	boundRecall:          {what: "ours: a beacon refused for want of shared budget is remembered for once to twice", d: 16500 * time.Millisecond, why: "the longest period: its next one falls within"},
	boundRecallKept:      {what: "ours: challenges that sources never seen leave to returning ones, under pressure", n: 8, why: "a flood of new sources can't shut a newcomer out"},
	boundPressure:        {what: "ours: beacons refused within that time that are pressure", n: 64, why: "a segment that is powered on together is none"},
}

func (b bound) duration() time.Duration { return bounds[b].d }
func (b bound) count() int              { return bounds[b].n }

// work is a kind of work that a stranger's datagram can ask of this node.
type work uint8

const (
	workAnswer    work = iota // sign a proof
	workCheck                 // verify a proof's signature
	workChallenge             // issue a cookie
	workKinds
)

// budgetRow is the budget of one kind of work: a bucket for each source host,
// then one for all together. A token comes back every so often.
type budgetRow struct {
	what        string
	hostSize    int
	hostEvery   time.Duration
	sharedSize  int
	sharedEvery time.Duration
	withheld    Counter   // what counts a refusal
	event       EventKind // what reports it
}

// budgets is the second half of the table of bounds.
var budgets = [workKinds]budgetRow{
	workAnswer:    {"answering", 8, 250 * time.Millisecond, 128, time.Millisecond, CountRepliesWithheld, EventBudgetAnswer},
	workCheck:     {"proof checks", 8, 250 * time.Millisecond, 128, 3 * time.Millisecond, CountProofChecksWithheld, EventBudgetCheck},
	workChallenge: {"challenges", 8, 250 * time.Millisecond, 128, time.Millisecond, CountRepliesWithheld, EventBudgetChallenge},
}
