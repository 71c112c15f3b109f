package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/wire"
)

// How the queue is measured.
const (
	liveMachines = 400
	deadMachines = 500
	amongDead    = 20
	failMachines = 40
	workersLive  = 32 // a worker waits for a machine most of the time
	workersDead  = 4
	// sayProvisions and sayBegins are lines of a leader's log.
	sayProvisions = "machine provisioned"
	sayBegins     = "leadership gained: provisioning begins"
)

// sizes of what is measured; -quick shows only that it works.
type provisionSizes struct{ live, dead, among, fail int }

// provisionQueue measures leaders and the machines that they provision: real sessions and whole targets, a process of the
// binary for each voter and this one for the machines.
func provisionQueue(ctx context.Context, m *measurer, _ group) error {
	sizes := provisionSizes{liveMachines, deadMachines, amongDead, failMachines}
	if m.quick {
		sizes = provisionSizes{4, 4, 2, 2}
	}
	for _, part := range []struct {
		name    string
		measure func(context.Context, *measurer, provisionSizes) error
		rows    []string
	}{
		{"live machines", provisionLive, []string{"prov-helper", "prov-default", "prov-memory", "prov-cpu-leader", "prov-cpu-machines", "prov-ceiling"}},
		{"machines on the disk", provisionDisk, []string{"prov-disk"}},
		{"dead machines and the latency", provisionDead, []string{"prov-dead", "prov-latency"}},
		{"another leader", provisionFailover, []string{"prov-failover", "prov-failover-all"}},
	} {
		if !slices.ContainsFunc(part.rows, func(id string) bool { return m.wanted[id] }) {
			continue
		}
		if err := part.measure(ctx, m, sizes); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// founder adds and starts a leader with a trivial helper.
func (l *lab) founder(ctx context.Context, workers int) (*node, error) {
	helper := filepath.Join(l.dir, "helper")
	if err := os.WriteFile(helper, []byte(trivialHelper), 0o755); err != nil {
		return nil, err
	}
	n, err := l.add("alder", "--provision-helper="+helper, fmt.Sprintf("--provision-workers=%d", workers))
	if err != nil {
		return nil, err
	}
	if err := n.start(); err != nil {
		return nil, err
	}
	_, err = n.says(ctx, sayServes)
	return n, err
}

func (n *node) endpoint() string { return fmt.Sprintf("127.0.0.1:%d", n.fc) }

// again starts a stopped process anew, with these flags.
func (n *node) again(ctx context.Context, flags []string) error {
	n.stop()
	n.flags = flags
	if err := n.start(); err != nil {
		return err
	}
	_, err := n.says(ctx, sayServes)
	return err
}

// queuePatience is how long hundreds of machines may take for one thing; on a machine that does nothing else it is seconds.
const queuePatience = 10 * time.Minute

// times are when the node has said a message, once it has done so often enough: by the log's own times.
func (n *node) times(ctx context.Context, msg string, count int, match func(event) bool) (out []time.Time, err error) {
	at := 0
	err = lookUntil(ctx, fmt.Sprintf("%s says %q %d times", n.name, msg, count), func() (bool, error) {
		all := n.said()
		for ; at < len(all); at++ {
			if e := all[at]; e.Msg == msg && (match == nil || match(e)) {
				out = append(out, e.Time)
			}
		}
		select {
		case <-n.done:
			return false, fmt.Errorf("%s ended:\n%s", n.name, n.last())
		default:
			return len(out) >= count, nil
		}
	})
	return out, err
}

// crowd makes machines in a folder, has the leader admit them, and waits until all follow it, with the queue paused.
func (l *lab) crowd(ctx context.Context, leader *node, dir string, count int) (*machines, error) {
	ms, err := newMachines(dir, leader.endpoint(), count)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, x := range ms.all {
		lines = append(lines, x.id+"@"+x.key)
	}
	if err := leader.preapprove(ctx, lines); err != nil {
		return nil, err
	}
	if err := leader.queue(ctx, "pause"); err != nil {
		return nil, err
	}
	l.m.say("%d machines join", count)
	if err := ms.start(); err != nil {
		ms.stop()
		return nil, err
	}
	if err := ms.joined(ctx); err != nil {
		ms.stop()
		return nil, err
	}
	return ms, nil
}

// memoryFolder is a file system without a disk, so that hundreds of machines do not share one; the temporary folder where
// the system has none.
func memoryFolder(m *measurer) (string, error) {
	if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() {
		return os.MkdirTemp("/dev/shm", "pace-figures-")
	}
	return os.MkdirTemp(m.dir, "t")
}

// rate resumes the queue and returns how many machines a second were provisioned until the last had confirmed.
func (m *measurer) rate(ctx context.Context, id string, leader *node, ms *machines) error {
	count := len(ms.all)
	if err := leader.heard(ctx, count+1); err != nil {
		return err
	}
	own := ownCPU()
	theirs, err := leader.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := leader.queue(ctx, "resume"); err != nil {
		return err
	}
	done, err := leader.times(ctx, sayProvisions, count, nil)
	if err != nil {
		return err
	}
	rate := float64(count) / done[len(done)-1].Sub(began).Seconds()
	after, err := leader.cpu()
	if err != nil {
		return err
	}
	m.add(id, rate)
	m.say("%s: %.0f a second", id, rate)
	if id == "prov-helper" {
		lead, rest := (after-theirs)/float64(count), (ownCPU()-own)/float64(count)
		m.add("prov-cpu-leader", lead)
		m.add("prov-cpu-machines", rest)
		m.add("prov-ceiling", float64(runtime.NumCPU())*float64(time.Second)/(lead+rest+median(m.limits["fork"])))
	}
	return nil
}

// provisionLive measures the rate with a helper and with a default, and the leader's memory.
func provisionLive(ctx context.Context, m *measurer, sizes provisionSizes) error {
	l, err := m.newLab()
	if err != nil {
		return err
	}
	defer l.close()
	leader, err := l.founder(ctx, workersLive)
	if err != nil {
		return err
	}
	folder, err := memoryFolder(m)
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	ms, err := l.crowd(ctx, leader, folder, sizes.live)
	if err != nil {
		return err
	}
	defer ms.stop()
	answer := filepath.Join(l.dir, "default.json")
	if err := os.WriteFile(answer, []byte(`{"configuration":{"greeting":"hello"}}`), 0o600); err != nil {
		return err
	}
	helper := leader.flags
	byDefault := []string{"--provision-default=" + answer, helper[1]}
	for i, run := range []struct {
		id    string
		flags []string
	}{{"prov-helper", helper}, {"prov-helper", helper}, {"prov-default", byDefault}, {"prov-default", byDefault}} {
		if run.id == "prov-default" && !m.wanted[run.id] {
			break
		}
		if i > 0 { // the hold of the run before is in the leader's memory, and a machine asks at each of its starts
			ms.stop()
			if err := leader.again(ctx, run.flags); err != nil {
				return err
			}
			if err := leader.queue(ctx, "pause"); err != nil {
				return err
			}
			if err := ms.start(); err != nil {
				return err
			}
		}
		if err := m.rate(ctx, run.id, leader, ms); err != nil {
			return err
		}
		if run.id == "prov-helper" {
			peak, err := leader.memory("VmHWM:")
			if err != nil {
				return err
			}
			m.add("prov-memory", peak)
		}
	}
	return nil
}

// provisionDisk is the same with the machines' state on this machine's one disk.
func provisionDisk(ctx context.Context, m *measurer, sizes provisionSizes) error {
	l, err := m.newLab()
	if err != nil {
		return err
	}
	defer l.close()
	leader, err := l.founder(ctx, workersLive)
	if err != nil {
		return err
	}
	ms, err := l.crowd(ctx, leader, filepath.Join(l.dir, "t"), min(sizes.live, 100))
	if err != nil {
		return err
	}
	defer ms.stop()
	before := ms.fsyncs.Load()
	if err := m.rate(ctx, "prov-disk", leader, ms); err != nil {
		return err
	}
	m.say("%.1f fsyncs a machine", float64(ms.fsyncs.Load()-before)/float64(len(ms.all)))
	return nil
}

// provisionDead measures the latency of a machine in an idle fleet, and then live ones among many that have gone silent.
func provisionDead(ctx context.Context, m *measurer, sizes provisionSizes) error {
	l, err := m.newLab()
	if err != nil {
		return err
	}
	defer l.close()
	leader, err := l.founder(ctx, workersDead)
	if err != nil {
		return err
	}
	folder, err := memoryFolder(m)
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	ms, err := l.crowd(ctx, leader, folder, sizes.among)
	if err != nil {
		return err
	}
	defer ms.stop()
	st, err := status[control.ClusterStatus](ctx, leader, "cluster")
	if err != nil {
		return err
	}
	d := newDead(leader.endpoint(), sizes.dead)
	defer d.close()
	if err := leader.preapprove(ctx, d.lines()); err != nil {
		return err
	}
	m.say("%d machines ask and go silent", sizes.dead)
	if err := d.join(ctx, st.Cluster); err != nil {
		return err
	}
	if err := leader.heard(ctx, sizes.among+sizes.dead+1); err != nil {
		return err
	}
	if err := leader.queue(ctx, "resume"); err != nil {
		return err
	}
	began := time.Now()
	if err := d.tell(ctx, st.Cluster); err != nil {
		return err
	}
	live := map[string]bool{}
	for _, x := range ms.all {
		live[x.id] = true
	}
	done, err := leader.times(ctx, sayProvisions, sizes.among, func(e event) bool { return live[e.ID] })
	if err != nil {
		return err
	}
	m.add("prov-dead", float64(done[len(done)-1].Sub(began)))
	d.close()
	return m.latency(ctx, leader, ms)
}

// latency restarts one machine several times in the idle fleet and takes from the leader's histogram what passes between
// the sighting and the committed confirmation, without the helper.
func (m *measurer) latency(ctx context.Context, leader *node, ms *machines) error {
	if err := pause(ctx, settle); err != nil {
		return err
	}
	one := ms.all[0]
	said := 0
	for _, e := range leader.said() {
		if e.Msg == sayProvisions && e.ID == one.id {
			said++
		}
	}
	for range m.runs(9) {
		before, err := leader.series(ctx)
		if err != nil {
			return err
		}
		one.n.Stop()
		if err := one.start(ms); err != nil {
			return err
		}
		said++
		if _, err := leader.times(ctx, sayProvisions, said, func(e event) bool { return e.ID == one.id }); err != nil {
			return err
		}
		after, err := leader.series(ctx)
		if err != nil {
			return err
		}
		delta := func(name string) float64 { return after[name] - before[name] }
		if delta("pace_provision_sighting_to_done_seconds_count") != 1 {
			continue // another machine was provisioned too
		}
		m.add("prov-latency", float64(time.Second)*(delta("pace_provision_sighting_to_done_seconds_sum")-delta("pace_provision_helper_seconds_sum")))
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// said are the events of the node's log.
func (n *node) said() []event {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.events
}

// series are the node's metrics.
func (n *node) series(ctx context.Context) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", n.http), nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := map[string]float64{}
	for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
		if name, value, ok := strings.Cut(sc.Text(), " "); ok && strings.HasPrefix(name, "pace_") {
			if out[name], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// provisionFailover kills the leader of three voters while it provisions.
func provisionFailover(ctx context.Context, m *measurer, sizes provisionSizes) error {
	l, err := m.newLab()
	if err != nil {
		return err
	}
	defer l.close()
	leader, err := l.founder(ctx, workersDead)
	if err != nil {
		return err
	}
	if err := pause(ctx, settle); err != nil { // it is the elder
		return err
	}
	if err := leader.arm(ctx, 3600); err != nil {
		return err
	}
	for i, name := range []string{"birch", "cedar"} {
		v, err := l.add(name, append([]string{"--fleet-seed=" + leader.endpoint()}, leader.flags...)...)
		if err != nil {
			return err
		}
		if err := v.start(); err != nil {
			return err
		}
		if _, err := v.says(ctx, sayApplied); err != nil {
			return err
		}
		st, err := status[control.NodeStatus](ctx, v, "node")
		if err != nil {
			return err
		}
		if err := leader.cluster(ctx, wire.ClusterRequest{Op: "admit", ID: st.NodeID, Endpoint: fmt.Sprintf("127.0.0.1:%d", v.raft)}); err != nil {
			return err
		}
		if err := lookUntil(ctx, name+" is a voter", func() (bool, error) {
			st, err := status[control.NodeStatus](ctx, leader, "node")
			return err == nil && st.Voters == i+2, err
		}); err != nil {
			return err
		}
	}
	folder, err := memoryFolder(m)
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	ms, err := l.crowd(ctx, leader, folder, sizes.fail)
	if err != nil {
		return err
	}
	defer ms.stop()
	mine := map[string]bool{}
	for _, x := range ms.all {
		mine[x.id] = true
	}
	if err := leader.queue(ctx, "resume"); err != nil {
		return err
	}
	match := func(e event) bool { return mine[e.ID] }
	if _, err := leader.times(ctx, sayProvisions, max(1, sizes.fail/4), match); err != nil {
		return err
	}
	killed := time.Now()
	if err := leader.cmd.Process.Kill(); err != nil {
		return err
	}
	<-leader.done
	begins := func(v *node) (time.Time, bool) {
		for _, e := range v.said() {
			if e.Msg == sayBegins && e.Time.After(killed) {
				return e.Time, true
			}
		}
		return time.Time{}, false
	}
	if err := lookUntil(ctx, "another voter provisions", func() (bool, error) {
		for _, v := range l.nodes[1:] {
			if at, ok := begins(v); ok {
				m.add("prov-failover", float64(at.Sub(killed)))
				return true, nil
			}
		}
		return false, nil
	}); err != nil {
		return err
	}
	return lookUntil(ctx, "the next leader finishes every machine", func() (bool, error) {
		for _, x := range ms.all {
			if r, _ := x.n.View().Member(x.id); r.Provision.LastSuccess == 0 {
				return false, nil
			}
		}
		m.add("prov-failover-all", float64(time.Since(killed)))
		return true, nil
	})
}
