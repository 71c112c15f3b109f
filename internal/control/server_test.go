package control

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/wire"
)

// requests has one good request of each verb and what the backend must see of it.
func requests(t *testing.T) []struct {
	verb    wire.Verb
	payload []byte
	sees    string
} {
	enroll := wire.EnrollRequest{ID: "joiner", Endpoint: "10.1.0.2:6674", Role: wire.RoleLearner}
	event := wire.StartupEvent{Cluster: "c", Node: "n", Component: "server"}
	control := wire.EnrollControl{Op: wire.ControlList}
	summary := wire.FleetSummaryRequest{}
	return []struct {
		verb    wire.Verb
		payload []byte
		sees    string
	}{
		{wire.VerbEnroll, enroll.Append(nil), "Enroll joiner"},
		{wire.VerbEnrollControl, control.Append(nil), "EnrollControl list"},
		{wire.VerbFollow, mustJSON(t, wire.FollowRequest{Revision: 3}), "Follow"},
		{wire.VerbHello, mustJSON(t, wire.Hello{ID: "x", Cluster: "c"}), "Hello"},
		{wire.VerbAnnounce, mustJSON(t, wire.Announce{Name: "web1"}), "Announce web1"},
		{wire.VerbStartupEvent, event.Append(nil), "StartupEvent n"},
		{wire.VerbQuery, []byte("{}"), "Query"},
		{wire.VerbWork, mustJSON(t, wire.WorkRequest{Step: "inventory"}), "Work inventory"},
		{wire.VerbStatus, mustJSON(t, wire.StatusRequest{What: "node"}), "Status node"},
		{wire.VerbCluster, mustJSON(t, wire.ClusterRequest{Op: "set"}), "Cluster set"},
		{wire.VerbQueue, mustJSON(t, wire.QueueRequest{Op: "list"}), "Queue list"},
		{wire.VerbFleetSummary, summary.Append(nil), "FleetSummary"},
	}
}

// TestEveryVerbByEveryPeer sends each verb as each kind of peer and compares what
// the backend saw with the table that is written out from the spec.
func TestEveryVerbByEveryPeer(t *testing.T) {
	peers := [kindCount]struct {
		peer   Peer
		access wire.Access
		denied *wire.Error
	}{
		KindStranger: {}, KindRevoked: {denied: wire.NewError(wire.CodeRevoked, "17", "")},
		KindLearner: {access: wire.AccessMember}, KindVoter: {access: wire.AccessAdministrator},
		KindLeader: {access: wire.AccessLeader}, KindLocal: {peer: Peer{Local: true}},
	}
	for _, r := range requests(t) {
		for kind, p := range peers {
			var want wire.ErrorCode
			for _, w := range wantGate {
				if w.verb == r.verb {
					want = [kindCount]wire.ErrorCode{w.stranger, w.revoked, w.learner, w.voter, w.leader, w.socket}[kind]
				}
			}
			t.Run(r.verb.String()+" by "+Kind(kind).String(), func(t *testing.T) {
				metrics := NewMetrics(nil, nil)
				node := &fakeNode{access: p.access, denied: p.denied, follow: func(_ context.Context, push func(...[]byte) error) error { return push([]byte{1}) }}
				s := NewServer(ServerConfig{Backend: node, Metrics: metrics})
				defer s.Close()
				status, b := exchange(t, pipeTo(t, s, p.peer), r.verb, r.payload)
				if want != 0 {
					e := wantError(t, status, b, want)
					if e.Hint == "" || e.Text == "" {
						t.Errorf("a refusal without text or hint: %+v", e)
					}
					if Kind(kind) == KindRevoked && e.Text != "17" {
						t.Errorf("the revision is lost: %q", e.Text)
					}
					if len(node.seen()) != 0 {
						t.Errorf("the backend saw %v", node.seen())
					}
					if metrics.own[seriesKey("pace_requests_refused_total", []string{want.String()})] != 1 {
						t.Error("the refusal was not counted")
					}
					return
				}
				if status != wire.StatusOK {
					t.Fatalf("status %d: %q", status, b)
				}
				if diff := cmp.Diff([]string{r.sees}, node.seen()); diff != "" {
					t.Error(diff)
				}
				if metrics.own[seriesKey("pace_requests_total", []string{r.verb.String()})] != 1 {
					t.Error("the request was not counted under its verb")
				}
			})
		}
	}
}

func TestLeaveIsForOneself(t *testing.T) {
	for _, c := range []struct {
		req  wire.ClusterRequest
		want wire.ErrorCode
	}{
		{wire.ClusterRequest{Op: "leave"}, 0},
		{wire.ClusterRequest{Op: "leave", ID: "me"}, 0},
		{wire.ClusterRequest{Op: "leave", ID: "another"}, wire.CodeRefusedByRule},
		{wire.ClusterRequest{Op: "forget", ID: "me"}, wire.CodeRefusedByRule},
	} {
		s := NewServer(ServerConfig{Backend: &fakeNode{access: wire.AccessMember}})
		status, b := exchange(t, pipeTo(t, s, Peer{ID: "me"}), wire.VerbCluster, mustJSON(t, c.req))
		if c.want == 0 && status != wire.StatusOK {
			t.Errorf("%+v: status %d", c.req, status)
		} else if c.want != 0 {
			wantError(t, status, b, c.want)
		}
		s.Close()
	}
}

// TestHeaderOrder sends headers that fail a check and all later ones: the earlier
// is named.
func TestHeaderOrder(t *testing.T) {
	for _, c := range []struct {
		name string
		head []byte
		want wire.ErrorCode
	}{
		{"magic", []byte{0xFD, 9, 0x77, 0xff, 0xff, 0xff, 0xff}, wire.CodeMalformed},
		{"version", []byte{0xFC, 9, 0x77, 0xff, 0xff, 0xff, 0xff}, wire.CodeUnsupportedVersion},
		{"verb", []byte{0xFC, 1, 0x77, 0xff, 0xff, 0xff, 0xff}, wire.CodeUnknownVerb},
		{"length", []byte{0xFC, 1, 0x10, 0xff, 0xff, 0xff, 0xff}, wire.CodeTooLarge},
		{"one byte beyond the ceiling", []byte{0xFC, 1, 0x10, 0, 0, 4, 1}, wire.CodeTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewServer(ServerConfig{Backend: &fakeNode{}})
			defer s.Close()
			conn := pipeTo(t, s, Peer{})
			go conn.Write(c.head)
			status, b := readReply(t, conn)
			wantError(t, status, b, c.want)
		})
	}
}

func TestStrangersSendLittle(t *testing.T) {
	big := make([]byte, strangerRequestMost+1)
	for _, c := range []struct {
		access wire.Access
		want   wire.ErrorCode
	}{{wire.AccessAnybody, wire.CodeTooLarge}, {wire.AccessMember, wire.CodeMalformed}} {
		s := NewServer(ServerConfig{Backend: &fakeNode{access: c.access}})
		status, b := exchange(t, pipeTo(t, s, Peer{}), wire.VerbAnnounce, big)
		wantError(t, status, b, c.want)
		if e, err := wire.DecodeError(b); err == nil && c.want == wire.CodeTooLarge && !strings.Contains(e.Text, "4096 bytes") {
			t.Errorf("a stranger is told another bound than its own: %s", e.Text)
		}
		s.Close()
	}
}

func TestMalformedPayloads(t *testing.T) {
	for _, r := range requests(t) {
		for _, bad := range [][]byte{[]byte("{"), []byte("[]"), append(append([]byte(nil), r.payload...), '}')} {
			s := NewServer(ServerConfig{Backend: &fakeNode{access: wire.AccessLeader}})
			if r.verb == wire.VerbFleetSummary && len(bad) > 60 {
				bad = bad[1:]
			}
			status, b := exchange(t, pipeTo(t, s, Peer{}), r.verb, bad)
			e := wantError(t, status, b, wire.CodeMalformed)
			if !strings.Contains(e.Text, r.verb.String()) {
				t.Errorf("the refusal does not name %s: %s", r.verb, e.Text)
			}
			s.Close()
		}
	}
}

func TestOneAConnection(t *testing.T) {
	s := NewServer(ServerConfig{Backend: &fakeNode{}})
	defer s.Close()
	r := wire.FleetSummaryRequest{}
	one, two := new(int), new(int)
	status, _ := exchange(t, pipeTo(t, s, Peer{Session: one}), wire.VerbFleetSummary, r.Append(nil))
	if status != wire.StatusOK {
		t.Fatalf("first: %d", status)
	}
	status, b := exchange(t, pipeTo(t, s, Peer{Session: one}), wire.VerbFleetSummary, r.Append(nil))
	wantError(t, status, b, wire.CodeRefusedByRule)
	if status, _ = exchange(t, pipeTo(t, s, Peer{Session: two}), wire.VerbFleetSummary, r.Append(nil)); status != wire.StatusOK {
		t.Fatalf("another session: %d", status)
	}
	if status, _ = exchange(t, pipeTo(t, s, Peer{Session: one}), wire.VerbHello, []byte("{}")); status != wire.StatusOK {
		t.Fatalf("another verb: %d", status)
	}
	s.SessionClosed(one)
	s.SessionClosed(two)
	if len(s.once) != 0 {
		t.Errorf("%d sessions are still remembered", len(s.once))
	}
}

// TestEnrollStaysOpen: the first answer, then pushes of what comes later, until
// the asker goes.
func TestEnrollStaysOpen(t *testing.T) {
	gone := make(chan struct{})
	node := &fakeNode{wait: func(ctx context.Context, push func(wire.EnrollAnswer) error) error {
		if err := push(wire.EnrollAnswer{Outcome: wire.OutcomeApproved, Roster: []byte("{}")}); err != nil {
			return err
		}
		<-ctx.Done()
		close(gone)
		return ctx.Err()
	}}
	s := NewServer(ServerConfig{Backend: node})
	defer s.Close()
	conn := pipeTo(t, s, Peer{})
	r := wire.EnrollRequest{ID: "joiner", Endpoint: "10.1.0.2:6674", Role: wire.RoleLearner}
	status, b := exchange(t, conn, wire.VerbEnroll, r.Append(nil))
	a, err := wire.DecodeEnrollAnswer(b)
	if status != wire.StatusOK || err != nil || a.Outcome != wire.OutcomePending {
		t.Fatalf("first answer: %d %v %v", status, a.Outcome, err)
	}
	status, b = readReply(t, conn)
	if a, err = wire.DecodeEnrollAnswer(b); status != wire.StatusPush || err != nil || a.Outcome != wire.OutcomeApproved {
		t.Fatalf("push: %d %v %v", status, a.Outcome, err)
	}
	conn.Close()
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Fatal("the backend was not told that the asker has gone")
	}
}

// TestEnrollRedirectAtTheEnd: a node that goes pending answers an open stream
// with an error frame.
func TestEnrollRedirectAtTheEnd(t *testing.T) {
	node := &fakeNode{wait: func(context.Context, func(wire.EnrollAnswer) error) error {
		return wire.NewError(wire.CodeNotLeader, "10.1.0.9:6674", "")
	}}
	s := NewServer(ServerConfig{Backend: node})
	defer s.Close()
	conn := pipeTo(t, s, Peer{})
	r := wire.EnrollRequest{ID: "joiner", Endpoint: "10.1.0.2:6674", Role: wire.RoleLearner}
	exchange(t, conn, wire.VerbEnroll, r.Append(nil))
	status, b := readReply(t, conn)
	if e := wantError(t, status, b, wire.CodeNotLeader); e.Text != "10.1.0.9:6674" {
		t.Errorf("redirect to %q", e.Text)
	}
}

// earlyNode pushes before its first answer.
type earlyNode struct{ fakeNode }

func (n *earlyNode) Enroll(_ context.Context, _ Peer, _ wire.EnrollRequest, push func(wire.EnrollAnswer) error) (wire.EnrollAnswer, func() error, error) {
	var err error
	for range earlyPushes {
		err = errors.Join(err, push(wire.EnrollAnswer{Outcome: wire.OutcomeRejected}))
	}
	if push(wire.EnrollAnswer{Outcome: wire.OutcomeRejected}) == nil {
		err = errors.New("one too many was taken")
	}
	return wire.EnrollAnswer{Outcome: wire.OutcomePending}, func() error { return nil }, err
}

func TestPushBeforeTheFirstAnswer(t *testing.T) {
	s := NewServer(ServerConfig{Backend: &earlyNode{}})
	defer s.Close()
	conn := pipeTo(t, s, Peer{})
	r := wire.EnrollRequest{ID: "joiner", Endpoint: "10.1.0.2:6674", Role: wire.RoleLearner}
	status, b := exchange(t, conn, wire.VerbEnroll, r.Append(nil))
	if a, err := wire.DecodeEnrollAnswer(b); status != wire.StatusOK || err != nil || a.Outcome != wire.OutcomePending {
		t.Fatalf("first: %d %v %v", status, a.Outcome, err)
	}
	for range earlyPushes {
		if status, _ = readReply(t, conn); status != wire.StatusPush {
			t.Fatalf("status %d", status)
		}
	}
}

func TestFollowPushes(t *testing.T) {
	node := &fakeNode{access: wire.AccessMember, follow: func(_ context.Context, push func(...[]byte) error) error {
		if err := errors.Join(push([]byte("one")), push([]byte("two"))); err != nil {
			return err
		}
		return wire.NewError(wire.CodeRevoked, "9", "")
	}}
	s := NewServer(ServerConfig{Backend: node})
	defer s.Close()
	conn := pipeTo(t, s, Peer{})
	status, b := exchange(t, conn, wire.VerbFollow, []byte("{}"))
	if status != wire.StatusOK || len(b) != 0 {
		t.Fatalf("%d %q", status, b)
	}
	for _, want := range []string{"one", "two"} {
		if status, b = readReply(t, conn); status != wire.StatusPush || string(b) != want {
			t.Fatalf("%d %q", status, b)
		}
	}
	status, b = readReply(t, conn)
	wantError(t, status, b, wire.CodeRevoked)

	// An error before any push is the answer itself.
	node = &fakeNode{access: wire.AccessMember, fail: wire.NewError(wire.CodeBehind, "", "")}
	s2 := NewServer(ServerConfig{Backend: node})
	defer s2.Close()
	status, b = exchange(t, pipeTo(t, s2, Peer{}), wire.VerbFollow, []byte("{}"))
	wantError(t, status, b, wire.CodeBehind)
}

// TestFollowEndsWithItsStream: nobody reads the stream of a Follow, and that its asker has gone shows before a push.
func TestFollowEndsWithItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pushed := make(chan error, 1)
		node := &fakeNode{access: wire.AccessMember, follow: func(_ context.Context, push func(...[]byte) error) error {
			for {
				if err := push([]byte("one")); err != nil {
					pushed <- err
					return err
				}
				time.Sleep(time.Second)
			}
		}}
		s := NewServer(ServerConfig{Backend: node})
		defer s.Close()
		conn := pipeTo(t, s, Peer{})
		if status, _ := exchange(t, conn, wire.VerbFollow, []byte("{}")); status != wire.StatusOK {
			t.Fatal(status)
		}
		for range 12 { // beyond two looks
			if status, b := readReply(t, conn); status != wire.StatusPush || string(b) != "one" {
				t.Fatalf("%d %q", status, b)
			}
		}
		conn.Close()
		if err := <-pushed; err == nil {
			t.Fatal("it goes on")
		}
	})
}

// TestWorkEndsWithItsStream: what a leader asked for is told when the stream ends.
func TestWorkEndsWithItsStream(t *testing.T) {
	started, ended := make(chan struct{}), make(chan struct{})
	node := &fakeNode{access: wire.AccessLeader, work: func(ctx context.Context) error {
		close(started)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	}}
	s := NewServer(ServerConfig{Backend: node})
	defer s.Close()
	conn := pipeTo(t, s, Peer{})
	go conn.Write(wire.AppendRequest(nil, wire.VerbWork, []byte(`{"step":"configure"}`)))
	<-started
	conn.Close()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the step goes on")
	}
}

func TestBackendErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want wire.ErrorCode
		text string
	}{
		{wire.NewError(wire.CodeNotLeader, "", ""), wire.CodeNotLeader, ""},
		{errors.Join(errors.New("x"), wire.NewError(wire.CodeWaitingListFull, "full", "")), wire.CodeWaitingListFull, "full"},
		{context.DeadlineExceeded, wire.CodeBusy, "the node did not finish in time"},
		{context.Canceled, wire.CodeBusy, "the node is stopping"},
		{errors.New("no row of that id"), wire.CodeRefusedByRule, "no row of that id"},
	} {
		s := NewServer(ServerConfig{Backend: &fakeNode{fail: c.err}})
		status, b := exchange(t, pipeTo(t, s, Peer{Local: true}), wire.VerbQueue, []byte(`{"op":"retry"}`))
		if e := wantError(t, status, b, c.want); e.Text != c.text {
			t.Errorf("%v: text %q", c.err, e.Text)
		}
		s.Close()
	}
}

func TestAnswerTooLarge(t *testing.T) {
	node := &fakeNode{status: map[string]any{"cluster": strings.Repeat("x", wire.MaxAnswer)}}
	s := NewServer(ServerConfig{Backend: node})
	defer s.Close()
	status, b := exchange(t, pipeTo(t, s, Peer{Local: true}), wire.VerbStatus, []byte(`{"what":"cluster"}`))
	wantError(t, status, b, wire.CodeTooLarge)
}

// TestSlowAsker: whoever sends nothing, or half a request, is cut after 5 s, and
// whoever does not take its answer after 30 s.
func TestSlowAsker(t *testing.T) {
	for _, c := range []struct {
		name  string
		send  []byte
		after time.Duration
	}{
		{"nothing", nil, strangerRequestTime},
		{"half a header", []byte{0xFC, 1}, strangerRequestTime},
		{"half a payload", wire.AppendRequest(nil, wire.VerbHello, make([]byte, 100))[:50], strangerRequestTime},
		{"no answer taken", wire.AppendRequest(nil, wire.VerbHello, []byte("{}")), answerTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewServer(ServerConfig{Backend: &fakeNode{}})
				here, there := net.Pipe()
				defer here.Close()
				began := time.Now()
				go func() {
					if len(c.send) > 0 {
						here.Write(c.send)
					}
				}()
				s.ServeStream(context.Background(), Peer{}, there)
				if took := time.Since(began); took != c.after {
					t.Errorf("cut after %v, want %v", took, c.after)
				}
				s.Close()
			})
		})
	}
}

// TestCloseEndsStreams: a node that stops waits for nobody.
func TestCloseEndsStreams(t *testing.T) {
	node := &fakeNode{wait: func(ctx context.Context, _ func(wire.EnrollAnswer) error) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	s := NewServer(ServerConfig{Backend: node})
	conn := pipeTo(t, s, Peer{})
	r := wire.EnrollRequest{ID: "joiner", Endpoint: "10.1.0.2:6674", Role: wire.RoleLearner}
	exchange(t, conn, wire.VerbEnroll, r.Append(nil))
	silent := pipeTo(t, s, Peer{})
	_ = silent
	s.Close()
	conn2, there := net.Pipe()
	defer conn2.Close()
	s.ServeStream(context.Background(), Peer{}, there)
	if _, err := conn2.Write([]byte{1}); err == nil {
		t.Error("a stopped server serves")
	}
}

func FuzzServe(f *testing.F) {
	f.Add(wire.AppendRequest(nil, wire.VerbStatus, []byte(`{"what":"node"}`)))
	f.Add(wire.AppendRequest(nil, wire.VerbEnroll, make([]byte, 300)))
	f.Add([]byte{0xFC, 1, 0x19, 0, 0, 0, 2, '{', '}'})
	f.Fuzz(func(t *testing.T, in []byte) {
		s := NewServer(ServerConfig{Backend: &fakeNode{access: wire.AccessLeader}})
		here, there := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.ServeStream(context.Background(), Peer{}, there)
		}()
		here.SetDeadline(time.Now().Add(50 * time.Millisecond))
		wrote := make(chan struct{})
		go func() { defer close(wrote); here.Write(in) }()
		var h [wire.ReplyHeaderSize]byte
		if err := readFull(here, h[:]); err == nil {
			if _, _, err := wire.ParseReplyHeader(h); err != nil {
				t.Fatalf("%x is answered with %x", in, h)
			}
		}
		here.Close()
		<-wrote
		<-done
		s.Close()
	})
}

// halfOpen is a stream whose asker listens and says nothing, until it has closed its side.
type halfOpen struct {
	net.Conn
	closed bool
}

func (h *halfOpen) Read([]byte) (int, error) {
	if h.closed {
		return 0, io.EOF
	}
	return 0, os.ErrDeadlineExceeded
}

func (h *halfOpen) SetReadDeadline(time.Time) error  { return nil }
func (h *halfOpen) SetWriteDeadline(time.Time) error { return nil }
func (h *halfOpen) Write(b []byte) (int, error)      { return len(b), nil }

// TestAskerHasGone: a stream that can still be written is looked at every few seconds, not at every push.
func TestAskerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &halfOpen{}
		out := &replier{ctx: t.Context(), stream: conn, poll: true}
		if err := out.pushImplicit([]byte("one")); err != nil {
			t.Fatal(err)
		}
		conn.closed = true
		if err := out.pushImplicit([]byte("two")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(pollEvery)
		if err := out.pushImplicit([]byte("three")); !errors.Is(err, errGone) {
			t.Fatal(err)
		}
	})
}
