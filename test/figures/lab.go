package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/identity"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

const (
	// eventTimeout bounds the wait for one event of a node; on an idle machine each takes a second or two.
	eventTimeout = 2 * time.Minute
	// stopTimeout is what a node is given to stop by itself.
	stopTimeout = time.Minute
	// Ports are taken below those that the kernel gives to outgoing connections, so that none of a hundred nodes finds
	// its own taken by another's session.
	portLeast, portMost = 20000, 32000
)

// The log lines that tell what has happened. The time that a line carries is the node's own, so reading it late costs
// the measure nothing.
const (
	sayServes    = "pace-node serves"
	sayRaised    = "condition raised"
	sayApplied   = "the fleet's state is applied"
	sayConfirmed = "provisioned configuration is confirmed"
	idWaiting    = "enrollment-requests-waiting"
)

// lab is a set of nodes on one port for beacons, with a folder of their own.
type lab struct {
	m       *measurer
	dir     string
	config  string // a file that sets nothing
	beacons int
	nodes   []*node
	writes  int // tried so far
}

// node is one process.
type node struct {
	lab            *lab
	name, dir      string
	fc, raft, http int
	flags          []string
	cmd            *exec.Cmd
	began          time.Time // when the process was forked
	done           chan struct{}

	mu     sync.Mutex
	events []event
	more   chan struct{} // closed and replaced at each event
	tail   []string
}

// event is a line of a node's log.
type event struct {
	Time        time.Time
	Msg, ID     string
	Mode, Fleet string
}

func (m *measurer) newLab() (*lab, error) {
	m.labs++
	// The path of an administrators' socket is short, and so is everything above it.
	dir := filepath.Join(m.dir, fmt.Sprint(m.labs))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "none.yaml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		return nil, err
	}
	port, err := freePort("udp4")
	return &lab{m: m, dir: dir, config: config, beacons: port}, err
}

// freePort is one that nobody holds now.
func freePort(network string) (int, error) {
	var last error
	for range 100 {
		port := portLeast + rand.IntN(portMost-portLeast)
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		var c io.Closer
		if strings.HasPrefix(network, "udp") {
			c, last = net.ListenPacket(network, addr)
		} else {
			c, last = net.Listen(network, addr)
		}
		if last == nil {
			return port, c.Close()
		}
	}
	return 0, fmt.Errorf("no free port on loopback: %w", last)
}

// add makes a node without starting it. flags are those beside what keeps the node to loopback and its own folder.
func (l *lab) add(name string, flags ...string) (*node, error) {
	n := &node{lab: l, name: name, dir: filepath.Join(l.dir, name), flags: flags, more: make(chan struct{})}
	for _, p := range []*int{&n.fc, &n.raft, &n.http} {
		for *p == 0 {
			port, err := freePort("tcp4")
			if err != nil {
				return nil, err
			}
			if !l.holds(port) && port != n.fc && port != n.raft {
				*p = port
			}
		}
	}
	l.nodes = append(l.nodes, n)
	return n, nil
}

func (l *lab) holds(port int) bool {
	for _, n := range l.nodes {
		if n.fc == port || n.raft == port || n.http == port {
			return true
		}
	}
	return false
}

// start forks the process and returns at once.
func (n *node) start() error {
	args := append([]string{"--state-dir=" + n.dir, "--name=" + n.name, fmt.Sprintf("--listen=127.0.0.1:%d", n.fc), fmt.Sprintf("--listen-raft=127.0.0.1:%d", n.raft),
		fmt.Sprintf("--discovery=:%d", n.lab.beacons), "--discovery-loopback", fmt.Sprintf("--admin-listen=127.0.0.1:%d", n.http), "--log-format=json",
		// What an installed package or a shell has set for a node of this machine is not for these.
		"--discovery-reply-port=0", "--config=" + n.lab.config}, n.flags...)
	cmd := exec.Command(n.lab.m.binary, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "PACE_") })
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.events, n.tail = nil, nil
	n.mu.Unlock()
	n.began = time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	n.cmd, n.done = cmd, make(chan struct{})
	go func() {
		n.read(pipe)
		cmd.Wait()
		close(n.done)
	}()
	return nil
}

// read takes the log's lines as they come.
func (n *node) read(pipe io.Reader) {
	sc := bufio.NewScanner(pipe)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var e event
		err := json.Unmarshal(sc.Bytes(), &e)
		n.mu.Lock()
		n.tail = append(n.tail, sc.Text())
		if err == nil {
			n.events = append(n.events, e)
		}
		close(n.more)
		n.more = make(chan struct{})
		n.mu.Unlock()
	}
}

// await returns when the first event that matches has happened, by the node's own clock.
func (n *node) await(ctx context.Context, what string, match func(event) bool) (event, error) {
	limit := time.NewTimer(eventTimeout)
	defer limit.Stop()
	at := 0
	for {
		n.mu.Lock()
		events, more := n.events, n.more
		n.mu.Unlock()
		for ; at < len(events); at++ {
			if match(events[at]) {
				return events[at], nil
			}
		}
		select {
		case <-ctx.Done():
			return event{}, ctx.Err()
		case <-more:
		case <-n.done:
			return event{}, fmt.Errorf("%s ended before it said %q:\n%s", n.name, what, n.last())
		case <-limit.C:
			return event{}, fmt.Errorf("%s did not say %q within %s:\n%s", n.name, what, eventTimeout, n.last())
		}
	}
}

// says is await for a message.
func (n *node) says(ctx context.Context, msg string) (event, error) {
	return n.await(ctx, msg, func(e event) bool { return e.Msg == msg })
}

func (n *node) last() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.tail[max(0, len(n.tail)-15):], "\n")
}

// stop ends the process and waits for it.
func (n *node) stop() {
	if n.cmd == nil {
		return
	}
	if n.cmd.Process.Signal(os.Interrupt) != nil {
		n.cmd.Process.Kill()
	}
	select {
	case <-n.done:
	case <-time.After(stopTimeout):
		n.cmd.Process.Kill()
		<-n.done
	}
	n.cmd = nil
}

// close stops every node, all at once, and removes what they wrote.
func (l *lab) close() {
	var wg sync.WaitGroup
	for _, n := range l.nodes {
		wg.Go(n.stop)
	}
	wg.Wait()
	os.RemoveAll(l.dir)
}

func (n *node) admin() *control.Client { return control.DialAdmin(statedir.SocketPath(n.dir)) }

// status is a document of the node, asked over its administrators' socket.
func status[T any](ctx context.Context, n *node, what string) (T, error) {
	var out T
	req, err := json.Marshal(wire.StatusRequest{What: what})
	if err != nil {
		return out, err
	}
	b, err := n.admin().Call(ctx, wire.VerbStatus, req)
	if err != nil {
		return out, fmt.Errorf("%s: %w", n.name, err)
	}
	return out, json.Unmarshal(b, &out)
}

// waiting are the rows of a leader's waiting list.
func (n *node) waiting(ctx context.Context) ([]control.EnrollRow, error) {
	c := wire.EnrollControl{Op: wire.ControlList}
	b, err := n.admin().Call(ctx, wire.VerbEnrollControl, c.Append(nil))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.name, err)
	}
	var list control.EnrollList
	return list.Rows, errors.Join(json.Unmarshal(b, &list), nil)
}

// approve admits one row, as a person's --enroll-approve does.
func (n *node) approve(ctx context.Context, row control.EnrollRow) error {
	key, err := identity.ParsePublicKey(row.Key)
	if err != nil {
		return err
	}
	c := wire.EnrollControl{Op: wire.ControlApprove, Argument: append([]byte(row.ID), key[:]...)}
	_, err = n.admin().Call(ctx, wire.VerbEnrollControl, c.Append(nil))
	return err
}

// arm opens the auto-approve window, which admits also who waits already.
func (n *node) arm(ctx context.Context, seconds int) error {
	c := wire.EnrollControl{Op: wire.ControlWindow, Argument: fmt.Append(nil, seconds)}
	_, err := n.admin().Call(ctx, wire.VerbEnrollControl, c.Append(nil))
	return err
}

// pause waits, or ends with the context.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
