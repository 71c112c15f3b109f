//go:build !race

package simfleet

const slowed = 1
