//go:build unix

package provision

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pace-node/internal/queue"
)

// patience is how long a test waits for what real processes do soon, however busy the machine is.
const patience = 30 * time.Second

// script writes a helper and returns its command line.
func script(t testing.TB, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "helper")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return "'" + path + "'"
}

// gone fails unless the process, or with a negative number the whole group, ends soon.
func gone(t *testing.T, pid int) {
	t.Helper()
	for begun := time.Now(); alive(pid); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > 30*time.Second { // what is started here would end by itself after a minute
			t.Fatalf("process %d is left", pid)
		}
	}
}

// alive counts no zombies: a grandchild that was ended is reaped by init when init comes to it.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return true // no /proc: the signal's word is all there is
	}
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		head, rest, _ := strings.Cut(string(b), " (")
		f := strings.Fields(rest[strings.LastIndex(rest, ")")+1:]) // state, parent, group
		if len(f) > 2 && f[0] != "Z" && f[0] != "X" && (head == strconv.Itoa(pid) || f[2] == strconv.Itoa(-pid)) {
			return true
		}
	}
	return false
}

// pids reads the process numbers that a helper wrote.
func pids(t *testing.T, path string) []int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, w := range strings.Fields(string(b)) {
		n, err := strconv.Atoi(w)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

const good = `printf '{"configuration":{"role":"web"}}'`

// padded prints a good answer of so many bytes.
func padded(size int) string {
	return fmt.Sprintf(`%s; head -c %d /dev/zero | tr '\0' ' '`, good, size-len(`{"configuration":{"role":"web"}}`))
}

func TestHelpers(t *testing.T) {
	for _, c := range []struct {
		name, body string
		reason     Reason
		says       []string
	}{
		{"trivial", "cat >/dev/null; " + good, "", nil},
		{"does not read its input", good, "", nil},
		{"answers with its input", `id=$(sed 's/.*"identity":"\([^"]*\)".*/\1/'); printf '{"configuration":{"id":"%s"}}' "$id"`, "", nil},
		{"prints nothing", "echo why >&2", ReasonNoOutput, []string{"printed nothing", `its stderr: "why"`}},
		{"two documents", good + "; " + good, ReasonSeveral, []string{`more than one JSON document: it printed "{\"configuration\"`, "its stderr is empty"}},
		{"not JSON", "echo hello; echo 'a\033[2Jb' >&2", ReasonNotJSON, []string{`printed "hello"`}},
		{"noise before JSON", "echo connecting...; " + good, ReasonNotJSON, []string{`"connecting...\n{`}},
		{"good answer and exit 3", good + "; echo 'the directory is down' >&2; exit 3", ReasonExit, []string{"exit code 3", `its stderr: "the directory is down"`}},
		{"lines of stderr", `printf 'Traceback:\n\n  File "x.py", line 3\nKeyError\n' >&2; exit 1`, ReasonExit, []string{`its stderr: "Traceback: / File 'x.py', line 3 / KeyError"`}},
		{"a signal", "kill -TERM $$", ReasonExit, []string{"terminated"}},
		{"wrong type", `printf '{"configuration":{"port":80}}'`, ReasonWrongType, []string{`the key "configuration"`}},
		{"empty configuration", `printf '{"configuration":{}}'`, ReasonEmpty, nil},
		{"10 MB", `head -c 10000000 /dev/zero | tr '\0' x`, ReasonTooLarge, []string{"more than 1 MiB", `"xxxx`}},
		{"exactly as much as it may", padded(MaxStdout), "", nil},
		{"one byte more", padded(MaxStdout + 1), ReasonTooLarge, []string{"more than 1 MiB"}},
		{"10 MB of stderr", `head -c 10000000 /dev/zero | tr '\0' x >&2; echo end >&2; exit 1`, ReasonExit, []string{`xxxend"`}},
		{"a key on stderr", `printf -- '-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n' >&2; exit 1`, ReasonExit, []string{"withheld"}},
		{"defer", `printf '{"defer":true,"msg":"later"}'`, "", nil},
		{"shutdown", `printf '{"shutdown":true}'`, "", nil},
		{"a background child in its group", "sleep 60 & " + good, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Whoever waited for the child in the background, a minute, would see the deadline.
			a, _, f := RunHelper(context.Background(), script(t, c.body), patience, []byte(`{"identity":"m1"}`))
			if (f == nil) != (c.reason == "") || f != nil && f.Reason != c.reason {
				t.Fatalf("%+v, %+v, want %q", a, f, c.reason)
			}
			if f == nil {
				return
			}
			for _, s := range c.says {
				if !strings.Contains(f.Text, s) {
					t.Errorf("%q does not say %q", f.Text, s)
				}
			}
			if !printable(f.Text) || strings.Contains(f.Text, "SECRET") || len(f.Text) > 3*MaxStderr {
				t.Errorf("%q (%d bytes)", f.Text, len(f.Text))
			}
		})
	}
	a, out, f := RunHelper(context.Background(), script(t, `id=$(sed 's/.*"identity":"\([^"]*\)".*/\1/'); printf '{"configuration":{"id":"%s"}}' "$id"`),
		patience, []byte(`{"identity":"m1"}`))
	if f != nil || a.Configuration["id"] != "m1" || !json.Valid(out) {
		t.Fatalf("%+v %s %v", a, out, f)
	}
}

func TestHelperMissing(t *testing.T) {
	notExecutable := filepath.Join(t.TempDir(), "plain")
	write(t, notExecutable, "#!/bin/sh\n", 0o600)
	for command, reason := range map[string]Reason{"/does/not/exist": ReasonMissing, "no-such-program-anywhere": ReasonMissing, notExecutable: ReasonStart, `"open`: ReasonMissing} {
		_, _, f := RunHelper(context.Background(), command, time.Second, nil)
		if f == nil || f.Reason != reason || !strings.Contains(f.Text, "--provision-helper") {
			t.Errorf("%s: %+v", command, f)
		}
	}
}

func TestHelperIsEndedWithItsWholeGroup(t *testing.T) {
	for name, body := range map[string]string{
		"two commands":      "sleep 60; true",
		"a subshell":        "(sleep 60)",
		"a pipe":            "sleep 60 | cat",
		"a grandchild":      "sh -c 'echo $$ >>LIST; sh -c \"echo \\$\\$ >>LIST; sleep 60; true\"; true'",
		"one that ignores":  "trap '' TERM INT HUP; sleep 60; sleep 60",
		"one that answered": good + "; sleep 60",
	} {
		list := filepath.Join(t.TempDir(), "pids")
		command := script(t, "echo $$ >>"+list+"; echo busy >&2; "+strings.ReplaceAll(body, "LIST", list)) // before anything is forked beside it
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const timeout = 5 * time.Second // three shells have begun by then, on a busy machine too
			begun := time.Now()
			_, _, f := RunHelper(context.Background(), command, timeout, nil)
			took := time.Since(begun)
			if f == nil || f.Reason != ReasonTimeout || !strings.Contains(f.Text, "timed out") || !strings.Contains(f.Text, `"busy"`) {
				t.Fatalf("%+v", f)
			}
			if took < timeout || took > 50*time.Second { // what it started ends after sixty by itself
				t.Fatalf("took %s", took)
			}
			group := pids(t, list)
			if name == "a grandchild" && len(group) != 3 {
				t.Fatalf("processes %v", group)
			}
			for _, pid := range group {
				gone(t, pid)
			}
			gone(t, -group[0]) // the whole group
		})
	}
}

func TestHelperCancelled(t *testing.T) {
	list := filepath.Join(t.TempDir(), "pids")
	ctx, cancel := context.WithCancel(context.Background())
	var asked sync.WaitGroup
	asked.Go(func() {
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if b, err := os.ReadFile(list); err == nil && bytes.HasSuffix(b, []byte("\n")) {
				break
			}
		}
		cancel()
	})
	// Whoever did not end it at once would see its deadline, or its own end. That it takes 100 ms at most is seen where the time
	// is virtual, TestLeadershipLostInTheMiddle: how long a busy machine takes to end a process is not ours.
	_, _, f := RunHelper(ctx, script(t, "echo $$ >"+list+"; sleep 60; true"), patience, nil)
	asked.Wait()
	if f == nil || f.Reason != ReasonCancelled {
		t.Fatalf("%+v", f)
	}
	gone(t, -pids(t, list)[0])
	if _, _, f := RunHelper(ctx, "true", time.Second, nil); f == nil || f.Reason != ReasonCancelled {
		t.Fatalf("%+v", f)
	}
}

// TestSomebodyHoldsThePipe is the helper that leaves a process outside its group with its stdout.
func TestSomebodyHoldsThePipe(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("this machine has no setsid program")
	}
	list := filepath.Join(t.TempDir(), "pids")
	command := script(t, "setsid sh -c 'echo $$ >"+list+"; exec sleep 120' & while ! test -s "+list+"; do :; done; "+good)
	begun := time.Now()
	const timeout = 50 * time.Second
	a, _, f := RunHelper(context.Background(), command, timeout, bytes.Repeat([]byte("x"), 1<<20)) // nor does anybody read
	took := time.Since(begun)
	for _, pid := range pids(t, list) {
		defer func() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			gone(t, pid)
		}()
		if err := syscall.Kill(pid, 0); err != nil {
			t.Fatalf("the one that holds the pipe is not there: %v", err)
		}
	}
	if f != nil || a.Configuration["role"] != "web" {
		t.Fatalf("%+v %+v", a, f)
	}
	if took > timeout-5*time.Second { // the pipe's end is at a hundred and twenty
		t.Fatalf("the worker was free after %s", took)
	}
}

// TestTheLastWordsAreRead: what the helper wrote just before it ended is never lost, however busy the machine is.
func TestTheLastWordsAreRead(t *testing.T) {
	command := script(t, `printf '{"configuration":{"a":"'; head -c 60000 /dev/zero | tr '\0' x; printf '"}}'`)
	for range 50 {
		a, _, f := RunHelper(context.Background(), command, patience, nil)
		if f != nil || len(a.Configuration["a"]) != 60000 {
			t.Fatalf("%v", f)
		}
	}
}

func TestRealHelpersThroughTheWholeCycle(t *testing.T) {
	list := filepath.Join(t.TempDir(), "runs")
	f := newFleet(t, Config{Workers: 2, Helper: script(t, `in=$(cat)
ran() { echo "$1" >>`+list+`; }
case "$in" in
*'"identity":"defer"'*) ran defer; printf '{"defer":true,"msg":"no slot"}' ;;
*'"identity":"down"'*) ran down; printf '{"shutdown":true,"msg":"retired"}' ;;
*'"identity":"three"'*) ran three; printf '{"configuration":{"a":"b"}}'; echo broken >&2; exit 3 ;;
*'"identity":"type"'*) ran type; printf '{"configuration":{"a":1}}' ;;
*'"identity":"hang"'*) ran hang; sleep 60; true ;;
*) ran ok; printf '{"configuration":{"role":"web"}}' ;;
esac`), HelperTimeout: 5 * time.Second})
	for _, id := range []string{"defer", "down", "three", "type", "hang", "ok1", "ok2"} {
		f.add(id)
	}
	f.p.Lead(true)
	f.provisioned(2, patience)
	states := map[string]queue.State{"defer": queue.StateDeferred, "down": queue.StateHeld, "three": queue.StateBackingOff, "type": queue.StateParked,
		"hang": queue.StateBackingOff, "ok1": queue.StateConfirmed, "ok2": queue.StateConfirmed}
	for id, want := range states {
		for begun := time.Now(); f.state(id).State != want; time.Sleep(5 * time.Millisecond) {
			if time.Since(begun) > patience {
				t.Fatalf("%s is %q, want %q", id, f.state(id).State, want)
			}
		}
	}
	if e := f.state("three").LastError; !strings.Contains(e, "exit code 3") || !strings.Contains(e, "broken") {
		t.Fatal(e)
	}
	if m := f.get("three"); m.digest != "" || !f.get("down").shutdown {
		t.Fatal("configured though the helper failed, or not shut down")
	}
	// Those that back off or are deferred are tried again while this looks: each run that has ended is counted once.
	type counts struct{ exit, wrongType, timeout, failed, all float64 }
	var want, got counts
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		b, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		ran, all := map[string]float64{}, 0.0
		for _, id := range strings.Fields(string(b)) {
			ran[id]++
			all++
		}
		want = counts{ran["three"], 1, ran["hang"], ran["three"] + 1 + ran["hang"], all}
		got = counts{f.value("helper_errors_total", "exit"), f.value("helper_errors_total", "wrong_type"), f.value("helper_errors_total", "timeout"),
			f.value("errors_total", "helper"), f.value("helper_seconds", "")}
		if got == want && want.exit > 0 && want.timeout > 0 {
			break
		}
		if time.Since(begun) > 2*patience {
			t.Fatalf("counted %+v, want %+v", got, want)
		}
	}
	f.close()
}

// TestStopEndsTheHelper: nothing of a helper is left when the node is told to stop and does not wait.
func TestStopEndsTheHelper(t *testing.T) {
	list := filepath.Join(t.TempDir(), "pids")
	f := newFleet(t, Config{Workers: 1, Helper: script(t, "echo $$ >"+list+"; sleep 60; true"), HelperTimeout: patience})
	f.add("a")
	f.p.Lead(true)
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if b, err := os.ReadFile(list); err == nil && bytes.HasSuffix(b, []byte("\n")) {
			break
		}
		if time.Since(begun) > patience {
			t.Fatal("the helper did not begin")
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	f.p.Stop(ctx)
	if took := time.Since(begun); took > patience/2 { // the helper's deadline is at thirty seconds, its own end at sixty
		t.Fatalf("stopped after %s", took)
	}
	gone(t, -pids(t, list)[0])
	close(f.done)
	f.end.Wait()
}

// BenchmarkMachines is the rate of whole cycles with targets in memory.
func BenchmarkMachines(b *testing.B) {
	for _, c := range []struct{ name, helper string }{{"default", ""}, {"sh helper", "cat >/dev/null; " + good}} {
		b.Run(c.name, func(b *testing.B) {
			cfg := Config{Default: trivial}
			if c.helper != "" {
				cfg = Config{Helper: script(b, c.helper)}
			}
			for b.Loop() {
				t := &testing.T{}
				f := newFleet(t, cfg)
				for i := range 400 {
					f.add(fmt.Sprintf("m%03d", i))
				}
				begun := time.Now()
				f.p.Lead(true)
				f.provisioned(400, time.Minute)
				b.ReportMetric(400/time.Since(begun).Seconds(), "machines/s")
				f.close()
			}
		})
	}
}
