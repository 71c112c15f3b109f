package provision

import (
	"errors"
	"time"

	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// The numbers of the leader's side, each with its unit and its reason.
const (
	// DefaultHelperTimeout is how long a helper may take.
	DefaultHelperTimeout = 10 * time.Second
	// DefaultComponent is what a machine says it is while it wants provisioning.
	DefaultComponent = wire.ComponentProvision
	// ComponentServer is what a machine says it is once it runs its configuration.
	ComponentServer = wire.ComponentServer

	// RoundQuiet ends a discovery round: so long after the last answer.
	RoundQuiet = 300 * time.Millisecond
	// RoundMax ends a discovery round in any case.
	RoundMax = 2 * time.Second
	// RoundAtOnce is how many members are asked at the same time.
	RoundAtOnce = 64
	// RoundPatience is when a silent member gives its place to one that has not been asked.
	RoundPatience = 150 * time.Millisecond

	// ProbesAtOnce is how many machines are probed at the same time, outside the workers.
	ProbesAtOnce = 64
	// ProbeTimeout is when a machine that does not answer counts as unreachable.
	ProbeTimeout = 2 * time.Second
	// ProbePatience is how long a first probe waits while others are waiting to be probed; a machine that is only slow is
	// probed again for the whole timeout, so hundreds of silent machines do not hold up the live ones.
	ProbePatience = 500 * time.Millisecond
	// SecondProbes is how many of the probes may be second ones while first ones wait.
	SecondProbes = 8

	// RecordWait is how long the record of a run that ended well waits for the machine's confirmation, which usually comes in
	// the same moment: then one entry of the log holds both.
	RecordWait = 500 * time.Millisecond
	// ConfirmCommit is how long the entry that confirms may take to commit.
	ConfirmCommit = 30 * time.Second
	// VerbCommit is how long an operator's verb waits until the fleet's state holds it.
	VerbCommit = 10 * time.Second
	// StopPatience is how long a clean stop waits for cycles to reach a stage's boundary.
	StopPatience = 10 * time.Second
	// FailureSaid is how often the log says the same failure of the same machine.
	FailureSaid = time.Minute
	// StepWait is the wait before a step is repeated within its timeout.
	StepWait = 250 * time.Millisecond

	// RestartTimeout is for a machine's hooks, and where one fails for those of the configuration before: 60 s each, and the
	// time in which a unit takes them. It holds a worker only as long as the machine's session lives.
	RestartTimeout = 3 * time.Minute
	// QueryWait is the wait before a machine is asked again that has not heard yet who leads.
	QueryWait = 100 * time.Millisecond

	// MaxStdout bounds a helper's answer.
	MaxStdout = 1 << 20
	// MaxStderr is how much of a helper's stderr, its end, goes into an error.
	MaxStderr = 4 << 10
	// MaxShown is how much of a bad answer is shown, in bytes.
	MaxShown = 80
	// MaxInventory bounds what a machine tells of itself: one answer on the wire.
	MaxInventory = wire.MaxAnswer
	// MaxEventAge bounds the age that an event may claim, so that arithmetic on it cannot overflow.
	MaxEventAge = 24 * time.Hour
)

// StepRow is one step that a machine is asked for, in the order of the cycle.
type StepRow struct {
	Stage    queue.Stage
	Step     string // of wire.WorkRequest
	Timeout  time.Duration
	Attempts int  // how often it is asked where the request was lost; more than 1 only where repeating is safe
	Lease    bool // it changes the machine
}

// Steps is the table of steps.
var Steps = []StepRow{
	{queue.StageInventory, wire.StepInventory, 10 * time.Second, 2, false},
	{queue.StageCSR, wire.StepCSR, 10 * time.Second, 2, true}, // asking twice asks for the same
	{queue.StageShutdown, wire.StepShutdown, 10 * time.Second, 1, true},
	// A program is fetched over a slow line, and run twice before it is taken. Half a lease's life.
	{queue.StageUpgrade, wire.StepUpgrade, 5 * time.Minute, 1, true},
	{queue.StageConfigure, wire.StepConfigure, 30 * time.Second, 1, true},
	{queue.StageRestart, wire.StepRestart, RestartTimeout, 1, true},
}

func step(stage queue.Stage) StepRow {
	for _, r := range Steps {
		if r.Stage == stage {
			return r
		}
	}
	return StepRow{Stage: stage, Step: string(stage), Timeout: time.Second, Attempts: 1, Lease: true}
}

// CallRow says what an error of a machine means for the run.
type CallRow struct {
	Code      wire.ErrorCode
	Permanent bool // another try cannot help: parked
	Repeat    bool // the machine did nothing yet and asks for patience: repeated within the step, under a new lease
}

// CallErrors is the table of errors that a machine answers with; a code that is not listed is transient.
var CallErrors = []CallRow{
	{wire.CodeUnsupportedVersion, true, false},
	{wire.CodeUnknownVerb, true, false},
	{wire.CodeMalformed, true, false},
	{wire.CodeTooLarge, true, false},
	{wire.CodeNotLeader, false, false},
	{wire.CodeNotMember, false, false},
	{wire.CodeRevoked, false, false},
	{wire.CodeKeyMismatch, false, false},
	{wire.CodeBadSignature, false, false},
	{wire.CodeLeaseRefused, false, false},
	{wire.CodeRosterNotApplied, false, true},
	{wire.CodeRefusedByRule, true, false},
	{wire.CodeBusy, false, true},
	{wire.CodeBehind, false, false},
	{wire.CodeNewerFormat, true, false},
	{wire.CodeDissolved, false, false},
}

// Sentinels of this package.
var (
	// ErrUnreachable is what Deps.Call returns for a machine without a session.
	ErrUnreachable = errors.New("provision: the machine has no session with this node")
	// ErrNotLeading: this node does not lead, so it does not provision.
	ErrNotLeading = errors.New("provision: this node does not lead the fleet; ask its leader")
	// ErrStopped: the provisioner was stopped.
	ErrStopped = errors.New("provision: this node is stopping")
	// ErrNothing: neither a helper nor a default is configured.
	ErrNothing = errors.New("provision: neither a helper nor a default is configured: set --provision-helper or --provision-default")
	// errBoundary ends a cycle at a stage's boundary because the node stops.
	errBoundary = errors.New("provision: stopped at a stage's boundary")
)
