package page

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Action is one thing that a person may do from the page: a verb of package control.
type Action struct {
	Path  string
	Takes []string // the names of the body; each is given
	Do    func(ctx context.Context, p *Page, body map[string]string) (control.Done, error)
}

// Actions is the table of them. What ends a fleet, or takes this machine out of it, is typed on a terminal.
var Actions = []Action{
	{"waiting/approve", []string{"id", "key"}, func(ctx context.Context, p *Page, b map[string]string) (control.Done, error) {
		return p.decide(ctx, wire.ControlApprove, b)
	}},
	{"waiting/reject", []string{"id", "key"}, func(ctx context.Context, p *Page, b map[string]string) (control.Done, error) {
		return p.decide(ctx, wire.ControlReject, b)
	}},
	{"waiting/window", []string{"minutes"}, (func(ctx context.Context, p *Page, b map[string]string) (control.Done, error) {
		return p.window(ctx, b["minutes"])
	})},
	{"queue/retry", []string{"id"}, queueAction("retry")},
	{"queue/drop", []string{"id"}, queueAction("drop")},
	{"queue/reprovision", []string{"id"}, queueAction("reprovision")},
	{"queue/pause", nil, queueAction("pause")},
	{"queue/resume", nil, queueAction("resume")},
	{"members/promote", []string{"id"}, func(ctx context.Context, p *Page, b map[string]string) (control.Done, error) {
		return p.promote(ctx, b["id"])
	}},
	{"members/demote", []string{"id"}, func(ctx context.Context, p *Page, b map[string]string) (control.Done, error) {
		return p.cluster(ctx, wire.ClusterRequest{Op: "admit-learner", ID: b["id"]})
	}},
	{"members/forget", []string{"id"}, func(ctx context.Context, p *Page, b map[string]string) (control.Done, error) {
		return p.cluster(ctx, wire.ClusterRequest{Op: "forget", ID: b["id"]})
	}},
}

// windowMost is the longest auto-approve window, minutes.
const windowMost = 24 * 60

// act carries out an action.
func (p *Page) act(w http.ResponseWriter, q *request, a Action) {
	for _, name := range a.Takes {
		if q.body[name] == "" {
			p.refuse(w, "body", http.StatusBadRequest, "the request does not say its "+name, "load the page again")
			return
		}
	}
	select {
	case p.actions <- struct{}{}:
		defer func() { <-p.actions }()
	default:
		p.refuse(w, "actions", http.StatusServiceUnavailable, "this node carries out as many changes as it does at once", "try again in a few seconds")
		return
	}
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Time{}) // the body is read, and waiting is no fault of the asker
	rc.SetWriteDeadline(time.Now().Add(actionTime + answerTime))
	ctx, cancel := context.WithTimeout(q.r.Context(), actionTime)
	defer cancel()
	done, err := a.Do(ctx, p, q.body)
	p.cfg.Logger.Info("asked for on the web page", "what", a.Path, "of", control.Word(q.body["id"]), "from", source(q.r), "done", err == nil)
	if err != nil {
		p.failed(w, err)
		return
	}
	p.live.poke()
	p.answer(w, http.StatusOK, &done)
}

// failed answers with what a verb was refused for.
func (p *Page) failed(w http.ResponseWriter, err error) {
	p.count("refused")
	f := control.FailureOf(err)
	status := http.StatusConflict
	if f.Code == control.CodeNobody || f.Code == wire.CodeBusy.String() || f.Code == wire.CodeNotLeader.String() {
		status = http.StatusServiceUnavailable
	}
	p.fail(w, status, f)
}

// ask asks a verb here, and of the leader where it is for that one.
func ask[T any](ctx context.Context, p *Page, v wire.Verb, payload []byte, here func() ([]byte, error)) (T, error) {
	var out T
	b, err := here()
	var refused *wire.Error
	if errors.As(err, &refused) && refused.Code == wire.CodeNotLeader && refused.Text != "" && p.cfg.Leader != nil {
		b, err = p.cfg.Leader(ctx, v, payload)
		if there := (*wire.Error)(nil); errors.As(err, &there) && there.Code == wire.CodeRefusedByRule {
			// The leader lets this machine's key in for less than its administrators are let in for here.
			err = wire.NewError(there.Code, there.Text+"; the leader is at "+control.Word(refused.Text), there.Hint)
		}
	}
	if err != nil {
		return out, err
	}
	return wire.DecodeDocument[T](b)
}

func askJSON[T any](ctx context.Context, p *Page, v wire.Verb, req any, here func() ([]byte, error)) (T, error) {
	payload, err := json.Marshal(req)
	if err != nil {
		var out T
		return out, err
	}
	return ask[T](ctx, p, v, payload, here)
}

func (p *Page) control(ctx context.Context, c wire.EnrollControl) (control.Done, error) {
	return ask[control.Done](ctx, p, wire.VerbEnrollControl, c.Append(nil), func() ([]byte, error) { return p.cfg.Backend.EnrollControl(ctx, local, c) })
}

// malformed is a text that is none of what it should be.
func malformed(what string, err error) error {
	return wire.NewError(wire.CodeRefusedByRule, what+": "+err.Error(), "load the page again, and compare what it shows")
}

func (p *Page) decide(ctx context.Context, op wire.ControlOp, b map[string]string) (control.Done, error) {
	key, err := identity.ParsePublicKey(b["key"])
	if err != nil {
		return control.Done{}, malformed("the key", err)
	}
	if !wire.ValidID(b["id"]) {
		return control.Done{}, malformed("the id", errors.New("an id is 1 to 64 of A-Z a-z 0-9 . _ -"))
	}
	return p.control(ctx, wire.EnrollControl{Op: op, Argument: wire.AppendControlMember(nil, b["id"], key)})
}

// window arms the auto-approve window, or with 0 minutes ends it.
func (p *Page) window(ctx context.Context, minutes string) (control.Done, error) {
	n, err := strconv.Atoi(minutes)
	switch {
	case err != nil || n < 0 || n > windowMost:
		return control.Done{}, malformed("the window", errors.New("it has 0 to 1440 minutes"))
	case n == 0:
		return p.control(ctx, wire.EnrollControl{Op: wire.ControlWindowOff})
	}
	return p.control(ctx, wire.EnrollControl{Op: wire.ControlWindow, Argument: strconv.AppendInt(nil, int64(n)*60, 10)})
}

func queueAction(op string) func(context.Context, *Page, map[string]string) (control.Done, error) {
	return func(ctx context.Context, p *Page, b map[string]string) (control.Done, error) {
		req := wire.QueueRequest{Op: op, ID: b["id"], Reason: b["reason"]}
		return askJSON[control.Done](ctx, p, wire.VerbQueue, req, func() ([]byte, error) { return p.cfg.Backend.Queue(ctx, local, req) })
	}
}

func (p *Page) cluster(ctx context.Context, req wire.ClusterRequest) (control.Done, error) {
	a, err := askJSON[wire.ClusterAnswer](ctx, p, wire.VerbCluster, req, func() ([]byte, error) {
		a, err := p.cfg.Backend.Cluster(ctx, local, req)
		if err != nil {
			return nil, err
		}
		return json.Marshal(a)
	})
	return control.Done{Said: a.Text, Revision: a.Revision}, err
}

// promote makes a learner a voter, at the consensus endpoint that the list shows.
func (p *Page) promote(ctx context.Context, id string) (control.Done, error) {
	b, err := p.cfg.Backend.Status(ctx, local, wire.StatusRequest{What: "cluster"})
	if err != nil {
		return control.Done{}, err
	}
	s, err := wire.DecodeDocument[control.ClusterStatus](b)
	if err != nil {
		return control.Done{}, err
	}
	for i := range s.Members {
		if m := &s.Members[i]; m.ID == id {
			endpoint := m.RaftEndpoint()
			if endpoint == "" {
				return control.Done{}, wire.NewError(wire.CodeRefusedByRule, "it has not said yet where it can be reached", "wait until it was heard, or name its endpoint: pacectl member admit")
			}
			return p.cluster(ctx, wire.ClusterRequest{Op: "admit", ID: id, Endpoint: endpoint})
		}
	}
	return control.Done{}, wire.NewError(wire.CodeRefusedByRule, control.Word(id)+" is not a member of this fleet", "pacectl member list")
}
