package enroll

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pace-node/internal/identity"
)

// RowID is the key of a row: the same id under another key is another row.
type RowID struct {
	ID  string
	Key identity.PublicKey
}

// String returns <id>@<key>, as an approval is typed.
func (r RowID) String() string { return identity.FormatAdmit(r.ID, r.Key) }

// Decision is what became of a row.
type Decision uint8

// Decisions.
const (
	Waiting Decision = iota + 1
	ApprovedManually
	ApprovedAuto
	RejectedByHand
)

var decisionNames = [...]string{Waiting: "waiting", ApprovedManually: "approved", ApprovedAuto: "auto", RejectedByHand: "rejected"}

// String returns the word of the list: waiting, approved, auto, rejected.
func (d Decision) String() string {
	if int(d) < len(decisionNames) && decisionNames[d] != "" {
		return decisionNames[d]
	}
	return "unknown"
}

// Row is one machine of the list as it is shown. ID, Name, Platform, Version and Endpoint are a stranger's text; they hold
// no control character, and are printed escaped all the same.
type Row struct {
	ID                                string
	Key                               identity.PublicKey
	Name, Platform, Version, Endpoint string
	Source                            netip.Addr    // where the last request came from
	Age, Heard                        time.Duration // since the first request, and since the last one or an open stream
	Attempts                          int
	Decision                          Decision
	ConflictRow                       bool      // another key asked under this id
	ConflictMember                    bool      // a member holds this id
	KeyRejected                       bool      // a person rejected this key under another id
	EndpointDiffers                   bool      // the claimed endpoint is an address other than Source
	NameOf                            string    // id of the member of the same name; empty for none
	NameHeard                         time.Time // when that member was last heard; zero for never
	ArmedAt                           time.Time // when the window that admitted it was armed; zero otherwise
	ArmedAgo                          time.Duration
}

// RowID returns the row's key.
func (r Row) RowID() RowID { return RowID{r.ID, r.Key} }

// row is a Row as it is kept.
type row struct {
	Row
	first, heard, answered, decided time.Time
	network                         netip.Prefix // of the first request: what its place is counted against
	streams                         int
	challenge                       [32]byte
}

// ListConfig is what a List needs from outside.
type ListConfig struct {
	// PerSource is the setting enrollment.per-source; nil, or a value below 1, is DefaultPerSource.
	PerSource func() int
	// LoopbackOK is --discovery-loopback: loopback endpoints from loopback sources are taken, and 127.0.0.0/8 is not
	// counted by source.
	LoopbackOK bool
}

// List is the leader's waiting list and its auto-approve window. It lives in memory alone: a restart or a change of leader
// ends it, and joiners ask again. One event loop owns it.
type List struct {
	cfg     ListConfig
	rows    map[RowID]*row
	armedAt time.Time
	until   time.Time
	armed   bool
	counts  [counters]uint64
	refused [refusals]uint64
}

// NewList returns an empty list.
func NewList(cfg ListConfig, _ time.Time) *List {
	return &List{cfg: cfg, rows: map[RowID]*row{}}
}

// Count returns a counter; Refused how many requests were refused for a reason.
func (l *List) Count(c Counter) uint64 { return l.counts[c] }

// Refused returns how many requests were refused for a reason.
func (l *List) Refused(r Refusal) uint64 { return l.refused[r] }

func (l *List) perSource() int {
	if l.cfg.PerSource != nil {
		if n := l.cfg.PerSource(); n >= 1 {
			return n
		}
	}
	return DefaultPerSource
}

// waiting counts the undecided rows that pass.
func (l *List) waiting(pass func(*row) bool) int {
	n := 0
	for _, r := range l.rows {
		if r.Decision == Waiting && pass(r) {
			n++
		}
	}
	return n
}

// Waiting returns how many rows are undecided.
func (l *List) Waiting() int { return l.waiting(func(*row) bool { return true }) }

// Approve approves the row of exactly this id and key, also one that was rejected. The caller commits the admission, says
// Committed and answers the row's streams; Failed puts the row back if that can't be.
func (l *List) Approve(now time.Time, id string, key identity.PublicKey) (RowID, error) {
	l.expire(now)
	r := l.rows[RowID{id, key}]
	if r == nil {
		var keys []string
		for _, other := range l.sorted() {
			if other.ID == id {
				keys = append(keys, other.Key.String())
			}
		}
		if len(keys) > 0 {
			return RowID{}, fmt.Errorf("%w: %q asks under %s", ErrOtherKey, id, strings.Join(keys, " and "))
		}
		return RowID{}, fmt.Errorf("%w: %q", ErrNoRow, id)
	}
	if r.Decision == ApprovedManually || r.Decision == ApprovedAuto {
		return RowID{}, fmt.Errorf("%w: %s", ErrDecided, r.RowID())
	}
	l.decide(now, r, ApprovedManually)
	return r.RowID(), nil
}

// Reject refuses one pair of id and key for DecidedFor. Without a key it must be the only undecided one of that id, so
// that a stranger who asks under a machine's id does not get that machine refused with it.
func (l *List) Reject(now time.Time, id string, key *identity.PublicKey) ([]RowID, error) {
	l.expire(now)
	var match, approved []*row
	for _, r := range l.sorted() {
		switch {
		case r.ID != id || key != nil && r.Key != *key:
		case key == nil && r.Decision == RejectedByHand:
		case key == nil && r.Decision != Waiting:
			approved = append(approved, r)
		default:
			match = append(match, r)
		}
	}
	if len(match) == 0 {
		match = approved // so that the refusal says how to take it back
	}
	switch {
	case len(match) == 0:
		return nil, fmt.Errorf("%w: %q", ErrNoRow, id)
	case len(match) > 1:
		var names []string
		for _, r := range match {
			names = append(names, r.RowID().String())
		}
		return nil, fmt.Errorf("%w: %s", ErrAmbiguous, strings.Join(names, ", "))
	case match[0].Decision == ApprovedManually || match[0].Decision == ApprovedAuto:
		return nil, fmt.Errorf("%w: %s", ErrDecided, match[0].RowID())
	}
	r := match[0]
	if r.Decision != RejectedByHand {
		l.decide(now, r, RejectedByHand)
		l.counts[CountRejections]++
		for _, other := range l.rows {
			if other.Key == r.Key && other != r {
				other.KeyRejected = true
			}
		}
	}
	return []RowID{r.RowID()}, nil
}

// Committed counts an admission that is in the fleet's state: a decision whose admission fails admitted nobody. auto is
// whether the window decided.
func (l *List) Committed(auto bool) {
	if auto {
		l.counts[CountApprovalsAuto]++
	} else {
		l.counts[CountApprovalsManual]++
	}
}

// Failed puts an approved row back to waiting: its admission could not be committed.
func (l *List) Failed(now time.Time, id RowID) {
	if r := l.rows[id]; r != nil && (r.Decision == ApprovedManually || r.Decision == ApprovedAuto) {
		r.Decision, r.decided, r.ArmedAt, r.heard = Waiting, time.Time{}, time.Time{}, now
	}
}

// Clear removes every row, decided ones too, and returns how many were waiting. The caller closes the streams of Rows
// first; whoever still wants in asks again.
func (l *List) Clear(time.Time) int {
	n := l.Waiting()
	l.counts[CountRequestsCleared] += uint64(n)
	clear(l.rows)
	return n
}

// Drop ends the window and removes every row: this node goes pending, or leads no more. It returns the rows, whose streams
// are then answered with a redirect.
func (l *List) Drop() []RowID {
	var out []RowID
	for _, r := range l.sorted() {
		out = append(out, r.RowID())
	}
	clear(l.rows)
	l.armed = false
	return out
}

// Heard says that a row's machine is there: its stream is open.
func (l *List) Heard(now time.Time, id RowID) {
	if r := l.rows[id]; r != nil {
		r.heard = now
	}
}

// Opened and Closed count a row's open streams. A row with one is heard, and its pending answer is repeated.
func (l *List) Opened(now time.Time, id RowID) {
	if r := l.rows[id]; r != nil {
		r.streams++
		r.heard = now
	}
}

// Closed says that one stream of the row is gone.
func (l *List) Closed(now time.Time, id RowID) {
	if r := l.rows[id]; r != nil && r.streams > 0 {
		r.streams--
		r.heard = now
	}
}

// Challenge returns the challenge that a pending answer to the row carries.
func (l *List) Challenge(id RowID) ([32]byte, bool) {
	if r := l.rows[id]; r != nil && r.Decision == Waiting {
		return r.challenge, true
	}
	return [32]byte{}, false
}

// Tick forgets what is over. expired are the rows that went unheard; repeat are the waiting rows whose open streams are
// due the signed pending answer again, with Challenge.
func (l *List) Tick(now time.Time) (expired, repeat []RowID) {
	expired = l.expire(now)
	for _, r := range l.sorted() {
		if r.Decision == Waiting && r.streams > 0 && now.Sub(r.answered) >= RepeatEvery {
			r.answered = now
			repeat = append(repeat, r.RowID())
		}
	}
	return expired, repeat
}

// Next returns when Tick is wanted at the latest.
func (l *List) Next(now time.Time) time.Time {
	next := now.Add(RepeatEvery)
	at := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if l.armed {
		at(l.until)
	}
	for _, r := range l.rows {
		switch {
		case r.Decision != Waiting:
			at(r.decided.Add(DecidedFor))
		case r.streams > 0:
			at(r.answered.Add(RepeatEvery))
		default:
			at(r.heard.Add(UnheardFor))
		}
	}
	if next.Before(now) {
		return now
	}
	return next
}

// Rows returns the list in a steady order: waiting ones first, then by age, the oldest first.
func (l *List) Rows(now time.Time) []Row {
	l.expire(now)
	var out []Row
	for _, r := range l.sorted() {
		shown := r.Row
		shown.Age, shown.Heard = now.Sub(r.first), now.Sub(r.heard)
		if r.streams > 0 {
			shown.Heard = 0
		}
		if !r.ArmedAt.IsZero() {
			shown.ArmedAgo = now.Sub(r.ArmedAt)
		}
		out = append(out, shown)
	}
	return out
}

func (l *List) sorted() []*row {
	out := make([]*row, 0, len(l.rows))
	for _, r := range l.rows {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *row) int {
		return cmp.Or(cmp.Compare(min(a.Decision, 2), min(b.Decision, 2)), a.first.Compare(b.first),
			strings.Compare(a.ID, b.ID), slices.Compare(a.Key[:], b.Key[:]))
	})
	return out
}

// decide takes a row out of the waiting ones; of too many rejected, or too many approved, the oldest goes.
func (l *List) decide(now time.Time, r *row, d Decision) {
	r.Decision, r.decided = d, now
	rejected := d == RejectedByHand
	var same []*row
	for _, other := range l.sorted() {
		if other.Decision != Waiting && (other.Decision == RejectedByHand) == rejected {
			same = append(same, other)
		}
	}
	slices.SortStableFunc(same, func(a, b *row) int { return a.decided.Compare(b.decided) })
	for len(same) > MaxDecided {
		delete(l.rows, same[0].RowID())
		same = same[1:]
	}
}

func (l *List) expire(now time.Time) (expired []RowID) {
	if l.armed && !now.Before(l.until) {
		l.armed = false
	}
	for _, r := range l.sorted() {
		switch {
		case r.Decision != Waiting && now.Sub(r.decided) >= DecidedFor:
			delete(l.rows, r.RowID())
		case r.Decision == Waiting && r.streams == 0 && now.Sub(r.heard) >= UnheardFor:
			delete(l.rows, r.RowID())
			l.counts[CountRequestsExpired]++
			expired = append(expired, r.RowID())
		}
	}
	return expired
}
