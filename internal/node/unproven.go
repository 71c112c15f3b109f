package node

import (
	"fmt"
	"time"

	"pace-node/internal/discovery"
)

// When beacons are heard and no proof ever completes: a firewall lets the shared port pass and not the answering one.
const (
	// unprovenFor is how long that lasts before it is said: six beacon periods.
	unprovenFor = 90 * time.Second
	// unprovenLeast is how many challenges were sent in that time, so that a few lost datagrams are none.
	unprovenLeast = 4
	// unprovenQuiet is how long a beacon counts as heard: three periods.
	unprovenQuiet = 45 * time.Second

	unprovenCondition = "peers-never-authenticated"
)

// unproven watches discovery's counters for challenges that nobody answers.
type unproven struct {
	heard, sent, proven uint64 // as last seen
	beacon              time.Time
	since               time.Time // of the first challenge after the last proof; zero: there was none
	challenges          uint64    // sent since then
}

// look is told the counters of a moment, and reports whether the condition holds.
func (u *unproven) look(now time.Time, heard, sent, proven uint64) bool {
	if heard != u.heard {
		u.beacon = now
	}
	if proven != u.proven {
		u.since, u.challenges = time.Time{}, 0
	}
	if sent != u.sent && proven == u.proven {
		if u.since.IsZero() {
			u.since = now
		}
		u.challenges += sent - u.sent
	}
	u.heard, u.sent, u.proven = heard, sent, proven
	return !u.since.IsZero() && now.Sub(u.since) >= unprovenFor && u.challenges >= unprovenLeast && now.Sub(u.beacon) < unprovenQuiet
}

func (n *Node) lookAtProofs(now time.Time) {
	if n.port == nil {
		return
	}
	on := n.unproven.look(now, n.exchange.Count(discovery.CountBeaconsHeard), n.exchange.Count(discovery.CountChallengesSent), n.exchange.Count(discovery.CountProofsVerified))
	if !on && !n.board.Raised(unprovenCondition) {
		return
	}
	port := fmt.Sprint(n.port.AnsweringAddr().Port())
	n.board.Set(on, unprovenCondition, "beacons of other machines are heard and none of them completes its proof: a firewall here does not let UDP to port "+port+
		" pass, this node's answering port, or one over there does not; --discovery-reply-port fixes the port", port)
}
