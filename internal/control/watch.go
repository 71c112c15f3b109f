package control

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/wire"
)

const (
	// watchEvery is how often the node is asked: a person sees what happens within a second.
	watchEvery = time.Second
	// watchPatience bounds one question: a node that takes longer is shown as silent meanwhile.
	watchPatience = 5 * time.Second
	// watchBefore is how many events from before the beginning are told where lines are written.
	watchBefore = 10
	// watchKept is how many events a screen keeps: more than the rows of any.
	watchKept = 200
)

// Terminal is what stdout is, where it is one.
type Terminal struct {
	Size   func() (columns, rows int)
	Colour bool // escapes of colour are understood, and wanted
	Redraw bool // a picture can be drawn over the last one
}

// eventWatch is the kind of the lines that the watch itself writes.
const eventWatch = "watch"

// watched is what a watch knows: the last picture and what happened. It does nothing by itself.
type watched struct {
	doc    WatchStatus
	seen   bool      // there is a picture
	at     time.Time // when it was taken
	failed *Failure  // why there is none since; nil: there is
	after  uint64    // the event behind which to ask
	state  uint64    // newest revision of the fleet's that was told
	events []Event   // that a screen shows, oldest first
}

// source says which numbering events follow.
func (d *WatchStatus) source() string { return d.Node.ID + "/" + d.Boot }

// take takes a picture in, and returns what is new in it. again says that it comes from another process than the last, so
// that its events have to be asked for from their beginning.
func (w *watched) take(now time.Time, d WatchStatus) (fresh []Event, again bool) {
	was, before := w.seen, w.doc
	if was && before.source() != d.source() && w.after != 0 {
		w.after = 0
		return nil, true
	}
	moved := was && before.source() != d.source()
	if w.failed != nil {
		fresh = append(fresh, w.own(now, "answers", d.Node, "after "+span(now.Sub(w.at).Milliseconds())))
	}
	if moved {
		fresh = append(fresh, w.own(now, "looks", d.Node, viewText(d.View)))
	}
	told := d.Events
	switch {
	case !was && len(told) > watchKept:
		told = told[len(told)-watchKept:]
	case was && d.Missed > 0 && !moved:
		fresh = append(fresh, w.own(now, "missed", Machine{}, fmt.Sprintf("%d events", d.Missed)))
	}
	for _, e := range told {
		if moved && e.At < w.at.Unix() || e.Revision != 0 && e.Revision <= w.state {
			continue // it was told by the one that answered before, or is older than what that one told
		}
		fresh = append(fresh, e)
	}
	for _, e := range d.Events {
		w.state = max(w.state, e.Revision)
	}
	w.doc, w.seen, w.at, w.failed, w.after = d, true, now, nil, d.Next
	w.keep(fresh)
	return fresh, false
}

// fails takes in that there is no picture, and returns what is new in that.
func (w *watched) fails(now time.Time, f *Failure) []Event {
	first := w.failed == nil
	if w.failed = f; !first {
		return nil
	}
	fresh := []Event{w.own(now, "silent", w.doc.Node, f.Reason)}
	w.keep(fresh)
	return fresh
}

func (w *watched) own(now time.Time, what string, m Machine, detail string) Event {
	return Event{At: now.Unix(), Kind: eventWatch, What: what, ID: m.ID, Name: m.Name, Detail: detail}
}

func (w *watched) keep(fresh []Event) {
	w.events = append(w.events, fresh...)
	if over := len(w.events) - watchKept; over > 0 {
		w.events = append(w.events[:0], w.events[over:]...)
	}
}

// line is: date, kind, what, id, name, severity, detail.
func (e *Event) line(l *lines) {
	l.words(date(e.At), Word(e.Kind), Word(e.What), Word(e.ID), Word(e.Name), Word(e.Severity), orText(e.detail(), nothing))
}

// detail is an event's as it is shown: of the fleet's record it is what a person typed, or a machine's word.
func (e *Event) detail() string {
	if e.Kind == EventFleet {
		return Chosen(e.Detail)
	}
	return Sentence(e.Detail)
}

func (d *WatchStatus) finish() {
	d.V = DocumentVersion
	d.Members, d.Waiting, d.Conditions, d.Events = orEmpty(d.Members), orEmpty(d.Waiting), orEmpty(d.Conditions), orEmpty(d.Events)
	d.Queue.Entries = orEmpty(d.Queue.Entries)
	for i := range d.Members {
		d.Members[i].finish()
	}
	for i := range d.Waiting {
		d.Waiting[i].Approve = approveCommand(d.Waiting[i].ID, d.Waiting[i].Key)
	}
}

// Text is a line an event.
func (d *WatchStatus) Text() string {
	var l lines
	for i := range d.Events {
		d.Events[i].line(&l)
	}
	return l.String()
}

// look asks for one picture. It waits for no election: what is known meanwhile is shown.
func (r *runner) look(ctx context.Context, after uint64) (WatchStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, watchPatience)
	defer cancel()
	once := func(ctx context.Context, v wire.Verb, payload []byte) ([]byte, error) {
		b, err, _ := r.follow(ctx, v, payload, r.said)
		return b, err
	}
	d, err := ask[WatchStatus](ctx, once, wire.VerbStatus, wire.StatusRequest{What: "watch", After: after})
	reachOf(&r.cfg).fill(&d)
	if err != nil && r.client != nil {
		r.client.Close() // whoever was asked last may be gone: the next question begins with the first one
		r.client = nil
	}
	return d, err
}

// watch shows what happens until it is interrupted: on a terminal one picture that is drawn anew, else a line an event. With
// --json it is one picture, and ends.
func (r *runner) watch(ctx context.Context, _ []string) (Printable, error) {
	d, err := r.look(ctx, 0)
	if err != nil {
		return nil, err
	}
	if r.cfg.JSON {
		return &d, nil
	}
	var w watched
	fresh, _ := w.take(time.Now(), d)
	show := r.lineWriter(len(fresh) - watchBefore)
	if t := r.deps.Screen; t != nil && t.Redraw {
		s := &screen{out: r.stdout, term: t}
		defer s.end()
		if err := s.begin(); err != nil {
			return nil, err
		}
		show = func([]Event) error { return s.draw(&w, time.Now()) }
	}
	if err := show(fresh); err != nil {
		return nil, err
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-tick.C:
		}
		d, err := r.look(ctx, w.after)
		now := time.Now()
		var again bool
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case err != nil:
			f := failureOf(err, r.socket)
			if f.Exit == config.ExitRefused {
				return nil, f // asking again is refused again
			}
			fresh = w.fails(now, f)
		default:
			if fresh, again = w.take(now, d); again {
				tick.Reset(watchEvery)
				if d, err = r.look(ctx, 0); err == nil {
					fresh, _ = w.take(now, d)
				}
			}
		}
		if err := show(fresh); err != nil {
			return nil, err
		}
	}
}

// lineWriter writes a line an event; of the first ones it leaves some out.
func (r *runner) lineWriter(leaveOut int) func([]Event) error {
	return func(fresh []Event) error {
		fresh = fresh[min(max(leaveOut, 0), len(fresh)):]
		leaveOut = 0
		var l lines
		for i := range fresh {
			fresh[i].line(&l)
		}
		_, err := io.WriteString(r.stdout, l.String())
		return err
	}
}

// countText is a number and what is counted.
func countText(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
