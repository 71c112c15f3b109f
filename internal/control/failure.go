package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"pace-node/internal/config"
	"pace-node/internal/wire"
)

// Failure is why a verb did not do what was asked.
type Failure struct {
	Code   string `json:"code"`   // one word: an error code's name, or nobody, usage, failed
	Reason string `json:"reason"` // never empty
	Remedy string `json:"remedy"` // never empty
	Exit   int    `json:"exit"`   // exit status
	// Near are machines that a mistyped word may mean, the likeliest first; at most 3.
	Near []NearMachine `json:"near,omitempty"`
}

// NearMachine is a machine whose name or id is nearly what was typed.
type NearMachine struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

func (f *Failure) Error() string { return f.Reason }

// FailureDocument is what --json prints in failure.
type FailureDocument struct {
	V     int     `json:"v"`
	Error Failure `json:"error"`
}

// Codes of failures that no node sent.
const (
	CodeNobody    = "nobody"
	codeUsage     = "usage"
	codeFailed    = "failed"
	codeAmbiguous = "ambiguous"
	codeUnknown   = "unknown-machine"
)

// ExitRow is how an error frame of a node ends a verb. Prefix comes before the
// frame's text where that is a value and no sentence.
type ExitRow struct {
	Code   wire.ErrorCode
	Exit   int
	Prefix string
	Remedy string // where the frame has no hint
}

// Exits is the table of error frames.
var Exits = []ExitRow{
	{wire.CodeUnsupportedVersion, config.ExitFailed, "", "bring this program and the node to the same version"},
	{wire.CodeUnknownVerb, config.ExitFailed, "", "bring this program and the node to the same version"},
	{wire.CodeMalformed, config.ExitFailed, "", "bring this program and the node to the same version"},
	{wire.CodeTooLarge, config.ExitFailed, "", "ask for less at once"},
	{wire.CodeNotLeader, config.ExitNobody, "the leader is at ", "try again in a few seconds; pacectl fleet status shows the leader"},
	{wire.CodeNotMember, config.ExitRefused, "", "this machine must be a member first: approve it on the leader with pace-node --enroll-list"},
	{wire.CodeRevoked, config.ExitRefused, "this machine's key was revoked at revision ", "run pace-node --reset-identity, then let the machine ask to join anew"},
	{wire.CodeWaitingListFull, config.ExitRefused, "", "decide the machines that wait: pace-node --enroll-list"},
	{wire.CodeSourceFull, config.ExitRefused, "", "decide the machines that wait: pace-node --enroll-list"},
	{wire.CodeKeyMismatch, config.ExitRefused, "", "compare the key with what pace-node --print-identity prints on that machine"},
	{wire.CodeBadSignature, config.ExitRefused, "", "compare the key with what pace-node --print-identity prints on that machine"},
	{wire.CodeLeaseRefused, config.ExitRefused, "", "look at pacectl node on that machine"},
	{wire.CodeRosterNotApplied, config.ExitNobody, "", "try again in a few seconds"},
	{wire.CodeRefusedByRule, config.ExitRefused, "", "pacectl fleet status shows what stands against it"},
	{wire.CodeBusy, config.ExitNobody, "", "try again in a few seconds"},
	{wire.CodeBehind, config.ExitNobody, "", "try again in a few seconds, or ask the leader with --scheduler=HOST"},
	{wire.CodeNewerFormat, config.ExitRefused, "", "upgrade this machine"},
	{wire.CodeDissolved, config.ExitRefused, "", "pacectl node shows the fleet that this one went into"},
}

// FailureOf turns any error of a verb into why it was not done.
func FailureOf(err error) Failure { return *failureOf(err, true) }

// failureOf turns any error of a verb into a Failure. socket says that this
// machine's own node was asked.
func failureOf(err error, socket bool) *Failure {
	var f *Failure
	var e *wire.Error
	var nobody *NobodyError
	var usage *config.UsageError
	var refused *config.RefusedError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &nobody):
		exit := config.ExitNobody
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrSocketOwner) || errors.Is(err, ErrNotSocket) {
			exit = config.ExitFailed
		}
		return &Failure{Code: CodeNobody, Reason: nobody.Error(), Remedy: nobodyRemedy(err, socket), Exit: exit}
	case errors.As(err, &e):
		return failureOfFrame(e)
	case errors.As(err, &usage):
		return &Failure{Code: codeUsage, Reason: usage.What, Remedy: usage.Remedy, Exit: config.ExitUsage}
	case errors.As(err, &refused):
		return &Failure{Code: "configuration", Reason: refused.Reason(), Remedy: refused.Way(), Exit: config.ExitConfig}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &Failure{Code: CodeNobody, Reason: "no answer came in time", Remedy: "look at the node's log, then try again", Exit: config.ExitNobody}
	}
	if r := (remediable)(nil); errors.As(err, &r) {
		return &Failure{Code: codeFailed, Reason: r.What(), Remedy: r.Remedy(), Exit: config.ExitFailed}
	}
	return &Failure{Code: codeFailed, Reason: err.Error(), Remedy: failedRemedy(err), Exit: config.ExitFailed}
}

// remediable is an error of this machine that says apart what is wrong and what mends it.
type remediable interface {
	error
	What() string
	Remedy() string
}

func failedRemedy(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "run it with sudo"
	}
	return "the reason names what stands in the way"
}

func failureOfFrame(e *wire.Error) *Failure {
	row := ExitRow{Exit: config.ExitFailed, Remedy: "bring this program and the node to the same version"}
	for _, r := range Exits {
		if r.Code == e.Code {
			row = r
		}
	}
	reason, remedy := strings.TrimSpace(e.Text), e.Hint
	switch {
	case e.Code == wire.CodeDissolved:
		reason = "this fleet was dissolved into another"
	case e.Code == wire.CodeNotLeader && reason == "":
		reason = "the fleet has no leader at the moment"
	case reason == "" && e.Code == wire.CodeRevoked:
		reason = "this machine's key was revoked"
	case reason == "":
		reason = e.Code.String()
	case isValue(reason):
		reason = row.Prefix + reason
	}
	return &Failure{Code: e.Code.String(), Reason: reason, Remedy: orText(remedy, row.Remedy), Exit: row.Exit}
}

// isValue reports whether a frame's text is one value, an endpoint or a revision,
// and not a sentence.
func isValue(s string) bool { return !strings.ContainsRune(s, ' ') }

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// usageFailure is a command line that is not one.
func usageFailure(remedy, format string, args ...any) *Failure {
	return &Failure{Code: codeUsage, Reason: fmt.Sprintf(format, args...), Remedy: remedy, Exit: config.ExitUsage}
}
