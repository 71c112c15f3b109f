package simfleet

// ShrinkRuns bounds how often a story is told again to find a shorter one.
const ShrinkRuns = 300

// Shrink leaves steps of a story out while the same rule is broken, and returns the shortest story that it finds by telling
// it so often.
func Shrink(o *Outcome, breaks Breaks, most int) *Outcome {
	best, runs := o, 0
	for part := max(1, len(o.Story.Steps)/2); part >= 1; part /= 2 {
		for from := 0; from < len(best.Story.Steps) && runs < most; {
			to := min(from+part, len(best.Story.Steps))
			runs++
			if less := Run(best.Story.without(from, to), breaks); less.broke(best.Violation.Rule) {
				best = less
			} else {
				from = to
			}
		}
	}
	return best
}

func (o *Outcome) broke(r Rule) bool { return o.Violation != nil && o.Violation.Rule == r }
