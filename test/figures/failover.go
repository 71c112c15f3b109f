package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/wire"
)

// How often a fleet of three voters loses its leader. Of twenty the 99th percentile is the slowest.
const (
	failoverKills = 20
	failoverStops = 20
	// writeEvery is how often a write is tried on each voter that is left, and writeWithin what one try is given.
	writeEvery  = 5 * time.Millisecond
	writeWithin = 2 * time.Second
)

// failover kills the leader of three voters, and stops it cleanly, again and again, and measures until another one has
// committed a write.
func failover(ctx context.Context, m *measurer, _ group) error {
	l, err := m.newLab()
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.threeVoters(ctx); err != nil {
		return err
	}
	for _, s := range []struct {
		id   string
		runs int
		end  func(*node) error
	}{
		{"failover-kill", failoverKills, func(n *node) error { return n.cmd.Process.Kill() }},
		{"failover-stop", failoverStops, func(n *node) error { return n.cmd.Process.Signal(os.Interrupt) }},
	} {
		var took []float64
		for range m.runs(s.runs) {
			leader, err := l.level(ctx)
			if err != nil {
				return err
			}
			d, err := l.without(ctx, leader, s.end)
			if err != nil {
				return err
			}
			took = append(took, float64(d))
		}
		m.add(s.id, took...)
		m.add(s.id+"-p99", percentile(took, 99))
	}
	return nil
}

// percentile is the least value that p percent of all do not exceed.
func percentile(values []float64, p int) float64 {
	v := slices.Sorted(slices.Values(values))
	return v[min(len(v)-1, (len(v)*p+99)/100-1)]
}

// change asks one node to change its fleet.
func (n *node) change(ctx context.Context, r wire.ClusterRequest) error {
	req, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err = n.admin().Call(ctx, wire.VerbCluster, req); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	return nil
}

// until polls a condition.
func until(ctx context.Context, what string, done func() error) error {
	began := time.Now()
	for {
		err := done()
		if err == nil {
			return nil
		}
		if time.Since(began) > eventTimeout {
			return fmt.Errorf("not within %s: %s: %w", eventTimeout, what, err)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

func (l *lab) threeVoters(ctx context.Context) error {
	for i, name := range []string{"alder", "birch", "cedar"} {
		n, err := l.add(name)
		if err != nil {
			return err
		}
		if err := n.start(); err != nil {
			return err
		}
		if _, err := n.says(ctx, sayServes); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		if err := pause(ctx, settle); err != nil {
			return err
		}
		if err := n.arm(ctx, 3600); err != nil {
			return err
		}
	}
	first := l.nodes[0]
	for _, n := range l.nodes[1:] {
		if _, err := n.says(ctx, sayApplied); err != nil {
			return err
		}
		st, err := status[control.NodeStatus](ctx, n, "node")
		if err != nil {
			return err
		}
		if err := first.change(ctx, wire.ClusterRequest{Op: "admit", ID: st.NodeID, Endpoint: fmt.Sprintf("127.0.0.1:%d", n.raft)}); err != nil {
			return err
		}
		if err := until(ctx, n.name+" is a voter", func() error {
			if st, err := status[control.NodeStatus](ctx, n, "node"); err != nil || st.Mode != "voter" {
				return fmt.Errorf("it is a %s (%w)", st.Mode, err)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// level waits until all three are voters of one state and hear their leader, which it returns; one that has ended is started.
func (l *lab) level(ctx context.Context) (leader *node, err error) {
	for _, n := range l.nodes {
		if n.cmd != nil {
			continue
		}
		if err := n.start(); err != nil {
			return nil, err
		}
	}
	err = until(ctx, "three voters are level", func() error {
		leader = nil
		var revision uint64
		for _, n := range l.nodes {
			st, err := status[control.ClusterStatus](ctx, n, "cluster")
			switch {
			case err != nil:
				return err
			case st.View.Mode != "voter" || st.Leader == nil || st.Leader.ID == "" || st.View.VotersHeard != len(l.nodes):
				return fmt.Errorf("%s: %+v", n.name, st.View)
			case revision != 0 && revision != st.View.Revision:
				return errors.New("their states differ")
			}
			revision = st.View.Revision
			if st.View.Leads {
				leader = n
			}
		}
		if leader == nil {
			return errors.New("nobody leads")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return leader, pause(ctx, 500*time.Millisecond) // past the first moments of a start
}

// without ends a leader and measures until one of the others has committed a write.
func (l *lab) without(ctx context.Context, leader *node, end func(*node) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	l.writes++
	done := make(chan time.Time, len(l.nodes))
	value := fmt.Sprint(2 + l.writes%60)
	began := time.Now()
	if err := end(leader); err != nil {
		return 0, err
	}
	for _, n := range l.nodes {
		if n == leader {
			continue
		}
		go func() {
			for ctx.Err() == nil {
				try, stop := context.WithTimeout(ctx, writeWithin)
				err := n.change(try, wire.ClusterRequest{Op: "set", Name: "enrollment.per-source", Value: value})
				stop()
				if err == nil {
					done <- time.Now()
					return
				}
				if pause(ctx, writeEvery) != nil {
					return
				}
			}
		}()
	}
	select {
	case at := <-done:
		<-leader.done
		leader.cmd = nil
		return at.Sub(began), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("no write was accepted within %s after %s had ended", eventTimeout, leader.name)
	}
}
