package node

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/fleet"
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
		if list, _ := s.queueOf(d); !strings.Contains(list.Note, "its own provisioning only") || !strings.Contains(list.Note, a.name+" at "+a.fcEndpoint()) {
			t.Errorf("a learner says of what it does not show: %q", list.Note)
		}
		if list, _ := s.queueOf(b); list.Note != "" {
			t.Errorf("a voter leaves out %q", list.Note)
		}
		audits := func(n *Node) (d control.AuditList) {
			raw, err := n.Status(context.Background(), local, wire.StatusRequest{What: "audit"})
			s.must(err)
			s.must(json.Unmarshal(raw, &d))
			return d
		}
		if held := audits(d); len(held.Entries) != 0 || !strings.Contains(held.Note, "--scheduler="+a.fcEndpoint()) {
			t.Errorf("a learner says of the audit it does not hold: %+v", held)
		}
		if held := audits(b); len(held.Entries) == 0 || held.Note != "" {
			t.Errorf("a voter says of its audit: %+v", held)
		}
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

// TestSimPauseSaysWho: an operator's pause is shown with who it was and the reason that was typed, on the leader, on another voter and
// in the condition; who resumed it and pauses it again by the setting is shown in place of that.
func TestSimPauseSaysWho(t *testing.T) {
	simulate(t, 62, func(t *testing.T, s *sim) {
		a := s.voters(2, provisioning)
		b := s.nodes[1]
		ask := func(r wire.QueueRequest) {
			t.Helper()
			_, err := a.Queue(context.Background(), local, r)
			s.must(err)
		}
		raised := func(text string) bool {
			for _, c := range a.board.List() {
				if c.ID == pausedCondition {
					return c.Detail == text
				}
			}
			return text == ""
		}
		const reason = "new disks; $(reboot)"
		ask(wire.QueueRequest{Op: "pause", Reason: reason})
		why := "an operator paused it (" + a.name + ": " + control.Sentence(reason) + ")"
		list, _ := s.queueOf(a)
		if by := list.By; !list.Paused || list.Why != why || by == nil || by.By != a.key.Public().String() || by.ByName != a.name || by.Reason != reason || by.At == 0 {
			t.Errorf("%+v, by %+v", list, list.By)
		}
		s.want(5*time.Second, "the condition says it", func() bool { return raised(why) })
		s.want(5*time.Second, "the other voter says it", func() bool { list, _ := s.queueOf(b); return list.Paused && list.Why == why && list.By != nil })
		s.want(5*time.Second, "another leader would say it", func() bool { by := pausedBy(b.View()); return by != nil && by.Reason == reason })
		ask(wire.QueueRequest{Op: "resume"})
		s.want(5*time.Second, "it is over", func() bool {
			list, _ := s.queueOf(a)
			return !list.Paused && list.Why == "" && list.By == nil && raised("")
		})
		s.must(s.cluster(a, wire.ClusterRequest{Op: "set", Name: fleet.SettingProvisionPaused, Value: "true"}))
		s.want(5*time.Second, "the setting alone gives no reason", func() bool {
			list, _ := s.queueOf(a)
			return list.Paused && list.Why == "an operator paused it ("+a.name+")" && list.By.Reason == ""
		})
	})
}
