package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// preapproveBatch is how many lines go with one request: each has at most 108
// bytes, and a request 64 KiB.
const preapproveBatch = 400

// maxPreapproveLine bounds a line of the list: an id of 64, a key of 43, and room
// for a comment.
const maxPreapproveLine = 1024

func (r *runner) identity(ctx context.Context, _ []string) (Printable, error) {
	if r.deps.PeekIdentity == nil {
		return nil, errors.New("this program cannot read the state directory")
	}
	d, err := r.deps.PeekIdentity(ctx)
	if err != nil {
		return nil, err
	}
	return &d, nil
}

func (r *runner) resetIdentity(ctx context.Context, _ []string) (Printable, error) {
	if r.deps.ResetIdentity == nil {
		return nil, errors.New("this program cannot write the state directory")
	}
	d, err := r.deps.ResetIdentity(ctx)
	if err != nil {
		return nil, err
	}
	return &d, nil
}

func (r *runner) surfaces(ctx context.Context, _ []string) (Printable, error) {
	if r.deps.Surfaces == nil {
		return nil, errors.New("this program cannot tell what it binds")
	}
	d, err := r.deps.Surfaces(ctx)
	if err != nil {
		return nil, err
	}
	return &d, nil
}

func (r *runner) install(ctx context.Context, _ []string) (Printable, error) {
	defer r.busy("registering the service")()
	return r.service(ctx, r.deps.Install)
}

func (r *runner) uninstall(ctx context.Context, _ []string) (Printable, error) {
	defer r.busy("removing the service")()
	return r.service(ctx, r.deps.Uninstall)
}

func (r *runner) runHooks(ctx context.Context, _ []string) (Printable, error) {
	if r.deps.RunHooks == nil {
		return nil, errors.New("this program runs no hooks for another")
	}
	d, err := r.deps.RunHooks(ctx)
	if err != nil {
		return nil, err
	}
	return &d, nil
}

func (r *runner) applyUpgrade(ctx context.Context, _ []string) (Printable, error) {
	if r.deps.ApplyUpgrade == nil {
		return nil, errors.New("this program cannot reach the service manager")
	}
	d, err := r.deps.ApplyUpgrade(ctx)
	if err != nil {
		return nil, err
	}
	return &d, nil
}

func (r *runner) service(ctx context.Context, change func(context.Context) (ServiceChange, error)) (Printable, error) {
	if change == nil {
		return nil, errors.New("this program cannot reach the service manager")
	}
	d, err := change(ctx)
	if err != nil {
		for _, done := range d.Changed {
			r.notice("done before this failed: %s", done)
		}
		return nil, err
	}
	return &d, nil
}

func status[T any](r *runner, ctx context.Context, what string) (T, error) {
	return ask[T](ctx, r.call, wire.VerbStatus, wire.StatusRequest{What: what})
}

func (r *runner) node(ctx context.Context, _ []string) (Printable, error) {
	d, err := status[NodeStatus](r, ctx, "node")
	return &d, err
}

func (r *runner) clusterStatus(ctx context.Context, _ []string) (Printable, error) {
	d, err := status[ClusterStatus](r, ctx, "cluster")
	return &d, err
}

// enroll asks one operation of EnrollControl.
func (r *runner) enroll(ctx context.Context, op wire.ControlOp, argument []byte) (Printable, error) {
	c := wire.EnrollControl{Op: op, Argument: argument}
	d, err := answer[Done](ctx, r.call, wire.VerbEnrollControl, c.Append(nil))
	return &d, err
}

func (r *runner) waiting(ctx context.Context) (EnrollList, error) {
	c := wire.EnrollControl{Op: wire.ControlList}
	return answer[EnrollList](ctx, r.call, wire.VerbEnrollControl, c.Append(nil))
}

func (r *runner) enrollList(ctx context.Context, _ []string) (Printable, error) {
	d, err := r.waiting(ctx)
	return &d, err
}

// waitingID reads the id of a waiting machine; pacectl also takes its name or the
// start of its id.
func (r *runner) waitingID(ctx context.Context, word string) (string, error) {
	if r.tool {
		list, err := r.waiting(ctx)
		if err != nil {
			return "", err
		}
		var machines []Machine
		for _, row := range list.Rows {
			machines = append(machines, Machine{ID: row.ID, Name: row.Name})
		}
		return resolve(word, "the waiting list", "pacectl enroll list", machines)
	}
	if !wire.ValidID(word) {
		return "", usageFailure("paste the line that --enroll-list printed", "%q is no id: an id is 1 to 64 of A-Z a-z 0-9 . _ -", word)
	}
	return word, nil
}

func (r *runner) enrollApprove(ctx context.Context, args []string) (Printable, error) {
	word, keyText, ok := cutLast(args[0], '@')
	if !ok {
		return nil, usageFailure("compare its key with what pace-node --print-identity printed on that machine, and give both: ID@KEY. pacectl enroll list prints the line", "an approval needs the key that you have compared")
	}
	key, err := identity.ParsePublicKey(keyText)
	if err != nil {
		return nil, usageFailure("paste the line that --enroll-list printed", "%v", err)
	}
	id, err := r.waitingID(ctx, word)
	if err != nil {
		return nil, err
	}
	return r.enroll(ctx, wire.ControlApprove, wire.AppendControlMember(nil, id, key))
}

func (r *runner) enrollReject(ctx context.Context, args []string) (Printable, error) {
	word, keyText, hasKey := cutLast(args[0], '@')
	id, err := r.waitingID(ctx, word)
	if err != nil {
		return nil, err
	}
	if !hasKey {
		return r.enroll(ctx, wire.ControlReject, []byte(id))
	}
	key, err := identity.ParsePublicKey(keyText)
	if err != nil {
		return nil, usageFailure("leave the key out to reject every row of that id", "%v", err)
	}
	return r.enroll(ctx, wire.ControlReject, wire.AppendControlMember(nil, id, key))
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

func (r *runner) enrollClear(ctx context.Context, _ []string) (Printable, error) {
	return r.enroll(ctx, wire.ControlClear, nil)
}

func (r *runner) enrollWindow(ctx context.Context, args []string) (Printable, error) {
	if args[0] == "off" {
		return r.enroll(ctx, wire.ControlWindowOff, nil)
	}
	const example = "pacectl enroll window 15m, at most 24h; pacectl enroll window off closes it"
	d, err := config.ParseDuration(args[0])
	switch {
	case err != nil:
		return nil, usageFailure(example, "%q is %v", args[0], err)
	case d <= 0:
		return nil, usageFailure(example, "a window of %s is none", args[0])
	}
	seconds := (d + time.Second - 1) / time.Second // rounded up: half a second is a window too
	return r.enroll(ctx, wire.ControlWindow, strconv.AppendInt(nil, int64(seconds), 10))
}

// cluster asks one operation of Cluster, and says its revision.
func (r *runner) cluster(ctx context.Context, req wire.ClusterRequest) (*Done, error) {
	a, err := ask[wire.ClusterAnswer](ctx, r.call, wire.VerbCluster, req)
	if err != nil {
		return nil, err
	}
	return &Done{V: DocumentVersion, Said: orText(a.Text, "done"), Revision: a.Revision}, nil
}

// preapprove admits machines before they ask, and makes a voter named without a
// key a learner: one verb, decided by the fleet's table of membership.
func (r *runner) preapprove(ctx context.Context, args []string) (Printable, error) {
	if len(args) == 1 && args[0] != "-" {
		if wire.ValidID(args[0]) {
			return r.cluster(ctx, wire.ClusterRequest{Op: "admit-learner", ID: args[0]})
		}
		parsed, key, err := identity.ParseAdmit(args[0])
		if err != nil {
			return nil, usageFailure("ID@KEY, as pace-node --print-identity prints them on that machine", "%v", err)
		}
		return r.cluster(ctx, wire.ClusterRequest{Op: "admit-learner", ID: parsed, Key: key.String()})
	}
	list, err := r.admitLines(args)
	if err != nil {
		return nil, err
	}
	var last *Done
	for from := 0; from < len(list); from += preapproveBatch {
		to := min(from+preapproveBatch, len(list))
		if last, err = r.cluster(ctx, wire.ClusterRequest{Op: "admit-learner", Lines: list[from:to]}); err != nil {
			if from > 0 {
				r.notice("the first %d of %d lines were recorded before this failed", from, len(list))
			}
			return nil, err
		}
	}
	if len(list) > preapproveBatch {
		last.Said = fmt.Sprintf("%d machines are pre-approved", len(list))
	}
	return last, nil
}

// admitLines checks every line before any is sent. "-" reads them from stdin;
// empty lines and those that begin with # are passed over.
func (r *runner) admitLines(args []string) ([]string, error) {
	lines := args
	if len(args) == 1 && args[0] == "-" {
		if r.deps.Stdin == nil {
			return nil, usageFailure("give ID@KEY, or a list on stdin", "there is no list on stdin")
		}
		lines = nil
		s := bufio.NewScanner(r.deps.Stdin)
		s.Buffer(make([]byte, 0, maxPreapproveLine), maxPreapproveLine)
		for s.Scan() {
			lines = append(lines, s.Text())
		}
		if err := s.Err(); err != nil {
			return nil, usageFailure("one ID@KEY a line", "line %d: %v", len(lines)+1, err)
		}
	}
	var out []string
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		id, key, err := identity.ParseAdmit(line)
		if err != nil {
			return nil, usageFailure("one ID@KEY a line; nothing was recorded", "line %d: %v", i+1, err)
		}
		out = append(out, identity.FormatAdmit(id, key))
	}
	if len(out) == 0 {
		return nil, usageFailure("one ID@KEY a line", "the list holds no machine")
	}
	return out, nil
}

// parseAdmit reads <id>=<host>:<port>[@<key>].
func parseAdmit(text string) (id, endpoint, key string, err error) {
	const form = "ID=HOST:PORT[@KEY], as --cluster-status prints it"
	id, rest, ok := strings.Cut(text, "=")
	if !ok || id == "" {
		return "", "", "", usageFailure(form, "%q does not say where the machine is", text)
	}
	endpoint, key, hasKey := cutLast(rest, '@')
	if !wire.ValidEndpoint(endpoint) {
		return "", "", "", usageFailure(form, "%q is no HOST:PORT", endpoint)
	}
	if hasKey {
		k, err := identity.ParsePublicKey(key)
		if err != nil {
			return "", "", "", usageFailure(form, "%v", err)
		}
		key = k.String()
	}
	return id, endpoint, key, nil
}

func (r *runner) admit(ctx context.Context, args []string) (Printable, error) {
	word, endpoint, key, err := parseAdmit(args[0])
	if err != nil {
		return nil, err
	}
	s, err := status[ClusterStatus](r, ctx, "cluster")
	if err != nil {
		return nil, err
	}
	id := word
	switch {
	case key == "" && r.tool:
		id, err = resolve(word, "the fleet", "pacectl member list", machinesOf(s.Members))
	case !wire.ValidID(id):
		err = usageFailure("ID=HOST:PORT[@KEY]", "%q is no id: an id is 1 to 64 of A-Z a-z 0-9 . _ -", id)
	}
	if err == nil {
		err = judgeSeat(id, endpoint, s.Members)
	}
	if err != nil {
		return nil, err
	}
	return r.cluster(ctx, wire.ClusterRequest{Op: "admit", ID: id, Endpoint: endpoint, Key: key})
}

// demote is admit-learner of a member: what is no member yet has a word of its own.
func (r *runner) demote(ctx context.Context, args []string) (Printable, error) {
	id, err := r.memberID(ctx, args[0])
	if err != nil {
		return nil, err
	}
	return r.cluster(ctx, wire.ClusterRequest{Op: "admit-learner", ID: id})
}

// transfer has another voter lead: the one that is named, or any.
func (r *runner) transfer(ctx context.Context, args []string) (Printable, error) {
	req := wire.ClusterRequest{Op: "transfer"}
	if len(args) > 0 {
		id, err := r.memberID(ctx, args[0])
		if err != nil {
			return nil, err
		}
		req.ID = id
	}
	return r.cluster(ctx, req)
}

// memberID reads the id of a member; pacectl also takes its name or the start of
// its id.
func (r *runner) memberID(ctx context.Context, word string) (string, error) {
	if !r.tool {
		if !wire.ValidID(word) {
			return "", usageFailure("an id as --cluster-status prints it", "%q is no id: an id is 1 to 64 of A-Z a-z 0-9 . _ -", word)
		}
		return word, nil
	}
	s, err := status[ClusterStatus](r, ctx, "cluster")
	if err != nil {
		return "", err
	}
	const lister = "pacectl member list"
	machines := machinesOf(s.Members)
	id, err := resolve(word, "the fleet", lister, machines)
	if err == nil && !slices.ContainsFunc(machines, func(m Machine) bool { return m.ID == id }) {
		r.guess = guess{nearby(word, machines), lister}
	}
	return id, err
}

func machinesOf(members []MemberStatus) []Machine {
	var out []Machine
	for _, m := range members {
		out = append(out, Machine{ID: m.ID, Name: m.Name})
	}
	return out
}

func (r *runner) memberList(ctx context.Context, _ []string) (Printable, error) {
	s, err := status[ClusterStatus](r, ctx, "cluster")
	if err != nil {
		return nil, err
	}
	return &MemberList{V: DocumentVersion, View: s.View, Members: s.Members}, nil
}

func (r *runner) memberShow(ctx context.Context, args []string) (Printable, error) {
	s, err := status[ClusterStatus](r, ctx, "cluster")
	if err != nil {
		return nil, err
	}
	id, err := resolve(args[0], "the fleet", "pacectl member list", machinesOf(s.Members))
	if err != nil {
		return nil, err
	}
	for _, m := range s.Members {
		if m.ID == id {
			return &MemberShow{V: DocumentVersion, View: s.View, Member: m}, nil
		}
	}
	return nil, unknownMachine(args[0], "the fleet", "pacectl member list", machinesOf(s.Members))
}

func (r *runner) forget(ctx context.Context, args []string) (Printable, error) {
	_, sure := r.flags[config.WordYes]
	if _, bulk := r.flags[config.WordStale]; bulk || len(args) == 0 {
		return r.forgetStale(ctx, args)
	} else if sure {
		return nil, usageFailure("leave it out, or name no machine but --stale-for=DURATION", "--yes belongs to forgetting many at once")
	}
	id, err := r.memberID(ctx, args[0])
	if err != nil {
		return nil, err
	}
	return r.cluster(ctx, wire.ClusterRequest{Op: "forget", ID: id})
}

func (r *runner) set(ctx context.Context, args []string) (Printable, error) {
	name, value, ok := strings.Cut(args[0], "=")
	if !ok || name == "" {
		return nil, usageFailure("pacectl fleet set NAME=VALUE; pacectl fleet status lists the settings", "%q sets nothing", args[0])
	}
	d, err := r.cluster(ctx, wire.ClusterRequest{Op: "set", Name: name, Value: value})
	var refused *wire.Error
	if errors.As(err, &refused) && refused.Code == wire.CodeRefusedByRule {
		return nil, settingFailure(err, name, knownSettings(status[ClusterStatus](r, ctx, "cluster")))
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

func queueAsk[T any](r *runner, ctx context.Context, op, id, reason string) (T, error) {
	return ask[T](ctx, r.call, wire.VerbQueue, wire.QueueRequest{Op: op, ID: id, Reason: reason})
}

func (r *runner) queueList(ctx context.Context, _ []string) (Printable, error) {
	d, err := queueAsk[QueueList](r, ctx, "list", "", "")
	return &d, err
}

func (r *runner) queueOne(ctx context.Context, op string, args []string) (Printable, error) {
	id, err := r.memberID(ctx, args[0])
	if err != nil {
		return nil, err
	}
	d, err := queueAsk[QueueShow](r, ctx, op, id, "")
	return &d, err
}

func (r *runner) queueShow(ctx context.Context, args []string) (Printable, error) {
	return r.queueOne(ctx, "show", args)
}

func (r *runner) queueHistory(ctx context.Context, args []string) (Printable, error) {
	return r.queueOne(ctx, "history", args)
}

func (r *runner) runHelper(ctx context.Context, args []string) (Printable, error) {
	id, err := r.memberID(ctx, args[0])
	if err != nil {
		return nil, err
	}
	d, err := queueAsk[HelperRun](r, ctx, "run-helper", id, "")
	return &d, err
}

// queueVerb is an operation of the queue that is answered with a sentence.
func queueVerb(op string) func(r *runner, ctx context.Context, args []string) (Printable, error) {
	return func(r *runner, ctx context.Context, args []string) (Printable, error) {
		var id, reason string
		var err error
		switch {
		case op == "pause":
			reason = strings.Join(args, " ")
		case len(args) > 0:
			if id, err = r.memberID(ctx, args[0]); err != nil {
				return nil, err
			}
		}
		d, err := queueAsk[Done](r, ctx, op, id, reason)
		return &d, err
	}
}
