package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/config"
	"pace-node/internal/wire"
)

// pipeTransport serves a backend in memory as another machine would.
type pipeTransport struct {
	s    *Server
	peer Peer
}

func (p pipeTransport) Open(context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	go p.s.ServeStream(context.Background(), p.peer, there)
	return here, nil
}
func (p pipeTransport) Close() error { return nil }

// nodes are machines by endpoint.
type nodes map[string]*fakeNode

// run carries a verb out. The node at "" is this machine's own; without one no
// socket exists.
func (f nodes) run(t *testing.T, call config.VerbCall, cfg config.Config, stdin string) (exit int, stdout, stderr string) {
	t.Helper()
	return f.runWith(t, call, cfg, stdin, func(*RunDeps) {})
}

// runWith also changes what the verb is given of its machine.
func (f nodes) runWith(t *testing.T, call config.VerbCall, cfg config.Config, stdin string, change func(*RunDeps)) (exit int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	deps := RunDeps{
		AdminPaths: []string{filepath.Join(shortDir(t), "none.sock")},
		DialScheduler: func(_ context.Context, endpoint string) (Transport, error) {
			node := f[endpoint]
			if node == nil {
				return nil, errors.New("connection refused")
			}
			s := NewServer(ServerConfig{Backend: node})
			t.Cleanup(s.Close)
			return pipeTransport{s, Peer{}}, nil
		},
		PeekIdentity: func(context.Context) (Identity, error) {
			return Identity{NodeID: idA, PublicKey: testKey, Host: "10.1.0.2"}, nil
		},
	}
	if f["patient"] != nil {
		deps.Election = ElectionPatience
	}
	if stdin != "" {
		deps.Stdin = strings.NewReader(stdin)
	}
	if own := f[""]; own != nil {
		deps.AdminPaths[0], _ = serveAdmin(t, own)
	}
	change(&deps)
	exit = Run(context.Background(), call, cfg, &out, &errs, deps)
	return exit, out.String(), errs.String()
}

func words(w ...string) config.VerbCall { return config.VerbCall{Name: config.ToolVerb, Words: w} }
func flag1(name, arg string) config.VerbCall {
	return config.VerbCall{Name: name, Arg: arg}
}

func leaderNode() *fakeNode {
	return &fakeNode{
		access: wire.AccessAdministrator,
		status: map[string]any{"node": exampleNode(), "cluster": exampleCluster(), "audit": AuditList{}, "conditions": ConditionList{}, "doctor": NodeFacts{BeaconsSent: 7}},
		list: EnrollList{Rows: []EnrollRow{
			{Decision: DecisionWaiting, ID: idA, Key: testKey, Name: "web1"}, {Decision: DecisionWaiting, ID: idB, Key: otherKey, Name: "web2"},
		}},
		queue: map[string]any{"list": QueueList{}, "show": QueueShow{}, "history": QueueShow{}, "run-helper": HelperRun{Input: json.RawMessage("{}"), Output: json.RawMessage("{}")}},
	}
}

// TestBothNamesOfAVerb: the flag and the words print the same document.
func TestBothNamesOfAVerb(t *testing.T) {
	for _, c := range []struct {
		flag  config.VerbCall
		words config.VerbCall
	}{
		{flag1("print-identity", ""), words("identity")},
		{flag1("cluster-status", ""), words("fleet")},
		{flag1("cluster-status", ""), words("fleet", "status")},
		{flag1("enroll-list", ""), words("enroll")},
		{flag1("enroll-list", ""), words("enroll", "list")},
		{flag1("enroll-approve", idA+"@"+testKey), words("enroll", "approve", "web1@"+testKey)},
		{flag1("enroll-reject", idA), words("enroll", "reject", "web1")},
		{flag1("enroll-reject", idA+"@"+testKey), words("enroll", "reject", idA[:6]+"@"+testKey)},
		{flag1("enroll-clear", ""), words("enroll", "clear")},
		{flag1("enroll-auto-approve", "15min"), words("enroll", "window", "15m")},
		{flag1("enroll-auto-approve", "off"), words("enroll", "window", "off")},
		{flag1("cluster-admit", idB+"=10.1.0.9:6680@"+otherKey), words("member", "admit", idB+"=10.1.0.9:6680@"+otherKey)},
		{flag1("cluster-admit-learner", idB+"@"+otherKey), words("enroll", "preapprove", idB+"@"+otherKey)},
		{flag1("cluster-forget", idB), words("member", "forget", idB)},
	} {
		for _, asJSON := range []bool{false, true} {
			t.Run(fmt.Sprint(c.words.Words, asJSON), func(t *testing.T) {
				one, two := nodes{"": leaderNode()}, nodes{"": leaderNode()}
				exit, out, errs := one.run(t, c.flag, config.Config{JSON: asJSON}, "")
				exit2, out2, errs2 := two.run(t, c.words, config.Config{JSON: asJSON}, "")
				if exit != 0 || exit2 != 0 || errs != "" || errs2 != "" || out == "" {
					t.Fatalf("%d %q, %d %q", exit, errs, exit2, errs2)
				}
				if diff := cmp.Diff(out, out2); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(one[""].controls, two[""].controls); diff != "" && !slices.Contains([]string{"enroll-approve", "enroll-reject"}, c.flag.Name) {
					t.Error(diff)
				}
				if asJSON {
					wantOneJSON(t, out)
				}
			})
		}
	}
}

// wantOneJSON: exactly one JSON value, with v first.
func wantOneJSON(t *testing.T, out string) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(out))
	var v map[string]any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	if dec.More() || !strings.HasSuffix(out, "}\n") || v["v"] != 1.0 || !strings.HasPrefix(out, `{"v":1`) {
		t.Fatalf("not exactly one versioned value: %q", out)
	}
	return v
}

// TestWhatIsSent: each verb's request as the leader sees it.
func TestWhatIsSent(t *testing.T) {
	key := wire.AppendControlMember(nil, idA, mustKey(t, testKey))
	for _, c := range []struct {
		call    config.VerbCall
		control *wire.EnrollControl
		cluster *wire.ClusterRequest
		queue   *wire.QueueRequest
	}{
		{call: flag1("enroll-approve", idA+"@"+testKey), control: &wire.EnrollControl{Op: wire.ControlApprove, Argument: key}},
		{call: flag1("enroll-reject", idA), control: &wire.EnrollControl{Op: wire.ControlReject, Argument: []byte(idA)}},
		{call: flag1("enroll-reject", idA+"@"+testKey), control: &wire.EnrollControl{Op: wire.ControlReject, Argument: key}},
		{call: flag1("enroll-clear", ""), control: &wire.EnrollControl{Op: wire.ControlClear, Argument: []byte{}}},
		{call: flag1("enroll-auto-approve", "90s"), control: &wire.EnrollControl{Op: wire.ControlWindow, Argument: []byte("90")}},
		{call: flag1("enroll-auto-approve", "1500ms"), control: &wire.EnrollControl{Op: wire.ControlWindow, Argument: []byte("2")}},
		{call: flag1("enroll-auto-approve", "24h"), control: &wire.EnrollControl{Op: wire.ControlWindow, Argument: []byte("86400")}},
		{call: flag1("enroll-auto-approve", "25h"), control: &wire.EnrollControl{Op: wire.ControlWindow, Argument: []byte("90000")}}, // the leader names the bound
		{call: flag1("enroll-auto-approve", "off"), control: &wire.EnrollControl{Op: wire.ControlWindowOff, Argument: []byte{}}},
		{call: flag1("cluster-admit", idB+"=10.1.0.9:6680"), cluster: &wire.ClusterRequest{Op: "admit", ID: idB, Endpoint: "10.1.0.9:6680"}},
		{call: flag1("cluster-admit", "x=[fd00::1]:6680@"+testKey), cluster: &wire.ClusterRequest{Op: "admit", ID: "x", Endpoint: "[fd00::1]:6680", Key: testKey}},
		{call: flag1("cluster-admit-learner", idB), cluster: &wire.ClusterRequest{Op: "admit-learner", ID: idB}},
		{call: flag1("cluster-admit-learner", "x@"+testKey), cluster: &wire.ClusterRequest{Op: "admit-learner", ID: "x", Key: testKey}},
		{call: flag1("cluster-forget", idB), cluster: &wire.ClusterRequest{Op: "forget", ID: idB}},
		{call: flag1("cluster-set", "enrollment.per-source=8"), cluster: &wire.ClusterRequest{Op: "set", Name: "enrollment.per-source", Value: "8"}},
		{call: words("member", "demote", "web1"), cluster: &wire.ClusterRequest{Op: "admit-learner", ID: idA}},
		{call: words("fleet", "transfer"), cluster: &wire.ClusterRequest{Op: "transfer"}},
		{call: words("fleet", "transfer", "web1"), cluster: &wire.ClusterRequest{Op: "transfer", ID: idA}},
		{call: words("member", "forget", "web1"), cluster: &wire.ClusterRequest{Op: "forget", ID: idA}},
		{call: words("queue"), queue: &wire.QueueRequest{Op: "list"}},
		{call: words("queue", "show", "web1"), queue: &wire.QueueRequest{Op: "show", ID: idA}},
		{call: words("queue", "history", idB[:6]), queue: &wire.QueueRequest{Op: "history", ID: idB}},
		{call: words("queue", "retry", "unlisted"), queue: &wire.QueueRequest{Op: "retry", ID: "unlisted"}},
		{call: words("queue", "drop", idC), queue: &wire.QueueRequest{Op: "drop", ID: idC}},
		{call: words("queue", "reprovision", idC), queue: &wire.QueueRequest{Op: "reprovision", ID: idC}},
		{call: words("queue", "pause", "new", "rack"), queue: &wire.QueueRequest{Op: "pause", Reason: "new rack"}},
		{call: words("queue", "resume"), queue: &wire.QueueRequest{Op: "resume"}},
		{call: words("queue", "run-helper", "web1"), queue: &wire.QueueRequest{Op: "run-helper", ID: idA}},
	} {
		t.Run(fmt.Sprint(c.call), func(t *testing.T) {
			node := leaderNode()
			exit, out, errs := nodes{"": node}.run(t, c.call, config.Config{}, "")
			if exit != 0 || out == "" || errs != "" {
				t.Fatalf("%d %q %q", exit, out, errs)
			}
			if c.control != nil {
				if diff := cmp.Diff(*c.control, node.controls[len(node.controls)-1], cmp.Comparer(bytes.Equal)); diff != "" {
					t.Error(diff)
				}
			}
			if c.cluster != nil {
				if diff := cmp.Diff([]wire.ClusterRequest{*c.cluster}, node.clusters); diff != "" {
					t.Error(diff)
				}
			}
			if c.queue != nil {
				if diff := cmp.Diff([]wire.QueueRequest{*c.queue}, node.queues); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestFailures: in failure too stdout is one JSON value with reason and remedy,
// notices are on stderr, and the exit status says what kind of failure it was.
func TestFailures(t *testing.T) {
	refuse := func(code wire.ErrorCode, text, hint string) nodes {
		n := leaderNode()
		n.fail = wire.NewError(code, text, hint)
		return nodes{"": n}
	}
	approve := flag1("enroll-approve", idA+"@"+testKey)
	for _, c := range []struct {
		name   string
		fleet  nodes
		call   config.VerbCall
		cfg    config.Config
		exit   int
		reason string
		remedy string
	}{
		{"approve of an unknown row", refuse(wire.CodeRefusedByRule, "no machine of that id waits", "look at --enroll-list"), approve, config.Config{}, 4, "no machine of that id waits", "look at --enroll-list"},
		{"wrong key for a known row", refuse(wire.CodeKeyMismatch, "the row has another key", ""), approve, config.Config{}, 4, "the row has another key", "--print-identity"},
		{"node stopped", nodes{}, approve, config.Config{}, 5, "does not answer", "start the node"},
		{"follower without a leader", refuse(wire.CodeNotLeader, "", ""), approve, config.Config{}, 5, "no leader at the moment", "try again"},
		{"another machine is away", nodes{}, approve, config.Config{Scheduler: "10.1.0.9:6674"}, 5, "10.1.0.9:6674 does not answer", "6674"},
		{"revoked", refuse(wire.CodeRevoked, "17", ""), approve, config.Config{}, 4, "revoked at revision 17", "--reset-identity"},
		{"waiting list full", refuse(wire.CodeWaitingListFull, "", ""), approve, config.Config{}, 4, "full", "--enroll-list"},
		{"busy", refuse(wire.CodeBusy, "", ""), approve, config.Config{}, 5, "busy", "again"},
		{"older node", refuse(wire.CodeUnknownVerb, "", ""), approve, config.Config{}, 1, "does not know", "same version"},
		{"a later code", refuse(99, "later", ""), approve, config.Config{}, 1, "later", "same version"},
		{"dissolved", refuse(wire.CodeDissolved, "AAAA", ""), approve, config.Config{}, 4, "dissolved", "pacectl node"},
		{"no key", nodes{"": leaderNode()}, words("enroll", "approve", idA), config.Config{}, 2, "needs the key", "ID@KEY"},
		{"bad key", nodes{"": leaderNode()}, words("enroll", "approve", idA+"@short"), config.Config{}, 2, "key", "--enroll-list"},
		{"mistyped word", nodes{}, words("enrol", "list"), config.Config{}, 2, `"enrol" is no word`, "pacectl enroll"},
		{"mistyped second word", nodes{}, words("enroll", "aprove"), config.Config{}, 2, `"aprove" is no word of pacectl enroll`, "pacectl enroll approve"},
		{"hopeless word", nodes{}, words("xyzzy"), config.Config{}, 2, `"xyzzy" is no word`, "node"},
		{"no word", nodes{}, words(), config.Config{}, 2, "needs a word", "node"},
		{"half a word", nodes{}, words("member", "show"), config.Config{}, 2, "takes MACHINE", "pacectl member show MACHINE"},
		{"too many", nodes{}, words("node", "now"), config.Config{}, 2, "nothing more", "pacectl node"},
		{"ambiguous", nodes{"": func() *fakeNode {
			n := leaderNode()
			s := exampleCluster()
			s.Members[1].Name = "web1"
			n.status["cluster"] = s
			return n
		}()}, words("member", "forget", "web1"), config.Config{}, 2, "may mean 2 machines", "whole id"},
		{"no such machine", nodes{"": leaderNode()}, words("member", "show", "web9"), config.Config{}, 4, "no machine of the fleet", "did you mean web1 ("},
		{"no such machine, nor one like it", nodes{"": leaderNode()}, words("member", "show", "xyzzyxyzzy"), config.Config{}, 4, "no machine of the fleet", "member list"},
		{"no name at all", nodes{"": leaderNode()}, words("member", "forget", "$(x)"), config.Config{}, 4, "no machine of the fleet", "pacectl member list"},
		{"a window of nothing", nodes{"": leaderNode()}, flag1("enroll-auto-approve", "0s"), config.Config{}, 2, "window", "15m"},
		{"the id not given back", nodes{"": leaderNode()}, words("fleet", "leave"), config.Config{}, 2, "was not given back", cluster1},
		{"bad endpoint", nodes{"": leaderNode()}, words("member", "admit", "x=nowhere"), config.Config{}, 2, "no HOST:PORT", "ID=HOST:PORT"},
		{"configuration", nodes{"": func() *fakeNode { n := leaderNode(); n.fail = nil; return n }()}, config.VerbCall{Name: "nonsense"}, config.Config{}, 2, "no verb", "--help"},
	} {
		t.Run(c.name, func(t *testing.T) {
			exit, out, errs := c.fleet.run(t, c.call, c.cfg, "")
			if exit != c.exit || out != "" {
				t.Errorf("text: exit %d, want %d; stdout %q", exit, c.exit, out)
			}
			if !strings.Contains(errs, "\nremedy: ") || strings.Count(errs, "\n") != 2 {
				t.Errorf("text: stderr %q", errs)
			}
			c.cfg.JSON = true
			exit, out, errs = c.fleet.run(t, c.call, c.cfg, "")
			if exit != c.exit || errs != "" {
				t.Errorf("JSON: exit %d, want %d; stderr %q", exit, c.exit, errs)
			}
			doc, _ := wantOneJSON(t, out)["error"].(map[string]any)
			reason, _ := doc["reason"].(string)
			remedy, _ := doc["remedy"].(string)
			if !strings.Contains(reason, c.reason) || !strings.Contains(remedy, c.remedy) || reason == "" || remedy == "" || doc["exit"] != float64(c.exit) {
				t.Errorf("reason %q, remedy %q, exit %v", reason, remedy, doc["exit"])
			}
		})
	}
}

func TestEveryCodeEndsAVerb(t *testing.T) {
	for _, row := range wire.Codes {
		f := failureOf(&wire.Error{Code: row.Code}, true)
		if f.Reason == "" || f.Remedy == "" || !slices.Contains([]int{1, 4, 5}, f.Exit) || f.Code != row.Name {
			t.Errorf("%s: %+v", row.Name, f)
		}
	}
	if len(Exits) != len(wire.Codes) {
		t.Errorf("%d rows for %d codes", len(Exits), len(wire.Codes))
	}
	for err, exit := range map[error]int{
		&config.UsageError{What: "w", Remedy: "r"}:                      2,
		&config.RefusedError{Where: "the file", Why: "no"}:              78,
		context.DeadlineExceeded:                                        5,
		errors.New("disk full"):                                         1,
		&NobodyError{Where: "x", Err: fs.ErrNotExist}:                   5,
		&NobodyError{Where: "x", Err: ErrSocketOwner}:                   1,
		fmt.Errorf("wrapped: %w", wire.NewError(wire.CodeBusy, "", "")): 5,
	} {
		if f := failureOf(err, true); f.Exit != exit || f.Reason == "" || f.Remedy == "" {
			t.Errorf("%v: %+v, want exit %d", err, f, exit)
		}
	}
}

// TestRemediesReachTheNodeThatWasAsked: with --state-dir on the command line, what is to be pasted names it too.
func TestRemediesReachTheNodeThatWasAsked(t *testing.T) {
	for _, c := range []struct {
		remedy, dir string
		origin      config.Origin
		want        string
	}{
		{"pace-node --enroll-list", "/tmp/n1", config.OriginFlag, "pace-node --enroll-list --state-dir=/tmp/n1"},
		{"pacectl queue show ID # ID is \\x24x, which cannot be pasted", "/tmp/n1", config.OriginFlag, "pacectl queue show ID --state-dir=/tmp/n1 # ID is \\x24x, which cannot be pasted"},
		{"timedatectl status", "/tmp/n1", config.OriginFlag, "timedatectl status"},
		{"pace-node --enroll-list", "/tmp/n1", config.OriginEnv, "pace-node --enroll-list"},
		{"pace-node --enroll-list", "/tmp/n 1;x", config.OriginFlag, "pace-node --enroll-list"},
	} {
		n := leaderNode()
		d := exampleNode()
		d.Conditions = []ConditionStatus{{ID: "x", Severity: "notice", Remedy: c.remedy}}
		n.status["node"] = d
		cfg := config.Config{JSON: true, StateDir: c.dir, Typed: map[string]config.Origin{"state-dir": c.origin}}
		_, out, _ := nodes{"": n}.run(t, words("node"), cfg, "")
		doc, err := wire.DecodeDocument[NodeStatus]([]byte(out))
		if err != nil || len(doc.Conditions) != 1 || doc.Conditions[0].Remedy != c.want {
			t.Errorf("%s in %q: %+v, %v, want %s", c.remedy, c.dir, doc.Conditions, err, c.want)
		}
	}
}

// TestRedirect: a not-leader redirect is followed, by the socket and by
// --scheduler, and said on stderr only.
func TestRedirect(t *testing.T) {
	to := func(endpoint string) *fakeNode {
		n := leaderNode()
		n.fail = wire.NewError(wire.CodeNotLeader, endpoint, "")
		return n
	}
	leader := leaderNode()
	f := nodes{"": to("10.1.0.9:6674"), "10.1.0.9:6674": leader}
	exit, out, errs := f.run(t, flag1("enroll-clear", ""), config.Config{JSON: true}, "")
	if exit != 0 || errs != "note: not the leader, asking the leader at 10.1.0.9:6674\n" || len(leader.controls) != 1 {
		t.Fatalf("%d %q", exit, errs)
	}
	wantOneJSON(t, out)

	f = nodes{"10.1.0.3:6674": to("10.1.0.4:6674"), "10.1.0.4:6674": to("10.1.0.9:6674"), "10.1.0.9:6674": leaderNode()}
	if exit, _, errs = f.run(t, flag1("enroll-list", ""), config.Config{Scheduler: "10.1.0.3:6674"}, ""); exit != 0 {
		t.Errorf("two hops: %d %q", exit, errs)
	}
	f["10.1.0.9:6674"] = to("10.1.0.7:6674")
	f["10.1.0.7:6674"] = leaderNode()
	if exit, _, _ = f.run(t, flag1("enroll-list", ""), config.Config{Scheduler: "10.1.0.3:6674"}, ""); exit != 5 {
		t.Errorf("three hops: %d", exit)
	}
	f = nodes{"": to("10.1.0.8:6674")}
	if exit, _, errs = f.run(t, flag1("enroll-list", ""), config.Config{}, ""); exit != 5 || !strings.Contains(errs, "10.1.0.8:6674 does not answer") || !strings.Contains(errs, "remedy: check that the machine runs") {
		t.Errorf("a leader that is away: %d %q", exit, errs)
	}
	f = nodes{"10.1.0.3:6674": to("10.1.0.4:6674"), "10.1.0.4:6674": to("10.1.0.3:6674")}
	if exit, _, _ = f.run(t, flag1("enroll-list", ""), config.Config{Scheduler: "10.1.0.3:6674"}, ""); exit != 5 {
		t.Errorf("a circle: %d", exit)
	}
	// An election is waited out, and so is a leader that has just gone: the first machine is asked again.
	for _, gone := range []string{"", "10.1.0.8:6674"} {
		first := to(gone)
		after := time.AfterFunc(100*time.Millisecond, func() { first.setFail(wire.NewError(wire.CodeNotLeader, "10.1.0.9:6674", "")) })
		f = nodes{"": first, "10.1.0.9:6674": leaderNode(), "patient": leaderNode()}
		if exit, _, errs = f.run(t, flag1("enroll-list", ""), config.Config{}, ""); exit != 0 || !strings.HasSuffix(errs, "asking the leader at 10.1.0.9:6674\n") {
			t.Errorf("an election after %q: %d %q", gone, exit, errs)
		}
		after.Stop()
	}
	f = nodes{"": to("$(touch pwned):1")}
	exit, _, errs = f.run(t, flag1("enroll-list", ""), config.Config{}, "")
	if exit != 5 || strings.Contains(errs, "$(") {
		t.Errorf("a hostile endpoint: %d %q", exit, errs)
	}
}

func TestPreapproveList(t *testing.T) {
	node := leaderNode()
	list := "# rack 2\n\n" + idA + "@" + testKey + "\n  " + idB + "@" + otherKey + "  \n"
	exit, _, errs := nodes{"": node}.run(t, words("enroll", "preapprove", "-"), config.Config{}, list)
	if exit != 0 {
		t.Fatalf("%d %q", exit, errs)
	}
	if diff := cmp.Diff([]wire.ClusterRequest{{Op: "admit-learner", Lines: []string{idA + "@" + testKey, idB + "@" + otherKey}}}, node.clusters); diff != "" {
		t.Error(diff)
	}
	node = leaderNode()
	exit, _, errs = nodes{"": node}.run(t, words("enroll", "preapprove", "-"), config.Config{}, idA+"@"+testKey+"\nbroken\n")
	if exit != 2 || !strings.Contains(errs, "line 2") || len(node.clusters) != 0 {
		t.Errorf("%d %q %v", exit, errs, node.clusters)
	}
	node = leaderNode()
	var many strings.Builder
	for i := range preapproveBatch + 1 {
		fmt.Fprintf(&many, "m%d@%s\n", i, testKey)
	}
	exit, out, errs := nodes{"": node}.run(t, words("enroll", "preapprove", "-"), config.Config{}, many.String())
	if exit != 0 || len(node.clusters) != 2 || !strings.Contains(out, "401 machines") {
		t.Errorf("%d %q %q, %d requests", exit, out, errs, len(node.clusters))
	}
}

func TestHostileAnswersToVerbs(t *testing.T) {
	for _, text := range hostile {
		n := leaderNode()
		n.fail = wire.NewError(wire.CodeRefusedByRule, text, text)
		_, _, errs := nodes{"": n}.run(t, flag1("enroll-clear", ""), config.Config{}, "")
		if strings.ContainsAny(errs, "$`;|&<>(){}\x1b\x00") || strings.Count(errs, "\n") != 2 {
			t.Errorf("%q is shown as %q", text, errs)
		}
	}
}

func TestToolHelp(t *testing.T) {
	for _, v := range verbs {
		if v.words != "" && !strings.Contains(wholeHelp(), "pacectl "+v.words) {
			t.Errorf("no %s in the help", v.words)
		}
		if v.flag != "" && !slices.ContainsFunc(config.Verbs, func(c config.Verb) bool { return c.Name == v.flag && (c.Metavar != "") == (v.most != 0) }) {
			t.Errorf("--%s is no verb of the command line, or takes an argument on one side only", v.flag)
		}
	}
	for _, c := range config.Verbs {
		if c.Plain {
			continue
		}
		if !slices.ContainsFunc(verbs, func(v verb) bool { return v.flag == c.Name }) {
			t.Errorf("nothing carries out --%s", c.Name)
		}
	}
}

func TestPrintFailure(t *testing.T) {
	var out, errs bytes.Buffer
	err := &config.RefusedError{Where: "the command line", Key: "--listen", Why: "no port", Remedy: "say [host]:port"}
	if exit := PrintFailure(err, false, false, &out, &errs); exit != 78 || out.Len() != 0 || !strings.HasPrefix(errs.String(), "pace-node: the command line: --listen: no port") || !strings.HasSuffix(errs.String(), "\nremedy: say [host]:port. pace-node --help lists every setting\n") {
		t.Errorf("%d %q %q", exit, &out, &errs)
	}
	if strings.Count(errs.String(), "say [host]:port") != 1 {
		t.Errorf("the remedy is said twice: %q", &errs)
	}
	out.Reset()
	errs.Reset()
	if exit := PrintFailure(&inUse{}, false, true, &out, &errs); exit != 1 || errs.String() != "pacectl: it is in use\nremedy: stop the other one. pacectl doctor looks for what is wrong on this machine\n" {
		t.Errorf("an error that knows its remedy: %d %q", exit, &errs)
	}
	errs.Reset()
	if exit := PrintFailure(&config.UsageError{What: "w", Remedy: "r"}, true, true, &out, &errs); exit != 2 || errs.Len() != 0 {
		t.Errorf("%d %q", exit, &errs)
	}
	wantOneJSON(t, out.String())
}

// inUse is an error that says apart what is wrong and what mends it.
type inUse struct{}

func (inUse) Error() string  { return "it is in use; stop the other one" }
func (inUse) What() string   { return "it is in use" }
func (inUse) Remedy() string { return "stop the other one" }

// TestRemediesHaveTheStateDirectory: a state directory that was typed is in every command of a remedy that has one.
func TestRemediesHaveTheStateDirectory(t *testing.T) {
	const flag = "--state-dir=/srv/x"
	for _, c := range []struct{ remedy, flag, want string }{
		{"pacectl node", flag, "pacectl node --state-dir=/srv/x"},
		{"pacectl doctor # names the rule", flag, "pacectl doctor --state-dir=/srv/x # names the rule"},
		{"sudo pace-node --install-service # or start it by hand: pace-node", flag, "sudo pace-node --install-service --state-dir=/srv/x # or start it by hand: pace-node"},
		{"pace-node --reset-identity --state-dir=/srv/y", flag, "pace-node --reset-identity --state-dir=/srv/y"},
		{"df -h /srv/x", flag, "df -h /srv/x"},
		{"pacectl node # on a machine of the fleet that is meant: its line fleet-id", flag, "pacectl node # on a machine of the fleet that is meant: its line fleet-id"},
		{"pacectl doctor # on that machine", flag, "pacectl doctor # on that machine"},
		{"pacectl member show b # on the copy, and nowhere else: pace-node --reset-identity", flag, "pacectl member show b --state-dir=/srv/x # on the copy, and nowhere else: pace-node --reset-identity"},
		{"sudo nft list ruleset", flag, "sudo nft list ruleset"},
		{"", flag, ""},
		{"pacectl node", "--state-dir=/srv/$(x)", "pacectl node"},
	} {
		if got := addFlag(c.remedy, c.flag); got != c.want {
			t.Errorf("%q: %q, want %q", c.remedy, got, c.want)
		}
	}
	remedies := map[string]pasted{
		"node":   &NodeStatus{Conditions: []ConditionStatus{{Remedy: "pacectl node"}}},
		"fleet":  &ClusterStatus{Conditions: []ConditionStatus{{Remedy: "pacectl node"}}},
		"watch":  &WatchStatus{Conditions: []ConditionStatus{{Remedy: "pacectl node"}}},
		"doctor": &DoctorReport{Findings: []DoctorFinding{{Remedy: "pacectl node"}}},
	}
	for name, d := range remedies {
		if got := d.commands(); len(got) != 1 || *got[0] != "pacectl node" {
			t.Errorf("%s: %v", name, got)
		}
	}
}
