// Package discovery is the exchange by which nodes of a segment find one
// another and prove their keys: beacon, challenge, proof. It keeps the cookies,
// the budgets, the directory of the own cluster's peers and the table of foreign
// fleets, and says what it refused.
//
// It is synchronous and pure: datagrams, time and randomness come in as
// arguments, and what is to be sent comes back as a value. It must never open a
// socket, change a membership, state a key, decide who yields, or print anything
// that a signature has not yet proven but the address it came from.
//
// An Exchange belongs to one goroutine.
package discovery
