//go:build e2e

// Package crash ends real nodes at every point at which a power cut could find them, and starts them again. The nodes are
// processes of a test build of the binary, on loopback only and on ports of their own, so it needs no root.
package crash

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/identity"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

const (
	// patience bounds every wait. Each of them is for something that takes at most some seconds on an idle machine; on a busy one
	// a single lost try may have it wait for the product's next one, which is a minute away for a seed, a move and a heal.
	patience = 4 * time.Minute
	// pollEvery is how often a condition is looked at.
	pollEvery = 20 * time.Millisecond
	// crashStatus is the exit status of a process that ended at its point.
	crashStatus = 77
)

// binary is the test build; newer is the same under a later version. TestMain makes both.
var binary, newer string

// The versions of binary and newer.
const olderVersion, newerVersion = "1.0.0", "9.0.0"

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "pace-crash-build-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary, newer = filepath.Join(dir, "pace-node"), filepath.Join(dir, "pace-node-newer")
		for path, version := range map[string]string{binary: olderVersion, newer: newerVersion} {
			if out, err := exec.Command("go", "build", "-tags", "crashpoints", "-ldflags", "-s -w -X pace-node/internal/version.Version="+version, "-o", path, "pace-node/cmd/pace-node").CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "build of the test binary: %v\n%s", err, out)
				return 1
			}
		}
		return m.Run()
	}())
}

// ports hands out TCP ports below those that the system gives to connections, so that a port of a stopped node is still
// free at its next start.
var ports = struct {
	sync.Mutex
	next int
}{next: 20000 + rand.IntN(2000)*4}

func freePort(network string) (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range 2000 {
		ports.next++
		addr := fmt.Sprintf("127.0.0.1:%d", ports.next)
		if network == "udp" {
			if c, err := net.ListenPacket("udp4", addr); err == nil {
				c.Close()
				return ports.next, nil
			}
			continue
		}
		if l, err := net.Listen("tcp4", addr); err == nil {
			l.Close()
			return ports.next, nil
		}
	}
	return 0, errors.New("no free port on loopback")
}

// logFile keeps what a process printed.
type logFile struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logFile) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logFile) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logFile) tail(n int) string {
	lines := strings.Split(strings.TrimSpace(l.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// machine is one of the fleet: its state directory and ports outlive its processes.
type machine struct {
	name     string
	dir      string
	fc, raft int
	args     []string // beside those that every node has
	program  string   // "": the test build

	log    *logFile
	began  int // of the log, at the last start
	cmd    *exec.Cmd
	done   chan struct{}
	client *control.Client
}

// newMachine makes a machine that was never started. Without beacons its discovery is off.
func newMachine(name, dir string, beacons int, args ...string) (*machine, error) {
	n := &machine{name: name, dir: filepath.Join(dir, name), log: &logFile{}}
	for _, p := range []*int{&n.fc, &n.raft} {
		var err error
		if *p, err = freePort("tcp"); err != nil {
			return nil, err
		}
	}
	// What an installed package sets for this computer is not for these nodes.
	nothing := filepath.Join(dir, "nothing.yaml")
	if err := os.WriteFile(nothing, nil, 0o600); err != nil {
		return nil, err
	}
	n.args = append([]string{"--config=" + nothing, "--name=" + name, "--advertise=127.0.0.1", "--discovery-loopback", "--discovery-reply-port=0", "--log-level=debug",
		fmt.Sprintf("--listen=127.0.0.1:%d", n.fc), fmt.Sprintf("--listen-raft=127.0.0.1:%d", n.raft)}, args...)
	discovery := "--discovery="
	if beacons != 0 {
		discovery = fmt.Sprintf("--discovery=:%d", beacons)
	}
	n.args = append(n.args, discovery, "--state-dir="+n.dir)
	n.client = control.DialAdmin(statedir.SocketPath(n.dir))
	return n, nil
}

func (n *machine) endpoint() string { return fmt.Sprintf("127.0.0.1:%d", n.fc) }

// start runs the machine's process, without waiting for it to serve.
func (n *machine) start(env ...string) error {
	n.cmd = exec.Command(cmp.Or(n.program, binary), n.args...)
	n.cmd.Env = append(os.Environ(), env...)
	n.cmd.Stdout, n.cmd.Stderr = n.log, n.log
	n.began = len(n.log.String())
	n.done = make(chan struct{})
	if err := n.cmd.Start(); err != nil {
		return err
	}
	cmd, done := n.cmd, n.done
	go func() { cmd.Wait(); close(done) }()
	return nil
}

// ended reports whether the process has ended, and with what.
func (n *machine) ended() (status int, ended bool) {
	if n.done == nil {
		return 0, true
	}
	select {
	case <-n.done:
		return n.cmd.ProcessState.ExitCode(), true
	default:
		return 0, false
	}
}

// crashedAt reports whether the process that ended last did so at a point. What else it was about to say may come behind that.
func (n *machine) crashedAt(point string) bool {
	status, ended := n.ended()
	return ended && status == crashStatus && point != "" && strings.Contains(n.log.String()[n.began:], "crash point "+point+"\n")
}

// kill ends the process as a power cut does.
func (n *machine) kill() {
	if n.done != nil {
		n.cmd.Process.Kill()
		<-n.done
	}
}

// stop ends it as a service manager does.
func (n *machine) stop() error {
	if _, ended := n.ended(); ended {
		return nil
	}
	n.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-n.done:
		return nil
	case <-time.After(patience):
		n.kill()
		return fmt.Errorf("%s did not stop", n.name)
	}
}

// call asks one verb over the administrators' socket.
func call[T any](n *machine, verb wire.Verb, payload []byte) (doc T, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b, err := n.client.Call(ctx, verb, payload)
	if err != nil {
		return doc, err
	}
	return doc, json.Unmarshal(b, &doc)
}

func request(doc any) []byte { b, _ := json.Marshal(doc); return b }

func (n *machine) status() (control.NodeStatus, error) {
	return call[control.NodeStatus](n, wire.VerbStatus, request(wire.StatusRequest{What: "node"}))
}

func (n *machine) cluster() (control.ClusterStatus, error) {
	return call[control.ClusterStatus](n, wire.VerbStatus, request(wire.StatusRequest{What: "cluster"}))
}

func (n *machine) change(r wire.ClusterRequest) error {
	_, err := call[wire.ClusterAnswer](n, wire.VerbCluster, request(r))
	return err
}

func (n *machine) set(name, value string) error {
	return n.change(wire.ClusterRequest{Op: "set", Name: name, Value: value})
}

func (n *machine) queue(op, id string) error {
	_, err := call[json.RawMessage](n, wire.VerbQueue, request(wire.QueueRequest{Op: op, ID: id}))
	return err
}

func (n *machine) queueState(id string) (control.QueueShow, error) {
	return call[control.QueueShow](n, wire.VerbQueue, request(wire.QueueRequest{Op: "show", ID: id}))
}

func (n *machine) enroll(op wire.ControlOp, argument []byte) error {
	_, err := call[control.Done](n, wire.VerbEnrollControl, (&wire.EnrollControl{Op: op, Argument: argument}).Append(nil))
	return err
}

// row is the waiting list's row of a machine.
func (n *machine) row(id string) (control.EnrollRow, bool, error) {
	list, err := call[control.EnrollList](n, wire.VerbEnrollControl, (&wire.EnrollControl{Op: wire.ControlList}).Append(nil))
	if err != nil {
		return control.EnrollRow{}, false, err
	}
	for _, r := range list.Rows {
		if r.ID == id {
			return r, true, nil
		}
	}
	return control.EnrollRow{}, false, nil
}

// approve admits a machine that waits; one that does not is no error.
func (n *machine) approve(id string) error {
	r, ok, err := n.row(id)
	if err != nil || !ok || r.Decision != control.DecisionWaiting {
		return err
	}
	key, err := identity.ParsePublicKey(r.Key)
	if err != nil {
		return err
	}
	return n.enroll(wire.ControlApprove, wire.AppendControlMember(nil, id, key))
}

// member is a machine as this node's fleet lists it, and how many times.
func member(c control.ClusterStatus, id string) (m control.MemberStatus, times int) {
	for _, x := range c.Members {
		if x.ID == id {
			m = x
			times++
		}
	}
	return m, times
}

// record is what a machine's record holds, as far as these tests look.
type record struct {
	NodeID  string `json:"node_id"`
	Key     string `json:"public_key"`
	Boots   uint64 `json:"boot_counter"`
	Mode    string `json:"mode"`
	Cluster string `json:"cluster"`
}

// record reads the file itself, which is the old one or the new one at every moment.
func (n *machine) record() (r record, err error) {
	b, err := os.ReadFile(filepath.Join(n.dir, statedir.RecordFile))
	if err != nil {
		return r, err
	}
	_, body, _ := bytes.Cut(b, []byte("\n"))
	return r, json.Unmarshal(body, &r)
}

// wait polls until done says so.
func wait(what string, done func() (bool, string)) error {
	limit := time.Now().Add(patience)
	for {
		ok, state := done()
		if ok {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("still not after %s: %s (%s)", patience, what, state)
		}
		time.Sleep(pollEvery)
	}
}

// ready waits until a machine serves.
func (n *machine) ready() (err error) {
	if waited := wait(n.name+" serves", func() (bool, string) {
		if status, ended := n.ended(); ended {
			err = fmt.Errorf("%s ended with %d\n%s", n.name, status, n.log.tail(40))
			return true, ""
		}
		_, err := n.status()
		return err == nil, fmt.Sprint(err)
	}); waited != nil {
		return waited
	}
	return err
}

// lane is a founder and what grows around it. One story at a time runs in it.
type lane struct {
	dir      string
	beacons  int
	document string // what the founder gives every machine
	founder  *machine
	fleet    string
	made     int
	resident *victim // a learner that stories share
	given    string  // greeting in the document
	settings int
	fission  *fission // two fleets that stories split and heal
}

// nextSecond waits for the clock's next second: a fleet's age counts in whole ones.
func nextSecond() error {
	began := time.Now().Unix()
	return wait("the next second", func() (bool, string) { return time.Now().Unix() != began, "" })
}

func newLane() (l *lane, err error) {
	l = &lane{}
	if l.dir, err = os.MkdirTemp("", "pace-crash-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	l.document = filepath.Join(l.dir, "document.json")
	if err = l.give("first"); err != nil {
		return l, err
	}
	if l.beacons, err = freePort("udp"); err != nil {
		return l, err
	}
	if l.founder, err = newMachine("founder", l.dir, l.beacons, "--provision-helper=cat "+l.document, "--provision-pki"); err != nil {
		return l, err
	}
	if err = l.founder.start(); err != nil {
		return l, err
	}
	if err = l.founder.ready(); err != nil {
		return l, err
	}
	c, err := l.founder.cluster()
	if err != nil {
		return l, err
	}
	l.fleet = c.Cluster
	return l, l.founder.set("enrollment.per-source", "64")
}

func (l *lane) close() {
	if l.resident != nil {
		l.resident.kill()
	}
	if l.founder != nil {
		l.founder.kill()
	}
	if l.fission != nil {
		for _, m := range l.fission.all() {
			m.kill()
		}
	}
	os.RemoveAll(l.dir)
}

// give changes what the founder gives to every machine from now on.
func (l *lane) give(greeting string) error {
	l.given = greeting
	return l.answer(greets(greeting))
}

// greets is a helper's answer that configures a greeting.
func greets(greeting string) map[string]any {
	return map[string]any{
		"configuration": map[string]string{"greeting": greeting, "log.level": "info"},
		"pace":          map[string]any{"files": map[string]any{"motd": map[string]string{"text": greeting + "\n", "mode": "0644"}}},
	}
}

// answer is what the helper says from now on.
func (l *lane) answer(doc map[string]any) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.document+".x", b, 0o600); err != nil {
		return err
	}
	return os.Rename(l.document+".x", l.document)
}

// greeting is what a machine is configured with, "" for nothing; a configuration that is not whole is an error.
func (n *machine) greeting() (string, error) {
	dir := filepath.Join(n.dir, statedir.ProvisionedDir, "current")
	b, err := os.ReadFile(filepath.Join(dir, "configuration.json"))
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Lstat(dir); err == nil {
			return "", errors.New("a current configuration without its first file")
		}
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var c map[string]string
	if err := json.Unmarshal(b, &c); err != nil {
		return "", err
	}
	motd, err := os.ReadFile(filepath.Join(dir, "files", "motd"))
	if err != nil || string(motd) != c["greeting"]+"\n" || len(c) != 2 {
		return "", fmt.Errorf("a mixture: %q with %q (%v)", c, motd, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "manifest.json")); err != nil {
		return "", err
	}
	return c["greeting"], nil
}

// leftovers are entries below a stopped machine's directory that a move has to remove.
func (n *machine) leftovers() (left []string, err error) {
	err = filepath.WalkDir(n.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		rel, _ := filepath.Rel(n.dir, path)
		inProvisioned := filepath.Dir(rel) == statedir.ProvisionedDir
		switch {
		case strings.Contains(name, ".tmp-"), strings.HasSuffix(name, ".new"), strings.HasPrefix(name, ".moving"), strings.HasPrefix(name, ".doomed-"),
			inProvisioned && slices.Contains([]string{"staging", "discard", "swap.json"}, name):
			left = append(left, rel)
		}
		return nil
	})
	return left, err
}

// archives are the stores that a machine has put away, as <folder>/<store>, sorted.
func (n *machine) archives() ([]string, error) {
	got, err := filepath.Glob(filepath.Join(n.dir, statedir.ArchiveDir, "*", "*"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, path := range got {
		if filepath.Base(path) == "archived.json" {
			continue
		}
		rel, err := filepath.Rel(filepath.Join(n.dir, statedir.ArchiveDir), path)
		if err != nil {
			return nil, err
		}
		out = append(out, rel)
	}
	slices.Sort(out)
	return out, nil
}
