//go:build linux && packages

package packages

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
	"testing"
	"time"
)

const (
	wineFirst   = 10 * time.Minute // for the first prefix to be made: 16 s on an idle machine
	wineCommand = 6 * time.Minute  // for one command; the longest is an install, of some seconds
	wineStart   = 2 * time.Minute  // for the namespaces
	wineLoader  = "/usr/lib/wine/wine64"
	wineServer  = "/usr/lib/wine/wineserver64"
	winePrefix  = "/mnt/prefix"      // in the mount namespace of the system
	wineHeld    = "build/testhosts/" // the prefix that all of them begin with is kept here, below the repository
)

// wine is a Windows system in namespaces of its own: processes, host name, mounts, network. Its prefix is an overlay in
// memory over one that was made once; all of it goes when its first process does.
type wine struct {
	t      *testing.T
	keeper *exec.Cmd // unshare: its only child is the first process in there
	first  int       // that process's id, as it is seen here
}

// wineKeeper makes the mounts of one system, says so, and stays for as long as the system is wanted. $1: the prefix to
// begin with, $2: "over" to leave that one as it is, $3: the host name.
const wineKeeper = `set -e
hostname "$3"
ip link set lo up
mount -t tmpfs -o size=3g,mode=755 pacewine /mnt
mkdir -p /mnt/up /mnt/work /mnt/prefix /mnt/home /mnt/server "/tmp/.wine-$(id -u)"
if [ "$2" = over ]; then
	mount -t overlay -o "lowerdir=$1,upperdir=/mnt/up,workdir=/mnt/work" pacewine /mnt/prefix
else
	mount --bind "$1" /mnt/prefix
fi
chmod 700 /mnt/server
mount --bind /mnt/server "/tmp/.wine-$(id -u)"
mount -t proc proc /proc
echo up
while :; do sleep 3600; done
`

// wineUmask: Wine knows of a file's protection only what POSIX modes can say, and the program refuses a state directory that
// others can read.
const wineUmask = `umask 077; exec "$@"`

// bootWine starts a Windows system with the host name, in the network namespace of that name, or in one of its own with
// nothing but loopback where network is "". It is gone when the test ends.
func bootWine(t *testing.T, hostname, network string) *wine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a Windows system in namespaces needs root")
	}
	w := keepWine(t, firstPrefix(t), "over", hostname, network)
	w.keepServices()
	return w
}

func keepWine(t *testing.T, prefix, over, hostname, network string) *wine {
	t.Helper()
	args := []string{"unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child"}
	if network == "" {
		args = append(args, "--net")
	} else {
		args = append([]string{"ip", "netns", "exec", network}, args...)
	}
	args = append(args, "sh", "-c", wineKeeper, "keeper", prefix, over, hostname)
	w := &wine{t: t, keeper: exec.Command(args[0], args[1:]...)}
	var errs bytes.Buffer
	w.keeper.Stderr = &errs
	out, err := w.keeper.StdoutPipe()
	if err == nil {
		err = w.keeper.Start()
	}
	if err != nil {
		t.Fatalf("a system for Wine: %v", err)
	}
	t.Cleanup(w.end)
	up := make(chan bool, 1)
	go func() {
		line := make([]byte, 3)
		n, _ := out.Read(line)
		up <- string(line[:n]) == "up\n"
	}()
	select {
	case ok := <-up:
		if !ok {
			w.end()
			t.Fatalf("a system for Wine did not come up:\n%s", errs.String())
		}
	case <-time.After(wineStart):
		w.end()
		t.Fatalf("a system for Wine was not up after %s", wineStart)
	}
	child, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", w.keeper.Process.Pid))
	if err == nil {
		w.first, err = strconv.Atoi(strings.TrimSpace(string(child)))
	}
	if err != nil {
		t.Fatalf("the first process of a system for Wine: %v (%q)", err, child)
	}
	return w
}

// end ends every process of the system: with the first one goes all of its PID namespace.
func (w *wine) end() {
	if w.keeper.ProcessState != nil {
		return
	}
	if w.first != 0 {
		if p, err := os.FindProcess(w.first); err == nil {
			p.Kill()
		}
	}
	w.keeper.Process.Kill() // --kill-child: its child does not outlive it
	w.keeper.Wait()
	os.Remove(fmt.Sprintf("/tmp/.wine-%d", os.Getuid())) // where nothing was mounted over; others' keep it full
}

// keepServices starts a program that does nothing: without one, Wine ends its services.
func (w *wine) keepServices() {
	w.t.Helper()
	cmd := w.command(context.Background(), wineLoader, "ping", "-n", "1000000", "127.0.0.1")
	if err := cmd.Start(); err != nil {
		w.t.Fatalf("wine ping: %v", err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); cmd.Wait() }()
	w.t.Cleanup(func() { w.end(); <-ended })
	w.until(wineCommand, "sc", "query", "PlugPlay")
}

// command is a program of this side inside the system.
func (w *wine) command(ctx context.Context, args ...string) *exec.Cmd {
	enter := []string{"-t", strconv.Itoa(w.first), "--uts", "--mount", "--pid", "--net", "--", "sh", "-c", wineUmask, "sh"}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/mnt/home", "WINEPREFIX=" + winePrefix, "WINEARCH=win64",
		"WINELOADER=" + wineLoader, "WINESERVER=" + wineServer, "WINEDEBUG=-all",
		"WINEDLLOVERRIDES=winemenubuilder.exe=d;mscoree=d;mshtml=d;netsh.exe=n,b"} // no menus, no offers to download Mono and Gecko, and netsh is ours where there is one
	cmd.WaitDelay = time.Second // what a command leaves running may hold the pipes
	return cmd
}

// try runs a Windows program and returns what it printed and its status, of which Wine keeps the low byte. A program that
// does not end in wineCommand fails the test.
func (w *wine) try(args ...string) (string, int) {
	w.t.Helper()
	return w.tryFor(wineCommand, args...)
}

func (w *wine) tryFor(limit time.Duration, args ...string) (string, int) {
	w.t.Helper()
	return w.here(limit, append([]string{wineLoader}, args...)...)
}

// here runs a program of this side inside the system.
func (w *wine) here(limit time.Duration, args ...string) (string, int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := w.command(ctx, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	text := strings.TrimSpace(strings.ReplaceAll(out.String(), "\r\n", "\n"))
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		w.t.Fatalf("%q did not end in %s:\n%s", args, limit, text)
	case errors.As(err, &exit):
		return text, exit.ExitCode()
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		w.t.Fatalf("%q: %v\n%s", args, err, text)
	}
	return text, 0
}

// run runs a Windows program and fails the test where its status is not 0.
func (w *wine) run(args ...string) string {
	w.t.Helper()
	text, code := w.try(args...)
	if code != 0 {
		w.t.Fatalf("%q: status %d\n%s", args, code, text)
	}
	return text
}

// until runs a Windows program again and again until its status is 0.
func (w *wine) until(limit time.Duration, args ...string) string {
	w.t.Helper()
	return w.untilSays(limit, "", args...)
}

// untilSays runs a Windows program again and again until its status is 0 and it prints a text.
func (w *wine) untilSays(limit time.Duration, says string, args ...string) string {
	w.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		text, code := w.try(args...)
		if code == 0 && strings.Contains(text, says) {
			return text
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%q, not in %s %q: status %d\n%s", args, limit, says, code, text)
		}
		time.Sleep(200 * time.Millisecond) // a poll of another system: there is nothing to wait on
	}
}

// path is where this side finds a file of the system, for a path such as C:\ProgramData\x. Wine tells no case apart, this
// side does.
func (w *wine) path(windows string) string {
	return fmt.Sprintf("/proc/%d/root%s/drive_c/%s", w.first, winePrefix, strings.ReplaceAll(strings.TrimPrefix(windows, `C:\`), `\`, "/"))
}

// put copies a file of this side into the system, folders included.
func (w *wine) put(from, windows string) {
	w.t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(w.path(windows)), 0o755)
	}
	if err == nil {
		err = os.WriteFile(w.path(windows), data, 0o755)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// reboot ends every Windows process as a shutdown does not: at once. Services that start by themselves are started again.
func (w *wine) reboot() {
	w.t.Helper()
	w.here(wineCommand, wineServer, "-k")
	w.here(wineCommand, wineServer, "-w")
	w.keepServices()
}

var wineOnce struct {
	sync.Mutex
	prefix string
	built  map[string]string // programs, by version
}

// fromRoot is a path from the repository's root.
func fromRoot(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// firstPrefix is the prefix that every system begins with, made where there is none of this Wine.
func firstPrefix(t *testing.T) string {
	t.Helper()
	wineOnce.Lock()
	defer wineOnce.Unlock()
	if wineOnce.prefix != "" {
		return wineOnce.prefix
	}
	version, err := exec.Command(wineLoader, "--version").Output()
	if err != nil {
		t.Fatalf("wine: %v: install what test/packages/prepare.sh lists", err)
	}
	source := fromRoot(t, "test/packages/wine/bcryptprimitives.c")
	code, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	prefix := fromRoot(t, wineHeld+"wineprefix")
	want := string(version) + string(code)
	if held, err := os.ReadFile(prefix + ".of"); err != nil || string(held) != want {
		for _, old := range []string{prefix, prefix + ".of", prefix + ".new"} {
			if err := os.RemoveAll(old); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(prefix+".new", 0o700); err != nil {
			t.Fatal(err)
		}
		w := keepWine(t, prefix+".new", "bind", "template", "")
		if text, code := w.tryFor(wineFirst, "wineboot", "-i"); code != 0 {
			t.Fatalf("wineboot -i: status %d\n%s", code, text)
		}
		w.here(wineCommand, wineServer, "-w")
		dll := prefix + ".new/drive_c/windows/system32/bcryptprimitives.dll"
		if out, err := exec.Command("x86_64-w64-mingw32-gcc", "-O2", "-s", "-shared", "-o", dll, source, "-ladvapi32").CombinedOutput(); err != nil {
			t.Fatalf("a part that Wine lacks: %v\n%s", err, out)
		}
		w.end()
		if err := os.Rename(prefix+".new", prefix); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(prefix+".of", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	wineOnce.prefix = prefix
	return prefix
}

// wineProgram builds pace-node.exe of a version so that it runs under Wine: one error is ignored that Wine answers an
// ioctl of every UDP socket with (SIO_UDP_NETRESET, 10045). Nothing else differs from what is shipped.
func wineProgram(t *testing.T, version string) string {
	t.Helper()
	wineOnce.Lock()
	defer wineOnce.Unlock()
	if path := wineOnce.built[version]; path != "" {
		return path
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("go env GOROOT: %v", err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "net", "fd_windows.go")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	found := 0
	for i, line := range lines {
		if strings.Contains(line, "windows.SIO_UDP_NETRESET") {
			lines[i] += "\t\tif err == syscall.Errno(10045) {\n\t\t\terr = nil\n\t\t}\n"
			found++
		}
	}
	if found != 1 {
		t.Fatalf("%s names SIO_UDP_NETRESET %d times: the build for Wine is to be looked at", source, found)
	}
	dir := fromRoot(t, wineHeld+"wine")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	changed, overlay, out := filepath.Join(dir, "fd_windows.go.txt"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "pace-node-"+version+".exe")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {source: changed}})
	if err == nil {
		err = os.WriteFile(changed, []byte(strings.Join(lines, "")), 0o644)
	}
	if err == nil {
		err = os.WriteFile(overlay, replace, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-overlay", overlay, "-trimpath", "-ldflags", "-s -w -X pace-node/internal/version.Version="+version, "-o", out, "./cmd/pace-node")
	build.Dir = fromRoot(t, ".")
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the program for Wine: %v\n%s", err, said)
	}
	if wineOnce.built == nil {
		wineOnce.built = map[string]string{}
	}
	wineOnce.built[version] = out
	return out
}
