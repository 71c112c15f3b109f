// Package simfleet runs stories of whole fleets, hours of them in a second, over the product's own decisions: discovery,
// formation, enroll, fleet and queue, with a model of what carries them out (disk, network, replicated log). A story is
// drawn from a seed; after each event the checker looks at whoever changed, and a rule that was broken is told with the
// story that broke it, which replays.
//
// It must never hold a rule of those packages a second time, be imported by the product, or read a clock: time and chance
// are the story's.
package simfleet
