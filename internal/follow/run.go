package follow

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Dial opens a stream to a voter. It must check that the session is under the voter's key, and end when ctx does.
type Dial func(ctx context.Context, voter fleet.Member) (Stream, error)

// Run follows one voter at a time until ctx ends, the learner is closed (both: the context's error), or this machine is
// forgotten (ErrForgotten). It may be called again after it returned.
func (l *Learner) Run(ctx context.Context, dial Dial) error {
	ctx, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer l.end()
	defer l.setStatus(func(s *Status) { s.Following = "" })
	r := runner{l: l, dial: dial, left: map[string]time.Time{}}
	for {
		err := r.round(ctx)
		switch {
		case errors.Is(err, ErrForgotten):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// runner is what one Run remembers between voters.
type runner struct {
	l        *Learner
	dial     Dial
	queue    []fleet.Member       // still to be tried in this round
	last     string               // followed last
	again    *fleet.Member        // to be asked once more, for a snapshot
	left     map[string]time.Time // voters that knew no leader, and when they were left
	whole    bool                 // the next request asks for a snapshot
	failures int
	begun    bool
	saying   saying
}

// round waits, dials one voter and follows it to the end.
func (r *runner) round(ctx context.Context) error {
	wait := backoff(max(0, r.failures-1), r.l.cfg.Rand())
	switch {
	case !r.begun:
		wait = 0
	case r.again != nil:
		wait = time.Duration(r.l.cfg.Rand() * float64(snapshotSpread))
	}
	r.begun = true
	if err := sleep(ctx, wait); err != nil {
		return err
	}
	r.saying.tell(r.l.cfg.Logger, time.Now())
	voter, ok := r.next()
	if !ok {
		r.failures++
		return errNotVoter
	}
	s := &session{r: r, l: r.l, voter: voter, epoch: r.l.epoch()}
	err := s.follow(ctx)
	r.judge(ctx, voter, s, err)
	return err
}

// next returns whom to dial.
func (r *runner) next() (fleet.Member, bool) {
	if v := r.again; v != nil {
		r.again = nil
		return *v, true
	}
	for {
		if len(r.queue) == 0 {
			if r.queue = order(r.l.Voters(), r.l.Status().LeaderID, r.last, r.l.cfg.Rand); len(r.queue) == 0 {
				return fleet.Member{}, false
			}
		}
		v := r.queue[0]
		r.queue = r.queue[1:]
		if r.l.isVoter(v) {
			return v, true
		}
	}
}

// isVoter reports whether the voter is one still, under the same key.
func (l *Learner) isVoter(v fleet.Member) bool {
	for _, m := range l.Voters() {
		if m.ID == v.ID {
			return m.Key == v.Key
		}
	}
	return false
}

// judge decides what the end of a session means for the next one.
func (r *runner) judge(ctx context.Context, voter fleet.Member, s *session, err error) {
	l := r.l
	if s.healthy {
		r.failures, r.queue = 0, nil
	}
	if errors.Is(err, errLeaderless) {
		r.left[voter.ID] = time.Now()
	}
	r.failures++
	if s.healthy || s.heard {
		r.last = voter.ID
	}
	r.whole = false
	switch {
	case ctx.Err() != nil || errors.Is(err, ErrForgotten):
	case (errors.Is(err, errGap) || errors.Is(err, errDiverged)) && !s.retry:
		// Once at the same voter; if its snapshot does not help, it is a failure like any other.
		r.whole, r.again = true, &voter
		l.cfg.Logger.Info("asking for a snapshot", "voter", voter.ID, "why", err.Error())
	case errors.Is(err, ErrDisk):
		l.cfg.Logger.Error("the followed state could not be written", "err", err.Error())
		l.reopen()
	case errors.Is(err, errEpoch):
		l.reopen() // the entry that changed it may be applied in memory
	}
	text := ""
	if err != nil {
		text = wire.Printable(err.Error())
	}
	l.setStatus(func(st *Status) {
		st.Following, st.Failures, st.LastError = "", r.failures, text
	})
	if ctx.Err() == nil && r.failures == 1 {
		r.saying.change(l.cfg.Logger, time.Now(), voter.ID, false, text)
	}
}

// reopen goes back to what is on disk after a failed write. Where that does not read either, the state in memory stays
// and the next write fails again.
func (l *Learner) reopen() {
	was := l.View()
	l.store.close()
	if err := l.open(); err != nil {
		l.cfg.Logger.Error("the followed state does not read after a failed write", "err", err.Error())
		return
	}
	if v := l.View(); v.Revision() != was.Revision() {
		l.publish(wholeEntry(was, v)) // a snapshot was in place before the write failed
	}
}

// elsewhere reports whether another voter may know the leader that this one does not: one that was not left for the same
// reason a moment ago. A fleet in an election is not gone round and round in.
func (r *runner) elsewhere(voter string, now time.Time) bool {
	for _, m := range r.l.Voters() {
		at, left := r.left[m.ID]
		if m.ID != voter && (!left || now.Sub(at) >= leaderlessMemory) {
			return true
		}
	}
	return false
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// received is one push, or the end.
type received struct {
	bytes []byte
	err   error
}

// read receives into a channel until an error or until done closes.
func read(st Stream, done <-chan struct{}) <-chan received {
	ch := make(chan received, batchEntries)
	go func() {
		defer close(ch)
		for {
			b, err := st.Recv()
			select {
			case ch <- received{b, err}:
			case <-done:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return ch
}

// refused tells what an error frame means.
func (l *Learner) refused(voter fleet.Member, e *wire.Error) error {
	if l.cfg.OnRefused != nil {
		l.cfg.OnRefused(voter.ID, e)
	}
	switch e.Code {
	case wire.CodeRevoked:
		// The voter's word counts as the entry; its text says at which revision, as a number or in a sentence.
		return l.forgotten(number(e.Text), true)
	case wire.CodeNewerFormat:
		l.freeze(e)
	}
	return e
}

// number returns the first number of a text, 0 where there is none.
func number(s string) uint64 {
	from := strings.IndexAny(s, "0123456789")
	if from < 0 {
		return 0
	}
	to := from
	for to < len(s) && s[to] >= '0' && s[to] <= '9' {
		to++
	}
	n, err := strconv.ParseUint(s[from:to], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (l *Learner) forgotten(revision uint64, revoked bool) error {
	l.cfg.Logger.Warn("this machine is a member of its fleet no more", "fleet", l.cfg.Cluster, "revision", revision, "key-revoked", revoked)
	if l.cfg.OnForgotten != nil {
		l.cfg.OnForgotten(revision, revoked)
	}
	return ErrForgotten
}

// freeze stops applying, for good in this process: what is applied stays.
func (l *Learner) freeze(err error) {
	if l.Status().Frozen {
		return
	}
	l.setStatus(func(s *Status) { s.Frozen = true })
	l.cfg.Logger.Warn("the fleet writes a later format; this machine keeps what it has until it is upgraded", "err", err.Error())
	if l.cfg.OnFormatNewer != nil {
		l.cfg.OnFormatNewer(err)
	}
}

// keyed is what a stream may also tell.
type keyed interface{ PeerKey() identity.PublicKey }
