package host

import (
	"context"
	"errors"
	"strings"

	"pace-node/internal/config"
)

// Registration is the service as an administrator wants it.
type Registration struct {
	Name     string           // "" = the one that is remembered, else the platform's own
	Program  string           // whole path of the program, links resolved
	Keep     []config.Kept    // settings to store; what is stored and not named here stays
	Surfaces []config.Surface // what the firewall is told of
	Allow    []string         // networks that may reach them; empty = everybody
	StateDir string           // where state is kept, if that is not the platform's place; "" = it is
}

// Outcome is what an install or a removal did.
type Outcome struct {
	Service  string   // the service's name
	Did      []string // what was changed, a sentence each; empty = nothing was to be done
	Notes    []string // what a person should know beside it
	StateDir string   // where identity and state are
	Settings string   // where the settings are: a file, or a key of the registry
}

// State is the service as the service manager knows it, and the commands that an administrator types about it.
type State struct {
	Name      string
	Installed bool
	Running   bool
	Start     string // starts it
	Stop      string // ends it
	Log       string // shows what it said last
}

// Change notes something that was changed.
func (o *Outcome) Change(sentence string) { o.Did = append(o.Did, sentence) }

// Note notes something that a person should know.
func (o *Outcome) Note(sentence string) { o.Notes = append(o.Notes, sentence) }

// Refusal is an error that says apart what is wrong and what mends it.
type Refusal struct {
	Err    error  // beneath, or nil
	Wrong  string // what is wrong, and why
	Mended string // what mends it
}

func (r *Refusal) Error() string { return r.Wrong + "; " + r.Mended }
func (r *Refusal) Unwrap() error { return r.Err }

// What is what is wrong, without the remedy.
func (r *Refusal) What() string { return r.Wrong }

// Remedy is what mends it, by itself.
func (r *Refusal) Remedy() string { return r.Mended }

var (
	// ErrPrivilege: an ordinary user asked for what only an administrator may do.
	ErrPrivilege = errors.New("only an administrator registers a service")
	// ErrPlace: the program lies where a service cannot, or must not, run it from.
	ErrPlace = errors.New("the program cannot be a service where it is")
	// ErrOther: a service is there that is not the one to be changed.
	ErrOther = errors.New("another service is in the way")
	// ErrNotStarted: the service is registered, and does not run.
	ErrNotStarted = errors.New("the service does not run")
	// ErrNotStopped: the service does not end.
	ErrNotStopped = errors.New("the service does not end")
)

// Result is what a program of the system did.
type Result struct {
	Code int    // exit status
	Out  string // what it printed, without blanks at the ends
}

// Runner runs a program of the system by its path, with input on its stdin. An error is a program that could not be run or
// did not end in time; a status other than 0 is none.
type Runner func(ctx context.Context, input, program string, args ...string) (Result, error)

// KeptName is the name among what is kept, else the one that is stored, else the platform's own.
func KeptName(wanted string, stored map[string]Setting, own string) string {
	if wanted != "" {
		return wanted
	}
	if s := stored[serviceNameKey].Value; s != "" {
		return s
	}
	return own
}

const serviceNameKey = "PACE_SERVICE_NAME"

// ShellQuote makes a word that can be pasted into a POSIX shell, whatever is in it.
func ShellQuote(s string) string {
	if s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:@%+=,-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
