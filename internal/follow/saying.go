package follow

import (
	"log/slog"
	"time"
)

// sayEvery is how often one thing about one voter is said: a link that comes and goes does so all day.
const sayEvery = time.Minute

// saying tells the log which voter is followed. What is held back is said when it may be, if it still stands then. It is the
// runner's.
type saying struct {
	last map[line]time.Time // never more than were said within sayEvery
	held int                // changes that were not said
	now  line               // how things are
	why  string
}

// line is one thing that can be said.
type line struct {
	voter  string
	follow bool
}

// change notes that a voter is followed, or is no longer.
func (s *saying) change(log *slog.Logger, at time.Time, voter string, follow bool, why string) {
	s.now, s.why = line{voter, follow}, why
	s.held++
	s.tell(log, at)
}

// tell says how things are, unless it was told so, or told the same within sayEvery.
func (s *saying) tell(log *slog.Logger, at time.Time) {
	if s.held == 0 {
		return
	}
	for k, when := range s.last {
		if at.Sub(when) >= sayEvery {
			delete(s.last, k)
		}
	}
	if _, lately := s.last[s.now]; lately {
		return
	}
	if s.last == nil {
		s.last = map[line]time.Time{}
	}
	s.last[s.now] = at
	attrs := []any{"voter", s.now.voter}
	if s.now.follow {
		attrs = append(attrs, more(s.held)...)
		log.Info("following a voter", attrs...)
	} else {
		attrs = append(append(attrs, "why", s.why), more(s.held)...)
		log.Info("no longer following a voter", attrs...)
	}
	s.held = 0
}

func more(held int) []any {
	if held < 2 {
		return nil
	}
	return []any{"stands-for", held}
}
