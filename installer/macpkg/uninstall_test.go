//go:build unix

package macpkg

import (
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// left lists a volume's files and links, and folders that are empty or not macOS's.
func (m *mac) left() (out []string) {
	m.t.Helper()
	m.check(filepath.WalkDir(m.root, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(m.root, name)
		if err == nil && (!d.IsDir() || strings.Contains(rel, "pace-node")) && rel != "var" && !strings.HasPrefix(rel, "usr/libexec") {
			out = append(out, rel)
		}
		return err
	}))
	return out
}

func (m *mac) installed() {
	m.t.Helper()
	m.postinstall()
	m.write(stateFolder+"/node-key", "the key", 0o600)
	m.write("private/var/log/pace-node.log", "log\n", 0o600)
	m.calls()
}

// whatStays is all that is left after an uninstall.
var whatStays = []string{
	stateFolder, stateFolder + "/node-key", settingsFile, "private/var/log/pace-node-install.log", "private/var/log/pace-node.log",
}

func TestUninstall(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		m := newMac(t, shell)
		m.installed()
		m.note("slow.io.pace.node", "2", 0o644)
		status, printed := m.run("pace-node-uninstall")
		if status != 0 {
			t.Errorf("status %d", status)
		}
		says(t, printed, "are removed", "/Library/Application Support/pace-node", "/var/log/pace-node", "still lists this machine", "pacectl member forget")
		if strings.Contains(printed, " stays") {
			t.Errorf("printed %s", printed)
		}
		m.called(bootOutRotate, bootOutNode, oneSecond, oneSecond, "socketfilterfw --remove /opt/pace-node/bin/pace-node", "pkgutil --forget io.pace.node")
		if got := m.left(); !slices.Equal(got, whatStays) {
			t.Errorf("left: %q", got)
		}
		if m.read(stateFolder+"/node-key") != "the key" {
			t.Error("the key is not what it was")
		}
		// A copy of the script, run once more, finds nothing and says the same.
		if again, _ := m.run("pace-node-uninstall"); again != 0 || !slices.Equal(m.left(), whatStays) {
			t.Errorf("again: %d, left %q", again, m.left())
		}
	})
}

// TestUninstallsItself runs the installed script, which removes its own file while a shell reads it.
func TestUninstallsItself(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		m := newMac(t, shell)
		m.installed()
		args := slices.Concat(shell[1:], []string{filepath.Join(m.root, "opt/pace-node/bin/pace-node-uninstall")})
		says(t, output(t, exec.Command(shell[0], args...)), "are removed", "to remove what was kept")
		if got := m.left(); !slices.Equal(got, whatStays) {
			t.Errorf("left: %q", got)
		}
	})
}

func TestUninstallKeepsOthers(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		m := newMac(t, shell)
		m.write("usr/local/bin/pacectl", "theirs", 0o755)
		m.installed()
		m.write("opt/pace-node/bin/theirs", "theirs", 0o755)
		m.check(os.Remove(filepath.Join(m.root, "usr/local/bin/pace-node")))
		m.check(os.Symlink("/elsewhere/pace-node", filepath.Join(m.root, "usr/local/bin/pace-node")))
		status, printed := m.run("pace-node-uninstall")
		says(t, printed, "/opt/pace-node stays")
		want := slices.Sorted(slices.Values(slices.Concat(whatStays, []string{"opt/pace-node", "opt/pace-node/bin", "opt/pace-node/bin/theirs", "usr/local/bin/pace-node", "usr/local/bin/pacectl"})))
		if got := slices.Sorted(slices.Values(m.left())); status != 0 || !slices.Equal(got, want) {
			t.Errorf("%d, left %q", status, got)
		}
	})
}

func TestUninstallRefuses(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		m := newMac(t, shell)
		m.installed()
		before := m.left()
		same := func(what string) {
			t.Helper()
			if !slices.Equal(m.left(), before) {
				t.Errorf("%s: something was removed", what)
			}
		}
		for _, args := range [][]string{{"--purge"}, {"--help", "x"}, {"a", "b"}} {
			if status, printed := m.run("pace-node-uninstall", args...); status != 2 || !strings.Contains(printed, "is not understood") {
				t.Errorf("%q: %d, %q", args, status, printed)
			}
		}
		if status, printed := m.run("pace-node-uninstall", "--help"); status != 0 || !strings.Contains(printed, "usage: sudo pace-node-uninstall") {
			t.Errorf("help: %d, %q", status, printed)
		}
		same("arguments")
		m.note("id", "#!/bin/sh\necho 98765\n", 0o755)
		if status, printed := m.run("pace-node-uninstall"); status != 1 || !strings.Contains(printed, "only root can do this") {
			t.Errorf("as somebody else: %d, %q", status, printed)
		}
		same("another user")
		m.check(os.Remove(filepath.Join(m.stubs, "id")))
		m.calls()
		m.note("stuck.io.pace.node", "", 0o644)
		if status, printed := m.run("pace-node-uninstall"); status != 1 || !strings.Contains(printed, "nothing was removed") {
			t.Errorf("stuck: %d, %q", status, printed)
		}
		m.called(slices.Concat([]string{bootOutRotate, bootOutNode}, seconds(40))...)
		same("a daemon that does not end")
	})
}

// TestRotate fills the log while a writer holds it open, as launchd does for the daemon.
func TestRotate(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		m := newMac(t, shell)
		const log = "private/var/log/pace-node.log"
		rotate := func() {
			t.Helper()
			if status, printed := m.run("rotate-log"); status != 0 || printed != "" {
				t.Fatalf("%d, %q", status, printed)
			}
		}
		rotate() // no log yet
		m.write(log, "", 0o600)
		writer, err := os.OpenFile(filepath.Join(m.root, log), os.O_WRONLY|os.O_APPEND, 0)
		m.check(err)
		defer writer.Close()
		line := strings.Repeat("x", 1<<20-1) + "\n"
		for round := range 7 {
			for range 10 {
				fmt.Fprint(writer, line)
			}
			rotate() // 10 MiB are not over 10 MiB
			if m.read(log) == "" {
				t.Fatal("a small log was emptied")
			}
			fmt.Fprintf(writer, "round %d\n", round)
			rotate()
			fmt.Fprintln(writer, "after it")
			if got := m.read(log); got != "after it\n" {
				t.Fatalf("round %d: the log has %d bytes and begins %.20q", round, len(got), got)
			}
			m.check(writer.Truncate(0))
			if m.perm(log) != 0o600 || m.perm(log+".0.gz") != 0o600 {
				t.Errorf("modes %v, %v", m.perm(log), m.perm(log+".0.gz"))
			}
		}
		pieces, err := filepath.Glob(filepath.Join(m.root, log+"*"))
		m.check(err)
		if len(pieces) != 6 {
			t.Errorf("pieces %q", pieces)
		}
		for i := range 5 {
			if got := m.piece(log, i); !strings.HasSuffix(got, fmt.Sprintf("x\nround %d\n", 6-i)) || len(got) != 10<<20+8 {
				t.Errorf("piece %d has %d bytes and ends %q", i, len(got), got[max(0, len(got)-10):])
			}
		}
	})
}

func (m *mac) piece(log string, n int) string {
	m.t.Helper()
	f, err := os.Open(filepath.Join(m.root, fmt.Sprintf("%s.%d.gz", log, n)))
	m.check(err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	m.check(err)
	b, err := io.ReadAll(z)
	m.check(err)
	return string(b)
}

// TestRotateWithoutRoom: where the piece cannot be written the log is kept, until it is larger than all its pieces would be.
func TestRotateWithoutRoom(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		m := newMac(t, shell)
		m.note("gzip", "#!/bin/sh\necho half\nexit 1\n", 0o755)
		const log = "private/var/log/pace-node.log"
		for _, c := range []struct{ before, after int64 }{{10<<20 + 1, 10<<20 + 1}, {50 << 20, 50 << 20}, {50<<20 + 1, 0}} {
			m.write(log, "", 0o600)
			m.check(os.Truncate(filepath.Join(m.root, log), c.before))
			status, printed := m.run("rotate-log")
			info, err := os.Stat(filepath.Join(m.root, log))
			m.check(err)
			if status != 1 || printed != "" || info.Size() != c.after {
				t.Errorf("%d bytes: %d, %q, %d left", c.before, status, printed, info.Size())
			}
			if pieces, _ := filepath.Glob(filepath.Join(m.root, log+".*")); len(pieces) > 0 {
				t.Errorf("pieces %q", pieces)
			}
		}
		// A link is nobody's log.
		m.check(os.Remove(filepath.Join(m.root, log)))
		target := filepath.Join(t.TempDir(), "target")
		m.check(os.WriteFile(target, nil, 0o600))
		m.check(os.Truncate(target, 60<<20))
		m.check(os.Symlink(target, filepath.Join(m.root, log)))
		if status, _ := m.run("rotate-log"); status != 0 {
			t.Errorf("a link: %d", status)
		}
		if info, err := os.Stat(target); err != nil || info.Size() != 60<<20 {
			t.Errorf("the link's target: %v", err)
		}
	})
}

// TestShellcheck: every finding fails.
func TestShellcheck(t *testing.T) {
	shellcheck := tool(t, "shellcheck", "shellcheck", "what shellcheck says of the scripts")
	folder := filepath.Join("..", "..", "packaging", "macos")
	for _, name := range []string{"launchd.sh", "pace-node-uninstall", "rotate-log", "scripts/postinstall", "scripts/preinstall"} {
		cmd := exec.Command(shellcheck, "-x", "-P", "SCRIPTDIR", "-s", "sh", name)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
