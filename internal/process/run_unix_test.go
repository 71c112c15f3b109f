//go:build unix

package process

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func script(t *testing.T, body string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, body string
		command    Command
		end        End
		exit       string
		out, errs  string
	}{
		{"well", `cat; echo said >&2`, Command{Input: []byte("in"), MaxStdout: 10}, EndItself, "", "in", "said\n"},
		{"badly", `exit 3`, Command{MaxStdout: 10}, EndItself, "exit code 3", "", ""},
		{"by a signal", `kill -TERM $$`, Command{MaxStdout: 10}, EndItself, "signal: terminated", "", ""},
		{"stdout thrown away", `seq 100000; echo end >&2`, Command{}, EndItself, "", "", "end\n"},
		{"too much", `yes`, Command{MaxStdout: 4}, EndTooMuch, "", "y\ny\n", ""},
		{"the end of stderr", `echo 0123456789 >&2`, Command{MaxStderr: 4}, EndItself, "", "", "789\n"},
		{"timeout", `sleep 600 & sleep 600; true`, Command{Timeout: 50 * time.Millisecond}, EndTimeout, "", "", ""},
		{"somebody holds the pipe", `setsid sleep 5 & echo done; exit 0`, Command{MaxStdout: 10}, EndItself, "", "done\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.command.Argv = script(t, c.body)
			if c.command.Timeout == 0 {
				c.command.Timeout = time.Minute
			}
			if c.command.MaxStderr == 0 {
				c.command.MaxStderr = 100
			}
			r, err := Run(context.Background(), c.command)
			exit := ""
			if r.Exit != nil {
				exit = ExitText(r.Exit)
			}
			if err != nil || r.End != c.end || exit != c.exit || string(r.Stdout) != c.out || string(r.Stderr) != c.errs {
				t.Errorf("%v: end %d, exit %q, stdout %q, stderr %q", err, r.End, exit, r.Stdout, r.Stderr)
			}
		})
	}
	if _, err := Run(context.Background(), Command{Argv: []string{"/not/there"}}); err == nil || !os.IsNotExist(err) {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestNothingIsLeft: a program that is given up leaves no child behind.
func TestNothingIsLeft(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	ctx, cancel := context.WithCancel(context.Background())
	argv := append(script(t, `sleep 600 & echo $! >"$1.new"; mv "$1.new" "$1"; wait`), pids)
	done := make(chan Result, 1)
	go func() {
		r, err := Run(ctx, Command{Argv: argv, Timeout: time.Minute, MaxStderr: 100})
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	var child int
	for begun := time.Now(); child == 0; time.Sleep(5 * time.Millisecond) {
		b, _ := os.ReadFile(pids)
		child, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		if time.Since(begun) > 30*time.Second {
			t.Fatal("the program did not begin")
		}
	}
	cancel()
	if r := <-done; r.End != EndCancelled {
		t.Errorf("end %d", r.End)
	}
	for begun := time.Now(); running(child); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("its child %d is left", child)
		}
	}
}

// running counts no zombie: whoever adopts a child that was ended reaps it when it comes to it.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return !os.IsNotExist(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}
