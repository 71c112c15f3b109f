// Command demo starts four real nodes on this machine over loopback and shows the main job: they find one another, the
// younger ones ask the eldest, are admitted, follow it, and are provisioned by it. With -check every step is asserted and
// it ends by itself; otherwise the fleet runs until Ctrl-C. It needs no root and no network card.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

var names = []string{"alder", "birch", "cedar", "dogwood"}

// stepTimeout bounds each step; on an idle machine each takes a few seconds, and on a busy one a try that was lost is made again
// a minute later.
const stepTimeout = 3 * time.Minute

type node struct {
	name, dir, log string
	fc, raft, http int
	cmd            *exec.Cmd
	done           chan struct{}
}

type demo struct {
	binary, helper, dir string
	beacons             int
	nodes               []*node
	check               bool
	began               time.Time
}

func main() {
	binary := flag.String("binary", "build/pace-node", "the pace-node to run")
	check := flag.Bool("check", false, "assert each step and end")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *binary, *check); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary string, check bool) error {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	helper, err := filepath.Abs("docs/examples/helper.sh")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "pace-demo-")
	if err != nil {
		return err
	}
	d := &demo{binary: binary, helper: helper, dir: dir, check: check, began: time.Now()}
	defer d.stop()
	d.say("four nodes of pace-node on this machine, over loopback only; their state and logs are in %s", dir)
	err = d.story(ctx)
	if err != nil && ctx.Err() == nil {
		d.logs()
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (d *demo) story(ctx context.Context) error {
	if err := d.ports(); err != nil {
		return err
	}
	founder := d.nodes[0]
	if err := d.start(ctx, founder); err != nil {
		return err
	}
	d.say("%s runs alone: it founded a fleet of one and serves", founder.name)
	// A fleet's age counts in whole seconds; in the same one, the lower fleet id would be the elder.
	if err := d.until(ctx, "the next second", func() (bool, string) { return time.Since(d.began) > 1100*time.Millisecond, "" }); err != nil {
		return err
	}
	for _, n := range d.nodes[1:] {
		if err := d.start(ctx, n); err != nil {
			return err
		}
	}
	d.say("birch, cedar and dogwood are started: each is a fleet of its own too, and looks for an elder one")

	seen := map[string]bool{}
	err := d.until(ctx, "three machines ask "+founder.name, func() (bool, string) {
		var list struct {
			Rows []struct{ Decision, ID, Name, Key string }
		}
		if err := d.ask(ctx, founder, &list, "--enroll-list"); err != nil {
			return false, err.Error()
		}
		for _, r := range list.Rows {
			if !seen[r.ID] {
				seen[r.ID] = true
				d.say("%s has found %s and asks to join; its key is %s", r.Name, founder.name, r.Key)
			}
		}
		return len(list.Rows) == 3, fmt.Sprintf("%d ask", len(list.Rows))
	})
	if err != nil {
		return err
	}
	fmt.Println()
	if err := d.show(ctx, founder, "--enroll-list"); err != nil {
		return err
	}
	fmt.Println()
	d.say("now a person would compare each key with what --print-identity prints on that machine, and approve it.")
	d.say("this demo stands in for that person: it arms a window of one minute on %s, which admits them unseen", founder.name)
	if err := d.show(ctx, founder, "--enroll-auto-approve=1m"); err != nil {
		return err
	}

	joined := map[string]bool{}
	err = d.until(ctx, "the three are learners of "+founder.name+"'s fleet", func() (bool, string) {
		for _, n := range d.nodes[1:] {
			var st struct {
				Mode   string
				Leader *struct{ Name string }
			}
			if err := d.ask(ctx, n, &st, "pacectl", "node"); err == nil && st.Mode == "learner" && st.Leader != nil && st.Leader.Name != "" && !joined[n.name] {
				joined[n.name] = true
				d.say("%s is a learner: it follows %s", n.name, st.Leader.Name)
			}
		}
		return len(joined) == 3, fmt.Sprintf("%d of 3 follow", len(joined))
	})
	if err != nil {
		return err
	}

	ready := map[string]bool{}
	err = d.until(ctx, "all four are provisioned", func() (bool, string) {
		var st struct {
			Members []struct{ Name, Provisioning string }
		}
		if err := d.ask(ctx, founder, &st, "--cluster-status"); err != nil {
			return false, err.Error()
		}
		for _, m := range st.Members {
			if m.Provisioning == "provisioned" && !ready[m.Name] {
				ready[m.Name] = true
				d.say("%s is provisioned", m.Name)
			}
		}
		return len(ready) == 4, fmt.Sprintf("%d of 4", len(ready))
	})
	if err != nil {
		return err
	}
	for _, n := range d.nodes {
		path := filepath.Join(n.dir, "provisioned", "current", "configuration.json")
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var conf map[string]string
		if err := json.Unmarshal(b, &conf); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if want := "hello, " + n.name; conf["greeting"] != want {
			return fmt.Errorf("%s says %q and not %q", path, conf["greeting"], want)
		}
	}
	d.say("each holds the configuration that the helper gave it (%s)", filepath.Join(d.nodes[3].dir, "provisioned/current/configuration.json"))
	fmt.Println()
	if err := d.show(ctx, founder, "--cluster-status"); err != nil {
		return err
	}
	fmt.Println()
	d.say("done in %.1f s", time.Since(d.began).Seconds())
	if d.check {
		d.say("every step held")
		return nil
	}
	d.hints()
	<-ctx.Done()
	fmt.Println()
	return nil
}

func (d *demo) hints() {
	pacectl := filepath.Join(filepath.Dir(d.binary), "pacectl")
	fmt.Printf("\nThe fleet runs until Ctrl-C. In another terminal, try:\n\n")
	for _, h := range [][2]string{
		{"pacectl node", "what one machine says of itself"},
		{"pacectl fleet status", "the fleet"},
		{"pacectl queue list", "the provisioning queue"},
		{"pacectl queue reprovision birch", "configure one machine again"},
		{"pacectl member forget dogwood", "remove a machine: it becomes a fleet of its own again"},
		{"pacectl audit", "who did what"},
	} {
		words := strings.Fields(h[0])
		fmt.Printf("  %s --state-dir=%s %s\n      # %s\n", pacectl, d.nodes[0].dir, strings.Join(words[1:], " "), h[1])
	}
	fmt.Printf("  curl -s http://127.0.0.1:%d/metrics | grep ^pace_\n\n", d.nodes[0].http)
}

// ports finds free ports for every node, and one that all share for beacons.
func (d *demo) ports() error {
	free := func(network string) (int, error) {
		if network == "udp" {
			c, err := net.ListenPacket("udp4", "127.0.0.1:0")
			if err != nil {
				return 0, err
			}
			defer c.Close()
			return c.LocalAddr().(*net.UDPAddr).Port, nil
		}
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		defer l.Close()
		return l.Addr().(*net.TCPAddr).Port, nil
	}
	var err error
	if d.beacons, err = free("udp"); err != nil {
		return fmt.Errorf("no free port on loopback: %w", err)
	}
	for _, name := range names {
		n := &node{name: name, dir: filepath.Join(d.dir, name), log: filepath.Join(d.dir, name+".log")}
		for _, p := range []*int{&n.fc, &n.raft, &n.http} {
			if *p, err = free("tcp"); err != nil {
				return fmt.Errorf("no free port on loopback: %w", err)
			}
		}
		d.nodes = append(d.nodes, n)
	}
	return nil
}

func (d *demo) start(ctx context.Context, n *node) error {
	log, err := os.Create(n.log)
	if err != nil {
		return err
	}
	defer log.Close()
	n.cmd = exec.Command(d.binary, "--state-dir="+n.dir, "--name="+n.name, fmt.Sprintf("--listen=127.0.0.1:%d", n.fc),
		fmt.Sprintf("--listen-raft=127.0.0.1:%d", n.raft), fmt.Sprintf("--discovery=:%d", d.beacons), "--discovery-loopback",
		"--discovery-reply-port=0", // an installed package pins one, which only one node of a machine can have
		fmt.Sprintf("--admin-listen=127.0.0.1:%d", n.http), "--provision-helper="+d.helper)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.done = make(chan struct{})
	if err := n.cmd.Start(); err != nil {
		return err
	}
	go func() { n.cmd.Wait(); close(n.done) }()
	return d.until(ctx, n.name+" serves", func() (bool, string) {
		var st struct{ Mode string }
		if err := d.ask(ctx, n, &st, "pacectl", "node"); err != nil {
			return false, err.Error()
		}
		return st.Mode != "", "not yet"
	})
}

// command is a verb towards a node: of pace-node, or of pacectl where the first word says so.
func (d *demo) command(ctx context.Context, n *node, words ...string) *exec.Cmd {
	binary := d.binary
	if words[0] == "pacectl" {
		binary, words = filepath.Join(filepath.Dir(d.binary), "pacectl"), words[1:]
	}
	return exec.CommandContext(ctx, binary, append([]string{"--state-dir=" + n.dir}, words...)...)
}

func (d *demo) ask(ctx context.Context, n *node, out any, words ...string) error {
	b, err := d.command(ctx, n, append(words, "--json")...).Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, bytes.TrimSpace(b))
	}
	return json.Unmarshal(b, out)
}

func (d *demo) show(ctx context.Context, n *node, words ...string) error {
	fmt.Printf("$ pace-node %s        # on %s\n", strings.Join(words, " "), n.name)
	b, err := d.command(ctx, n, words...).CombinedOutput()
	fmt.Print(string(b))
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(words, " "), err)
	}
	return nil
}

// until waits for a condition, and says every two seconds what it waits for.
func (d *demo) until(ctx context.Context, what string, done func() (bool, string)) error {
	limit, tell := time.After(stepTimeout), time.NewTicker(2*time.Second)
	defer tell.Stop()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		ok, state := done()
		if ok {
			return nil
		}
		for _, n := range d.nodes {
			if n.done != nil {
				select {
				case <-n.done:
					return fmt.Errorf("%s ended: %s", n.name, n.cmd.ProcessState)
				default:
				}
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit:
			return fmt.Errorf("after %s still waiting for: %s (%s)", stepTimeout, what, state)
		case <-tell.C:
			d.say("waiting for: %s (%s)", what, state)
		case <-poll.C:
		}
	}
}

func (d *demo) say(format string, args ...any) {
	fmt.Printf("%5.1fs  %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}

// logs prints the end of every node's log, for a step that failed.
func (d *demo) logs() {
	for _, n := range d.nodes {
		b, _ := os.ReadFile(n.log)
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		fmt.Printf("\n--- %s\n%s\n", n.log, strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
}

func (d *demo) stop() {
	for _, n := range d.nodes {
		if n.cmd != nil && n.cmd.Process != nil {
			n.cmd.Process.Signal(os.Interrupt)
		}
	}
	for _, n := range d.nodes {
		if n.done == nil {
			continue
		}
		select {
		case <-n.done:
		case <-time.After(20 * time.Second):
			n.cmd.Process.Kill()
			<-n.done
		}
	}
	os.RemoveAll(d.dir)
	if d.nodes != nil {
		d.say("the nodes are stopped and their state is removed")
	}
}
