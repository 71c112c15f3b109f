package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/process"
	"pace-node/internal/version"
)

// When a person is called by the program of --alert-exec, and how it is bounded.
const (
	// alertSettle is how long a condition stands before anybody is called: what goes by itself is nobody's work.
	alertSettle = 15 * time.Second
	// alertPause is the least time between two calls for one condition that comes and goes.
	alertPause = 15 * time.Minute
	// alertTimeout is how long the program may run.
	alertTimeout = 30 * time.Second
	// alertRetry is how long after a failed run it is tried again, and alertTries how often it is run for one call.
	alertRetry = time.Minute
	alertTries = 5
	// alertLook is how often the program is looked for.
	alertLook = 30 * time.Second
	// alertStderr bounds what is kept of what it says, in bytes.
	alertStderr = 1024

	alertCondition = "alert-exec-failing"
)

// errNoProgram is a command line that a later start must not be reached with: the options were judged before.
var errNoProgram = errors.New("--alert-exec names no program")

// alerts decides when the program is run: one call for each raising of a condition that a person must act on. It is the
// loop's, and its map never has more rows than the table of conditions.
type alerts struct {
	argv    []string
	calls   map[string]*alertCall
	running bool
	looked  time.Time
	fault   string // why the program could not be told last, empty otherwise
	failed  bool   // fault is of a run, and no later run mended it
}

// alertCall is what became of one condition.
type alertCall struct {
	told   bool      // for as long as it stands as it did
	detail string    // that it was told with
	last   time.Time // when it was told last, or given up
	tries  int       // failed ones of this call
	next   time.Time // when it may be tried again
}

// due returns the condition that the program is to be run for now, worst first; conditions are those that are raised.
func (a *alerts) due(now time.Time, conditions []control.ConditionStatus) (due control.ConditionStatus, ok bool) {
	raised := map[string]bool{}
	for _, c := range conditions {
		raised[c.ID] = true
	}
	for id, call := range a.calls {
		if !raised[id] {
			call.told, call.tries, call.next, call.detail = false, 0, time.Time{}, ""
		}
	}
	for _, c := range conditions {
		calls, again := control.CallsPerson(c)
		if !calls {
			continue
		}
		if a.calls == nil {
			a.calls = map[string]*alertCall{}
		}
		call := a.calls[c.ID]
		if call == nil {
			call = &alertCall{}
			a.calls[c.ID] = call
		}
		if call.told && again && c.Detail != call.detail {
			call.told, call.tries, call.next = false, 0, time.Time{}
		}
		switch {
		case ok || call.told || time.Duration(c.SinceMS)*time.Millisecond < alertSettle || now.Before(call.next):
		case !call.last.IsZero() && now.Sub(call.last) < alertPause:
		default:
			due, ok = c, true
		}
	}
	return due, ok && !a.running
}

// ended takes in how a run for a condition went; given reports that it is tried no more for this raising.
func (a *alerts) ended(now time.Time, c control.ConditionStatus, well bool) (given bool) {
	call := a.calls[c.ID]
	if call == nil {
		return false
	}
	call.tries++
	if !well && call.tries < alertTries {
		call.next = now.Add(alertRetry)
		return false
	}
	given = !well
	call.told, call.detail, call.last, call.tries, call.next = true, c.Detail, now, 0, time.Time{}
	return given
}

// alertArgv is the command line of --alert-exec in words; empty where there is none.
func alertArgv(command string) ([]string, error) {
	if command == "" {
		return nil, nil
	}
	argv, err := process.Split(command, runtime.GOOS == "windows")
	if err != nil {
		return nil, fmt.Errorf("%w: %w; write its path, and each argument after a blank", errNoProgram, err)
	}
	return argv, nil
}

// keepAlerting runs the program where a person must act, one run at a time, off the loop.
func (n *Node) keepAlerting(now time.Time) {
	a := &n.alerts
	if len(a.argv) == 0 {
		return
	}
	if now.Sub(a.looked) >= alertLook {
		a.looked = now
		program := a.argv[0]
		n.effect(func(context.Context) {
			_, err := exec.LookPath(program)
			n.post(func(time.Time) { n.alertFound(err) })
		})
	}
	c, ok := a.due(now, n.board.List())
	if !ok {
		return
	}
	a.running = true
	doc := n.alertDoc(now, c)
	n.effect(func(ctx context.Context) {
		result, said := runAlert(ctx, a.argv, doc, alertTimeout)
		if result == "" { // the node stops
			return
		}
		n.post(func(now time.Time) { n.alerted(now, c, result, said) })
	})
}

// alertFound shows whether the program can be run at all, before somebody has to be called by it.
func (n *Node) alertFound(err error) {
	a := &n.alerts
	switch {
	case err != nil && !a.failed:
		a.fault = "the program " + control.Word(a.argv[0]) + " of --alert-exec cannot be run: " + plainCause(err)
	case err == nil && !a.failed:
		a.fault = ""
	}
	n.showAlerting()
}

// alerted takes in how the program's run went.
func (n *Node) alerted(now time.Time, c control.ConditionStatus, result, said string) {
	a := &n.alerts
	a.running = false
	n.metrics.Add("pace_alert_runs_total", 1, result)
	given := a.ended(now, c, result == control.AlertOK)
	if result == control.AlertOK {
		a.fault, a.failed = "", false
		n.log.Info("a person was called", "condition", c.ID, "detail", control.Sentence(c.Detail))
	} else {
		a.fault, a.failed = said, true
		n.noise.say(now, "nobody could be called", "condition", c.ID, "error", control.Sentence(said))
	}
	if given {
		n.log.Error("calling a person is given up", "condition", c.ID, "tries", alertTries)
	}
	n.showAlerting()
}

func (n *Node) showAlerting() {
	n.board.Set(n.alerts.fault != "", alertCondition, n.alerts.fault, n.alerts.argv[0])
}

// alertDoc is what the program reads.
func (n *Node) alertDoc(now time.Time, c control.ConditionStatus) control.AlertDocument {
	v := n.view.Load()
	return control.AlertDocument{V: control.DocumentVersion, Condition: c.ID, Severity: c.Severity, Detail: c.Detail, Remedy: c.Remedy,
		RaisedAt: now.Add(-time.Duration(c.SinceMS) * time.Millisecond).Unix(), NodeID: n.id, Name: n.name, FleetID: v.Cluster(),
		Mode: n.mode.Load().String(), Version: version.Version, Platform: version.Platform()}
}

// runAlert runs the program once. The result is a label of pace_alert_runs_total, empty where the node stops; said is what
// went wrong.
func runAlert(ctx context.Context, argv []string, doc control.AlertDocument, timeout time.Duration) (result, said string) {
	input, err := doc.Input()
	if err != nil {
		return control.AlertNotStarted, err.Error()
	}
	name := "the program " + control.Word(argv[0]) + " of --alert-exec "
	r, err := process.Run(ctx, process.Command{Argv: argv, Env: append(process.Environment(os.Environ()), doc.Environment()...), Input: input, Timeout: timeout, MaxStderr: alertStderr})
	switch {
	case err != nil:
		return control.AlertNotStarted, name + "cannot be run: " + plainCause(err)
	case r.End == process.EndCancelled:
		return "", ""
	case r.End == process.EndTimeout:
		return control.AlertTimeout, name + "was ended after " + timeout.String() + lastSaid(r.Stderr)
	case r.Exit != nil:
		return control.AlertFailed, name + "ended with " + process.ExitText(r.Exit) + lastSaid(r.Stderr)
	}
	return control.AlertOK, ""
}

// plainCause is why a program cannot be started, without its path, which stands before it.
func plainCause(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	var look *exec.Error
	if errors.As(err, &look) {
		return look.Err.Error()
	}
	return err.Error()
}

// lastSaid is the last line of what a program wrote on stderr.
func lastSaid(stderr []byte) string {
	text := strings.TrimSpace(process.Redact(string(stderr)))
	if text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	return ": " + strings.TrimSpace(lines[len(lines)-1])
}
