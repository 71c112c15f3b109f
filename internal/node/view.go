package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/queue"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// publish makes who leads readable by every goroutine.
func (n *Node) publish(now time.Time) {
	b := n.body
	n.serving.Store(b)
	var l leaderInfo
	switch {
	case b == nil:
	case b.cons != nil:
		l.id = b.cons.Leader()
		if l.id == n.id {
			l.endpoint, l.key = n.fcEndpoint(), n.key.Public()
		} else if m, ok := b.view().Member(l.id); ok {
			l.endpoint, l.key = m.Endpoints.FC, m.Key
		}
	default:
		st := b.learner.Status()
		l.id, l.endpoint = st.LeaderID, st.LeaderEndpoint
		if m, ok := b.view().Member(l.id); ok {
			l.key = m.Key
			l.endpoint = cmp.Or(l.endpoint, m.Endpoints.FC)
		}
	}
	if old := n.leads.Load(); old == nil || *old != l {
		n.leads.Store(&l)
		if old == nil || old.id != l.id {
			n.tellLeader(l)
			n.means.Led(now, l.id, n.id)
			if b != nil && b.cons != nil && l.id != n.id && !l.key.IsZero() {
				if s := n.hub.ByKey(l.key); s != nil { // a leader that just became a voter has heard no announcement of others
					n.announceTo(now, s)
				}
			}
			next := make(chan struct{})
			if was := n.elected.Swap(&next); was != nil {
				close(*was)
			}
		}
		if b != nil {
			b.link()
			if b.source != nil {
				b.source.Beat() // followers learn of it now
			}
		}
		if n.form != nil && n.exchange != nil {
			n.refreshSelf(time.Now())
		}
	}
}

// install makes a rebuilt body the node's own.
func (n *Node) install(now time.Time, b *body) {
	n.board.Clear("fleet-format-newer") // it was said of the store that is put away
	n.board.Clear("fleet-state-differs")
	n.body = b
	n.serving.Store(b)
	b.start()
	n.leadership(now)
	n.viewChanged(now, b)
	n.showHelper()
}

// viewChanged looks at the state that was just applied.
func (n *Node) viewChanged(now time.Time, b *body) {
	if n.body != b {
		return
	}
	v := b.view()
	own := n.form.Own()
	if b.cons != nil {
		if v.Established() && !own.Established {
			n.established(now)
		}
		if v.Len() > 1 && (own.Mode == formation.Solitary || own.Mode == formation.Pending) && n.grown != v.Cluster() {
			n.grown = v.Cluster() // formation keeps it until it is done
			n.step(now, formation.Event{Kind: formation.EvOwnFleetRecordedMachine})
		}
	}
	for _, s := range n.hub.Sessions() {
		if _, revoked := v.Revoked(s.Peer()); revoked {
			n.endRevoked(s)
		}
	}
	if m, ok := v.Member(n.id); ok {
		n.confirmOwn(m)
	}
	n.followProfile(b)
	if paused := v.Switch(fleet.SettingProvisionPaused); paused != n.paused {
		n.paused = paused
		n.effect(func(ctx context.Context) {
			if err := n.followPause(ctx); err != nil {
				n.log.Debug("queue does not follow its setting", "error", err.Error())
			}
		})
	}
	if n.looked != nil && n.looked.Cluster() == v.Cluster() {
		for _, id := range v.Gone(n.looked) {
			delete(n.lastHeard, id)
			n.means.Gone(id)
			n.provisioner.Removed(id)
		}
	} else {
		clear(n.lastHeard)
		n.means.Clear()
	}
	n.tellFleet(n.looked, v)
	n.looked = v
	n.dissolving(now, b, v)
	n.admitAwaited(now, v)
	if b.layer != nil {
		b.layer.Recheck()
	}
	n.remember(now)
	n.refreshSelf(now)
	n.showFleet(v, own)
	n.leadership(now)
	n.tellStarts()
	b.nudge()
	b.link()
	n.ownRole(now, b, v)
}

var errRevoked = errors.New("the fleet has forgotten this machine")

// established keeps for ever that the own fleet of one is more than that.
func (n *Node) established(now time.Time) {
	n.keepRecord(func(rec *statedir.Record) { rec.Established = true })
	n.step(now, formation.Event{Kind: formation.EvEstablished})
}

// confirmOwn ends this machine's wish once the fleet's state holds that its configuration was confirmed.
func (n *Node) confirmOwn(m fleet.Member) {
	p := m.Provision
	if len(p.Outcomes) == 0 {
		n.confirmed = "nothing yet"
		return
	}
	last := p.Outcomes[len(p.Outcomes)-1]
	mark := fmt.Sprint(p.LastSuccess, last, len(p.Outcomes))
	if mark == n.confirmed {
		return
	}
	confirms := last.Result == "provisioned"
	same := p.ConfigDigest != "" && p.ConfigDigest == n.target.Digest()
	// The digest may come a moment after the outcome, with this machine's announcement. What the first view of this process
	// holds is of before, and waits for none.
	if n.confirmed == "" || same || !confirms {
		n.confirmed = mark
	}
	if confirms && same {
		n.target.Confirmed(p.ConfigDigest)
	}
}

// showFleet raises what the fleet's state alone shows.
func (n *Node) showFleet(v *fleet.View, own formation.Own) {
	voters := v.Voters()
	n.board.Set(v.Len() > 1 && len(voters) == 1, "single-voter-fleet", fmt.Sprintf("%s on one voter", plural(v.Len()-1, "machine depends", "machines depend")), n.seatFor(v)...)
	n.board.Set(len(voters) == 2, "two-voter-fleet", "both of two voters must answer for anything to be decided: losing either stops the fleet, so two are worse than one", n.seatFor(v)...)
	n.showPaused()
	if holder := v.HolderBack(); holder != "" {
		n.board.Raise("mixed-node-versions", control.Word(holder)+" runs a version that holds the fleet's format back")
	} else {
		n.board.Clear("mixed-node-versions")
	}
	n.pinDisagrees.Store(n.form.PinDisagrees())
	n.board.Set(n.pinDisagrees.Load(), "pin-disagrees", "--fleet-id does not admit the fleet "+control.Word(own.Cluster)+", which this machine is in; it takes no work")
}

// seatFor is the id of a learner and the consensus endpoint that it would open, for the remedy of a fleet of one voter: of one
// that has a session here, if any has. One that has just been admitted has not said where that is: it is the usual port of where
// it asked from.
func (n *Node) seatFor(v *fleet.View) (seat []string) {
	for m := range v.Members() {
		if m.Role != fleet.RoleLearner {
			continue
		}
		live := m.ID == n.id || n.hub != nil && n.hub.ByKey(m.Key) != nil
		if seat != nil && !live {
			continue
		}
		if m.Endpoints.Raft != "" {
			seat = []string{m.ID, m.Endpoints.Raft}
		} else if host, _, err := net.SplitHostPort(m.Endpoints.FC); err == nil {
			seat = []string{m.ID, net.JoinHostPort(host, strconv.Itoa(control.DefaultRaftPort))}
		}
		if live && seat != nil && seat[0] == m.ID {
			return seat
		}
	}
	return seat
}

// showPaused raises that a leader's queue stands, for want of means or by an operator's word, where there is somebody to
// provision: a fleet of one need not provision itself.
func (n *Node) showPaused() {
	why, by := n.queuePaused, []string(nil)
	v := n.view.Load()
	if n.paused && n.body.leads() && v != nil {
		why, by = pauseText(queue.PauseOperator, pausedBy(v)), []string{control.PausedByOperator}
	}
	n.board.Set(why != "" && v != nil && v.Len() > 1, pausedCondition, why, by...)
}

// pausedCondition is the one of the queue's conditions that depends on who is in the fleet.
const pausedCondition = "provisioning-paused"

// queueRaises shows a condition of the queue. What it is about, if anything, stands before the detail's colon.
func (n *Node) queueRaises(id, detail string) {
	if id == pausedCondition {
		n.queuePaused = detail
		n.showPaused()
		return
	}
	about, _, _ := strings.Cut(detail, ":")
	n.board.Raise(id, detail, about)
}

func (n *Node) queueClears(id string) {
	if id == pausedCondition {
		n.queuePaused = ""
		n.showPaused()
		return
	}
	n.board.Clear(id)
}

// showOwn raises what the record alone shows.
func (n *Node) showOwn() {
	var all string
	for _, c := range n.rec.RevokedIn {
		if all != "" {
			all += ", "
		}
		all += control.Word(c)
	}
	n.board.Set(all != "", "own-key-revoked", "this machine's key is revoked in "+all)
	if v := n.view.Load(); v != nil {
		n.showFleet(v, n.form.Own())
	}
}

// forgotten is the learner's word that its fleet holds it no more: it was forgotten, or it left.
func (n *Node) forgotten(now time.Time, b *body, revision uint64, revoked bool) {
	if n.body != b {
		return
	}
	if !revoked {
		n.left(now, b)
		return
	}
	n.log.Warn("the fleet has forgotten this machine: it becomes a fleet of its own", "fleet", control.Word(b.cluster), "revision", revision)
	n.step(now, formation.Event{Kind: formation.EvForgotten})
}

// greeted is told of each Hello of a peer.
func (n *Node) greeted(now time.Time, p control.Peer, h wire.Hello) {
	n.heardElsewhere(now, p.Key, h, "")
	m, ok := n.view.Load().ByKey(p.Key)
	if !ok {
		return
	}
	n.lastHeard[m.ID] = now
	n.acknowledged(now, m.ID, h.Revision)
	if n.body.leads() {
		n.provisioner.SessionUp(m.ID)
	}
}
