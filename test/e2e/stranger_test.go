//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

// requests is a well-formed request of each verb, as its sender would write it.
func requests(t *testing.T, id string, key identity.PrivateKey, cluster, victim string) map[wire.Verb][]byte {
	t.Helper()
	enroll := wire.EnrollRequest{ID: id, Endpoint: "10.1.0.9:6674", Role: wire.RoleLearner, Key: key.Public(), Nonce: [32]byte{1}}
	enroll.Signature = key.Sign(enroll.Message())
	event := wire.StartupEvent{Cluster: cluster, Node: id, Component: wire.ComponentProvision, Sequence: 1, At: uint64(time.Now().Unix()), Version: "1"}
	event.Signature = key.Sign(event.Message())
	control := wire.EnrollControl{Op: wire.ControlWindow, Argument: []byte("600")}
	summary := wire.FleetSummaryRequest{Nonce: [32]byte{2}}
	return map[wire.Verb][]byte{
		wire.VerbEnroll:        enroll.Append(nil),
		wire.VerbEnrollControl: control.Append(nil),
		wire.VerbFollow:        doc(t, wire.FollowRequest{}),
		wire.VerbHello:         doc(t, wire.Hello{ID: id, Cluster: cluster, Wire: []int{wire.ProtocolVersion}, Format: 1, ClockMS: time.Now().UnixMilli()}),
		wire.VerbAnnounce:      doc(t, wire.Announce{Name: "mallory", Platform: "linux/amd64", Version: "9", Format: 1, Endpoints: wire.Endpoints{FC: "10.1.0.9:6674"}}),
		wire.VerbStartupEvent:  event.Append(nil),
		wire.VerbQuery:         []byte("{}"),
		wire.VerbWork:          doc(t, wire.WorkRequest{Step: wire.StepShutdown, Lease: []byte("no lease"), Body: []byte("{}")}),
		wire.VerbStatus:        doc(t, wire.StatusRequest{What: "cluster"}),
		wire.VerbCluster:       doc(t, wire.ClusterRequest{Op: "forget", ID: victim}),
		wire.VerbQueue:         doc(t, wire.QueueRequest{Op: "pause"}),
		wire.VerbFleetSummary:  summary.Append(nil),
	}
}

func doc(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// standing is what nobody from outside may change.
type standing struct {
	cluster, leader, roster, mode string
	revision                      uint64
	term, voters, learners        float64
}

func (n *node) standing() standing {
	n.t.Helper()
	c, err := n.cluster()
	if err != nil {
		n.t.Fatal(err)
	}
	d, err := n.status()
	if err != nil {
		n.t.Fatal(err)
	}
	m := n.metrics()
	s := standing{cluster: c.Cluster, roster: c.roster(), mode: d.Mode, revision: c.View.Revision, term: m.of(n.t, "pace_consensus_term"),
		voters: m.of(n.t, `pace_fleet_members{role="voter"}`), learners: m.of(n.t, `pace_fleet_members{role="learner"}`)}
	if c.Leader != nil {
		s.leader = c.Leader.ID
	}
	return s
}

// counted runs f and wants exactly one more in each named series, and no change of the others with the same name.
func (n *node) counted(what string, f func(), names ...string) {
	n.t.Helper()
	before := n.metrics()
	f()
	var last string
	until(n.t, what+" is counted by "+n.name, func() (bool, string) {
		after := n.metrics()
		last = ""
		for _, name := range names {
			if d := after.of(n.t, name) - before.of(n.t, name); d != 1 {
				last += fmt.Sprintf("%s grew by %v; ", name, d)
			}
			for other := range after {
				if strings.HasPrefix(other, strings.SplitAfter(name, "{")[0]) && !strings.Contains(strings.Join(names, " "), other) && after[other] != before[other] {
					last += fmt.Sprintf("%s grew by %v; ", other, after[other]-before[other])
				}
			}
		}
		return last == "", last
	})
}

// who may send each verb, by the table of the 0xFC endpoint: the code that a key outside the roster, and a learner's key,
// is refused with; 0 is let in.
var gate = []struct {
	verb              wire.Verb
	stranger, learner wire.ErrorCode
}{
	{wire.VerbEnroll, 0, 0},
	{wire.VerbEnrollControl, wire.CodeNotMember, wire.CodeRefusedByRule},
	{wire.VerbFollow, wire.CodeNotMember, 0},
	{wire.VerbHello, 0, 0},
	{wire.VerbAnnounce, wire.CodeNotMember, 0},
	{wire.VerbStartupEvent, wire.CodeNotMember, 0},
	{wire.VerbQuery, wire.CodeNotMember, wire.CodeRosterNotApplied},
	{wire.VerbWork, wire.CodeNotMember, wire.CodeRosterNotApplied},
	{wire.VerbStatus, wire.CodeNotMember, 0},
	{wire.VerbCluster, wire.CodeNotMember, wire.CodeRefusedByRule},
	{wire.VerbQueue, wire.CodeNotMember, wire.CodeRefusedByRule},
	{wire.VerbFleetSummary, 0, 0},
}

func TestStrangerCanNeitherFeedNorVoteNorAppend(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch", metered)
	c := l.hosts[2].joined(t, a, "cedar", metered)
	for _, n := range []*node{b, c} {
		n.follows(a)
	}
	for _, v := range wire.Verbs {
		found := false
		for _, row := range gate {
			found = found || row.verb == v.Verb
		}
		if !found {
			t.Errorf("the verb %s is not in this test's table", v.Name)
		}
	}
	mallory := l.hosts[3]
	stranger := mallory.client(t, newKey(1))
	before := a.standing()
	cluster := before.cluster

	t.Run("every verb under a key of one's own", func(t *testing.T) {
		for _, target := range []*node{a, b} {
			for id, what := range map[string]string{"0123456789abcdef0123456789abcdef": "an id of one's own", a.id(): "the leader's id", c.id(): "a learner's id"} {
				payloads := requests(t, id, newKey(1), cluster, c.id())
				for _, row := range gate {
					if row.stranger == 0 {
						continue
					}
					what := fmt.Sprintf("%s with %s", row.verb, what)
					target.counted(what, func() {
						if _, code := stranger.asks(target.endpoint(), row.verb, payloads[row.verb]); code != row.stranger {
							t.Errorf("%s: %s answers %s, want %s", what, target.name, code, row.stranger)
						}
					}, refusedRequests(row.stranger))
				}
			}
			payloads := requests(t, "0123456789abcdef0123456789abcdef", newKey(1), cluster, c.id())
			for _, v := range []wire.Verb{wire.VerbHello, wire.VerbFleetSummary} {
				if _, code := stranger.asks(target.endpoint(), v, payloads[v]); code != 0 {
					t.Errorf("%s: %s answers %s, and it is for anybody", v, target.name, code)
				}
			}
		}
	})
	t.Run("asks that prove nothing", func(t *testing.T) {
		here, there := "10.1.0.9:6674", "127.0.0.1:6674"
		for _, c := range []struct {
			what         string
			id, endpoint string
			hello        wire.Hello
			mute, sign   bool
			key          identity.PrivateKey
			code         wire.ErrorCode
			reason       string
		}{
			{"no Hello before it", "x", here, wire.Hello{}, true, true, newKey(1), wire.CodeRefusedByRule, "no-hello"},
			{"another's key", "x", here, wire.Hello{}, false, true, newKey(2), wire.CodeKeyMismatch, "session-key"},
			{"no signature", "x", here, wire.Hello{}, false, false, newKey(1), wire.CodeBadSignature, "signature"},
			{"an id that is none", "$(x)", here, wire.Hello{}, false, true, newKey(1), wire.CodeMalformed, "id"},
			{"a loopback endpoint", "x", there, wire.Hello{}, false, true, newKey(1), wire.CodeRefusedByRule, "endpoint-here"},
			{"a wildcard endpoint", "x", "0.0.0.0:6674", wire.Hello{}, false, true, newKey(1), wire.CodeRefusedByRule, "endpoint-here"},
			{"an escape in its name", "x", here, wire.Hello{Name: "a\x1b[2Jb"}, false, true, newKey(1), wire.CodeRefusedByRule, "text"},
		} {
			r := wire.EnrollRequest{ID: c.id, Endpoint: c.endpoint, Role: wire.RoleLearner, Key: c.key.Public()}
			if c.sign {
				r.Signature = c.key.Sign(r.Message())
			}
			a.counted("Enroll with "+c.what, func() {
				var s *netio.Session
				if c.mute {
					s = stranger.session(a.endpoint())
				} else {
					s = stranger.greeted(a.endpoint(), c.hello)
				}
				defer s.Close(nil)
				if _, code := stranger.asksOn(s, wire.VerbEnroll, r.Append(nil)); code != c.code {
					t.Errorf("Enroll with %s: %s, want %s", c.what, code, c.code)
				}
			}, refusedRequests(c.code), fmt.Sprintf("pace_enrollment_requests_refused_total{reason=%q}", c.reason))
		}
		// A sound one gets a row and nothing else.
		if ans, code := stranger.enroll(a.endpoint(), wire.EnrollRequest{ID: "mallory", Endpoint: "10.1.0.9:6674", Nonce: [32]byte{3}}); code != 0 || ans.Outcome != wire.OutcomePending || len(ans.Roster) != 0 {
			t.Errorf("%s, %+v", code, ans)
		}
	})
	t.Run("frames that are none", func(t *testing.T) { strangeFrames(t, a, stranger) })
	t.Run("the consensus port", func(t *testing.T) { consensusPort(t, a, b, mallory, cluster) })
	t.Run("a learner's key beyond its role", func(t *testing.T) {
		key, id := b.key(), b.id()
		b.kill() // its key is ours from here on
		thief := mallory.client(t, key)
		payloads := requests(t, id, key, cluster, c.id())
		for _, target := range []*node{a, c} {
			for _, row := range gate {
				if row.learner == 0 {
					continue
				}
				what := fmt.Sprintf("%s under a learner's key", row.verb)
				target.counted(what, func() {
					if _, code := thief.asks(target.endpoint(), row.verb, payloads[row.verb]); code != row.learner {
						t.Errorf("%s: %s answers %s, want %s", what, target.name, code, row.learner)
					}
				}, refusedRequests(row.learner))
			}
			// To speak for another machine it has no key. An event of another's is refused by name, and nothing is queued.
			if target == a {
				other := requests(t, c.id(), key, cluster, c.id())
				b, code := thief.asks(a.endpoint(), wire.VerbStartupEvent, other[wire.VerbStartupEvent])
				var ans wire.StartupEventAnswer
				if code == 0 {
					if err := json.Unmarshal(b, &ans); err != nil {
						t.Fatal(err)
					}
				}
				if code == 0 && (ans.Admitted || ans.Refused == "") {
					t.Errorf("a startup event in another's name: %s %+v", code, ans)
				}
			}
		}
		// What a member may do it may: follow and read.
		if _, code := thief.asks(a.endpoint(), wire.VerbStatus, payloads[wire.VerbStatus]); code != 0 {
			t.Errorf("Status under a learner's key: %s", code)
		}
	})

	after := a.standing()
	if after != before {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	if d, err := a.waiting(); err != nil || len(d.Rows) == 0 {
		t.Errorf("%v: the list has %d rows", err, len(d.Rows))
	}
	a.must("--cluster-set=enrollment.per-source=6")
	c.follows(a)
}

// strangeFrames sends what no program of ours writes. Each is refused by its name, and the node serves on.
func strangeFrames(t *testing.T, n *node, c *client) {
	frame := func(version, verb byte, length uint32, payload string) []byte {
		return append([]byte{wire.FrameMagic, version, verb, byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length)}, payload...)
	}
	for _, x := range []struct {
		what string
		b    []byte
		code wire.ErrorCode
	}{
		{"another magic", append([]byte{0xFB}, frame(1, 0x13, 2, "{}")[1:]...), wire.CodeMalformed},
		{"version 0", frame(0, byte(wire.VerbHello), 2, "{}"), wire.CodeUnsupportedVersion},
		{"version 9", frame(9, byte(wire.VerbHello), 2, "{}"), wire.CodeUnsupportedVersion},
		{"a verb that is none", frame(1, 0x77, 0, ""), wire.CodeUnknownVerb},
		{"more than the verb's ceiling", frame(1, byte(wire.VerbHello), 4<<10+1, ""), wire.CodeTooLarge},
		{"4 GiB", frame(1, byte(wire.VerbWork), 1<<32-1, ""), wire.CodeTooLarge},
		{"a document that is none", frame(1, byte(wire.VerbHello), 3, "{]}"), wire.CodeMalformed},
		{"a nonce of 31 bytes", frame(1, byte(wire.VerbFleetSummary), 35, "\x00\x00\x00\x1f"+strings.Repeat("n", 31)), wire.CodeMalformed},
	} {
		s := c.session(n.endpoint())
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		stream, err := s.Open(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Write(x.b); err != nil {
			t.Fatal(err)
		}
		var h [wire.ReplyHeaderSize]byte
		stream.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(stream, h[:]); err != nil {
			t.Errorf("%s: no answer: %v", x.what, err)
		} else if status, length, err := wire.ParseReplyHeader(h); err != nil || status != wire.StatusError {
			t.Errorf("%s: status %d, %v", x.what, status, err)
		} else {
			payload := make([]byte, length)
			io.ReadFull(stream, payload)
			if e, err := wire.DecodeError(payload); err != nil || e.Code != x.code {
				t.Errorf("%s: %v, %v, want %s", x.what, e, err, x.code)
			}
		}
		s.Close(nil)
		cancel()
	}
}

// consensusPort opens streams to the founder's port 6680 as everybody but a voter, and then speaks raft on them anyhow.
func consensusPort(t *testing.T, a, learner *node, mallory *host, cluster string) {
	founder, member := a.id(), learner.id()
	own, stolen := newKey(1), learner.key()
	addr := net.JoinHostPort(a.host.addr.String(), "6680")
	header := func(cluster, source, target string, epoch uint64) []byte {
		h := wire.RaftStreamHeader{Cluster: cluster, Source: source, Target: target, Epoch: epoch}
		return h.Append(nil)
	}
	for _, x := range []struct {
		what   string
		key    identity.PrivateKey
		header []byte
		reason netio.Refusal
	}{
		{"another cluster", own, header("ffffffffffffffffffffffffffffffff", member, founder, 0), netio.RefuseRaftCluster},
		{"another cluster, a learner's key", stolen, header("ffffffffffffffffffffffffffffffff", member, founder, 0), netio.RefuseRaftCluster},
		{"another target", own, header(cluster, member, member, 0), netio.RefuseRaftTarget},
		{"the founder's own id", own, header(cluster, founder, founder, 0), netio.RefuseRaftSource},
		{"another epoch", own, header(cluster, member, founder, 7), netio.RefuseRaftEpoch},
		{"a member's id under one's own key", own, header(cluster, member, founder, 0), netio.RefuseRaftGuard},
		{"an id of one's own", own, header(cluster, "mallory", founder, 0), netio.RefuseRaftGuard},
		{"a learner's id under the learner's key", stolen, header(cluster, member, founder, 0), netio.RefuseRaftGuard},
		{"an id of one's own under a learner's key", stolen, header(cluster, "mallory", founder, 0), netio.RefuseRaftGuard},
		{"a field of 4 GiB", own, []byte{0xff, 0xff, 0xff, 0xff}, netio.RefuseRaftHeader},
		{"three fields and an epoch of 4 bytes", own, append(header(cluster, member, founder, 0)[:len(header(cluster, member, founder, 0))-12], 0, 0, 0, 4, 0, 0, 0, 0), netio.RefuseRaftHeader},
	} {
		a.counted("a stream of "+x.what, func() {
			conn := raftDial(t, mallory, addr, x.key)
			defer conn.Close()
			// The type byte of RequestVote and AppendEntries, and a term that would unseat any leader.
			vote := append([]byte{1}, "\x87\xa9RPCHeader\x81\xafProtocolVersion\x03\xa4Term\xcf\x00\x00\x00\xff\xff\xff\xff\xff"...)
			conn.SetDeadline(time.Now().Add(20 * time.Second))
			conn.Write(append(bytes.Clone(x.header), vote...))
			if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
				t.Errorf("%s: the port answers (%v)", x.what, err)
			}
		}, refusedSessions(x.reason))
	}
	// Other protocols, and none.
	for _, x := range []struct {
		what   string
		config *tls.Config
		reason netio.Refusal
	}{
		{"the sessions' protocol", netio.ClientTLS(own, netio.ProtocolSession, nil), netio.RefuseALPN},
		{"TLS 1.2", &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, NextProtos: []string{netio.ProtocolRaft}}, netio.RefuseTLSVersion},
		{"no certificate", &tls.Config{InsecureSkipVerify: true, NextProtos: []string{netio.ProtocolRaft}}, netio.RefuseNoCertificate},
	} {
		a.counted("a connection with "+x.what, func() {
			raw, err := mallory.dial(t.Context(), "tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			raw.SetDeadline(time.Now().Add(20 * time.Second))
			conn := tls.Client(raw, x.config)
			if err := conn.Handshake(); err == nil {
				if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, net.ErrClosed) {
					t.Errorf("%s: %v", x.what, err)
				}
			}
		}, refusedSessions(x.reason))
	}
	// A learner has no consensus port at all.
	if c, err := mallory.dial(t.Context(), "tcp", net.JoinHostPort(learner.host.addr.String(), "6680")); err == nil {
		c.Close()
		t.Error("a learner listens on the consensus port")
	}
}

func raftDial(t *testing.T, h *host, addr string, key identity.PrivateKey) *tls.Conn {
	t.Helper()
	raw, err := h.dial(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(raw, netio.ClientTLS(key, netio.ProtocolRaft, nil))
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	return conn
}
