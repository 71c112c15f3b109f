// Package wire turns bytes into values and values into bytes: the field
// grammar, the discovery datagrams (version 3), the frames and payloads of the
// 0xFC endpoint, and the one table of labels under which an identity key signs.
//
// It must never import anything else of this project, read a socket, a clock or
// a file, hold a key, decide what a value means, or allocate for a count or a
// length that a peer claimed and did not send.
package wire
