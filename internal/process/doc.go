// Package process runs one program of somebody else's to its end: a helper, a hook, a new binary's check of itself, who is
// told of an alert. Its one job is that nothing of it is left: the program has a group of its own (a job object on Windows), which is ended as a
// whole at a deadline, and what it prints is bounded.
//
// It must never judge what was printed, nor run a shell that nobody named.
package process
