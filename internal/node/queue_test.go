package node

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/netsim"
	"pace-node/internal/wire"
)

// TestPauseIsKept pauses the queue, restarts the leader, and resumes it.
func TestPauseIsKept(t *testing.T) {
	dir := t.TempDir()
	netsim.Bubble(t, func(t *testing.T) {
		s := newSim(t, 1, dir)
		defer s.stop()
		s.nodes = []*Node{s.start(0)}
		queue := func(op string) error {
			_, err := s.nodes[0].Queue(context.Background(), local, wire.QueueRequest{Op: op})
			return err
		}
		paused := func() bool {
			b, err := s.nodes[0].Queue(context.Background(), local, wire.QueueRequest{Op: "list"})
			var list control.QueueList
			if err != nil || json.Unmarshal(b, &list) != nil {
				return false
			}
			return list.Paused && list.Why != "" && s.nodes[0].View().Switch("provision.paused")
		}
		if !s.until(time.Minute, func() bool { return queue("pause") == nil }) || !paused() {
			t.Fatal("the queue was not paused")
		}
		if queue("pause") == nil {
			t.Error("pausing a paused queue says that it did something")
		}
		s.nodes[0].Stop()
		s.nodes[0] = s.start(0)
		if !s.until(time.Minute, paused) {
			t.Error("a restart forgot the pause")
		}
		if err := queue("resume"); err != nil {
			t.Error(err)
		}
		if s.nodes[0].View().Switch("provision.paused") {
			t.Error("the queue was not resumed")
		}
	})
}
