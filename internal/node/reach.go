package node

import (
	"context"
	"fmt"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

const (
	// unreachableAfter is after how long without any voter a member says that its fleet is out of reach.
	unreachableAfter = 24 * time.Hour
	// hardwareTrust is how long a state directory that came to other hardware has to be the only one under its key, with a
	// leader in sight, before it counts as moved and not as copied.
	hardwareTrust = time.Hour
)

// reachFleet raises that this machine reaches nobody who could lead its fleet: for a day, or at once where strangers speak
// for it. The loop's, at each beat.
func (n *Node) reachFleet(now time.Time) {
	b := n.body
	if b == nil || !n.inFleet() {
		n.board.Clear("fleet-unreachable")
		return
	}
	switch {
	case n.unheard.in == nil: // the first look of this start
		n.reached = b.began.Add(-n.unheard.before(b.cluster))
	case n.unheard.in != b:
		n.reached = later(n.reached, b.began)
	}
	n.unheard.in = b
	n.reached = later(n.reached, b.voterHeard(now))
	for _, m := range b.view().Voters() {
		if m.ID == n.id {
			continue
		}
		if at := n.heardOf(now, m); at.After(n.reached) {
			n.reached = at
		}
	}
	alone := now.Sub(n.reached)
	n.keepUnheard(b.cluster, alone)
	if keys, where := n.strangers(); len(keys) > 0 && n.leaderSilent() >= leaderSilence {
		n.board.Raise("fleet-unreachable", fmt.Sprintf("this fleet, %s, is led under keys that its roster here does not hold as a voter's: %s; none of the voters that it holds is heard", control.Word(b.cluster), where), keys[0].String())
		return
	}
	n.board.Set(alone >= unreachableAfter, "fleet-unreachable", fmt.Sprintf("no voter of the fleet %s was heard for %s", control.Word(b.cluster), alone.Truncate(time.Hour)))
}

// cloned notes that the key of the machine id is spoken from two places.
func (n *Node) cloned(now time.Time, id, said string) {
	n.clonedSeen, n.clonedID, n.clonedSaid = now, id, said
	n.showCloned(now)
}

// hardwareMoved reports whether the state directory was made on other hardware than it is on now, as far as both are known.
func (n *Node) hardwareMoved() bool {
	was, is := n.rec.Hardware, n.cfg.Mint.Hardware
	return was != "" && is != "" && was != is
}

// showCloned raises that this identity may be a copy: its key is spoken from two places, or its directory came to other
// hardware. A directory that was moved and not copied is the only one under its key; after an hour in its fleet's sight it
// belongs here. The loop's.
func (n *Node) showCloned(now time.Time) {
	for _, p := range n.hub.Duplicates() { // as long as both live
		n.clonedSeen, n.clonedID, n.clonedSaid = now, n.idOf(p[0].Peer()), cloneText(p[0].Peer(), p[0].RemoteAddr().String(), p[1].RemoteAddr().String())
	}
	twice := !n.clonedSeen.IsZero() && now.Sub(n.clonedSeen) <= seenFor
	moved := n.hardwareMoved()
	if moved && (n.movedSince.IsZero() || twice || n.leaderSilent() >= leaderSilence) {
		n.movedSince = now
	}
	if moved && now.Sub(n.movedSince) >= hardwareTrust {
		n.log.Info("this state directory was moved to this machine: nobody else speaks under its key", "after", hardwareTrust.String())
		is := n.cfg.Mint.Hardware
		n.keepRecord(func(rec *statedir.Record) { rec.Hardware = is })
		moved = false
	}
	if n.rec.Hardware == "" && n.cfg.Mint.Hardware != "" && !n.inMove { // of before it could be told
		is := n.cfg.Mint.Hardware
		n.keepRecord(func(rec *statedir.Record) { rec.Hardware = is })
	}
	switch {
	case twice:
		n.board.Raise("identity-cloned", n.clonedSaid, n.clonedID)
	case moved:
		n.board.Raise("identity-cloned", "this state directory was made on another machine: if it was copied here, this is the copy; if it was moved, this goes "+hardwareTrust.String()+" after the fleet has heard nobody else under its key", n.id)
	default:
		n.board.Clear("identity-cloned")
	}
}

// staleMembers are the members that have been silent for at least the time asked for, as far as this leader can tell: of
// whom it never heard it knows only that it listened in vain since it began to serve. Who never arrived counts from its
// admission.
func (n *Node) staleMembers(ctx context.Context, r wire.StatusRequest) (control.StaleList, error) {
	out := control.StaleList{V: control.DocumentVersion, View: n.pictured(), ForMS: r.ForMS, Members: []control.StaleMember{}}
	if !n.isLeader() {
		return out, n.notLeading("the leader hears all members")
	}
	err := n.ask(ctx, func(now time.Time) {
		b := n.body
		if b == nil {
			return
		}
		v := b.view()
		out.Cluster, out.ListenedMS = v.Cluster(), now.Sub(b.began).Milliseconds()
		for m := range v.Members() {
			silent, arrived := n.silentFor(now, b, m), m.Arrived
			if m.ID == n.id || silent.Milliseconds() < r.ForMS {
				continue
			}
			out.Members = append(out.Members, control.StaleMember{ID: m.ID, Name: m.Name, Role: string(m.Role), Key: m.Key.String(), SilentMS: silent.Milliseconds(), NeverArrived: !arrived})
		}
	})
	return out, err
}

// silentFor is for how long a member was not heard, at least. The loop's.
func (n *Node) silentFor(now time.Time, b *body, m fleet.Member) time.Duration {
	if at := n.heardOf(now, m); !at.IsZero() {
		return now.Sub(at)
	}
	if !m.Arrived && m.Admitted >= int64(formation.EarliestCreated) { // an earlier date is of a leader without a clock
		return max(now.Sub(time.Unix(m.Admitted, 0)), now.Sub(b.began))
	}
	return now.Sub(b.began)
}

// idOf is the id that the roster holds under a key, "" if it holds none.
func (n *Node) idOf(key identity.PublicKey) string {
	m, _ := n.view.Load().ByKey(key)
	return m.ID
}

// cloneText says where one key is spoken from.
func cloneText(key identity.PublicKey, older, newer string) string {
	return "the key " + key.String() + " has live sessions from " + older + " and " + newer
}
