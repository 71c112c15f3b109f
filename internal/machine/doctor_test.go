package machine

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/doctor"
	"pace-node/internal/host"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/probe"
	"pace-node/internal/wire"
)

// blind are eyes that see a machine on which nothing is to be seen; nothing leaves the test.
func blind() eyes {
	return eyes{
		watch:    func(context.Context, []uint16, func(probe.Frame) bool) error { return fs.ErrPermission },
		srv:      func(context.Context, string, string) (string, []netio.SRV, error) { return "", nil, nil },
		endpoint: func(context.Context, string) probe.Endpoint { return probe.Endpoint{ConnectErr: errors.New("refused")} },
		dials:    func(context.Context, string) error { return errors.New("refused") },
		beacon:   func(context.Context, string) error { return errors.New("no answer") },
		interfaces: func(netio.InterfaceRules) ([]netio.InterfaceChoice, string, error) {
			return []netio.InterfaceChoice{{Name: "eth0", Addr: netip.MustParsePrefix("10.1.0.2/16"), Broadcast: netip.MustParseAddr("10.1.255.255"), Used: true}}, "eth0", nil
		},
		run: func(context.Context, string, string, ...string) (host.Result, error) {
			return host.Result{}, errors.New("no such program")
		},
	}
}

func askOf(node *control.NodeStatus, facts *control.NodeFacts) control.DoctorAsk {
	return control.DoctorAsk{
		Node: func(context.Context) (control.NodeStatus, error) {
			if node == nil {
				return control.NodeStatus{}, errors.New("no socket")
			}
			return *node, nil
		},
		Facts:    func(context.Context) (control.NodeFacts, error) { return *facts, nil },
		Progress: func(string) {},
	}
}

func patient(t *testing.T, args ...string) *Machine {
	return New(fake{service: filepath.Join(t.TempDir(), "s")}, settings(t, append([]string{"--listen=127.0.0.1:0", "--listen-raft=127.0.0.1:0", "--admin-listen="}, args...)...))
}

func TestCollectWithoutANode(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("on a Mac it would send to the network")
	}
	m := patient(t, "--fleet-seed=10.1.0.9", "--fleet-seed=me")
	see := blind()
	see.endpoint = func(_ context.Context, endpoint string) probe.Endpoint {
		if strings.HasPrefix(endpoint, "me:") {
			return probe.Endpoint{Addresses: []string{"10.1.0.2"}, ConnectErr: errors.New("refused")}
		}
		return probe.Endpoint{ConnectErr: errors.New("refused")}
	}
	f := m.collect(t.Context(), askOf(nil, nil), see)
	if f.Node != nil || f.Silent.Err != "no socket" || !f.State.Absent || f.State.Size == 0 || !f.Discovery || f.Beacons != 6681 {
		t.Errorf("%+v", f)
	}
	if len(f.Seeds) != 2 || f.Seeds[0].Err != "refused" || f.Seeds[0].Self || !f.Seeds[1].Self {
		t.Errorf("seeds: %+v", f.Seeds)
	}
	if f.Watch.Skipped == "" || f.Watch.For != 0 {
		t.Errorf("without a node somebody watched: %+v", f.Watch)
	}
}

// TestCollectWatches: what arrives is kept once, own beacons and other programs' datagrams are not, and the counters of the
// node are read again afterwards.
func TestCollectWatches(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("on a Mac it would send to the network")
	}
	node := &control.NodeStatus{Mode: "solitary", Discovery: control.DiscoveryStatus{On: true, Listener: "0.0.0.0:6681", Answering: "0.0.0.0:40000",
		Interfaces: []control.InterfaceStatus{{Name: "eth0", Address: "10.1.0.2/16", Used: true}}}}
	facts := &control.NodeFacts{BeaconsSent: 3, AtAnswering: 5}
	see := blind()
	frame := func(from, to string, head ...byte) probe.Frame {
		return probe.Frame{From: netip.MustParseAddrPort(from), To: netip.MustParseAddrPort(to), Head: [3]byte(append(head, 0, 0, 0)[:3])}
	}
	see.watch = func(_ context.Context, ports []uint16, seen func(probe.Frame) bool) error {
		if len(ports) != 2 || ports[0] != 6681 || ports[1] != 40000 {
			t.Errorf("ports %v", ports)
		}
		beacon := frame("10.1.0.3:50000", "10.1.255.255:6681", wire.Magic, wire.DatagramVersion, 1)
		for i, f := range []probe.Frame{frame("10.1.0.2:1", "10.1.255.255:6681", wire.Magic, 3, 1), frame("10.1.0.4:1", "10.1.255.255:6681", 'x'), beacon, beacon} {
			if seen(f) {
				t.Errorf("frame %d is enough", i)
			}
		}
		if !seen(frame("10.1.0.3:50000", "10.1.0.2:40000", wire.Magic, 3, 3)) {
			t.Error("a beacon and an answer are not enough")
		}
		facts.AtAnswering, facts.BeaconsHeard = 6, 1
		return nil
	}
	f := patient(t).collect(t.Context(), askOf(node, facts), see)
	if w := f.Watch; len(w.Beacons) != 1 || w.Answers != 1 || w.AnsweredThen != 1 || w.HeardThen != 1 || w.For == 0 || f.Node.BeaconsHeard != 1 {
		t.Errorf("%+v", f.Watch)
	}
	// Where others are proven nobody watches, and where one may not, it is said.
	facts.ProofsVerified, facts.Heard = 1, []control.HeardFrom{{Address: "10.1.0.3", Proven: true}}
	if f := patient(t).collect(t.Context(), askOf(node, facts), see); f.Watch.For != 0 {
		t.Error("watched although others are proven")
	}
	facts.ProofsVerified = 0
	if f := patient(t).collect(t.Context(), askOf(node, facts), blind()); !strings.Contains(f.Watch.Skipped, "sudo pacectl doctor") {
		t.Errorf("%q", f.Watch.Skipped)
	}
}

func TestCollectRemote(t *testing.T) {
	key := identity.NewPrivateKey([32]byte{1}).Public()
	see := blind()
	see.endpoint = func(_ context.Context, endpoint string) probe.Endpoint {
		if endpoint != "birch:6674" {
			t.Errorf("asked %s", endpoint)
		}
		return probe.Endpoint{Addresses: []string{"10.1.0.3"}, Key: key, Offset: time.Hour, Hello: wire.Hello{ID: "b", Name: "birch", Version: "1", Wire: []int{1}},
			Summary: wire.Summary{Cluster: "cc", State: wire.StateEstablished, Total: 4, RaftEndpoint: "192.0.2.1:6680"}}
	}
	see.dials = func(_ context.Context, endpoint string) error {
		if endpoint != "birch:6680" {
			t.Errorf("dials %s: another machine says where", endpoint)
		}
		return nil
	}
	r, err := patient(t).collectRemote(t.Context(), "birch", askOf(&control.NodeStatus{FleetID: "cc@k", Version: "1"}, nil), see)
	if err != nil || r.Key != key.String() || r.OwnCluster != "cc" || r.Raft != "birch:6680" || r.RaftErr != "" || r.UDP || r.ClockAhead != time.Hour || r.Members != 4 {
		t.Errorf("%v %+v", err, r)
	}
	if d := reportOf(nil, doctor.ExamineRemote(&r)); d.Verdict != "warning" {
		t.Errorf("%+v", d)
	}
	if _, err := patient(t).collectRemote(t.Context(), "a b", askOf(nil, nil), see); err == nil || remedyOf(err) == "" {
		t.Errorf("no machine: %v", err)
	}
}

// TestReportFillsRemedies: what cannot be pasted is not in a command.
func TestReportFillsRemedies(t *testing.T) {
	d := reportOf(map[string]string{"ports": "the ports"}, []doctor.Finding{
		{Check: "ports", Verdict: doctor.Problem, Detail: "d", Remedy: "look at {it}", Args: []string{"eth0"}},
		{Check: "ports", Verdict: doctor.Problem, Detail: "d", Remedy: "look at {it}", Args: []string{"$(x)"}},
	})
	if d.Verdict != "problem" || d.Findings[0].Remedy != "look at eth0" || !strings.HasPrefix(d.Findings[1].Remedy, "look at IT # IT is ") || d.Findings[0].Looks != "the ports" {
		t.Errorf("%+v", d)
	}
}
