package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/identity"
	"pace-node/internal/provision"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// queueRelay is how long a voter waits for the leader's word of its queue before it tells what it knows itself.
const queueRelay = 2 * time.Second

func (n *Node) queueList(ctx context.Context) (json.RawMessage, error) {
	list, err := n.provisioner.Entries(ctx)
	if err != nil {
		return nil, err
	}
	out := control.QueueList{V: control.DocumentVersion, View: n.pictured(), Paused: list.Paused != 0, Why: provision.PauseText(list.Paused), Entries: []control.QueueEntry{}}
	v := n.view.Load()
	if list.Paused&queue.PauseOperator != 0 {
		out.By = pausedBy(v)
		out.Why = pauseText(list.Paused, out.By)
	}
	for _, e := range list.Entries {
		out.Entries = append(out.Entries, queueEntry(v, e, list.Now))
	}
	return encode(out)
}

// auditPause is how the audit names an operator's pause of the queue; its detail is the reason that was typed.
const auditPause = "queue-pause"

// pausedBy is who paused the queue by a setting, and why, as far as the audit still holds it; nil on a learner, which holds none.
// The reason, where one was given, is the entry after the setting's.
func pausedBy(v *fleet.View) *control.QueuePause {
	reasons := map[string]string{} // key → reason
	for _, e := range slices.Backward(v.Audit()) {
		switch value, of := strings.CutPrefix(e.Detail, fleet.SettingProvisionPaused+"="); {
		case e.What == auditPause && reasons[e.By] == "":
			reasons[e.By] = e.Detail
		case e.What != "set" || !of:
		case value != "true":
			return nil
		default:
			by := &control.QueuePause{By: e.By, At: e.At, Reason: reasons[e.By]}
			if key, err := identity.ParsePublicKey(e.By); err == nil {
				m, _ := v.ByKey(key)
				by.ByName = m.Name
			}
			return by
		}
	}
	return nil
}

// pauseText says why the queue is paused, and of an operator's word whose it is and the reason that was given.
func pauseText(why queue.PauseReason, by *control.QueuePause) string {
	text := provision.PauseText(why)
	if by == nil {
		return text
	}
	who := " (" + control.Word(cmp.Or(by.ByName, by.By))
	if by.Reason != "" {
		who += ": " + control.Sentence(by.Reason)
	}
	operator := provision.PauseText(queue.PauseOperator)
	return strings.Replace(text, operator, operator+who+")", 1) // there may be other causes beside it
}

// leaderWord names the leader to a person who has to go there, empty where none is known.
func (n *Node) leaderWord() string {
	l := n.leader()
	m, ok := n.view.Load().Member(l.id)
	if l.endpoint == "" || !ok {
		return ""
	}
	return control.Word(cmp.Or(m.Name, m.ID)) + " at " + control.Word(l.endpoint)
}

// ownRowOnly is what a learner's list leaves out, and who shows it.
func (n *Node) ownRowOnly() string {
	note := "a learner holds the record of its own provisioning only"
	if where := n.leaderWord(); where != "" {
		return note + "; the leader shows the whole queue: pacectl queue list on " + where
	}
	return note + "; a voter shows the whole queue: pacectl fleet status names them"
}

// noAudit is why a learner has no audit, and who shows it.
func (n *Node) noAudit() string {
	where := "HOST"
	if l := n.leader(); l.endpoint != "" {
		where = control.Word(l.endpoint)
	}
	return "a learner does not hold the record: ask a voter, pacectl audit --scheduler=" + where
}

func queueEntry(v *fleet.View, e queue.Entry, now time.Time) control.QueueEntry {
	m, _ := v.Member(e.ID)
	out := control.QueueEntry{ID: e.ID, Name: m.Name, State: e.State.String(), Stage: string(e.Stage), Attempt: e.Attempt, LastError: e.LastError, Again: e.Again}
	if !e.Due.IsZero() {
		ms := e.Due.Sub(now).Milliseconds()
		out.DueMS = &ms
	}
	if !e.LastSuccess.IsZero() {
		ms := now.Sub(e.LastSuccess).Milliseconds()
		out.LastSuccessMS = &ms
	}
	return out
}

func (n *Node) queueShow(ctx context.Context, id string) (json.RawMessage, error) {
	e, ok, err := n.provisioner.Show(ctx, id)
	if err != nil {
		return nil, err
	}
	v := n.view.Load()
	m, member := v.Member(id)
	if !ok && !member {
		return nil, notMember(id)
	}
	out := n.shown(time.Now(), m)
	if ok {
		out.Entry = queueEntry(v, e, time.Now())
	}
	return encode(out)
}

func notMember(id string) error {
	return wire.NewError(wire.CodeRefusedByRule, wire.Printable(id)+" is not a member of this fleet", "pacectl member list")
}

// shown is what the fleet's state holds of a machine's provisioning, and of this machine itself why it wants any.
func (n *Node) shown(now time.Time, m fleet.Member) control.QueueShow {
	p := m.Provision
	out := control.QueueShow{V: control.DocumentVersion, View: n.pictured(), Component: p.Component, BootID: p.BootID, Digest: p.ConfigDigest,
		Outcomes: []control.QueueOutcome{}, Entry: kept(now, m)}
	for _, o := range p.Outcomes {
		out.Outcomes = append(out.Outcomes, control.QueueOutcome{At: o.At, Outcome: o.Result, Stage: o.Stage, Error: o.Error})
	}
	if m.ID == n.id {
		if wants, why := n.wants(n.target.Wants()); wants {
			out.Wants = why
			if out.Entry.State == queue.StateNone.String() {
				out.Entry.State = queue.StateWaiting.String()
			}
		}
	}
	return out
}

// kept is a machine's entry by the fleet's state. When it is due is by the clock of the leader that wrote it.
func kept(now time.Time, m fleet.Member) control.QueueEntry {
	p := m.Provision
	out := control.QueueEntry{ID: m.ID, Name: m.Name, State: queue.StateOf(p).String(), Stage: p.Stage, Attempt: p.Attempts, LastError: p.LastError}
	if p.Due > 0 {
		ms := time.Unix(p.Due, 0).Sub(now).Milliseconds()
		out.DueMS = &ms
	}
	if p.LastSuccess > 0 {
		ms := max(now.Sub(time.Unix(p.LastSuccess, 0)), 0).Milliseconds()
		out.LastSuccessMS = &ms
	}
	return out
}

// queueElsewhere answers on a machine that does not lead. A voter has the leader say it, who alone knows what waits and what
// runs; where that one does not answer, and on a learner, it is what the state says that is applied here, with its
// revision. A learner holds no other machine's record, so it shows its own.
func (n *Node) queueElsewhere(ctx context.Context, r wire.QueueRequest) (json.RawMessage, error) {
	b := n.serving.Load()
	voter := b != nil && b.cons != nil
	if voter {
		ctx, cancel := context.WithTimeout(ctx, queueRelay)
		defer cancel()
		var said json.RawMessage
		err := n.callMember(ctx, n.leader().id, wire.VerbQueue, r, &said)
		var refused *wire.Error
		switch {
		case err == nil:
			return said, nil
		case errors.As(err, &refused) && refused.Code == wire.CodeRefusedByRule:
			return nil, refused
		}
	}
	v, now := n.view.Load(), time.Now()
	if r.Op != "list" {
		m, ok := v.Member(r.ID)
		switch {
		case !ok:
			return nil, notMember(r.ID)
		case !voter && r.ID != n.id:
			return nil, wire.NewError(wire.CodeRefusedByRule, "a learner holds the record of its own provisioning only", "ask on a voter: pacectl fleet status names them")
		}
		return encode(n.shown(now, m))
	}
	out := control.QueueList{V: control.DocumentVersion, View: n.pictured(), Entries: []control.QueueEntry{}}
	if v.Switch(fleet.SettingProvisionPaused) {
		out.By = pausedBy(v)
		out.Paused, out.Why = true, pauseText(queue.PauseOperator, out.By)
	}
	if !voter {
		out.Note = n.ownRowOnly()
	}
	for m := range v.Members() {
		if !voter && m.ID != n.id {
			continue
		}
		if e := n.shown(now, m).Entry; e.State != queue.StateNone.String() {
			out.Entries = append(out.Entries, e)
		}
	}
	return encode(out)
}
