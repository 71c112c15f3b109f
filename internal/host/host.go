// Package host names what the platform gives a node: its folders, what the installer stored, and the service manager's
// words. Its one job is that interface and the decisions that are the same everywhere.
//
// It must never know the node: the node is handed a Host and asks it.
package host

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Setting is one value that the installer stored, and where: "/etc/default/pace-node line 3", `HKLM\Software\Pace\Node`.
type Setting = struct{ Value, Where string }

// Hooks is where the programs are that run with each new configuration.
type Hooks struct {
	Dir    string // folder of the hooks
	Unit   bool   // this process may not run them: a unit of root's does
	Report string // file in which that unit reports; "" = this platform has none
	Enable string // command that switches it on
}

// HooksDir is the folder of hooks in a state directory, where the platform has no place of its own for them.
const HooksDir = "hooks.d"

// Host is one platform. platform/linux, platform/windows and platform/darwin implement it.
type Host interface {
	// StateDir is where state is kept when nobody says: of the service, or (user) of the account that runs this. "" = the
	// platform knows none for this account.
	StateDir(user bool) string
	// Ordinary tells whether this process runs as an ordinary user: neither an administrator nor the service's account.
	Ordinary() bool
	// Installed tells whether the service is installed on this machine.
	Installed() bool
	// Account is the POSIX account of the service, where an administrator's verb must leave files to it.
	Account() (uid, gid int, ok bool)
	// AdminSocket is the administrators' socket that the packages made for the service's state directory, or "": then it
	// is in the state directory.
	AdminSocket(stateDir string) string
	// Hooks is where this machine's administrator keeps hooks for a node of that state directory, and who runs them.
	Hooks(stateDir string) Hooks
	// Hardware is a digest that stays with this machine and differs from another's, or "" if unknown. Machines cloned from
	// one image may share it: it can tell that a directory moved, never that two are one.
	Hardware() string
	// StoredSettings is what the installer stored, by PACE_ name. Nothing stored is no error.
	StoredSettings() (map[string]Setting, error)

	// Install registers the service, or brings what is registered to what is asked for, and starts it. Done twice, it
	// changes nothing. The outcome of a failure says what was done before it. Errors: ErrPrivilege, or a *Refusal.
	Install(ctx context.Context, r Registration) (Outcome, error)
	// Uninstall stops and removes the service; state, key and settings stay. name is "" for the one that is registered.
	// What is not there is no error.
	Uninstall(ctx context.Context, name string) (Outcome, error)

	// State asks the service manager about the service. An error is a manager that does not answer; the commands are
	// there all the same.
	State(ctx context.Context) (State, error)

	// Ready tells the service manager that the state directory is open and the sockets are bound.
	Ready() error
	// Status tells it one line for people.
	Status(text string) error
	// Stopping tells it that the end has begun.
	Stopping() error
	// WatchdogEvery is how often WatchdogPing is due; 0 = nobody watches.
	WatchdogEvery() time.Duration
	// WatchdogPing tells the service manager that the program is alive.
	WatchdogPing() error
	// Refuse tells the service manager that the program does not start and why, with its exit status, where what stands on
	// stderr would reach nobody. It returns at once where no service manager asks.
	Refuse(why error, exit int)
	// Log is the service manager's own log, once RunService runs the program: lines without the fields that it has itself.
	// nil: there is none. beside tells that stderr is to hear the same.
	Log(level slog.Leveler, format string) (h slog.Handler, beside bool)
	// RunService runs the program until it ends by itself or the service manager or a signal ends ctx, and returns what run
	// returned. exit gives the status that a service manager is told for an error.
	RunService(run func(ctx context.Context) error, exit func(error) int) error
}

// ErrEnvFile: a file of settings that is not one.
var ErrEnvFile = errors.New("not a file of NAME=value lines")

// Watch sends the service manager's watchdog a word at half of what it asks for, as long as alive returns nil in that
// time: alive goes once through the event loop. It returns when ctx ends, or at once where nobody watches; it starts
// nothing, so the caller waits for it. failed (may be nil) is told each word that was not sent, and why.
func Watch(ctx context.Context, h Host, alive func(context.Context) error, failed func(error)) {
	every := h.WatchdogEvery() / 2
	if every <= 0 {
		return
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		round, cancel := context.WithTimeout(ctx, every)
		err := alive(round)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = h.WatchdogPing()
		}
		if err != nil && failed != nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
