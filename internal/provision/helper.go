package provision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// RunHelper runs a helper for one machine: input on stdin, one document from stdout. It returns when the helper itself
// has ended; whatever it left in its group is ended with it, and a process that left the group and holds the pipe is not
// waited for. At the deadline the whole group is ended. A cancelled ctx ends it at once.
func RunHelper(ctx context.Context, command string, timeout time.Duration, input []byte) (*Answer, []byte, *Failure) {
	argv, err := splitCommand(command, runtime.GOOS == "windows")
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
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = helperEnvironment(os.Environ())
	prepare(cmd)
	var pipes pipeSet
	defer pipes.closeAll()
	in, out, errs, err := pipes.open(cmd)
	if err != nil {
		return nil, nil, fail(ReasonStart, fmt.Sprintf("%s cannot be started: %v", name, cause(err)))
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, startFailure(name, err)
	}
	pipes.closeTheirs()
	group, err := adopt(cmd)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, nil, fail(ReasonStart, fmt.Sprintf("%s cannot be kept in its own group: %v", name, err))
	}
	defer group.close()

	var wg sync.WaitGroup
	exited := make(chan struct{})
	overflow := make(chan struct{})
	wg.Go(func() { awaitExit(cmd); close(exited) })
	wg.Go(func() {
		// A helper that does not read its input is no fault; the write ends when the pipe is closed.
		_, _ = in.Write(input)
		_ = in.Close()
	})
	outs := collect(&wg, out, MaxStdout, false, overflow)
	errp := collect(&wg, errs, MaxStderr, true, nil)

	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	reason := Reason("")
	select {
	case <-exited:
	case <-deadline.C:
		reason = ReasonTimeout
	case <-overflow:
		reason = ReasonTooLarge
	case <-ctx.Done():
		reason = ReasonCancelled
	}
	// Before the process is reaped its number cannot belong to anybody else, so the group can be ended by it.
	group.kill()
	<-exited
	waited := cmd.Wait()
	_ = in.Close()
	outs.finish()
	errp.finish()
	wg.Wait()
	stdout, stderr = outs.bytes(), errp.bytes()

	switch {
	case reason == ReasonTimeout:
		failure = fail(reason, withStderr(fmt.Sprintf("%s timed out: it was ended after %s", name, timeout), stderr))
	case reason == ReasonCancelled:
		failure = fail(reason, name+" was ended: the work was taken away")
	case reason == ReasonTooLarge || outs.over:
		failure = fail(ReasonTooLarge, withStderr(fmt.Sprintf("%s printed more than 1 MiB on stdout, beginning with %s", name, shown(stdout)), stderr))
	case waited != nil:
		failure = fail(ReasonExit, withStderr(fmt.Sprintf("%s ended with %s; its stdout was not used", name, exitText(waited)), stderr))
	}
	return stdout, stderr, failure
}

func exitText(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return fmt.Sprintf("exit code %d", exit.ExitCode())
	}
	return cause(err).Error()
}

func startFailure(name string, err error) *Failure {
	reason := ReasonStart
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		reason = ReasonMissing
	}
	return fail(reason, fmt.Sprintf("%s cannot be run (%v): set --provision-helper to a program that exists here and that this service may run", name, cause(err)))
}

// helperEnvironment is the node's own without its settings and without what belongs to the service manager: a helper that
// told systemd that it is ready would speak for the node.
func helperEnvironment(own []string) []string {
	out := make([]string, 0, len(own))
	for _, kv := range own {
		keep := true
		for _, prefix := range []string{"PACE_", "NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_", "CREDENTIALS_DIRECTORY="} {
			keep = keep && !strings.HasPrefix(strings.ToUpper(kv), prefix)
		}
		if keep {
			out = append(out, kv)
		}
	}
	return out
}

// pipeSet are the three pipes of a helper, ours and theirs.
type pipeSet struct{ ours, theirs []*os.File }

func (p *pipeSet) open(cmd *exec.Cmd) (in, out, errs *os.File, err error) {
	var ends [6]*os.File
	for i := 0; i < 6; i += 2 {
		if ends[i], ends[i+1], err = os.Pipe(); err != nil {
			return nil, nil, nil, err
		}
		if i == 0 {
			p.theirs, p.ours = append(p.theirs, ends[i]), append(p.ours, ends[i+1])
		} else {
			p.ours, p.theirs = append(p.ours, ends[i]), append(p.theirs, ends[i+1])
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = ends[0], ends[3], ends[5]
	return ends[1], ends[2], ends[4], nil
}

func (p *pipeSet) closeTheirs() {
	for _, f := range p.theirs {
		_ = f.Close()
	}
	p.theirs = nil
}

func (p *pipeSet) closeAll() {
	p.closeTheirs()
	for _, f := range p.ours {
		_ = f.Close()
	}
}

// collector reads one pipe: the first limit bytes, or the last ones.
type collector struct {
	r     *os.File
	limit int
	tail  bool
	buf   bytes.Buffer
	over  bool
	full  chan<- struct{}
	done  chan struct{}
}

func collect(wg *sync.WaitGroup, r *os.File, limit int, tail bool, full chan<- struct{}) *collector {
	c := &collector{r: r, limit: limit, tail: tail, full: full, done: make(chan struct{})}
	wg.Go(func() {
		defer close(c.done)
		chunk := make([]byte, 16<<10)
		for {
			n, err := r.Read(chunk)
			c.take(chunk[:n])
			if err != nil {
				return
			}
		}
	})
	return c
}

func (c *collector) take(b []byte) {
	if c.tail {
		c.buf.Write(b)
		if extra := c.buf.Len() - c.limit; extra > 0 {
			c.buf.Next(extra)
		}
		return
	}
	if room := c.limit - c.buf.Len(); len(b) > room {
		b = b[:room]
		if !c.over && c.full != nil {
			close(c.full)
		}
		c.over = true
	}
	c.buf.Write(b)
}

// maxDrain is more than any pipe holds, and an end for whoever still writes into it.
const maxDrain = 2 << 20

// finish stops reading, but keeps what the helper had written before it ended.
func (c *collector) finish() {
	interrupt(c.r)
	<-c.done
	drain(c.r, maxDrain, c.take)
}

func (c *collector) bytes() []byte { return c.buf.Bytes() }
