package follow

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/wire"
)

// session is one stream with one voter.
type session struct {
	r     *runner
	l     *Learner
	voter fleet.Member
	epoch uint64

	retry   bool // this request asked for a snapshot because of a gap
	heard   bool // something came
	healthy bool // the voter knows a leader, or sent state
	chunks  gather
	batch   []Entry // applied in memory, not yet durable
	records []byte
	firstLL time.Time // of the leaderless heartbeats in a row
}

// follow asks, and takes pushes until the stream ends or the voter is no longer worth following. It always returns why.
func (s *session) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The stream may live by the context it was dialled with, so that only a dial that takes too long ends it.
	late := time.AfterFunc(SilenceLimit, cancel)
	st, err := s.open(ctx)
	if !late.Stop() && err == nil {
		st.Close()
		err = errSilent
	}
	if err != nil {
		return s.why(err)
	}
	done := make(chan struct{})
	pushes := read(st, done)
	defer func() {
		cancel()
		close(done)
		st.Close()
		for range pushes { // until the reader is gone
		}
	}()
	silence := time.NewTimer(SilenceLimit)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-silence.C:
			return errSilent
		case p := <-pushes:
			silence.Reset(SilenceLimit)
			if err := s.takeAll(p, pushes); err != nil {
				return err
			}
		}
	}
}

// open dials, checks whose session it is, and asks.
func (s *session) open(ctx context.Context) (Stream, error) {
	st, err := s.r.dial(ctx, s.voter)
	if err != nil {
		return nil, err
	}
	if k, ok := st.(keyed); ok && k.PeerKey() != s.voter.Key {
		st.Close()
		return nil, errKey
	}
	if err := st.Send(s.request()); err != nil {
		st.Close()
		return nil, err
	}
	return st, nil
}

// request says where this machine is. Revision 0 asks for the whole state: a learner without one has nothing to go on from.
func (s *session) request() wire.FollowRequest {
	v := s.l.View()
	if s.retry = s.r.whole; s.retry || v.Cluster() == "" {
		return wire.FollowRequest{Epoch: s.epoch}
	}
	d := v.Digest()
	return wire.FollowRequest{Epoch: s.epoch, Revision: v.Revision(), Digest: hex.EncodeToString(d[:])}
}

// takeAll takes a push and those that have come meanwhile, and makes them durable together.
func (s *session) takeAll(p received, more <-chan received) error {
	for {
		err := s.take(p)
		if err == nil && len(s.batch) < batchEntries {
			select {
			case p = <-more:
				continue
			default:
			}
		}
		// What was sound before the end is kept.
		if cerr := s.commit(); cerr != nil {
			return cerr
		}
		if err == nil && !s.l.isVoter(s.voter) {
			err = errNotVoter
		}
		return err
	}
}

// why turns an error of the stream into its meaning.
func (s *session) why(err error) error {
	var e *wire.Error
	if errors.As(err, &e) {
		return s.l.refused(s.voter, e)
	}
	return err
}

// take carries one push into memory.
func (s *session) take(p received) error {
	if p.err != nil {
		return s.why(p.err)
	}
	kind, err := wire.ReadPushKind(p.bytes)
	if err != nil {
		return errMalformed
	}
	now := time.Now()
	if !s.heard && s.r.last != "" && s.r.last != s.voter.ID {
		s.l.switches.Add(1) // before the status shows it: who sees the other voter finds it counted
	}
	s.l.setStatus(func(st *Status) {
		st.Heard = now
		if !s.heard {
			st.Following, st.Since = s.voter.ID, now
		}
	})
	if !s.heard {
		s.heard = true
		s.r.saying.change(s.l.cfg.Logger, now, s.voter.ID, true, "")
	}
	s.r.saying.tell(s.l.cfg.Logger, now)
	switch kind {
	case wire.PushHeartbeat:
		return s.heartbeat(p.bytes, now)
	case wire.PushCommand:
		return s.command(p.bytes)
	default:
		return s.chunk(p.bytes)
	}
}

func (s *session) otherEpoch(epoch uint64) error {
	if s.l.cfg.OnOtherEpoch != nil {
		s.l.cfg.OnOtherEpoch(s.voter.ID, epoch)
	}
	return errEpoch
}

func (s *session) heartbeat(b []byte, now time.Time) error {
	l := s.l
	h, err := wire.DecodeHeartbeat(b)
	switch {
	case err != nil:
		return errMalformed
	case h.Cluster != l.cfg.Cluster:
		return errCluster
	case h.Epoch != s.epoch:
		return s.otherEpoch(h.Epoch)
	}
	silent := time.Duration(min(h.SilentMS, uint64(24*time.Hour/time.Millisecond))) * time.Millisecond
	l.mu.Lock()
	l.clock = clock{wall: time.UnixMilli(int64(min(h.WallMS, 1<<62))), at: now, ok: true}
	l.status.Term, l.status.VoterRevision, l.status.LeaderSilent = h.Term, h.Revision, silent
	other := h.LeaderID != "" && (h.LeaderID != l.status.LeaderID || h.LeaderEndpoint != l.status.LeaderEndpoint)
	if other {
		l.status.LeaderID, l.status.LeaderEndpoint = h.LeaderID, h.LeaderEndpoint
	}
	l.mu.Unlock()
	if other && l.cfg.OnLeader != nil {
		l.cfg.OnLeader()
	}
	// Only a voter that hears its leader confirms a term: a lone one raises its own in vain.
	if led := h.LeaderID != "" && silent < SilenceLimit; led {
		s.healthy, s.firstLL = true, time.Time{}
		clear(s.r.left)
		if err := l.confirm(term{h.Epoch, h.Term}); err != nil {
			return err
		}
	} else if s.firstLL.IsZero() {
		s.firstLL = now
	}
	leaderless := silent >= SilenceLimit || !s.firstLL.IsZero() && now.Sub(s.firstLL) >= SilenceLimit
	switch {
	case leaderless && s.r.elsewhere(s.voter.ID, now):
		return errLeaderless
	case l.overtaken(s.voter.ID, h.Epoch, h.Revision, now):
		return errOvertaken
	}
	return nil
}

// confirm remembers a term that a followed heartbeat confirmed, once it is the highest.
func (l *Learner) confirm(t term) error {
	if t.term <= l.HighestTerm() {
		return nil
	}
	if err := l.store.setTerm(t); err != nil {
		return err
	}
	l.mu.Lock()
	l.term = t
	l.mu.Unlock()
	return nil
}

func (s *session) command(b []byte) error {
	l := s.l
	if l.Status().Frozen {
		return nil
	}
	c, err := wire.DecodeCommandPush(b)
	if err != nil {
		return errMalformed
	}
	if c.Epoch != s.epoch {
		return s.otherEpoch(c.Epoch)
	}
	cmd := c.Bytes
	if len(cmd) == 0 {
		cmd = fleet.EmptyCommand(1)
	}
	at := l.state.View().Revision()
	if l.state.View().Cluster() == "" || c.Prev != at || c.Revision != at+1 {
		return errGap
	}
	res, err := l.state.Apply(cmd)
	switch {
	case errors.Is(err, fleet.ErrFormatNewer):
		l.freeze(err)
		return nil
	case err != nil:
		return fmt.Errorf("%w: %v", errDiverged, err)
	}
	if epoch := l.state.View().Epoch(); epoch != s.epoch {
		return s.otherEpoch(epoch) // a recovery is taken by an operator's word only
	}
	s.healthy = true
	s.batch = append(s.batch, Entry{Prev: c.Prev, Revision: c.Revision, Command: cmd, View: l.state.View(), Result: res})
	s.records = appendCommandRecord(s.records, s.epoch, c.Prev, c.Revision, cmd)
	return nil
}

// commit makes what was taken durable and then shows it.
func (s *session) commit() error {
	l := s.l
	if len(s.batch) == 0 {
		return nil
	}
	batch, records := s.batch, s.records
	s.batch, s.records = nil, s.records[:0]
	if err := l.store.append(records, len(batch)); err != nil {
		return err
	}
	for _, e := range batch {
		l.entries.Add(1)
		l.publish(e)
		if e.Result.Forgot == l.cfg.Self || !l.holdsSelf(e.View) {
			return l.forgotten(e.Revision, l.revoked(e.View))
		}
	}
	// What is applied in memory and was not taken is not to be written.
	if l.store.full() && l.state.View() == l.View() {
		return l.store.install(l.state.Snapshot())
	}
	return nil
}

// revoked reports whether this machine's key is revoked in a state that holds it no more.
func (l *Learner) revoked(v *fleet.View) bool {
	_, revoked := v.Revoked(l.cfg.Key)
	return revoked
}

// holdsSelf reports whether this machine is in the roster, under its own key.
func (l *Learner) holdsSelf(v *fleet.View) bool {
	m, ok := v.Member(l.cfg.Self)
	return ok && (l.cfg.Key.IsZero() || m.Key == l.cfg.Key)
}

func (s *session) chunk(b []byte) error {
	l := s.l
	if l.Status().Frozen {
		return nil
	}
	c, err := wire.DecodeSnapshotChunk(b)
	if err != nil {
		return errMalformed
	}
	if c.Epoch != s.epoch {
		return s.otherEpoch(c.Epoch)
	}
	whole, err := s.chunks.add(&c)
	if err != nil || whole == nil {
		return err
	}
	if err := s.commit(); err != nil {
		return err
	}
	return s.install(whole, c.Revision)
}

// install puts a whole snapshot in the state's place. An older one never replaces a newer state, and neither does one of
// before this machine's admission.
func (s *session) install(snapshot []byte, revision uint64) error {
	l := s.l
	state, err := fleet.Restore(snapshot)
	switch {
	case errors.Is(err, fleet.ErrFormatNewer):
		l.freeze(err)
		return nil
	case err != nil:
		return fmt.Errorf("%w: %v", errMalformed, err)
	}
	v, was := state.View(), l.state.View()
	switch {
	case v.Cluster() != l.cfg.Cluster:
		return errCluster
	case v.Epoch() != s.epoch || v.Revision() != revision:
		return errMalformed
	case fleet.ComparePosition(v.Epoch(), v.Revision(), was.Epoch(), was.Revision()) < 0, v.Revision() < l.seed.Revision && v.Epoch() == l.seed.Epoch:
		return errOlder
	}
	if err := l.store.install(snapshot); err != nil {
		return err
	}
	l.state = state
	l.snapshots.Add(1)
	s.healthy = true
	l.publish(wholeEntry(was, v))
	l.cfg.Logger.Info("the fleet's state is applied", "voter", s.voter.ID, "revision", v.Revision(), "bytes", len(snapshot))
	if !l.holdsSelf(v) {
		return l.forgotten(v.Revision(), l.revoked(v))
	}
	return nil
}

// wholeEntry tells that one state took another's place.
func wholeEntry(was, v *fleet.View) Entry {
	return Entry{Prev: was.Revision(), Revision: v.Revision(), View: v, Result: fleet.Result{Revision: v.Revision(), Changed: ^fleet.Changed(0)}}
}

// gather collects the numbered chunks of one snapshot. It holds what has come, and believes no count.
type gather struct {
	next, count     uint32
	epoch, revision uint64
	digest          [32]byte
	bytes           []byte
}

// add takes the next chunk, and returns the snapshot with the last one.
func (g *gather) add(c *wire.SnapshotChunk) ([]byte, error) {
	if c.Index == 0 {
		*g = gather{count: c.Count, epoch: c.Epoch, revision: c.Revision, digest: c.Digest}
	}
	if c.Index != g.next || c.Count != g.count || c.Epoch != g.epoch || c.Revision != g.revision || c.Digest != g.digest {
		return nil, errMalformed
	}
	if len(g.bytes)+len(c.Bytes) > fleet.MaxLearnerSnapshot {
		return nil, fleet.ErrSnapshotSize
	}
	g.bytes = append(g.bytes, c.Bytes...)
	if g.next++; g.next < g.count {
		return nil, nil
	}
	whole := g.bytes
	*g = gather{}
	if sha256.Sum256(whole) != c.Digest {
		return nil, fmt.Errorf("the snapshot's digest differs: %w", errMalformed)
	}
	return whole, nil
}
