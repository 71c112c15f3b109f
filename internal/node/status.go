package node

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/follow"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/statedir"
	"pace-node/internal/version"
	"pace-node/internal/wire"
)

// own is formation's record, asked of the loop.
func (n *Node) own(ctx context.Context) (formation.Own, error) {
	var own formation.Own
	err := n.ask(ctx, func(time.Time) { own = n.form.Own() })
	return own, err
}

// pictured says how old the picture is that a document shows.
func (n *Node) pictured() control.View {
	v := n.view.Load()
	out := control.View{Mode: n.mode.Load().String(), Leads: n.isLeader(), Epoch: v.Epoch(), Revision: v.Revision(), VotersTotal: len(v.Voters())}
	b := n.serving.Load()
	switch {
	case b == nil:
	case b.learner != nil:
		out.AsOfMS = b.silent(time.Now()).Milliseconds()
		if silent := n.leaderSilent(); silent > follow.SilenceLimit {
			out.LeaderSilentMS = silent.Milliseconds()
		}
	default:
		if silent := b.cons.LastContact(); silent > tellSilence {
			out.LeaderSilentMS = silent.Milliseconds()
		}
		out.VotersHeard = 1
	}
	for _, m := range v.Voters() {
		if m.ID != n.id && n.hub.ByKey(m.Key) != nil {
			out.VotersHeard++
		}
	}
	return out
}

func (n *Node) leaderDoc() *control.Machine {
	l := n.leader()
	if l.id == "" {
		return nil
	}
	m, _ := n.view.Load().Member(l.id)
	return &control.Machine{ID: l.id, Name: m.Name, Endpoint: l.endpoint}
}

// Status implements control.Backend.
func (n *Node) Status(ctx context.Context, p control.Peer, r wire.StatusRequest) (json.RawMessage, error) {
	switch r.What {
	case "node":
		return n.nodeStatus(ctx)
	case "cluster":
		return n.clusterStatus(ctx)
	case "recover":
		if !p.Local {
			return nil, wire.NewError(wire.CodeRefusedByRule, "a fleet is recovered on the machine that is to be its voter", "type pacectl fleet recover there")
		}
		out, err := n.recoveryPreview(ctx)
		if err != nil {
			return nil, err
		}
		return encode(out)
	case "doctor":
		if !p.Local {
			return nil, wire.NewError(wire.CodeRefusedByRule, "what a machine has seen of its network is told to its own administrators", "type pacectl doctor there")
		}
		out, err := n.seen(ctx)
		if err != nil {
			return nil, err
		}
		return encode(out)
	case "stale":
		out, err := n.staleMembers(ctx, r)
		if err != nil {
			return nil, err
		}
		return encode(out)
	case "backup":
		if !p.Local {
			return nil, wire.NewError(wire.CodeRefusedByRule, "a machine is backed up by its own administrators", "type pacectl fleet backup there")
		}
		out, err := n.backupPart(r)
		if err != nil {
			return nil, err
		}
		return encode(out)
	case "follows":
		return encode(n.follows(ctx, p))
	case "dashboard":
		if !p.Local {
			return nil, wire.NewError(wire.CodeRefusedByRule, "a web page is opened by its own machine's administrators", "type pacectl dashboard there")
		}
		out, err := n.dashboard()
		if err != nil {
			return nil, err
		}
		return encode(out)
	case "watch":
		return n.watch(ctx, p, r)
	case "conditions":
		return encode(control.ConditionList{V: control.DocumentVersion, View: n.pictured(), Conditions: n.board.List()})
	case "audit":
		out := control.AuditList{V: control.DocumentVersion, View: n.pictured(), Entries: []control.AuditEntry{}}
		v := n.view.Load()
		if b := n.serving.Load(); b != nil && b.learner != nil {
			out.Note = n.noAudit()
		}
		for _, e := range v.Audit() {
			what := strings.TrimSpace(e.Subject + " " + e.Detail)
			a := control.AuditEntry{At: e.At, By: e.By, Did: e.What, What: what, Revision: e.Revision, Subject: e.Subject}
			if key, err := identity.ParsePublicKey(e.By); err == nil {
				m, _ := v.ByKey(key)
				a.ByName = m.Name
			}
			m, _ := v.Member(e.Subject)
			a.Name = m.Name
			out.Entries = append(out.Entries, a)
		}
		return encode(out)
	}
	if r.What == "seat" { // asked by the leader that promotes this machine
		return encode(n.seatReport())
	}
	if r.What == "agreement" { // asked by a voter that follows this one
		return encode(n.serving.Load().agreesAt(r.Revision))
	}
	if r.What == "roster" { // asked by a voter that heard no leader
		v := n.view.Load()
		m, _ := v.ByKey(p.Key)
		return encode(v.Roster(m.ID))
	}
	return nil, wire.NewError(wire.CodeRefusedByRule, fmt.Sprintf("there is no status of %q", wire.Printable(r.What)), "node, cluster, conditions, audit or watch")
}

func (n *Node) nodeStatus(ctx context.Context) (json.RawMessage, error) {
	v := n.view.Load()
	out := control.NodeStatus{
		V: control.DocumentVersion, Version: version.Version, NodeID: n.id, Name: n.name, PublicKey: n.key.Public().String(), FleetPin: n.cfg.Settings.FleetID,
		Leader: n.leaderDoc(), View: n.pictured(), Voters: len(v.Voters()), Learners: v.CountRole(fleet.RoleLearner), StateDir: n.dir.Path(),
		UptimeMS: time.Since(n.started).Milliseconds(), Conditions: n.board.List(),
		Endpoints: control.Endpoints{Advertised: n.fcEndpoint(), Listen: n.fcListener.Addr().String(), Admin: n.adminAddr()},
		Peers:     control.PeersStatus{Sessions: len(n.hub.Sessions())},
	}
	out.Mode = out.View.Mode
	if b := n.serving.Load(); b != nil && b.cons != nil {
		out.Endpoints.Raft = cmp.Or(n.endpoint(b.raftPort), b.layer.Addr().String()) // open, also while there is no address to tell
	} else if b != nil {
		if s := b.seat.Load(); s != nil { // a learner that is to vote: open before it serves as one
			out.Endpoints.Raft = cmp.Or(n.endpoint(portOf(s.layer.Addr().String())), s.layer.Addr().String())
		}
	}
	out.FleetID = n.pinToPaste().String()
	err := n.ask(ctx, func(now time.Time) {
		own := n.form.Own()
		if left, armed, ok := n.list.Window(now); ok {
			out.Window = control.Window{Armed: true, LeftMS: left.Milliseconds(), ArmedAt: armed.Unix()}
		}
		if own.Target != nil {
			a := &control.Asking{Cluster: own.Target.Cluster, Leader: own.Target.LeaderID, Endpoint: own.Target.Endpoint}
			if n.asking != nil {
				a.AskedMS = now.Sub(n.asking.began).Milliseconds()
				if !n.asking.heard.IsZero() {
					ms := now.Sub(n.asking.heard).Milliseconds()
					a.HeardMS, a.Outcome = &ms, n.asking.last.String()
				}
			}
			out.Asks = a
		}
		out.Seeds = n.seedStatus()
		out.Discovery = n.discoveryStatus()
		out.Peers.ForeignClear = n.form.ForeignClear(now)
		if n.port != nil {
			for _, p := range n.exchange.Peers(now) {
				out.Peers.Heard++
				if p.Authenticated {
					out.Peers.Authenticated++
				}
			}
			out.Peers.ForeignFleets = len(n.exchange.Foreign(now))
		}
	})
	if err != nil {
		return nil, err
	}
	return encode(out)
}

func (n *Node) discoveryStatus() control.DiscoveryStatus {
	out := control.DiscoveryStatus{On: n.port != nil, Interfaces: []control.InterfaceStatus{}}
	if n.port == nil {
		out.Said = cmp.Or(n.discoveryOff, "--discovery is empty")
		return out
	}
	out.Listener, out.Answering = n.port.ListenerAddr().String(), n.port.AnsweringAddr().String()
	for _, c := range n.port.Interfaces() {
		i := control.InterfaceStatus{Name: c.Name, Used: c.Used}
		if c.Addr.IsValid() {
			i.Address = c.Addr.String()
		}
		if !c.Used {
			i.Why = c.Why
		}
		out.Interfaces = append(out.Interfaces, i)
	}
	return out
}

func (n *Node) clusterStatus(ctx context.Context) (json.RawMessage, error) {
	v := n.view.Load()
	out := control.ClusterStatus{V: control.DocumentVersion, Cluster: v.Cluster(), Created: v.Created(), Leader: n.leaderDoc(), View: n.pictured(),
		Members: []control.MemberStatus{}, PreApprove: []control.PreApproved{}, Settings: []control.Setting{}, Conditions: n.board.List()}
	out.AgeMS = max(time.Now().UnixMilli()-int64(v.Created())*1000, 0)
	heard, now, err := n.heardAll(ctx)
	if err != nil {
		return nil, err
	}
	for m := range v.Members() {
		out.Members = append(out.Members, n.memberStatus(m, heard[m.ID], now))
	}
	for _, p := range v.PreApprovals() {
		out.PreApprove = append(out.PreApprove, control.PreApproved{ID: p.ID, Key: p.Key.String(), Seat: p.Seat})
	}
	for _, row := range fleet.Settings {
		value, _ := v.Setting(row.Name)
		out.Settings = append(out.Settings, control.Setting{Name: row.Name, Value: value, Default: !v.SettingSet(row.Name)})
	}
	return encode(out)
}

// heardAll is when each member was last heard, and the time of that.
func (n *Node) heardAll(ctx context.Context) (heard map[string]time.Time, now time.Time, err error) {
	heard = map[string]time.Time{}
	err = n.ask(ctx, func(t time.Time) {
		now = t
		for id, at := range n.lastHeard {
			heard[id] = at
		}
		if n.port != nil {
			for _, p := range n.exchange.Authenticated(t) {
				if p.LastBeacon.After(heard[p.ID]) {
					heard[p.ID] = p.LastBeacon
				}
			}
		}
	})
	return heard, now, err
}

// memberStatus is one member as it is shown; heard is when a word of it came last, zero: never.
func (n *Node) memberStatus(m fleet.Member, heard, now time.Time) control.MemberStatus {
	s := control.MemberStatus{ID: m.ID, Key: m.Key.String(), Name: m.Name, Labels: m.Labels, Role: string(m.Role), Platform: m.Platform, Version: m.Version,
		Provisioning: provisioningText(m), Endpoints: m.Endpoints, Self: m.ID == n.id, Arrived: m.Arrived, Admitted: m.Admitted, AdmittedBy: m.AdmittedBy}
	if m.Admitted > 0 {
		s.AdmittedMS = max(time.Now().Unix()-m.Admitted, 0) * 1000
	}
	switch {
	case m.ID == n.id, n.hub.ByKey(m.Key) != nil:
		zero := int64(0)
		s.HeardMS = &zero
	case !heard.IsZero():
		ms := now.Sub(heard).Milliseconds()
		s.HeardMS = &ms
	}
	return s
}

func provisioningText(m fleet.Member) string {
	p := m.Provision
	switch {
	case p.Parked:
		return "parked: " + p.LastError
	case p.LastError != "":
		return "failing: " + p.LastError
	case p.LastSuccess != 0:
		return "provisioned"
	case p.Component == "server":
		return "configured"
	}
	return "-"
}

func (n *Node) adminAddr() string {
	if n.http == nil {
		return ""
	}
	return n.http.Addr()
}

// endpoints are where this machine serves, as its peers are told.
func (n *Node) endpoints() wire.Endpoints {
	e := wire.Endpoints{FC: n.fcEndpoint()}
	if b := n.serving.Load(); b == nil || b.cons != nil {
		e.Raft = n.endpoint(n.consensusPort())
	}
	return e
}

// consensusPort is where voters reach this machine, or would; 0 while only the kernel could tell.
func (n *Node) consensusPort() uint16 {
	if b := n.serving.Load(); b != nil && b.raftPort != 0 {
		return b.raftPort
	}
	return n.raftPort
}

func (n *Node) fcEndpoint() string { return n.endpoint(n.fcPort) }

// endpoint is host:port as advertised, empty while this machine has no address.
func (n *Node) endpoint(port uint16) string {
	if port == 0 {
		return "" // the kernel has not chosen it yet
	}
	if host := n.advertisedHost; host != "" {
		p := port
		if n.advertisedPort != 0 && port == n.fcPort {
			p = n.advertisedPort
		}
		return net.JoinHostPort(host, strconv.Itoa(int(p)))
	}
	a := n.addressText.Load()
	if a == nil || !a.IsValid() {
		return ""
	}
	return net.JoinHostPort(a.String(), strconv.Itoa(int(port)))
}

// Peek reads what a verb needs of a state directory that a node may be using.
func Peek(path string) (statedir.Record, string, error) {
	rec, key, err := statedir.Peek(path)
	return rec, key.String(), err
}
