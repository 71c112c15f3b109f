// Package control holds the one implementation of each verb that an operator or
// a peer can ask of a node: who may ask it, the documents it answers with and
// how a person reads them, the administrators' socket and its client, the
// conditions, the metrics and the health pages.
//
// It must never know raft, decide anything about the fleet, or print text of
// another machine without escaping it: what the node is and does reaches it as
// documents through Backend.
package control
