//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What a busy machine needs of the kit: several tests run beside one another on two cores.

// logFile keeps what a process printed. It is a real file: what a process has written is there for whoever looks after its
// answer, while what goes through a pipe is there when this process comes to copy it.
type logFile struct{ f *os.File }

func newLog(t *testing.T) *logFile {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &logFile{f}
}

// takes has a command print into it.
func (l *logFile) takes(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = l.f, l.f }

func (l *logFile) String() string {
	b, err := os.ReadFile(l.f.Name())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// writeProgram writes a file that is run soon. A process that is started while the file is open for writing holds it open
// until it runs its own program, and nobody can run a file that is open so (ETXTBSY): none is started meanwhile.
func writeProgram(path string, b []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, b, 0o755)
}

// replaceProgram puts a program in the place of one that may be running.
func replaceProgram(path string, b []byte) error {
	if err := writeProgram(path+".next", b); err != nil {
		return err
	}
	return os.Rename(path+".next", path)
}

// electing reports whether a verb failed since there was no leader at the moment: nothing was done then. Of three voters on a
// busy machine one may be slow enough to be taken for dead, and a verb waits for an election some seconds only.
func electing(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "the fleet has no leader at the moment") || strings.Contains(err.Error(), "no leader was found"))
}

// unsure reports whether a verb failed since its leader lost the lead: it may be done or not, and can be said again where that
// changes nothing.
func unsure(err error, args []string) bool {
	if err == nil || !strings.Contains(err.Error(), "lost the lead before") {
		return false
	}
	for _, again := range []string{"--cluster-set=", "--cluster-admit=", "--cluster-admit-learner="} {
		if strings.HasPrefix(args[0], again) {
			return true
		}
	}
	return false
}

// must is a verb that succeeds, once the fleet has a leader where it needs one.
func (n *node) must(args ...string) (out string) {
	n.t.Helper()
	until(n.t, n.name+": "+strings.Join(args, " "), func() (bool, string) {
		var err error
		if out, err = n.verb(args...); err != nil && !electing(err) && !unsure(err, args) {
			n.t.Fatalf("%s: %v", n.name, err)
		}
		return err == nil, fmt.Sprint(err)
	})
	return out
}

// arrived waits until a leader has committed what a new member says of itself: from then on its coming changes nothing more.
func (n *node) arrived(leader *node) {
	n.t.Helper()
	id := n.id()
	until(n.t, n.name+" has arrived at "+leader.name, func() (bool, string) {
		d, err := leader.cluster()
		for _, m := range d.Members {
			if m.ID == id {
				return m.Arrived, "it is listed, and has said nothing of itself"
			}
		}
		return false, fmt.Sprint("it is not listed; ", err)
	})
}

// holds waits until the node's process holds no more memory than it did, but for some MiB: what stays counts, and what is free
// goes back to the system by and by.
func (n *node) holds(before, more int) {
	n.t.Helper()
	until(n.t, fmt.Sprintf("%s holds at most %d MiB more than before", n.name, more), func() (bool, string) {
		now := n.memory()
		return now <= before+more<<20, fmt.Sprintf("%d KiB, %d before", now>>10, before>>10)
	})
}

// attempts are how often a machine under a name has asked for admission, by the row that it has in the list; 0: it has none.
func (n *node) attempts(name string) (times int) {
	n.t.Helper()
	d, err := n.waiting()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, r := range d.Rows {
		if r.Name == name {
			times += r.Attempts
		}
	}
	return times
}
