package node

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/provision"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

const (
	// startupRetryFirst and startupRetryMost are the backoff of a startup event that is not acknowledged.
	startupRetryFirst = time.Second
	startupRetryMost  = time.Minute
)

// startProvisioner starts the leader's side, paused until this node leads.
func (n *Node) startProvisioner() error {
	cfg := provisionConfig(n.cfg.Settings.Provision)
	if err := cfg.Complete(); err != nil {
		return err
	}
	n.queue = queue.New(queue.Config{Interval: cfg.Interval, Capacity: cfg.QueueCap, Rand: n.cfg.Random})
	p, err := provision.Start(n.ctx, cfg, provision.Deps{
		Post: func(f func(now time.Time)) { n.post(f) }, Queue: n.queue, Members: n.reachable, Call: n.callMember, Lease: n.lease,
		Record: n.recordProvision, Info: n.helperContext, Cluster: func() string { return n.view.Load().Cluster() },
		MemberKey: func(id string) (identity.PublicKey, provision.Standing) {
			v := n.view.Load()
			if m, ok := v.Member(id); ok {
				return m.Key, provision.StandingMember
			}
			// A revoked key is stopped at its session: the gate of the verbs answers it before any event is read.
			return identity.PublicKey{}, provision.StandingUnknown
		},
		Commit: func(ctx context.Context, id string, p fleet.Provision, done func(error)) {
			n.outcomes.put(id, func(context.Context) {
				_, err := n.propose(ctx, fleet.ProvisionUpdate(id, p))
				done(err)
			})
		},
		Load:     n.recordedRuns,
		Passing:  n.cfg.Point,
		Raise:    n.queueRaises,
		Clear:    n.queueClears,
		Means:    n.meansSeen,
		HandOver: n.handQueueOver,
		Tell:     n.tellQueue,
		Logger:   n.log,
	})
	n.provisioner = p
	return err
}

// provisionConfig is the leader's side of what a machine was configured with.
func provisionConfig(s config.ProvisionConfig) provision.Config {
	return provision.Config{Interval: s.Interval, Workers: s.Workers, QueueCap: s.Queue, Helper: s.Helper, HelperTimeout: s.HelperTimeout, Default: s.Default, Component: s.Component,
		Upgrades: provision.UpgradePolicy(s.Upgrades), Repository: s.Repository, ReleaseKey: s.ReleaseKey,
		PKI: s.PKI, Deny: s.Deny}
}

// reachable are the members that have a session, and this node itself where something can provision it. Two live machines
// under one key are both left out.
func (n *Node) reachable() []string {
	v := n.view.Load()
	out := make([]string, 0, v.Len())
	for m := range v.Members() {
		if s := n.hub.ByKey(m.Key); m.ID == n.id || s != nil && !s.Duplicate() {
			out = append(out, m.ID)
		}
	}
	return out
}

func (n *Node) helperContext(id string) provision.HelperContext {
	v := n.view.Load()
	m, _ := v.Member(id)
	return provision.HelperContext{Name: m.Name, Platform: m.Platform, Labels: m.Labels, Cluster: v.Cluster(), Key: m.Key}
}

// recordedRuns is what the fleet's state knows of each machine's runs, asked on the loop by a leader whose barrier has passed. The
// state that is published here may be older by then: what its predecessor committed last is applied in the same moment.
func (n *Node) recordedRuns() map[string]fleet.Provision {
	v := n.view.Load()
	if n.body != nil { // none between two modes, when the leadership is over that this is asked for
		v = n.body.view()
	}
	out := map[string]fleet.Provision{}
	for m := range v.Members() {
		out[m.ID] = m.Provision
	}
	return out
}

// recordProvision keeps an outcome in the fleet's state; a leader that lost its seat has nothing to say any more.
func (n *Node) recordProvision(id string, p fleet.Provision) {
	b := n.body
	if !b.leads() {
		return
	}
	n.outcomes.put(id, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
		defer cancel()
		if _, err := b.propose(ctx, fleet.ProvisionUpdate(id, p)); err != nil {
			n.log.Debug("provisioning outcome not recorded", "id", id, "error", err.Error())
		}
	})
}

// recordAnnounce writes what this leader says of itself, after whatever it said before: whether that changes anything is asked
// when its turn comes, for what was said a moment ago may not be committed yet.
func (n *Node) recordAnnounce(id string, a wire.Announce) {
	b := n.body
	n.outcomes.put(id, func(ctx context.Context) {
		if m, ok := b.view().Member(id); !ok || n.announceChanges(m, a) {
			if !b.leads() {
				return
			}
			ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
			defer cancel()
			if _, err := b.propose(ctx, fleet.Announce(id, a)); err != nil {
				n.log.Debug("own announcement not recorded", "error", err.Error())
			}
		}
		n.provisioner.Announce(id, a)
	})
}

// announced takes a member's announcement to the queue.
func (n *Node) announced(now time.Time, id string, a wire.Announce) {
	n.lastHeard[id] = now
	n.meansHeard(id, a.Provisions)
	if n.body.leads() {
		n.provisioner.Announce(id, a)
	}
}

// startupEvent is this start, signed for the fleet's leader. Each one has the next sequence. The fleet is the serving
// body's: the view has none before a new learner's first snapshot, and the first event would be sent in vain. It is told
// only where provisioning is wanted, and says so: a machine that runs a configuration which nobody has confirmed is a
// server by its announcement, and no leader would listen to its start.
func (n *Node) startupEvent(b *body, a wire.Announce) wire.StartupEvent {
	sequence := n.target.NextSequence()
	e := wire.StartupEvent{Cluster: b.cluster, Node: n.id, Component: wire.ComponentProvision, BootID: n.target.BootID(), Sequence: sequence,
		At: uint64(max(time.Now().Unix(), 0)), AgeMS: uint64(time.Since(n.started).Milliseconds()), Version: a.Version}
	e.Signature = n.key.Sign(e.Message())
	return e
}

// errNotLeading: the voter at the other end is not the leader that this machine knows.
var errNotLeading = errors.New("this voter does not lead")

// tellStartup says on a voter's session that this machine started and wants provisioning, once that voter leads, and again
// with backoff until the leader has heard it.
func (n *Node) tellStartup(ctx context.Context, s *netio.Session) {
	wait := startupRetryFirst
	first := n.serving.Load()
	for {
		a := n.announcement()
		b := n.serving.Load()
		elected := n.electedNext()
		if !a.Wants || b == nil || b != first {
			return // another body means another fleet, or another mode in it, which tells its start anew
		}
		// Whom this machine does not know as the leader it would refuse the work: an event that is heard too early costs a
		// failed probe, and its backoff.
		var answer wire.StartupEventAnswer
		err := errNotLeading
		if s.Peer() == n.leader().key {
			answer, err = n.sendStartup(ctx, s, n.startupEvent(b, a))
		}
		if err == nil {
			n.log.Debug("startup event heard", "admitted", answer.Admitted, "refused", control.Word(answer.Refused))
			if answer.Refused != queue.Paused.String() {
				return
			}
			// It was dropped: a leader that was just elected does not provision yet, one that stops does not any more.
		}
		var refused *wire.Error
		if errors.As(err, &refused) && (refused.Code == wire.CodeRevoked || refused.Code == wire.CodeNotMember) {
			return // saying it again changes nothing
		}
		select {
		case <-ctx.Done():
			return
		case <-s.Done():
			return
		case <-elected:
			wait = startupRetryFirst
			continue // whoever leads now may not have heard it
		case <-time.After(wait + time.Duration(n.cfg.Random()*float64(wait)/2)):
		}
		wait = min(2*wait, startupRetryMost)
	}
}

// electedNext is closed when somebody else leads; nil, which never is, before anybody did.
func (n *Node) electedNext() <-chan struct{} {
	if c := n.elected.Load(); c != nil {
		return *c
	}
	return nil
}

func (n *Node) sendStartup(ctx context.Context, s *netio.Session, e wire.StartupEvent) (wire.StartupEventAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := netio.Call(ctx, s, wire.VerbStartupEvent, e.Append(nil))
	if err != nil {
		return wire.StartupEventAnswer{}, err
	}
	return wire.DecodeDocument[wire.StartupEventAnswer](reply)
}

// StartupEvent implements control.Backend.
func (n *Node) StartupEvent(ctx context.Context, p control.Peer, e wire.StartupEvent) (wire.StartupEventAnswer, error) {
	if !n.isLeader() {
		return wire.StartupEventAnswer{}, n.notLeader("tell the leader")
	}
	if s, ok := p.Session.(*netio.Session); ok && s.Duplicate() {
		return wire.StartupEventAnswer{}, wire.NewError(wire.CodeRefusedByRule, errCloned.Error(), "on the copy: pace-node --reset-identity")
	}
	answers := make(chan wire.StartupEventAnswer, 1)
	n.provisioner.Event(e, func(a wire.StartupEventAnswer) { answers <- a })
	select {
	case a := <-answers:
		return a, nil
	case <-ctx.Done():
		return wire.StartupEventAnswer{}, ctx.Err()
	}
}

// leadership tells the queue whether this node leads, and everybody else who does.
func (n *Node) leadership(now time.Time) {
	leads := n.body.leads() && n.body.row.Scheduler != formation.SchedulerNever
	if leads == n.led {
		n.publish(now)
		return
	}
	n.led = leads
	n.publish(now)
	n.showHelper()
	if !leads {
		n.provisioner.Lead(false)
		elsewhere := n.leader().endpoint
		if own := n.form.Own(); own.Target != nil {
			elsewhere = own.Target.Endpoint
		}
		n.stopAdmitting(now, elsewhere)
		return
	}
	b := n.body
	n.effect(func(ctx context.Context) {
		// Only after the barrier is everything that earlier leaders committed applied here.
		if err := b.cons.Barrier(ctx); err != nil {
			return
		}
		n.freshen(b)
		n.post(func(now time.Time) {
			if n.body == b && b.leads() {
				// Who cannot write its log is elected every second and never comes this far; once it can, several
				// barriers end at once.
				if term := b.cons.Term(); term != b.saidTerm {
					b.saidTerm = term
					n.log.Info("leading", "fleet", control.Word(b.cluster), "term", term)
				}
				n.followProfile(b)
				n.provisioner.Lead(true)
				n.announce(now)
			}
		})
	})
}

// Queue implements control.Backend.
func (n *Node) Queue(ctx context.Context, p control.Peer, r wire.QueueRequest) (json.RawMessage, error) {
	if !n.isLeader() {
		if r.Op == "list" || r.Op == "show" || r.Op == "history" {
			return n.queueElsewhere(ctx, r)
		}
		return nil, n.notLeading("the queue is on the leader")
	}
	var text string
	var err error
	switch r.Op {
	case "list":
		return n.queueList(ctx)
	case "show", "history":
		return n.queueShow(ctx, r.ID)
	case "retry":
		text, err = n.provisioner.Retry(ctx, r.ID)
	case "drop":
		text, err = n.provisioner.Drop(ctx, r.ID)
	case "pause":
		text, err = "the queue is paused, and what runs is finished", n.pauseQueue(ctx, true, n.actor(p))
	case "resume":
		text, err = "the queue goes on", n.pauseQueue(ctx, false, n.actor(p))
	case "reprovision":
		if r.ID == n.id {
			n.target.Reprovision(r.Reason)
		}
		text, err = n.provisioner.Reprovision(ctx, r.ID)
	case "run-helper":
		var t provision.HelperTrial
		if t, err = n.provisioner.TryHelper(ctx, r.ID); err == nil {
			return encode(control.HelperRun{V: control.DocumentVersion, Input: t.Input, Output: t.Output, TookMS: t.Took.Milliseconds()})
		}
	default:
		return nil, wire.NewError(wire.CodeRefusedByRule, fmt.Sprintf("the queue has no operation %q", wire.Printable(r.Op)), "pacectl --help lists them")
	}
	if err != nil {
		return nil, err
	}
	if r.Op == "pause" || r.Op == "resume" { // whoever asks next is shown who did it, and the reason
		what := "queue-" + r.Op
		if _, err := n.propose(ctx, fleet.Audit(what, "", r.Reason, n.actor(p), time.Now().Unix())); err != nil {
			n.log.Warn("audit entry not written", "what", what, "error", err.Error())
		}
	} else {
		n.audit(ctx, "queue-"+r.Op, r.ID, r.Reason, n.actor(p))
	}
	return encode(control.Done{V: control.DocumentVersion, Said: text, Revision: n.view.Load().Revision()})
}

// pauseQueue keeps the operator's pause in the fleet's settings, so that a restart and another leader keep it.
func (n *Node) pauseQueue(ctx context.Context, paused bool, by string) error {
	if n.view.Load().Switch(fleet.SettingProvisionPaused) == paused {
		return wire.NewError(wire.CodeRefusedByRule, "the queue is in that state already: nothing to do", "pacectl queue list")
	}
	if _, err := n.propose(ctx, fleet.Set(fleet.SettingProvisionPaused, strconv.FormatBool(paused), by, time.Now().Unix())); err != nil {
		return err
	}
	return n.followPause(ctx)
}

// followPause makes the queue follow the setting.
func (n *Node) followPause(ctx context.Context) error {
	if n.view.Load().Switch(fleet.SettingProvisionPaused) {
		return n.provisioner.Pause(ctx)
	}
	return n.provisioner.Resume(ctx)
}

func hexText(b []byte) string { return hex.EncodeToString(b) }
