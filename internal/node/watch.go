package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/provision"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

const (
	// watchRelay is how long a voter waits for the leader's picture before it shows its own.
	watchRelay = 2 * time.Second
	// quietMember: a member that was not heard for so long is among those in trouble. Sessions are asked every few seconds,
	// and beacons come every thirty.
	quietMember = 90 * time.Second
)

// lastTold is what the feed was told last. It is the loop's.
type lastTold struct {
	revision uint64 // of the fleet's record
	waiting  map[enroll.RowID]string
}

// tellQueue takes what the provisioner has to tell to the feed.
func (n *Node) tellQueue(kind, what, id, detail string) {
	e := control.Event{Kind: control.EventStartup, What: what, ID: id, Detail: detail}
	if id == "" {
		e.ID, e.Name = n.id, n.name
	} else if m, ok := n.view.Load().Member(id); ok {
		e.Name = m.Name
	}
	if kind == provision.TellRun {
		e.Kind = control.EventRun
	}
	if what == "failed" || what == "refused" {
		e.Severity = control.Warning.String()
	}
	n.feed.Add(e)
}

// tellLeader tells who leads now.
func (n *Node) tellLeader(l leaderInfo) {
	e := control.Event{Kind: control.EventLeader, What: "none", Detail: "no leader is known"}
	if l.id != "" {
		e.What, e.ID, e.Detail = "leads", l.id, l.endpoint
		if v := n.view.Load(); v != nil {
			m, _ := v.Member(l.id)
			e.Name = m.Name
		}
	}
	n.feed.Add(e)
}

// tellFleet tells what the fleet's record says that it did not say before. A learner holds no record, and tells who came and
// went.
func (n *Node) tellFleet(before, v *fleet.View) {
	first := before == nil || before.Cluster() != v.Cluster()
	if first {
		n.lastTold.revision = v.Revision() // what was before this process is in the audit
		return
	}
	name := func(in *fleet.View, id string) string { m, _ := in.Member(id); return m.Name }
	if !n.body.leads() && n.body.cons == nil {
		for _, id := range before.Gone(v) {
			n.feed.Add(control.Event{Kind: control.EventFleet, What: "came", ID: id, Name: name(v, id), Revision: v.Revision()})
		}
		for _, id := range v.Gone(before) {
			n.feed.Add(control.Event{Kind: control.EventFleet, What: "went", ID: id, Name: name(before, id), Revision: v.Revision()})
		}
		return
	}
	all := v.Audit()
	at := len(all)
	for at > 0 && all[at-1].Revision > n.lastTold.revision {
		at--
	}
	for _, a := range all[at:] {
		e := control.Event{Kind: control.EventFleet, What: a.What, ID: a.Subject, Name: cmp.Or(name(v, a.Subject), name(before, a.Subject)), Revision: a.Revision}
		if a.Detail != e.Name {
			e.Detail = a.Detail
		}
		n.feed.Add(e)
	}
	n.lastTold.revision = v.Revision()
}

// tellWaiting tells who asks, and who asks no more without a word of a person.
func (n *Node) tellWaiting(rows []enroll.Row) {
	now := map[enroll.RowID]string{}
	for _, r := range rows {
		id := r.RowID()
		if r.Decision == enroll.Waiting {
			now[id] = r.Name
		}
		if _, known := n.lastTold.waiting[id]; r.Decision == enroll.Waiting && !known {
			n.feed.Add(control.Event{Kind: control.EventEnroll, What: "asks", ID: r.ID, Name: r.Name, Detail: "from " + r.Source.String() + ", key " + r.Key.String()})
		}
	}
	for id, name := range n.lastTold.waiting {
		if _, waits := now[id]; !waits && !slices.ContainsFunc(rows, func(r enroll.Row) bool { return r.RowID() == id }) {
			n.feed.Add(control.Event{Kind: control.EventEnroll, What: "asks-no-more", ID: id.ID, Name: name})
		}
	}
	n.lastTold.waiting = now
}

// watch answers Status "watch".
func (n *Node) watch(ctx context.Context, p control.Peer, r wire.StatusRequest) (json.RawMessage, error) {
	whole := p.Local
	if !whole {
		access, _ := n.Access(p)
		whole = access == wire.AccessAdministrator || access == wire.AccessLeader
	}
	b, partial := n.serving.Load(), ""
	if l := n.leader(); whole && !n.isLeader() && l.id != "" && b != nil && b.cons != nil {
		if !p.Local { // only a person is relayed for: two voters that each take the other for the leader would ask in a ring
			return nil, n.notLeader("the leader knows who waits and what the queue does")
		}
		within, cancel := context.WithTimeout(ctx, watchRelay)
		defer cancel()
		var said json.RawMessage
		if err := n.callMember(within, l.id, wire.VerbStatus, r, &said); err == nil {
			return said, nil
		}
		if partial = "the leader does not answer, so this is what this voter knows itself"; n.isLeader() {
			partial = "" // it was elected meanwhile
		}
	}
	heard, now, err := n.heardAll(ctx)
	if err != nil {
		return nil, err
	}
	v := n.view.Load()
	out := control.WatchStatus{V: control.DocumentVersion, Boot: hexText(n.bootID()), Node: control.Machine{ID: n.id, Name: n.name, Endpoint: n.fcEndpoint()},
		Cluster: v.Cluster(), Leader: n.leaderDoc(), View: n.pictured(), Roles: map[string]int{}, Members: []control.MemberStatus{}, Waiting: []control.EnrollRow{},
		Queue: control.WatchQueue{States: map[string]int{}, Entries: []control.QueueEntry{}}, Conditions: n.board.List(), Partial: partial}
	for m := range v.Members() {
		out.Roles[string(m.Role)]++
		out.Members = append(out.Members, n.memberStatus(m, heard[m.ID], now))
	}
	slices.SortStableFunc(out.Members, func(a, b control.MemberStatus) int { return cmp.Compare(attention(a), attention(b)) })
	out.Members = out.Members[:min(len(out.Members), control.WatchMost)]
	if !whole {
		out.Partial = "a learner is not told who waits, what the queue does and what happens; a voter is"
		out.Events = []control.Event{}
		return encode(out)
	}
	out.Events, out.Next, out.Missed = n.feed.After(r.After)
	if err := n.watchLists(ctx, &out); err != nil {
		return nil, err
	}
	return encode(out)
}

func (n *Node) bootID() []byte { id := n.target.BootID(); return id[:] }

// attention ranks members: those that a person should look at, then voters, then the others.
func attention(m control.MemberStatus) int {
	switch {
	case m.HeardMS == nil || *m.HeardMS >= quietMember.Milliseconds() || m.Role != string(fleet.RoleVoter) && m.Role != string(fleet.RoleLearner):
		return 0
	case len(m.Provisioning) > 6 && (m.Provisioning[:6] == "parked" || m.Provisioning[:6] == "failin"):
		return 0
	case m.Role == string(fleet.RoleVoter):
		return 1
	}
	return 2
}

// watchLists adds who waits and the queue.
func (n *Node) watchLists(ctx context.Context, out *control.WatchStatus) error {
	list, err := n.enrollList(ctx)
	var elsewhere *wire.Error
	if err != nil && !errors.As(err, &elsewhere) {
		return err
	}
	out.Window = list.Window
	for _, row := range list.Rows {
		if row.Decision == control.DecisionWaiting {
			out.Waiting = append(out.Waiting, row)
		}
	}
	v, now := n.view.Load(), time.Now()
	var entries []control.QueueEntry
	if n.isLeader() {
		list, err := n.provisioner.Entries(ctx)
		if err != nil {
			return err
		}
		out.Queue.Paused, out.Queue.Why = list.Paused != 0, provision.PauseText(list.Paused)
		if list.Paused&queue.PauseOperator != 0 {
			out.Queue.Why = pauseText(list.Paused, pausedBy(v))
		}
		for _, e := range list.Entries {
			entries = append(entries, queueEntry(v, e, list.Now))
		}
	} else {
		if v.Switch(fleet.SettingProvisionPaused) {
			out.Queue.Paused, out.Queue.Why = true, pauseText(queue.PauseOperator, pausedBy(v))
		}
		voter := out.View.Mode != "learner"
		for m := range v.Members() {
			if voter || m.ID == n.id {
				entries = append(entries, n.shown(now, m).Entry)
			}
		}
	}
	for _, e := range entries {
		if e.State != queue.StateNone.String() {
			out.Queue.States[e.State]++
			out.Queue.Entries = append(out.Queue.Entries, e)
		}
	}
	control.SortQueue(out.Queue.Entries)
	out.Queue.Entries = out.Queue.Entries[:min(len(out.Queue.Entries), control.WatchMost)]
	return nil
}
