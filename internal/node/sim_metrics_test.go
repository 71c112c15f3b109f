package node

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/wire"
)

// TestSimMetricsSayWhatHappens: the series of the fleet's state, of following, of consensus and of enrollment are at zero before
// anything happens, and say what did.
func TestSimMetricsSayWhatHappens(t *testing.T) {
	simulate(t, 257, func(t *testing.T, s *sim) {
		a := s.boot(0, provisioning)
		time.Sleep(2 * time.Second)
		says := func(n *Node, series string, want float64) {
			t.Helper()
			if got := s.metric(n, series); got != want {
				t.Errorf("%s: %s is %v, want %v", n.name, series, got, want)
			}
		}
		for _, series := range []string{"pace_enrollment_waiting", "pace_enrollment_rejections_total", "pace_enrollment_requests_cleared_total",
			"pace_enrollment_approvals_manual_total", "pace_discovery_peers", `pace_sessions{kind="inbound"}`} {
			says(a, series, 0)
		}

		b, c := s.boot(1), s.boot(2)
		s.want(10*time.Second, "both wait", func() bool { return s.waits(a, b) && s.waits(a, c) })
		says(a, "pace_enrollment_waiting", 2)
		says(a, "pace_enrollment_requests_total", 2)
		s.must(s.reject(a, b))
		says(a, "pace_enrollment_rejections_total", 1)
		says(a, "pace_enrollment_waiting", 1)
		_, err := a.EnrollControl(context.Background(), local, wire.EnrollControl{Op: wire.ControlClear})
		s.must(err)
		says(a, "pace_enrollment_requests_cleared_total", 1)
		s.joined(a, c) // it asks again
		says(a, "pace_enrollment_waiting", 0)
		says(a, "pace_enrollment_approvals_manual_total", 1)
		s.want(time.Minute, "it is a peer", func() bool { return s.metric(a, "pace_discovery_peers") == 1 })
		s.want(10*time.Second, "its session is a member's", func() bool {
			return s.metric(a, `pace_sessions{kind="inbound"}`) == 1 && s.metric(c, `pace_sessions{kind="outbound"}`) == 1
		})

		s.want(time.Minute, "it is provisioned", func() bool { return provisioned(c, a) && follows(c, a) })
		time.Sleep(2 * time.Minute) // nothing more is written of that
		s.want(time.Minute, "it has what was", func() bool { return follows(c, a) })
		says(c, "pace_follow_snapshots_total", 1)
		says(c, "pace_follow_switches_total", 0)
		says(c, "pace_follow_lag", 0)
		says(c, "pace_consensus_is_leader", 0)
		commits, revision := s.metric(a, "pace_consensus_commits_total"), s.metric(a, "pace_fleet_revision")
		if commits == 0 || revision != float64(a.View().Revision()) || revision != s.metric(c, "pace_fleet_revision") {
			t.Errorf("%v commits, revision %v of %d", commits, revision, a.View().Revision())
		}
		s.must(s.write(a, "9"))
		says(a, "pace_consensus_commits_total", commits+1)
		says(a, "pace_fleet_revision", float64(a.View().Revision()))
		if s.metric(a, "pace_fleet_revision") <= revision {
			t.Error("a write that was committed is no later revision")
		}

		// What a machine refuses to have done to it.
		body, err := json.Marshal(wire.RestartBody{Digest: c.target.Digest()[1:] + "0"})
		s.must(err)
		lease, err := a.lease(c.id, wire.StepRestart, body)
		s.must(err)
		says(c, `pace_target_refused_total{reason="other_digest"}`, 0)
		if ans, err := c.Work(context.Background(), control.Peer{Key: a.Key(), ID: a.id}, wire.WorkRequest{Step: wire.StepRestart, Lease: lease, Body: body}); err != nil || ans.OK {
			t.Errorf("another digest: %+v, %v", ans, err)
		}
		says(c, `pace_target_refused_total{reason="other_digest"}`, 1)
	})
}
