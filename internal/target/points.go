package target

import "pace-node/internal/statedir"

// Points names every place where a crash must leave the old configuration or the new one.
var Points = points()

func points() (all []string) {
	around := func(names ...string) {
		for _, n := range names {
			all = append(all, "target."+n+".before", "target."+n+".after")
		}
	}
	around("settle")
	around("stage.create", "stage.file", "stage.manifest", "stage.sync", "stage.check")
	for _, n := range statedir.WriteSteps {
		all = append(all, "target.intent."+n)
	}
	for _, m := range moves {
		around("swap." + m.Step)
	}
	around("swap.sync", "swap.back", "swap.done", "swap.clean")
	for _, n := range statedir.WriteSteps {
		all = append(all, "target.state."+n)
	}
	around("hooks.run")
	for _, n := range statedir.WriteSteps {
		all = append(all, "target.csr."+n)
	}
	return all
}

// UnitPoints are those of a machine whose hooks a unit of root's runs: a crash there leaves a request that is of no account.
var UnitPoints = unitPoints()

func unitPoints() (all []string) {
	for _, n := range statedir.WriteSteps {
		all = append(all, "target.hooks.request."+n)
	}
	return all
}

// under makes point's names begin with prefix.
func under(point func(string), prefix string) func(string) {
	return func(name string) { point(prefix + name) }
}
