package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

// waiter is one open Enroll stream of a row.
type waiter struct {
	row   enroll.RowID
	nonce [32]byte
	push  func(wire.EnrollAnswer) error

	once sync.Once
	done chan struct{}
	err  error
}

// end closes the stream; err, if any, is its last word.
func (w *waiter) end(err error) {
	w.once.Do(func() { w.err = err; close(w.done) })
}

// facts are what the waiting list is told at this moment.
func (n *Node) facts(now time.Time) enroll.Facts {
	v, own := n.view.Load(), n.form.Own()
	f := enroll.Facts{
		Leads: n.body.leads() && (own.Mode == formation.Solitary || own.Mode == formation.Voter), LeaderEndpoint: n.leader().endpoint,
		FormatInUse: v.FormatInUse(), Revoked: v.Revoked, Holds: v.Holds,
		// A machine that was admitted since under the same id is not put out by a word that is older than its admission.
		PreApproved: func(id string, key identity.PublicKey) bool {
			if m, ok := v.Member(id); ok && m.Key != key {
				return false
			}
			_, ok := v.PreApproved(id, key)
			return ok
		},
		MemberID: func(id string) bool { _, ok := v.Member(id); return ok },
		MemberNamed: func(name string) (string, time.Time, bool) {
			for m := range v.Named(name) {
				return m.ID, n.heardOf(now, m), true
			}
			return "", time.Time{}, false
		},
	}
	switch own.Mode {
	case formation.Pending:
		f.Elsewhere = true
		if own.Target != nil {
			f.PendingAt = own.Target.Endpoint
		}
	case formation.Learner:
		f.Elsewhere, f.PendingAt = true, n.leader().endpoint
	}
	if d := v.Dissolving(); d != nil { // who came in now would be left behind
		f.Elsewhere, f.PendingAt = true, d.LeaderEndpoint
	}
	return f
}

// Enroll implements control.Backend: the leader's side of an ask.
func (n *Node) Enroll(ctx context.Context, p control.Peer, r wire.EnrollRequest, push func(wire.EnrollAnswer) error) (wire.EnrollAnswer, func() error, error) {
	req := enroll.Request{EnrollRequest: r, Source: p.Addr.Addr(), SessionKey: p.Key}
	if s, ok := p.Session.(*netio.Session); ok {
		if h, _, said := s.Hello(); said {
			req.Name, req.Platform, req.Version, req.Format = h.Name, h.Platform, h.Version, h.Format
		}
	}
	var j enroll.Judgement
	var b *body
	w := &waiter{nonce: r.Nonce, push: push, done: make(chan struct{})}
	err := n.ask(ctx, func(now time.Time) {
		b = n.body
		if b == nil {
			j.Err = n.notLeader("this machine is changing fleets")
			return
		}
		j = n.list.Judge(now, req, n.facts(now), n.cfg.Entropy)
		if j.Row != (enroll.RowID{}) {
			n.formats[j.Row] = req.Format
		}
		if j.Waits {
			w.row = j.Row
			n.waiters[j.Row] = append(n.waiters[j.Row], w)
			n.list.Opened(now, j.Row)
		}
		n.listChanged(now)
	})
	if err != nil {
		n.unwait(w, true) // the loop may judge it yet
		return wire.EnrollAnswer{}, nil, err
	}
	switch {
	case j.Err != nil:
		return wire.EnrollAnswer{}, nil, j.Err
	case j.Admit:
		if _, err := n.admit(ctx, b, j.Row, r, req, j.Auto); err != nil {
			n.post(func(now time.Time) { n.list.Failed(now, j.Row); n.listChanged(now) })
			n.post(func(now time.Time) {
				n.noise.say(now, "admission not committed", "id", control.Word(r.ID), "error", control.Sentence(err.Error()))
			})
			ans := n.answer(b, wire.OutcomePending, r.ID, r.Key, r.Nonce, j.Challenge, j.HasChallenge, nil)
			return ans, n.keepOpen(ctx, w, j.Waits), nil
		}
		n.post(func(time.Time) { n.list.Committed(j.Auto) })
		n.unwait(w, j.Waits)
		return n.approval(b, r.ID, r.Key, r.Nonce), nil, nil
	case j.Outcome == wire.OutcomeApproved:
		return n.approval(b, r.ID, r.Key, r.Nonce), nil, nil
	case j.Outcome == wire.OutcomePending:
		ans := n.answer(b, wire.OutcomePending, r.ID, r.Key, r.Nonce, j.Challenge, j.HasChallenge, nil)
		return ans, n.keepOpen(ctx, w, j.Waits), nil
	}
	return n.answer(b, j.Outcome, r.ID, r.Key, r.Nonce, [32]byte{}, false, nil), nil, nil
}

// keepOpen is how a stream waits for its row's decision.
func (n *Node) keepOpen(ctx context.Context, w *waiter, waits bool) func() error {
	if !waits {
		return nil
	}
	return func() error {
		defer n.unwait(w, true)
		select {
		case <-ctx.Done():
			return nil
		case <-w.done:
			return w.err
		}
	}
}

func (n *Node) unwait(w *waiter, waits bool) {
	if !waits {
		return
	}
	n.post(func(now time.Time) {
		all := n.waiters[w.row]
		for i, x := range all {
			if x == w {
				all = append(all[:i:i], all[i+1:]...)
				n.list.Closed(now, w.row)
				break
			}
		}
		if len(all) == 0 {
			delete(n.waiters, w.row)
		} else {
			n.waiters[w.row] = all
		}
	})
}

// admit commits a machine's admission; only then is it told.
func (n *Node) admit(ctx context.Context, b *body, row enroll.RowID, r wire.EnrollRequest, req enroll.Request, auto bool) (revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	e := wire.Endpoints{FC: r.Endpoint}
	awaited, _ := b.view().Awaited(row.ID, row.Key)
	if awaited.Seat {
		e.Raft = awaited.Raft
	}
	c := fleet.AdmitLearner(row.ID, row.Key, req.Name, req.Platform, req.Version, e, req.Format, n.key.Public().String(), time.Now().Unix(), auto)
	c.Seat = awaited.Seat
	// Each entry of the log has the awaited looked at again, and who is refused asks again every two seconds: a fleet that is
	// full would write refusals as fast as its disk takes them.
	if would := b.view().Try(c); would.Err != "" {
		return 0, wire.NewError(wire.CodeRefusedByRule, would.Err, would.Hint)
	}
	res, err := b.propose(ctx, c)
	if err != nil {
		return 0, err
	}
	n.log.Info("machine admitted", "id", row.ID, "name", control.Word(req.Name), "key", row.Key.String(), "from", req.Source.String(), "by-window", auto)
	return res.Revision, nil
}

// answer signs one outcome. It is called off the loop: a signature takes tens of microseconds.
func (n *Node) answer(b *body, outcome wire.Outcome, id string, key, nonce, challenge [32]byte, hasChallenge bool, roster []byte) wire.EnrollAnswer {
	a := wire.EnrollAnswer{Outcome: outcome, Roster: roster, Challenge: challenge, HasChallenge: hasChallenge, Signer: n.key.Public()}
	a.Signature = n.key.Sign(a.Message(nonce, id, key, b.cluster))
	return a
}

func (n *Node) approval(b *body, id string, key, nonce [32]byte) wire.EnrollAnswer {
	roster, err := json.Marshal(b.view().Roster(id))
	if err != nil {
		n.log.Error("roster not encoded", "error", err.Error())
	}
	return n.answer(b, wire.OutcomeApproved, id, key, nonce, [32]byte{}, false, roster)
}

// candidate is a row with what its last request said it can read, so that an approval can be committed without its stream.
type candidate struct {
	enroll.Row
	format int
}

func (c candidate) request() (wire.EnrollRequest, enroll.Request) {
	r := wire.EnrollRequest{ID: c.ID, Key: c.Key, Endpoint: c.Endpoint}
	return r, enroll.Request{EnrollRequest: r, Name: c.Name, Platform: c.Platform, Version: c.Version, Source: c.Source, Format: c.format}
}

// admitRows commits the admissions of rows that were approved in the list, and tells their streams. revision is the last
// one's.
func (n *Node) admitRows(ctx context.Context, b *body, rows []candidate, auto bool) (done int, revision uint64, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	// All at once: the log makes durable together what is proposed together, and a full list is sixty-four.
	for _, row := range rows {
		wg.Go(func() {
			r, req := row.request()
			rev, aerr := n.admit(ctx, b, row.RowID(), r, req, auto)
			if aerr != nil {
				n.post(func(now time.Time) { n.list.Failed(now, row.RowID()); n.listChanged(now) })
			} else {
				n.post(func(time.Time) { n.list.Committed(auto) })
				n.tell(row.RowID(), func(w *waiter) wire.EnrollAnswer { return n.approval(b, row.ID, row.Key, w.nonce) }, true)
			}
			mu.Lock()
			defer mu.Unlock()
			if aerr != nil {
				err = errors.Join(err, aerr)
				return
			}
			done, revision = done+1, max(revision, rev)
		})
	}
	wg.Wait()
	return done, revision, err
}

// admitAwaited admits the machines that wait and were approved ahead meanwhile: their streams are open, so they do not ask
// again.
func (n *Node) admitAwaited(now time.Time, v *fleet.View) {
	b := n.body
	if len(v.PreApprovals()) == 0 || !b.leads() {
		return
	}
	var ids []enroll.RowID
	for _, r := range n.list.Rows(now) {
		if _, awaited := v.PreApproved(r.ID, r.Key); awaited && r.Decision == enroll.Waiting {
			if id, err := n.list.Approve(now, r.ID, r.Key); err == nil {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 {
		return
	}
	rows := n.rowsOf(now, ids...)
	n.listChanged(now)
	n.effect(func(ctx context.Context) {
		if _, _, err := n.admitRows(ctx, b, rows, false); err != nil {
			n.post(func(now time.Time) {
				n.noise.say(now, "admission not committed", "error", control.Sentence(err.Error()))
			})
		}
	})
}

// tell pushes an answer to every open stream of a row, off the loop.
func (n *Node) tell(row enroll.RowID, make func(*waiter) wire.EnrollAnswer, last bool) {
	n.post(func(time.Time) {
		for _, w := range n.waiters[row] {
			n.effect(func(context.Context) {
				if err := w.push(make(w)); err != nil {
					w.end(nil)
				} else if last {
					w.end(nil)
				}
			})
		}
	})
}

// stopAdmitting ends the window and sends everybody who waits elsewhere: to the fleet that this node asks itself, or to
// whoever leads now.
func (n *Node) stopAdmitting(now time.Time, elsewhere string) {
	n.list.Drop()
	e := wire.NewError(wire.CodeNotLeader, elsewhere, "this machine does not lead a fleet that admits machines")
	for _, all := range n.waiters {
		for _, w := range all {
			w.end(e)
		}
	}
	n.listChanged(now)
}

// repeatAnswers does what the waiting list's clock asks for.
func (n *Node) tickList(now time.Time) {
	expired, repeat := n.list.Tick(now)
	for _, row := range expired {
		for _, w := range n.waiters[row] {
			w.end(nil)
		}
	}
	b := n.body
	for _, row := range repeat {
		challenge, ok := n.list.Challenge(row)
		if b == nil {
			continue
		}
		for _, w := range n.waiters[row] {
			n.effect(func(context.Context) {
				if w.push(n.answer(b, wire.OutcomePending, row.ID, row.Key, w.nonce, challenge, ok, nil)) != nil {
					w.end(nil)
				}
			})
		}
	}
	if len(expired) > 0 {
		n.listChanged(now)
	}
}

// listChanged shows the list's state: its conditions, and which keys are bounded by it.
func (n *Node) listChanged(now time.Time) {
	rows := n.list.Rows(now)
	keys := make(map[identity.PublicKey]bool, len(rows))
	formats := make(map[enroll.RowID]int, len(rows))
	waiting := 0
	for _, r := range rows {
		formats[r.RowID()] = n.formats[r.RowID()]
		if r.Decision == enroll.Waiting {
			waiting++
			keys[r.Key] = true
		}
	}
	n.formats = formats
	n.rowKeys.Store(&keys)
	n.tellWaiting(rows)
	n.board.Set(waiting > 0, "enrollment-requests-waiting", plural(waiting, "machine waits", "machines wait")+" to be admitted")
	left, _, open := n.list.Window(now)
	n.board.Set(open, "enrollment-window-open", fmt.Sprintf("machines that ask are admitted unseen for %d min more", enroll.MinutesLeft(left)))
}

// EnrollControl implements control.Backend.
func (n *Node) EnrollControl(ctx context.Context, p control.Peer, c wire.EnrollControl) ([]byte, error) {
	var out any
	var err error
	if c.Op == wire.ControlList {
		out, err = n.enrollList(ctx)
	} else {
		out, err = n.enrollChange(ctx, p, c)
	}
	if err != nil {
		return nil, err
	}
	return encode(out)
}

func (n *Node) enrollList(ctx context.Context) (control.EnrollList, error) {
	out := control.EnrollList{V: control.DocumentVersion, Rows: []control.EnrollRow{}}
	var elsewhere error
	err := n.ask(ctx, func(now time.Time) {
		own := n.form.Own()
		if own.Mode == formation.Learner || own.Mode == formation.Voter && !n.isLeader() {
			elsewhere = n.notLeader("the waiting list is on the leader")
			return
		}
		out.Cluster = own.Cluster
		if left, armed, ok := n.list.Window(now); ok {
			out.Window = control.Window{Armed: true, LeftMS: left.Milliseconds(), ArmedAt: armed.Unix()}
		}
		for _, r := range n.list.Rows(now) {
			row := control.EnrollRow{Decision: decisions[r.Decision], ID: r.ID, Key: r.Key.String(), Name: r.Name, Platform: r.Platform, Version: r.Version,
				Endpoint: r.Endpoint, Source: r.Source.String(), AgeMS: r.Age.Milliseconds(), HeardMS: r.Heard.Milliseconds(), Attempts: uint64(r.Attempts),
				AddressDiffers: r.EndpointDiffers, KeyConflict: r.ConflictRow || r.ConflictMember, KeyRejected: r.KeyRejected}
			if r.NameOf != "" {
				row.NameOf = &control.NameClash{ID: r.NameOf}
				if !r.NameHeard.IsZero() {
					ms := now.Sub(r.NameHeard).Milliseconds()
					row.NameOf.HeardMS = &ms
				}
			}
			if r.Decision == enroll.ApprovedAuto && !r.ArmedAt.IsZero() {
				row.ArmedAt = r.ArmedAt.Unix()
			}
			out.Rows = append(out.Rows, row)
		}
	})
	return out, errors.Join(err, elsewhere)
}

var decisions = map[enroll.Decision]string{
	enroll.Waiting: control.DecisionWaiting, enroll.ApprovedManually: control.DecisionApproved,
	enroll.ApprovedAuto: control.DecisionAuto, enroll.RejectedByHand: control.DecisionRejected,
}

func (n *Node) enrollChange(ctx context.Context, p control.Peer, c wire.EnrollControl) (control.Done, error) {
	done := control.Done{V: control.DocumentVersion}
	if c.Op == wire.ControlApprove {
		if err := n.settled(ctx); err != nil {
			return done, err
		}
	}
	var refused error
	if err := n.ask(ctx, func(time.Time) { refused = n.admits(c.Op) }); err != nil || refused != nil {
		return done, errors.Join(err, refused)
	}
	var err error
	var rows []candidate
	var b *body
	switch c.Op {
	case wire.ControlApprove:
		id, key, _ := wire.ControlMember(c.Argument)
		if rev, revoked := n.view.Load().Revoked(key); revoked { // its row may still say approved, which it no longer is
			return done, wire.NewError(wire.CodeRefusedByRule, fmt.Sprintf("the key of %s was revoked at revision %d and is never admitted again", wire.Printable(id), rev),
				"on that machine: pace-node --reset-identity; then it asks again under a new id")
		}
		err = n.ask(ctx, func(now time.Time) {
			if refused = n.admits(c.Op); refused != nil {
				return
			}
			var row enroll.RowID
			if row, refused = n.list.Approve(now, id, key); refused == nil {
				rows, b = n.rowsOf(now, row), n.body
			}
			n.listChanged(now)
		})
		if err = errors.Join(err, refused); err != nil {
			return done, refuse(err)
		}
		if _, done.Revision, err = n.admitRows(ctx, b, rows, false); err != nil {
			return done, err
		}
		done.Said = fmt.Sprintf("%s is admitted", id)
	case wire.ControlReject:
		id, raw, hasKey, _ := wire.ControlTarget(c.Argument)
		var key *identity.PublicKey
		if hasKey {
			k := identity.PublicKey(raw)
			key = &k
		}
		var rejected []enroll.RowID
		err = n.ask(ctx, func(now time.Time) {
			if refused = n.admits(c.Op); refused != nil {
				return
			}
			b = n.body
			rejected, refused = n.list.Reject(now, id, key)
			n.listChanged(now)
		})
		if err = errors.Join(err, refused); err != nil {
			return done, refuse(err)
		}
		for _, row := range rejected {
			n.tell(row, func(w *waiter) wire.EnrollAnswer {
				return n.answer(b, wire.OutcomeRejected, row.ID, row.Key, w.nonce, [32]byte{}, false, nil)
			}, true)
			n.audit(ctx, "reject", row.ID, row.Key.String(), n.actor(p))
		}
		done.Said = fmt.Sprintf("%s is rejected and does not ask again for an hour", id)
	case wire.ControlClear:
		cleared := 0
		err = n.ask(ctx, func(now time.Time) {
			for _, all := range n.waiters {
				for _, w := range all {
					w.end(nil)
				}
			}
			cleared = n.list.Clear(now)
			n.listChanged(now)
		})
		done.Said = plural(cleared, "waiting machine is", "waiting machines are") + " cleared from the list, and who still wants in asks again"
	case wire.ControlWindow:
		done.Said, done.Revision, err = n.arm(ctx, p, c)
	case wire.ControlWindowOff:
		err = n.ask(ctx, func(now time.Time) { n.list.Off(now); n.listChanged(now) })
		n.audit(ctx, "window", "", "off", n.actor(p))
		done.Said = "the auto-approve window is closed"
	default:
		return done, wire.NewError(wire.CodeUnknownVerb, "not an operation of the waiting list", "")
	}
	return done, err
}

// admits is why this machine decides on nobody at this moment, nil where it does. It is asked again where the list is
// changed: what was begun before a move ends after it, and a window that is armed then would outlive the leadership. The loop's.
func (n *Node) admits(op wire.ControlOp) error {
	if own := n.form.Own(); own.Mode == formation.Pending {
		return wire.NewError(wire.CodeRefusedByRule, "this machine asks another fleet to join, so it admits nobody", "do it on that fleet's leader: --scheduler="+own.Target.Endpoint)
	}
	if n.body == nil || !n.isLeader() {
		return n.notLeading("the waiting list is on the leader")
	}
	if d := n.view.Load().Dissolving(); d != nil && (op == wire.ControlApprove || op == wire.ControlWindow) {
		return wire.NewError(wire.CodeRefusedByRule, "this fleet dissolves into the fleet "+control.Word(d.Survivor)+", so it admits nobody", "do it there: --scheduler="+control.Word(d.LeaderEndpoint))
	}
	return nil
}

// settlePoll is how often it is looked whether a fleet of one has made its first choice.
const settlePoll = 100 * time.Millisecond

// settled waits until a fleet of one that has just begun has made its first choice: an approval before it could make two
// fleets that neither yield out of machines that were powered on together. It takes a few seconds at most.
func (n *Node) settled(ctx context.Context) error {
	poll := time.NewTicker(settlePoll)
	defer poll.Stop()
	for {
		settling := false
		if err := n.ask(ctx, func(now time.Time) { settling = n.form.Settling(now) }); err != nil || !settling {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return wire.NewError(wire.CodeBusy, "this machine has just started and is still choosing whether to ask another fleet; nothing was approved", "try again in a few seconds")
		case <-n.quit:
			return errStopping
		}
	}
}

// arm opens the auto-approve window. The fleet is established by it, durably, before anybody is admitted through it.
func (n *Node) arm(ctx context.Context, p control.Peer, c wire.EnrollControl) (said string, revision uint64, err error) {
	seconds, _ := wire.WindowSeconds(c.Argument)
	d, err := enroll.WindowOf(seconds)
	if err != nil {
		return "", 0, wire.NewError(wire.CodeRefusedByRule, err.Error(), "pacectl enroll window 15m, or at most 24h")
	}
	res, err := n.propose(ctx, fleet.MarkEstablished("window of "+d.String(), n.actor(p), time.Now().Unix()))
	if err != nil {
		return "", 0, err
	}
	var rows []candidate
	var b *body
	var refused error
	err = n.ask(ctx, func(now time.Time) {
		if refused = n.admits(c.Op); refused != nil {
			return
		}
		var ids []enroll.RowID
		if ids, refused = n.list.Arm(now, d); refused == nil {
			rows, b = n.rowsOf(now, ids...), n.body
		}
		n.listChanged(now)
	})
	if err = errors.Join(err, refused); err != nil {
		return "", res.Revision, refuse(err)
	}
	n.log.Warn("auto-approve window armed: every unmarked machine that asks is admitted", "for", d)
	admitted, last, err := n.admitRows(ctx, b, rows, true)
	return fmt.Sprintf("machines that ask are admitted unseen for %s, and %s", d, plural(admitted, "that waited is admitted", "that waited are admitted")), max(res.Revision, last), err
}

func (n *Node) rowsOf(now time.Time, ids ...enroll.RowID) []candidate {
	var out []candidate
	for _, r := range n.list.Rows(now) {
		for _, id := range ids {
			if r.RowID() == id {
				out = append(out, candidate{r, n.formats[id]})
			}
		}
	}
	return out
}

// audit writes who did what into the fleet's state, as an effect of its own: the deed itself does not hang on it.
func (n *Node) audit(_ context.Context, what, subject, detail, by string) {
	n.effect(func(ctx context.Context) {
		if _, err := n.propose(ctx, fleet.Audit(what, subject, detail, by, time.Now().Unix())); err != nil {
			n.log.Warn("audit entry not written", "what", what, "error", err.Error())
		}
	})
}

// refuse makes a refusal of the list one by rule.
func refuse(err error) error {
	var e *wire.Error
	if err == nil || errors.As(err, &e) || errors.Is(err, errStopping) {
		return err
	}
	return wire.NewError(wire.CodeRefusedByRule, err.Error(), "pacectl enroll list shows who waits, with their keys")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
