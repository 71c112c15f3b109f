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
	"syscall"
	"testing"
	"time"

	"pace-node/internal/queue"
)

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
		if time.Since(begun) > 2*time.Second {
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
			begun := time.Now()
			a, _, f := RunHelper(context.Background(), script(t, c.body), 10*time.Second, []byte(`{"identity":"m1"}`))
			if took := time.Since(begun); took > 5*time.Second {
				t.Fatalf("took %s", took)
			}
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
		10*time.Second, []byte(`{"identity":"m1"}`))
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
	list := filepath.Join(t.TempDir(), "pids")
	for name, body := range map[string]string{
		"two commands":      "sleep 20; true",
		"a subshell":        "(sleep 20)",
		"a pipe":            "sleep 20 | cat",
		"a grandchild":      "sh -c 'echo $$ >>" + list + "; sh -c \"echo \\$\\$ >>" + list + "; sleep 20; true\"; true'",
		"one that ignores":  "trap '' TERM INT HUP; sleep 20; sleep 20",
		"one that answered": good + "; sleep 20",
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(list)
			const timeout = 700 * time.Millisecond
			begun := time.Now()
			_, _, f := RunHelper(context.Background(), script(t, "echo $$ >>"+list+"; echo busy >&2; "+body), timeout, nil)
			took := time.Since(begun)
			if f == nil || f.Reason != ReasonTimeout || !strings.Contains(f.Text, "timed out") || !strings.Contains(f.Text, `"busy"`) {
				t.Fatalf("%+v", f)
			}
			if took < timeout || took > 15*time.Second { // what it started ends after twenty by itself
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
	begun := make(chan time.Time, 1)
	go func() {
		for {
			if b, err := os.ReadFile(list); err == nil && bytes.HasSuffix(b, []byte("\n")) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		begun <- time.Now()
		cancel()
	}()
	_, _, f := RunHelper(ctx, script(t, "echo $$ >"+list+"; sleep 30; true"), 20*time.Second, nil)
	if took := time.Since(<-begun); f == nil || f.Reason != ReasonCancelled || took > 100*time.Millisecond {
		t.Fatalf("%+v after %s", f, took)
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
	command := script(t, "setsid sh -c 'echo $$ >"+list+"; exec sleep 60' & while ! test -s "+list+"; do :; done; "+good)
	begun := time.Now()
	a, _, f := RunHelper(context.Background(), command, 10*time.Second, bytes.Repeat([]byte("x"), 1<<20)) // nor does anybody read
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
	if took > 9*time.Second { // the deadline is at ten, the pipe's end at sixty
		t.Fatalf("the worker was free after %s", took)
	}
}

// TestTheLastWordsAreRead: what the helper wrote just before it ended is never lost, however busy the machine is.
func TestTheLastWordsAreRead(t *testing.T) {
	command := script(t, `printf '{"configuration":{"a":"'; head -c 60000 /dev/zero | tr '\0' x; printf '"}}'`)
	for range 50 {
		a, _, f := RunHelper(context.Background(), command, 10*time.Second, nil)
		if f != nil || len(a.Configuration["a"]) != 60000 {
			t.Fatalf("%v", f)
		}
	}
}

func TestRealHelpersThroughTheWholeCycle(t *testing.T) {
	f := newFleet(t, Config{Workers: 2, Helper: script(t, `in=$(cat)
case "$in" in
*'"identity":"defer"'*) printf '{"defer":true,"msg":"no slot"}' ;;
*'"identity":"down"'*) printf '{"shutdown":true,"msg":"retired"}' ;;
*'"identity":"three"'*) printf '{"configuration":{"a":"b"}}'; echo broken >&2; exit 3 ;;
*'"identity":"type"'*) printf '{"configuration":{"a":1}}' ;;
*'"identity":"hang"'*) sleep 30; true ;;
*) printf '{"configuration":{"role":"web"}}' ;;
esac`), HelperTimeout: 500 * time.Millisecond})
	for _, id := range []string{"defer", "down", "three", "type", "hang", "ok1", "ok2"} {
		f.add(id)
	}
	f.p.Lead(true)
	f.provisioned(2, 20*time.Second)
	states := map[string]queue.State{"defer": queue.StateDeferred, "down": queue.StateHeld, "three": queue.StateBackingOff, "type": queue.StateParked,
		"hang": queue.StateBackingOff, "ok1": queue.StateConfirmed, "ok2": queue.StateConfirmed}
	for id, want := range states {
		for begun := time.Now(); f.state(id).State != want; time.Sleep(5 * time.Millisecond) {
			if time.Since(begun) > 10*time.Second {
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
	f.want("helper_errors_total", "exit", 1)
	f.want("helper_errors_total", "wrong_type", 1)
	f.want("helper_errors_total", "timeout", 1)
	f.want("errors_total", "helper", 3)
	f.want("helper_seconds", "", 7)
	f.close()
}

// TestStopEndsTheHelper: nothing of a helper is left when the node is told to stop and does not wait.
func TestStopEndsTheHelper(t *testing.T) {
	list := filepath.Join(t.TempDir(), "pids")
	f := newFleet(t, Config{Workers: 1, Helper: script(t, "echo $$ >"+list+"; sleep 30; true"), HelperTimeout: 20 * time.Second})
	f.add("a")
	f.p.Lead(true)
	for {
		if b, err := os.ReadFile(list); err == nil && len(b) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	f.p.Stop(ctx)
	if took := time.Since(begun); took > time.Second {
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
