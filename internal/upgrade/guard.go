package upgrade

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"pace-node/internal/config"
)

// which program a process is, by the intent.
type which uint8

const (
	isOld which = iota + 1
	isNew
	isOther // somebody put a third one there
)

// action is what a starting process does about an upgrade.
type action uint8

const (
	actNothing action = iota
	actAbandon        // the swap never came: what it left is removed
	actWatch          // count this start, and watch it
	actBack           // put the old program back, and end
	actForget         // the place is somebody else's now
	actSettle         // the new program is good
)

// startRow is one row of what a starting process does; the first that fits is it.
type startRow struct {
	Phase Phase
	Which which
	Spent bool // more than MaxStarts with this one
	Do    action
}

// startRows is the table. What no row names does nothing: the old program after a roll-back.
var startRows = []startRow{
	{PhaseSwapped, isOld, false, actAbandon},
	{PhaseSwapped, isNew, false, actWatch},
	{PhaseSwapped, isNew, true, actBack},
	{PhaseSwapped, isOther, false, actForget},
	{PhaseRolledBack, isNew, false, actBack},
	{PhaseRolledBack, isOther, false, actForget},
}

func atStart(in Intent, w which) action {
	spent := in.Phase == PhaseSwapped && w == isNew && in.Starts+1 > MaxStarts
	for _, r := range startRows {
		if r.Phase == in.Phase && r.Which == w && r.Spent == spent {
			return r.Do
		}
	}
	return actNothing
}

// endRow is one row of what a watched process does when it ends.
type endRow struct {
	Served bool
	Code   int
	Do     action
	Why    string
}

// endRows is the table. What no row names does nothing: the service manager starts it again, and that start is counted.
// What ends well, or refuses its configuration, no manager starts again.
var endRows = []endRow{
	{true, config.ExitOK, actSettle, ""},
	{false, config.ExitOK, actBack, "it ended before it served"},
	{false, config.ExitConfig, actBack, "it refused its configuration"},
}

func atEnd(served bool, code int) endRow {
	for _, r := range endRows {
		if r.Served == served && r.Code == code {
			return r
		}
	}
	return endRow{}
}

// Watch is what Begin is given.
type Watch struct {
	Args   []string // os.Args
	Stderr io.Writer
	Point  func(string)           // crash points of a test build; nil: none
	Refuse func(error, int)       // tells the service manager why the program does not start; nil: nobody
	Exit   func(int)              // nil: os.Exit
	Within time.Duration          // 0: ServeWithin
	Settle time.Duration          // 0: SettleAfter
	Self   func() (string, error) // path of this process' program; nil: the system's word
}

// Guard watches a program that took another's place. A nil one watches nothing.
type Guard struct {
	w     Watch
	place place

	mu      sync.Mutex
	intent  Intent
	served  bool
	settled bool // or taken back: there is nothing left to do
	timer   *time.Timer
}

// Begin is the first thing that the command does. Where no upgrade is under way, or this process is no service, it returns
// nil at once. It ends the process where the old program has to come back.
func Begin(w Watch) *Guard {
	if w.Exit == nil {
		w.Exit = os.Exit
	}
	if w.Self == nil {
		w.Self = program
	}
	if w.Within == 0 {
		w.Within = ServeWithin
	}
	if w.Settle == 0 {
		w.Settle = SettleAfter
	}
	if len(w.Args) == 0 || !config.Serves(w.Args) {
		return nil
	}
	path, err := w.Self()
	if err != nil {
		return nil
	}
	g := &Guard{w: w, place: placeOf(path, w.Point)}
	g.intent, err = readIntent(g.place.intent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		g.say("the file %s of an upgrade does not read, and is passed over: %v", g.place.intent, err)
		return nil
	}
	if g.intent.Args != digestArgs(w.Args[1:]) {
		return nil // another process of this program was upgraded, and watches itself
	}
	g.place.sweep()
	self, err := digestOf(path)
	if err != nil {
		g.say("this program cannot be read, so its upgrade is not watched: %v", err)
		return nil
	}
	switch atStart(g.intent, g.is(self)) {
	case actAbandon, actForget:
		if err := errors.Join(remove(g.place.staged), remove(g.place.intent)); err != nil {
			g.say("what an upgrade left is not removed: %v", err)
		}
		return nil
	case actBack:
		why := g.intent.Why
		if why == "" {
			why = fmt.Sprintf("it was started %d times and never served for %s", g.intent.Starts, w.Settle)
		}
		if code, ok := g.back(why); ok {
			if w.Refuse != nil {
				w.Refuse(errors.New("the upgrade to "+g.intent.To+" is rolled back: "+why), code)
			}
			w.Exit(code)
		}
		return nil
	case actWatch:
		g.watch()
		return g
	}
	return nil
}

func (g *Guard) is(self string) which {
	switch self {
	case g.intent.Old:
		return isOld
	case g.intent.New:
		return isNew
	}
	return isOther
}

func (g *Guard) say(format string, args ...any) {
	if g.w.Stderr != nil {
		fmt.Fprintf(g.w.Stderr, "pace-node: "+format+"\n", args...)
	}
}

// watch counts this start and gives it its time.
func (g *Guard) watch() {
	g.intent.Starts++
	if err := g.place.write(g.intent, "count"); err != nil {
		g.say("this start of the new program cannot be counted: %v", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer = time.AfterFunc(g.w.Within, func() {
		g.mu.Lock()
		late := !g.served && !g.settled
		g.mu.Unlock()
		if !late {
			return
		}
		if code, ok := g.back(fmt.Sprintf("it did not serve within %s", g.w.Within)); ok {
			g.w.Exit(code)
		}
	})
}

// Served says that this process serves.
func (g *Guard) Served() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.served || g.settled {
		return
	}
	g.served = true
	g.timer.Stop()
	g.timer = time.AfterFunc(g.w.Settle, g.Settle)
}

// Settle says that the new program is good: the old one is kept, and nothing puts it back any more.
func (g *Guard) Settle() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.settled {
		return
	}
	g.settled = true
	if g.timer != nil {
		g.timer.Stop()
	}
	if err := g.place.at("settle", func() error { return remove(g.place.intent) }); err != nil {
		g.say("the file %s of an upgrade that went well is not removed: %v", g.place.intent, err)
	}
}

// End says that this process ends with a status, and returns the one to end with.
func (g *Guard) End(code int) int {
	if g == nil {
		return code
	}
	g.mu.Lock()
	served, settled := g.served, g.settled
	g.mu.Unlock()
	if settled {
		return code
	}
	switch row := atEnd(served, code); row.Do {
	case actSettle:
		g.Settle()
		return code
	case actBack:
		if again, ok := g.back(row.Why); ok {
			return again
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settled = true
	if g.timer != nil {
		g.timer.Stop()
	}
	return code
}

// back puts the old program in its place, and returns the status to end with, so that the service manager starts it.
func (g *Guard) back(why string) (code int, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.settled {
		return 0, false
	}
	g.settled = true
	if g.timer != nil {
		g.timer.Stop()
	}
	if err := rollBack(g.place, &g.intent, why, nil); err != nil {
		g.say("the upgrade to %s has to be rolled back (%s), and cannot be: %v; put the program of version %s to %s", g.intent.To, why, err, g.intent.From, g.place.program)
		return 0, false
	}
	g.say("the upgrade from %s to %s is rolled back: %s", g.intent.From, g.intent.To, why)
	return config.ExitAgain, true
}

// rollBack notes that the old program comes back and puts it there. The note goes first: it is what ends a roll-back that
// a crash interrupted. Whoever else has to know is told before the old program is there, since a service manager may start it
// in the same moment; nil: nobody.
func rollBack(p place, in *Intent, why string, tell func(Intent)) error {
	if in.Phase != PhaseRolledBack {
		next := *in
		next.Phase, next.Why, next.At = PhaseRolledBack, why, time.Now().Unix()
		if err := p.write(next, "undo"); err != nil {
			return err
		}
		*in = next
	}
	if tell != nil {
		tell(*in)
	}
	return p.back()
}
