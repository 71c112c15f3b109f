package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/statedir"
	"pace-node/internal/version"
	"pace-node/internal/wire"
)

// askTimeout bounds opening an ask: dial, handshake, Hello and the first answer.
const askTimeout = 10 * time.Second

// askSummary fetches a fleet summary with a fresh nonce and feeds what it proved, or that it failed.
func (n *Node) askSummary(ctx context.Context, a formation.Action) {
	ctx, cancel := context.WithTimeout(ctx, formation.DialTimeout)
	defer cancel()
	var want *identity.PublicKey
	if !a.RequireKey.IsZero() {
		want = &a.RequireKey
	}
	f, err := n.fetchSummary(ctx, a.Endpoint, want, a.Origin)
	n.post(func(now time.Time) {
		if err != nil {
			e := formation.Event{Kind: formation.EvSummaryFailed, Endpoint: a.Endpoint, Err: err.Error()}
			var other *netio.PeerKeyError
			if errors.As(err, &other) {
				e.From = other.Got
			}
			n.step(now, e)
			return
		}
		n.step(now, formation.Event{Kind: formation.EvProven, Fleet: f, Endpoint: a.Endpoint})
	})
}

func (n *Node) fetchSummary(ctx context.Context, endpoint string, want *identity.PublicKey, origin formation.Origin) (formation.Fleet, error) {
	s, err := n.hub.Dial(ctx, endpoint, want)
	if err != nil {
		return formation.Fleet{}, err
	}
	defer s.Close(errReleased)
	return n.summaryOver(ctx, s, origin)
}

// summaryOver asks a session's peer for its signed summary and verifies it: under the nonce of this ask, and under the
// key of the session.
func (n *Node) summaryOver(ctx context.Context, s *netio.Session, origin formation.Origin) (formation.Fleet, error) {
	var nonce [32]byte
	n.cfg.Entropy(nonce[:])
	reply, err := netio.Call(ctx, s, wire.VerbFleetSummary, wire.AppendField(nil, nonce[:]))
	if err != nil {
		return formation.Fleet{}, err
	}
	ans, err := wire.DecodeFleetSummaryAnswer(reply)
	if err != nil {
		return formation.Fleet{}, fmt.Errorf("the fleet summary does not read: %w", err)
	}
	key := identity.PublicKey(ans.Key)
	if key != s.Peer() {
		return formation.Fleet{}, errors.New("the fleet summary is signed by another key than the connection's")
	}
	if !identity.Verify(key, wire.FleetSummaryMessage(nonce, ans.Raw, ans.Key), ans.Signature) {
		return formation.Fleet{}, errors.New("the fleet summary's signature does not verify")
	}
	f := formation.FleetOf(&ans.Summary, key, origin, s.RemoteAddr())
	f.Evidence = n.evidenceOf(f.Speaker, key)
	return f, nil
}

var errReleased = errors.New("done with it")

// asking is the joiner's side of enrollment at the fleet that formation chose: one ask, in its own goroutine.
type asking struct {
	serial uint64
	cancel context.CancelFunc
	began  time.Time
	last   wire.Outcome
	heard  time.Time // last signed answer
}

func (n *Node) openAsk(now time.Time, a formation.Action) {
	n.closeAsk()
	if r := targetRecord(a.Target); n.rec.Target == nil || !sameTarget(n.rec.Target, r) {
		n.keepRecord(func(rec *statedir.Record) {
			if rec.Target != nil {
				rec.Target = r
			}
		})
	}
	ctx, cancel := context.WithCancel(n.ctx)
	n.asking = &asking{serial: a.Ask, cancel: cancel, began: now}
	n.refreshSelf(now)
	n.effect(func(context.Context) {
		defer cancel()
		err := n.runAsk(ctx, a)
		if ctx.Err() != nil {
			return
		}
		n.post(func(now time.Time) {
			var redirect *wire.Error
			if errors.As(err, &redirect) && redirect.Code == wire.CodeNotLeader {
				n.step(now, formation.Event{Kind: formation.EvRedirect, Ask: a.Ask, Endpoint: redirect.Text})
				return
			}
			text := ""
			if err != nil {
				text = err.Error()
				n.noise.say(now, "ask not answered", "endpoint", control.Word(a.Target.Endpoint), "error", control.Sentence(text))
			}
			var refused *wire.Error
			full := errors.As(err, &refused) && (refused.Code == wire.CodeWaitingListFull || refused.Code == wire.CodeSourceFull)
			n.step(now, formation.Event{Kind: formation.EvAskEnded, Ask: a.Ask, Err: text, Full: full, Spread: n.cfg.Random()})
		})
	})
}

func (n *Node) closeAsk() {
	if n.asking != nil {
		n.asking.cancel()
		n.asking = nil
	}
}

// runAsk opens the ask and feeds each answer until the stream ends.
func (n *Node) runAsk(ctx context.Context, a formation.Action) error {
	first, stop := context.WithTimeout(ctx, askTimeout)
	defer stop()
	s, err := n.dialTarget(first, a.Target)
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if keep {
			n.approvedOn.Store(s)
		} else {
			s.Close(errReleased)
		}
	}()
	if key := s.Peer(); n.pin != nil && !n.pin.Holds(key) { // never asked, nor told who this is
		n.post(func(now time.Time) {
			n.step(now, formation.Event{Kind: formation.EvKeyRefused, Ask: a.Ask, Endpoint: s.RemoteAddr().String(), From: key})
		})
		return fmt.Errorf("%s answers under the key %s, which --fleet-id does not name", s.RemoteAddr(), key)
	}
	if err := n.hello(first, s); err != nil {
		return err
	}
	ask := n.nextAsk(a.Target)
	if key := s.Peer(); !slices.Contains(a.Target.Keys, key) {
		// A redirect's target: its answers count only once its own word proved that it speaks for the fleet that is asked.
		f, err := n.summaryOver(first, s, formation.OriginBeacon)
		if err != nil {
			return err
		}
		if f.Cluster != a.Target.Cluster {
			n.post(func(now time.Time) { n.step(now, formation.Event{Kind: formation.EvProven, Fleet: f}) })
			return fmt.Errorf("%s speaks for another fleet than the one that is asked", s.RemoteAddr())
		}
		if err := ask.AcceptSigner(key); err != nil {
			return err
		}
	}
	req := ask.Request(n.key)
	answer, next, done, err := netio.Subscribe(ctx, s, wire.VerbEnroll, req.Append(nil))
	if err != nil {
		return err
	}
	defer done()
	n.voterDials.reached(s.Peer(), s.Dialed()) // before an approval, which remembers it
	outcome, err := n.readAnswers(a, ask, answer, next)
	keep = outcome == wire.OutcomeApproved
	return err
}

// dialTarget opens a session with the machine that is asked. One on which an approval came that could not be taken yet is
// gone on with: to its leader this machine is a member by now, and a second session of one member is a copy's.
func (n *Node) dialTarget(ctx context.Context, t *formation.Target) (s *netio.Session, err error) {
	if s := n.approvedOn.Swap(nil); s != nil {
		if s.Err() == nil && slices.Contains(t.Keys, s.Peer()) {
			return s, nil
		}
		s.Close(errReleased)
	}
	for _, endpoint := range []string{t.Endpoint, t.Fallback} {
		if endpoint == "" {
			continue
		}
		dial, cancel := context.WithTimeout(ctx, formation.DialTimeout)
		s, err = n.hub.Dial(dial, endpoint, nil)
		cancel()
		if err == nil {
			return s, nil
		}
	}
	return nil, err
}

// nextAsk goes on from the last ask of the same fleet, whose challenge refreshes the row.
func (n *Node) nextAsk(t *formation.Target) *enroll.Ask {
	var nonce [32]byte
	n.cfg.Entropy(nonce[:])
	n.askMu.Lock()
	defer n.askMu.Unlock()
	if n.lastAsk != nil && n.lastAskOf == t.Cluster {
		n.lastAsk = n.lastAsk.Again(nonce, n.fcEndpoint())
	} else {
		n.lastAsk = enroll.NewAsk(nil, t.Cluster, n.id, n.key.Public(), n.fcEndpoint(), nonce)
	}
	n.lastAskOf = t.Cluster
	for _, k := range t.Keys {
		if err := n.lastAsk.AcceptSigner(k); err != nil {
			n.log.Debug("signer not accepted", "key", k.String(), "error", err.Error())
		}
	}
	return n.lastAsk
}

// judgeAnswer takes an answer to an ask. An ask that was closed may still be reading while the next one begins.
func (n *Node) judgeAnswer(ask *enroll.Ask, ans wire.EnrollAnswer) (wire.Outcome, error) {
	n.askMu.Lock()
	defer n.askMu.Unlock()
	return ask.Answer(ans)
}

// readAnswers feeds each answer of one stream, until one decides, which it returns, or the stream ends.
func (n *Node) readAnswers(a formation.Action, ask *enroll.Ask, first []byte, next func() ([]byte, error)) (wire.Outcome, error) {
	payload := first
	for {
		ans, err := wire.DecodeEnrollAnswer(payload)
		if err != nil {
			n.refuseAnswer(a.Ask, err)
			return 0, err
		}
		outcome, err := n.judgeAnswer(ask, ans)
		if err != nil {
			n.refuseAnswer(a.Ask, err)
			return 0, err
		}
		roster := ans.Roster
		signer := identity.PublicKey(ans.Signer)
		n.post(func(now time.Time) {
			if n.asking != nil && n.asking.serial == a.Ask {
				n.asking.last, n.asking.heard = outcome, now
			}
			if outcome == wire.OutcomeApproved {
				n.admittedBy = signer
			}
			n.step(now, formation.Event{Kind: formation.EvAnswer, Ask: a.Ask, Cluster: a.Target.Cluster, Outcome: outcome, From: signer, Roster: roster})
		})
		if outcome != wire.OutcomePending {
			return outcome, nil
		}
		if payload, err = next(); err != nil {
			return 0, err
		}
	}
}

func (n *Node) refuseAnswer(serial uint64, err error) {
	n.post(func(now time.Time) {
		n.step(now, formation.Event{Kind: formation.EvAnswerRefused, Ask: serial, Err: err.Error()})
	})
}

// hello tells the peer of a session who this is, and keeps what it answers.
func (n *Node) hello(ctx context.Context, s *netio.Session) error {
	own := n.ownHello()
	if v := n.view.Load(); v != nil && n.member(s.Peer()) {
		own.Revision = v.Revision()
	}
	b, err := json.Marshal(own)
	if err != nil {
		return err
	}
	sent := time.Now()
	reply, err := netio.Call(ctx, s, wire.VerbHello, b)
	if err != nil {
		for _, m := range n.askedVoters() {
			if m.Key == s.Peer() {
				n.toldDissolved(m.ID, err)
			}
		}
		return err
	}
	h, err := wire.DecodeDocument[wire.Hello](reply)
	if err != nil {
		return err
	}
	s.SetHello(h, sent)
	n.post(func(now time.Time) { n.heardElsewhere(now, s.Peer(), h, s.RemoteAddr().String()) })
	return nil
}

func (n *Node) ownHello() wire.Hello {
	h := wire.Hello{ID: n.id, Name: n.name, Platform: version.Platform(), Version: version.Version, Wire: []int{wire.ProtocolVersion},
		Format: fleet.Format, Endpoints: n.endpoints(), ClockMS: time.Now().UnixMilli()}
	if v := n.view.Load(); v != nil {
		h.Cluster, h.Epoch = v.Cluster(), v.Epoch()
	}
	if b := n.serving.Load(); b != nil {
		h.Cluster, h.Epoch = b.cluster, b.recoveryEpoch() // a new learner has no state yet
	}
	return h
}
