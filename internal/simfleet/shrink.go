package simfleet

// ShrinkRuns and shrinkEvents bound how often a story is told again to find a shorter one, and what happens in all of it.
const (
	ShrinkRuns   = 300
	shrinkEvents = 20_000_000
)

// Shrink leaves steps of a story out while the same rule is broken, and returns the shortest story that it finds by telling
// it so often.
func Shrink(o *Outcome, breaks Breaks, most int) *Outcome {
	best, runs, events := o, 0, uint64(0)
	for part := max(1, len(o.Story.Steps)/2); part >= 1; part /= 2 {
		for from := 0; from < len(best.Story.Steps) && runs < most && events < shrinkEvents; {
			to := min(from+part, len(best.Story.Steps))
			runs++
			less := Run(best.Story.without(from, to), breaks)
			events += less.Sum.Events
			if less.broke(best.Violation.Rule) {
				best = less
			} else {
				from = to
			}
		}
	}
	return best
}

func (o *Outcome) broke(r Rule) bool { return o.Violation != nil && o.Violation.Rule == r }
