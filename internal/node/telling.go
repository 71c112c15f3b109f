package node

import (
	"time"
)

// What a machine says of itself may be said to voters of whom none leads, as when a whole fleet is powered on, or be lost
// with the leader that took it. So it is said again for as long as the state that this machine has applied says otherwise.
const (
	retellLeast = 10 * time.Second
	// retellMost bounds it where the fleet keeps to its word, as with a consensus endpoint that only an operator moves.
	retellMost = 10 * time.Minute
)

// telling is when this machine says itself again. It is the loop's.
type telling struct {
	leader string // to whom it was said last
	next   time.Time
	wait   time.Duration
}

// due reports whether it is time to say it again, to a leader that may be another than the last.
func (t *telling) due(now time.Time, leader string, differs bool) bool {
	if !differs || leader == "" {
		*t = telling{}
		return false
	}
	if leader != t.leader {
		*t = telling{leader: leader}
	}
	if now.Before(t.next) {
		return false
	}
	t.wait = min(max(2*t.wait, retellLeast), retellMost)
	t.next = now.Add(t.wait)
	return true
}

func (n *Node) keepTelling(now time.Time) {
	v := n.view.Load()
	if n.body == nil || n.inMove || v == nil {
		return
	}
	m, ok := n.ownRecord(v)
	if n.telling.due(now, n.leader().id, ok && n.announceChanges(m, n.announcement())) {
		n.announce(now)
	}
}
