// Package node is the composition root: the only package that knows everybody. One event loop owns discovery, formation,
// the waiting list and the provisioning queue; everything slow is an effect whose result comes back to the loop as an
// event. It must never decide what a pure package decides, and its loop must never wait for raft, a disk, a peer or a
// process.
package node
