package control

import (
	"context"

	"pace-node/internal/config"
	"pace-node/internal/wire"
)

// The verbs of a machine's own life in its fleet. They are typed on the machine that they are about, so they go to its own
// node and follow no redirect.

// here asks this machine's own node. what is said where another machine was named.
func (r *runner) here(what string) error {
	if r.cfg.Scheduler != "" {
		return usageFailure("type it there, without --scheduler", "%s is typed on the machine that it is about", what)
	}
	return nil
}

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
	if err := r.here("fleet leave"); err != nil {
		return nil, err
	}
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
