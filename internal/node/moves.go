package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/statedir"
)

// rebuildAgain is how long after a serving body that could not be opened it is tried again.
const rebuildAgain = 5 * time.Second

// Points names the places in a move at which a test build may end the process, beside those of the packages that write.
var Points = []string{
	"node.move.record.before", "node.move.record.after",
	"node.move.closed.before", "node.move.closed.after",
	"node.move.archived.before", "node.move.archived.after",
	"node.move.opened.before", "node.move.opened.after",
}

// step gives formation an event and carries out what it wants. Actions are copied first: an effect may end at once and
// feed the next event.
func (n *Node) step(now time.Time, e formation.Event) {
	actions := n.form.Step(now, e)
	for _, a := range append([]formation.Action(nil), actions...) {
		n.act(now, a)
	}
}

func (n *Node) act(now time.Time, a formation.Action) {
	switch a.Kind {
	case formation.ActAskSummary:
		n.effect(func(ctx context.Context) { n.askSummary(ctx, a) })
	case formation.ActLookupSRV:
		n.effect(n.lookupSRV)
	case formation.ActMove:
		n.move(now, a)
	case formation.ActAsk:
		n.openAsk(now, a)
	case formation.ActStopAsk:
		n.closeAsk()
	case formation.ActForeignVisible:
		n.foreignVisible(a)
	case formation.ActForeignClear:
		delete(n.foreign, a.Fleet.Cluster)
		n.showForeign()
	case formation.ActSay:
		n.sayOnce(a)
	}
}

func (n *Node) sayOnce(a formation.Action) {
	attrs := []any{}
	if a.Endpoint != "" {
		attrs = append(attrs, "endpoint", control.Word(a.Endpoint), "found-by", a.Origin.String())
	}
	if a.Err != "" {
		attrs = append(attrs, "error", control.Sentence(a.Err))
	}
	for _, row := range formation.Says {
		if row.Say == a.Say {
			if row.Warn {
				n.log.Warn(row.Text, attrs...)
			} else {
				n.log.Info(row.Text, attrs...)
			}
		}
	}
	if a.Say == formation.SayMoveRefused {
		n.board.Raise("formation-move-refused", "the formation record could not be written: "+a.Err, n.dir.Path())
	}
}

// move writes the record, does the effect, rebuilds the serving body where the table says so, and tells formation.
func (n *Node) move(now time.Time, a formation.Action) {
	tr := a.Transition
	rec, err := n.recordAfter(now, a)
	if err != nil {
		n.post(func(now time.Time) {
			n.step(now, formation.Event{Kind: formation.EvMoveFailed, Err: err.Error()})
		})
		return
	}
	n.inMove = true
	n.log.Info("moving", "from", tr.From.String(), "to", tr.To.String(), "because", tr.On.String(), "fleet", control.Word(rec.Cluster), "target", targetText(a.Target))
	old, was := n.body, n.view.Load()
	if tr.Rebuild {
		// From here on nothing is proposed to the store that is about to be put away.
		n.body = nil
		n.leadership(now)
	}
	n.records.put(func(ctx context.Context) {
		if tr.On == formation.SeatedAsLearner {
			n.keepState(old) // first, so that a crash after the record finds it
		}
		n.point("node.move.record.before")
		if err := n.dir.Save(rec); err != nil {
			n.post(func(now time.Time) {
				n.body = old
				n.leadership(now)
				n.endMove()
				n.step(now, formation.Event{Kind: formation.EvMoveFailed, Err: err.Error()})
			})
			return
		}
		n.point("node.move.record.after")
		if !tr.Rebuild {
			n.post(func(now time.Time) { n.moved(now, a, rec) })
			return
		}
		n.point("node.move.closed.before")
		old.close()
		n.point("node.move.closed.after")
		if parting[tr.Effect] {
			n.partFrom(was)
		}
		fresh, rec, err := n.rebuild(ctx, rec)
		if err != nil {
			return // stopping: the next start finishes the move
		}
		if !n.post(func(now time.Time) {
			n.install(now, fresh)
			n.moved(now, a, rec)
		}) {
			fresh.close()
		}
	})
}

// parting are the effects after which this machine says Hello anew to whom it knew: in another fleet, or another epoch.
var parting = map[formation.Effect]bool{formation.EffectMintNew: true, formation.EffectArchiveEpoch: true, formation.EffectArchive: true}

// partFrom closes every session with a member of the fleet that was left: what was said on it was said as a member. They are
// closed when it returns, so that no new one stands beside an old one.
func (n *Node) partFrom(was *fleet.View) {
	var wait sync.WaitGroup
	for _, s := range n.hub.Sessions() {
		if _, ok := was.ByKey(s.Peer()); ok {
			wait.Go(func() { s.Close(errReleased) })
		}
	}
	wait.Wait()
}

// rebuild puts the other fleet's stores away and opens the body of the record, again until it works or the node stops.
func (n *Node) rebuild(ctx context.Context, rec statedir.Record) (*body, statedir.Record, error) {
	for {
		n.point("node.move.archived.before")
		var err error
		rec, err = n.takeStores(rec)
		n.point("node.move.archived.after")
		if err == nil {
			n.point("node.move.opened.before")
			var b *body
			if b, err = n.openBody(ctx, rec); err == nil {
				n.point("node.move.opened.after")
				n.board.Clear("formation-move-refused")
				return b, rec, nil
			}
		}
		if ctx.Err() != nil {
			return nil, rec, ctx.Err()
		}
		n.log.Error("the move is recorded but its store could not be opened; trying again", "error", err.Error(), "again-in", rebuildAgain)
		n.board.Raise("formation-move-refused", err.Error(), n.dir.Path())
		select {
		case <-ctx.Done():
			return nil, rec, ctx.Err()
		case <-time.After(rebuildAgain):
		}
	}
}

// moved ends a move: the record is on disk and the body of its mode serves.
func (n *Node) moved(now time.Time, a formation.Action, rec statedir.Record) {
	was := n.rec
	n.rec = rec
	n.board.Clear("formation-move-refused")
	n.endMove()
	own, err := ownOf(n.rec, n.key.Public())
	if err != nil {
		n.fail(err) // Save refuses what does not read back, so this is a fault of the program
		return
	}
	if !slices.Equal(was.Remembered, rec.Remembered) {
		n.step(now, formation.Event{Kind: formation.EvRemembered, Endpoints: rec.Remembered})
	}
	n.step(now, formation.Event{Kind: formation.EvMoved, Own: own})
	n.mode.Store(&own.Mode)
	if a.Transition.From == formation.Solitary && own.Target != nil {
		n.stopAdmitting(now, own.Target.Endpoint)
	}
	if was.Cluster != rec.Cluster {
		n.healing.obeying, n.healing.refused = nil, ""
		n.changedFleet(now, was.Cluster, rec.Cluster)
	}
	if a.Revoked {
		n.log.Warn("the fleet says that this machine's key is revoked; it is not asked again under this key", "fleet", control.Word(was.Cluster))
	}
	n.recoveryDone(n.body)
	n.showDissolved(rec)
	n.showOwn()
	n.refreshSelf(now)
	n.publish(now)
	n.tellAwaiting(own)
	n.log.Info("moved", "mode", own.Mode.String(), "fleet", control.Word(rec.Cluster))
	n.feed.Add(control.Event{Kind: control.EventNode, What: own.Mode.String(), ID: n.id, Name: n.name, Detail: "fleet " + rec.Cluster})
}

// changedFleet drops everything that belonged to the fleet that was left.
func (n *Node) changedFleet(now time.Time, from, to string) {
	for key, s := range n.foreign {
		if s.cluster == to {
			delete(n.foreign, key)
		}
	}
	n.showForeign()
	n.target.ChangeFleet(to)
	n.leases.reset(to)
	n.announce(now)
}

// keepRecord writes a change of the record that no move waits for; during a move it waits for the move's end.
func (n *Node) keepRecord(change func(*statedir.Record)) { n.keepRecordThen(change, nil) }

// keepRecordThen also tells how the writing ended, off the loop.
func (n *Node) keepRecordThen(change func(*statedir.Record), then func(error)) {
	if n.inMove {
		n.afterMove = append(n.afterMove, recordChange{change, then})
		return
	}
	change(&n.rec)
	rec := n.rec
	n.records.put(func(context.Context) {
		err := n.dir.Save(rec)
		if err != nil {
			n.log.Error("formation record not written", "error", err.Error())
		}
		if then != nil {
			then(err)
		}
	})
}

// recordChange is a change of the record that waits for a move's end.
type recordChange struct {
	change func(*statedir.Record)
	then   func(error)
}

// endMove lets the record's other changes go on.
func (n *Node) endMove() {
	n.inMove = false
	waiting := n.afterMove
	n.afterMove = nil
	for _, w := range waiting {
		n.keepRecordThen(w.change, w.then)
	}
}

// serial runs effects one after the other, in the order in which the loop put them.
type serial struct {
	mu      sync.Mutex
	waiting []func(context.Context)
	running bool
	n       *Node
}

func (s *serial) put(f func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, f)
	if s.running {
		return
	}
	s.running = true
	s.n.effect(s.run)
}

func (s *serial) run(ctx context.Context) {
	for {
		s.mu.Lock()
		if len(s.waiting) == 0 {
			s.running = false
			s.mu.Unlock()
			return
		}
		f := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.mu.Unlock()
		f(ctx)
	}
}

// keyed is a serial for each key: what the loop says of one machine is committed in the order in which it was said, and
// machines do not wait for one another.
type keyed struct {
	mu    sync.Mutex
	lines map[string]*serial
	n     *Node

	sweepAt int // how many lines there may be before the idle ones are dropped
}

// minSweep keeps a small fleet from sweeping at every put.
const minSweep = 64

func (k *keyed) put(key string, f func(context.Context)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	line := k.lines[key]
	if line == nil {
		line = &serial{n: k.n}
		k.lines[key] = line
	}
	line.put(f)
	if len(k.lines) < k.sweepAt {
		return
	}
	for other, line := range k.lines {
		if line.idle() {
			delete(k.lines, other)
		}
	}
	k.sweepAt = 2*len(k.lines) + minSweep
}

func (s *serial) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.running
}

func targetText(t *formation.Target) string {
	if t == nil {
		return ""
	}
	return control.Word(t.Cluster) + " at " + control.Word(t.Endpoint)
}

var errStopping = errors.New("the node is stopping")

// foreignSeen is a fleet that is reported as visible.
type foreignSeen struct {
	cluster, detail string
	split           bool // shown as fleet-split-healing
}

func (n *Node) foreignVisible(a formation.Action) {
	detail, split := "fleet "+control.Word(a.Fleet.Cluster), false
	switch a.Why {
	case formation.WhySplitYields, formation.WhySplitStays, formation.WhySplitByHand:
		split = true
		detail += splitText(a)
	case formation.WhyNeitherYields:
		detail += " is established too, and neither yields"
	case formation.WhyPinnedFleet:
		detail += " is not the one of --fleet-id"
	default:
		detail += unpinnedText(a)
	}
	if a.Fleet.SpeakerEndpoint != "" {
		detail += " (seen at " + control.Word(a.Fleet.SpeakerEndpoint) + ")"
	}
	n.foreign[a.Fleet.Cluster] = foreignSeen{cluster: a.Fleet.Cluster, detail: detail, split: split}
	n.showForeign()
}

func (n *Node) showForeign() {
	var others, split []string
	for _, key := range sortedKeys(n.foreign) {
		if f := n.foreign[key]; f.split {
			split = append(split, f.detail)
		} else {
			others = append(others, f.detail)
		}
	}
	if o := n.healing.obeying; o != nil && o.body == n.body {
		split = append(split, fmt.Sprintf("this fleet dissolves into fleet %s at %s; %s acknowledged it yet", control.Word(o.target.Cluster), control.Word(o.target.Endpoint), plural(len(o.waiting), "member has not", "members have not")))
	}
	n.board.Set(len(others) > 0, "foreign-fleet-visible", strings.Join(others, "; "), n.id)
	n.board.Set(len(split) > 0, "fleet-split-healing", strings.Join(split, "; "))
}
