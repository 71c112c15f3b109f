//go:build unix

package macpkg

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mac is a scratch folder that stands for a Mac's volume: the payload is laid out in it, and recorders stand where macOS has
// launchctl, socketfilterfw, pkgutil and sleep. What runs is the package's own script, with the lines of its head changed
// that say where the programs are, what the volume is and who root is.
type mac struct {
	t     *testing.T
	shell []string
	root  string // the volume, without a slash behind it
	stubs string // the recorders, and their notes
}

// shells are what may stand for macOS's /bin/sh, which is bash in its POSIX mode.
func shells(t *testing.T, run func(t *testing.T, shell []string)) {
	for _, shell := range [][]string{{"dash"}, {"bash", "--posix"}} {
		t.Run(shell[0], func(t *testing.T) {
			path := tool(t, shell[0], shell[0], "the scripts under it")
			run(t, append([]string{path}, shell[1:]...))
		})
	}
}

const launchctlStub = `#!/bin/sh
S=${0%/*}
echo "launchctl $*" >>"$S/calls"
label=${2#system/}
case $1 in
print)
	[ ! -e "$S/no-launchd" ] || exit 113
	[ "$2" != system ] || exit 0
	if [ -e "$S/going.$label" ]; then
		left=$(cat "$S/going.$label")
		if [ "$left" -gt 0 ]; then
			echo $((left - 1)) >"$S/going.$label"
			exit 0
		fi
		rm -f "$S/going.$label" "$S/loaded.$label"
	fi
	[ -e "$S/loaded.$label" ] || exit 113
	cat "$S/loaded.$label"
	;;
bootout)
	[ -e "$S/loaded.$label" ] || exit 3
	if [ -e "$S/stuck.$label" ]; then
		echo "Boot-out failed: 36: Operation now in progress" >&2
		exit 36
	fi
	if [ -e "$S/slow.$label" ]; then
		cp "$S/slow.$label" "$S/going.$label"
		echo "Boot-out failed: 36: Operation now in progress" >&2
		exit 36
	fi
	rm "$S/loaded.$label"
	;;
bootstrap)
	label=${3##*/}
	label=${label%.plist}
	[ -r "$3" ] || exit 2
	[ ! -e "$S/loaded.$label" ] || exit 37
	if [ -e "$S/fails.$label" ]; then
		left=$(cat "$S/fails.$label")
		if [ "$left" -gt 0 ]; then
			echo $((left - 1)) >"$S/fails.$label"
			[ ! -e "$S/late.$label" ] || echo "state = running" >"$S/loaded.$label"
			echo "Bootstrap failed: 5: Input/output error" >&2
			exit 5
		fi
	fi
	echo "	state = running" >"$S/loaded.$label"
	[ ! -e "$S/crashes.$label" ] || echo "	state = spawn scheduled" >"$S/loaded.$label"
	;;
print-disabled) [ ! -e "$S/disabled" ] || cat "$S/disabled" ;;
esac
`

const recorderStub = `#!/bin/sh
S=STUBS
echo "${0##*/} $*" >>"$S/calls"
[ ! -e "$S/${0##*/}.fails" ]
`

// newMac lays the payload onto an empty volume.
func newMac(t *testing.T, shell []string) *mac {
	t.Helper()
	m := &mac{t: t, shell: shell, root: filepath.Join(t.TempDir(), "Mac HD"), stubs: t.TempDir()}
	m.note("launchctl", launchctlStub, 0o755)
	recorder := strings.ReplaceAll(recorderStub, "STUBS", m.stubs)
	m.note("sleep", recorder, 0o755)
	m.note("pkgutil", recorder, 0o755)
	m.lay(m.root)
	m.write("usr/libexec/ApplicationFirewall/socketfilterfw", recorder, 0o755)
	return m
}

// lay puts the payload where the installer would: onto a volume that has folders of its own.
func (m *mac) lay(root string) {
	m.t.Helper()
	list, err := Payload(plan(m.t))
	if err != nil {
		m.t.Fatal(err)
	}
	for _, dir := range []string{"", "Library/Application Support", "private/var/log", "usr/local"} {
		m.check(os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	if _, err := os.Lstat(filepath.Join(root, "var")); err != nil {
		m.check(os.Symlink("private/var", filepath.Join(root, "var")))
	}
	for _, e := range list {
		name := filepath.Join(root, e.Path)
		mode := fs.FileMode(e.Mode & 0o777)
		switch {
		case e.dir():
			m.check(os.MkdirAll(name, mode))
		case e.link():
			if err := os.Symlink(e.Link, name); !errors.Is(err, fs.ErrExist) {
				m.check(err)
			}
		default:
			body := e.Data
			if bytes.HasPrefix(body, []byte("#!")) {
				body = []byte(m.adapted(string(body)))
			}
			m.check(os.WriteFile(name, body, mode))
		}
	}
}

// head are the lines of a script that are changed, each of which stands in it once at most.
var head = regexp.MustCompile(`(?m)^(PATH|boot|owner|group)=\S*`)

func (m *mac) adapted(script string) string {
	seen := map[string]bool{}
	out := head.ReplaceAllStringFunc(script, func(line string) string {
		name, _, _ := strings.Cut(line, "=")
		if seen[name] {
			m.t.Fatalf("%s is set twice", name)
		}
		seen[name] = true
		value := map[string]string{"PATH": m.stubs + ":/usr/bin:/bin:/usr/sbin:/sbin", "boot": m.root + "/", "owner": fmt.Sprint(os.Getuid()), "group": fmt.Sprint(os.Getgid())}
		return fmt.Sprintf("%s='%s'", name, value[name])
	})
	if !seen["PATH"] || !seen["boot"] {
		m.t.Fatal("a script of the package's sets PATH and boot")
	}
	return out
}

func (m *mac) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// note leaves a file for the recorders.
func (m *mac) note(name, text string, mode fs.FileMode) {
	m.t.Helper()
	m.check(os.WriteFile(filepath.Join(m.stubs, name), []byte(text), mode))
}

// write puts a file onto the volume.
func (m *mac) write(name, text string, mode fs.FileMode) {
	m.t.Helper()
	file := filepath.Join(m.root, name)
	m.check(os.MkdirAll(filepath.Dir(file), 0o755))
	m.check(os.WriteFile(file, []byte(text), mode))
	m.check(os.Chmod(file, mode))
}

func (m *mac) read(name string) string {
	m.t.Helper()
	b, err := os.ReadFile(filepath.Join(m.root, name))
	m.check(err)
	return string(b)
}

func (m *mac) perm(name string) fs.FileMode {
	m.t.Helper()
	info, err := os.Lstat(filepath.Join(m.root, name))
	m.check(err)
	return info.Mode()
}

// run runs one of the package's scripts and tells its status and what it printed.
func (m *mac) run(script string, args ...string) (status int, printed string) {
	m.t.Helper()
	text, err := fs.ReadFile(data, script)
	m.check(err)
	file := filepath.Join(m.t.TempDir(), filepath.Base(script))
	m.check(os.WriteFile(file, []byte(m.adapted(string(text))), 0o755))
	cmd := exec.Command(m.shell[0], append(slices.Concat(m.shell[1:], []string{file}), args...)...)
	cmd.Env = []string{"PATH=/nowhere"}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	if err != nil && !errors.As(err, &exit) {
		m.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// postinstall runs it as the installer does, and returns what it wrote to its log. It must end with 0 and print nothing.
func (m *mac) postinstall() string {
	m.t.Helper()
	status, printed := m.run("scripts/postinstall", "/tmp/pace-node.pkg", "/", m.root+"/", "/")
	if status != 0 || printed != "" {
		m.t.Errorf("status %d, printed %q", status, printed)
	}
	return m.read("private/var/log/pace-node-install.log")
}

// calls are what the recorders wrote since the last time, without questions and without the volume's path.
func (m *mac) calls() []string {
	m.t.Helper()
	b, err := os.ReadFile(filepath.Join(m.stubs, "calls"))
	if !errors.Is(err, fs.ErrNotExist) {
		m.check(err)
	}
	os.Remove(filepath.Join(m.stubs, "calls"))
	var out []string
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "launchctl print") {
			out = append(out, strings.TrimSpace(strings.ReplaceAll(line, m.root, "")))
		}
	}
	return out
}

func (m *mac) called(want ...string) {
	m.t.Helper()
	if got := m.calls(); !slices.Equal(got, want) {
		m.t.Errorf("called\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const (
	plistOfNode    = "/Library/LaunchDaemons/io.pace.node.plist"
	plistOfRotate  = "/Library/LaunchDaemons/io.pace.node.rotate.plist"
	firewallAdd    = "socketfilterfw --add /opt/pace-node/bin/pace-node"
	firewallOpen   = "socketfilterfw --unblockapp /opt/pace-node/bin/pace-node"
	bootOutNode    = "launchctl bootout system/io.pace.node"
	bootOutRotate  = "launchctl bootout system/io.pace.node.rotate"
	bootNode       = "launchctl bootstrap system " + plistOfNode
	bootRotate     = "launchctl bootstrap system " + plistOfRotate
	stateFolder    = "Library/Application Support/pace-node"
	settingsFile   = stateFolder + "/pace-node.env"
	oneSecond      = "sleep 1"
	firstIsRunning = "io.pace.node runs"
)

func says(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in\n%s", w, text)
		}
	}
}

func seconds(n int) []string { return slices.Repeat([]string{oneSecond}, n) }
