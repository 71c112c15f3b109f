// Package probe looks at this machine and its network for somebody who asks what is wrong: who has a port, what arrives on
// an interface, what a name or another machine answers. Its one job is to tell facts, with the reason where there are none.
//
// It must never judge them, and changes nothing: what it opens it closes again, and a node that runs beside it notices
// nothing but questions that any machine may ask.
package probe
