package queue

import "time"

// The numbers of the queue, each with its unit and its reason.
const (
	// MinInterval is the smallest discovery interval: below it the hold would outlast a round.
	MinInterval = time.Minute
	// DefaultHold is how long a finished machine stays in the map while it restarts and confirms.
	DefaultHold = 60 * time.Second
	// DefaultCapacity is how many entries the heap holds unless configured.
	DefaultCapacity = 50_000
	// StaleIntervals: an entry picked up at an age above this many intervals is refused; exactly this many still runs.
	StaleIntervals = 2
	// BackoffFirst is the wait after the first transient failure; each further one doubles it.
	BackoffFirst = 5 * time.Second
	// BackoffMax bounds every wait after a failure, jitter included.
	BackoffMax = 10 * time.Minute
	// BackoffJitter is the part by which a wait varies, to both sides, so that machines that failed together part.
	BackoffJitter = 0.5
	// NotYetWait is the longest wait after a refusal that is over by itself, with the same jitter downwards: a machine that has not
	// heard yet who leads hears it by the next heartbeat.
	NotYetWait = 2 * time.Second
	// NotYetMost is for how long such refusals count as nothing: whoever has not heard of a leader after ten elections has a fault.
	NotYetMost = 30 * time.Second
	// RetryAfterMax bounds what a helper may ask for, so that a typing error does not lose a machine for ever.
	RetryAfterMax = 7 * 24 * time.Hour
	// MaxOverflow is how many refused machines are remembered to be tried first when there is room.
	MaxOverflow = 4096
	// OverflowRetry is when a due machine that found neither room nor a place among the remembered ones is tried again.
	OverflowRetry = 5 * time.Second
	// MaxHistory is how many outcomes are kept of one machine.
	MaxHistory = 20
	// MaxErrorText bounds a kept error in bytes: 4 KiB of a helper's stderr and the sentence around it.
	MaxErrorText = 5 << 10
)

// Source says where a sighting came from.
type Source uint8

// The sources of sightings.
const (
	SourceDiscovery Source = iota + 1 // a broadcast round
	SourceEvent                       // a startup event
	SourceRetry                       // a machine that has come due
	SourceOperator                    // a person's retry or reprovision
)

var sourceNames = [...]string{SourceDiscovery: "discovery", SourceEvent: "event", SourceRetry: "retry", SourceOperator: "operator"}

// String returns the word of the source.
func (s Source) String() string { return nameOf(sourceNames[:], int(s)) }

// Verdict is what admission said to a sighting; String is the reason that the metric and the operator see.
type Verdict uint8

// The verdicts of Add (and Stale, of the pick-up).
const (
	Admitted      Verdict = iota + 1
	AdmittedAgain         // known, and the sighting was older than the interval
	RunAgainOnce          // running; one more run afterwards
	HoldEnded             // a new boot during the hold: one failure, due after the first step
	Duplicate
	NotDue
	Full
	Paused
	Invalid
	Stale
)

// VerdictRow is one row of Verdicts.
type VerdictRow struct {
	Verdict Verdict
	Name    string
	Enters  bool    // a run was queued
	Counts  Counter // the refusal it counts; 0 for none
}

// Verdicts is the table of what admission says.
var Verdicts = []VerdictRow{
	{Admitted, "admitted", true, 0},
	{AdmittedAgain, "admitted_again", true, 0},
	{RunAgainOnce, "run_again_once", true, 0},
	{HoldEnded, "hold_ended", false, 0},
	{Duplicate, "duplicate", false, RefusedDuplicate},
	{NotDue, "not_due", false, RefusedNotDue},
	{Full, "full", false, RefusedFull},
	{Paused, "paused", false, RefusedPaused},
	{Invalid, "invalid", false, RefusedInvalid},
	{Stale, "stale", false, RefusedStale},
}

func verdictRow(v Verdict) VerdictRow {
	for _, r := range Verdicts {
		if r.Verdict == v {
			return r
		}
	}
	return VerdictRow{}
}

// String returns the verdict's word, which is also the label of pace_provision_refused_total.
func (v Verdict) String() string {
	if r := verdictRow(v); r.Name != "" {
		return r.Name
	}
	return "unknown"
}

// Enters reports whether the verdict queued a run.
func (v Verdict) Enters() bool { return verdictRow(v).Enters }

// Stage is a step of the cycle, as errors and retries are counted by it.
type Stage string

// The stages.
const (
	StageProbe     Stage = "probe"
	StageInventory Stage = "inventory"
	StageCSR       Stage = "csr"
	StageHelper    Stage = "helper"
	StageShutdown  Stage = "shutdown"
	StageUpgrade   Stage = "upgrade"
	StageConfigure Stage = "configure"
	StageRestart   Stage = "restart"
	StageConfirm   Stage = "confirm"
)

// Stages is every stage, in the order of the cycle: the closed list of the label "stage".
var Stages = []Stage{StageProbe, StageInventory, StageCSR, StageHelper, StageShutdown, StageUpgrade, StageConfigure, StageRestart, StageConfirm}

// Outcome is how a run ended.
type Outcome uint8

// The outcomes.
const (
	OutcomeError    Outcome = iota + 1
	OutcomeDeferred         // by the helper
	OutcomeUpgraded         // success without delay: an in-place upgrade
	OutcomeSuccess          // success with delay: held until it confirms
	OutcomeShutdown         // told to shut down
	OutcomeSkipped          // nothing was begun: leadership gone, paused or stopping
	OutcomeUnwanted         // nothing was begun: the machine no longer wants provisioning
	OutcomeNotYet           // the machine refused for now, and changed nothing: no failure while NotYetMost lasts
)

// OutcomeRow is one row of Outcomes.
type OutcomeRow struct {
	Outcome  Outcome
	Name     string
	Hold     bool    // done after the hold instead of at once
	Confirms bool    // during the hold a confirmation is awaited
	Counts   Counter // 0: nothing at once; errors count by stage beside it
	Next     State   // what the machine becomes when it is done (OutcomeError: the transient case)
}

// Outcomes is the outcome table.
var Outcomes = []OutcomeRow{
	{OutcomeError, "error", false, false, CountErrors, StateBackingOff},
	{OutcomeDeferred, "deferred", false, false, CountDeferred, StateDeferred},
	{OutcomeUpgraded, "upgraded", false, false, CountUpgrades, StateNone},
	{OutcomeSuccess, "success", true, true, 0, StateUnconfirmed},
	{OutcomeShutdown, "shutdown", true, false, CountShutdowns, StateNone},
	{OutcomeSkipped, "skipped", false, false, 0, StateNone},
	{OutcomeUnwanted, "unwanted", false, false, 0, StateNone},
	{OutcomeNotYet, "not_yet", false, false, 0, StateBackingOff},
}

func outcomeRow(o Outcome) (OutcomeRow, bool) {
	for _, r := range Outcomes {
		if r.Outcome == o {
			return r, true
		}
	}
	return OutcomeRow{}, false
}

// String returns the outcome's word.
func (o Outcome) String() string {
	if r, ok := outcomeRow(o); ok {
		return r.Name
	}
	return "unknown"
}

// State is what the operator's list shows of a machine.
type State uint8

// The states. StateNone is a machine of which only the past is known.
const (
	StateNone State = iota
	StateWaiting
	StateRunning
	StateHeld
	StateDeferred
	StateBackingOff
	StateParked
	StateConfirmed
	StateUnconfirmed
)

var stateNames = [...]string{
	StateNone: "none", StateWaiting: "waiting", StateRunning: "running", StateHeld: "held", StateDeferred: "deferred",
	StateBackingOff: "backing off", StateParked: "parked", StateConfirmed: "confirmed", StateUnconfirmed: "unconfirmed",
}

// String returns the state's words.
func (s State) String() string { return nameOf(stateNames[:], int(s)) }

// waits reports whether a machine in this state is refused until it is due.
func (s State) waits() bool {
	return s == StateDeferred || s == StateBackingOff || s == StateUnconfirmed || s == StateParked
}

// PauseReason is one cause for which nothing is admitted and nothing begun; several may hold at once.
type PauseReason uint8

// The causes.
const (
	PauseNoLeadership PauseReason = 1 << iota
	PauseOperator
	PauseNothingToProvisionWith // neither a usable helper nor a default
	PauseStopping
)

// Counter names one series that the queue counts.
type Counter uint8

// The counters. CountErrors and CountRetries are kept by stage.
const (
	CountDiscovered Counter = iota + 1
	CountEventDiscovered
	CountErrors
	CountRetries
	CountProvisioned
	CountDeferred
	CountShutdowns
	CountUpgrades
	CountUnreachable
	CountUnconfirmed
	RefusedDuplicate
	RefusedNotDue
	RefusedFull
	RefusedStale
	RefusedPaused
	RefusedInvalid
	counterEnd
)

// CounterRow is one row of Counters.
type CounterRow struct {
	Counter Counter
	Metric  string
	Label   string // empty: no label
	Value   string // empty with a label "stage": one series for every stage
	Help    string
}

const refusedMetric, refusedHelp = "pace_provision_refused_total", "Sightings and entries refused, by reason."

// Counters is every counter of the queue with its series.
var Counters = []CounterRow{
	{CountDiscovered, "pace_provision_discovered_total", "", "", "Machines admitted from broadcast discovery."},
	{CountEventDiscovered, "pace_provision_event_discovered_total", "", "", "Machines admitted from startup events."},
	{CountErrors, "pace_provision_errors_total", "stage", "", "Failed runs, by the stage that failed."},
	{CountRetries, "pace_provision_retries_total", "stage", "", "Machines tried again, by the stage that had failed."},
	{CountProvisioned, "pace_provision_provisioned_total", "", "", "Machines provisioned and confirmed."},
	{CountDeferred, "pace_provision_deferred_total", "", "", "Machines deferred by the helper."},
	{CountShutdowns, "pace_provision_shutdowns_total", "", "", "Machines told to shut down."},
	{CountUpgrades, "pace_provision_upgrades_total", "", "", "Machines upgraded in place."},
	{CountUnreachable, "pace_provision_unreachable_total", "", "", "Runs that found no session or no answer."},
	{CountUnconfirmed, "pace_provision_unconfirmed_total", "", "", "Machines that did not confirm within the hold."},
	{RefusedDuplicate, refusedMetric, "reason", "duplicate", refusedHelp},
	{RefusedNotDue, refusedMetric, "reason", "not_due", refusedHelp},
	{RefusedFull, refusedMetric, "reason", "full", refusedHelp},
	{RefusedStale, refusedMetric, "reason", "stale", refusedHelp},
	{RefusedPaused, refusedMetric, "reason", "paused", refusedHelp},
	{RefusedInvalid, refusedMetric, "reason", "invalid", refusedHelp},
}

func nameOf(names []string, i int) string {
	if i < 0 || i >= len(names) || names[i] == "" {
		return "unknown"
	}
	return names[i]
}
