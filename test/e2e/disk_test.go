//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// disk is a small file system of its own for one node's state, in a mount namespace that nobody else sees. A process that
// only waits keeps it while the node does not run.
type disk struct {
	t    *testing.T
	keep *exec.Cmd
	at   string // where the node sees it
}

// diskNode prepares a node whose state is on a disk of some MiB.
func (h *host) diskNode(t *testing.T, name string, mib int, args ...string) *node {
	t.Helper()
	n := h.newNode(t, name, args...)
	d := &disk{t: t, at: t.TempDir()}
	d.keep = exec.Command("ip", "netns", "exec", h.ns, "sh", "-c", fmt.Sprintf("mount -t tmpfs -o size=%dm,mode=0755 tmpfs '%s' && echo mounted && exec sleep infinity", mib, d.at))
	said, err := d.keep.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.keep.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.kill()
		d.keep.Process.Kill()
		d.keep.Wait()
	})
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || line != "mounted\n" {
		t.Fatalf("no disk: %q, %v", line, err)
	}
	n.disk, n.dir = d, filepath.Join(d.at, "state")
	return n
}

func (d *disk) inside(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"-t", strconv.Itoa(d.keep.Process.Pid), "-m", "-n", "--"}, args...)...)
}

func (d *disk) outside(path string) string {
	return filepath.Join("/proc", strconv.Itoa(d.keep.Process.Pid), "root", path)
}

// fill leaves some KiB of the disk free, less what a block is rounded to.
func (d *disk) fill(leave int) {
	d.t.Helper()
	f, err := os.OpenFile(filepath.Join(d.outside(d.at), "filler"), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
		d.t.Fatal(err)
	}
	have, err := f.Stat()
	if err != nil {
		d.t.Fatal(err)
	}
	size := have.Size() + int64(s.Bavail)*s.Bsize - int64(leave)<<10
	if err := f.Truncate(min(max(size, 0), have.Size())); err != nil {
		d.t.Fatal(err)
	}
	block := make([]byte, 4<<10)
	for at := min(max(size, 0), have.Size()); at < size; at += int64(len(block)) {
		if _, err := f.WriteAt(block, at); err != nil {
			return // full
		}
	}
}

func (d *disk) empty() {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.outside(d.at), "filler")); err != nil {
		d.t.Fatal(err)
	}
}

// sums are the checksums of the files that a refused start must leave alone.
func (n *node) sums() string {
	n.t.Helper()
	var b bytes.Buffer
	for _, name := range names(n.t, n.state()) {
		if name == "node.lock" { // held, and given back as it was
			continue
		}
		text, err := os.ReadFile(filepath.Join(n.state(), name))
		if err != nil {
			continue // a socket
		}
		fmt.Fprintf(&b, "%s %x\n", name, sha256.Sum256(text))
	}
	return b.String()
}

// TestFullDiskInEveryMode: a disk that fills up is said while there is room, and when there is none the node leads nothing,
// loses nothing, does not end, says what mends it, refuses a start without changing a byte, and goes on by itself.
func TestFullDiskInEveryMode(t *testing.T) {
	t.Parallel()
	const mib, room = 32, 2 << 10 // KiB of room that is little, and not nothing
	l := newLAN(t, 3)
	a := l.hosts[0].diskNode(t, "alder", mib)
	a.start()
	a.ready()
	nextSecond(t)
	b := l.hosts[1].diskNode(t, "birch", mib)
	b.start()
	b.ready()
	b.approve(a)
	b.inMode("learner", a)
	c := l.hosts[2].diskNode(t, "cedar", mib)
	c.start()
	c.ready()
	id, key := c.asks(a)

	// Each is told of in time.
	for _, n := range []*node{a, b, c} {
		n.disk.fill(room)
		n.shows("that little room is left", func(d nodeDoc) bool { return d.has("state-dir-nearly-full") })
	}

	// Pending: the approval comes and its record cannot be written. It goes on asking and serving.
	c.disk.fill(0)
	a.must("--enroll-approve=" + id + "@" + key)
	c.shows("that its move was refused", func(d nodeDoc) bool { return d.Mode == "pending" && d.has("formation-move-refused") })
	refusesToStart(t, c)
	c.disk.empty()
	c.start()
	c.ready()
	c.inMode("learner", a)

	// Learner: what it cannot write it does not show, and it follows again when it can.
	b.disk.fill(0)
	before, err := b.cluster()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		a.must(fmt.Sprintf("--cluster-set=enrollment.per-source=%d", 5+i))
	}
	b.shows("no more than it could write", func(d nodeDoc) bool { return d.Mode == "learner" && d.View.Revision >= before.View.Revision })
	refusesToStart(t, b)
	b.disk.empty()
	b.start()
	b.ready()
	b.follows(a)

	// Leader: it steps down, says so to whoever asks, and leads again.
	was, err := a.cluster()
	if err != nil {
		t.Fatal(err)
	}
	a.disk.fill(0)
	until(t, "a change fails and says why", func() (bool, string) {
		out, err := a.verb("--cluster-set=provision.paused=true")
		return err != nil && strings.Contains(fmt.Sprint(err), "df -h"), fmt.Sprint(out, err)
	})
	a.shows("that its log cannot be written", func(d nodeDoc) bool { return d.has("consensus-store-unwritable") && !d.View.Leads })
	refusesToStart(t, a)
	a.start() // and a service manager tries again
	if status := a.ends(); status == 0 {
		t.Error("it started on a full disk")
	}
	a.disk.empty()
	a.start()
	a.ready()
	a.shows("that it leads again", func(d nodeDoc) bool { return d.View.Leads && !d.has("consensus-store-unwritable") })
	if now, err := a.cluster(); err != nil || now.Cluster != was.Cluster || now.roster() != was.roster() {
		t.Errorf("%v: before\n%s\nafter\n%s", err, was.roster(), now.roster())
	}

	// While it runs: no start is needed where room is made in time.
	a.disk.fill(0)
	until(t, "a change fails again", func() (bool, string) {
		_, err := a.verb("--cluster-set=provision.paused=true")
		return err != nil, fmt.Sprint(err)
	})
	a.shows("that its log cannot be written", func(d nodeDoc) bool { return d.has("consensus-store-unwritable") })
	a.disk.empty()
	until(t, "it goes on by itself", func() (bool, string) {
		_, err := a.verb("--cluster-set=provision.paused=true")
		return err == nil, fmt.Sprint(err)
	})
	a.shows("nothing of it any more", func(d nodeDoc) bool {
		return !d.has("consensus-store-unwritable") && !d.has("state-dir-nearly-full")
	})
	b.follows(a)
	c.follows(a)
}

// refusesToStart ends a node on a full disk and starts it again: the start is refused with what mends it, and no byte differs.
func refusesToStart(t *testing.T, n *node) {
	t.Helper()
	n.stop()
	n.disk.fill(0) // what its end gave free
	before, said := n.sums(), len(n.log.String())
	n.start()
	if status := n.ends(); status <= 0 {
		t.Errorf("%s: status %d on a full disk", n.name, status)
	}
	wants(t, n.log.String()[said:], "no space left on device", "df -h", n.dir)
	if after := n.sums(); after != before {
		t.Errorf("%s: before\n%s\nafter\n%s", n.name, before, after)
	}
}

// TestStateDirectoryRemovedUnderTheNode: it is said within seconds, and that it is back too; the node serves on.
func TestStateDirectoryRemovedUnderTheNode(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	a := l.hosts[0].start(t, "alder", metered)
	if err := os.Rename(a.dir, a.dir+".away"); err != nil {
		t.Fatal(err)
	}
	series := `pace_condition{id="state-dir-lost",severity="alert"}`
	until(t, "it is said", func() (bool, string) { return a.metrics().of(t, series) == 1, a.log.String() })
	wants(t, a.log.String(), "state-dir-lost", "ls -ld "+a.dir)
	if err := os.Rename(a.dir+".away", a.dir); err != nil {
		t.Fatal(err)
	}
	until(t, "it is back", func() (bool, string) { return a.metrics().of(t, series) == 0, a.log.String() })
	if err := os.RemoveAll(a.dir); err != nil {
		t.Fatal(err)
	}
	until(t, "it is said again", func() (bool, string) { return a.metrics().of(t, series) == 1, a.log.String() })
	a.stop()
}
