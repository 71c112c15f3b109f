package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	runTime   = 2 * time.Minute // for one program; systemd waits 90 s for a service to come up
	runOutput = 16 << 10        // bytes of what it prints that are kept
	runLinger = time.Second     // for its pipes, after it has ended
)

// Run is the Runner of this machine. The program gets the C locale, so that what it says can be searched for and looked up.
func Run(ctx context.Context, input, program string, args ...string) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	out := &head{left: runOutput}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), out, out
	cmd.Env = append(os.Environ(), "LC_ALL=C", "LANG=C", "SYSTEMD_PAGER=", "SYSTEMD_COLORS=0")
	cmd.WaitDelay = runLinger
	err := cmd.Run()
	r := Result{Out: strings.TrimSpace(strings.ToValidUTF8(out.kept.String(), ""))}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return r, fmt.Errorf("%s did not end in %s: %w", program, runTime, ctx.Err())
	case errors.As(err, &exit):
		r.Code = exit.ExitCode()
		return r, nil
	case errors.Is(err, exec.ErrWaitDelay):
		return r, nil
	}
	return r, err
}

// head keeps the first bytes of what is written.
type head struct {
	kept bytes.Buffer
	left int
}

func (h *head) Write(p []byte) (int, error) {
	n, _ := h.kept.Write(p[:min(len(p), h.left)])
	h.left -= n
	return len(p), nil
}
