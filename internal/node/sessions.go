package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/follow"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/provision"
	"pace-node/internal/version"
	"pace-node/internal/wire"
)

// callTimeout bounds a short call to another machine.
const callTimeout = 10 * time.Second

// peerOf is a session in the words of the verbs.
func peerOf(s *netio.Session) control.Peer {
	p := control.Peer{Key: s.Peer(), Addr: s.RemoteAddr(), Session: s}
	if h, _, ok := s.Hello(); ok {
		p.ID = h.ID
	}
	return p
}

// ServeStream implements netio.Handler.
func (n *Node) ServeStream(ctx context.Context, s *netio.Session, stream net.Conn) {
	n.server.ServeStream(ctx, peerOf(s), stream)
}

// SessionOpened implements netio.Handler.
func (n *Node) SessionOpened(s *netio.Session) {
	n.log.Debug("session opened", "from", s.RemoteAddr().String(), "key", s.Peer().String(), "inbound", s.Inbound())
}

// SessionClosed implements netio.Handler.
func (n *Node) SessionClosed(s *netio.Session, why error) {
	n.server.SessionClosed(s)
	if m, ok := n.view.Load().ByKey(s.Peer()); ok {
		n.post(func(now time.Time) {
			if _, still := n.view.Load().Member(m.ID); still {
				n.lastHeard[m.ID] = now
			}
		})
	}
	n.log.Debug("session closed", "from", s.RemoteAddr().String(), "key", s.Peer().String(), "why", why)
}

// heardOf is when a member was last heard: now, where it has a session; zero where it never was. The loop's.
func (n *Node) heardOf(now time.Time, m fleet.Member) time.Time {
	if m.ID == n.id || n.hub.ByKey(m.Key) != nil {
		return now
	}
	at := n.lastHeard[m.ID]
	if n.port != nil {
		for _, p := range n.exchange.Authenticated(now) {
			if p.ID == m.ID && p.LastBeacon.After(at) {
				at = p.LastBeacon
			}
		}
	}
	return at
}

// known is who is bounded by the roster or the waiting list instead of the strangers' bounds.
func (n *Node) known(key identity.PublicKey) bool {
	if v := n.view.Load(); v != nil {
		if _, ok := v.ByKey(key); ok || v.PreApprovedKey(key) {
			return true
		}
	}
	if keys := n.rowKeys.Load(); keys != nil {
		return (*keys)[key]
	}
	return false
}

func (n *Node) member(key identity.PublicKey) bool {
	v := n.view.Load()
	if v == nil {
		return false
	}
	_, ok := v.ByKey(key)
	return ok
}

// memberSession is a session with a member by its roster key, opened if there is none and an endpoint of it is known. Its
// endpoints are tried in turn, each for a dial's time as long as another one is left.
func (n *Node) memberSession(ctx context.Context, m fleet.Member, endpoints []string) (*netio.Session, error) {
	if s := n.hub.ByKey(m.Key); s != nil && len(endpoints) == 0 {
		return s, nil
	}
	// Also where there is one: while it is being opened this machine has not said yet who it is.
	last := errors.New("no endpoint of it is known")
	for i, e := range endpoints {
		dial, cancel := ctx, context.CancelFunc(func() {})
		if i < len(endpoints)-1 {
			dial, cancel = context.WithTimeout(ctx, formation.DialTimeout)
		}
		s, err := n.hub.Connect(dial, e, m.Key, n.hello)
		cancel()
		if err == nil {
			if d := s.Dialed(); d != "" && n.voterDials.reached(m.Key, d) { // another goroutine may have dialled it
				n.post(n.remember)
			}
			return s, nil
		}
		last = err
	}
	return nil, last
}

// voterSession is a session with a voter on which this machine has said who it is as a member of the fleet.
func (n *Node) voterSession(ctx context.Context, m fleet.Member) (*netio.Session, error) {
	var endpoints []string
	if err := n.ask(ctx, func(now time.Time) { endpoints = n.memberEndpoints(now, m) }); err != nil {
		return nil, err
	}
	s, err := n.memberSession(ctx, m, endpoints)
	if err != nil {
		return nil, err
	}
	if n.approvedOn.CompareAndSwap(s, nil) {
		// What it said on this session it said as a machine of another fleet.
		if err := n.hello(ctx, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// dialVoter opens the learner's stream to one voter, and says there what this machine is.
func (n *Node) dialVoter(ctx context.Context, m fleet.Member) (follow.Stream, error) {
	s, err := n.voterSession(ctx, m)
	if err != nil {
		return nil, err
	}
	// No stream crosses recovery epochs: what a voter of another one commits, or says of this machine, is not this fleet's.
	if err := n.ourWord(ctx, s); err != nil {
		return nil, err
	}
	n.post(func(now time.Time) { n.announceTo(now, s) })
	return &followStream{n: n, s: s, ctx: ctx}, nil
}

// reachVoter keeps a session with a voter that is not followed, and asks where it stands. What this machine is it says once
// a session: should that voter lead tomorrow, it knows.
func (n *Node) reachVoter(ctx context.Context, m fleet.Member) (follow.Position, <-chan struct{}, error) {
	before := n.hub.ByKey(m.Key)
	s, err := n.voterSession(ctx, m)
	if err != nil {
		return follow.Position{}, nil, err
	}
	if s == before {
		if err := n.hello(ctx, s); err != nil {
			if !errors.Is(ctx.Err(), context.Canceled) {
				s.Close(err) // it hangs: the next ask opens another
			}
			return follow.Position{}, nil, err
		}
	} else {
		n.post(func(now time.Time) { n.announceTo(now, s) })
	}
	h, _, _ := s.Hello()
	return follow.Position{Epoch: h.Epoch, Revision: h.Revision}, s.Done(), nil
}

// followStream is Follow over a session.
type followStream struct {
	n     *Node
	s     *netio.Session
	ctx   context.Context
	next  func() ([]byte, error)
	close func()
}

// Send implements follow.Stream.
func (f *followStream) Send(req wire.FollowRequest) error {
	b, err := json.Marshal(req)
	if err != nil {
		return err
	}
	_, next, done, err := netio.Subscribe(f.ctx, f.s, wire.VerbFollow, b)
	if err != nil {
		return err
	}
	f.next, f.close = next, done
	return nil
}

// Recv implements follow.Stream.
func (f *followStream) Recv() ([]byte, error) { return f.next() }

// Close implements follow.Stream.
func (f *followStream) Close() error {
	if f.close != nil {
		f.close()
	}
	return nil
}

// announcement is what this machine says of itself to its fleet.
func (n *Node) announcement() wire.Announce {
	wants, why := n.wants(n.target.Wants())
	boot := n.target.BootID()
	return wire.Announce{
		Name: n.name, Labels: n.cfg.Settings.Labels, Platform: version.Platform(), Version: version.Version, Format: fleet.Format,
		Endpoints: wire.Endpoints{FC: n.fcEndpoint(), Raft: n.endpoint(n.consensusPort())}, Component: n.target.Component(), BootID: hexText(boot[:]), Sequence: n.target.Sequence(),
		ConfigDigest: n.target.Digest(), Wants: wants, WantsWhy: why, Provisions: n.provisions.Load(),
	}
}

// announce tells the fleet what this machine says of itself: to the leader over the session that is followed, or, on the
// leader, by a command of its own.
func (n *Node) announce(now time.Time) {
	if n.body == nil {
		return
	}
	if n.body.leads() {
		n.recordAnnounce(n.id, n.announcement())
		return
	}
	for _, s := range n.voterSessions() {
		n.announceTo(now, s)
	}
}

func (n *Node) voterSessions() []*netio.Session {
	var out []*netio.Session
	v := n.view.Load()
	if v == nil {
		return nil
	}
	for _, m := range v.Voters() {
		if s := n.hub.ByKey(m.Key); s != nil {
			out = append(out, s)
		}
	}
	return out
}

// announceTo says it on one session, after whatever is being said there: two at once might be committed in either order. One
// that waits its turn says what is true by then, so there is never more than one.
func (n *Node) announceTo(_ time.Time, s *netio.Session) {
	if _, waits := n.toSay.LoadOrStore(s.ID(), true); waits {
		n.tellStarts()
		return
	}
	n.says.put(strconv.FormatUint(s.ID(), 10), func(ctx context.Context) {
		n.toSay.Delete(s.ID())
		a := n.announcement()
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		b, err := json.Marshal(a)
		if err == nil {
			_, err = netio.Call(call, s, wire.VerbAnnounce, b)
		}
		if err != nil {
			n.log.Debug("announcement not taken", "to", s.RemoteAddr().String(), "error", err.Error())
		}
	})
	n.tellStarts()
}

// tellStarts tells this start to the voters whose sessions have not heard it, where this machine wants provisioning. Not
// before it has applied the fleet's state and knows who leads: until then it would refuse the leader that comes to work.
func (n *Node) tellStarts() {
	b := n.body
	if b == nil || b.leads() || b.view().Cluster() == "" || n.leader().key.IsZero() {
		return
	}
	var untold []*netio.Session
	told := map[*netio.Session]bool{} // of those that are still open
	for _, s := range n.voterSessions() {
		if told[s] = n.toldOn[s]; !told[s] {
			untold = append(untold, s)
		}
	}
	n.toldOn = told
	if len(untold) == 0 {
		return
	}
	if wants, _ := n.wants(n.target.Wants()); !wants {
		return
	}
	for _, s := range untold {
		told[s] = true
		n.effect(func(ctx context.Context) { n.tellStartup(ctx, s) })
	}
}

// errCloned: which of the two is the machine that was admitted, nobody can tell from here.
var errCloned = errors.New("two live machines answer under its key, so neither is provisioned")

// callMember is one request to a member's session; this machine itself is called in process.
func (n *Node) callMember(ctx context.Context, id string, verb wire.Verb, payload, reply any) error {
	if id == n.id {
		return n.callSelf(ctx, verb, payload, reply)
	}
	v := n.view.Load()
	m, ok := v.Member(id)
	if !ok {
		return fmt.Errorf("%w: it is no member", provision.ErrUnreachable)
	}
	s := n.hub.ByKey(m.Key)
	if s == nil {
		return fmt.Errorf("%w: it has no session", provision.ErrUnreachable)
	}
	if s.Duplicate() {
		return fmt.Errorf("%w: %w", provision.ErrUnreachable, errCloned)
	}
	b := []byte(nil)
	if payload != nil {
		var err error
		if b, err = json.Marshal(payload); err != nil {
			return err
		}
	}
	out, err := netio.Call(ctx, s, verb, b)
	if err != nil {
		var refused *wire.Error
		if errors.As(err, &refused) || ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("%w: %v", provision.ErrUnreachable, err)
	}
	if reply == nil {
		return nil
	}
	return json.Unmarshal(out, reply)
}

// callSelf is the same to this machine.
func (n *Node) callSelf(ctx context.Context, verb wire.Verb, payload, reply any) error {
	self := control.Peer{Key: n.key.Public(), ID: n.id}
	var ans any
	var err error
	switch verb {
	case wire.VerbQuery:
		ans, err = n.Query(ctx, self)
	case wire.VerbWork:
		req, ok := payload.(wire.WorkRequest)
		if !ok {
			return errors.New("work without a step")
		}
		// A step that has begun comes to its own end; whoever gives it up does not wait for that.
		type worked struct {
			answer wire.WorkAnswer
			err    error
		}
		done := make(chan worked, 1)
		n.serving0.Go(func() { a, err := n.Work(ctx, self, req); done <- worked{a, err} })
		select {
		case w := <-done:
			ans, err = w.answer, w.err
		case <-ctx.Done():
			return ctx.Err()
		}
	default:
		return errors.New("not a verb that a machine asks itself")
	}
	if err != nil || reply == nil {
		return err
	}
	b, err := json.Marshal(ans)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, reply)
}
