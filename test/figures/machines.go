package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/enroll"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	whole "pace-node/internal/node"
	"pace-node/internal/statedir"
	"pace-node/internal/version"
	"pace-node/internal/wire"
)

// startsAtOnce is how many machines are started or stopped at the same time: a voter takes so many handshakes at once.
const startsAtOnce = 8

// machines are whole nodes of this process that a leader of another process provisions: each with a key, a TLS session, a
// state directory and its fsyncs. What is left out is a process for each, and raft's fsync in the fleet of one that each is
// before it joins.
type machines struct {
	dir    string
	leader string
	all    []*machine
	fsyncs atomic.Int64 // of the machines' own files, counted at their crash points
}

type machine struct {
	id, key string
	dir     string
	n       *whole.Node
}

// newMachines makes the machines' identities without starting any.
func newMachines(dir, leader string, count int) (*machines, error) {
	ms := &machines{dir: dir, leader: leader, all: make([]*machine, count)}
	err := each(count, func(i int) error {
		path := filepath.Join(dir, fmt.Sprintf("t%03d", i))
		rec, key, err := statedir.Identity(path, statedir.Options{}, statedir.Mint{Entropy: entropy, Now: time.Now()})
		ms.all[i] = &machine{id: rec.NodeID, key: key.String(), dir: path}
		return err
	})
	return ms, err
}

func entropy(b []byte) { rand.Read(b) }

// each runs f for every index, a few at a time, and returns what failed.
func each(count int, f func(i int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, count)
	turn := make(chan struct{}, startsAtOnce)
	for i := range count {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			errs[i] = f(i)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// start starts every machine. Each wants provisioning at every start, so that one fleet can be measured several times.
func (ms *machines) start() error {
	return each(len(ms.all), func(i int) error { return ms.all[i].start(ms) })
}

func (m *machine) start(ms *machines) error {
	s := config.Config{StateDir: m.dir, Name: filepath.Base(m.dir), Labels: map[string]string{}, Listen: "127.0.0.1:0", ListenRaft: "127.0.0.1:0", DiscoveryLoopback: true,
		FleetSeeds: []string{ms.leader},
		Provision:  config.ProvisionConfig{Interval: time.Minute, Workers: 1, Queue: 10, HelperTimeout: 10 * time.Second, Component: wire.ComponentProvision, Mode: "always"}}
	n, err := whole.Start(whole.Config{Settings: s, Network: whole.SystemNetwork{Loopback: true}, Entropy: entropy, Random: mathrand.Float64,
		Facts: func() map[string]any { return map[string]any{} }, Point: ms.point, NoSync: true})
	m.n = n
	return err
}

// point counts what goes to the disk: each crash point of that name stands beside an fsync.
func (ms *machines) point(name string) {
	if strings.Contains(name, "sync") {
		ms.fsyncs.Add(1)
	}
}

func (ms *machines) stop() {
	_ = each(len(ms.all), func(i int) error {
		if n := ms.all[i].n; n != nil {
			n.Stop()
			ms.all[i].n = nil
		}
		return nil
	})
}

// joined waits until every machine is a learner and has applied the fleet's state.
func (ms *machines) joined(ctx context.Context) error {
	return lookUntil(ctx, "every machine follows the fleet", func() (bool, error) {
		for _, m := range ms.all {
			if _, there := m.n.View().Member(m.id); m.n.Mode() != formation.Learner || !there {
				return false, nil
			}
		}
		return true, nil
	})
}

// lookUntil looks again and again.
func lookUntil(ctx context.Context, what string, done func() (bool, error)) error {
	for began := time.Now(); ; {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if time.Since(began) > queuePatience {
			return fmt.Errorf("not within %s: %s", queuePatience, what)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// preapprove records machines as those that are admitted when they ask.
func (n *node) preapprove(ctx context.Context, lines []string) error {
	for len(lines) > 0 {
		part := lines[:min(len(lines), 400)]
		lines = lines[len(part):]
		if err := n.cluster(ctx, wire.ClusterRequest{Op: "admit-learner", Lines: part}); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) cluster(ctx context.Context, r wire.ClusterRequest) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := n.admin().Call(ctx, wire.VerbCluster, b); err != nil {
		return fmt.Errorf("%s: %s: %w", n.name, r.Op, err)
	}
	return nil
}

// queue asks one operation of the queue.
func (n *node) queue(ctx context.Context, op string) error {
	b, err := json.Marshal(wire.QueueRequest{Op: op})
	if err != nil {
		return err
	}
	if _, err := n.admin().Call(ctx, wire.VerbQueue, b); err != nil {
		return fmt.Errorf("%s: queue %s: %w", n.name, op, err)
	}
	return nil
}

// heard waits until the leader has heard so many members, itself included.
func (n *node) heard(ctx context.Context, count int) error {
	return lookUntil(ctx, fmt.Sprintf("the leader has heard all %d members", count), func() (bool, error) {
		st, err := status[control.ClusterStatus](ctx, n, "cluster")
		if err != nil {
			return false, err
		}
		heard := 0
		for _, m := range st.Members {
			if m.Self || m.HeardMS != nil {
				heard++
			}
		}
		return heard >= count, nil
	})
}

// dead are machines that have a session and never answer on it, as one whose cable was pulled after it had asked to be
// provisioned.
type dead struct {
	ids    []string
	keys   []identity.PrivateKey
	hubs   []*netio.Hub
	leader string
	open   []*netio.Session
}

// mute takes every stream and says nothing.
type mute struct{}

func (mute) ServeStream(ctx context.Context, s *netio.Session, _ net.Conn) {
	select {
	case <-ctx.Done():
	case <-s.Done():
	}
}
func (mute) SessionOpened(*netio.Session)        {}
func (mute) SessionClosed(*netio.Session, error) {}

func newDead(leader string, count int) *dead {
	d := &dead{leader: leader}
	for i := range count {
		var seed [32]byte
		entropy(seed[:])
		d.ids = append(d.ids, fmt.Sprintf("dead-%03d", i))
		d.keys = append(d.keys, identity.NewPrivateKey(seed))
	}
	d.hubs, d.open = make([]*netio.Hub, count), make([]*netio.Session, count)
	return d
}

func (d *dead) lines() (out []string) {
	for i, id := range d.ids {
		out = append(out, identity.FormatAdmit(id, d.keys[i].Public()))
	}
	return out
}

// join has every one ask, and keeps the session on which it was admitted.
func (d *dead) join(ctx context.Context, cluster string) error {
	return each(len(d.ids), func(i int) error {
		ctx, cancel := context.WithTimeout(ctx, eventTimeout)
		defer cancel()
		d.hubs[i] = netio.NewHub(netio.HubConfig{Key: d.keys[i], Handler: mute{}, Loopback: true,
			Admission: netio.AdmissionFacts{Known: func(identity.PublicKey) bool { return true }, Member: func(identity.PublicKey) bool { return true }}})
		s, err := d.hubs[i].Dial(ctx, d.leader, nil)
		if err != nil {
			return err
		}
		d.open[i] = s
		hello := func() error {
			b, err := json.Marshal(wire.Hello{ID: d.ids[i], Name: d.ids[i], Platform: version.Platform(), Version: version.Version, Wire: []int{wire.ProtocolVersion}, Format: 1,
				ClockMS: time.Now().UnixMilli()})
			if err == nil {
				_, err = netio.Call(ctx, s, wire.VerbHello, b)
			}
			return err
		}
		if err := hello(); err != nil {
			return err
		}
		var nonce [32]byte
		entropy(nonce[:])
		ask := enroll.NewAsk([]identity.PublicKey{s.Peer()}, cluster, d.ids[i], d.keys[i].Public(), "127.0.0.1:1", nonce)
		for range 3 {
			r := ask.Request(d.keys[i])
			b, err := netio.Call(ctx, s, wire.VerbEnroll, r.Append(nil))
			if err != nil {
				return err
			}
			answer, err := wire.DecodeEnrollAnswer(b)
			if err != nil {
				return err
			}
			outcome, err := ask.Answer(answer)
			switch {
			case err != nil:
				return err
			case outcome == wire.OutcomeApproved:
				return hello()
			}
			entropy(nonce[:])
			ask = ask.Again(nonce, "127.0.0.1:1")
		}
		return fmt.Errorf("%s was not admitted", d.ids[i])
	})
}

// tell has every one say that it has started and wants provisioning.
func (d *dead) tell(ctx context.Context, cluster string) error {
	return each(len(d.ids), func(i int) error {
		e := wire.StartupEvent{Cluster: cluster, Node: d.ids[i], Component: wire.ComponentProvision, Sequence: 1, At: uint64(time.Now().Unix()), Version: version.Version}
		e.BootID[7], e.BootID[15] = 1, byte(i)
		e.Signature = d.keys[i].Sign(e.Message())
		b, err := netio.Call(ctx, d.open[i], wire.VerbStartupEvent, e.Append(nil))
		if err != nil {
			return err
		}
		answer, err := wire.DecodeDocument[wire.StartupEventAnswer](b)
		if err == nil && !answer.Admitted {
			err = fmt.Errorf("the event of %s is refused: %s", d.ids[i], answer.Refused)
		}
		return err
	})
}

func (d *dead) close() {
	for _, h := range d.hubs {
		if h != nil {
			h.Close()
		}
	}
}
