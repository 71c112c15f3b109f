package page

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"sync"
	"time"
)

// Lives and numbers of what opens the page.
const (
	// TicketLife is for how long a one-time address may be opened: long enough to set up a tunnel.
	TicketLife = 5 * time.Minute
	// ticketsMost is how many there are at once; one more ends the oldest.
	ticketsMost = 16
	// SessionLife is for how long a browser may change something: a working day. Sessions are in memory only.
	SessionLife  = 8 * time.Hour
	sessionsMost = 32
	// secretBytes are drawn at random for each ticket, cookie and header.
	secretBytes = 32
	// triesMost wrong tokens of one source are judged at once, and one more every triesEvery; sourcesMost sources are kept.
	triesMost   = 10
	triesEvery  = 6 * time.Second
	sourcesMost = 1024
)

type digest = [sha256.Size]byte

func digestOf(text string) digest { return sha256.Sum256([]byte(text)) }

// session is one browser that may change something.
type session struct {
	header digest // of what it sends beside the cookie
	ends   time.Time
}

// sessions are the tickets and the browsers. Secrets are kept as digests, so that looking one up tells nothing by its time.
type sessions struct {
	entropy func([]byte)

	mu      sync.Mutex
	tickets map[digest]time.Time // until when
	open    map[digest]session   // by the cookie
	tries   map[string]tries
}

type tries struct {
	left float64
	at   time.Time
}

func newSessions(entropy func([]byte)) *sessions {
	return &sessions{entropy: entropy, tickets: map[digest]time.Time{}, open: map[digest]session{}, tries: map[string]tries{}}
}

func (s *sessions) secret() string {
	b := make([]byte, secretBytes)
	s.entropy(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// ticket makes one.
func (s *sessions) ticket(now time.Time) string {
	text := s.secret()
	s.mu.Lock()
	defer s.mu.Unlock()
	for d, until := range s.tickets {
		if !now.Before(until) {
			delete(s.tickets, d)
		}
	}
	if len(s.tickets) >= ticketsMost {
		var oldest digest
		first := true
		for d, until := range s.tickets {
			if first || until.Before(s.tickets[oldest]) {
				oldest, first = d, false
			}
		}
		delete(s.tickets, oldest)
	}
	s.tickets[digestOf(text)] = now.Add(TicketLife)
	return text
}

// spend reports whether text is a ticket that nobody has used, and uses it.
func (s *sessions) spend(now time.Time, text string) bool {
	d := digestOf(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.tickets[d]
	delete(s.tickets, d)
	return ok && now.Before(until)
}

// begin opens a session: what the cookie and what the header hold.
func (s *sessions) begin(now time.Time) (cookie, header string) {
	cookie, header = s.secret(), s.secret()
	s.mu.Lock()
	defer s.mu.Unlock()
	for d, o := range s.open {
		if !now.Before(o.ends) {
			delete(s.open, d)
		}
	}
	if len(s.open) >= sessionsMost {
		var oldest digest
		first := true
		for d, o := range s.open {
			if first || o.ends.Before(s.open[oldest].ends) {
				oldest, first = d, false
			}
		}
		delete(s.open, oldest)
	}
	s.open[digestOf(cookie)] = session{header: digestOf(header), ends: now.Add(SessionLife)}
	return cookie, header
}

// look says what a browser may: read by its cookie, and change by cookie and header.
func (s *sessions) look(now time.Time, cookie, header string) (read, change bool, left time.Duration) {
	if cookie == "" {
		return false, false, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.open[digestOf(cookie)]
	if !ok || !now.Before(o.ends) {
		return false, false, 0
	}
	d := digestOf(header)
	return true, subtle.ConstantTimeCompare(d[:], o.header[:]) == 1, o.ends.Sub(now)
}

// end closes a session.
func (s *sessions) end(cookie string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, digestOf(cookie))
}

// mayTry reports whether a token of this source is judged at all.
func (s *sessions) mayTry(now time.Time, source string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tried(now, source).left >= 1
}

func (s *sessions) tried(now time.Time, source string) tries {
	t, ok := s.tries[source]
	if !ok {
		return tries{left: triesMost, at: now}
	}
	t.left = min(triesMost, t.left+float64(now.Sub(t.at))/float64(triesEvery))
	t.at = now
	return t
}

// wrong counts a wrong token of this source.
func (s *sessions) wrong(now time.Time, source string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tried(now, source)
	t.left--
	if _, known := s.tries[source]; !known && len(s.tries) >= sourcesMost {
		var oldest string
		first := true
		for k, o := range s.tries {
			if first || o.at.Before(s.tries[oldest].at) {
				oldest, first = k, false
			}
		}
		delete(s.tries, oldest)
	}
	s.tries[source] = t
}
