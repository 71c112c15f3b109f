package node

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/wire"
)

func (s *sim) queueOf(n *Node) (control.QueueList, map[string]control.QueueEntry) {
	s.t.Helper()
	b, err := n.Queue(context.Background(), local, wire.QueueRequest{Op: "list"})
	var list control.QueueList
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	s.must(err)
	by := map[string]control.QueueEntry{}
	for _, e := range list.Entries {
		by[e.ID] = e
	}
	return list, by
}

func (s *sim) queueShow(n *Node, id string) (control.QueueShow, error) {
	var show control.QueueShow
	b, err := n.Queue(context.Background(), local, wire.QueueRequest{Op: "show", ID: id})
	if err == nil {
		err = json.Unmarshal(b, &show)
	}
	return show, err
}

// TestSimQueueElsewhere: a voter shows the leader's queue, and the state that it has applied where none leads; a learner shows
// its own row of that state, and no other.
func TestSimQueueElsewhere(t *testing.T) {
	simulate(t, 61, func(t *testing.T, s *sim) {
		provisions := func(c *Config) {
			c.Settings.Provision = config.ProvisionConfig{Interval: time.Minute, Workers: 2, Queue: 100, HelperTimeout: time.Second, Component: wire.ComponentProvision,
				Default: `{"defer":true,"msg":"no slot"}`, Mode: "auto"}
		}
		a := s.voters(2, provisions)
		b := s.nodes[1]
		d := s.boot(2, provisions)
		s.joined(a, d)
		s.want(time.Minute, "all are deferred", func() bool {
			list, by := s.queueOf(a)
			return list.View.Leads && len(by) == 3 && by[d.id].State == "deferred" && by[b.id].State == "deferred"
		})
		list, by := s.queueOf(b)
		if e := by[d.id]; !list.View.Leads || e.State != "deferred" || e.Stage != "helper" || e.DueMS == nil || *e.DueMS <= 0 || e.Attempt < 1 {
			t.Errorf("a voter shows %+v, and not what the leader says", list)
		}
		var refused *wire.Error
		if _, err := s.queueShow(b, "nobody"); !errors.As(err, &refused) || refused.Code != wire.CodeRefusedByRule {
			t.Errorf("a voter shows a machine that is none: %v", err)
		}
		s.want(time.Minute, "the learner has its own row", func() bool {
			list, by := s.queueOf(d)
			return list.View.Mode == "learner" && list.View.Revision > 0 && len(by) == 1 && by[d.id].State == "deferred" && by[d.id].DueMS != nil
		})
		if show, err := s.queueShow(d, d.id); err != nil || show.Wants == "" || show.Entry.LastError == "" {
			t.Errorf("a learner shows of itself %+v, %v", show, err)
		}
		if _, err := s.queueShow(d, a.id); !errors.As(err, &refused) || refused.Code != wire.CodeRefusedByRule || refused.Hint == "" {
			t.Errorf("a learner shows another machine's record: %v", err)
		}
		s.want(time.Minute, "the other voter holds what became of it", func() bool {
			for _, n := range s.nodes {
				if m, ok := b.View().Member(n.id); !ok || m.Provision.Stage != "helper" || m.Provision.Due == 0 {
					return false
				}
			}
			return true
		})
		s.halt(0)
		s.want(time.Minute, "a voter without a leader shows its own picture", func() bool {
			list, by := s.queueOf(b)
			return !list.View.Leads && len(by) == 3 && by[d.id].State == "deferred"
		})
	})
}
