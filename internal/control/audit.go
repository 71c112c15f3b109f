package control

import (
	"context"
	"slices"
	"strconv"
	"time"

	"pace-node/internal/config"
)

// audit shows who did what: all of it, or what --since, --limit and a machine leave.
func (r *runner) audit(ctx context.Context, args []string) (Printable, error) {
	d, err := status[AuditList](r, ctx, "audit")
	if err != nil {
		return nil, err
	}
	var id, key string
	if len(args) > 0 {
		if id, key, err = r.whose(ctx, args[0], d.Entries); err != nil {
			return nil, err
		}
	}
	all := len(d.Entries)
	if text, ok := r.flags[config.WordSince]; ok {
		span, err := config.ParseDuration(text)
		if err != nil {
			return nil, usageFailure("pacectl audit --since=24h", "%v", err)
		}
		from := r.began.Add(-span).Unix()
		d.Entries = slices.DeleteFunc(d.Entries, func(e AuditEntry) bool { return e.At < from })
	}
	if id != "" {
		d.Entries = slices.DeleteFunc(d.Entries, func(e AuditEntry) bool { return e.Subject != id && (key == "" || e.By != key) })
	}
	if text, ok := r.flags[config.WordLimit]; ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, usageFailure("pacectl audit --limit=20", "%q is no number of entries", text)
		}
		d.Entries = d.Entries[max(len(d.Entries)-n, 0):]
	}
	d.LeftOut = all - len(d.Entries)
	return &d, nil
}

// whose is the machine of the record that a person means: a member, or one that was.
func (r *runner) whose(ctx context.Context, word string, entries []AuditEntry) (id, key string, err error) {
	s, err := status[ClusterStatus](r, ctx, "cluster")
	if err != nil {
		return "", "", err
	}
	machines := machinesOf(s.Members)
	for _, e := range entries {
		if e.Subject != "" && !slices.ContainsFunc(machines, func(m Machine) bool { return m.ID == e.Subject }) {
			machines = append(machines, Machine{ID: e.Subject, Name: e.Name})
		}
	}
	if id, err = resolve(word, "the audit", "pacectl audit", machines); err != nil {
		return "", "", err
	}
	if !slices.ContainsFunc(machines, func(m Machine) bool { return m.ID == id }) {
		return "", "", unknownMachine(word, "the fleet, nor of its audit", "pacectl member list", machines)
	}
	for _, m := range s.Members {
		if m.ID == id {
			key = m.Key
		}
	}
	return id, key, nil
}

// busyAfter is when a person is told that something takes its time, and how often after that.
const busyAfter = time.Second

// busy tells a person at a terminal that something goes on, once it takes more than a second. done takes that away.
func (r *runner) busy(doing string) (done func()) {
	if r.deps.Terminal == nil || !r.deps.Terminal() {
		return func() {}
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(busyAfter)
		defer tick.Stop()
		began, shown := time.Now(), false
		for {
			select {
			case <-stop:
				if shown {
					r.progress("")
				}
				return
			case now := <-tick.C:
				shown = true
				r.progress(doing + " (" + span(now.Sub(began).Milliseconds()) + ")")
			}
		}
	}()
	return func() { close(stop); <-ended }
}

// asked is whom the next question goes to, for a person.
func (r *runner) asked() string {
	switch {
	case r.client != nil:
		return r.client.where
	case r.cfg.Scheduler != "":
		return "the machine at " + r.cfg.Scheduler
	}
	return "this machine's node"
}
