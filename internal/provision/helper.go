package provision

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"runtime"
	"time"

	"pace-node/internal/process"
)

// RunHelper runs a helper for one machine: input on stdin, one document from stdout. It returns when the helper itself
// has ended; whatever it left in its group is ended with it, and a process that left the group and holds the pipe is not
// waited for. At the deadline the whole group is ended. A cancelled ctx ends it at once.
func RunHelper(ctx context.Context, command string, timeout time.Duration, input []byte) (*Answer, []byte, *Failure) {
	argv, err := process.Split(command, runtime.GOOS == "windows")
	if err != nil {
		return nil, nil, fail(ReasonMissing, fmt.Sprintf("the helper %s cannot be run: %v; mend --provision-helper", quote(command), err))
	}
	stdout, stderr, failure := runProcess(ctx, argv, timeout, input)
	if failure != nil {
		return nil, stdout, failure
	}
	answer, failure := ParseAnswer(stdout)
	if failure != nil {
		failure.Text = withStderr("the helper "+quote(argv[0])+" gave no usable answer: "+failure.Text, stderr)
		return nil, stdout, failure
	}
	return answer, stdout, nil
}

func runProcess(ctx context.Context, argv []string, timeout time.Duration, input []byte) (stdout, stderr []byte, failure *Failure) {
	name := "the helper " + quote(argv[0])
	if ctx.Err() != nil {
		return nil, nil, fail(ReasonCancelled, name+" was not run: the work was taken away")
	}
	r, err := process.Run(ctx, process.Command{Argv: argv, Input: input, Timeout: timeout, MaxStdout: MaxStdout, MaxStderr: MaxStderr})
	stdout, stderr = r.Stdout, r.Stderr
	switch {
	case err != nil:
		failure = startFailure(name, err)
	case r.End == process.EndTimeout:
		failure = fail(ReasonTimeout, withStderr(fmt.Sprintf("%s timed out: it was ended after %s", name, timeout), stderr))
	case r.End == process.EndCancelled:
		failure = fail(ReasonCancelled, name+" was ended: the work was taken away")
	case r.End == process.EndTooMuch:
		failure = fail(ReasonTooLarge, withStderr(fmt.Sprintf("%s printed more than 1 MiB on stdout, beginning with %s", name, shown(stdout)), stderr))
	case r.Exit != nil:
		failure = fail(ReasonExit, withStderr(fmt.Sprintf("%s ended with %s; its stdout was not used", name, process.ExitText(r.Exit)), stderr))
	}
	return stdout, stderr, failure
}

func startFailure(name string, err error) *Failure {
	reason := ReasonStart
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		reason = ReasonMissing
	}
	return fail(reason, fmt.Sprintf("%s cannot be run (%v): set --provision-helper to a program that exists here and that this service may run", name, cause(err)))
}
