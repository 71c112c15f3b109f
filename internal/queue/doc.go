// Package queue holds the rules of the provisioning queue: which sighting of a machine is admitted, in which order
// machines are worked, what becomes of each outcome, when a machine is due again and what is kept of its past.
//
// It must never start a goroutine, read a clock, open a socket or know raft: now and randomness are arguments, and its
// one caller serialises every call. Times are compared by subtraction only, so the monotonic reading of now decides and
// a step of the wall clock changes nothing.
package queue
