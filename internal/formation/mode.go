package formation

import "pace-node/internal/wire"

// Mode is what a machine is at the moment. It is kept in the formation record.
type Mode uint8

// The four modes. The zero value is none.
const (
	Solitary Mode = iota + 1 // its own fleet of one
	Pending                  // its own fleet of one, asking another one
	Learner                  // follows a fleet
	Voter                    // counts towards a fleet's quorum
)

// Consensus is whose consensus a mode takes part in.
type Consensus uint8

// Kinds of consensus.
const (
	ConsensusOwn     Consensus = iota + 1 // its own fleet of one
	ConsensusFollows                      // applies what the fleet's voters commit
	ConsensusFleet                        // is a voter of the fleet
)

// RaftPort says when the consensus port is open.
type RaftPort uint8

// Openings of the consensus port.
const (
	RaftOpen               RaftPort = iota + 1
	RaftWhileBecomingVoter          // closed, open while the wished role is voter-pending
)

// Scheduler says when the provisioning queue runs.
type Scheduler uint8

// When the scheduler runs.
const (
	SchedulerRuns Scheduler = iota + 1
	SchedulerNever
	SchedulerWhileLeader
)

// ModeRow is one row of the table of modes.
type ModeRow struct {
	Mode      Mode
	Name      string
	Consensus Consensus
	RaftPort  RaftPort
	Announces wire.SummaryState // Own.State also asks whether a fleet of one is established
	Scheduler Scheduler
}

// Modes is the table of modes.
var Modes = []ModeRow{
	{Solitary, "solitary", ConsensusOwn, RaftOpen, wire.StateSolitary, SchedulerRuns},
	{Pending, "pending", ConsensusOwn, RaftOpen, wire.StatePending, SchedulerRuns},
	{Learner, "learner", ConsensusFollows, RaftWhileBecomingVoter, wire.StateEstablished, SchedulerNever},
	{Voter, "voter", ConsensusFleet, RaftOpen, wire.StateEstablished, SchedulerWhileLeader},
}

// Row returns the row of m.
func (m Mode) Row() (ModeRow, bool) {
	for _, r := range Modes {
		if r.Mode == m {
			return r, true
		}
	}
	return ModeRow{}, false
}

// String returns the name of the mode, "unknown" for any other value.
func (m Mode) String() string {
	if r, ok := m.Row(); ok {
		return r.Name
	}
	return "unknown"
}

// ParseMode is the inverse of String.
func ParseMode(name string) (Mode, bool) {
	for _, r := range Modes {
		if r.Name == name {
			return r.Mode, true
		}
	}
	return 0, false
}
