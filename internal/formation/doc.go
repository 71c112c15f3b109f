// Package formation decides how a machine finds its fleet: which mode it is in, to whom it yields, which seed it asks
// next, whom its pin admits, and when it gives an ask up. Everything it knows comes in as events with the time; everything
// it wants done goes out as actions.
//
// It must never do I/O, read a clock, look into discovery's tables, believe a summary that nobody proved, or make two
// moves at once.
package formation
