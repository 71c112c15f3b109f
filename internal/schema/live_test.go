package schema_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/netsim"
	"pace-node/internal/node"
	"pace-node/internal/schema"
	"pace-node/internal/wire"
)

// check holds a document against its page of docs/schema.
func check(t *testing.T, name string, document []byte) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("../../docs/schema", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Check(page, document, true); err != nil {
		t.Errorf("%s: %v\n%s", name, err, document)
	}
}

// machine is the network of one node on a simulated segment.
type machine struct {
	addr    netip.Addr
	segment *netsim.Segment
	net     *netsim.Net
}

func (m machine) Datagrams(cfg netio.DatagramConfig) (netio.DatagramPort, error) {
	return m.segment.Attach(m.addr, cfg.Listen.Port()), nil
}

func (m machine) Listen(addr string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	return m.net.Listen(netip.AddrPortFrom(m.addr, uint16(p)))
}

func (m machine) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return m.net.Dialer(m.addr)(ctx, network, addr)
}
func (m machine) Address(netio.DatagramPort) (netip.Addr, bool) { return m.addr, true }
func (m machine) Own(a netip.Addr) bool                         { return a == m.addr }

// pipe serves one node's verbs to a peer in this process.
type pipe struct {
	server *control.Server
	peer   control.Peer
}

func (p pipe) Open(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	go p.server.ServeStream(context.Background(), p.peer, there)
	return here, nil
}
func (p pipe) Close() error { return nil }

// fleet is a founder and a machine that asks it, both whole, in virtual time.
type fleet struct {
	t              *testing.T
	founder, other *node.Node
	servers        map[*node.Node]*control.Server
}

func (f *fleet) until(what string, done func() bool) {
	f.t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
		if done() {
			return
		}
	}
	f.t.Fatalf("after a minute still waiting for: %s", what)
}

// run types a verb at a node, and returns what it printed.
func (f *fleet) run(n *node.Node, exit int, words ...string) []byte {
	f.t.Helper()
	call := config.VerbCall{Name: config.ToolVerb, Words: words}
	if verb, flag := strings.CutPrefix(words[0], "--"); flag {
		call.Words = nil
		call.Name, call.Arg, _ = strings.Cut(verb, "=")
	}
	var stdout, stderr bytes.Buffer
	deps := control.RunDeps{
		DialScheduler: func(context.Context, string) (control.Transport, error) {
			return pipe{f.servers[n], control.Peer{Local: true}}, nil
		},
		PeekIdentity: func(context.Context) (control.Identity, error) {
			return control.Identity{NodeID: n.ID(), PublicKey: n.Key().String(), Host: "10.0.0.1"}, nil
		},
	}
	// Another machine is named by the environment, which verbs that ask none pass over.
	cfg := config.Config{JSON: true, Scheduler: "10.0.0.1:6674", Typed: map[string]config.Origin{"scheduler": config.OriginEnv}}
	got := control.Run(context.Background(), call, cfg, &stdout, &stderr, deps)
	if got != exit {
		f.t.Errorf("%v: exit status %d, want %d\n%s%s", words, got, exit, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.Bytes()
}

// call sends one verb to a node as a peer, and returns the answer's payload.
func (f *fleet) call(n *node.Node, peer control.Peer, verb wire.Verb, request any) []byte {
	f.t.Helper()
	var payload []byte
	if request != nil {
		var err error
		if payload, err = json.Marshal(request); err != nil {
			f.t.Fatal(err)
		}
	}
	out, err := netio.Call(context.Background(), pipe{f.servers[n], peer}, verb, payload)
	if err != nil {
		f.t.Errorf("%s: %v", verb, err)
	}
	return out
}

func (f *fleet) start(dir, name string, m machine) *node.Node {
	f.t.Helper()
	def := filepath.Join(dir, "default.json")
	if err := os.WriteFile(def, []byte(`{"configuration":{"greeting":"hello"}}`), 0o600); err != nil {
		f.t.Fatal(err)
	}
	n, err := node.Start(node.Config{
		Settings: config.Config{StateDir: filepath.Join(dir, name), Name: name, Labels: map[string]string{"room": "12"}, Listen: ":6674", ListenRaft: ":6680",
			Discovery: ":6681", FleetSeeds: []string{"10.0.0.9:6674"},
			Provision: config.ProvisionConfig{Interval: time.Minute, Workers: 1, Queue: 10, HelperTimeout: time.Second, Default: def, Component: wire.ComponentProvision, Mode: "auto"}},
		Network: m, Entropy: func(b []byte) { rand.Read(b) }, Random: mathrand.Float64, NoSync: true,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.servers[n] = control.NewServer(control.ServerConfig{Backend: n})
	return n
}

// TestDocumentsOfARunningFleet holds what two whole nodes answer and what the verbs print against docs/schema.
func TestDocumentsOfARunningFleet(t *testing.T) {
	dir := t.TempDir()
	netsim.Bubble(t, func(t *testing.T) {
		// A clock before 2026 counts as none, and a fleet founded under it as the newest.
		time.Sleep(time.Until(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)))
		segment, streams := netsim.NewSegment(1), netsim.NewNet()
		defer segment.Close()
		f := &fleet{t: t, servers: map[*node.Node]*control.Server{}}
		at := func(i byte) machine { return machine{netip.AddrFrom4([4]byte{10, 0, 0, i}), segment, streams} }
		f.founder = f.start(dir, "alder", at(1))
		defer f.founder.Stop()
		time.Sleep(2 * time.Second) // a fleet's age counts in whole seconds
		f.other = f.start(dir, "birch", at(2))
		defer f.other.Stop()
		for _, s := range f.servers {
			defer s.Close()
		}
		id := f.other.ID()

		f.until("birch asks", func() bool { return bytes.Contains(f.run(f.founder, 0, "enroll", "list"), []byte(`"waiting"`)) })
		check(t, "enroll-list", f.run(f.founder, 0, "--enroll-list"))
		check(t, "node-status", f.run(f.other, 0, "node")) // pending
		check(t, "queue-list", f.run(f.founder, 0, "queue", "list"))
		check(t, "failure", f.run(f.founder, config.ExitUsage, "queue", "shw", "x"))
		check(t, "failure", f.run(f.founder, config.ExitRefused, "--cluster-forget=nobody"))
		check(t, "done", f.run(f.founder, 0, "--cluster-admit-learner="+identity.FormatAdmit("elm", identity.NewPrivateKey([32]byte{7}).Public())))
		check(t, "done", f.run(f.founder, 0, "enroll", "window", "1m"))
		program := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, "release", f.run(f.founder, 0, "release", "new", filepath.Dir(program), "1.0", "linux-amd64="+program))
		f.until("birch follows and is provisioned", func() bool {
			m, _ := f.founder.View().Member(id)
			return f.other.Mode() == formation.Learner && m.Provision.LastSuccess != 0
		})

		for _, n := range []*node.Node{f.founder, f.other} {
			check(t, "node-status", f.run(n, 0, "node"))
			check(t, "cluster-status", f.run(n, 0, "--cluster-status"))
			check(t, "audit-list", f.run(n, 0, "audit"))
			check(t, "watch-status", f.run(n, 0, "watch"))
			check(t, "member-list", f.run(n, 0, "member", "list"))
			check(t, "member-show", f.run(n, 0, "member", "show", "birch"))
			check(t, "condition-list", f.call(n, control.Peer{Local: true}, wire.VerbStatus, wire.StatusRequest{What: "conditions"}))
			check(t, "identity", f.run(n, 0, "--print-identity"))
			check(t, "wire-hello", f.call(n, control.Peer{Key: f.founder.Key()}, wire.VerbHello, wire.Hello{ID: "x", Wire: []int{1}}))
		}
		check(t, "enroll-list", f.run(f.founder, 0, "enroll", "list"))
		check(t, "queue-list", f.run(f.founder, 0, "queue", "list"))
		check(t, "queue-show", f.run(f.founder, 0, "queue", "show", "birch"))
		check(t, "queue-show", f.run(f.founder, 0, "queue", "history", "birch"))
		check(t, "done", f.run(f.founder, 0, "queue", "pause"))
		check(t, "done", f.run(f.founder, 0, "--cluster-set=enrollment.per-source=9"))

		trial := f.run(f.founder, 0, "queue", "run-helper", "birch")
		check(t, "helper-run", trial)
		var run control.HelperRun
		if err := json.Unmarshal(trial, &run); err != nil {
			t.Fatal(err)
		}
		check(t, "helper-input", run.Input)
		check(t, "helper-answer", run.Output)
		var input struct{ Inventory string }
		if err := json.Unmarshal(run.Input, &input); err != nil {
			t.Fatal(err)
		}
		check(t, "work-inventory", []byte(input.Inventory))

		leader := control.Peer{Key: f.founder.Key(), ID: f.founder.ID()}
		check(t, "wire-query-answer", f.call(f.other, leader, wire.VerbQuery, nil))
		work := f.call(f.other, leader, wire.VerbWork, wire.WorkRequest{Step: wire.StepInventory})
		check(t, "wire-work-answer", work)
		check(t, "wire-cluster-answer", f.call(f.founder, control.Peer{Local: true}, wire.VerbCluster, wire.ClusterRequest{Op: "set", Name: "provision.paused", Value: "false"}))
		roster, err := json.Marshal(f.founder.View().Roster(id))
		if err != nil {
			t.Fatal(err)
		}
		check(t, "wire-roster", roster)
		check(t, "done", f.run(f.founder, 0, "member", "forget", "birch"))
	})
}

// TestRequests holds what nodes and verbs send against docs/schema: each Go value once whole and once with nothing in it
// that may be left out.
func TestRequests(t *testing.T) {
	hex := strings.Repeat("0f", 16)
	for _, c := range []struct {
		name  string
		value any
	}{
		{"wire-announce", wire.Announce{Name: "a", Labels: map[string]string{"room": "12"}, Platform: "linux/amd64", Version: "1", Format: 1,
			Endpoints: wire.Endpoints{FC: "10.0.0.1:6674", Raft: "10.0.0.1:6680"}, Component: "server", BootID: hex, Sequence: 3, ConfigDigest: hex + hex, Wants: true, WantsWhy: "first boot"}},
		{"wire-announce", wire.Announce{}},
		{"wire-follow-request", wire.FollowRequest{Epoch: 1, Revision: 2, Digest: hex + hex}},
		{"wire-follow-request", wire.FollowRequest{}},
		{"wire-startup-event-answer", wire.StartupEventAnswer{Admitted: true}},
		{"wire-startup-event-answer", wire.StartupEventAnswer{Refused: "paused"}},
		{"wire-query-answer", wire.QueryAnswer{ID: "a"}},
		{"wire-work-request", wire.WorkRequest{Step: wire.StepConfigure, Lease: []byte{1, 2}, Body: json.RawMessage(`{}`)}},
		{"wire-work-answer", wire.WorkAnswer{Error: "no", Transient: true}},
		{"wire-status-request", wire.StatusRequest{What: "node"}},
		{"wire-cluster-request", wire.ClusterRequest{Op: "admit-learner", Lines: []string{"a@b"}}},
		{"wire-queue-request", wire.QueueRequest{Op: "retry", ID: "a", Reason: "r"}},
		{"work-configure-body", wire.ConfigureBody{Configuration: map[string]string{"a": "b"}, Files: map[string]wire.WorkFile{"f": {Text: "x", Mode: "0644"}},
			ServerClaims: json.RawMessage(`{"a":1}`), Cluster: hex}},
		{"work-configure-answer", wire.ConfigureAnswer{Digest: hex + hex}},
		{"work-restart-body", wire.RestartBody{Digest: hex + hex}},
		{"work-restart-answer", wire.RestartAnswer{Digest: hex + hex, Component: "server", BootID: hex}},
		{"work-upgrade-body", wire.UpgradeBody{Version: "1.2.0", Repository: "/srv/releases", Key: "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3", Again: true}},
		{"work-upgrade-answer", wire.UpgradeAnswer{Version: "1.2.0"}},
		{"work-shutdown-body", wire.ShutdownBody{Msg: "go"}},
		{"health", control.Health{V: 1, Status: "ok", Mode: "voter"}},
		{"condition-list", control.ConditionList{V: 1, View: control.View{Mode: "voter"}, Conditions: []control.ConditionStatus{{ID: "clock-skewed", Severity: "warning"}}}},
	} {
		b, err := json.Marshal(c.value)
		if err != nil {
			t.Fatal(err)
		}
		check(t, c.name, b)
	}
}

// TestCheckRefuses shows that each keyword that docs/schema uses can fail.
func TestCheckRefuses(t *testing.T) {
	for _, c := range []struct{ name, document, want string }{
		{"wire-status-request", `{}`, `no "what"`},
		{"wire-status-request", `{"what":"weather"}`, "one of"},
		{"wire-status-request", `{"what":1}`, "$.what is of type integer, want string"},
		{"wire-status-request", `{"what":"node","more":1}`, "does not name"},
		{"wire-follow-request", `{"epoch":-1,"revision":0}`, "at least 0"},
		{"wire-follow-request", `{"epoch":1.5,"revision":0}`, "$.epoch is of type number, want integer"},
		{"wire-work-request", `{"step":"configure","body":[]}`, "type array"},
		{"work-configure-answer", `{"digest":"0F"}`, "want ^"},
		{"work-configure-body", `{"configuration":{"a":1},"cluster":"c"}`, "$.configuration.a is of type integer"},
		{"done", `{"v":2,"text":"x"}`, "want 1"},
		{"helper-answer", `{"configuration":{}}`, "at least 1"},
		{"helper-answer", `{}`, "fits none"},
		{"helper-answer", `{"defer":false}`, "fits none"},
		{"helper-answer", `{"configuration":{"a":"b"},"pace":{"files":{"f":{"text":"x","mode":"4755"}}}}`, "want ^0"},
		{"condition-list", `{"v":1,"conditions":[null]}`, "type null"},
		{"failure", `{"v":1,"error":{"code":"usage","reason":"r","remedy":"m"}}`, `no "exit"`},
		{"failure", `{"v":1} {}`, "followed"},
		{"failure", `{`, "does not read"},
	} {
		page, err := os.ReadFile(filepath.Join("../../docs/schema", c.name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Check(page, []byte(c.document), true); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want an error with %q", c.name, c.document, err, c.want)
		}
	}
	if err := schema.Check([]byte(`{"maxLength":3}`), []byte(`"x"`), true); err == nil {
		t.Error("a keyword that is not checked goes unseen")
	}
	if err := schema.Check([]byte(`{"type":"object"}`), []byte(`{"later":1}`), false); err != nil {
		t.Errorf("a later version's member is refused: %v", err)
	}
}

// TestExamples holds the helper's documents of docs against their schema.
func TestExamples(t *testing.T) {
	src, err := os.ReadFile("../../docs/examples/helper.sh")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(src), "cat <<JSON\n")
	body, _, ended := strings.Cut(rest, "\nJSON\n")
	if !ok || !ended {
		t.Fatal("docs/examples/helper.sh does not print its answer as it did")
	}
	check(t, "helper-answer", []byte(body))
	for i, doc := range []string{
		`{"defer":true,"msg":"maintenance","pace":{"retry_after":90}}`,
		`{"defer":true,"pace":{"retry_after":"15m"}}`,
		`{"shutdown":true}`,
		`{"configuration":{"a":"b"},"server_claims":{"x":1},"action_policies":{"a.policy":"allow"}}`,
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) { check(t, "helper-answer", []byte(doc)) })
	}
}
