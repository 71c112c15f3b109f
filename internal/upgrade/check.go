package upgrade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"pace-node/internal/host"
	"pace-node/internal/wire"
)

// run runs a program for what it says.
func (u *Upgrader) run(ctx context.Context, program string, args ...string) (code int, said string, err error) {
	if u.cfg.Run != nil {
		return u.cfg.Run(ctx, program, args...)
	}
	return runProgram(ctx, program, args...)
}

// runProgram runs a program that was just written: another process that this one was starting at that moment may hold it
// open still.
func runProgram(ctx context.Context, program string, args ...string) (code int, said string, err error) {
	for try := 1; ; try++ {
		r, err := host.Run(ctx, "", program, args...)
		if !errors.Is(err, syscall.ETXTBSY) || try == checkTries {
			return r.Code, r.Out, err
		}
		select {
		case <-ctx.Done():
			return 0, "", ctx.Err()
		case <-time.After(checkWait):
		}
	}
}

// check has the staged program say its version and judge what this process was started with.
func (u *Upgrader) check(ctx context.Context, version string) error {
	return checkProgram(ctx, u.run, u.place.staged, version, u.cfg.Args, u.cfg.Words)
}

func checkProgram(ctx context.Context, run func(context.Context, string, ...string) (int, string, error), staged, version string, args, words []string) error {
	code, said, err := run(ctx, staged, "--version")
	if err != nil || code != 0 {
		return checkError("--version", code, said, err)
	}
	if fields := strings.Fields(said); len(fields) < 2 || fields[1] != version {
		return &Error{ErrCheck, fmt.Sprintf("the program of version %s says that it is %q: a machine would be given it over and over; build the release anew", version, wire.Printable(clip(said))), true}
	}
	line := append(append([]string{"--check-arguments"}, args...), words...)
	if code, said, err = run(ctx, staged, line...); err != nil || code != 0 {
		return checkError("--check-arguments", code, said, err)
	}
	return nil
}

func checkError(what string, code int, said string, err error) error {
	if err != nil {
		return &Error{ErrCheck, fmt.Sprintf("the new program does not run here (%s): %s", what, wire.Printable(err.Error())), true}
	}
	return &Error{ErrCheck, fmt.Sprintf("the new program does not pass its own %s (status %d): %s", what, code, wire.Printable(clip(said))), true}
}

func clip(s string) string {
	if len(s) > maxSaid {
		s = strings.ToValidUTF8(s[:maxSaid], "") + "…"
	}
	return s
}
