//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/statedir"
)

// pacectlIn is pacectl with something on stdin.
func (n *node) pacectlIn(stdin string, args ...string) (string, error) {
	cmd := n.inside(append([]string{filepath.Join(filepath.Dir(binary), "pacectl"), "--state-dir=" + n.dir}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// ctl is pacectl that must succeed.
func (n *node) ctl(args ...string) string {
	n.t.Helper()
	out, err := n.pacectl(args...)
	if err != nil {
		n.t.Fatalf("%s: pacectl %s: %v\n%s", n.name, strings.Join(args, " "), err, out)
	}
	return out
}

// ctlRefused is pacectl that must fail with the status, saying the words and a remedy.
func (n *node) ctlRefused(status int, args []string, words ...string) {
	n.t.Helper()
	out, err := n.pacectl(args...)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("exit status %d", status)) {
		n.t.Errorf("%s: pacectl %s: %v, want exit status %d\n%s", n.name, strings.Join(args, " "), err, status, out)
	}
	wants(n.t, out, append(words, "remedy: ")...)
}

func (n *node) keyText() string { return n.key().Public().String() }

// fleetID is the cluster that the node is in.
func (n *node) fleetID() string {
	n.t.Helper()
	c, err := n.cluster()
	if err != nil {
		n.t.Fatal(err)
	}
	return c.Cluster
}

// listedBy reports whether the fleet of a node lists another one.
func (n *node) listedBy(by *node) bool {
	c, err := by.cluster()
	return err == nil && strings.Contains(c.roster(), n.id())
}

func TestLeaveInEachRole(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	b.promoted(a)
	c := l.hosts[2].joined(t, a, "cedar")
	d := l.hosts[3].start(t, "dogwood")
	d.asks(a)
	fleet := a.fleetID()

	// Pending: the ask is given up, and nothing is asked back.
	own := d.fleetID()
	wants(t, d.ctl("fleet", "leave"), "given up", fleet)
	d.inMode("solitary", nil)
	if d.fleetID() != own {
		t.Errorf("its own fleet is another one")
	}

	// A learner: only with the fleet's id given back.
	c.ctlRefused(2, []string{"fleet", "leave", "--yes=" + own}, "not given back", fleet)
	out, err := c.pacectlIn(fleet+"\n", "fleet", "leave")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wants(t, out, "has left the fleet "+fleet, "not revoked")
	c.inMode("solitary", nil)
	if c.listedBy(a) || c.shows("itself", func(nodeDoc) bool { return true }).has("own-key-revoked") {
		t.Error("it is listed still, or its key is revoked")
	}

	// A voter, which leads: another one leads first.
	a.ctl("fleet", "leave", fleet)
	a.inMode("solitary", nil)
	b.shows("that it leads", func(d nodeDoc) bool { return d.View.Leads })
	if a.listedBy(b) || b.fleetID() != fleet {
		t.Error("the fleet lists who has left")
	}
	b.must("--cluster-set=enrollment.per-source=9")

	// The last one of a fleet goes alone.
	b.ctl("fleet", "leave", "--yes="+fleet)
	b.inMode("solitary", nil)
	b.ctlRefused(4, []string{"fleet", "leave", "--yes=" + b.fleetID()}, "fleet of its own")
}

func TestQuorumGoneForGood(t *testing.T) { // field case P28
	t.Parallel()
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	c := l.hosts[2].joined(t, a, "cedar")
	b.promoted(a)
	c.promoted(a)
	d := l.hosts[3].joined(t, a, "dogwood")
	fleet := a.fleetID()
	a.must("--cluster-set=enrollment.per-source=9")
	for _, n := range []*node{b, c, d} {
		n.follows(a)
	}
	b.ctlRefused(4, []string{"fleet", "recover", "--yes=" + fleet}, "has a leader")

	a.kill()
	c.kill()
	out, err := b.verb("--cluster-forget=" + a.id()) // a verb gives a node 35 s
	if err == nil {
		t.Errorf("done without a quorum: %s", out)
	}
	until(t, "the verb says how many are needed, and the way out", func() (bool, string) { // while one is being elected it says so
		_, err = b.verb("--cluster-forget=" + a.id())
		return err != nil && strings.Contains(err.Error(), "2 of 3 voters are needed for one, and 1 heard from here") && strings.Contains(err.Error(), "pacectl fleet recover"), fmt.Sprint(err)
	})
	until(t, "no leader is heard", func() (bool, string) {
		out, err = b.pacectlIn(fleet+"\n", "fleet", "recover")
		return err == nil, out
	})
	wants(t, out, "may be lost: ", "recovery epoch 1", "pacectl fleet accept "+b.keyText())
	b.shows("that it leads", func(d nodeDoc) bool { return d.View.Leads })
	after, err := b.cluster()
	if err != nil || after.Cluster != fleet || len(after.Members) != 4 || strings.Count(after.roster(), " voter") != 1 {
		t.Fatalf("%v: fleet %s\n%s", err, after.Cluster, after.roster())
	}
	wants(t, b.must("--cluster-status"), "enrollment.per-source 9")
	b.must("--cluster-set=enrollment.per-source=10")

	// The learner is told, and follows at its operator's word.
	d.shows("the recovery", func(d nodeDoc) bool { return d.has("fleet-recovered-elsewhere") })
	wants(t, d.ctl("node"), "pacectl fleet accept "+b.keyText())
	wants(t, d.ctl("fleet", "accept", b.keyText(), "--yes="+fleet), "epoch 1")
	d.follows(b)
	d.shows("nothing more of it", func(d nodeDoc) bool { return !d.has("fleet-recovered-elsewhere") })

	// The lost ones come back after all: nobody obeys them, and they become learners by the same word.
	for _, n := range []*node{a, c} {
		n.start()
		n.ready()
	}
	for _, n := range []*node{a, c} {
		n.shows("the recovery", func(d nodeDoc) bool { return d.has("fleet-recovered-elsewhere") })
	}
	if got, err := b.cluster(); err != nil || strings.Count(got.roster(), " voter") != 1 {
		t.Errorf("%v: the voters are\n%s", err, got.roster())
	}
	for _, n := range []*node{a, c} {
		n.ctl("fleet", "accept", b.keyText(), "--yes="+fleet)
		n.inMode("learner", b)
		n.follows(b)
	}
	a.promoted(b)
}

func TestBackupRestoredOnANewMachine(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	a.must("--cluster-set=enrollment.per-source=9")
	fleet, id, key := a.fleetID(), a.id(), a.keyText()
	dir := t.TempDir()
	file, pass := filepath.Join(dir, "founder.backup"), filepath.Join(dir, "pass")
	for path, text := range map[string]string{pass: "five words are a passphrase\n", pass + ".other": "another passphrase\n", pass + ".short": "short\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.ctlRefused(4, []string{"fleet", "backup", file, "--passphrase-file=" + pass}, "is a learner", id)
	a.ctlRefused(1, []string{"fleet", "backup", file, "--passphrase-file=" + pass + ".short"}, "guards this machine's key")
	if out, err := a.pacectlIn("five words are a passphrase\n", "fleet", "backup", file, "--passphrase-file=-"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, mode %v", err, info)
	}
	a.ctlRefused(1, []string{"fleet", "backup", file, "--passphrase-file=" + pass}, "is there already")

	a.kill()
	c := l.hosts[2].start(t, "cedar", "--discovery=")
	c.ctlRefused(1, []string{"fleet", "restore", file, "--passphrase-file=" + pass, "--yes=" + fleet}, "a node runs on this machine", "stop it")
	old := c.id()
	c.stop()
	c.ctlRefused(1, []string{"fleet", "restore", file, "--passphrase-file=" + pass + ".other", "--yes=" + fleet}, "does not open the backup")
	sealed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func() []byte{
		"cut":     func() []byte { return sealed[:len(sealed)-100] },
		"changed": func() []byte { x := append([]byte(nil), sealed...); x[len(x)-100] ^= 1; return x },
		"nothing": func() []byte { return nil },
	} {
		bad := filepath.Join(dir, name)
		if err := os.WriteFile(bad, damage(), 0o600); err != nil {
			t.Fatal(err)
		}
		c.ctlRefused(1, []string{"fleet", "restore", bad, "--passphrase-file=" + pass, "--yes=" + fleet}, "the backup cannot be used")
	}
	c.ctlRefused(2, []string{"fleet", "restore", file, "--passphrase-file=" + pass, "--yes=" + c.id()}, "not given back", fleet)
	wants(t, c.ctl("fleet", "restore", file, "--passphrase-file="+pass, "--yes="+fleet), "may be lost", id, "pacectl fleet accept "+key)
	if c.id() != id || c.keyText() != key {
		t.Errorf("it is %s", c.id())
	}
	if got := strings.Join(c.archived(), " "); !strings.Contains(got, "identity-"+old) {
		t.Errorf("archived are %q", got)
	}
	c.args = nil // the new machine takes the old one's place on the segment
	c.start()
	c.ready()
	c.shows("that it leads", func(d nodeDoc) bool { return d.View.Leads && d.NodeID == id })
	wants(t, c.must("--cluster-status"), fleet, "enrollment.per-source 9")
	b.shows("the recovery", func(d nodeDoc) bool { return d.has("fleet-recovered-elsewhere") })
	b.ctl("fleet", "accept", key, "--yes="+fleet)
	b.follows(c)
	c.stop()
	c.ctlRefused(1, []string{"fleet", "restore", file, "--passphrase-file=" + pass, "--yes=" + fleet}, "this machine is in the fleet", "--reset-identity")
}

func TestCopiedStateBothAlive(t *testing.T) { // field cases P21 and P22
	t.Parallel()
	l := newLAN(t, 3)
	a := l.hosts[0].start(t, "alder", metered, "--log-level=debug")
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	b.follows(a)
	b.stop()
	twin := l.hosts[2].newNode(t, "birch")
	if err := os.CopyFS(twin.dir, os.DirFS(b.dir)); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"", statedir.KeyFile, statedir.RecordFile, statedir.LockFile} {
		mode := os.FileMode(0o600)
		if file == "" {
			mode = 0o700
		}
		if err := os.Chmod(filepath.Join(twin.dir, file), mode); err != nil {
			t.Fatal(err)
		}
	}
	os.Remove(filepath.Join(twin.dir, statedir.SocketFile))
	b.start()
	twin.start()
	for _, n := range []*node{b, twin} {
		n.ready()
	}
	for _, n := range []*node{a, b, twin} {
		n.shows("the copy", func(d nodeDoc) bool { return d.has("identity-cloned") })
	}
	wants(t, a.ctl("node"), "identity-cloned", "pace-node --reset-identity", l.hosts[1].addr.String(), l.hosts[2].addr.String())
	for _, n := range []*node{b, twin} {
		wants(t, n.ctl("node"), "identity-cloned", "pace-node --reset-identity")
	}
	id := b.id()
	// The two do not fight: their sessions stay, and it costs nobody a core.
	opened := func() int { return strings.Count(a.log.String(), "session opened") }
	began, sessions := time.Now(), opened()
	used := map[*node]time.Duration{a: a.cpu(), b: b.cpu(), twin: twin.cpu()}
	until(t, "twenty seconds have passed", func() (bool, string) { return time.Since(began) > 20*time.Second, "" })
	took := time.Since(began)
	if n := opened() - sessions; n > int(took/(15*time.Second))+2 { // and one at either edge
		t.Errorf("%d sessions were opened in %s", n, took)
	}
	for n, was := range used {
		if got := n.cpu() - was; got > took/20 {
			t.Errorf("%s used %s of processor in %s", n.name, got, took)
		}
	}

	// The copy is made a machine of its own; refused while it runs.
	if out, err := twin.verb("--reset-identity"); err == nil || !strings.Contains(err.Error(), "stop it") {
		t.Errorf("reset under a running node: %v %s", err, out)
	}
	twin.stop()
	wants(t, twin.must("--reset-identity"), "identity-"+id)
	twin.start()
	twin.ready()
	fresh := twin.id()
	if fresh == id || twin.keyText() == b.keyText() {
		t.Error("the reset did not reset")
	}
	for name, b := range leftBy(t, twin.dir) {
		if strings.Contains(b, id) {
			t.Errorf("the old id is in %s", name)
		}
	}
	twin.asks(a)
	d, err := a.waiting()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range d.Rows {
		if r.Decision == "waiting" && r.ID != fresh {
			t.Errorf("%s waits too", r.ID)
		}
	}
	// What becomes of the copy is nothing to the original (P22).
	a.must("--enroll-approve=" + identity.FormatAdmit(fresh, twin.key().Public()))
	twin.inMode("learner", a)
	a.must("--cluster-forget=" + fresh)
	twin.inMode("solitary", nil)
	b.follows(a)
	b.inMode("learner", a)
	// A second reset works too.
	twin.stop()
	twin.must("--reset-identity")
	twin.start()
	twin.ready()
	if twin.id() == fresh {
		t.Error("the second reset did not reset")
	}
}

// leftBy are the files outside the archive of a state directory, as text by path.
func leftBy(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // a file of a running node may go
		case d.IsDir() && d.Name() == statedir.ArchiveDir:
			return filepath.SkipDir
		case d.Type().IsRegular():
			b, err := os.ReadFile(path)
			if err == nil {
				out[path] = string(b)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDirectoryOnOtherHardware(t *testing.T) { // field case P23
	t.Parallel()
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	b.stop()
	d, err := statedir.Open(b.dir, statedir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := d.Load(statedir.Mint{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Hardware == "" {
		t.Skip("this machine tells nothing that stays with it: no /etc/machine-id")
	}
	r.Hardware = strings.Repeat("0", len(r.Hardware))
	if err := d.Save(r); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.ready()
	b.shows("that it may be a copy", func(d nodeDoc) bool { return d.has("identity-cloned") })
	b.inMode("learner", a)
	b.follows(a)
}

func TestSilentMembersAreForgottenAtOnce(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder")
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	c := l.hosts[2].joined(t, a, "cedar")
	d := l.hosts[3].joined(t, a, "dogwood")
	fleet := a.fleetID()
	c.kill()
	d.kill()
	type list struct {
		Members []struct {
			ID string `json:"id"`
		} `json:"members"`
	}
	until(t, "both are silent for a minute", func() (bool, string) {
		out := a.ctl("member", "stale", "--stale-for=1m", "--json")
		var got list
		err := json.Unmarshal([]byte(out), &got)
		return err == nil && len(got.Members) == 2, out
	})
	wants(t, a.ctl("member", "stale"), "nobody was silent for 30d", "listened for")
	a.ctlRefused(2, []string{"member", "forget", "--stale-for=1m", "--yes=" + a.id()}, "not given back", "cedar", "dogwood")
	wants(t, a.ctl("member", "forget", "--stale-for=1m", "--yes="+fleet), "2 machines are forgotten")
	if got, err := a.cluster(); err != nil || len(got.Members) != 2 || c.listedBy(a) || d.listedBy(a) {
		t.Errorf("%v:\n%s", err, got.roster())
	}
	b.follows(a)
}
