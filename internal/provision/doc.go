// Package provision is the leader's side of provisioning: discovery rounds, startup events, probes, the worker pool, the
// cycle for one machine and the helper's process.
//
// It must never decide what the queue decides, see a raft type, open a socket or read the state directory: members,
// requests, leases and records are functions that it is given. The queue and everything that is marked as the loop's is
// touched only inside Post.
package provision
