package main

import (
	"cmp"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// binarySize is the size of the file; one with symbols in it is refused, for it is not what is shipped.
func binarySize(_ context.Context, m *measurer, _ group) error {
	fi, err := os.Stat(m.binary)
	if err != nil {
		return err
	}
	if f, err := elf.Open(m.binary); err == nil {
		defer f.Close()
		if f.Section(".symtab") != nil {
			return fmt.Errorf("%s is not stripped; build it with make build/pace-node", m.binary)
		}
	}
	m.add("size", float64(fi.Size()))
	return nil
}

// starts measures from the fork until /readyz answers 200: the state is loaded and every socket bound.
func starts(ctx context.Context, m *measurer, _ group) error {
	for range m.runs(15) {
		if err := startTwice(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

func startTwice(ctx context.Context, m *measurer) error {
	l, err := m.newLab()
	if err != nil {
		return err
	}
	defer l.close()
	n, err := l.add("alder")
	if err != nil {
		return err
	}
	for _, id := range []string{"start-first", "start-again"} {
		if err := n.start(); err != nil {
			return err
		}
		at, err := n.ready(ctx)
		if err != nil {
			return err
		}
		m.add(id, float64(at.Sub(n.began)))
		n.stop()
	}
	return nil
}

// ready is when /readyz first answered 200. Until its socket is bound a try costs one refused connection.
func (n *node) ready(ctx context.Context) (time.Time, error) {
	addr := fmt.Sprintf("127.0.0.1:%d", n.http)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	for time.Since(n.began) < eventTimeout {
		if c, err := net.Dial("tcp4", addr); err == nil {
			c.Close()
			resp, err := client.Get("http://" + addr + "/readyz")
			if err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					return time.Now(), nil
				}
			}
		}
		select {
		case <-n.done:
			return time.Time{}, fmt.Errorf("%s ended before it was ready:\n%s", n.name, n.last())
		default:
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return time.Time{}, err
		}
	}
	return time.Time{}, fmt.Errorf("%s was not ready within %s:\n%s", n.name, eventTimeout, n.last())
}

// trivialHelper is the least that a helper can do.
const trivialHelper = "#!/bin/sh\ncat >/dev/null\necho '{\"configuration\":{\"greeting\":\"hello\"}}'\n"

// settle is how long the elder of two nodes has run when the younger starts: a fleet's age counts in whole seconds, and
// what a start itself causes is over.
const settle = 3 * time.Second

// pairs measures two nodes several times, each time with new ones.
func pairs(ctx context.Context, m *measurer, _ group) error {
	for range m.runs(9) {
		l, err := m.newLab()
		if err != nil {
			return err
		}
		p := pair{lab: l}
		err = p.join(ctx, true)
		l.close()
		if err != nil {
			return err
		}
		m.add("ask", float64(p.ask))
		m.add("join", float64(p.joined))
		m.add("provisioned", float64(p.provisioned))
	}
	return nil
}

// pair is two nodes, the younger of which joins the elder.
type pair struct {
	lab                      *lab
	elder, younger           *node
	ask, joined, provisioned time.Duration
}

func (p *pair) join(ctx context.Context, provision bool) error {
	helper := filepath.Join(p.lab.dir, "helper")
	if err := os.WriteFile(helper, []byte(trivialHelper), 0o755); err != nil {
		return err
	}
	var flags []string
	if provision {
		flags = []string{"--provision-helper=" + helper}
	}
	var err error
	if p.elder, err = p.lab.add("alder", flags...); err != nil {
		return err
	}
	if p.younger, err = p.lab.add("birch"); err != nil {
		return err
	}
	if err := p.elder.start(); err != nil {
		return err
	}
	if _, err := p.elder.says(ctx, sayServes); err != nil {
		return err
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	if err := p.younger.start(); err != nil {
		return err
	}
	asked, err := p.elder.await(ctx, idWaiting, func(e event) bool { return e.Msg == sayRaised && e.ID == idWaiting })
	if err != nil {
		return err
	}
	p.ask = asked.Time.Sub(p.younger.began)
	list, err := p.elder.waiting(ctx)
	if err != nil {
		return err
	}
	if len(list) != 1 {
		return fmt.Errorf("%d machines wait, want one", len(list))
	}
	// A person is slower than the write of the row; so is this.
	if err := pause(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	began := time.Now()
	if err := p.elder.approve(ctx, list[0]); err != nil {
		return err
	}
	applied, err := p.younger.says(ctx, sayApplied)
	if err != nil {
		return err
	}
	p.joined = applied.Time.Sub(began)
	if !provision {
		return nil
	}
	confirmed, err := p.younger.says(ctx, sayConfirmed)
	p.provisioned = confirmed.Time.Sub(applied.Time)
	return err
}

// listFull is how many rows a waiting list holds; the rest is told to ask again.
const listFull = 64

func powerOn(ctx context.Context, m *measurer, _ group) error {
	for _, p := range powered {
		nodes, runs := p.nodes, m.runs(p.runs)
		if m.quick {
			nodes = 3
		}
		for range runs {
			m.say("%d nodes", nodes)
			if err := powerOnce(ctx, m, p.nodes, nodes); err != nil {
				return fmt.Errorf("%d nodes: %w", nodes, err)
			}
		}
	}
	return nil
}

// powerOnce starts all nodes in one go, waits until the fleet that wins has heard them ask, admits them by its window, and
// waits until every one of them has applied its state. figure is the row's number of nodes.
func powerOnce(ctx context.Context, m *measurer, figure, count int) error {
	l, err := m.newLab()
	if err != nil {
		return err
	}
	defer l.close()
	for i := range count {
		if _, err := l.add(fmt.Sprintf("n%03d", i)); err != nil {
			return err
		}
	}
	began := time.Now()
	for _, n := range l.nodes {
		if err := n.start(); err != nil {
			return err
		}
	}
	for _, n := range l.nodes {
		if _, err := n.says(ctx, sayServes); err != nil {
			return err
		}
	}
	founder, err := l.eldest(ctx)
	if err != nil {
		return err
	}
	for want := min(count-1, listFull); ; {
		list, err := founder.waiting(ctx)
		if err != nil {
			return err
		}
		if len(list) >= want {
			break
		}
		if time.Since(began) > 2*eventTimeout {
			return fmt.Errorf("only %d of %d asked within %s", len(list), want, 2*eventTimeout)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	approved := time.Now()
	if err := founder.arm(ctx, 3600); err != nil {
		return err
	}
	last := approved
	for _, n := range l.nodes {
		if n == founder {
			continue
		}
		e, err := n.says(ctx, sayApplied)
		if err != nil {
			return err
		}
		if e.Time.After(last) {
			last = e.Time
		}
	}
	st, err := status[control.ClusterStatus](ctx, founder, "cluster")
	if err != nil {
		return err
	}
	if len(st.Members) != count {
		return fmt.Errorf("the fleet has %d members, want %d", len(st.Members), count)
	}
	m.add(fmt.Sprintf("power-%d", figure), float64(last.Sub(approved)))
	m.add(fmt.Sprintf("power-%d-all", figure), float64(last.Sub(began)))
	if figure == powered[len(powered)-1].nodes {
		rss, err := founder.rss()
		if err != nil {
			return err
		}
		m.add("power-100-rss", rss)
		return l.commitToAll(ctx, m, founder)
	}
	return nil
}

// commitToAll makes a setting on the founder and waits until every learner has it. When each had is read off its file
// afterwards, so that nothing is polled while it is measured.
func (l *lab) commitToAll(ctx context.Context, m *measurer, founder *node) error {
	if err := pause(ctx, settle); err != nil {
		return err
	}
	req, err := json.Marshal(wire.ClusterRequest{Op: "set", Name: "enrollment.per-source", Value: "8"})
	if err != nil {
		return err
	}
	began := time.Now()
	b, err := founder.admin().Call(ctx, wire.VerbCluster, req)
	if err != nil {
		return fmt.Errorf("%s: %w", founder.name, err)
	}
	var done wire.ClusterAnswer
	if err := json.Unmarshal(b, &done); err != nil {
		return err
	}
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	last := began
	for _, n := range l.nodes {
		if n == founder {
			continue
		}
		for {
			st, err := status[control.ClusterStatus](ctx, n, "cluster")
			if err != nil {
				return err
			}
			if st.View.Revision >= done.Revision {
				break
			}
			if time.Since(began) > eventTimeout {
				return fmt.Errorf("%s has revision %d of %d after %s", n.name, st.View.Revision, done.Revision, eventTimeout)
			}
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
		fi, err := os.Stat(filepath.Join(n.dir, statedir.FollowDir, "log"))
		if err != nil {
			return err
		}
		if fi.ModTime().After(last) {
			last = fi.ModTime()
		}
	}
	m.add("power-100-commit", float64(last.Sub(began)))
	return nil
}

// eldest is whom all others will join: the fleet that was made first, of those of one second the lowest id. A node's own
// fleet is as it was made until it joins another, which nobody does before an approval.
func (l *lab) eldest(ctx context.Context) (*node, error) {
	type own struct {
		n       *node
		created uint64
		cluster string
	}
	var all []own
	for _, n := range l.nodes {
		st, err := status[control.ClusterStatus](ctx, n, "cluster")
		if err != nil {
			return nil, err
		}
		all = append(all, own{n, st.Created, st.Cluster})
	}
	first := slices.MinFunc(all, func(a, b own) int {
		return cmp.Or(cmp.Compare(a.created, b.created), strings.Compare(a.cluster, b.cluster))
	})
	return first.n, nil
}

// idle watches a fleet of one and a fleet of two, on ports of their own, while nothing happens.
func idle(ctx context.Context, m *measurer, _ group) error {
	alone, err := m.newLab()
	if err != nil {
		return err
	}
	defer alone.close()
	solitary, err := alone.add("cedar")
	if err != nil {
		return err
	}
	if err := solitary.start(); err != nil {
		return err
	}
	if _, err := solitary.says(ctx, sayServes); err != nil {
		return err
	}
	two, err := m.newLab()
	if err != nil {
		return err
	}
	defer two.close()
	p := pair{lab: two}
	if err := p.join(ctx, true); err != nil {
		return err
	}
	quiet, watch := 10*time.Second, idleFor
	if m.quick {
		quiet, watch = time.Second, time.Second
	}
	if err := pause(ctx, quiet); err != nil {
		return err
	}
	nodes := map[string]*node{"solitary": solitary, "founder": p.elder, "learner": p.younger}
	before := map[string]float64{}
	began := time.Now()
	for id, n := range nodes {
		if before[id], err = n.cpu(); err != nil {
			return err
		}
	}
	if err := pause(ctx, watch); err != nil {
		return err
	}
	for id, n := range nodes {
		after, err := n.cpu()
		if err != nil {
			return err
		}
		m.add("cpu-"+id, 100*(after-before[id])/float64(time.Since(began)))
		rss, err := n.rss()
		if err != nil {
			return err
		}
		m.add("rss-"+id, rss)
	}
	return nil
}

var errProc = errors.New("memory and processor time of a process are read from Linux's /proc")

// rss is the resident memory in bytes.
func (n *node) rss() (float64, error) { return n.memory("VmRSS:") }

// memory is a line of the process' status in bytes.
func (n *node) memory(row string) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errProc, err)
	}
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, row); ok {
			kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")), 64)
			return kb * 1024, err
		}
	}
	return 0, errProc
}

// cpu is the processor time of all threads in nanoseconds, as the scheduler accounts it: clock ticks of 10 ms would be
// too coarse for a process that uses a few milliseconds a minute.
func (n *node) cpu() (float64, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", n.cmd.Process.Pid))
	if err != nil || len(tasks) == 0 {
		return 0, errors.Join(errProc, err)
	}
	var sum float64
	for _, path := range tasks {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // a thread that has just ended
		}
		first, _, _ := strings.Cut(string(b), " ")
		ns, err := strconv.ParseFloat(first, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		sum += ns
	}
	return sum, nil
}
