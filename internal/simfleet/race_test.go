//go:build race

package simfleet

// slowed is how many times fewer stories are told under the race detector: there is one goroutine a story.
const slowed = 5
