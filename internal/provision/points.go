package provision

import "pace-node/internal/queue"

// Points names the two ends of every stage of a machine's cycle: a leader that ends there leaves the machine with its old
// configuration or its new one, and the next leader goes on.
var Points = points()

func points() (all []string) {
	for _, s := range queue.Stages {
		all = append(all, pointOf(s, false), pointOf(s, true))
	}
	return all
}

func pointOf(s queue.Stage, done bool) string {
	if done {
		return "provision." + string(s) + ".after"
	}
	return "provision." + string(s) + ".before"
}

// passing tells that a machine's cycle is at the beginning of a stage, or has succeeded in it.
func (p *Provisioner) passing(s queue.Stage, done bool) {
	if p.deps.Passing != nil {
		p.deps.Passing(pointOf(s, done))
	}
}
