package node

import (
	"context"
	"testing"
	"time"

	"pace-node/internal/wire"
)

// TestSimStartIsRepeatedUntilItIsTaken: a leader whose queue is paused drops a startup event, counted. It is told again with
// backoff, each time under the next sequence, and no more once the machine is provisioned.
func TestSimStartIsRepeatedUntilItIsTaken(t *testing.T) {
	simulate(t, 258, func(t *testing.T, s *sim) {
		a := s.boot(0, provisioning)
		s.want(10*time.Second, "it provisions itself", func() bool { return provisioned(a, a) })
		_, err := a.Queue(context.Background(), local, wire.QueueRequest{Op: "pause"})
		s.must(err)
		time.Sleep(2 * time.Second)
		dropped := func() float64 { return s.metric(a, `pace_provision_refused_total{reason="paused"}`) }
		before := dropped()
		b := s.boot(1)
		s.joined(a, b)
		told := func() uint64 { return b.target.Sequence() }
		s.want(20*time.Second, "it has said it some times", func() bool { return told() >= 3 })
		// 1, 2, 4, 8, 16, 32 s and then a minute, each up to half as long again.
		time.Sleep(10*time.Minute - time.Second)
		if n := told(); n < 10 || n > 18 {
			t.Errorf("it was said %d times in ten minutes", n)
		}
		s.want(10*time.Second, "each is dropped and counted", func() bool { return dropped()-before == float64(told()) })
		if provisioned(b, a) {
			t.Error("it was provisioned by a queue that is paused")
		}

		_, err = a.Queue(context.Background(), local, wire.QueueRequest{Op: "resume"})
		s.must(err)
		s.want(10*time.Second, "it is provisioned", func() bool { return provisioned(b, a) })
		time.Sleep(2 * time.Minute) // the repeat that was on its way
		last := told()
		s.never(10*time.Minute, "it is said again", func() bool { return told() != last })
		if m, _ := a.View().Member(b.id); m.Provision.BootID == "" || m.Provision.Sequence > last {
			t.Errorf("the state holds %+v, and it was said %d times", m.Provision, last)
		}
	})
}
