package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"pace-node/internal/wire"
)

// Times of a stream.
const (
	// strangerRequestTime: a stranger's request is there within 5 s or the stream
	// ends; the session's own bound is the same.
	strangerRequestTime = 5 * time.Second
	// memberRequestTime leaves a slow link time for a request of 4 MiB.
	memberRequestTime = 60 * time.Second
	// answerTime is for one frame of at most 1 MiB to be taken by the asker.
	answerTime = 30 * time.Second
	// lastWordTime is what a stopping node gives an asker to take its answer.
	lastWordTime = time.Second
	// strangerRequestMost bounds what a key outside the roster may send, bytes.
	strangerRequestMost = 4 << 10
	// localStreams is how many requests of the administrators' socket are served at
	// once, localQueued how many more wait for their turn, for localTurnTime at most.
	localStreams  = 64
	localQueued   = 256
	localTurnTime = 30 * time.Second
	// localSilent is how many connections to that socket may be there without a
	// request. One more displaces the one that has been silent longest, once that
	// is localGrace: whoever asks has asked by then, and whoever says nothing keeps
	// nobody out.
	localSilent = 512
	localGrace  = 250 * time.Millisecond
	// localPerAccount is how many connections to that socket one account may have,
	// with a request or without, that is neither root's nor this process's own:
	// members of group pace-admin. One more displaces its own oldest silent one.
	localPerAccount = 64
)

// Sentinels of this package.
var (
	// ErrStopped: the server was closed.
	ErrStopped = errors.New("control: the server has stopped")
	// ErrInUse: another node answers at the administrators' socket.
	ErrInUse = errors.New("another node already answers there; stop it, or give this one its own --state-dir")
	// ErrNotSocket: something else stands where the administrators' socket belongs.
	ErrNotSocket = errors.New("it is not a socket; move it away, the node makes its own")
	// ErrSocketOwner: the administrators' socket belongs to another account.
	ErrSocketOwner = errors.New("it belongs to an account that is neither root, the service's nor yours; nothing was sent to it")

	errGone = errors.New("the asker has gone")
)

// ServerConfig is what a Server needs.
type ServerConfig struct {
	Backend Backend
	Logger  *slog.Logger // nil: nothing is logged
	Metrics *Metrics     // nil: nothing is counted
}

// Server serves the verbs to peers and to administrators.
type Server struct {
	cfg    ServerConfig
	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	once      map[any]map[wire.Verb]bool // session → verbs of one a connection that it has asked
	closed    bool

	accountOf func(net.Conn) account // whose process a local connection comes from; tests set it
}

// NewServer makes a server; it serves nothing by itself.
func NewServer(cfg ServerConfig) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, listeners: map[net.Listener]struct{}{}, once: map[any]map[wire.Verb]bool{}, accountOf: accountOf}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends every stream and every listener, and waits for them.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		l.Close()
	}
	s.mu.Unlock()
	s.cancel()
	s.wait.Wait()
}

// enter counts a goroutine in, unless the server has stopped.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wait.Add(1)
	return true
}

// SessionClosed forgets what a session has asked once. The node calls it when a
// session ends.
func (s *Server) SessionClosed(session any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.once, session)
}

// firstTime reports whether this session asks a one-a-connection verb for the
// first time.
func (s *Server) firstTime(session any, v wire.Verb) bool {
	if session == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.once[session]
	if asked[v] {
		return false
	}
	if asked == nil {
		asked = map[wire.Verb]bool{}
		s.once[session] = asked
	}
	asked[v] = true
	return true
}

// ServeStream reads one request from the stream, judges who may ask it, answers,
// and closes the stream. It returns when the stream has ended; where the verb
// lasts and the stream has a method Then(func()), it leaves the rest to that.
func (s *Server) ServeStream(ctx context.Context, p Peer, stream net.Conn) {
	if !s.enter() {
		stream.Close()
		return
	}
	s.serve(ctx, p, stream, nil)
}

// turn says when a request that has been read may be carried out; done ends that.
type turn func(context.Context) (done func(), refused *fault)

// serve answers the one request of a stream. may, which may be nil, is called when the request has been read.
func (s *Server) serve(ctx context.Context, p Peer, stream net.Conn, may turn) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(); stream.SetDeadline(time.Unix(1, 0)) })
	end := func() {
		stream.Close()
		stop()
		cancel()
		s.wait.Done()
	}
	last := s.answerOne(ctx, cancel, &p, stream, may)
	if last == nil {
		end()
		return
	}
	rest := func() { last(); end() }
	if t, ok := stream.(interface{ Then(func()) }); ok {
		t.Then(rest)
		return
	}
	rest()
}

// answerOne reads and answers one request. It returns what is left to do where the verb lasts.
func (s *Server) answerOne(ctx context.Context, cancel func(), p *Peer, stream net.Conn, may turn) (last func()) {
	unwatch := context.AfterFunc(ctx, func() { stream.SetDeadline(time.Unix(1, 0)) })
	defer unwatch()
	row, payload, refused := s.readRequest(ctx, *p, stream)
	out := &replier{ctx: ctx, stream: stream}
	if refused != nil {
		s.refuse(*p, row.Name, out, refused)
		return nil
	}
	s.cfg.Metrics.Add("pace_requests_total", 1, row.Name)
	if row.Verb == wire.VerbFollow {
		return s.lasting(ctx, p, row, payload, out)
	}
	// From here on the asker has nothing more to say: a byte or an end means that it has gone.
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer cancel()
		stream.SetReadDeadline(time.Time{})
		if ctx.Err() != nil {
			return
		}
		stream.Read(make([]byte, 1))
	}()
	defer func() { stream.Close(); <-gone }()
	if may != nil {
		done, refused := may(ctx)
		if refused != nil {
			s.refuse(*p, row.Name, out, refused)
			return nil
		}
		defer done()
	}
	s.refuse(*p, row.Name, out, s.dispatch(ctx, *p, row, payload, out))
	return nil
}

// lasting judges a verb that pushes for as long as the asker listens. Of a thousand such streams none has a goroutine to
// read it: whether its asker has gone is looked at before a push.
func (s *Server) lasting(ctx context.Context, p *Peer, row wire.VerbRow, payload []byte, out *replier) func() {
	out.poll = true
	if refused := s.dispatch(ctx, *p, row, payload, out); refused != nil {
		s.refuse(*p, row.Name, out, refused)
		return nil
	}
	if b, ok := out.stream.(interface{ Shrink() }); ok {
		b.Shrink() // the request is read; nothing more comes
	}
	serve := out.last
	return func() { s.ended(p, row.Name, out, serve(out.pushImplicit)) }
}

// ended answers why a verb that lasted is over.
func (s *Server) ended(p *Peer, verb string, out *replier, err error) {
	if err != nil && out.ctx.Err() == nil && !errors.Is(err, errGone) {
		s.refuse(*p, verb, out, toFault(err))
	}
}

// refuse answers with an error frame, unless there is nothing or nobody to tell.
func (s *Server) refuse(p Peer, verb string, out *replier, refused *fault) {
	if refused == nil || refused.silent() {
		return
	}
	s.cfg.Metrics.Add("pace_requests_refused_total", 1, refused.Code.String())
	s.cfg.Logger.Debug("request refused", "verb", verb, "peer", peerText(p), "reason", refused.Code.String(), "text", Sentence(refused.Text))
	if err := out.write(wire.StatusError, refused.Error.Append(nil)); err != nil {
		s.cfg.Logger.Debug("answer not taken", "verb", verb, "peer", peerText(p), "error", err)
	}
}

// fault is how a request ends badly: an error frame, or nothing if Error is nil
// (the asker has gone).
type fault struct{ *wire.Error }

func (f *fault) silent() bool { return f.Error == nil }

func peerText(p Peer) string {
	if p.Local {
		return KindLocal.String()
	}
	return p.Key.String() + " at " + p.Addr.String()
}

// readRequest reads one frame. Nothing is allocated before the length is judged.
func (s *Server) readRequest(ctx context.Context, p Peer, stream net.Conn) (wire.VerbRow, []byte, *fault) {
	within, stranger := memberRequestTime, false
	if p.Local {
		within = strangerRequestTime
	} else if role, err := s.cfg.Backend.Access(p); err != nil || role == wire.AccessAnybody {
		within, stranger = strangerRequestTime, true
	}
	stream.SetReadDeadline(time.Now().Add(within))
	if ctx.Err() != nil {
		return wire.VerbRow{}, nil, &fault{}
	}
	var h [wire.RequestHeaderSize]byte
	if err := readFull(stream, h[:]); err != nil {
		s.cfg.Metrics.Add("pace_requests_refused_total", 1, reasonNoRequest)
		return wire.VerbRow{}, nil, &fault{}
	}
	row, length, code := wire.ParseRequestHeader(h)
	most := row.Ceiling
	if stranger {
		most = min(most, strangerRequestMost)
	}
	if code == 0 && length > most {
		code = wire.CodeTooLarge
	}
	if code != 0 {
		return row, nil, &fault{headerError(code, h, row, most)}
	}
	payload := make([]byte, length)
	if err := readFull(stream, payload); err != nil {
		s.cfg.Metrics.Add("pace_requests_refused_total", 1, reasonNoRequest)
		return row, nil, &fault{}
	}
	return row, payload, nil
}

func headerError(code wire.ErrorCode, h [wire.RequestHeaderSize]byte, row wire.VerbRow, most uint32) *wire.Error {
	switch code {
	case wire.CodeUnsupportedVersion:
		return wire.NewError(code, fmt.Sprintf("protocol version %d is not spoken here: this node speaks %d to %d", h[1], wire.OldestProtocolVersion, wire.ProtocolVersion), "bring both nodes to versions that are at most one apart")
	case wire.CodeUnknownVerb:
		return wire.NewError(code, fmt.Sprintf("verb 0x%02x is not known to this node", h[2]), "upgrade this node, or ask one that is as new as the asker")
	case wire.CodeTooLarge:
		return wire.NewError(code, fmt.Sprintf("a request of %s is at most %d bytes", row.Name, most), "send less at once")
	}
	return wire.NewError(code, "", "")
}

func readFull(r net.Conn, b []byte) error {
	for n := 0; n < len(b); {
		m, err := r.Read(b[n:])
		n += m
		if err != nil && n < len(b) {
			return err
		}
	}
	return nil
}

func malformed(row wire.VerbRow, err error) *fault {
	return &fault{wire.NewError(wire.CodeMalformed, fmt.Sprintf("the request of %s does not follow its format: %v", row.Name, err), "")}
}

// toFault turns an error of the backend into what is answered.
func toFault(err error) *fault {
	var e *wire.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return &fault{e}
	case errors.Is(err, context.DeadlineExceeded):
		return &fault{wire.NewError(wire.CodeBusy, "the node did not finish in time", "look at pacectl node, then try again")}
	case errors.Is(err, context.Canceled):
		return &fault{wire.NewError(wire.CodeBusy, "the node is stopping", "try again in a few seconds")}
	}
	return &fault{wire.NewError(wire.CodeRefusedByRule, err.Error(), "")}
}

// dispatch decodes the payload, asks who may, calls the backend and answers.
// nil: all that had to be written is written.
func (s *Server) dispatch(ctx context.Context, p Peer, row wire.VerbRow, payload []byte, out *replier) *fault {
	handle, ok := handlers[row.Verb]
	if !ok {
		return &fault{wire.NewError(wire.CodeUnknownVerb, "", "")}
	}
	if e := s.admit(p, row, row.MemberOp != "" && isMemberOp(p, row, payload)); e != nil {
		return &fault{e}
	}
	if row.OncePerConnection && !s.firstTime(p.Session, row.Verb) {
		return &fault{wire.NewError(wire.CodeRefusedByRule, row.Name+" is answered once a connection", "open another connection")}
	}
	return handle(s, ctx, p, row, payload, out)
}

// isMemberOp reports whether the payload is the operation that a member may ask
// for itself.
func isMemberOp(p Peer, row wire.VerbRow, payload []byte) bool {
	r, err := wire.DecodeDocument[wire.ClusterRequest](payload)
	return err == nil && r.Op == row.MemberOp && (r.ID == "" || r.ID == p.ID)
}

type handler func(s *Server, ctx context.Context, p Peer, row wire.VerbRow, payload []byte, out *replier) *fault

// handlers is how each verb is carried out.
var handlers = map[wire.Verb]handler{
	wire.VerbEnroll:        (*Server).enroll,
	wire.VerbEnrollControl: (*Server).enrollControl,
	wire.VerbFollow:        (*Server).follow,
	wire.VerbFleetSummary:  (*Server).fleetSummary,
	wire.VerbStartupEvent:  (*Server).startupEvent,
	wire.VerbHello: document(func(b Backend, ctx context.Context, p Peer, r wire.Hello) (wire.Hello, error) {
		return b.Hello(ctx, p, r)
	}),
	wire.VerbAnnounce: document(func(b Backend, ctx context.Context, p Peer, r wire.Announce) (struct{}, error) {
		return struct{}{}, b.Announce(ctx, p, r)
	}),
	wire.VerbQuery: document(func(b Backend, ctx context.Context, p Peer, _ struct{}) (wire.QueryAnswer, error) {
		return b.Query(ctx, p)
	}),
	wire.VerbWork: document(func(b Backend, ctx context.Context, p Peer, r wire.WorkRequest) (wire.WorkAnswer, error) {
		return b.Work(ctx, p, r)
	}),
	wire.VerbStatus: document(func(b Backend, ctx context.Context, p Peer, r wire.StatusRequest) (json.RawMessage, error) {
		return b.Status(ctx, p, r)
	}),
	wire.VerbCluster: document(func(b Backend, ctx context.Context, p Peer, r wire.ClusterRequest) (wire.ClusterAnswer, error) {
		return b.Cluster(ctx, p, r)
	}),
	wire.VerbQueue: document(func(b Backend, ctx context.Context, p Peer, r wire.QueueRequest) (json.RawMessage, error) {
		return b.Queue(ctx, p, r)
	}),
}

// document is a verb that takes one JSON document and answers with one. An empty
// request stands for the empty document; an empty struct is answered with
// nothing.
func document[Req, Ans any](call func(Backend, context.Context, Peer, Req) (Ans, error)) handler {
	return func(s *Server, ctx context.Context, p Peer, row wire.VerbRow, payload []byte, out *replier) *fault {
		var req Req
		if len(payload) > 0 {
			var err error
			if req, err = wire.DecodeDocument[Req](payload); err != nil {
				return malformed(row, err)
			}
		}
		ans, err := call(s.cfg.Backend, ctx, p, req)
		if err != nil {
			return toFault(err)
		}
		var b []byte
		if _, empty := any(ans).(struct{}); !empty {
			if b, err = json.Marshal(ans); err != nil {
				return toFault(fmt.Errorf("the answer of %s cannot be written: %w", row.Name, err))
			}
		}
		return s.answer(row, p, out, b)
	}
}

func (s *Server) answer(row wire.VerbRow, p Peer, out *replier, b []byte) *fault {
	if err := out.start(b); err != nil {
		s.cfg.Logger.Debug("answer not taken", "verb", row.Name, "peer", peerText(p), "error", err)
	}
	return nil
}

func (s *Server) enroll(ctx context.Context, p Peer, row wire.VerbRow, payload []byte, out *replier) *fault {
	r, err := wire.DecodeEnrollRequest(payload)
	if err != nil {
		return malformed(row, err)
	}
	push := func(a wire.EnrollAnswer) error { return out.push(false, a.Append(nil)) }
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, wait, err := s.cfg.Backend.Enroll(ctx, p, r, push)
	if err != nil {
		return toFault(err)
	}
	if err := out.start(first.Append(nil)); err != nil {
		if wait != nil { // who asked is gone: the row is not to be kept as if its stream stood
			cancel()
			wait()
		}
		return &fault{}
	}
	if wait == nil {
		return nil
	}
	if err := wait(); err != nil {
		if ctx.Err() != nil {
			return &fault{} // the asker has gone, or the node stops
		}
		return toFault(err)
	}
	return nil
}

func (s *Server) enrollControl(ctx context.Context, p Peer, row wire.VerbRow, payload []byte, out *replier) *fault {
	c, err := wire.DecodeEnrollControl(payload)
	if err != nil {
		return malformed(row, err)
	}
	b, err := s.cfg.Backend.EnrollControl(ctx, p, c)
	if err != nil {
		return toFault(err)
	}
	return s.answer(row, p, out, b)
}

func (s *Server) follow(ctx context.Context, p Peer, row wire.VerbRow, payload []byte, out *replier) *fault {
	r, err := wire.DecodeDocument[wire.FollowRequest](payload)
	if err != nil {
		return malformed(row, err)
	}
	out.last, err = s.cfg.Backend.Follow(ctx, p, r)
	return toFault(err)
}

func (s *Server) startupEvent(ctx context.Context, p Peer, row wire.VerbRow, payload []byte, out *replier) *fault {
	e, err := wire.DecodeStartupEvent(payload)
	if err != nil {
		return malformed(row, err)
	}
	ans, err := s.cfg.Backend.StartupEvent(ctx, p, e)
	if err != nil {
		return toFault(err)
	}
	b, err := json.Marshal(ans)
	if err != nil {
		return toFault(err)
	}
	return s.answer(row, p, out, b)
}

func (s *Server) fleetSummary(ctx context.Context, p Peer, row wire.VerbRow, payload []byte, out *replier) *fault {
	r, err := wire.DecodeFleetSummaryRequest(payload)
	if err != nil {
		return malformed(row, err)
	}
	a, err := s.cfg.Backend.FleetSummary(ctx, p, r.Nonce)
	if err != nil {
		return toFault(err)
	}
	return s.answer(row, p, out, a.Append(nil))
}
