// Package enroll is both sides of an ask: the leader's waiting list with its auto-approve window, judged in one fixed
// order, and the joiner's check of what comes back.
//
// It must never look into the fleet's state (it asks through Facts), commit an admission, answer unsigned where an outcome
// is due, keep anything on disk, or let a stranger grow anything without a bound.
package enroll
