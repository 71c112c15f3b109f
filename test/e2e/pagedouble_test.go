//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/control/page"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// double is a node of which only the documents exist: what the page makes of fleets that no test can start.
type double struct {
	control.Backend // nothing else is asked of it

	mu   sync.Mutex
	docs doubleDocs
	did  []string // what was asked of it, beside reading
}

type doubleDocs struct {
	node    control.NodeStatus
	fleet   control.ClusterStatus
	waiting control.EnrollList
	queue   control.QueueList
	audit   control.AuditList
	follows control.FollowList
}

func (d *double) Status(_ context.Context, _ control.Peer, r wire.StatusRequest) (json.RawMessage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch r.What {
	case "node":
		return json.Marshal(d.docs.node)
	case "cluster":
		return json.Marshal(d.docs.fleet)
	case "audit":
		return json.Marshal(d.docs.audit)
	case "follows":
		return json.Marshal(d.docs.follows)
	}
	return nil, wire.NewError(wire.CodeRefusedByRule, "the double has no "+r.What, "ask for another")
}

func (d *double) EnrollControl(_ context.Context, _ control.Peer, c wire.EnrollControl) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.Op == wire.ControlList {
		return json.Marshal(d.docs.waiting)
	}
	id, _, _ := wire.ControlMember(c.Argument)
	d.did = append(d.did, fmt.Sprintf("%v %s", c.Op, id))
	for i := range d.docs.waiting.Rows {
		if r := &d.docs.waiting.Rows[i]; r.ID == id && c.Op == wire.ControlApprove {
			r.Decision = control.DecisionApproved
			return json.Marshal(control.Done{V: 1, Said: id + " is admitted"})
		}
	}
	return nil, wire.NewError(wire.CodeRefusedByRule, "no machine is waiting under that id", "pace-node --enroll-list")
}

func (d *double) Queue(_ context.Context, _ control.Peer, r wire.QueueRequest) (json.RawMessage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Op == "list" {
		return json.Marshal(d.docs.queue)
	}
	d.did = append(d.did, r.Op+" "+r.ID)
	return json.Marshal(control.Done{V: 1, Said: r.Op + " of " + r.ID})
}

// asked is what was asked of it so far.
func (d *double) asked() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.did)
}

// become gives it other documents.
func (d *double) become(change func(*doubleDocs)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.docs)
}

// serve serves the page of the double in the host as a node does, and returns what mints one-time addresses.
func (d *double) serve(t *testing.T, h *host) (ticket func() string) {
	t.Helper()
	metrics := control.NewMetrics(control.NewBoard(nil), nil)
	p := page.New(page.Config{Backend: d, Metrics: metrics, Entropy: func(b []byte) { rand.Read(b) }})
	served := control.StartHTTP(control.HTTPConfig{Addr: "127.0.0.1:6690", Metrics: metrics, Page: p,
		Health: func() control.HealthFacts { return control.HealthFacts{Alive: true, Loaded: true, Bound: true} },
		Listen: func(network, address string) (l net.Listener, err error) {
			h.in(func() { l, err = net.Listen(network, address) })
			return l, err
		}})
	t.Cleanup(served.Close)
	if served.Addr() == "" {
		t.Fatal("the double's page is not served")
	}
	return func() string {
		token, _ := p.Ticket()
		return pageAddress + "#token=" + token
	}
}

// keyOf is the key text of the nth machine of a double: always the same, so that pictures are.
func keyOf(n int) string {
	return identity.NewPrivateKey([32]byte{'d', byte(n), byte(n >> 8)}).Public().String()
}

func idOf(n int) string { return fmt.Sprintf("%032x", 0x5ca1ab1e00000000+uint64(n)*0x9e3779b1) }

func ms(d time.Duration) *int64 { v := d.Milliseconds(); return &v }

// trees name the machines of a double.
var trees = strings.Fields("alder birch cedar dogwood elm fir ginkgo hazel ivy juniper larch maple")

func treeOf(n int) string {
	if n < len(trees) {
		return trees[n]
	}
	return fmt.Sprintf("%s-%d", trees[n%len(trees)], n/len(trees))
}

// whom the nth machine of a double follows: the other voters the leader, learners each of the voters in turn.
func whom(n int) int {
	if n < 3 {
		return 0
	}
	return n % 3
}

// fleetOf is a fleet of n machines, of which the first three vote and the first leads; every seventh learner was not heard for a
// while.
func fleetOf(n int) doubleDocs {
	const founded = 1_794_000_000
	view := control.View{Mode: "voter", Leads: true, Revision: uint64(41 + n), VotersHeard: 3, VotersTotal: 3}
	members := make([]control.MemberStatus, n)
	follows := []control.FollowLink{}
	for i := range members {
		m := &members[i]
		*m = control.MemberStatus{ID: idOf(i), Key: keyOf(i), Name: treeOf(i), Role: "learner", Platform: "linux/amd64", Version: "1.4.0", Provisioning: "provisioned",
			Endpoints: wire.Endpoints{FC: fmt.Sprintf("192.0.2.%d:6674", i%250+1)}, HeardMS: ms(0), Arrived: true, Admitted: int64(founded + 60*i), AdmittedBy: keyOf(0),
			Labels: map[string]string{"rack": fmt.Sprint(i % 4)}}
		switch {
		case i < 3:
			m.Role, m.Endpoints.Raft = "voter", fmt.Sprintf("192.0.2.%d:6680", i+1)
		case i%7 == 0:
			m.HeardMS = ms(26 * time.Minute)
		}
		m.Self = i == 0
		if i > 0 {
			follows = append(follows, control.FollowLink{ID: m.ID, Follows: idOf(whom(i))})
		}
	}
	slices.SortFunc(follows, func(a, b control.FollowLink) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(members, func(a, b control.MemberStatus) int { return strings.Compare(a.ID, b.ID) })
	leader := control.Machine{ID: idOf(0), Name: treeOf(0), Endpoint: "192.0.2.1:6674"}
	const cluster = "024637eb4cdc703368073853d08d50b9"
	return doubleDocs{
		node: control.NodeStatus{V: 1, Version: "1.4.0", Mode: "voter", NodeID: idOf(0), Name: treeOf(0), PublicKey: keyOf(0), FleetID: cluster + "@" + keyOf(0), Leader: &leader, View: view,
			Voters: 3, Learners: n - 3, Endpoints: control.Endpoints{Advertised: "192.0.2.1:6674", Listen: ":6674", Raft: ":6680", Admin: "127.0.0.1:6690"},
			Peers: control.PeersStatus{Heard: n - 1, Authenticated: n - 1, ForeignClear: true, Sessions: n - 1}, UptimeMS: (51 * time.Hour).Milliseconds(), StateDir: "/var/lib/pace-node",
			Discovery: control.DiscoveryStatus{On: true, Listener: "0.0.0.0:6681", Answering: "0.0.0.0:6682", Interfaces: []control.InterfaceStatus{{Name: "eth0", Address: "192.0.2.1/24", Used: true}}}},
		fleet: control.ClusterStatus{V: 1, Cluster: cluster, Created: founded, AgeMS: (51 * time.Hour).Milliseconds(), Leader: &leader, View: view, Members: members,
			PreApprove: []control.PreApproved{}, Settings: []control.Setting{}, Conditions: []control.ConditionStatus{}},
		waiting: control.EnrollList{V: 1, Cluster: cluster, Rows: []control.EnrollRow{}},
		queue:   control.QueueList{V: 1, View: view, Entries: []control.QueueEntry{}},
		follows: control.FollowList{V: 1, View: view, Links: follows},
		audit: control.AuditList{V: 1, View: view, Entries: []control.AuditEntry{
			{At: founded, By: keyOf(0), Did: "found", What: cluster, Revision: 1},
			{At: founded + 60, By: keyOf(0), Did: "admit", What: treeOf(1), Revision: 4},
			{At: founded + 120, By: keyOf(0), Did: "admit", What: treeOf(2), Revision: 6},
			{At: founded + 180, By: keyOf(0), Did: "promote", What: treeOf(1), Revision: 9},
		}},
	}
}

// busy adds what a day has: machines that wait, some with marks, a queue in every state, conditions of every severity, a member
// of another version, and two that were approved and did not come.
func (d *doubleDocs) busy() {
	row := func(n int, decision string) control.EnrollRow {
		return control.EnrollRow{Decision: decision, ID: idOf(n), Key: keyOf(n), Name: treeOf(n), Platform: "linux/arm64", Version: "1.4.0", Endpoint: fmt.Sprintf("192.0.2.%d:6674", n+1),
			Source: fmt.Sprintf("192.0.2.%d", n+1), AgeMS: 42_000, HeardMS: 2_000, Attempts: 3}
	}
	sly := row(9, control.DecisionWaiting)
	sly.Name, sly.Source, sly.AddressDiffers = treeOf(1), "198.51.100.77", true
	sly.NameOf = &control.NameClash{ID: idOf(1), HeardMS: ms(time.Second)}
	d.waiting.Rows = []control.EnrollRow{row(8, control.DecisionWaiting), sly, row(7, control.DecisionApproved)}
	var entries []control.QueueEntry
	for i, state := range control.QueueStates[:len(control.QueueStates)-1] {
		e := control.QueueEntry{ID: idOf(i), Name: treeOf(i), State: state, Attempt: i, LastSuccessMS: ms(time.Duration(3*i) * time.Hour)}
		switch state {
		case "running":
			e.Stage = "configure"
		case "backing off":
			e.Stage, e.LastError, e.DueMS = "helper", "the helper ended with status 3: no profile for rack 2", ms(95*time.Second)
		case "parked":
			e.Stage, e.LastError = "configure", "write provisioned/current: no space left on device"
		case "deferred":
			e.DueMS = ms(10 * time.Minute)
		}
		entries = append(entries, e)
	}
	d.queue.Entries = entries
	d.fleet.Conditions = []control.ConditionStatus{
		{ID: "identity-cloned", Severity: "alert", Detail: "the key of fir is spoken from 192.0.2.6 and 192.0.2.61", Remedy: "pacectl member show fir # on the copy, and nowhere else: pace-node --reset-identity", SinceMS: 240_000},
		{ID: "provisioning-failing", Severity: "warning", Detail: "fir is parked: write provisioned/current: no space left on device; one more", Remedy: "pacectl queue show fir", SinceMS: 500_000},
		{ID: "enrollment-requests-waiting", Severity: "notice", Detail: "2 machines wait", Remedy: "pace-node --enroll-list", SinceMS: 42_000},
	}
	d.node.Conditions = slices.Clone(d.fleet.Conditions)
	for i := range d.fleet.Members {
		switch m := &d.fleet.Members[i]; m.Name {
		case "elm":
			m.Version = "1.5.0"
		case "larch": // approved a moment ago
			m.HeardMS, m.Arrived, m.AdmittedMS, m.Version, m.Platform, m.Provisioning = nil, false, 20_000, "", "", "none"
		case "maple": // approved long ago
			m.HeardMS, m.Arrived, m.AdmittedMS, m.Version, m.Platform, m.Provisioning = nil, false, (26 * time.Hour).Milliseconds(), "", "", "none"
		}
	}
}
