package node

import (
	"slices"

	"pace-node/internal/consensus"
	"pace-node/internal/follow"
	"pace-node/internal/provision"
	"pace-node/internal/statedir"
	"pace-node/internal/target"
	"pace-node/internal/upgrade"
)

// CrashPoints names every place at which a test build may end the process: those of the packages that write, and a
// node's own. From each of them the next start finishes what was begun, or takes it back.
var CrashPoints = slices.Concat(statedir.Points, statedir.RestorePoints, consensus.Points, consensus.RecoverPoints, follow.Points, target.Points, upgrade.Points, Points, markPoints, leasePoints, recoverPoints, healPoints)

// StagePoints names the ends of the stages of a machine's cycle on its leader. Nothing is written there.
var StagePoints = provision.Points
