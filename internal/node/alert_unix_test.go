//go:build unix

package node

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/schema"
)

// calling gives a machine a program that appends what it is called with to a file.
func calling(program string) tweak {
	return func(c *Config) { c.Settings.AlertExec = "'" + program + "' 'an argument'" }
}

// alertProgram writes a program, and returns it and a reader of its calls.
func alertProgram(t *testing.T, body string) (program string, calls func() []string) {
	t.Helper()
	dir := t.TempDir()
	program, out := filepath.Join(dir, "call me"), filepath.Join(dir, "calls")
	text := "#!/bin/sh\nout='" + out + "'\n" + body + "\n"
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, func() []string {
		b, err := os.ReadFile(out)
		if err != nil {
			return nil
		}
		return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	}
}

// TestAlertExec: a machine waits, and a person is called by the program, with the document and the environment, once.
func TestAlertExec(t *testing.T) {
	program, calls := alertProgram(t, `printf '%s %s %s ' "$1" "$PACE_ALERT_CONDITION" "${PACE_ALERT_EXEC-none}" >>"$out"; cat >>"$out"`)
	t.Setenv("PACE_ALERT_EXEC", program) // a setting of the node, which is no business of the program
	simulate(t, 6, func(t *testing.T, s *sim) {
		a := s.boot(0, calling(program))
		time.Sleep(time.Minute) // the younger one yields
		s.boot(1, seededBy(endpointOf(0)))
		s.want(time.Minute, "m001 waits", func() bool { return s.waits(a, s.nodes[1]) })
		time.Sleep(time.Hour)
		if got := s.metric(a, `pace_alert_runs_total{result="ok"}`); got != 1 {
			t.Errorf("%v runs", got)
		}
		lines := calls()
		if len(lines) != 1 || !strings.HasPrefix(lines[0], "an argument enrollment-requests-waiting none {") {
			t.Fatalf("%q", lines)
		}
		page, err := os.ReadFile("../../docs/schema/alert.json")
		if err != nil {
			t.Fatal(err)
		}
		_, doc, _ := strings.Cut(lines[0], " none ")
		if err := schema.Check(page, []byte(doc), true); err != nil {
			t.Error(err)
		}
		if !strings.Contains(doc, `"name":"m000"`) || !strings.Contains(doc, a.id) || !strings.Contains(doc, "1 machine waits") {
			t.Error(doc)
		}
	})
}

// TestAlertExecFails: a program that ends badly is tried again, five times in all, and its condition says so until it ends
// well.
func TestAlertExecFails(t *testing.T) {
	program, calls := alertProgram(t, `cat >/dev/null; echo called >>"$out"; echo 'no such mailbox' >&2; test -e "$out.mended"`)
	simulate(t, 7, func(t *testing.T, s *sim) {
		a := s.boot(0, calling(program))
		time.Sleep(time.Minute) // the younger one yields
		s.boot(1, seededBy(endpointOf(0)))
		s.want(2*time.Minute, "the condition", func() bool {
			detail, on := condition(a, alertCondition)
			return on && strings.Contains(detail, "exit code 1: no such mailbox")
		})
		time.Sleep(10 * time.Minute)
		if got, counted := len(calls()), s.metric(a, `pace_alert_runs_total{result="failed"}`); got != 5 || counted != 5 {
			t.Fatalf("%d runs, %v counted", got, counted)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(program), "calls.mended"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.boot(2, seededBy(endpointOf(0))) // two wait: that is told anew
		time.Sleep(20 * time.Minute)
		if detail, on := condition(a, alertCondition); on {
			t.Errorf("the condition stands: %s", detail)
		}
	})
}

// TestAlertExecMissing: what cannot be run is said before anybody has to be called.
func TestAlertExecMissing(t *testing.T) {
	program, _ := alertProgram(t, `cat >/dev/null`)
	if err := os.Chmod(program, 0o600); err != nil {
		t.Fatal(err)
	}
	simulate(t, 8, func(t *testing.T, s *sim) {
		a := s.boot(0, calling(program))
		s.want(time.Minute, "the condition", func() bool {
			detail, on := condition(a, alertCondition)
			return on && strings.Contains(detail, "permission denied")
		})
		if err := os.Chmod(program, 0o700); err != nil {
			t.Fatal(err)
		}
		s.want(time.Minute, "it goes", func() bool { _, on := condition(a, alertCondition); return !on })
	})
}

// TestAlertExecHangs: a program that does not end is ended with what it started, at its time or with the node.
func TestAlertExecHangs(t *testing.T) {
	program, calls := alertProgram(t, `sleep 600 & echo 'still dialling' >&2; echo $! >>"$out"; sleep 600`)
	gone := func() {
		t.Helper()
		lines := calls()
		pid, err := strconv.Atoi(lines[len(lines)-1])
		if err != nil {
			t.Fatal(err)
		}
		for alive(pid) {
			time.Sleep(time.Millisecond)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var result, said string
	limit := time.Second
	for ; len(calls()) == 0; limit *= 2 { // a busy machine may need more than that to start it
		result, said = runAlert(ctx, []string{program}, control.AlertDocument{}, limit)
	}
	if result != control.AlertTimeout || !strings.HasSuffix(said, "was ended after "+(limit/2).String()+": still dialling") {
		t.Errorf("%s: %s", result, said)
	}
	gone()
	had := len(calls()) // before the program begins
	go func() {
		for len(calls()) == had && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		stop()
	}()
	if result, said = runAlert(ctx, []string{program}, control.AlertDocument{}, time.Hour); result != "" || said != "" {
		t.Errorf("a node that stops: %s: %s", result, said)
	}
	gone()
}

// alive counts no zombies, which wait for init.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
