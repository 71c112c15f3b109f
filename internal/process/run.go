package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Command is one program to run.
type Command struct {
	Argv      []string // the program and its arguments; nothing is expanded
	Dir       string   // "": this process's own
	Env       []string // nil: Environment of this process's own
	Input     []byte   // on stdin
	Timeout   time.Duration
	MaxStdout int // bytes that are kept of stdout; a program that prints more is ended; 0: stdout is thrown away
	MaxStderr int // bytes that are kept of stderr, its end
}

// End is why a program's run ended.
type End uint8

// The ends.
const (
	EndItself    End = iota
	EndTimeout       // at its deadline
	EndCancelled     // with its ctx
	EndTooMuch       // it printed more than MaxStdout
)

// Result is how a program ended.
type Result struct {
	End            End
	Exit           error // of EndItself: nil for status 0, else what ExitText reads
	Stdout, Stderr []byte
}

// Run runs one program. It returns when the program itself has ended; whatever it left in its group is ended with it, and
// a process that left the group and holds a pipe is not waited for. At the deadline the whole group is ended, and when ctx
// ends, at once. The error is a program that could not be started.
func Run(ctx context.Context, c Command) (Result, error) {
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	if cmd.Env == nil {
		cmd.Env = Environment(os.Environ())
	}
	prepare(cmd)
	var pipes pipeSet
	defer pipes.closeAll()
	in, out, errs, err := pipes.open(cmd)
	if err != nil {
		return Result{}, err
	}
	if err := cmd.Start(); err != nil {
		return Result{}, err
	}
	pipes.closeTheirs()
	group, err := adopt(cmd)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return Result{}, fmt.Errorf("it cannot be kept in its own group: %w", err)
	}
	defer group.close()

	var wg sync.WaitGroup
	exited := make(chan struct{})
	overflow := make(chan struct{})
	wg.Go(func() { awaitExit(cmd); close(exited) })
	wg.Go(func() {
		// A program that does not read its input is no fault; the write ends when the pipe is closed.
		_, _ = in.Write(c.Input)
		_ = in.Close()
	})
	outs := collect(&wg, out, c.MaxStdout, c.MaxStdout == 0, overflow)
	errp := collect(&wg, errs, c.MaxStderr, true, nil)

	deadline := time.NewTimer(c.Timeout)
	defer deadline.Stop()
	var r Result
	select {
	case <-exited:
	case <-deadline.C:
		r.End = EndTimeout
	case <-overflow:
		r.End = EndTooMuch
	case <-ctx.Done():
		r.End = EndCancelled
	}
	// Before the process is reaped its number cannot belong to anybody else, so the group can be ended by it.
	group.kill()
	<-exited
	waited := cmd.Wait()
	_ = in.Close()
	outs.finish()
	errp.finish()
	wg.Wait()
	r.Stdout, r.Stderr = outs.bytes(), errp.bytes()
	if r.End == EndItself && outs.over {
		r.End = EndTooMuch
	}
	if r.End == EndItself {
		r.Exit = waited
	}
	return r, nil
}

// ExitText says how a program ended that did not end well.
func ExitText(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return fmt.Sprintf("exit code %d", exit.ExitCode())
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}

// Environment is the node's own without its settings and without what belongs to the service manager: a program that
// told systemd that it is ready would speak for the node.
func Environment(own []string) []string {
	out := make([]string, 0, len(own))
	for _, kv := range own {
		keep, upper := true, strings.ToUpper(kv)
		for _, prefix := range []string{"PACE_", "NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_", "CREDENTIALS_DIRECTORY="} {
			keep = keep && !strings.HasPrefix(upper, prefix)
		}
		if keep {
			out = append(out, kv)
		}
	}
	return out
}

// pipeSet are the three pipes of a program, ours and theirs.
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

// chunkSize is how much of a pipe is read at once. Four are needed a program, and hundreds of programs run within a second.
const chunkSize = 16 << 10

var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

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
		chunk := chunks.Get().(*[chunkSize]byte)
		defer chunks.Put(chunk)
		for {
			n, err := r.Read(chunk[:])
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

// finish stops reading, but keeps what the program had written before it ended.
func (c *collector) finish() {
	interrupt(c.r)
	<-c.done
	drain(c.r, maxDrain, c.take)
}

func (c *collector) bytes() []byte { return c.buf.Bytes() }
