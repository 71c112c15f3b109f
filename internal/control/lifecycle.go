package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// The verbs of a machine's own life in its fleet. They are typed on the machine that they are about, so they go to its own
// node and follow no redirect.

// hereCluster asks this machine's own node one operation of Cluster.
func (r *runner) hereCluster(ctx context.Context, req wire.ClusterRequest) (*Done, error) {
	if err := r.connect(ctx); err != nil {
		return nil, err
	}
	a, err := ask[wire.ClusterAnswer](ctx, r.client.Call, wire.VerbCluster, req)
	if err != nil {
		return nil, err
	}
	return &Done{V: DocumentVersion, Said: orText(a.Text, "done"), Revision: a.Revision}, nil
}

// hereStatus asks this machine's own node for a status.
func hereStatus[T any](r *runner, ctx context.Context, what string) (T, error) {
	if err := r.connect(ctx); err != nil {
		var none T
		return none, err
	}
	return ask[T](ctx, r.client.Call, wire.VerbStatus, wire.StatusRequest{What: what})
}

// given is the fleet's id as it was given back beside the verb: as its word, or with --yes.
func (r *runner) given(args []string) []string {
	if yes, ok := r.flags[config.WordYes]; ok && len(args) == 0 {
		return []string{yes}
	}
	return args
}

func (r *runner) leave(ctx context.Context, args []string) (Printable, error) {
	s, err := hereStatus[NodeStatus](r, ctx, "node")
	if err != nil {
		return nil, err
	}
	_, force := r.flags[config.WordForce]
	if s.Asks == nil { // giving an ask up takes nothing away
		c, err := hereStatus[ClusterStatus](r, ctx, "cluster")
		if err != nil {
			return nil, err
		}
		what := "take this machine out of its fleet, which forgets what it holds of it"
		if force {
			what = "take this machine out of its fleet without the fleet's word, which still lists it then"
		}
		if err := r.confirm(r.given(args), c.Cluster, what); err != nil {
			return nil, err
		}
	}
	d, err := r.hereCluster(ctx, wire.ClusterRequest{Op: "leave", Force: force})
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (r *runner) recover(ctx context.Context, args []string) (Printable, error) {
	p, err := hereStatus[RecoverPreview](r, ctx, "recover")
	if err != nil {
		return nil, err
	}
	fmt.Fprint(r.stderr, p.Text())
	what := fmt.Sprintf("make this machine the only voter of its fleet, under recovery epoch %d", p.Epoch)
	if err := r.confirm(r.given(args), p.Cluster, what); err != nil {
		return nil, err
	}
	d, err := r.hereCluster(ctx, wire.ClusterRequest{Op: "recover", ID: p.Cluster})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Text is what a person reads before a fleet is recovered.
func (p *RecoverPreview) Text() string {
	var l lines
	l.add("fleet %s would be recovered from this machine: %s", Word(p.Cluster), viewText(p.View))
	for _, v := range p.Voters {
		l.add("voter %s %s last heard %s", Word(v.Machine.ID), Word(v.Machine.Name), ago(v.HeardMS))
	}
	for _, s := range p.Lost {
		l.add("may be lost: %s", Sentence(s))
	}
	l.add("members: %d", p.Members)
	return l.String()
}

func (r *runner) accept(ctx context.Context, args []string) (Printable, error) {
	key, err := identity.ParsePublicKey(args[0])
	if err != nil {
		return nil, usageFailure("the key that pacectl node prints on the machine that recovered the fleet", "%v", err)
	}
	req := wire.ClusterRequest{Op: "accept", Key: key.String()}
	if len(args) > 1 {
		if !wire.ValidEndpoint(args[1]) {
			return nil, usageFailure("HOST:PORT, where that machine's 0xFC endpoint is", "%q is no HOST:PORT", args[1])
		}
		req.Endpoint = args[1]
	}
	c, err := hereStatus[ClusterStatus](r, ctx, "cluster")
	if err != nil {
		return nil, err
	}
	what := "have this machine follow " + key.String() + " in place of the voters that it knows, and put what it holds of its fleet away"
	if err := r.confirm(r.given(nil), c.Cluster, what); err != nil {
		return nil, err
	}
	d, err := r.hereCluster(ctx, req)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// backupTries is how often the state is fetched anew when it changes between two of its parts.
const backupTries = 5

func (r *runner) backup(ctx context.Context, args []string) (Printable, error) {
	if r.deps.Backup == nil || r.deps.Passphrase == nil {
		return nil, errors.New("this program cannot read the state directory")
	}
	if err := r.sealed(args[0], true); err != nil {
		return nil, err
	}
	done := r.busy("fetching the fleet's state from " + r.asked())
	s, err := r.founderState(ctx)
	done()
	if err != nil {
		return nil, err
	}
	pass, err := r.deps.Passphrase(r.flags[config.WordPass], "Passphrase of the backup: ", true)
	if err != nil {
		return nil, err
	}
	done = r.busy("sealing the backup")
	d, err := r.deps.Backup(ctx, args[0], pass, s)
	done()
	if err != nil {
		return nil, err
	}
	return &d, nil
}

func (r *runner) sealed(file string, made bool) error {
	if r.deps.Sealed == nil {
		return nil
	}
	return r.deps.Sealed(file, made)
}

// founderState fetches the fleet's state from this machine's node, part by part.
func (r *runner) founderState(ctx context.Context) (FounderState, error) {
	var s FounderState
	if err := r.connect(ctx); err != nil {
		return s, err
	}
	for try := 1; ; try++ {
		s = FounderState{}
		var req wire.StatusRequest
		for {
			req = wire.StatusRequest{What: "backup", Offset: uint64(len(s.State)), Revision: s.Revision}
			p, err := ask[BackupPart](ctx, r.client.Call, wire.VerbStatus, req)
			var e *wire.Error
			if errors.As(err, &e) && e.Code == wire.CodeBusy && try < backupTries && req.Offset > 0 {
				break // somebody else fetched one meanwhile
			}
			if err != nil {
				return s, err
			}
			if p.Total > wire.MaxState || p.Offset != req.Offset || len(p.Bytes) == 0 || uint64(len(p.Bytes)) > p.Total-p.Offset {
				return s, errors.New("the node's answer is no part of a state")
			}
			s.Cluster, s.Epoch, s.Revision, s.Members = p.Cluster, p.Epoch, p.Revision, p.Members
			if s.State = append(s.State, p.Bytes...); uint64(len(s.State)) == p.Total {
				return s, nil
			}
		}
	}
}

func (r *runner) restore(ctx context.Context, args []string) (Printable, error) {
	if r.deps.Restore == nil || r.deps.Passphrase == nil {
		return nil, errors.New("this program cannot write the state directory")
	}
	if err := r.sealed(args[0], false); err != nil {
		return nil, err
	}
	pass, err := r.deps.Passphrase(r.flags[config.WordPass], "Passphrase of the backup: ", false)
	if err != nil {
		return nil, err
	}
	done := r.busy("opening the backup")
	d, err := r.deps.Restore(ctx, args[0], pass, func(s Restoring) error {
		done() // nothing is drawn over the question
		done = func() {}
		fmt.Fprint(r.stderr, s.Text())
		if err := r.confirm(r.given(nil), s.Cluster, fmt.Sprintf("make this machine %s, the only voter of that fleet under recovery epoch %d, and put its own identity away", Word(s.ID), s.Epoch)); err != nil {
			return err
		}
		done = r.busy("putting the backup in this machine's place")
		return nil
	})
	done()
	if err != nil {
		return nil, err
	}
	return &d, nil
}

// Text is what a person reads before a backup is put in this machine's place.
func (s *Restoring) Text() string {
	var l lines
	l.add("machine %s %s of fleet %s, as it was %s at revision %d, with %d members", Word(s.ID), Word(s.Name), Word(s.Cluster), date(s.At), s.Revision, s.Members)
	l.add("may be lost: what the fleet committed after that")
	l.add("note: if the machine itself still runs, stop it for good: two machines under one key are a copy of each other")
	return l.String()
}

// defaultStale is how long a member is silent before member stale lists it, where nobody says.
const defaultStale = 30 * 24 * time.Hour

func (r *runner) staleList(ctx context.Context) (StaleList, error) {
	d := defaultStale
	if text, ok := r.flags[config.WordStale]; ok {
		var err error
		if d, err = config.ParseDuration(text); err != nil {
			return StaleList{}, usageFailure("a duration such as 720h or 30d", "%q is %v", text, err)
		}
	}
	return ask[StaleList](ctx, r.call, wire.VerbStatus, wire.StatusRequest{What: "stale", ForMS: d.Milliseconds()})
}

func (r *runner) stale(ctx context.Context, _ []string) (Printable, error) {
	s, err := r.staleList(ctx)
	if err != nil {
		return nil, err
	}
	return &s, nil
}

func (s *StaleList) finish() {
	s.V = DocumentVersion
	s.Members = orEmpty(s.Members)
}

// Text is a line a member: id, name, role, for how long it is silent; then how far that can be known.
func (s *StaleList) Text() string {
	s.finish()
	var l lines
	if len(s.Members) == 0 {
		l.add("(nobody was silent for %s)", span(s.ForMS))
	}
	for _, m := range s.Members {
		said := "silent for at least " + span(m.SilentMS)
		if m.NeverArrived {
			said = "never arrived, admitted " + span(m.SilentMS) + " ago"
		}
		l.words(Word(m.ID), Word(m.Name), Word(m.Role), said)
	}
	if s.ListenedMS < s.ForMS {
		l.add("note: this leader has listened for %s only, so of longer silence it cannot know", span(s.ListenedMS))
	}
	return l.String()
}

// forgetStale forgets every learner that was silent for long, after a preview. Voters are left out: each costs the fleet a
// vote, and is forgotten by itself.
func (r *runner) forgetStale(ctx context.Context, args []string) (Printable, error) {
	if _, bulk := r.flags[config.WordStale]; !bulk || len(args) > 0 {
		return nil, usageFailure("pacectl member forget MACHINE, or --stale-for=DURATION for all that were silent so long", "pacectl member forget takes a machine, or --stale-for, and not both")
	}
	s, err := r.staleList(ctx)
	if err != nil {
		return nil, err
	}
	voters := 0
	gone := slices.DeleteFunc(slices.Clone(s.Members), func(m StaleMember) bool {
		if m.Role != "learner" {
			voters++
		}
		return m.Role != "learner"
	})
	fmt.Fprint(r.stderr, s.Text())
	if voters > 0 {
		r.notice("%d of them vote and are left out: forget each by itself", voters)
	}
	if len(gone) == 0 {
		return &Done{V: DocumentVersion, Said: "nothing to do: no learner was silent for " + span(s.ForMS)}, nil
	}
	if err := r.confirm(r.given(nil), s.Cluster, fmt.Sprintf("forget %d machines and revoke their keys for ever", len(gone))); err != nil {
		return nil, err
	}
	var last *Done
	for i, m := range gone {
		d, err := r.cluster(ctx, wire.ClusterRequest{Op: "forget", ID: m.ID})
		if err != nil {
			r.notice("%d of %d machines were forgotten before this failed, at %s", i, len(gone), Word(m.ID))
			return nil, err
		}
		last = d
	}
	last.Said = fmt.Sprintf("%d machines are forgotten and their keys revoked", len(gone))
	return last, nil
}
