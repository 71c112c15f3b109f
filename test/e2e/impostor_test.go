//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/discovery"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

// lie is what an impostor says of itself and does. It proves all of it, under its own key.
type lie struct {
	Seed    [32]byte // of its key
	Host    string   // its address
	Cluster string
	Created uint64
	// The leader that its summary names: itself where these are empty.
	LeaderKey, LeaderEndpoint string
	// Answer is what it does with an ask: approve, wait, or redirect to To.
	Answer, To string
	Mute       bool // sends no beacons
}

func (l *lie) key() identity.PrivateKey { return identity.NewPrivateKey(l.Seed) }

// impostorVariable carries the lie to the impostor's process.
const impostorVariable = "PACE_E2E_IMPOSTOR"

// impostor is a process of this test binary that poses as a fleet. It prints a line for each thing that it is asked.
type impostor struct {
	lie
	t   *testing.T
	log *logFile
}

// impostor runs one in the host's namespace; stop ends it.
func (h *host) impostor(t *testing.T, l lie) (i *impostor, stop func()) {
	t.Helper()
	if l.Host == "" {
		l.Host = h.addr.String()
	}
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	i = &impostor{lie: l, t: t, log: newLog(t)}
	cmd := exec.Command("ip", "netns", "exec", h.ns, os.Args[0], "-test.run=^TestImpostorProcess$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), impostorVariable+"="+string(text), "PACE_BINARY="+binary)
	i.log.takes(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { cmd.Wait(); close(done) }()
	stop = func() { cmd.Process.Kill(); <-done }
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("--- impostor at %s\n%s", l.Host, i.log)
		}
	})
	until(t, "the impostor serves", func() (bool, string) {
		select {
		case <-done:
			t.Fatalf("the impostor ended: %s", i.log)
		default:
		}
		return strings.Contains(i.log.String(), "impostor serves"), i.log.String()
	})
	return i, stop
}

// count is how often a machine asked it something.
func (i *impostor) count(what string, by identity.PublicKey) (n int) {
	for line := range strings.Lines(i.log.String()) {
		if strings.HasPrefix(line, what+" "+by.String()) {
			n++
		}
	}
	return n
}

// summaries counts how often anybody took its signed summary, or a part of it by beacon.
func (i *impostor) has(what string, by identity.PublicKey) {
	i.t.Helper()
	until(i.t, "the impostor hears "+what, func() (bool, string) { return i.count(what, by) > 0, i.log.String() })
}

// TestImpostorProcess is the impostor's process, and nothing otherwise.
func TestImpostorProcess(t *testing.T) {
	text := os.Getenv(impostorVariable)
	if text == "" {
		return
	}
	var l lie
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatal(err)
	}
	if err := l.serve(); err != nil {
		t.Fatal(err)
	}
}

func (l *lie) endpoint() string { return net.JoinHostPort(l.Host, "6674") }

func (l *lie) summary() wire.Summary {
	id := fmt.Sprintf("%032x", l.Seed[:16])
	s := wire.Summary{Cluster: l.Cluster, State: wire.StateEstablished, Created: l.Created, Node: id, OwnEndpoint: l.endpoint(), RaftEndpoint: net.JoinHostPort(l.Host, "6680"),
		Leader: wire.Leader{ID: id, Endpoint: l.endpoint(), Key: l.key().Public(), HasKey: true}, Members: []string{id}, Total: 9}
	if l.LeaderEndpoint != "" {
		s.Leader.ID, s.Leader.Endpoint = "leader", l.LeaderEndpoint
	}
	if key, err := identity.ParsePublicKey(l.LeaderKey); err == nil {
		s.Leader.Key = key
	}
	return s
}

func (l *lie) serve() error {
	entropy := func(b []byte) { rand.Read(b) }
	server := control.NewServer(control.ServerConfig{Backend: &liar{lie: l}})
	hub := netio.NewHub(netio.HubConfig{Key: l.key(), Handler: &impostorSessions{server}})
	listener, err := net.Listen("tcp", ":6674")
	if err != nil {
		return err
	}
	go hub.Serve(listener)
	port, err := netio.OpenDatagram(netio.DatagramConfig{Listen: netip.MustParseAddrPort("0.0.0.0:6681")})
	if err != nil {
		return err
	}
	self := discovery.Self{Summary: l.summary()}
	if l.Mute {
		self = discovery.Self{}
	}
	x := discovery.New(discovery.Config{Entropy: entropy, Key: l.key()}, time.Now(), self)
	fmt.Println("impostor serves", l.key().Public())
	for {
		var out discovery.Output
		select {
		case d := <-port.Receive():
			on := discovery.SocketListener
			if d.Answering {
				on = discovery.SocketAnswering
			}
			out = x.Handle(time.Now(), on, d.From, d.Local, d.Bytes)
		case <-time.After(100 * time.Millisecond):
			out = x.Tick(time.Now())
		}
		if out.Beacon != nil {
			port.Beacon(out.Beacon)
		}
		for _, d := range out.Send {
			port.Send(d.To, d.Local, d.Bytes)
		}
		for _, e := range out.Events {
			if e.Kind == discovery.EventForeignProven {
				fmt.Println("proven", e.Key)
			}
		}
	}
}

// impostorSessions hands streams to the verbs.
type impostorSessions struct{ *control.Server }

func (s *impostorSessions) ServeStream(ctx context.Context, n *netio.Session, stream net.Conn) {
	s.Server.ServeStream(ctx, control.Peer{Key: n.Peer(), Addr: n.RemoteAddr(), Session: n}, stream)
}
func (s *impostorSessions) SessionOpened(n *netio.Session)          { fmt.Println("session", n.Peer()) }
func (s *impostorSessions) SessionClosed(n *netio.Session, _ error) { s.Server.SessionClosed(n) }

// liar answers the verbs of a machine that looks for a fleet; every other one is for members, and it has none.
type liar struct {
	lie *lie
	control.Backend
}

func (l *liar) Access(control.Peer) (wire.Access, *wire.Error) { return wire.AccessAnybody, nil }

func (l *liar) Hello(_ context.Context, p control.Peer, h wire.Hello) (wire.Hello, error) {
	fmt.Println("hello", p.Key, h.ID)
	p.Session.(*netio.Session).SetHello(h, time.Now())
	return wire.Hello{ID: l.lie.summary().Node, Cluster: l.lie.Cluster, Wire: []int{wire.ProtocolVersion}, Format: 1, ClockMS: time.Now().UnixMilli()}, nil
}

func (l *liar) FleetSummary(_ context.Context, p control.Peer, nonce [32]byte) (wire.FleetSummaryAnswer, error) {
	fmt.Println("summary", p.Key)
	s := l.lie.summary()
	raw, _ := wire.FitSummary(&s)
	key := l.lie.key().Public()
	return wire.FleetSummaryAnswer{Summary: s, Raw: raw, Key: key, Signature: l.lie.key().Sign(wire.FleetSummaryMessage(nonce, raw, key))}, nil
}

func (l *liar) Enroll(ctx context.Context, p control.Peer, r wire.EnrollRequest, _ func(wire.EnrollAnswer) error) (wire.EnrollAnswer, func() error, error) {
	fmt.Println("enroll", p.Key, r.ID)
	a := wire.EnrollAnswer{Outcome: wire.OutcomePending, Signer: l.lie.key().Public()}
	switch l.lie.Answer {
	case "redirect":
		return a, nil, wire.NewError(wire.CodeNotLeader, l.lie.To, "another machine leads")
	case "approve":
		a.Outcome = wire.OutcomeApproved
		own := l.lie.key().Public()
		a.Roster, _ = json.Marshal(wire.Roster{Cluster: l.lie.Cluster, Created: l.lie.Created, Revision: 7,
			Voters: []wire.RosterVoter{{ID: l.lie.summary().Node, Key: own.String(), Endpoints: wire.Endpoints{FC: l.lie.endpoint()}}},
			Self:   wire.RosterMember{ID: r.ID, Key: identity.PublicKey(r.Key).String(), Role: "learner", Admitted: time.Now().Unix(), AdmittedBy: own.String()}})
	}
	a.Signature = l.lie.key().Sign(a.Message(r.Nonce, r.ID, r.Key, l.lie.Cluster))
	return a, func() error { <-ctx.Done(); return nil }, nil
}
