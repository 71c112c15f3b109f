package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"pace-node/internal/consensus"
	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/netio"
	"pace-node/internal/target"
	"pace-node/internal/version"
)

// serve starts every goroutine; from here on Stop ends them.
func (n *Node) serve() {
	n.metrics.SetSource(n.measure)
	now := time.Now()
	n.turned.Store(int64(now.Sub(n.started)))
	n.sayInterfaces()
	n.relisted = now
	n.publish(now)
	n.refreshSelf(now)
	n.showOwn()
	n.body.start()
	n.leadership(now)
	n.sayStart()
	// Before anything is served that tells where it listens.
	if n.cfg.Settings.AdminListen != "" {
		n.page = n.startPage()
		n.http = control.StartHTTP(control.HTTPConfig{Addr: n.cfg.Settings.AdminListen, Metrics: n.metrics, Health: n.health, Board: n.board, Logger: n.log,
			Page: n.page, TLS: n.credentials.TLS(), Token: n.credentials.HasToken(),
			Hosts: func() []string { return []string{n.name, n.cfg.HostName, n.advertisedHost} }, Listen: func(_, address string) (net.Listener, error) { return n.cfg.Network.Listen(address) }})
	}
	n.recoveryDone(n.body)
	leaving := n.rec.Leaving // the loop's from here on
	go n.loop()
	n.serving0.Go(func() {
		if err := n.hub.Serve(n.fcListener); err != nil && n.ctx.Err() == nil {
			n.fail(fmt.Errorf("the 0xFC endpoint stopped: %w", err))
		}
	})
	if w, ok := n.cfg.Network.(LinkWatcher); ok {
		var told atomic.Bool // a burst is one change
		n.serving0.Go(func() {
			if err := w.WatchLinks(n.ctx, func() {
				if told.CompareAndSwap(false, true) {
					n.post(func(now time.Time) {
						told.Store(false)
						n.linksChanged(now)
					})
				}
			}); err != nil {
				n.log.Info("this system does not tell of link changes; interfaces are listed now and then", "every", relistPeriod.String(), "error", err.Error())
			}
		})
	}
	if n.cfg.AdminSocket != "" {
		n.serving0.Go(func() {
			if err := n.server.ServeAdmin(n.adminListener); err != nil && n.ctx.Err() == nil {
				n.log.Error("administrators' socket stopped", "error", err.Error())
			}
		})
	}
	n.step1(tick)
	if leaving {
		n.effect(n.goOnLeaving)
	}
}

func (n *Node) step1(e formation.Event) { n.post(func(now time.Time) { n.step(now, e) }) }

// sayStart is the start-up line: every surface.
func (n *Node) sayStart() {
	attrs := []any{"version", version.Version, "node-id", n.id, "name", n.name, "mode", n.mode.Load().String(), "fleet", n.rec.Cluster, "key", n.key.Public().String(),
		"listen", n.fcListener.Addr().String(), "advertised", n.fcEndpoint(), "state-dir", n.dir.Path(), "admin-socket", n.cfg.AdminSocket, "admin-listen", cmp.Or(n.adminAddr(), n.cfg.Settings.AdminListen)}
	if n.body.cons != nil {
		attrs = append(attrs, "listen-raft", n.body.layer.Addr().String())
	}
	if n.port != nil {
		attrs = append(attrs, "discovery-beacons", n.port.ListenerAddr().String(), "discovery-answers", n.port.AnsweringAddr().String())
	} else {
		attrs = append(attrs, "discovery-beacons", "off")
	}
	if len(n.typedSeeds) > 0 {
		seeds := make([]string, len(n.typedSeeds))
		for i, s := range n.typedSeeds {
			seeds[i] = s.Endpoint
		}
		attrs = append(attrs, "seeds", seeds)
	}
	if n.pin != nil {
		attrs = append(attrs, "fleet-pin", n.pin.String())
	}
	n.log.Info("pace-node serves", attrs...)
	n.feed.Add(control.Event{Kind: control.EventNode, What: "serves", ID: n.id, Name: n.name, Detail: "version " + version.Version + ", " + n.mode.Load().String() + " of fleet " + n.rec.Cluster})
}

func (n *Node) datagrams() <-chan netio.Received {
	if n.port == nil {
		return nil
	}
	return n.port.Receive()
}

// beat does what has no deadline of its own.
func (n *Node) beat(now time.Time) {
	n.turned.Store(int64(now.Sub(n.started)))
	n.due(now)
	n.step(now, tick)
	n.tickList(now)
	if n.list.Waiting() > 0 || n.board.Raised("enrollment-window-open") {
		n.listChanged(now)
	}
	if now.Sub(n.relisted) >= relistPeriod {
		n.readdress(now)
	}
	n.publish(now)
	n.greetMembers(now)
	n.backup.drop(now)
	n.showElsewhere(now)
	n.heal(now)
	n.reachFleet(now)
	n.showCloned(now)
	if !n.versionSeen.IsZero() && now.Sub(n.versionSeen) > seenFor {
		n.board.Clear("wire-version-seen")
	}
	if b := n.body; b != nil {
		silent := n.leaderSilent()
		n.board.Set(silent >= leaderSilence, "consensus-leader-silent", fmt.Sprintf("no leader was heard for %s", silent.Truncate(time.Second)))
		offset, known := b.clockOffset(now)
		n.board.Set(known && offset.Abs() > fleet.LeaseSlack, "clock-skewed", skewText(offset))
	}
	if err := n.body.writeErr(); err != nil {
		n.board.Raise("consensus-store-unwritable", err.Error(), n.dir.Path())
	} else {
		n.board.Clear("consensus-store-unwritable")
	}
	if b := n.body; b != nil && b.cons != nil && b.cons.Err() != nil {
		id := "fleet-format-newer"
		if errors.Is(b.cons.Err(), consensus.ErrDiverged) {
			id = "fleet-state-differs"
		}
		n.board.Raise(id, b.cons.Err().Error())
	}
	n.lookAtDir(now)
	n.lookAtConfiguration(now)
	n.lookAtProofs(now)
	n.keepTelling(now)
	n.keepAlerting(now)
	n.board.Say()
}

// lookAtDir has the state directory looked at, off the loop: one that was removed under a running node, or that is about to
// be full, is said while something can still be done about it.
func (n *Node) lookAtDir(now time.Time) {
	if n.dirLooking || now.Sub(n.dirLooked) < dirPeriod {
		return
	}
	n.dirLooked, n.dirLooking = now, true
	n.effect(func(context.Context) {
		lost := n.dir.Lost()
		room, err := n.dir.Room()
		n.post(func(time.Time) {
			n.dirLooking = false
			if n.board.Set(lost != nil, "state-dir-lost", "what this node keeps from now on is lost with its next end: "+errText(lost), n.dir.Path()); lost != nil || err != nil {
				return
			}
			n.board.Set(room.Low(n.board.Raised("state-dir-nearly-full")), "state-dir-nearly-full", fmt.Sprintf("%d MiB of %d MiB are free", room.Free>>20, room.Size>>20), n.dir.Path())
		})
	})
}

// lookAtConfiguration has what is provisioned looked at, off the loop.
func (n *Node) lookAtConfiguration(now time.Time) {
	if n.configLooking || now.Sub(n.configLooked) < target.LookEvery {
		return
	}
	n.configLooked, n.configLooking = now, true
	n.effect(func(context.Context) {
		asks := n.target.Look()
		n.post(func(now time.Time) {
			n.configLooking = false
			if asks {
				n.announce(now)
			}
		})
	})
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// leaderSilence is after how long without a leader the condition is raised, and readiness ends.
const leaderSilence = 90 * time.Second

// health is what the health pages are worked out from.
func (n *Node) health() control.HealthFacts {
	l := n.leader()
	return control.HealthFacts{Alive: n.alive(), Loaded: n.view.Load() != nil, Bound: true, Mode: n.mode.Load().String(), LeaderID: l.id, Leader: l.endpoint, SilentFor: n.leaderSilent()}
}

// alive reports whether the loop turns; the watchdog asks it too.
func (n *Node) alive() bool {
	return time.Since(n.started)-time.Duration(n.turned.Load()) < 10*beatPeriod
}

// Alive reports whether the event loop turns.
func (n *Node) Alive() bool { return n.alive() }

// fail stops the node for a fault that it cannot serve with.
func (n *Node) fail(err error) {
	n.log.Error("stopping", "error", err.Error())
	n.failure.CompareAndSwap(nil, &err)
	go n.Stop()
}

// Stop ends everything in order: work at its next boundary, then the loop, then sockets, stores and the directory.
func (n *Node) Stop() {
	n.stopOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
		defer cancel()
		n.target.Stop() // a step that runs here ends at its boundary, while the others' do
		n.provisioner.Quiesce(ctx)
		n.stepAside(ctx)
		n.provisioner.Stop(ctx)
		n.cancel()
		close(n.quit)
		<-n.loopDone
		if n.http != nil {
			n.http.Close()
		}
		n.server.Close()
		n.hub.Close()
		n.fcListener.Close()
		n.serving0.Wait()
		n.effects.Wait()
		n.body.close()
		if n.port != nil {
			n.port.Close()
		}
		n.target.Close()
		if err := n.dir.Close(); err != nil {
			n.log.Error("state directory not released", "error", err.Error())
		}
		n.log.Info("stopped", "node-id", n.id)
		close(n.stopped)
	})
	<-n.stopped
}

// stepAside has another voter lead before this machine goes: nobody waits for an election then.
func (n *Node) stepAside(ctx context.Context) {
	b := n.serving.Load()
	if !b.leads() || len(b.cons.View().Voters()) < 2 {
		return
	}
	if err := b.handOver(ctx, ""); err != nil && b.leads() { // it may have lost it meanwhile
		n.log.Warn("leadership not handed over before the stop", "error", err.Error())
	}
}

// shutDownAfter lets the answer of the step that ends this process reach the leader first.
const shutDownAfter = 500 * time.Millisecond

// shutDown ends the process with success, at the word of the fleet's leader; the service manager leaves it down.
func (n *Node) shutDown(msg string) {
	n.log.Warn("told to shut down by the fleet", "message", control.Sentence(msg))
	go func() {
		select {
		case <-time.After(shutDownAfter):
			n.Stop()
		case <-n.quit:
		}
	}()
}

// ErrUpgraded ends a node whose program was replaced: its service manager starts the new one.
var ErrUpgraded = errors.New("the program was upgraded, and is to be started again")

// upgraded ends the process so that the service manager starts the program that took its place.
func (n *Node) upgraded(version string) {
	n.log.Warn("upgraded by the fleet", "version", control.Word(version))
	go func() {
		select {
		case <-time.After(shutDownAfter):
			err := ErrUpgraded
			n.failure.CompareAndSwap(nil, &err)
			n.Stop()
		case <-n.quit:
		}
	}()
}

// abort undoes a start that failed half-way.
func (n *Node) abort() {
	n.cancel()
	n.inbox.close()
	n.body.close()
	if n.provisioner != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		n.provisioner.Stop(ctx)
	}
	if n.server != nil {
		n.server.Close()
	}
	if n.hub != nil {
		n.hub.Close()
	}
	if n.fcListener != nil {
		n.fcListener.Close()
	}
	if n.adminListener != nil {
		n.adminListener.Close()
	}
	if n.port != nil {
		n.port.Close()
	}
	if n.target != nil {
		n.target.Close()
	}
	n.effects.Wait()
	if n.dir != nil {
		n.dir.Close()
	}
}

// skewText says how far the leader's clock is from this machine's, which of the two is ahead, in units that people read: a board
// without a clock is half a century behind.
func skewText(offset time.Duration) string {
	const year = 365 * 24 * time.Hour
	far, way := control.Span(offset.Abs()), "ahead of"
	if offset.Abs() >= 2*year {
		far = fmt.Sprintf("%d years", offset.Abs()/year)
	}
	if offset < 0 {
		way = "behind"
	}
	return fmt.Sprintf("the leader's clock is %s %s this machine's", far, way)
}

// noiseEvery is how often a repeated line is said.
const noiseEvery = time.Minute

// noise says a repeated line at most once in noiseEvery, with how many it stands for. It is the loop's.
type noise struct {
	log  *slog.Logger
	said map[string]time.Time
	held map[string]int
}

func (x *noise) say(now time.Time, msg string, attrs ...any) {
	if x.said == nil {
		x.said, x.held = map[string]time.Time{}, map[string]int{}
	}
	x.held[msg]++
	if last, ok := x.said[msg]; ok && now.Sub(last) < noiseEvery {
		return
	}
	x.said[msg] = now
	x.log.Warn(msg, append(attrs, "stands-for", x.held[msg])...)
	x.held[msg] = 0
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}
